//! Metrics for Prometheus: counters of a running node at `http://ADDRESS/metrics`. Every client that can
//! connect to this address can read them.
//!
//! The metrics contain names from the session file, stages, numbers of bytes and counts of faults, as the
//! node's own lines do. They contain no key and no part of a sum.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::driver::Report;
use crate::http::{self, Method, Server, StatusCode};
use crate::node::Event;
use crate::protocol::all_reduce::{self, CHUNK, Direction};
use crate::protocol::context::Context;
use crate::protocol::message::Message;
use crate::protocol::view::{self, Stage};
use crate::session::Peer;

type Labels = Vec<(&'static str, String)>;

/// The metrics of one node. Updating them is cheap, even if no client reads them.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Arc<Mutex<Registry>>,
    connected: Family<Labels, Gauge>,
    stage: Family<Labels, Gauge>,
    bytes: Family<Labels, Counter>,
    sum: Family<Labels, Gauge>,
    views: Counter,
    views_failed: Family<Labels, Counter>,
    faults: Family<Labels, Counter>,
    strangers: Counter,
    finished: Gauge,
    /// Aggregate and stage for which bytes are counted now.
    now: Mutex<(String, String)>,
}

impl Metrics {
    /// Makes metrics at zero, with a line for every peer and aggregate of the session.
    #[must_use]
    pub(crate) fn new(ctx: &Context) -> Self {
        let metrics = Self {
            registry: Arc::default(),
            connected: Family::default(),
            stage: Family::default(),
            bytes: Family::default(),
            sum: Family::default(),
            views: Counter::default(),
            views_failed: Family::default(),
            faults: Family::default(),
            strangers: Counter::default(),
            finished: Gauge::default(),
            now: Mutex::new(("none".into(), "connect".into())),
        };
        let mut registry = Registry::with_prefix("flyswarm");
        registry.register(
            "connected",
            "Peers that are connected and have the same session",
            metrics.connected.clone(),
        );
        registry.register("stage", "The stage that the node is in has the value 1", metrics.stage.clone());
        registry.register("bytes", "Bytes of messages by peer, direction and stage", metrics.bytes.clone());
        registry.register(
            "sum_bytes",
            "How far the sum of an aggregate is, up the tree and down, in bytes",
            metrics.sum.clone(),
        );
        let sizes = Family::<Labels, Gauge>::default();
        registry.register("aggregate_bytes", "Size of an aggregate in bytes", sizes.clone());
        registry.register("views", "Views begun", metrics.views.clone());
        registry.register("views_failed", "Views that failed, by reason", metrics.views_failed.clone());
        registry.register("faults", "Rules broken, by peer", metrics.faults.clone());
        registry.register(
            "strangers",
            "Connections refused because the identity is not in the roster",
            metrics.strangers.clone(),
        );
        registry.register("finished", "1 if the result is complete", metrics.finished.clone());
        for peer in ctx.session.peers().filter(|peer| *peer != ctx.me) {
            let labels = vec![("peer", ctx.session.name(peer).to_owned())];
            metrics.connected.get_or_create(&labels).set(0);
            drop(metrics.faults.get_or_create(&labels));
        }
        for aggregate in &ctx.plan {
            let size = i64::try_from(aggregate.len()).unwrap_or(i64::MAX);
            sizes.get_or_create(&vec![("aggregate", aggregate.name.clone())]).set(size);
        }
        metrics.enter(("none".into(), "connect".into()));
        *metrics.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }

    /// Counts a report of the driver.
    pub(crate) fn note(&self, ctx: &Context, report: &Report<'_>) {
        let peer = |peer: Peer| vec![("peer", ctx.session.name(peer).to_owned())];
        match report {
            Report::Stranger(..) => drop(self.strangers.inc()),
            Report::Blamed(who, _) => drop(self.faults.get_or_create(&peer(*who)).inc()),
            Report::Sent(to, message, bytes) => self.moved(ctx, *to, "sent", message, *bytes),
            Report::Received(from, message, bytes) => self.moved(ctx, *from, "received", message, *bytes),
            Report::Node(event) => match event {
                Event::Joined(who) => drop(self.connected.get_or_create(&peer(*who)).set(1)),
                Event::Lost(who) => drop(self.connected.get_or_create(&peer(*who)).set(0)),
                Event::ViewBegan(..) => drop(self.views.inc()),
                Event::ViewFailed(_, _, reason, _) => {
                    let labels = vec![("reason", format!("{reason:?}").to_lowercase())];
                    self.views_failed.get_or_create(&labels).inc();
                }
                Event::Stage(slot, stage) => {
                    if let Some(aggregate) = ctx.plan.get(*slot as usize) {
                        self.enter((aggregate.name.clone(), stage_name(*stage).to_owned()));
                    }
                }
                Event::Finished(..) => {
                    self.finished.set(1);
                    self.enter(("none".into(), "linger".into()));
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn enter(&self, (aggregate, stage): (String, String)) {
        self.stage.clear();
        self.stage.get_or_create(&vec![("aggregate", aggregate.clone()), ("stage", stage.clone())]).set(1);
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (aggregate, stage);
    }

    fn moved(&self, ctx: &Context, peer: Peer, direction: &str, message: &Message, bytes: u64) {
        let (aggregate, stage) = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let labels = vec![
            ("direction", direction.to_owned()),
            ("peer", ctx.session.name(peer).to_owned()),
            ("aggregate", aggregate),
            ("stage", stage),
        ];
        self.bytes.get_or_create(&labels).inc_by(bytes);
        if let Message::View(view::Message::Reduce(all_reduce::Message::Chunk {
            sum,
            direction,
            index,
            data,
        })) = message
            && let Some(aggregate) = ctx.plan.get(sum.slot as usize)
        {
            let way = match direction {
                Direction::Up => "up",
                Direction::Down => "down",
            };
            let labels = vec![("aggregate", aggregate.name.clone()), ("way", way.to_owned())];
            let done =
                (*index as usize).saturating_mul(CHUNK).saturating_add(data.len()).min(aggregate.len());
            // If there are several children, the most advanced one is shown. If a sum starts again, it starts
            // at its first chunk.
            let gauge = self.sum.get_or_create(&labels);
            let done = i64::try_from(done).unwrap_or(i64::MAX);
            if *index == 0 || gauge.get() < done {
                gauge.set(done);
            }
        }
    }

    /// Starts to serve the metrics at `address`.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub(crate) fn serve(&self, address: SocketAddr) -> io::Result<Server> {
        let registry = Arc::clone(&self.registry);
        Server::start("flyswarm-metrics", address, move |request| {
            match (request.method(), request.uri().path()) {
                (&Method::GET, "/metrics") => http::text(StatusCode::OK, http::OPENMETRICS, text(&registry)),
                (&Method::GET, _) => {
                    http::text(StatusCode::NOT_FOUND, "text/plain", "the numbers are at /metrics\n")
                }
                _ => http::text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n"),
            }
        })
    }
}

/// Returns the name that the output of `join` uses for a stage.
#[must_use]
pub(crate) fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Keys => "keys",
        Stage::Compute => "compute",
        Stage::Sum => "sum",
        Stage::Accept => "accept",
        Stage::Release => "release",
        Stage::Open => "open",
    }
}

fn text(registry: &Mutex<Registry>) -> String {
    let mut text = String::new();
    let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    encode(&mut text, &registry).unwrap_or_else(|_| unreachable!("BUG: a string takes what is written"));
    text
}
