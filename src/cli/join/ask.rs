//! Shows the forecast of a private session, and asks whether to continue, before the session is entered in
//! the ledger.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::cli::Failure;
use crate::cli::console::Console;
use crate::cli::progress::Progress;
use crate::cli::session::forecast::{forecast, json};
use crate::session::Session;

/// Shows the forecast, and on a terminal asks the user. Without a terminal, there is no question: the command
/// continues if the model is expected to be useful or `yes` is true. Otherwise it ends, and no budget is
/// spent.
pub(super) fn ask(session: &Session, rows: usize, yes: bool, progress: &Progress) -> Result<(), Failure> {
    let Some(found) = forecast(session, rows)? else { return Ok(()) };
    let mut event = json(&found);
    event["event"] = "forecast".into();
    let stopped = || stopped(&found.text);
    progress.tell(&event, &found.text);
    if yes {
        return Ok(());
    }
    if matches!(progress, Progress::Json) || !io::stdin().is_terminal() {
        return if found.useful { Ok(()) } else { Err(stopped()) };
    }
    let _ = Console.write_all(b"Join, and enter the session in the ledger? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::Input("not joined; nothing was spent".into())),
    }
}

/// Decides in the same way as [`ask()`] if there is no user to ask.
pub(in crate::cli) fn worth(session: &Session, rows: usize) -> Result<(), Failure> {
    match forecast(session, rows)? {
        Some(found) if !found.useful => Err(stopped(&found.text)),
        _ => Ok(()),
    }
}

fn stopped(forecast: &str) -> Failure {
    Failure::Input(format!("{forecast}; nothing was spent (--yes joins anyway)"))
}
