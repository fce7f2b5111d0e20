//! `flyswarm session forecast`: estimates the quality of a private session, before budget is spent.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::load;
use crate::cli::tune::at_least;
use crate::cli::{Failure, print};
use crate::session::Session;
use crate::tasks::Forecast;

/// Estimate the quality of a private session: with flynn on synthetic rows, with fedavg by the size of the
/// noise. The command reads no peer's rows and spends no budget
#[derive(Debug, Args)]
pub(in crate::cli) struct ForecastArguments {
    /// The session file
    file: PathBuf,
    /// Number of rows that each peer has
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    rows: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Error if no forecast can be made for a session.
pub(in crate::cli) const NONE: &str =
    "a forecast is for a session of the task flynn or fedavg with privacy.epsilon; try `tune` for others";

impl ForecastArguments {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let session = load(&self.file)?;
        let Some(found) = forecast(&session, self.rows)? else {
            return Err(Failure::Input(format!("{}: {NONE}", self.file.display())));
        };
        let text = if self.json { format!("{:#}", json(&found)) } else { found.text };
        print(out, &(text + "\n"))
    }
}

/// Returns the forecast of the session's task, or `None` if it has none.
pub(in crate::cli) fn forecast(session: &Session, rows_each: usize) -> Result<Option<Forecast>, Failure> {
    (session.task.kind().forecast)(session, rows_each).map_err(Failure::Input)
}

/// Returns the fields of a forecast.
pub(in crate::cli) fn json(found: &Forecast) -> Value {
    let mut json = found.json.clone();
    json["useful"] = found.useful.into();
    json
}
