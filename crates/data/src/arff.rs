//! ARFF, the format of Weka: `@relation`, an `@attribute` for each column, `@data`, then a row a line, dense
//! or sparse (`{1 x, 3 y}` with numbers from 0). `%` begins a comment. Format:
//! <https://waikato.github.io/weka-wiki/formats_and_processing/arff_stable/>.
//!
//! Attributes are numbers (`numeric`, `real`, `integer`), except that the label may be nominal or a string.
//! In a sparse row, what is not there is 0, or the first value of a nominal attribute. [`Texts`] gives any
//! attributes as texts, for described columns.

mod texts;

pub(super) use texts::Texts;

use super::columns::{Columns, Found, Role, advice};
use super::libsvm::Sparse;
use super::{
    DataError, Expected, Labels, Lines, Loaded, MAX_FEATURES, MAX_VALUES, Source, magnitude_ok, quoted,
};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Number,
    Nominal(Vec<String>),
    Text,
    /// Dates and relations.
    Other(String),
}

#[derive(Debug)]
struct Attribute {
    name: String,
    kind: Kind,
}

/// What is wrong on a line.
struct Problem {
    column: usize,
    found: String,
    expected: String,
}

fn problem<T>(column: usize, found: &[u8], expected: impl Into<String>) -> Result<T, Problem> {
    Err(Problem { column, found: quoted(found), expected: expected.into() })
}

/// What is left of a line.
struct Rest<'a> {
    text: &'a [u8],
}

impl Rest<'_> {
    fn blank(&mut self) {
        self.text = self.text.trim_ascii_start();
    }

    fn take(&mut self, byte: u8) -> bool {
        self.blank();
        let Some((&first, rest)) = self.text.split_first() else { return false };
        if first == byte {
            self.text = rest;
        }
        first == byte
    }

    /// A text in quotes, or one that ends before one of `stops`, without white space around it.
    fn word(&mut self, stops: &[u8]) -> Result<String, String> {
        self.blank();
        let mut out = Vec::new();
        match self.text.split_first() {
            Some((&quote @ (b'\'' | b'"'), rest)) => {
                let mut bytes = rest.iter();
                loop {
                    match bytes.next() {
                        None => return Err("the end of a text in quotes".into()),
                        Some(b'\\') => out.extend(bytes.next()),
                        Some(&byte) if byte == quote => break,
                        Some(&byte) => out.push(byte),
                    }
                }
                self.text = bytes.as_slice();
            }
            _ => {
                let end = self.text.iter().position(|b| stops.contains(b)).unwrap_or(self.text.len());
                let (word, rest) = self.text.split_at(end);
                out.extend(word.trim_ascii());
                self.text = rest;
            }
        }
        String::from_utf8(out).map_err(|_| "UTF-8 text".into())
    }
}

pub(super) fn read(mut source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let mut lines = Lines::default();
    let attributes = header(&mut source, &mut lines)?;
    let names: Vec<String> = attributes.iter().map(|attribute| attribute.name.clone()).collect();
    let file = source.file.clone();
    let found =
        Found { file: &file, place: "the header", line: lines.line, count: names.len(), names: Some(names) };
    let aside = found.aside(&expected.label, expected.drop)?;
    let features = (0..attributes.len()).filter(|&column| !aside.contains(column));
    let mut categories =
        features.map(|column| (column, &attributes[column])).filter(|(_, of)| of.kind != Kind::Number);
    if let Some((column, Attribute { name, kind })) = categories.next() {
        let kind = match kind {
            Kind::Nominal(_) => "nominal",
            Kind::Other(kind) => kind,
            _ => "text",
        };
        return Err(DataError::Entry {
            file,
            what: format!("attribute {} ({})", column + 1, quoted(name.as_bytes())),
            found: kind.into(),
            expected: advice(name),
        });
    }
    let columns = found.columns(&aside, expected)?;
    let mut rows = Rows {
        attributes: &attributes,
        columns: &columns,
        labels: Labels::new(expected),
        dense: Vec::new(),
        sparse: Sparse::default(),
        is_sparse: None,
    };
    while let Some((line, text)) = lines.next(&mut source)? {
        if text.starts_with(b"%") {
            continue;
        }
        if let Err(Problem { column, found, expected }) = rows.push(text) {
            return Err(DataError::Field { file, line, column, found, expected });
        }
        if rows.is_sparse == Some(true) {
            rows.sparse.end_row(&source)?;
        }
        let limit = MAX_VALUES.min(columns.features.saturating_mul(super::MAX_ROWS));
        if rows.dense.len() > limit {
            let limit = (limit / columns.features) as u64;
            return Err(DataError::Limit { file, what: "too many rows", found: limit + 1, limit });
        }
    }
    let values = match rows.is_sparse {
        None => return Err(DataError::NoRows { file, header: true }),
        Some(false) => rows.dense,
        Some(true) => rows.sparse.unfold(&source, columns.features, &columns.roles)?,
    };
    Ok(rows.labels.finish(columns.features, values).named(columns))
}

struct Rows<'a> {
    attributes: &'a [Attribute],
    columns: &'a Columns,
    labels: Labels,
    dense: Vec<f32>,
    sparse: Sparse,
    is_sparse: Option<bool>,
}

impl Rows<'_> {
    fn push(&mut self, text: &[u8]) -> Result<(), Problem> {
        let is_sparse = text.starts_with(b"{");
        if *self.is_sparse.get_or_insert(is_sparse) != is_sparse {
            return problem(1, text, "rows that are all sparse or all dense");
        }
        if is_sparse { self.push_sparse(text) } else { self.push_dense(text) }
    }

    fn push_dense(&mut self, text: &[u8]) -> Result<(), Problem> {
        let mut rest = Rest { text };
        let start = self.dense.len();
        self.dense.resize(start + self.columns.features, 0.0);
        for column in 0..self.attributes.len() {
            if column > 0 && !rest.take(b',') {
                return problem(
                    column,
                    rest.text,
                    format!("a comma: {} values a row", self.attributes.len()),
                );
            }
            let (at, separators) = (column + 1, b",");
            let field = rest.word(separators).map_err(|expected| Problem {
                column: at,
                found: quoted(rest.text),
                expected,
            })?;
            if let Some((place, x)) = self.value(column, &field)? {
                self.dense[start + place] = x;
            }
        }
        rest.blank();
        if rest.text.is_empty() {
            return Ok(());
        }
        problem(
            self.attributes.len() + 1,
            rest.text,
            format!("the end: {} values a row", self.attributes.len()),
        )
    }

    fn push_sparse(&mut self, text: &[u8]) -> Result<(), Problem> {
        let mut rest = Rest { text };
        rest.take(b'{');
        let (mut next, mut labelled) = (0, false);
        while !rest.take(b'}') {
            if next > 0 && !rest.take(b',') {
                return problem(next, rest.text, "a comma or a closing brace");
            }
            let word = |rest: &mut Rest, stops: &[u8]| {
                rest.word(stops).map_err(|expected| Problem {
                    column: next + 1,
                    found: quoted(rest.text),
                    expected,
                })
            };
            let index = word(&mut rest, b" \t,}")?;
            let column = match index.parse::<usize>() {
                Ok(column) if (next..self.attributes.len()).contains(&column) => column,
                _ => {
                    let expected = format!(
                        "an ascending number of an attribute, {next} to {}",
                        self.attributes.len() - 1
                    );
                    return problem(next + 1, index.as_bytes(), expected);
                }
            };
            let field = word(&mut rest, b",}")?;
            labelled |= self.columns.roles[column] == Role::Label;
            if let Some((_, x)) = self.value(column, &field)? {
                self.sparse.push(column, x);
            }
            next = column + 1;
        }
        rest.blank();
        if !rest.text.is_empty() {
            return problem(next + 1, rest.text, "the end of the line");
        }
        let label = self.columns.roles.iter().position(|role| *role == Role::Label);
        match label.filter(|_| !labelled) {
            None => Ok(()),
            Some(column) => match &self.attributes[column].kind {
                Kind::Nominal(values) if !values.is_empty() => {
                    self.value(column, &values[0].clone()).map(|_| ())
                }
                Kind::Number => self.value(column, "0").map(|_| ()),
                _ => problem(column + 1, b"", "a class in every row"),
            },
        }
    }

    /// A value where it belongs: the place and number of a feature, or a label that is kept.
    fn value(&mut self, column: usize, field: &str) -> Result<Option<(usize, f32)>, Problem> {
        let at = column + 1;
        match (self.columns.roles[column], &self.attributes[column].kind) {
            (Role::Dropped, _) => Ok(None),
            (Role::Feature(place), _) => match field.parse::<f32>() {
                Ok(x) if magnitude_ok(x) => Ok(Some((place, x))),
                Ok(_) => problem(at, field.as_bytes(), "a finite number below 2^80"),
                Err(_) if field == "?" => {
                    problem(at, b"?", "a number: fill missing values or leave their rows out")
                }
                Err(_) => problem(at, field.as_bytes(), "a number"),
            },
            (Role::Label, _) if self.labels.partly && field == "?" => {
                let pushed = self.labels.push("");
                pushed.map(|()| None).or_else(|expected| problem(at, b"?", expected))
            }
            (Role::Label, Kind::Nominal(values)) if !values.iter().any(|value| value == field) => {
                problem(at, field.as_bytes(), "one of the values of its attribute")
            }
            (Role::Label, Kind::Other(kind)) => problem(at, field.as_bytes(), format!("a class, not {kind}")),
            (Role::Label, kind) => {
                if *kind != Kind::Number || field.parse::<f64>().is_ok() {
                    let pushed = self.labels.push(field.trim());
                    return pushed.map(|()| None).or_else(|expected| problem(at, field.as_bytes(), expected));
                }
                problem(at, field.as_bytes(), "a number")
            }
        }
    }
}

/// The attributes, up to `@data`.
fn header(source: &mut Source, lines: &mut Lines) -> Result<Vec<Attribute>, DataError> {
    let mut attributes = Vec::new();
    let file = source.file.clone();
    while let Some((line, text)) = lines.next(source)? {
        if text.starts_with(b"%") {
            continue;
        }
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let refuse = |problem: Problem| {
            let Problem { column, found, expected } = problem;
            DataError::Field { file: file.clone(), line, column, found, expected }
        };
        match word.to_ascii_lowercase().as_slice() {
            b"@relation" => {}
            b"@attribute" => {
                let parsed = attribute(&mut Rest { text: rest });
                attributes.push(parsed.map_err(refuse)?);
                if attributes.len() > MAX_FEATURES {
                    let (found, limit) = (attributes.len() as u64, MAX_FEATURES as u64);
                    return Err(DataError::Limit { file, what: "too many columns", found, limit });
                }
            }
            b"@data" => return Ok(attributes),
            _ => {
                let expected = "@relation, @attribute or @data".into();
                return Err(refuse(Problem { column: 1, found: quoted(word), expected }));
            }
        }
    }
    Err(DataError::Layout { file: file.clone(), problem: "no @data: expected an ARFF header".into() })
}

fn attribute(rest: &mut Rest) -> Result<Attribute, Problem> {
    let word = |rest: &mut Rest, stops: &[u8], column| {
        rest.word(stops).map_err(|expected| Problem { column, found: quoted(rest.text), expected })
    };
    let name = word(rest, b" \t{", 2)?;
    if name.is_empty() {
        return problem(2, b"", "the name of an attribute");
    }
    if rest.take(b'{') {
        let mut values = Vec::new();
        loop {
            values.push(word(rest, b",}", 3)?.trim().to_owned());
            if rest.take(b'}') {
                return Ok(Attribute { name, kind: Kind::Nominal(values) });
            }
            if !rest.take(b',') {
                return problem(3, rest.text, "a comma or a closing brace");
            }
        }
    }
    let kind = word(rest, b" \t", 3)?;
    let kind = match kind.to_ascii_lowercase().as_str() {
        "numeric" | "real" | "integer" => Kind::Number,
        "string" => Kind::Text,
        "date" => Kind::Other("a date".into()),
        "relational" => Kind::Other("a relation".into()),
        _ => return problem(3, kind.as_bytes(), "numeric, real, integer, string, date or {the values}"),
    };
    Ok(Attribute { name, kind })
}
