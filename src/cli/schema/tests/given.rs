//! Tests commands that read all rows from one file with a given description of columns: `tune`, `simulate`,
//! `session new`.

use serde_json::Value;

use super::{peers, run_line};
use crate::cli::SAID;
use crate::session::Session;

/// Two columns: an ordinal, which would be guessed as a category, and a number with gaps.
const TABLE: &str = "[data]\nclasses = [\"well\", \"ill\"]\n[table]\nmissing = [\"?\"]\nlabel = \"state\"\n\
                     [[table.column]]\nname = \"stage\"\nkind = \"ordinal\"\nlevels = [\"low\", \"mid\", \"high\"]\n\
                     [[table.column]]\nname = \"fever\"\nkind = \"number\"\nfill_with = \"mean\"\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = "state;stage;fever\n".to_owned();
    for i in 0..60 {
        let (state, stage) = [("ill", "high"), ("well", "low"), ("well", "mid")][i % 3];
        let fever = if i % 10 == 4 { "?".to_owned() } else { format!("{}", 36 + i % 3) };
        rows += &format!("{state};{stage};{fever}\n");
    }
    std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
    std::fs::write(folder.path().join("d.toml"), TABLE).unwrap();
    folder
}

fn features(json: &str) -> u64 {
    serde_json::from_str::<Value>(json).unwrap()["features"].as_u64().unwrap()
}

#[test]
fn tune_reads_rows_as_a_session_file_describes_them() {
    let folder = folder();
    std::fs::write(folder.path().join("map.toml"), "delimiter = \";\"\n").unwrap();
    let line = "tune rows.csv --label state --map map.toml --budget 0 --folds 2 --max-m 512 --json";
    // Without a description, five features are guessed: three levels, the number, and an indicator for
    // missing numbers.
    SAID.set(Some(Vec::new()));
    assert_eq!(features(&run_line(folder.path(), line).unwrap()), 5);
    let said = SAID.take().unwrap();
    assert!(said.len() == 1 && said[0].contains("rows.csv: 2 columns guessed to be 5 features"), "{said:?}");
    let line = format!("{line} --columns-from d.toml");
    let json = run_line(folder.path(), &line).unwrap();
    assert_eq!(features(&json), 2);
    let classes = &serde_json::from_str::<Value>(&json).unwrap()["classes"];
    assert_eq!(
        *classes,
        serde_json::json!(["well", "ill"]),
        "the classes are in the order of the session file"
    );
    std::fs::write(folder.path().join("d.toml"), TABLE.replace("\"mid\", ", "")).unwrap();
    let error = run_line(folder.path(), &line).unwrap_err().to_string();
    assert!(error.contains("line 4, column \"stage\": found \"mid\""), "{error}");
}

#[test]
fn simulate_reads_its_set_as_described_and_says_where_it_guessed() {
    let folder = folder();
    let scenario = |data: &str| {
        let text = format!(
            "peers = 3\n[data]\nset = \"rows.csv\"\n{data}[task]\nm = 64\ns = 2\nrho = 4\n[expect]\npooled = true\n"
        );
        std::fs::write(folder.path().join("scenario.toml"), text).unwrap();
    };
    // The label is not the last column. So without a description, the number would be used as the label,
    // which fails.
    scenario("columns_from = \"d.toml\"\n");
    let said = run_line(folder.path(), "simulate scenario.toml").unwrap();
    assert!(!said.contains("guessed"), "{said}");
    let text = std::fs::read_to_string(folder.path().join("rows.csv")).unwrap();
    let turned: String = text
        .lines()
        .map(|line| line.split_once(';').map(|(state, rest)| format!("{rest};{state}\n")).unwrap())
        .collect();
    std::fs::write(folder.path().join("rows.csv"), turned).unwrap();
    scenario("");
    let said = run_line(folder.path(), "simulate scenario.toml").unwrap();
    let line = "rows.csv: 2 columns guessed to be 5 features; `session new flynn --from` writes this \
                guess to a session file";
    assert!(said.lines().any(|said| said == line), "{said}");
    // A session file that describes columns also describes those of the set.
    let line = format!(
        "session new flynn --name ward --from d.toml {} --set flynn.m=64 --set flynn.s=2 --set flynn.rho=4 --out s.toml",
        peers()
    );
    run_line(folder.path(), &line).unwrap();
    let said = run_line(folder.path(), "simulate scenario.toml --session s.toml").unwrap();
    assert!(!said.contains("guessed"), "{said}");
    let text = std::fs::read_to_string(folder.path().join("rows.csv")).unwrap();
    std::fs::write(folder.path().join("rows.csv"), text.replace("low;37", "low;37 C")).unwrap();
    let error = run_line(folder.path(), "simulate scenario.toml --session s.toml").unwrap_err().to_string();
    assert!(error.contains("column \"fever\": found \"37 C\""), "{error}");
}

#[test]
fn a_session_takes_the_table_of_another_session_file() {
    let folder = folder();
    let new = |more: &str| {
        let line = format!(
            "session new flynn --name ward --from d.toml {}{more} --set flynn.m=64 --set flynn.rho=4 --out s.toml",
            peers()
        );
        run_line(folder.path(), &line)
    };
    new("").unwrap();
    let session = Session::load(folder.path().join("s.toml")).unwrap();
    assert_eq!(
        (&*session.data.columns, &*session.data.classes),
        (&["stage", "fever"].map(String::from)[..], &["well", "ill"].map(String::from)[..])
    );
    // The rows for `--tuning` are read with the same description.
    std::fs::write(folder.path().join("map.toml"), "delimiter = \";\"\n").unwrap();
    new(" --from rows.csv --map map.toml --tuning 1 --force").unwrap();
    assert_eq!(Session::load(folder.path().join("s.toml")).unwrap().data.columns, session.data.columns);
    std::fs::write(folder.path().join("d.toml"), "[data]\nfeatures = 2\n").unwrap();
    let error = new(" --force").unwrap_err().to_string();
    assert!(error.contains("d.toml: [table] is absent, must be columns as `session new"), "{error}");
}

#[test]
fn a_table_with_more_columns_than_are_described_is_warned_of_if_they_are_patients() {
    let folder = tempfile::tempdir().unwrap();
    let names = (0..2_001).map(|at| format!("P{at:04},")).collect::<String>();
    let rows = |row: usize| (0..2_001).map(|at| format!("{}.5,", row + at)).collect::<String>();
    let rows: String = (0..4).map(|row| format!("{}{}\n", rows(row), ["ill", "well"][row % 2])).collect();
    std::fs::write(folder.path().join("wide.csv"), format!("{names}c\n{rows}")).unwrap();
    let line = format!("session new flynn --name s --from wide.csv --label c {} --out w.toml", peers());
    SAID.set(Some(Vec::new()));
    run_line(folder.path(), &line).unwrap();
    let said = SAID.take().unwrap();
    assert!(said.iter().any(|line| line.contains("2001 columns and 4 rows, and nearly all")), "{said:?}");
}
