//! Arguments of commands that name a file of rows, and functions that read such files.

use std::path::{Path, PathBuf};
#[cfg(feature = "net")]
use std::sync::Arc;

use clap::Args;
use flyswarm_learn::learner::Classifier;

use super::{Failure, kind, output, say};
pub(super) use crate::data::map::Map;
use crate::data::map::NOTHING;
use crate::data::prepare::TableSchema;
use crate::data::prepare::draft::Draft;
use crate::data::prepare::publish::Rule;
use crate::data::prepare::whole;
use crate::data::{self, Column, DataError, Dataset, Expected, LabelColumn, Loaded, NamedBy};
use crate::model::Model;
use crate::model::notes;
#[cfg(feature = "net")]
use crate::session::DataSpec;
use crate::session::Description;
#[cfg(feature = "net")]
use crate::tasks::{Labels, Rows};

/// Settings to read a file of rows.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Reading {
    /// Map file (TOML): how the file of rows differs from the session in names of columns, values, units and
    /// dates (docs/formats.md)
    #[arg(long, value_name = "FILE", value_parser = Map::load)]
    map: Option<Map>,
}

impl From<Map> for Reading {
    fn from(map: Map) -> Self {
        Self { map: Some(map) }
    }
}

impl Reading {
    /// Returns what a session with these `limits` expects of a file of rows, except the classes.
    #[cfg(feature = "net")]
    pub(super) fn of_session<'a>(
        &'a self,
        spec: &'a DataSpec,
        limits: &'a [(f64, f64)],
        label: &LabelColumn,
    ) -> Expected<'a> {
        Expected {
            features: Some(spec.features as usize),
            columns: &spec.columns,
            limits,
            preparation: spec.preparation.as_deref(),
            ..self.expected(label)
        }
    }
}

impl std::ops::Deref for Reading {
    type Target = Map;

    fn deref(&self) -> &Map {
        self.map.as_ref().unwrap_or(&NOTHING)
    }
}

impl std::ops::DerefMut for Reading {
    fn deref_mut(&mut self) -> &mut Map {
        self.map.get_or_insert_default()
    }
}

/// Reads the rows of a file without column descriptions. Prints a line on standard error if the columns
/// are not numbers and were guessed.
pub(super) fn load_drafted(
    path: &Path,
    expected: &Expected,
    rule: &Rule,
) -> Result<(Loaded, Option<Draft>), Failure> {
    let (loaded, draft) = whole::load_drafted(path, expected, rule)?;
    if let Some(draft) = &draft {
        say(&format!("{}: {}", path.display(), draft.guessed()));
    }
    Ok((loaded, draft))
}

/// Reads the rows of one file. If `columns` is given, this session file describes the columns. Otherwise
/// reads the rows like [`load_drafted`].
pub(super) fn load_whole(
    path: &Path,
    columns: Option<&Path>,
    expected: &Expected,
) -> Result<Dataset, Failure> {
    let Some(columns) = columns else { return Ok(load_drafted(path, expected, &Rule::LOCAL)?.0.data) };
    let Description { preparation, classes } = Description::load(columns)?;
    let classes = (!classes.is_empty()).then_some(&*classes);
    let expected = Expected { preparation: Some(&preparation), classes, ..expected.clone() };
    Ok(whole::load_whole(path, &expected)?.data)
}

/// Arguments that name a file of rows.
#[derive(Debug, Args)]
pub(super) struct DataArguments {
    /// Rows: CSV, Excel, JSON lines, Parquet, NPY or NPZ, compressed or not (docs/formats.md)
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

impl DataArguments {
    /// Makes the arguments for a file with the default reading.
    #[cfg(test)]
    pub(super) fn of(data: PathBuf) -> Self {
        Self::new(data, Reading::default())
    }

    /// Makes the arguments for a file with this reading.
    pub(super) fn new(data: PathBuf, reading: Reading) -> Self {
        Self { data, reading }
    }

    /// Makes the arguments for another file that is read in the same way. Its labels may be in a separate
    /// file.
    pub(super) fn beside(&self, data: PathBuf, labels: Option<PathBuf>) -> Self {
        let map = Map { labels, ..(*self.reading).clone() };
        Self { data, reading: map.into() }
    }

    /// Excludes a column from the features.
    pub(super) fn leave_aside(&mut self, column: Column) {
        self.reading.drop.push(column);
    }

    /// Returns the texts of a column of a CSV file, one for each of its rows.
    pub(super) fn texts(
        &self,
        column: &Column,
        rows: usize,
        preparation: Option<&TableSchema>,
    ) -> Result<Vec<String>, Failure> {
        let expected = Expected { preparation, ..self.reading.expected(&LabelColumn::None) };
        Ok(data::column_texts(&self.data, column, rows, &expected)?)
    }

    /// Returns the name of the file.
    pub(super) fn name(&self) -> String {
        self.data.display().to_string()
    }

    /// Reads rows for a session whose task needs labels as `labels` says. Also returns a note on how the
    /// columns were matched. If the task needs no labels, the label column is left out.
    #[cfg(feature = "net")]
    pub(super) fn load_rows(
        &self,
        spec: &DataSpec,
        label: &LabelColumn,
        labels: Labels,
    ) -> Result<(Rows, Option<String>), Failure> {
        let classes = (labels != Labels::None).then_some(&*spec.classes);
        let (loaded, said) = self.load_session(spec, classes, label, labels == Labels::Some)?;
        let Loaded { data, labels: known, gaps, .. } = loaded;
        let data = match labels {
            Labels::None => data.with_labels(Vec::new(), Vec::new())?,
            Labels::All | Labels::Some => data,
        };
        Ok((Rows { labels: known, gaps, ..Rows::new(Arc::new(data)) }, said))
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
        let expected = Expected { classes, partly, ..self.reading.of_session(spec, &limits, label) };
        let loaded = data::load_named(&self.data, &expected)
            .map_err(|error| self.refused(&error, error.to_string()))?;
        if spec.preparation.is_some() {
            let said = notes::left_out(&loaded).map(|line| self.line(&line));
            return Ok((loaded, said));
        }
        let said = match (spec.columns.is_empty(), loaded.columns.is_empty()) {
            _ if loaded.reordered => Some("columns reordered by name to match the session file"),
            (false, true) => Some("no column names: the columns are used in the order of the session file"),
            _ => None,
        };
        Ok((loaded, said.map(|said| self.line(said))))
    }

    /// Reads the rows for `model`. Columns are matched by name and put in the model's order. If `matched` is
    /// true, the classes must be those of the model. Returns the rows, and lines about them for the user.
    pub(super) fn load_for(
        &self,
        model: &Model,
        label: &LabelColumn,
        matched: bool,
    ) -> Result<(Dataset, Vec<String>), Failure> {
        let expected = Expected {
            features: Some(model.sketch().parameters().d),
            columns: model.columns(),
            preparation: model.preparation(),
            lenient: true,
            named_by: NamedBy::Model,
            classes: matched.then(|| model.classes()),
            ..self.reading.expected(label)
        };
        let loaded = data::load_named(&self.data, &expected).map_err(|error| {
            let hint = "if one column is the label: --label last, or its name or number";
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
        let table = model.preparation().filter(|_| matched);
        let lines = [
            notes::matched(model, &loaded).map(str::to_owned),
            notes::left_out(&loaded),
            table.and_then(|table| notes::ungrouped(table, &loaded)),
            notes::unseen(&loaded),
            notes::outside(model, &loaded),
        ];
        let lines = lines.into_iter().flatten().map(|line| self.line(&line)).collect();
        Ok((loaded.data, lines))
    }

    /// Reads the rows for a network. If `classes` is given, the labels must be of these classes. Also returns
    /// lines about the rows for the user.
    pub(super) fn load_network(
        &self,
        network: &Classifier,
        classes: Option<&[String]>,
        label: &LabelColumn,
    ) -> Result<(Dataset, Vec<String>), Failure> {
        let expected = Expected {
            features: Some(network.scaler().features()),
            columns: network.columns(),
            preparation: network.preparation(),
            lenient: true,
            named_by: NamedBy::Model,
            classes,
            ..self.reading.expected(label)
        };
        let loaded = data::load_named(&self.data, &expected);
        let loaded = loaded.map_err(|error| self.refused(&error, error.to_string()))?;
        let table = network.preparation().filter(|_| *label != LabelColumn::None);
        let ungrouped = table.and_then(|table| notes::ungrouped(table, &loaded));
        let lines = [notes::left_out(&loaded), ungrouped, notes::unseen(&loaded)];
        let lines = lines.into_iter().flatten().map(|line| self.line(&line)).collect();
        Ok((loaded.data, lines))
    }

    /// Puts the name of the file before a note.
    fn line(&self, note: &str) -> String {
        format!("{}: {note}", self.data.display())
    }

    /// Makes the error for a file. If the file is of another kind that this program writes, the error names
    /// the kind.
    fn refused(&self, error: &DataError, text: String) -> Failure {
        let file = self.reading.contents.is_none();
        match (file.then(|| kind::advice(&self.data, "rows are expected")).flatten(), error) {
            (_, DataError::Read { source, .. }) => output::for_io(source, text),
            // An NPZ archive usually has rows, so its kind is not named.
            (Some(advice), _) if !advice.contains("NPZ") => Failure::Input(advice),
            _ => Failure::Input(text),
        }
    }
}
