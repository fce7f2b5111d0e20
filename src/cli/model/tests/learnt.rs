use super::*;

/// Writes a list of training rows for the model `m` in the folder: the first `learnt` digits. 20 more rows
/// are held out.
fn has_learnt(folder: &Path, result: [u8; 32], learnt: usize) {
    let rows = crate::data::digits::digits().subset(&(0..learnt + 20).collect::<Vec<_>>());
    let mut known = LearntRows::new(result, [7; 32]);
    known.add(&rows, |row| Some(rows.labels()[row]), &(0..learnt).collect::<Vec<_>>());
    std::fs::write(folder.join("m.learnt-rows"), known.to_text()).unwrap();
}

fn unknown(why: &str) -> String {
    format!("it is unknown whether this model has learnt from these rows, because {why}")
}

#[test]
fn a_report_on_rows_that_the_model_may_have_learnt_from_says_so_first() {
    let folder = folder(&digits_csv(200, true));
    let report = || -> serde_json::Value {
        let text = run_line(folder.path(), "report m --data d.csv --out r.html --force --json").unwrap();
        serde_json::from_str(&text).unwrap()
    };
    // The model comes from elsewhere, or was copied without the file.
    let (found, file) = (report(), folder.path().join("m.learnt-rows"));
    assert_eq!((&found["rows_learnt_from"], &found["rows_held_out"]), (&json!(null), &json!(null)));
    assert_eq!(found["warnings"][0], unknown(&format!("{} is not next to it", file.display())));
    has_learnt(folder.path(), small_model(Scaling::Center).digest(), 137);
    let found = report();
    assert_eq!((&found["rows_learnt_from"], &found["rows_held_out"]), (&json!(137), &json!(20)));
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("137 of these 200 rows equal rows that this model has learnt from"));
    let page = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert!(page.contains(warning), "{page}");
}

#[test]
fn learnt_rows_of_another_model_say_nothing_and_damaged_ones_are_refused() {
    let folder = folder(&digits_csv(200, true));
    has_learnt(folder.path(), [1; 32], 137);
    let report = || run_line(folder.path(), "report m --data d.csv --json");
    let found: serde_json::Value = serde_json::from_str(&report().unwrap()).unwrap();
    let file = folder.path().join("m.learnt-rows");
    assert_eq!(found["rows_learnt_from"], json!(null));
    assert_eq!(found["warnings"][0], unknown(&format!("{} is of another model", file.display())));
    std::fs::write(&file, "{}").unwrap();
    let error = report().unwrap_err().to_string();
    assert!(
        error.contains("m.learnt-rows: not a file of learnt rows: ")
            && error.ends_with("copy it again, or remove it"),
        "{error}"
    );
}
