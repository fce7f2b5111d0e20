//! Exact truncation: shares of floor((z + 2^(g-1)) / 2^g), without any probability of error.
//!
//! Truncating shares one by one (Mohassel & Rindal, *ABY3*, CCS 2018) fails with a probability that grows
//! with z. Over the steps of a propagation, it would fail several times. Here |z| < 2^62, so
//! `v = z + 2^62 + 2^(g-1)` is in [0, 2^63). Two roles hold v = t_0 + t_1 mod 2^64, and
//!
//! ```text
//! floor(v / 2^g) = floor(t_0 / 2^g) + floor(t_1 / 2^g) + carry - wrap 2^(64-g)
//! ```
//!
//! Here carry is the carry of the low g bits. The top bit of v is 0, so wrap = 1 exactly if a top bit of
//! t_0 or t_1 is set. Both are computed on bits. The complements of the top bits are one more plane.

use super::bits::{b2a_part, carry, planes, words};
use super::primitives::{deal, in_thirds, multiply_all, reshare};
use super::round::Side;
use super::{Context, Shared};

/// Returns shares of floor((z + 2^(bits-1)) / 2^bits) from each party's part of z, |z| < 2^62; `bits` from
/// 1 to 62.
pub async fn truncate(context: &mut Context, part: &[u64], bits: u32) -> Shared<u64> {
    let thirds = in_thirds(context, part.len(), 64, |mut context, range| {
        let part = &part[range];
        Box::pin(async move { truncate_part(&mut context, part, bits).await })
    });
    Shared::concat(&thirds.await)
}

async fn truncate_part(context: &mut Context, part: &[u64], bits: u32) -> Shared<u64> {
    let (len, width) = (part.len(), words(part.len()));
    let halves = split(context, part, bits).await;
    let low = halves.as_ref().map(|halves| {
        let word = |&t: &u64| (t & ((1 << bits) - 1)) | ((!t >> 63) << bits);
        planes(&halves.iter().map(word).collect::<Vec<u64>>(), bits as usize + 1)
    });
    let of_role = |role: usize| low.as_deref().filter(|_| context.role() == role).map(<[_]>::to_vec);
    let (zero, one) = (of_role(0), of_role(1));
    let count = bits as usize + 1;
    let x = deal(context, 0, count * width, zero.as_deref());
    let y = deal(context, 1, count * width, one.as_deref());
    context.round().await;
    let x = x.receive(context).chunks(width);
    let y = y.receive(context).chunks(width);
    let pairs: Vec<_> = x.iter().zip(&y).collect();
    let mut generate = multiply_all(context, &pairs).await;
    // The product of the last plane is 1 if neither top bit is set: no wrap.
    let unwrapped = generate.pop().unwrap_or_default();
    let propagate = x[..count - 1].iter().zip(&y).map(|(a, b)| a.plus(b)).collect();
    let carried = carry(context, generate, propagate).await;
    let over = 1u64.wrapping_shl(64 - bits);
    let ([mut sum], _) = b2a_part(context, &[carried, unwrapped], len, [&[1, over]]).await;
    if let Some(halves) = halves {
        let offset = if context.role() == 0 { over.wrapping_add((1 << 62) >> bits) } else { 0 };
        let shifted = halves.iter().map(|t| (t >> bits).wrapping_sub(offset));
        sum.iter_mut().zip(shifted).for_each(|(sum, t)| *sum = sum.wrapping_add(t));
    }
    reshare(context, sum).await
}

/// Returns t_0 at role 0 and t_1 at role 1, which add up to v. Role 2 gives its part to role 1, with a
/// mask that it shares with role 0.
async fn split(context: &mut Context, part: &[u64], bits: u32) -> Option<Vec<u64>> {
    let step = context.step();
    let sum = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a.wrapping_add(*b)).collect::<Vec<u64>>();
    match context.role() {
        0 => {
            let mask: Vec<u64> = step.draw(Side::Before, part.len());
            let offset = (1u64 << 62) + (1 << (bits - 1));
            context.round().await;
            let shifted = part.iter().zip(mask).map(|(z, r)| z.wrapping_sub(r).wrapping_add(offset));
            Some(shifted.collect())
        }
        1 => {
            context.round().await;
            Some(sum(part, &context.receive::<u64>(Side::After, part.len())))
        }
        _ => {
            let mask = step.draw(Side::After, part.len());
            context.send(Side::Before, &sum(part, &mask));
            context.round().await;
            None
        }
    }
}
