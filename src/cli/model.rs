//! `predict`, `eval` and `inspect`: what a model file is good for. None of them needs a network.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::data::DataArguments;
use super::output::{self, for_io};
use super::{Failure, written};
use crate::data::{DataError, LabelColumn};
use crate::model::file::{self, FileError};
use crate::model::score::Confusion;
use crate::model::{Model, ModelError};

/// Prints the class of each row, one a line
#[derive(Debug, Args)]
pub(super) struct Predict {
    /// Model file
    model: PathBuf,
    #[command(flatten)]
    data: DataArguments,
    /// Label column to leave aside: a name, a number from 1, last or none
    #[arg(long, value_name = "COLUMN", default_value = "none")]
    label: LabelColumn,
    /// Write the classes here instead of to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "out")]
    force: bool,
}

/// Prints how well a model predicts labelled rows
#[derive(Debug, Args)]
pub(super) struct Eval {
    /// Model file
    model: PathBuf,
    #[command(flatten)]
    data: DataArguments,
    /// Label column: a name, a number from 1, or last
    #[arg(long, value_name = "COLUMN", default_value = "last")]
    label: LabelColumn,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints what a file of this program holds
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// Model or session file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        match &error {
            DataError::Read { source, .. } => for_io(source, error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match &error {
            FileError::Io { source, .. } => for_io(source, error.to_string()),
            FileError::Bad { .. } => Self::Input(error.to_string()),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Input(error.to_string())
    }
}

impl Predict {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        self.out.iter().try_for_each(|path| output::check(path, self.force))?;
        let model = Model::load(&self.model)?;
        let data = self.data.load_for(&model, &self.label, false)?;
        let predicted = model.predictor().predict(&data)?;
        let Some(path) = &self.out else {
            return written(write_classes(&model, &predicted, out), "standard output");
        };
        let mut bytes = Vec::new();
        write_classes(&model, &predicted, &mut bytes).map_err(|error| output::failed(path, &error))?;
        output::write(path, &bytes, self.force)
    }
}

/// One class name a line, quoted where CSV needs it.
fn write_classes(model: &Model, predicted: &[u16], out: &mut dyn Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for &class in predicted {
        let name = model.classes().get(usize::from(class)).map_or("", String::as_str);
        writer.write_record([name]).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })?;
    }
    writer.flush()
}

impl Eval {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let model = Model::load(&self.model)?;
        if self.label == LabelColumn::None {
            return Err(Failure::Input("--label none: expected a column of labels to compare with".into()));
        }
        let data = self.data.load_for(&model, &self.label, true)?;
        let predicted = model.predictor().predict(&data)?;
        let confusion = Confusion::new(model.classes(), data.labels(), &predicted);
        let text = if self.json {
            let value = json!({
                "rows": confusion.rows(),
                "accuracy": confusion.accuracy(),
                "balanced_accuracy": confusion.balanced_accuracy(),
                "classes": model.classes(),
                "confusion": confusion.table().collect::<Vec<_>>(),
                "digest": hex::encode(model.digest()),
            });
            format!("{value:#}")
        } else {
            format!(
                "rows               {}\naccuracy           {:.4}\nbalanced accuracy  {:.4}\n\n{confusion}",
                confusion.rows(),
                confusion.accuracy(),
                confusion.balanced_accuracy()
            )
        };
        written(writeln!(out, "{text}"), "standard output")
    }
}

impl Inspect {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut start = Vec::new();
        let read = File::open(&self.file)
            .and_then(|file| file.take(file::MAGIC.len() as u64).read_to_end(&mut start));
        read.map_err(|error| for_io(&error, format!("{}: {error}", self.file.display())))?;
        // A session file is text, and no text begins like a model.
        let text = if start == file::MAGIC {
            inspect_model(&self.file, self.json)?
        } else if std::str::from_utf8(&start).is_ok() {
            super::session::shown(&self.file, self.json)?
        } else {
            return Err(Failure::Input(format!(
                "{}: neither a model nor a session file",
                self.file.display()
            )));
        };
        written(writeln!(out, "{}", text.trim_end()), "standard output")
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
            "share_of_counts_above_0": share,
        });
        return Ok(format!("{value:#}"));
    }
    let mut lines = vec![
        "flyswarm model, version 3".to_owned(),
        format!("digest    {}", hex::encode(model.digest())),
        format!("features  {}", parameters.d),
        format!(
            "scaling   {}{}",
            parameters.scaling.name(),
            if parameters.densify { ", densified" } else { "" }
        ),
        format!("sketch    m {}, s {}, rho {}", parameters.m, parameters.s, parameters.rho),
        format!("score     {}, gamma {}", model.readout().score, model.readout().gamma),
        format!("seed      {}", hex::encode(parameters.seed)),
        format!("counts    {:.1} % above 0", 100.0 * share),
        format!(
            "classes   {}, with the sum of their counts (rows x rho, unless noise was added):",
            classes.len()
        ),
    ];
    let width = classes.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    lines.extend(classes.iter().zip(&sums).map(|(name, sum)| format!("  {name:width$}  {sum}")));
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::run_line;
    use crate::model::tests::small_model;
    use crate::sketch::scaling::Scaling;

    /// A folder with `m` (a model of the digits) and `d.csv`.
    fn folder(csv: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        small_model(Scaling::Center, 0.5).save(&folder.path().join("m")).unwrap();
        std::fs::write(folder.path().join("d.csv"), csv).unwrap();
        folder
    }

    fn digits_csv(rows: usize, labels: bool) -> String {
        let data = crate::data::digits::digits();
        (0..rows).fold(String::new(), |mut text, i| {
            let mut fields: Vec<String> = data.row(i).iter().map(f32::to_string).collect();
            if labels {
                fields.push(data.classes()[usize::from(data.labels()[i])].clone());
            }
            text += &(fields.join(",") + "\n");
            text
        })
    }

    #[test]
    fn predict_prints_one_class_a_line_with_or_without_a_label_column() {
        let (bare, labelled) = (folder(&digits_csv(10, false)), folder(&digits_csv(10, true)));
        let plain = run_line(bare.path(), "predict m --data d.csv").unwrap();
        assert_eq!(plain.lines().count(), 10);
        let right = plain.lines().zip(0..10).filter(|(line, i)| line.parse() == Ok(*i)).count();
        assert!(right >= 6, "{plain}");
        assert_eq!(run_line(labelled.path(), "predict m --data d.csv --label last").unwrap(), plain);
        assert_eq!(run_line(bare.path(), "predict m --data d.csv --out o").unwrap(), "");
        assert_eq!(std::fs::read_to_string(bare.path().join("o")).unwrap(), plain);
        let error = run_line(labelled.path(), "predict m --data d.csv").unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(
            error.to_string().contains("65 features and no label column, expected 64 (if one is a label"),
            "{error}"
        );
    }

    #[test]
    fn eval_prints_accuracies_and_the_confusion_table() {
        let folder = folder(&digits_csv(300, true));
        let text = run_line(folder.path(), "eval m --data d.csv").unwrap();
        assert!(text.starts_with("rows               300\naccuracy           0."), "{text}");
        assert_eq!(text.lines().count(), 3 + 1 + 11);
        let json: serde_json::Value =
            serde_json::from_str(&run_line(folder.path(), "eval m --data d.csv --json").unwrap()).unwrap();
        assert_eq!(json["rows"], 300);
        assert!(json["accuracy"].as_f64().unwrap() > 0.6);
        assert_eq!(json["confusion"].as_array().map(Vec::len), Some(10));
    }

    #[test]
    fn inspect_tells_what_a_model_holds() {
        let folder = folder("");
        let text = run_line(folder.path(), "inspect m").unwrap();
        assert!(text.contains("sketch    m 100, s 6, rho 4\nscore     decay, gamma 0.5\n"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&run_line(folder.path(), "inspect m --json").unwrap()).unwrap();
        assert_eq!(json["counts_per_class"][0], 178 * 4);
    }

    #[test]
    fn bad_files_end_with_code_2_and_their_name() {
        let folder = folder("1,2,3\n");
        for line in [
            "predict m --data none.csv",
            "predict none --data d.csv",
            "predict d.csv --data d.csv",
            "eval m --data d.csv",
            "eval m --data d.csv --label none",
            "inspect d.csv",
            "inspect .",
        ] {
            let error = run_line(folder.path(), line).unwrap_err();
            assert_eq!(error.code(), 2, "{line}: {error}");
        }
    }

    #[test]
    fn a_closed_pipe_is_success_and_a_full_disk_is_not() {
        struct Closed(io::ErrorKind);
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let folder = folder(&digits_csv(2, false));
        let path = |name: &str| folder.path().join(name);
        let data = DataArguments::of(path("d.csv"));
        let predict = Predict { model: path("m"), data, label: LabelColumn::None, out: None, force: false };
        assert!(predict.run(&mut Closed(io::ErrorKind::BrokenPipe)).is_ok());
        assert_eq!(predict.run(&mut Closed(io::ErrorKind::StorageFull)).unwrap_err().code(), 4);
        let inspect = Inspect { file: path("m"), json: false };
        assert!(inspect.run(&mut Closed(io::ErrorKind::BrokenPipe)).is_ok());
    }
}
