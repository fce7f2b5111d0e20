//! Quantiles on shares (spec, section 15i): for each list of counts, the first value such that enough rows
//! have that value or a smaller one.
//!
//! Every owner shares a histogram: the number of its rows with each value. The parties look for the
//! value from its highest digit to its lowest, up to 16 values of a digit at a time. They compare the
//! pooled rows below each value of the digit with the rank, and select the block of that digit *on
//! shares*. So no party sees a digit, and nothing opens on the way.
//!
//! With the pooled block, each party also selects the block of each owner. So at the end it has shares
//! of the numbers of each owner's rows below the value and above it, and [`super::cells`] can test both
//! sides like cells. An owner could choose its numbers such that the path depends on few rows of the
//! others. Therefore the parties also test on shares that each count on the path is a count of rows: at
//! least 0 and at most 2^24.

use super::bits::{b2a, not, sign, words};
use super::cells::COUNT_BITS;
use super::primitives::{LANES, reshare_products};
use super::{Bits, Context, Shared};

/// Numerators of the quantiles of each measure: 5, 25, 50, 75 and 95 percent.
pub const QUANTILES: [u64; 5] = [1, 5, 10, 15, 19];
/// Their denominator.
pub const DENOMINATOR: u64 = 20;
/// Largest number of bits of a digit.
const DIGIT_BITS: u32 = 4;
/// Largest count of rows of an owner.
const MOST_ROWS: u64 = 1 << 24;

/// Measures whose values have the same number of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of bits of a value, at least 1.
    pub bits: u32,
    /// For each measure, the histograms that add up to its own.
    pub measures: Vec<Vec<usize>>,
}

impl Scale {
    /// Returns the number of quantiles.
    #[must_use]
    pub fn quantiles(&self) -> usize {
        QUANTILES.len() * self.measures.len()
    }

    /// Returns the number of lanes with one quantile each, in whole words.
    #[must_use]
    pub fn lanes(&self) -> usize {
        LANES * words(self.quantiles())
    }

    /// Returns an estimate of the multiplications of all rounds, for these owners.
    #[must_use]
    pub fn products(&self, owners: usize) -> usize {
        (owners * self.quantiles()) << self.bits
    }

    /// Returns an upper bound on the bytes of a round with these owners.
    #[must_use]
    pub fn round_limit(&self, owners: usize) -> usize {
        8 * owners * self.lanes() * (LANES + (1 << self.bits))
    }
}

/// Quantiles of a scale.
pub(super) struct Found {
    /// Values, one for each quantile.
    pub values: Shared<u64>,
    /// For each owner, its rows below each value, then its rows above it; each in whole words of lanes.
    pub sides: Vec<Shared<u64>>,
    /// Bits of each quantile. All are 1 if the owners' counts are counts of rows.
    pub valid: Vec<Shared<Bits>>,
}

/// Shares of one owner on the path.
struct Path {
    /// Blocks of the remaining values: at first for each measure, then for each quantile.
    blocks: Shared<u64>,
    /// Rows below the block of each quantile.
    below: Shared<u64>,
    /// Rows of each quantile.
    rows: Shared<u64>,
}

/// Returns the quantiles of a scale. `owners` are the owners' histograms of each measure, one measure after
/// the other, 2^bits words each.
pub(super) async fn quantiles(mut context: Context, scale: &Scale, owners: Vec<Shared<u64>>) -> Found {
    let context = &mut context;
    let (count, lanes) = (scale.quantiles(), scale.lanes());
    let (mut size, mut per_block) = (1usize << scale.bits, QUANTILES.len());
    let start = |blocks: Shared<u64>| {
        let rows = lane_sums(&blocks, count, |lane| size * (lane / per_block)..size * (lane / per_block + 1));
        Path { blocks, below: Shared::zeros(lanes), rows }
    };
    let mut paths: Vec<Path> = owners.into_iter().map(start).collect();
    let weigh = |share: &[u64]| -> Vec<u64> {
        share.iter().enumerate().map(|(lane, x)| x.wrapping_mul(QUANTILES[lane % QUANTILES.len()])).collect()
    };
    let ranks = pooled(paths.iter().map(|path| &path.rows)).map(weigh);
    let (mut values, mut valid) = (Shared::zeros(count), Vec::new());
    while size > 1 {
        let digit = 1usize << ((size.trailing_zeros() - 1) % DIGIT_BITS + 1);
        let child = size / digit;
        // Rows of each owner in the blocks of the digit's values.
        let block = |lane: usize, value: usize| {
            let first = size * (lane / per_block) + child * value;
            first..first + child
        };
        let sums: Vec<Vec<Shared<u64>>> = paths
            .iter()
            .map(|path| {
                (0..digit).map(|value| lane_sums(&path.blocks, count, |lane| block(lane, value))).collect()
            })
            .collect();
        let mut tested = Vec::new();
        let mut prefix = pooled(paths.iter().map(|path| &path.below));
        for value in 0..digit - 1 {
            sums.iter().for_each(|sums| prefix.add(&sums[value]));
            tested.push(prefix.times(DENOMINATOR).minus(&ranks));
        }
        let all = || sums.iter().flatten();
        tested.extend(all().cloned());
        tested.extend(all().map(|sum| context.plus(Shared::zeros(lanes).minus(sum), MOST_ROWS)));
        let signs = sign(context, &Shared::concat(&tested), COUNT_BITS).await;
        let mut bits = signs.chunks(words(lanes));
        valid.extend(bits.split_off(digit - 1).into_iter().map(|negative| not(context, negative)));
        // 1 for each value of the digit that is below the quantile's.
        let beyond = Shared::concat(&bits);
        let beyond = b2a(context, &[beyond], (digit - 1) * lanes, [&[1]]).await.chunks(lanes);
        beyond.iter().for_each(|beyond| values.add(&beyond.slice(0..count).times(child as u64)));
        let selected = select(context, &paths, &sums, &beyond, (count, child), block).await;
        for (path, chosen) in paths.iter_mut().zip(selected.chunks(count * (child + 1))) {
            let parts = |below: bool| {
                chosen.map(|share| {
                    let rows = share.chunks(child + 1);
                    if below {
                        rows.map(|row| row[0]).collect()
                    } else {
                        rows.flat_map(|row| row[1..].to_vec()).collect()
                    }
                })
            };
            path.below.add(&parts(true));
            let first =
                path.blocks.map(|share| (0..count).flat_map(|lane| share[block(lane, 0)].to_vec()).collect());
            path.blocks = first.plus(&parts(false));
        }
        (size, per_block) = (child, 1);
    }
    let side = |path: Path| {
        let mut at = path.blocks;
        at.append(&Shared::zeros(lanes - count));
        let above = path.rows.minus(&path.below).minus(&at);
        Shared::concat([&path.below, &above])
    };
    Found { values, sides: paths.into_iter().map(side).collect(), valid }
}

/// Moves each owner and quantile from the first block to the chosen block: returns the number to add to the
/// rows below the block, then the number to add to each word of the first block. Each block except the last
/// has a bit z, which is 1 if the chosen block comes later. The first number is the sum of z times the rows
/// of the block, the others are the sums of z times the difference between the next block and this one.
async fn select(
    context: &mut Context,
    paths: &[Path],
    sums: &[Vec<Shared<u64>>],
    beyond: &[Shared<u64>],
    (count, child): (usize, usize),
    block: impl Fn(usize, usize) -> std::ops::Range<usize>,
) -> Shared<u64> {
    let places = || (0..paths.len()).flat_map(|owner| (0..count).map(move |lane| (owner, lane)));
    // Second factors of one owner, lane and value.
    let factors = |owner: usize, lane: usize, value: usize| {
        let of = |blocks: &[u64], sum: &[u64]| {
            let (this, next) = (&blocks[block(lane, value)], &blocks[block(lane, value + 1)]);
            let mut row = Vec::with_capacity(child + 1);
            row.push(sum[lane]);
            row.extend(next.iter().zip(this).map(|(next, this)| next.wrapping_sub(*this)));
            row
        };
        let (blocks, sum) = (&paths[owner].blocks, &sums[owner][value]);
        Shared { own: of(&blocks.own, &sum.own), next: of(&blocks.next, &sum.next) }
    };
    let mut part = Vec::with_capacity(paths.len() * count * (child + 1));
    for (owner, lane) in places() {
        let mut row = vec![0u64; child + 1];
        for (value, z) in beyond.iter().enumerate() {
            let (y, z, both) =
                (factors(owner, lane, value), z.own[lane], z.own[lane].wrapping_add(z.next[lane]));
            for ((sum, y), y1) in row.iter_mut().zip(&y.own).zip(&y.next) {
                *sum = sum.wrapping_add(both.wrapping_mul(*y)).wrapping_add(z.wrapping_mul(*y1));
            }
        }
        part.extend(row);
    }
    let pairs = || {
        let pair = |(value, z): (usize, &Shared<u64>)| {
            let (mut x, mut y) = (Shared::default(), Shared::default());
            for (owner, lane) in places() {
                x.append(&z.map(|share| vec![share[lane]; child + 1]));
                y.append(&factors(owner, lane, value));
            }
            (x, y)
        };
        beyond.iter().enumerate().map(pair).collect()
    };
    reshare_products(context, part, pairs).await
}

/// Returns the sum of a range of words for each of `count` lanes, in whole words of lanes.
fn lane_sums(
    words: &Shared<u64>,
    count: usize,
    range: impl Fn(usize) -> std::ops::Range<usize>,
) -> Shared<u64> {
    words.map(|share| {
        let sum = |lane| share[range(lane)].iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
        let mut sums: Vec<u64> = (0..count).map(sum).collect();
        sums.resize(count.next_multiple_of(LANES), 0);
        sums
    })
}

fn pooled<'a>(mut owners: impl Iterator<Item = &'a Shared<u64>>) -> Shared<u64> {
    let mut sum = owners.next().cloned().unwrap_or_default();
    owners.for_each(|own| sum.add(own));
    sum
}
