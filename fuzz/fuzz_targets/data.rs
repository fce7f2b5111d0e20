//! Checks that any file is refused or gives rows with consistent numbers.
//!
//! All formats are covered, because the first bytes decide the format.
//!
//! Input: options (u8), length of the labels file (u8), labels file, data file. If the length is 255, the
//! columns are described and the data file follows.
#![no_main]

mod seeds;

use std::fs;
use std::sync::LazyLock;

use flyswarm_data::prepare::{DateOrder, ColumnSpec, Fill, Kind, TableSchema};
use flyswarm_data::{Column, Expected, LabelColumn, load_named};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(init: seeds::write("data", inputs()), |data: &[u8]| {
    if let &[how, 255, ref file @ ..] = data {
        return described(how, file);
    }
    let &[how, length, ref rest @ ..] = data else { return };
    let (labels, file) = rest.split_at(usize::from(length).min(rest.len()));
    let (path, labels_path) = (FOLDER.path().join("rows"), FOLDER.path().join("labels"));
    fs::write(&path, file).expect("it can be written");
    let classes = ["0".to_owned(), "1".to_owned()];
    let (columns, drop) = (["b".to_owned(), "a".to_owned()], [Column::Number(2)]);
    let expected = Expected {
        columns: if how & 0x40 != 0 { &columns } else { &[] },
        drop: if how & 0x80 != 0 { &drop } else { &[] },
        features: (how & 1 != 0).then_some(2),
        classes: (how & 2 != 0).then_some(&classes[..]),
        label: match how >> 2 & 3 {
            0 => LabelColumn::Last,
            1 => LabelColumn::None,
            2 => LabelColumn::Number(1),
            _ => LabelColumn::Name("y".into()),
        },
        header: [None, None, Some(true), Some(false)][usize::from(how >> 4 & 3)],
        labels_file: (length > 0).then_some(&labels_path),
        array: None,
        format: None, ..Expected::default()
    };
    if length > 0 {
        fs::write(&labels_path, labels).expect("it can be written");
    }
    let Ok(loaded) = load_named(&path, &expected) else { return };
    let data = loaded.data;
    assert!(loaded.columns.is_empty() || loaded.columns.len() == data.features());
    assert!(loaded.columns.is_empty() || expected.columns.is_empty() || loaded.columns == expected.columns);
    assert_eq!(data.values().len(), data.rows() * data.features());
    assert!(data.rows() > 0 && data.values().iter().all(|value| value.is_finite()));
    assert!(expected.features.is_none_or(|features| features == data.features()));
    if expected.label == LabelColumn::None {
        assert!(data.labels().is_empty());
    } else {
        assert_eq!(data.labels().len(), data.rows());
    }
    assert!(data.labels().iter().all(|&label| usize::from(label) < data.classes().len()));
});

/// Reads rows with described columns. A missing value with a pooled fill must be in the list of gaps, and
/// every other value must be a number.
fn described(how: u8, file: &[u8]) {
    let texts = |texts: &str| texts.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let column = |name: &str, kind: Kind, fill: Fill| ColumnSpec { fill, ..ColumnSpec::new(name, kind) };
    let preparation = TableSchema {
        decimal_comma: how & 1 != 0,
        missing: texts("NA ?"),
        label: Some("y".into()),
        group: (how & 4 != 0).then(|| "g".into()),
        columns: vec![
            ColumnSpec { max: Some(9.0), clip: true, ..column("a", Kind::Number, Fill::Pooled) },
            column("b", Kind::Category(texts("u v")), Fill::Pooled),
            column("c", Kind::Ordinal(texts("I II")), Fill::Level("I".into())),
            column("d", Kind::Date(DateOrder::DayMonthYear), Fill::Refuse),
        ],
        ..TableSchema::default()
    };
    let path = FOLDER.path().join("rows");
    fs::write(&path, file).expect("it can be written");
    let expected = Expected { preparation: Some(&preparation), lenient: how & 2 != 0, ..Expected::default() };
    let Ok(loaded) = load_named(&path, &expected) else { return };
    let (data, gaps) = (loaded.data, loaded.gaps);
    assert_eq!((data.features(), loaded.columns), (preparation.width(), preparation.features()));
    let words = preparation.pooled_values(&data, &gaps);
    let Ok(resolved) = preparation.resolved(&words) else { return };
    resolved.check_resolved().expect("a sound preparation");
    let filled = resolved.filled(&data, &gaps).expect("every gap has a value");
    assert!(filled.values().iter().all(|value| value.is_finite()));
}

fn inputs() -> Vec<Vec<u8>> {
    let input = |how: u8, labels: &[u8], file: &[u8]| [&[how, labels.len() as u8], labels, file].concat();
    vec![
        input(0, b"", b"a,b,y\n1,2,cat\n3,4.5e1,dog\n"),
        input(3, b"", b"1,2,0\r\n-3,\"4\",1\r\n"),
        input(4, b"", b"1,2\n3,4\n"),
        input(8, b"", b"cat,2,1\n\ndog,3,4\n"),
        input(12, b"", b"\xef\xbb\xbfx,y\n1,\"a,b\"\n"),
        input(0, b"", include_bytes!("../../crates/data/tests/formats/rows.npy")),
        input(
            4,
            include_bytes!("../../crates/data/tests/formats/y.npy"),
            include_bytes!("../../crates/data/tests/formats/X.npy"),
        ),
        input(
            0,
            include_bytes!("../../crates/data/tests/formats/y.npy"),
            include_bytes!("../../crates/data/tests/formats/X.npy"),
        ),
        input(0x80, b"", include_bytes!("../../crates/data/tests/formats/rows-fortran.npy")),
        input(0, b"", include_bytes!("../../crates/data/tests/formats/rows.npz")),
        input(4, b"", include_bytes!("../../crates/data/tests/formats/named.npz")),
        input(0, b"", include_bytes!("../../crates/data/tests/formats/rows.parquet")),
        input(0x40, b"", include_bytes!("../../crates/data/tests/formats/rows-zstd.parquet")),
        input(0x80, b"", include_bytes!("../../crates/data/tests/formats/rows-gzip.parquet")),
        input(0, b"", include_bytes!("../../crates/data/tests/formats/rows-none.parquet")),
        [&[0, 255][..], b"y,d,c,b,a\ncat,1.2.2026,I,u,1.5\ndog,31/12/1999,,,NA\n"].concat(),
        [&[3, 255][..], b"a;b;c;d;y\n1.234,5;\"v\nw\";II;1-1-1970;cat\n"].concat(),
        [&[0, 255][..], b"{\"a\":1,\"b\":null,\"c\":\"II\",\"d\":\"1.2.2026\",\"y\":\"x\"}\n"].concat(),
    ]
}
