//! Tests the digests of files.

use std::path::Path;

use crate::cli::schema::tests::drafted;
use crate::cli::tests::run_words;

fn told(folder: &Path, words: &[&str]) -> Result<String, String> {
    let words = ["flyswarm", "inspect", "--digest"].into_iter().chain(words.iter().copied()).map(|word| {
        if word.contains('.') { folder.join(word).display().to_string() } else { word.to_owned() }
    });
    let mut out = Vec::new();
    run_words(words.collect(), &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

/// Returns the digest of one file.
fn of(folder: &Path, name: &str, bytes: &[u8]) -> String {
    std::fs::write(folder.join(name), bytes).unwrap();
    told(folder, &[name]).unwrap().split("  ").next().unwrap().to_owned()
}

const RECEIPT: &str = r#"{"session": "ab", "peer_id": "north", "seconds": 1.5, "aggregates":
 [{"name": "coin", "view": "1.0", "members": ["a", "b"], "sealed_total": "00"}]}"#;

#[test]
fn receipts_of_one_session_have_one_digest_whoever_has_them_and_others_another() {
    let folder = tempfile::tempdir().unwrap();
    let digest = |text: &str| of(folder.path(), "r.json", text.as_bytes());
    let first = digest(RECEIPT);
    assert_eq!(first.len(), 64);
    assert_eq!(digest(&RECEIPT.replace("north", "south").replace("1.5", "2.5")), first);
    for (from, to) in [("\"ab\"", "\"ac\""), ("coin", "sum"), ("\"b\"", "\"c\""), ("\"00\"", "\"01\"")] {
        assert_ne!(digest(&RECEIPT.replace(from, to)), first, "{from}");
    }
    // A text may not move from the end of one name to the start of the next.
    assert_ne!(digest(&RECEIPT.replace("\"a\", \"b\"", "\"ab\", \"\"")), first);
    std::fs::write(folder.path().join("r.json"), RECEIPT.replace("[\"a\", \"b\"]", "1")).unwrap();
    assert!(told(folder.path(), &["r.json"]).unwrap_err().ends_with("not a receipt: members is not a list"));
}

#[test]
fn a_session_files_digest_is_its_id_and_addresses_do_not_count() {
    let folder = drafted();
    let session = crate::session::Session::load(folder.path().join("s.toml")).unwrap();
    let text = std::fs::read_to_string(folder.path().join("s.toml")).unwrap();
    assert_eq!(of(folder.path(), "s.toml", text.as_bytes()), session.id().to_string());
    let with = text.replacen("addresses = [", "addresses = [\"/ip4/10.0.0.1/tcp/1\", ", 1);
    assert_ne!(with, text);
    assert_eq!(of(folder.path(), "s.toml", with.as_bytes()), session.id().to_string());
    let line = told(folder.path(), &["s.toml", "--json"]).unwrap();
    assert!(line.contains("\"kind\":\"session\""), "{line}");
}

#[test]
fn archives_of_the_same_arrays_have_one_digest_and_other_files_are_refused_by_name() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/data/tests/formats");
    let read = |name: &str| std::fs::read(formats.join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (rows, named) = (read("rows.npz"), read("named.npz"));
    let digest = of(folder.path(), "a.npz", &rows);
    assert_eq!(digest, of(folder.path(), "b.npz", &rows));
    assert_ne!(digest, of(folder.path(), "c.npz", &named));
    // Changes the time of an entry, in its local header and in the directory.
    let mut later = rows.clone();
    let starts: Vec<usize> = (0..rows.len() - 4)
        .filter(|&at| rows[at..].starts_with(b"PK\x03\x04") || rows[at..].starts_with(b"PK\x01\x02"))
        .collect();
    for at in starts {
        let time = if rows[at + 2] == 3 { at + 10 } else { at + 12 };
        later[time] ^= 1;
    }
    assert_ne!(later, rows);
    assert_eq!(of(folder.path(), "d.npz", &later), digest);
    std::fs::write(folder.path().join("rows.csv"), "1,2\n").unwrap();
    let error = told(folder.path(), &["rows.csv"]).unwrap_err();
    assert!(error.ends_with("rows.csv: a model, network, NPZ archive, session file or receipt is expected"));
    assert!(told(folder.path(), &["none.npz"]).unwrap_err().contains("none.npz: No such file"));
}
