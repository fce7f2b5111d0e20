//! Accounts: what each party says about a place of the computation where a check has failed. They name
//! a pair of parties: one of the two deviates (spec, section 15e.2).
//!
//! A check always has the same form: the party before a receiver and the party after the receiver know
//! the same value. Both tell the value to the receiver, or one of them tells it and the other one knows
//! which value is right:
//!
//! | checked | receiver | the party before it | the party after it |
//! | --- | --- | --- | --- |
//! | a coin of a proof | prover | confirms the coin | has told the coin |
//! | the last message of a proof | the party after the prover | prover: knows the message | shows it |
//! | an opened share | the party that lacks it | shows the share | shows its hash |
//!
//! Each party records hashes of what it tells and hears. It does so before it sends the messages of the
//! round. If a check fails, all three publish their records. Two honest parties never contradict each
//! other. So one of the first two parties that contradict each other ([`judge`]) is the deviating
//! party.

use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::round::Side;
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Place of the computation that has a check: the part's number, and a number in this part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Number of the part ([`super::Context`]).
    pub chunk: u32,
    /// In a proof: the step of a coin, or the number of steps for the last message. At an opening: the round
    /// in which the shares are sent.
    pub number: u32,
}

/// Hash of what one party tells another.
pub type Told = [u8; 32];

/// Account of one party. In each pair, the first item is about the party before this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Hashes of what this party tells each of the others, or knows that the others must tell.
    pub told: [Told; 2],
    /// Hashes of what this party has heard, as the receiver.
    pub heard: [Option<Told>; 2],
    /// False if this party refuses, as the receiver.
    pub accepts: bool,
    /// Verdicts that the other two, as receivers, have told this party.
    pub verdicts: [Option<bool>; 2],
}

impl Account {
    /// Makes the account of a party that tells both others, and has heard nothing.
    #[must_use]
    pub fn new(told: [Told; 2]) -> Self {
        Self { told, heard: [None; 2], accepts: true, verdicts: [None; 2] }
    }

    /// Returns whether something fails according to this account. An honest party asks for the other
    /// accounts only if its own account fails.
    #[must_use]
    pub fn fails(&self) -> bool {
        !self.accepts || self.verdicts.contains(&Some(false))
    }
}

/// Returns the hash of a value that one party tells another.
#[must_use]
pub fn told(bytes: &[u8]) -> Told {
    tagged_hash("told").chain_update(bytes).finalize().into()
}

/// Returns the pair that contains the deviating party, by the accounts of parties 0, 1 and 2 at one
/// place. `None` if nothing fails there.
#[must_use]
pub fn judge(accounts: [&Account; 3]) -> Option<[usize; 2]> {
    const BEFORE: usize = Side::Before as usize;
    const AFTER: usize = Side::After as usize;
    (0..3).find_map(|receiver| {
        let (before, after) = ((receiver + 2) % 3, (receiver + 1) % 3);
        let [its, of_before, of_after] = [receiver, before, after].map(|party| accounts[party]);
        let differs = |heard: Option<Told>, told: Told| heard.is_some_and(|heard| heard != told);
        let other = |verdict: Option<bool>| verdict.is_some_and(|verdict| verdict != its.accepts);
        if differs(its.heard[BEFORE], of_before.told[AFTER]) {
            Some([receiver, before])
        } else if differs(its.heard[AFTER], of_after.told[BEFORE]) {
            Some([receiver, after])
        } else if of_before.told[AFTER] != of_after.told[BEFORE] {
            Some([before, after])
        } else if !its.accepts || other(of_before.verdicts[AFTER]) {
            Some([receiver, before])
        } else {
            other(of_after.verdicts[BEFORE]).then_some([receiver, after])
        }
    })
}

/// Progress of a party that waits for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of rounds whose messages this party has sent.
    pub sent: u32,
    /// True if the message of the last of these rounds is missing: from the party before this one, and
    /// from the party after it.
    pub missing: [bool; 2],
}

/// Returns the pair that contains the deviating party if the next round does not come. One of the pair
/// misses a message; the other has not sent it, or claims to have sent it. If several parties miss a
/// message, the one that has sent the fewest rounds counts. `None` if no party misses a message.
#[must_use]
pub fn judge_progress(progress: [Progress; 3]) -> Option<[usize; 2]> {
    let waiting = (0..3).filter(|&party| progress[party].missing != [false; 2]);
    let party = waiting.min_by_key(|&party| progress[party].sent)?;
    let step = if progress[party].missing[Side::Before as usize] { 2 } else { 1 };
    Some([party, (party + step) % 3])
}
