//! Measures what an attacker learns from an owner's output through made-up rows: `cargo run --package
//! flyswarm-lab --example xclp-attacks` (four minutes).
//!
//! Five owners have the digits, and the first one attacks with made-up rows. The attacker's output is that of
//! the integer reference, which the computation on shares equals bit for bit. The attacker is *optimistic*:
//! it knows far more than an owner does. It wants the row of one *victim*. There are two ways to find the
//! cosines between its made-up rows and the victim:
//!
//! - *algebra*: the attacker knows every row, weight and score except the victim's weights. With a =
//!   D^-1/2 z, (D - alpha W) a = D^1/2 y. So each unlabelled row i of the attacker gives, for every
//!   class, an equation for the weight w of the edge from i to the victim v: w (a_i - alpha a_v) = alpha
//!   S - d a_i. Here S and d are sums over all other edges. If scores are rounded, the attacker also
//!   knows the sum of the row.
//! - *line*: the best line through the scores of the attacker's rows, fitted to the true cosines. *Chance* is
//!   the same with the scores of the rows shuffled. It shows what the fit alone achieves.
//!
//! The victim's row follows from the cosines by least squares, with the best regularisation. Each number
//! is the mean over victims of the cosine between the rebuilt row and the true row.

use flyswarm_data::Dataset;
use flyswarm_data::digits::digits;
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::Reference;
use flyswarm_mpc::propagation::integer::{Plan, Settings, VALUE_BITS, WEIGHT_BITS};
use flyswarm_mpc::shares::input::{Announced, parcels, unpack};
use flyswarm_mpc::shares::program::{Outcome, run};
use flyswarm_mpc::shares::{Context, in_memory};
use flyswarm_sealed_sum::crypto::stream::Stream;
use rayon::prelude::*;
use zeroize::Zeroizing;

const OWNERS: usize = 5;
const FEATURES: usize = 64;
const CLASSES: usize = 10;
const BITS: usize = 4096;
/// Number of neighbours of a point, and of made-up rows.
const K: usize = 50;
const VICTIMS: usize = 8;
/// Divisor for the differences of made-up rows: these rows differ from the attacker's own row in every
/// feature by about its length / SPREAD.
const SPREAD: f64 = 20.0;
/// There are more steps than in a session. So raw scores are exact enough for the algebra.
const SETTINGS: Settings =
    Settings { k: K, bits: BITS as u32, alpha: 0.99, steps: 140, power: 1, balance: false };

type Row = Vec<f64>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn unit(row: &[f64]) -> Row {
    let length = dot(row, row).sqrt().max(1e-12);
    row.iter().map(|x| x / length).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(&unit(a), &unit(b))
}

/// Returns an approximately normal number.
fn noise(stream: &mut Stream) -> f64 {
    (0..12).map(|_| f64::from(stream.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0
}

/// Rows and labels of a session, and its reference.
struct Session {
    labels: Vec<Option<u16>>,
    reference: Reference,
}

impl Session {
    fn new(rows: &[Row], labels: Vec<Option<u16>>, settings: Settings, draw: u8) -> Self {
        let values = rows.iter().flatten().map(|&x| x as f32).collect();
        let data = Dataset::new(FEATURES, values, Vec::new(), Vec::new()).expect("rows");
        let codes = Codes::of(&data, &[draw; 32], BITS).expect("codes");
        let plan = Plan::new(rows.len(), CLASSES, settings).expect("fits");
        let reference = Reference::new(&plan, &codes, &labels);
        Self { labels, reference }
    }

    fn points(&self) -> usize {
        self.labels.len()
    }

    fn weight(&self, i: usize, j: usize) -> f64 {
        self.reference.graph[i * self.points() + j] as f64 / f64::from(1u32 << WEIGHT_BITS)
    }

    /// Returns the scores of a row, rounded to `bits` bits of its sum; `None` means no rounding.
    fn scores(&self, i: usize, bits: Option<u32>) -> Row {
        let raw = self.reference.scores[i * CLASSES..][..CLASSES].iter();
        let raw: Row = raw.map(|&t| t as f64 / f64::from(1u32 << VALUE_BITS)).collect();
        let Some(bits) = bits else { return raw };
        let (sum, one) = (raw.iter().map(|t| t.max(0.0)).sum::<f64>(), f64::from(1u32 << bits));
        raw.iter().map(|t| (t.max(0.0) / sum * one).round() / one * sum).collect()
    }

    /// Returns the cosine of an edge to the victim that the optimistic attacker computes from the scores
    /// of row i.
    fn found(&self, i: usize, victim: usize, bits: Option<u32>) -> Option<f64> {
        let truth = self.weight(i, victim);
        if truth == 0.0 {
            return None;
        }
        let others = || (0..self.points()).filter(|&j| j != victim && self.weight(i, j) > 0.0);
        let degree: f64 = others().map(|j| self.weight(i, j)).sum();
        let (own, foreign) = (self.scores(i, bits), self.scores(victim, None));
        let (mut above, mut below) = (0.0, 0.0);
        for class in 0..CLASSES {
            let sum: f64 = others().map(|j| self.weight(i, j) * self.scores(j, None)[class]).sum();
            let a = own[class] - SETTINGS.alpha * foreign[class];
            above += a * (SETTINGS.alpha * sum - degree * own[class]);
            below += a * a;
        }
        // An edge counts twice if each of its points is a neighbour of the other. The attacker knows these
        // edges.
        let near = |i: usize, j: usize| self.reference.neighbours[i * K..][..K].contains(&j);
        let twice = if near(i, victim) && near(victim, i) { 2.0 } else { 1.0 };
        Some((above / below / twice).clamp(0.0, 1.0))
    }
}

/// Returns the v that minimises |v - start|^2 lambda + sum (u_i v - t_i)^2.
fn least_squares(rows: &[Row], targets: &[f64], start: &[f64], lambda: f64) -> Row {
    let width = start.len();
    let mut matrix = vec![vec![0.0; width + 1]; width];
    for (f, line) in matrix.iter_mut().enumerate() {
        for (row, target) in rows.iter().zip(targets) {
            (0..width).for_each(|g| line[g] += row[f] * row[g]);
            line[width] += row[f] * (target - dot(row, start));
        }
        line[f] += lambda;
    }
    for pivot in 0..width {
        let (done, rest) = matrix.split_at_mut(pivot + 1);
        let line = &done[pivot];
        for other in rest {
            let factor = other[pivot] / line[pivot];
            (pivot..=width).for_each(|g| other[g] -= factor * line[g]);
        }
    }
    let mut change = vec![0.0; width];
    for f in (0..width).rev() {
        let known: f64 = (f + 1..width).map(|g| matrix[f][g] * change[g]).sum();
        change[f] = (matrix[f][width] - known) / matrix[f][f];
    }
    start.iter().zip(change).map(|(a, b)| a + b).collect()
}

/// Returns the best cosine that the angles give, over lambda, and with or without the attacker's nearest row
/// as the start.
fn rebuilt(rows: &[Row], targets: &[f64], own: &[f64], truth: &[f64]) -> f64 {
    let starts = [vec![0.0; FEATURES], unit(own)];
    let lambdas = (-8..=4).map(|power| 10f64.powi(power));
    let ways = lambdas.flat_map(|lambda| starts.iter().map(move |start| (lambda, start)));
    ways.map(|(lambda, start)| cosine(&least_squares(rows, targets, start, lambda), truth))
        .fold(-1.0, f64::max)
}

/// Returns the values of the best line through `scores` for `targets`.
fn fitted(scores: &[Row], targets: &[f64]) -> Row {
    let line = least_squares(scores, targets, &vec![0.0; scores[0].len()], 1e-9);
    scores.iter().map(|scores| dot(scores, &line)).collect()
}

/// Way to make up rows from the attacker's row that is nearest to the victim.
#[derive(Clone, Copy)]
enum Made {
    /// Rows in all directions.
    Around,
    /// One row along each axis.
    Axes,
}

struct World {
    rows: Vec<Row>,
    truth: Vec<u16>,
    owner: Vec<usize>,
}

impl World {
    fn new(by_class: bool) -> Self {
        let data = digits();
        let row = |i: usize| data.row(i).iter().map(|&x| f64::from(x)).collect();
        let truth = data.labels().to_vec();
        // Rows are dealt in turn, or two classes to each owner.
        let owner = |i: usize| if by_class { usize::from(truth[i]) / 2 } else { i % OWNERS };
        let owner = (0..data.rows()).map(owner).collect();
        Self { rows: (0..data.rows()).map(row).collect(), truth, owner }
    }

    /// Gives five labels of each class; the row `without` stays unlabelled.
    fn labels(&self, without: usize) -> Vec<Option<u16>> {
        let mut left = [5; CLASSES];
        let of = |i: usize| {
            let class = usize::from(self.truth[i]);
            let given = left[class] > 0 && i % 7 == 3 && i != without;
            left[class] -= u32::from(given);
            given.then_some(self.truth[i])
        };
        (0..self.rows.len()).map(of).collect()
    }

    fn victims(&self) -> Vec<usize> {
        let foreign: Vec<usize> = (0..self.rows.len()).filter(|&i| self.owner[i] != 0).collect();
        (0..VICTIMS).map(|at| foreign[at * 97 % foreign.len()]).collect()
    }

    /// Returns the attacker's row that is nearest to a point.
    fn nearest(&self, victim: usize) -> &Row {
        let own = (0..self.rows.len()).filter(|&i| self.owner[i] == 0);
        let cosine = |i: &usize| cosine(&self.rows[*i], &self.rows[victim]);
        &self.rows[own.max_by(|a, b| cosine(a).total_cmp(&cosine(b))).expect("it has rows")]
    }

    /// Returns the cosines by algebra, by a line, and by chance, for each kind of output of `sessions`
    /// sessions.
    fn attack(&self, victim: usize, made: Made, sessions: u8, outputs: &[Option<u32>]) -> Vec<[f64; 3]> {
        let (own, mut stream) = (self.nearest(victim), Stream::new(&[victim as u8; 32], "made up", &[]));
        let (truth, length) = (&self.rows[victim], dot(own, own).sqrt());
        let mut rows = self.rows.clone();
        match made {
            Made::Around => (0..K).for_each(|_| {
                rows.push(own.iter().map(|x| x + length / SPREAD * noise(&mut stream)).collect());
            }),
            Made::Axes => (0..FEATURES).for_each(|axis| {
                let on = |(f, x): (usize, &f64)| if f == axis { x + length * 8.0 / SPREAD } else { *x };
                rows.push(own.iter().enumerate().map(on).collect());
            }),
        }
        let mut labels = self.labels(victim);
        labels.resize(rows.len(), None);
        let sessions: Vec<Session> =
            (0..sessions).map(|draw| Session::new(&rows, labels.clone(), SETTINGS, draw)).collect();
        let made_up: Vec<Row> = rows[self.rows.len()..].iter().map(|row| unit(row)).collect();
        let cosines: Row = made_up.iter().map(|row| cosine(row, truth)).collect();
        let of = |&bits: &Option<u32>| {
            let (mut used, mut targets) = (Vec::new(), Vec::new());
            let mut scores = Vec::new();
            for (at, row) in made_up.iter().enumerate() {
                let i = self.rows.len() + at;
                let found: Row =
                    sessions.iter().filter_map(|session| session.found(i, victim, bits)).collect();
                if !found.is_empty() {
                    used.push(row.clone());
                    targets.push(mean(found.into_iter()));
                }
                let each = |class: usize| mean(sessions.iter().map(|session| session.scores(i, bits)[class]));
                scores.push((0..CLASSES).map(each).chain([1.0]).collect::<Row>());
            }
            let line = rebuilt(&made_up, &fitted(&scores, &cosines), own, truth);
            let mut order = Stream::new(&[victim as u8; 32], "chance", &[]);
            flyswarm_data::deal::shuffle(&mut scores, &mut order);
            let chance = rebuilt(&made_up, &fitted(&scores, &cosines), own, truth);
            [rebuilt(&used, &targets, own, truth), line, chance]
        };
        outputs.iter().map(of).collect()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn rebuild() {
    const OUTPUTS: [(Option<u32>, &str); 4] =
        [(None, "raw"), (Some(12), "2^-12"), (Some(6), "2^-6, as in a session"), (Some(4), "2^-4")];
    let attacks = [
        ("50 rows around the nearest own one", false, Made::Around, 1, "raw 0.978, 2^-6 0.823, own 0.946"),
        ("64 rows along the axes", false, Made::Axes, 1, "raw 0.980, 2^-6 0.914, 2^-4 0.886"),
        ("50 rows, two classes at each owner", true, Made::Around, 1, "none"),
        ("50 rows in ten sessions", false, Made::Around, 10, "none"),
    ];
    for (name, by_class, made, sessions, design) in attacks {
        let world = World::new(by_class);
        let victims = world.victims();
        let kinds = OUTPUTS.map(|(bits, _)| bits);
        let found: Vec<_> =
            victims.iter().map(|&victim| world.attack(victim, made, sessions, &kinds)).collect();
        let own = mean(victims.iter().map(|&v| cosine(world.nearest(v), &world.rows[v])));
        println!("{name}: own nearest {own:.3} (design page: {design})");
        for (at, (_, output)) in OUTPUTS.iter().enumerate() {
            let of = |way: usize| mean(found.iter().map(|found| found[at][way]));
            println!("  {output:<20} algebra {:.3}, line {:.3}, chance {:.3}", of(0), of(1), of(2));
        }
    }
}

/// Returns ranks; equal values have their mean rank.
fn ranks(values: &[f64]) -> Row {
    let rank = |x: &f64| {
        let of = |less: fn(&f64, &f64) -> bool| values.iter().filter(|y| less(y, x)).count() as f64;
        (of(|y, x| y < x) + of(|y, x| y <= x)) / 2.0
    };
    values.par_iter().map(rank).collect()
}

fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let centred = |x: &[f64]| {
        let (ranks, middle) = (ranks(x), x.len() as f64 / 2.0);
        ranks.into_iter().map(|rank| rank - middle).collect::<Row>()
    };
    cosine(&centred(a), &centred(b))
}

/// The attacker enters copies of 200 foreign rows to measure the degrees of these rows.
fn degrees() {
    let world = World::new(false);
    let foreign: Vec<usize> = (0..world.rows.len()).filter(|&i| world.owner[i] != 0).step_by(7).collect();
    let mut rows = world.rows.clone();
    rows.extend(foreign.iter().map(|&i| world.rows[i].clone()));
    let mut labels = world.labels(usize::MAX);
    labels.resize(rows.len(), None);
    let session = Session::new(&rows, labels, Settings { k: 10, ..SETTINGS }, 1);
    let degree = |i: usize| session.reference.degrees[i] as f64;
    let copies = || world.rows.len()..rows.len();
    let truth: Row = foreign.iter().map(|&i| degree(i)).collect();
    let with_root = |i: usize| session.scores(i, None).iter().sum::<f64>() * degree(i).sqrt();
    let raw = |i: usize| session.scores(i, None).iter().sum::<f64>();
    let coarse = |i: usize| session.reference.output.coarse[i * CLASSES..][..CLASSES].to_vec();
    let largest = |i: usize| coarse(i).into_iter().max().map_or(0.0, f64::from);
    let classes = |i: usize| coarse(i).iter().filter(|&&q| q > 0).count() as f64;
    println!("copies of {} foreign rows as degree meters (design page: raw 0.99), Spearman:", foreign.len());
    let with = |f: &dyn Fn(usize) -> f64| spearman(&copies().map(f).collect::<Row>(), &truth).abs();
    println!("  scores times sqrt(d) {:.2}, without {:.2}", with(&with_root), with(&raw));
    println!("  as in a session: largest score {:.2}, classes above 0 {:.2}", with(&largest), with(&classes));
}

/// Measures whether an owner's own score reveals that a foreign neighbour of a class is near. The result is
/// the area under the curve.
fn neighbours() {
    let world = World::new(false);
    let session = Session::new(&world.rows, world.labels(usize::MAX), Settings { k: 10, ..SETTINGS }, 1);
    let (mut near, mut far) = ([0f64; 65], [0f64; 65]);
    for i in (0..world.rows.len()).filter(|&i| world.owner[i] == 0) {
        for class in 0..CLASSES {
            let has = |j: usize| usize::from(world.truth[j]) == class && session.weight(i, j) > 0.0;
            let any = (0..world.rows.len()).any(|j| world.owner[j] != 0 && has(j));
            let score = usize::from(session.reference.output.coarse[i * CLASSES + class]);
            if any { near[score] += 1.0 } else { far[score] += 1.0 }
        }
    }
    let (mut below, mut area) = (0.0, 0.0);
    for score in 0..=64 {
        area += near[score] * (below + far[score] / 2.0);
        below += far[score];
    }
    let area = area / below / near.iter().sum::<f64>();
    println!("a foreign neighbour of a class is near, from the own score: AUC {area:.3} (design page: 0.97)");
}

/// Runs the three computing members with two different copies of one share.
fn copies() {
    const ROWS: usize = 12;
    const SMALL: usize = 64;
    let words: Vec<u64> = (1..=2 * ROWS as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let made = |place: usize| {
        let codes = Codes::from_words(SMALL, words[place * ROWS..][..ROWS].to_vec()).expect("words");
        let seeds = [1, 2, 3].map(|seed| Zeroizing::new([seed; 32]));
        parcels(&codes, &[Some(0); ROWS], 2, place, &seeds)
    };
    let settings = Settings { k: 3, bits: SMALL as u32, alpha: 0.1, steps: 3, power: 1, balance: false };
    let plan = Plan::new(2 * ROWS, 2, settings).expect("fits");
    let owners = [made(0), made(1)];
    let said = owners.each_ref().map(|parcels| Announced::of([0; 32], parcels));
    // The share that the owner at place 1 sends as words is the last part of the parcel for party 0.
    let labels = 8 * ROWS;
    for (name, from_end) in [("another bit of a code", labels + 3), ("another label", 3)] {
        let run = in_memory(1, |context: Context| {
            let party = context.role();
            let inputs = [0, 1].map(|owner| {
                let mut parcel = owners[owner][party].to_vec();
                if (owner, party) == (1, 0) {
                    let at = parcel.len() - 1 - from_end;
                    parcel[at] ^= 1;
                }
                unpack(&parcel, party, &said[owner], ROWS, SMALL, 2).expect("a parcel")
            });
            Box::pin(run(context, plan, inputs.to_vec()))
        });
        let blamed = run.results[0] == Outcome::Cheats(vec![1]);
        let ended = !run.results.iter().any(|outcome| matches!(outcome, Outcome::Sealed(_)));
        let what = if blamed && ended {
            "the computing member that has it blames the owner, and nothing is computed"
        } else {
            "NOT FOUND"
        };
        println!("{name} in one of two copies: {what}");
    }
}

fn main() {
    copies();
    neighbours();
    degrees();
    rebuild();
}
