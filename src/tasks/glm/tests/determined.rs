//! Compares the entries of the first round that the check determines with the sums of the same rows and of
//! other rows.

use flyswarm_glm::{Family, Round, Totals};

use super::*;

/// Returns the opened entries and the first round of these rows.
fn opened(design: &Design, family: Family, rows: &[Vec<f32>]) -> (Vec<u64>, Totals) {
    let (words, used) = design.words(rows.iter().map(Vec::as_slice)).expect("in range");
    (design.checked(&words), used.sums(family, &Round::First))
}

fn specs() -> Vec<GlmSpec> {
    let terms = |terms: &[&str]| terms.iter().map(|&term| term.to_owned()).collect::<Vec<_>>();
    let visits = GlmSpec { outcome: "visits".into(), ..spec() };
    vec![
        GlmSpec { terms: terms(&["arm", "stage", "age", "arm:sex", "stage:age"]), ..spec() },
        GlmSpec { event: Some("no".into()), weights: Some("visits".into()), ..spec() },
        GlmSpec { terms: terms(&["age", "visits", "age:visits", "sex:age"]), ..spec() },
        GlmSpec { terms: terms(&["arm:sex", "stage"]), offset: Some("visits".into()), ..spec() },
        GlmSpec { family: "linear".into(), terms: terms(&["arm", "age", "sex:stage"]), ..visits.clone() },
        GlmSpec {
            family: "linear".into(),
            weights: Some("age".into()),
            terms: terms(&["arm"]),
            ..visits.clone()
        },
        GlmSpec {
            family: "poisson".into(),
            offset: Some("age".into()),
            terms: terms(&["arm", "sex"]),
            ..visits
        },
    ]
}

#[test]
fn every_number_of_the_first_round_is_bound_that_the_check_can_show() {
    for (which, spec) in specs().iter().enumerate() {
        let design = Design::new(spec, &data()).expect("fits");
        let width = design.width();
        let vector = match which {
            0 => width,
            // Not age times age:visits, visits times age:visits, and age:visits times sex:age.
            2 => width - 3,
            4 => width + 1,
            6 => 1,
            _ => 0,
        };
        assert_eq!(design.entries.len(), 1 + width * (width + 1) / 2 + vector, "{spec:?}");
    }
}

/// Returns a row without missing values. Its weight is above 0.
fn complete() -> impl Strategy<Value = Plain> {
    (
        0usize..3,
        (0usize..2).prop_map(Some),
        0usize..3,
        (1i32..900).prop_map(|x| x as f32 / 10.0),
        0usize..2,
        1u8..9,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_check_and_the_first_round_of_the_same_rows_agree(
        rows in prop::collection::vec(complete(), 1..60), which in 0usize..7,
    ) {
        let spec = &specs()[which];
        let design = Design::new(spec, &data()).expect("fits");
        let family = spec.family().expect("a family");
        let rows: Vec<Vec<f32>> = rows.into_iter().map(row).collect();
        let (checked, first) = opened(&design, family, &rows);
        prop_assert_eq!(design.agree(&checked, &first), Ok(()));
    }

    /// A peer that changes one value of one row, or leaves the row out, changes an entry.
    #[test]
    fn one_changed_value_of_the_model_is_noticed(
        rows in prop::collection::vec(complete(), 1..60), which in 0usize..7, at in 0usize..60,
        change in 0usize..6,
    ) {
        let spec = &specs()[which];
        let design = Design::new(spec, &data()).expect("fits");
        let family = spec.family().expect("a family");
        let mut other = rows.clone();
        let place = at % rows.len();
        let (arm, sex, stage, age, died, visits) = &mut other[place];
        match change {
            0 => *arm = (*arm + 1) % 3,
            1 => *sex = sex.map(|sex| 1 - sex),
            2 => *stage = (*stage + 1) % 3,
            3 => *age += 0.1,
            4 => *died = 1 - *died,
            _ => *visits += 1,
        }
        let change = |rows: &[Plain]| -> Vec<Vec<f32>> { rows.iter().copied().map(row).collect() };
        let (checked, _) = opened(&design, family, &change(&rows));
        let (_, first) = opened(&design, family, &change(&other));
        let (values, changed) = (designed(&design, &row(rows[place])), designed(&design, &row(other[place])));
        let (Ok(Some(values)), Ok(Some(changed))) = (values, changed) else { panic!("complete rows") };
        // Without an entry for the outcome, or for an offset, only columns and weights are compared.
        let outcome = spec.weights.is_none() && (spec.offset.is_none() || family == Family::Poisson);
        let compared = values.columns != changed.columns || values.weight != changed.weight
            || outcome && values.outcome != changed.outcome;
        prop_assert_eq!(design.agree(&checked, &first).is_err(), compared);
        other.remove(place);
        let (_, first) = opened(&design, family, &change(&other));
        let error = design.agree(&checked, &first).unwrap_err();
        prop_assert!(error.contains("(the number of rows)"), "{error}");
    }
}

#[test]
fn a_peer_that_fits_other_rows_than_it_checked_ends_the_session() {
    let rows = some_rows(150, 3);
    let mut changed = rows.clone();
    let old = changed[1].iter().position(|row| row[4] == 1.0).expect("a man");
    changed[1][old][6] += 1.0;
    for (others, result) in [
        (&rows, Ok(())),
        (
            &changed,
            Err(
                "the first round and the check before it have different rows (the sum of \"intercept\" times \
                 \"age\"), so a peer does not follow the protocol",
            ),
        ),
    ] {
        let (tasks, mut histories) = computed(&spec(), &rows);
        add(&tasks, &mut histories, PATTERN, &EVERYONE).expect("the pattern");
        let (others, _) = computed(&spec(), others);
        assert_eq!(add(&others, &mut histories, FIT, &EVERYONE).map_err(|error| &*error.leak()), result);
    }
}
