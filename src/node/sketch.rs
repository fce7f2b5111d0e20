//! The task `sketch`: how far each peer's records lie from those of all, and which peers are to take part in a round of something (Liu, Xu, Coleman &
//! Shrivastava, NeurIPS 2023, Algorithms 1 and 3, without a server; spec, section "Task sketch").
//!
//! Slots: the coin, whose seed fixes the hashes; `holders`, how many members have records; `moments` where the scaling needs them; `sketch`, the counters and
//! the number of records; where the session says so `scores`, every peer's distance in its own place, `pairwise`, every peer's own sketch in its
//! own place, and `draw`, random words of every member: their sum is a second coin, which nobody can know before the scores are frozen.
//!
//! A task that draws its peers so (`select`, [`super::flynn`]) goes through these slots first, the second of them called `present`, and then its own.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sha2::Digest;
use zeroize::Zeroizing;

use super::Task;
use super::holders::{self, HOLDERS};
use crate::crypto::stream::Stream;
use crate::crypto::tagged_hash;
use crate::data::Dataset;
use crate::model::selection::{self, Draw};
use crate::protocol::context::Quantity;
use crate::protocol::record::Value;
use crate::session::{Peer, Session, SketchSpec};
use crate::sketch::distribution::{Distance, DistributionSketch, RowHashes, SketchError};
use crate::sketch::scaling::{self, Moments, Scaler, Scaling, ScalingError};

/// Records that are scaled at a time.
const BATCH: usize = 4096;
/// A share of 1 in the slot `pairwise`.
const ONE: f64 = (1u32 << 30) as f64;

/// What follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Rules {
    session: Session,
    spec: SketchSpec,
    scaling: Scaling,
}

/// One peer's part.
#[derive(Debug)]
pub struct SketchTask {
    rules: Rules,
    me: Peer,
    data: Arc<Dataset>,
    secret: Zeroizing<[u8; 32]>,
    /// Its own sketch, once the slots before it are frozen.
    own: OnceLock<DistributionSketch>,
}

/// What the opened vectors say.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of all records.
    pub global: DistributionSketch,
    /// The distance that every peer has published, in the order of the roster, `None` for those without records; empty where none are published.
    pub published: Vec<Option<f64>>,
    /// Each peer's sketch as shares, likewise.
    pub sketches: Vec<Option<Vec<f64>>>,
    /// Who was drawn, and the coin of it (32 bytes).
    pub draw: Option<(Draw, Bytes)>,
    /// SHA-256(tag "sketch" || session id || opened vector of the slot `sketch`): the same at every peer.
    pub digest: [u8; 32],
}

/// Why there is no sketch.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The rows do not fit the session.
    #[error("{0}")]
    Data(String),
    /// The opened counters are not those of any records, or the session's sizes make no sketch.
    #[error("the sketch: {0}")]
    Sketch(#[from] SketchError),
    /// The opened moments are no moments.
    #[error("the opened moments: {0}")]
    Moments(#[from] ScalingError),
    /// A quantity that this depends on is not open.
    #[error("{0} is not open")]
    Closed(&'static str),
    /// A peer has published what can be no distance or sketch.
    #[error("{0} has published {1}, which is none of any records")]
    Published(Peer, &'static str),
}

impl Rules {
    /// Of a session of task `sketch`, or with a `select`.
    #[must_use]
    pub fn new(session: Session) -> Self {
        let spec = session.sketch.unwrap_or_default();
        Self { scaling: session.data.scaling.of_rows(), session, spec }
    }

    /// The quantities of the session, with a `select` those up to the draw.
    #[must_use]
    pub fn plan(&self) -> Vec<Quantity> {
        let SketchSpec { rows, range, publish, pairwise, .. } = self.spec;
        let (counters, peers) = (u64::from(rows) * u64::from(range), self.session.roster.len() as u64);
        let quantity = Quantity::exact;
        let mut holders = holders::quantity(0);
        if self.session.selects() {
            // The task counts the holders among the drawn peers for itself.
            holders.name = "present".into();
        }
        let mut plan = vec![Quantity::coin(), holders];
        if let Some(squares) = self.scaling.needs_moments() {
            let words = Moments::words(self.session.data.features as usize, squares) as u64;
            plan.push(quantity("moments", 8, words));
        }
        plan.push(quantity("sketch", 4, counters + 1));
        if publish {
            plan.push(quantity("scores", 4, peers));
        }
        if pairwise {
            plan.push(quantity("pairwise", 4, peers * counters));
        }
        if self.spec.selection().is_some() {
            plan.push(quantity("draw", 4, 8));
        }
        plan
    }

    /// What was opened under this name.
    fn opened<'a>(&self, name: &'static str, opened: &'a [Bytes]) -> Result<&'a Bytes, TaskError> {
        let slot = self.plan().iter().position(|quantity| quantity.name == name);
        slot.and_then(|slot| opened.get(slot)).ok_or(TaskError::Closed(name))
    }

    /// The hashes that the opened seed fixes.
    pub fn hashes(&self, opened: &[Bytes]) -> Result<Box<dyn RowHashes>, TaskError> {
        let SketchSpec { hash, rows, range, .. } = self.spec;
        let width = self.scaling.width(self.session.data.features as usize);
        Ok(hash.hashes(self.opened("coin", opened)?, rows as usize, range as usize, width)?)
    }

    /// The sketch of these records under what was opened.
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

    /// The sketch of all records, as opened.
    pub fn global(&self, opened: &[Bytes]) -> Result<DistributionSketch, TaskError> {
        let words = words(self.opened("sketch", opened)?);
        Ok(DistributionSketch::from_words(&words, self.spec.rows as usize, self.spec.range as usize)?)
    }

    /// The published scores, 0 for none.
    fn scores(&self, opened: &[Bytes]) -> Result<Vec<u32>, TaskError> {
        let scores = words(self.opened("scores", opened)?);
        // No distance is above the square root of 2.
        let most = selection::score(2f64.sqrt());
        match scores.iter().position(|&score| score > most) {
            Some(peer) => Err(TaskError::Published(place(peer), "a distance")),
            None => Ok(scores),
        }
    }

    /// Every peer's sketch as shares, where these are opened.
    fn sketches(&self, opened: &[Bytes]) -> Result<Vec<Option<Vec<f64>>>, TaskError> {
        let words = words(self.opened("pairwise", opened)?);
        let (rows, range) = (self.spec.rows as usize, self.spec.range as usize);
        let sketch = |(peer, words): (usize, &[u32])| {
            if words.iter().all(|&word| word == 0) {
                return Ok(None);
            }
            // Each share is rounded to half a unit at most.
            let sound = |row: &[u32]| {
                let sum: u64 = row.iter().map(|&share| u64::from(share)).sum();
                sum.abs_diff(1 << 30) <= range as u64 / 2
            };
            if !words.chunks_exact(range).all(sound) {
                return Err(TaskError::Published(place(peer), "a sketch"));
            }
            Ok(Some(words.iter().map(|&share| f64::from(share) / ONE).collect()))
        };
        words.chunks_exact(rows * range).enumerate().map(sketch).collect()
    }

    /// Who is drawn in a round, by the opened scores and coin; `None` where the session draws nobody. The session's own draw is round 0; whatever goes on in
    /// rounds may go on drawing.
    pub fn draw(&self, round: u32, opened: &[Bytes]) -> Result<Option<Draw>, TaskError> {
        let Some(selection) = self.spec.selection() else { return Ok(None) };
        Ok(Some(selection.draw(self.opened("draw", opened)?, round, &self.scores(opened)?)))
    }

    /// What the opened vectors of the whole plan say.
    pub fn outcome(&self, opened: &[Bytes]) -> Result<Outcome, TaskError> {
        let published = if self.spec.publish { self.scores(opened)? } else { Vec::new() };
        let draw = self.draw(0, opened)?;
        let coin = draw.as_ref().map(|_| self.opened("draw", opened)).transpose()?;
        let sealed = self.opened("sketch", opened)?;
        Ok(Outcome {
            global: self.global(opened)?,
            published: published.into_iter().map(selection::distance).collect(),
            sketches: if self.spec.pairwise { self.sketches(opened)? } else { Vec::new() },
            draw: draw.zip(coin.cloned()),
            digest: tagged_hash("sketch").chain_update(self.session.id().0).chain_update(sealed).finalize().into(),
        })
    }
}

impl Outcome {
    /// The distance between every two peers' sketches (mean over rows), `None` where one has no records; empty where sketches are not opened.
    #[must_use]
    pub fn matrix(&self) -> Vec<Vec<Option<f64>>> {
        let range = self.global.shape().1;
        let between = |one: &Option<Vec<f64>>, other: &Option<Vec<f64>>| {
            Some(Distance::between(range, one.as_ref()?, other.as_ref()?).row_mean)
        };
        self.sketches.iter().map(|one| self.sketches.iter().map(|other| between(one, other)).collect()).collect()
    }
}

impl SketchTask {
    /// A peer with these rows, which may be none; labels are not looked at. `secret` is known to nobody else: its part of the second coin follows from it.
    pub fn new(session: Session, me: Peer, data: Arc<Dataset>, secret: &[u8; 32]) -> Result<Self, TaskError> {
        let features = session.data.features as usize;
        if data.features() != features {
            let text = format!("rows have {} features, the session says {features}", data.features());
            return Err(TaskError::Data(text));
        }
        // No counter of the sum can wrap: it is at most the rows of all peers.
        let most = u32::MAX as usize / session.roster.len();
        if data.rows() > most {
            let text = format!("{} rows, with {} peers at most {most} each", data.rows(), session.roster.len());
            return Err(TaskError::Data(text));
        }
        let secret = Zeroizing::new(*secret);
        Ok(Self { rules: Rules::new(session), me, data, secret, own: OnceLock::new() })
    }

    /// What follows from the session file.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.rules.session
    }

    /// This peer's own sketch.
    fn own(&self, opened: &[Bytes]) -> Result<&DistributionSketch, TaskError> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let made = self.rules.sketch(&self.data, opened)?;
        Ok(self.own.get_or_init(|| made))
    }

    /// How far this peer's records lie from those of all; `None` without records.
    pub fn distance(&self, opened: &[Bytes]) -> Result<Option<Distance>, TaskError> {
        if self.data.rows() == 0 {
            return Ok(None);
        }
        Ok(Some(self.own(opened)?.distance(&self.rules.global(opened)?)?))
    }

    fn vector(&self, name: &str, opened: &[Bytes]) -> Result<Bytes, TaskError> {
        let peers = self.rules.session.roster.len();
        Ok(match name {
            "holders" | "present" => holders::vector(0, &self.data),
            "moments" => {
                let moments = scaling::moments(&self.data, self.rules.scaling.needs_moments() == Some(true));
                moments.iter().flat_map(|word| word.to_le_bytes()).collect()
            }
            "sketch" => bytes(self.own(opened)?.to_words()),
            "scores" => {
                let score = self.distance(opened)?.map_or(0, |distance| selection::score(distance.row_mean));
                bytes((0..peers).map(|peer| if peer == self.me.index() { score } else { 0 }))
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
                Stream::new(&*self.secret, "sketch/draw", &self.rules.session.id().0).fill(&mut words);
                words.into()
            }
            _ => return Err(TaskError::Closed("such a slot")),
        })
    }

    fn look(&self, slot: u8, opened: &[Bytes]) -> Result<(), TaskError> {
        match self.plan().get(usize::from(slot)).map(|quantity| &*quantity.name) {
            Some("sketch") => self.rules.global(opened).map(drop),
            Some("scores") => self.rules.scores(opened).map(drop),
            Some("pairwise") => self.rules.sketches(opened).map(drop),
            _ => Ok(()),
        }
    }
}

impl Task for SketchTask {
    fn plan(&self) -> Vec<Quantity> {
        self.rules.plan()
    }

    fn contribution(&self, slot: u8, opened: &[Bytes]) -> Result<Bytes, String> {
        let plan = self.plan();
        let quantity = plan.get(usize::from(slot)).ok_or("no such slot")?;
        self.vector(&quantity.name, opened).map_err(|error| error.to_string())
    }

    fn allows(&self, slot: u8, values: &[Value], opened: &[Bytes], members: &[Peer]) -> Result<(), String> {
        holders::allows(&self.rules.session, slot, values, opened, members)
    }

    fn check(&self, slot: u8, _values: &[Value], opened: &[Bytes]) -> Result<(), String> {
        if slot == HOLDERS {
            return holders::enough(&self.rules.session, HOLDERS, opened, 0);
        }
        self.look(slot, opened).map_err(|error| error.to_string())
    }
}

/// The peer of a place in the roster, which has at most 1,024.
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
