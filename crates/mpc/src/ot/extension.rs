//! Extension: Ishai, Kilian, Nissim & Petrank, "Extending oblivious transfers efficiently", CRYPTO 2003,
//! in the correlated form of Asharov, Lindell, Schneider & Zohner ("More efficient oblivious transfer and
//! extensions for faster secure computation", CCS 2013).
//!
//! ```text
//! receiver:  t^i = G(k_i0), u^i = t^i + G(k_i1) + r               -> u^0 .. u^127
//!            (columns: bit j of each belongs to transfer j)
//! sender:    q^i = G(k_i) + s_i u^i, hence row q_j = t_j + r_j s
//!            p_j = H(j, q_j),  y_j = p_j + d_j - H(j, q_j + s)     -> y_j             (words mod 2^16)
//! receiver:  H(j, t_j) + r_j y_j = p_j + r_j d_j
//! ```
//!
//! G is a [`Stream`](flyswarm_sealed_sum::crypto::stream::Stream); columns and rows are added as bits. H
//! is the hash TMMO of Guo, Katz, Wang & Yu, "Efficient and secure multiparty computation from fixed-key
//! block ciphers", IEEE S&P 2020. It is tweakable and correlation-robust if the cipher is a random
//! permutation: block c of H(j, x) is pi(pi(x) + (j, c)) + pi(x), where pi is AES-128 under a public key
//! that differs for every context. Every (j, c) is used once.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::base::Key;
use super::{BASE, WORD};
use flyswarm_sealed_sum::crypto::stream::{StreamKey, derive};

/// Words of a block of H.
const WORDS: usize = 8;

/// Party that has the choice bits.
pub struct Receiver {
    /// The streams G of each pair of keys. They are derived once, because every piece of the columns
    /// needs all of them. The keys wipe themselves.
    columns: Vec<[StreamKey; 2]>,
    hash: Hash,
}

/// Party that has the vectors.
#[derive(ZeroizeOnDrop)]
pub struct Sender {
    choices: u128,
    /// G of each key.
    #[zeroize(skip)]
    columns: Vec<StreamKey>,
    #[zeroize(skip)]
    hash: Hash,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver(<redacted>)")
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender(<redacted>)")
    }
}

impl Receiver {
    /// Makes a receiver from the pairs of keys of the base transfers.
    #[must_use]
    pub fn new(context: &[u8; 32], keys: &[[Key; 2]]) -> Self {
        let columns = keys.iter().map(|pair| pair.each_ref().map(stream)).collect();
        Self { columns, hash: Hash::new(context) }
    }

    /// Returns u for the transfers that begin at number 64 x `first`, one for each bit of `choices`. It has
    /// 8 bytes of each column for each word of choices, column after column.
    #[must_use]
    pub fn columns(&self, first: u64, choices: &[u64]) -> Vec<u8> {
        let mut out = Vec::with_capacity(BASE * 8 * choices.len());
        for [zero, one] in &self.columns {
            let (zeros, ones) = (column(zero, first, choices.len()), column(one, first, choices.len()));
            let words = zeros.iter().zip(ones.iter()).zip(choices);
            out.extend(words.flat_map(|((zero, one), choice)| (zero ^ one ^ choice).to_le_bytes()));
        }
        out
    }

    /// Returns the sum of this peer's shares over all transfers, computed from y. It has `width` words.
    ///
    /// # Panics
    /// If `strings` does not have `width` words of 2 bytes for each bit of `choices`.
    #[must_use]
    pub fn receive(&self, first: u64, choices: &[u64], strings: &[u8], width: usize) -> Vec<u16> {
        assert_eq!(strings.len(), 2 * width * WORD * choices.len(), "strings of another length");
        let mut columns = Zeroizing::new(Vec::with_capacity(BASE * choices.len()));
        self.columns.iter().for_each(|[zero, _]| columns.extend(column(zero, first, choices.len()).iter()));
        let images = self.hash.images(&rows(&columns, choices.len()));
        let mut pad = Zeroizing::new(vec![[0; 16]; width.div_ceil(WORDS)]);
        let mut sum = vec![0u16; width];
        let choice = |transfer: usize| (choices[transfer / WORD] >> (transfer % WORD) & 1) as u16;
        for ((transfer, image), string) in
            images.iter().enumerate().zip(strings.chunks_exact(2 * width.max(1)))
        {
            self.hash.fill(first * WORD as u64 + transfer as u64, image, &mut pad);
            let taken = 0u16.wrapping_sub(choice(transfer));
            for ((sum, pad), string) in sum.iter_mut().zip(words(&pad)).zip(string.as_chunks().0) {
                *sum = sum.wrapping_add(pad).wrapping_add(taken & u16::from_le_bytes(*string));
            }
        }
        sum
    }
}

impl Sender {
    /// Makes a sender from its keys of the base transfers. It chose these keys with the bits of
    /// `choices`, the lowest bit first.
    #[must_use]
    pub fn new(context: &[u8; 32], choices: u128, keys: &[Key]) -> Self {
        Self { choices, columns: keys.iter().map(stream).collect(), hash: Hash::new(context) }
    }

    /// Returns y for the transfers from number 64 x `first` on, and the sum of this peer's shares p
    /// over these transfers. `vectors` holds the vectors of the transfers one after the other, `width`
    /// words each.
    ///
    /// # Panics
    /// If `columns` and `vectors` have different numbers of transfers.
    #[must_use]
    pub fn send(&self, first: u64, columns: &[u8], vectors: &[u16], width: usize) -> (Vec<u8>, Vec<u16>) {
        let count = columns.len() / (8 * BASE);
        assert!(count > 0 && columns.len() == count * 8 * BASE, "columns of whole words");
        assert_eq!(vectors.len(), count * WORD * width, "a vector for each transfer");
        let mut own = Zeroizing::new(Vec::with_capacity(BASE * count));
        for (i, (mine, theirs)) in self.columns.iter().zip(columns.chunks_exact(8 * count)).enumerate() {
            let chosen = 0u64.wrapping_sub((self.choices >> i & 1) as u64);
            let theirs = theirs.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
            own.extend(
                column(mine, first, count).iter().zip(theirs).map(|(own, theirs)| own ^ chosen & theirs),
            );
        }
        let rows = rows(&own, count);
        let mut others: Zeroizing<Vec<u128>> =
            Zeroizing::new(rows.iter().map(|row| row ^ self.choices).collect());
        let (zero, one) = (self.hash.images(&rows), self.hash.images(&others));
        others.zeroize();
        let mut pads = [(); 2].map(|()| Zeroizing::new(vec![[0; 16]; width.div_ceil(WORDS)]));
        let (mut strings, mut sum) = (vec![0; 2 * vectors.len()], vec![0u16; width]);
        for (transfer, string) in strings.chunks_exact_mut(2 * width.max(1)).enumerate() {
            let number = first * WORD as u64 + transfer as u64;
            let [p, other] = &mut pads;
            self.hash.fill(number, &zero[transfer], p);
            self.hash.fill(number, &one[transfer], other);
            let vector = &vectors[transfer * width..][..width];
            let pads = words(p).zip(words(other)).zip(vector);
            for ((sum, string), ((p, other), d)) in sum.iter_mut().zip(string.as_chunks_mut().0).zip(pads) {
                *sum = sum.wrapping_add(p);
                *string = p.wrapping_add(*d).wrapping_sub(other).to_le_bytes();
            }
        }
        (strings, sum)
    }
}

/// Returns G(key).
fn stream(key: &Key) -> StreamKey {
    StreamKey::new(key, "transfer column", &[])
}

/// Returns the words of a column from `first` on.
fn column(stream: &StreamKey, first: u64, count: usize) -> Zeroizing<Vec<u64>> {
    let mut bytes = Zeroizing::new(vec![0; 8 * count]);
    stream.fill_at(8 * first, &mut bytes);
    Zeroizing::new(bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
}

/// Returns the rows of 128 columns of `count` words each.
fn rows(columns: &[u64], count: usize) -> Zeroizing<Vec<u128>> {
    let mut out = Zeroizing::new(Vec::with_capacity(WORD * count));
    for word in 0..count {
        let half =
            |half: usize| transposed(std::array::from_fn(|i| columns[(half * WORD + i) * count + word]));
        let (low, high) = (Zeroizing::new(half(0)), Zeroizing::new(half(1)));
        out.extend(
            low.iter().zip(high.iter()).map(|(&low, &high)| u128::from(low) | u128::from(high) << WORD),
        );
    }
    out
}

/// Transposes a block: bit j of word i becomes bit i of word j (Warren, *Hacker's Delight*, section 7-3).
fn transposed(mut block: [u64; WORD]) -> [u64; WORD] {
    let (mut width, mut mask) = (WORD / 2, u64::MAX >> (WORD / 2));
    while width > 0 {
        for i in (0..WORD).filter(|i| i & width == 0) {
            let moved = (block[i] >> width ^ block[i + width]) & mask;
            block[i] ^= moved << width;
            block[i + width] ^= moved;
        }
        width /= 2;
        mask ^= mask << width;
    }
    block
}

fn words(blocks: &[[u8; 16]]) -> impl Iterator<Item = u16> {
    blocks.as_flattened().as_chunks().0.iter().map(|&word| u16::from_le_bytes(word))
}

/// Hash H. Its key is public; its inputs and outputs are secret.
struct Hash(Aes128);

impl Hash {
    fn new(context: &[u8; 32]) -> Self {
        let key = derive(context, "transfer hash", &[]);
        Self(Aes128::new(key.first_chunk::<16>().unwrap_or(&[0; 16]).into()))
    }

    /// Returns pi of each row.
    fn images(&self, rows: &[u128]) -> Zeroizing<Vec<[u8; 16]>> {
        let mut blocks = Zeroizing::new(rows.iter().map(|row| row.to_le_bytes()).collect::<Vec<_>>());
        self.0.encrypt_blocks(Block::cast_slice_from_core_mut(&mut blocks));
        blocks
    }

    /// Computes H(transfer, row) from pi of the row.
    fn fill(&self, transfer: u64, image: &[u8; 16], out: &mut [[u8; 16]]) {
        let image = u128::from_le_bytes(*image);
        for (block, out) in (0u128..).zip(&mut *out) {
            *out = (image ^ (u128::from(transfer) | block << 64)).to_le_bytes();
        }
        self.0.encrypt_blocks(Block::cast_slice_from_core_mut(out));
        out.iter_mut().for_each(|out| *out = (u128::from_le_bytes(*out) ^ image).to_le_bytes());
    }
}
