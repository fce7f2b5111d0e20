//! The nodes of the demo: peers of one session in this process. They connect over the loopback interface.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use futures::executor::{block_on, block_on_stream};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{NAMES, write_file};
use crate::cli::dashboard::Live;
use crate::cli::{Failure, console, say};
use crate::crypto::identity::Identity;
use crate::peer::{self, Budget, Event, Handle, Peer as Node, Timed};
use crate::protocol::view::Stage;
use crate::session::{self, Session};
use crate::tasks::{self, History, Rows};

/// If no peer sends a message for this time, the demo fails. It is longer than all time-outs of the demo's
/// session.
const PATIENCE: Duration = Duration::from_secs(120);

/// Message from a node.
enum NodeReport {
    Event(Box<Timed>),
    Result(History),
    /// The node has sent a message.
    Moved,
    End(Result<(), Failure>),
}

/// A peer that has ended successfully.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) peer: session::Peer,
    pub(super) rows: Rows,
    /// Name of the peer's result, and the file with it.
    result: &'static str,
    file: PathBuf,
    pub(super) receipt: Value,
    /// Opened sums.
    pub(super) history: Option<History>,
    /// Secret of this peer.
    pub(super) secret: Zeroizing<[u8; 32]>,
}

impl Ended {
    /// Returns the digest of the peer's result.
    pub(super) fn digest(&self) -> &str {
        self.receipt[self.result]["digest"].as_str().unwrap_or_default()
    }

    /// Returns the number of labels that the peer knows.
    pub(super) fn labels(&self) -> usize {
        self.rows.labels.iter().flatten().count()
    }

    /// Returns the peer's rows as CSV. The label is in the last column, and empty if it is unknown.
    fn csv(&self, classes: &[String]) -> String {
        let mut text = String::new();
        for row in 0..self.rows.data.rows() {
            let mut fields: Vec<String> = self.rows.data.row(row).iter().map(ToString::to_string).collect();
            if !classes.is_empty() {
                let label = self.rows.labels[row].map(|label| classes[usize::from(label)].clone());
                fields.push(label.unwrap_or_default());
            }
            text += &(fields.join(",") + "\n");
        }
        text
    }
}

/// Running nodes. If this value is dropped, the nodes that are still running leave.
pub(super) struct Nodes {
    peers: Vec<Ended>,
    ids: Vec<crate::crypto::identity::PublicKey>,
    handles: Vec<Handle>,
    told: Receiver<(usize, NodeReport)>,
    started: Instant,
    live: Option<Live>,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for handle in &self.handles {
            handle.leave();
        }
        if let Some(live) = &self.live {
            live.finish();
        }
    }
}

/// Serves a page of all nodes, and prints its address.
fn page(address: SocketAddr, session: &Session, names: &[&str]) -> Result<Live, Failure> {
    let about = json!({
        "kind": "flyswarm demo", "title": session.name, "nodes": names, "start": session.id().to_string(),
        "about": format!("{} nodes on this machine; task {}", names.len(), session.task),
    });
    let live = Live::open(address, &about)?;
    // The address must be visible at once. It goes to standard error, because standard output is for the
    // result.
    say(&format!("page at {}", live.url()));
    Ok(live)
}

#[allow(clippy::disallowed_methods, reason = "real nodes take real time")]
fn now() -> Instant {
    Instant::now()
}

impl Nodes {
    /// Starts one node for each identity, on a free port of the loopback interface.
    pub(super) fn start(
        address: Option<SocketAddr>,
        folder: &Path,
        session: &Session,
        identities: Vec<Identity>,
        parts: &[Rows],
    ) -> Result<Self, Failure> {
        let names = &NAMES[..identities.len()];
        let live = address.map(|address| page(address, session, names)).transpose()?;
        let (result, extension) =
            tasks::built_in(session).map_or(("result", "result"), |kind| (kind.result, kind.extension));
        let (sender, told) = channel();
        let (peers, ids, handles) = (Vec::new(), Vec::new(), Vec::new());
        let mut nodes = Self { peers, ids, handles, told, started: now(), live };
        for (i, (identity, part)) in identities.into_iter().zip(parts).enumerate() {
            let name = NAMES[i];
            let id = identity.public();
            let peer = session.peer(&id).ok_or_else(|| Failure::Input("a key without a peer".into()))?;
            let secret = crate::crypto::stream::derive(&*identity.seed(), "rows", &session.id().0);
            let mut rows = part.clone();
            if rows.labels.is_empty() && !session.data.classes.is_empty() {
                rows.labels = rows.data.labels().iter().copied().map(Some).collect();
            }
            let (receipt, history) = (Value::Null, None);
            let file = folder.join(format!("{name}.{extension}"));
            let own = Ended { name: name.to_owned(), peer, rows, result, file, receipt, history, secret };
            write_file(folder, &format!("{name}.csv"), &own.csv(&session.data.classes))?;
            identity.save(folder.join(format!("{name}.key")))?;
            nodes.ids.push(id);
            nodes.peers.push(own);
            nodes.join(i, folder, session, identity, &sender)?;
        }
        Ok(nodes)
    }

    fn join(
        &mut self,
        i: usize,
        folder: &Path,
        session: &Session,
        identity: Identity,
        sender: &Sender<(usize, NodeReport)>,
    ) -> Result<(), Failure> {
        let own = &self.peers[i];
        let array = own.rows.data.view().to_owned();
        let mut builder = Node::builder(session.clone(), identity)
            .key_file(folder.join(format!("{}.key", own.name)))
            .state_dir(folder.join("state"))
            .mdns(false)
            .listen(multiaddr())
            .data(array, own.rows.labels.clone())
            .watched(true);
        if session.privacy.noise.is_some() {
            builder = builder.budget(Budget { dataset: "demo".into(), limit: None });
        }
        let (file, told) = (own.file.clone(), sender.clone());
        builder = builder.on_result(move |outcome, history| {
            let _ = told.send((i, NodeReport::Result(history.clone())));
            let failed = |error| peer::Error::Environment(format!("{}: {error}", file.display()));
            std::fs::write(&file, &outcome.file).map_err(failed)
        });
        let node = block_on(builder.join())?;
        self.handles.push(node.handle());
        if let Some(mut status) = node.status() {
            let (live, told) = (self.live.clone(), sender.clone());
            // This thread ends when the node ends.
            std::thread::spawn(move || {
                block_on(async {
                    let mut moved = 0u64;
                    while status.changed().await.is_ok() {
                        let status = status.borrow_and_update().clone();
                        let now = status.peers.iter().map(|other| other.sent).sum::<u64>();
                        if std::mem::replace(&mut moved, now) != now {
                            let _ = told.send((i, NodeReport::Moved));
                        }
                        if let Some(live) = &live {
                            live.feed().status(i, &json!(status));
                        }
                    }
                });
            });
        }
        let sender = sender.clone();
        std::thread::spawn(move || {
            let (events, told) = (node.events(), sender.clone());
            let shown = std::thread::spawn(move || {
                block_on_stream(events)
                    .for_each(|event| drop(told.send((i, NodeReport::Event(Box::new(event))))));
            });
            let result = block_on(node.result());
            // Waits until all events have been shown, before the result is.
            let _ = shown.join();
            let _ = sender.send((i, NodeReport::End(result.map(drop).map_err(Failure::from))));
        });
        Ok(())
    }

    /// Shows the progress of each node, and waits until all have ended successfully. Also returns the time
    /// that this took, in seconds.
    pub(super) fn wait(&mut self, quiet: bool) -> Result<(Vec<Ended>, f64), Failure> {
        let view = View::new(quiet, &self.peers);
        let mut running = self.peers.len();
        while running > 0 {
            match self.told.recv_timeout(PATIENCE) {
                Ok((i, NodeReport::Event(timed))) => self.event(i, *timed, &view),
                Ok((_, NodeReport::Moved)) => {}
                Ok((i, NodeReport::Result(history))) => self.peers[i].history = Some(history),
                Ok((i, NodeReport::End(result))) => {
                    running -= 1;
                    self.ended(i, result)?;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let left = self.peers.iter().filter(|peer| peer.receipt.is_null());
                    let names: Vec<_> = left.map(|peer| &*peer.name).collect();
                    let text = format!("{}: no progress for {} s", names.join(", "), PATIENCE.as_secs());
                    return Err(Failure::Session(text));
                }
            }
        }
        view.clear();
        Ok((std::mem::take(&mut self.peers), (now() - self.started).as_secs_f64()))
    }

    fn event(&mut self, i: usize, timed: Timed, view: &View) {
        view.show(i, &self.peers[i].name, &timed.event);
        if let Some(live) = self.live.as_ref().filter(|_| !matches!(timed.event, Event::Receipt { .. })) {
            live.feed().event(Some(i), &json!(timed), &timed.event.to_string());
        }
        match timed.event {
            Event::Listening { address } => {
                let others = self.handles.iter().enumerate().filter(|(j, _)| *j != i);
                others.for_each(|(_, handle)| handle.add_address(&self.ids[i], address.clone()));
            }
            Event::Receipt { receipt } => {
                let receipt = json!(receipt);
                self.peers[i].receipt = receipt;
            }
            _ => {}
        }
    }

    fn ended(&mut self, i: usize, result: Result<(), Failure>) -> Result<(), Failure> {
        let name = &self.peers[i].name;
        if let Some(live) = &self.live {
            let how = result.as_ref().map_or_else(ToString::to_string, |()| "well".to_owned());
            let text = format!("{name} has ended: {how}");
            let event = json!({"event": "ended", "well": result.is_ok(), "text": text, "time": peer::unix()});
            live.feed().event(Some(i), &event, &text);
        }
        result.map_err(|failure| Failure::Session(format!("{name}: {failure}")))?;
        let receipt = self.peers[i].file.with_file_name(format!("{name}.receipt.json"));
        let text = format!("{:#}\n", self.peers[i].receipt);
        std::fs::write(&receipt, text)
            .map_err(|error| Failure::Environment(format!("{}: {error}", receipt.display())))
    }
}

/// Returns an address for a free port of the loopback interface.
fn multiaddr() -> libp2p::Multiaddr {
    let ip = libp2p::Multiaddr::from(std::net::Ipv4Addr::LOCALHOST);
    ip.with(libp2p::multiaddr::Protocol::Tcp(0))
}

/// Progress of the peers: a bar for each on a terminal, plain lines otherwise, nothing with `--json`.
enum View {
    Quiet,
    Lines,
    Bars(MultiProgress, Vec<ProgressBar>),
}

impl View {
    fn new(quiet: bool, peers: &[Ended]) -> Self {
        use std::io::IsTerminal;
        if quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let all = MultiProgress::new();
        let bar = |peer: &Ended| {
            let bar = all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix:8} {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(peer.name.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        };
        let bars = peers.iter().map(bar).collect();
        Self::Bars(all, bars)
    }

    fn show(&self, i: usize, name: &str, event: &Event) {
        let line = match event {
            Event::Stage { slot, stage: Stage::Compute, .. } => format!("{slot}: computing"),
            Event::Stage { slot, stage: Stage::Sum, .. } => format!("{slot}: summing"),
            Event::Stage { .. } | Event::Receipt { .. } | Event::Waiting { .. } => return,
            event => event.to_string(),
        };
        match self {
            Self::Quiet => {}
            Self::Lines => console::line(&format!("{name:8} {line}")),
            Self::Bars(_, bars) => bars[i].set_message(line),
        }
    }

    fn clear(&self) {
        if let Self::Bars(all, _) = self {
            // If the terminal cannot be cleared, the lines stay.
            let _ = all.clear();
        }
    }
}
