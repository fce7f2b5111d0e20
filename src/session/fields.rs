//! The fields of a section of the session file. Each field is described by a line of a table. The line
//! defines how the field is read, its limits, its encoding for the session id, its comment in a file and its
//! JSON.

use std::fmt::{self, Write};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::encoding::{self, Field};
use super::file::{list, quoted};
use super::rules::{Limit, check_number};
use super::run::bytes;
use super::{Sections, SessionError};

/// A value that is one of a few words.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// The words and their values.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the word of this value.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }

    /// Sets the value that this word stands for. Returns false if there is no such word.
    fn take(&mut self, text: &str) -> bool {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *self = *value).is_some()
    }
}

/// The type of the tables in a list of tables.
pub(crate) trait Table: Sized {
    /// Reads a table. The error is one line for the user.
    fn read(table: &Map<String, Value>) -> Result<Self, String>;
    /// Returns the canonical value.
    fn encode(&self) -> Vec<u8>;
    /// Returns the fields, as for [`Table::read`].
    fn json(&self) -> Map<String, Value>;
}

/// Reads the tables of a list into a section.
pub(crate) type ReadTables<S> = fn(&mut S, &[Map<String, Value>]) -> Result<(), String>;

/// Kind of a field of `S`.
pub(crate) enum Kind<S> {
    /// A whole number.
    Whole { limit: Limit, get: fn(&S) -> u64, set: fn(&mut S, u64) },
    /// A number between the two `ends`. `limit` describes the range in words.
    Number { ends: (f64, f64), limit: &'static str, get: fn(&S) -> f64, set: fn(&mut S, f64) },
    /// True or false.
    Flag { get: fn(&S) -> bool, set: fn(&mut S, bool) },
    /// One of a few words.
    Word { words: fn() -> Vec<&'static str>, get: fn(&S) -> &'static str, set: fn(&mut S, &str) -> bool },
    /// Whole numbers, each within the limit. A file omits an empty list.
    List { limit: Limit, get: fn(&S) -> &[u32], set: fn(&mut S, Vec<u32>) },
    /// Names without spaces.
    Names { get: fn(&S) -> &[String], set: fn(&mut S, Vec<String>) },
    /// Tables. An empty list is omitted in a file and in the id.
    Tables { read: ReadTables<S>, encode: fn(&S) -> Vec<Vec<u8>>, json: fn(&S) -> Vec<Map<String, Value>> },
    /// A digest, in hexadecimal digits. A missing digest is omitted in a file and in the id.
    Digest { get: fn(&S) -> Option<[u8; 32]>, set: fn(&mut S, [u8; 32]) },
}

/// A line of the table.
pub(crate) struct Row<S> {
    /// Name of the field with its section and a dot.
    pub(crate) name: &'static str,
    /// Comment in a file; empty if the comment above covers this field too.
    pub(crate) about: &'static str,
    /// Kind of the field.
    pub(crate) kind: Kind<S>,
}

/// Makes the fields of a section, in the order of the encoding and of a file.
///
/// A line is `NAME at PATH: KIND, COMMENT;`. `NAME` is the name in the section, and `PATH` the place of the
/// value in the struct.
macro_rules! fields {
    (
        $section:literal;
        $($name:ident at $($path:ident).+: $kind:ident$(($($argument:tt)*))?, $about:expr;)+
    ) => {
        &[$($crate::session::fields::Row {
            name: concat!($section, ".", stringify!($name)),
            about: $about,
            kind: $crate::session::fields::fields!(
                @$kind concat!($section, ".", stringify!($name)); $($path).+; $($($argument)*)?
            ),
        }),+]
    };
    (@whole $name:expr; $($path:ident).+; $least:expr, $most:expr) => {
        $crate::session::fields::fields!(
            @within $name; $($path).+; $crate::session::rules::Limit::new($name, $least, $most)
        )
    };
    (@within $name:expr; $($path:ident).+; $limit:expr) => {
        $crate::session::fields::Kind::Whole {
            limit: $limit,
            get: |of| of.$($path).+.into(),
            set: |of, value| of.$($path).+ = value.try_into().unwrap_or_default(),
        }
    };
    (@number $name:expr; $($path:ident).+; $least:expr, $most:expr, $limit:expr) => {
        $crate::session::fields::Kind::Number {
            ends: ($least, $most),
            limit: $limit,
            get: |of| of.$($path).+,
            set: |of, value| of.$($path).+ = value,
        }
    };
    (@flag $name:expr; $($path:ident).+;) => {
        $crate::session::fields::Kind::Flag {
            get: |of| of.$($path).+,
            set: |of, value| of.$($path).+ = value,
        }
    };
    (@word $name:expr; $($path:ident).+; $type:ty) => {
        $crate::session::fields::Kind::Word {
            words: || <$type as $crate::session::fields::Word>::WORDS.iter().map(|(word, _)| *word).collect(),
            get: |of| $crate::session::fields::Word::word(of.$($path).+),
            set: |of, text| $crate::session::fields::Word::take(&mut of.$($path).+, text),
        }
    };
    (@list $name:expr; $($path:ident).+; $least:expr, $most:expr) => {
        $crate::session::fields::Kind::List {
            limit: $crate::session::rules::Limit::new(concat!("a number of ", $name), $least, $most),
            get: |of| &of.$($path).+,
            set: |of, value| of.$($path).+ = value,
        }
    };
    (@names $name:expr; $($path:ident).+;) => {
        $crate::session::fields::Kind::Names {
            get: |of| &of.$($path).+,
            set: |of, value| of.$($path).+ = value,
        }
    };
    (@tables $name:expr; $($path:ident).+;) => {
        $crate::session::fields::Kind::Tables {
            read: |of, tables| {
                let read = tables.iter().map($crate::session::fields::Table::read);
                of.$($path).+ = read.collect::<Result<_, _>>()?;
                Ok(())
            },
            encode: |of| of.$($path).+.iter().map($crate::session::fields::Table::encode).collect(),
            json: |of| of.$($path).+.iter().map($crate::session::fields::Table::json).collect(),
        }
    };
    (@digest $name:expr; $($path:ident).+;) => {
        $crate::session::fields::Kind::Digest {
            get: |of| of.$($path).+,
            set: |of, value| of.$($path).+ = Some(value),
        }
    };
}
pub(crate) use fields;

impl<S> Row<S> {
    /// Returns the name without the section.
    fn key(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, key)| key)
    }

    /// Reads the value from a file, which may come from outside.
    fn read<'de, D: Deserializer<'de>>(
        &self,
        to: &mut S,
        value: D,
    ) -> Result<Result<(), SessionError>, D::Error> {
        Ok(match &self.kind {
            Kind::Whole { limit, set, .. } => {
                limit.check(i64::deserialize(value)?).map(|value| set(to, value))
            }
            Kind::Number { set, .. } => Ok(f64::deserialize(value).map(|value| set(to, value))?),
            Kind::Flag { set, .. } => Ok(bool::deserialize(value).map(|value| set(to, value))?),
            Kind::Word { words, set, .. } => {
                let text = String::deserialize(value)?;
                if !set(to, &text) {
                    return Err(D::Error::custom(format!("unknown variant `{text}`, {}", one_of(&words()))));
                }
                Ok(())
            }
            Kind::List { limit, set, .. } => Vec::<i64>::deserialize(value)?
                .into_iter()
                .map(|number| limit.check(number))
                .collect::<Result<_, _>>()
                .map(|numbers| set(to, numbers)),
            Kind::Names { set, .. } => Ok(Vec::deserialize(value).map(|value| set(to, value))?),
            Kind::Tables { read, .. } => {
                let tables = Vec::<Map<String, Value>>::deserialize(value)?;
                read(to, &tables).map_err(|text| D::Error::custom(format!("{}: {text}", self.name)))?;
                Ok(())
            }
            Kind::Digest { set, .. } => {
                bytes(self.name, &String::deserialize(value)?).map(|digest| set(to, digest))
            }
        })
    }

    fn check(&self, of: &S) -> Result<(), SessionError> {
        match &self.kind {
            Kind::Whole { limit, get, .. } => limit.check::<u64>(get(of)).map(drop),
            Kind::Number { ends: (least, most), limit, get, .. } => {
                check_number(self.name, get(of), (*least..=*most).contains(&get(of)), limit)
            }
            Kind::List { limit, get, .. } => {
                get(of).iter().try_for_each(|&number| limit.check::<u64>(number).map(drop))
            }
            Kind::Flag { .. }
            | Kind::Word { .. }
            | Kind::Names { .. }
            | Kind::Tables { .. }
            | Kind::Digest { .. } => Ok(()),
        }
    }

    /// Returns the canonical value.
    fn encode(&self, of: &S) -> Option<Vec<u8>> {
        Some(match &self.kind {
            Kind::Whole { get, .. } => encoding::integer(get(of)),
            // -0.0 and 0.0 are equal, but would give two session ids.
            Kind::Number { get, .. } => encoding::number(get(of) + 0.0),
            Kind::Flag { get, .. } => encoding::flag(get(of)),
            Kind::Word { get, .. } => encoding::text(get(of)),
            Kind::List { get, .. } => {
                let numbers: Vec<_> = get(of).iter().map(|&number| encoding::integer(number)).collect();
                encoding::list(numbers.iter().map(Vec::as_slice))
            }
            Kind::Names { get, .. } => encoding::text(&get(of).join(" ")),
            Kind::Tables { encode, .. } => {
                let tables = Some(encode(of)).filter(|tables| !tables.is_empty())?;
                encoding::list(tables.iter().map(Vec::as_slice))
            }
            Kind::Digest { get, .. } => get(of)?.to_vec(),
        })
    }

    /// Returns the value as TOML, or `None` if the file omits it.
    fn toml(&self, of: &S) -> Option<String> {
        Some(match &self.kind {
            Kind::Whole { get, .. } => get(of).to_string(),
            Kind::Number { get, .. } => format!("{:?}", get(of)),
            Kind::Flag { get, .. } => get(of).to_string(),
            Kind::Word { get, .. } => quoted(get(of)),
            Kind::List { get, .. } => {
                Some(get(of)).filter(|list| !list.is_empty()).map(|list| format!("{list:?}"))?
            }
            Kind::Names { get, .. } => list(get(of)),
            Kind::Tables { json, .. } => {
                let tables = Some(json(of)).filter(|tables| !tables.is_empty())?;
                format!("[\n{}]", tables.iter().map(inline).collect::<String>())
            }
            Kind::Digest { get, .. } => quoted(&hex::encode(get(of)?)),
        })
    }

    fn json(&self, of: &S) -> Value {
        match &self.kind {
            Kind::Whole { get, .. } => json!(get(of)),
            Kind::Number { get, .. } => json!(get(of)),
            Kind::Flag { get, .. } => json!(get(of)),
            Kind::Word { get, .. } => json!(get(of)),
            Kind::List { get, .. } => json!(get(of)),
            Kind::Names { get, .. } => json!(get(of)),
            Kind::Tables { json, .. } => json!(json(of)),
            Kind::Digest { get, .. } => json!(get(of).map(hex::encode)),
        }
    }
}

/// Formats a table as one line of TOML.
fn inline(table: &Map<String, Value>) -> String {
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name} = {}", quoted(text)),
        other => format!("{name} = {other}"),
    };
    format!("    {{ {} }},\n", table.iter().map(field).collect::<Vec<_>>().join(", "))
}

/// Formats names as "expected one of `a`, `b`".
fn one_of(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("expected one of {}", names.join(", "))
}

/// Reads the section of these fields into `to`, and returns the names of the fields that it contains.
///
/// # Errors
/// [`SessionError::Syntax`] for an unknown field and for a value of another type,
/// [`SessionError::Value`] for a value out of range.
pub(crate) fn read<S>(
    rows: &'static [Row<S>],
    sections: &mut Sections<'_>,
    to: &mut S,
) -> Result<Vec<&'static str>, SessionError> {
    let Some(section) = rows.first().and_then(|row| row.name.split_once('.')) else { return Ok(Vec::new()) };
    let mut reading = Reading { rows, to, given: Vec::new(), refused: Ok(()) };
    sections.take_seed(section.0, &mut reading)?;
    reading.refused.map(|()| reading.given)
}

/// Sets a whole number. `name` is its name without the section.
///
/// # Errors
/// [`SessionError::Value`] if the field does not exist or the value is out of range.
pub(crate) fn set_whole<S>(
    section: &str,
    rows: &[Row<S>],
    of: &mut S,
    name: &str,
    value: i64,
) -> Result<(), SessionError> {
    let found = rows.iter().find_map(|row| match &row.kind {
        Kind::Whole { limit, set, .. } if row.key() == name => Some((limit, set)),
        _ => None,
    });
    let Some((limit, set)) = found else {
        let names: Vec<&str> = rows.iter().map(Row::key).collect();
        let names = format!("one of {}", names.join(", "));
        return Err(SessionError::value(format!("a field of {section}"), format!("{name:?}"), names));
    };
    limit.check(value).map(|value| set(of, value))
}

/// Checks each field's own limits.
///
/// # Errors
/// [`SessionError::Value`] for the first field out of range.
pub(crate) fn check<S>(rows: &[Row<S>], of: &S) -> Result<(), SessionError> {
    rows.iter().try_for_each(|row| row.check(of))
}

/// Returns names and canonical values.
pub(crate) fn entries<S>(rows: &[Row<S>], of: &S) -> Vec<Field> {
    rows.iter().filter_map(|row| Some((row.name, row.encode(of)?))).collect()
}

/// Writes the fields of a section. A comment is above the fields that it describes.
pub(crate) fn write<S>(rows: &[Row<S>], of: &S, out: &mut String) -> fmt::Result {
    for row in rows {
        let Some(value) = row.toml(of) else { continue };
        field(row.about, row.key(), value, out)?;
    }
    Ok(())
}

/// Returns names and values, in order.
pub(crate) fn values<S>(rows: &[Row<S>], of: &S) -> Vec<(&'static str, Value)> {
    rows.iter().map(|row| (row.key(), row.json(of))).collect()
}

/// Returns the fields by name.
pub(crate) fn json<S>(rows: &[Row<S>], of: &S) -> Map<String, Value> {
    values(rows, of).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Writes a comment and the field below it. `value` is TOML.
pub(crate) fn field(about: &str, name: &str, value: impl fmt::Display, out: &mut String) -> fmt::Result {
    comment(about, out)?;
    writeln!(out, "{name} = {value}")
}

/// Writes a comment in lines of at most 98 characters.
pub(crate) fn comment(text: &str, out: &mut String) -> fmt::Result {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() > 96 {
            writeln!(out, "#{line}")?;
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.is_empty() { Ok(()) } else { writeln!(out, "#{line}") }
}

/// A section that is being read.
struct Reading<'a, S: 'static> {
    rows: &'static [Row<S>],
    to: &'a mut S,
    given: Vec<&'static str>,
    /// First value out of range.
    refused: Result<(), SessionError>,
}

impl<'de, S> DeserializeSeed<'de> for &mut Reading<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, section: D) -> Result<(), D::Error> {
        section.deserialize_map(self)
    }
}

impl<'de, S> Visitor<'de> for &mut Reading<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut section: A) -> Result<(), A::Error> {
        while let Some(row) = section.next_key_seed(Key(self.rows))? {
            self.given.push(row.key());
            let read = section.next_value_seed(Entry { row, to: &mut *self.to })?;
            if self.refused.is_ok() {
                self.refused = read;
            }
        }
        Ok(())
    }
}

/// Reads the name of a field.
struct Key<S: 'static>(&'static [Row<S>]);

impl<'de, S> DeserializeSeed<'de> for Key<S> {
    type Value = &'static Row<S>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(name)?;
        let unknown = || {
            let names: Vec<&str> = self.0.iter().map(Row::key).collect();
            D::Error::custom(format!("unknown field `{name}`, {}", one_of(&names)))
        };
        self.0.iter().find(|row| row.key() == name).ok_or_else(unknown)
    }
}

/// Reads the value of a field.
struct Entry<'a, S: 'static> {
    row: &'static Row<S>,
    to: &'a mut S,
}

impl<'de, S> DeserializeSeed<'de> for Entry<'_, S> {
    type Value = Result<(), SessionError>;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        self.row.read(self.to, value)
    }
}
