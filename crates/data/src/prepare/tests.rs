//! Tests preparations against plain computations.

mod published;
mod rules;

use std::fs;

use proptest::prelude::*;

use super::draft::draft;
use super::problems::Trouble;
use super::publish::Rule;
use super::read::{Dialect, check};
use super::value::{NoNumber, date, days, number};
use super::*;
use crate::{Column, DataError, Dataset, Expected, LabelColumn, Loaded, load_named};

fn texts(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

/// Patients: a number that may be missing, a category, an ordinal, a date with limits, and an id.
fn patients() -> TableSchema {
    let age =
        ColumnSpec { fill: Fill::Number(50.0), indicator: true, ..ColumnSpec::new("age", Kind::Number) };
    let sex = ColumnSpec { fill: Fill::NoLevel, ..ColumnSpec::new("sex", Kind::Category(texts("f m"))) };
    let stage = ColumnSpec::new("stage", Kind::Ordinal(texts("I II III")));
    let born = ColumnSpec {
        min: Some(0.0),
        max: Some(20_000.0),
        ..ColumnSpec::new("seen", Kind::Date(DateOrder::YearMonthDay))
    };
    let columns = vec![age, sex, stage, born, ColumnSpec::new("id", Kind::Ignored)];
    TableSchema { missing: texts("NA ?"), label: Some("kind".into()), columns, ..TableSchema::default() }
}

fn read(bytes: &[u8], expected: &Expected) -> Result<Loaded, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    fs::write(&file, bytes).unwrap();
    load_named(&file, expected)
}

fn problems(bytes: &[u8], expected: &Expected) -> Problems {
    match read(bytes, expected) {
        Err(DataError::Problems(problems)) => *problems,
        other => panic!("{other:?}"),
    }
}

/// Returns the problems as lines, without the file.
fn lines(bytes: &[u8], expected: &Expected) -> Vec<String> {
    problems(bytes, expected).list.iter().map(ToString::to_string).collect()
}

fn refused(bytes: &[u8], expected: &Expected) -> String {
    read(bytes, expected).unwrap_err().to_string()
}

const ROWS: &str = "age,sex,stage,seen,id,kind
61,f,II,1970-01-11,a,sick
?,,I,2000-02-29,b,well
48.5,m,III,1999-12-31T10:00,c,sick
";

#[test]
fn described_columns_become_numbers_as_described() {
    let preparation = patients();
    let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
    let loaded = read(ROWS.as_bytes(), &expected).unwrap();
    assert_eq!(loaded.columns, ["age", "age is missing", "sex=f", "sex=m", "stage", "seen"]);
    let by_hand = [
        [61.0, 0.0, 1.0, 0.0, 1.0, 10.0],
        [50.0, 1.0, 0.0, 0.0, 0.0, 11_016.0],
        [48.5, 0.0, 0.0, 1.0, 2.0, 10_956.0],
    ];
    assert_eq!(loaded.data.values(), by_hand.concat());
    assert_eq!((loaded.data.classes(), loaded.data.labels()), (&texts("sick well")[..], &[0, 1, 0][..]));
}

/// The same rows with other delimiters, quotes and column orders are read as equal.
#[test]
fn delimiters_quotes_comments_marks_and_orders_of_columns_do_not_change_the_rows() {
    let preparation = patients();
    let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
    let plain = read(ROWS.as_bytes(), &expected).unwrap().data;
    let swap = |delimiter: &str| ROWS.replace(',', delimiter);
    let json =
        "{\"kind\": \"sick\", \"age\": 61, \"sex\": \"f\", \"stage\": \"II\", \"seen\": \"1970-01-11\"}
{\"kind\": \"well\", \"age\": null, \"stage\": \"I\", \"seen\": \"2000-02-29\"}
{\"kind\": \"sick\", \"age\": 48.5, \"sex\": \"m\", \"stage\": \"III\", \"seen\": \"1999-12-31\"}
";
    let first = "kind;note;id;seen;stage;sex;age
sick;\"two\nlines; \"\"quoted\"\"\";a;1970-01-11;II;f;61
well;;b;2000-02-29;I;;?
sick;;c;1999-12-31;III;m;48.5
";
    let dressed = [
        swap(";"),
        swap("\t"),
        swap("|"),
        format!("\u{feff}{}", ROWS.replace('\n', "\r\n")),
        format!("# from the ward\n\n{}# the end\n", ROWS.replace("61,", " 61 ,")),
        ROWS.replace("sick", "\"sick\""),
        first.to_owned(),
        json.to_owned(),
    ];
    for text in &dressed {
        assert_eq!(read(text.as_bytes(), &expected).map(|loaded| loaded.data).unwrap(), plain, "{text}");
    }
    assert_eq!(read(first.as_bytes(), &expected).unwrap().left_out, ["note"]);
    let drop = [Column::Name("note".into())];
    let expected = Expected { drop: &drop, ..expected };
    assert_eq!(read(first.as_bytes(), &expected).unwrap().left_out, [""; 0]);
}

#[test]
fn decimal_commas_are_read_where_they_are_said_and_refused_elsewhere() {
    let columns = vec![ColumnSpec::new("x", Kind::Number)];
    let comma = TableSchema { decimal_comma: true, columns, ..TableSchema::default() };
    let point = TableSchema { decimal_comma: false, ..comma.clone() };
    let of = |preparation| Expected {
        preparation: Some(preparation),
        label: LabelColumn::None,
        ..Expected::default()
    };
    let file = b"x;y\n1,5;\n1.234,5;\n-,25;\n";
    let read_comma = read(file, &of(&comma)).unwrap();
    assert_eq!(read_comma.data.values(), [1.5, 1234.5, -0.25]);
    let dialect = Dialect { decimal_comma: Some(true), delimiter: None };
    assert_eq!(read(file, &Expected { dialect, ..of(&point) }).unwrap(), read_comma);
    let lines = lines(file, &of(&point));
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0]
            .starts_with("line 2, column \"x\": found \"1,5\" (1), \"1.234,5\" (1), \"-,25\" (1) in 3 rows")
    );
    assert!(lines[0].contains("decimal_comma"), "{lines:?}");
}

#[test]
fn all_problems_of_a_file_are_told_at_once_with_line_column_and_number_of_rows() {
    let preparation = patients();
    let classes = texts("sick well");
    let expected =
        Expected { preparation: Some(&preparation), classes: Some(&classes), ..Expected::default() };
    let bad = "age,sex,stage,seen,id,kind
<0.5,F,IV,1969-12-31,a,sick
unknown,f,I,31.12.1999,b,ill
48.5,F,,1999-12-31,c,
49,f,I,1999-12-31
72 kg,x,I,1999-12-31,d,sick
";
    assert_eq!(
        lines(bad.as_bytes(), &expected),
        [
            "line 2, column \"age\": found \"<0.5\", expected a number; agree on a number for values that are too small or too large to be measured (half the limit is usual), and write that number",
            "line 2, column \"seen\": found \"1969-12-31\", expected 1970-01-01 to 2024-10-04, the limits of the session; correct it (other units?), or leave such rows out",
            "line 2, column \"sex\": found \"F\" (2), \"x\" (1) in 3 rows, expected one of the levels of the session file; correct it, or `flyswarm schema check --amend` adds it",
            "line 2, column \"stage\": found \"IV\", expected one of the levels of the session file; correct it, or `flyswarm schema check --amend` adds it",
            "line 3, column \"age\": found \"unknown\", expected a number; if it stands for a missing value, `flyswarm schema check --amend` adds it to `missing` in the session file",
            "line 3, column \"kind\": found \"ill\", expected one of the 2 classes sick, well",
            "line 3, column \"seen\": found \"31.12.1999\", expected a date written year-month-day, such as 2026-01-31",
            "line 4, column \"kind\": found nothing, expected a label; leave out rows without a label",
            "line 4, column \"stage\": found nothing, expected a value; leave these rows out, or agree \
             on a value to fill in: `fill = ...` for \"stage\" in the session file",
            "line 5: 4 columns, expected 6 as in the header; a delimiter inside a value needs quotes around the value",
            "line 6, column \"age\": found \"72 kg\", expected a number; take the unit out, and make sure that all rows and peers use the same",
        ]
    );
    let error = refused(bad.as_bytes(), &expected);
    assert!(
        error.contains("rows.csv, line 2, column \"age\"") && error.contains("(and 10 more problems:"),
        "{error}"
    );
}

#[test]
fn columns_that_are_absent_twice_or_misspelt_are_named() {
    let preparation = patients();
    let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
    let found = lines(b"Age,sex,sex,stge,seen,kind\n1,f,f,I,1999-12-31,sick\n", &expected);
    assert_eq!(
        found,
        [
            "line 1: several columns are called \"sex\"; rename one",
            "line 1: no column is called \"stage\"; \"stge\" is: call it \"stage\" in the header",
        ]
    );
    assert!(refused(b"61,1,2,10,5,sick\n", &expected).contains("numbers, expected a header"));
    assert!(refused(b"a b\n1 2\n", &expected).contains("one column, expected several, such as \"age\""));
    assert!(refused(b"a,b\n1,2\n", &expected).contains("none of the session's columns"));
}

#[test]
fn unknown_levels_are_refused_or_counted_never_taken_for_another() {
    let preparation = patients();
    let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
    let rows = ROWS.replace(",m,", ",d,");
    let strict = problems(rows.as_bytes(), &expected);
    assert_eq!((strict.list[0].trouble.clone(), strict.list[0].rows), (Trouble::Level, 1));
    let loaded = read(rows.as_bytes(), &Expected { lenient: true, ..expected.clone() }).unwrap();
    assert_eq!(loaded.data.row(2)[2..4], [0.0, 0.0]);
    let unseen = &loaded.unseen[0];
    assert_eq!((&*unseen.column, &*unseen.level, unseen.rows, loaded.unseen.len()), ("sex", "d", 1, 1));
    let ordinal = ROWS.replace(",III,", ",IV,");
    assert!(read(ordinal.as_bytes(), &Expected { lenient: true, ..expected }).is_err());
}

#[test]
fn what_cannot_be_read_at_all_is_said_with_what_to_do() {
    let preparation = patients();
    let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
    assert!(refused(b"\xff\xfea\0g\0e\0", &expected).contains("UTF-16"));
    assert!(refused(b"[{\"age\": 1}]", &expected).contains("one object a line"));
    assert!(refused(b"{\"age\": 1,\n", &expected).contains("line 1: not JSON"));
    let more =
        b"{\"kind\": \"sick\", \"age\": 1, \"sex\": \"f\", \"stage\": \"I\", \"seen\": \"1970-01-11\"}\n\
                 {\"kind\": \"sick\", \"Age\": 1}\n";
    // A name that the object of a line lacks is missing in that row, and each line may have new names.
    assert!(refused(more, &expected).contains("line 2, column \"seen\": found nothing"));
    assert!(refused(b"age,sex,stage,seen,id,kind\n1,\"f,I\n2,f\n", &expected).contains("line 2: a quote"));
    assert!(refused(b"age,sex,stage,seen,id,kind\n", &expected).contains("no rows after the header"));
    let latin = lines(b"age,sex,stage,seen,id,kind\n1,m\xe4nnlich,I,1999-12-31,a,sick\n", &expected);
    assert!(latin[0].contains("line 2, column \"sex\"") && latin[0].contains("CSV UTF-8"), "{latin:?}");
}

#[test]
fn limits_refuse_or_clip() {
    let column = ColumnSpec { min: Some(0.0), max: Some(120.0), ..ColumnSpec::new("age", Kind::Number) };
    let refuse = TableSchema { columns: vec![column.clone()], ..TableSchema::default() };
    let clip = TableSchema { columns: vec![ColumnSpec { clip: true, ..column }], ..TableSchema::default() };
    let of = |preparation| Expected {
        preparation: Some(preparation),
        label: LabelColumn::None,
        ..Expected::default()
    };
    let rows = b"age\n-1\n30\n300\n";
    assert_eq!(read(rows, &of(&clip)).unwrap().data.values(), [0.0, 30.0, 120.0]);
    assert_eq!(problems(rows, &of(&refuse)).list[0].trouble, Trouble::Outside("0 to 120".into()));
    assert_eq!(problems(rows, &of(&refuse)).list[0].rows, 2);
}

#[test]
fn numbers_and_dates_that_could_be_two_things_are_neither() {
    for (text, comma, value) in [
        ("1.5", false, Ok(1.5)),
        ("1,234.5", false, Ok(1234.5)),
        ("1,234,567", false, Ok(1_234_567.0)),
        ("1,234", false, Err(NoNumber::Ambiguous)),
        ("1.234", true, Err(NoNumber::Ambiguous)),
        ("1.234", false, Ok(1.234)),
        ("1.234,5", false, Err(NoNumber::OtherDecimal)),
        ("1.5", true, Err(NoNumber::OtherDecimal)),
        ("<0.5", false, Err(NoNumber::Limit)),
        ("<= 0,5", true, Err(NoNumber::Limit)),
        ("12 %", false, Err(NoNumber::Percent)),
        ("1.7 m", false, Err(NoNumber::Unit)),
        ("€ 12", false, Err(NoNumber::Unit)),
        ("$1,200", false, Err(NoNumber::Unit)),
        ("1 234", false, Err(NoNumber::Ambiguous)),
        ("1'234,5", true, Err(NoNumber::Ambiguous)),
        ("(5)", false, Err(NoNumber::Minus)),
        ("−0,5", true, Err(NoNumber::Minus)),
        ("12/80", false, Err(NoNumber::Text)),
        ("NaN", false, Err(NoNumber::Missing)),
        ("n/a", false, Err(NoNumber::Missing)),
        ("inf", false, Err(NoNumber::Large)),
        ("1e30", false, Err(NoNumber::Large)),
        ("2026-01-31", false, Err(NoNumber::Date)),
        ("tall", false, Err(NoNumber::Text)),
        ("12,34,567", false, Err(NoNumber::Text)),
    ] {
        assert_eq!(number(text, comma), value, "{text} {comma}");
    }
    assert_eq!(days("31.01.2026", DateOrder::DayMonthYear), days("20260131", DateOrder::YearMonthDay));
    assert_eq!(days("01/31/2026", DateOrder::MonthDayYear), Some(20_484));
    assert_eq!(days("2026-01-31", DateOrder::DayMonthYear), Some(20_484));
    for text in ["31.01.26", "30.02.2026", "1.2.3.2026", "31.1.2026.5", "", "a.b.2026"] {
        assert_eq!(days(text, DateOrder::DayMonthYear), None, "{text}");
    }
    assert_eq!(date(20_484.0).as_deref(), Some("2026-01-31"));
    assert_eq!((date(0.5), date(1e30)), (None, None));
}

#[test]
fn a_draft_reads_the_file_that_it_was_made_from() {
    let mut text = String::from("diagnosis;id;age;sex;seen;ward;note;dose\n");
    for i in 0..60 {
        let (kind, sex, ward) =
            (["sick", "well"][i % 2], ["f", "m"][i % 3 % 2], ["north", "south", ""][i % 3]);
        let dose = if i == 7 { "unknown".to_owned() } else { format!("{},5", i % 9) };
        // The text means a missing value in one column, and is not a level of any other column.
        let sex = if i == 9 { "unknown" } else { sex };
        text += &format!(
            "{kind};{i};{};{sex};{}.01.2026;{ward};said {i} things;{dose}\n",
            20 + i * 7 % 41,
            1 + i % 31
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    fs::write(&file, &text).unwrap();
    let label = LabelColumn::Name("diagnosis".into());
    let drafted = draft(&file, &Expected { label, ..Expected::default() }, &Rule::LOCAL).unwrap().unwrap();
    let kinds: Vec<&Kind> = drafted.preparation.columns.iter().map(|column| &column.kind).collect();
    assert_eq!(
        kinds,
        [
            &Kind::Ignored,
            &Kind::Number,
            &Kind::Category(texts("f m")),
            &Kind::Date(DateOrder::DayMonthYear),
            &Kind::Category(texts("north south")),
            &Kind::Ignored,
            &Kind::Number
        ]
    );
    assert_eq!((drafted.classes.clone(), drafted.preparation.decimal_comma), (texts("sick well"), true));
    assert_eq!((drafted.notes.len(), &drafted.preparation.missing), (7, &texts("unknown")));
    drafted.preparation.check().unwrap();
    let expected = Expected {
        preparation: Some(&drafted.preparation),
        classes: Some(&drafted.classes),
        ..Expected::default()
    };
    let (loaded, found) = check(&file, &expected).unwrap();
    assert!(found.list.is_empty(), "{found}");
    let loaded = loaded.unwrap();
    assert_eq!((loaded.data.rows(), loaded.data.features()), (60, drafted.preparation.width()));
}

#[test]
fn a_draft_refuses_a_label_that_is_a_quantity_and_points_at_a_name_that_is_near() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let of = |text: &str, label: &str| {
        fs::write(&file, text).unwrap();
        let expected = Expected { label: label.parse().unwrap(), ..Expected::default() };
        draft(&file, &expected, &Rule::LOCAL).unwrap_err().to_string()
    };
    assert!(of("a,b\n1,0.5\n2,0.7\n", "last").contains("holds a quantity"));
    assert!(of("a,Diagnosis\n1,x\n", "diagnosis").contains("\"Diagnosis\" is"));
    assert!(of("1,2\n3,4\n", "last").contains("expected a header"));
}

#[test]
fn amending_adds_new_levels_and_texts_for_missing_but_no_misspelt_level() {
    let mut preparation = patients();
    preparation.columns[1].kind = Kind::Category(texts("female male"));
    let rows = "age,sex,stage,seen,id,kind
unknown,Male,II,1970-01-11,a,sick
1,diverse,IV,2000-02-29,b,well
1,femal,I,1999-12-31,c,sick
";
    let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
    let found = problems(rows.as_bytes(), &expected);
    let amended = preparation.amend(&found, &Rule::LOCAL);
    let levels: Vec<_> = amended.levels.iter().map(|(column, level)| (&**column, level.as_str())).collect();
    assert_eq!((levels, &*amended.tokens), (vec![("sex", "diverse")], &texts("unknown")[..]));
    for (line, part) in amended.left.iter().zip(["looks like \"male\"", "looks like \"female\"", "its place"])
    {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(preparation.columns[1].levels(), texts("female male diverse"));
    assert_eq!(preparation.columns[2].levels().len(), 3, "an ordinal's new level has no known place");
}

#[test]
fn a_text_is_never_made_a_level_and_missing_at_once() {
    let rows = "age,sex,stage,seen,id,kind\nunknown,unknown,II,1970-01-11,a,sick\n";
    let amended = |levels: &str| {
        let mut preparation = patients();
        preparation.columns[1].kind = Kind::Category(texts(levels));
        let expected = Expected { preparation: Some(&preparation), ..Expected::default() };
        let found = problems(rows.as_bytes(), &expected);
        let amended = preparation.amend(&found, &Rule::LOCAL);
        preparation.check().unwrap();
        amended
    };
    let missing = amended("female male");
    assert_eq!((missing.tokens, missing.levels, missing.left), (texts("unknown"), Vec::new(), Vec::new()));
    let level = amended("female male unknown");
    assert_eq!(level.tokens, Vec::<String>::new());
    assert!(level.left[0].contains("it is a level of \"sex\""), "{:?}", level.left);
}

#[test]
fn rules_of_a_preparation_are_kept() {
    let broken = |change: fn(&mut TableSchema)| {
        let mut preparation = patients();
        change(&mut preparation);
        preparation.check().unwrap_err().to_string()
    };
    patients().check().unwrap();
    assert!(broken(|p| p.columns.clear()).contains("the number of described columns is 0"));
    assert!(broken(|p| p.columns[1].kind = Kind::Category(vec!["x".into(); 2])).contains("\"x\" twice"));
    assert!(broken(|p| p.columns[1].kind = Kind::Category(Vec::new())).contains("1 to 1000"));
    TableSchema { missing: texts("f"), ..patients() }.check().unwrap();
    assert!(broken(|p| p.columns[0].fill = Fill::Refuse).contains("indicator of column \"age\""));
    assert!(broken(|p| p.columns[0].fill = Fill::Level("f".into())).contains("fill of column \"age\""));
    assert!(broken(|p| p.columns[0].min = Some(f64::NAN)).contains("finite"));
    assert!(broken(|p| p.columns[3].max = Some(-1.0)).contains("at least min"));
    assert!(broken(|p| p.columns[0].others_missing = true).contains("others_missing of column \"age\""));
    assert!(broken(|p| p.columns[2].others_missing = true).contains("others_missing of column \"stage\""));
    assert!(broken(|p| p.columns[1].clip = true).contains("only numbers and dates have limits"));
    assert!(broken(|p| p.label = Some("age".into())).contains("\"age\" twice"));
    assert!(broken(|p| p.columns[2].name = "sex=f".into()).contains("the name of one feature only"));
    assert!(broken(|p| p.delimiter = Some(b'x')).contains("delimiter is 'x'"));
    assert!(
        broken(|p| p
            .columns
            .iter_mut()
            .for_each(|column| *column = ColumnSpec::new(&*column.name, Kind::Ignored)))
        .contains("the number of features is 0")
    );
}

fn any_name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9äöü =<]{0,6}[a-z]"
}

fn any_column() -> impl Strategy<Value = ColumnSpec> {
    let levels = || {
        prop::collection::btree_set("[b-y]{2,4}", 1..5).prop_map(|set| set.into_iter().collect::<Vec<_>>())
    };
    let kind = prop_oneof![
        Just(Kind::Ignored),
        Just(Kind::Number),
        levels().prop_map(Kind::Category),
        levels().prop_map(Kind::Ordinal),
        prop::sample::select(&DateOrder::ALL[..]).prop_map(Kind::Date),
    ];
    (any_name(), kind, any::<bool>(), any::<bool>(), -9i32..9).prop_map(
        |(name, kind, filled, indicator, at)| {
            let number = matches!(kind, Kind::Number | Kind::Date(_));
            let mut column = ColumnSpec::new(name.trim(), kind);
            column.fill = match column.levels().last() {
                _ if !filled || column.kind == Kind::Ignored => Fill::Refuse,
                None => Fill::Number(f64::from(at) / 2.0),
                Some(last) => Fill::Level(last.clone()),
            };
            column.indicator = indicator && column.fill != Fill::Refuse;
            column.max = (number && indicator).then_some(f64::from(at) + 40.0);
            column.clip = column.max.is_some() && filled;
            column.others_missing = filled && indicator && !column.levels().is_empty();
            column
        },
    )
}

fn any_preparation() -> impl Strategy<Value = TableSchema> {
    (prop::collection::vec(any_column(), 1..6), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(columns, decimal_comma, label, group)| TableSchema {
            delimiter: decimal_comma.then_some(b';'),
            decimal_comma,
            missing: texts("NA ?"),
            label: label.then(|| "the label".into()),
            group: group.then(|| "the group".into()),
            columns,
        })
        .prop_filter("keeps the rules", |preparation| preparation.check().is_ok())
}

/// A value for each column. If the value may be missing, the boolean is true if it is present.
fn any_cells() -> impl Strategy<Value = Vec<(usize, bool)>> {
    prop::collection::vec((0usize..90, any::<bool>()), 6)
}

/// The numbers of a value, computed from the description alone; `None` means a missing value.
fn plainly(column: &ColumnSpec, value: Option<usize>) -> Vec<f32> {
    let number = |value: usize| {
        let value = value as f64 - 20.0;
        column.max.filter(|&max| value > max).unwrap_or(value) as f32
    };
    let mut out = match (&column.kind, value) {
        (Kind::Ignored, _) => return Vec::new(),
        (Kind::Number | Kind::Date(_), Some(value)) => vec![number(value)],
        (Kind::Category(levels), Some(value)) => {
            (0..levels.len()).map(|level| f32::from(u8::from(level == value % levels.len()))).collect()
        }
        (Kind::Ordinal(levels), Some(value)) => vec![(value % levels.len()) as f32],
        (kind, None) => match (&column.fill, kind) {
            (Fill::Number(value), _) => vec![*value as f32],
            (_, Kind::Category(levels)) => {
                (1..=levels.len()).map(|at| f32::from(u8::from(at == levels.len()))).collect()
            }
            _ => vec![column.levels().len() as f32 - 1.0],
        },
    };
    if column.indicator {
        out.push(f32::from(u8::from(value.is_none())));
    }
    out
}

/// The text of a value in a file.
fn written(column: &ColumnSpec, value: Option<usize>) -> String {
    let Some(value) = value else { return "?".into() };
    match &column.kind {
        Kind::Ignored => "\"any; \"\"thing\"\"\"".into(),
        Kind::Number => format!("{}", value as f64 - 20.0),
        Kind::Category(levels) | Kind::Ordinal(levels) => levels[value % levels.len()].clone(),
        Kind::Date(order) => {
            let iso = date(value as f64 - 20.0).unwrap();
            let parts: Vec<&str> = iso.split('-').collect();
            match order {
                DateOrder::YearMonthDay => iso.clone(),
                DateOrder::DayMonthYear => format!("{}.{}.{}", parts[2], parts[1], parts[0]),
                DateOrder::MonthDayYear => format!("{}/{}/{}", parts[1], parts[2], parts[0]),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn prepared_rows_equal_the_plain_computation(
        preparation in any_preparation(),
        rows in prop::collection::vec((any_cells(), 0usize..2), 1..8),
        shift in 0usize..6,
    ) {
        // The rows below have no groups.
        let preparation = TableSchema { group: None, ..preparation };
        let columns = &preparation.columns;
        let delimiter = if preparation.delimiter.is_some() { ";" } else { "," };
        // The columns are in another order than described; the label comes first.
        let order: Vec<usize> = (0..columns.len()).map(|at| (at + shift) % columns.len()).collect();
        let line = |first: &str, cells: Vec<String>| format!("{}\n", [vec![first.to_owned()], cells].concat().join(delimiter));
        let mut text = line("the label", order.iter().map(|&at| columns[at].name.clone()).collect());
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for (cells, class) in &rows {
            let cells: Vec<Option<usize>> = columns
                .iter()
                .zip(cells)
                .map(|(column, &(value, there))| (there || column.fill == Fill::Refuse).then_some(value))
                .collect();
            text += &line(["sick", "well"][*class], order.iter().map(|&at| written(&columns[at], cells[at])).collect());
            values.extend(columns.iter().zip(&cells).flat_map(|(column, &cell)| plainly(column, cell)));
            labels.push(*class as u16);
        }
        let outside = columns.iter().any(|column| column.max.is_some() && !column.clip);
        let classes = texts("sick well");
        let label = LabelColumn::Name("the label".into());
        let expected = Expected {
            preparation: Some(&preparation),
            classes: Some(&classes),
            label,
            ..Expected::default()
        };
        match read(text.as_bytes(), &expected) {
            Ok(loaded) => {
                let plain = Dataset::new(preparation.width(), values, labels, classes.clone()).unwrap();
                prop_assert_eq!(loaded.data, plain);
                prop_assert_eq!(loaded.columns, preparation.features());
            }
            Err(DataError::Problems(problems)) => {
                prop_assert!(outside);
                let limits = |problem: &Problem| matches!(problem.trouble, Trouble::Outside(_));
                prop_assert!(problems.list.iter().all(limits));
            }
            Err(other) => prop_assert!(false, "{other}\n{text}"),
        }
    }

    #[test]
    fn a_preparation_survives_its_encoding_and_no_byte_of_it_is_idle(
        mut preparation in any_preparation(),
        pooled: bool,
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        for column in preparation.columns.iter_mut().filter(|column| pooled && column.fill != Fill::Refuse) {
            column.fill = Fill::Pooled;
        }
        let bytes = preparation.encode();
        prop_assert_eq!(TableSchema::decode(&bytes).unwrap(), preparation.clone());
        prop_assert!(TableSchema::decode(&bytes[..bytes.len() - 1]).is_err());
        prop_assert!(TableSchema::decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut other = bytes.clone();
        other[at.index(bytes.len())] ^= 1 << bit;
        if let Ok(read) = TableSchema::decode(&other) {
            prop_assert_ne!(&read, &preparation);
            prop_assert_eq!(read.encode(), other);
        }
    }
}
