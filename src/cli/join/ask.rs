//! Before a private session is entered in the ledger: what it may be worth, and whether to go on.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::json;

use crate::cli::Failure;
use crate::cli::console::Console;
use crate::cli::progress::Progress;
use crate::cli::session::forecast::{estimate, line, noise_of_rounds};
use crate::session::Session;

/// Tells the forecast and asks on a terminal. A script goes on without being asked where the model is to be
/// of use; else, unless `yes`, it ends here, and nothing is spent.
pub(super) fn ask(session: &Session, rows: usize, yes: bool, progress: &Progress) -> Result<(), Failure> {
    let (text, event, useful) = if let Some(found) = noise_of_rounds(session) {
        let mut event = found.json();
        event["event"] = json!("forecast");
        (found.line(), event, found.is_useful())
    } else {
        let Some(found) = estimate(session, rows)? else { return Ok(()) };
        let event = json!({
            "event": "forecast", "balanced_accuracy": found.private, "without_noise": found.plain,
            "by_guessing": found.chance, "useful": found.is_useful(),
        });
        (line(session, rows, &found), event, found.is_useful())
    };
    let stopped = || stopped(&text);
    progress.tell(&event, &text);
    if yes {
        return Ok(());
    }
    if matches!(progress, Progress::Json) || !io::stdin().is_terminal() {
        return if useful { Ok(()) } else { Err(stopped()) };
    }
    let _ = Console.write_all(b"Join, and enter the session in the ledger? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::Input("not joined; nothing was spent".into())),
    }
}

/// As [`ask()`] where nobody can be asked.
pub(in crate::cli) fn worth(session: &Session, rows: usize) -> Result<(), Failure> {
    if let Some(found) = noise_of_rounds(session).filter(|found| !found.is_useful()) {
        return Err(stopped(&found.line()));
    }
    match estimate(session, rows)? {
        Some(found) if !found.is_useful() => Err(stopped(&line(session, rows, &found))),
        _ => Ok(()),
    }
}

fn stopped(forecast: &str) -> Failure {
    Failure::Input(format!("{forecast}; nothing was spent (--yes joins all the same)"))
}
