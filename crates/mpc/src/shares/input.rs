//! What owners share, and the check that it is what it should be.
//!
//! An owner shares the bits of its codes mod 2^16 and its labels, one-hot for *all* rows, mod 2^64: one share
//! as words, to two parties, the others as seeds. The parties then open random sums of b^2 - b and, for
//! labels and their row sums, of y^2 - y: each is 0 for bits. An owner whose sums are not is blamed; without
//! this, one whose "bits" are lowered by 2^11 would read another's code off a distance.
//!
//! Where pairs of owners have made shares of their distances among themselves, an owner shares its *parts* of
//! the distances mod 2^16 instead of codes: nothing can be checked of them.

use pulp::{Arch, NullaryFnOnce};
use zeroize::Zeroizing;

use super::primitives::open;
use super::round::{SIDES, Side};
use super::{Context, Ring, Shared};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Label of the streams that make shares of an owner's input.
const INPUT: &str = "shares/input";
/// Label of the streams of the check's coins.
const COINS: &str = "shares/coins";
/// Random sums of each owner: one that cheats gets through with a chance of 2^-40.
pub const SUMS: usize = 40;
/// Words of a coin.
const COIN: usize = 4;
/// A share that is sent as a seed, and one that is sent as words.
const SEED: u8 = 0;
const WORDS: u8 = 1;

/// What one party holds of one owner's input: codes or distances, the other is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Codes, bit by bit, row after row.
    pub codes: Shared<u16>,
    /// The owner's parts of the distances, rows x all points. To its own points they are the distances, to
    /// those of another owner what both have adds up to them.
    pub distances: Shared<u16>,
    /// Labels, rows x classes.
    pub labels: Shared<u64>,
}

/// Bytes of an input of `rows` rows when it is sent as words; `width` is the bits of a code, or the number of
/// all points where distances are shared.
#[must_use]
pub fn input_bytes(rows: usize, width: usize, classes: usize) -> usize {
    rows * (width * u16::BYTES + classes * u64::BYTES)
}

/// Bytes of the parcel of an owner at `place` for a party.
#[must_use]
pub fn parcel_bytes(rows: usize, width: usize, classes: usize, place: usize, party: usize) -> usize {
    let words = |share: usize| (share + 3 - place % 3).is_multiple_of(3);
    let share = |share| 1 + if words(share) { input_bytes(rows, width, classes) } else { 32 };
    share(party) + share((party + 1) % 3)
}

/// The parcels for parties 0, 1 and 2 from fresh randomness. `place` is the owner's: owners take turns in
/// which share is sent as words.
#[must_use]
pub fn parcels(
    codes: &Codes,
    labels: &[Option<u16>],
    classes: usize,
    place: usize,
    seeds: &[Zeroizing<[u8; 32]>; 2],
) -> [Zeroizing<Vec<u8>>; 3] {
    let bits = (0..codes.rows()).flat_map(|row| {
        let words = codes.row(row).iter();
        words.flat_map(|&word| (0..64).map(move |bit| (word >> bit & 1) as u16))
    });
    shared_out(bits.collect(), labels, classes, place, seeds)
}

/// The same of an owner that shares its parts of the distances, rows x all points.
#[must_use]
pub fn parcels_of_distances(
    parts: &[u16],
    labels: &[Option<u16>],
    classes: usize,
    place: usize,
    seeds: &[Zeroizing<[u8; 32]>; 2],
) -> [Zeroizing<Vec<u8>>; 3] {
    shared_out(parts.to_vec(), labels, classes, place, seeds)
}

fn shared_out(
    words: Vec<u16>,
    labels: &[Option<u16>],
    classes: usize,
    place: usize,
    seeds: &[Zeroizing<[u8; 32]>; 2],
) -> [Zeroizing<Vec<u8>>; 3] {
    let one_hot = labels
        .iter()
        .flat_map(|label| (0..classes).map(move |class| u64::from(*label == Some(class as u16))));
    let mut rest = Pair { words, labels: one_hot.collect() };
    for seed in seeds {
        let share = Pair::draw(&**seed, rest.words.len(), rest.labels.len());
        rest.words.iter_mut().zip(&share.words).for_each(|(x, r)| *x = x.wrapping_sub(*r));
        rest.labels.iter_mut().zip(&share.labels).for_each(|(x, r)| *x = x.wrapping_sub(*r));
    }
    // Share `place` as words, the two after it as seeds.
    let share = |index: usize| -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::new());
        match (index + 3 - place % 3) % 3 {
            0 => {
                bytes.push(WORDS);
                u16::write_all(&rest.words, &mut bytes);
                u64::write_all(&rest.labels, &mut bytes);
            }
            number => {
                bytes.push(SEED);
                bytes.extend_from_slice(&*seeds[number - 1]);
            }
        }
        bytes
    };
    std::array::from_fn(|party| {
        Zeroizing::new([share(party).as_slice(), share((party + 1) % 3).as_slice()].concat())
    })
}

/// One share of an owner's input.
#[derive(Default)]
struct Pair {
    words: Vec<u16>,
    labels: Vec<u64>,
}

impl Pair {
    fn draw(seed: &[u8], words: usize, labels: usize) -> Self {
        let mut stream = Stream::new(seed, INPUT, &[]);
        let mut pair = Self { words: vec![0; words], labels: vec![0; labels] };
        super::context::blend(&mut stream, &mut pair.words, |_, mask| mask);
        super::context::blend(&mut stream, &mut pair.labels, |_, mask| mask);
        pair
    }

    /// A share and the bytes after it; `None` if there is none.
    fn read(bytes: &[u8], words: usize, labels: usize) -> Option<(Self, &[u8])> {
        match bytes.split_first()? {
            (&SEED, rest) => {
                let (seed, rest) = rest.split_at_checked(32)?;
                Some((Self::draw(seed, words, labels), rest))
            }
            (&WORDS, rest) => {
                let (word, rest) = rest.split_at_checked(words * u16::BYTES)?;
                let (label, rest) = rest.split_at_checked(labels * u64::BYTES)?;
                Some((Self { words: u16::read_all(word), labels: u64::read_all(label) }, rest))
            }
            _ => None,
        }
    }
}

/// A party's shares of the input of an owner of `rows` rows; `None` if the parcel is not one of them.
#[must_use]
pub fn unpack(parcel: &[u8], rows: usize, bits: usize, classes: usize) -> Option<Inputs> {
    let (codes, labels) = read(parcel, rows, bits, classes)?;
    Some(Inputs { codes, labels, distances: Shared::default() })
}

/// The same where the owner has shared its parts of the distances to all `points`.
#[must_use]
pub fn unpack_distances(parcel: &[u8], rows: usize, points: usize, classes: usize) -> Option<Inputs> {
    let (distances, labels) = read(parcel, rows, points, classes)?;
    Some(Inputs { codes: Shared::default(), labels, distances })
}

fn read(parcel: &[u8], rows: usize, width: usize, classes: usize) -> Option<(Shared<u16>, Shared<u64>)> {
    let (own, rest) = Pair::read(parcel, rows * width, rows * classes)?;
    let (next, rest) = Pair::read(rest, rows * width, rows * classes)?;
    let words = Shared { own: own.words, next: next.words };
    rest.is_empty().then_some((words, Shared { own: own.labels, next: next.labels }))
}

/// The owners, by their number in `inputs`, whose codes or labels are not bits, or whose rows have more than
/// one label. Of distances nothing is checked: any word is one mod 2 L. Two rounds.
pub async fn cheats(context: &mut Context, inputs: &[Inputs], classes: usize) -> Vec<usize> {
    // A coin that nobody knew when the inputs were sent.
    let coin = {
        let step = context.step();
        let coin = Shared { own: step.draw::<u64>(Side::Before, COIN), next: step.draw(Side::After, COIN) };
        let mut key = Vec::new();
        open(context, &coin).await.into_iter().for_each(|word| word.write(&mut key));
        key
    };
    let (mut codes, mut labels) = (Vec::new(), Vec::new());
    for (owner, input) in (0u32..).zip(inputs) {
        if input.distances.own.is_empty() {
            let squares = not_bits(&input.codes);
            codes.extend(random_sums(&coin, owner, 0, &squares));
        }
        let totals = input.labels.map(|share| {
            share.chunks(classes).map(|row| row.iter().fold(0u64, |sum, &y| sum.wrapping_add(y))).collect()
        });
        let both = [not_bits(&input.labels), not_bits(&totals)].concat();
        labels.extend(random_sums(&coin, owner, 1, &both));
    }
    let codes = open_masked(context, codes);
    let labels = open_masked(context, labels);
    context.round().await;
    let wrong = codes.finish(context).into_iter().map(|sum| sum != 0);
    let codes: Vec<bool> = wrong.collect();
    let labels: Vec<bool> = labels.finish(context).into_iter().map(|sum| sum != 0).collect();
    let of = |sums: &[bool], owner: usize| {
        sums.get(owner * SUMS..(owner + 1) * SUMS).is_some_and(|sums| sums.contains(&true))
    };
    (0..inputs.len()).filter(|&owner| of(&codes, owner) || of(&labels, owner)).collect()
}

/// This party's part of x^2 - x.
fn not_bits<T: Ring>(x: &Shared<T>) -> Vec<T> {
    x.product(x).into_iter().zip(&x.own).map(|(square, &x)| square.sub(x)).collect()
}

/// [`SUMS`] sums, each of the words that a public coin chooses: word m has the m-th word of 64 coins.
#[must_use]
pub fn random_sums<T: Ring>(coin: &[u8], owner: u32, kind: u8, words: &[T]) -> Vec<T> {
    let params = [&owner.to_le_bytes()[..], &[kind]].concat();
    let mut stream = Stream::new(coin, COINS, &params);
    let mut sums = [[T::default(); LANES]; SUMS.div_ceil(LANES)];
    let mut coins = [0u64; 512];
    let arch = Arch::new();
    for words in words.chunks(coins.len()) {
        let coins = &mut coins[..words.len()];
        super::context::blend(&mut stream, coins, |_, coin| coin);
        arch.dispatch(Chosen { sums: &mut sums, words, coins });
    }
    sums.concat()[..SUMS].to_vec()
}

/// Sums that are added to at once.
const LANES: usize = 16;

struct Chosen<'a, T> {
    sums: &'a mut [[T; LANES]; SUMS.div_ceil(LANES)],
    words: &'a [T],
    coins: &'a [u64],
}

impl<T: Ring> NullaryFnOnce for Chosen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut sums = *self.sums;
        for (&word, &coin) in self.words.iter().zip(self.coins) {
            for (group, sums) in sums.iter_mut().enumerate() {
                let coin = (coin >> (LANES * group)) as u16;
                let before = *sums;
                *sums = std::array::from_fn(|lane| {
                    before[lane].add(if coin & (1 << lane) == 0 { T::default() } else { word })
                });
            }
        }
        *self.sums = sums;
    }
}

/// Shows sums of parts to all, each part under a mask.
fn open_masked<T: Ring>(context: &mut Context, mut part: Vec<T>) -> Opening<T> {
    context.step().mask(&mut part);
    SIDES.iter().for_each(|&side| context.send(side, &part));
    Opening(part)
}

struct Opening<T>(Vec<T>);

impl<T: Ring> Opening<T> {
    fn finish(mut self, context: &Context) -> Vec<T> {
        for side in SIDES {
            let part = context.receive::<T>(side, self.0.len());
            self.0.iter_mut().zip(part).for_each(|(sum, x)| *sum = sum.add(x));
        }
        self.0
    }
}
