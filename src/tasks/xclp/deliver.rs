//! The second exchange (spec, section 15e.2): once the committee has decided over whom was computed, two of
//! the computing parties send each owner their shares of its output. The same shares may be sent again in a
//! later view: what they add up to never changes.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::talk::{Body, Incoming, Outgoing, What, read, tell};
use super::watch::Watch;
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Input, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Content, Exchange, Output, Roles, Vocabulary};
use crate::tasks::xclp::shares::output::{Sealed, unseal};
use flyswarm_mpc::propagation::integer::reference;

/// The constants of one peer's part.
#[derive(Debug)]
pub(crate) struct Setup {
    /// This peer.
    pub me: Peer,
    /// The owners over whose rows was computed, and how many each has, in the order of their places.
    pub owners: Vec<(Peer, usize)>,
    /// The view's members.
    pub members: Vec<Peer>,
    /// Two computing parties of whom the second comes after the first.
    pub senders: [Peer; 2],
    /// What this peer holds, if it is one of them.
    pub sealed: Option<Sealed>,
    /// Classes.
    pub classes: usize,
    /// How long nothing may come from a peer that is waited for, milliseconds.
    pub patience_ms: u64,
    /// How long all may last, milliseconds.
    pub longest_ms: u64,
}

/// Two computing parties in `members` of whom the second comes after the first.
#[must_use]
pub(crate) fn senders(trio: &[Peer; 3], members: &[Peer]) -> Option<[Peer; 2]> {
    let pairs = (0..3).map(|first| [trio[first], trio[(first + 1) % 3]]);
    pairs.into_iter().find(|pair| pair.iter().all(|peer| members.contains(peer)))
}

/// An owner's output as it is kept: for each row LE16 of the label, 65535 for none, then the coarse scores.
#[must_use]
pub(crate) fn to_bytes(output: &reference::Output, classes: usize) -> Bytes {
    let rows = output.labels.iter().zip(output.coarse.chunks(classes.max(1)));
    rows.flat_map(|(label, coarse)| {
        label.unwrap_or(u16::MAX).to_le_bytes().into_iter().chain(coarse.iter().copied())
    })
    .collect()
}

/// As [`to_bytes`] makes it; `None` if it is not.
#[must_use]
pub(crate) fn from_bytes(bytes: &[u8], classes: usize) -> Option<reference::Output> {
    let mut output = reference::Output::default();
    if !bytes.len().is_multiple_of(classes + 2) {
        return None;
    }
    for row in bytes.chunks_exact(classes + 2) {
        let (label, coarse) = row.split_first_chunk::<2>()?;
        let label = u16::from_le_bytes(*label);
        output.labels.push((label != u16::MAX).then_some(label));
        output.coarse.extend(coarse);
    }
    output.labels.iter().flatten().all(|&label| usize::from(label) < classes).then_some(output)
}

/// One peer's part in the second exchange.
#[derive(Debug)]
pub(crate) struct Deliver {
    setup: Setup,
    watch: Watch,
    outgoing: Outgoing,
    incoming: BTreeMap<Peer, Incoming>,
    shares: BTreeMap<Peer, Vec<u8>>,
    over: bool,
}

impl Deliver {
    /// A part that has not started.
    #[must_use]
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            watch: Watch::new(setup.patience_ms, setup.longest_ms),
            setup,
            outgoing: Outgoing::default(),
            incoming: BTreeMap::new(),
            shares: BTreeMap::new(),
            over: false,
        }
    }

    /// Whether a peer has a part: as an owner or as a sender.
    #[must_use]
    pub(crate) fn takes_part(setup: &Setup, peer: Peer) -> bool {
        setup.members.contains(&peer)
            && (setup.senders.contains(&peer) || setup.owners.iter().any(|(owner, _)| *owner == peer))
    }

    /// The owners in this view, each with its points.
    fn owners(&self) -> Vec<(Peer, std::ops::Range<usize>)> {
        let mut start = 0;
        let ranges = self.setup.owners.iter().map(|&(peer, rows)| {
            start += rows;
            (peer, start - rows..start)
        });
        ranges.filter(|(peer, _)| self.setup.members.contains(peer)).collect()
    }

    fn own_rows(&self) -> Option<usize> {
        self.setup.owners.iter().find(|(peer, _)| *peer == self.setup.me).map(|(_, rows)| *rows)
    }

    /// Which of the two senders a peer is.
    fn place(&self, peer: Peer) -> Option<usize> {
        self.setup.senders.iter().position(|sender| *sender == peer)
    }

    fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        self.watch.start(now, step);
        let (Some(place), Some(sealed)) = (self.place(self.setup.me), self.setup.sealed.take()) else {
            return;
        };
        for (owner, points) in self.owners() {
            let shares = sealed.for_owner(place, points);
            if owner == self.setup.me {
                self.shares.insert(owner, shares);
            } else {
                self.outgoing.vector(owner, What::Output, &shares.into(), step);
            }
        }
    }

    fn message(&mut self, from: Peer, content: Content, step: &mut Step<Vocabulary>) -> Result<(), Fault> {
        const NOT_MINE: Fault = Fault::OutOfOrder("vector for a peer with another part");
        let (body, data) = read(content)?;
        match body {
            Body::Part { what: What::Output, last } => {
                let (rows, place) = self.own_rows().zip(self.place(from)).ok_or(NOT_MINE)?;
                let length = rows * (self.setup.classes + 2) * (2 - place);
                if !last {
                    tell([from], &Body::Credit, step);
                }
                if let Some(shares) = self.incoming.entry(from).or_default().take(&data, last, length)? {
                    self.shares.insert(from, shares);
                }
                Ok(())
            }
            Body::Credit => self.outgoing.credit(from, step),
            Body::KeepAlive if Self::takes_part(&self.setup, from) => Ok(()),
            _ => Err(NOT_MINE),
        }
    }

    fn fail(&mut self, reason: Reason, peer: Option<Peer>, step: &mut Step<Vocabulary>) {
        if !std::mem::replace(&mut self.over, true) {
            step.output(Output::Failed(reason, peer));
        }
    }

    fn advance(&mut self, step: &mut Step<Vocabulary>) {
        if self.over || self.outgoing.waits().is_some() {
            return;
        }
        let result = match self.own_rows() {
            None => Bytes::new(),
            Some(rows) => {
                let [one, two] = self.setup.senders.map(|sender| self.shares.get(&sender));
                let (Some(one), Some(two)) = (one, two) else { return };
                let Some(output) = unseal(rows, self.setup.classes, one, two) else {
                    return self.fail(Reason::Disagreement, None, step);
                };
                to_bytes(&output, self.setup.classes)
            }
        };
        self.over = true;
        step.output(Output::Finished(result));
    }

    fn waits(&self) -> Option<Peer> {
        let missing = || self.setup.senders.into_iter().find(|sender| !self.shares.contains_key(sender));
        self.outgoing.waits().or_else(|| self.own_rows().and_then(|_| missing()))
    }
}

impl Exchange for Deliver {
    fn peers(&self) -> Vec<Peer> {
        let me = self.setup.me;
        if self.setup.senders.contains(&me) {
            let owners = self.owners().into_iter().map(|(peer, _)| peer);
            return owners.filter(|peer| *peer != me).collect();
        }
        self.setup.senders.to_vec()
    }

    fn roles(&self) -> Roles {
        Vec::new()
    }

    fn handle(&mut self, now: Time, input: Input<Vocabulary>) -> Step<Vocabulary> {
        let mut step = Step::none();
        match input {
            _ if self.over => {}
            Input::Start => self.start(now, &mut step),
            Input::Message { from, message } => {
                self.watch.heard(now, true);
                if let Err(fault) = self.message(from, message, &mut step) {
                    step.blame(from, fault);
                    self.fail(Reason::Fault, Some(from), &mut step);
                }
            }
            Input::Timer(_) => {
                let waits = self.waits().map(|peer| (0, peer));
                if let (Some(peer), _) = self.watch.tick(now, waits, &mut step) {
                    self.fail(Reason::Stalled, Some(peer), &mut step);
                }
            }
            Input::PeerLost(peer) if self.waits() == Some(peer) => {
                self.fail(Reason::Lost, Some(peer), &mut step);
            }
            Input::Done(_) | Input::PeerUp(_) | Input::PeerLost(_) => {}
        }
        self.advance(&mut step);
        step
    }
}
