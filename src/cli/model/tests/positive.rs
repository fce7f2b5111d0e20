//! Tests that all sites of a session use the same positive class for sensitivity, regardless of their own
//! rows.

use serde_json::{Value, json};

use super::*;
use crate::data::Dataset;

/// Returns the digits as two classes: `low`, which has fewer rows, and `high`.
fn two_classes() -> Dataset {
    let data = crate::data::digits::digits();
    let labels = data.labels().iter().map(|&label| u16::from(label > 2)).collect();
    data.with_labels(labels, vec!["low".into(), "high".into()]).unwrap()
}

/// Returns a site's file with these numbers of rows of each class.
fn site(low: usize, high: usize) -> String {
    let data = two_classes();
    let of = |class: u16, rows: usize| {
        let labels = data.labels();
        (0..data.rows()).filter(move |&row| labels[row] == class).take(rows)
    };
    of(0, low).chain(of(1, high)).fold(String::new(), |mut text, row| {
        let fields: Vec<String> = data.row(row).iter().map(f32::to_string).collect();
        text += &format!("{},{}\n", fields.join(","), data.classes()[usize::from(data.labels()[row])]);
        text
    })
}

/// Makes a folder with `m.model` (FlyNN), `n.safetensors` (a network that names `high` as the positive
/// class), and the rows of two sites.
fn folder() -> tempfile::TempDir {
    use flyswarm_learn::learner::{Architecture, Classifier, Network};
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let data = two_classes();
    let scaler = Scaler::fit(&Scaling::Center, &data).unwrap();
    let scaling = Scaling::Center;
    let parameters = Parameters { d: 64, m: 100, s: 6, rho: 4, seed: [1; 32], densify: false, scaling };
    let sketch = parameters.check(2).unwrap();
    let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, &data, 2).unwrap();
    let model = Model::new(sketch, 0.5, data.classes().to_vec(), scaler.clone(), counts).unwrap();
    assert_eq!(model.rarer_class(), Some(0));
    model.save(&file("m.model")).unwrap();
    let weights = Network::new(&Architecture::Logistic, 64, 2).unwrap().initial(&[1; 32]);
    let session = ("digits".to_owned(), [0xab; 32]);
    let names = data.classes().to_vec();
    let network =
        Classifier::new(&Architecture::Logistic, scaler, names, Vec::new(), weights, session).unwrap();
    let named = network.clone().with_positive(1).unwrap();
    assert!(named.digest() != network.digest() && network.clone().with_positive(2).is_err());
    assert_eq!(Classifier::decode(&named.encode()).unwrap(), named);
    named.save(&file("n.safetensors")).unwrap();
    std::fs::write(file("few-low.csv"), site(5, 30)).unwrap();
    std::fs::write(file("few-high.csv"), site(30, 5)).unwrap();
    folder
}

#[test]
fn sites_name_the_class_that_is_rarer_in_the_model_not_in_their_file() {
    let folder = folder();
    let positive = |line: &str| {
        let value: Value = serde_json::from_str(&run_line(folder.path(), line).unwrap()).unwrap();
        value["positive"]["class"].as_str().unwrap().to_owned()
    };
    for data in ["few-low.csv", "few-high.csv"] {
        assert_eq!(positive(&format!("report m.model --data {data} --json")), "low");
        assert_eq!(positive(&format!("report n.safetensors --data {data} --json")), "high");
        assert_eq!(positive(&format!("report m.model --data {data} --json --positive high")), "high");
    }
    // The receipt next to the model has the class of the session file, if it belongs to this model.
    let digest = hex::encode(Model::load(&folder.path().join("m.model")).unwrap().digest());
    for (digest, expected) in [(&*digest, "high"), ("00", "low")] {
        let pooled = json!({"swarm": {"positive": {"class": "high"}}});
        let receipt = json!({"model": {"digest": digest}, "evaluation": {"pooled": pooled}});
        std::fs::write(folder.path().join("m.receipt.json"), receipt.to_string()).unwrap();
        assert_eq!(positive("report m.model --data few-low.csv --json"), expected);
    }
    std::fs::write(folder.path().join("m.receipt.json"), "none").unwrap();
    assert_eq!(positive("report m.model --data few-low.csv --json"), "low");
    let error = run_line(folder.path(), "report m.model --data few-low.csv --positive ill").unwrap_err();
    assert_eq!(error.to_string(), "--positive \"ill\": expected \"low\" or \"high\"");
}

#[test]
fn a_model_of_more_than_two_classes_has_no_positive_class() {
    let folder = super::folder(&digits_csv(30, true));
    let error = run_line(folder.path(), "report m --data d.csv --positive 1").unwrap_err();
    assert_eq!(error.to_string(), "--positive \"1\": the model has 10 classes, not two");
}
