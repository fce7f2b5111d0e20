//! Travel time of a frame: latency, jitter and bandwidth of the path between two peers.

use std::collections::BTreeMap;

use super::scenario::{End, Scenario};
use crate::crypto::stream::Stream;
use crate::protocol::Time;
use crate::session::Peer;

/// A path between two peers. It has whole numbers, so that it is the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// One-way latency, in microseconds.
    pub latency_us: u64,
    /// Jitter, microseconds. A random part of it is added to the latency.
    pub jitter_us: u32,
    /// Bandwidth, bytes per second.
    pub bytes_per_s: u64,
}

/// Converts milliseconds to whole microseconds.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the limits of a scenario keep it far below 2^32"
)]
pub(crate) fn micros(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}

fn bytes_per_s(mbit: f64) -> u64 {
    // One megabit per second is 125,000 bytes per second. `micros` multiplies by 1,000 and rounds.
    (micros(mbit) * 125).max(1)
}

impl Path {
    fn over(self, latency: Option<f64>, jitter: Option<f64>, bandwidth: Option<f64>) -> Self {
        Self {
            latency_us: latency.map_or(self.latency_us, micros),
            jitter_us: jitter.map_or(self.jitter_us, |ms| u32::try_from(micros(ms)).unwrap_or(u32::MAX)),
            bytes_per_s: bandwidth.map_or(self.bytes_per_s, bytes_per_s),
        }
    }
}

/// Paths of a run, and the time until which each is in use.
#[derive(Debug)]
pub(crate) struct Paths {
    usual: Path,
    site_of: Vec<Option<usize>>,
    names: Vec<String>,
    sites: BTreeMap<(usize, usize), Path>,
    pairs: BTreeMap<(Peer, Peer), Path>,
    /// Peers whose paths are slow now, with the changed latency and bytes per second.
    slow: BTreeMap<Peer, (Option<u64>, Option<u64>)>,
    busy: BTreeMap<(Peer, Peer), Time>,
    random: Stream,
}

impl Paths {
    /// Makes the paths of a scenario.
    #[must_use]
    pub(crate) fn new(scenario: &Scenario, committee: &[Peer], seed: u64) -> Self {
        let network = &scenario.network;
        let none = Path { latency_us: 0, jitter_us: 0, bytes_per_s: 1 };
        let usual =
            none.over(Some(network.latency_ms), Some(network.jitter_ms), Some(network.bandwidth_mbit));
        let mut site_of = vec![None; usize::from(scenario.peers)];
        let mut sites = BTreeMap::new();
        for (i, site) in scenario.site.iter().enumerate() {
            for peer in site.peers.of(committee, scenario.peers) {
                site_of[peer.index()] = Some(i);
            }
            sites.insert((i, i), usual.over(site.latency_ms, site.jitter_ms, site.bandwidth_mbit));
        }
        let mut pairs = BTreeMap::new();
        for link in &scenario.link {
            let path = usual.over(link.latency_ms, link.jitter_ms, link.bandwidth_mbit);
            let site = |end: &End| match end {
                End::Site(name) => scenario.site.iter().position(|site| site.name == *name),
                End::Peer(_) => None,
            };
            let members = |end: &End| match end {
                End::Peer(peer) => vec![Peer(*peer)],
                End::Site(name) => {
                    let site = scenario.site.iter().find(|site| site.name == *name);
                    site.map_or(Vec::new(), |site| site.peers.of(committee, scenario.peers))
                }
            };
            let (a, b) = &link.between;
            if let (Some(a), Some(b)) = (site(a), site(b)) {
                sites.insert((a.min(b), a.max(b)), path);
            } else {
                for a in members(a) {
                    pairs.extend(members(b).into_iter().map(|b| ((a.min(b), a.max(b)), path)));
                }
            }
        }
        let random = Stream::new(&seed.to_le_bytes(), "simulation/links", &[]);
        let names = scenario.site.iter().map(|site| site.name.clone()).collect();
        Self { usual, site_of, names, sites, pairs, slow: BTreeMap::new(), busy: BTreeMap::new(), random }
    }

    /// Returns the peers of a site.
    #[must_use]
    pub(crate) fn site(&self, name: &str) -> Vec<Peer> {
        let site = self.names.iter().position(|other| other == name);
        (0..)
            .map(Peer)
            .zip(&self.site_of)
            .filter(|(_, of)| site.is_some() && **of == site)
            .map(|(peer, _)| peer)
            .collect()
    }

    /// Returns the present path between two peers.
    #[must_use]
    pub(crate) fn between(&self, a: Peer, b: Peer) -> Path {
        let mut path = match self.pairs.get(&(a.min(b), a.max(b))) {
            Some(path) => *path,
            None => match (self.site_of[a.index()], self.site_of[b.index()]) {
                (Some(a), Some(b)) => self.sites.get(&(a.min(b), a.max(b))).copied().unwrap_or(self.usual),
                _ => self.usual,
            },
        };
        if !self.slow.is_empty() {
            for (latency, bandwidth) in [a, b].iter().filter_map(|peer| self.slow.get(peer)) {
                path.latency_us = path.latency_us.max(latency.unwrap_or(0));
                path.bytes_per_s = path.bytes_per_s.min(bandwidth.unwrap_or(u64::MAX));
            }
        }
        path
    }

    /// Makes every path of a peer at least as slow as this latency and this bandwidth, if given. A path that
    /// is already slower keeps its own values.
    pub(crate) fn slow(&mut self, peer: Peer, latency_ms: Option<f64>, bandwidth_mbit: Option<f64>) {
        self.slow.insert(peer, (latency_ms.map(micros), bandwidth_mbit.map(bytes_per_s)));
    }

    /// Undoes [`Paths::slow`].
    pub(crate) fn quick(&mut self, peer: Peer) {
        self.slow.remove(&peer);
    }

    fn jitter(&mut self, path: Path) -> u64 {
        if path.jitter_us == 0 { 0 } else { self.random.below(path.jitter_us.saturating_add(1)).into() }
    }

    /// Returns the time at which an empty message has crossed the path `times` times.
    pub(crate) fn passes(&mut self, at: Time, a: Peer, b: Peer, times: u64) -> Time {
        let path = self.between(a, b);
        Time(at.0 + times * path.latency_us + self.jitter(path))
    }

    /// Returns the arrival time of a frame that is sent at `at`. It is sent after the earlier frames on the
    /// same path. Its own transmission time and the latency are added.
    pub(crate) fn arrives(&mut self, at: Time, from: Peer, to: Peer, bytes: usize) -> Time {
        let path = self.between(from, to);
        let jitter = self.jitter(path);
        let length_us = (bytes as u64).saturating_mul(1_000_000) / path.bytes_per_s;
        let mut left = at.0 + length_us;
        if length_us > 0 {
            let busy = self.busy.entry((from, to)).or_default();
            left = at.0.max(busy.0) + length_us;
            *busy = Time(left);
        }
        Time(left + path.latency_us + jitter)
    }
}
