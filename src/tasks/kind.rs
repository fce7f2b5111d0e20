//! Interface of a task to the rest of the program, and the registry of tasks.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use super::compare::{Ended, Worth};
use super::new::{NewFile, TaskOption};
use super::{Build, REGISTRY, Rows};
use crate::session::{DataSpec, Peer, Section, Sections, Session, SessionError, TaskSpec};

/// Form in which data computed from a peer's rows leaves its machine. The receipt names the form, and the
/// report explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Shared {
    /// Only parts of sums.
    #[serde(rename = "sums")]
    Sums,
    /// Secret shares. Three members compute with them, and return answers to the owners of the rows.
    #[serde(rename = "shares of rows")]
    Shares,
    /// Secret shares. Three members compute with them which counts and sums may be opened.
    #[serde(rename = "shares of counts")]
    Cells,
}

/// A kind of file that holds a result.
#[derive(Clone, Copy, Debug)]
pub struct ResultFile {
    /// Name with an article, such as "a model".
    pub name: &'static str,
    /// Returns whether a file that begins with these bytes is of this kind. The function gets at least the
    /// first 64 KiB of the file.
    pub recognised: fn(&[u8]) -> bool,
    /// Reads a whole file for `flyswarm inspect`. `None` if the file is plain text that needs no reader.
    pub contents: Option<ReadContents>,
}

/// Reads a whole file. Returns an error if the file is invalid.
pub type ReadContents = fn(&[u8]) -> Result<Contents, String>;

/// Function that returns the tables in a result file as CSV.
pub type ReadTables = fn(&[u8]) -> Result<String, String>;

/// The contents of a result file.
#[derive(Clone, Debug)]
pub struct Contents {
    /// One word for the kind, such as "model".
    pub kind: &'static str,
    /// Digest of the contents. Two files with the same contents have the same digest.
    pub digest: [u8; 32],
    /// Text for people, in lines.
    pub text: String,
    /// JSON for programs.
    pub json: Value,
}

/// Reads a task's parameters from their sections of the session file. The other arguments describe the rows
/// and give the number of peers.
pub type ReadSpec = fn(&mut Sections<'_>, &DataSpec, usize) -> Result<TaskSpec, SessionError>;

/// Wishes of a peer's own user for the task, in addition to the session file.
#[derive(Clone, Copy, Debug)]
pub struct OwnWishes<'a> {
    /// Session file. The files that it names are in the same folder as itself.
    pub file: &'a Path,
    /// Command that trains instead of the built-in learner.
    pub trainer: Option<&'a str>,
    /// Percent of the labels that the peer keeps back from the session.
    pub hold_out: Option<u8>,
    /// Files in which a task that trains in rounds keeps the weights of the last round.
    pub rounds: Option<&'a std::sync::Arc<super::fedavg::rounds::RoundFile>>,
}

impl OwnWishes<'_> {
    /// Refuses wishes that the task does not support.
    pub(crate) fn refuse(&self, session: &Session) -> Result<Option<Build>, String> {
        let task = &session.task;
        if self.trainer.is_some() {
            return Err(format!("--trainer: not with the task {task}"));
        }
        match self.hold_out {
            Some(_) => Err(format!(
                "hold_out in the map file: with the task {task} the session file decides what is held out"
            )),
            None => Ok(None),
        }
    }
}

/// Makes a peer's task with the wishes of its user. Returns `None` if the wishes change nothing. The function
/// may change the peer's rows. An error is one line.
pub type BuildOwn = fn(&Session, OwnWishes<'_>, &mut Rows) -> Result<Option<Build>, String>;

/// Expected quality of a private session, before any budget is spent.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Line for people.
    pub text: String,
    /// JSON object for programs.
    pub json: Value,
    /// True if the result is worth the budget.
    pub useful: bool,
}

/// Everything about a task that does not depend on a session. The registry has one entry for each task.
/// [`TaskKind::new`] sets the defaults.
#[derive(Clone, Copy, Debug)]
pub struct TaskKind {
    /// Value of `task` in a session file, such as `flynn`.
    pub name: &'static str,
    /// Purpose of the task, in a few words for a list.
    pub about: &'static str,
    /// Sections of the session file that belong to this task, unless an earlier task has them.
    pub sections: &'static [Section],
    /// Reads the parameters. If possible, it leaves the checks to
    /// [`Spec::check`](crate::session::Spec::check). Its errors are [`SessionError::Value`] and, if a section
    /// cannot be read, [`SessionError::Syntax`].
    pub read: ReadSpec,
    /// Form in which data computed from a peer's rows leaves its machine.
    pub shared: Shared,
    /// True if rows belong to classes. Default: true.
    pub has_classes: bool,
    /// True if rows without a label take part. Default: false.
    pub partly: bool,
    /// Options of `flyswarm session new`, at most six. Default: none.
    pub options: &'static [TaskOption],
    /// Proposes values for the fields of a new session file that the user has not set. Returns an error
    /// if an option does not fit the others. Default: proposes none.
    pub fill: fn(&mut NewFile) -> Result<(), SessionError>,
    /// Copies the settings in a file, as written by `flyswarm tune --out`, into a session. Returns an error
    /// if the file has no settings. Default: an error, because the task takes no such file.
    pub take_settings: fn(&mut Session, &Path) -> Result<(), SessionError>,
    /// Makes a peer's task with the wishes of its user. Default: refuses all wishes.
    pub build_own: BuildOwn,
    /// Returns why this peer (or, if none is given, some peer) cannot take part on a machine with this number
    /// of free bytes. Default: every peer can.
    pub memory_refusal: fn(&Session, Option<Peer>, Option<u64>) -> Option<String>,
    /// Estimates the quality of a private session if each peer has this number of rows. Default: no
    /// estimate.
    pub forecast: fn(&Session, usize) -> Result<Option<Forecast>, String>,
    /// Returns where a user finds the quality of the result if the receipt has no evaluation. Text in
    /// backticks is code. Default: `None`, because nothing is predicted.
    pub evaluation_note: fn(&Session) -> Option<&'static str>,
    /// Kinds of file that the task's result is written to. Default: none.
    pub results: &'static [ResultFile],
    /// Returns the tables in a result file as CSV, for `flyswarm inspect --csv`. Default: `None`.
    pub csv: Option<ReadTables>,
    /// Description of the rows that a digest of a peer's rows covers, shown in its receipt. Default:
    /// every row that was given to the session.
    pub digest_covers: &'static str,
    /// Scenario of `flyswarm demo`, if the task has one. Its variants are "plain" and those options of the
    /// demo that the task supports, such as "epsilon".
    #[doc(hidden)]
    pub demo: Option<&'static str>,
    /// Measures the results of a simulated session on rows that no peer has, and adds what is wrong to the
    /// list. Simulations and `flyswarm demo` call it.
    #[doc(hidden)]
    pub compare: fn(&Ended<'_>, &mut Vec<String>) -> Worth,
}

impl TaskKind {
    /// Makes the entry of a task. Everything that is not an argument has its default.
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
            csv: None,
            digest_covers: "every row that was given to the session",
            demo: None,
            compare: |_, _| Worth::default(),
        }
    }
}

/// Tasks that the program has added.
static ADDED: Mutex<Vec<&'static TaskKind>> = Mutex::new(Vec::new());

/// Adds a task to the registry, so that session files may name it. If the registry has a task of this name,
/// nothing changes.
pub fn register(kind: &'static TaskKind) {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if !REGISTRY.iter().chain(added.iter()).any(|known| known.name == kind.name) {
        added.push(kind);
    }
}

/// Returns all tasks, in the order of the registry.
pub fn kinds() -> impl Iterator<Item = &'static TaskKind> {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    REGISTRY.iter().copied().chain(added)
}
