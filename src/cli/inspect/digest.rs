//! `inspect --digest`: prints digests. Peers compare them to check that they have the same files.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::{Failure, kind, output, print};
use crate::data::npz_digest;
use crate::tasks::Contents;

/// Largest receipt that is read, bytes: a receipt of 1,024 peers and thousands of sums is smaller.
const LIMIT: u64 = 256 << 20;

/// Prints one line for each file.
pub(super) fn print_all(files: &[PathBuf], as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let mut text = String::new();
    for file in files {
        let (kind, digest) = digest(file)?;
        let digest = hex::encode(digest);
        text += &match as_json {
            true => format!("{}\n", json!({"file": file, "kind": kind, "digest": digest})),
            false => format!("{digest}  {kind}  {}\n", file.display()),
        };
    }
    print(out, &text)
}

/// Returns the kind of a file and its digest.
fn digest(file: &Path) -> Result<(&'static str, [u8; 32]), Failure> {
    let expected = "a model, network, NPZ archive, session file or receipt is expected";
    if let Some(Contents { kind, digest, .. }) = kind::contents(file)? {
        return Ok((kind, digest));
    }
    match kind::of(file) {
        Some("an NPZ archive") => Ok(("npz", npz_digest(file)?)),
        Some(kind::SESSION) => Ok(("session", crate::cli::session::load(file)?.id().0)),
        Some("a receipt") => Ok(("receipt", receipt(file)?)),
        Some(kind) => Err(Failure::Input(format!("{}: this is {kind}; {expected}", file.display()))),
        None => {
            std::fs::metadata(file)
                .map_err(|error| output::for_io(&error, format!("{}: {error}", file.display())))?;
            Err(Failure::Input(format!("{}: {expected}", file.display())))
        }
    }
}

/// Returns SHA-256 of the session's id, followed by the name, members and sealed total of each sum in order.
/// Each text is preceded by its length.
fn receipt(file: &Path) -> Result<[u8; 32], Failure> {
    let wrong = |what: &str| Failure::Input(format!("{}: not a receipt: {what}", file.display()));
    let failed = |error| output::for_io(&error, format!("{}: {error}", file.display()));
    let mut text = String::new();
    std::fs::File::open(file).map_err(failed)?.take(LIMIT).read_to_string(&mut text).map_err(failed)?;
    let receipt: Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    let mut hash = Sha256::new_with_prefix(b"flyswarm/5 receipt\0");
    let mut put = |value: &Value, what: &str| {
        let text = value.as_str().ok_or_else(|| wrong(what))?;
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
        Ok::<(), Failure>(())
    };
    put(&receipt["session"], "session is not a text")?;
    for aggregate in receipt["aggregates"].as_array().ok_or_else(|| wrong("aggregates is not a list"))? {
        put(&aggregate["name"], "the name of an aggregate is not a text")?;
        let members = aggregate["members"].as_array().ok_or_else(|| wrong("members is not a list"))?;
        put(&Value::String(members.len().to_string()), "")?;
        members.iter().try_for_each(|member| put(member, "a member is not a text"))?;
        put(&aggregate["sealed_total"], "a sealed_total is not a text")?;
    }
    Ok(hash.finalize().into())
}
