//! The second exchange (spec, section 15b). When the committee has decided whose rows were used, the
//! computing members send each owner the shares of its output. Both members that hold a share send it, one of
//! them as a hash. If two copies of a share differ, the owner uses none of the shares. The same shares may be
//! sent again in a later view, because the result does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::compute::agree::hash;
use super::talk::{Body, Incoming, Outgoing, What, read, tell};
use super::watch::Watch;
use crate::protocol::view::Reason;
use crate::protocol::{Fault, Input, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Content, Exchange, Output, Roles, Vocabulary};
use crate::tasks::xclp::shares::output::{Sealed, unseal};
use flyswarm_mpc::propagation::integer::reference;

/// The constants of one peer's machine.
#[derive(Debug)]
pub(crate) struct Setup {
    /// This peer.
    pub me: Peer,
    /// Owners whose rows were used, with their numbers of rows, in the order of their places.
    pub owners: Vec<(Peer, usize)>,
    /// The view's members.
    pub members: Vec<Peer>,
    /// The computing members that are members of the view, at their numbers.
    pub senders: Senders,
    /// Shares that this peer holds, if it is one of the senders.
    pub sealed: Option<Sealed>,
    /// Number of classes.
    pub classes: usize,
    /// Two computing members that sent this peer different copies of a share.
    pub differing: Differing,
    /// Longest silence of a peer that this one waits for, in milliseconds.
    pub patience_ms: u64,
    /// Longest duration of the exchange, in milliseconds.
    pub longest_ms: u64,
}

/// For each computing member, by its number, the peer if it sends shares. At least two of them do.
pub(crate) type Senders = [Option<Peer>; 3];

/// Two computing members that sent this peer different copies of a share of its output. The value is kept for
/// later views.
pub(crate) type Differing = Arc<Mutex<Option<[Peer; 2]>>>;

/// Returns the computing members that are in `members`, if there are at least two.
#[must_use]
pub(crate) fn senders(trio: &[Peer; 3], members: &[Peer]) -> Option<Senders> {
    let here = trio.map(|peer| members.contains(&peer).then_some(peer));
    (here.iter().flatten().count() >= 2).then_some(here)
}

/// Result of the exchange for an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The owner's output, and whether each share came from both computing members that hold it.
    Output(reference::Output, bool),
    /// The owner has no output, because these two computing members sent different copies of a share.
    Differing([Peer; 2]),
}

/// Encodes an owner's output for storage. The first byte is 1, or 2 if not every share was compared. Then
/// each row has its label as LE16 (65535 for no label) and its coarse scores.
#[must_use]
pub fn to_bytes(output: &reference::Output, compared: bool, classes: usize) -> Bytes {
    let rows = output.labels.iter().zip(output.coarse.chunks(classes.max(1)));
    let rows = rows.flat_map(|(label, coarse)| {
        label.unwrap_or(u16::MAX).to_le_bytes().into_iter().chain(coarse.iter().copied())
    });
    std::iter::once(if compared { 1 } else { 2 }).chain(rows).collect()
}

impl Delivered {
    /// Encodes the result for storage: an output as in [`to_bytes`]; two differing members as 3 and LE16 of
    /// both.
    #[must_use]
    pub(crate) fn to_bytes(&self, classes: usize) -> Bytes {
        match self {
            Self::Output(output, compared) => to_bytes(output, *compared, classes),
            Self::Differing(pair) => {
                std::iter::once(3).chain(pair.iter().flat_map(|peer| peer.0.to_le_bytes())).collect()
            }
        }
    }

    /// Decodes the bytes of [`Delivered::to_bytes`]; returns `None` if they are invalid.
    #[must_use]
    pub(crate) fn from_bytes(bytes: &[u8], classes: usize) -> Option<Self> {
        let (&kind, rows) = bytes.split_first()?;
        if kind == 3 {
            let peer = |at: usize| Some(Peer(u16::from_le_bytes(*rows.get(at..)?.first_chunk()?)));
            return (rows.len() == 4).then_some(Self::Differing([peer(0)?, peer(2)?]));
        }
        let mut output = reference::Output::default();
        if !rows.len().is_multiple_of(classes + 2) || kind == 0 || kind > 3 {
            return None;
        }
        for row in rows.chunks_exact(classes + 2) {
            let (label, coarse) = row.split_first_chunk::<2>()?;
            let label = u16::from_le_bytes(*label);
            output.labels.push((label != u16::MAX).then_some(label));
            output.coarse.extend(coarse);
        }
        let known = output.labels.iter().flatten().all(|&label| usize::from(label) < classes);
        known.then_some(Self::Output(output, kind == 1))
    }

    /// Returns the output, if there is one.
    #[must_use]
    pub(crate) fn output(self) -> Option<reference::Output> {
        match self {
            Self::Output(output, _) => Some(output),
            Self::Differing(_) => None,
        }
    }
}

/// Returns the parcel of a computing member for the owner of these points: its own share, then the next
/// share. If the next share also comes from another member (`twice`), only its hash is in the parcel.
#[must_use]
pub fn parcel(sealed: &Sealed, points: std::ops::Range<usize>, classes: usize, twice: bool) -> Vec<u8> {
    let range = points.start * (classes + 2)..points.end * (classes + 2);
    let next = &sealed.next[range.clone()];
    let hashed = hash(next);
    [&sealed.own[range], if twice { &hashed } else { next }].concat()
}

/// The machine of one peer in the second exchange.
#[derive(Debug)]
pub(crate) struct Deliver {
    setup: Setup,
    watch: Watch,
    outgoing: Outgoing,
    incoming: BTreeMap<Peer, Incoming>,
    /// Bytes that came from each computing member.
    shares: BTreeMap<Peer, Vec<u8>>,
    over: bool,
}

impl Deliver {
    /// Creates the machine, which has not started.
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

    /// Returns whether a peer takes part, as an owner or as a sender.
    #[must_use]
    pub(crate) fn takes_part(setup: &Setup, peer: Peer) -> bool {
        setup.members.contains(&peer)
            && (setup.senders.contains(&Some(peer)) || setup.owners.iter().any(|(owner, _)| *owner == peer))
    }

    /// Returns the owners in this view, each with its points.
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

    /// Returns the number of a computing member, if it sends shares.
    fn number(&self, peer: Peer) -> Option<usize> {
        self.setup.senders.iter().position(|sender| *sender == Some(peer))
    }

    /// Returns whether the second share of a computing member also comes from the next one.
    fn twice(&self, number: usize) -> bool {
        self.setup.senders[(number + 1) % 3].is_some()
    }

    /// Returns the number of bytes that a computing member sends this owner of `rows` rows.
    fn length(&self, number: usize, rows: usize) -> usize {
        let share = rows * (self.setup.classes + 2);
        share + if self.twice(number) { 32 } else { share }
    }

    fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        self.watch.start(now, step);
        let (Some(number), Some(sealed)) = (self.number(self.setup.me), self.setup.sealed.take()) else {
            return;
        };
        for (owner, points) in self.owners() {
            let shares = parcel(&sealed, points, self.setup.classes, self.twice(number));
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
                let (rows, number) = self.own_rows().zip(self.number(from)).ok_or(NOT_MINE)?;
                let length = self.length(number, rows);
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
                let Some(delivered) = self.differing().or_else(|| self.delivered(rows)) else { return };
                let Some(delivered) = delivered else {
                    // The suspect is then the parent, which need not have anything to do with it.
                    return self.fail(Reason::Stalled, None, step);
                };
                delivered.to_bytes(self.setup.classes)
            }
        };
        self.over = true;
        step.output(Output::Finished(result));
    }

    /// Returns the result if copies have differed, even in an earlier view. It has no output, because only
    /// the deviating member may be left in a later view.
    fn differing(&self) -> Option<Option<Delivered>> {
        let pair = *self.setup.differing.lock().unwrap_or_else(PoisonError::into_inner);
        pair.map(|pair| Some(Delivered::Differing(pair)))
    }

    /// Returns the result of this owner when all shares have arrived; `Some(None)` if they are not a valid
    /// output.
    fn delivered(&self, rows: usize) -> Option<Option<Delivered>> {
        if self.missing().is_some() {
            return None;
        }
        let length = rows * (self.setup.classes + 2);
        let parts: [Option<(&[u8], &[u8])>; 3] =
            self.setup.senders.map(|sender| self.shares.get(&sender?)?.split_at_checked(length));
        let mut shares = parts.map(|part| part.map_or(&[][..], |(own, _)| own));
        for (number, part) in parts.iter().enumerate() {
            let Some((_, next)) = part else { continue };
            let after = (number + 1) % 3;
            if !self.twice(number) {
                shares[after] = next;
            } else if hash(shares[after])[..] != **next
                && let (Some(one), Some(two)) = (self.setup.senders[number], self.setup.senders[after])
            {
                *self.setup.differing.lock().unwrap_or_else(PoisonError::into_inner) = Some([one, two]);
                return Some(Some(Delivered::Differing([one, two])));
            }
        }
        let output = unseal(rows, self.setup.classes, &[shares[0], shares[1]].concat(), shares[2]);
        let compared = self.setup.senders.iter().all(Option::is_some);
        Some(output.map(|output| Delivered::Output(output, compared)))
    }

    /// Returns a computing member whose shares this owner waits for.
    fn missing(&self) -> Option<Peer> {
        self.own_rows()?;
        self.setup.senders.into_iter().flatten().find(|sender| !self.shares.contains_key(sender))
    }

    /// Returns whether this owner waits for the shares of `peer`, or data for `peer` has not been sent.
    fn needs(&self, peer: Peer) -> bool {
        let owes = self.own_rows().is_some() && !self.shares.contains_key(&peer);
        self.outgoing.is_waiting(peer) || owes && self.number(peer).is_some()
    }

    fn waits(&self) -> Option<Peer> {
        self.outgoing.waits().or_else(|| self.missing())
    }
}

impl Exchange for Deliver {
    fn peers(&self) -> Vec<Peer> {
        let me = self.setup.me;
        let mut peers = BTreeSet::new();
        if self.number(me).is_some() {
            peers.extend(self.owners().into_iter().map(|(peer, _)| peer));
        }
        if self.own_rows().is_some() {
            peers.extend(self.setup.senders.into_iter().flatten());
        }
        peers.remove(&me);
        peers.into_iter().collect()
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
            Input::PeerLost(peer) if self.needs(peer) => {
                self.fail(Reason::Lost, Some(peer), &mut step);
            }
            Input::Done(_) | Input::PeerUp(_) | Input::PeerLost(_) => {}
        }
        self.advance(&mut step);
        step
    }
}
