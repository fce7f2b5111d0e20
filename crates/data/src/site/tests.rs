use super::*;
use crate::prepare::problems::Problems;
use crate::prepare::read::check;
use crate::prepare::{ColumnSpec, DateOrder, Fill, Kind, TableSchema};
use crate::{load, load_named};

fn schema() -> TableSchema {
    let levels = ["f", "m"].map(String::from).to_vec();
    let columns = vec![
        ColumnSpec { max: Some(300.0), ..ColumnSpec::new("weight", Kind::Number) },
        ColumnSpec { fill: Fill::NoLevel, ..ColumnSpec::new("sex", Kind::Category(levels)) },
        ColumnSpec::new("seen", Kind::Date(DateOrder::YearMonthDay)),
    ];
    TableSchema { label: Some("kind".into()), missing: vec!["NA".into()], columns, ..TableSchema::default() }
}

fn map() -> SiteMap {
    let pairs =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect();
    let weight =
        ColumnMap { factor: Some(0.5), offset: Some(1.0), fill: Some("70".into()), ..ColumnMap::default() };
    let sex = ColumnMap { values: pairs(&[("1", "f"), ("2", "m"), ("9", "")]), ..ColumnMap::default() };
    let seen = ColumnMap { date: Some("dd.mm.yy".parse().unwrap()), ..ColumnMap::default() };
    let kind = ColumnMap { values: pairs(&[("krank", "ill")]), ..ColumnMap::default() };
    let columns = [("weight", weight), ("sex", sex), ("seen", seen), ("kind", kind)];
    SiteMap {
        rename: pairs(&[("Gewicht", "weight"), ("Diagnose", "kind")]),
        columns: columns.into_iter().map(|(name, map)| (name.to_owned(), map)).collect(),
    }
}

fn write(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

const ROWS: &str =
    "Gewicht;sex;seen;Diagnose\n100;1;02.01.70;krank\nNA;9;3.1.70;well\n-3.5;2;31.12.69;well\n";

#[test]
fn a_map_makes_the_agreed_rows_of_a_sites_own_file() {
    let (schema, map, file) = (schema(), map(), write(ROWS));
    let classes = ["ill", "well"].map(String::from);
    let expected = Expected {
        preparation: Some(&schema),
        classes: Some(&classes),
        site: Some(&map),
        ..Expected::default()
    };
    let data = load(file.path(), &expected).unwrap();
    assert_eq!(data.values(), [51.0, 1.0, 0.0, 1.0, 70.0, 0.0, 0.0, 2.0, -0.75, 0.0, 1.0, -1.0]);
    assert_eq!(data.labels(), [0, 1, 1]);
    // Errors have the lines of the original file. A text that cannot be converted is shown unchanged.
    let bad = write(&ROWS.replace("\n-3.5;", "\n\nheavy;"));
    let error = load(bad.path(), &expected).unwrap_err().to_string();
    assert!(error.contains("line 5, column \"weight\": found \"heavy\""), "{error}");
    // Rows to predict have no label.
    let unlabelled = write("Gewicht;sex;seen\n100;1;02.01.70\n");
    let rows = Expected { label: crate::LabelColumn::None, ..expected };
    assert_eq!(load(unlabelled.path(), &rows).unwrap().rows(), 1);
}

#[test]
fn a_map_works_without_described_columns_too() {
    let mut map = map();
    map.columns.retain(|name, _| name == "weight" || name == "kind");
    let columns = ["height", "weight"].map(String::from);
    let file = write("Gewicht,height,Diagnose\n100,2,krank\n50,1,well\n");
    let expected = Expected { columns: &columns, site: Some(&map), ..Expected::default() };
    let loaded = load_named(file.path(), &expected).unwrap();
    assert_eq!(loaded.data.values(), [2.0, 51.0, 1.0, 26.0]);
    assert_eq!(loaded.data.classes(), ["ill", "well"]);
    let bare = Expected { header: Some(false), ..expected };
    assert!(load(file.path(), &bare).unwrap_err().to_string().contains("no column names"));
}

#[test]
fn a_name_in_a_map_that_the_file_lacks_is_refused() {
    let (schema, file) = (schema(), write(ROWS));
    let refused = |map: &SiteMap| {
        let expected = Expected { preparation: Some(&schema), site: Some(map), ..Expected::default() };
        load(file.path(), &expected).unwrap_err().to_string()
    };
    let mut misspelt = map();
    let weight = misspelt.columns.remove("weight").unwrap();
    misspelt.columns.insert("wieght".into(), weight);
    assert!(refused(&misspelt).contains("the map file has [columns.\"wieght\"], and no column is called"));
    let mut misspelt = map();
    misspelt.rename.insert("Alter".into(), "age".into());
    assert!(
        refused(&misspelt).contains("the map file renames \"Alter\" to \"age\", and no column is called")
    );
}

fn drafted(text: &str, site: &SiteMap) -> (Problems, String) {
    let (schema, file) = (schema(), write(text));
    let classes = ["ill", "well"].map(String::from);
    let expected = Expected {
        preparation: Some(&schema),
        classes: Some(&classes),
        site: Some(site),
        ..Expected::default()
    };
    let (_, problems) = check(file.path(), &expected).unwrap();
    let text = suggest::draft(&problems, &site.rename, &schema, &classes, false);
    (problems, text)
}

#[test]
fn a_map_is_drafted_from_what_is_wrong_with_a_file() {
    let rows = "weigth,sex,seen,kind\n100,F1,31.01.2026,ill\n500,-,01.02.2026,wells\nn/a,9,3.2.2026,well\n";
    let (problems, _) = drafted(rows, &SiteMap::default());
    let rename = suggest::renames(&problems);
    assert_eq!(rename.get("weigth").map(String::as_str), Some("weight"));
    let (_, text) = drafted(rows, &SiteMap { rename, ..SiteMap::default() });
    assert_eq!(
        text,
        "[rename]  # name in this file = name in the session
\"weigth\" = \"weight\"

[columns.\"kind\".values]  # \"\" is a missing value
\"wells\" = \"well\"

[columns.\"seen\"]
date = \"dd.mm.yyyy\"  # such as \"31.01.2026\"

[columns.\"sex\".values]  # \"\" is a missing value
# \"F1\" = \"?\"  # one of \"f\", \"m\"
\"-\" = \"\"
# \"9\" = \"?\"  # one of \"f\", \"m\"

[columns.\"weight\"]
# factor = 1.0  # 1 rows, such as \"500\", are outside at most 300: other units?

[columns.\"weight\".values]  # \"\" is a missing value
\"n/a\" = \"\"
"
    );
}
