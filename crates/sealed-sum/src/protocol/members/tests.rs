//! Tests of the rule of membership against liars that see everything. They repeat the rounds of the
//! model behind the rule (`model.py`, see tests/security/attacks.md) with the real functions.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::crypto::identity::Identity;
use crate::crypto::stream::Stream;
use crate::harness::numbers::{session, timing};
use crate::protocol::marks::Mark;

fn settings(peers: usize) -> Settings {
    let identity = |i: usize| {
        let mut seed = [7; 32];
        seed[..2].copy_from_slice(&(i as u16).to_le_bytes());
        Identity::from_seed(seed)
    };
    let mut identities: Vec<_> = (0..peers).map(identity).collect();
    identities.sort_by_key(Identity::public);
    session(&identities, timing()).settings()
}

fn ballot(counter: u64, proposer: Peer) -> Ballot {
    Ballot { counter, proposer }
}

/// Returns the guaranteed bound on a run of failed views: a fixed number for each liar, and one for
/// each pair of liars.
fn bound(peers: usize, liars: usize) -> usize {
    liars * (borne(peers).min(3).max(liars) + 2) + liars * (liars - 1) / 2
}

/// Makes claims: the whole committee reaches every peer.
fn all_reached(session: &Settings, marks: Marks) -> Claims {
    let all: BTreeSet<_> = session.peers().collect();
    Claims { reached: session.committee.iter().map(|&author| (author, all.clone())).collect(), marks }
}

/// Returns the peers that are left out with these marks.
fn gone(peers: usize, marks: &BTreeSet<Mark>) -> BTreeSet<Peer> {
    let all: BTreeSet<_> = (0..peers as u16).map(Peer).collect();
    let most = borne(peers).min(peers - (peers / 2 + 1).max(3));
    Marks::living(peers, marks, 0).excess(&all).into_iter().take(most).collect()
}

/// All schedules: for each view, the liars pick any unmarked pair that contains a liar. A state lists, for
/// each honest peer, the liars that it has a mark with (honest peers are alike), and the pairs of liars
/// with a mark.
struct Schedules {
    peers: usize,
    liars: usize,
    known: BTreeMap<(Vec<u8>, u8), usize>,
    honest_out: usize,
}

impl Schedules {
    fn longest(&mut self, honest: Vec<u8>, pairs: u8) -> usize {
        if let Some(&known) = self.known.get(&(honest.clone(), pairs)) {
            return known;
        }
        let liars = self.liars;
        let mut marks = BTreeSet::new();
        let mut mark = |author: usize, suspect: usize| {
            let ballot = ballot(marks.len() as u64 + 1, Peer(0));
            marks.insert(Mark {
                ballot,
                author: Peer(author as u16),
                suspect: Peer(suspect as u16),
                slot: 0,
            });
        };
        for (i, with) in honest.iter().enumerate() {
            (0..liars).filter(|a| with >> a & 1 == 1).for_each(|a| mark(a, liars + i));
        }
        let of_liars: Vec<_> = (0..liars).flat_map(|a| (a + 1..liars).map(move |b| (a, b))).collect();
        for (k, &(a, b)) in of_liars.iter().enumerate() {
            if pairs >> k & 1 == 1 {
                mark(a, b);
            }
        }
        let out = gone(self.peers, &marks);
        let left = |peer: usize| !out.contains(&Peer(peer as u16));
        self.honest_out = self.honest_out.max(out.iter().filter(|peer| peer.index() >= liars).count());
        let mut best = 0;
        for a in (0..liars).filter(|&a| left(a)) {
            for i in 0..honest.len() {
                if left(liars + i) && honest[i] >> a & 1 == 0 {
                    let mut next = honest.clone();
                    next[i] |= 1 << a;
                    next.sort_unstable();
                    best = best.max(1 + self.longest(next, pairs));
                }
            }
            for (k, &(x, y)) in of_liars.iter().enumerate() {
                if x == a && left(y) && pairs >> k & 1 == 0 {
                    best = best.max(1 + self.longest(honest.clone(), pairs | 1 << k));
                }
            }
        }
        self.known.insert((honest, pairs), best);
        best
    }
}

#[test]
fn liars_fail_as_many_views_in_a_row_as_is_promised() {
    // The model finds the same numbers (`results.txt`, part "exact").
    for (peers, liars, longest) in [
        (4, 1, 3),
        (5, 1, 3),
        (6, 1, 3),
        (7, 1, 4),
        (7, 2, 9),
        (9, 2, 9),
        (10, 1, 5),
        (10, 2, 11),
        (10, 3, 18),
    ] {
        let mut all = Schedules { peers, liars, known: BTreeMap::new(), honest_out: 0 };
        let found = all.longest(vec![0; peers - liars], 0);
        assert_eq!((found, all.honest_out), (longest, 0), "{peers} peers, {liars} liars");
        assert_eq!(longest, bound(peers, liars));
    }
}

/// Result of a run of views.
#[derive(Debug, Default)]
struct Run {
    failed: usize,
    longest: usize,
    honest_out: usize,
    ends: bool,
}

/// Simulates views: liars fail every view that they can, through the edges of its tree. Links between
/// honest peers break now and then.
fn run(session: &Settings, liars: &BTreeSet<Peer>, seed: u64, slots: u32, mut breaks: usize) -> Run {
    let mut random = Stream::new(&seed.to_le_bytes(), "rounds", &[]);
    let mut marks = BTreeSet::new();
    let (mut out, mut slot, mut streak) = (Run::default(), 0, 0);
    let peers = session.roster.len();
    for counter in 1..5_000 {
        if slot == slots {
            out.ends = true;
            break;
        }
        let claims = all_reached(session, Marks::living(peers, &marks, slot));
        let first = random.below(session.committee.len() as u32) as usize;
        let leaders = session.committee.iter().cycle().skip(first).take(session.committee.len());
        let led = leaders.map(|&leader| ballot(counter, leader));
        let Some((ballot, tree)) =
            led.filter_map(|ballot| Some((ballot, claims.tree(session, ballot)?))).next()
        else {
            break;
        };
        let honest_in = tree.members().iter().filter(|peer| !liars.contains(peer)).count();
        out.honest_out = out.honest_out.max(peers - liars.len() - honest_in);
        let edges: Vec<_> =
            tree.members().iter().filter_map(|&peer| Some((peer, tree.parent(peer)?))).collect();
        let lying = |&&(a, b): &&(Peer, Peer)| liars.contains(&a) != liars.contains(&b);
        let honest = |&&(a, b): &&(Peer, Peer)| !liars.contains(&a) && !liars.contains(&b);
        let lies: Vec<_> = edges.iter().filter(lying).collect();
        let links: Vec<_> = edges.iter().filter(honest).collect();
        let mark = |(author, suspect): (Peer, Peer)| Mark { ballot, author, suspect, slot };
        let mut new = Vec::new();
        if breaks > 0 && !links.is_empty() && (lies.is_empty() || random.below(2) == 0) {
            breaks -= 1;
            new.push(mark(*links[random.below(links.len() as u32) as usize]));
        } else if !lies.is_empty() {
            let &&(a, b) = &lies[random.below(lies.len() as u32) as usize];
            let (liar, victim) = if liars.contains(&a) { (a, b) } else { (b, a) };
            match random.below(3) {
                0 => new.push(mark((liar, victim))),
                1 => new.push(mark((victim, liar))),
                // The liar is silent, and all its honest neighbours report it.
                _ => new.extend(
                    lies.iter()
                        .filter(|(a, b)| *a == liar || *b == liar)
                        .map(|&&(a, b)| mark((if a == liar { b } else { a }, liar))),
                ),
            }
        }
        if new.is_empty() {
            (slot, streak) = (slot + 1, 0);
        } else {
            marks.extend(new);
            (out.failed, streak) = (out.failed + 1, streak + 1);
            out.longest = out.longest.max(streak);
        }
    }
    out
}

#[test]
fn no_honest_peer_is_left_out_and_runs_of_failed_views_end() {
    for (peers, liars, runs) in [(4, 1, 400), (5, 1, 400), (7, 1, 300), (7, 2, 300), (10, 3, 150), (40, 3, 6)]
    {
        let session = settings(peers);
        for seed in 0..runs {
            let mut random = Stream::new(&u64::to_le_bytes(seed), "liars", &[]);
            let mut chosen = BTreeSet::new();
            while chosen.len() < liars {
                chosen.insert(Peer(random.below(peers as u32) as u16));
            }
            let run = run(&session, &chosen, seed, 1, 0);
            assert!(run.ends && run.honest_out == 0, "{peers} peers, {chosen:?}, seed {seed}: {run:?}");
            assert!(run.longest <= bound(peers, liars), "{peers} peers, {chosen:?}, seed {seed}: {run:?}");
        }
    }
}

#[test]
fn one_broken_link_costs_one_view_and_nobody() {
    for peers in [3, 4, 5, 7, 10, 40] {
        let session = settings(peers);
        for seed in 0..50 {
            let run = run(&session, &BTreeSet::new(), seed, 1, 1);
            assert_eq!((run.failed, run.honest_out, run.ends), (1, 0, true), "{peers} peers, seed {seed}");
        }
    }
}

/// Marks live twice as long each time, so a liar cannot fail a constant share of all views for ever.
#[test]
fn marks_of_a_peer_live_longer_and_longer() {
    let session = settings(5);
    for seed in 0..5 {
        let failed = run(&session, &BTreeSet::from([Peer(seed)]), seed.into(), 300, 0).failed;
        // 3 for each of 1 + log2(1 + 300 / 8) lives.
        assert!(failed <= 18, "seed {seed}: {failed} failed views in 300 slots");
    }
}

#[test]
fn a_liar_that_claims_peers_that_are_away_is_left_with_them() {
    let session = settings(5);
    let (liar, away) = (session.committee[1], session.committee[4]);
    let here: BTreeSet<_> = session.peers().filter(|&peer| peer != away).collect();
    let all: BTreeSet<_> = session.peers().collect();
    let authors = [session.committee[0], liar, session.committee[2]];
    let reached = |marks| Claims {
        reached: authors.iter().map(|&a| (a, if a == liar { all.clone() } else { here.clone() })).collect(),
        marks,
    };
    let ballot = ballot(1, authors[0]);
    let tree = reached(Marks::default()).tree(&session, ballot).unwrap();
    assert_eq!(tree.parent(away), Some(liar));
    let mark = Mark { ballot, author: liar, suspect: away, slot: 0 };
    let marks = Marks::living(5, &BTreeSet::from([mark]), 0);
    let tree = reached(marks).tree(&session, Ballot { counter: 2, ..ballot }).unwrap();
    assert_eq!(tree.members(), here.into_iter().collect::<Vec<_>>());
}

#[test]
fn marks_give_way_the_oldest_first_if_too_few_are_left() {
    let session = settings(3);
    let of =
        |counter, a, b| Mark { ballot: ballot(counter, Peer(0)), author: Peer(a), suspect: Peer(b), slot: 0 };
    // All three peers have marks with each other. The two with the oldest mark are neighbours again.
    let marks = BTreeSet::from([of(1, 0, 1), of(2, 1, 2), of(3, 0, 2)]);
    let claims = all_reached(&session, Marks::living(3, &marks, 0));
    for leader in session.peers() {
        let tree = claims.tree(&session, ballot(4, leader)).unwrap();
        assert_eq!(tree.members().len(), 3);
        assert!(!tree.adjacent(Peer(0), Peer(2)), "{tree:?}");
    }
}

#[test]
fn who_is_charged_with_too_much_does_not_lead_and_stays_where_its_promise_makes_the_quorum() {
    let session = settings(4);
    let [first, charged, third, silent] = session.committee[..] else { panic!("four in the committee") };
    let with = |counter, suspect| Mark { ballot: ballot(counter, first), author: charged, suspect, slot: 0 };
    let marks = BTreeSet::from([with(1, first), with(2, third), with(3, silent)]);
    let mut claims = all_reached(&session, Marks::living(4, &marks, 0));
    let members = |claims: &Claims, leader| {
        let tree = claims.tree(&session, ballot(4, leader))?;
        Some(tree.members().iter().copied().collect::<BTreeSet<_>>())
    };
    assert_eq!(members(&claims, first), Some([first, third, silent].into()), "the others are a quorum");
    assert_eq!(members(&claims, charged), None);
    // The two others do not reach the last one, so its promise does not make up for the one left out.
    let mut unreached = claims.clone();
    for author in [first, third] {
        unreached.reached.get_mut(&author).unwrap().remove(&silent);
    }
    assert_eq!(members(&unreached, first), Some([first, charged, third].into()));
    assert_eq!(members(&unreached, charged), None);
    // One member has not promised: it may have lost its state, and then does not vote.
    claims.reached.remove(&silent);
    assert_eq!(members(&claims, first), Some([first, charged, third, silent].into()));
    assert_eq!(members(&claims, charged), None);
}

proptest! {
    /// For any claims and marks of the peers: every peer computes the same tree. Pairs that do not reach
    /// each other are not neighbours. Enough of the committee is in the tree.
    #[test]
    fn trees_have_a_quorum_and_no_edge_that_an_author_denies(
        peers in 3usize..12,
        claimed in proptest::collection::vec(any::<u16>(), 12),
        said in proptest::collection::btree_set((1u64..20, 0u16..12, 0u16..12, 0u32..12), 0..30),
        now in 0u32..20,
    ) {
        let session = settings(peers);
        let inside = |peer: &Peer| peer.index() < peers;
        let marks: BTreeSet<_> = said
            .into_iter()
            .map(|(counter, a, b, slot)| Mark {
                ballot: ballot(counter, Peer(0)), author: Peer(a), suspect: Peer(b), slot,
            })
            .filter(|mark| inside(&mark.author) && inside(&mark.suspect))
            .collect();
        let marks = Marks::living(peers, &marks, now);
        let authors = session.committee.iter().take(session.quorum);
        let reached: BTreeMap<_, _> = authors
            .zip(&claimed)
            .map(|(&author, bits)| (author, session.peers().filter(|p| bits >> p.0 & 1 == 1).collect()))
            .collect();
        let claims = Claims { reached: reached.clone(), marks };
        for &leader in &session.committee {
            let ballot = ballot(30, leader);
            let Some(tree) = claims.tree(&session, ballot) else { continue };
            prop_assert_eq!(Some(tree.clone()), claims.clone().tree(&session, ballot));
            prop_assert_eq!(tree.root(), leader);
            prop_assert!(tree.members().len() >= usize::from(session.min_peers));
            let votes = session.committee.iter().filter(|peer| tree.contains(**peer)).count();
            prop_assert!(votes >= session.quorum);
            for (peer, parent) in tree.members().iter().filter_map(|&peer| Some((peer, tree.parent(peer)?))) {
                prop_assert!(reached.get(&peer).is_none_or(|reached| reached.contains(&parent)));
                prop_assert!(reached.get(&parent).is_none_or(|reached| reached.contains(&peer)));
            }
        }
    }
}

fn mark(counter: u64, author: u16, suspect: u16, slot: u32) -> Mark {
    Mark { ballot: ballot(counter, Peer(0)), author: Peer(author), suspect: Peer(suspect), slot }
}

/// Returns the charges of the peers 0 to 4 of seven.
fn charges(marks: &[Mark], now: u32) -> [usize; 5] {
    let marks = Marks::living(7, &marks.iter().copied().collect(), now);
    [0, 1, 2, 3, 4].map(|peer| marks.charge(Peer(peer), |_| true))
}

#[test]
fn another_mark_on_a_pair_costs_nothing_while_the_first_one_lives() {
    let first = mark(1, 0, 1, 0);
    assert_eq!(charges(&[first, mark(2, 0, 1, 1), mark(3, 1, 0, 7)], 7), [1, 1, 0, 0, 0]);
    // The later marks do not count after the first mark's end either. A new mark then counts.
    assert_eq!(charges(&[first, mark(3, 1, 0, 7)], 8), [0; 5]);
    assert_eq!(charges(&[first, mark(3, 1, 0, 8)], 8), [1, 1, 0, 0, 0]);
}

#[test]
fn however_many_accuse_a_peer_in_one_view_it_is_charged_once() {
    let together = [mark(1, 0, 4, 0), mark(1, 1, 4, 0), mark(1, 2, 4, 0)];
    assert_eq!(charges(&together, 0), [1, 1, 1, 0, 1]);
    let later = [together[0], together[1], together[2], mark(2, 3, 4, 0)];
    assert_eq!(charges(&later, 0), [1, 1, 1, 1, 2]);
}

/// Returns the peers of a roster that are left out with these (author, suspect) pairs, one in each view.
fn excess(peers: u16, pairs: &[(u16, u16)]) -> Vec<Peer> {
    let marks = (1..).zip(pairs).map(|(counter, &(author, suspect))| mark(counter, author, suspect, 0));
    Marks::living(peers.into(), &marks.collect(), 0).excess(&(0..peers).map(Peer).collect())
}

#[test]
fn a_mark_with_a_peer_that_is_left_out_counts_no_more() {
    // Peer 0 has five marks; peer 1 has four, one of them with peer 0. A peer with more than three is
    // left out.
    let of_0 = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)];
    let of_1 = [(1, 2), (1, 3), (1, 6)];
    assert_eq!(excess(7, &[&of_0[..], &of_1].concat()), [Peer(0)]);
    assert_eq!(excess(7, &[&of_0[1..], &of_1, &[(1, 4)]].concat()), [Peer(1), Peer(0)]);
}

#[test]
fn if_more_would_go_than_liars_are_assumed_one_more_is_assumed() {
    // Of 16 peers, three liars are assumed at first: a peer with more than four marks is left out.
    let pairs = |authors: u16| -> Vec<_> {
        (0..authors).flat_map(|author| (0..5).map(move |i| (author, 4 + (5 * author + i) % 12))).collect()
    };
    assert_eq!(excess(16, &pairs(3)).len(), 3);
    assert_eq!(excess(16, &pairs(4)), []);
}

#[test]
fn two_that_are_not_authors_are_neighbours_if_more_authors_claim_both_than_may_lie() {
    let session = settings(7);
    let (authors, rest) = session.committee.split_at(4);
    // Two of seven may lie. The other authors claim only authors.
    for (claiming, allowed) in [(2, false), (3, true)] {
        let all: BTreeSet<_> = session.peers().collect();
        let claims = |place| if place < claiming { all.clone() } else { authors.iter().copied().collect() };
        let reached = authors.iter().enumerate().map(|(place, &author)| (author, claims(place))).collect();
        assert_eq!(Allowed::new(&session, &reached).allows(rest[0], rest[1]), allowed, "{claiming} authors");
    }
}

#[test]
fn a_marked_peer_is_a_candidate_if_there_are_too_few_without_it() {
    let mut session = settings(5);
    let (authors, rest) = session.committee.split_at(3);
    let (all, apart) = (session.peers().collect::<BTreeSet<_>>(), rest[0]);
    let marks = (1..).zip(authors).map(|(counter, author)| mark(counter, author.0, apart.0, 0)).collect();
    let reached = authors.iter().map(|&author| (author, all.clone())).collect();
    let claims = Claims { reached, marks: Marks::living(5, &marks, 0) };
    for (min_peers, candidate) in [(4, false), (5, true)] {
        session.min_peers = min_peers;
        assert_eq!(claims.candidates(&session).contains(&apart), candidate, "min_peers {min_peers}");
    }
}
