//! `flyswarm join`: one node of a session, until it has the model and nobody needs it any more.

mod ask;
mod charge;
mod given;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use libp2p::Multiaddr;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Failure;
use super::data::DataArguments;
use super::id::{key_path, random};
use super::network::NetworkArguments;
use super::output;
use super::progress::Progress;
use crate::crypto::identity::{Identity, load_identity};
use crate::crypto::stream::derive;
use crate::data::{Dataset, LabelColumn};
use crate::net::driver::{self, DriverError, Handle, NodeConfig, Report, Usage};
use crate::net::metrics::{Metrics, stage_name};
use crate::node::{Ending, Event};
use crate::protocol::context::{Context, Quantity};
use crate::protocol::record::Value as Decision;
use crate::protocol::view::Stage;
use crate::session::{Peer, Session, TaskSpec};
use crate::store::{Pin, Store};
use crate::task::columns::{self, Compared};
use crate::task::exchange::Roles;
use crate::task::{self, BuiltIn, History, Labels, Outcome, Rows, Task, xclp};
use charge::BudgetCharge;
use given::{Given, odd_columns};

/// Runs one node of a session and writes what it gives: the model, the settings that were best, labels for
/// its own rows, or how far these lie from all
#[derive(Debug, Args)]
pub(super) struct Join {
    #[command(flatten)]
    node: NodeArguments,
    #[command(flatten)]
    data: DataArguments,
    /// Label column: a name, a number from 1, last or none [default: last; with the task sketch, which looks
    /// at no labels, none: all columns are features]
    #[arg(long, value_name = "COLUMN")]
    label: Option<LabelColumn>,
    /// What is written [default: the session's name with .model, .settings.toml, .labels.csv or .sketch.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Leave before any rows are counted where a column looks wrong beside those of the others: other units,
    /// codes for missing values, a constant
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    payment: BudgetCharge,
}

/// Runs one node without rows: in a session of the task xclp it helps the others, and sees no data
#[derive(Debug, Args)]
pub(super) struct Witness {
    #[command(flatten)]
    node: NodeArguments,
}

/// What every node is told.
#[derive(Debug, Args)]
struct NodeArguments {
    /// Session file
    session: PathBuf,
    /// The key file [default: as `flyswarm id`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Where promises, pads and results are kept until the session is over; then only promises stay [default:
    /// `state` beside the key file]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArguments,
    /// The receipt [default: the file that is written with .receipt.json, for a witness the session's name]
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
    /// Answer Prometheus at http://ADDRESS/metrics; a port alone is one of 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_metrics)]
    metrics: Option<SocketAddr>,
    /// Print one JSON object a line on standard output for everything that happens
    #[arg(long)]
    json: bool,
    /// Read lines {"peer": PEERID, "address": MULTIADDR} from standard input
    #[arg(long, hide = true)]
    addresses_from_stdin: bool,
    /// Demo: tell the seed of the planes, which every member with rows knows
    #[arg(long, hide = true)]
    tell_planes: bool,
    /// Tests: stop at QUANTITY.STAGE until killed
    #[arg(long, hide = true, value_name = "QUANTITY.STAGE")]
    hold_at: Option<String>,
}

/// A checked command line.
struct Prepared {
    ctx: Arc<Context>,
    task: Arc<dyn Task>,
    kind: BuiltIn,
    rows: Rows,
    columns: Arc<Compared>,
    /// Whether a network key is used.
    keyed: bool,
    /// `None` for a witness.
    out: Option<PathBuf>,
    receipt: PathBuf,
    force: bool,
    progress: Progress,
    tell_planes: bool,
    metrics: Option<Metrics>,
}

/// A session file and this user's place in it.
struct Place {
    session: Session,
    identity: Identity,
    me: Peer,
}

impl Join {
    pub(super) fn run(self) -> Result<(), Failure> {
        let place = self.node.place()?;
        self.payment.check(&self.node.session, &place.session)?;
        let kind = built_in(&place.session)?;
        let named = || PathBuf::from(format!("{}.{}", place.session.name, kind.extension));
        let out = self.out.clone().unwrap_or_else(named);
        let receipt = self.node.receipt.clone().unwrap_or_else(|| out.with_extension("receipt.json"));
        self.node.writable(&[&out, &receipt])?;
        let (spec, none) = (&place.session.data, Vec::new());
        // Without classes there is nothing to label.
        let usual = if spec.classes.is_empty() { LabelColumn::None } else { LabelColumn::Last };
        let label = self.label.clone().unwrap_or(usual);
        let (data, labels, said) = match kind.labels {
            Labels::Some => {
                let (rows, said) = self.data.load_partly_labelled(spec, &label)?;
                (rows.data, rows.labels, said)
            }
            Labels::None => {
                let (data, said) = self.data.load_features(spec, &label)?;
                (data, none, said)
            }
            Labels::All => {
                let (data, said) = self.data.load_labelled(spec, &label)?;
                (data, none, said)
            }
        };
        let given = Given::new(Rows { data: Arc::new(data), labels }, self.data.name(), said, self.strict);
        self.node.run(place, kind, given, Some(out), receipt, &self.payment)
    }
}

impl Witness {
    pub(super) fn run(self) -> Result<(), Failure> {
        let place = self.node.place()?;
        let kind = built_in(&place.session)?;
        if !kind.witnesses {
            let (file, task) = (self.node.session.display(), &place.session.task);
            return Err(Failure::Input(format!("{file}: the task {task} has no witnesses")));
        }
        let named = || PathBuf::from(format!("{}.receipt.json", place.session.name));
        let receipt = self.node.receipt.clone().unwrap_or_else(named);
        self.node.writable(&[&receipt])?;
        let features = place.session.data.features as usize;
        let none = Dataset::new(features, vec![0.0; features], Vec::new(), Vec::new())?.subset(&[]);
        let rows = Rows { data: Arc::new(none), labels: Vec::new() };
        let given = Given::new(rows, "no rows".into(), None, false);
        self.node.run(place, kind, given, None, receipt, &BudgetCharge::default())
    }
}

impl NodeArguments {
    fn place(&self) -> Result<Place, Failure> {
        let session = super::session::load(&self.session)?;
        let identity = load_identity(&key_path(self.key.clone())?)?;
        let me = session.peer(&identity.public()).ok_or_else(|| {
            Failure::Input(format!("{}: {} is not in the roster", self.session.display(), identity.public()))
        })?;
        Ok(Place { session, identity, me })
    }

    fn writable(&self, paths: &[&Path]) -> Result<(), Failure> {
        paths.iter().try_for_each(|path| output::check(path, self.force))
    }

    /// Runs the node; `out` is `None` for a witness.
    fn run(
        self,
        place: Place,
        kind: BuiltIn,
        given: Given,
        out: Option<PathBuf>,
        receipt: PathBuf,
        payment: &BudgetCharge,
    ) -> Result<(), Failure> {
        let Place { session, identity, me } = place;
        let Given { rows, name, said, strict } = given;
        let secret = derive(&*identity.seed(), "rows", &session.id().0);
        let task = (kind.build)(session.clone(), me, rows.clone(), &secret).map_err(Failure::Input)?;
        let columns = Arc::new(Compared::new(task, &session, me, rows.data.clone(), strict));
        let task: Arc<dyn Task> = columns.clone();
        let key = derive(&*identity.seed(), "pin", &session.id().0);
        let pin = Pin { name, digest: rows.digest(&key) };
        let state = state_folder(self.state.clone(), &key_path(self.key.clone())?, &identity, &session);
        let ctx = Arc::new(Context::new(session.clone(), me, identity, task.plan()));
        let hold_at = self.hold_at.as_deref().map(|text| parse_hold(&ctx, text)).transpose()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mark = mark_file(&key_path(self.key.clone())?, &session);
        let plan = NodeConfig {
            ctx: ctx.clone(),
            task: task.clone(),
            seed: *random()?,
            mark: Some(mark.clone()),
            state,
            listen: self.network.listen(),
            mdns: !self.network.no_mdns,
            network_key: self.network.key()?,
            hold_at,
            stop: stop.clone(),
        };
        let progress = Progress::new(self.json, ctx.plan.len());
        for line in columns::lines(&columns::codes(&rows.data), &ctx.session.data.columns) {
            odd_columns(&progress, &line);
            if strict {
                return Err(Failure::Input(format!("{}: {line} (--strict)", pin.name)));
            }
        }
        if let Some(said) = said {
            progress.tell(&json!({"event": "columns", "message": said}), &said);
        }
        let metrics = self.metrics.map(|address| serve(&ctx, address, &progress)).transpose()?;
        // Before anything is written: an address that is none.
        driver::roster(&ctx.session).map_err(failure)?;
        let held = pin.hold(&plan.state, &mark);
        held.map_err(|error| failure(DriverError::Store(error)))?;
        let ask = || ask::ask(&ctx.session, rows.data.rows(), payment.yes, &progress);
        payment.pay(&ctx, &key_path(self.key.clone())?, &plan.state, &ask)?;
        let prepared = Prepared {
            keyed: plan.network_key.is_some(),
            task,
            kind,
            ctx,
            rows,
            columns,
            out,
            receipt,
            force: self.force,
            progress,
            tell_planes: self.tell_planes,
            metrics,
        };
        let result = prepared.drive(plan, &stop, self.addresses_from_stdin);
        prepared.progress.finish();
        if let (Err(failure), Progress::Json) = (&result, &prepared.progress) {
            prepared.progress.tell(&json!({"event": "error", "message": failure.to_string()}), "");
        }
        result
    }
}

fn parse_metrics(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "must be a port or ADDRESS:PORT, such as 127.0.0.1:9464".to_owned())
}

fn serve(ctx: &Context, address: SocketAddr, progress: &Progress) -> Result<Metrics, Failure> {
    let metrics = Metrics::new(ctx);
    let bound =
        metrics.serve(address).map_err(|error| Failure::Machine(format!("--metrics {address}: {error}")))?;
    progress
        .tell(&json!({"event": "metrics", "address": bound}), &format!("metrics at http://{bound}/metrics"));
    Ok(metrics)
}

/// What tells, beside the key and whatever becomes of the state, how far its owner has come in a session.
fn mark_file(key: &Path, session: &Session) -> PathBuf {
    let mut folder = key.as_os_str().to_owned();
    folder.push(".sessions");
    PathBuf::from(folder).join(session.id().to_string())
}

/// Where an identity's state in a session is kept: under the folder that was asked for, or beside the key.
pub(super) fn state_folder(
    asked: Option<PathBuf>,
    key: &Path,
    identity: &Identity,
    session: &Session,
) -> PathBuf {
    let beside = || key.parent().map_or_else(|| PathBuf::from("state"), |folder| folder.join("state"));
    asked.unwrap_or_else(beside).join(identity.public().to_string()).join(session.id().to_string())
}

impl Prepared {
    fn drive(&self, plan: NodeConfig, stop: &Arc<AtomicBool>, from_stdin: bool) -> Result<(), Failure> {
        let started = clock();
        let state = plan.state.clone();
        let (mut views, mut reached) = (0u64, false);
        let mut finished: Option<Result<Finished, Failure>> = None;
        let mut roles = Roles::new();
        let result = driver::run(plan, &mut |report| {
            if let Some(metrics) = &self.metrics {
                metrics.note(&self.ctx, &report);
            }
            // Once the result is there, peers that leave have theirs too.
            if finished.is_none() || !matches!(report, Report::Disconnected(..)) {
                self.progress.report(&self.ctx, &report);
            }
            self.columns.take_findings().iter().for_each(|line| odd_columns(&self.progress, line));
            match report {
                Report::Started(handle) => {
                    leave_on_signal(stop.clone(), handle.clone());
                    if from_stdin {
                        read_addresses(handle);
                    }
                }
                Report::Node(Event::ViewBegan(..)) => views += 1,
                Report::Node(Event::Joined(_) | Event::Refused(..)) => reached = true,
                Report::Node(Event::Exchange(drawn)) => roles.clone_from(drawn),
                Report::Node(Event::Finished(history)) => {
                    self.progress.history(&self.ctx, history);
                    let saved = self.save(history);
                    finished = Some(saved.map(|outcome| Finished { history: history.clone(), outcome }));
                    if !matches!(finished, Some(Ok(_))) {
                        stop.store(true, Ordering::Release);
                    }
                }
                _ => {}
            }
        });
        // A result that is on disk is not undone by leaving before the others have theirs.
        let over = result.is_ok();
        let result = result.map_err(|error| (error, reached));
        let (usage, finished) = match (result, finished.take()) {
            (_, Some(Err(failure))) => return Err(failure),
            (Ok(usage), Some(Ok(finished))) => (usage, finished),
            (Err((DriverError::Stopped, _)), Some(Ok(finished))) => (Usage::default(), finished),
            (Err((error, reached)), _) => return Err(given::unreached(failure(error), reached, self.keyed)),
            (Ok(_), None) => return Err(Failure::Session("the session ended without a result".into())),
        };
        self.write_receipt(&usage, finished, (views, started), &roles)?;
        if !over {
            // The others may need it: who left early can come back and serve them.
            let text = format!("left early: {} is kept for the others", state.display());
            self.progress.tell(&json!({"event": "state kept", "folder": state}), &text);
            return Ok(());
        }
        Store::finish(&state).map_err(|error| Failure::Machine(error.to_string()))
    }

    /// Writes the result; `None` for a witness, which has none.
    fn save(&self, history: &History) -> Result<Option<Outcome>, Failure> {
        let here = self.ctx.session.timing.linger_ms.div_ceil(1000);
        let Some(out) = &self.out else {
            let text = format!("the others have their labels; here for them for up to {here} s more");
            self.progress.tell(&json!({"event": "finished"}), &text);
            return Ok(None);
        };
        let outcome = self.task.outcome(history, clock() as u64).map_err(Failure::Session)?;
        output::write(out, &outcome.file, self.force)?;
        if self.tell_planes
            && let Some(seed) = xclp::planes(history)
        {
            self.progress.tell(&json!({"event": "planes", "seed": hex::encode(seed)}), "");
        }
        let what = self.kind.result;
        let uncounted = match self.uncounted(history, Some(&outcome)) {
            Some(why) => format!("; NOT COUNTED: {why}"),
            None => String::new(),
        };
        let digest = hex::encode(outcome.digest);
        let more = if outcome.summary.is_empty() { String::new() } else { format!("; {}", outcome.summary) };
        self.progress.tell(
            &json!({"event": "finished", what: out, "digest": digest, "counted": uncounted.is_empty()}),
            &format!(
                "wrote {}: {what} {digest}{more}{uncounted}; here for the others for up to {here} s more",
                out.display()
            ),
        );
        Ok(Some(outcome))
    }

    /// Why this peer's rows are not in the result; `None` where they are, or where it has none to give.
    fn uncounted(&self, history: &History, outcome: Option<&Outcome>) -> Option<&'static str> {
        let member = history.values().last().is_some_and(|value| value.members.contains(&self.ctx.me));
        match outcome {
            _ if !member => Some("it came too late, and its rows are in no part of the result"),
            Some(outcome) if !outcome.counted => {
                Some("it was not drawn, and nothing was learnt from its rows")
            }
            _ => None,
        }
    }

    fn write_receipt(
        &self,
        usage: &Usage,
        finished: Finished,
        (views, started): (u64, f64),
        roles: &Roles,
    ) -> Result<(), Failure> {
        let salt = random()?;
        let session = &self.ctx.session;
        let names = |peers: &[Peer]| peers.iter().map(|&peer| session.name(peer)).collect::<Vec<_>>();
        let Finished { history, outcome } = finished;
        let uncounted = self.uncounted(&history, outcome.as_ref());
        let (result, out) = (self.kind.result, &self.out);
        let quantity = |(quantity, value): (&Quantity, &Decision)| {
            json!({
                "name": quantity.name,
                "view": value.sum.ballot.to_string(),
                "members": names(&value.members),
                "sealed_total": hex::encode(value.total),
            })
        };
        let roles = roles.iter().map(|(role, peers)| ((*role).to_owned(), json!(names(peers))));
        let roles: Map<String, Value> = roles.collect();
        let mut receipt = json!({
            "session": self.ctx.id.to_string(),
            "name": session.name,
            "number": hex::encode(session.run.number),
            "created": session.run.created_text(),
            "series": session.run.series.map(
                |series| json!({"number": series.number, "parent": series.parent.to_string()}),
            ),
            "peer": session.name(self.ctx.me),
            "peer_id": self.ctx.identity.public().to_string(),
            "counted": uncounted.is_none(),
            "quantities": self.ctx.plan.iter().zip(history.values()).map(quantity).collect::<Vec<_>>(),
            "roles": (!roles.is_empty()).then_some(roles),
            "views": views,
            result: outcome.as_ref().map(|made| json!({"file": out, "digest": hex::encode(made.digest)})),
            "data": {
                "rows": self.rows.data.rows(),
                "salt": hex::encode(*salt),
                "digest": hex::encode(self.rows.digest(&salt)),
                "summed": uncounted.is_none(),
                "digest_covers": task::digest_covers(session),
            },
            "stages": stages(&self.ctx, usage),
            "bytes_sent": usage.bytes_sent,
            "bytes_received": usage.bytes_received,
            "started_unix": started,
            "seconds": clock() - started,
        });
        if let (Some(receipt), Some(outcome)) = (receipt.as_object_mut(), outcome) {
            receipt.extend(outcome.details);
        }
        let text = format!("{receipt:#}\n");
        output::write(&self.receipt, text.as_bytes(), self.force)?;
        self.progress.tell(
            &json!({"event": "receipt", "file": self.receipt, "receipt": receipt}),
            &format!("wrote {}", self.receipt.display()),
        );
        if let Some(why) = uncounted {
            self.progress.tell(
                &json!({"event": "not-counted", "reason": why}),
                &format!("this peer was NOT COUNTED: {why}"),
            );
        }
        Ok(())
    }
}

/// What a session came to.
struct Finished {
    history: Arc<History>,
    outcome: Option<Outcome>,
}

/// The task of a session, if this program has it.
fn built_in(session: &Session) -> Result<BuiltIn, Failure> {
    let name = match &session.task {
        TaskSpec::Custom(spec) => &*spec.name,
        task => task.name(),
    };
    task::built_in(session)
        .ok_or_else(|| Failure::Input(format!("task {name} is not built into this program")))
}

/// Seconds and bytes by stage: each side quantity as one, the last split in train, sum and open.
fn stages(ctx: &Context, usage: &Usage) -> Vec<Value> {
    let mut out: Vec<(String, f64, u64)> = Vec::new();
    let sketches = matches!(ctx.session.task, TaskSpec::Sketch(_));
    for (stage, spent) in &usage.stages {
        let name = match stage {
            None => "connect and linger".to_owned(),
            Some((_, Stage::Keys)) => "keys".to_owned(),
            // Of a sketch the last quantity is no more than the others.
            Some((slot, stage)) if *slot as usize + 1 == ctx.plan.len() && !sketches => match stage {
                Stage::Keys | Stage::Compute if matches!(ctx.session.task, TaskSpec::Xclp(_)) => {
                    "labels".to_owned()
                }
                Stage::Keys | Stage::Compute => "train".to_owned(),
                Stage::Sum => "sum".to_owned(),
                Stage::Accept | Stage::Release | Stage::Open => "open".to_owned(),
            },
            Some((slot, _)) => ctx.plan[*slot as usize].name.clone(),
        };
        match out.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, seconds, bytes)) => {
                *seconds += spent.seconds;
                *bytes += spent.bytes;
            }
            None => out.push((name, spent.seconds, spent.bytes)),
        }
    }
    out.into_iter()
        .map(|(name, seconds, bytes)| json!({"name": name, "seconds": seconds, "bytes": bytes}))
        .collect()
}

pub(super) fn failure(error: DriverError) -> Failure {
    let text = error.to_string();
    match error {
        DriverError::Address(..) | DriverError::Ended(Ending::Own(_)) => Failure::Input(text),
        DriverError::Store(error) if error.is_input() => Failure::Input(text),
        DriverError::Store(_) | DriverError::Net(_) | DriverError::Restore(_) => Failure::Machine(text),
        DriverError::Ended(_) => Failure::Session(text),
        DriverError::Stopped => Failure::Interrupted(text),
    }
}

pub(super) fn parse_hold(ctx: &Context, text: &str) -> Result<(u32, Stage), Failure> {
    const STAGES: [Stage; 6] =
        [Stage::Keys, Stage::Compute, Stage::Sum, Stage::Accept, Stage::Release, Stage::Open];
    let wrong = || Failure::Input(format!("--hold-at {text}: expected QUANTITY.STAGE"));
    let (quantity, stage) = text.split_once('.').ok_or_else(wrong)?;
    let slot = ctx.plan.iter().position(|known| known.name == quantity).ok_or_else(wrong)?;
    let stage = STAGES.into_iter().find(|known| stage_name(*known) == stage).ok_or_else(wrong)?;
    Ok((u32::try_from(slot).map_err(|_| wrong())?, stage))
}

#[allow(clippy::disallowed_methods, reason = "receipts say when")]
fn clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The first Ctrl-C or SIGTERM leaves cleanly, the second at once.
pub(super) fn leave_on_signal(stop: Arc<AtomicBool>, handle: Handle) {
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            #[cfg(unix)]
            let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            else {
                return;
            };
            loop {
                #[cfg(unix)]
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
                #[cfg(not(unix))]
                let _ = tokio::signal::ctrl_c().await;
                if stop.swap(true, Ordering::AcqRel) {
                    std::process::exit(130);
                }
                handle.wake();
            }
        });
    });
}

#[derive(Deserialize)]
struct Known {
    peer: String,
    address: Multiaddr,
}

/// Whoever starts several nodes tells each where the others listen.
pub(super) fn read_addresses(handle: Handle) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let known = serde_json::from_str::<Known>(&line).ok();
            if let Some((peer, address)) =
                known.and_then(|known| Some((known.peer.parse().ok()?, known.address)))
            {
                handle.add_address(peer, address);
            }
        }
    });
}
