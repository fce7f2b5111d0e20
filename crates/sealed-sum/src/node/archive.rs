//! The state of a node: promises, the acknowledged value and committed aggregates. Also the records of
//! this state that must survive a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::elections::Votes;
use super::job;
use crate::crypto::mask::Sign;
use crate::protocol::all_reduce;
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::Accepted;
use crate::protocol::context::{Aggregate, Context};
use crate::protocol::message::Trace;
use crate::protocol::record::{self, Acknowledgement, Committed, Record as SumRecord, Value};
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{Held, Served, Want};
use crate::task::{History, Task};

/// A record that is on disk before any message that depends on it leaves. A later record of the same
/// [`Record::name`] replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Highest ballot promised: from now on this peer acknowledges no lower ballot.
    Promised(Ballot),
    /// Highest view joined: this peer does not enter views up to this ballot again, because its masks
    /// have been used.
    Joined(Ballot),
    /// Value acknowledged in this ballot, with the sealed total.
    Accepted(Ballot, SumRecord, #[serde(skip)] Bytes),
    /// A decided slot with its pads and the sealed total.
    Committed(Committed, #[serde(skip)] Bytes),
    /// This peer's vector of a slot with noise, and its SHA-256. The vector is never made again; a later
    /// view gets the same one.
    Noised(u32, [u8; 32], #[serde(skip)] Bytes),
    /// Result of this peer's exchange for this sum, and its SHA-256. Each result is kept, because the sum
    /// of an older view may be the one that is decided.
    Exchanged(SumId, [u8; 32], #[serde(skip)] Bytes),
    /// A decided slot whose total no later slot needs. A stored total is removed.
    Bare(Committed),
    /// Value of the slot for which this committee member releases its shares, and the acknowledgements
    /// that decided it. The member releases shares for no other value of the slot.
    Released(u32, [u8; 32], Vec<Signed<Acknowledgement>>),
    /// Signed items that show that committee members were in a ballot: the highest for each member.
    Traces(Vec<Trace>),
    /// This peer once lost its state, and does not vote in this session.
    Silent,
}

impl Record {
    /// Returns the file name. A record replaces an earlier one of the same name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Promised(_) => "promised".into(),
            Self::Joined(_) => "joined".into(),
            Self::Accepted(..) => "accepted".into(),
            Self::Committed(committed, _) | Self::Bare(committed) => {
                format!("committed-{}", committed.record.value.sum.slot)
            }
            Self::Exchanged(SumId { ballot, slot }, ..) => format!("exchanged-{slot}-{ballot}"),
            Self::Noised(slot, ..) => format!("noised-{slot}"),
            Self::Released(..) => "released".into(),
            Self::Traces(_) => "traces".into(),
            Self::Silent => "silent".into(),
        }
    }

    /// Returns the common prefix of the names of records that a slot may have for several views. The
    /// view's ballot follows it.
    #[must_use]
    pub fn name_of_views(slot: u32) -> String {
        format!("exchanged-{slot}-")
    }

    /// Returns the sealed total and its digest. `None` if the record has no total, for example for the
    /// coin, whose vector is empty.
    #[must_use]
    pub fn total(&self) -> Option<(&[u8; 32], &[u8])> {
        let (value, total) = match self {
            Self::Promised(_)
            | Self::Joined(_)
            | Self::Bare(_)
            | Self::Released(..)
            | Self::Traces(_)
            | Self::Silent => return None,
            Self::Exchanged(_, digest, bytes) | Self::Noised(_, digest, bytes) => {
                return Some((digest, bytes));
            }
            Self::Accepted(_, record, total) => (&record.value, total),
            Self::Committed(committed, total) => (&committed.record.value, total),
        };
        (value.sum.slot > 0).then_some((&value.total, total))
    }

    /// Returns the record with its total, as read from disk.
    #[must_use]
    pub fn with_total(mut self, bytes: Bytes) -> Self {
        if let Self::Exchanged(.., total)
        | Self::Noised(.., total)
        | Self::Accepted(.., total)
        | Self::Committed(_, total) = &mut self
        {
            *total = bytes;
        }
        self
    }
}

/// Stored records that do not fit the session or each other.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A committed aggregate is missing before another one.
    #[error("stored slot {0} has no slot before it")]
    MissingCell(u32),
    /// A record does not verify.
    #[error("stored record of slot {0} does not verify: {1}")]
    Broken(u32, String),
}

/// A sealed total with its record.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) record: SumRecord,
    pub(super) digest: [u8; 32],
    pub(super) total: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Archive {
    /// Committed slots, without sealed totals: opened vectors and pads reproduce these.
    committed: Vec<Committed>,
    history: Arc<History>,
    /// Slots whose vector this peer did not get, although a later slot may need it.
    missing: BTreeSet<u32>,
    /// Value of the next slot that this peer has acknowledged, or would have acknowledged as a committee
    /// member.
    accepted: Option<Sealed>,
    /// Value fetched for a future view.
    offered: Option<Sealed>,
}

impl Archive {
    /// Returns the number of committed slots, as messages state it.
    pub(super) fn committed(&self) -> u32 {
        self.history.committed()
    }

    /// Returns the digest of the value that was committed in a slot.
    pub(super) fn value(&self, ctx: &Context, slot: u32) -> Option<[u8; 32]> {
        self.committed.get(slot as usize).map(|committed| committed.record.digest(ctx))
    }

    /// Returns the slots opened so far.
    pub(super) fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns the slot of a vector that this peer lacks and the next slot needs.
    pub(super) fn lacks(&self, task: &dyn Task) -> Option<u32> {
        // Look at the last one first, because it may decide which earlier ones are needed.
        self.missing.iter().rev().copied().find(|&slot| task.still_needed(slot, &self.history))
    }

    /// Puts back a vector that was missing.
    pub(super) fn recall(&mut self, slot: u32, opened: Bytes) {
        if self.missing.remove(&slot) {
            Arc::make_mut(&mut self.history).recall(slot, opened);
        }
    }

    /// Drops the vectors that no later slot needs. Returns the decisions on these slots.
    pub(super) fn forget(&mut self, task: &dyn Task) -> Vec<Committed> {
        let history = &self.history;
        let over: Vec<u32> =
            history.held().filter(|&slot| slot > 0 && !task.still_needed(slot, history)).collect();
        self.missing.retain(|&slot| task.still_needed(slot, history));
        over.iter().for_each(|&slot| Arc::make_mut(&mut self.history).forget(slot));
        over.iter().map(|&slot| self.committed[slot as usize].clone()).collect()
    }

    /// Adds the next slot. `opened` is `None` if no later slot needs the vector.
    pub(super) fn commit(
        &mut self,
        ctx: &Context,
        committed: Committed,
        opened: Option<Bytes>,
        exchanged: Option<Bytes>,
    ) {
        let Value { sum, members, .. } = &committed.record.value;
        let history = Arc::make_mut(&mut self.history);
        if let Some(result) = exchanged.filter(|_| members.contains(&ctx.me)) {
            history.set_exchanged(sum.slot, result);
        }
        if opened.is_none() {
            self.missing.insert(sum.slot);
        }
        history.push(committed.record.value.clone(), opened);
        self.committed.push(committed);
        self.decide();
    }

    /// Notes that the next slot is decided: this peer serves the slot's total to no peer before the
    /// slot is open, and keeps no copy.
    pub(super) fn decide(&mut self) {
        self.accepted = None;
        self.offered = None;
    }

    /// Holds the value of the next slot, which this peer acknowledges.
    pub(super) fn accept(&mut self, sealed: Sealed) {
        self.accepted = Some(sealed);
    }

    /// Holds a value for a future view.
    pub(super) fn offer(&mut self, sealed: Sealed) {
        self.offered = Some(sealed);
    }

    /// Returns the sealed total of this record, if it is the value that was acknowledged.
    pub(super) fn accepted_total(&self, record: &SumRecord) -> Option<Bytes> {
        let sealed = self.accepted.as_ref().filter(|sealed| sealed.record.value == record.value)?;
        Some(sealed.total.clone())
    }

    /// Returns the acknowledged or fetched sealed total of this digest.
    pub(super) fn sealed(&self, digest: &[u8; 32]) -> Option<&Sealed> {
        self.accepted.iter().chain(&self.offered).find(|sealed| sealed.digest == *digest)
    }

    /// Returns the answer to a peer that fetches a slot, if this peer has it.
    pub(super) fn held(&self, ctx: &Context, slot: u32, want: Want) -> Option<(Held, Served)> {
        match want {
            Want::Committed => {
                let committed = self.committed.get(slot as usize)?;
                let opened = self.history.vector(slot);
                #[cfg(any(test, feature = "harness"))]
                let opened = opened.filter(|_| ctx.bug != Some(crate::protocol::context::Bug::ServesBare));
                let Some(opened) = opened else {
                    return Some((Held::Bare(committed.clone()), Served::Sealed(Bytes::new())));
                };
                let held = Held::Committed(committed.clone());
                // The coin has no vector.
                let served = if slot == 0 {
                    Served::Sealed(Bytes::new())
                } else {
                    Served::Opened(opened.clone(), job::pads(ctx, committed, Sign::Add))
                };
                Some((held, served))
            }
            Want::Accepted(digest) => {
                let sealed = self.sealed(&digest).filter(|sealed| sealed.record.value.sum.slot == slot)?;
                Some((Held::Accepted(sealed.record.clone()), Served::Sealed(sealed.total.clone())))
            }
        }
    }
}

pub(super) struct Restored {
    pub(super) votes: Votes,
    pub(super) archive: Archive,
    /// Results of exchanges for slots that are not committed.
    pub(super) exchanged: BTreeMap<SumId, Bytes>,
    /// Vectors with noise, including those of committed slots.
    pub(super) noised: BTreeMap<u32, Bytes>,
}

/// Restores the state from stored records, and checks all records again.
pub(super) fn restore(ctx: &Context, stored: Vec<Record>) -> Result<Restored, RestoreError> {
    let mut out = Restored {
        votes: Votes::default(),
        archive: Archive::default(),
        exchanged: BTreeMap::new(),
        noised: BTreeMap::new(),
    };
    let mut committed = Vec::new();
    let mut accepted = None;
    let mut released = None;
    for record in stored {
        match record {
            Record::Promised(ballot) => out.votes.acceptor.promised = out.votes.acceptor.promised.max(ballot),
            Record::Joined(ballot) => {
                out.votes.joined = out.votes.joined.max(ballot);
                out.votes.acceptor.promised = out.votes.acceptor.promised.max(ballot);
            }
            Record::Accepted(ballot, record, total) => accepted = Some((ballot, record, total)),
            Record::Committed(each, total) => committed.push((each, Some(total))),
            Record::Bare(each) => committed.push((each, None)),
            Record::Released(slot, value, decision) => released = Some((slot, value, decision)),
            Record::Traces(traces) => {
                let whose = traces.into_iter().filter_map(|trace| Some((trace.author(ctx)?, trace)));
                out.votes.traces = whose.collect();
            }
            Record::Silent => out.votes.silent = true,
            Record::Exchanged(sum, _, bytes) => drop(out.exchanged.insert(sum, bytes)),
            Record::Noised(slot, digest, bytes) => {
                let length =
                    ctx.plan.get(slot as usize).filter(|aggregate| aggregate.is_noised()).map(Aggregate::len);
                if length != Some(bytes.len()) || Sha256::digest(&bytes)[..] != digest {
                    return Err(RestoreError::Broken(
                        slot,
                        "the vector with noise does not match its digest".into(),
                    ));
                }
                out.noised.insert(slot, bytes);
            }
        }
    }
    committed.sort_by_key(|(each, _)| each.record.value.sum.slot);
    for (each, total) in committed {
        let slot = each.record.value.sum.slot;
        if slot != out.archive.committed() {
            return Err(RestoreError::MissingCell(slot));
        }
        each.check(ctx)
            .and_then(|()| total.as_ref().map_or(Ok(()), |total| check_total(ctx, &each.record, total)))
            .map_err(|e| RestoreError::Broken(slot, e))?;
        let opened = total.map(|total| job::open(ctx, &each, total));
        let exchanged = out.exchanged.remove(&each.record.value.sum);
        out.exchanged.retain(|sum, _| sum.slot != slot);
        out.votes.acceptor.commit(slot);
        out.archive.commit(ctx, each, opened, exchanged);
    }
    if let Some((ballot, record, total)) = accepted {
        let slot = record.value.sum.slot;
        if slot == out.archive.committed() {
            record
                .check(ctx)
                .and_then(|()| check_total(ctx, &record, &total))
                .map_err(|e| RestoreError::Broken(slot, e))?;
            let digest = record.digest(ctx);
            out.votes.acceptor.promised = out.votes.acceptor.promised.max(ballot);
            out.votes.acceptor.accepted = Some(Accepted { ballot, slot, value: digest });
            out.archive.accepted = Some(Sealed { record, digest, total });
        }
    }
    // A release of a committed slot is not needed any more.
    if let Some((slot, value, decision)) = released.filter(|(slot, ..)| *slot == out.archive.committed()) {
        if !record::decided(ctx, slot, &value, &decision) {
            return Err(RestoreError::Broken(slot, "the stored acknowledgements do not show that a quorum decided the value whose shares were released".into()));
        }
        out.votes.acceptor.released = Some(value);
        out.votes.decision = decision;
    }
    Ok(out)
}

fn check_total(ctx: &Context, record: &SumRecord, total: &[u8]) -> Result<(), String> {
    let sum = record.value.sum;
    let length = ctx.plan.get(sum.slot as usize).map(Aggregate::len);
    if length != Some(total.len()) || all_reduce::total_digest(&ctx.id.0, sum, total) != record.value.total {
        return Err("the total does not match its digest".into());
    }
    Ok(())
}
