//! Fingerprints of the states of a search, and its result as text.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Act, State, World};

impl World {
    /// Returns the actions, in order, up to the last state found.
    pub(super) fn trace(&self, parents: &[(usize, Option<Act>)], what: &str) -> String {
        let mut path = Vec::new();
        let mut at = parents.len() - 1;
        while let (parent, Some(act)) = parents[at] {
            path.push(act);
            at = parent;
        }
        let mut text = format!("{what} in {self:?}, after\n");
        for act in path.iter().rev() {
            writeln!(text, "  {}", describe(*act)).unwrap();
        }
        text
    }
}

/// Describes an action. The number of a member is its place in the list of members. The members that
/// never propose are sorted after each step, so their numbers may change.
fn describe(act: Act) -> String {
    match act {
        Act::Propose(b) => format!("ballot {b} is proposed"),
        Act::Promise(b, a) => format!("{a} promises ballot {b}"),
        Act::Begin(b, quorum, claim) => {
            format!("ballot {b} begins with the promises of {quorum:#b}, the liar's promise claims {claim}")
        }
        Act::Accept(b, s, a) => format!("{a} acknowledges slot {s} in ballot {b}"),
        Act::Release(b, s, a) => format!("{a} releases its shares of slot {s} in ballot {b}"),
        Act::Open(b, s, a) => format!("{a} opens slot {s} in ballot {b}"),
        Act::Fetch(a) => format!("{a} fetches the next committed slot"),
        Act::Turn(b, s) => format!("the leader of ballot {b} shows another sum of slot {s}"),
        Act::Serve(a, value) => format!("the liar serves {value} to {a}"),
        Act::Crash(a) => format!("{a} crashes and restarts"),
    }
}

/// Returns 128 bits of two hashes with different starts. Among ten million states, two collide with
/// probability below 2^-80.
pub(super) fn fingerprint(state: &State) -> (u64, u64) {
    let (mut a, mut b) = (DefaultHasher::new(), DefaultHasher::new());
    b.write_u8(1);
    state.hash(&mut a);
    state.hash(&mut b);
    (a.finish(), b.finish())
}
