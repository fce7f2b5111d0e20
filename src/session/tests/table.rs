//! Tests session files that describe columns.

use std::sync::Arc;

use super::*;
use crate::data::{Dataset, Group};
use crate::tasks::Rows;

const TABLE: &str = r#"[table]
missing = ["NA"]
label = "kind"
[[table.column]]
name = "age"
kind = "number"
fill = 50
indicator = true
max = 120.5
clip = true
[[table.column]]
name = "sex"
kind = "category"
levels = ["f", "m"]
fill = ""
[[table.column]]
name = "seen"
kind = "date"
order = "day-month-year"
min = "1970-01-11"
[[table.column]]
name = "stage"
kind = "ordinal"
levels = ["I", "II"]
fill = "I"
others_missing = true
[[table.column]]
name = "id"
kind = "ignored"
[flynn]"#;

fn described() -> String {
    with("[flynn]", TABLE).replacen("features = 784\n", "", 1).replacen("s = \"0.025d\"", "s = 2", 1)
}

fn changed(from: &str, to: &str) -> String {
    let text = described();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn a_described_table_is_read_as_it_is_written_and_gives_features_and_names() {
    let session = Session::parse(&described()).unwrap();
    assert_eq!(session.data.columns, ["age", "age is missing", "sex=f", "sex=m", "seen", "stage"]);
    assert_eq!(session.data.features, 6);
    assert_eq!(Session::parse(&session.to_toml()).unwrap(), session);
    let notes = vec!["looks like\na number".to_owned()];
    let noted = session.to_toml_with(&notes);
    assert!(noted.contains("# Guessed: looks like a number.\n[[table.column]]"), "{noted}");
    assert_eq!(Session::parse(&noted).unwrap(), session);
}

#[test]
fn every_word_of_a_described_table_changes_the_id_in_its_field_only() {
    let plain = Session::parse(&described()).unwrap();
    for (from, to) in [
        ("missing = [\"NA\"]", "missing = [\"NA\", \"?\"]"),
        ("[table]", "[table]\ndecimal_comma = true"),
        ("[table]", "[table]\ndelimiter = \"\\t\""),
        ("label = \"kind\"", "label = \"sort\""),
        ("fill = 50", "fill = 51"),
        ("max = 120.5", "max = 120"),
        ("clip = true\n", ""),
        ("fill = \"\"\n", ""),
        ("others_missing = true\n", ""),
        ("order = \"day-month-year\"", "order = \"month-day-year\""),
        ("1970-01-11", "1970-01-12"),
        ("fill = \"I\"", "fill = \"II\""),
        ("name = \"id\"", "name = \"number\""),
    ] {
        let other = Session::parse(&changed(from, to)).unwrap();
        assert_ne!(other.id(), plain.id(), "{to}");
        assert_eq!(plain.differing_fields(&other.fields()), ["table"], "{to}");
    }
    let twin = changed("max = 120.5", "min = -0.0\nmax = 120.5");
    let zero = changed("max = 120.5", "min = 0.0\nmax = 120.5");
    assert_eq!(Session::parse(&twin).unwrap().id(), Session::parse(&zero).unwrap().id());
}

#[test]
fn tables_that_cannot_be_are_refused_by_name() {
    for (from, to, expected) in [
        ("classes", "features = 6\nclasses", "data.features or data.columns is given, must be absent if"),
        ("kind = \"ordinal\"", "kind = \"text\"", "unknown"),
        ("levels = [\"I\", \"II\"]\n", "", "levels of column \"stage\" is absent"),
        ("kind = \"number\"", "kind = \"number\"\nlevels = [\"a\"]", "levels of column \"age\" is given"),
        ("order = \"day-month-year\"", "order = \"dmy\"", "order of column \"seen\" is \"dmy\""),
        ("min = \"1970-01-11\"", "min = 10", "min of column \"seen\" is 10, must be a date"),
        ("fill = 50", "fill = \"x\"", "[table]: fill of column \"age\""),
        ("fill = \"I\"", "fill = \"IV\"", "[table]: fill of column \"stage\""),
        ("[table]", "[table]\ndelimiter = \"x\"", "[table]: delimiter is 'x'"),
        ("name = \"id\"", "name = \"a\\u202eb\"", "the name of a column of table is"),
        ("[\"f\", \"m\"]", "[\"f\", \"m\\u200b\"]", "a level of column \"sex\" is"),
        ("[flynn]", "[columns.age]\nmin = 0\n[flynn]", "[columns.NAME] is given, must be absent"),
        (
            "classes",
            "columns = [\"a\"]\nclasses",
            "data.features or data.columns is given, must be absent if",
        ),
        (
            "fill = 50",
            "order = \"day-month-year\"\nfill = 50",
            "order of column \"age\" is given, must be absent",
        ),
        ("fill = 50", "fill = 50\nfill_with = \"mean\"", "fill_with of column \"age\" is \"mean\", must be"),
        ("fill = 50", "fill_with = \"most-frequent\"", "fill_with of column \"age\" is \"most-frequent\""),
        ("label = \"kind\"", "label = \"a\\u202eb\"", "table.label is"),
        ("\"NA\"", "\"a\\u202eb\"", "a text of table.missing is"),
    ] {
        let told = refusal(&changed(from, to));
        assert!(told.contains(expected), "{to}: {told}");
    }
    let session = Session::parse(&described()).unwrap();
    let mut other = session.clone();
    other.data.columns[0] = "height".into();
    assert!(other.check().is_err(), "names that do not follow from the table");
}

#[test]
fn sums_that_fill_missing_values_are_refused_where_noise_hides_sums_and_where_a_program_brings_the_task() {
    let filled = changed("fill = 50", "fill_with = \"mean\"");
    let expected = "[table]: fill_with of column \"age\" is given, must be absent ";
    let private = filled.replacen("[[roster]]", "[privacy]\nepsilon = 1.0\ntop = 5\n[[roster]]", 1);
    let told = refusal(&private);
    assert!(told.starts_with(&format!("{expected}with privacy.epsilon")), "{told}");
    let flynn = &filled[filled.find("[flynn]").unwrap()..filled.find("[[roster]]").unwrap()];
    let custom = filled.replacen(flynn, "[custom]\nname = \"a\"\n", 1).replacen("\"flynn\"", "\"custom\"", 1);
    let told = refusal(&custom);
    assert!(told.starts_with(&format!("{expected}with the task custom")), "{told}");
    assert!(Session::parse(&filled).is_ok());
}

#[test]
fn a_description_by_itself_is_held_to_the_same_rules() {
    let table = &TABLE[..TABLE.find("[flynn]").unwrap()];
    let file = tempfile::NamedTempFile::new().unwrap();
    let load = |text: &str| {
        std::fs::write(file.path(), text).unwrap();
        super::super::table::Description::load(file.path())
    };
    let found = load(&format!("[data]\nclasses = [\"a\", \"b\"]\n{table}")).unwrap();
    assert_eq!((found.classes.len(), found.preparation.columns.len()), (2, 5));
    for (text, expected) in [
        (table.replace("fill = \"I\"", "fill = \"IV\""), "[table]: fill of column \"stage\""),
        ("[data]\nclasses = []\n".to_owned(), "[table] is absent"),
        (format!("[data]\nclasses = 3\n{table}"), "data.classes"),
    ] {
        let told = load(&text).unwrap_err();
        let told = format!(
            "{told}: {}",
            std::error::Error::source(&told).map_or(String::new(), ToString::to_string)
        );
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn minus_zero_is_the_zero_that_it_equals() {
    let zero = Session::parse(&changed("fill = 50", "fill = 0.0")).unwrap();
    for (from, to) in [("fill = 50", "fill = -0.0"), ("fill = 50", "fill = 0")] {
        assert_eq!(Session::parse(&changed(from, to)).unwrap().id(), zero.id(), "{to}");
    }
}

#[test]
fn a_group_column_is_no_feature_and_enters_the_id() {
    let plain = Session::parse(&described()).unwrap();
    for name in ["patient", "id"] {
        let text = changed("label = ", &format!("group = \"{name}\"\nlabel = "));
        let session = Session::parse(&text).unwrap();
        assert_eq!(session.data.columns, plain.data.columns);
        assert_eq!(Session::parse(&session.to_toml()).unwrap(), session);
        assert_eq!(session.differing_fields(&plain.fields()), ["table"]);
    }
    for (name, told) in [
        ("kind", "the group column is \"kind\", must be another column than the label"),
        ("age", "the group column is \"age\", must be outside the features: remove its [[table.column]]"),
        ("", "the group column is \"\", must be 1 to 256 bytes"),
    ] {
        let error =
            Session::parse(&changed("label = ", &format!("group = \"{name}\"\nlabel = "))).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_budget_for_groups_is_shared_by_their_rows() {
    let grouped = changed("label = ", "group = \"patient\"\nlabel = ");
    let private = |lines: &str| {
        let text = format!("[privacy]\nepsilon = 1\ntop = 5\n{lines}");
        Session::parse(&grouped.replacen("[[roster]]", &format!("{text}\n[[roster]]"), 1))
    };
    let row = private("mode = \"parallel\"").unwrap();
    let group = private("mode = \"parallel\"\nunit = \"group\"\ngroup_rows = 4").unwrap();
    assert_eq!(Session::parse(&group.to_toml()).unwrap(), group);
    assert_eq!(group.differing_fields(&row.fields()), ["privacy.group_rows"]);
    let each = |session: &Session| session.privacy.noise.unwrap().each(session).to_string();
    assert_eq!((each(&row), each(&group)), ("1".into(), "0.25".into()));
    assert_eq!(private("mode = \"parallel\"\nunit = \"row\"").unwrap(), row);
    // A peer uses the first rows of each group, in the order of its file.
    let bare =
        Dataset::new(6, (0..36).map(|x| x as f32).collect(), vec![0; 6], group.data.classes.clone()).unwrap();
    let groups = [0, 1, 0, 0, 0, 0].map(|group| Group::of(&group.to_string())).to_vec();
    let rows = Rows::new(Arc::new(bare.clone().with_groups(groups).unwrap()));
    let (used, left_out) = rows.clone().in_use(&group).unwrap();
    assert_eq!((used.data.values(), left_out), (&bare.values()[..30], 1));
    assert_eq!(rows.in_use(&row).unwrap().1, 0);
    let error = Rows::new(Arc::new(bare)).in_use(&group).unwrap_err();
    assert!(error.contains("the session reads them from column \"patient\""), "{error}");
    for (lines, told) in [
        ("unit = \"group\"", "privacy.group_rows is missing, must be given with privacy.unit"),
        ("group_rows = 4", "privacy.group_rows is given, must be left out without"),
        ("unit = \"group\"\ngroup_rows = 0", "privacy.group_rows is 0, must be 1 to 1000"),
    ] {
        let error = private(lines).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
