//! Messages that break a rule. Each corresponds to a message in `tests/vectors/faults.json`, but is
//! sent in a live session.

use bytes::Bytes;

use super::{Case, Expected, From, Kind, When};
use flyswarm::protocol::all_reduce::{self, Direction};
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::deal::Deal;
use flyswarm::protocol::failure::Failure;
use flyswarm::protocol::message::{Channel, Message};
use flyswarm::protocol::pairwise::ViewKey;
use flyswarm::protocol::promise::{self, Begun, Promised};
use flyswarm::protocol::record::{Acknowledgement, Committed, Record};
use flyswarm::protocol::signed::Signed;
use flyswarm::protocol::sum_id::SumId;
use flyswarm::protocol::transfer::{self, Held, Want};
use flyswarm::protocol::view::{self, Order, Reason, Report};
use flyswarm::protocol::wire::{self, Frame};
use flyswarm::session::Peer;

/// Number above all slots and indices of a session.
const FAR: u32 = 1000;

type Change = fn(&Case<'_>) -> Option<Vec<Frame>>;

const fn by_leader(name: &'static str, about: &'static str, sections: &'static str, change: Change) -> Kind {
    Kind::new(name, about, sections, (From::Leader, Expected::Blame), change)
}

const fn by_child(name: &'static str, about: &'static str, sections: &'static str, change: Change) -> Kind {
    Kind::new(name, about, sections, (From::Child, Expected::Blame), change)
}

/// Deviations of a leader towards its child.
pub(super) const BY_LEADER: [Kind; 23] = [
    by_leader("prepare-for-another", "a prepare for another proposer", "section 8", |case| {
        let Message::Prepare(ballot) = case.message else { return None };
        Some(vec![wire::encode(&Message::Prepare(Ballot { proposer: case.to, ..*ballot }))])
    }),
    by_leader("prepare-far-above", "a prepare far above every ballot", "section 8", |case| {
        let Message::Prepare(ballot) = case.message else { return None };
        Some(vec![wire::encode(&Message::Prepare(Ballot { counter: ballot.counter + (1 << 21), ..*ballot }))])
    }),
    by_leader("begin-receiver-leads", "a view that its receiver should lead", "section 9", |case| {
        begin(case, |begin| begin.ballot.proposer = case.to)
    }),
    by_leader("begin-unsigned", "a view that its leader has not signed", "section 9", |case| {
        let Message::Begin(begun) = case.message else { return None };
        let mut another = begun.item.clone();
        another.ballot.counter ^= 1;
        let mut forged = Signed::new(case.ctx, another);
        forged.item = begun.item.clone();
        Some(vec![wire::encode(&Message::Begin(forged))])
    }),
    by_leader("begin-bitmap", "a view with a promise whose bitmap is too long", "sections 3, 9", |case| {
        begin(case, |begin| own(case, begin, |promised| promised.reached.push(0)))
    }),
    by_leader(
        "begin-outside",
        "a view with a promise whose author claims to reach a peer outside the roster",
        "section 8",
        |case| begin(case, |begin| own(case, begin, |promised| promised.reached.fill(255))),
    ),
    by_leader("begin-alone", "a view whose leader claims to reach no peer", "section 8", |case| {
        let alone = promise::bits_of(case.ctx.peers(), [case.ctx.me]);
        begin(case, |begin| own(case, begin, |promised| promised.reached = alone))
    }),
    by_leader(
        "begin-later-mark",
        "a view with a promise that shows a mark of this view",
        "section 8",
        |case| {
            let Message::Begin(begun) = case.message else { return None };
            let (ballot, reason, suspect) = (begun.item.ballot, Reason::Lost, Some(case.to));
            let mark = Signed::new(case.ctx, Failure { ballot, slot: 0, reason, suspect });
            begin(case, |begin| own(case, begin, |promised| promised.marks.push(mark)))
        },
    ),
    by_leader(
        "begin-forged-mark",
        "a view with a promise that shows a forged mark",
        "section 8, M8.1",
        |case| {
            let ballot = Ballot { counter: 0, proposer: case.ctx.me };
            let failure = Failure { ballot, slot: 0, reason: Reason::Lost, suspect: Some(case.to) };
            let mut mark = Signed::new(case.ctx, failure);
            mark.author = other(case);
            begin(case, |begin| own(case, begin, |promised| promised.marks.push(mark)))
        },
    ),
    by_leader("begin-few-promises", "a view with one promise", "section 9", |case| {
        begin(case, |begin| begin.promises.truncate(1))
    }),
    by_leader("begin-promise-twice", "a view with one promise twice", "section 9", |case| {
        begin(case, |begin| {
            let first = begin.promises[0].clone();
            begin.promises.iter_mut().for_each(|promise| *promise = first.clone());
        })
    }),
    by_leader("begin-other-promises", "a view with promises of another ballot", "section 9, M8.1", |case| {
        begin(case, |begin| begin.ballot.counter += 1)
    }),
    by_leader("begin-forged-promise", "a view with a forged promise", "section 9, M8.1", |case| {
        begin(case, |begin| begin.promises[1] = unsigned(case, &begin.promises[1]))
    }),
    by_leader("failure-forged", "the end of a view that its author has not signed", "section 9", |case| {
        let (ballot, _) = order_to_sum(case)?;
        let mut failure =
            Signed::new(case.ctx, Failure { ballot, slot: 1, reason: Reason::Left, suspect: Some(case.to) });
        failure.author = other(case);
        Some(vec![wire::encode(&Message::Failed(failure))])
    }),
    by_leader("failure-of-unknown", "the end of a view by a peer outside the roster", "section 9", |case| {
        let (ballot, _) = order_to_sum(case)?;
        let suspect = Some(Peer(case.ctx.peers()));
        let failure = Signed::new(case.ctx, Failure { ballot, slot: 1, reason: Reason::Lost, suspect });
        Some(vec![wire::encode(&Message::Failed(failure))])
    }),
    by_leader("report-from-parent", "a report from the parent", "section 9, M9.2", |case| {
        let (ballot, _) = order_to_sum(case)?;
        after(case, &Message::View(view::Message::Up(ballot, Report::Keys(Vec::new()))))
    }),
    by_leader("accept-too-long", "a record whose deal has one share too many", "section 9, M9.2", |case| {
        let Message::View(view::Message::Down(ballot, Order::Accept(record))) = case.message else {
            return None;
        };
        let mut record = record.clone();
        record.deals.iter_mut().for_each(|deal| lengthen(case, deal));
        let record = Record::new(record.value.sum, record.value.members, record.value.total, record.deals);
        Some(vec![wire::encode(&Message::View(view::Message::Down(*ballot, Order::Accept(record))))])
    }),
    by_leader(
        "accept-bad-share",
        "a record with a deal that one member cannot open",
        "section 12, M12.2",
        |case| {
            let Message::View(view::Message::Down(ballot, Order::Accept(record))) = case.message else {
                return None;
            };
            let mut record = record.clone();
            misdeal(case, record.deals.iter_mut().find(|deal| deal.author == case.ctx.me)?);
            let record =
                Record::new(record.value.sum, record.value.members, record.value.total, record.deals);
            Some(vec![wire::encode(&Message::View(view::Message::Down(*ballot, Order::Accept(record))))])
        },
    ),
    by_leader("credit-for-nothing", "credit for a chunk that was not sent", "section 13", |case| {
        let (ballot, slot) = order_to_sum(case)?;
        let sum = SumId { ballot, slot };
        let credit = all_reduce::Message::Credit { sum, direction: Direction::Up, index: FAR };
        after(case, &Message::View(view::Message::Reduce(credit)))
    }),
    by_leader("total-upward", "a chunk from the parent that only a child may send", "section 13", |case| {
        chunk(case, Direction::Down, |direction, _, _| *direction = Direction::Up)
    }),
    Kind {
        when: When::Always,
        long: true,
        ..by_leader(
            "total-too-early",
            "no credit, and the total before the peer's own part has left",
            "section 13, M13.1",
            total_ahead,
        )
    },
    by_leader("total-not-next", "a chunk of the total that is not the next one", "section 13", |case| {
        chunk(case, Direction::Down, |_, index, _| *index += 1)
    }),
    by_leader("total-cut", "a chunk of the total that is too short", "section 13", |case| {
        chunk(case, Direction::Down, |_, _, data| data.truncate(data.len() - 4))
    }),
];

/// Deviations of a child towards its leader.
pub(super) const BY_CHILD: [Kind; 33] = [
    Kind {
        ungreeted: true,
        ..by_child("before-hello", "a message before hello", "section 7", |case| {
            matches!(case.message, Message::Hello { .. }).then_some(())?;
            let status = Message::Status { committed: 0, in_view: false };
            Some(vec![wire::encode(&status), case.frame()])
        })
    },
    Kind {
        ungreeted: true,
        ..by_child("hello-twice", "hello twice", "section 7", |case| {
            matches!(case.message, Message::Hello { .. }).then(|| vec![case.frame(), case.frame()])
        })
    },
    by_child("lacking", "a message that it lacks a slot that it has claimed", "section 14", ahead),
    Kind {
        when: When::Always,
        ..by_child(
            "record-forged",
            "a requested record that only this node has acknowledged",
            "section 14, M14.1",
            |case| match case.message {
                Message::Transfer(transfer::Message::Lacking(slot)) => {
                    let head =
                        transfer::Message::Head(*slot, Box::new(Held::Committed(made_up(case, *slot))));
                    Some(vec![wire::encode(&Message::Transfer(head))])
                }
                _ => ahead(case),
            },
        )
    },
    by_child("status-beyond", "a status with more committed slots than there are", "section 7", |case| {
        keys(case)?;
        after(case, &Message::Status { committed: FAR, in_view: true })
    }),
    by_child("refusal-of-another", "a refusal of another peer's ballot", "section 8", |case| {
        let Message::Promise(promise) = case.message else { return None };
        let ballot = Ballot { proposer: other(case), ..promise.item.ballot };
        Some(vec![wire::encode(&Message::Refuse(ballot, ballot))])
    }),
    Kind {
        others: Some("promise-lost"),
        ..by_child("promise-forged", "a promise that its author has not signed", "section 8, M8.1", |case| {
            let Message::Promise(promise) = case.message else { return None };
            Some(vec![wire::encode(&Message::Promise(unsigned(case, promise)))])
        })
    },
    by_child("promise-beyond", "a promise with more committed slots than there are", "section 7", |case| {
        let Message::Promise(promise) = case.message else { return None };
        let mut promised = promise.item.clone();
        promised.promise.committed += FAR;
        Some(vec![wire::encode(&Message::Promise(Signed::new(case.ctx, promised)))])
    }),
    by_child("order-from-child", "an order from a child", "section 9, M9.2", |case| {
        let (ballot, _) = keys(case)?;
        after(case, &Message::View(view::Message::Down(ballot, Order::Sum(0))))
    }),
    by_child("keys-twice", "the same report twice", "section 9, M9.2", |case| {
        keys(case)?;
        after(case, case.message)
    }),
    by_child("key-twice", "the same item twice in a report", "section 9, M9.2", |case| {
        change_keys(case, |keys| keys.push(keys[0].clone()))
    }),
    by_child("key-of-another", "an item of a peer that is not below the sender", "section 9, M9.2", |case| {
        change_keys(case, |keys| keys[0].author = other(case))
    }),
    by_child("key-left-out", "a report without the key of a peer below it", "section 9, M9.2", |case| {
        change_keys(case, |keys| {
            keys.pop();
        })
    }),
    by_child("key-forged", "an item that its author has not signed", "section 9, M9.2", |case| {
        change_keys(case, |keys| keys[0].item.public[0] ^= 1)
    }),
    by_child("key-of-another-view", "an item of another view", "section 9, M9.2", |case| {
        change_keys(case, |keys| {
            let mut item = keys[0].item.clone();
            item.ballot.counter += 1;
            keys[0] = Signed::new(case.ctx, item);
        })
    }),
    by_child("key-low-order", "a view key of low order, signed by its author", "section 11, M11.1", |case| {
        change_keys(case, |keys| {
            if let Some(own) = keys.iter_mut().find(|key| key.author == case.ctx.me) {
                *own = Signed::new(case.ctx, ViewKey { public: [0; 32], ..own.item.clone() });
            }
        })
    }),
    by_child(
        "acknowledged-too-early",
        "an acknowledgement before any value is proposed",
        "section 9, M9.2",
        |case| {
            let (ballot, _) = keys(case)?;
            after(case, &Message::View(view::Message::Up(ballot, Report::Acknowledge(0, Vec::new()))))
        },
    ),
    by_child("released-too-early", "a release before the decision", "section 9, M9.2", |case| {
        let (ballot, slot) = hold(case)?;
        after(case, &Message::View(view::Message::Up(ballot, Report::Release(slot, Vec::new()))))
    }),
    by_child("deal-too-long", "a deal with one share too many", "section 9, M9.2", |case| {
        let Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) =
            case.message
        else {
            return None;
        };
        let mut deals = deals.clone();
        lengthen(case, deals.iter_mut().find(|deal| deal.author == case.ctx.me)?);
        let hold = Report::TotalReady { slot: *slot, total: *total, deals };
        Some(vec![wire::encode(&Message::View(view::Message::Up(*ballot, hold)))])
    }),
    by_child("deal-bad-share", "a deal that one member cannot open", "section 12, M12.2", |case| {
        let Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) =
            case.message
        else {
            return None;
        };
        let mut deals = deals.clone();
        misdeal(case, deals.iter_mut().find(|deal| deal.author == case.ctx.me)?);
        let hold = Report::TotalReady { slot: *slot, total: *total, deals };
        Some(vec![wire::encode(&Message::View(view::Message::Up(*ballot, hold)))])
    }),
    by_child("hold-of-later-slot", "a report of a later slot", "section 9, M9.2", |case| {
        let (ballot, slot) = hold(case)?;
        let later = Report::TotalReady { slot: slot + 1, total: [0; 32], deals: Vec::new() };
        Some(vec![wire::encode(&Message::View(view::Message::Up(ballot, later)))])
    }),
    by_child("chunk-not-next", "a chunk that is not the next one", "section 13", |case| {
        chunk(case, Direction::Up, |_, index, _| *index += 1)
    }),
    by_child("chunk-cut", "a chunk that is too short", "section 13", |case| {
        chunk(case, Direction::Up, |_, _, data| data.truncate(data.len() - 4))
    }),
    by_child("total-from-child", "a chunk of the total from a child", "section 13", |case| {
        chunk(case, Direction::Up, |direction, _, _| *direction = Direction::Down)
    }),
    by_child("share-wrong", "a released share that is not the dealt one", "section 12", |case| {
        let Message::View(view::Message::Up(ballot, Report::Release(slot, items))) = case.message else {
            return None;
        };
        let mut items = items.clone();
        let own = items.iter_mut().find(|item| item.author == case.ctx.me)?;
        let mut release = own.item.clone();
        release.shares.rotate_left(1);
        *own = Signed::new(case.ctx, release);
        Some(vec![wire::encode(&Message::View(view::Message::Up(*ballot, Report::Release(*slot, items))))])
    }),
    by_child("fetch-of-unknown", "a request for a slot that does not exist", "section 14", |case| {
        keys(case)?;
        after(case, &Message::Transfer(transfer::Message::Fetch(FAR, Want::Committed)))
    }),
    by_child("no-message", "a header that is not a message", "section 2, M2.1", |case| {
        keys(case)?;
        Some(vec![Frame { header: Bytes::from_static(&[250]), ..case.frame() }])
    }),
    by_child("integer-too-wide", "an integer wider than its type", "section 2, M2.1", |case| {
        keys(case)?;
        // A status with 2^32 committed slots.
        let header = Bytes::from_static(&[2, 253, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        Some(vec![case.frame(), Frame { header, ..case.frame() }])
    }),
    by_child("header-cut", "a header that ends early", "section 2, M2.1", |case| {
        keys(case)?;
        let frame = case.frame();
        Some(vec![Frame { header: frame.header.slice(..frame.header.len() - 1), ..frame }])
    }),
    by_child("bytes-left-over", "a header with one byte too many", "section 2, M2.1", |case| {
        keys(case)?;
        let frame = case.frame();
        Some(vec![Frame { header: [&frame.header[..], &[0]].concat().into(), ..frame }])
    }),
    by_child("payload-misplaced", "a payload of a message that has none", "section 6, M6.3", |case| {
        keys(case)?;
        Some(vec![Frame { payload: Bytes::from_static(&[0]), ..case.frame() }])
    }),
    by_child("other-channel", "a message on the other channel", "section 6", |case| {
        keys(case)?;
        Some(vec![Frame { channel: Channel::Bulk, ..case.frame() }])
    }),
    by_child(
        "huge-header",
        "a header whose stated length does not fit its frame",
        "section 2, M2.1, M2.2",
        |case| {
            keys(case)?;
            // A list of 2^62 entries.
            let mut header = case.frame().header.to_vec();
            header.truncate(2 + 2 + 1);
            header.extend_from_slice(&[253, 0, 0, 0, 0, 0, 0, 0, 64]);
            Some(vec![Frame { header: header.into(), ..case.frame() }])
        },
    ),
];

/// Sends nine chunks of a total instead of the first credit. Sends no other credit, and not the true
/// total.
fn total_ahead(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Reduce(message)) = case.message else { return None };
    match *message {
        all_reduce::Message::Credit { sum, direction: Direction::Up, index } => {
            // The child may have sent the chunks before this one without credit.
            let last = all_reduce::WINDOW as u32;
            let data = Bytes::from_static(&[0; all_reduce::CHUNK]);
            let chunk = |index| {
                let (direction, data) = (Direction::Down, data.clone());
                let chunk = all_reduce::Message::Chunk { sum, direction, index, data };
                wire::encode(&Message::View(view::Message::Reduce(chunk)))
            };
            Some(if index < all_reduce::CREDIT { (0..=last).map(chunk).collect() } else { Vec::new() })
        }
        all_reduce::Message::Chunk { direction: Direction::Down, index, ref data, .. } => {
            (index > 0 || data.len() == all_reduce::CHUNK).then(Vec::new)
        }
        _ => None,
    }
}

/// Makes a hello that claims that the first slot, the coin, is committed. A peer that believes the
/// claim asks for this slot at once.
fn ahead(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::Hello { version, session, trace, .. } = case.message.clone() else { return None };
    Some(vec![wire::encode(&Message::Hello { version, session, committed: 1, trace })])
}

/// Makes a decision that only one peer has acknowledged.
fn made_up(case: &Case<'_>, slot: u32) -> Committed {
    let ballot = Ballot { counter: 1, proposer: case.ctx.me };
    let members = case.ctx.session.peers().collect();
    let record = Record::new(SumId { ballot, slot }, members, [0; 32], Vec::new());
    let value = record.digest(case.ctx);
    let acknowledgements = vec![Signed::new(case.ctx, Acknowledgement { ballot, slot, value })];
    Committed { record, acknowledgements, pads: Vec::new(), releases: Vec::new() }
}

/// Sends a message and then another.
fn after(case: &Case<'_>, next: &Message) -> Option<Vec<Frame>> {
    Some(vec![case.frame(), wire::encode(next)])
}

/// Returns the same promise with the signature of another promise.
fn unsigned(case: &Case<'_>, promise: &Signed<Promised>) -> Signed<Promised> {
    let mut another = promise.item.clone();
    another.ballot.counter ^= 1;
    let mut forged = Signed::new(case.ctx, another);
    (forged.author, forged.item) = (promise.author, promise.item.clone());
    forged
}

/// Returns a peer that is neither this node nor the checked peer.
fn other(case: &Case<'_>) -> Peer {
    let mut peers = case.ctx.session.peers();
    peers.find(|peer| *peer != case.ctx.me && *peer != case.to).unwrap_or(case.to)
}

fn begin(case: &Case<'_>, change: impl FnOnce(&mut Begun)) -> Option<Vec<Frame>> {
    let Message::Begin(begun) = case.message else { return None };
    let mut begun = begun.item.clone();
    change(&mut begun);
    Some(vec![wire::encode(&Message::Begin(Signed::new(case.ctx, begun)))])
}

/// Changes the leader's own promise, and signs it again.
fn own(case: &Case<'_>, begun: &mut Begun, change: impl FnOnce(&mut Promised)) {
    if let Some(own) = begun.promises.iter_mut().find(|promise| promise.author == case.ctx.me) {
        let mut promised = own.item.clone();
        change(&mut promised);
        *own = Signed::new(case.ctx, promised);
    }
}

fn order_to_sum(case: &Case<'_>) -> Option<(Ballot, u32)> {
    match case.message {
        Message::View(view::Message::Down(ballot, Order::Sum(slot))) => Some((*ballot, *slot)),
        _ => None,
    }
}

fn keys<'a>(case: &Case<'a>) -> Option<(Ballot, &'a Vec<Signed<ViewKey>>)> {
    match case.message {
        Message::View(view::Message::Up(ballot, Report::Keys(keys))) => Some((*ballot, keys)),
        _ => None,
    }
}

fn change_keys(case: &Case<'_>, change: impl FnOnce(&mut Vec<Signed<ViewKey>>)) -> Option<Vec<Frame>> {
    let (ballot, keys) = keys(case)?;
    let mut keys = keys.clone();
    change(&mut keys);
    Some(vec![wire::encode(&Message::View(view::Message::Up(ballot, Report::Keys(keys))))])
}

fn hold(case: &Case<'_>) -> Option<(Ballot, u32)> {
    match case.message {
        Message::View(view::Message::Up(ballot, Report::TotalReady { slot, .. })) => Some((*ballot, *slot)),
        _ => None,
    }
}

fn chunk(
    case: &Case<'_>,
    way: Direction,
    change: impl FnOnce(&mut Direction, &mut u32, &mut Vec<u8>),
) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Reduce(message)) = case.message else { return None };
    let all_reduce::Message::Chunk { sum, mut direction, mut index, data } = message.clone() else {
        return None;
    };
    if direction != way {
        return None;
    }
    let mut data = data.to_vec();
    change(&mut direction, &mut index, &mut data);
    let chunk = all_reduce::Message::Chunk { sum, direction, index, data: data.into() };
    Some(vec![wire::encode(&Message::View(view::Message::Reduce(chunk)))])
}

/// Adds a share to a deal; signs it again if it is the node's own.
fn lengthen(case: &Case<'_>, deal: &mut Signed<Deal>) {
    deal.item.dealt.shares.push([0; 32]);
    if deal.author == case.ctx.me {
        *deal = Signed::new(case.ctx, deal.item.clone());
    }
}

/// Gives the first member of the committee the share of the last member, and signs the node's own deal
/// again.
fn misdeal(case: &Case<'_>, deal: &mut Signed<Deal>) {
    let mut item = deal.item.clone();
    if let Some(last) = item.dealt.shares.last().copied() {
        item.dealt.shares[0] = last;
    }
    *deal = Signed::new(case.ctx, item);
}
