//! Tests sessions of the task `sketch`, and sessions that draw peers.

use super::tune::{SETTING, tuning};
use super::*;
use crate::sketch::distribution::Family;

#[test]
fn a_sketch_session_has_no_classes_and_its_fields_enter_no_other_id() {
    let head = "name = \"s\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"sketch\"\n[data]\nfeatures = 784\n";
    let text = |fields: &str| {
        let mut text = format!("{head}{fields}\n");
        (0..5).for_each(|i| text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i)));
        text
    };
    let read = Session::parse(&text("")).unwrap();
    assert_eq!((&read.task, read.data.classes.len()), (&TaskSpec::from(SketchSpec::default()), 0));
    assert_eq!(read.task.part::<ModelSpec>(), None);
    assert_eq!(Session::parse(&read.to_toml()).unwrap(), read);
    assert!(read.fields().iter().any(|(name, _)| name == "sketch.rows"));
    assert!(!session(5).fields().iter().any(|(name, _)| name.starts_with("sketch.")));
    let every = "scaling = \"center\"\n[sketch]\nhash = \"srp\"\nrows = 7\nrange = 16\nopen_distances = true\npairwise = true\nactive = 4\nchosen = 3\ntemperature = 0.5";
    let every = Session::parse(&text(every)).unwrap();
    assert_eq!(Session::parse(&every.to_toml()).unwrap(), every);
    for (fields, expected) in [
        ("classes = [\"a\", \"b\"]", "the length of data.classes is 2, must be 0 with the task sketch"),
        ("densify = true", "data.densify is true, must be false with the task sketch"),
        ("[sketch]\nrange = 63", "sketch.range is 63, must be a power of two with the hash srp"),
        ("[sketch]\nrange = 1", "sketch.range is 1, must be 2 to 65536"),
        ("[sketch]\nrows = 0", "sketch.rows is 0, must be 1 to 8388608"),
        ("[sketch]\nrows = 300000", "sketch.rows x sketch.range is 19200000, must be at most 16777216"),
        (
            "[sketch]\nrows = 60000",
            "log2 of sketch.range x the numbers of a row is 282240000, must be at most 268435456",
        ),
        (
            "scaling = \"center\"\n[sketch]\nhash = \"minhash\"",
            "data.scaling is center, must be \"none\" with the hash minhash",
        ),
        ("[sketch]\nchosen = 2", "sketch.open_distances is false, must be true if peers are chosen"),
        (
            "[sketch]\nopen_distances = true\nchosen = 3\nactive = 2",
            "sketch.active is 2, must be 0 or at least 3 (sketch.chosen)",
        ),
        ("[sketch]\nopen_distances = true\nchosen = 6", "sketch.chosen is 6, must be 0 to 5"),
        ("[sketch]\ntemperature = 0", "sketch.temperature is 0, must be 0.001 to 1000"),
        ("[sketch]\ncolour = 1", "unknown field `colour`"),
    ] {
        let error = refusal(&text(fields));
        assert!(error.contains(expected), "\n  said {error}\nexpected {expected}");
    }
    let spec = SketchSpec {
        hash: Family::Minhash,
        range: 65_536,
        rows: 256,
        pairwise: true,
        ..SketchSpec::default()
    };
    let large = Session { task: TaskSpec::from(spec), ..session(17) };
    let large = Session {
        data: DataSpec { classes: Vec::new(), scaling: Scaling::None, ..large.data.clone() },
        ..large
    };
    let error = large.check().unwrap_err().to_string();
    assert!(error.contains("x the length of roster is 285212672, must be at most 268435456"), "{error}");
    let error = refusal(&with("[flynn]", "[sketch]\n[flynn]"));
    assert!(error.contains("task is flynn, must be sketch if there is a [sketch]"), "{error}");
    assert!(
        refusal(&with("classes = [\"a\", \"b\"]\n", ""))
            .contains("the length of data.classes is 0, must be 2 to 1000")
    );
}

/// Returns the smallest file of a session that draws peers, with these lines in `[sketch]` and `[privacy]`.
fn selecting(sketch: &str, privacy: &str) -> String {
    let more = format!("[sketch]\n{sketch}\n[privacy]\n{privacy}\n[[roster]]");
    with("\"flynn\"", "\"flynn\"\nselect = \"sketch\"").replacen("[[roster]]", &more, 1)
}

#[test]
fn a_session_that_draws_its_peers_is_read_with_its_sketch_and_written_again() {
    let read = Session::parse(&selecting("rows = 9\nchosen = 3", "")).unwrap();
    let spec = SketchSpec { rows: 9, chosen: 3, open_distances: true, ..SketchSpec::default() };
    assert_eq!(
        (read.task.part::<SketchSpec>(), read.selects(), read.data.classes.len()),
        (Some(&spec), true, 2)
    );
    assert_eq!(Session::parse(&read.to_toml()).unwrap(), read);
    let names = |session: &Session| session.fields().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let plain = Session::parse(&minimal()).unwrap();
    let more: Vec<_> = names(&read).into_iter().filter(|name| !names(&plain).contains(name)).collect();
    assert!(
        more[0] == "select" && more.len() == 9 && more[1..].iter().all(|name| name.starts_with("sketch."))
    );
    assert!(!plain.selects() && plain.id() != read.id());
    // The sketch uses the rows before they are padded.
    let densified = selecting("chosen = 3", "").replacen("[flynn]", "densify = true\n[flynn]", 1);
    assert_eq!(Session::parse(&densified).unwrap().data.width(), 784);
}

#[test]
fn a_draw_that_makes_no_sense_is_refused_with_the_reason() {
    let chosen = "chosen = 3";
    for (text, expected) in [
        (selecting("rows = 9", ""), "sketch.chosen is 0, must be at least 3 with select (3 for a sum, and"),
        (selecting("chosen = 2", ""), "sketch.chosen is 2, must be at least 3 with select"),
        (selecting("chosen = 3\npairwise = true", ""), "sketch.pairwise is true, must be false with select"),
        (
            selecting("chosen = 3\nopen_distances = false", ""),
            "sketch.open_distances is false, must be true if peers are chosen",
        ),
        (selecting("chosen = 4", ""), "sketch.chosen is 4, must be 0 to 3"),
        (
            selecting(chosen, "epsilon = 1\ntop = 1"),
            "select is sketch, must be left out with privacy.epsilon: it would draw by distances of exact",
        ),
        (
            selecting("chosen = 3\nhash = \"minhash\"", "").replacen(
                "[flynn]",
                "scaling = \"center\"\n[flynn]",
                1,
            ),
            "data.scaling is center",
        ),
        (with("\"flynn\"", "\"flynn\"\nselect = \"sketch\""), "sketch.chosen is 0, must be at least 3"),
        (
            with("\"flynn\"", "\"flynn\"\nselect = \"lot\""),
            "line 5: unknown variant `lot`, expected `sketch`",
        ),
        (
            tuning(SETTING).replacen("\"tune\"", "\"tune\"\nselect = \"sketch\"", 1),
            "task is tune, must be flynn if there is a select",
        ),
        (
            with("[flynn]", "[sketch]\nchosen = 3\n[flynn]"),
            "task is flynn, must be sketch if there is a [sketch], or flynn with select = \"sketch\"",
        ),
    ] {
        let error = refusal(&text);
        assert!(error.contains(expected), "\n  said {error}\nexpected {expected}");
    }
    let mut session = session(5);
    let sketch = SketchSpec { open_distances: true, chosen: 3, ..SketchSpec::default() };
    session.task =
        TaskSpec::from(FlynnSpec { model: *model(&mut session), select: Some(sketch), evaluate: None });
    session.privacy.min_contributors = 4;
    let error = session.check().unwrap_err().to_string();
    assert!(error.starts_with("sketch.chosen is 3, must be at least 4 with select"), "{error}");
}

#[test]
fn a_private_sketch_session_has_no_top_and_no_mode_that_needs_a_total_alone() {
    let text = |lines: &str| {
        let head = "name = \"s\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"sketch\"\n[data]\nfeatures = 8\nscaling = \"unit-norm\"\n";
        let mut text = format!("{head}[sketch]\nrows = 4\n[privacy]\n{lines}\n");
        (0..5).for_each(|i| text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i)));
        text
    };
    for (lines, mode, each) in [
        ("epsilon = 2", NoiseMode::PerParty, "0.4"),
        ("epsilon = 2\nmode = \"parallel\"", NoiseMode::Parallel, "2"),
    ] {
        let read = Session::parse(&text(lines)).unwrap();
        let noise = read.privacy.noise.unwrap();
        assert_eq!((noise.top, noise.mode, noise.each(&read).to_string()), (0, mode, each.to_owned()));
        assert_eq!(Session::parse(&read.to_toml()).unwrap(), read);
        let names: Vec<_> = read.fields().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"privacy.epsilon".into()) && !names.contains(&"privacy.top".into()));
    }
    for (lines, expected) in [
        ("epsilon = 1\ntop = 5", "privacy.top is 5, must be left out with the task sketch"),
        (
            "epsilon = 1\nmode = \"central\"",
            "privacy.mode is central, must be per-party or parallel with the task sketch: each peer's score is made",
        ),
        ("epsilon = 1\ncolluders = 1", "privacy.colluders is 1, must be left out with the mode per-party"),
        ("mode = \"parallel\"", "privacy.mode is given, must be left out without privacy.epsilon"),
    ] {
        let error = refusal(&text(lines));
        assert!(error.contains(expected), "\n  said {error}\nexpected {expected}");
    }
    let centred = text("epsilon = 1").replacen("unit-norm", "center", 1);
    assert!(refusal(&centred).contains("data.scaling is center, must be none, unit-norm or range"));
}
