//! Vectors in parts, by credits: at most [`WINDOW`] parts are under way to a peer, so that a slow peer
//! holds little.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::{Body, Exchange, Message, PART, ParcelKind, WINDOW};
use crate::protocol::all_reduce::SumId;
use crate::protocol::{Fault, Step};
use crate::session::Peer;

#[derive(Default)]
struct Outgoing {
    queue: VecDeque<(ParcelKind, Bytes, usize)>,
    under_way: usize,
}

/// Parcels to and from all peers.
pub(super) struct Parcels {
    sum: SumId,
    outgoing: BTreeMap<Peer, Outgoing>,
    /// With the length that the first part named.
    coming: BTreeMap<(Peer, ParcelKind), (usize, BytesMut)>,
    arrived: BTreeSet<(Peer, ParcelKind)>,
}

impl Parcels {
    pub(super) fn new(sum: SumId) -> Self {
        Self { sum, outgoing: BTreeMap::new(), coming: BTreeMap::new(), arrived: BTreeSet::new() }
    }

    pub(super) fn send(&mut self, to: Peer, what: ParcelKind, data: Bytes, step: &mut Step<Exchange>) {
        self.outgoing.entry(to).or_default().queue.push_back((what, data, 0));
        self.go_on(to, step);
    }

    /// Number of parcels of a kind that have not wholly left for a peer.
    pub(super) fn waiting(&self, to: Peer, kind: impl Fn(ParcelKind) -> bool) -> usize {
        self.outgoing
            .get(&to)
            .map_or(0, |outgoing| outgoing.queue.iter().filter(|(what, ..)| kind(*what)).count())
    }

    /// The receiver has taken a part.
    pub(super) fn credit(&mut self, from: Peer, step: &mut Step<Exchange>) -> Result<(), Fault> {
        let outgoing = self.outgoing.get_mut(&from).filter(|outgoing| outgoing.under_way > 0);
        outgoing.ok_or(Fault::OutOfOrder("credit"))?.under_way -= 1;
        self.go_on(from, step);
        Ok(())
    }

    fn go_on(&mut self, to: Peer, step: &mut Step<Exchange>) {
        let Some(outgoing) = self.outgoing.get_mut(&to) else { return };
        while outgoing.under_way < WINDOW {
            let Some((what, data, offset)) = outgoing.queue.front_mut() else { return };
            let end = (*offset + PART).min(data.len());
            // Lengths were checked against the session's limits.
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let body = Body::Part { what: *what, length, data: data.slice(*offset..end) };
            step.send(to, Message { sum: self.sum, body });
            *offset = end;
            if end == data.len() {
                outgoing.queue.pop_front();
            }
            outgoing.under_way += 1;
        }
    }

    /// Takes a part; gives the parcel when it is whole. `expected` are the bytes that it may have, `None` if
    /// it is none of this peer's.
    pub(super) fn part(
        &mut self,
        from: Peer,
        (what, length, data): (ParcelKind, u32, Bytes),
        expected: Option<RangeInclusive<usize>>,
        step: &mut Step<Exchange>,
    ) -> Result<Option<Bytes>, Fault> {
        let expected = expected.ok_or(Fault::OutOfOrder("parcel"))?;
        let length = length as usize;
        if !expected.contains(&length) {
            let text = format!(
                "parcel {what:?} of {length} bytes, expected {} to {}",
                expected.start(),
                expected.end()
            );
            return Err(Fault::Inconsistent(text));
        }
        if self.arrived.contains(&(from, what)) {
            return Err(Fault::OutOfOrder("parcel"));
        }
        let (named, coming) = self.coming.entry((from, what)).or_insert_with(|| (length, BytesMut::new()));
        if *named != length || data.len() != (length - coming.len()).min(PART) {
            return Err(Fault::Inconsistent(format!("a part of {what:?} has {} bytes", data.len())));
        }
        step.send(from, Message { sum: self.sum, body: Body::Credit });
        coming.extend_from_slice(&data);
        if coming.len() < length {
            return Ok(None);
        }
        self.arrived.insert((from, what));
        Ok(self.coming.remove(&(from, what)).map(|(_, data)| data.freeze()))
    }
}
