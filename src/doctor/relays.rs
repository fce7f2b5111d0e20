//! Information about the relays of the session file.

use std::collections::BTreeMap;

use libp2p::multiaddr::Protocol;

use super::finding::{Finding, Level};
use super::peers::Touch;
use crate::net::{Multiaddr, PeerId};

/// The relays: for each relay, its address and whether it gave this machine a reservation (`None` until it
/// answers).
#[derive(Debug, Default)]
pub(crate) struct Relays(BTreeMap<PeerId, (Multiaddr, Option<bool>)>);

impl Relays {
    pub(crate) fn new(relays: &[(PeerId, Multiaddr)]) -> Self {
        Self(relays.iter().map(|(relay, address)| (*relay, (address.clone(), None))).collect())
    }

    /// Records that a relay gave this machine a reservation at this address, or refused it.
    pub(crate) fn note(&mut self, address: &Multiaddr, given: bool) {
        let relay = address.iter().find_map(|part| match part {
            Protocol::P2p(relay) => Some(relay),
            _ => None,
        });
        if let Some((_, known)) = relay.and_then(|relay| self.0.get_mut(&relay)) {
            *known = Some(given);
        }
    }

    /// Returns whether all relays have answered.
    pub(crate) fn are_heard(&self) -> bool {
        self.0.values().all(|(_, known)| known.is_some())
    }

    /// Returns a line for each relay. If a relay gave no reservation, tries a plain connection.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.0.iter().map(|(relay, (address, known))| finding(relay, address, *known == Some(true))).collect()
    }
}

fn finding(relay: &PeerId, address: &Multiaddr, given: bool) -> Finding {
    if given {
        return Finding::new(Level::Ok, "relay", format!("{relay} at {address} accepts a reservation"));
    }
    let at = format!("{relay} at {address}");
    let (text, advice) = match Touch::of(address) {
        Touch::Connected => (
            format!("{at} accepts a connection, but gives no reservation"),
            "check that it runs `flyswarm relay` with this session file and the same network key, and \
             that its peer id has not changed",
        ),
        Touch::Refused => (format!("{at}: no program listens there"), "is `flyswarm relay` running there?"),
        Touch::Silence => (
            format!("{at}: no answer within 4 s"),
            "a firewall may block it, or it is off; a relay may listen on TCP port 443",
        ),
        Touch::Failed(why) => (format!("{at} cannot be reached: {why}"), "check the address"),
    };
    Finding::new(Level::Warning, "relay", text).advise(advice)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_relay_is_judged_by_the_place_that_it_gives_and_else_by_what_its_port_does() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |port: u16| format!("/ip4/127.0.0.1/tcp/{port}").parse::<Multiaddr>().unwrap();
        let all = [(PeerId::random(), at(open.local_addr().unwrap().port())), (PeerId::random(), at(closed))];
        let mut relays = Relays::new(&all);
        assert!(!relays.are_heard());
        let place = |(relay, address): &(PeerId, Multiaddr)| {
            address.clone().with(Protocol::P2p(*relay)).with(Protocol::P2pCircuit)
        };
        relays.note(&place(&all[0]), false);
        relays.note(&place(&(PeerId::random(), at(1))), true);
        assert!(!relays.are_heard(), "a relay that is not in the file does not count");
        relays.note(&place(&all[1]), false);
        assert!(relays.are_heard());
        let said = |relays: &Relays| relays.findings().iter().map(|f| format!("{f:?}")).collect::<String>();
        let text = said(&relays);
        assert!(text.contains("accepts a connection, but gives no reservation"), "{text}");
        assert!(text.contains("no program listens there"), "{text}");
        relays.note(&place(&all[0]), true);
        relays.note(&place(&all[1]), true);
        let text = said(&relays);
        assert_eq!(text.matches("accepts a reservation").count(), 2, "{text}");
    }
}
