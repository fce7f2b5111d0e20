//! Helpers for tests: sessions with five peers in memory. Peers 1, 3 and 4 compute.

use bytes::Bytes;
use flyswarm_mpc::shares::cells::{Rule, boxed};
use flyswarm_mpc::shares::input::{Announced, Inputs, parcels_of_words, unpack_words};
use flyswarm_mpc::shares::memory::in_memory;
use flyswarm_mpc::shares::program::Outcome;
use zeroize::Zeroizing;

use super::COMPUTED;
use crate::Identity;
use crate::data::Dataset;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::session::Peer;
use crate::tasks::xclp::computed::{Computed, inputs_digest};
use crate::tasks::{History, Task};

pub(crate) const EVERYONE: [u16; 5] = [0, 1, 2, 3, 4];
const PARTIES: [u16; 3] = [1, 3, 4];

/// Adds five peers to a session file.
pub(crate) fn with_roster(text: &str) -> String {
    let mut keys: Vec<_> = (0..5u8).map(|i| Identity::from_seed([i; 32]).public()).collect();
    keys.sort();
    let entry = |(i, key)| format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    text.to_owned() + &keys.into_iter().enumerate().map(entry).collect::<String>()
}

pub(crate) fn dataset(features: usize, rows: &[Vec<f32>]) -> Dataset {
    match rows.is_empty() {
        true => Dataset::new(features, vec![0.0; features], vec![], vec![]).expect("a row").subset(&[]),
        false => Dataset::new(features, rows.concat(), vec![], vec![]).expect("rows"),
    }
}

pub(crate) fn value(slot: u32, members: &[u16]) -> Value {
    let sum = SumId { ballot: Ballot::default(), slot };
    let members = members.iter().copied().map(Peer).collect();
    Value { sum, members, total: [0; 32], deals: [0; 32] }
}

/// Adds up vectors of words. Each word has `bytes` bytes, 4 or 8.
pub(crate) fn sum_of(bytes: usize, vectors: &[Bytes]) -> Bytes {
    let word = |vector: &Bytes, at: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&vector[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let words = (0..vectors[0].len()).step_by(bytes);
    let sums = words.map(|at| vectors.iter().fold(0u64, |sum, vector| sum.wrapping_add(word(vector, at))));
    sums.flat_map(|sum| sum.to_le_bytes()[..bytes].to_vec()).collect()
}

/// Adds a slot with an exchange over `members`. `words` has the words of all peers, in the order of the
/// roster.
pub(crate) fn exchange<T: Task>(
    tasks: &[T],
    histories: &mut [History],
    (slot, members): (u32, &[u16]),
    rule: &Rule,
    words: &[Vec<u64>],
) -> Result<(), String> {
    let all: Vec<Peer> = members.iter().copied().map(Peer).collect();
    tasks[0].allows(slot, &histories[0], &all)?;
    let mut held: [Vec<Inputs>; 3] = Default::default();
    let commitment = |peer: u16| [peer as u8 + 1; 32];
    for (place, &peer) in members.iter().enumerate() {
        let own = &words[usize::from(peer)];
        let parcels = parcels_of_words(own, place, &[1, 2, 3].map(|n| Zeroizing::new([n; 32])));
        let said = Announced::of(commitment(peer), &parcels);
        for (number, held) in held.iter_mut().enumerate() {
            held.push(unpack_words(&parcels[number], number, &said, own.len()).expect("a parcel"));
        }
    }
    let run = in_memory(7, |context| {
        let inputs = held[context.role()].clone();
        boxed(context, rule.clone(), inputs, false)
    });
    let inputs = inputs_digest(members.iter().map(|&peer| (Peer(peer), commitment(peer))));
    let mut vectors = Vec::new();
    for &peer in members {
        let number = PARTIES.iter().position(|&party| party == peer);
        let party = number.map(|number| match &run.results[number] {
            Outcome::Sealed(sealed) => (number as u8, sealed.to_bytes()),
            other => panic!("{other:?}"),
        });
        let digest = if number.is_some() { inputs } else { [0; 32] };
        let result = Computed { party, commitment: commitment(peer), inputs: digest }.to_bytes();
        vectors.push(tasks[usize::from(peer)].contribution_from_exchange(slot, &result)?);
        histories[usize::from(peer)].set_exchanged(slot, result);
    }
    let sum = sum_of(if slot == COMPUTED { 4 } else { 8 }, &vectors);
    histories.iter_mut().for_each(|history| history.push(value(slot, members), Some(sum.clone())));
    tasks.iter().zip(&*histories).try_for_each(|(task, history)| task.check(slot, history))
}

/// Returns the histories of all peers after the coin and the exchange.
pub(crate) fn computed<T: Task>(tasks: &[T], rule: &Rule, words: &[Vec<u64>]) -> Vec<History> {
    let coin = || History::of([(value(0, &EVERYONE), Bytes::from(vec![5; 32]))]);
    let mut histories: Vec<History> = tasks.iter().map(|_| coin()).collect();
    exchange(tasks, &mut histories, (COMPUTED, &EVERYONE), rule, words).expect("three parties");
    histories
}

/// Adds a slot to all histories. `vector` makes the vector of each of the `members`, and the slot has their
/// sum.
pub(crate) fn add<T: Task>(
    tasks: &[T],
    histories: &mut [History],
    slot: u32,
    members: &[u16],
    vector: impl Fn(&T, &History, u16) -> Result<Bytes, String>,
) -> Result<(), String> {
    let all: Vec<Peer> = members.iter().copied().map(Peer).collect();
    tasks[0].allows(slot, &histories[0], &all)?;
    let own = |&peer: &u16| vector(&tasks[usize::from(peer)], &histories[usize::from(peer)], peer);
    let vectors = members.iter().map(own).collect::<Result<Vec<_>, _>>()?;
    let sum = sum_of(8, &vectors);
    histories.iter_mut().for_each(|history| history.push(value(slot, members), Some(sum.clone())));
    tasks.iter().zip(&*histories).try_for_each(|(task, history)| task.check(slot, history))
}
