//! Compares FedAvg+XCLP with other ways to use rows without labels, on Fashion-MNIST (Scott, Yeo &
//! Lampert, *Cross-client Label Propagation*, TMLR 2023, Algorithm 2), in one process.
//!
//! ```sh
//! cargo run --package flyswarm-lab --example pseudo_labels -- FASHION OUT METHOD [SPLIT] [SEED] \
//!     [ROUNDS] [RATE]
//! ```
//!
//! FASHION is a folder with the four files of Fashion-MNIST. METHOD is one of these:
//!
//! - `labels`: labels only;
//! - `network`: the network's own predictions;
//! - `alone`: label propagation at each peer alone;
//! - `xclp-1` or `xclp-10`: label propagation over the rows of all peers, repeated in every round or in
//!   every tenth;
//! - `deal`: prints the rows of each peer and the places of those with labels. It trains nothing.
//!
//! SPLIT is `iid` or `shards` (two shards of the rows sorted by class for each peer). 10 peers have 300
//! rows each; 100 of the 3,000 rows have labels.
//!
//! All methods begin with ROUNDS (40) rounds on the labelled rows alone. OUT keeps these weights, and the
//! next method reuses them. ROUNDS more rounds follow. A round has 5 passes in batches of 32, with
//! momentum 0.9, weight decay 2e-4 and a cosine rate from RATE (0.05) in each half. All peers have the
//! same weight. Propagation is the integer version that peers compute on shares, with codes of 4,096 bits,
//! k = 10, alpha = 0.99 and cubed cosines. Scores are those that the owners of the rows get, in 64ths,
//! divided by the number of labels of the class.
//!
//! After each round the weights are written, and a stopped run continues from there. The result is
//! `OUT/SPLIT-SEED-ROUNDS-METHOD.json`, with another rate `OUT/SPLIT-SEED-ROUNDS-RATE-METHOD.json`. If it
//! exists already, it is printed. If a peer makes a weight that a session refuses (beyond 16, or not a
//! number), the run ends with this round, without an accuracy. The result then names the round and the
//! peers.

mod images;

use std::error::Error;
use std::path::{Path, PathBuf};

use cpu_time::ProcessTime;
use flyswarm_data::{Dataset, deal};
use flyswarm_learn::learner::{
    Architecture, Network, PseudoLabels, Schedule, Settings, Tape, class_weights, shares,
};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::{Plan, Settings as Graph, reference::Reference};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::files::{create_folders, write_whole};
use rayon::prelude::*;
use serde_json::{Value, json};

const PEERS: usize = 10;
const EACH: usize = 300;
const LABELLED: usize = 100;
const CLASSES: usize = 10;
const PIXELS: usize = 784;
/// Largest weight of a session: `protocol-spec.md`, section 15f.
const MOST: f32 = 16.0;
/// The learning rate at the start of each half.
const RATE: f64 = 0.05;
type Failure = Box<dyn Error + Send + Sync>;

/// One run.
struct Run {
    network: Network,
    /// Rows of all peers, peer after peer.
    rows: Dataset,
    given: Vec<Option<u16>>,
    key: [u8; 32],
    rounds: u32,
    rate: f64,
}

/// Result of half a run.
enum Half {
    /// The half is complete, with these weights.
    Done(Vec<f32>),
    /// In this round these peers made a weight beyond [`MOST`], or one that is not a number.
    Diverged { half: u32, round: u32, peers: Vec<usize> },
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [Some(data), Some(out), Some(method)] = [0, 1, 2].map(|at| arguments.get(at)) else {
        return Err("expected two folders and a method: FASHION OUT METHOD".into());
    };
    let (data, out) = (PathBuf::from(data), PathBuf::from(out));
    let split = arguments.get(3).map_or("iid", String::as_str);
    let seed: u64 = arguments.get(4).map_or(Ok(0), |text| text.parse())?;
    let rounds: u32 = arguments.get(5).map_or(Ok(40), |text| text.parse())?;
    let rate: f64 = arguments.get(6).map_or(Ok(RATE), |text| text.parse())?;
    if !["labels", "network", "alone", "xclp-1", "xclp-10", "deal"].contains(&method.as_str()) {
        return Err(format!("unknown method {method}").into());
    }
    if method == "deal" {
        let (order, known) = dealt(&images::fashion(&data, "train")?, split, seed)?;
        println!("{}", json!({ "rows": order, "labelled": &known[..LABELLED] }));
        return Ok(());
    }
    create_folders(&out, false)?;
    let mut name = format!("{split}-{seed}-{rounds}");
    if rate != RATE {
        name += &format!("-{rate}");
    }
    let path = out.join(format!("{name}-{method}.json"));
    if !path.exists() {
        let start = ProcessTime::now();
        let run = Run::new(&data, split, seed, rounds, rate)?;
        let mut end = run.rounds(&out.join(format!("{name}.weights")), None, "labels")?;
        if let Half::Done(first) = end {
            end = run.rounds(&out.join(format!("{name}-{method}.weights")), Some(first), method)?;
        }
        let (right, labels, diverged) = match end {
            Half::Done(weights) => {
                let test = images::fashion(&data, "t10k")?;
                let seen = run.network.evaluate(&weights, test.view(), test.labels(), &mut Tape::default());
                (json!(percent(seen.right, test.rows())), run.said(&weights, method)?, Value::Null)
            }
            Half::Diverged { half, round, peers } => {
                (Value::Null, Value::Null, json!({ "half": half, "round": round, "peers": peers }))
            }
        };
        let result = json!({
            "split": split, "seed": seed, "rounds_of_each_half": rounds, "rate": rate, "method": method,
            "test_accuracy_percent": right, "pseudo_labels": labels, "diverged": diverged,
            "cpu_seconds_in_this_process": start.elapsed().as_secs_f64().round(),
        });
        write_whole(&path, format!("{result:#}\n").as_bytes(), true)?;
    }
    print!("{}", std::fs::read_to_string(&path)?);
    Ok(())
}

/// Returns the number of labels of each class.
fn counts(given: &[Option<u16>]) -> Vec<u64> {
    let mut counts = vec![0; CLASSES];
    given.iter().flatten().for_each(|&label| counts[usize::from(label)] += 1);
    counts
}

fn percent(right: usize, all: usize) -> f64 {
    (1e4 * right as f64 / all.max(1) as f64).round() / 1e2
}

fn key(seed: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key
}

/// Returns the rows of all peers, peer after peer, and a list of places among them. The rows at the first
/// [`LABELLED`] places have labels.
fn dealt(all: &Dataset, split: &str, seed: u64) -> Result<(Vec<usize>, Vec<usize>), Failure> {
    let mut order: Vec<usize> = (0..all.rows()).collect();
    let mut stream = Stream::new(&key(seed), "example/deal", &[]);
    deal::shuffle(&mut order, &mut stream);
    order.truncate(PEERS * EACH);
    match split {
        "iid" => {}
        "shards" => {
            order.sort_by_key(|&row| all.labels()[row]);
            let mut shards: Vec<&[usize]> = order.chunks(EACH / 2).collect();
            deal::shuffle(&mut shards, &mut stream);
            order = shards.concat();
        }
        other => return Err(format!("unknown split {other}, expected iid or shards").into()),
    }
    let mut known: Vec<usize> = (0..order.len()).collect();
    deal::shuffle(&mut known, &mut stream);
    Ok((order, known))
}

impl Run {
    fn new(data: &Path, split: &str, seed: u64, rounds: u32, rate: f64) -> Result<Self, Failure> {
        let all = images::fashion(data, "train")?;
        let (order, known) = dealt(&all, split, seed)?;
        let (rows, key) = (all.subset(&order), key(seed));
        let mut given = vec![None; rows.rows()];
        known[..LABELLED].iter().for_each(|&row| given[row] = Some(rows.labels()[row]));
        let shape = Architecture::Convolutional { image: [1, 28, 28], filters: [16, 32, 32], hidden: 128 };
        Ok(Self { network: Network::new(&shape, PIXELS, CLASSES)?, rows, given, key, rounds, rate })
    }

    fn own(&self, peer: usize) -> std::ops::Range<usize> {
        peer * EACH..((peer + 1) * EACH).min(self.rows.rows())
    }

    /// Runs one half, from `start` or from the initial weights. Continues from the file if it exists.
    fn rounds(&self, file: &Path, start: Option<Vec<f32>>, method: &str) -> Result<Half, Failure> {
        let network = &self.network;
        let half = u32::from(start.is_some());
        let (mut done, mut weights) = (0, start.unwrap_or_else(|| network.initial(&self.key)));
        let refresh = if method == "xclp-10" { 10 } else { 1 };
        // The labels of the last refresh are computed again from the weights of that round.
        let mut graph_weights = weights.clone();
        let read = |weights: &[[u8; 4]]| weights.iter().map(|&word| f32::from_le_bytes(word)).collect();
        if let Ok(bytes) = std::fs::read(file) {
            let words = bytes.as_chunks::<4>().0;
            if let Some((round, rest)) =
                words.split_first().filter(|(_, rest)| rest.len() == 2 * weights.len())
            {
                done = u32::from_le_bytes(*round);
                (weights, graph_weights) = (read(&rest[..weights.len()]), read(&rest[weights.len()..]));
            }
        }
        let mut labels = None;
        for round in done..self.rounds {
            if round % refresh == 0 {
                (graph_weights, labels) = (weights.clone(), None);
            }
            let labels = match &mut labels {
                Some(labels) => labels,
                none => none.insert(self.labels(&graph_weights, method)?),
            };
            let all = labels.iter().map(|own| own.counts(CLASSES)).fold(vec![0; CLASSES], |mut sum, own| {
                sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                sum
            });
            let class_weights = class_weights(&counts(&self.given), &all);
            #[expect(clippy::cast_possible_truncation, reason = "steps are taken in binary32")]
            let rate = Schedule::Cosine.rate(self.rate, round, self.rounds) as f32;
            let settings = Settings {
                epochs: 5,
                steps: 0,
                batch: 32,
                rate,
                momentum: 0.9,
                decay: 2e-4,
                proximal: 0.0,
                augment: None,
            };
            let one = |(peer, labels): (usize, &PseudoLabels)| {
                let place = [half, round, peer as u32].map(u32::to_le_bytes).concat();
                let mut stream = Stream::new(&self.key, "example/batches", &place);
                let own = self.rows.subset(&self.own(peer).collect::<Vec<_>>());
                let trained = labels.train(
                    network,
                    weights.clone(),
                    own.view(),
                    &class_weights,
                    &settings,
                    &mut stream,
                );
                (trained.seen.rows > 0).then_some((peer, trained.weights))
            };
            // A peer without labels does not train.
            let found: Vec<_> = labels.par_iter().enumerate().filter_map(one).collect();
            let fits = |weight: &f32| weight.abs() < MOST;
            let lost = found.iter().filter(|(_, own)| !own.iter().all(fits));
            let peers: Vec<usize> = lost.map(|&(peer, _)| peer).collect();
            if !peers.is_empty() {
                return Ok(Half::Diverged { half: half + 1, round: round + 1, peers });
            }
            let mut sum = vec![0.0; weights.len()];
            for (_, own) in &found {
                sum.iter_mut().zip(own).for_each(|(sum, &own)| *sum += f64::from(own));
            }
            #[expect(clippy::cast_possible_truncation, reason = "weights are binary32")]
            let mean = sum.into_iter().map(|sum| (sum / found.len() as f64) as f32).collect();
            weights = mean;
            let words = weights.iter().chain(&graph_weights).flat_map(|weight| weight.to_le_bytes());
            write_whole(file, &(round + 1).to_le_bytes().into_iter().chain(words).collect::<Vec<_>>(), true)?;
            eprintln!("{method}, half {half}, round {} of {}", round + 1, self.rounds);
        }
        Ok(Half::Done(weights))
    }

    /// Returns the labels that each peer trains on under these weights.
    fn labels(&self, weights: &[f32], method: &str) -> Result<Vec<PseudoLabels>, Failure> {
        let (features, mut logits) = self.network.represent(weights, self.rows.view(), &mut Tape::default());
        let said = |rows: std::ops::Range<usize>| -> Result<Vec<f64>, Failure> {
            let width = features.ncols();
            let own = features.slice(ndarray::s![rows.clone(), ..]).iter().copied().collect();
            let data = Dataset::new(width, own, Vec::new(), Vec::new())?;
            let graph = Graph { k: 10, bits: 4096, alpha: 0.99, steps: 60, power: 3, balance: false };
            let codes = Codes::of(&data, &self.key, 4096).ok_or("codes")?;
            let (plan, given) = (Plan::new(data.rows(), CLASSES, graph)?, &self.given[rows]);
            let coarse = Reference::new(&plan, &codes, given).output.coarse;
            let scores: Vec<f64> = coarse.into_iter().map(f64::from).collect();
            Ok(shares(&scores, CLASSES, Some(&counts(given))))
        };
        let all: Vec<f64> = match method {
            "labels" => vec![0.0; self.rows.rows() * CLASSES],
            "network" => {
                for mut row in logits.rows_mut() {
                    let most = row.iter().copied().fold(f32::MIN, f32::max);
                    row.mapv_inplace(|score| (score - most).exp());
                }
                shares(&logits.iter().map(|&score| f64::from(score)).collect::<Vec<_>>(), CLASSES, None)
            }
            "alone" => {
                let each: Result<Vec<_>, _> = (0..PEERS).into_par_iter().map(|p| said(self.own(p))).collect();
                each?.concat()
            }
            _ => said(0..self.rows.rows())?,
        };
        let own = |peer| {
            let rows = self.own(peer);
            let shares = &all[rows.start * CLASSES..rows.end * CLASSES];
            PseudoLabels::new(&self.given[rows], shares, CLASSES)
        };
        Ok((0..PEERS).map(own).collect())
    }

    /// Returns how many unlabelled rows get a label under these weights, and how many of these labels are
    /// right.
    fn said(&self, weights: &[f32], method: &str) -> Result<Value, Failure> {
        let labels = self.labels(weights, method)?;
        let all = labels
            .iter()
            .enumerate()
            .flat_map(|(peer, own)| own.found().map(move |(row, label)| (self.own(peer).start + row, label)));
        let (right, found) = all.fold((0, 0), |(right, found), (row, label)| {
            (right + usize::from(self.rows.labels()[row] == label), found + 1)
        });
        Ok(json!({ "rows": found, "right_percent": percent(right, found) }))
    }
}
