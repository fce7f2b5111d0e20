//! The only encoding of a preparation, part of session ids and model files.
//!
//! | bytes | content |
//! | --- | --- |
//! | 1 | delimiter: its byte, or 0 if it is detected by the header |
//! | 1 | 1 for a decimal comma, otherwise 0 |
//! | 2, .. | number of texts for missing values (u16), and the texts |
//! | .. | text: the label column, empty without a label |
//! | 2, .. | number of columns (u16); each as below |
//! | .. | text: the group column, only if there is one |
//!
//! A column:
//!
//! | bytes | content |
//! | --- | --- |
//! | .. | text: its name |
//! | 1 | kind: 0 ignored, 1 number, 2 category, 3 ordinal, 4 date year-month-day, 5 date day-month-year, 6 date month-day-year |
//! | 2, .. | kinds 2 and 3 only: number of levels (u16), and the levels |
//! | 1 | fill: 0 refuse, 1 number, 2 level, 3 no level, 4 mean or most frequent level over all peers |
//! | .. | the number (f64), or the level as a text |
//! | 1 | indicator, 0 or 1 |
//! | 1 | limits: 1 for a min + 2 for a max + 4 to clip + 8 if texts that are not levels count as missing |
//! | .. | min, max (f64) |
//!
//! A text is its length (u16, at most 256) and UTF-8. All numbers are little-endian.

use super::{
    ColumnSpec, DateOrder, Fill, Kind, MAX_DESCRIBED, MAX_LEVELS, MAX_TOKENS, PrepareError, TableSchema,
};
use crate::MAX_CLASS_NAME;

/// Upper bound of the encoding's length for a preparation that passes [`TableSchema::check`]; it follows
/// from the limit of features.
pub const MAX_ENCODED: usize = 1 << 26;

impl TableSchema {
    /// Returns the encoding; see the [module](self).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.delimiter.unwrap_or(0), self.decimal_comma.into()];
        put_texts(&mut out, &self.missing);
        put_text(&mut out, self.label.as_deref().unwrap_or(""));
        out.extend((self.columns.len() as u16).to_le_bytes());
        for ColumnSpec { name, kind, fill, indicator, min, max, clip, others_missing } in &self.columns {
            put_text(&mut out, name);
            out.push(match kind {
                Kind::Ignored => 0,
                Kind::Number => 1,
                Kind::Category(_) => 2,
                Kind::Ordinal(_) => 3,
                Kind::Date(DateOrder::YearMonthDay) => 4,
                Kind::Date(DateOrder::DayMonthYear) => 5,
                Kind::Date(DateOrder::MonthDayYear) => 6,
            });
            if let Kind::Category(levels) | Kind::Ordinal(levels) = kind {
                put_texts(&mut out, levels);
            }
            match fill {
                Fill::Refuse => out.push(0),
                Fill::Number(value) => {
                    out.push(1);
                    out.extend(value.to_le_bytes());
                }
                Fill::Level(level) => {
                    out.push(2);
                    put_text(&mut out, level);
                }
                Fill::NoLevel => out.push(3),
                Fill::Pooled => out.push(4),
            }
            out.push((*indicator).into());
            let limits = u8::from(min.is_some()) | u8::from(max.is_some()) << 1;
            out.push(limits | u8::from(*clip) << 2 | u8::from(*others_missing) << 3);
            [min, max].into_iter().flatten().for_each(|limit| out.extend(limit.to_le_bytes()));
        }
        self.group.iter().for_each(|group| put_text(&mut out, group));
        out
    }

    /// Decodes the bytes of [`TableSchema::encode`]. The bytes may come from another machine.
    ///
    /// # Errors
    /// [`PrepareError`] with the problem and its place, also if a rule of [`TableSchema::check`] is
    /// broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, PrepareError> {
        let mut reader = Reader { rest: bytes, length: bytes.len() };
        let delimiter = Some(reader.byte()?).filter(|&byte| byte != 0);
        let decimal_comma = reader.flag()?;
        let missing = reader.texts(MAX_TOKENS)?;
        let label = Some(reader.text()?).filter(|label| !label.is_empty());
        let count = reader.count(MAX_DESCRIBED)?;
        let columns = (0..count).map(|_| reader.column()).collect::<Result<_, _>>()?;
        let group = if reader.rest.is_empty() { None } else { Some(reader.text()?) };
        if !reader.rest.is_empty() {
            return Err(reader.refuse("the end"));
        }
        let mut out = Self { delimiter, decimal_comma, missing, label, group, columns };
        out.check()?;
        out.normalise();
        // -0 would be a second encoding of the same value.
        if out.encode() == bytes { Ok(out) } else { Err(reader.refuse("no -0")) }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    out.extend((texts.len() as u16).to_le_bytes());
    texts.iter().for_each(|text| put_text(out, text));
}

/// Reads fields from the front.
struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl Reader<'_> {
    fn refuse(&self, expected: &str) -> PrepareError {
        let what = format!("byte {} of the preparation", self.length - self.rest.len());
        let found = self.rest.first().map_or("the end".into(), |byte| format!("{byte:#04x}"));
        PrepareError::new(what, found, expected)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PrepareError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.refuse("more bytes"))?;
        self.rest = tail;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, PrepareError> {
        self.array().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool, PrepareError> {
        match self.rest.first() {
            Some(0 | 1) => self.byte().map(|byte| byte == 1),
            _ => Err(self.refuse("0 or 1")),
        }
    }

    fn number(&mut self) -> Result<f64, PrepareError> {
        self.array().map(f64::from_le_bytes)
    }

    fn count(&mut self, limit: usize) -> Result<usize, PrepareError> {
        let count = usize::from(u16::from_le_bytes(self.array()?));
        if count > limit {
            Err(self.refuse(&format!("a number of at most {limit} before it")))
        } else {
            Ok(count)
        }
    }

    fn text(&mut self) -> Result<String, PrepareError> {
        let length = self.count(MAX_CLASS_NAME)?;
        let text = self.rest.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| self.refuse("a text"))?.to_owned();
        self.rest = self.rest.get(length..).unwrap_or_default();
        Ok(text)
    }

    fn texts(&mut self, limit: usize) -> Result<Vec<String>, PrepareError> {
        let count = self.count(limit)?;
        (0..count).map(|_| self.text()).collect()
    }

    fn column(&mut self) -> Result<ColumnSpec, PrepareError> {
        let name = self.text()?;
        let kind = match self.byte()? {
            0 => Kind::Ignored,
            1 => Kind::Number,
            2 => Kind::Category(self.texts(MAX_LEVELS)?),
            3 => Kind::Ordinal(self.texts(MAX_LEVELS)?),
            4 => Kind::Date(DateOrder::YearMonthDay),
            5 => Kind::Date(DateOrder::DayMonthYear),
            6 => Kind::Date(DateOrder::MonthDayYear),
            _ => return Err(self.refuse("a kind of 0 to 6 before it")),
        };
        let fill = match self.byte()? {
            0 => Fill::Refuse,
            1 => Fill::Number(self.number()?),
            2 => Fill::Level(self.text()?),
            3 => Fill::NoLevel,
            4 => Fill::Pooled,
            _ => return Err(self.refuse("a fill of 0 to 4 before it")),
        };
        let indicator = self.flag()?;
        let limits = self.byte()?;
        if limits > 15 {
            return Err(self.refuse("limits of 0 to 15 before it"));
        }
        let min = if limits & 1 != 0 { Some(self.number()?) } else { None };
        let max = if limits & 2 != 0 { Some(self.number()?) } else { None };
        let (clip, others_missing) = (limits & 4 != 0, limits & 8 != 0);
        Ok(ColumnSpec { name, kind, fill, indicator, min, max, clip, others_missing })
    }
}
