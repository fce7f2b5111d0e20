use ndarray::{Array2, ArrayView2, Axis};
use proptest::prelude::*;

use super::*;
use crate::learner::{Architecture, Classifier, Network, Settings, train};
use flyswarm_data::Dataset;
use flyswarm_data::digits::digits;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_data::split::{Split, folds, train_test};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Returns numbers around `centre`. If `whole` is true, they are whole, so that some distances are equal.
fn numbers(seed: u8, rows: usize, width: usize, centre: f32, whole: bool) -> Array2<f32> {
    let mut stream = Stream::new(&[seed], "personal/test", &[]);
    Array2::from_shape_fn((rows, width), |_| {
        let part = if whole { stream.below(3) as f32 } else { stream.next_u32() as f32 / 2f32.powi(31) };
        centre + part
    })
}

fn labels(rows: usize, classes: u16) -> Vec<u16> {
    (0..rows).map(|row| (row * 7 % usize::from(classes)) as u16).collect()
}

/// Computes and sorts all distances: the reference for [`Datastore::nearest`].
fn plainly(keys: ArrayView2<'_, f32>, row: &[f32], k: usize) -> Vec<(usize, f64)> {
    let square = |key: ndarray::ArrayView1<'_, f32>| -> f64 {
        row.iter().zip(key).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
    };
    let mut all: Vec<_> = keys.rows().into_iter().map(square).enumerate().collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.truncate(k);
    all.into_iter().map(|(key, square)| (key, square.sqrt())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_nearest_keys_are_those_of_the_plain_computation_to_the_last_bit(
        seed: u8,
        count in 1usize..400,
        width in 1usize..20,
        k in 1usize..30,
        // Far from 0 the product of matrices rules out few keys. At 2^70 it rules out none.
        centre in prop::sample::select(vec![0.0, 1.0, 4096.0, 1e6, 1.2e21]),
        whole: bool,
    ) {
        let keys = numbers(seed, count, width, centre, whole);
        let rows = numbers(seed ^ 1, 9, width, centre, whole);
        let datastore = Datastore::new(keys.clone(), labels(count, 3), 3).unwrap();
        let found = datastore.nearest(rows.view(), k).unwrap();
        for (row, found) in rows.rows().into_iter().zip(found) {
            let found: Vec<_> = found.iter().map(|near| (near.key, near.distance)).collect();
            prop_assert_eq!(found, plainly(keys.view(), &row.to_vec(), k));
        }
    }
}

#[test]
fn more_keys_than_a_block_holds_and_more_rows_than_a_piece_give_the_same() {
    let keys = numbers(1, 5000, 3, 0.0, true);
    let rows = numbers(2, 300, 3, 0.0, false);
    let datastore = Datastore::new(keys.clone(), labels(5000, 3), 3).unwrap();
    let found = datastore.nearest(rows.view(), 10).unwrap();
    assert_eq!(found.len(), 300);
    for (row, found) in rows.rows().into_iter().zip(found).step_by(37) {
        let found: Vec<_> = found.iter().map(|near| (near.key, near.distance)).collect();
        assert_eq!(found, plainly(keys.view(), &row.to_vec(), 10));
    }
}

#[test]
fn neighbours_votes_and_lambda_are_those_of_numpy() {
    // Made by scripts/personal-vectors.py.
    let cases: serde_json::Value = serde_json::from_str(include_str!("../../tests/personal.json")).unwrap();
    let floats = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let whole = |value: &serde_json::Value| -> Vec<usize> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
    };
    let near =
        |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    for case in cases.as_array().unwrap() {
        let [width, classes] = ["width", "classes"].map(|name| case[name].as_u64().unwrap() as usize);
        let matrix = |name: &str, width: usize| {
            let values: Vec<f32> = floats(&case[name]).iter().map(|&number| number as f32).collect();
            Array2::from_shape_vec((values.len() / width, width), values).unwrap()
        };
        let own: Vec<u16> = whole(&case["labels"]).iter().map(|&label| label as u16).collect();
        let datastore = Datastore::new(matrix("keys", width), own, classes).unwrap();
        let mixture = Mixture {
            k: case["k"].as_u64().unwrap() as usize,
            scale: case["scale"].as_f64().unwrap(),
            lambda: 0.0,
        };
        let rows = matrix("rows", width);
        let nearest = datastore.nearest(rows.view(), mixture.k).unwrap();
        for (found, wanted) in nearest.iter().zip(case["nearest"].as_array().unwrap()) {
            assert_eq!(found.iter().map(|near| near.key).collect::<Vec<_>>(), whole(wanted));
        }
        let said = mixture.neighbours(&datastore, rows.view()).unwrap();
        assert!(near(said.as_slice().unwrap(), &floats(&case["neighbours"])));
        let network = probabilities(matrix("scores", classes).view());
        assert!(near(network.as_slice().unwrap(), &floats(&case["network"])));
        let mut tally = Tally::default();
        for ((said, network), truth) in said.rows().into_iter().zip(network.rows()).zip(whole(&case["truth"]))
        {
            tally.count(said, network, truth as u16);
        }
        assert_eq!(tally.right.to_vec(), whole(&case["right"]));
        assert!(near(&tally.brier, &floats(&case["brier"])));
        assert_eq!(LAMBDAS[tally.best()], case["lambda"].as_f64().unwrap());
    }
}

#[test]
fn a_vote_far_from_all_keys_is_still_a_distribution() {
    let keys = Array2::from_shape_vec((2, 1), vec![0.0, 1.0]).unwrap();
    let datastore = Datastore::new(keys, vec![0, 1], 3).unwrap();
    let row = Array2::from_elem((1, 1), 1e6);
    let said = Mixture::new(1.0).neighbours(&datastore, row.view()).unwrap();
    // exp(-1e6) is 0 in any format. The weight of the nearer key is e times as large.
    let e = 1f64.exp();
    assert!((said[[0, 1]] - e / (1.0 + e)).abs() < 1e-12 && said[[0, 2]] == 0.0, "{said}");
}

#[test]
fn first_in_first_out_keeps_the_size_and_the_newest_and_concatenation_keeps_all() {
    let keys = |from: usize, count: usize| Array2::from_shape_fn((count, 1), |(row, _)| (from + row) as f32);
    let start = Datastore::new(keys(0, 4), labels(4, 3), 3).unwrap();
    let after = |count: usize, drift| {
        let mut datastore = start.clone();
        datastore.take_in(keys(4, count).view(), &labels(count, 3), drift).unwrap();
        (datastore.keys().iter().map(|&key| key as usize).collect::<Vec<_>>(), datastore.labels().to_vec())
    };
    assert_eq!(after(3, Drift::Fixed), (vec![0, 1, 2, 3], labels(4, 3)));
    assert_eq!(after(3, Drift::Fifo), (vec![3, 4, 5, 6], [&labels(4, 3)[3..], &labels(3, 3)].concat()));
    assert_eq!(after(6, Drift::Fifo).0, [6, 7, 8, 9]);
    assert_eq!(after(2, Drift::Concatenate).0, [0, 1, 2, 3, 4, 5]);
    let mut datastore = start.clone();
    let wide = Array2::zeros((1, 2));
    assert!(datastore.take_in(wide.view(), &[0], Drift::Fifo).is_err());
    assert!(datastore.take_in(keys(9, 2).view(), &[0], Drift::Concatenate).is_err());
    assert!(datastore.take_in(keys(9, 1).view(), &[3], Drift::Fifo).is_err());
    assert!(datastore == start, "a refused change changes nothing");
}

#[test]
fn datastores_that_cannot_be_are_refused() {
    let one = |value: f32, label| Datastore::new(Array2::from_elem((1, 1), value), vec![label], 2);
    assert!(one(1.0, 1).is_ok() && one(1.0, 2).is_err() && one(f32::NAN, 0).is_err());
    assert!(Datastore::new(Array2::zeros((0, 1)), vec![], 2).is_err());
    assert!(Datastore::new(Array2::zeros((2, 1)), vec![0], 2).is_err());
    let datastore = one(1.0, 1).unwrap();
    assert!(datastore.nearest(Array2::zeros((1, 2)).view(), 1).is_err());
    assert!(datastore.nearest(Array2::zeros((1, 1)).view(), 0).is_err());
    let infinite = Array2::from_elem((1, 1), f32::INFINITY);
    assert!(datastore.nearest(infinite.view(), 1).is_err());
    assert!(!format!("{datastore:?}").contains("1.0"), "keys are private");
}

#[test]
fn prototypes_are_means_of_their_class_in_proportion_to_its_rows() {
    // Keys of class 0 are around 0, 10 and 20, keys of class 1 around 30.
    let at = |row: usize| (row % 4 * 10) as f32 + (row / 4 % 5) as f32 * 0.1;
    let keys = Array2::from_shape_fn((40, 1), |(row, _)| at(row));
    let own: Vec<u16> = (0..40).map(|row| u16::from(row % 4 == 3)).collect();
    let all = Datastore::new(keys, own, 2).unwrap();
    let small = all.prototypes(4, b"seed").unwrap();
    assert_eq!(small.labels(), [0, 0, 0, 1]);
    let total: f32 = small.keys().column(0).iter().sum();
    let mean = small.keys()[[3, 0]];
    assert!((mean - 30.2).abs() < 1e-4 && total > 30.0, "{:?}", small.keys());
    assert_eq!(all.prototypes(1, b"seed").unwrap().len(), 2, "each class keeps one");
    assert_eq!(all.prototypes(400, b"seed").unwrap().len(), 40);
    let sample = all.sample(20, b"seed");
    assert_eq!((sample.len(), sample.labels().iter().filter(|&&label| label == 1).count()), (20, 5));
}

/// Returns a perceptron that was trained on 600 rows of the digits, and the other rows.
fn learnt() -> (Classifier, Dataset) {
    let data = digits();
    let split = train_test(&data, 67, b"learnt");
    let (own, rest) = (data.subset(&split.train), data.subset(&split.test));
    let architecture = Architecture::Perceptron { hidden: vec![16] };
    let scaler = Scaler::fit(&Scaling::Range { lo: vec![0.0], hi: vec![16.0] }, &own).unwrap();
    let scaled = scaler.transform(&own);
    let network = Network::new(&architecture, 64, 10).unwrap();
    let mut stream = Stream::new(b"learnt", "batches", &[]);
    let start = network.initial(&[1; 32]);
    let weights =
        train(&network, start, scaled.view(), scaled.labels(), None, &settings(6), &mut stream).weights;
    let session = ("digits".to_owned(), [7; 32]);
    let classes = data.classes().to_vec();
    let made = Classifier::new(&architecture, scaler, classes, Vec::new(), weights, session).unwrap();
    (made, rest)
}

fn settings(epochs: u32) -> Settings {
    let (rate, momentum, decay) = (0.05, 0.9, 1e-4);
    Settings { epochs, steps: 0, batch: 32, rate, momentum, decay, proximal: 0.0, augment: None }
}

fn practice(contents: Contents) -> Practice<'static> {
    Practice {
        mixture: Mixture::new(0.0),
        contents,
        fine_tuning: Some(settings(2)),
        local: Some(settings(4)),
        seed: b"practice",
    }
}

/// Relabels rows: each digit gets the label of the next digit.
fn renamed(rows: &Dataset) -> Dataset {
    let labels = rows.labels().iter().map(|label| (label + 1) % 10).collect();
    Dataset::new(rows.features(), rows.values().to_vec(), labels, rows.classes().to_vec()).unwrap()
}

#[test]
fn where_classes_mean_something_else_the_neighbours_say_so_and_the_network_does_not() {
    let (network, rows) = learnt();
    let rows = renamed(&rows.subset(&(0..300).collect::<Vec<_>>()));
    let found = assess(&network, &rows, &folds(&rows, 5, b"folds"), &practice(Contents::All)).unwrap();
    assert_eq!(found.rows, 300);
    assert!(found.global < 30 && found.personal > 200, "{found:?}");
    assert_eq!((found.better(), found.neighbours), ("kNN-Per", found.tally.right[6]));
    assert!(found.lambda() >= 0.9, "{found:?}");
    assert!(found.local.is_some_and(|right| right > 100) && found.fine_tuned.is_some_and(|right| right > 30));
}

#[test]
fn lambda_is_chosen_without_the_rows_that_it_is_judged_by() {
    // Every other tested row has its own class. The remaining tested rows and the datastore have a different
    // class. Each half of the tested rows is judged by the lambda that is best for the other half, so it gets
    // the wrong lambda.
    let (network, rows) = learnt();
    let own: Vec<u16> =
        (0..300).map(|row| (rows.labels()[row] + u16::from(row < 100 || row % 2 == 1)) % 10).collect();
    let rows = rows.subset(&(0..300).collect::<Vec<_>>());
    let data = Dataset::new(64, rows.values().to_vec(), own, rows.classes().to_vec()).unwrap();
    let split = Split { train: (0..100).collect(), test: (100..300).collect() };
    let practice = Practice { fine_tuning: None, local: None, ..practice(Contents::All) };
    let found = assess(&network, &data, &[split], &practice).unwrap();
    let best = found.tally.right[found.tally.best()];
    assert!(found.personal < 60 && best > 80, "{found:?}");
}

#[test]
fn the_assessment_counts_what_separate_predictions_count() {
    let (network, rows) = learnt();
    let split = train_test(&rows, 30, b"split");
    for contents in [Contents::All, Contents::Sample(0.3), Contents::Prototypes(0.1)] {
        let found = assess(&network, &rows, std::slice::from_ref(&split), &practice(contents)).unwrap();
        let (own, test) = (rows.subset(&split.train), rows.subset(&split.test));
        let (keys, _) = network.represent(own.view()).unwrap();
        let all = Datastore::new(keys, own.labels().to_vec(), 10).unwrap();
        let datastore = contents.of(&all, b"practice").unwrap();
        let right = |said: Vec<u16>| said.iter().zip(test.labels()).filter(|(a, b)| a == b).count();
        for (at, lambda) in LAMBDAS.into_iter().enumerate() {
            let mixture = Mixture::new(lambda);
            let model = PersonalModel::new(network.clone(), datastore.clone(), mixture, contents).unwrap();
            assert_eq!(
                right(model.predict(test.view()).unwrap()),
                found.tally.right[at],
                "{contents:?} {lambda}"
            );
        }
        assert_eq!(right(network.predict(test.view()).unwrap()), found.global);
        let scaled = network.scaler().transform(&own);
        let seed = [&b"practice"[..], &0u64.to_le_bytes()].concat();
        let tuned = network.with_weights(trained(&network, &scaled, &settings(2), false, &seed)).unwrap();
        assert_eq!(Some(right(tuned.predict(test.view()).unwrap())), found.fine_tuned);
    }
}

#[test]
fn the_representation_is_what_the_last_layer_takes() {
    let (network, rows) = learnt();
    let (keys, scores) = network.represent(rows.view()).unwrap();
    assert_eq!((keys.ncols(), network.network().representation()), (16, 16));
    let tensors = network.network().tensors();
    let of = |name: &str| {
        let tensor = tensors.iter().find(|tensor| tensor.name == name).unwrap();
        &network.weights()[tensor.start..tensor.start + tensor.len()]
    };
    let matrix = ArrayView2::from_shape((10, 16), of("dense2.weight")).unwrap();
    let bias = ndarray::aview1(of("dense2.bias"));
    let again = keys.dot(&matrix.t()) + bias.insert_axis(Axis(0));
    assert!(again.iter().zip(&scores).all(|(a, b)| (a - b).abs() < 1e-4));
    assert!(keys.iter().all(|&number| number >= 0.0));
    // If the rows are already representations, the network has only one layer.
    let logistic = Network::new(&Architecture::Logistic, 64, 10).unwrap();
    let weights = logistic.initial(&[1; 32]);
    let (keys, _) = logistic.represent(&weights, rows.view(), &mut crate::learner::Tape::default());
    assert_eq!(keys, rows.view());
}

#[test]
fn a_personal_model_survives_its_file_and_no_other_bytes_are_one() {
    let (network, rows) = learnt();
    let rows = rows.subset(&[0, 1, 2, 3]);
    let (keys, _) = network.represent(rows.view()).unwrap();
    let datastore = Datastore::new(keys, rows.labels().to_vec(), 10).unwrap();
    let mixture = Mixture { k: 3, scale: 0.1, lambda: 0.7 };
    let made = PersonalModel::new(network, datastore, mixture, Contents::Sample(0.25)).unwrap();
    let bytes = made.encode();
    assert!(PersonalModel::looks_like(&bytes) && !Classifier::looks_like(&bytes));
    assert_eq!(PersonalModel::decode(&bytes).unwrap(), made);
    let network = bytes.len() - made.network().encode().len();
    for at in (0..network).chain((network..bytes.len()).step_by(97)) {
        let changed = [&bytes[..at], &[bytes[at] ^ 1], &bytes[at + 1..]].concat();
        if let Ok(other) = PersonalModel::decode(&changed) {
            assert_ne!((other.digest(), &other), (made.digest(), &made), "byte {at}");
        }
    }
    assert!(PersonalModel::decode(&bytes[..bytes.len() - 1]).is_err());
    assert!(PersonalModel::decode(&[&bytes[..], &[0]].concat()).is_err());
    assert!(PersonalModel::decode(&[0xff; 64]).is_err());
    let huge = String::from_utf8_lossy(&bytes[8..400]).replace("[4,16]", "[4611686018427387905,16]");
    let huge = [&bytes[..8], huge.as_bytes()].concat();
    assert!(PersonalModel::decode(&huge).is_err());
}

#[test]
fn a_model_takes_new_rows_in_and_says_what_they_say() {
    let (network, rows) = learnt();
    let (first, new) =
        (rows.subset(&(0..100).collect::<Vec<_>>()), renamed(&rows).subset(&(100..300).collect::<Vec<_>>()));
    let (keys, _) = network.represent(first.view()).unwrap();
    let datastore = Datastore::new(keys, first.labels().to_vec(), 10).unwrap();
    let made = PersonalModel::new(network, datastore, Mixture::new(0.9), Contents::All).unwrap();
    let test = renamed(&rows).subset(&(300..500).collect::<Vec<_>>());
    let right = |drift| {
        let mut model = made.clone();
        model.take_in(new.view(), new.labels(), drift).unwrap();
        let said = model.predict(test.view()).unwrap();
        said.iter().zip(test.labels()).filter(|(a, b)| a == b).count()
    };
    let [fixed, joined, fifo] = [Drift::Fixed, Drift::Concatenate, Drift::Fifo].map(right);
    assert!(fixed < 20 && joined > fixed && fifo > 140, "{fixed} {joined} {fifo}");
}
