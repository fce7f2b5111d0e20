//! Jobs: long computations that drivers run outside of the machine.

use std::sync::Arc;

use bytes::Bytes;
use chacha20::rand_core::SeedableRng;
use zeroize::Zeroizing;

use crate::crypto::mask::Sign;
use crate::protocol::all_reduce;
use crate::protocol::context::Context;
use crate::protocol::pairwise::{Mask, Masks};
use crate::protocol::record::Committed;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::Rng;
use crate::task::{History, Task, exchange};

/// A piece of long work.
#[derive(Clone)]
pub enum Job {
    /// Make this peer's vector of a slot.
    Contribution {
        /// The slot.
        slot: u32,
        /// The task that makes it.
        task: Arc<dyn Task>,
        /// The opened slots so far.
        history: Arc<History>,
        /// Randomness for a vector with noise.
        noise: Option<Noise>,
    },
    /// Mask a chunk.
    Mask(all_reduce::Job),
    /// Work of an exchange.
    Exchange(SumId, exchange::Job),
    /// Remove the pads from a decided total.
    Open {
        /// The plan.
        ctx: Arc<Context>,
        /// The decision and its pads.
        committed: Committed,
        /// The sealed total. It is opened in its own memory if no other owner shares it.
        total: Bytes,
    },
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Contribution { slot, .. } => write!(f, "Contribution({slot}, <redacted>)"),
            Self::Mask(job) => job.fmt(f),
            Self::Exchange(_, job) => job.fmt(f),
            Self::Open { committed, .. } => write!(f, "Open({committed:?})"),
        }
    }
}

/// Fresh randomness for the noise of one vector; secret.
#[derive(Clone)]
pub struct Noise(Zeroizing<[u8; 32]>);

impl Noise {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self(Zeroizing::new(seed))
    }

    /// Returns the generator with this randomness as its seed.
    #[must_use]
    pub fn generator(&self) -> Rng {
        Rng::from_seed(*self.0)
    }
}

impl std::fmt::Debug for Noise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Noise(<redacted>)")
    }
}

/// The result of a [`Job`].
#[derive(Clone, Debug)]
pub enum Done {
    /// The vector, or the reason why it was not made.
    Contribution(u32, Result<Bytes, String>),
    /// The masked chunk.
    Mask(all_reduce::Done),
    /// The result of an exchange's work.
    Exchange(SumId, exchange::Done),
    /// The opened words; for the coin, the seed.
    Open {
        /// The decision and its pads, as in the job.
        committed: Committed,
        /// The words without pads.
        opened: Bytes,
    },
}

impl Job {
    /// Returns whether the job takes no longer than handing it to another thread.
    pub fn is_brief(&self) -> bool {
        matches!(self, Self::Exchange(_, job) if job.brief)
    }

    /// Runs the job.
    #[must_use]
    pub fn run(self) -> Done {
        match self {
            Self::Contribution { slot, task, history, noise } => {
                let expected =
                    task.plan().get(slot as usize).map_or(0, crate::protocol::context::Aggregate::len);
                let result = match noise {
                    _ if slot == 0 => Ok(Bytes::new()),
                    None => task.contribution(slot, &history),
                    Some(noise) => task.noisy_contribution(slot, &history, &mut noise.generator()),
                };
                let result = result.and_then(|vector| {
                    if vector.len() == expected {
                        Ok(vector)
                    } else {
                        Err(format!(
                            "vector of slot {slot} has {} bytes, the plan says {expected}",
                            vector.len()
                        ))
                    }
                });
                Done::Contribution(slot, result)
            }
            Self::Mask(job) => Done::Mask(job.run()),
            Self::Exchange(sum, job) => Done::Exchange(sum, job.run()),
            Self::Open { ctx, committed, total } => {
                let opened = open(&ctx, &committed, total);
                Done::Open { committed, opened }
            }
        }
    }
}

/// Removes the pads from a total; for slot 0, derives the seed.
#[must_use]
pub(super) fn open(ctx: &Context, committed: &Committed, total: Bytes) -> Bytes {
    if committed.record.value.sum.slot == 0 {
        return Bytes::copy_from_slice(&committed.seed(ctx));
    }
    let mut words = total.try_into_mut().unwrap_or_else(|shared| shared[..].into());
    pads(ctx, committed, Sign::Subtract).apply(&mut words, 0);
    words.freeze()
}

/// Returns the pads of a decision. Added to the opened vector, they give the sealed total again.
pub(super) fn pads(ctx: &Context, committed: &Committed, sign: Sign) -> Masks {
    let sum = committed.record.value.sum;
    let pads = committed.pads.iter();
    let masks = pads.map(|pad| Mask::new(Arc::new((*pad).into()), "pad", sum, sign)).collect();
    Masks { word: ctx.plan[sum.slot as usize].word(), masks }
}
