//! The parameters of the task `fedavg` in a session file.

mod noise;

use std::fmt::{self, Write};

use flyswarm_learn::learner::{Architecture, Augment, Network, Schedule, Tensor};
use serde_json::Value;

pub use noise::RoundNoise;
pub(crate) use noise::{MOST_WEIGHT, WHOLE_SHARE, forecast};

use super::tensors::{self, Dtype, Rule, TensorSpec, USUAL_RANGE};
use crate::session::encoding::Field;
use crate::session::fields::{self, Row, Word};
use crate::session::rules::{self, Limit};
use crate::session::{DataSpec, Session, SessionError};
use crate::session::{Release, Sections, Spec};
use crate::tasks::TaskOption;
use crate::tasks::{BuiltIn, TaskKind};

/// Options of `session new` for a task that trains a network.
pub(crate) const NETWORK: [TaskOption; 3] = [
    TaskOption::field(
        "network",
        "NETWORK",
        "fedavg.network",
        "Network to train: logistic, mlp or cnn [default: logistic]",
    ),
    TaskOption::field(
        "hidden",
        "N,...",
        "fedavg.hidden",
        "With mlp or cnn: number of units of each hidden layer [default: 128]",
    ),
    TaskOption::field("rounds", "N", "fedavg.rounds", "Number of rounds [default: 20]"),
];

/// Shape of the network in a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Logistic,
    Mlp,
    Cnn,
    Own,
}

/// Weight of a member in the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighting {
    /// By its number of rows.
    Rows,
    /// Equal for all members.
    Equal,
}

impl Word for Shape {
    const WORDS: &'static [(&'static str, Self)] =
        &[("logistic", Self::Logistic), ("mlp", Self::Mlp), ("cnn", Self::Cnn), ("own", Self::Own)];
}

impl Word for Weighting {
    const WORDS: &'static [(&'static str, Self)] = &[("rows", Self::Rows), ("equal", Self::Equal)];
}

impl Word for Schedule {
    const WORDS: &'static [(&'static str, Self)] = &[("constant", Self::Constant), ("cosine", Self::Cosine)];
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
    /// Batches of a member in a round, up to 1,000,000. With 0, the default, a member makes `epochs` passes.
    pub steps: u32,
    /// Rows of a batch: 1 to 65,536. Default 32.
    pub batch: u32,
    /// The learning rate: above 0, at most 10. Default 0.05.
    pub rate: f64,
    /// Decay of the rate. Default cosine.
    pub schedule: Schedule,
    /// Momentum: 0 to 0.999. Default 0.9.
    pub momentum: f64,
    /// Weight decay: 0 to 1. Default 1e-4.
    pub weight_decay: f64,
    /// FedProx's mu (Li et al., MLSys 2020): 0 to 1,000. Default 0.
    pub proximal: f64,
    /// Largest Euclidean norm of a member's update. 0, the default, sets no limit.
    pub clip: f64,
    /// Share of the members that train in a round, drawn by the coin: 0.001 to 1. Default 1.
    pub members: f64,
    /// Weight of a member in the mean. Default: by its rows.
    pub weighting: Weighting,
    /// Percent of each member's rows that are used for testing instead of training: 0 to 50. Default 0.
    pub held_out: u32,
    /// Training ends after this number of rounds in a row without a lower loss on held-out rows: up to
    /// 10,000. The result is then the weights of the best round. With 0, the default, all rounds run and
    /// the result is the last weights.
    pub patience: u32,
    /// True if images are flipped (left and right) at random. Default false.
    pub flip: bool,
    /// Largest random shift of images, in pixels: 0 to 64. Default 0.
    pub shift: u32,
    /// Channels, height and width, if the rows are images. A row has one channel after the other, each line
    /// by line.
    pub image: Option<[u32; 3]>,
    /// Digest of the file with the first weights. If `None`, the default, the coin draws them.
    pub initial: Option<[u8; 32]>,
    /// A power of two. All weights must be less than this in magnitude. Default 16.
    pub range: f64,
    /// The tensors of a model of the users' own ([`Architecture::Own`]); empty for other networks.
    pub tensors: Vec<TensorSpec>,
}

/// The fields of the section `[fedavg]`, in which several fields describe the network.
struct Section {
    shape: Shape,
    hidden: Vec<u32>,
    filters: Vec<u32>,
    image: Vec<u32>,
    spec: FedavgSpec,
}

static FIELDS: &[Row<Section>] = fields::fields! { "fedavg";
    network at shape: word(Shape),
        "\"logistic\" (regression), \"mlp\" (`hidden`: units of each hidden layer), \"cnn\" (`filters` of \
         three convolutions, then a hidden layer) or \"own\" (`tensors`: any model, which each peer trains \
         with its own trainer).";
    hidden at hidden: list(1, 1 << 20), "";
    filters at filters: list(1, 4096), "";
    image at image: list(1, 65_536), "Channels, height and width of a row.";
    rounds at spec.rounds: whole(1, 10_000),
        "In each round a member makes `epochs` passes over its rows, in batches of `batch` rows. If `steps` is \
         above 0, it makes this number of steps instead.";
    epochs at spec.epochs: whole(1, 1_000), "";
    steps at spec.steps: whole(0, 1_000_000), "";
    batch at spec.batch: whole(1, 65_536), "";
    schedule at spec.schedule: word(Schedule),
        "The learning rate: it begins with `rate`, and is \"constant\" or falls over the rounds (\"cosine\").";
    rate at spec.rate: number(f64::MIN_POSITIVE, 10.0, "above 0, at most 10"), "";
    momentum at spec.momentum: number(0.0, 0.999, "0 to 0.999"), "";
    weight_decay at spec.weight_decay: number(0.0, 1.0, "0 to 1"), "";
    proximal at spec.proximal: number(0.0, 1000.0, "0 to 1000"),
        "`proximal` pulls a member's weights towards the common weights (mu of FedProx; 0: off); `clip` is the largest length of a member's update (0: no limit).";
    clip at spec.clip: number(0.0, 1e6, "0 to 1000000"), "";
    members at spec.members: number(0.001, 1.0, "0.001 to 1"),
        "Share of the members that train in a round. Each counts by its number of \"rows\", or all count \"equal\".";
    weighting at spec.weighting: word(Weighting), "";
    held_out at spec.held_out: within(Limit::new("fedavg.held_out", 0, 50).saying(" percent")),
        "Percent of each member's rows that are kept for tests: 0 to 50.";
    flip at spec.flip: flag,
        "`flip`: true if images are flipped at random. `shift`: largest random shift in pixels.";
    shift at spec.shift: whole(0, 64), "";
    patience at spec.patience: whole(0, 10_000),
        "Training ends after this number of rounds in a row without a lower loss on the held-out rows. \
         The result has the weights of the best round. With 0 all rounds are made, and the result has the \
         weights of the last. With the task fedavg-xclp rounds count from the first that learns from found \
         labels.";
    initial at spec.initial: digest,
        "Digest of the network that the session starts from; its file is next to this one.";
    range at spec.range: number(f64::MIN_POSITIVE, f64::MAX, "a power of two, 2^-20 to 2^40"),
        "Weights are less than `range` in magnitude: a power of two. The sums of a round are as exact as \
         range / 2^31.";
    tensors at spec.tensors: tables,
        "The tensors of the model. Each round averages those with the rule \"average\"; a peer keeps its own \
         values with \"keep-own\"; with \"first\" they stay those of the file in `initial`.";
};

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
            range: USUAL_RANGE,
            tensors: Vec::new(),
        }
    }
}

fn refuse<T>(field: &str, value: impl fmt::Display, limit: &str) -> Result<T, SessionError> {
    Err(SessionError::value(field, value, limit))
}

/// Converts a list to an array of `N` numbers. Returns an error if the list has another length.
fn numbers<const N: usize>(field: &str, given: &[u32]) -> Result<[u32; N], SessionError> {
    given.try_into().or_else(|_| refuse(&format!("the length of {field}"), given.len(), &N.to_string()))
}

impl FedavgSpec {
    /// Builds the network for rows as in `data`.
    ///
    /// # Errors
    /// [`SessionError::Value`] if such a network does not exist.
    pub(crate) fn build(&self, data: &DataSpec) -> Result<Network, SessionError> {
        Network::new(&self.network, data.width() as usize, data.classes.len())
            .or_else(|error| refuse("fedavg.network", self.network.name(), &format!("possible: {error}")))
    }

    /// Returns the tensors that the session trains, for rows as in `data`. All tensors of a network of this
    /// program are averaged.
    ///
    /// # Errors
    /// As [`FedavgSpec::build`].
    pub(crate) fn model(&self, data: &DataSpec) -> Result<Vec<TensorSpec>, SessionError> {
        if self.is_own() {
            return Ok(self.tensors.clone());
        }
        let tensor = |tensor: Tensor| TensorSpec {
            name: tensor.name,
            dtype: Dtype::F32,
            shape: tensor.shape.into_iter().map(|side| u32::try_from(side).unwrap_or(u32::MAX)).collect(),
            rule: Rule::Average,
            range: self.range,
        };
        Ok(self.build(data)?.tensors().into_iter().map(tensor).collect())
    }

    /// Returns whether the peers train a model that this program does not know.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.network == Architecture::Own
    }

    /// Returns the number of averaged weights of the model for rows as in `data`.
    #[must_use]
    pub fn weights(&self, data: &DataSpec) -> usize {
        let tensors = self.model(data).unwrap_or_default();
        tensors.iter().filter(|each| each.is_averaged()).map(TensorSpec::count).sum()
    }

    /// Checks the range, and the tensors of a model of the users' own.
    fn check_model(&self) -> Result<(), SessionError> {
        if !tensors::is_range(self.range) {
            return refuse("fedavg.range", self.range, "a power of two, 2^-20 to 2^40");
        }
        if !self.is_own() {
            return match self.tensors.len() {
                0 => Ok(()),
                count => {
                    let field = "the length of fedavg.tensors";
                    refuse(field, count, "0, unless fedavg.network is \"own\"")
                }
            };
        }
        if let Err(problem) = tensors::check(&self.tensors) {
            return refuse("fedavg.tensors", problem, "a list that the peers can train (docs/networks.md)");
        }
        // Only the trainers can predict with the model, and the coin cannot draw its first weights.
        let own = "with fedavg.network = \"own\"";
        if self.initial.is_none() {
            return refuse("fedavg.initial", "missing", &format!("given {own}: the file of first weights"));
        }
        if self.held_out > 0 {
            let limit = format!("0 {own}: its trainers hold rows out themselves");
            return refuse("fedavg.held_out", self.held_out, &limit);
        }
        if self.flip || self.shift > 0 {
            return refuse("fedavg.flip", "given", &format!("left out {own}, as fedavg.shift"));
        }
        Ok(())
    }

    /// Returns the random changes that training makes to images.
    pub(crate) fn augment(&self) -> Option<Augment> {
        let image = self.image.filter(|_| self.flip || self.shift > 0)?;
        let image = image.map(|side| side as usize);
        Some(Augment { image, flip: self.flip, shift: self.shift as usize })
    }

    fn section(&self) -> Section {
        let (shape, hidden, filters) = match &self.network {
            Architecture::Logistic => (Shape::Logistic, Vec::new(), Vec::new()),
            Architecture::Perceptron { hidden } => (Shape::Mlp, hidden.clone(), Vec::new()),
            Architecture::Convolutional { filters, hidden, .. } => {
                (Shape::Cnn, vec![*hidden], filters.to_vec())
            }
            Architecture::Own => (Shape::Own, Vec::new(), Vec::new()),
        };
        Section {
            shape,
            hidden,
            filters,
            image: self.image.map_or(Vec::new(), Vec::from),
            spec: self.clone(),
        }
    }

    /// Reads the parameters from their sections of the session file. `data` describes the rows.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        let mut section = Self::default().section();
        let given = fields::read(FIELDS, sections, &mut section)?;
        section.resolve(&given)
    }
}

impl Spec for FedavgSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
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
        fields::check(FIELDS, &self.section())?;
        self.check_model()?;
        if self.patience > 0 && self.held_out == 0 {
            return refuse("fedavg.held_out", 0, "above 0 if there is a fedavg.patience");
        }
        match (&self.network, self.image) {
            (Architecture::Convolutional { image, .. }, own) if own != Some(*image) => {
                return refuse("fedavg.image", format!("{own:?}"), "the network's");
            }
            (_, None) if self.flip || self.shift > 0 => {
                return refuse("fedavg.image", "missing", "given if images are flipped or shifted");
            }
            (_, Some(image)) => {
                let pixels = image.iter().map(|&side| u64::from(side)).product::<u64>();
                if pixels != u64::from(data.width()) {
                    let limit = format!(
                        "three numbers whose product is {}, the number of features of a row",
                        data.width()
                    );
                    return refuse("fedavg.image", format!("{image:?}"), &limit);
                }
                if self.shift >= image[1].min(image[2]) {
                    return refuse(
                        "fedavg.shift",
                        self.shift,
                        "less than the height and the width of the image",
                    );
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

    /// Leaves out the default range, so that files from before this field was added keep their session id.
    fn entries(&self) -> Vec<Field> {
        let entries = fields::entries(FIELDS, &self.section()).into_iter();
        entries.filter(|(name, _)| *name != "fedavg.range" || self.range != USUAL_RANGE).collect()
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(out, "[fedavg]")?;
        fields::write(FIELDS, &self.section(), out)?;
        writeln!(out)
    }

    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let mut fields = fields::json(FIELDS, &self.section());
        fields.insert("weights".into(), self.weights(data).into());
        vec![("fedavg", fields.into())]
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let weights = self.weights(data);
        let often = match self.steps {
            0 => format!("{} passes", self.epochs),
            steps => format!("{steps} steps"),
        };
        let mut lines = vec![
            (
                "network",
                match self.tensors.len() {
                    0 => format!("{}, {weights} weights", self.network.name()),
                    count => format!("a model of {count} tensors, {weights} weights are averaged"),
                },
            ),
            ("rounds", format!("{}, each of {often} in batches of {}", self.rounds, self.batch)),
            (
                "steps",
                format!(
                    "rate {} ({}), momentum {}, weight decay {}",
                    self.rate,
                    self.schedule.word(),
                    self.momentum,
                    self.weight_decay
                ),
            ),
        ];
        let options = [
            (self.range != USUAL_RANGE, format!("weights are less than {} in magnitude", self.range)),
            (self.proximal > 0.0, format!("FedProx with mu {}", self.proximal)),
            (self.clip > 0.0, format!("updates of at most {}", self.clip)),
            (self.members < 1.0, format!("{} of the members train in a round", self.members)),
            (self.weighting == Weighting::Equal, "every member counts the same".into()),
            (self.held_out > 0, format!("{} % of the rows are held out", self.held_out)),
            (self.patience > 0, format!("ends after {} rounds in a row without a lower loss", self.patience)),
            (self.flip, "images are flipped at random".into()),
            (self.shift > 0, format!("images are shifted at random by up to {} pixels", self.shift)),
        ];
        lines.extend(self.initial.map(|digest| ("starts from", format!("network {}", hex::encode(digest)))));
        lines.extend(options.into_iter().filter(|(given, _)| *given).map(|(_, line)| ("", line)));
        lines
    }
}

impl Section {
    /// Makes the parameters from the section. `given` has the names of the fields that the file sets.
    fn resolve(self, given: &[&str]) -> Result<FedavgSpec, SessionError> {
        let Self { shape, hidden, filters, image, mut spec } = self;
        let has = |name: &str| given.contains(&name);
        let image = has("image").then(|| numbers("fedavg.image", &image)).transpose()?;
        let network = match shape {
            Shape::Logistic | Shape::Own if has("hidden") => {
                let limit = format!("left out with the network {}", shape.word());
                return refuse("fedavg.hidden", "given", &limit);
            }
            Shape::Logistic => Architecture::Logistic,
            Shape::Own => Architecture::Own,
            Shape::Mlp => {
                Architecture::Perceptron { hidden: if has("hidden") { hidden } else { vec![CNN.1] } }
            }
            Shape::Cnn => {
                let Some(image) = image else {
                    return refuse("fedavg.image", "missing", "given with the network cnn");
                };
                let filters = if has("filters") { numbers("fedavg.filters", &filters)? } else { CNN.0 };
                let hidden = if has("hidden") { numbers::<1>("fedavg.hidden", &hidden)?[0] } else { CNN.1 };
                Architecture::Convolutional { image, filters, hidden }
            }
        };
        if has("filters") && shape != Shape::Cnn {
            return refuse("fedavg.filters", "given", "left out unless the network is cnn");
        }
        for tensor in &mut spec.tensors {
            // Fills in the default, so that two files with the same meaning have the same id.
            tensor.range = match tensor.range {
                _ if !tensor.is_averaged() => 0.0,
                0.0 => spec.range,
                range => range,
            };
        }
        Ok(FedavgSpec { network, image, ..spec })
    }
}
