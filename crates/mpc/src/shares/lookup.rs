//! Table lookup: a public table at a secret index.
//!
//! The low and the high bits of the index become two short one-hot vectors. The entry is then
//! `sum_h high_h (sum_l table[h][l] low_l)`. Its inner sums are local, and its outer sum is one reshare.

use super::bits::{b2a, words};
use super::primitives::{in_thirds, multiply_all, reshare_products};
use super::round::{Part, together};
use super::{Bits, Context, Ring, Shared};

/// Number of index bits of the inner vector.
const LOW: usize = 6;

/// Returns shares mod 2^64 of the entries of `table` at `len` secret indices, given as planes, lowest
/// first. Entries past the end of the table are 0. All entries are below 2^`bits`.
pub async fn lookup(
    context: &Context,
    index: &[Shared<Bits>],
    len: usize,
    table: &[u64],
    bits: usize,
) -> Shared<u64> {
    let weights: Vec<u64> = (0..bits).map(|bit| 1 << bit).collect();
    let weights = &weights;
    let thirds = in_thirds(context, len, 64, |mut context, range| {
        Box::pin(async move {
            let index: Vec<_> =
                index.iter().map(|plane| plane.slice(range.start / 64..words(range.end))).collect();
            let value = lookup_bits(&mut context, &index, table, bits).await;
            b2a(&mut context, &value, range.len(), [weights.as_slice()]).await
        })
    });
    Shared::concat(&thirds.await)
}

/// Returns the planes of the entries.
pub async fn lookup_bits(
    context: &mut Context,
    index: &[Shared<Bits>],
    table: &[u64],
    bits: usize,
) -> Vec<Shared<Bits>> {
    let (low, high) = index.split_at(LOW.min(index.len()));
    let hot = [low, high].map(|index| {
        let mut context = context.split(0);
        Box::pin(async move { one_hot(&mut context, index).await }) as Part<'_, Vec<Shared<Bits>>>
    });
    let mut hot = together(hot.into()).await;
    let (high, low) = (hot.pop().unwrap_or_default(), hot.pop().unwrap_or_default());
    let width = low.first().map_or(0, Shared::len);
    let inner = |bit: usize, entries: &[u64]| {
        let mut inner = Shared::zeros(width);
        let chosen = low.iter().zip(entries).filter(|&(_, entry)| entry >> bit & 1 == 1);
        chosen.for_each(|(low, _)| inner.add(low));
        inner
    };
    if high.is_empty() {
        return (0..bits).map(|bit| inner(bit, table)).collect();
    }
    let mut part = vec![Bits::default(); bits * width];
    for (high, entries) in high.iter().zip(table.chunks(low.len().max(1))) {
        for (bit, out) in part.chunks_mut(width.max(1)).enumerate() {
            out.iter_mut().zip(high.product(&inner(bit, entries))).for_each(|(out, x)| *out = out.add(x));
        }
    }
    let factors = || {
        let pairs = high.iter().zip(table.chunks(low.len().max(1)));
        let of = |(high, entries): (&Shared<Bits>, &[u64])| {
            let inner: Vec<_> = (0..bits).map(|bit| inner(bit, entries)).collect();
            (Shared::concat(std::iter::repeat_n(high, bits)), Shared::concat(&inner))
        };
        pairs.map(of).collect()
    };
    reshare_products(context, part, factors).await.chunks(width)
}

/// Returns, for each value of an index, in order, whether the index has this value. An index without bits
/// is 0.
pub async fn one_hot(context: &mut Context, index: &[Shared<Bits>]) -> Vec<Shared<Bits>> {
    let Some((first, rest)) = index.split_first() else { return Vec::new() };
    let mut hot = vec![super::bits::not(context, first.clone()), first.clone()];
    for bit in rest {
        let pairs: Vec<_> = hot.iter().map(|hot| (hot, bit)).collect();
        let high = multiply_all(context, &pairs).await;
        hot = hot.iter().zip(&high).map(|(hot, high)| hot.plus(high)).chain(high.iter().cloned()).collect();
    }
    hot
}
