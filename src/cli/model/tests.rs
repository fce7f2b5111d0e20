//! Tests of prediction and evaluation on the command line.

use std::io::{self, Write};

use super::*;
use crate::cli::tests::run_line;
use crate::model::bloom::{self, Counts};
use crate::model::origin::Origin;
use crate::sketch::Parameters;
use crate::sketch::flyhash::FlyHash;
use flyswarm_data::scaling::Scaler;
use flyswarm_learn::learnt::LearntRows;

mod learnt;
mod positive;

/// Makes a model of the digits with m = 100.
pub(in crate::cli) fn small_model(scaling: Scaling) -> Model {
    let data = crate::data::digits::digits();
    let scaler = Scaler::fit(&scaling, &data).unwrap();
    let parameters = Parameters { d: 64, m: 100, s: 6, rho: 4, seed: [1; 32], densify: false, scaling };
    let sketch = parameters.check(10).unwrap();
    let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, &data, 10).unwrap();
    Model::new(sketch, 0.5, data.classes().to_vec(), scaler, counts).unwrap()
}

/// Makes a folder with `m` (a model of the digits) and `d.csv`.
fn folder(csv: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    small_model(Scaling::Center).save(&folder.path().join("m")).unwrap();
    std::fs::write(folder.path().join("d.csv"), csv).unwrap();
    folder
}

pub(in crate::cli) fn digits_csv(rows: usize, labels: bool) -> String {
    let data = crate::data::digits::digits();
    (0..rows).fold(String::new(), |mut text, i| {
        let mut fields: Vec<String> = data.row(i).iter().map(f32::to_string).collect();
        if labels {
            fields.push(data.classes()[usize::from(data.labels()[i])].clone());
        }
        text += &(fields.join(",") + "\n");
        text
    })
}

#[test]
fn predict_prints_one_class_a_line_with_or_without_a_label_column() {
    let (bare, labelled) = (folder(&digits_csv(10, false)), folder(&digits_csv(10, true)));
    let plain = run_line(bare.path(), "predict m --data d.csv").unwrap();
    assert_eq!(plain.lines().count(), 10);
    let right = plain.lines().zip(0..10).filter(|(line, i)| line.parse() == Ok(*i)).count();
    assert!(right >= 6, "{plain}");
    assert_eq!(run_line(labelled.path(), "predict m --data d.csv --label last").unwrap(), plain);
    assert_eq!(run_line(bare.path(), "predict m --data d.csv --out o").unwrap(), "");
    assert_eq!(std::fs::read_to_string(bare.path().join("o")).unwrap(), plain);
    let error = run_line(labelled.path(), "predict m --data d.csv").unwrap_err();
    assert_eq!(error.code(), 2);
    assert!(
        error.to_string().contains("no label column, expected 64 (if one column is the label"),
        "{error}"
    );
}

#[test]
fn a_network_is_predicted_from_evaluated_and_shown_like_a_model() {
    use flyswarm_learn::learner::{Architecture, Classifier, Network};
    let folder = folder(&digits_csv(10, true));
    let data = crate::data::digits::digits();
    let weights = Network::new(&Architecture::Logistic, 64, 10).unwrap().initial(&[1; 32]);
    let scaler = Scaler::fit(&Scaling::Center, &data).unwrap();
    let classes = data.classes().to_vec();
    let session = ("digits".to_owned(), [0xab; 32]);
    let made =
        Classifier::new(&Architecture::Logistic, scaler, classes, Vec::new(), weights, session).unwrap();
    made.save(&folder.path().join("n")).unwrap();
    let run = |line: &str| run_line(folder.path(), line).unwrap();
    let said = run("predict n --data d.csv --label last");
    let expected: String =
        made.predict(data.view()).unwrap()[..10].iter().map(|class| format!("{class}\n")).collect();
    assert_eq!(said, expected);
    let right = expected.lines().zip(data.labels()).filter(|(said, label)| **said == label.to_string());
    let accuracy = right.count() as f64 / 10.0;
    assert!(run("report n --data d.csv").contains(&format!("accuracy           {accuracy:.4} (")));
    let shown = run("inspect n");
    for line in ["flyswarm network, logistic, 650 weights", "session   digits abab", "dense1.weight"] {
        assert!(shown.contains(line), "{line:?} is not in {shown}");
    }
    let mut bytes = made.encode();
    bytes.pop();
    std::fs::write(folder.path().join("n"), bytes).unwrap();
    let error = run_line(folder.path(), "predict n --data d.csv --label last").unwrap_err();
    assert!(error.to_string().contains("n: not a flyswarm network: "), "{error}");
}

#[test]
fn predict_prints_scores_ids_and_abstains_with_a_network_too() {
    let folder = network_of_digits();
    let rows = digits_csv(10, false);
    std::fs::write(folder.path().join("d.csv"), &rows).unwrap();
    let named: String = rows.lines().enumerate().map(|(i, line)| format!("patient {i},{line}\n")).collect();
    std::fs::write(folder.path().join("ids.csv"), named).unwrap();
    let run = |line: &str| run_line(folder.path(), line).unwrap();
    run("personalise n --data own.csv --out p --folds 2");
    for file in ["n", "p"] {
        let classes = run(&format!("predict {file} --data d.csv"));
        let text = run(&format!("predict {file} --data ids.csv --id 1 --scores"));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines[0][..5], ["id", "class", "margin", "probability", "novelty 0"]);
        assert_eq!(lines[0].last(), Some(&"probability 9"));
        let mut margins = Vec::new();
        for (i, (line, class)) in lines[1..].iter().zip(classes.lines()).enumerate() {
            assert_eq!((line[0], line[1]), (&*format!("patient {i}"), class));
            let mut scores: Vec<f64> = line[4..14].iter().map(|score| score.parse().unwrap()).collect();
            let place: usize = class.parse().unwrap();
            assert_eq!(line[3], line[14 + place]);
            assert!((line[3].parse::<f64>().unwrap() - (-scores[place]).exp()).abs() < 1e-5);
            let sum: f64 = scores.iter().map(|score| (-score).exp()).sum();
            assert!(scores.len() == 10 && (sum - 1.0).abs() < 1e-4, "{file}: probabilities add up to {sum}");
            assert_eq!(crate::model::readout::lowest(&scores).to_string(), class);
            scores.sort_by(f64::total_cmp);
            margins.push(line[2].parse::<f64>().unwrap());
            // In a personal model, a class without a neighbour has infinite novelty.
            let margin = scores[1] - scores[0];
            assert!(margin == margins[i] || (margins[i] - margin).abs() < 1e-5, "{line:?}");
        }
        let least = margins.iter().copied().fold(f64::INFINITY, f64::min) + 1e-5;
        let json = run(&format!("predict {file} --data d.csv --json --abstain {least}"));
        let unsure = json
            .lines()
            .filter(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["class"].is_null());
        let expected = margins.iter().filter(|&&margin| margin < least).count();
        assert!(expected < 10 && unsure.count() == expected, "{json}");
    }
    for (line, expected) in [
        ("predict n --data d.csv --id 70", "70"),
        ("predict n --data d.csv --large", "--large: not with a network"),
    ] {
        let error = run_line(folder.path(), line).unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains(expected), "{error}");
    }
}

/// Makes a folder with `n` (an untrained network for the digits) and labelled rows, `own.csv`.
fn network_of_digits() -> tempfile::TempDir {
    use flyswarm_learn::learner::{Architecture, Classifier, Network};
    let folder = tempfile::tempdir().unwrap();
    let data = crate::data::digits::digits();
    let weights = Network::new(&Architecture::Logistic, 64, 10).unwrap().initial(&[1; 32]);
    let scaler = Scaler::fit(&Scaling::Center, &data).unwrap();
    let session = ("digits".to_owned(), [0xab; 32]);
    let (shape, classes) = (Architecture::Logistic, data.classes().to_vec());
    let network = Classifier::new(&shape, scaler, classes, Vec::new(), weights, session).unwrap();
    network.save(&folder.path().join("n")).unwrap();
    std::fs::write(folder.path().join("own.csv"), digits_csv(100, true)).unwrap();
    folder
}

/// The network is a logistic regression of one column. The scores of a row x are 0 and x.
#[test]
fn a_network_states_its_own_probabilities_and_has_an_area_under_the_curve() {
    use flyswarm_learn::learner::{Architecture, Classifier};
    let folder = folder("x,class\n-2,no\n-1,yes\n1,no\n2,yes\n");
    let pool = crate::data::Dataset::new(1, vec![-3.0, 5.0], vec![], vec![]).unwrap();
    let scaler = |scaling| Scaler::fit(&scaling, &pool).unwrap();
    let (classes, session) = (["no", "yes"].map(String::from).to_vec(), ("s".to_owned(), [0; 32]));
    let made = |scaling, weights| {
        let columns = vec!["x".to_owned()];
        Classifier::new(
            &Architecture::Logistic,
            scaler(scaling),
            classes.clone(),
            columns,
            weights,
            session.clone(),
        )
        .unwrap()
    };
    let network = made(Scaling::None, vec![0.0, 1.0, 0.0, 0.0]);
    network.save(&folder.path().join("n")).unwrap();
    let run = |line: &str| run_line(folder.path(), line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&run("report n --data d.csv --json")).unwrap();
    // Three of the four pairs with one row of each class are in the right order.
    assert_eq!(told["auc"]["value"], 0.75);
    let bins: Vec<_> = told["calibration"].as_array().unwrap().iter().collect();
    assert_eq!(bins.len(), 2);
    for (bin, (x, right)) in bins.iter().zip([(1.0f64, 0.0), (2.0, 1.0)]) {
        let stated = bin["stated"].as_f64().unwrap();
        assert!((stated - 1.0 / (1.0 + (-x).exp())).abs() < 1e-4, "{stated}");
        assert_eq!((bin["rows"].as_u64(), bin["right"]["value"].as_f64()), (Some(2), Some(right)));
    }
    assert!(run("report n --data d.csv").contains("AUC                0.7500"));
    // The page has the ROC curve. It has the columns only if the network has their deviations (here mean 1,
    // deviation 4).
    run("report n --data d.csv --out n.report.html");
    let page = std::fs::read_to_string(folder.path().join("n.report.html")).unwrap();
    assert!(
        page.contains("<title>Calibration</title><desc>predicted")
            && !page.contains("compared with the pool</h2>")
    );
    made(Scaling::Standard, vec![0.0, 1.0, 0.0, 0.0]).save(&folder.path().join("n")).unwrap();
    run("report n --data d.csv --out n.report.html --force");
    let page = std::fs::read_to_string(folder.path().join("n.report.html")).unwrap();
    assert!(page.contains("compared with the pool</h2>") && page.contains("flyswarm personalise"), "{page}");
    assert!(page.contains("<td>1.000 \u{b1} 4.000</td>"));
}

/// Returns digits with a header. The columns are in this order, and column `missing` is left out.
fn named_csv(order: impl Fn(usize) -> usize, missing: Option<usize>, rows: usize) -> String {
    let data = crate::data::digits::digits();
    let places: Vec<usize> = (0..64).map(order).filter(|&place| Some(place) != missing).collect();
    let line = |field: &dyn Fn(usize) -> String, label: &str| {
        let fields: Vec<String> = places.iter().map(|&place| field(place)).chain([label.into()]).collect();
        fields.join(",") + "\n"
    };
    let mut text = line(&|place| format!("p{place}"), "digit");
    for i in 0..rows {
        text +=
            &line(&|place| data.row(i)[place].to_string(), &data.classes()[usize::from(data.labels()[i])]);
    }
    text
}

fn named_model(folder: &Path, scaling: Scaling) {
    let model = small_model(scaling).with_columns((0..64).map(|i| format!("p{i}")).collect());
    model.unwrap().save(&folder.join("m")).unwrap();
}

#[test]
fn columns_are_taken_by_name_whatever_their_order_and_every_other_difference_is_refused_by_name() {
    let folder = folder(&named_csv(|i| i, None, 200));
    named_model(folder.path(), Scaling::Standard);
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("turned.csv", named_csv(|i| 63 - i, None, 200));
    for command in ["report", "predict"] {
        let run = |file: &str| run_line(folder.path(), &format!("{command} m --data {file} --label last"));
        assert_eq!(run("turned.csv").unwrap(), run("d.csv").unwrap());
    }
    let refused = |line: &str| {
        let error = run_line(folder.path(), line).unwrap_err();
        assert_eq!(error.code(), 2);
        error.to_string()
    };
    // The file has one feature fewer. The label is in its place.
    write("less.csv", named_csv(|i| i, Some(63), 20));
    let told = refused("predict m --data less.csv");
    assert!(told.contains("column 64 is called \"digit\", the model calls it \"p63\""), "{told}");
    assert!(told.ends_with("(if one column is the label: --label last, or its name or number)"), "{told}");
    let told = refused("report m --data less.csv");
    assert!(told.contains("no column is called \"p63\", which the model has"), "{told}");
    write("other.csv", named_csv(|i| i, None, 20).replacen("p7,", "age,", 1));
    let told = refused("report m --data other.csv");
    assert!(told.contains("column 8 is called \"age\", the model calls it \"p7\""), "{told}");
    let told = refused("predict m --data d.csv");
    assert!(told.contains("column 65 is called \"digit\", which the model does not have"), "{told}");
}

#[test]
fn names_that_are_not_compared_are_told_and_rows_far_outside_are_counted_by_column() {
    let said = |folder: &Path, file: &str| {
        let model = Model::load(&folder.join("m")).unwrap();
        DataArguments::of(folder.join(file)).load_for(&model, &LabelColumn::Last, true).unwrap().1
    };
    let folder = folder(&digits_csv(50, true));
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    let (plain, named) = (named_csv(|i| i, None, 50), named_csv(|i| 63 - i, None, 50));
    let far = |text: &str| text.replacen("\n0,0,", "\n0,1e20,", 1);
    write("named.csv", plain.clone());
    let [one] = &said(folder.path(), "d.csv")[..] else { panic!() };
    assert!(one.ends_with("the file and the model have no column names: names are not checked"), "{one}");
    let [one] = &said(folder.path(), "named.csv")[..] else { panic!() };
    assert!(one.ends_with("columns are used in the order of the file, names are not checked"), "{one}");
    named_model(folder.path(), Scaling::Standard);
    assert!(said(folder.path(), "named.csv").is_empty(), "{:?}", said(folder.path(), "named.csv"));
    let [one] = &said(folder.path(), "d.csv")[..] else { panic!() };
    assert!(one.ends_with("columns are used in the order of the model, names are not checked"), "{one}");
    write("named.csv", named);
    let [one] = &said(folder.path(), "named.csv")[..] else { panic!() };
    assert!(one.ends_with("columns reordered by name to match the model"), "{one}");
    write("named.csv", far(&plain));
    let [one] = &said(folder.path(), "named.csv")[..] else { panic!() };
    let expected = "1 of 50 rows are far outside the range of the training rows: \"p1\" in 1 (in \
                    training 0.3038 +- 0.9069; farthest 100000000000000000000)";
    assert!(one.ends_with(expected), "{one}");
    let text = run_line(folder.path(), "report m --data named.csv --json").unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["rows_outside"], &json["columns_outside"][0]["name"]), (&json!(1), &json!("p1")));
}

#[test]
fn report_prints_accuracies_and_the_confusion_table() {
    let folder = folder(&digits_csv(300, true));
    let text = run_line(folder.path(), "report m --data d.csv").unwrap();
    assert!(text.starts_with("balanced accuracy on 300 rows 0."), "{text}");
    // The parts are the headline, figures, classes, calibration and table, with an empty line between them.
    let parts: Vec<Vec<&str>> = text.trim_end().split("\n\n").map(|part| part.lines().collect()).collect();
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>()[..3], [1, 5, 11]);
    assert_eq!((parts.len(), parts[4].len()), (5, 11));
    assert!(parts[2][0].ends_with("precision") && parts[3][0].starts_with("confidence"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&run_line(folder.path(), "report m --data d.csv --json").unwrap()).unwrap();
    assert_eq!(json["rows"], 300);
    assert_eq!(
        (parts[0][0], 1),
        (json["headline"].as_str().unwrap(), json["warnings"].as_array().unwrap().len())
    );
    assert!(json["accuracy"].as_f64().unwrap() > 0.6);
    assert_eq!(json["confusion"].as_array().map(Vec::len), Some(10));
    let (low, high) = (&json["accuracy_interval"][0], &json["accuracy_interval"][1]);
    assert!(low.as_f64() < json["accuracy"].as_f64() && json["accuracy"].as_f64() < high.as_f64());
}

#[test]
fn a_report_shows_the_figures_of_the_command_and_leaves_out_the_receipt_of_another_model() {
    let folder = folder(&digits_csv(300, true));
    let json: serde_json::Value =
        serde_json::from_str(&run_line(folder.path(), "report m --data d.csv --json").unwrap()).unwrap();
    let page = |receipt: &serde_json::Value| {
        std::fs::write(folder.path().join("m.receipt.json"), receipt.to_string()).unwrap();
        run_line(folder.path(), "report m --data d.csv --out r.html --force").unwrap();
        std::fs::read_to_string(folder.path().join("r.html")).unwrap()
    };
    let named = "<img src=x onerror=alert(1)>";
    let other = page(&json!({"name": named, "model": {"digest": "00"}}));
    assert!(
        other.contains(&format!(
            "<strong>{:.0} %</strong>",
            100.0 * json["balanced_accuracy"].as_f64().unwrap()
        ))
    );
    assert!(!other.contains("onerror"));
    let own = page(&json!({"name": named, "model": {"digest": json["digest"]}}));
    assert!(own.contains("&lt;img src=x onerror=alert(1)&gt;") && !own.contains("<img"));
    // The held-out rows are predicted by this model, by a model of the other rows alone, and by the nearest
    // of the other rows.
    let model = small_model(Scaling::Center);
    let rows = crate::data::digits::digits().subset(&(0..300).collect::<Vec<_>>());
    let split = split::held_out(&rows, 20, 1000, &model.sketch().parameters().seed);
    let found = compared(&model, &rows.subset(&split.train), &rows.subset(&split.test)).unwrap();
    let found = json!(found.compared(model.classes(), None).unwrap());
    assert!(own.contains(&format!("<p>{} of these rows were held out", split.test.len())), "{own}");
    for way in ["swarm", "alone", "neighbours"] {
        let share = 100.0 * found[way]["balanced_accuracy"]["value"].as_f64().unwrap();
        assert!(own.contains(&format!("</i>{way}</span><strong>{share:.0} %</strong>")), "{way}");
    }
    // With this scaling, the model keeps no deviations.
    assert!(
        own.contains("a model with the scaling center keeps no deviations")
            && !own.contains("compared with the pool</h2>")
    );
    run_line(folder.path(), "report m --data d.csv --out r.html").expect("it replaces its own page");
    #[cfg(unix)]
    {
        let page = std::fs::metadata(folder.path().join("r.html")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&page.permissions());
        assert_eq!(mode & 0o777, 0o600, "the page has this peer's own figures");
    }
    std::fs::write(folder.path().join("other.html"), "<html>").unwrap();
    let other = run_line(folder.path(), "report m --data d.csv --out other.html").unwrap_err();
    // If each class has only one row, no row can be held out.
    std::fs::write(folder.path().join("ten.csv"), digits_csv(10, true)).unwrap();
    run_line(folder.path(), "report m --data ten.csv --out ten.html").unwrap();
    let ten = std::fs::read_to_string(folder.path().join("ten.html")).unwrap();
    assert!(ten.contains("no class has two rows, so none could be held out"));
    assert!(!ten.contains("Beside a model of these rows alone"));
    assert!(other.to_string().ends_with("exists; --force overwrites it"), "{other}");
}

#[test]
fn inspect_tells_what_a_model_holds() {
    let folder = folder("");
    let text = run_line(folder.path(), "inspect m").unwrap();
    assert!(text.contains("sketch    m 100, s 6, rho 4\nscore     decay, gamma 0.5\n"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&run_line(folder.path(), "inspect m --json").unwrap()).unwrap();
    assert_eq!((&json["counts_per_class"][0], &json["rows_per_class"][0]), (&json!(178 * 4), &json!(178)));
    assert_eq!((&json["origin"], &json["columns"][3]["name"]), (&json!(null), &json!(null)));
    let origin = Origin {
        session: "wards".into(),
        id: [7; 32],
        members: vec!["alice".into(), "bob".into(), "carol".into()],
        roster: 4,
        noised: false,
        protocol: "flyswarm/5".into(),
        program: "flyswarm 0.1.0".into(),
        unix: 0,
    };
    let names = (0..64).map(|i| format!("p{i}")).collect();
    let model = small_model(Scaling::Standard).with_columns(names).unwrap();
    model.with_origin(origin).save(&folder.path().join("m")).unwrap();
    let text = run_line(folder.path(), "inspect m").unwrap();
    for line in [
        "flyswarm model, version 5\n",
        &format!("session   wards {}\n", "07".repeat(32)),
        "counted   3 of 4 peers: alice, bob, carol\n",
        "written   1970-01-01 00:00:00 UTC by flyswarm 0.1.0, protocol flyswarm/5\n",
        "features  64: p0, p1, ",
        "  0  178 (9.9 %)\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&run_line(folder.path(), "inspect m --json").unwrap()).unwrap();
    assert_eq!(json["columns"][0], json!({"name": "p0", "kind": "constant", "mean": 0.0, "deviation": 0.0}));
    assert_eq!(json["origin"]["members"], json!(["alice", "bob", "carol"]));
}

#[test]
fn a_small_file_that_asks_for_gigabytes_is_refused_unless_it_is_wanted() {
    let folder = folder("1,2\n");
    let scaling = Scaling::None;
    let parameters =
        Parameters { d: 1 << 20, m: 1025, s: 1 << 18, rho: 1, seed: [1; 32], densify: false, scaling };
    let scaler = Scaler::new(&Scaling::None, 1 << 20, None).unwrap();
    let (sketch, counts) = (parameters.check(2).unwrap(), Counts::zero(2, 1025));
    let model = Model::new(sketch, 0.5, vec!["a".into(), "b".into()], scaler, counts).unwrap();
    model.save(&folder.path().join("m")).unwrap();
    assert!(std::fs::metadata(folder.path().join("m")).unwrap().len() < 10_000);
    for line in ["predict m --data d.csv", "report m --data d.csv", "export m --out o"] {
        let error = run_line(folder.path(), line).unwrap_err();
        assert!(
            error.code() == 2 && error.to_string().contains("takes 1.1 GB of memory; --large allows"),
            "{error}"
        );
    }
    assert!(run_line(folder.path(), "inspect m --json").unwrap().len() < 2000);
    let error = run_line(folder.path(), "predict m --data d.csv --large").unwrap_err().to_string();
    assert!(error.contains("2 features and no label column, expected 1048576"), "{error}");
}

#[test]
fn a_file_of_another_kind_is_called_by_its_kind() {
    let folder = folder("1,2,3\n");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("r", "{\"bytes_received\": 1, \"own_rows\": {}, \"peer_id\": \"12D3\", \"aggregates\": []}");
    write("k", "flyswarm-identity 1 00\n");
    write("s", "name = \"x\"\n[[roster]]\n");
    write("c", "[network]\nlatency_ms = 1\n");
    for (line, told) in [
        ("inspect r", "r: this is a receipt; `inspect` takes a model or a session file"),
        ("inspect k", "k: this is an identity key; `inspect` takes a model or a session file"),
        ("predict r --data d.csv", "r: this is a receipt; a model is expected"),
        ("report s --data d.csv", "s: this is a session file; a model is expected"),
        ("export c --out o", "c: this is a scenario; a model is expected"),
        ("predict m --data r", "r: this is a receipt; rows are expected"),
        ("predict m --data m", "m: this is a model; rows are expected"),
        ("simulate s", "s: this is a session file; a scenario is expected"),
        ("predict d.csv --data d.csv", "d.csv: not a flyswarm model file"),
    ] {
        let error = run_line(folder.path(), line).unwrap_err();
        assert!(error.code() == 2 && error.to_string().ends_with(told), "{line}: {error}");
    }
    named_model(folder.path(), Scaling::Center);
    let error = run_line(folder.path(), "predict m --data m").unwrap_err().to_string();
    assert!(error.ends_with("m: this is a model; rows are expected"), "{error}");
}

#[test]
fn bad_files_end_with_code_2_and_their_name() {
    let folder = folder("1,2,3\n");
    for line in [
        "predict m --data none.csv",
        "predict none --data d.csv",
        "predict d.csv --data d.csv",
        "report m --data d.csv",
        "report m --data d.csv --label none",
        "inspect d.csv",
        "inspect .",
    ] {
        let error = run_line(folder.path(), line).unwrap_err();
        assert_eq!(error.code(), 2, "{line}: {error}");
    }
}

#[test]
fn a_closed_pipe_is_success_and_a_full_disk_is_not() {
    struct Closed(io::ErrorKind);
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = folder(&digits_csv(2, false));
    let path = |name: &str| folder.path().join(name);
    let word = |name: &str| path(name).to_str().unwrap().to_owned();
    let predict = |kind| {
        let words = vec!["flyswarm".into(), "predict".into(), word("m"), "--data".into(), word("d.csv")];
        crate::cli::tests::run_words(words, &mut Closed(kind))
    };
    assert!(predict(io::ErrorKind::BrokenPipe).is_ok());
    assert_eq!(predict(io::ErrorKind::StorageFull).unwrap_err().code(), 4);
    let inspect = vec!["flyswarm".into(), "inspect".into(), word("m")];
    assert!(crate::cli::tests::run_words(inspect, &mut Closed(io::ErrorKind::BrokenPipe)).is_ok());
}

#[test]
fn predict_prints_scores_passes_ids_through_and_abstains() {
    let rows = digits_csv(10, false);
    let folder = folder(&rows);
    let classes = run_line(folder.path(), "predict m --data d.csv").unwrap();
    let named: String = rows.lines().enumerate().map(|(i, line)| format!("patient {i},{line}\n")).collect();
    std::fs::write(folder.path().join("ids.csv"), named).unwrap();
    run_line(folder.path(), "predict m --data ids.csv --id 1 --scores --force --out o").unwrap();
    let text = std::fs::read_to_string(folder.path().join("o")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..5], ["id", "class", "margin", "probability", "novelty 0"]);
    for (i, (line, class)) in lines[1..].iter().zip(classes.lines()).enumerate() {
        assert_eq!((line[0], line[1]), (&*format!("patient {i}"), class));
        let numbers: Vec<f64> = line[3..].iter().map(|number| number.parse().unwrap()).collect();
        let (mut scores, stated) = (numbers[1..11].to_vec(), &numbers[11..]);
        assert!(stated.len() == 10 && (stated.iter().sum::<f64>() - 1.0).abs() < 1e-4);
        assert_eq!(numbers[0], stated[class.parse::<usize>().unwrap()]);
        let best = crate::model::readout::lowest(&scores);
        assert_eq!(best.to_string(), class);
        scores.sort_by(f64::total_cmp);
        // rho is 4.
        let margin: f64 = line[2].parse().unwrap();
        assert!((margin - (scores[1] - scores[0]) / 4.0).abs() < 1e-5, "{line:?}");
    }
    // The least certain row gets no class.
    let margins: Vec<f64> = lines[1..].iter().map(|line| line[2].parse().unwrap()).collect();
    let median = {
        let mut all = margins.clone();
        all.sort_by(f64::total_cmp);
        all[5]
    };
    let json = run_line(folder.path(), &format!("predict m --data d.csv --json --abstain {median}")).unwrap();
    for ((line, margin), class) in json.lines().zip(&margins).zip(classes.lines()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let expected =
            if *margin >= median - 1e-6 { serde_json::json!(class) } else { serde_json::Value::Null };
        assert!(value["class"] == expected || (margin - median).abs() < 1e-6, "{line} {margin}");
    }
    for (line, expected) in
        [("predict m --data d.csv --id 70", "70"), ("predict m --data d.csv --id name", "name")]
    {
        let error = run_line(folder.path(), line).unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn two_models_are_compared_by_origin_rows_settings_and_what_they_say_of_rows() {
    let folder = folder(&digits_csv(50, true));
    let save = |name: &str, model: Model, members: &[&str]| {
        let members = members.iter().map(|&name| name.to_owned()).collect();
        let origin = Origin { session: name.into(), members, ..Origin::default() };
        model.with_origin(origin).save(&folder.path().join(name)).unwrap();
    };
    save("a", small_model(Scaling::Center), &["north", "south"]);
    save("b", small_model(Scaling::UnitNorm), &["south", "harbour"]);
    let diff = |more: &[&str]| {
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let mut words: Vec<String> = ["flyswarm", "inspect"].map(String::from).to_vec();
        words.extend(more.iter().map(|word| {
            if word.len() == 1 || word.ends_with(".csv") { path(word) } else { (*word).to_owned() }
        }));
        let mut out = Vec::new();
        crate::cli::tests::run_words(words, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = diff(&["a", "b"]);
    for line in [
        "counted    north only here  ->  harbour only here\n",
        "settings   center, m 100, s 6, rho 4, decay 0.5  ->  unit-norm, m 100",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert_eq!(diff(&["a", "a"]), "the same model\n");
    let value: serde_json::Value =
        serde_json::from_str(&diff(&["a", "b", "--data", "d.csv", "--label", "last", "--json"])).unwrap();
    let (a, b) = (small_model(Scaling::Center), small_model(Scaling::UnitNorm));
    let data = crate::data::digits::digits().subset(&(0..50).collect::<Vec<_>>());
    let (one, other) = (a.predictor().predict(&data).unwrap(), b.predictor().predict(&data).unwrap());
    let expected: Vec<_> =
        one.iter().zip(&other).enumerate().filter(|(_, (a, b))| a != b).map(|(i, _)| i + 1).collect();
    let found: Vec<_> = value["rows"]["differ"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["row"].as_u64().unwrap() as usize)
        .collect();
    assert!(!expected.is_empty() && found == expected, "{value}");
    assert_eq!(value["rows"]["balanced_accuracy"].as_array().map(Vec::len), Some(2));
    let refused = |line: &str| run_line(folder.path(), line).unwrap_err().to_string();
    assert!(refused("inspect a b a").starts_with("3 files: `inspect` takes one, or two models to compare"));
    assert!(refused("inspect a --data d.csv").starts_with("--data compares two models on these rows"));
}
