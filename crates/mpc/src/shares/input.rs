//! Input that owners share, and the check that the parties hold the same copies of it.
//!
//! An owner shares bits by exclusive or: those of its codes, and those of its labels, one-hot for *all*
//! rows. Any words that it sends are bits, so the parties do not check their range, and no party can
//! blame an owner with a false result of such a check. The parties convert the bits to integers
//! themselves ([`integers`]).
//!
//! One share is sent as words, to two parties; the others are sent as seeds. Before any party gets a
//! share, each owner announces hashes of all three of its shares to all parties ([`Announced`]). Each
//! party checks its two shares, and tells the others which announcement it received ([`compare`]). So
//! different copies of a share are found before anything is computed.
//!
//! If pairs of owners have made shares of their distances among themselves, an owner shares its *parts* of
//! the distances mod 2^16 instead of codes.

use sha2::Digest;
use zeroize::Zeroizing;

use super::bits::b2a;
use super::primitives::{LANES, in_thirds};
use super::proofs::log::Proved;
use super::round::{Part, SIDES, Side, together};
use super::{Bits, Context, Ring, Shared, Xor};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::crypto::tagged_hash;

/// Label of the streams that make shares of an owner's input.
const INPUT: &str = "shares/input";
/// Kinds of a share: sent as a seed, or sent as words.
const SEED: u8 = 0;
const WORDS: u8 = 1;

/// Announcement of an owner before it sends any share: its commitment to the input, and the hash of each
/// share in its sent form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Commitment to the input.
    pub input: [u8; 32],
    /// Hashes of shares 0, 1 and 2.
    pub copies: [[u8; 32]; 3],
}

impl Announced {
    /// Returns the announcement for these parcels of an owner.
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

/// Shares of one owner's input at one party. Either codes or distances are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Bits of the codes, row after row.
    pub codes: Shared<Bits>,
    /// The owner's parts of the distances, rows x all points. For the owner's own points, they are the
    /// distances. For points of another owner, the distance is the sum of both owners' parts.
    pub distances: Shared<u16>,
    /// Bits of the labels: one bit for each class of each row, in whole words.
    pub labels: Shared<Bits>,
    /// The owner's words, in a computation on words ([`super::cells`]); otherwise empty.
    pub counts: Shared<u64>,
    /// Hash of the owner's announcement to this party. Zeros if the two shares do not match it.
    pub view: [u8; 32],
}

/// Returns the number of words of the one-hot label of a row.
fn label_words(classes: usize) -> usize {
    classes.div_ceil(LANES)
}

/// Returns the bytes of an input of `rows` rows that is sent as words, including its salt. `width` is the
/// bytes of a row's code, or twice the number of all points if distances are shared.
#[must_use]
pub fn input_bytes(rows: usize, width: usize, classes: usize) -> usize {
    32 + rows * (width + label_words(classes) * u64::BYTES)
}

/// Returns the bytes of the parcel for a party from the owner at `place`.
#[must_use]
pub fn parcel_bytes(rows: usize, width: usize, classes: usize, place: usize, party: usize) -> usize {
    let words = |share: usize| (share + 3 - place % 3).is_multiple_of(3);
    let share = |share| 1 + if words(share) { input_bytes(rows, width, classes) } else { 32 };
    share(party) + share((party + 1) % 3)
}

/// Makes the parcels for parties 0, 1 and 2 from fresh randomness: two seeds of shares, and a salt.
/// Without the salt, the party with the two seeds could guess inputs and test them against the hash of
/// the third share. `place` is the owner's place. It decides which share is sent as words, so that
/// owners take turns.
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

/// Makes the parcels of an owner that shares its parts of the distances, rows x all points.
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

/// Makes the parcels of an owner that shares words.
#[must_use]
pub fn parcels_of_words(
    words: &[u64],
    place: usize,
    seeds: &[Zeroizing<[u8; 32]>; 3],
) -> [Zeroizing<Vec<u8>>; 3] {
    shared_out(words.to_vec(), &[], 0, place, seeds)
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
    // Share `place` is sent as words, the two after it as seeds.
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

    /// Reads a share, its hash, and the bytes after it. Returns `None` if the bytes are not a share.
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

/// Returns the shares that party `number` gets from an owner of `rows` rows, or `None` if the parcel is
/// malformed.
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
    Some(Inputs { codes, labels, view, ..Inputs::default() })
}

/// Returns the shares of an owner that has shared its parts of the distances to all `points`.
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
    Some(Inputs { labels, distances, view, ..Inputs::default() })
}

/// Returns the shares of an owner that has shared `words` words.
#[must_use]
pub fn unpack_words(parcel: &[u8], number: usize, announced: &Announced, words: usize) -> Option<Inputs> {
    let (counts, _, view) = read(parcel, number, announced, 1, words, 0)?;
    Some(Inputs { counts, view, ..Inputs::default() })
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

/// Result of the parties' comparison of the owners' announcements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copies {
    /// All three parties have the same announcements of all owners.
    Same,
    /// These owners, by their number in `inputs`, deviate. Either this party's share does not match the
    /// announcement to it, or neither of the other parties received the same announcement, and one of them
    /// is honest.
    Differ(Vec<usize>),
    /// The party on this side has, or claims to have, a different announcement of an owner than the other
    /// two. This party or the owner deviates, and only this party can name the owner.
    Alone(Side),
}

/// Compares the owners' announcements. Takes one round.
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

/// Converts bits of `rows` rows to integers: codes to integers mod 2^16, bit by bit, and labels mod 2^64,
/// rows x classes. If a row has several labels, only the last class counts: an owner cannot share more than
/// one label of a row. Takes two rounds, and one for each bit of the number of classes.
pub async fn integers(
    context: &mut Context,
    codes: Shared<Bits>,
    labels: &Shared<Bits>,
    classes: usize,
) -> (Shared<u16>, Shared<u64>) {
    let words = label_words(classes);
    let rows = labels.len() / words.max(1);
    // One plane of rows for each class.
    let width = super::bits::words(rows);
    let by_class = labels.map(|share| {
        let plane = |class: usize| {
            let bit = move |row: usize| share[row * words + class / LANES].0 >> (class % LANES) & 1;
            super::bits::planes(&(0..rows).map(bit).collect::<Vec<u64>>(), 1)
        };
        (0..classes).flat_map(plane).collect()
    });
    let one_hot = Shared::concat(&super::newton::leading(context, by_class.chunks(width)).await);
    let dense = one_hot.map(|share| {
        let bit = |at: usize| {
            let (row, class) = (at / classes, at % classes);
            share[class * width + row / LANES].0 >> (row % LANES) & 1
        };
        super::bits::planes(&(0..rows * classes).map(bit).collect::<Vec<u64>>(), 1)
    });
    let context = &*context;
    // Both run in parallel, in the same rounds. Codes get memory for whole blocks, because they are
    // multiplied in blocks.
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

/// Converts each bit to a word.
async fn in_words<T: Proved>(context: &Context, bits: Shared<Bits>, room: usize) -> Shared<T> {
    let (bits, mut whole) = (&bits, Shared::default());
    let thirds = in_thirds(context, bits.len(), 1, |mut context, range| {
        let bits = bits.slice(range);
        Box::pin(async move {
            let len = bits.len() * LANES;
            b2a(&mut context, &[bits], len, [&[T::from_bits(1)]]).await
        })
    });
    let thirds = thirds.await;
    whole.reserve(room.max(bits.len() * LANES));
    for third in thirds {
        whole.append(&third);
    }
    whole
}
