use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod described;
mod formats;
mod grouped;
mod others;
mod same;
mod write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn classes() -> Vec<String> {
    ["cat", "dog"].map(String::from).to_vec()
}

/// Returns the error for a CSV file with two features and the classes cat and dog, without its folder.
fn refusal(bytes: &[u8]) -> String {
    refusal_with(bytes, &Expected { features: Some(2), classes: Some(&classes()), ..Expected::default() })
}

fn refusal_with(bytes: &[u8], expected: &Expected) -> String {
    let files = Files::new();
    let path = files.write("f", bytes);
    let text = load(&path, expected).unwrap_err().to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text.strip_prefix(path.to_str().unwrap()).unwrap_or(&text).to_owned()
}

fn read(bytes: &[u8], expected: &Expected) -> Dataset {
    load(&Files::new().write("f", bytes), expected).unwrap()
}

#[test]
fn each_bad_csv_field_is_named_by_line_and_column() {
    let cases: [(&str, &str); 13] = [
        ("a,b,c\r\n\r\n1,2,cat\r\n1,2\r\n", ", line 4: 2 columns, expected 3 as in the first line"),
        ("1,2,cat\n1,nan,cat\n", ", line 2, column 2: found \"nan\", expected a finite number below 2^80"),
        ("1,2,cat\n1,-inf,cat\n", ", line 2, column 2: found \"-inf\", expected a finite number below 2^80"),
        ("1,2,cat\n1e30,1,cat\n", ", line 2, column 1: found \"1e30\", expected a finite number below 2^80"),
        ("1,2,cat\n1,x,cat\n", ", line 2, column 2: found \"x\", expected a number"),
        ("1,2,cat\n1,,cat\n", ", line 2, column 2: found nothing, expected a number"),
        ("1,2,cat\n1,2,cow\n", ", line 2, column 3: found \"cow\", expected one of the 2 classes cat, dog"),
        ("1,2,cat\n1,2\n", ", line 2: 2 columns, expected 3 as in the first line"),
        (
            "1,2,cat\n\n1,2,3,dog\n",
            ", line 3: 4 columns, expected 3 as in the first line; the column of row names that R writes has no name: use write.csv(..., row.names = FALSE)",
        ),
        ("1,2,3,cat\n", ", line 1: 3 features in addition to the label, expected 2"),
        (
            "1,x,cat\n",
            ", line 1, column 2: found \"x\", expected a number as in other columns of this line, or a \
             header (then `header = true`) (`header` in the map file)",
        ),
        ("", ": no rows: the file is empty"),
        ("a,b,c\n", ": no rows after the header"),
    ];
    for (text, error) in cases {
        assert_eq!(refusal(text.as_bytes()), error, "{text:?}");
        assert_eq!(refusal(&gzip(text.as_bytes())), error, "{text:?}, gzipped");
    }
    assert!(refusal(b"1,2,cat\n1,\xff,cat\n").contains("line 2, column 2"));
    assert_eq!(
        refusal_with(b"1,2\n", &Expected { label: LabelColumn::Number(3), ..Expected::default() }),
        ": the label column is 3, expected 1 to 2"
    );
    assert_eq!(
        refusal_with(
            b"a,b\n1,2\n",
            &Expected { label: LabelColumn::Name("c".into()), ..Expected::default() }
        ),
        ": line 1 has no column named \"c\", expected one"
    );
}

#[test]
fn a_truncated_or_damaged_gzip_is_refused() {
    let mut text = String::new();
    for i in 0..5000 {
        text += &format!("{},{},cat\n", i * 7919 % 1000, i * 104_729 % 997);
    }
    let whole = gzip(text.as_bytes());
    for cut in [11, whole.len() / 2, whole.len() - 1] {
        assert!(refusal(&whole[..cut]).starts_with(": damaged or truncated gzip stream"), "cut at {cut}");
    }
    let mut damaged = whole.clone();
    let at = whole.len() - 6;
    damaged[at] ^= 1;
    assert!(refusal(&damaged).starts_with(": damaged or truncated gzip stream"));
    assert!(refusal(&[whole, b"tail".to_vec()].concat()).starts_with(": damaged or truncated gzip stream"));
}

#[test]
fn the_same_rows_come_out_of_every_form_of_csv() {
    let plain = read(b"1,-2.5,cat\n3,4e1,dog\n", &Expected::default());
    assert_eq!(plain.values(), [1.0, -2.5, 3.0, 40.0]);
    assert_eq!((plain.labels(), plain.classes()), (&[0u16, 1][..], &classes()[..]));
    let named = Expected { label: LabelColumn::Name("kind".into()), ..Expected::default() };
    let first = Expected { label: LabelColumn::Number(1), ..Expected::default() };
    for (text, expected) in [
        (&b"a,b,kind\r\n1,-2.5,cat\r\n\r\n3,4e1,dog"[..], &Expected::default()),
        (b"\xef\xbb\xbf 1 ,\"-2.5\", cat \n3,4e1,\"dog\"\n", &Expected::default()),
        (b"a,kind,b\n1,cat,-2.5\n3,dog,4e1\n", &named),
        (b"cat,1,-2.5\ndog,3,4e1\n", &first),
        (b"9,9,9\n1,-2.5,cat\n3,4e1,dog\n", &Expected { header: Some(true), ..Expected::default() }),
    ] {
        assert_eq!(read(text, expected), plain, "{:?}", String::from_utf8_lossy(text));
        assert_eq!(read(&gzip(text), expected), plain);
    }
    let bare = read(b"1,-2.5\n3,4e1\n", &Expected { label: LabelColumn::None, ..Expected::default() });
    assert_eq!((bare.values(), bare.labels()), (plain.values(), &[][..]));
}

#[test]
fn class_names_are_matched_as_text_and_ordered_as_numbers() {
    let data = read(b"1,10\n1,9\n1,1\n", &Expected::default());
    assert_eq!(data.classes(), ["1", "9", "10"]);
    assert_eq!(data.labels(), [2, 1, 0]);
    let given = ["1".to_owned()];
    assert_eq!(
        refusal_with(b"1,1.0\n1,1.5\n", &Expected { classes: Some(&given), ..Expected::default() }),
        ", line 2, column 2: found \"1.5\", expected one of the 1 classes 1"
    );
}

#[test]
fn the_built_in_digits_have_the_published_counts() {
    let data = digits::digits();
    assert_eq!((data.rows(), data.features()), (1797, 64));
    assert_eq!(data.class_counts(10), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    assert!(data.values().iter().all(|&x| (0.0..=16.0).contains(&x)));
}

#[test]
fn numbers_from_a_program_are_checked_too() {
    let new = |values: &[f32], labels: &[u16]| Dataset::new(2, values.to_vec(), labels.to_vec(), classes());
    assert!(new(&[1.0, 2.0], &[1]).is_ok());
    for (values, labels) in [
        (&[1.0, f32::NAN][..], &[1][..]),
        (&[1.0], &[]),
        (&[], &[]),
        (&[1.0, 2.0], &[2]),
        (&[1.0, 2.0], &[0, 1]),
    ] {
        assert!(matches!(new(values, labels), Err(DataError::Shape(_))), "{values:?} {labels:?}");
    }
}

#[test]
fn rows_outside_their_limits_are_refused_by_line_column_and_name() {
    let columns = ["age".to_owned(), "weight".to_owned()];
    let limits = [(0.0, 120.0), (f64::NEG_INFINITY, 300.0)];
    let label = LabelColumn::None;
    let expected = Expected { columns: &columns, limits: &limits, label, ..Expected::default() };
    let good = read(b"weight,age\n300,0\n\n-5,120\n", &expected);
    assert_eq!(good.row(1), [120.0, -5.0]);
    let told = refusal_with(b"weight,age\n70,40\n\n70,300\n", &expected);
    let text = "line 4, column 2: found \"300\", expected 0 to 120, the limits of the session, age";
    assert!(told.contains(text), "{told}");
    // NPY has no lines.
    let array = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
    let mut bytes = array.to_vec();
    bytes.resize(127, b' ');
    bytes.push(b'\n');
    [1.0f32, 2.0, 121.0, 2.0].iter().for_each(|x| bytes.extend(x.to_le_bytes()));
    let told = refusal_with(&bytes, &expected);
    assert!(told.contains("age of row 2 is 121, expected 0 to 120, the limits of the session"), "{told}");
}

#[test]
fn a_label_may_be_missing_only_where_that_is_expected_and_an_empty_class_is_not_needed() {
    let names = classes();
    let expected = Expected { classes: Some(&names), ..Expected::default() };
    let partly = Expected { partly: true, ..expected.clone() };
    let files = Files::new();
    let path = files.write("rows.csv", b"1,dog\n2,\n3,cat\n");
    let loaded = load_named(&path, &partly).unwrap();
    assert_eq!(loaded.labels, [Some(1), None, Some(0)]);
    assert!(loaded.data.labels().is_empty() && loaded.data.classes().is_empty());
    assert_eq!(loaded.data.values(), [1.0, 2.0, 3.0]);
    assert!(load_named(&path, &expected).is_err(), "a label is missing");
    let refused = refusal_with(b"1,cow\n", &partly);
    assert!(refused.contains("expected one of the 2 classes cat, dog, or nothing;"), "{refused}");
}

/// Makes rows `1,cat,2`. The rows in `wrong` (from 0) have a wrong field or are too short. Returns the error
/// for the file.
fn refusal_of(rows: usize, wrong: &[(usize, usize)]) -> String {
    let mut lines = vec![["1", "cat", "2"].map(String::from).to_vec(); rows];
    for &(row, field) in wrong {
        match lines[row].get_mut(field) {
            Some(text) => *text = "x".into(),
            None => lines[row].truncate(2),
        }
    }
    let text: String = lines.iter().map(|fields| fields.join(",") + "\n").collect();
    let (label, names) = (LabelColumn::Number(2), classes());
    refusal_with(
        text.as_bytes(),
        &Expected { label, header: Some(false), classes: Some(&names), ..Expected::default() },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Rows are read on all threads, in batches of 21,845.
    #[test]
    fn of_several_errors_the_first_of_the_file_is_named(
        rows in prop_oneof![2usize..300, Just(30_000)],
        wrong in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4), 1..5),
    ) {
        // The first line sets the number of fields.
        let wrong: Vec<_> = wrong.into_iter().map(|(row, field)| (1 + row.index(rows - 1), field)).collect();
        let first = wrong.iter().map(|(row, _)| *row).min().unwrap();
        let fields = || wrong.iter().filter(|(row, _)| *row == first).map(|(_, field)| *field);
        let said = refusal_of(rows, &wrong);
        let line = format!(", line {}", first + 1);
        if fields().any(|field| field == 3) {
            prop_assert_eq!(said, line + ": 2 columns, expected 3 as in the first line");
        } else {
            let place = format!("{line}, column {}: found \"x\"", fields().min().unwrap() + 1);
            prop_assert!(said.starts_with(&place), "{}, expected {}", said, place);
        }
    }
}
