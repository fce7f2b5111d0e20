//! The whole computation at one party: the stages, one after the other.

use std::sync::Arc;

use super::accounts::Place;
use super::chebyshev::{Graph, propagate};
use super::distances::{added, hamming, keys};
use super::input::{Copies, Inputs, compare, integers};
use super::lookup::lookup;
use super::nearest::nearest;
use super::newton::reciprocals;
use super::output::{Sealed, seal};
use super::primitives::{LANES, Range, in_thirds, thirds};
use super::proofs::log::{Alongside, Log};
use super::round::{Part, Side, together};
use super::shuffle::{Edges, compact, densify, gather, hide, transposed};
use super::{Bits, Context, Shared, Stage};
use crate::propagation::integer::{Plan, Settings, WEIGHT_BITS};

/// End of the computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This party's shares of the output of all points.
    Sealed(Sealed),
    /// Owners that cheat, by their place in the inputs: their share does not match their announcement,
    /// or they have sent different announcements to different parties.
    Cheats(Vec<usize>),
    /// The party on this side has, or claims to have, a different announcement than the other two. It must
    /// name the owner. Nothing was computed.
    Alone(Side),
    /// Data from this side contradict this party's data: one of the three parties deviates.
    Doubt(Side),
    /// The check of a proof or of an opened share fails at this place: one of the three parties
    /// deviates.
    Fails(Place),
}

/// Returns the program of one party, ready to be driven. If it `proves`, it proves each of its messages
/// to the other two parties. The code is compiled in this package, because this package is optimised in
/// every profile.
#[must_use]
pub fn boxed(context: Context, plan: Plan, inputs: Vec<Inputs>, proves: bool) -> Part<'static, Outcome> {
    proven(context, proves, |context| Box::pin(run(context, plan, inputs)))
}

/// Returns a program, in parallel with the proofs of its messages if it `proves`.
pub(super) fn proven(
    context: Context,
    proves: bool,
    program: impl FnOnce(Context) -> Part<'static, Outcome>,
) -> Part<'static, Outcome> {
    if !proves {
        return program(context);
    }
    let log = Log::default();
    let (root, context) = (context.split(0), context.with_log(log.clone()));
    let proved = Alongside::new(root, log, program(context));
    Box::pin(async { proved.await.unwrap_or_else(Outcome::Fails) })
}

/// Compares the owners' announcements.
///
/// # Errors The end of the computation if the announcements are not the same at all parties.
pub(super) async fn compared(context: &Context, inputs: &[Inputs]) -> Result<(), Outcome> {
    match compare(context, inputs).await {
        Copies::Same => Ok(()),
        Copies::Differ(owners) => Err(Outcome::Cheats(owners)),
        Copies::Alone(side) => Err(Outcome::Alone(side)),
    }
}

/// Runs the program of one party. `inputs` are those of all owners, in the order of their places. Together
/// they have as many rows as the plan has points.
pub async fn run(mut context: Context, plan: Plan, inputs: Vec<Inputs>) -> Outcome {
    let context = &mut context;
    context.enter(Stage::Input);
    if let Err(outcome) = compared(context, &inputs).await {
        return outcome;
    }
    let (mut labels, mut codes, mut parts) = (Shared::default(), Shared::default(), Vec::new());
    for input in inputs {
        labels.append(&input.labels);
        codes.append(&input.codes);
        if !input.distances.own.is_empty() {
            parts.push(input.distances);
        }
    }
    let (codes, labels) = integers(context, codes, &labels, plan.classes()).await;
    let keys = match parts.is_empty() {
        true => bits_of_distances(context, &plan, codes).await,
        false => bits_of_parts(context, &plan, parts).await,
    };
    context.enter(Stage::Nearest);
    let chosen = nearest(context, &keys, plan.points(), plan.k()).await;
    let edges = match edges(context, &plan, keys, chosen).await {
        Ok(edges) => edges,
        Err(place) => return Outcome::Fails(place),
    };
    let weights = weights(context, &plan, &edges).await;
    let (graph, degrees) = dense(context, &plan, edges, &weights).await;
    context.enter(Stage::Degrees);
    let reciprocals = reciprocals(context, &plan, &degrees, &labels).await;
    context.enter(Stage::Propagation);
    let scores = propagate(context, &plan, &Arc::new(graph), &reciprocals, &labels).await;
    context.enter(Stage::Output);
    Outcome::Sealed(seal(context, &plan, &scores).await)
}

/// Computes distances, as the planes of their keys.
pub async fn bits_of_distances(context: &mut Context, plan: &Plan, codes: Shared<u16>) -> Vec<Shared<Bits>> {
    context.enter(Stage::Distances);
    let distances = hamming(context, codes, plan.settings().bits as usize).await;
    context.enter(Stage::Keys);
    keys(context, &distances, plan.points(), plan.key_bits() as usize).await
}

/// Computes the same from the owners' parts of the distances. The stage of distances has no rounds.
pub async fn bits_of_parts(context: &mut Context, plan: &Plan, parts: Vec<Shared<u16>>) -> Vec<Shared<Bits>> {
    context.enter(Stage::Distances);
    let distances = added(&parts, plan.points());
    drop(parts);
    context.enter(Stage::Keys);
    keys(context, &distances, plan.points(), plan.key_bits() as usize).await
}

/// Number of words of a matrix that are shuffled at once, unless the matrix is too large.
const AT_ONCE: usize = 1 << 20;
/// Largest number of steps for the shuffle of a matrix.
const MOST_STEPS: usize = 16;

/// Returns the rows of a square matrix that are shuffled at once, step after step. With these steps,
/// only a small part of a large matrix is in memory more than once.
#[must_use]
pub fn steps(points: usize) -> Vec<Range> {
    let count = (points * points).div_ceil(AT_ONCE).clamp(1, MOST_STEPS);
    let rows = points.div_ceil(count).max(1);
    (0..points).step_by(rows).map(|start| start..points.min(start + rows)).collect()
}

/// Returns the largest number of bytes that a party holds at once, including its inputs and the messages
/// of a round. It is an upper bound. It grows with the points.
#[must_use]
pub fn memory(points: usize, classes: usize, settings: &Settings) -> u64 {
    let (n, classes) = (points as u64, classes as u64);
    // Two shares of the codes, twice while they are put together.
    let input = 8 * n.next_multiple_of(LANES as u64) * u64::from(settings.bits) + 32 * n * classes;
    input.max(memory_after_input(points, classes, settings.k))
}

/// Returns the largest number of bytes that proofs add: statements that wait, and products of the
/// graph. The numbers were measured as the memory of `cargo bench --bench shares -- proofs`, less that
/// of `-- whole`.
#[must_use]
pub fn memory_of_proofs(points: usize, classes: usize, settings: &Settings) -> u64 {
    let per_point = 25_000 + 90 * classes as u64 * settings.steps as u64;
    60 * at_once(points as u64) + per_point * points as u64
}

/// Returns the same as [`memory`] if distances are shared. It also covers an owner that makes its parts: all
/// parts, its parcels, and the vectors of transfers or the ciphertexts of one other owner.
#[must_use]
pub fn memory_of_distances(points: usize, classes: usize, settings: &Settings) -> u64 {
    let (n, classes, bits) =
        (points.next_multiple_of(LANES) as u64, classes as u64, u64::from(settings.bits));
    let input = 10 * n * n + (2 * n + 6400) * bits + 32 * n * classes;
    input.max(memory_after_input(points, classes, settings.k))
}

/// Returns the number of words of the graph that are shuffled at once, or a larger number.
fn at_once(points: u64) -> u64 {
    let square = points * points;
    square.min(AT_ONCE as u64).max(square / MOST_STEPS as u64)
}

fn memory_after_input(points: usize, classes: u64, k: usize) -> u64 {
    let (n, k) = (points as u64, k as u64);
    let square = n * n;
    let words = at_once(n);
    // The dense graph, permutations of all rows, and the shuffled words.
    let graph = 20 * square + 26 * words + (16 * k + 300 * classes) * n;
    let weights = 4 * square + (800 * k + 100 * classes) * n;
    graph.max(weights)
}

/// Returns the edges of the points, by thirds of the rows of each step.
///
/// # Errors
/// The place, if the two others show different copies of a share that is opened.
pub async fn edges(
    context: &mut Context,
    plan: &Plan,
    keys: Vec<Shared<Bits>>,
    chosen: Shared<Bits>,
) -> Result<Vec<Edges>, Place> {
    context.enter(Stage::Compaction);
    let points = plan.points();
    // Lowest plane first, the mark above the key. A row of the mask runs across the matrix of choices.
    let mut planes = keys;
    planes.reverse();
    planes.push(chosen.map(|bits| transposed(bits, points)));
    drop(chosen);
    let mut hidden = Vec::new();
    for step in steps(points) {
        let planes = &planes;
        let found = in_thirds(context, step.len(), 1, |mut context, rows| {
            let rows = step.start + rows.start..step.start + rows.end;
            Box::pin(async move {
                let rows = gather(planes, rows, points);
                hide(&mut context, rows, points, plan.key_bits()).await
            })
        });
        hidden.extend(found.await);
    }
    drop(planes);
    compact(context, hidden, points, plan.key_bits(), plan.k()).await
}

/// Returns the weights of all edges, row after row.
pub async fn weights(context: &mut Context, plan: &Plan, edges: &[Edges]) -> Shared<u64> {
    context.enter(Stage::Weights);
    let keys = Shared::concat(edges.iter().map(|edges| &edges.keys));
    let count = plan.key_bits() as usize;
    let width = super::bits::words(keys.len());
    let index = keys.map(|keys| super::bits::planes(keys, count)).chunks(width);
    lookup(context, &index, keys.len(), &plan.weights(), WEIGHT_BITS as usize + 1).await
}

/// Returns the dense graph and the degrees.
pub async fn dense(
    context: &mut Context,
    plan: &Plan,
    edges: Vec<Edges>,
    weights: &Shared<u64>,
) -> (Graph, Shared<u64>) {
    context.enter(Stage::Dense);
    let (points, k) = (plan.points(), plan.k());
    let mut rows = Shared::default();
    rows.reserve(points * points);
    let (mut edges, mut start) = (edges.into_iter(), 0);
    for step in steps(points) {
        let parts = edges.by_ref().take(thirds(step.len(), 1).len()).enumerate().map(|(turn, edges)| {
            let weights = weights.slice(start..start + edges.places.len());
            start += edges.places.len();
            let mut context = context.split(turn);
            Box::pin(async move { densify(&mut context, edges, &weights, points, k).await }) as Part<'_, _>
        });
        let parts = together(parts.collect()).await;
        parts.iter().for_each(|part| rows.append(part));
    }
    Graph::new(rows, points)
}
