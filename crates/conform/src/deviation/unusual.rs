//! Correct messages in unusual forms, lost messages, and messages that must be ignored.

use bytes::Bytes;

use super::{Case, Expected, From, Kind, When, integers};
use flyswarm::protocol::all_reduce::{self, Direction};
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::committee::Promise;
use flyswarm::protocol::failure::Failure;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::promise::{self, Promised};
use flyswarm::protocol::signed::Signed;
use flyswarm::protocol::sum_id::SumId;
use flyswarm::protocol::transfer;
use flyswarm::protocol::view::{self, Order, Reason, Report};
use flyswarm::protocol::wire::{self, Frame};

const fn kind(
    name: &'static str,
    about: &'static str,
    sections: &'static str,
    from: From,
    change: fn(&Case<'_>) -> Option<Vec<Frame>>,
) -> Kind {
    Kind::new(name, about, sections, (from, Expected::GoOn), change)
}

pub(super) const KINDS: [Kind; 13] = [
    Kind {
        all: true,
        when: When::Always,
        ..kind(
            "long-integers",
            "every integer in the longest encoding of its type",
            "section 2, M2.3",
            From::Leader,
            |case| Some(vec![Frame { header: integers::longest(case.message).into(), ..case.frame() }]),
        )
    },
    Kind {
        all: true,
        when: When::Always,
        piece: Some(1),
        ..kind("single-bytes", "every byte written separately", "section 6", From::Leader, |case| {
            Some(vec![case.frame()])
        })
    },
    Kind {
        all: true,
        when: When::Always,
        ..kind(
            "items-reversed",
            "reports with their items in reverse order",
            "section 9, M9.1",
            From::Child,
            reversed,
        )
    },
    Kind {
        all: true,
        when: When::Always,
        long: true,
        ..kind(
            "single-credits",
            "a credit for each of ten chunks",
            "section 13, M13.1",
            From::Leader,
            credits,
        )
    },
    kind("unasked", "messages that no peer has asked for", "sections 8, 9, 14", From::Child, unasked),
    kind("earlier-slot", "reports of an earlier slot", "section 9", From::Child, earlier_slot),
    Kind {
        when: When::Beside,
        ..kind(
            "view-from-no-neighbour",
            "messages of the view from a member that is not a neighbour",
            "section 9",
            From::Above,
            from_no_neighbour,
        )
    },
    Kind {
        when: When::Beside,
        ..kind(
            "begin-from-no-parent",
            "the start of a view from a peer that is not the parent",
            "section 9",
            From::Above,
            |case| matches!(case.message, Message::Begin(_)).then(|| vec![case.frame()]),
        )
    },
    kind("begin-twice", "the start of the same view twice", "section 9", From::Leader, |case| {
        matches!(case.message, Message::Begin(_)).then(|| vec![case.frame(), case.frame()])
    }),
    kind("promise-lost", "a promise that does not arrive", "section 8", From::Child, |case| {
        matches!(case.message, Message::Promise(_)).then(Vec::new)
    }),
    kind("accept-lost", "an order to accept that does not arrive", "section 9", From::Leader, |case| {
        matches!(case.message, Message::View(view::Message::Down(_, Order::Accept(_)))).then(Vec::new)
    }),
    kind("decide-lost", "a decision that does not arrive", "sections 8, 10", From::Leader, |case| {
        matches!(case.message, Message::View(view::Message::Down(_, Order::Decide(..)))).then(Vec::new)
    }),
    kind("release-lost", "a released share that does not arrive", "sections 8, 10", From::Child, |case| {
        matches!(case.message, Message::View(view::Message::Up(_, Report::Release(..)))).then(Vec::new)
    }),
];

fn reversed(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Up(ballot, report)) = case.message else { return None };
    let mut report = report.clone();
    let several = match &mut report {
        Report::Keys(items) => reverse(items),
        Report::TotalReady { deals, .. } => reverse(deals),
        Report::Acknowledge(_, items) => reverse(items),
        Report::Release(_, items) => reverse(items),
        Report::Reveal(items) => reverse(items),
    };
    several.then(|| vec![wire::encode(&Message::View(view::Message::Up(*ballot, report)))])
}

fn reverse<T>(items: &mut [T]) -> bool {
    items.reverse();
    items.len() > 1
}

/// Grants the four chunks of a credit one by one.
fn credits(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Reduce(message)) = case.message else { return None };
    let all_reduce::Message::Credit { sum, direction, index } = *message else { return None };
    let one = |index| {
        let credit = all_reduce::Message::Credit { sum, direction, index };
        wire::encode(&Message::View(view::Message::Reduce(credit)))
    };
    Some((index.saturating_sub(all_reduce::CREDIT - 1)..=index).map(one).collect())
}

/// Together with its first keys, a child sends messages that its parent must ignore.
fn unasked(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Up(ballot, Report::Keys(_))) = case.message else { return None };
    let sum = SumId { ballot: *ballot, slot: 2 };
    let earlier = Ballot { counter: 0, proposer: ballot.proposer };
    let up = Direction::Up;
    let data = Bytes::from_static(&[0; 12]);
    let nothing = Promise { committed: 0, accepted: None, released: false };
    let reached = promise::bits_of(case.ctx.peers(), []);
    let (decision, marks) = (Vec::new(), Vec::new());
    let promised = Promised { ballot: earlier, promise: nothing, decision, reached, marks };
    let failure = Failure { ballot: earlier, slot: 0, reason: Reason::Ended, suspect: None };
    let mut frames = vec![case.frame()];
    frames.extend(
        [
            Message::Promise(Signed::new(case.ctx, promised)),
            Message::Refuse(earlier, *ballot),
            Message::Failed(Signed::new(case.ctx, failure)),
            Message::Transfer(transfer::Message::Piece { slot: 1, index: 0, data: data.clone() }),
            Message::Transfer(transfer::Message::Lacking(1)),
            Message::Transfer(transfer::Message::Credit(1, 0)),
            Message::View(view::Message::KeepAlive(earlier)),
            Message::View(view::Message::Up(earlier, Report::Keys(Vec::new()))),
            Message::View(view::Message::Down(earlier, Order::Sum(1))),
            Message::View(view::Message::Reduce(all_reduce::Message::Chunk {
                sum,
                direction: up,
                index: 0,
                data,
            })),
        ]
        .iter()
        .map(wire::encode),
    );
    Some(frames)
}

/// The root also sends a leaf the messages for its children.
fn from_no_neighbour(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Down(ballot, Order::Sum(slot))) = case.message else { return None };
    let sum = SumId { ballot: *ballot, slot: *slot };
    let (direction, index) = (Direction::Up, 0);
    let credit = all_reduce::Message::Credit { sum, direction, index };
    let more = [Order::Sum(*slot), Order::Sum(slot + 1)].map(|order| view::Message::Down(*ballot, order));
    let keys = view::Message::Up(*ballot, Report::Keys(Vec::new()));
    let all =
        [view::Message::KeepAlive(*ballot), keys, view::Message::Reduce(credit)].into_iter().chain(more);
    Some(all.map(|message| wire::encode(&Message::View(message))).collect())
}

/// Before its report on a later slot, a child reports on the first slot again.
fn earlier_slot(case: &Case<'_>) -> Option<Vec<Frame>> {
    let Message::View(view::Message::Up(ballot, Report::TotalReady { slot: 1.., .. })) = case.message else {
        return None;
    };
    let again = [
        Report::TotalReady { slot: 0, total: [0; 32], deals: Vec::new() },
        Report::Acknowledge(0, Vec::new()),
        Report::Release(0, Vec::new()),
    ];
    let again = again.map(|report| wire::encode(&Message::View(view::Message::Up(*ballot, report))));
    Some(again.into_iter().chain([case.frame()]).collect())
}
