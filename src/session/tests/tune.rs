//! Tests sessions of the task `tune`.

use super::*;

/// Returns the minimal file for the task `tune`, with these lines as its settings.
pub(super) fn tuning(settings: &str) -> String {
    let tune = format!("[tune]\n{settings}[[roster]]");
    minimal().replacen("\"flynn\"", "\"tune\"", 1).replacen("[[roster]]", &tune, 1)
}

pub(super) const SETTING: &str = "[[tune.setting]]\nscaling = \"center\"\nm = \"2d\"\ns = 2\nrho = 3\n";

#[test]
fn settings_to_compare_are_read_with_their_own_d_and_written_again() {
    let bins =
        "[[tune.setting]]\nscaling = { soft-bins = { bins = 4 } }\nm = \"2d\"\ns = \"0.01d\"\nrho = 3\n";
    let read = Session::parse(&tuning(&format!("folds = 5\n{SETTING}{bins}"))).unwrap();
    let Some(spec) = read.task.get::<crate::tasks::TuneSpec>() else { panic!("{:?}", read.task) };
    let [own, center, bins] = spec.settings(&read.data)[..] else { panic!("{spec:?}") };
    assert_eq!((own.m, own.s, own.scaling), (spec.model.m, spec.model.s, Scaling::None));
    assert_eq!((center.m, center.s), (2 * 784, 2));
    assert_eq!((bins.m, bins.s), (2 * 4 * 784, 31));
    assert_eq!(Session::parse(&read.to_toml()).unwrap(), read);
    let ids = ["", "folds = 2\n", "folds = 4\n"]
        .map(|folds| Session::parse(&tuning(&format!("{folds}{SETTING}"))).unwrap());
    assert_eq!(ids[0].task.get::<TuneSpec>().unwrap().folds, 3);
    assert!(ids[0].id() != ids[1].id() && ids[1].id() != ids[2].id());
    let other = Session::parse(&tuning(&SETTING.replace("rho = 3", "rho = 4"))).unwrap();
    let differing = |a: &Session, b: &Session| {
        let fields = a.fields().into_iter().zip(b.fields()).filter(|(a, b)| a != b);
        fields.map(|((name, _), _)| name).collect::<Vec<_>>()
    };
    assert_eq!(differing(&ids[0], &other), ["tune.settings"]);
    assert_eq!(differing(&ids[0], &ids[1]), ["tune.folds"]);
}

#[test]
fn settings_that_cannot_be_compared_are_refused_by_their_number() {
    let refused = |text: &str| Session::parse(text).unwrap_err().to_string();
    for (text, part) in [
        (with("\"flynn\"", "\"tune\""), "task is tune, must be flynn without a [tune]"),
        (
            tuning(SETTING).replacen("\"tune\"", "\"flynn\"", 1),
            "task is flynn, must be tune if there is a [tune]",
        ),
        (tuning(&format!("folds = 1\n{SETTING}")), "tune.folds is 1, must be 2 to 20"),
        (tuning(&SETTING.replace("s = 2", "s = 785")), "flynn.s of tune.setting 1 is 785, must be 2 to 784"),
        (
            tuning(&format!("{SETTING}{}", SETTING.replace("rho = 3", "rho = 0"))),
            "flynn.rho of tune.setting 2 is 0",
        ),
        (tuning("setting = []\n"), "the length of tune.setting is 0, must be 1 to 64"),
        (
            tuning(&SETTING.replace("\"2d\"", "50000000")),
            "the sum of folds x m x classes x 4 bytes over all settings is 1204816896, must be at most 1073741824",
        ),
    ] {
        let text = refused(&text);
        assert!(text.starts_with(part), "{text}");
    }
}
