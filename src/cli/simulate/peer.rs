//! One peer of a scenario as a process of its own, which `simulate --processes` starts.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use serde_json::json;

use crate::cli::Failure;
use crate::cli::join::read_addresses;
use crate::cli::progress::Progress;
use crate::net::driver::{self, Interpose, NodeConfig, Report};
use crate::net::metrics::stage_name;
use crate::node::Event;
use crate::peer::{self, Handle, Timed, leave_on_signals};
use crate::protocol::context::Context;
use crate::protocol::view::Stage;
use crate::session::Peer;
use crate::sim::outcome::digest;
use crate::sim::participants::{Participants, randomness};
use crate::sim::scenario::File;
use crate::sim::tally::{Count, PURPOSES, Purpose};

/// One peer of a scenario as a process of its own; `simulate --processes` starts them
///
/// Its randomness follows from the scenario's seed, so that it does what the simulated peer does, and nothing
/// that it masks is secret. Hence it takes neither a session file nor a key nor rows: session, key and rows
/// are the scenario's, and the key follows from the same seed. `join` has no way to be given randomness.
#[derive(Debug, Args)]
#[command(hide = true)]
pub(in crate::cli) struct SimulatedPeer {
    /// The scenario
    file: PathBuf,
    /// Its small form
    #[arg(long)]
    small: bool,
    /// Which of its runs, from 0
    #[arg(long)]
    run: usize,
    #[arg(long)]
    seed: u64,
    /// Which peer, from 0
    #[arg(long)]
    peer: u16,
    /// How often the peer was started before
    #[arg(long)]
    start: u32,
    /// Where promises and results are kept
    #[arg(long)]
    state: PathBuf,
    /// Where the scenario lets the peer crash: it stops at AGGREGATE.STAGE, and is killed
    #[arg(long, value_name = "AGGREGATE.STAGE")]
    crash_at: Option<String>,
}

/// The slot and stage at which the scenario lets a peer crash.
#[derive(Debug)]
struct Crash(u32, Stage);

impl Interpose for Crash {
    fn stops_at(&self, slot: u32, stage: Stage) -> bool {
        (self.0, self.1) == (slot, stage)
    }
}

/// What was sent so far, as a line.
fn sent(progress: &Progress, sent: &[Count]) {
    progress.tell(&json!({"event": "sent", "sent": sent}), "");
}

impl SimulatedPeer {
    pub(in crate::cli) fn run(self) -> Result<(), Failure> {
        let progress = Progress::new(true);
        let result = self.play(&progress);
        if let Err(failure) = &result {
            progress.tell(&json!({"event": "error", "message": failure.to_string()}), "");
        }
        result
    }

    /// What stops the peer where it crashes.
    fn interpose(&self, ctx: &Context) -> Result<Option<Box<dyn Interpose>>, Failure> {
        const STAGES: [Stage; 6] =
            [Stage::Keys, Stage::Compute, Stage::Sum, Stage::Accept, Stage::Release, Stage::Open];
        let Some(text) = &self.crash_at else { return Ok(None) };
        let wrong = || Failure::Input(format!("--crash-at {text}: expected AGGREGATE.STAGE"));
        let (aggregate, stage) = text.split_once('.').ok_or_else(wrong)?;
        let slot = ctx.plan.iter().position(|known| known.name == aggregate).ok_or_else(wrong)?;
        let stage = STAGES.into_iter().find(|known| stage_name(*known) == stage).ok_or_else(wrong)?;
        let slot = u32::try_from(slot).map_err(|_| wrong())?;
        Ok(Some(Box::new(Crash(slot, stage))))
    }

    fn play(&self, progress: &Progress) -> Result<(), Failure> {
        let input = |error: crate::sim::scenario::ScenarioError| Failure::Input(error.0);
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
        let stop = Arc::new(AtomicBool::new(false));
        let plan = NodeConfig {
            session: Arc::new(cast.session.clone()),
            ctx: ctx.clone(),
            task: cast.tasks[me.index()].clone(),
            seed: randomness(scenario.seed, me, self.start),
            mark: None,
            state: self.state.clone(),
            listen: vec![Multiaddr::from(Ipv4Addr::LOCALHOST).with(Protocol::Tcp(0))],
            mdns: false,
            network_key: None,
            watched: false,
            trace: None,
            interpose: self.interpose(&ctx)?,
            stop: stop.clone(),
        };
        let mut counts = vec![Count::default(); PURPOSES.len()];
        let result = driver::run(plan, &mut |report| {
            // Before it is told that it is there, for then it is killed.
            if matches!(report, Report::Held(..)) {
                sent(progress, &counts);
            }
            if let Some(event) = peer::Event::of(&ctx, &report) {
                progress.event(&Timed { time: peer::unix(), event }, "", None);
            }
            match report {
                Report::Started(handle) => {
                    let handle = Handle::new(handle, stop.clone());
                    leave_on_signals(handle.clone());
                    read_addresses(handle);
                }
                Report::Sent(_, message, bytes) => counts[Purpose::of(message) as usize].add(bytes),
                Report::Node(Event::Stage(..)) => sent(progress, &counts),
                Report::Node(Event::Finished(history)) => {
                    progress.tell(&json!({"event": "finished", "result": digest(history.vectors())}), "");
                }
                _ => {}
            }
        });
        sent(progress, &counts);
        result.map(drop).map_err(|error| peer::Error::from(error).into())
    }
}
