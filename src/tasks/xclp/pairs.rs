//! Exchanges of owners in pairs: every two owners make shares of the distances between their rows (spec,
//! section 15b, `hamming`), by oblivious transfer ([`ot`]) or homomorphic encryption ([`phe`]). An owner then
//! has its *parts*: shares of the distances of its rows to all points. It sends shares of its parts to the
//! computing members, instead of shares of its codes.
//!
//! Owners meet in rounds. In a round each owner has at most one partner ([`partner`]). So an owner needs
//! memory for only one exchange at a time. Partners exchange vectors of known lengths, numbered from 0 in
//! each direction. The first vector has at most [`FIRST`] bytes. If it comes before the receiver has reached
//! this round, the receiver keeps it. The first vector of the other partner is an answer to it.

mod ot;
mod phe;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use zeroize::Zeroizing;

use super::compute::Setup;
use super::hamming;
use super::talk::Incoming;
use crate::crypto::agreement::SharedKey;
use crate::crypto::stream::{Stream, derive};
use crate::protocol::Fault;
use crate::protocol::sum_id::SumId;
use crate::session::Peer;
use crate::sketch::lsh::Codes;
use crate::tasks::Hamming;

/// Largest number of bytes that may come from a partner before its turn.
const FIRST: usize = 32;
/// If this number of vectors wait to be handled, the partner gets no more credits.
const ROOM: usize = 2;
/// Largest number of vectors that may wait. They include those that were sent before the credits stopped.
const MOST: usize = 8;

const EARLY: Fault = Fault::OutOfOrder("vector of two owners");

/// Returns the number of rounds that `owners` owners need to meet each other.
#[must_use]
pub fn rounds(owners: usize) -> usize {
    owners.next_multiple_of(2) - 1
}

/// Returns the place of the owner that the owner at `place` meets in a round, or `None` if it meets none in
/// this round.
#[must_use]
pub fn partner(owners: usize, round: usize, place: usize) -> Option<usize> {
    let last = rounds(owners);
    // As in a round-robin tournament, the last owner keeps its position and the others rotate.
    let other = match place == last {
        true => (0..last).find(|other| 2 * other % last == round % last)?,
        false => match (round + last - place) % last {
            other if other == place => last,
            other => other,
        },
    };
    (other < owners).then_some(other)
}

/// Returns the masks for the shares of two owners, made from the view key that these two share.
#[must_use]
pub fn masks(key: &[u8; 32], sum: SumId, words: usize) -> Zeroizing<Vec<u16>> {
    let mut bytes = Zeroizing::new(vec![0; 2 * words]);
    Stream::new(key, "pair of owners", &sum.to_bytes()).fill(&mut bytes);
    Zeroizing::new(bytes.as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word)).collect())
}

/// Returns the lengths of the vectors that one side receives: the owner with fewer rows if `smaller` is true,
/// otherwise the other owner.
#[cfg(feature = "internals")]
pub fn lengths(hamming: Hamming, smaller: bool, own: usize, theirs: usize, bits: usize) -> Vec<usize> {
    let expected = Expected::new(hamming, smaller, (own, theirs), bits);
    (0..).map_while(|number| expected.length(number)).collect()
}

/// One side of the exchange of two owners.
pub(super) trait Side: Send {
    /// Returns whether this side can make a vector before it gets the next one.
    fn ready(&self) -> bool;

    /// Estimates the additions and multiplications of the next step.
    fn work(&self) -> u64;

    /// Handles the other side's next vector or, without a vector, makes one on its own. Returns the vector to
    /// send, if any.
    ///
    /// # Errors
    /// If the vector is invalid.
    fn step(&mut self, vector: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault>;

    /// Returns this side's share, a matrix of its rows x the other side's rows, when it is complete.
    fn share(&mut self) -> Option<Zeroizing<Vec<u16>>>;
}

/// Constants of one side.
pub(super) struct Terms {
    session: [u8; 32],
    sum: SumId,
    me: Peer,
    other: Peer,
    /// Rows of the other owner.
    rows: usize,
    codes: Arc<Codes>,
    /// 32 fresh secret bytes.
    secret: Zeroizing<[u8; 32]>,
}

impl Terms {
    /// Returns whether this side has fewer rows. In a tie, the earlier owner counts as having fewer.
    fn is_smaller(&self) -> bool {
        (self.codes.rows(), self.me) < (self.rows, self.other)
    }
}

/// Lengths of the vectors that one side receives.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Ot(ot::Expected),
    Phe(phe::Expected),
}

impl Expected {
    fn new(hamming: Hamming, smaller: bool, (own, theirs): (usize, usize), bits: usize) -> Self {
        match hamming {
            Hamming::Ot => Self::Ot(ot::Expected::new(smaller, own, theirs, bits)),
            _ => Self::Phe(phe::Expected::new(smaller, own, theirs, bits)),
        }
    }

    fn length(&self, number: u32) -> Option<usize> {
        match self {
            Self::Ot(expected) => expected.length(number as usize),
            Self::Phe(expected) => expected.length(number as usize),
        }
    }
}

/// Result of a step: the side again, and the vector that it sends.
pub(super) type Stepped = (Box<dyn Side>, Result<Option<Vec<u8>>, Fault>);

/// A vector to send: its receiver, its number and its bytes.
type Outgoing = (Peer, u32, Vec<u8>);

/// Exchange with the partner of a round.
struct Current {
    other: usize,
    expected: Expected,
    /// `None` while a step is running.
    side: Option<Box<dyn Side>>,
    /// Number of the next vector to receive.
    due: u32,
    sent: u32,
    incoming: Incoming,
    waiting: VecDeque<Vec<u8>>,
    /// Number of credits that the partner will get later.
    owed: usize,
}

/// The exchanges of one owner with all other owners.
pub(super) struct Pairs {
    hamming: Hamming,
    session: [u8; 32],
    sum: SumId,
    owners: Vec<(Peer, usize)>,
    place: usize,
    bits: usize,
    keys: BTreeMap<Peer, SharedKey>,
    seed: Zeroizing<[u8; 32]>,
    codes: Option<Arc<Codes>>,
    round: usize,
    current: Option<Current>,
    /// First vectors that came early, from partners of later rounds.
    first: BTreeMap<Peer, Vec<u8>>,
    parts: Zeroizing<Vec<u16>>,
}

impl Pairs {
    /// Creates the exchanges of this peer, if owners make shares of distances in pairs and this peer has
    /// rows.
    #[must_use]
    pub(super) fn new(setup: &Setup) -> Option<Self> {
        let place = setup.owners.iter().position(|(peer, _)| *peer == setup.ctx.me)?;
        let labels = setup.computation.labels().filter(|labels| labels.hamming.is_pairwise())?;
        labels.rows.as_ref()?;
        Some(Self {
            hamming: labels.hamming,
            session: setup.ctx.id.0,
            sum: setup.sum,
            owners: setup.owners.clone(),
            place,
            bits: labels.plan.settings().bits as usize,
            keys: setup.keys.clone(),
            seed: Zeroizing::new(*derive(&*setup.seed, "pairs of owners", &[])),
            codes: None,
            round: 0,
            current: None,
            first: BTreeMap::new(),
            parts: Zeroizing::new(Vec::new()),
        })
    }

    /// Sets this peer's codes, and begins with its first partner.
    pub(super) fn begin(&mut self, codes: Arc<Codes>) -> Result<(), (Peer, Fault)> {
        let points = self.points(self.owners.len());
        self.parts = Zeroizing::new(vec![0; codes.rows() * points]);
        let own = Zeroizing::new(codes.distances(&codes));
        self.codes = Some(codes);
        self.put(self.place, &own);
        self.meet()
    }

    /// Returns the number of rows of the owners before a place.
    fn points(&self, place: usize) -> usize {
        self.owners[..place].iter().map(|(_, rows)| rows).sum()
    }

    /// Stores the shares of the distances to the rows of one owner.
    fn put(&mut self, other: usize, share: &[u16]) {
        let (points, first, width) =
            (self.points(self.owners.len()), self.points(other), self.owners[other].1);
        let rows = self.parts.chunks_mut(points).zip(share.chunks(width));
        rows.for_each(|(row, share)| row[first..][..width].copy_from_slice(share));
    }

    /// Begins with the partner of this round, or of the next round that has one.
    fn meet(&mut self) -> Result<(), (Peer, Fault)> {
        let Some(codes) = self.codes.clone() else { return Ok(()) };
        let count = self.owners.len();
        let found =
            (self.round..rounds(count)).find_map(|round| Some((round, partner(count, round, self.place)?)));
        let Some((round, other)) = found else {
            self.round = rounds(count);
            return Ok(());
        };
        self.round = round;
        let (peer, rows) = self.owners[other];
        let terms = Terms {
            session: self.session,
            sum: self.sum,
            me: self.owners[self.place].0,
            other: peer,
            rows,
            codes,
            secret: derive(&*self.seed, "pair", &[&self.sum.to_bytes()[..], &peer.0.to_le_bytes()].concat()),
        };
        let expected = self.expected(other);
        let side = match self.hamming {
            Hamming::Ot => ot::side(terms),
            _ => phe::side(terms),
        };
        self.current = Some(Current {
            other,
            expected,
            side: Some(side),
            due: 0,
            sent: 0,
            incoming: Incoming::default(),
            waiting: VecDeque::new(),
            owed: 0,
        });
        match self.first.remove(&peer) {
            Some(first) => self.part(peer, 0, &first, true).map_err(|fault| (peer, fault)),
            None => Ok(()),
        }
    }

    /// Returns the lengths of the vectors that this owner receives from another.
    fn expected(&self, other: usize) -> Expected {
        let [own, theirs] = [self.place, other].map(|place| self.owners[place]);
        let smaller = (own.1, own.0) < (theirs.1, theirs.0);
        Expected::new(self.hamming, smaller, (own.1, theirs.1), self.bits)
    }

    /// Handles a part of vector `number` from another owner.
    ///
    /// # Errors
    /// If this vector is not expected now.
    pub(super) fn part(&mut self, from: Peer, number: u32, data: &[u8], last: bool) -> Result<(), Fault> {
        let other = self.owners.iter().position(|(peer, _)| *peer == from).ok_or(EARLY)?;
        let Some(current) = self.current.as_mut().filter(|current| current.other == other) else {
            // The vector may come early only if this owner is a partner of a later round, and its first
            // vector is not an answer.
            let later = (self.round..rounds(self.owners.len()))
                .any(|round| partner(self.owners.len(), round, self.place) == Some(other));
            let speaks = self.expected(other).length(0).is_some_and(|length| length <= FIRST);
            if !later || !speaks || number > 0 || !last || data.len() > FIRST {
                return Err(EARLY);
            }
            return match self.first.insert(from, data.to_vec()) {
                None => Ok(()),
                Some(_) => Err(EARLY),
            };
        };
        let length = current.expected.length(number).filter(|_| number == current.due).ok_or(EARLY)?;
        current.owed += usize::from(!last);
        if let Some(vector) = current.incoming.take(data, last, length)? {
            current.incoming = Incoming::default();
            current.due += 1;
            current.waiting.push_back(vector);
            if current.waiting.len() > MOST {
                return Err(Fault::OutOfOrder("vector of two owners before others were answered"));
            }
        }
        Ok(())
    }

    /// Returns the partner and the number of credits to give it now.
    pub(super) fn credits(&mut self) -> Option<(Peer, usize)> {
        let current = self.current.as_mut().filter(|current| current.waiting.len() < ROOM)?;
        Some((self.owners[current.other].0, std::mem::take(&mut current.owed)))
    }

    /// Returns the work of the next step and the step itself, or `None` if no step can be made now.
    pub(super) fn step(&mut self) -> Option<(u64, impl FnOnce() -> Stepped + Send + 'static)> {
        let current = self.current.as_mut()?;
        let ready = !current.waiting.is_empty() || current.side.as_ref()?.ready();
        let mut side = current.side.take_if(|_| ready)?;
        let vector = current.waiting.pop_front();
        Some((side.work(), move || {
            let vector = vector.map(Zeroizing::new);
            let made = side.step(vector.as_ref().map(|vector| &vector[..]));
            (side, made)
        }))
    }

    /// Handles the result of a step. Returns the vector to send, with its number.
    ///
    /// # Errors
    /// The owner that sent an invalid vector, or sent a vector before its turn.
    pub(super) fn stepped(&mut self, (mut side, made): Stepped) -> Result<Option<Outgoing>, (Peer, Fault)> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let (other, peer) = (current.other, self.owners[current.other].0);
        let made = made.map_err(|fault| (peer, fault))?;
        let vector = made.map(|vector| (peer, current.sent, vector));
        current.sent += u32::from(vector.is_some());
        match side.share() {
            None => current.side = Some(side),
            Some(mut share) => {
                self.mask(other, &mut share);
                self.put(other, &share);
                self.current = None;
                self.round += 1;
                self.meet()?;
            }
        }
        Ok(vector)
    }

    /// Masks a share so that both shares of two owners are uniform. Without masks, the shares made by
    /// encryption would reveal whether the number of ones of a code is odd.
    fn mask(&self, other: usize, share: &mut [u16]) {
        let key = self.keys.get(&self.owners[other].0);
        let key = key.unwrap_or_else(|| unreachable!("BUG: members of a view share keys"));
        // The masks are a matrix of the earlier owner's rows x the later owner's rows. The earlier owner adds
        // them, and the later owner subtracts them.
        let words = masks(key, self.sum, share.len());
        if self.place < other {
            share.iter_mut().zip(words.iter()).for_each(|(x, mask)| *x = x.wrapping_add(*mask));
        } else {
            let words = Zeroizing::new(hamming::transposed(&words, self.owners[self.place].1));
            share.iter_mut().zip(words.iter()).for_each(|(x, mask)| *x = x.wrapping_sub(*mask));
        }
    }

    /// Returns the partner of this round.
    #[must_use]
    pub(super) fn other(&self) -> Option<Peer> {
        self.current.as_ref().map(|current| self.owners[current.other].0)
    }

    /// Returns the partner that this owner waits for, and the round.
    #[must_use]
    pub(super) fn waits(&self) -> Option<(u32, Peer)> {
        Some((u32::try_from(self.round).unwrap_or(u32::MAX), self.other()?))
    }

    /// Returns this owner's parts when all exchanges are over.
    pub(super) fn take(&mut self) -> Option<Zeroizing<Vec<u16>>> {
        let over = self.codes.is_some() && self.round == rounds(self.owners.len());
        over.then(|| std::mem::replace(&mut self.parts, Zeroizing::new(Vec::new())))
    }
}
