//! Checks figures against their formulas, and that others see no small cells.

use super::*;

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 5e-5, "{found}, expected {expected}");
}

#[test]
fn intervals_are_those_of_the_formulas() {
    // Wilson's interval of 8 of 10, computed by hand.
    let share = Share::of(8, 10).unwrap();
    near(share.low, 0.4902);
    near(share.high, 0.9433);
    assert_eq!((Share::of(0, 0), Share::of(0, 5).unwrap().low), (None, 0.0));
    assert!(Share::of(0, 5).unwrap().high > 0.4, "five rows say little");
    // Agresti and Min, computed by hand. Of 60 rows, only the first prediction has 9 right, only the second
    // has 2 right.
    let gain = Gain::of([([9, 2], 60)]).unwrap();
    near(gain.value, 7.0 / 60.0);
    near(gain.low, 0.007_06);
    near(gain.high, 0.218_74);
    let both = Gain::of([([9, 2], 60), ([0, 0], 0), ([0, 4], 20)]).unwrap();
    near(both.value, (7.0 / 60.0 - 0.2) / 2.0);
    let half = |b: f64, c: f64, n: f64| (b + c - (b - c).powi(2) / n) / n / n;
    let half = Z * f64::sqrt(half(9.5, 2.5, 62.0) + half(0.5, 4.5, 22.0)) / 2.0;
    near(both.low, (7.0 / 62.0 - 4.0 / 22.0) / 2.0 - half);
    assert_eq!(Gain::of([([0, 0], 0)]), None);
}

#[test]
fn figures_follow_from_scores() {
    let classes = ["a", "b"].map(String::from);
    // One row is predicted correctly with a confidence above 1/2, one wrongly, and one is a tie.
    let scores = [0.0, f64::INFINITY, 1.0, 2.0, f64::INFINITY, f64::INFINITY];
    let sums = Sums::of_scores(2, &[0, 1, 1], &scores);
    let found = Figures::new(&classes, &sums, None).unwrap();
    assert_eq!(found.confusion, [[1, 0], [2, 0]]);
    assert_eq!((found.rows, found.balanced_accuracy.value), (3, 0.5));
    assert_eq!(found.per_class[1].precision, None);
    let bins = found.calibration.as_ref().unwrap();
    assert_eq!(bins.iter().map(|bin| bin.rows).collect::<Vec<_>>(), [1, 1, 1]);
    near(bins[1].stated, 1.0 / (1.0 + f64::exp(-1.0)));
    near(found.auc.unwrap().value, 1.0);
    assert!(found.to_string().contains("recall"), "{found}");
    assert_eq!(Figures::new(&classes, &Sums::empty(2, true), None), None);
}

#[test]
fn the_rarer_class_is_positive_unless_another_is_named() {
    let classes = ["ill", "well"].map(String::from);
    // 3 of 5 ill are found, and 1 of 20 well is predicted as ill.
    let truth: Vec<u16> = (0..25).map(|row| u16::from(row >= 5)).collect();
    let told: Vec<u16> = (0..25).map(|row| u16::from(!(2..6).contains(&row))).collect();
    let sums = Sums::of_classes(2, &truth, &told);
    let figures = |asked| Figures::new(&classes, &sums, asked).unwrap();
    let shares = |found: &Figures| found.positive.as_ref().unwrap().named().map(|(_, share)| share);
    let of = Share::of;
    let found = figures(None);
    assert_eq!(found.positive.as_ref().unwrap().class, "ill");
    assert_eq!(shares(&found), [of(3, 5), of(19, 20), of(3, 4), of(19, 21)]);
    let other = figures(Some(1));
    assert_eq!(other.positive.as_ref().unwrap().class, "well");
    assert_eq!(shares(&other), [of(19, 20), of(3, 5), of(19, 21), of(3, 4)]);
    let majority = Majority { class: "well".into(), accuracy: 0.8, balanced_accuracy: 0.5 };
    assert_eq!(found.majority, majority);
    assert!(found.to_string().contains("\npositive class     ill\nsensitivity        0.6000 ("), "{found}");
}

#[test]
fn twenty_rows_of_each_class_are_enough_and_nineteen_are_not() {
    let few = |rows: &[usize]| {
        let classes: Vec<_> = (0..rows.len()).map(|class| class.to_string()).collect();
        let truth: Vec<u16> =
            (0u16..).zip(rows).flat_map(|(class, &rows)| std::iter::repeat_n(class, rows)).collect();
        let found = Figures::new(&classes, &Sums::of_classes(rows.len(), &truth, &truth), None).unwrap();
        found.too_few().map(|each| (each.class.clone(), each.rows))
    };
    assert_eq!((few(&[20, 900]), few(&[900, 19])), (None, Some(("1".into(), 19))));
    assert_eq!(few(&[700, 0]), Some(("1".into(), 0)));
    // With three classes, a class without rows is ignored.
    assert_eq!((few(&[30, 0, 20]), few(&[30, 1, 20])), (None, Some(("1".into(), 1))));
}

fn whole() -> (Vec<u16>, Vec<f64>) {
    ((0..40).map(|i| i % 2).collect(), (0..80).map(|i| f64::from(i * i % 17) / 4.0).collect())
}

#[test]
fn words_that_no_parties_show_are_refused() {
    let (labels, scores) = whole();
    let shown = Sums::of_scores(2, &labels, &scores).shown();
    let words = shown.words();
    assert_eq!(words.len(), Sums::length(2, true));
    assert_eq!(Sums::from_words(2, &words), Some(shown));
    // A peer with few rows is only in the table, so more rows in the table are not a contradiction.
    for at in 4..words.len() {
        let mut other = words.clone();
        // Confidence, correct rows and rows of a bin are bounded by all rows; ranks are bounded by the
        // pairs.
        other[at] = match at {
            34.. => 10 * other[at] + 801,
            _ if at % 3 == 0 => other[at - 2] * 65_536 + 1,
            _ => other[at] + 41,
        };
        assert_eq!(Sums::from_words(2, &other), None, "word {at}");
    }
    assert_eq!(Sums::from_words(2, &words[1..]), None);
}

#[test]
fn no_bin_that_others_see_has_fewer_than_ten_rows() {
    let sums = |bins: [u64; 4]| {
        let mut sums = Sums::empty(3, true);
        for (bin, rows) in sums.stated.iter_mut().skip(3).zip(bins) {
            *bin = [rows, rows / 2, rows * 100];
        }
        sums.shown().stated.iter().map(|bin| bin[0]).collect::<Vec<_>>()[3..7].to_vec()
    };
    assert_eq!(sums([10, 9, 1, 30]), [10, 0, 10, 30]);
    assert_eq!(sums([9, 0, 0, 4]), [0, 0, 0, 13]);
    assert_eq!(sums([12, 9, 0, 4]), [12, 0, 0, 13]);
    assert_eq!(sums([12, 3, 0, 4]), [19, 0, 0, 0]);
    assert_eq!(sums([1, 3, 0, 5]), [0; 4]);
}

#[test]
fn words_that_are_too_few_or_too_large_or_in_the_wrong_bin_are_refused() {
    assert_eq!(Sums::from_words(2, &Sums::empty(2, true).words()[..3]), None);
    assert!(Sums::from_words(2, &[(1 << 33) - 1, 0, 0, 0]).is_some());
    assert_eq!(Sums::from_words(2, &[1 << 33, 0, 0, 0]), None);
    // Ten correct and ten wrong rows of three classes. Each bin has rows, correct rows, and a sum of
    // confidences.
    let stated = |bins: [[u64; 3]; 2]| {
        let mut words = vec![0; Sums::length(3, true)];
        words[..2].fill(10);
        words[9..15].copy_from_slice(bins.as_flattened());
        Sums::from_words(3, &words)
    };
    assert!(stated([[10, 10, 0], [10, 0, 0]]).is_some());
    // The rows of a peer with few rows are in no bin.
    assert!(stated([[10, 4, 0], [0, 0, 0]]).is_some());
    for bins in [[[0, 10, 0], [20, 0, 0]], [[9, 9, 0], [11, 1, 0]], [[11, 0, 0], [0, 0, 0]]] {
        assert_eq!(stated(bins), None, "{bins:?}");
    }
    // These sums wrap to twenty, the true number of rows.
    assert_eq!(stated([[1 << 63, 10, 0], [(1 << 63) + 20, 0, 0]]), None);
}
