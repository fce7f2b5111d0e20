//! Tests sessions of a task from outside this crate.

use super::*;

/// Returns a file of the task `custom` with these lines in `[custom]` and this data section.
fn custom(lines: &str, data: &str) -> String {
    let head = format!(
        "name = \"c\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"custom\"\n[data]\nfeatures = 4\n{data}\n[custom]\n{lines}\n"
    );
    let peer = |i| format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i));
    head + &(0..3).map(peer).collect::<String>()
}

#[test]
fn name_and_bytes_of_a_custom_task_enter_the_id_and_are_written_again() {
    let text = custom("name = \"fed-avg-2\"\nbytes = \"00ff7f\"", "");
    let read = Session::parse(&text).unwrap();
    let spec = CustomSpec { name: "fed-avg-2".into(), bytes: vec![0, 255, 127] };
    assert_eq!(read.task, TaskSpec::from(spec.clone()));
    assert_eq!(
        (read.task.part::<ModelSpec>(), read.task.part::<SketchSpec>(), read.task.name()),
        (None, None, "custom")
    );
    assert_eq!(Session::parse(&read.to_toml()).unwrap(), read);
    let names: Vec<_> = read.fields().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[10..13], ["custom.name", "custom.bytes", "privacy.min_contributors"]);
    let differing = |task: CustomSpec| {
        let other = Session { task: TaskSpec::from(task), ..read.clone() }.check().unwrap();
        assert_ne!(other.id(), read.id());
        other.differing_fields(&read.fields())
    };
    assert_eq!(differing(CustomSpec { name: "fed-avg".into(), ..spec.clone() }), ["custom.name"]);
    assert_eq!(differing(CustomSpec { bytes: vec![0, 255], ..spec }), ["custom.bytes"]);
    // A file without parameters, but with classes.
    let bare = Session::parse(&custom("name = \"a\"", "classes = [\"x\", \"y\"]")).unwrap();
    assert_eq!(bare.task, TaskSpec::from(CustomSpec { name: "a".into(), bytes: Vec::new() }));
    assert_eq!(Session::parse(&bare.to_toml()).unwrap(), bare);
}

#[test]
fn a_custom_task_is_bounded_and_goes_with_no_other() {
    let name = |name: &str| custom(&format!("name = \"{name}\""), "");
    let bytes = |bytes: &str| custom(&format!("name = \"a\"\nbytes = \"{bytes}\""), "");
    let longest = Session::parse(&name(&"x".repeat(64))).unwrap();
    assert_eq!(Session::parse(&longest.to_toml()).unwrap(), longest);
    let largest = Session::parse(&bytes(&"5a".repeat(65_536))).unwrap();
    assert_eq!(Session::parse(&largest.to_toml()).unwrap(), largest);
    let flynn = "[flynn]\nm = 8\ns = 2\nrho = 1\ngamma = 0\n[custom]";
    let rule = "must be 1 to 64 characters of a to z, 0 to 9 and -";
    for (text, expected) in [
        (name(""), format!("custom.name is \"\", {rule}")),
        (name("Fed"), format!("custom.name is \"Fed\", {rule}")),
        (name("a b"), rule.to_owned()),
        (name("\u{e4}"), rule.to_owned()),
        (name(&"x".repeat(65)), rule.to_owned()),
        (bytes(&"5a".repeat(65_537)), "the length of custom.bytes is 65537, must be at most 65536".into()),
        (bytes("5A"), "custom.bytes is \"5A\", must be pairs of the hexadecimal digits".into()),
        (bytes("5"), "custom.bytes is \"5\", must be pairs of".into()),
        (bytes("zz"), "custom.bytes is \"zz\", must be pairs of".into()),
        (custom("bytes = \"5a\"", ""), "missing field `name`".into()),
        (custom("name = \"a\"\nkind = 1", ""), "unknown field `kind`".into()),
        (
            name("a").replacen("[custom]\nname = \"a\"", "", 1),
            "[custom] is missing, must be given with".into(),
        ),
        (name("a").replacen("\"custom\"", "\"sketch\"", 1), "task is sketch, must be custom if there".into()),
        (name("a").replacen("[custom]", flynn, 1), "task is custom, must be flynn or tune if there".into()),
        (
            name("a").replacen("[custom]", "[privacy]\nepsilon = 1\ntop = 1\n[custom]", 1),
            "task is custom, must be flynn, sketch or fedavg with privacy.epsilon".into(),
        ),
    ] {
        let error = refusal(&text);
        assert!(error.contains(&expected), "\n  said {error}\nexpected {expected}");
    }
}
