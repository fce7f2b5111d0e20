//! Label propagation over a graph of nearest neighbours (Scott, Yeo & Lampert, *Cross-client Label
//! Propagation*, TMLR 2023, Algorithm 1, lines 6 to 10 and 15).
//!
//! A point's labels z solve (I - alpha N) z = y: N = D^-1/2 W D^-1/2, W = B + B^T, row i of B holds the
//! similarities cos(pi H / L)^power of i's k nearest points, and y is 1 where a point has that label, else 0.
//! [`integer`] is what three parties compute on shares ([`crate::shares`]); its tests hold it against the
//! same in real numbers.

pub mod integer;
