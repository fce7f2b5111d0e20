//! A sum of which each peer gets its own row alone:
//! `cargo run --release --no-default-features --example row-sum`.
//!
//! Patients whom one hospital discharges come back to another, so no hospital knows how its own fare. Each
//! counts, by the hospital that had discharged them, who came back to it and why: a matrix with a row for
//! each hospital. The matrices are summed between five nodes, simulated here, and each hospital learns its
//! own row: how often its patients came back anywhere. Nobody learns another's row, nor who reported what.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use flyswarm::Identity;
use flyswarm::protocol::context::Quantity;
use flyswarm::session::{Session, SessionError};
use flyswarm::sim::participants::Participants;
use flyswarm::sim::run::play;
use flyswarm::sim::scenario::Scenario;
use flyswarm::tasks::{History, Outcome, Task, Work};

const HOSPITALS: u16 = 5;
const REASONS: [&str; 3] = ["infection", "fall", "medicine"];
/// The task's only quantity after the coin.
const RETURNS: u32 = 1;

/// Who came back to one hospital: for each that discharged them, by reason.
#[derive(Debug)]
struct Returns(Vec<[u32; REASONS.len()]>);

impl Returns {
    /// Made up.
    fn to(hospital: u16) -> Self {
        let count = |from: u16, reason: u16| u32::from((7 * hospital + 3 * from + 5 * reason) % 9);
        Self((0..HOSPITALS).map(|from| [0, 1, 2].map(|reason| count(from, reason))).collect())
    }
}

impl Task for Returns {
    fn plan(&self) -> Vec<Quantity> {
        vec![Quantity::coin(), Quantity::rows("returns", 4, vec![REASONS.len() as u64; self.0.len()])]
    }

    fn contribution(&self, _: u32, _: &History) -> Result<Bytes, String> {
        Ok(self.0.iter().flatten().flat_map(|count| count.to_le_bytes()).collect())
    }

    fn outcome(&self, _: &History, _unix: u64) -> Result<Outcome, String> {
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }
    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
}

/// The session of the hospitals with these keys.
fn session(identities: &[Identity]) -> Result<Session, SessionError> {
    let head = "name = \"returns\"\ntask = \"custom\"\n[data]\nfeatures = 1\n[custom]\nname = \"returns\"\n";
    let entry = |(i, identity): (usize, &Identity)| {
        format!("[[roster]]\nname = \"hospital-{i}\"\npeer_id = \"{}\"\n", identity.public())
    };
    let roster: String = identities.iter().enumerate().map(entry).collect();
    Session::parse(&format!("{head}{roster}"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let identities: Vec<_> = (1..=HOSPITALS as u8).map(|i| Identity::from_seed([i; 32])).collect();
    let participants = Participants::with_tasks(session(&identities)?, identities, |hospital| {
        Ok(Arc::new(Returns::to(hospital.0)))
    })?;
    let quantity = participants.plan()[RETURNS as usize].clone();
    let swarm = play(&Scenario { peers: HOSPITALS, ..Scenario::default() }, participants)?;
    println!("{:10} {:24}   what all others hold of its row", "hospital", REASONS.join(" "));
    for (peer, finished) in &swarm.finished {
        let words = |bytes: &[u8]| {
            bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect::<Vec<_>>()
        };
        let held = words(&finished.opened()[RETURNS as usize][quantity.block(*peer)]);
        match &finished.history.parts()[&RETURNS] {
            Ok(part) => println!("{:10} {:24}   {held:?}", peer.0, format!("{:?}", words(part.bytes()))),
            Err(missing) => println!("{:10} {missing}", peer.0),
        }
    }
    match swarm.checks.violations.first() {
        Some(violation) => Err(violation.text.clone().into()),
        None => Ok(()),
    }
}
