//! How a simulated peer breaks the protocol: what leaves it is changed, its own machine knows nothing of it.

use super::engine::Carriage;
use super::scenario::Tamper;
use super::swarm::Swarm;
use crate::crypto::identity::Identity;
use crate::protocol::all_reduce;
use crate::protocol::deal::Release;
use crate::protocol::message::Message;
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Order, Report};
use crate::protocol::wire::{self, Frame};
use crate::session::Peer;

/// Changes a frame of `from`, if it is its turn.
pub(super) fn apply(
    swarm: &mut Swarm,
    identity: &Identity,
    from: Peer,
    message: &Message,
    frame: &mut Frame,
) -> Carriage {
    let Some((how, every, count)) = swarm.tampering.get_mut(&from) else { return Carriage::Carry };
    let how = *how;
    let suits = match how {
        Tamper::FlipBits => true,
        Tamper::Replay => matches!(
            message,
            Message::View(view::Message::Up(..) | view::Message::Reduce(all_reduce::Message::Chunk { .. }))
        ),
        Tamper::VectorLength => {
            frame.payload.len() > 4
                && matches!(message, Message::View(view::Message::Reduce(all_reduce::Message::Chunk { .. })))
        }
        Tamper::WrongShare => {
            releases(message).is_some_and(|items| items.iter().any(|item| item.author == from))
        }
        Tamper::Poison => false,
    };
    if !suits {
        return Carriage::Carry;
    }
    *count += 1;
    if !count.is_multiple_of(*every) {
        return Carriage::Carry;
    }
    match how {
        Tamper::FlipBits => {
            let mut bytes = frame.header.to_vec();
            let at = swarm.noise.below(u32::try_from(bytes.len()).unwrap_or(u32::MAX)) as usize;
            bytes[at] ^= 1 << swarm.noise.below(8);
            frame.header = bytes.into();
        }
        Tamper::Replay => return Carriage::Twice,
        Tamper::VectorLength => frame.payload = frame.payload.slice(..frame.payload.len() - 4),
        Tamper::WrongShare => {
            let ctx = swarm.ctx.of(from, identity.clone());
            let mut changed = message.clone();
            for item in releases_mut(&mut changed).into_iter().flatten().filter(|item| item.author == from) {
                let mut shares = item.item.shares.clone();
                // The low byte: it stays a scalar.
                shares.iter_mut().for_each(|(_, share)| share[0] ^= 1);
                *item = Signed::new(&ctx, Release { shares, ..item.item.clone() });
            }
            *frame = wire::encode(&changed);
        }
        Tamper::Poison => {}
    }
    Carriage::Carry
}

fn releases(message: &Message) -> Option<&Vec<Signed<Release>>> {
    match message {
        Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) => Some(items),
        _ => None,
    }
}

fn releases_mut(message: &mut Message) -> Option<&mut Vec<Signed<Release>>> {
    match message {
        Message::View(
            view::Message::Up(_, Report::Release(_, items)) | view::Message::Down(_, Order::Open(_, items)),
        ) => Some(items),
        _ => None,
    }
}
