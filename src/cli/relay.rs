//! `flyswarm relay`: forwards the connections of peers that cannot dial each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use libp2p::{Multiaddr, PeerId};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::oneshot;

use super::Failure;
use super::dashboard::parse_address;
use super::id::key_path;
use super::network::{NetworkArguments, everywhere};
use super::progress::Progress;
use crate::crypto::identity::Identity;
use crate::http::{self, Method, Server, StatusCode};
use crate::net::driver::peer_id;
use crate::net::relay::{self, Event, Limits};

/// Default port of a relay.
const PORT: u16 = 4001;

/// Forward connections between peers that cannot dial each other, for example because of firewalls
///
/// The relay serves only the peers of the given session files. It cannot read the data that it forwards, but
/// it learns which peers communicate, when and how much. It prints its addresses for the field `relays` of
/// session files. It runs until Ctrl-C or SIGTERM.
#[derive(Debug, Args)]
pub(super) struct Relay {
    /// Session file whose peers can use this relay; repeatable. You may add the field `relays` to the session
    /// file later
    #[arg(long = "session", value_name = "FILE", required = true)]
    sessions: Vec<PathBuf>,
    /// Key file of the relay, not of a peer [default: the key of `flyswarm id`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Address to listen on; repeatable [default: TCP port 4001 of every interface]
    #[arg(long, value_name = "MULTIADDR")]
    listen: Vec<Multiaddr>,
    /// File of the network key. The relay must have the same network key as its peers
    #[arg(long, value_name = "FILE")]
    network_key: Option<PathBuf>,
    /// Maximum number of peers that can be reached through this relay at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    reservations: usize,
    /// Maximum number of forwarded connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    circuits: usize,
    /// Maximum bytes of one forwarded connection, in both directions together; 0 for no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    circuit_bytes: u64,
    /// Maximum duration of one forwarded connection in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 7 * 24 * 3600,
          value_parser = clap::value_parser!(u32).range(1..))]
    circuit_seconds: u32,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics; the default ADDRESS is 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,
    /// Print each event as a JSON object on its own line to standard output
    #[arg(long)]
    json: bool,
}

impl Relay {
    pub(super) fn run(self) -> Result<(), Failure> {
        let identity = Identity::load(&key_path(self.key)?)?;
        let own = peer_id(&identity.public());
        let mut names = BTreeMap::new();
        for file in &self.sessions {
            let session = super::session::load(file)?;
            names.extend(session.roster.iter().map(|entry| (peer_id(&entry.key), entry.name.clone())));
        }
        let peers: BTreeSet<PeerId> = names.keys().copied().collect();
        if peers.contains(&own) {
            let text = format!("{own} is a peer of these sessions: a relay needs another identity (--key)");
            return Err(Failure::Input(text));
        }
        let network = self.network_key.as_deref().map(NetworkArguments::read).transpose()?;
        let metrics = Metrics::default();
        let server = self.metrics.map(|address| metrics.serve(address)).transpose()?;
        let progress = Progress::lines(self.json);
        let limits = Limits {
            reservations: self.reservations,
            circuits: self.circuits,
            bytes: self.circuit_bytes,
            duration: Duration::from_secs(self.circuit_seconds.into()),
        };
        let seed = identity.seed();
        let listen = match self.listen {
            none if none.is_empty() => everywhere(PORT),
            chosen => chosen,
        };
        let config = relay::Config { seed, listen, peers, network_key: network, limits };
        let stop = stopped_by_signals();
        if let Some(server) = &server {
            let address = server.address();
            progress.tell(&json!({"event": "metrics", "address": address}), &format!("metrics at {address}"));
        }
        let name = |peer: &PeerId| names.get(peer).cloned().unwrap_or_else(|| peer.to_string());
        let result = relay::run(config, stop, &mut |event| {
            metrics.note(&event);
            let (value, text) = match &event {
                Event::Listening(address) => {
                    (json!({"event": "listening", "address": address}), format!("relays = [\"{address}\"]"))
                }
                Event::Reserved(peer) => (
                    json!({"event": "reserved", "peer": name(peer)}),
                    format!("{} has a reservation", name(peer)),
                ),
                Event::Left(peer) => (
                    json!({"event": "left", "peer": name(peer)}),
                    format!("{} has no reservation", name(peer)),
                ),
                Event::Opened(from, to) => (
                    json!({"event": "opened", "from": name(from), "to": name(to)}),
                    format!("{} is connected to {}", name(from), name(to)),
                ),
                Event::Closed(from, to) => (
                    json!({"event": "closed", "from": name(from), "to": name(to)}),
                    format!("{} is no longer connected to {}", name(from), name(to)),
                ),
                Event::Denied(peer, why) => (
                    json!({"event": "denied", "peer": name(peer), "reason": why}),
                    format!("{} was refused: {why}", name(peer)),
                ),
            };
            progress.tell(&value, &text);
        });
        result.map_err(|error| {
            Failure::from(crate::peer::Error::from(crate::net::driver::DriverError::Net(error)))
        })
    }
}

/// Returns a receiver that fires at the first Ctrl-C or SIGTERM.
fn stopped_by_signals() -> oneshot::Receiver<()> {
    let (stop, stopped) = oneshot::channel();
    std::thread::spawn(move || {
        crate::peer::wait_for_signal();
        // An error is ignored, because the relay may already have ended.
        let _ = stop.send(());
    });
    stopped
}

/// Metrics for Prometheus.
#[derive(Clone, Debug, Default)]
struct Metrics {
    places: Gauge,
    circuits: Gauge,
    opened: Counter,
    denied: Counter,
}

impl Metrics {
    fn note(&self, event: &Event) {
        match event {
            Event::Listening(_) => {}
            Event::Reserved(_) => drop(self.places.inc()),
            Event::Left(_) => drop(self.places.dec()),
            Event::Opened(..) => {
                self.circuits.inc();
                self.opened.inc();
            }
            Event::Closed(..) => drop(self.circuits.dec()),
            Event::Denied(..) => drop(self.denied.inc()),
        }
    }

    fn serve(&self, address: SocketAddr) -> Result<Server, Failure> {
        let mut registry = Registry::with_prefix("flyswarm_relay");
        registry.register("places", "Peers that others reach through this relay", self.places.clone());
        registry.register("circuits", "Connections that are forwarded now", self.circuits.clone());
        registry.register("circuits_opened", "Connections that were forwarded in total", self.opened.clone());
        registry.register("denied", "Requests that were refused", self.denied.clone());
        Server::start("flyswarm-metrics", address, move |request| {
            match (request.method(), request.uri().path()) {
                (&Method::GET, "/metrics") => {
                    let mut text = String::new();
                    match encode(&mut text, &registry) {
                        Ok(()) => http::text(StatusCode::OK, http::OPENMETRICS, text),
                        Err(_) => http::text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "no numbers\n"),
                    }
                }
                (&Method::GET, _) => {
                    http::text(StatusCode::NOT_FOUND, "text/plain", "the numbers are at /metrics\n")
                }
                _ => http::text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n"),
            }
        })
        .map_err(|error| Failure::Environment(format!("--metrics {address}: {error}")))
    }
}
