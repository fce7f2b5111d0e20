use super::*;

/// Makes rows of these columns, with two alternating classes.
fn rows(columns: &[Vec<f32>]) -> Dataset {
    let n = columns[0].len();
    let values = (0..n).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
    let labels = (0..n).map(|row| (row % 2) as u16).collect();
    Dataset::new(columns.len(), values, labels, ["ill", "well"].map(String::from).to_vec()).unwrap()
}

fn kinds(columns: &[Vec<f32>]) -> Vec<&'static str> {
    of(&rows(columns), &[], None).iter().map(|(_, notice)| notice.kind()).collect()
}

/// Numbers that look random, below `range`.
fn noise(n: usize, range: u64) -> Vec<f32> {
    (0..n as u64).map(|i| ((i * i * 2_654_435_761 + i * 40_503) >> 7) % range).map(|x| x as f32).collect()
}

#[test]
fn ids_are_whole_and_count_or_name_rows() {
    let found = |values: Vec<i64>| ids(&values);
    assert_eq!(found((0..12).collect()), Some(Ids::Ordered));
    assert_eq!(found((0..200).map(|i| i * 37 % 200).collect()), Some(Ids::Distinct));
    assert_eq!(found((0..200).map(|i| 100_000 + i * 7919 % 900_001).collect()), Some(Ids::Distinct));
    assert_eq!(found((0..12).map(|i| 100_000 + i / 2).collect()), Some(Ids::Ordered));
    assert_eq!(found((0..200).map(|i| 100_000 + i * 7919 % 50 * 613).collect()), Some(Ids::Repeated));
    assert_eq!(found((0..200).map(|i| i * 37 % 50).collect()), Some(Ids::Repeated));
    assert_eq!(
        found((0..480).map(|i| 70_000 + i * 7 % 40 * 37).collect()),
        Some(Ids::Repeated),
        "twelve visits"
    );
    let visits = (0..60).flat_map(|patient| vec![patient; 2 + patient as usize % 3]).collect::<Vec<i64>>();
    let mixed = (0..visits.len()).map(|row| visits[row * 77 % visits.len()]).collect();
    assert_eq!(found(mixed), Some(Ids::Repeated), "two to four visits");
    assert_eq!(found((0..9).collect()), None, "too few rows to say");
    assert_eq!(found((0..200).map(|i| 2015 + i / 25).collect()), None, "years");
    assert_eq!(found(noise(200, 70).iter().map(|&x| x as i64).collect()), None, "ages");
    assert_eq!(found(noise(300, 70).iter().map(|&x| 1_000 * x as i64).collect()), None, "rounded incomes");
    assert_eq!(kinds(&[(0..20).map(|i| i as f32 + 0.5).collect()]), [""; 0], "not whole");
}

#[test]
fn one_column_that_tells_the_class_is_named() {
    let n = 200;
    let class = |row: usize| (row % 2) as f32;
    let answer = |column: Vec<f32>| kinds(&[column, noise(n, 1_000)]).contains(&"answer");
    assert!(answer((0..n).map(|row| class(row) + (row % 7) as f32 / 8.0).collect()), "a threshold");
    assert!(answer((0..n).map(|row| -class(row)).collect()), "the other direction");
    assert!(answer((0..n).map(|row| [0.0, 1.0, 3.0, 2.0][row % 4]).collect()), "codes in no order");
    let overlap = noise(n, 2_000).into_iter().enumerate().map(|(row, x)| 2.0 * class(row) + x / 500.0);
    assert!(!answer(overlap.collect()), "much overlap");
    assert!(!answer(noise(n, 40)), "codes of few rows");
    let three = |row: usize| (row % 3) as u16;
    let values = (0..150).flat_map(|row| {
        let apart = if three(row) == 2 { 100.0 } else { f32::from(three(row)) };
        [apart + (row % 7) as f32, f32::from(three(row)) + (row % 7) as f32 / 8.0]
    });
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let data = Dataset::new(2, values.collect(), (0..150).map(three).collect(), names).unwrap();
    let found: Vec<_> = of(&data, &[], None).into_iter().map(|(name, _)| name.unwrap()).collect();
    assert_eq!(found, ["feature 2"], "one class apart is not all classes apart");
    let few = |n: usize| kinds(&[(0..n).map(class).collect()]).contains(&"answer");
    assert!(few(50) && !few(48), "from 50 rows on");
}

#[test]
fn levels_of_a_category_are_judged_together() {
    let levels = ["a", "b", "c", "d"].map(String::from).to_vec();
    let schema =
        TableSchema { columns: vec![ColumnSpec::new("g", Kind::Category(levels))], ..TableSchema::default() };
    let values =
        (0..80).flat_map(|row| (0..4).map(move |level| f32::from(u8::from(row % 4 == level)))).collect();
    let labels = (0..80).map(|row| [0, 1, 1, 0][row % 4]).collect();
    let data = Dataset::new(4, values, labels, ["ill", "well"].map(String::from).to_vec()).unwrap();
    let found = of(&data, &schema.features(), Some(&schema));
    assert_eq!(found, [(Some("g".into()), Notice::Answer(1.0))]);
}

#[test]
fn codes_for_missing_values_are_extremes_far_from_the_rest() {
    assert_eq!(code(&[18.0, -999.0, 50.0, 90.0, -999.0]), Some((-999.0, 2)));
    assert_eq!(code(&[18.0, 9999.0, 50.0, 90.0, 9999.0]), Some((9999.0, 2)));
    assert_eq!(code(&[0.0, -9.0, 3.0, 300.0, -9.0]), Some((-9.0, 2)), "the only negative value");
    assert_eq!(code(&[1.0, 99_999.0, 99_999.0, 0.5]), Some((99_999.0, 2)));
    assert_eq!(code(&[1.0, 8888.0, 8888.0, 0.5]), Some((8888.0, 2)));
    assert_eq!(code(&[18.0, -999.0, 50.0]), None, "once in a few rows is no code");
    assert_eq!(code(&[1.0, 2.0, 98.0, 99.0, 3.0, 99.0]), Some((99.0, 2)), "unknown and refused");
    assert_eq!(code(&[1.0, 0.0, -9.0, -9.0, -8.0]), Some((-9.0, 2)));
    assert_eq!(code(&[40.0, 99.0, 99.0, 60.0]), Some((99.0, 2)));
    assert_eq!(code(&[2.0, 99.0, 99.0, 60.0]), None, "a percentage");
    assert_eq!(code(&[18.0, -998.0, -998.0, 50.0]), None);
    assert_eq!(code(&[1.0, 9.0, 9.0]), None, "a grade");
    assert_eq!(code(&[18.0, -1.0, 50.0, 90.0, -1.0]), Some((-1.0, 2)));
    assert_eq!(code(&[1.0, -1.0, 1.0, -1.0]), None, "two levels");
    assert_eq!(code(&[0.0, -1.0, 1.0, -1.0, 2.0]), None, "below, as usual, above");
    assert_eq!(code(&[18.0, 1e9, 1e9, 50.0]), None, "binary32 has no 999,999,999");
    assert_eq!(code(&[980.0, 999.0, 999.0, 900.0, 990.0]), None, "not far from the rest");
    assert_eq!(code(&[-20.0, -9.0, -9.0, 3.0]), None);
    assert_eq!(code(&[-999.0, -999.0]), None, "nothing to be far from");
    let ages: Vec<f32> = (0..30).map(|i| 20.0 + i as f32 * 2.0).chain([999.0]).collect();
    assert_eq!(code(&ages), Some((999.0, 1)), "one age of 999");
}

#[test]
fn days_of_no_patient_and_levels_of_all_rows_are_named() {
    let columns = vec![
        ColumnSpec::new("seen", Kind::Date(crate::prepare::DateOrder::YearMonthDay)),
        ColumnSpec::new("site", Kind::Category(vec!["north".into()])),
    ];
    let schema = TableSchema { columns, ..TableSchema::default() };
    let found = |day: f32| {
        let days = (0..12).map(|row| if row % 4 == 0 { day } else { 20_000.0 + row as f32 });
        let data = rows(&[days.collect(), vec![1.0; 12]]);
        of(&data, &schema.features(), Some(&schema)).into_iter().map(|(_, notice)| notice).collect::<Vec<_>>()
    };
    assert_eq!(found(2_932_896.0), [Notice::Day(2_932_896.0, 3), Notice::Constant(None)]);
    assert_eq!(found(-25_567.0), [Notice::Day(-25_567.0, 3), Notice::Constant(None)]);
    assert_eq!(found(-10_000.0), [Notice::Constant(None)], "a day of birth");
    assert_eq!(Notice::Day(2_932_896.0, 3).to_string(), "(9999-12-31 in 3 rows)");
}

#[test]
fn constants_and_rounded_ids_are_named() {
    assert_eq!(kinds(&[vec![3.0; 10], noise(10, 9)]), ["constant"]);
    assert_eq!(kinds(&[vec![3.0; 9], noise(9, 9)]), [""; 0]);
    let large: Vec<f32> = noise(30, 6).iter().map(|x| 9e14 + 1e8 * x).collect();
    assert_eq!(kinds(&[large, noise(30, 9)]), ["coarse"]);
}

#[test]
fn identical_rows_are_counted_where_chance_gives_none() {
    let fine = || (0..60).map(|i| i as f32 * 0.37).collect::<Vec<_>>();
    let other = || noise(60, 900).into_iter().map(|x| x + 0.25).collect::<Vec<_>>();
    assert_eq!(kinds(&[fine(), other()]), [""; 0]);
    let found = of(&rows(&[fine().repeat(3), other().repeat(3)]), &[], None);
    assert_eq!(found, [(None, Notice::Twins(120))]);
    assert_eq!(kinds(&[noise(60, 3), noise(60, 2)]), [""; 0], "few values are equal by chance");
    // One pair, or fewer than one in a hundred, does not mean that a file was joined twice.
    let twice = |rows: usize, twins: usize| {
        let column: Vec<f32> = (0..rows).chain(0..twins).map(|i| i as f32 * 0.37).collect();
        kinds(&vec![column; 4]).contains(&"twins")
    };
    assert_eq!([twice(60, 1), twice(60, 2)], [false, true]);
    assert_eq!([twice(300, 3), twice(296, 3)], [false, true]);
    // Rows of two classes are not twins.
    let labels = (0..120).map(|row| u16::from(row < 60)).collect();
    let classes = ["a", "b"].map(String::from).to_vec();
    let values = fine().repeat(2).into_iter().flat_map(|x| [x; 4]).collect();
    let data = Dataset::new(4, values, labels, classes).unwrap();
    assert!(!of(&data, &[], None).iter().any(|(_, notice)| matches!(notice, Notice::Twins(_))));
}

#[test]
fn a_line_names_the_columns_of_one_kind() {
    let found: Vec<Finding> = (0..10).map(|i| (Some(format!("x{i}")), Notice::Constant(Some(2.0)))).collect();
    let lines = lines(&found);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].1.starts_with("the same value in all rows: \"x0\" (2), "), "{lines:?}");
    assert!(lines[0].1.ends_with("\"x7\" (2), and 2 more columns"), "{lines:?}");
}
