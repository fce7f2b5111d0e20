//! Statements about a check that fails, or about rounds that do not come ([`super::super::accounts`]).
//!
//! A party that finds a failure signs its account of it and sends it to all peers of the exchange. The other
//! two stop and answer with their own accounts. Each party passes on what it has not seen before. With all
//! three accounts each peer knows the same pair. Its two members do not compute
//! together again.

use super::super::accounts::{MOST, Statement, Topic, contradiction, pair};
use super::super::talk::{Body, tell};
use super::Compute;
use crate::protocol::signed::Signed;
use crate::protocol::view::{HEARTBEAT_MS, Reason};
use crate::protocol::wire::canonical;
use crate::protocol::{Fault, Step};
use crate::session::Peer;
use crate::tasks::exchange::{Exchange as _, Output, Vocabulary};
use flyswarm_mpc::shares::accounts::Place;

/// Statements that this peer knows.
#[derive(Default)]
pub(super) struct Statements {
    /// At most one of each party about each subject.
    known: Vec<Signed<Statement>>,
    /// Peers that are named: one of them deviates.
    named: Option<Vec<Peer>>,
    /// Heartbeats since this peer, a party, knows of a failure.
    ticks: u64,
}

impl Compute {
    /// Returns this party's statement about a subject, if it can make one now.
    fn statement(&self, place: Option<Place>) -> Option<Topic> {
        let party = self.party.as_ref().filter(|party| !party.is_running())?;
        match place {
            Some(place) => Some(Topic::Check(place, party.account(place)?)),
            None => Some(Topic::Rounds(party.progress())),
        }
    }

    fn about(&self, place: Option<Place>) -> impl Iterator<Item = &Signed<Statement>> + Clone {
        self.statements.known.iter().filter(move |signed| signed.item.place() == place)
    }

    /// Tells all peers that a check of this place fails, or that the next round does not come.
    pub(super) fn begin_statements(&mut self, place: Option<Place>, step: &mut Step<Vocabulary>) {
        self.state(place, true, step);
        self.conclude(step);
    }

    /// Signs and sends this party's statement about a subject. It computes no further.
    fn state(&mut self, place: Option<Place>, begins: bool, step: &mut Step<Vocabulary>) {
        let (Some(parties), Some(topic)) = (self.trio, self.statement(place)) else { return };
        let statement = Statement { sum: self.setup.sum, parties, begins, topic };
        self.statements.known.push(Signed::new(&self.setup.ctx, statement));
        self.party.iter_mut().for_each(|party| party.stop());
        self.pass_on(place, step);
    }

    fn pass_on(&self, place: Option<Place>, step: &mut Step<Vocabulary>) {
        tell(self.peers(), &Body::Statements(self.about(place).cloned().collect()), step);
    }

    /// Takes statements of the parties.
    pub(super) fn hear_statements(
        &mut self,
        statements: Vec<Signed<Statement>>,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        // A peer that does not know the parties yet is not one of them.
        let Some(trio) = self.trio.filter(|_| self.statements.named.is_none()) else { return Ok(()) };
        if statements.is_empty() || statements.len() > MOST {
            return Err(Fault::Inconsistent(format!("{} statements", statements.len())));
        }
        let mut heard = Vec::new();
        for signed in statements {
            let Statement { sum, parties, .. } = &signed.item;
            // A candidate may have told peers different beginnings.
            if *parties != trio {
                return Ok(());
            }
            if *sum != self.setup.sum || !trio.contains(&signed.author) {
                return Err(Fault::Inconsistent("a statement of another view or peer".into()));
            }
            if self.statements.known.contains(&signed) {
                continue;
            }
            if !signed.verify(&self.setup.ctx) {
                return Err(Fault::BadSignature("account"));
            }
            heard.push(signed);
        }
        for signed in heard {
            let place = signed.item.place();
            let known = self.statements.known.iter();
            let other = known.chain([&signed]).find(|other| contradiction(&signed, other).is_some()).cloned();
            if let Some(other) = other {
                return self.contradicts(signed, other, step);
            }
            if !signed.item.begins && !self.about(place).any(|known| known.item.begins) {
                return Err(Fault::Inconsistent("an answer to nothing".into()));
            }
            self.statements.known.push(signed);
            if self.number().is_some() {
                self.pass_on(place, step);
            }
        }
        self.answer(step);
        self.conclude(step);
        Ok(())
    }

    /// Names a party that has signed what no honest party signs.
    fn contradicts(
        &mut self,
        one: Signed<Statement>,
        other: Signed<Statement>,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        let author = one.author;
        let evidence = if one == other { vec![one] } else { vec![other, one] };
        // Beginnings come first: without them the receiver has no subject.
        let begun = self.statements.known.iter().filter(|signed| signed.item.begins).cloned();
        let mut told: Vec<_> = begun.chain(evidence.iter().cloned()).collect();
        told.dedup();
        tell(self.peers(), &Body::Statements(told), step);
        self.name(vec![author], &evidence, step);
        if author != self.me() {
            let fault = "it has signed two different accounts, or an account of a failure without one";
            self.blame(author, Fault::Inconsistent(fault.into()), step);
        }
        Ok(())
    }

    fn name(&mut self, peers: Vec<Peer>, evidence: &Vec<Signed<Statement>>, step: &mut Step<Vocabulary>) {
        step.output(Output::Named(peers.clone(), canonical(evidence).into()));
        self.statements.named = Some(peers);
    }

    /// Answers the statements of others about subjects that this party has not spoken about.
    pub(super) fn answer(&mut self, step: &mut Step<Vocabulary>) {
        if self.number().is_none() || self.statements.named.is_some() || self.failed {
            return;
        }
        let begun = self.statements.known.iter().filter(|signed| signed.item.begins);
        let begun: Vec<(Option<Place>, Peer)> = begun.map(|of| (of.item.place(), of.author)).collect();
        for (place, author) in begun {
            if self.about(place).any(|known| known.author == self.me()) {
                continue;
            }
            // An answer waits until this party's job is done.
            let idle = self.party.as_ref().map_or(!self.watch.is_busy(), |party| !party.is_running());
            if !idle {
                return;
            }
            if self.statement(place).is_some() {
                self.state(place, false, step);
            } else if let Some((_, peer)) = self.waits().filter(|_| self.party.is_none()) {
                // This party has not begun to compute, because it waits for another peer.
                return self.fail(Reason::Stalled, Some(peer), step);
            } else {
                // An honest party does not begin before this one has told what it tells there.
                return self.fail(Reason::Disagreement, Some(author), step);
            }
        }
        self.conclude(step);
    }

    /// Names the pair when the statements of all three parties about a subject are here. A member of the
    /// pair ends the view because of the other one.
    fn conclude(&mut self, step: &mut Step<Vocabulary>) {
        let places: Vec<_> = self.statements.known.iter().map(|signed| signed.item.place()).collect();
        if self.statements.named.is_some() || self.failed {
            return;
        }
        for place in places {
            let Some(pair) = pair(self.about(place)) else { continue };
            let evidence: Vec<_> = self.about(place).cloned().collect();
            self.name(pair.into(), &evidence, step);
            if pair.contains(&self.me()) {
                let other = if pair[0] == self.me() { pair[1] } else { pair[0] };
                self.fail(Reason::Disagreement, Some(other), step);
            }
            return;
        }
    }

    /// Returns whether this peer knows of a failure.
    pub(super) fn has_statements(&self) -> bool {
        !self.statements.known.is_empty()
    }

    /// Returns the party whose statement is missing, or a member of the named pair, which must end the view.
    pub(super) fn owes_statement(&self) -> Option<Peer> {
        let mut others = self.trio?.into_iter().filter(|peer| *peer != self.me());
        if let Some(named) = &self.statements.named {
            return others.find(|peer| named.contains(peer));
        }
        let place = self.statements.known.first()?.item.place();
        others.find(|peer| !self.about(place).any(|signed| signed.author == *peer))
    }

    /// Counts a heartbeat. Returns a party that has not made its statement in time. Signs of life do not
    /// help: a statement takes no work.
    pub(super) fn overdue_statement(&mut self) -> Option<Peer> {
        let running = self.party.as_ref().is_some_and(|party| party.is_running());
        if self.number().is_none() || !self.has_statements() || running {
            return None;
        }
        self.statements.ticks += 1;
        let late = self.statements.ticks * HEARTBEAT_MS >= self.setup.patience_ms;
        self.owes_statement().filter(|_| late && self.statements.named.is_none())
    }
}
