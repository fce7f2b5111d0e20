//! The peers of the roster as this node sees them: connected peers and their progress, and the peers that
//! this node refuses or blames.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Event, Out};
use crate::protocol::Fault;
use crate::protocol::context::Context;
use crate::protocol::message::{Message, VERSION};
use crate::session::Peer;

pub(super) struct Presence {
    ctx: Arc<Context>,
    /// Connected peers that have greeted this one with the same session, and the number of slots that
    /// each has committed.
    greeted: BTreeMap<Peer, u32>,
    /// Number of slots that this peer stated in its own greeting to each peer, on the present connection.
    said: BTreeMap<Peer, u32>,
    /// Greeted peers that are in a view, by their last status.
    in_view: BTreeSet<Peer>,
    /// Peers of another session, and the fields that differ, once the peer has sent its fields.
    refused: BTreeMap<Peer, Vec<String>>,
    /// Refused peers that have sent their fields on the present connection.
    told: BTreeSet<Peer>,
    blamed: BTreeSet<Peer>,
    /// Peers that have reported at least once that they have everything.
    finished: BTreeSet<Peer>,
    /// Number of slots that counts as everything.
    whole: u32,
}

impl Presence {
    pub(super) fn new(ctx: Arc<Context>) -> Self {
        Self {
            whole: ctx.plan.len() as u32,
            ctx,
            greeted: BTreeMap::new(),
            said: BTreeMap::new(),
            in_view: BTreeSet::new(),
            refused: BTreeMap::new(),
            told: BTreeSet::new(),
            blamed: BTreeSet::new(),
            finished: BTreeSet::new(),
        }
    }

    /// Returns whether the peer is connected and has the same session.
    pub(super) fn has(&self, peer: Peer) -> bool {
        self.greeted.contains_key(&peer)
    }

    /// Returns whether the peer is connected, has the same session and is not blamed.
    pub(super) fn reaches(&self, peer: Peer) -> bool {
        self.has(peer) && !self.blamed.contains(&peer)
    }

    /// Returns the connected peers that are not among `members`.
    pub(super) fn outside(&self, members: &[Peer]) -> Vec<Peer> {
        self.greeted.keys().copied().filter(|peer| !members.contains(peer)).collect()
    }

    /// Returns all other peers of the roster that are not connected.
    pub(super) fn absent(&self) -> Vec<Peer> {
        let peers = self.ctx.session.peers();
        peers.filter(|peer| *peer != self.ctx.me && !self.has(*peer)).collect()
    }

    /// Returns all other peers of the roster that have not reported that they have everything.
    pub(super) fn unfinished(&self) -> Vec<Peer> {
        let peers = self.ctx.session.peers();
        peers.filter(|peer| *peer != self.ctx.me && !self.finished.contains(peer)).collect()
    }

    pub(super) fn all_finished(&self) -> bool {
        self.finished.len() + 1 >= self.ctx.session.roster.len()
    }

    /// Returns whether each of these peers has reported that it has everything. This peer itself has it.
    pub(super) fn all_have(&self, peers: &[Peer]) -> bool {
        peers.iter().all(|peer| *peer == self.ctx.me || self.finished.contains(peer))
    }

    /// Returns the connected peers that are in a view.
    pub(super) fn in_view(&self) -> &BTreeSet<Peer> {
        &self.in_view
    }

    /// Returns whether the whole roster is connected.
    pub(super) fn is_full(&self) -> bool {
        self.greeted.len() + 1 >= self.ctx.session.roster.len()
    }

    /// Returns the connected peers that claim to have this slot.
    pub(super) fn holders(&self, slot: u32) -> impl Iterator<Item = Peer> {
        self.greeted.iter().filter(move |&(_, &committed)| committed > slot).map(|(&peer, _)| peer)
    }

    /// Notes that this peer greets another one, and states this number of committed slots.
    pub(super) fn greets(&mut self, peer: Peer, committed: u32) {
        self.said.insert(peer, committed);
    }

    /// Returns whether this peer's greeting stated this number of slots. Only a greeted peer gets a
    /// status. A status that was due before the other peer's greeting came was therefore not sent.
    pub(super) fn has_said(&self, peer: Peer, committed: u32) -> bool {
        self.said.get(&peer) == Some(&committed)
    }

    /// Takes a greeting. Returns whether the peer has the same session.
    pub(super) fn hello(
        &mut self,
        from: Peer,
        (version, session, committed): (u16, [u8; 32], u32),
        step: &mut Out,
    ) -> Result<bool, Fault> {
        if self.has(from) {
            return Err(Fault::OutOfOrder("hello"));
        }
        if version != VERSION || session != self.ctx.id.0 {
            self.refused.entry(from).or_default();
            step.send(from, Message::Fields(self.ctx.session.fields.clone()));
            return Ok(false);
        }
        self.progress(from, committed)?;
        self.refused.remove(&from);
        Ok(true)
    }

    /// Takes the fields of a peer with another session, and reports them once for each connection.
    pub(super) fn fields(
        &mut self,
        from: Peer,
        theirs: &[(String, [u8; 8])],
        step: &mut Out,
    ) -> Result<(), Fault> {
        if self.has(from) {
            return Err(Fault::OutOfOrder("fields"));
        }
        if !self.told.insert(from) {
            return Ok(());
        }
        let mut differing = self.ctx.session.differing_fields(theirs);
        if differing.is_empty() {
            differing.push("protocol version".into());
        }
        self.refused.insert(from, differing.clone());
        step.output(Event::Refused(from, differing));
        Ok(())
    }

    /// Returns whether to process messages of this peer. A refused peer may not know yet that it is
    /// refused: its messages are ignored without a fault.
    pub(super) fn admits(&self, from: Peer) -> Result<bool, Fault> {
        if self.has(from) || self.refused.contains_key(&from) {
            return Ok(self.has(from));
        }
        Err(Fault::OutOfOrder("message before hello"))
    }

    pub(super) fn status(&mut self, from: Peer, committed: u32, in_view: bool) -> Result<(), Fault> {
        self.progress(from, committed)?;
        if in_view {
            self.in_view.insert(from);
        } else {
            self.in_view.remove(&from);
        }
        Ok(())
    }

    /// Notes the number of slots that a peer has committed.
    pub(super) fn progress(&mut self, peer: Peer, committed: u32) -> Result<(), Fault> {
        if committed as usize > self.ctx.plan.len() {
            return Err(Fault::Inconsistent(format!(
                "{committed} committed slots of {}",
                self.ctx.plan.len()
            )));
        }
        self.greeted.insert(peer, committed);
        if committed >= self.whole {
            self.finished.insert(peer);
        } else {
            // The peer has lost its disk since it finished, or it has lied.
            self.finished.remove(&peer);
        }
        Ok(())
    }

    /// Notes that this number of slots is everything. Peers that have committed it have finished.
    pub(super) fn complete(&mut self, committed: u32) {
        self.whole = committed;
        self.finished
            .extend(self.greeted.iter().filter(|&(_, &theirs)| theirs >= committed).map(|(&peer, _)| peer));
    }

    pub(super) fn lost(&mut self, peer: Peer, step: &mut Out) {
        if self.greeted.remove(&peer).is_some() {
            step.output(Event::Lost(peer));
        }
        self.said.remove(&peer);
        self.in_view.remove(&peer);
        self.told.remove(&peer);
    }

    /// Returns whether a connected peer has not reported that it has everything.
    pub(super) fn serves(&self) -> bool {
        self.greeted.keys().any(|peer| !self.finished.contains(peer))
    }

    /// Blames the peer: it is not proposed as a member again.
    pub(super) fn blame(&mut self, peer: Peer) {
        self.blamed.insert(peer);
    }

    /// Returns the number of peers that this peer reaches, itself included, and whether they are enough.
    /// This is called after every input, so it builds no list.
    pub(super) fn reach(&self) -> (usize, bool) {
        let others = self.greeted.len() - self.blamed.iter().filter(|peer| self.has(**peer)).count();
        let committee =
            self.ctx.committee.iter().filter(|&&peer| peer == self.ctx.me || self.reaches(peer)).count();
        let enough = others + 1 >= usize::from(self.ctx.session.min_peers) && committee >= self.ctx.quorum;
        (others + 1, enough)
    }

    /// Returns this peer and all connected peers that it has not blamed, ascending.
    pub(super) fn reachable(&self) -> Vec<Peer> {
        let mut all: BTreeSet<_> = self.greeted.keys().copied().collect();
        all.insert(self.ctx.me);
        all.retain(|peer| !self.blamed.contains(peer));
        all.into_iter().collect()
    }

    /// Returns the reachable peers that do not have everything; no view needs the others.
    pub(super) fn unserved(&self) -> Vec<Peer> {
        self.reachable().into_iter().filter(|peer| !self.finished.contains(peer)).collect()
    }

    /// Returns the connected committee members, and this peer if it is one.
    pub(super) fn committee(&self) -> impl Iterator<Item = Peer> {
        self.ctx.committee.iter().copied().filter(|&peer| peer == self.ctx.me || self.has(peer))
    }

    /// Returns the peers outside of this view that have committed all `committed` slots, or all but the last.
    pub(super) fn waiting_outside(&self, members: &[Peer], committed: u32) -> impl Iterator<Item = Peer> {
        let waits = move |(peer, theirs): &(&Peer, &u32)| {
            !members.contains(peer) && !self.blamed.contains(peer) && **theirs + 1 >= committed
        };
        self.greeted.iter().filter(waits).map(|(&peer, _)| peer)
    }

    /// Returns the reason why no view is possible.
    pub(super) fn too_few(&self) -> String {
        let (session, reachable) = (&self.ctx.session, self.reachable());
        let missing: Vec<_> = session
            .peers()
            .filter(|peer| !reachable.contains(peer))
            .map(|peer| match (session.name(peer), self.refused.get(&peer)) {
                (name, Some(fields)) if !fields.is_empty() => {
                    format!("{name} (another session: {})", fields.join(", "))
                }
                (name, Some(_)) => format!("{name} (another session)"),
                (name, None) if self.blamed.contains(&peer) => format!("{name} (blamed)"),
                (name, None) => name.to_owned(),
            })
            .collect();
        let needed = session.min_peers;
        let committee = if reachable.len() >= usize::from(needed) {
            format!(" and {} of its committee of {}", self.ctx.quorum, self.ctx.committee.len())
        } else {
            String::new()
        };
        format!(
            "only {} of {} peers are reachable (missing: {}), the session needs {needed}{committee}",
            reachable.len(),
            session.roster.len(),
            missing.join(", ")
        )
    }

    /// Returns a clause with the peers that have the result and are gone, to append to a reason to give
    /// up. Empty if no such peer is known.
    pub(super) fn gone_with_result(&self) -> String {
        let gone = self.finished.iter().filter(|peer| !self.has(**peer));
        let names: Vec<_> = gone.map(|&peer| self.ctx.session.name(peer)).collect();
        match &names[..] {
            [] => String::new(),
            [name] => format!("; {name} has the result and has left"),
            _ => format!("; {} have the result and have left", names.join(", ")),
        }
    }
}
