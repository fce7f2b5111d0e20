//! The exact k nearest points of every point, by radix selection on secret thresholds.
//!
//! Point i is lane i, and its candidates j are items. The selection goes through the bits of the key, from
//! the highest on. It counts the remaining candidates whose bit is 0. If these and all chosen points are
//! fewer than k, they are chosen and the others remain candidates. Otherwise they remain candidates and
//! the others are dropped. In the end, all candidates of a point have the same key. Then the same is done
//! with the bits of the public index j, so the lower index wins a tie.

use super::bits::{Adder, add, not};
use super::primitives::{LANES, multiply, product_by, reshare_products};
use super::{Bits, Context, Shared, Xor};

/// Returns planes of 64 lanes that mark whether point i has chosen item j, row j after row j. `keys` are
/// the planes of the key, highest first, of the same shape.
pub async fn nearest(context: &mut Context, keys: &[Shared<Bits>], points: usize, k: usize) -> Shared<Bits> {
    let width = points.div_ceil(LANES);
    // Enough bits for a count of all points and a sign.
    let count = (points as u64).ilog2() as usize + 2;
    let others = others(points, width);
    let mut state = Selection {
        candidates: context.public(&others),
        chosen: Shared::zeros(others.len()),
        missing: (0..count)
            .map(|bit| {
                let ones = u64::MAX * (((1u64 << count) - k as u64) >> bit & 1);
                context.public(&vec![Xor(ones); width])
            })
            .collect(),
        width,
    };
    for (at, key) in keys.iter().enumerate() {
        let zeros = not(context, key.clone());
        let low = if at == 0 {
            // The candidates are public, so the product is local.
            zeros.map(|bits| bits.iter().zip(&others).map(|(a, b)| Xor(a.0 & b.0)).collect())
        } else {
            multiply(context, &state.candidates, &zeros).await
        };
        state.narrow(context, Low::Secret(&low)).await;
    }
    for bit in (0..(points - 1).checked_ilog2().map_or(0, |top| top + 1)).rev() {
        state.narrow(context, Low::Public(bit)).await;
    }
    // Only the k-th candidate is left.
    state.chosen.add(&state.candidates);
    state.chosen
}

/// Returns a public matrix of bits: every item is a candidate of every point except itself.
fn others(points: usize, width: usize) -> Vec<Bits> {
    let mut bits = vec![Xor(0); points * width];
    for (item, row) in bits.chunks_mut(width).enumerate() {
        for point in (0..points).filter(|&point| point != item) {
            row[point / LANES].0 |= 1 << (point % LANES);
        }
    }
    bits
}

struct Selection {
    candidates: Shared<Bits>,
    chosen: Shared<Bits>,
    /// Number of chosen points minus k: planes in two's complement, lowest first.
    missing: Vec<Shared<Bits>>,
    /// Number of words of a row.
    width: usize,
}

/// Candidates that come first.
enum Low<'a> {
    /// Candidates with a bit here.
    Secret(&'a Shared<Bits>),
    /// Items whose index has 0 in this bit.
    Public(u32),
}

impl Selection {
    /// Returns the rows of items whose index has 0 in a bit. The other rows are left out, or replaced by
    /// zeros.
    fn low_rows(&self, bits: &Shared<Bits>, bit: u32, blank: bool) -> Shared<Bits> {
        let is_low = |item: usize| item >> bit & 1 == 0;
        bits.map(|bits| {
            let items = bits.chunks(self.width).enumerate().filter(|&(item, _)| blank || is_low(item));
            items
                .flat_map(|(item, row)| row.iter().map(move |&x| if is_low(item) { x } else { Xor(0) }))
                .collect()
        })
    }

    /// For each point, counts the candidates that come first. If they are too few, chooses them; otherwise
    /// drops the others.
    async fn narrow(&mut self, context: &mut Context, low: Low<'_>) {
        let counted = match low {
            Low::Secret(low) => low.clone(),
            Low::Public(bit) => self.low_rows(&self.candidates, bit, false),
        };
        let count = population(context, counted, &self.missing, self.width).await;
        // 1 if the count is below 0: too few.
        let few = count.last().cloned().unwrap_or_default();
        let mut part = product_by(&few, &self.candidates);
        if let Low::Secret(low) = low {
            part.extend(product_by(&few, low));
        }
        for (count, missing) in count.iter().zip(&self.missing) {
            part.extend(product_by(&few, &count.plus(missing)));
        }
        let factors = || {
            let changes: Vec<_> =
                count.iter().zip(&self.missing).map(|(count, missing)| count.plus(missing)).collect();
            let low = if let Low::Secret(low) = low { Some(low) } else { None };
            let by = Shared::concat(std::iter::once(&self.candidates).chain(low).chain(&changes));
            (Shared::concat(std::iter::repeat_n(&few, by.len() / few.len().max(1))), by)
        };
        let products = reshare_products(context, part, || vec![factors()]).await;
        let len = self.candidates.len();
        let dropped = products.slice(0..len);
        let rest = match low {
            Low::Secret(low) => {
                self.chosen.add(&products.slice(len..2 * len));
                self.candidates = low.plus(&dropped);
                2 * len
            }
            Low::Public(bit) => {
                self.chosen.add(&self.low_rows(&dropped, bit, true));
                self.candidates = self.low_rows(&self.candidates, bit, true).plus(&dropped);
                len
            }
        };
        let changes = products.slice(rest..products.len()).chunks(self.width);
        self.missing.iter_mut().zip(changes).for_each(|(missing, change)| missing.add(&change));
    }
}

/// Returns planes of the number of items of each lane plus `start`, mod 2^(planes of `start`). Full adders
/// (Wallace, 1964) reduce them to two numbers, then one addition follows.
async fn population(
    context: &mut Context,
    items: Shared<Bits>,
    start: &[Shared<Bits>],
    width: usize,
) -> Vec<Shared<Bits>> {
    let mut columns = start.to_vec();
    columns[0].append(&items);
    while columns.iter().any(|column| column.len() > 2 * width) {
        let threes: Vec<usize> = columns.iter().map(|column| column.len() / width / 3 * width).collect();
        let part = columns.iter().zip(&threes).flat_map(|(column, &three)| full_adder_part(column, three));
        let part = part.collect();
        let factors = || {
            let of = |(column, &three): (&Shared<Bits>, &usize)| {
                let [a, b, c] = [0, 1, 2].map(|part| column.slice(part * three..(part + 1) * three));
                (a.plus(&c), b.plus(&c))
            };
            let (x, y): (Vec<_>, Vec<_>) = columns.iter().zip(&threes).map(of).unzip();
            vec![(Shared::concat(&x), Shared::concat(&y))]
        };
        let majorities = reshare_products(context, part, factors).await;
        let (mut next, mut start) = (vec![Shared::default(); columns.len() + 1], 0);
        for (bit, (column, three)) in columns.iter().zip(threes).enumerate() {
            let [a, b, c] = [0, 1, 2].map(|part| column.slice(part * three..(part + 1) * three));
            let carry = majorities.slice(start..start + three).plus(&c);
            start += three;
            next[bit].append(&a.plus(&b).plus(&c));
            next[bit].append(&column.slice(3 * three..column.len()));
            next[bit + 1].append(&carry);
        }
        next.truncate(columns.len());
        columns = next;
    }
    let number = |part: usize| -> Vec<Shared<Bits>> {
        let of = |column: &Shared<Bits>| {
            let range = part * width..(part + 1) * width;
            if column.len() < range.end { Shared::zeros(width) } else { column.slice(range) }
        };
        columns.iter().map(of).collect()
    };
    add(context, &number(0), &number(1), Adder::Sklansky).await
}

/// Returns this party's part of (a + c)(b + c) for the thirds a, b, c of the first `3 three` words. Adding
/// c gives the carry of a + b + c.
fn full_adder_part(column: &Shared<Bits>, three: usize) -> Vec<Bits> {
    let sums = |share: &[Bits], first: usize| -> Vec<Bits> {
        let c = &share[2 * three..3 * three];
        share[first..first + three].iter().zip(c).map(|(a, c)| Xor(a.0 ^ c.0)).collect()
    };
    column.map(|share| sums(share, 0)).product(&column.map(|share| sums(share, three)))
}
