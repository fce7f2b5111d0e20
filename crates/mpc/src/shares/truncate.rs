//! Exact truncation: shares of floor((x + 2^(g-1)) / 2^g), without any probability of error.
//!
//! Truncating shares one by one (Mohassel & Rindal, *ABY3*, CCS 2018) fails with a probability that grows
//! with x. Over the steps of a propagation, it would fail several times. Here |x| < 2^62, so
//! `v = x + 2^62 + 2^(g-1)` is in [0, 2^63). Role 0 knows s = v_0 + v_1 mod 2^64, roles 1 and 2 know v_2, and
//!
//! ```text
//! floor(v / 2^g) = floor(s / 2^g) + floor(v_2 / 2^g) + carry - wrap 2^(64-g)
//! ```
//!
//! Here carry is the carry of the low g bits of s + v_2. The top bit of v is 0, so wrap = 1 exactly if
//! a top bit of s or v_2 is set. The carry and the wrap are computed on bits. The complements of the
//! top bits are one more plane. Role 0 deals all 64 bits of v_0 + v_1, and the carry above them. Role 0
//! must prove each of these bits, and floor(s / 2^g) follows from them.

use super::bits::{addends, b2a_part, carry, not};
use super::primitives::{in_thirds, multiply_all, reshare_proved};
use super::proofs::statements;
use super::{Context, Shared};

/// Returns shares of floor((x + 2^(bits-1)) / 2^bits) for |x| < 2^62; `bits` from 1 to 62.
pub async fn truncate(context: &mut Context, x: &Shared<u64>, bits: u32) -> Shared<u64> {
    let thirds = in_thirds(context, x.len(), 64, |mut context, range| {
        let x = x.slice(range);
        Box::pin(async move { truncate_part(&mut context, x, bits).await })
    });
    Shared::concat(&thirds.await)
}

async fn truncate_part(context: &mut Context, x: Shared<u64>, bits: u32) -> Shared<u64> {
    let (len, kept) = (x.len(), bits as usize);
    let v = context.plus(x, (1 << 62) + (1 << (bits - 1)));
    let [first, second] = addends(context, &v, 65).await;
    let tops = [&first, &second].map(|addend| not(context, addend[63].clone()));
    let mut pairs: Vec<_> = first[..kept].iter().zip(&second).collect();
    pairs.push((&tops[0], &tops[1]));
    let mut generate = multiply_all(context, &pairs).await;
    // The product of the last plane is 1 if neither top bit is set: no wrap.
    let unwrapped = generate.pop().unwrap_or_default();
    let propagate = first[..kept].iter().zip(&second).map(|(a, b)| a.plus(b)).collect();
    let carried = carry(context, generate, propagate).await;
    let over = 1u64.wrapping_shl(64 - bits);
    let (planes, weights) = ([carried, unwrapped], [&[1, over][..]]);
    let ([mut sum], dealt) = b2a_part(context, &planes, len, weights).await;
    let add = |sum: &mut u64, v: u64| *sum = sum.wrapping_add(v >> bits);
    match context.role() {
        0 => sum
            .iter_mut()
            .zip(v.own.iter().zip(&v.next))
            .for_each(|(sum, (a, b))| add(sum, a.wrapping_add(*b))),
        1 => sum.iter_mut().zip(&v.next).for_each(|(sum, &v)| add(sum, v)),
        _ => {}
    }
    let shared = reshare_proved(context, sum, |context, log, shared, masks| {
        let added = statements::floors(context, &v, &first, bits);
        statements::converted(context, log, (&planes, len), &dealt, weights, (shared, masks), added);
    });
    let shared = shared.await;
    context.plus(shared, over.wrapping_add((1 << 62) >> bits).wrapping_neg())
}
