//! One node and messages to it: its answers, its records, and the peers that it blames.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::super::network::Network;
use super::super::numbers::Numbers;
use super::messages::begun;
use crate::node::{Event, Node, Record, Timer};
use crate::protocol::ballot::Ballot;
use crate::protocol::committee::{Accepted, Acceptor, Obligation, Promise, Refusal};
use crate::protocol::context::Context;
use crate::protocol::deal;
use crate::protocol::failure::Failure;
use crate::protocol::message::{Message, Trace, VERSION};
use crate::protocol::pairwise::ViewKey;
use crate::protocol::promise::Promised;
use crate::protocol::record::{Acknowledgement, Committed, Record as SumRecord};
use crate::protocol::signed::{Item, Signed};
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{self, Reason};
use crate::protocol::{Action, Fault, Input, Machine, Step, Time};
use crate::session::Peer;
use chacha20::rand_core::SeedableRng;

/// A node in a session of five, and everything around it. The node is in the committee of three and
/// does not lead.
pub(super) struct One {
    pub(super) net: Network,
    pub(super) node: Node,
    pub(super) me: Peer,
    /// Committee without the node; `others` are the peers outside the committee.
    pub(super) committee: Vec<Peer>,
    pub(super) others: Vec<Peer>,
    pub(super) now: Time,
    pub(super) sent: Vec<(Peer, Message)>,
    pub(super) stored: Vec<Record>,
    pub(super) events: Vec<Event>,
    pub(super) blamed: Vec<(Peer, Fault)>,
    pub(super) timers: Vec<(Time, Timer)>,
}

impl One {
    pub(super) fn new() -> Self {
        Self::with(Vec::new())
    }

    pub(super) fn with(stored: Vec<Record>) -> Self {
        let mut one = Self::strange(stored);
        for peer in one.peers() {
            one.greet(peer);
        }
        one
    }

    /// Makes a node without connections.
    pub(super) fn strange(stored: Vec<Record>) -> Self {
        Self::altered(stored, |_| {})
    }

    /// Makes a node without connections, with an altered context.
    pub(super) fn altered(stored: Vec<Record>, alter: impl FnOnce(&mut Context)) -> Self {
        let net = begun();
        let committee = net.committee();
        let me = committee[1];
        let task = Arc::new(Numbers { me, words: vec![3; 3] });
        let mut ctx = net.context(me);
        alter(&mut ctx);
        let node = Node::new(Arc::new(ctx), task, [1; 32], stored).unwrap();
        let others = net.peers().filter(|peer| !committee.contains(peer)).collect();
        let mut one = Self {
            net,
            node,
            me,
            committee: vec![committee[0], committee[2]],
            others,
            now: Time(0),
            sent: Vec::new(),
            stored: Vec::new(),
            events: Vec::new(),
            blamed: Vec::new(),
            timers: Vec::new(),
        };
        one.input(Input::Start);
        one
    }

    pub(super) fn peers(&self) -> Vec<Peer> {
        self.net.peers().filter(|&peer| peer != self.me).collect()
    }

    pub(super) fn hello(&self, committed: u32, trace: Option<Trace>) -> Message {
        Message::Hello { version: VERSION, session: self.net.session().id.0, committed, trace }
    }

    pub(super) fn greet(&mut self, peer: Peer) {
        self.input(Input::PeerUp(peer));
        self.hear(peer, self.hello(0, None));
    }

    pub(super) fn input(&mut self, input: Input<Node>) {
        let step = self.node.handle(self.now, input);
        self.take(step);
    }

    /// Takes the actions of a call that is not an input.
    pub(super) fn take_out(&mut self) {
        let step = std::mem::take(&mut self.node.out);
        self.take(step);
    }

    pub(super) fn take(&mut self, step: Step<Node>) {
        for action in step.0 {
            match action {
                Action::Send { to, message } => self.sent.push((to, message)),
                Action::Persist(record) => self.stored.push(record),
                Action::Output(event) => self.events.push(event),
                Action::Blame { peer, fault } => self.blamed.push((peer, fault)),
                Action::SetTimer { at, timer } => self.timers.push((at, timer)),
                Action::Compute(_) | Action::WriteEarly(_) => {}
            }
        }
    }

    pub(super) fn hear(&mut self, from: Peer, message: Message) {
        self.input(Input::Message { from, message });
    }

    /// Delivers a message, and returns whether the node blames the sender for it.
    pub(super) fn blames(&mut self, from: Peer, message: Message) -> bool {
        self.blamed.clear();
        self.hear(from, message);
        self.blamed.iter().any(|(peer, _)| *peer == from)
    }

    /// Advances to this time, timer by timer.
    pub(super) fn wait(&mut self, until_ms: u64) {
        loop {
            self.timers.sort_by_key(|(at, _)| *at);
            if self.timers.first().is_none_or(|(at, _)| *at > Time::default().plus_ms(until_ms)) {
                break;
            }
            let (at, timer) = self.timers.remove(0);
            self.now = self.now.max(at);
            self.input(Input::Timer(timer));
        }
        self.now = Time::default().plus_ms(until_ms);
    }

    pub(super) fn sign<T: Item>(&self, by: Peer, item: T) -> Signed<T> {
        Signed::new(&self.net.context(by), item)
    }

    pub(super) fn ballot(&self, counter: u64) -> Ballot {
        Ballot { counter, proposer: self.committee[0] }
    }

    pub(super) fn promise(&self, by: Peer, ballot: Ballot, committed: u32) -> Signed<Promised> {
        self.promise_over(by, ballot, &self.all(), committed)
    }

    fn promise_over(&self, by: Peer, ballot: Ballot, reached: &[Peer], committed: u32) -> Signed<Promised> {
        let plain = super::messages::promised(&self.net, ballot, reached);
        let promise = Promise { committed, accepted: None, released: false };
        self.sign(by, Promised { promise, ..plain })
    }

    /// Returns the beginning of a view of these members, with the promises of the committee.
    pub(super) fn begin(&self, ballot: Ballot, members: &[Peer], promised: u32) -> Message {
        let promise = |&by: &Peer| self.promise_over(by, ballot, members, promised);
        super::messages::begin(&self.net, ballot, self.net.committee().iter().map(promise).collect())
    }

    /// Returns a ballot above `counter` whose leader is this node's parent in a view of `members`.
    pub(super) fn below(&self, counter: u64, members: &[Peer]) -> Ballot {
        let child = |ballot: &Ballot| super::messages::order(&self.net, *ballot, members)[1] == self.me;
        (counter + 1..).map(|counter| self.ballot(counter)).find(child).unwrap()
    }

    /// Joins a view of these members.
    pub(super) fn join(&mut self, counter: u64, members: Vec<Peer>) -> Ballot {
        let ballot = self.below(counter, &members);
        self.hear(ballot.proposer, self.begin(ballot, &members, 0));
        assert_eq!(self.node.membership.ballot(), Some(ballot), "{:?}", self.blamed);
        ballot
    }

    pub(super) fn all(&self) -> Vec<Peer> {
        self.net.peers().collect()
    }

    pub(super) fn failures(&self) -> Vec<Reason> {
        let reason =
            |event: &Event| if let Event::ViewFailed(_, _, why, _) = event { Some(*why) } else { None };
        self.events.iter().filter_map(reason).collect()
    }

    pub(super) fn last_to(&self, peer: Peer) -> Option<&Message> {
        self.sent.iter().rev().find(|(to, _)| *to == peer).map(|(_, message)| message)
    }

    /// Returns a record of `slot` summed in `ballot`, with sound deals, and the proof that it was decided.
    pub(super) fn decided(
        &self,
        ballot: Ballot,
        slot: u32,
        total: [u8; 32],
    ) -> (SumRecord, Vec<Signed<Acknowledgement>>) {
        let sum = SumId { ballot, slot };
        let mut rng = view::Rng::from_seed([5; 32]);
        let committee = self.net.committee();
        let deals = committee.iter().map(|&peer| deal::make(&self.net.context(peer), sum, &mut rng).1);
        let record = SumRecord::new(sum, self.all(), total, deals.collect());
        let value = record.digest(&self.node.ctx);
        let acks = committee.iter().map(|&by| self.sign(by, Acknowledgement { ballot, slot, value }));
        let acks = acks.collect();
        (record, acks)
    }
}

#[test]
fn greetings_count_once_and_only_of_this_session_and_version() {
    let session = begun().session().id.0;
    let hello = |version, session, committed| Message::Hello { version, session, committed, trace: None };
    let cases = [
        ("as it is", hello(VERSION, session, 0), true, false),
        ("another version", hello(VERSION + 1, session, 0), false, false),
        ("another session", hello(VERSION, [0; 32], 0), false, false),
        ("more committed slots than there are", hello(VERSION, session, 3), false, true),
        ("a message that may not come first", Message::Status { committed: 0, in_view: false }, false, true),
    ];
    for (what, message, greeted, named) in cases {
        let mut one = One::strange(Vec::new());
        let peer = one.others[0];
        assert_eq!(one.blames(peer, message), named, "{what}");
        assert_eq!(one.node.presence.has(peer), greeted, "{what}");
        let refused = matches!(one.last_to(peer), Some(Message::Fields(_)));
        assert_eq!(refused, !greeted && !named, "{what}: it gets the fields of this session");
    }
    let mut one = One::new();
    let peer = one.others[0];
    assert!(one.blames(peer, one.hello(0, None)), "a second greeting");
    assert!(one.blames(peer, Message::Fields(Vec::new())), "a refusal after the greeting");
    // The fields of another session are reported once. A refused peer may not have this node's fields yet,
    // so its other messages are ignored.
    let mut one = One::strange(Vec::new());
    one.hear(peer, hello(VERSION, [0; 32], 0));
    assert!(!one.blames(peer, Message::Status { committed: 0, in_view: false }));
    for _ in 0..3 {
        assert!(!one.blames(peer, Message::Fields(vec![("name".into(), [0; 8])])));
    }
    let told = one.events.iter().filter(|event| matches!(event, Event::Refused(..))).count();
    assert_eq!(told, 1);
}

#[test]
fn who_has_lost_its_state_promises_and_releases_nothing() {
    let silent = One::with(vec![Record::Silent]);
    for (mut one, votes) in [(One::new(), true), (silent, false)] {
        let (from, ballot) = (one.committee[0], one.ballot(9));
        one.hear(from, Message::Prepare(ballot));
        assert_eq!(matches!(one.last_to(from), Some(Message::Promise(_))), votes);
        assert_eq!(one.stored.contains(&Record::Promised(ballot)), votes);
        // The node acknowledged a value before it learnt that it had lost its state.
        let (record, acks) = one.decided(ballot, 0, [0; 32]);
        let value = record.digest(&one.node.ctx);
        one.node.elections.votes_mut().acceptor.accept(ballot, 0, value).unwrap();
        let released = one.node.elections.release(&record, true, acks, &mut Step::none());
        assert_eq!(released.is_some(), votes);
    }
}

#[test]
fn shares_are_released_for_what_was_acknowledged_and_for_nothing_else() {
    let mut one = One::new();
    let ballot = one.ballot(9);
    let (record, acks) = one.decided(ballot, 0, [0; 32]);
    let value = record.digest(&one.node.ctx);
    let elections = &mut one.node.elections;
    elections.votes_mut().acceptor.accept(ballot, 0, [7; 32]).unwrap();
    assert_eq!(elections.release(&record, true, acks.clone(), &mut Step::none()), None);
    elections.votes_mut().acceptor.accept(ballot, 0, value).unwrap();
    assert_eq!(elections.release(&record, false, acks.clone(), &mut Step::none()), None, "not in this view");
    assert_eq!(elections.votes_mut().acceptor.released, None);
    assert!(elections.release(&record, true, acks, &mut Step::none()).is_some());
    assert_eq!(elections.votes_mut().acceptor.released, Some(value));
}

#[test]
fn a_proposal_ends_no_view() {
    let mut one = One::new();
    let ballot = one.join(0, one.all());
    for (time, from) in one.committee.clone().into_iter().cycle().take(8).enumerate() {
        let counter = ballot.counter + 1 + time as u64;
        one.hear(from, Message::Prepare(Ballot { counter, proposer: from }));
        assert!(matches!(one.last_to(from), Some(Message::Refuse(_, other)) if *other == ballot));
    }
    assert_eq!((one.failures(), one.node.membership.ballot()), (Vec::new(), Some(ballot)));
}

#[test]
fn what_a_proposer_is_promised_counts_if_it_is_its_authors_own_and_sound() {
    // The node proposes, because it is the first committee member among its connections.
    let proposer = || {
        let mut one = One::strange(Vec::new());
        let (other, rest) = (one.committee[1], one.others.clone());
        one.greet(other);
        rest.into_iter().for_each(|peer| one.greet(peer));
        one.wait(3_000);
        let ballot = one.node.elections.proposed().expect("it proposes");
        (one, ballot, other)
    };
    let (mut one, ballot, other) = proposer();
    one.hear(other, Message::Promise(one.promise(other, ballot, 0)));
    assert!(one.node.membership.view().is_some(), "two of three are a quorum");
    type Make = fn(&One, Ballot, Peer) -> Signed<Promised>;
    let cases: [(&str, bool, Make); 4] = [
        ("another's", false, |one, ballot, _| one.promise(one.committee[0], ballot, 0)),
        ("of an earlier ballot", false, |one, ballot, by| {
            one.promise(by, Ballot { counter: ballot.counter - 1, ..ballot }, 0)
        }),
        ("of an earlier ballot, with more committed slots than there are", true, |one, ballot, by| {
            one.promise(by, Ballot { counter: ballot.counter - 1, ..ballot }, 9)
        }),
        ("not signed by its author", true, |one, ballot, by| {
            let mut forged = one.promise(one.committee[0], ballot, 0);
            forged.author = by;
            forged
        }),
    ];
    for (what, named, make) in cases {
        let (mut one, ballot, other) = proposer();
        let promise = make(&one, ballot, other);
        assert_eq!(one.blames(other, Message::Promise(promise)), named, "{what}");
        assert!(one.node.membership.view().is_none(), "{what}");
    }
    // The node has seen another decision of the same ballot.
    let (mut one, ballot, other) = proposer();
    let earlier = one.ballot(0);
    let acks = |one: &One, value: [u8; 32]| -> Vec<_> {
        let item = Acknowledgement { ballot: earlier, slot: 0, value };
        one.net.committee().iter().map(|&by| one.sign(by, item.clone())).collect()
    };
    one.node.elections.votes_mut().decision = acks(&one, [1; 32]);
    let accepted = Some(Accepted { ballot: earlier, slot: 0, value: [2; 32] });
    let promise = Promise { committed: 0, accepted, released: true };
    let decision = acks(&one, [2; 32]);
    one.hear(
        other,
        Message::Promise(one.sign(
            other,
            Promised { promise, decision, ..super::messages::promised(&one.net, ballot, &one.all()) },
        )),
    );
    let convicted = one.blamed.iter().any(|(_, fault)| *fault == Fault::TwoValues);
    assert!(convicted, "{:?}", one.blamed);
}

#[test]
fn a_refusal_of_an_earlier_proposal_changes_nothing() {
    let mut one = One::new();
    let (from, own) = (one.committee[0], Ballot { counter: 3, proposer: one.me });
    let seen = one.node.elections.seen();
    one.hear(from, Message::Refuse(own, one.ballot(77)));
    assert_eq!((one.node.elections.seen(), one.blamed.len()), (seen, 0));
}

#[test]
fn a_view_without_this_peer_or_with_one_outside_the_roster_is_not_joined() {
    let others = |one: &One| one.all().into_iter().filter(|&peer| peer != one.me).collect::<Vec<_>>();
    let mut one = One::new();
    let ballot = one.ballot(9);
    let begin = one.begin(ballot, &others(&one), 0);
    assert!(!one.blames(ballot.proposer, begin), "its members may reach each other but not this peer");
    assert!(one.node.membership.view().is_none());

    let mut one = One::new();
    let mut promises = super::messages::promises(&one.net, ballot, &one.all());
    promises[0].item.reached[0] |= 1 << 7;
    promises[0] = one.sign(promises[0].author, promises[0].item.clone());
    let begin = super::messages::begin(&one.net, ballot, promises);
    assert!(one.blames(ballot.proposer, begin), "a promise reaches peer 7 of 5");
    assert!(one.node.membership.view().is_none());
}

#[test]
fn a_leader_keeps_to_what_the_promises_of_its_view_oblige_it_to() {
    let mut one = One::new();
    let ballot = one.join(9, one.all());
    let record = |ballot, slot| one.decided(ballot, slot, [0; 32]).0;
    let (fresh, earlier) = (record(ballot, 1), record(one.ballot(1), 1));
    let accepted = Accepted { ballot: one.ballot(1), slot: 1, value: earlier.digest(&one.node.ctx) };
    let duty = |committed, resume| Some(Obligation { committed, holder: one.me, resume });
    let (free, bound) = (duty(1, None), duty(1, Some((one.me, accepted))));
    let mut allowed = |duty: &Option<_>, slot, record| {
        one.node.membership.oblige(duty.clone());
        one.node.membership.allows(slot, record)
    };
    assert!(allowed(&free, 1, None) && allowed(&free, 1, Some(&fresh)) && allowed(&bound, 1, Some(&earlier)));
    assert!(!allowed(&free, 0, None), "a slot that is committed somewhere");
    assert!(!allowed(&free, 1, Some(&earlier)), "a value of an earlier view that no promise names");
    assert!(!allowed(&bound, 1, None), "a new sum where a value was acknowledged");
    assert!(!allowed(&bound, 1, Some(&fresh)), "a value other than that one");
    // The node also checks this before it accepts.
    one.node.membership.oblige(bound);
    let accept = Step(vec![Action::Output(view::Output::Accept(fresh))]);
    one.node.viewed(Some(accept));
    one.take_out();
    assert_eq!(one.failures(), [Reason::Disagreement]);
}

#[test]
fn what_shows_where_a_peer_was_counts_by_its_signature_and_for_its_author() {
    let mut one = One::new();
    let key = |ballot| ViewKey { ballot, begun: [0; 32], public: [9; 32], commitment: None };
    let (by, other) = (one.committee[0], one.committee[1]);
    let mut forged = one.sign(other, key(one.ballot(5)));
    forged.author = by;
    one.node.elections.witness(vec![forged, one.sign(other, key(one.ballot(5)))], &mut Step::none());
    assert!(one.node.elections.trace_of(by).is_none() && one.node.elections.trace_of(other).is_some());
    let shown = |author: Peer, counter: u64| {
        let mut one = One::new();
        one.join(4, one.all());
        let trace = Trace::Key(one.sign(author, key(one.ballot(counter))));
        one.node.elections.shown(by, &trace, &mut Step::none());
        one.node.elections.is_silent()
    };
    let me = one.me;
    assert!(shown(me, 1_000), "the node took part, and does not know it");
    assert!(!shown(me, 1), "the node knows of a later ballot");
    assert!(!shown(other, 1_000), "it was another peer that took part");
    // The checks also apply to restored items.
    let traces = vec![Trace::Key(one.sign(other, key(one.ballot(5)))), {
        let mut forged = one.sign(other, key(one.ballot(5)));
        forged.author = by;
        Trace::Key(forged)
    }];
    let one = One::with(vec![Record::Traces(traces)]);
    assert!(one.node.elections.trace_of(by).is_none() && one.node.elections.trace_of(other).is_some());
}

#[test]
fn an_acceptor_promises_upwards_and_acknowledges_what_it_may() {
    let ballot = |counter| Ballot { counter, proposer: Peer(0) };
    let mut acceptor = Acceptor::<u8>::default();
    assert!(acceptor.prepare(ballot(5)).is_ok());
    assert_eq!(acceptor.prepare(ballot(5)), Err(Refusal::Promised(ballot(5))), "once each");
    assert_eq!(acceptor.prepare(ballot(4)), Err(Refusal::Promised(ballot(5))));
    assert_eq!(acceptor.accept(ballot(4), 0, 1), Err(Refusal::Promised(ballot(5))), "a lower ballot");
    assert_eq!(acceptor.accept(ballot(5), 1, 1), Err(Refusal::Slot), "not the next slot");
    assert_eq!(acceptor.accept(ballot(5), 0, 1), Ok(()));
    assert!(!acceptor.release(0, &2) && !acceptor.release(1, &1), "it releases only what it acknowledged");
    assert!(acceptor.release(0, &1));
    assert_eq!(acceptor.accept(ballot(6), 0, 2), Err(Refusal::Released));
    acceptor.commit(1);
    assert_eq!(acceptor.committed, 0, "slots are committed in order");
    acceptor.commit(0);
    assert_eq!((acceptor.committed, acceptor.released, acceptor.accepted), (1, None, None));
}

#[test]
fn an_opening_takes_the_pads_off_the_total_that_belongs_to_it() {
    let mut one = One::new();
    let (early, ballot) = (one.ballot(1), one.join(9, one.all()));
    let (record, acknowledgements) = one.decided(ballot, 0, [0; 32]);
    let committed = Committed { record, acknowledgements, pads: vec![[0; 32]; 3], releases: Vec::new() };
    let (other, same) = (one.decided(early, 0, [0; 32]).0, committed.record.clone());
    for (held, opens) in [(other, false), (same, true)] {
        one.node.slots.accept(held, Bytes::new());
        let opened = Step(vec![Action::Output(view::Output::Opened(committed.clone()))]);
        one.node.viewed(Some(opened));
        assert_eq!(one.node.slots.is_opening(), opens);
    }
}

#[test]
fn nobody_keeps_away_from_itself() {
    let mut one = One::new();
    one.join(0, one.all());
    one.node.out.blame(one.me, Fault::TwoValues);
    one.node.note_blamed();
    one.take_out();
    assert_eq!((one.blamed.len(), one.failures()), (0, vec![Reason::Disagreement]));
    assert!(one.node.presence.reachable().contains(&one.me));
}

/// If a neighbour sends only messages of another view, this view is still given up.
#[test]
fn what_is_said_of_another_view_does_not_count_as_progress() {
    let stalled = |said: bool| {
        let mut one = One::new();
        let ballot = one.join(9, one.all());
        let (old, parent) = (one.ballot(1), ballot.proposer);
        for time in 1..16 {
            one.wait(500 * time);
            if said {
                one.hear(parent, Message::View(view::Message::KeepAlive(old)));
            }
        }
        one.failures()
    };
    assert_eq!(stalled(false), [Reason::Stalled]);
    assert_eq!(stalled(true), [Reason::Stalled]);
}

/// While a node waits for its disk, the node reports that it still works. It reports this to its connected
/// neighbours in the view.
#[test]
fn a_node_that_is_held_up_says_that_it_is_there_to_whom_it_concerns() {
    let mut one = One::new();
    assert_eq!(one.node.beat(), [], "in no view");
    let ballot = one.join(0, one.all());
    let there = |to: Peer| (to, Message::View(view::Message::KeepAlive(ballot)));
    let neighbours: BTreeSet<_> = one.node.membership.view().unwrap().place().neighbours().collect();
    assert_eq!(one.node.beat(), neighbours.iter().map(|&to| there(to)).collect::<Vec<_>>());
    assert!(neighbours.len() > 1 && neighbours.contains(&ballot.proposer));
    one.node.presence.lost(ballot.proposer, &mut Step::none());
    let left: Vec<_> = neighbours.into_iter().filter(|&peer| peer != ballot.proposer).map(there).collect();
    assert_eq!(one.node.beat(), left, "not to peers that are gone");
}

/// Makes a node that proposes with promises of itself and of another committee member. The third member
/// was not asked, but is connected. The other member is barred, because it has accused three peers.
fn proposes_with_a_barred_member() -> (One, Ballot, Peer, u64) {
    let mut one = One::strange(Vec::new());
    let (third, other, rest) = (one.committee[0], one.committee[1], one.others.clone());
    let (ballot, ms) = one.proposal_with(other);
    one.greet(third);
    let mut item = one.promise(other, ballot, 0).item;
    for (number, suspect) in (0u16..).zip([one.me, rest[0], rest[1]]) {
        let earlier = Ballot { counter: 0, proposer: Peer(number) };
        let failure = Failure { ballot: earlier, slot: 0, reason: Reason::Lost, suspect: Some(suspect) };
        item.marks.push(one.sign(other, failure));
    }
    one.hear(other, Message::Promise(one.sign(other, item)));
    (one, ballot, other, ms)
}

#[test]
fn a_proposer_waits_half_a_lease_for_promises_with_which_no_mark_gives_way() {
    let half = super::super::numbers::timing().proposal_backoff_ms / 2;
    let (mut one, ballot, other, ms) = proposes_with_a_barred_member();
    one.wait(ms + half - 20);
    assert_eq!(one.node.membership.ballot(), None, "two promises are a quorum, but one is of a barred peer");
    let third = one.committee[0];
    one.hear(third, Message::Promise(one.promise(third, ballot, 0)));
    assert_eq!(one.node.membership.ballot(), Some(ballot));
    assert!(!one.node.membership.members().contains(&other), "the others are a quorum without it");
    // If no other promise comes, the view begins with the two promises.
    let (mut one, ballot, other, ms) = proposes_with_a_barred_member();
    one.wait(ms + half + 10);
    assert_eq!(one.node.membership.ballot(), Some(ballot));
    assert!(one.node.membership.members().contains(&other));
}

/// Joins a view in which the node and another committee member are not neighbours.
fn joins_apart_from(one: &mut One, other: Peer, marked: bool) {
    let failure = Failure { ballot: one.ballot(0), slot: 0, reason: Reason::Lost, suspect: Some(one.me) };
    let mark = marked.then(|| one.sign(other, failure));
    for counter in 1.. {
        let ballot = one.ballot(counter);
        let promise = |&by: &Peer| {
            let marks = mark.iter().cloned().collect();
            one.sign(by, Promised { marks, ..one.promise(by, ballot, 0).item })
        };
        let promises = one.net.committee().iter().map(promise).collect();
        let begin = super::messages::begin(&one.net, ballot, promises);
        // Marked peers have no place directly below the leader.
        for parent in [ballot.proposer, one.others[0], one.others[1]] {
            one.hear(parent, begin.clone());
        }
        let view = one.node.membership.view().filter(|view| view.ballot() == ballot);
        if view.is_some_and(|view| view.place().neighbours().all(|peer| peer != other)) {
            return;
        }
    }
}

#[test]
fn who_blames_a_member_ends_the_view_unless_a_mark_already_keeps_the_two_apart() {
    for (marked, ended) in [(false, vec![Reason::Fault]), (true, Vec::new())] {
        let mut one = One::new();
        let other = one.committee[1];
        joins_apart_from(&mut one, other, marked);
        one.events.clear();
        assert!(one.blames(other, one.hello(0, None)), "a second greeting");
        assert_eq!(one.failures(), ended, "marked: {marked}");
    }
}
