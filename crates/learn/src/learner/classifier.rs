//! A trained network with everything that prediction needs, and its file.
//!
//! The file is in the format safetensors (8 bytes with the length of a header, the header as JSON, then
//! numbers, all little-endian), so that PyTorch and other programs can read the weights. Tensors: if the
//! scaling has them, `scaler.means` and `scaler.deviations` (F64), then the network's (F32), named as in
//! [`Network::tensors`]. All entries of `__metadata__` are texts. `format` is `flyswarm-network/1`.
//! `architecture`, `scaling`, `classes` and `columns` are JSON. `preparation`, present only if columns are
//! described, is the encoding of [`flyswarm_data::prepare::encoding`] in hexadecimal digits. `positive`,
//! present only if the session has held-out rows and two classes, is the number of the rarer class. `session`
//! and `session_id` are the name and the id of the session that made the network. Objects have their keys in
//! byte order. The only white space is the blanks that fill the header to a multiple of 8 bytes. So each
//! model has exactly one encoding, the same bytes at every peer.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Architecture, MAX_WEIGHTS, Network, NetworkError, Tape};
use crate::model::{ModelError, check_classes};
use flyswarm_data::prepare::TableSchema;
use flyswarm_data::scaling::{Scaler, Scaling, ScalingError};
use flyswarm_data::{MAX_CLASSES, MAX_FEATURES};
use flyswarm_sealed_sum::crypto::tagged_hash;
use flyswarm_sealed_sum::files::write_whole;

/// Value of `format`.
const FORMAT: &str = "flyswarm-network/1";
/// Largest length of a header, which has the names of all columns and classes.
const MAX_HEADER: usize = 1 << 27;
/// Largest length of a file.
const MAX_FILE: usize = 8 + MAX_HEADER + 4 * MAX_WEIGHTS + 16 * MAX_FEATURES;

/// Reason why a classifier could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClassifierError {
    /// The file could not be read or written. After a failed write, the old file is still there.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a network's file.
    #[error("not a flyswarm network: {0}")]
    Bad(String),
    /// The architecture does not fit the rows.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A class or column name is invalid.
    #[error(transparent)]
    Names(#[from] ModelError),
    /// The scaler's numbers are impossible.
    #[error(transparent)]
    Scaling(#[from] ScalingError),
    /// The rows and the network differ in the number of features.
    #[error("rows have {0} features, expected {1} as in the network")]
    Features(usize, usize),
}

/// A trained network with scaling, classes and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    network: Network,
    scaler: Scaler,
    classes: Vec<String>,
    columns: Vec<String>,
    preparation: Option<Arc<TableSchema>>,
    positive: Option<u16>,
    weights: Vec<f32>,
    session: (String, [u8; 32]),
}

fn bad<T>(text: impl Into<String>) -> Result<T, ClassifierError> {
    Err(ClassifierError::Bad(text.into()))
}

impl Classifier {
    /// Makes a classifier from its parts. `session` is the name and the id of the session that made it.
    ///
    /// # Errors
    /// [`ClassifierError`] if the parts do not fit together or a weight is not finite.
    pub fn new(
        architecture: &Architecture,
        scaler: Scaler,
        classes: Vec<String>,
        columns: Vec<String>,
        weights: Vec<f32>,
        session: (String, [u8; 32]),
    ) -> Result<Self, ClassifierError> {
        check_classes(&classes)?;
        check_classes(&columns)?;
        if !columns.is_empty() && columns.len() != scaler.features() {
            return bad(format!("{} names for {} columns", columns.len(), scaler.features()));
        }
        if *architecture == Architecture::Own {
            return bad("a model that users train with their own code is not a network of this program");
        }
        let network = Network::new(architecture, scaler.width(), classes.len())?;
        if weights.len() != network.weights() {
            return bad(format!(
                "{} weights, expected {} as in the network",
                weights.len(),
                network.weights()
            ));
        }
        if let Some(at) = weights.iter().position(|weight| !weight.is_finite()) {
            return bad(format!("weight {at} is {}", weights[at]));
        }
        let (preparation, positive) = (None, None);
        Ok(Self { network, scaler, classes, columns, preparation, positive, weights, session })
    }

    /// Returns the classifier with a description of how a table becomes its features.
    ///
    /// # Errors
    /// [`ClassifierError::Names`] if the description breaks a rule, [`ClassifierError::Bad`] if the described
    /// columns do not give the features of the classifier.
    pub fn with_preparation(self, preparation: Arc<TableSchema>) -> Result<Self, ClassifierError> {
        preparation.check_resolved().map_err(ModelError::from)?;
        if preparation.features() != self.columns {
            return bad("the described columns do not give the features of the network");
        }
        Ok(Self { preparation: Some(preparation), ..self })
    }

    /// Returns the classifier with this positive class, the number of one of its two classes.
    ///
    /// # Errors
    /// [`ClassifierError::Bad`] unless there are two classes and `positive` is 0 or 1.
    pub fn with_positive(self, positive: u16) -> Result<Self, ClassifierError> {
        if self.classes.len() != 2 || positive > 1 {
            return bad(format!(
                "positive is {positive} with {} classes, expected 0 or 1 with 2 classes",
                self.classes.len()
            ));
        }
        Ok(Self { positive: Some(positive), ..self })
    }

    /// Returns the number of the positive class: the rarer one of two classes among the held-out rows of the
    /// session. Returns `None` if no rows were held out.
    #[must_use]
    pub fn positive(&self) -> Option<u16> {
        self.positive
    }

    /// Returns the description of how a table becomes features, if there is one.
    #[must_use]
    pub fn preparation(&self) -> Option<&TableSchema> {
        self.preparation.as_deref()
    }

    /// Returns the network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the weights.
    #[must_use]
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Returns the scaler of the rows.
    #[must_use]
    pub fn scaler(&self) -> &Scaler {
        &self.scaler
    }

    /// Returns the classes.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the names of the features, in order. The list is empty if the features have no names.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the name and the id of the session that made the network.
    #[must_use]
    pub fn session(&self) -> (&str, &[u8; 32]) {
        (&self.session.0, &self.session.1)
    }

    /// Returns the scores (logits) of rows: rows x classes.
    ///
    /// # Errors
    /// [`ClassifierError::Features`].
    pub fn scores(&self, rows: ArrayView2<'_, f32>) -> Result<Array2<f32>, ClassifierError> {
        Ok(self.represent(rows)?.1)
    }

    /// Returns the representation of rows, rows x [`Network::representation`], and their scores (logits),
    /// rows x classes.
    ///
    /// # Errors
    /// [`ClassifierError::Features`].
    pub fn represent(
        &self,
        rows: ArrayView2<'_, f32>,
    ) -> Result<(Array2<f32>, Array2<f32>), ClassifierError> {
        if rows.ncols() != self.scaler.features() {
            return Err(ClassifierError::Features(rows.ncols(), self.scaler.features()));
        }
        let mut scaled = Array2::zeros((rows.nrows(), self.scaler.width()));
        for (from, mut to) in rows.rows().into_iter().zip(scaled.rows_mut()) {
            let to = to.as_slice_mut().unwrap_or_default();
            match from.as_slice() {
                Some(from) => self.scaler.apply(from, to),
                None => self.scaler.apply(&from.to_vec(), to),
            }
        }
        Ok(self.network.represent(&self.weights, scaled.view(), &mut Tape::default()))
    }

    /// Returns the classifier with other weights, for example after more training
    /// ([`train`](super::train())).
    ///
    /// # Errors
    /// [`ClassifierError::Bad`] if the number of weights differs, or a weight is not finite.
    pub fn with_weights(&self, weights: Vec<f32>) -> Result<Self, ClassifierError> {
        let Self { network, scaler, classes, columns, preparation, positive, session, .. } = self.clone();
        let new = Self::new(network.architecture(), scaler, classes, columns, weights, session)?;
        Ok(Self { preparation, positive, ..new })
    }

    /// Returns the class index of each row: the class with the highest score, the first in a tie.
    ///
    /// # Errors
    /// [`ClassifierError::Features`].
    pub fn predict(&self, rows: ArrayView2<'_, f32>) -> Result<Vec<u16>, ClassifierError> {
        let highest = |scores: ndarray::ArrayView1<'_, f32>| {
            let (mut best, mut most) = (0, f32::NEG_INFINITY);
            for (class, &score) in (0u16..).zip(scores) {
                if score > most {
                    (best, most) = (class, score);
                }
            }
            best
        };
        Ok(self.scores(rows)?.rows().into_iter().map(highest).collect())
    }

    /// Returns SHA-256 of the tag `network` and of the file.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let hash: Sha256 = tagged_hash("network").chain_update(self.encode());
        hash.finalize().into()
    }

    /// Encodes the classifier as the bytes of a file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (mut header, mut at) = (Map::new(), 0);
        let mut tensor = |name: &str, dtype: &str, shape: &[usize], bytes: usize| {
            let place = json!({"dtype": dtype, "shape": shape, "data_offsets": [at, at + bytes]});
            header.insert(name.into(), place);
            at += bytes;
        };
        let moments =
            [("scaler.means", self.scaler.means()), ("scaler.deviations", self.scaler.deviations())];
        for (name, values) in moments.iter().filter(|(_, values)| !values.is_empty()) {
            tensor(name, "F64", &[values.len()], 8 * values.len());
        }
        for each in self.network.tensors() {
            tensor(&each.name, "F32", &each.shape, 4 * each.len());
        }
        let mut metadata = json!({
            "format": FORMAT,
            "architecture": architecture_json(self.network.architecture()).to_string(),
            "scaling": scaling_json(self.scaler.scaling()).to_string(),
            "features": self.scaler.features().to_string(),
            "classes": json!(self.classes).to_string(),
            "columns": json!(self.columns).to_string(),
            "session": self.session.0,
            "session_id": hex::encode(self.session.1),
        });
        if let Some(preparation) = &self.preparation {
            metadata["preparation"] = hex::encode(preparation.encode()).into();
        }
        if let Some(positive) = self.positive {
            metadata["positive"] = positive.to_string().into();
        }
        header.insert("__metadata__".into(), metadata);
        let mut text = Value::Object(header).to_string();
        while !text.len().is_multiple_of(8) {
            text.push(' ');
        }
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        for (_, values) in moments {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes.extend(self.weights.iter().flat_map(|weight| weight.to_le_bytes()));
        bytes
    }

    /// Decodes the bytes of a file.
    ///
    /// # Errors
    /// [`ClassifierError`], also if the decoded classifier would be encoded as other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ClassifierError> {
        let short = || ClassifierError::Bad("the file is cut off".into());
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER {
            return bad("the file has no header of safetensors");
        }
        let (text, data) = rest.split_at_checked(length).ok_or_else(short)?;
        let header: Map<String, Value> = match serde_json::from_slice(text) {
            Ok(header) => header,
            Err(error) => return bad(format!("the header: {error}")),
        };
        let metadata = header.get("__metadata__").and_then(Value::as_object);
        let field = |name: &str| metadata.and_then(|all| all.get(name)).and_then(Value::as_str);
        if field("format") != Some(FORMAT) {
            return bad(format!("format is {:?}, expected {FORMAT}", field("format").unwrap_or("missing")));
        }
        let missing = |name: &str| ClassifierError::Bad(format!("{name} is missing or not valid"));
        let read = |name: &str| {
            let value = field(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
            value.ok_or_else(|| missing(name))
        };
        let names = |name: &str| {
            let list = read(name)?;
            let list = list.as_array().ok_or_else(|| missing(name))?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            list.iter().map(text).collect::<Option<Vec<_>>>().ok_or_else(|| missing(name))
        };
        let architecture = architecture(&read("architecture")?).ok_or_else(|| missing("architecture"))?;
        let scaling = scaling(&read("scaling")?).ok_or_else(|| missing("scaling"))?;
        let features = read("features")?.as_u64().and_then(|features| usize::try_from(features).ok());
        let features = features.filter(|features| (1..=MAX_FEATURES).contains(features));
        let features = features.ok_or_else(|| missing("features"))?;
        let classes = names("classes")?;
        if classes.len() > MAX_CLASSES {
            return Err(missing("classes"));
        }
        scaling.check(features).map_err(|error| ClassifierError::Bad(error.to_string()))?;
        let squares = scaling.needs_moments();
        let counts = [squares.is_some(), squares == Some(true)].map(|has| if has { features } else { 0 });
        let mut data = data;
        let mut moments = [Vec::new(), Vec::new()];
        for (count, values) in counts.into_iter().zip(&mut moments) {
            let (own, rest) = data.split_at_checked(8 * count).ok_or_else(short)?;
            *values = own.as_chunks::<8>().0.iter().map(|&value| f64::from_le_bytes(value)).collect();
            data = rest;
        }
        let [means, deviations] = moments;
        let weights = data.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
        let mut id = [0; 32];
        if hex::decode_to_slice(field("session_id").unwrap_or_default(), &mut id).is_err() {
            return Err(missing("session_id"));
        }
        let session = (field("session").ok_or_else(|| missing("session"))?.to_owned(), id);
        let scaler = Scaler::from_parts(scaling, features, means, deviations)?;
        let mut classifier = Self::new(&architecture, scaler, classes, names("columns")?, weights, session)?;
        if let Some(digits) = field("preparation") {
            let encoded = hex::decode(digits).map_err(|_| missing("preparation"))?;
            let preparation = TableSchema::decode(&encoded).map_err(ModelError::from)?;
            classifier = classifier.with_preparation(preparation.into())?;
        }
        if let Some(number) = field("positive") {
            classifier = classifier.with_positive(number.parse().map_err(|_| missing("positive"))?)?;
        }
        // Refuses wrong names, shapes and offsets of tensors, and everything else that could be written in
        // two ways.
        if classifier.encode() != bytes {
            return bad("the header does not match the network");
        }
        Ok(classifier)
    }

    /// Returns whether a file may be a classifier, judged by its first bytes (at least 512).
    #[must_use]
    pub fn looks_like(bytes: &[u8]) -> bool {
        looks_like(bytes, FORMAT)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ClassifierError`].
    pub fn load(path: &Path) -> Result<Self, ClassifierError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_FILE {
            return bad("the file is longer than the file of any network");
        }
        Self::decode(&bytes)
    }

    /// Writes a file. An existing file is replaced as a whole.
    ///
    /// # Errors
    /// [`ClassifierError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), ClassifierError> {
        Ok(write_whole(path, &self.encode(), true)?)
    }
}

/// Returns whether bytes begin like a file with this `format`. Bytes after the header are not searched,
/// because they may be the bytes of another file.
pub(crate) fn looks_like(bytes: &[u8], format: &str) -> bool {
    let Some((length, start)) = bytes.split_first_chunk::<8>() else { return false };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let header = start.get(..length).unwrap_or(start);
    let format = format!("\"format\":\"{format}\"");
    header.starts_with(b"{\"__metadata__\":{")
        && header.windows(format.len()).any(|window| window == format.as_bytes())
}

fn architecture_json(architecture: &Architecture) -> Value {
    let name = architecture.name();
    match architecture {
        Architecture::Logistic | Architecture::Own => json!({"network": name}),
        Architecture::Perceptron { hidden } => json!({"network": name, "hidden": hidden}),
        Architecture::Convolutional { image, filters, hidden } => {
            json!({"network": name, "image": image, "filters": filters, "hidden": [hidden]})
        }
    }
}

fn architecture(value: &Value) -> Option<Architecture> {
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        value.get(name)?.as_array()?.iter().map(number).collect()
    };
    Some(match value.get("network")?.as_str()? {
        "logistic" => Architecture::Logistic,
        "mlp" => Architecture::Perceptron { hidden: numbers("hidden")? },
        "cnn" => Architecture::Convolutional {
            image: numbers("image")?.try_into().ok()?,
            filters: numbers("filters")?.try_into().ok()?,
            hidden: <[u32; 1]>::try_from(numbers("hidden")?).ok()?[0],
        },
        _ => return None,
    })
}

fn scaling_json(scaling: &Scaling) -> Value {
    let wide = |bounds: &[f32]| bounds.iter().map(|&bound| f64::from(bound)).collect::<Vec<_>>();
    match scaling {
        Scaling::Range { lo, hi } => json!({"range": {"lo": wide(lo), "hi": wide(hi)}}),
        Scaling::SoftBins(bins) => json!({"soft-bins": bins}),
        other => json!(other.name()),
    }
}

fn scaling(value: &Value) -> Option<Scaling> {
    if let Some(name) = value.as_str() {
        let plain = [Scaling::None, Scaling::UnitNorm, Scaling::Center, Scaling::Standard];
        return plain.into_iter().find(|scaling| scaling.name() == name);
    }
    if let Some(bins) = value.get("soft-bins") {
        return Some(Scaling::SoftBins(u16::try_from(bins.as_u64()?).ok()?));
    }
    let range = value.get("range")?;
    let bounds = |name: &str| -> Option<Vec<f32>> {
        #[expect(clippy::cast_possible_truncation, reason = "written from a binary32")]
        let bound = |value: &Value| value.as_f64().map(|bound| bound as f32);
        range.get(name)?.as_array()?.iter().map(bound).collect()
    };
    Some(Scaling::Range { lo: bounds("lo")?, hi: bounds("hi")? })
}

/// Returns a scaler as texts for the metadata of a file. `scaling` and `features` are written as in a
/// network's file, `means` and `deviations` as little-endian binary64 in hexadecimal digits.
#[must_use]
pub fn scaler_metadata(scaler: &Scaler) -> [(&'static str, String); 4] {
    let digits =
        |values: &[f64]| hex::encode(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    [
        ("scaling", scaling_json(scaler.scaling()).to_string()),
        ("features", scaler.features().to_string()),
        ("means", digits(scaler.means())),
        ("deviations", digits(scaler.deviations())),
    ]
}

/// Restores a scaler from the texts of [`scaler_metadata`]. Returns `None` if the texts are not valid.
pub fn scaler_of_metadata<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Option<Scaler> {
    let scaling = scaling(&serde_json::from_str(text("scaling")?).ok()?)?;
    let features = text("features")?.parse().ok().filter(|features| (1..=MAX_FEATURES).contains(features))?;
    scaling.check(features).ok()?;
    let numbers = |name: &str| -> Option<Vec<f64>> {
        let bytes = hex::decode(text(name)?).ok()?;
        Some(bytes.as_chunks::<8>().0.iter().map(|&value| f64::from_le_bytes(value)).collect())
    };
    Scaler::from_parts(scaling, features, numbers("means")?, numbers("deviations")?).ok()
}
