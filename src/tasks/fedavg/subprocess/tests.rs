//! Tests of trainers that answer correctly and of trainers that fail. Most of them are shell scripts that do
//! not really train.

use std::time::Instant;

use flyswarm_learn::learner::{Architecture, Batch, Network, Settings, Tape};

use super::*;
use crate::data::Dataset;
use crate::data::digits::digits;
use crate::tasks::fedavg::tensors::{Dtype, Rule, TensorSpec, Values};

/// Script that returns the weights unchanged.
const SAME: &str = "cd \"$FLYSWARM_FOLDER\"; while read -r line; do cp weights.safetensors answer.safetensors; \
                    echo '{\"round\": 1, \"rows\": 60, \"loss\": 0.5, \"accuracy\": 0.75}' > \"$FLYSWARM_ANSWERS\"; done";

fn network() -> (Network, Vec<f32>, Dataset) {
    let network = Network::new(&Architecture::Logistic, 64, 10).unwrap();
    let weights = network.initial(&[1; 32]);
    let rows = digits().subset(&(0..60).collect::<Vec<_>>());
    let values = rows.values().iter().map(|value| value / 16.0).collect();
    let rows = Dataset::new(64, values, rows.labels().to_vec(), rows.classes().to_vec()).unwrap();
    (network, weights, rows)
}

fn tensors(network: &Network) -> Vec<TensorSpec> {
    let shape = |shape: Vec<usize>| shape.into_iter().map(|side| side as u32).collect();
    let tensor = |each: flyswarm_learn::learner::Tensor| TensorSpec {
        name: each.name,
        dtype: Dtype::F32,
        shape: shape(each.shape),
        rule: Rule::Average,
        range: 16.0,
    };
    network.tensors().into_iter().map(tensor).collect()
}

fn values(weights: &[f32]) -> Values {
    Values { averaged: weights.to_vec(), others: Vec::new() }
}

fn ask(trainer: &Subprocess, round: u32, start: &[f32]) -> Result<Answer, String> {
    let (network, _, rows) = network();
    let (rate, momentum, decay) = (0.1, 0.9, 1e-4);
    let settings =
        Settings { epochs: 5, steps: 0, batch: 8, rate, momentum, decay, proximal: 0.0, augment: None };
    let (tensors, start) = (tensors(&network), values(start));
    let (network, rows) = (&network, &rows);
    trainer.train(&Order { network, tensors: &tensors, round, rounds: 3, start: &start, rows, settings })
}

/// Starts this command as a trainer, and returns its answer for one round.
fn one(command: &str, limit: Duration) -> Result<Answer, String> {
    ask(&Subprocess::start(command, limit).unwrap(), 0, &network().1)
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn weights_go_to_a_trainer_and_come_back_bit_for_bit_with_its_figures() {
    let found = one(SAME, LONG).unwrap();
    assert_eq!(found.values.averaged, network().1);
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
        (at("\\000\\000\\300\\177"), "has NaN as dense1.weight["),
        (at("\\000\\000\\200\\177"), "has inf as dense1.weight["),
        (renamed, "answer.safetensors has no tensor dense1.bias"),
        (shaped, "has dense1.weight as F32 [64,10], expected F32 [10, 64]"),
        (cut, "answer.safetensors is cut off in"),
        (answering("rm answer.safetensors"), "answer.safetensors: No such file"),
        (answering("echo loss 3 > $FLYSWARM_ANSWERS"), "the answer \"loss 3\": expected value"),
        (SAME.replace("60", "61"), "the answer is of round 1 and 61 rows, expected round 1 and 60 rows"),
        (SAME.replace("0.75", "75"), "gave loss 0.5 and accuracy 75, expected at least 0, and 0 to 1"),
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
    assert!(ask(&trainer, 1, &network().1).unwrap_err().contains("it has ended (stopped)"));
    assert!(ends(&file));
}

#[test]
fn the_next_start_ends_the_program_of_a_process_that_was_killed_and_removes_its_folder() {
    let here = tempfile::tempdir().unwrap();
    let held = Folder::new().unwrap();
    let (orphan, own) =
        (here.path().join("flyswarm-trainer-orphan"), here.path().join("flyswarm-trainer-own"));
    for folder in [&orphan, &own] {
        fs::create_dir(folder).unwrap();
        File::create(folder.join(LOCK)).unwrap();
    }
    let lock = File::open(own.join(LOCK)).unwrap();
    lock.lock().unwrap();
    std::os::unix::fs::symlink(held.path(), here.path().join("flyswarm-trainer-link")).unwrap();
    let mut program = Command::new("sleep").arg("1000").env(FOLDER, &orphan).spawn().unwrap();
    end_orphans(here.path());
    assert!(!program.wait().unwrap().success(), "it was ended");
    assert!(!orphan.exists() && own.exists() && held.path().join(LOCK).exists());
}

/// Returns whether the process with the number in this file has ended.
fn ends(file: &std::path::Path) -> bool {
    let pid = fs::read_to_string(file).unwrap();
    // The process is a zombie until its new parent has waited for it.
    let ended = || {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        state.map_or(true, |state| state.contains(") Z "))
    };
    (0..100).any(|_| {
        ended() || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    })
}

#[test]
fn text_on_standard_output_is_the_users_and_no_answer() {
    let noisy = SAME.replace("cp ", "echo 'epoch 1: loss 3'; printf 'half a line'; cp ");
    assert_eq!(one(&noisy, LONG).unwrap().seen, Batch { loss: 30.0, right: 45, rows: 60 });
    let closed = format!("exec >&-; {SAME}");
    assert!(one(&closed, LONG).is_ok(), "a trainer may close its standard output");
}

#[test]
fn a_child_that_has_left_the_process_group_ends_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let command = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000' & wait", file.display());
    let trainer = Subprocess::start(&command, LONG).unwrap();
    let own = trainer.folder.clone();
    while !fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')) {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(trainer);
    assert!(ends(&file) && !own.exists());
}

#[test]
fn an_interrupt_ends_a_trainer_whose_answer_is_still_waited_for() {
    let trainer = std::sync::Arc::new(Subprocess::start("sleep 1000 & wait", LONG).unwrap());
    let own = trainer.folder.clone();
    let waits = std::thread::spawn({
        let trainer = trainer.clone();
        move || ask(&trainer, 0, &network().1)
    });
    while !own.join("weights.safetensors").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Not `end_all`, because it would also end the trainers of other tests.
    end(|folder| folder == own);
    assert!(!own.exists(), "the folder is removed although the thread still has the trainer");
    let error = waits.join().unwrap().unwrap_err();
    assert_eq!(error, "the trainer in round 1: it has ended (stopped)");
}

#[test]
fn a_loss_that_is_no_number_is_told_as_training_that_diverges() {
    for word in ["NaN", "Infinity"] {
        let error = one(&SAME.replace("0.5", word), LONG).unwrap_err();
        let end = "the training diverges; try fedavg.rate = 0.01 in a new session";
        assert!(
            error.starts_with("the trainer in round 1: gave the loss ") && error.ends_with(end),
            "{error}"
        );
    }
}

#[test]
fn what_a_trainer_gets_is_for_its_owner_only_and_goes_with_it() {
    use std::os::unix::fs::PermissionsExt;
    let trainer = Subprocess::start(SAME, LONG).unwrap();
    let folder = trainer.folder.clone();
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
        weights = ask(&trainer, round, &weights).unwrap().values.averaged;
    }
    let seen = network.evaluate(&weights, rows.view(), rows.labels(), &mut Tape::default());
    assert!(seen.right >= 55, "{seen:?}");
}

#[test]
#[ignore = "a measurement: cargo test --lib overhead -- --ignored --nocapture"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn the_overhead_of_a_round_at_a_mebibyte_of_weights() {
    let command = format!("{} --same", python().unwrap());
    let trainer = Subprocess::start(&command, LONG).unwrap();
    let network = Network::new(&Architecture::Perceptron { hidden: vec![3495] }, 64, 10).unwrap();
    let (_, _, rows) = self::network();
    let (tensors, start) = (tensors(&network), values(&network.initial(&[1; 32])));
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
            let (network, rows) = (&network, &rows);
            let order =
                Order { network, tensors: &tensors, round, rounds: 40, start: &start, rows, settings };
            assert_eq!(trainer.train(&order).unwrap().values, start);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{} weights: median {:.1} ms, first to last {:.1} to {:.1}",
        start.averaged.len(),
        times[20],
        times[0],
        times[39]
    );
}
