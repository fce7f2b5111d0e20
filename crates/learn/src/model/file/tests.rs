use super::*;
use crate::model::tests::small_model;

#[test]
fn a_model_comes_back_from_its_file_whatever_the_scaling() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.model");
    for scaling in [
        Scaling::None,
        Scaling::UnitNorm,
        Scaling::Range { lo: vec![0.0], hi: vec![16.0] },
        Scaling::Range { lo: vec![0.0; 64], hi: vec![16.0; 64] },
        Scaling::Center,
        Scaling::Standard,
        Scaling::SoftBins(3),
    ] {
        let model = small_model(scaling, 0.5);
        model.save(&path).unwrap();
        let back = Model::load(&path).unwrap();
        assert_eq!(back, model);
        assert_eq!(back.digest(), model.digest());
        assert_eq!(back.encode(), model.encode());
        let last = model.clone().with_calibration(Calibration::new(31));
        assert_ne!(last.digest(), model.digest(), "its probabilities differ");
        assert_eq!(Model::decode(&last.encode()).unwrap(), last);
    }
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["m.model"], "no other file is left in the folder");
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    let bytes = small_model(Scaling::Center, 0.5).encode();
    for cut in (0..600).chain((600..bytes.len()).step_by(37)) {
        assert!(Model::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    for at in (0..600).chain((600..bytes.len()).step_by(37)).chain(bytes.len() - 32..bytes.len()) {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(Model::decode(&bytes).is_err(), "bit {bit} of byte {at}");
        }
    }
    assert!(Model::decode(&[bytes, vec![0]].concat()).is_err(), "one byte more");
}

/// Returns the file with `change` applied to its body and a matching checksum.
fn forged(change: impl Fn(&mut Vec<u8>)) -> Result<Model, DecodeError> {
    let mut body = small_model(Scaling::Center, 0.5).body();
    change(&mut body);
    Model::decode(&file(&body, &[0]))
}

/// Returns a file with valid digests around these bytes.
fn file(body: &[u8], origin: &[u8]) -> Vec<u8> {
    let all = [body, &digest(body), origin].concat();
    [&MAGIC[..], &all, &checksum(&all)].concat()
}

#[test]
fn impossible_fields_are_refused_even_under_a_right_checksum() {
    assert!(forged(|_| ()).is_ok());
    let error = |change: fn(&mut Vec<u8>)| forged(change).unwrap_err().to_string();
    assert_eq!(error(|b| b[0] = 1), "model file version 1, expected 5");
    assert_eq!(error(|b| b[2..6].fill(255)), "d at byte 33 is 4294967295, expected at most 2^20");
    assert_eq!(error(|b| b[6..10].fill(255)), "m is 4294967295, expected 1 to 26843545 with 10 classes");
    assert_eq!(error(|b| b[50] = 2), "densify at byte 66 is 2, expected 0 or 1");
    assert_eq!(error(|b| b[52..60].fill(255)), "gamma is NaN, expected 0 or more and below 1");
    assert_eq!(
        error(|b| b[52..60].copy_from_slice(&(-0.0f64).to_le_bytes())),
        "gamma is -0, expected 0 or more and below 1"
    );
    assert_eq!(error(|b| b[51] = 4), "score at byte 67 is 4, expected 0 to 3");
    assert_eq!(error(|b| b[60] = 33), "calibration at byte 76 is 33, expected 0 to 32");
    assert_eq!(error(|b| b[61] = 6), "scaling at byte 77 is 6, expected 0 to 5");
    assert_eq!(error(|b| b[62..70].fill(255)), "the sums for feature 1 cannot come from rows");
    // The digest does not match if a byte is added or removed.
    assert_eq!(error(|b| b.push(0)), "the checksum does not match: the file is damaged");
    assert_eq!(error(|b| b.truncate(b.len() - 1)), "the checksum does not match: the file is damaged");
    assert!(error(|b| b.truncate(b.len() - 100)).starts_with("truncated: counts needs"));
    let model = small_model(Scaling::Center, 0.5);
    let after = Model::decode(&file(&model.body(), &[0, 0])).unwrap_err().to_string();
    assert_eq!(after, "1 bytes after the end of the model");
    let classes = 62 + 64 * 8;
    for (change, text) in [
        (
            vec![classes + 4],
            "class 0 is \"\\0\", expected a class name of 1 to 256 bytes without control characters",
        ),
        (
            vec![classes + 7],
            "class 1 is \"\\0\", expected a class name of 1 to 256 bytes without control characters",
        ),
    ] {
        let error = forged(|b| change.iter().for_each(|&at| b[at] = 0)).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let error = forged(|b| b[classes + 7] = b'0').unwrap_err();
    assert_eq!(error.to_string(), "class 1 is \"0\", expected a name that no class before it has");
}

fn origin_of(session: &str) -> Origin {
    let members = vec!["alice".to_owned(), "bob".to_owned(), "carol".to_owned()];
    Origin {
        session: session.into(),
        id: [7; 32],
        members,
        roster: 4,
        noised: true,
        protocol: "flyswarm/5".into(),
        program: "flyswarm 1.2.3".into(),
        unix: 1_800_000_000,
    }
}

#[test]
fn names_of_columns_and_where_a_model_comes_from_come_back_and_only_the_names_are_in_the_digest() {
    let names: Vec<String> = (0..64).map(|i| format!("h\u{f6}he, {i}")).collect();
    let plain = small_model(Scaling::Standard, 0.5);
    let named = plain.clone().with_columns(names.clone()).unwrap();
    let whole = named.clone().with_origin(origin_of("wards"));
    let back = Model::decode(&whole.encode()).unwrap();
    assert_eq!((back.columns(), back.origin()), (&names[..], Some(&origin_of("wards"))));
    assert_eq!((&back, back.encode()), (&whole, whole.encode()));
    let mut swapped = names.clone();
    swapped.swap(0, 1);
    let swapped = plain.clone().with_columns(swapped).unwrap();
    assert!(plain.digest() != named.digest() && named.digest() != swapped.digest());
    // Peers of one session write at different times and with different programs.
    let later = Origin { unix: 1_800_000_009, program: "another".into(), ..origin_of("wards") };
    assert_eq!(named.clone().with_origin(later).digest(), named.digest());
    assert_eq!(whole.digest(), named.digest());
    for (names, told) in [
        (vec!["a".to_owned()], "the number of columns with a name is 1, expected 64, or none"),
        (vec!["a".to_owned(); 64], "column 2 is \"a\", expected a name that no column before it has"),
        (vec![String::new(); 64], "column 1 is \"\", expected a name of 1 to 256 bytes"),
    ] {
        let error = plain.clone().with_columns(names).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_of_names_and_origin_is_refused() {
    let names = (0..64).map(|i| format!("column {i}")).collect();
    let model = small_model(Scaling::None, 0.5).with_columns(names).unwrap().with_origin(origin_of("s"));
    let bytes = model.encode();
    let tail = bytes.len() - 250;
    let all = (0..1200).chain(tail..bytes.len());
    for at in all {
        assert!(Model::decode(&bytes[..at]).is_err(), "cut at {at}");
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(Model::decode(&bytes).is_err(), "byte {at}");
    }
    // A checksum does not detect wrong values. The checks of the fields detect them.
    let body = model.body();
    let forged = |change: fn(&mut Vec<u8>)| {
        let mut origin = origin_bytes(model.origin());
        change(&mut origin);
        Model::decode(&file(&body, &origin)).unwrap_err().to_string()
    };
    assert!(forged(|o| o[0] = 2).starts_with("origin at byte"));
    assert!(forged(|o| o[2] = 2).contains("is 513, expected at most 256 bytes"));
    assert!(forged(|o| o[3] = 0xff).contains("name of the session at byte"));
    assert!(forged(|o| o[38..40].fill(255)).contains("number of members at byte"));
    assert!(forged(|o| o.truncate(o.len() - 1)).starts_with("truncated: date needs"));
}

#[test]
fn rows_of_each_class_follow_from_the_counts_unless_noise_was_added() {
    let model = small_model(Scaling::Center, 0.5);
    let rows = flyswarm_data::digits::digits().class_counts(10);
    assert_eq!(model.class_rows(), Some(rows));
    assert_eq!(model.with_origin(origin_of("s")).class_rows(), None);
}

#[test]
fn the_digest_covers_every_part() {
    let model = small_model(Scaling::UnitNorm, 0.5);
    let mut digests = vec![
        model.digest(),
        small_model(Scaling::None, 0.5).digest(),
        small_model(Scaling::UnitNorm, 0.25).digest(),
    ];
    let mut other = model.clone();
    other.classes[0] = "zero".into();
    digests.push(other.digest());
    let mut other = model.clone();
    other.counts = Counts::zero(10, model.sketch().parameters().m);
    digests.push(other.digest());
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 5);
}

#[cfg(unix)]
#[test]
fn a_device_is_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let model = small_model(Scaling::None, 0.5);
    model.save(Path::new("/dev/null")).unwrap();
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_file_that_is_no_model_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    std::fs::write(&path, b"hello").unwrap();
    assert!(Model::load(&path).unwrap_err().to_string().ends_with("x: not a flyswarm model file"));
    assert!(matches!(Model::load(folder.path()), Err(FileError::Io { .. })));
    let model = small_model(Scaling::None, 0.5);
    assert!(matches!(model.save(&folder.path().join("no/x")), Err(FileError::Io { .. })));
}

#[test]
fn a_model_of_described_columns_keeps_the_description_and_has_another_digest() {
    use flyswarm_data::prepare::{ColumnSpec, Fill, Kind, TableSchema};
    let plain = small_model(Scaling::Center, 0.5);
    let d = plain.sketch().parameters().d;
    let columns = (0..d).map(|at| ColumnSpec::new(format!("x{at}"), Kind::Number)).collect();
    let preparation = TableSchema { columns, ..TableSchema::default() };
    let described = plain.clone().with_preparation(preparation.clone().into()).unwrap();
    let named = plain.clone().with_columns(preparation.features()).unwrap();
    let bytes = described.encode();
    let read = Model::decode(&bytes).unwrap();
    assert_eq!((&read, read.preparation()), (&described, Some(&preparation)));
    assert_eq!(read.columns(), named.columns());
    assert_ne!(described.digest(), named.digest());
    let more = TableSchema {
        columns: [preparation.columns.clone(), vec![ColumnSpec::new("y", Kind::Number)]].concat(),
        ..preparation
    };
    assert!(plain.clone().with_preparation(more.into()).is_err(), "a feature more than the sketch has");
    let mut waiting = read.preparation().unwrap().clone();
    waiting.columns[0].fill = Fill::Refuse;
    assert!(plain.clone().with_preparation(waiting.clone().into()).is_ok());
    waiting.columns[0].fill = Fill::Pooled;
    assert!(plain.with_preparation(waiting.into()).is_err(), "a fill that is not known yet");
}
