//! Every two owners make shares of the distances between their rows (spec, section 15b, `hamming`), by
//! oblivious transfer ([`ot`]) or homomorphic encryption ([`phe`]). What an owner then has of the distances
//! of its rows to all points are its *parts*: it shares these out instead of codes.
//!
//! Owners meet in rounds, in each of which everybody has one partner at most ([`partner`]): so an owner keeps
//! what one exchange takes, whatever the number of owners. With a partner it exchanges vectors of known
//! lengths, numbered from 0 in each direction. Whoever speaks first sends at most [`FIRST`] bytes, which are
//! kept until it is its turn; the first word of all others is an answer.

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
use crate::crypto::stream::{Stream, derive};
use crate::protocol::Fault;
use crate::protocol::sum_id::SumId;
use crate::session::Peer;
use crate::sketch::lsh::Codes;
use crate::tasks::Hamming;

/// Most bytes that may come from a partner before its turn.
const FIRST: usize = 32;
/// Vectors that wait here before the partner gets no more credits.
const ROOM: usize = 2;
/// Vectors that wait here at most: what had left before credits stopped, and pieces of transfers.
const MOST: usize = 8;

const EARLY: Fault = Fault::OutOfOrder("vector of two owners");

/// The rounds in which `owners` meet each other.
#[must_use]
pub fn rounds(owners: usize) -> usize {
    owners.next_multiple_of(2) - 1
}

/// Whom the owner at `place` meets in a round; `None` if nobody.
#[must_use]
pub fn partner(owners: usize, round: usize, place: usize) -> Option<usize> {
    let last = rounds(owners);
    // The last one stands still, the others go round it.
    let other = match place == last {
        true => (0..last).find(|other| 2 * other % last == round % last)?,
        false => match (round + last - place) % last {
            other if other == place => last,
            other => other,
        },
    };
    (other < owners).then_some(other)
}

/// What the owners of a pair mask their shares with, from the key of the view that they share.
#[must_use]
pub fn masks(key: &[u8; 32], sum: SumId, words: usize) -> Zeroizing<Vec<u16>> {
    let mut bytes = Zeroizing::new(vec![0; 2 * words]);
    Stream::new(key, "pair of owners", &sum.to_bytes()).fill(&mut bytes);
    Zeroizing::new(bytes.as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word)).collect())
}

/// The lengths of the vectors that come to one side: to the owner with fewer rows, or to the other.
#[cfg(feature = "internals")]
pub fn lengths(hamming: Hamming, smaller: bool, own: usize, theirs: usize, bits: usize) -> Vec<usize> {
    let expected = Expected::new(hamming, smaller, (own, theirs), bits);
    (0..).map_while(|number| expected.length(number)).collect()
}

/// One side of the exchange of two owners.
pub(super) trait Side: Send {
    /// Whether it makes a vector before it gets the next one.
    fn ready(&self) -> bool;

    /// Additions and multiplications of the next step, about.
    fn work(&self) -> u64;

    /// Takes the other's next vector, or makes one of its own; gives what is to be sent.
    ///
    /// # Errors
    /// If the vector is not what it should be.
    fn step(&mut self, vector: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault>;

    /// This side's share, its rows x the other's, once it has it.
    fn share(&mut self) -> Option<Zeroizing<Vec<u16>>>;
}

/// What one side needs to know.
pub(super) struct Terms {
    session: [u8; 32],
    sum: SumId,
    me: Peer,
    other: Peer,
    /// Rows of the other.
    rows: usize,
    codes: Arc<Codes>,
    /// 32 fresh secret bytes.
    secret: Zeroizing<[u8; 32]>,
}

impl Terms {
    /// Whether this side is that of the owner with fewer rows, of equal ones the earlier.
    fn is_smaller(&self) -> bool {
        (self.codes.rows(), self.me) < (self.rows, self.other)
    }
}

/// The lengths of the vectors that come to one side.
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

/// What a step gave: the side again, and what it sends.
pub(super) type Stepped = (Box<dyn Side>, Result<Option<Vec<u8>>, Fault>);

/// What leaves: to whom, its number, the vector.
type Outgoing = (Peer, u32, Vec<u8>);

/// The exchange with the partner of a round.
struct Current {
    other: usize,
    expected: Expected,
    /// `None` while a step is made.
    side: Option<Box<dyn Side>>,
    /// Numbers of the next vector that comes and of the next that leaves.
    due: u32,
    sent: u32,
    incoming: Incoming,
    waiting: VecDeque<Vec<u8>>,
    /// Credits that are held back.
    owed: usize,
}

/// One owner's part in the exchanges of all pairs.
pub(super) struct Pairs {
    hamming: Hamming,
    session: [u8; 32],
    sum: SumId,
    owners: Vec<(Peer, usize)>,
    place: usize,
    bits: usize,
    keys: BTreeMap<Peer, Arc<[u8; 32]>>,
    seed: Zeroizing<[u8; 32]>,
    codes: Option<Arc<Codes>>,
    round: usize,
    current: Option<Current>,
    /// First words of partners of later rounds.
    first: BTreeMap<Peer, Vec<u8>>,
    parts: Zeroizing<Vec<u16>>,
}

impl Pairs {
    /// The part of this peer, if distances are made by pairs and it has rows.
    #[must_use]
    pub(super) fn new(setup: &Setup) -> Option<Self> {
        let place = setup.owners.iter().position(|(peer, _)| *peer == setup.me)?;
        setup.rows.as_ref().filter(|_| setup.hamming.is_pairwise())?;
        Some(Self {
            hamming: setup.hamming,
            session: setup.session,
            sum: setup.sum,
            owners: setup.owners.clone(),
            place,
            bits: setup.plan.settings().bits as usize,
            keys: setup.keys.clone(),
            seed: Zeroizing::new(*derive(&*setup.seed, "pairs of owners", &[])),
            codes: None,
            round: 0,
            current: None,
            first: BTreeMap::new(),
            parts: Zeroizing::new(Vec::new()),
        })
    }

    /// This peer's codes are there: it meets its first partner.
    pub(super) fn begin(&mut self, codes: Arc<Codes>) -> Result<(), (Peer, Fault)> {
        let points = self.points(self.owners.len());
        self.parts = Zeroizing::new(vec![0; codes.rows() * points]);
        let own = Zeroizing::new(codes.distances(&codes));
        self.codes = Some(codes);
        self.put(self.place, &own);
        self.meet()
    }

    /// Rows of the owners before a place.
    fn points(&self, place: usize) -> usize {
        self.owners[..place].iter().map(|(_, rows)| rows).sum()
    }

    /// The block of distances to the rows of one owner.
    fn put(&mut self, other: usize, share: &[u16]) {
        let (points, first, width) =
            (self.points(self.owners.len()), self.points(other), self.owners[other].1);
        let rows = self.parts.chunks_mut(points).zip(share.chunks(width));
        rows.for_each(|(row, share)| row[first..][..width].copy_from_slice(share));
    }

    /// Begins with the partner of this round, or of the next one in which there is one.
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

    /// What comes from an owner.
    fn expected(&self, other: usize) -> Expected {
        let [own, theirs] = [self.place, other].map(|place| self.owners[place]);
        let smaller = (own.1, own.0) < (theirs.1, theirs.0);
        Expected::new(self.hamming, smaller, (own.1, theirs.1), self.bits)
    }

    /// A part of vector `number` from another owner has come.
    ///
    /// # Errors
    /// If it is not due.
    pub(super) fn part(&mut self, from: Peer, number: u32, data: &[u8], last: bool) -> Result<(), Fault> {
        let other = self.owners.iter().position(|(peer, _)| *peer == from).ok_or(EARLY)?;
        let Some(current) = self.current.as_mut().filter(|current| current.other == other) else {
            // Its turn comes: it is the one who speaks first, with a word that is no answer.
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

    /// The partner, and how many credits it gets now.
    pub(super) fn credits(&mut self) -> Option<(Peer, usize)> {
        let current = self.current.as_mut().filter(|current| current.waiting.len() < ROOM)?;
        Some((self.owners[current.other].0, std::mem::take(&mut current.owed)))
    }

    /// The next step, its work, and the partner that it is for; `None` if there is none now.
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

    /// A step has been made: gives the vector to send and its number.
    ///
    /// # Errors
    /// Who has sent what could not be taken, or speaks before its turn.
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

    /// Makes both shares of a block uniform, which those of the encryption are not: they tell whether the
    /// ones of a code are odd.
    fn mask(&self, other: usize, share: &mut [u16]) {
        let key = self.keys.get(&self.owners[other].0);
        let key = key.unwrap_or_else(|| unreachable!("BUG: members of a view share keys"));
        // Rows of the earlier owner x those of the later, which adds nothing but takes off.
        let words = masks(key, self.sum, share.len());
        if self.place < other {
            share.iter_mut().zip(words.iter()).for_each(|(x, mask)| *x = x.wrapping_add(*mask));
        } else {
            let words = Zeroizing::new(hamming::transposed(&words, self.owners[self.place].1));
            share.iter_mut().zip(words.iter()).for_each(|(x, mask)| *x = x.wrapping_sub(*mask));
        }
    }

    /// The partner of this round.
    #[must_use]
    pub(super) fn other(&self) -> Option<Peer> {
        self.current.as_ref().map(|current| self.owners[current.other].0)
    }

    /// Whom it waits for, and in which round.
    #[must_use]
    pub(super) fn waits(&self) -> Option<(u32, Peer)> {
        Some((u32::try_from(self.round).unwrap_or(u32::MAX), self.other()?))
    }

    /// This owner's parts, once all exchanges are over.
    pub(super) fn take(&mut self) -> Option<Zeroizing<Vec<u16>>> {
        let over = self.codes.is_some() && self.round == rounds(self.owners.len());
        over.then(|| std::mem::replace(&mut self.parts, Zeroizing::new(Vec::new())))
    }
}
