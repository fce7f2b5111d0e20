//! Tests of personal models on the command line.

use std::fs;

use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::learner::{Architecture, Network};
use flyswarm_learn::learnt::LearntRows;
use serde_json::Value;

use super::*;
use crate::cli::model::tests::digits_csv;
use crate::cli::tests::run_line;

mod grouped;

/// Makes a folder with `n` (an untrained network for the digits), `d.csv` and `v.csv`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = crate::data::digits::digits();
    let shape = Architecture::Perceptron { hidden: vec![32] };
    let weights = Network::new(&shape, 64, 10).unwrap().initial(&[1; 32]);
    let scaler = Scaler::fit(&Scaling::Range { lo: vec![0.0], hi: vec![16.0] }, &data).unwrap();
    let session = ("digits".to_owned(), [0xab; 32]);
    let network = Classifier::new(&shape, scaler, data.classes().to_vec(), Vec::new(), weights, session);
    network.unwrap().save(&folder.path().join("n")).unwrap();
    let rows = digits_csv(300, true);
    let (own, rest) = rows.split_at(rows.match_indices('\n').nth(199).unwrap().0 + 1);
    fs::write(folder.path().join("d.csv"), own).unwrap();
    fs::write(folder.path().join("v.csv"), rest).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_best_is_named_and_what_is_written_is_private_and_predicts_as_said() {
    let folder = folder();
    let run = |line: &str| run_line(folder.path(), line).unwrap();
    let line = "personalise n --data d.csv --validate v.csv --out p --local --fine-tuned-out t --json";
    let value: Value = serde_json::from_str(&run(line)).unwrap();
    let accuracy = |name: &str| value["accuracy"][name].as_f64().unwrap();
    let [global, tuned, personal] = ["global", "fine-tuned", "kNN-Per"].map(accuracy);
    assert_eq!((&value["rows"], &value["keys"]), (&100.into(), &300.into()));
    assert!(personal > 0.7 && personal > tuned && personal > global + 0.4, "{value}");
    assert_eq!(value["better"], "kNN-Per");
    assert!(accuracy("local") > global);
    let tried = value["accuracy_by_lambda"].as_array().unwrap();
    let chosen = tried.iter().find(|tried| tried[0] == value["lambda"]).unwrap();
    assert!(tried.iter().all(|tried| tried[1].as_f64() <= chosen[1].as_f64()), "{value}");
    assert_eq!(["p", "t"].map(|name| mode(&folder.path().join(name))), [0o600, 0o600]);

    let model = PersonalModel::load(&folder.path().join("p")).unwrap();
    assert_eq!(hex::encode(model.digest()), value["digest"].as_str().unwrap());
    let said = run("predict p --data v.csv --label last");
    // The personal model has all rows, including those of the validation.
    let right = digits_csv(300, true);
    let labels = right.lines().skip(200).map(|line| line.rsplit(',').next().unwrap());
    let right = said.lines().zip(labels).filter(|(said, label)| said == label).count();
    assert!(right >= 90, "{right}");
    let shown = run("report p --data v.csv");
    assert!(shown.contains(&format!("accuracy           {:.4} ", right as f64 / 100.0)), "{shown}");
    assert!(shown.contains(&format!("network alone      {global:.4}\n")), "{shown}");
    assert!(run("inspect p").contains("300 keys of 32 numbers, of all rows"));
    let json: Value = serde_json::from_str(&run("inspect p --json")).unwrap();
    assert_eq!((&json["kind"], &json["lambda"]), (&"personal model".into(), &value["lambda"]));
    let tuned = run("report t --data d.csv --json");
    assert!(serde_json::from_str::<Value>(&tuned).unwrap()["accuracy"].as_f64().unwrap() > global);
}

#[test]
fn a_personal_model_is_exported_only_when_that_is_asked_for() {
    let folder = folder();
    let run = |line: &str| run_line(folder.path(), line);
    run("personalise n --data d.csv --out p --folds 2 --capacity 0.5").unwrap();
    let error = run("export p --out p.npz").unwrap_err();
    assert!(error.to_string().ends_with("--with-private-rows exports them"), "{error}");
    assert_eq!(error.code(), 2);
    assert!(!folder.path().join("p.npz").exists());
    run("export p --out p.npz --with-private-rows").unwrap();
    assert_eq!(mode(&folder.path().join("p.npz")), 0o600);
    let model = PersonalModel::load(&folder.path().join("p")).unwrap();
    let label = LabelColumn::Name("labels".into());
    let expected = crate::data::Expected { array: Some("keys"), label, ..Default::default() };
    let keys = crate::data::load(&folder.path().join("p.npz"), &expected).unwrap();
    assert_eq!((keys.rows(), keys.features()), (model.datastore().len(), 32));
    assert!(keys.values().iter().eq(model.datastore().keys()));
    assert_eq!(
        run("export n --out n.npz").unwrap_err().code(),
        2,
        "a network has no counts that NPZ could hold"
    );
}

#[test]
fn new_rows_are_judged_before_they_come_in_and_the_oldest_go() {
    let folder = folder();
    let run = |line: &str| run_line(folder.path(), line).unwrap();
    run("personalise n --data d.csv --out p");
    let before = PersonalModel::load(&folder.path().join("p")).unwrap();
    let told: Value = serde_json::from_str(&run("report p --data v.csv --json")).unwrap();
    for (how, keys, first) in [("fifo", 200, 100), ("concatenate", 300, 0)] {
        let said = run(&format!("personalise p --data v.csv --out {how} --drift {how} --json"));
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&said["accuracy_before"], &said["keys"]), (&told["accuracy"], &keys.into()));
        let after = PersonalModel::load(&folder.path().join(how)).unwrap();
        assert_eq!(after.datastore().keys().row(0), before.datastore().keys().row(first));
        assert_eq!((after.mixture(), after.datastore().len()), (before.mixture(), keys));
    }
    let said = run("personalise p --data v.csv --drift fixed");
    assert!(said.starts_with("accuracy on 100 new rows") && !said.contains("wrote"), "{said}");
    assert_eq!(PersonalModel::load(&folder.path().join("p")).unwrap(), before);
}

#[test]
fn what_cannot_be_made_personal_is_refused_by_name() {
    let folder = folder();
    let refused = |line: &str| {
        let error = run_line(folder.path(), line).unwrap_err();
        assert_eq!(error.code(), 2, "{error}");
        error.to_string()
    };
    for (line, text) in [
        ("personalise d.csv --data d.csv", "not a network of the task fedavg"),
        ("personalise n --data d.csv --drift fifo", "works only with a personal model"),
        ("personalise n --data d.csv --label none", "expected a column of labels"),
        ("personalise n --data d.csv --capacity 0", "must be above 0, at most 1"),
        (
            "personalise n --data d.csv --capacity 1 --prototypes",
            "must be above 0, below 1 with --prototypes",
        ),
        ("personalise n --data d.csv --k 0", "k is 0, must be 1 to 1024"),
        ("personalise n --data d.csv --scale 0", "scale is 0, must be above 0"),
        ("personalise n --data d.csv --rate 0", "--rate is 0, must be above 0"),
        ("personalise n --data d.csv --out d.csv", "exists"),
    ] {
        assert!(refused(line).contains(text), "{line}: {}", refused(line));
    }
    assert!(!folder.path().join("n.personal").exists());
}

#[test]
fn a_personal_model_has_learnt_from_its_rows_and_those_of_its_network() {
    let folder = folder();
    let run =
        |line: &str| -> Value { serde_json::from_str(&run_line(folder.path(), line).unwrap()).unwrap() };
    let learnt = |value: &Value| value["rows_learnt_from"].clone();
    let made = run("personalise n --data d.csv --out p --folds 2 --json");
    assert_eq!(learnt(&made), Value::Null, "the network was copied without its file");
    assert!(made["warnings"][0].as_str().unwrap().ends_with("n.learnt-rows is not next to it"), "{made}");
    assert_eq!(mode(&folder.path().join("p.learnt-rows")), 0o600);
    assert_eq!(learnt(&run("report p --data d.csv --json")), 200);
    let others = run("report p --data v.csv --json");
    assert_eq!(learnt(&others), 0);
    let warning = others["warnings"][0].as_str().unwrap();
    assert!(warning.ends_with("the rows of the original network are not known"), "{others}");
    // After rows have been added, they are no longer new.
    let taken = |out: &str| run(&format!("personalise p --data v.csv --out {out} --force --json"));
    assert_eq!((learnt(&taken("p")), learnt(&taken("q"))), (0.into(), 100.into()));
    assert_eq!(learnt(&run("report q --data d.csv --json")), 200);
    fs::remove_file(folder.path().join("p.learnt-rows")).unwrap();
    let unknown = taken("r");
    assert_eq!(learnt(&unknown), Value::Null);
    assert!(
        unknown["warnings"][0].as_str().unwrap().ends_with("p.learnt-rows is not next to it"),
        "{unknown}"
    );
}

#[test]
fn a_network_is_not_judged_by_rows_that_it_was_trained_on_without_a_warning() {
    let folder = folder();
    let network = Classifier::load(&folder.path().join("n")).unwrap();
    let rows = crate::data::digits::digits().subset(&(0..150).collect::<Vec<_>>());
    let mut known = LearntRows::new(network.digest(), [7; 32]);
    known.add(&rows, |row| Some(rows.labels()[row]), &(0..150).collect::<Vec<_>>());
    fs::write(folder.path().join("n.learnt-rows"), known.to_text()).unwrap();
    let warned = |line: &str| -> Value {
        let text = run_line(folder.path(), &format!("personalise n --folds 2 --force --json {line}"));
        serde_json::from_str::<Value>(&text.unwrap()).unwrap()["rows_learnt_from"].clone()
    };
    assert_eq!(warned("--data d.csv --out p"), 150);
    assert_eq!(learnt_of(&folder, "report p --data d.csv --json"), 200);
}

fn learnt_of(folder: &tempfile::TempDir, line: &str) -> Value {
    let value: Value = serde_json::from_str(&run_line(folder.path(), line).unwrap()).unwrap();
    value["rows_learnt_from"].clone()
}
