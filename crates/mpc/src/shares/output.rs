//! Output, which deliberately reveals little: the class of the largest score, and each score in steps
//! of 2^-6 of the sum of its row. Finer scores, or scores multiplied by a degree, would reveal
//! distances.
//!
//! Labels are found by a tournament, quotients by long division with one bit per round of comparisons. The
//! result equals [`crate::propagation::integer::reference::coarse`] bit for bit.

use zeroize::Zeroizing;

use super::bits::{b2a, not, sign, words};
use super::primitives::{LANES, in_thirds, multiply, product_by, reshare_products};
use super::{Bits, Context, Shared, Xor};
use crate::propagation::integer::reference::Output;
use crate::propagation::integer::{COARSE_BITS, Plan};

/// Flag of a point with a label.
const KNOWN: u16 = 1 << 15;

/// Shares of the output at one party, by exclusive or: for each point, two bytes of label and one byte for
/// each class.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes of a point.
    width: usize,
    /// Own share.
    pub own: Zeroizing<Vec<u8>>,
    /// Next share.
    pub next: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({} bytes, <redacted>)", self.own.len())
    }
}

impl Sealed {
    /// Makes the shares of a result that is not for single owners.
    #[must_use]
    pub fn new(own: Vec<u8>, next: Vec<u8>) -> Self {
        Self { width: 1, own: Zeroizing::new(own), next: Zeroizing::new(next) }
    }

    /// Returns shares from which the output of some points follows. Two parties are enough, one right after
    /// the other: the first (`place` 0) gives both of its shares, the second (1) the missing one.
    #[must_use]
    pub fn for_owner(&self, place: usize, points: std::ops::Range<usize>) -> Vec<u8> {
        let range = points.start * self.width..points.end * self.width;
        match place {
            0 => [&self.own[range.clone()], &self.next[range]].concat(),
            1 => self.next[range].to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns both shares, the own one first, for storage.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.own[..], &self.next].concat()
    }

    /// Reads the bytes of [`Sealed::to_bytes`] for `points` points and `classes` classes. Returns `None`
    /// if the length is wrong.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], points: usize, classes: usize) -> Option<Self> {
        let width = classes + 2;
        let (own, next) = bytes.split_at_checked(points * width)?;
        let copy = |share: &[u8]| Zeroizing::new(share.to_vec());
        (next.len() == own.len()).then(|| Self { width, own: copy(own), next: copy(next) })
    }
}

/// Returns an owner's output from two shares and the third, in any order ([`Sealed::for_owner`] gives
/// them). Returns `None` if they are not an output of `points` points and `classes` classes.
#[must_use]
pub fn unseal(points: usize, classes: usize, zero: &[u8], one: &[u8]) -> Option<Output> {
    let width = classes + 2;
    if one.len() != points * width || zero.len() != 2 * one.len() {
        return None;
    }
    let (first, second) = zero.split_at(one.len());
    let bytes: Vec<u8> = first.iter().zip(second).zip(one).map(|((a, b), c)| a ^ b ^ c).collect();
    let mut output = Output::default();
    for row in bytes.chunks_exact(width) {
        let (label, coarse) = row.split_first_chunk::<2>()?;
        let label = u16::from_le_bytes(*label);
        let class = usize::from(label & !KNOWN);
        let known = label & KNOWN != 0;
        if class >= classes || coarse.iter().any(|&q| q > 1 << COARSE_BITS) {
            return None;
        }
        output.labels.push(known.then_some(class as u16));
        output.coarse.extend(coarse);
    }
    Some(output)
}

/// Seals labels and coarse scores, from scores of points x classes.
pub async fn seal(context: &Context, plan: &Plan, scores: &Shared<u64>) -> Sealed {
    let classes = plan.classes();
    let parts = in_thirds(context, plan.points(), 1, |mut context, points| {
        let scores = scores.slice(points.start * classes..points.end * classes);
        Box::pin(async move { seal_part(&mut context, plan, &scores).await })
    });
    let mut whole = Sealed { width: classes + 2, ..Sealed::default() };
    for part in parts.await {
        whole.own.extend_from_slice(&part.own);
        whole.next.extend_from_slice(&part.next);
    }
    whole
}

async fn seal_part(context: &mut Context, plan: &Plan, scores: &Shared<u64>) -> Sealed {
    let (classes, points) = (plan.classes(), scores.len() / plan.classes());
    // Class after class, each in whole words of lanes.
    let lanes = points.next_multiple_of(LANES);
    let scores = scores.map(|share| {
        let of = |at: usize| share.get(at % lanes * classes + at / lanes).filter(|_| at % lanes < points);
        (0..classes * lanes).map(|at| of(at).copied().unwrap_or(0)).collect()
    });
    let bits = plan.score_bits() as usize;
    let below = sign(context, &scores, bits).await;
    let scores = {
        let kept = not(context, below);
        let kept = b2a(context, &[kept], scores.len(), [&[1]]).await;
        multiply(context, &scores, &kept).await
    };
    let by_class = scores.chunks(lanes);
    let sum = by_class.iter().fold(Shared::zeros(lanes), |sum, class| sum.plus(class));
    let label = tournament(context, by_class, lanes, bits).await;
    // The sum is above 0 exactly if its negative is below 0.
    let quotient_bits = plan.quotient_bits() as usize;
    let known = sign(context, &sum.times(u64::MAX), quotient_bits).await;
    let quotients = divide(context, &scores, &sum, classes, quotient_bits).await;
    let width = words(lanes);
    let bytes = |share: fn(&Shared<Bits>) -> &Vec<Bits>| {
        let bit = |plane: &Shared<Bits>, at: usize| share(plane)[at / LANES].0 >> (at % LANES) & 1;
        let value = |planes: &[Shared<Bits>], at: usize| {
            planes.iter().enumerate().fold(0, |value, (place, plane)| value | (bit(plane, at) << place))
                as u16
        };
        let row = |point: usize| {
            let label = value(&label, point) | (bit(&known, point) as u16 * KNOWN);
            let coarse = (0..classes).map(move |class| class * width * LANES + point);
            let coarse: Vec<u8> = coarse.map(|at| value(&quotients, at) as u8).collect();
            label.to_le_bytes().into_iter().chain(coarse).collect::<Vec<u8>>()
        };
        Zeroizing::new((0..points).flat_map(row).collect::<Vec<u8>>())
    };
    Sealed { width: classes + 2, own: bytes(|plane| &plane.own), next: bytes(|plane| &plane.next) }
}

/// Returns the planes of the class with the largest score of each lane. The first of equal scores wins.
async fn tournament(
    context: &mut Context,
    mut scores: Vec<Shared<u64>>,
    lanes: usize,
    bits: usize,
) -> Vec<Shared<Bits>> {
    let (width, places) = (words(lanes), scores.len().next_power_of_two().ilog2() as usize);
    // Class after class: the planes of its number.
    let mut labels: Vec<Shared<Bits>> = (0..scores.len())
        .map(|class| {
            let planes =
                (0..places).flat_map(|place| vec![Xor(u64::MAX * (class as u64 >> place & 1)); width]);
            context.public(&planes.collect::<Vec<Bits>>())
        })
        .collect();
    while scores.len() > 1 {
        let pairs = scores.len() / 2;
        let of = |side: usize| (0..pairs).map(move |pair| 2 * pair + side);
        let first = Shared::concat(of(0).map(|at| &scores[at]));
        let second = Shared::concat(of(1).map(|at| &scores[at]));
        let later = sign(context, &first.minus(&second), bits).await;
        let choice = b2a(context, std::slice::from_ref(&later), first.len(), [&[1]]).await;
        let change = multiply(context, &choice, &second.minus(&first)).await;
        let part = (0..pairs).flat_map(|pair| {
            let later = later.slice(pair * width..(pair + 1) * width);
            product_by(&later, &labels[2 * pair].plus(&labels[2 * pair + 1]))
        });
        let part = part.collect();
        let factors = || {
            let of = |pair: usize| {
                let later = later.slice(pair * width..(pair + 1) * width);
                let labels = labels[2 * pair].plus(&labels[2 * pair + 1]);
                (Shared::concat(std::iter::repeat_n(&later, labels.len() / width.max(1))), labels)
            };
            let (by, labels): (Vec<_>, Vec<_>) = (0..pairs).map(of).unzip();
            vec![(Shared::concat(&by), Shared::concat(&labels))]
        };
        let changes = reshare_products(context, part, factors).await.chunks(places * width);
        let winners = first.plus(&change).chunks(lanes);
        let odd = (!scores.len().is_multiple_of(2)).then(|| (scores.pop(), labels.pop()));
        labels = changes.iter().enumerate().map(|(pair, change)| labels[2 * pair].plus(change)).collect();
        scores = winners;
        if let Some((score, label)) = odd {
            scores.extend(score);
            labels.extend(label);
        }
    }
    labels.first().map_or_else(Vec::new, |planes| planes.chunks(width))
}

/// Returns the planes, lowest first, of floor((2^7 t + s - 1) / (2 s)), or 0 if s is 0, for each class and
/// each lane.
async fn divide(
    context: &mut Context,
    scores: &Shared<u64>,
    sum: &Shared<u64>,
    classes: usize,
    bits: usize,
) -> Vec<Shared<Bits>> {
    let sums = Shared::concat(std::iter::repeat_n(sum, classes));
    let mut rest = context.plus(scores.times(2 << COARSE_BITS).plus(&sums), u64::MAX);
    let mut quotients = Vec::new();
    for place in (0..=COARSE_BITS).rev() {
        let less = rest.minus(&sums.times(2 << place));
        let below = sign(context, &less, bits).await;
        let bit = not(context, below);
        if place > 0 {
            let taken = b2a(context, std::slice::from_ref(&bit), rest.len(), [&[2 << place]]).await;
            rest = rest.minus(&multiply(context, &taken, &sums).await);
        }
        quotients.push(bit);
    }
    quotients.reverse();
    quotients
}
