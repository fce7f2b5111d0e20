//! Peers that deviate on purpose: `flyswarm-conform check` uses them to test another program's reaction.
//!
//! A deviation changes the messages that one of our nodes sends to one other peer, the checked one. Some
//! deviations break a rule, and the checked peer must blame the node (spec, section 17). Others are
//! correct in an unusual form, and the checked peer must continue.

mod broken;
mod computing;
mod integers;
mod unusual;

use std::sync::Arc;

use flyswarm::net::driver::Sent;
use flyswarm::peer::Error;
use flyswarm::protocol::context::Context;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::view;
use flyswarm::protocol::wire::{self, Frame};
use flyswarm::session::Peer;

/// Position of the deviating node in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// Directly above the checked peer, at the root.
    Leader,
    /// Directly below the checked peer, which is the root.
    Child,
    /// At the root, two levels above the checked peer.
    Above,
}

/// Messages that a node changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The first message to the checked peer that can be changed.
    Once,
    /// Each message to the checked peer that can be changed.
    Always,
    /// The first suitable message to a third peer. The checked peer gets it, and the third peer gets it
    /// unchanged.
    Beside,
}

/// Reaction that the checked peer must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Blame the deviating node, and continue with the others.
    Blame,
    /// Continue as if nothing had happened.
    GoOn,
}

/// A kind of deviation.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Description of the sent messages.
    pub(crate) about: &'static str,
    /// Sections of the specification that require the reaction, and the numbers of its MUSTs.
    pub(crate) sections: &'static str,
    pub(crate) from: From,
    pub(crate) expected: Expected,
    /// True if all nodes deviate; otherwise one does.
    pub(crate) all: bool,
    when: When,
    /// Deviation of all other nodes, if this deviation only has an effect together with it.
    pub(crate) others: Option<&'static str>,
    /// True if the checked peer never greets the node, so the others cannot wait for the full roster.
    pub(crate) ungreeted: bool,
    /// True if the session's vectors need more chunks than may be sent without credit.
    pub(crate) long: bool,
    /// Largest number of bytes that are written at once.
    piece: Option<usize>,
    /// Returns the frames to send instead of a message; `None` if the message is not suitable.
    change: fn(&Case<'_>) -> Option<Vec<Frame>>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Kind {
    const fn new(
        name: &'static str,
        about: &'static str,
        sections: &'static str,
        (from, expected): (From, Expected),
        change: fn(&Case<'_>) -> Option<Vec<Frame>>,
    ) -> Self {
        let (all, when) = (false, When::Once);
        let (others, ungreeted, long, piece) = (None, false, false, None);
        Self { name, about, sections, from, expected, all, when, others, ungreeted, long, piece, change }
    }

    /// Returns whether the messages take long to arrive.
    pub(crate) fn is_slow(&self) -> bool {
        self.piece.is_some()
    }
}

/// A message that is about to be sent.
struct Case<'a> {
    ctx: &'a Context,
    /// Peer that receives the deviation.
    to: Peer,
    message: &'a Message,
    /// First changed round of a computation.
    round: u32,
}

impl Case<'_> {
    fn frame(&self) -> Frame {
        wire::encode(self.message)
    }
}

/// A deviation towards one peer.
pub(crate) struct Deviation {
    ctx: Arc<Context>,
    kind: &'static Kind,
    towards: Peer,
    round: u32,
    done: bool,
    /// True if this node has sent that peer an order itself, so that the two are neighbours.
    near: bool,
}

/// Returns all kinds of deviation.
pub(crate) fn kinds() -> impl Iterator<Item = &'static Kind> {
    broken::BY_LEADER.iter().chain(&broken::BY_CHILD).chain(&unusual::KINDS)
}

/// Returns this deviation, towards the peer of this name.
pub(crate) fn towards(ctx: &Arc<Context>, way: &str, towards: &str) -> Result<Deviation, Error> {
    let peer = ctx.session.peers().find(|peer| ctx.session.name(*peer) == towards);
    let peer = peer.ok_or_else(|| Error::Input(format!("--deviate: {towards} is not in the roster")))?;
    let (name, round) = way.rsplit_once('-').unwrap_or((way, ""));
    let (name, round) = round.parse().map_or((way, 0), |round| (name, round));
    let kind = kinds().chain(&computing::KINDS).find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| Error::Input(format!("--deviate {way}: unknown deviation")))?;
    Ok(Deviation { ctx: ctx.clone(), kind, towards: peer, round, done: false, near: false })
}

impl std::fmt::Debug for Deviation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Deviation {{ {} towards {} }}", self.kind.name, self.towards)
    }
}

impl Deviation {
    /// Returns the frames to send instead of `message`; `None` if it is sent unchanged.
    pub(crate) fn send(&mut self, to: Peer, message: &Message) -> Option<Sent> {
        let when = self.kind.when;
        let aside = when == When::Beside;
        // On a busy machine the view may have another tree than the one that is expected.
        self.near |= to == self.towards && matches!(message, Message::View(view::Message::Down(..)));
        if aside && self.near {
            return None;
        }
        if (to == self.towards) == aside || (self.done && when != When::Always) {
            return None;
        }
        let frames =
            (self.kind.change)(&Case { ctx: &self.ctx, to: self.towards, message, round: self.round })?;
        let mut frames: Vec<_> = frames.into_iter().map(|frame| (self.towards, frame)).collect();
        if when == When::Beside {
            frames.push((to, wire::encode(message)));
        }
        let first = !std::mem::replace(&mut self.done, true);
        Some(Sent { frames, begins: first.then_some(self.towards) })
    }

    /// Returns the largest number of bytes that are written at once, if it is not the usual one.
    pub(crate) fn piece(&self) -> Option<usize> {
        self.kind.piece
    }
}
