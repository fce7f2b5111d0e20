//! Tests fields that are set by name, series of sessions, and settings from files.

use super::*;

/// Runs `session` with these words and returns its output.
fn session_command(words: &[&str]) -> Result<String, Failure> {
    let all = ["flyswarm", "session"].iter().chain(words);
    let arguments = Arguments::try_parse_from(all).map_err(|error| Failure::Input(error.to_string()))?;
    let mut out = Vec::new();
    run(arguments.command, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_same_words_make_another_session_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = Session::load(new(folder.path(), &[]).unwrap()).unwrap();
    let second = Session::load(new(folder.path(), &["--force"]).unwrap()).unwrap();
    assert_ne!(first.run.id, second.run.id);
    assert_ne!(first.id(), second.id());
    assert!(first.data.checks.compare && first.run.created > 1_700_000_000);
    let off = Session::load(new(folder.path(), &["--force", "--set", "data.check_columns=false"]).unwrap())
        .unwrap();
    assert!(!off.data.checks.compare);
    let shown = shown(&folder.path().join("session.toml"), false).unwrap();
    assert!(shown.contains(&format!("run id       {}, made ", hex::encode(off.run.id))), "{shown}");
}

#[test]
fn the_next_session_of_a_series_has_the_old_ones_settings_and_its_id_as_parent() {
    let folder = tempfile::tempdir().unwrap();
    let path = new(
        folder.path(),
        &["--set", "flynn.m=512", "--set", "privacy.min_contributors=2", "--set", "timing.start_wait_ms=77"],
    )
    .unwrap();
    let old = Session::load(&path).unwrap();
    let file = path.to_str().unwrap();
    session_command(&["next", file]).unwrap();
    let second = Session::load(folder.path().join("digits-2.toml")).unwrap();
    let series = second.run.series.unwrap();
    assert_eq!((series.number, series.parent, &*second.name), (2, old.id(), "digits-2"));
    assert_ne!(second.run.id, old.run.id);
    let again = Session { name: old.name.clone(), run: old.run, ..second.clone() };
    assert_eq!(again, old, "nothing else changes");
    // In the third session, one peer joins, one leaves, and the settings are others.
    let settings = folder.path().join("best.toml");
    let lines = "# in [data]\nscaling = \"standard\"\ndensify = true\n\n[flynn]\nm = 300\ns = 4\nrho = 8\ngamma = 0.3\nscore = \"log\"\n";
    fs::write(&settings, lines).unwrap();
    let (second_file, four, five) = (folder.path().join("digits-2.toml"), peer(4), peer(5));
    let words = ["next", second_file.to_str().unwrap(), "--remove", "peer-1", "--add", &four, "--add", &five];
    let json = session_command(&[&words[..], &["--settings", settings.to_str().unwrap(), "--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
    let third = Session::load(folder.path().join("digits-3.toml")).unwrap();
    assert_eq!((&value["number"], &value["session"]), (&3.into(), &third.id().to_string().into()));
    let warning = value["warning"].as_str().unwrap();
    assert!(
        warning.contains("At least 2 peers must join, leave or change rows together")
            && warning.contains("3 peers change"),
        "{warning}"
    );
    let names: std::collections::BTreeSet<_> = third.roster.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["peer-2", "peer-3", "peer-4", "peer-5"].into());
    let model = ModelSpec { m: 300, s: 4, rho: 8, gamma: 0.3, score: Score::Log };
    assert_eq!(
        (third.task.part::<super::ModelSpec>(), third.data.scaling, third.data.densify),
        (Some(&model), Scaling::Standard, true)
    );
    assert_eq!((third.min_peers, third.run.place()), (3, 3));
    for (words, expected) in [
        (&["next", file, "--remove", "nobody"][..], "--remove nobody: no peer of "),
        (&["next", file], "digits-2.toml: exists; --force overwrites it"),
        (&["next", file, "--remove", "peer-1", "--force"], "the length of roster is 2, must be 3 to 1024"),
        (&["next", file, "--settings", file, "--force"], "settings as `tune --out` writes them are expected"),
    ] {
        let told = session_command(words).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{told}");
    }
}

#[test]
fn the_next_summary_or_regression_refuses_a_change_of_too_few_peers_and_warns_of_few_rows() {
    for task in [&["summary"][..], &["glm", "--outcome", "age"]] {
        refuses_few_peers(task);
    }
}

fn refuses_few_peers(task: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("table.toml");
    let (file, peers) = (out.to_str().unwrap(), [1, 2, 3, 4, 5].map(peer));
    let mut words =
        [&["new"], task, &["--name", "table", "--features", "age,weight", "--out", file]].concat();
    peers.iter().for_each(|peer| words.extend(["--peer", peer]));
    session_command(&words).unwrap();
    let (six, seven, eight) = (peer(6), peer(7), peer(8));
    for few in [&["--add", &*six][..], &["--remove", "peer-1"], &["--add", &six, "--remove", "peer-1"]] {
        let told = session_command(&[&["next", file][..], few].concat()).unwrap_err();
        let expected = "a difference has no threshold. Change at least 3 peers at once";
        assert!(told.code() == 2 && told.to_string().contains(expected), "{told}");
        assert!(!folder.path().join("table-2.toml").exists());
    }
    for enough in [&[][..], &["--add", &six, "--add", &seven, "--add", &eight]] {
        let words = [&["next", file, "--force", "--json"][..], enough].concat();
        let json: serde_json::Value = serde_json::from_str(&session_command(&words).unwrap()).unwrap();
        let warning = json["warning"].as_str().unwrap();
        assert!(
            warning.starts_with("the file does not show which rows change: if between the sessions few rows"),
            "{warning}"
        );
    }
}

#[test]
fn any_field_is_set_by_its_name_and_refused_in_the_words_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for (more, expected) in [
        ("--set flynn.m=true", "flynn.m: "),
        ("--set flynn.colour=1", "flynn.colour: unknown field `colour`, expected one of "),
        ("--set colour=1", "colour: unknown field `colour`, expected one of `name`, `run_id`"),
        ("--set timing.linger_ms=a", "timing.linger_ms: found the text"),
        ("--set committee.faults=byzantine", "byzantine needs four members"),
        ("--set committee.members=[\"peer-1\",\"peer-2\",\"nobody\"]", "committee.members is \"nobody\""),
        ("--set flynn", "must be FIELD=VALUE"),
    ] {
        let told = message(new(folder.path(), &more.split(' ').collect::<Vec<_>>()));
        assert!(told.contains(expected), "{more}: {told}");
    }
    let fourth = peer(4);
    let members = "committee.members=[\"peer-4\", \"peer-1\", \"peer-2\", \"peer-3\"]";
    let more = ["--peer", &fourth, "--set", "committee.faults=byzantine", "--set", members];
    let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
    assert_eq!((session.faults(), session.committee().len()), (crate::session::Faults::Byzantine, 4));
}

#[test]
fn settings_come_from_a_file_or_from_rows() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let lines = "scaling = { soft-bins = { bins = 4 } }\ndensify = false\n[flynn]\nm = \"2d\"\ns = 3\nrho = 8\ngamma = 0.3\nscore = \"log\"\n";
    let settings = write("best.toml", lines);
    let session =
        Session::load(new(folder.path(), &["--settings", &settings, "--set", "flynn.rho=9"]).unwrap())
            .unwrap();
    let model = ModelSpec { m: 512, s: 3, rho: 9, gamma: 0.3, score: Score::Log };
    assert_eq!(
        (session.task.part::<super::ModelSpec>(), session.data.scaling),
        (Some(&model), Scaling::SoftBins { bins: 4 })
    );
    let bad = write("bad.toml", "scaling = \"standard\"\n");
    let told = message(new(folder.path(), &["--settings", &bad, "--force"]));
    assert!(told.contains("bad.toml: line 1: missing field"), "{told}");
    // Makes rows of two classes that are easy to distinguish.
    let rows: String = (0..60)
        .map(|i| format!("{},{},{}\n", i % 2 * 10 + i % 7, i % 5, if i % 2 == 0 { "well" } else { "sick" }))
        .collect();
    let rows = write("rows.csv", &format!("age,weight,kind\n{rows}"));
    let out = folder.path().join("made.toml");
    let mut words =
        vec!["new", "flynn", "--name", "n", "--from", &rows, "--tuning", "1", "--out", out.to_str().unwrap()];
    let peers = [peer(1), peer(2), peer(3)];
    peers.iter().for_each(|peer| words.extend(["--peer", peer]));
    session_command(&words).unwrap();
    let session = Session::load(&out).unwrap();
    assert_eq!(
        (session.data.features, &session.data.columns[..]),
        (2, &["age".to_owned(), "weight".into()][..])
    );
    assert_eq!(session.data.classes, ["sick", "well"]);
    for (more, expected) in [
        (&["--epsilon", "1"][..], "--tuning is given, must be left out with --epsilon"),
        (&["--settings", &settings], "--tuning is given, must be left out with --settings"),
        (&["--from", &rows, "--from", &rows], "--from: one file describes the columns"),
    ] {
        let told = session_command(&[&words[..], more, &["--force"]].concat()).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{told}");
    }
}
