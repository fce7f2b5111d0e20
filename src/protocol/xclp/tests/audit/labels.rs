//! Attacks on labels: who can tell which rows have one, and which.

use std::collections::BTreeSet;

use super::attacks::{Regression, Row, auc, average, dot, invert, propagation, quantiles};
use super::view::{CLASSES, RULE, Run, VIEWS, cosine_of};
use super::{at_most, exceeds, say};
use crate::model::propagation::graph::{Graph, WEIGHT_BITS};
use crate::model::propagation::{edges, label_counts};
use crate::protocol::xclp::{ParcelKind, dealer, shares};
use crate::session::Peer;

/// How well scores (points x classes) tell which entries are labels, whether a point has one, and, of points
/// that do, which.
fn figures(scores: &[Row], labels: &[Option<u16>]) -> [Vec<(f64, bool)>; 3] {
    let mut out = [vec![], vec![], vec![]];
    for (row, label) in scores.iter().zip(labels) {
        for (class, &score) in (0u16..).zip(row) {
            out[0].push((score, *label == Some(class)));
            if label.is_some() {
                out[2].push((score, *label == Some(class)));
            }
        }
        out[1].push((row.iter().sum(), label.is_some()));
    }
    out
}

/// What a propagator makes of its share.
type Attack = fn(&Run, &[Row]) -> Vec<Row>;

/// As far from chance as it is, whichever the direction.
fn told(scored: &[(f64, bool)]) -> f64 {
    let auc = auc(scored);
    auc.max(1.0 - auc)
}

fn times(matrix: &[Row], x: &[Row]) -> Vec<Row> {
    let column = |class: usize| -> Row { x.iter().map(|row| row[class]).collect() };
    let columns: Vec<Row> = (0..x[0].len()).map(column).collect();
    matrix.iter().map(|row| columns.iter().map(|column| dot(row, column)).collect()).collect()
}

#[test]
fn a_share_of_the_labels_tells_propagators_nothing() {
    let labels = VIEWS[0].labels();
    let attacks: [(&str, Attack); 3] = [
        ("its share as it is", |_, share| share.to_vec()),
        ("its share, averaged over neighbours", |run, share| times(&run.graph, share)),
        ("its share, made into scores", |run, share| {
            (0..20).fold(share.to_vec(), |z, _| {
                let mut next = times(&run.graph, &z);
                next.iter_mut()
                    .flatten()
                    .zip(share.iter().flatten())
                    .for_each(|(z, y)| *z = RULE.alpha * *z + y);
                next
            })
        }),
    ];
    for at in 0..2 {
        for (attack, run_attack) in attacks {
            let mut pooled = [vec![], vec![], vec![]];
            let mut sum: Vec<Row> = vec![vec![0.0; CLASSES]; labels.len()];
            for run in VIEWS.iter() {
                let me = run.roles.propagators[at];
                let share: Vec<i128> = run
                    .roles
                    .owners()
                    .flat_map(|owner| match at {
                        0 => shares::from_bytes(&run.parcels[&(me, owner, ParcelKind::Labels)]),
                        _ => shares::mask(&run.masks[&owner], run.roles.rows_of(owner) * CLASSES),
                    })
                    .collect();
                // In units of a label.
                let share: Vec<Row> = share
                    .chunks(CLASSES)
                    .map(|row| row.iter().map(|&x| x as f64 / 2f64.powi(40)).collect())
                    .collect();
                let scores = run_attack(run, &share);
                sum.iter_mut().flatten().zip(scores.iter().flatten()).for_each(|(sum, x)| *sum += x);
                pooled.iter_mut().zip(figures(&scores, &labels)).for_each(|(all, some)| all.extend(some));
            }
            let names = [
                "label or not, by point and class",
                "whether a point has a label",
                "which, of points that have",
            ];
            for ((name, each), added) in names.iter().zip(&pooled).zip(figures(&sum, &labels)) {
                let what = format!("P{} {attack}: {name}", at + 1);
                say(
                    "propagator",
                    &what,
                    told(each),
                    &format!("AUC below 0.55; ten views added up {:.3}", told(&added)),
                );
                at_most(&what, told(each), 0.55);
            }
        }
    }
}

#[test]
fn bags_of_distances_do_not_tell_custodians_which_rows_have_labels() {
    let views = &VIEWS[..];
    let first = &views[0];
    let mut scored = vec![];
    let mut by_class = vec![];
    for me in first.roles.owners() {
        let own: Vec<Vec<Vec<u16>>> = views.iter().map(|run| run.distances(me, me)).collect();
        let bag =
            |rows: Vec<Vec<u16>>| quantiles(&rows.into_iter().flatten().map(cosine_of).collect::<Row>(), 12);
        let inputs: Vec<Row> = (0..first.roles.rows_of(me))
            .map(|row| {
                let others = |all: &Vec<Vec<u16>>| {
                    let mut distances = all[row].clone();
                    distances.remove(row);
                    distances
                };
                bag(own.iter().map(others).collect())
            })
            .collect();
        let rows = &first.rows[&me];
        let known = |row: usize| -> Row {
            let label = rows.labels[row];
            let of = |class: u16| f64::from(u8::from(rows.data.labels()[row] == class));
            [f64::from(u8::from(label.is_some()))].into_iter().chain((0..CLASSES as u16).map(of)).collect()
        };
        let known: Vec<Row> = (0..inputs.len()).map(known).collect();
        let kept = first.roles.kept_by(me);
        for owner in first.roles.owners() {
            let others: Vec<Peer> =
                kept.iter().filter(|(one, _)| *one == owner).map(|(_, other)| *other).collect();
            if others.is_empty() {
                continue;
            }
            let blocks: Vec<_> = views
                .iter()
                .flat_map(|run| others.iter().map(|&other| run.block(me, owner, other)))
                .collect();
            let asked: Vec<Row> = (0..first.roles.rows_of(owner))
                .map(|row| bag(blocks.iter().map(|block| block[row].clone()).collect()))
                .collect();
            let found =
                Regression { width: Some(2.0), ridge: 1.0, apart: true }.learn(&inputs, &known, &asked);
            let truth = &first.rows[&owner];
            for (row, found) in found.iter().enumerate() {
                scored.push((found[0], truth.labels[row].is_some()));
                let class = truth.data.labels()[row];
                by_class.extend((0u16..).zip(&found[1..]).map(|(c, &score)| (score, c == class)));
            }
        }
    }
    say("custodian", "bags, ten views: whether a row has a label", told(&scored), "AUC below 0.55");
    say(
        "custodian",
        "bags, ten views: the class of a row, by its own rows' classes (no label)",
        told(&by_class),
        "not a label: see docs",
    );
    at_most("whether a row has a label", told(&scored), 0.55);
}

/// N of an owner's own rows alone.
fn own_graph(run: &Run, me: Peer) -> Vec<Row> {
    let codes = run.codes(me);
    let graph = Graph::new(codes.rows(), codes.bits(), RULE.power, &edges(&codes, RULE.k));
    let mut out = vec![vec![0.0; codes.rows()]; codes.rows()];
    for (i, row) in out.iter_mut().enumerate() {
        graph.row(i).iter().for_each(|&(j, w)| row[j as usize] = w as f64 / (1u64 << WEIGHT_BITS) as f64);
    }
    out
}

fn label_rows(labels: &[Option<u16>]) -> Vec<Row> {
    let entry = |label: Option<u16>, class: usize| f64::from(u8::from(label == Some(class as u16)));
    labels.iter().map(|&label| (0..CLASSES).map(|class| entry(label, class)).collect()).collect()
}

#[test]
fn what_owners_see_beside_their_scores_tells_no_more_of_others_labels() {
    let run = &VIEWS[0];
    let labels = run.labels();
    let names = [
        "scores",
        "scores less what its own labels give",
        "the same, weighed by the smallest distances",
        "scores, weighed so",
    ];
    let mut all: [Vec<(f64, bool)>; 4] = Default::default();
    for me in run.roles.owners() {
        let range = run.range(me);
        let z: Vec<Row> = run.outcomes[&me].scores.chunks(CLASSES).map(<[f64]>::to_vec).collect();
        let own_labels = label_rows(&run.rows[&me].labels);
        let given = times(&propagation(&own_graph(run, me), RULE.alpha), &own_labels);
        let lists: Vec<Vec<u16>> = run
            .roles
            .custodians_of(me)
            .iter()
            .map(|&custodian| dealer::from_bytes(&run.parcels[&(me, custodian, ParcelKind::Smallest)]))
            .collect();
        let limits = run.limits(run.roles.custodians_of(me)[0], me);
        for (row, z) in z.iter().enumerate() {
            let near: f64 = lists
                .iter()
                .flat_map(|list| &list[row * RULE.k..][..RULE.k])
                .filter(|distance| **distance < limits[row])
                .map(|&distance| cosine_of(distance))
                .sum();
            let neighbours: BTreeSet<usize> = (0..labels.len())
                .filter(|i| !range.contains(i) && run.graph[range.start + row][*i] > 0.0)
                .collect();
            for (class, z) in z.iter().enumerate() {
                let truth = neighbours.iter().any(|&i| labels[i] == Some(class as u16));
                let rest = z - given[row][class];
                for (all, score) in all.iter_mut().zip([*z, rest, rest * near, z * near]) {
                    all.push((score, truth));
                }
            }
        }
    }
    let found = all.map(|scored| told(&scored));
    let alone = found[0].max(found[1]);
    for (name, found) in names.iter().zip(found) {
        say(
            "owner",
            &format!("a neighbour has a label of a class, from {name}"),
            found,
            &format!("from scores alone {alone:.3} + 0.02"),
        );
        at_most(name, found, alone + 0.02);
    }
}

#[test]
fn a_naive_propagator_with_scores_and_naive_owners_with_iterates_find_the_labels() {
    let run = &VIEWS[0];
    let labels = run.labels();
    let y = label_rows(&labels);
    assert_eq!(label_counts(&labels, CLASSES), run.outcomes[&Peer(0)].counts);
    let solved = propagation(&run.graph, RULE.alpha);
    let (mut with_scores, mut with_iterates) = (vec![], vec![]);
    let step = times(&run.graph, &y);
    for me in run.roles.owners() {
        let range = run.range(me);
        let others: Vec<usize> = (0..labels.len()).filter(|i| !range.contains(i)).collect();
        // A propagator knows the graph; with rows it also has their scores, and its own labels to take away.
        let own: Vec<Row> = run.outcomes[&me].scores.chunks(CLASSES).map(<[f64]>::to_vec).collect();
        let known = |i: usize, class: usize| range.clone().map(|j| solved[i][j] * y[j][class]).sum::<f64>();
        let rest: Vec<Row> = range
            .clone()
            .zip(&own)
            .map(|(i, z)| z.iter().enumerate().map(|(class, z)| z - known(i, class)).collect())
            .collect();
        let matrix: Vec<Row> =
            range.clone().map(|i| others.iter().map(|&j| solved[i][j]).collect()).collect();
        let found = invert(&matrix, &rest, 1e-6);
        with_scores.push(auc(&entries(&found, &others, &y)));
        // An owner that knows its rows of the graph and its iterates f(t + 1) = alpha N f(t) + y, from f(1) =
        // y on.
        let boundary: Vec<usize> =
            others.iter().copied().filter(|&j| range.clone().any(|i| run.graph[i][j] > 0.0)).collect();
        let matrix: Vec<Row> =
            range.clone().map(|i| boundary.iter().map(|&j| run.graph[i][j]).collect()).collect();
        let rest: Vec<Row> = range
            .clone()
            .map(|i| {
                let mine = |class: usize| range.clone().map(|j| run.graph[i][j] * y[j][class]).sum::<f64>();
                (0..CLASSES).map(|class| step[i][class] - mine(class)).collect()
            })
            .collect();
        let found = invert(&matrix, &rest, 1e-6);
        with_iterates.push(auc(&entries(&found, &boundary, &y)));
    }
    let [scores, iterates] = [with_scores, with_iterates].map(|each| average(each.into_iter()));
    say(
        "naive: propagator",
        "rows of its own: others' labels from its scores, least squares",
        scores,
        "AUC, chance 0.5",
    );
    say("naive: owner", "edges and iterates: neighbours' labels, least squares", iterates, "AUC, chance 0.5");
    exceeds("a propagator with scores", scores, 0.9);
    exceeds("an owner with iterates", iterates, 0.9);
}

fn entries(found: &[Row], points: &[usize], y: &[Row]) -> Vec<(f64, bool)> {
    found
        .iter()
        .zip(points)
        .flat_map(|(row, &i)| row.iter().zip(&y[i]).map(|(&x, &y)| (x, y > 0.5)))
        .collect()
}
