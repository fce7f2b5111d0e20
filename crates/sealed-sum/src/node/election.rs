//! The election: which peer proposes a view, when, and with which members (spec, section "Elections").
//!
//! Council members propose, the one of rank r after r x `proposal_backoff_ms` without progress, rank counted among
//! those that are reachable. No peer proposes before the whole roster is there or `start_wait_ms` have passed. A
//! proposer takes in all peers that it is connected to, except those that it has blamed, that keep getting
//! lost, or that are the weaker end of an edge reported dead.

mod standing;

use std::collections::{BTreeMap, BTreeSet};

use super::{Ending, Event, Message, Node, Over, Timer};
use crate::node::archive::Record;
use crate::protocol::ballot::Ballot;
use crate::protocol::promise;
#[cfg(any(test, feature = "harness"))]
use crate::protocol::promise::Duty;
use crate::protocol::record::Record as SumRecord;
use crate::protocol::transfer::Want;
use crate::protocol::view::{Reason, View};
use crate::protocol::{Action, Step, Time};
use crate::session::Peer;
pub(super) use standing::Election;
use standing::{Blocked, Proposal};

impl Node {
    /// At least `min_peers`, and a quorum of the council.
    pub(super) fn enough(&self, members: &[Peer]) -> bool {
        members.len() >= usize::from(self.ctx.session.min_peers)
            && self.ctx.council_count(members) >= self.ctx.quorum
    }

    /// The number of peers that it reaches, itself included, and whether they are enough. Called after every
    /// input, so it does not list them.
    fn reach(&self) -> (usize, bool) {
        let blamed = &self.election.blamed;
        let reached = |peer: &Peer| self.greeted.contains_key(peer) && !blamed.contains(peer);
        let others =
            self.greeted.len() - blamed.iter().filter(|peer| self.greeted.contains_key(peer)).count();
        let council = self.ctx.council.iter().filter(|&peer| *peer == self.ctx.me || reached(peer)).count();
        let enough = others + 1 >= usize::from(self.ctx.session.min_peers) && council >= self.ctx.quorum;
        (others + 1, enough)
    }

    /// This peer and all peers that it is connected to and has not blamed, ascending.
    fn reachable(&self) -> Vec<Peer> {
        let mut all: BTreeSet<_> = self.greeted.keys().copied().collect();
        all.insert(self.ctx.me);
        all.retain(|peer| !self.election.blamed.contains(peer));
        all.into_iter().collect()
    }

    /// Leader, between two slots: whether to begin a larger view now. It does so at most once per
    /// `regroup_interval_ms`, if a greeted peer that lacks at most the last slot is not in the view.
    pub(super) fn enlarges(&self, now: Time, members: &[Peer]) -> bool {
        let frozen = self.archive.frozen();
        let due = now >= self.election.entered_at.plus_ms(self.ctx.session.timing.regroup_interval_ms);
        let waits = |(peer, &theirs): (&Peer, &u32)| {
            !members.contains(peer) && !self.election.blamed.contains(peer) && theirs + 1 >= frozen
        };
        self.round.froze && due && self.greeted.iter().any(waits)
    }

    /// Ends the view that this peer leads, and proposes the next at once.
    pub(super) fn enlarge(&mut self, now: Time, step: &mut Step<Self>) {
        self.fail_view(now, Reason::Enlarged, None, None, step);
        if self.over == Over::No {
            self.propose(now, step);
        }
    }

    fn choose_members(&self) -> Vec<Peer> {
        let reachable = self.reachable();
        #[cfg(any(test, feature = "harness"))]
        if let Some(crate::protocol::context::Bug::Picks(bits)) = self.ctx.bug {
            return reachable.into_iter().filter(|peer| bits & 1 << peer.0 != 0).collect();
        }
        let skipped =
            |peer: &Peer| self.election.skipped.get(peer).is_some_and(|&until| self.election.seen <= until);
        let candidates: BTreeSet<_> =
            reachable.iter().copied().filter(|peer| *peer == self.ctx.me || !skipped(peer)).collect();
        let dropped = self.election.dropped(self.ctx.me, &candidates);
        let chosen: Vec<_> = candidates.into_iter().filter(|peer| !dropped.contains(peer)).collect();
        if self.enough(&chosen) && chosen.len() >= 3.min(reachable.len()) { chosen } else { reachable }
    }

    /// The record that the promises of this view oblige its leader to finish in `slot`; `Err` if it is not
    /// here any more.
    pub(super) fn take_resume(&mut self, slot: u32) -> Result<Option<SumRecord>, ()> {
        let obligation = self.election.obligation.take().filter(|obligation| obligation.frozen == slot);
        let Some((_, accepted)) = obligation.and_then(|obligation| obligation.resume) else {
            return Ok(None);
        };
        self.archive.sealed(&accepted.value).map(|sealed| Some(sealed.record.clone())).ok_or(())
    }

    /// Takes the steps that depend on the time and on the state, after each input.
    pub(super) fn proceed(&mut self, now: Time, step: &mut Step<Self>) {
        let complete = self.archive.frozen();
        match self.over {
            Over::Stopped => return,
            Over::Lingering(until) => {
                let everybody = self.election.finished.len() + 1 >= usize::from(self.ctx.peers());
                if everybody || now >= until {
                    self.over = Over::Stopped;
                    step.output(Event::Done);
                }
            }
            Over::No => {
                self.watch_view(now, step);
                self.catch_up(now, complete, step);
                if self.view.is_none() && self.over == Over::No {
                    self.elect(now, step);
                }
            }
        }
        self.begin_exchange(now, step);
        let busy = self.talk.goes_on()
            || self.computing.is_some()
            || self.opening.is_some()
            || self.transfer.receiving();
        if let Some(view) = &mut self.view {
            view.set_working(busy);
        }
        self.arm(now, step);
    }

    fn watch_view(&mut self, now: Time, step: &mut Step<Self>) {
        let limit = self.ctx.session.timing.compute_ms;
        if self.computing.is_some_and(|(_, since)| now >= since.plus_ms(limit)) {
            self.end(Ending::Own(format!("the computation took longer than compute_ms = {limit} ms")), step);
        } else if let Some((unreached, _, until)) = &self.round.unreached {
            let suspect = unreached.first().copied();
            if suspect.is_some() && now >= *until {
                self.fail_view(now, Reason::Lost, suspect, None, step);
            }
        }
    }

    /// Fetches the next frozen slot from a peer that has it, unless the view is about to open that very slot.
    fn catch_up(&mut self, now: Time, complete: u32, step: &mut Step<Self>) {
        if self.transfer.fetching() || self.opening.is_some() || self.over != Over::No {
            return;
        }
        if now < self.election.fetch_again {
            return;
        }
        // A vector that others have dropped is of no use where they are further: first the slots they have.
        let behind = self.greeted.values().any(|&frozen| frozen > complete);
        let lacked = self.archive.lacks(&*self.task).filter(|_| !behind);
        if let Some(view) = self.view.as_ref().filter(|_| lacked.is_none()) {
            let reached = view.slot().unwrap_or(0).max(self.round.frozen);
            if reached <= complete {
                return;
            }
        }
        let wanted = lacked.unwrap_or(complete);
        let failures = |peer: &Peer| self.election.failures(*peer);
        let due = |peer: &Peer| self.election.fetch_failures.get(peer).is_none_or(|&(_, again)| now >= again);
        // The leader has as much as its view began with, as far as who passed that on says.
        let leader = self.view.as_ref().map(|view| view.ballot().proposer);
        let leader = leader.filter(|peer| self.round.frozen > wanted && self.greeted.contains_key(peer));
        let holders = self.greeted.iter().filter(|&(_, &frozen)| frozen > wanted).map(|(&peer, _)| peer);
        let holders = holders.chain(leader).filter(due);
        if let Some(holder) = holders.min_by_key(|peer| (failures(peer), *peer)) {
            let child = self.transfer.fetch(now, holder, wanted, Want::Frozen);
            self.transferred(now, child, step);
        }
    }

    fn elect(&mut self, now: Time, step: &mut Step<Self>) {
        let timing = self.ctx.session.timing;
        let election = &mut self.election;
        if !election.gathered {
            let everybody = self.greeted.len() + 1 >= self.ctx.session.roster.len();
            let until = election.started.plus_ms(timing.start_wait_ms);
            if everybody || now >= until || election.seen > 0 {
                election.gathered = true;
                election.idle_since = now;
                election.without_view = now;
            }
        }
        if !self.election.gathered {
            return;
        }
        let (reached, enough) = self.reach();
        if !enough {
            self.election.proposal = None;
            self.election.alone = true;
            if self.election.blocked.as_ref().is_none_or(|blocked| reached > blocked.reached) {
                let why = self.too_few(&self.reachable());
                self.election.block(now, why, reached);
            }
        } else if std::mem::take(&mut self.election.alone) {
            // Enough peers again: what was impossible is not any more, and waiting starts anew.
            self.election.blocked = None;
            self.election.idle_since = now;
            self.election.without_view = now;
        }
        if self.others_go_on(now) {
            // When they are done or give up they say so.
            self.election.without_view = now;
        } else if let Some(Blocked { since, why, .. }) = &self.election.blocked {
            if now >= since.plus_ms(timing.no_quorum_timeout_ms) {
                let why = why.clone();
                self.end(Ending::TooFew(why), step);
                return;
            }
        } else if now >= self.election.without_view.plus_ms(timing.no_quorum_timeout_ms) {
            let text = format!("no view began for {} s", timing.no_quorum_timeout_ms / 1000);
            self.end(Ending::TooFew(text), step);
            return;
        }
        if enough {
            self.go_on_proposing(now, step);
        }
    }

    /// Whether others go on without this peer, or give it what it lacks: as far as they only say so, not for
    /// ever.
    pub(super) fn others_go_on(&self, now: Time) -> bool {
        let received = self.transfer.asked().filter(|_| self.transfer.receiving());
        let given = received.is_some_and(|peer| self.election.failures(peer) < 3);
        let said = !self.in_view.is_empty() || self.transfer.fetching();
        given || (said && now < self.election.patience(self.ctx.session.timing.compute_ms))
    }

    fn go_on_proposing(&mut self, now: Time, step: &mut Step<Self>) {
        let proposal_backoff_ms = self.ctx.session.timing.proposal_backoff_ms;
        let asked = self.transfer.asked();
        let fetching = asked.is_some_and(|peer| !self.election.fetch_failures.contains_key(&peer))
            || self.transfer.receiving()
            || self.opening.is_some();
        let promises = self.ctx.quorum;
        #[cfg(any(test, feature = "harness"))]
        let promises =
            if self.ctx.rule == crate::protocol::context::OpeningRule::Naive { 1 } else { promises };
        if let Some(proposal) = &mut self.election.proposal {
            let (enough, over) = (proposal.promises.len() >= promises, now >= proposal.until);
            if fetching {
                proposal.until = now.plus_ms(proposal_backoff_ms);
            } else if enough && self.begin(now, step) {
                // Begun, or what that needs is on its way.
            } else if over {
                self.election.proposal = None;
                self.election.idle_since = now;
            }
        } else if !fetching && self.turn().is_some_and(|turn| now >= turn) {
            self.propose(now, step);
        }
    }

    /// The time of this peer's turn to propose; `None` outside the council.
    fn turn(&self) -> Option<Time> {
        let mut present =
            self.ctx.council.iter().filter(|&&peer| peer == self.ctx.me || self.greeted.contains_key(&peer));
        let rank = present.position(|&peer| peer == self.ctx.me).filter(|_| !self.votes.silent)?;
        Some(self.election.idle_since.plus_ms(rank as u64 * self.ctx.session.timing.proposal_backoff_ms))
    }

    fn propose(&mut self, now: Time, step: &mut Step<Self>) {
        let highest = self.acceptor.promised.max(self.joined).counter.max(self.election.seen);
        let Some(ballot) = Ballot::above(highest, self.ctx.me) else {
            self.end(Ending::Refused("a peer has used up the numbers of views".into()), step);
            return;
        };
        self.election.saw(ballot);
        let Ok(own) = self.promise(ballot) else {
            unreachable!("BUG: the ballot is above every promise");
        };
        step.0.push(Action::Persist(Record::Promised(ballot)));
        let until = now.plus_ms(self.ctx.session.timing.proposal_backoff_ms);
        self.election.proposal = Some(Proposal {
            ballot,
            promises: BTreeMap::from([(self.ctx.me, own)]),
            refused: BTreeSet::new(),
            until,
        });
        for &peer in &self.ctx.council {
            if self.greeted.contains_key(&peer) {
                step.send(peer, Message::Prepare(ballot));
            }
        }
    }

    /// Fetches the vectors that the promises of a quorum oblige to, then begins the view. `false` while too
    /// few of the promises can be relied on.
    fn begin(&mut self, now: Time, step: &mut Step<Self>) -> bool {
        let Some(proposal) = &self.election.proposal else { return false };
        let ballot = proposal.ballot;
        let relied: Vec<_> = proposal
            .promises
            .iter()
            .filter(|&(&peer, _)| !self.election.set_aside(now, peer))
            .map(|(_, signed)| signed.clone())
            .collect();
        let Some(obligation) = promise::duty(&relied) else { return false };
        #[cfg(any(test, feature = "harness"))]
        let naive = self.ctx.rule == crate::protocol::context::OpeningRule::Naive;
        #[cfg(not(any(test, feature = "harness")))]
        let naive = false;
        if relied.len() < self.ctx.quorum && !naive {
            return false;
        }
        #[cfg(any(test, feature = "harness"))]
        let obligation = match self.ctx.bug {
            Some(crate::protocol::context::Bug::IgnoresPromises) => Duty { resume: None, ..obligation },
            _ if naive => Duty { resume: None, ..obligation },
            _ => obligation,
        };
        let frozen = self.archive.frozen();
        // What was asked for before did not come: the proposal does not wait for it.
        let asked = self.transfer.asked();
        if obligation.frozen > frozen {
            if asked == Some(obligation.holder) {
                return false;
            }
            let child = self.transfer.fetch(now, obligation.holder, frozen, Want::Frozen);
            self.transferred(now, child, step);
            return true;
        }
        let resume = obligation.resume.clone().filter(|_| obligation.frozen == frozen);
        if let Some((holder, accepted)) = &resume
            && self.archive.sealed(&accepted.value).is_none()
        {
            if asked == Some(*holder) {
                return false;
            }
            let child = self.transfer.fetch(now, *holder, frozen, Want::Accepted(accepted.value));
            self.transferred(now, child, step);
            return true;
        }
        let mut members = self.choose_members();
        // Whoever was lost is left out for a while, unless the task cannot do without it.
        if resume.is_none() && self.may_sum(&members).is_err() {
            let everybody = self.reachable();
            if self.may_sum(&everybody).is_ok() {
                members = everybody;
            }
        }
        if resume.is_none()
            && let Err(why) = self.may_sum(&members)
        {
            self.election.proposal = None;
            self.election.idle_since = now.plus_ms(self.ctx.session.timing.proposal_backoff_ms);
            self.election.block(now, why, 0);
            return true;
        }
        let view = View::new(self.ctx.clone(), ballot, members, self.fresh_seed())
            .unwrap_or_else(|| unreachable!("BUG: the proposer is a member"));
        self.election.obligation = Some(obligation.clone());
        self.enter(now, view, frozen, (relied, Some(obligation)), step);
        true
    }

    fn too_few(&self, reachable: &[Peer]) -> String {
        let roster = self.ctx.session.roster.len();
        let missing: Vec<_> = (0..self.ctx.peers())
            .map(Peer)
            .filter(|peer| !reachable.contains(peer))
            .map(|peer| match self.refused.get(&peer) {
                Some(fields) if !fields.is_empty() => {
                    format!("{} (another session: {})", self.ctx.session.name(peer), fields.join(", "))
                }
                Some(_) => format!("{} (another session)", self.ctx.session.name(peer)),
                None if self.election.blamed.contains(&peer) => {
                    format!("{} (blamed)", self.ctx.session.name(peer))
                }
                None => self.ctx.session.name(peer).to_owned(),
            })
            .collect();
        let needed = self.ctx.session.min_peers;
        let council = if reachable.len() >= usize::from(needed) {
            format!(" and {} of its council of {}", self.ctx.quorum, self.ctx.council.len())
        } else {
            String::new()
        };
        format!(
            "only {} of {roster} peers are reachable (missing: {}), the session needs {needed}{council}",
            reachable.len(),
            missing.join(", ")
        )
    }

    /// Sets a timer for the next deadline, unless one is set for then or earlier.
    fn arm(&mut self, now: Time, step: &mut Step<Self>) {
        #[cfg(any(test, feature = "harness"))]
        if self.ctx.bug == Some(crate::protocol::context::Bug::NoAlarm) {
            return;
        }
        let timing = &self.ctx.session.timing;
        let mut deadlines = Vec::new();
        match self.over {
            Over::Stopped => {}
            Over::Lingering(until) => deadlines.push(until),
            Over::No if self.view.is_some() => {
                deadlines.extend(
                    self.round.unreached.as_ref().filter(|(peers, ..)| !peers.is_empty()).map(|(.., at)| *at),
                );
                deadlines.extend(self.computing.map(|(_, since)| since.plus_ms(timing.compute_ms)));
                deadlines.extend(self.exchange_alarm());
            }
            Over::No => {
                if !self.election.gathered {
                    deadlines.push(self.election.started.plus_ms(timing.start_wait_ms));
                } else if self.others_go_on(now) {
                    deadlines.push(
                        self.election.patience(timing.compute_ms).max(now.plus_ms(timing.view_timeout_ms)),
                    );
                } else if let Some(blocked) = &self.election.blocked {
                    deadlines.push(blocked.since.plus_ms(timing.no_quorum_timeout_ms));
                } else {
                    deadlines.push(self.election.without_view.plus_ms(timing.no_quorum_timeout_ms));
                }
                if self.election.gathered && self.reach().1 {
                    match &self.election.proposal {
                        Some(proposal) => deadlines.push(proposal.until),
                        None => deadlines.extend(self.turn()),
                    }
                }
            }
        }
        if self.over == Over::No && self.election.fetch_again > now {
            deadlines.push(self.election.fetch_again);
        }
        let Some(next) = deadlines.into_iter().min() else { return };
        // A deadline that has passed is looked at again a little later, not at once: something else must
        // happen first.
        let next = next.max(now.plus_ms(10));
        if self.armed.is_none_or(|armed| next < armed || armed < now) {
            self.armed = Some(next);
            step.0.push(Action::SetTimer { at: next, timer: Timer::Wake });
        }
    }
}
