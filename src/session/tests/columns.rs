//! Tests the limits of columns, and the setting whether columns are compared.

use super::*;

fn named() -> Session {
    let mut session = session(5);
    session.data.columns = (0..64).map(|i| format!("f{i}")).collect();
    session.check().unwrap()
}

#[test]
fn limits_of_columns_are_read_as_they_are_written_and_change_the_id() {
    let plain = named();
    let mut limited = plain.clone();
    let mut limit =
        |name: &str, min, max| limited.data.checks.limits.insert(name.into(), Bounds { min, max });
    limit("f3", Some(0.0), Some(120.5));
    limit("f10", None, Some(-1.0));
    limit("f2", Some(1e30), None);
    let limited = limited.check().unwrap();
    let read = Session::parse(&limited.to_toml()).unwrap();
    assert_eq!(read, limited);
    assert_ne!(limited.id(), plain.id());
    let place = limited.fields().iter().position(|(name, _)| name == "columns").unwrap();
    assert_eq!(plain.fields().len() + 1, limited.fields().len());
    let mut other = limited.clone();
    other.data.checks.limits.get_mut("f10").unwrap().min = Some(-7.0);
    assert_ne!(other.fields()[place], limited.fields()[place]);
    let minus = Bounds { min: Some(-0.0), max: None };
    other.data.checks.limits = [("f1".to_owned(), minus)].into();
    let mut zero = other.clone();
    zero.data.checks.limits.get_mut("f1").unwrap().min = Some(0.0);
    assert_eq!(other.check().unwrap().id(), zero.check().unwrap().id());
}

#[test]
fn limits_hold_their_ends() {
    let bounds = Bounds { min: Some(-1.0), max: Some(2.5) };
    assert!([-1.0, 0.0, 2.5].iter().all(|&value| bounds.holds(value)));
    assert!([-1.000_001, 2.500_001, f32::INFINITY].iter().all(|&value| !bounds.holds(value)));
    assert!(Bounds { min: None, max: Some(0.0) }.holds(f32::MIN));
}

#[test]
fn limits_that_cannot_be_are_refused() {
    for (name, min, max, expected) in [
        ("age", Some(0.0), None, "a name in columns is \"age\", must be one of data.columns"),
        ("f1", None, None, "columns.\"f1\" is empty, must be min, max or both"),
        ("f1", Some(2.0), Some(1.0), "columns.\"f1\".max is 1, must be at least min, 2"),
        ("f1", Some(f64::NAN), None, "columns.\"f1\".min is NaN, must be finite"),
        ("f1", None, Some(f64::INFINITY), "columns.\"f1\".max is inf, must be finite"),
    ] {
        let mut session = named();
        session.data.checks.limits.insert(name.into(), Bounds { min, max });
        assert_eq!(session.check().unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_file_compares_columns_unless_it_is_private_or_says_no() {
    let of = |text: &str| Session::parse(text).map(|session| session.data.checks.compare);
    assert!(of(&minimal()).unwrap());
    assert!(!of(&with("[flynn]", "check_columns = false\n[flynn]")).unwrap());
    let private = with("[[roster]]", "[privacy]\nepsilon = 1.0\ntop = 5\n[[roster]]");
    assert!(!of(&private).unwrap());
    let told = refusal(&private.replacen("[flynn]", "check_columns = true\n[flynn]", 1));
    let expected = "data.check_columns is true, must be false with privacy.epsilon: it needs exact sums";
    assert_eq!(told, expected);
}
