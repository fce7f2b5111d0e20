//! Tests of the machine of a view: each report or order breaks one rule.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::super::network::Network;
use super::messages::begun;
use crate::protocol::all_reduce::{self, Direction};
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Context;
use crate::protocol::deal::{self, Release};
use crate::protocol::pairwise::ViewKey;
use crate::protocol::record::{Acknowledgement, Record};
use crate::protocol::signed::{Item, Signed};
use crate::protocol::sum_id::SumId;
use crate::protocol::view::{self, Message, Order, Output, Reason, Report, View};
use crate::protocol::{Action, Input, Machine, Step, Time};
use crate::session::Peer;
use chacha20::rand_core::SeedableRng;

type Sent = (Peer, Peer, Message);

/// Views of five peers and the messages between them. The tree order is: the leader, `at`, another
/// peer, and the two children of `at`. The first child is in the committee, and the second is not.
struct Tree {
    net: Network,
    ctx: Vec<std::sync::Arc<Context>>,
    committee: Vec<Peer>,
    order: Vec<Peer>,
    ballot: Ballot,
    views: BTreeMap<Peer, View>,
    queue: VecDeque<Sent>,
    /// Peers that `at` blames; `failed` has the reasons why `at` gives up.
    blamed: Vec<Peer>,
    failed: Vec<Reason>,
    opened: Vec<u32>,
    accepted: Vec<Record>,
}

impl Tree {
    fn new() -> Self {
        Self::above(0, None)
    }

    /// Makes views with a ballot above this counter; the leader finishes `resume` first.
    fn above(counter: u64, resume: Option<Record>) -> Self {
        let net = begun();
        let ctx: Vec<_> = net.peers().map(|peer| std::sync::Arc::new(net.context(peer))).collect();
        let committee = net.committee();
        let members: Vec<_> = net.peers().collect();
        let fits = |order: &[Peer]| committee.contains(&order[3]) && !committee.contains(&order[4]);
        let (ballot, order) = (counter + 1..)
            .map(|counter| Ballot { counter, proposer: committee[0] })
            .map(|ballot| (ballot, super::messages::order(&net, ballot, &members)))
            .find(|(_, order)| fits(order))
            .unwrap();
        let shape = super::messages::tree(&net, ballot, &members);
        let view = |&peer: &Peer| {
            let seed = [peer.0 as u8; 32];
            (peer, View::new(ctx[peer.index()].clone(), (ballot, [0; 32]), shape.clone(), seed).unwrap())
        };
        let views = members.iter().map(view).collect();
        let mut tree = Self {
            net,
            ctx,
            committee,
            order,
            ballot,
            views,
            queue: VecDeque::new(),
            blamed: Vec::new(),
            failed: Vec::new(),
            opened: Vec::new(),
            accepted: Vec::new(),
        };
        for peer in members {
            let step = tree.view(peer).handle(Time(0), Input::Start);
            tree.act(peer, step, resume.as_ref());
        }
        tree.accepted.extend(resume);
        tree
    }

    fn at(&self) -> Peer {
        self.order[1]
    }

    fn view(&mut self, peer: Peer) -> &mut View {
        self.views.get_mut(&peer).unwrap()
    }

    fn sign<T: Item>(&self, by: Peer, item: T) -> Signed<T> {
        Signed::new(&self.ctx[by.index()], item)
    }

    /// Signs an item with the key of `by`, but states `as_if` as its author.
    fn forge<T: Item>(&self, by: Peer, as_if: Peer, item: T) -> Signed<T> {
        let mut forged = self.sign(by, item);
        forged.author = as_if;
        forged
    }

    fn act(&mut self, peer: Peer, step: Step<View>, resume: Option<&Record>) {
        let ctx = self.ctx[peer.index()].clone();
        let (ballot, leads) = (self.ballot, peer == self.order[0]);
        for action in step.0 {
            let next = match action {
                Action::Send { to, message } => {
                    self.queue.push_back((peer, to, message));
                    continue;
                }
                Action::Compute(job) => self.view(peer).handle(Time(0), Input::Done(job.run())),
                Action::Blame { peer: who, .. } if peer == self.at() => {
                    self.blamed.push(who);
                    continue;
                }
                Action::Output(Output::Ready) => match resume.or(self.accepted.first()).cloned() {
                    Some(record) => self.view(peer).resume(Time(0), record),
                    None => self.view(peer).sum(Time(0), 0),
                },
                Action::Output(Output::Sum(slot)) => {
                    let vector = Bytes::from(vec![1; ctx.plan[slot as usize].len()]);
                    let passed = self.view(peer).pass_on();
                    self.act(peer, passed, resume);
                    self.view(peer).contribute(Time(0), slot, vector)
                }
                Action::Output(Output::Accept(record)) => {
                    let (slot, value) = (record.value.sum.slot, record.digest(&ctx));
                    let item = Acknowledgement { ballot, slot, value };
                    let item = ctx.committee_index(peer).map(|_| self.sign(peer, item));
                    if peer == self.at() {
                        self.accepted.push(record);
                    }
                    let passed = self.view(peer).pass_on();
                    self.act(peer, passed, resume);
                    self.view(peer).acknowledge(Time(0), slot, item)
                }
                Action::Output(Output::Decided(record, _)) => {
                    let item = ctx.committee_index(peer).map(|_| self.release(peer, &record));
                    self.view(peer).release(Time(0), record.value.sum.slot, item)
                }
                Action::Output(Output::Opened(committed)) => {
                    let slot = committed.record.value.sum.slot;
                    if peer == self.at() {
                        self.opened.push(slot);
                    }
                    if !leads || slot > 0 {
                        continue;
                    }
                    self.view(peer).sum(Time(0), 1)
                }
                Action::Output(Output::Failed(reason, _)) if peer == self.at() => {
                    self.failed.push(reason);
                    continue;
                }
                _ => continue,
            };
            self.act(peer, next, resume);
        }
    }

    /// Returns a committee member's release of its shares for a record.
    fn release(&self, by: Peer, record: &Record) -> Signed<Release> {
        deal::release(&self.ctx[by.index()], record).unwrap()
    }

    fn releases(&self, record: &Record) -> Vec<Signed<Release>> {
        self.committee.iter().map(|&by| self.release(by, record)).collect()
    }

    /// Returns a record with fresh deals of all dealers.
    fn record(&self, sum: SumId, total: [u8; 32]) -> Record {
        let mut rng = view::Rng::from_seed([5; 32]);
        let deals = self.committee.iter().map(|peer| deal::make(&self.ctx[peer.index()], sum, &mut rng).1);
        Record::new(sum, self.net.peers().collect(), total, deals.collect())
    }

    /// Delivers messages until the next one is `stop`. Takes that message out and returns it.
    fn until(&mut self, stop: impl Fn(&Sent) -> bool) -> Option<Message> {
        while let Some(next) = self.queue.pop_front() {
            if stop(&next) {
                return Some(next.2);
            }
            self.say(next.0, next.1, next.2);
        }
        None
    }

    fn say(&mut self, from: Peer, to: Peer, message: Message) {
        let step = self.view(to).handle(Time(0), Input::Message { from, message });
        self.act(to, step, None);
    }

    /// Returns the next report of this peer to `at` that is `wanted`.
    fn report(&mut self, of: Peer, wanted: impl Fn(&Report) -> bool) -> Report {
        let at = self.at();
        let found = self.until(|(from, to, message)| {
            let Message::Up(_, report) = message else { return false };
            *from == of && *to == at && wanted(report)
        });
        let Some(Message::Up(_, report)) = found else { panic!("no such report") };
        report
    }

    /// Returns the next order to `at` that is `wanted`.
    fn order(&mut self, wanted: impl Fn(&Order) -> bool) -> Order {
        let at = self.at();
        let found = self.until(|(_, to, message)| {
            let Message::Down(_, order) = message else { return false };
            *to == at && wanted(order)
        });
        let Some(Message::Down(_, order)) = found else { panic!("no such order") };
        order
    }

    fn up(&mut self, of: Peer, report: Report) {
        self.say(of, self.at(), Message::Up(self.ballot, report));
    }

    fn down(&mut self, order: Order) {
        self.say(self.order[0], self.at(), Message::Down(self.ballot, order));
    }

    /// Returns whether the order was followed: it neither ended the view nor led to blame.
    fn follows(mut self, order: Order) -> bool {
        self.down(order);
        self.failed.is_empty() && self.blamed.is_empty()
    }
}

#[test]
fn a_view_of_five_goes_through_its_plan() {
    let mut tree = Tree::new();
    assert!(tree.until(|_| false).is_none());
    assert_eq!((tree.opened, tree.blamed, tree.failed), (vec![0, 1], vec![], vec![]));
}

/// Change of a child's report.
type Change = fn(&Tree, Peer, &mut Report);

#[test]
fn a_report_that_breaks_any_rule_names_the_child_that_carries_it() {
    let keys: [(&str, usize, Change); 5] = [
        ("a commitment in a small view", 3, |tree, by, report| {
            let key =
                ViewKey { ballot: tree.ballot, begun: [0; 32], public: [9; 32], commitment: Some([0; 32]) };
            *report = Report::Keys(vec![tree.sign(by, key)]);
        }),
        ("of another beginning", 3, |tree, by, report| {
            let key = ViewKey { ballot: tree.ballot, begun: [1; 32], public: [9; 32], commitment: None };
            *report = Report::Keys(vec![tree.sign(by, key)]);
        }),
        ("one author twice", 3, |_, _, report| {
            let Report::Keys(keys) = report else { return };
            keys.push(keys[0].clone());
        }),
        ("another's signature", 3, |tree, by, report| {
            let key = ViewKey { ballot: tree.ballot, begun: [0; 32], public: [9; 32], commitment: None };
            *report = Report::Keys(vec![tree.forge(tree.order[4], by, key)]);
        }),
        ("of a peer that is not below it", 3, |tree, _, report| {
            let key = ViewKey { ballot: tree.ballot, begun: [0; 32], public: [9; 32], commitment: None };
            *report = Report::Keys(vec![tree.sign(tree.order[4], key)]);
        }),
    ];
    let holds: [(&str, usize, Change); 3] = [
        ("a deal with bad shares", 3, |tree, by, report| {
            let Report::TotalReady { deals, .. } = report else { return };
            let mut item = deals[0].item.clone();
            item.dealt.shares.swap(0, 1);
            deals[0] = tree.sign(by, item);
        }),
        ("a deal of no dealer", 4, |tree, by, report| {
            let Report::TotalReady { slot, deals, .. } = report else { return };
            let sum = SumId { ballot: tree.ballot, slot: *slot };
            let mut rng = view::Rng::from_seed([3; 32]);
            deals.push(deal::make(&tree.ctx[by.index()], sum, &mut rng).1);
        }),
        ("of a later slot", 3, |tree, by, report| {
            let Report::TotalReady { slot, deals, .. } = report else { return };
            *slot = 1;
            let sum = SumId { ballot: tree.ballot, slot: 1 };
            let mut rng = view::Rng::from_seed([3; 32]);
            *deals = vec![deal::make(&tree.ctx[by.index()], sum, &mut rng).1];
        }),
    ];
    fn acknowledge(tree: &Tree, by: Peer, report: &mut Report, change: fn(&mut Acknowledgement)) {
        let Report::Acknowledge(_, items) = report else { return };
        let value = tree.accepted[0].digest(&tree.ctx[0]);
        let mut item = Acknowledgement { ballot: tree.ballot, slot: 0, value };
        change(&mut item);
        *items = vec![tree.sign(by, item)];
    }
    let acknowledgements: [(&str, usize, Change); 5] = [
        ("of another ballot", 3, |tree, by, report| {
            acknowledge(tree, by, report, |item| item.ballot.counter += 1);
        }),
        ("of another slot", 3, |tree, by, report| acknowledge(tree, by, report, |item| item.slot = 1)),
        ("of another value", 3, |tree, by, report| acknowledge(tree, by, report, |item| item.value[0] ^= 1)),
        ("of a peer outside the committee", 4, |tree, by, report| acknowledge(tree, by, report, |_| ())),
        ("for a later slot", 3, |_, _, report| *report = Report::Acknowledge(1, Vec::new())),
    ];
    fn release(tree: &Tree, by: Peer, report: &mut Report, change: fn(&mut Release)) {
        let Report::Release(_, items) = report else { return };
        let record = &tree.accepted[0];
        let (sum, value) = (record.value.sum, record.digest(&tree.ctx[0]));
        let mut item = Release { sum, value, shares: Vec::new(), challenge: [0; 32], response: [0; 32] };
        change(&mut item);
        *items = vec![tree.sign(by, item)];
    }
    let releases: [(&str, usize, Change); 4] = [
        ("of another sum", 3, |tree, by, report| release(tree, by, report, |item| item.sum.slot = 1)),
        ("of another value", 3, |tree, by, report| release(tree, by, report, |item| item.value[0] ^= 1)),
        ("of a peer outside the committee", 4, |tree, by, report| release(tree, by, report, |_| ())),
        ("for a later slot", 3, |_, _, report| *report = Report::Release(1, Vec::new())),
    ];
    let is: [fn(&Report) -> bool; 4] = [
        |report| matches!(report, Report::Keys(_)),
        |report| matches!(report, Report::TotalReady { .. }),
        |report| matches!(report, Report::Acknowledge(..)),
        |report| matches!(report, Report::Release(..)),
    ];
    let rounds: [&[(&str, usize, Change)]; 4] = [&keys, &holds, &acknowledgements, &releases];
    for (round, is) in rounds.into_iter().zip(is) {
        let unchanged: [(&str, usize, Change); 2] =
            [("as it is", 3, |_, _, _| ()), ("as it is", 4, |_, _, _| ())];
        for (what, child, change) in unchanged.iter().chain(round) {
            let mut tree = Tree::new();
            let by = tree.order[*child];
            let mut report = tree.report(by, is);
            change(&tree, by, &mut report);
            tree.up(by, report.clone());
            let expected = if *what == "as it is" { vec![] } else { vec![by] };
            assert_eq!(tree.blamed, expected, "{what}: {report:?}");
            if expected.is_empty() {
                tree.up(by, report.clone());
                assert_eq!(tree.blamed, [by], "a second time: {report:?}");
            }
        }
    }
}

#[test]
fn a_report_that_comes_before_its_time_names_the_child_that_sends_it() {
    type Before = fn(&Order) -> bool;
    let early: [(&str, Before, Report); 2] = [
        (
            "an empty acknowledgement",
            |order| matches!(order, Order::Accept(_)),
            Report::Acknowledge(0, vec![]),
        ),
        ("nothing decided", |order| matches!(order, Order::Decide(..)), Report::Release(0, vec![])),
    ];
    for (what, before, report) in early {
        let mut tree = Tree::new();
        let by = tree.order[3];
        drop(tree.order(before));
        tree.up(by, report);
        assert_eq!(tree.blamed, [by], "{what}");
    }
    // A value that an earlier view has acknowledged is finished without a sum.
    let mut first = Tree::new();
    drop(first.order(|order| matches!(order, Order::Decide(..))));
    let record = first.accepted.remove(0);
    let mut tree = Tree::above(first.ballot.counter, Some(record));
    drop(tree.order(|order| matches!(order, Order::Decide(..))));
    assert_eq!((tree.accepted.len(), tree.failed.len()), (2, 0), "it is resumed");
    let by = tree.order[3];
    tree.up(by, Report::TotalReady { slot: 0, total: [0; 32], deals: vec![] });
    assert_eq!(tree.blamed, [by], "nothing is summed");
}

#[test]
fn who_stands_elsewhere_in_the_tree_gives_no_orders_and_no_reports() {
    let mut tree = Tree::new();
    let (at, stranger, child) = (tree.at(), tree.order[2], tree.order[3]);
    let keys = tree.report(child, |report| matches!(report, Report::Keys(_)));
    tree.say(stranger, at, Message::Up(tree.ballot, keys.clone()));
    assert_eq!((&tree.blamed, &tree.failed), (&vec![], &vec![]), "it may have seen another tree");
    tree.say(child, at, Message::Down(tree.ballot, Order::Sum(0)));
    assert_eq!(tree.blamed, [child], "orders come from above");
    // The slot is over, so the report has no other error.
    let mut tree = Tree::new();
    drop(tree.order(|order| matches!(order, Order::Accept(record) if record.value.sum.slot == 1)));
    let parent = tree.order[0];
    tree.say(parent, at, Message::Up(tree.ballot, Report::Acknowledge(0, vec![])));
    assert_eq!(tree.blamed, [parent], "reports come from below");
    // Chunks of another sum are not a fault: a chunk may be late.
    let mut tree = Tree::new();
    drop(tree.order(|order| matches!(order, Order::Accept(_))));
    let sum = SumId { ballot: tree.ballot, slot: 1 };
    let data = Bytes::from_static(&[1; 12]);
    let chunk = all_reduce::Message::Chunk { sum, direction: Direction::Up, index: 0, data };
    tree.say(child, at, Message::Reduce(chunk));
    assert_eq!(tree.blamed, []);
    // A vector of a slot that is not being summed goes into no sum.
    let step = tree.view(at).contribute(Time(0), 1, Bytes::from_static(&[1; 12]));
    assert!(step.0.is_empty(), "{step:?}");
}

#[test]
fn an_order_to_sum_or_to_accept_that_breaks_any_rule_is_not_followed() {
    let keys = |order: &Order| matches!(order, Order::Keys(_));
    let mut tree = Tree::new();
    drop(tree.order(keys));
    assert!(!tree.follows(Order::Sum(0)), "before the keys");
    for slot in [1, 2] {
        let mut tree = Tree::new();
        drop(tree.order(|order| matches!(order, Order::Sum(0))));
        assert_eq!(tree.follows(Order::Sum(slot)), slot == 1, "slot {slot}");
    }
    let mut tree = Tree::new();
    let Order::Keys(mut items) = tree.order(keys) else { unreachable!() };
    let by = tree.order[2];
    let other = items.iter_mut().find(|key| key.author == by).unwrap();
    *other = tree.forge(tree.order[0], by, other.item.clone());
    assert!(!tree.follows(Order::Keys(items)), "a partner's key that it has not signed");

    fn accept(of: u32) -> impl Fn(&Order) -> bool {
        move |order| matches!(order, Order::Accept(record) if record.value.sum.slot == of)
    }
    let accepted = |slot: u32, change: &dyn Fn(&Tree, Record) -> Record| {
        let mut tree = Tree::new();
        let Order::Accept(record) = tree.order(accept(slot)) else { unreachable!() };
        let changed = change(&tree, record);
        tree.follows(Order::Accept(changed))
    };
    assert!(accepted(0, &|_, record| record));
    let broken = accepted(0, &|_, mut record| {
        record.deals[0].item.dealt.challenge[0] ^= 1;
        record
    });
    assert!(!broken, "a deal that its dealer has not signed");
    // A dealer signs a deal with a share that its holder cannot open. The dealer is named.
    let mut tree = Tree::new();
    let Order::Accept(mut record) = tree.order(accept(0)) else { unreachable!() };
    let mut item = record.deals[1].item.clone();
    item.dealt.shares[2] = item.dealt.shares[1];
    record.deals[1] = tree.sign(record.deals[1].author, item);
    let liar = record.deals[1].author;
    let record = Record::new(record.value.sum, record.value.members, record.value.total, record.deals);
    tree.down(Order::Accept(record));
    assert_eq!((&tree.blamed[..], tree.failed.len()), (&[liar][..], 1), "bad shares");
    // The leader changes a deal of another member. That member is not named, because it has not signed
    // the changed deal.
    let mut tree = Tree::new();
    let Order::Accept(mut record) = tree.order(accept(0)) else { unreachable!() };
    record.deals[1].item.dealt.shares.swap(1, 2);
    let record = Record::new(record.value.sum, record.value.members, record.value.total, record.deals);
    tree.down(Order::Accept(record));
    assert_eq!((&tree.blamed[..], tree.failed.len()), (&[][..], 1), "a deal that the leader has changed");
    let later = |tree: &Tree| SumId { ballot: tree.ballot, slot: 1 };
    assert!(!accepted(0, &|tree, record| tree.record(later(tree), record.value.total)), "of a later slot");
    let high = |tree: &Tree, slot| SumId {
        ballot: Ballot { counter: tree.ballot.counter + 1, ..tree.ballot },
        slot,
    };
    assert!(!accepted(0, &|tree, _| tree.record(high(tree, 1), [0; 32])), "of a later view");
    let low = |tree: &Tree, slot| SumId { ballot: Ballot { counter: 0, ..tree.ballot }, slot };
    assert!(accepted(0, &|tree, _| tree.record(low(tree, 1), [0; 32])), "of an earlier view");
    assert!(!accepted(0, &|tree, _| tree.record(low(tree, 0), [0; 32])), "of this slot in an earlier view");
    let mut tree = Tree::new();
    let again = tree.order(accept(0));
    tree.down(again.clone());
    assert!(!tree.follows(again), "twice");
}

#[test]
fn a_decision_or_an_opening_that_breaks_any_rule_is_not_followed() {
    let mut tree = Tree::new();
    drop(tree.order(|order| matches!(order, Order::Decide(0, _))));
    let value = tree.accepted[0].digest(&tree.ctx[0]);
    let item = Acknowledgement { ballot: tree.ballot, slot: 1, value };
    let acks = tree.committee.iter().map(|&by| tree.sign(by, item.clone())).collect();
    assert!(!tree.follows(Order::Decide(1, acks)), "for a slot other than the accepted one");

    for (count, follows) in [(1, false), (2, true)] {
        let mut tree = Tree::new();
        let Order::Decide(_, mut acks) = tree.order(|order| matches!(order, Order::Decide(0, _))) else {
            unreachable!()
        };
        acks.truncate(count);
        assert_eq!(tree.follows(Order::Decide(0, acks)), follows, "{count} of a quorum of two");
    }

    type Items = Vec<Signed<Release>>;
    let opened = |slot: u32, change: &dyn Fn(&Tree, &mut Items)| {
        let mut tree = Tree::new();
        drop(tree.order(|order| matches!(order, Order::Open(0, _))));
        let mut items = tree.releases(&tree.accepted[0]);
        change(&tree, &mut items);
        tree.down(Order::Open(slot, items));
        (tree.opened.contains(&0), tree.blamed)
    };
    let refused = (false, vec![]);
    assert_eq!(opened(0, &|_, _| ()), (true, vec![]));
    assert_eq!(opened(0, &|_, items| items.truncate(2)), (true, vec![]), "a quorum");
    assert_eq!(opened(0, &|_, items| items.truncate(1)), refused, "too few");
    assert_eq!(opened(1, &|_, _| ()), refused, "for another slot");
    let too_long = opened(0, &|_, items| items.push(items[0].clone()));
    assert_eq!(
        too_long,
        (false, vec![Tree::new().order[0]]),
        "more than the committee has: no honest parent passes that on"
    );
    let other = |change: fn(&mut Release)| {
        move |tree: &Tree, items: &mut Items| {
            let mut item = items[0].item.clone();
            change(&mut item);
            items[0] = tree.sign(items[0].author, item);
        }
    };
    assert_eq!(opened(0, &other(|item| item.value[0] ^= 1)), refused, "of another value");
    assert_eq!(opened(0, &other(|item| item.sum.slot = 1)), refused, "of another sum");
    let forged = |tree: &Tree, items: &mut Items| {
        items[0] = tree.forge(items[1].author, items[0].author, items[0].item.clone());
    };
    assert_eq!(opened(0, &forged), refused, "not signed by its author");
    let culprit = Tree::new().committee[0];
    assert_eq!(
        opened(0, &other(|item| item.shares[0] = item.shares[1])),
        (true, vec![culprit]),
        "a wrong share"
    );
    // The order comes before the decision.
    let mut tree = Tree::new();
    drop(tree.order(|order| matches!(order, Order::Decide(0, _))));
    let items = tree.releases(&tree.accepted[0]);
    tree.down(Order::Open(0, items));
    assert_eq!((tree.opened.len(), tree.failed.len()), (0, 1));
}
