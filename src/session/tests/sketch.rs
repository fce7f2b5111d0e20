//! Sessions of the task `sketch`.

use super::*;
use crate::sketch::distribution::Family;

#[test]
fn a_sketch_session_has_no_classes_and_its_fields_enter_no_other_id() {
    let head = "name = \"s\"\ntask = \"sketch\"\n[data]\nfeatures = 784\n";
    let text = |fields: &str| {
        let mut text = format!("{head}{fields}\n");
        (0..5).for_each(|i| text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i)));
        text
    };
    let read = Session::parse(&text("")).unwrap();
    assert_eq!((read.sketch, read.flynn, read.data.classes.len()), (Some(SketchSpec::default()), FlynnSpec::NONE, 0));
    assert_eq!(Session::parse(&read.to_toml()).unwrap(), read);
    assert!(read.fields().iter().any(|(name, _)| name == "sketch.rows"));
    assert!(!session(5).fields().iter().any(|(name, _)| name.starts_with("sketch.")));
    let every = "scaling = \"center\"\n[sketch]\nhash = \"srp\"\nrows = 7\nrange = 16\npublish = true\npairwise = true\nactive = 4\nchosen = 3\ntemperature = 0.5";
    let every = Session::parse(&text(every)).unwrap();
    assert_eq!(Session::parse(&every.to_toml()).unwrap(), every);
    for (fields, expected) in [
        ("classes = [\"a\", \"b\"]", "the length of data.classes is 2, must be 0 with the task sketch"),
        ("densify = true", "data.densify is true, must be false with the task sketch"),
        ("[sketch]\nrange = 63", "sketch.range is 63, must be a power of two with the hash srp"),
        ("[sketch]\nrange = 1", "sketch.range is 1, must be 2 to 65536"),
        ("[sketch]\nrows = 0", "sketch.rows is 0, must be 1 to 8388608"),
        ("[sketch]\nrows = 300000", "sketch.rows x sketch.range is 19200000, must be at most 16777216"),
        ("[sketch]\nrows = 60000", "log2 of sketch.range x the dimension d is 282240000, must be at most 268435456"),
        (
            "scaling = \"center\"\n[sketch]\nhash = \"minhash\"",
            "data.scaling is center, must be \"none\" with the hash minhash",
        ),
        ("[sketch]\nchosen = 2", "sketch.publish is false, must be true where peers are chosen"),
        (
            "[sketch]\npublish = true\nchosen = 3\nactive = 2",
            "sketch.active is 2, must be 0 or at least sketch.chosen, 3",
        ),
        ("[sketch]\npublish = true\nchosen = 6", "sketch.chosen is 6, must be 0 to 5"),
        ("[sketch]\ntemperature = 0", "sketch.temperature is 0, must be 0.001 to 1000"),
        ("[sketch]\ncolour = 1", "unknown field `colour`"),
    ] {
        let error = refusal(&text(fields));
        assert!(error.contains(expected), "\n  said {error}\nexpected {expected}");
    }
    let spec = SketchSpec { hash: Family::Minhash, range: 65_536, rows: 256, pairwise: true, ..SketchSpec::default() };
    let large = Session { task: TaskKind::Sketch, flynn: FlynnSpec::NONE, sketch: Some(spec), ..session(17) };
    let large =
        Session { data: DataSpec { classes: Vec::new(), scaling: Scaling::None, ..large.data.clone() }, ..large };
    let error = large.check().unwrap_err().to_string();
    assert!(error.contains("x the length of roster is 285212672, must be at most 268435456"), "{error}");
    let error = refusal(&with("[flynn]", "[sketch]\n[flynn]"));
    assert!(error.contains("task is flynn, must be sketch where there is a [sketch]"), "{error}");
    assert!(
        refusal(&with("classes = [\"a\", \"b\"]\n", "")).contains("the length of data.classes is 0, must be 2 to 1000")
    );
}
