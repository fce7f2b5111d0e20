//! The interface of all tasks to the session file. This module names no task; the registry of tasks is in
//! [`crate::tasks`].

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::encoding::Field;
use super::file::syntax;
use super::rules::{Limit, ROSTER};
use super::{DataSpec, Session, SessionError};
use crate::tasks::{BuiltIn, Protections, Select, TaskKind, kinds};

/// Task of a session with its parameters: the [`Spec`] of one of the registered tasks.
pub struct TaskSpec(Box<dyn AnySpec>);

impl<S: Spec + Clone + PartialEq> From<S> for TaskSpec {
    fn from(spec: S) -> Self {
        Self(Box::new(spec))
    }
}

impl TaskSpec {
    /// Returns the parameters, if the task has parameters of this type.
    #[must_use]
    pub fn get<S: Spec>(&self) -> Option<&S> {
        self.0.as_any().downcast_ref()
    }

    /// Returns the parameters so that they can be changed, if the task has parameters of this type.
    pub fn get_mut<S: Spec>(&mut self) -> Option<&mut S> {
        self.0.as_any_mut().downcast_mut()
    }

    /// Returns the parameters of this type, if the task itself or one of its parts has them.
    #[must_use]
    pub fn part<T: 'static>(&self) -> Option<&T> {
        self.0.parts().into_iter().find_map(<dyn Any>::downcast_ref)
    }

    /// Returns whether the parameters of the task are of this type.
    #[must_use]
    pub fn is<S: Spec>(&self) -> bool {
        self.get::<S>().is_some()
    }

    /// Returns the value of `task` in a session file, such as `flynn`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.kind().name
    }
}

impl std::ops::Deref for TaskSpec {
    type Target = dyn AnySpec;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::ops::DerefMut for TaskSpec {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Clone for TaskSpec {
    fn clone(&self) -> Self {
        self.0.boxed()
    }
}

impl PartialEq for TaskSpec {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(other)
    }
}

impl fmt::Debug for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A [`Spec`] of any task. Every `Spec` that can be copied and compared implements this trait.
pub trait AnySpec: Spec {
    /// Returns itself as `Any`.
    fn as_any(&self) -> &dyn Any;
    /// Returns itself as mutable `Any`.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Returns a copy.
    fn boxed(&self) -> TaskSpec;
    /// Returns whether `other` has the same type and is equal.
    fn same(&self, other: &TaskSpec) -> bool;
}

impl<S: Spec + Clone + PartialEq> AnySpec for S {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn boxed(&self) -> TaskSpec {
        self.clone().into()
    }

    fn same(&self, other: &TaskSpec) -> bool {
        other.get::<S>() == Some(self)
    }
}

/// A table of the session file that belongs to certain tasks.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name at the top level of the file.
    pub name: &'static str,
    /// Tasks that read the section, as an error text names them.
    pub tasks: &'static str,
}

/// Parameters of a task in a session file.
pub trait Spec: fmt::Debug + Send + Sync + 'static {
    /// Returns the task's entry in the registry.
    fn kind(&self) -> &'static TaskKind;

    /// Returns the built-in task, or `None` if the task is that of a program outside this crate.
    fn built_in(&self, session: &Session) -> Option<BuiltIn>;

    /// Returns the comment above `task` in a session file, which explains the computation.
    fn about(&self) -> &'static str;

    /// Returns the limit of the number of peers.
    fn roster(&self) -> Limit {
        ROSTER
    }

    /// Returns the minimum number of members with which the task can finish. If `min_peers` is refused, the
    /// text explains this number and the majority.
    fn members(&self) -> (usize, &'static str) {
        (3, " (a majority of the roster, and the 3 members that a sum needs)")
    }

    /// Replaces -0.0 by 0.0, because the two are equal but have different encodings.
    fn normalise(&mut self) {}

    /// Checks the parameters, and that the rest of the session suits the task. `session.data` is already
    /// checked.
    fn check(&self, session: &Session) -> Result<(), SessionError>;

    /// Returns names and canonical values of the fields, in the order of the encoding.
    fn entries(&self) -> Vec<Field>;

    /// Writes the sections of the session file.
    fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result;

    /// Returns the sections as JSON by name, and the sizes that follow from them.
    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)>;

    /// Returns a description for people. It has pairs of a heading and a line; an empty heading continues the
    /// one before.
    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)>;

    /// If parameters are numbers of peers and greater than `peers`, reduces them to `peers`.
    fn resize(&mut self, _peers: u16) {}

    /// Returns a warning for the author of such a session file. The author sees it before other peers join.
    fn caution(&self) -> Option<&'static str> {
        None
    }

    /// Checks a session of a series in which `changed` peers join or leave compared with the session before.
    /// Returns a warning that replaces the general warning.
    ///
    /// # Errors
    /// If the results of both sessions would together reveal the sum of too few peers. The text explains
    /// this.
    fn check_next(&self, _changed: usize, _contributors: usize) -> Result<Option<&'static str>, String> {
        Ok(None)
    }

    /// Returns which values a peer releases with noise, if the session has a `privacy.epsilon`.
    fn release(&self, _data: &DataSpec) -> Release {
        Release::Nothing
    }

    /// Returns the protections of the task: all of them unless the task opts out by name.
    fn protections(&self) -> Protections {
        Protections::ALL
    }

    /// Returns the name of the task for people. For a task outside this crate, its program chooses the name.
    fn label(&self) -> String {
        self.kind().name.to_owned()
    }

    /// Returns whether the task reads the description of the columns in addition to the numbers of a row.
    fn reads_table(&self) -> bool {
        false
    }

    /// Returns whether the session first draws the peers that train.
    fn selects(&self) -> bool {
        false
    }

    /// Returns the parameters of other tasks that these contain, such as those of a model. [`TaskSpec::part`]
    /// finds them.
    fn parts(&self) -> Vec<&dyn Any> {
        Vec::new()
    }
}

/// Values that a peer of a private session releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Nothing: the task opens exact sums, and its session cannot be private.
    Nothing,
    /// The `privacy.top` largest of this number of counts.
    Top(usize),
    /// Every counter.
    Every,
    /// Every weight in every round, in shares.
    Rounds,
}

/// Value of `task` in a session file.
#[derive(Debug)]
pub(crate) struct Name(&'static TaskKind);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        kinds().find(|kind| kind.name == name).map(Self).ok_or_else(|| {
            let names: Vec<String> = kinds().map(|kind| format!("`{}`", kind.name)).collect();
            D::Error::custom(format!("unknown variant `{name}`, expected one of {}", names.join(", ")))
        })
    }
}

/// Returns the sections of all tasks.
fn sections() -> impl Iterator<Item = &'static Section> {
    kinds().flat_map(|kind| kind.sections)
}

/// The sections of a session file that belong to certain tasks and have not been read yet.
#[derive(Debug)]
pub struct Sections<'a> {
    /// Text of the whole file, which is used to find the line of an error.
    text: &'a str,
    /// Top-level field `select`.
    pub(crate) select: Option<Select>,
    /// Names of the sections that may stay unread, because they only have defaults.
    usual: Vec<String>,
    left: Vec<(&'static str, Spanned<DeValue<'a>>)>,
}

impl<'a> Sections<'a> {
    /// Removes the sections of tasks from a parsed file. `text` is the text of this file.
    pub(crate) fn split(text: &'a str, file: &mut DeTable<'a>) -> Self {
        let take = |section: &'static Section| {
            let key = Spanned::new(0..0, Cow::Borrowed(section.name));
            file.remove(&key).map(|value| (section.name, value))
        };
        Self { text, select: None, usual: Vec::new(), left: sections().filter_map(take).collect() }
    }

    /// If an error lists the fields of a file, adds the sections of tasks after `data`.
    pub(crate) fn listed(error: SessionError) -> SessionError {
        let SessionError::Syntax { line, message } = error else { return error };
        let names: String = sections().map(|section| format!("`{}`, ", section.name)).collect();
        let message = message.replace("`columns`, `privacy`", &format!("`columns`, {names}`privacy`"));
        SessionError::Syntax { line, message }
    }

    /// Reads one section. Returns `None` if the file does not have it.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, SessionError> {
        self.take_seed(name, PhantomData)
    }

    /// Does the same as [`Sections::take`], with a reader that has a state.
    pub(crate) fn take_seed<T: for<'de> DeserializeSeed<'de, Value = V>, V>(
        &mut self,
        name: &str,
        seed: T,
    ) -> Result<Option<V>, SessionError> {
        let Some(place) = self.left.iter().position(|(section, _)| *section == name) else { return Ok(None) };
        let (_, value) = self.left.remove(place);
        let read = seed.deserialize(ValueDeserializer::from(value));
        read.map(Some).map_err(|error| syntax(self.text, &error))
    }
}

impl TaskSpec {
    /// Reads the task of this name from its sections. `data` describes the rows. A section of another task is
    /// refused. [`Session::check`] checks the remaining rules.
    pub(crate) fn read(
        Name(kind): Name,
        mut sections: Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<Self, SessionError> {
        let task = (kind.read)(&mut sections, data, peers)?;
        sections.left.retain(|(name, _)| !sections.usual.iter().any(|usual| usual == name));
        let left = |section: &&Section| sections.left.iter().any(|(name, _)| *name == section.name);
        if let Some(section) = self::sections().find(left) {
            return Err(SessionError::value("task", task.name(), section.tasks));
        }
        if sections.select.is_some() {
            return Err(SessionError::value("task", task.name(), "flynn if there is a select"));
        }
        Ok(task)
    }

    /// Reads the task of this name from the sections `given`, which are written as in a session file. Other
    /// sections have their defaults.
    pub(crate) fn from_sections(
        kind: &'static TaskKind,
        select: Option<Select>,
        given: &toml::Table,
        usual: toml::Table,
        data: &DataSpec,
        peers: usize,
    ) -> Result<Self, SessionError> {
        let mut all = usual;
        let only_usual = all.keys().filter(|name| !given.contains_key(*name)).cloned().collect();
        for (name, section) in given {
            match (all.get_mut(name), section) {
                (Some(toml::Value::Table(below)), toml::Value::Table(above)) => below.extend(above.clone()),
                _ => drop(all.insert(name.clone(), section.clone())),
            }
        }
        let text = all.to_string();
        let mut file = DeTable::parse(&text).map_err(|error| syntax(&text, &error))?;
        let sections = Sections { select, usual: only_usual, ..Sections::split(&text, file.get_mut()) };
        if let Some((name, _)) = file.get_ref().iter().next() {
            let names: Vec<_> = self::sections().map(|section| section.name).collect();
            let limit = format!("one of {}", names.join(", "));
            return Err(SessionError::value("a section", name.get_ref().to_string(), limit));
        }
        Self::read(Name(kind), sections, data, peers)
    }

    /// Returns the size of the smallest view that can finish, for a roster of `roster` peers. This is a
    /// majority, and at least the 3 members that a sum needs.
    #[must_use]
    pub fn smallest_view(&self, roster: usize) -> usize {
        self.members().0.max(roster / 2 + 1)
    }
}
