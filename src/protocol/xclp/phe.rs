//! Secure Hamming distances by homomorphic encryption (spec, section 15c, `phe`): the paper's second way,
//! packed ([`crate::crypto::phe`]) instead of a ciphertext for each bit.
//!
//! The owner with fewer rows (of equal ones the earlier) is the *holder* of a key: it sends the other, the
//! *evaluator*, its rows encrypted, 512 at a time, and gets for each row of the evaluator an answer that
//! holds the inner products with its own rows plus a mask mod 2^15. As 2 (x mod 2^15) is 2 x mod 2^16, |a| -
//! 2 x of the holder and |b| + 2 mask of the evaluator are shares of the distances mod 2^16.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::desk::{Desk, Made};
use super::hamming::{Got as Backend, Pair, ones};
use super::{Exchange, ParcelKind, Setup};
use crate::crypto::phe::{CIPHERTEXT, Holder, Layout, MAX_STRIDE, PUBLIC_KEY, Public};
use crate::protocol::{Fault, Step};
use crate::session::Peer;
use crate::sketch::lsh::Codes;

/// Ciphertexts and answers that are being made or wait to leave.
const AHEAD: usize = 64;
/// Rows of the evaluator that are answered by one job: what is looked up is made once for all of them.
const AT_ONCE: usize = 32;

/// The groups of the rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Rows of the holder.
    pub holder: usize,
    /// Rows of the evaluator.
    pub evaluator: usize,
    /// Bits of a code.
    pub bits: usize,
}

impl Groups {
    /// Number of groups of the holder's rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.holder.div_ceil(MAX_STRIDE)
    }

    /// The holder's rows of a group.
    #[must_use]
    pub fn rows(&self, group: usize) -> Range<usize> {
        (group * MAX_STRIDE).min(self.holder)..((group + 1) * MAX_STRIDE).min(self.holder)
    }

    /// How these lie in ciphertexts: as in the first group, but for their number.
    #[must_use]
    pub fn layout(&self, group: usize) -> Layout {
        Layout { rows: self.rows(group).len(), ..Layout::new(self.holder.min(MAX_STRIDE), self.bits) }
    }

    /// The numbers of a group's ciphertexts.
    #[must_use]
    pub fn ciphertexts(&self, group: usize) -> Range<usize> {
        let each = self.layout(0).ciphertexts();
        group * each..(group + 1) * each
    }

    /// The numbers of a group's answers, one for each row of the evaluator.
    #[must_use]
    pub fn answers(&self, group: usize) -> Range<usize> {
        group * self.evaluator..(group + 1) * self.evaluator
    }
}

/// Ciphertext `number`.
#[must_use]
pub fn encrypt(holder: &Holder, groups: Groups, number: usize, codes: &Codes) -> Vec<u8> {
    let group = number / groups.layout(0).ciphertexts();
    let rows: Vec<&[u64]> = groups.rows(group).map(|row| codes.row(row)).collect();
    let index = number - groups.ciphertexts(group).start;
    holder.encrypt(groups.layout(group), (wire(number), index), &rows)
}

/// The answers of some rows of the evaluator to a group, and its masks; `None` if a ciphertext is none.
#[must_use]
pub fn answers(
    public: &Public,
    groups: Groups,
    (group, ciphertexts): (usize, &[Bytes]),
    (codes, rows): (&Codes, Range<usize>),
    secret: &[u8; 32],
) -> Option<Vec<(Vec<u8>, Vec<u16>)>> {
    let first = (groups.answers(group).start + rows.start) as u64;
    let rows: Vec<&[u64]> = rows.map(|row| codes.row(row)).collect();
    let start = wire(groups.ciphertexts(group).start);
    public.answers(groups.layout(group), (start, ciphertexts), &rows, (secret, first))
}

/// The holder's share of the distances of its rows to one of the evaluator's, from what it decrypted.
pub fn holder_share(codes: &Codes, rows: Range<usize>, opened: &[u16]) -> impl Iterator<Item = u16> {
    rows.zip(opened).map(|(row, x)| ones(codes.row(row)).wrapping_sub(x.wrapping_mul(2)))
}

/// The evaluator's, from its masks.
pub fn evaluator_share(code: &[u64], masks: &[u16]) -> impl Iterator<Item = u16> {
    let ones = ones(code);
    masks.iter().map(move |mask| ones.wrapping_add(mask.wrapping_mul(2)))
}

/// Numbers of ciphertexts and answers: at most 2^16 rows on both sides, so that they fit.
fn wire(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The result of work.
#[derive(Clone)]
pub(super) enum Got {
    Holder(Arc<Holder>),
    Public(Arc<Public>),
    /// A ciphertext has been made.
    Encrypted,
    /// The content of the answer of this number.
    Opened(usize, Vec<u16>),
    /// The masks of the answers from this number on.
    Answered(usize, Vec<Vec<u16>>),
}

/// This peer's part with `other`.
pub(super) fn pair(setup: &Setup, other: Peer, secret: [u8; 32]) -> Box<dyn Pair> {
    let (me, rows) = (setup.me, |peer| setup.roles.rows_of(peer));
    let (own, theirs) = (rows(me), rows(other));
    let secret = Zeroizing::new(secret);
    let share = vec![0; own * theirs];
    if (own, me) < (theirs, other) {
        let groups = Groups { holder: own, evaluator: theirs, bits: setup.bits };
        Box::new(Holding {
            other,
            groups,
            secret,
            begun: false,
            holder: None,
            encrypted: 0,
            encrypting: 0,
            answered: BTreeSet::new(),
            answers: Vec::new(),
            opened: 0,
            codes: None,
            share,
        })
    } else {
        let groups = Groups { holder: theirs, evaluator: own, bits: setup.bits };
        Box::new(Evaluating {
            other,
            groups,
            secret,
            key: None,
            public: None,
            group: 0,
            ciphertexts: BTreeMap::new(),
            whole: Arc::new(Vec::new()),
            begun: 0,
            computing: 0,
            codes: None,
            share,
        })
    }
}

fn nonsense(what: &str) -> Fault {
    Fault::Malformed(format!("{what} with coefficients out of range"))
}

/// The part of the one whose rows are encrypted.
struct Holding {
    other: Peer,
    groups: Groups,
    secret: Zeroizing<[u8; 32]>,
    begun: bool,
    holder: Option<Arc<Holder>>,
    /// Ciphertexts that have been begun, and those that are being made.
    encrypted: usize,
    encrypting: usize,
    answered: BTreeSet<u32>,
    answers: Vec<(usize, Bytes)>,
    opened: usize,
    codes: Option<Arc<Codes>>,
    share: Vec<u16>,
}

impl Holding {
    /// The group whose answers have not all come.
    fn group(&self) -> usize {
        self.answered.len() / self.groups.evaluator
    }
}

impl Pair for Holding {
    fn expected(&self, _desk: &Desk, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>> {
        let ParcelKind::Answer(number) = what else { return None };
        let due = from == self.other
            && self.encrypted == self.groups.ciphertexts(self.group()).end
            && self.groups.answers(self.group()).contains(&(number as usize))
            && !self.answered.contains(&number);
        let bytes = self.groups.layout(self.group()).answer();
        due.then_some(bytes..=bytes)
    }

    fn parcel(&mut self, what: ParcelKind, data: Bytes) {
        if let ParcelKind::Answer(number) = what {
            self.answered.insert(number);
            self.answers.push((number as usize, data));
        }
    }

    fn made(&mut self, got: Backend) {
        match got {
            Backend::Encryption(Got::Holder(holder)) => self.holder = Some(holder),
            Backend::Encryption(Got::Encrypted) => self.encrypting -= 1,
            Backend::Encryption(Got::Opened(number, opened)) => {
                self.opened += 1;
                let Some(codes) = &self.codes else { return };
                let (group, column) = (number / self.groups.evaluator, number % self.groups.evaluator);
                let rows = self.groups.rows(group);
                let places = self.share[rows.start * self.groups.evaluator..].iter_mut();
                let places = places.skip(column).step_by(self.groups.evaluator);
                places.zip(holder_share(codes, rows, &opened)).for_each(|(place, x)| *place = x);
            }
            _ => {}
        }
    }

    fn advance(&mut self, desk: &mut Desk, codes: Option<&Arc<Codes>>, step: &mut Step<Exchange>) {
        let (other, groups) = (self.other, self.groups);
        let Some(codes) = codes else { return };
        if !std::mem::replace(&mut self.begun, true) {
            self.codes = Some(codes.clone());
            let secret = self.secret.clone();
            desk.compute(2_000_000, step, move || {
                let holder = Arc::new(Holder::new(&secret));
                let key = holder.public_key();
                Made::Pair(
                    other,
                    Ok(Backend::Encryption(Got::Holder(holder))),
                    vec![(other, ParcelKind::Key, key.into())],
                )
            });
        }
        let Some(holder) = &self.holder else { return };
        let waiting = desk.parcels.waiting(other, |what| matches!(what, ParcelKind::Ciphertext(_)));
        let room = AHEAD.saturating_sub(self.encrypting + waiting);
        let end =
            if self.group() < groups.count() { groups.ciphertexts(self.group()).end } else { self.encrypted };
        for number in (self.encrypted..end).take(room) {
            let (holder, codes) = (holder.clone(), codes.clone());
            desk.compute(1_000_000, step, move || {
                let ciphertext = encrypt(&holder, groups, number, &codes);
                let parcel = (other, ParcelKind::Ciphertext(wire(number)), ciphertext.into());
                Made::Pair(other, Ok(Backend::Encryption(Got::Encrypted)), vec![parcel])
            });
            self.encrypted += 1;
            self.encrypting += 1;
        }
        for (number, answer) in self.answers.drain(..) {
            let holder = holder.clone();
            desk.compute(1_000_000, step, move || {
                let opened = holder.decrypt(groups.layout(number / groups.evaluator), &answer);
                let got = opened.map(|opened| Backend::Encryption(Got::Opened(number, opened)));
                Made::Pair(other, got.ok_or_else(|| nonsense("an answer")), Vec::new())
            });
        }
    }

    fn waits(&self, _desk: &Desk) -> Option<Peer> {
        let waits = self.answered.len() < self.groups.count() * self.groups.evaluator;
        waits.then_some(self.other)
    }

    fn share(&mut self) -> Option<Vec<u16>> {
        let whole = self.opened == self.groups.count() * self.groups.evaluator && !self.share.is_empty();
        whole.then(|| std::mem::take(&mut self.share))
    }
}

/// The part of the one that computes on ciphertexts.
struct Evaluating {
    other: Peer,
    groups: Groups,
    secret: Zeroizing<[u8; 32]>,
    key: Option<Bytes>,
    public: Option<Arc<Public>>,
    /// The group whose ciphertexts come or are computed on.
    group: usize,
    ciphertexts: BTreeMap<usize, Bytes>,
    /// All of the group.
    whole: Arc<Vec<Bytes>>,
    /// Rows whose answers have been begun, and those that are being made.
    begun: usize,
    computing: usize,
    codes: Option<Arc<Codes>>,
    share: Vec<u16>,
}

impl Pair for Evaluating {
    fn expected(&self, _desk: &Desk, from: Peer, what: ParcelKind) -> Option<RangeInclusive<usize>> {
        let bytes = match what {
            ParcelKind::Key if from == self.other => PUBLIC_KEY,
            ParcelKind::Ciphertext(number)
                if from == self.other
                    && self.group < self.groups.count()
                    && self.whole.is_empty()
                    && self.groups.ciphertexts(self.group).contains(&(number as usize)) =>
            {
                CIPHERTEXT
            }
            _ => return None,
        };
        Some(bytes..=bytes)
    }

    fn parcel(&mut self, what: ParcelKind, data: Bytes) {
        match what {
            ParcelKind::Ciphertext(number) => drop(self.ciphertexts.insert(number as usize, data)),
            _ => self.key = Some(data),
        }
    }

    fn made(&mut self, got: Backend) {
        match got {
            Backend::Encryption(Got::Public(public)) => self.public = Some(public),
            Backend::Encryption(Got::Answered(first, masks)) => {
                self.computing -= masks.len();
                let Some(codes) = &self.codes else { return };
                let columns = self.groups.rows(self.group);
                for (row, masks) in (first % self.groups.evaluator..).zip(masks) {
                    let places = self.share[row * self.groups.holder..][columns.clone()].iter_mut();
                    places.zip(evaluator_share(codes.row(row), &masks)).for_each(|(place, x)| *place = x);
                }
                if self.begun == self.groups.evaluator && self.computing == 0 {
                    self.group += 1;
                    self.begun = 0;
                    self.whole = Arc::new(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn advance(&mut self, desk: &mut Desk, codes: Option<&Arc<Codes>>, step: &mut Step<Exchange>) {
        let (other, groups, group) = (self.other, self.groups, self.group);
        if let Some(key) = self.key.take() {
            desk.compute(1_000_000, step, move || {
                let public = Public::new(&key).ok_or_else(|| nonsense("a key"));
                Made::Pair(
                    other,
                    public.map(|key| Backend::Encryption(Got::Public(Arc::new(key)))),
                    Vec::new(),
                )
            });
        }
        if group < groups.count() && self.ciphertexts.len() == groups.ciphertexts(group).len() {
            self.whole = Arc::new(std::mem::take(&mut self.ciphertexts).into_values().collect());
        }
        let (Some(public), Some(codes)) = (&self.public, codes) else { return };
        self.codes.get_or_insert_with(|| codes.clone());
        while !self.whole.is_empty() && self.begun < groups.evaluator {
            let waiting = desk.parcels.waiting(other, |what| matches!(what, ParcelKind::Answer(_)));
            if self.computing + waiting >= AHEAD {
                break;
            }
            let rows = self.begun..(self.begun + AT_ONCE).min(groups.evaluator);
            self.begun = rows.end;
            self.computing += rows.len();
            let (public, codes, whole) = (public.clone(), codes.clone(), self.whole.clone());
            let secret = self.secret.clone();
            let work = rows.len() * groups.bits / 2 * (groups.rows(group).len() + 4096);
            desk.compute(work, step, move || {
                let first = groups.answers(group).start + rows.start;
                let Some(made) = answers(&public, groups, (group, &whole), (&codes, rows.clone()), &secret)
                else {
                    return Made::Pair(other, Err(nonsense("a ciphertext")), Vec::new());
                };
                let (answers, masks): (Vec<_>, Vec<_>) = made.into_iter().unzip();
                let numbered = (first..).zip(answers);
                let parcels =
                    numbered.map(|(number, answer)| (other, ParcelKind::Answer(wire(number)), answer.into()));
                Made::Pair(other, Ok(Backend::Encryption(Got::Answered(first, masks))), parcels.collect())
            });
        }
    }

    fn waits(&self, _desk: &Desk) -> Option<Peer> {
        let waits = self.group < self.groups.count() && self.whole.is_empty();
        (waits || self.public.is_none()).then_some(self.other)
    }

    fn share(&mut self) -> Option<Vec<u16>> {
        let whole = self.group == self.groups.count() && !self.share.is_empty();
        whole.then(|| std::mem::take(&mut self.share))
    }
}
