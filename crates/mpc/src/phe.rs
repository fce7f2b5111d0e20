//! Packed additively homomorphic encryption: inner products of rows of bits on a ciphertext (spec, section
//! "Homomorphic encryption").
//!
//! The scheme is by Brakerski ("Fully homomorphic encryption without modulus switching from classical
//! GapSVP", CRYPTO 2012) in the form of Fan and Vercauteren (2012): ring of degree N = 4096, q the product
//! of two primes of 50 bits, plaintexts mod t = 2^15. The secret s is ternary, and errors e are centred
//! binomial of variance 10.5 (standard deviation 3.2). This gives 128 bits of security for up to 109 bits
//! of q (homomorphicencryption.org, *Standard*, 2018, table 1).
//!
//! 1. The *holder* of the key encrypts its rows of bits. A ciphertext (c0, c1) with c0 + c1 s = D m + e, D
//!    = floor(q / t), holds [`Layout::columns`] columns of `stride` rows: coefficient c stride + r of m is
//!    bit c of row r. c1 is uniform, from a public stream, so only c0 is sent.
//! 2. For each of its rows b, the *evaluator* adds X^(-c stride) times the ciphertexts for all columns c
//!    whose bit is 1. The first coefficients of the sum hold the inner products of all the holder's rows
//!    with b.
//! 3. The evaluator adds a fresh encryption of zero under the holder's public key. This renews c1,
//!    which is linear in b and would reveal b, whatever is added to c0. To the wanted coefficients of
//!    c0, it adds D times a mask uniform mod t, which is its share, and uniform noise below 2^83. Then
//!    it divides by the second prime, which halves the length of the answer. It sends the first
//!    coefficients of c0 and all of c1.
//! 4. The holder decrypts the products plus the mask, mod t.
//!
//! *Why the evaluator's bits are hidden.* By Ring-LWE, c1 plus the fresh encryption's c1 is uniform to
//! the holder; the small u of the fresh encryption is the secret. Then c0 reveals only the sum mod t
//! and its noise. The noise consists of e of the added ciphertexts, at most 21 L; of the fresh
//! encryption, at most 21 (2 N + 1); and of the wrap mod t, at most 2^15. Together it is below 2^20 for
//! L up to 16,384. Added to a uniform number below 2^83, it changes the distribution by at most 2^-63.
//! Over the n x m coefficients of a block, that is n m 2^-63: 2^-45 for 500 x 500 rows, and below 2^-40
//! for up to 2^23 pairs of rows. The division afterwards only removes information. *Why the holder gets
//! the right products.* The added noise is below 2^83 + 2^20. This is below q / 2 t, which is smaller
//! than 2^84 by at most 2^-30 of it. After the division, the rounding error, at most (N + 1) / 2, is
//! far below q_0 / 2 t - 2^33 > 2^32.
//!
//! The lookups depend on the evaluator's bits, so its memory accesses show their pattern. No message and
//! no branch depends on them.

pub mod ring;

use pulp::{Arch, NullaryFnOnce};
use zeroize::Zeroizing;

use flyswarm_sealed_sum::crypto::stream::{Stream, derive};
use ring::{
    Factor, Multiplier, N, Residues, errors, minus, pack, packed_bytes, plus, power, primes, ternary,
    uniform, unpack,
};

/// Modulus of plaintexts.
pub const T: u64 = 1 << 15;
/// Number of bits of the noise that is added to an answer.
pub const NOISE_BITS: usize = 83;
/// Largest number of rows in a ciphertext.
pub const MAX_STRIDE: usize = 512;
/// Bytes of a ciphertext on the wire.
pub const CIPHERTEXT: usize = 2 * N * ring::WIDTH / 8;
/// Bytes of a public key.
pub const PUBLIC_KEY: usize = 32 + CIPHERTEXT;
/// Number of columns whose sums are looked up together.
const LOOKED_UP: usize = 4;

/// Returns floor(q / t).
fn delta() -> u128 {
    let [one, two] = ring::PRIMES;
    u128::from(one) * u128::from(two) / u128::from(T)
}

/// Layout of rows of bits in ciphertexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of encrypted rows, at most [`MAX_STRIDE`].
    pub rows: usize,
    /// Number of places of a column: a power of two.
    pub stride: usize,
    /// Number of bits of a row.
    pub bits: usize,
}

impl Layout {
    /// Makes the layout of `rows` rows, 1 to [`MAX_STRIDE`], of `bits` bits.
    #[must_use]
    pub fn new(rows: usize, bits: usize) -> Self {
        Self { rows, stride: rows.next_power_of_two().min(MAX_STRIDE), bits }
    }

    /// Returns the number of columns in a ciphertext.
    #[must_use]
    pub fn columns(&self) -> usize {
        N / self.stride
    }

    /// Returns the number of ciphertexts.
    #[must_use]
    pub fn ciphertexts(&self) -> usize {
        self.bits.div_ceil(self.columns())
    }

    /// Returns the bytes of an answer.
    #[must_use]
    pub fn answer(&self) -> usize {
        packed_bytes(self.rows) + packed_bytes(N)
    }
}

/// Returns a bit of packed rows.
fn bit(row: &[u64], at: usize) -> bool {
    row.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

/// Holder of the key, which encrypts its rows and decrypts the answers.
pub struct Holder {
    secret: [Multiplier; 2],
    /// Seed of its errors.
    seed: Zeroizing<[u8; 32]>,
    /// Seed of the uniform and public numbers.
    public: [u8; 32],
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Holder(<redacted>)")
    }
}

impl Holder {
    /// Makes a fresh key from 32 fresh secret bytes.
    #[must_use]
    pub fn new(seed: &[u8; 32]) -> Self {
        let small = ternary(&mut Stream::new(seed, "lattice secret", &[]));
        let secret = primes().each_ref().map(|prime| prime.multiplier(&prime.residues(&small)));
        Self { secret, seed: Zeroizing::new(*seed), public: *derive(seed, "lattice public", &[]) }
    }

    /// Returns the public key: the seed of the uniform and public numbers, and p0 = e - p1 s.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        let mut out = self.public.to_vec();
        self.masked("public key", &[], None, &mut out);
        out
    }

    /// Returns ciphertext `index` of `rows`, which are packed words with the first bit in the lowest place
    /// of the first word. `number` must be used only once.
    #[must_use]
    pub fn encrypt(&self, layout: Layout, (number, index): (u32, usize), rows: &[&[u64]]) -> Vec<u8> {
        let first = index * layout.columns();
        let mut plain = Zeroizing::new(vec![false; N]);
        for column in 0..layout.columns().min(layout.bits.saturating_sub(first)) {
            let places = plain[column * layout.stride..].iter_mut();
            places.zip(rows).for_each(|(place, row)| *place = bit(row, first + column));
        }
        let mut out = Vec::with_capacity(CIPHERTEXT);
        self.masked("ciphertext", &number.to_le_bytes(), Some(&plain), &mut out);
        out
    }

    /// Appends D m + e - a s for the public a of a label, modulo both primes, packed.
    fn masked(&self, label: &str, params: &[u8], plain: Option<&[bool]>, out: &mut Vec<u8>) {
        let mut public = Stream::new(&self.public, label, params);
        let small = errors(&mut Stream::new(&*self.seed, label, params), N);
        for (prime, secret) in primes().iter().zip(&self.secret) {
            let step = (delta() % u128::from(prime.q)) as u64;
            let masks = prime.product(&uniform(&mut public, prime.q), secret);
            let mut c0 = prime.residues(&small);
            for (place, (x, mask)) in c0.iter_mut().zip(masks.iter()).enumerate() {
                let m = step * u64::from(plain.is_some_and(|plain| plain[place]));
                *x = minus(plus(*x, m, prime.q), *mask, prime.q);
            }
            pack(&c0, out);
        }
    }

    /// Returns the products of the rows with the evaluator's row plus its mask, mod t. Returns `None` if
    /// the answer is malformed.
    #[must_use]
    pub fn decrypt(&self, layout: Layout, answer: &[u8]) -> Option<Vec<u16>> {
        let ([prime, _], [secret, _]) = (primes(), &self.secret);
        let (c0, c1) = answer.split_at_checked(packed_bytes(layout.rows))?;
        let (c0, c1) = (unpack(c0, layout.rows, prime.q)?, unpack(c1, N, prime.q)?);
        let masks = prime.product(&c1, secret);
        let opened = c0.iter().zip(masks.iter()).map(|(&x, &mask)| {
            let x = u128::from(plus(x, mask, prime.q));
            let q = u128::from(prime.q);
            ((x * u128::from(T) + q / 2) / q % u128::from(T)) as u16
        });
        Some(opened.collect())
    }
}

/// Holder's public key, as used by the evaluator.
pub struct Public {
    key: [[Multiplier; 2]; 2],
    seed: [u8; 32],
}

impl std::fmt::Debug for Public {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Public")
    }
}

/// Reads both residues of a polynomial.
fn polynomials(bytes: &[u8]) -> Option<[Vec<u64>; 2]> {
    let (one, two) = bytes.split_at_checked(CIPHERTEXT / 2)?;
    Some([unpack(one, N, ring::PRIMES[0])?, unpack(two, N, ring::PRIMES[1])?])
}

impl Public {
    /// Reads the holder's [`public_key`](Holder::public_key). Returns `None` if it is malformed.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let (seed, p0) = bytes.split_first_chunk::<32>()?;
        let p0 = polynomials(p0)?;
        let mut public = Stream::new(seed, "public key", &[]);
        let [one, two] = primes();
        let p1 = [uniform(&mut public, one.q), uniform(&mut public, two.q)];
        let key =
            |limb: usize, prime: &ring::Prime| [prime.multiplier(&p0[limb]), prime.multiplier(&p1[limb])];
        Some(Self { key: [key(0, one), key(1, two)], seed: *seed })
    }

    /// Returns, for each of `rows` (packed words), the answer and the evaluator's mask, which is minus its
    /// share of the products mod t. `start` is the number of the first ciphertext. `of` is 32 fresh secret
    /// bytes and the number of the first answer; the bytes must not be used twice with the same number.
    /// Returns `None` if a ciphertext is malformed.
    #[must_use]
    pub fn answers(
        &self,
        layout: Layout,
        (start, ciphertexts): (u32, &[impl AsRef<[u8]>]),
        rows: &[&[u64]],
        of: (&[u8; 32], u64),
    ) -> Option<Vec<(Vec<u8>, Vec<u16>)>> {
        // The computation is compiled in this package, which is optimised in every profile.
        let ciphertexts: Vec<&[u8]> = ciphertexts.iter().map(AsRef::as_ref).collect();
        self.answered(layout, (start, &ciphertexts), rows, of)
    }

    fn answered(
        &self,
        layout: Layout,
        (start, ciphertexts): (u32, &[&[u8]]),
        rows: &[&[u64]],
        (secret, first): (&[u8; 32], u64),
    ) -> Option<Vec<(Vec<u8>, Vec<u16>)>> {
        // For each row and prime: the wanted coefficients of c0, then c1.
        let (width, arch) = (layout.rows + N, Arch::new());
        let mut sums =
            vec![[Zeroizing::new(vec![0u64; width]), Zeroizing::new(vec![0u64; width])]; rows.len()];
        for ((index, bytes), number) in ciphertexts.iter().enumerate().zip(start..) {
            let c0 = polynomials(bytes)?;
            let mut public = Stream::new(&self.seed, "ciphertext", &number.to_le_bytes());
            for (limb, (prime, c0)) in primes().iter().zip(&c0).enumerate() {
                let c1 = uniform(&mut public, prime.q);
                for group in 0..layout.columns().div_ceil(LOOKED_UP) {
                    let column = index * layout.columns() + group * LOOKED_UP;
                    if column >= layout.bits {
                        break;
                    }
                    let table = table(layout, group, [c0, &c1], prime.q);
                    let entry =
                        |row: &&[u64]| (row[column / 64] >> (column % 64)) as usize % (1 << LOOKED_UP);
                    let sums = rows.iter().map(entry).zip(sums.iter_mut().map(|sums| &mut sums[limb][..]));
                    arch.dispatch(LookUp { table: &table, width, sums });
                }
            }
        }
        let answers = (first..).zip(&sums);
        Some(
            answers
                .map(|(number, sums)| {
                    self.answer(layout, sums, &mut Stream::new(secret, "answer", &number.to_le_bytes()))
                })
                .collect(),
        )
    }

    /// Makes an answer from the sums over the ciphertexts.
    fn answer(&self, layout: Layout, sums: &[Residues; 2], stream: &mut Stream) -> (Vec<u8>, Vec<u16>) {
        let u = ternary(stream);
        let (e0, e1) = (errors(stream, layout.rows), errors(stream, N));
        let mut bytes = Zeroizing::new(vec![0; 16 * layout.rows]);
        stream.fill(&mut bytes);
        let noise =
            bytes.as_chunks().0.iter().map(|&word| u128::from_le_bytes(word) & ((1 << NOISE_BITS) - 1));
        let mut words = vec![0; 2 * layout.rows];
        stream.fill(&mut words);
        let masks: Vec<u16> =
            words.as_chunks().0.iter().map(|&word| u16::from_le_bytes(word) & (T as u16 - 1)).collect();
        let added: Zeroizing<Vec<u128>> = Zeroizing::new(
            noise.zip(&masks).map(|(noise, &mask)| noise + delta() * u128::from(mask)).collect(),
        );
        let hidden = |limb: usize, prime: &ring::Prime| -> Residues {
            let (sums, u) = (&sums[limb], prime.residues(&u));
            let [fresh0, fresh1] = self.key[limb].each_ref().map(|key| prime.product(&u, key));
            let (e0, e1) = (prime.residues(&e0), prime.residues(&e1));
            let fresh = fresh0[..layout.rows].iter().zip(e0.iter()).chain(fresh1.iter().zip(e1.iter()));
            let mut out: Residues = Zeroizing::new(
                sums.iter()
                    .zip(fresh)
                    .map(|(sum, (fresh, e))| plus(sum % prime.q, plus(*fresh, *e, prime.q), prime.q))
                    .collect(),
            );
            let q = u128::from(prime.q);
            out.iter_mut()
                .zip(added.iter())
                .for_each(|(x, added)| *x = plus(*x, (added % q) as u64, prime.q));
            out
        };
        let [one, two] = primes();
        let (high, low) = (hidden(0, one), hidden(1, two));
        // (x - y) / q_1 for the y of smallest absolute value that leaves no remainder.
        let inverse = Factor::new(power(two.q % one.q, one.q - 2, one.q), one.q);
        let divided: Vec<u64> = high
            .iter()
            .zip(low.iter())
            .map(|(&x, &y)| {
                let y = if y > two.q / 2 { one.q - (two.q - y) % one.q } else { y % one.q };
                inverse.times(minus(x, y % one.q, one.q), one.q)
            })
            .collect();
        let mut out = Vec::with_capacity(layout.answer());
        pack(&divided[..layout.rows], &mut out);
        pack(&divided[layout.rows..], &mut out);
        (out, masks)
    }
}

/// Adds the entry that a row looks up in the table to the sums of the row. At most 2^12 entries are added
/// to a sum, each below 2^50.
struct LookUp<'a, S> {
    table: &'a [u64],
    width: usize,
    sums: S,
}

impl<'a, S: Iterator<Item = (usize, &'a mut [u64])>> NullaryFnOnce for LookUp<'_, S> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (entry, sums) in self.sums {
            let added = &self.table[entry * self.width..][..self.width];
            sums.iter_mut().zip(added).for_each(|(sum, x)| *sum += x);
        }
    }
}

/// Returns every sum of the [`LOOKED_UP`] polynomials X^(-c stride) p, with c from `group` times
/// [`LOOKED_UP`] on. Each sum has the first coefficients of c0, then those of c1.
fn table(layout: Layout, group: usize, [c0, c1]: [&[u64]; 2], q: u64) -> Vec<u64> {
    let width = layout.rows + N;
    let mut table = vec![0; width << LOOKED_UP];
    for k in 0..LOOKED_UP {
        let shift = (group * LOOKED_UP + k) * layout.stride;
        let (known, rest) = table.split_at_mut(width << k);
        let added = &mut rest[..width];
        // Coefficient p of X^-shift times a polynomial is its coefficient p + shift, with X^N = -1.
        for (out, from, count) in [(0, c0, layout.rows), (layout.rows, c1, N)] {
            for (place, x) in added[out..][..count].iter_mut().enumerate() {
                let at = place + shift;
                *x = if at < N { from[at] } else { minus(0, from[at - N], q) };
            }
        }
        let (added, rest) = rest.split_at_mut(width);
        for (sums, known) in rest.chunks_exact_mut(width).zip(known.chunks_exact(width).skip(1)) {
            sums.iter_mut().zip(known.iter().zip(&*added)).for_each(|(sum, (x, y))| *sum = plus(*x, *y, q));
        }
        debug_assert_eq!(known.len(), width << k);
    }
    table
}

#[cfg(test)]
mod tests;
