//! Generalised linear models from sums of whole numbers: linear, logistic and Poisson regression.
//!
//! Each peer adds up its rows ([`Rows::sums`]). The sums of all peers ([`Totals`]) give the next round or
//! the estimates ([`Model::next`]). The estimates have the same bits for every split of the rows. This is an
//! internal package without a stable interface: programs use `flyswarm`.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod family;
mod fit;
mod rows;
mod tails;
mod totals;
mod wide;

pub use family::{Family, MOST_COUNT, MOST_OFFSET, MOST_STEPS, MOST_WEIGHT, Round, first_weight};
pub use fit::{Coefficient, Column, Fit, Model, Next};
pub use rows::Rows;
pub use tails::{chi_square_p, factor, normal_p, student_p};
pub use totals::{SCALARS, Totals};

#[cfg(test)]
mod tests;
