//! Findings of the doctor: one line each, with a remedy.

use std::io::Write;

use serde_json::json;

use super::super::{Failure, print};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// No problem.
    Ok,
    /// Useful information.
    Note,
    /// A session could start, but there is a problem.
    Warning,
    /// No session can start here until this is solved.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A finding, which is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// Name of the check, one word for programs.
    pub(super) check: &'static str,
    /// Name of the peer concerned; `None` for this machine.
    pub(super) peer: Option<String>,
    pub(super) text: String,
    /// Remedy; empty if there is none.
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn new(level: Level, check: &'static str, text: impl Into<String>) -> Self {
        Self { level, check, peer: None, text: text.into(), advice: String::new() }
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Returns the line for people.
    pub(super) fn line(&self) -> String {
        let subject = self.peer.as_deref().unwrap_or(self.check);
        let advice = if self.advice.is_empty() { String::new() } else { format!("; {}", self.advice) };
        // Reasons come from the network too.
        let line = format!("{:<8} {subject}: {}{advice}", self.level.name(), self.text);
        line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
    }

    fn json(&self) -> String {
        json!({
            "level": self.level.name(),
            "check": self.check,
            "peer": self.peer,
            "text": self.text,
            "advice": self.advice,
        })
        .to_string()
    }
}

/// Prints findings as they come, and records whether one of them prevents a session.
pub(super) struct Printer<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) json: bool,
    pub(super) failed: bool,
}

impl Printer<'_> {
    pub(super) fn say(&mut self, finding: &Finding) -> Result<(), Failure> {
        self.failed |= finding.level == Level::Error;
        let line = if self.json { finding.json() } else { finding.line() };
        print(self.out, &(line + "\n"))
    }

    pub(super) fn say_all(&mut self, findings: &[Finding]) -> Result<(), Failure> {
        findings.iter().try_for_each(|finding| self.say(finding))
    }
}
