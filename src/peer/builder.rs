//! Builds a peer. Everything is checked before anything is sent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libp2p::Multiaddr;
use ndarray::Array2;
use rand::TryRng;
use rand::rngs::SysRng;

use super::budget::{self, Ask, Budget};
use super::receipt::Receipt;
use super::same_rows::SameRows;
use super::{Error, Peer, RowsError, node};
use crate::crypto::identity::Identity;
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::http::Server;
use crate::memory;
use crate::net::NetworkKey;
use crate::net::driver::{self, DriverError, Interpose, NodeConfig, Trace};
use crate::net::metrics::Metrics;
use crate::node::Ending;
use crate::protocol::context::Context;
use crate::session::Session;
use crate::store::{Pin, Store};
use crate::tasks::fedavg::TRAINING;
use crate::tasks::{self, Build, History, Labels, Outcome, Protected, Rows, SessionTask, Task};
use flyswarm_data::notices::{self, Notice};

/// Saves a result as soon as it is available.
pub(super) type Save = Box<dyn FnOnce(&Outcome, &History) -> Result<(), Error> + Send>;

/// Saves a receipt as soon as it is available. May add to it.
pub(super) type Keep = Box<dyn FnOnce(&mut Receipt) -> Result<(), Error> + Send>;

/// A peer before it joins; see [`Peer::builder`].
#[must_use]
pub struct Builder {
    session: Session,
    identity: Identity,
    rows: Option<RowSource>,
    name: String,
    strict: bool,
    task: Option<Arc<dyn Task>>,
    build: Option<Build>,
    key_file: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    listen: Vec<Multiaddr>,
    mdns: bool,
    network_key: Option<NetworkKey>,
    budget: Option<Budget>,
    ask: Option<Ask>,
    metrics: Option<SocketAddr>,
    save: Option<Save>,
    keep: Option<Keep>,
    watched: bool,
    trace: Option<Arc<Trace>>,
    interpose: Option<MakeInterpose>,
}

/// Function that makes the layer between a node and its network.
pub type MakeInterpose = Arc<dyn Fn(&Arc<Context>) -> Result<Box<dyn Interpose>, Error> + Send + Sync>;

enum RowSource {
    Arrays(Array2<f32>, Vec<Option<u16>>),
    Rows(Rows),
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("session", &self.session.name).finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(session: Session, identity: Identity) -> Self {
        Self {
            session,
            identity,
            rows: None,
            name: "the rows".into(),
            strict: false,
            task: None,
            build: None,
            key_file: None,
            state_dir: None,
            listen: Vec::new(),
            mdns: true,
            network_key: None,
            budget: None,
            ask: None,
            metrics: None,
            save: None,
            keep: None,
            watched: false,
            trace: None,
            interpose: None,
        }
    }

    /// Sets this peer's rows. `features` has one row for each data row (rows x features of the session).
    /// `labels` has the index of each row's class in the session's list, or `None` if the class is
    /// unknown. A task that uses no labels accepts an empty `labels`.
    pub fn data(mut self, features: Array2<f32>, labels: Vec<Option<u16>>) -> Self {
        self.rows = Some(RowSource::Arrays(features, labels));
        self
    }

    /// Sets this peer's rows, which [`crate::data`] has read from the file `name`.
    pub fn rows(mut self, rows: Rows, name: impl Into<String>) -> Self {
        self.rows = Some(RowSource::Rows(rows));
        self.name = name.into();
        self
    }

    /// Replaces the function that makes the built-in task.
    pub(crate) fn built_by(mut self, build: Build) -> Self {
        self.build = Some(build);
        self
    }

    /// Sets whether the peer leaves before its rows are counted if one of its columns looks wrong compared
    /// with those of the other peers, for example other units, codes for missing values, or a constant. By
    /// default such a column only causes an event.
    pub fn strict(mut self, on: bool) -> Self {
        self.strict = on;
        self
    }

    /// Calls `ask` before a private session is entered in the ledger, unless the session has already been
    /// paid for. An error of `ask` ends the session, and nothing is spent.
    pub fn before_charge(mut self, ask: impl FnOnce() -> Result<(), Error> + Send + 'static) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }

    /// Sets the task of this program. Needed for a session with [`CustomSpec`](crate::tasks::CustomSpec).
    pub fn task(mut self, task: Arc<dyn Task>) -> Self {
        self.task = Some(task);
        self
    }

    /// Sets the file of the identity. Next to it are the ledger of private sessions, a mark for each session
    /// and, unless [`Builder::state_dir`] sets another folder, the state.
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key_file = Some(path.into());
        self
    }

    /// Sets the folder for the state of sessions. Two nodes must not share the state of an identity. A peer
    /// that loses its state loses its vote in the session.
    pub fn state_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(folder.into());
        self
    }

    /// Adds an address to listen on, such as `/ip4/0.0.0.0/tcp/4001`; it may be called again. By default the
    /// node listens on a free port of every IPv4 interface.
    pub fn listen(mut self, address: Multiaddr) -> Self {
        self.listen.push(address);
        self
    }

    /// Sets whether to look for peers on the local network by mDNS. Default: yes.
    pub fn mdns(mut self, on: bool) -> Self {
        self.mdns = on;
        self
    }

    /// Sets a secret that all nodes of a network share. Nodes without it cannot connect.
    pub fn network_key(mut self, key: NetworkKey) -> Self {
        self.network_key = Some(key);
        self
    }

    /// Sets the data set's name and its budget. A private session needs a name. Sessions that compute on
    /// shares (`xclp`, `summary`, `glm`) may have a name, but no limit. Other sessions accept neither.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Serves Prometheus metrics at `http://ADDRESS/metrics`.
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Calls `save` as soon as the result is available, before the node continues to serve the others. An
    /// error of `save` ends the node.
    pub fn on_result(
        mut self,
        save: impl FnOnce(&Outcome, &History) -> Result<(), Error> + Send + 'static,
    ) -> Self {
        self.save = Some(Box::new(save));
        self
    }

    /// Calls `keep` with the receipt when the session is over for this peer, before the peer's state is
    /// deleted. An error of `keep` is the error of [`Peer::result`].
    pub fn on_receipt(
        mut self,
        keep: impl FnOnce(&mut Receipt) -> Result<(), Error> + Send + 'static,
    ) -> Self {
        self.keep = Some(Box::new(keep));
        self
    }

    /// Enables [`Peer::status`].
    pub(crate) fn watched(mut self, on: bool) -> Self {
        self.watched = on;
        self
    }

    /// Records every frame.
    pub(crate) fn trace(mut self, trace: Arc<Trace>) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets a function that makes a layer between the node and its network.
    #[cfg(feature = "cli")]
    pub(crate) fn interpose(mut self, make: MakeInterpose) -> Self {
        self.interpose = Some(make);
        self
    }

    /// Checks everything, charges the ledger if the session is private, and starts the node.
    ///
    /// # Errors
    /// [`Error`]. Nothing has been sent in this case.
    pub async fn join(self) -> Result<Peer, Error> {
        let session = self.session.check()?;
        budget::check(&session, self.budget.as_ref())?;
        let peer = self.identity.public();
        let stranger = || Error::NotInRoster { peer, session: session.name.clone() };
        let me = session.peer(&peer).ok_or_else(stranger)?;
        let refusal = (session.task.kind().memory_refusal)(&session, Some(me), memory::available());
        if let Some(refusal) = refusal {
            return Err(Error::Environment(refusal));
        }
        let kind = tasks::built_in(&session);
        let rows = match self.rows {
            Some(RowSource::Rows(rows)) => Some(rows),
            Some(RowSource::Arrays(features, labels)) => {
                Some(checked(&session, kind.as_ref(), features, labels)?)
            }
            None => None,
        };
        let id = self.identity.public().to_string();
        let state = state_folder(self.state_dir.as_deref(), self.key_file.as_deref(), &id, &session)?;
        let ledger = Ledgers { key: self.key_file.as_deref(), state: self.state_dir.as_deref() }.path(&id);
        let result = kind.as_ref().map_or("result", |kind| kind.result);
        let witness = rows.is_none() && self.task.is_none();
        let strict = self.strict;
        let task = match (self.task, kind) {
            (Some(task), None) => {
                let rows = rows.clone().unwrap_or_else(|| no_rows(&session));
                Protected::of_program(task, &session, (me, rows)).map_err(Error::Input)?
            }
            (Some(_), Some(_)) => {
                return Err(Error::Input(format!("task {} is built in; remove `.task(...)`", session.task)));
            }
            (None, None) => return Err(not_built_in(&session)),
            (None, Some(kind)) => {
                let rows = match &rows {
                    Some(rows) => rows.clone(),
                    None if kind.witnesses => no_rows(&session),
                    None => {
                        let task = &session.task;
                        return Err(Error::Input(format!("the task {task} has no peers without rows")));
                    }
                };
                let secret = derive(&*self.identity.seed(), "rows", &session.id().0);
                let kind = match self.build {
                    Some(build) => kind.built_by(&session, build),
                    None => kind,
                };
                kind.make(session.clone(), me, rows, &secret).map_err(Error::Input)?
            }
        };
        let rows = rows.unwrap_or_else(|| no_rows(&session));
        let columns = Arc::new(task.strict(strict));
        let task: Arc<dyn Task> = columns.clone();
        let pin = derive(&*self.identity.seed(), "pin", &session.id().0);
        let same_rows = SameRows::new(&session, &rows, &self.identity.seed(), &ledger);
        let pin = Pin { name: self.name, digest: rows.digest(&pin) };
        let session = Arc::new(session);
        let kept_for = Store::kept_for(&state).map_err(DriverError::Store)?.unwrap_or_default();
        let serves: Vec<_> = kept_for
            .iter()
            .filter_map(|id| session.peer(&id.parse().ok()?))
            .filter(|peer| *peer != me)
            .collect();
        let mut settings = session.settings();
        if !serves.is_empty() {
            settings.timing.linger_ms = settings.timing.linger_ms.max(SERVES_MS);
        }
        let ctx = Arc::new(Context::new(settings, me, self.identity, task.plan()));
        let schema = session.data.preparation.as_deref();
        let mut findings = notices::of(&rows.data, &session.data.columns, schema);
        // A constant column is reported later, and only if the opened sums show that other peers have other
        // values.
        findings.retain(|(_, notice)| !matches!(notice, Notice::Constant(_)));
        let (grave, rest): (Vec<_>, Vec<_>) = findings.into_iter().partition(|(_, notice)| notice.is_grave());
        let odd: Vec<String> = [&grave, &rest]
            .into_iter()
            .flat_map(|found| notices::lines(found))
            .map(|(_, line)| line)
            .collect();
        if let Some(line) = odd.first().filter(|_| self.strict && !grave.is_empty()) {
            return Err(Error::Input(format!("{}: {line} (--strict)", pin.name)));
        }
        let unreadable = |error: std::io::Error| {
            Error::Environment(format!("{}: {error}", ledger.with_extension("rows").display()))
        };
        let changed = same_rows.as_ref().map(SameRows::warning).transpose().map_err(unreadable)?.flatten();
        if let Some(line) = changed.as_ref().filter(|_| self.strict) {
            return Err(Error::Input(format!("{}: {line} (--strict)", pin.name)));
        }
        let odd = changed.into_iter().chain(odd).collect();
        let interpose = self.interpose.map(|make| make(&ctx)).transpose()?;
        let metrics = self.metrics.map(|address| serve(&ctx, address)).transpose()?;
        // Checks the addresses before anything is written.
        driver::roster(&session)?;
        driver::relays(&session)?;
        let mark = self.key_file.as_deref().map(|key| mark_file(key, &session));
        pin.hold(&state, mark.as_deref()).map_err(DriverError::Store)?;
        let named = (!witness).then_some(&*pin.name);
        budget::charge(&session, self.budget.as_ref(), named, (&ledger, &state), self.ask)?;
        same_rows.as_ref().map(SameRows::keep).transpose().map_err(unreadable)?;
        let listen = match self.listen {
            none if none.is_empty() => "/ip4/0.0.0.0/tcp/0".parse().into_iter().collect(),
            listen => listen,
        };
        let mut seed = [0; 32];
        SysRng
            .try_fill_bytes(&mut seed)
            .map_err(|error| Error::Environment(format!("the system gives no random bytes: {error}")))?;
        let seed = interpose.as_ref().and_then(|interpose| interpose.seed()).unwrap_or(seed);
        let config = NodeConfig {
            session,
            ctx,
            task,
            seed,
            mark,
            state,
            listen,
            mdns: self.mdns,
            network_key: self.network_key,
            watched: self.watched,
            trace: self.trace,
            interpose,
            serves,
            farewell,
            stop: Arc::default(),
        };
        let result = (!witness).then_some(result);
        let (save, keep) = (self.save, self.keep);
        node::start(config, node::Plan { result, rows, columns, odd, metrics, save, keep }).await
    }
}

/// If the training of this peer has failed, returns the reason, which the other peers write to their logs. In
/// a private session, the reason has no details. Other errors are not sent, because they may contain values
/// of rows.
fn farewell(session: &Session, ending: &Ending) -> Option<String> {
    let Ending::Own(text) = ending else { return None };
    let private = session.privacy.noise.is_some();
    let told = if private { TRAINING.trim_end_matches(": ") } else { text };
    text.starts_with(TRAINING).then(|| told.to_owned())
}

/// Time for which a restarted peer waits for the peers that it serves: one hour.
const SERVES_MS: u64 = 3_600_000;

/// Inputs that determine the location of the ledger.
struct Ledgers<'a> {
    key: Option<&'a Path>,
    state: Option<&'a Path>,
}

impl Ledgers<'_> {
    fn path(&self, id: &str) -> PathBuf {
        let beside =
            self.key.map_or_else(|| self.state.unwrap_or(Path::new(".")).join("key"), Path::to_owned);
        crate::ledger::Ledger::path(&beside, id)
    }
}

/// Makes the error for a task that this program does not have.
pub(crate) fn not_built_in(session: &Session) -> Error {
    Error::Input(format!("task {} is not built into this program", session.task.label()))
}

/// Checks rows that a program has set, and converts them to the form that the session's task needs.
fn checked(
    session: &Session,
    kind: Option<&SessionTask>,
    features: Array2<f32>,
    labels: Vec<Option<u16>>,
) -> Result<Rows, RowsError> {
    let (spec, count) = (&session.data, features.nrows());
    if features.ncols() != spec.features as usize {
        return Err(RowsError::Features { found: features.ncols(), expected: spec.features });
    }
    let wanted = kind.map_or(Labels::None, |kind| kind.labels);
    if labels.len() != count && !(labels.is_empty() && wanted == Labels::None) {
        return Err(RowsError::Labels { labels: labels.len(), rows: count });
    }
    let classes = spec.classes.len();
    let beyond =
        |(row, label): (usize, &Option<u16>)| Some((row, (*label)?)).filter(|l| usize::from(l.1) >= classes);
    if let Some((row, label)) = labels.iter().enumerate().find_map(beyond) {
        return Err(RowsError::Class { row, label, classes });
    }
    match wanted {
        Labels::All => {
            let all =
                labels.iter().enumerate().map(|(row, label)| label.ok_or(RowsError::Unlabelled { row }));
            let labels = all.collect::<Result<_, _>>()?;
            let data = Dataset::from_arrays(features, labels, spec.classes.clone())?;
            Ok(Rows::new(Arc::new(data)))
        }
        Labels::Some | Labels::None => {
            let data = Dataset::from_arrays(features, Vec::new(), Vec::new())?;
            let labels = if wanted == Labels::Some { labels } else { Vec::new() };
            Ok(Rows { labels, ..Rows::new(Arc::new(data)) })
        }
    }
}

/// Returns the rows of a peer without data.
fn no_rows(session: &Session) -> Rows {
    let one = Array2::zeros((1, session.data.features as usize));
    let data = Dataset::from_arrays(one, Vec::new(), Vec::new())
        .unwrap_or_else(|_| unreachable!("BUG: a checked session has features"));
    Rows::new(Arc::new(data.subset(&[])))
}

/// Returns the folder of an identity's state in a session: under the requested folder, or next to the
/// key.
pub(crate) fn state_folder(
    asked: Option<&Path>,
    key: Option<&Path>,
    id: &str,
    session: &Session,
) -> Result<PathBuf, Error> {
    let folder = match (asked, key) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(key)) => key.with_file_name("state"),
        (None, None) => {
            return Err(Error::Input("no folder for the state: name a state folder or a key file".into()));
        }
    };
    Ok(folder.join(id).join(session.id().to_string()))
}

/// Returns the path of the mark that records the owner's progress in a session. It is next to the key, so it
/// is not lost with the state.
pub(crate) fn mark_file(key: &Path, session: &Session) -> PathBuf {
    let mut folder = key.as_os_str().to_owned();
    folder.push(".sessions");
    PathBuf::from(folder).join(session.id().to_string())
}

fn serve(ctx: &Context, address: SocketAddr) -> Result<(Metrics, Server), Error> {
    let metrics = Metrics::new(ctx);
    let bound = metrics
        .serve(address)
        .map_err(|error| Error::Environment(format!("metrics at {address}: {error}")))?;
    Ok((metrics, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_read_that_training_has_failed_and_no_other_error_of_a_peer() {
        let session = |privacy: &str| {
            let mut keys: Vec<_> = (1..=5).map(|seed| Identity::from_seed([seed; 32]).public()).collect();
            keys.sort_unstable();
            let peer = |(at, key)| format!("[[roster]]\nname = \"p{at}\"\npeer_id = \"{key}\"\n");
            let roster: String = keys.iter().enumerate().map(peer).collect();
            let text = format!(
                "name = \"s\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
                 task = \"fedavg\"\n[data]\nfeatures = 3\nclasses = [\"a\", \"b\"]\n[fedavg]\nrounds = 3\n\
                 weighting = \"equal\"\nclip = 1.0\n{privacy}{roster}"
            );
            Session::parse(&text).unwrap()
        };
        let (exact, private) = (session(""), session("[privacy]\nepsilon = 60.5\ndelta = 1e-7\n"));
        let failed = Ending::Own(format!("{TRAINING}the trainer in round 3: it has ended"));
        let told = farewell(&exact, &failed);
        assert_eq!(told.as_deref(), Some("training failed: the trainer in round 3: it has ended"));
        assert_eq!(farewell(&private, &failed).as_deref(), Some("training failed"));
        assert_eq!(farewell(&exact, &Ending::Own("7 rows with a label are too few".into())), None);
        assert_eq!(farewell(&exact, &Ending::Refused(format!("{TRAINING}by others"))), None);
    }
}
