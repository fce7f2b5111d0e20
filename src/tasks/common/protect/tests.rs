//! Tests that a task has all protections by default, and that the wrapper calls all methods of the task.

use std::collections::BTreeSet;

use super::*;
use crate::data::Dataset;
use crate::protocol::ballot::Ballot;
use crate::protocol::marks::Marks;
use crate::protocol::record::Value as Sum;
use crate::protocol::sum_id::SumId;

/// Names of the methods of [`Task`] that were called.
type Heard = Arc<Mutex<BTreeSet<&'static str>>>;

/// Task that sums one vector after the coin.
#[derive(Debug, Default)]
struct Probe(Heard);

impl Probe {
    fn hear(&self, method: &'static str) {
        self.0.lock().unwrap().insert(method);
    }
}

#[deny(clippy::missing_trait_methods)]
impl Task for Probe {
    fn plan(&self) -> Vec<Aggregate> {
        self.hear("plan");
        vec![Aggregate::coin(), Aggregate::exact("bins", 4, 2, "bins", "counts")]
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        self.hear("contribution");
        assert!(slot == 1 && history.committed() == 1, "slot {slot} of {}", history.committed());
        Ok(vec![7; 8].into())
    }

    fn noisy_contribution(&self, _: u32, _: &History, _: &mut Rng) -> Result<Bytes, String> {
        self.hear("noised");
        Ok(Bytes::new())
    }

    fn restore_noisy(&self, _: u32, _: &Bytes) {
        self.hear("restore_noisy");
    }

    fn exchange(&self, _: u32, _: &History, _: Seat) -> Result<Source, String> {
        self.hear("exchange");
        Ok(Source::Bystander)
    }

    fn contribution_from_exchange(&self, _: u32, _: &Bytes) -> Result<Bytes, String> {
        self.hear("exchanged");
        Ok(Bytes::new())
    }

    fn allows(&self, _: u32, _: &History, _: &[Peer]) -> Result<(), String> {
        self.hear("allows");
        Ok(())
    }

    fn can_continue(&self, _: u32, _: &History, _: Crowd<'_>) -> Result<(), String> {
        self.hear("can_continue");
        Ok(())
    }

    fn check(&self, _: u32, _: &History) -> Result<(), String> {
        self.hear("check");
        Ok(())
    }

    fn needed_by_plan(&self, _: u32, _: u32) -> bool {
        self.hear("retains");
        false
    }

    fn still_needed(&self, _: u32, _: &History) -> bool {
        self.hear("keeps");
        false
    }

    fn ends(&self, _: &History) -> bool {
        self.hear("ends");
        true
    }

    fn metrics(&self, _: u32, _: &History) -> Map<String, Value> {
        self.hear("figures");
        Map::from_iter([("bins".to_owned(), json!(2))])
    }

    fn row_use(&self, _: u32, _: &History) -> RowUse {
        self.hear("row_use");
        RowUse::LeftOut("of the probe")
    }

    fn learnt_rows(&self, _: &History) -> Option<Vec<usize>> {
        self.hear("learnt_rows");
        Some(vec![0])
    }

    fn outcome(&self, _: &History, _: u64) -> Result<Outcome, String> {
        self.hear("outcome");
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }

    fn work(&self, _: u32, _: &History) -> Work {
        self.hear("work");
        Work { select: 5.0, ..Work::default() }
    }
}

fn session() -> Session {
    let mut text = String::from(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"sketch\"\n[data]\nfeatures = 1\nscaling = \"none\"\n",
    );
    for seed in 0..3u8 {
        let key = crate::crypto::identity::Identity::from_seed([seed; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{seed}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

fn rows(values: &[f32]) -> Rows {
    Rows::new(Arc::new(Dataset::new(1, values.to_vec(), Vec::new(), Vec::new()).unwrap()))
}

fn protected(probe: Probe, rows: Rows) -> Result<Protected, String> {
    let guards = (Protections::ALL, OwnSlots::default(), Labels::None);
    Protected::new(Arc::new(probe), &session(), (Peer(0), rows), guards)
}

/// Returns a history with the slots coin, contributors, moments and bins, opened over all three peers.
fn history(contributors: u32, moments: &[Wide]) -> History {
    let opened: [Bytes; 3] =
        [vec![1; 32].into(), contributors.to_le_bytes().to_vec().into(), Wide::bytes(moments).into()];
    let sum = |slot| Sum {
        sum: SumId { ballot: Ballot::default(), slot },
        members: vec![Peer(0), Peer(1), Peer(2)],
        total: [0; 32],
        deals: [0; 32],
    };
    History::of((0..3).map(sum).zip(opened))
}

fn moments_of(values: &[f32]) -> Vec<Wide> {
    ColumnSums::Compared.of(&rows(values).data)
}

#[test]
fn a_task_that_says_nothing_counts_contributors_and_compares_columns() {
    let task = protected(Probe::default(), rows(&[1.0, 2.0])).unwrap();
    let names: Vec<String> = task.plan().into_iter().map(|aggregate| aggregate.name).collect();
    assert_eq!(names, ["coin", "holders", "moments", "bins"]);
    let empty = History::default();
    assert_eq!(&task.contribution(1, &empty).unwrap()[..], 1u32.to_le_bytes());
    assert_eq!(task.contribution(2, &empty).unwrap().len(), 64 * moments_of(&[1.0]).len());
    let none = protected(Probe::default(), Rows::new(Arc::new(rows(&[1.0]).data.subset(&[])))).unwrap();
    assert_eq!(&none.contribution(1, &empty).unwrap()[..], 0u32.to_le_bytes());
}

#[test]
fn too_few_contributors_end_the_session_of_any_task() {
    let task = protected(Probe::default(), rows(&[1.0])).unwrap();
    assert!(task.check(1, &history(3, &[])).is_ok());
    let told = task.check(1, &history(2, &[])).unwrap_err();
    assert!(told.contains("only 2 peers have rows"), "{told}");
    // One of the three counted peers has left.
    let told = task.allows(3, &history(3, &[]), &[Peer(0), Peer(1)]).unwrap_err();
    assert!(told.contains("only 2 members") || told.contains("are gone"), "{told}");
    assert!(task.allows(3, &history(3, &[]), &[Peer(0), Peer(1), Peer(2)]).is_ok());
}

#[test]
fn a_column_in_other_units_is_told_before_any_task_counts_it() {
    let others: Vec<f32> = (0..40).map(|at| 20.0 + at as f32).collect();
    let own: Vec<f32> = others.iter().map(|value| 1000.0 * value).collect();
    let opened: Vec<Wide> =
        moments_of(&own).iter().zip(moments_of(&others)).map(|(a, b)| a.wrapping_add(b)).collect();
    let task = protected(Probe::default(), rows(&own)).unwrap();
    task.contribution(3, &history(3, &opened)).unwrap();
    assert!(task.take_findings().iter().any(|line| line.contains("other units")));
    let strict = protected(Probe::default(), rows(&own)).unwrap().strict(true);
    assert!(strict.contribution(3, &history(3, &opened)).unwrap_err().contains("--strict"));
}

#[test]
fn rows_of_other_columns_are_refused_for_any_task() {
    let wide = Rows::new(Arc::new(Dataset::new(2, vec![0.0; 4], Vec::new(), Vec::new()).unwrap()));
    let told = protected(Probe::default(), wide).unwrap_err();
    assert_eq!(told, "rows have 2 features, the session has 1");
}

#[test]
fn an_opt_out_is_by_name_and_session_show_says_why() {
    let out = Protections { columns: Protection::OptOut("has no columns"), ..Protections::ALL };
    let told = out.told(&session());
    assert_eq!(told[1], ("columns", "off: the task has no columns".to_owned()));
    let guards = (out, OwnSlots::default(), Labels::None);
    let task = Protected::new(Arc::new(Probe::default()), &session(), (Peer(0), rows(&[1.0])), guards);
    assert_eq!(task.unwrap().plan().len(), 3);
}

#[test]
fn every_method_of_a_task_is_heard_through_its_protections() {
    let heard = Heard::default();
    let task = protected(Probe(heard.clone()), rows(&[1.0])).unwrap();
    let history = history(3, &moments_of(&[1.0; 30]));
    let seat = Seat {
        ctx: Arc::new(crate::protocol::context::Context::new(
            session().settings(),
            Peer(0),
            crate::crypto::identity::Identity::from_seed([0; 32]),
            Vec::new(),
        )),
        sum: SumId { ballot: Ballot::default(), slot: 3 },
        members: vec![Peer(0), Peer(1), Peer(2)],
        marks: Marks::default(),
        keys: std::collections::BTreeMap::new(),
        seed: [0; 32],
        patience_ms: 1,
        longest_ms: 1,
    };
    task.plan();
    task.contribution(3, &history).unwrap();
    task.noisy_contribution(3, &history, &mut rand::SeedableRng::from_seed([1; 32])).unwrap();
    task.restore_noisy(3, &Bytes::new());
    assert!(matches!(task.exchange(3, &history, seat).unwrap(), Source::Bystander));
    task.contribution_from_exchange(3, &Bytes::new()).unwrap();
    task.allows(3, &history, &[Peer(0), Peer(1), Peer(2)]).unwrap();
    task.can_continue(3, &history, (&[Peer(0), Peer(1), Peer(2)], &Marks::default())).unwrap();
    task.check(3, &history).unwrap();
    assert!(
        !task.needed_by_plan(3, 4)
            && task.needed_by_plan(1, 4)
            && !task.still_needed(3, &history)
            && task.ends(&history)
    );
    assert_eq!(task.metrics(3, &history)["bins"], 2);
    assert!(matches!(task.row_use(3, &history), RowUse::LeftOut("of the probe")));
    assert!((task.work(3, &history).select - 5.0).abs() < f64::EPSILON);
    assert_eq!(task.learnt_rows(&history), Some(vec![0]));
    let outcome = task.outcome(&history, 0).unwrap();
    assert_eq!(outcome.learnt_rows, None, "without a key nothing is hashed");
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 17, "{heard:?}");
}
