//! The rows of a scenario: read, split and dealt to the peers.

use std::path::Path;
use std::sync::Arc;

use super::scenario::{Data, ScenarioError, Split};
use crate::crypto::stream::Stream;
use crate::data::digits::digits;
use crate::data::prepare::whole::{load_drafted, load_whole};
use crate::data::split::train_test;
use crate::data::{Dataset, Expected, deal};
use crate::session::{DataSpec, Description, Scaling};
use crate::tasks::Rows;

/// The rows of a run.
#[derive(Clone, Debug)]
pub struct Dealt {
    /// All rows to train on.
    pub train: Dataset,
    /// The rows to measure accuracy with.
    pub test: Dataset,
    /// Each peer's part of the rows to train on.
    pub parts: Vec<Rows>,
    /// A line on how columns were guessed, where they were.
    pub guessed: Option<String>,
}

impl Dealt {
    /// The name of the set, where the scenario may go without it and it is not there.
    #[must_use]
    pub fn missing<'a>(data: &'a Data, folder: &Path) -> Option<&'a str> {
        (data.optional && data.set != "digits" && !folder.join(&data.set).exists()).then_some(&data.set)
    }

    /// Reads the set, keeps the test rows back and deals the others; `folder` is where the scenario stands.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn new(data: &Data, peers: u16, seed: u64, folder: &Path) -> Result<Self, ScenarioError> {
        let (all, guessed) = if data.set == "digits" { (digits(), None) } else { Self::read(data, folder)? };
        let seed = seed.to_le_bytes();
        let mut split = train_test(all.labels(), data.test_percent, &seed);
        if data.rows > 0 && data.rows < split.train.len() {
            deal::shuffle(&mut split.train, &mut Stream::new(&seed, "simulation/rows", &[]));
            split.train.truncate(data.rows);
            split.train.sort_unstable();
        }
        let (train, test) = (all.subset(&split.train), all.subset(&split.test));
        let (labels, classes, peers) = (train.labels(), train.classes().len(), usize::from(peers));
        let dealt = match data.split {
            Split::Even => deal::even(train.rows(), peers, &seed),
            Split::ByClass => deal::by_classes(labels, classes, peers, data.holders, &seed),
            Split::Dirichlet => deal::dirichlet(labels, classes, peers, data.alpha, &seed),
            Split::Mixes => deal::mixes(labels, classes, peers, (data.alpha, data.alpha_to), &seed),
        };
        let dealt = dealt.map_err(|error| ScenarioError(format!("data: {error}")))?;
        let parts = dealt.iter().map(|rows| Rows::new(Arc::new(train.subset(rows)))).collect();
        Ok(Self { train, test, parts, guessed })
    }

    /// Reads the set as its columns are described, else as numbers or as guessed; then with a line on that.
    fn read(data: &Data, folder: &Path) -> Result<(Dataset, Option<String>), ScenarioError> {
        let labels = (!data.labels.is_empty()).then(|| folder.join(&data.labels));
        let expected = Expected { labels_file: labels.as_deref(), ..Expected::default() };
        let set = folder.join(&data.set);
        let failed = |error: &dyn std::fmt::Display| ScenarioError(error.to_string());
        if data.columns_from.is_empty() {
            let (loaded, draft) = load_drafted(&set, &expected).map_err(|error| failed(&error))?;
            return Ok((loaded.data, draft.map(|draft| format!("{}: {}", data.set, draft.guessed()))));
        }
        let columns = Description::load(&folder.join(&data.columns_from)).map_err(|error| failed(&error))?;
        let classes = (!columns.classes.is_empty()).then_some(&*columns.classes);
        let described = Expected { preparation: Some(&columns.preparation), classes, ..expected };
        Ok((load_whole(&set, &described).map_err(|error| failed(&error))?.data, None))
    }

    /// The session's description of these rows.
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
