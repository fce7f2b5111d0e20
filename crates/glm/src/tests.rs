//! Fits against plain computations in binary64, over any split of the rows.

use super::*;
use proptest::prelude::*;

/// Rows with an intercept and two columns: steps of 0.1 and 1.
type Plain = (i32, i32, f64, f64);

fn model(family: Family) -> Model {
    let column = |name: &str, step| Column { name: name.into(), step };
    let columns = vec![column("intercept", 1.0), column("x", 0.1), column("z", 1.0)];
    let outcome_step = if family == Family::Linear { 0.5 } else { 1.0 };
    Model {
        family,
        columns,
        outcome_step,
        offset: false,
        weighted: true,
        robust: true,
        rounds: 25,
        level: 0.95,
    }
}

fn sums(model: &Model, round: &Round, rows: &[Plain]) -> Totals {
    let mut own = Rows::new(3);
    rows.iter().for_each(|&(x, z, outcome, weight)| own.push(&[1, x, z], [outcome, 0.0, weight]));
    own.sums(model.family, round)
}

/// Runs all rounds with the rows of several peers.
fn fit(model: &Model, peers: &[&[Plain]]) -> Result<Fit, String> {
    let mut opened = Vec::new();
    loop {
        match model.next(&opened) {
            Next::Done(fit) => return Ok(*fit),
            Next::Failed(error) => return Err(error),
            Next::Round(round) => {
                let mut words = vec![0u64; Totals::words(3)];
                for rows in peers {
                    let own = sums(model, &round, rows).to_words();
                    words.iter_mut().zip(own).for_each(|(word, own)| *word = word.wrapping_add(own));
                }
                opened.push(Totals::from_words(3, &words).expect("sums"));
                assert!(opened.len() <= model.most_rounds(), "too many rounds");
            }
        }
    }
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Linear), Just(Family::Logistic), Just(Family::Poisson)]
}

fn rows(family: Family) -> impl Strategy<Value = Vec<Plain>> {
    let outcome = match family {
        Family::Linear => (-200..200i32).prop_map(f64::from).boxed(),
        Family::Logistic => (0..2i32).prop_map(f64::from).boxed(),
        Family::Poisson => (0..30i32).prop_map(f64::from).boxed(),
    };
    let weight = (1..20i32).prop_map(|w| f64::from(w) / 8.0);
    prop::collection::vec((-300..300i32, 0..2i32, outcome, weight), 60..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_the_rows_gives_the_same_bits_and_the_gradient_vanishes(
        (family, rows) in family().prop_flat_map(|family| (Just(family), rows(family))),
        cuts in prop::collection::vec(0usize..150, 2..9),
    ) {
        let model = model(family);
        let whole = fit(&model, &[&rows]);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % rows.len()).chain([0, rows.len()]).collect();
        ends.sort_unstable();
        let peers: Vec<&[Plain]> = ends.windows(2).map(|pair| &rows[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&fit(&model, &peers), &whole);
        let Ok(whole) = whole else { return Ok(()) };
        // The gradient at the estimates, in binary64. Each part is at most 1e-9 of the sum of the magnitudes
        // of its terms.
        let estimate: Vec<f64> = whole.coefficients.iter().map(|each| each.estimate).collect();
        let (mut gradient, mut size) = ([0.0; 3], [0.0; 3]);
        for &(x, z, outcome, weight) in &rows {
            let columns = [1.0, f64::from(x) * 0.1, f64::from(z)];
            let predictor: f64 = columns.iter().zip(&estimate).map(|(x, b)| x * b).sum();
            let mean = match family {
                Family::Linear => predictor,
                Family::Logistic => 1.0 / (1.0 + (-predictor).exp()),
                Family::Poisson => predictor.exp(),
            };
            let outcome = if family == Family::Linear { 0.5 * outcome } else { outcome };
            for at in 0..3 {
                gradient[at] += weight * (outcome - mean) * columns[at];
                size[at] += (weight * (outcome - mean) * columns[at]).abs();
            }
        }
        for at in 0..3 {
            prop_assert!(gradient[at].abs() <= 1e-9 * size[at], "{gradient:?} of {size:?}");
        }
        prop_assert!(whole.deviance <= whole.null_deviance.expect("no offset") * (1.0 + 1e-9));
    }
}

fn spread(count: i32) -> Vec<Plain> {
    let row = |at: i32| (at * 37 % 211 - 100, at % 2, f64::from(u8::from(at * 53 % 97 > 60)), 1.0);
    (0..count).map(row).collect()
}

#[test]
fn a_column_that_follows_from_others_is_named() {
    let rows: Vec<Plain> = spread(80).iter().map(|&(_, z, y, w)| (3 * z + 5, z, y, w)).collect();
    let error = fit(&model(Family::Logistic), &[&rows]).unwrap_err();
    assert!(error.starts_with("column \"z\" of the model is a linear combination"), "{error}");
    let rows: Vec<Plain> = spread(80).iter().map(|&(_, z, y, w)| (0, z, y, w)).collect();
    let error = fit(&model(Family::Linear), &[&rows]).unwrap_err();
    assert!(error.starts_with("column \"x\" of the model is 0 in all rows"), "{error}");
}

#[test]
fn a_separated_outcome_has_no_estimates_and_its_column_is_named() {
    let rows: Vec<Plain> =
        spread(200).iter().map(|&(x, z, _, w)| (x, z, f64::from(u8::from(x > 3)), w)).collect();
    let error = fit(&model(Family::Logistic), &[&rows]).unwrap_err();
    assert!(error.contains("separates the outcome") && error.contains("\"x\""), "{error}");
    // One level has no event (quasi-complete separation).
    let rows: Vec<Plain> =
        spread(200).iter().map(|&(x, z, y, w)| (x, z, if z == 1 { 0.0 } else { y }, w)).collect();
    for family in [Family::Logistic, Family::Poisson] {
        let error = fit(&model(family), &[&rows]).unwrap_err();
        assert!(error.contains("separates the outcome") && error.contains("\"z\""), "{error}");
    }
}

#[test]
fn a_rare_outcome_converges_although_its_first_steps_are_long() {
    let rows: Vec<Plain> = spread(60_000)
        .iter()
        .enumerate()
        .map(|(at, &(x, z, _, w))| (x, z, f64::from(u8::from(at % 4001 == 7)), w))
        .collect();
    let fit = fit(&model(Family::Logistic), &[&rows]).expect("finite estimates");
    assert!(fit.coefficients[0].estimate < -7.0 && fit.rounds > 6, "{fit:?}");
}

#[test]
fn rounds_of_different_rows_and_too_few_rounds_end_the_fit() {
    let rows = spread(100);
    let model = model(Family::Logistic);
    let first = sums(&model, &Round::First, &rows);
    let Next::Round(round) = model.next(std::slice::from_ref(&first)) else { panic!("a round") };
    let Next::Failed(error) = model.next(&[first, sums(&model, &round, &rows[1..])]) else {
        panic!("different rows")
    };
    assert!(error.starts_with("the rounds count different numbers of rows"), "{error}");
    let error = fit(&Model { rounds: 2, ..model }, &[&rows]).unwrap_err();
    assert!(error.starts_with("the fit has not converged after 2 rounds"), "{error}");
}

#[test]
fn sums_that_no_rows_have_are_an_error_and_no_panic() {
    let model = model(Family::Poisson);
    for number in [i128::MIN, -1, 0, i128::MAX] {
        let mut totals = Totals::new(3);
        totals.matrix.fill(number);
        totals.vector.fill(number);
        totals.scalars = [number; SCALARS];
        let found = model.next(&[totals.clone(), totals]);
        let Next::Failed(error) = found else { panic!("{number}: {found:?}") };
        assert!(number >= 0 || error.contains("cannot come from rows"), "{error}");
    }
}

#[test]
fn a_step_that_raises_the_deviance_is_halved() {
    let (model, rows) = (model(Family::Logistic), spread(100));
    let mut opened = vec![sums(&model, &Round::First, &rows)];
    let mut places = Vec::new();
    for _ in 0..2 {
        let Next::Round(Round::At(place)) = model.next(&opened) else { panic!("a round") };
        opened.push(sums(&model, &Round::At(place.clone()), &rows));
        places.push(place);
    }
    opened[2].scalars[1] = opened[1].scalars[1] + opened[1].scalars[1] / 1000;
    let half: Vec<f64> = places[0].iter().zip(&places[1]).map(|(a, b)| 0.5 * (b + a)).collect();
    let Next::Round(round) = model.next(&opened) else { panic!("a round") };
    assert_eq!(round, Round::At(half));
    // Every later round is worse, too.
    let worse = opened[2].clone();
    opened.extend(std::iter::repeat_n(worse, 10));
    let Next::Failed(error) = model.next(&opened) else { panic!("an end") };
    assert!(error.starts_with("the fit has not converged after 12 rounds"), "{error}");
}

#[test]
fn standard_errors_are_those_at_the_estimates() {
    for family in [Family::Logistic, Family::Poisson] {
        let (model, rows) = (Model { robust: false, ..model(family) }, spread(150));
        let fit = fit(&model, &[&rows]).expect("a fit");
        let steps =
            fit.coefficients.iter().zip(&model.columns).map(|(each, column)| each.estimate * column.step);
        let matrix = sums(&model, &Round::At(steps.collect()), &rows).matrix;
        let unit = 2f64.powi(-44);
        let [a, b, c, d, e, f] = matrix[..] else { panic!("six entries") };
        let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(|entry| entry as f64 * unit);
        // The variances follow from the minors of the matrix.
        let whole = a * (d * f - e * e) - b * (b * f - e * c) + c * (b * e - d * c);
        let variances = [(d * f - e * e) / whole, (a * f - c * c) / whole, (a * d - b * b) / whole];
        for ((each, variance), column) in fit.coefficients.iter().zip(variances).zip(&model.columns) {
            let expected = variance.sqrt() / column.step;
            assert!((each.model_error / expected - 1.0).abs() < 1e-9, "{} {expected}", each.model_error);
        }
    }
}

#[test]
fn coefficients_that_no_peer_would_choose_cause_no_panic() {
    for family in [Family::Linear, Family::Logistic, Family::Poisson] {
        for size in [1e300, -1e300, f64::INFINITY, f64::NAN, 20.0] {
            let model = model(family);
            let own = sums(&model, &Round::Sandwich(vec![size; 3], 120), &spread(300));
            assert!(own.matrix[0].unsigned_abs() <= 300 << 63, "{family:?} {size}");
            // A linear model has only one round at coefficients.
            if family != Family::Linear {
                let at = sums(&model, &Round::At(vec![size; 3]), &spread(300));
                assert!(at.matrix[0].unsigned_abs() <= 300 << 63, "{family:?} {size}");
                let _ = (Totals::from_words(3, &at.to_words()), model.next(&[at.clone(), at]));
            }
        }
    }
    // A row has at most 2^63 units, even with a large weight.
    let mut own = Rows::new(1);
    own.push(&[1], [0.0, 400.0, MOST_WEIGHT]);
    let totals = own.sums(Family::Poisson, &Round::At(vec![1.0]));
    assert_eq!((totals.matrix[0], totals.vector[0] < -(1 << 76)), (1 << 63, true));
}
