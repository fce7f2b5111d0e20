//! Tests the program of the tasks `summary` and `glm`: all that a party sees of the peers' counts is
//! uniform.

use super::super::super::cells::{Rule, boxed};
use super::super::cells;
use super::statistics::{LARGEST, constant_pairs, runs, scores};
use super::*;

/// Round with the hashes of the owners' announcements.
const ANNOUNCED: u32 = 0;

/// Returns the check of a `glm`, and that of a `summary` with quantiles, for four owners.
fn rules() -> [Rule; 2] {
    let rule = cells::rule(40, 5, (10, 3, 5));
    [Rule { first: 60, ..rule.clone() }, cells::with_quantiles(rule, &[20, 12])]
}

fn counted(rule: &Rule) -> impl Fn(Context) -> Part<'static, Outcome> + Clone + Sync + use<> {
    let (held, rule) = (cells::inputs(&cells::owners(rule, 4, 9)), rule.clone());
    move |context| {
        let inputs = held[context.role()].clone();
        boxed(context, rule.clone(), inputs, false)
    }
}

/// Parties that are audited: one, or with `FLYSWARM_AUDIT=all` all three.
fn parties() -> usize {
    if std::env::var("FLYSWARM_AUDIT").is_ok_and(|which| which == "all") { 3 } else { 1 }
}

#[test]
fn every_word_of_the_counts_has_a_fresh_mask_and_one_that_is_missing_is_found() {
    for rule in rules() {
        let program = counted(&rule);
        let (_, run) = views(KEYS, Tape::default(), &program);
        let found: Vec<_> = (0..run.rounds)
            .into_par_iter()
            .map(|round| (round, stale(round, Tape::default(), &program)))
            .filter(|(_, found)| found.contains(&true))
            .collect();
        assert_eq!(found, [(ANNOUNCED, [true; 6])], "of {} rounds", run.rounds);
        let drawn = run.drawn.into_iter().filter(|(label, _)| parties() == 3 || label[1] == 0);
        let labels: Vec<([u8; 10], u32)> = drawn.collect();
        assert!(labels.len() > 20, "{} streams", labels.len());
        println!(
            "{} rounds, {} places, tested one after the other without their mask",
            run.rounds,
            labels.len()
        );
        let missed = labels.par_iter().filter(|(label, round)| {
            let tape = Tape { known: Some(*label), ..Tape::default() };
            !stale(*round, tape, &program).contains(&true)
        });
        assert_eq!(missed.collect::<Vec<_>>(), Vec::<&([u8; 10], u32)>::new());
    }
}

#[test]
fn each_bit_that_a_party_sees_of_the_counts_is_a_fair_coin() {
    for rule in rules() {
        for party in 0..parties() {
            let seen = runs(party, |_| Tape::default(), &[ANNOUNCED], counted(&rule));
            let scores = scores(&seen);
            let mean = scores.iter().map(|z| z * z).sum::<f64>() / scores.len() as f64;
            let largest = scores.iter().fold(0f64, |largest, z| largest.max(z.abs()));
            println!("party {party}: {} bits, mean z^2 {mean:.4}, largest |z| {largest:.2}", scores.len());
            assert!((mean - 1.0).abs() < 0.02 && largest < LARGEST, "{mean} {largest}");
            assert_eq!(constant_pairs(&seen), 0, "party {party}");
        }
        // With lanes that hide nothing, or with a pooled count in clear, the test fails.
        let bare = Tape { bare_lane: true, ..Tape::default() };
        assert!(constant_bits(bare, &[ANNOUNCED], counted(&rule)) > 100);
        let held = cells::inputs(&cells::owners(&rule, 4, 9));
        let leaks = |mut context: Context| {
            let own = held[context.role()].iter().map(|input| input.counts.slice(0..1));
            let sum = own.reduce(|sum, own| sum.plus(&own)).expect("four owners");
            Box::pin(async move {
                let told = open(&context, &sum).await.expect("equal copies");
                context.enter(Stage::Input);
                told
            }) as Part<'_, Vec<u64>>
        };
        assert!(constant_bits(Tape::default(), &[], leaks) >= 3 * 64, "a count in clear");
    }
}
