//! Claims that hold in every interleaving within the bounds, and bugs that the search finds.

use super::super::Refusal;
use super::*;

/// Returns all assignments of `ballots` ballots to proposers, up to renaming of the members.
fn proposers(ballots: usize, members: u8) -> Vec<Vec<u8>> {
    let mut out = vec![vec![0]];
    for _ in 1..ballots {
        out = out
            .into_iter()
            .flat_map(|list: Vec<u8>| {
                let fresh = list.iter().max().map_or(0, |most| most + 1).min(members - 1);
                (0..=fresh).map(move |p| [list.clone(), vec![p]].concat())
            })
            .collect();
    }
    out
}

/// Explores all assignments of the ballots to proposers. Returns the number of states.
fn safe(members: u8, ballots: usize, slots: u8, crashes: u8, shares: bool) -> usize {
    let mut states = 0;
    for proposers in proposers(ballots, members) {
        let world = World { rule: Rule::Decided, members, proposers, slots, crashes, shares };
        let explored = world.explore(30_000_000);
        assert!(explored.violation.is_none(), "{}", explored.violation.unwrap());
        assert!(explored.finished, "{world:?} never opens every slot");
        states += explored.states;
    }
    eprintln!(
        "committee of {members}, {ballots} ballots, {slots} slots, {crashes} crashes, shares {shares}: {states} states"
    );
    states
}

#[test]
fn every_interleaving_in_committees_of_three_opens_one_sum_of_each_slot() {
    safe(3, 2, 1, 2, true);
    safe(3, 2, 2, 1, true);
    safe(3, 3, 1, 1, false);
}

#[test]
fn every_interleaving_in_committees_of_four_opens_one_sum_of_each_slot() {
    safe(4, 2, 1, 1, true);
    safe(4, 2, 2, 1, false);
    safe(4, 3, 1, 0, false);
}

#[test]
fn every_interleaving_in_committees_of_five_opens_one_sum_of_each_slot() {
    safe(5, 2, 1, 1, true);
}

/// Takes minutes and gigabytes: three ballots in a committee of five, or the bounds in `FLYSWARM_BOUNDS`
/// as `members,ballots,slots,crashes,shares;...`.
#[test]
#[ignore = "11 million states in 8 minutes"]
fn wider_bounds() {
    let bounds = std::env::var("FLYSWARM_BOUNDS").unwrap_or("5,3,1,0,0".into());
    for line in bounds.split(';') {
        let n: Vec<u8> = line.split(',').map(|n| n.parse().unwrap()).collect();
        safe(n[0], n[1].into(), n[2], n[3], n[4] == 1);
    }
}

/// Checks that the bug is found, and prints the shortest path to it.
fn caught(rule: Rule, members: u8, ballots: usize, slots: u8) {
    let mut shortest: Option<String> = None;
    for proposers in proposers(ballots, members) {
        let explored =
            World { rule, members, proposers, slots, crashes: 2, shares: true }.explore(30_000_000);
        let better =
            |text: &String| shortest.as_ref().is_none_or(|best| text.lines().count() < best.lines().count());
        if let Some(trace) = explored.violation.filter(better) {
            shortest = Some(trace);
        }
    }
    eprintln!("{}", shortest.unwrap_or_else(|| panic!("{rule:?} was not caught")));
}

#[test]
fn the_naive_rule_opens_two_sums() {
    caught(Rule::Naive, 3, 2, 1);
}

#[test]
fn an_acceptor_that_forgets_its_promise_is_caught() {
    caught(Rule::ForgetsPromise, 3, 2, 1);
}

#[test]
fn an_acceptor_that_forgets_what_it_acknowledged_is_caught() {
    caught(Rule::ForgetsValue, 3, 2, 1);
}

#[test]
fn an_acceptor_that_acknowledges_below_its_promise_is_caught() {
    caught(Rule::AcceptsBelow, 3, 2, 1);
}

#[test]
fn a_proposer_that_ignores_acknowledged_values_is_caught() {
    caught(Rule::IgnoresValues, 3, 2, 1);
}

#[test]
fn a_proposer_that_finishes_the_oldest_value_is_caught() {
    caught(Rule::OldestValue, 3, 3, 1);
}

#[test]
fn a_majority_that_is_one_short_is_caught() {
    for members in 3..=5 {
        caught(Rule::OneLess, members, 2, 1);
    }
}

/// Returns whether two sums of a slot can be opened in a committee with a deviating member or a lost disk.
fn opens_twice(rule: Rule, members: u8, ballots: usize, crashes: u8) -> bool {
    let explored = |proposers| {
        let world = World { rule, members, proposers, slots: 1, crashes, shares: true };
        world.explore(30_000_000).violation
    };
    proposers(ballots, members).into_iter().any(|proposers| explored(proposers).is_some())
}

#[test]
fn one_liar_opens_twice_with_majorities_and_not_with_byzantine_quorums() {
    assert!(opens_twice(Rule::Liar(Faults::Crash), 3, 2, 0));
    assert!(!opens_twice(Rule::Liar(Faults::Byzantine), 4, 2, 0));
}

/// If the others believe a liar, it serves values that were never decided. If they check its proof, it
/// can serve only decided values.
#[test]
fn a_liar_that_serves_slots_is_caught_where_it_is_believed() {
    assert!(opens_twice(Rule::LiarServes(Faults::Byzantine), 4, 1, 0));
    assert!(!opens_twice(Rule::LiarLeads(Faults::Byzantine), 4, 1, 0));
}

/// The liar leads, and shows the two halves of the committee different sums of the same ballot.
#[test]
fn a_leader_that_shows_two_sums_in_one_ballot_is_caught_with_majorities_alone() {
    assert!(opens_twice(Rule::LiarLeads(Faults::Crash), 3, 1, 0));
    assert!(!opens_twice(Rule::LiarLeads(Faults::Byzantine), 4, 1, 0));
}

#[test]
#[ignore = "19 seconds of an idle core"]
fn a_liar_that_leads_votes_and_serves_opens_nothing_twice_in_two_ballots_with_byzantine_quorums() {
    assert!(!opens_twice(Rule::LiarLeads(Faults::Byzantine), 4, 2, 0));
}

#[test]
fn byzantine_quorums_alone_are_not_enough_where_what_was_released_is_not_final() {
    assert!(opens_twice(Rule::LiarAndNotFinal(Faults::Byzantine), 4, 3, 0));
}

#[test]
fn a_lost_disk_opens_twice_unless_its_owner_does_not_vote_any_more() {
    assert!(opens_twice(Rule::LosesDisk, 3, 2, 1));
    assert!(!opens_twice(Rule::LosesDiskAndVote, 3, 2, 1));
}

#[test]
fn an_acceptor_that_has_released_acknowledges_nothing_else_in_the_slot() {
    let mut acceptor = Acceptor::default();
    acceptor.accept(ballot(1, 0), 0, 7).unwrap();
    assert!(!acceptor.release(0, &8), "not the value that it has acknowledged");
    assert!(acceptor.release(0, &7));
    assert_eq!(acceptor.accept(ballot(2, 1), 0, 8), Err(Refusal::Released));
    acceptor.accept(ballot(3, 1), 0, 7).unwrap();
    assert!(acceptor.prepare(ballot(4, 0)).unwrap().released);
    acceptor.commit(0);
    acceptor.accept(ballot(5, 1), 1, 8).unwrap();
    assert!(!acceptor.prepare(ballot(6, 0)).unwrap().released);
}
