//! Deadlines, which the receiver sets and which no message can extend.
//!
//! A member of the view sends a keep-alive message to its neighbours every second. A peer that is
//! silent for `view_timeout_ms` counts as gone. In addition, the reports on each order, and the next
//! order, have a deadline. Each level of the tree adds 2 s: by height for reports, and by depth for
//! orders. So if several peers wait, the one next to a liar reports first.

use std::collections::{BTreeMap, BTreeSet};

use super::{HEARTBEAT_MS, Message, Order, Output, Reason, Round, Timer, View};
use crate::protocol::all_reduce::CHUNK;
use crate::protocol::ballot::Ballot;
use crate::protocol::context::{Aggregate, Context};
use crate::protocol::{Action, Step, Time};
use crate::session::Peer;

/// Difference between the waiting times of a member and of the next one below it, in milliseconds.
const LEVEL_MS: u64 = 2_000;
/// Time allowed for each chunk of the vector of a sum, in milliseconds: about 1 Mbit/s.
const CHUNK_MS: u64 = 2_000;

/// Times at which a member last heard its neighbours, and its deadline.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// Time at which each neighbour was last heard, except for children that cannot be reached yet.
    heard: BTreeMap<Peer, Time>,
    unreached: BTreeSet<Peer>,
    /// Arrival time of the current order, and the time allowed for it.
    since: Time,
    budget_ms: u64,
    /// Additional time allowed for each level.
    level_ms: u64,
    /// True if no order has come yet: children may have to be connected first, level by level.
    connecting: bool,
}

impl Clock {
    pub(super) fn start(&mut self, now: Time, neighbours: impl Iterator<Item = Peer>) {
        let reached = neighbours.filter(|peer| !self.unreached.contains(peer));
        self.heard.extend(reached.map(|peer| (peer, now)));
        (self.since, self.connecting) = (now, true);
    }

    pub(super) fn heard(&mut self, now: Time, from: Peer) {
        self.heard.insert(from, now);
    }

    pub(super) fn ordered(&mut self, now: Time, order: &Order, ballot: Ballot, ctx: &Context) {
        let transfer = |slot: u32| transfer_ms(ctx, slot);
        let compute = ctx.session.timing.compute_ms;
        self.budget_ms = match order {
            Order::Keys(_) | Order::Reveal(_) => 0,
            Order::Sum(slot) => compute.saturating_add(transfer(*slot)),
            // If the value is of an earlier view, its total may have to be fetched, and the slots
            // before it.
            Order::Accept(record) if record.value.sum.ballot != ballot => {
                compute.saturating_add(transfer(record.value.sum.slot))
            }
            Order::Accept(record) => transfer(record.value.sum.slot),
            Order::Decide(slot, _) | Order::Open(slot, _) => transfer(*slot),
        };
        (self.since, self.level_ms, self.connecting) = (now, LEVEL_MS, false);
    }

    /// Notes that the whole total has arrived. It now only has to be forwarded, level by level.
    pub(super) fn summed(&mut self, now: Time, slot: u32, ctx: &Context) {
        (self.since, self.budget_ms, self.level_ms) = (now, 0, LEVEL_MS + transfer_ms(ctx, slot));
    }
}

/// Returns the time allowed for the vector of a slot on one connection.
fn transfer_ms(ctx: &Context, slot: u32) -> u64 {
    let length = ctx.plan.get(slot as usize).map_or(0, Aggregate::len);
    (length.div_ceil(CHUNK) as u64).saturating_mul(CHUNK_MS)
}

impl View {
    /// Notes that a child cannot be reached yet.
    pub fn unreached(&mut self, child: Peer) {
        self.clock.unreached.insert(child);
    }

    /// Notes that a child can be reached now.
    pub fn reached(&mut self, now: Time, child: Peer) {
        self.clock.unreached.remove(&child);
        self.clock.heard(now, child);
    }

    pub(super) fn tick(&mut self, now: Time, step: &mut Step<Self>) {
        self.beat().for_each(|(to, message)| step.send(to, message));
        let (peer, until) = self.awaits();
        if now >= until {
            step.output(Output::Failed(Reason::Stalled, peer));
        } else {
            let at = until.min(now.plus_ms(HEARTBEAT_MS));
            step.0.push(Action::SetTimer { at, timer: Timer(self.ballot) });
        }
    }

    /// Returns this peer's keep-alive messages.
    pub fn beat(&self) -> impl Iterator<Item = (Peer, Message)> + use<> {
        let ballot = self.ballot;
        let to: Vec<_> = self.clock.heard.keys().copied().collect();
        to.into_iter().map(move |peer| (peer, Message::KeepAlive(ballot)))
    }

    /// Returns the neighbour that makes the view fail first if no neighbour sends anything, and the time
    /// of that failure. At the leader there may be no such neighbour.
    pub fn awaits(&self) -> (Option<Peer>, Time) {
        let timing = &self.ctx.session.timing;
        let silent =
            self.clock.heard.iter().map(|(&peer, heard)| (Some(peer), heard.plus_ms(timing.view_timeout_ms)));
        silent.chain([self.due()]).min_by_key(|(_, until)| *until).unwrap_or_else(|| self.due())
    }

    /// Returns the neighbour whose report or order comes next, and its deadline.
    fn due(&self) -> (Option<Peer>, Time) {
        let timeout = self.ctx.session.timing.view_timeout_ms;
        let (depth, height) = self.depth;
        let awaited = self.awaited_child();
        let levels = u64::from(if awaited.is_some() { height.saturating_sub(depth) } else { height + depth });
        // While children are being connected, each level may wait longer than the level below it.
        let level = if self.clock.connecting { LEVEL_MS + timeout } else { self.clock.level_ms };
        let ms = timeout.saturating_add(self.clock.budget_ms).saturating_add(levels.saturating_mul(level));
        (awaited.or(self.place.parent), self.clock.since.plus_ms(ms))
    }

    /// Returns a child whose report is missing.
    fn awaited_child(&self) -> Option<Peer> {
        match &self.round {
            _ if self.keys.is_none() && self.fixed.is_some() => self.reveals.waiting(),
            _ if self.keys.is_none() => self.keys_report.waiting(),
            None => None,
            Some(Round { reduce: Some(reduce), record: None, deals, .. }) => {
                if reduce.is_whole() {
                    deals.waiting()
                } else {
                    reduce.lacks()
                }
            }
            Some(round) => (round.acknowledge.waiting().filter(|_| round.record.is_some()))
                .or_else(|| round.release.waiting().filter(|_| !round.acknowledgements.is_empty())),
        }
    }
}
