//! What `join` refuses before it starts a node.

use super::*;
use crate::data::Dataset;

fn session(task: &str) -> Session {
    let peers = (0..3u8).map(|peer| {
        let key = Identity::from_seed([peer; 32]).public();
        format!("[[roster]]\nname = \"p{peer}\"\npeer_id = \"{key}\"\n")
    });
    let peers: String = peers.collect();
    let text = format!(
        "name = \"t\"\nnumber = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n{task}\n{peers}"
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
        keeps_back(session, rows, 50).err().map(|error| error.to_string())
    };
    let refused = "--hold-out: with the task flynn the session file says what is held out";
    assert_eq!(told(&flynn, &mut rows).as_deref(), Some(refused));
    let refused = "--hold-out: no class has two rows with a label, so none can be kept back";
    assert_eq!(told(&xclp, &mut rows).as_deref(), Some(refused));
    rows.labels = (0..8).map(|row| Some(row % 2)).collect();
    assert_eq!(told(&xclp, &mut rows), None);
    assert!(rows.labels.contains(&None) && rows.labels.contains(&Some(0)) && rows.labels.contains(&Some(1)));
}
