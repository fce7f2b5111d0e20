//! The thread of a node. It turns reports of the driver into events, the result and the receipt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::channel::oneshot;
use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::{Value, json};

use super::builder::{Keep, Save};
use super::event::Event;
use super::journal::{Journal, journal};
use super::own_rows::OwnRows;
use super::receipt::{Committee, DataDigest, Disagreement, Named, Opened, Receipt, Warnings, stages};
use super::status::Watched;
use super::{Error, Finished, Handle, Peer};
use crate::http::Server;
use crate::net::driver::{self, DriverError, NodeConfig, Report, Usage};
use crate::net::metrics::Metrics;
use crate::node::{self, Ending};
use crate::protocol::context::Context;
use crate::protocol::view::Reason;
use crate::session::{self, Release, Session};
use crate::store::{self, Store, StoreError};
use crate::tasks::{self, History, Outcome, Protected, Rows, Shared, Task};

/// Settings of a node in addition to those of its driver.
pub(super) struct Plan {
    /// Name of the result, or `None` for a peer without rows.
    pub(super) result: Option<&'static str>,
    pub(super) rows: Rows,
    pub(super) columns: Arc<Protected>,
    /// Warnings about the rows that were found without other peers.
    pub(super) odd: Vec<String>,
    pub(super) metrics: Option<(Metrics, Server)>,
    pub(super) save: Option<Save>,
    pub(super) keep: Option<Keep>,
}

/// Starts a node on its own thread. When this function returns, the network is up.
pub(super) async fn start(config: NodeConfig, plan: Plan) -> Result<Peer, Error> {
    let (journal, reader) = journal();
    let (up, started) = oneshot::channel();
    let (end, result) = oneshot::channel();
    let (id, stop) = (config.ctx.identity.public(), config.stop.clone());
    let (watched, status) = config.watched.then(|| Watched::new(&config.ctx)).unzip();
    let mut node = Node {
        session: config.session.clone(),
        ctx: config.ctx.clone(),
        task: config.task.clone(),
        stop: stop.clone(),
        plan,
        journal,
        watched,
        up: Some(up),
        views: 0,
        apart: BTreeMap::new(),
        named: Vec::new(),
        reached: false,
        keyed: config.network_key.is_some(),
        roles: BTreeMap::new(),
        opened: BTreeMap::new(),
        warnings: Warnings::default(),
        result: None,
    };
    let odd = std::mem::take(&mut node.plan.odd);
    node.warn("columns", odd);
    let run = move || {
        let result = node.run(config);
        // Ends the stream of events before the result is sent.
        drop(node);
        // An error is ignored, because the caller may no longer wait for the result.
        let _ = end.send(result);
    };
    let spawned = std::thread::Builder::new().name("flyswarm-node".into()).spawn(run);
    spawned.map_err(|error| Error::Environment(format!("no thread for the node: {error}")))?;
    match started.await {
        Ok(driver) => Ok(Peer { id, handle: Handle::new(driver, stop), reader, status, result }),
        Err(_) => {
            let ended = result.await.unwrap_or_else(|_| Err(panicked()));
            Err(ended.err().unwrap_or_else(|| Error::Environment("the node ended before it began".into())))
        }
    }
}

/// Makes the error for a node whose thread has panicked.
pub(super) fn panicked() -> Error {
    Error::Environment("BUG: the node's thread panicked".into())
}

/// Adds a hint to the error of an unfinished session. If no other peer has ever answered, the hint names a
/// possible cause: perhaps only one side uses a network key.
fn unreached(error: Error, reached: bool, keyed: bool, begun: bool) -> Error {
    let hint = match keyed {
        _ if begun => {
            "if they have finished: ask one of them to run its `flyswarm join` again, then start this \
             peer again to get the result"
        }
        true => "none of them answered, and this peer uses a network key: all need the same one",
        false => "none of them answered: if they use a network key, give it with --network-key",
    };
    match error {
        Error::Ended { ending: ending @ Ending::TooFew(_), .. } if begun => Error::Ended { ending, hint },
        // An error of this peer itself does not come from the network.
        Error::Ended { ending, .. } if !reached && !begun && !matches!(ending, Ending::Own(_)) => {
            Error::Ended { ending, hint }
        }
        other => other,
    }
}

/// Returns the fields of a receipt that describe the session's task and how it protects single rows.
pub(crate) fn told(session: &Session) -> [(&'static str, Value); 4] {
    let kind = session.task.kind();
    [
        ("task", json!(session.task.name())),
        ("privacy", privacy(session)),
        ("sent_as", json!(kind.shared)),
        ("evaluation_note", json!((kind.evaluation_note)(session))),
    ]
}

/// Returns the privacy settings of a session's file, for receipts.
fn privacy(session: &Session) -> Value {
    let mut privacy = json!(session.privacy.noise);
    if !privacy.is_object() {
        privacy = json!({"epsilon": null});
    }
    privacy["possible"] = json!(session.task.release(&session.data) != Release::Nothing);
    privacy["min_contributors"] = json!(session.privacy.min_contributors);
    privacy
}

struct Node {
    session: Arc<Session>,
    ctx: Arc<Context>,
    task: Arc<dyn Task>,
    stop: Arc<AtomicBool>,
    plan: Plan,
    journal: Journal,
    watched: Option<Watched>,
    up: Option<oneshot::Sender<driver::Handle>>,
    views: u64,
    /// For each pair of peers, number of views that ended because of this pair. The flag is true if only
    /// their connection was lost.
    apart: BTreeMap<([String; 2], bool), u64>,
    named: Vec<Named>,
    /// True if any other peer has answered.
    reached: bool,
    /// True if a network key is used.
    keyed: bool,
    roles: BTreeMap<String, Vec<String>>,
    /// Time at which each slot was opened, in seconds since 1970.
    opened: BTreeMap<u32, f64>,
    warnings: Warnings,
    result: Option<Result<SessionResult, Error>>,
}

/// The result, with the sums that it was made of.
struct SessionResult {
    /// `None` for a peer without rows.
    outcome: Option<Outcome>,
    history: Arc<History>,
}

impl Node {
    fn run(&mut self, config: NodeConfig) -> Result<Finished, Error> {
        let (started, state) = (super::unix(), config.state.clone());
        let ended = driver::run(config, &mut |report| self.reported(report));
        // If this peer leaves before the others have their results, its saved result is still valid.
        let left_early = ended.is_err();
        let unfinished = ended.as_ref().map_or_else(|_| Vec::new(), |usage| usage.unfinished.clone());
        let (usage, SessionResult { outcome, history }) = match (ended, self.result.take()) {
            (_, Some(Err(failure))) => return Err(failure),
            (Ok(usage), Some(Ok(made))) => (usage, made),
            (Err(DriverError::Stopped), Some(Ok(made))) => (Usage::default(), made),
            (Err(error), _) => {
                // If this peer began earlier and was away, the others may have finished.
                let begun = store::has_records(&state).unwrap_or(false);
                return Err(unreached(error.into(), self.reached, self.keyed, begun));
            }
            (Ok(_), None) => {
                let ending = Ending::Refused("the session ended without a result".into());
                return Err(Error::Ended { ending, hint: "" });
            }
        };
        let mut receipt = self.receipt(&usage, outcome.as_ref(), &history, started)?;
        if let Some(keep) = self.plan.keep.take() {
            keep(&mut receipt)?;
        }
        self.journal.write(Event::Receipt { receipt: Box::new(receipt.clone()) });
        if self.plan.result.is_some() {
            self.journal.write(Event::OwnRows { own_rows: receipt.own_rows.clone() });
        }
        // If this peer left early or saw peers without a result, they may need its state. The peer can then
        // run again to serve them.
        let without_result = if self.serves_later(&history) { unfinished } else { Vec::new() };
        let stored = |error: StoreError| Error::Environment(error.to_string());
        if left_early || !without_result.is_empty() {
            let id = |&peer: &session::Peer| self.ctx.session.roster[peer.index()].key.to_string();
            Store::keep_for(&state, &without_result.iter().map(id).collect::<Vec<_>>()).map_err(stored)?;
            let name = |&peer: &session::Peer| self.session.name(peer).to_owned();
            let without_result = without_result.iter().map(name).collect();
            self.journal.write(Event::StateKept { folder: state, without_result });
        } else {
            Store::finish(&state).map_err(stored)?;
        }
        Ok(Finished { outcome, receipt })
    }

    /// Returns whether this peer keeps the state with which a later run serves others. In sessions with noise
    /// or with shares of rows, no state is kept. If this peer was not a member of the last sum, it got its
    /// result from another peer, and that peer knows better which peers lack the result.
    fn serves_later(&self, history: &History) -> bool {
        let sums = self.session.privacy.noise.is_none() && self.session.task.kind().shared == Shared::Sums;
        sums && history.values().last().is_some_and(|value| value.members.contains(&self.ctx.me))
    }

    fn reported(&mut self, report: Report<'_>) {
        if let Some((metrics, _)) = &self.plan.metrics {
            metrics.note(&self.ctx, &report);
        }
        if let Some(watched) = &mut self.watched {
            watched.note(&self.ctx, &report);
        }
        // After this peer has the result, lost connections are not reported: peers leave because they have
        // the result too.
        let quiet = self.result.is_some() && matches!(report, Report::Disconnected(..));
        if let Some(event) = Event::of(&self.ctx, &report).filter(|_| !quiet) {
            if let Event::Roles { roles } = &event {
                self.roles.clone_from(roles);
            }
            if let Event::Named { peers, evidence } = &event {
                let (text, evidence) = (super::event::named(peers), evidence.clone());
                self.named.push(Named { peers: peers.clone(), text, evidence });
            }
            self.journal.write(event);
        }
        let findings = self.plan.columns.take_findings();
        self.warn("columns", findings);
        match report {
            Report::Started(handle) => {
                if let Some((_, server)) = &self.plan.metrics {
                    self.journal.write(Event::Metrics { address: server.address() });
                }
                if let Some(Err(handle)) = self.up.take().map(|up| up.send(handle)) {
                    // The caller of `join` has given up.
                    self.stop.store(true, Ordering::Release);
                    handle.wake();
                }
            }
            Report::Node(node::Event::ViewBegan(..)) => self.views += 1,
            Report::Node(node::Event::ViewFailed(_, author, reason, Some(suspect)))
                if *reason != Reason::Left =>
            {
                let mut pair = [*author, *suspect].map(|peer| self.session.name(peer).to_owned());
                pair.sort_unstable();
                *self.apart.entry((pair, *reason == Reason::Lost)).or_default() += 1;
            }
            Report::Node(node::Event::Opened(value)) => {
                self.opened.entry(value.sum.slot).or_insert_with(super::unix);
            }
            Report::Node(node::Event::Joined(_) | node::Event::Refused(..)) => self.reached = true,
            Report::Node(node::Event::Finished(history)) => {
                let finished = self.finished(history);
                if finished.is_err() {
                    self.stop.store(true, Ordering::Release);
                }
                self.result =
                    Some(finished.map(|outcome| SessionResult { outcome, history: history.clone() }));
            }
            _ => {}
        }
    }

    fn warn(&mut self, about: &'static str, messages: Vec<String>) {
        for message in messages {
            self.warnings.add(about, message.clone());
            self.journal.write(Event::Warning { about, message });
        }
    }

    /// Makes the result and saves it. Returns `None` for a peer without rows.
    fn finished(&mut self, history: &History) -> Result<Option<Outcome>, Error> {
        let lingers = self.ctx.session.timing.linger_ms.div_ceil(1000);
        let Some(result) = self.plan.result else {
            self.journal.write(Event::Finished {
                result: None,
                digest: None,
                own_rows: None,
                summary: String::new(),
                lingers,
            });
            return Ok(None);
        };
        let outcome = self
            .task
            .outcome(history, super::unix() as u64)
            .map_err(|why| Error::Ended { ending: Ending::Refused(why), hint: "" })?;
        if let Some(save) = self.plan.save.take() {
            save(&outcome, history)?;
        }
        self.warn("quality", outcome.warnings.clone());
        self.journal.write(Event::Finished {
            result: Some(result.to_owned()),
            digest: Some(hex::encode(outcome.digest)),
            own_rows: Some(self.own_rows(history)),
            summary: outcome.summary.clone(),
            lingers,
        });
        Ok(Some(outcome))
    }

    /// Returns the opened sums that include this peer's rows.
    fn own_rows(&self, history: &History) -> OwnRows {
        OwnRows::of(&self.ctx.plan, self.ctx.me, &*self.task, history)
    }

    fn receipt(
        &self,
        usage: &Usage,
        outcome: Option<&Outcome>,
        history: &History,
        started: f64,
    ) -> Result<Receipt, Error> {
        let mut salt = [0; 32];
        SysRng
            .try_fill_bytes(&mut salt)
            .map_err(|error| Error::Environment(format!("the system gives no random bytes: {error}")))?;
        let session = &*self.session;
        let names =
            |peers: &[session::Peer]| peers.iter().map(|&peer| session.name(peer).to_owned()).collect();
        let aggregates = self.ctx.plan.iter().zip(history.values()).map(|(aggregate, value)| Opened {
            name: aggregate.name.clone(),
            is: aggregate.is,
            reveals: aggregate.told(),
            view: value.sum.ballot.to_string(),
            members: names(&value.members),
            sealed_total: hex::encode(value.total),
        });
        let mut details = outcome.map_or_else(Default::default, |outcome| outcome.details.clone());
        if let Some((result, outcome)) = self.plan.result.zip(outcome) {
            details.insert(result.to_owned(), json!({"digest": hex::encode(outcome.digest)}));
        }
        details.extend(told(session).map(|(name, value)| (name.to_owned(), value)));
        Ok(Receipt {
            session: self.ctx.id.to_string(),
            name: session.name.clone(),
            run_id: hex::encode(session.run.id),
            created: session.run.created_text(),
            series: session.run.series,
            peer: session.name(self.ctx.me).to_owned(),
            peer_id: self.ctx.identity.public().to_string(),
            own_rows: self.own_rows(history),
            aggregates: aggregates.collect(),
            opened_unix: history
                .values()
                .iter()
                .map(|value| self.opened.get(&value.sum.slot).copied())
                .collect(),
            committee: Committee::of(session),
            roles: (!self.roles.is_empty()).then(|| self.roles.clone()),
            views: self.views,
            disagreements: self
                .apart
                .iter()
                .map(|((pair, lost), views)| Disagreement::new(pair, *lost, *views))
                .collect(),
            named: self.named.clone(),
            data: DataDigest {
                rows: self.plan.rows.data.rows(),
                salt: hex::encode(salt),
                digest: hex::encode(self.plan.rows.digest(&salt)),
                digest_covers: tasks::digest_covers(session),
            },
            stages: stages(&self.ctx, &session.task, usage),
            bytes_sent: usage.bytes_sent,
            bytes_received: usage.bytes_received,
            started_unix: started,
            seconds: super::unix() - started,
            result: self.plan.result.map(str::to_owned),
            warnings: self.warnings.clone(),
            details,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_hears_nobody_is_told_of_the_network_key() {
        let told = |reached, keyed| {
            let error = Error::Ended { ending: Ending::TooFew("too few".into()), hint: "" };
            unreached(error, reached, keyed, false).to_string()
        };
        assert_eq!(told(true, false), "too few");
        assert!(
            told(false, true).starts_with("too few; none of them answered, and this peer uses a network key")
        );
        assert!(told(false, false).ends_with("give it with --network-key"));
        let away = Error::Ended { ending: Ending::TooFew("too few".into()), hint: "" };
        let away = unreached(away, true, false, true).to_string();
        assert!(away.starts_with("too few; if they have finished: ask one of them to run"), "{away}");
        assert_eq!(unreached(Error::Input("x".into()), false, false, true).to_string(), "x");
    }
}
