//! Balanced classes: each label counts as one divided by the number of labels of its class, and no party
//! learns these numbers. The result equals [`crate::propagation::integer::reference`] bit for bit.
//!
//! The number of labels of a class is the sum of a column, which is local. The factor of its scores is
//! looked up in a public table with an entry for each possible number of labels. The lookup runs in
//! parallel with the reciprocals of the degrees, so it adds no round. Scores are linear in labels, so the
//! scores of a class are multiplied at the end, with one product and one exact truncation.

use super::bits::{Adder, a2b};
use super::lookup::lookup;
use super::primitives::multiply;
use super::truncate::truncate;
use super::{Context, Shared};
use crate::propagation::integer::BALANCE_BITS;

/// Returns, for each class, the entry of `table` for its number of labels.
pub async fn weights(
    context: &mut Context,
    table: &[u64],
    labels: &Shared<u64>,
    classes: usize,
) -> Shared<u64> {
    let counts = labels.map(|share| {
        let column = |class: usize| share.iter().skip(class).step_by(classes);
        (0..classes).map(|class| column(class).fold(0u64, |sum, &y| sum.wrapping_add(y))).collect()
    });
    let bits = |largest: usize| largest.checked_ilog2().map_or(0, |bits| bits as usize + 1);
    let index = a2b(context, &counts, bits(table.len().saturating_sub(1)), Adder::Sklansky).await;
    let largest = table.iter().copied().max().unwrap_or(0);
    lookup(context, &index, classes, table, bits(largest as usize)).await
}

/// Returns scores of points x classes, each times the weight of its class.
pub async fn balanced(context: &mut Context, scores: &Shared<u64>, weights: &Shared<u64>) -> Shared<u64> {
    let points = scores.len() / weights.len().max(1);
    let weights = weights.map(|share| share.repeat(points));
    let product = multiply(context, scores, &weights).await;
    truncate(context, &product, BALANCE_BITS).await
}
