//! Tests described columns on the command line, from a draft to predictions.

mod given;
mod grouped;

use std::path::Path;

use crate::cli::Failure;
use crate::cli::data::DataArguments;
use crate::cli::tests::run_words;
use crate::crypto::identity::Identity;
use crate::data::{Expected, LabelColumn, load_named};
use crate::session::Session;
use crate::tasks::flynn::Plan;

/// Runs a command line. Words with a file extension are files in `folder`.
fn run_line(folder: &Path, line: &str) -> Result<String, Failure> {
    let word = |word: &str| match word.ends_with(".csv") || word.ends_with(".toml") {
        true => folder.join(word).display().to_string(),
        false => word.to_owned(),
    };
    let words = std::iter::once("flyswarm".to_owned()).chain(line.split(' ').map(word)).collect();
    let mut out = Vec::new();
    run_words(words, &mut out)?;
    let folder = format!("{}/", folder.display());
    Ok(String::from_utf8(out).unwrap().replace(&folder, ""))
}

fn peers() -> String {
    let peer = |seed: u8| format!("--peer peer-{seed}={}", Identity::from_seed([seed; 32]).public());
    [1, 2, 3].map(peer).join(" ")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = "kind;age;sex\n".to_owned();
    for i in 0..30 {
        let (kind, sex) = (["sick", "well"][i % 2], ["female", "male"][i % 3 % 2]);
        rows += &format!("{kind};{},5;{sex}\n", 20 + i);
    }
    std::fs::write(folder.path().join("north.csv"), rows).unwrap();
    folder
}

/// Makes a folder with the rows `north.csv` and a session file `s.toml` that was drafted from them.
pub(in crate::cli) fn drafted() -> tempfile::TempDir {
    let folder = folder();
    let line = format!(
        "session new flynn --name ward --from north.csv --label kind {} --set flynn.m=256 --set flynn.rho=8 --out s.toml",
        peers()
    );
    run_line(folder.path(), &line).unwrap();
    folder
}

#[test]
fn a_drafted_session_describes_the_columns_and_accepts_the_rows_it_was_made_from() {
    let folder = drafted();
    let text = std::fs::read_to_string(folder.path().join("s.toml")).unwrap();
    assert!(text.contains("# Guessed: all values are numbers.\n[[table.column]]\nname = \"age\""), "{text}");
    let session = Session::parse(&text).unwrap();
    assert_eq!(session.data.columns, ["age", "sex=female", "sex=male"]);
    assert_eq!(session.data.classes, ["sick", "well"]);
    let said = run_line(folder.path(), "schema check s.toml --data north.csv").unwrap();
    assert_eq!(said, "ok: north.csv: 30 rows of 3 features\n");
}

#[test]
fn a_suggested_map_file_makes_the_rows_fit() {
    let folder = drafted();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("south.csv"), "Sex;alter;kind\nfemal;30,5;sick\nmale;31;wells\n").unwrap();
    let check = "schema check s.toml --data south.csv";
    let text = run_line(folder.path(), &format!("{check} --suggest-map")).unwrap();
    let open = "# \"?\" = \"age\"  # the file has no such column";
    assert!(text.contains(open), "{text}");
    // The draft lists the columns that the user can choose from.
    assert!(text.contains("# columns of this file that the session does not name: \"alter\"\n"), "{text}");
    // Problems in the other columns are in the same draft.
    assert!(text.contains("\"femal\" = \"female\"") && text.contains("\"wells\" = \"well\""), "{text}");
    std::fs::write(file("south.toml"), text.replace(open, "\"alter\" = \"age\"")).unwrap();
    let check = "schema check s.toml --data south.csv --map south.toml";
    let said = run_line(folder.path(), check).unwrap();
    assert_eq!(said, "ok: south.csv: 2 rows of 3 features\n");
    let said = run_line(folder.path(), &format!("{check} --suggest-map")).unwrap();
    assert!(said.ends_with("matches the session: no map file is needed\n"), "{said}");
}

#[test]
fn codes_for_missing_are_shown_while_problems_are_left() {
    let folder = drafted();
    let rows: String =
        (0..60).map(|row| format!("male,{},well\n", if row < 9 { -999 } else { 20 + row })).collect();
    std::fs::write(folder.path().join("south.csv"), format!("sex,age,kind\nfemal,33,sick\n{rows}")).unwrap();
    let session = Session::load(folder.path().join("s.toml")).unwrap();
    let looked =
        super::look(&session, &folder.path().join("south.csv"), None, &crate::cli::data::Reading::default())
            .unwrap();
    assert_eq!((looked.loaded.is_none(), looked.problems.list.len()), (true, 1));
    let [("code", line), ("constant", _)] = &looked.warnings[..] else { panic!("{:?}", looked.warnings) };
    assert!(line.ends_with("\"age\" (-999 in 9 rows)"), "{line}");
}

#[test]
fn what_stands_out_is_shown_while_a_column_is_missing() {
    let folder = drafted();
    let row = |row: usize| {
        let age = if row % 7 == 3 { "-999".to_owned() } else { (20 + row * 7 % 41).to_string() };
        format!("{age},{}\n", if row == 59 { "weell" } else { ["sick", "well"][row % 2] })
    };
    let look = |text: String| {
        std::fs::write(folder.path().join("south.csv"), text).unwrap();
        let session = Session::load(folder.path().join("s.toml")).unwrap();
        let reading = crate::cli::data::Reading::default();
        super::look(&session, &folder.path().join("south.csv"), None, &reading).unwrap()
    };
    let rows: String = (0..60).map(row).collect();
    let looked = look(format!("age,kind\n{rows}"));
    let problems: Vec<_> = looked.problems.list.iter().map(ToString::to_string).collect();
    assert!(looked.loaded.is_none() && problems.len() == 2, "{problems:?}");
    assert!(problems[0].starts_with("line 1: no column is called \"sex\""), "{problems:?}");
    assert!(problems[1].starts_with("line 61, column \"kind\": found \"weell\""), "{problems:?}");
    let [("code", line)] = &looked.warnings[..] else { panic!("{:?}", looked.warnings) };
    assert!(line.ends_with("\"age\" (-999 in 9 rows)"), "{line}");
    // All labels are valid, but one column determines them. Some rows differ only in their missing values.
    let sorted: String =
        (0..120).map(|row| format!("{},{}\n", row / 3, ["sick", "well"][row / 60])).collect();
    let kinds: Vec<_> = look(format!("age,kind\n{sorted}")).warnings.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["answer", "id"]);
}

#[test]
fn a_map_file_is_suggested_for_a_header_that_names_all_columns_otherwise() {
    let folder = drafted();
    let file = |name: &str| folder.path().join(name);
    let rows = (0..20).map(|row| format!("{};weiblich;krank\n", 30 + row)).collect::<String>();
    std::fs::write(file("south.csv"), format!("Alter;Geschlecht;Diagnose\n{rows}")).unwrap();
    let check = "schema check s.toml --data south.csv";
    let told = run_line(folder.path(), check).unwrap_err().to_string();
    assert!(told.ends_with("south.csv: 1 problem"), "{told}");
    let text = run_line(folder.path(), &format!("{check} --suggest-map")).unwrap();
    assert!(text.contains("# columns of this file that the session does not name: \"Alter\", "), "{text}");
    let names = [("Alter", "age"), ("Geschlecht", "sex"), ("Diagnose", "kind")];
    let filled = names.into_iter().fold(text, |text, (own, agreed)| {
        let open = format!("# \"?\" = {agreed:?}  # the file has no such column");
        assert!(text.contains(&open), "{text}");
        text.replace(&open, &format!("{own:?} = {agreed:?}"))
    });
    std::fs::write(file("south.toml"), filled).unwrap();
    let text = run_line(folder.path(), &format!("{check} --map south.toml --suggest-map")).unwrap();
    assert!(text.contains("\"weiblich\" = \"?\"") && text.contains("\"krank\" = \"?\""), "{text}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_looked_at_twice_as_a_file_is() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let folder = drafted();
    let file = |name: &str| folder.path().join(name);
    // Repeated ids are found when the file is read a second time, and so is a column that occurs only in
    // later lines.
    let ids: String = (0..60).map(|row| format!("{row},male,well,{}\n", row / 2 + 100)).collect();
    let late: String = (0..30)
        .map(|row| format!("{{\"age\": {row}.5, \"kind\": \"k{}\"}}\n", row % 2))
        .chain((0..30).map(|row| format!("{{\"dose\": {row}.5, \"kind\": \"k1\"}}\n")))
        .collect();
    std::fs::write(file("ids.csv"), format!("age,sex,kind,case\n{ids}")).unwrap();
    std::fs::write(file("late.csv"), late).unwrap();
    // The pipes stay open until the end, so that no path is used for another pipe.
    let mut open = Vec::new();
    let mut piped = |name: &str| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&std::fs::read(file(name)).unwrap()).unwrap();
        open.push(reader);
        format!("/dev/fd/{}", open.last().unwrap().as_raw_fd())
    };
    let session = Session::load(file("s.toml")).unwrap();
    let looked = |path: &Path| super::look(&session, path, None, &Default::default()).unwrap().warnings;
    let warnings = looked(&file("ids.csv"));
    assert!(warnings.iter().any(|(kind, _)| *kind == "repeated"), "{warnings:?}");
    assert_eq!(looked(Path::new(&piped("ids.csv"))), warnings);
    let table = |from: &str| {
        let line = format!("session new flynn --name s --label kind {} --out new.toml --from", peers());
        run_line(folder.path(), &format!("{line} {from}")).unwrap();
        let text = std::fs::read_to_string(file("new.toml")).unwrap();
        std::fs::remove_file(file("new.toml")).unwrap();
        text.split_once("[table]").unwrap().1.to_owned()
    };
    for name in ["north.csv", "late.csv"] {
        assert_eq!(table(&piped(name)), table(name));
    }
    assert!(table("late.csv").contains("name = \"dose\""));
}

#[test]
fn codes_are_found_in_columns_without_problems_of_rows_that_have_some() {
    let folder = drafted();
    let rows: String = (0..60)
        .map(|row| format!("{},w,krank\n", if row % 7 == 3 { -999 } else { 20 + row * 7 % 41 }))
        .collect();
    std::fs::write(folder.path().join("south.csv"), format!("age,sex,kind\n{rows}")).unwrap();
    let session = Session::load(folder.path().join("s.toml")).unwrap();
    let reading = crate::cli::data::Reading::default();
    let looked = super::look(&session, &folder.path().join("south.csv"), None, &reading).unwrap();
    assert_eq!(looked.problems.list.len(), 2, "all rows have other codes");
    let [("code", line)] = &looked.warnings[..] else { panic!("{:?}", looked.warnings) };
    assert!(line.ends_with("\"age\" (-999 in 9 rows)"), "{line}");
    // Rows with too few columns, and texts that are not UTF-8, do not add levels.
    let rows = "7,male,well\n".repeat(20);
    let text = [format!("age,sex,kind\n{rows}40,male\n").as_bytes(), b"\xe4,male,well\n"].concat();
    std::fs::write(folder.path().join("south.csv"), text).unwrap();
    let looked = super::look(&session, &folder.path().join("south.csv"), None, &reading).unwrap();
    assert_eq!(looked.problems.list.len(), 2);
    let constant = looked.warnings.iter().find(|(kind, _)| *kind == "constant");
    assert!(constant.is_some_and(|(_, line)| line.contains("\"age\" (7)")), "{:?}", looked.warnings);
}

#[test]
fn amending_keeps_comments_and_changes_nothing_while_problems_are_left() {
    let folder = drafted();
    let path = folder.path().join("s.toml");
    let before = Session::load(&path).unwrap();
    let rows = "sex,age,kind,ward\ndiverse,30,sick,x\nmale,n/a,well,y\nfemal,31,sick,x\n";
    std::fs::write(folder.path().join("south.csv"), rows).unwrap();
    std::fs::write(folder.path().join("map.toml"), "decimal_comma = false\n").unwrap();
    let check = "schema check s.toml --data south.csv --map map.toml";
    let error = run_line(folder.path(), check).unwrap_err();
    assert_eq!(error.code(), 2);
    assert!(error.to_string().ends_with("south.csv: 2 problems"), "{error}");
    let amend = format!("{check} --amend --min-rows 1");
    let text = std::fs::read_to_string(&path).unwrap();
    let error = run_line(folder.path(), &amend).unwrap_err();
    // Two problems remain: the session has no value for a missing age, and one level is misspelt.
    assert!(error.to_string().ends_with("south.csv: 2 problems"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    std::fs::write(&path, text.replace("name = \"age\"\n", "name = \"age\"\nfill = 40.5\n")).unwrap();
    std::fs::write(folder.path().join("south.csv"), rows.replace("femal,", "female,")).unwrap();
    let error = run_line(folder.path(), &format!("{check} --amend")).unwrap_err();
    assert!(error.to_string().ends_with("south.csv: 1 problem"), "one row of a level: {error}");
    let said = run_line(folder.path(), &amend).unwrap();
    assert!(
        said.ends_with("ok: south.csv: 3 rows of 4 features; not described and left out: ward\n"),
        "{said}"
    );
    let after = Session::load(&path).unwrap();
    let preparation = after.data.preparation.as_deref().unwrap();
    assert_eq!(preparation.columns[1].levels(), ["female", "male", "diverse"]);
    assert_eq!(preparation.missing, ["n/a"]);
    assert_ne!(before.id(), after.id());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!("# Session id: {}", after.id())) && text.contains("# Guessed:"), "{text}");
}

#[test]
fn a_draft_says_all_that_others_see_and_keeps_the_rest_here() {
    let folder = folder();
    let mut rows = "kind,mrn,age,smoker,ward\n".to_owned();
    for i in 0..60 {
        let (kind, smoker) = (["sick", "well"][i % 2], ["yes", "no", ""][i % 3]);
        let ward = if i < 52 { "north" } else { "Ann Aa" };
        rows += &format!("{kind},{},{}.5,{smoker},{ward}\n", 100_000 + 7 * i, 20 + i * 7 % 41);
    }
    std::fs::write(folder.path().join("rows.csv"), &rows).unwrap();
    let new = format!("session new flynn --name ward --from rows.csv --label kind {} --out s.toml", peers());
    crate::cli::SAID.set(Some(Vec::new()));
    run_line(folder.path(), &new).unwrap();
    let said = crate::cli::SAID.take().unwrap();
    for line in [
        "  column names: \"mrn\", \"age\", \"smoker\", \"ward\", \"kind\"",
        "  levels of \"smoker\": \"no\", \"yes\"",
        "  levels of \"ward\": \"north\"",
        "  classes: \"sick\", \"well\"",
    ] {
        assert!(said.iter().any(|said| said == line), "{line}: {said:?}");
    }
    let text = std::fs::read_to_string(folder.path().join("s.toml")).unwrap();
    assert!(!text.contains("Ann Aa") && text.contains("others_missing = true"), "{text}");
    assert!(text.contains("name = \"mrn\"\nkind = \"ignored\""), "{text}");
    assert_eq!(Session::parse(&text).unwrap().data.columns.len(), 4);
    let said = run_line(folder.path(), "schema check s.toml --data rows.csv").unwrap();
    assert!(
        said.starts_with("warning: rows.csv: texts that are not levels and count as missing: \"ward\""),
        "{said}"
    );
}

#[test]
fn what_a_machine_alone_can_know_is_a_warning() {
    let folder = drafted();
    let mut rows = "kind;age;sex;patient\n".to_owned();
    for i in 0..120 {
        let (kind, sex) = (["sick", "well"][i % 2], ["female", "male"][i % 3 % 2]);
        let age = if i % 40 == 7 { "-999".into() } else { format!("{},5", 20 + i % 60) };
        rows += &format!("{kind};{age};{sex};P{}\n", i / 4);
    }
    std::fs::write(folder.path().join("south.csv"), rows).unwrap();
    let said = run_line(folder.path(), "schema check s.toml --data south.csv").unwrap();
    for line in [
        "warning: south.csv: values that look like codes for missing: \"age\" (-999 in 3 rows)",
        "warning: south.csv: ids that occur in several rows; if they are patient ids",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.contains("(session new --group): \"patient\"\n"), "{said}");
    let json = run_line(folder.path(), "schema check s.toml --data south.csv --json").unwrap();
    assert!(json.contains("\"warning\":\"code\"") && json.contains("\"warning\":\"repeated\""), "{json}");
}

#[test]
fn amended_rows_are_checked_again_and_a_file_that_needs_nothing_stays_as_it_is() {
    let folder = drafted();
    let path = folder.path().join("s.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    // A file written by hand may lack the texts for missing values.
    let line = text.lines().find(|line| line.starts_with("missing = ")).unwrap();
    let indicated = "name = \"age\"\nfill = 40.5\nindicator = true\n";
    let text = text.replace(&format!("{line}\n"), "").replace("name = \"age\"\n", indicated);
    std::fs::write(&path, &text).unwrap();
    std::fs::write(folder.path().join("south.csv"), "sex,age,kind\nmale,n/a,well\ndiverse,30,sick\n")
        .unwrap();
    std::fs::write(folder.path().join("map.toml"), "decimal_comma = false\n").unwrap();
    let check = "schema check s.toml --data south.csv --map map.toml --amend --min-rows 1";
    let said = run_line(folder.path(), check).unwrap();
    assert!(said.starts_with("amended s.toml: \"sex\": level \"diverse\", missing: \"n/a\"."), "{said}");
    assert!(said.ends_with("ok: south.csv: 2 rows of 5 features\n"), "{said}");
    let amended = std::fs::read_to_string(&path).unwrap();
    assert!(amended.contains("[table]\nmissing = [\"n/a\"]\n"), "{amended}");
    let shown = run_line(folder.path(), "session show s.toml").unwrap();
    assert!(shown.contains("missing: 40.5, and a feature shows that it was missing"), "{shown}");
    let shown = run_line(folder.path(), "session show s.toml --json").unwrap();
    assert!(shown.contains("\"indicator\""), "{shown}");
    // A misspelt level is not added.
    std::fs::write(folder.path().join("south.csv"), "sex,age,kind\nfemal,1,well\n").unwrap();
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let error = run_line(folder.path(), check).unwrap_err();
    assert!(error.to_string().ends_with("south.csv: 1 problem"), "{error}");
    assert_eq!(
        std::fs::metadata(&path).unwrap().modified().unwrap(),
        before,
        "the file is not written again"
    );
}

#[test]
fn a_session_without_described_columns_is_checked_but_not_amended() {
    let folder = folder();
    let line =
        format!("session new flynn --name ward --features 2 --classes sick,well {} --out s.toml", peers());
    run_line(folder.path(), &line).unwrap();
    std::fs::write(folder.path().join("plain.csv"), "1,2,sick\n3,4,well\n").unwrap();
    let said = run_line(folder.path(), "schema check s.toml --data plain.csv").unwrap();
    assert_eq!(said, "ok: plain.csv: 2 rows of 2 features\n");
    let error = run_line(folder.path(), "schema check s.toml --data plain.csv --amend").unwrap_err();
    assert!(error.to_string().contains("no columns are described in it"), "{error}");
}

#[test]
fn a_model_reads_rows_to_predict_as_those_that_it_has_learnt() {
    let folder = drafted();
    let session = Session::load(folder.path().join("s.toml")).unwrap();
    let expected = Expected {
        preparation: session.data.preparation.as_deref(),
        classes: Some(&session.data.classes),
        ..Expected::default()
    };
    let rows = load_named(&folder.path().join("north.csv"), &expected).unwrap().data;
    let Some(spec) = session.task.get::<crate::tasks::FlynnSpec>().copied() else {
        panic!("{:?}", session.task)
    };
    let model = Plan::new(session, spec).pooled(&rows, [3; 32]).unwrap();
    model.save(&folder.path().join("m.toml")).unwrap();
    let run = |line: &str| run_line(folder.path(), line).unwrap();
    let plain: Vec<String> = model
        .predict(rows.view())
        .unwrap()
        .into_iter()
        .map(|class| model.classes()[usize::from(class)].clone())
        .collect();
    let text = std::fs::read_to_string(folder.path().join("north.csv")).unwrap();
    // The file has another order of columns, no label, tabs and an id. It still has decimal commas.
    let mut other = "id\tsex\tage\n".to_owned();
    for (at, line) in text.lines().skip(1).enumerate() {
        let cells: Vec<&str> = line.split(';').collect();
        other += &format!("p{at}\t{}\t{}\n", cells[2], cells[1]);
    }
    std::fs::write(folder.path().join("other.csv"), &other).unwrap();
    let said = run("predict m.toml --data other.csv --id id");
    let found: Vec<String> =
        said.lines().skip(1).map(|line| line.split(',').take(2).collect::<Vec<_>>().join(",")).collect();
    let expected: Vec<String> =
        plain.iter().enumerate().map(|(at, class)| format!("p{at},{class}")).collect();
    assert_eq!(found, expected);
    assert!(run("report m.toml --data north.csv").contains("balanced accuracy"));
    // Rows with a level that the model does not have are counted in a warning. A text that is not a number is
    // refused, and the error names its place.
    std::fs::write(folder.path().join("other.csv"), other.replace("p7\tmale", "p7\tdiverse")).unwrap();
    let arguments = DataArguments::of(folder.path().join("other.csv"));
    let (_, said) = arguments.load_for(&model, &LabelColumn::None, false).unwrap();
    let told = "unknown categories, treated as missing: \"sex\" \"diverse\" in 1 rows";
    assert!(said.iter().any(|line| line.ends_with(told)), "{said:?}");
    assert!(said.iter().any(|line| line.ends_with("not described are ignored: \"id\"")), "{said:?}");
    std::fs::write(folder.path().join("other.csv"), other.replace("\t27,5", "\t27.5")).unwrap();
    let error = run_line(folder.path(), "predict m.toml --data other.csv").unwrap_err();
    assert!(error.to_string().contains("line 9, column \"age\": found \"27.5\""), "{error}");
}

#[test]
fn a_session_with_described_columns_is_shown_with_each() {
    let folder = drafted();
    let path = folder.path().join("s.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text =
        text.replace("name = \"age\"\n", "name = \"age\"\nfill_with = \"mean\"\nmin = 18\nclip = true\n");
    std::fs::write(&path, text.replace("missing = []", "missing = [\"?\"]")).unwrap();
    let shown = run_line(folder.path(), "session show s.toml").unwrap();
    let table = "table        2 columns as 3 features; label \"kind\"; decimal comma; missing is empty or \"?\"\n             \
                 \"age\": number; missing: mean of all peers; at least 18, others become that\n             \
                 \"sex\": category of female, male; missing: refused\n";
    assert!(shown.contains(table) && !shown.contains("columns      "), "{shown}");
    let json = run_line(folder.path(), "session show s.toml --json").unwrap();
    let shown: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        shown["data"]["table"],
        serde_json::json!({
            "delimiter": null, "decimal_comma": true, "missing": ["?"], "label": "kind",
            "group": null,
            "column": [
                {"name": "age", "kind": "number", "fill_with": "mean", "min": 18.0, "clip": true},
                {"name": "sex", "kind": "category", "levels": ["female", "male"]},
            ],
            "features": ["age", "sex=female", "sex=male"],
        })
    );
}
