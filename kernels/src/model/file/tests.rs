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
    }
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["m.model"], "nothing is left beside the file");
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

/// The file with `change` applied to its body and a checksum that matches.
fn forged(change: impl Fn(&mut Vec<u8>)) -> Result<Model, DecodeError> {
    let mut body = small_model(Scaling::Center, 0.5).body();
    change(&mut body);
    Model::decode(&[MAGIC.to_vec(), body.clone(), digest(&body).to_vec()].concat())
}

#[test]
fn impossible_fields_are_refused_even_under_a_right_checksum() {
    assert!(forged(|_| ()).is_ok());
    let error = |change: fn(&mut Vec<u8>)| forged(change).unwrap_err().to_string();
    assert_eq!(error(|b| b[0] = 1), "model file version 1, expected 4");
    assert_eq!(error(|b| b[2..6].fill(255)), "d at byte 33 is 4294967295, expected at most 2^20");
    assert_eq!(error(|b| b[6..10].fill(255)), "m is 4294967295, expected 1 to 26843545 with 10 classes");
    assert_eq!(error(|b| b[50] = 2), "densify at byte 66 is 2, expected 0 or 1");
    assert_eq!(error(|b| b[52..60].fill(255)), "gamma is NaN, expected 0 or more and below 1");
    assert_eq!(
        error(|b| b[52..60].copy_from_slice(&(-0.0f64).to_le_bytes())),
        "gamma is -0, expected 0 or more and below 1"
    );
    assert_eq!(error(|b| b[51] = 4), "score at byte 67 is 4, expected 0 to 3");
    assert_eq!(error(|b| b[60] = 6), "scaling at byte 76 is 6, expected 0 to 5");
    assert_eq!(error(|b| b[61..69].fill(255)), "the sums for feature 1 are not those of any rows");
    assert_eq!(error(|b| b.push(0)), "1 bytes after the end of the model");
    assert!(error(|b| b.truncate(b.len() - 1)).starts_with("truncated: counts needs"));
    let classes = 61 + 64 * 8;
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
