//! Exchange of two owners by homomorphic encryption (spec, section 15c, `phe`): the holder sends the vectors
//! `Key` and `Ciphertexts`, the evaluator an empty vector and `Answers`. The evaluator sends its empty vector
//! first, so that it receives nothing large before it is ready.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::{Side, Terms};
use crate::protocol::Fault;
use crate::sketch::lsh::Codes;
use crate::tasks::xclp::hamming::phe::{self, Groups};
use flyswarm_mpc::phe::{CIPHERTEXT, Holder, PUBLIC_KEY, Public};

/// Number of ciphertexts or answers in a vector; the last vector of a group may have fewer. Tables for the
/// computation are made once for each vector.
pub(super) const AT_ONCE: usize = 32;

/// Lengths of the vectors that one side receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    holds: bool,
    groups: Groups,
}

impl Expected {
    /// Creates the lengths for the holder or for the evaluator.
    pub(super) fn new(holds: bool, own: usize, theirs: usize, bits: usize) -> Self {
        let (holder, evaluator) = if holds { (own, theirs) } else { (theirs, own) };
        Self { holds, groups: Groups { holder, evaluator, bits } }
    }

    pub(super) fn length(&self, number: usize) -> Option<usize> {
        let Some(batch) = number.checked_sub(1) else {
            return Some(if self.holds { 0 } else { PUBLIC_KEY });
        };
        let (group, items) = batch_of(self.groups, batch, !self.holds)?;
        let each = if self.holds { self.groups.layout(group).answer() } else { CIPHERTEXT };
        Some(each * items.len())
    }
}

/// Returns the group of a batch of ciphertexts or answers, and their numbers in this group.
fn batch_of(groups: Groups, batch: usize, ciphertexts: bool) -> Option<(usize, Range<usize>)> {
    let items = if ciphertexts { groups.layout(0).ciphertexts() } else { groups.evaluator };
    let batches = items.div_ceil(AT_ONCE);
    let (group, first) = (batch / batches, batch % batches * AT_ONCE);
    (group < groups.count()).then(|| (group, first..items.min(first + AT_ONCE)))
}

fn nonsense(what: &str) -> Fault {
    Fault::Malformed(format!("{what} with coefficients out of range"))
}

/// Creates one side of the exchange. The owner with fewer rows holds the key.
pub(super) fn side(terms: Terms) -> Box<dyn Side> {
    let holds = terms.is_smaller();
    let Terms { rows, codes, secret, .. } = terms;
    let Expected { groups, .. } = Expected::new(holds, codes.rows(), rows, codes.bits());
    let share = Zeroizing::new(vec![0; codes.rows() * rows]);
    if holds {
        Box::new(Holding { groups, secret, called: false, holder: None, codes, sent: 0, opened: 0, share })
    } else {
        let ciphertexts = Vec::new();
        Box::new(Evaluating {
            groups,
            secret,
            called: false,
            public: None,
            codes,
            ciphertexts,
            made: 0,
            share,
        })
    }
}

struct Holding {
    groups: Groups,
    secret: Zeroizing<[u8; 32]>,
    /// True if the evaluator's empty vector has arrived.
    called: bool,
    holder: Option<Holder>,
    codes: Arc<Codes>,
    /// Number of batches of ciphertexts that were sent.
    sent: usize,
    opened: usize,
    share: Zeroizing<Vec<u16>>,
}

impl Holding {
    /// Returns whether all ciphertexts of the group were sent and some of its answers have not arrived.
    fn is_waiting(&self) -> bool {
        let answered = batch_of(self.groups, self.opened, false).map(|(group, _)| group);
        let next = batch_of(self.groups, self.sent, true).map(|(group, _)| group);
        next.is_none() || next != answered
    }
}

impl Side for Holding {
    fn ready(&self) -> bool {
        self.called && (self.holder.is_none() || !self.is_waiting())
    }

    fn work(&self) -> u64 {
        AT_ONCE as u64 * 1_000_000
    }

    fn step(&mut self, vector: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault> {
        let groups = self.groups;
        match (vector, &self.holder) {
            (Some(_), None) if !self.called => {
                self.called = true;
                Ok(None)
            }
            (None, None) => {
                let holder = Holder::new(&self.secret);
                let key = holder.public_key();
                self.holder = Some(holder);
                Ok(Some(key))
            }
            (None, Some(holder)) => {
                let Some((group, items)) = batch_of(groups, self.sent, true) else { return Ok(None) };
                self.sent += 1;
                let numbers = items.map(|item| groups.ciphertexts(group).start + item);
                Ok(Some(
                    numbers.flat_map(|number| phe::encrypt(holder, groups, number, &self.codes)).collect(),
                ))
            }
            (Some(answers), Some(holder)) if self.is_waiting() => {
                let Some((group, columns)) = batch_of(groups, self.opened, false) else { return Ok(None) };
                self.opened += 1;
                let (layout, rows) = (groups.layout(group), groups.rows(group));
                for (column, answer) in columns.zip(answers.chunks(layout.answer())) {
                    let opened = holder.decrypt(layout, answer).map(Zeroizing::new);
                    let opened = opened.ok_or_else(|| nonsense("an answer"))?;
                    let places = self.share[rows.start * groups.evaluator..].iter_mut().skip(column);
                    let shares = phe::holder_share(&self.codes, rows.clone(), &opened);
                    places.step_by(groups.evaluator).zip(shares).for_each(|(place, x)| *place = x);
                }
                Ok(None)
            }
            (Some(_), _) => Err(Fault::OutOfOrder("answer to what was not sent")),
        }
    }

    fn share(&mut self) -> Option<Zeroizing<Vec<u16>>> {
        let whole = batch_of(self.groups, self.opened, false).is_none();
        whole.then(|| std::mem::take(&mut self.share))
    }
}

struct Evaluating {
    groups: Groups,
    secret: Zeroizing<[u8; 32]>,
    called: bool,
    public: Option<Public>,
    codes: Arc<Codes>,
    /// Ciphertexts of the group that is answered next.
    ciphertexts: Vec<Bytes>,
    /// Number of batches of answers that have been made.
    made: usize,
    share: Zeroizing<Vec<u16>>,
}

impl Evaluating {
    fn has_group(&self) -> bool {
        self.ciphertexts.len() == self.groups.layout(0).ciphertexts()
    }
}

impl Side for Evaluating {
    fn ready(&self) -> bool {
        !self.called || self.has_group()
    }

    fn work(&self) -> u64 {
        match self.has_group() {
            true => (AT_ONCE * self.codes.bits() * 1000) as u64,
            false => 100_000,
        }
    }

    fn step(&mut self, vector: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault> {
        let groups = self.groups;
        match (vector, &self.public) {
            (None, None) => {
                self.called = true;
                Ok(Some(Vec::new()))
            }
            (Some(key), None) => {
                self.public = Some(Public::new(key).ok_or_else(|| nonsense("a key"))?);
                Ok(None)
            }
            (Some(_), Some(_)) if self.has_group() => Err(Fault::OutOfOrder("ciphertexts of another group")),
            (Some(batch), Some(_)) => {
                self.ciphertexts.extend(batch.chunks(CIPHERTEXT).map(Bytes::copy_from_slice));
                Ok(None)
            }
            (None, Some(public)) => {
                let Some((group, rows)) = batch_of(groups, self.made, false) else { return Ok(None) };
                let (codes, secret) = (&self.codes, &self.secret);
                let made =
                    phe::answers(public, groups, (group, &self.ciphertexts), (codes, rows.clone()), secret);
                let made = made.ok_or_else(|| nonsense("a ciphertext"))?;
                self.made += 1;
                let mut out = Vec::new();
                for (row, (answer, masks)) in rows.zip(made) {
                    let masks = Zeroizing::new(masks);
                    let places = &mut self.share[row * groups.holder + groups.rows(group).start..];
                    let shares = phe::evaluator_share(codes.row(row), &masks);
                    places.iter_mut().zip(shares).for_each(|(place, x)| *place = x);
                    out.extend(answer);
                }
                if batch_of(groups, self.made, false).is_none_or(|(next, _)| next > group) {
                    self.ciphertexts.clear();
                }
                Ok(Some(out))
            }
        }
    }

    fn share(&mut self) -> Option<Zeroizing<Vec<u16>>> {
        let whole = batch_of(self.groups, self.made, false).is_none();
        whole.then(|| std::mem::take(&mut self.share))
    }
}
