//! Tests of models of the users' own: lists of tensors with any names and types.

use std::sync::Mutex;

use super::super::own::OwnModel;
use super::super::rounds::RoundFile;
use super::super::tensors::{TensorSpec, Values, open, write};
use super::super::trainer::{Answer, Order, Trainer};
use super::*;
use crate::session::fields::Word;
use crate::tasks::Dtype;
use half::{bf16, f16};

/// A convolution with batch normalisation, in four types, and names with dots, blanks and capitals.
const MODEL: &str = r#"network = "own"
rounds = 3
tensors = [
    { name = "Conv 1.weight", dtype = "F32", shape = [2, 3], rule = "average" },
    { name = "bn.running_var", dtype = "F32", shape = [2], rule = "average", range = 1048576.0 },
    { name = "bn.num_batches_tracked", dtype = "I64", shape = [], rule = "first" },
    { name = "head.w", dtype = "BF16", shape = [2, 2], rule = "average" },
    { name = "head.b", dtype = "F16", shape = [2], rule = "average" },
    { name = "steps", dtype = "I32", shape = [1], rule = "average", range = 4096 },
    { name = "local.scale", dtype = "F64", shape = [2], rule = "keep-own" },
]
"#;

/// Makes the first values of each tensor.
fn first(tensors: &[TensorSpec]) -> Values {
    let averaged =
        vec![0.5, -1.0, 2.0, 3.5, -0.25, 0.0, 70_000.0, 3.0, 1.5, 0.5, -2.0, 1.0, 0.125, -0.5, 10.0];
    let count: usize = tensors.iter().filter(|each| each.is_averaged()).map(TensorSpec::count).sum();
    assert_eq!(averaged.len(), count);
    let others = [7i64.to_le_bytes().to_vec(), [1.0f64, 2.0].map(f64::to_le_bytes).concat()];
    Values { averaged, others: others.map(Bytes::from).to_vec() }
}

fn own_session(model: &str) -> (Session, Vec<u8>) {
    let text = |digest: &str| text(4, &format!("{model}initial = \"{digest}\""));
    let drawn = Session::parse(&text(&"00".repeat(32))).unwrap();
    let tensors = &spec(&drawn).tensors;
    let file = write(tensors, &first(tensors), None);
    (Session::parse(&text(&hex::encode(own::digest(&file)))).unwrap(), file)
}

/// A trainer that adds the peer's number and the round to every value, also to values that are not averaged.
#[derive(Debug)]
struct Adds {
    me: u16,
    /// Adds this value to the number at this place.
    far: Option<(usize, f32)>,
    loss: f64,
    /// Value of `local.scale` that the trainer got in each round.
    got: Mutex<Vec<f64>>,
}

impl Trainer for Adds {
    fn train(&self, order: &Order<'_>) -> Result<Answer, String> {
        let step = f32::from(self.me) + order.round as f32;
        // Reads the weights from the file, as a trainer does.
        let mut values = open(&order.weights()).unwrap().values(order.tensors).unwrap();
        values.averaged.iter_mut().for_each(|number| *number += step / 8.0);
        if let Some((at, far)) = self.far {
            values.averaged[at] += far;
        }
        assert_eq!(values.others[0][..], 7i64.to_le_bytes(), "every round gets the first value");
        values.others[0] = Bytes::copy_from_slice(&99i64.to_le_bytes());
        let local = f64::from_le_bytes(values.others[1][..8].try_into().unwrap());
        self.got.lock().unwrap().push(local);
        values.others[1] = [local + f64::from(self.me), 0.0].map(f64::to_le_bytes).concat().into();
        order.answered(&write(order.tensors, &values, None), Some((self.loss, 0.5)))
    }
}

fn own_tasks(session: &Session, file: &[u8], far: Option<(usize, f32)>, loss: f64) -> Vec<Fedavg> {
    let mut tasks = tasks(session, &parts(4));
    for (me, task) in (0..).zip(&mut tasks) {
        task.plan.initial = Some(initial::read_file(session, spec(session), file).unwrap());
        let far = far.filter(|_| me == 1);
        task.trainer = Some(Arc::new(Adds { me, far, loss, got: Mutex::default() }));
    }
    tasks
}

fn everybody(_: u32) -> Vec<Peer> {
    (0..4).map(Peer).collect()
}

#[test]
fn a_model_of_any_tensors_is_averaged_by_their_types_and_equal_at_every_peer() {
    let (session, file) = own_session(MODEL);
    let tasks = own_tasks(&session, &file, None, 0.5);
    let names: Vec<_> = tasks[0].plan().into_iter().map(|each| each.name).collect();
    assert_eq!(
        names,
        ["coin", "holders", "rows", "round-1", "round-2", "round-3"],
        "no peer can test the model"
    );
    let history = federated(&tasks, everybody).unwrap();
    let made: Vec<_> = tasks.iter().map(|task| task.outcome(&history, 0).unwrap()).collect();
    assert!(made.iter().all(|each| each.file == made[0].file && each.digest == own::digest(&each.file)));
    // Computes the same in one place in binary64: the mean over the members, weighted by their rows and
    // rounded to the types.
    let tensors = &spec(&session).tensors;
    let shares = [15.0, 20.0, 25.0, 30.0].map(|rows| rows / 90.0);
    let mut expected: Vec<f64> = first(tensors).averaged.iter().map(|&number| f64::from(number)).collect();
    let typed = |tensor: &TensorSpec, number: f64| match tensor.dtype {
        Dtype::Bf16 => bf16::from_f64(number).to_f64(),
        Dtype::F16 => f16::from_f64(number).to_f64(),
        Dtype::I32 => number.round(),
        _ => number,
    };
    let of = |at: usize| {
        let mut start = 0;
        tensors.iter().filter(|each| each.is_averaged()).find(|each| {
            start += each.count();
            at < start
        })
    };
    for round in 0..3 {
        for (at, number) in expected.iter_mut().enumerate() {
            let tensor = of(at).unwrap();
            let start = typed(tensor, *number);
            let trained = |peer: usize| typed(tensor, start + (peer as f64 + f64::from(round)) / 8.0);
            *number = shares.iter().enumerate().map(|(peer, share)| share * trained(peer)).sum();
        }
    }
    let found = open(&made[0].file).unwrap().values(tensors).unwrap();
    for (at, (found, expected)) in found.averaged.iter().zip(&expected).enumerate() {
        let tensor = of(at).unwrap();
        // The differences come from rounding: shares are rounded down, words to a unit, and the mean to
        // binary32.
        let unit = 2f64.powi(-26) * tensor.range + expected.abs() * 2f64.powi(-22);
        let expected = typed(tensor, *expected);
        assert!((f64::from(*found) - expected).abs() <= unit, "{at} {}: {found} {expected}", tensor.name);
    }
    assert_eq!(found.others, first(tensors).others, "these values stay those of the file");
    let task = &tasks[3];
    let own = task.own.lock().unwrap().clone().unwrap();
    assert_eq!(own[0][..], 7i64.to_le_bytes());
    assert_eq!(own[1][..8], (1.0 + 3.0 * 3.0f64).to_le_bytes(), "its own values over three rounds");
    let rounds = made[0].details["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), &rounds[2]["loss"]), (3, &json!(0.5)));
}

#[test]
fn the_file_of_a_model_names_its_session_and_scaling_and_has_its_tensors_alone() {
    let (session, file) = own_session(MODEL);
    let tasks = own_tasks(&session, &file, None, 0.5);
    let made = tasks[0].outcome(&federated(&tasks, everybody).unwrap(), 0).unwrap();
    assert!(OwnModel::looks_like(&made.file) && !OwnModel::looks_like(&file));
    let model = OwnModel::decode(&made.file).unwrap();
    assert_eq!(model.session, ("test".into(), hex::encode(session.id().0)));
    assert_eq!(model.scaler.scaling(), &session.data.scaling.of_rows());
    let names: Vec<_> = model.tensors.iter().map(|each| (&*each.name, each.dtype.word())).collect();
    let wanted: Vec<_> = spec(&session).tensors.iter().map(|each| (&*each.name, each.dtype.word())).collect();
    assert_eq!(names, wanted);
    let told = own::contents(&made.file).unwrap();
    assert!(told.text.contains("  bn.num_batches_tracked           I64  []"), "{}", told.text);
    for cut in [7, 100, made.file.len() - 1] {
        assert!(OwnModel::decode(&made.file[..cut]).is_err(), "{cut}");
    }
    assert!(OwnModel::decode(&file).unwrap_err().contains("it has no format"));
}

#[test]
fn weights_that_are_not_those_of_the_list_are_refused_by_tensor() {
    let (session, file) = own_session(MODEL);
    let (tensors, spec) = (&spec(&session).tensors, spec(&session));
    let refused = |file: &[u8], digest: [u8; 32]| {
        let spec = FedavgSpec { initial: Some(digest), ..spec.clone() };
        initial::read_file(&session, &spec, file).err().unwrap_or_default()
    };
    assert_eq!(refused(&file, own::digest(&file)), "");
    let told = refused(&file, [7; 32]);
    assert!(told.starts_with("fedavg.initial is 0707") && told.contains("the file has "), "{told}");
    let written = |tensors: &[TensorSpec], values: Values| write(tensors, &values, None);
    let changed = |change: &dyn Fn(&mut Vec<TensorSpec>, &mut Values)| {
        let (mut tensors, mut values) = (tensors.clone(), first(tensors));
        change(&mut tensors, &mut values);
        let file = written(&tensors, values);
        refused(&file, own::digest(&file))
    };
    assert_eq!(changed(&|tensors, _| tensors[1].name = "bn.var".into()), "has no tensor bn.running_var");
    assert_eq!(
        changed(&|tensors, _| tensors[0].shape = vec![3, 2]),
        "has Conv 1.weight as F32 [3,2], expected F32 [2, 3]"
    );
    assert_eq!(
        changed(&|tensors, _| tensors[3].dtype = Dtype::F16),
        "has head.w as F16 [2,2], expected BF16 [2, 2]"
    );
    assert_eq!(changed(&|_, values| values.averaged[7] = f32::INFINITY), "has inf as bn.running_var[1]");
    let told = changed(&|tensors, values| {
        tensors.push(TensorSpec { name: "extra".into(), ..tensors[6].clone() });
        values.others.push(values.others[1].clone());
    });
    assert_eq!(told, "has a tensor \"extra\" that the model does not have");
    let cut = &file[..file.len() - 1];
    assert_eq!(refused(cut, own::digest(cut)), "is cut off in local.scale");
    assert_eq!(refused(b"\x05", own::digest(b"\x05")), "is not a file in the format safetensors");
}

#[test]
fn a_weight_beyond_its_range_is_named_by_tensor_with_its_value_and_what_to_do() {
    let (session, file) = own_session(MODEL);
    let error = |far, loss| federated(&own_tasks(&session, &file, far, loss), everybody).unwrap_err();
    assert_eq!(
        error(Some((4, 17.0)), 0.5),
        "training failed: Conv 1.weight[1, 1] is 16.875 after round 1, beyond +-16; its range is too small: set \
         range = 128 in a new session"
    );
}

#[test]
fn training_that_diverges_is_told_with_its_losses_and_a_rate_to_try() {
    let (session, file) = own_session(MODEL);
    let error =
        |far, loss| federated(&own_tasks(&session, &file, Some((0, far)), loss), everybody).unwrap_err();
    assert_eq!(
        error(-81.5, 40.0),
        "training failed: Conv 1.weight[0, 0] is -80.875 after round 1, beyond +-16; training diverges (loss of \
         the last rounds: 40.00); try fedavg.rate = 0.005 in a new session"
    );
    let text = error(f32::NAN, 0.5);
    assert!(text.contains("has NaN as Conv 1.weight[0, 0]"), "{text}");
    let text = error(0.0, f64::NAN);
    let end = "gave the loss NaN: the training diverges; try fedavg.rate = 0.005 in a new session";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_list_of_tensors_survives_the_file_and_is_part_of_the_id() {
    let (session, _) = own_session(MODEL);
    let text = session.to_toml();
    let again = Session::parse(&text).unwrap();
    assert_eq!((again.id(), spec(&again)), (session.id(), spec(&session)));
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} in {text}");
        Session::parse(&text.replacen(from, to, 1)).unwrap().id()
    };
    for (from, to) in [
        ("name = \"head.w\"", "name = \"head.v\""),
        ("dtype = \"BF16\"", "dtype = \"F16\""),
        ("rule = \"keep-own\"", "rule = \"first\""),
        ("range = 4096.0", "range = 8192.0"),
        ("shape = [2,3]", "shape = [3,2]"),
    ] {
        assert_ne!(changed(from, to), session.id(), "{from}");
    }
    // A tensor without a range has the range of the session. The default range does not change the id.
    assert_eq!(changed("range = 16.0\n", "\n"), session.id());
    assert_eq!(
        Session::parse(&own_text(&format!("range = 16.0\n{MODEL}"), &session)).unwrap().id(),
        session.id()
    );
    assert_ne!(
        Session::parse(&own_text(&format!("range = 32.0\n{MODEL}"), &session)).unwrap().id(),
        session.id()
    );
}

fn own_text(model: &str, session: &Session) -> String {
    text(4, &format!("{model}initial = \"{}\"", hex::encode(spec(session).initial.unwrap())))
}

#[test]
fn a_list_that_cannot_be_trained_is_refused_by_tensor() {
    let (session, _) = own_session(MODEL);
    let refused = |from: &str, to: &str| {
        let model = MODEL.replacen(from, to, 1);
        assert_ne!(model, MODEL, "{from}");
        Session::parse(&own_text(&model, &session)).unwrap_err().to_string()
    };
    for (from, to, problem) in [
        ("\"F32\"", "\"F8\"", "tensor \"Conv 1.weight\": dtype is not one of F64, F32"),
        ("\"average\"", "\"mean\"", "tensor \"Conv 1.weight\": rule is not one of average, keep-own, first"),
        ("[2, 3]", "[2, -3]", "tensor \"Conv 1.weight\": shape is not a list of whole numbers"),
        ("[2, 3]", "[2, 0]", "tensor \"Conv 1.weight\" has the shape [2, 0]"),
        ("[2, 3]", "[65536, 65536]", "averaged numbers, at most 16777216 are possible"),
        (
            "Conv 1.weight",
            "steps",
            "tensor \"steps\" has a name that another tensor has, or that is reserved",
        ),
        ("Conv 1.weight", "", "needs a name of 1 to 256 bytes"),
        ("1048576.0", "1000.0", "has the range 1000, expected a power of two, 2^-20 to 2^40"),
        ("rule = \"average\", range = 1048576.0", "rule = \"average\", limit = 3", "unknown field \"limit\""),
        ("\"I32\"", "\"BOOL\"", "tensor \"steps\" is BOOL and cannot be averaged"),
        ("\"own\"", "\"logistic\"", "the length of fedavg.tensors is 7, must be 0"),
        ("rounds = 3", "rounds = 3\nheld_out = 10", "fedavg.held_out is 10, must be 0 with fedavg.network"),
        (
            "rounds = 3",
            "rounds = 3\nhidden = [3]",
            "fedavg.hidden is given, must be left out with the network own",
        ),
        ("rounds = 3", "range = 3.0", "fedavg.range is 3, must be a power of two"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(problem), "{from} -> {to}: {error}");
    }
    let error = Session::parse(&text(4, MODEL)).unwrap_err().to_string();
    assert!(error.contains("fedavg.initial is missing, must be given with fedavg.network"), "{error}");
    let rows = || Rows::new(parts(4)[0].clone());
    let initial = Some(Arc::new(first(&spec(&session).tensors)));
    let made = build(spec(&session).clone(), Own { initial, ..Own::default() });
    let error = made(session.clone(), Peer(0), rows(), &[0; 32]).err().unwrap();
    assert!(error.contains("join with --trainer COMMAND"), "{error}");
}

#[test]
fn a_file_drafts_the_list_with_rules_and_ranges_that_suit_its_types() {
    let (session, _) = own_session(MODEL);
    let tensors = &spec(&session).tensors;
    let mut values = first(tensors);
    values.averaged[0] = 100.0;
    let file = write(tensors, &values, None);
    let found = open(&file).unwrap().tensors().unwrap();
    let told: Vec<_> = found.iter().map(|each| (&*each.name, each.rule.word(), each.range)).collect();
    assert_eq!(
        told,
        [
            ("Conv 1.weight", "average", 512.0),
            ("bn.running_var", "average", 524_288.0),
            ("bn.num_batches_tracked", "first", 0.0),
            ("head.w", "average", 16.0),
            ("head.b", "average", 16.0),
            ("steps", "first", 0.0),
            ("local.scale", "average", 16.0),
        ]
    );
}

#[test]
fn a_built_in_network_is_such_a_list_and_its_range_follows_from_the_session() {
    let parts = parts(4);
    let lines = "rounds = 2\nrate = 0.5";
    let (usual, wide) = (session(4, lines), session(4, &format!("{lines}\nrange = 1024.0")));
    assert_ne!(usual.id(), wide.id());
    let weights = |session: &Session| {
        let history = federated(&tasks(session, &parts), everybody).unwrap();
        Plan::new(session.clone(), spec(session).clone()).unwrap().weights(5, &history).unwrap()
    };
    let far = weights(&usual).iter().zip(weights(&wide)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far > 0.0 && far < 1e-5, "{far}");
    // With the default range, a weight of 20 is refused. With a wider range it is accepted.
    let start = |session: &Session| {
        let mut tasks = tasks(session, &parts);
        let count = tasks[0].plan.network.weights();
        let first = Values { averaged: vec![20.0; count], others: Vec::new() };
        tasks.iter_mut().for_each(|task| task.plan.initial = Some(Arc::new(first.clone())));
        federated(&tasks, everybody)
    };
    assert!(start(&usual).unwrap_err().contains("beyond +-16"));
    assert!(start(&wide).is_ok());
}

#[test]
fn the_weights_of_each_round_and_a_peers_own_tensors_are_on_disk_until_the_result() {
    let (session, file) = own_session(MODEL);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("wards.safetensors");
    let with = |kept: &Arc<RoundFile>| {
        let mut tasks = own_tasks(&session, &file, None, 0.5);
        tasks[2].kept = Some(kept.clone());
        tasks
    };
    let kept = Arc::new(RoundFile::beside(&out));
    std::fs::write(kept.path(), &file).unwrap();
    let tasks = with(&kept);
    assert_eq!(kept.told(), None);
    let history = federated_to(5, &tasks, everybody).unwrap();
    tasks[2].metrics(4, &history);
    let told = kept.told().unwrap();
    assert!(told.starts_with("the weights after round 2 are in "), "{told}");
    assert!(told.contains("`flyswarm session new fedavg --initial "), "{told}");
    let saved = std::fs::read(kept.path()).unwrap();
    assert!(
        told.ends_with(&format!("(fedavg.initial = \"{}\")", hex::encode(own::digest(&saved)))),
        "{told}"
    );
    // The next session starts from these weights, and the file from before is still there.
    let digests = [&file, &saved].map(|file| hex::encode(own::digest(file)));
    let next = Session::parse(&own_text(MODEL, &session).replace(&digests[0], &digests[1])).unwrap();
    let found = initial::beside(&folder.path().join("s.toml"), &next, spec(&next));
    let tensors = &spec(&session).tensors;
    let averaged = tasks[2].plan.made(2, &history).unwrap();
    assert_eq!(found.unwrap().unwrap().averaged.len(), averaged.len());
    assert_eq!(std::fs::read(out.with_extension("before.round")).unwrap(), file);
    // After a restart, the trainer gets the peer's own tensors as they were learnt.
    let again = with(&Arc::new(RoundFile::beside(&out)));
    assert_eq!(again[2].start(averaged).others[1][..8], (1.0 + 2.0 * 2.0f64).to_le_bytes());
    let other = own_session(&MODEL.replace("rounds = 3", "rounds = 4"));
    let mut tasks = own_tasks(&other.0, &other.1, None, 0.5);
    tasks[2].kept = Some(kept.clone());
    assert_eq!(
        tasks[2].start(Vec::new()).others,
        first(tensors).others,
        "the tensors of another session are not used"
    );
    kept.remove();
    assert!(!kept.path().exists());
}

#[test]
fn a_private_session_of_a_model_adds_its_noise_to_every_average() {
    let private = |model: &str| {
        let (session, file) = own_session(MODEL);
        let model = format!("{model}weighting = \"equal\"\nclip = 0.5\n");
        let text =
            own_text(&model, &session).replace("min_contributors = 1\n", "epsilon = 80\ndelta = 1e-5\n");
        (Session::parse(&text), file)
    };
    let error = private(MODEL).0.unwrap_err().to_string();
    assert!(error.starts_with("fedavg.range, or that of a tensor, is 1048576, must be 16 with"), "{error}");
    let plain = MODEL.replace("1048576.0", "16").replace("4096", "16").replace("70_000", "7");
    let (session, file) = private(&plain);
    let session = session.unwrap();
    let mut tasks = own_tasks(&session, &file, None, 0.5);
    for task in &mut tasks {
        let values = Values { averaged: vec![1.0; 15], ..first(&spec(&session).tensors) };
        task.plan.initial = Some(Arc::new(values));
    }
    let names: Vec<_> = tasks[0].plan().into_iter().map(|each| each.name).collect();
    assert_eq!(names, ["coin", "rows", "round-1", "round-2", "round-3"]);
}
