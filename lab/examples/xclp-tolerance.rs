//! Checks that labels are those of the exact solve: `cargo run --package flyswarm-lab --example
//! xclp-tolerance [ROWS] [DRAWS] [balance]` (default: 1,500 rows, and ten draws of labels and planes for
//! each set, which takes ten minutes).
//!
//! A point's *margin* is the difference of its two largest exact scores times sqrt(d), as a share of the
//! largest score of all. A label may differ if the margin is within the plan's tolerance for the largest
//! degree. The program prints the tolerance, the largest error of a score, the number of points within the
//! tolerance, and the number of other points whose label differs, which must be 0. Then it does the same for
//! a made-up graph with ten hubs. Missing sets are named and skipped.
//!
//! With `balance`, classes are balanced and their labels are as uneven as possible. Every class has one
//! label, except the first, which has up to 1,000. In the graph with hubs, one class has one label, and the
//! other class has all other labels.

#[allow(dead_code, reason = "the tests of the integers use all of it")]
#[path = "../../crates/mpc/src/propagation/integer/tests/graph.rs"]
mod graph;

use std::path::Path;

use flyswarm_data::digits::digits;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_data::{Dataset, Expected, deal, load};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::Reference;
use flyswarm_mpc::propagation::integer::{Plan, Refusal, Settings, VALUE_BITS, WEIGHT_BITS, enough_steps};
use flyswarm_sealed_sum::crypto::stream::Stream;
use graph::{Edge, Graph};
use rayon::prelude::*;

const BITS: usize = 4096;
/// Number of labels of each class.
const LABELS: usize = 5;

#[derive(Default)]
struct Found {
    points: usize,
    within: usize,
    wrong: usize,
    error: f64,
    tolerance: f64,
}

/// Number of labels of the first class if classes are balanced. The other classes have one each.
const MOST: usize = 1000;

fn draw(data: &Dataset, seed: u8, balance: bool) -> Found {
    let classes = data.classes().len();
    let scaler = Scaler::fit(&Scaling::Standard, data).expect("rows");
    let codes = Codes::of(&scaler.transform(data), &[seed; 32], BITS).expect("codes");
    let mut order: Vec<usize> = (0..data.rows()).collect();
    deal::shuffle(&mut order, &mut Stream::new(&[seed; 32], "labels", &[]));
    let (mut labels, mut left) = (vec![None; data.rows()], vec![if balance { 1 } else { LABELS }; classes]);
    if balance {
        left[0] = MOST;
    }
    for row in order {
        let label = data.labels()[row];
        if left[usize::from(label)] > 0 {
            left[usize::from(label)] -= 1;
            labels[row] = Some(label);
        }
    }
    let settings = Settings { k: 10, bits: BITS as u32, alpha: 0.99, steps: 60, power: 1, balance };
    let plan = Plan::new(data.rows(), classes, settings).expect("fits");
    compared(&plan, &codes.distances(&codes), &labels)
}

/// Makes ten points that are near to all of the 2,500 points, and runs as many steps as alpha needs. The
/// first class has a label at every point, or two classes share the labels at every 29th point. If classes
/// are balanced, the second class has one of these labels.
fn hubs(alpha: f64, all: bool, balance: bool) -> Result<Found, Refusal> {
    const POINTS: usize = 2500;
    let settings =
        Settings { k: 10, bits: BITS as u32, alpha, steps: enough_steps(alpha), power: 1, balance };
    let plan = Plan::new(POINTS, 2, settings)?;
    let mut stream = Stream::new(&[7; 32], "hubs", &[]);
    let mut distances = vec![0; POINTS * POINTS];
    for i in 0..POINTS {
        for j in 0..i {
            let h = if j < 10 { stream.below(200) } else { 1200 + stream.below(800) } as u16;
            (distances[i * POINTS + j], distances[j * POINTS + i]) = (h, h);
        }
    }
    let label = |i: usize| match i {
        _ if balance => (all || i.is_multiple_of(29)).then_some(u16::from(i == 29 * 40)),
        _ if all => Some(0),
        _ => i.is_multiple_of(29).then_some((i / 29 % 2) as u16),
    };
    Ok(compared(&plan, &distances, &(0..POINTS).map(label).collect::<Vec<_>>()))
}

fn compared(plan: &Plan, distances: &[u16], labels: &[Option<u16>]) -> Found {
    let (points, classes) = (plan.points(), plan.classes());
    let reference = Reference::from_distances(plan, distances, labels);
    let weighted = reference.neighbours.iter().zip(&reference.weights).enumerate();
    let edges: Vec<Edge> = weighted
        .filter(|(_, (_, weight))| **weight > 0)
        .map(|(at, (&to, _))| {
            let from = at / plan.k();
            Edge { from: from as u32, to: to as u32, distance: distances[from * points + to] }
        })
        .collect();
    let graph = Graph::new(points, BITS, 1, &edges);
    let exact: Vec<Vec<f64>> = (0..classes)
        .into_par_iter()
        .map(|class| {
            let given = |label: &Option<u16>| f64::from(u8::from(*label == Some(class as u16)));
            let mut y: Vec<f64> = labels.iter().map(given).collect();
            if plan.settings().balance {
                let weight = points.isqrt() as f64 / y.iter().sum::<f64>().max(1.0);
                y.iter_mut().for_each(|y| *y *= weight);
            }
            graph.solve(&y, plan.settings().alpha)
        })
        .collect();
    let largest = exact.iter().flatten().copied().fold(0.0, f64::max);
    let degree = reference.degrees.iter().copied().max().unwrap_or(0);
    let mut found = Found { points, tolerance: plan.tolerance(degree), ..Found::default() };
    for i in (0..points).filter(|&i| reference.degrees[i] > 0) {
        let root = (reference.degrees[i] as f64 / f64::from(1u32 << WEIGHT_BITS)).sqrt();
        for (class, scores) in exact.iter().enumerate() {
            let score = reference.scores[i * classes + class] as f64 / f64::from(1u32 << VALUE_BITS) * root;
            found.error = found.error.max((score - scores[i]).abs() / largest);
        }
        let best =
            (1..classes).fold(0, |best, class| if exact[class][i] > exact[best][i] { class } else { best });
        let others = (0..classes).filter(|&class| class != best).map(|class| exact[class][i]);
        let close = exact[best][i] - others.fold(0.0, f64::max) <= found.tolerance * largest;
        found.within += usize::from(close);
        found.wrong += usize::from(!close && reference.output.labels[i] != Some(best as u16));
    }
    found
}

impl Found {
    fn print(&self, what: &str) {
        println!(
            "{what}: tolerance {:.1e}, largest error {:.1e}; {} of {} points within it ({:.2} %); {} \
             of the others have another label",
            self.tolerance,
            self.error,
            self.within,
            self.points,
            100.0 * self.within as f64 / self.points as f64,
            self.wrong
        );
        assert_eq!(self.wrong, 0, "{what}");
    }
}

fn main() {
    let balance = std::env::args().any(|argument| argument == "balance");
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (rows, draws) = (arguments.next().unwrap_or(1500), arguments.next().unwrap_or(10));
    for set in ["digits", "optdigits", "segment"] {
        let path = format!("../shared/data/tabular/{set}.csv.gz");
        let all = match Path::new(&path) {
            _ if set == "digits" => digits(),
            path if path.exists() => load(path, &Expected::default()).expect("a set"),
            path => {
                println!("{set}: skipped, because {} is missing", path.display());
                continue;
            }
        };
        let mut order: Vec<usize> = (0..all.rows()).collect();
        deal::shuffle(&mut order, &mut Stream::new(set.as_bytes(), "rows", &[]));
        order.truncate(rows);
        let data = all.subset(&order);
        let mut sum = Found::default();
        for seed in 0..draws {
            let found = draw(&data, seed as u8, balance);
            sum.points += found.points;
            sum.within += found.within;
            sum.wrong += found.wrong;
            sum.error = sum.error.max(found.error);
            sum.tolerance = sum.tolerance.max(found.tolerance);
        }
        sum.print(&format!("{set}, {draws} draws of {} rows", data.rows()));
    }
    for (alpha, all) in [(0.99, false), (0.99, true), (0.999, false), (0.999, true)] {
        let labels = if all { "a label at every point" } else { "87 labels" };
        let what = format!("ten hubs among 2,500, alpha {alpha}, {labels}");
        match hubs(alpha, all, balance) {
            Ok(found) => found.print(&what),
            Err(refusal) => println!("{what}: refused: {refusal}"),
        }
    }
}
