//! Real processes: sessions whose nodes are held at a stage, killed, paused and restarted, and the
//! commands `check`, `diff` and `play`. Each test of a session checks how the other peers end.
#![cfg(unix)]
#![allow(clippy::disallowed_methods)] // the tests look at the clock to bound their waiting
#![allow(missing_docs, unreachable_pub)]

/// Swarms of processes, shared with the tests of `flyswarm`. Some of their functions are not used here.
#[path = "../../../tests/processes/check.rs"]
mod check;
#[path = "processes/commands.rs"]
mod commands;
#[path = "processes/cut.rs"]
mod cut;
#[path = "processes/lives.rs"]
mod lives;
#[path = "processes/private.rs"]
mod private;
#[path = "processes/rows.rs"]
mod rows;
#[path = "processes/simulated.rs"]
mod simulated;
#[path = "processes/sketch.rs"]
mod sketch;
#[path = "../../../tests/processes/swarm.rs"]
mod swarm;
#[path = "processes/table.rs"]
mod table;

use std::time::Instant;

use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::members::Claims;
use swarm::Swarm;

/// `join` of this program is `flyswarm join`, with switches.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_flyswarm-conform");

impl Swarm {
    /// Returns the first view's peers in tree order, if all are present: 0 leads, 1 is an inner node,
    /// the others of five are leaves.
    pub fn first_tree(&self) -> Vec<usize> {
        let ballot = Ballot { counter: 1, proposer: self.session.committee()[0] };
        let settings = self.session.settings();
        let tree = Claims::whole(&settings).tree(&settings, ballot).expect("all are there");
        tree.order().iter().map(|peer| peer.index()).collect()
    }

    /// Returns the times of all events of this name, of any peer.
    pub fn log_at(&self, name: &str) -> Vec<Instant> {
        let log = self.log.iter().chain(&self.waiting);
        log.filter(|told| told.value["event"] == name).map(|told| told.at).collect()
    }
}

/// Reports that a test is skipped. The line bypasses the harness, so it is visible although the test
/// passes.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}
