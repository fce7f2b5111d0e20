//! Takes part in a session, and runs commands in this process.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyswarm::cli::{self, Failure, Observers};
use flyswarm::peer::{self, Budget, Finished, Handle};
use flyswarm::tasks::Rows;
use flyswarm::{Identity, Session};
use flyswarm_data::{Contents, LabelColumn};
use flyswarm_learn::privacy::Ratio;
use futures::executor::{block_on, block_on_stream};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{disk, value};
use crate::learnt::LearntRows;
use crate::training::{self, Raised};
use crate::{LeftError, SessionError};

const BUDGET: &str = "budget: expected a number from 0.000001 to 1000 with at most six decimal places";

/// Turns the error of a command or a peer into the matching exception.
pub(crate) fn failed(failure: Failure) -> PyErr {
    let text = failure.to_string();
    match failure {
        Failure::Input(_) => value(text),
        Failure::Session(_) => SessionError::new_err(text),
        Failure::Environment(_) => disk(text),
        Failure::Interrupted(_) => LeftError::new_err(text),
    }
}

/// Runs a command of the program in this process. `given` is a JSON object with the command and its
/// arguments, and `contents` has the contents of a file that is only in memory. Returns the command's output,
/// its messages, and its error if it failed.
#[pyfunction]
#[pyo3(signature = (given, contents=None))]
pub(crate) fn call(
    py: Python<'_>,
    given: &str,
    contents: Option<&[u8]>,
) -> (String, Vec<String>, Option<Py<PyAny>>) {
    let (mut out, mut said) = (Vec::new(), Vec::new());
    let contents = contents.map(<[u8]>::to_vec);
    let result = py.detach(|| cli::call(given, contents, &mut out, &mut said));
    let error = result.err().map(|failure| failed(failure).into_value(py).into_any());
    (String::from_utf8_lossy(&out).into_owned(), said, error)
}

/// Makes a session file from the values in a JSON object. Returns the text of the file, messages, and an
/// error if there is one.
#[pyfunction]
pub(crate) fn new_session(py: Python<'_>, given: &str) -> (String, Vec<String>, Option<Py<PyAny>>) {
    let mut said = Vec::new();
    let made = py.detach(|| cli::new_session(given, &mut said));
    match made {
        Ok(text) => (text, said, None),
        Err(failure) => (String::new(), said, Some(failed(failure).into_value(py).into_any())),
    }
}

/// Returns all settings of a session file as JSON, including those with default values.
#[pyfunction]
pub(crate) fn settings(text: &str) -> PyResult<String> {
    cli::settings(text).map_err(failed)
}

/// Runs a command as the program does. `words` has the program's name, then its arguments. Returns the exit
/// code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| cli::program(&words))
}

/// Returns the page of a session for the browser, as HTML. `receipt` and `own` are JSON.
#[pyfunction]
#[pyo3(signature = (receipt, own, warnings))]
pub(crate) fn page(receipt: &str, own: Option<&str>, warnings: Vec<String>) -> PyResult<String> {
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).map_err(value);
    let own = own.map(parsed).transpose()?;
    Ok(cli::page(&parsed(receipt)?, own.as_ref(), warnings))
}

/// Returns the libp2p peer id of the key in a key file.
#[pyfunction]
pub(crate) fn peer_id(key: PathBuf) -> PyResult<String> {
    Ok(Identity::load(&key).map_err(value)?.public().to_string())
}

/// Returns a label column: its number from 1 or its name. `last` and `none` are not names.
pub(crate) fn label_column(given: &Bound<'_, PyAny>) -> PyResult<Option<LabelColumn>> {
    Ok(match given.extract::<Option<usize>>() {
        Ok(number) => number.map(LabelColumn::Number),
        Err(_) => Some(LabelColumn::named(given.extract()?)),
    })
}

/// Rows for a session that were read and checked.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct SessionRows {
    rows: Rows,
    name: String,
    /// Message about how columns were interpreted.
    #[pyo3(get)]
    said: Option<String>,
    /// Number of rows.
    #[pyo3(get)]
    count: usize,
}

#[pymethods]
impl SessionRows {
    /// Reads a file as `flyswarm join` does. If `contents` is given, the file is only in memory, and its path
    /// is only used as a name. `map` is the map file of `flyswarm join --map`, and `drop` names columns to
    /// leave out.
    #[staticmethod]
    #[pyo3(signature = (session, file, label, contents, map=None, drop=Vec::new()))]
    fn read(
        py: Python<'_>,
        session: &str,
        file: PathBuf,
        #[pyo3(from_py_with = label_column)] label: Option<LabelColumn>,
        contents: Option<&[u8]>,
        map: Option<String>,
        drop: Vec<String>,
    ) -> PyResult<Self> {
        let session = Session::parse(session).map_err(value)?;
        let contents = contents.map(|bytes| Contents::from(bytes.to_vec()));
        let (rows, said) = py
            .detach(|| cli::rows(&session, &file, label.as_ref(), contents, map.as_deref(), &drop))
            .map_err(failed)?;
        let count = rows.data.rows();
        Ok(Self { rows, name: file.to_string_lossy().into_owned(), said, count })
    }

    /// Returns a digest that is equal for equal rows, for tests; it is not secret.
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.rows.digest(&[0; 32]))
    }
}

/// An event as (JSON, text, `None`), or the end of the session as (receipt as JSON, "", [`Ended`]).
type Next<'py> = (String, String, Option<Ended<'py>>);

/// The file of the result, the rows used to train it, this peer's own figures as JSON, and the live page.
type Ended<'py> = (Bound<'py, PyBytes>, Option<LearntRows>, Option<String>, Option<String>);

/// A peer of a running session.
#[pyclass(frozen, module = "flyswarm._flyswarm")]
#[derive(Debug)]
pub(crate) struct Running {
    handle: Handle,
    said: Mutex<Receiver<Said>>,
    /// The exception that the trainer raised.
    raised: Raised,
}

#[derive(Debug)]
enum Said {
    Event(String, String),
    /// The result, and the live page with all its events.
    End(Box<Result<(Finished, Option<String>), Failure>>),
}

#[pymethods]
impl Running {
    /// Joins a session. Returns when the node listens on its addresses.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "all by name")]
    #[pyo3(
        signature = (
            session, key, rows, *,
            listen, mdns, network_key, state, dataset, budget, strict, yes, trainer, weights,
            initial=None, hold_out=None, metrics=None, page=None, trace=None
        )
    )]
    fn start(
        py: Python<'_>,
        session: &str,
        key: PathBuf,
        rows: Option<&SessionRows>,
        listen: Vec<String>,
        mdns: bool,
        network_key: Option<[u8; 32]>,
        state: Option<PathBuf>,
        dataset: Option<String>,
        budget: Option<f64>,
        strict: bool,
        yes: bool,
        trainer: Option<Py<PyAny>>,
        weights: Option<&[u8]>,
        initial: Option<PathBuf>,
        hold_out: Option<u8>,
        metrics: Option<(IpAddr, u16)>,
        page: Option<(IpAddr, u16)>,
        trace: Option<PathBuf>,
    ) -> PyResult<Self> {
        let session = Session::parse(session).map_err(value)?;
        let count = rows.map_or(0, |rows| rows.count);
        let builder = cli::builder(session.clone(), key.clone(), count, yes).map_err(failed)?;
        let mut builder = builder.mdns(mdns).strict(strict);
        let (raised, rounds) = (Raised::default(), cli::round_file(&session, &key));
        let trains = trainer.is_some();
        if let Some(trainer) = trainer {
            let train = training::calls(trainer, raised.clone());
            let (weights, initial) = (weights.unwrap_or_default(), initial.as_deref());
            builder = cli::trained_by(builder, &session, weights, initial, &rounds, train).map_err(failed)?;
            if hold_out.is_some() {
                return Err(value("hold_out: not with a trainer"));
            }
        } else if rows.is_none() && (initial.is_some() || hold_out.is_some()) {
            return Err(value("initial and hold_out need rows"));
        }
        if let Some(rows) = rows {
            let mut own = rows.rows.clone();
            if !trains {
                builder = cli::own_part(builder, &session, &mut own, initial.as_deref(), hold_out, &rounds)
                    .map_err(failed)?;
            }
            builder = builder.rows(own, rows.name.clone());
        }
        if let Some(address) = metrics {
            builder = builder.metrics(address.into());
        }
        for address in listen {
            let parsed = address.parse().map_err(|error| value(format!("listen: {address}: {error}")))?;
            builder = builder.listen(parsed);
        }
        if let Some(key) = network_key {
            builder = builder.network_key(flyswarm::net::NetworkKey::new(key));
        }
        if let Some(folder) = state {
            builder = builder.state_dir(folder);
        }
        if let Some(dataset) = dataset {
            let limit = budget.map(|budget| Ratio::from_decimal(budget).ok_or_else(|| value(BUDGET)));
            builder = builder.budget(Budget { dataset, limit: limit.transpose()? });
        } else if budget.is_some() {
            return Err(value("budget: needs dataset, the name under which the ledger adds up"));
        }
        // The trace follows all other checks, because it creates a file.
        let (builder, observers) =
            Observers::begin(builder, &session, &key, page.map(Into::into), trace.as_deref())
                .map_err(failed)?;
        let peer = py.detach(|| block_on(builder.join())).map_err(|error| failed(error.into()))?;
        observers.watch(&peer);
        let (tell, said) = channel();
        if let Some((json, text)) = observers.page() {
            let _ = tell.send(Said::Event(json, text));
        }
        let (handle, events) = (peer.handle(), peer.events());
        std::thread::spawn(move || {
            let told = tell.clone();
            let observers = Arc::new(observers);
            let watching = observers.clone();
            let shown = std::thread::spawn(move || {
                for timed in block_on_stream(events) {
                    watching.event(&timed);
                    let json = serde_json::to_string(&timed).unwrap_or_default();
                    // If the receiver of events is gone, the peer continues until it is asked to leave.
                    let _ = told.send(Said::Event(json, timed.event.to_string()));
                }
            });
            let result = block_on(peer.result());
            // Send all events before the end.
            let _ = shown.join();
            let ended = observers.end(result.as_ref());
            // This closes the page.
            drop(observers);
            // The error that ended the session is more important than an incomplete trace.
            let failure = |error: peer::Error| match error {
                // This peer's rows or its trainer caused the error.
                peer::Error::Ended { ending: peer::Ending::Own(text), .. } => Failure::Input(text),
                other => other.into(),
            };
            let result = result.map_err(failure).and_then(|finished| Ok((finished, ended?)));
            let result = cli::with_rounds(result, &rounds);
            let _ = tell.send(Said::End(Box::new(result)));
        });
        Ok(Self { handle, said: Mutex::new(said), raised })
    }

    /// Returns the next event or the end, or `None` if nothing happens for `seconds`. Raises the error
    /// that ended the session early.
    fn next<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Option<Next<'py>>> {
        let wait = Duration::try_from_secs_f64(seconds).map_err(value)?;
        let found =
            py.detach(|| self.said.lock().map_err(|_| RecvTimeoutError::Disconnected)?.recv_timeout(wait));
        match found {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(PyRuntimeError::new_err("the session is over")),
            Ok(Said::Event(json, text)) => Ok(Some((json, text, None))),
            Ok(Said::End(result)) => {
                // The trainer's own exception is more precise than the node's error line about it.
                let raised = || self.raised.lock().ok().and_then(|mut raised| raised.take());
                let (finished, page) = result.map_err(|error| raised().unwrap_or_else(|| failed(error)))?;
                let receipt = serde_json::to_string(&finished.receipt)
                    .map_err(|error| PyValueError::new_err(error.to_string()))?;
                let outcome = finished.outcome.map(|found| (found.file, found.learnt_rows, found.own));
                let (file, learnt, own) = outcome.unwrap_or_default();
                let own = own.map(|own| own.to_string());
                let learnt = learnt.as_deref().map(LearntRows::parse).transpose()?;
                Ok(Some((receipt, String::new(), Some((PyBytes::new(py, &file), learnt, own, page)))))
            }
        }
    }

    /// Asks the peer to leave.
    fn leave(&self) {
        self.handle.leave();
    }

    /// Adds an address at which a peer can be reached.
    fn add_address(&self, peer: &str, address: &str) -> PyResult<()> {
        let key = peer.parse().map_err(|error| value(format!("addresses: {peer}: {error}")))?;
        let parsed = address.parse().map_err(|error| value(format!("addresses: {address}: {error}")))?;
        self.handle.add_address(&key, parsed);
        Ok(())
    }
}
