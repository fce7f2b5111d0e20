//! The committee, and the faults of its members that a session tolerates (`[committee]` in the file).

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use flyswarm_sealed_sum::session::{Member, Settings, committee};

use super::fields::field;
use super::file::{list, quoted};
use super::{COMMITTEE, Entry, Faults, Peer, Session, SessionError};

/// `[committee]` of a session file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitteeSpec {
    /// Faults that are tolerated. If `None`, the default of [`CommitteeSpec::faults`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Names of the members, 3 to 15 of the roster; empty if the hash of the session draws them. The hash
    /// also determines their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

impl CommitteeSpec {
    /// Checks the committee against the roster.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub(super) fn check(&self, session: &Session) -> Result<(), SessionError> {
        let mut seen = BTreeSet::new();
        for name in &self.members {
            if !session.roster.iter().any(|entry| entry.name == *name) || !seen.insert(name) {
                let limit = "different names of the roster";
                return Err(SessionError::value("committee.members", format!("{name:?}"), limit));
            }
        }
        if !self.members.is_empty() && !(3..=COMMITTEE).contains(&self.members.len()) {
            let limit = format!("3 to {COMMITTEE}, or none");
            return Err(SessionError::value("the length of committee.members", self.members.len(), limit));
        }
        let size = self.size(session.roster.len());
        if self.faults == Some(Faults::Byzantine) && size < 4 {
            let limit = format!("crash with a committee of {size}; byzantine needs four members");
            return Err(SessionError::value("committee.faults", Faults::Byzantine, limit));
        }
        Ok(())
    }

    /// Returns the faults that are tolerated in a roster of `roster` peers. The default is `byzantine`
    /// if the committee has at least four members: a committee of three cannot tolerate a liar.
    #[must_use]
    pub fn faults(&self, roster: usize) -> Faults {
        self.faults.unwrap_or_else(|| self.default_faults(roster))
    }

    fn default_faults(&self, roster: usize) -> Faults {
        if self.size(roster) < 4 { Faults::Crash } else { Faults::Byzantine }
    }

    fn size(&self, roster: usize) -> usize {
        if self.members.is_empty() { roster.min(COMMITTEE) } else { self.members.len() }
    }

    /// Returns the number of members that must agree on a decision, for a roster of `roster` peers.
    pub(super) fn quorum(&self, roster: usize) -> usize {
        self.faults(roster).quorum(self.size(roster))
    }

    /// Returns the entries of the canonical encoding; fields with default values are left out.
    pub(super) fn entries(&self, roster: usize) -> Vec<(&'static str, Vec<u8>)> {
        let (mut out, faults) = (Vec::new(), self.faults(roster));
        if faults != self.default_faults(roster) {
            out.push(("committee.faults", faults.to_string().into_bytes()));
        }
        if !self.members.is_empty() {
            let names: BTreeSet<_> = self.members.iter().map(String::as_bytes).collect();
            out.push(("committee.members", super::encoding::list(names.into_iter())));
        }
        out
    }

    /// Writes this section of a session file.
    pub(super) fn write_toml(&self, out: &mut String, roster: usize) -> fmt::Result {
        if *self == Self::default() && roster <= COMMITTEE {
            return Ok(());
        }
        writeln!(out, "[committee]")?;
        let about = "\"byzantine\" (default from four members on): fewer than a third may break the \
                     protocol; \"crash\": all follow the protocol, and a minority may be absent.";
        let name = if self.faults.is_some() { "faults" } else { "# faults" };
        field(about, name, quoted(&self.faults(roster).to_string()), out)?;
        let about = format!(
            "Peers that vote and hold shares, 3 to {COMMITTEE} names; by default the session's hash \
             draws them."
        );
        match &self.members[..] {
            [] => field(&about, "# members", "[...]", out)?,
            members => field(&about, "members", list(members), out)?,
        }
        writeln!(out)
    }
}

impl Session {
    /// Returns the committee in its order: the members named in the file, or the first [`COMMITTEE`] peers,
    /// ordered by SHA-256 over session id and public key.
    #[must_use]
    pub fn committee(&self) -> Vec<Peer> {
        let named = &self.voting.members;
        let stands = |peer: &Peer| named.is_empty() || named.iter().any(|name| name == self.name(*peer));
        committee(self.id(), self.peers().filter(stands).map(|peer| (peer, self.key(peer))))
    }

    /// Returns the number of members that must agree on a decision. The same number of shares opens a sum.
    /// With 15 members it is 8, or 10 if members may break the protocol.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voting.quorum(self.roster.len())
    }

    /// Returns the faults of committee members that the session tolerates. With such faults, no aggregate is
    /// opened twice.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.voting.faults(self.roster.len())
    }

    /// Returns the settings that the state machines of the sealed sum need.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let member = |entry: &Entry| Member { key: entry.key, name: entry.name.clone() };
        Settings {
            id: self.id(),
            roster: self.roster.iter().map(member).collect(),
            committee: self.committee(),
            quorum: self.quorum(),
            min_peers: self.min_peers,
            collusion_threshold: self.privacy.collusion_threshold,
            timing: self.timing,
            fields: self.fields(),
        }
    }
}
