//! The page that `join` writes next to the receipt, and that `flyswarm report` makes for a model. It first
//! says whether the model is good enough to use, for which classes and for whom. Then it says who learnt what
//! about whose rows. Technical details are folded.
//!
//! The page is made from a receipt in JSON, so it can be made again later. A peer's own figures must not be
//! in a receipt, so they are passed separately. Fields in another format than this program's are left out.

mod aggregates;
mod answer;
mod columns;
pub(crate) mod figures;
mod pictures;
pub(crate) mod roc;

use flyswarm_learn::model::columns::Beside;
use flyswarm_learn::model::comparison::{Comparison, Whose};
use flyswarm_learn::model::figures::Figures;
use maud::{Markup, html};
use serde_json::Value;

use crate::html::{facts, folded, list, page, table};
use crate::tasks::common::evaluation::NEIGHBOURS;
use roc::Curve;

/// Kind of these pages.
const KIND: &str = "flyswarm report";

/// Returns the beginning of every report. It identifies reports, because no other file begins in this way.
pub(crate) fn beginning() -> String {
    crate::html::beginning(KIND)
}

/// Contents of a page.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    /// Title: the name of a session or of a file.
    pub title: &'a str,
    /// Receipt.
    pub receipt: Option<&'a Value>,
    /// This peer's own figures, in the format of [`crate::tasks::Outcome::own`].
    pub own: Option<&'a Value>,
    /// Sentence about these rows from this peer's ledger.
    pub ledger: Option<String>,
    /// Quality of a model on rows.
    pub rows: Option<Rows<'a>>,
    /// Columns of these rows compared with those of the model's training rows.
    pub columns: Option<Beside>,
    /// Warnings of this peer, each a sentence. The receipt has only their number.
    pub warnings: Vec<String>,
    /// Contents that the page lacks, with the reason, each as a sentence.
    pub left_out: Vec<String>,
    /// Quality of this peer's personal model and of the models that it is compared with. Each entry has a
    /// heading and a text.
    pub personal: Vec<(&'static str, String)>,
    /// Lines from the model's file about its origin. Each has a heading and a text.
    pub model: Vec<(&'static str, String)>,
}

/// Quality of a model on labelled rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// Name of the rows.
    pub name: &'a str,
    /// Figures on all rows.
    pub figures: &'a Figures,
    /// Comparison of three ways to predict, for the held-out rows among these rows.
    pub beside: Option<&'a Comparison>,
    /// ROC curve of two classes.
    pub curve: Option<&'a Curve>,
    /// Warning that the model may have learnt from these rows.
    pub learnt: Option<&'a str>,
}

impl Page<'_> {
    /// Returns the page as HTML.
    pub(crate) fn render(&self) -> String {
        let about = match self.receipt {
            Some(receipt) => format!("Report for {}", text(&receipt["peer"])),
            None => "Report on a model".to_owned(),
        };
        let own = self.own.and_then(|own| serde_json::from_value(own["columns"].clone()).ok());
        let beside = self.columns.as_ref().or(own.as_ref());
        let head = html! {
            p.about { (about) @if let Some(receipt) = self.receipt { (aggregates::session_line(receipt)) } }
            (answer::headline(self))
        };
        let sections = html! {
            (self.warned())
            (answer::limits(self, beside))
            @if let Some(rows) = self.rows { (scored(rows)) }
            @if let Some(receipt) = self.receipt { (figures::of_session(receipt)) (tables(&receipt["tables"])) (pictures::forest(&receipt["forest"])) }
            @if let Some(own) = self.own.and_then(figures::read) {
                section {
                    h2 { "This peer's own rows" }
                    p {
                        "These figures are only for its own held-out rows. No other peer has these figures, and they are not \
                         in the receipt."
                    }
                    (figures::own(&own))
                }
            }
            @if let Some(beside) = beside { (columns::section(beside, self.rows.map(|rows| rows.name))) }
            (facts("The personal model, tested on this peer's own rows", &self.personal))
            @if let Some(receipt) = self.receipt { (aggregates::learnt(receipt, self.ledger.as_deref())) }
            @if self.receipt.is_some() || !self.model.is_empty() {
                section {
                    h2 { "Technical detail" }
                    @if let Some(receipt) = self.receipt {
                        (pictures::rounds(&receipt["rounds"]))
                        (aggregates::decided(receipt))
                    }
                    @if !self.model.is_empty() { (folded("The model", "", list(&self.model))) }
                }
            }
            @if !self.left_out.is_empty() {
                section {
                    h2 { "Not on this page" }
                    ul { @for line in &self.left_out { li { (line) } } }
                }
            }
        };
        let foot = html! {
            "flyswarm " (env!("CARGO_PKG_VERSION")) ". This page loads nothing and sends nothing."
        };
        page(KIND, self.title, head, sections, foot)
    }

    /// Returns the warnings. If there is only a receipt, returns their number.
    fn warned(&self) -> Markup {
        let counts = self.receipt.and_then(|receipt| receipt["warnings"].as_object());
        let counts = counts.into_iter().flatten().map(|(about, count)| format!("{about}: {count}"));
        let counts: Vec<_> = counts.collect();
        html! {
            @if !self.warnings.is_empty() || !counts.is_empty() {
                section {
                    h2 { "Warnings" }
                    @if self.warnings.is_empty() {
                        p {
                            "This peer was warned while the session ran (" (counts.join(", "))
                            "). The page that join wrote has the text of each warning."
                        }
                    }
                    @for line in &self.warnings { p.verdict.bad { (line) } }
                }
            }
        }
    }
}

fn scored(rows: Rows<'_>) -> Markup {
    html! {
        section {
            h2 { "Quality of the model on " (rows.name) }
            (figures::one(rows.figures, &format!("{} rows", rows.figures.rows), "model", rows.curve, false))
            @if let Some(found) = rows.beside {
                h3 { "Compared with a model of these rows only" }
                p {
                    (found.swarm.rows) " of these rows were held out and predicted in three ways: by the model as it is ("
                    b { "swarm" } "), by a model with the same settings that learns only from the other rows of this file ("
                    b { "alone" } "), and by the " (NEIGHBOURS) " nearest of these other rows (" b { "neighbours" }
                    "). If the model was trained on the held-out rows, its figures here are too good. The two \
                     others have not seen these rows."
                }
                (figures::compared(found, Whose::File, true))
            }
        }
    }
}

/// Makes the tables of a task's result; the first line of each table has the names of its columns.
fn tables(tables: &Value) -> Markup {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    html! {
        @for one in list(tables) {
            @let (lines, title) = (list(&one["lines"]), text(&one["title"]));
            @let caption = one["caption"].as_str().unwrap_or(title);
            @if let Some((head, rows)) = lines.split_first() {
                @let (head, rows) = (list(head), rows.iter().map(list));
                section {
                    h2 { (title) }
                    (table(
                        caption,
                        &head.iter().map(text).collect::<Vec<_>>(),
                        rows.map(|line| line.iter().map(|cell| html! { (text(cell)) }).collect()),
                    ))
                }
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests;
