//! Queries that tests make to the network: sums that were opened, released or acknowledged, and peers
//! that were named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::Network;
use crate::node::{Ending, Event, Record};
use crate::protocol::ballot::Ballot;
use crate::protocol::message::Message;
use crate::protocol::pairwise::Mask;
use crate::protocol::promise::{self, Begun};
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::protocol::tree::Tree;
use crate::protocol::view::{Reason, Stage};
use crate::protocol::{Input, Time, members, wire};
use crate::session::{Peer, Settings};

impl Network {
    /// Returns for each slot the sums that can be opened: a majority has released its shares of their pads.
    pub fn openable(&self) -> BTreeMap<u32, Vec<SumId>> {
        let majority = self.session.quorum;
        let mut out: BTreeMap<u32, Vec<SumId>> = BTreeMap::new();
        for (sum, authors) in &self.releases {
            if authors.len() >= majority {
                out.entry(sum.slot).or_default().push(*sum);
            }
        }
        out
    }

    /// Returns whether the peer has opened the slot.
    pub fn opened(&self, peer: Peer, slot: u32) -> bool {
        let opens = |event: &Event| matches!(event, Event::Opened(value) if value.sum.slot == slot);
        self.events.iter().any(|(_, who, event)| *who == peer && opens(event))
    }

    /// Returns whether the peer has begun the stage.
    pub fn reached(&self, peer: Peer, slot: u32, stage: Stage) -> bool {
        let at = |event: &Event| matches!(event, Event::Stage(s, st) if (*s, *st) == (slot, stage));
        self.events.iter().any(|(_, who, event)| *who == peer && at(event))
    }

    /// Returns the peers that have sent their shares of the pads of a slot, each with the sum.
    pub fn released(&self, slot: u32) -> BTreeSet<(Peer, SumId)> {
        let of = self.releases.iter().filter(|(sum, _)| sum.slot == slot);
        of.flat_map(|(sum, authors)| authors.iter().map(|&author| (author, *sum))).collect()
    }

    /// Returns the reasons why the peer's views ended.
    pub fn failures(&self, peer: Peer) -> Vec<Reason> {
        let ends = self.events.iter().filter(|(_, who, _)| *who == peer);
        let reason =
            |event: &Event| if let Event::ViewFailed(_, _, why, _) = event { Some(*why) } else { None };
        ends.filter_map(|(_, _, event)| reason(event)).collect()
    }

    /// Returns the peers that honest peers have blamed.
    pub fn named(&self) -> BTreeSet<Peer> {
        self.blames.iter().filter(|(by, ..)| !self.liars.contains(by)).map(|(_, who, _)| *who).collect()
    }

    /// Delivers a message that the sender's node did not send, after encoding and decoding it.
    pub fn say(&mut self, from: Peer, to: Peer, message: Message) {
        let frame = wire::encode(&message);
        if !self.0.connected(from, to) {
            return;
        }
        if let Ok(message) = wire::decode(frame.channel, &frame.header, frame.payload) {
            self.0.input(to, Input::Message { from, message });
        }
    }

    /// Returns the last view that began.
    pub fn current(&self) -> Option<Ballot> {
        self.view
    }

    /// Returns whether a member of this view had too many marks and should have been left out. This
    /// happens if too few other peers promised in time, or if a lying leader chose other promises.
    pub fn had_a_barred_member(&self, ballot: Ballot) -> bool {
        let ctx = self.context(Peer(0));
        let basis = |begun: &Begun| promise::basis(&ctx, ballot, &begun.promises);
        self.begun.get(&ballot).into_iter().flatten().filter_map(basis).any(|basis| {
            let members = basis.tree.members().iter().copied().collect();
            !members::barred(&self.session, &basis.marks, &members).is_empty()
        })
    }

    /// Returns the members of a view that began.
    pub fn members_of(&self, ballot: Ballot) -> Vec<Peer> {
        self.tree_of(ballot).members().to_vec()
    }

    /// Returns the tree of a view that began.
    pub fn tree_of(&self, ballot: Ballot) -> Arc<Tree> {
        let began = self.events.iter().find_map(|(_, _, event)| match event {
            Event::ViewBegan(other, tree) if *other == ballot => Some(tree.clone()),
            _ => None,
        });
        began.unwrap()
    }

    /// Returns the masks that a peer added to a vector.
    pub fn streams_of(&self, peer: Peer, sum: SumId) -> &[Mask] {
        self.streams_used.get(&(peer, sum)).map_or(&[], Vec::as_slice)
    }

    /// Returns the sums for which a peer masked a vector.
    pub fn sums_of(&self, peer: Peer) -> BTreeSet<SumId> {
        self.streams_used.keys().filter(|(other, _)| *other == peer).map(|(_, sum)| *sum).collect()
    }

    /// Returns the session.
    pub fn session(&self) -> &Settings {
        &self.session
    }

    /// Returns the sums of `slot` for which at least one peer has an acknowledgement on disk.
    pub fn acknowledged(&self, slot: u32) -> Vec<SumId> {
        let disks = self.peers().filter_map(|peer| self.0.disk(peer).get("accepted"));
        let sums = disks.filter_map(|record| match record {
            Record::Accepted(_, record, _) => Some(record.value.sum),
            _ => None,
        });
        sums.filter(|sum| sum.slot == slot).collect()
    }

    pub(super) fn seed(&self) -> Option<Bytes> {
        self.events.iter().find_map(|(_, _, event)| match event {
            Event::Finished(history) => history.vector(0).cloned(),
            _ => None,
        })
    }

    /// Returns the events with which peers ended.
    fn ends(&self) -> impl Iterator<Item = &(Time, Peer, Event)> {
        self.ends.iter().map(|&place| &self.events[place])
    }

    /// Returns the number of peers that have finished.
    pub fn finished_count(&self) -> usize {
        let finished = self.ends().filter(|(_, _, event)| matches!(event, Event::Finished(..)));
        finished.map(|(_, peer, _)| *peer).collect::<BTreeSet<_>>().len()
    }

    /// Returns the peers that have finished, each with the values of its slots.
    pub fn finished(&self) -> BTreeMap<Peer, Vec<Value>> {
        self.ends()
            .filter_map(|(_, peer, event)| match event {
                Event::Finished(history) => Some((*peer, history.values().to_vec())),
                _ => None,
            })
            .collect()
    }

    /// Returns the endings of peers without a result.
    pub fn endings(&self) -> BTreeMap<Peer, Ending> {
        self.ends()
            .filter_map(|(_, peer, event)| match event {
                Event::Ended(ending) => Some((*peer, ending.clone())),
                _ => None,
            })
            .collect()
    }

    /// Returns the time at which the last peer finished.
    pub fn when_finished(&self) -> Option<Time> {
        self.ends().filter(|(_, _, event)| matches!(event, Event::Finished(..))).map(|(at, ..)| *at).max()
    }
}
