//! `predict`, `eval` and `inspect`: what a model file is good for. None of them needs a network.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::data::DataArguments;
use super::output::{self, for_io};
use super::{Failure, kind, one_line, written};
use crate::data::{DataError, LabelColumn};
use crate::model::file::{self, DecodeError, FileError};
use crate::model::outside::Known;
use crate::model::score::Confusion;
use crate::model::{Model, ModelError};
use crate::sketch::scaling::Scaling;

/// The largest lifting matrix that is drawn without being asked for.
const MATRIX: u64 = 1 << 30;

/// A model file to predict from.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    /// Model file
    pub(super) model: PathBuf,
    /// Use a model even if its lifting matrix, which is drawn from a seed, takes more than 1 GiB of memory
    #[arg(long)]
    large: bool,
}

impl ModelArguments {
    #[cfg(test)]
    fn of(model: PathBuf) -> Self {
        Self { model, large: false }
    }

    /// Reads the file; a few bytes of another's can ask for gigabytes.
    pub(super) fn load(&self) -> Result<Model, Failure> {
        let model = Model::load(&self.model).map_err(|error| match &error {
            FileError::Bad { problem: DecodeError::Magic, .. } => {
                kind::advice(&self.model, "a model is expected").map_or_else(|| error.into(), Failure::Input)
            }
            _ => error.into(),
        })?;
        let bytes = model.matrix_bytes();
        if bytes > MATRIX && !self.large {
            let gigabytes = bytes as f64 / 1e9;
            let parameters = model.sketch().parameters();
            let text = format!(
                "{}: its lifting matrix (m = {}, s = {}) takes {gigabytes:.1} GB of memory; --large allows it",
                self.model.display(),
                parameters.m,
                parameters.s
            );
            return Err(Failure::Input(text));
        }
        Ok(model)
    }
}

/// Prints the class of each row, one a line
#[derive(Debug, Args)]
pub(super) struct Predict {
    #[command(flatten)]
    model: ModelArguments,
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
    #[command(flatten)]
    model: ModelArguments,
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
        let model = self.model.load()?;
        let (data, said) = self.data.load_for(&model, &self.label, false)?;
        said.iter().for_each(|line| eprintln!("{}", one_line(line)));
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
        let model = self.model.load()?;
        if self.label == LabelColumn::None {
            return Err(Failure::Input("--label none: expected a column of labels to compare with".into()));
        }
        let (data, said) = self.data.load_for(&model, &self.label, true)?;
        said.iter().for_each(|line| eprintln!("{}", one_line(line)));
        let (columns, outside) = model.outside(&data);
        let predicted = model.predictor().predict(&data)?;
        let confusion = Confusion::new(model.classes(), data.labels(), &predicted);
        let text = if self.json {
            let value = json!({
                "rows": confusion.rows(),
                "accuracy": confusion.accuracy(),
                "balanced_accuracy": confusion.balanced_accuracy(),
                "classes": model.classes(),
                "confusion": confusion.table().collect::<Vec<_>>(),
                "rows_outside": outside,
                "columns_outside": columns.iter().map(|column| json!({
                    "column": column.column + 1, "name": model.columns().get(column.column),
                    "rows": column.rows, "farthest": column.farthest,
                })).collect::<Vec<_>>(),
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
        let taken = "`inspect` takes a model or a session file";
        // A session file is text, and no text begins like a model.
        let text = match kind::of(&self.file) {
            _ if start == file::MAGIC => inspect_model(&self.file, self.json)?,
            Some(other) if other != "a session file" => {
                return Err(Failure::Input(format!("{}: this is {other}; {taken}", self.file.display())));
            }
            _ if std::str::from_utf8(&start).is_ok() => super::session::shown(&self.file, self.json)?,
            _ => {
                return Err(Failure::Input(format!(
                    "{}: neither a model nor a session file",
                    self.file.display()
                )));
            }
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
fn columns_json(model: &Model) -> serde_json::Value {
    // A few bytes can say that there are a million columns of which nothing is known.
    let known = model.scaler().means().len();
    let each = matches!(model.scaler().scaling(), Scaling::Range { lo, .. } if lo.len() > 1);
    if model.columns().is_empty() && known == 0 && !each {
        return serde_json::Value::Null;
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
pub(super) mod tests {
    use super::*;
    use crate::cli::tests::run_line;
    use crate::model::bloom::{self, Counts};
    use crate::model::origin::Origin;
    use crate::sketch::Parameters;
    use crate::sketch::flyhash::FlyHash;
    use crate::sketch::scaling::Scaler;

    /// Of the digits, m = 100.
    pub(in crate::cli) fn small_model(scaling: Scaling) -> Model {
        let data = crate::data::digits::digits();
        let scaler = Scaler::fit(&scaling, &data).unwrap();
        let parameters = Parameters { d: 64, m: 100, s: 6, rho: 4, seed: [1; 32], densify: false, scaling };
        let sketch = parameters.check(10).unwrap();
        let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, &data, 10).unwrap();
        Model::new(sketch, 0.5, data.classes().to_vec(), scaler, counts).unwrap()
    }

    /// A folder with `m` (a model of the digits) and `d.csv`.
    fn folder(csv: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        small_model(Scaling::Center).save(&folder.path().join("m")).unwrap();
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

    /// Digits under a header, their columns in this order; `missing` is left out.
    fn named_csv(order: impl Fn(usize) -> usize, missing: Option<usize>, rows: usize) -> String {
        let data = crate::data::digits::digits();
        let places: Vec<usize> = (0..64).map(order).filter(|&place| Some(place) != missing).collect();
        let line = |field: &dyn Fn(usize) -> String, label: &str| {
            let fields: Vec<String> =
                places.iter().map(|&place| field(place)).chain([label.into()]).collect();
            fields.join(",") + "\n"
        };
        let mut text = line(&|place| format!("p{place}"), "digit");
        for i in 0..rows {
            text += &line(
                &|place| data.row(i)[place].to_string(),
                &data.classes()[usize::from(data.labels()[i])],
            );
        }
        text
    }

    fn named_model(folder: &Path, scaling: Scaling) {
        let model = small_model(scaling).with_columns((0..64).map(|i| format!("p{i}")).collect());
        model.unwrap().save(&folder.join("m")).unwrap();
    }

    #[test]
    fn columns_are_taken_by_name_whatever_their_order_and_every_other_difference_is_refused_by_name() {
        let folder = folder(&named_csv(|i| i, None, 200));
        named_model(folder.path(), Scaling::Standard);
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        write("turned.csv", named_csv(|i| 63 - i, None, 200));
        for command in ["eval", "predict"] {
            let run =
                |file: &str| run_line(folder.path(), &format!("{command} m --data {file} --label last"));
            assert_eq!(run("turned.csv").unwrap(), run("d.csv").unwrap());
        }
        let refused = |line: &str| {
            let error = run_line(folder.path(), line).unwrap_err();
            assert_eq!(error.code(), 2);
            error.to_string()
        };
        // One feature less, and a label of 0 or 1 in its place.
        write("less.csv", named_csv(|i| i, Some(63), 20));
        let told = refused("predict m --data less.csv");
        assert!(told.contains("column 64 is called \"digit\", the model says \"p63\""), "{told}");
        assert!(told.ends_with("(if one is a label: --label last, or its name or number)"), "{told}");
        let told = refused("eval m --data less.csv");
        assert!(told.contains("no column is called \"p63\", which the model has"), "{told}");
        write("other.csv", named_csv(|i| i, None, 20).replacen("p7,", "age,", 1));
        let told = refused("eval m --data other.csv");
        assert!(told.contains("column 8 is called \"age\", the model says \"p7\""), "{told}");
        let told = refused("predict m --data d.csv");
        assert!(told.contains("column 65 is called \"digit\", which the model does not have"), "{told}");
    }

    #[test]
    fn names_that_are_not_compared_are_told_and_rows_far_outside_are_counted_by_column() {
        let said = |folder: &Path, file: &str| {
            let model = Model::load(&folder.join("m")).unwrap();
            DataArguments::of(folder.join(file)).load_for(&model, &LabelColumn::Last, true).unwrap().1
        };
        let folder = folder(&digits_csv(50, true));
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        let (plain, named) = (named_csv(|i| i, None, 50), named_csv(|i| 63 - i, None, 50));
        let far = |text: &str| text.replacen("\n0,0,", "\n0,1e20,", 1);
        write("named.csv", plain.clone());
        let [one] = &said(folder.path(), "d.csv")[..] else { panic!() };
        assert!(
            one.ends_with("d.csv: neither file nor model has names of columns: names not compared"),
            "{one}"
        );
        let [one] = &said(folder.path(), "named.csv")[..] else { panic!() };
        assert!(
            one.ends_with("the model has no names of columns: taken as they stand, names not compared"),
            "{one}"
        );
        named_model(folder.path(), Scaling::Standard);
        assert!(said(folder.path(), "named.csv").is_empty(), "{:?}", said(folder.path(), "named.csv"));
        let [one] = &said(folder.path(), "d.csv")[..] else { panic!() };
        assert!(
            one.ends_with("has no names of columns: taken in the order of the model, names not compared"),
            "{one}"
        );
        write("named.csv", named);
        let [one] = &said(folder.path(), "named.csv")[..] else { panic!() };
        assert!(one.ends_with("columns brought into the order of the model, by their names"), "{one}");
        write("named.csv", far(&plain));
        let [one] = &said(folder.path(), "named.csv")[..] else { panic!() };
        let expected = "1 of 50 rows are far outside what the model has learnt: \"p1\" in 1 (learnt 0.3038 +- 0.9069; \
                        farthest 100000000000000000000)";
        assert!(one.ends_with(expected), "{one}");
        let text = run_line(folder.path(), "eval m --data named.csv --json").unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["rows_outside"], &json["columns_outside"][0]["name"]), (&json!(1), &json!("p1")));
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
        assert_eq!(
            (&json["counts_per_class"][0], &json["rows_per_class"][0]),
            (&json!(178 * 4), &json!(178))
        );
        assert_eq!((&json["origin"], &json["columns"][3]["name"]), (&json!(null), &json!(null)));
        let origin = Origin {
            session: "wards".into(),
            id: [7; 32],
            members: vec!["alice".into(), "bob".into(), "carol".into()],
            roster: 4,
            noised: false,
            protocol: "flyswarm/4".into(),
            program: "flyswarm 0.1.0".into(),
            unix: 0,
        };
        let names = (0..64).map(|i| format!("p{i}")).collect();
        let model = small_model(Scaling::Standard).with_columns(names).unwrap();
        model.with_origin(origin).save(&folder.path().join("m")).unwrap();
        let text = run_line(folder.path(), "inspect m").unwrap();
        for line in [
            "flyswarm model, version 4\n",
            &format!("session   wards {}\n", "07".repeat(32)),
            "counted   3 of 4 peers: alice, bob, carol\n",
            "written   1970-01-01 00:00:00 UTC by flyswarm 0.1.0, protocol flyswarm/4\n",
            "features  64: p0, p1, ",
            "  0  178 (9.9 %)\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&run_line(folder.path(), "inspect m --json").unwrap()).unwrap();
        assert_eq!(
            json["columns"][0],
            json!({"name": "p0", "kind": "constant", "mean": 0.0, "deviation": 0.0})
        );
        assert_eq!(json["origin"]["members"], json!(["alice", "bob", "carol"]));
    }

    #[test]
    fn a_small_file_that_asks_for_gigabytes_is_refused_unless_it_is_wanted() {
        let folder = folder("1,2\n");
        let scaling = Scaling::None;
        let parameters =
            Parameters { d: 1 << 20, m: 1025, s: 1 << 18, rho: 1, seed: [1; 32], densify: false, scaling };
        let scaler = Scaler::new(&Scaling::None, 1 << 20, None).unwrap();
        let (sketch, counts) = (parameters.check(2).unwrap(), Counts::zero(2, 1025));
        let model = Model::new(sketch, 0.5, vec!["a".into(), "b".into()], scaler, counts).unwrap();
        model.save(&folder.path().join("m")).unwrap();
        assert!(std::fs::metadata(folder.path().join("m")).unwrap().len() < 10_000);
        for line in ["predict m --data d.csv", "eval m --data d.csv", "export m --out o"] {
            let error = run_line(folder.path(), line).unwrap_err();
            assert!(
                error.code() == 2 && error.to_string().contains("takes 1.1 GB of memory; --large allows"),
                "{error}"
            );
        }
        assert!(run_line(folder.path(), "inspect m --json").unwrap().len() < 2000);
        let error = run_line(folder.path(), "predict m --data d.csv --large").unwrap_err().to_string();
        assert!(error.contains("2 features and no label column, expected 1048576"), "{error}");
    }

    #[test]
    fn a_file_of_another_kind_is_called_by_its_kind() {
        let folder = folder("1,2,3\n");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("r", "{\"bytes_received\": 1, \"counted\": true, \"peer_id\": \"12D3\", \"quantities\": []}");
        write("k", "flyswarm-identity 1 00\n");
        write("s", "name = \"x\"\n[[roster]]\n");
        write("c", "[network]\nlatency_ms = 1\n");
        for (line, told) in [
            ("inspect r", "r: this is a receipt; `inspect` takes a model or a session file"),
            ("inspect k", "k: this is an identity key; `inspect` takes a model or a session file"),
            ("predict r --data d.csv", "r: this is a receipt; a model is expected"),
            ("eval s --data d.csv", "s: this is a session file; a model is expected"),
            ("export c --out o", "c: this is a scenario; a model is expected"),
            ("predict m --data r", "r: this is a receipt; rows are expected"),
            ("predict m --data m", "m: this is a model; rows are expected"),
            ("simulate s", "s: this is a session file; a scenario is expected"),
            ("compare m r", "m: this is a model; a result of simulate is expected"),
            ("predict d.csv --data d.csv", "d.csv: not a flyswarm model file"),
        ] {
            let error = run_line(folder.path(), line).unwrap_err();
            assert!(error.code() == 2 && error.to_string().ends_with(told), "{line}: {error}");
        }
        named_model(folder.path(), Scaling::Center);
        let error = run_line(folder.path(), "predict m --data m").unwrap_err().to_string();
        assert!(error.ends_with("m: this is a model; rows are expected"), "{error}");
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
        let predict = Predict {
            model: ModelArguments::of(path("m")),
            data,
            label: LabelColumn::None,
            out: None,
            force: false,
        };
        assert!(predict.run(&mut Closed(io::ErrorKind::BrokenPipe)).is_ok());
        assert_eq!(predict.run(&mut Closed(io::ErrorKind::StorageFull)).unwrap_err().code(), 4);
        let inspect = Inspect { file: path("m"), json: false };
        assert!(inspect.run(&mut Closed(io::ErrorKind::BrokenPipe)).is_ok());
    }
}
