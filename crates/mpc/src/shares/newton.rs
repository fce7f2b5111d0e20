//! Reciprocals of the degrees by Newton's iteration. The result equals
//! [`crate::propagation::integer::reference`] bit for bit.
//!
//! The leading bit of each degree is found on shared bits. Its value scales the degree to 28 bits, m in
//! [1/2, 1). In this range, three steps from a fixed start are enough.

use super::balance;
use super::bits::{Adder, a2b, b2a};
use super::primitives::{multiply, multiply_all};
use super::round::{Part, together};
use super::truncate::truncate;
use super::{Bits, Context, Shared};
use crate::propagation::integer::{
    INVERSE_EXCESS, INVERSE_START, NEWTON_BITS, NEWTON_STEPS, Plan, RECIPROCAL_BITS, ROOT_START, VALUE_BITS,
    WEIGHT_BITS,
};

/// Factors for the propagation, made from the degrees and the numbers of labels.
#[derive(Debug, Clone)]
pub struct Reciprocals {
    /// r: 2^G / d, rounded down; 0 if d is 0.
    pub inverses: Shared<u64>,
    /// c = 2^G - d r: the factor of a point's own value.
    pub kept: Shared<u64>,
    /// 2^(F + 6) / sqrt(d); 0 if d is 0.
    pub roots: Shared<u64>,
    /// Factor of the scores of each class, if classes are balanced.
    pub classes: Option<Shared<u64>>,
}

/// Computes the factors for degrees within the limit of the plan, and for labels that are 0 or 1.
pub async fn reciprocals(
    context: &mut Context,
    plan: &Plan,
    degrees: &Shared<u64>,
    labels: &Shared<u64>,
) -> Reciprocals {
    let top = plan.degree_bits() as usize;
    let bits = a2b(context, degrees, top, Adder::Sklansky).await;
    let leading = leading(context, bits).await;
    // Bit t is the leading bit of a degree of length t + 1.
    let scales: Vec<u64> = (0..top as u32).map(|bit| 1 << (NEWTON_BITS - 1 - bit)).collect();
    let [scale, root] = halves(&b2a(context, &leading, degrees.len(), [&scales, &plan.roots()]).await);
    let mantissa = multiply(context, degrees, &scale).await;
    let (mut one, mut two) = (context.split(0), context.split(1));
    let mut parts: Vec<Part<'_, _>> = vec![
        Box::pin(async { inverse(&mut one, &mantissa, &scale).await }),
        Box::pin(async { inverse_root(&mut two, &mantissa, &root).await }),
    ];
    if let Some(table) = plan.balance() {
        let mut three = context.split(2);
        let weights = async move { balance::weights(&mut three, &table, labels, plan.classes()).await };
        parts.push(Box::pin(weights));
    }
    let mut found = together(parts).await;
    let classes = found.get(2).is_some().then(|| found.pop().unwrap_or_default());
    let (roots, inverses) = (found.pop().unwrap_or_default(), found.pop().unwrap_or_default());
    let used = multiply(context, degrees, &inverses).await;
    let kept = context.plus(used.times(u64::MAX), 1 << RECIPROCAL_BITS);
    Reciprocals { inverses, kept, roots, classes }
}

fn halves(whole: &Shared<u64>) -> [Shared<u64>; 2] {
    let half = whole.len() / 2;
    [whole.slice(0..half), whole.slice(half..whole.len())]
}

/// Returns, for each plane, lowest first, whether it is the highest plane that is 1.
pub async fn leading(context: &mut Context, bits: Vec<Shared<Bits>>) -> Vec<Shared<Bits>> {
    // Computes the or of each plane and all above it, by a tree from the top.
    let mut any: Vec<Shared<Bits>> = bits.into_iter().rev().collect();
    let mut span = 1;
    while span < any.len() {
        let updated: Vec<usize> = (0..any.len()).filter(|i| i & span != 0).collect();
        let last = |i: usize| (i & !(span - 1)) - 1;
        let pairs: Vec<_> = updated.iter().map(|&i| (&any[i], &any[last(i)])).collect();
        let both = multiply_all(context, &pairs).await;
        for (&i, both) in updated.iter().zip(both) {
            any[i] = any[i].plus(&any[last(i)]).plus(&both);
        }
        span *= 2;
    }
    let above = std::iter::once(None).chain(any.iter().map(Some));
    let leading =
        any.iter().zip(above).map(|(any, above)| above.map_or_else(|| any.clone(), |above| any.plus(above)));
    let mut leading: Vec<_> = leading.collect();
    leading.reverse();
    leading
}

async fn times(context: &mut Context, x: &Shared<u64>, y: &Shared<u64>, bits: u32) -> Shared<u64> {
    let product = multiply(context, x, y).await;
    truncate(context, &product, bits).await
}

/// Returns c - x.
fn from(context: &Context, c: u64, x: &Shared<u64>) -> Shared<u64> {
    context.plus(x.times(u64::MAX), c)
}

async fn inverse(context: &mut Context, mantissa: &Shared<u64>, scale: &Shared<u64>) -> Shared<u64> {
    let mut y = from(context, INVERSE_START, &mantissa.times(2));
    for _ in 0..NEWTON_STEPS {
        let product = times(context, mantissa, &y, NEWTON_BITS).await;
        y = times(context, &y, &from(context, 2 << NEWTON_BITS, &product), NEWTON_BITS).await;
    }
    let low = context.plus(y, INVERSE_EXCESS.wrapping_neg());
    let bits = 2 * NEWTON_BITS - RECIPROCAL_BITS;
    let product = multiply(context, &low, scale).await;
    // Round down, not to the nearest.
    truncate(context, &context.plus(product, (1u64 << (bits - 1)).wrapping_neg()), bits).await
}

async fn inverse_root(context: &mut Context, mantissa: &Shared<u64>, root: &Shared<u64>) -> Shared<u64> {
    let mut v = from(context, ROOT_START, mantissa);
    for _ in 0..NEWTON_STEPS {
        let square = times(context, &v, &v, NEWTON_BITS).await;
        let product = times(context, mantissa, &square, NEWTON_BITS).await;
        v = times(context, &v, &from(context, 3 << NEWTON_BITS, &product), NEWTON_BITS + 1).await;
    }
    times(context, &v, root, 60 - VALUE_BITS - WEIGHT_BITS / 2).await
}
