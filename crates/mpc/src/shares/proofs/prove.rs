//! One proof by each party, all three side by side.
//!
//! The prover P convinces the party before it, L, and the party after it, U, that an inner product of a
//! vector that P and L know and one that P and U know equals the sum of a number of L and a number of U
//! (Boneh, Boyle, Corrigan-Gibbs, Gilboa & Ishai, *Zero-Knowledge Proofs on Secret-Shared Data via Fully
//! Linear PCPs*, CRYPTO 2019, section 4; Boyle, Gilboa, Ishai & Nof, *Practical Fully Secure Three-Party
//! Computation via Sublinear Distributed Zero-Knowledge Proofs*, CCS 2019).
//!
//! A step folds the vectors: their groups become the values of two polynomials at the points 0, 1, .., and
//! P shares the product of the polynomials between L and U. The value at a random point is the claim of the
//! next step. L and U draw coins and points from the key that they share, so P does not know them before U
//! tells it.
//!
//! - *P learns a coin only when it can no longer change what it proves.* U tells the first coins one round
//!   after it has the last message of the batch: then L has it, too, because L has sent another round.
//! - *L confirms each coin one round after U.* If they differ, P ends before it sends anything else. Thus
//!   U cannot make P prove something else than L verifies, which would reveal a difference of the two.
//! - *The last step has one more point*, random for each of the two vectors, so the values that L shows are
//!   uniform.

use super::super::round::Side;
use super::super::{Context, Ring};
use super::extension::{Extension, inner, vectorized};
use super::gates::{Coins, FOLD, Gates, MakeSum, Sum, Terms};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Vectors of elements of a linear statement, as one party knows them.
#[derive(Clone)]
pub struct Vectors<R> {
    /// Vector of the prover and the party before it.
    pub a: Vec<R>,
    /// Vector of the prover and the party after it.
    pub b: Vec<R>,
    /// Number that this party knows: that of the party before the prover, at the prover.
    pub claim: R,
}

impl<R> std::fmt::Debug for Vectors<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vectors({}, {}, <redacted>)", self.a.len(), self.b.len())
    }
}

impl<R: Extension> Default for Vectors<R> {
    fn default() -> Self {
        Self { a: Vec::new(), b: Vec::new(), claim: R::zero() }
    }
}

/// Function that returns the vectors of a statement for its coins.
pub type Make<R> = Box<dyn FnOnce(&mut Stream) -> Vectors<R> + Send>;

/// Statements of one prover, as one party knows them.
pub struct Batch<R: Gates> {
    /// Sums of products of words.
    pub terms: Vec<Terms<R::Word>>,
    /// Linear statements, each with the length of its vectors.
    pub linear: Vec<(usize, Make<R>)>,
    /// Sums of products of a coin and a word, each with its length.
    pub sums: Vec<(usize, MakeSum<R>)>,
    /// Changes of a prover that cheats.
    #[cfg(test)]
    pub(super) cheat: super::tests::CheatingProver<R>,
}

impl<R: Gates> Default for Batch<R> {
    fn default() -> Self {
        Self {
            terms: Vec::new(),
            linear: Vec::new(),
            sums: Vec::new(),
            #[cfg(test)]
            cheat: Default::default(),
        }
    }
}

impl<R: Gates> std::fmt::Debug for Batch<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} terms, <redacted>)", self.terms.len())
    }
}

impl<R: Gates> Batch<R> {
    /// Returns the number of elements after the first step.
    fn elements(&self) -> usize {
        let terms = self.terms.iter().map(|terms| terms.products * terms.columns(R::GROUPS) * R::LANES);
        let sums = self.sums.iter().map(|(len, _)| len.div_ceil(R::GROUPS));
        terms.sum::<usize>() + sums.sum::<usize>() + self.linear.iter().map(|(len, _)| len).sum::<usize>()
    }
}

/// Place of this party in a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Prover,
    /// The party before the prover.
    Lower,
    /// The party after the prover.
    Upper,
}

/// Number of values of the product of the polynomials in step `step` of `steps`.
fn values<R: Gates>(step: usize, steps: usize) -> usize {
    match step {
        0 => 2 * R::GROUPS - 1,
        _ if step + 1 == steps => 2 * FOLD + 1,
        _ => 2 * FOLD - 1,
    }
}

/// Returns the number of steps for vectors of this length after the first step.
fn steps(mut elements: usize) -> usize {
    let mut steps = 2;
    while elements > FOLD {
        elements = elements.div_ceil(FOLD);
        steps += 1;
    }
    steps
}

/// One party's state in the proof of one prover.
struct Running<R: Gates> {
    place: Place,
    steps: usize,
    batch: Batch<R>,
    coins: Option<Coins<R>>,
    sums: Vec<(usize, Sum<R>)>,
    a: Vec<R>,
    b: Vec<R>,
    claim: R,
    /// Claims of the linear statements: they are added after the first step.
    later: R,
    /// L's share of the product in this step, or U's.
    share: Vec<R>,
    /// For L or U: its share of claim minus sum, for each step.
    differences: Vec<R>,
    /// Random point of each vector in the last step.
    random: [R; 2],
}

impl<R: Gates> Running<R> {
    fn new(place: Place, steps: usize, batch: Batch<R>, random: [R; 2]) -> Self {
        let zero = R::zero();
        Self {
            place,
            steps,
            batch,
            coins: None,
            sums: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            claim: zero,
            later: zero,
            share: Vec::new(),
            differences: Vec::new(),
            random,
        }
    }

    /// Draws the coins from their seed.
    fn begin(&mut self, seed: &[u8; 32]) {
        let mut stream = Stream::new(seed, "proof", b"");
        let coins = Coins::draw(&mut stream, self.batch.terms.iter().map(|terms| terms.columns(R::GROUPS)));
        self.claim = coins.claim(&self.batch.terms);
        for (_, make) in std::mem::take(&mut self.batch.linear) {
            let made = make(&mut stream);
            self.a.extend(made.a);
            self.b.extend(made.b);
            self.later = self.later.plus(made.claim);
        }
        for (len, make) in std::mem::take(&mut self.batch.sums) {
            let made = make(&mut stream);
            self.claim = self.claim.plus(made.claim);
            self.sums.push((len, made));
        }
        self.coins = Some(coins);
    }

    /// Returns the vectors' groups of a step after the first, with the random points in the last one.
    fn groups<'a>(&self, vector: &'a [R], random: &'a R, last: bool) -> (usize, Vec<&'a [R]>) {
        let columns = if last { 1 } else { vector.len().div_ceil(FOLD).max(1) };
        let group = |at: usize| {
            let start = vector.len().min(at * columns);
            &vector[start..vector.len().min(start + columns)]
        };
        let mut groups: Vec<&[R]> = (0..FOLD).map(group).collect();
        if last {
            groups.push(std::slice::from_ref(random));
        }
        (columns, groups)
    }

    /// Returns the values of the product of the polynomials at the prover.
    fn product(&self, step: usize) -> Vec<R> {
        let [points, _] = R::tables().of(step, self.steps);
        let (count, matrix) = match &self.coins {
            Some(coins) if step == 0 => {
                let mut matrix = coins.matrix(&self.batch.terms);
                self.sums.iter().for_each(|(len, sum)| sum.add_matrix(*len, &mut matrix));
                (R::GROUPS, matrix)
            }
            _ => {
                let last = step + 1 == self.steps;
                let (_, a) = self.groups(&self.a, &self.random[0], last);
                let (_, b) = self.groups(&self.b, &self.random[1], last);
                let matrix = a.iter().flat_map(|a| b.iter().map(|b| inner(a, b))).collect();
                (a.len(), matrix)
            }
        };
        let at_point = |point: usize| {
            if point < count {
                return matrix[point * count + point];
            }
            let weights = points.weights(super::extension::point(point));
            let rows = matrix.chunks(count).map(|row| inner(row, &weights));
            rows.zip(&weights).fold(R::zero(), |sum, (row, &weight)| sum.plus(row.times(weight)))
        };
        (0..2 * count - 1).map(at_point).collect()
    }

    /// Takes a verifier's share of the product.
    fn shared(&mut self, step: usize, share: &[R]) {
        // The random points of the last step do not count.
        let counted = if step == 0 { R::GROUPS } else { FOLD };
        let sum = share[..counted].iter().fold(R::zero(), |sum, &value| sum.plus(value));
        self.differences.push(self.claim.minus(sum));
        self.share = share.to_vec();
    }

    /// Goes on to the claim at a point, and to the vectors there.
    fn fold(&mut self, step: usize, challenge: R) {
        let [points, all] = R::tables().of(step, self.steps);
        self.claim = inner(&all.weights(challenge), &self.share);
        if step == 0 {
            // The prover knows the coins before it shares this step's product. Without this factor, whose
            // degree is above that of the product, a constant in the product would make up for a false
            // linear statement.
            let factor = power(challenge, 2 * R::GROUPS - 1);
            self.claim = self.claim.plus(self.later.times(factor));
            self.a.iter_mut().for_each(|x| *x = x.times(factor));
        }
        let weights = points.weights(challenge);
        if let Some(coins) = self.coins.take_if(|_| step == 0) {
            for (len, sum) in std::mem::take(&mut self.sums) {
                sum.append_folded(len, &weights, &mut self.a, &mut self.b);
            }
            if self.place != Place::Upper {
                let mut folded = coins.first(&self.batch.terms, &weights);
                folded.append(&mut self.a);
                self.a = folded;
            }
            if self.place != Place::Lower {
                let mut folded = coins.second(&self.batch.terms, &weights);
                folded.append(&mut self.b);
                self.b = folded;
            }
            self.batch.terms.clear();
            return;
        }
        let last = step + 1 == self.steps;
        let folded = |vector: &[R], random: &R| -> Vec<R> {
            let (columns, groups) = self.groups(vector, random, last);
            let sum = |column: usize| {
                let values = groups
                    .iter()
                    .zip(&weights)
                    .filter_map(|(group, &weight)| group.get(column).map(|value| value.times(weight)));
                values.fold(R::zero(), R::plus)
            };
            vectorized(
                #[inline(always)]
                || (0..columns).map(sum).collect(),
            )
        };
        let (a, b) = (folded(&self.a, &self.random[0]), folded(&self.b, &self.random[1]));
        (self.a, self.b) = (a, b);
    }
}

/// End of a proof that fails, as one party sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The two others have told this party different coins.
    Coins,
    /// Some party refuses a proof.
    Proof {
        /// This party refuses the proof of the party before it.
        by_me: bool,
        /// The party before this one refuses the proof of the party after it.
        by_before: bool,
        /// The party after this one refuses this party's proof.
        mine: bool,
        /// The party before this one has shown this party what it must.
        shown: bool,
    },
}

/// Returns a power.
pub(super) fn power<R: Extension>(x: R, exponent: usize) -> R {
    (0..exponent).fold(R::exceptional(1), |power, _| power.times(x))
}

fn send<R: Extension>(context: &Context, to: Side, elements: &[R]) {
    let mut bytes = Vec::with_capacity(elements.len() * R::BYTES);
    elements.iter().for_each(|element| element.write(&mut bytes));
    context.wire().send_bytes(to, &bytes);
}

fn receive<R: Extension>(context: &Context, from: Side, len: usize) -> Vec<R> {
    context
        .wire()
        .receive_bytes(from, len * R::BYTES, |bytes| bytes.chunks_exact(R::BYTES).map(R::read).collect())
}

/// Proves the statements of this party to the other two, and verifies theirs. `batches` are those of this
/// party, of the party after it and of the party before it. All three have the same sizes at all parties.
///
/// # Errors
/// If a proof fails.
pub async fn prove<R: Gates>(context: &mut Context, batches: [Batch<R>; 3]) -> Result<(), Refused> {
    let most = batches.iter().map(Batch::elements).max().unwrap_or(0);
    let steps = steps(most);
    let all: usize = (0..steps).map(|step| values::<R>(step, steps)).sum();
    // Key i is shared by the prover and L, key i + 1 by the prover and U, key i + 2 by L and U.
    let coins = context.step();
    let [confirmed, told] = [Side::Before, Side::After].map(|side| {
        let mut words = coins.draw::<u64>(side, 4 + 2 * steps);
        // A point of a step is no challenge. Both words are points with a probability below 2^-80.
        let challenges: Vec<u64> = words
            .split_off(4)
            .chunks(2)
            .map(|pair| if is_point::<R>(pair[0]) { pair[1] } else { pair[0] })
            .collect();
        words.extend(challenges);
        words
    });
    let masks = context.step();
    let [own, lower] = [Side::Before, Side::After].map(|side| {
        let mut stream = masks.stream(side);
        (0..all + 1).map(|_| R::draw(&mut stream)).collect::<Vec<R>>()
    });
    let points = context.step();
    let [of_upper, of_prover] = [Side::Before, Side::After].map(|side| R::draw(&mut points.stream(side)));
    let [mine, after, before] = batches;
    #[cfg(test)]
    let mut cheat = mine.cheat.clone();
    let zero = R::zero();
    let mut prover = Running::new(Place::Prover, steps, mine, [own[all], of_prover]);
    let mut lower_of = Running::new(Place::Lower, steps, after, [lower[all], zero]);
    let mut upper_of = Running::new(Place::Upper, steps, before, [zero, of_upper]);
    // Each party has the last messages of the batch when the next round is over.
    context.round().await;
    let mut start = 0;
    for step in 0..steps {
        // The coins of the first step are a seed, the others one word.
        let range = if step == 0 { 0..4 } else { 3 + step..4 + step };
        context.send(Side::Before, &told[range.clone()]);
        context.round().await;
        let coin: Vec<u64> = context.receive(Side::After, range.len());
        if step == 0 {
            prover.begin(&seed(&coin));
            lower_of.begin(&seed(&confirmed[..4]));
            upper_of.begin(&seed(&told[..4]));
        } else {
            prover.fold(step - 1, R::exceptional(coin[0]));
        }
        let count = values::<R>(step, steps);
        let product = prover.product(step);
        #[cfg(test)]
        let product = cheat.change((step, steps), if step == 0 { 0 } else { coin[0] }, product);
        let share: Vec<R> =
            product.iter().zip(&own[start..]).map(|(value, &mask)| value.minus(mask)).collect();
        // The prover follows what L must show.
        prover.shared(step, &own[start..start + count]);
        send(context, Side::After, &share);
        context.send(Side::After, &confirmed[range.clone()]);
        context.round().await;
        let share: Vec<R> = receive(context, Side::Before, count);
        if context.receive::<u64>(Side::Before, range.len()) != coin {
            // One of the two lies. This party sends nothing more: neither of them may see the values at two
            // different points.
            return Err(Refused::Coins);
        }
        lower_of.shared(step, &lower[start..start + count]);
        lower_of.fold(step, R::exceptional(confirmed[4 + step]));
        upper_of.shared(step, &share);
        upper_of.fold(step, R::exceptional(told[4 + step]));
        start += count;
    }
    // A prover that has found two coins has ended by now.
    context.round().await;
    let last = lower_of.shown();
    send(context, Side::Before, &last);
    send(context, Side::After, &last);
    context.send(Side::After, &confirmed[3 + steps..]);
    context.round().await;
    let of_mine: Vec<R> = receive(context, Side::Before, 2 + steps);
    let challenge = context.receive::<u64>(Side::Before, 1)[0];
    let of_before: Vec<R> = receive(context, Side::After, 2 + steps);
    let right = upper_of.accepts(&of_before);
    for side in [Side::Before, Side::After] {
        context.wire().send_bytes(side, &[u8::from(right)]);
    }
    context.round().await;
    let [told, mine] =
        [Side::Before, Side::After].map(|side| context.wire().receive_bytes(side, 1, |byte| byte == [1]));
    if right && told && mine {
        return Ok(());
    }
    prover.fold(steps - 1, R::exceptional(challenge));
    let shown = of_mine == prover.shown();
    Err(Refused::Proof { by_me: !right, by_before: !told, mine: !mine, shown })
}

/// Returns whether a word names one of the points of a step. The values there would be shown in the last
/// step.
fn is_point<R: Gates>(word: u64) -> bool {
    // The last step has 2 FOLD + 1 points.
    const { assert!(FOLD <= R::GROUPS) };
    word & R::MASK < 2 * R::GROUPS as u64 + 2
}

fn seed(words: &[u64]) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(32);
    u64::write_all(words, &mut bytes);
    bytes.try_into().unwrap_or_default()
}

impl<R: Gates> Running<R> {
    /// Returns whether U accepts: the first value of L's last message times its own is the sum of both
    /// claims, and both shares of each difference cancel out.
    fn accepts(&self, shown: &[R]) -> bool {
        let cancel = shown[2..].iter().zip(&self.differences).all(|(&a, &b)| a.plus(b) == R::zero());
        cancel && shown[0].times(self.b[0]) == shown[1].plus(self.claim)
    }

    /// Returns what L shows in the end: its folded vector, its claim and its differences.
    fn shown(&self) -> Vec<R> {
        [&[self.a[0], self.claim], &self.differences[..]].concat()
    }
}
