//! Disclosure control on shares: which pooled cells of a table may open (spec, section 15i).
//!
//! Every owner shares a vector of whole numbers mod 2^64: the number of its rows in each *cell* and in
//! each *bucket* of the values of each *measure*, and the sum and the sum of squares of each measure.
//! The parties add the vectors up and decide on shares which cells pass ([`Rule`]). They open nothing.
//! The result consists of shares of one bit for each cell and measure, and of the pooled numbers.
//!
//! A cell passes if it has enough rows of enough owners, and if enough rows remain without the rows of
//! any one owner. So the others have enough rows in an opened cell, even if an owner subtracts its own
//! rows from it or claims rows that it does not have. The test that leaves out an owner does not use
//! that owner's numbers, so their range needs no proof.
//!
//! A measure passes if, whichever bucket is left out, its other rows pass as a cell. So a column in which
//! few rows differ from the commonest value does not pass: its sum would count these rows.
//!
//! A quantile ([`super::quantiles`]) passes if the rows below it pass as a cell, and the rows above it
//! pass as a cell, too.

use super::bits::{b2a, not, sign, words};
use super::input::Inputs;
use super::output::Sealed;
use super::primitives::{LANES, multiply_all};
use super::program::{Outcome, compared, proven};
use super::quantiles::{Found, Scale, quantiles};
use super::round::{Part, together};
use super::{Bits, Context, Ring, Shared, Stage, Xor};

/// Bits of a pooled count in two's complement.
pub(super) const COUNT_BITS: usize = 40;
/// Bits of a number of owners minus a number up to 64, in two's complement.
const OWNER_BITS: usize = 8;
/// Number of buckets of a measure.
pub const BUCKETS: usize = 16;
/// Largest number of owners.
pub const MOST_OWNERS: usize = 64;

/// Conditions for a cell or a measure to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Least number of rows.
    pub threshold: u32,
    /// Least number of rows of the first cell, if it is more than the threshold.
    pub first: u32,
    /// Least number of owners with rows.
    pub contributors: u32,
    /// Least number of rows without the rows of any one owner.
    pub rest: u32,
    /// For each cell, whether it also passes if no owner has a row in it.
    pub empty_passes: Vec<bool>,
    /// For each measure, the cell of its rows.
    pub measures: Vec<usize>,
    /// For each histogram, its number of words.
    pub histograms: Vec<usize>,
    /// Measures that have quantiles, by the number of bits of their values.
    pub scales: Vec<Scale>,
}

impl Rule {
    /// Returns the number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.empty_passes.len()
    }

    /// Returns the number of words that an owner shares: cells, buckets, two sums for each measure, and
    /// histograms.
    #[must_use]
    pub fn words(&self) -> usize {
        self.cells() + (BUCKETS + 2) * self.measures.len() + self.histograms.iter().sum::<usize>()
    }

    /// Returns the number of quantiles.
    #[must_use]
    pub fn quantiles(&self) -> usize {
        self.scales.iter().map(Scale::quantiles).sum()
    }

    /// Returns the words of bits of the pattern: cells, measures, the quantiles of each scale, each in whole
    /// words.
    #[must_use]
    pub fn pattern_words(&self) -> usize {
        let quantiles: usize = self.scales.iter().map(|scale| words(scale.quantiles())).sum();
        words(self.cells()) + words(self.measures.len()) + quantiles
    }

    /// Returns the pooled words: cells, two sums for each measure, and quantiles.
    #[must_use]
    pub fn totals(&self) -> usize {
        self.cells() + 2 * self.measures.len() + self.quantiles()
    }

    /// Returns the bytes of a share of the result: the pattern, then the pooled words.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        8 * (self.pattern_words() + self.totals())
    }

    /// Returns the number of lanes that are tested for each owner, in whole words.
    #[must_use]
    pub fn lanes(&self) -> usize {
        let sides: usize = self.scales.iter().map(|scale| 2 * scale.lanes()).sum();
        LANES * (words(self.cells()) + BUCKETS * words(self.measures.len())) + sides
    }

    /// Returns an upper bound on the bytes of a round with these owners.
    #[must_use]
    pub fn round_limit(&self, owners: usize) -> usize {
        let scales: usize = self.scales.iter().map(|scale| scale.round_limit(owners)).sum();
        (64 * (owners + 1) * self.lanes()).max(1 << 22) + scales
    }

    /// Returns the tested counts: the cells, then for each bucket the rows of each measure that are not in
    /// it.
    fn tested(&self, share: &[u64]) -> Vec<u64> {
        let (cells, buckets) = share.split_at(self.cells().min(share.len()));
        let mut tested = cells.to_vec();
        tested.resize(LANES * words(cells.len()), 0);
        for bucket in 0..BUCKETS {
            let others = self.measures.iter().enumerate().map(|(measure, &cell)| {
                let inside = buckets.get(BUCKETS * measure + bucket).copied().unwrap_or_default();
                cells.get(cell).copied().unwrap_or_default().wrapping_sub(inside)
            });
            tested.extend(others);
            tested.resize(tested.len().next_multiple_of(LANES), 0);
        }
        tested
    }

    fn pooled(&self, share: &[u64]) -> Vec<u64> {
        let (cells, rest) = share.split_at(self.cells().min(share.len()));
        let first = BUCKETS * self.measures.len();
        let sums = rest.get(first..first + 2 * self.measures.len()).unwrap_or_default();
        [cells, sums].concat()
    }

    /// Returns the histograms of the measures of a scale, 2^bits words each.
    fn histograms_of(&self, scale: &Scale, share: &[u64]) -> Vec<u64> {
        let size = 1usize << scale.bits;
        let mut sums = vec![0u64; size * scale.measures.len()];
        let mut first = self.cells() + (BUCKETS + 2) * self.measures.len();
        for (number, &bins) in self.histograms.iter().enumerate() {
            let bins = share.get(first..first + bins).unwrap_or_default();
            first += bins.len();
            for (measure, sum) in scale.measures.iter().zip(sums.chunks_mut(size)) {
                if measure.contains(&number) {
                    sum.iter_mut().zip(bins).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
                }
            }
        }
        sums
    }
}

/// Returns the program of one party, ready to be driven. If it `proves`, it proves each of its messages to
/// the other two parties.
#[must_use]
pub fn boxed(context: Context, rule: Rule, inputs: Vec<Inputs>, proves: bool) -> Part<'static, Outcome> {
    proven(context, proves, |context| Box::pin(run(context, rule, inputs)))
}

async fn run(mut context: Context, rule: Rule, inputs: Vec<Inputs>) -> Outcome {
    let context = &mut context;
    context.enter(Stage::Input);
    if let Err(outcome) = compared(context, &inputs).await {
        return outcome;
    }
    context.enter(Stage::Cells);
    let counts: Vec<_> = inputs.into_iter().map(|input| input.counts).collect();
    let (pattern, values) = pattern(context, &rule, &counts).await;
    let mut totals = sum(&counts).map(|share| rule.pooled(share));
    values.iter().for_each(|values| totals.append(values));
    let bytes = |pattern: &[Bits], totals: &[u64]| {
        let mut bytes = Vec::with_capacity(rule.result_bytes());
        Bits::write_all(pattern, &mut bytes);
        u64::write_all(totals, &mut bytes);
        bytes
    };
    Outcome::Sealed(Sealed::new(bytes(&pattern.own, &totals.own), bytes(&pattern.next, &totals.next)))
}

fn sum(vectors: &[Shared<u64>]) -> Shared<u64> {
    let mut sum = vectors.first().cloned().unwrap_or_default();
    vectors.iter().skip(1).for_each(|vector| sum.add(vector));
    sum
}

/// Returns one bit for each cell, each measure and each quantile: 1 if it passes. In addition, the values of
/// the quantiles of each scale.
pub async fn pattern(
    context: &mut Context,
    rule: &Rule,
    counts: &[Shared<u64>],
) -> (Shared<Bits>, Vec<Shared<u64>>) {
    let scale = |(turn, scale): (usize, &Scale)| {
        let owners =
            counts.iter().map(|counts| counts.map(|share| rule.histograms_of(scale, share))).collect();
        let (context, scale) = (context.split(turn), scale.clone());
        Box::pin(async move { quantiles(context, &scale, owners).await }) as Part<'_, Found>
    };
    let found = together(rule.scales.iter().enumerate().map(scale).collect()).await;
    let mut tested: Vec<_> = counts.iter().map(|counts| counts.map(|share| rule.tested(share))).collect();
    for found in &found {
        tested.iter_mut().zip(&found.sides).for_each(|(tested, sides)| tested.append(sides));
    }
    let (passing, empty) = passing(context, rule, &tested).await;
    // The second bit is set only for a cell without rows, which does not pass by the first. So at most
    // one of the two bits is set.
    let (first, rest) = (words(rule.cells()), words(rule.measures.len()));
    let masks =
        super::bits::planes(&rule.empty_passes.iter().map(|&may| may.into()).collect::<Vec<u64>>(), 1);
    let allowed = |share: &[Bits]| share.iter().zip(&masks).map(|(&bit, &mask)| bit.mul(mask)).collect();
    let cells = passing.slice(0..first).plus(&empty.slice(0..first).map(allowed));
    // A measure must pass without each single one of its buckets, and a quantile must pass on both
    // sides.
    let mut at = first + BUCKETS * rest;
    let mut conjunctions = vec![passing.slice(first..at).chunks(rest)];
    let mut values = Vec::new();
    for (scale, found) in rule.scales.iter().zip(found) {
        let width = words(scale.quantiles());
        let sides = passing.slice(at..at + 2 * width).chunks(width);
        at += 2 * width;
        conjunctions.push([sides, found.valid].concat());
        values.push(found.values);
    }
    let parts = conjunctions.into_iter().enumerate().map(|(turn, bits)| {
        let mut context = context.split(turn);
        Box::pin(async move { all(&mut context, bits).await }) as Part<'_, Shared<Bits>>
    });
    let rest = together(parts.collect()).await;
    (Shared::concat(std::iter::once(&cells).chain(&rest)), values)
}

/// Returns for each tested count whether it passes as a cell, and whether no owner has a row in it.
async fn passing(context: &mut Context, rule: &Rule, tested: &[Shared<u64>]) -> (Shared<Bits>, Shared<Bits>) {
    let (pooled, width) = (sum(tested), rule.lanes() / LANES);
    // Signs of three differences: the pooled rows minus the threshold, each owner's rows minus 1, and
    // the rows of all other owners minus the required rest.
    let less = |shared: Shared<u64>, least: u32| context.plus(shared, u64::from(least).wrapping_neg());
    let first = less(pooled.slice(0..1), rule.first.max(rule.threshold));
    let mut compared =
        vec![Shared::concat(&[first, less(pooled.slice(1..pooled.own.len()), rule.threshold)])];
    compared.extend(tested.iter().map(|own| less(own.clone(), 1)));
    compared.extend(tested.iter().map(|own| less(pooled.minus(own), rule.rest)));
    let signs = sign(context, &Shared::concat(&compared), COUNT_BITS).await;
    let mut bits: Vec<_> = signs.chunks(width).into_iter().map(|below| not(context, below)).collect();
    let holders = bits.drain(1..=tested.len()).collect::<Vec<_>>();
    // Signs of two differences: the number of owners with rows minus the required number, and minus 1.
    let ones = vec![1; holders.len()];
    let owners = b2a(context, &holders, rule.lanes(), [ones.as_slice()]).await;
    let less = |least: u32| context.plus(owners.clone(), u64::from(least).wrapping_neg());
    let few = sign(context, &Shared::concat(&[less(rule.contributors), less(1)]), OWNER_BITS).await;
    bits.push(not(context, few.slice(0..width)));
    (all(context, bits).await, few.slice(width..2 * width))
}

/// Returns the conjunction of vectors of bits.
async fn all(context: &mut Context, mut bits: Vec<Shared<Bits>>) -> Shared<Bits> {
    while bits.len() > 1 {
        let odd = if bits.len().is_multiple_of(2) { None } else { bits.pop() };
        let pairs: Vec<_> = bits.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
        let mut next = multiply_all(context, &pairs).await;
        next.extend(odd);
        bits = next;
    }
    bits.pop().unwrap_or_default()
}

/// Result that is put together from shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// For each cell, whether it passes.
    pub cells: Vec<bool>,
    /// For each measure, whether it passes.
    pub measures: Vec<bool>,
    /// For each quantile, scale after scale, whether it passes.
    pub quantiles: Vec<bool>,
}

impl Opened {
    /// Reads the bits of the pattern.
    #[must_use]
    pub fn of(rule: &Rule, pattern: &[u64]) -> Self {
        let bit = |first: usize, at: usize| {
            pattern.get(first + at / LANES).is_some_and(|word| word >> (at % LANES) & 1 == 1)
        };
        let measures = words(rule.cells());
        let mut first = measures + words(rule.measures.len());
        let mut quantiles = Vec::new();
        for scale in &rule.scales {
            quantiles.extend((0..scale.quantiles()).map(|at| bit(first, at)));
            first += words(scale.quantiles());
        }
        Self {
            cells: (0..rule.cells()).map(|at| bit(0, at)).collect(),
            measures: (0..rule.measures.len()).map(|at| bit(measures, at)).collect(),
            quantiles,
        }
    }
}

/// Adds up three shares of the result: the pattern by exclusive or, the pooled words mod 2^64.
#[must_use]
pub fn add_up(rule: &Rule, shares: [&[u64]; 3]) -> Vec<u64> {
    let word = |at: usize| {
        let each = shares.map(|share| share.get(at).copied().unwrap_or_default());
        match at < rule.pattern_words() {
            true => each.into_iter().map(Xor).fold(Xor(0), Ring::add).0,
            false => each.into_iter().fold(0, Ring::add),
        }
    };
    (0..rule.pattern_words() + rule.totals()).map(word).collect()
}
