//! Exchange of two owners by oblivious transfer (spec, section 15c, `ot`): the receiver sends the vectors
//! `Base` and `Columns`, the sender `Choices` and `Strings`.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{Side, Terms};
use crate::protocol::Fault;
use crate::sketch::lsh::Codes;
use crate::tasks::xclp::hamming::ot::{self, Cut, Piece};
use flyswarm_mpc::ot::extension::{Receiver, Sender};
use flyswarm_mpc::ot::{BASE, WORD, base};

/// Largest number of pieces whose columns were sent and whose strings have not arrived.
pub(super) const AHEAD: usize = 4;

/// Lengths of the vectors that one side receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    receives: bool,
    cut: Cut,
}

impl Expected {
    /// Creates the lengths for the receiver or for the sender.
    pub(super) fn new(receives: bool, own: usize, theirs: usize, bits: usize) -> Self {
        let (receiver, sender) = if receives { (own, theirs) } else { (theirs, own) };
        Self { receives, cut: Cut::new(receiver, sender, bits) }
    }

    pub(super) fn length(&self, number: usize) -> Option<usize> {
        let Some(piece) = number.checked_sub(1) else {
            return Some(if self.receives { 32 * BASE } else { 32 });
        };
        let words = WORD * (piece < self.cut.pieces()).then(|| self.cut.piece(piece).words)?;
        Some(if self.receives { 2 * self.cut.sender * words } else { 16 * words })
    }
}

/// Creates one side of the exchange. The owner with fewer rows is the receiver.
pub(super) fn side(terms: Terms) -> Box<dyn Side> {
    let Terms { session, sum, me, other, rows, ref codes, ref secret } = terms;
    let receives = terms.is_smaller();
    let Expected { cut, .. } = Expected::new(receives, codes.rows(), rows, codes.bits());
    let (receiver, sender) = if receives { (me, other) } else { (other, me) };
    let context = ot::context(&session, sum.ballot, receiver, sender);
    let sums = Zeroizing::new(vec![0; cut.receiver * cut.sender]);
    let (codes, done) = (Arc::clone(codes), 0);
    if receives {
        let base = Some(base::Sender::new(&context, secret));
        Box::new(Receiving { cut, context, base, told: false, transfers: None, codes, begun: 0, done, sums })
    } else {
        Box::new(Sending { cut, context, secret: secret.clone(), transfers: None, codes, done, sums })
    }
}

/// Adds the sums of a piece to the sums of its row.
fn add(sums: &mut [u16], cut: Cut, piece: Piece, part: &[u16]) {
    let row = &mut sums[piece.row * cut.sender..][..cut.sender];
    row.iter_mut().zip(part).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
}

fn no_point(what: &str) -> Fault {
    Fault::Malformed(format!("the {what} of its transfers are no points of the group"))
}

struct Receiving {
    cut: Cut,
    context: [u8; 32],
    base: Option<base::Sender>,
    told: bool,
    transfers: Option<Receiver>,
    codes: Arc<Codes>,
    /// Number of pieces whose columns were sent.
    begun: usize,
    done: usize,
    sums: Zeroizing<Vec<u16>>,
}

impl Side for Receiving {
    fn ready(&self) -> bool {
        let room = self.begun < self.cut.pieces() && self.begun < self.done + AHEAD;
        !self.told || (self.transfers.is_some() && room)
    }

    fn work(&self) -> u64 {
        if self.transfers.is_none() {
            return BASE as u64 * 500_000;
        }
        (4 * WORD * self.cut.step * (self.cut.sender + BASE)) as u64
    }

    fn step(&mut self, vector: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault> {
        let (cut, codes) = (self.cut, &self.codes);
        match (vector, &self.transfers) {
            (None, None) => {
                self.told = true;
                Ok(self.base.as_ref().map(|base| base.message().to_vec()))
            }
            (Some(choices), None) if self.told => {
                let keys = self.base.take().and_then(|base| base.keys(choices));
                let keys = keys.ok_or_else(|| no_point("choices"))?;
                self.transfers = Some(Receiver::new(&self.context, &keys));
                Ok(None)
            }
            (None, Some(transfers)) => {
                let piece = cut.piece(self.begun);
                self.begun += 1;
                Ok(Some(ot::columns(transfers, cut, piece, codes)))
            }
            (Some(strings), Some(transfers)) if self.done < self.begun => {
                let piece = cut.piece(self.done);
                let part = Zeroizing::new(ot::receive(transfers, cut, piece, codes, strings));
                add(&mut self.sums, cut, piece, &part);
                self.done += 1;
                Ok(None)
            }
            (Some(_), _) => Err(Fault::OutOfOrder("answer to what was not sent")),
        }
    }

    fn share(&mut self) -> Option<Zeroizing<Vec<u16>>> {
        (self.done == self.cut.pieces()).then(|| std::mem::take(&mut self.sums))
    }
}

struct Sending {
    cut: Cut,
    context: [u8; 32],
    secret: Zeroizing<[u8; 32]>,
    /// The sender of the transfers, and the vectors of all transfers of a row.
    transfers: Option<(Sender, Zeroizing<Vec<u16>>)>,
    codes: Arc<Codes>,
    /// Number of pieces whose strings have been made.
    done: usize,
    sums: Zeroizing<Vec<u16>>,
}

impl Side for Sending {
    fn ready(&self) -> bool {
        false
    }

    fn work(&self) -> u64 {
        if self.transfers.is_none() {
            return (BASE * 1_000_000 + self.codes.rows() * self.codes.bits()) as u64;
        }
        (4 * WORD * self.cut.step * (self.cut.sender + BASE)) as u64
    }

    fn step(&mut self, vector: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault> {
        let (cut, vector) = (self.cut, vector.unwrap_or_default());
        let Some((transfers, vectors)) = &self.transfers else {
            let message = vector.first_chunk().ok_or_else(|| no_point("base"))?;
            let choices = ot::choices(&self.secret);
            let chosen = base::choose(&self.context, message, choices, &self.secret);
            let (reply, keys) = chosen.ok_or_else(|| no_point("base"))?;
            let vectors = Zeroizing::new(ot::vectors(&self.codes));
            self.transfers = Some((Sender::new(&self.context, choices, &keys), vectors));
            return Ok(Some(reply));
        };
        let piece = cut.piece(self.done);
        let (strings, part) = ot::send(transfers, cut, piece, vector, vectors);
        add(&mut self.sums, cut, piece, &Zeroizing::new(part));
        self.done += 1;
        Ok(Some(strings))
    }

    fn share(&mut self) -> Option<Zeroizing<Vec<u16>>> {
        let whole = self.done == self.cut.pieces();
        whole.then(|| Zeroizing::new(ot::sender_share(&self.codes, &std::mem::take(&mut self.sums))))
    }
}
