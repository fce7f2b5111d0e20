//! The command line of `session`, run on real files.

use std::fs;

use clap::Parser;

use super::super::{Arguments, run};
use super::*;
use crate::crypto::identity::Identity;
use crate::session::{Architecture, TaskSpec};
use crate::sketch::distribution::Family;
use crate::tasks::{FlynnSpec, ModelSpec, SketchSpec, Weighting};

pub(super) fn peer(seed: u8) -> String {
    format!("peer-{seed}={}", Identity::from_seed([seed; 32]).public())
}

/// `session new` with three peers into a file of `folder`, and what else is asked for.
pub(super) fn new(folder: &Path, more: &[&str]) -> Result<PathBuf, Failure> {
    let out = folder.join("session.toml");
    let peers = [peer(1), peer(2), format!("{}@/ip4/192.0.2.3/tcp/4001", peer(3))];
    let mut words = vec!["flyswarm", "session", "new", "--name", "digits", "--features", "64"];
    if !more.contains(&"--classes") {
        words.extend(["--classes-from-range", "0..9"]);
    }
    peers.iter().for_each(|peer| words.extend(["--peer", peer]));
    words.extend(["--out", out.to_str().unwrap()]);
    words.extend(more);
    run(
        Arguments::try_parse_from(words).map_err(|error| Failure::Input(error.to_string()))?.command,
        &mut Vec::new(),
    )?;
    Ok(out)
}

pub(super) fn message(result: Result<PathBuf, Failure>) -> String {
    let failure = result.unwrap_err();
    assert_eq!(failure.code(), 2);
    failure.to_string()
}

#[test]
fn a_new_file_holds_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::load(new(folder.path(), &[]).unwrap()).unwrap();
    assert_eq!(session.data.classes, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    assert_eq!(
        session.task,
        TaskSpec::from(FlynnSpec {
            model: ModelSpec { m: 16_384, s: 2, rho: 256, gamma: 0.9, score: Score::BalancedLog },
            select: None,
            evaluate: Some(EvaluateSpec::default()),
        })
    );
    assert_eq!(session.data.scaling, Scaling::SoftBins { bins: 8 });
    let third = session.peer(&Identity::from_seed([3; 32]).public()).unwrap();
    assert_eq!(session.name(third), "peer-3");
    assert_eq!(session.roster[third.index()].addresses, ["/ip4/192.0.2.3/tcp/4001"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");

    let more = "--classes a,b --m 2d --s 3 --rho 0.5m --gamma 0 --scaling range:-1:2.5 --densify --min-peers 3 --min-holders 1 \
                --colluding 0.5 --timing gather_ms=5 --timing max_views=3 --no-evaluate --force";
    let more: Vec<&str> = more.split_whitespace().collect();
    let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
    assert_eq!(session.data.classes, ["a", "b"]);
    assert_eq!(session.data.scaling, Scaling::Range { lo: -1.0, hi: 2.5 });
    assert_eq!(
        session.task,
        ModelSpec { m: 128, s: 3, rho: 64, gamma: 0.0, score: Score::BalancedLog }.into()
    );
    assert_eq!(session.privacy, Privacy { min_holders: 1, colluding: 0.5, noise: None });
    assert_eq!((session.min_peers, session.timing.gather_ms, session.timing.max_views), (3, 5, 3));

    let more = ["--published", "--rho", "32", "--no-evaluate", "--force"];
    let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
    assert_eq!(session.data.scaling, Scaling::UnitNorm);
    assert_eq!(session.task, ModelSpec { m: 16_384, s: 19, rho: 32, gamma: 0.5, score: Score::Decay }.into());
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = new(folder.path(), &[]).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let told = message(new(folder.path(), &["--rho", "16"]));
    assert_eq!(told, format!("{}: exists; --force overwrites it", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    new(folder.path(), &["--rho", "16", "--force"]).unwrap();
    assert_eq!(Session::load(&path).unwrap().task.model().unwrap().rho, 16);
}

#[test]
fn wrong_arguments_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for (more, expected) in [
        (&["--rho", "16385"][..], "flynn.rho is 16385, must be 1 to 16384 (m)"),
        (&["--m", "huge"], "flynn.m is \"huge\", must be an integer or a multiple such as \"0.5d\""),
        (&["--timing", "gather=5"], "a field of timing is \"gather\", must be one of gather_ms"),
        (&["--peer", "peer-3"], "must be NAME=PEERID[@MULTIADDR]"),
        (&["--peer", "x=12D3"], "is not that of an Ed25519 key"),
        (&["--scaling", "log"], "must be none, unit-norm, center, standard, range:LO:HI or soft-bins:BINS"),
        (&["--scaling", "range:2:1"], "data.scaling.range.hi is 1, must be above lo, 2"),
        (&["--gamma", "nan"], "flynn.gamma is NaN, must be from 0 to below 1"),
        (&["--classes", "a"], "the length of data.classes is 1, must be 2 to 1000"),
    ] {
        let told = message(new(folder.path(), more));
        assert!(told.contains(expected), "{told}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn names_of_columns_come_from_the_command_line_or_a_file_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let rows = file("rows.csv", "id,age,weight,kind\n7,40,70,sick\n");
    let bare = file("bare.csv", "40,70,sick\n");
    let long = file("long.csv", &format!("{},kind\n1,sick\n", "x".repeat(65)));
    let out = folder.path().join("s.toml");
    let made = |more: &[&str]| -> Result<DataSpec, Failure> {
        let mut words =
            vec!["flyswarm", "session", "new", "--name", "n", "--classes", "sick,well", "--force", "--out"];
        words.push(out.to_str().unwrap());
        let peers = [peer(1), peer(2), peer(3)];
        peers.iter().for_each(|peer| words.extend(["--peer", peer]));
        words.extend(more);
        let command =
            Arguments::try_parse_from(words).map_err(|error| Failure::Input(error.to_string()))?.command;
        run(command, &mut Vec::new())?;
        Ok(Session::load(&out).unwrap().data)
    };
    for more in [
        &["--columns", "age,weight"][..],
        &["--features", "2", "--columns", "age,weight"],
        &["--columns-from", &rows, "--drop", "id"],
        &["--columns-from", &rows, "--drop", "1", "--label", "kind"],
    ] {
        let data = made(more).unwrap();
        assert_eq!(
            (data.features, data.columns),
            (2, vec!["age".to_owned(), "weight".to_owned()]),
            "{more:?}"
        );
    }
    assert_eq!(made(&["--features", "2"]).unwrap().columns, Vec::<String>::new());
    for (more, expected) in [
        (&["--features", "3", "--columns", "age,weight"][..], "the length of data.columns is 2, must be 3"),
        (&["--columns-from", &bare], "bare.csv: no names of columns, expected them for --columns-from"),
        (&["--columns-from", &long], "the name of a column of table is \"xxx"),
        (&["--columns-from", &rows, "--columns", "a"], "cannot be used with"),
        (&[], "--features"),
    ] {
        let told = made(more).map(|_| ()).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{more:?}: {told}");
    }
    made(&["--columns", "age,weight"]).unwrap();
    let shown = shown(&out, false).unwrap();
    assert!(shown.contains("columns      age, weight\n"), "{shown}");
}

#[test]
fn ranges_of_classes_hold_both_ends() {
    let range = |text: &str| text.parse::<ClassRange>().map(ClassRange::names);
    assert_eq!(range("-1..1").unwrap(), ["-1", "0", "1"]);
    for wrong in
        ["", "1", "1..", "a..b", "1..1", "2..1", "0..999999999", "-9223372036854775808..9223372036854775807"]
    {
        assert!(range(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_file_that_is_not_there_is_wrong_input_with_its_name() {
    let failure = run(
        Arguments::try_parse_from(["flyswarm", "session", "check", "/no/such"]).unwrap().command,
        &mut Vec::new(),
    )
    .unwrap_err();
    assert_eq!(failure.code(), 2);
    assert!(failure.to_string().starts_with("/no/such: cannot be read: "), "{failure}");
}

#[test]
fn what_is_shown_is_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::load(new(folder.path(), &["--densify"]).unwrap()).unwrap();
    let shown = show::Shown::new(&session);
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!(json["id"], session.id().to_string());
    assert_eq!(json["flynn"]["m"], 16_384);
    assert_eq!(json["sizes"]["counts_bytes"], 16_384 * 10 * 4);
    let committee: Vec<&str> = session.committee().into_iter().map(|peer| session.name(peer)).collect();
    assert_eq!(json["committee"], serde_json::json!(committee));
    assert_eq!(json["roster"].as_array().unwrap().len(), 3);
    let text = shown.to_string();
    assert!(text.contains(&format!("session      {}\n", session.id())), "{text}");
    assert!(text.contains("counts       163840 (655360 bytes)\n"), "{text}");
}

#[test]
fn peers_that_are_drawn_are_asked_for_by_name_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--select sketch --choose 3 --rows 40 --temperature 0.5";
    let path = new(folder.path(), &words.split(' ').collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    let spec = SketchSpec { rows: 40, publish: true, chosen: 3, temperature: 0.5, ..SketchSpec::default() };
    assert_eq!(session.task.get::<FlynnSpec>().unwrap().select, Some(spec));
    let shown = shown(&path, false).unwrap();
    for line in [
        "select       sketch: only the rows of drawn peers are learnt from\n",
        "sketch       srp, 40 rows of 64 counters (10244 bytes)\n",
        "selection    3 of all peers, temperature 0.5\n",
    ] {
        assert!(shown.contains(line), "{line:?} is not in {shown}");
    }
    for (more, expected) in [
        (&["--select", "sketch"][..], "--choose"),
        (&["--select", "lot", "--choose", "3"], "sketch"),
        (&["--select", "sketch", "--choose", "2"], "sketch.chosen is 2, must be at least 3 with select"),
        (
            &["--select", "sketch", "--choose", "3", "--pairwise"],
            "sketch.pairwise is true, must be false with select",
        ),
        (&["--select", "sketch", "--choose", "3", "--tune", "4"], "--select: not with --tune"),
        (&["--select", "sketch", "--choose", "3", "--task", "xclp"], "--select: not with the task xclp"),
        (
            &["--select", "sketch", "--choose", "3", "--epsilon", "1"],
            "select is sketch, must be left out where",
        ),
        (&["--choose", "3"], "--choose: not with the task flynn"),
    ] {
        let told = message(new(folder.path(), &[more, &["--force"]].concat()));
        assert!(told.contains(expected), "{more:?}: {told}");
    }
    assert_eq!(Session::load(&path).unwrap(), session);
}

#[test]
fn classes_are_balanced_where_the_option_says_so_and_the_file_and_the_id_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = |more: &str| {
        let words = format!("--task xclp --force {more}");
        let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
        (Session::load(&path).unwrap(), shown(&path, false).unwrap())
    };
    let ((plain, text), (mut balanced, told)) = (made(""), made("--balance"));
    assert!(told.contains("power 1, balanced classes, computing") && !text.contains("balanced"), "{told}");
    balanced.run = plain.run;
    let (before, after) = (plain.fields(), balanced.fields());
    let differing: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).map(|(a, _)| &*a.0).collect();
    assert_eq!((differing, plain.id() == balanced.id()), (vec!["xclp.balance"], false));
    let Some(spec) = balanced.task.get::<crate::tasks::XclpSpec>() else { panic!("{:?}", balanced.task) };
    assert!(spec.settings().balance && spec.clone().with_alpha(0.5).balance);
}

#[test]
fn distances_are_made_as_the_option_says_and_the_file_the_id_and_the_summary_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = |more: &str| {
        let words = format!("--task xclp --force {more}");
        let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
        (Session::load(&path).unwrap(), shown(&path, false).unwrap())
    };
    let (plain, text) = made("");
    assert!(!text.contains("distances"), "{text}");
    for (way, expected) in [
        (
            "ot",
            "power 1, distances by oblivious transfer (2081 MB between two owners of 500 rows), computing",
        ),
        ("phe", "distances by homomorphic encryption (41 MB between two owners of 500 rows), computing"),
    ] {
        let (mut paired, told) = made(&format!("--hamming {way}"));
        assert!(told.contains(expected), "{told}");
        assert!(
            told.contains("nobody can check distances in pairs: an owner that deviates can read the label"),
            "{told}"
        );
        paired.run = plain.run;
        let (before, after) = (plain.fields(), paired.fields());
        let differing: Vec<_> =
            before.iter().zip(&after).filter(|(a, b)| a != b).map(|(a, _)| &*a.0).collect();
        assert_eq!((differing, plain.id() == paired.id()), (vec!["xclp.hamming"], false));
    }
}

#[test]
fn a_session_that_propagates_labels_takes_the_options_of_both_tasks_and_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--task fedavg-xclp --network mlp --hidden 5 --rounds 8 --bits 128 --neighbours 4 --after 2 \
                 --refresh 3";
    let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    let Some(spec) = session.task.get::<crate::tasks::FedavgXclpSpec>() else { panic!("{:?}", session.task) };
    assert_eq!((spec.fedavg.rounds, spec.xclp.bits, spec.xclp.k, spec.xclp.power), (8, 128, 4, 3));
    assert_eq!((spec.after, spec.refresh, spec.propagations()), (2, 3, 2));
    let shown = shown(&path, false).unwrap();
    assert!(shown.contains("propagated after 2 rounds, then every 3 rounds: 2 times"), "{shown}");
    for (more, expected) in [
        ("--task fedavg --refresh 3", "--refresh: not with the task fedavg"),
        ("--task xclp --after 3", "--after: not with the task xclp"),
        ("--task fedavg --balance", "--balance: not with the task fedavg"),
        (
            "--task fedavg-xclp --balance",
            "xclp.balance is true, must be false with the task fedavg-xclp, which balances by opened counts",
        ),
        ("--task fedavg --hamming ot", "--hamming: not with the task fedavg"),
        (
            "--task fedavg-xclp --hamming ot",
            "xclp.hamming is \"ot\", must be \"replicated\" with the task fedavg-xclp, which propagates labels often",
        ),
        (
            "--task fedavg-xclp --rounds 3 --after 3",
            "pseudo_labels.after is 3, must be below fedavg.rounds, 3",
        ),
        ("--task fedavg-xclp --refresh 0", "pseudo_labels.refresh is 0, must be 1 to 10000"),
        (
            "--task fedavg-xclp --fedavg members=0.5",
            "fedavg.members is 0.5, must be 1 with the task fedavg-xclp",
        ),
    ] {
        let more: Vec<_> = more.split_whitespace().chain(["--force"]).collect();
        let told = message(new(folder.path(), &more));
        assert!(told.contains(expected), "{more:?}: {told}");
    }
    assert_eq!(Session::load(&path).unwrap(), session);
}

#[test]
fn a_session_of_rounds_takes_its_own_options_and_any_field_of_its_section() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--task fedavg --network cnn --image 1,8,8 --filters 2,3,4 --hidden 5 --rounds 7 --rate 0.1 \
                 --fedavg momentum=0.5 --fedavg flip=true --fedavg weighting=equal";
    let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    let Some(spec) = session.task.get::<crate::tasks::FedavgSpec>() else { panic!("{:?}", session.task) };
    let network = Architecture::Convolutional { image: [1, 8, 8], filters: [2, 3, 4], hidden: 5 };
    assert_eq!((&spec.network, spec.rounds, spec.rate), (&network, 7, 0.1));
    assert_eq!((spec.momentum, spec.flip, spec.weighting), (0.5, true, Weighting::Equal));
    assert_eq!(session.data.scaling, Scaling::Standard);
    let shown = shown(&path, false).unwrap();
    assert!(shown.contains("network      cnn, 274 weights\n"), "{shown}");
    for (more, expected) in [
        ("--rounds 7", "--rounds: not with the task flynn"),
        ("--task fedavg --m 5", "--m: not with the task fedavg"),
        ("--task fedavg --network cnn", "fedavg.image is missing, must be given with the network cnn"),
        ("--task fedavg --fedavg colour=1", "unknown field `colour`"),
        ("--task fedavg --fedavg rounds=0", "fedavg.rounds is 0, must be 1 to 10000"),
        ("--task fedavg --epsilon 1", "--delta: missing, expected beside --epsilon with the task fedavg"),
        ("--task fedavg --epsilon 1 --delta 0.5", "--delta is 0.5, must be 1e-12 to 0.01"),
        ("--task fedavg --epsilon 1 --delta 1e-5", "fedavg.weighting is rows, must be equal"),
        ("--task fedavg --fedavg patience=3", "fedavg.held_out is 0, must be above 0"),
        (
            "--task flynn --epsilon 1 --delta 1e-5",
            "privacy.delta is 1e-5, must be left out with the task flynn",
        ),
    ] {
        let words: Vec<_> = more.split(' ').chain(["--force"]).collect();
        let told = message(new(folder.path(), &words));
        assert!(told.contains(expected), "{more}: {told}");
    }
    assert_eq!(Session::load(&path).unwrap(), session);
}

#[test]
fn a_private_session_of_rounds_says_what_it_promises_and_how_much_noise_that_takes() {
    use super::forecast::noise_of_rounds;
    let folder = tempfile::tempdir().unwrap();
    let words =
        "--task fedavg --epsilon 100 --delta 0.01 --rounds 2 --fedavg weighting=equal --fedavg clip=0.5";
    let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    assert_eq!((&session.data.scaling, session.data.checks.compare), (&Scaling::None, false));
    let shown = shown(&path, false).unwrap();
    assert!(shown.contains("epsilon = 100, delta = 0.01, member, every round, 1 may collude\n"), "{shown}");
    assert!(shown.contains("all rows of one peer could be others"), "{shown}");
    let line = noise_of_rounds(&session).unwrap().line();
    assert!(
        line.starts_with("forecast: in each of 2 rounds noise of ") && line.contains("rho 65.3139"),
        "{line}"
    );
    assert!(line.contains("an update is at most 0.5 long"), "{line}");
    let plain = new(folder.path(), &["--task", "fedavg", "--force"]).unwrap();
    assert!(noise_of_rounds(&Session::load(&plain).unwrap()).is_none());
}

#[test]
fn a_session_of_rounds_names_the_network_file_that_it_starts_from() {
    use flyswarm_data::scaling::{Scaler, Scaling as OfRows};
    use flyswarm_learn::learner::Classifier;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n.safetensors");
    let pool = crate::data::Dataset::new(1, vec![0.0], Vec::new(), Vec::new()).unwrap();
    let scaler = Scaler::fit(&OfRows::None, &pool).unwrap();
    let (classes, from) = (vec!["a".into(), "b".into()], ("before".into(), [0; 32]));
    let network = Classifier::new(&Architecture::Logistic, scaler, classes, Vec::new(), vec![0.5; 4], from);
    let network = network.unwrap();
    network.save(&file).unwrap();
    let named = |file: &str| new(folder.path(), &["--task", "fedavg", "--initial", file, "--force"]);
    let path = named(file.to_str().unwrap()).unwrap();
    let session = Session::load(&path).unwrap();
    let Some(spec) = session.task.get::<crate::tasks::FedavgSpec>() else { panic!("{:?}", session.task) };
    assert_eq!(spec.initial, Some(network.digest()));
    let text = shown(&path, false).unwrap();
    assert!(text.contains(&format!("starts from  network {}", hex::encode(network.digest()))), "{text}");
    assert!(message(named(path.to_str().unwrap())).ends_with("not a network of the task fedavg"));
    let told = message(new(folder.path(), &["--initial", "n", "--force"]));
    assert!(told.contains("--initial: not with the task flynn"), "{told}");
}

#[test]
fn a_sketch_session_takes_its_own_options_and_no_classes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sketch.toml");
    let made = |more: &[&str]| -> Result<Session, Failure> {
        let mut words =
            vec!["flyswarm", "session", "new", "--name", "n", "--features", "64", "--force", "--out"];
        words.push(out.to_str().unwrap());
        let peers = [peer(1), peer(2), peer(3)];
        peers.iter().for_each(|peer| words.extend(["--peer", peer]));
        words.extend(more);
        let command =
            Arguments::try_parse_from(words).map_err(|error| Failure::Input(error.to_string()))?.command;
        run(command, &mut Vec::new())?;
        Ok(Session::load(&out).unwrap())
    };
    let plain = made(&["--task", "sketch"]).unwrap();
    assert_eq!((&plain.task, plain.data.scaling), (&TaskSpec::from(SketchSpec::default()), Scaling::Center));
    let every = "--task sketch --hash minhash --rows 50 --range 100 --publish --pairwise --choose 1 --active 2 --temperature 3";
    let session = made(&every.split(' ').collect::<Vec<_>>()).unwrap();
    let spec = session.task.sketch().unwrap();
    assert_eq!(
        (spec.hash, spec.rows, spec.range, spec.publish, spec.pairwise),
        (Family::Minhash, 50, 100, true, true)
    );
    assert_eq!((spec.chosen, spec.active, spec.temperature), (1, 2, 3.0));
    assert_eq!(session.data.scaling, Scaling::None);
    let shown = shown(&out, false).unwrap();
    assert!(shown.contains("sketch       minhash, 50 rows of 100 counters (20004 bytes)\n"), "{shown}");
    assert!(
        shown.contains("selection    1 of 2 drawn peers, temperature 3\n") && !shown.contains("classes"),
        "{shown}"
    );
    for (more, expected) in [
        (
            &["--task", "sketch", "--classes", "a,b"][..],
            "--classes, --classes-from-range: not with the task sketch",
        ),
        (&["--task", "sketch", "--m", "64"], "--m: not with the task sketch"),
        (
            &["--task", "sketch", "--choose", "1"],
            "sketch.publish is false, must be true where peers are chosen",
        ),
        (&["--classes", "a,b", "--rows", "5"], "--rows: not with the task flynn"),
        (&["--task", "xclp", "--classes", "a,b", "--publish"], "--publish: not with the task xclp"),
        (&[], "--classes, --classes-from-range: needed with the task flynn"),
    ] {
        let told = made(more).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{more:?}: {told}");
    }
}

/// Runs `session` with these words; gives what it prints.
fn session_command(words: &[&str]) -> Result<String, Failure> {
    let all = ["flyswarm", "session"].iter().chain(words);
    let arguments = Arguments::try_parse_from(all).map_err(|error| Failure::Input(error.to_string()))?;
    let mut out = Vec::new();
    run(arguments.command, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_same_words_make_another_session_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = Session::load(new(folder.path(), &[]).unwrap()).unwrap();
    let second = Session::load(new(folder.path(), &["--force"]).unwrap()).unwrap();
    assert_ne!(first.run.number, second.run.number);
    assert_ne!(first.id(), second.id());
    assert!(first.data.checks.compare && first.run.created > 1_700_000_000);
    let off = Session::load(new(folder.path(), &["--force", "--no-check-columns"]).unwrap()).unwrap();
    assert!(!off.data.checks.compare);
    let shown = shown(&folder.path().join("session.toml"), false).unwrap();
    assert!(shown.contains(&format!("number       {}, made ", hex::encode(off.run.number))), "{shown}");
}

#[test]
fn the_next_session_of_a_series_has_the_old_ones_settings_and_its_id_as_parent() {
    let folder = tempfile::tempdir().unwrap();
    let path = new(folder.path(), &["--m", "512", "--min-holders", "2", "--timing", "gather_ms=77"]).unwrap();
    let old = Session::load(&path).unwrap();
    let file = path.to_str().unwrap();
    session_command(&["next", file]).unwrap();
    let second = Session::load(folder.path().join("digits-2.toml")).unwrap();
    let series = second.run.series.unwrap();
    assert_eq!((series.number, series.parent, &*second.name), (2, old.id(), "digits-2"));
    assert_ne!(second.run.number, old.run.number);
    let again = Session { name: old.name.clone(), run: old.run, ..second.clone() };
    assert_eq!(again, old, "nothing else changes");
    // The third, with one who joins and one who leaves, and other settings.
    let settings = folder.path().join("best.toml");
    let lines = "# in [data]\nscaling = \"standard\"\ndensify = true\n\n[flynn]\nm = 300\ns = 4\nrho = 8\ngamma = 0.3\nscore = \"log\"\n";
    fs::write(&settings, lines).unwrap();
    let (second_file, four, five) = (folder.path().join("digits-2.toml"), peer(4), peer(5));
    let words = ["next", second_file.to_str().unwrap(), "--remove", "peer-1", "--add", &four, "--add", &five];
    let json = session_command(&[&words[..], &["--settings", settings.to_str().unwrap(), "--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
    let third = Session::load(folder.path().join("digits-3.toml")).unwrap();
    assert_eq!((&value["number"], &value["session"]), (&3.into(), &third.id().to_string().into()));
    let warning = value["warning"].as_str().unwrap();
    assert!(
        warning.contains("At least 2 must change at once") && warning.contains("3 peers change"),
        "{warning}"
    );
    let names: std::collections::BTreeSet<_> = third.roster.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["peer-2", "peer-3", "peer-4", "peer-5"].into());
    let model = ModelSpec { m: 300, s: 4, rho: 8, gamma: 0.3, score: Score::Log };
    assert_eq!(
        (third.task.model(), third.data.scaling, third.data.densify),
        (Some(&model), Scaling::Standard, true)
    );
    assert_eq!((third.min_peers, third.run.place()), (3, 3));
    for (words, expected) in [
        (&["next", file, "--remove", "nobody"][..], "--remove nobody: no peer of "),
        (&["next", file], "digits-2.toml: exists; --force overwrites it"),
        (&["next", file, "--remove", "peer-1", "--force"], "the length of roster is 2, must be 3 to 1024"),
        (&["next", file, "--settings", file, "--force"], "settings as `tune --out` writes them are expected"),
    ] {
        let told = session_command(words).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{told}");
    }
}

#[test]
fn settings_come_from_a_file_or_from_rows() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let lines = "scaling = { soft-bins = { bins = 4 } }\ndensify = false\n[flynn]\nm = \"2d\"\ns = 3\nrho = 8\ngamma = 0.3\nscore = \"log\"\n";
    let settings = write("best.toml", lines);
    let session =
        Session::load(new(folder.path(), &["--settings", &settings, "--rho", "9"]).unwrap()).unwrap();
    let model = ModelSpec { m: 512, s: 3, rho: 9, gamma: 0.3, score: Score::Log };
    assert_eq!((session.task.model(), session.data.scaling), (Some(&model), Scaling::SoftBins { bins: 4 }));
    let bad = write("bad.toml", "scaling = \"standard\"\n");
    let told = message(new(folder.path(), &["--settings", &bad, "--force"]));
    assert!(told.contains("bad.toml: no settings: missing field"), "{told}");
    // Rows: two classes that lie apart.
    let rows: String = (0..60)
        .map(|i| format!("{},{},{}\n", i % 2 * 10 + i % 7, i % 5, if i % 2 == 0 { "well" } else { "sick" }))
        .collect();
    let rows = write("rows.csv", &format!("age,weight,kind\n{rows}"));
    let out = folder.path().join("made.toml");
    let mut words =
        vec!["new", "--name", "n", "--data", &rows, "--tuning", "1", "--out", out.to_str().unwrap()];
    let peers = [peer(1), peer(2), peer(3)];
    peers.iter().for_each(|peer| words.extend(["--peer", peer]));
    session_command(&words).unwrap();
    let session = Session::load(&out).unwrap();
    assert_eq!(
        (session.data.features, &session.data.columns[..]),
        (2, &["age".to_owned(), "weight".into()][..])
    );
    assert_eq!(session.data.classes, ["sick", "well"]);
    for (more, expected) in [
        (&["--epsilon", "1"][..], "--data: not with --epsilon"),
        (&["--task", "xclp"], "--data: not with the task xclp"),
        (&["--settings", "x"], "cannot be used with"),
    ] {
        let told = session_command(&[&words[..], more, &["--force"]].concat()).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{told}");
    }
}
