//! `flyswarm join`: runs one node of a session. The node runs until it has the result and no other peer needs
//! it.

pub(super) mod ask;
mod files;
pub(super) mod observers;
mod personal;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Args;
use futures::executor::{block_on, block_on_stream};
use libp2p::Multiaddr;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::Failure;
use super::dashboard::{BEGINNING, Live, parse_address};
use super::data::{DataArguments, Reading};
use super::id::key_path;
use super::learnt;
use super::network::NetworkArguments;
use super::output;
use super::progress::Progress;
use crate::crypto::identity::{Identity, PublicKey};
use crate::data::LabelColumn;
use crate::ledger::{Ledger, LedgerError};
use crate::net::driver::Trace;
use crate::peer::{self, Budget, Builder, Handle, MakeInterpose, Peer, Status, leave_on_signals};
use crate::privacy::Ratio;
use crate::session::{Session, check_name};
use crate::store::Store;
use crate::tasks::RoundFile;
use crate::tasks::fedavg::TRAINING;
use crate::tasks::{self, Build, OwnWishes, Rows, SessionTask, Shared, xclp};
use files::{Files, kept_page, report};
use personal::Personal;

/// Environment variable that names a trace file for `flyswarm-conform`. The node writes every frame that it
/// sends and receives into the file. Anyone who reads the file sees everything that this node has seen of the
/// others.
const TRACE: &str = "FLYSWARM_TRACE";

/// Join a session with your rows, and write the result, such as a model
///
/// With --json you can send addresses of other peers to standard input, one JSON object per line: {"peer":
/// PEERID, "address": MULTIADDR}.
#[derive(Debug, Args)]
pub(super) struct Join {
    /// Session file
    session: PathBuf,
    /// Rows: CSV, Excel, JSON lines, Parquet, NPY or NPZ, compressed or not (docs/formats.md)
    #[arg(long, value_name = "FILE", required_unless_present = "no_data")]
    data: Option<PathBuf>,
    /// Join a session of the task xclp without rows. This peer may be one of the three that compute on shares
    #[arg(long, conflicts_with_all = ["data", "map", "label", "strict", "trainer", "personalise", "dataset"])]
    no_data: bool,
    #[command(flatten)]
    reading: Reading,
    /// Label column: its name, its number from 1, `last` or `none` [default: last; none if the session has no
    /// classes]
    #[arg(long, value_name = "COLUMN")]
    label: Option<LabelColumn>,
    /// Result file [default: the session's name with the ending of the task's results, such as .model].
    /// Receipt and report are written next to it. With --no-data this is the file of the receipt
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Do not join if the rows look wrong (ids, rounded numbers, codes for missing values) or, with summary
    /// and glm, if few of them differ from an earlier session. If a column differs suspiciously from the
    /// other peers' columns, leave the session before the result counts these rows
    #[arg(long)]
    strict: bool,
    /// With the task fedavg: train with this command, such as 'python3 train.py', instead of the built-in
    /// learner (docs/networks.md)
    #[arg(long, value_name = "COMMAND")]
    trainer: Option<String>,
    /// With the task fedavg: after the session, adapt the network to these rows, like `flyswarm personalise`
    #[arg(long)]
    personalise: bool,
    /// Name of these rows in the privacy ledger, which adds up the budget that private sessions spend, and
    /// counts the sessions that compute on secret shares
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Refuse to join if all private sessions on these rows together would then have spent more than E
    #[arg(long, value_name = "E", requires = "dataset")]
    budget: Option<Ratio>,
    /// Join a private session without confirmation, even if the forecast for its result is poor
    #[arg(long, requires = "dataset")]
    yes: bool,
    /// Key file [default: the key of `flyswarm id`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Folder for the state that this peer needs until the session is over [default: `state` next to the key
    /// file]. A peer that loses its state can no longer vote in the session
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics; the default ADDRESS is 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Show the session on a page in the browser, and print the page's address, which contains a secret. The
    /// default ADDRESS is 127.0.0.1; port 0 selects a free port
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_address)]
    page: Option<SocketAddr>,
    /// Print each event as a JSON object on its own line to standard output
    #[arg(long)]
    json: bool,
    #[arg(skip)]
    interpose: Interposed,
    /// True if an earlier run has written the result. In this case, the run only serves other peers and does
    /// not change the files.
    #[arg(skip)]
    serves: bool,
}

/// Layer that another program puts between the node and its network.
#[derive(Clone, Default)]
struct Interposed(Option<MakeInterpose>);

impl std::fmt::Debug for Interposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "something" } else { "nothing" })
    }
}

/// Describes the session for a page.
fn about(session: &Session, identity: &Identity) -> Value {
    let me = session.peer(&identity.public()).map_or("", |me| session.name(me));
    let privacy = match &session.privacy.noise {
        Some(_) => "The session is private: noise is added to every sum over rows.",
        None => "Sums are exact: there is no formal limit on what they reveal about a single row.",
    };
    json!({
        "kind": "flyswarm join", "title": session.name,
        "about": format!("{me}, one of {} peers; task {}", session.roster.len(), session.task),
        "nodes": [me], "leave": true, "privacy": privacy, "start": session.id().to_string(),
    })
}

/// Calls `show` with each status of a node. This runs in a thread that ends when the node ends.
fn watch(mut status: Receiver<Status>, show: impl Fn(&Status) + Send + 'static) {
    std::thread::spawn(move || {
        block_on(async {
            while status.changed().await.is_ok() {
                let status = status.borrow_and_update().clone();
                show(&status);
            }
        });
    });
}

/// Begins a trace in a new file. No other user can read it.
fn open_trace(
    path: &Path,
    session: &Session,
    identity: &Identity,
    force: bool,
) -> Result<Arc<Trace>, Failure> {
    let file = output::begin_private(path, force)?;
    let trace = Trace::begin(file, session, session.peer(&identity.public()));
    Ok(Arc::new(trace.map_err(|error| output::failed(path, &error))?))
}

/// A session, its file, and this user's identity in it.
struct Place {
    session: Session,
    identity: Identity,
    key: PathBuf,
    kind: SessionTask,
}

/// Rows and settings of a peer, and the path of its result.
struct Contribution {
    rows: Rows,
    /// Name of the file of the rows.
    name: String,
    /// Note on how the columns were matched.
    said: Option<String>,
    out: PathBuf,
    budget: Option<Budget>,
    /// Function that makes the task, if it is not the default one.
    build: Option<Build>,
    /// Settings to make the result personal, if requested.
    personal: Option<Personal>,
}

/// Reads the rows for a session's task from a file, and returns a note on how its columns were matched.
pub(super) fn load(
    session: &Session,
    kind: &SessionTask,
    data: &DataArguments,
    label: Option<&LabelColumn>,
) -> Result<(Rows, Option<String>), Failure> {
    // If the session has no classes, there is no label column.
    let usual = if session.data.classes.is_empty() { LabelColumn::None } else { LabelColumn::Last };
    let (rows, said) = data.load_rows(&session.data, label.unwrap_or(&usual), kind.labels)?;
    let (rows, left_out) = rows.in_use(session).map_err(Failure::Input)?;
    let cut = (left_out > 0).then(|| {
        format!(
            "{}: {left_out} rows are left out: privacy.group_rows bounds the rows of a group",
            data.name()
        )
    });
    let said: Vec<_> = [said, cut].into_iter().flatten().collect();
    Ok((rows, (!said.is_empty()).then(|| said.join("\n"))))
}

/// If the session failed, adds to the error where the weights of the last round are. If it has a result,
/// removes these weights.
pub(super) fn with_rounds<T>(result: Result<T, Failure>, rounds: &RoundFile) -> Result<T, Failure> {
    match (result, rounds.told()) {
        (Ok(result), _) => {
            rounds.remove();
            Ok(result)
        }
        (Err(Failure::Session(text)), Some(told)) => Err(Failure::Session(format!("{text}; {told}"))),
        (Err(Failure::Interrupted(text)), Some(told)) => Err(Failure::Interrupted(format!("{text}; {told}"))),
        (failed, _) => failed,
    }
}

impl Join {
    /// Sets a function that makes a layer between the node and its network.
    pub(super) fn interpose(&mut self, make: MakeInterpose) {
        self.interpose = Interposed(Some(make));
    }

    pub(super) fn run(mut self) -> Result<(), Failure> {
        let place = self.place()?;
        self.serves = self.has_result(&place)?;
        let Some(data) = self.data.take() else { return self.without_data(place) };
        let budget = self.budget(&place.session)?;
        let (session, kind) = (&place.session, &place.kind);
        let named = || PathBuf::from(format!("{}.{}", session.name, kind.extension));
        let out = self.out.clone().unwrap_or_else(named);
        let receipt = out.with_extension("receipt.json");
        self.writable(&[&out, &receipt, &report(&receipt)])?;
        learnt::check(&out, self.force || self.serves)?;
        let label = self.label.clone().unwrap_or(LabelColumn::Last);
        let personal = (self.personalise && !self.serves).then(|| Personal::new(session, &out, label));
        let mut personal = personal.transpose()?;
        personal.iter().try_for_each(|personal| self.writable(&[&personal.out]))?;
        let data = DataArguments::new(data, self.reading.clone());
        let (mut rows, said) = load(session, kind, &data, self.label.as_ref())?;
        let (file, hold_out) = (&*self.session, self.reading.hold_out);
        let rounds = Arc::new(RoundFile::beside(&out));
        let kept = (rounds.path() != out).then_some(&rounds);
        let wishes = OwnWishes { file, trainer: self.trainer.as_deref(), hold_out, rounds: kept };
        let own = session.task.kind().build_own;
        let build = own(session, wishes, &mut rows).map_err(Failure::Input)?;
        let name = data.name();
        if let Some(personal) = &mut personal {
            personal.data = Some(data);
        }
        let contribution = Contribution { rows, name, said, out, budget, build, personal };
        let ended = self.run_with(place, Some(contribution), receipt, &rounds);
        // A thread may still be waiting for a trainer.
        tasks::end_programs();
        ended
    }

    /// Joins without rows, to help the others.
    fn without_data(self, place: Place) -> Result<(), Failure> {
        if !place.kind.witnesses {
            let (file, task) = (self.session.display(), &place.session.task);
            return Err(Failure::Input(format!(
                "{file}: --no-data: the task {task} has no peers without rows"
            )));
        }
        let named = || PathBuf::from(format!("{}.receipt.json", place.session.name));
        let receipt = self.out.clone().unwrap_or_else(named);
        self.writable(&[&receipt, &report(&receipt)])?;
        let rounds = RoundFile::beside(&receipt);
        self.run_with(place, None, receipt, &rounds)
    }

    /// Checks that the options for the budget fit the session, and returns the budget.
    fn budget(&self, session: &Session) -> Result<Option<Budget>, Failure> {
        let refused = |text: &str| Err(Failure::Input(format!("{}: {text}", self.session.display())));
        match (session.privacy.noise, &self.dataset) {
            (Some(_), None) => refused(
                "a private session needs --dataset NAME: under this name the ledger adds up the budget spent",
            ),
            (Some(_), Some(name)) => {
                check_name("--dataset", name)?;
                Ok(Some(Budget { dataset: name.clone(), limit: self.budget }))
            }
            (None, _) if self.budget.is_some() => refused(
                "--budget: the session has no privacy.epsilon, and exact sums have no formal privacy limit",
            ),
            (None, Some(name)) if session.task.kind().shared != Shared::Sums => {
                check_name("--dataset", name)?;
                Ok(Some(Budget { dataset: name.clone(), limit: None }))
            }
            (None, Some(_)) => {
                refused("--dataset: the session has no privacy.epsilon, and nothing is entered in the ledger")
            }
            (None, None) => Ok(None),
        }
    }

    fn place(&self) -> Result<Place, Failure> {
        let session = super::session::load(&self.session)?;
        let key = key_path(self.key.clone())?;
        let identity = Identity::load(&key)?;
        if session.peer(&identity.public()).is_none() {
            let (file, id) = (self.session.display(), identity.public());
            return Err(Failure::Input(format!("{file}: {id} is not in the roster")));
        }
        let kind = tasks::built_in(&session).ok_or_else(|| peer::not_built_in(&session))?;
        Ok(Place { session, identity, key, kind })
    }

    fn has_result(&self, place: &Place) -> Result<bool, Failure> {
        let (id, key) = (place.identity.public().to_string(), Some(&*place.key));
        let state = peer::state_folder(self.state.as_deref(), key, &id, &place.session)?;
        let kept = Store::kept_for(&state).map_err(|error| Failure::Environment(error.to_string()))?;
        Ok(kept.is_some())
    }

    fn writable(&self, paths: &[&Path]) -> Result<(), Failure> {
        let paths = if self.serves { &[] } else { paths };
        paths.iter().try_for_each(|path| output::check(path, self.force))
    }

    /// Runs the node.
    fn run_with(
        self,
        place: Place,
        contribution: Option<Contribution>,
        receipt: PathBuf,
        rounds: &RoundFile,
    ) -> Result<(), Failure> {
        let progress = Progress::new(self.json);
        let result = self.drive(place, contribution, receipt, &progress);
        progress.finish();
        let result = with_rounds(result, rounds);
        if let (Err(failure), Progress::Json) = (&result, &progress) {
            progress.tell(&json!({"event": "error", "message": failure.to_string()}), "");
        }
        result
    }

    fn drive(
        self,
        place: Place,
        mut contribution: Option<Contribution>,
        receipt: PathBuf,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let personal = contribution.as_mut().and_then(|contribution| contribution.personal.take());
        let out = contribution.as_ref().map(|contribution| contribution.out.clone());
        let session = place.session.clone();
        let live =
            self.page.map(|address| Live::open(address, &about(&session, &place.identity))).transpose()?;
        if let Some(live) = &live {
            let (url, kept) = (live.url(), kept_page(&receipt));
            let replaces = self.force || output::begins(&kept, BEGINNING);
            output::check(&kept, replaces)?;
            let text = format!("page at {url}; saved at the end as {}", kept.display());
            progress.tell(&json!({"event": "page", "url": url, "kept": kept}), &text);
        }
        let ledger = Ledger::path(&place.key, &place.identity.public().to_string());
        let trace = std::env::var_os(TRACE).map(PathBuf::from);
        let open = |path: PathBuf| {
            let trace = open_trace(&path, &session, &place.identity, self.force)?;
            Ok::<_, Failure>((path, trace))
        };
        let trace = trace.map(open).transpose()?;
        let mut builder = Peer::builder(place.session, place.identity).key_file(place.key);
        if let Some(contribution) = contribution {
            if let Some(said) = &contribution.said {
                progress.tell(&json!({"event": "columns", "message": said}), said);
            }
            let (asked, count) = (session.clone(), contribution.rows.data.rows());
            let (told, yes) = (progress.clone(), self.yes);
            builder = builder
                .rows(contribution.rows, contribution.name)
                .strict(self.strict)
                .before_charge(move || Ok(ask::ask(&asked, count, yes, &told)?));
            if let Some(budget) = contribution.budget {
                builder = builder.budget(budget);
            }
            if let Some(build) = contribution.build {
                builder = builder.built_by(build);
            }
        }
        if let Some((_, trace)) = &trace {
            builder = builder.trace(trace.clone());
        }
        builder = self.network(builder)?.watched(live.is_some() || progress.is_bar());
        let id = session.id().to_string();
        let (own, told, warnings) = (Mutex::default(), Mutex::default(), Mutex::default());
        let map = self.reading.digest.clone();
        let (force, serves) = (self.force, self.serves);
        let files = Files { out, receipt, force, serves, map, ledger, own, live, told, warnings };
        let files = Arc::new(files);
        let (written, told) = (files.clone(), progress.clone());
        builder = builder.on_result(move |outcome, history| {
            // Every member with rows has this seed. With the seed, the labels can be computed again from all
            // rows in one place.
            let labels = session.task.kind().shared == Shared::Shares && written.out.is_some();
            if labels
                && matches!(told, Progress::Json)
                && let Some(seed) = xclp::planes(&session, history)
            {
                told.tell(&json!({"event": "planes", "seed": hex::encode(seed)}), "");
            }
            written.write_result(outcome)
        });
        let written = files.clone();
        builder = builder.on_receipt(move |receipt| written.write_receipt(receipt));
        let ended = self.run_peer(builder, &files, &id, progress).and_then(|()| match personal {
            Some(personal) => personal.make(&files, self.force, progress),
            None => Ok(()),
        });
        let traced = trace
            .map_or(Ok(()), |(path, trace)| trace.finish().map_err(|error| output::failed(&path, &error)));
        // If both failed, returns the error that ended the session rather than that of the trace.
        let ended = ended.and(traced);
        if let Some(live) = &files.live {
            if let Err(failure) = &ended {
                let text = failure.to_string();
                let event = json!({"event": "error", "message": text, "time": peer::unix()});
                live.feed().event(Some(0), &event, &text);
            }
            live.finish();
        }
        ended.and(files.keep_page())
    }

    /// Joins the session, and shows its events until the end.
    fn run_peer(
        &self,
        builder: Builder,
        files: &Arc<Files>,
        id: &str,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let peer = block_on(builder.join())?;
        leave_on_signals(peer.handle());
        if let Some(live) = &files.live {
            let handle = peer.handle();
            live.on_leave(move || {
                handle.leave();
            });
            if let Some(spent) = files.spent(id) {
                live.feed().event(Some(0), &json!({"event": "budget", "spent": spent}), "");
            }
        }
        if let Some(status) = peer.status() {
            let (progress, live) = (progress.clone(), files.live.clone());
            watch(status, move |status| {
                progress.status(status);
                if let Some(live) = &live {
                    live.feed().status(0, &json!(status));
                }
            });
        }
        if self.json && !std::io::stdin().is_terminal() {
            read_addresses(peer.handle());
        }
        let events = peer.events();
        let shown = std::thread::spawn({
            let (progress, files) = (progress.clone(), files.clone());
            move || block_on_stream(events).for_each(|event| files.show(&progress, &event))
        });
        let result = block_on(peer.result());
        // Waits until all events have been shown, before the result is.
        let _ = shown.join();
        result.map(drop).map_err(Failure::from)
    }

    /// Sets how the node finds and reaches other peers.
    fn network(&self, mut builder: Builder) -> Result<Builder, Failure> {
        builder = builder.mdns(!self.network.no_mdns);
        for address in self.network.listen() {
            builder = builder.listen(address);
        }
        if let Some(key) = self.network.key()? {
            builder = builder.network_key(key);
        }
        if let Some(state) = &self.state {
            builder = builder.state_dir(state);
        }
        if let Some(address) = self.metrics {
            builder = builder.metrics(address);
        }
        if let Some(make) = &self.interpose.0 {
            builder = builder.interpose(make.clone());
        }
        Ok(builder)
    }
}

impl From<peer::Error> for Failure {
    fn from(error: peer::Error) -> Self {
        let text = error.to_string();
        match error {
            peer::Error::Ended { ending: peer::Ending::Own(own), .. } if !own.starts_with(TRAINING) => {
                Self::Input(text)
            }
            peer::Error::Ended { .. } => Self::Session(text),
            peer::Error::Environment(_) => Self::Environment(text),
            peer::Error::Ledger(error) => match *error {
                LedgerError::Io { .. } | LedgerError::NoLocks { .. } | LedgerError::Locked(_) => {
                    Self::Environment(text)
                }
                _ => Self::Input(text),
            },
            peer::Error::Left(_) => Self::Interrupted(text),
            _ => Self::Input(text),
        }
    }
}

/// Converts the error of a file that is written while the node runs.
impl From<Failure> for peer::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input(text) => Self::Input(text),
            Failure::Session(text) => Self::Ended { ending: peer::Ending::Refused(text), hint: "" },
            Failure::Environment(text) => Self::Environment(text),
            Failure::Interrupted(text) => Self::Left(text),
        }
    }
}

#[derive(Deserialize)]
struct PeerAddress {
    peer: String,
    address: Multiaddr,
}

/// Reads addresses of other peers from standard input. A program that starts several nodes can send them.
pub(super) fn read_addresses(handle: Handle) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let known = serde_json::from_str::<PeerAddress>(&line).ok();
            if let Some((peer, address)) =
                known.and_then(|known| Some((known.peer.parse::<PublicKey>().ok()?, known.address)))
            {
                handle.add_address(&peer, address);
            }
        }
    });
}

#[cfg(test)]
mod tests;
