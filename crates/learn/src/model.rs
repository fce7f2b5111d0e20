//! The FlyNN classifier: Bloom-filter counts over a sketch, and the file that keeps them.
//!
//! [`bloom`] fits and adds up counts, [`readout`] says what they mean for a point, [`calibration`] how
//! likely that makes each class, [`Model`] puts them together with what is needed to predict from rows
//! (sketch, scaler, class names), [`mod@file`] stores it, [`score`] measures it, [`neighbours`] is a
//! baseline to compare with.
//!
//! Source: Ram & Sinha, Algorithm 1. Counts are kept in place of weights (w = gamma^c), so that training is a
//! sum of integers and a model trained by many peers equals the pooled one exactly (Theorem 4).

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

/// Why a model could not be made or used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The rows are no data set.
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
        /// Its scaling.
        found: &'static str,
        /// The sketch's.
        expected: &'static str,
    },
    /// A name of a column is unusable or given twice, or there are not as many as features.
    #[error("{what} is {found}, expected {expected}")]
    Column {
        /// Which column, or how many there are.
        what: String,
        /// Its name, or how many.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// The description of columns breaks a rule.
    #[error(transparent)]
    TableSchema(#[from] PrepareError),
    /// A class name is unusable or given twice.
    #[error("class {index} is {name:?}, expected {expected}")]
    Class {
        /// Index of the class.
        index: usize,
        /// Its name.
        name: String,
        /// What would be right.
        expected: String,
    },
}

/// All that prediction needs, and what is known of where it comes from. Models that read rows and predict
/// alike have equal [digests](Model::digest).
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    sketch: Sketch,
    readout: Readout,
    /// What probabilities are stated with, where it was fitted on held-out rows.
    calibration: Option<Calibration>,
    classes: Vec<String>,
    scaler: Scaler,
    counts: Counts,
    /// Names of the features in their order; empty where they have none.
    columns: Vec<String>,
    /// How a table becomes these features, where that is described.
    preparation: Option<Arc<TableSchema>>,
    origin: Option<Origin>,
}

impl Model {
    /// Puts a model together. The readout is used at prediction only; a bare gamma (the paper's decay rate, 0
    /// or more and below 1; it searches 0.1 to 0.8 and finds little difference above 0) is the paper's.
    ///
    /// # Errors
    /// [`ModelError`] when the parts do not belong together.
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
        // The sign keeps -0.0 out, which would be another encoding of the same model.
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

    /// The same with names for its features: one for each, all different, or none. They are part of what the
    /// model is, and so of its digest.
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

    /// The same for rows of a table that become features so; gives the features their names.
    ///
    /// # Errors
    /// [`ModelError::TableSchema`], also where a fill is not yet known, and [`ModelError::Column`] where it
    /// makes another number of features.
    pub fn with_preparation(self, preparation: Arc<TableSchema>) -> Result<Self, ModelError> {
        preparation.check_resolved()?;
        let named = self.with_columns(preparation.features())?;
        Ok(Self { preparation: Some(preparation), ..named })
    }

    /// How a table becomes features, where that is described.
    #[must_use]
    pub fn preparation(&self) -> Option<&TableSchema> {
        self.preparation.as_deref()
    }

    /// The same, said to come from there.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Names of the features in their order; empty where they have none.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Where it comes from, where that is known.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Rows of each class that were learnt: a row adds to rho counts. `None` where noise was added.
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

    /// Of two classes the number of the one that fewer rows were learnt of, of equally many the second; with
    /// noise in the counts by what they say. `None` if there are not two.
    #[must_use]
    pub fn rarer_class(&self) -> Option<u16> {
        let sum = |l| self.counts.class(l).iter().map(|&count| u64::from(count)).sum::<u64>();
        (self.classes.len() == 2).then(|| u16::from(sum(0) >= sum(1)))
    }

    /// Parameters of the sketch.
    #[must_use]
    pub fn sketch(&self) -> &Sketch {
        &self.sketch
    }

    /// What counts mean at prediction.
    #[must_use]
    pub fn readout(&self) -> Readout {
        self.readout
    }

    /// Class names in the order of their indices.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How rows are scaled.
    #[must_use]
    pub fn scaler(&self) -> &Scaler {
        &self.scaler
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Bytes of the lifting matrix, which prediction and export draw from the seed: it may be far larger than
    /// the file.
    #[must_use]
    pub fn matrix_bytes(&self) -> u64 {
        let parameters = self.sketch.parameters();
        4 * parameters.m as u64 * parameters.s as u64
    }

    /// The index of each row's class in [`Model::classes`], for rows x features numbers: the class with the
    /// lowest score, of equal scores the lowest class.
    ///
    /// # Errors
    /// [`ModelError::Data`] and [`ModelError::Features`].
    pub fn predict(&self, rows: ArrayView2<'_, f32>) -> Result<Vec<u16>, ModelError> {
        let standard = rows.as_standard_layout();
        self.predictor().predict(borrowed(standard.view())?)
    }

    /// The scores of each row, rows x classes; the lowest is the likeliest class.
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

    /// As [`Model::predictor`], with the lifting matrix of its [`Model::sketch`] drawn before.
    #[must_use]
    pub fn predictor_with(&self, hash: Arc<FlyHash>) -> Predictor<'_> {
        let scorer = Scorer::new(self.readout, &self.counts, self.classes.len());
        Predictor { model: self, hash, scorer }
    }
}

/// Rows in standard layout.
fn borrowed(rows: ArrayView2<'_, f32>) -> Result<Borrowed<'_>, DataError> {
    let width = rows.ncols();
    Borrowed::new(width, rows.to_slice().unwrap_or_else(|| unreachable!("BUG: in standard layout")))
}

/// Class names are proper and distinct.
///
/// # Errors
/// [`ModelError::Class`] for the first that is not.
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
    /// The novelty scores, row-major, rows x classes; the lowest is the prediction (`InferFLYNN`).
    ///
    /// # Errors
    /// [`ModelError::Features`].
    pub fn scores<'b>(&self, data: impl Into<Borrowed<'b>>) -> Result<Vec<f64>, ModelError> {
        self.each_score(data.into(), |score, scores| scores.extend_from_slice(score))
    }

    /// The class index of each row: lowest score, of equal scores the lowest class.
    ///
    /// # Errors
    /// [`ModelError::Features`].
    pub fn predict<'b>(&self, data: impl Into<Borrowed<'b>>) -> Result<Vec<u16>, ModelError> {
        self.each_score(data.into(), |score, predicted| predicted.push(readout::lowest(score)))
    }

    /// What `f` adds for the scores of each row, in the order of the rows.
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
