//! An example for the package of shares. It prints transcripts of inputs of different sizes, and outputs to
//! compare with numpy. It can also insert a constant.
#![allow(clippy::all, missing_docs)]
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_mpc::propagation::integer::{Plan, Settings, enough_steps};
use flyswarm_mpc::shares::input::Inputs;
use flyswarm_mpc::shares::nearest::nearest;
use flyswarm_mpc::shares::output::unseal;
use flyswarm_mpc::shares::program::{Outcome, bits_of_distances, edges, run};
use flyswarm_mpc::shares::round::{Line, Part, Side};
use flyswarm_mpc::shares::{Context, Keys, Shared, Stage};
use std::io::Write as _;
use std::task::{Context as Wakeup, Poll, Waker};

type Msgs = Vec<Vec<u8>>; // for each round and side, at one party

/// Runs three parties. `tamper(round, sent)` may change the sent messages: sent[party][side].
fn drive<'a, T>(
    keys: [[u8; 32]; 3],
    program: &dyn Fn(usize, Context) -> Part<'a, T>,
    mut tamper: impl FnMut(u32, &mut [[Vec<u8>; 2]; 3]),
    see: usize,
) -> ([Option<T>; 3], Vec<[Vec<u8>; 2]>, Vec<(Stage, u32)>) {
    let lines: [Line; 3] = std::array::from_fn(|_| Line::default());
    let mut parties: Vec<Option<Part<'a, T>>> = (0..3)
        .map(|i| {
            Some(program(
                i,
                Context::new(lines[i].clone(), Keys::new(keys[i], keys[(i + 1) % 3], b"review"), i),
            ))
        })
        .collect();
    let mut results = [None, None, None];
    let mut seen = vec![];
    let mut round = 0;
    loop {
        for i in 0..3 {
            if let Some(r) = &mut parties[i] {
                if let Poll::Ready(v) = r.as_mut().poll(&mut Wakeup::from_waker(Waker::noop())) {
                    results[i] = Some(v);
                    parties[i] = None;
                }
            }
            lines[i].wire().settle();
        }
        if parties.iter().all(Option::is_none) {
            break;
        }
        if parties.iter().any(Option::is_none) {
            eprintln!("parties do not end together");
            break;
        }
        let mut sent = lines.each_ref().map(|l| l.wire().take());
        tamper(round, &mut sent);
        for i in 0..3 {
            let before = sent[(i + 2) % 3][Side::After as usize].clone();
            let after = sent[(i + 1) % 3][Side::Before as usize].clone();
            if i == see {
                seen.push([before.clone(), after.clone()]);
            }
            lines[i].wire().turn([before, after]);
        }
        round += 1;
    }
    let marks = lines[see].wire().marks().iter().map(|m| (m.stage, m.rounds)).collect();
    (results, seen, marks)
}

struct World {
    owners: Vec<usize>,
    codes: Vec<u16>,
    labels: Vec<u64>,
    bits: usize,
    classes: usize,
}

/// Inputs of the three parties: shares `fixed` and `fixed + 1` come from `seed`, the third is the rest.
fn inputs(w: &World, fixed: usize, seed: u8) -> [Vec<Inputs>; 3] {
    let n = w.owners.iter().sum::<usize>();
    let mut s = Stream::new(&[seed; 32], "tape", &[]);
    let mut sh: [(Vec<u16>, Vec<u64>); 3] = Default::default();
    for f in [fixed, (fixed + 1) % 3] {
        let a = (0..n * w.bits).map(|_| s.next_u32() as u16).collect();
        let b = (0..n * w.classes).map(|_| u64::from(s.next_u32()) << 32 | u64::from(s.next_u32())).collect();
        sh[f] = (a, b);
    }
    let (f, g, r) = (fixed, (fixed + 1) % 3, (fixed + 2) % 3);
    sh[r] = (
        (0..n * w.bits).map(|i| w.codes[i].wrapping_sub(sh[f].0[i]).wrapping_sub(sh[g].0[i])).collect(),
        (0..n * w.classes).map(|i| w.labels[i].wrapping_sub(sh[f].1[i]).wrapping_sub(sh[g].1[i])).collect(),
    );
    std::array::from_fn(|i| {
        let mut at = 0;
        w.owners
            .iter()
            .map(|&rows| {
                let (c, l) = (at * w.bits..(at + rows) * w.bits, at * w.classes..(at + rows) * w.classes);
                at += rows;
                Inputs {
                    codes: Shared { own: sh[i].0[c.clone()].to_vec(), next: sh[(i + 1) % 3].0[c].to_vec() },
                    labels: Shared { own: sh[i].1[l.clone()].to_vec(), next: sh[(i + 1) % 3].1[l].to_vec() },
                    distances: Shared::default(),
                }
            })
            .collect()
    })
}

fn world(kind: &str, owners: &[usize], bits: usize, classes: usize, seed: u8) -> World {
    let n: usize = owners.iter().sum();
    let mut s = Stream::new(&[seed; 32], "world", &[]);
    let centre: Vec<u16> = (0..bits).map(|_| (s.next_u32() & 1) as u16).collect();
    let codes = (0..n)
        .flat_map(|i| (0..bits).map(move |c| (i, c)))
        .map(|(_, c)| match kind {
            "equal" => centre[c],
            _ => {
                if s.next_u32() % 8 == 0 {
                    1 - centre[c]
                } else if kind == "random" {
                    (s.next_u32() & 1) as u16
                } else {
                    centre[c]
                }
            }
        })
        .collect();
    let labels = (0..n)
        .flat_map(|i| (0..classes).map(move |c| (i, c)))
        .map(|(i, c)| match kind {
            "equal" => u64::from(c == 0), // all labelled, one class
            "uneven" => {
                u64::from(c == if i == n - 1 { classes - 1 } else { 0 } && (i == n - 1 || i % 2 == 0))
            }
            "none" => 0,
            _ => u64::from(i % classes == c),
        })
        .collect();
    World { owners: owners.to_vec(), codes, labels, bits, classes }
}

fn stats(runs: u32) {
    let (bits, classes, k, alpha) = (128, 3, 3, 0.5);
    for (name, a, b, owners) in [
        (
            "all rows equal, all of class 0 | random, three classes, two owners",
            "equal",
            "random",
            vec![18usize, 19],
        ),
        (
            "one class has all labels but one, owner of 1 row | balanced random",
            "uneven",
            "random",
            vec![1usize, 18, 18],
        ),
        ("no label at all, two owners | all equal", "none", "equal", vec![20usize, 17]),
    ] {
        let n = owners.iter().sum();
        let plan = Plan::new(
            n,
            classes,
            Settings { k, bits: bits as u32, alpha, steps: enough_steps(alpha), power: 1, balance: true },
        )
        .unwrap();
        for party in 0..3usize {
            let mut counts: Vec<Vec<u32>> = vec![];
            let mut lens: Vec<Vec<usize>> = vec![];
            let mut xors: Vec<Vec<u32>> = vec![];
            for kind in [a, b] {
                let w = world(kind, &owners, bits, classes, 5);
                let ins = inputs(&w, party, 40);
                let (mut count, mut xor, mut len) = (vec![], vec![], vec![]);
                for r in 0..runs {
                    let mut keys = [[1u8; 32], [2; 32], [3; 32]];
                    keys[(party + 2) % 3] = {
                        let mut k = [9u8; 32];
                        k[..4].copy_from_slice(&r.to_le_bytes());
                        k[4] = kind.len() as u8;
                        k
                    };
                    let (res, seen, marks) =
                        drive(keys, &|i, c| Box::pin(run(c, plan, ins[i].clone())), |_, _| {}, party);
                    assert!(matches!(res[0], Some(Outcome::Sealed(_))));
                    let open = marks.iter().find(|m| m.0 == Stage::Compaction).unwrap().1 as usize + 3;
                    // In the round with the sums of the check, the sums add up to 0 and the parts are masked.
                    // So they are kept.
                    let input = 1usize;
                    let _ = input;
                    let mut bytes: Vec<u8> = vec![];
                    let mut l = vec![];
                    for (rd, both) in seen.iter().enumerate() {
                        for side in 0..2 {
                            l.push(both[side].len());
                            if rd != open {
                                bytes.extend(&both[side]);
                            }
                        }
                    }
                    if count.is_empty() {
                        count = vec![0u32; bytes.len() * 8];
                        xor = vec![0u32; bytes.len() * 8];
                        len = l.clone();
                    }
                    assert_eq!(len, l, "lengths");
                    for (i, &x) in bytes.iter().enumerate() {
                        for j in 0..8 {
                            count[8 * i + j] += u32::from(x >> j & 1);
                        }
                    }
                    for i in 8..bytes.len() {
                        let x = bytes[i] ^ bytes[i - 8];
                        for j in 0..8 {
                            xor[8 * i + j] += u32::from(x >> j & 1);
                        }
                    }
                }
                counts.push(count);
                xors.push(xor);
                lens.push(len);
            }
            assert_eq!(lens[0], lens[1], "two inputs, other lengths");
            let z = |c: u32| (f64::from(c) - f64::from(runs) / 2.0) / (f64::from(runs) / 4.0).sqrt();
            let sum = |c: &Vec<u32>| {
                let n = c.len() as f64;
                let m2 = c.iter().map(|&c| z(c) * z(c)).sum::<f64>() / n;
                let mx = c.iter().map(|&c| z(c).abs()).fold(0.0, f64::max);
                let cst = c.iter().filter(|&&c| c == 0 || c == runs).count();
                (m2, mx, cst)
            };
            let two: (f64, f64) = {
                let d = (f64::from(runs) / 2.0).sqrt();
                let zs = counts[0].iter().zip(&counts[1]).map(|(&a, &b)| (f64::from(a) - f64::from(b)) / d);
                let v: Vec<f64> = zs.collect();
                (
                    v.iter().map(|z| z * z).sum::<f64>() / v.len() as f64,
                    v.iter().map(|z| z.abs()).fold(0.0, f64::max),
                )
            };
            let (sa, sb, xa, xb) =
                (sum(&counts[0]), sum(&counts[1]), sum(&xors[0].split_off(64)), sum(&xors[1].split_off(64)));
            println!(
                "{name}; party {party}: {} bits; A mean z2 {:.4} max {:.2} const {}; B {:.4} {:.2} {}; A-B {:.4} {:.2}; xor of neighbouring words A {:.4} {:.2} {} B {:.4} {:.2} {}",
                counts[0].len(),
                sa.0,
                sa.1,
                sa.2,
                sb.0,
                sb.1,
                sb.2,
                two.0,
                two.1,
                xa.0,
                xa.1,
                xa.2,
                xb.0,
                xb.1,
                xb.2
            );
        }
    }
    // Marks of equal rows, where all distances tie: places that a row marks, and those that two rows share.
    let owners = vec![18usize, 19];
    let w = world("equal", &owners, bits, classes, 5);
    let plan = Plan::new(
        37,
        classes,
        Settings { k, bits: bits as u32, alpha, steps: enough_steps(alpha), power: 1, balance: false },
    )
    .unwrap();
    let mut hist = vec![0u32; 37 * 37];
    let (mut share, mut pairs) = (0u32, 0u32);
    let many = 400;
    for r in 0..many {
        let ins = inputs(&w, 0, 40);
        let mut keys = [[1u8; 32], [2; 32], [3; 32]];
        keys[2] = {
            let mut k = [8u8; 32];
            k[..4].copy_from_slice(&(r as u32).to_le_bytes());
            k
        };
        let plan = &plan;
        let (res, _, _) = drive(
            keys,
            &|i, mut c| {
                let codes = Shared::concat(ins[i].iter().map(|x| &x.codes));
                Box::pin(async move {
                    let ks = bits_of_distances(&mut c, plan, codes).await;
                    c.enter(Stage::Nearest);
                    let ch = nearest(&mut c, &ks, 37, 3).await;
                    let e = edges(&mut c, plan, ks, ch).await;
                    e.iter().flat_map(|e| e.places.clone()).collect::<Vec<usize>>()
                })
            },
            |_, _| {},
            0,
        );
        let places = res[0].clone().unwrap();
        assert_eq!(places.len(), 37 * 3);
        for (row, p) in places.chunks(3).enumerate() {
            for &x in p {
                hist[row * 37 + x] += 1;
            }
        }
        for i in 0..37 {
            for j in 0..i {
                share +=
                    places[3 * i..3 * i + 3].iter().filter(|x| places[3 * j..3 * j + 3].contains(x)).count()
                        as u32;
                pairs += 1;
            }
        }
    }
    let expect = f64::from(many) * 3.0 / 37.0;
    let chi: f64 =
        hist.iter().map(|&h| (f64::from(h) - expect).powi(2) / (expect * (1.0 - 3.0 / 37.0))).sum::<f64>()
            / (37.0 * 36.0);
    println!(
        "marks, all rows equal, {many} runs: chi2/dof {chi:.3}; two rows share {:.4} of 3 (chance {:.4})",
        f64::from(share) / f64::from(pairs),
        9.0 / 37.0
    );
}

fn configs(count: u8) {
    std::fs::create_dir_all("SCRATCH/xclp/cfg").unwrap();
    for number in 0..count {
        let mut s = Stream::new(&[number; 32], "cfg", &[]);
        let mut pick = |c: &[usize]| c[s.below(c.len() as u32) as usize];
        let alpha = [0.1, 0.5, 0.9, 0.99, 0.999][pick(&[0, 1, 2, 3, 3, 4])];
        let (k, bits, classes, power) = (
            pick(&[1, 2, 5, 10, 40]),
            pick(&[64, 128, 512, 2048]),
            pick(&[1, 2, 3, 7, 10]),
            pick(&[1, 1, 3]) as u8,
        );
        let owners: Vec<usize> = (0..pick(&[2, 3, 5]))
            .map(|o| if o == 1 { pick(&[1, 12]) } else { pick(&[20, 33, 61]) })
            .collect();
        let n: usize = owners.iter().sum();
        let kind = number % 6;
        let flips = pick(&[3, 4, 8]) as u32;
        let each = pick(&[2, 5, 15]);
        let centres: Vec<Vec<u16>> =
            (0..classes).map(|_| (0..bits).map(|_| (s.next_u32() & 1) as u16).collect()).collect();
        let hub: Vec<u16> = (0..bits)
            .map(|c| u16::from(centres.iter().filter(|x| x[c] == 1).count() * 2 > classes))
            .collect();
        let mut codes = vec![];
        let mut labels = vec![0u64; n * classes];
        for i in 0..n {
            let class = if kind == 5 { 0 } else { s.below(classes as u32) as usize };
            let row: Vec<u16> = match kind {
                1 if i % 3 == 1 => codes[codes.len() - bits..].to_vec(), // duplicates
                2 if i < 2 => hub.clone(),                               // hub rows
                3 if i == n - 1 => hub.iter().map(|b| 1 - b).collect(),  // far from all
                4 => centres[class]
                    .iter()
                    .enumerate()
                    .map(|(c, b)| b ^ u16::from(c < s.below(3) as usize))
                    .collect(), // ties everywhere
                _ => centres[class].iter().map(|b| b ^ u16::from(s.below(flips) == 0)).collect(),
            };
            codes.extend(row);
            if s.below(each as u32) == 0 {
                labels[i * classes + class] = 1;
            }
        }
        let w = World { owners: owners.clone(), codes, labels, bits, classes };
        let balance = number % 4 == 3;
        let plan = match Plan::new(
            n,
            classes,
            Settings { k, bits: bits as u32, alpha, steps: enough_steps(alpha), power, balance },
        ) {
            Ok(p) => p,
            Err(e) => {
                println!("{number}: refused: {e}");
                continue;
            }
        };
        let ins = inputs(&w, 1, number);
        let keys = [[number; 32], [number ^ 77; 32], [number ^ 99; 32]];
        let (res, seen, _) = drive(keys, &|i, c| Box::pin(run(c, plan, ins[i].clone())), |_, _| {}, 0);
        let part = |p: usize| match &res[p] {
            Some(Outcome::Sealed(x)) => x.for_owner(p, 0..n),
            _ => vec![],
        };
        let out = unseal(n, classes, &part(0), &part(1)).expect("output");
        let mut f = std::fs::File::create(format!("SCRATCH/xclp/cfg/{number}.bin")).unwrap();
        for x in [
            n,
            bits,
            classes,
            k,
            power as usize,
            usize::from(balance),
            (alpha * 1000.0 + 0.5) as usize,
            kind as usize,
        ] {
            f.write_all(&(x as u32).to_le_bytes()).unwrap();
        }
        f.write_all(&w.codes.iter().map(|&b| b as u8).collect::<Vec<u8>>()).unwrap();
        f.write_all(&w.labels.iter().map(|&b| b as u8).collect::<Vec<u8>>()).unwrap();
        f.write_all(&out.labels.iter().map(|l| l.map_or(255, |l| l as u8)).collect::<Vec<u8>>()).unwrap();
        f.write_all(&out.coarse).unwrap();
        println!(
            "{number}: n {n} owners {owners:?} k {k} L {bits} classes {classes} alpha {alpha} power {power} balance {balance} kind {kind}: {} rounds",
            seen.len()
        );
    }
}

fn inject() {
    use flyswarm_mpc::shares::chebyshev::INJECT;
    let (bits, classes, k, alpha) = (1024usize, 4usize, 5usize, 0.9);
    let owners = vec![50usize, 50, 50];
    let n = 150;
    let mut s = Stream::new(&[3; 32], "inject", &[]);
    let centres: Vec<Vec<u16>> =
        (0..6).map(|_| (0..bits).map(|_| (s.next_u32() & 1) as u16).collect()).collect();
    let mut codes: Vec<u16> = vec![];
    let mut labels = vec![0u64; n * classes];
    for i in 0..n {
        let c = s.below(6) as usize;
        for b in 0..bits {
            codes.push(centres[c][b] ^ u16::from(s.below(4) == 0));
        }
        if s.below(3) == 0 {
            labels[i * classes + c % 3] = 1;
        }
    }
    let w = World { owners, codes, labels, bits, classes };
    let plan = Plan::new(
        n,
        classes,
        Settings { k, bits: bits as u32, alpha, steps: enough_steps(alpha), power: 1, balance: false },
    )
    .unwrap();
    let h =
        |i: usize, j: usize| (0..bits).filter(|&b| w.codes[i * bits + b] != w.codes[j * bits + b]).count();
    let ins = inputs(&w, 0, 40);
    let (mut hit, mut all, mut rank, mut auc) = (0, 0, 0.0, vec![]);
    for target in [3usize, 17, 29, 41, 8, 22] {
        // rows of owner 0; the attacker is party 2 and owner 2
        INJECT.store(target * classes + 3, std::sync::atomic::Ordering::Relaxed);
        let (r, _, _) = drive(
            [[1u8; 32], [2; 32], [3; 32]],
            &|i, c| Box::pin(run(c, plan, ins[i].clone())),
            |_, _| {},
            0,
        );
        let part = |p: usize| match &r[p] {
            Some(Outcome::Sealed(x)) => x.for_owner(p, 100..150),
            _ => vec![],
        };
        let o = unseal(50, classes, &part(0), &part(1)).expect("output");
        let share: Vec<u8> = (0..50).map(|i| o.coarse[classes * i + 3]).collect();
        // real edges between the target and the attacker's rows
        let near = |i: usize| {
            let mut d: Vec<(usize, usize)> = (0..n).filter(|&j| j != i).map(|j| (h(i, j), j)).collect();
            d.sort();
            d.truncate(k);
            d.into_iter().map(|x| x.1).collect::<Vec<_>>()
        };
        let edge: Vec<bool> =
            (0..50).map(|i| near(100 + i).contains(&target) || near(target).contains(&(100 + i))).collect();
        let (mut up, mut tot) = (0.0, 0.0);
        for i in 0..50 {
            for j in 0..50 {
                if edge[i] && !edge[j] {
                    tot += 1.0;
                    up += if share[i] > share[j] {
                        1.0
                    } else if share[i] == share[j] {
                        0.5
                    } else {
                        0.0
                    };
                }
            }
        }
        if tot > 0.0 {
            auc.push(up / tot);
        }
        hit += edge.iter().filter(|e| **e).count();
        all += 50;
        rank += 1.0;
        println!(
            "row {target} of owner 0: share of the injected class at the attacker's rows with an edge to it {:?}, largest without {:?}",
            (0..50).filter(|&i| edge[i]).map(|i| share[i]).collect::<Vec<_>>(),
            (0..50).filter(|&i| !edge[i]).map(|i| share[i]).max()
        );
    }
    println!("edges {hit} of {all}; area under the curve per target {auc:?}; {rank} targets; nobody blamed");
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("inject") {
        return inject();
    }
    match std::env::args().nth(1).as_deref() {
        Some("stats") => stats(std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(64)),
        _ => configs(std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(30)),
    }
}
