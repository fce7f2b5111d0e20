//! Messages put into the session of `sum.json` that change what their receiver sends. Each case has steps at
//! times given in microseconds, and everything that the receiver sends and stores because of them. In some
//! cases a peer has rows of one class only, so that the task ends the session after the slot `holders`.

use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm_sealed_sum::protocol::Input;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::committee::Promise;
use flyswarm_sealed_sum::protocol::failure::Failure;
use flyswarm_sealed_sum::protocol::message::{Message, VERSION};
use flyswarm_sealed_sum::protocol::promise::{Begun, Promised, bits_of};
use flyswarm_sealed_sum::protocol::signed::Signed;
use flyswarm_sealed_sum::protocol::transfer::{self, Want};
use flyswarm_sealed_sum::protocol::view::{self, Order, Reason};
use serde_json::{Value, json};

use super::items::made;
use super::messages::frame;
use super::run::{Run, rows};
use super::sessions::small;

const GREETED: u64 = 2_000;
/// The followers have promised the leader's ballot.
const PROMISED: u64 = 3_000;
const KEYS: u64 = 6_000;
/// The followers have acknowledged the coin.
const ACKNOWLEDGED: u64 = 11_000;
/// The followers wait for the opening of the coin.
const RELEASED: u64 = 13_500;
/// The followers have opened the coin.
const OPENED: u64 = 15_500;
/// The first follower has found in slot 1 that the session ends. The other one has not.
const REFUSED: u64 = 26_000;
/// `timing.linger_ms`, in microseconds.
const LINGER: u64 = 30_000_000;
/// `timing.proposal_backoff_ms`, in microseconds.
const BACKOFF: u64 = 2_000_000;
const SETTLE: u64 = 100_000;

enum Step {
    /// The session continues up to this time.
    Run,
    Lost(Peer),
    Up(Peer),
    From(Peer, Box<Message>),
}

type Case = (&'static str, Peer, Vec<(u64, Step)>);

pub(crate) fn answers() -> Value {
    let session = small(3);
    let leader = session.committee()[0];
    // The second of the committee proposes after the leader.
    let (child, other) = (session.committee()[1], session.committee()[2]);
    let all = [Peer(0), Peer(1), Peer(2)];
    let view = Ballot { counter: 1, proposer: leader };
    let of = |counter, proposer| Ballot { counter, proposer };
    let foreign = made(1);
    let by = |author: Peer| &foreign.contexts[author.index()];
    let promised = |author: Peer, marks: Vec<Signed<Failure>>| {
        let promise = Promise { committed: 0, accepted: None, released: false };
        let reached = bits_of(3, all);
        Signed::new(by(author), Promised { ballot: view, promise, decision: Vec::new(), reached, marks })
    };
    let mark = |suspect: Peer| {
        let ballot = Ballot { counter: 0, proposer: leader };
        let failure = Failure { ballot, slot: 0, reason: Reason::Lost, suspect: Some(suspect) };
        Signed::new(by(child), failure)
    };
    // Marks keep the follower with two marks apart from all its possible neighbours.
    let marked = || {
        let mut marks = vec![mark(leader), mark(other)];
        marks.sort_by_key(Signed::mark);
        Message::Promise(promised(child, marks))
    };
    let plain = |author: Peer| Message::Promise(promised(author, Vec::new()));
    let status = |committed| Message::Status { committed, in_view: false };
    let another = Begun { ballot: view, promises: vec![promised(leader, vec![]), promised(other, vec![])] };
    let ended = Failure { ballot: view, slot: 0, reason: Reason::Ended, suspect: None };
    let unseen = Failure { ballot: of(1, other), slot: 0, reason: Reason::Stalled, suspect: Some(leader) };
    let hello = Message::Hello { version: VERSION, session: session.id().0, committed: 0, trace: None };
    let from = |us, peer, message| (us, Step::From(peer, Box::new(message)));
    let run = |us| (us, Step::Run);
    let slots = u32::try_from(by(leader).plan.len()).unwrap();

    let cases: Vec<Case> = vec![
        (
            "a lease holds until its end",
            child,
            vec![
                run(PROMISED),
                from(PROMISED + BACKOFF - 1, other, Message::Prepare(of(2, other))),
                from(PROMISED + BACKOFF, other, Message::Prepare(of(3, other))),
            ],
        ),
        (
            "a proposer that began nothing waits two leases, counted from the end of its lease",
            child,
            vec![
                run(PROMISED),
                from(PROMISED + BACKOFF + 5, leader, Message::Prepare(of(2, leader))),
                from(PROMISED + 3 * BACKOFF - 1, leader, Message::Prepare(of(4, leader))),
                from(PROMISED + 3 * BACKOFF, leader, Message::Prepare(of(5, leader))),
            ],
        ),
        (
            "the leader waits for more promises if marks would have to be ignored",
            leader,
            vec![
                run(GREETED),
                from(PROMISED, child, marked()),
                from(GREETED + BACKOFF / 2 - 1, child, status(0)),
                from(GREETED + BACKOFF / 2, child, status(0)),
            ],
        ),
        (
            "without such marks a quorum of promises is enough",
            leader,
            vec![run(GREETED), from(PROMISED, child, plain(child))],
        ),
        (
            "the leader does not wait for a peer that has refused",
            leader,
            vec![
                run(GREETED),
                from(PROMISED, other, Message::Refuse(view, of(1, child))),
                from(PROMISED + BACKOFF / 2, child, status(0)),
            ],
        ),
        (
            "a mark of a view that the peer was not in is kept and is in its next promise",
            child,
            vec![
                run(GREETED),
                from(GREETED, other, Message::Failed(Signed::new(by(other), unseen))),
                from(GREETED + 1, other, Message::Prepare(of(2, other))),
            ],
        ),
        (
            "a peer that led a view in vain proposes after the others",
            child,
            vec![
                run(KEYS),
                from(KEYS, leader, Message::Failed(Signed::new(by(leader), ended))),
                from(KEYS + SETTLE - 1, other, status(0)),
                from(KEYS + SETTLE, other, status(0)),
            ],
        ),
        (
            "a status follows the second greeting if a slot was committed since the first",
            child,
            vec![
                run(RELEASED),
                (RELEASED, Step::Lost(other)),
                (RELEASED, Step::Up(other)),
                run(OPENED),
                from(OPENED, other, hello.clone()),
            ],
        ),
        (
            "no status follows a greeting that states all slots",
            child,
            vec![
                run(OPENED),
                (OPENED, Step::Lost(other)),
                (OPENED, Step::Up(other)),
                from(OPENED, other, hello),
            ],
        ),
        (
            "two beginnings of one view are shown to the neighbours",
            child,
            vec![run(KEYS), from(KEYS, leader, Message::Begin(Signed::new(by(leader), another)))],
        ),
        (
            "an order to sum is not followed before the current slot is opened",
            child,
            vec![
                run(ACKNOWLEDGED),
                from(ACKNOWLEDGED, leader, Message::View(view::Message::Down(view, Order::Sum(1)))),
            ],
        ),
        (
            "a promise does not list a peer that has all slots as reachable",
            child,
            vec![
                run(GREETED),
                from(GREETED, other, status(slots)),
                from(GREETED, leader, Message::Prepare(view)),
            ],
        ),
        (
            "a promise lists a peer that lacks slots again",
            child,
            vec![
                run(GREETED),
                from(GREETED, other, status(slots)),
                from(GREETED, other, status(0)),
                from(GREETED, leader, Message::Prepare(view)),
            ],
        ),
    ];
    let fetch = || Message::Transfer(transfer::Message::Fetch(1, Want::Committed));
    let refused: Vec<Case> = vec![
        (
            "a session that its task ends serves the last slot until each member of its sum has it",
            child,
            vec![
                run(REFUSED),
                from(REFUSED, other, fetch()),
                from(REFUSED, leader, status(2)),
                from(REFUSED, other, status(1)),
                from(REFUSED, other, status(2)),
            ],
        ),
        (
            "a session that its task ends waits for a member at most linger_ms",
            child,
            vec![
                run(REFUSED),
                from(REFUSED, leader, status(2)),
                from(REFUSED + LINGER - 1, other, status(1)),
                from(REFUSED + LINGER, other, status(1)),
            ],
        ),
    ];
    let alike = |cases: Vec<Case>, alone: Option<Peer>| cases.into_iter().map(move |case| (alone, case));
    let cases: Vec<_> = alike(cases, None)
        .chain(alike(refused, Some(other)))
        .map(|(alone, (what, to, steps))| {
            let mut run = Run::with(|session, peer| rows_of(session, peer, alone));
            let steps: Vec<_> = steps.into_iter().map(|(us, step)| shown(&mut run, to, us, step)).collect();
            json!({ "what": what, "to": to, "one_class": alone, "steps": steps })
        })
        .collect();
    json!({
        "about": "each case puts steps into the session of sum.json, which continues only at a step `run`; `does` lists, \
                  sorted, what `to` sends and stores because of the step, and its exit code if it ends; no \
                  peer gets these messages; all rows of the peer `one_class` are of the second class (spec, sections 7 to 9 and 17)",
        "cases": cases,
    })
}

/// Returns the rows of `sum.json`, but all of one class if this is the peer `alone`.
fn rows_of(session: &Session, peer: Peer, alone: Option<Peer>) -> Dataset {
    let data = rows(session, peer);
    if alone != Some(peer) {
        return data;
    }
    Dataset::new(3, data.values().to_vec(), vec![1; 3], data.classes().to_vec()).unwrap()
}

fn shown(run: &mut Run, to: Peer, us: u64, step: Step) -> Value {
    let (mut out, input) = match step {
        Step::Run => {
            run.until(us);
            return json!({ "run": us });
        }
        Step::Lost(peer) => (json!({ "lost": peer }), Input::PeerLost(peer)),
        Step::Up(peer) => (json!({ "up": peer }), Input::PeerUp(peer)),
        Step::From(from, message) => {
            let message = *message;
            let mut out = frame(&message);
            out["from"] = json!(from);
            (out, Input::Message { from, message })
        }
    };
    out["us"] = json!(us);
    out["does"] = json!(run.answer(to, us, input));
    out
}
