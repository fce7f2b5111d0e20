//! Findings of the doctor: one line each, with a remedy.

use serde_json::json;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
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
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// Name of the check, one word for programs.
    pub(crate) check: &'static str,
    /// Name of the peer that the finding is about, or `None` for this machine.
    pub(crate) peer: Option<String>,
    pub(crate) text: String,
    /// Remedy; empty if there is none.
    pub(crate) advice: String,
}

impl Finding {
    pub(crate) fn new(level: Level, check: &'static str, text: impl Into<String>) -> Self {
        Self { level, check, peer: None, text: text.into(), advice: String::new() }
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Returns the line for people.
    pub(crate) fn line(&self) -> String {
        let subject = self.peer.as_deref().unwrap_or(self.check);
        let advice = if self.advice.is_empty() { String::new() } else { format!("; {}", self.advice) };
        // The text is escaped, because it may contain reasons that come from the network.
        let line = format!("{:<8} {subject}: {}{advice}", self.level.name(), self.text);
        line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
    }

    /// Returns the line for programs.
    pub(crate) fn json(&self) -> String {
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
