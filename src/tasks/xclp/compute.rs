//! The first exchange (spec, section 15b). Owners send shares of their input to three computing members,
//! which carry out the whole computation and keep their shares of the output. They send no output before the
//! committee has decided whose rows were used.
//!
//! 1. The computing members follow from the candidates, the members and the marks of the view ([`parties`]).
//! 2. Each owner announces a commitment to its input to all peers. No peer gets data about another owner's
//!    input before it has all commitments.
//! 3. If the session requires it, every two owners make shares of their distances ([`Pairs`]).
//! 4. Owners announce hashes of their shares. When all owners have done so, each owner sends each computing
//!    member its shares of codes (or of distances) and of labels. All shares are made with fresh randomness.
//! 5. The computing members compare the announcements that they got, and run the rounds of the program
//!    ([`Party`]).
//! 6. Every two computing members compare the share of the output that both hold ([`agree`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zeroize::Zeroizing;

use super::computation::{Labels, Prepared, sealed};
use super::computed::{Computed, inputs_digest};
use super::pairs::{Pairs, Stepped, rounds};
use super::parties;
pub(crate) use super::setup::{FirstCommitments, Rows, Setup};
use super::talk::{Body, Incoming, Outgoing, What, read, tell};
use super::watch::Watch;
use crate::crypto::stream::derive;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{HEARTBEAT_MS, Reason};
use crate::protocol::{Action, Fault, Input, Machine as _, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Content, Done, Exchange, Job, Output, Roles, Vocabulary};
use crate::tasks::xclp::shares::input::{Announced, Inputs, parcels_of_distances};
use crate::tasks::xclp::shares::output::Sealed;
use crate::tasks::xclp::shares::party::Frame;
use crate::tasks::xclp::shares::program::Outcome;
use crate::tasks::xclp::shares::round::Side;
use crate::tasks::xclp::shares::{Keys, Party, Turn};

mod accounts;
pub(super) mod agree;
mod messages;

/// Result of a job.
enum JobResult {
    /// This owner's input after preparation.
    Input(Prepared),
    /// A step of the exchange with another owner.
    Pair(Stepped),
    /// The unpacked inputs of all owners, or the owner whose input is invalid.
    Unpacked(Result<Vec<Inputs>, Peer>),
    /// The program waits for a round, or has ended.
    Turn(Turn),
}

/// The machine of one peer in the first exchange.
pub(crate) struct Compute {
    setup: Setup,
    watch: Watch,
    outgoing: Outgoing,
    /// The computing members.
    trio: [Peer; 3],
    /// For an owner that makes shares of distances: its exchanges with other owners, until it has all shares.
    pairs: Option<Pairs>,
    /// For an owner: its parcels until they are sent.
    parcels: Option<[Bytes; 3]>,
    sent: bool,
    /// Announcements of the owners: first commitments, then hashes of shares.
    commitments: BTreeMap<Peer, [u8; 32]>,
    copies: BTreeMap<Peer, [[u8; 32]; 3]>,
    incoming: BTreeMap<Peer, Incoming>,
    inputs: BTreeMap<Peer, Zeroizing<Vec<u8>>>,
    /// For a computing member: the digest of the commitments of all owners.
    digest: [u8; 32],
    /// Parts of vectors that came before the program was running.
    early: Vec<(Peer, What, bool, Bytes)>,
    party: Option<Party>,
    sealed: Option<Sealed>,
    /// Hashes that the other computing members sent of their shares of the output.
    held: BTreeMap<Peer, [u8; 32]>,
    /// A computing member that claims that an owner has announced something else to it and must prove this,
    /// and the number of heartbeats for which this peer has waited for the proof.
    alone: Option<(Peer, u64)>,
    /// Statements of computing members about a failure.
    statements: accounts::Statements,
    /// True if this peer has nothing more to do, or has ended the view.
    over: bool,
    failed: bool,
}

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compute({:?})", self.setup)
    }
}

impl Compute {
    /// Creates the machine, which has not started. Returns `None` if no three candidates may compute in this
    /// view. No honest leader begins such a view.
    #[must_use]
    pub(crate) fn new(setup: Setup) -> Option<Self> {
        let trio = parties::trio(&setup.candidates, &setup.members, &setup.marks).ok()?;
        Some(Self {
            watch: Watch::new(setup.patience_ms, setup.longest_ms),
            pairs: Pairs::new(&setup),
            setup,
            outgoing: Outgoing::default(),
            trio,
            parcels: None,
            sent: false,
            commitments: BTreeMap::new(),
            copies: BTreeMap::new(),
            incoming: BTreeMap::new(),
            inputs: BTreeMap::new(),
            digest: [0; 32],
            early: Vec::new(),
            party: None,
            sealed: None,
            held: BTreeMap::new(),
            alone: None,
            statements: accounts::Statements::default(),
            over: false,
            failed: false,
        })
    }

    fn me(&self) -> Peer {
        self.setup.ctx.me
    }

    fn participants(&self) -> BTreeSet<Peer> {
        let here = self.setup.candidates.iter().filter(|peer| self.setup.members.contains(peer));
        self.setup.owners.iter().map(|(peer, _)| *peer).chain(here.copied()).collect()
    }

    /// Returns this peer's number among the computing members.
    fn number(&self) -> Option<usize> {
        self.trio.iter().position(|peer| *peer == self.me())
    }

    fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        self.watch.start(now, step);
        let (place, seeds) = self.sharing();
        let owner = (self.setup.ctx.id.0, self.me(), place);
        if let Some((work, prepare)) = self.setup.computation.prepare(owner, seeds) {
            self.job(work, move || JobResult::Input(prepare()), step);
        }
    }

    /// Returns this owner's place, and the two seeds and the salt of its shares.
    fn sharing(&self) -> (usize, [Zeroizing<[u8; 32]>; 3]) {
        let place = self.setup.owners.iter().position(|(peer, _)| *peer == self.me()).unwrap_or(0);
        (place, ["one", "two", "salt"].map(|number| derive(&*self.setup.seed, "input", number.as_bytes())))
    }

    /// Continues the exchanges with other owners. After the last of them, makes the parcels.
    fn pair_up(&mut self, step: &mut Step<Vocabulary>) {
        let ready = self.commitments.len() == self.setup.owners.len() && !self.over;
        let Some(pairs) = self.pairs.as_mut().filter(|_| ready) else { return };
        if let Some((peer, credits)) = pairs.credits() {
            (0..credits).for_each(|_| tell([peer], &Body::Credit, step));
        }
        // If messages to this peer wait for credits, no more are made for it.
        if pairs.other().is_some_and(|peer| self.outgoing.is_waiting(peer)) {
            return;
        }
        if let Some((work, run)) = pairs.step() {
            self.job(work, move || JobResult::Pair(run()), step);
        } else if let (Some(parts), Some(&commitment)) = (pairs.take(), self.commitments.get(&self.me())) {
            self.pairs = None;
            let (place, seeds) = self.sharing();
            let Some(Labels { plan, rows, .. }) = self.setup.computation.labels() else { return };
            let (classes, labels) = (plan.classes(), rows.as_ref().map(Rows::shared).unwrap_or_default());
            self.job(
                parts.len() as u64,
                move || {
                    let parcels = parcels_of_distances(&parts, &labels, classes, place, &seeds);
                    JobResult::Input(Prepared::Parcels(sealed(&parcels), Announced::of(commitment, &parcels)))
                },
                step,
            );
        }
    }

    /// Starts a job that may take long.
    fn job(
        &mut self,
        work: u64,
        run: impl FnOnce() -> JobResult + Send + 'static,
        step: &mut Step<Vocabulary>,
    ) {
        self.work(work, false, run, step);
    }

    fn work(
        &mut self,
        work: u64,
        brief: bool,
        run: impl FnOnce() -> JobResult + Send + 'static,
        step: &mut Step<Vocabulary>,
    ) {
        let run = Mutex::new(Some(run));
        let mut job = Job::new(work, move || {
            let run = run.lock().unwrap_or_else(PoisonError::into_inner).take();
            Arc::new(Mutex::new(run.map(|run| run()))) as Done
        });
        job.brief = brief;
        self.watch.compute(job, step);
    }

    /// Handles the parts of vectors that came early.
    fn catch_up(&mut self, step: &mut Step<Vocabulary>) {
        for (from, what, last, data) in std::mem::take(&mut self.early) {
            if let Err(fault) = self.part(from, what, last, data, step) {
                return self.blame(from, fault, step);
            }
        }
    }

    /// Announces this owner's commitment or hashes to all peers.
    fn announce(&mut self, body: Body, step: &mut Step<Vocabulary>) {
        tell(self.peers(), &body, step);
        match body {
            Body::Commitment(commitment) => drop(self.commitments.insert(self.me(), commitment)),
            Body::Copies(copies) => drop(self.copies.insert(self.me(), copies)),
            _ => {}
        }
    }

    /// Sends the parcels, when they are made and this owner knows the announcements of all owners.
    fn share_out(&mut self, step: &mut Step<Vocabulary>) {
        let ready = self.copies.len() == self.setup.owners.len();
        let Some(parcels) = self.parcels.take_if(|_| ready) else { return };
        self.sent = true;
        for (to, parcel) in self.trio.into_iter().zip(parcels) {
            if to == self.me() {
                self.inputs.insert(to, Zeroizing::new(parcel.to_vec()));
            } else {
                self.outgoing.vector(to, What::Input, &parcel, step);
            }
        }
        self.compute_if_all_is_here(step);
    }

    /// Starts the program when this computing member has the shares of all owners.
    pub(super) fn compute_if_all_is_here(&mut self, step: &mut Step<Vocabulary>) {
        let Some(number) = self.number().filter(|_| self.party.is_none()) else { return };
        if self.inputs.len() < self.setup.owners.len() || self.copies.len() < self.setup.owners.len() {
            return;
        }
        let mut inputs = std::mem::take(&mut self.inputs);
        self.digest = inputs_digest(self.commitments.iter().map(|(peer, commitment)| (*peer, *commitment)));
        let (owners, computation) = (self.setup.owners.clone(), self.setup.computation.clone());
        let (commitments, copies) = (self.commitments.clone(), self.copies.clone());
        self.job(
            computation.work_to_unpack(owners.len()),
            move || {
                let unpacked = owners.into_iter().map(|(peer, rows)| {
                    let parcel = inputs.remove(&peer).unwrap_or_default();
                    let input = commitments.get(&peer).copied().unwrap_or_default();
                    let said = Announced { input, copies: copies.get(&peer).copied().unwrap_or_default() };
                    computation.unpack(&parcel, number, &said, rows).ok_or(peer)
                });
                JobResult::Unpacked(unpacked.collect())
            },
            step,
        );
    }

    fn made(&mut self, made: JobResult, step: &mut Step<Vocabulary>) {
        match made {
            JobResult::Input(Prepared::Parcels(parcels, Announced { input, copies })) => {
                if self.pairs.is_none() && !self.commitments.contains_key(&self.me()) {
                    self.announce(Body::Commitment(input), step);
                }
                self.announce(Body::Copies(copies), step);
                self.parcels = Some(parcels);
                self.share_out(step);
            }
            JobResult::Input(Prepared::Codes(codes, commitment)) => {
                self.announce(Body::Commitment(commitment), step);
                let begun = self.pairs.as_mut().map_or(Ok(()), |pairs| pairs.begin(codes));
                if let Err((peer, fault)) = begun {
                    self.blame(peer, fault, step);
                }
            }
            JobResult::Pair(made) => {
                match self.pairs.as_mut().map_or(Ok(None), |pairs| pairs.stepped(made)) {
                    Ok(Some((peer, number, vector))) => {
                        self.outgoing.vector(peer, What::Pair(number), &vector.into(), step);
                    }
                    Ok(None) => {}
                    Err((peer, fault)) => self.blame(peer, fault, step),
                }
            }
            JobResult::Unpacked(Err(peer)) => {
                self.blame(peer, Fault::Malformed("shares of an input".into()), step);
            }
            JobResult::Unpacked(Ok(inputs)) => {
                let (Some(number), trio) = (self.number(), self.trio) else { return };
                let keys = self.party_keys(number, &trio);
                let (computation, proves) = (self.setup.computation.clone(), self.setup.proves);
                let limit = computation.round_limit(inputs.len());
                let program = |context| computation.program(context, inputs, proves);
                let mut party = Party::new(number, trio, keys, limit, proves, program);
                let done = party.handle(Time(0), Input::Start);
                self.party = Some(party);
                self.carry_out(done, step);
                self.catch_up(step);
                self.answer(step);
            }
            JobResult::Turn(turn) => {
                if let Some(party) = &mut self.party {
                    let done = party.handle(Time(0), Input::Done(turn));
                    self.carry_out(done, step);
                    self.answer(step);
                }
            }
        }
    }

    /// Returns the keys of a computing member, which are valid only in this view. Members i and i - 1 share
    /// key i.
    fn party_keys(&self, number: usize, trio: &[Peer; 3]) -> Keys {
        let SumId { ballot, slot } = self.setup.sum;
        let attempt = [&ballot.to_bytes()[..], &slot.to_le_bytes()].concat();
        let key = |other: usize| {
            let shared = self.setup.keys.get(&trio[other % 3]);
            let shared = shared.unwrap_or_else(|| unreachable!("BUG: members of a view share keys"));
            *derive(&shared[..], "computing parties", &attempt)
        };
        Keys::new(key(number + 2), key(number + 1), &[&self.setup.ctx.id.0[..], &attempt].concat())
    }

    /// Carries out the actions that the machine [`Party`] returned.
    fn carry_out(&mut self, done: Step<Party>, step: &mut Step<Vocabulary>) {
        for action in done.0 {
            match action {
                Action::Send { to, message: Frame { round, last, data } } => {
                    self.outgoing.part(to, What::Round(round), data, last, step);
                }
                Action::Compute(turn) => {
                    let work = self.setup.computation.work_of_a_round(self.setup.owners.len());
                    let brief = turn.is_brief();
                    self.work(work, brief, move || JobResult::Turn(turn.run()), step);
                }
                Action::Output(Outcome::Sealed(sealed)) => {
                    self.sealed = Some(sealed);
                    self.show_hashes(step);
                }
                Action::Output(Outcome::Cheats(places)) => {
                    for place in places {
                        let owner = self.setup.owners[place].0;
                        let fault = "it announced shares that differ from those that it sent, or different shares to different peers";
                        self.blame(owner, Fault::Inconsistent(fault.into()), step);
                    }
                }
                Action::Output(Outcome::Alone(side)) => {
                    self.alone = self.party_at(side).map(|peer| (peer, 0));
                }
                // Without proofs, this peer cannot know which computing member deviates. It blames no peer,
                // but no longer computes with the one on this side.
                Action::Output(Outcome::Doubt(side)) => {
                    self.fail(Reason::Disagreement, self.party_at(side), step);
                }
                Action::Output(Outcome::Fails(place)) => self.begin_statements(Some(place), step),
                Action::Blame { peer, fault } => self.blame(peer, fault, step),
                Action::SetTimer { timer, .. } => match timer {},
                Action::Persist(never) => match never {},
                Action::WriteEarly(_) => {}
            }
        }
    }

    /// Returns the computing member before this one or after it.
    fn party_at(&self, side: Side) -> Option<Peer> {
        let step = if side == Side::Before { 2 } else { 1 };
        Some(self.trio[(self.number()? + step) % 3])
    }

    fn blame(&mut self, peer: Peer, fault: Fault, step: &mut Step<Vocabulary>) {
        step.blame(peer, fault);
        self.fail(Reason::Fault, Some(peer), step);
    }

    fn fail(&mut self, reason: Reason, peer: Option<Peer>, step: &mut Step<Vocabulary>) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        self.over = true;
        self.party = None;
        step.output(Output::Failed(reason, peer));
    }

    /// Counts a heartbeat. Returns a computing member that has not proved a claim about an owner for too
    /// long. Its signs of life do not count, because it need not wait for any peer before it answers.
    fn unproven(&mut self) -> Option<Peer> {
        let (peer, ticks) = self.alone.as_mut()?;
        *ticks += 1;
        (*ticks * HEARTBEAT_MS >= self.setup.patience_ms).then_some(*peer)
    }

    /// Returns whether this peer still needs something from `peer`. If it does not and `peer` is lost, the
    /// exchange continues.
    fn needs(&self, peer: Peer) -> bool {
        let owner = self.is_owner(peer).is_ok();
        let missing = self.number().is_some() && self.party.is_none() && !self.inputs.contains_key(&peer);
        self.trio.contains(&peer) || owner && (missing || !self.copies.contains_key(&peer) && !self.sent)
    }

    fn advance(&mut self, step: &mut Step<Vocabulary>) {
        self.pair_up(step);
        let shared_out = !self.setup.computation.has_input() || self.sent;
        let computed = self.number().is_none() || self.sealed.is_some() && self.unconfirmed().is_none();
        let idle = self.outgoing.waits().is_none() && !self.watch.is_busy();
        let disputed = self.number().is_some() && self.has_statements();
        if self.over || disputed || !shared_out || !computed || !idle {
            return;
        }
        self.over = true;
        let number = self.number().and_then(|number| u8::try_from(number).ok());
        let shares = self.sealed.take().map(|sealed| sealed.to_bytes());
        let computed = Computed {
            party: number.zip(shares),
            commitment: self.commitments.get(&self.me()).copied().unwrap_or_default(),
            inputs: self.digest,
        };
        step.output(Output::Finished(computed.to_bytes()));
    }

    /// Returns the peer that this one waits for, and the stage of the exchange.
    fn waits(&self) -> Option<(u32, Peer)> {
        let after = match self.setup.computation.is_pairwise() {
            true => u32::try_from(rounds(self.setup.owners.len())).unwrap_or(u32::MAX),
            false => 0,
        };
        if let Some(peer) = self.owes_statement().filter(|_| self.party.is_some()) {
            return Some((4 + after, peer));
        }
        if let Some(peer) = self.unconfirmed() {
            return Some((4 + after, peer));
        }
        if let Some(party) = &self.party {
            return party.waits().map(|peer| (3 + after, peer));
        }
        let owners = || self.setup.owners.iter().map(|(peer, _)| *peer);
        let busy = self.setup.computation.has_input() || self.number().is_some();
        if let Some(peer) = owners().find(|peer| busy && !self.commitments.contains_key(peer)) {
            return Some((1, peer));
        }
        if let Some((round, peer)) = self.pairs.as_ref().and_then(Pairs::waits) {
            return Some((1 + round, peer));
        }
        if let Some(peer) = owners().find(|peer| busy && !self.copies.contains_key(peer)) {
            return Some((1 + after, peer));
        }
        if let Some(peer) = self.outgoing.waits() {
            return Some((2 + after, peer));
        }
        self.number()?;
        owners().find(|peer| !self.inputs.contains_key(peer)).map(|peer| (2 + after, peer))
    }
}

impl Exchange for Compute {
    fn peers(&self) -> Vec<Peer> {
        self.participants().into_iter().filter(|peer| *peer != self.me()).collect()
    }

    fn roles(&self) -> Roles {
        let owners = self.setup.owners.iter().map(|(peer, _)| *peer).collect();
        vec![("computing", self.trio.to_vec()), ("owners", owners)]
    }

    fn handle(&mut self, now: Time, input: Input<Vocabulary>) -> Step<Vocabulary> {
        self.watch.now(now);
        let mut step = Step::none();
        match input {
            Input::Done(_) if self.over => self.watch.computed(now),
            // A peer that has nothing more to do still handles statements of computing members.
            Input::Message { from, message } if self.over && !self.failed => {
                if let Ok((Body::Statements(statements), _)) = read(message)
                    && let Err(fault) = self.hear_statements(statements, &mut step)
                {
                    self.blame(from, fault, &mut step);
                }
            }
            _ if self.over => {}
            Input::Start => self.start(now, &mut step),
            Input::Message { from, message } => {
                let life = matches!(&message, Content::Short(bytes) if bytes[..] == working()[..]);
                self.watch.heard(now, !life);
                if let Err(fault) = self.message(from, message, &mut step) {
                    self.blame(from, fault, &mut step);
                }
            }
            Input::Done(done) => {
                self.watch.computed(now);
                let made = done.downcast_ref::<Mutex<Option<JobResult>>>();
                let made = made.and_then(|made| made.lock().unwrap_or_else(PoisonError::into_inner).take());
                if let Some(made) = made {
                    self.made(made, &mut step);
                }
            }
            Input::Timer(_) => {
                let (given_up, moved) = self.watch.tick(now, self.waits(), &mut step);
                let overdue = self.overdue_statement();
                let accused = overdue.filter(|&peer| self.owes_account(peer));
                let given_up = given_up.or(overdue);
                let awaited = self.party.as_ref().and_then(Party::waits);
                let stopped = self.alone.is_none() && !self.watch.is_moving(now);
                if let Some(peer) = self.unproven() {
                    // It claims that an owner deviates, but does not end the view for that reason.
                    self.fail(Reason::Disagreement, Some(peer), &mut step);
                } else if given_up.is_some() && given_up == awaited && stopped {
                    // The awaited computing member may itself be waiting for the third one. So this one signs
                    // a statement.
                    self.begin_statements(None, &mut step);
                } else if let Some(peer) = accused {
                    // A check has failed, so another member than this one deviates.
                    self.fail(Reason::Disagreement, Some(peer), &mut step);
                } else if let Some(peer) = given_up {
                    self.fail(Reason::Stalled, Some(peer), &mut step);
                } else if moved {
                    tell(self.peers(), &Body::KeepAlive, &mut step);
                }
            }
            Input::PeerLost(peer) if self.needs(peer) => {
                self.fail(Reason::Lost, Some(peer), &mut step);
            }
            Input::PeerUp(_) | Input::PeerLost(_) => {}
        }
        self.advance(&mut step);
        step
    }
}

fn working() -> Vec<u8> {
    crate::protocol::wire::canonical(&Body::KeepAlive)
}
