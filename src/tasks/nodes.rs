//! Tests whole nodes with tasks.

mod fedavg_xclp;
mod glm;
mod missing;
#[cfg(feature = "net")]
mod own_rows;
mod xclp;

use std::collections::BTreeMap;
use std::sync::Arc;

use flyswarm_sealed_sum::harness::network;
use flyswarm_sealed_sum::harness::numbers::timing;

use crate::crypto::identity::Identity;
use crate::node::{Ending, Event};
use crate::protocol::Time;
use crate::session::{Peer, Privacy, Run, Score, Session, Timing};
use crate::tasks::{History, ModelSpec};

fn model() -> ModelSpec {
    ModelSpec { m: 16, s: 2, rho: 2, gamma: 0.5, score: Score::Decay }
}

fn session(identities: &[Identity], timing: Timing) -> Session {
    let session = Session::builder("test", model())
        .features(4)
        .classes(["a", "b"])
        .check_columns(false)
        .privacy(Privacy { min_contributors: 1, ..Privacy::default() })
        .timing(timing)
        .run(Run::new([7; 16], 1_000_000_000));
    let peers = identities.iter().enumerate();
    peers
        .fold(session, |session, (i, identity)| session.peer(format!("peer-{i}"), identity.public()))
        .build()
        .unwrap()
}

/// Returns the opened sums of each peer that has finished.
fn histories(net: &network::Network) -> BTreeMap<Peer, Arc<History>> {
    let finished = |(_, who, event): &(_, Peer, Event)| match event {
        Event::Finished(history) => Some((*who, history.clone())),
        _ => None,
    };
    net.events.iter().filter_map(finished).collect()
}

/// Returns the author and the suspect of each failed view, as each peer reports it.
fn marks(net: &network::Network) -> Vec<[Peer; 2]> {
    let mut marks: Vec<_> = (net.events.iter())
        .filter_map(|(.., event)| match event {
            Event::ViewFailed(_, author, _, Some(suspect)) => Some([*author, *suspect]),
            _ => None,
        })
        .collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// Returns when and why a peer ended because the session cannot continue.
fn ended(net: &network::Network, peer: Peer) -> Option<(Time, String)> {
    net.events.iter().find_map(|(at, who, event)| match event {
        Event::Ended(ending @ (Ending::Refused(_) | Ending::TooFew(_))) if *who == peer => {
            Some((*at, ending.to_string()))
        }
        _ => None,
    })
}
