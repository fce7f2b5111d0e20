//! The task `fedavg` in a session file.

mod noise;

use std::fmt::{self, Write};

use flyswarm_learn::learner::{Architecture, Augment, Network, Schedule};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use noise::RoundNoise;
pub(crate) use noise::{MOST_WEIGHT, WHOLE_SHARE};

use crate::session::encoding::{Field, flag, integer, list, number, text};
use crate::session::rules::{self, Limit, check_number};
use crate::session::run::bytes;
use crate::session::{DataSpec, Session, SessionError};
use crate::session::{Release, Sections, Spec};
use crate::tasks::TaskOption;
use crate::tasks::{BuiltIn, TaskKind};

/// Options of `session new` for a task that trains a network.
pub(crate) const NETWORK: [TaskOption; 4] = [
    TaskOption::field("network", "NETWORK", "fedavg.network", "logistic, mlp or cnn [default: logistic]"),
    TaskOption::field("hidden", "N,...", "fedavg.hidden", "Units of the hidden layers [default: 128]"),
    TaskOption::field("image", "C,H,W", "fedavg.image", "Channels, height and width of a row"),
    TaskOption::field("rounds", "N", "fedavg.rounds", "Rounds [default: 20]"),
];

/// The shape of the network in a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Logistic,
    Mlp,
    Cnn,
}

/// How much a member's weights count in the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// By its rows.
    Rows,
    /// As much as any other's.
    Equal,
}

/// How the learning rate goes from round to round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Rates {
    Constant,
    Cosine,
}

/// The parameters of federated averaging (McMahan et al., "Communication-Efficient Learning of Deep Networks
/// from Decentralized Data", AISTATS 2017).
#[derive(Debug, Clone, PartialEq)]
pub struct FedavgSpec {
    /// The network. Default: logistic regression.
    pub network: Architecture,
    /// Rounds: 1 to 10,000. Default 20.
    pub rounds: u32,
    /// Passes of a member over its rows in a round: 1 to 1,000. Default 1.
    pub epochs: u32,
    /// Batches of a member in a round, up to 1,000,000; 0, the default: `epochs` passes.
    pub steps: u32,
    /// Rows of a batch: 1 to 65,536. Default 32.
    pub batch: u32,
    /// The learning rate: above 0, at most 10. Default 0.05.
    pub rate: f64,
    /// How the rate goes down. Default cosine.
    pub schedule: Schedule,
    /// 0 to 0.999. Default 0.9.
    pub momentum: f64,
    /// 0 to 1. Default 1e-4.
    pub weight_decay: f64,
    /// FedProx's mu (Li et al., MLSys 2020): 0 to 1,000. Default 0.
    pub proximal: f64,
    /// Longest update of a member, in the Euclidean norm; 0, the default: any.
    pub clip: f64,
    /// Share of the members that train in a round, drawn by the coin: 0.001 to 1. Default 1.
    pub members: f64,
    /// How much a member counts. Default: by its rows.
    pub weighting: Weighting,
    /// Percent of each member's rows that it does not train on but tests on: 0 to 50. Default 0.
    pub held_out: u32,
    /// Rounds in a row without a lower loss of the rows held out, after which training ends: up to 10,000.
    /// The result is then the weights of the best round. 0, the default: all rounds, and the last weights.
    pub patience: u32,
    /// Whether images are turned over (left and right) at random. Default false.
    pub flip: bool,
    /// Most pixels by which images are moved at random: 0 to 64. Default 0.
    pub shift: u32,
    /// Channels, height and width of a row, where it is an image: a channel after the other, line by line.
    pub image: Option<[u32; 3]>,
    /// The digest of the network file whose weights are the first ones; `None`, the default: the coin draws
    /// them.
    pub initial: Option<[u8; 32]>,
}

/// The section `[fedavg]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    network: Option<Shape>,
    hidden: Option<Vec<i64>>,
    filters: Option<Vec<i64>>,
    image: Option<Vec<i64>>,
    rounds: Option<i64>,
    epochs: Option<i64>,
    steps: Option<i64>,
    batch: Option<i64>,
    rate: Option<f64>,
    schedule: Option<Rates>,
    momentum: Option<f64>,
    weight_decay: Option<f64>,
    proximal: Option<f64>,
    clip: Option<f64>,
    members: Option<f64>,
    weighting: Option<Weighting>,
    held_out: Option<i64>,
    patience: Option<i64>,
    flip: Option<bool>,
    shift: Option<i64>,
    initial: Option<String>,
}

const ROUNDS: Limit = Limit::new("fedavg.rounds", 1, 10_000);
const EPOCHS: Limit = Limit::new("fedavg.epochs", 1, 1_000);
const STEPS: Limit = Limit::new("fedavg.steps", 0, 1_000_000);
const BATCH: Limit = Limit::new("fedavg.batch", 1, 65_536);
const HELD_OUT: Limit = Limit::new("fedavg.held_out", 0, 50).saying(" percent");
const PATIENCE: Limit = Limit::new("fedavg.patience", 0, 10_000);
const SHIFT: Limit = Limit::new("fedavg.shift", 0, 64);
const UNITS: Limit = Limit::new("a number of fedavg.hidden", 1, 1 << 20);
const FILTERS: Limit = Limit::new("a number of fedavg.filters", 1, 4096);
const SIDE: Limit = Limit::new("a number of fedavg.image", 1, 65_536);
/// Most hidden layers.
const LAYERS: usize = 8;
/// Filters and hidden units of the reference network: 81,290 weights for 3 x 32 x 32.
const CNN: ([u32; 3], u32) = ([16, 32, 32], 128);

impl Default for FedavgSpec {
    fn default() -> Self {
        Self {
            network: Architecture::Logistic,
            rounds: 20,
            epochs: 1,
            steps: 0,
            batch: 32,
            rate: 0.05,
            schedule: Schedule::Cosine,
            momentum: 0.9,
            weight_decay: 1e-4,
            proximal: 0.0,
            clip: 0.0,
            members: 1.0,
            weighting: Weighting::Rows,
            held_out: 0,
            patience: 0,
            flip: false,
            shift: 0,
            image: None,
            initial: None,
        }
    }
}

fn refuse<T>(field: &str, value: impl fmt::Display, limit: &str) -> Result<T, SessionError> {
    Err(SessionError::value(field, value, limit))
}

/// So many numbers, each within the limit.
fn numbers<const N: usize>(field: &str, given: &[i64], limit: Limit) -> Result<[u32; N], SessionError> {
    let Ok(given) = <&[i64; N]>::try_from(given) else {
        return refuse(&format!("the length of {field}"), given.len(), &N.to_string());
    };
    let mut checked = [0; N];
    for (to, &from) in checked.iter_mut().zip(given) {
        *to = limit.check(from)?;
    }
    Ok(checked)
}

impl FedavgSpec {
    /// The network for rows as in `data`.
    ///
    /// # Errors
    /// [`SessionError::Value`] where there is none.
    pub(crate) fn build(&self, data: &DataSpec) -> Result<Network, SessionError> {
        Network::new(&self.network, data.width() as usize, data.classes.len())
            .or_else(|error| refuse("fedavg.network", self.network.name(), &format!("possible: {error}")))
    }

    /// How many weights the network has for rows as in `data`.
    #[must_use]
    pub fn weights(&self, data: &DataSpec) -> usize {
        self.build(data).map_or(0, |network| network.weights())
    }

    /// What is done to images.
    pub(crate) fn augment(&self) -> Option<Augment> {
        let image = self.image.filter(|_| self.flip || self.shift > 0)?;
        let image = image.map(|side| side as usize);
        Some(Augment { image, flip: self.flip, shift: self.shift as usize })
    }

    fn schedule_name(&self) -> &'static str {
        match self.schedule {
            Schedule::Constant => "constant",
            Schedule::Cosine => "cosine",
        }
    }

    fn weighting_name(&self) -> &'static str {
        match self.weighting {
            Weighting::Rows => "rows",
            Weighting::Equal => "equal",
        }
    }

    /// Hidden units, filters and image, as lists.
    fn lists(&self) -> [(&'static str, Vec<u32>); 3] {
        let (hidden, filters) = match &self.network {
            Architecture::Logistic => (Vec::new(), Vec::new()),
            Architecture::Perceptron { hidden } => (hidden.clone(), Vec::new()),
            Architecture::Convolutional { filters, hidden, .. } => (vec![*hidden], filters.to_vec()),
        };
        let image = self.image.map_or(Vec::new(), Vec::from);
        [("fedavg.hidden", hidden), ("fedavg.filters", filters), ("fedavg.image", image)]
    }

    fn numbers(&self) -> [(&'static str, f64, bool, &'static str); 6] {
        let Self { rate, momentum, weight_decay, proximal, clip, members, .. } = *self;
        [
            ("fedavg.rate", rate, rate > 0.0 && rate <= 10.0, "above 0, at most 10"),
            ("fedavg.momentum", momentum, (0.0..=0.999).contains(&momentum), "0 to 0.999"),
            ("fedavg.weight_decay", weight_decay, (0.0..=1.0).contains(&weight_decay), "0 to 1"),
            ("fedavg.proximal", proximal, (0.0..=1000.0).contains(&proximal), "0 to 1000"),
            ("fedavg.clip", clip, (0.0..=1e6).contains(&clip), "0 to 1000000"),
            ("fedavg.members", members, (0.001..=1.0).contains(&members), "0.001 to 1"),
        ]
    }
}

impl FedavgSpec {
    /// Reads the parameters from their sections, for rows as in `data` and so many peers.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        sections.take::<Raw>("fedavg")?.unwrap_or_default().resolve()
    }
}

impl Spec for FedavgSpec {
    fn kind(&self) -> &'static dyn TaskKind {
        &super::Kind
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(session, self.clone()))
    }

    fn about(&self) -> &'static str {
        "a network for classification, trained in rounds on the rows of all peers"
    }

    fn normalise(&mut self) {
        for value in [&mut self.momentum, &mut self.weight_decay, &mut self.proximal, &mut self.clip] {
            *value += 0.0;
        }
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        let data = &session.data;
        rules::check_classes(data)?;
        if data.densify {
            return refuse("data.densify", true, "false with the task fedavg");
        }
        ROUNDS.check::<u32>(self.rounds)?;
        EPOCHS.check::<u32>(self.epochs)?;
        STEPS.check::<u32>(self.steps)?;
        BATCH.check::<u32>(self.batch)?;
        HELD_OUT.check::<u32>(self.held_out)?;
        PATIENCE.check::<u32>(self.patience)?;
        if self.patience > 0 && self.held_out == 0 {
            return refuse("fedavg.held_out", 0, "above 0 where there is a fedavg.patience");
        }
        SHIFT.check::<u32>(self.shift)?;
        for (field, value, holds, limit) in self.numbers() {
            check_number(field, value, holds, limit)?;
        }
        match (&self.network, self.image) {
            (Architecture::Convolutional { image, .. }, own) if own != Some(*image) => {
                return refuse("fedavg.image", format!("{own:?}"), "the network's");
            }
            (_, None) if self.flip || self.shift > 0 => {
                return refuse("fedavg.image", "missing", "given where images are turned over or moved");
            }
            (_, Some(image)) => {
                let pixels = image.iter().map(|&side| u64::from(side)).product::<u64>();
                if pixels != u64::from(data.width()) {
                    let limit = format!("{} numbers, a row", data.width());
                    return refuse("fedavg.image", format!("{image:?}"), &limit);
                }
                if self.shift >= image[1].min(image[2]) {
                    return refuse("fedavg.shift", self.shift, "below the image's sides");
                }
            }
            _ => {}
        }
        if let Architecture::Perceptron { hidden } = &self.network
            && !(1..=LAYERS).contains(&hidden.len())
        {
            return refuse("the length of fedavg.hidden", hidden.len(), &format!("1 to {LAYERS}"));
        }
        self.build(data)?;
        match &session.privacy.noise {
            Some(noise) => self.check_noise(noise, session),
            None => Ok(()),
        }
    }

    fn release(&self, _data: &DataSpec) -> Release {
        Release::Rounds
    }

    fn entries(&self) -> Vec<Field> {
        let mut entries = vec![("fedavg.network", text(self.network.name()))];
        for (name, values) in self.lists() {
            let values: Vec<[u8; 8]> = values.iter().map(|&value| u64::from(value).to_le_bytes()).collect();
            entries.push((name, list(values.iter().map(|value| &value[..]))));
        }
        entries.extend([
            ("fedavg.rounds", integer(self.rounds)),
            ("fedavg.epochs", integer(self.epochs)),
            ("fedavg.steps", integer(self.steps)),
            ("fedavg.batch", integer(self.batch)),
            ("fedavg.schedule", text(self.schedule_name())),
        ]);
        entries.extend(self.numbers().map(|(name, value, ..)| (name, number(value))));
        entries.extend([
            ("fedavg.weighting", text(self.weighting_name())),
            ("fedavg.held_out", integer(self.held_out)),
            ("fedavg.flip", flag(self.flip)),
            ("fedavg.shift", integer(self.shift)),
        ]);
        if self.patience > 0 {
            entries.push(("fedavg.patience", integer(self.patience)));
        }
        entries.extend(self.initial.map(|digest| ("fedavg.initial", digest.to_vec())));
        entries
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        let Self { rounds, epochs, steps, batch, rate, momentum, weight_decay, .. } = self;
        let Self { proximal, clip, members, held_out, patience, flip, shift, .. } = self;
        writeln!(out, "[fedavg]")?;
        writeln!(out, "# \"logistic\" (regression), \"mlp\" (hidden layers of so many units) or \"cnn\"")?;
        writeln!(out, "# (three convolutions with so many filters, then a hidden layer).")?;
        writeln!(out, "network = \"{}\"", self.network.name())?;
        for (name, values) in self.lists() {
            if !values.is_empty() {
                if name == "fedavg.image" {
                    writeln!(out, "# Channels, height and width of a row.")?;
                }
                writeln!(out, "{} = {values:?}", name.trim_start_matches("fedavg."))?;
            }
        }
        writeln!(
            out,
            "# In each round a member passes so often over its rows, in batches of so many; or takes"
        )?;
        writeln!(out, "# so many steps (0: passes are counted).")?;
        writeln!(out, "rounds = {rounds}\nepochs = {epochs}\nsteps = {steps}\nbatch = {batch}")?;
        writeln!(
            out,
            "# The learning rate, and how it goes from round to round: \"constant\" or \"cosine\"."
        )?;
        writeln!(out, "rate = {rate:?}\nschedule = \"{}\"", self.schedule_name())?;
        writeln!(out, "momentum = {momentum:?}\nweight_decay = {weight_decay:?}")?;
        writeln!(out, "# FedProx's mu; and the longest update of a member (0: any).")?;
        writeln!(out, "proximal = {proximal:?}\nclip = {clip:?}")?;
        writeln!(
            out,
            "# The share of the members that train in a round; each counts by its \"rows\" or \"equal\"."
        )?;
        writeln!(out, "members = {members:?}\nweighting = \"{}\"", self.weighting_name())?;
        writeln!(out, "# Percent of each member's rows that are kept for tests: 0 to 50.")?;
        writeln!(out, "held_out = {held_out}")?;
        writeln!(
            out,
            "# Training ends after so many rounds in a row in which the loss of the kept rows was not"
        )?;
        writeln!(
            out,
            "# lower than before, and the best round's weights are the result (0: all rounds, the last)."
        )?;
        writeln!(
            out,
            "# With the task fedavg-xclp rounds count from the first that learns from found labels."
        )?;
        writeln!(out, "patience = {patience}")?;
        writeln!(out, "# Whether images are turned over, and by how many pixels they are moved at most.")?;
        writeln!(out, "flip = {flip}\nshift = {shift}")?;
        if let Some(digest) = self.initial {
            writeln!(
                out,
                "# The digest of the network that the session starts from; its file lies beside this one."
            )?;
            writeln!(out, "initial = \"{}\"", hex::encode(digest))?;
        }
        writeln!(out)
    }

    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let [(_, hidden), (_, filters), (_, image)] = self.lists();
        let value = json!({
            "network": self.network.name(), "hidden": hidden, "filters": filters, "image": image,
            "weights": self.weights(data),
            "rounds": self.rounds, "epochs": self.epochs, "steps": self.steps, "batch": self.batch,
            "rate": self.rate, "schedule": self.schedule_name(), "momentum": self.momentum,
            "weight_decay": self.weight_decay, "proximal": self.proximal, "clip": self.clip,
            "members": self.members, "weighting": self.weighting_name(), "held_out": self.held_out,
            "patience": self.patience, "flip": self.flip, "shift": self.shift, "initial": self.initial.map(hex::encode),
        });
        vec![("fedavg", value)]
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let weights = self.weights(data);
        let often = match self.steps {
            0 => format!("{} passes", self.epochs),
            steps => format!("{steps} steps"),
        };
        let mut lines = vec![
            ("network", format!("{}, {weights} weights", self.network.name())),
            ("rounds", format!("{}, each of {often} in batches of {}", self.rounds, self.batch)),
            (
                "steps",
                format!(
                    "rate {} ({}), momentum {}, weight decay {}",
                    self.rate,
                    self.schedule_name(),
                    self.momentum,
                    self.weight_decay
                ),
            ),
        ];
        let options = [
            (self.proximal > 0.0, format!("FedProx with mu {}", self.proximal)),
            (self.clip > 0.0, format!("updates of at most {}", self.clip)),
            (self.members < 1.0, format!("{} of the members train in a round", self.members)),
            (self.weighting == Weighting::Equal, "every member counts the same".into()),
            (self.held_out > 0, format!("{} % of the rows are held out", self.held_out)),
            (self.patience > 0, format!("ends after {} rounds without a better one", self.patience)),
            (self.flip, "images are turned over".into()),
            (self.shift > 0, format!("images are moved by up to {} pixels", self.shift)),
        ];
        lines.extend(self.initial.map(|digest| ("starts from", format!("network {}", hex::encode(digest)))));
        lines.extend(options.into_iter().filter(|(given, _)| *given).map(|(_, line)| ("", line)));
        lines
    }
}

impl Raw {
    fn resolve(self) -> Result<FedavgSpec, SessionError> {
        let usual = FedavgSpec::default();
        let image = match &self.image {
            Some(image) => Some(numbers::<3>("fedavg.image", image, SIDE)?),
            None => None,
        };
        let network = match self.network {
            None | Some(Shape::Logistic) => Architecture::Logistic,
            Some(Shape::Mlp) => {
                let usual = [i64::from(CNN.1)];
                let hidden = self.hidden.as_deref().unwrap_or(&usual);
                let hidden = hidden.iter().map(|&units| UNITS.check(units)).collect::<Result<_, _>>()?;
                Architecture::Perceptron { hidden }
            }
            Some(Shape::Cnn) => {
                let Some(image) = image else {
                    return refuse("fedavg.image", "missing", "given with the network cnn");
                };
                let (filters, hidden) = (&self.filters, &self.hidden);
                Architecture::Convolutional {
                    image,
                    filters: match filters {
                        Some(filters) => numbers("fedavg.filters", filters, FILTERS)?,
                        None => CNN.0,
                    },
                    hidden: match hidden {
                        Some(hidden) => numbers::<1>("fedavg.hidden", hidden, UNITS)?[0],
                        None => CNN.1,
                    },
                }
            }
        };
        if self.hidden.is_some() && network == Architecture::Logistic {
            return refuse("fedavg.hidden", "given", "left out with the network logistic");
        }
        if self.filters.is_some() && !matches!(network, Architecture::Convolutional { .. }) {
            return refuse("fedavg.filters", "given", "left out but with the network cnn");
        }
        let read = |value: Option<i64>, limit: Limit, usual: u32| {
            value.map_or(Ok(usual), |value| limit.check::<u32>(value))
        };
        Ok(FedavgSpec {
            network,
            rounds: read(self.rounds, ROUNDS, usual.rounds)?,
            epochs: read(self.epochs, EPOCHS, usual.epochs)?,
            steps: read(self.steps, STEPS, usual.steps)?,
            batch: read(self.batch, BATCH, usual.batch)?,
            rate: self.rate.unwrap_or(usual.rate),
            schedule: match self.schedule {
                Some(Rates::Constant) => Schedule::Constant,
                Some(Rates::Cosine) | None => Schedule::Cosine,
            },
            momentum: self.momentum.unwrap_or(usual.momentum),
            weight_decay: self.weight_decay.unwrap_or(usual.weight_decay),
            proximal: self.proximal.unwrap_or(usual.proximal),
            clip: self.clip.unwrap_or(usual.clip),
            members: self.members.unwrap_or(usual.members),
            weighting: self.weighting.unwrap_or(usual.weighting),
            held_out: read(self.held_out, HELD_OUT, usual.held_out)?,
            patience: read(self.patience, PATIENCE, usual.patience)?,
            flip: self.flip.unwrap_or(usual.flip),
            shift: read(self.shift, SHIFT, usual.shift)?,
            image,
            initial: self.initial.map(|digits| bytes("fedavg.initial", &digits)).transpose()?,
        })
    }
}
