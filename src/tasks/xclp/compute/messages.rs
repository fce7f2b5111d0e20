//! Handles messages of the other peers in the first exchange.

use std::sync::PoisonError;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::super::talk::{Body, WINDOW, What, read, tell};
use super::Compute;
use crate::protocol::{Fault, Input, Machine as _, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Content, Vocabulary};
use crate::tasks::xclp::shares::party::Frame;

impl Compute {
    pub(super) fn message(
        &mut self,
        from: Peer,
        content: Content,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        let (body, data) = read(content)?;
        if !self.participants().contains(&from) {
            return Err(Fault::OutOfOrder("message of a peer without a part in the exchange"));
        }
        match body {
            Body::Commitment(commitment) => {
                self.is_owner(from)?;
                self.commits(from, commitment)?;
                if self.commitments.insert(from, commitment).is_some() {
                    return Err(Fault::OutOfOrder("second commitment to an input"));
                }
                Ok(())
            }
            Body::Copies(copies) => {
                self.is_owner(from)?;
                if !self.commitments.contains_key(&from) || self.copies.insert(from, copies).is_some() {
                    return Err(Fault::OutOfOrder("hashes of shares before a commitment, or again"));
                }
                self.share_out(step);
                // The last announcement may arrive after the shares of all owners.
                self.compute_if_all_is_here(step);
                Ok(())
            }
            Body::Holds(hash) => self.holds(from, hash, step),
            Body::Statements(statements) => self.hear_statements(statements, step),
            Body::Credit => self.outgoing.credit(from, step),
            Body::KeepAlive => Ok(()),
            Body::Part { what, last } => self.part(from, what, last, data, step),
        }
    }

    pub(super) fn part(
        &mut self,
        from: Peer,
        what: What,
        last: bool,
        data: Bytes,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        const NOT_MINE: Fault = Fault::OutOfOrder("vector for a peer with another part");
        let early = match what {
            What::Input => false,
            What::Round(_) => self.party.is_none(),
            // `Pairs` keeps a vector that comes before its turn, and gives the credits for it later.
            What::Pair(number) => {
                let pairs = self.pairs.as_mut().ok_or(NOT_MINE)?;
                return pairs.part(from, number, &data, last);
            }
            What::Output => return Err(NOT_MINE),
        };
        if early {
            if self.number().is_none()
                || self.early.iter().filter(|(peer, ..)| *peer == from).count() > 2 * WINDOW
            {
                return Err(NOT_MINE);
            }
            self.early.push((from, what, last, data));
            return Ok(());
        }
        if !last {
            tell([from], &Body::Credit, step);
        }
        match what {
            What::Input => {
                let number = self.number().ok_or(NOT_MINE)?;
                let mut owners = self.setup.owners.iter().enumerate();
                let (place, &(_, rows)) = owners.find(|(_, (peer, _))| *peer == from).ok_or(NOT_MINE)?;
                let length = self.setup.computation.parcel_bytes(rows, place, number);
                if let Some(parcel) = self.incoming.entry(from).or_default().take(&data, last, length)? {
                    self.inputs.insert(from, Zeroizing::new(parcel));
                    self.compute_if_all_is_here(step);
                }
            }
            What::Round(round) => {
                let message = Frame { round, last, data };
                let party = self.party.as_mut().ok_or(NOT_MINE)?;
                let done = party.handle(Time(0), Input::Message { from, message });
                self.carry_out(done, step);
            }
            What::Output | What::Pair(_) => {}
        }
        Ok(())
    }

    pub(super) fn is_owner(&self, peer: Peer) -> Result<(), Fault> {
        let owner = self.setup.owners.iter().any(|(owner, _)| *owner == peer);
        owner.then_some(()).ok_or(Fault::OutOfOrder("an input of a peer without rows"))
    }

    /// Checks the commitment of an owner. It must be the same in all views of a session, because an owner has
    /// only one input.
    fn commits(&self, owner: Peer, commitment: [u8; 32]) -> Result<(), Fault> {
        let mut seen = self.setup.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen.entry(owner).or_insert(commitment) != commitment {
            return Err(Fault::Inconsistent("it commits to another input than in an earlier view".into()));
        }
        Ok(())
    }
}
