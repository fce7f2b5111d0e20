//! Unsuitable files: they are read, or refused with their kind and what to do.

use std::sync::Arc;

use super::write::{Cell, Table, arrow, xlsx};
use super::*;
use crate::prepare::{ColumnSpec, Kind, TableSchema};

fn schema() -> TableSchema {
    let columns = vec![ColumnSpec::new("age", Kind::Number), ColumnSpec::new("dose", Kind::Number)];
    TableSchema { label: Some("kind".into()), columns, ..TableSchema::default() }
}

/// Returns the errors or values for these bytes, with described columns and without.
fn both(bytes: &[u8]) -> [String; 2] {
    let files = Files::new();
    let path = files.write("f", bytes);
    let schema = schema();
    let described = Expected { preparation: Some(&schema), ..Expected::default() };
    [described, Expected::default()].map(|expected| {
        let text = load(&path, &expected)
            .map_or_else(|error| error.to_string(), |data| format!("{:?}", data.values()));
        assert!(!text.contains('\n'), "one line: {text}");
        text.replace(path.to_str().unwrap(), "")
    })
}

#[test]
fn other_formats_are_named_with_what_to_do() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    for (bytes, said) in [
        (&b"\xfd7zXZ\0.."[..], "compressed by xz: unpack it (unxz)"),
        (b"\x28\xb5\x2f\xfd..", "compressed by Zstandard: unpack it (unzstd)"),
        (b"ARROW1\0\0", "a Feather (Arrow) file: save it as Parquet"),
        (b"<stata_dta><header>", "a Stata file: save it as CSV"),
        (b"\x72\x02\x01\0..", "a Stata file: save it as CSV"),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea\x81\x60", "a SAS file: save it as CSV"),
        (b"\x80\x04\x95\x10", "a pickle of Python, never opened here"),
        (b"\n <!DOCTYPE HTML><html>", "a page of HTML"),
        (b"\xef\xbb\xbf<table><tr>", "a page of HTML"),
        (b"ORC\x0a\x0b", "an ORC file: save it as Parquet or CSV"),
        (b"\x89PNG\r\n\x1a\n", "an image"),
        (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "a MATLAB file"),
        (&[&[b'r'; 257][..], b"ustar"].concat(), "a tar archive: unpack it"),
        (b"\x7fELF\x02\x01\0\0", "binary data or damaged, not a table as text"),
        (b"\x01\x02,kind\n", "binary data or damaged, not a table as text"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "a Git LFS pointer, not the file itself: git lfs pull",
        ),
        (&utf16("\u{feff}age,kind\n1,ill\n"), "UTF-16 text: save it as UTF-8"),
        (&utf16("age,kind\n1,ill\n"), "UTF-16 text: save it as UTF-8"),
        (&utf16("age,kind\n").iter().rev().copied().collect::<Vec<_>>(), "UTF-16 text: save it as UTF-8"),
    ] {
        for text in both(bytes) {
            assert!(text.starts_with(&format!(": this is {said}")), "{text}");
        }
    }
    for (name, said) in [
        ("word/document.xml", "a Word document"),
        ("a.txt", "a ZIP archive: unpack it"),
        ("xl/workbook.bin", "a binary Excel workbook"),
    ] {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        both(&bytes).iter().for_each(|text| assert!(text.contains(said), "{text}"));
    }
}

#[test]
fn what_surrounds_a_table_in_a_text_does_not_matter() {
    for text in [
        "sep=;\nage;dose;kind\n1;2;ill\n3;4;well\n",
        "\"SEP=;\"\r\nage;dose;kind\r\n1;2;ill\r\n3;4;well\r\n",
        "age,dose,kind\r1,2,ill\r3,4,well\r",
        "\u{feff}Export of ward 3\n\nage,dose,kind\n1,2,ill\n3,4,well\n",
        "Export of ward 3,,\n2026-01-31,,\nage,dose,kind\n1,2,ill\n3,4,well\n",
    ] {
        assert_eq!(both(text.as_bytes()), ["[1.0, 2.0, 3.0, 4.0]"; 2], "{text:?}");
    }
    // Described columns are also found if their capitals differ.
    assert_eq!(both(b"AGE,Dose,Kind\n1,2,ill\n3,4,well\n")[0], "[1.0, 2.0, 3.0, 4.0]");
    // A number above a table is a row that is too short, not a title.
    assert!(both(b"7\n1,2,ill\n3,4,well\n")[1].contains("one column, the label"));
}

#[test]
fn damaged_texts_and_names_of_rows_are_refused_with_advice() {
    let cut = "age,dose,kind\n1,2,ill\n3,4,m\u{fc}de\n".as_bytes();
    for (bytes, said) in [
        (&b"age,dose,kind\n1,2,ill\n\0\0\0\0"[..], "line 3: NUL bytes: the file was damaged"),
        (&cut[..cut.len() - 4], "line 3: the file ends within a character: it was cut off"),
        (b"age,dose,kind\n1,1,2,ill\n2,3,4,well\n", "the column of row names that R writes has no name"),
    ] {
        both(bytes).iter().for_each(|text| assert!(text.contains(said), "{text}"));
    }
}

#[test]
fn a_first_line_that_may_be_a_header_is_asked_about() {
    let classes = ["0", "1"].map(String::from);
    let read = |text: &str, header| {
        let expected = Expected { classes: Some(&classes), header, ..Expected::default() };
        let files = Files::new();
        load(&files.write("f", text.as_bytes()), &expected)
            .map(|data| data.rows())
            .map_err(|error| error.to_string())
    };
    let counts = "0,1,2,0\n0.5,0.25,0.75,1\n";
    let error = read(counts, None).unwrap_err();
    assert!(
        error.ends_with(
            "line 1: 0, 1, 2 and so on may be column names or a row: set `header = true` or `false` in the \
             map file"
        ),
        "{error}"
    );
    assert_eq!((read(counts, Some(true)), read(counts, Some(false))), (Ok(1), Ok(2)));
    // Two numbers are too few to decide. The error for the unknown label mentions that the line may be a
    // header.
    assert_eq!(read("0,1,1\n0.5,2,0\n", None), Ok(2));
    let error = read("0,1,label\n0.5,2,0\n", None).unwrap_err();
    assert!(error.contains("if this line has the names of the columns: `header = true`"), "{error}");
    // A row of missing values is not a header.
    assert!(read("NA,NA,NA,1\n1,2,3,0\n", None).unwrap_err().contains("line 1, column 1: found \"NA\""));
}

#[test]
fn a_sheet_is_taken_by_its_name() {
    let table = |age: i64| -> Table {
        vec![
            ("age".into(), vec![Cell::Whole(age), Cell::Whole(2)]),
            ("kind".into(), vec![Cell::Text("ill".into()), Cell::Text("well".into())]),
        ]
    };
    let files = Files::new();
    let path = files.write("a.xlsx", &xlsx(&[("Visits", &table(1)), ("Old", &table(9))]));
    let read =
        |sheet| load(&path, &Expected { sheet, ..Expected::default() }).map_err(|error| error.to_string());
    assert_eq!(read(Some("Old")).unwrap().values(), [9.0, 2.0]);
    assert!(
        read(None)
            .unwrap_err()
            .contains("several sheets have rows (\"Visits\", \"Old\"): `sheet = \"NAME\"`")
    );
    assert!(read(Some("New")).unwrap_err().contains("no sheet \"New\": it has \"Visits\", \"Old\""));
    // A file that is cut or changed at any place is refused in one line or read, without a panic.
    let whole = std::fs::read(files.write("b.xlsx", &xlsx(&[("Visits", &table(1))]))).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x11;
        for bytes in [&whole[..at], &changed] {
            if let Err(error) = load(&files.write("c.xlsx", bytes), &Expected::default()) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

#[test]
fn a_label_that_is_called_like_a_missing_value_is_a_value() {
    let schema = TableSchema { missing: vec!["none".into(), "NA".into()], ..schema() };
    let classes = ["none", "ill"].map(String::from);
    let rows = b"age,dose,kind\n1,2,none\n3,4,ill\n5,6,NA\n";
    let files = Files::new();
    let path = files.write("f.csv", rows);
    let expected =
        Expected { preparation: Some(&schema), classes: Some(&classes), partly: true, ..Expected::default() };
    assert_eq!(load_named(&path, &expected).unwrap().labels, [Some(0), Some(1), None]);
    let error = load(&path, &Expected { partly: false, ..expected }).unwrap_err().to_string();
    assert!(error.contains("line 4, column \"kind\": found \"NA\", expected a label"), "{error}");
}

#[test]
fn a_pipe_is_kept_unless_it_is_long_or_not_read_from_its_start() {
    let files = Files::new();
    let keep = |name: &str, bytes: &[u8]| {
        let path = files.write(name, bytes);
        source::keep(&path, 8).map(|()| path).map_err(|error| error.to_string())
    };
    let error = keep("a.csv", b"1,2,cats\n").unwrap_err();
    assert!(error.ends_with("a pipe or device (over 8 bytes): save the rows as a file"));
    for bytes in [&b"PAR1...."[..], b"PK\x03\x04"] {
        let error = keep("b.parquet", bytes).unwrap_err();
        assert!(error.contains("(Parquet, NPZ and Excel need a file): save"), "{error}");
    }
    let path = keep("c.csv", b"1,2,cat\n").unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        assert_eq!(load(&path, &Expected::default()).unwrap().values(), [1.0, 2.0]);
    }
}

#[test]
fn a_moment_has_the_day_of_its_time_zone() {
    // The file of the case `../shared/cases/parquet-time-zone` was written by pandas.
    use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
    use ::parquet::schema::types::Type;
    let file = |unit: TimeUnit, utc: bool, zone: Option<&str>, moments: &[i64]| {
        let column = Type::primitive_type_builder("seen", Physical::INT64)
            .with_logical_type(Some(LogicalType::timestamp(utc, unit)))
            .with_repetition(Repetition::REQUIRED);
        let fields = vec![Arc::new(column.build().unwrap())];
        let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build().unwrap());
        let properties = zone.map(|zone| arrow(&[("seen".into(), zone)])).unwrap_or_default();
        let mut writer =
            ::parquet::file::writer::SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<::parquet::data_type::Int64Type>().write_batch(moments, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.into_inner().unwrap()
    };
    let columns = vec![ColumnSpec::new("seen", Kind::Date(prepare::DateOrder::DayMonthYear))];
    let schema = TableSchema { columns, ..TableSchema::default() };
    let expected = Expected { preparation: Some(&schema), label: LabelColumn::None, ..Expected::default() };
    let files = Files::new();
    let read = |bytes: &[u8]| {
        let data = load(&files.write("a.parquet", bytes), &expected).map_err(|error| error.to_string())?;
        Ok::<_, String>(data.values().to_vec())
    };
    for (unit, second) in
        [(TimeUnit::MILLIS, 1_000), (TimeUnit::MICROS, 1_000_000), (TimeUnit::NANOS, 1_000_000_000)]
    {
        // In UTC both moments are at half past four, on 1 July and on 1 January 2026. In New York it is half
        // past midnight in July, but the evening of the day before in January.
        let moments = [20_635, 20_454].map(|day| (day * 86_400 + 4 * 3_600 + 1_800) * second);
        let days = |utc, zone| read(&file(unit, utc, zone, &moments));
        assert_eq!(days(true, Some("America/New_York")).unwrap(), [20_635.0, 20_453.0]);
        assert_eq!(days(true, Some("-04:30")).unwrap(), [20_635.0, 20_454.0]);
        assert_eq!(days(true, Some("-04:31")).unwrap(), [20_634.0, 20_453.0]);
        // A column without a zone has its own day, even if the metadata name a zone.
        assert_eq!(days(false, Some("-04:31")).unwrap(), [20_635.0, 20_454.0]);
        for (zone, what) in [
            (None, "a moment in UTC (its day depends on the time zone)"),
            (Some("Moon/Base"), "a moment in the unknown time zone \"Moon/Base\""),
        ] {
            let error = days(true, zone).unwrap_err();
            let whole = format!("column \"seen\" is {what}, which cannot be read: write it as a number");
            assert!(error.contains(&whole), "{error}");
        }
    }
    // The smallest and the largest moment have no date.
    for moment in [i64::MIN, i64::MAX] {
        let error = read(&file(TimeUnit::MILLIS, true, Some("Asia/Tokyo"), &[moment])).unwrap_err();
        assert!(!error.contains('\n') && error.contains("column \"seen\""), "{error}");
    }
}
