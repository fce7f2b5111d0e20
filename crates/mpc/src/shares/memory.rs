//! Three parties in one process, round by round: for tests and benches.

use std::collections::BTreeMap;
use std::task::{Context as Wakeup, Poll, Waker};

use super::accounts::{Account, Place};
#[cfg(test)]
use super::round::Label;
use super::round::{Line, Mark, Part, Side, Wire};
use super::{Context, Keys, Stage};
use flyswarm_sealed_sum::crypto::stream::derive;

/// Result of a run.
#[derive(Debug)]
pub struct Run<T> {
    /// Result of each party.
    pub results: [T; 3],
    /// Number of rounds.
    pub rounds: u32,
    /// Bytes that each party sent.
    pub sent: [u64; 3],
    /// Start of each stage, at each party.
    pub marks: [Vec<Mark>; 3],
    /// Labels of the streams that the parties drew, each with its round.
    pub drawn: BTreeMap<[u8; 10], u32>,
    /// Accounts of each party.
    pub accounts: [BTreeMap<Place, Account>; 3],
    /// Checked messages of each party.
    #[cfg(test)]
    pub(super) labels: [Vec<Label>; 3],
}

impl<T> Run<T> {
    /// Returns the rounds of each stage, and the bytes of the party that sends the most in it.
    #[must_use]
    pub fn stages(&self) -> Vec<(Stage, u32, u64)> {
        let bytes = |party: usize, at: usize| {
            let end = self.marks[party].get(at + 1).map_or(self.sent[party], |mark| mark.sent);
            end - self.marks[party][at].sent
        };
        let stage = |(at, mark): (usize, &Mark)| {
            let end = self.marks[0].get(at + 1).map_or(self.rounds, |mark| mark.rounds);
            (mark.stage, end - mark.rounds, (0..3).map(|party| bytes(party, at)).max().unwrap_or(0))
        };
        self.marks[0].iter().enumerate().map(stage).collect()
    }
}

/// Runs one program as all three parties, with keys from `seed`.
///
/// # Panics
/// If the lengths of sent and read data differ.
pub fn in_memory<'a, T>(seed: u8, program: impl Fn(Context) -> Part<'a, T>) -> Run<T> {
    watched(seed, program, |_, _, _| {})
}

/// Runs one program like [`in_memory`]. `watch` sees the data that each party gets in each round: its
/// number, the side, the bytes.
///
/// # Panics
/// If the lengths of sent and read data differ.
pub fn watched<'a, T>(
    seed: u8,
    program: impl Fn(Context) -> Part<'a, T>,
    watch: impl FnMut(usize, Side, &[u8]),
) -> Run<T> {
    let key = |number: u8| *derive(&[seed; 32], "shares/memory", &[number]);
    with_keys([key(0), key(1), key(2)], program, watch)
}

/// Runs party 0 alone, with the keys of [`in_memory`]. `next` returns the data that the party gets in each
/// round, as seen by `watched`. It sees the party's wire after the sent data were taken out.
pub fn alone<'a, T>(
    seed: u8,
    program: impl FnOnce(Context) -> Part<'a, T>,
    mut next: impl FnMut(&Wire) -> [Vec<u8>; 2],
) -> T {
    let key = |number: u8| *derive(&[seed; 32], "shares/memory", &[number]);
    let line = Line::default();
    let mut party = program(Context::new(line.clone(), Keys::new(key(0), key(1), b"in memory"), 0));
    loop {
        if let Poll::Ready(value) = party.as_mut().poll(&mut Wakeup::from_waker(Waker::noop())) {
            return value;
        }
        let mut wire = line.wire();
        wire.settle();
        drop(wire.take());
        let received = next(&wire);
        wire.turn(received);
    }
}

/// Runs one program like [`watched`], with the three keys given.
///
/// # Panics
/// If the lengths of sent and read data differ.
pub fn with_keys<'a, T>(
    keys: [[u8; 32]; 3],
    program: impl Fn(Context) -> Part<'a, T>,
    watch: impl FnMut(usize, Side, &[u8]),
) -> Run<T> {
    let keys = |party: usize| Keys::new(keys[party], keys[(party + 1) % 3], b"in memory");
    let mut watch = watch;
    carried([keys(0), keys(1), keys(2)], program, |party, side, bytes| watch(party, side, bytes))
}

/// Runs one program like [`in_memory`], and lets `change` change the data that each party gets.
#[cfg(test)]
pub(super) fn tampered<'a, T>(
    seed: u8,
    program: impl Fn(Context) -> Part<'a, T>,
    change: impl FnMut(usize, Side, &mut Vec<u8>),
) -> Run<T> {
    let key = |number: usize| *derive(&[seed; 32], "shares/memory", &[number as u8]);
    let keys = |party: usize| Keys::new(key(party), key((party + 1) % 3), b"in memory");
    carried([keys(0), keys(1), keys(2)], program, change)
}

/// Runs one program with planted bugs, or with keys that change.
#[cfg(test)]
pub(super) fn taped<'a, T>(
    keys: [[u8; 32]; 3],
    tape: super::tests::audit::Tape,
    program: impl Fn(Context) -> Part<'a, T>,
    watch: impl FnMut(usize, Side, &[u8]),
) -> Run<T> {
    let keys = |party: usize| {
        let mut keys = Keys::new(keys[party], keys[(party + 1) % 3], b"in memory");
        keys.taped = super::tests::audit::Taped { tape, party };
        keys
    };
    let mut watch = watch;
    carried([keys(0), keys(1), keys(2)], program, |party, side, bytes| watch(party, side, bytes))
}

/// Messages that each party sends in a round, by side.
#[cfg(test)]
pub(super) type Sent = [[Vec<u8>; 2]; 3];

/// End of a run in which a party deviates.
#[cfg(test)]
pub(super) struct Ended<T> {
    /// Results of the parties that have ended.
    pub results: [Option<T>; 3],
    /// Accounts of each party.
    pub accounts: [BTreeMap<Place, Account>; 3],
    /// Start of each stage, at each party.
    pub marks: [Vec<Mark>; 3],
    /// Checked messages of each party.
    pub labels: [Vec<Label>; 3],
}

/// Runs one program until a party ends. `change` changes the messages of a round.
#[cfg(test)]
pub(super) fn until_one_ends<'a, T>(
    keys: [Keys; 3],
    program: impl Fn(Context) -> Part<'a, T>,
    mut change: impl FnMut(u32, &mut Sent),
) -> Ended<T> {
    let lines: [Line; 3] = std::array::from_fn(|_| Line::default());
    let parties = keys.into_iter().zip(&lines).enumerate();
    let mut parties: Vec<_> =
        parties.map(|(party, (keys, line))| program(Context::new(line.clone(), keys, party))).collect();
    let mut results = [None, None, None];
    for round in 0.. {
        for ((party, result), line) in parties.iter_mut().zip(&mut results).zip(&lines) {
            if let Poll::Ready(value) = party.as_mut().poll(&mut Wakeup::from_waker(Waker::noop())) {
                *result = Some(value);
            }
            line.wire().settle();
        }
        if results.iter().any(Option::is_some) {
            break;
        }
        let mut sent = lines.each_ref().map(|line| line.wire().take());
        change(round, &mut sent);
        for (party, line) in lines.iter().enumerate() {
            let before = std::mem::take(&mut sent[(party + 2) % 3][Side::After as usize]);
            let after = std::mem::take(&mut sent[(party + 1) % 3][Side::Before as usize]);
            line.wire().turn([before, after]);
        }
    }
    Ended {
        results,
        accounts: lines.each_ref().map(|line| line.wire().accounts().clone()),
        marks: lines.each_ref().map(|line| line.wire().marks().to_vec()),
        labels: lines.each_ref().map(|line| line.wire().labels.clone()),
    }
}

fn carried<'a, T>(
    keys: [Keys; 3],
    program: impl Fn(Context) -> Part<'a, T>,
    mut change: impl FnMut(usize, Side, &mut Vec<u8>),
) -> Run<T> {
    let lines: [Line; 3] = std::array::from_fn(|_| Line::default());
    let parties = keys.into_iter().zip(&lines).enumerate();
    let mut parties: Vec<_> =
        parties.map(|(party, (keys, line))| Some(program(Context::new(line.clone(), keys, party)))).collect();
    let mut results = [None, None, None];
    loop {
        for ((party, result), line) in parties.iter_mut().zip(&mut results).zip(&lines) {
            if let Some(running) = party
                && let Poll::Ready(value) = running.as_mut().poll(&mut Wakeup::from_waker(Waker::noop()))
            {
                *result = Some(value);
                *party = None;
            }
            let mut wire = line.wire();
            wire.settle();
            assert_eq!(wire.fault(), None, "round {}", wire.rounds());
        }
        if parties.iter().all(Option::is_none) {
            break;
        }
        let mut sent = lines.each_ref().map(|line| line.wire().take());
        for (party, line) in lines.iter().enumerate() {
            let mut before = std::mem::take(&mut sent[(party + 2) % 3][Side::After as usize]);
            let mut after = std::mem::take(&mut sent[(party + 1) % 3][Side::Before as usize]);
            change(party, Side::Before, &mut before);
            change(party, Side::After, &mut after);
            line.wire().turn([before, after]);
        }
    }
    let rounds = lines[0].wire().rounds();
    let drawn = lines.iter().flat_map(|line| line.wire().drawn().clone());
    // The side is left out, because it differs between the two parties that draw.
    let drawn = drawn.filter_map(|(label, round)| Some((*label.first_chunk::<10>()?, round)));
    Run {
        results: results.map(|result| result.unwrap_or_else(|| unreachable!("BUG: a party has not ended"))),
        rounds,
        sent: lines.each_ref().map(|line| line.wire().sent().iter().sum()),
        drawn: drawn.collect(),
        #[cfg(test)]
        labels: lines.each_ref().map(|line| line.wire().labels.clone()),
        accounts: lines.each_ref().map(|line| line.wire().accounts().clone()),
        marks: lines.each_ref().map(|line| line.wire().marks().to_vec()),
    }
}
