//! Tests the errors that end a session of the task, the vectors that are kept, and the words of peers without
//! labels. `tasks/nodes/fedavg_xclp.rs` compares the rounds of whole nodes with a plain program.

use super::*;
use crate::protocol::ballot::Ballot;
use crate::protocol::record;
use crate::protocol::sum_id::SumId;
use crate::tasks::built_in;

const PEERS: u16 = 4;

const HEAD: &str = concat!(
    r#"name = "tests"
run_id = "f0e1d2c3b4a5968778695a4b3c2d1e0f"
created = 2026-11-22T16:05:06Z
"#,
    include_str!("tests.toml")
);

fn toml(head: &str, peers: usize) -> String {
    let key = |i: usize| crate::Identity::from_seed([i as u8; 32]).public();
    let entry = |i: usize| format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i));
    head.to_owned() + &(0..peers).map(entry).collect::<String>()
}

/// Makes a task over five rows with these labels.
fn task(head: &str, labels: &[Option<u16>]) -> Result<Arc<dyn Task>, String> {
    let session = Session::parse(&toml(head, usize::from(PEERS))).unwrap();
    let values = (0u8..15).map(f32::from).collect();
    let data = Arc::new(Dataset::new(3, values, Vec::new(), Vec::new()).unwrap());
    let rows = Rows { labels: labels.to_vec(), ..Rows::new(data) };
    built_in(&session)
        .unwrap()
        .make(session, Peer(0), rows, &[0; 32])
        .map(|task| Arc::new(task) as Arc<dyn Task>)
}

/// Makes a history of slots over these members. The last slot has the words `last`.
fn history(slots: usize, members: &[Peer], last: &[u32]) -> History {
    let vector = |slot: usize| -> Bytes {
        if slot == 0 {
            return vec![7; 32].into();
        }
        last.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    let value = |slot: usize| record::Value {
        sum: SumId { ballot: Ballot::default(), slot: slot as u32 },
        members: members.to_vec(),
        total: [0; 32],
        deals: [0; 32],
    };
    History::of((0..slots).map(|slot| (value(slot), vector(slot))))
}

fn slot(task: &dyn Task, name: &str) -> u32 {
    task.plan().iter().position(|aggregate| aggregate.name == name).unwrap() as u32
}

fn everybody() -> Vec<Peer> {
    (0..PEERS).map(Peer).collect()
}

#[test]
fn labels_that_do_not_fit_the_rows_and_rows_that_cannot_be_held_out_are_refused() {
    assert_eq!(task(HEAD, &[None; 4]).unwrap_err(), "4 labels for 5 rows");
    let held = HEAD.replace("rounds = 4", "rounds = 4\nheld_out = 20");
    let told = task(&held, &[None; 5]).unwrap_err();
    assert_eq!(told, "none of this peer's rows has a label to hold out: fedavg.held_out must be 0");
    assert!(task(&held, &[Some(0), Some(1), Some(2), None, Some(0)]).is_ok());
    let session = Session::parse(&toml(HEAD, usize::from(PEERS))).unwrap();
    let none =
        Rows::new(Arc::new(Dataset::new(3, vec![0.0; 3], Vec::new(), Vec::new()).unwrap().subset(&[])));
    let told = built_in(&session).unwrap().make(session, Peer(0), none, &[0; 32]).unwrap_err();
    assert_eq!(told, "the task fedavg-xclp needs rows of every peer");
}

#[test]
fn a_peer_without_labels_sends_no_share_and_no_figures_before_any_are_found() {
    let (bare, labelled) = (task(HEAD, &[None; 5]).unwrap(), task(HEAD, &[Some(1); 5]).unwrap());
    let (first, rows) = (slot(&*bare, "round-1"), 5 * u32::from(PEERS));
    let history = history(first as usize, &everybody(), &[rows]);
    let words = |task: &Arc<dyn Task>| -> Vec<u32> {
        let vector = task.contribution(first, &history).unwrap();
        vector.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
    };
    // The words are twelve weights, four figures and the share, which are 0. The number of rows is not 0.
    assert!(words(&bare)[..17].iter().all(|&word| word == 0));
    assert_eq!((words(&bare)[17], words(&labelled)[16], words(&labelled)[17]), (5, (1 << 27) / 4, 5));
}

#[test]
fn means_and_spreads_are_those_of_rows_with_and_without_labels() {
    let head = HEAD.replace("check_columns = false", "check_columns = false\nscaling = \"standard\"");
    let task = task(&head, &[Some(1), None, None, Some(0), None]).unwrap();
    let slot = slot(&*task, "moments");
    let found = task.contribution(slot, &history(slot as usize, &everybody(), &[20])).unwrap();
    let rows = Dataset::new(3, (0u8..15).map(f32::from).collect(), Vec::new(), Vec::new()).unwrap();
    let expected = flyswarm_data::scaling::moments(&rows, true);
    assert_eq!(found, expected.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
}

#[test]
fn too_few_rows_too_few_parties_and_too_few_holders_end_or_stop_a_propagation() {
    let strict = HEAD.replace("few_rows = true", "few_rows = false");
    let task = task(&strict, &[Some(1), None, None, None, None]).unwrap();
    let points = slot(&*task, "points-1");
    // Each peer has three rows. The numbers of given labels follow.
    let opened = history(points as usize + 1, &everybody(), &[3, 3, 3, 3, 1, 1, 0]);
    let told = task.check(points, &opened).unwrap_err();
    assert!(told.starts_with("12 rows together, at least 20 are needed"), "{told}");
    let opened = history(points as usize + 1, &everybody(), &[5, 5, 5, 5, 1, 1, 0]);
    task.check(points, &opened).unwrap();
    task.allows(points + 1, &opened, &everybody()).unwrap();
    let told = task.allows(points + 1, &opened, &everybody()[..2]).unwrap_err();
    assert!(told.starts_with("10 rows together"), "{told}");
    // One of the two members with labels is gone.
    let head = HEAD.replace("min_contributors = 1", "min_contributors = 2");
    let task = self::task(&head, &[Some(1), None, None, None, None]).unwrap();
    for part in [POINTS, COUNTS] {
        let opened = history((points + part) as usize, &everybody(), &[2, 2, 0, 0]);
        task.allows(points + part, &opened, &everybody()).unwrap();
        let told = task.allows(points + part, &opened, &everybody()[1..]).unwrap_err();
        assert!(told.starts_with("only 2 peers have rows, and 1 of them are gone"), "{told}");
    }
}

#[test]
fn shares_are_forgotten_at_once_and_labels_when_the_next_ones_are_counted() {
    let task = task(HEAD, &[None; 5]).unwrap();
    let place = |name: &str| slot(&*task, name);
    let retained = |name: &str, committed: u32| task.needed_by_plan(place(name), committed);
    let next = place("counts-2");
    assert!(retained("computed-1", place("labelled-1")) && !retained("computed-1", place("labelled-1") + 1));
    for name in ["points-1", "labelled-1", "counts-1"] {
        assert!(retained(name, next) && !retained(name, next + 1), "{name}");
    }
    let end = place("round-4");
    for name in ["points-2", "labelled-2", "counts-2"] {
        assert!(retained(name, end) && !retained(name, end + 1), "{name}");
    }
    // The propagation uses these weights.
    assert!(retained("round-1", place("round-2")) && !retained("round-1", place("round-2") + 1));
}

#[test]
fn everybody_is_told_how_many_labels_were_given_and_found() {
    let task = task(HEAD, &[None; 5]).unwrap();
    let (points, counts) = (slot(&*task, "points-1"), slot(&*task, "counts-1"));
    let mut opened = history(points as usize, &everybody(), &[20]);
    for (slot, words) in (points..).zip([&[5, 5, 5, 5, 2, 1, 0][..], &[0], &[0], &[9, 6, 1]]) {
        let value = record::Value {
            sum: SumId { ballot: Ballot::default(), slot },
            members: everybody(),
            total: [0; 32],
            deals: [0; 32],
        };
        opened.push(value, Some(words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()));
    }
    let figures = task.metrics(counts, &opened);
    assert_eq!((&figures["labels_given"], &figures["labels_found"]), (&json!(3), &json!(13)));
}

/// Returns the rows that peer 0 has learnt from, if it is a member of the slots that `there` accepts. Enough
/// rows of each class are held out. No round is better than the first.
fn learnt(task: &dyn Task, there: impl Fn(&str) -> bool) -> Vec<usize> {
    let slots = (0..).zip(task.plan()).map(|(slot, aggregate)| {
        let value = record::Value {
            sum: SumId { ballot: Ballot::default(), slot },
            members: everybody().split_off(usize::from(!there(&aggregate.name))),
            total: [0; 32],
            deals: [0; 32],
        };
        let bytes = if slot == 0 { 32 } else { 4 * aggregate.words as usize };
        (value, vec![u8::from(aggregate.name == "holders"); bytes].into())
    });
    task.learnt_rows(&History::of(slots)).unwrap()
}

#[test]
fn rows_are_learnt_from_in_rounds_that_train_and_in_nothing_else() {
    let head = HEAD.replace("rounds = 4", "rounds = 4\nheld_out = 20\npatience = 1");
    let task = task(&head, &[Some(0), Some(1), Some(2), None, Some(0)]).unwrap();
    let rows = learnt(&*task, |_| true);
    assert!(rows.len() == 4 && rows.contains(&3), "one row with a label is held out: {rows:?}");
    let but_for = |round: &str| learnt(&*task, |name| !name.starts_with("round-") || name == round);
    assert_eq!(["round-1", "round-2", "round-3"].map(but_for), [&rows; 3].map(Vec::clone));
    // Training ends before the fourth round, whose slot sums the predictions.
    assert_eq!(but_for("round-4"), Vec::<usize>::new());
}

#[test]
fn rows_without_labels_are_learnt_from_once_a_propagation_has_delivered_some() {
    let task = task(HEAD, &[None; 5]).unwrap();
    let none = Vec::<usize>::new();
    assert_eq!(learnt(&*task, |name| name != "round-2"), [0, 1, 2, 3, 4]);
    assert_eq!(learnt(&*task, |name| !name.starts_with("round-") || name == "round-1"), none);
    assert_eq!(learnt(&*task, |name| !name.starts_with("labelled-")), none);
}
