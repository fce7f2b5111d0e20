//! Compares kNN-Per with FedAvg, FedAvg with fine-tuning and local networks, on the CIFAR-10 subset.
//!
//! ```sh
//! cargo run --package flyswarm-lab --example personal -- CIFAR OUT [SPLIT] [SEED] [ROUNDS] [late|deal]
//! ```
//!
//! CIFAR is a folder with `train_8000.bin.gz` and `test_2000.bin.gz` (records of a label and 3,072 bytes).
//! SPLIT is the alpha of a Dirichlet distribution over 20 peers (default 0.3), or `two`: two classes for
//! each peer. Test rows are dealt in the proportions of the training rows. A fifth of each peer's rows is
//! for validation. FedAvg trains on the others, in ROUNDS (default 60) of one local pass (3 x convolution,
//! 81,290 weights; momentum 0.9, weight decay 1e-4, batches of 32, cosine rate from 0.05, flips and
//! shifts).
//!
//! With `late` it measures peers that come after training (section 4 of the paper, "Generalization to
//! unseen clients"). It trains five networks, each without four of the peers, so that every peer is late
//! once.
//!
//! With `deal` it prints the rows of each peer, by their places in the two files, and trains nothing.
//!
//! After each round the weights are written to OUT, and a stopped run continues from there. The result is
//! `OUT/SPLIT-SEED-ROUNDS.json` or `OUT/SPLIT-SEED-ROUNDS-late.json`. If it exists already, it is printed.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};

use cpu_time::ProcessTime;
use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_data::split::{self, train_test};
use flyswarm_data::{Dataset, deal};
use flyswarm_learn::learner::{Architecture, Augment, Classifier, Network, Schedule, Settings, train};
use flyswarm_learn::personal::{
    Contents, Datastore, Drift, LAMBDAS, Mixture, PersonalModel, Practice, assess, trained,
};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::files::{create_folders, write_whole};
use rayon::prelude::*;
use serde_json::{Value, json};

const PEERS: usize = 20;
const CLASSES: usize = 10;
const FEATURES: usize = 3072;
/// Training rows and test rows.
const FILES: [&str; 2] = ["train_8000.bin.gz", "test_2000.bin.gz"];
/// Number of late groups. Peer p is late in the network with the number p modulo this number.
const GROUPS: usize = 5;
type Failure = Box<dyn Error + Send + Sync>;
/// Places of each peer's rows.
type Rows = Vec<Vec<usize>>;

/// One peer's rows, scaled.
struct Peer {
    train: Dataset,
    validation: Dataset,
    /// Training and validation rows.
    all: Dataset,
    test: Dataset,
}

/// One deal of the rows, and its networks.
struct Run {
    shape: Architecture,
    network: Network,
    /// A scaler that changes nothing, because the rows are already scaled.
    none: Scaler,
    peers: Vec<Peer>,
    split: String,
    seed: u64,
    rounds: u32,
    /// Common prefix of the paths of this run's files.
    files: PathBuf,
    start: ProcessTime,
}

/// Number of test rows that are predicted correctly, by method.
struct Scores {
    rows: usize,
    lambda: f64,
    right: Vec<(&'static str, usize)>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, out] = [0, 1].map(|at| arguments.get(at).map(PathBuf::from));
    let (Some(data), Some(out)) = (data, out) else { return Err("two folders: CIFAR OUT".into()) };
    let split = arguments.get(2).map_or("0.3", String::as_str);
    let seed: u64 = arguments.get(3).map_or(Ok(0), |text| text.parse())?;
    let rounds: u32 = arguments.get(4).map_or(Ok(60), |text| text.parse())?;
    let late = match arguments.get(5).map(String::as_str) {
        None => false,
        Some("late") => true,
        Some("deal") => return print_deal(&data, split, seed),
        Some(other) => return Err(format!("{other}: expected late or deal").into()),
    };
    create_folders(&out, false)?;
    let name = format!("{split}-{seed}-{rounds}");
    let path = out.join(if late { format!("{name}-late.json") } else { format!("{name}.json") });
    if !path.exists() {
        let run = Run::new(&data, split, seed, rounds, out.join(name))?;
        let result = if late { run.late()? } else { run.all_methods()? };
        write_whole(&path, format!("{result:#}\n").as_bytes(), true)?;
    }
    print!("{}", std::fs::read_to_string(&path)?);
    Ok(())
}

/// Prints the rows of each peer: `all`, split into `train` and `validation`, and `test`.
fn print_deal(data: &Path, split: &str, seed: u64) -> Result<(), Failure> {
    let [train, test] = FILES.map(|file| records(&data.join(file)));
    let train = train?;
    let (own, tested) = dealt(&train, &test?, split, &seed.to_le_bytes())?;
    let peers = own.iter().zip(&tested).map(|(own, tested)| {
        let labels: Vec<u16> = own.iter().map(|&row| train.labels()[row]).collect();
        let split = train_test(split::Rows::new(&labels, None), 20, &seed.to_le_bytes());
        let [training, validation] =
            [&split.train, &split.test].map(|rows| rows.iter().map(|&row| own[row]).collect::<Vec<_>>());
        json!({ "all": own, "train": training, "validation": validation, "test": tested })
    });
    println!("{}", Value::from_iter(peers));
    Ok(())
}

impl Run {
    fn new(data: &Path, split: &str, seed: u64, rounds: u32, files: PathBuf) -> Result<Self, Failure> {
        let start = ProcessTime::now();
        let [train, test] = FILES.map(|file| records(&data.join(file)));
        let (train, test) = (train?, test?);
        let (own, tested) = dealt(&train, &test, split, &seed.to_le_bytes())?;
        let scaler = Scaler::fit(&Scaling::Range { lo: vec![0.0], hi: vec![255.0] }, &train)?;
        let (train, test) = (centred(&scaler.transform(&train))?, centred(&scaler.transform(&test))?);
        let peer = |(own, tested): (&Vec<usize>, &Vec<usize>)| {
            let all = train.subset(own);
            let split = train_test(&all, 20, &seed.to_le_bytes());
            let [training, validation] = [&split.train, &split.test].map(|rows| all.subset(rows));
            Peer { train: training, validation, all, test: test.subset(tested) }
        };
        let peers = own.iter().zip(&tested).map(peer).collect();
        let shape = Architecture::Convolutional { image: [3, 32, 32], filters: [16, 32, 32], hidden: 128 };
        let network = Network::new(&shape, FEATURES, CLASSES)?;
        let none = Scaler::fit(&Scaling::None, &train)?;
        let split = split.to_owned();
        Ok(Self { shape, network, none, peers, split, seed, rounds, files, start })
    }

    /// Trains a network with these peers, numbered from 0.
    fn global(&self, peers: &[usize], file: &str) -> Result<Classifier, Failure> {
        let mut path = self.files.clone().into_os_string();
        path.push(file);
        let weights = self.averaged(peers, Path::new(&path))?;
        let classes: Vec<String> = (0..CLASSES).map(|class| class.to_string()).collect();
        let of = ("cifar".into(), [0; 32]);
        Ok(Classifier::new(&self.shape, self.none.clone(), classes, Vec::new(), weights, of)?)
    }

    fn all_methods(&self) -> Result<Value, Failure> {
        let global = self.global(&(0..PEERS).collect::<Vec<_>>(), ".weights")?;
        let training = self.start.elapsed().as_secs_f64();
        let scores: Vec<Scores> = self
            .peers
            .par_iter()
            .enumerate()
            .map(|(at, peer)| scores(&global, peer, at as u64))
            .collect::<Result<_, _>>()?;
        let drift = drift(&global, &self.peers)?;
        let mut methods = serde_json::Map::new();
        for (at, &(name, _)) in scores.first().ok_or("no peers")?.right.iter().enumerate() {
            let right: Vec<(usize, usize)> =
                scores.iter().map(|scores| (scores.right[at].1, scores.rows)).collect();
            methods.insert(name.into(), mean_and_decile(&right));
        }
        Ok(json!({
            "split": self.split, "seed": self.seed, "rounds": self.rounds, "peers": PEERS,
            "weights": self.network.weights(),
            "accuracy_and_bottom_decile_percent": methods,
            "lambdas": scores.iter().map(|scores| scores.lambda).collect::<Vec<_>>(),
            "rows_of_training": self.peers.iter().map(|peer| peer.train.rows()).collect::<Vec<_>>(),
            "drift_percent_by_step": drift,
            "cpu_seconds_of_training_in_this_process": training.round(),
            "cpu_seconds_in_this_process": self.start.elapsed().as_secs_f64().round(),
        }))
    }

    /// Measures FedAvg and kNN-Per with all rows: at peers that were not in training, at peers that were,
    /// and at the late peers with the network that all peers have trained.
    fn late(&self) -> Result<Value, Failure> {
        let everybody: Vec<usize> = (0..PEERS).collect();
        let (mut late, mut others) = (Vec::new(), Vec::new());
        for group in 0..GROUPS {
            let trained: Vec<usize> = everybody.iter().copied().filter(|at| at % GROUPS != group).collect();
            let global = self.global(&trained, &format!("-late-{group}.weights"))?;
            for (at, right) in self.personal(&global)?.into_iter().enumerate() {
                if at % GROUPS == group { late.push(right) } else { others.push(right) }
            }
            eprintln!("network {} of {GROUPS}", group + 1);
        }
        let present = self.personal(&self.global(&everybody, ".weights")?)?;
        let of = |right: &[[(usize, usize); 2]]| {
            let [fedavg, personal] = [0, 1]
                .map(|method| mean_and_decile(&right.iter().map(|right| right[method]).collect::<Vec<_>>()));
            json!({ "FedAvg": fedavg, "kNN-Per, all rows": personal })
        };
        Ok(json!({
            "split": self.split, "seed": self.seed, "rounds": self.rounds, "peers": PEERS,
            "late_in_each_network": PEERS / GROUPS,
            "accuracy_and_bottom_decile_percent": {
                "late": of(&late), "the others": of(&others), "late, had they trained": of(&present),
            },
            "cpu_seconds_in_this_process": self.start.elapsed().as_secs_f64().round(),
        }))
    }

    /// Returns for each peer how many of its test rows the network and kNN-Per predict right, and the number
    /// of its test rows.
    fn personal(&self, global: &Classifier) -> Result<Vec<[(usize, usize); 2]>, Failure> {
        let one = |(at, peer): (usize, &Peer)| {
            let seed = (at as u64).to_le_bytes();
            let lambda = chosen(global, peer, &seed)?;
            let personal = neighbours(global, &peer.all, lambda, Contents::All, &seed)?;
            let rows = peer.test.rows();
            Ok([
                (right(&global.predict(peer.test.view())?, peer), rows),
                (right(&personal.predict(peer.test.view())?, peer), rows),
            ])
        };
        self.peers.par_iter().enumerate().map(one).collect()
    }

    /// Runs FedAvg with these peers in each round, weighted by their rows. Continues from the file if it
    /// exists.
    fn averaged(&self, peers: &[usize], file: &Path) -> Result<Vec<f32>, Failure> {
        let (network, rounds) = (&self.network, self.rounds);
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        let (mut done, mut weights) = (0, network.initial(&key));
        if let Ok(bytes) = std::fs::read(file) {
            let words: Vec<[u8; 4]> = bytes.as_chunks::<4>().0.to_vec();
            if let Some((round, rest)) =
                words.split_first().filter(|(_, rest)| rest.len() == network.weights())
            {
                done = u32::from_le_bytes(*round);
                weights = rest.iter().map(|&word| f32::from_le_bytes(word)).collect();
            }
        }
        let all: usize = peers.iter().map(|&at| self.peers[at].train.rows()).sum();
        for round in done..rounds {
            let settings = settings(1, Schedule::Cosine.rate(0.05, round, rounds));
            let one = |&at: &usize| {
                let place = [u64::from(round), at as u64].map(u64::to_le_bytes).concat();
                let mut stream = Stream::new(&key, "example/batches", &place);
                let rows = &self.peers[at].train;
                let start = weights.clone();
                (rows.rows(), train(network, start, rows.view(), rows.labels(), None, &settings, &mut stream))
            };
            let found: Vec<_> = peers.par_iter().map(one).collect();
            let mut sum = vec![0.0; weights.len()];
            let (mut right, mut seen) = (0, 0);
            for (rows, trained) in &found {
                let share = *rows as f64 / all as f64;
                sum.iter_mut().zip(&trained.weights).for_each(|(sum, &own)| *sum += share * f64::from(own));
                (right, seen) = (right + trained.seen.right, seen + trained.seen.rows);
            }
            weights = sum.into_iter().map(|weight| weight as f32).collect();
            let words = std::iter::once((round + 1).to_le_bytes())
                .chain(weights.iter().map(|weight| weight.to_le_bytes()));
            write_whole(file, &words.flatten().collect::<Vec<_>>(), true)?;
            let training = 100.0 * right as f64 / seen as f64;
            eprintln!("round {} of {rounds}: {training:.1} % in training", round + 1);
        }
        Ok(weights)
    }
}

/// Returns the percentage of right rows over all peers, and that of the second worst of twenty peers (in
/// the paper: the (peers / 10)th worst). Takes the numbers of right rows and of all rows at each peer.
fn mean_and_decile(right: &[(usize, usize)]) -> Value {
    let percent = |part: f64| (part * 1e3).round() / 10.0;
    let (all, rows) = right.iter().fold((0, 0), |(all, rows), &(right, of)| (all + right, rows + of));
    let mut each: Vec<f64> =
        right.iter().filter(|(_, rows)| *rows > 0).map(|&(right, rows)| right as f64 / rows as f64).collect();
    each.sort_by(f64::total_cmp);
    let decile = each[(each.len() / 10).max(1) - 1];
    json!([percent(all as f64 / rows as f64), percent(decile)])
}

fn records(path: &Path) -> Result<Dataset, Failure> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes)?;
    let records = bytes.chunks_exact(FEATURES + 1);
    let labels = records.clone().map(|record| u16::from(record[0])).collect();
    let pixels = records.flat_map(|record| record[1..].iter().map(|&pixel| f32::from(pixel))).collect();
    Ok(Dataset::new(FEATURES, pixels, labels, (0..CLASSES).map(|class| class.to_string()).collect())?)
}

/// Maps 0 to 1 to about -2 to 2.
fn centred(rows: &Dataset) -> Result<Dataset, Failure> {
    let values = rows.values().iter().map(|value| (value - 0.5) * 4.0).collect();
    Ok(Dataset::new(FEATURES, values, rows.labels().to_vec(), rows.classes().to_vec())?)
}

/// Deals training rows and test rows to each peer; the test rows have the proportions of the training
/// rows.
fn dealt(train: &Dataset, test: &Dataset, split: &str, seed: &[u8]) -> Result<(Rows, Rows), Failure> {
    let mut stream = Stream::new(seed, "example/deal", &[]);
    let own = if split == "two" {
        // Deals each class to four peers, a quarter each: twenty peers have two places each in a list of
        // forty.
        let mut places: Vec<usize> = (0..2 * PEERS).map(|place| place / 4).collect();
        loop {
            deal::shuffle(&mut places, &mut stream);
            if places.chunks_exact(2).all(|pair| pair[0] != pair[1]) {
                break;
            }
        }
        let mut own = vec![Vec::new(); PEERS];
        for class in 0..CLASSES {
            let rows = (0..train.rows()).filter(|&row| usize::from(train.labels()[row]) == class);
            let holders: Vec<usize> =
                (0..2 * PEERS).filter(|&at| places[at] == class).map(|at| at / 2).collect();
            rows.enumerate().for_each(|(at, row)| own[holders[at % holders.len()]].push(row));
        }
        own
    } else {
        deal::dirichlet(train.labels(), CLASSES, PEERS, split.parse()?, seed)?
    };
    let mut tested = vec![Vec::new(); PEERS];
    for class in 0..CLASSES {
        let held =
            |rows: &Vec<usize>| rows.iter().filter(|&&row| usize::from(train.labels()[row]) == class).count();
        let held: Vec<usize> = own.iter().map(held).collect();
        let total: usize = held.iter().sum();
        let mut rows: Vec<usize> =
            (0..test.rows()).filter(|&row| usize::from(test.labels()[row]) == class).collect();
        deal::shuffle(&mut rows, &mut stream);
        let (mut from, mut sum) = (0, 0);
        for (peer, held) in held.into_iter().enumerate() {
            sum += held;
            let to = rows.len() * sum / total.max(1);
            tested[peer].extend_from_slice(&rows[from..to]);
            from = to;
        }
    }
    Ok((own, tested))
}

fn settings(epochs: u32, rate: f64) -> Settings {
    let augment = Some(Augment { image: [3, 32, 32], flip: true, shift: 4 });
    let rate = rate as f32;
    Settings { epochs, steps: 0, batch: 32, rate, momentum: 0.9, decay: 1e-4, proximal: 0.0, augment }
}

/// Returns the number of right predictions on a peer's test rows.
fn right(said: &[u16], peer: &Peer) -> usize {
    said.iter().zip(peer.test.labels()).filter(|(said, label)| said == label).count()
}

/// Returns the weight of the neighbours that is best for the validation rows.
fn chosen(global: &Classifier, peer: &Peer, seed: &[u8]) -> Result<f64, Failure> {
    // Joins training and validation rows, and keeps their places.
    let values = [peer.train.values(), peer.validation.values()].concat();
    let labels = [peer.train.labels(), peer.validation.labels()].concat();
    let both = Dataset::new(FEATURES, values, labels, global.classes().to_vec())?;
    let split = flyswarm_data::split::Split {
        train: (0..peer.train.rows()).collect(),
        test: (peer.train.rows()..both.rows()).collect(),
    };
    let mixture = Mixture::new(0.0);
    let practice = Practice { mixture, contents: Contents::All, fine_tuning: None, local: None, seed };
    // A peer with too few rows for validation uses only the network.
    Ok(assess(global, &both, &[split], &practice).map_or(0.0, |found| found.lambda()))
}

/// Makes a kNN-Per model that stores these rows, or a part of them.
fn neighbours(
    global: &Classifier,
    rows: &Dataset,
    lambda: f64,
    contents: Contents,
    seed: &[u8],
) -> Result<PersonalModel, Failure> {
    let (keys, _) = global.represent(rows.view())?;
    let all = Datastore::new(keys, rows.labels().to_vec(), CLASSES)?;
    Ok(PersonalModel::new(global.clone(), contents.of(&all, seed)?, Mixture::new(lambda), contents)?)
}

/// Measures all methods at one peer. Methods that learn from its rows are measured twice: without the
/// validation rows, and with them after all choices are made (as in the paper).
fn scores(global: &Classifier, peer: &Peer, at: u64) -> Result<Scores, Failure> {
    let seed = at.to_le_bytes();
    let learnt = |rows: &Dataset, epochs, rate, local| -> Result<usize, Failure> {
        let weights = trained(global, rows, &settings(epochs, rate), local, &seed);
        Ok(right(&global.with_weights(weights)?.predict(peer.test.view())?, peer))
    };
    let near = |rows: &Dataset, lambda, contents: Contents| -> Result<usize, Failure> {
        Ok(right(&neighbours(global, rows, lambda, contents, &seed)?.predict(peer.test.view())?, peer))
    };
    let lambda = chosen(global, peer, &seed)?;
    let most = LAMBDAS[LAMBDAS.len() - 1];
    let (train, all) = (&peer.train, &peer.all);
    let found = vec![
        ("local", learnt(train, 15, 0.02, true)?),
        ("FedAvg", right(&global.predict(peer.test.view())?, peer)),
        ("FedAvg+", learnt(train, 2, 0.01, false)?),
        ("kNN", near(train, most, Contents::All)?),
        ("kNN-Per", near(train, lambda, Contents::All)?),
        ("local, all rows", learnt(all, 15, 0.02, true)?),
        ("FedAvg+, all rows", learnt(all, 2, 0.01, false)?),
        ("kNN, all rows", near(all, most, Contents::All)?),
        ("kNN-Per, all rows", near(all, lambda, Contents::All)?),
        ("kNN-Per, a third of all rows", near(all, lambda, Contents::Sample(1.0 / 3.0))?),
        ("kNN-Per, a third as prototypes", near(all, lambda, Contents::Prototypes(1.0 / 3.0))?),
        ("kNN-Per, a tenth of all rows", near(all, lambda, Contents::Sample(0.1))?),
        ("kNN-Per, a tenth as prototypes", near(all, lambda, Contents::Prototypes(0.1))?),
    ];
    Ok(Scores { rows: peer.test.rows(), lambda, right: found })
}

/// Measures drift as in Appendix B: a peer's rows gradually become those of the next peer.
///
/// At first, half of the peer's own rows are in the datastore. Then five batches of the other half arrive,
/// and then ten batches of the next peer's rows, as many rows as there were at first. The result is the
/// percentage of right test rows, before and after each batch, with neighbours alone.
fn drift(global: &Classifier, peers: &[Peer]) -> Result<Value, Failure> {
    let strategies = [("fixed", Drift::Fixed), ("concatenate", Drift::Concatenate), ("fifo", Drift::Fifo)];
    let mut all = serde_json::Map::new();
    for (name, drift) in strategies {
        let mut steps = vec![(0, 0); 16];
        for (peer, next) in peers.iter().zip(peers.iter().cycle().skip(1)) {
            let mut order: Vec<usize> = (0..peer.all.rows()).collect();
            deal::shuffle(&mut order, &mut Stream::new(b"drift", "example/drift", &[]));
            let (first, later) = order.split_at(order.len() / 2);
            if first.is_empty() || next.all.rows() == 0 {
                continue;
            }
            let mut arriving: Vec<usize> = (0..next.all.rows()).collect();
            deal::shuffle(&mut arriving, &mut Stream::new(b"drift", "example/drift", &[1]));
            arriving.truncate(first.len());
            let own = peer.all.subset(first);
            let (keys, _) = global.represent(own.view())?;
            let datastore = Datastore::new(keys, own.labels().to_vec(), CLASSES)?;
            let mut model = PersonalModel::new(global.clone(), datastore, Mixture::new(1.0), Contents::All)?;
            for (step, count) in steps.iter_mut().enumerate() {
                let batch = |rows: &[usize], at: usize, of: usize| {
                    rows[rows.len() * at / of..rows.len() * (at + 1) / of].to_vec()
                };
                let new = match step {
                    0 => None,
                    1..=5 => Some(peer.all.subset(&batch(later, step - 1, 5))),
                    _ => Some(next.all.subset(&batch(&arriving, step - 6, 10))),
                };
                if let Some(new) = new.filter(|new| new.rows() > 0) {
                    model.take_in(new.view(), new.labels(), drift)?;
                }
                let test = if step <= 5 { &peer.test } else { &next.test };
                if test.rows() > 0 {
                    let said = model.predict(test.view())?;
                    count.0 += said.iter().zip(test.labels()).filter(|(a, b)| a == b).count();
                    count.1 += test.rows();
                }
            }
        }
        let percent =
            |&(right, rows): &(usize, usize)| (1e3 * right as f64 / rows.max(1) as f64).round() / 10.0;
        all.insert(name.into(), steps.iter().map(percent).collect());
    }
    Ok(Value::Object(all))
}
