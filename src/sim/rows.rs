//! Reads the rows of a scenario, splits them, and deals them to the peers.

use std::path::Path;
use std::sync::Arc;

use super::scenario::{Data, Scenario, ScenarioError, Split};
use crate::crypto::stream::Stream;
use crate::data::digits::digits;
use crate::data::groups::{self, Units};
use crate::data::prepare::publish::Rule;
use crate::data::prepare::whole::{load_drafted, load_whole};
use crate::data::split::train_test;
use crate::data::{Dataset, Expected, LabelColumn, deal};
use crate::session::{DataSpec, Description, Peer, Scaling};
use crate::tasks::Rows;
pub use crate::tasks::compare::DealtRows;

impl DealtRows {
    /// Returns the name of the set if it is missing and the scenario marks it as optional.
    #[must_use]
    pub fn missing<'a>(data: &'a Data, folder: &Path) -> Option<&'a str> {
        (data.optional && data.set != "digits" && !folder.join(&data.set).exists()).then_some(&data.set)
    }

    /// Reads the set, reserves the test rows and deals the others to all peers except the witnesses.
    /// `folder` is the folder of the scenario.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn new(scenario: &Scenario, folder: &Path) -> Result<Self, ScenarioError> {
        let (data, witnesses, seed) = (&scenario.data, scenario.task.witnesses, scenario.seed);
        let peers = scenario.peers - witnesses;
        let (all, guessed) =
            if data.set == "digits" { (digits(), None) } else { Self::read(scenario, folder)? };
        let seed = seed.to_le_bytes();
        // Rows without labels are dealt like rows of one class. They are not used to test results.
        let class_of = |rows: &Dataset| {
            let labels = rows.labels();
            if labels.is_empty() { vec![0; rows.rows()] } else { labels.to_vec() }
        };
        let test_percent = if all.labels().is_empty() { 0 } else { data.test_percent };
        let labels = class_of(&all);
        let mut split = train_test(groups::Rows::new(&labels, all.groups()), test_percent, &seed);
        if data.rows > 0 && data.rows < split.train.len() {
            deal::shuffle(&mut split.train, &mut Stream::new(&seed, "simulation/rows", &[]));
            split.train.truncate(data.rows);
            split.train.sort_unstable();
        }
        let (train, test) = (all.subset(&split.train), all.subset(&split.test));
        // All rows of a patient belong to one hospital.
        let labels = class_of(&train);
        let units = Units::of(groups::Rows::new(&labels, train.groups()));
        let (labels, classes, peers) = (units.labels(), train.classes().len().max(1), usize::from(peers));
        let dealt = match data.split {
            Split::Even => deal::even(units.len(), peers, &seed),
            Split::ByClass => deal::by_classes(labels, classes, peers, data.holders, &seed),
            Split::Dirichlet => deal::dirichlet(labels, classes, peers, data.alpha, &seed),
            Split::Mixes => deal::mixes(labels, classes, peers, (data.alpha, data.alpha_to), &seed),
        };
        let dealt = dealt.map_err(|error| ScenarioError(format!("data: {error}")))?;
        let none = (0..witnesses).map(|_| &[][..]);
        let parts = dealt.iter().map(Vec::as_slice).chain(none);
        let parts = parts.map(|part| Rows::new(Arc::new(train.subset(&units.expand(part))))).collect();
        Ok(Self { train, test, parts, guessed })
    }

    /// Keeps the labels that the scenario selects and hides the others.
    pub(super) fn hide_labels(&mut self, scenario: &Scenario) {
        self.parts.iter_mut().for_each(|part| part.labels = vec![None; part.data.rows()]);
        for (peer, row) in self.labelled(scenario) {
            let part = &mut self.parts[peer];
            part.labels[row] = Some(part.data.labels()[row]);
        }
    }

    /// Returns the rows that have a label, by peer and row. They are drawn from the rows of all peers that
    /// may have labels: either a number of each class, or a percentage.
    fn labelled(&self, scenario: &Scenario) -> Vec<(usize, usize)> {
        let task = &scenario.task;
        let without = task.without_labels.as_ref().map_or(Vec::new(), |peers| peers.of(&[], scenario.peers));
        let mut places: Vec<(usize, usize)> = (0u16..)
            .map(Peer)
            .zip(&self.parts)
            .filter(|(peer, _)| !without.contains(peer))
            .flat_map(|(peer, part)| (0..part.data.rows()).map(move |row| (peer.index(), row)))
            .collect();
        let seed = scenario.seed.to_le_bytes();
        deal::shuffle(&mut places, &mut Stream::new(&seed, "simulation/labels", &[]));
        if let Some(percent) = task.labelled_percent {
            places.truncate((places.len() * percent as usize + 50) / 100);
            return places;
        }
        let mut left = vec![task.labels; self.train.classes().len()];
        places.retain(|&(peer, row)| {
            let left = &mut left[usize::from(self.parts[peer].data.labels()[row])];
            let taken = *left > 0;
            *left -= usize::from(taken);
            taken
        });
        places
    }

    /// Reads the set with the column descriptions of the scenario, or of the session that it plays. If there
    /// are none, reads numbers or guesses the columns. If they were guessed, also returns a line about this.
    fn read(scenario: &Scenario, folder: &Path) -> Result<(Dataset, Option<String>), ScenarioError> {
        let data = &scenario.data;
        let labels = (!data.labels.is_empty()).then(|| folder.join(&data.labels));
        let contents = data.contents.as_ref();
        // As with `join`, rows have no labels if the session describes columns and has no classes. If the
        // columns are not described, the last column is not a feature.
        let unlabelled = scenario
            .played
            .as_ref()
            .is_some_and(|session| session.data.classes.is_empty() && session.data.preparation.is_some());
        let label = if unlabelled { LabelColumn::None } else { LabelColumn::default() };
        let expected = Expected { labels_file: labels.as_deref(), contents, label, ..Expected::default() };
        let set = folder.join(&data.set);
        let failed = |error: &dyn std::fmt::Display| ScenarioError(error.to_string());
        let of_session = || {
            let spec = &scenario.played.as_ref()?.data;
            let preparation = spec.preparation.as_deref()?.clone();
            Some(Description { preparation, classes: spec.classes.clone() })
        };
        let columns = match &*data.columns_from {
            "" => of_session(),
            file => Some(Description::load(&folder.join(file)).map_err(|error| failed(&error))?),
        };
        let Some(columns) = columns else {
            let (loaded, draft) =
                load_drafted(&set, &expected, &Rule::LOCAL).map_err(|error| failed(&error))?;
            return Ok((loaded.data, draft.map(|draft| format!("{}: {}", data.set, draft.guessed()))));
        };
        let classes = (!columns.classes.is_empty()).then_some(&*columns.classes);
        let described = Expected { preparation: Some(&columns.preparation), classes, ..expected };
        Ok((load_whole(&set, &described).map_err(|error| failed(&error))?.data, None))
    }

    /// Returns the session's description of these rows.
    #[must_use]
    pub fn spec(&self, scaling: Scaling, densify: bool) -> DataSpec {
        DataSpec {
            features: u32::try_from(self.train.features()).unwrap_or(u32::MAX),
            classes: self.train.classes().to_vec(),
            scaling,
            densify,
            ..DataSpec::default()
        }
    }
}
