use proptest::prelude::*;

use super::bloom::fit;
use super::neighbours::Neighbours;
use super::*;
use crate::sketch::Parameters;
use flyswarm_data::Dataset;
use flyswarm_data::digits::digits;
use flyswarm_data::scaling::{Moments, Scaling, moments};
use flyswarm_data::split::folds;
use flyswarm_sealed_sum::crypto::mask::Wide;

fn scaler(scaling: &Scaling, data: &Dataset) -> Scaler {
    let words = scaling.needs_moments().map(|squares| moments(data, squares));
    let moments = words.map(|words| Moments::from_words(&words, data.features()).unwrap());
    Scaler::new(scaling, data.features(), moments.as_ref()).unwrap()
}

fn train(parameters: Parameters, gamma: f64, data: &Dataset) -> Model {
    let scaler = scaler(&parameters.scaling, data);
    let sketch = parameters.check(data.classes().len()).unwrap();
    let counts = fit(&FlyHash::new(&sketch), &scaler, data, sketch.classes()).unwrap();
    Model::new(sketch, gamma, data.classes().to_vec(), scaler, counts).unwrap()
}

fn parameters(m: usize, s: usize, rho: usize, scaling: Scaling) -> Parameters {
    Parameters { d: 64, m, s, rho, seed: [1; 32], densify: false, scaling }
}

/// Trains a model on the digits with m = 100.
pub(crate) fn small_model(scaling: Scaling, gamma: f64) -> Model {
    train(parameters(100, 6, 4, scaling), gamma, &digits())
}

#[test]
fn gamma_0_looks_only_at_whether_a_place_is_taken() {
    let model = small_model(Scaling::UnitNorm, 0.0);
    let data = digits();
    let scores = model.predictor().scores(&data).unwrap();
    let hash = FlyHash::new(model.sketch());
    let winners = hash.winners(model.scaler(), &data, 0..data.rows()).unwrap();
    for (winners, scores) in winners.chunks_exact(4).zip(scores.chunks_exact(10)) {
        for (l, &score) in scores.iter().enumerate() {
            let free = winners.iter().filter(|&&i| model.counts().class(l)[i as usize] == 0).count();
            assert_eq!(score, free as f64);
        }
    }
}

#[test]
fn counts_of_a_class_are_its_rows_times_the_winners() {
    let model = small_model(Scaling::UnitNorm, 0.5);
    let rows = digits().class_counts(10);
    for (l, rows) in rows.iter().enumerate() {
        assert_eq!(model.counts().class(l).iter().map(|&c| u64::from(c)).sum::<u64>(), rows * 4);
    }
}

#[test]
fn rows_given_twice_count_twice() {
    let data = digits();
    let twice: Vec<usize> = (0..300).flat_map(|row| [row, row]).collect();
    let once: Vec<usize> = (0..300).collect();
    let [once, twice] =
        [once, twice].map(|rows| train(parameters(100, 6, 4, Scaling::None), 0.5, &data.subset(&rows)));
    let doubled: Vec<u32> = once.counts().values().iter().map(|count| 2 * count).collect();
    assert_eq!(twice.counts().values(), doubled);
}

#[test]
fn rows_of_one_class_add_to_that_class_alone() {
    let data = digits();
    let threes: Vec<usize> = (0..data.rows()).filter(|&row| data.labels()[row] == 3).collect();
    let model = train(parameters(100, 6, 4, Scaling::UnitNorm), 0.5, &data.subset(&threes));
    assert!((0..10).all(|class| (class == 3) == model.counts().class(class).iter().any(|&count| count > 0)));
    assert!(model.predictor().predict(&data.subset(&threes)).unwrap().iter().all(|&class| class == 3));
}

#[test]
fn features_that_never_change_are_learnt_from_without_harm() {
    let classes: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
    let modes = [Scaling::None, Scaling::UnitNorm, Scaling::Center, Scaling::Standard];
    for (scaling, densify, value) in modes.iter().flat_map(|mode| [(mode, false, 0.1), (mode, true, 7.0)]) {
        let data = Dataset::new(
            64,
            vec![value; 64 * 30],
            (0..30).map(|i| u16::from(i > 3) + 1).collect(),
            classes.clone(),
        );
        let data = data.unwrap();
        let model = train(Parameters { densify, ..parameters(2000, 6, 4, scaling.clone()) }, 0.5, &data);
        let scores = model.predictor().scores(&data).unwrap();
        assert!(scores.iter().all(|score| score.is_finite()), "{scaling:?}");
        assert_eq!(
            model.predictor().predict(&data).unwrap(),
            [2; 30],
            "{scaling:?}: the class with more rows"
        );
    }
}

#[test]
fn rows_that_cannot_be_learnt_from_are_refused() {
    let data = digits();
    let sketch = parameters(100, 6, 4, Scaling::None).check(10).unwrap();
    let hash = FlyHash::new(&sketch);
    let scaler = scaler(&Scaling::None, &data);
    let bare = Dataset::new(64, data.values().to_vec(), Vec::new(), Vec::new()).unwrap();
    assert!(matches!(fit(&hash, &scaler, &bare, 10), Err(ModelError::Unlabelled)));
    let error = fit(&hash, &scaler, &data, 9).unwrap_err();
    assert_eq!(error.to_string(), "row 9 has class 9, expected below 9");
    let narrow = Dataset::new(1, vec![1.0], vec![0], vec!["a".into()]).unwrap();
    assert!(matches!(fit(&hash, &scaler, &narrow, 10), Err(ModelError::Features(_))));
    let classes = || data.classes().to_vec();
    let model =
        |gamma, classes| Model::new(sketch.clone(), gamma, classes, scaler.clone(), Counts::zero(10, 100));
    assert!(model(0.5, classes()).is_ok());
    assert!(model(1.0, classes()).is_err());
    assert!(model(f64::NAN, classes()).is_err());
    assert!(model(0.5, classes()[1..].to_vec()).is_err());
    assert!(model(0.5, vec!["same".into(); 10]).is_err());
}

/// Returns the accuracy on the first `of` of ten folds of the digits.
fn cross_validated(of: usize, correct: impl Fn(&Dataset, &Dataset) -> Vec<u16>) -> f64 {
    let data = digits();
    let (mut right, mut rows) = (0, 0);
    for fold in folds(&data, 10, b"accuracy").iter().take(of) {
        let (train, test) = (data.subset(&fold.train), data.subset(&fold.test));
        let predicted = correct(&train, &test);
        right += predicted.iter().zip(test.labels()).filter(|(a, b)| a == b).count();
        rows += test.rows();
    }
    right as f64 / rows as f64
}

fn flynn(parameters: &Parameters, gamma: f64) -> impl Fn(&Dataset, &Dataset) -> Vec<u16> {
    move |data, test| train(parameters.clone(), gamma, data).predictor().predict(test).unwrap()
}

/// The bounds are loose. They include measurements and the results of the authors' own code (.967 for the
/// first setting, .961 with gamma 0).
#[test]
fn digits_are_told_apart_as_well_as_by_the_authors_code() {
    let unit = parameters(256 * 64, 19, 32, Scaling::UnitNorm);
    let center = parameters(8192, 19, 32, Scaling::Center);
    let found = [
        cross_validated(3, flynn(&unit, 0.5)),
        cross_validated(3, flynn(&unit, 0.0)),
        cross_validated(3, flynn(&center, 0.5)),
        cross_validated(10, |train, test| Neighbours::new(train).unwrap().predict(1, test)),
    ];
    let bounds = [0.95, 0.94, 0.955, 0.98];
    assert!(
        found.iter().zip(bounds).all(|(found, bound)| *found > bound),
        "{found:?}, expected above {bounds:?}"
    );
}

#[test]
#[ignore = "prints the numbers of the whole cross-validation; takes a minute"]
fn measure() {
    for (m, s, rho, scaling, densify) in [
        (256 * 64, 19, 32, Scaling::UnitNorm, false),
        (8192, 19, 32, Scaling::UnitNorm, false),
        (8192, 19, 32, Scaling::Center, false),
        (8192, 19, 64, Scaling::Center, false),
        (8192, 19, 128, Scaling::Center, false),
        (8192, 19, 64, Scaling::Standard, false),
        (8192, 19, 64, Scaling::Center, true),
        (8192, 19, 64, Scaling::UnitNorm, true),
    ] {
        let parameters = Parameters { densify, ..parameters(m, s, rho, scaling) };
        for gamma in [0.0, 0.5, 0.8] {
            let accuracy = cross_validated(10, flynn(&parameters, gamma));
            println!(
                "{} densify {densify} m {m} s {s} rho {rho} gamma {gamma}: {accuracy:.4}",
                parameters.scaling.name()
            );
        }
    }
    println!(
        "1nn {:.4}",
        cross_validated(10, |train, test| Neighbours::new(train).unwrap().predict(1, test))
    );
    println!("{:?}", Neighbours::new(&digits()).unwrap().tune());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Tests Theorem 4 exactly: scalers from summed moments, counts from summed counts, the same digest.
    #[test]
    fn merged_counts_of_any_split_equal_the_pooled_ones(
        owners in prop::collection::vec(0usize..4, 1797), mode in 0usize..4,
        densify: bool, gamma in 0.0f64..1.0,
    ) {
        let data = digits();
        let scaling = [Scaling::None, Scaling::UnitNorm, Scaling::Center, Scaling::Standard][mode].clone();
        let parameters = Parameters { densify, ..parameters(300, 6, 8, scaling.clone()) };
        let pooled = train(parameters.clone(), gamma, &data);

        let part = |owner| {
            let rows: Vec<usize> = (0..data.rows()).filter(|&i| owners[i] == owner).collect();
            data.subset(&rows)
        };
        let parts: Vec<Dataset> = (0..4).map(part).collect();
        let mut moments = None;
        if let Some(squares) = scaling.needs_moments() {
            let mut total = vec![Wide::default(); Moments::words(64, squares)];
            for part in &parts {
                let words = flyswarm_data::scaling::moments(part, squares);
                total.iter_mut().zip(words).for_each(|(total, word)| *total = total.wrapping_add(word));
            }
            moments = Some(Moments::from_words(&total, 64).unwrap());
        }
        let scaler = Scaler::new(&scaling, 64, moments.as_ref()).unwrap();
        let sketch = parameters.check(10).unwrap();
        let hash = FlyHash::new(&sketch);
        let mut sum = Counts::zero(10, 300);
        for part in &parts {
            sum.merge(&fit(&hash, &scaler, part, 10).unwrap()).unwrap();
        }
        let merged = Model::new(sketch, gamma, data.classes().to_vec(), scaler, sum).unwrap();
        prop_assert_eq!(merged.digest(), pooled.digest());
        prop_assert_eq!(merged, pooled);
    }
}
