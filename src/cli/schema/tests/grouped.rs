//! Tests of a group column on the command line.

use super::*;

/// Makes a folder with two files: four visits of each of thirty patients, and the same visits without the
/// patient column.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let visit = |row: usize| {
        format!("{}.5,{}.5,{}", 20 + row * 7 % 41, row * row % 89, ["sick", "well"][row / 4 % 2])
    };
    let named: String = (0..120).map(|row| format!("P{},{}\n", row / 4 * 7919 % 1009, visit(row))).collect();
    let bare: String = (0..120).map(|row| visit(row) + "\n").collect();
    std::fs::write(folder.path().join("visits.csv"), format!("patient,age,dose,kind\n{named}")).unwrap();
    std::fs::write(folder.path().join("bare.csv"), format!("age,dose,kind\n{bare}")).unwrap();
    folder
}

fn new(folder: &Path, more: &str) -> Result<Session, Failure> {
    let line = format!("session new flynn --name ward --label kind {} --out s.toml --force {more}", peers());
    run_line(folder, &line)?;
    Ok(Session::load(folder.join("s.toml")).unwrap())
}

#[test]
fn a_session_of_visits_is_drafted_with_its_group_column_and_refuses_rows_without_it() {
    let folder = folder();
    let session = new(folder.path(), "--from visits.csv --group patient").unwrap();
    assert_eq!(session.data.columns, ["age", "dose"]);
    assert_eq!(session.data.preparation.as_ref().unwrap().group.as_deref(), Some("patient"));
    let text = std::fs::read_to_string(folder.path().join("s.toml")).unwrap();
    assert!(!text.contains("P7919") && !text.contains("\"P"), "no pseudonym is in the file");
    let said = run_line(folder.path(), "schema check s.toml --data visits.csv").unwrap();
    assert_eq!(said, "ok: visits.csv: 120 rows of 2 features\n");
    let error = run_line(folder.path(), "schema check s.toml --data bare.csv").unwrap_err().to_string();
    assert!(error.contains("1 problem"), "{error}");
    let shown = run_line(folder.path(), "session show s.toml").unwrap();
    assert!(shown.contains("rows with the same \"patient\" are never split"), "{shown}");
    // `--tuning` does not split the rows of a patient.
    new(folder.path(), "--from visits.csv --group patient --tuning 1").unwrap();
    let error = new(folder.path(), "--from visits.csv --group person").unwrap_err().to_string();
    assert!(error.contains("no column named \"person\" for --group"), "{error}");
    let error = new(folder.path(), "--from visits.csv --group kind").unwrap_err().to_string();
    assert!(error.contains("\"kind\" is the label and cannot be the group"), "{error}");
}

#[test]
fn without_a_group_column_visits_bring_the_advice_to_name_one() {
    let folder = folder();
    new(folder.path(), "--from visits.csv").unwrap();
    let said = run_line(folder.path(), "schema check s.toml --data visits.csv").unwrap();
    assert!(
        said.contains("ids that occur in several rows") && said.contains("session new --group"),
        "{said}"
    );
}
