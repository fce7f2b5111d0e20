use ndarray::Array2;

use super::layer::{Layer, PIECE, Scratch};
use super::*;
use flyswarm_data::digits::digits;
use flyswarm_sealed_sum::crypto::stream::Stream;

fn shapes() -> Vec<(Architecture, usize)> {
    let image = [2, 9, 8];
    vec![
        (Architecture::Logistic, 7),
        (Architecture::Perceptron { hidden: vec![6, 5] }, 7),
        (Architecture::Convolutional { image, filters: [3, 2, 4], hidden: 5 }, 144),
    ]
}

/// Returns rows of numbers in -1..1, and labels of 3 classes.
fn rows(seed: u8, count: usize, features: usize) -> (Array2<f32>, Vec<u16>) {
    let mut stream = Stream::new(&[seed], "points", &[]);
    let mut number = || (f64::from(stream.next_u32()) / 2f64.powi(31) - 1.0) as f32;
    let rows = Array2::from_shape_fn((count, features), |_| number());
    (rows, (0..count).map(|row| (row % 3) as u16).collect())
}

fn gradient(
    network: &Network,
    weights: &[f32],
    rows: &Array2<f32>,
    labels: &[u16],
    row_weights: Option<&[f32]>,
) -> (Batch, Vec<f32>) {
    let mut tape = Tape::default();
    tape.load(rows.iter().copied());
    let mut gradient = vec![f32::NAN; network.weights()];
    let take = |start: usize, _: &mut [f32], part: &[f32]| {
        gradient[start..start + part.len()].copy_from_slice(part);
    };
    let batch = network.gradient(&mut weights.to_vec(), labels, row_weights, &mut tape, take);
    (batch, gradient)
}

#[test]
fn the_gradient_of_a_large_matrix_comes_in_pieces_with_the_bits_of_one_product() {
    let (inputs, outputs, batch) = (1_000, 2_101, 5);
    let layer = Layer::Dense { inputs, outputs, relu: false };
    let (input, mut upper) = (rows(1, batch, inputs).0, rows(2, batch, outputs).0);
    let (mut weights, mut found) = (vec![0.0; layer.weights()], vec![f32::NAN; layer.weights()]);
    let mut longest = 0;
    let mut take = |start: usize, weights: &mut [f32], part: &[f32]| {
        assert_eq!(weights.len(), part.len());
        longest = longest.max(part.len());
        found[start..start + part.len()].copy_from_slice(part);
    };
    let (from, to) = (input.as_slice().unwrap(), upper.as_slice_mut().unwrap());
    let scratch = &mut Scratch::default();
    layer.backward(&mut weights, batch, from, &[], to, None, scratch, &mut take);
    assert!(longest <= PIECE && longest < inputs * outputs);
    let whole = upper.t().dot(&input);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&found[..inputs * outputs]) == bits(&whole.into_iter().collect::<Vec<_>>()));
}

/// The test tries the same seeds in each run, so that it always has the same result.
#[test]
fn the_gradient_is_that_of_finite_differences() {
    for (seed, shape) in (0..=u8::MAX).flat_map(|seed| (0..3).map(move |shape| (seed, shape))) {
        let (architecture, features) = shapes().swap_remove(shape);
        let network = Network::new(&architecture, features, 3).unwrap();
        let weights = network.initial(&[seed; 32]);
        let (rows, labels) = rows(seed, 6, features);
        let row_weights = (seed % 2 == 0).then_some(&[1.0, 0.5, 2.0, 0.0, 1.5, 1.0][..]);
        let (_, slope) = gradient(&network, &weights, &rows, &labels, row_weights);
        let loss = |weights: &[f32]| gradient(&network, weights, &rows, &labels, row_weights).0.loss / 6.0;
        let here = loss(&weights);
        for at in (0..network.weights()).step_by(network.weights() / 60 + 1) {
            let mut moved = weights.clone();
            let mut differs = |change: f32| {
                moved[at] = weights[at] + change;
                let change = f64::from(moved[at]) - f64::from(weights[at]);
                ((loss(&moved) - here) / change - f64::from(slope[at])).abs() > 2e-3
            };
            // ReLU and maximum have corners. A corner changes the difference only on its own side.
            assert!(!(differs(1e-3) && differs(-1e-3)), "seed {seed}, {architecture:?}, weight {at}");
        }
    }
}

#[test]
fn a_batch_of_heavy_rows_takes_no_longer_a_step_than_one_of_rows_that_count_fully() {
    let (architecture, features) = shapes().swap_remove(1);
    let network = Network::new(&architecture, features, 3).unwrap();
    let weights = network.initial(&[3; 32]);
    let (rows, labels) = rows(4, 6, features);
    let slope = |row_weights| gradient(&network, &weights, &rows, &labels, row_weights).1;
    assert_eq!(slope(Some(&[64.0; 6])), slope(None));
    // Rows with a weight below 1 take a shorter step.
    let half = slope(Some(&[0.5; 6]));
    assert!(half.iter().zip(slope(None)).all(|(half, full)| *half == full / 2.0));
}

#[test]
fn training_gives_the_same_bits_again_and_other_bits_with_another_stream() {
    for (architecture, features) in shapes() {
        let network = Network::new(&architecture, features, 3).unwrap();
        let start = network.initial(&[3; 32]);
        let (rows, labels) = rows(4, 23, features);
        let settings = settings();
        let trained = |key: &[u8]| {
            let mut stream = Stream::new(key, "batches", &[]);
            train(&network, start.clone(), rows.view(), &labels, None, &settings, &mut stream)
        };
        assert_eq!(trained(b"one"), trained(b"one"));
        assert_ne!(trained(b"one").weights, trained(b"other").weights);
        assert_eq!(trained(b"one").seen.rows, 46);
    }
}

fn settings() -> Settings {
    Settings {
        epochs: 2,
        steps: 0,
        batch: 8,
        rate: 0.1,
        momentum: 0.9,
        decay: 1e-3,
        proximal: 0.0,
        augment: None,
    }
}

#[test]
fn a_perceptron_learns_the_digits_and_the_loss_goes_down() {
    let data = digits();
    let network = Network::new(&Architecture::Perceptron { hidden: vec![32] }, 64, 10).unwrap();
    let rows = data.view().mapv(|pixel| pixel / 16.0);
    let (train_rows, test_rows) = rows.view().split_at(ndarray::Axis(0), 1400);
    let (train_labels, test_labels) = data.labels().split_at(1400);
    let start = network.initial(&[6; 32]);
    let settings = Settings { epochs: 8, batch: 32, rate: 0.05, ..settings() };
    let mut stream = Stream::new(b"digits", "batches", &[]);
    let trained = train(&network, start.clone(), train_rows, train_labels, None, &settings, &mut stream);
    let mut tape = Tape::default();
    let before = network.evaluate(&start, test_rows, test_labels, &mut tape);
    let after = network.evaluate(&trained.weights, test_rows, test_labels, &mut tape);
    assert!(after.right * 100 >= test_labels.len() * 90, "{after:?}");
    assert!(after.loss < before.loss / 4.0, "{before:?} {after:?}");
}

#[test]
fn the_proximal_term_holds_weights_near_the_first_and_clipping_bounds_the_way() {
    let (architecture, features) = shapes().swap_remove(1);
    let network = Network::new(&architecture, features, 3).unwrap();
    let start = network.initial(&[3; 32]);
    let (rows, labels) = rows(4, 23, features);
    let way = |proximal| {
        let settings = Settings { proximal, epochs: 20, ..settings() };
        let mut stream = Stream::new(b"key", "batches", &[]);
        train(&network, start.clone(), rows.view(), &labels, None, &settings, &mut stream).weights
    };
    let (mut free, mut held) = (way(0.0), way(1.0));
    let lengths = [&mut free, &mut held].map(|weights| clip_update(&start, weights, 0.05));
    assert!(lengths[1] < lengths[0] && lengths[1] > 0.05, "{lengths:?}");
    assert!((clip_update(&start, &mut free, f64::INFINITY) - 0.05).abs() < 1e-6);
}

#[test]
fn steps_are_counted_over_passes_and_a_row_of_weight_nothing_teaches_nothing() {
    let network = Network::new(&Architecture::Logistic, 4, 3).unwrap();
    let (rows, labels) = rows(9, 10, 4);
    let start = network.initial(&[0; 32]);
    let settings = Settings { steps: 7, batch: 4, decay: 0.0, ..settings() };
    let run = |row_weights| {
        let mut stream = Stream::new(b"key", "batches", &[]);
        train(&network, start.clone(), rows.view(), &labels, row_weights, &settings, &mut stream)
    };
    // Passes have batches of 4, 4 and 2 rows.
    assert_eq!(run(None).seen.rows, 10 + 10 + 4);
    let still = run(Some(&[0.0; 10]));
    assert_eq!((still.weights, still.seen.loss), (start.clone(), 0.0));
}

#[test]
fn images_are_turned_over_and_moved_with_zeros_coming_in() {
    let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let augment = Augment { image: [1, 2, 3], flip: true, shift: 1 };
    let mut seen = std::collections::BTreeSet::new();
    let mut stream = Stream::new(b"key", "images", &[]);
    for _ in 0..400 {
        let mut out = Vec::new();
        augment.append(&image, &mut stream, &mut out);
        seen.insert(out.iter().map(|&pixel| pixel as u8).collect::<Vec<_>>());
    }
    // Two flips times nine shifts, all different.
    assert_eq!(seen.len(), 18);
    for wanted in [[1, 2, 3, 4, 5, 6], [3, 2, 1, 6, 5, 4], [0, 0, 0, 0, 1, 2], [5, 4, 0, 0, 0, 0]] {
        assert!(seen.contains(&wanted[..]), "{wanted:?}");
    }
}

#[test]
fn tensors_cover_the_weights_without_gaps() {
    for (architecture, features) in shapes() {
        let network = Network::new(&architecture, features, 3).unwrap();
        let mut next = 0;
        for tensor in network.tensors() {
            assert_eq!(tensor.start, next, "{}", tensor.name);
            next += tensor.len();
        }
        assert_eq!(next, network.weights());
    }
    // Network of the reference runs (81,290 weights at 32 x 32 x 3).
    let architecture = Architecture::Convolutional { image: [3, 32, 32], filters: [16, 32, 32], hidden: 128 };
    assert_eq!(Network::new(&architecture, 3072, 10).unwrap().weights(), 81_290);
}

#[test]
fn networks_that_do_not_fit_are_refused_by_name() {
    let text = |architecture: Architecture, features| {
        Network::new(&architecture, features, 10).unwrap_err().to_string()
    };
    let cnn = |image| Architecture::Convolutional { image, filters: [2; 3], hidden: 4 };
    assert_eq!(text(cnn([1, 8, 8]), 65), "an image has 1 x 8 x 8 numbers, but a row has 65");
    assert_eq!(
        text(cnn([1, 4, 16]), 64),
        "an image has 4 x 16 pixels, but three poolings need at least 8 x 8"
    );
    assert_eq!(text(Architecture::Perceptron { hidden: vec![0] }, 4), "a layer of 0 units");
    let large = Architecture::Perceptron { hidden: vec![1 << 20, 1 << 20] };
    assert_eq!(text(large, 4), "more than 16777216 weights");
    assert_eq!(text(Architecture::Perceptron { hidden: vec![u32::MAX] }, 4), "more than 16777216 weights");
}

#[test]
fn a_classifier_survives_its_file_and_no_other_bytes_are_one() {
    use flyswarm_data::scaling::{Scaler, Scaling};
    let data = digits();
    for (scaling, architecture) in [
        (Scaling::Standard, Architecture::Perceptron { hidden: vec![5] }),
        (Scaling::Range { lo: vec![0.1], hi: vec![16.0] }, Architecture::Logistic),
        (Scaling::None, Architecture::Convolutional { image: [1, 8, 8], filters: [2, 3, 4], hidden: 6 }),
    ] {
        let scaler = Scaler::fit(&scaling, &data).unwrap();
        let network = Network::new(&architecture, 64, 10).unwrap();
        let session = ("digits".to_owned(), [7; 32]);
        let weights = network.initial(&[1; 32]);
        let classes = data.classes().to_vec();
        let made = Classifier::new(&architecture, scaler, classes, Vec::new(), weights, session).unwrap();
        let bytes = made.encode();
        assert!(Classifier::looks_like(&bytes));
        assert_eq!(Classifier::decode(&bytes).unwrap(), made);
        assert_eq!(made.predict(data.view()).unwrap().len(), data.rows());
        for at in 0..bytes.len() {
            if let Ok(other) =
                Classifier::decode(&[&bytes[..at], &[bytes[at] ^ 1], &bytes[at + 1..]].concat())
            {
                // A different weight, name or bound gives a different classifier with a different digest.
                assert_ne!((other.digest(), &other), (made.digest(), &made), "byte {at}");
            }
        }
        assert!(Classifier::decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(Classifier::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(Classifier::decode(&[0xff; 64]).is_err());
    }
}

#[test]
fn losses_and_gradients_are_those_of_numpy() {
    // Made by scripts/learner-vectors.py.
    let cases: serde_json::Value = serde_json::from_str(include_str!("../../tests/learner.json")).unwrap();
    let floats = |value: &serde_json::Value| -> Vec<f32> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
    };
    let sizes = |value: &serde_json::Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as u32).collect()
    };
    for case in cases.as_array().unwrap() {
        let architecture = match case["network"].as_str().unwrap() {
            "logistic" => Architecture::Logistic,
            "mlp" => Architecture::Perceptron { hidden: sizes(&case["hidden"]) },
            _ => Architecture::Convolutional {
                image: sizes(&case["image"]).try_into().unwrap(),
                filters: sizes(&case["filters"]).try_into().unwrap(),
                hidden: sizes(&case["hidden"])[0],
            },
        };
        let values = floats(&case["rows"]);
        let rows = Array2::from_shape_vec((4, values.len() / 4), values).unwrap();
        let network = Network::new(&architecture, rows.ncols(), 3).unwrap();
        let (seen, slope) = gradient(&network, &floats(&case["weights"]), &rows, &[0, 1, 2, 0], None);
        assert!((seen.loss - case["loss"].as_f64().unwrap()).abs() < 1e-5, "{architecture:?}: {seen:?}");
        let wanted = floats(&case["gradient"]);
        assert_eq!(slope.len(), wanted.len());
        for (at, (found, wanted)) in slope.iter().zip(&wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-5, "{architecture:?}, weight {at}: {found}, NumPy {wanted}");
        }
        assert!(wanted.iter().filter(|slope| slope.abs() > 1e-3).count() > wanted.len() / 2);
    }
}
