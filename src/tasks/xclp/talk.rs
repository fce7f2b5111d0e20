//! What the machines of an exchange say to each other, and vectors in parts, by credits (spec, section
//! 15e.2): at most [`WINDOW`] parts that are not the last of their vector are under way to a peer, so that
//! whoever is slow holds little. A vector of one part needs no credit.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::{Fault, Step, wire};
use crate::session::Peer;
use crate::tasks::exchange::{Content, Vocabulary};
use crate::tasks::xclp::shares::party::PAYLOAD;

/// Bytes of a part, but of a vector's last.
pub(crate) const PART: usize = PAYLOAD;
/// Parts without a credit that may be under way from one peer to another.
pub(crate) const WINDOW: usize = 7;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// At the start, to everybody: with whom the sender, a candidate, computes no more.
    Begin(Vec<Peer>),
    /// The next part of a vector. Bulk channel, the part itself beside it.
    Part {
        /// Of which vector.
        what: What,
        /// Whether it is its last.
        last: bool,
    },
    /// A part that is not the last has been taken.
    Credit,
    /// The sender's part of the exchange goes on: whoever waits for what comes of it should not give up.
    KeepAlive,
    /// An owner's commitment to its input, to everybody, before anybody sees anything of another owner's.
    Commitment([u8; 32]),
    /// Hashes of the owner's shares 0, 1 and 2, to everybody, before any share leaves.
    Copies([[u8; 32]; 3]),
    /// To another computing party: the hash of the share of the output that both hold.
    Holds([u8; 32]),
}

/// A vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum What {
    /// An owner's shares for a computing party.
    Input,
    /// What a computing party sends another in a round of the program.
    Round(u32),
    /// A computing party's shares of an owner's output.
    Output,
    /// What an owner sends another one with whom it makes shares of distances: vectors are numbered from 0.
    Pair(u32),
}

/// A body and the bytes beside it as they travel.
#[must_use]
pub fn content(body: &Body, data: Bytes) -> Content {
    let header = wire::canonical(body).into();
    match body {
        Body::Part { .. } => Content::Bulk { header, data },
        _ => Content::Short(header),
    }
}

/// Reads what came.
///
/// # Errors
/// If it is not what its channel may carry.
pub(crate) fn read(content: Content) -> Result<(Body, Bytes), Fault> {
    const WRONG: Fault = Fault::OutOfOrder("bulk bytes of an exchange");
    match content {
        Content::Short(bytes) => match wire::decode_item(&bytes)? {
            Body::Part { .. } => Err(WRONG),
            body => Ok((body, Bytes::new())),
        },
        Content::Bulk { header, data } => match wire::decode_item(&header)? {
            body @ Body::Part { .. } if data.len() <= PART => Ok((body, data)),
            _ => Err(WRONG),
        },
    }
}

/// Tells peers something short.
pub(crate) fn tell(peers: impl IntoIterator<Item = Peer>, body: &Body, step: &mut Step<Vocabulary>) {
    peers.into_iter().for_each(|peer| step.send(peer, content(body, Bytes::new())));
}

#[derive(Debug, Default)]
struct Queue {
    parts: VecDeque<(What, Bytes, bool)>,
    under_way: usize,
}

/// What waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing(BTreeMap<Peer, Queue>);

impl Outgoing {
    /// Sends one part as soon as the window has room.
    pub(crate) fn part(
        &mut self,
        to: Peer,
        what: What,
        data: Bytes,
        last: bool,
        step: &mut Step<Vocabulary>,
    ) {
        self.0.entry(to).or_default().parts.push_back((what, data, last));
        self.go_on(to, step);
    }

    /// Sends a vector in parts.
    pub(crate) fn vector(&mut self, to: Peer, what: What, data: &Bytes, step: &mut Step<Vocabulary>) {
        let mut start = 0;
        loop {
            let end = data.len().min(start + PART);
            self.part(to, what, data.slice(start..end), end == data.len(), step);
            if end == data.len() {
                return;
            }
            start = end;
        }
    }

    /// The receiver has taken a part.
    ///
    /// # Errors
    /// If none was under way.
    pub(crate) fn credit(&mut self, from: Peer, step: &mut Step<Vocabulary>) -> Result<(), Fault> {
        let queue = self.0.get_mut(&from).filter(|queue| queue.under_way > 0);
        queue.ok_or(Fault::OutOfOrder("credit"))?.under_way -= 1;
        self.go_on(from, step);
        Ok(())
    }

    /// A peer for whom something waits.
    #[must_use]
    pub(crate) fn waits(&self) -> Option<Peer> {
        self.0.iter().find(|(_, queue)| !queue.parts.is_empty()).map(|(&peer, _)| peer)
    }

    /// Whether something waits for this peer.
    #[must_use]
    pub(crate) fn is_waiting(&self, peer: Peer) -> bool {
        self.0.get(&peer).is_some_and(|queue| !queue.parts.is_empty())
    }

    fn go_on(&mut self, to: Peer, step: &mut Step<Vocabulary>) {
        let Some(queue) = self.0.get_mut(&to) else { return };
        while let Some(&(.., last)) = queue.parts.front()
            && (last || queue.under_way < WINDOW)
            && let Some((what, data, last)) = queue.parts.pop_front()
        {
            queue.under_way += usize::from(!last);
            step.send(to, content(&Body::Part { what, last }, data));
        }
    }
}

/// A vector on its way here, of a length that is known.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    whole: bool,
}

impl Incoming {
    /// Takes a part; gives the vector when it is whole.
    ///
    /// # Errors
    /// If it is not the next part of a vector of `length` bytes.
    pub(crate) fn take(&mut self, data: &[u8], last: bool, length: usize) -> Result<Option<Vec<u8>>, Fault> {
        let expected = length.saturating_sub(self.bytes.len());
        if self.whole || data.len() != expected.min(PART) || last != (expected <= PART) {
            return Err(Fault::Inconsistent(format!("a part of {} bytes, {expected} are left", data.len())));
        }
        self.bytes.extend_from_slice(data);
        self.whole = last;
        Ok(last.then(|| std::mem::take(&mut self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Action;

    fn sent(step: Step<Vocabulary>) -> Vec<(What, usize, bool)> {
        let part = |action| match action {
            Action::Send { message, .. } => match read(message) {
                Ok((Body::Part { what, last }, data)) => (what, data.len(), last),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        step.0.into_iter().map(part).collect()
    }

    #[test]
    fn a_long_vector_waits_for_credits_and_arrives_whole_and_what_nobody_expects_is_refused() {
        let (mut out, mut step) = (Outgoing::default(), Step::none());
        let length = (WINDOW + 2) * PART + 5;
        out.vector(Peer(1), What::Input, &vec![7; length].into(), &mut step);
        out.part(Peer(1), What::Round(0), Bytes::new(), true, &mut step);
        let mut parts = sent(step);
        assert_eq!(parts.len(), WINDOW);
        assert_eq!(out.waits(), Some(Peer(1)));
        for _ in 0..WINDOW {
            let mut step = Step::none();
            out.credit(Peer(1), &mut step).unwrap();
            parts.extend(sent(step));
        }
        assert_eq!((parts.len(), out.waits()), (WINDOW + 4, None));
        assert_eq!(parts.last(), Some(&(What::Round(0), 0, true)));
        let mut incoming = Incoming::default();
        let mut whole = None;
        for &(_, bytes, last) in &parts[..WINDOW + 3] {
            whole = incoming.take(&vec![7; bytes], last, length).unwrap();
        }
        assert_eq!(whole, Some(vec![7; length]));
        assert!(incoming.take(&[], true, length).is_err(), "once");
        assert!(Incoming::default().take(&[1; 9], true, 8).is_err(), "longer");
        assert!(Incoming::default().take(&[1; 7], true, 8).is_err(), "shorter");
        assert!(Incoming::default().take(&[1; 8], false, 8).is_err(), "not the last");
        // A credit for nothing, and bulk bytes where none belong.
        let mut step = Step::none();
        assert!(out.credit(Peer(2), &mut step).is_err());
        let header = wire::canonical(&Body::Credit).into();
        assert!(read(Content::Bulk { header, data: Bytes::new() }).is_err());
        let header = Bytes::from(wire::canonical(&Body::Part { what: What::Input, last: true }));
        assert!(read(Content::Short(header.clone())).is_err());
        assert!(read(Content::Bulk { header, data: vec![0; PART + 1].into() }).is_err());
    }
}
