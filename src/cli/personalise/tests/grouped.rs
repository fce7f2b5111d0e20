//! Tests that rows of one patient are not both stored and used for the comparison.

use std::fmt::Write;
use std::sync::Arc;

use flyswarm_data::prepare::{ColumnSpec, Kind, TableSchema};
use flyswarm_learn::learner::Classifier;

use super::*;

/// Returns four visits of each patient, which differ only slightly. The outcome is random.
fn visits(patients: std::ops::Range<u32>) -> String {
    let mut state = 7 + patients.start;
    let mut draw = || {
        // This is the "quick and dirty" generator of Numerical Recipes.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24)
    };
    let mut text = "patient,a,b,c,outcome\n".to_owned();
    for patient in patients {
        let own = [draw(), draw(), draw()];
        let outcome = if draw() < 0.5 { "ill" } else { "well" };
        for visit in 0..4 {
            let [a, b, c] = own.map(|number| number + f64::from(visit) * 1e-5);
            let _ = writeln!(text, "P{patient},{a},{b},{c},{outcome}");
        }
    }
    text
}

/// Returns an untrained network for a table that has this group column.
fn network(group: Option<&str>) -> Classifier {
    let columns = ["a", "b", "c"].map(|name| ColumnSpec::new(name.to_owned(), Kind::Number)).to_vec();
    let (label, group) = (Some("outcome".to_owned()), group.map(str::to_owned));
    let table = Arc::new(TableSchema { label, group, columns, ..TableSchema::default() });
    let pool = Dataset::new(3, vec![0.0; 3], Vec::new(), Vec::new()).unwrap();
    let scaler = Scaler::fit(&Scaling::None, &pool).unwrap();
    let classes = ["ill", "well"].map(String::from).to_vec();
    let from = ("visits".to_owned(), [1; 32]);
    let made =
        Classifier::new(&Architecture::Logistic, scaler, classes, table.features(), vec![0.0; 8], from)
            .unwrap();
    made.with_preparation(table).unwrap()
}

#[test]
fn rows_in_turn_are_patients_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("visits.csv"), visits(0..50)).unwrap();
    let neighbours = |name: &str, group| {
        network(group).save(&folder.path().join(name)).unwrap();
        let line = format!(
            "personalise {name} --data visits.csv --label outcome --out {name}.p --k 3 --scale 0.01 --json"
        );
        let told: Value = serde_json::from_str(&run_line(folder.path(), &line).unwrap()).unwrap();
        told["accuracy"]["neighbours"].as_f64().unwrap()
    };
    let (seen, new) = (neighbours("bare", None), neighbours("grouped", Some("patient")));
    assert!(seen > 0.95, "{seen}: other visits of these patients are stored");
    assert!(new < 0.75, "{new}: for new patients, the accuracy is that of chance");
}

#[test]
fn a_patient_in_both_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("own.csv"), visits(0..20)).unwrap();
    fs::write(file("other.csv"), visits(20..30)).unwrap();
    fs::write(file("both.csv"), visits(18..30)).unwrap();
    network(Some("patient")).save(&file("n")).unwrap();
    let run = |line: &str| run_line(folder.path(), line);
    run("personalise n --data own.csv --label outcome --validate other.csv --out p").unwrap();
    let error = run("personalise n --data own.csv --label outcome --validate both.csv --out q").unwrap_err();
    let told = "--validate: 2 groups have rows in --data too: leave them out of one of the two files";
    assert_eq!((error.to_string().as_str(), file("q").exists()), (told, false));
}
