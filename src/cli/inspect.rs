//! `flyswarm inspect`: what a file of this program holds, how two models differ, and the digests by which
//! peers compare what they have.

mod compare;
mod digest;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::data::Reading;
use super::model::network::Network;
use super::output::for_io;
use super::{Failure, kind, print, written};
use crate::data::LabelColumn;
use crate::model::Model;
use crate::model::file;
use crate::model::outside::Known;
use flyswarm_data::scaling::Scaling;

/// Print what a file holds; of two models how they differ; with --digest what peers compare
///
/// Equal digests mean: models and networks predict alike; session files ask for the same session; NPZ
/// archives have the same arrays; receipts are of the same session with the same sums. What differs from peer
/// to peer, such as times and addresses, does not count.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// A model, network, personal model or session file; two models, to compare them; with --digest any
    /// number of these, NPZ archives and receipts
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Print one line for each file: digest, kind, name
    #[arg(long)]
    pub(super) digest: bool,
    /// Rows to predict with both of two models
    #[arg(long, value_name = "ROWS", conflicts_with = "digest")]
    pub(super) data: Option<PathBuf>,
    /// Label column of these rows: a name, a number from 1, last or none
    #[arg(long, value_name = "COLUMN", default_value = "none", requires = "data")]
    pub(super) label: LabelColumn,
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Inspect {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.digest {
            return digest::print_all(&self.files, self.json, out);
        }
        match &self.files[..] {
            [file] if self.data.is_none() => {
                let text = shown(file, self.json)?;
                written(writeln!(out, "{}", text.trim_end()), "standard output")
            }
            [a, b] => print(out, &compare::compared(a, b, self)?),
            [_] => {
                Err(Failure::Input("--data: two models are compared by rows, and one file is given".into()))
            }
            files => Err(Failure::Input(format!(
                "{} files: `inspect` takes one, or two models to compare; --digest takes any number",
                files.len()
            ))),
        }
    }
}

/// What one file holds.
fn shown(path: &Path, as_json: bool) -> Result<String, Failure> {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(file::MAGIC.len() as u64).read_to_end(&mut start));
    read.map_err(|error| for_io(&error, format!("{}: {error}", path.display())))?;
    let taken = "`inspect` takes a model or a session file";
    // A session file is text, and no text begins like a model.
    match kind::of(path) {
        _ if start == file::MAGIC => inspect_model(path, as_json),
        Some(kind::NETWORK | kind::PERSONAL) => match Network::load(path)? {
            Some(network) => Ok(network.inspect(as_json)),
            None => Err(Failure::Input(format!("{}: changed meanwhile", path.display()))),
        },
        Some(other) if other != "a session file" => {
            Err(Failure::Input(format!("{}: this is {other}; {taken}", path.display())))
        }
        _ if std::str::from_utf8(&start).is_ok() => super::session::shown(path, as_json),
        _ => Err(Failure::Input(format!("{}: neither a model nor a session file", path.display()))),
    }
}

fn inspect_model(file: &Path, as_json: bool) -> Result<String, Failure> {
    let model = Model::load(file)?;
    let parameters = model.sketch().parameters();
    let classes = model.classes();
    let sums: Vec<u64> =
        (0..classes.len()).map(|l| model.counts().class(l).iter().map(|&c| u64::from(c)).sum()).collect();
    let taken = model.counts().values().iter().filter(|&&c| c > 0).count();
    let share = taken as f64 / model.counts().values().len() as f64;
    let rows = model.class_rows();
    if as_json {
        let value = json!({
            "kind": "model",
            "digest": hex::encode(model.digest()),
            "d": parameters.d, "m": parameters.m, "s": parameters.s, "rho": parameters.rho,
            "gamma": model.readout().gamma,
            "score": model.readout().score,
            "densify": parameters.densify,
            "scaling": parameters.scaling.name(),
            "seed": hex::encode(parameters.seed),
            "classes": classes,
            "counts_per_class": sums,
            "rows_per_class": rows,
            "share_of_counts_above_0": share,
            "columns": columns_json(&model),
            "origin": model.origin().map(|origin| json!({
                "session": origin.session, "id": hex::encode(origin.id), "members": origin.members,
                "roster": origin.roster, "noise": origin.noised, "protocol": origin.protocol,
                "program": origin.program, "unix": origin.unix, "date": origin.date(),
            })),
        });
        return Ok(format!("{value:#}"));
    }
    let mut lines = vec![
        format!("flyswarm model, version {}", file::VERSION),
        format!("digest    {}", hex::encode(model.digest())),
    ];
    if let Some(origin) = model.origin() {
        let noise = if origin.noised { ", noise added" } else { "" };
        let (counted, roster) = (origin.members.len(), origin.roster);
        lines.extend([
            format!("session   {} {}", origin.session, hex::encode(origin.id)),
            format!("counted   {counted} of {roster} peers{noise}: {}", origin.members.join(", ")),
            format!("written   {} by {}, protocol {}", origin.date(), origin.program, origin.protocol),
        ]);
    }
    let names = if model.columns().is_empty() { "no names".into() } else { model.columns().join(", ") };
    lines.extend([
        format!("features  {}: {names}", parameters.d),
        format!(
            "scaling   {}{}",
            parameters.scaling.name(),
            if parameters.densify { ", densified" } else { "" }
        ),
        format!("sketch    m {}, s {}, rho {}", parameters.m, parameters.s, parameters.rho),
        format!("score     {}, gamma {}", model.readout().score, model.readout().gamma),
        format!("seed      {}", hex::encode(parameters.seed)),
        format!("counts    {:.1} % above 0", 100.0 * share),
    ]);
    let width = classes.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    match rows {
        Some(rows) => {
            let all: u64 = rows.iter().sum::<u64>().max(1);
            lines.push(format!("classes   {}, with the rows learnt and their share:", classes.len()));
            let share = |rows: u64| 100.0 * rows as f64 / all as f64;
            let line = |(name, &rows)| format!("  {name:width$}  {rows} ({:.1} %)", share(rows));
            lines.extend(classes.iter().zip(&rows).map(line));
        }
        None => {
            lines.push(format!(
                "classes   {}, with the sum of their counts (noise was added):",
                classes.len()
            ));
            lines.extend(classes.iter().zip(&sums).map(|(name, sum)| format!("  {name:width$}  {sum}")));
        }
    }
    Ok(lines.join("\n"))
}

/// Name, kind and what is known of the values of each column.
fn columns_json(model: &Model) -> Value {
    // A few bytes can say that there are a million columns of which nothing is known.
    let known = model.scaler().means().len();
    let each = matches!(model.scaler().scaling(), Scaling::Range { lo, .. } if lo.len() > 1);
    if model.columns().is_empty() && known == 0 && !each {
        return Value::Null;
    }
    let column = |place: usize| {
        let name = model.columns().get(place);
        match model.known(place) {
            Known::Spread(mean, 0.0) => {
                json!({"name": name, "kind": "constant", "mean": mean, "deviation": 0.0})
            }
            Known::Spread(mean, deviation) => {
                json!({"name": name, "kind": "number", "mean": mean, "deviation": deviation})
            }
            Known::Mean(mean) => json!({"name": name, "kind": "number", "mean": mean}),
            Known::Bounds(lo, hi) => json!({"name": name, "kind": "number", "lo": lo, "hi": hi}),
            Known::Nothing => json!({"name": name, "kind": "number"}),
        }
    };
    (0..model.sketch().parameters().d).map(column).collect()
}

#[cfg(test)]
mod tests;
