//! Statements of computing members, and the peers that they name.

use std::sync::Arc;

use flyswarm::session::Peer;
use flyswarm::tasks::xclp::internals::{Statement, Topic, named};
use flyswarm_mpc::shares::accounts::{Account, Place, Progress};
use flyswarm_sealed_sum::protocol::context::Context;
use flyswarm_sealed_sum::protocol::signed::Signed;
use flyswarm_sealed_sum::protocol::wire;
use serde_json::{Value, json};

use super::hex;
use super::sessions::{context, small, small_text, sum_id};

/// Returns a statement of a party. Parties 0, 1 and 2 are peers 2, 0 and 1.
pub(crate) fn statement(
    contexts: &[Arc<Context>],
    party: usize,
    begins: bool,
    topic: Topic,
) -> Signed<Statement> {
    let parties = [2, 0, 1].map(Peer);
    let statement = Statement { sum: sum_id(1), parties, begins, topic };
    Signed::new(&contexts[parties[party].index()], statement)
}

/// Returns the account of a party at a place where nothing fails.
pub(crate) fn account(party: usize) -> Account {
    // The party before each receiver and the party after it tell the receiver the same value.
    let of = |receiver: usize| [receiver as u8 + 1; 32];
    Account::new([of((party + 2) % 3), of((party + 1) % 3)])
}

fn check(account: Account) -> Topic {
    Topic::Check(Place { chunk: 300, number: 4 }, account)
}

/// Change of the accounts of the three parties.
type Change = fn(&mut [Account; 3]);

pub(crate) fn statements() -> Value {
    let session = small(3);
    let contexts: Vec<_> = session.peers().map(|peer| context(&session, peer)).collect();
    let all = |accounts: &[Account; 3], begins: [bool; 3]| -> Vec<Signed<Statement>> {
        let make = |party: usize| statement(&contexts, party, begins[party], check(accounts[party].clone()));
        (0..3).map(make).collect()
    };
    let changes: [(&str, Change); 8] = [
        ("the receiver refuses", |of| of[1].accepts = false),
        ("the receiver has heard another value from the party before it", |of| {
            (of[1].accepts, of[1].heard) = (false, [Some([9; 32]), Some([2; 32])]);
        }),
        ("the receiver has heard another value from the party after it", |of| {
            (of[1].accepts, of[1].heard) = (false, [None, Some([9; 32])]);
        }),
        ("the two others tell different things", |of| {
            (of[1].accepts, of[2].told) = (false, [[9; 32], of[2].told[1]]);
        }),
        ("the party before the receiver has heard another verdict", |of| {
            of[0].verdicts = [None, Some(false)]
        }),
        ("the party after the receiver has heard another verdict", |of| {
            of[2].verdicts = [Some(false), Some(true)]
        }),
        ("nothing fails", |_| {}),
        ("the first receiver counts", |of| (of[0].accepts, of[2].accepts) = (false, false)),
    ];
    let mut cases = Vec::new();
    let mut add = |what: &str, evidence: Vec<Signed<Statement>>| {
        cases.push(json!({
            "what": what,
            "evidence": hex(wire::canonical(&evidence)),
            "named": named(&contexts[0], &evidence),
        }));
    };
    for (what, change) in changes {
        let mut accounts = [0, 1, 2].map(account);
        change(&mut accounts);
        let fails = accounts.each_ref().map(Account::fails);
        let first = fails.iter().position(|fails| *fails);
        add(what, all(&accounts, [0, 1, 2].map(|party| Some(party) == first)));
    }
    let mut refused = [0, 1, 2].map(account);
    refused[1].accepts = false;
    let fine = all(&refused, [false, true, false]);
    add("no party begins", all(&refused, [false; 3]));
    add("one party is missing", fine[..2].to_vec());
    add("no statement", Vec::new());
    let other = statement(&contexts, 1, true, check(account(1)));
    add("two different statements about a place", vec![fine[1].clone(), other.clone()]);
    add("a party begins although nothing fails", vec![other]);
    let elsewhere = Topic::Check(Place { chunk: 300, number: 5 }, refused[1].clone());
    add("two beginnings", vec![fine[1].clone(), statement(&contexts, 1, true, elsewhere.clone())]);
    let answer = statement(&contexts, 1, false, elsewhere);
    add("two places", vec![fine[0].clone(), fine[1].clone(), answer, fine[2].clone()]);
    let mut forged = fine.clone();
    forged[0].author = Peer(1);
    add("another author", forged);
    add("too many", [&fine[..], &fine[..], &fine[..], &fine[..2]].concat());
    let progress = [
        ("a round is missing", [(8, [false, true]), (8, [false; 2]), (9, [true, false])]),
        (
            "the party with the fewest rounds counts",
            [(9, [true, true]), (8, [true, false]), (8, [true, true])],
        ),
        (
            "the rounds of both others are missing",
            [(7, [true, true]), (7, [false, true]), (7, [true, false])],
        ),
        ("no round is missing", [(8, [false; 2]), (8, [false; 2]), (8, [false; 2])]),
    ];
    for (what, progress) in progress {
        let make = |party: usize| {
            let (sent, missing) = progress[party];
            let begins =
                missing != [false; 2] && progress[..party].iter().all(|(_, other)| *other == [false; 2]);
            statement(&contexts, party, begins, Topic::Rounds(Progress { sent, missing }))
        };
        add(what, (0..3).map(make).collect());
    }
    json!({
        "about": "statements of computing members, and the peers that they name (spec, section 15e.2)",
        "toml": small_text(3),
        "cases": cases,
    })
}
