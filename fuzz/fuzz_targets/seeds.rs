//! Initial inputs, made by code at the start of each target, so that they stay up to date.

use std::fs;
use std::path::Path;

/// Writes inputs into the corpus of `target`, if `scripts/fuzz` has made its folder.
pub fn write(target: &str, inputs: impl IntoIterator<Item = Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    if folder.is_dir() {
        for (i, input) in inputs.into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{i:02}")), input).expect("the corpus can be written");
        }
    }
}
