//! The exact k nearest points of every point, by radix selection on secret thresholds.
//!
//! Point i is lane i, and its candidates j are items. The selection goes through the bits of the key,
//! from the highest on. It counts the remaining candidates whose bit is 0. If these candidates and the
//! chosen points together are fewer than k, these candidates are chosen and the others remain.
//! Otherwise these candidates remain and the others are dropped. In the end, all candidates of a point
//! have the same key. The lower index wins a tie: a binary tree over the items counts these candidates,
//! and a secret path from its root leads to the last one that is chosen.

use super::bits::{Adder, add, not};
use super::primitives::{LANES, multiply, product_by, reshare_products};
use super::{Bits, Context, Ring, Shared, Xor};

/// Returns planes of 64 lanes that mark whether point i has chosen item j, one row for each j. `keys`
/// are the planes of the key, highest first, of the same shape.
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
        state.narrow(context, &low).await;
    }
    state.first_candidates(context).await
}

/// Returns a public matrix of bits: every item is a candidate of every point except the item itself.
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

impl Selection {
    /// For each point, counts the candidates that come first, with a bit in `low`. If these are too
    /// few, chooses them; otherwise drops the others.
    async fn narrow(&mut self, context: &mut Context, low: &Shared<Bits>) {
        let count = population(context, low.clone(), &self.missing, self.width).await;
        // 1 if the count is below 0: too few.
        let few = count.last().cloned().unwrap_or_default();
        let changes = changes(&count, &self.missing);
        let by: Vec<_> = [&self.candidates, low].into_iter().chain(&changes).collect();
        let products = products_by(context, &few, &by).await;
        let len = self.candidates.len();
        self.chosen.add(&products.slice(len..2 * len));
        self.candidates = low.plus(&products.slice(0..len));
        let changes = products.slice(2 * len..products.len()).chunks(self.width);
        self.missing.iter_mut().zip(changes).for_each(|(missing, change)| missing.add(&change));
    }

    /// Returns the chosen items, with as many of the remaining candidates as are missing, the lowest
    /// indices first.
    async fn first_candidates(mut self, context: &mut Context) -> Shared<Bits> {
        let width = self.width;
        let items = self.candidates.len() / width;
        let depth = items.next_power_of_two().ilog2() as usize;
        let mut levels = vec![vec![self.candidates.clone()]];
        for height in 1..depth {
            levels.push(counts_above(context, &levels[height - 1], width).await);
        }
        // `path` marks the node with the last chosen candidate, `before` the nodes whose candidates come
        // first.
        let mut path = context.public(&vec![Xor(u64::MAX); width]);
        let mut before = Shared::zeros(width);
        for height in (1..=depth).rev() {
            let below = &levels[height - 1];
            let nodes = path.len() / width;
            let left: Vec<_> = below.iter().map(|plane| children(plane, 0, nodes, width)).collect();
            // The path begins at the root, which is public.
            let mut count = if height == depth { left } else { at_path(context, &path, &left, width).await };
            count.push(Shared::zeros(width));
            self.missing.truncate(height + 1);
            let count = add(context, &self.missing, &count, Adder::Sklansky).await;
            let few = count.last().cloned().unwrap_or_default();
            self.missing.truncate(height);
            let changes = changes(&count, &self.missing);
            // If the last node has no right child, its left child has all of its candidates.
            let with_right = below[0].len() - path.len();
            let parents = path.slice(0..with_right);
            let by: Vec<_> = std::iter::once(&parents).chain(&changes).collect();
            let products = products_by(context, &few, &by).await;
            let right = products.slice(0..with_right);
            let changes = products.slice(with_right..products.len()).chunks(width);
            self.missing.iter_mut().zip(changes).for_each(|(missing, change)| missing.add(&change));
            // The path goes to the right child if all candidates of the left one are chosen.
            let mut all = right.clone();
            all.append(&Shared::zeros(path.len() - with_right));
            before = interleaved(&before.plus(&all), &before.slice(0..with_right), width);
            path = interleaved(&path.plus(&all), &right, width);
        }
        let last = multiply(context, &self.candidates, &path.plus(&before)).await;
        self.chosen.plus(&last)
    }
}

/// Returns the change of each point's missing number if `count` replaces this number.
fn changes(count: &[Shared<Bits>], missing: &[Shared<Bits>]) -> Vec<Shared<Bits>> {
    count.iter().zip(missing).map(|(count, missing)| count.plus(missing)).collect()
}

/// Returns the products of `few` with vectors as long as `few`. Each item of `by` has one or more such
/// vectors.
async fn products_by(context: &mut Context, few: &Shared<Bits>, by: &[&Shared<Bits>]) -> Shared<Bits> {
    let part = by.iter().flat_map(|by| product_by(few, by)).collect();
    let factors = || {
        let by = Shared::concat(by.iter().copied());
        vec![(Shared::concat(std::iter::repeat_n(few, by.len() / few.len().max(1))), by)]
    };
    reshare_products(context, part, factors).await
}

/// Returns the counts of nodes from those of their children, which are in order: planes of all nodes,
/// lowest first.
async fn counts_above(context: &mut Context, below: &[Shared<Bits>], width: usize) -> Vec<Shared<Bits>> {
    let nodes = below[0].len() / width;
    let pairs = nodes / 2;
    let none = Shared::zeros(pairs * width);
    let [left, right] = [0, 1].map(|side| {
        let planes = below.iter().map(|plane| children(plane, side, pairs, width));
        planes.chain(std::iter::once(none.clone())).collect::<Vec<_>>()
    });
    let mut counts = add(context, &left, &right, Adder::Sklansky).await;
    if nodes % 2 == 1 {
        // The last node has one child.
        let zeros = Shared::zeros(width);
        let last = below.iter().map(|plane| plane.slice(2 * pairs * width..plane.len()));
        counts
            .iter_mut()
            .zip(last.chain(std::iter::once(zeros)))
            .for_each(|(plane, last)| plane.append(&last));
    }
    counts
}

/// Returns the left (0) or right (1) children of the first `nodes` nodes.
fn children(plane: &Shared<Bits>, side: usize, nodes: usize, width: usize) -> Shared<Bits> {
    plane.map(|words| {
        let children = words.chunks(width).skip(side).step_by(2).take(nodes);
        children.flatten().copied().collect()
    })
}

/// Returns left and right children in order. The last node may have no right child.
fn interleaved(left: &Shared<Bits>, right: &Shared<Bits>, width: usize) -> Shared<Bits> {
    let merge = |left: &[Bits], right: &[Bits]| {
        let mut rights = right.chunks(width);
        let both = left.chunks(width).flat_map(|left| [left, rights.next().unwrap_or_default()]);
        both.flatten().copied().collect()
    };
    Shared { own: merge(&left.own, &right.own), next: merge(&left.next, &right.next) }
}

/// Returns the planes of the node where the path is, the sum of products with the planes of all nodes.
async fn at_path(
    context: &mut Context,
    path: &Shared<Bits>,
    planes: &[Shared<Bits>],
    width: usize,
) -> Vec<Shared<Bits>> {
    let mut part = vec![Bits::default(); planes.len() * width];
    for (plane, part) in planes.iter().zip(part.chunks_mut(width)) {
        for node in path.product(plane).chunks(width) {
            part.iter_mut().zip(node).for_each(|(sum, &product)| *sum = sum.add(product));
        }
    }
    let factors = || {
        let of = |node: usize| {
            let range = node * width..(node + 1) * width;
            let own = path.slice(range.clone());
            let planes: Vec<_> = planes.iter().map(|plane| plane.slice(range.clone())).collect();
            (Shared::concat(std::iter::repeat_n(&own, planes.len())), Shared::concat(&planes))
        };
        (0..path.len() / width).map(of).collect()
    };
    reshare_products(context, part, factors).await.chunks(width)
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
