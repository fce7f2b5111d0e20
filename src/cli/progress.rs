//! What `join` shows while it runs: a progress bar on a terminal, plain lines otherwise, JSON lines for
//! machines.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::net::driver::Report;
use crate::net::metrics::stage_name;
use crate::node::Event;
use crate::protocol::context::Context;
use crate::protocol::view::{Reason, Stage};
use crate::session::Peer;
use crate::task::History;

/// Stages of a slot, for the bar.
const STAGES: [Stage; 5] = [Stage::Compute, Stage::Sum, Stage::Accept, Stage::Release, Stage::Open];

/// Where progress goes.
#[derive(Debug)]
pub(super) enum Progress {
    Json,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    /// JSON if asked for, else a bar on a terminal, else lines.
    pub(super) fn new(json: bool, slots: usize) -> Self {
        if json {
            return Self::Json;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::new((slots * STAGES.len()) as u64);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        bar.set_message("waiting for peers");
        Self::Bar(bar)
    }

    /// One thing that happened: its JSON line, to which the time is added in seconds since 1970, and what a
    /// person reads.
    pub(super) fn tell(&self, value: &Value, text: &str) {
        match self {
            Self::Json => {
                let mut value = value.clone();
                value["time"] = json!(now());
                let mut out = io::stdout().lock();
                // Whoever read the lines may have gone; the session goes on.
                let _ = writeln!(out, "{value}").and_then(|()| out.flush());
            }
            Self::Lines => eprintln!("{text}"),
            Self::Bar(bar) => bar.println(text),
        }
    }

    /// Leaves the terminal clean.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }

    /// Shows a report of the driver.
    pub(super) fn report(&self, ctx: &Context, report: &Report<'_>) {
        let name = |peer: &Peer| ctx.session.name(*peer).to_owned();
        match report {
            Report::Started(_) => {
                let session = &ctx.session;
                let others: Vec<_> = session.peers().filter(|peer| *peer != ctx.me).collect();
                let names = match others.len() {
                    count @ 9.. => format!("{count} others"),
                    _ => others.iter().map(name).collect::<Vec<_>>().join(", "),
                };
                let (needed, seconds) = (session.min_peers, session.timing.gather_ms.div_ceil(1000));
                self.tell(
                    &json!({"event": "waiting", "peer": name(&ctx.me), "needed": needed, "seconds": seconds}),
                    &format!(
                        "{} waits for {names}: up to {seconds} s for all, then {needed} are enough",
                        name(&ctx.me)
                    ),
                );
            }
            Report::Listening(address) => {
                self.tell(&json!({"event": "listening", "address": address}), &format!("listening on {address}"));
            }
            Report::ListenFailed(address, why) => self.tell(
                &json!({"event": "listen-failed", "address": address, "reason": why}),
                &format!("no longer listening on {address}: {why}"),
            ),
            Report::Twin(address) => self.tell(
                &json!({"event": "twin", "address": address}),
                &format!("another node uses this identity at {address}: end one of them, or make it a key of its own"),
            ),
            Report::Stranger(peer, address) => self.tell(
                &json!({"event": "stranger", "peer": peer.to_string(), "address": address}),
                &format!("refused {peer} at {address}: not in the roster"),
            ),
            Report::Disconnected(peer, why) => self.tell(
                &json!({"event": "disconnected", "peer": name(peer), "reason": why}),
                &format!("lost {}: {why}", name(peer)),
            ),
            Report::Blamed(peer, fault) => self.tell(
                &json!({"event": "blamed", "peer": name(peer), "fault": fault}),
                &format!("{} broke a rule: {fault}", name(peer)),
            ),
            Report::Held(slot, stage) => self.tell(
                &json!({"event": "held", "slot": ctx.plan[*slot as usize].name, "stage": stage_name(*stage)}),
                &format!("held at {}.{}", ctx.plan[*slot as usize].name, stage_name(*stage)),
            ),
            Report::Node(event) => self.node(ctx, event),
            Report::Sent(..) | Report::Received(..) => {}
        }
    }

    fn node(&self, ctx: &Context, event: &Event) {
        let name = |peer: &Peer| ctx.session.name(*peer).to_owned();
        let names = |peers: &[Peer]| peers.iter().map(name).collect::<Vec<_>>();
        match event {
            Event::Joined(peer) => {
                self.tell(
                    &json!({"event": "joined", "peer": name(peer)}),
                    &format!("connected to {}", name(peer)),
                );
            }
            Event::Refused(peer, fields) => self.tell(
                &json!({"event": "refused", "peer": name(peer), "fields": fields}),
                &format!("{} has another session file: {} differs", name(peer), fields.join(", ")),
            ),
            Event::StateLost(peer) => {
                let by = peer.as_ref().map(name);
                let whose = by.as_deref().unwrap_or("the mark beside the key");
                self.tell(
                    &json!({"event": "state-lost", "shown_by": by}),
                    &format!(
                        "the state of this session is lost or older than {whose} knows: this peer does not vote in it"
                    ),
                );
            }
            Event::ViewBegan(ballot, members) => self.tell(
                &json!({"event": "view", "view": ballot.to_string(), "members": names(members)}),
                &format!("view {ballot} begins with {}", names(members).join(", ")),
            ),
            Event::ViewFailed(ballot, reason, suspect) => {
                let suspect = suspect.as_ref().map(name);
                let text = format!("view {ballot} ended: {}", why(*reason, suspect.as_deref()));
                self.tell(
                    &json!({"event": "view-failed", "view": ballot.to_string(), "reason": reason, "suspect": suspect}),
                    &text,
                );
            }
            Event::Stage(slot, stage) => self.stage(ctx, *slot, *stage),
            Event::Opened(value) => {
                let quantity = &ctx.plan[value.sum.slot as usize].name;
                let members = names(&value.members);
                self.tell(
                    &json!({"event": "opened", "quantity": quantity, "members": members}),
                    &format!("{quantity}: opened over {}", members.join(", ")),
                );
            }
            // The connection's end is reported with its reason; the rest by `join`.
            Event::Exchange(roles) => {
                let names = |peers: &[crate::session::Peer]| {
                    peers.iter().map(|&peer| ctx.session.name(peer).to_owned()).collect::<Vec<_>>()
                };
                let mut event = json!({"event": "roles"});
                let mut text = Vec::new();
                for (role, peers) in roles {
                    text.push(format!("{role}: {}", names(peers).join(", ")));
                    event[*role] = json!(names(peers));
                }
                self.tell(&event, &text.join("; "));
            }
            Event::Lost(_)
            | Event::NeedsConnection(_)
            | Event::Finished(_)
            | Event::Done
            | Event::Ended(_) => {}
        }
    }

    /// Tells of row sums that this peer has no block of.
    pub(super) fn history(&self, ctx: &Context, history: &History) {
        for (&slot, part) in history.parts() {
            if let Err(missing) = part {
                let quantity = &ctx.plan[slot as usize].name;
                self.tell(
                    &json!({"event": "no-rows", "quantity": quantity, "reason": missing.to_string()}),
                    &format!("{quantity}: no result for this peer: {missing}"),
                );
            }
        }
    }

    fn stage(&self, ctx: &Context, slot: u32, stage: Stage) {
        let quantity = &ctx.plan[slot as usize].name;
        match self {
            Self::Json => {
                self.tell(&json!({"event": "stage", "slot": quantity, "stage": stage_name(stage)}), "");
            }
            Self::Lines => {}
            Self::Bar(bar) => {
                let done = STAGES.iter().position(|other| *other == stage).unwrap_or(0);
                bar.set_position((slot as usize * STAGES.len() + done) as u64);
                bar.set_message(match stage {
                    Stage::Keys => "exchanging keys".to_owned(),
                    Stage::Compute => format!("{quantity}: computing"),
                    Stage::Sum => format!("{quantity}: summing"),
                    Stage::Accept => format!("{quantity}: the council decides"),
                    Stage::Release | Stage::Open => format!("{quantity}: opening"),
                });
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "events say when")]
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn why(reason: Reason, suspect: Option<&str>) -> String {
    let peer = suspect.unwrap_or("a member");
    match reason {
        Reason::Lost => format!("the connection to {peer} was lost"),
        Reason::Stalled => format!("nothing came from {peer}"),
        Reason::Fault => format!("{peer} broke a rule"),
        Reason::Left => format!("{peer} left"),
        Reason::Superseded => "another view takes its place".into(),
        Reason::TooFew => "too few members for a new sum".into(),
        Reason::Enlarged => "peers wait to join: a larger view begins".into(),
        Reason::Disagreement => "its members disagree on what they hold".into(),
        Reason::Omitted => format!("it left out {peer}, to whom a member is connected"),
    }
}
