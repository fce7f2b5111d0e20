//! How long a member waits, for whom, and how it says that it is at work.

use super::{HEARTBEAT_MS, Message, Output, Reason, Timer, View};
use crate::protocol::{Action, Step, Time};
use crate::session::Peer;

impl View {
    pub(super) fn tick(&mut self, now: Time, step: &mut Step<Self>) {
        if self.working && !self.child_working {
            self.tell_working(now, step);
        }
        self.child_working = false;
        let stalled = self.progress.plus_ms(self.patience_ms());
        if now >= stalled {
            step.output(Output::Failed(Reason::Stalled, self.awaited_child().or(self.place.parent)));
        } else {
            step.0.push(Action::SetTimer {
                at: stalled.min(now.plus_ms(HEARTBEAT_MS)),
                timer: Timer(self.ballot),
            });
        }
    }

    pub(super) fn move_on(&mut self, now: Time) {
        (self.progress, self.moved) = (now, now);
    }

    /// Takes the word of a peer that it works, for two computations as long as they may be: not for ever.
    pub(super) fn bear(&mut self, now: Time) {
        let longest = self.ctx.session.timing.compute_ms.saturating_mul(2);
        self.progress = self.progress.max(now.min(self.moved.plus_ms(longest)));
    }

    /// Says that somebody in this subtree, at the root anybody, is at long work.
    pub(super) fn tell_working(&mut self, now: Time, step: &mut Step<Self>) {
        if self.leads() {
            self.bear(now);
        }
        self.beat().for_each(|(to, message)| step.send(to, message));
    }

    /// The messages by which this peer says that it is at long work.
    pub fn beat(&self) -> impl Iterator<Item = (Peer, Message)> + use<> {
        let to = self.place.parent.map_or_else(|| self.place.children.clone(), |parent| vec![parent]);
        let ballot = self.ballot;
        to.into_iter().map(move |peer| (peer, Message::KeepAlive(ballot)))
    }

    /// The time for which this peer bears silence. All wait when one is silent, so the nearest must
    /// speak first, lest the others accuse those between: its parent (the deepest of those that wait for a
    /// child), then, if it is the silent one's children that are left, the highest of them.
    fn patience_ms(&self) -> u64 {
        let (depth, height) = self.depth;
        let turns = match self.awaited_child() {
            Some(_) => height.saturating_sub(depth + 1),
            None => height + depth,
        };
        self.ctx.session.timing.view_timeout_ms + u64::from(turns) * HEARTBEAT_MS
    }

    /// The neighbour whose word comes next, if it is one, and when the view fails without a word from any.
    pub fn awaits(&self) -> (Option<Peer>, Time) {
        (self.awaited_child().or(self.place.parent), self.progress.plus_ms(self.patience_ms()))
    }

    /// A child whose report is missing.
    fn awaited_child(&self) -> Option<Peer> {
        match &self.round {
            _ if self.keys.is_none() && self.fixed.is_some() => self.reveals.waiting(),
            _ if self.keys.is_none() => self.keys_report.waiting(),
            None => None,
            Some(round) => round
                .deals
                .waiting()
                .filter(|_| round.record.is_none())
                .or_else(|| round.acknowledge.waiting().filter(|_| round.record.is_some()))
                .or_else(|| round.release.waiting().filter(|_| !round.acknowledgements.is_empty())),
        }
    }
}
