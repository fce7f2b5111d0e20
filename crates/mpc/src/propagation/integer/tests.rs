#[path = "tests/graph.rs"]
mod graph;

use graph::{Edge, Graph};
use proptest::prelude::*;

use super::super::{MOST_TOLERANCE, Refusal, Settings, enough_steps};
use super::*;
use flyswarm_sealed_sum::crypto::stream::Stream;

fn settings() -> Settings {
    Settings { k: 5, bits: 256, alpha: 0.99, steps: 60, power: 1, balance: false }
}

/// Returns distances of points on a ring of clusters, symmetric. The first `hubs` points are near to all
/// others.
fn distances(n: usize, bits: u32, hubs: usize, seed: u8) -> Vec<u16> {
    let mut stream = Stream::new(&[seed; 32], "test", &[]);
    let mut distances = vec![0; n * n];
    for i in 0..n {
        for j in 0..i {
            let near = if j < hubs { 0 } else { (i * 7 / n).abs_diff(j * 7 / n) as u32 * (bits / 20) };
            let h = (near + stream.below(bits / 4)) as u16;
            (distances[i * n + j], distances[j * n + i]) = (h, h);
        }
    }
    distances
}

fn labels(n: usize, classes: usize, every: usize) -> Vec<Option<u16>> {
    (0..n).map(|i| i.is_multiple_of(every).then_some((i * 7 / n % classes) as u16)).collect()
}

/// Returns the scores of the system in real numbers, points x classes, in binary64 throughout. If classes
/// are balanced, each label counts as floor(sqrt(n)) / (labels of its class).
fn exact(plan: &Plan, reference: &Reference, distances: &[u16], labels: &[Option<u16>]) -> Vec<f64> {
    let (n, k, bits) = (plan.points(), plan.k(), plan.settings().bits);
    let mut edges = Vec::new();
    for (at, (&to, &weight)) in reference.neighbours.iter().zip(&reference.weights).enumerate() {
        if weight > 0 {
            let from = at / k;
            edges.push(Edge { from: from as u32, to: to as u32, distance: distances[from * n + to] });
        }
    }
    let graph = Graph::new(n, bits as usize, plan.settings().power, &edges);
    let mut z = vec![0.0; n * plan.classes()];
    for class in 0..plan.classes() {
        let mut y: Vec<f64> =
            labels.iter().map(|label| f64::from(u8::from(*label == Some(class as u16)))).collect();
        if plan.settings().balance {
            let weight = n.isqrt() as f64 / y.iter().sum::<f64>().max(1.0);
            y.iter_mut().for_each(|y| *y *= weight);
        }
        for (i, score) in graph.solve(&y, plan.settings().alpha).into_iter().enumerate() {
            z[i * plan.classes() + class] = score;
        }
    }
    z
}

/// Returns the largest difference to the exact scores and the largest margin of a point with a different
/// label, both relative to the largest exact score.
fn differences(plan: &Plan, distances: &[u16], labels: &[Option<u16>]) -> (f64, f64, Reference) {
    let reference = Reference::from_distances(plan, distances, labels);
    let exact = exact(plan, &reference, distances, labels);
    let largest = exact.iter().copied().fold(0.0, f64::max);
    let (mut error, mut margin) = (0f64, 0f64);
    let classes = plan.classes();
    let fits = |t: &i64| t.unsigned_abs() < 1 << (plan.score_bits() - 2);
    assert!(reference.scores.iter().all(fits), "scores fit");
    for (i, row) in exact.chunks(classes).enumerate().filter(|&(i, _)| reference.degrees[i] > 0) {
        let root = (reference.degrees[i] as f64 / 4096.0).sqrt();
        let integer = &reference.scores[i * classes..][..classes];
        for (z, &t) in row.iter().zip(integer) {
            error = error.max((t as f64 / f64::from(1 << VALUE_BITS) * root - z).abs() / largest);
        }
        let best = (0..classes).fold(0, |best, c| if row[c] > row[best] { c } else { best });
        if row[best] > 0.0 && reference.output.labels[i] != Some(best as u16) {
            let second = (0..classes).filter(|&c| c != best).map(|c| row[c]).fold(0.0, f64::max);
            margin = margin.max((row[best] - second) / largest);
        }
    }
    (error, margin, reference)
}

#[test]
fn scores_are_those_of_the_exact_solve_to_the_tolerance() {
    let mut worst = 0f64;
    for (n, hubs, alpha, seed) in [
        (60, 0, 0.5, 1),
        (150, 0, 0.99, 2),
        (150, 1, 0.99, 3),
        (150, 10, 0.99, 4),
        (120, 0, 0.999, 5),
        (120, 10, 0.999, 6),
    ] {
        let plan =
            Plan::new(n, 7, Settings { alpha, steps: enough_steps(alpha), ..settings() }).expect("fits");
        for every in [1, 3, 29] {
            let labels = labels(n, 7, every);
            let (error, margin, reference) = differences(&plan, &distances(n, 256, hubs, seed), &labels);
            let tolerance =
                plan.tolerance(reference.degrees.iter().copied().max().expect("there are points"));
            assert!(error <= tolerance, "n {n}, hubs {hubs}, alpha {alpha}: {error:e} > {tolerance:e}");
            assert!(margin <= tolerance, "n {n}, hubs {hubs}, alpha {alpha}: a label with margin {margin:e}");
            worst = worst.max(error / tolerance);
        }
    }
    assert!(worst > 0.02, "some error comes near the tolerance: {worst}");
}

/// Returns labels of uneven classes: one label in the first, about `most` in the second, none in the
/// third.
fn uneven(n: usize, most: usize) -> Vec<Option<u16>> {
    (0..n).map(|i| if i == n / 2 { Some(0) } else { (i * 7 % n < most).then_some(1) }).collect()
}

#[test]
fn balanced_scores_are_those_of_the_exact_solve_to_the_tolerance() {
    for (n, most, hubs, alpha) in
        [(1100, 1000, 0, 0.99), (300, 290, 10, 0.99), (300, 3, 1, 0.999), (60, 30, 0, 0.5), (2, 1, 0, 0.9)]
    {
        let settings = Settings { alpha, steps: enough_steps(alpha), balance: true, ..settings() };
        let plan = Plan::new(n, 3, settings).expect("fits");
        let labels = uneven(n, most);
        let count = |class| labels.iter().filter(|label| **label == Some(class)).count();
        assert!(count(0) == 1 && count(1).abs_diff(most) <= 1 && count(2) == 0);
        let (error, margin, reference) = differences(&plan, &distances(n, 256, hubs, 9), &labels);
        let tolerance = plan.tolerance(reference.degrees.iter().copied().max().expect("there are points"));
        assert!(error <= tolerance, "n {n}, alpha {alpha}: {error:e} > {tolerance:e}");
        assert!(margin <= tolerance, "n {n}, alpha {alpha}: a label with margin {margin:e}");
        // A class without a label gets no score.
        let none = |row: &[u8]| row[2] == 0;
        assert!(reference.output.coarse.chunks(3).all(none), "n {n}");
    }
}

#[test]
fn a_thousand_labels_of_one_class_do_not_outvote_the_one_of_another_where_classes_are_balanced() {
    // Two islands with bridges: one point of the first island has a label of one class, all points of the
    // second island have labels of the other class.
    let n = 1100;
    let mut stream = Stream::new(&[3; 32], "test", &[]);
    let mut distances = vec![110u16; n * n];
    for i in 0..n {
        for j in 0..i {
            let near = (i < n / 11) == (j < n / 11);
            let bridge = !near && i - n / 11 == j && j.is_multiple_of(10);
            let h = if bridge { 5 } else { stream.below(10) as u16 + if near { 20 } else { 40 } };
            (distances[i * n + j], distances[j * n + i]) = (h, h);
        }
    }
    let labels: Vec<_> = (0..n).map(|i| if i == 0 { Some(0) } else { (i >= n / 11).then_some(1) }).collect();
    let first = |balance: bool| {
        let plan = Plan::new(n, 2, Settings { balance, ..settings() }).expect("fits");
        let output = Reference::from_distances(&plan, &distances, &labels).output;
        output.labels[..n / 11].iter().filter(|label| **label == Some(0)).count()
    };
    assert!(first(true) > 90 && first(false) < 10, "{} and {}", first(true), first(false));
}

#[test]
fn a_class_is_weighted_by_its_labels_and_scores_are_multiplied_in_the_end() {
    let plan = |points, balance| Plan::new(points, 4, Settings { balance, ..settings() }).expect("fits");
    assert_eq!(plan(10_000, false).balance(), None);
    let table = plan(10_000, true).balance().expect("balanced");
    assert_eq!(table.len(), 10_001, "an entry for every number of labels");
    // 100 / 3 = 33.33, 100 / 10000; to the nearest.
    let ends = [table[0], table[1], table[3], table[7000], table[10_000]];
    assert_eq!(ends, [0, 100 << 20, 34_952_533, 14_980, 10_486]);
    let (distances, labels) = (distances(90, 256, 2, 4), uneven(90, 40));
    let plain = Reference::from_distances(&plan(90, false), &distances, &labels);
    let balanced = Reference::from_distances(&plan(90, true), &distances, &labels);
    let count = |class| labels.iter().filter(|label| **label == Some(class)).count() as u64;
    for (at, (plain, balanced)) in plain.scores.iter().zip(&balanced.scores).enumerate() {
        let labels = count(at as u16 % 4);
        let weight = if labels == 0 { 0 } else { ((9u64 << 21) + labels) / (2 * labels) };
        assert_eq!(*balanced, (plain * weight as i64 + (1 << 19)) >> 20);
    }
    assert_ne!(plain.output, balanced.output);
    assert_eq!((&plain.graph, &plain.roots), (&balanced.graph, &balanced.roots));
}

#[test]
fn a_balanced_class_with_one_label_takes_more_room_and_what_does_not_fit_is_refused() {
    let plan = |points, steps, balance| {
        let settings = Settings { alpha: 0.999, steps, k: 10, bits: 4096, power: 1, balance };
        Plan::new(points, 10, settings)
    };
    assert!(plan(500, 190, true).is_ok() && plan(1000, 700, false).is_ok());
    let refused = plan(1000, 700, true).expect_err("a product may leave 62 bits");
    assert!(matches!(refused, Refusal::Range { bits, .. } if (62.0..64.0).contains(&bits)), "{refused}");
    // A hub of a class with one label: its rounding errors count 50 times as much.
    let refused = plan(2500, 190, true).expect_err("imprecise");
    assert!(matches!(refused, Refusal::Imprecise { steps: 190, .. }), "{refused}");
    assert!(plan(2500, 190, false).is_ok());
    let usual = Settings { alpha: 0.99, steps: 60, k: 10, bits: 4096, power: 1, balance: true };
    assert!(Plan::new(10_000, 10, usual).is_ok(), "the usual numbers fit");
    let [one, two] = [false, true].map(|balance| plan(500, 190, balance).expect("fits"));
    assert!(one.score_bits() < two.score_bits() && two.quotient_bits() < 64);
    assert_eq!(one.largest_product(), two.largest_product());
    let weights = 500.0 / (22.0 * 1_048_576.0);
    assert!((two.tolerance(1) - one.tolerance(1) - weights).abs() < 1e-12);
    let [one, two] = [one, two].map(|plan| plan.tolerance(100 << WEIGHT_BITS));
    assert!((two - one - weights - 9.0 * 190.0 * 190.0 / f64::from(1 << 25)).abs() < 1e-12);
}

#[test]
fn a_hub_costs_what_its_degree_is_rounded_by_whatever_alpha_is() {
    // A star whose centre has a degree above 2^22: 1,200 points, all with the centre as their only
    // neighbour.
    let n = 1200;
    for alpha in [0.99, 0.999] {
        let plan = Plan::new(n, 2, Settings { k: 1, alpha, steps: enough_steps(alpha), ..settings() })
            .expect("fits");
        let mut distances = vec![100u16; n * n];
        for i in 1..n {
            let h = (i % 40) as u16;
            (distances[i], distances[i * n]) = (h, h);
        }
        let labels: Vec<_> = (0..n).map(|i| (i > 0 && i < 30).then_some(u16::from(i % 3 == 0))).collect();
        let reference = Reference::from_distances(&plan, &distances, &labels);
        assert!(reference.degrees[0] > 4_200_000, "{}", reference.degrees[0]);
        let (error, margin, _) = differences(&plan, &distances, &labels);
        let tolerance = plan.tolerance(reference.degrees[0]);
        assert!(tolerance < 0.004, "{tolerance}");
        assert!(error <= tolerance && margin <= tolerance, "alpha {alpha}: {error:e}, {margin:e}");
    }
}

#[test]
fn sixty_steps_are_enough_for_0_99_and_sixty_for_0_999_are_refused() {
    assert_eq!((enough_steps(0.99), enough_steps(0.999)), (60, 190));
    let plan = |points, alpha, steps| {
        Plan::new(points, 10, Settings { alpha, steps, k: 10, bits: 4096, power: 1, balance: false })
    };
    let refused = plan(2500, 0.999, 60).expect_err("too few steps");
    assert!(matches!(refused, Refusal::Imprecise { enough: Some(190), .. }), "{refused}");
    assert!(refused.to_string().contains("190 steps are enough"), "{refused}");
    assert!(plan(10_000, 0.99, 60).is_ok() && plan(2500, 0.999, 190).is_ok());
    // The recommended number of steps is accepted. With balanced classes, it is not the number that alpha
    // alone requires.
    let balanced = |points, steps| {
        Plan::new(points, 2, Settings { alpha: 0.999, steps, k: 10, bits: 4096, power: 1, balance: true })
    };
    let advised = |points, steps| match balanced(points, steps) {
        Err(Refusal::Imprecise { enough, .. }) => enough,
        other => panic!("{other:?}"),
    };
    assert_eq!(advised(500, 60), Some(190));
    let fewer = advised(1500, 190).expect("fewer steps round less");
    assert!(fewer < 190 && balanced(1500, fewer).is_ok(), "{fewer}");
    assert_eq!(advised(10_000, 190), None);
    let text = balanced(10_000, 190).expect_err("too many points").to_string();
    assert!(
        text.ends_with("(no number of steps is precise enough: use a smaller alpha or fewer points)"),
        "{text}"
    );
    let most = (10_000..20_000).find(|&n| plan(n, 0.99, 60).is_err()).expect("the range ends");
    assert!((14_000..16_384).contains(&most), "{most}");
    assert!(matches!(plan(most, 0.99, 60), Err(Refusal::Range { .. })));
    assert!(plan(10_000, 0.99, 60).expect("fits").largest_product().log2() < 61.7);
}

#[test]
fn what_cannot_be_exact_is_refused_by_name() {
    let fits = settings();
    for (points, classes, settings, refusal) in [
        (1, 2, fits, Refusal::FewPoints(1)),
        (9, 0, fits, Refusal::Classes(0)),
        (9, 1025, fits, Refusal::Classes(1025)),
        (9, 2, Settings { bits: 100, ..fits }, Refusal::CodeBits(100)),
        (9, 2, Settings { bits: 32_768, ..fits }, Refusal::CodeBits(32_768)),
        (9, 2, Settings { k: 0, ..fits }, Refusal::Graph { k: 0, power: 1 }),
        (9, 2, Settings { power: 0, ..fits }, Refusal::Graph { k: 5, power: 0 }),
        (9, 2, Settings { alpha: 0.9991, ..fits }, Refusal::Alpha(0.9991)),
        (9, 2, Settings { alpha: 0.0, ..fits }, Refusal::Alpha(0.0)),
    ] {
        assert_eq!(Plan::new(points, classes, settings), Err(refusal));
    }
    assert!(Plan::new(9, 2, Settings { alpha: f64::NAN, ..fits }).is_err());
    assert_eq!(Plan::new(4, 2, fits).expect("k is cut off").k(), 3);
    assert!(fits.alpha < 1.0 && MOST_TOLERANCE < 0.05);
}

#[test]
fn weights_fall_from_one_to_a_sixteenth_and_then_to_nothing() {
    let plan = |power| Plan::new(9, 2, Settings { power, ..settings() }).expect("fits");
    let (weights, cubes) = (plan(1).weights(), plan(3).weights());
    assert_eq!((weights.len(), weights[0], weights[64]), (128, 4096, 2896));
    assert!(weights.windows(2).all(|pair| pair[0] >= pair[1]));
    assert!(weights.iter().all(|&w| w == 0 || w >= 256) && weights[127] == 0 && weights[122] > 0);
    assert_eq!(cubes[64], 1448);
}

#[test]
fn a_row_without_a_score_has_no_label_and_ties_go_to_the_first_class() {
    let output = coarse(&[0, -3, 0, 5, 5, 5, 3, 0, -1, 1, 127, 0, 1, 126, 0], 3);
    assert_eq!(output.labels, [None, Some(0), Some(0), Some(1), Some(1)]);
    // 64 / 3 = 21.3; 64 / 128 = 0.5 and 63.5 are rounded down; 64 / 127 = 0.504 is rounded up.
    assert_eq!(output.coarse, [0, 0, 0, 21, 21, 21, 64, 0, 0, 0, 63, 0, 1, 63, 0]);
}

proptest! {
    #[test]
    fn a_reciprocal_is_never_too_large_and_close(
        d in prop_oneof![256u64..1 << 14, 1u64 << 14..1 << 26, Just(1), Just((1 << 26) - 1)],
    ) {
        let one = 1u64 << RECIPROCAL_BITS;
        let r = inverse(d);
        prop_assert!(d * r <= one);
        // The shortfall is at most one unit of r, and 6 units of 2^-28.
        prop_assert!(one - d * r <= d + 6 * (one >> NEWTON_BITS), "{d}: {}", one - d * r);
    }

    #[test]
    fn an_inverse_root_is_right_to_its_last_bit(d in prop_oneof![256u64..1 << 14, 1u64 << 14..1 << 26]) {
        let plan = Plan::new(16_000, 2, Settings { bits: 64, k: 1, alpha: 0.9, steps: 30, power: 1, balance: false }).expect("fits");
        let exact = 2f64.powi(27) / (d as f64).sqrt();
        let found = inverse_root(&plan, d) as f64;
        prop_assert!((found - exact).abs() <= 0.51 + exact * 2e-8 + exact * 2e-6, "{d}: {found} {exact}");
    }
}

#[test]
fn the_reciprocal_of_every_degree_up_to_2_17_is_from_below() {
    assert_eq!((inverse(0), inverse(1 << 25)), (0, 127), "below the exact value, even if that is an integer");
    for d in 1..1u64 << 17 {
        assert!(d * inverse(d) <= 1 << RECIPROCAL_BITS, "{d}");
    }
}
