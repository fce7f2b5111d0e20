//! A text that only a few rows have does not get into a draft, and rows with such texts can still be read.

use super::super::draft::{Draft, draft, repeated_ids};
use super::super::publish::MIN_ROWS;
use super::*;

const RULE: Rule<'_> = Rule { min_rows: MIN_ROWS, classes: None };

/// Makes a draft from `rows` lines. The label is the column `c`.
fn drafted(header: &str, rows: usize, line: impl Fn(usize) -> String) -> Draft {
    try_draft(header, rows, line, "c", &RULE).unwrap()
}

fn try_draft(
    header: &str,
    rows: usize,
    line: impl Fn(usize) -> String,
    label: &str,
    rule: &Rule,
) -> Result<Draft, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let lines: Vec<String> = (0..rows).map(line).collect();
    fs::write(&file, format!("{header}\n{}\n", lines.join("\n"))).unwrap();
    let expected = Expected { label: label.parse().unwrap(), ..Expected::default() };
    draft(&file, &expected, rule).map(Option::unwrap).map_err(|error| error.to_string())
}

fn class(row: usize) -> &'static str {
    ["ill", "well"][row % 2]
}

/// All texts of the draft that a session file would contain.
fn written(draft: &Draft) -> String {
    format!("{:?} {:?} {:?}", draft.preparation, draft.classes, draft.notes)
}

#[test]
fn ids_names_times_and_measured_texts_stay_here() {
    for (name, text) in [
        ("pseudonym", (|row| format!("MRN{}", 100_000 + 37 * (row / 2))) as fn(usize) -> String),
        ("pseudonym of twelve visits", |row| format!("P{:03}", row / 12)),
        ("date", |row| format!("{:02}.{:02}.24", 1 + row % 28, 1 + row % 12)),
        ("e-mail", |row| format!("p{row}@example.org")),
        ("time", |row| format!("{:02}:{:02}", row % 24, row * 7 % 60)),
        ("pressure", |row| format!("{}/{}", 100 + row % 50, 60 + row % 30)),
        ("limit", |row| if row % 2 == 0 { "<0.5".into() } else { format!("{}.25", row) }),
        ("unit", |row| format!("{} kg", 50 + row % 40)),
        ("percent", |row| format!("{}%", row % 90)),
        ("thousands", |row| format!("\"{},{:03}\"", 1 + row, row * 7 % 1000)),
        ("nested", |row| format!("{{'a':{row}}}")),
    ] {
        let draft = drafted("x,secret,c", 400, |row| format!("{}.5,{},{}", row % 80, text(row), class(row)));
        assert_eq!(draft.preparation.columns[1].kind, Kind::Ignored, "{name}");
        assert!(!written(&draft).contains(&text(3).replace('"', "")), "{name}: {}", written(&draft));
        assert!(
            draft.said.iter().any(|line| line.starts_with("\"secret\": ignored, ")),
            "{name}: {:?}",
            draft.said
        );
    }
}

#[test]
fn a_text_is_written_from_ten_rows_on() {
    let of = |rare: usize| {
        drafted("x,ward,c", 60, |row| {
            let ward = if row < rare { "north" } else { "south" };
            format!("{}.5,{ward},{}", row % 7, class(row))
        })
    };
    assert_eq!(of(10).preparation.columns[1].levels(), texts("north south"));
    let nine = of(9);
    let ward = &nine.preparation.columns[1];
    assert_eq!((ward.levels(), ward.others_missing, &ward.fill), (&texts("south")[..], true, &Fill::NoLevel));
    assert!(!written(&nine).contains("north"), "{}", written(&nine));
    assert!(
        nine.said[0]
            .contains("texts that fewer than 10 rows have are not written; the 9 rows with such texts"),
        "{:?}",
        nine.said
    );
}

#[test]
fn rows_with_texts_that_are_not_written_count_as_missing() {
    let ward = ColumnSpec {
        fill: Fill::NoLevel,
        others_missing: true,
        indicator: true,
        ..ColumnSpec::new("ward", Kind::Category(texts("north south")))
    };
    let preparation = TableSchema { columns: vec![ward], ..TableSchema::default() };
    let expected =
        Expected { preparation: Some(&preparation), label: LabelColumn::None, ..Expected::default() };
    let loaded = read(b"ward\nnorth\neast\n\nsouth\neast\n", &expected).unwrap();
    assert_eq!(loaded.data.values(), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!((&*loaded.unseen[0].level, loaded.unseen[0].rows), ("east", 2));
}

#[test]
fn classes_of_one_row_or_too_many_are_refused_unless_named() {
    let of = |label: &str, rule: &Rule, class: fn(usize) -> String| {
        try_draft("x,c", 120, |row| format!("{}.5,{}", row % 9, class(row)), label, rule)
    };
    let many = |row: usize| format!("name{}", row / 2);
    let few = |row: usize| if row == 7 { "rare".into() } else { class(row).to_owned() };
    let some = |row: usize| if row < 4 { "rare".into() } else { class(row).to_owned() };
    let error = of("c", &RULE, many).unwrap_err();
    assert!(error.contains("more than 50 texts") && !error.contains("name1"), "{error}");
    let error = of("c", &RULE, few).unwrap_err();
    assert!(error.contains("1 of 3 texts in one row only") && error.contains("--classes"), "{error}");
    assert_eq!(of("c", &RULE, some).unwrap().classes, texts("ill rare well"));
    let error = of("last", &RULE, some).unwrap_err();
    assert!(error.contains("1 of 3 texts in fewer than 10 rows"), "{error}");
    let named = texts("well ill rare");
    assert_eq!(of("c", &Rule { classes: Some(&named), ..RULE }, few).unwrap().classes, named);
    assert_eq!(of("c", &Rule::LOCAL, few).unwrap().classes, texts("ill rare well"));
}

#[test]
fn numbers_that_are_ids_are_ignored_and_others_are_kept() {
    for (name, number, ignored) in [
        ("mrn", (|row| 100_000 + 7 * row) as fn(usize) -> usize, true),
        ("shuffled", |row| row * 37 % 120, true),
        ("visits", |row| 100_000 + row / 2, true),
        ("beyond binary64", |row| 9_007_199_254_740_993 + row, true),
        ("age", |row| 20 + ((row * row * 2_654_435_761 + row * 40_503) >> 7) % 61, false),
        ("count", |row| row * row % 9, false),
        ("year", |row| 2010 + row / 12, false),
    ] {
        let draft = drafted("n,x,c", 120, |row| format!("{},{}.5,{}", number(row), row % 7, class(row)));
        assert_eq!(draft.preparation.columns[0].kind == Kind::Ignored, ignored, "{name}: {:?}", draft.said);
    }
}

#[test]
fn a_row_is_not_published_as_names_of_columns() {
    let of = |header: &str| {
        try_draft(
            header,
            60,
            |row| format!("{}.5,{},{}", row % 7, ["f", "m"][row % 2], class(row)),
            "last",
            &RULE,
        )
    };
    let error = of("3.5,m,ill").unwrap_err();
    assert!(error.contains("line 1: 3 of 3 texts are like the values below"), "{error}");
    assert!(of("Ann Aa,m,ill").unwrap_err().contains("line 1: 2 of 3 texts are like the values below"));
    assert!(of("x,m,ill diagnosis").is_ok(), "a column called as one of its levels");
}

#[test]
fn names_of_rows_have_no_column() {
    let error =
        try_draft("x,c", 20, |row| format!("{row},{}.5,{}", row % 7, class(row)), "c", &RULE).unwrap_err();
    assert!(
        error.contains("3 columns in the rows, expected 2 as in the header; the column of row names that R"),
        "{error}"
    );
}

#[test]
fn spellings_of_a_boolean_are_one_class_and_one_level() {
    let line = |row: usize| {
        format!("{}.5,{},{}", row % 7, ["TRUE", "true", "False"][row % 3], ["True", "true", "FALSE"][row % 3])
    };
    let draft = drafted("x,b,c", 90, line);
    assert_eq!((draft.classes.len(), draft.preparation.columns[1].levels().len()), (2, 2), "{draft:?}");
}

#[test]
fn only_ids_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let expected = Expected { label: LabelColumn::None, ..Expected::default() };
    let of = |text: fn(usize) -> String| {
        let lines: Vec<String> = (0..240).map(|row| format!("{},{}.5", text(row), row % 7)).collect();
        fs::write(&file, format!("n,x\n{}\n", lines.join("\n"))).unwrap();
        repeated_ids(&file, &expected, &[]).unwrap()
    };
    assert_eq!(of(|row| format!("P{}", row / 4)), ["n"]);
    assert_eq!(of(|row| format!("N{}", row * 7 % 60)), ["n"]);
    let kilograms = (|row| format!("{} kg", 40 + row % 60)) as fn(usize) -> String;
    for text in [kilograms, |row| format!("{}%", row % 60), |row| format!("\"37,{}\"", row % 60)] {
        assert_eq!(of(text), [""; 0], "{}", text(3));
    }
    assert_eq!(of(|row| format!("{:02}.{:02}.24", 1 + row % 28, 1 + row % 3)), [""; 0], "dates");
}

#[test]
fn constants_are_of_no_single_row() {
    let dated = |row: usize| if row == 0 { String::new() } else { format!("2024-03-{:02}", 1 + row % 28) };
    let draft = drafted("seen,x,c", 60, |row| format!("{},{}.5,{}", dated(row), row % 7, class(row)));
    let Fill::Number(days) = draft.preparation.columns[0].fill else { panic!("{:?}", draft.preparation) };
    assert_eq!(days % 30.0, 0.0, "{days}");
    let few = drafted("seen,x,c", 60, |row| {
        format!("{},{}.5,{}", if row < 9 { row.to_string() } else { String::new() }, row % 7, class(row))
    });
    assert_eq!(few.preparation.columns[0].kind, Kind::Ignored, "{:?}", few.said);
}

#[test]
fn a_column_without_a_name_is_left_out() {
    let draft = drafted(",x,c", 20, |row| format!("{row},{}.5,{}", row % 7, class(row)));
    assert_eq!(draft.preparation.columns.iter().map(|c| &*c.name).collect::<Vec<_>>(), ["x"]);
    assert_eq!(draft.said, ["column 1 has no name and is left out"]);
}

#[test]
fn amending_shows_no_text_of_few_rows_and_no_other_coding() {
    let mut preparation = TableSchema {
        columns: vec![ColumnSpec::new("sex", Kind::Category(texts("f m")))],
        ..TableSchema::default()
    };
    let expected = |preparation| Expected {
        preparation: Some(preparation),
        label: LabelColumn::None,
        ..Expected::default()
    };
    let rows = |codes: &[(&str, usize)]| {
        let lines = codes.iter().flat_map(|(text, rows)| std::iter::repeat_n(*text, *rows));
        format!("sex\n{}\n", lines.collect::<Vec<_>>().join("\n"))
    };
    let codes = preparation.clone();
    let found = problems(rows(&[("f", 20), ("diverse", 10), ("Ann Aa", 9)]).as_bytes(), &expected(&codes));
    let amended = preparation.amend(&found, &RULE);
    assert_eq!(preparation.columns[0].levels(), texts("f m diverse"));
    assert_eq!(amended.left.len(), 1, "{amended:?}");
    assert!(
        amended.left[0].starts_with("\"sex\": 1 texts are not added: each is in fewer than 10 rows"),
        "{amended:?}"
    );
    let other = problems(rows(&[("1", 20), ("2", 20)]).as_bytes(), &expected(&codes));
    assert!(other.list[0].to_string().contains("\"f\", \"m\", and no row has one"), "{}", other.list[0]);
    assert_eq!(preparation.amend(&other, &RULE), super::super::problems::Amended::default());
}

#[test]
fn a_table_whose_columns_are_patients_is_drafted_with_a_warning() {
    let warned = |columns: usize, rows: usize, name: &dyn Fn(usize) -> String| {
        let header: Vec<String> = (0..columns).map(name).chain(["c".to_owned()]).collect();
        let line = |row: usize| {
            let numbers = (0..columns).map(|at| format!("{}", (7 * row + 3 * at) % 11));
            numbers.chain([class(row).to_owned()]).collect::<Vec<_>>().join(",")
        };
        let draft = try_draft(&header.join(","), rows, line, "c", &Rule { min_rows: 1, ..RULE }).unwrap();
        let said = draft.said.iter().find(|line| line.contains("transpose the table"));
        said.cloned().unwrap_or_default()
    };
    let told = warned(60, 6, &|at| format!("P{at:03}"));
    assert!(told.starts_with("warning: 61 columns and 6 rows") && told.contains("\"P000\""), "{told}");
    // These tables get no warning: they have enough rows or few columns, or their names differ in more than a
    // number.
    assert_eq!(warned(60, 40, &|at| format!("P{at:03}")), "");
    assert_eq!(warned(12, 2, &|at| format!("P{at:03}")), "");
    assert_eq!(warned(60, 6, &|at| "x".repeat(at + 1)), "");
}

#[test]
fn a_table_whose_columns_are_patients_is_refused_for_its_label_with_what_to_do_first() {
    let header: Vec<String> = (0..60).map(|at| format!("P{at:03}")).collect();
    let line = |row: usize| {
        let numbers = (0..60).map(|at| format!("{}.5", 7 * row + at));
        format!("gene{row},{}", numbers.collect::<Vec<_>>().join(","))
    };
    let header = format!("gene,{}", header.join(","));
    for label in ["gene", "P059"] {
        let told = try_draft(&header, 6, line, label, &RULE).unwrap_err().to_string();
        let (first, other) = told.split_once(". Otherwise: ").unwrap_or((&told, ""));
        assert!(first.contains("61 columns and 6 rows") && first.contains("transpose the table"), "{told}");
        assert!(other.contains("is the label, and"), "{told}");
    }
}

/// Rows with a text for a missing value have no label, unless `--classes` names the text.
#[test]
fn a_row_has_a_label_if_its_text_is_a_named_class() {
    let line = |row: usize| format!("{row},{}", ["ill", "NA", "well"][row % 3]);
    let without = |draft: &Draft| draft.said.iter().any(|line| line.contains("rows have no label"));
    assert!(without(&drafted("x,c", 60, line)));
    let classes = ["ill", "well", "NA"].map(String::from);
    let rule = Rule { classes: Some(&classes), ..RULE };
    let draft = try_draft("x,c", 60, line, "c", &rule).unwrap();
    assert!(!without(&draft), "{:?}", draft.said);
    assert_eq!(draft.classes.len(), 3);
}
