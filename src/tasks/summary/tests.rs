//! The tables of all peers against the plain computation, and the audit: what follows from opened numbers.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm_data::prepare::{ColumnSpec, Fill, Kind, TableSchema};
use flyswarm_mpc::shares::cells::boxed;
use flyswarm_mpc::shares::cells::{BUCKETS, Opened, Rule};
use flyswarm_mpc::shares::input::{Announced, Inputs, parcels_of_words, unpack_words};
use flyswarm_mpc::shares::memory::in_memory;
use flyswarm_mpc::shares::program::Outcome;
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::table::{Equation, Layout, bucket, determined, open};
use super::*;
use crate::Identity;
use crate::data::Dataset;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::session::{DataSpec, Peer};
use crate::tasks::xclp::computed::{Computed, inputs_digest};
use crate::tasks::{History, Task};

/// A session file without a roster.
const SESSION: &str = "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\n\
                       created = 2026-11-22T16:05:06Z\ntask = \"summary\"\n[data]\nfeatures = 1\n\
                       columns = [\"x\"]\n[privacy]\nmin_contributors = 2\n";

/// Returns columns: two categories, an ordinal, and two numbers; the second of each pair may miss values.
fn data() -> DataSpec {
    let levels = |levels: &[&str]| levels.iter().map(|&level| level.to_owned()).collect::<Vec<_>>();
    let column = |name: &str, kind, fill: Fill| ColumnSpec {
        indicator: fill != Fill::Refuse && fill != Fill::NoLevel,
        fill,
        ..ColumnSpec::new(name, kind)
    };
    let columns = vec![
        column("arm", Kind::Category(levels(&["a", "b", "c"])), Fill::Refuse),
        column("sex", Kind::Category(levels(&["f", "m"])), Fill::NoLevel),
        column("stage", Kind::Ordinal(levels(&["1", "2", "3"])), Fill::Level("2".into())),
        column("age", Kind::Number, Fill::Refuse),
        column("bmi", Kind::Number, Fill::Number(25.0)),
    ];
    let table = TableSchema { columns, ..TableSchema::default() };
    let (features, columns) = (table.width() as u32, table.features());
    DataSpec { features, columns, preparation: Some(Arc::new(table)), ..DataSpec::default() }
}

fn spec() -> SummarySpec {
    let table = vec![CrossTable { rows: "sex".into(), columns: "stage".into() }];
    SummarySpec { by: Some("arm".into()), grid: 0.1, table, ..SummarySpec::default() }
}

/// A row as a table has it; `None` is missing.
type Plain = (usize, Option<usize>, Option<usize>, f32, Option<f32>);

fn row((arm, sex, stage, age, bmi): Plain) -> Vec<f32> {
    let one_hot = |levels: usize, level: Option<usize>| {
        (0..levels).map(move |at| f32::from(u8::from(Some(at) == level)))
    };
    one_hot(3, Some(arm))
        .chain(one_hot(2, sex))
        .chain([stage.unwrap_or(1) as f32, f32::from(u8::from(stage.is_none()))])
        .chain([age, bmi.unwrap_or(25.0), f32::from(u8::from(bmi.is_none()))])
        .collect()
}

fn plain() -> impl Strategy<Value = Plain> {
    let sex = prop_oneof![4 => (0usize..2).prop_map(Some), 1 => Just(None)];
    let stage = prop_oneof![9 => (0usize..3).prop_map(Some), 1 => Just(None)];
    let bmi = prop_oneof![5 => (150i32..400).prop_map(|x| Some(x as f32 / 10.0)), 1 => Just(None)];
    let age = (-50i32..900).prop_map(|x| x as f32 / 10.0);
    (prop_oneof![5 => Just(0usize), 4 => Just(1), 1 => Just(2)], sex, stage, age, bmi)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn words_of_peers_add_up_to_those_of_all_rows_and_equations_hold(
        rows in prop::collection::vec(plain(), 1..200), cuts in prop::collection::vec(0usize..200, 2..63),
    ) {
        let layout = Layout::new(&spec(), &data()).expect("fits");
        let all: Vec<Vec<f32>> = rows.iter().copied().map(row).collect();
        let whole = layout.words(all.iter().map(Vec::as_slice)).expect("in range");
        let cut = |cut: &usize| cut % (all.len() + 1);
        let mut ends: Vec<usize> = cuts.iter().map(cut).chain([0, all.len()]).collect();
        ends.sort_unstable();
        let mut sum = vec![0u64; whole.len()];
        for pair in ends.windows(2) {
            let part = layout.words(all[pair[0]..pair[1]].iter().map(Vec::as_slice)).expect("in range");
            sum.iter_mut().zip(part).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        }
        prop_assert_eq!(&sum, &whole);
        for Equation { total, parts } in layout.equations() {
            prop_assert_eq!(whole[total], parts.iter().map(|&part| whole[part]).sum::<u64>());
        }
        // Table 1 by hand.
        let count = |keep: &dyn Fn(&Plain) -> bool| rows.iter().filter(|row| keep(row)).count() as u64;
        let file = file(&layout, &whole, &all_open(&layout));
        let column = |name: &str| file["columns"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap().clone();
        let (sex, bmi) = (column("sex"), column("bmi"));
        prop_assert_eq!(&sex["levels"], &serde_json::json!(["f", "m", "missing"]));
        prop_assert_eq!(sex["counts"][1][2].as_u64(), Some(count(&|row| row.1 == Some(1) && row.0 == 1)));
        prop_assert_eq!(bmi["counts"][1][0].as_u64(), Some(count(&|row| row.4.is_none())));
        let of_a = rows.iter().filter(|row| row.0 == 0);
        let values: Vec<f64> = of_a.filter_map(|row| row.4).map(f64::from).collect();
        if values.len() > 1 {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let spread = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let sd = (spread / (values.len() - 1) as f64).sqrt();
            let found = &bmi["moments"][1];
            prop_assert!((found["mean"].as_f64().unwrap() - mean).abs() < 1e-4);
            prop_assert!((found["sd"].as_f64().unwrap() - sd).abs() < 1e-4);
        }
        let cross = &file["tables"][0]["counts"];
        prop_assert_eq!(cross[0][2].as_u64(), Some(count(&|row| row.1 == Some(0) && row.2 == Some(2))));
    }

    #[test]
    fn no_small_cell_follows_from_opened_numbers(
        rows in prop::collection::vec((plain(), 0usize..4), 20..400), threshold in 3u32..12,
    ) {
        let spec = SummarySpec { threshold, rest: 1, ..spec() };
        let layout = Layout::new(&spec, &data()).expect("fits");
        let owners: Vec<Vec<u64>> = (0..4)
            .map(|owner| {
                let own = rows.iter().filter(|(_, peer)| *peer == owner);
                let own: Vec<_> = own.map(|(plain, _)| row(*plain)).collect();
                layout.words(own.iter().map(Vec::as_slice)).expect("in range")
            })
            .collect();
        let pattern = pattern(&layout.rule(&spec, 2), &owners);
        let opened = layout.open(&pattern);
        prop_assert!(opened.cells.iter().zip(&pattern.cells).all(|(open, passes)| !open || *passes));
        audit(&opened.cells, &layout.equations(), &owners, &pattern.cells)?;
        let measures = layout.measure_equations();
        prop_assert_eq!(determined(&opened.measures, &measures), None);
        for (open, passes) in opened.measures.iter().zip(&pattern.measures) {
            prop_assert!(!open || *passes);
        }
    }
}

/// Returns the pattern of plain counts.
fn pattern(rule: &Rule, owners: &[Vec<u64>]) -> Opened {
    let passes = |rows: &[u64]| {
        let pooled: u64 = rows.iter().sum();
        pooled >= rule.threshold.into()
            && rows.iter().filter(|&&own| own > 0).count() >= rule.contributors as usize
            && rows.iter().all(|own| pooled - own >= rule.rest.into())
    };
    let of = |at: usize| owners.iter().map(|words| words[at]).collect::<Vec<_>>();
    let cells = (0..rule.cells())
        .map(|at| passes(&of(at)) || rule.empty_passes[at] && of(at).iter().all(|&own| own == 0));
    let measures = rule.measures.iter().enumerate().map(|(number, &cell)| {
        (0..BUCKETS).all(|bucket| {
            let inside = of(rule.cells() + BUCKETS * number + bucket);
            passes(&of(cell).iter().zip(inside).map(|(all, inside)| all - inside).collect::<Vec<_>>())
        })
    });
    Opened { cells: cells.collect(), measures: measures.collect() }
}

/// Looks for what an attacker finds: closed cells that follow from open ones by exact elimination over
/// fractions, and sums of closed cells of one equation that would not pass themselves.
fn audit(
    open: &[bool],
    equations: &[Equation],
    owners: &[Vec<u64>],
    passes: &[bool],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(by_elimination(open, equations), None, "a closed cell follows");
    for Equation { total, parts } in equations.iter().filter(|equation| open[equation.total]) {
        let closed: Vec<usize> = parts.iter().copied().filter(|&part| !open[part]).collect();
        let small = closed.iter().all(|&part| !passes[part]);
        let pooled: u64 = closed.iter().flat_map(|&part| owners.iter().map(move |words| words[part])).sum();
        prop_assert!(
            closed.is_empty() || !small || closed.len() == parts.len(),
            "{} rows of {:?} in {}",
            pooled,
            closed,
            total
        );
    }
    Ok(())
}

/// Finds a closed cell that is a combination of open ones, by elimination over fractions of `i128`.
fn by_elimination(open: &[bool], equations: &[Equation]) -> Option<usize> {
    let closed: Vec<usize> = (0..open.len()).filter(|&cell| !open[cell]).collect();
    let mut rows: Vec<Vec<i128>> = equations
        .iter()
        .map(|equation| {
            let factor = |cell: &usize| match () {
                () if *cell == equation.total => -1,
                () => i128::from(equation.parts.contains(cell)),
            };
            closed.iter().map(factor).collect()
        })
        .collect();
    let reduce = |row: &mut Vec<i128>| {
        let divisor = row.iter().fold(0i128, |a, &b| {
            let (mut a, mut b) = (a.abs(), b.abs());
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        });
        if divisor > 1 {
            row.iter_mut().for_each(|x| *x /= divisor);
        }
    };
    let mut top = 0;
    for column in 0..closed.len() {
        let Some(pivot) = (top..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
        rows.swap(top, pivot);
        let lead = rows[top].clone();
        for at in (0..rows.len()).filter(|&at| at != top) {
            let factor = rows[at][column];
            if factor != 0 {
                rows[at].iter_mut().zip(&lead).for_each(|(x, y)| *x = *x * lead[column] - factor * y);
                reduce(&mut rows[at]);
            }
        }
        top += 1;
    }
    let single = rows.iter().find(|row| row.iter().filter(|&&x| x != 0).count() == 1)?;
    single.iter().position(|&x| x != 0).map(|at| closed[at])
}

fn all_open(layout: &Layout) -> Opened {
    let measures = layout.rule(&spec(), 2).measures.len();
    Opened { cells: vec![true; layout.cells()], measures: vec![true; measures] }
}

fn file(layout: &Layout, words: &[u64], open: &Opened) -> serde_json::Value {
    let sums = layout.cells() + BUCKETS * open.measures.len();
    let numbers = [&words[..layout.cells()], &words[sums..]].concat();
    let session = Session::parse(&with_roster(SESSION));
    let file = File::new(&session.expect("a session"), &spec(), layout, open, &numbers);
    let bytes = format!("{:#}\n", file.json());
    assert!(recognised(bytes.as_bytes()));
    assert_eq!(File::read(bytes.as_bytes()).expect("a file"), file);
    file.json()
}

#[test]
fn the_audit_finds_a_cell_that_is_left_alone() {
    // A table of 2 x 2 with its margins: one small cell alone follows from its row.
    let equations = [
        Equation { total: 0, parts: vec![1, 2] },
        Equation { total: 0, parts: vec![3, 4] },
        Equation { total: 1, parts: vec![5, 6] },
        Equation { total: 2, parts: vec![7, 8] },
        Equation { total: 3, parts: vec![5, 7] },
        Equation { total: 4, parts: vec![6, 8] },
    ];
    let mut passes = vec![true; 9];
    passes[5] = false;
    assert_eq!(by_elimination(&passes, &equations), Some(5), "without secondary suppression");
    assert_eq!(determined(&passes, &equations), Some(5));
    // The first step alone, one more cell of the row, still leaves both to their columns.
    let mut half = passes.clone();
    half[6] = false;
    assert!(by_elimination(&half, &equations).is_some());
    let closed = open(&passes, &passes, &equations);
    assert_eq!(by_elimination(&closed, &equations), None);
    assert_eq!(closed, [true, true, true, true, true, false, false, false, false]);
}

#[test]
fn a_small_cell_takes_one_neighbour_and_tables_of_one_session_count_together() {
    let equations = [Equation { total: 0, parts: vec![1, 2, 3, 4] }];
    let mut passes = vec![true; 5];
    passes[3] = false;
    assert_eq!(open(&passes, &passes, &equations).iter().filter(|open| !**open).count(), 2);
    // The sum of two small cells is small, so a third closes.
    passes[4] = false;
    assert_eq!(open(&passes, &passes, &equations).iter().filter(|open| !**open).count(), 3);
    // The same cells in a second table, whose closed cells must not give the first away.
    let two = [Equation { total: 0, parts: vec![1, 2, 3] }, Equation { total: 0, parts: vec![1, 4] }];
    let passes = [true, true, true, false, true];
    let opened = open(&passes, &passes, &two);
    assert_eq!(by_elimination(&opened, &two), None);
}

#[test]
fn common_codes_of_numbers_lie_in_different_buckets() {
    for (grid, codes) in [(1, [0, 1]), (100, [0, 1]), (10, [0, 1]), (100, [1, 2]), (1, [1, 2]), (10, [1, 2])]
    {
        assert_ne!(bucket(codes[0] * grid), bucket(codes[1] * grid), "{codes:?} in steps of 1 / {grid}");
    }
}

#[test]
fn a_value_beyond_the_grid_and_an_unknown_level_are_errors_of_one_line() {
    let layout = Layout::new(&spec(), &data()).expect("fits");
    let far = row((0, None, None, 2e5, None));
    let error = layout.words([&far[..]].into_iter()).unwrap_err();
    assert!(
        error.starts_with("column \"age\": a value is more than 1048576 steps of its grid, 0.1"),
        "{error}"
    );
    let none = vec![0.0; far.len()];
    let error = layout.words([&none[..]].into_iter()).unwrap_err();
    assert!(error.starts_with("column \"arm\": a row has no level"), "{error}");
}

#[test]
fn fields_that_do_not_fit_the_columns_are_refused_by_name() {
    let refusal = |spec: SummarySpec| Layout::new(&spec, &data()).unwrap_err().0;
    assert_eq!(refusal(SummarySpec { by: Some("age".into()), ..spec() }), "summary.by");
    assert_eq!(refusal(SummarySpec { by: Some("none".into()), ..spec() }), "summary.by");
    assert_eq!(
        refusal(SummarySpec { columns: vec!["sex".into(), "sex".into()], ..spec() }),
        "summary.columns"
    );
    let twice = vec![CrossTable { rows: "arm".into(), columns: "sex".into() }];
    assert_eq!(refusal(SummarySpec { table: twice, ..spec() }), "summary.table", "the groups are that table");
    let grids = [("sex".to_owned(), 1.0)].into();
    assert_eq!(refusal(SummarySpec { grids, ..spec() }), "summary.grids");
    let pooled = |fill| {
        let mut data = data();
        let mut table = (*data.preparation.take().expect("a table")).clone();
        table.columns[4].fill = fill;
        table.columns[4].indicator = false;
        data.preparation = Some(Arc::new(table));
        Layout::new(&SummarySpec::default(), &data).map(|_| ())
    };
    assert!(
        pooled(Fill::Pooled).is_err() && pooled(Fill::Number(1.0)).is_err() && pooled(Fill::Refuse).is_ok()
    );
}

/// Returns the tasks of five peers after the exchange, and the history of each. Peers 1, 3 and 4 computed.
fn computed(rows: &[Vec<Vec<f32>>]) -> (Vec<Summary>, Vec<History>) {
    let mut session = Session::parse(&with_roster(SESSION)).expect("a session");
    session.data = data();
    let layout = Arc::new(Layout::new(&spec(), &session.data).expect("fits"));
    let rule = layout.rule(&spec(), 2);
    let task = |peer: u16| {
        let own = rows[usize::from(peer)].concat();
        let dataset = match own.is_empty() {
            true => Dataset::new(10, vec![0.0; 10], vec![], vec![]).expect("a row").subset(&[]),
            false => Dataset::new(10, own, vec![], vec![]).expect("rows"),
        };
        Summary::new(session.clone(), spec(), layout.clone(), Peer(peer), &dataset, &[7; 32]).expect("fits")
    };
    let tasks: Vec<Summary> = (0..5).map(task).collect();
    let mut held: [Vec<Inputs>; 3] = Default::default();
    let mut commitments = Vec::new();
    for (place, rows) in rows.iter().enumerate() {
        let words = layout.words(rows.iter().map(Vec::as_slice)).expect("in range");
        let parcels = parcels_of_words(&words, place, &[1, 2, 3].map(|n| Zeroizing::new([n; 32])));
        let input = [place as u8 + 1; 32];
        commitments.push((Peer(place as u16), input));
        let said = Announced::of(input, &parcels);
        for (number, held) in held.iter_mut().enumerate() {
            held.push(unpack_words(&parcels[number], number, &said, words.len()).expect("a parcel"));
        }
    }
    let run = in_memory(7, |context| {
        let inputs = held[context.role()].clone();
        boxed(context, rule.clone(), inputs, false)
    });
    let inputs = inputs_digest(commitments.iter().copied());
    let mut vectors = Vec::new();
    let results: Vec<Bytes> = (0u16..5)
        .map(|peer| {
            let number = [1, 3, 4].iter().position(|&party| party == peer);
            let shares = number.map(|number| match &run.results[number] {
                Outcome::Sealed(sealed) => (number as u8, sealed.to_bytes()),
                other => panic!("{other:?}"),
            });
            let digest = if number.is_some() { inputs } else { [0; 32] };
            let commitment = commitments[usize::from(peer)].1;
            Computed { party: shares, commitment, inputs: digest }.to_bytes()
        })
        .collect();
    for (task, result) in tasks.iter().zip(&results) {
        vectors.push(task.contribution_from_exchange(1, result).expect("a vector"));
    }
    let histories = results.into_iter().map(|result| {
        let mut history = History::of([(value(0, &[0, 1, 2, 3, 4]), Bytes::from(vec![5; 32]))]);
        history.push(value(1, &[0, 1, 2, 3, 4]), Some(sum_of(4, &vectors)));
        history.set_exchanged(1, result);
        history
    });
    let histories = histories.collect();
    (tasks, histories)
}

fn value(slot: u32, members: &[u16]) -> Value {
    let sum = SumId { ballot: Ballot::default(), slot };
    let members = members.iter().copied().map(Peer).collect();
    Value { sum, members, total: [0; 32], deals: [0; 32] }
}

/// Returns the sum of vectors of words of 4 or 8 bytes.
fn sum_of(bytes: usize, vectors: &[Bytes]) -> Bytes {
    let word = |vector: &Bytes, at: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&vector[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let words = (0..vectors[0].len()).step_by(bytes);
    let sums = words.map(|at| vectors.iter().fold(0u64, |sum, vector| sum.wrapping_add(word(vector, at))));
    sums.flat_map(|sum| sum.to_le_bytes()[..bytes].to_vec()).collect()
}

fn with_roster(text: &str) -> String {
    let mut keys: Vec<_> = (0..5u8).map(|i| Identity::from_seed([i; 32]).public()).collect();
    keys.sort();
    let entry = |(i, key)| format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    text.to_owned() + &keys.into_iter().enumerate().map(entry).collect::<String>()
}

/// Adds a slot to all histories: the sum of the vectors of `members`, changed by `change`.
fn add(
    tasks: &[Summary],
    histories: &mut [History],
    slot: u32,
    members: &[u16],
    change: impl Fn(&mut Vec<u8>),
) -> Result<(), String> {
    let all: Vec<Peer> = members.iter().copied().map(Peer).collect();
    tasks[0].allows(slot, &histories[0], &all)?;
    let vectors = members.iter().map(|&peer| {
        let at = usize::from(peer);
        let mut vector = tasks[at].contribution(slot, &histories[at]).expect("a vector").to_vec();
        if peer == 3 {
            change(&mut vector);
        }
        Bytes::from(vector)
    });
    let sum = sum_of(8, &vectors.collect::<Vec<_>>());
    histories.iter_mut().for_each(|history| history.push(value(slot, members), Some(sum.clone())));
    tasks.iter().zip(&*histories).try_for_each(|(task, history)| task.check(slot, history))
}

fn some_rows() -> Vec<Vec<Vec<f32>>> {
    let plain = |peer: usize, at: usize| {
        let number = 7 * peer + 3 * at;
        let bmi = (!number.is_multiple_of(9)).then_some(18.0 + number as f32 % 20.0);
        (at % 2, Some(number % 2), Some(number % 3), (number % 70) as f32, bmi)
    };
    (0..5).map(|peer| (0..20 * usize::from(peer != 2)).map(|at| row(plain(peer, at))).collect()).collect()
}

#[test]
fn the_opened_file_is_that_of_the_pooled_rows_also_without_one_party() {
    let rows = some_rows();
    let layout = Layout::new(&spec(), &data()).expect("fits");
    let owners: Vec<Vec<u64>> =
        rows.iter().map(|own| layout.words(own.iter().map(Vec::as_slice)).expect("in range")).collect();
    let open = layout.open(&pattern(&layout.rule(&spec(), 2), &owners));
    assert!(open.cells.iter().any(|open| *open) && open.cells.iter().any(|open| !*open));
    let mut files = Vec::new();
    for here in [&[0, 1, 2, 3, 4][..], &[0, 1, 3]] {
        let (tasks, mut histories) = computed(&rows);
        tasks[0].check(1, &histories[0]).expect("three parties");
        add(&tasks, &mut histories, 2, &[0, 1, 2, 3, 4], |_| {}).expect("the pattern");
        add(&tasks, &mut histories, 3, here, |_| {}).expect("the cells");
        let outcome = tasks[2].outcome(&histories[2], 0).expect("an outcome");
        assert_eq!(outcome.warnings.is_empty(), here.len() == 5, "copies of one party alone are a warning");
        files.push(serde_json::from_slice::<serde_json::Value>(&outcome.file).expect("JSON"));
    }
    assert_eq!(files[0], files[1]);
    let all = owners.iter().fold(vec![0u64; owners[0].len()], |sum, own| {
        sum.iter().zip(own).map(|(a, b)| a.wrapping_add(*b)).collect()
    });
    let expected = file(&layout, &all, &open);
    for part in ["groups", "rows", "columns", "tables"] {
        assert_eq!(files[0][part], expected[part], "{part}");
    }
}

#[test]
fn a_changed_copy_of_a_share_ends_the_session_and_names_both_who_hold_it() {
    for (slot, at) in [(2, 9), (3, 9), (3, 0)] {
        let (tasks, mut histories) = computed(&some_rows());
        let members = [0, 1, 2, 3, 4];
        // Peer 3 is party 1: it holds the second copy of share 2 and the first of share 1.
        let change = |vector: &mut Vec<u8>| {
            let section = vector.len() / 6;
            vector[2 * section + at] ^= 1;
        };
        if slot == 3 {
            add(&tasks, &mut histories, 2, &members, |_| {}).expect("the pattern");
        }
        let error = add(&tasks, &mut histories, slot, &members, change).unwrap_err();
        let expected = "peer-3 and peer-1 gave different copies of one share";
        assert!(error.starts_with(expected) || at == 0 && error.contains("gave no shares"), "{error}");
    }
}

#[test]
fn a_party_that_gives_nothing_and_two_that_are_gone_end_the_session() {
    let (tasks, mut histories) = computed(&some_rows());
    let error = add(&tasks, &mut histories, 2, &[0, 1, 2, 3, 4], |vector| vector.fill(0)).unwrap_err();
    assert_eq!(error, "peer-3 computed, and gave no shares or others' shares");
    let (tasks, mut histories) = computed(&some_rows());
    let error = add(&tasks, &mut histories, 2, &[0, 1, 2], |_| {}).unwrap_err();
    assert_eq!(error, "fewer than two of the three computing peers are left");
}

#[test]
fn shares_of_closed_cells_are_in_no_vector() {
    let (tasks, mut histories) = computed(&some_rows());
    add(&tasks, &mut histories, 2, &[0, 1, 2, 3, 4], |_| {}).expect("the pattern");
    let layout = Layout::new(&spec(), &data()).expect("fits");
    let open = tasks[0].open(&histories[0]).expect("open");
    for (task, history) in tasks.iter().zip(&histories) {
        let vector = task.contribution(3, history).expect("a vector");
        for section in vector.chunks(vector.len() / 6) {
            let word = |at: usize| section[8 * (1 + at)..][..8].iter().any(|&byte| byte != 0);
            for (cell, open) in open.cells.iter().enumerate() {
                assert!(*open || !word(cell), "cell {cell}");
            }
            for (measure, open) in open.measures.iter().enumerate() {
                let sum = layout.cells() + 2 * measure;
                assert!(*open || !word(sum) && !word(sum + 1), "measure {measure}");
            }
        }
    }
}
