//! Cost of XCLP on shares. `cargo bench --bench shares` measures the kernels, with
//! `RAYON_NUM_THREADS=1` on one core. `-- whole [points]` measures the whole computation by three
//! parties in one process, stage by stage, and compares it with the sum of its kernels. `-- proofs
//! [points] [once]` compares it with and without proofs. CPU seconds and bytes are those of one party.

#![allow(missing_docs)]

use std::hint::black_box;

use cpu_time::ProcessTime;
use divan::Bencher;
use divan::counter::ItemsCount;
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::{Output, Reference};
use flyswarm_mpc::propagation::integer::{Plan, Settings};
use flyswarm_mpc::shares::input::{Announced, Inputs, parcels, unpack};
use flyswarm_mpc::shares::memory::watched;
use flyswarm_mpc::shares::output::{Sealed, unseal};
use flyswarm_mpc::shares::permutation::Permutations;
use flyswarm_mpc::shares::program::{Outcome, boxed, run};
use flyswarm_mpc::shares::proofs::cube;
use flyswarm_mpc::shares::proofs::extension::{Extension, Galois, Gf64};
use flyswarm_mpc::shares::proofs::gates::Gates;
use flyswarm_mpc::shares::round::Side;
use flyswarm_mpc::shares::{Bits, Context, Keys, Ring, Shared, Xor, chebyshev, round};
use flyswarm_mpc::{lanes, product};
use flyswarm_sealed_sum::crypto::stream::Stream;
use pulp::Arch;
use zeroize::Zeroizing;

const BITS: usize = 4096;
const CLASSES: usize = 10;

fn words(count: usize, salt: u8) -> Vec<u64> {
    let mut bytes = vec![0; 8 * count];
    Stream::new(&[salt; 32], "bench", &[]).fill(&mut bytes);
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

fn settings(alpha: f64, steps: usize) -> Settings {
    Settings { k: 10, bits: BITS as u32, alpha, steps, power: 1, balance: false }
}

/// Measures multiply-adds mod 2^16: 512 x 512 rows of 4,096 words.
#[divan::bench(args = machines())]
fn product_u16(bencher: Bencher<'_, '_>, machine: &Machine) {
    let rows: Vec<u16> =
        words(512 * BITS / 4, 1).iter().flat_map(|w| [0, 16, 32, 48].map(|s| (w >> s) as u16)).collect();
    bencher
        .counter(ItemsCount::new(512 * 512 * BITS))
        .bench(|| product::product_on(machine.0, black_box(&rows), black_box(&rows), BITS));
}

/// Measures multiply-adds mod 2^64: two matrices of 2,048 x 2,048 by 10 columns.
#[divan::bench(args = machines())]
fn product_u64(bencher: Bencher<'_, '_>, machine: &Machine) {
    let (n, columns) = (2048, 10);
    let (v, w, x, y) = (words(n * n, 1), words(n * n, 2), words(n * columns, 3), words(n * columns, 4));
    let of = |x| black_box(x);
    bencher
        .counter(ItemsCount::new(2 * n * n * columns))
        .bench(|| chebyshev::product_on(machine.0, of(&v), of(&w), of(&x), of(&y), columns));
}

/// Instruction set of this machine.
struct Machine(Arch);

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match format!("{:?}", self.0).split('(').next() {
            Some("V3") => "AVX2",
            Some("V4") => "AVX-512",
            _ => "any",
        })
    }
}

fn machines() -> impl Iterator<Item = Machine> {
    lanes::machines().into_iter().map(Machine)
}

/// Measures this party's local part of an `and`, by bits.
#[divan::bench]
fn and(bencher: Bencher<'_, '_>) {
    let of = |salt| words(1 << 14, salt).into_iter().map(Xor).collect::<Vec<Bits>>();
    let (x, y) = (Shared { own: of(1), next: of(2) }, Shared { own: of(3), next: of(4) });
    bencher.counter(ItemsCount::new(64usize << 14)).bench(|| black_box(&x).product(black_box(&y)));
}

/// Measures the masking of bits with a sum of zero, which draws two streams.
#[divan::bench]
fn mask(bencher: Bencher<'_, '_>) {
    let mut context = Context::new(round::Line::default(), Keys::new([1; 32], [2; 32], &[]), 0);
    let mut bits = words(1 << 14, 1);
    bencher.counter(ItemsCount::new(64usize << 14)).bench_local(|| context.step().mask(black_box(&mut bits)));
}

/// Returns `count` uniform elements.
fn elements<R: Extension>(count: usize) -> Vec<R> {
    let mut stream = Stream::new(&[5; 32], "bench", &[]);
    (0..count).map(|_| R::draw(&mut stream)).collect()
}

/// Measures sums of 64 products of elements, by products.
#[divan::bench(types = [Gf64, Galois<u16>, Galois<u64>])]
fn proof_products<R: Extension>(bencher: Bencher<'_, '_>) {
    let (a, b) = (elements::<R>(64), elements::<R>(64));
    bencher.counter(ItemsCount::new(64usize)).bench(|| R::inner(black_box(&a), black_box(&b)));
}

/// Measures the weighted sums of 8 vectors of 64 elements, by products.
#[divan::bench(types = [Gf64, Galois<u16>, Galois<u64>])]
fn proof_folds<R: Extension>(bencher: Bencher<'_, '_>) {
    let (a, weights) = (elements::<R>(512), elements::<R>(8));
    let vectors: Vec<&[R]> = a.chunks(64).collect();
    bencher.counter(ItemsCount::new(512usize)).bench(|| R::weighted(black_box(&vectors), &weights, 64));
}

/// Measures the first step of the prover, by words of one factor.
#[divan::bench(types = [Gf64, Galois<u16>, Galois<u64>])]
fn proof_values<R: Gates>(bencher: Bencher<'_, '_>) {
    let columns = 128;
    let draw = |salt| words(columns * R::GROUPS, salt).into_iter().map(R::Word::from_bits).collect();
    let (a, b, coins): (Vec<R::Word>, Vec<R::Word>, _) = (draw(1), draw(2), words(columns, 3));
    let mut values = vec![R::zero(); cube::values(R::VARIABLES)];
    let bencher = bencher.counter(ItemsCount::new(a.len()));
    bencher.bench_local(|| R::add_values(&mut values, &[(black_box(&a), black_box(&b), black_box(&coins))]));
}

/// Returns the CPU seconds of a call, the smallest of three.
fn cpu<T>(mut work: impl FnMut() -> T) -> f64 {
    let once = |_| {
        let start = ProcessTime::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..3).map(once).fold(f64::INFINITY, f64::min)
}

/// Returns the CPU seconds of the kernels of one party: its products, and the streams that mask the
/// data that it sends.
fn kernels(plan: &Plan, sent: u64) -> [(&'static str, f64); 4] {
    let n = plan.points();
    let bits = plan.settings().bits as usize;
    let rows: Vec<u16> =
        words(n * bits / 4, 1).iter().flat_map(|w| [0, 16, 32, 48].map(|s| (w >> s) as u16)).collect();
    // Two products for each pair.
    let half = &rows[..n / 2 * bits];
    let distances = cpu(|| product::product(half, &rows, bits)) * 2.0;
    let (v, x) = (words(n * n, 2), words(n * plan.classes(), 3));
    let step = cpu(|| chebyshev::product(&v, &v, &x, &x, plan.classes()));
    let permutations = cpu(|| Permutations::draw(&mut Stream::new(b"key", "bench", &[]), n, n)) * 2.0;
    let mut megabyte = vec![0; 1 << 20];
    let mut stream = Stream::new(b"key", "bench", &[]);
    let stream = cpu(|| stream.fill(&mut megabyte)) / (1 << 20) as f64;
    [
        ("u16 products", distances),
        ("u64 products", step * plan.settings().steps as f64),
        ("permutations of two keys", permutations),
        ("two streams for each byte sent", stream * 2.0 * sent as f64),
    ]
}

/// Points, their expected output, and the parcels of one owner that has all of them.
struct Case {
    plan: Plan,
    reference: Reference,
    parcels: [Zeroizing<Vec<u8>>; 3],
}

impl Case {
    fn new(points: usize) -> Self {
        let plan = Plan::new(points, CLASSES, settings(0.99, 60)).expect("fits");
        let width = BITS / 64;
        let mut code = words(points * width, 1);
        // Make clusters, so that there are labels to compare. The cost does not depend on the contents
        // of the rows.
        for point in CLASSES..points {
            for word in 0..width {
                let centre = code[point % CLASSES * width + word];
                let noise = code[point * width + word] & code[(point * 7 % points) * width + word];
                code[point * width + word] = centre ^ noise;
            }
        }
        let codes = Codes::from_words(BITS, code).expect("whole words");
        let labels: Vec<_> = (0..points).map(|i| (i % 50 < 10).then_some((i % CLASSES) as u16)).collect();
        let reference = Reference::new(&plan, &codes, &labels);
        let seeds = [1, 2, 3].map(|seed| Zeroizing::new([seed; 32]));
        let parcels = parcels(&codes, &labels, CLASSES, 0, &seeds);
        Self { plan, reference, parcels }
    }

    fn inputs(&self, number: usize) -> Inputs {
        let said = Announced::of([0; 32], &self.parcels);
        let points = self.plan.points();
        unpack(&self.parcels[number], number, &said, points, BITS, CLASSES).expect("a parcel")
    }

    fn output(&self, [zero, one, _]: &[Outcome; 3]) -> Output {
        let (Outcome::Sealed(zero), Outcome::Sealed(one)) = (zero, one) else { panic!("honest: {zero:?}") };
        let points = self.plan.points();
        let part = |party: usize, sealed: &Sealed| sealed.for_owner(party, 0..points);
        unseal(points, CLASSES, &part(0, zero), &part(1, one)).expect("an output")
    }
}

/// Measures the computation with and without proofs, in three turns or in one: CPU seconds of a party,
/// rounds, bytes.
fn proofs(points: usize, turns: usize) {
    let case = Case::new(points);
    let run = |proves: bool| {
        let program = |context: Context| {
            let inputs = vec![case.inputs(context.role())];
            boxed(context, case.plan, inputs, proves)
        };
        let start = ProcessTime::now();
        let done = watched(1, program, |_, _, _| {});
        let seconds = start.elapsed().as_secs_f64() / 3.0;
        assert_eq!(case.output(&done.results), case.reference.output, "equal to the reference bit for bit");
        println!(
            "{:<16}{seconds:>8.2} s CPU a party {:>8} rounds {:>8.1} MB sent by the party that sends most",
            if proves { "with proofs" } else { "without" },
            done.rounds,
            *done.sent.iter().max().expect("three") as f64 / 1e6,
        );
        seconds
    };
    let ratios: Vec<f64> = (0..turns).map(|_| (run(false), run(true))).map(|(one, two)| two / one).collect();
    println!("{points} points: ratios {ratios:.2?}");
}

fn whole(points: usize) {
    let case = Case::new(points);
    let plan = case.plan;
    let program = |context: Context| {
        let inputs = case.inputs(context.role());
        Box::pin(run(context, plan, vec![inputs])) as round::Part<'_, Outcome>
    };
    // Use the fastest of three runs, as with the kernels, with the CPU seconds of all parties up to the
    // end of each round.
    let run = || {
        let (start, mut clock) = (ProcessTime::now(), vec![0.0]);
        let done = watched(1, program, |party, side, _| {
            if (party, side) == (2, Side::After) {
                clock.push(start.elapsed().as_secs_f64());
            }
        });
        clock.push(start.elapsed().as_secs_f64());
        (clock, done)
    };
    let (mut clock, mut done) = run();
    for _ in 0..2 {
        let again = run();
        if again.0.last() < clock.last() {
            (clock, done) = again;
        }
    }
    let seconds = clock.last().expect("an end") / 3.0;
    println!("{:<14}{:>10}{:>16}{:>10}", "stage", "rounds", "MB, most", "CPU s");
    let mut at = 0;
    for (stage, rounds, bytes) in done.stages() {
        // Work after the last round of a stage counts for the next stage.
        let end = at + rounds as usize;
        let seconds = (clock[end] - clock[at]) / 3.0;
        println!("{:<14}{rounds:>10}{:>16.2}{seconds:>10.2}", format!("{stage:?}"), bytes as f64 / 1e6);
        at = end;
    }
    println!("all           {:>10}{:>16?} MB sent", done.rounds, done.sent.map(|bytes| bytes as f64 / 1e6));
    assert_eq!(case.output(&done.results), case.reference.output, "equal to the reference bit for bit");
    println!("CPU a party   {seconds:>10.2} s, shares unpacked and compared");
    let kernels = kernels(&plan, done.sent[0]);
    for (name, seconds) in kernels {
        println!("  {name:<36}{seconds:>6.2} s");
    }
    let sum: f64 = kernels.iter().map(|kernel| kernel.1).sum();
    println!("  {:<36}{sum:>6.2} s, ratio {:.2}", "all kernels", seconds / sum);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let points = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(2500);
    let asked = |what: &str| arguments.iter().any(|argument| argument == what);
    match () {
        () if asked("whole") => whole(points),
        () if asked("proofs") => proofs(points, if asked("once") { 1 } else { 3 }),
        () => divan::main(),
    }
}
