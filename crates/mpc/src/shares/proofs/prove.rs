//! One proof by each party, all three side by side.
//!
//! The prover is P, the party before it is L, and the party after it is U. P and L know one vector, and
//! P and U know another one. P convinces L and U that the inner product of the two vectors is the sum
//! of a number of L and a number of U (Boneh, Boyle, Corrigan-Gibbs, Gilboa & Ishai, *Zero-Knowledge
//! Proofs on Secret-Shared Data via Fully Linear PCPs*, CRYPTO 2019, section 4; Boyle, Gilboa, Ishai &
//! Nof, *Practical Fully Secure Three-Party Computation via Sublinear Distributed Zero-Knowledge
//! Proofs*, CCS 2019).
//!
//! A step folds the vectors: their groups become the values of two polynomials ([`cube`]), and P shares
//! the product of the polynomials between L and U. The value at a random point is the claim of the next
//! step. L and U draw coins and points from the key that they share, so P does not know these until U
//! tells P.
//!
//! - *P learns a coin only when it can no longer change what it proves.* U tells P the first coins one
//!   round after U has the last message of the batch. By then L also has this message, because L has
//!   sent another round.
//! - *L confirms each coin one round after U.* If the two coins differ, P ends before it sends anything
//!   else. So U cannot make P prove one claim while L verifies another one, which would reveal a
//!   difference of the two.
//! - *The last step has one more variable*, with a random value for each of the two vectors, so the values
//!   that L shows are uniform.

use super::super::accounts::{Account, Place, Told, told};
use super::super::round::Side;
use super::super::{Context, Ring};
use super::cube;
use super::extension::Extension;
use super::gates::{Coins, Gates, MakeSum, Sum, Terms, in_blocks};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Vectors of elements of a linear statement, as one party knows them.
#[derive(Clone)]
pub struct Vectors<R> {
    /// Vector of the prover and the party before it.
    pub a: Vec<R>,
    /// Vector of the prover and the party after it.
    pub b: Vec<R>,
    /// Number that this party knows. The prover has the number of the party before it.
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

/// Role of this party in a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Prover,
    /// The party before the prover.
    Lower,
    /// The party after the prover.
    Upper,
}

/// Variables of each step after the first.
const VARIABLES: usize = 3;
/// Groups of each step after the first.
pub const FOLD: usize = 1 << VARIABLES;

/// Steps of a proof.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Number of steps.
    pub count: usize,
    /// Variables of the first step.
    first: usize,
    /// True if there are sums of products of a coin and a word.
    sums: bool,
}

impl Steps {
    /// Returns the steps of three batches.
    fn new<R: Gates>(batches: &[Batch<R>; 3]) -> Self {
        let mut elements = batches.iter().map(Batch::elements).max().unwrap_or(0);
        let mut count = 2;
        while elements > FOLD {
            elements = elements.div_ceil(FOLD);
            count += 1;
        }
        Self { count, first: R::VARIABLES, sums: batches.iter().any(|batch| !batch.sums.is_empty()) }
    }

    fn last(self, step: usize) -> bool {
        step + 1 == self.count
    }

    /// Returns the number of variables of a step.
    fn variables(self, step: usize) -> usize {
        if step == 0 { self.first } else { VARIABLES + usize::from(self.last(step)) }
    }

    /// Returns the number of products of a step. In the first step, the sums have a product of their
    /// own, because their groups have no coins.
    fn products(self, step: usize) -> usize {
        1 + usize::from(step == 0 && self.sums)
    }

    /// Returns the number of values that the prover shares in a step.
    fn values(self, step: usize) -> usize {
        self.products(step) * cube::values(self.variables(step))
    }

    /// Returns the words of the coins of a step: a seed of four words, or the point of the step before it.
    fn coins(self, step: usize) -> std::ops::Range<usize> {
        let start = |step: usize| match step {
            0 => 0,
            _ => 4 + (0..step - 1).map(|step| self.variables(step)).sum::<usize>(),
        };
        start(step)..start(step + 1)
    }

    /// Returns the sum of the values of a step, without coins. In the last step, the values of the
    /// random groups do not count.
    fn sum<R: Extension>(self, step: usize, values: &[R]) -> R {
        let groups = if step == 0 { 1 << self.first } else { FOLD };
        let at = |group: usize| values[cube::corner(group, self.variables(step))];
        (0..groups).map(at).fold(R::zero(), R::plus)
    }
}

/// One party's state in the proof of one prover.
struct Running<R: Gates> {
    role: Role,
    steps: Steps,
    batch: Batch<R>,
    /// Number of elements after the first step.
    elements: usize,
    coins: Option<Coins<R>>,
    sums: Vec<(usize, Sum<R>)>,
    a: Vec<R>,
    b: Vec<R>,
    claim: R,
    /// Claims of the sums, in the first step.
    of_sums: R,
    /// Claims of the linear statements: they are added after the first step.
    later: R,
    /// L's share of the product in this step, or U's.
    share: Vec<R>,
    /// For L or U: its share of the claim minus the sum, for each product of each step.
    differences: Vec<R>,
    /// Random value of each vector in the last step.
    random: [R; 2],
}

impl<R: Gates> Running<R> {
    fn new(role: Role, steps: Steps, batch: Batch<R>, random: [R; 2]) -> Self {
        let zero = R::zero();
        Self {
            role,
            steps,
            elements: batch.elements(),
            batch,
            coins: None,
            sums: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            claim: zero,
            of_sums: zero,
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
            self.of_sums = self.of_sums.plus(made.claim);
            self.sums.push((len, made));
        }
        self.coins = Some(coins);
    }

    /// Returns the groups of a vector in a step after the first, with the random ones in the last step.
    fn groups<'a>(&self, step: usize, vector: &'a [R], random: &'a R) -> (usize, Vec<&'a [R]>) {
        let columns = if self.steps.last(step) { 1 } else { vector.len().div_ceil(FOLD).max(1) };
        let group = |at: usize| {
            let start = vector.len().min(at * columns);
            &vector[start..vector.len().min(start + columns)]
        };
        let mut groups: Vec<&[R]> = (0..FOLD).map(group).collect();
        groups.resize(1 << self.steps.variables(step), std::slice::from_ref(random));
        (columns, groups)
    }

    /// Returns the values of the product of the polynomials at the prover.
    fn product(&self, step: usize) -> Vec<R> {
        let mut values = vec![R::zero(); self.steps.values(step)];
        let one = cube::values(self.steps.variables(step));
        if let Some(coins) = self.coins.as_ref().filter(|_| step == 0) {
            coins.add_values(&self.batch.terms, &mut values[..one]);
            self.sums.iter().for_each(|(_, sum)| sum.add_values(&mut values[one..]));
            return values;
        }
        let mut add = |groups, columns, a: &[R], b: &[R]| {
            // The groups of such a block fit into the cache.
            let sizes = (groups, columns, 4096 / R::BYTES);
            let add = |_, sum: &mut R, a: &[R], b: &[R]| *sum = sum.plus(R::inner(a, b));
            in_blocks(&mut values, sizes, (a, R::differences), (b, R::differences), add);
        };
        if self.steps.last(step) {
            let [a, b] = [(&self.a, self.random[0]), (&self.b, self.random[1])].map(|(vector, random)| {
                let mut groups = vector.clone();
                groups.resize(FOLD, R::zero());
                groups.resize(2 * FOLD, random);
                groups
            });
            add(2 * FOLD, 1, &a, &b);
        } else {
            add(FOLD, self.a.len().div_ceil(FOLD).max(1), &self.a, &self.b);
        }
        values
    }

    /// Takes a verifier's share of the product.
    fn shared(&mut self, step: usize, share: &[R]) {
        let (values, of_sums) = share.split_at(cube::values(self.steps.variables(step)));
        let sum = match &self.coins {
            Some(coins) if step == 0 => coins.sum(values),
            _ => self.steps.sum(step, values),
        };
        self.differences.push(self.claim.minus(sum));
        if !of_sums.is_empty() {
            self.differences.push(self.of_sums.minus(self.steps.sum(step, of_sums)));
        }
        self.share = share.to_vec();
    }

    /// Continues with the claim at a point, and with the vectors at this point.
    fn fold(&mut self, step: usize, point: &[u64]) {
        let point: Vec<R> = point.iter().map(|&word| R::exceptional(word)).collect();
        let (values, of_sums) = self.share.split_at(cube::values(point.len()));
        self.claim = cube::value_at(values, &point);
        let weights = cube::weights(&point);
        let Some(coins) = self.coins.take_if(|_| step == 0) else {
            let [a, b] = [(&self.a, &self.random[0]), (&self.b, &self.random[1])].map(|(vector, random)| {
                let (columns, groups) = self.groups(step, vector, random);
                R::weighted(&groups, &weights, columns)
            });
            (self.a, self.b) = (a, b);
            return;
        };
        // The prover knows the coins before it shares the products. The values of sums and of linear
        // statements count times the cube of a coordinate each, and no product has this degree: so a
        // change of values of one kind cannot hide a false statement of another kind.
        let [for_linear, for_sums] = [point[0], point[1]].map(|x| power(x, 3));
        self.claim = self.claim.plus(self.later.times(for_linear));
        if !of_sums.is_empty() {
            self.claim = self.claim.plus(cube::value_at(of_sums, &point).times(for_sums));
        }
        let sums = std::mem::take(&mut self.sums);
        if self.role != Role::Upper {
            let scaled: Vec<R> = weights.iter().map(|weight| weight.times(for_sums)).collect();
            let mut a = Vec::with_capacity(self.elements);
            coins.fold_first(&self.batch.terms, &weights, &mut a);
            a.append(&mut R::weighted(&[&self.a], &[for_linear], self.a.len()));
            sums.iter().for_each(|(len, sum)| sum.a.fold(*len, &scaled, &mut a));
            self.a = a;
        }
        if self.role != Role::Lower {
            let mut b = Vec::with_capacity(self.elements);
            coins.fold_second(&self.batch.terms, &weights, &mut b);
            b.append(&mut self.b);
            sums.iter().for_each(|(len, sum)| sum.b.fold(*len, &weights, &mut b));
            self.b = b;
        }
        self.batch.terms.clear();
    }
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
/// The place of the check that fails.
pub async fn prove<R: Gates>(context: &mut Context, batches: [Batch<R>; 3]) -> Result<(), Place> {
    let steps = Steps::new(&batches);
    let all: usize = (0..steps.count).map(|step| steps.values(step)).sum();
    let words = steps.coins(steps.count).end;
    // Key i is shared by the prover and L, key i + 1 by the prover and U, key i + 2 by L and U.
    let coins = context.step();
    let [confirmed, coins_told] = [Side::Before, Side::After].map(|side| {
        let mut drawn = coins.draw::<u64>(side, 4 + 2 * (words - 4));
        // A coordinate of a point is not 0. Both words are 0 with a probability below 2^-97.
        let point = drawn.split_off(4);
        let nonzero = |pair: &[u64]| if pair[0] & R::MASK == 0 { pair[1] } else { pair[0] };
        drawn.extend(point.chunks(2).map(nonzero));
        drawn
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
    let mut prover = Running::new(Role::Prover, steps, mine, [own[all], of_prover]);
    let mut lower_of = Running::new(Role::Lower, steps, after, [lower[all], zero]);
    let mut upper_of = Running::new(Role::Upper, steps, before, [zero, of_upper]);
    // Each party has the last messages of the batch when the next round is over.
    context.round().await;
    let mut start = 0;
    for step in 0..steps.count {
        let range = steps.coins(step);
        #[cfg(test)]
        context.label("coin that U tells", Side::Before, 8 * range.len());
        context.send(Side::Before, &coins_told[range.clone()]);
        context.round().await;
        let coin: Vec<u64> = context.receive(Side::After, range.len());
        if step == 0 {
            prover.begin(&seed(&coin));
            lower_of.begin(&seed(&confirmed[..4]));
            upper_of.begin(&seed(&coins_told[..4]));
        } else {
            prover.fold(step - 1, &coin);
        }
        let count = steps.values(step);
        let product = prover.product(step);
        #[cfg(test)]
        let product = cheat.change(step, &coin, product);
        let share: Vec<R> =
            product.iter().zip(&own[start..]).map(|(value, &mask)| value.minus(mask)).collect();
        // The prover computes what L must show.
        prover.shared(step, &own[start..start + count]);
        let place = context.place(u32::try_from(step).unwrap_or(u32::MAX));
        let account =
            Account::new([&coins_told, &confirmed].map(|coins| hash_of_coins(&coins[range.clone()])));
        context.wire().account(place, Account { heard: [None, Some(hash_of_coins(&coin))], ..account });
        #[cfg(test)]
        context.label("share of a product", Side::After, share.len() * R::BYTES);
        send(context, Side::After, &share);
        #[cfg(test)]
        context.label("coin that L confirms", Side::After, 8 * range.len());
        context.send(Side::After, &confirmed[range.clone()]);
        context.round().await;
        let share: Vec<R> = receive(context, Side::Before, count);
        let again: Vec<u64> = context.receive(Side::Before, range.len());
        if again != coin {
            // One of the two lies. This party sends nothing more, because neither of the two may see
            // the values at two different points.
            if let Some(account) = context.wire().account_of(place) {
                account.heard[Side::Before as usize] = Some(hash_of_coins(&again));
                account.accepts = false;
            }
            return Err(place);
        }
        lower_of.shared(step, &lower[start..start + count]);
        lower_of.fold(step, &confirmed[steps.coins(step + 1)]);
        upper_of.shared(step, &share);
        upper_of.fold(step, &coins_told[steps.coins(step + 1)]);
        start += count;
    }
    // A prover that got two different coins has ended by now.
    context.round().await;
    let last = lower_of.shown();
    #[cfg(test)]
    context.label("last message of L", Side::Before, last.len() * R::BYTES);
    send(context, Side::Before, &last);
    let point = steps.coins(steps.count);
    #[cfg(test)]
    context.label("last point that L tells", Side::After, 8 * point.len());
    context.send(Side::After, &confirmed[point.clone()]);
    context.round().await;
    let of_before: Vec<R> = receive(context, Side::After, last.len());
    let challenge: Vec<u64> = context.receive(Side::Before, point.len());
    let accepts = upper_of.accepts(&of_before);
    // The prover knows what L must show.
    prover.fold(steps.count - 1, &challenge);
    let place = context.place(u32::try_from(steps.count).unwrap_or(u32::MAX));
    let account = Account::new([hash(&last), hash(&prover.shown())]);
    context.wire().account(place, Account { heard: [None, Some(hash(&of_before))], accepts, ..account });
    for side in [Side::Before, Side::After] {
        #[cfg(test)]
        context.label("verdict", side, 1);
        context.wire().send_bytes(side, &[u8::from(accepts)]);
    }
    context.round().await;
    let verdicts =
        [Side::Before, Side::After].map(|side| context.wire().receive_bytes(side, 1, |byte| byte == [1]));
    if let Some(account) = context.wire().account_of(place) {
        account.verdicts = verdicts.map(Some);
    }
    if accepts && verdicts == [true; 2] { Ok(()) } else { Err(place) }
}

/// Returns the hash of elements that a party shows.
fn hash<R: Extension>(elements: &[R]) -> Told {
    let mut bytes = Vec::with_capacity(elements.len() * R::BYTES);
    elements.iter().for_each(|element| element.write(&mut bytes));
    told(&bytes)
}

fn hash_of_coins(words: &[u64]) -> Told {
    let mut bytes = Vec::with_capacity(8 * words.len());
    u64::write_all(words, &mut bytes);
    told(&bytes)
}

fn seed(words: &[u64]) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(32);
    u64::write_all(words, &mut bytes);
    bytes.try_into().unwrap_or_default()
}

impl<R: Gates> Running<R> {
    /// Returns whether U accepts: the first value of L's last message times U's own value is the sum of
    /// both claims, and both shares of each difference cancel out.
    fn accepts(&self, shown: &[R]) -> bool {
        let cancel = shown[2..].iter().zip(&self.differences).all(|(&a, &b)| a.plus(b) == R::zero());
        cancel && shown[0].times(self.b[0]) == shown[1].plus(self.claim)
    }

    /// Returns what L shows in the end: its folded vector, its claim and its differences.
    fn shown(&self) -> Vec<R> {
        [&[self.a[0], self.claim], &self.differences[..]].concat()
    }
}
