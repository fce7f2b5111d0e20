//! The entry of a task from outside this crate in a session file: the task's name, and parameters that only
//! the task's own program reads.

use std::fmt::{self, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::session::encoding::{Field, text};
use crate::session::file::quoted;
use crate::session::{DataSpec, Session, SessionError};
use crate::session::{Section, Sections, Spec};
use crate::tasks::{BuiltIn, Protections, Shared, TaskKind};

/// The longest name, in characters.
const NAME_LIMIT: usize = 64;
/// The most parameters, in bytes.
const BYTES_LIMIT: usize = 64 << 10;

/// A task that a program outside this crate provides. All peers have the same name and bytes, as with every
/// field. Only that program knows what the bytes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomSpec {
    /// The name of the task: 1 to 64 characters of `a` to `z`, `0` to `9` and `-`.
    pub name: String,
    /// The task's parameters, in the task's own encoding: at most 64 KiB. Default: none.
    pub bytes: Vec<u8>,
}

/// The task's entry in the registry.
pub static KIND: TaskKind = TaskKind {
    digest_covers: "the rows that the program was given, but no data that the task reads itself",
    ..TaskKind::new(
        "custom",
        "a task of your own program",
        &[Section { name: "custom", tasks: "custom if there is a [custom]" }],
        |sections, data, peers| CustomSpec::read(sections, data, peers).map(Into::into),
        Shared::Sums,
    )
};

/// The section `[custom]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    #[serde(default)]
    bytes: String,
}

impl CustomSpec {
    /// Reads the parameters from their sections of the session file. `data` describes the rows.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        let Some(Raw { name, bytes }) = sections.take("custom")? else {
            return Err(SessionError::value("[custom]", "missing", "given with the task custom"));
        };
        let limit = "pairs of the hexadecimal digits 0 to 9 and a to f";
        let lower = bytes.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let decoded = hex::decode(&bytes).ok().filter(|_| lower);
        let bytes =
            decoded.ok_or_else(|| SessionError::value("custom.bytes", format!("{bytes:?}"), limit))?;
        Ok(Self { name, bytes })
    }
}

impl Spec for CustomSpec {
    fn kind(&self) -> &'static TaskKind {
        &KIND
    }

    fn built_in(&self, _session: &Session) -> Option<BuiltIn> {
        None
    }

    fn about(&self) -> &'static str {
        "a task that is not part of flyswarm; the program that runs it knows it by the name below"
    }

    fn protections(&self) -> Protections {
        Protections::none("opens only its own sums")
    }

    fn label(&self) -> String {
        self.name.clone()
    }

    fn check(&self, _session: &Session) -> Result<(), SessionError> {
        let plain = self.name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if !plain || !(1..=NAME_LIMIT).contains(&self.name.len()) {
            let limit = format!("1 to {NAME_LIMIT} characters of a to z, 0 to 9 and -");
            return Err(SessionError::value("custom.name", format!("{:?}", self.name), limit));
        }
        if self.bytes.len() > BYTES_LIMIT {
            let limit = format!("at most {BYTES_LIMIT}");
            return Err(SessionError::value("the length of custom.bytes", self.bytes.len(), limit));
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Field> {
        vec![("custom.name", text(&self.name)), ("custom.bytes", self.bytes.clone())]
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(out, "[custom]")?;
        writeln!(out, "# The task's name: 1 to {NAME_LIMIT} characters of a to z, 0 to 9 and -.")?;
        writeln!(out, "name = {}", quoted(&self.name))?;
        writeln!(out, "# Its parameters, which only its program reads: hexadecimal, at most 64 KiB.")?;
        writeln!(out, "bytes = \"{}\"\n", hex::encode(&self.bytes))
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("custom", json!({"name": self.name, "bytes": hex::encode(&self.bytes)}))]
    }

    fn lines(&self, _data: &DataSpec) -> Vec<(&'static str, String)> {
        vec![("custom", format!("{}, {} bytes of parameters", self.name, self.bytes.len()))]
    }
}
