//! The arguments by which commands are told of rows, and reading them.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, kind, output};
use crate::data::{self, Column, DataError, Dataset, Expected, Format, LabelColumn, Loaded, NamedBy};
use crate::model::Model;
use crate::model::outside::Known;
#[cfg(feature = "net")]
use crate::session::DataSpec;

/// How a file of rows is read.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Reading {
    /// Labels of IDX images or an NPY array, in a file of either format
    #[arg(long, value_name = "FILE")]
    pub(super) labels: Option<PathBuf>,
    /// Leave out a column: its name, or its number from 1; repeatable
    #[arg(long, value_name = "COLUMN")]
    pub(super) drop: Vec<Column>,
    /// Whether the first line of a CSV file is a header; found out where not given
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    pub(super) header: Option<bool>,
    /// The array of features in an NPZ file [default: X]
    #[arg(long, value_name = "NAME")]
    pub(super) array: Option<String>,
    /// csv, idx, npy, npz, parquet, arff or libsvm; found out where not given
    #[arg(long)]
    pub(super) format: Option<Format>,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".into()),
    }
}

impl Reading {
    /// What is expected of a file, but for what a session or model says.
    pub(super) fn expected(&self, label: &LabelColumn) -> Expected<'_> {
        Expected {
            label: label.clone(),
            drop: &self.drop,
            header: self.header,
            labels_file: self.labels.as_deref(),
            array: self.array.as_deref(),
            format: self.format,
            ..Expected::default()
        }
    }
}

/// Rows without labels of their own, and of each its class where that is known.
#[cfg(feature = "net")]
pub(super) struct PartlyLabelled {
    pub(super) data: Dataset,
    pub(super) labels: Vec<Option<u16>>,
}

/// Where rows come from.
#[derive(Debug, Args)]
pub(super) struct DataArguments {
    /// CSV, NPY, NPZ, Parquet, ARFF, libsvm or IDX images; texts, NPY and IDX gzipped or not
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

impl DataArguments {
    /// A file that is read without more being said.
    #[cfg(test)]
    pub(super) fn of(data: PathBuf) -> Self {
        Self::new(data, Reading::default())
    }

    /// A file that is read like this.
    pub(super) fn new(data: PathBuf, reading: Reading) -> Self {
        Self { data, reading }
    }

    /// Another file that is read alike; its labels may be in a file of their own.
    pub(super) fn beside(&self, data: PathBuf, labels: Option<PathBuf>) -> Self {
        Self { data, reading: Reading { labels, ..self.reading.clone() } }
    }

    /// Takes a column for no feature.
    pub(super) fn leave_aside(&mut self, column: Column) {
        self.reading.drop.push(column);
    }

    /// The texts of a column of a CSV file, one for each of so many rows.
    pub(super) fn texts(&self, column: &Column, rows: usize) -> Result<Vec<String>, Failure> {
        Ok(data::column_texts(&self.data, column, rows)?)
    }

    /// What the rows are called.
    #[cfg(feature = "net")]
    pub(super) fn name(&self) -> String {
        self.data.display().to_string()
    }

    /// Reads labelled rows for a session; and what is to be said of how its columns were taken.
    #[cfg(feature = "net")]
    pub(super) fn load_labelled(
        &self,
        spec: &DataSpec,
        label: &LabelColumn,
    ) -> Result<(Dataset, Option<String>), Failure> {
        let (rows, said) = self.load_session(spec, Some(&spec.classes), label, false)?;
        Ok((rows.data, said))
    }

    /// Reads rows for the task `sketch`: whatever is in the label column is left out.
    #[cfg(feature = "net")]
    pub(super) fn load_features(
        &self,
        spec: &DataSpec,
        label: &LabelColumn,
    ) -> Result<(Dataset, Option<String>), Failure> {
        let (rows, said) = self.load_session(spec, None, label, false)?;
        let rows = rows.data;
        Ok((Dataset::new(rows.features(), rows.values().to_vec(), Vec::new(), Vec::new())?, said))
    }

    #[cfg(feature = "net")]
    fn load_session(
        &self,
        spec: &DataSpec,
        classes: Option<&[String]>,
        label: &LabelColumn,
        partly: bool,
    ) -> Result<(Loaded, Option<String>), Failure> {
        let limits = spec.limits();
        let expected = Expected {
            features: Some(spec.features as usize),
            columns: &spec.columns,
            limits: &limits,
            classes,
            partly,
            ..self.reading.expected(label)
        };
        let loaded = data::load_named(&self.data, &expected)
            .map_err(|error| self.refused(&error, error.to_string()))?;
        let said = match (spec.columns.is_empty(), loaded.columns.is_empty()) {
            _ if loaded.reordered => {
                Some("columns brought into the order of the session file, by their names")
            }
            (false, true) => Some("no names of columns: taken in the order of the session file"),
            _ => None,
        };
        Ok((loaded, said.map(|said| format!("{}: {said}", self.data.display()))))
    }

    /// Reads rows for the task `xclp`, where a label may be left empty; gives the rows and what is to be said
    /// of how the columns were taken.
    #[cfg(feature = "net")]
    pub(super) fn load_partly_labelled(
        &self,
        spec: &DataSpec,
        label: &LabelColumn,
    ) -> Result<(PartlyLabelled, Option<String>), Failure> {
        let (rows, said) = self.load_session(spec, Some(&spec.classes), label, true)?;
        Ok((PartlyLabelled { data: rows.data, labels: rows.labels }, said))
    }

    /// Reads the rows for `model`, its columns in the model's order by their names; its classes are expected
    /// where `matched`. Gives the rows, and lines on what the user should know of them.
    pub(super) fn load_for(
        &self,
        model: &Model,
        label: &LabelColumn,
        matched: bool,
    ) -> Result<(Dataset, Vec<String>), Failure> {
        let expected = Expected {
            features: Some(model.sketch().parameters().d),
            columns: model.columns(),
            named_by: NamedBy::Model,
            classes: matched.then(|| model.classes()),
            ..self.reading.expected(label)
        };
        let loaded = data::load_named(&self.data, &expected).map_err(|error| {
            let hint = "if one is a label: --label last, or its name or number";
            match &error {
                DataError::Features { found, expected, labelled: false, .. }
                    if *found == expected + 1 && !matched =>
                {
                    Failure::Input(format!("{error} ({hint})"))
                }
                DataError::Layout { .. }
                    if !matched
                        && *label == LabelColumn::None
                        && !model.columns().is_empty()
                        && kind::of(&self.data).is_none() =>
                {
                    Failure::Input(format!("{error} ({hint})"))
                }
                _ => self.refused(&error, error.to_string()),
            }
        })?;
        let said = match (model.columns().is_empty(), loaded.columns.is_empty()) {
            _ if loaded.reordered => Some("columns brought into the order of the model, by their names"),
            (false, true) => {
                Some("has no names of columns: taken in the order of the model, names not compared")
            }
            (true, false) => {
                Some("the model has no names of columns: taken as they stand, names not compared")
            }
            (true, true) => Some("neither file nor model has names of columns: names not compared"),
            (false, false) => None,
        };
        let mut lines: Vec<_> =
            said.map(|said| format!("{}: {said}", self.data.display())).into_iter().collect();
        lines.extend(self.outside(model, &loaded));
        Ok((loaded.data, lines))
    }

    /// Reads rows with so many features, of these names where there are some; of these classes, or of any.
    pub(super) fn load_columns(
        &self,
        features: usize,
        columns: &[String],
        classes: Option<&[String]>,
        label: &LabelColumn,
    ) -> Result<Dataset, Failure> {
        let expected = Expected {
            features: Some(features),
            columns,
            named_by: NamedBy::Model,
            classes,
            ..self.reading.expected(label)
        };
        let loaded = data::load_named(&self.data, &expected);
        Ok(loaded.map_err(|error| self.refused(&error, error.to_string()))?.data)
    }

    /// Another file of this program is called by its kind.
    fn refused(&self, error: &DataError, text: String) -> Failure {
        match (kind::advice(&self.data, "rows are expected"), error) {
            (_, DataError::Read { source, .. }) => output::for_io(source, text),
            // Archives of arrays are rows as a rule.
            (Some(advice), _) if !advice.contains("NPZ") => Failure::Input(advice),
            _ => Failure::Input(text),
        }
    }

    /// What is to be said of rows far outside what the model has learnt.
    fn outside(&self, model: &Model, loaded: &Loaded) -> Option<String> {
        let (columns, rows) = model.outside(&loaded.data);
        if columns.is_empty() {
            return None;
        }
        let shown = columns.iter().take(SHOWN).map(|outside| {
            let names =
                [model.columns(), &loaded.columns].into_iter().find_map(|names| names.get(outside.column));
            let name =
                names.map_or_else(|| format!("feature {}", outside.column + 1), |name| format!("{name:?}"));
            let learnt = match model.known(outside.column) {
                Known::Spread(mean, 0.0) => format!("always {mean:.4} when learnt"),
                Known::Spread(mean, deviation) => format!("learnt {mean:.4} +- {deviation:.4}"),
                Known::Bounds(lo, hi) => format!("bounds {lo} to {hi}"),
                Known::Mean(_) | Known::Nothing => String::new(),
            };
            format!("{name} in {} ({learnt}; farthest {})", outside.rows, outside.farthest)
        });
        let shown: Vec<_> = shown.collect();
        let more = match columns.len() - shown.len() {
            0 => String::new(),
            more => format!(", and {more} columns more"),
        };
        Some(format!(
            "{}: {rows} of {} rows are far outside what the model has learnt: {}{more}",
            self.data.display(),
            loaded.data.rows(),
            shown.join(", ")
        ))
    }
}

/// Columns named in the line on rows far outside.
const SHOWN: usize = 8;
