//! The exact exponential mechanism over integer counts (McSherry & Talwar, "Mechanism Design via
//! Differential Privacy", FOCS 2007; as in Ram & Sinha, Algorithm 2, lines 16-20).

use num_bigint::BigUint;
use rand::CryptoRng;

use super::Ratio;
use super::exponential::bounds;
use super::sampler::below;

/// Number of bits of an integer weight.
const BITS: u64 = 64;
/// Weights are relative to the largest remaining count. They are recomputed when the weight of that count has
/// fallen by a factor of e to the power of this number. Weights then still have 52 bits.
const SUNK: u128 = 8;

/// Entries with the same count.
struct Group {
    count: u32,
    entries: Vec<u32>,
    /// Integer bounds of 2^64 exp(-a (base - count)).
    low: u128,
    high: u128,
}

/// Selects `top` different entries of `counts` (all, if there are fewer), in the order of their selection.
/// Each selection takes entry i with a probability proportional to exp(a counts\[i\]) among the remaining
/// entries, where a is `exponent`.
///
/// Entries of equal counts are drawn as a group. A group gets an integer weight for each entry, which is
/// slightly above the true weight. An entry is drawn by these weights, and then rejected with a probability
/// that exactly corrects the excess of its weight. For this, a number below the weight is drawn digit by
/// digit and compared with bounds of the true weight. The bounds are tightened until they decide. One draw in
/// about 2^50 needs more digits than the first.
///
/// # Panics
/// If there are more than 2^32 counts.
pub fn select(counts: &[u32], top: usize, exponent: Ratio, rng: &mut impl CryptoRng) -> Vec<u32> {
    let mut groups = grouped(counts);
    let mut base = None;
    let mut selected = Vec::with_capacity(top.min(counts.len()));
    while selected.len() < top.min(counts.len()) {
        groups.retain(|group| !group.entries.is_empty());
        let largest = groups[0].count;
        if base.is_none_or(|base| sunk(base, largest, exponent)) {
            base = Some(largest);
            weigh(&mut groups, largest, exponent);
        }
        let base = base.unwrap_or(largest);
        selected.push(draw(&mut groups, base, exponent, rng));
    }
    selected
}

fn grouped(counts: &[u32]) -> Vec<Group> {
    let entries = u32::try_from(counts.len()).unwrap_or_else(|_| panic!("more than 2^32 counts"));
    let mut order: Vec<u32> = (0..entries).collect();
    let count = |entry: u32| counts[entry as usize];
    order.sort_unstable_by_key(|&entry| (std::cmp::Reverse(count(entry)), entry));
    let group =
        |entries: &[u32]| Group { count: count(entries[0]), entries: entries.to_vec(), low: 0, high: 0 };
    order.chunk_by(|&a, &b| count(a) == count(b)).map(group).collect()
}

fn sunk(base: u32, largest: u32, exponent: Ratio) -> bool {
    distance(base, largest, exponent) > SUNK * u128::from(exponent.denominator())
}

/// Returns a (base - count), times the denominator of a.
fn distance(base: u32, count: u32, exponent: Ratio) -> u128 {
    u128::from(exponent.numerator()) * u128::from(base - count)
}

fn weigh(groups: &mut [Group], base: u32, exponent: Ratio) {
    for group in groups {
        let (low, high) = bounds(distance(base, group.count, exponent), exponent.denominator().into(), BITS);
        let small =
            |bound| u128::try_from(bound).unwrap_or_else(|_| unreachable!("BUG: weights are about 2^{BITS}"));
        (group.low, group.high) = (small(low), small(high));
    }
}

/// Draws one entry and removes it.
fn draw(groups: &mut [Group], base: u32, exponent: Ratio, rng: &mut impl CryptoRng) -> u32 {
    let weight = |group: &Group| group.entries.len() as u128 * group.high;
    let total: u128 = groups.iter().map(weight).sum();
    loop {
        let mut at = below(total, rng);
        let mut drawn = None;
        for group in groups.iter_mut() {
            if at < weight(group) {
                drawn = Some(group);
                break;
            }
            at -= weight(group);
        }
        let group = drawn.unwrap_or_else(|| unreachable!("BUG: below the sum of all weights"));
        let (place, digits) = (at / group.high, at % group.high);
        if digits < group.low
            || is_below(digits, distance(base, group.count, exponent), exponent.denominator(), rng)
        {
            let place =
                usize::try_from(place).unwrap_or_else(|_| unreachable!("BUG: a place among the entries"));
            return group.entries.swap_remove(place);
        }
    }
}

/// Returns whether a uniform number that begins with `digits` is below 2^64 exp(-x), x = `numerator` /
/// `denominator`.
fn is_below(digits: u128, numerator: u128, denominator: u64, rng: &mut impl CryptoRng) -> bool {
    let (mut number, mut bits) = (BigUint::from(digits), BITS);
    loop {
        number = (number << 64u8) + rng.next_u64();
        bits += 64;
        let (low, high) = bounds(numerator, denominator.into(), bits);
        if number < low {
            return true;
        }
        if number >= high {
            return false;
        }
    }
}
