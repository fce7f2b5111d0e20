//! Handles peers that break rules, and peers with another session.

use super::{Command, Driver, Event, Fault, Peer, Report};

impl Driver<'_> {
    /// Blames a peer. Honest peers are never blamed, so frames of a blamed peer are no longer read. The peer
    /// is reported once, with its first fault.
    pub(super) fn blame(&mut self, peer: Peer, fault: Fault) {
        if !self.banned.insert(peer) {
            return;
        }
        (self.report)(Report::Blamed(peer, fault));
        let _ = self.network.send(Command::Ban(self.ids[peer.index()]));
    }

    /// Returns whether to report an event. If a peer has another session, its address is excluded, and the
    /// peer is reported only once.
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
