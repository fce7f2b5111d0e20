//! `flyswarm compare`: what changed between two results of `simulate`.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::{Failure, kind, print};
use crate::cli::simulate::columns;
use crate::sim::compare::compare;
use crate::sim::outcome::Results;

/// The largest result that is read, bytes.
const LIMIT: u64 = 256 << 20;

/// Print what changed between two results of `simulate`
///
/// Runs are matched by name. Prints one line for each thing that differs, or that nothing does.
#[derive(Debug, Args)]
pub(super) struct Compare {
    /// The result.json of before
    before: PathBuf,
    /// The result.json of after
    after: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let (before, after) = (load(&self.before)?, load(&self.after)?);
        let changes = compare(&before, &after);
        if self.json {
            let traces = json!({"before": before.trace_hash, "after": after.trace_hash});
            return print(out, &format!("{}\n", json!({"traces": traces, "changes": changes})));
        }
        if changes.is_empty() {
            return print(out, &format!("nothing: both have the trace {}\n", after.trace_hash));
        }
        let head = ["run", "what", "before", "after", "change"].map(String::from).to_vec();
        let rows =
            changes.into_iter().map(|each| vec![each.run, each.what, each.before, each.after, each.by]);
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        print(out, &columns(&rows))
    }
}

fn load(path: &Path) -> Result<Results, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    let mut text = String::new();
    file.take(LIMIT + 1).read_to_string(&mut text).map_err(|error| {
        let kind = kind::advice(path, "a result of simulate is expected");
        kind.map_or_else(|| wrong(&error), Failure::Input)
    })?;
    if text.len() as u64 > LIMIT {
        return Err(wrong(&format!("has more than {LIMIT} bytes, the limit of a result")));
    }
    serde_json::from_str(&text).map_err(|error| {
        let kind = kind::advice(path, "a result of simulate is expected");
        kind.map_or_else(|| wrong(&format!("is no result of simulate: {error}")), Failure::Input)
    })
}
