//! Trainers that answer, and all the ways they can fail. Most are shell scripts, because the training
//! itself does not matter here.

use std::time::Instant;

use flyswarm_learn::learner::{Architecture, Batch, Network, Settings, Tape};

use super::*;
use crate::data::Dataset;
use crate::data::digits::digits;

/// Script that returns the weights unchanged.
const SAME: &str = "cd \"$FLYSWARM_FOLDER\"; while read -r line; do cp weights.safetensors answer.safetensors; \
                    echo '{\"round\": 1, \"rows\": 60, \"loss\": 0.5, \"accuracy\": 0.75}'; done";

fn network() -> (Network, Vec<f32>, Dataset) {
    let network = Network::new(&Architecture::Logistic, 64, 10).unwrap();
    let weights = network.initial(&[1; 32]);
    let rows = digits().subset(&(0..60).collect::<Vec<_>>());
    let values = rows.values().iter().map(|value| value / 16.0).collect();
    let rows = Dataset::new(64, values, rows.labels().to_vec(), rows.classes().to_vec()).unwrap();
    (network, weights, rows)
}

fn ask(trainer: &Subprocess, round: u32, start: &[f32]) -> Result<Trained, String> {
    let (network, _, rows) = network();
    let (rate, momentum, decay) = (0.1, 0.9, 1e-4);
    let settings =
        Settings { epochs: 5, steps: 0, batch: 8, rate, momentum, decay, proximal: 0.0, augment: None };
    trainer.train(&Order { network: &network, round, rounds: 3, start, rows: &rows, settings })
}

/// Returns the answer of such a program for one round.
fn one(command: &str, limit: Duration) -> Result<Trained, String> {
    ask(&Subprocess::start(command, limit).unwrap(), 0, &network().1)
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn weights_go_to_a_trainer_and_come_back_bit_for_bit_with_its_figures() {
    let found = one(SAME, LONG).unwrap();
    assert_eq!(found.weights, network().1);
    assert_eq!(found.seen, Batch { loss: 30.0, right: 45, rows: 60 });
}

#[test]
fn a_trainer_that_fails_gives_one_line_that_says_how() {
    let answering = |change: &str| SAME.replace("echo", &format!("{change}; echo"));
    let at = |bytes: &str| {
        answering(&format!(
            "printf '{bytes}' | dd of=answer.safetensors bs=1 seek=1024 conv=notrunc 2>/dev/null"
        ))
    };
    let renamed = answering("sed 's/dense1.bias/dense9.bias/' weights.safetensors > answer.safetensors");
    let shaped = answering("sed 's/\\[10,64\\]/[64,10]/' weights.safetensors > answer.safetensors");
    let cut = answering("head -c 1000 weights.safetensors > answer.safetensors");
    for (command, problem) in [
        ("exit 3".to_owned(), "it has ended (exit status: 3)"),
        ("kill -9 $$".to_owned(), "it has ended (signal: 9 (SIGKILL))"),
        ("exec >&-; sleep 1000".to_owned(), "it has ended (signal: 9 (SIGKILL))"),
        (at("\\000\\000\\300\\177"), "has NaN as number"),
        (at("\\000\\000\\200\\177"), "has inf as number"),
        (renamed, "answer.safetensors has no tensor dense1.bias"),
        (shaped, "has dense1.weight as \"F32\" [64,10], expected \"F32\" [10, 64]"),
        (cut, "answer.safetensors is cut off in"),
        (answering("rm answer.safetensors"), "answer.safetensors: No such file"),
        (answering("echo loss 3"), "the answer \"loss 3\": expected value"),
        (SAME.replace("60", "61"), "the answer is of round 1 and 61 rows, expected round 1 and 60 rows"),
        (SAME.replace("0.75", "75"), "loss 0.5 and accuracy 75 are impossible"),
    ] {
        let error = one(&command, LONG).unwrap_err();
        assert!(
            error.starts_with("the trainer in round 1: ") && error.contains(problem),
            "{command}: {error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_trainer_that_hangs_is_ended_with_all_that_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let command = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let trainer = Subprocess::start(&command, Duration::from_millis(300)).unwrap();
    let error = ask(&trainer, 1, &network().1).unwrap_err();
    assert_eq!(error, "the trainer in round 2: no answer in 0.3 s, it was stopped");
    assert!(ask(&trainer, 1, &network().1).unwrap_err().contains("it has ended (signal: 9"));
    let pid = fs::read_to_string(&file).unwrap();
    // The process is a zombie until its new parent has waited for it.
    let ended = || {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        state.map_or(true, |state| state.contains(") Z "))
    };
    assert!((0..100).any(|_| ended() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

#[test]
fn what_a_trainer_gets_is_for_its_owner_only_and_goes_with_it() {
    use std::os::unix::fs::PermissionsExt;
    let trainer = Subprocess::start(SAME, LONG).unwrap();
    let folder = trainer.folder.path().to_owned();
    ask(&trainer, 0, &network().1).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(folder.join("rows.safetensors").exists());
    drop(trainer);
    assert!(!folder.exists());
}

fn python() -> Option<String> {
    let here = env!("CARGO_MANIFEST_DIR");
    let there = Command::new("python3").args(["-c", "import numpy"]).stderr(Stdio::null()).status();
    there.is_ok_and(|status| status.success()).then(|| format!("python3 {here}/scripts/trainer.py"))
}

#[test]
fn a_trainer_in_numpy_learns_the_rows_that_it_gets() {
    let Some(command) = python() else { return eprintln!("skipped: needs python3 with numpy") };
    let trainer = Subprocess::start(&command, LONG).unwrap();
    let (network, mut weights, rows) = network();
    for round in 0..3 {
        weights = ask(&trainer, round, &weights).unwrap().weights;
    }
    let seen = network.evaluate(&weights, rows.view(), rows.labels(), &mut Tape::default());
    assert!(seen.right >= 55, "{seen:?}");
    // The file of another program may also have tensors of its own.
    let bytes = write_weights(&network, &weights);
    assert_eq!(read_weights(&network, &bytes).unwrap(), weights);
}

#[test]
#[ignore = "a measurement: cargo test --lib overhead -- --ignored --nocapture"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn the_overhead_of_a_round_at_a_mebibyte_of_weights() {
    let command = format!("{} --same", python().unwrap());
    let trainer = Subprocess::start(&command, LONG).unwrap();
    let network = Network::new(&Architecture::Perceptron { hidden: vec![3495] }, 64, 10).unwrap();
    let (_, _, rows) = self::network();
    let start = network.initial(&[1; 32]);
    let settings = Settings {
        epochs: 1,
        steps: 0,
        batch: 8,
        rate: 0.1,
        momentum: 0.9,
        decay: 0.0,
        proximal: 0.0,
        augment: None,
    };
    let mut times: Vec<f64> = (0..40)
        .map(|round| {
            let begun = Instant::now();
            let order = Order { network: &network, round, rounds: 40, start: &start, rows: &rows, settings };
            assert_eq!(trainer.train(&order).unwrap().weights, start);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{} weights: median {:.1} ms, first to last {:.1} to {:.1}",
        start.len(),
        times[20],
        times[0],
        times[39]
    );
}
