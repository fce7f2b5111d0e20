//! The model file, version 5. All numbers are little-endian, without padding. Each model has exactly one
//! encoding.
//!
//! | bytes | content |
//! | --- | --- |
//! | 15 | magic `flyswarm-model\0` |
//! | | *the model* |
//! | 2 | version, 5 |
//! | 4 x 4 | d, m, s, rho (u32) |
//! | 32 | seed |
//! | 1 | densify, 0 or 1 |
//! | 1 | score: 0 decay, 1 balanced-decay, 2 log, 3 balanced-log |
//! | 8 | gamma (f64, not -0.0) |
//! | 1 | calibration: 0 none, 1 + k: number k ([`super::calibration`]) |
//! | 1 | scaling: 0 none, 1 unit-norm, 2 range, 3 center, 4 standard, 5 soft-bins |
//! | .. | range: number of bounds k (u32, 1 or d), k lower and k upper bounds (f32); center: d means (f64); standard: d means, d deviations (f64); soft-bins: bins (u16), d means, d deviations (f64) |
//! | 2 | number of classes L (u16) |
//! | .. | L class names: length (u16) and UTF-8 bytes |
//! | 4 | number of column names (u32), 0 or d; or 2^32 - 1 if columns are described |
//! | .. | the names of the columns, all different: length (u16) and UTF-8 bytes; or the length (u32) of a preparation and its encoding ([`flyswarm_data::prepare::encoding`]), from which the names follow |
//! | 4 L m | counts (u32), row-major |
//! | 32 | [`Model::digest`]: SHA-256 of the tag `flyswarm/5 model\0` and of the model |
//! | | *its origin* |
//! | 1 | 0: not known, and nothing of this part follows; 1: known |
//! | .. | name of the session: length (u16) and UTF-8 bytes |
//! | 32 | its id |
//! | 2 + 2 | peers of its roster, peers whose rows were counted (u16) |
//! | .. | names of the latter: length (u16) and UTF-8 bytes |
//! | 1 | 1 if noise was added to the counts, otherwise 0 |
//! | .. | protocol, program: length (u16) and UTF-8 bytes |
//! | 8 | time of writing, seconds since 1970 (u64) |
//! | 32 | checksum: SHA-256 of the tag `flyswarm/5 model file\0` and of all bytes from the version on |
//!
//! The digest covers everything that decides how rows are read and classes predicted, so it is the same
//! at every peer of a session. The origin follows after it, because date and program differ between
//! peers. Checksum and digest detect accidents, not forgery.
//!
//! The known range of a feature's values follows from the numbers of the scaling ([`super::outside`]). The
//! number of rows of each class follows from the counts ([`Model::class_rows`]).

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::bloom::Counts;
use super::calibration::Calibration;
use super::origin::{MAX_MEMBERS, MAX_TEXT, Origin};
use super::readout::{Readout, Score};
use super::{Model, ModelError};
use crate::sketch::{MAX_COUNTS, Parameters};
use flyswarm_data::prepare::TableSchema;
use flyswarm_data::prepare::encoding::MAX_ENCODED;
use flyswarm_data::scaling::{Scaler, Scaling, ScalingError};
use flyswarm_data::{MAX_CLASS_NAME, MAX_FEATURES};
use flyswarm_sealed_sum::crypto::stream::PROTOCOL;
use flyswarm_sealed_sum::files::write_whole;

/// First bytes of a model file.
pub const MAGIC: &[u8; 15] = b"flyswarm-model\0";
/// Version in the table above.
pub const VERSION: u16 = 5;
/// Value used instead of the number of column names if columns are described.
const DESCRIBED: u32 = u32::MAX;
/// Length of the longest model file: the most counts, and room for bounds and names of classes, columns
/// and members.
const MAX_FILE: u64 = 4 * MAX_COUNTS as u64
    + 16 * MAX_FEATURES as u64
    + (MAX_CLASS_NAME as u64 + 2) * (65_535 + MAX_FEATURES as u64 + MAX_MEMBERS as u64)
    + MAX_ENCODED as u64
    + 4096;

/// Reason why a model file was refused or could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file could not be read or written. After a failed write, the old file is still there.
    #[error("{}: {source}", file.display())]
    Io {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The bytes are not a model.
    #[error("{}: {problem}", file.display())]
    Bad {
        /// Path of the file.
        file: PathBuf,
        /// Reason.
        problem: DecodeError,
    },
}

/// Reason why bytes are not a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The file is of another kind.
    #[error("not a flyswarm model file")]
    Magic,
    /// The file was written by another version of this program.
    #[error("model file version {0}, expected {VERSION}")]
    Version(u16),
    /// A field has an impossible value.
    #[error("{field} at byte {at} is {found}, expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Position of the field, from 0.
        at: usize,
        /// Value found.
        found: u64,
        /// Valid values.
        expected: &'static str,
    },
    /// The bytes end too early.
    #[error("truncated: {field} needs {needed} bytes at byte {at}, found {found}")]
    Truncated {
        /// Name of the field.
        field: &'static str,
        /// Position of the field, from 0.
        at: usize,
        /// Number of bytes that the field needs.
        needed: usize,
        /// Number of bytes that are left.
        found: usize,
    },
    /// Bytes follow the end.
    #[error("{0} bytes after the end of the model")]
    Trailing(usize),
    /// The file is longer than any model.
    #[error("longer than {MAX_FILE} bytes")]
    Long,
    /// The bytes were changed.
    #[error("the checksum does not match: the file is damaged")]
    Checksum,
    /// A name is not text.
    #[error("{field} at byte {at} is not UTF-8 text")]
    Text {
        /// Name of the field.
        field: &'static str,
        /// Position of the field, from 0.
        at: usize,
    },
    /// The fields do not fit together.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The scaler's numbers are impossible.
    #[error(transparent)]
    Scaling(#[from] ScalingError),
}

impl Model {
    /// Encodes the model as the bytes of a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = self.body();
        let mut bytes = [&MAGIC[..], &body, &digest(&body)].concat();
        bytes.extend(origin_bytes(self.origin.as_ref()));
        let sum = checksum(&bytes[MAGIC.len()..]);
        bytes.extend(sum);
        bytes
    }

    /// Returns the SHA-256 of everything that decides how rows are read and classes predicted. It is
    /// equal on all peers that hold the same model even if their origins differ.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        digest(&self.body())
    }

    /// Encodes the fields of the model, from the version to the counts.
    fn body(&self) -> Vec<u8> {
        let parameters = self.sketch.parameters();
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for size in [parameters.d, parameters.m, parameters.s, parameters.rho] {
            bytes.extend((size as u32).to_le_bytes());
        }
        bytes.extend(parameters.seed);
        bytes.push(parameters.densify.into());
        bytes.push(match self.readout.score {
            Score::Decay => 0,
            Score::BalancedDecay => 1,
            Score::Log => 2,
            Score::BalancedLog => 3,
        });
        bytes.extend(self.readout.gamma.to_le_bytes());
        bytes.push(self.calibration.map_or(0, |calibration| 1 + calibration.number()));
        bytes.push(match &parameters.scaling {
            Scaling::None => 0,
            Scaling::UnitNorm => 1,
            Scaling::Range { .. } => 2,
            Scaling::Center => 3,
            Scaling::Standard => 4,
            Scaling::SoftBins(_) => 5,
        });
        if let Scaling::Range { lo, hi } = &parameters.scaling {
            bytes.extend((lo.len() as u32).to_le_bytes());
            bytes.extend(lo.iter().chain(hi).flat_map(|x| x.to_le_bytes()));
        }
        if let Scaling::SoftBins(bins) = &parameters.scaling {
            bytes.extend(bins.to_le_bytes());
        }
        let moments = self.scaler.means().iter().chain(self.scaler.deviations());
        bytes.extend(moments.flat_map(|x| x.to_le_bytes()));
        bytes.extend((self.classes.len() as u16).to_le_bytes());
        self.classes.iter().for_each(|name| put_text(&mut bytes, name));
        if let Some(preparation) = &self.preparation {
            let encoded = preparation.encode();
            bytes.extend(DESCRIBED.to_le_bytes());
            bytes.extend((encoded.len() as u32).to_le_bytes());
            bytes.extend(encoded);
        } else {
            bytes.extend((self.columns.len() as u32).to_le_bytes());
            self.columns.iter().for_each(|name| put_text(&mut bytes, name));
        }
        bytes.extend(self.counts.to_le_bytes());
        bytes
    }

    /// Decodes the bytes of a file. Every length is checked before memory is allocated.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(DecodeError::Magic)?;
        let mut reader = Reader { rest, at: MAGIC.len() };
        let version = u16::from_le_bytes(reader.array("version")?);
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        // Checked before any other field, so that damage is reported as damage.
        let (rest, sum) = rest.split_last_chunk::<32>().ok_or(DecodeError::Truncated {
            field: "checksum",
            at: MAGIC.len(),
            needed: 32,
            found: rest.len(),
        })?;
        if checksum(rest) != *sum {
            return Err(DecodeError::Checksum);
        }
        reader.rest = rest.get(2..).unwrap_or_default();

        let [d, m, s, rho] = [reader.size("d")?, reader.size("m")?, reader.size("s")?, reader.size("rho")?];
        if d > MAX_FEATURES {
            return Err(reader.field("d", d as u64, "at most 2^20"));
        }
        let seed = reader.array("seed")?;
        let densify = reader.flag("densify")?;
        let score = match reader.byte("score")? {
            0 => Score::Decay,
            1 => Score::BalancedDecay,
            2 => Score::Log,
            3 => Score::BalancedLog,
            other => return Err(reader.field("score", other.into(), "0 to 3")),
        };
        let gamma = f64::from_le_bytes(reader.array("gamma")?);
        let calibration = match reader.byte("calibration")? {
            0 => None,
            byte => Some(
                Calibration::new(byte - 1)
                    .ok_or_else(|| reader.field("calibration", byte.into(), "0 to 32"))?,
            ),
        };
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        let scaling = match reader.byte("scaling")? {
            0 => Scaling::None,
            1 => Scaling::UnitNorm,
            2 => {
                let bounds = reader.size("number of bounds")?;
                if bounds != 1 && bounds != d {
                    return Err(reader.field("number of bounds", bounds as u64, "1 or d"));
                }
                Scaling::Range {
                    lo: reader.numbers("bounds", bounds, f32::from_le_bytes)?,
                    hi: reader.numbers("bounds", bounds, f32::from_le_bytes)?,
                }
            }
            3 => {
                means = reader.numbers("means", d, f64::from_le_bytes)?;
                Scaling::Center
            }
            4 => {
                means = reader.numbers("means", d, f64::from_le_bytes)?;
                deviations = reader.numbers("deviations", d, f64::from_le_bytes)?;
                Scaling::Standard
            }
            5 => {
                let bins = u16::from_le_bytes(reader.array("bins")?);
                means = reader.numbers("means", d, f64::from_le_bytes)?;
                deviations = reader.numbers("deviations", d, f64::from_le_bytes)?;
                Scaling::SoftBins(bins)
            }
            other => return Err(reader.field("scaling", other.into(), "0 to 5")),
        };
        let count = u16::from_le_bytes(reader.array("number of classes")?);
        let mut classes = Vec::new();
        for _ in 0..count {
            classes.push(reader.text("class name", MAX_CLASS_NAME)?);
        }
        let named = reader.size("number of column names")?;
        let described = named == DESCRIBED as usize;
        if named != 0 && named != d && !described {
            return Err(reader.field("number of column names", named as u64, "0, d or 2^32 - 1"));
        }
        let mut preparation = None;
        if described {
            let length = reader.size("length of the preparation")?;
            if length > MAX_ENCODED {
                return Err(reader.field("length of the preparation", length as u64, "at most 2^26"));
            }
            let encoded = reader.take("preparation", length)?;
            preparation = Some(Arc::new(TableSchema::decode(encoded).map_err(ModelError::from)?));
        }
        let named = if described { 0 } else { named };
        let mut columns = Vec::new();
        for _ in 0..named {
            columns.push(reader.text("column name", MAX_CLASS_NAME)?);
        }
        let parameters = Parameters { d, m, s, rho, seed, densify, scaling };
        let sketch = parameters.check(classes.len()).map_err(ModelError::from)?;
        // The check above bounds m x classes.
        let counts = reader.take("counts", 4 * m * classes.len())?;
        let body = rest.get(..reader.at - MAGIC.len()).unwrap_or_default();
        if reader.array("digest")? != digest(body) {
            return Err(DecodeError::Checksum);
        }
        let origin = origin(&mut reader)?;
        if !reader.rest.is_empty() {
            return Err(DecodeError::Trailing(reader.rest.len()));
        }
        let counts = Counts::from_le_bytes(counts, classes.len(), m).map_err(ModelError::from)?;
        let scaler = Scaler::from_parts(sketch.parameters().scaling.clone(), d, means, deviations)?;
        let model = Self::new(sketch, Readout { score, gamma }, classes, scaler, counts)?;
        let model = match preparation {
            Some(preparation) => model.with_preparation(preparation)?,
            None => model.with_columns(columns)?,
        };
        Ok(Self { calibration, origin, ..model })
    }

    /// Reads a model file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let failed = |source| FileError::Io { file: path.into(), source };
        let bad = |problem| FileError::Bad { file: path.into(), problem };
        let mut file = File::open(path).map_err(failed)?.take(MAX_FILE + 1);
        let mut bytes = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut bytes).map_err(failed)?;
        if bytes != MAGIC {
            return Err(bad(DecodeError::Magic));
        }
        file.read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(bad(DecodeError::Long));
        }
        Self::decode(&bytes).map_err(bad)
    }

    /// Writes a model file: under another name in the same folder, synced, then renamed. So `path` always
    /// holds the old file or the new one.
    ///
    /// # Errors
    /// [`FileError::Io`]. After an error the file at `path` is unchanged.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        write_whole(path, &self.encode(), true).map_err(|source| FileError::Io { file: path.into(), source })
    }
}

fn digest(body: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(PROTOCOL).chain_update(" model\0").chain_update(body).finalize().into()
}

/// Computes the checksum of all bytes except the magic and the checksum itself.
fn checksum(bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(PROTOCOL).chain_update(" model file\0").chain_update(bytes).finalize().into()
}

/// Writes a text of at most 256 bytes. A longer text of an origin is cut off here. The lengths of all other
/// texts were checked before.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let text = &text[..end];
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn origin_bytes(origin: Option<&Origin>) -> Vec<u8> {
    let Some(origin) = origin else { return vec![0] };
    let mut bytes = vec![1];
    put_text(&mut bytes, &origin.session);
    bytes.extend(origin.id);
    bytes.extend(origin.roster.to_le_bytes());
    let members = &origin.members[..origin.members.len().min(MAX_MEMBERS)];
    bytes.extend((members.len() as u16).to_le_bytes());
    members.iter().for_each(|name| put_text(&mut bytes, name));
    bytes.push(origin.noised.into());
    put_text(&mut bytes, &origin.protocol);
    put_text(&mut bytes, &origin.program);
    bytes.extend(origin.unix.to_le_bytes());
    bytes
}

fn origin(reader: &mut Reader<'_>) -> Result<Option<Origin>, DecodeError> {
    if !reader.flag("origin")? {
        return Ok(None);
    }
    let session = reader.text("name of the session", MAX_TEXT)?;
    let id = reader.array("id of the session")?;
    let roster = u16::from_le_bytes(reader.array("peers of the roster")?);
    let count = u16::from_le_bytes(reader.array("number of members")?);
    if usize::from(count) > MAX_MEMBERS {
        return Err(reader.field("number of members", count.into(), "at most 1024"));
    }
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(reader.text("name of a member", MAX_TEXT)?);
    }
    let noised = reader.flag("noise")?;
    let protocol = reader.text("protocol", MAX_TEXT)?;
    let program = reader.text("program", MAX_TEXT)?;
    let unix = u64::from_le_bytes(reader.array("date")?);
    Ok(Some(Origin { session, id, members, roster, noised, protocol, program, unix }))
}

/// Reads fields from the front of a slice.
struct Reader<'a> {
    rest: &'a [u8],
    /// Position of `rest` in the file.
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, field: &'static str, needed: usize) -> Result<&'a [u8], DecodeError> {
        let (found, at) = (self.rest.len(), self.at);
        let Some((head, tail)) = self.rest.split_at_checked(needed) else {
            return Err(DecodeError::Truncated { field, at, needed, found });
        };
        self.rest = tail;
        self.at += needed;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(field, N)?);
        Ok(out)
    }

    fn byte(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array(field).map(|[byte]| byte)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.field(field, other.into(), "0 or 1")),
        }
    }

    /// Reads a length and at most `limit` bytes of UTF-8.
    fn text(&mut self, field: &'static str, limit: usize) -> Result<String, DecodeError> {
        let length = u16::from_le_bytes(self.array(field)?);
        if usize::from(length) > limit {
            return Err(self.field(field, length.into(), "at most 256 bytes"));
        }
        let at = self.at;
        let text = self.take(field, length.into())?;
        std::str::from_utf8(text).map(ToOwned::to_owned).map_err(|_| DecodeError::Text { field, at })
    }

    fn size(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        Ok(u32::from_le_bytes(self.array(field)?) as usize)
    }

    /// Reads `count` numbers of N bytes. `count` is at most [`MAX_FEATURES`].
    fn numbers<T, const N: usize>(
        &mut self,
        field: &'static str,
        count: usize,
        from: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, DecodeError> {
        let (chunks, _) = self.take(field, N * count)?.as_chunks::<N>();
        Ok(chunks.iter().map(|&bytes| from(bytes)).collect())
    }

    fn field(&self, field: &'static str, found: u64, expected: &'static str) -> DecodeError {
        DecodeError::Field { field, at: self.at, found, expected }
    }
}

#[cfg(test)]
mod tests;
