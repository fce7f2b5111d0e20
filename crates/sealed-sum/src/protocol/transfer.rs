//! Transfer of a committed or acknowledged slot to a peer that does not have it (spec, section
//! "Transfer").
//!
//! The requesting peer checks everything: the record's deals and acknowledgements by their signatures, the
//! pads by their hashes, the sealed total by the digest that was decided. So it does not matter which peer
//! it asks.
//!
//! A peer may give up a stalled transfer and request the same slot again while old messages are still on
//! their way. So pieces and credits that do not fit are ignored, not blamed. Both ends continue from their
//! current state.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::all_reduce::{self, CHUNK, WINDOW};
use super::context::Context;
use super::pairwise::Masks;
use super::record::{Committed, Record};
use super::sparse;
use super::{Action, EarlyWrite, Fault, Input, Machine, Never, Step, Time};
use crate::session::Peer;

/// Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// Decided and opened aggregate.
    Committed,
    /// Acknowledged value of this digest.
    Accepted([u8; 32]),
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// Answers [`Want::Committed`].
    Committed(Committed),
    /// Answers [`Want::Accepted`].
    Accepted(Record),
    /// Answers [`Want::Committed`] if no later slot needs the vector: only the decision, without pieces.
    Bare(Committed),
}

/// Message between the two peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Request for a slot. Control channel.
    Fetch(u32, Want),
    /// Answer if the peer does not have the slot. Control channel.
    Lacking(u32),
    /// Record; the sealed total follows. Bulk channel.
    Head(u32, Box<Held>),
    /// Piece `index` of the sealed total: [`CHUNK`] bytes, or the rest in the last piece. For a total
    /// without masks and pads, the pairs of the piece ([`sparse`]). Bulk channel.
    Piece {
        /// Aggregate.
        slot: u32,
        /// Number of the piece, from 0, in order.
        index: u32,
        /// Bytes.
        #[serde(skip)]
        data: Bytes,
    },
    /// Acknowledgement of piece `index`. Control channel.
    Credit(u32, u32),
}

/// Timer that checks whether the transfer of this number has stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(u64);

/// Report to the node.
#[derive(Debug)]
pub enum Output {
    /// A peer requests a slot; answer with [`Transfer::serve`].
    Wanted(Peer, u32, Want),
    /// The requested slot has arrived, whole and checked.
    Fetched(Peer, u32, Box<Held>, Bytes),
    /// A peer does not have a committed slot that it was asked for; [`Output::Failed`] follows.
    Lacks(Peer, u32),
    /// The requested slot did not come; ask another peer.
    Failed(Peer),
}

#[derive(Clone, Debug)]
struct Fetching {
    number: u64,
    from: Peer,
    slot: u32,
    want: Want,
    held: Option<Box<Held>>,
    buffer: Vec<u8>,
    next: u32,
    progress: Time,
}

/// Sealed total that is served.
#[derive(Clone, Debug)]
pub enum Served {
    /// Sealed total itself.
    Sealed(Bytes),
    /// Opened vector, with the pads that turn it into the sealed total again.
    Opened(Bytes, Masks),
}

impl Served {
    fn len(&self) -> usize {
        match self {
            Self::Sealed(bytes) | Self::Opened(bytes, _) => bytes.len(),
        }
    }

    fn piece(&self, index: u32) -> Bytes {
        let start = index as usize * CHUNK;
        let range = start..(start + CHUNK).min(self.len());
        match self {
            Self::Sealed(total) => total.slice(range),
            Self::Opened(opened, pads) => {
                let mut words = opened[range].to_vec();
                pads.apply(&mut words, start as u64);
                words.into()
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Serving {
    slot: u32,
    total: Served,
    next: u32,
    acknowledged: u32,
}

/// Number of times that a slot is served to one peer without a delay. After that, each request must come
/// after a longer delay: a short request costs the server a piece of the vector, and honest peers only ask
/// again after a failure.
const AT_ONCE: u32 = 4;

/// At most one transfer to this peer, and one to each other peer.
#[derive(Clone, Debug)]
pub struct Transfer {
    ctx: Arc<Context>,
    number: u64,
    fetching: Option<Fetching>,
    serving: BTreeMap<Peer, Serving>,
    /// Number of times that each slot was served to each peer, and time of the last one.
    served: BTreeMap<(Peer, u32), (u32, Time)>,
}

impl Machine for Transfer {
    crate::protocol::machine_types!(Message, Timer, Never => Never, Never, Output);

    fn handle(&mut self, now: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        match input {
            Input::Message { from, message } => {
                if let Err(fault) = self.message(now, from, message, &mut step) {
                    step.blame(from, fault);
                    self.give_up(from, &mut step);
                }
            }
            Input::PeerLost(peer) => {
                self.serving.remove(&peer);
                self.give_up(peer, &mut step);
            }
            Input::Timer(Timer(number)) => {
                if let Some(fetching) = self.fetching.as_ref().filter(|fetching| fetching.number == number) {
                    let limit = self.ctx.session.timing.view_timeout_ms;
                    if now.ms_since(fetching.progress) >= limit {
                        self.give_up(fetching.from, &mut step);
                    } else {
                        let at = fetching.progress.plus_ms(limit);
                        step.0.push(Action::SetTimer { at, timer: Timer(number) });
                    }
                }
            }
            Input::Done(never) => match never {},
            Input::Start | Input::PeerUp(_) => {}
        }
        step
    }
}

impl Transfer {
    /// Makes a machine without transfers.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self { ctx, number: 0, fetching: None, serving: BTreeMap::new(), served: BTreeMap::new() }
    }

    /// Returns whether a slot is being fetched.
    #[must_use]
    pub fn fetching(&self) -> bool {
        self.fetching.is_some()
    }

    /// Returns the peer that a slot is requested from.
    #[must_use]
    pub fn asked(&self) -> Option<Peer> {
        self.fetching.as_ref().map(|fetching| fetching.from)
    }

    /// Returns whether the record has arrived and its total is on its way. A claim to have the slot is not
    /// enough, because a peer with a false claim never sends the head.
    #[must_use]
    pub fn receiving(&self) -> bool {
        self.fetching.as_ref().is_some_and(|fetching| fetching.held.is_some())
    }

    /// Requests a slot from `from`. An earlier request is forgotten.
    pub fn fetch(&mut self, now: Time, from: Peer, slot: u32, want: Want) -> Step<Self> {
        self.number += 1;
        self.fetching = Some(Fetching {
            number: self.number,
            from,
            slot,
            want,
            held: None,
            buffer: Vec::new(),
            next: 0,
            progress: now,
        });
        let mut step = Step::none();
        step.send(from, Message::Fetch(slot, want));
        let at = now.plus_ms(self.ctx.session.timing.view_timeout_ms);
        step.0.push(Action::SetTimer { at, timer: Timer(self.number) });
        step
    }

    /// Answers [`Output::Wanted`].
    pub fn serve(&mut self, now: Time, to: Peer, slot: u32, held: Option<(Held, Served)>) -> Step<Self> {
        let mut step = Step::none();
        match held {
            None => step.send(to, Message::Lacking(slot)),
            Some((held, total)) => {
                let (times, last) = self.served.entry((to, slot)).or_default();
                (*times, *last) = (times.saturating_add(1), now);
                step.send(to, Message::Head(slot, Box::new(held)));
                self.serving.insert(to, Serving { slot, total, next: 0, acknowledged: 0 });
                self.send_pieces(to, &mut step);
            }
        }
        step
    }

    /// Returns whether the peer is served this slot now. A peer that is not served gives up and asks again
    /// later.
    fn grants(&self, now: Time, peer: Peer, slot: u32) -> bool {
        let Some(&(times, last)) = self.served.get(&(peer, slot)) else { return true };
        let Some(over) = times.checked_sub(AT_ONCE) else { return true };
        now >= last.plus_ms(self.ctx.session.timing.view_timeout_ms << over.min(8))
    }

    fn give_up(&mut self, peer: Peer, step: &mut Step<Self>) {
        if self.fetching.take_if(|fetching| fetching.from == peer).is_some() {
            step.output(Output::Failed(peer));
        }
    }

    fn send_pieces(&mut self, to: Peer, step: &mut Step<Self>) {
        let Some(serving) = self.serving.get_mut(&to) else { return };
        let pieces = pieces(serving.total.len());
        // Starts with one piece and enlarges the window, so a peer that takes no pieces costs only one.
        let window = WINDOW.min(1 + serving.acknowledged as usize);
        while serving.next < pieces && ((serving.next - serving.acknowledged) as usize) < window {
            let plain =
                self.ctx.plan.get(serving.slot as usize).is_some_and(super::context::Aggregate::plain);
            let words = serving.total.piece(serving.next);
            let data = if plain { sparse::encode(&words) } else { words };
            step.send(to, Message::Piece { slot: serving.slot, index: serving.next, data });
            serving.next += 1;
        }
        if serving.acknowledged == pieces {
            self.serving.remove(&to);
        }
    }

    fn message(&mut self, now: Time, from: Peer, said: Message, step: &mut Step<Self>) -> Result<(), Fault> {
        match said {
            Message::Fetch(slot, want) => {
                if slot as usize >= self.ctx.plan.len() {
                    return Err(Fault::Inconsistent(format!(
                        "asks for slot {slot} of {}",
                        self.ctx.plan.len()
                    )));
                }
                if self.grants(now, from, slot) {
                    step.output(Output::Wanted(from, slot, want));
                }
            }
            Message::Lacking(slot) => {
                // This is not a fault, even for a committed slot: the claim that this peer has it may come
                // from another peer, forwarded with `Begin`.
                let Some(fetching) = self.expected(from, slot) else { return Ok(()) };
                if fetching.want == Want::Committed && fetching.held.is_none() {
                    step.output(Output::Lacks(from, slot));
                }
                self.give_up(from, step);
            }
            Message::Credit(slot, index) => {
                let Some(serving) = self.serving.get_mut(&from).filter(|serving| serving.slot == slot) else {
                    return Ok(());
                };
                if index != serving.acknowledged || index >= serving.next {
                    return Ok(());
                }
                serving.acknowledged += 1;
                self.send_pieces(from, step);
            }
            Message::Head(slot, held) => {
                let Some(fetching) = self.expected(from, slot) else { return Ok(()) };
                let want = fetching.want;
                if fetching.held.is_some() || !self.answers(want, &held) {
                    return Ok(());
                }
                self.check(slot, &held).map_err(Fault::BadRecord)?;
                if let Some(fetching) = &mut self.fetching {
                    fetching.progress = now;
                    fetching.held = Some(held);
                }
                self.finish(slot, step)?;
            }
            Message::Piece { slot, index, data } => {
                let aggregate = self.ctx.plan.get(slot as usize);
                let len = aggregate.map_or(0, super::context::Aggregate::len);
                let plain = aggregate.is_some_and(super::context::Aggregate::plain);
                let Some(fetching) = self.expected(from, slot) else { return Ok(()) };
                let start = index as usize * CHUNK;
                let expected = (start + CHUNK).min(len).saturating_sub(start);
                if fetching.held.is_none() || index != fetching.next {
                    return Ok(());
                }
                let data = if plain && expected > 0 { sparse::decode(&data, expected)? } else { data };
                if data.is_empty() || data.len() != expected {
                    return Err(Fault::Inconsistent(format!(
                        "piece {index} has {} bytes, expected {expected}",
                        data.len()
                    )));
                }
                if let Some(Held::Committed(Committed { record, .. }) | Held::Accepted(record)) =
                    fetching.held.as_deref()
                {
                    let early = EarlyWrite::Chunk(record.value.sum, fetching.buffer.len(), data.clone());
                    step.0.push(Action::WriteEarly(early));
                }
                fetching.buffer.extend_from_slice(&data);
                fetching.next += 1;
                fetching.progress = now;
                step.send(from, Message::Credit(slot, index));
                self.finish(slot, step)?;
            }
        }
        Ok(())
    }

    fn expected(&mut self, from: Peer, slot: u32) -> Option<&mut Fetching> {
        self.fetching.as_mut().filter(|fetching| fetching.from == from && fetching.slot == slot)
    }

    /// Returns whether this answers the request. It may also be the late answer to an earlier request that
    /// was given up.
    fn answers(&self, want: Want, held: &Held) -> bool {
        match (want, held) {
            (Want::Committed, Held::Committed(_) | Held::Bare(_)) => true,
            (Want::Accepted(digest), Held::Accepted(record)) => record.digest(&self.ctx) == digest,
            _ => false,
        }
    }

    fn check(&self, slot: u32, held: &Held) -> Result<(), String> {
        let record = match held {
            Held::Committed(committed) | Held::Bare(committed) => {
                committed.check(&self.ctx)?;
                &committed.record
            }
            Held::Accepted(record) => {
                record.check(&self.ctx)?;
                record
            }
        };
        if record.value.sum.slot == slot {
            Ok(())
        } else {
            Err(format!("slot {}, asked for {slot}", record.value.sum.slot))
        }
    }

    fn finish(&mut self, slot: u32, step: &mut Step<Self>) -> Result<(), Fault> {
        let len = self.ctx.plan.get(slot as usize).map_or(0, super::context::Aggregate::len);
        let whole = |fetching: &mut Fetching| match fetching.held.as_deref() {
            Some(Held::Bare(_)) => true,
            _ => fetching.next >= pieces(len),
        };
        let Some(fetching) = self.fetching.take_if(whole) else { return Ok(()) };
        let Some(held) = fetching.held else { return Ok(()) };
        let value = match &*held {
            Held::Committed(committed) => &committed.record.value,
            Held::Accepted(record) => &record.value,
            Held::Bare(_) => {
                step.output(Output::Fetched(fetching.from, slot, held, Bytes::new()));
                return Ok(());
            }
        };
        if all_reduce::total_digest(&self.ctx.id.0, value.sum, &fetching.buffer) != value.total {
            step.output(Output::Failed(fetching.from));
            return Err(Fault::BadRecord("the total does not match its digest".into()));
        }
        step.0.push(Action::WriteEarly(EarlyWrite::End(value.sum, value.total)));
        step.output(Output::Fetched(fetching.from, slot, held, fetching.buffer.into()));
        Ok(())
    }
}

fn pieces(len: usize) -> u32 {
    u32::try_from(len.div_ceil(CHUNK)).unwrap_or(u32::MAX)
}
