//! Makes a simulated peer break the protocol: its messages are changed after its node has sent them, so the
//! node does not notice the change.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::scenario::Tamper;
use super::swarm::Swarm;
use crate::crypto::identity::Identity;
use crate::crypto::mask::{self, Wide, Word};
use crate::protocol::all_reduce;
use crate::protocol::context::Aggregate;
use crate::protocol::deal::Release;
use crate::protocol::message::Message;
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Order, Report, Rng};
use crate::protocol::wire::{self, Frame};
use crate::session::Peer;
use crate::tasks::Crowd;
use crate::tasks::exchange::{Seat, Source};
use crate::tasks::{History, Outcome, Task, Work};
use flyswarm_sealed_sum::engine::Carriage;

/// Changes a frame of `from` if the frame is due for tampering.
pub(super) fn apply(
    swarm: &mut Swarm,
    identity: &Identity,
    from: Peer,
    message: &Message,
    frame: &mut Frame,
) -> Carriage {
    let Some((how, every, count)) = swarm.tampering.get_mut(&from) else { return Carriage::Carry };
    let how = *how;
    let suits = match how {
        Tamper::FlipBits => true,
        Tamper::Replay => matches!(
            message,
            Message::View(view::Message::Up(..) | view::Message::Reduce(all_reduce::Message::Chunk { .. }))
        ),
        Tamper::VectorLength => {
            frame.payload.len() > 4
                && matches!(message, Message::View(view::Message::Reduce(all_reduce::Message::Chunk { .. })))
        }
        Tamper::WrongShare => {
            releases(message).is_some_and(|items| items.iter().any(|item| item.author == from))
        }
        Tamper::Poison => false,
    };
    if !suits {
        return Carriage::Carry;
    }
    *count += 1;
    if !count.is_multiple_of(*every) {
        return Carriage::Carry;
    }
    match how {
        Tamper::FlipBits => {
            let mut bytes = frame.header.to_vec();
            let at = swarm.noise.below(u32::try_from(bytes.len()).unwrap_or(u32::MAX)) as usize;
            bytes[at] ^= 1 << swarm.noise.below(8);
            frame.header = bytes.into();
        }
        Tamper::Replay => return Carriage::Twice,
        Tamper::VectorLength => frame.payload = frame.payload.slice(..frame.payload.len() - 4),
        Tamper::WrongShare => {
            let ctx = swarm.ctx.of(from, identity.clone());
            let mut changed = message.clone();
            for item in releases_mut(&mut changed).into_iter().flatten().filter(|item| item.author == from) {
                // Each share is still a point, but belongs to another deal.
                let mut shares = item.item.shares.clone();
                shares.rotate_left(1);
                *item = Signed::new(&ctx, Release { shares, ..item.item.clone() });
            }
            *frame = wire::encode(&changed);
        }
        Tamper::Poison => {}
    }
    Carriage::Carry
}

fn releases(message: &Message) -> Option<&Vec<Signed<Release>>> {
    match message {
        Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) => Some(items),
        _ => None,
    }
}

fn releases_mut(message: &mut Message) -> Option<&mut Vec<Signed<Release>>> {
    match message {
        Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) => Some(items),
        _ => None,
    }
}

/// Task of a peer that adds 1,000 to every word of its vector for the last slot of the plan. A vector
/// with noise or from an exchange is left unchanged.
#[derive(Debug)]
pub(super) struct Poisoned(pub(super) Arc<dyn Task>);

impl Task for Poisoned {
    fn plan(&self) -> Vec<Aggregate> {
        self.0.plan()
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        self.0.exchange(slot, history, seat)
    }

    fn contribution_from_exchange(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        self.0.contribution_from_exchange(slot, result)
    }

    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        self.0.needed_by_plan(slot, committed)
    }

    fn still_needed(&self, slot: u32, history: &History) -> bool {
        self.0.still_needed(slot, history)
    }

    fn ends(&self, history: &History) -> bool {
        self.0.ends(history)
    }

    fn metrics(&self, slot: u32, history: &History) -> Map<String, Value> {
        self.0.metrics(slot, history)
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        self.0.outcome(history, unix)
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        self.0.work(slot, history)
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let vector = self.0.contribution(slot, history)?;
        let plan = self.plan();
        let Some(aggregate) = plan.get(slot as usize).filter(|_| slot as usize + 1 == plan.len()) else {
            return Ok(vector);
        };
        let mut out = vector.to_vec();
        let more = match aggregate.word() {
            Word::W32 => 1000u32.to_le_bytes().to_vec(),
            Word::W64 => 1000u64.to_le_bytes().to_vec(),
            Word::W512 => Wide::from(1000).to_le_bytes().to_vec(),
        };
        let more = more.repeat(out.len() / more.len());
        mask::add(aggregate.word(), &mut out, &more);
        Ok(out.into())
    }

    fn noisy_contribution(&self, slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        self.0.noisy_contribution(slot, history, rng)
    }

    fn restore_noisy(&self, slot: u32, vector: &Bytes) {
        self.0.restore_noisy(slot, vector);
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        self.0.allows(slot, history, members)
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        self.0.can_continue(slot, history, crowd)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        self.0.check(slot, history)
    }
}
