//! The task `sketch` computes the distance of each peer's records from those of all peers, and draws peers
//! (Liu, Xu, Coleman & Shrivastava, NeurIPS 2023, Algorithms 1 and 3, without a server; spec, section "Task
//! sketch").
//!
//! The slots are the coin, whose seed determines the hashes; `holders`, the number of members with records;
//! `moments` if the scaling needs them; and `sketch`, the counters and the number of records. Depending on
//! the session, there are three more. `scores` has each peer's distance at the peer's own index. `pairwise`
//! has each peer's own sketch at the peer's own index. `draw` sums random words of all members: a second
//! coin, which no peer can predict before the scores are committed.
//!
//! With `privacy.epsilon`, only the number of records is opened exactly. The slots are the coin, `sketch`,
//! and those that the session publishes. For `sketch` each peer draws one noisy sketch
//! (`DistributionSketch::release`), only once. The published slots are computed only from this release and
//! from open values (docs/privacy.md).
//!
//! The task `flynn` can draw its peers in this way (`select`). It first runs these slots, and then its own.
//! The second slot is then called `present` instead of `holders`.

pub(crate) mod compare;
mod kind;
mod report;
pub(crate) mod spec;

pub use kind::KIND;
pub(crate) use kind::built_in;
pub(crate) use report::{names, selection};

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use sha2::Digest;
use zeroize::Zeroizing;

use super::common::columns;
use super::common::holders::{self, HOLDERS};
use super::{History, RowUse, Task, Work};
use crate::crypto::mask::{self, Wide};
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::data::Dataset;
use crate::data::prepare::TableSchema;
use crate::model::selection::{self, Draw};
use crate::privacy::Ratio;
use crate::protocol::context::{Aggregate, Kind as Summed};
use crate::protocol::view::Rng;
use crate::session::{Peer, Session};
use crate::sketch::distribution::private::{PrivateSketch, noise_variance};
use crate::sketch::distribution::{Distance, DistributionSketch, RowHashes, SketchError};
use crate::tasks::SketchSpec;
use flyswarm_data::scaling::{ColumnSums, Scaler, Scaling, ScalingError};

/// Number of records that are scaled together.
const BATCH: usize = 4096;
/// Round number in the session's draw (spec, section "Task sketch", *Selection*).
const ROUND: u32 = 0;
/// Value of a share of 1 in the slot `pairwise`.
const ONE: f64 = (1u32 << 30) as f64;

/// Plan of a session. It follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Plan {
    session: Session,
    spec: SketchSpec,
    scaling: Scaling,
    /// Budget of a peer's release, if sketches are private.
    epsilon: Option<Ratio>,
}

/// Task of one peer.
#[derive(Debug)]
pub struct SketchTask {
    plan: Plan,
    me: Peer,
    data: Arc<Dataset>,
    /// Describes how a table became these rows, if the session describes columns. It has the values that
    /// replaced missing ones.
    preparation: Option<Arc<TableSchema>>,
    secret: Zeroizing<[u8; 32]>,
    /// Sketch of this peer. It is set when the slots before `sketch` have been committed.
    own: OnceLock<DistributionSketch>,
    /// Release of this peer's sketch, if sketches are private.
    released: Mutex<Option<PrivateSketch>>,
}

/// Opened sketch of all records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Global {
    /// Exact sketch.
    Exact(DistributionSketch),
    /// Sum of the peers' releases.
    Private(PrivateSketch),
}

/// The opened sketches of all peers, or `None` for peers without records.
#[derive(Clone, Debug)]
enum Sketches {
    /// For each counter, the share of the peer's records.
    Exact(Vec<Option<Vec<f64>>>),
    /// Release of each peer.
    Private(Vec<Option<PrivateSketch>>),
}

/// Result of the opened vectors.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Sketch of all records.
    pub global: Global,
    /// Published distance of every peer, in the order of the roster, or `None` for peers without records. The
    /// list is empty if no distances are published.
    pub published: Vec<Option<f64>>,
    /// Distance between the sketches of every two peers (mean over rows), or `None` if one of the two has no
    /// records. The list is empty if the peers' sketches are not opened.
    pub matrix: Vec<Vec<Option<f64>>>,
    /// Drawn peers, and the coin of the draw (32 bytes).
    pub draw: Option<(Draw, Bytes)>,
    /// SHA-256(tag "sketch" || session id || opened vector of the slot `sketch`), the same at every peer.
    pub digest: [u8; 32],
}

/// Reason why a sketch could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// No records can have the opened counters, or the session's sizes do not form a sketch.
    #[error("the sketch: {0}")]
    Sketch(#[from] SketchError),
    /// The opened moments are invalid.
    #[error("the opened moments: {0}")]
    Moments(#[from] ScalingError),
    /// An aggregate that is needed has not been opened.
    #[error("{0} is not open")]
    Closed(&'static str),
    /// A peer has published an impossible distance or sketch.
    #[error("{0} published an invalid {1}")]
    Published(Peer, &'static str),
}

impl Plan {
    /// Makes the plan of a session of the task `sketch`, or of another session that draws peers (`select`),
    /// with these parameters.
    #[must_use]
    pub fn new(session: Session, spec: SketchSpec) -> Self {
        let epsilon = session.privacy.noise.map(|noise| noise.each(&session));
        Self { scaling: session.data.scaling.of_rows(), session, spec, epsilon }
    }

    /// Returns the aggregates of the session. If the session has a `select`, these are the aggregates up to
    /// the draw.
    #[must_use]
    pub fn aggregates(&self) -> Vec<Aggregate> {
        let SketchSpec { rows, range, open_distances, pairwise, .. } = self.spec;
        let (counters, peers) = (u64::from(rows) * u64::from(range), self.session.roster.len() as u64);
        let aggregate = |name, words, is, [exact, noisy]: [&'static str; 2]| {
            Aggregate::exact(name, 4, words, is, if self.epsilon.is_some() { noisy } else { exact })
        };
        let mut plan = vec![Aggregate::coin()];
        // The words are the counters and the number of records. A private session has one more word, the
        // number of releases.
        let words = counters + if self.epsilon.is_some() { 2 } else { 1 };
        if self.epsilon.is_none() {
            // If the session has a `select`, the name `holders` belongs to a later slot, which counts only
            // drawn peers.
            let name = if self.session.selects() { "present" } else { "holders" };
            plan.push(Aggregate { name: name.into(), ..holders::aggregate(0) });
        }
        if let Some(sums) = self.opens_moments() {
            plan.push(columns::aggregate(self.session.data.features, sums));
        }
        let kind = if self.epsilon.is_some() { Summed::Noised } else { Summed::Exact };
        let reveals = "how dense all rows together are at any point; if a given row has a counter that is 0, that this row is not among them";
        plan.push(Aggregate { kind, ..aggregate("sketch", words, "a sketch of all rows", [reveals; 2]) });
        if open_distances {
            let reveals = [
                "how far each peer's rows lie from all rows, by peer",
                "how far each peer's rows lie from all rows, by peer; computed from the noisy sketches",
            ];
            plan.push(aggregate("scores", peers, "distances of peers", reveals));
        }
        if pairwise {
            let words = if self.epsilon.is_some() { words } else { counters };
            let reveals = [
                "how dense each peer's own rows are at any point",
                "how dense each peer's own rows are at any point; with noise",
            ];
            plan.push(aggregate("pairwise", peers * words, "sketches of each peer", reveals));
        }
        if self.spec.selection().is_some() {
            plan.push(aggregate("draw", 8, "who is drawn", ["which peers were drawn"; 2]));
        }
        plan
    }

    /// Returns which sums over the columns the session opens.
    fn opens_moments(&self) -> Option<ColumnSums> {
        self.session.data.opens_moments(self.scaling.needs_moments())
    }

    /// Returns the opened vector of the aggregate with this name.
    fn opened<'a>(&self, name: &'static str, opened: &'a [Bytes]) -> Result<&'a Bytes, TaskError> {
        let slot = self.aggregates().iter().position(|aggregate| aggregate.name == name);
        slot.and_then(|slot| opened.get(slot)).ok_or(TaskError::Closed(name))
    }

    /// Makes the hashes that the opened seed determines.
    pub fn hashes(&self, opened: &[Bytes]) -> Result<Box<dyn RowHashes>, TaskError> {
        let SketchSpec { hash, rows, range, .. } = self.spec;
        let width = self.scaling.width(self.session.data.features as usize);
        Ok(hash.hashes(self.opened("coin", opened)?, rows as usize, range as usize, width)?)
    }

    /// Makes the sketch of these records from the opened vectors.
    pub fn sketch(&self, data: &Dataset, opened: &[Bytes]) -> Result<DistributionSketch, TaskError> {
        let mut sketch = DistributionSketch::new(self.spec.rows as usize, self.spec.range as usize)?;
        if data.rows() == 0 {
            return Ok(sketch);
        }
        let hashes = self.hashes(opened)?;
        let moments = match self.scaling.needs_moments() {
            Some(_) => Some(&self.opened("moments", opened)?[..]),
            None => None,
        };
        let scaler = Scaler::opened(&self.scaling, self.session.data.features as usize, moments)?;
        for first in (0..data.rows()).step_by(BATCH) {
            let rows: Vec<usize> = (first..data.rows().min(first + BATCH)).collect();
            sketch.extend(&*hashes, &scaler.transform(&data.subset(&rows)))?;
        }
        Ok(sketch)
    }

    /// Returns the opened sketch of all records.
    pub fn global(&self, opened: &[Bytes]) -> Result<Global, TaskError> {
        let words = words(self.opened("sketch", opened)?);
        let (rows, range) = (self.spec.rows as usize, self.spec.range as usize);
        Ok(match self.epsilon {
            None => Global::Exact(DistributionSketch::from_words(&words, rows, range)?),
            Some(_) => Global::Private(PrivateSketch::from_words(&words, rows, range)?),
        })
    }

    /// Returns the variance of the noise on a counter of one release.
    fn variance(&self) -> f64 {
        self.epsilon.map_or(0.0, |epsilon| noise_variance(epsilon, self.spec.rows as usize))
    }

    /// Returns the published scores; 0 for a peer that has none.
    fn scores(&self, opened: &[Bytes]) -> Result<Vec<u32>, TaskError> {
        let scores = words(self.opened("scores", opened)?);
        // Exact distances are at most the square root of 2. With noise a distance may be larger.
        let most = selection::score(if self.epsilon.is_some() { f64::INFINITY } else { 2f64.sqrt() });
        match scores.iter().position(|&score| score > most) {
            Some(peer) => Err(TaskError::Published(place(peer), "distance")),
            None => Ok(scores),
        }
    }

    /// Returns the sketches of all peers, if they are opened.
    fn sketches(&self, opened: &[Bytes]) -> Result<Sketches, TaskError> {
        let words = words(self.opened("pairwise", opened)?);
        let (rows, range) = (self.spec.rows as usize, self.spec.range as usize);
        if self.epsilon.is_some() {
            let release = |(peer, words): (usize, &[u32])| {
                let release = PrivateSketch::from_words(words, rows, range)?;
                let nothing = words.iter().all(|&word| word == 0);
                if !nothing && release.releases() != 1 {
                    return Err(TaskError::Published(place(peer), "sketch"));
                }
                Ok(Some(release).filter(|release| release.records() > 0))
            };
            let releases = words.chunks_exact(rows * range + 2).enumerate().map(release);
            return Ok(Sketches::Private(releases.collect::<Result<_, TaskError>>()?));
        }
        let sketch = |(peer, words): (usize, &[u32])| {
            if words.iter().all(|&word| word == 0) {
                return Ok(None);
            }
            // The shares of a row must add up to 1, except for rounding errors of at most half a unit each.
            let sound = |row: &[u32]| {
                let sum: u64 = row.iter().map(|&share| u64::from(share)).sum();
                sum.abs_diff(1 << 30) <= range as u64 / 2
            };
            if !words.chunks_exact(range).all(sound) {
                return Err(TaskError::Published(place(peer), "sketch"));
            }
            Ok(Some(words.iter().map(|&share| f64::from(share) / ONE).collect()))
        };
        Ok(Sketches::Exact(
            words.chunks_exact(rows * range).enumerate().map(sketch).collect::<Result<_, _>>()?,
        ))
    }

    /// Returns the distance between every two peers' sketches.
    fn matrix(&self, opened: &[Bytes]) -> Result<Vec<Vec<Option<f64>>>, TaskError> {
        fn of_pairs<S>(
            sketches: &[Option<S>],
            between: impl Fn(&S, &S) -> Result<Distance, SketchError>,
        ) -> Result<Vec<Vec<Option<f64>>>, SketchError> {
            let pair = |one: &Option<S>, other: &Option<S>| match (one, other) {
                (Some(one), Some(other)) => Ok(Some(between(one, other)?.row_mean)),
                _ => Ok(None),
            };
            sketches.iter().map(|one| sketches.iter().map(|other| pair(one, other)).collect()).collect()
        }
        let (range, variance) = (self.spec.range as usize, self.variance());
        Ok(match self.sketches(opened)? {
            Sketches::Exact(all) => of_pairs(&all, |one, other| Ok(Distance::between(range, one, other)))?,
            Sketches::Private(all) => of_pairs(&all, |one, other| {
                // If both are copies of one release, their noise is the same and cancels.
                if one == other { one.distance(other, 0.0) } else { one.distance(other, variance) }
            })?,
        })
    }

    /// Returns the draw, which follows from the opened scores and the second coin, or `None` if the session
    /// draws no peers.
    pub fn draw(&self, opened: &[Bytes]) -> Result<Option<Draw>, TaskError> {
        let Some(selection) = self.spec.selection() else { return Ok(None) };
        Ok(Some(selection.draw(self.opened("draw", opened)?, ROUND, &self.scores(opened)?)))
    }

    /// Computes the result from the opened vectors of the whole plan.
    pub fn outcome(&self, opened: &[Bytes]) -> Result<Outcome, TaskError> {
        let published = if self.spec.open_distances { self.scores(opened)? } else { Vec::new() };
        let draw = self.draw(opened)?;
        let coin = draw.as_ref().map(|_| self.opened("draw", opened)).transpose()?;
        let sealed = self.opened("sketch", opened)?;
        Ok(Outcome {
            global: self.global(opened)?,
            published: published.into_iter().map(selection::distance).collect(),
            matrix: if self.spec.pairwise { self.matrix(opened)? } else { Vec::new() },
            draw: draw.zip(coin.cloned()),
            digest: tagged_hash("sketch")
                .chain_update(self.session.id().0)
                .chain_update(sealed)
                .finalize()
                .into(),
        })
    }
}

impl Global {
    /// Returns the number of rows (R) and the range (B).
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::Exact(sketch) => sketch.shape(),
            Self::Private(sketch) => sketch.shape(),
        }
    }

    /// Returns the number of records that the sketch counts.
    #[must_use]
    pub fn records(&self) -> u32 {
        match self {
            Self::Exact(sketch) => sketch.records(),
            Self::Private(sketch) => sketch.records(),
        }
    }

    /// Returns the counters, row after row. If they have noise, they may be negative.
    #[must_use]
    pub fn counters(&self) -> Vec<i64> {
        match self {
            Self::Exact(sketch) => sketch.counters().iter().map(|&counter| counter.into()).collect(),
            Self::Private(sketch) => sketch.counters().to_vec(),
        }
    }
}

impl SketchTask {
    /// Makes a peer with these rows. There may be none, and labels are ignored. No other peer may know
    /// `secret`, because this peer's part of the second coin follows from it.
    pub fn new(
        session: Session,
        spec: SketchSpec,
        me: Peer,
        data: Arc<Dataset>,
        secret: &[u8; 32],
    ) -> Result<Self, TaskError> {
        let features = session.data.features as usize;
        if data.features() != features {
            let text = format!("rows have {} features, the session has {features}", data.features());
            return Err(TaskError::Data(text));
        }
        // Checks the number of rows, so that no counter of the sum can overflow: a counter is at most the
        // number of rows of all peers.
        let noised = session.privacy.noise.is_some();
        let capacity = if noised { mask::noised_capacity } else { mask::capacity };
        holders::fits_ring(&session, &data, capacity).map_err(TaskError::Data)?;
        let secret = Zeroizing::new(*secret);
        let preparation = session.data.preparation.clone();
        let plan = Plan::new(session, spec);
        Ok(Self { plan, me, data, preparation, secret, own: OnceLock::new(), released: Mutex::new(None) })
    }

    /// Returns the plan of the session.
    #[must_use]
    pub fn session_plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the session of the task.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.plan.session
    }

    /// Returns this peer's own sketch.
    fn own(&self, opened: &[Bytes]) -> Result<&DistributionSketch, TaskError> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let made = self.plan.sketch(&self.data, opened)?;
        Ok(self.own.get_or_init(|| made))
    }

    fn released(&self) -> MutexGuard<'_, Option<PrivateSketch>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the distance of this peer's records from those of all peers. In a private session it is
    /// computed from the peer's release. Returns `None` if the peer has no records, or if it has no release
    /// because it came after the sketch was opened.
    pub fn distance(&self, opened: &[Bytes]) -> Result<Option<Distance>, TaskError> {
        if self.data.rows() == 0 {
            return Ok(None);
        }
        Ok(match self.plan.global(opened)? {
            Global::Exact(global) => Some(self.own(opened)?.distance(&global)?),
            Global::Private(global) => {
                let released = self.released();
                let variance = self.plan.variance();
                released.as_ref().map(|release| release.distance_within(&global, variance)).transpose()?
            }
        })
    }

    fn vector(&self, name: &str, opened: &[Bytes]) -> Result<Bytes, TaskError> {
        let peers = self.plan.session.roster.len();
        Ok(match name {
            "holders" | "present" => holders::vector(0, &self.data),
            "moments" => {
                let moments = self.plan.opens_moments().map_or_else(Vec::new, |sums| sums.of(&self.data));
                Wide::bytes(&moments).into()
            }
            "sketch" => bytes(self.own(opened)?.to_words()),
            "scores" => {
                let score = self.distance(opened)?.map_or(0, |distance| selection::score(distance.row_mean));
                bytes((0..peers).map(|peer| if peer == self.me.index() { score } else { 0 }))
            }
            "pairwise" if self.plan.epsilon.is_some() => {
                let counters = self.plan.spec.rows as usize * self.plan.spec.range as usize;
                let mut all = vec![0; peers * (counters + 2)];
                if let Some(release) = &*self.released() {
                    let own = &mut all[self.me.index() * (counters + 2)..];
                    own.iter_mut().zip(release.to_words()).for_each(|(word, value)| *word = value);
                }
                bytes(all)
            }
            "pairwise" => {
                let own = self.own(opened)?;
                let mut all = vec![0; peers * own.counters().len()];
                let shares = own.shares().into_iter().map(|share| {
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^30")]
                    let units = (share * ONE).round() as u32;
                    units
                });
                all[self.me.index() * own.counters().len()..]
                    .iter_mut()
                    .zip(shares)
                    .for_each(|(word, share)| *word = share);
                bytes(all)
            }
            "draw" => {
                let mut words = vec![0; 32];
                Stream::new(&*self.secret, "sketch/draw", &self.plan.session.id().0).fill(&mut words);
                words.into()
            }
            _ => return Err(TaskError::Closed("such a slot")),
        })
    }

    fn look(&self, slot: u32, opened: &[Bytes]) -> Result<(), TaskError> {
        match self.plan().get(slot as usize).map(|aggregate| &*aggregate.name) {
            Some("sketch") => self.plan.global(opened).map(drop),
            Some("scores") => self.plan.scores(opened).map(drop),
            Some("pairwise") => self.plan.sketches(opened).map(drop),
            _ => Ok(()),
        }
    }
}

impl Task for SketchTask {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.aggregates()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        let aggregate = super::aggregate_of(self, slot)?;
        self.vector(&aggregate.name, history.vectors()).map_err(|error| error.to_string())
    }

    fn noisy_contribution(&self, _slot: u32, history: &History, rng: &mut Rng) -> Result<Bytes, String> {
        let epsilon = self.plan.epsilon.ok_or("the session has no noise")?;
        let release = self.own(history.vectors()).and_then(|own| Ok(own.release(epsilon, rng)?));
        Ok(bytes(release.map_err(|error| error.to_string())?.to_words()))
    }

    fn restore_noisy(&self, _slot: u32, vector: &Bytes) {
        let SketchSpec { rows, range, .. } = self.plan.spec;
        // The caller has checked the length against the plan.
        *self.released() = PrivateSketch::from_words(&words(vector), rows as usize, range as usize).ok();
    }

    /// Returns whether a slot uses this peer's rows. In slots in which each peer publishes words, this
    /// follows from the words at the peer's index.
    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        let published = |count: usize| {
            let words = history.vector(slot).map_or(&[][..], |words| words.as_chunks::<4>().0);
            let each = words.len() / count.max(1);
            words.iter().skip(self.me.index() * each).take(each).any(|word| *word != [0; 4])
        };
        let peers = self.plan.session.roster.len();
        match self.plan.aggregates().get(slot as usize).map(|aggregate| &*aggregate.name) {
            Some("draw") => RowUse::NotUsed,
            Some("scores" | "pairwise") if !published(peers) => {
                RowUse::LeftOut("this peer has released no sketch")
            }
            _ => RowUse::Included,
        }
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<super::Outcome, String> {
        let opened = history.vectors();
        let outcome = self.plan.outcome(opened).map_err(|error| error.to_string())?;
        let distance = self.distance(opened).map_err(|error| error.to_string())?;
        let text = format!("{:#}\n", self.json(&outcome, distance, opened));
        let summary = distance.map_or(String::new(), |distance| {
            format!("distance {:.4} (mean over rows), {:.4} (plain)", distance.row_mean, distance.plain)
        });
        let details = outcome
            .draw
            .as_ref()
            .map(|(draw, _)| report::selection(&self.plan.session, draw))
            .unwrap_or_default();
        let made = super::Outcome::new(text.into_bytes(), outcome.digest).with_summary(summary);
        Ok(super::Outcome { details, ..made })
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let (rows, d) = (self.data.rows() as f64, f64::from(self.plan.session.data.dimension()));
        let SketchSpec { rows: counters, range, .. } = self.plan.spec;
        let plan = self.plan();
        let lift = match plan.get(slot as usize).map(|aggregate| &*aggregate.name) {
            Some("moments") => rows * d,
            Some("sketch") => rows * f64::from(counters) * f64::from(range).log2() * d,
            _ => 0.0,
        };
        Work { lift, ..Work::default() }
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        if self.plan.epsilon.is_some() {
            return Ok(());
        }
        holders::allows(&self.plan.session, slot, history, members)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        if slot == HOLDERS && self.plan.epsilon.is_none() {
            return holders::enough(&self.plan.session, HOLDERS, history.vectors(), 0);
        }
        self.look(slot, history.vectors()).map_err(|error| error.to_string())
    }
}

/// Returns the peer at an index of the roster, which has at most 1,024 peers.
fn place(index: usize) -> Peer {
    Peer(u16::try_from(index).unwrap_or(u16::MAX))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

fn bytes(words: impl IntoIterator<Item = u32>) -> Bytes {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests;
