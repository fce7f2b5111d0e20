//! Inputs to begin with, made from code at the start of each target, so that they never go stale.

use std::fs;
use std::path::Path;

/// Puts inputs into the corpus of `target`, where cargo-fuzz has made one.
pub fn write(target: &str, inputs: impl IntoIterator<Item = Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    if folder.is_dir() {
        for (i, input) in inputs.into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{i:02}")), input).expect("the corpus can be written");
        }
    }
}
