//! The options of `session new` for the task `fedavg`.

use std::path::PathBuf;

use clap::Args;
use toml::{Table, Value};

use super::super::Failure;
use super::super::model::network::Network;
use crate::tasks::FedavgSpec;

// (clap would take a documentation comment for the command's.)
#[derive(Debug, Args)]
pub(super) struct FedavgArguments {
    /// logistic, mlp (hidden layers) or cnn (images), with the task fedavg [default: logistic]
    #[arg(long, value_name = "NETWORK", value_parser = ["logistic", "mlp", "cnn"])]
    network: Option<String>,
    /// Units of the hidden layers of an mlp, or of the cnn's one [default: 128]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    hidden: Vec<u32>,
    /// Filters of the cnn's three convolutions [default: 16,32,32]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',')]
    filters: Vec<u32>,
    /// Channels, height and width of a row that is an image: a channel after the other, line by line
    #[arg(long, value_name = "C,H,W", value_delimiter = ',')]
    image: Vec<u32>,
    /// Rounds, with the task fedavg [default: 20]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Passes of each peer over its rows in a round [default: 1]
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Rows of a batch [default: 32]
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// The learning rate of the first round [default: 0.05]
    #[arg(long)]
    rate: Option<f64>,
    /// Percent of each peer's rows that it does not train on but tests on [default: 0]
    #[arg(long, value_name = "PERCENT")]
    held_out: Option<u32>,
    /// Start from the weights of this network file, which every peer then puts beside the session file
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,
    /// Another field of the section fedavg, such as momentum=0.5 or flip=true; repeatable
    #[arg(long = "fedavg", value_name = "FIELD=VALUE", value_parser = field)]
    fields: Vec<(String, Value)>,
}

/// A number, a truth value, or else a text.
fn field(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected FIELD=VALUE")?;
    let value = match (value.parse(), value.parse(), value.parse()) {
        (Ok(whole), ..) => Value::Integer(whole),
        (_, Ok(number), _) => Value::Float(number),
        (.., Ok(flag)) => Value::Boolean(flag),
        _ => Value::String(value.into()),
    };
    Ok((name.into(), value))
}

impl FedavgArguments {
    fn table(&self) -> Vec<(&'static str, &'static str, Option<Value>)> {
        let whole = |number: &Option<u32>| number.map(|number| Value::Integer(number.into()));
        let list = |numbers: &[u32]| -> Option<Value> {
            let numbers: Vec<_> = numbers.iter().map(|&number| Value::Integer(number.into())).collect();
            (!numbers.is_empty()).then_some(Value::Array(numbers))
        };
        vec![
            ("--network", "network", self.network.clone().map(Value::String)),
            ("--hidden", "hidden", list(&self.hidden)),
            ("--filters", "filters", list(&self.filters)),
            ("--image", "image", list(&self.image)),
            ("--rounds", "rounds", whole(&self.rounds)),
            ("--epochs", "epochs", whole(&self.epochs)),
            ("--batch", "batch", whole(&self.batch)),
            ("--rate", "rate", self.rate.map(Value::Float)),
            ("--held-out", "held_out", whole(&self.held_out)),
        ]
    }

    pub(super) fn given(&self) -> Vec<&'static str> {
        let fields = (!self.fields.is_empty()).then_some("--fedavg");
        let given = self.table().into_iter().filter(|(.., value)| value.is_some());
        let initial = self.initial.as_ref().map(|_| "--initial");
        given.map(|(option, ..)| option).chain(initial).chain(fields).collect()
    }

    pub(super) fn spec(&self) -> Result<FedavgSpec, Failure> {
        let given = self.table().into_iter().filter_map(|(_, name, value)| Some((name.to_owned(), value?)));
        let mut table: Table = given.chain(self.fields.iter().cloned()).collect();
        if let Some(path) = &self.initial {
            let Some(Network::Global(network)) = Network::load(path)? else {
                let text = format!("--initial {}: not a network of the task fedavg", path.display());
                return Err(Failure::Input(text));
            };
            table.insert("initial".into(), Value::String(hex::encode(network.digest())));
        }
        Ok(FedavgSpec::from_table(table)?)
    }
}
