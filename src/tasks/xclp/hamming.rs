//! Secure Hamming distances between two owners (spec, section 15c): additive shares mod 2^16 of the
//! distances between the rows of one owner and those of the other. They are made by oblivious transfer
//! ([`ot`]) or homomorphic encryption ([`phe`]), as in the XCLP paper. This module has the computation of
//! each side and its messages; the task `xclp` with the option `hamming` sends them.

pub mod ot;
pub mod phe;

/// Transposes a matrix.
#[must_use]
pub fn transposed(matrix: &[u16], columns: usize) -> Vec<u16> {
    let rows = matrix.len() / columns.max(1);
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}

/// Encodes words as bytes, little-endian.
#[must_use]
pub fn to_bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Counts the ones of a code. There are at most 16,384.
fn ones(code: &[u64]) -> u16 {
    code.iter().map(|word| word.count_ones() as u16).sum()
}
