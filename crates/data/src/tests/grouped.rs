//! The group column of a table.

use super::*;
use crate::prepare::draft::draft;
use crate::prepare::publish::Rule;
use crate::prepare::whole::load_drafted;
use crate::prepare::{ColumnSpec, Kind};
use crate::site::SiteMap;

fn schema() -> TableSchema {
    TableSchema {
        missing: vec!["NA".into()],
        label: Some("y".into()),
        group: Some("patient".into()),
        columns: vec![ColumnSpec::new("x", Kind::Number)],
        ..TableSchema::default()
    }
}

fn loaded(text: &str, change: impl Fn(&mut Expected)) -> Result<Loaded, String> {
    let (schema, files) = (schema(), Files::new());
    let mut expected = Expected { preparation: Some(&schema), ..Expected::default() };
    change(&mut expected);
    load_named(&files.write("rows.csv", text.as_bytes()), &expected).map_err(|error| error.to_string())
}

#[test]
fn rows_have_the_groups_of_the_column_and_it_is_no_feature() {
    let found = loaded("patient,x,y\nP1,1,a\nP2,2,b\n P1 ,3,a\n", |_| ()).unwrap();
    assert_eq!((found.data.features(), found.left_out.len()), (1, 0));
    assert_eq!(found.data.groups(), Some(&["P1", "P2", "P1"].map(Group::of)[..]));
    assert!(!format!("{found:?}").contains("P1"), "a log shows no pseudonym");
    let part = found.data.subset(&[1, 2]);
    assert_eq!(part.groups(), Some(&["P2", "P1"].map(Group::of)[..]));
    let whole = part.followed_by(&found.data).unwrap();
    assert_eq!(whole.groups().unwrap()[2..], *found.data.groups().unwrap());
}

#[test]
fn a_row_without_a_group_is_refused_with_its_line() {
    let error = loaded("patient,x,y\nP1,1,a\n,2,b\nNA,3,a\n", |_| ()).unwrap_err();
    assert!(error.contains("line 3, column \"patient\": found nothing (1), \"NA\" (1) in 2 rows"), "{error}");
    assert!(error.contains("give each row without one a group of its own"), "{error}");
    let error = loaded("person,x,y\nP1,1,a\n", |_| ()).unwrap_err();
    assert!(error.contains("no column is called \"patient\""), "{error}");
    let error =
        loaded("patient,x,y\nP1,1,a\n", |expected| expected.label = LabelColumn::Name("patient".into()));
    assert!(error.unwrap_err().contains("cannot be the label too"));
}

#[test]
fn a_model_reads_rows_without_the_group_column() {
    let lenient = |expected: &mut Expected| expected.lenient = true;
    assert_eq!(loaded("x,y\n1,a\n2,b\n", lenient).unwrap().data.groups(), None);
    assert!(loaded("patient,x,y\nP,1,a\n", lenient).unwrap().data.groups().is_some());
}

#[test]
fn a_map_file_renames_the_group_column() {
    let rename = [("Fall".to_owned(), "patient".to_owned())].into();
    let map = SiteMap { rename, ..SiteMap::default() };
    let (schema, files) = (schema(), Files::new());
    let expected = Expected { preparation: Some(&schema), site: Some(&map), ..Expected::default() };
    let found = load_named(&files.write("rows.csv", b"Fall,x,y\n7,1,a\n7.0,2,b\n"), &expected).unwrap();
    assert_eq!(found.data.groups(), Some(&["7", "7"].map(Group::of)[..]));
}

#[test]
fn a_draft_makes_the_group_column_no_feature_and_others_advise_one() {
    let files = Files::new();
    let row = |row: usize| format!("{},{},{}\n", row * 7919 % 30 * 613 + 1000, row * row % 97, row % 2);
    let text: String = (0..60).map(row).collect();
    let path = files.write("rows.csv", format!("mrn,x,y\n{text}").as_bytes());
    let expected = Expected { label: LabelColumn::Name("y".into()), ..Expected::default() };
    let found = draft(&path, &expected, &Rule::LOCAL).unwrap().unwrap();
    assert!(found.said.iter().any(|line| line.contains("`--group mrn`")), "{:?}", found.said);
    let grouped = Expected { group: Some("mrn"), ..expected.clone() };
    let found = draft(&path, &grouped, &Rule::LOCAL).unwrap().unwrap();
    assert_eq!(found.preparation.group.as_deref(), Some("mrn"));
    assert_eq!(found.preparation.columns.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(found.said, [""; 0]);
    let (loaded, _) = load_drafted(&path, &grouped, &Rule::LOCAL).unwrap();
    assert_eq!(loaded.data.groups().map(<[Group]>::len), Some(60));
    let absent = Expected { group: Some("patient"), ..expected.clone() };
    assert!(draft(&path, &absent, &Rule::LOCAL).unwrap_err().to_string().contains("--group"));
    let refused = load_named(&path, &grouped).unwrap_err();
    assert!(refused.to_string().contains("needs described columns"), "{refused}");
}

#[test]
fn pseudonyms_of_two_visits_are_found_among_many() {
    let files = Files::new();
    let text: String =
        (0..6000).map(|row| format!("P{:05},{},{}\n", row * 7 % 3000, row % 89, row % 2)).collect();
    let path = files.write("rows.csv", format!("pseudonym,x,y\n{text}").as_bytes());
    let expected = Expected { label: LabelColumn::Name("y".into()), ..Expected::default() };
    let found = draft(&path, &expected, &Rule { min_rows: 10, classes: None }).unwrap().unwrap();
    assert!(found.said.iter().any(|line| line.contains("`--group pseudonym`")), "{:?}", found.said);
}
