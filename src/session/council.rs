//! Who votes, and how much of its deviation a session bears (`[council]` in the file).

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::{COUNCIL, Peer, Session, SessionError};

/// What council members may do without harming the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faults {
    /// Any minority may crash, be cut off and return; all follow the protocol. Quorums are majorities.
    #[default]
    Crash,
    /// f = floor((n - 1) / 3) of n members may do whatever they like. Quorums of ceil((n + f + 1) / 2) meet
    /// in a member that follows the protocol; n - f members must be there. At least four members.
    Byzantine,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Crash => "crash",
            Self::Byzantine => "byzantine",
        })
    }
}

impl Faults {
    /// How many of `n` members may deviate without opening a quantity twice.
    #[must_use]
    pub fn deviating(self, n: usize) -> usize {
        match self {
            Self::Crash => 0,
            Self::Byzantine => n.saturating_sub(1) / 3,
        }
    }

    /// Members that decide, and shares that open.
    #[must_use]
    pub fn quorum(self, n: usize) -> usize {
        match self {
            Self::Crash => n / 2 + 1,
            Self::Byzantine => (n + self.deviating(n) + 1).div_ceil(2),
        }
    }

    /// How many of `n` members may be away without stopping the others.
    #[must_use]
    pub fn away(self, n: usize) -> usize {
        n - self.quorum(n)
    }
}

/// `[council]` of a session file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CouncilSpec {
    /// What its members may do.
    #[serde(default)]
    pub faults: Faults,
    /// Names of the members, 3 to 15 of the roster; empty for those that the hash of the session draws. Their
    /// order is that of the hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

impl CouncilSpec {
    /// Checks it against the roster.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub(super) fn check(&self, session: &Session) -> Result<(), SessionError> {
        let mut seen = BTreeSet::new();
        for name in &self.members {
            if !session.roster.iter().any(|entry| entry.name == *name) || !seen.insert(name) {
                let limit = "different names of the roster";
                return Err(SessionError::value("council.members", format!("{name:?}"), limit));
            }
        }
        if !self.members.is_empty() && !(3..=COUNCIL).contains(&self.members.len()) {
            let limit = format!("3 to {COUNCIL}, or none");
            return Err(SessionError::value("the length of council.members", self.members.len(), limit));
        }
        let size = self.size(session.roster.len());
        if self.faults == Faults::Byzantine && size < 4 {
            let limit = format!("crash with a council of {size}; byzantine needs four members");
            return Err(SessionError::value("council.faults", self.faults, limit));
        }
        Ok(())
    }

    fn size(&self, roster: usize) -> usize {
        if self.members.is_empty() { roster.min(COUNCIL) } else { self.members.len() }
    }

    /// Members that decide, of a roster of so many peers.
    pub(super) fn quorum(&self, roster: usize) -> usize {
        self.faults.quorum(self.size(roster))
    }

    /// Entries of the canonical encoding; those with their default do not enter.
    pub(super) fn entries(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut out = Vec::new();
        if self.faults != Faults::Crash {
            out.push(("council.faults", self.faults.to_string().into_bytes()));
        }
        if !self.members.is_empty() {
            let names: BTreeSet<_> = self.members.iter().map(String::as_bytes).collect();
            out.push(("council.members", super::encoding::list(names.into_iter())));
        }
        out
    }

    /// Writes the section of a session file.
    pub(super) fn write_toml(&self, out: &mut String, roster: usize) -> fmt::Result {
        if *self == Self::default() && roster <= COUNCIL {
            return Ok(());
        }
        writeln!(out, "[council]")?;
        writeln!(
            out,
            "# \"crash\": members follow the protocol, and a minority may be away; \"byzantine\": less than"
        )?;
        writeln!(out, "# a third may do what they like, and fewer may be away.")?;
        writeln!(out, "faults = \"{}\"", self.faults)?;
        writeln!(
            out,
            "# Who votes and holds shares, 3 to {COUNCIL} names; without it the session's hash draws them."
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
    /// The council, in its order: the members named in the file, or the first [`COUNCIL`] peers, by SHA-256
    /// over session id and public key (module documentation).
    #[must_use]
    pub fn council(&self) -> Vec<Peer> {
        let id = self.id();
        let named = &self.voting.members;
        let mut ranked: Vec<([u8; 32], Peer)> = self
            .peers()
            .filter(|&peer| named.is_empty() || named.iter().any(|name| name == self.name(peer)))
            .map(|peer| (super::encoding::council_rank(id, self.key(peer)), peer))
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().take(COUNCIL).map(|(_, peer)| peer).collect()
    }

    /// How many members of the council decide, and how many shares open: 8 of 15, or 10 of 15 where some may
    /// deviate.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voting.quorum(self.roster.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest council, and the largest.
    const SIZES: std::ops::RangeInclusive<usize> = 3..=COUNCIL;

    #[test]
    fn two_quorums_meet_in_one_more_than_may_deviate() {
        for faults in [Faults::Crash, Faults::Byzantine] {
            for n in SIZES {
                assert!(2 * faults.quorum(n) > n + faults.deviating(n), "{faults} of {n}");
            }
        }
    }

    #[test]
    fn those_that_do_not_deviate_are_a_quorum_and_those_that_do_are_none() {
        for n in SIZES.filter(|&n| n >= 4) {
            let f = Faults::Byzantine.deviating(n);
            assert!(f >= 1 && n - f >= Faults::Byzantine.quorum(n) && f < Faults::Byzantine.quorum(n));
            assert_eq!(Faults::Byzantine.quorum(n), (n + f + 1).div_ceil(2));
        }
        let quorums: Vec<_> = [4, 5, 7, 10, 15].map(|n| Faults::Byzantine.quorum(n)).into();
        assert_eq!(quorums, [3, 4, 5, 7, 10]);
        assert_eq!(SIZES.map(|n| Faults::Crash.away(n)).max(), Some(7));
    }
}
