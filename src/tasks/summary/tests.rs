//! Compares the tables of all peers with a plain computation, and looks for closed numbers that follow from
//! opened ones.

use std::sync::Arc;

use flyswarm_data::prepare::{ColumnSpec, Fill, Kind, TableSchema};
use flyswarm_mpc::shares::cells::{BUCKETS, Opened, Rule};
use flyswarm_mpc::shares::quantiles::QUANTILES;
use proptest::prelude::*;

use super::suppress::{Equation, determined, open};
use super::table::Layout;
use super::*;
use crate::session::{DataSpec, Peer};
use crate::tasks::common::checked::harness::{dataset, with_roster};
use crate::tasks::common::variables::bucket;

mod audit;
mod exchange;

/// A session file without a roster.
const SESSION: &str = "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\n\
                       created = 2026-11-22T16:05:06Z\ntask = \"summary\"\n[data]\nfeatures = 1\n\
                       columns = [\"x\"]\n[privacy]\nmin_contributors = 2\n";

/// Describes the columns: two categories, an ordinal and two columns of numbers. The second category, the
/// ordinal and the second column of numbers may have missing values.
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
    let ranges = [("age".to_owned(), [0.0, 80.0]), ("bmi".to_owned(), [15.0, 40.0])].into();
    SummarySpec { by: vec!["arm".into()], grid: 0.1, ranges, table, ..SummarySpec::default() }
}

/// A row of the table. A missing value is `None`.
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

/// Returns the layout, and the words of four owners of these rows.
fn of_owners(spec: &SummarySpec, rows: &[(Plain, usize)]) -> (Layout, Vec<Vec<u64>>) {
    let layout = Layout::new(spec, &data()).expect("fits");
    let words = |owner: usize| {
        let own = rows.iter().filter(|(_, peer)| *peer == owner);
        let own: Vec<_> = own.map(|(plain, _)| row(*plain)).collect();
        layout.words(own.iter().map(Vec::as_slice)).expect("in range")
    };
    let owners = (0..4).map(words).collect();
    (layout, owners)
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
        // Computes the numbers of Table 1 in the plain way.
        let count = |keep: &dyn Fn(&Plain) -> bool| rows.iter().filter(|row| keep(row)).count() as u64;
        let file = file(&layout, &whole, &all_open(&layout));
        let column = |name: &str| file["columns"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap().clone();
        let (sex, bmi) = (column("sex"), column("bmi"));
        prop_assert_eq!(&sex["levels"], &serde_json::json!(["f", "m", "missing"]));
        prop_assert_eq!(sex["counts"][1][2].as_u64(), Some(count(&|row| row.1 == Some(1) && row.0 == 1)));
        prop_assert_eq!(bmi["counts"][1][0].as_u64(), Some(count(&|row| row.4.is_none())));
        let of_a = rows.iter().filter(|row| row.0 == 0);
        let mut values: Vec<f64> = of_a.filter_map(|row| row.4).map(f64::from).collect();
        values.sort_by(f64::total_cmp);
        for (at, rank) in QUANTILES.into_iter().enumerate().filter(|_| !values.is_empty()) {
            // The quantile is an observed value, as with the method `inverted_cdf` of NumPy.
            let place = (rank * values.len() as u64).div_ceil(20) as usize;
            prop_assert_eq!(bmi["quantiles"][1][at].as_i64(), Some((values[place - 1] * 10.0).round() as i64));
        }
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
        let (layout, owners) = of_owners(&spec, &rows);
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
    let quantiles =
        plain_quantiles(rule, owners).into_iter().map(|(_, [below, above])| passes(&below) && passes(&above));
    Opened { cells: cells.collect(), measures: measures.collect(), quantiles: quantiles.collect() }
}

/// Returns each quantile of plain words, with the number of each owner's rows below it and above it.
fn plain_quantiles(rule: &Rule, owners: &[Vec<u64>]) -> Vec<(u64, [Vec<u64>; 2])> {
    let sums = rule.cells() + (BUCKETS + 2) * rule.measures.len();
    let first = |number: usize| sums + rule.histograms[..number].iter().sum::<usize>();
    let mut found = Vec::new();
    for measure in rule.scales.iter().flat_map(|scale| &scale.measures) {
        let rows = |own: &[u64], values: std::ops::Range<usize>| -> u64 {
            let of = |&number: &usize| {
                let bins = &own[first(number)..][..rule.histograms[number]];
                bins[values.start.min(bins.len())..values.end.min(bins.len())].iter().sum::<u64>()
            };
            measure.iter().map(of).sum()
        };
        let each = |values: std::ops::Range<usize>| {
            owners.iter().map(|own| rows(own, values.clone())).collect::<Vec<u64>>()
        };
        let all: u64 = each(0..usize::MAX).iter().sum();
        for rank in QUANTILES {
            let reached = |value: &usize| 20 * each(0..value + 1).iter().sum::<u64>() >= rank * all;
            let value = (0..).find(reached).expect("a value");
            found.push((value as u64, [each(0..value), each(value + 1..usize::MAX)]));
        }
    }
    found
}

/// Looks for what an attacker could compute: closed cells that follow from open ones by exact elimination
/// over fractions, and sums of the closed cells of an equation that do not pass the check.
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
    let rule = layout.rule(&spec(), 2);
    Opened {
        cells: vec![true; layout.cells()],
        measures: vec![true; rule.measures.len()],
        quantiles: vec![true; rule.quantiles()],
    }
}

fn file(layout: &Layout, words: &[u64], open: &Opened) -> serde_json::Value {
    let sums = layout.cells() + BUCKETS * open.measures.len();
    let quantiles = plain_quantiles(&layout.rule(&spec(), 2), &[words.to_vec()]);
    let quantiles: Vec<u64> = quantiles.iter().map(|(value, _)| *value).collect();
    let sums = &words[sums..][..2 * open.measures.len()];
    let numbers = [&words[..layout.cells()], sums, &quantiles].concat();
    let session = Session::parse(&with_roster(SESSION));
    let file = File::new(&session.expect("a session"), &spec(), layout, open, &numbers);
    let bytes = format!("{:#}\n", file.json());
    assert!(recognised(bytes.as_bytes()));
    assert_eq!(File::read(bytes.as_bytes()).expect("a file"), file);
    file.json()
}

fn some_rows() -> Vec<Vec<Vec<f32>>> {
    let plain = |peer: usize, at: usize| {
        let number = 7 * peer + 3 * at;
        let bmi = (!number.is_multiple_of(9)).then_some(18.0 + number as f32 % 20.0);
        (at % 2, Some(number % 2), Some(number % 3), (number % 70) as f32, bmi)
    };
    (0..5).map(|peer| (0..20 * usize::from(peer != 2)).map(|at| row(plain(peer, at))).collect()).collect()
}

fn opened_file(open: impl Fn(&Layout, &mut Opened)) -> File {
    let layout = Layout::new(&spec(), &data()).expect("fits");
    let rows = some_rows().concat();
    let words = layout.words(rows.iter().map(Vec::as_slice)).expect("in range");
    let mut opened = all_open(&layout);
    open(&layout, &mut opened);
    File::read(format!("{:#}", file(&layout, &words, &opened)).as_bytes()).expect("a file")
}

/// Returns the cells of the line with this name in Table 1.
fn line_of(file: &File, name: &str) -> Vec<String> {
    let text = file.text();
    let line = text.lines().find(|line| line.starts_with(&format!("| {name} |")));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn table_1_has_a_test_of_open_numbers_and_says_which_needs_a_closed_one() {
    // No patient is in the third arm. Here every cell is open, and this arm is left out of the tests.
    let all = opened_file(|_, _| {});
    assert_eq!(line_of(&all, "")[5..], ["SMD", "p"]);
    assert_eq!(line_of(&all, "sex: f")[5..], ["", "-"]);
    assert_eq!(line_of(&all, "age, median [quartiles]").len(), 7);
    let closed = opened_file(|layout, open| open.cells[layout.two(&layout.tables[0], 0, 1)] = false);
    assert_eq!(line_of(&closed, "sex: f")[5..], ["", "closed"]);
    let csv = tables::csv(&all.printed(&[]));
    let age = csv.lines().find(|line| line.starts_with("\"age, mean (SD)\"")).expect("a line");
    assert!(age.split(',').count() == 8 && csv.contains("\n\nsex (rows) by stage (columns)\n"), "{csv}");
}

#[test]
fn the_report_page_shows_days_as_dates_and_counts_the_closed_cells() {
    let file = opened_file(|_, _| {});
    let [days, dates] = [file.pages(&[]), file.pages(&["age"])].map(|pages| pages.to_string());
    assert!(!days.contains(" 1970"), "{days}");
    // Shows the ages as if they were days since 1970-01-01. Other columns stay numbers.
    let mean = line_of(&file, "age, mean (SD)");
    let day = mean[2].split('.').next().unwrap().parse::<f64>().unwrap();
    assert!(day < 59.0 && dates.contains(" 1970 (") && dates.contains(" days)"), "{dates}");
    assert!(dates.contains(" 1970 ["), "quartiles: {dates}");
    assert!(dates.contains(&line_of(&file, "bmi, mean (SD)")[2]), "{dates}");
    let told = file.headline(3, 40);
    assert!(
        told.starts_with("Statistics of 4 columns over the ")
            && told.contains(" rows of all peers, by arm. 3 of 40 counts"),
        "{told}"
    );
}

#[test]
fn a_file_without_groups_or_moments_is_refused_or_printed() {
    let mut json: serde_json::Value =
        serde_json::from_str(&format!("{:#}", opened_file(|_, _| {}).json())).unwrap();
    for column in json["columns"].as_array_mut().unwrap() {
        column.as_object_mut().unwrap().remove("moments");
    }
    let file = File::read(json.to_string().as_bytes()).expect("a file");
    assert!(!file.text().is_empty() && !tables::csv(&file.printed(&[])).is_empty());
    for name in ["groups", "rows", "columns", "tables"] {
        json[name] = serde_json::json!([]);
    }
    let file = File::read(json.to_string().as_bytes()).expect("a file");
    assert!(!file.text().is_empty());
}

#[test]
fn the_audit_finds_a_cell_that_is_left_alone() {
    // A table of 2 x 2 with its margins. If only one small cell is closed, it follows from its row.
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
    // If one more cell of the row is closed, both cells still follow from their columns.
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
    // The sum of two small cells is small, so a third cell is closed.
    passes[4] = false;
    assert_eq!(open(&passes, &passes, &equations).iter().filter(|open| !**open).count(), 3);
    // A second table has some of the same cells. Its open cells must not reveal the closed cells of the
    // first.
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

/// Makes a session with two grouping columns, a cross table with one of them, and a cross table with neither.
fn two_groups() -> SummarySpec {
    let pair = |rows: &str, columns: &str| CrossTable { rows: rows.into(), columns: columns.into() };
    let data = vec![pair("arm", "stage")];
    SummarySpec { by: vec!["arm".into(), "sex".into()], table: data, ..spec() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn with_two_grouping_columns_equations_hold_and_no_small_cell_follows(
        rows in prop::collection::vec((plain(), 0usize..4), 20..400), threshold in 3u32..12,
    ) {
        let spec = SummarySpec { threshold, rest: 1, ..two_groups() };
        let (layout, owners) = of_owners(&spec, &rows);
        let count = |cell: usize| owners.iter().map(|own| own[cell]).sum::<u64>();
        for Equation { total, parts } in layout.equations() {
            prop_assert_eq!(count(total), parts.iter().map(|&part| count(part)).sum::<u64>());
        }
        let by = layout.by.expect("groups");
        let of_group = |arm: usize, sex: Option<usize>| {
            rows.iter().filter(|(row, _)| row.0 == arm && row.1 == sex).count() as u64
        };
        prop_assert_eq!(count(layout.one(by, 3)), of_group(1, Some(0)));
        prop_assert_eq!(count(layout.one(by, 5)), of_group(1, None));
        let pattern = pattern(&layout.rule(&spec, 2), &owners);
        let opened = layout.open(&pattern);
        audit(&opened.cells, &layout.equations(), &owners, &pattern.cells)?;
        // A cell of stage and arm is the sum of the cells of stage, arm and sex.
        let (both, crossed) = (&layout.tables[0], &layout.tables[3]);
        let parts: Vec<usize> = (3..6).map(|group| layout.two(both, 1, group)).collect();
        let equation = Equation { total: layout.two(crossed, 1, 1), parts };
        prop_assert!(layout.equations().contains(&equation));
    }
}

#[test]
fn fields_that_do_not_fit_the_columns_are_refused_by_name() {
    let refusal = |spec: SummarySpec| Layout::new(&spec, &data()).unwrap_err().0;
    assert_eq!(refusal(SummarySpec { by: vec!["age".into()], ..spec() }), "summary.by");
    assert_eq!(refusal(SummarySpec { by: vec!["none".into()], ..spec() }), "summary.by");
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
