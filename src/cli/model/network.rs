//! `predict` and `report` for a network that the task `fedavg` has trained, and for a personal model that was
//! made from such a network.

use std::path::Path;

use flyswarm_learn::learner::{Classifier, ClassifierError, surprise};
use flyswarm_learn::personal::{PersonalError, PersonalModel};

use super::super::data::DataArguments;
use super::super::output::for_io;
use super::super::{Failure, kind, say};
use crate::data::prepare::TableSchema;
use crate::data::{Dataset, LabelColumn};
use crate::model::score::Confusion;
use flyswarm_data::scaling::Scaler;

/// A network, or a personal model.
pub(in crate::cli) enum Network {
    Global(Box<Classifier>),
    Personal(Box<PersonalModel>),
}

impl From<PersonalError> for Failure {
    fn from(error: PersonalError) -> Self {
        Self::Input(error.to_string())
    }
}

impl Network {
    /// Reads the network in a file. Returns `None` for any other file.
    pub(in crate::cli) fn load(path: &Path) -> Result<Option<Self>, Failure> {
        let failed = |error: PersonalError| match &error {
            PersonalError::Classifier(ClassifierError::Io(source)) => {
                for_io(source, format!("{}: {error}", path.display()))
            }
            _ => Failure::Input(format!("{}: {error}", path.display())),
        };
        let start = kind::start(path).unwrap_or_default();
        if Classifier::looks_like(&start) {
            let network = Classifier::load(path).map_err(|error| failed(error.into()))?;
            return Ok(Some(Self::Global(Box::new(network))));
        }
        if PersonalModel::looks_like(&start) {
            return Ok(Some(Self::Personal(Box::new(PersonalModel::load(path).map_err(failed)?))));
        }
        Ok(None)
    }

    /// Returns the preparation of the rows, if the session defined one.
    pub(super) fn preparation(&self) -> Option<&TableSchema> {
        self.classifier().preparation()
    }

    fn classifier(&self) -> &Classifier {
        match self {
            Self::Global(network) => network,
            Self::Personal(model) => model.network(),
        }
    }

    pub(super) fn classes(&self) -> &[String] {
        self.classifier().classes()
    }

    pub(in crate::cli) fn digest(&self) -> [u8; 32] {
        match self {
            Self::Global(network) => network.digest(),
            Self::Personal(model) => model.digest(),
        }
    }

    /// Reads rows. If `matched` is true, their labels must be classes of the network.
    pub(in crate::cli) fn rows(
        &self,
        data: &DataArguments,
        label: &LabelColumn,
        matched: bool,
    ) -> Result<Dataset, Failure> {
        let network = self.classifier();
        let classes = matched.then(|| network.classes());
        let (rows, said) = data.load_network(network, classes, label)?;
        said.iter().for_each(|line| say(line));
        Ok(rows)
    }

    /// Returns the scores of rows, a matrix of rows x classes. A score is -ln of the probability of the
    /// class, so the class with the lowest score is predicted.
    pub(super) fn scores(&self, rows: &Dataset) -> Result<Vec<f64>, Failure> {
        Ok(match self {
            Self::Global(network) => surprise(&network.scores(rows.view()).map_err(PersonalError::from)?),
            Self::Personal(model) => model.probabilities(rows.view())?.iter().map(|p| 0.0 - p.ln()).collect(),
        })
    }

    /// Returns the number of the positive class (for sensitivity), if the network has two classes and its
    /// file names one.
    pub(super) fn positive(&self) -> Option<u16> {
        self.classifier().positive()
    }

    /// Returns the scaling of the network's columns, and their names.
    pub(super) fn columns(&self) -> (&Scaler, &[String]) {
        (self.classifier().scaler(), self.classifier().columns())
    }

    /// For a personal model, returns the share of `rows` that its network alone predicts correctly; `None`
    /// for a network.
    pub(super) fn alone(&self, rows: &Dataset) -> Result<Option<f64>, Failure> {
        let Self::Personal(model) = self else { return Ok(None) };
        let predicted = model.network().predict(rows.view()).map_err(PersonalError::from)?;
        Ok(Some(Confusion::new(self.classes(), rows.labels(), &predicted).accuracy()))
    }
}
