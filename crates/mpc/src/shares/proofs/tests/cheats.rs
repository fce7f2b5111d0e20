//! Table of faults of one party in the whole computation. Each is found, and the accounts of the three
//! parties name a pair that contains the cheater. A fault before the marks are opened keeps them closed.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::super::super::context::Keys;
use super::super::super::memory::{Ended, Sent, until_one_ends};
use super::super::super::program::{self, Outcome};
use super::super::super::round::{Label, Mark};
use super::super::super::tests::audit;
use super::super::super::{Context, Stage};
use super::*;

/// Deviation of a party.
#[derive(Clone, Debug)]
enum Fault {
    /// It changes a message of this kind and stage while making it, and continues with the changed
    /// message.
    Made(&'static str, Stage, fn(u64) -> Change),
    /// It sends a bit that it does not hold, in a round of this stage.
    Sent(Stage),
    /// It sends one or both receivers a wrong checked message of this kind.
    Checked(&'static str, bool),
}

/// Sessions of this number have [`LARGE`] points, the others [`SMALL`]: a session takes a tenth of the time.
const LARGE_EVERY: usize = 20;
const LARGE: usize = 24;
const SMALL: usize = 8;

/// Honest run.
struct Honest {
    points: usize,
    messages: [Vec<(&'static str, u32)>; 3],
    ended: Ended<Outcome>,
}

fn whole(
    points: usize,
    cheat: Option<(usize, Plan)>,
    change: impl FnMut(u32, &mut Sent),
) -> (Ended<Outcome>, [Cheat; 3]) {
    let (inputs, plan, cheats) = (audit::inputs_of(points, 6), audit::plan_of(points), cheats(cheat));
    let keys = |party: u8| Keys::new([party + 1; 32], [(party + 1) % 3 + 1; 32], b"cheats");
    let run = |context: Context| {
        let log = Log::new(cheats[context.role()].clone());
        let inputs = inputs[context.role()].clone();
        let (root, inner) = (context.split(0), context.with_log(log.clone()));
        let proved = Alongside::new(root, log, Box::pin(program::run(inner, plan, inputs)));
        Box::pin(async { proved.await.unwrap_or_else(Outcome::Fails) }) as Part<'static, Outcome>
    };
    (until_one_ends([keys(0), keys(1), keys(2)], run, change), cheats)
}

impl Honest {
    fn run(points: usize) -> Self {
        let (ended, made) = whole(points, None, |_, _| {});
        assert!(ended.results.iter().all(|end| matches!(end, Some(Outcome::Sealed(_)))), "an honest run");
        Self { points, messages: made.map(|made| made.made().messages.clone()), ended }
    }
}

/// Returns the round in which the marks are opened, if it is reached.
fn opening(marks: &[Mark]) -> Option<u32> {
    marks.iter().find(|mark| mark.stage == Stage::Weights).map(|mark| mark.rounds)
}

/// Returns the stage of a round.
fn stage(marks: &[Mark], round: u32) -> Stage {
    marks.iter().rev().find(|mark| mark.rounds <= round).map_or(Stage::Input, |mark| mark.stage)
}

impl Fault {
    /// Runs one session with the fault. Returns the cheater, the round of the fault and the run; `None`
    /// if no message has this fault.
    fn session(&self, honest: &Honest, word: u64) -> Option<(usize, u32, Ended<Outcome>)> {
        let cheat = (word % 3) as usize;
        let pick = |count: usize| (word >> 8) as usize % count;
        let marks = &honest.ended.marks[cheat];
        match *self {
            Self::Made(kind, of, change) => {
                let fits = |party: usize| -> Vec<usize> {
                    let messages = (1..).zip(&honest.messages[party]);
                    let fits =
                        messages.filter(|(_, (its, round))| *its == kind && stage(marks, *round) == of);
                    fits.map(|(at, _)| at).collect()
                };
                // Not every party makes a message of this kind in the stage.
                let parties = [cheat, (cheat + 1) % 3, (cheat + 2) % 3];
                let (cheat, fits) = parties
                    .map(|party| (party, fits(party)))
                    .into_iter()
                    .find(|(_, fits)| !fits.is_empty())?;
                let message = fits[pick(fits.len())];
                let plan = Plan { message, change: change(word >> 32) };
                let (ended, cheats) = whole(honest.points, Some((cheat, plan)), |_, _| {});
                let round = cheats[cheat].made().changed?;
                Some((cheat, round, ended))
            }
            Self::Sent(of) => {
                // A wrong message of the opened share is a different fault.
                let opened = opening(marks).map(|round| round - 1);
                let rounds: Vec<u32> = (1..honest.messages[cheat].last()?.1)
                    .filter(|round| stage(marks, *round) == of && Some(*round) != opened)
                    .collect();
                let (at, mut changed) = (*rounds.get(pick(rounds.len().max(1)))?, false);
                let side = (word >> 4) as usize % 2;
                let (ended, _) = whole(honest.points, None, |round, sent| {
                    let sides = [side, 1 - side];
                    let found = sides.into_iter().find(|side| !sent[cheat][*side].is_empty());
                    if let Some(side) = found.filter(|_| round >= at && !changed && Some(round) != opened) {
                        sent[cheat][side][0] ^= 1;
                        changed = true;
                    }
                });
                Some((cheat, at, ended))
            }
            Self::Checked(what, both) => {
                let labels: Vec<&Label> =
                    honest.ended.labels[cheat].iter().filter(|label| label.what == what).collect();
                let label = labels[pick(labels.len())];
                let also = |other: &&&Label| both && other.round == label.round && other.to != label.to;
                let other = labels.iter().find(also).copied();
                let (ended, _) = whole(honest.points, None, |round, sent| {
                    for label in
                        [Some(label), other].into_iter().flatten().filter(|label| label.round == round)
                    {
                        sent[cheat][label.to as usize][label.start] ^= 1;
                    }
                });
                Some((cheat, label.round, ended))
            }
        }
    }
}

/// Result of sessions with one fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    sessions: usize,
    caught: usize,
    /// Sessions with the fault before the marks are opened, and those of them that end before that.
    early: usize,
    before: usize,
    /// Sessions that name a pair with the cheater, and those that name only honest parties.
    named: usize,
    honest: usize,
}

impl Tally {
    fn of(fault: &Fault, honest: &Honest, word: u64) -> Self {
        let Some((cheat, round, ended)) = fault.session(honest, word) else { return Self::default() };
        let place = ended.results.iter().find_map(|end| match end {
            Some(Outcome::Fails(place)) => Some(*place),
            _ => None,
        });
        let sealed = ended.results.iter().any(|end| matches!(end, Some(Outcome::Sealed(_))));
        // Lies at the opening itself spoil it, and reveal nothing.
        let opened = opening(&honest.ended.marks[0]).expect("the marks are opened");
        let early = round + 1 < opened;
        let unopened = ended.marks.iter().all(|marks| opening(marks).is_none());
        let pair = place.and_then(|place| judged(&ended.accounts, place));
        Self {
            sessions: 1,
            caught: (place.is_some() && !sealed).into(),
            early: early.into(),
            before: (early && unopened).into(),
            named: pair.is_some_and(|pair| pair.contains(&cheat)).into(),
            honest: pair.is_some_and(|pair| !pair.contains(&cheat)).into(),
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            caught: self.caught + other.caught,
            early: self.early + other.early,
            before: self.before + other.before,
            named: self.named + other.named,
            honest: self.honest + other.honest,
        }
    }
}

/// `FLYSWARM_CHEATS` sets the number of sessions of each fault. By default it is 1 for a few of the faults.
#[test]
fn every_fault_of_a_party_is_found_before_anything_is_opened_and_names_it_or_a_pair() {
    let sessions: Option<usize> =
        std::env::var("FLYSWARM_CHEATS").ok().map(|count| count.parse().expect("a number"));
    let (large, small) = (Honest::run(LARGE), Honest::run(SMALL));
    let marks = &large.ended.marks[0];
    let kinds: BTreeSet<(Stage, &'static str)> =
        large.messages.iter().flatten().map(|(kind, round)| (stage(marks, *round), *kind)).collect();
    let mut faults: Vec<(String, Fault)> = Vec::new();
    for &(stage, kind) in &kinds {
        let bits: [fn(u64) -> Change; 3] = [|_| Change::Bit(0), |_| Change::Bit(u64::MAX), Change::Bit];
        for (name, bit) in ["lowest bit", "highest bit", "random bit"].into_iter().zip(bits) {
            faults.push((format!("{stage:?}, {kind}: {name}"), Fault::Made(kind, stage, bit)));
        }
        if kind == "shuffle" {
            let swap = Fault::Made(kind, stage, |_| Change::Swap);
            faults.push((format!("{stage:?}: another permutation"), swap));
        }
    }
    let stages: BTreeSet<Stage> = kinds.iter().map(|(stage, _)| *stage).collect();
    faults.extend(
        stages.iter().map(|&stage| (format!("{stage:?}: sends what it does not hold"), Fault::Sent(stage))),
    );
    for what in ["share of a product", "coin that U tells", "coin that L confirms", "last message of L"] {
        faults.push((format!("proof: {what}"), Fault::Checked(what, false)));
    }
    faults.push(("proof: refused to one party".into(), Fault::Checked("verdict", false)));
    faults.push(("proof: refused to both parties".into(), Fault::Checked("verdict", true)));
    for what in ["opened share", "hash of an opened share"] {
        faults.push((what.to_owned(), Fault::Checked(what, false)));
    }
    let drawn = words(faults.len() * sessions.unwrap_or(1), 12);
    println!(
        "| fault | sessions | caught | before the marks are opened | pair with the cheater | honest pair |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut all = Tally::default();
    for (at, (name, fault)) in faults.iter().enumerate() {
        // The gate tries one bit of each kind and stage, and all lies about proofs and openings.
        if sessions.is_none() && matches!(fault, Fault::Made(..)) && at % 4 != 0 {
            continue;
        }
        let drawn = &drawn[at * sessions.unwrap_or(1)..(at + 1) * sessions.unwrap_or(1)];
        let sessions = drawn.par_iter().enumerate().map(|(number, &word)| {
            Tally::of(fault, if number % LARGE_EVERY == 0 { &large } else { &small }, word)
        });
        let tally = sessions.reduce(Tally::default, Tally::add);
        let Tally { sessions, caught, early, before, named, honest } = tally;
        println!("| {name} | {sessions} | {caught} | {before} of {early} | {named} | {honest} |");
        let right = Tally { sessions, caught: sessions, early, before: early, named: sessions, honest: 0 };
        assert_eq!(tally, right, "{name}");
        assert!(sessions > 0 || name.contains("permutation"), "{name}");
        all = all.add(tally);
    }
    let Tally { sessions, caught, early, before, named, honest } = all;
    println!("| all | {sessions} | {caught} | {before} of {early} | {named} | {honest} |");
}
