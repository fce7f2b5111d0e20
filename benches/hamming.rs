//! Measures secure Hamming distances between two owners on one core: `cargo bench --bench hamming
//! --no-default-features [-- --json] [--rows 500]`.
//! --no-default-features [-- --json] [--rows 500]`.
//!
//! By default, it measures one block of the paper (section 4.2): 500 points of each owner, 512 features, L =
//! 4,096. Each figure is in CPU seconds. It is the least of several runs, scaled to the whole block.

#![allow(missing_docs)]

use bytes::Bytes;
use cpu_time::ThreadTime;
use flyswarm::data::Dataset;
use flyswarm::tasks::xclp::hamming::{ot, phe, transposed};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::ot::base::{Sender as Base, choose};
use flyswarm_mpc::ot::extension::{Receiver, Sender};
use flyswarm_mpc::phe::{Holder, Public};
use flyswarm_sealed_sum::crypto::stream::Stream;
use serde_json::{Map, Value, json};

const FEATURES: usize = 512;
const BITS: usize = 4096;

/// CPU seconds of each stage, in the order of measurement.
struct Costs {
    json: bool,
    seconds: Map<String, Value>,
}

impl Costs {
    /// Runs the work `runs` times on this thread, and records `scale` times the least CPU seconds. Returns
    /// the result of the last run.
    fn least<T>(&mut self, name: &str, (runs, scale): (usize, f64), mut work: impl FnMut() -> T) -> T {
        let mut best = f64::INFINITY;
        let mut last = None;
        for _ in 0..runs {
            let start = ThreadTime::now();
            last = Some(work());
            best = best.min(start.elapsed().as_secs_f64());
        }
        self.seconds.insert(name.into(), json!(scale * best));
        if !self.json {
            println!("{name:<46} {:9.4} s", scale * best);
        }
        last.expect("at least one run")
    }

    /// Returns the sum of all stages whose names have this prefix.
    fn sum(&self, prefix: &str) -> f64 {
        self.seconds
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .filter_map(|(_, value)| value.as_f64())
            .sum()
    }
}

fn data(rows: usize, salt: u8) -> Dataset {
    let mut stream = Stream::new(&[salt; 32], "bench", &[]);
    let values = (0..rows * FEATURES).map(|_| stream.below(2001) as f32 / 1000.0 - 1.0).collect();
    Dataset::new(FEATURES, values, Vec::new(), Vec::new()).expect("rows")
}

fn codes(rows: usize, salt: u8) -> Codes {
    Codes::of(&data(rows, salt), b"planes", BITS).expect("whole words")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, usual: usize| {
        let place = arguments.iter().position(|argument| argument == name);
        place.map_or(usual, |place| arguments[place + 1].parse().expect("a number"))
    };
    let rows = number("--rows", 500);
    assert!((1..=512).contains(&rows), "rows of one group of ciphertexts");
    let mut costs =
        Costs { json: arguments.iter().any(|argument| argument == "--json"), seconds: Map::new() };
    // The work and the clock are on one thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| measure(&mut costs, rows));
    if costs.json {
        let whole = json!({
            "rows": rows, "features": FEATURES, "bits": BITS, "seconds": costs.seconds,
        });
        println!("{whole}");
    } else {
        let transfers = (rows * BITS) as f64 / 1e6 / costs.sum("ot.");
        println!(
            "by oblivious transfer {transfers:.2} million transfers of {rows} words a second and core, both sides"
        );
    }
}

fn measure(costs: &mut Costs, rows: usize) {
    let own = data(rows, 1);
    let a = costs.least("codes", (5, 1.0), || Codes::of(&own, b"planes", BITS).expect("whole words"));
    let b = codes(rows, 2);
    let expected = costs.least("plain", (10, 1.0), || a.distances(&b));
    transfers(costs, &a, &b, &expected);
    encryption(costs, &a, &b, &expected);
}

/// Measures a block by oblivious transfer. It computes only some of the receiver's rows, because each row
/// costs the same.
fn transfers(costs: &mut Costs, a: &Codes, b: &Codes, expected: &[u16]) {
    let (context, rows, others) = ([7; 32], a.rows().min(20), b.rows());
    let (receiver, sender) = costs.least("ot.base transfers", (3, 1.0), || {
        let base = Base::new(&context, &[8; 32]);
        let (reply, chosen) =
            choose(&context, &base.message(), ot::choices(&[9; 32]), &[9; 32]).expect("a point");
        let keys = base.keys(&reply).expect("points");
        (Receiver::new(&context, &keys), Sender::new(&context, ot::choices(&[9; 32]), &chosen))
    });
    let vectors = costs.least("ot.vectors", (3, 1.0), || ot::vectors(b));
    let cut = ot::Cut::new(rows, others, BITS);
    let pieces: Vec<_> = (0..cut.pieces()).map(|index| cut.piece(index)).collect();
    let times = (3, a.rows() as f64 / rows as f64);
    let columns = costs.least("ot.columns", times, || {
        pieces.iter().map(|&piece| ot::columns(&receiver, cut, piece, a)).collect::<Vec<_>>()
    });
    let sent = costs.least("ot.strings", times, || {
        let pieces = pieces.iter().zip(&columns);
        pieces.map(|(&piece, columns)| ot::send(&sender, cut, piece, columns, &vectors)).collect::<Vec<_>>()
    });
    let received = costs.least("ot.receiving", times, || {
        let pieces = pieces.iter().zip(&sent);
        pieces
            .map(|(&piece, (strings, _))| ot::receive(&receiver, cut, piece, a, strings))
            .collect::<Vec<_>>()
    });
    let mut sums = [vec![0u16; rows * others], vec![0u16; rows * others]];
    for ((piece, one), (_, two)) in pieces.iter().zip(&received).zip(&sent) {
        for (sums, part) in sums.iter_mut().zip([one, two]) {
            sums[piece.row * others..].iter_mut().zip(part).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
        }
    }
    let theirs = transposed(&ot::sender_share(b, &sums[1]), rows);
    let sum: Vec<u16> = sums[0].iter().zip(theirs).map(|(x, y)| x.wrapping_add(y)).collect();
    assert_eq!(sum, expected[..rows * others], "the shares add up to the distances");
}

/// Measures a block by homomorphic encryption: all ciphertexts, and the evaluator's answers for the rows of
/// one job.
fn encryption(costs: &mut Costs, a: &Codes, b: &Codes, expected: &[u16]) {
    let (groups, rows) =
        (phe::Groups { holder: a.rows(), evaluator: b.rows(), bits: BITS }, b.rows().min(32));
    let holder = costs.least("phe.key", (3, 1.0), || Holder::new(&[8; 32]));
    let public = Public::new(&holder.public_key()).expect("a key");
    let ciphertexts = costs.least("phe.encrypting", (2, 1.0), || {
        let numbers = groups.ciphertexts(0);
        numbers.map(|number| phe::encrypt(&holder, groups, number, a).into()).collect::<Vec<Bytes>>()
    });
    let times = (2, b.rows() as f64 / rows as f64);
    let answers = costs.least("phe.answering", times, || {
        phe::answers(&public, groups, (0, &ciphertexts), (b, 0..rows), &[9; 32]).expect("ciphertexts")
    });
    let layout = groups.layout(0);
    let opened = costs.least("phe.decrypting", times, || {
        let opened = answers.iter().map(|(answer, _)| holder.decrypt(layout, answer).expect("an answer"));
        opened.collect::<Vec<_>>()
    });
    for (row, ((_, masks), opened)) in answers.iter().zip(&opened).enumerate() {
        let shares = phe::holder_share(a, 0..a.rows(), opened).zip(phe::evaluator_share(b.row(row), masks));
        for (place, (x, y)) in shares.enumerate() {
            assert_eq!(
                x.wrapping_add(y),
                expected[place * b.rows() + row],
                "the shares add up to the distances"
            );
        }
    }
}
