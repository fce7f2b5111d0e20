//! Tests that every operation is proved, and that each wrong message is found.

mod cheats;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zeroize::Zeroize;

use super::super::accounts::{Account, Place, judge};
use super::super::bits::{Adder, a2b, add, b2a, carry, sign};
use super::super::chebyshev::Graph;
use super::super::distances::hamming;
use super::super::lookup::lookup;
use super::super::memory::{Run, in_memory, tampered};
use super::super::nearest::nearest;
use super::super::primitives::{multiply, multiply_all, reshare_proved};
use super::super::round::Part;
use super::super::shuffle::{shuffle, unshuffle};
use super::super::truncate::truncate;
use super::super::{Bits, Context, Ring, Shared, Xor};
use super::cube;
use super::extension::{Extension, Galois, Gf64, draw_bits};
use super::gates::{Coins, Factor, Gates, MakeSum, Sum, Terms};
use super::log::{Alongside, Log};
use super::prove::{Batch, FOLD, Vectors, power, prove};
use super::statements::{self, Step};
use flyswarm_sealed_sum::crypto::stream::Stream;

fn words(count: usize, seed: u8) -> Vec<u64> {
    let mut stream = Stream::new(&[seed; 32], "test words", &[]);
    let mut values = vec![0u64; count];
    super::super::context::blend(&mut stream, &mut values, |_, word| word);
    values
}

fn share<T: Ring>(values: &[T], seed: u8) -> [Shared<T>; 3] {
    let of = |seed| words(values.len(), seed).into_iter().map(T::from_bits).collect::<Vec<T>>();
    let (one, two) = (of(seed), of(!seed));
    let rest = values.iter().zip(one.iter().zip(&two)).map(|(&x, (&a, &b))| x.sub(a).sub(b)).collect();
    let shares = [one, two, rest];
    std::array::from_fn(|party| Shared { own: shares[party].clone(), next: shares[(party + 1) % 3].clone() })
}

/// Change of a message.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// One is added to this bit of the words, modulo their number of bits.
    Bit(u64),
    /// The first two words that differ change places.
    Swap,
}

/// Number of the message that a party makes wrongly, from 1, and the change of this message. The party
/// continues as if the changed message were right, so its own shares agree with the sent message.
#[derive(Clone, Copy, Debug)]
struct Plan {
    message: usize,
    change: Change,
}

/// Messages of one party so far.
#[derive(Default)]
struct Made {
    /// Kind and round of each message.
    messages: Vec<(&'static str, u32)>,
    plan: Option<Plan>,
    /// Round of the changed message.
    changed: Option<u32>,
}

/// Messages of one party. It may change one.
#[derive(Clone, Default)]
pub(in crate::shares) struct Cheat(Arc<Mutex<Made>>);

impl Cheat {
    fn new(plan: Option<Plan>) -> Self {
        Self(Arc::new(Mutex::new(Made { plan, ..Made::default() })))
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Made> {
        self.0.lock().expect("no panic")
    }

    pub(super) fn change<T: Ring>(&self, message: (&'static str, u32), width: usize, words: &mut [T]) {
        let mut made = self.made();
        made.messages.push(message);
        let planned = made.plan.filter(|plan| plan.message == made.messages.len() && !words.is_empty());
        match planned.map(|plan| plan.change) {
            Some(Change::Bit(bit)) => {
                let bit = (bit % (width * words.len()) as u64) as usize;
                let word = &mut words[bit / width];
                *word = word.add(T::from_bits(1 << (bit % width)));
            }
            Some(Change::Swap) => {
                let Some(other) = words.iter().position(|word| *word != words[0]) else { return };
                words.swap(0, other);
            }
            None => return,
        }
        made.changed = Some(message.1);
    }
}

/// Word that counts how often it is wiped.
#[derive(Clone, Default)]
struct Wiped(Arc<Mutex<usize>>);

impl Zeroize for Wiped {
    fn zeroize(&mut self) {
        *self.0.lock().expect("no panic") += 1;
    }
}

#[test]
fn statements_wipe_their_words_and_the_last_one_wipes_a_shared_factor() {
    let (factor, word) = (Wiped::default(), Wiped::default());
    let counts = || [&factor, &word].map(|wiped| *wiped.0.lock().expect("no panic"));
    let shared = Arc::new(vec![factor.clone(); 3]);
    let words = || vec![word.clone(); 3];
    let one = Terms { len: 3, products: 1, a: vec![Arc::clone(&shared)], b: vec![], word: words() };
    let two = Terms { len: 3, products: 1, a: vec![], b: vec![shared], word: words() };
    drop(one);
    assert_eq!(counts(), [0, 3]);
    drop(two);
    assert_eq!(counts(), [3, 6]);
}

type Program = dyn Fn(Context) -> Part<'static, ()> + Sync;

/// Runs a program and the proofs of all its statements. A party may cheat. Also returns the number of
/// messages of each party.
fn run(program: &Program, cheat: Option<(usize, Plan)>) -> (Run<Result<u32, Place>>, [usize; 3]) {
    let cheats = cheats(cheat);
    let run = in_memory(5, |context| {
        let log = Log::new(cheats[context.role()].clone());
        let (root, inner) = (context.split(0), context.split(0).with_log(log.clone()));
        let part = program(inner);
        let body = Box::pin(async move {
            part.await;
            context.wire().rounds()
        });
        Box::pin(Alongside::new(root, log, body))
    });
    (run, cheats.map(|cheat| cheat.made().messages.len()))
}

/// Makes the messages of all parties. One party may cheat.
fn cheats(cheat: Option<(usize, Plan)>) -> [Cheat; 3] {
    std::array::from_fn(|party| Cheat::new(cheat.filter(|(cheat, _)| *cheat == party).map(|(_, plan)| plan)))
}

/// Checks that a check fails at the same place for all parties, and that the named pair is `cheat` and
/// the party after it.
fn caught<T: std::fmt::Debug>(run: &Run<Result<T, Place>>, cheat: usize, what: &str) {
    let places = run.results.each_ref().map(|result| *result.as_ref().expect_err(what));
    assert_eq!(places, [places[0]; 3], "{what}");
    assert_eq!(judged(&run.accounts, places[0]), Some([(cheat + 1) % 3, cheat]), "{what}");
}

/// Returns the named pair, by the accounts of a place.
fn judged(accounts: &[BTreeMap<Place, Account>; 3], place: Place) -> Option<[usize; 2]> {
    judge(accounts.each_ref().map(|of| &of[&place]))
}

/// Checks that the proofs of a program hold, and that a party that changes one bit of any of its messages
/// is found: its proof, and no other one, is refused.
fn every_message_is_proved(name: &str, program: &Program, faults: usize) {
    let (whole, messages) = run(program, None);
    let rounds: Vec<u32> = whole.results.iter().map(|result| *result.as_ref().expect(name)).collect();
    assert!(rounds[0] > 0 && rounds.iter().all(|&each| each == rounds[0]), "{name}: {rounds:?}");
    println!("{name}: {} rounds, {} with proofs, {:?} bytes", rounds[0], whole.rounds, whole.sent);
    assert!(messages.iter().all(|&count| count > 0), "{name}: {messages:?}");
    for (party, count) in messages.into_iter().enumerate() {
        for message in 1..=count {
            let places = [0, u64::MAX].into_iter().chain(words(faults, message as u8));
            for bit in places {
                let (found, _) = run(program, Some((party, Plan { message, change: Change::Bit(bit) })));
                caught(&found, party, &format!("{name}: message {message} of {party}, bit {bit}"));
            }
        }
    }
}

/// Makes a program of shared values.
fn of<T: Ring + Sync>(
    values: Vec<T>,
    body: impl Fn(Context, Shared<T>) -> Part<'static, ()> + Sync + 'static,
) -> Box<Program> {
    let shares = share(&values, 3);
    Box::new(move |context: Context| {
        let held = shares[context.role()].clone();
        body(context, held)
    })
}

#[test]
fn products_of_each_ring_are_proved() {
    fn twice<T: super::log::Proved>(len: usize) -> Box<Program> {
        of(words(len, 1).into_iter().map(T::from_bits).collect(), |mut context, x: Shared<T>| {
            Box::pin(async move {
                let square = multiply(&mut context, &x, &x.plus(&x)).await;
                multiply_all(&mut context, &[(&square, &x), (&x, &x)]).await;
            })
        })
    }
    every_message_is_proved("and", &twice::<Bits>(70), 3);
    every_message_is_proved("16 bits", &twice::<u16>(70), 1);
    every_message_is_proved("64 bits", &twice::<u64>(3), 1);
}

#[test]
fn conversions_between_bits_and_integers_are_proved() {
    let program = of(words(70, 2), |mut context, x: Shared<u64>| {
        Box::pin(async move {
            let bits = a2b(&mut context, &x, 20, Adder::Sklansky).await;
            add(&mut context, &bits[..5], &bits[5..10], Adder::Ripple).await;
            carry(&mut context, bits[..6].to_vec(), bits[6..12].to_vec()).await;
            sign(&mut context, &x, 9).await;
        })
    });
    every_message_is_proved("bits of integers", &program, 3);
    let program = of(words(8, 3).into_iter().map(Xor).collect(), |mut context, x: Shared<Bits>| {
        Box::pin(async move {
            let planes = x.chunks(2);
            b2a(&mut context, &planes, 70, [&[1u64, 2, 4, 1 << 63], &[5, 6, 7, 8]]).await;
            b2a(&mut context, &planes[..1], 70, [&[1u16]]).await;
        })
    });
    every_message_is_proved("integers of bits", &program, 2);
}

#[test]
fn truncations_are_proved() {
    // Values between -2^61 and 2^61.
    let values = words(20, 9).into_iter().map(|x| ((x as i64) >> 2) as u64).collect();
    let program = of(values, |mut context, x: Shared<u64>| {
        Box::pin(async move {
            truncate(&mut context, &x, 31).await;
            truncate(&mut context, &x.slice(0..3), 1).await;
        })
    });
    every_message_is_proved("truncations", &program, 0);
}

#[test]
fn shuffles_are_proved() {
    let program = of(words(3 * 10, 10), |mut context, x: Shared<u64>| {
        Box::pin(async move {
            let (mut shuffled, secrets) = shuffle(&mut context, x, 10, 64).await;
            unshuffle(&mut context, shuffled.clone(), &secrets, 64, None).await;
            // All words except three are 0.
            let filled = vec![0, 17, 29];
            for share in [&mut shuffled.own, &mut shuffled.next] {
                (0..30).filter(|at| !filled.contains(at)).for_each(|at| share[at] = 0);
            }
            unshuffle(&mut context, shuffled, &secrets, 64, Some(filled)).await;
        })
    });
    every_message_is_proved("shuffle of integers", &program, 1);
    let keys = words(2 * 40, 11).into_iter().map(|x| Xor(x as u16)).collect();
    let program = of(keys, |mut context, x: Shared<Xor<u16>>| {
        Box::pin(async move {
            let (shuffled, secrets) = shuffle(&mut context, x, 40, 16).await;
            unshuffle(&mut context, shuffled, &secrets, 16, None).await;
        })
    });
    every_message_is_proved("shuffle of keys", &program, 1);
}

#[test]
fn lookups_and_the_search_for_neighbours_are_proved() {
    let program = of(words(14, 4).into_iter().map(Xor).collect(), |context, x: Shared<Bits>| {
        Box::pin(async move {
            let table: Vec<u64> = (0..128).map(|x| x * x).collect();
            lookup(&context, &x.chunks(2), 70, &table, 14).await;
        })
    });
    every_message_is_proved("lookup", &program, 0);
    // A symmetric matrix of keys of two bits.
    let points = 9;
    let plane = |seed: u8| -> Vec<Bits> {
        let drawn = words(points * points, seed);
        let bit = |i: usize, j: usize| drawn[i.max(j) * points + i.min(j)] & 1;
        (0..points).map(|i| Xor((0..points).fold(0, |word, j| word | bit(i, j) << j))).collect()
    };
    let program = of([plane(5), plane(6)].concat(), move |mut context, x: Shared<Bits>| {
        Box::pin(async move {
            nearest(&mut context, &x.chunks(points), points, 3).await;
        })
    });
    every_message_is_proved("nearest", &program, 0);
}

#[test]
fn products_of_matrices_are_proved() {
    let (rows, bits) = (70, 64);
    let codes = words(rows * bits, 7).into_iter().map(|word| word as u16 & 1).collect();
    let program = of(codes, move |mut context, codes: Shared<u16>| {
        Box::pin(async move {
            hamming(&mut context, codes, bits).await;
        })
    });
    every_message_is_proved("distances", &program, 0);
    let (points, columns) = (5, 3);
    let program = of(words(points * points + points * columns, 8), move |mut context, x: Shared<u64>| {
        Box::pin(async move {
            let square = points * points;
            let graph = Arc::new(Graph::new(x.slice(0..square), points).0);
            let mut factor = x.slice(square..x.len());
            let mut steps = Vec::new();
            for _ in 0..2 {
                let part = graph.times(&factor, columns);
                let statement = |_: &Context, _: &Log, result: &Shared<u64>, masks| {
                    steps.push(Step { factor: factor.clone(), result: result.clone(), masks });
                };
                factor = reshare_proved(&mut context, part, statement).await;
            }
            let log = context.log().expect("a log");
            let rows = move |coins: &[_], side| graph.combined(coins, side);
            statements::graph(&log, (points, columns), steps, rows);
        })
    });
    every_message_is_proved("graph", &program, 2);
}

/// Changes that a prover makes to the values that it shares.
#[derive(Clone)]
pub(super) struct CheatingProver<R> {
    /// Number that the prover adds to each value of its first step.
    constant: Option<R>,
    /// Sum that the prover claims for its linear statements. It changes one value of each step so that
    /// the sum of the values is the claim.
    claim: Option<R>,
    /// Error of the first product. To hide it, the prover moves an amount from the values of the coin
    /// sums to those of the products.
    moved: Option<u64>,
    shared: Vec<R>,
}

impl<R> Default for CheatingProver<R> {
    fn default() -> Self {
        Self { constant: None, claim: None, moved: None, shared: Vec::new() }
    }
}

impl<R: Gates> CheatingProver<R> {
    pub(super) fn change(&mut self, step: usize, coin: &[u64], mut product: Vec<R>) -> Vec<R> {
        if let Some(constant) = self.constant.filter(|_| step == 0) {
            product.iter_mut().for_each(|value| *value = value.plus(constant));
        }
        if let Some(later) = self.claim.filter(|_| step > 0) {
            let point: Vec<R> = coin.iter().map(|&word| R::exceptional(word)).collect();
            let mut claim = cube::value_at(&self.shared, &point);
            if step == 1 {
                claim = claim.plus(later.times(power(point[0], 3)));
            }
            // The first value counts, and no other value depends on it.
            let variables = product.len().ilog(3) as usize;
            let values = (0..FOLD).map(|group| product[cube::corner(group, variables)]);
            product[0] = product[0].plus(claim.minus(values.fold(R::zero(), R::plus)));
        }
        if let Some(error) = self.moved.filter(|_| step == 0) {
            let mut seed = Vec::new();
            u64::write_all(coin, &mut seed);
            let coins = Coins::<R>::draw(&mut Stream::new(&seed, "proof", b""), std::iter::once(1));
            let of_sums = product.len() / 2;
            let sigma = |group: usize| {
                let mut values = vec![R::zero(); of_sums];
                values[cube::corner(group, R::VARIABLES)] = R::exceptional(1);
                coins.sum(&values)
            };
            let word = vec![R::Word::from_bits(error)];
            let missing = coins.claim(&[Terms { len: 1, products: 1, a: vec![], b: vec![], word }]);
            let moved = missing.times(sigma(0).minus(sigma(1)).inverse());
            for (group, moved) in [(0, moved), (1, R::zero().minus(moved))] {
                let at = cube::corner(group, R::VARIABLES);
                product[at] = product[at].plus(moved);
                product[of_sums + at] = product[of_sums + at].minus(moved);
            }
        }
        self.shared = product.clone();
        product
    }
}

/// Proves 1 x 1 = 1 + `error` for a product of words at party 0, which cheats, with a right coin sum.
fn proves_beside_a_sum<R: Gates>(error: u64, cheat: CheatingProver<R>) -> Run<Result<(), Place>> {
    in_memory(7, |mut context: Context| {
        let party = context.role();
        let batch = |prover: usize| {
            let place = (party + 3 - prover) % 3;
            let one = || vec![Arc::new(vec![R::Word::from_bits(1)])];
            let error = if prover == 0 { error } else { 0 };
            let word = R::Word::from_bits(1).add(R::Word::from_bits(error));
            let terms = Terms {
                len: 1,
                products: 1,
                a: if place == 1 { vec![] } else { one() },
                b: if place == 2 { vec![] } else { one() },
                word: vec![if place == 1 { R::Word::default() } else { word }],
            };
            // The party after the prover knows the word, the party before it the sum.
            let make: MakeSum<R> = Box::new(move |stream| {
                let coin = draw_bits(stream) & R::MASK;
                let a = if place == 1 { Factor::None } else { Factor::Coins(vec![coin]) };
                let b = if place == 2 { Factor::None } else { Factor::Words(vec![1].into()) };
                Sum { a, b, claim: if place == 1 { R::zero() } else { R::exceptional(coin) } }
            });
            let cheat = if (prover, place) == (0, 0) { cheat.clone() } else { CheatingProver::default() };
            Batch { terms: vec![terms], sums: vec![(1, make)], cheat, ..Batch::default() }
        };
        let batches = [party, (party + 1) % 3, (party + 2) % 3].map(batch);
        Box::pin(async move { prove::<R>(&mut context, batches).await })
    })
}

#[test]
fn no_change_of_the_coin_sums_makes_up_for_a_false_product() {
    fn tries<R: Gates>(error: u64) {
        let honest = CheatingProver::<R>::default();
        assert_eq!(proves_beside_a_sum(0, honest.clone()).results, [Ok(()); 3]);
        caught(&proves_beside_a_sum(error, honest.clone()), 0, "no change");
        let moved = CheatingProver { moved: Some(error), ..honest };
        caught(&proves_beside_a_sum(error, moved), 0, "moved");
    }
    tries::<Gf64>(1);
    tries::<Galois<u16>>(1 << 12);
    tries::<Galois<u64>>(1 << 63);
}

/// Proves 1 x 1 = 1 + `error` at party 0, which cheats, and that 1 x 1 = 1 at the others.
fn proves<R: Gates>(error: R, cheat: CheatingProver<R>) -> Run<Result<(), Place>> {
    in_memory(7, |mut context: Context| {
        let party = context.role();
        let one = R::exceptional(1);
        let batch = |prover: usize| {
            let claim = if prover == 0 { one.plus(error) } else { one };
            let place = (party + 3 - prover) % 3;
            let vectors = Vectors {
                a: if place == 1 { vec![] } else { vec![one] },
                b: if place == 2 { vec![] } else { vec![one] },
                claim: if place == 1 { R::zero() } else { claim },
            };
            let make = Box::new(|_: &mut Stream| vectors) as super::prove::Make<R>;
            let cheat = if (prover, place) == (0, 0) { cheat.clone() } else { CheatingProver::default() };
            Batch { linear: vec![(1, make)], cheat, ..Batch::default() }
        };
        let batches = [party, (party + 1) % 3, (party + 2) % 3].map(batch);
        Box::pin(async move { prove::<R>(&mut context, batches).await })
    })
}

#[test]
fn no_change_of_the_shared_values_makes_up_for_a_false_statement() {
    fn tries<R: Gates>(error: R) {
        let (zero, honest) = (R::zero(), CheatingProver::default());
        assert_eq!(proves(zero, honest.clone()).results, [Ok(()); 3]);
        caught(&proves(error, honest.clone()), 0, "no change");
        // The sum over all groups of the first step does not change, because it is a multiple of 2.
        let constant = CheatingProver { constant: Some(zero.minus(error)), ..honest.clone() };
        caught(&proves(error, constant), 0, "a constant");
        // All sums are right, but no product has these values.
        let claim = CheatingProver { claim: Some(R::exceptional(1).plus(error)), ..honest };
        caught(&proves(error, claim), 0, "right sums");
    }
    tries(Gf64(5));
    tries(Galois::<u16>::embed(1 << 12));
    tries(Galois::<u64>::embed(1 << 63));
}

#[test]
fn a_prover_that_is_told_two_coins_sends_nothing_more() {
    for (wrong_from, step) in [(1, 1), (2, 2)] {
        // Party 0 hears a coin from party 1, and in the next round the same coin from party 2.
        let ends = Arc::new(Mutex::new([None; 3]));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut messages = 0;
            tampered(
                7,
                |mut context: Context| {
                    let ends = Arc::clone(&ends);
                    Box::pin(async move {
                        let party = context.role();
                        let end = prove::<Gf64>(&mut context, Default::default()).await;
                        ends.lock().expect("no panic")[party] = Some((end, context.wire().rounds()));
                    })
                },
                |to, side, bytes| {
                    let round = messages / 6;
                    messages += 1;
                    let from = if side == super::super::round::Side::Before { 2 } else { 1 };
                    if to == 0 && from == wrong_from && round == step {
                        *bytes.last_mut().expect("a coin") ^= 1;
                    }
                },
            );
        }));
        assert!(caught.is_err(), "the other parties get nothing more");
        let end = ends.lock().expect("no panic")[0];
        assert_eq!(end, Some((Err(Place { chunk: 0, number: 0 }), 3)));
    }
}
