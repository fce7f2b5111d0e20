//! Compares the fit of several peers with the fit of all rows in one place, and tests models that are
//! refused.

mod determined;

use std::sync::Arc;

use bytes::Bytes;
use flyswarm_data::prepare::{ColumnSpec, Fill, Kind, TableSchema};
use flyswarm_glm::{Model, Next};
use flyswarm_mpc::shares::cells::{BUCKETS, Opened, Rule};
use proptest::prelude::*;

use super::design::DesignRow;
use super::task::Role;
use super::*;
use crate::session::{DataSpec, Peer};
use crate::tasks::common::checked::harness::{self, EVERYONE, dataset, value, with_roster};
use crate::tasks::{History, RowUse, Task};

const SESSION: &str = "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\n\
                       created = 2026-11-22T16:05:06Z\ntask = \"glm\"\n[data]\nfeatures = 2\n\
                       columns = [\"x\", \"y\"]\n[glm]\noutcome = \"y\"\n[privacy]\nmin_contributors = 2\n";
/// Slots of the task.
const PATTERN: u32 = 2;
const FIT: u32 = 3;

/// Describes the columns: a category of three levels, a category that may be missing, an ordinal, a number,
/// the outcome, and a number of visits.
fn data() -> DataSpec {
    let levels = |levels: &[&str]| levels.iter().map(|&level| level.to_owned()).collect::<Vec<_>>();
    let sex =
        ColumnSpec { fill: Fill::NoLevel, ..ColumnSpec::new("sex", Kind::Category(levels(&["f", "m"]))) };
    let columns = vec![
        ColumnSpec::new("arm", Kind::Category(levels(&["a", "b", "c"]))),
        sex,
        ColumnSpec::new("stage", Kind::Ordinal(levels(&["1", "2", "3"]))),
        ColumnSpec::new("age", Kind::Number),
        ColumnSpec::new("died", Kind::Category(levels(&["no", "yes"]))),
        ColumnSpec::new("visits", Kind::Number),
    ];
    let table = TableSchema { columns, ..TableSchema::default() };
    let (features, columns) = (table.width() as u32, table.features());
    DataSpec { features, columns, preparation: Some(Arc::new(table)), ..DataSpec::default() }
}

fn spec() -> GlmSpec {
    GlmSpec {
        family: "logistic".into(),
        outcome: "died".into(),
        terms: ["arm", "sex", "age"].map(str::to_owned).to_vec(),
        grid: 0.1,
        robust: true,
        rest: 1,
        ..GlmSpec::default()
    }
}

/// A row of the table: arm, sex (`None` if missing), stage, age, died, visits.
type Plain = (usize, Option<usize>, usize, f32, usize, u8);

fn row((arm, sex, stage, age, died, visits): Plain) -> Vec<f32> {
    let one_hot = |levels: usize, level: Option<usize>| {
        (0..levels).map(move |at| f32::from(u8::from(Some(at) == level)))
    };
    one_hot(3, Some(arm))
        .chain(one_hot(2, sex))
        .chain([stage as f32, age])
        .chain(one_hot(2, Some(died)))
        .chain([f32::from(visits)])
        .collect()
}

/// Returns the rows of five peers. The third peer has no rows, each other peer has `each` rows.
fn some_rows(each: usize, arms: usize) -> Vec<Vec<Vec<f32>>> {
    let plain = |peer: usize, at: usize| {
        let number = 7 * peer + 3 * at + at * at % 11;
        let sex = (!number.is_multiple_of(13)).then_some(number / 3 % 2);
        let died = usize::from((number * 29 + at * 17) % 10 < 3 + number % 3);
        (number % arms, sex, number / 5 % 3, (number * 31 % 700) as f32 / 10.0, died, (number * 5 % 97) as u8)
    };
    (0..5).map(|peer| (0..each * usize::from(peer != 2)).map(|at| row(plain(peer, at))).collect()).collect()
}

/// Returns a row of the design, or `None` if a value is missing.
fn designed(design: &Design, row: &[f32]) -> Result<Option<DesignRow>, String> {
    design.values(row)?.map(|values| design.row_of(&values)).transpose()
}

fn session() -> Session {
    let mut session = Session::parse(&with_roster(SESSION)).expect("a session");
    session.data = data();
    session
}

fn words(design: &Design, rows: &[Vec<Vec<f32>>]) -> Vec<Vec<u64>> {
    let words = |own: &Vec<Vec<f32>>| design.words(own.iter().map(Vec::as_slice)).expect("in range").0;
    rows.iter().map(words).collect()
}

/// Returns the tasks of five peers after the exchange, and the history of each.
fn computed(spec: &GlmSpec, rows: &[Vec<Vec<f32>>]) -> (Vec<Glm>, Vec<History>) {
    let session = session();
    let design = Arc::new(Design::new(spec, &session.data).expect("fits"));
    let task = |peer: u16| {
        let data = dataset(10, &rows[usize::from(peer)]);
        Glm::new(session.clone(), spec.clone(), design.clone(), Peer(peer), &data, &[7; 32]).expect("fits")
    };
    let tasks: Vec<Glm> = (0..5).map(task).collect();
    let histories = harness::computed(&tasks, &design.rule(spec, 2), &words(&design, rows));
    (tasks, histories)
}

/// Returns a peer's vector for a slot that is not another check.
fn own(task: &Glm, slot: u32, history: &History) -> Result<Bytes, String> {
    match task.role(slot, history).1 {
        Role::Round(_) => {
            let (_, run) = task.round(slot, history)?;
            task.contribution_from_exchange(slot, &run())
        }
        _ => task.contribution(slot, history),
    }
}

/// Adds a slot with the sum of the vectors of `members` to all histories.
fn add(tasks: &[Glm], histories: &mut [History], slot: u32, members: &[u16]) -> Result<(), String> {
    harness::add(tasks, histories, slot, members, |task, history, _| own(task, slot, history))
}

/// Runs a session to its end.
fn whole(spec: &GlmSpec, rows: &[Vec<Vec<f32>>]) -> Result<(Vec<Glm>, Vec<History>), String> {
    let (tasks, mut histories) = computed(spec, rows);
    let last = tasks[0].plan().len() as u32;
    for slot in PATTERN..last {
        if tasks[0].ends(&histories[0]) {
            break;
        }
        add(&tasks, &mut histories, slot, &EVERYONE)?;
    }
    Ok((tasks, histories))
}

/// Fits the model to all rows in one place.
fn in_one_place(spec: &GlmSpec, rows: &[Vec<f32>]) -> File {
    let design = Design::new(spec, &data()).expect("fits");
    let model: Model = spec.model(&design).expect("a family");
    let mut opened = Vec::new();
    loop {
        match model.next(&opened) {
            Next::Done(fit) => return File::new(&session(), spec, &design, &fit),
            Next::Failed(error) => panic!("{error}"),
            Next::Round(round) => {
                let (_, own) = design.words(rows.iter().map(Vec::as_slice)).expect("in range");
                opened.push(own.sums(model.family, &round));
            }
        }
    }
}

#[test]
fn the_fit_of_five_peers_is_that_of_the_pooled_rows() {
    let interaction = ["arm", "sex", "age", "arm:sex", "sex:age"].map(str::to_owned).to_vec();
    let visits = GlmSpec { family: "poisson".into(), outcome: "visits".into(), ..spec() };
    let specs = [
        spec(),
        GlmSpec { terms: interaction, robust: false, ..spec() },
        GlmSpec {
            reference: [("arm".to_owned(), "b".to_owned())].into(),
            terms: vec!["arm".into(), "stage".into()],
            ..spec()
        },
        visits,
        GlmSpec {
            family: "linear".into(),
            outcome: "age".into(),
            terms: vec!["arm".into(), "sex".into()],
            ..spec()
        },
    ];
    for spec in specs {
        let rows = some_rows(150, 3);
        let (tasks, histories) = whole(&spec, &rows).expect("a fit");
        let outcomes: Vec<_> = tasks
            .iter()
            .zip(&histories)
            .map(|(task, history)| task.outcome(history, 0).expect("an outcome"))
            .collect();
        assert!(outcomes.iter().all(|each| each.file == outcomes[0].file && each.warnings.is_empty()));
        let read = contents(&outcomes[0].file).expect("a file");
        assert_eq!(read.digest, outcomes[0].digest);
        assert!(recognised(&outcomes[0].file) && read.text.contains("| intercept |"), "{}", read.text);
        let table = csv(&outcomes[0].file).expect("a file");
        assert!(table.contains("\nintercept,") && table.contains("\n\nFit\n,value\nrows,"), "{table}");
        let expected = in_one_place(&spec, &rows.concat());
        assert_eq!(format!("{:#}\n", expected.json()).as_bytes(), &outcomes[0].file[..]);
    }
}

#[test]
fn the_headline_names_the_terms_whose_interval_excludes_no_association() {
    let file = in_one_place(&spec(), &some_rows(150, 3).concat()).json();
    let headline = |excluded: &[usize], low: f64, high: f64| {
        let mut file = file.clone();
        for (at, line) in file["coefficients"].as_array_mut().unwrap().iter_mut().enumerate() {
            line["low"] = if excluded.contains(&at) { low } else { -1.0 }.into();
            line["high"] = if excluded.contains(&at) { high } else { 1.0 }.into();
        }
        File::read(file.to_string().as_bytes()).unwrap().headline()
    };
    let name = |at: usize| file["coefficients"][at]["name"].as_str().unwrap().to_owned();
    let terms = file["coefficients"].as_array().unwrap().len() - 1;
    let told = headline(&[0, 1, 2], 0.5, 1.0);
    let end = format!("excludes odds ratio 1 for 2 of {terms} terms: {}, {}.", name(1), name(2));
    assert!(told.starts_with("Logistic regression of ") && told.ends_with(&end), "{told}");
    assert!(headline(&[2], -1.0, -0.5).ends_with(&format!("for 1 of {terms} terms: {}.", name(2))));
    assert!(headline(&[], 0.0, 0.0).ends_with(&format!("for 0 of {terms} terms.")));
}

#[test]
fn names_of_columns_follow_the_reference_and_the_order_of_terms() {
    let terms = ["sex", "arm", "stage", "arm:age"].map(str::to_owned).to_vec();
    let spec = GlmSpec { terms, reference: [("arm".to_owned(), "b".to_owned())].into(), ..spec() };
    let design = Design::new(&spec, &data()).expect("fits");
    let names: Vec<String> = design.columns().into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["intercept", "sex=m", "arm=a", "arm=c", "stage", "arm=a:age", "arm=c:age"]);
    let found = designed(&design, &row((2, Some(1), 2, 40.5, 1, 0))).expect("in range").expect("complete");
    assert_eq!(found.columns, [1, 1, 0, 1, 2, 0, 405]);
    assert_eq!((found.outcome, found.offset, found.weight), (1.0, 0.0, 1.0));
    assert_eq!(
        designed(&design, &row((2, None, 2, 40.5, 1, 0))),
        Ok(None),
        "a missing value leaves the row out"
    );
}

#[test]
fn a_small_cell_of_two_terms_refuses_the_model_before_a_number_opens() {
    // Few women of arm c died, but no sum for these three factors is opened, because the model has no
    // interaction.
    let mut rows = some_rows(120, 2);
    for at in 0..9 {
        rows[at % 2].push(row((2, Some(at % 2), 0, 40.0 + at as f32, at % 2, 0)));
    }
    let (tasks, mut histories) = computed(&spec(), &rows);
    let error = add(&tasks, &mut histories, PATTERN, &EVERYONE).unwrap_err();
    assert!(error.starts_with("the model is refused before anything opens"), "{error}");
    assert!(error.contains(": arm=c; arm=c and sex=f;") && error.ends_with("leave terms out"), "{error}");
    // A peer that has not noticed the refusal sends nothing either.
    let error = own(&tasks[1], FIT, &histories[1]).unwrap_err();
    assert!(error.starts_with("the model is refused"), "{error}");
}

#[test]
fn too_few_rows_for_the_columns_refuse_the_model() {
    let linear =
        GlmSpec { family: "linear".into(), outcome: "visits".into(), terms: vec!["age".into()], ..spec() };
    let error = whole(&linear, &some_rows(4, 3)).unwrap_err();
    assert!(error.contains(": all rows (at least 20 for 2 columns); join levels"), "{error}");
    assert!(whole(&linear, &some_rows(5, 3)).is_ok());
}

/// Checks the rows of the remaining peers again, in the slots from `slot` on.
fn check_again(
    tasks: &[Glm],
    histories: &mut [History],
    slot: u32,
    members: &[u16],
    rows: &[Vec<Vec<f32>>],
) -> Result<(), String> {
    let design = Design::new(&spec(), &data()).expect("fits");
    harness::exchange(tasks, histories, (slot, members), &design.rule(&spec(), 2), &words(&design, rows))?;
    add(tasks, histories, slot + 1, members)
}

#[test]
fn peers_lost_before_the_first_round_cost_only_their_rows() {
    let rows = some_rows(150, 3);
    let (tasks, mut histories) = computed(&spec(), &rows);
    add(&tasks, &mut histories, PATTERN, &[1, 2, 3, 4]).expect("the pattern");
    check_again(&tasks, &mut histories, FIT, &[1, 2, 3, 4], &rows).expect("peer 0 was lost");
    assert_eq!(tasks[1].metrics(FIT, &histories[1]), Default::default());
    // Peer 0 comes back. Peer 2 is lost when the next sum begins.
    check_again(&tasks, &mut histories, FIT + 2, &[0, 1, 3, 4], &rows).expect("peer 2 was lost");
    assert_eq!(
        tasks[0].row_use(FIT, &histories[0]),
        RowUse::LeftOut("this peer came after the cells were checked")
    );
    assert_eq!(tasks[0].row_use(FIT + 2, &histories[0]), RowUse::Included);
    let mut slot = FIT + 4;
    while !tasks[1].ends(&histories[1]) {
        add(&tasks, &mut histories, slot, &[0, 1, 3, 4]).expect("a round");
        slot += 1;
    }
    let found = tasks[3].outcome(&histories[3], 0).expect("an outcome");
    let expected = in_one_place(&spec(), &[&rows[0][..], &rows[1], &rows[3], &rows[4]].concat());
    assert_eq!(format!("{:#}\n", expected.json()).as_bytes(), &found.file[..]);
}

#[test]
fn the_peers_that_remain_are_refused_if_their_cells_are_small() {
    let mut rows = some_rows(150, 2);
    // Only peers 0 and 1 have rows of arm c.
    for at in 0..400 {
        let number = at * 7 % 61;
        rows[usize::from(at % 25 == 0)].push(row((
            2,
            Some(at / 2 % 2),
            0,
            20.0 + number as f32,
            usize::from(number % 5 < 2),
            0,
        )));
    }
    let (tasks, mut histories) = computed(&spec(), &rows);
    add(&tasks, &mut histories, PATTERN, &EVERYONE).expect("the pattern");
    let error = check_again(&tasks, &mut histories, FIT, &[1, 2, 3, 4], &rows).unwrap_err();
    assert!(error.contains("fewer than 2 peers") && error.contains("arm=c"), "{error}");
    assert!(own(&tasks[1], FIT + 2, &histories[1]).is_err());
}

#[test]
fn a_peer_lost_after_the_first_round_and_a_fourth_new_check_end_the_fit() {
    let rows = some_rows(150, 3);
    let (tasks, mut histories) = computed(&spec(), &rows);
    add(&tasks, &mut histories, PATTERN, &EVERYONE).expect("the pattern");
    let mut again = histories.clone();
    add(&tasks, &mut histories, FIT, &EVERYONE).expect("a round");
    let error = add(&tasks, &mut histories, FIT + 1, &[1, 2, 3, 4]).unwrap_err();
    assert!(error.starts_with("the fit cannot go on without peer-0"), "{error}");
    for (number, members) in [[1, 2, 3, 4], [0, 1, 3, 4], [1, 2, 3, 4]].into_iter().enumerate() {
        check_again(&tasks, &mut again, FIT + 2 * number as u32, &members, &rows).expect("a check");
    }
    let error = check_again(&tasks, &mut again, FIT + 6, &[0, 1, 3, 4], &rows).unwrap_err();
    assert!(error.starts_with("the fit cannot go on without peer-2"), "{error}");
    add(&tasks, &mut again, FIT + 6, &EVERYONE).expect("a round");
    // Two computing members are lost, or too few members remain.
    let (tasks, histories) = computed(&spec(), &rows);
    let allows = |slot: u32, members: &[u16]| {
        tasks[0].allows(slot, &histories[0], &members.iter().copied().map(Peer).collect::<Vec<_>>())
    };
    assert!(allows(PATTERN, &[0, 1, 2]).unwrap_err().starts_with("fewer than two"));
    assert_eq!(allows(FIT, &[0, 2]).unwrap_err(), "2 members, at least 3");
}

#[test]
fn a_peer_that_came_after_the_check_brings_no_rows() {
    let rows = some_rows(150, 3);
    let (tasks, mut histories) = computed(&spec(), &rows);
    add(&tasks, &mut histories, PATTERN, &EVERYONE).expect("the pattern");
    check_again(&tasks, &mut histories, FIT, &[1, 2, 3, 4], &rows).expect("peer 0 was lost");
    assert_eq!(tasks[1].row_use(FIT + 2, &histories[1]), RowUse::Included);
    assert_eq!(
        tasks[0].row_use(FIT + 2, &histories[0]),
        RowUse::LeftOut("this peer came after the cells were checked")
    );
    let late = own(&tasks[0], FIT + 2, &histories[0]).expect("a vector");
    assert!(late.iter().all(|&byte| byte == 0));
    assert!(own(&tasks[1], FIT + 2, &histories[1]).expect("a vector").iter().any(|&byte| byte != 0));
}

#[test]
fn a_round_with_other_rows_ends_the_session() {
    let (tasks, mut histories) = computed(&spec(), &some_rows(150, 3));
    add(&tasks, &mut histories, PATTERN, &EVERYONE).expect("the check");
    add(&tasks, &mut histories, FIT, &EVERYONE).expect("the first round");
    let vectors: Vec<Bytes> =
        (1..5).map(|at| own(&tasks[at], FIT + 1, &histories[at]).expect("a vector")).collect();
    histories[0].push(value(FIT + 1, &EVERYONE), Some(harness::sum_of(8, &vectors)));
    let error = tasks[0].check(FIT + 1, &histories[0]).unwrap_err();
    assert!(error.starts_with("the rounds count different numbers of rows"), "{error}");
}

#[test]
fn fields_that_do_not_fit_are_refused_by_name() {
    let refusal = |spec: GlmSpec| Design::new(&spec, &data()).unwrap_err().0;
    let terms = |term: &str| GlmSpec { terms: vec![term.into()], ..spec() };
    assert_eq!(refusal(GlmSpec { family: "probit".into(), ..spec() }), "glm.family");
    assert_eq!(refusal(GlmSpec { outcome: "none".into(), ..spec() }), "glm.outcome");
    assert_eq!(refusal(GlmSpec { outcome: "arm".into(), ..spec() }), "glm.outcome", "three levels");
    assert_eq!(refusal(GlmSpec { family: "linear".into(), ..spec() }), "glm.outcome", "levels");
    assert_eq!(refusal(GlmSpec { event: Some("maybe".into()), ..spec() }), "glm.event");
    for term in ["none", "died", "arm:arm", "arm:none", "arm:sex:stage", ""] {
        assert_eq!(refusal(terms(term)), "glm.terms", "{term}");
    }
    assert_eq!(refusal(GlmSpec { terms: vec!["age".into(), "age".into()], ..spec() }), "glm.terms");
    assert_eq!(refusal(GlmSpec { offset: Some("arm".into()), ..spec() }), "glm.offset");
    assert_eq!(refusal(GlmSpec { weights: Some("visits".into()), ..terms("visits") }), "glm.terms");
    assert_eq!(refusal(GlmSpec { grids: [("arm".to_owned(), 1.0)].into(), ..spec() }), "glm.grids");
    assert_eq!(
        refusal(GlmSpec { reference: [("arm".to_owned(), "z".to_owned())].into(), ..spec() }),
        "glm.reference"
    );
    let mut data = data();
    let mut table = (*data.preparation.take().expect("a table")).clone();
    table.columns[3].fill = Fill::Number(1.0);
    data.preparation = Some(Arc::new(table));
    assert_eq!(Design::new(&spec(), &data).unwrap_err().0, "fill of column \"age\"");
}

#[test]
fn what_this_version_cannot_do_is_refused_by_name() {
    let read =
        |line: &str| Session::parse(&with_roster(&SESSION.replace("[glm]\n", &format!("[glm]\n{line}\n"))));
    assert!(read("open = \"matrices\"\nsite_effects = false").is_ok());
    for (line, field) in [
        ("open = \"estimates\"", "glm.open"),
        ("site_effects = true", "glm.site_effects"),
        ("threshold = 9", "glm.threshold"),
        ("rest = 0", "glm.rest"),
        ("level = 1.0", "glm.level"),
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn values_that_do_not_fit_the_model_are_errors_of_one_line() {
    let error = |spec: GlmSpec, plain: Plain| {
        designed(&Design::new(&spec, &data()).expect("fits"), &row(plain)).unwrap_err()
    };
    let good = (0, Some(0), 0, 50.0, 0, 1);
    assert!(
        error(spec(), (0, Some(0), 0, 2e5, 0, 1))
            .starts_with("column \"age\": a value is more than 1048576 steps")
    );
    let weighted = GlmSpec { weights: Some("visits".into()), ..spec() };
    assert!(
        error(weighted, (0, Some(0), 0, 50.0, 0, 0))
            .starts_with("column \"visits\": the weight of a row is 0")
    );
    let counted =
        GlmSpec { family: "poisson".into(), outcome: "age".into(), terms: vec!["arm".into()], ..spec() };
    assert!(
        error(counted, (0, Some(0), 0, -1.0, 0, 1)).starts_with("column \"age\": the outcome of a row is -1")
    );
    let binary = GlmSpec { outcome: "visits".into(), ..spec() };
    assert!(
        error(binary, (0, Some(0), 0, 50.0, 0, 2))
            .starts_with("column \"visits\": the outcome of a row is 2")
    );
    let mut none = row(good);
    none[..3].fill(0.0);
    let error = designed(&Design::new(&spec(), &data()).expect("fits"), &none).unwrap_err();
    assert!(error.starts_with("column \"arm\": a row has no level"), "{error}");
}

fn plain() -> impl Strategy<Value = Plain> {
    let sex = prop_oneof![6 => (0usize..2).prop_map(Some), 1 => Just(None)];
    let age = prop_oneof![3 => (-50i32..900).prop_map(|x| x as f32 / 10.0), 2 => Just(0.0)];
    let visits = prop_oneof![2 => Just(0u8), 1 => 1u8..9];
    (prop_oneof![5 => Just(0usize), 4 => Just(1), 1 => Just(2)], sex, 0usize..3, age, 0usize..2, visits)
}

/// Returns the pattern of plain counts.
fn pattern(rule: &Rule, owners: &[Vec<u64>]) -> Opened {
    let passes = |rows: Vec<u64>| {
        let pooled: u64 = rows.iter().sum();
        pooled >= rule.threshold.into()
            && rows.iter().filter(|&&own| own > 0).count() >= rule.contributors as usize
            && rows.iter().all(|own| pooled - own >= rule.rest.into())
    };
    let of = |at: usize| owners.iter().map(|words| words[at]).collect::<Vec<_>>();
    let measure = |(number, &cell): (usize, &usize)| {
        (0..BUCKETS).all(|bucket| {
            let inside = of(rule.cells() + BUCKETS * number + bucket);
            passes(of(cell).iter().zip(inside).map(|(all, inside)| all - inside).collect())
        })
    };
    Opened {
        cells: (0..rule.cells()).map(|at| passes(of(at))).collect(),
        quantiles: Vec::new(),
        measures: rule.measures.iter().enumerate().map(measure).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Every opened entry is a sum over the rows with certain levels of two terms. If an entry that involves
    /// a category sums fewer than ten values other than 0, the model must be refused.
    #[test]
    fn a_model_that_passes_has_no_sum_of_few_rows(
        rows in prop::collection::vec((plain(), 0usize..4), 30..500), terms in 1usize..64,
    ) {
        let all = ["age", "visits", "arm", "sex", "stage", "arm:age"];
        let chosen = (0..6).filter(|at| terms >> at & 1 == 1);
        let terms: Vec<String> = chosen.map(|at| all[at].to_owned()).collect();
        let spec = GlmSpec { terms, ..spec() };
        let design = Design::new(&spec, &data()).expect("fits");
        let owner = |owner: usize| {
            let own = rows.iter().filter(|(_, peer)| *peer == owner);
            let own: Vec<_> = own.map(|(plain, _)| row(*plain)).collect();
            design.words(own.iter().map(Vec::as_slice)).expect("in range").0
        };
        let owners: Vec<Vec<u64>> = (0..4).map(owner).collect();
        let refused = design.refused(&pattern(&design.rule(&spec, 2), &owners)).is_some();
        let designed: Vec<_> =
            rows.iter().filter_map(|(plain, _)| designed(&design, &row(*plain)).expect("in range")).collect();
        let few = |value: &dyn Fn(&DesignRow) -> f64| {
            let count = designed.iter().filter(|row| value(row) != 0.0).count();
            count < 10 && (count > 0 || designed.len() < 10)
        };
        for i in 0..design.width() {
            for j in i..design.width() {
                prop_assert!(refused || !few(&|row| (row.columns[i] * row.columns[j]) as f64), "{i} {j}");
            }
            prop_assert!(refused || !few(&|row| row.columns[i] as f64 * row.outcome), "{i}");
            prop_assert!(refused || !few(&|row| row.columns[i] as f64 * (1.0 - row.outcome)), "{i}");
        }
    }
}
