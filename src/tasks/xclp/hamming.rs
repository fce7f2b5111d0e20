//! Secure Hamming distances between two owners (spec, section 15c): additive shares mod 2^16 of the distances
//! between the rows of the one and those of the other, by oblivious transfer ([`ot`]) or homomorphic
//! encryption ([`phe`]), as in the XCLP paper. What each side computes and sends; the task `xclp` with the
//! option `hamming` carries it.

pub mod ot;
pub mod phe;

/// Rows become columns.
#[must_use]
pub fn transposed(matrix: &[u16], columns: usize) -> Vec<u16> {
    let rows = matrix.len() / columns.max(1);
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}

/// Words as they travel, little-endian.
#[must_use]
pub fn to_bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The ones of a code, at most 16,384.
fn ones(code: &[u64]) -> u16 {
    code.iter().map(|word| word.count_ones() as u16).sum()
}
