//! Values that follow from the promises of a view: its members, its tree, its dealers, and the partners
//! of masks.

use std::collections::{BTreeMap, BTreeSet};

use flyswarm::session::{Peer, Session};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::marks::{Mark, Marks};
use flyswarm_sealed_sum::protocol::members::{Claims, barred};
use flyswarm_sealed_sum::protocol::pairwise::{self, Reveal, ViewKey, ViewKeys};
use flyswarm_sealed_sum::protocol::promise::bits_of;
use flyswarm_sealed_sum::protocol::signed::Signed;
use flyswarm_sealed_sum::protocol::tree::Tree;
use serde_json::{Value, json};

use super::sessions::{context, small, small_text};
use super::{bytes, hex};

/// Numbers of peers in the cases of the rule, with the number of drawn cases for each.
const ROSTERS: [(usize, u32); 7] = [(3, 12), (4, 24), (5, 24), (7, 32), (10, 32), (13, 24), (40, 4)];

pub(crate) fn tree() -> Value {
    let mut trees = Vec::new();
    for (peers, members, ballot) in [
        (3, vec![0, 1, 2], Ballot { counter: 1, proposer: Peer(1) }),
        (20, (0..20).collect(), Ballot { counter: 1, proposer: Peer(7) }),
        (20, (0..20).filter(|i| i % 3 != 0).collect(), Ballot { counter: 300, proposer: Peer(19) }),
    ] {
        let session = small(peers);
        let members: Vec<_> = members.into_iter().map(Peer).collect();
        let ctx = context(&session, ballot.proposer);
        let all: BTreeSet<_> = members.iter().copied().collect();
        let reached = ctx.dealers(0, &members).into_iter().map(|author| (author, all.clone())).collect();
        let tree = Claims { reached, marks: Marks::default() }.tree(&ctx.session, ballot).unwrap();
        let parents: Vec<_> = tree.order().iter().map(|&peer| tree.parent(peer)).collect();
        trees.push(json!({
            "toml": small_text(peers),
            "ballot": ballot,
            "ballot_bytes": hex(ballot.to_bytes()),
            "members": tree.members(),
            "order": tree.order(),
            "parents": parents,
            "dealers_of_coin": ctx.dealers(0, &members),
            "dealers": ctx.dealers(1, &members),
        }));
    }
    let mut graphs = Vec::new();
    for (peers, left_out) in [(66, 0), (66, 2)] {
        let session = small(peers);
        let members: Vec<_> = session.peers().skip(left_out).collect();
        let ballot = Ballot { counter: 3, proposer: Peer(9) };
        let part = |peer: Peer| bytes::<32>(&format!("part of the draw of {}", peer.0));
        let key = |&peer: &Peer| {
            let ctx = context(&session, peer);
            let commitment = pairwise::commitment(&ctx, ballot, peer, &part(peer));
            let commitment = ctx.draws(peer, &members).then_some(commitment);
            let public = bytes(&format!("view key of {}", peer.0));
            Signed::new(&ctx, ViewKey { ballot, begun: bytes("beginning"), public, commitment })
        };
        let keys: Vec<_> = members.iter().map(key).collect();
        let me = Peer(5);
        let ctx = context(&session, me);
        let fixed = ViewKeys::new(&ctx, (ballot, bytes("beginning")), &members, keys.clone()).unwrap();
        let drawing: Vec<_> = members.iter().copied().filter(|&peer| ctx.draws(peer, &members)).collect();
        let reveal = |&peer: &Peer| {
            let item = Reveal { ballot, keys: fixed.digest, secret: part(peer) };
            Signed::new(&context(&session, peer), item)
        };
        let reveals: Vec<_> = drawing.iter().map(reveal).collect();
        let draw = fixed.draw(&ctx, &reveals).unwrap();
        let partners = pairwise::partners(&ctx, &members, &draw, me);
        assert!(partners.len() == members.len() - 1 || members.len() > 64);
        graphs.push(json!({
            "toml": small_text(peers),
            "ballot": ballot,
            "keys": keys.iter().map(|key| {
                json!([key.author, hex(key.item.public), key.item.commitment.map(hex)])
            }).collect::<Vec<_>>(),
            "parts": drawing.iter().map(|&peer| json!([peer, hex(part(peer))])).collect::<Vec<_>>(),
            "keys_digest": hex(fixed.digest),
            "draw": hex(draw),
            "me": me,
            "partners": partners,
        }));
    }
    let degrees: Vec<_> =
        [(65, 1, 1.0 / 3.0), (100, 24, 0.25), (1000, 120, 1.0 / 3.0), (1024, 1, 0.5), (1024, 40_000, 0.99)]
            .map(|(p, views, threshold)| json!([p, views, threshold, pairwise::degree(p, views, threshold)]))
            .to_vec();
    json!({
        "about": "trees, dealers and partners (spec, sections 9 to 11); degrees: members, views, collusion_threshold, degree",
        "trees": trees,
        "graphs": graphs,
        "degrees": degrees,
    })
}

/// Contents of the promises of a view.
struct Said {
    what: String,
    ballot: Ballot,
    /// Highest number of committed slots.
    committed: u32,
    reached: BTreeMap<Peer, BTreeSet<Peer>>,
    marks: BTreeSet<Mark>,
}

impl Said {
    /// Makes promises of the whole committee; each author reaches all peers.
    fn all(session: &Session, what: &str) -> Self {
        let ballot = Ballot { counter: 20, proposer: session.committee()[0] };
        let reached = Claims::whole(&session.settings()).reached;
        Self { what: what.into(), ballot, committed: 0, reached, marks: BTreeSet::new() }
    }

    /// Adds marks of successive views in the current slot, by their authors and suspects.
    fn marked(mut self, pairs: &[(u16, u16)]) -> Self {
        let marks = pairs.iter().zip(1..).map(|(&(author, suspect), counter)| Mark {
            ballot: Ballot { counter, proposer: Peer(0) },
            author: Peer(author),
            suspect: Peer(suspect),
            slot: self.committed,
        });
        self.marks.extend(marks);
        self
    }

    fn drawn(session: &Session, random: &mut Stream, number: u32) -> Self {
        let peers = session.roster.len() as u32;
        let mut below = |n: u32| random.below(n);
        let ballot = Ballot { counter: 100, proposer: session.committee()[0] };
        let committed = below(40);
        // At least a quorum of the committee promises; a few connections are broken, and a few peers are
        // away.
        let (broken, away) = (below(4), below(3));
        let quorum =
            session.quorum() + below(1 + (session.committee().len() - session.quorum()) as u32) as usize;
        let mut authors: Vec<_> = session.committee().to_vec();
        while authors.len() > quorum {
            authors.remove(1 + below(authors.len() as u32 - 1) as usize);
        }
        let away: BTreeSet<_> = (0..away).map(|_| Peer(below(peers) as u16)).collect();
        let apart: BTreeSet<_> =
            (0..broken).map(|_| (Peer(below(peers) as u16), Peer(below(peers) as u16))).collect();
        let reaches = |a: Peer, b: Peer| {
            a == b || !(away.contains(&b) || apart.contains(&(a, b)) || apart.contains(&(b, a)))
        };
        let reached = |a: Peer| (a, session.peers().filter(|&b| reaches(a, b)).collect());
        let reached = authors.iter().map(|&author| reached(author)).collect();
        // A few peers appear in most marks, as liars do.
        let (marks, liars) = (below(3 * peers), 1 + below(peers.div_ceil(3)));
        let mut made = BTreeSet::new();
        for _ in 0..marks {
            let any = below(4) == 0;
            let one = Peer(below(if any { peers } else { liars }) as u16);
            let other = Peer(below(peers) as u16);
            let (author, suspect) = if below(2) == 0 { (one, other) } else { (other, one) };
            let slot = below(committed + 3);
            let ballot =
                Ballot { counter: u64::from(1 + slot * 2 + below(2)), proposer: Peer(below(2) as u16) };
            if author != suspect {
                made.insert(Mark { ballot, author, suspect, slot });
            }
        }
        let what = format!("drawn {number} of {peers} peers");
        Self { what, ballot, committed, reached, marks: made }
    }

    fn shown(&self, session: &Session) -> Value {
        let settings = session.settings();
        // Marks of slots that cannot be known yet do not count.
        let known = self.marks.iter().copied().filter(|mark| mark.slot <= self.committed + 1).collect();
        let marks = Marks::living(session.roster.len(), &known, self.committed);
        let claims = Claims { reached: self.reached.clone(), marks };
        let candidates = claims.candidates(&settings);
        let tree = claims.tree(&settings, self.ballot);
        // Texts, because a list of lists would use a line for each number.
        let place = |tree: &Tree, peer: Peer| match tree.parent(peer) {
            Some(parent) => format!("{} {}", peer.0, parent.0),
            None => peer.0.to_string(),
        };
        let places =
            tree.as_ref().map(|tree| tree.order().iter().map(|&peer| place(tree, peer)).collect::<Vec<_>>());
        let mark = |mark: &Mark| {
            let Mark { ballot, author, suspect, slot } = mark;
            format!("{} {} {} {} {slot}", ballot.counter, ballot.proposer.0, author.0, suspect.0)
        };
        let peers = session.roster.len() as u16;
        let bitmap = |reached: &BTreeSet<Peer>| hex(bits_of(peers, reached.iter().copied()));
        let reached = self.reached.iter().map(|(author, of)| (author.0.to_string(), bitmap(of)));
        let reached: BTreeMap<_, _> = reached.collect();
        json!({
            "what": self.what,
            "peers": session.roster.len(),
            "ballot": self.ballot,
            "committed": self.committed,
            "reached": reached,
            "marks": self.marks.iter().map(mark).collect::<Vec<_>>(),
            "candidates": candidates,
            "barred": barred(&settings, &claims.marks, &candidates),
            "left_out": claims.left_out(&settings, &candidates),
            "members": tree.as_ref().map(|tree| tree.members()),
            "tree": places,
        })
    }
}

pub(crate) fn members() -> Value {
    let mut cases = Vec::new();
    for (peers, drawn) in ROSTERS {
        let session = small(peers);
        let said = |what: &str| Said::all(&session, what);
        let leader = session.committee()[0];
        let others: Vec<_> = session.peers().filter(|&peer| peer != leader).collect();
        let (first, second) = (others[0], others[1]);
        let mut alone = said("no other peer reaches the leader");
        for (author, reached) in &mut alone.reached {
            reached.retain(|&peer| peer != leader || *author == leader);
        }
        let mut gone = said("one peer has promised nothing, and no peer reaches it");
        gone.reached.remove(&first);
        gone.reached.values_mut().for_each(|reached| reached.retain(|peer| *peer != first));
        let mut over = said("a mark that has expired");
        over.committed = 8;
        over.marks.insert(Mark { slot: 0, ..mark(1, leader, first) });
        let mut ahead = said("a mark of a slot that cannot be known yet");
        ahead.marks.insert(Mark { slot: 2, ..mark(1, leader, first) });
        let mut next = said("a mark of the slot after the current one");
        next.marks.insert(Mark { slot: 1, ..mark(1, leader, first) });
        let mut once = said("many peers suspect one peer in one view");
        once.marks.extend(session.peers().filter(|&peer| peer != first).map(|peer| mark(1, peer, first)));
        // A liar has marks on one peer more than the rule tolerates, and the promises are as few as
        // possible.
        let theta = u16::try_from(peers.saturating_sub(1) / 3).unwrap().min(3);
        let fewest = |said: Said, kept: &[Peer]| {
            let mut said = said;
            for peer in others.iter().rev().filter(|peer| !kept.contains(peer)) {
                if said.reached.len() > session.quorum() {
                    said.reached.remove(peer);
                }
            }
            said
        };
        let of =
            |peer: Peer| session.peers().filter(move |&other| other != peer).take(usize::from(theta) + 2);
        let charged = |peer: Peer| of(peer).map(|other| (peer.0, other.0)).collect::<Vec<_>>();
        let needed = said("a quorum needs an author whose charge is too high");
        let needed = fewest(needed.marked(&charged(first)), &[first]);
        let needed_leader = said("a quorum needs a leader whose charge is too high");
        let needed_leader = fewest(needed_leader.marked(&charged(leader)), &[]);
        let apart: Vec<_> =
            session.peers().filter(|&peer| peer != first).map(|peer| (first.0, peer.0)).collect();
        let chain = said("a quorum needs an author that is kept apart from all others");
        let chain = fewest(chain.marked(&apart[..apart.len().min(usize::from(theta) + 1)]), &[first]);
        // The others cannot form a quorum with this author, so the peer that would be left out stays.
        let mut unreached = said("an author that the others do not reach").marked(&charged(first));
        let last = others[others.len() - 1];
        for (author, reached) in &mut unreached.reached {
            reached.retain(|&peer| peer != last || *author == last);
        }
        let all: Vec<_> = others.iter().map(|peer| (leader.0, peer.0)).collect();
        let said = [
            said("no marks"),
            needed,
            needed_leader,
            chain,
            unreached,
            alone,
            gone,
            over,
            ahead,
            next,
            once,
            said("the leader and another").marked(&[(leader.0, first.0)]),
            said("two marks on one pair").marked(&[(leader.0, first.0), (first.0, leader.0)]),
            said("two that do not lead").marked(&[(first.0, second.0)]),
            said("the leader and all others").marked(&all),
        ];
        cases.extend(said.iter().map(|said| said.shown(&session)));
        let mut random = Stream::new(b"flyswarm test vectors", "members", &(peers as u16).to_le_bytes());
        cases.extend((0..drawn).map(|number| Said::drawn(&session, &mut random, number).shown(&session)));
    }
    // All branches of the rule are taken.
    let count = |holds: &dyn Fn(&Value) -> bool| cases.iter().filter(|case| holds(case)).count();
    assert!(count(&|case| case["tree"].is_null()) > 5);
    assert!(count(&|case| case["left_out"].as_array().is_some_and(|out| out.len() > 1)) > 2);
    let stays = |case: &Value| {
        let (out, members) = (case["left_out"].as_array(), case["members"].as_array());
        out.zip(members).is_some_and(|(out, members)| out.iter().any(|peer| members.contains(peer)))
    };
    assert!(count(&stays) > 0);
    let sessions: BTreeMap<_, _> =
        ROSTERS.iter().map(|&(peers, _)| (peers.to_string(), small_text(peers))).collect();
    json!({
        "about": "members and tree of a view, computed from its promises (spec, section 8): reached, a bitmap for \
                  each author; marks: counter, proposer, author, suspect, slot; tree: a peer and its parent, \
                  null if no view follows",
        "sessions": sessions,
        "cases": cases,
    })
}

/// Makes a mark of the first slot.
fn mark(counter: u64, author: Peer, suspect: Peer) -> Mark {
    Mark { ballot: Ballot { counter, proposer: Peer(0) }, author, suspect, slot: 0 }
}
