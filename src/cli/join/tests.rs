//! Tests which inputs `join` refuses before it starts a node.

use super::*;
use crate::data::Dataset;

fn session(task: &str) -> Session {
    let peers = (0..3u8).map(|peer| {
        let key = Identity::from_seed([peer; 32]).public();
        format!("[[roster]]\nname = \"p{peer}\"\npeer_id = \"{key}\"\n")
    });
    let peers: String = peers.collect();
    let text = format!(
        "name = \"t\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n{task}\n{peers}"
    );
    Session::parse(&text).unwrap()
}

#[test]
fn labels_are_kept_back_with_the_task_xclp_alone_and_only_where_there_are_some() {
    let data = "[data]\nfeatures = 2\nclasses = [\"a\", \"b\"]";
    let flynn = session(&format!("task = \"flynn\"\n{data}\n[flynn]\nm = 8\ns = 2\nrho = 2\ngamma = 0.5"));
    let xclp = session(&format!("task = \"xclp\"\n{data}"));
    let values = (0..16).map(|value| value as f32).collect();
    let data = Dataset::new(2, values, Vec::new(), Vec::new()).unwrap();
    let mut rows = Rows { labels: vec![None; 8], ..Rows::new(Arc::new(data)) };
    let told = |session: &Session, rows: &mut Rows| {
        let wishes = OwnWishes { file: Path::new("s.toml"), trainer: None, hold_out: Some(50), rounds: None };
        (session.task.kind().build_own)(session, wishes, rows).err()
    };
    let refused = "hold_out in the map file: with the task flynn the session file decides what is held out";
    assert_eq!(told(&flynn, &mut rows).as_deref(), Some(refused));
    let refused = "hold_out in the map file: no class has two rows (or groups) with a label, so no label can be kept back";
    assert_eq!(told(&xclp, &mut rows).as_deref(), Some(refused));
    rows.labels = (0..8).map(|row| Some(row % 2)).collect();
    assert_eq!(told(&xclp, &mut rows), None);
    assert!(rows.labels.contains(&None) && rows.labels.contains(&Some(0)) && rows.labels.contains(&Some(1)));
}

#[test]
fn the_network_that_a_session_starts_from_is_the_one_beside_its_file_with_that_digest() {
    let data = "[data]\nfeatures = 2\nclasses = [\"a\", \"b\"]";
    let xclp = session(&format!("task = \"xclp\"\n{data}"));
    let drawn = session(&format!("task = \"fedavg\"\n{data}\n[fedavg]\n"));
    let named =
        |digest: &str| session(&format!("task = \"fedavg\"\n{data}\n[fedavg]\ninitial = \"{digest}\""));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let made = |session: &Session, trainer: Option<&str>| {
        let data = Dataset::new(2, vec![0.0; 2], Vec::new(), Vec::new()).unwrap();
        let wishes = OwnWishes { file: &file("s.toml"), trainer, hold_out: None, rounds: None };
        let made = (session.task.kind().build_own)(session, wishes, &mut Rows::new(Arc::new(data)));
        made.map(|build| build.is_some())
    };
    assert_eq!(made(&xclp, Some("true")), Err("--trainer: not with the task xclp".into()));
    assert_eq!((made(&xclp, None), made(&drawn, None)), (Ok(false), Ok(false)));
    let shape = flyswarm_learn::learner::Architecture::Logistic;
    let scaler = flyswarm_data::scaling::Scaling::None;
    let pool = Dataset::new(2, vec![0.0; 2], Vec::new(), Vec::new()).unwrap();
    let scaler = flyswarm_data::scaling::Scaler::fit(&scaler, &pool).unwrap();
    let network = |classes: [&str; 2]| {
        let (classes, from) = (classes.map(String::from).to_vec(), ("t".into(), [0; 32]));
        let weights = vec![0.5; 6];
        flyswarm_learn::learner::Classifier::new(&shape, scaler.clone(), classes, Vec::new(), weights, from)
            .unwrap()
    };
    let (right, other) = (network(["a", "b"]), network(["a", "c"]));
    let digest = hex::encode(right.digest());
    std::fs::write(file("x.safetensors"), "none of ours").unwrap();
    other.save(&file("other.safetensors")).unwrap();
    let error = made(&named(&digest), None).unwrap_err();
    assert!(error.contains("put its file, NAME.safetensors, next to the session file"), "{error}");
    assert!(error.ends_with(&format!("has the digest {digest}")), "{error}");
    right.save(&file("right.safetensors")).unwrap();
    assert_eq!(made(&named(&digest), None), Ok(true));
    let error = made(&named(&hex::encode(other.digest())), None).unwrap_err();
    assert!(error.contains("other.safetensors: data.classes is"), "{error}");
}

#[test]
fn a_network_is_made_personal_at_the_end_as_by_the_command_and_the_page_has_its_figures() {
    use crate::cli::model::tests::digits_csv;
    use flyswarm_data::scaling::{Scaler, Scaling};
    use flyswarm_learn::learner::{Architecture, Classifier, Network};
    let classes: Vec<_> = (0..10).map(|class| format!("\"{class}\"")).collect();
    let data = format!("[data]\nfeatures = 64\nclasses = [{}]", classes.join(", "));
    let (fedavg, xclp) = (format!("task = \"fedavg\"\n{data}"), format!("task = \"xclp\"\n{data}"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let refused = |task: &str, network: &str| {
        let made = Personal::new(&session(task), &file(network), LabelColumn::Last);
        made.err().map(|error| error.to_string()).unwrap()
    };
    assert_eq!(refused(&xclp, "n"), "--personalise: not with the task xclp");
    assert!(refused(&fedavg, "n.personal").ends_with("the personal model is written there"));

    let rows = crate::data::digits::digits();
    let weights = Network::new(&Architecture::Logistic, 64, 10).unwrap().initial(&[1; 32]);
    let scaler = Scaler::fit(&Scaling::Center, &rows).unwrap();
    let (names, from) = (rows.classes().to_vec(), ("t".into(), [0; 32]));
    let network = Classifier::new(&Architecture::Logistic, scaler, names, Vec::new(), weights, from).unwrap();
    network.save(&file("n.safetensors")).unwrap();
    std::fs::write(file("d.csv"), digits_csv(200, true)).unwrap();
    let mut personal = Personal::new(&session(&fedavg), &file("n.safetensors"), LabelColumn::Last).unwrap();
    personal.data = Some(DataArguments::of(file("d.csv")));
    let files = Files {
        live: None,
        out: Some(file("n.safetensors")),
        receipt: file("n.receipt.json"),
        force: false,
        serves: false,
        map: None,
        ledger: file("none"),
        own: Mutex::default(),
        told: Mutex::new(Some(json!({"name": "t", "session": "ab", "peer": "me"}))),
        warnings: Mutex::default(),
    };
    std::fs::write(file("n.report.html"), "as it was before").unwrap();
    personal.make(&files, false, &Progress::new(true)).unwrap();
    let run = |line: &str| crate::cli::tests::run_line(folder.path(), line).unwrap();
    let told: Value =
        serde_json::from_str(&run("personalise n.safetensors --data d.csv --out c.personal --json")).unwrap();
    let bytes = |name: &str| std::fs::read(file(name)).unwrap();
    assert!(bytes("n.personal") == bytes("c.personal"), "the command writes the same file");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(file("n.personal")).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let page = String::from_utf8(bytes("n.report.html")).unwrap();
    for (method, share) in told["accuracy"].as_object().unwrap() {
        let line = format!("<dt>{method}</dt><dd>{:.1} % right</dd>", 100.0 * share.as_f64().unwrap());
        assert!(page.contains(&line), "{line} is not in {page}");
    }
    assert!(page.contains("<dt>better</dt>"));
}
