//! `flyswarm predict`: prints the classes of rows, and the confidence of the model.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::ModelArguments;
use super::network::Network;
use crate::cli::data::DataArguments;
use crate::cli::{Failure, output, say, written};
use crate::data::prepare::TableSchema;
use crate::data::{Column, LabelColumn};
use crate::model::readout::lowest;

/// Print the predicted class of each row, one per line. With --scores, --abstain or --id the output is CSV
/// with a header
///
/// A network predicts the most probable class. With a FlyNN model, the probability of a class takes into
/// account how frequent the class is. Probabilities are calibrated if the session held out at least ten rows.
/// With a balanced score (which `session new` sets in sessions without noise) the prediction ignores how
/// frequent the classes are, so that rare classes are found too. Then the predicted class is not always the
/// most probable one.
#[derive(Debug, Args)]
pub(in crate::cli) struct Predict {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Label column to exclude: its name, its number from 1, `last` or `none`
    #[arg(long, value_name = "COLUMN", default_value = "none")]
    label: LabelColumn,
    /// Column of a CSV file, such as an id, to print next to each class: its name, or its number from 1. The
    /// column is not used as a feature
    #[arg(long, value_name = "COLUMN")]
    id: Option<Column>,
    /// Also print the probability and the novelty of each class, and the margin. The class with the lowest
    /// novelty is predicted. The margin is the difference between the two lowest novelties; for a FlyNN model
    /// it is divided by rho, the number of set bits. For a network the novelty is -ln of the probability
    #[arg(long)]
    scores: bool,
    /// Print no class for a row whose margin is below MARGIN
    #[arg(long, value_name = "MARGIN", value_parser = margin)]
    abstain: Option<f64>,
    /// Write the classes to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: output::Overwrite,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

fn margin(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| *x >= 0.0).ok_or_else(|| "must be a number, 0 or more".to_owned())
}

/// The output for a row.
struct Said<'a> {
    id: Option<&'a str>,
    class: Option<&'a str>,
    margin: f64,
    /// Probability of the class with the lowest score.
    probability: f64,
    probabilities: &'a [f64],
    scores: &'a [f64],
}

impl Predict {
    pub(in crate::cli) fn run(mut self, out: &mut dyn Write) -> Result<(), Failure> {
        self.out.iter().try_for_each(|path| output::check(path, self.overwrite.force))?;
        let network = Network::load(&self.model.model)?;
        if network.is_some() && self.model.large {
            return Err(Failure::Input("--large: not with a network, which has no lifting matrix".into()));
        }
        if let Some(column) = &self.id {
            self.data.leave_aside(column.clone());
        }
        let mut bytes = Vec::new();
        let wrote = if let Some(network) = network {
            let data = network.rows(&self.data, &self.label, false)?;
            let (ids, scores) = (self.ids(data.rows(), network.preparation())?, network.scores(&data)?);
            let stated: Vec<f64> = scores.iter().map(|score| (-score).exp()).collect();
            self.write(network.classes(), 1.0, (&scores, &stated), ids.as_deref(), &mut bytes)
        } else {
            let model = self.model.load()?;
            let (data, said) = self.data.load_for(&model, &self.label, false)?;
            said.iter().for_each(|line| say(line));
            let ids = self.ids(data.rows(), model.preparation())?;
            let bits = model.sketch().parameters().rho as f64;
            let scores = model.predictor().scores(&data)?;
            let stated = model.probabilities(&scores);
            self.write(model.classes(), bits, (&scores, &stated), ids.as_deref(), &mut bytes)
        };
        wrote.map_err(|error| Failure::Environment(error.to_string()))?;
        match &self.out {
            Some(path) => output::write(path, &bytes, self.overwrite.force),
            None => written(out.write_all(&bytes).and_then(|()| out.flush()), "standard output"),
        }
    }

    /// Returns the texts of the column `--id`, one per row.
    fn ids(&self, rows: usize, preparation: Option<&TableSchema>) -> Result<Option<Vec<String>>, Failure> {
        self.id.as_ref().map(|column| self.data.texts(column, rows, preparation)).transpose()
    }

    /// Writes the output for rows with these scores and probabilities, which are matrices of rows x classes.
    /// Margins are divided by `bits`.
    fn write(
        &self,
        classes: &[String],
        bits: f64,
        (scores, stated): (&[f64], &[f64]),
        ids: Option<&[String]>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let width = classes.len().max(1);
        let rows = scores.chunks_exact(width).zip(stated.chunks_exact(width)).enumerate();
        let rows = rows.map(|(row, (scores, probabilities))| {
            let best = usize::from(lowest(scores));
            let next = scores.iter().enumerate().filter(|(l, _)| *l != best).map(|(_, &x)| x);
            let margin = (next.fold(f64::INFINITY, f64::min) - scores[best]) / bits;
            // The margin is infinity minus infinity if no training row set any of these bits.
            let margin = if margin.is_nan() { 0.0 } else { margin };
            let sure = self.abstain.is_none_or(|least| margin >= least);
            let id = ids.and_then(|ids| ids.get(row)).map(String::as_str);
            let (class, probability) = (classes.get(best).map(String::as_str), probabilities[best]);
            (row, Said { id, class: class.filter(|_| sure), margin, probability, probabilities, scores })
        });
        if self.json {
            for (row, said) in rows {
                writeln!(out, "{}", self.object(classes, row, &said))?;
            }
            return Ok(());
        }
        let mut writer = csv::Writer::from_writer(out);
        let table = self.scores || self.abstain.is_some() || ids.is_some();
        let each = |what: &'static str| classes.iter().map(move |class| format!("{what} {class}"));
        let extra = self.scores.then(|| each("novelty").chain(each("probability")));
        if table {
            let id = ids.map(|_| "id".to_owned()).into_iter();
            let names = id
                .chain(["class", "margin", "probability"].map(str::to_owned))
                .chain(extra.into_iter().flatten());
            writer.write_record(names.collect::<Vec<_>>()).map_err(io::Error::other)?;
        }
        for (_, said) in rows {
            let mut fields: Vec<String> = said.id.map(str::to_owned).into_iter().collect();
            fields.push(said.class.unwrap_or_default().to_owned());
            if table {
                fields.extend([said.margin, said.probability].map(|number| format!("{number:.6}")));
            }
            if self.scores {
                let numbers = said.scores.iter().chain(said.probabilities);
                fields.extend(numbers.map(|number| format!("{number:.6}")));
            }
            writer.write_record(fields).map_err(io::Error::other)?;
        }
        writer.flush()
    }

    fn object(&self, classes: &[String], row: usize, said: &Said) -> Value {
        let number = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
        let (margin, probability) = (number(said.margin), said.probability);
        let mut value =
            json!({"row": row + 1, "class": said.class, "margin": margin, "probability": probability});
        if let Some(id) = said.id {
            value["id"] = json!(id);
        }
        if self.scores {
            let of = |numbers: &[f64]| {
                let numbers = classes.iter().zip(numbers).map(|(class, &x)| (class.clone(), number(x)));
                Value::Object(numbers.collect::<Map<_, _>>())
            };
            (value["novelty"], value["probabilities"]) = (of(said.scores), of(said.probabilities));
        }
        value
    }
}
