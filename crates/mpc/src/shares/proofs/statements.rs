//! Statements of the operations: for each message, what its sender must prove.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::super::bits::{planes, words};
use super::super::primitives::LANES;
use super::super::round::Side;
use super::super::{Bits, Context, Ring, Shared, Xor};
use super::extension::{Extension, draw_all};
use super::galois::{Galois, combined, scaled_sum};
use super::gates::Terms;
use super::hops::Kept;
use super::log::{Log, Proved, Prover};
use super::prove::{Make, Vectors};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Words that a party has drawn to mask a reshare: with the party before it, and with the party after
/// it.
pub struct Masks<T> {
    /// Words of the own key.
    pub before: Vec<T>,
    /// Words of the next key.
    pub after: Vec<T>,
}

impl<T> std::fmt::Debug for Masks<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({} words, <redacted>)", self.before.len())
    }
}

/// Returns the prover with this role, seen from the party of a context.
fn prover(context: &Context, role: usize) -> Prover {
    [Prover::Me, Prover::After, Prover::Before][(role + 3 - context.role()) % 3]
}

fn minus<T: Ring>(mut a: Vec<T>, b: &[T]) -> Vec<T> {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = a.sub(b));
    a
}

/// Adds the statements of a reshare of sums of products. Each of `pairs` has one factor of each sum.
pub fn products<T: Proved>(
    log: &Log,
    result: &Shared<T>,
    masks: Masks<T>,
    pairs: Vec<(Shared<T>, Shared<T>)>,
) {
    // With z_i = sum (x_i y_i + x_i y_(i+1) + x_(i+1) y_i) + k_i - k_(i+1), party i - 1 knows
    // z_i - sum x_i y_i - k_i, and party i + 1 knows k_(i+1).
    let word = |z: &[T], key: &[T], share: fn(&Shared<T>) -> &Vec<T>| {
        let mut word = minus(z.to_vec(), key);
        for (x, y) in &pairs {
            let factors = share(x).iter().zip(share(y));
            word.iter_mut().zip(factors).for_each(|(word, (x, y))| *word = word.sub(x.mul(*y)));
        }
        word
    };
    let mine = word(&result.own, &masks.before, |x| &x.own);
    let after = word(&result.next, &masks.after, |x| &x.next);
    let (len, products) = (result.len(), 2 * pairs.len());
    let (mut own, mut next, mut own_turned, mut next_turned) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (x, y) in pairs {
        let [x0, x1, y0, y1] = [x.own, x.next, y.own, y.next].map(Arc::new);
        own.extend([Arc::clone(&x0), Arc::clone(&y0)]);
        next.extend([Arc::clone(&x1), Arc::clone(&y1)]);
        own_turned.extend([y0, x0]);
        next_turned.extend([y1, x1]);
    }
    log.add(Prover::Me, Terms { len, products, a: own, b: next_turned, word: mine });
    log.add(Prover::After, Terms { len, products, a: next, b: Vec::new(), word: after });
    log.add(Prover::Before, Terms { len, products, a: Vec::new(), b: own_turned, word: masks.before });
}

/// Statement of one role, as all parties know it together. Each party keeps its own part of it.
struct OfRole<T> {
    role: usize,
    len: usize,
    products: usize,
    a: Vec<Vec<T>>,
    b: Vec<Vec<T>>,
    /// Word that the party before the prover knows. The prover knows it, too.
    lower: Vec<T>,
    /// Word that the party after the prover knows.
    upper: Vec<T>,
}

impl<T: Proved> OfRole<T> {
    fn add(self, context: &Context, log: &Log) {
        let prover = prover(context, self.role);
        let shared = |vectors: Vec<Vec<T>>, known: bool| -> Vec<Arc<Vec<T>>> {
            if known { vectors.into_iter().map(Arc::new).collect() } else { Vec::new() }
        };
        let terms = Terms {
            len: self.len,
            products: self.products,
            a: shared(self.a, prover != Prover::Before),
            b: shared(self.b, prover != Prover::After),
            word: if prover == Prover::Before { self.upper } else { self.lower },
        };
        log.add(prover, terms);
    }
}

/// Adds the statement of role 0 that it has dealt the bits of the sum of its two shares `x`. `dealt` are
/// the shares of the bits, plane after plane.
///
/// Party 2 knows share 0, with bits a, and the dealt share r; party 1 knows share 1, with bits b, and the
/// dealt share m. With p = r + a and q = m + b, the carry into each place is p + q, and
/// (a + c)(b + c) + c = (r + q)(m + p) + p + q is the carry out of it.
pub fn sum_of_shares<T: Ring>(
    context: &Context,
    log: &Log,
    x: &Shared<T>,
    dealt: &Shared<Bits>,
    count: usize,
) {
    let width = words(x.len());
    // This party has the first share or the second one; role 0 has both.
    let known = |share: &[T], dealt: &[Bits]| -> [Vec<Bits>; 2] {
        let mut bits = planes(share, count.min(LANES));
        bits.resize(count * width, Bits::default());
        let carries = dealt.iter().zip(&bits).map(|(r, a)| Xor(r.0 ^ a.0)).collect();
        [dealt.to_vec(), carries]
    };
    let [first, second] = match context.role() {
        0 => [Some(known(&x.own, &dealt.own)), Some(known(&x.next, &dealt.next))],
        1 => [None, Some(known(&x.own, &dealt.own))],
        _ => [Some(known(&x.next, &dealt.next)), None],
    };
    let inner = count.saturating_sub(1) * width;
    // p_(t+1) + p_t + r_t p_t, and the same of q and m.
    let word = |[r, p]: &[Vec<Bits>; 2]| -> Vec<Bits> {
        (0..inner).map(|at| Xor(p[at + width].0 ^ p[at].0 ^ r[at].0 & p[at].0)).collect()
    };
    let low = |vectors: &Option<[Vec<Bits>; 2]>, range: std::ops::Range<usize>| -> Vec<Vec<Bits>> {
        vectors.iter().flatten().map(|vector| vector[range.clone()].to_vec()).collect()
    };
    let lower: Vec<Bits> = first.as_ref().map(&word).unwrap_or_default();
    let upper: Vec<Bits> = second.as_ref().map(&word).unwrap_or_default();
    let (a, b) = (low(&first, 0..inner), low(&second, 0..inner));
    OfRole { role: 0, len: inner, products: 2, a, b, lower, upper }.add(context, log);
    // There is no carry into the lowest place.
    let lowest = |known: Option<[Vec<Bits>; 2]>| {
        known.map(|[_, p]| p[..p.len().min(width)].to_vec()).unwrap_or_default()
    };
    let (lower, upper) = (lowest(first), lowest(second));
    let len = if count == 0 { 0 } else { width };
    OfRole { role: 0, len, products: 0, a: vec![], b: vec![], lower, upper }.add(context, log);
}

/// Returns bit `lane` of a plane.
fn bit<T: Ring>(plane: &[Bits], lane: usize) -> T {
    T::from_bits(plane[lane / LANES].0 >> (lane % LANES) & 1)
}

fn integers<T: Ring>(plane: &[Bits], len: usize) -> Vec<T> {
    (0..len).map(|lane| bit(plane, lane)).collect()
}

/// Adds the statement of role 0 that it has dealt the exclusive or of its two shares of each bit as an
/// integer: r + m = b_0 + b_1 - 2 b_0 b_1. `dealt` are the shares of the integers.
pub fn exclusive_or<T: Proved>(
    context: &Context,
    log: &Log,
    bits: &[Shared<Bits>],
    len: usize,
    dealt: &Shared<T>,
) {
    let all = |share: &dyn Fn(&Shared<Bits>) -> Vec<Bits>| -> Vec<T> {
        bits.iter().flat_map(|plane| integers::<T>(&share(plane), len)).collect()
    };
    let own = |plane: &Shared<Bits>| plane.own.clone();
    let next = |plane: &Shared<Bits>| plane.next.clone();
    let twice = |words: &[T]| words.iter().map(|&x| T::default().sub(x).sub(x)).collect::<Vec<T>>();
    let (first, second) = match context.role() {
        0 => (Some((all(&own), &dealt.own)), Some((all(&next), &dealt.next))),
        1 => (None, Some((all(&own), &dealt.own))),
        _ => (Some((all(&next), &dealt.next)), None),
    };
    let word = |known: &Option<(Vec<T>, &Vec<T>)>| {
        known.as_ref().map(|(bits, dealt)| minus(dealt.to_vec(), bits)).unwrap_or_default()
    };
    let (lower, upper) = (word(&first), word(&second));
    let a = first.map(|(bits, _)| twice(&bits)).into_iter().collect();
    let b = second.map(|(bits, _)| bits).into_iter().collect();
    OfRole { role: 0, len: bits.len() * len, products: 1, a, b, lower, upper }.add(context, log);
}

/// Words that roles 0 and 1 add to a conversion of bits to integers, as one party knows them.
#[derive(Default)]
pub struct Added<T> {
    /// Factors of the words that role 0 adds.
    a: Vec<Vec<T>>,
    b: Vec<Vec<T>>,
    /// Words of role 0 that role 2 knows, and words of role 0 that role 1 knows.
    lower: Vec<T>,
    upper: Vec<T>,
    /// Words of role 1, which role 2 knows.
    one: Vec<T>,
}

impl<T> std::fmt::Debug for Added<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Added(<redacted>)")
    }
}

/// Returns the words that a truncation adds. Role 0 adds floor(s / 2^bits) for s = v_0 + v_1 mod 2^64,
/// which is floor(v_0 / 2^bits) + floor(v_1 / 2^bits) + c - 2^(64 - bits) w. Here c is the sum's carry
/// into place `bits`, and w is its carry into place 64. Each carry is the exclusive or of a bit p of
/// role 2 and a bit q of role 1 ([`sum_of_shares`]): p + q - 2 p q. Role 1 adds floor(v_2 / 2^bits).
/// `dealt` are the planes of the sum.
pub fn floors(context: &Context, v: &Shared<u64>, dealt: &[Shared<Bits>], bits: u32) -> Added<u64> {
    let (place, over) = (bits as usize, 1u64.wrapping_shl(64 - bits));
    // The two carries, and the words without them.
    let known = |v: &[u64], dealt: [&Vec<Bits>; 2]| {
        let width = words(v.len());
        let own: Vec<Bits> = planes(v, LANES)[place * width..][..width].to_vec();
        let low: Vec<Bits> = dealt[0].iter().zip(&own).map(|(r, a)| Xor(r.0 ^ a.0)).collect();
        let [low, high] = [&low, dealt[1]].map(|plane| integers::<u64>(plane, v.len()));
        let carries = low.iter().zip(&high).map(|(c, w)| c.wrapping_sub(over.wrapping_mul(*w)));
        let word = v.iter().zip(carries).map(|(v, carries)| (v >> bits).wrapping_add(carries)).collect();
        ([low, high], word)
    };
    let times = |words: &[u64], factor: u64| words.iter().map(|word| word.wrapping_mul(factor)).collect();
    let own = || known(&v.own, [&dealt[place].own, &dealt[LANES].own]);
    let next = || known(&v.next, [&dealt[place].next, &dealt[LANES].next]);
    type Carries = ([Vec<u64>; 2], Vec<u64>);
    let (first, second): (Option<Carries>, Option<Carries>) = match context.role() {
        0 => (Some(own()), Some(next())),
        1 => (None, Some(own())),
        _ => (Some(next()), None),
    };
    let mut added = Added::default();
    if let Some(([low, high], word)) = first {
        added.a = vec![times(&low, 2u64.wrapping_neg()), times(&high, over.wrapping_mul(2))];
        added.lower = word;
    }
    if let Some((carries, word)) = second {
        added.b = carries.into();
        added.upper = word;
    }
    if context.role() == 2 {
        added.one = v.own.iter().map(|v| v >> bits).collect();
    }
    added
}

/// Adds the statements of the reshare that ends a conversion of bits to integers. Role 1 adds up
/// w (b + u - 2 u b) of share 1 of u, role 2 adds up w (u - 2 u b) of share 0; b is share 2 of the bits,
/// which roles 1 and 2 know. Roles 0 and 1 may add more.
pub fn converted<T: Proved, const N: usize>(
    context: &Context,
    log: &Log,
    (bits, len): (&[Shared<Bits>], usize),
    dealt: &Shared<T>,
    weights: [&[T]; N],
    (result, masks): (&Shared<T>, Masks<T>),
    added: Added<T>,
) {
    let role = context.role();
    let all = N * len;
    let without = |words: Vec<T>, added: &[T]| if added.is_empty() { words } else { minus(words, added) };
    // Word list of each bit, for all lists of weights.
    let weighted = |words: &dyn Fn(usize) -> Vec<T>, factor: T| -> Vec<Vec<T>> {
        (0..bits.len())
            .map(|at| {
                let words = words(at);
                let of = |weights: &[T]| -> Vec<T> {
                    words.iter().map(|word| word.mul(weights[at]).mul(factor)).collect()
                };
                weights.iter().flat_map(|weights| of(weights)).collect()
            })
            .collect()
    };
    let plain = |words: &dyn Fn(usize) -> Vec<T>| -> Vec<Vec<T>> {
        (0..bits.len()).map(|at| words(at).repeat(N)).collect()
    };
    let sum = |vectors: &[Vec<T>]| {
        vectors.iter().fold(vec![T::default(); all], |mut sum, vector| {
            sum.iter_mut().zip(vector).for_each(|(sum, &x)| *sum = sum.add(x));
            sum
        })
    };
    let (one, minus_two) = (T::from_bits(1), T::default().sub(T::from_bits(2)));
    let own_u = |at: usize| dealt.own[at * len..][..len].to_vec();
    let next_u = |at: usize| dealt.next[at * len..][..len].to_vec();
    let own_bits = |at: usize| integers::<T>(&bits[at].own, len);
    let next_bits = |at: usize| integers::<T>(&bits[at].next, len);
    let message = |z: &[T], key: &[T]| minus(z.to_vec(), key);
    let (own, next) = (message(&result.own, &masks.before), message(&result.next, &masks.after));
    let none = Vec::new;
    let (lower, upper) = match role {
        0 => (without(own.clone(), &added.lower), none()),
        2 => (without(next.clone(), &added.lower), none()),
        _ => (none(), without(masks.before.clone(), &added.upper)),
    };
    let products = added.a.len().max(added.b.len());
    OfRole { role: 0, len: all, products, a: added.a, b: added.b, lower, upper }.add(context, log);
    // Role 1: share 1 of u is known to role 0, share 2 of the bits to role 2.
    let (a, b, lower, upper) = match role {
        0 => {
            (weighted(&next_u, minus_two), vec![], minus(next.clone(), &sum(&weighted(&next_u, one))), none())
        }
        1 => {
            let lower = minus(own.clone(), &sum(&weighted(&own_u, one)));
            (weighted(&own_u, minus_two), plain(&next_bits), lower, none())
        }
        _ => {
            let upper = minus(masks.before.clone(), &sum(&weighted(&own_bits, one)));
            (vec![], plain(&own_bits), none(), without(upper, &added.one))
        }
    };
    OfRole { role: 1, len: all, products: bits.len(), a, b, lower, upper }.add(context, log);
    // Role 2: share 2 of the bits is known to role 1, share 0 of u to role 0.
    let (a, b, lower, upper) = match role {
        0 => (vec![], plain(&own_u), none(), minus(masks.before, &sum(&weighted(&own_u, one)))),
        1 => (weighted(&next_bits, minus_two), vec![], next, none()),
        _ => (weighted(&own_bits, minus_two), plain(&next_u), own, none()),
    };
    OfRole { role: 2, len: all, products: bits.len(), a, b, lower, upper }.add(context, log);
}

/// Reshared product of matrices: the rows of x and y, and this party's words of the result.
struct Known<T: Ring> {
    /// Result of a prover, with its mask, at the party before it.
    lower: Zeroizing<Vec<T>>,
    /// Mask of the party after the prover.
    upper: Zeroizing<Vec<T>>,
}

/// Returns what this party knows of a reshare with each prover: with itself, with the party after it,
/// and with the party before it.
fn known<T: Ring>(result: &Shared<T>, masks: Masks<T>) -> [(Prover, Known<T>); 3] {
    let known = |lower, upper| Known { lower: Zeroizing::new(lower), upper: Zeroizing::new(upper) };
    let lower = |z: &[T], key: &[T]| known(minus(z.to_vec(), key), Vec::new());
    [
        (Prover::Me, lower(&result.own, &masks.before)),
        (Prover::After, lower(&result.next, &masks.after)),
        (Prover::Before, known(Vec::new(), masks.before)),
    ]
}

/// Returns `count` coins.
fn coins<R: Extension>(stream: &mut Stream, count: usize) -> Vec<R> {
    draw_all(stream, count).into_iter().map(R::exceptional).collect()
}

/// Adds the statements of the distances of all pairs. `codes` are whole blocks of rows of `bits` words.
/// `place` gets a row `j` of a block and a row i (up to the end of that block), and returns the place of
/// their product in the result.
///
/// The coin of a product is alpha_j beta_i (Freivalds, *Probabilistic Machines Can Use Less Running
/// Time*, 1977). For block J, with sums alpha x over its rows and beta x over the rows up to its end,
/// the products are (alpha x_i) (beta x_(i+1)) + (beta x_i) (alpha x_(i+1)) plus words that one party
/// knows.
pub fn distances(
    log: &Log,
    (codes, bits): (&Kept<u16>, usize),
    (result, masks): (&Shared<u16>, Masks<u16>),
    place: fn(usize, usize) -> usize,
) {
    type R = Galois<u16>;
    let (rows, width) = (codes.len() / bits, LANES * bits);
    let blocks = rows / LANES;
    for (prover, known) in known(result, masks) {
        let codes = Arc::clone(codes);
        let make: Make<R> = Box::new(move |stream| {
            let (alpha, beta) = (coins::<R>(stream, rows), coins::<R>(stream, rows));
            let sums = |share: &[u16]| -> [Vec<Vec<R>>; 2] {
                let (mut inside, mut up_to) = (Vec::new(), vec![vec![R::zero(); bits]]);
                for block in 0..blocks {
                    let rows = &share[block * width..(block + 1) * width];
                    let of = |coins: &[R]| combined(&coins[block * LANES..(block + 1) * LANES], rows, bits);
                    inside.push(of(&alpha));
                    let before = &up_to[block];
                    up_to.push(before.iter().zip(of(&beta)).map(|(a, b)| a.plus(b)).collect());
                }
                up_to.remove(0);
                [inside, up_to]
            };
            let total = |words: &[u16]| {
                let mut total = R::zero();
                for (j, alpha) in alpha.iter().enumerate().filter(|_| !words.is_empty()) {
                    let until = (j / LANES + 1) * LANES;
                    let row = scaled_sum(&beta, (0..until).map(|i| words[place(j, i)]));
                    total = total.plus(row.times(*alpha));
                }
                total
            };
            let flat = |first: &[Vec<R>], second: &[Vec<R>]| [first, second].concat().concat();
            let mut vectors =
                Vectors { claim: total(&known.lower).plus(total(&known.upper)), ..Vectors::default() };
            if prover != Prover::Before {
                let [inside, up_to] = sums(if prover == Prover::Me { &codes.own } else { &codes.next });
                let local = inside.iter().zip(&up_to).map(|(a, b)| R::inner(a, b)).fold(R::zero(), R::plus);
                vectors.claim = vectors.claim.minus(local);
                vectors.a = flat(&inside, &up_to);
            }
            if prover != Prover::After {
                let [inside, up_to] = sums(if prover == Prover::Me { &codes.next } else { &codes.own });
                vectors.b = flat(&up_to, &inside);
            }
            vectors
        });
        log.add_linear::<u16>(prover, 2 * blocks * bits, make);
    }
}

/// Share of a matrix.
type Share = fn(&Shared<u64>) -> &Vec<u64>;

/// One product of the graph with a matrix, and its masks.
#[derive(Debug)]
pub struct Step {
    /// The factor, points x columns.
    pub factor: Shared<u64>,
    /// The reshared product.
    pub result: Shared<u64>,
    /// Its masks.
    pub masks: Masks<u64>,
}

/// Adds the statements of all products of the graph with matrices of `columns` columns. `rows` returns
/// the sum of the rows of this party's own share of the graph, or of its next share, each row times its
/// coin.
///
/// The coin of a word is alpha_row beta_column. Each step has its own coins beta; alpha is the same in all.
/// So all steps are one statement about two vectors of points: (alpha W_i) (a_(i+1) beta) + (a_i beta)
/// (alpha W_(i+1)).
pub fn graph(
    log: &Log,
    (points, columns): (usize, usize),
    steps: Vec<Step>,
    rows: impl Fn(&[Galois<u64>], Side) -> Vec<Galois<u64>> + Clone + Send + 'static,
) {
    type R = Galois<u64>;
    let (mut factors, mut parts) = (Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for step in steps {
        factors.push(step.factor);
        let known = known(&step.result, step.masks);
        parts.iter_mut().zip(known).for_each(|(parts, (_, known))| parts.push(known));
    }
    let factors = Arc::new(Zeroizing::new(factors));
    for (prover, parts) in [Prover::Me, Prover::After, Prover::Before].into_iter().zip(parts) {
        let (factors, rows) = (Arc::clone(&factors), rows.clone());
        let make: Make<R> = Box::new(move |stream| {
            let alpha = coins::<R>(stream, points);
            let beta: Vec<Vec<R>> = factors.iter().map(|_| coins::<R>(stream, columns)).collect();
            // The sum over the columns of all steps.
            let by_point = |share: fn(&Shared<u64>) -> &Vec<u64>| -> Vec<R> {
                let mut sums = vec![R::zero(); points];
                for (factor, beta) in factors.iter().zip(&beta) {
                    let words = share(factor).chunks(columns);
                    for (sum, words) in sums.iter_mut().zip(words) {
                        *sum = sum.plus(scaled_sum(beta, words.iter().copied()));
                    }
                }
                sums
            };
            let mut claim = R::zero();
            for (known, beta) in parts.iter().zip(&beta) {
                for words in [&known.lower, &known.upper] {
                    for (words, alpha) in words.chunks(columns).zip(&alpha) {
                        let row = scaled_sum(beta, words.iter().copied());
                        claim = claim.plus(row.times(*alpha));
                    }
                }
            }
            let mut vectors = Vectors { claim, ..Vectors::default() };
            if prover != Prover::Before {
                let (side, share): (_, Share) = if prover == Prover::Me {
                    (Side::Before, |x| &x.own)
                } else {
                    (Side::After, |x| &x.next)
                };
                let (rows, sums) = (rows(&alpha, side), by_point(share));
                vectors.claim = vectors.claim.minus(R::inner(&rows, &sums));
                vectors.a = [rows, sums].concat();
            }
            if prover != Prover::After {
                let (side, share): (_, Share) = if prover == Prover::Me {
                    (Side::After, |x| &x.next)
                } else {
                    (Side::Before, |x| &x.own)
                };
                vectors.b = [by_point(share), rows(&alpha, side)].concat();
            }
            vectors
        });
        log.add_linear::<u64>(prover, 2 * points, make);
    }
}
