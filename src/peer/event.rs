//! Events of a peer, for people and programs. They have names of peers instead of indices.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use libp2p::Multiaddr;
use serde::Serialize;

use super::own_rows::OwnRows;
use super::receipt::Receipt;
use crate::net::driver::Report;
use crate::net::metrics::stage_name;
use crate::node;
use crate::protocol::Fault;
use crate::protocol::context::Context;
use crate::protocol::view::{Reason, Stage};
use crate::session;

/// An event with its time.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    /// Time in seconds since 1970.
    pub time: f64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// An event of a peer. In JSON, the field `event` has the name of the variant in kebab case. As text, an
/// event is one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// The node runs and waits for others.
    Waiting {
        /// Name of this peer.
        peer: String,
        /// All other peers of the roster.
        others: Vec<String>,
        /// Number of peers that must be connected to begin after `seconds`.
        needed: u16,
        /// Time for which the node waits for all peers, in seconds.
        seconds: u64,
    },
    /// The node listens at an address.
    Listening {
        /// Address.
        address: Multiaddr,
    },
    /// The node no longer listens at an address.
    ListenFailed {
        /// Address.
        address: Multiaddr,
        /// Error of the system.
        reason: String,
    },
    /// Metrics are served at an address.
    Metrics {
        /// Address.
        address: std::net::SocketAddr,
    },
    /// Another node uses this peer's identity.
    Twin {
        /// Address of that node.
        address: Multiaddr,
    },
    /// A node outside the roster was refused.
    Stranger {
        /// Peer id of that node.
        peer: String,
        /// Address of that node.
        address: Multiaddr,
    },
    /// A peer is connected and has the same session file.
    Joined {
        /// Name of the peer.
        peer: String,
    },
    /// The last connection to a peer ended.
    Disconnected {
        /// Name of the peer.
        peer: String,
        /// Reason of the end.
        reason: String,
    },
    /// A peer has another session file.
    Refused {
        /// Name of the peer.
        peer: String,
        /// Fields that differ.
        fields: Vec<String>,
    },
    /// A peer broke a rule of the protocol. It is ignored from now on.
    Blamed {
        /// Name of the peer.
        peer: String,
        /// Rule that it broke.
        fault: Fault,
    },
    /// Signed statements of computing members show that one of these peers deviates.
    Named {
        /// Names of one or two peers.
        peers: Vec<String>,
        /// The statements, in hexadecimal digits.
        evidence: String,
    },
    /// This peer has lost its stored state of the session. It takes part, but does not vote.
    StateLost {
        /// Peer that has shown the loss, or `None` if the mark next to the key has shown it.
        shown_by: Option<String>,
    },
    /// A view began.
    View {
        /// Ballot of the view.
        view: String,
        /// Members of the view.
        members: Vec<String>,
    },
    /// A view ended early.
    ViewFailed {
        /// Ballot of the view.
        view: String,
        /// Member that ended it.
        author: String,
        /// Reason that this member gives.
        reason: Reason,
        /// Another member that the author suspects, if any. One of the two is at fault, and it is not known
        /// which one.
        suspect: Option<String>,
    },
    /// A stage of a slot began.
    Stage {
        /// Aggregate that is summed in the slot.
        slot: String,
        /// Number of the slot, from 0.
        number: u32,
        /// Number of slots of the session.
        slots: u32,
        /// Stage that began.
        stage: Stage,
    },
    /// An exchange began.
    Roles {
        /// Peers by role.
        #[serde(flatten)]
        roles: BTreeMap<String, Vec<String>>,
    },
    /// An aggregate was opened.
    Opened {
        /// Name of the aggregate.
        aggregate: String,
        /// Number of the slot, from 0.
        number: u32,
        /// Peers whose vectors it sums.
        members: Vec<String>,
    },
    /// Progress of the task when an aggregate was opened, such as the loss of a round.
    Figures {
        /// Name of the aggregate.
        aggregate: String,
        /// Number of the slot, from 0.
        number: u32,
        /// Numbers by name.
        figures: serde_json::Map<String, serde_json::Value>,
    },
    /// The result is available. If the caller saves results, it has been saved.
    Finished {
        /// Name of the result, such as "model", or `None` for a peer without rows, which has no result.
        result: Option<String>,
        /// Digest of the result, in hexadecimal digits.
        digest: Option<String>,
        /// Opened sums that include this peer's rows, or `None` for a peer without rows.
        own_rows: Option<OwnRows>,
        /// One line about the result, which may be empty.
        summary: String,
        /// Maximum time for which the node continues to serve the others, in seconds.
        lingers: u64,
    },
    /// A warning for the user of the result. No other peer sees it. The receipt has only the number of
    /// warnings.
    Warning {
        /// Subject: `columns` if one of this peer's columns looks wrong, `quality` if the result may not be
        /// good enough.
        about: &'static str,
        /// The warning as a sentence.
        message: String,
    },
    /// The last event of a peer with rows. It lists the opened sums that include these rows.
    OwnRows {
        /// Opened sums that include the rows.
        #[serde(flatten)]
        own_rows: OwnRows,
    },
    /// The session is over for this peer.
    Receipt {
        /// Record of the session that the peer can show later.
        receipt: Box<Receipt>,
    },
    /// Other peers may not have the result yet. This peer's state is kept, so that a later run can serve
    /// them.
    StateKept {
        /// Folder of the state.
        folder: PathBuf,
        /// Peers that have not confirmed the result; empty if this peer left early.
        without_result: Vec<String>,
    },
    /// The node stays at a stage until it is killed. For tests.
    Held {
        /// Name of the aggregate.
        slot: String,
        /// Stage at which the node stays.
        stage: Stage,
    },
    /// The node has begun to deviate on purpose, to check other programs.
    Deviated {
        /// Peer that sees the deviation.
        peer: String,
    },
    /// The reader was too slow and missed some events.
    Missed {
        /// Number of missed events.
        count: u64,
    },
}

impl Event {
    /// Returns the event of a report, or `None` if the report does not concern a user.
    pub(crate) fn of(ctx: &Context, report: &Report<'_>) -> Option<Self> {
        let name = |peer: &session::Peer| ctx.session.name(*peer).to_owned();
        let aggregate = |slot: u32| ctx.plan.get(slot as usize).map_or_else(String::new, |q| q.name.clone());
        Some(match *report {
            Report::Started(_) => Self::Waiting {
                peer: name(&ctx.me),
                others: ctx.session.peers().filter(|peer| *peer != ctx.me).map(|peer| name(&peer)).collect(),
                needed: ctx.session.min_peers,
                seconds: ctx.session.timing.start_wait_ms.div_ceil(1000),
            },
            Report::Listening(address) => Self::Listening { address: address.clone() },
            Report::ListenFailed(address, why) => {
                Self::ListenFailed { address: address.clone(), reason: why.to_owned() }
            }
            Report::Twin(address) => Self::Twin { address: address.clone() },
            Report::Stranger(peer, address) => {
                Self::Stranger { peer: peer.to_string(), address: address.clone() }
            }
            Report::Disconnected(peer, why) => {
                Self::Disconnected { peer: name(&peer), reason: why.to_owned() }
            }
            Report::Blamed(peer, ref fault) => Self::Blamed { peer: name(&peer), fault: fault.clone() },
            Report::Deviated(peer) => Self::Deviated { peer: name(&peer) },
            Report::Held(slot, stage) => Self::Held { slot: aggregate(slot), stage },
            Report::Node(event) => return Self::of_node(ctx, event),
            Report::Sent(..) | Report::Received(..) | Report::Now(_) => return None,
        })
    }

    fn of_node(ctx: &Context, event: &node::Event) -> Option<Self> {
        let name = |peer: &session::Peer| ctx.session.name(*peer).to_owned();
        let names = |peers: &[session::Peer]| peers.iter().map(name).collect::<Vec<_>>();
        let aggregate = |slot: u32| ctx.plan.get(slot as usize).map_or_else(String::new, |q| q.name.clone());
        Some(match event {
            node::Event::Joined(peer) => Self::Joined { peer: name(peer) },
            node::Event::Refused(peer, fields) => Self::Refused { peer: name(peer), fields: fields.clone() },
            node::Event::StateLost(peer) => Self::StateLost { shown_by: peer.as_ref().map(name) },
            node::Event::ViewBegan(ballot, tree) => {
                Self::View { view: ballot.to_string(), members: names(tree.members()) }
            }
            node::Event::ViewFailed(ballot, author, reason, suspect) => Self::ViewFailed {
                view: ballot.to_string(),
                author: name(author),
                reason: *reason,
                suspect: suspect.as_ref().map(name),
            },
            node::Event::Stage(slot, stage) => Self::Stage {
                slot: aggregate(*slot),
                number: *slot,
                slots: ctx.plan.len() as u32,
                stage: *stage,
            },
            node::Event::Opened(value) => Self::Opened {
                aggregate: aggregate(value.sum.slot),
                number: value.sum.slot,
                members: names(&value.members),
            },
            node::Event::Figures(slot, figures) => {
                Self::Figures { aggregate: aggregate(*slot), number: *slot, figures: figures.clone() }
            }
            node::Event::Named(peers, evidence) => {
                Self::Named { peers: names(peers), evidence: hex::encode(evidence) }
            }
            node::Event::Exchange(roles) => Self::Roles {
                roles: roles.iter().map(|(role, peers)| ((*role).to_owned(), names(peers))).collect(),
            },
            // No event is needed: the end of the connection is reported with its reason, and the other events
            // are reported where they happen.
            node::Event::Lost(_)
            | node::Event::NeedsConnection(_)
            | node::Event::Finished(_)
            | node::Event::Done
            | node::Event::Ended(_) => return None,
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { peer, others, needed, seconds } => {
                let names = match others.len() {
                    count @ 9.. => format!("{count} others"),
                    _ => others.join(", "),
                };
                write!(f, "{peer} waits for {names}: up to {seconds} s for all, then {needed} are enough")
            }
            Self::Listening { address } => write!(f, "listening on {address}"),
            Self::ListenFailed { address, reason } => write!(f, "no longer listening on {address}: {reason}"),
            Self::Metrics { address } => write!(f, "metrics at http://{address}/metrics"),
            Self::Twin { address } => write!(
                f,
                "another node uses this identity at {address}: stop one of them, or make another key for it"
            ),
            Self::Stranger { peer, address } => write!(f, "refused {peer} at {address}: not in the roster"),
            Self::Joined { peer } => write!(f, "connected to {peer}"),
            Self::Disconnected { peer, reason } => write!(f, "lost {peer}: {reason}"),
            Self::Refused { peer, fields } => {
                write!(f, "{peer} has another session file: {} differs", fields.join(", "))
            }
            Self::Blamed { peer, fault } => write!(f, "{peer} broke a rule: {fault}"),
            Self::StateLost { shown_by } => {
                let whose = shown_by.as_deref().unwrap_or("the mark next to the key");
                write!(
                    f,
                    "the state of this session is lost or older than the one {whose} shows: this peer \
                     does not vote in it"
                )
            }
            Self::View { view, members } => write!(f, "view {view} begins with {}", members.join(", ")),
            Self::ViewFailed { view, author, reason, suspect } => {
                write!(f, "view {view} ended: {}", why(author, *reason, suspect.as_deref()))
            }
            Self::Stage { slot, stage, .. } => write!(f, "{slot}: {}", stage_name(*stage)),
            Self::Named { peers, .. } => f.write_str(&named(peers)),
            Self::Roles { roles } => {
                let roles = roles.iter().map(|(role, peers)| format!("{role}: {}", peers.join(", ")));
                write!(f, "{}", roles.collect::<Vec<_>>().join("; "))
            }
            Self::Opened { aggregate, members, .. } => {
                write!(f, "{aggregate}: opened over {}", members.join(", "))
            }
            Self::Figures { aggregate, figures, .. } => {
                let each = figures.iter().map(|(name, value)| format!("{name} {value}"));
                write!(f, "{aggregate}: {}", each.collect::<Vec<_>>().join(", "))
            }
            Self::Warning { message, .. } => write!(f, "warning: {message}"),
            Self::OwnRows { own_rows } => write!(f, "{own_rows}"),
            Self::Finished { result: Some(result), digest: Some(digest), own_rows, summary, lingers } => {
                write!(f, "{result} {digest}")?;
                if !summary.is_empty() {
                    write!(f, "; {summary}")?;
                }
                if let Some(own_rows) = own_rows.as_ref().filter(|own_rows| !own_rows.left_out.is_empty()) {
                    write!(f, "; {own_rows}")?;
                }
                write!(f, "; serving other peers for up to {lingers} s")
            }
            Self::Finished { lingers, .. } => {
                write!(f, "the other peers have their results; serving them for up to {lingers} s")
            }
            // The receipt has no text, because it is for programs.
            Self::Receipt { .. } => Ok(()),
            Self::StateKept { folder, without_result } if without_result.is_empty() => {
                write!(
                    f,
                    "left early: {} is kept; run the same command again to serve the others",
                    folder.display()
                )
            }
            Self::StateKept { folder, without_result } => {
                let names = without_result.join(", ");
                write!(
                    f,
                    "no result was seen at {names}: {} is kept; run the same command again when {names} \
                     is online, to serve the result",
                    folder.display()
                )
            }
            Self::Held { slot, stage } => write!(f, "held at {slot}.{}", stage_name(*stage)),
            Self::Deviated { peer } => write!(f, "deviates towards {peer}"),
            Self::Missed { count } => write!(f, "{count} events were missed"),
        }
    }
}

/// Makes the sentence about one peer that deviates, or about a pair that contains such a peer.
pub(super) fn named(peers: &[String]) -> String {
    match peers {
        [one, other] => format!(
            "{one} or {other} breaks the rules of the computation: the signed statements of the computing members \
             show that it is one of the two"
        ),
        _ => format!(
            "{} breaks the rules of the computation: it has signed statements that contradict each other",
            peers.join(" and ")
        ),
    }
}

fn why(author: &str, reason: Reason, suspect: Option<&str>) -> String {
    let Some(suspect) = suspect else {
        return format!("its leader {author} ended it to add peers, or because too few are left");
    };
    let said = match reason {
        Reason::Lost => format!("{author} lost its connection to {suspect}"),
        Reason::Stalled => format!("{author} received nothing from {suspect}"),
        Reason::Fault => format!("{author} says that {suspect} broke a rule"),
        Reason::Disagreement => {
            format!("{author} and {suspect} say different things about each other")
        }
        Reason::Left | Reason::Ended => return format!("{author} left"),
    };
    format!("{said}; the two do not exchange data for some rounds")
}
