//! The exchange of a view. For some aggregates, a peer does not compute its vector alone: the vector
//! comes from messages between the members. The task supplies the machine ([`crate::task::exchange`]);
//! the node carries its messages without reading them.
//!
//! An exchange begins when the view needs the vector and this peer is connected to every other
//! participant. Earlier messages of the participants are kept. The exchange ends with the vector, or ends
//! the view.

use super::presence::Presence;
use super::waits::{Awaited, Waits};
use super::{Event, Node, Out};
use crate::protocol::all_reduce::{CHUNK, WINDOW};
use crate::protocol::message::Content;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Input, Step, Time};
use crate::session::Peer;
use crate::task::exchange::{Exchange, Vocabulary};

/// Largest number of messages kept for each peer before the exchange begins here. An exchange has fewer.
const EARLY: usize = 256;
/// Largest size of these messages in bytes: the chunks that may be sent without a credit, and 64 KiB for
/// headers.
const EARLY_BYTES: usize = WINDOW * CHUNK + 64 * 1024;

/// The exchange of the present view.
#[derive(Default)]
pub(super) struct ExchangeState {
    running: Option<(SumId, Box<dyn Exchange>)>,
    /// Slot for which the exchange makes the vector.
    slot: Option<u32>,
    /// Exchange that has not begun, and the time until which this peer waits for connections.
    pending: Option<(SumId, Box<dyn Exchange>, Time)>,
    early: Vec<(Peer, SumId, Content)>,
    finished: bool,
}

impl ExchangeState {
    /// Returns whether the vector of this slot comes from an exchange of this view.
    pub(super) fn wanted(&self, slot: u32) -> bool {
        self.slot == Some(slot)
    }

    /// Returns whether this exchange is running.
    pub(super) fn runs(&self, sum: SumId) -> bool {
        self.running.as_ref().is_some_and(|(running, _)| *running == sum)
    }

    /// Returns the time until which this peer waits for connections.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.pending.as_ref().map(|(.., until)| *until)
    }

    /// Returns the connections that the exchange waits for.
    pub(super) fn waits_for_connections(&self, presence: &Presence) -> Option<Waits> {
        let (_, exchange, until) = self.pending.as_ref()?;
        let mut peers = exchange.peers();
        peers.retain(|peer| !presence.has(*peer));
        Some(Waits::new(Awaited::Connections, peers, *until))
    }

    /// Returns the other peers of the running exchange, unless this peer has done its part.
    pub(super) fn waits(&self, me: Peer) -> Option<Waits> {
        let (_, exchange) = self.running.as_ref().filter(|_| !self.finished)?;
        let peers = exchange.peers().into_iter().filter(|peer| *peer != me).collect();
        Some(Waits { what: Awaited::Exchange, peers, until: None })
    }

    /// Notes that other peers run the exchange for this slot, without this peer.
    pub(super) fn stand_by(&mut self, slot: u32) {
        self.slot = Some(slot);
    }

    /// Prepares the exchange of a sum.
    pub(super) fn prepare(
        &mut self,
        sum: SumId,
        exchange: Box<dyn Exchange>,
        until: Time,
        presence: &Presence,
        step: &mut Out,
    ) {
        for peer in exchange.peers().into_iter().filter(|peer| !presence.has(*peer)) {
            step.output(Event::NeedsConnection(peer));
        }
        self.slot = Some(sum.slot);
        self.pending = Some((sum, exchange, until));
    }

    /// Returns true if the exchange begins now, because all its peers are connected. The caller then
    /// gives it [`Input::Start`] and the messages of [`ExchangeState::take_early`]. Returns `Err` with a
    /// peer that did not connect in time.
    pub(super) fn begin(&mut self, now: Time, presence: &Presence, step: &mut Out) -> Result<bool, Peer> {
        let Some((_, exchange, until)) = &self.pending else { return Ok(false) };
        if let Some(missing) = exchange.peers().into_iter().find(|peer| !presence.has(*peer)) {
            return if now >= *until { Err(missing) } else { Ok(false) };
        }
        let roles = exchange.roles();
        if !roles.is_empty() {
            step.output(Event::Exchange(roles));
        }
        self.running = self.pending.take().map(|(sum, exchange, _)| (sum, exchange));
        Ok(true)
    }

    /// Returns the messages that arrived before the running exchange began. Those of later exchanges are
    /// kept.
    pub(super) fn take_early(&mut self) -> Vec<(Peer, Content)> {
        let Some(running) = self.running.as_ref().map(|(sum, _)| *sum) else { return Vec::new() };
        self.early.retain(|(_, sum, _)| *sum >= running);
        let early = self.early.extract_if(.., |(_, sum, _)| *sum == running);
        early.map(|(from, _, message)| (from, message)).collect()
    }

    /// Takes a message of an exchange that is due. Returns the message if the exchange runs, and keeps it
    /// otherwise.
    pub(super) fn hear(
        &mut self,
        from: Peer,
        sum: SumId,
        content: Content,
    ) -> Result<Option<Content>, Fault> {
        if self.runs(sum) {
            return Ok(Some(content));
        }
        let kept = self.early.iter().filter(|(peer, ..)| *peer == from);
        let bytes = kept.clone().map(|(.., content)| content.len()).sum::<usize>() + content.len();
        if kept.count() >= EARLY || bytes > EARLY_BYTES {
            return Err(Fault::OutOfOrder("message of an exchange"));
        }
        self.early.push((from, sum, content));
        Ok(None)
    }

    /// Gives an input to the running exchange.
    pub(super) fn handle(
        &mut self,
        now: Time,
        input: Input<Vocabulary>,
    ) -> Option<(SumId, Step<Vocabulary>)> {
        self.running.as_mut().map(|(sum, exchange)| (*sum, exchange.handle(now, input)))
    }

    /// Notes that this peer has done its part. Returns the slot whose vector it now has.
    pub(super) fn finish(&mut self) -> Option<u32> {
        self.finished = true;
        self.slot
    }

    /// Ends the exchange of a committed slot; messages of later exchanges are kept.
    pub(super) fn committed(&mut self, slot: u32) {
        if self.wanted(slot) {
            *self = Self { early: std::mem::take(&mut self.early), ..Self::default() };
        }
        self.early.retain(|(_, sum, _)| sum.slot > slot);
    }

    #[cfg(test)]
    pub(super) fn early_bytes(&self) -> usize {
        self.early.iter().map(|(.., content)| content.len()).sum()
    }

    /// Drops the exchange of a view that is over, because the next view has other members and its own
    /// exchange. The exchange first learns that the suspect is lost, because the view may know this
    /// before the exchange does. The actions with which it answers have no effect. Returns the slot
    /// whose vector came from the exchange.
    pub(super) fn fail(&mut self, now: Time, reason: Reason, suspect: Option<Peer>) -> Option<u32> {
        let because = matches!(reason, Reason::Lost | Reason::Stalled | Reason::Fault | Reason::Left);
        if let Some(peer) = suspect.filter(|_| because) {
            drop(self.handle(now, Input::PeerLost(peer)));
        }
        std::mem::take(self).slot
    }
}

impl Node {
    /// Drops the exchange of a view that is over.
    pub(super) fn drop_exchange(&mut self, author: Peer, reason: Reason, suspect: Option<Peer>) {
        // The exchange ignores another peer's claim about a third one, unless this peer has lost the
        // third one too.
        let seen = suspect.filter(|&peer| author == self.ctx.me || !self.presence.has(peer));
        if let Some(slot) = self.exchange.fail(self.now, reason, seen) {
            self.slots.forget_input(slot);
        }
    }
}
