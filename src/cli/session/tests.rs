//! Tests the commands of `session` with real files.

mod series;

use std::fs;

use clap::Parser;

use super::super::{Arguments, run};
use super::*;
use crate::crypto::identity::Identity;
use crate::session::{Architecture, DataSpec, Privacy, Scaling, Score, TaskSpec};
use crate::sketch::distribution::Family;
use crate::tasks::{EvaluateSpec, FlynnSpec, ModelSpec, SketchSpec, Weighting};

pub(super) fn peer(seed: u8) -> String {
    format!("peer-{seed}={}", Identity::from_seed([seed; 32]).public())
}

/// Runs `session new` with three peers and the arguments `more`. The session file is in `folder`.
pub(super) fn new(folder: &Path, more: &[&str]) -> Result<PathBuf, Failure> {
    let out = folder.join("session.toml");
    let peers = [peer(1), peer(2), format!("{}@/ip4/192.0.2.3/tcp/4001", peer(3))];
    let (task, more) = match more {
        [task, more @ ..] if !task.starts_with("--") => (*task, more),
        _ => ("flynn", more),
    };
    let mut words = vec!["flyswarm", "session", "new", task, "--name", "digits", "--features", "64"];
    if !more.contains(&"--classes") {
        words.extend(["--classes", "0..9"]);
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

    let more = "--classes a,b --set flynn.m=2d --set flynn.s=3 --set flynn.rho=0.5m --set flynn.gamma=0 --set data.scaling={range={lo=-1,hi=2.5}} --set data.densify=true --set min_peers=3 --set privacy.min_contributors=1 \
                --set privacy.collusion_threshold=0.5 --set timing.start_wait_ms=5 --set limits.max_views=30 --no-evaluate --force";
    let more: Vec<&str> = more.split_whitespace().collect();
    let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
    assert_eq!(session.data.classes, ["a", "b"]);
    assert_eq!(session.data.scaling, Scaling::Range { lo: -1.0, hi: 2.5 });
    assert_eq!(
        session.task,
        ModelSpec { m: 128, s: 3, rho: 64, gamma: 0.0, score: Score::BalancedLog }.into()
    );
    assert_eq!(session.privacy, Privacy { min_contributors: 1, collusion_threshold: 0.5, noise: None });
    assert_eq!((session.min_peers, session.timing.start_wait_ms, session.timing.max_views), (3, 5, 30));

    let more = ["--paper-settings", "--set", "flynn.rho=32", "--no-evaluate", "--force"];
    let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
    assert_eq!(session.data.scaling, Scaling::UnitNorm);
    assert_eq!(session.task, ModelSpec { m: 16_384, s: 19, rho: 32, gamma: 0.5, score: Score::Decay }.into());
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = new(folder.path(), &[]).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let told = message(new(folder.path(), &["--set", "flynn.rho=16"]));
    assert_eq!(told, format!("{}: exists; --force overwrites it", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    new(folder.path(), &["--set", "flynn.rho=16", "--force"]).unwrap();
    assert_eq!(Session::load(&path).unwrap().task.part::<ModelSpec>().unwrap().rho, 16);
}

#[test]
fn wrong_arguments_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for (more, expected) in [
        (&["--set", "flynn.rho=16385"][..], "flynn.rho is 16385, must be 1 to 16384 (m)"),
        (
            &["--set", "flynn.m=huge"],
            "flynn.m is \"huge\", must be an integer or a multiple such as \"0.5d\"",
        ),
        (&["--set", "timing.gather=5"], "a field of timing is \"gather\", must be one of start_wait_ms"),
        (&["--peer", "peer-3"], "must be NAME=PEERID[@MULTIADDR]"),
        (&["--peer", "x=12D3"], "is not that of an Ed25519 key"),
        (&["--set", "data.scaling=log"], "data.scaling: unknown variant `log`"),
        (&["--set", "data.scaling={range={lo=2,hi=1}}"], "data.scaling.range.hi is 1, must be above lo, 2"),
        (&["--set", "flynn.gamma=nan"], "flynn.gamma is NaN, must be from 0 to below 1"),
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
    let map = file("map.toml", "drop = [\"id\"]\n");
    let bare = file("bare.csv", "40,70,sick\n");
    let long = file("long.csv", &format!("{},kind\n1,sick\n", "x".repeat(65)));
    let out = folder.path().join("s.toml");
    let made = |more: &[&str]| -> Result<DataSpec, Failure> {
        let mut words = vec![
            "flyswarm",
            "session",
            "new",
            "flynn",
            "--name",
            "n",
            "--classes",
            "sick,well",
            "--force",
            "--out",
        ];
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
        &["--features", "age,weight"][..],
        &["--from", &rows, "--map", &map],
        &["--from", &rows, "--map", &map, "--label", "kind"],
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
        (
            &["--features", "age,weight", "--set", "data.features=3"][..],
            "the length of data.columns is 2, must be 3",
        ),
        (&["--from", &bare], "bare.csv: no column names, expected them for --from"),
        (&["--from", &long], "column 1 is called \"xxx"),
        (&["--from", &rows, "--features", "a"], "cannot be used with"),
        (&[], "data.features is absent, must be a number, or a [table]"),
    ] {
        let told = made(more).map(|_| ()).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{more:?}: {told}");
    }
    made(&["--features", "age,weight"]).unwrap();
    let shown = shown(&out, false).unwrap();
    assert!(shown.contains("columns      age, weight\n"), "{shown}");
}

#[test]
fn ranges_of_classes_hold_both_ends() {
    let range = super::parse::class_range;
    assert_eq!(range("-1..1").unwrap(), ["-1", "0", "1"]);
    for wrong in
        ["", "1", "1..", "a..b", "1..1", "2..1", "0..999999999", "-9223372036854775808..9223372036854775807"]
    {
        assert!(range(wrong).is_none(), "{wrong}");
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
    let session = Session::load(new(folder.path(), &["--set", "data.densify=true"]).unwrap()).unwrap();
    let shown = Shown::new(&session);
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
    let words =
        "flynn --set select=sketch --set sketch.chosen=3 --set sketch.rows=40 --set sketch.temperature=0.5";
    let path = new(folder.path(), &words.split(' ').collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    let spec =
        SketchSpec { rows: 40, open_distances: true, chosen: 3, temperature: 0.5, ..SketchSpec::default() };
    assert_eq!(session.task.get::<FlynnSpec>().unwrap().select, Some(spec));
    let shown = shown(&path, false).unwrap();
    for line in [
        "select       sketch: only drawn peers train\n",
        "sketch       srp, 40 rows of 64 counters (10244 bytes)\n",
        "selection    3 of all peers, temperature 0.5\n",
    ] {
        assert!(shown.contains(line), "{line:?} is not in {shown}");
    }
    for (more, expected) in [
        (&["--set", "select=lot"][..], "select: unknown variant `lot`"),
        (
            &["--set", "select=sketch", "--set", "sketch.chosen=2"],
            "sketch.chosen is 2, must be at least 3 with select",
        ),
        (
            &["--set", "select=sketch", "--set", "sketch.chosen=3", "--set", "sketch.pairwise=true"],
            "sketch.pairwise is true, must be false with select",
        ),
        (&["tune", "--choose", "3"], "unexpected argument '--choose'"),
        (&["tune", "--set", "select=sketch"], "task is tune, must be flynn if there is a select"),
        (
            &["--set", "select=sketch", "--set", "sketch.chosen=3", "--epsilon", "1"],
            "select is sketch, must be left out with",
        ),
        (&["--set", "sketch.chosen=3"], "task is flynn, must be sketch if there is a [sketch]"),
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
        let words = format!("xclp --force {more}");
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
        let words = format!("xclp --force {more}");
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
            told.contains("distances in pairs are not checked: an owner that deviates can read the label"),
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
fn a_session_of_labels_warns_of_copies_of_a_known_person() {
    let folder = tempfile::tempdir().unwrap();
    let sentence = "a peer that knows a person's features and brings eleven copies of them can read that person's \
                    label (in a test for 87 of 100 persons); xclp.most_rows limits the rows of an owner";
    for more in ["xclp", "xclp --hamming ot", "fedavg-xclp --network logistic"] {
        let words = format!("{more} --force");
        let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let told = shown(&path, false).unwrap();
        assert!(told.contains(sentence), "{more}: {told}");
        let limit = told.contains("at most 500 rows of an owner");
        assert_eq!(limit, more.starts_with("xclp"), "{more}: {told}");
    }
}

#[test]
fn a_session_warns_if_its_computing_members_prove_nothing_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    for (more, warned) in [("xclp", false), ("xclp --set xclp.cheaters=trusted", true)] {
        let words = format!("{more} --force");
        let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let told = shown(&path, false).unwrap();
        let line =
            "xclp.cheaters is \"trusted\": a computing member that deviates can read whose rows are near a";
        assert_eq!(told.contains(line), warned, "{told}");
    }
}

#[test]
fn a_session_that_propagates_labels_takes_the_options_of_both_tasks_and_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let words = "fedavg-xclp --network mlp --hidden 5 --rounds 8 --set xclp.bits=128 --set xclp.k=4 --after 2 \
                 --refresh 3";
    let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    let Some(spec) = session.task.get::<crate::tasks::FedavgXclpSpec>() else { panic!("{:?}", session.task) };
    assert_eq!((spec.fedavg.rounds, spec.xclp.bits, spec.xclp.k, spec.xclp.power), (8, 128, 4, 3));
    assert_eq!((spec.after, spec.refresh, spec.propagations()), (2, 3, 2));
    let shown = shown(&path, false).unwrap();
    assert!(shown.contains("propagated after 2 rounds, then every 3 rounds: 2 times"), "{shown}");
    for (more, expected) in [
        ("fedavg --refresh 3", "unexpected argument '--refresh'"),
        ("xclp --after 3", "unexpected argument '--after'"),
        ("fedavg --balance", "unexpected argument '--balance'"),
        (
            "fedavg-xclp --set xclp.balance=true",
            "xclp.balance is true, must be false with the task fedavg-xclp, which balances by opened counts",
        ),
        ("fedavg --hamming ot", "unexpected argument '--hamming'"),
        (
            "fedavg-xclp --set xclp.hamming=ot",
            "xclp.hamming is \"ot\", must be \"replicated\" with the task fedavg-xclp, which propagates labels often",
        ),
        ("fedavg-xclp --rounds 3 --after 3", "pseudo_labels.after is 3, must be below fedavg.rounds, 3"),
        ("fedavg-xclp --refresh 0", "pseudo_labels.refresh is 0, must be 1 to 10000"),
        (
            "fedavg-xclp --set fedavg.members=0.5",
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
    let words = "fedavg --network cnn --set fedavg.image=[1,8,8] --set fedavg.filters=[2,3,4] --hidden 5 --rounds 7 --set fedavg.rate=0.1 \
                 --set fedavg.momentum=0.5 --set fedavg.flip=true --set fedavg.weighting=equal";
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
        ("flynn --rounds 7", "unexpected argument '--rounds'"),
        ("fedavg --set flynn.m=5", "task is fedavg, must be flynn or tune if there is a [flynn]"),
        ("fedavg --network cnn", "fedavg.image is missing, must be given with the network cnn"),
        ("fedavg --set fedavg.colour=1", "unknown field `colour`"),
        ("fedavg --set fedavg.rounds=0", "fedavg.rounds is 0, must be 1 to 10000"),
        ("fedavg --epsilon 1 --set fedavg.weighting=equal --set fedavg.clip=0.5", "privacy.delta is missing"),
        ("fedavg --epsilon 1 --set privacy.delta=0.5", "privacy.delta is 0.5, must be 1e-12 to 0.01"),
        ("fedavg --epsilon 1 --set privacy.delta=1e-5", "fedavg.weighting is rows, must be equal"),
        ("fedavg --set fedavg.patience=3 --set fedavg.held_out=0", "fedavg.held_out is 0, must be above 0"),
        (
            "flynn --epsilon 1 --set privacy.delta=1e-5",
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
    use super::forecast::forecast;
    let folder = tempfile::tempdir().unwrap();
    let words = "fedavg --epsilon 100 --set privacy.delta=0.01 --rounds 2 --set fedavg.weighting=equal --set fedavg.clip=0.5";
    let path = new(folder.path(), &words.split_whitespace().collect::<Vec<_>>()).unwrap();
    let session = Session::load(&path).unwrap();
    assert_eq!((&session.data.scaling, session.data.checks.compare), (&Scaling::None, false));
    let shown = shown(&path, false).unwrap();
    assert!(shown.contains("epsilon = 100, delta = 0.01, member, every round, 1 may collude\n"), "{shown}");
    assert!(shown.contains("this budget protects all rows of one peer"), "{shown}");
    let line = forecast(&session, 1).unwrap().unwrap().text;
    assert!(
        line.starts_with("forecast: in each of 2 rounds noise of ") && line.contains("rho 65.3139"),
        "{line}"
    );
    assert!(line.contains("an update is at most 0.5 long"), "{line}");
    let held_out = |path: &Path| {
        let session = Session::load(path).unwrap();
        session.task.get::<crate::tasks::FedavgSpec>().unwrap().held_out
    };
    // A private session does not report the quality of the network; other sessions report it unless the user
    // turns this off.
    assert_eq!(held_out(&path), 0);
    let none = new(folder.path(), &["fedavg", "--set", "fedavg.held_out=0", "--force"]).unwrap();
    assert_eq!(held_out(&none), 0);
    let plain = new(folder.path(), &["fedavg", "--force"]).unwrap();
    assert_eq!(held_out(&plain), 20);
    assert!(forecast(&Session::load(&plain).unwrap(), 1).unwrap().is_none());
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
    let named = |file: &str| new(folder.path(), &["fedavg", "--initial", file, "--force"]);
    let path = named(file.to_str().unwrap()).unwrap();
    let session = Session::load(&path).unwrap();
    let Some(spec) = session.task.get::<crate::tasks::FedavgSpec>() else { panic!("{:?}", session.task) };
    assert_eq!(spec.initial, Some(network.digest()));
    let text = shown(&path, false).unwrap();
    assert!(text.contains(&format!("starts from  network {}", hex::encode(network.digest()))), "{text}");
    assert!(message(named(path.to_str().unwrap())).contains("a network of the task fedavg"));
    // The weights of any other model can be trained too. The option has two names.
    let header = r#"{"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    std::fs::write(&file, &weights).unwrap();
    let path = new(folder.path(), &["fedavg", "--tensors", file.to_str().unwrap(), "--force"]).unwrap();
    let session = Session::load(&path).unwrap();
    let Some(spec) = session.task.get::<crate::tasks::FedavgSpec>() else { panic!("{:?}", session.task) };
    assert_eq!((spec.is_own(), &*spec.tensors[0].name, spec.tensors.len()), (true, "w", 1));
    assert_eq!(spec.initial, Some(crate::tasks::fedavg::own::digest(&weights)));
    let told = message(new(folder.path(), &["--initial", "n", "--force"]));
    assert!(told.contains("unexpected argument '--initial'"), "{told}");
}

#[test]
fn a_sketch_session_takes_its_own_options_and_no_classes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sketch.toml");
    let made = |more: &[&str]| -> Result<Session, Failure> {
        let mut words = vec![
            "flyswarm",
            "session",
            "new",
            more[0],
            "--name",
            "n",
            "--features",
            "64",
            "--force",
            "--out",
        ];
        words.push(out.to_str().unwrap());
        let peers = [peer(1), peer(2), peer(3)];
        peers.iter().for_each(|peer| words.extend(["--peer", peer]));
        words.extend(&more[1..]);
        let command =
            Arguments::try_parse_from(words).map_err(|error| Failure::Input(error.to_string()))?.command;
        run(command, &mut Vec::new())?;
        Ok(Session::load(&out).unwrap())
    };
    let plain = made(&["sketch"]).unwrap();
    assert_eq!((&plain.task, plain.data.scaling), (&TaskSpec::from(SketchSpec::default()), Scaling::Center));
    let every = "sketch --hash minhash --set sketch.rows=50 --set sketch.range=100 --open-distances --pairwise --choose 1 --set sketch.active=2 --set sketch.temperature=3";
    let session = made(&every.split(' ').collect::<Vec<_>>()).unwrap();
    let spec = session.task.part::<SketchSpec>().unwrap();
    assert_eq!(
        (spec.hash, spec.rows, spec.range, spec.open_distances, spec.pairwise),
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
            &["sketch", "--classes", "a,b"][..],
            "the length of data.classes is 2, must be 0 with the task sketch",
        ),
        (&["sketch", "--set", "flynn.m=64"], "task is sketch, must be flynn or tune"),
        (&["sketch", "--choose", "1"], "sketch.open_distances is false, must be true if peers are chosen"),
        (&["flynn", "--classes", "a,b", "--set", "sketch.rows=5"], "task is flynn, must be sketch"),
        (&["xclp", "--classes", "a,b", "--open-distances"], "unexpected argument '--open-distances'"),
        (&["flynn"], "the length of data.classes is 0, must be 2 to 1000"),
    ] {
        let told = made(more).unwrap_err();
        assert!(told.code() == 2 && told.to_string().contains(expected), "{more:?}: {told}");
    }
}

#[test]
fn groups_and_terms_are_names_of_columns_without_quotation_marks() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    let line = |row: usize| format!("{},{},{}\n", row % 7 + 20, ["f", "m"][row % 2], ["a", "b"][row / 2 % 2]);
    fs::write(&rows, "age,sex,arm\n".to_owned() + &(0..80).map(line).collect::<String>()).unwrap();
    let text = |words: &[&str]| {
        let out = folder.path().join("session.toml");
        let peers = [peer(1), peer(2), peer(3)];
        let mut all =
            vec!["flyswarm", "session", "new", words[0], "--name", "trial", "--label", "none", "--force"];
        peers.iter().for_each(|peer| all.extend(["--peer", peer]));
        all.extend(["--from", rows.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        all.extend(&words[1..]);
        run(Arguments::try_parse_from(all).unwrap().command, &mut Vec::new()).unwrap();
        fs::read_to_string(out).unwrap().replace("\", ", "\",")
    };
    assert!(text(&["summary", "--by", "arm"]).contains("by = \"arm\""));
    assert!(text(&["summary", "--by", "arm,sex"]).contains("by = [\"arm\",\"sex\"]"));
    let model = text(&["glm", "--family", "logistic", "--outcome", "arm", "--terms", "age,sex"]);
    assert!(model.contains("terms = [\"age\",\"sex\"]"), "{model}");
    let table = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, table.replace("age,sex", "2020,true")).unwrap();
    assert!(text(&["summary", "--by", "true"]).contains("by = \"true\""));
    let model = text(&["glm", "--family", "logistic", "--outcome", "arm", "--terms", "2020,\"true\""]);
    assert!(model.contains("terms = [\"2020\",\"true\"]"), "{model}");
    let model = text(&["glm", "--family", "logistic", "--outcome", "arm", "--terms", "2020"]);
    assert!(model.contains("terms = [\"2020\"]"), "{model}");
}
