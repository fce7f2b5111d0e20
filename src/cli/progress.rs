//! Progress of `join`: a progress bar on a terminal, plain lines otherwise, JSON lines for programs.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::console;
use crate::peer::{Event, Status, Timed, unix};
use crate::protocol::view::Stage;

/// Stages of a slot, for the bar.
const STAGES: [Stage; 5] = [Stage::Compute, Stage::Sum, Stage::Accept, Stage::Release, Stage::Open];

/// The form in which progress is shown.
#[derive(Clone, Debug)]
pub(super) enum Progress {
    Json,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    /// Chooses JSON if requested, a bar on a terminal, and lines otherwise.
    pub(super) fn new(json: bool) -> Self {
        if json {
            return Self::Json;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {msg} {prefix}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        bar.set_message("waiting for peers");
        Self::Bar(bar)
    }

    /// Chooses JSON if requested, and lines otherwise.
    pub(super) fn lines(json: bool) -> Self {
        if json { Self::Json } else { Self::Lines }
    }

    /// Returns whether progress is shown as a bar on a terminal, which also shows waiting times.
    pub(super) fn is_bar(&self) -> bool {
        matches!(self, Self::Bar(_))
    }

    /// Shows the present status of the node.
    #[cfg(feature = "net")]
    pub(super) fn status(&self, status: &Status) {
        if let Self::Bar(bar) = self {
            bar.set_prefix(status.waits.as_ref().map_or_else(String::new, |waits| format!("- {waits}")));
        }
    }

    /// Prints an event that happened now: as JSON, or as text for people.
    pub(super) fn tell(&self, value: &Value, text: &str) {
        let mut value = value.clone();
        value["time"] = json!(unix());
        self.line(&value, text);
    }

    /// Prints an event of a peer. If it concerns a file, adds the path; `name` is the name of the field in
    /// JSON.
    pub(super) fn event(&self, timed: &Timed, name: &str, file: Option<&Path>) {
        match (self, &timed.event) {
            (Self::Bar(bar), Event::Stage { slot, number, slots, stage }) => {
                let done = STAGES.iter().position(|other| other == stage).unwrap_or(0);
                bar.set_length(u64::from(*slots) * STAGES.len() as u64);
                bar.set_position(u64::from(*number) * STAGES.len() as u64 + done as u64);
                bar.set_message(match stage {
                    Stage::Keys => "exchanging keys".to_owned(),
                    Stage::Compute => format!("{slot}: computing"),
                    Stage::Sum => format!("{slot}: summing"),
                    Stage::Accept => format!("{slot}: the committee decides"),
                    Stage::Release | Stage::Open => format!("{slot}: opening"),
                });
            }
            (Self::Lines, Event::Stage { .. }) => {}
            (Self::Json, _) => {
                let mut value = json!(timed);
                if let Some(file) = file {
                    value[name] = json!(file);
                }
                self.line(&value, "");
            }
            (Self::Lines | Self::Bar(_), event) => {
                let wrote = file.map(|file| format!("wrote {}", file.display()));
                let text = [wrote, Some(event.to_string()).filter(|text| !text.is_empty())];
                let text: Vec<_> = text.into_iter().flatten().collect();
                self.line(&Value::Null, &text.join(": "));
            }
        }
    }

    fn line(&self, value: &Value, text: &str) {
        match self {
            Self::Json => {
                let mut out = io::stdout().lock();
                // An error is ignored: if the reader of the lines has left, the session continues.
                let _ = writeln!(out, "{value}").and_then(|()| out.flush());
            }
            Self::Lines => console::line(text),
            Self::Bar(bar) => bar.println(text),
        }
    }

    /// Cleans the terminal.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
