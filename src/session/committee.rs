//! Who votes, and how much of its deviation a session bears (`[committee]` in the file).

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use flyswarm_sealed_sum::session::{Member, Settings, committee};

use super::{COMMITTEE, Entry, Faults, Peer, Session, SessionError};

/// `[committee]` of a session file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitteeSpec {
    /// What its members may do.
    #[serde(default)]
    pub faults: Faults,
    /// Names of the members, 3 to 15 of the roster; empty for those that the hash of the session draws. Their
    /// order is that of the hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

impl CommitteeSpec {
    /// Checks it against the roster.
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
        if self.faults == Faults::Byzantine && size < 4 {
            let limit = format!("crash with a committee of {size}; byzantine needs four members");
            return Err(SessionError::value("committee.faults", self.faults, limit));
        }
        Ok(())
    }

    fn size(&self, roster: usize) -> usize {
        if self.members.is_empty() { roster.min(COMMITTEE) } else { self.members.len() }
    }

    /// Members that decide, of a roster of so many peers.
    pub(super) fn quorum(&self, roster: usize) -> usize {
        self.faults.quorum(self.size(roster))
    }

    /// Entries of the canonical encoding; those with their default do not enter.
    pub(super) fn entries(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut out = Vec::new();
        if self.faults != Faults::Crash {
            out.push(("committee.faults", self.faults.to_string().into_bytes()));
        }
        if !self.members.is_empty() {
            let names: BTreeSet<_> = self.members.iter().map(String::as_bytes).collect();
            out.push(("committee.members", super::encoding::list(names.into_iter())));
        }
        out
    }

    /// Writes the section of a session file.
    pub(super) fn write_toml(&self, out: &mut String, roster: usize) -> fmt::Result {
        if *self == Self::default() && roster <= COMMITTEE {
            return Ok(());
        }
        writeln!(out, "[committee]")?;
        writeln!(
            out,
            "# \"crash\": members follow the protocol, and a minority may be away; \"byzantine\": less than"
        )?;
        writeln!(out, "# a third may do what they like, and fewer may be away.")?;
        writeln!(out, "faults = \"{}\"", self.faults)?;
        writeln!(
            out,
            "# Who votes and holds shares, 3 to {COMMITTEE} names; without it the session's hash draws them."
        )?;
        if self.members.is_empty() {
            writeln!(out, "# members = [...]")?;
        } else {
            let names: Vec<_> =
                self.members.iter().map(|name| toml::Value::String(name.clone()).to_string()).collect();
            writeln!(out, "members = [{}]", names.join(", "))?;
        }
        writeln!(out)
    }
}

impl Session {
    /// The committee, in its order: the members named in the file, or the first [`COMMITTEE`] peers, by
    /// SHA-256 over session id and public key (module documentation).
    #[must_use]
    pub fn committee(&self) -> Vec<Peer> {
        let named = &self.voting.members;
        let stands = |peer: &Peer| named.is_empty() || named.iter().any(|name| name == self.name(*peer));
        committee(self.id(), self.peers().filter(stands).map(|peer| (peer, self.key(peer))))
    }

    /// How many members of the committee decide, and how many shares open: 8 of 15, or 10 of 15 where some
    /// may deviate.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voting.quorum(self.roster.len())
    }

    /// What the machines of the sealed sum know of the session.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let member = |entry: &Entry| Member { key: entry.key, name: entry.name.clone() };
        Settings {
            id: self.id(),
            roster: self.roster.iter().map(member).collect(),
            committee: self.committee(),
            quorum: self.quorum(),
            min_peers: self.min_peers,
            colluding: self.privacy.colluding,
            timing: self.timing,
            fields: self.fields(),
        }
    }
}
