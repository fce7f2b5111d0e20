//! `flyswarm report`: prints the quality of a model on labelled rows, and writes a page with it and with the
//! contents of the model's receipt.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::data::DataArguments;
use super::model::{ModelArguments, PositiveClass, Scored, is_of, scored};
use super::output::for_io;
use super::{Failure, output, say, written};
use crate::data::LabelColumn;
use crate::files;
use crate::report::{Page, Rows};

/// Largest receipt that is read: a receipt of 1,024 peers and 100,000 slots is smaller.
const RECEIPT_LIMIT: u64 = 1 << 30;

/// Print the quality of a model on labelled rows; with --out also write a page for the browser
///
/// If the receipt is next to the model, the page also lists the members of the session and what the other
/// peers may have learnt.
#[derive(Debug, Args)]
pub(super) struct Report {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Label column: its name, its number from 1, or `last`
    #[arg(long, value_name = "COLUMN", default_value = "last")]
    label: LabelColumn,
    /// Positive class for sensitivity and specificity, if the model has two classes [default: the positive
    /// class in the receipt, or without a receipt the rarer class among the model's training rows]
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    /// Receipt for the page [default: the file with the name of the model and the ending .receipt.json, if it
    /// exists]
    #[arg(long, value_name = "FILE", requires = "out")]
    receipt: Option<PathBuf>,
    /// Write a report page to FILE, such as wards.report.html
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file even if it is not a page from `report` or `join`
    #[arg(long, requires = "out")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Report {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        self.out.iter().try_for_each(|file| output::check(file, self.replaces(file)))?;
        let receipt = self.receipt()?;
        let positive = PositiveClass { asked: self.positive.as_deref(), receipt: receipt.as_ref() };
        let found = scored(&self.model, &self.data, &self.label, positive)?;
        let text = match self.json {
            true => {
                let mut value = found.json();
                if let Some(file) = &self.out {
                    value["file"] = json!(file);
                }
                format!("{value:#}")
            }
            false => found.text(),
        };
        let warning = found.warning();
        if let Some(file) = &self.out {
            self.write_page(file, found, receipt)?;
        }
        if let Some(line) = warning {
            super::say(&format!("warning: {line}"));
        }
        written(writeln!(out, "{text}"), "standard output")
    }

    /// Returns whether the file at the page's path may be replaced: a page that `join` or this command
    /// has written.
    fn replaces(&self, file: &Path) -> bool {
        self.force || output::begins(file, &crate::report::beginning())
    }

    /// Returns the given receipt, or the one next to the model.
    fn receipt(&self) -> Result<Option<Value>, Failure> {
        if let Some(path) = &self.receipt {
            return read(path).map(Some);
        }
        let beside = self.model.model.with_extension("receipt.json");
        let found = files::exists(&beside).then(|| read(&beside)).transpose();
        // Without a page, the receipt is used only for the positive class, so an error in it is ignored.
        if self.out.is_some() { found } else { Ok(found.unwrap_or_default()) }
    }

    fn write_page(&self, file: &Path, found: Scored, receipt: Option<Value>) -> Result<(), Failure> {
        let model = &self.model.model;
        let digest = hex::encode(found.digest);
        let receipt = receipt.filter(|receipt| {
            // If the receipt next to the model belongs to another model, it must not be used.
            let same = is_of(receipt, &digest);
            if !same {
                say("warning: the receipt belongs to another model and is ignored");
            }
            same
        });
        let named = model.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name = format!("the rows of {}", self.data.name());
        let (beside, warnings) = (found.beside()?, found.warnings());
        let mut left_out = found.left_out;
        if found.model.is_some() && beside.is_none() {
            left_out.push(
                "A comparison with a model of these rows alone: no class has two rows, so none could be held out."
                    .to_owned(),
            );
        }
        let page = Page {
            title: receipt.as_ref().and_then(|receipt| receipt["name"].as_str()).unwrap_or(&named),
            receipt: receipt.as_ref(),
            rows: Some(Rows {
                name: &name,
                figures: &found.figures,
                beside: beside.as_ref(),
                curve: found.curve.as_ref(),
                learnt: found.compared.warning.as_deref(),
            }),
            warnings,
            columns: found.columns,
            left_out,
            model: vec![
                ("file", named.clone()),
                ("digest", digest),
                ("classes", found.figures.per_class.len().to_string()),
            ],
            ..Page::default()
        };
        output::write_private(file, page.render().as_bytes(), self.replaces(file))?;
        say(&format!("wrote {}", file.display()));
        Ok(())
    }
}

fn read(path: &Path) -> Result<Value, Failure> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(|error| for_io(&error, wrong(&error)))?;
    let read = serde_json::from_reader(io::BufReader::new(io::Read::take(file, RECEIPT_LIMIT)));
    read.map_err(|error| Failure::Input(wrong(&format!("not a receipt: {error}"))))
}
