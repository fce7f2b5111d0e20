//! The FlyNN classifier: Bloom-filter counts over a sketch, and the file that stores them.
//!
//! [`bloom`] makes and adds counts, [`readout`] turns them into scores of a point, and [`calibration`]
//! turns scores into probabilities. [`Model`] combines them with the sketch, scaler and class names that
//! prediction from rows needs. [`mod@file`] stores a model, [`score`] measures it, and [`neighbours`] is
//! a baseline.
//!
//! Source: Ram & Sinha, Algorithm 1. Counts are stored instead of weights (w = gamma^c). So training is a
//! sum of integers, and a model trained by many peers equals the pooled model exactly (Theorem 4).

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::sketch::flyhash::{FeatureError, FlyHash};
use crate::sketch::{ParameterError, Sketch};
use flyswarm_data::prepare::{PrepareError, TableSchema};
use flyswarm_data::scaling::Scaler;
use flyswarm_data::{Borrowed, DataError, check_class_name};

pub mod bloom;
pub mod calibration;
pub mod columns;
pub mod comparison;
pub mod figures;
pub mod file;
pub mod heterogeneity;
pub mod neighbours;
pub(crate) mod npz;
pub mod origin;
pub mod outside;
pub mod ranks;
pub mod readout;
pub mod score;
pub mod selection;

use bloom::{BLOCK, Counts, CountsError};
use calibration::Calibration;
use origin::Origin;
use readout::{Readout, Scorer};

/// Reason why a model could not be made or used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The rows do not form a data set.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Data, scaler and sketch differ in features.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// The counts do not fit.
    #[error(transparent)]
    Counts(#[from] CountsError),
    /// A parameter is out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The data has no labels.
    #[error("the rows have no labels, expected one for each")]
    Unlabelled,
    /// The scaler was made for another scaling.
    #[error("the scaler is {found}, expected {expected} as in the parameters")]
    Scaler {
        /// The scaling that the scaler applies.
        found: &'static str,
        /// Scaling of the sketch.
        expected: &'static str,
    },
    /// A column name is unusable or repeated, or the number of names is not the number of features.
    #[error("{what} is {found}, expected {expected}")]
    Column {
        /// The column, or "the number of columns with a name".
        what: String,
        /// Its name, or the number.
        found: String,
        /// Valid values.
        expected: String,
    },
    /// The description of columns breaks a rule.
    #[error(transparent)]
    TableSchema(#[from] PrepareError),
    /// A class name is unusable or repeated.
    #[error("class {index} is {name:?}, expected {expected}")]
    Class {
        /// Index of the class.
        index: usize,
        /// Its name.
        name: String,
        /// Valid values.
        expected: String,
    },
}

/// Everything that prediction needs, and the origin if it is known. Models that read rows and predict in
/// the same way have equal [digests](Model::digest).
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    sketch: Sketch,
    readout: Readout,
    /// Calibration of the probabilities, if one was fitted on held-out rows.
    calibration: Option<Calibration>,
    classes: Vec<String>,
    scaler: Scaler,
    counts: Counts,
    /// Names of the features, in order. The list is empty if the features have no names.
    columns: Vec<String>,
    /// Description of how a table becomes these features, if there is one.
    preparation: Option<Arc<TableSchema>>,
    origin: Option<Origin>,
}

impl Model {
    /// Makes a model from its parts. The readout is used only at prediction. A gamma without a score selects
    /// the paper's score with this decay rate, which must be 0 or more and below 1. (The paper searches 0.1
    /// to 0.8 and finds little difference above 0.)
    ///
    /// # Errors
    /// [`ModelError`] if the parts do not fit together.
    pub fn new(
        sketch: Sketch,
        readout: impl Into<Readout>,
        classes: Vec<String>,
        scaler: Scaler,
        counts: Counts,
    ) -> Result<Self, ModelError> {
        let readout = readout.into();
        let gamma = readout.gamma;
        let parameters = sketch.parameters();
        let wrong =
            |field, value: String, expected: String| Err(ParameterError { field, value, expected }.into());
        // -0.0 is refused, because it would be another encoding of the same model.
        if !(0.0..1.0).contains(&gamma) || gamma.is_sign_negative() {
            return wrong("gamma", gamma.to_string(), "0 or more and below 1".into());
        }
        if classes.len() != sketch.classes() {
            return wrong("classes", classes.len().to_string(), sketch.classes().to_string());
        }
        check_classes(&classes)?;
        if scaler.scaling() != &parameters.scaling {
            let (found, expected) = (scaler.scaling().name(), parameters.scaling.name());
            return Err(ModelError::Scaler { found, expected });
        }
        if scaler.features() != parameters.d {
            let (found, expected) = (scaler.features(), parameters.d);
            return Err(FeatureError { what: "the scaler", found, expected }.into());
        }
        counts.expect_shape(classes.len(), parameters.m)?;
        let (calibration, columns, preparation, origin) = (None, Vec::new(), None, None);
        Ok(Self { sketch, readout, calibration, classes, scaler, counts, columns, preparation, origin })
    }

    /// Returns the model with names for its features: one for each, all different, or none. The names are
    /// part of the digest.
    ///
    /// # Errors
    /// [`ModelError::Column`].
    pub fn with_columns(mut self, columns: Vec<String>) -> Result<Self, ModelError> {
        let refuse =
            |what: String, found: String, expected: String| Err(ModelError::Column { what, found, expected });
        let d = self.sketch.parameters().d;
        if !columns.is_empty() && columns.len() != d {
            return refuse(
                "the number of columns with a name".into(),
                columns.len().to_string(),
                format!("{d}, or none"),
            );
        }
        let mut seen = std::collections::BTreeSet::new();
        for (column, name) in columns.iter().enumerate() {
            let expected = match check_class_name(name) {
                Err(_) => "a name of 1 to 256 bytes without control characters",
                Ok(()) if !seen.insert(name) => "a name that no column before it has",
                Ok(()) => continue,
            };
            return refuse(format!("column {}", column + 1), format!("{name:?}"), expected.into());
        }
        self.columns = columns;
        Ok(self)
    }

    /// Returns the model with a description of how a table becomes its features. The description also
    /// names the features.
    ///
    /// # Errors [`ModelError::TableSchema`], also if a fill value is not yet known, and
    /// [`ModelError::Column`] if the description gives a different number of features.
    pub fn with_preparation(self, preparation: Arc<TableSchema>) -> Result<Self, ModelError> {
        preparation.check_resolved()?;
        let named = self.with_columns(preparation.features())?;
        Ok(Self { preparation: Some(preparation), ..named })
    }

    /// Returns the description of how a table becomes features, if there is one.
    #[must_use]
    pub fn preparation(&self) -> Option<&TableSchema> {
        self.preparation.as_deref()
    }

    /// Returns the model with this origin.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Returns the names of the features, in order. The list is empty if the features have no names.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the origin of the model, if it is known.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the number of training rows of each class (a row adds to rho counts). `None` if noise was
    /// added.
    #[must_use]
    pub fn class_rows(&self) -> Option<Vec<u64>> {
        if self.origin.as_ref().is_some_and(|origin| origin.noised) {
            return None;
        }
        let rho = self.sketch.parameters().rho as u64;
        let sum = |l| self.counts.class(l).iter().map(|&count| u64::from(count)).sum::<u64>();
        (0..self.classes.len())
            .map(|l| Some(sum(l)).filter(|sum| sum % rho == 0).map(|sum| sum / rho))
            .collect()
    }

    /// Returns the index of the class with fewer training rows, or of the second class if both have the same
    /// number. If noise was added to the counts, the noisy counts decide. Returns `None` unless there are
    /// exactly two classes.
    #[must_use]
    pub fn rarer_class(&self) -> Option<u16> {
        let sum = |l| self.counts.class(l).iter().map(|&count| u64::from(count)).sum::<u64>();
        (self.classes.len() == 2).then(|| u16::from(sum(0) >= sum(1)))
    }

    /// Returns the parameters of the sketch.
    #[must_use]
    pub fn sketch(&self) -> &Sketch {
        &self.sketch
    }

    /// Returns the formula that turns counts into scores at prediction.
    #[must_use]
    pub fn readout(&self) -> Readout {
        self.readout
    }

    /// Returns the class names in the order of their indices.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the scaler of the rows.
    #[must_use]
    pub fn scaler(&self) -> &Scaler {
        &self.scaler
    }

    /// Returns the counts of the model.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the size in bytes of the lifting matrix, which prediction and export draw from the seed.
    /// It may be far larger than the file.
    #[must_use]
    pub fn matrix_bytes(&self) -> u64 {
        let parameters = self.sketch.parameters();
        4 * parameters.m as u64 * parameters.s as u64
    }

    /// Returns the class of each row (rows x features) as an index in [`Model::classes`]. It is the class
    /// with the lowest score, or the first in a tie.
    ///
    /// # Errors
    /// [`ModelError::Data`] and [`ModelError::Features`].
    pub fn predict(&self, rows: ArrayView2<'_, f32>) -> Result<Vec<u16>, ModelError> {
        let standard = rows.as_standard_layout();
        self.predictor().predict(borrowed(standard.view())?)
    }

    /// Returns the scores of each row, rows x classes. The lowest score is the likeliest class.
    ///
    /// # Errors
    /// As [`Model::predict`].
    pub fn scores(&self, rows: ArrayView2<'_, f32>) -> Result<Array2<f64>, ModelError> {
        let standard = rows.as_standard_layout();
        let data = borrowed(standard.view())?;
        let scores = self.predictor().scores(data)?;
        Ok(Array2::from_shape_vec((data.rows(), self.classes.len()), scores)
            .unwrap_or_else(|_| unreachable!("BUG: one score a row and class")))
    }

    /// Draws the lifting matrix and the weights once, for any number of predictions.
    #[must_use]
    pub fn predictor(&self) -> Predictor<'_> {
        self.predictor_with(Arc::new(FlyHash::new(&self.sketch)))
    }

    /// Returns a predictor as [`Model::predictor`] does, with a lifting matrix of [`Model::sketch`] that was
    /// drawn before.
    #[must_use]
    pub fn predictor_with(&self, hash: Arc<FlyHash>) -> Predictor<'_> {
        let scorer = Scorer::new(self.readout, &self.counts, self.classes.len());
        Predictor { model: self, hash, scorer }
    }
}

/// Borrows rows in standard layout.
fn borrowed(rows: ArrayView2<'_, f32>) -> Result<Borrowed<'_>, DataError> {
    let width = rows.ncols();
    Borrowed::new(width, rows.to_slice().unwrap_or_else(|| unreachable!("BUG: in standard layout")))
}

/// Checks that class names are valid and distinct.
///
/// # Errors
/// [`ModelError::Class`] for the first name that is not valid or occurs twice.
pub fn check_classes(classes: &[String]) -> Result<(), ModelError> {
    let mut seen = std::collections::BTreeSet::new();
    for (index, name) in classes.iter().enumerate() {
        let refuse = |expected| ModelError::Class { index, name: name.clone(), expected };
        check_class_name(name).map_err(refuse)?;
        if !seen.insert(name) {
            return Err(refuse("a name that no class before it has".into()));
        }
    }
    Ok(())
}

/// A model ready to predict.
#[derive(Debug)]
pub struct Predictor<'a> {
    model: &'a Model,
    hash: Arc<FlyHash>,
    scorer: Scorer,
}

impl Predictor<'_> {
    /// Returns the novelty scores, row-major, rows x classes. The lowest is the prediction
    /// (`InferFLYNN`).
    ///
    /// # Errors
    /// [`ModelError::Features`].
    pub fn scores<'b>(&self, data: impl Into<Borrowed<'b>>) -> Result<Vec<f64>, ModelError> {
        self.each_score(data.into(), |score, scores| scores.extend_from_slice(score))
    }

    /// Returns the class index of each row: the class with the lowest score, or the first in a tie.
    ///
    /// # Errors
    /// [`ModelError::Features`].
    pub fn predict<'b>(&self, data: impl Into<Borrowed<'b>>) -> Result<Vec<u16>, ModelError> {
        self.each_score(data.into(), |score, predicted| predicted.push(readout::lowest(score)))
    }

    /// Collects the values that `f` adds for the scores of each row, in the order of the rows.
    fn each_score<T: Copy + Send + Sync>(
        &self,
        data: Borrowed<'_>,
        f: impl Fn(&[f64], &mut Vec<T>) + Sync,
    ) -> Result<Vec<T>, ModelError> {
        let block = |b: usize| {
            let rows = b * BLOCK..data.rows().min((b + 1) * BLOCK);
            let winners = self.hash.winners(&self.model.scaler, data, rows)?;
            let mut scores = vec![0.0; self.model.classes.len()];
            let (mut gathered, mut out) = (Vec::with_capacity(self.hash.rho()), Vec::new());
            for winners in winners.chunks_exact(self.hash.rho()) {
                self.scorer.novelties(&self.model.counts, winners, &mut gathered, &mut scores);
                f(&scores, &mut out);
            }
            Ok(out)
        };
        let blocks: Result<Vec<Vec<T>>, ModelError> =
            (0..data.rows().div_ceil(BLOCK)).into_par_iter().map(block).collect();
        Ok(blocks?.concat())
    }
}

#[cfg(test)]
pub(crate) mod tests;
