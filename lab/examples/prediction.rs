//! XCLP for prediction, in one process (Scott, Yeo & Lampert, *Cross-client Label Propagation*, TMLR 2023,
//! section 4.1): labels for new rows from the rows of all peers. It measures the figures of the paper's
//! tables 1 to 3.
//!
//! ```sh
//! cargo run --release --package flyswarm-lab --example prediction -- DATA OUT SET [SEED] [points]
//! ```
//!
//! DATA has the folders `cifar10`, `cifar100` and `fashion-mnist`. SET is `fashion` or `cifar`: 3,000 rows
//! dealt to 6 peers by Dirichlet(0.5). A fifth of each peer's rows is new. Table 1: the peers have fewer
//! or more training rows, all with labels. Table 2: one peer has no labels, and all its rows get one.
//! Table 3: a part of the training rows has labels. In an additional experiment, three of six peers have
//! no labels.
//!
//! A network is trained by FedAvg on the labelled rows: 3 x convolution, 128 numbers before the last
//! layer; 20 rounds of 20 steps, batches of 32, momentum 0.9, weight decay 1e-4, cosine rate from 0.05,
//! peers weighted by their rows. Labels are propagated over the features of this network, or over *plain*
//! features. These are the pixels, and for `cifar` the features of a network that was trained on
//! CIFAR-100. Propagation is the integer version that peers compute on shares: codes of 4,096 bits, k =
//! 10, alpha = 0.99, cubed cosines, labels of each class with the same sum (`balance`).
//!
//! The result is `OUT/SET-SEED.json`, the percentage of new rows with the right label. If it exists
//! already, it is printed. With `points` the result is `OUT/SET-SEED.csv` instead, for the scenarios
//! `xclp-prediction-fashion` and `xclp-prediction-cifar`. It has the class and the features of each of
//! the 3,000 rows. The features come from a network that was trained on other rows: on 1,000 rows of the
//! set, or on CIFAR-100.

mod images;

use std::error::Error;
use std::path::{Path, PathBuf};

use cpu_time::ProcessTime;
use flyswarm_data::{Dataset, deal};
use flyswarm_learn::learner::{Architecture, Augment, Network, Schedule, Settings, Tape, train};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::{Plan, Settings as Graph, reference::Reference};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::files::{create_folders, write_whole};
use ndarray::Array2;
use rayon::prelude::*;
use serde_json::{Value, json};

const PEERS: usize = 6;
const ROWS: usize = 3000;
const CLASSES: usize = 10;
const ROUNDS: u32 = 20;
const STEPS: u32 = 20;
/// Shares of the training rows, as in the paper.
const PARTS: [f64; 4] = [0.05, 0.1, 0.2, 1.0];
type Failure = Box<dyn Error + Send + Sync>;

/// Places of one peer's rows.
#[derive(Clone)]
struct Peer {
    /// Training rows with labels.
    labelled: Vec<usize>,
    /// Training rows without labels.
    unlabelled: Vec<usize>,
    new: Vec<usize>,
}

struct Run {
    rows: Dataset,
    image: [u32; 3],
    key: [u8; 32],
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, out] = [0, 1].map(|at| arguments.get(at).map(PathBuf::from));
    let (Some(data), Some(out), Some(set)) = (data, out, arguments.get(2)) else {
        return Err("three arguments: DATA OUT SET".into());
    };
    let seed: u64 = arguments.get(3).map_or(Ok(0), |text| text.parse())?;
    create_folders(&out, false)?;
    let path = |ending: &str| out.join(format!("{set}-{seed}.{ending}"));
    match arguments.get(4).map(String::as_str) {
        None => {}
        Some("points") => return write_points(&data, set, seed, &path("csv")),
        Some(other) => return Err(format!("{other}: expected points").into()),
    }
    let path = path("json");
    if !path.exists() {
        let result = measure(&data, set, seed)?;
        write_whole(&path, format!("{result:#}\n").as_bytes(), true)?;
    }
    print!("{}", std::fs::read_to_string(&path)?);
    Ok(())
}

/// Writes the network's features of each row and its class, one line a row.
fn write_points(data: &Path, set: &str, seed: u64, path: &Path) -> Result<(), Failure> {
    let (run, others, _) = Run::new(data, set, seed)?;
    let points = if set == "fashion" { run.learnt(&others, CLASSES) } else { run.plain(data, set)? };
    let mut text = String::new();
    for (point, label) in points.rows().into_iter().zip(run.rows.labels()) {
        point.iter().for_each(|number| text += &format!("{number},"));
        text += &format!("{label}\n");
    }
    Ok(write_whole(path, text.as_bytes(), true)?)
}

fn measure(data: &Path, set: &str, seed: u64) -> Result<Value, Failure> {
    let start = ProcessTime::now();
    let (run, _, mut stream) = Run::new(data, set, seed)?;
    let mut peers = Vec::new();
    for mut own in deal::dirichlet(run.rows.labels(), CLASSES, PEERS, 0.5, &run.key)? {
        deal::shuffle(&mut own, &mut stream);
        let labelled = own.split_off(own.len() / 5);
        peers.push(Peer { labelled, unlabelled: Vec::new(), new: own });
    }
    let plain = run.plain(data, set)?;

    let (mut sizes, mut parts) = (Vec::new(), Vec::new());
    for part in PARTS {
        let partly: Vec<Peer> = peers.iter().map(|peer| peer.labelled_in(part)).collect();
        let only: Vec<Peer> =
            partly.iter().map(|peer| Peer { unlabelled: Vec::new(), ..peer.clone() }).collect();
        let (features, said) = run.trained(&only);
        let fedavg = run.right(&peers, |row| said[row]);
        let xclp = run.propagated(&features, &only)?;
        sizes.push(json!({
            "rows": only.iter().map(|peer| peer.labelled.len()).sum::<usize>(),
            "plain": { "alone": run.alone(&plain, &only)?, "xclp": run.propagated(&plain, &only)? },
            "trained": { "fedavg": fedavg, "alone": run.alone(&features, &only)?, "xclp": xclp },
        }));
        parts.push(json!({
            "labelled": part, "fedavg": fedavg, "xclp_labelled": xclp,
            "xclp_all": run.propagated(&features, &partly)?,
        }));
        eprintln!("{set}, seed {seed}: {part} of the rows");
    }
    let mut left_out = Vec::new();
    for at in 0..PEERS {
        let mut rest = peers.clone();
        let asked = rest.remove(at);
        let rows = [asked.new, asked.labelled].concat();
        rest.iter_mut().for_each(|peer| peer.new.clear());
        let (features, said) = run.trained(&rest);
        rest.push(Peer { labelled: Vec::new(), unlabelled: Vec::new(), new: rows });
        left_out.push(json!({
            "peer": at, "rows": rest[PEERS - 1].new.len(),
            "fedavg": run.right(&rest, |row| said[row]), "xclp": run.propagated(&features, &rest)?,
        }));
        eprintln!("{set}, seed {seed}: peer {at} left out");
    }
    // Half of the peers have no labels, and only their new rows are scored.
    let mut half = peers.clone();
    for (at, peer) in half.iter_mut().enumerate() {
        if at < PEERS / 2 {
            peer.unlabelled = std::mem::take(&mut peer.labelled);
        } else {
            peer.new.clear();
        }
    }
    let (features, said) = run.trained(&half);
    Ok(json!({
        "set": set, "seed": seed, "new_rows": peers.iter().map(|peer| peer.new.len()).collect::<Vec<_>>(),
        "table_1": sizes, "table_2": left_out, "table_3": parts,
        "three_peers_without_labels": {
            "fedavg": run.right(&half, |row| said[row]), "xclp": run.propagated(&features, &half)?,
        },
        "cpu_seconds": start.elapsed().as_secs_f64().round(),
    }))
}

impl Peer {
    /// Keeps the labels of the first training rows and removes the others.
    fn labelled_in(&self, part: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the rows")]
        let count = (part * self.labelled.len() as f64).round() as usize;
        let (labelled, unlabelled) = self.labelled.split_at(count);
        Self { labelled: labelled.to_vec(), unlabelled: unlabelled.to_vec(), new: self.new.clone() }
    }
}

impl Run {
    /// Returns the rows, 1,000 other rows of the set, and the stream that drew both.
    fn new(data: &Path, set: &str, seed: u64) -> Result<(Self, Dataset, Stream), Failure> {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let (all, image) = match set {
            "fashion" => (images::fashion(&data.join("fashion-mnist"), "train")?, [1, 28, 28]),
            "cifar" => (images::cifar(&data.join("cifar10/train_8000.bin.gz"), CLASSES)?, [3, 32, 32]),
            other => return Err(format!("unknown set {other}, expected fashion or cifar").into()),
        };
        let mut stream = Stream::new(&key, "example/deal", &[]);
        let mut order: Vec<usize> = (0..all.rows()).collect();
        deal::shuffle(&mut order, &mut stream);
        let (rows, others) = (all.subset(&order[..ROWS]), all.subset(&order[ROWS..ROWS + 1000]));
        Ok((Self { rows, image, key }, others, stream))
    }

    /// Returns the percentage of the new rows that get their own label.
    fn right(&self, peers: &[Peer], said: impl Fn(usize) -> Option<u16>) -> f64 {
        let new: Vec<usize> = peers.iter().flat_map(|peer| peer.new.iter().copied()).collect();
        let right = new.iter().filter(|&&row| said(row) == Some(self.rows.labels()[row])).count();
        (1e3 * right as f64 / new.len().max(1) as f64).round() / 10.0
    }

    /// Propagates labels over the rows of all these peers.
    fn propagated(&self, features: &Array2<f32>, peers: &[Peer]) -> Result<f64, Failure> {
        let labels = self.labels(features, peers)?;
        Ok(self.right(peers, |row| labels[row]))
    }

    /// Propagates labels at each peer over its own rows.
    fn alone(&self, features: &Array2<f32>, peers: &[Peer]) -> Result<f64, Failure> {
        let mut labels = vec![None; ROWS];
        for peer in peers.chunks(1) {
            let own = self.labels(features, peer)?;
            peer[0].new.iter().for_each(|&row| labels[row] = own[row]);
        }
        Ok(self.right(peers, |row| labels[row]))
    }

    fn labels(&self, features: &Array2<f32>, peers: &[Peer]) -> Result<Vec<Option<u16>>, Failure> {
        let of = |part: fn(&Peer) -> &Vec<usize>| peers.iter().flat_map(part).copied();
        let labelled: Vec<usize> = of(|peer| &peer.labelled).collect();
        let points: Vec<usize> =
            labelled.iter().copied().chain(of(|peer| &peer.unlabelled)).chain(of(|peer| &peer.new)).collect();
        let mut labels = vec![None; ROWS];
        if labelled.is_empty() || points.len() < 3 {
            return Ok(labels);
        }
        let mut given = vec![None; points.len()];
        given.iter_mut().zip(&labelled).for_each(|(given, &row)| *given = Some(self.rows.labels()[row]));
        let values = points.iter().flat_map(|&row| features.row(row).to_vec()).collect();
        let data = Dataset::new(features.ncols(), values, Vec::new(), Vec::new())?;
        let k = 10.min(points.len() - 1);
        let graph = Graph { k, bits: 4096, alpha: 0.99, steps: 60, power: 3, balance: true };
        let codes = Codes::of(&data, &self.key, 4096).ok_or("codes")?;
        let found = Reference::new(&Plan::new(points.len(), CLASSES, graph)?, &codes, &given).output.labels;
        points.iter().zip(found).for_each(|(&row, label)| labels[row] = label);
        Ok(labels)
    }

    /// Runs FedAvg on the labelled rows. Returns the network's features of all rows, and its predicted
    /// classes.
    fn trained(&self, peers: &[Peer]) -> (Array2<f32>, Vec<Option<u16>>) {
        let network = self.network(CLASSES);
        let own: Vec<Dataset> = peers.iter().map(|peer| self.rows.subset(&peer.labelled)).collect();
        let weights = self.averaged(&network, &own);
        let (features, scores) = network.represent(&weights, self.rows.view(), &mut Tape::default());
        let class = |scores: ndarray::ArrayView1<'_, f32>| {
            let best = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
            best.and_then(|class| u16::try_from(class).ok())
        };
        (features, scores.rows().into_iter().map(class).collect())
    }

    fn network(&self, classes: usize) -> Network {
        let shape = Architecture::Convolutional { image: self.image, filters: [16, 32, 32], hidden: 128 };
        Network::new(&shape, self.rows.features(), classes)
            .unwrap_or_else(|error| unreachable!("BUG: {error}"))
    }

    fn averaged(&self, network: &Network, own: &[Dataset]) -> Vec<f32> {
        let all: usize = own.iter().map(Dataset::rows).sum();
        let mut weights = network.initial(&self.key);
        for round in 0..ROUNDS {
            let settings = self.settings(STEPS, Schedule::Cosine.rate(0.05, round, ROUNDS));
            let one = |(at, rows): (usize, &Dataset)| {
                let place = [u64::from(round), at as u64].map(u64::to_le_bytes).concat();
                let mut stream = Stream::new(&self.key, "example/batches", &place);
                let labels = rows.labels();
                (
                    rows.rows(),
                    train(network, weights.clone(), rows.view(), labels, None, &settings, &mut stream),
                )
            };
            let found: Vec<_> = own.par_iter().enumerate().map(one).collect();
            let mut sum = vec![0.0; weights.len()];
            for (rows, trained) in &found {
                let share = *rows as f64 / all as f64;
                sum.iter_mut().zip(&trained.weights).for_each(|(sum, &own)| *sum += share * f64::from(own));
            }
            #[expect(clippy::cast_possible_truncation, reason = "weights are binary32")]
            let mean = sum.into_iter().map(|weight| weight as f32).collect();
            weights = mean;
        }
        weights
    }

    fn settings(&self, steps: u32, rate: f64) -> Settings {
        let augment = (self.image[0] == 3).then_some(Augment { image: [3, 32, 32], flip: true, shift: 4 });
        #[expect(clippy::cast_possible_truncation, reason = "steps are taken in binary32")]
        let rate = rate as f32;
        Settings { epochs: 1, steps, batch: 32, rate, momentum: 0.9, decay: 1e-4, proximal: 0.0, augment }
    }

    /// Returns features that do not use the peers' labels.
    fn plain(&self, data: &Path, set: &str) -> Result<Array2<f32>, Failure> {
        if set == "fashion" {
            return Ok(self.rows.view().to_owned());
        }
        Ok(self.learnt(&images::cifar(&data.join("cifar100/images_4000.bin.gz"), 100)?, 100))
    }

    /// Returns the features of the rows from a network that was trained on `others`, in one process.
    fn learnt(&self, others: &Dataset, classes: usize) -> Array2<f32> {
        let network = self.network(classes);
        let mut weights = network.initial(&self.key);
        for round in 0..ROUNDS {
            let settings = self.settings(0, Schedule::Cosine.rate(0.05, round, ROUNDS));
            let mut stream = Stream::new(&self.key, "example/other", &round.to_le_bytes());
            let (rows, labels) = (others.view(), others.labels());
            weights = train(&network, weights, rows, labels, None, &settings, &mut stream).weights;
        }
        network.represent(&weights, self.rows.view(), &mut Tape::default()).0
    }
}
