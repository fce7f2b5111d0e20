//! Standard Gaussians that all peers draw alike from a stream, by Box and Muller's rule. Two words a and b of
//! 8 bytes (little-endian) give a pair of entries:
//!
//! ```text
//! u = ((a >> 11) + 1) / 2^53     v = (b >> 11) / 2^53     r = sqrt(-2 ln u)
//! entry 2i = r cos(2 pi v)       entry 2i + 1 = r sin(2 pi v)
//! ```
//!
//! All numbers are binary64, computed with the crate `libm`. Row l of a matrix of `columns` columns begins at
//! byte 16 ceil(columns / 2) l. The last pair of a row of odd length leaves one entry unused.

use std::f64::consts::TAU;

use flyswarm_sealed_sum::crypto::stream::Stream;

/// Rows of Gaussians, from any row on.
pub(super) struct Gaussians {
    stream: Stream,
    bytes: Vec<u8>,
    columns: usize,
}

impl Gaussians {
    /// Starts at row `first` of `Stream(seed, label, "")`.
    pub(super) fn new(seed: &[u8], label: &str, columns: usize, first: usize) -> Self {
        let bytes = vec![0; columns.div_ceil(2) * 16];
        let mut stream = Stream::new(seed, label, &[]);
        stream.seek((first * bytes.len()) as u64);
        Self { stream, bytes, columns }
    }

    /// Passes every entry of the next row to `put`, with its column.
    pub(super) fn row(&mut self, mut put: impl FnMut(usize, f64)) {
        self.stream.fill(&mut self.bytes);
        let (words, _) = self.bytes.as_chunks::<8>();
        for (pair, columns) in words.chunks_exact(2).zip((0..self.columns).step_by(2)) {
            let [u, v] = [pair[0], pair[1]].map(|word| (u64::from_le_bytes(word) >> 11) as f64);
            let radius = (-2.0 * libm::log((u + 1.0) * 2f64.powi(-53))).sqrt();
            let angle = TAU * (v * 2f64.powi(-53));
            put(columns, radius * libm::cos(angle));
            if columns + 1 < self.columns {
                put(columns + 1, radius * libm::sin(angle));
            }
        }
    }
}
