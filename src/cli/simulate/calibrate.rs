//! `simulate --calibrate`: prints this machine's rates, or writes them into a scenario.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::{Failure, output, print};
use crate::sim::calibrate::{lines, measure, replaced};
use crate::sim::scenario::{File, Rates};

fn measured() -> Result<Rates, Failure> {
    measure().map_err(|error| Failure::Environment(format!("a thread: {error}")))
}

/// Measures, and prints the table or writes it into the scenario.
pub(super) fn run(file: Option<&Path>, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = file else {
        let rates = measured()?;
        let text = if as_json {
            json!({"rates": rates}).to_string()
        } else {
            "[rates]\n".to_owned() + lines(&rates).trim_end()
        };
        return print(out, &(text + "\n"));
    };
    let wrong = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    // The file is written only if it is a scenario before and after the change.
    let check = |text: &str| {
        let name = path.display().to_string();
        File::parse(text, name, PathBuf::new(), false).map(drop).map_err(|error| wrong(&error))
    };
    check(&text)?;
    let rates = measured()?;
    let changed = replaced(&text, &lines(&rates));
    check(&changed)?;
    output::write(path, changed.as_bytes(), true)?;
    let text = match as_json {
        true => json!({"file": path, "rates": rates}).to_string(),
        false => format!("{}: [rates] is as measured on this machine", path.display()),
    };
    print(out, &(text + "\n"))
}
