//! NPY: one array of NumPy, versions 1 to 3. Format:
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! The header is a Python dictionary with three known keys. This module reads it itself: the crates for
//! NPY (npyz, ndarray-npy) use a general parser of Python literals, and multiply the declared sizes
//! without a check.

use std::io::{self, Read};
use std::path::Path;

use super::columns::{self, Columns, Role};
use super::{
    DataError, Expected, LabelColumn, Labels, Loaded, MAX_FEATURES, MAX_ROWS, MAX_VALUES, Source,
    magnitude_ok, quoted, whole,
};

mod header;

use header::{Header, MAGIC_LENGTH};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header, in bytes. NumPy itself reads at most 10,000 characters.
const MAX_HEADER: usize = 1 << 16;
/// Longest text of an array of texts, in characters.
const MAX_TEXT: usize = 1 << 10;

/// The place of an array, for errors, and the array's bytes.
pub(super) struct Stream<'a> {
    pub(super) file: &'a Path,
    /// The array's name in an NPZ file, followed by a comma and a space: `array "X", `.
    pub(super) name: String,
    pub(super) gzip: bool,
    pub(super) reader: &'a mut dyn Read,
}

impl Stream<'_> {
    fn wrong(&self, what: &str, found: impl Into<String>, expected: impl Into<String>) -> DataError {
        let what = format!("{}{what}", self.name);
        DataError::Entry { file: self.file.into(), what, found: found.into(), expected: expected.into() }
    }

    fn read_up_to(&mut self, limit: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        match (&mut self.reader).take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn failed(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof, Unsupported};
        match source.kind() {
            InvalidData | InvalidInput | Other | UnexpectedEof if self.gzip => {
                DataError::Gzip { file: self.file.into(), source }
            }
            InvalidData | InvalidInput | Other | UnexpectedEof | Unsupported if !self.name.is_empty() => {
                self.wrong("content", format!("damaged ({source})"), "a whole compressed array")
            }
            _ => DataError::Read { file: self.file.into(), source },
        }
    }

    /// Reads and checks the header of an array; `holds` names the allowed elements, for errors.
    fn header(&mut self, holds: &str) -> Result<Header, DataError> {
        let start = self.read_up_to(MAGIC_LENGTH as u64)?;
        let Some(&[major, _]) = start.strip_prefix(MAGIC) else {
            return Err(self.wrong(
                "magic number",
                format!("{start:02x?}"),
                "93 4e 55 4d 50 59 and a version",
            ));
        };
        let width = match major {
            1 => 2,
            2 | 3 => 4,
            _ => return Err(self.wrong("version", major.to_string(), "1, 2 or 3")),
        };
        let length = self.read_up_to(width)?;
        if length.len() as u64 != width {
            return Err(self.wrong("length", "cut in the header", "a whole header"));
        }
        let length = length.iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
        if length > MAX_HEADER {
            return Err(self.wrong(
                "length of the header",
                length.to_string(),
                format!("at most {MAX_HEADER}"),
            ));
        }
        let text = self.read_up_to(length as u64)?;
        if text.len() != length {
            return Err(self.wrong("length", "cut in the header", "a whole header"));
        }
        Header::parse(&text).map_err(|problem| {
            let save = holds.split_once(':').map_or("", |(_, save)| save);
            let expected = match problem.expected {
                header::OBJECTS => format!("{}:{save}", header::OBJECTS),
                header::NUMBERS => holds.to_owned(),
                other => other.to_owned(),
            };
            self.wrong(problem.what, problem.found, expected)
        })
    }

    /// Reads exactly `count` elements and calls `f` with the index and bytes of each. More bytes after
    /// them are an error.
    fn elements(
        &mut self,
        width: usize,
        count: usize,
        mut f: impl FnMut(usize, &[u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let at_once = ((1 << 16) / width).max(1);
        let mut done = 0;
        while done < count {
            let now = at_once.min(count - done);
            let bytes = self.read_up_to((now * width) as u64)?;
            for element in bytes.chunks_exact(width) {
                f(done, element)?;
                done += 1;
            }
            if bytes.len() != now * width {
                return Err(self.wrong(
                    "number of elements",
                    done.to_string(),
                    format!("{count} as in its header"),
                ));
            }
        }
        if !self.read_up_to(1)?.is_empty() {
            return Err(self.wrong(
                "number of elements",
                format!("over {count}"),
                format!("{count} as in its header"),
            ));
        }
        Ok(())
    }

    /// Reads the numbers of an array, in the order of the array. It allocates memory as it reads the bytes of
    /// the file.
    fn numbers(
        &mut self,
        header: &Header,
        count: usize,
        place: impl Fn(usize) -> String,
    ) -> Result<Vec<f32>, DataError> {
        let Some(number) = header.number() else {
            return Err(self.wrong("type", quoted(header.descr.as_bytes()), header::NUMBERS));
        };
        let (mut values, name, file) = (Vec::new(), self.name.clone(), self.file);
        self.elements(header.width, count, |i, bytes| {
            let x = number(bytes) as f32;
            if !magnitude_ok(x) {
                return Err(DataError::Entry {
                    file: file.into(),
                    what: format!("{name}{}", place(i)),
                    found: x.to_string(),
                    expected: "a finite number below 2^80".into(),
                });
            }
            values.push(x);
            Ok(())
        })?;
        Ok(values)
    }

    /// Reads an array of one dimension as texts: labels or names.
    pub(super) fn texts(&mut self, rows: Option<usize>) -> Result<Vec<String>, DataError> {
        let header = self.header(header::TEXTS)?;
        let &[count] = header.shape.as_slice() else {
            let expected =
                rows.map_or("one dimension".into(), |rows| format!("({rows},): one entry for each row"));
            return Err(self.wrong("shape", header.shown_shape(), expected));
        };
        let limit = rows.unwrap_or(MAX_FEATURES);
        let count = match usize::try_from(count) {
            Ok(count) if count <= limit && rows.is_none_or(|rows| rows == count) => count,
            _ => {
                let expected =
                    rows.map_or(format!("at most {limit}"), |rows| format!("{rows}, one for each row"));
                return Err(self.wrong("number of entries", count.to_string(), expected));
            }
        };
        if header.width > 4 * MAX_TEXT {
            let expected = format!("texts of at most {MAX_TEXT} characters");
            return Err(self.wrong("type", quoted(header.descr.as_bytes()), expected));
        }
        let Some(text) = header.text() else {
            return Err(self.wrong("type", quoted(header.descr.as_bytes()), header::TEXTS));
        };
        let (mut texts, name, file) = (Vec::new(), self.name.clone(), self.file);
        self.elements(header.width, count, |i, bytes| {
            let text = text(bytes).map_err(|(found, expected)| DataError::Entry {
                file: file.into(),
                what: format!("{name}entry {i}"),
                found,
                expected,
            })?;
            texts.push(text);
            Ok(())
        })?;
        Ok(texts)
    }

    /// Reads an array of one or two dimensions. Returns the rows, the columns and the elements row by row,
    /// as in CSV.
    pub(super) fn cells(&mut self, comma: bool) -> Result<(usize, usize, Vec<Vec<u8>>), DataError> {
        let header = self.header(header::TEXTS)?;
        let refuse = |this: &Self| this.wrong("shape", header.shown_shape(), "(rows,) or (rows, columns)");
        let (rows, columns) = match *header.shape {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            _ => return Err(refuse(self)),
        };
        let sizes = usize::try_from(rows).ok().zip(usize::try_from(columns).ok());
        let sizes = sizes.filter(|&(rows, columns)| rows <= MAX_ROWS && columns <= MAX_FEATURES);
        let Some((rows, columns)) = sizes.filter(|&(rows, columns)| rows * columns <= MAX_VALUES) else {
            return Err(refuse(self));
        };
        let cell = header.cell(comma);
        let mut cells = Vec::new();
        self.elements(header.width, rows * columns, |_, bytes| {
            cells.push(cell(bytes));
            Ok(())
        })?;
        if header.fortran && columns > 1 {
            let order = (0..rows * columns).map(|at| (at % columns) * rows + at / columns);
            cells = order.map(|at| std::mem::take(&mut cells[at])).collect();
        }
        Ok((rows, columns, cells))
    }

    /// Reads rows of features, and the labels if a column of the array holds them (`label`). `names` are
    /// the names of the columns.
    pub(super) fn rows(
        &mut self,
        expected: &Expected,
        label: &LabelColumn,
        names: Option<Vec<String>>,
    ) -> Result<(Columns, Vec<f32>, Labels), DataError> {
        let header = self.header(header::NUMBERS)?;
        let refuse = |limit: &str, this: &Self| this.wrong("shape", header.shown_shape(), limit);
        let (&rows, shape) = match header.shape.split_first() {
            Some((rows, shape)) if (1..=3).contains(&shape.len()) => (rows, shape),
            _ => return Err(refuse("(rows, columns)", self)),
        };
        if shape.len() > 1 && (header.fortran || *label != LabelColumn::None) {
            return Err(refuse(
                "(rows, columns), or with labels of their own up to 4 dimensions in C order",
                self,
            ));
        }
        // Saturation is enough: a saturated product is above the limits.
        let count = shape.iter().fold(1u64, |product, &size| product.saturating_mul(size));
        let limit = |what, found: u64, limit: usize| {
            Err(DataError::Limit { file: self.file.into(), what, found, limit: limit as u64 })
        };
        if count > MAX_FEATURES as u64 {
            return limit("too many columns", count, MAX_FEATURES);
        }
        if rows > MAX_ROWS as u64 {
            return limit("too many rows", rows, MAX_ROWS);
        }
        if rows * count > MAX_VALUES as u64 {
            return limit("too many numbers", rows * count, MAX_VALUES);
        }
        if rows == 0 || count == 0 {
            return Err(DataError::NoRows { file: self.file.into(), header: true });
        }
        let (rows, count) = (rows as usize, count as usize);
        if let Some(names) = names.as_ref().filter(|names| names.len() != count) {
            return Err(refuse(&format!("{} columns, one for each name", names.len()), self));
        }
        let found = columns::Header { file: self.file, place: "the array", line: 1, count, names };
        let aside = found.aside(label, expected.drop)?;
        let columns = found.columns(&aside, expected)?;
        let place = |i: usize| {
            let (row, column) = if header.fortran { (i % rows, i / rows) } else { (i / count, i % count) };
            format!("row {}, column {}", row + 1, column + 1)
        };
        let values = self.numbers(&header, rows * count, place)?;
        let mut labels = Labels::new(expected);
        let as_they_are = columns.roles.iter().enumerate().all(|(i, role)| *role == Role::Feature(i));
        if as_they_are && !header.fortran {
            return Ok((columns, values, labels));
        }
        let mut out = vec![0.0; rows * columns.features];
        for (row, out) in out.chunks_exact_mut(columns.features).enumerate() {
            for (column, role) in columns.roles.iter().enumerate() {
                let i = if header.fortran { column * rows + row } else { row * count + column };
                match *role {
                    Role::Dropped => {}
                    Role::Feature(at) => out[at] = values[i],
                    Role::Label => {
                        let pushed = whole(f64::from(values[i])).and_then(|text| labels.push(&text));
                        let at = || format!("the label in {}", place(i));
                        pushed.map_err(|expected| self.wrong(&at(), values[i].to_string(), expected))?;
                    }
                }
            }
        }
        Ok((columns, out, labels))
    }

    /// Adds the labels of this array, one for each of `rows` rows.
    pub(super) fn labels(&mut self, rows: usize, labels: &mut Labels) -> Result<(), DataError> {
        for (i, text) in self.texts(Some(rows))?.iter().enumerate() {
            let refuse = |expected| self.wrong(&format!("label {i}"), quoted(text.as_bytes()), expected);
            labels.push(text.trim()).map_err(refuse)?;
        }
        Ok(())
    }
}

fn stream(source: &mut Source) -> Stream<'_> {
    Stream { file: &source.file, name: String::new(), gzip: source.gzip, reader: &mut source.reader }
}

pub(super) fn read(mut source: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let beside = expected.labels_file.filter(|_| expected.label != LabelColumn::None);
    let label = if beside.is_some() { &LabelColumn::None } else { &expected.label };
    let (columns, values, mut labels) = stream(&mut source).rows(expected, label, None)?;
    if let Some(path) = beside {
        read_labels(Source::open(path, None)?, values.len() / columns.features, &mut labels)?;
    }
    Ok(labels.finish(columns.features, values).named(columns))
}

fn read_labels(mut source: Source, rows: usize, labels: &mut Labels) -> Result<(), DataError> {
    stream(&mut source).labels(rows, labels)
}
