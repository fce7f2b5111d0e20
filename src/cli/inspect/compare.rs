//! `inspect A B`: shows the differences of two models, and the rows of a file for which their predictions
//! differ.

use std::path::Path;

use serde_json::{Value, json};

use super::Inspect;
use crate::cli::data::DataArguments;
use crate::cli::model::ModelArguments;
use crate::cli::{Failure, say};
use crate::data::LabelColumn;
use crate::model::Model;
use crate::model::compare::differences;

/// Maximum number of rows that are listed in the text for people.
const SHOWN: usize = 20;

/// Compares the peers, columns, settings and training rows of two models. With `--data`, also lists the rows
/// for which their predictions differ.
pub(super) fn compared(a: &Path, b: &Path, options: &Inspect) -> Result<String, Failure> {
    let load = |path: &Path| ModelArguments::of(path).load();
    let (a, b) = (load(a)?, load(b)?);
    let lines = differences(&a, &b);
    let rows = rows(&a, &b, options)?;
    if options.json {
        let differences = lines.iter().map(|(what, a, b)| json!({"what": what, "a": a, "b": b}));
        let value = json!({
            "same": a.digest() == b.digest(),
            "digests": [hex::encode(a.digest()), hex::encode(b.digest())],
            "differences": differences.collect::<Vec<_>>(), "rows": rows,
        });
        return Ok(format!("{value:#}\n"));
    }
    let mut text = match (a.digest() == b.digest(), lines.is_empty()) {
        (true, true) => "the same model\n".to_owned(),
        (true, false) => "the same model with another origin\n".to_owned(),
        (false, _) => String::new(),
    };
    lines.iter().for_each(|(what, a, b)| text += &format!("{what:<10} {a}  ->  {b}\n"));
    if let Some(rows) = rows {
        let list = rows["differ"].as_array().map(Vec::as_slice).unwrap_or_default();
        text += &format!("rows       {} of {} get another class\n", list.len(), rows["rows"]);
        if !rows["balanced_accuracy"].is_null() {
            let of = |i: usize| rows["balanced_accuracy"][i].as_f64().unwrap_or(0.0);
            text += &format!("accuracy   {:.4}  ->  {:.4} (balanced)\n", of(0), of(1));
        }
        for row in list.iter().take(SHOWN) {
            let class = |which: &str| row[which].as_str().unwrap_or_default().to_owned();
            text += &format!("  row {}: {} -> {}\n", row["row"], class("a"), class("b"));
        }
        if list.len() > SHOWN {
            text += &format!("  and {} more\n", list.len() - SHOWN);
        }
    }
    Ok(text)
}

/// Compares the predictions of both models on the rows.
fn rows(a: &Model, b: &Model, options: &Inspect) -> Result<Option<Value>, Failure> {
    let Some(path) = &options.data else { return Ok(None) };
    let arguments = DataArguments::new(path.clone(), options.reading.clone());
    let label = &options.label;
    let predicted = [a, b].map(|model| -> Result<_, Failure> {
        let (data, said) = arguments.load_for(model, label, *label != LabelColumn::None)?;
        said.iter().for_each(|line| say(line));
        let classes = model.predictor().predict(&data)?;
        let accuracy = (!data.labels().is_empty()).then(|| {
            crate::model::score::Confusion::new(model.classes(), data.labels(), &classes).balanced_accuracy()
        });
        let name = |class: &u16| model.classes().get(usize::from(*class)).cloned().unwrap_or_default();
        Ok((classes.iter().map(name).collect::<Vec<_>>(), accuracy))
    });
    let [first, second] = predicted;
    let ((first, one), (second, other)) = (first?, second?);
    let pairs = first.iter().zip(&second).enumerate().filter(|(_, (a, b))| a != b);
    let differ: Vec<_> = pairs.map(|(row, (a, b))| json!({"row": row + 1, "a": a, "b": b})).collect();
    let accuracy = one.zip(other).map(|(one, other)| [one, other]);
    Ok(Some(json!({"rows": first.len(), "differ": differ, "balanced_accuracy": accuracy})))
}
