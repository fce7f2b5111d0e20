//! `flyswarm personalise`: makes a network personal with a peer's own rows (kNN-Per), and compares it
//! with fine-tuning.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(feature = "net")]
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use flyswarm_learn::learner::{Classifier, Settings};
use flyswarm_learn::personal::{
    Assessment, Contents, Datastore, Drift, LAMBDAS, Mixture, PersonalError, PersonalModel, Practice, assess,
    trained,
};
use serde_json::{Value, json};

use super::data::DataArguments;
use super::model::network::Network;
use super::{Failure, kind, learnt, output, print, say};
use crate::data::groups::in_both;
use crate::data::split::{Split, folds};
use crate::data::{Dataset, LabelColumn};

/// Adapt a trained network to your own rows: mix its predictions with the classes of the nearest own rows
/// (kNN-Per)
///
/// The model is a network that the task fedavg has trained. You can use this command with any such network
/// file, even if you did not take part in the session. The command compares the accuracy of the network
/// alone, the network after further training on your rows (fine-tuned), and kNN-Per, and names the best of
/// the three. If the network was trained on the rows of --data, the comparison favours the network; then use
/// --validate. If you give a personal model instead of a network, the command measures this model on the new
/// rows, then stores the rows in it as `--drift` says. docs/networks.md has the details.
#[derive(Debug, Args)]
pub(super) struct Personalise {
    /// Network file, or a personal model to update with new rows
    model: PathBuf,
    #[command(flatten)]
    data: DataArguments,
    /// Label column: its name, its number from 1, or `last`
    #[arg(long, value_name = "COLUMN", default_value = "last")]
    label: LabelColumn,
    /// Personal model to write [default: the network's name with the ending .personal]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Rows to test on and to choose lambda, the weight of the stored rows. The network must not be trained
    /// on these rows [default: cross-validation on the rows of --data]
    #[arg(long, value_name = "FILE")]
    validate: Option<PathBuf>,
    /// Labels of --validate, if they are in another file
    #[arg(long, value_name = "FILE", requires = "validate")]
    validate_labels: Option<PathBuf>,
    /// Number of parts of the rows for cross-validation, 2 to 20
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "validate",
        value_parser = clap::value_parser!(u8).range(2..=20))]
    folds: u8,
    /// Number of neighbours that vote, 1 to 1024
    #[arg(long, default_value_t = 10)]
    k: usize,
    /// Divide distances by SIGMA. With a larger number, far rows get more weight
    #[arg(long, value_name = "SIGMA", default_value_t = 1.0)]
    scale: f64,
    /// Share of the rows to store, above 0 and at most 1
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    capacity: f64,
    /// Store means of similar rows (k-means in each class) instead of rows. --capacity, below 1, sets their
    /// number
    #[arg(long, requires = "capacity")]
    prototypes: bool,
    /// Number of passes of fine-tuning
    #[arg(long, value_name = "N", default_value_t = 2)]
    epochs: u32,
    /// Learning rate of fine-tuning
    #[arg(long, default_value_t = 0.01)]
    rate: f32,
    /// Also compare with a network that is trained only on these rows (15 passes)
    #[arg(long)]
    local: bool,
    /// Also write the fine-tuned network to FILE
    #[arg(long, value_name = "FILE")]
    fine_tuned_out: Option<PathBuf>,
    /// With a personal model, use of the new rows: fifo (replace the oldest stored rows), concatenate (add to
    /// the stored rows) or fixed (only compare) [default: fifo]
    #[arg(long, value_name = "HOW", value_parser = drifts())]
    drift: Option<Drift>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Seed for folds, samples and batches. They need not be secret.
const SEED: &[u8] = b"flyswarm personalise";
/// Passes and learning rate for a network of a peer's own rows, as in the reference runs of
/// lab/tables/networks.md.
const LOCAL: (u32, f32) = (15, 0.02);

fn drifts() -> impl TypedValueParser<Value = Drift> {
    PossibleValuesParser::new(["fifo", "concatenate", "fixed"]).map(|text| match text.as_str() {
        "concatenate" => Drift::Concatenate,
        "fixed" => Drift::Fixed,
        _ => Drift::Fifo,
    })
}

fn settings(epochs: u32, rate: f32) -> Settings {
    let (momentum, decay) = (0.9, 1e-4);
    Settings { epochs, steps: 0, batch: 32, rate, momentum, decay, proximal: 0.0, augment: None }
}

impl Personalise {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.label == LabelColumn::None {
            return Err(Failure::Input("--label none: expected a column of labels to remember".into()));
        }
        if !(self.rate > 0.0 && self.rate <= 10.0 && (1..=1000).contains(&self.epochs)) {
            let (epochs, rate) = (self.epochs, self.rate);
            let text = format!(
                "--epochs is {epochs}, must be 1 to 1000; --rate is {rate}, must be above 0 and at most 10"
            );
            return Err(Failure::Input(text));
        }
        let path = self.out.clone().unwrap_or_else(|| self.model.with_extension("personal"));
        let network = Network::load(&self.model)?;
        if !matches!((&network, self.drift), (Some(Network::Personal(_)), Some(Drift::Fixed))) {
            output::check(&path, self.force)?;
            learnt::check(&path, self.force)?;
        }
        self.fine_tuned_out.iter().try_for_each(|path| output::check(path, self.force))?;
        match network {
            Some(Network::Global(_)) if self.drift.is_some() => {
                Err(Failure::Input("--drift: works only with a personal model, and this is a network".into()))
            }
            Some(network @ Network::Global(_)) => {
                let rows = network.rows(&self.data, &self.label, true)?;
                let validation = self.validate.as_ref().map(|file| {
                    let data = self.data.beside(file.clone(), self.validate_labels.clone());
                    network.rows(&data, &self.label, true)
                });
                let Network::Global(network) = network else { unreachable!("BUG: just matched") };
                let known = learnt::read(&self.model, network.digest())?;
                let told = self.make((*network, known), rows, validation.transpose()?, &path)?;
                told.print(self.json, out)
            }
            Some(network @ Network::Personal(_)) => {
                let rows = network.rows(&self.data, &self.label, true)?;
                let Network::Personal(model) = network else { unreachable!("BUG: just matched") };
                self.take_in(*model, &rows, &path, out)
            }
            None => Err(Failure::Input(
                kind::advice(&self.model, "a network of the task fedavg is expected")
                    .unwrap_or_else(|| format!("{}: not a network of the task fedavg", self.model.display())),
            )),
        }
    }

    fn contents(&self) -> Result<Contents, Failure> {
        match (self.capacity, self.prototypes) {
            (1.0, false) => Ok(Contents::All),
            (part, false) if part > 0.0 && part < 1.0 => Ok(Contents::Sample(part)),
            (part, true) if part > 0.0 && part < 1.0 => Ok(Contents::Prototypes(part)),
            (part, prototypes) => {
                let limit =
                    if prototypes { "above 0, below 1 with --prototypes" } else { "above 0, at most 1" };
                Err(Failure::Input(format!("--capacity is {part}, must be {limit}")))
            }
        }
    }

    /// Makes a personal model from a network. Also writes the list of its training rows.
    fn make(
        &self,
        (network, known): (Classifier, learnt::Known),
        rows: Dataset,
        validation: Option<Dataset>,
        path: &Path,
    ) -> Result<PersonalSummary, Failure> {
        let contents = self.contents()?;
        // The comparison is only fair if the network was not trained on these rows.
        let compared = learnt::compare(&known, validation.as_ref().unwrap_or(&rows));
        let mixture = Mixture { k: self.k, scale: self.scale, lambda: 0.0 };
        mixture.check()?;
        let (rows, splits, how) = match validation {
            Some(validation) => {
                if let (Some(own), Some(others)) = (rows.groups(), validation.groups())
                    && in_both(own, others) > 0
                {
                    let text = format!(
                        "--validate: {} groups have rows in --data too: leave them out of one of the two files",
                        in_both(own, others)
                    );
                    return Err(Failure::Input(text));
                }
                let (own, all) = (rows.rows(), rows.rows() + validation.rows());
                let split = Split { train: (0..own).collect(), test: (own..all).collect() };
                (rows.followed_by(&validation)?, vec![split], "rows of --validate".to_owned())
            }
            None => {
                let splits = folds(&rows, self.folds.into(), SEED);
                let splits = splits.into_iter().filter(|split| !split.test.is_empty()).collect();
                (rows, splits, format!("cross-validation in {} parts", self.folds))
            }
        };
        let tuning = settings(self.epochs, self.rate);
        let local = self.local.then(|| settings(LOCAL.0, LOCAL.1));
        let practice = Practice { mixture, contents, fine_tuning: Some(tuning), local, seed: SEED };
        let found = assess(&network, &rows, &splits, &practice)?;
        // All settings have been chosen. So all rows are stored now, including those of the validation
        // (section 5 of the paper).
        let keys = network.represent(rows.view()).map_err(PersonalError::from)?.0;
        let all = Datastore::new(keys, rows.labels().to_vec(), network.classes().len())?;
        let datastore = contents.of(&all, SEED)?;
        if let Some(file) = &self.fine_tuned_out {
            let scaled = network.scaler().transform(&rows);
            let weights = trained(&network, &scaled, &tuning, false, SEED);
            let tuned = network.with_weights(weights).map_err(PersonalError::from)?;
            output::write_private(file, &tuned.encode(), self.force)?;
        }
        let mixture = Mixture { lambda: found.lambda(), ..mixture };
        let model = PersonalModel::new(network, datastore, mixture, contents)?;
        output::write_private(path, &model.encode(), self.force)?;
        learnt::write(path, model.digest(), known, &rows)?;
        Ok(self.said((&found, compared), &model, &how, path))
    }

    fn said(
        &self,
        (found, compared): (&Assessment, learnt::Compared),
        model: &PersonalModel,
        how: &str,
        path: &Path,
    ) -> PersonalSummary {
        let part = |right: usize| right as f64 / found.rows.max(1) as f64;
        let methods = [
            ("global", Some(found.global), "the network as it is".to_owned()),
            ("fine-tuned", found.fine_tuned, format!("{} passes at rate {}", self.epochs, self.rate)),
            ("local", found.local, format!("these rows alone, {} passes", LOCAL.0)),
            ("neighbours", Some(found.neighbours), "lambda 1".to_owned()),
            (
                "kNN-Per",
                Some(found.personal),
                "lambda chosen on other rows than those of this figure".to_owned(),
            ),
        ];
        let methods: Vec<_> =
            methods.into_iter().filter_map(|(name, right, what)| Some((name, part(right?), what))).collect();
        let (lambda, digest) = (model.mixture().lambda, hex::encode(model.digest()));
        let keys = model.datastore().len();
        let accuracies: serde_json::Map<String, Value> =
            methods.iter().map(|(name, accuracy, _)| ((*name).to_owned(), json!(accuracy))).collect();
        let tried = LAMBDAS.iter().zip(found.tally.right).map(|(lambda, right)| json!([lambda, part(right)]));
        let value = json!({
            "file": path, "digest": digest, "rows": found.rows, "accuracy": accuracies,
            "better": found.better(), "lambda": lambda, "accuracy_by_lambda": tried.collect::<Vec<_>>(),
            "keys": keys, "rows_learnt_from": compared.overlap.map(|overlap| overlap.learnt),
            "warnings": compared.warning.into_iter().collect::<Vec<_>>(),
        });
        let mut lines = vec![format!("accuracy on {} {how}:", found.rows)];
        let line =
            |(name, accuracy, what): &(&str, f64, String)| format!("  {name:<11} {accuracy:.4}  {what}");
        lines.extend(methods.iter().map(line));
        lines.push(format!("better: {}", found.better()));
        lines.push(format!("wrote {}: {digest} (lambda {lambda}, {keys} keys)", path.display()));
        warn(path, self.fine_tuned_out.as_deref());
        PersonalSummary { value, text: lines.join("\n") }
    }

    /// Adds new rows to a personal model. Its accuracy on them is measured before they are added.
    fn take_in(
        &self,
        mut model: PersonalModel,
        rows: &Dataset,
        path: &Path,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let drift = self.drift.unwrap_or(Drift::Fifo);
        let known = learnt::read(&self.model, model.digest())?;
        let compared = learnt::compare(&known, rows);
        let said = model.predict(rows.view())?;
        let right = said.iter().zip(rows.labels()).filter(|(said, label)| said == label).count();
        let accuracy = right as f64 / rows.rows() as f64;
        let before = model.datastore().len();
        model.take_in(rows.view(), rows.labels(), drift)?;
        let (keys, digest) = (model.datastore().len(), hex::encode(model.digest()));
        let mut value = json!({
            "rows": rows.rows(), "accuracy_before": accuracy, "keys": keys,
            "rows_learnt_from": compared.overlap.map(|overlap| overlap.learnt),
            "warnings": compared.warning.into_iter().collect::<Vec<_>>(),
        });
        let mut text =
            format!("accuracy on {} new rows, before they were added: {accuracy:.4}\n", rows.rows());
        if drift != Drift::Fixed {
            output::write_private(path, &model.encode(), self.force)?;
            learnt::write(path, model.digest(), known, rows)?;
            warn(path, None);
            value["file"] = json!(path);
            value["digest"] = json!(digest);
            let lambda = model.mixture().lambda;
            text += &format!(
                "wrote {}: {digest} ({keys} keys, before {before}; lambda stays {lambda})\n",
                path.display()
            );
        }
        print(out, &if self.json { format!("{value}\n") } else { text })
    }
}

/// Figures of a new personal model.
pub(super) struct PersonalSummary {
    pub(super) value: Value,
    pub(super) text: String,
}

impl PersonalSummary {
    fn print(&self, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        print(out, &if as_json { format!("{}\n", self.value) } else { format!("{}\n", self.text) })
    }
}

/// Makes the personal model of a network file that a session has just written for this peer, with the
/// defaults of the command `personalise`.
#[cfg(feature = "net")]
pub(super) fn made_of(
    model: &Path,
    data: DataArguments,
    label: LabelColumn,
    out: &Path,
    force: bool,
) -> Result<PersonalSummary, Failure> {
    // The defaults are defined only in the options of the command, so they are read from there.
    let usual = Usual::try_parse_from(["flyswarm", "network", "--data", "rows"]);
    let mut usual = usual.map_err(|error| Failure::Input(error.to_string()))?.arguments;
    (usual.data, usual.label, usual.force) = (data, label, force);
    let Some(network) = Network::load(model)? else {
        return Err(Failure::Input(format!("{}: not a network of the task fedavg", model.display())));
    };
    let rows = network.rows(&usual.data, &usual.label, true)?;
    let Network::Global(network) = network else {
        return Err(Failure::Input(format!("{}: already a personal model", model.display())));
    };
    let known = learnt::read(model, network.digest())?;
    usual.make((*network, known), rows, None, out)
}

/// The options of the command, to read their defaults.
#[cfg(feature = "net")]
#[derive(Debug, clap::Parser)]
struct Usual {
    #[command(flatten)]
    arguments: Personalise,
}

fn warn(personal: &Path, tuned: Option<&Path>) {
    say(&format!(
        "{}: holds representations of private rows and their classes; only you can read it: keep these \
         permissions",
        personal.display()
    ));
    if let Some(tuned) = tuned {
        say(&format!(
            "{}: was trained on private rows, and parts of them may be recovered from it",
            tuned.display()
        ));
    }
}

#[cfg(test)]
mod tests;
