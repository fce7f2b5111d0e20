//! What the rest of the program asks a task for, and the registry of tasks.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::compare::{Ended, Worth};
use super::new::{NewFile, TaskOption};
use super::{Build, REGISTRY, Rows};
use crate::session::{DataSpec, Peer, Section, Sections, Session, SessionError, TaskSpec};

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

/// Reads a task's parameters from their sections, for rows as in `data` and a number of peers.
pub type ReadSpec = fn(&mut Sections<'_>, &DataSpec, usize) -> Result<TaskSpec, SessionError>;

/// What a peer asks of its own task, beside the session file.
#[derive(Clone, Copy, Debug)]
pub struct OwnWishes<'a> {
    /// The session file; what it names lies beside it.
    pub file: &'a Path,
    /// The command that trains in place of the built-in learner.
    pub trainer: Option<&'a str>,
    /// Percent of the labels that the peer keeps back from the session.
    pub hold_out: Option<u8>,
}

impl OwnWishes<'_> {
    /// Refuses wishes that a task does not have.
    pub(crate) fn refuse(&self, session: &Session) -> Result<Option<Build>, String> {
        let task = &session.task;
        if self.trainer.is_some() {
            return Err(format!("--trainer: not with the task {task}"));
        }
        match self.hold_out {
            Some(_) => Err(format!(
                "hold_out in the map file: with the task {task} the session file says what is held out"
            )),
            None => Ok(None),
        }
    }
}

/// How a peer's task is made as it wishes, if not in the usual way; its rows may change. An error is one
/// line.
pub type BuildOwn = fn(&Session, OwnWishes<'_>, &mut Rows) -> Result<Option<Build>, String>;

/// What a private session may be worth, before it spends anything.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// For people, one line.
    pub text: String,
    /// For programs, an object.
    pub json: Value,
    /// Whether the result is worth the budget.
    pub useful: bool,
}

/// A task: all that is known of it without a session. The registry has one of each. [`TaskKind::new`] has the
/// defaults.
#[derive(Clone, Copy, Debug)]
pub struct TaskKind {
    /// The value of `task` in a session file, such as `flynn`.
    pub name: &'static str,
    /// What it computes, in a few words for a list.
    pub about: &'static str,
    /// The sections of the session file that belong to this task, unless an earlier one has them.
    pub sections: &'static [Section],
    /// Reads the parameters. It leaves the rules to [`Spec::check`](crate::session::Spec::check), as far
    /// as it can. Its errors are [`SessionError::Value`] and [`SessionError::Syntax`], if a section
    /// cannot be read.
    pub read: ReadSpec,
    /// How what is made of a peer's rows leaves its machine.
    pub shared: Shared,
    /// Whether its rows belong to classes. Default: they do.
    pub has_classes: bool,
    /// Whether rows without a label take part. Default: they do not.
    pub partly: bool,
    /// Its options of `flyswarm session new`: at most six. Default: none.
    pub options: &'static [TaskOption],
    /// Proposes values for the fields of a new session file that the user has not set; an error if an option
    /// does not suit the rest. Default: none.
    pub fill: fn(&mut NewFile) -> Result<(), SessionError>,
    /// Gives a session the settings in a file, as `flyswarm tune --out` writes it; an error if the file
    /// has none. Default: the task takes none.
    pub take_settings: fn(&mut Session, &Path) -> Result<(), SessionError>,
    /// How a peer's task is made with wishes of its own. Default: it takes none.
    pub build_own: BuildOwn,
    /// Why a peer, or any peer, cannot take part on a machine with this many free bytes. Default: it can.
    pub memory_refusal: fn(&Session, Option<Peer>, Option<u64>) -> Option<String>,
    /// What a private session may be worth if each peer has this number of rows. Default: nobody knows.
    pub forecast: fn(&Session, usize) -> Result<Option<Forecast>, String>,
    /// Where a user finds how good the result is, if the receipt has no evaluation. Text in backticks is
    /// code. Default: `None`, nothing is predicted.
    pub evaluation_note: fn(&Session) -> Option<&'static str>,
    /// The kinds of file that the task's result is written to. Default: none.
    pub results: &'static [ResultFile],
    /// Which rows a digest of a peer's rows covers, for its receipt. Default: every row that was given to the
    /// session.
    pub digest_covers: &'static str,
    /// The scenario of `flyswarm demo`, if the task has one. Its variants are "plain" and the options of the
    /// demo that the task takes, such as "epsilon".
    #[doc(hidden)]
    pub demo: Option<&'static str>,
    /// What the results of a run are worth, on rows that no peer has, and what is wrong with them: of a
    /// simulation and of `flyswarm demo`.
    #[doc(hidden)]
    pub compare: fn(&Ended<'_>, &mut Vec<String>) -> Worth,
}

impl TaskKind {
    /// A task with the defaults for all that is not given.
    #[must_use]
    pub const fn new(
        name: &'static str,
        about: &'static str,
        sections: &'static [Section],
        read: ReadSpec,
        shared: Shared,
    ) -> Self {
        Self {
            name,
            about,
            sections,
            read,
            shared,
            has_classes: true,
            partly: false,
            options: &[],
            fill: |_| Ok(()),
            take_settings: |session, _| {
                let limit = format!("left out with the task {}", session.task);
                Err(SessionError::value("--settings", "given", limit))
            },
            build_own: |session, wishes, _| wishes.refuse(session),
            memory_refusal: |_, _, _| None,
            forecast: |_, _| Ok(None),
            evaluation_note: |_| None,
            results: &[],
            digest_covers: "every row that was given to the session",
            demo: None,
            compare: |_, _| Worth::default(),
        }
    }
}

/// Tasks that the program has added.
static ADDED: Mutex<Vec<&'static TaskKind>> = Mutex::new(Vec::new());

/// Adds a task to those of this crate: session files may name it from then on. A name that is taken stays as
/// it is.
pub fn register(kind: &'static TaskKind) {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if !REGISTRY.iter().chain(added.iter()).any(|known| known.name == kind.name) {
        added.push(kind);
    }
}

/// All tasks, in the order of the registry.
pub fn kinds() -> impl Iterator<Item = &'static TaskKind> {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    REGISTRY.iter().copied().chain(added)
}
