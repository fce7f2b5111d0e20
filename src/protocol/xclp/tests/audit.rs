//! The leak audit: everything that each peer was sent in real runs, role by role, and known
//! attacks on it.
//!
//! `cargo test --no-default-features --lib audit -- --nocapture` prints a line for each attack: who, what,
//! the figure, what it is held against. Cosines are between a private row and what the attacker makes of it,
//! means over rows and attackers; settings of attacks are chosen by the truth. `naive` variants exist here
//! only: they show that the audit can fail.

mod attacks;
mod labels;
mod sessions;
mod vectors;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use view::Run;

use super::{BACKENDS, held};
use crate::protocol::xclp::ParcelKind;
use crate::session::{Hamming, Peer};

/// A line of the table.
fn say(who: &str, attack: &str, figure: f64, against: &str) {
    println!("audit | {who:<16} | {attack:<78} | {figure:.3} | {against}");
}

/// Whether `figure` is what comes of `what`, in words for the one who reads that it is not.
fn at_most(what: &str, figure: f64, limit: f64) {
    assert!(figure <= limit, "{what}: {figure:.4}, at most {limit:.4}");
}

/// See [`at_most`].
fn exceeds(what: &str, figure: f64, limit: f64) {
    assert!(
        figure > limit,
        "{what}: {figure:.4}, expected more than {limit:.4}: the audit would not see a leak"
    );
}

/// A clause of the specification, and the messages that it names.
type Clause = (&'static str, &'static [&'static str]);

/// The kinds of messages and their senders that the roles give a peer.
fn due(run: &Run, me: Peer) -> BTreeSet<(&'static str, Peer)> {
    let roles = &run.roles;
    let mut due = BTreeSet::new();
    if roles.rows.contains_key(&me) {
        for other in roles.owners().filter(|&other| other != me) {
            due.extend(["Commit", "Reveal"].map(|kind| (kind, other)));
            match run.hamming {
                Hamming::Dealer => {
                    due.extend([("Hidden", other), ("Triple", roles.dealer(me, other))]);
                    if other < me {
                        due.insert(("Dealt", roles.dealer(me, other)));
                    }
                }
                Hamming::Ot => {
                    let receives = (roles.rows_of(me), me) < (roles.rows_of(other), other);
                    let kinds = if receives { ["Choices", "Strings"] } else { ["Base", "Columns"] };
                    due.extend(kinds.map(|kind| (kind, other)));
                }
                Hamming::Phe => {
                    let holds = (roles.rows_of(me), me) < (roles.rows_of(other), other);
                    let kinds = if holds { &["Answer"][..] } else { &["Key", "Ciphertext"] };
                    due.extend(kinds.iter().map(|kind| (*kind, other)));
                }
            }
        }
        due.extend(roles.custodians_of(me).into_iter().map(|custodian| ("Smallest", custodian)));
        due.extend(roles.propagators.map(|propagator| ("Scores", propagator)));
    }
    for (owner, other) in roles.kept_by(me) {
        due.extend([("Share", owner), ("Share", other), ("Limits", owner)]);
    }
    if let Some(at) = roles.propagators.iter().position(|&propagator| propagator == me) {
        for owner in roles.owners() {
            due.extend([("Keys", owner), ("Short", owner), (["Labels", "Mask"][at], owner)]);
            due.extend(roles.custodians_of(owner).into_iter().map(|custodian| ("Short", custodian)));
        }
        due.insert(("Graph", roles.propagators[1 - at]));
    }
    // Whoever was sent a parcel says that it has it.
    due.extend(run.parcels.keys().filter(|(_, from, _)| *from == me).map(|(to, _, _)| ("Credit", *to)));
    due
}

#[test]
fn every_peer_is_sent_what_its_roles_need_and_nothing_else() {
    let sizes =
        [(1, vec![30, 50, 20, 40, 60, 0, 0]), (2, vec![0, 25, 0, 70, 0, 31]), (3, vec![9, 0, 9, 0, 0, 9, 9])];
    for ((seed, sizes), hamming) in sizes.iter().flat_map(|sizes| BACKENDS.map(|hamming| (sizes, hamming))) {
        let run = Run::by(hamming, held(sizes, 7), sizes.len() as u16, [*seed; 2]);
        for peer in (0..sizes.len() as u16).map(Peer) {
            assert_eq!(
                run.kinds.get(&peer).cloned().unwrap_or_default(),
                due(&run, peer),
                "{peer}, seed {seed}, {hamming}"
            );
        }
        let mut custody: BTreeMap<Peer, BTreeSet<(Peer, Peer)>> = BTreeMap::new();
        for (to, from, what) in run.parcels.keys() {
            match *what {
                ParcelKind::Share(owner, other) => {
                    assert!(*to != owner && *to != other && (*from == owner || *from == other));
                    custody.entry(*to).or_default().insert((owner, other));
                }
                ParcelKind::Short(_) => assert!(run.roles.propagators.contains(to), "edges for {to}"),
                _ => {}
            }
        }
        for (custodian, blocks) in &custody {
            let both = blocks.iter().find(|(owner, other)| blocks.contains(&(*other, *owner)));
            assert_eq!(both, None, "{custodian} has both sides of a block");
        }
        // Of the distances of its rows an owner is sent k by each custodian, a custodian every one of its
        // blocks, a propagator those of edges.
        for ((to, from, what), bytes) in &run.parcels {
            if *what == ParcelKind::Smallest {
                assert_eq!(bytes.len(), 2 * view::RULE.k * run.roles.rows_of(*to), "{to} from {from}");
            }
        }
    }
}

#[test]
fn the_spec_s_table_of_who_sees_what_names_what_was_sent() {
    // What the specification says that a role sees, and by which messages that is so.
    let said: [(&str, &[Clause]); 3] = [
        (
            "owner (task `xclp`)",
            &[
                ("the rows of each member", &[]),
                ("the seed of the planes and each owner's part of it", &["Commit", "Reveal"]),
                (
                    "its halves of the triples and others' codes under masks, uniform words to it, or with `ot` its side of the transfers, which is uniform to it but for its own shares, or with `phe` others' codes encrypted or its own shares",
                    &[
                        "Triple",
                        "Dealt",
                        "Hidden",
                        "Base",
                        "Choices",
                        "Columns",
                        "Strings",
                        "Key",
                        "Ciphertext",
                        "Answer",
                    ],
                ),
                (
                    "the k smallest distances of each of its rows to others, by custodian, not whose",
                    &["Smallest"],
                ),
                ("its own scores, and the labels of each class over all", &["Scores"]),
            ],
        ),
        (
            "custodian",
            &[
                (
                    "for each row of up to all owners but itself its distances to the rows of others, each row in another order: not whose",
                    &["Share"],
                ),
                ("each such row's limit", &["Limits"]),
            ],
        ),
        (
            "propagator",
            &[
                (
                    "the graph: which points are neighbours and at what distance, and what undoes the order of the columns",
                    &["Short", "Keys", "Graph"],
                ),
                ("one masked share of the labels", &["Labels", "Mask"]),
            ],
        ),
    ];
    let spec = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/protocol-spec.md")).unwrap();
    let runs = BACKENDS.map(|hamming| Run::by(hamming, held(&[9, 12, 10, 11, 8, 0, 0], 3), 7, [1; 2]));
    let of_role = |role: &str| -> BTreeSet<&str> {
        let of_run = |run: &Run| {
            let members: Vec<Peer> = match role {
                "propagator" => run.roles.propagators.into(),
                _ => run.roles.ring.clone(),
            };
            let kinds = members.iter().flat_map(|peer| run.kinds[peer].iter().map(|(kind, _)| *kind));
            kinds.filter(|kind| *kind != "Credit").collect::<Vec<_>>()
        };
        runs.iter().flat_map(of_run).collect()
    };
    let mut ring = BTreeSet::new();
    for (role, clauses) in said {
        let row = spec.lines().find(|line| line.starts_with(&format!("| {role} | "))).unwrap();
        let sees: Vec<&str> = row.split(" | ").nth(1).unwrap().split("; ").collect();
        assert_eq!(sees, clauses.iter().map(|(clause, _)| *clause).collect::<Vec<_>>(), "section 16, {role}");
        let kinds: BTreeSet<&str> = clauses.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        if role == "propagator" {
            assert_eq!(of_role(role), kinds);
        } else {
            ring.extend(kinds);
        }
    }
    assert_eq!(of_role("ring"), ring, "here all members of the ring have rows");
}
