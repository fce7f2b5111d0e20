//! What the rest of the program asks a task for, and the registry of tasks.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::REGISTRY;
use super::new::{NewFile, TaskOption};
use crate::session::{DataSpec, Section, Sections, Session, SessionError, TaskSpec};
use crate::sim::task::{Ended, Worth};
#[cfg(all(feature = "cli", feature = "net"))]
use crate::tasks::demo::MakeScene;

/// How what is made of a peer's rows leaves its machine: a receipt has it, and a report explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shared {
    /// As part of sums alone.
    Sums,
    /// As secret shares, with which some members compute answers for the owners of the rows.
    Shares,
}

/// A kind of file that holds a result.
#[derive(Clone, Copy, Debug)]
pub struct ResultFile {
    /// Its name with an article, such as "a model".
    pub name: &'static str,
    /// Whether a file that begins with these bytes is one. At least its first 64 KiB are given.
    pub recognised: fn(&[u8]) -> bool,
    /// Reads a whole file for `flyswarm inspect`; `None` if the file is plain text that needs no reader.
    pub contents: Option<ReadContents>,
}

/// Reads a whole file, or says what is wrong with it.
pub type ReadContents = fn(&[u8]) -> Result<Contents, String>;

/// The contents of a result file.
#[derive(Clone, Debug)]
pub struct Contents {
    /// One word for the kind, such as "model".
    pub kind: &'static str,
    /// Equal for two files that say the same.
    pub digest: [u8; 32],
    /// For people, in lines.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// A task: all that is known of it without a session. The registry has one of each.
pub trait TaskKind: Debug + Sync {
    /// The value of `task` in a session file, such as `flynn`.
    fn name(&self) -> &'static str;

    /// What it computes, in a few words for a list.
    fn about(&self) -> &'static str;

    /// The sections of the session file that belong to this task, unless an earlier one has them.
    fn sections(&self) -> &'static [Section];

    /// Reads the parameters from their sections, for rows as in `data` and a number of peers. It leaves the
    /// rules to [`Spec::check`](crate::session::Spec::check), as far as it can.
    ///
    /// # Errors
    /// [`SessionError::Value`] and [`SessionError::Syntax`], if a section cannot be read.
    fn read(
        &self,
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<TaskSpec, SessionError>;

    /// Whether its rows belong to classes.
    fn has_classes(&self) -> bool {
        true
    }

    /// Whether rows without a label take part.
    fn partly(&self) -> bool {
        false
    }

    /// Its options of `flyswarm session new`: at most six.
    fn options(&self) -> &'static [TaskOption] {
        &[]
    }

    /// Proposes values for the fields of a new session file that the user has not set.
    ///
    /// # Errors
    /// If an option does not suit the rest.
    fn fill(&self, _new: &mut NewFile) -> Result<(), SessionError> {
        Ok(())
    }

    /// Gives a session the settings in a file, as `flyswarm tune --out` writes it.
    ///
    /// # Errors
    /// If the file has no settings, or the task takes none.
    fn take_settings(&self, session: &mut Session, _file: &Path) -> Result<(), SessionError> {
        let limit = format!("left out with the task {}", session.task);
        Err(SessionError::value("--settings", "given", limit))
    }

    /// How what is made of a peer's rows leaves its machine.
    fn shared(&self) -> Shared;

    /// Where a user finds how good the result is, if the receipt has no evaluation; `None` if nothing is
    /// predicted. Text in backticks is code.
    fn evaluation_note(&self, _session: &Session) -> Option<&'static str> {
        None
    }

    /// The kinds of file that the task's result is written to.
    fn results(&self) -> &'static [ResultFile] {
        &[]
    }

    /// Which rows a digest of a peer's rows covers, for its receipt.
    fn digest_covers(&self) -> &'static str {
        "every row that was given to the session"
    }

    /// The scene of `flyswarm demo`, if the task has one.
    #[cfg(all(feature = "cli", feature = "net"))]
    #[doc(hidden)]
    fn demo(&self) -> Option<MakeScene> {
        None
    }

    /// What the results of a simulated run are worth, on rows that no peer has, and what is wrong with them.
    #[doc(hidden)]
    fn simulated(&self, _run: &Ended<'_>, _failures: &mut Vec<String>) -> Worth {
        Worth::default()
    }
}

/// Tasks that the program has added.
static ADDED: Mutex<Vec<&'static dyn TaskKind>> = Mutex::new(Vec::new());

/// Adds a task to those of this crate: session files may name it from then on. A name that is taken stays as
/// it is.
pub fn register(kind: &'static dyn TaskKind) {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if !REGISTRY.iter().chain(added.iter()).any(|known| known.name() == kind.name()) {
        added.push(kind);
    }
}

/// All tasks, in the order of the registry.
pub fn kinds() -> impl Iterator<Item = &'static dyn TaskKind> {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    REGISTRY.iter().copied().chain(added)
}
