//! Exchanges statements about a check that failed, or about a round that did not arrive
//! ([`super::super::accounts`]).
//!
//! A computing member that finds a failure signs a statement about it and sends it to all peers of the
//! exchange. The other two stop computing and answer with their own statements. Each computing member passes
//! on statements that are new to it. From all three statements, each peer finds the same pair. The two
//! members of the pair do not compute together again.

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
    /// At most one statement of each computing member about each subject.
    known: Vec<Signed<Statement>>,
    /// The peers that the statements name. One of them deviates.
    named: Option<Vec<Peer>>,
    /// If this peer is a computing member: number of heartbeats since it learnt of a failure.
    ticks: u64,
}

impl Compute {
    /// Returns this member's statement about a subject, if it can make one now.
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

    /// Tells all peers that a check at this place has failed or, without a place, that the next round has not
    /// arrived.
    pub(super) fn begin_statements(&mut self, place: Option<Place>, step: &mut Step<Vocabulary>) {
        self.state(place, true, step);
        self.conclude(step);
    }

    /// Signs and sends this member's statement about a subject. The member then stops computing.
    fn state(&mut self, place: Option<Place>, begins: bool, step: &mut Step<Vocabulary>) {
        let (parties, Some(topic)) = (self.trio, self.statement(place)) else { return };
        let statement = Statement { sum: self.setup.sum, parties, begins, topic };
        self.statements.known.push(Signed::new(&self.setup.ctx, statement));
        self.party.iter_mut().for_each(|party| party.stop());
        self.pass_on(place, step);
    }

    fn pass_on(&self, place: Option<Place>, step: &mut Step<Vocabulary>) {
        tell(self.peers(), &Body::Statements(self.about(place).cloned().collect()), step);
    }

    /// Handles statements of the computing members.
    pub(super) fn hear_statements(
        &mut self,
        statements: Vec<Signed<Statement>>,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        if self.statements.named.is_some() {
            return Ok(());
        }
        let trio = self.trio;
        if statements.is_empty() || statements.len() > MOST {
            return Err(Fault::Inconsistent(format!("{} statements", statements.len())));
        }
        let mut heard = Vec::new();
        for signed in statements {
            let Statement { sum, parties, .. } = &signed.item;
            if *sum != self.setup.sum || *parties != trio || !trio.contains(&signed.author) {
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

    /// Names a computing member that has signed statements that no honest member signs.
    fn contradicts(
        &mut self,
        one: Signed<Statement>,
        other: Signed<Statement>,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        let author = one.author;
        let evidence = if one == other { vec![one] } else { vec![other, one] };
        // The first statements about each subject are sent before the others, because a receiver refuses an
        // answer to a statement that it does not have.
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

    /// Answers statements about subjects for which this member has made no statement.
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
            // This member knows a member that deviates, and so its program has ended before its time.
            if let Some((peer, _)) = self.alone {
                return self.fail(Reason::Disagreement, Some(peer), step);
            }
            // A member whose check has failed has stopped. A statement about rounds would hide the reason.
            if place.is_none() && self.subject().is_some_and(|subject| subject.is_some()) {
                continue;
            }
            // The answer waits until the running job of this member is done.
            let idle = self.party.as_ref().map_or(!self.watch.is_busy(), |party| !party.is_running());
            if !idle {
                return;
            }
            if self.statement(place).is_some() {
                self.state(place, false, step);
            } else if let Some((_, peer)) = self.waits().filter(|_| self.party.is_none()) {
                // This member has not begun to compute, because it waits for another peer.
                return self.fail(Reason::Stalled, Some(peer), step);
            } else {
                // An honest member reports this failure only after this one has sent the messages of that
                // place.
                return self.fail(Reason::Disagreement, Some(author), step);
            }
        }
        self.conclude(step);
    }

    /// Names the pair when the statements of all three members about a subject are here. If this peer is in
    /// the pair, it ends the view and suspects the other one.
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

    /// Returns the subject that this peer waits for statements about: the first place, or the rounds if no
    /// statement is about a place.
    fn subject(&self) -> Option<Option<Place>> {
        let known = || self.statements.known.iter().map(|signed| signed.item.place());
        known().find(Option::is_some).or_else(|| known().next())
    }

    /// Returns whether this peer knows of a failure.
    pub(super) fn has_statements(&self) -> bool {
        !self.statements.known.is_empty()
    }

    /// Returns a computing member whose statement is missing. If peers have been named, returns one of them,
    /// because it must end the view.
    pub(super) fn owes_statement(&self) -> Option<Peer> {
        let mut others = self.trio.into_iter().filter(|peer| *peer != self.me());
        if let Some(named) = &self.statements.named {
            return others.find(|peer| named.contains(peer));
        }
        let place = self.subject()?;
        others.find(|peer| !self.about(place).any(|signed| signed.author == *peer))
    }

    /// Returns whether this peer waits for the statement of `peer` about a failed check.
    pub(super) fn owes_account(&self, peer: Peer) -> bool {
        let open = self.statements.named.is_none();
        open && matches!(self.subject(), Some(Some(_))) && self.owes_statement() == Some(peer)
    }

    /// Counts a heartbeat. Returns a computing member that has not made its statement in time. Signs of life
    /// do not extend the time, because a statement takes no work. But the member may first have to end a
    /// computation, which may be several times as slow as here.
    pub(super) fn overdue_statement(&mut self) -> Option<Peer> {
        let running = self.party.as_ref().is_some_and(|party| party.is_running());
        if self.number().is_none() || !self.has_statements() || running {
            return None;
        }
        self.statements.ticks += 1;
        let patience = self.setup.patience_ms + 4 * self.watch.longest_job_ms();
        let late = self.statements.ticks * HEARTBEAT_MS >= patience;
        self.owes_statement().filter(|_| late && self.statements.named.is_none())
    }
}
