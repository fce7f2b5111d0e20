use flyswarm_data::prepare::value::{date, days};
use flyswarm_data::prepare::{DateOrder, read::Dialect};
use flyswarm_data::{Expected, LabelColumn, Loaded, load_named};
use flyswarm_learn::model::Model;
use flyswarm_sealed_sum::crypto::mask;
use proptest::prelude::*;

use super::*;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value as Decided;
use crate::protocol::sum_id::SumId;
use crate::tasks::built_in;
use crate::tasks::flynn::Plan;

const COIN: [u8; 32] = [7; 32];
const POOLED: [&str; 4] = ["fill_with = \"mean\"", "fill_with = \"mean\"", MOST, MOST];
const MOST: &str = "fill_with = \"most-frequent\"";

/// Returns a session with four columns, one of each kind. `fills` says how each of them is filled.
fn session(task: &str, fills: [&str; 4], min_contributors: u16) -> Session {
    // Rows of the task sketch have no classes.
    let classes = if task == "sketch" { "" } else { "classes = [\"a\", \"b\"]\n" };
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"{task}\"\n[data]\n{classes}scaling = \"center\"\n[privacy]\n\
         min_contributors = {min_contributors}\n[table]\nlabel = \"class\"\n"
    );
    let kinds = [
        "number\"\nindicator = true",
        "date\"",
        "category\"\nlevels = [\"u\", \"v\", \"w\"]",
        "ordinal\"\nlevels = [\"I\", \"II\"]",
    ];
    for ((name, kind), fill) in ["x", "day", "colour", "stage"].iter().zip(kinds).zip(fills) {
        text += &format!("[[table.column]]\nname = \"{name}\"\nkind = \"{kind}\n{fill}\n");
    }
    text += match task {
        "flynn" => "[flynn]\nm = 24\ns = 2\nrho = 3\ngamma = 0.5\n",
        "tune" => {
            "[flynn]\nm = 24\ns = 2\nrho = 3\ngamma = 0.5\n[tune]\nfolds = 2\n[[tune.setting]]\n\
             scaling = \"unit-norm\"\nm = 24\ns = 3\nrho = 2\n"
        }
        _ => "",
    };
    for i in 0..3 {
        let key = crate::crypto::identity::Identity::from_seed([i as u8; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

/// A row: x in quarters, day, colour, stage and class. All but the class may be missing.
type Row = (Option<i16>, Option<u16>, Option<usize>, Option<usize>, usize);

fn read(session: &Session, rows: &[Row]) -> Loaded {
    let mut text = "class,stage,colour,day,x\n".to_owned();
    for (x, day, colour, stage, class) in rows {
        let x = x.map(|x| (f64::from(x) / 4.0).to_string()).unwrap_or_default();
        let day = day.map(|day| date(f64::from(day)).unwrap()).unwrap_or_default();
        let colour = colour.map_or("", |level| ["u", "v", "w"][level]);
        let stage = stage.map_or("", |level| ["I", "II"][level]);
        text += &format!("{},{stage},{colour},{day},{x}\n", ["a", "b"][*class]);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, text).unwrap();
    let expected = Expected {
        preparation: session.data.preparation.as_deref(),
        classes: Some(&session.data.classes),
        label: if session.data.classes.is_empty() { LabelColumn::None } else { LabelColumn::Last },
        dialect: Dialect::default(),
        ..Expected::default()
    };
    load_named(&file, &expected).unwrap()
}

fn tasks(session: &Session, parts: &[Vec<Row>]) -> Vec<Arc<dyn Task>> {
    let kind = built_in(session).unwrap();
    let peers = (0u16..).map(Peer).zip(parts);
    let task = |(me, part): (Peer, &Vec<Row>)| {
        let Loaded { data, gaps, .. } = read(session, part);
        let rows = Rows { gaps, ..Rows::new(Arc::new(data)) };
        Arc::new(kind.make(session.clone(), me, rows, &[me.0 as u8; 32]).unwrap()) as Arc<dyn Task>
    };
    peers.map(task).collect()
}

/// Returns the opened vectors of the first `slots` slots if all peers contribute to each of them.
fn federated(tasks: &[Arc<dyn Task>], slots: usize) -> Result<Vec<Bytes>, String> {
    let mut opened = vec![Bytes::copy_from_slice(&COIN)];
    for (slot, aggregate) in (0u32..).zip(tasks[0].plan()).take(slots).skip(1) {
        let mut total = vec![0; aggregate.len()];
        for task in tasks {
            task.allows(slot, &History::of_vectors(&opened), &[Peer(0), Peer(1), Peer(2)])?;
            mask::add(aggregate.word(), &mut total, &task.contribution(slot, &History::of_vectors(&opened))?);
        }
        opened.push(total.into());
        tasks.iter().try_for_each(|task| task.check(slot, &History::of_vectors(&opened)))?;
    }
    Ok(opened)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    f64::from((values.iter().sum::<f64>() / values.len() as f64) as f32)
}

/// Returns the most frequent of `levels` levels; in a tie, the first of them.
fn most(levels: usize, values: impl Iterator<Item = usize>) -> usize {
    let values: Vec<usize> = values.collect();
    let count = |level: usize| values.iter().filter(|&&value| value == level).count();
    (0..levels).rev().max_by_key(|&level| count(level)).unwrap()
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        prop::option::of(-400i16..400),
        prop::option::of(0u16..20_000),
        prop::option::of(0usize..3),
        prop::option::of(0usize..2),
        0usize..2,
    );
    prop::collection::vec(row, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_model_is_that_of_all_rows_filled_with_the_plain_mean_and_the_most_frequent_level(
        mut parts in prop::collection::vec(any_rows(), 3),
    ) {
        // Makes sure that at least one peer has a value of each column.
        parts[0][0] = (Some(1), Some(10_000), Some(2), Some(1), 0);
        let pooled = session("flynn", POOLED, 1);
        let tasks = tasks(&pooled, &parts);
        let opened = federated(&tasks, usize::MAX).unwrap();
        let outcome = tasks[0].outcome(&History::of_vectors(&opened), 0).unwrap();

        let rows = parts.concat();
        let x = mean(rows.iter().filter_map(|row| row.0).map(|x| f64::from(x) / 4.0));
        let day = date(mean(rows.iter().filter_map(|row| row.1).map(f64::from)).round()).unwrap();
        let colour = ["u", "v", "w"][most(3, rows.iter().filter_map(|row| row.2))];
        let stage = ["I", "II"][most(2, rows.iter().filter_map(|row| row.3))];
        let fills = [format!("fill = {x:?}"), format!("fill = {day:?}"), format!("fill = {colour:?}"), format!("fill = {stage:?}")];
        let plain = session("flynn", fills.each_ref().map(|fill| &**fill), 1);
        let Some(spec) = plain.task.get::<crate::tasks::FlynnSpec>().copied() else { panic!() };
        let expected = Plan::new(plain.clone(), spec).pooled(&read(&plain, &rows).data, COIN).unwrap();
        prop_assert_eq!(outcome.digest, expected.digest());
        let model = Model::decode(&outcome.file).unwrap();
        prop_assert_eq!(model.preparation(), plain.data.preparation.as_deref());

        let figures = tasks[1].metrics(2, &History::of_vectors(&opened));
        prop_assert_eq!(&figures["fills"]["colour"], colour);
        prop_assert_eq!(&figures["fills"]["day"], &*day);
    }
}

/// Returns complete rows for the first `peers` peers. The rows of the other peers have no x.
fn with_x_at(peers: usize) -> Vec<Vec<Row>> {
    let part = |peer: usize| {
        vec![((peer < peers).then_some(3), Some(1), Some(0), Some(0), 0), (None, None, Some(0), None, 1)]
    };
    (0..3).map(part).collect()
}

#[test]
fn a_column_with_values_at_too_few_peers_ends_the_session_before_anything_of_it_is_summed() {
    let strict = session("flynn", POOLED, 3);
    for (peers, opens) in [(3, 6), (2, 2), (0, 2)] {
        let opened = federated(&tasks(&strict, &with_x_at(peers)), usize::MAX);
        if opens == 6 {
            // The slots are the coin, values, fills, holders, moments and counts.
            assert_eq!(opened.unwrap().len(), opens);
        } else {
            let text = format!(
                "column \"x\": only {peers} peers have values; the session requires 3 \
                 (privacy.min_contributors)"
            );
            assert_eq!(opened.unwrap_err(), text);
        }
    }
    // Even if the session requires only one peer, a session without any value ends.
    let loose = session("flynn", POOLED, 1);
    let error = federated(&tasks(&loose, &with_x_at(0)), usize::MAX).unwrap_err();
    assert!(error.starts_with("column \"x\": only 0 peers have values"), "{error}");
    assert!(federated(&tasks(&loose, &with_x_at(1)), usize::MAX).is_ok());
}

#[test]
fn fills_are_not_summed_over_members_of_whom_too_many_are_gone() {
    let session = session("flynn", POOLED, 2);
    let tasks = tasks(&session, &with_x_at(2));
    let opened = federated(&tasks, 2).unwrap();
    let value = |slot: u32| Decided {
        sum: SumId { ballot: Ballot::default(), slot },
        members: vec![Peer(0), Peer(1), Peer(2)],
        total: [0; 32],
        deals: [0; 32],
    };
    let history = History::over(&[value(0), value(1)], &opened);
    assert_eq!(tasks[0].allows(2, &history, &[Peer(0), Peer(1), Peer(2)]), Ok(()));
    // One of the counted peers is gone. It may be one of the two peers with values.
    let error = tasks[0].allows(2, &history, &[Peer(0), Peer(1)]).unwrap_err();
    assert!(error.contains("peers have values, and 1 of them are gone"), "{error}");
}

#[test]
fn sums_that_are_those_of_no_values_end_the_session() {
    let session = session("flynn", POOLED, 1);
    let tasks = tasks(&session, &with_x_at(3));
    let good = federated(&tasks, 3).unwrap();
    let changed = |changes: &[(usize, Wide)]| {
        let mut opened = good.clone();
        let mut fills = Wide::all(&opened[2]);
        changes.iter().for_each(|&(word, to)| fills[word] = to);
        opened[2] = Wide::bytes(&fills).into();
        tasks[0].check(2, &History::of_vectors(&opened))
    };
    assert_eq!(changed(&[(0, 3.into())]), Ok(()), "unchanged");
    assert!(changed(&[(0, 0.into())]).is_err(), "no value of x");
    assert!(changed(&[(0, (1 << 23).into())]).is_err(), "more values than rows");
    let mut large = [0; 64];
    large[16] = 1;
    assert!(changed(&[(1, Wide::from_le_bytes(large))]).is_err(), "a sum that three values do not have");
    // The words are two columns of two words each, then three levels, then two levels.
    assert!(changed(&[(4, (1 << 23).into())]).is_err(), "more rows of a level than rows");
    assert!(changed(&[(4, Wide::from_le_bytes(large))]).is_err(), "a number of rows with more than 64 bits");
    assert!(changed(&[(7, 0.into()), (8, 0.into())]).is_err(), "no stage at all");
}

#[test]
fn every_task_has_the_two_slots_and_forgets_what_it_would_without_them() {
    for task in ["flynn", "fedavg", "tune", "sketch", "xclp"] {
        let constants = ["fill = 1", "fill = \"2026-01-31\"", "fill = \"u\"", "fill = \"I\""];
        let sessions = [session(task, POOLED, 1), session(task, constants, 1)];
        let [filled, plain] = sessions.map(|session| {
            let kind = built_in(&session).unwrap();
            let Loaded { data, gaps, .. } = read(&session, &with_x_at(3)[0]);
            let labels = if task == "xclp" { vec![Some(0); data.rows()] } else { Vec::new() };
            let rows = Rows { labels, gaps, ..Rows::new(Arc::new(data)) };
            Arc::new(kind.make(session, Peer(0), rows, &[0; 32]).unwrap()) as Arc<dyn Task>
        });
        let (long, short) = (filled.plan(), plain.plan());
        assert_eq!((&*long[1].name, &*long[2].name), ("values", "fills"));
        assert_eq!([&long[..1], &long[3..]].concat(), short);
        let all = short.len() as u32;
        for (slot, committed) in
            (1..all).flat_map(|slot| (slot + 1..=all).map(move |committed| (slot, committed)))
        {
            assert_eq!(
                filled.needed_by_plan(slot + 2, committed + 2),
                plain.needed_by_plan(slot, committed),
                "{task} {slot} {committed}"
            );
            assert!(filled.needed_by_plan(2, committed + 2));
        }
    }
}

/// Tests the tasks whose sums do not depend on the session's id.
#[test]
fn tune_and_sketch_open_for_filled_rows_what_they_open_where_these_constants_are_agreed_on() {
    // At least one peer has a value of each column. All values of a column are equal.
    let constants = ["fill = 0.75", "fill = \"1970-01-02\"", "fill = \"u\"", "fill = \"I\""];
    for task in ["tune", "sketch"] {
        let (pooled, plain) = (session(task, POOLED, 1), session(task, constants, 1));
        let filled = tasks(&pooled, &with_x_at(3));
        let opened = federated(&filled, usize::MAX).unwrap();
        let expected = federated(&tasks(&plain, &with_x_at(3)), usize::MAX).unwrap();
        assert_eq!([&opened[..1], &opened[3..]].concat(), expected, "{task}");
        if task == "sketch" {
            let outcome = filled[0].outcome(&History::of_vectors(&opened), 0).unwrap();
            let result: Value = serde_json::from_slice(&outcome.file).unwrap();
            let fill = |column: usize| result["table"]["column"][column]["fill"].clone();
            assert_eq!(
                [0, 1, 2, 3].map(fill),
                [json!(0.75), json!("1970-01-02"), json!("u"), json!("I")],
                "the result says what filled the rows"
            );
            assert_eq!(result["columns"], json!(pooled.data.columns));
        }
    }
}

#[test]
fn a_date_between_two_days_becomes_a_whole_day() {
    let session = session("flynn", POOLED, 1);
    let days = |text| days(text, DateOrder::YearMonthDay).map(|day| day as u16);
    let rows = |day| vec![(Some(1), day, Some(0), Some(0), 0)];
    let parts = [rows(days("2026-01-30")), rows(days("2026-01-31")), rows(None)];
    let opened = federated(&tasks(&session, &parts), 3).unwrap();
    let found =
        resolved(session.data.preparation.as_deref().unwrap(), &History::of_vectors(&opened)).unwrap();
    assert_eq!(found.columns[1].fill, Fill::Number(f64::from(days("2026-01-31").unwrap())));
}
