//! Messages between the machines of an exchange (spec, section 15b). Vectors are sent in parts, and the
//! receiver gives a credit for each part except the last. At most [`WINDOW`] parts without a credit may be in
//! transit to a peer, so that a slow peer does not have to store much. A vector of one part needs no credit.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::accounts::Statement;
use crate::protocol::signed::Signed;
use crate::protocol::{Fault, Step, wire};
use crate::session::Peer;
use crate::tasks::exchange::{Content, Vocabulary};
use crate::tasks::xclp::shares::party::PAYLOAD;

/// Bytes of each part except the last of a vector.
pub(crate) const PART: usize = PAYLOAD;
/// Largest number of parts without a credit that may be in transit from one peer to another.
pub(crate) const WINDOW: usize = 7;

/// Message of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Next part of a vector, on the bulk channel. The bytes of the part follow the body.
    Part {
        /// Vector that the part belongs to.
        what: What,
        /// True if this is the last part of the vector.
        last: bool,
    },
    /// Answer to a part that is not the last: the receiver has handled it.
    Credit,
    /// Sign of life: the sender is still working, and a peer that waits for its result should not give up.
    KeepAlive,
    /// Sent by an owner to all peers: its commitment to its input. It is sent before any data about inputs.
    Commitment([u8; 32]),
    /// Sent by an owner to all peers before it sends any share: the hashes of its shares 0, 1 and 2.
    Copies([[u8; 32]; 3]),
    /// Sent to another computing member: the hash of the share of the output that both hold.
    Holds([u8; 32]),
    /// Statements of computing members about a failure.
    Statements(Vec<Signed<Statement>>),
}

/// A vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum What {
    /// An owner's shares for a computing member.
    Input,
    /// Message of a computing member to another one in a round of the program.
    Round(u32),
    /// A computing member's shares of an owner's output.
    Output,
    /// Vector of an owner for its partner, with which it makes shares of distances. The vectors are numbered
    /// from 0.
    Pair(u32),
}

/// Encodes a body and the bytes that follow it.
#[must_use]
pub fn content(body: &Body, data: Bytes) -> Content {
    let header = wire::canonical(body).into();
    match body {
        Body::Part { .. } => Content::Bulk { header, data },
        _ => Content::Short(header),
    }
}

/// Decodes a message.
///
/// # Errors
/// If this message must not be sent on this channel.
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

/// Sends a short message to peers.
pub(crate) fn tell(peers: impl IntoIterator<Item = Peer>, body: &Body, step: &mut Step<Vocabulary>) {
    peers.into_iter().for_each(|peer| step.send(peer, content(body, Bytes::new())));
}

#[derive(Debug, Default)]
struct Queue {
    parts: VecDeque<(What, Bytes, bool)>,
    under_way: usize,
}

/// Parts that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing(BTreeMap<Peer, Queue>);

impl Outgoing {
    /// Sends one part, or lets it wait until the window has room.
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

    /// Records that the receiver has handled a part.
    ///
    /// # Errors
    /// If no part was in transit.
    pub(crate) fn credit(&mut self, from: Peer, step: &mut Step<Vocabulary>) -> Result<(), Fault> {
        let queue = self.0.get_mut(&from).filter(|queue| queue.under_way > 0);
        queue.ok_or(Fault::OutOfOrder("credit"))?.under_way -= 1;
        self.go_on(from, step);
        Ok(())
    }

    /// Returns a peer that a part could not be sent to yet.
    #[must_use]
    pub(crate) fn waits(&self) -> Option<Peer> {
        self.0.iter().find(|(_, queue)| !queue.parts.is_empty()).map(|(&peer, _)| peer)
    }

    /// Returns whether a part for this peer has not been sent yet.
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

/// A vector that is arriving and whose length is known.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    whole: bool,
}

impl Incoming {
    /// Adds a part. Returns the vector when it is complete.
    ///
    /// # Errors
    /// If the part is not the next one of a vector of `length` bytes.
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
        assert!(
            Incoming::default().take(&[1; 8], false, 8).is_err(),
            "the last part is marked as not the last"
        );
        // These are refused: a credit without a part, and bulk bytes in a message that must not have any.
        let mut step = Step::none();
        assert!(out.credit(Peer(2), &mut step).is_err());
        let header = wire::canonical(&Body::Credit).into();
        assert!(read(Content::Bulk { header, data: Bytes::new() }).is_err());
        let header = Bytes::from(wire::canonical(&Body::Part { what: What::Input, last: true }));
        assert!(read(Content::Short(header.clone())).is_err());
        assert!(read(Content::Bulk { header, data: vec![0; PART + 1].into() }).is_err());
    }
}
