//! Label propagation over a graph of nearest neighbours (Scott, Yeo & Lampert, *Cross-client Label
//! Propagation*, TMLR 2023, Algorithm 1, lines 6 to 10 and 15).
//!
//! A point's labels z solve (I - alpha N) z = y, with N = D^-1/2 W D^-1/2 and W = B + B^T. Row i of B
//! holds the similarities cos(pi H / L)^power of i's k nearest points. y is 1 if a point has that label,
//! and 0 otherwise. [`integer`] is the computation that three parties do on shares ([`crate::shares`]).
//! Its tests compare it with the same computation in real numbers.

pub mod integer;
