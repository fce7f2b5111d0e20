//! What owners share, and how parties make sure that they hold the same.
//!
//! An owner shares the bits of its codes and of its labels, one-hot for *all* rows, by exclusive or: whatever
//! words it sends, they are bits, so that nothing has to be checked of them, and nobody can be blamed for
//! what a party says of such a check. The parties turn them into integers themselves ([`integers`]).
//!
//! One share goes out as words, to two parties, the others as seeds. Before anybody gets a share, each owner
//! announces hashes of all three of its shares to everybody ([`Announced`]). Each party checks its two, and
//! tells the others what was announced to it ([`compare`]): a share of which there are two copies is found
//! before anything is computed.
//!
//! Where pairs of owners have made shares of their distances among themselves, an owner shares its *parts* of
//! the distances mod 2^16 instead of codes.

use sha2::Digest;
use zeroize::Zeroizing;

use super::bits::b2a_part;
use super::primitives::{LANES, in_thirds, reshare};
use super::round::{Part, SIDES, Side, together};
use super::{Bits, Context, Ring, Shared, Xor};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Label of the streams that make shares of an owner's input.
const INPUT: &str = "shares/input";
/// A share that is sent as a seed, and one that is sent as words.
const SEED: u8 = 0;
const WORDS: u8 = 1;

/// What an owner announces before it sends any share: its commitment to the input, and of each share the hash
/// of it as it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// The commitment.
    pub input: [u8; 32],
    /// Hashes of shares 0, 1 and 2.
    pub copies: [[u8; 32]; 3],
}

impl Announced {
    /// What belongs to these parcels of an owner.
    #[must_use]
    pub fn of(input: [u8; 32], parcels: &[Zeroizing<Vec<u8>>; 3]) -> Self {
        let copy = |parcel: &Zeroizing<Vec<u8>>| {
            // At most one of the two shares is sent as words.
            let end =
                if parcel.first() == Some(&SEED) { 1 + 32 } else { parcel.len().saturating_sub(1 + 32) };
            hash_of_share(&parcel[..end.min(parcel.len())])
        };
        Self { input, copies: parcels.each_ref().map(copy) }
    }

    fn hash(&self) -> [u8; 32] {
        tagged_hash("announced").chain_update(self.input).chain_update(self.copies.concat()).finalize().into()
    }
}

fn hash_of_share(share: &[u8]) -> [u8; 32] {
    tagged_hash("share").chain_update(share).finalize().into()
}

/// What one party holds of one owner's input: codes or distances, the other is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Bits of the codes, row after row.
    pub codes: Shared<Bits>,
    /// The owner's parts of the distances, rows x all points. To its own points they are the distances, to
    /// those of another owner what both have adds up to them.
    pub distances: Shared<u16>,
    /// Bits of the labels: of each row one for each class, in whole words.
    pub labels: Shared<Bits>,
    /// The hash of what the owner announced to this party; zeros if its two shares are others.
    pub view: [u8; 32],
}

/// Words of the one-hot label of a row.
fn label_words(classes: usize) -> usize {
    classes.div_ceil(LANES)
}

/// Bytes of an input of `rows` rows when it is sent as words, its salt among them; `width` is the bytes of a
/// row's code, or twice the number of all points where distances are shared.
#[must_use]
pub fn input_bytes(rows: usize, width: usize, classes: usize) -> usize {
    32 + rows * (width + label_words(classes) * u64::BYTES)
}

/// Bytes of the parcel of an owner at `place` for a party.
#[must_use]
pub fn parcel_bytes(rows: usize, width: usize, classes: usize, place: usize, party: usize) -> usize {
    let words = |share: usize| (share + 3 - place % 3).is_multiple_of(3);
    let share = |share| 1 + if words(share) { input_bytes(rows, width, classes) } else { 32 };
    share(party) + share((party + 1) % 3)
}

/// The parcels for parties 0, 1 and 2 from fresh randomness: two seeds of shares, and a salt without which
/// the hash of the third share would let the party that has the two seeds try inputs. `place` is the owner's:
/// owners take turns in which share is sent as words.
#[must_use]
pub fn parcels(
    codes: &Codes,
    labels: &[Option<u16>],
    classes: usize,
    place: usize,
    seeds: &[Zeroizing<[u8; 32]>; 3],
) -> [Zeroizing<Vec<u8>>; 3] {
    let words = (0..codes.rows()).flat_map(|row| codes.row(row).iter().map(|&word| Xor(word)));
    shared_out(words.collect::<Vec<Bits>>(), labels, classes, place, seeds)
}

/// The same of an owner that shares its parts of the distances, rows x all points.
#[must_use]
pub fn parcels_of_distances(
    parts: &[u16],
    labels: &[Option<u16>],
    classes: usize,
    place: usize,
    seeds: &[Zeroizing<[u8; 32]>; 3],
) -> [Zeroizing<Vec<u8>>; 3] {
    shared_out(parts.to_vec(), labels, classes, place, seeds)
}

fn shared_out<T: Ring>(
    words: Vec<T>,
    labels: &[Option<u16>],
    classes: usize,
    place: usize,
    [one, two, salt]: &[Zeroizing<[u8; 32]>; 3],
) -> [Zeroizing<Vec<u8>>; 3] {
    let one_hot = labels.iter().flat_map(|label| {
        (0..label_words(classes)).map(move |word| {
            let label = label.map(usize::from).filter(|label| *label < classes && label / LANES == word);
            Xor(label.map_or(0, |label| 1 << (label % LANES)))
        })
    });
    let mut rest = Pair { words, labels: one_hot.collect() };
    for seed in [one, two] {
        let share = Pair::<T>::draw(&**seed, rest.words.len(), rest.labels.len());
        rest.words.iter_mut().zip(&share.words).for_each(|(x, &r)| *x = x.sub(r));
        rest.labels.iter_mut().zip(&share.labels).for_each(|(x, &r)| *x = x.sub(r));
    }
    // Share `place` as words, the two after it as seeds.
    let share = |index: usize| -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::new());
        match (index + 3 - place % 3) % 3 {
            0 => {
                bytes.push(WORDS);
                bytes.extend_from_slice(&**salt);
                T::write_all(&rest.words, &mut bytes);
                Bits::write_all(&rest.labels, &mut bytes);
            }
            number => {
                bytes.push(SEED);
                bytes.extend_from_slice(&**[one, two][number - 1]);
            }
        }
        bytes
    };
    std::array::from_fn(|party| {
        Zeroizing::new([share(party).as_slice(), share((party + 1) % 3).as_slice()].concat())
    })
}

/// One share of an owner's input.
struct Pair<T> {
    words: Vec<T>,
    labels: Vec<Bits>,
}

impl<T: Ring> Pair<T> {
    fn draw(seed: &[u8], words: usize, labels: usize) -> Self {
        let mut stream = Stream::new(seed, INPUT, &[]);
        let mut pair = Self { words: vec![T::default(); words], labels: vec![Bits::default(); labels] };
        super::context::blend(&mut stream, &mut pair.words, |_, mask| mask);
        super::context::blend(&mut stream, &mut pair.labels, |_, mask| mask);
        pair
    }

    /// A share, its hash, and the bytes after it; `None` if there is none.
    fn read(bytes: &[u8], words: usize, labels: usize) -> Option<(Self, [u8; 32], &[u8])> {
        let (&kind, inner) = bytes.split_first()?;
        let (seed, rest) = inner.split_at_checked(32)?;
        let (pair, rest) = match kind {
            SEED => (Self::draw(seed, words, labels), rest),
            WORDS => {
                let (word, rest) = rest.split_at_checked(words * T::BYTES)?;
                let (label, rest) = rest.split_at_checked(labels * Bits::BYTES)?;
                (Self { words: T::read_all(word), labels: Bits::read_all(label) }, rest)
            }
            _ => return None,
        };
        let hash = hash_of_share(&bytes[..bytes.len() - rest.len()]);
        Some((pair, hash, rest))
    }
}

/// What party `number` holds of the input of an owner of `rows` rows; `None` if the parcel is not one of
/// them.
#[must_use]
pub fn unpack(
    parcel: &[u8],
    number: usize,
    announced: &Announced,
    rows: usize,
    bits: usize,
    classes: usize,
) -> Option<Inputs> {
    let (codes, labels, view) = read(parcel, number, announced, rows, bits / LANES, classes)?;
    Some(Inputs { codes, labels, view, distances: Shared::default() })
}

/// The same where the owner has shared its parts of the distances to all `points`.
#[must_use]
pub fn unpack_distances(
    parcel: &[u8],
    number: usize,
    announced: &Announced,
    rows: usize,
    points: usize,
    classes: usize,
) -> Option<Inputs> {
    let (distances, labels, view) = read(parcel, number, announced, rows, points, classes)?;
    Some(Inputs { codes: Shared::default(), labels, distances, view })
}

type Held<T> = (Shared<T>, Shared<Bits>, [u8; 32]);

fn read<T: Ring>(
    parcel: &[u8],
    number: usize,
    announced: &Announced,
    rows: usize,
    width: usize,
    classes: usize,
) -> Option<Held<T>> {
    let labels = rows * label_words(classes);
    let (own, hash, rest) = Pair::<T>::read(parcel, rows * width, labels)?;
    let (next, hash_of_next, rest) = Pair::<T>::read(rest, rows * width, labels)?;
    let same = [hash, hash_of_next] == [announced.copies[number % 3], announced.copies[(number + 1) % 3]];
    let view = if same { announced.hash() } else { [0; 32] };
    let words = Shared { own: own.words, next: next.words };
    rest.is_empty().then_some((words, Shared { own: own.labels, next: next.labels }, view))
}

/// What parties find when they tell each other what owners announced to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copies {
    /// All three have the same of all owners.
    Same,
    /// These owners, by their number in `inputs`, deviate: this party has another share than was announced to
    /// it, or what was announced to it was announced to neither of the others, of whom one is honest.
    Differ(Vec<usize>),
    /// The party on this side has something else than the other two of an owner's, or says so: one of it and
    /// the owner deviates, and the party alone can say which.
    Alone(Side),
}

/// Compares what owners announced. One round.
pub async fn compare(context: &Context, inputs: &[Inputs]) -> Copies {
    const NONE: [u8; 32] = [0; 32];
    for side in SIDES {
        inputs.iter().for_each(|input| context.wire().send_bytes(side, &input.view));
    }
    context.round().await;
    let [before, after]: [Vec<[u8; 32]>; 2] = SIDES.map(|side| {
        context.wire().receive_bytes(side, 32 * inputs.len(), |bytes| bytes.as_chunks::<32>().0.to_vec())
    });
    let views = || inputs.iter().map(|input| input.view).zip(before.iter().zip(&after));
    let deviates = |(own, (before, after)): ([u8; 32], (&[u8; 32], &[u8; 32]))| {
        own == NONE || (own != *before && own != *after)
    };
    let differ: Vec<usize> =
        views().enumerate().filter(|(_, view)| deviates(*view)).map(|(owner, _)| owner).collect();
    if !differ.is_empty() {
        return Copies::Differ(differ);
    }
    let alone = views().find_map(|(own, (before, after))| match (own == *before, own == *after) {
        (false, _) => Some(Side::Before),
        (_, false) => Some(Side::After),
        _ => None,
    });
    alone.map_or(Copies::Same, Copies::Alone)
}

/// Codes as integers mod 2^16, bit by bit, and labels mod 2^64, rows x classes, from bits of `rows` rows. Two
/// rounds.
pub async fn integers(
    context: &Context,
    codes: Shared<Bits>,
    labels: &Shared<Bits>,
    classes: usize,
) -> (Shared<u16>, Shared<u64>) {
    let words = label_words(classes);
    let rows = labels.len() / words.max(1);
    let dense = labels.map(|share| {
        let bit =
            |at: usize| share[at / classes * words + at % classes / LANES].0 >> (at % classes % LANES) & 1;
        let bits: Vec<u64> = (0..rows * classes).map(bit).collect();
        super::bits::planes(&bits, 1)
    });
    // Side by side, in the same rounds. Codes get room for the whole blocks in which they are multiplied.
    let room = codes.len() / rows.max(1) * rows.next_multiple_of(LANES) * LANES;
    let codes =
        Box::pin(async move { (in_words(context, codes, room).await, Shared::default()) }) as Part<'_, _>;
    let labels =
        Box::pin(
            async move { (Shared::default(), in_words(context, dense, 0).await.slice(0..rows * classes)) },
        );
    let both = together(vec![codes, labels]).await.into_iter();
    both.fold((Shared::default(), Shared::default()), |(codes, labels), (more, other)| {
        if more.is_empty() { (codes, other) } else { (more, labels) }
    })
}

/// A word for each bit.
async fn in_words<T: Ring>(context: &Context, bits: Shared<Bits>, room: usize) -> Shared<T> {
    let (bits, mut whole) = (&bits, Shared::default());
    let thirds = in_thirds(context, bits.len(), 1, |mut context, range| {
        let bits = bits.slice(range);
        Box::pin(async move {
            let len = bits.len() * LANES;
            let [part] = b2a_part(&mut context, &[bits], len, [&[T::from_bits(1)]]).await;
            reshare(&mut context, part).await
        })
    });
    let thirds = thirds.await;
    whole.reserve(room.max(bits.len() * LANES));
    for third in thirds {
        whole.append(&third);
    }
    whole
}
