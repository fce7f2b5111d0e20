//! The rows of an ARFF file as texts. A value that is missing (`?`) is an empty one.

use super::{Attribute, Kind, Problem, Rest, header};
use crate::prepare::rows::Typed;
use crate::{DataError, Lines, Source, quoted};

/// An ARFF file as rows of texts.
#[derive(Debug)]
pub(crate) struct Texts {
    source: Source,
    lines: Lines,
    attributes: Vec<Attribute>,
    /// The values of the row at hand.
    values: Vec<String>,
}

impl Texts {
    /// Reads the attributes.
    pub(crate) fn open(mut source: Source) -> Result<Self, DataError> {
        let mut lines = Lines::default();
        let attributes = header(&mut source, &mut lines)?;
        Ok(Self { source, lines, attributes, values: Vec::new() })
    }
}

/// The values of a row, in the order of the attributes.
fn split(text: &[u8], attributes: &[Attribute], values: &mut Vec<String>) -> Result<(), Problem> {
    values.clear();
    let mut rest = Rest { text };
    let wrong =
        |column: usize, found: &[u8], expected: String| Problem { column, found: quoted(found), expected };
    let word = |rest: &mut Rest, stops: &[u8], column: usize| {
        rest.blank();
        let bare = !rest.text.starts_with(b"'") && !rest.text.starts_with(b"\"");
        let word = rest.word(stops).map_err(|expected| wrong(column, rest.text, expected))?;
        Ok(if bare && word == "?" { String::new() } else { word })
    };
    if !rest.take(b'{') {
        for column in 0..attributes.len() {
            if column > 0 && !rest.take(b',') {
                let expected = format!("a comma: {} values a row", attributes.len());
                return Err(wrong(column, rest.text, expected));
            }
            values.push(word(&mut rest, b",", column + 1)?);
        }
    } else {
        // What is not there is 0, or the first value of a nominal attribute.
        values.extend(attributes.iter().map(|attribute| match &attribute.kind {
            Kind::Number => "0".to_owned(),
            Kind::Nominal(levels) => levels.first().cloned().unwrap_or_default(),
            Kind::Text | Kind::Other(_) => String::new(),
        }));
        let mut next = 0;
        while !rest.take(b'}') {
            if next > 0 && !rest.take(b',') {
                return Err(wrong(next, rest.text, "a comma or a closing brace".into()));
            }
            let index = word(&mut rest, b" \t,}", next + 1)?;
            let place = index.parse::<usize>().ok().filter(|&place| place >= next);
            let Some((place, value)) = place.and_then(|place| Some((place, values.get_mut(place)?))) else {
                let expected =
                    format!("an ascending number of an attribute, {next} to {}", attributes.len() - 1);
                return Err(wrong(next + 1, index.as_bytes(), expected));
            };
            *value = word(&mut rest, b",}", place + 1)?;
            next = place + 1;
        }
    }
    rest.blank();
    if rest.text.is_empty() {
        return Ok(());
    }
    let expected = format!("the end: {} values a row", attributes.len());
    Err(wrong(attributes.len() + 1, rest.text, expected))
}

impl Typed for Texts {
    fn names(&self) -> Vec<String> {
        self.attributes.iter().map(|attribute| attribute.name.clone()).collect()
    }

    fn unread(&self, at: usize) -> Option<&str> {
        match &self.attributes.get(at)?.kind {
            Kind::Other(kind) if !kind.contains("date") => Some(kind),
            _ => None,
        }
    }

    fn levels(&self, at: usize) -> Option<&[String]> {
        match &self.attributes.get(at)?.kind {
            Kind::Nominal(levels) => Some(levels),
            _ => None,
        }
    }

    fn is_date(&self, _at: usize) -> bool {
        // They are written in a format of the file's own; most often year-month-day.
        false
    }

    fn unit(&self) -> &'static str {
        "line"
    }

    fn next(
        &mut self,
        _wanted: &[bool],
        text: &mut Vec<u8>,
        fields: &mut Vec<(usize, usize)>,
    ) -> Result<Option<u64>, DataError> {
        loop {
            let Some((line, row)) = self.lines.next(&mut self.source)? else { return Ok(None) };
            if row.starts_with(b"%") {
                continue;
            }
            if let Err(Problem { column, found, expected }) = split(row, &self.attributes, &mut self.values) {
                return Err(DataError::Field {
                    file: self.source.file.clone(),
                    line,
                    column,
                    found,
                    expected,
                });
            }
            for value in &self.values {
                let start = text.len();
                text.extend(value.as_bytes());
                fields.push((start, text.len()));
            }
            return Ok(Some(line));
        }
    }
}
