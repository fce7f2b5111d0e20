//! What XCLP's stages cost on one core:
//! `cargo bench --bench xclp --no-default-features [-- --json] [--peers 5] [--rows 500]`.
//!
//! The size of one round of the paper (section 4.2) unless it is told another: 5 owners of 500 points each,
//! 512 features, L = 4,096, 10 classes. CPU seconds, least of several runs, each for as much as stands beside
//! it; `scripts/bench-xclp-stages.py` puts them together to rounds, beside numpy.

#![allow(missing_docs)]

use bytes::Bytes;
use cpu_time::ThreadTime;
use flyswarm::crypto::mask::Sign;
use flyswarm::crypto::ot::base::{Sender as Base, choose};
use flyswarm::crypto::ot::extension::{Receiver, Sender};
use flyswarm::crypto::phe::{Holder, Public};
use flyswarm::crypto::stream::Stream;
use flyswarm::data::Dataset;
use flyswarm::model::propagation::edges;
use flyswarm::model::propagation::graph::Graph;
use flyswarm::model::propagation::series::{ONE, Series};
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::xclp::custody::{self, Blinding};
use flyswarm::protocol::xclp::{dealer, ot, phe};
use flyswarm::session::Peer;
use flyswarm::sketch::lsh::Codes;
use serde_json::{Map, Value, json};

const FEATURES: usize = 512;
const BITS: usize = 4096;
const CLASSES: usize = 10;
const NEIGHBOURS: usize = 10;

/// Seconds by stage, in the order in which they were measured.
struct Costs {
    json: bool,
    seconds: Map<String, Value>,
}

impl Costs {
    /// Notes `scale` times the least seconds of this thread in `runs`, and gives what the last run gave.
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

    /// All stages whose names begin so.
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
    let (peers, rows) = (number("--peers", 5), number("--rows", 500));
    assert!((1..=512).contains(&rows), "rows of one group of ciphertexts");
    let mut costs =
        Costs { json: arguments.iter().any(|argument| argument == "--json"), seconds: Map::new() };
    // Work and clock on one thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| measure(&mut costs, peers, rows));
    let gbit = (rows * rows * BITS) as f64 / 1e9;
    let rate = gbit / costs.sum("dealer.");
    if costs.json {
        let whole = json!({
            "peers": peers, "rows": rows, "features": FEATURES, "bits": BITS, "classes": CLASSES, "neighbours": NEIGHBOURS,
            "seconds": costs.seconds,
        });
        println!("{whole}");
    } else {
        println!(
            "by a dealt triple {rate:.1} Gbit of code compared a second and core (target 10), all three roles"
        );
        let transfers = (rows * BITS) as f64 / 1e6 / costs.sum("ot.");
        println!(
            "by oblivious transfer {transfers:.2} million transfers of {rows} words a second and core, both sides"
        );
    }
}

fn measure(costs: &mut Costs, peers: usize, rows: usize) {
    let own = data(rows, 1);
    let a = costs.least("codes", (5, 1.0), || Codes::of(&own, b"planes", BITS).expect("whole words"));
    let b = codes(rows, 2);
    let expected = costs.least("plain", (10, 1.0), || a.distances(&b));
    let (one, two) = triples(costs, &a, &b, &expected);
    transfers(costs, &a, &b, &expected);
    encryption(costs, &a, &b, &expected);
    custody(costs, &one, &two, rows);
    in_one_place(costs, peers * rows);
}

/// A block of distances by a dealt triple; the shares.
fn triples(costs: &mut Costs, a: &Codes, b: &Codes, expected: &[u16]) -> (Vec<u16>, Vec<u16>) {
    let (left, right) = ([1; 32], [2; 32]);
    let rows = (a.rows(), b.rows());
    let y = costs.least("dealer.deals", (10, 1.0), || dealer::deal(&left, &right, rows, BITS));
    let d = costs.least("dealer.both hide", (10, 2.0), || dealer::hide(a, &left));
    let e = dealer::hide(b, &right);
    let one = costs.least("dealer.left share", (10, 1.0), || dealer::left_share(a, &left, &e));
    let two = costs.least("dealer.right share", (10, 1.0), || dealer::right_share(b, &d, &y));
    let sum: Vec<u16> = one.iter().zip(&two).map(|(x, y)| x.wrapping_add(*y)).collect();
    assert_eq!(sum, expected, "the shares add up to the distances");
    (one, two)
}

/// A block by oblivious transfer: some of the receiver's rows, of which each costs as much.
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
    let theirs = custody::transposed(&ot::sender_share(b, &sums[1]), rows);
    let sum: Vec<u16> = sums[0].iter().zip(theirs).map(|(x, y)| x.wrapping_add(y)).collect();
    assert_eq!(sum, expected[..rows * others], "the shares add up to the distances");
}

/// A block by homomorphic encryption: all ciphertexts, and the answers for as many of the evaluator's rows as
/// one job takes.
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

/// One side of a block, from its two owners by its custodian to the two propagators.
fn custody(costs: &mut Costs, one: &[u16], two: &[u16], rows: usize) {
    let blinding = Blinding::new(&[3; 32], Ballot { counter: 1, proposer: Peer(0) }, Peer(0), Peer(1), rows);
    let mine = costs.least("custody.both blind", (10, 2.0), || blinding.blind(Sign::Add, one));
    let theirs = blinding.blind(Sign::Subtract, two);
    let kept = costs
        .least("custody.adding", (10, 1.0), || custody::distances(&mine, &theirs, BITS).expect("distances"));
    let lists = costs.least("custody.smallest", (10, 1.0), || custody::smallest(&[&kept], rows, NEIGHBOURS));
    let limits = custody::limits(&[&lists], rows, NEIGHBOURS, BITS);
    costs.least("custody.shorter", (10, 1.0), || custody::shorter(&kept, &limits));
    costs.least("custody.both unblind", (10, 2.0), || {
        (0..rows as u32).map(|row| blinding.columns(row)).collect::<Vec<_>>()
    });
}

/// What needs every point: as a propagator does it, and from codes.
fn in_one_place(costs: &mut Costs, points: usize) {
    let codes = codes(points, 4);
    costs.least("one place.distances", (3, 1.0), || codes.distances(&codes));
    let found = costs.least("one place.edges", (3, 1.0), || edges(&codes, NEIGHBOURS));
    let graph = costs.least("one place.graph", (5, 1.0), || Graph::new(points, BITS, 1, &found));
    let series = Series::new(0.99, 1e-5, points);
    let share: Vec<i128> = (0..points * CLASSES).map(|i| if i % 97 == 0 { ONE } else { 0 }).collect();
    costs.least("one place.propagation", (3, 1.0), || series.apply(&graph, &share, CLASSES));
}
