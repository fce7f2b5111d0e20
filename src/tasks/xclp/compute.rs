//! The first exchange (spec, section 15e.2): owners share their input out to three computing parties, which
//! compute to the end and keep their shares of the output. Nothing of it leaves before the committee has
//! decided over whom.
//!
//! 1. Everybody tells everybody who is out ([`Body::Begin`]): who computes follows ([`parties`]).
//! 2. Where the session says so every two owners make shares of their distances ([`Pairs`]).
//! 3. Owners send each computing party its shares of codes, or of those, and labels, all from fresh
//!    randomness.
//! 4. The parties check the input and go through the rounds of the program ([`Party`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zeroize::Zeroizing;

use super::computed::{COMMITMENT, Computed, commitment, inputs_digest};
use super::pairs::{Pairs, Stepped, rounds};
use super::parties;
pub(crate) use super::setup::{Excluded, FirstCommitments, Rows, Setup};
use super::talk::{Body, Incoming, Outgoing, WINDOW, What, read, tell};
use super::watch::Watch;
use crate::crypto::stream::derive;
use crate::protocol::sum_id::SumId;
use crate::protocol::view::Reason;
use crate::protocol::{Action, Fault, Input, Machine as _, Step, Time};
use crate::session::Peer;
use crate::sketch::lsh::Codes;
use crate::tasks::exchange::{Content, Done, Exchange, Job, Output, Roles, Vocabulary};
use crate::tasks::xclp::shares::input::{
    Inputs, parcel_bytes, parcels, parcels_of_distances, unpack, unpack_distances,
};
use crate::tasks::xclp::shares::output::Sealed;
use crate::tasks::xclp::shares::party::Frame;
use crate::tasks::xclp::shares::program::Outcome;
use crate::tasks::xclp::shares::{Keys, Party, Turn};
use flyswarm_mpc::propagation::integer::Plan;

/// What a job gives.
enum JobResult {
    /// An owner's parcels for parties 0, 1 and 2, and its commitment.
    Input([Bytes; 3], [u8; 32]),
    /// An owner's codes and its commitment, where it makes parts of distances first.
    Codes(Arc<Codes>, [u8; 32]),
    /// Of the exchange with another owner.
    Pair(Stepped),
    /// All owners' inputs, or whose is none.
    Unpacked(Result<Vec<Inputs>, Peer>),
    /// The program waits for a round, or has ended.
    Turn(Turn),
}

/// One peer's part in the first exchange.
pub(crate) struct Compute {
    setup: Setup,
    watch: Watch,
    outgoing: Outgoing,
    begun: BTreeMap<Peer, Vec<Peer>>,
    trio: Option<[Peer; 3]>,
    /// Of an owner that makes parts of distances: until it has them.
    pairs: Option<Pairs>,
    /// Of an owner: its parcels until they are sent, its commitment.
    parcels: Option<[Bytes; 3]>,
    commitment: Option<[u8; 32]>,
    incoming: BTreeMap<Peer, Incoming>,
    inputs: BTreeMap<Peer, Vec<u8>>,
    /// Of a party: the digest of the commitments that came with them.
    digest: [u8; 32],
    /// What came before it was known who computes, or before the program ran.
    early: Vec<(Peer, What, bool, Bytes)>,
    party: Option<Party>,
    sealed: Option<Sealed>,
    over: bool,
}

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compute({:?})", self.setup)
    }
}

impl Compute {
    /// A part that has not started.
    #[must_use]
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            watch: Watch::new(setup.patience_ms, setup.longest_ms),
            pairs: Pairs::new(&setup),
            setup,
            outgoing: Outgoing::default(),
            begun: BTreeMap::new(),
            trio: None,
            parcels: None,
            commitment: None,
            incoming: BTreeMap::new(),
            inputs: BTreeMap::new(),
            digest: [0; 32],
            early: Vec::new(),
            party: None,
            sealed: None,
            over: false,
        }
    }

    fn out(&self) -> std::sync::MutexGuard<'_, BTreeSet<Peer>> {
        self.setup.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn participants(&self) -> BTreeSet<Peer> {
        let here = self.setup.candidates.iter().filter(|peer| self.setup.members.contains(peer));
        self.setup.owners.iter().map(|(peer, _)| *peer).chain(here.copied()).collect()
    }

    /// This peer's number among the parties.
    fn number(&self) -> Option<usize> {
        self.trio?.iter().position(|peer| *peer == self.setup.me)
    }

    fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        self.watch.start(now, step);
        let out: Vec<Peer> = self.out().iter().copied().collect();
        tell(self.peers(), &Body::Begin(out.clone()), step);
        self.begun.insert(self.setup.me, out);
        if let Some(rows) = self.setup.rows.clone() {
            let (session, me, plan) = (self.setup.session, self.setup.me, self.setup.plan);
            let (bits, pairwise) = (plan.settings().bits as usize, self.pairs.is_some());
            let (place, seeds) = self.sharing();
            let work = rows.data.rows() as u64 * rows.data.features() as u64 * bits as u64;
            self.job(
                work,
                move || {
                    let codes = Codes::of(&rows.data, &rows.planes, bits)
                        .unwrap_or_else(|| unreachable!("BUG: the session checks the bits of a code"));
                    let commitment = commitment(&session, me, &rows.salt, &codes, &rows.labels);
                    if pairwise {
                        return JobResult::Codes(Arc::new(codes), commitment);
                    }
                    let parcels = parcels(&codes, &rows.labels, plan.classes(), place, &seeds);
                    JobResult::Input(with(commitment, parcels), commitment)
                },
                step,
            );
        }
        self.begin_if_all_are_here(step);
    }

    /// This owner's place, and the seeds of its shares.
    fn sharing(&self) -> (usize, [Zeroizing<[u8; 32]>; 2]) {
        let place = self.setup.owners.iter().position(|(peer, _)| *peer == self.setup.me).unwrap_or(0);
        (place, ["one", "two"].map(|number| derive(&*self.setup.seed, "input", number.as_bytes())))
    }

    /// Goes on with the pairs of owners. After the last one the parcels are made.
    fn pair_up(&mut self, step: &mut Step<Vocabulary>) {
        let Some(pairs) = self.pairs.as_mut().filter(|_| self.trio.is_some() && !self.over) else { return };
        if let Some((peer, credits)) = pairs.credits() {
            (0..credits).for_each(|_| tell([peer], &Body::Credit, step));
        }
        // What leaves waits for credits: no more is made for that peer until then.
        if pairs.other().is_some_and(|peer| self.outgoing.is_waiting(peer)) {
            return;
        }
        if let Some((work, run)) = pairs.step() {
            self.job(work, move || JobResult::Pair(run()), step);
        } else if let (Some(parts), Some(commitment)) = (pairs.take(), self.commitment) {
            self.pairs = None;
            let (place, seeds) = self.sharing();
            let (classes, rows) = (self.setup.plan.classes(), self.setup.rows.clone());
            let labels = rows.map(|rows| rows.labels).unwrap_or_default();
            self.job(
                parts.len() as u64,
                move || {
                    let parcels = parcels_of_distances(&parts, &labels, classes, place, &seeds);
                    JobResult::Input(with(commitment, parcels), commitment)
                },
                step,
            );
        }
    }

    /// Gives out work that is done once.
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

    /// Who computes is known when everybody has said who is out.
    fn begin_if_all_are_here(&mut self, step: &mut Step<Vocabulary>) {
        let participants = self.participants();
        if self.trio.is_some() || self.begun.len() < participants.len() {
            return;
        }
        let here: Vec<Peer> = participants.into_iter().collect();
        let mut out: BTreeSet<Peer> = self.begun.values().flatten().copied().collect();
        let trio = parties::trio(&self.setup.candidates, &here, &out);
        if let Ok(trio) = &trio {
            out.extend(parties::passed_over(&self.setup.candidates, trio));
        }
        self.out().extend(out);
        let Ok(trio) = trio else { return self.fail(Reason::Disagreement, None, step) };
        self.trio = Some(trio);
        self.share_out(step);
        self.catch_up(step);
    }

    /// What came early is taken now.
    fn catch_up(&mut self, step: &mut Step<Vocabulary>) {
        for (from, what, last, data) in std::mem::take(&mut self.early) {
            if let Err(fault) = self.part(from, what, last, data, step) {
                return self.blame(from, fault, step);
            }
        }
    }

    /// Sends the parcels when both they and who gets them are known.
    fn share_out(&mut self, step: &mut Step<Vocabulary>) {
        let Some(trio) = self.trio else { return };
        for (to, parcel) in trio.into_iter().zip(self.parcels.take().into_iter().flatten()) {
            if to == self.setup.me {
                self.inputs.insert(to, parcel.to_vec());
            } else {
                self.outgoing.vector(to, What::Input, &parcel, step);
            }
        }
        self.compute_if_all_is_here(step);
    }

    fn message(&mut self, from: Peer, content: Content, step: &mut Step<Vocabulary>) -> Result<(), Fault> {
        let (body, data) = read(content)?;
        if !self.participants().contains(&from) {
            return Err(Fault::OutOfOrder("message of a peer without a part in the exchange"));
        }
        match body {
            Body::Begin(out) => {
                if out.len() > parties::CANDIDATES
                    || out.iter().any(|peer| !self.setup.candidates.contains(peer))
                {
                    return Err(Fault::Inconsistent("a peer is out that was never to compute".into()));
                }
                if self.begun.insert(from, out).is_some() {
                    return Err(Fault::OutOfOrder("second beginning of an exchange"));
                }
                self.begin_if_all_are_here(step);
                Ok(())
            }
            Body::Credit => self.outgoing.credit(from, step),
            Body::KeepAlive => Ok(()),
            Body::Part { what, last } => self.part(from, what, last, data, step),
        }
    }

    fn part(
        &mut self,
        from: Peer,
        what: What,
        last: bool,
        data: Bytes,
        step: &mut Step<Vocabulary>,
    ) -> Result<(), Fault> {
        const NOT_MINE: Fault = Fault::OutOfOrder("vector for a peer with another part");
        let early = match what {
            What::Input => self.trio.is_none(),
            What::Round(_) => self.party.is_none(),
            // Whatever comes before its turn is kept there, and pays for itself with credits later.
            What::Pair(number) => {
                let pairs = self.pairs.as_mut().ok_or(NOT_MINE)?;
                return pairs.part(from, number, &data, last);
            }
            What::Output => return Err(NOT_MINE),
        };
        if early {
            if self.trio.is_some() && self.number().is_none()
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
                let (width, classes) = (self.setup.width(), self.setup.plan.classes());
                let length = COMMITMENT + parcel_bytes(rows, width, classes, place, number);
                if let Some(parcel) = self.incoming.entry(from).or_default().take(&data, last, length)? {
                    self.commits(from, &parcel)?;
                    self.inputs.insert(from, parcel);
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

    /// An owner has one input in a session, whatever views fail: its commitment is the same in all of them.
    fn commits(&self, owner: Peer, parcel: &[u8]) -> Result<(), Fault> {
        let commitment = parcel.first_chunk().copied().unwrap_or_default();
        let mut seen = self.setup.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen.entry(owner).or_insert(commitment) != commitment {
            return Err(Fault::Inconsistent("it commits to another input than in an earlier view".into()));
        }
        Ok(())
    }

    /// The parties begin when they have the shares of all owners.
    fn compute_if_all_is_here(&mut self, step: &mut Step<Vocabulary>) {
        if self.number().is_none() || self.inputs.len() < self.setup.owners.len() || self.party.is_some() {
            return;
        }
        let mut inputs = std::mem::take(&mut self.inputs);
        let commitment =
            |(peer, parcel): (&Peer, &Vec<u8>)| (*peer, *parcel.first_chunk().unwrap_or(&[0; 32]));
        self.digest = inputs_digest(inputs.iter().map(commitment));
        let (owners, plan) = (self.setup.owners.clone(), self.setup.plan);
        let width = self.setup.width();
        let unpack = if self.setup.hamming.is_pairwise() { unpack_distances } else { unpack };
        self.job(
            plan.points() as u64 * width as u64,
            move || {
                let unpacked = owners.into_iter().map(|(peer, rows)| {
                    let parcel = Zeroizing::new(inputs.remove(&peer).unwrap_or_default());
                    let shares = parcel.get(COMMITMENT..).unwrap_or_default();
                    unpack(shares, rows, width, plan.classes()).ok_or(peer)
                });
                JobResult::Unpacked(unpacked.collect())
            },
            step,
        );
    }

    fn made(&mut self, made: JobResult, step: &mut Step<Vocabulary>) {
        match made {
            JobResult::Input(parcels, commitment) => {
                (self.parcels, self.commitment) = (Some(parcels), Some(commitment));
                self.share_out(step);
            }
            JobResult::Codes(codes, commitment) => {
                self.commitment = Some(commitment);
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
                let (Some(number), Some(trio)) = (self.number(), self.trio) else { return };
                let keys = self.party_keys(number, &trio);
                let mut party = Party::new(number, trio, keys, self.setup.plan, inputs);
                let done = party.handle(Time(0), Input::Start);
                self.party = Some(party);
                self.carry_out(done, step);
                self.catch_up(step);
            }
            JobResult::Turn(turn) => {
                if let Some(party) = &mut self.party {
                    let done = party.handle(Time(0), Input::Done(turn));
                    self.carry_out(done, step);
                }
            }
        }
    }

    /// Key i is that of parties i and i - 1, of this view alone.
    fn party_keys(&self, number: usize, trio: &[Peer; 3]) -> Keys {
        let SumId { ballot, slot } = self.setup.sum;
        let attempt = [&ballot.to_bytes()[..], &slot.to_le_bytes()].concat();
        let key = |other: usize| {
            let shared = self.setup.keys.get(&trio[other % 3]);
            let shared = shared.unwrap_or_else(|| unreachable!("BUG: members of a view share keys"));
            *derive(&shared[..], "computing parties", &attempt)
        };
        Keys::new(key(number + 2), key(number + 1), &[&self.setup.session[..], &attempt].concat())
    }

    /// Does what the party's machine says.
    fn carry_out(&mut self, done: Step<Party>, step: &mut Step<Vocabulary>) {
        for action in done.0 {
            match action {
                Action::Send { to, message: Frame { round, last, data } } => {
                    self.outgoing.part(to, What::Round(round), data, last, step);
                }
                Action::Compute(turn) => {
                    let (work, brief) = (work_of_a_round(&self.setup.plan), turn.is_brief());
                    self.work(work, brief, move || JobResult::Turn(turn.run()), step);
                }
                Action::Output(Outcome::Sealed(sealed)) => self.sealed = Some(sealed),
                Action::Output(Outcome::Cheats(places)) => {
                    for place in places {
                        let owner = self.setup.owners[place].0;
                        self.blame(owner, Fault::Inconsistent("its input is not made of bits".into()), step);
                    }
                }
                Action::Blame { peer, fault } => self.blame(peer, fault, step),
                Action::SetTimer { timer, .. } => match timer {},
                Action::Persist(never) => match never {},
                Action::WriteEarly(_) => {}
            }
        }
    }

    fn blame(&mut self, peer: Peer, fault: Fault, step: &mut Step<Vocabulary>) {
        step.blame(peer, fault);
        self.fail(Reason::Fault, Some(peer), step);
    }

    fn fail(&mut self, reason: Reason, peer: Option<Peer>, step: &mut Step<Vocabulary>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.lost(peer);
        self.party = None;
        step.output(Output::Failed(reason, peer));
    }

    /// A party that is lost while it computes is out.
    fn lost(&self, peer: Option<Peer>) {
        if let Some(peer) = peer.filter(|peer| self.trio.is_some_and(|trio| trio.contains(peer))) {
            self.out().insert(peer);
        }
    }

    /// Whether something is still to come from a peer. Of others the view itself says if it must end.
    fn needs(&self, peer: Peer) -> bool {
        let Some(trio) = self.trio else { return self.participants().contains(&peer) };
        let owner = self.setup.owners.iter().any(|(owner, _)| *owner == peer);
        let missing = owner && self.party.is_none() && !self.inputs.contains_key(&peer);
        trio.contains(&peer) || (self.number().is_some() && missing)
    }

    fn advance(&mut self, step: &mut Step<Vocabulary>) {
        self.pair_up(step);
        let shared_out = self.setup.rows.is_none() || (self.commitment.is_some() && self.pairs.is_none());
        let computed = self.number().is_none() || self.sealed.is_some();
        let idle = self.outgoing.waits().is_none() && !self.watch.is_busy();
        if self.over || self.trio.is_none() || !shared_out || !computed || !idle {
            return;
        }
        self.over = true;
        let number = self.number().and_then(|number| u8::try_from(number).ok());
        let shares = self.sealed.take().map(|sealed| sealed.to_bytes());
        self.party = None;
        let computed = Computed {
            party: number.zip(shares),
            commitment: self.commitment.unwrap_or_default(),
            inputs: self.digest,
        };
        step.output(Output::Finished(computed.to_bytes()));
    }

    /// Whom it waits for, and at which stage.
    fn waits(&self) -> Option<(u32, Peer)> {
        if self.trio.is_none() {
            return self
                .participants()
                .into_iter()
                .find(|peer| !self.begun.contains_key(peer))
                .map(|p| (0, p));
        }
        let after = match self.setup.hamming.is_pairwise() {
            true => u32::try_from(rounds(self.setup.owners.len())).unwrap_or(u32::MAX),
            false => 0,
        };
        if let Some(party) = &self.party {
            return party.waits().map(|peer| (2 + after, peer));
        }
        if let Some((round, peer)) = self.pairs.as_ref().and_then(Pairs::waits) {
            return Some((1 + round, peer));
        }
        if let Some(peer) = self.outgoing.waits() {
            return Some((1 + after, peer));
        }
        self.number()?;
        let owners = self.setup.owners.iter().map(|(peer, _)| *peer);
        owners.into_iter().find(|peer| !self.inputs.contains_key(peer)).map(|peer| (1 + after, peer))
    }
}

/// Parcels, each after the commitment.
fn with(commitment: [u8; 32], parcels: [Zeroizing<Vec<u8>>; 3]) -> [Bytes; 3] {
    parcels.map(|parcel| [&commitment[..], &parcel].concat().into())
}

/// Additions and multiplications of one of about 1,500 rounds.
fn work_of_a_round(plan: &Plan) -> u64 {
    let (n, bits) = (plan.points() as u64, u64::from(plan.settings().bits));
    let spread = 2 * n * n * plan.classes() as u64 * plan.settings().steps as u64;
    (n * n * bits + spread + 300 * n * n) / 1500
}

impl Exchange for Compute {
    fn peers(&self) -> Vec<Peer> {
        self.participants().into_iter().filter(|peer| *peer != self.setup.me).collect()
    }

    fn roles(&self) -> Roles {
        let here: Vec<Peer> = self.participants().into_iter().collect();
        let trio = parties::trio(&self.setup.candidates, &here, &self.out());
        let owners = self.setup.owners.iter().map(|(peer, _)| *peer).collect();
        vec![("computing", trio.map(Vec::from).unwrap_or_default()), ("owners", owners)]
    }

    fn handle(&mut self, now: Time, input: Input<Vocabulary>) -> Step<Vocabulary> {
        let mut step = Step::none();
        match input {
            Input::PeerLost(peer) if self.over => self.lost(Some(peer)),
            Input::Done(_) if self.over => self.watch.computed(now),
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
                if let Some(peer) = given_up {
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
