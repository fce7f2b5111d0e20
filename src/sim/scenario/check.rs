//! The rules of a scenario. An error has the field, the value and the limit on one line.

use std::fmt::Display;

use super::fault::{Fault, Kind, Peers};
use super::{End, Scenario, ScenarioError, Task};
use crate::session::Peer;

/// Largest number of peers. It is above the protocol's limit of 1,024, so that larger sums can be studied.
/// The list of keys still fits in a frame.
const MOST_PEERS: u16 = 10_000;

fn wrong(field: impl Display, value: impl Display, limit: impl Display) -> ScenarioError {
    ScenarioError(format!("{field} is {value}, must be {limit}"))
}

fn within(field: impl Display, value: f64, lo: f64, hi: f64) -> Result<(), ScenarioError> {
    if (lo..=hi).contains(&value) { Ok(()) } else { Err(wrong(field, value, format!("{lo} to {hi}"))) }
}

fn path(
    at: &str,
    latency: Option<f64>,
    jitter: Option<f64>,
    bandwidth: Option<f64>,
) -> Result<(), ScenarioError> {
    within(format!("{at}latency_ms"), latency.unwrap_or(0.0), 0.0, 60_000.0)?;
    within(format!("{at}jitter_ms"), jitter.unwrap_or(0.0), 0.0, 60_000.0)?;
    within(format!("{at}bandwidth_mbit"), bandwidth.unwrap_or(1.0), 0.001, 1e6)
}

impl Scenario {
    /// Refuses a scenario that cannot be run.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        if !(3..=MOST_PEERS).contains(&self.peers) {
            return Err(wrong("peers", self.peers, format!("3 to {MOST_PEERS}")));
        }
        within("limit_s", self.limit_s, 1.0, 1e6)?;
        within("data.test_percent", self.data.test_percent.into(), 0.0, 90.0)?;
        within("data.alpha", self.data.alpha, 0.01, 1e6)?;
        within("data.alpha_to", self.data.alpha_to, 0.01, 1e6)?;
        if self.task.witnesses >= self.peers {
            return Err(wrong(
                "task.witnesses",
                self.task.witnesses,
                format!("below {}, the number of peers", self.peers),
            ));
        }
        self.labels()?;
        if let Some(name) = self.task.rest.keys().next().filter(|_| self.task.is_sum()) {
            return Err(wrong(format!("task.{name}"), "given", "left out: a sum has no such field"));
        }
        if self.task.is_sum() && !(1..=1 << 26).contains(&self.task.words) {
            return Err(wrong("task.words", self.task.words, format!("1 to {}", 1 << 26)));
        }
        crate::session::file::timing(&self.timing, &self.limits)
            .map_err(|error| ScenarioError(error.to_string()))?;
        let network = &self.network;
        path("network.", Some(network.latency_ms), Some(network.jitter_ms), Some(network.bandwidth_mbit))?;
        within("network.silence_ms", network.silence_ms, 1.0, 3.6e6)?;
        for site in &self.site {
            self.exist(&format!("site {:?}", site.name), &site.peers)?;
            path(&format!("site {:?}: ", site.name), site.latency_ms, site.jitter_ms, site.bandwidth_mbit)?;
        }
        for (i, link) in self.link.iter().enumerate() {
            for end in [&link.between.0, &link.between.1] {
                match end {
                    End::Peer(peer) if *peer >= self.peers => {
                        return Err(wrong(format!("link {}: between", i + 1), peer, self.range()));
                    }
                    End::Site(name) => self.known_site(&format!("link {}", i + 1), name)?,
                    End::Peer(_) => {}
                }
            }
            path(&format!("link {}: ", i + 1), link.latency_ms, link.jitter_ms, link.bandwidth_mbit)?;
        }
        let rates = &self.rates;
        let all = [
            ("matrix", rates.matrix),
            ("lift", rates.lift),
            ("select", rates.select),
            ("mask", rates.mask),
            ("add", rates.add),
            ("verify", rates.verify),
            ("agree", rates.agree),
            ("message", rates.message),
        ];
        for (name, rate) in all {
            within(format!("rates.{name}"), rate, 1.0, 1e15)?;
        }
        for speed in &self.speed {
            self.exist("speed", &speed.peers)?;
            within("speed: factor", speed.factor, 1e-6, 1e6)?;
        }
        let drawn = [Kind::Crash, Kind::Restart, Kind::Pause, Kind::Partition, Kind::SlowLink];
        if let Some(kind) = self.random.kinds.iter().find(|kind| !drawn.contains(kind)) {
            let names: Vec<_> = drawn.iter().map(|kind| kind.name()).collect();
            return Err(wrong("random.kinds", kind.name(), format!("one of {}", names.join(", "))));
        }
        if self.random.kinds.is_empty() {
            return Err(wrong("random.kinds", "empty", "at least one kind"));
        }
        within("random.return_percent", self.random.return_percent.into(), 0.0, 100.0)?;
        within("random.within_s", self.random.within_s, 0.001, 1e6)?;
        within("random.heal_s", self.random.heal_s, 0.0, 1e6)?;
        if let Some(blamed) = &self.expect.blamed {
            self.exist("expect.blamed", blamed)?;
        }
        for (i, fault) in self.fault.iter().enumerate() {
            self.fault(fault).map_err(|error| ScenarioError(format!("fault {}: {}", i + 1, error.0)))?;
        }
        Ok(())
    }

    /// Checks the settings for labelled rows.
    fn labels(&self) -> Result<(), ScenarioError> {
        let Task { labelled_percent, without_labels, .. } = &self.task;
        if let Some(percent) = *labelled_percent {
            within("task.labelled_percent", percent.into(), 1.0, 100.0)?;
        }
        match without_labels {
            None => Ok(()),
            Some(peers @ Peers::Some(_)) => {
                self.exist("task.without_labels", peers)?;
                let without = peers.of(&[], self.peers);
                let owners = self.peers.saturating_sub(self.task.witnesses);
                match (0..owners).map(Peer).any(|owner| !without.contains(&owner)) {
                    true => Ok(()),
                    false => Err(wrong("task.without_labels", "every peer with rows", "fewer peers")),
                }
            }
            Some(Peers::Committee(rank)) => {
                Err(wrong("task.without_labels", format!("\"committee {rank}\""), "numbers of peers"))
            }
            Some(Peers::All) => Err(wrong("task.without_labels", "\"all\"", "numbers of peers")),
        }
    }

    fn range(&self) -> String {
        format!("0 to {} (peers are numbered from 0)", self.peers - 1)
    }

    fn exist(&self, field: &str, peers: &Peers) -> Result<(), ScenarioError> {
        match peers.largest() {
            Some(peer) if peer >= self.peers => Err(wrong(format!("{field}: a peer"), peer, self.range())),
            _ => Ok(()),
        }
    }

    fn known_site(&self, field: &str, name: &str) -> Result<(), ScenarioError> {
        if self.site.iter().any(|site| site.name == name) {
            return Ok(());
        }
        let names: Vec<_> = self.site.iter().map(|site| site.name.as_str()).collect();
        Err(wrong(format!("{field}: the site"), format!("{name:?}"), format!("one of {}", names.join(", "))))
    }

    fn fault(&self, fault: &Fault) -> Result<(), ScenarioError> {
        if let Some(peers) = &fault.peers {
            self.exist("peers", peers)?;
        }
        if let Some(site) = &fault.site {
            self.known_site("site", site)?;
        }
        if fault.kind != Kind::Heal && fault.peers.is_none() && fault.site.is_none() {
            return Err(ScenarioError("needs peers or a site".into()));
        }
        match (fault.at_s, &fault.at) {
            (Some(at), None) => within("at_s", at, 0.0, 1e6)?,
            (None, Some(moment)) => {
                if let Some(peer) = moment.peer.filter(|&peer| peer >= self.peers) {
                    return Err(wrong("at.peer", peer, self.range()));
                }
            }
            (None, None) if fault.kind == Kind::OtherSession => {}
            _ => return Err(ScenarioError("needs either at_s or at".into())),
        }
        if let Some(seconds) = fault.for_s {
            within("for_s", seconds, 0.001, 1e6)?;
        }
        path("", fault.latency_ms, None, fault.bandwidth_mbit)?;
        match fault.kind {
            Kind::Pause if fault.for_s.is_none() => Err(ScenarioError("a pause needs for_s".into())),
            Kind::SlowLink if fault.latency_ms.is_none() && fault.bandwidth_mbit.is_none() => {
                Err(ScenarioError("a slow-link needs latency_ms or bandwidth_mbit".into()))
            }
            Kind::Tamper if fault.how.is_none() => Err(ScenarioError("a tamper needs how".into())),
            kind if kind != Kind::Tamper && (fault.how.is_some() || fault.every.is_some()) => {
                Err(ScenarioError("`how` and `every` are only for a tamper".into()))
            }
            Kind::Tamper if fault.every == Some(0) => Err(wrong("every", 0, "at least 1")),
            _ => Ok(()),
        }
    }
}
