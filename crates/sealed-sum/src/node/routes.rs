//! Routes between the machines of a node: one machine takes a message, and the others react to its outputs.

use bytes::Bytes;
use chacha20::rand_core::Rng as _;

use super::exchange::ExchangeState;
use super::slots::{Contribution, Fetched};
use super::{Done, Ending, Event, Job, Lifecycle, Message, Node, Timer, event};
use crate::protocol::ballot::Ballot;
use crate::protocol::failure::Failure;
use crate::protocol::promise::{Basis, Begun, Duty};
use crate::protocol::record::Committed;
use crate::protocol::signed::Signed;
use crate::protocol::sum_id::SumId;
use crate::protocol::transfer::{self, Transfer, Want};
use crate::protocol::view::{self, Reason, View};
use crate::protocol::{Action, Fault, Input, Machine as _, Step};
use crate::session::Peer;
use crate::task::exchange::{Output, Source, Vocabulary};

impl Node {
    /// Takes a message of another peer.
    pub(super) fn hear(&mut self, from: Peer, message: Message) -> Result<(), Fault> {
        match message {
            Message::Hello { version, session, committed, trace } => {
                if !self.presence.hello(from, (version, session, committed), &mut self.out)? {
                    return Ok(());
                }
                if let Some(trace) = trace {
                    self.elections.shown(from, &trace, &mut self.out);
                }
                self.out.output(Event::Joined(from));
                let outside = self.membership.view().is_some_and(|view| !view.members().contains(&from));
                if outside || !self.presence.has_said(from, self.slots.announced()) {
                    self.tell(vec![from]);
                }
                self.membership.greeted(self.now, from, &mut self.out);
                self.elections.greeted(self.now);
            }
            Message::Fields(theirs) => self.presence.fields(from, &theirs, &mut self.out)?,
            _ if !self.presence.admits(from)? => {}
            Message::Status { committed, in_view } => self.presence.status(from, committed, in_view)?,
            Message::Prepare(ballot) => {
                let (view, presence) = (self.membership.view(), &self.presence);
                let promise =
                    self.elections.prepare(self.now, from, ballot, view, presence, &mut self.out)?;
                if let Some(promise) = promise {
                    self.elections.give_up(self.now.plus_ms(self.ctx.session.timing.proposal_backoff_ms));
                    self.out.send(from, Message::Promise(promise));
                }
            }
            Message::Promise(signed) => {
                self.presence.progress(from, signed.item.promise.committed)?;
                self.elections.promised(from, signed, &mut self.out)?;
            }
            Message::Refuse(ballot, other) => {
                self.elections.refused(self.now, from, (ballot, other), &self.presence)?;
            }
            Message::Begin(begun) => self.begun(from, begun)?,
            Message::Failed(signed) => self.heard_failure(from, signed)?,
            Message::View(message) => {
                let current = self.membership.ballot() == Some(message.ballot());
                if current {
                    self.drive(Input::Message { from, message });
                }
                #[cfg(any(test, feature = "harness"))]
                if !current && self.ctx.bug == Some(crate::protocol::context::Bug::StaleBlame) {
                    return Err(Fault::OutOfOrder("message of a view that is over"));
                }
            }
            Message::Transfer(message) => self.carry(Input::Message { from, message }),
            Message::Exchange { sum, content } => {
                if !self.ctx.exchanges(sum.slot) {
                    return Err(Fault::OutOfOrder("message of an exchange"));
                }
                // A lying leader may have shown the sender other members, or another slot: this is not a
                // fault of the sender.
                let due = self.membership.is_due(sum) && sum.slot >= self.slots.committed();
                if !due || !self.membership.members().contains(&from) {
                    return Ok(());
                }
                if let Some(message) = self.exchange.hear(from, sum, content)? {
                    self.converse(Input::Message { from, message });
                }
            }
        }
        Ok(())
    }

    pub(super) fn lost(&mut self, peer: Peer) {
        self.presence.lost(peer, &mut self.out);
        self.elections.lost(peer);
        self.carry(Input::PeerLost(peer));
        self.drive(Input::PeerLost(peer));
        self.converse(Input::PeerLost(peer));
    }

    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Mask(done) => self.drive(Input::Done(done)),
            Done::Exchange(sum, done) => {
                if self.exchange.runs(sum) {
                    self.converse(Input::Done(done));
                }
            }
            Done::Contribution(slot, result) => {
                let computed = self.slots.computed(slot, result, &mut self.out);
                self.contribute_after(computed);
            }
            Done::Open { committed, opened } => {
                if let Some((committed, opened)) = self.slots.opened(committed, opened) {
                    self.commit(committed, Some(opened));
                } else {
                    if !self.finish_complete() && self.slots.lacks().is_none() {
                        self.tell(self.presence.outside(&[]));
                    }
                    self.contribute();
                }
            }
        }
    }

    /// Sends these peers the number of slots that this peer has committed, and whether it is in a view.
    pub(super) fn tell(&mut self, peers: Vec<Peer>) {
        let (committed, in_view) = (self.slots.announced(), self.membership.view().is_some());
        peers.into_iter().for_each(|peer| self.out.send(peer, Message::Status { committed, in_view }));
    }

    fn contribute_after(&mut self, made: Result<(), Ending>) {
        match made {
            Ok(()) => self.contribute(),
            Err(ending) => self.end(ending),
        }
    }

    pub(super) fn fetch(&mut self, from: Peer, slot: u32, want: Want) {
        let child = self.transfer.fetch(self.now, from, slot, want);
        self.transferred(child);
    }

    /// Joins the view that a quorum of the committee has promised to its leader.
    fn begun(&mut self, from: Peer, begun: Signed<Begun>) -> Result<(), Fault> {
        let ballot = begun.item.ballot;
        if ballot == self.elections.joined() {
            // The leader has begun one view in two ways.
            let mine = self.membership.begun().filter(|mine| mine.item != begun.item).cloned();
            let signed = begun.author == ballot.proposer && begun.verify(&self.ctx);
            if let Some(mine) = mine.filter(|_| signed) {
                self.membership.show(&[mine, begun], &self.presence, &mut self.out);
                self.fail_view(Reason::Fault, Some(ballot.proposer));
            }
            return Ok(());
        }
        self.membership.check(&begun)?;
        if ballot < self.elections.joined() {
            return Ok(());
        }
        if self.lifecycle != Lifecycle::Running {
            // The view cannot continue without this peer. This failure tells the parent about it, so
            // that the parent does not wait.
            let slot = begun.item.promises.iter().map(|signed| signed.item.promise.committed).max();
            let (slot, suspect) = (slot.unwrap_or(0), Some(from));
            let failure = Failure { ballot, slot, reason: Reason::Stalled, suspect };
            self.tell(vec![from]);
            self.out.send(from, Message::Failed(Signed::new(&self.ctx, failure)));
            return Ok(());
        }
        let (basis, duty) = self.elections.justified(&begun.item, &mut self.out)?;
        if self.membership.view().is_some() {
            self.supersede(from, &begun);
        }
        // The parent may be silent, but the sender shows that the view has begun.
        if basis.tree.parent(self.ctx.me) != Some(from) {
            self.elections.began(self.now, ballot);
            return Ok(());
        }
        self.enter(begun, basis, duty);
        Ok(())
    }

    /// Enters a view as its leader or as a member.
    pub(super) fn enter(&mut self, begun: Signed<Begun>, basis: Basis, duty: Option<Duty>) {
        let seed = fresh_seed(&mut self.rng);
        let view = View::new(self.ctx.clone(), begun.item.name(), basis.tree.clone(), seed);
        let Some(view) = view else { return };
        self.elections.entered(self.now, &view, &mut self.out);
        self.slots.view_began(&basis.marks);
        self.exchange = ExchangeState::default();
        if begun.item.ballot.proposer == self.ctx.me {
            // Members that have promised must learn of the view, even if the peer above them is silent.
            let told = |peer: &Peer| basis.tree.contains(*peer) && !view.place().children.contains(peer);
            let committee = self.presence.committee().filter(|&peer| peer != self.ctx.me && told(&peer));
            committee.for_each(|peer| self.out.send(peer, Message::Begin(begun.clone())));
        }
        self.membership.enter(self.now, view, begun, (basis, duty), &self.presence, &mut self.out);
        self.tell(self.presence.outside(self.membership.members()));
        self.drive(Input::Start);
    }

    /// Ends the present view, because a quorum of the committee has promised a later one. The neighbours
    /// get its beginning as proof.
    fn supersede(&mut self, from: Peer, begun: &Signed<Begun>) {
        let Some(view) = self.membership.leave() else { return };
        for peer in view.place().neighbours().filter(|peer| *peer != from) {
            if self.presence.has(peer) {
                self.out.send(peer, Message::Begin(begun.clone()));
            }
        }
        self.drop_exchange(begun.item.ballot.proposer, Reason::Ended, None);
        self.over(view.ballot(), begun.item.ballot.proposer, Reason::Ended, None);
    }

    /// Takes a signed failure that a member has sent to end a view; `from` passes it on.
    fn heard_failure(&mut self, from: Peer, signed: Signed<Failure>) -> Result<(), Fault> {
        let Failure { ballot, slot, reason, suspect } = signed.item;
        if suspect.is_some_and(|peer| peer.0 >= self.ctx.peers()) {
            return Err(Fault::Inconsistent("names a peer outside the roster".into()));
        }
        let author = signed.author;
        let near = slot.abs_diff(self.membership.slot()) <= 1;
        let concerns = match suspect {
            Some(suspect) => {
                let sound = suspect != author && reason != Reason::Ended && near;
                let accuses = signed.accusation(&self.ctx).is_some();
                sound && self.membership.concerns((ballot, slot), author, suspect, accuses)
            }
            None => {
                let ends = reason == Reason::Ended && author == ballot.proposer;
                ends && self.membership.was_member(ballot, author)
            }
        };
        let was_in = self.membership.was_in(ballot);
        if author == self.ctx.me || (was_in && !self.membership.was_member(ballot, from)) {
            return Ok(());
        }
        if !was_in {
            // A liar may have begun the view for the author alone. The mark counts all the same.
            return self.elections.note_unseen(self.now, &signed);
        }
        // A neighbour that ends the view has stopped. It may be honest, even if its failure does not count.
        let view = self.membership.view().filter(|view| view.ballot() == ballot);
        let quits =
            author == from && view.is_some_and(|view| view.place().neighbours().any(|peer| peer == from));
        if !concerns && !quits {
            return Ok(());
        }
        if !signed.verify(&self.ctx) {
            return Err(Fault::BadSignature("failure"));
        }
        if !concerns {
            self.fail_view(Reason::Stalled, Some(from));
            return Ok(());
        }
        self.elections.note(&signed);
        if self.membership.ballot() == Some(ballot) {
            self.end_view(signed, reason, Some(from));
        } else {
            self.heard_late(&signed);
        }
        Ok(())
    }

    /// Ends this peer's part in the view because of a member. This is the parent, unless `suspect`
    /// names another member. A leader that names no peer ends its view without a mark.
    pub(super) fn fail_view(&mut self, reason: Reason, suspect: Option<Peer>) {
        let Some(failed) = self.membership.failure(reason, suspect) else { return };
        self.elections.note(&failed);
        let reason = failed.item.reason;
        self.end_view(failed, reason, None);
    }

    /// Sends the failure to the neighbours, the leader and the committee, but not to the peer that passed
    /// it on. If this peer cannot continue the session, it sends the failure to all members: it leaves next,
    /// and none of them must take the lost connection for the reason.
    fn end_view(&mut self, failed: Signed<Failure>, reason: Reason, from: Option<Peer>) {
        let Some(view) = self.membership.leave() else { return };
        let ballot = view.ballot();
        self.drop_exchange(failed.author, reason, failed.item.suspect);
        self.slots.view_failed(&failed);
        let leaves = self.stuck().is_some();
        let members = if leaves { view.members() } else { &[] };
        let told: std::collections::BTreeSet<_> = view
            .place()
            .neighbours()
            .chain([ballot.proposer])
            .chain(self.ctx.committee.iter().copied())
            .chain(members.iter().copied())
            .collect();
        for peer in told.into_iter().filter(|&peer| Some(peer) != from && self.presence.has(peer)) {
            self.out.send(peer, Message::Failed(failed.clone()));
        }
        self.over(ballot, failed.author, reason, failed.item.suspect);
    }

    fn over(&mut self, ballot: Ballot, author: Peer, reason: Reason, suspect: Option<Peer>) {
        let views = self.elections.failed(self.now, ballot, reason);
        self.out.output(Event::ViewFailed(ballot, author, reason, suspect));
        self.tell(self.presence.outside(&[]));
        if views >= self.ctx.session.timing.max_views {
            let why = event::reason_text(&self.ctx.session, author, reason, suspect);
            self.end(Ending::TooManyViews(views, why));
        }
    }

    /// Notes the peers that a step blames: this peer does not propose them as members again.
    pub(super) fn note_blamed(&mut self) {
        let blame = |action: &Action<Self>| match action {
            Action::Blame { peer, .. } => Some(*peer),
            _ => None,
        };
        let blamed: Vec<_> = self.out.0.iter().filter_map(blame).collect();
        let me = self.ctx.me;
        if blamed.contains(&me) {
            // Never blame ourselves.
            self.out.0.retain(|action| blame(action) != Some(me));
            self.fail_view(Reason::Disagreement, None);
        }
        for peer in blamed.into_iter().filter(|&peer| peer != me) {
            self.presence.blame(peer);
            let Some(ballot) = self.membership.ballot() else { continue };
            // A mark may already keep the blamed member apart from this peer. Then the view continues:
            // the neighbours would ignore another mark, and would mark this peer for ending the view.
            let slot = self.membership.slot();
            if self.membership.concerns((ballot, slot), me, peer, self.ctx.exchanges(slot)) {
                self.fail_view(Reason::Fault, Some(peer));
            }
        }
    }

    /// Gives an input to the view and carries out its actions.
    pub(super) fn drive(&mut self, input: Input<View>) {
        let child = self.membership.view_mut().map(|view| view.handle(self.now, input));
        self.viewed(child);
    }

    pub(super) fn viewed(&mut self, child: Option<Step<View>>) {
        for output in child.map_or(Vec::new(), |child| self.out.lift(child)) {
            match output {
                view::Output::Stage(slot, stage) => self.out.output(Event::Stage(slot, stage)),
                view::Output::Ready => self.next_slot(),
                view::Output::Keys(keys) => self.elections.witness(keys, &mut self.out),
                view::Output::Sum(slot) if !self.membership.allows(slot, None) => {
                    self.fail_view(Reason::Disagreement, None);
                }
                view::Output::Sum(slot) => {
                    self.membership.want(slot);
                    self.contribute();
                }
                view::Output::Total(total) => self.membership.made(total.digest, total.bytes),
                view::Output::Accept(record)
                    if !self.membership.allows(record.value.sum.slot, Some(&record)) =>
                {
                    self.fail_view(Reason::Disagreement, None);
                }
                view::Output::Accept(record) => {
                    let child = self.membership.view_mut().map(View::pass_on);
                    self.viewed(child);
                    self.membership.propose(record);
                    self.accept();
                }
                view::Output::Decided(record, decision) => {
                    let acknowledged = self.membership.take_acknowledged();
                    let item = self.elections.release(&record, acknowledged, decision, &mut self.out);
                    let slot = record.value.sum.slot;
                    let child = self.membership.view_mut().map(|view| view.release(self.now, slot, item));
                    self.viewed(child);
                }
                view::Output::Opened(committed) => {
                    self.slots.open_accepted(committed, &mut self.out);
                }
                view::Output::Failed(reason, suspect) => self.fail_view(reason, suspect),
            }
        }
    }

    /// Starts or resumes the next slot, if this peer leads.
    fn next_slot(&mut self) {
        let Some(view) = self.membership.view().filter(|view| view.leads()) else { return };
        let (slot, members) = (self.slots.committed(), view.members());
        let wanted = |peer: Peer| !self.elections.bars(peer, &self.presence);
        let waits = self.presence.waiting_outside(members, slot).any(wanted);
        if waits && self.elections.may_enlarge(self.now) {
            self.fail_view(Reason::Ended, None);
            if self.lifecycle == Lifecycle::Running {
                self.propose();
            }
            return;
        }
        let allowed = self.membership.crowd().is_some_and(|crowd| self.slots.may_begin(crowd).is_ok());
        let resume = self.elections.take_resume(slot);
        let record = resume.and_then(|value| Some(self.slots.sealed(&value)?.record.clone()));
        if record.is_none() && (resume.is_some() || !allowed) {
            // The value to finish is not here any more, or the members are too few for the next sum.
            self.fail_view(Reason::Ended, None);
        } else {
            let child = self.membership.view_mut().map(|view| match record {
                Some(record) => view.resume(self.now, record),
                None => view.sum(self.now, slot),
            });
            self.viewed(child);
        }
    }

    /// Makes this peer's vector, once the view needs it and all its inputs are here.
    fn contribute(&mut self) {
        let Some(slot) = self.membership.wanted() else { return };
        let made = self.slots.contribution(slot, self.membership.crowd());
        if matches!(made, Contribution::Vector(_) | Contribution::Missing) {
            let child = self.membership.view_mut().map(View::pass_on);
            self.viewed(child);
        }
        match made {
            Contribution::Later => {}
            Contribution::Refused => self.fail_view(Reason::Disagreement, None),
            Contribution::Vector(vector) => {
                self.membership.take_wanted();
                let view = self.membership.view_mut();
                let child = view.map(|view| view.contribute(self.now, slot, vector));
                self.viewed(child);
            }
            Contribution::Missing => {
                if !self.exchange.wanted(slot) && !self.prepare_exchange(slot) {
                    self.slots.compute(self.now, slot, || fresh_seed(&mut self.rng), &mut self.out);
                }
            }
        }
    }

    /// Acknowledges the value that the view proposes, once its total and every earlier slot are here.
    pub(super) fn accept(&mut self) {
        let Some(record) = self.membership.to_accept() else { return };
        let (slot, digest) = (record.value.sum.slot, record.digest(&self.ctx));
        let committed = self.slots.committed_value(slot);
        let Some(ballot) = self.membership.ballot() else { return };
        let total = if committed.is_some() {
            Bytes::new()
        } else if !self.slots.is_next(slot) {
            return;
        } else {
            let held = self.slots.sealed(&digest).map(|sealed| &sealed.total);
            let Some(total) = held.or_else(|| self.membership.total(&record.value.total)).cloned() else {
                if !self.transfer.fetching() && !self.elections.fetches_later(self.now) {
                    // The parent gets the total too. A peer that cannot reach the leader has no other source.
                    let leader = Some(ballot.proposer).filter(|leader| self.presence.reaches(*leader));
                    let parent = self.membership.view().and_then(|view| view.place().parent);
                    if let Some(from) = leader.or(parent) {
                        self.fetch(from, slot, Want::Accepted(digest));
                    }
                }
                return;
            };
            total
        };
        let Some(record) = self.membership.take_accept() else { return };
        match self.elections.acknowledge(ballot, &record, &total, committed, &mut self.out) {
            Ok(vote) => {
                if committed.is_none() {
                    self.slots.accept(record, total);
                }
                let item = vote.map(|(item, value)| {
                    self.membership.acknowledged(value);
                    item
                });
                let child = self.membership.view_mut().map(|view| view.acknowledge(self.now, slot, item));
                self.viewed(child);
            }
            Err((reason, suspect)) => self.fail_view(reason, suspect),
        }
    }

    /// Commits a slot and continues with the next one. `opened` is `None` if no later slot needs the vector.
    pub(super) fn commit(&mut self, committed: Committed, opened: Option<Bytes>) {
        let slot = committed.record.value.sum.slot;
        self.elections.committed(self.now, slot);
        self.exchange.committed(slot);
        if let Err(ending) = self.slots.commit(committed, opened, &mut self.out) {
            return self.refuse(ending);
        }
        if !self.finish_complete() {
            self.tell(self.presence.outside(self.membership.members()));
            self.next_slot();
            self.contribute();
            self.accept();
        }
    }

    /// Gives an input to the transfer and carries out its actions.
    pub(super) fn carry(&mut self, input: Input<Transfer>) {
        let child = self.transfer.handle(self.now, input);
        self.transferred(child);
    }

    pub(super) fn transferred(&mut self, child: Step<Transfer>) {
        for output in self.out.lift(child) {
            match output {
                transfer::Output::Wanted(peer, slot, want) => {
                    let child = self.transfer.serve(self.now, peer, slot, self.slots.held(slot, want));
                    self.transferred(child);
                }
                transfer::Output::Fetched(from, slot, held, total) => {
                    match self.slots.fetched((from, slot), *held, total, &mut self.out) {
                        Fetched::Nothing => {}
                        Fetched::Failed => self.elections.fetch_failed(self.now, from),
                        Fetched::Bare(committed) => self.commit(*committed, None),
                        Fetched::Offered => self.accept(),
                    }
                }
                transfer::Output::Lacks(from, slot) => {
                    // Blame the peer only for its own claim. The claim that a leader has the slot may
                    // come from another peer, in a promise with `Begin`.
                    if self.presence.holders(slot).any(|peer| peer == from) {
                        let text = format!("it claims to have slot {slot}, but does not send it");
                        self.out.blame(from, Fault::BadRecord(text));
                    }
                }
                transfer::Output::Failed(from) => {
                    self.elections.fetch_failed(self.now, from);
                    let leads = self.membership.ballot().is_some_and(|ballot| ballot.proposer == from);
                    if leads && self.membership.to_accept().is_some() {
                        self.fail_view(Reason::Stalled, Some(from));
                    }
                }
            }
        }
    }

    /// Prepares the exchange that `slot` needs. Returns false if it needs none.
    fn prepare_exchange(&mut self, slot: u32) -> bool {
        let seed = fresh_seed(&mut self.rng);
        let Some(seat) = self.membership.seat(slot, seed) else { return false };
        let sum = seat.sum;
        match self.slots.source(slot, seat) {
            Ok(Source::Own) => return false,
            Ok(Source::Exchange(exchange)) => {
                let until = self.now.plus_ms(self.ctx.session.timing.view_timeout_ms);
                self.exchange.prepare(sum, exchange, until, &self.presence, &mut self.out);
            }
            Ok(Source::Bystander) => {
                self.exchange.stand_by(slot);
                self.exchanged(Bytes::new());
            }
            Err(ending) => self.end(ending),
        }
        true
    }

    /// Begins the exchange once all its peers are connected.
    pub(super) fn begin_exchange(&mut self) {
        match self.exchange.begin(self.now, &self.presence, &mut self.out) {
            Ok(false) => {}
            Ok(true) => {
                self.converse(Input::Start);
                for (from, message) in self.exchange.take_early() {
                    self.converse(Input::Message { from, message });
                }
            }
            Err(missing) => self.fail_view(Reason::Lost, Some(missing)),
        }
    }

    /// Gives an input to the exchange and carries out its actions.
    pub(super) fn converse(&mut self, input: Input<Vocabulary>) {
        let Some((sum, child)) = self.exchange.handle(self.now, input) else { return };
        for action in child.0 {
            match action {
                Action::Send { to, message: content } => {
                    self.out.send(to, Message::Exchange { sum, content })
                }
                Action::SetTimer { at, timer } => {
                    self.out.0.push(Action::SetTimer { at, timer: Timer::Exchange(sum, timer) });
                }
                Action::Compute(job) => self.out.0.push(Action::Compute(Job::Exchange(sum, job))),
                Action::Persist(never) => match never {},
                Action::WriteEarly(early) => self.out.0.push(Action::WriteEarly(early)),
                Action::Blame { peer, fault } => self.out.blame(peer, fault),
                Action::Output(Output::Finished(result)) => self.exchanged(result),
                Action::Output(Output::Named(peers, evidence)) => {
                    self.out.output(Event::Named(peers, evidence));
                }
                Action::Output(Output::Failed(reason, suspect)) => {
                    self.fail_view(reason, suspect);
                }
            }
        }
    }

    /// Takes the result of the exchange, which determines this peer's vector.
    fn exchanged(&mut self, result: Bytes) {
        let Some(ballot) = self.membership.ballot() else { return };
        let Some(slot) = self.exchange.finish() else { return };
        let exchanged = self.slots.exchanged(SumId { ballot, slot }, result, &mut self.out);
        self.contribute_after(exchanged);
    }
}

fn fresh_seed(rng: &mut view::Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}
