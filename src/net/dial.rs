//! Decides when and at which address to dial one peer. It has no clock and no sockets: the behaviour
//! calls [`Dialer::due`].
//!
//! In each pair, the peer with the smaller `PeerId` dials at once, and after a failure again with back-off.
//! The other peer waits for `patience` (3 s and some jitter) each time before it dials. It dials too, because
//! perhaps only it can reach the other.

use std::collections::BTreeMap;
use std::time::Duration;

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// First wait after a failure. The wait doubles each time (design: 0.2 s up to 5 s).
const FIRST: Duration = Duration::from_millis(200);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(5);
/// If a connection has lasted for this time, the count of failures begins again (guess).
const STABLE: Duration = Duration::from_secs(5);
/// Time for which an address is excluded if another identity answered there (guess).
const WRONG: Duration = Duration::from_secs(60);
/// Number of addresses that are kept for a peer in addition to those of the configuration. mDNS is not
/// authenticated, so if there are more, a new address replaces one that has failed.
const FOUND: usize = 32;
/// Time after which a peer without known addresses is dialled through relays. Before that, mDNS may find the
/// peer, or the peer may dial after its own patience.
const SOUGHT: Duration = Duration::from_secs(5);
/// Number of failed dials at a peer's own addresses after which relays are tried too.
const TRIED: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The configuration or the caller gave the address.
    Given,
    /// mDNS found the address.
    Found,
    /// The address uses a relay of the configuration, for a peer that cannot be reached in another way.
    Relayed,
}

#[derive(Debug)]
pub(super) struct Dialer {
    /// Minimum wait before a dial. It is zero at the peer that dials first.
    patience: Duration,
    seed: [u8; 32],
    attempts: u64,
    failures: u32,
    next: Instant,
    /// Time at which the last connection ended or, before the first one, the start.
    since: Instant,
    addresses: BTreeMap<Multiaddr, Place>,
}

/// An address and its history.
#[derive(Debug)]
struct Place {
    source: Source,
    /// Time until which the address is excluded, because another identity answered there.
    left_out: Option<Instant>,
    failures: u32,
}

impl Dialer {
    pub(super) fn new(local: PeerId, remote: PeerId, patience: Duration, now: Instant) -> Self {
        let seed = Sha256::new().chain_update(local.to_bytes()).chain_update(remote.to_bytes()).finalize();
        let mut dialer = Self {
            patience: if dials_first(local, remote) { Duration::ZERO } else { patience },
            seed: seed.into(),
            attempts: 0,
            failures: 0,
            next: now,
            since: now,
            addresses: BTreeMap::new(),
        };
        dialer.wait(Duration::ZERO, now);
        dialer
    }

    /// Adds an address.
    pub(super) fn add(&mut self, address: Multiaddr, source: Source) {
        let address = without_peer(address);
        if let Some(known) = self.addresses.get_mut(&address) {
            if source == Source::Given {
                known.source = source;
            }
            return;
        }
        let found = || self.addresses.iter().filter(|(_, place)| place.source == Source::Found);
        if source == Source::Found && found().count() >= FOUND {
            let worst = found().max_by_key(|(_, place)| place.failures);
            let worst = worst.filter(|(_, place)| place.failures > 0).map(|(address, _)| address.clone());
            let Some(worst) = worst else { return };
            self.addresses.remove(&worst);
        }
        self.addresses.insert(address, Place { source, left_out: None, failures: 0 });
    }

    /// Records that a dial at this address failed.
    pub(super) fn failed_at(&mut self, address: Multiaddr) {
        if let Some(place) = self.addresses.get_mut(&without_peer(address)) {
            place.failures = place.failures.saturating_add(1);
        }
    }

    /// Removes an address that mDNS found.
    pub(super) fn expire(&mut self, address: Multiaddr) {
        let address = without_peer(address);
        if self.addresses.get(&address).is_some_and(|place| place.source == Source::Found) {
            self.addresses.remove(&address);
        }
    }

    /// Returns the addresses to dial now, if it is time.
    pub(super) fn due(&self, now: Instant) -> Option<Vec<Multiaddr>> {
        if now < self.next {
            return None;
        }
        let usable = |left_out: &Option<Instant>| left_out.is_none_or(|until| now >= until);
        let (relayed, mut addresses): (Vec<_>, Vec<_>) = self
            .addresses
            .iter()
            .filter(|(_, place)| usable(&place.left_out))
            .partition(|(_, place)| place.source == Source::Relayed);
        let through = match addresses.is_empty() {
            true => now >= self.since + SOUGHT,
            false => self.failures >= TRIED,
        };
        if through {
            addresses.extend(relayed);
        }
        (!addresses.is_empty()).then(|| addresses.into_iter().map(|(address, _)| address.clone()).collect())
    }

    /// Makes the next dial due now, because the caller waits for this connection.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.next = now;
    }

    /// Records that another identity answered at this address.
    pub(super) fn wrong(&mut self, address: Multiaddr, now: Instant) {
        if let Some(place) = self.addresses.get_mut(&without_peer(address)) {
            place.left_out = Some(now + WRONG);
            place.failures = place.failures.saturating_add(1);
        }
    }

    /// Records that a dial failed, or that the last connection ended before it was open.
    pub(super) fn failed(&mut self, now: Instant) {
        let wait = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures += 1;
        self.wait(wait, now);
    }

    /// Records that the last connection ended after it had lasted for `stood`.
    pub(super) fn lost(&mut self, stood: Duration, now: Instant) {
        if stood >= STABLE {
            self.failures = 0;
        }
        self.since = now;
        self.failed(now);
    }

    /// Waits for `wait` and up to a quarter longer, so that peers that lost each other at the same time do
    /// not dial again at the same time. The jitter need not be secret, so a hash of both names and a counter
    /// is enough.
    fn wait(&mut self, wait: Duration, now: Instant) {
        self.attempts += 1;
        let digest =
            Sha256::new().chain_update(self.seed).chain_update(self.attempts.to_le_bytes()).finalize();
        let jitter = f64::from(digest[0]) / 255.0 / 4.0;
        self.next = now + wait.max(self.patience).mul_f64(1.0 + jitter);
    }
}

/// Returns whether this peer dials first and chooses among connections. In each pair, this is the peer whose
/// `PeerId` is smaller in the order of the bytes.
pub(super) fn dials_first(local: PeerId, remote: PeerId) -> bool {
    local < remote
}

/// Returns whether an address uses a relay.
pub(crate) fn is_relayed(address: &Multiaddr) -> bool {
    address.iter().any(|part| matches!(part, Protocol::P2pCircuit))
}

/// Removes a trailing `/p2p/...`, because the roster already names the expected peer.
pub(super) fn without_peer(mut address: Multiaddr) -> Multiaddr {
    if matches!(address.iter().last(), Some(Protocol::P2p(_))) {
        address.pop();
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    fn peers() -> (PeerId, PeerId) {
        let (a, b) = (PeerId::random(), PeerId::random());
        (a.min(b), a.max(b))
    }

    fn address(port: u16) -> Multiaddr {
        Multiaddr::empty().with(Protocol::Ip4([127, 0, 0, 1].into())).with(Protocol::Tcp(port))
    }

    #[test]
    fn the_smaller_peer_dials_at_once_and_the_larger_after_its_patience() {
        let (small, large) = peers();
        let now = Instant::now();
        let mut first = Dialer::new(small, large, PATIENCE, now);
        assert_eq!(first.due(now), None, "no address");
        first.add(address(1), Source::Given);
        assert_eq!(first.due(now), Some(vec![address(1)]));
        let mut second = Dialer::new(large, small, PATIENCE, now);
        second.add(address(1), Source::Given);
        assert_eq!(second.due(now + PATIENCE.mul_f64(0.99)), None);
        assert_eq!(second.due(now + PATIENCE.mul_f64(1.25)), Some(vec![address(1)]));
    }

    #[test]
    fn waits_double_up_to_five_seconds_and_a_stable_connection_resets_them() {
        let (small, large) = peers();
        let mut now = Instant::now();
        let mut dialer = Dialer::new(small, large, PATIENCE, now);
        for expected in [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0] {
            dialer.failed(now);
            let wait = (dialer.next - now).as_secs_f64();
            assert!((expected..=expected * 1.25).contains(&wait), "{wait} after {expected}");
            now = dialer.next;
        }
        dialer.lost(Duration::from_secs(1), now);
        assert!(dialer.next - now >= LONGEST);
        dialer.lost(STABLE, now);
        assert!(dialer.next - now <= FIRST.mul_f64(1.25));
    }

    #[test]
    fn a_peer_that_is_waited_for_is_dialled_at_once_whatever_its_back_off_and_patience() {
        let (small, large) = peers();
        let now = Instant::now();
        for (local, remote) in [(small, large), (large, small)] {
            let mut dialer = Dialer::new(local, remote, PATIENCE, now);
            dialer.add(address(1), Source::Given);
            (0..6).for_each(|_| dialer.failed(now));
            assert_eq!(dialer.due(now), None);
            dialer.hurry(now);
            assert_eq!(dialer.due(now), Some(vec![address(1)]));
        }
    }

    #[test]
    fn an_address_with_another_identity_is_left_out_for_a_minute() {
        let (small, large) = peers();
        let now = Instant::now();
        let mut dialer = Dialer::new(small, large, PATIENCE, now);
        dialer.add(address(1), Source::Found);
        dialer.add(address(2).with(Protocol::P2p(large)), Source::Given);
        dialer.wrong(address(1), now);
        assert_eq!(dialer.due(now), Some(vec![address(2)]));
        assert_eq!(dialer.due(now + WRONG), Some(vec![address(1), address(2)]));
        dialer.expire(address(1));
        dialer.expire(address(2));
        assert_eq!(dialer.due(now + WRONG), Some(vec![address(2)]), "given addresses do not expire");
    }

    #[test]
    fn a_peer_is_dialled_through_relays_only_where_its_own_addresses_have_failed_or_there_are_none() {
        let (small, large) = peers();
        let now = Instant::now();
        let mut dialer = Dialer::new(small, large, PATIENCE, now);
        dialer.add(address(9), Source::Relayed);
        assert_eq!(dialer.due(now + SOUGHT / 2), None, "mDNS may still find it");
        assert_eq!(dialer.due(now + SOUGHT), Some(vec![address(9)]));
        dialer.add(address(1), Source::Found);
        assert_eq!(dialer.due(now + SOUGHT), Some(vec![address(1)]));
        let mut later = now;
        for _ in 0..TRIED {
            assert_eq!(dialer.due(later + SOUGHT), Some(vec![address(1)]));
            dialer.failed(later);
            later = dialer.next;
        }
        assert_eq!(
            dialer.due(later).map(|all| all.len()),
            Some(2),
            "both addresses, because the first may work again"
        );
        dialer.lost(STABLE, later);
        assert_eq!(
            dialer.due(dialer.next),
            Some(vec![address(1)]),
            "an address that worked is tried first again"
        );
    }

    #[test]
    fn found_addresses_are_bounded() {
        let (small, large) = peers();
        let now = Instant::now();
        let mut dialer = Dialer::new(small, large, PATIENCE, now);
        for port in 1..100 {
            dialer.add(address(port), Source::Found);
        }
        dialer.add(address(1000), Source::Given);
        assert_eq!(dialer.due(now).map(|addresses| addresses.len()), Some(FOUND + 1));
    }

    #[test]
    fn false_addresses_crowd_out_the_right_one_only_until_they_have_failed() {
        let (small, large) = peers();
        let now = Instant::now();
        let mut dialer = Dialer::new(small, large, PATIENCE, now);
        let dialled = |dialer: &Dialer, port| dialer.due(now).is_some_and(|all| all.contains(&address(port)));
        // Sixteen false addresses do not fill the list. All addresses are dialled at the same time.
        (1..=16).for_each(|port| dialer.add(address(port), Source::Found));
        dialer.add(address(1000), Source::Found);
        assert!(dialled(&dialer, 1000));
        let mut dialer = Dialer::new(small, large, PATIENCE, now);
        (1..=500).for_each(|port| dialer.add(address(port), Source::Found));
        dialer.add(address(1000), Source::Found);
        assert!(!dialled(&dialer, 1000));
        for failed in dialer.due(now).unwrap() {
            dialer.failed_at(failed);
        }
        dialer.add(address(1000), Source::Found);
        assert!(dialled(&dialer, 1000));
        // An address that has not failed is kept, regardless of the number of later addresses.
        (501..=900).for_each(|port| dialer.add(address(port), Source::Found));
        assert!(dialled(&dialer, 1000));
        assert_eq!(dialer.due(now).map(|all| all.len()), Some(FOUND));
    }
}
