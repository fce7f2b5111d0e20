//! The log of a node's driver (`tracing`, target `flyswarm`): it has the reports to the user, and the name
//! and size of each message. The content of messages is never logged, because parts of it are secret.

use super::driver::Report;
use super::metrics::stage_name;
use crate::node::Event;
use crate::protocol::context::Context;
use crate::protocol::message::Message;
use crate::session::Peer;

pub(super) fn note(ctx: &Context, report: &Report<'_>) {
    let name = |peer: &Peer| ctx.session.name(*peer);
    let aggregate = |slot: u32| ctx.plan.get(slot as usize).map_or("", |aggregate| aggregate.name.as_str());
    match report {
        Report::Started(_) => tracing::info!(session = %ctx.id, peer = name(&ctx.me), "started"),
        Report::Listening(address) => tracing::info!(%address, "listening"),
        Report::ListenFailed(address, reason) => tracing::warn!(%address, reason, "no longer listening"),
        Report::Twin(address) => tracing::error!(%address, "another node uses this identity"),
        Report::Stranger(peer, address) => tracing::warn!(%peer, %address, "refused: not in the roster"),
        Report::Disconnected(peer, reason) => tracing::info!(peer = name(peer), reason, "disconnected"),
        Report::Blamed(peer, fault) => tracing::warn!(peer = name(peer), %fault, "blamed"),
        Report::Held(slot, stage) => {
            tracing::info!(aggregate = aggregate(*slot), stage = stage_name(*stage), "held")
        }
        Report::Deviated(peer) => tracing::warn!(peer = name(peer), "deviates"),
        Report::Now(_) => {}
        Report::Sent(peer, message, bytes) => {
            tracing::debug!(peer = name(peer), message = kind(message), bytes, "sent");
        }
        Report::Received(peer, message, bytes) => {
            tracing::debug!(peer = name(peer), message = kind(message), bytes, "received");
        }
        Report::Node(event) => match event {
            Event::Joined(peer) => tracing::info!(peer = name(peer), "joined"),
            Event::Lost(peer) => tracing::info!(peer = name(peer), "lost"),
            Event::Refused(peer, fields) => {
                tracing::warn!(peer = name(peer), ?fields, "refused: another session file")
            }
            Event::StateLost(peer) => {
                tracing::warn!(shown_by = peer.as_ref().map(name), "state lost: this peer does not vote");
            }
            Event::ViewBegan(ballot, tree) => {
                tracing::info!(view = %ballot, members = tree.members().len(), "view began")
            }
            Event::ViewFailed(ballot, author, reason, suspect) => {
                let (author, suspect) = (name(author), suspect.as_ref().map(name));
                tracing::warn!(view = %ballot, author, ?reason, suspect, "view failed");
            }
            Event::Stage(slot, stage) => {
                tracing::info!(aggregate = aggregate(*slot), stage = stage_name(*stage), "stage");
            }
            Event::Opened(value) => {
                tracing::info!(
                    aggregate = aggregate(value.sum.slot),
                    members = value.members.len(),
                    "opened"
                );
            }
            Event::Figures(slot, figures) => {
                tracing::info!(aggregate = aggregate(*slot), ?figures, "figures");
            }
            Event::Named(peers, _) => {
                tracing::warn!(peers = ?peers.iter().map(name).collect::<Vec<_>>(), "one of them deviates");
            }
            Event::Exchange(_) => tracing::info!("an exchange begins"),
            Event::NeedsConnection(peer) => tracing::debug!(peer = name(peer), "dials at once"),
            Event::Finished(..) => tracing::info!("finished"),
            Event::Done => tracing::info!("done"),
            Event::Ended(ending) => tracing::error!(%ending, "ended without a result"),
        },
    }
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::Hello { .. } => "hello",
        Message::Fields(_) => "fields",
        Message::Status { .. } => "status",
        Message::Prepare(_) => "prepare",
        Message::Promise(..) => "promise",
        Message::Refuse(..) => "refuse",
        Message::Begin(..) => "begin",
        Message::Failed { .. } => "failed",
        Message::View(_) => "view",
        Message::Transfer(_) => "transfer",
        Message::Exchange { .. } => "exchange",
    }
}
