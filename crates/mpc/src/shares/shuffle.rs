//! Shuffles of rows. They find the edges of each point, and they hide which point each edge leads to.
//!
//! Each row of a matrix is permuted by three permutations in turn. Each permutation is known to one pair
//! of parties, so no party knows all three (Araki, Furukawa, Ohara, Pinkas, Rosemarin & Tsuchida, *Secure
//! Graph Analysis at Scale*, CCS 2021, section 4). Then the marks of the k nearest are opened: k ones in
//! uniform places. The inverse permutations bring weights from the opened places back to their original
//! places.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::accounts::Place;
use super::bits::{lanes, receive_packed, send_packed, transpose, words};
use super::permutation::Permutations;
use super::primitives::{LANES, open};
use super::proofs::hops::{Again, Hop, Kept, permuted};
use super::proofs::log::Proved;
use super::round::Side;
use super::{Bits, Context, Ring, Shared, Xor};

/// Permutations of the rows that a party knows: those that it shares with each neighbour.
#[derive(Debug)]
pub struct Secrets {
    before: Arc<Permutations>,
    after: Arc<Permutations>,
}

impl Secrets {
    fn draw(context: &mut Context, rows: usize, width: usize) -> Self {
        let step = context.step();
        let draw = |side| Permutations::draw(&mut step.stream(side), rows, width);
        #[cfg(test)]
        let draw = |side| if context.tape().one_permutation { draw(side).one_for_all() } else { draw(side) };
        Self { before: Arc::new(draw(Side::Before)), after: Arc::new(draw(Side::After)) }
    }
}

/// Returns the neighbour that also has key `key`, if role `me` has this key.
fn partner(me: usize, key: usize) -> Option<Side> {
    match (key + 3 - me) % 3 {
        0 => Some(Side::Before),
        1 => Some(Side::After),
        _ => None,
    }
}

/// Words that can be shuffled.
pub trait Shuffled: Ring {
    /// Words of the statements about a shuffle.
    type Kind: Proved;
}

impl Shuffled for u64 {
    type Kind = Self;
}

impl Shuffled for Xor<u16> {
    type Kind = Bits;
}

/// Number of used bits of a word: at most 57, or 64 for all.
#[derive(Clone, Copy, Debug)]
struct Used(u32);

impl Used {
    fn only<T: Ring>(self, mut words: Vec<T>) -> Vec<T> {
        if self.0 < 64 {
            let used = (1 << self.0) - 1;
            words.iter_mut().for_each(|word| *word = T::from_bits(word.bits() & used));
        }
        words
    }

    fn send<T: Ring>(self, context: &Context, to: Side, words: &[T]) {
        if self.0 < 64 {
            send_packed(context, to, words, self.0);
        } else {
            context.send(to, words);
        }
    }

    fn receive<T: Ring>(self, context: &Context, from: Side, len: usize) -> Vec<T> {
        if self.0 < 64 { receive_packed(context, from, len, self.0) } else { context.receive(from, len) }
    }
}

/// Permutes rows of `width` words with secret permutations, in three rounds. Words use their lowest `bits`
/// bits.
pub async fn shuffle<T: Shuffled>(
    context: &mut Context,
    rows: Shared<T>,
    width: usize,
    bits: u32,
) -> (Shared<T>, Secrets) {
    let secrets = Secrets::draw(context, rows.len() / width, width);
    let mut rows = Arc::new(Zeroizing::new(rows));
    for key in [1, 2, 0] {
        rows = hop(context, rows, (key, Way::There), &secrets, Used(bits), None).await;
    }
    (unwrapped(rows), secrets)
}

/// Permutes rows back, in three rounds. All shares of words whose places are not in `filled` are 0.
pub async fn unshuffle<T: Shuffled>(
    context: &mut Context,
    rows: Shared<T>,
    secrets: &Secrets,
    bits: u32,
    mut filled: Option<Vec<usize>>,
) -> Shared<T> {
    let mut rows = Arc::new(Zeroizing::new(rows));
    for key in [0, 2, 1] {
        rows = hop(context, rows, (key, Way::Back), secrets, Used(bits), filled.take()).await;
    }
    unwrapped(rows)
}

/// Returns the shares, or a copy if the log keeps them.
fn unwrapped<T: Ring>(rows: Kept<T>) -> Shared<T> {
    std::mem::take(&mut *Arc::unwrap_or_clone(rows))
}

/// Direction of a permutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

impl Way {
    fn permute<T: Ring>(self, permutations: &Permutations, rows: &[T]) -> Vec<T> {
        if self == Self::There { permutations.apply(rows) } else { permutations.invert(rows) }
    }

    fn other(self) -> Self {
        if self == Self::There { Self::Back } else { Self::There }
    }
}

/// Permutes rows with the permutations of one pair of roles, and reshares the rows, in one round. After
/// each hop, all three roles hold replicated shares again (Laur, Willemson & Zhang, *Round-Efficient
/// Oblivious Database Manipulation*, ISC 2011), so that each message can be proved.
///
/// From key k, role k and role k - 1 draw r_1 and r_2, which give the new share y_k = r_1 + r_2.
/// Role k - 1 sends y_(k-1) = pi(x_(k-1) + x_k) - r_1 to role k + 1, and role k sends
/// y_(k+1) = pi(x_(k+1)) - r_2 to role k + 1. The proofs use only the words at the places `filled`, because
/// all others are known to be 0.
async fn hop<T: Shuffled>(
    context: &mut Context,
    x: Kept<T>,
    (key, way): (usize, Way),
    secrets: &Secrets,
    used: Used,
    filled: Option<Vec<usize>>,
) -> Kept<T> {
    let side = partner(context.role(), key);
    let steps = [context.step(), context.step()];
    let words = x.len();
    let proved = |x: Kept<T>, filled: Option<&Vec<usize>>| match filled {
        Some(places) => Arc::new(Zeroizing::new(x.map(|share| picked(share, places)))),
        None => x,
    };
    let Some(side) = side else {
        context.round().await;
        let own = used.receive(context, Side::Before, words);
        let next = used.receive(context, Side::After, words);
        let y = Arc::new(Zeroizing::new(Shared { own, next }));
        if let Some(log) = context.log() {
            let x = proved(x, filled.as_ref());
            permuted(&log, words, Hop::Taken { x, y: Arc::clone(&y) });
        }
        return y;
    };
    let [r1, r2] = steps.each_ref().map(|step| used.only(step.draw::<T>(side, words)));
    let pi = if side == Side::Before { &secrets.before } else { &secrets.after };
    let (sent, to) = match side {
        // Role k.
        Side::Before => (pairwise(way.permute(pi, &x.next), &r2, T::sub), Side::After),
        // Role k - 1.
        Side::After => {
            let sum = pairwise(x.own.clone(), &x.next, T::add);
            (pairwise(way.permute(pi, &sum), &r1, T::sub), Side::Before)
        }
    };
    #[cfg(test)]
    let sent = context.log().map_or(sent.clone(), |log| {
        let mut sent = sent;
        let width = (used.0 as usize).min(8 * T::BYTES);
        log.cheat_in("shuffle", context.wire().rounds(), width, &mut sent);
        used.only(sent)
    });
    used.send(context, to, &sent);
    let drawn = pairwise(r1, &r2, T::add);
    let y = Arc::new(Zeroizing::new(match side {
        Side::Before => Shared { own: drawn, next: sent },
        Side::After => Shared { own: sent, next: drawn },
    }));
    context.round().await;
    if let Some(log) = context.log() {
        // The coins of the words before the hop are those of the words after the hop, permuted back.
        let (pi, back) = (Arc::clone(pi), way.other());
        let x = proved(x, filled.as_ref());
        let permute = Arc::new(move |coins: &[u64]| {
            let coins = back.permute(&pi, coins);
            match &filled {
                Some(places) => picked(&coins, places),
                None => coins,
            }
        });
        // Masks are drawn again when they are needed, because there is not enough memory to keep them.
        let [r1, r2] =
            steps.map(|step| Box::new(move || used.only(step.draw_again::<T>(side, words))) as Again<T>);
        let hop = match side {
            Side::Before => Hop::First { x, r1, r2, permute },
            Side::After => Hop::Last { x, y: Arc::clone(&y), r2, permute },
        };
        permuted(&log, words, hop);
    }
    y
}

fn picked<T: Copy>(words: &[T], places: &[usize]) -> Vec<T> {
    places.iter().map(|&place| words[place]).collect()
}

fn pairwise<T: Ring>(mut a: Vec<T>, b: &[T], combine: impl Fn(T, T) -> T) -> Vec<T> {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = combine(*a, b));
    a
}

/// Edges of some rows, found under a shuffle.
#[derive(Debug)]
pub struct Edges {
    /// Keys of the k nearest, row after row, in the order of their places.
    pub keys: Shared<Xor<u16>>,
    /// Places in the shuffled rows, ascending in each row.
    pub places: Vec<usize>,
    /// Permutations that bring the rows back.
    pub secrets: Secrets,
    /// Opened marks, row after row. The audit uses them.
    pub opened: Vec<Bits>,
}

/// Gathers words of 16 bits for the rows `rows` of matrices of bits: plane t of `planes` becomes bit t. A
/// plane has rows of `points` lanes.
#[must_use]
pub fn gather(planes: &[Shared<Bits>], rows: std::ops::Range<usize>, points: usize) -> Shared<Xor<u16>> {
    let width = words(points);
    let of = |share: fn(&Shared<Bits>) -> &Vec<Bits>| {
        rows.clone()
            .flat_map(|row| {
                let words: Vec<Bits> =
                    planes.iter().flat_map(|plane| share(plane)[row * width..][..width].to_vec()).collect();
                lanes::<Xor<u16>>(&words, planes.len(), points)
            })
            .collect()
    };
    Shared { own: of(|plane| &plane.own), next: of(|plane| &plane.next) }
}

/// Transposes a square matrix of bits.
#[must_use]
pub fn transposed(bits: &[Bits], points: usize) -> Vec<Bits> {
    let width = words(points);
    let mut out = vec![Bits::default(); bits.len()];
    for i in 0..width {
        for j in 0..width {
            let mut block: [u64; LANES] =
                std::array::from_fn(|row| bits.get((j * LANES + row) * width + i).map_or(0, |word| word.0));
            transpose(&mut block);
            for (row, word) in block.into_iter().enumerate() {
                if let Some(out) =
                    out.get_mut((i * LANES + row) * width + j).filter(|_| i * LANES + row < points)
                {
                    *out = Xor(word);
                }
            }
        }
    }
    out
}

/// Rows of keys and marks after a shuffle.
#[derive(Debug)]
pub struct Hidden {
    rows: Shared<Xor<u16>>,
    secrets: Secrets,
}

/// Shuffles rows of `points` words, which have `key_bits` bits of key and a mark above them. Takes three
/// rounds.
pub async fn hide(context: &mut Context, rows: Shared<Xor<u16>>, points: usize, key_bits: u32) -> Hidden {
    let (rows, secrets) = shuffle(context, rows, points, key_bits + 1).await;
    Hidden { rows, secrets }
}

/// Opens the marks of all rows, in one round, and returns the marked entries of each part of them. A row
/// without exactly `k` marks proves that a party deviates.
///
/// # Errors
/// If the two others show different copies of a share.
pub async fn compact(
    context: &mut Context,
    parts: Vec<Hidden>,
    points: usize,
    key_bits: u32,
    k: usize,
) -> Result<Vec<Edges>, Place> {
    let width = words(points);
    let bits = |row: &[Xor<u16>]| {
        let of = |lanes: &[Xor<u16>]| {
            let lanes = lanes.iter().enumerate();
            Xor(lanes.fold(0, |word, (lane, x)| word | (u64::from(x.0 >> key_bits & 1) << lane)))
        };
        row.chunks(LANES).map(of).collect::<Vec<Bits>>()
    };
    let marks = parts.iter().map(|part| part.rows.map(|share| share.chunks(points).flat_map(bits).collect()));
    let marks = Shared::concat(&marks.collect::<Vec<Shared<Bits>>>());
    let mut opened = open(context, &marks).await?;
    let mut edges = Vec::with_capacity(parts.len());
    for Hidden { rows, secrets } in parts {
        let later = opened.split_off(rows.len() / points * width);
        let mut places = Vec::with_capacity(opened.len() / width * k);
        for row in opened.chunks(width) {
            let marked = (0..points).filter(|&place| row[place / LANES].0 >> (place % LANES) & 1 == 1);
            let mut marked: Vec<usize> = marked.collect();
            if marked.len() != k {
                context.wire().note_doubt(Side::Before);
                marked.resize(k, 0);
            }
            places.extend(marked);
        }
        let keys = rows.map(|share| {
            let at = places.iter().enumerate();
            let key = |(edge, &place): (usize, &usize)| share[edge / k * points + place];
            at.map(key).map(|x| Xor(x.0 & ((1 << key_bits) - 1))).collect()
        });
        edges.push(Edges { keys, places, secrets, opened: std::mem::replace(&mut opened, later) });
    }
    Ok(edges)
}

/// Makes rows of the dense matrix B from the weights of their edges, in three rounds.
pub async fn densify(
    context: &mut Context,
    edges: Edges,
    weights: &Shared<u64>,
    points: usize,
    k: usize,
) -> Shared<u64> {
    let places = edges.places.iter().enumerate();
    let mut filled: Vec<usize> = places.map(|(edge, place)| edge / k * points + place).collect();
    let rows = weights.map(|share| {
        let mut rows = vec![0; share.len() / k * points];
        filled.iter().zip(share).for_each(|(&place, &weight)| rows[place] = weight);
        rows
    });
    // A row with a wrong number of marks has some places twice.
    filled.sort_unstable();
    filled.dedup();
    unshuffle(context, rows, &edges.secrets, 64, Some(filled)).await
}
