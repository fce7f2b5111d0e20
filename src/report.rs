//! The page that `join` writes beside the receipt and `flyswarm report` makes of a model: who took part, what
//! was decided, how good the result is, and what others may have learnt.
//!
//! It is made of a receipt as JSON, so that a page can be made again later; what a receipt must not hold, a
//! peer's own figures, comes beside it. Whatever is not as this program writes it is left out.

mod columns;
pub(crate) mod figures;
mod pictures;
mod quantities;

use std::fmt::Write as _;

use flyswarm_kernels::model::columns::Beside;
use flyswarm_kernels::model::figures::Figures;
use serde_json::Value;

use self::figures::Compared;
use crate::page::{escape, facts, foot, head};

/// What a page is made of.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    /// The title: a session's name, or a file's.
    pub title: &'a str,
    /// The receipt.
    pub receipt: Option<&'a Value>,
    /// This peer's own figures, as [`crate::task::Outcome::own`] has them.
    pub own: Option<&'a Value>,
    /// What this peer's ledger says of its rows, in a sentence.
    pub ledger: Option<String>,
    /// The figures of a model on rows, and what these are called.
    pub rows: Option<(&'a Figures, &'a str)>,
    /// The columns of these rows beside those that the model has learnt from.
    pub columns: Option<Beside>,
    /// The lines of what the model's file says of itself: a heading and a text.
    pub model: Vec<(&'static str, String)>,
}

impl Page<'_> {
    /// The page as HTML.
    pub(crate) fn render(&self) -> String {
        let about = match self.receipt {
            Some(receipt) => format!("What {} has of this session", text(&receipt["peer"])),
            None => "How well a model predicts rows".to_owned(),
        };
        let mut out = head("flyswarm report", self.title, &about);
        if let Some((figures, rows)) = self.rows {
            let _ = write!(
                out,
                "<section><h2>How good the model is on {}</h2>{}",
                escape(rows),
                figures::one(figures)
            );
            out.push_str("</section>\n");
        }
        let evaluation = self.receipt.map(|receipt| &receipt["evaluation"]).filter(|found| found.is_object());
        if let Some(found) = evaluation {
            out.push_str(&figures::pooled(found, "How good the model is"));
        }
        if let Some(own) = self.own.and_then(Compared::read) {
            out.push_str(
                "<section><h2>On this peer's own rows</h2><p>Its own held-out rows alone. Nobody else has these \
                 figures, and the receipt does not hold them.</p>",
            );
            out.push_str(&figures::compared(&own));
            out.push_str("</section>\n");
        }
        let own = self.own.and_then(|own| serde_json::from_value(own["columns"].clone()).ok());
        if let Some(beside) = self.columns.as_ref().or(own.as_ref()) {
            out.push_str(&columns::section(beside, self.rows.map(|(_, rows)| rows)));
        }
        if let Some(receipt) = self.receipt {
            out.push_str(&pictures::rounds(&receipt["rounds"]));
            out.push_str(&quantities::decided(receipt));
            out.push_str(&quantities::learnt(receipt, self.ledger.as_deref()));
        }
        out.push_str(&facts("The model", &self.model));
        out + &foot(&format!(
            "flyswarm {}. This page loads nothing and sends nothing.",
            env!("CARGO_PKG_VERSION")
        ))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests;
