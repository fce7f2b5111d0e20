//! Bits in parallel, 64 lanes to a word: additions, conversions in both directions, signs.
//!
//! A *plane* is one bit of every lane. Lanes past the last one are computed and masked like all others.

use super::primitives::{LANES, deal, multiply, multiply_all, reshare_proved};
use super::proofs::log::Proved;
use super::proofs::statements;
use super::round::Side;
use super::{Bits, Context, Ring, Shared, Xor};

/// Returns the number of words of a plane of `lanes` lanes.
#[must_use]
pub fn words(lanes: usize) -> usize {
    lanes.div_ceil(LANES)
}

/// Transposes a 64 x 64 matrix of bits, row i in word i, lowest bit first (Warren, *Hacker's Delight*,
/// section 7-3).
pub fn transpose(block: &mut [u64; LANES]) {
    let mut mask = 0x0000_0000_ffff_ffff_u64;
    let mut width = 32;
    while width > 0 {
        let mut row = 0;
        while row < LANES {
            let (low, high) = (block[row], block[row + width]);
            let swap = ((low >> width) ^ high) & mask;
            block[row] = low ^ (swap << width);
            block[row + width] = high ^ swap;
            row = (row + width + 1) & !width;
        }
        width /= 2;
        mask ^= mask << width;
    }
}

/// Returns the lowest `count` bits of each word as planes, one after the other.
#[must_use]
pub fn planes<T: Ring>(lanes: &[T], count: usize) -> Vec<Bits> {
    let width = words(lanes.len());
    let mut planes = vec![Bits::default(); count * width];
    for (at, lanes) in lanes.chunks(LANES).enumerate() {
        let mut block = [0; LANES];
        block.iter_mut().zip(lanes).for_each(|(row, lane)| *row = lane.bits());
        transpose(&mut block);
        block[..count].iter().enumerate().for_each(|(bit, &word)| planes[bit * width + at] = Xor(word));
    }
    planes
}

/// Returns words from their planes: the inverse of [`planes`].
#[must_use]
pub fn lanes<T: Ring>(planes: &[Bits], count: usize, len: usize) -> Vec<T> {
    let width = words(len);
    let mut lanes = Vec::with_capacity(width * LANES);
    for at in 0..width {
        let mut block = [0; LANES];
        (0..count).for_each(|bit| block[bit] = planes[bit * width + at].0);
        transpose(&mut block);
        lanes.extend(block.map(T::from_bits));
    }
    lanes.truncate(len);
    lanes
}

/// Returns the complement of shared bits.
#[must_use]
pub fn not(context: &Context, bits: Shared<Bits>) -> Shared<Bits> {
    context.plus(bits, Xor(u64::MAX))
}

/// Method for adding two numbers in planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adder {
    /// Bit by bit, with one product and one round per bit.
    Ripple,
    /// Carries by a tree (Sklansky, 1960), in few rounds.
    Sklansky,
}

/// Returns the sum of two numbers mod 2^(number of planes), lowest planes first.
pub async fn add(
    context: &mut Context,
    x: &[Shared<Bits>],
    y: &[Shared<Bits>],
    adder: Adder,
) -> Vec<Shared<Bits>> {
    let half: Vec<_> = x.iter().zip(y).map(|(a, b)| a.plus(b)).collect();
    let carries = match adder {
        Adder::Ripple => ripple(context, x, y).await,
        Adder::Sklansky => sklansky(context, x, y, &half).await,
    };
    let none = Shared::zeros(half.first().map_or(0, Shared::len));
    let carries = std::iter::once(&none).chain(&carries);
    half.iter().zip(carries).map(|(half, carry)| half.plus(carry)).collect()
}

/// Returns the carries out of all planes except the last.
async fn ripple(context: &mut Context, x: &[Shared<Bits>], y: &[Shared<Bits>]) -> Vec<Shared<Bits>> {
    let mut carries: Vec<Shared<Bits>> = Vec::new();
    for (a, b) in x.iter().zip(y).take(x.len().saturating_sub(1)) {
        let carry = match carries.last() {
            None => multiply(context, a, b).await,
            Some(c) => multiply(context, &a.plus(c), &b.plus(c)).await.plus(c),
        };
        carries.push(carry);
    }
    carries
}

async fn sklansky(
    context: &mut Context,
    x: &[Shared<Bits>],
    y: &[Shared<Bits>],
    half: &[Shared<Bits>],
) -> Vec<Shared<Bits>> {
    let count = x.len().saturating_sub(1);
    let pairs: Vec<_> = x.iter().zip(y).take(count).collect();
    let mut generate = multiply_all(context, &pairs).await;
    let mut propagate = half[..count].to_vec();
    let mut span = 1;
    while span < count {
        // Every second block of `span` planes takes the carry of the last plane of the block before it.
        let updated: Vec<usize> = (0..count).filter(|i| i & span != 0).collect();
        let last = |i: usize| (i & !(span - 1)) - 1;
        let mut pairs: Vec<_> = updated.iter().map(|&i| (&propagate[i], &generate[last(i)])).collect();
        // A block that begins at plane 0 has no carry to propagate.
        let passing: Vec<usize> = updated.iter().copied().filter(|&i| i >= 2 * span).collect();
        pairs.extend(passing.iter().map(|&i| (&propagate[i], &propagate[last(i)])));
        let mut products = multiply_all(context, &pairs).await;
        for (&i, product) in passing.iter().zip(products.split_off(updated.len())) {
            propagate[i] = product;
        }
        updated.iter().zip(products).for_each(|(&i, product)| generate[i].add(&product));
        span *= 2;
    }
    generate
}

/// Returns the carry out of the last plane by a tree, from the bits that each plane generates and
/// propagates.
pub async fn carry(
    context: &mut Context,
    mut generate: Vec<Shared<Bits>>,
    mut propagate: Vec<Shared<Bits>>,
) -> Shared<Bits> {
    while generate.len() > 1 {
        let pairs = generate.len() / 2;
        let mut factors: Vec<_> = (0..pairs).map(|i| (&propagate[2 * i + 1], &generate[2 * i])).collect();
        // A block that begins at plane 0 has no carry to propagate.
        factors.extend((1..pairs).map(|i| (&propagate[2 * i + 1], &propagate[2 * i])));
        let mut products = multiply_all(context, &factors).await;
        let passed = products.split_off(pairs);
        let odd = (!generate.len().is_multiple_of(2)).then(|| (generate.pop(), propagate.pop()));
        let carried = products.into_iter().enumerate();
        generate = carried.map(|(i, product)| generate[2 * i + 1].plus(&product)).collect();
        let none = Shared::zeros(generate[0].len());
        propagate = std::iter::once(none).chain(passed).collect();
        if let Some((last_generate, last_propagate)) = odd {
            generate.extend(last_generate);
            propagate.extend(last_propagate);
        }
    }
    generate.pop().unwrap_or_default()
}

/// Returns two numbers in planes that add up to `x` mod 2^count: one dealt by role 0, one held by roles
/// 1 and 2. For words of 64 bits, plane 64 is the carry of the sum of shares 0 and 1.
pub async fn addends<T: Ring>(context: &mut Context, x: &Shared<T>, count: usize) -> [Vec<Shared<Bits>>; 2] {
    let width = words(x.len());
    let sum = (context.role() == 0).then(|| {
        let sum: Vec<T> = x.own.iter().zip(&x.next).map(|(&a, &b)| a.add(b)).collect();
        let mut out = planes(&sum, count.min(LANES));
        if count > LANES {
            let carry = sum.iter().zip(&x.own).map(|(sum, own)| u64::from(sum.bits() < own.bits()));
            out.extend(planes(&carry.collect::<Vec<u64>>(), 1));
        }
        out
    });
    let dealt = deal(context, 0, count * width, sum.as_deref());
    context.round().await;
    let first = dealt.receive(context, |log, dealt| statements::sum_of_shares(context, log, x, dealt, count));
    let mut second = Shared::zeros(count * width);
    let held = match context.role() {
        1 => Some((&mut second.next, &x.next)),
        2 => Some((&mut second.own, &x.own)),
        _ => None,
    };
    if let Some((second, share)) = held {
        let planes = planes(share, count.min(LANES));
        second[..planes.len()].copy_from_slice(&planes);
    }
    [first.chunks(width), second.chunks(width)]
}

/// Returns the lowest `count` bits of integers, as planes (`a2b`).
pub async fn a2b<T: Ring>(
    context: &mut Context,
    x: &Shared<T>,
    count: usize,
    adder: Adder,
) -> Vec<Shared<Bits>> {
    let [first, second] = addends(context, x, count).await;
    add(context, &first, &second, adder).await
}

/// Returns the sign of integers in two's complement of `count` bits: 1 if below 0.
pub async fn sign(context: &mut Context, x: &Shared<u64>, count: usize) -> Shared<Bits> {
    let [mut first, mut second] = addends(context, x, count).await;
    let top = first.pop().unwrap_or_default().plus(&second.pop().unwrap_or_default());
    let pairs: Vec<_> = first.iter().zip(&second).collect();
    let generate = multiply_all(context, &pairs).await;
    let propagate = first.iter().zip(&second).map(|(a, b)| a.plus(b)).collect();
    top.plus(&carry(context, generate, propagate).await)
}

/// Returns this party's parts of sum_t weight_t bit_t for each lane, for each list of weights (`b2a`,
/// before its reshare), and the dealt integers. Role 0 deals the exclusive or of shares 0 and 1 as an
/// integer u. With b as share 2, u xor b = u + b - 2 u b is linear for roles 1 and 2.
pub async fn b2a_part<T: Proved, const N: usize>(
    context: &mut Context,
    bits: &[Shared<Bits>],
    len: usize,
    weights: [&[T]; N],
) -> ([Vec<T>; N], Shared<T>) {
    let bit = |plane: &[Bits], lane: usize| plane[lane / LANES].0 >> (lane % LANES) & 1;
    let known = (context.role() == 0).then(|| {
        let of = |plane: &Shared<Bits>| -> Vec<T> {
            (0..len).map(|lane| T::from_bits(bit(&plane.own, lane) ^ bit(&plane.next, lane))).collect()
        };
        bits.iter().flat_map(of).collect::<Vec<T>>()
    });
    let dealt = deal(context, 0, bits.len() * len, known.as_deref());
    context.round().await;
    let dealt = dealt.receive(context, |log, dealt| statements::exclusive_or(context, log, bits, len, dealt));
    let mut sums = std::array::from_fn(|_| vec![T::default(); len]);
    // Role 1 has share 1 of u and adds b; role 2 has share 0.
    let (u, first) = match context.role() {
        1 => (&dealt.own, true),
        2 => (&dealt.next, false),
        _ => return (sums, dealt),
    };
    for (at, plane) in bits.iter().enumerate() {
        let plane = if first { &plane.next } else { &plane.own };
        for (lane, &u) in u[at * len..][..len].iter().enumerate() {
            let b = T::from_bits(bit(plane, lane));
            let own = if first { b } else { T::default() };
            let both = u.mul(b);
            let value = own.add(u).sub(both).sub(both);
            for (sums, weights) in sums.iter_mut().zip(weights) {
                sums[lane] = sums[lane].add(weights[at].mul(value));
            }
        }
    }
    (sums, dealt)
}

/// Returns shares of sum_t weight_t bit_t for each lane (`b2a`), for one list of weights after the other.
pub async fn b2a<T: Proved, const N: usize>(
    context: &mut Context,
    bits: &[Shared<Bits>],
    len: usize,
    weights: [&[T]; N],
) -> Shared<T> {
    let (parts, dealt) = b2a_part(context, bits, len, weights).await;
    reshare_proved(context, parts.concat(), |context, log, shared, masks| {
        let (bits, result) = ((bits, len), (shared, masks));
        statements::converted(context, log, bits, &dealt, weights, result, statements::Added::default());
    })
    .await
}

/// Sends the lowest `width` bits of each word, at most 57, packed.
pub fn send_packed<T: Ring>(context: &Context, to: Side, words: &[T], width: u32) {
    let (mut bytes, mut held, mut buffer) = (Vec::with_capacity(packed(words.len(), width)), 0, 0u64);
    let mask = (1u64 << width) - 1;
    for word in words {
        buffer |= (word.bits() & mask) << held;
        held += width;
        while held >= 8 {
            bytes.push(buffer as u8);
            buffer >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        bytes.push(buffer as u8);
    }
    context.wire().send_bytes(to, &bytes);
}

/// Receives the words of [`send_packed`].
pub fn receive_packed<T: Ring>(context: &Context, from: Side, len: usize, width: u32) -> Vec<T> {
    let mask = (1u64 << width) - 1;
    context.wire().receive_bytes(from, packed(len, width), |bytes| {
        let (mut held, mut buffer, mut bytes) = (0, 0u64, bytes.iter());
        let word = |_| {
            while held < width {
                buffer |= u64::from(bytes.next().copied().unwrap_or_default()) << held;
                held += 8;
            }
            let word = buffer & mask;
            buffer >>= width;
            held -= width;
            T::from_bits(word)
        };
        (0..len).map(word).collect()
    })
}

fn packed(len: usize, width: u32) -> usize {
    (len * width as usize).div_ceil(8)
}
