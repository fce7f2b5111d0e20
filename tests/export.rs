//! Checks that the NumPy lines in `docs/python.md` make the same predictions as `flyswarm predict`.
//!
//! The test needs python3 with NumPy (`FLYSWARM_PYTHON` names another python3). If NumPy is missing, the test
//! says so and passes, unless `FLYSWARM_REQUIRE_NUMPY` is set.

use std::path::Path;
use std::process::Command;

use flyswarm::data::Dataset;
use flyswarm_data::digits::digits;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::model::calibration::Calibration;
use flyswarm_learn::model::readout::{Readout, Score};
use flyswarm_learn::model::{Model, bloom};
use flyswarm_learn::sketch::Parameters;
use flyswarm_learn::sketch::flyhash::FlyHash;

fn python() -> String {
    std::env::var("FLYSWARM_PYTHON").unwrap_or_else(|_| "python3".into())
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// Returns the blocks of Python code in docs/python.md.
fn blocks() -> [String; 3] {
    let page = include_str!("../docs/python.md");
    let (_, text) = page.split_once("## A model without flyswarm\n").expect("the section");
    let mut blocks =
        text.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).map(String::from);
    let [lines, densify, probabilities] =
        ["the lines", "those of densify", "those of probabilities"].map(|which| blocks.next().expect(which));
    assert_eq!(lines.lines().count(), 20, "twenty lines, as the page says");
    [lines, densify, probabilities]
}

fn model(train: &Dataset, scaling: Scaling, readout: Readout, densify: bool) -> Model {
    let parameters = Parameters { d: 64, m: 2048, s: 3, rho: 32, seed: [9; 32], densify, scaling };
    let scaler = Scaler::fit(&parameters.scaling, train).expect("rows");
    let sketch = parameters.check(10).expect("good parameters");
    let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, train, 10).expect("rows fit");
    Model::new(sketch, readout, train.classes().to_vec(), scaler, counts).expect("it fits")
}

/// Returns the labels and probabilities that the program finds for the rows in `rows.csv`, and those that the
/// NumPy lines find.
fn predicted(folder: &Path, model: &Model) -> [(String, Vec<Vec<f64>>); 2] {
    let file = |name: &str| folder.join(name);
    model.save(&file("model")).expect("it can be written");
    let program = || Command::new(env!("CARGO_BIN_EXE_flyswarm"));
    run(program().args(["export", "--force", "--out"]).arg(file("model.npz")).arg(file("model")));
    let ours =
        run(program().arg("predict").arg(file("model")).arg("--scores").arg("--data").arg(file("rows.csv")));
    let [mut lines, densify, probabilities] = blocks();
    if model.sketch().parameters().densify {
        lines = lines.replace("sums = sum(", &format!("{densify}sums = sum("));
    }
    let theirs = run(Command::new(python())
        .arg("-c")
        .arg(lines + &probabilities)
        .arg(file("model.npz"))
        .arg(file("rows.csv")));
    let numbers =
        |line: &str, from| line.split(',').skip(from).map(|text| text.parse().expect("a number")).collect();
    // The columns class, margin and probability come before the ten novelties.
    let ours: Vec<&str> = ours.lines().skip(1).collect();
    let labels = ours.iter().filter_map(|line| line.split(',').next()).collect::<Vec<_>>().join("\n");
    let (theirs, stated): (Vec<_>, Vec<_>) = theirs.lines().partition(|line| !line.contains(','));
    [
        (labels, ours.iter().map(|line| numbers(line, 13)).collect()),
        (theirs.join("\n"), stated.iter().map(|line| numbers(line, 0)).collect()),
    ]
}

#[test]
fn twenty_lines_of_numpy_predict_the_same_labels() {
    let there =
        Command::new(python()).args(["-c", "import numpy"]).output().is_ok_and(|done| done.status.success());
    if !there {
        assert!(std::env::var_os("FLYSWARM_REQUIRE_NUMPY").is_none(), "{} has no NumPy", python());
        let why = format!("{} has no NumPy (pip install numpy)", python());
        crate::skipped("twenty_lines_of_numpy_predict_the_same_labels", &why);
        return;
    }
    let data = digits();
    // The classes have unequal numbers of rows, so that balanced scores differ from the other scores. The
    // last 600 rows are predicted.
    let train: Vec<usize> = (0..1197).filter(|&i| data.labels()[i] < 5 || i % 3 == 0).collect();
    let train = data.subset(&train);
    let folder = tempfile::tempdir().expect("a folder");
    let row = |i: usize| data.row(i).iter().map(f32::to_string).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (1197..1797).map(row).collect();
    std::fs::write(folder.path().join("rows.csv"), rows.join("\n")).expect("it can be written");
    let range = Scaling::Range { lo: vec![1.0], hi: vec![15.0] };
    let scalings =
        [Scaling::None, Scaling::UnitNorm, range, Scaling::Center, Scaling::Standard, Scaling::SoftBins(8)];
    let mut cases: Vec<_> =
        scalings.into_iter().map(|scaling| (scaling, Score::BalancedLog, 0.9, false)).collect();
    cases.extend(Score::ALL.map(|score| (Scaling::SoftBins(8), score, 0.5, false)));
    cases.push((Scaling::Standard, Score::Decay, 0.0, true));
    cases.push((Scaling::SoftBins(3), Score::BalancedDecay, 0.0, true));
    for (scaling, score, gamma, densify) in cases {
        let what = format!("{scaling:?}, {score}, {gamma}, densify {densify}");
        let calibration = Calibration::new(if gamma == 0.5 { 17 } else { 4 });
        let model = model(&train, scaling, Readout { score, gamma }, densify).with_calibration(calibration);
        let [(ours, stated), (theirs, expected)] = predicted(folder.path(), &model);
        assert_eq!(ours.lines().count(), 600, "{what}");
        assert_eq!(ours, theirs, "{what}");
        let (stated, expected) = (stated.concat(), expected.concat());
        assert_eq!((stated.len(), expected.len()), (6000, 6000));
        assert!(stated.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 3e-6), "{what}");
    }
}
