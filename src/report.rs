//! The page that `join` writes beside the receipt and `flyswarm report` makes of a model: who took part, what
//! was decided, how good the result is, and what others may have learnt.
//!
//! It is made of a receipt as JSON, so that a page can be made again later; what a receipt must not hold, a
//! peer's own figures, comes beside it. Whatever is not as this program writes it is left out.

mod aggregates;
mod columns;
pub(crate) mod figures;
mod pictures;

use flyswarm_learn::model::columns::Beside;
use flyswarm_learn::model::comparison::{Comparison, Whose};
use flyswarm_learn::model::figures::Figures;
use maud::{Markup, html};
use serde_json::Value;

use crate::html::{facts, page};
use crate::tasks::common::evaluation::NEIGHBOURS;

/// What a page calls itself.
const KIND: &str = "flyswarm report";

/// How every page begins, and no other file.
pub(crate) fn beginning() -> String {
    crate::html::beginning(KIND)
}

/// What a page is made of.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    /// The title: a session's name, or a file's.
    pub title: &'a str,
    /// The receipt.
    pub receipt: Option<&'a Value>,
    /// This peer's own figures, as [`crate::tasks::Outcome::own`] has them.
    pub own: Option<&'a Value>,
    /// What this peer's ledger says of its rows, in a sentence.
    pub ledger: Option<String>,
    /// How a model does on rows.
    pub rows: Option<Rows<'a>>,
    /// The columns of these rows beside those that the model has learnt from.
    pub columns: Option<Beside>,
    /// The warnings of this peer, a sentence each; the receipt counts them.
    pub warnings: Vec<String>,
    /// What the page cannot tell and why, a sentence each.
    pub left_out: Vec<String>,
    /// How this peer's personal model does, and what it is compared with: a heading and a text.
    pub personal: Vec<(&'static str, String)>,
    /// The lines of what the model's file says of itself: a heading and a text.
    pub model: Vec<(&'static str, String)>,
}

/// How a model does on labelled rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// What the rows are called.
    pub name: &'a str,
    /// Its figures on all of them.
    pub figures: &'a Figures,
    /// Those of them that are held out, predicted in three ways.
    pub beside: Option<&'a Comparison>,
}

impl Page<'_> {
    /// The page as HTML.
    pub(crate) fn render(&self) -> String {
        let about = match self.receipt {
            Some(receipt) => format!("Report for {}", text(&receipt["peer"])),
            None => "Report on a model".to_owned(),
        };
        let own = self.own.and_then(|own| serde_json::from_value(own["columns"].clone()).ok());
        let sections = html! {
            (self.warned())
            @if let Some(rows) = self.rows { (scored(rows)) }
            @if let Some(receipt) = self.receipt { (figures::of_session(receipt)) }
            @if let Some(own) = self.own.and_then(figures::read) {
                section {
                    h2 { "This peer's own rows" }
                    p {
                        "Its own held-out rows alone. Nobody else has these figures, and the receipt does not hold \
                         them."
                    }
                    (figures::own(&own))
                }
            }
            @if let Some(beside) = self.columns.as_ref().or(own.as_ref()) {
                (columns::section(beside, self.rows.map(|rows| rows.name)))
            }
            @if let Some(receipt) = self.receipt {
                (pictures::rounds(&receipt["rounds"]))
                (aggregates::decided(receipt))
                (aggregates::learnt(receipt, self.ledger.as_deref()))
            }
            (facts("The personal model, by this peer's own rows in turn", &self.personal))
            (facts("The model", &self.model))
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
        page(KIND, self.title, &about, sections, foot)
    }

    /// The warnings; of a receipt alone how many there were.
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
            h2 { "How good the model is on " (rows.name) }
            (figures::one(rows.figures, &format!("{} rows", rows.figures.rows), "model"))
            @if let Some(found) = rows.beside {
                h3 { "Compared with a model of these rows only" }
                p {
                    (found.swarm.rows) " of these rows were held out and predicted in three ways: by the model as it is ("
                    b { "swarm" } "), by one with its settings that learns from the other rows of this file ("
                    b { "alone" } "), and by the " (NEIGHBOURS) " nearest of these (" b { "neighbours" }
                    "). If the model has learnt from these rows itself, its own figure here is too good; the two \
                     others have not seen the rows."
                }
                (figures::compared(found, Whose::File))
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests;
