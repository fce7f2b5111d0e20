//! Sends questions and reasons for leaving to peers that are up, in addition to frames.

use libp2p::PeerId;
use libp2p::swarm::{NotifyHandler, ToSwarm};

use super::super::Event;
use super::super::handler::Tell;
use super::super::probe::Questions;
use super::Behaviour;

impl Behaviour {
    /// Sends the reason why this node leaves to all peers that are up.
    pub(in crate::net) fn tell_reason(&mut self, reason: &str) {
        for (peer, entry) in &self.peers {
            let up = entry.connections.iter().filter(|(_, each)| each.up.is_some() && !each.shut);
            self.actions.extend(up.map(|(id, _)| ToSwarm::NotifyHandler {
                peer_id: *peer,
                handler: NotifyHandler::One(*id),
                event: Tell::Leave(reason.to_owned()),
            }));
        }
    }

    /// Sends questions to a peer that is up.
    pub(in crate::net) fn probe(&mut self, peer: PeerId, questions: Questions) {
        let connections = self.peers.get(&peer).into_iter().flat_map(|entry| &entry.connections);
        let up = connections
            .filter(|(_, connection)| connection.up.is_some() && !connection.shut)
            .map(|(id, _)| *id);
        match up.last() {
            Some(id) => {
                let (handler, event) = (NotifyHandler::One(id), Tell::Probe(questions));
                self.actions.push_back(ToSwarm::NotifyHandler { peer_id: peer, handler, event });
            }
            None => self.events.send(Event::Probed { peer, answers: Err("not connected".to_owned()) }),
        }
    }
}
