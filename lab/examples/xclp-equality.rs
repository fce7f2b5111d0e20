//! Checks that three computing members get the result of the integer reference, bit for bit, on real rows:
//! `cargo run --package flyswarm-lab --example xclp-equality [DRAWS] [ROWS]` (default: 30 draws of 250 rows
//! of each of three sets). In this file a computing member is called a party.
//!
//! Each draw has different rows, planes, labels, owners and settings. Every second draw balances the classes.
//! The three parties run the whole program of a session, from the owners' parcels to the owners' output. The
//! labels and coarse scores of all points are compared. Then the parties run the stages one by one, and
//! degrees, reciprocals, roots and scores are compared, too. At the first difference the program exits with
//! 1. Missing sets are named and skipped.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use flyswarm_data::digits::digits;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_data::{Dataset, Expected, deal, load};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::{Output, Reference};
use flyswarm_mpc::propagation::integer::{Plan, Settings, enough_steps};
use flyswarm_mpc::shares::chebyshev::propagate;
use flyswarm_mpc::shares::input::{Announced, Inputs, integers, parcels, unpack};
use flyswarm_mpc::shares::memory::in_memory;
use flyswarm_mpc::shares::nearest::nearest;
use flyswarm_mpc::shares::newton::reciprocals;
use flyswarm_mpc::shares::output::unseal;
use flyswarm_mpc::shares::program::{Outcome, bits_of_distances, dense, edges, run, weights};
use flyswarm_mpc::shares::{Context, Shared, Stage};
use flyswarm_sealed_sum::crypto::stream::Stream;
use zeroize::Zeroizing;

const SETS: [&str; 3] = ["digits", "optdigits", "segment"];

/// One draw: the points of all owners, and each party's shares of them.
struct Draw {
    plan: Plan,
    owners: Vec<usize>,
    codes: Codes,
    labels: Vec<Option<u16>>,
    held: [Vec<Inputs>; 3],
}

impl Draw {
    fn new(data: &Dataset, rows: usize, number: u8) -> Self {
        let mut stream = Stream::new(&[number; 32], "draw", &[]);
        let mut pick = |choices: &[usize]| choices[stream.below(choices.len() as u32) as usize];
        let alpha = [0.5, 0.9, 0.99, 0.999][pick(&[0, 1, 2, 2, 3])];
        let settings = Settings {
            k: pick(&[1, 4, 10, 10, 25]),
            bits: pick(&[256, 1024, 4096]) as u32,
            alpha,
            steps: enough_steps(alpha),
            power: pick(&[1, 1, 3]) as u8,
            balance: !number.is_multiple_of(2),
        };
        // Each class has `each` labels; in a third of the draws, the first class has a hundred times as
        // many.
        let (each, more) = (pick(&[1, 5, 20]), pick(&[1, 1, 100]));
        let mut order: Vec<usize> = (0..data.rows()).collect();
        deal::shuffle(&mut order, &mut stream);
        order.truncate(rows);
        let data = data.subset(&order);
        let scaler = Scaler::fit(&Scaling::Standard, &data).expect("rows");
        let bits = settings.bits as usize;
        let codes = Codes::of(&scaler.transform(&data), &[number; 32], bits).expect("codes");
        let classes = data.classes().len();
        let mut left = vec![each; classes];
        left[0] *= more;
        let labels: Vec<_> = data
            .labels()
            .iter()
            .map(|&label| {
                let left = &mut left[usize::from(label)];
                *left = left.checked_sub(1)?;
                Some(label)
            })
            .collect();
        // Two to six owners, one of them with one row.
        let mut owners = vec![1];
        for _ in 0..stream.below(5) {
            let taken: usize = owners.iter().sum();
            owners.push(stream.below((data.rows() - taken) as u32 / 2) as usize);
        }
        owners.push(data.rows() - owners.iter().sum::<usize>());
        let plan = Plan::new(data.rows(), classes, settings).expect("fits");
        let (mut held, mut start) = ([const { Vec::new() }; 3], 0);
        for (place, &rows) in owners.iter().enumerate() {
            let own: Vec<usize> = (start..start + rows).collect();
            let seeds = [0, 100, 200].map(|seed| Zeroizing::new([seed + place as u8; 32]));
            let labels = &labels[start..start + rows];
            let parcels = parcels(&codes.select(&own), labels, classes, place, &seeds);
            let said = Announced::of([place as u8; 32], &parcels);
            for (number, (held, parcel)) in held.iter_mut().zip(&parcels).enumerate() {
                held.push(unpack(parcel, number, &said, rows, bits, classes).expect("a parcel"));
            }
            start += rows;
        }
        Self { plan, owners, codes, labels, held }
    }

    /// Returns the owners' output of the whole program.
    fn output(&self, seed: u8) -> Option<Output> {
        let ended = in_memory(seed, |context: Context| {
            let inputs = self.held[context.role()].clone();
            Box::pin(run(context, self.plan, inputs))
        });
        let (mut output, mut start) = (Output::default(), 0);
        for &rows in &self.owners {
            let part = |party: usize| match &ended.results[party] {
                Outcome::Sealed(sealed) => sealed.for_owner(party, start..start + rows),
                _ => Vec::new(),
            };
            let own = unseal(rows, self.plan.classes(), &part(0), &part(1))?;
            output.labels.extend(own.labels);
            output.coarse.extend(own.coarse);
            start += rows;
        }
        Some(output)
    }

    /// Returns degrees, reciprocals, roots and scores, stage by stage.
    fn values(&self, seed: u8) -> [Vec<u64>; 4] {
        let plan = &self.plan;
        let ended = in_memory(seed, |mut context: Context| {
            let inputs = self.held[context.role()].clone();
            Box::pin(async move {
                let context = &mut context;
                let codes = Shared::concat(inputs.iter().map(|input| &input.codes));
                let labels = Shared::concat(inputs.iter().map(|input| &input.labels));
                let (codes, labels) = integers(context, codes, &labels, plan.classes()).await;
                let keys = bits_of_distances(context, plan, codes).await;
                context.enter(Stage::Nearest);
                let chosen = nearest(context, &keys, plan.points(), plan.k()).await;
                let edges = edges(context, plan, keys, chosen).await.expect("equal copies");
                let weights = weights(context, plan, &edges).await;
                let (graph, degrees) = dense(context, plan, edges, &weights).await;
                context.enter(Stage::Degrees);
                let found = reciprocals(context, plan, &degrees, &labels).await;
                context.enter(Stage::Propagation);
                let scores = propagate(context, plan, &Arc::new(graph), &found, &labels).await;
                [degrees, found.inverses, found.roots, scores]
            })
        });
        // A party's two shares, and the share of the party before it.
        let [zero, _, two] = &ended.results;
        std::array::from_fn(|at| {
            let held = zero[at].own.iter().zip(&zero[at].next).zip(&two[at].own);
            held.map(|((&a, &b), &c)| a.wrapping_add(b).wrapping_add(c)).collect()
        })
    }

    /// Returns the name of the first difference from the reference, if there is one.
    fn difference(&self, seed: u8) -> Option<&'static str> {
        let reference = Reference::new(&self.plan, &self.codes, &self.labels);
        if self.output(seed).as_ref() != Some(&reference.output) {
            return Some("labels or coarse scores");
        }
        let scores: Vec<u64> = reference.scores.iter().map(|&score| score as u64).collect();
        let expected = [reference.degrees, reference.inverses, reference.roots, scores];
        let names = ["degrees", "reciprocals", "roots", "scores"];
        let found = self.values(seed);
        names.into_iter().zip(found.iter().zip(&expected)).find(|(_, (a, b))| a != b).map(|(name, _)| name)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let draws = arguments.next().unwrap_or(30).min(255) as u8;
    let rows = arguments.next().unwrap_or(250);
    for set in SETS {
        let path = format!("../shared/data/tabular/{set}.csv.gz");
        let data = match Path::new(&path) {
            _ if set == "digits" => digits(),
            path if path.exists() => load(path, &Expected::default()).expect("a set"),
            path => {
                println!("{set}: skipped, because {} is missing", path.display());
                continue;
            }
        };
        let (mut points, mut scores) = (0, 0);
        for number in 0..draws {
            let draw = Draw::new(&data, rows, number);
            if let Some(what) = draw.difference(number) {
                println!(
                    "{set}, draw {number}, {:?}: {what} differ from the reference",
                    draw.plan.settings()
                );
                return ExitCode::FAILURE;
            }
            points += draw.plan.points();
            scores += draw.plan.points() * draw.plan.classes();
        }
        println!(
            "{set}: {draws} draws, {points} points, {scores} scores, all equal to the reference bit for bit"
        );
    }
    ExitCode::SUCCESS
}
