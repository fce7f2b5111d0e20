//! The only kind of pseudo-random stream in the project (spec, section "Streams").
//!
//! `Stream(key, label, params)` is the keystream of AES-256 in counter mode (NIST SP 800-38A, big-endian
//! counter block from 0) under HKDF-SHA256(salt = "flyswarm/5", ikm = key, info = label || 0x00 ||
//! params). It makes masks, the rows of the lifting matrix and all other data that peers must be able to
//! reproduce. A (key, label, params) triple masks only one vector.
//!
//! Most of the computation of a sealed sum goes into masks. If the processor has instructions for AES,
//! they are detected at run time and used; otherwise slower constant-time software is used. See
//! `benches/sealed_sum.rs`.

use aes::Aes256;
use ctr::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherSeek};
use ctr::{Ctr32BE, CtrCore};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

/// Protocol name and version: the salt of every derivation.
pub const PROTOCOL: &str = "flyswarm/5";

/// Derives one 32-byte key with HKDF-SHA256 and the protocol's salt; `info` is `label || 0x00 || params`.
#[must_use]
pub fn derive(key: &[u8], label: &str, params: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut out = Zeroizing::new([0u8; 32]);
    Hkdf::<Sha256>::new(Some(PROTOCOL.as_bytes()), key)
        .expand_multi_info(&[label.as_bytes(), &[0], params], out.as_mut())
        .unwrap_or_else(|_| unreachable!("BUG: 32 bytes are a valid HKDF-SHA256 length"));
    out
}

/// Reproducible byte stream, addressable by byte position.
pub struct Stream {
    /// Cipher. A stream ends before the lower 32 bits of its counter overflow.
    cipher: Ctr32BE<Aes256>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream(<redacted>)")
    }
}

impl Stream {
    /// Makes the stream of `(key, label, params)` at position 0.
    #[must_use]
    pub fn new(key: &[u8], label: &str, params: &[u8]) -> Self {
        Self::with(StreamKey::new(key, label, params).0)
    }

    fn with(key: Aes256) -> Self {
        Self { cipher: Ctr32BE::from_core(CtrCore::inner_iv_init(key, &[0u8; 16].into())) }
    }

    /// Moves to an absolute byte position, below 2^36.
    pub fn seek(&mut self, byte: u64) {
        self.cipher.seek(byte);
    }

    /// Overwrites `out` with the next keystream bytes.
    #[inline]
    pub fn fill(&mut self, out: &mut [u8]) {
        self.cipher.write_keystream(out);
    }

    /// Returns the next 4 bytes as a little-endian integer.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Returns a uniform integer in `0..n`, by rejection: 32-bit words `v` at or above the largest
    /// multiple of `n` up to 2^32 are skipped, and the first other word gives `v mod n`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "below(0)");
        let limit = (1u64 << 32) / u64::from(n) * u64::from(n);
        loop {
            let v = self.next_u32();
            if u64::from(v) < limit {
                return v % n;
            }
        }
    }
}

/// Key of a stream whose short pieces are read in any order. Deriving and expanding the key takes longer
/// than reading a piece.
pub struct StreamKey(Aes256);

impl std::fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamKey(<redacted>)")
    }
}

impl StreamKey {
    /// Derives the key of the stream of `(key, label, params)`.
    #[must_use]
    pub fn new(key: &[u8], label: &str, params: &[u8]) -> Self {
        let derived = derive(key, label, params);
        Self(Aes256::new((&*derived).into()))
    }

    /// Overwrites `out` with the stream's bytes from position `byte` on, below 2^36.
    #[inline]
    pub fn fill_at(&self, byte: u64, out: &mut [u8]) {
        let mut stream = Stream::with(self.0.clone());
        stream.seek(byte);
        stream.fill(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeking_gives_the_same_bytes_as_reading_through() {
        let mut whole = [0u8; 1000];
        Stream::new(b"key", "label", b"p").fill(&mut whole);
        let mut part = [0u8; 100];
        let mut stream = Stream::new(b"key", "label", b"p");
        stream.seek(777);
        stream.fill(&mut part);
        assert_eq!(part, whole[777..877]);
        let key = StreamKey::new(b"key", "label", b"p");
        for first in [900, 0, 123] {
            key.fill_at(first as u64, &mut part);
            assert_eq!(part, whole[first..][..100]);
        }
    }

    #[test]
    fn label_and_params_cannot_be_shifted_into_each_other() {
        let mut a = Stream::new(b"key", "label", b"x");
        let mut b = Stream::new(b"key", "labelx", b"");
        assert_ne!(a.next_u32(), b.next_u32());
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut stream = Stream::new(&[1; 32], "below", &[]);
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[stream.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
