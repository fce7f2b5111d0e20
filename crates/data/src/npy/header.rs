//! The header of an NPY file: a Python dictionary with the keys `descr`, `fortran_order` and `shape`.

use super::super::prepare::value::typed;
use super::super::{quoted, whole};

/// Function that writes an element's bytes as a field of CSV.
pub(super) type ToField = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// Magic number and version.
pub(super) const MAGIC_LENGTH: usize = 8;
/// Elements that an array of features may hold.
pub(super) const NUMBERS: &str = "bool, integers, float32 or float64: save X.astype('float32')";
/// Elements that an array of labels or names may hold.
pub(super) const TEXTS: &str = "whole numbers, texts (dtype U or S) or bool: save y.astype(str)";

/// Error text for an array of objects; advice follows it.
pub(super) const OBJECTS: &str = "numbers or texts, not Python objects (a pickle, never opened here)";

/// Kind of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    Uint,
    Float,
    /// Characters of 4 bytes.
    Unicode,
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    kind: Kind,
    big_endian: bool,
    /// Bytes of an element, at least 1.
    pub(super) width: usize,
    /// The type as written in the header.
    pub(super) descr: String,
    pub(super) fortran: bool,
    pub(super) shape: Vec<u64>,
}

/// A problem with a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) what: &'static str,
    pub(super) found: String,
    pub(super) expected: &'static str,
}

fn problem<T>(what: &'static str, found: &[u8], expected: &'static str) -> Result<T, Problem> {
    Err(Problem { what, found: quoted(found), expected })
}

/// The unread rest of the text.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, word: &[u8]) -> bool {
        self.0 = self.0.trim_ascii_start();
        let Some(rest) = self.0.strip_prefix(word) else { return false };
        self.0 = rest;
        true
    }

    fn expect(&mut self, word: &'static [u8]) -> Result<(), Problem> {
        if self.take(word) {
            Ok(())
        } else {
            problem("header", self.0, "a dictionary of descr, fortran_order and shape")
        }
    }

    fn string(&mut self) -> Result<&'a [u8], Problem> {
        let quote = if self.take(b"'") { b'\'' } else { b'"' };
        if quote == b'"' && !self.take(b"\"") {
            return problem("header", self.0, "a text in quotes");
        }
        let text = self.0;
        let Some(end) = text.iter().position(|&b| b == quote || b == b'\\') else {
            return problem("header", text, "the end of a text in quotes");
        };
        self.0 = &text[end..];
        if self.take(&[quote]) {
            Ok(&text[..end])
        } else {
            problem("header", text, "a text without backslashes")
        }
    }

    fn integer(&mut self) -> Result<Option<u64>, Problem> {
        self.0 = self.0.trim_ascii_start();
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(None);
        }
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest.strip_prefix(b"L").unwrap_or(rest);
        match std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => problem("shape", number, "sizes below 2^64"),
        }
    }
}

impl Header {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Problem> {
        let mut rest = Rest(text);
        rest.expect(b"{")?;
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        while !rest.take(b"}") {
            let key = rest.string()?;
            rest.expect(b":")?;
            match key {
                b"descr" => {
                    if rest.take(b"[") {
                        let expected = "one type for all columns, not a structured array: save its columns as one 2-D float array";
                        return problem("type", rest.0, expected);
                    }
                    descr = Some(rest.string()?);
                }
                b"fortran_order" => {
                    fortran = Some(rest.take(b"True"));
                    if fortran == Some(false) && !rest.take(b"False") {
                        return problem("fortran_order", rest.0, "True or False");
                    }
                }
                b"shape" => {
                    rest.expect(b"(")?;
                    let mut sizes = Vec::new();
                    while let Some(size) = rest.integer()? {
                        sizes.push(size);
                        if !rest.take(b",") {
                            break;
                        }
                    }
                    rest.expect(b")")?;
                    shape = Some(sizes);
                }
                other => return problem("header", other, "descr, fortran_order and shape only"),
            }
            if !rest.take(b",") && !rest.0.trim_ascii_start().starts_with(b"}") {
                return problem("header", rest.0, "a comma or the end of the dictionary");
            }
        }
        if !rest.0.trim_ascii().is_empty() {
            return problem("header", rest.0, "nothing after the dictionary");
        }
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
            return problem("header", text, "all of descr, fortran_order and shape");
        };
        let (kind, big_endian, width) = kind(descr)?;
        let descr = String::from_utf8_lossy(descr).into_owned();
        Ok(Self { kind, big_endian, width, descr, fortran, shape })
    }

    /// Returns the shape as Python writes it.
    pub(super) fn shown_shape(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        format!("({}{})", sizes.join(", "), if sizes.len() == 1 { "," } else { "" })
    }

    /// Returns a function that reads an element as a number; `None` for texts.
    pub(super) fn number(&self) -> Option<impl Fn(&[u8]) -> f64 + use<>> {
        let Self { kind, big_endian, width, .. } = *self;
        if matches!(kind, Kind::Unicode | Kind::Bytes) {
            return None;
        }
        Some(move |bytes: &[u8]| {
            let word = word(bytes, big_endian);
            match (kind, width) {
                (Kind::Float, 4) => f64::from(f32::from_bits(word as u32)),
                (Kind::Float, _) => f64::from_bits(word),
                (Kind::Int, _) => signed(word, width) as f64,
                (Kind::Bool, _) => f64::from(u8::from(word != 0)),
                _ => word as f64,
            }
        })
    }

    /// Returns a function that reads an element as a field of CSV.
    pub(super) fn cell(&self, comma: bool) -> ToField {
        let Self { kind, width, .. } = *self;
        if let (Kind::Float, Some(number)) = (kind, self.number()) {
            return Box::new(move |bytes| {
                let (mut out, x) = (Vec::new(), number(bytes));
                match width {
                    4 => typed::float(&mut out, x as f32, comma),
                    _ => typed::float(&mut out, x, comma),
                }
                out
            });
        }
        if kind == Kind::Bytes {
            return Box::new(|bytes| {
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                bytes[..end].to_vec()
            });
        }
        let text = self.text();
        Box::new(move |bytes| {
            let text = text.as_ref().map_or(Ok(String::new()), |text| text(bytes));
            // The reader of the field refuses texts that are not Unicode.
            text.map_or_else(|_| b"\xff".to_vec(), String::into_bytes)
        })
    }

    /// Returns a function that reads an element as the text of a class or a name. Its error has what was
    /// found and what was expected.
    #[allow(clippy::type_complexity, reason = "named where it is used")]
    pub(super) fn text(&self) -> Option<Box<dyn Fn(&[u8]) -> Result<String, (String, String)>>> {
        let Self { kind, big_endian, width, .. } = *self;
        Some(match kind {
            Kind::Bool => {
                Box::new(move |bytes| Ok(if word(bytes, big_endian) == 0 { "False" } else { "True" }.into()))
            }
            Kind::Int => Box::new(move |bytes| Ok(signed(word(bytes, big_endian), width).to_string())),
            Kind::Uint => Box::new(move |bytes| Ok(word(bytes, big_endian).to_string())),
            Kind::Float => {
                let number = self.number()?;
                Box::new(move |bytes| {
                    let x = number(bytes);
                    whole(x).map_err(|expected| (x.to_string(), expected))
                })
            }
            Kind::Unicode => Box::new(move |bytes| {
                let points = bytes.chunks_exact(4).map(|point| word(point, big_endian) as u32);
                let text: Option<String> = points.map(char::from_u32).collect();
                let refused = || (format!("{bytes:02x?}"), "Unicode text".to_owned());
                Ok(text.ok_or_else(refused)?.trim_end_matches('\0').to_owned())
            }),
            Kind::Bytes => Box::new(move |bytes| {
                let text =
                    std::str::from_utf8(bytes).map_err(|_| (quoted(bytes), "UTF-8 text".to_owned()))?;
                Ok(text.trim_end_matches('\0').to_owned())
            }),
        })
    }
}

/// Joins the bytes of an integer, at most 8.
fn word(bytes: &[u8], big_endian: bool) -> u64 {
    let join = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
    if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
}

fn signed(word: u64, width: usize) -> i64 {
    let unused = 64 - 8 * width.clamp(1, 8) as u32;
    (word << unused) as i64 >> unused
}

/// Parses a type such as `<f8`: kind, big-endian or not, bytes of an element.
fn kind(descr: &[u8]) -> Result<(Kind, bool, usize), Problem> {
    let (big_endian, rest) = match descr {
        [b'<' | b'|' | b'=', rest @ ..] => (false, rest),
        [b'>', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let Some((letter, width)) = rest.split_first() else { return problem("type", descr, NUMBERS) };
    let width: Option<usize> = std::str::from_utf8(width).ok().and_then(|text| text.parse().ok());
    match (letter, width) {
        (b'O', _) => problem("type", descr, OBJECTS),
        (b'b', Some(1)) => Ok((Kind::Bool, big_endian, 1)),
        (b'i', Some(width @ (1 | 2 | 4 | 8))) => Ok((Kind::Int, big_endian, width)),
        (b'u', Some(width @ (1 | 2 | 4 | 8))) => Ok((Kind::Uint, big_endian, width)),
        (b'f', Some(width @ (4 | 8))) => Ok((Kind::Float, big_endian, width)),
        (b'U', Some(chars @ 1..=65_536)) => Ok((Kind::Unicode, big_endian, 4 * chars)),
        (b'S', Some(bytes @ 1..=65_536)) => Ok((Kind::Bytes, big_endian, bytes)),
        _ => problem("type", descr, NUMBERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_whatever_the_order_of_its_keys() {
        let text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }  \n";
        let header = Header::parse(text).unwrap();
        assert_eq!((header.kind, header.width, header.fortran), (Kind::Float, 8, false));
        assert_eq!(header.shape, [3, 4]);
        let other = Header::parse(b"{\"shape\":(7L,),\"fortran_order\":True,\"descr\":\">u2\"}").unwrap();
        assert_eq!((other.kind, other.width, other.fortran, other.big_endian), (Kind::Uint, 2, true, true));
        assert_eq!(other.shown_shape(), "(7,)");
        assert_eq!(other.number().unwrap()(&[1, 2]), 258.0);
    }

    #[test]
    fn elements_of_all_types_are_read() {
        let read = |descr: &str, bytes: &[u8]| {
            let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ()}}");
            let header = Header::parse(text.as_bytes()).unwrap();
            assert_eq!(header.width, bytes.len(), "{descr}");
            (header.number().map(|number| number(bytes)), header.text().unwrap()(bytes))
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(read("|b1", &[1]), (Some(1.0), ok("True")));
        assert_eq!(read("|i1", &[0xfe]), (Some(-2.0), ok("-2")));
        assert_eq!(read("<i8", &(-5i64).to_le_bytes()), (Some(-5.0), ok("-5")));
        assert_eq!(read(">i2", &(-3i16).to_be_bytes()), (Some(-3.0), ok("-3")));
        assert_eq!(read("<u8", &u64::MAX.to_le_bytes()).1, ok("18446744073709551615"));
        assert_eq!(read("<f4", &2.5f32.to_le_bytes()).0, Some(2.5));
        assert_eq!(read(">f8", &7f64.to_be_bytes()), (Some(7.0), ok("7")));
        assert!(read("<f8", &0.5f64.to_le_bytes()).1.unwrap_err().1.contains("whole number"));
        assert_eq!(read("<U2", &[0x61, 0, 0, 0, 0, 0, 0, 0]), (None, ok("a")));
        assert_eq!(read("|S3", b"ab\0"), (None, ok("ab")));
        assert!(read("<U1", &[0, 0xd8, 0, 0]).1.is_err());
    }

    #[test]
    fn bad_headers_are_refused_with_what_is_wrong() {
        for (text, what, part) in [
            ("", "header", "dictionary"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "type", "pickle"),
            ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,)}", "type", "structured"),
            ("{'descr': '<c16', 'fortran_order': False, 'shape': (3,)}", "type", "float32"),
            ("{'descr': '<f2', 'fortran_order': False, 'shape': (3,)}", "type", "float32"),
            ("{'descr': '<U0', 'fortran_order': False, 'shape': (3,)}", "type", "float32"),
            ("{'descr': '<f8', 'fortran_order': 0, 'shape': (3,)}", "fortran_order", "True or False"),
            ("{'descr': '<f8', 'shape': (3,)}", "header", "all of"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}", "shape", "below"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}", "header", "dictionary"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)} x", "header", "nothing after"),
            ("{'descr': '<f8' 'fortran_order': False, 'shape': (3,)}", "header", "comma"),
            ("{'descr': '<f8, 'fortran_order': False, 'shape': (3,)}", "header", "comma"),
            ("{'descr': '<\\x668', 'fortran_order': False, 'shape': (3,)}", "header", "backslashes"),
            ("{'x': 1}", "header", "only"),
        ] {
            let problem = Header::parse(text.as_bytes()).unwrap_err();
            assert_eq!(problem.what, what, "{text}: {problem:?}");
            assert!(problem.expected.contains(part), "{text}: {problem:?}");
        }
    }
}
