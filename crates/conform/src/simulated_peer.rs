//! One peer of a scenario as a process of its own, which `simulate-processes` starts.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use flyswarm::cli::Failure;
use flyswarm::net::driver::{self, NodeConfig, Report, peer_id};
use flyswarm::node::Event;
use flyswarm::peer::{self, Multiaddr};
use flyswarm::session::Peer;
use flyswarm::sim::outcome::digest;
use flyswarm::sim::participants::{Participants, randomness};
use flyswarm::sim::scenario::{File, ScenarioError};
use flyswarm::sim::tally::{Count, PURPOSES, Purpose};
use flyswarm_sealed_sum::crypto::identity::PublicKey;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::join::Switches;

/// Run one peer of a scenario as a process of its own; `simulate-processes` starts these processes
///
/// The scenario's seed determines the key and all random numbers of the process. So the process does the same
/// as the simulated peer, and its masked values are not secret. Session, key and rows come from the scenario,
/// so they are not arguments.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct SimulatedPeer {
    /// Scenario file
    file: PathBuf,
    /// Use the small variant of the scenario
    #[arg(long)]
    small: bool,
    /// Number of the run, from 0
    #[arg(long)]
    run: usize,
    #[arg(long)]
    seed: u64,
    /// Number of the peer, from 0
    #[arg(long)]
    peer: u16,
    /// Number of earlier starts of the peer
    #[arg(long)]
    start: u32,
    /// Folder for the state and results of the peer
    #[arg(long)]
    state: PathBuf,
    /// Stage at which the scenario lets the peer crash: the process stops at AGGREGATE.STAGE, and is
    /// killed
    #[arg(long, value_name = "AGGREGATE.STAGE")]
    hold_at: Option<String>,
}

fn tell(value: &Value) {
    let mut out = std::io::stdout().lock();
    // The reader of the lines may have ended; the session continues.
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// Line that gives the address of another peer.
#[derive(Deserialize)]
struct Known {
    peer: String,
    address: Multiaddr,
}

fn read_addresses(handle: driver::Handle) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let Ok(Known { peer, address }) = serde_json::from_str(&line) else { continue };
            if let Ok(key) = peer.parse::<PublicKey>() {
                handle.add_address(peer_id(&key), address);
            }
        }
    });
}

impl SimulatedPeer {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let result = self.play();
        if let Err(failure) = &result {
            tell(&json!({"event": "error", "message": failure.to_string()}));
        }
        result
    }

    fn play(self) -> Result<(), Failure> {
        let input = |error: ScenarioError| Failure::Input(error.0);
        let mut file = File::load(&self.file, self.small).map_err(input)?;
        if self.run >= file.runs.len() {
            return Err(Failure::Input(format!("{}: has {} runs", self.file.display(), file.runs.len())));
        }
        let (_, mut scenario) = file.runs.swap_remove(self.run);
        if self.peer >= scenario.peers {
            return Err(Failure::Input(format!("{}: has {} peers", self.file.display(), scenario.peers)));
        }
        scenario.seed = self.seed;
        let me = Peer(self.peer);
        let cast = Participants::new(&scenario, &file.folder).map_err(input)?;
        let ctx = Arc::new(cast.context(me));
        let switches = Switches { hold_at: self.hold_at, ..Switches::default() };
        let loopback: Multiaddr =
            "/ip4/127.0.0.1/tcp/0".parse().map_err(|error| Failure::Input(format!("loopback: {error}")))?;
        let plan = NodeConfig {
            session: Arc::new(cast.session.clone()),
            ctx: ctx.clone(),
            task: cast.tasks[me.index()].clone(),
            seed: randomness(scenario.seed, me, self.start),
            mark: None,
            state: self.state,
            listen: vec![loopback],
            mdns: false,
            network_key: None,
            watched: false,
            trace: None,
            interpose: Some(Box::new(switches.node(&ctx)?)),
            serves: Vec::new(),
            farewell: |_, _| None,
            stop: Arc::new(AtomicBool::new(false)),
        };
        let slot = |slot: u32| ctx.plan.get(slot as usize).map(|aggregate| &*aggregate.name);
        let mut counts = vec![Count::default(); PURPOSES.len()];
        let result = driver::run(plan, &mut |report| {
            // The count is printed before "held", because the peer is killed as soon as it is held.
            if matches!(report, Report::Held(..) | Report::Node(Event::Stage(..))) {
                tell(&json!({"event": "sent", "sent": counts}));
            }
            match report {
                Report::Started(handle) => read_addresses(handle),
                Report::Listening(address) => tell(&json!({"event": "listening", "address": address})),
                Report::Held(at, stage) => tell(&json!({"event": "held", "slot": slot(at), "stage": stage})),
                Report::Sent(_, message, bytes) => counts[Purpose::of(message) as usize].add(bytes),
                Report::Node(Event::ViewBegan(ballot, _)) => {
                    tell(&json!({"event": "view", "view": ballot.to_string()}));
                }
                Report::Node(Event::Stage(at, stage)) => {
                    tell(&json!({"event": "stage", "slot": slot(*at), "stage": stage}));
                }
                Report::Node(Event::Finished(history)) => {
                    tell(&json!({"event": "finished", "result": digest(history.vectors())}));
                }
                _ => {}
            }
        });
        tell(&json!({"event": "sent", "sent": counts}));
        result.map(drop).map_err(|error| peer::Error::from(error).into())
    }
}
