//! The whole computation at one party: the stages, one after the other.

use super::chebyshev::{Graph, propagate};
use super::distances::{hamming, keys};
use super::input::{Inputs, cheats};
use super::lookup::lookup;
use super::nearest::nearest;
use super::newton::reciprocals;
use super::output::{Sealed, seal};
use super::primitives::in_thirds;
use super::round::Part;
use super::shuffle::{Edges, compact, densify, gather, transposed};
use super::{Bits, Context, Shared, Stage};
use crate::model::propagation::integer::{Plan, WEIGHT_BITS};

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What this party holds of the output of all points.
    Sealed(Sealed),
    /// The owners, by their place in the inputs, whose input is not made of bits.
    Cheats(Vec<usize>),
}

/// The program of one party, ready to be driven; compiled here, where it is optimised.
#[must_use]
pub fn boxed(context: Context, plan: Plan, inputs: Vec<Inputs>) -> Part<'static, Outcome> {
    Box::pin(run(context, plan, inputs))
}

/// The program of one party. `inputs` are all owners', in the order of their places; together they have as
/// many rows as the plan has points.
pub async fn run(mut context: Context, plan: Plan, inputs: Vec<Inputs>) -> Outcome {
    let context = &mut context;
    context.enter(Stage::Input);
    let cheats = cheats(context, &inputs, plan.classes()).await;
    if !cheats.is_empty() {
        return Outcome::Cheats(cheats);
    }
    let labels = Shared::concat(inputs.iter().map(|input| &input.labels));
    let codes = Shared::concat(inputs.iter().map(|input| &input.codes));
    drop(inputs);
    let keys = bits_of_distances(context, &plan, codes).await;
    context.enter(Stage::Nearest);
    let chosen = nearest(context, &keys, plan.points(), plan.k()).await;
    let edges = edges(context, &plan, keys, &chosen).await;
    let weights = weights(context, &plan, &edges).await;
    let (graph, degrees) = dense(context, &plan, edges, &weights).await;
    context.enter(Stage::Degrees);
    let reciprocals = reciprocals(context, &plan, &degrees).await;
    context.enter(Stage::Propagation);
    let scores = propagate(context, &plan, &graph, &reciprocals, &labels).await;
    drop(graph);
    context.enter(Stage::Output);
    Outcome::Sealed(seal(context, &plan, &scores).await)
}

/// Distances, as the planes of their keys.
pub async fn bits_of_distances(context: &mut Context, plan: &Plan, codes: Shared<u16>) -> Vec<Shared<Bits>> {
    context.enter(Stage::Distances);
    let distances = hamming(context, &codes, plan.settings().bits as usize).await;
    drop(codes);
    context.enter(Stage::Keys);
    keys(context, &distances, plan.points(), plan.key_bits() as usize).await
}

/// The edges of the points, by thirds of them.
pub async fn edges(
    context: &mut Context,
    plan: &Plan,
    keys: Vec<Shared<Bits>>,
    chosen: &Shared<Bits>,
) -> Vec<Edges> {
    context.enter(Stage::Compaction);
    let points = plan.points();
    // Lowest plane first, the mark above the key; a row of the mask lies across the matrix of choices.
    let mut planes = keys;
    planes.reverse();
    planes.push(chosen.map(|bits| transposed(bits, points)));
    let planes = &planes;
    in_thirds(context, points, 1, |mut context, rows| {
        Box::pin(async move {
            let rows = gather(planes, rows, points);
            compact(&mut context, rows, points, plan.key_bits(), plan.k()).await
        })
    })
    .await
}

/// The weights of all edges, row after row.
pub async fn weights(context: &mut Context, plan: &Plan, edges: &[Edges]) -> Shared<u64> {
    context.enter(Stage::Weights);
    let keys = Shared::concat(edges.iter().map(|edges| &edges.keys));
    let count = plan.key_bits() as usize;
    let width = super::bits::words(keys.len());
    let index = keys.map(|keys| super::bits::planes(keys, count)).chunks(width);
    lookup(context, &index, keys.len(), &plan.weights(), WEIGHT_BITS as usize + 1).await
}

/// The dense graph and the degrees.
pub async fn dense(
    context: &mut Context,
    plan: &Plan,
    edges: Vec<Edges>,
    weights: &Shared<u64>,
) -> (Graph, Shared<u64>) {
    context.enter(Stage::Dense);
    let (points, k) = (plan.points(), plan.k());
    // One third after the other: here is most of the memory, and it is a matter of a few rounds.
    let (mut rows, mut start) = (Shared::default(), 0);
    rows.reserve(points * points);
    for (turn, edges) in edges.into_iter().enumerate() {
        let weights = weights.slice(start..start + edges.places.len());
        start += edges.places.len();
        let mut context = context.split(turn);
        rows.append(&densify(&mut context, &edges, &weights, points, k).await);
    }
    Graph::new(rows, points)
}
