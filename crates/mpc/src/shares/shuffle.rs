//! Row shuffles: they find the edges of each point and hide the point that each edge leads to.
//!
//! Each row of a matrix is permuted by three permutations in turn. Each permutation is known to one pair
//! of parties, so no party knows all three (Araki, Furukawa, Ohara, Pinkas, Rosemarin & Tsuchida, *Secure
//! Graph Analysis at Scale*, CCS 2021, section 4). Then the marks of the k nearest are opened: k ones in
//! uniform places. The inverse permutations bring weights from the opened places back to their original
//! places.

use super::bits::{lanes, receive_packed, send_packed, transpose, words};
use super::context::blend;
use super::permutation::Permutations;
use super::primitives::{LANES, open};
use super::round::Side;
use super::{Bits, Context, Ring, Shared, Xor};

/// Permutations of the rows that a party knows: those that it shares with each neighbour.
#[derive(Debug)]
pub struct Secrets {
    before: Permutations,
    after: Permutations,
}

impl Secrets {
    fn draw(context: &mut Context, rows: usize, width: usize) -> Self {
        let step = context.step();
        let draw = |side| Permutations::draw(&mut step.stream(side), rows, width);
        #[cfg(test)]
        let draw = |side| if context.tape().one_permutation { draw(side).one_for_all() } else { draw(side) };
        Self { before: draw(Side::Before), after: draw(Side::After) }
    }
}

fn pairwise<T: Ring>(mut a: Vec<T>, b: &[T], combine: impl Fn(T, T) -> T) -> Vec<T> {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = combine(*a, b));
    a
}

/// Returns the data of a party at the beginning of a shuffle: the sum of both shares at role `both`, the
/// next share at role `next`, nothing at the third role.
fn begin<T: Ring>(role: usize, both: usize, next: usize, rows: Shared<T>) -> Vec<T> {
    match role {
        role if role == both => pairwise(rows.own, &rows.next, T::add),
        role if role == next => rows.next,
        _ => Vec::new(),
    }
}

/// Value in two parts at two roles, in transit.
struct Halves<'a> {
    context: &'a mut Context,
    /// Number of used bits of a word: at most 57, or 64 for all.
    bits: u32,
}

impl Halves<'_> {
    fn send<T: Ring>(&self, to: Side, words: &[T]) {
        if self.bits < 64 {
            send_packed(self.context, to, words, self.bits);
        } else {
            self.context.send(to, words);
        }
    }

    fn receive<T: Ring>(&self, from: Side, len: usize) -> Vec<T> {
        if self.bits < 64 {
            receive_packed(self.context, from, len, self.bits)
        } else {
            self.context.receive(from, len)
        }
    }

    /// Combines words with a mask of the used bits, which is shared with a neighbour if `side` is set.
    fn mask<T: Ring>(&mut self, side: Option<Side>, words: &mut [T], combine: impl Fn(T, T) -> T) {
        let step = self.context.step();
        let Some(side) = side else { return };
        let used = if self.bits < 64 { (1 << self.bits) - 1 } else { u64::MAX };
        let mask = |x, mask: T| combine(x, T::from_bits(mask.bits() & used));
        blend(&mut step.stream(side), words, mask);
    }
}

/// Returns the neighbour that has key `key` too, if role `me` has it.
fn partner(me: usize, key: usize) -> Option<Side> {
    match (key + 3 - me) % 3 {
        0 => Some(Side::Before),
        1 => Some(Side::After),
        _ => None,
    }
}

/// Permutes rows of `width` words with secret permutations, in three rounds. Words use their lowest `bits`
/// bits.
pub async fn shuffle<T: Ring>(
    context: &mut Context,
    rows: Shared<T>,
    width: usize,
    bits: u32,
) -> (Shared<T>, Secrets) {
    let len = rows.len();
    let secrets = Secrets::draw(context, len / width, width);
    // Roles 0 and 1 begin. Role 2 continues for role 0, then role 0 continues for role 1.
    let start = begin(context.role(), 0, 1, rows);
    let shuffled = hops(
        context,
        start,
        [(1, 0, Side::Before), (2, 1, Side::Before), (0, 3, Side::Before)],
        bits,
        |side, rows| {
            let of = if side == Side::Before { &secrets.before } else { &secrets.after };
            of.apply(rows)
        },
        len,
    )
    .await;
    // The halves at roles 2 and 0 become share 0, after shares 1 and 2 are drawn and subtracted.
    let shared = settle(context, shuffled, [1, 2], bits, len).await;
    (shared, secrets)
}

/// Permutes rows back, in three rounds.
pub async fn unshuffle<T: Ring>(
    context: &mut Context,
    rows: Shared<T>,
    secrets: &Secrets,
    bits: u32,
) -> Shared<T> {
    let len = rows.len();
    // Roles 2 and 0 begin. Role 1 continues for role 0, then role 0 continues for role 2.
    let start = begin(context.role(), 2, 0, rows);
    let back = hops(
        context,
        start,
        [(0, 0, Side::After), (2, 2, Side::After), (1, 3, Side::After)],
        bits,
        |side, rows| {
            let of = if side == Side::Before { &secrets.before } else { &secrets.after };
            of.invert(rows)
        },
        len,
    )
    .await;
    settle(context, back, [0, 2], bits, len).await
}

/// Makes three hops. At each, the two roles with that key permute and mask their halves: one adds the
/// mask, the other subtracts it. Then the named role, if any, hands its half on.
async fn hops<T: Ring>(
    context: &mut Context,
    mut half: Vec<T>,
    plan: [(usize, usize, Side); 3],
    bits: u32,
    permute: impl Fn(Side, &[T]) -> Vec<T>,
    len: usize,
) -> Vec<T> {
    let role = context.role();
    for (key, sender, to) in plan {
        let side = partner(role, key);
        if let Some(side) = side {
            half = permute(side, &half);
        }
        // The two holders of a key see each other on opposite sides.
        let combine = if side == Some(Side::Before) { T::sub } else { T::add };
        Halves { context: &mut *context, bits }.mask(side, &mut half, combine);
        if sender == 3 {
            continue;
        }
        let halves = Halves { context: &mut *context, bits };
        let receiver = (sender + if to == Side::After { 1 } else { 2 }) % 3;
        if role == sender {
            halves.send(to, &half);
            half = Vec::new();
        }
        halves.context.round().await;
        if role == receiver {
            half = halves.receive(if to == Side::After { Side::Before } else { Side::After }, len);
        }
    }
    half
}

/// Makes shares from two halves. Two shares are drawn, each with the key of its number. Each of the two
/// roles with a half subtracts the drawn share that it knows. The two exchange the results, whose sum is
/// the third share.
async fn settle<T: Ring>(
    context: &mut Context,
    half: Vec<T>,
    drawn: [usize; 2],
    bits: u32,
    len: usize,
) -> Shared<T> {
    let role = context.role();
    let open = 3 - drawn[0] - drawn[1];
    let mut shares: [Vec<T>; 3] = Default::default();
    for key in drawn {
        let side = partner(role, key);
        let mut share = vec![T::default(); if side.is_some() { len } else { 0 }];
        Halves { context: &mut *context, bits }.mask(side, &mut share, |_, mask| mask);
        shares[key] = share;
    }
    // Role `open` and the role before it hold share `open`. They have the halves.
    let (upper, lower) = (open, (open + 2) % 3);
    let halves = Halves { context, bits };
    let other = if role == upper { Some(Side::Before) } else { (role == lower).then_some(Side::After) };
    let mut rest = Vec::new();
    if let Some(other) = other {
        let known = drawn.into_iter().find(|&key| partner(role, key).is_some()).unwrap_or_default();
        rest = pairwise(half, &shares[known], T::sub);
        halves.send(other, &rest);
    }
    halves.context.round().await;
    if let Some(other) = other {
        shares[open] = pairwise(rest, &halves.receive(other, len), T::add);
    }
    Shared { own: std::mem::take(&mut shares[role]), next: std::mem::take(&mut shares[(role + 1) % 3]) }
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

/// Finds the marked entries of some rows, whose words have `key_bits` bits of key and a mark above them.
/// Takes four rounds. A row without exactly `k` marks proves that a party deviates.
pub async fn compact(
    context: &mut Context,
    rows: Shared<Xor<u16>>,
    points: usize,
    key_bits: u32,
    k: usize,
) -> Edges {
    let (shuffled, secrets) = shuffle(context, rows, points, key_bits + 1).await;
    let width = words(points);
    let marks = shuffled.map(|share| {
        let bits = |row: &[Xor<u16>]| {
            let of = |lanes: &[Xor<u16>]| {
                let lanes = lanes.iter().enumerate();
                Xor(lanes.fold(0, |word, (lane, x)| word | (u64::from(x.0 >> key_bits & 1) << lane)))
            };
            row.chunks(LANES).map(of).collect::<Vec<Bits>>()
        };
        share.chunks(points).flat_map(bits).collect()
    });
    let opened = open(context, &marks).await;
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
    let keys = shuffled.map(|share| {
        let at = places.iter().enumerate();
        let key = |(edge, &place): (usize, &usize)| share[edge / k * points + place];
        at.map(key).map(|x| Xor(x.0 & ((1 << key_bits) - 1))).collect()
    });
    Edges { keys, places, secrets, opened }
}

/// Makes rows of the dense matrix B from the weights of their edges, in three rounds.
pub async fn densify(
    context: &mut Context,
    edges: Edges,
    weights: &Shared<u64>,
    points: usize,
    k: usize,
) -> Shared<u64> {
    let rows = weights.map(|share| {
        let mut rows = vec![0; share.len() / k * points];
        let at = share.iter().zip(&edges.places).enumerate();
        at.for_each(|(edge, (&weight, &place))| rows[edge / k * points + place] = weight);
        rows
    });
    unshuffle(context, rows, &edges.secrets, 64).await
}
