//! What a node waits for now, for people who look at it.

use serde::Serialize;

use super::{Node, Over};
use crate::protocol::Time;
use crate::protocol::view::View;
use crate::session::Peer;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Awaited {
    /// The peers of the roster, before the first view; then it begins with those that are there.
    Roster,
    /// Enough peers; then this peer gives up.
    Enough,
    /// A view, which the council proposes; then this peer gives up.
    View,
    /// Others, who go on without this peer.
    Others,
    /// Connections that the view needs; then it fails.
    Connections,
    /// A word of a neighbour in the tree; then the view fails.
    Word,
    /// The messages of an exchange, which has time-outs of its own.
    Exchange,
    /// This peer's own computation; then it gives up.
    Computation,
    /// The others' results; then this peer leaves.
    Results,
}

/// What a node waits for: whom, ascending and possibly nobody, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// What is awaited.
    pub what: Awaited,
    /// The peers that must act.
    pub peers: Vec<Peer>,
    /// When the node stops waiting.
    pub until: Option<Time>,
}

impl Node {
    /// What this peer waits for; `None` once it is over.
    #[must_use]
    pub fn waits(&self, now: Time) -> Option<Waits> {
        let finished = |peer: &Peer| !self.election.has_finished(*peer);
        match (self.over, &self.view) {
            (Over::Stopped, _) => None,
            (Over::Lingering(until), _) => Some(waits(Awaited::Results, self.others(finished), until)),
            (Over::No, Some(view)) => Some(self.waits_in(view)),
            (Over::No, None) => Some(self.waits_for_view(now)),
        }
    }

    fn others(&self, wanted: impl Fn(&Peer) -> bool) -> Vec<Peer> {
        self.ctx.session.peers().filter(|peer| *peer != self.ctx.me && wanted(peer)).collect()
    }

    fn waits_in(&self, view: &View) -> Waits {
        let timing = &self.ctx.session.timing;
        if let Some((peers, _, until)) = self.round.unreached.as_ref().filter(|(peers, ..)| !peers.is_empty())
        {
            return waits(Awaited::Connections, peers.iter().copied().collect(), *until);
        }
        if let Some((mut peers, until)) = self.talk.lacks() {
            peers.retain(|peer| !self.greeted.contains_key(peer));
            return waits(Awaited::Connections, peers, until);
        }
        if let Some((_, since)) = self.computing {
            return waits(Awaited::Computation, Vec::new(), since.plus_ms(timing.compute_ms));
        }
        if let Some(mut peers) = self.talk.partners() {
            peers.retain(|peer| *peer != self.ctx.me);
            return Waits { what: Awaited::Exchange, peers, until: None };
        }
        let (peer, until) = view.awaits();
        waits(Awaited::Word, peer.into_iter().collect(), until)
    }

    fn waits_for_view(&self, now: Time) -> Waits {
        let timing = &self.ctx.session.timing;
        let absent = || self.others(|peer| !self.greeted.contains_key(peer));
        if !self.election.has_gathered() {
            return waits(Awaited::Roster, absent(), self.election.began().plus_ms(timing.start_wait_ms));
        }
        if self.others_go_on(now) {
            return Waits {
                what: Awaited::Others,
                peers: self.in_view.iter().copied().collect(),
                until: None,
            };
        }
        let (blocked, since) = self.election.stands_still_since();
        let until = since.plus_ms(timing.no_quorum_timeout_ms);
        if blocked {
            waits(Awaited::Enough, absent(), until)
        } else {
            waits(Awaited::View, Vec::new(), until)
        }
    }
}

fn waits(what: Awaited, peers: Vec<Peer>, until: Time) -> Waits {
    Waits { what, peers, until: Some(until) }
}
