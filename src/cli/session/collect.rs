//! `session new --collect`: finds the identities that are on this network now, and asks which of them to
//! admit.
//!
//! mDNS is not authenticated: any machine on the network can announce an id. If an id is admitted by mistake,
//! it takes part in the session. So users must compare each id with the one that its owner reads out to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::str::FromStr;
use std::time::{Duration, Instant};

use libp2p::multiaddr::Protocol;

use super::super::{Failure, say};
use crate::crypto::identity::PublicKey;
use crate::net::Multiaddr;
use crate::net::observe::Observer;
use crate::session::Entry;

/// Maximum number of identities that are shown (guess). On a larger network, users need `--peer`.
const MOST: usize = 64;
/// Number of characters at the end of an id that identify it. 10 characters in base58 have 58 bits. An
/// attacker that tries a million keys a second on each of 1,000 cores finds a key with the same ending once
/// in 14 years.
const ENDING: usize = 10;
/// If a peer has no given name, its name has this number of characters of its id.
const NAMED: usize = 6;

/// Identities that are admitted without a question.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) enum Admit {
    /// All identities that are found.
    All,
    /// The identity whose id has this ending, with this name.
    One(String, String),
}

impl FromStr for Admit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "all" => Ok(Self::All),
            Some((name, ending)) if ending.len() >= ENDING => {
                Ok(Self::One(name.to_owned(), ending.to_owned()))
            }
            _ => Err(format!(
                "must be all, or NAME=ENDING with at least the last {ENDING} characters of the peer id"
            )),
        }
    }
}

/// Identities on the network, with their addresses.
pub(super) type Discovered = BTreeMap<PublicKey, BTreeSet<Multiaddr>>;

/// Listens for `seconds` and returns the identities found.
pub(super) fn listen(seconds: u64) -> Result<Discovered, Failure> {
    let observer = Observer::start().map_err(|error| Failure::Environment(format!("mDNS: {error}")))?;
    say(&format!("looking for identities on this network for {seconds} s"));
    let until = now() + Duration::from_secs(seconds);
    let mut found = Discovered::new();
    while let Some(left) = until.checked_duration_since(now()) {
        if let Some((peer, address)) = observer.next(left)
            && let Ok(key) = peer.to_string().parse::<PublicKey>()
            && (found.len() < MOST || found.contains_key(&key))
        {
            found.entry(key).or_default().insert(address);
        }
    }
    Ok(found)
}

#[allow(clippy::disallowed_methods, reason = "it listens for a limited time")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the identities in `found` that are admitted: those in `admit` or, if it is empty, those that the
/// user accepts.
pub(super) fn choose(
    found: &Discovered,
    admit: &[Admit],
    answers: &mut dyn BufRead,
    questions: &mut dyn Write,
) -> Result<Vec<Entry>, Failure> {
    if found.is_empty() {
        let advice = "run `flyswarm id --announce 600` on the other machines";
        return Err(Failure::Input(format!("mDNS found no identity on this network: {advice}")));
    }
    let entry = |key: &PublicKey, name: String| Entry { key: *key, name, addresses: Vec::new() };
    let mut admitted = Vec::new();
    for each in admit {
        match each {
            Admit::All => {
                let unnamed = |key: &PublicKey| !admitted.iter().any(|entry: &Entry| entry.key == *key);
                let rest: Vec<_> = found.keys().filter(|key| unnamed(key)).copied().collect();
                admitted.extend(rest.iter().map(|key| entry(key, default_name(key))));
            }
            Admit::One(name, ending) => {
                let mut ends = found.keys().filter(|key| key.to_string().ends_with(ending.as_str()));
                match (ends.next(), ends.next()) {
                    (Some(key), None) => admitted.push(entry(key, name.clone())),
                    (None, _) => {
                        let text = format!(
                            "--admit {name}={ending}: none of the {} ids found ends like this",
                            found.len()
                        );
                        return Err(Failure::Input(text));
                    }
                    (Some(_), Some(_)) => {
                        return Err(Failure::Input(format!(
                            "--admit {name}={ending}: more than one id ends like this"
                        )));
                    }
                }
            }
        }
    }
    if admit.is_empty() {
        for (key, addresses) in found {
            let at = addresses.iter().filter_map(place).collect::<Vec<_>>().join(", ");
            let terminal = |error: std::io::Error| Failure::Environment(format!("the terminal: {error}"));
            writeln!(questions, "{key} at {at}: its name? (empty: do not add it)").map_err(terminal)?;
            let mut name = String::new();
            answers.read_line(&mut name).map_err(terminal)?;
            if !name.trim().is_empty() {
                admitted.push(entry(key, name.trim().to_owned()));
            }
        }
    }
    Ok(admitted)
}

/// Returns the IP address at the beginning of an address.
fn place(address: &Multiaddr) -> Option<String> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.to_string()),
        Protocol::Ip6(ip) => Some(ip.to_string()),
        _ => None,
    }
}

fn default_name(key: &PublicKey) -> String {
    let id = key.to_string();
    format!("peer-{}", &id[id.len() - NAMED..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::identity::Identity;

    fn found(count: u8) -> Discovered {
        (1..=count).map(|seed| (Identity::from_seed([seed; 32]).public(), BTreeSet::new())).collect()
    }

    fn chosen(
        found: &Discovered,
        admit: &[&str],
        answers: &str,
    ) -> Result<Vec<(String, PublicKey)>, Failure> {
        let admit: Vec<Admit> = admit.iter().map(|text| text.parse().unwrap()).collect();
        let entries = choose(found, &admit, &mut answers.as_bytes(), &mut Vec::new())?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.key)).collect())
    }

    #[test]
    fn the_user_names_those_who_are_admitted_and_leaves_out_the_others() {
        let found = found(3);
        let keys: Vec<_> = found.keys().copied().collect();
        assert_eq!(
            chosen(&found, &[], "north\n\n south \n").unwrap(),
            [("north".to_owned(), keys[0]), ("south".to_owned(), keys[2])]
        );
        assert_eq!(chosen(&found, &[], "").unwrap(), [], "if the input ends, no identity is admitted");
        let mut shown = Vec::new();
        choose(&found, &[], &mut "".as_bytes(), &mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(keys.iter().all(|key| shown.contains(&key.to_string())), "ids are shown whole: {shown}");
    }

    #[test]
    fn scripts_admit_all_or_by_the_end_of_an_id() {
        let found = found(3);
        let keys: Vec<_> = found.keys().copied().collect();
        let ending = |key: &PublicKey| key.to_string()[42..].to_owned();
        let all = chosen(&found, &["all"], "").unwrap();
        assert_eq!(all.iter().map(|(_, key)| *key).collect::<Vec<_>>(), keys);
        assert_eq!(all[0].0, format!("peer-{}", &keys[0].to_string()[46..]));
        let north = format!("north={}", ending(&keys[1]));
        assert_eq!(chosen(&found, &[&north], "").unwrap(), [("north".to_owned(), keys[1])]);
        assert_eq!(
            chosen(&found, &[&north, "all"], "").unwrap().len(),
            3,
            "an identity that is named and in `all` is admitted once"
        );
        let error = chosen(&found, &["north=zzzzzzzzzz"], "").unwrap_err();
        assert_eq!(error.to_string(), "--admit north=zzzzzzzzzz: none of the 3 ids found ends like this");
        assert!("north=123456789".parse::<Admit>().is_err() && "some".parse::<Admit>().is_err());
        assert!(chosen(&Discovered::new(), &["all"], "").unwrap_err().to_string().contains("id --announce"));
    }
}
