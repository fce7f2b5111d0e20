//! All formats: `tests/formats` has the same four rows in each format, written by
//! `scripts/make-formats.py` with pandas and NumPy.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;

use super::*;

const ROWS: [f32; 12] = [1.0, -2.5, 40.0, 3.0, 4.0, 0.0, 0.1, 7e3, -1.0, 5.0, 0.0, 2.0];

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "formats", name].iter().collect()
}

fn label(text: &str) -> LabelColumn {
    text.parse().unwrap()
}

fn text_of(error: &DataError, path: &Path) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text.replace(path.to_str().unwrap(), "")
}

fn refused(name: &str, expected: &Expected) -> String {
    let path = fixture(name);
    text_of(&load(&path, expected).unwrap_err(), &path)
}

/// Returns the error for a file with this name and these bytes.
fn refused_bytes(name: &str, bytes: &[u8], expected: &Expected) -> String {
    let files = Files::new();
    let path = files.write(name, bytes);
    text_of(&load(&path, expected).unwrap_err(), &path)
}

#[test]
fn the_same_rows_come_out_of_every_format() {
    let plain = Expected::default();
    let y = fixture("y.npy");
    let beside = Expected { labels_file: Some(&y), ..Expected::default() };
    let target = Expected { label: label("target"), ..Expected::default() };
    let kind = Expected { label: label("kind"), ..Expected::default() };
    for (name, expected, classes, names) in [
        ("rows.csv", &plain, "cat,dog", "a,b,c"),
        ("rows.npy", &plain, "0,1", ""),
        ("rows-fortran.npy", &plain, "0,1", ""),
        ("X.npy", &beside, "cat,dog", ""),
        ("rows.npz", &plain, "0,1", ""),
        ("rows.parquet", &plain, "cat,dog", "a,b,c"),
        ("rows.parquet", &kind, "cat,dog", "a,b,c"),
        ("rows-zstd.parquet", &plain, "cat,dog", "a,b,c"),
        ("rows-gzip.parquet", &plain, "cat,dog", "a,b,c"),
        ("rows-none.parquet", &plain, "cat,dog", "a,b,c"),
    ] {
        let loaded = load_named(&fixture(name), expected).unwrap_or_else(|error| panic!("{error}"));
        let data = loaded.data;
        assert_eq!((data.features(), data.values()), (3, &ROWS[..]), "{name}");
        assert_eq!(
            (data.labels(), data.classes().join(",")),
            (&[0u16, 1, 0, 1][..], classes.to_owned()),
            "{name}"
        );
        assert_eq!((loaded.columns.join(","), loaded.reordered), (names.to_owned(), false), "{name}");
    }
    let named = load_named(&fixture("named.npz"), &target).unwrap();
    assert_eq!(named.columns, ["c", "b", "a"]);
    assert_eq!(named.data.row(0), [40.0, -2.5, 1.0]);
    assert_eq!(named.data.classes(), classes());
}

#[test]
fn contents_in_memory_are_read_under_a_name_instead_of_a_file() {
    let plain = Expected::default();
    for name in ["rows.csv", "rows.npy", "rows.npz"] {
        let contents = Contents::from(std::fs::read(fixture(name)).unwrap());
        let expected = Expected { contents: Some(&contents), ..Expected::default() };
        let found = load_named(Path::new("X"), &expected).unwrap();
        assert_eq!(found, load_named(&fixture(name), &plain).unwrap(), "{name}");
        assert!(!format!("{expected:?}").contains("80, 75"), "no bytes of rows are shown");
    }
    for bytes in [&b"a,b,y\n1,2,cat\n1,x,dog\n"[..], b"PK\x03\x04 cut off"] {
        let contents = Contents::from(bytes.to_vec());
        let expected = Expected { contents: Some(&contents), ..Expected::default() };
        let error = load(Path::new("X"), &expected).unwrap_err().to_string();
        assert!(error.starts_with("X"), "{error}");
    }
}

#[test]
fn columns_are_taken_by_name_where_names_are_expected() {
    let order = ["c", "a", "b"].map(String::from);
    let by_name = Expected { columns: &order, features: Some(3), ..Expected::default() };
    for name in ["rows.csv", "rows.parquet"] {
        let loaded = load_named(&fixture(name), &by_name).unwrap();
        assert!(loaded.reordered && loaded.columns == order, "{name}");
        assert_eq!(loaded.data.row(0), [40.0, 1.0, -2.5], "{name}");
        assert_eq!(loaded.data.labels(), [0, 1, 0, 1]);
    }
    let target = Expected { label: label("target"), ..by_name.clone() };
    assert_eq!(load_named(&fixture("named.npz"), &target).unwrap().data.row(0), [40.0, 1.0, -2.5]);
    let unnamed = load_named(&fixture("rows.npy"), &by_name).unwrap();
    assert!(!unnamed.reordered && unnamed.columns.is_empty(), "without names the order does not change");
    assert_eq!(unnamed.data.values(), ROWS);

    let difference = |columns: &[&str], drop: &str| {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let drop: Vec<Column> = drop.split_terminator(',').map(|text| text.parse().unwrap()).collect();
        let features = Some(columns.len());
        refused("rows.csv", &Expected { columns: &columns, drop: &drop, features, ..Expected::default() })
    };
    assert_eq!(
        difference(&["a", "b", "weight"], ""),
        ": column 3 is called \"c\", the session file calls it \"weight\""
    );
    assert_eq!(
        difference(&["a", "weight", "b"], ""),
        ": column 3 is called \"c\", the session file has no such column; it has \"weight\", which this file does not have"
    );
    assert_eq!(
        difference(&["a", "c"], ""),
        ": column 2 is called \"b\", which the session file does not have (`drop` in the map file leaves a column out)"
    );
    assert_eq!(
        difference(&["a", "b", "c", "d"], ""),
        ": no column is called \"d\", which the session file has"
    );
    assert_eq!(difference(&["a", "b"], "b"), ": column 3 is called \"c\", the session file calls it \"b\"");
}

/// Column names that are numbers do not hide a known header.
#[test]
fn a_first_line_with_a_name_that_is_expected_is_a_header() {
    let columns = ["1", "b"].map(String::from);
    let expected = Expected { columns: &columns, ..Expected::default() };
    let data = read(b"b,1,kind\n1,2,cat\n", &expected);
    assert_eq!(data.values(), [2.0, 1.0]);
}

#[test]
fn columns_can_be_left_out_in_every_format_that_has_them() {
    for (name, drop, expected) in [
        ("rows.csv", "b", [1.0, 40.0]),
        ("rows.csv", "1", [-2.5, 40.0]),
        ("rows.npy", "2", [1.0, 40.0]),
        ("rows-fortran.npy", "2", [1.0, 40.0]),
        ("rows.npz", "1", [-2.5, 40.0]),
        ("rows.parquet", "c", [1.0, -2.5]),
    ] {
        let drop = [drop.parse().unwrap()];
        let data = load(&fixture(name), &Expected { drop: &drop, features: Some(2), ..Expected::default() })
            .unwrap();
        assert_eq!(data.row(0), expected, "{name}");
        assert_eq!(data.labels(), [0, 1, 0, 1], "{name}");
    }
    let colour = ["colour".parse().unwrap()];
    let kept = Expected { drop: &colour, label: label("kind"), ..Expected::default() };
    assert_eq!(load(&fixture("colour.parquet"), &kept).unwrap().values(), ROWS);
    let refusal = |name: &str, drop: &str| {
        let drop = [drop.parse().unwrap()];
        refused(name, &Expected { drop: &drop, ..Expected::default() })
    };
    assert_eq!(refusal("rows.csv", "z"), ": line 1 has no column named \"z\", expected one");
    assert_eq!(refusal("rows.csv", "kind"), ": column 4 is the label and cannot be left out");
    assert_eq!(refusal("rows.npy", "5"), ": column 5 cannot be left out, expected 1 to 4");
    assert!(
        refusal("rows.npy", "b").contains("is given by name, but the array has no names: give its number")
    );
}

#[test]
fn labels_may_be_asked_for_by_name_by_number_or_not_at_all() {
    let first = Expected { label: label("1"), ..Expected::default() };
    let drop = ["kind".parse().unwrap()];
    let data = load(&fixture("rows.csv"), &Expected { drop: &drop, ..first.clone() }).unwrap();
    assert_eq!((data.classes().join(","), data.row(0)), ("0.1,1.0,3.0,5.0".into(), &[-2.5, 40.0][..]));
    assert!(
        refused("rows.npy", &first)
            .contains("the label in row 3, column 1 is 0.1, expected a class: text or a whole number")
    );
    assert!(refused("rows.npz", &first).contains("row 3, column 1 is 0.1, expected a class"));
    let drop = ["kind".parse().unwrap()];
    let double = refused("rows.parquet", &Expected { drop: &drop, ..first.clone() });
    assert_eq!(
        double,
        ": row 3, column \"a\" is 0.1, expected a class: text or a whole number (a quantity to predict is not a class)"
    );
    let none = Expected { label: LabelColumn::None, ..Expected::default() };
    for (name, features) in [("rows.npy", 4), ("rows.npz", 3), ("X.npy", 3)] {
        let data = load(&fixture(name), &none).unwrap();
        assert_eq!((data.features(), data.labels()), (features, &[][..]), "{name}");
    }
}

#[test]
fn columns_of_categories_are_refused_by_name_with_advice() {
    let last = Expected::default();
    let kind = Expected { label: label("kind"), ..Expected::default() };
    let none = Expected { label: LabelColumn::None, ..Expected::default() };
    let advice = |name: &str| {
        format!(
            "expected a number: describe categories in the session (`session new flynn --from`), leave the column out (drop = [\"{name}\"] in the map file), or is it the label (--label \"{name}\")?"
        )
    };
    assert_eq!(
        refused("colour.parquet", &kind),
        format!(": row 1, column \"colour\" is \"red\", {}", advice("colour"))
    );
    assert_eq!(
        refused("rows.parquet", &none),
        format!(": row 1, column \"kind\" is \"cat\", {}", advice("kind"))
    );
    let csv = refused_bytes("f.csv", b"a,colour,kind\n1,red,cat\n", &last);
    assert_eq!(csv, format!(", line 2, column 2: found \"red\", {}", advice("colour")));
    let missing = refused_bytes("f.csv", b"a,colour,kind\n1,NA,cat\n", &last);
    assert_eq!(
        missing,
        ", line 2, column 2: found \"NA\", expected a number; for missing values describe the columns (`session new flynn --from`)"
    );
    assert!(refused("object.npy", &last).contains("not Python objects (a pickle"));
    assert!(refused("index.parquet", &kind).contains("column \"__index_level_0__\" is an index of pandas"));
    assert_eq!(
        refused("null.parquet", &kind),
        ": row 2, column \"b\" is null, expected a value in every row (fill in a value, or leave out rows without a value)"
    );
}

#[test]
fn what_is_named_like_a_format_but_begins_otherwise_is_refused() {
    for name in ["a.npy", "a.NPZ", "a.parquet", "a.npy.gz", "a.xlsx"] {
        let text = refused_bytes(name, b"1,2,cat\n", &Expected::default());
        assert!(text.contains("but it begins with [31, 2c, 32, 2c, 63, 61]"), "{text}");
    }
    let csv = Expected { format: Some(Format::Csv), ..Expected::default() };
    let files = Files::new();
    assert_eq!(load(&files.write("a.npy", b"1,2,cat\n"), &csv).unwrap().rows(), 1);
    let wrong = |format| refused("rows.csv", &Expected { format: Some(format), ..Expected::default() });
    assert!(wrong(Format::Npy).contains("magic number"));
    assert!(wrong(Format::Npz).contains("damaged, or not an NPZ archive"));
    assert!(wrong(Format::Parquet).contains("damaged, or a kind of Parquet"));
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let zipped = std::fs::read(fixture("rows.npz")).unwrap();
    assert!(refused_bytes("a", &gzip(&zipped), &Expected::default()).contains("gunzip it first"));
    let y = fixture("y.npy");
    let labelled = Expected { labels_file: Some(&y), ..Expected::default() };
    assert!(refused("rows.csv", &labelled).contains("but this file is csv"));
}

/// A file that is cut at any place is refused. A file with a changed byte is refused in one line or gives
/// rows.
#[test]
fn cut_and_damaged_files_are_refused() {
    let files = Files::new();
    let expected = Expected { label: LabelColumn::None, ..Expected::default() };
    for name in ["rows.npy", "rows-fortran.npy", "rows.npz", "named.npz", "rows.parquet", "rows-zstd.parquet"]
    {
        let whole = std::fs::read(fixture(name)).unwrap();
        let expected = if name.contains("parquet") { &Expected::default() } else { &expected };
        for cut in 0..whole.len() {
            let path = files.write(name, &whole[..cut]);
            assert!(load(&path, expected).is_err(), "{name} cut at {cut}");
        }
        for at in 0..whole.len() {
            for change in [0x01, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= change;
                match load(&files.write(name, &damaged), expected) {
                    Ok(data) => assert!(data.values().iter().all(|x| x.is_finite()) && data.rows() > 0),
                    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
                }
            }
        }
    }
}

fn npy(descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    [&bytes, header.as_bytes(), elements].concat()
}

#[test]
fn npy_files_that_lie_or_hold_other_things_are_refused() {
    let bare = Expected { label: LabelColumn::None, ..Expected::default() };
    let doubles = |numbers: &[f64]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let four = doubles(&[1.0, 2.0, 3.0, 4.0]);
    for (bytes, error) in [
        (npy("<f8", false, "(2, 3)", &four), ": number of elements is 4, expected 6 as in its header"),
        (npy("<f8", false, "(1, 3)", &four), ": number of elements is over 3, expected 3 as in its header"),
        (
            npy("<f8", false, "(8000000, 1048576)", &four),
            ": too many numbers: 8388608000000, limit 2147483648",
        ),
        (
            npy("<f8", false, "(18446744073709551615, 18446744073709551615)", &four),
            ": too many columns: 18446744073709551615, limit 1048576",
        ),
        (
            npy("<f8", false, "(2, 4294967296, 4294967296)", &four),
            ": too many columns: 18446744073709551615, limit 1048576",
        ),
        (
            npy("<f8", false, "(2047, 1048576)", &four),
            ": number of elements is 4, expected 2146435072 as in its header",
        ),
        (npy("<f8", false, "(4,)", &four), ": shape is (4,), expected (rows, columns)"),
        (npy("<f8", false, "()", &four), ": shape is (), expected (rows, columns)"),
        (npy("<f8", false, "(0, 4)", &[]), ": no rows after the header"),
        (
            npy("<f8", false, "(2, 2)", &doubles(&[1.0, 2.0, f64::NAN, 4.0])),
            ": row 2, column 1 is NaN, expected a finite number below 2^80",
        ),
        (
            npy("<f8", true, "(2, 2)", &doubles(&[1.0, 2.0, 1e300, 4.0])),
            ": row 1, column 2 is inf, expected a finite number below 2^80",
        ),
        (
            npy("<U1", false, "(2, 2)", &[0x61, 0, 0, 0].repeat(4)),
            ": type is \"<U1\", expected bool, integers, float32 or float64: save X.astype('float32')",
        ),
        (b"\x93NUMPY\x01\x00\xff\xff{".to_vec(), ": length is cut in the header, expected a whole header"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(),
            ": length of the header is 4294967295, expected at most 65536",
        ),
        (b"\x93NUMPY\x09\x00".to_vec(), ": version is 9, expected 1, 2 or 3"),
    ] {
        assert_eq!(refused_bytes("a", &bytes, &bare), error);
    }
    let y = fixture("y.npy");
    let labelled = Expected { labels_file: Some(&y), ..Expected::default() };
    let files = Files::new();
    let error =
        load(&files.write("a.npy", &npy("<f8", false, "(2, 2)", &four)), &labelled).unwrap_err().to_string();
    assert!(error.ends_with("y.npy: number of entries is 4, expected 2, one for each row"), "{error}");
    // Images with separate labels.
    let labels = files.write("l", &npy("|u1", false, "(2,)", &[7, 5]));
    let beside = Expected { labels_file: Some(&labels), ..Expected::default() };
    let images = load(&files.write("a.npy", &npy("<f8", false, "(2, 1, 2)", &four)), &beside).unwrap();
    assert_eq!((images.values(), images.labels()), (&[1.0, 2.0, 3.0, 4.0][..], &[1u16, 0][..]));
    assert_eq!(
        load(&files.write("z", &gzip(&npy("<f8", true, "(2, 2)", &four))), &bare).unwrap().values(),
        [1.0, 3.0, 2.0, 4.0]
    );
}

fn archive(arrays: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn npz_archives_are_refused_by_the_name_of_the_array() {
    let plain = Expected::default();
    let x = npy("|u1", false, "(2, 2)", &[1, 2, 3, 4]);
    let y = npy("|u1", false, "(2,)", &[0, 1]);
    let refused = |arrays: &[(&str, &[u8])]| refused_bytes("a.npz", &archive(arrays), &plain);
    assert_eq!(
        refused(&[("data.npy", &x), ("y.npy", &y)]),
        ": no array \"X\", which holds the features unless `array` in the map file names another: it has \"data\", \"y\""
    );
    assert_eq!(
        refused(&[("X.npy", &x), ("target.npy", &y)]),
        ": no array \"y\", which holds the labels unless --label names another: it has \"X\", \"target\""
    );
    assert_eq!(
        refused(&[("X.npy", &x), ("y.npy", &x)]),
        ": array \"y\", shape is (2, 2), expected (2,): one entry for each row"
    );
    assert_eq!(
        refused(&[("X.npy", &x[..x.len() - 1]), ("y.npy", &y)]),
        ": array \"X\", number of elements is 3, expected 4 as in its header"
    );
    let names = npy("|S1", false, "(3,)", b"abc");
    assert_eq!(
        refused(&[("X.npy", &x), ("y.npy", &y), ("columns.npy", &names)]),
        ": array \"X\", shape is (2, 2), expected 3 columns, one for each name"
    );
    // A decompression bomb has much more data than its header declares. Reading stops at the declared
    // size.
    let bomb = [x.clone(), vec![0; 1 << 26]].concat();
    assert_eq!(
        refused(&[("X.npy", &bomb), ("y.npy", &y)]),
        ": array \"X\", number of elements is over 4, expected 4 as in its header"
    );
    // An unknown compression method, in the header of the file and in the directory.
    let mut method = archive(&[("X.npy", &x), ("y.npy", &y)]);
    let directory = method.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    for at in [8, directory + 10] {
        method[at..at + 2].copy_from_slice(&[0xff, 0x7f]);
    }
    let text = refused_bytes("a.npz", &method, &plain);
    assert!(
        text.starts_with(": array \"X\", content is damaged (")
            || text.starts_with(": damaged, or not an NPZ"),
        "{text}"
    );
    let many: Vec<(String, &[u8])> = (0..1025).map(|i| (format!("{i}.npy"), &[][..])).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    assert_eq!(refused(&many), ": too many arrays: 1025, limit 1024");
    let files = Files::new();
    let named = Expected { array: Some("data"), label: label("target"), ..Expected::default() };
    let data = load(&files.write("a", &archive(&[("data.npy", &x), ("target.npy", &y)])), &named).unwrap();
    assert_eq!((data.values(), data.labels()), (&[1.0, 2.0, 3.0, 4.0][..], &[0u16, 1][..]));
}
