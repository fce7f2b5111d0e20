//! The page of a simulation. It shows the nodes side by side, in virtual time.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::dashboard::Live;
use crate::cli::{Failure, say};
use crate::net::driver::Report;
use crate::node::Event;
use crate::peer::{self, Watched};
use crate::protocol::Time;
use crate::protocol::context::Context;
use crate::session::Peer;
use crate::sim::scenario::File;
use crate::sim::swarm::Watcher;

/// Maximum number of nodes on a page.
const SHOWN: usize = 64;
/// Virtual time between two status updates of a node.
const LOOK_US: u64 = 200_000;

/// The page for all runs of a scenario file.
pub(super) struct Page {
    live: Live,
}

impl Page {
    /// Serves the page, and prints its address.
    pub(super) fn open(address: SocketAddr, file: &File) -> Result<Self, Failure> {
        let names: Vec<_> = file.runs.iter().map(|(name, _)| &**name).collect();
        let about = json!({
            "kind": "flyswarm simulate", "title": file.name, "about": file.about, "nodes": Vec::<String>::new(),
            "virtual": true, "start": names.join(" "),
        });
        let live = Live::open(address, &about)?;
        // The address must be visible at once. It goes to standard error, because standard output is for the
        // result.
        say(&format!("page at {}", live.url()));
        Ok(Self { live })
    }

    /// Starts to show a run on the page.
    pub(super) fn watcher(&self, name: &str, ctx: &Arc<Context>) -> Watcher {
        let peers: Vec<Peer> = ctx.session.peers().take(SHOWN).collect();
        let names: Vec<_> = peers.iter().map(|peer| ctx.session.name(*peer).to_owned()).collect();
        let all = ctx.session.roster.len();
        let text = match all {
            few if few <= SHOWN => format!("run {name} begins"),
            many => format!("run {name} begins; the first {SHOWN} of {many} nodes are shown"),
        };
        let begins = json!({"event": "run", "nodes": names, "time": 0.0});
        self.live.feed().event(None, &begins, &text);
        let mut statuses: Vec<_> =
            peers.iter().map(|peer| (Watched::of(ctx, *peer).0, None::<Time>)).collect();
        let (live, ctx) = (self.live.clone(), ctx.clone());
        Watcher(Box::new(move |now, peer, event| {
            let Some((watched, last)) = statuses.get_mut(peer.index()) else { return };
            watched.event(&ctx, event);
            let ended = matches!(event, Event::Done | Event::Ended(_));
            if ended || last.is_none_or(|last| now.0 >= last.0 + LOOK_US) {
                *last = Some(now);
                live.feed().status(peer.index(), &json!(watched.status()));
            }
            if let Some((mut value, text)) = told(&ctx, event) {
                value["time"] = json!(now.0 as f64 / 1e6);
                live.feed().event(Some(peer.index()), &value, &text);
            }
        }))
    }

    /// Shows the report of all runs.
    pub(super) fn report(&self, html: String) {
        self.live.report(html);
        self.live.feed().event(None, &json!({"event": "report", "report": true, "time": 0.0}), "");
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.live.finish();
    }
}

/// Returns an event for the page, and its text for people.
fn told(ctx: &Context, event: &Event) -> Option<(Value, String)> {
    let name = |peer: &Peer| ctx.session.name(*peer).to_owned();
    Some(match event {
        Event::Lost(peer) => {
            let text = format!("lost {}", name(peer));
            (json!({"event": "disconnected", "peer": name(peer), "reason": "the connection ended"}), text)
        }
        Event::Finished(_) => (json!({"event": "finished"}), "has its result".to_owned()),
        Event::Done => (json!({"event": "ended", "well": true, "text": "has ended"}), "has ended".to_owned()),
        Event::Ended(ending) => {
            let text = ending.to_string();
            (json!({"event": "ended", "well": false, "text": text}), text)
        }
        event => {
            let event = peer::Event::of(ctx, &Report::Node(event))?;
            (json!(event), event.to_string())
        }
    })
}
