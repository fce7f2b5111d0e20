//! What XCLP's stages cost on one core: `cargo bench --bench xclp --no-default-features`.
//!
//! The size of one round of the paper (section 4.2): 5 owners of 500 points, 512 features, L = 4,096, 10 classes. CPU time, least of several runs.

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

const ROWS: usize = 500;
const FEATURES: usize = 512;
const BITS: usize = 4096;
const CLASSES: usize = 10;

/// Seconds of this thread: the least of `runs`, and what the last run gave.
fn least<T>(runs: usize, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..runs {
        let start = ThreadTime::now();
        last = Some(work());
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best, last.expect("at least one run"))
}

fn rows(n: usize, salt: u8) -> Dataset {
    let mut stream = Stream::new(&[salt; 32], "bench", &[]);
    let values = (0..n * FEATURES).map(|_| stream.below(2001) as f32 / 1000.0 - 1.0).collect();
    Dataset::new(FEATURES, values, Vec::new(), Vec::new()).expect("rows")
}

fn main() {
    // Work and clock on one thread.
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread").install(measure);
}

fn measure() {
    let (codes_s, a) = least(5, || Codes::of(&rows(ROWS, 1), b"planes", BITS).expect("whole words"));
    let b = Codes::of(&rows(ROWS, 2), b"planes", BITS).expect("whole words");
    println!("codes of {ROWS} rows, {FEATURES} features, L = {BITS}: {codes_s:.3} s");
    let (plain_s, _) = least(10, || a.distances(&b));
    println!("plain distances, {ROWS} x {ROWS}: {:.4} s", plain_s);

    let (left, right) = ([1; 32], [2; 32]);
    let (deal_s, y) = least(10, || dealer::deal(&left, &right, (ROWS, ROWS), BITS));
    let (hide_s, d) = least(10, || dealer::hide(&a, &left));
    let e = dealer::hide(&b, &right);
    let (left_s, one) = least(10, || dealer::left_share(&a, &left, &e));
    let (right_s, two) = least(10, || dealer::right_share(&b, &d, &y));
    let sum: Vec<u16> = one.iter().zip(&two).map(|(x, y)| x.wrapping_add(*y)).collect();
    assert_eq!(sum, a.distances(&b), "the shares add up to the distances");
    let all = deal_s + 2.0 * hide_s + left_s + right_s;
    let gbit = (ROWS * ROWS * BITS) as f64 / 1e9;
    println!(
        "secure distances by a dealt triple: {:.1} Gbit of code compared per second and core (target 10), all three roles: dealer {deal_s:.4} s, \
         hiding 2 x {hide_s:.4} s, shares {left_s:.4} s and {right_s:.4} s; {:.0} times the plain distances",
        gbit / all,
        all / plain_s,
    );

    transfers(&a, &b);
    encryption(&a, &b);

    let blinding = Blinding::new(&[3; 32], Ballot { counter: 1, proposer: Peer(0) }, Peer(0), Peer(1), ROWS);
    let (blind_s, mine) = least(10, || blinding.blind(Sign::Add, &one));
    let theirs = blinding.blind(Sign::Subtract, &two);
    let (keep_s, kept) = least(10, || custody::distances(&mine, &theirs, BITS).expect("distances"));
    let (smallest_s, _) = least(10, || custody::smallest(&[&kept], ROWS, 10));
    println!("custody of a block: blinding 2 x {blind_s:.4} s, adding {keep_s:.4} s, smallest {smallest_s:.4} s");

    let points = 5 * ROWS;
    let codes = Codes::of(&rows(points, 4), b"planes", BITS).expect("whole words");
    let (edges_s, found) = least(2, || edges(&codes, 10));
    let (graph_s, graph) = least(5, || Graph::new(points, BITS, 1, &found));
    let series = Series::new(0.99, 1e-5, points);
    let share: Vec<i128> = (0..points * CLASSES).map(|i| if i % 97 == 0 { ONE } else { 0 }).collect();
    let (apply_s, _) = least(3, || series.apply(&graph, &share, CLASSES));
    println!(
        "{points} points, {} edges in one place {edges_s:.3} s; graph {graph_s:.4} s; {} steps on a share of {CLASSES} classes {apply_s:.3} s",
        found.len(),
        series.steps(),
    );
}

/// The same by oblivious transfer: some of the receiver's rows, of which each costs as much.
fn transfers(a: &Codes, b: &Codes) {
    let (context, rows) = ([7; 32], 20);
    let (base_s, (receiver, sender)) = least(3, || {
        let base = Base::new(&context, &[8; 32]);
        let (reply, chosen) = choose(&context, &base.message(), ot::choices(&[9; 32]), &[9; 32]).expect("a point");
        let keys = base.keys(&reply).expect("points");
        (Receiver::new(&context, keys), Sender::new(&context, ot::choices(&[9; 32]), chosen))
    });
    let (vectors_s, vectors) = least(3, || ot::vectors(b));
    let cut = ot::Cut::new(rows, ROWS, BITS);
    let pieces: Vec<_> = (0..cut.pieces()).map(|index| cut.piece(index)).collect();
    let (columns_s, columns) =
        least(3, || pieces.iter().map(|&piece| ot::columns(&receiver, cut, piece, a)).collect::<Vec<_>>());
    let (send_s, sent) = least(3, || {
        let pieces = pieces.iter().zip(&columns);
        pieces.map(|(&piece, columns)| ot::send(&sender, cut, piece, columns, &vectors)).collect::<Vec<_>>()
    });
    let (receive_s, received) = least(3, || {
        let pieces = pieces.iter().zip(&sent);
        pieces.map(|(&piece, (strings, _))| ot::receive(&receiver, cut, piece, a, strings)).collect::<Vec<_>>()
    });
    let mut sums = [vec![0u16; rows * ROWS], vec![0u16; rows * ROWS]];
    for ((piece, one), (_, two)) in pieces.iter().zip(&received).zip(&sent) {
        for (sums, part) in sums.iter_mut().zip([one, two]) {
            sums[piece.row * ROWS..].iter_mut().zip(part).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
        }
    }
    let theirs = custody::transposed(&ot::sender_share(b, &sums[1]), rows);
    let sum: Vec<u16> = sums[0].iter().zip(theirs).map(|(x, y)| x.wrapping_add(y)).collect();
    assert_eq!(sum, a.distances(b)[..rows * ROWS], "the shares add up to the distances");
    let scale = ROWS as f64 / rows as f64;
    let mega = (rows * BITS) as f64 / 1e6;
    println!(
        "secure distances by oblivious transfer: base transfers {base_s:.3} s, vectors {vectors_s:.3} s; a block: columns {:.2} s, strings {:.2} s, receiving {:.2} s \
         ({:.1} million transfers of {ROWS} words a second and core, both sides together)",
        columns_s * scale,
        send_s * scale,
        receive_s * scale,
        mega / (columns_s + send_s + receive_s),
    );
}

/// The same by homomorphic encryption: all ciphertexts, and the answers for as many of the evaluator's rows as one job takes.
fn encryption(a: &Codes, b: &Codes) {
    let (groups, rows) = (phe::Groups { holder: ROWS, evaluator: ROWS, bits: BITS }, 32);
    let (key_s, holder) = least(3, || Holder::new(&[8; 32]));
    let public = Public::new(&holder.public_key()).expect("a key");
    let (encrypt_s, ciphertexts) = least(2, || {
        let numbers = groups.ciphertexts(0);
        numbers.map(|number| phe::encrypt(&holder, groups, number, a).into()).collect::<Vec<Bytes>>()
    });
    let (answer_s, answers) =
        least(2, || phe::answers(&public, groups, (0, &ciphertexts), (b, 0..rows), &[9; 32]).expect("ciphertexts"));
    let layout = groups.layout(0);
    let (open_s, opened) = least(2, || {
        let opened = answers.iter().map(|(answer, _)| holder.decrypt(layout, answer).expect("an answer"));
        opened.collect::<Vec<_>>()
    });
    let distances = a.distances(b);
    for (row, ((_, masks), opened)) in answers.iter().zip(&opened).enumerate() {
        let shares = phe::holder_share(a, 0..ROWS, opened).zip(phe::evaluator_share(b.row(row), masks));
        for (place, (x, y)) in shares.enumerate() {
            assert_eq!(x.wrapping_add(y), distances[place * ROWS + row], "the shares add up to the distances");
        }
    }
    let scale = ROWS as f64 / rows as f64;
    println!(
        "secure distances by homomorphic encryption: key {key_s:.3} s; a block: encrypting {encrypt_s:.2} s, answering {:.2} s, decrypting {:.2} s",
        answer_s * scale,
        open_s * scale,
    );
}
