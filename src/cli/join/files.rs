//! The files that a node writes, and the messages about them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::dashboard::{BEGINNING, Live};
use crate::cli::learnt;
use crate::cli::output;
use crate::cli::progress::Progress;
use crate::files;
use crate::ledger::{self, Ledger};
use crate::peer::{self, Event, Receipt, Timed};
use crate::report::Page;
use crate::tasks::Outcome;

/// Files of a node.
pub(super) struct Files {
    /// Path of the result, or `None` for a witness.
    pub(super) out: Option<PathBuf>,
    pub(super) receipt: PathBuf,
    pub(super) force: bool,
    /// True if an earlier run has written the files. They are not changed.
    pub(super) serves: bool,
    /// SHA-256 of the map file that was used to read the rows.
    pub(super) map: Option<String>,
    /// Path of this identity's ledger, if it has one.
    pub(super) ledger: PathBuf,
    /// This peer's own figures, for the report.
    pub(super) own: Mutex<Option<Value>>,
    /// Live page, if it is served.
    pub(super) live: Option<Live>,
    /// The receipt, when it has been written.
    pub(super) told: Mutex<Option<Value>>,
    /// Texts of the warnings that the receipt counts.
    pub(super) warnings: Mutex<Vec<String>>,
}

/// Returns the path of the report next to a receipt.
pub(super) fn report(receipt: &Path) -> PathBuf {
    let name = receipt.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".receipt.json").or_else(|| name.strip_suffix(".json")).unwrap_or(&name);
    receipt.with_file_name(format!("{stem}.report.html"))
}

/// Returns the path of the saved live page next to a receipt.
pub(super) fn kept_page(receipt: &Path) -> PathBuf {
    let report = report(receipt);
    let name = report.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".report.html").unwrap_or(&name);
    report.with_file_name(format!("{stem}.page.html"))
}

impl Files {
    /// Saves the live page, so that it can be read after the end.
    pub(super) fn keep_page(&self) -> Result<(), Failure> {
        let Some(page) = self.live.as_ref().and_then(Live::kept) else { return Ok(()) };
        let path = kept_page(&self.receipt);
        let replaces = self.force || output::begins(&path, BEGINNING);
        output::write_private(&path, page.as_bytes(), replaces)
    }

    fn stays(&self, path: &Path) -> bool {
        self.serves && files::exists(path)
    }

    pub(super) fn write_result(&self, outcome: &Outcome) -> Result<(), peer::Error> {
        if let Ok(mut own) = self.own.lock() {
            own.clone_from(&outcome.own);
        }
        let Some(out) = self.out.as_ref().filter(|out| !self.stays(out)) else { return Ok(()) };
        output::write(out, &outcome.file, self.force)?;
        if let Some(learnt) = &outcome.learnt_rows {
            learnt::keep(out, learnt, self.force)?;
        }
        Ok(())
    }

    /// Adds the name of the result's file to the receipt, and writes it.
    pub(super) fn write_receipt(&self, receipt: &mut Receipt) -> Result<(), peer::Error> {
        if let (Some(out), Some(result)) = (&self.out, &receipt.result) {
            receipt.details[result]["file"] = json!(out);
        }
        if let Some(map) = &self.map {
            receipt.details.insert("map_sha256".into(), json!(map));
        }
        if self.stays(&self.receipt) {
            return Ok(());
        }
        let value = json!(receipt);
        let text = format!("{value:#}\n");
        output::write(&self.receipt, text.as_bytes(), self.force)?;
        if let (Ok(mut told), Ok(mut warnings)) = (self.told.lock(), self.warnings.lock()) {
            (*told, *warnings) = (Some(value.clone()), receipt.warnings.texts());
        }
        Ok(self.write_report(&value, Vec::new(), self.force)?)
    }

    /// Writes the report next to the receipt.
    pub(super) fn write_report(
        &self,
        receipt: &Value,
        personal: Vec<(&'static str, String)>,
        force: bool,
    ) -> Result<(), Failure> {
        let own = self.own.lock().ok().and_then(|own| own.clone());
        let columns = own.as_ref().is_some_and(|own| own["columns"].is_object());
        let left_out = (self.out.is_some() && !columns).then(|| {
            "This peer's columns compared with the pool: the session opened no means and deviations of \
             columns."
                .to_owned()
        });
        let page = Page {
            title: receipt["name"].as_str().unwrap_or_default(),
            receipt: Some(receipt),
            own: own.as_ref(),
            warnings: self.warnings.lock().map(|warnings| warnings.clone()).unwrap_or_default(),
            left_out: left_out.into_iter().collect(),
            ledger: self.spent(receipt["session"].as_str().unwrap_or_default()),
            personal,
            ..Page::default()
        };
        let html = page.render();
        output::write_private(&report(&self.receipt), html.as_bytes(), force)?;
        if let Some(live) = &self.live {
            live.report(html);
        }
        Ok(())
    }

    /// Returns a sentence about the budget that the rows of this session have spent, according to the ledger.
    pub(super) fn spent(&self, session: &str) -> Option<String> {
        let charges = Ledger::read(&self.ledger).ok()?;
        let charge = charges.iter().rev().find(|charge| charge.session == session)?;
        let total = ledger::totals(&charges).into_iter().find(|total| total.dataset == charge.dataset)?;
        let shared = match total.on_shares {
            0 => String::new(),
            1 => " One session has computed on shares of them.".to_owned(),
            sessions => format!(" {sessions} sessions have computed on shares of them."),
        };
        Some(format!(
            "According to this peer's ledger, the rows {:?} have now spent epsilon = {} in all private \
             sessions.{shared}",
            total.dataset, total.spent
        ))
    }

    /// Shows an event. If it concerns a file, adds the name of the file.
    pub(super) fn show(&self, progress: &Progress, timed: &Timed) {
        let (name, file) = match &timed.event {
            Event::Finished { result: Some(result), .. } => (&**result, self.out.as_deref()),
            Event::Receipt { .. } => ("file", Some(&*self.receipt)),
            _ => ("", None),
        };
        progress.event(timed, name, file);
        let Some(live) = &self.live else { return };
        let mut value = on_page(timed);
        if matches!(timed.event, Event::Receipt { .. }) {
            value["page"] = json!(report(&self.receipt));
        }
        if let Some(file) = file {
            value[name] = json!(file);
        }
        live.feed().event(Some(0), &value, &timed.event.to_string());
    }
}

/// Returns an event in the form for the live page. It has no receipt, because the page shows the report
/// instead.
pub(super) fn on_page(timed: &Timed) -> Value {
    match &timed.event {
        Event::Receipt { .. } => json!({"time": timed.time, "event": "receipt", "report": true}),
        _ => json!(timed),
    }
}
