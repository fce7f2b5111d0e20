//! The tasks of simulated peers: FlyNN on dealt rows, or bare sums; and a peer that poisons either.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::scenario::{Data, Scenario, ScenarioError, Split, TaskKind};
use crate::crypto::mask::{self, Word};
use crate::crypto::stream::Stream;
use crate::data::digits::digits;
use crate::data::split::train_test;
use crate::data::{Dataset, Expected, deal, load};
use crate::model::readout::Readout;
use crate::protocol::context::Quantity;
use crate::protocol::view::Rng;
use crate::session::{DataSpec, FlynnSpec, ModelSpec, Peer, Scaling, Score, Session, Sizes, TaskSpec};
use crate::task::exchange::{Seat, Source};
use crate::task::flynn::{Flynn, Plan};
use crate::task::{History, Outcome, Task, Work};
use crate::task::{sketch, tune, xclp};

/// The rows of a run.
#[derive(Clone, Debug)]
pub struct Rows {
    /// To train on, all of them.
    pub train: Dataset,
    /// To measure accuracy with.
    pub test: Dataset,
    /// Each peer's.
    pub parts: Vec<Arc<Dataset>>,
}

impl Rows {
    /// The set, where it need not be there and is not.
    #[must_use]
    pub fn missing<'a>(data: &'a Data, folder: &Path) -> Option<&'a str> {
        (data.optional && data.set != "digits" && !folder.join(&data.set).exists()).then_some(&data.set)
    }

    /// Reads, splits and deals; `folder` is where the scenario stands.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn deal(data: &Data, peers: u16, seed: u64, folder: &Path) -> Result<Self, ScenarioError> {
        let all = if data.set == "digits" {
            digits()
        } else {
            let labels = (!data.labels.is_empty()).then(|| folder.join(&data.labels));
            let expected = Expected { labels_file: labels.as_deref(), ..Expected::default() };
            load(&folder.join(&data.set), &expected).map_err(|error| ScenarioError(error.to_string()))?
        };
        let seed = seed.to_le_bytes();
        let mut split = train_test(all.labels(), data.test_percent, &seed);
        if data.rows > 0 && data.rows < split.train.len() {
            deal::shuffle(&mut split.train, &mut Stream::new(&seed, "simulation/rows", &[]));
            split.train.truncate(data.rows);
            split.train.sort_unstable();
        }
        let (train, test) = (all.subset(&split.train), all.subset(&split.test));
        let (labels, classes, peers) = (train.labels(), train.classes().len(), usize::from(peers));
        let dealt = match data.split {
            Split::Even => deal::even(train.rows(), peers, &seed),
            Split::ByClass => deal::by_classes(labels, classes, peers, data.holders, &seed),
            Split::Dirichlet => deal::dirichlet(labels, classes, peers, data.alpha, &seed),
            Split::Mixes => deal::mixes(labels, classes, peers, (data.alpha, data.alpha_to), &seed),
        };
        let dealt = dealt.map_err(|error| ScenarioError(format!("data: {error}")))?;
        let parts = dealt.iter().map(|rows| Arc::new(train.subset(rows))).collect();
        Ok(Self { train, test, parts })
    }

    /// What the session says of them.
    #[must_use]
    pub fn spec(&self, scaling: Scaling, densify: bool) -> DataSpec {
        DataSpec {
            features: u32::try_from(self.train.features()).unwrap_or(u32::MAX),
            columns: Vec::new(),
            classes: self.train.classes().to_vec(),
            scaling,
            densify,
            ..DataSpec::default()
        }
    }
}

/// Data and task of the session.
pub fn spec(scenario: &Scenario, rows: Option<&Rows>) -> Result<(DataSpec, TaskSpec), ScenarioError> {
    let task = &scenario.task;
    let Some(rows) = rows else {
        let classes = vec!["a".into(), "b".into()];
        let data = DataSpec { features: 4, classes, ..DataSpec::default() };
        return Ok((data, ModelSpec { m: 16, s: 2, rho: 2, gamma: 0.5, score: Score::Decay }.into()));
    };
    let data = rows.spec(task.scaling, task.densify);
    if task.kind == TaskKind::Sketch {
        let data = DataSpec { classes: Vec::new(), densify: false, ..data };
        return Ok((data, TaskSpec::Sketch(super::sketch::spec(scenario)?)));
    }
    if task.kind == TaskKind::Xclp {
        let data = DataSpec { densify: false, ..data };
        return Ok((data, TaskSpec::Xclp(super::xclp::spec(scenario))));
    }
    let sizes = Sizes { m: task.m.clone(), s: task.s.clone(), rho: task.rho.clone() };
    let model = sizes
        .resolve(&data, Readout { score: task.score, gamma: task.gamma })
        .map_err(|error| ScenarioError(format!("task: {error}")))?;
    let select = task.select.map(|_| super::sketch::spec(scenario)).transpose()?;
    Ok((data, TaskSpec::Flynn(FlynnSpec { model, select })))
}

/// What each peer computes.
///
/// # Errors
/// [`ScenarioError`] when the rows do not fit the session.
pub fn tasks(
    scenario: &Scenario,
    session: &Session,
    rows: Option<&Rows>,
) -> Result<Vec<Arc<dyn Task>>, ScenarioError> {
    match (scenario.task.kind, rows, &session.task) {
        (TaskKind::Flynn, Some(rows), TaskSpec::Flynn(spec)) => rows
            .parts
            .iter()
            .zip((0..scenario.peers).map(Peer))
            .map(|(part, peer)| {
                let secret = super::sketch::secret(scenario, peer);
                Flynn::new(session.clone(), *spec, peer, part.clone(), &secret)
                    .map(|flynn| Arc::new(flynn) as Arc<dyn Task>)
                    .map_err(|error| ScenarioError(error.to_string()))
            })
            .collect(),
        _ => {
            let peers = (0..scenario.peers).map(Peer);
            Ok(peers.map(|me| Arc::new(Numbers::new(scenario, me)) as Arc<dyn Task>).collect())
        }
    }
}

/// What the session's plan is, before there are tasks.
#[must_use]
pub fn plan(scenario: &Scenario, session: &Session) -> Vec<Quantity> {
    if matches!(scenario.task.kind, TaskKind::Sum | TaskKind::RowSum) {
        return Numbers::new(scenario, Peer(0)).plan();
    }
    let session = session.clone();
    match session.task.clone() {
        TaskSpec::Flynn(spec) => Plan::new(session, spec).quantities(),
        TaskSpec::Tune(spec) => tune::Plan::new(session, &spec).quantities(),
        TaskSpec::Xclp(spec) => xclp::Plan::new(session, spec).quantities(),
        TaskSpec::Sketch(spec) => sketch::Plan::new(session, spec).quantities(),
        TaskSpec::Custom(spec) => unreachable!("BUG: a scenario of the custom task {}", spec.name),
    }
}

/// One vector of words below 2^20, drawn from the seed and the peer.
#[derive(Debug)]
struct Numbers {
    me: Peer,
    quantity: Quantity,
    seed: u64,
}

impl Numbers {
    fn new(scenario: &Scenario, me: Peer) -> Self {
        let words = scenario.task.words;
        let quantity = match scenario.task.kind {
            // As even as they can be; where there are more peers than words some have none.
            TaskKind::RowSum => {
                let end = |peer: u16| words * u64::from(peer) / u64::from(scenario.peers);
                Quantity::rows("sum", 4, (0..scenario.peers).map(|peer| end(peer + 1) - end(peer)).collect())
            }
            _ => Quantity::exact("sum", 4, words),
        };
        Self { me, quantity, seed: scenario.seed }
    }
}

impl Task for Numbers {
    fn plan(&self) -> Vec<Quantity> {
        vec![Quantity::coin(), self.quantity.clone()]
    }

    fn contribution(&self, _: u32, _: &History) -> Result<Bytes, String> {
        let mut out = vec![0; self.quantity.len()];
        Stream::new(&self.seed.to_le_bytes(), "simulation/numbers", &self.me.0.to_le_bytes()).fill(&mut out);
        let (words, _) = out.as_chunks_mut::<4>();
        words.iter_mut().for_each(|word| *word = (u32::from_le_bytes(*word) >> 12).to_le_bytes());
        Ok(out.into())
    }

    fn allows(&self, _: u32, _: &History, _: &[Peer]) -> Result<(), String> {
        Ok(())
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<Outcome, String> {
        let sum = history.vector(1).ok_or("nothing was summed")?;
        Ok(Outcome::new(sum.to_vec(), Sha256::digest(sum).into()))
    }

    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }

    fn check(&self, _: u32, _: &History) -> Result<(), String> {
        Ok(())
    }
}

/// Puts something else in than its own data give.
#[derive(Debug)]
pub(super) struct Poisoned(pub(super) Arc<dyn Task>);

impl Task for Poisoned {
    fn plan(&self) -> Vec<Quantity> {
        self.0.plan()
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        self.0.exchange(slot, history, seat)
    }

    fn exchanged(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        self.0.exchanged(slot, result)
    }

    fn retains(&self, slot: u32, frozen: u32) -> bool {
        self.0.retains(slot, frozen)
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        self.0.outcome(history, unix)
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        self.0.work(slot, history)
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let vector = self.0.contribution(slot, history)?;
        let plan = self.plan();
        let quantity = &plan[slot as usize];
        if !["counts", "sum"].contains(&quantity.name.as_str()) {
            return Ok(vector);
        }
        // A thousand more of everything.
        let mut out = vector.to_vec();
        let more: Vec<u8> = (0..quantity.words).flat_map(|_| 1000u32.to_le_bytes()).collect();
        mask::add(Word::W32, &mut out, &more);
        Ok(out.into())
    }

    fn noised(&self, slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        self.0.noised(slot, history, rng)
    }

    fn take_noised(&self, slot: u32, vector: &Bytes) {
        self.0.take_noised(slot, vector);
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        self.0.allows(slot, history, members)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        self.0.check(slot, history)
    }
}
