//! Statements of a shuffle: for each message of each hop, what its sender must prove.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::super::shuffle::Shuffled;
use super::super::{Ring, Shared};
use super::extension::{Extension, draw_all};
use super::gates::{Factor, Gates, MakeSum, Sum};
use super::log::{Log, Proved, Prover};
use flyswarm_sealed_sum::crypto::stream::Stream;

/// Shares that the log keeps until a proof has used them. Then they are wiped.
pub type Kept<T> = Arc<Zeroizing<Shared<T>>>;

/// Function that returns the coins of the words before a hop, from those of the words after it.
pub type Permute = Arc<dyn Fn(&[u64]) -> Vec<u64> + Send + Sync>;

/// Function that draws the words of a mask again.
pub type Again<T> = Box<dyn FnOnce() -> Vec<T> + Send>;

/// One hop of a shuffle, as one party knows it: x are the party's shares before the hop, without words that
/// are known to be 0, y those after the hop.
pub enum Hop<T: Ring> {
    /// Role k of the hop's key.
    First {
        /// Shares before the hop.
        x: Kept<T>,
        /// Mask of the message of role k - 1.
        r1: Again<T>,
        /// Mask of the message of role k.
        r2: Again<T>,
        /// The permutation.
        permute: Permute,
    },
    /// Role k - 1.
    Last {
        /// Shares before the hop.
        x: Kept<T>,
        /// Shares after it.
        y: Kept<T>,
        /// Mask of the message of role k.
        r2: Again<T>,
        /// The permutation.
        permute: Permute,
    },
    /// Role k + 1, which gets both messages.
    Taken {
        /// Shares before the hop.
        x: Kept<T>,
        /// Shares after it.
        y: Kept<T>,
    },
}

impl<T: Ring> std::fmt::Debug for Hop<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hop(<redacted>)")
    }
}

/// Adds the statements of one hop of a shuffle of `words` words. Let rho be coins of the words after the
/// hop, and sigma the same coins at the places before the hop. Role k proves sigma x_(k+1) = rho y_(k+1) +
/// rho r_2 to role k - 1, which knows sigma and r_2, and to role k + 1, which knows x_(k+1) and y_(k+1).
/// Role k - 1 proves sigma x_(k-1) = rho y_(k-1) + (rho r_1 - sigma x_k) to role k + 1, which knows
/// x_(k-1) and y_(k-1), and to role k.
pub fn permuted<T: Shuffled>(log: &Log, words: usize, hop: Hop<T>) {
    type R<T> = <<T as Shuffled>::Kind as Proved>::Extension;
    fn plain<T: Ring>(words: &[T]) -> Zeroizing<Vec<u64>> {
        Zeroizing::new(words.iter().map(|word| word.bits()).collect())
    }
    let (Hop::First { x, .. } | Hop::Last { x, .. } | Hop::Taken { x, .. }) = &hop;
    let len = x.len();
    let coins = move |stream: &mut Stream| -> Vec<u64> {
        let mut coins = draw_all(stream, words);
        coins.iter_mut().for_each(|coin| *coin &= R::<T>::MASK);
        coins
    };
    let sum = |coins: &[u64], words: &[T]| {
        let mut sum = R::<T>::zero();
        R::<T>::add_sum(&mut sum, coins, &plain(words));
        sum
    };
    let add = |prover, make: MakeSum<R<T>>| log.add_sum::<T::Kind>(prover, len, make);
    match hop {
        Hop::First { x, r1, r2, permute } => {
            let (words, of_mine) = (Arc::clone(&x), Arc::clone(&permute));
            add(
                Prover::Me,
                Box::new(move |stream| {
                    let rho = coins(stream);
                    let claim = sum(&rho, &r2());
                    Sum { a: Factor::Coins(of_mine(&rho)), b: Factor::Words(plain(&words.next)), claim }
                }),
            );
            add(
                Prover::Before,
                Box::new(move |stream| {
                    let rho = coins(stream);
                    let sigma = permute(&rho);
                    let claim = sum(&rho, &r1()).minus(sum(&sigma, &x.own));
                    Sum { a: Factor::None, b: Factor::Coins(sigma), claim }
                }),
            );
        }
        Hop::Last { x, y, r2, permute } => {
            let of_after = Arc::clone(&permute);
            add(
                Prover::After,
                Box::new(move |stream| {
                    let rho = coins(stream);
                    let claim = sum(&rho, &r2());
                    Sum { a: Factor::Coins(of_after(&rho)), b: Factor::None, claim }
                }),
            );
            add(
                Prover::Me,
                Box::new(move |stream| {
                    let rho = coins(stream);
                    let claim = sum(&rho, &y.own);
                    Sum { a: Factor::Words(plain(&x.own)), b: Factor::Coins(permute(&rho)), claim }
                }),
            );
        }
        Hop::Taken { x, y } => {
            let (before, after) = (Arc::clone(&x), Arc::clone(&y));
            add(
                Prover::Before,
                Box::new(move |stream| {
                    let claim = sum(&coins(stream), &after.own);
                    Sum { a: Factor::None, b: Factor::Words(plain(&before.own)), claim }
                }),
            );
            add(
                Prover::After,
                Box::new(move |stream| {
                    let claim = sum(&coins(stream), &y.next);
                    Sum { a: Factor::Words(plain(&x.next)), b: Factor::None, claim }
                }),
            );
        }
    }
}
