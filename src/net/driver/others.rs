//! What becomes of peers that break rules, and of those that have another session.

use super::{Command, Driver, Event, Fault, Peer, Report};

impl Driver<'_> {
    /// Honest peers are never blamed, so nothing more of one that is blamed is read: it is reported once,
    /// with the first of its faults.
    pub(super) fn blame(&mut self, peer: Peer, fault: Fault) {
        if !self.banned.insert(peer) {
            return;
        }
        (self.report)(Report::Blamed(peer, fault));
        let _ = self.network.send(Command::Ban(self.ids[peer.index()]));
    }

    /// Whether an event is to be reported. A peer of another session is left out where it was met, and told
    /// of once, however often it is met.
    pub(super) fn is_news(&mut self, event: &Event) -> bool {
        match event {
            Event::Refused(peer, _) => {
                let _ = self.network.send(Command::LeaveOut(self.ids[peer.index()]));
                self.refused.insert(*peer)
            }
            Event::Joined(peer) => {
                self.refused.remove(peer);
                true
            }
            _ => true,
        }
    }
}
