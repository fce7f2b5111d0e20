//! Peers that deviate on purpose: `flyswarm-conform check` sees with them what another program does then.
//!
//! A deviation changes what one node of ours sends to one other peer. Some break a rule, and the other must
//! blame (spec, section 17); some are correct in an unusual form, and the other must go on.

mod broken;
mod integers;
mod unusual;

use std::sync::Arc;

use flyswarm::net::driver::Sent;
use flyswarm::peer::Error;
use flyswarm::protocol::context::Context;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::wire::{self, Frame};
use flyswarm::session::Peer;

/// Where the node that deviates stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// Directly above the other, at the root.
    Leader,
    /// Directly below the other, which is the root.
    Child,
    /// At the root, two levels above the other.
    Above,
}

/// Which messages a node deviates with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The first one to the other that can be changed.
    Once,
    /// Each one to the other that can be changed.
    Always,
    /// The first one to somebody else that gives occasion. It is sent as well.
    Beside,
}

/// What the other must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Blame the node that deviates, and go on with the others.
    Blame,
    /// Go on as if nothing was.
    GoOn,
}

/// A way to deviate.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// What is sent.
    pub(crate) about: &'static str,
    /// Where the specification says what must follow, and the numbers of its MUSTs.
    pub(crate) sections: &'static str,
    pub(crate) from: From,
    pub(crate) expected: Expected,
    /// Whether all nodes deviate; if not, one does.
    pub(crate) all: bool,
    when: When,
    /// The deviation of all the others, without which this one would be overtaken.
    pub(crate) others: Option<&'static str>,
    /// Whether the other never greets it, so that nobody can wait for the whole roster.
    pub(crate) ungreeted: bool,
    /// Whether the session's vectors need more chunks than may be without credit.
    pub(crate) long: bool,
    /// The most bytes that are written at once.
    piece: Option<usize>,
    /// What the other is sent at a message; `None` where it gives no occasion.
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

    /// Whether what is sent takes long to arrive.
    pub(crate) fn is_slow(&self) -> bool {
        self.piece.is_some()
    }
}

/// A message that is about to be sent.
struct Case<'a> {
    ctx: &'a Context,
    /// The peer that the deviation is towards.
    to: Peer,
    message: &'a Message,
}

impl Case<'_> {
    fn frame(&self) -> Frame {
        wire::encode(self.message)
    }
}

/// A way to deviate towards one peer.
pub(crate) struct Deviation {
    ctx: Arc<Context>,
    kind: &'static Kind,
    towards: Peer,
    done: bool,
}

/// All ways to deviate.
pub(crate) fn kinds() -> impl Iterator<Item = &'static Kind> {
    broken::BY_LEADER.iter().chain(&broken::BY_CHILD).chain(&unusual::KINDS)
}

/// This way to deviate, towards the peer of this name.
pub(crate) fn towards(ctx: &Arc<Context>, way: &str, towards: &str) -> Result<Deviation, Error> {
    let peer = ctx.session.peers().find(|peer| ctx.session.name(*peer) == towards);
    let peer = peer.ok_or_else(|| Error::Input(format!("--deviate: {towards} is not in the roster")))?;
    let kind = kinds().find(|kind| kind.name == way);
    let kind = kind.ok_or_else(|| Error::Input(format!("--deviate {way}: is unknown")))?;
    Ok(Deviation { ctx: ctx.clone(), kind, towards: peer, done: false })
}

impl std::fmt::Debug for Deviation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Deviation {{ {} towards {} }}", self.kind.name, self.towards)
    }
}

impl Deviation {
    /// What is sent in place of `message`; `None` if it is sent as it is.
    pub(crate) fn send(&mut self, to: Peer, message: &Message) -> Option<Sent> {
        let when = self.kind.when;
        let aside = when == When::Beside;
        if (to == self.towards) == aside || (self.done && when != When::Always) {
            return None;
        }
        let frames = (self.kind.change)(&Case { ctx: &self.ctx, to: self.towards, message })?;
        let mut frames: Vec<_> = frames.into_iter().map(|frame| (self.towards, frame)).collect();
        if when == When::Beside {
            frames.push((to, wire::encode(message)));
        }
        let first = !std::mem::replace(&mut self.done, true);
        Some(Sent { frames, begins: first.then_some(self.towards) })
    }

    /// The most bytes that are written at once, if it is another number than usual.
    pub(crate) fn piece(&self) -> Option<usize> {
        self.kind.piece
    }
}
