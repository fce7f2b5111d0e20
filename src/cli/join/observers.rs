//! The live page and the trace of a peer that is run by a program in another language.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::files::on_page;
use super::{about, open_trace, watch};
use crate::Identity;
use crate::cli::bindings::page;
use crate::cli::dashboard::Live;
use crate::cli::{Failure, output};
use crate::net::driver::Trace;
use crate::peer::{self, Builder, Finished, Peer, Timed};
use crate::session::Session;

/// Live page and trace of a peer, the same as those of `flyswarm join`.
pub struct Observers {
    live: Option<Live>,
    trace: Option<(PathBuf, Arc<Trace>)>,
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Observers {{ page: {}, trace: {:?} }}", self.live.is_some(), self.trace)
    }
}

impl Observers {
    /// Returns the same peer with a page at the address `page_at` and a trace in the new file
    /// `trace`. The peer has the key in the file `key`.
    ///
    /// # Errors
    /// [`Failure::Input`] if the key or the file is wrong, [`Failure::Environment`] if the page
    /// cannot be served or the trace cannot be written.
    pub fn begin(
        mut builder: Builder,
        session: &Session,
        key: &Path,
        page_at: Option<SocketAddr>,
        trace: Option<&Path>,
    ) -> Result<(Builder, Self), Failure> {
        let mut new = Self { live: None, trace: None };
        if page_at.is_none() && trace.is_none() {
            return Ok((builder, new));
        }
        let identity = Identity::load(key)?;
        if let Some(address) = page_at {
            let live = Live::open(address, &about(session, &identity))?;
            let own = Arc::new(Mutex::new(None::<Value>));
            let (kept, shown) = (own.clone(), live.clone());
            builder = builder
                .watched(true)
                .on_result(move |outcome, _| {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&outcome.own);
                    Ok(())
                })
                .on_receipt(move |receipt| {
                    let own = own.lock().unwrap_or_else(PoisonError::into_inner);
                    shown.report(page(&json!(receipt), own.as_ref(), receipt.warnings.texts()));
                    Ok(())
                });
            new.live = Some(live);
        }
        if let Some(path) = trace {
            let trace = open_trace(path, session, &identity, false)?;
            builder = builder.trace(trace.clone());
            new.trace = Some((path.to_owned(), trace));
        }
        Ok((builder, new))
    }

    /// Returns the event with the address of the page, as JSON and as a text.
    #[must_use]
    pub fn page(&self) -> Option<(String, String)> {
        let url = self.live.as_ref()?.url();
        let event = json!({"event": "page", "time": peer::unix(), "url": url});
        Some((event.to_string(), format!("page at {url}")))
    }

    /// Shows the status of the running peer on the page. The button on the page makes the peer leave.
    pub fn watch(&self, peer: &Peer) {
        let Some(live) = &self.live else { return };
        let handle = peer.handle();
        live.on_leave(move || {
            handle.leave();
        });
        if let Some(status) = peer.status() {
            let live = live.clone();
            watch(status, move |status| live.feed().status(0, &json!(status)));
        }
    }

    /// Shows an event on the page.
    pub fn event(&self, timed: &Timed) {
        if let Some(live) = &self.live {
            live.feed().event(Some(0), &on_page(timed), &timed.event.to_string());
        }
    }

    /// Ends the page and the trace. Returns the page with all its events, if there is one.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the trace is not complete.
    pub fn end(&self, result: Result<&Finished, &peer::Error>) -> Result<Option<String>, Failure> {
        if let Some(live) = &self.live {
            if let Err(error) = result {
                let text = error.to_string();
                let event = json!({"event": "error", "message": text, "time": peer::unix()});
                live.feed().event(Some(0), &event, &text);
            }
            live.finish();
        }
        if let Some((path, trace)) = &self.trace {
            trace.finish().map_err(|error| output::failed(path, &error))?;
        }
        Ok(self.live.as_ref().and_then(Live::kept))
    }
}
