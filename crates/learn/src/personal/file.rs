//! A personal model and its file.
//!
//! The file is in the format safetensors, like a network's file ([`Classifier`]). Its format name is
//! `flyswarm-personal/1`, so that no program mistakes it for a network. Its tensors `datastore.keys`
//! (F32, keys x width) and `datastore.labels` (U16) are representations and classes of private rows. The
//! tensor `network` (U8) is the network's file. `__metadata__` has `k`, `scale`, `lambda`, `contents` and
//! `part`, all as texts. Each model has exactly one encoding.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use ndarray::{Array2, ArrayView2};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::mix::highest;
use super::{Datastore, Drift, Mixture, PersonalError, probabilities};
use crate::learner::{Classifier, ClassifierError, looks_like};
use crate::model::npz::{Archive, linear};
use flyswarm_sealed_sum::crypto::tagged_hash;
use flyswarm_sealed_sum::files::write_private;

/// Value of `format`.
const FORMAT: &str = "flyswarm-personal/1";
/// Largest length of a header. Headers are short, because they have no list.
const MAX_HEADER: usize = 1 << 12;

/// Rows of a peer that become keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contents {
    /// All rows.
    All,
    /// This share of the rows, above 0 and below 1. The classes keep their proportions.
    Sample(f64),
    /// Prototypes. Their number is this share of the rows, above 0 and below 1.
    Prototypes(f64),
}

/// A network and the datastore of a peer's own rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalModel {
    network: Classifier,
    datastore: Datastore,
    mixture: Mixture,
    contents: Contents,
}

fn bad<T>(text: impl Into<String>) -> Result<T, PersonalError> {
    Err(PersonalError::Bad(text.into()))
}

impl Contents {
    fn named(self) -> (&'static str, f64) {
        match self {
            Self::All => ("all", 1.0),
            Self::Sample(part) => ("sample", part),
            Self::Prototypes(part) => ("prototypes", part),
        }
    }

    /// Returns `all`, `sample` or `prototypes`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.named().0
    }

    /// Returns the number of keys as a share of the rows: 1 for `All`.
    #[must_use]
    pub fn part(self) -> f64 {
        self.named().1
    }

    fn from_name(name: &str, part: f64) -> Option<Self> {
        Some(match name {
            "all" => Self::All,
            "sample" => Self::Sample(part),
            "prototypes" => Self::Prototypes(part),
            _ => return None,
        })
    }

    fn check(self) -> Result<(), PersonalError> {
        match self {
            Self::Sample(part) | Self::Prototypes(part) if !(part > 0.0 && part < 1.0) => {
                Err(PersonalError::Setting("capacity", part, "above 0, below 1"))
            }
            _ => Ok(()),
        }
    }

    /// Makes a datastore with these contents from a datastore of all rows.
    ///
    /// # Errors
    /// [`PersonalError::Setting`] if the share is out of range, and the errors of [`Datastore::prototypes`].
    pub fn of(self, all: &Datastore, seed: &[u8]) -> Result<Datastore, PersonalError> {
        self.check()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the keys")]
        let count = |part: f64| ((part * all.len() as f64).round() as usize).max(1);
        match self {
            Self::All => Ok(all.clone()),
            Self::Sample(part) => Ok(all.sample(count(part), seed)),
            Self::Prototypes(part) => all.prototypes(count(part), seed),
        }
    }
}

impl PersonalModel {
    /// Makes a model from its parts. `contents` describes how the datastore was made.
    ///
    /// # Errors
    /// [`PersonalError`] if the parts do not fit together.
    pub fn new(
        network: Classifier,
        datastore: Datastore,
        mixture: Mixture,
        contents: Contents,
    ) -> Result<Self, PersonalError> {
        mixture.check()?;
        contents.check()?;
        let (width, classes) = (network.network().representation(), network.classes().len());
        if (datastore.width(), datastore.classes()) != (width, classes) {
            return Err(PersonalError::Shape(format!(
                "keys of {} numbers with {} classes, but the network has {width} and {classes}",
                datastore.width(),
                datastore.classes()
            )));
        }
        Ok(Self { network, datastore, mixture, contents })
    }

    /// Returns the network.
    #[must_use]
    pub fn network(&self) -> &Classifier {
        &self.network
    }

    /// Returns the keys.
    #[must_use]
    pub fn datastore(&self) -> &Datastore {
        &self.datastore
    }

    /// Returns how neighbours vote and how they are mixed with the network.
    #[must_use]
    pub fn mixture(&self) -> Mixture {
        self.mixture
    }

    /// Returns how the rows became the keys of the datastore.
    #[must_use]
    pub fn contents(&self) -> Contents {
        self.contents
    }

    /// Returns the probability of each class for each row, rows x classes.
    ///
    /// # Errors
    /// [`PersonalError`] if the rows have a different width, or if a computed number is not finite.
    pub fn probabilities(&self, rows: ArrayView2<'_, f32>) -> Result<Array2<f64>, PersonalError> {
        let (keys, scores) = self.network.represent(rows)?;
        let neighbours = self.mixture.neighbours(&self.datastore, keys.view())?;
        Ok(self.mixture.mix(neighbours.view(), probabilities(scores.view()).view()))
    }

    /// Returns the class index of each row: the most probable class, or the first of equally probable
    /// classes.
    ///
    /// # Errors
    /// As [`PersonalModel::probabilities`].
    pub fn predict(&self, rows: ArrayView2<'_, f32>) -> Result<Vec<u16>, PersonalError> {
        Ok(self.probabilities(rows)?.rows().into_iter().map(highest).collect())
    }

    /// Adds new rows to the datastore according to `drift`. Lambda does not change, because the network's
    /// outputs for the rows that chose it are not kept.
    ///
    /// # Errors
    /// [`PersonalError`]. After an error the model is unchanged.
    pub fn take_in(
        &mut self,
        rows: ArrayView2<'_, f32>,
        labels: &[u16],
        drift: Drift,
    ) -> Result<(), PersonalError> {
        let (keys, _) = self.network.represent(rows)?;
        self.datastore.take_in(keys.view(), labels, drift)
    }

    /// Returns SHA-256 of the tag `personal` and of the file.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let hash: Sha256 = tagged_hash("personal").chain_update(self.encode());
        hash.finalize().into()
    }

    /// Encodes the model as the bytes of a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (mut header, mut at) = (Map::new(), 0);
        let network = self.network.encode();
        let (rows, width) = self.datastore.keys().dim();
        for (name, dtype, shape, bytes) in [
            ("datastore.keys", "F32", vec![rows, width], 4 * rows * width),
            ("datastore.labels", "U16", vec![rows], 2 * rows),
            ("network", "U8", vec![network.len()], network.len()),
        ] {
            let place = json!({"dtype": dtype, "shape": shape, "data_offsets": [at, at + bytes]});
            header.insert(name.into(), place);
            at += bytes;
        }
        let Mixture { k, scale, lambda } = self.mixture;
        let (contents, part) = self.contents.named();
        let metadata = json!({
            "format": FORMAT, "k": k.to_string(), "scale": scale.to_string(), "lambda": lambda.to_string(),
            "contents": contents, "part": part.to_string(),
        });
        header.insert("__metadata__".into(), metadata);
        let mut text = Value::Object(header).to_string();
        while !text.len().is_multiple_of(8) {
            text.push(' ');
        }
        let mut bytes = Vec::with_capacity(8 + text.len() + at);
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(self.datastore.keys().iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(self.datastore.labels().iter().flat_map(|label| label.to_le_bytes()));
        bytes.extend(network);
        bytes
    }

    /// Decodes the bytes of a file.
    ///
    /// # Errors
    /// [`PersonalError`], also if the decoded model would be encoded as other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, PersonalError> {
        let short = || PersonalError::Bad("the file is cut off".into());
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER {
            return bad("the file has no header of safetensors");
        }
        let (text, data) = rest.split_at_checked(length).ok_or_else(short)?;
        let header: Value = match serde_json::from_slice(text) {
            Ok(header) => header,
            Err(error) => return bad(format!("the header: {error}")),
        };
        let missing = |name: &str| PersonalError::Bad(format!("{name} is missing or not valid"));
        let field = |name: &str| header["__metadata__"][name].as_str().ok_or_else(|| missing(name));
        if field("format")? != FORMAT {
            return bad(format!("format is {:?}, expected {FORMAT}", field("format")?));
        }
        let number = |name: &str| field(name)?.parse::<f64>().map_err(|_| missing(name));
        let size = |at: usize| {
            let size = header["datastore.keys"]["shape"][at].as_u64().and_then(|size| size.try_into().ok());
            size.ok_or_else(|| missing("datastore.keys"))
        };
        let (rows, width): (usize, usize) = (size(0)?, size(1)?);
        let keys = rows.checked_mul(width).and_then(|numbers| numbers.checked_mul(4)).ok_or_else(short)?;
        let (keys, data) = data.split_at_checked(keys).ok_or_else(short)?;
        let (labels, network) =
            rows.checked_mul(2).and_then(|labels| data.split_at_checked(labels)).ok_or_else(short)?;
        let network = Classifier::decode(network)?;
        let keys = keys.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
        let keys = Array2::from_shape_vec((rows, width), keys).map_err(|_| short())?;
        let labels = labels.as_chunks::<2>().0.iter().map(|&label| u16::from_le_bytes(label)).collect();
        let datastore = Datastore::new(keys, labels, network.classes().len())?;
        let k = field("k")?.parse().map_err(|_| missing("k"))?;
        let mixture = Mixture { k, scale: number("scale")?, lambda: number("lambda")? };
        let contents = Contents::from_name(field("contents")?, number("part")?);
        let contents = contents.ok_or_else(|| missing("contents"))?;
        let model = Self::new(network, datastore, mixture, contents)?;
        if model.encode() != bytes {
            return bad("the header does not match the model");
        }
        Ok(model)
    }

    /// Returns whether a file may be a personal model, judged by its first bytes (at least 512).
    #[must_use]
    pub fn looks_like(bytes: &[u8]) -> bool {
        looks_like(bytes, FORMAT)
    }

    /// Writes keys, classes and network as an NPZ archive, for use without this program.
    /// `lab/tables/networks.md` describes its arrays.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_npz<W: Write + Seek>(&self, out: W) -> io::Result<W> {
        let mut archive = Archive::new(out);
        let classes = self.network.classes();
        let (rows, width) = self.datastore.keys().dim();
        archive.array("version", "<i8", &[], [1i64.to_le_bytes()])?;
        archive.texts("classes", &[classes.len()], classes.iter().map(String::as_str))?;
        let keys = self.datastore.keys();
        archive.array("keys", "<f4", &[rows, width], keys.iter().map(|number| number.to_le_bytes()))?;
        let labels = self.datastore.labels().iter().map(|label| label.to_le_bytes());
        archive.array("labels", "<u2", &[rows], labels)?;
        archive.array("k", "<i8", &[], [(self.mixture.k as u64).to_le_bytes()])?;
        archive.array("length_scale", "<f8", &[], [self.mixture.scale.to_le_bytes()])?;
        archive.array("lambda", "<f8", &[], [self.mixture.lambda.to_le_bytes()])?;
        archive.texts("scaling", &[], [self.network.scaler().scaling().name()])?;
        let (shift, scale) = linear(self.network.scaler());
        archive.array("shift", "<f8", &[shift.len()], shift.iter().map(|x| x.to_le_bytes()))?;
        archive.array("scale", "<f8", &[scale.len()], scale.iter().map(|x| x.to_le_bytes()))?;
        for tensor in self.network.network().tensors() {
            let weights = &self.network.weights()[tensor.start..tensor.start + tensor.len()];
            archive.array(&tensor.name, "<f4", &tensor.shape, weights.iter().map(|x| x.to_le_bytes()))?;
        }
        archive.finish()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`PersonalError`].
    pub fn load(path: &Path) -> Result<Self, PersonalError> {
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(ClassifierError::Io)?;
        Self::decode(&bytes)
    }

    /// Writes a file that only its owner may read (mode 0600). An existing file is replaced as a whole.
    ///
    /// # Errors
    /// [`ClassifierError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), PersonalError> {
        Ok(write_private(path, &self.encode(), true).map_err(ClassifierError::Io)?)
    }
}
