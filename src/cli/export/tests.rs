//! Compares the graph with `flyswarm predict`, using onnxruntime: `FLYSWARM_PYTHON` names another
//! python3. Without it the test prints a line and passes, unless `FLYSWARM_REQUIRE_ONNX` is set.

use std::process::Command;

use flyswarm_learn::learner::Network;

use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::learner::Architecture;

use super::*;
use crate::cli::model::tests::small_model;
use crate::cli::tests::run_line;
use crate::data::digits::digits;

const SCRIPT: &str = "
import json, sys
import numpy as np, onnx, onnxruntime
onnx.checker.check_model(onnx.load(sys.argv[1]), full_check=True)
session = onnxruntime.InferenceSession(sys.argv[1])
classes = json.loads(session.get_modelmeta().custom_metadata_map['classes'])
rows = np.loadtxt(sys.argv[2], delimiter=',', dtype=np.float32)
found, probabilities = session.run(['class', 'probabilities'], {'rows': rows})
for row, every in zip(found, probabilities):
    print(classes[row], *every)
";

#[test]
fn the_graph_gives_the_probabilities_and_classes_that_predict_gives_with_every_network_and_scaling() {
    let python = std::env::var("FLYSWARM_PYTHON").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import numpy, onnx, onnxruntime"]).output();
    if !has.is_ok_and(|done| done.status.success()) {
        assert!(std::env::var_os("FLYSWARM_REQUIRE_ONNX").is_none(), "{python} has no onnxruntime");
        eprintln!("skipped: the graph of ONNX needs {python} with numpy, onnx and onnxruntime");
        return;
    }
    let data = digits();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let line = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n";
    let rows: String = data.values().chunks_exact(64).take(50).map(line).collect();
    // Adds a row of zeros, which has no length, and a row with values in columns that are always 0 in the
    // digits.
    std::fs::write(file("d.csv"), rows + &line(&[0.0; 64]) + &line(&[5.0; 64])).unwrap();
    let mlp = Architecture::Perceptron { hidden: vec![9, 7] };
    let cnn = |image| Architecture::Convolutional { image, filters: [2, 3, 4], hidden: 5 };
    let each = Scaling::Range { lo: vec![1.0; 64], hi: (0..64u8).map(|j| 9.0 + f32::from(j % 8)).collect() };
    let cases = [
        (Architecture::Logistic, Scaling::None),
        (mlp.clone(), Scaling::Range { lo: vec![0.0], hi: vec![16.0] }),
        (mlp.clone(), each),
        (cnn([1, 8, 8]), Scaling::Standard),
        (Architecture::Logistic, Scaling::UnitNorm),
        (mlp, Scaling::Center),
        (cnn([3, 9, 9]), Scaling::SoftBins(4)),
        (cnn([4, 8, 8]), Scaling::SoftBins(4)),
    ];
    let mut tried = 0;
    for (shape, scaling) in cases {
        let scaler = Scaler::fit(&scaling, &data).unwrap();
        let Ok(network) = Network::new(&shape, scaler.width(), 10) else { continue };
        // The weights differ enough that one class clearly wins.
        let weights = network.initial(&[3; 32]).into_iter().map(|weight| 3.0 * weight).collect();
        let session = ("digits".to_owned(), [0xab; 32]);
        let made = Classifier::new(&shape, scaler, data.classes().to_vec(), Vec::new(), weights, session);
        made.unwrap().save(&file("n")).unwrap();
        let run = |words: &str| run_line(folder.path(), words).unwrap();
        let said = run("export n --out n.onnx --force");
        assert!(said.contains("rows x 64, unscaled"), "{said}");
        let done = Command::new(&python)
            .args(["-c", SCRIPT])
            .args([file("n.onnx"), file("d.csv")])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{shape:?} {scaling:?}: {told}");
        let ours = run("predict n --data d.csv --scores");
        let theirs = String::from_utf8(done.stdout).unwrap();
        assert_eq!((ours.lines().count(), theirs.lines().count()), (53, 52));
        for (ours, theirs) in ours.lines().skip(1).zip(theirs.lines()) {
            let (ours, theirs): (Vec<_>, Vec<_>) = (ours.split(',').collect(), theirs.split(' ').collect());
            assert_eq!(ours[0], theirs[0], "{shape:?} {scaling:?}");
            for (novelty, probability) in ours[2..].iter().zip(&theirs[1..]) {
                let expected = (-novelty.parse::<f64>().unwrap()).exp();
                let found: f64 = probability.parse().unwrap();
                assert!((expected - found).abs() < 1e-4, "{shape:?} {scaling:?}: {expected} {found}");
            }
        }
        tried += 1;
    }
    assert_eq!(tried, 7, "3 x 9 x 9 is left out, because such an image does not have 256 numbers");
}

#[test]
fn networks_are_graphs_and_models_are_arrays_and_the_file_is_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let data = digits();
    let weights = Network::new(&Architecture::Logistic, 64, 10).unwrap().initial(&[3; 32]);
    let scaler = Scaler::fit(&Scaling::None, &data).unwrap();
    let (classes, session) = (data.classes().to_vec(), ("digits".to_owned(), [0xab; 32]));
    let made =
        Classifier::new(&Architecture::Logistic, scaler, classes, Vec::new(), weights, session).unwrap();
    made.save(&folder.path().join("n")).unwrap();
    crate::cli::model::tests::small_model(Scaling::None).save(&folder.path().join("m")).unwrap();
    for (line, told) in [
        ("export n --out n.npz", "a network is written as ONNX, so its name must end in .onnx"),
        ("export m --out m.onnx", "only a network is written as ONNX"),
    ] {
        let error = run_line(folder.path(), line).unwrap_err();
        assert!(error.code() == 2 && error.to_string().ends_with(told), "{error}");
    }
    let value = run_line(folder.path(), "export n --out n.onnx --json").unwrap();
    let value: serde_json::Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value["digest"], hex::encode(made.digest()));
    assert_eq!(value["expects"], onnx::expects(&made));
    assert_eq!(std::fs::read(folder.path().join("n.onnx")).unwrap(), onnx::encode(&made));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_remembered_as_one_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let writer = BufWriter::new(Remembering { file: &full, error: None });
    let written = small_model(Scaling::Center).write_npz(writer).unwrap().into_inner().ok().unwrap();
    assert_eq!(written.error.unwrap().kind(), io::ErrorKind::StorageFull);
}
