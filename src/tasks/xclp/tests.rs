//! Tests the machines of both exchanges together, and attacks on them.

mod hostile;
mod naming;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sha2::Digest;
use zeroize::Zeroizing;

use super::computation::{Computation, Labels};
use super::compute::{Compute, FirstCommitments, Rows, Setup};
use super::computed::{Computed, inputs_digest};
use super::deliver::{self, Deliver, Delivered, Differing};
use super::talk::{Body, What, content, read};
use crate::crypto::{stream::derive, tagged_hash};
use crate::data::Dataset;
use crate::protocol::marks::Marks;
use crate::protocol::{Action, Fault, Input, Step, Time, ballot::Ballot, sum_id::SumId};
use crate::session::Peer;
use crate::sketch::lsh::Codes;
use crate::tasks::Hamming;
use crate::tasks::exchange::{Content, Exchange, Output, Vocabulary};
use crate::tasks::xclp::shares::input::{Announced, unpack};
use crate::tasks::xclp::shares::output::{Sealed, unseal};
use flyswarm_mpc::propagation::integer::reference::{Output as Answer, Reference};
use flyswarm_mpc::propagation::integer::{self, Plan};
use flyswarm_mpc::shares::{Bits, Ring, Xor};
use naming::context;

pub(super) const ROWS: [usize; 5] = [7, 0, 6, 9, 0];
pub(super) const FEATURES: usize = 5;
pub(super) const CLASSES: usize = 3;

pub(super) fn plan() -> Plan {
    let settings = integer::Settings { k: 3, bits: 64, alpha: 0.5, steps: 14, power: 1, balance: false };
    Plan::new(ROWS.iter().sum(), CLASSES, settings).expect("fits")
}

pub(super) fn rows(peer: u16) -> Rows {
    let count = ROWS[usize::from(peer)];
    let value = |i: usize| ((i * 7919 + usize::from(peer) * 104_729) % 211) as f32 - 105.0;
    let values = (0..count * FEATURES).map(value).collect();
    Rows {
        data: Arc::new(Dataset::new(FEATURES, values, Vec::new(), Vec::new()).expect("rows")),
        labels: Arc::new((0..count).map(|i| (i % 3 == 0).then_some((i % CLASSES) as u16)).collect()),
        without: Vec::new(),
        planes: [4; 32],
        salt: Zeroizing::new([peer as u8; 32]),
    }
}

pub(super) fn owners() -> Vec<(Peer, usize)> {
    (0u16..).map(Peer).zip(ROWS).filter(|(_, rows)| *rows > 0).collect()
}

pub(super) fn setup(me: u16, counter: u64, marks: Marks) -> Setup {
    let key = |other: u16| Arc::new(derive(b"pairs", "test", &[me.min(other) as u8, me.max(other) as u8]));
    Setup {
        ctx: context(me),
        sum: SumId { ballot: Ballot { counter, proposer: Peer(0) }, slot: 2 },
        owners: owners(),
        candidates: [3, 1, 0, 4].map(Peer).into(),
        members: (0..5).map(Peer).collect(),
        computation: Computation::Labels(Labels {
            plan: plan(),
            hamming: Hamming::Replicated,
            rows: (ROWS[usize::from(me)] > 0).then(|| rows(me)),
        }),
        proves: true,
        keys: (0..5).filter(|other| *other != me).map(|other| (Peer(other), key(other))).collect(),
        seed: Zeroizing::new([me as u8; 32]),
        marks,
        seen: FirstCommitments::default(),
        patience_ms: 3000,
        longest_ms: 60_000,
    }
}

/// Returns the parameters of XCLP in a setup.
pub(super) fn labels(setup: &mut Setup) -> &mut Labels {
    match &mut setup.computation {
        Computation::Labels(labels) => labels,
        other => panic!("{other:?}"),
    }
}

/// Machines, and the messages between them in the order of sending.
pub(super) struct Net {
    pub(super) machines: BTreeMap<Peer, Box<dyn Exchange>>,
    pub(super) queue: VecDeque<(Peer, Peer, Content)>,
    pub(super) results: BTreeMap<Peer, Bytes>,
    pub(super) blamed: Vec<(Peer, Peer, Fault)>,
    pub(super) failed: BTreeSet<Peer>,
    pub(super) now: Time,
    /// Pairs of peers: one that failed, and the peer that it suspects.
    pub(super) suspects: Vec<(Peer, Peer)>,
    /// Peers that each peer names, with the evidence.
    pub(super) named: Vec<(Peer, Vec<Peer>, Bytes)>,
}

impl Net {
    pub(super) fn new(machines: impl IntoIterator<Item = (Peer, Box<dyn Exchange>)>) -> Self {
        Self {
            machines: machines.into_iter().collect(),
            queue: VecDeque::new(),
            results: BTreeMap::new(),
            blamed: Vec::new(),
            failed: BTreeSet::new(),
            now: Time(1),
            suspects: Vec::new(),
            named: Vec::new(),
        }
    }

    /// Makes the machines of five peers in a view without marks.
    pub(super) fn computing() -> Self {
        Self::marked(&Marks::default())
    }

    pub(super) fn marked(marks: &Marks) -> Self {
        Self::of((0u16..5).map(|me| setup(me, 1, marks.clone())))
    }

    pub(super) fn of(setups: impl IntoIterator<Item = Setup>) -> Self {
        let machine = |setup: Setup| {
            let me = setup.ctx.me;
            (me, Box::new(Compute::new(setup).expect("three candidates")) as Box<dyn Exchange>)
        };
        Self::new(setups.into_iter().map(machine))
    }

    pub(super) fn give(&mut self, to: Peer, input: Input<Vocabulary>) {
        let Some(machine) = self.machines.get_mut(&to) else { return };
        let Step(actions) = machine.handle(self.now, input);
        for action in actions {
            match action {
                Action::Send { to: other, message } => self.queue.push_back((to, other, message)),
                Action::Compute(job) => self.give(to, Input::Done(job.run())),
                Action::Output(Output::Finished(result)) => drop(self.results.insert(to, result)),
                Action::Output(Output::Named(peers, evidence)) => self.named.push((to, peers, evidence)),
                Action::Output(Output::Failed(_, suspect)) => {
                    self.failed.insert(to);
                    self.suspects.extend(suspect.map(|peer| (to, peer)));
                }
                Action::Blame { peer, fault } => self.blamed.push((to, peer, fault)),
                _ => {}
            }
        }
    }

    /// Delivers all messages. `change` may alter them.
    pub(super) fn run(&mut self, mut change: impl FnMut(Peer, Peer, &mut Body, &mut Vec<u8>)) {
        for peer in self.machines.keys().copied().collect::<Vec<_>>() {
            self.give(peer, Input::Start);
        }
        self.deliver(|from, to, body, data| {
            change(from, to, body, data);
            true
        });
    }

    /// Delivers each message for which `change` returns true, and drops the others.
    pub(super) fn deliver(&mut self, mut change: impl FnMut(Peer, Peer, &mut Body, &mut Vec<u8>) -> bool) {
        while let Some((from, to, message)) = self.queue.pop_front() {
            let (mut body, data) = read(message).expect("what machines say can be read");
            let mut data = data.to_vec();
            if change(from, to, &mut body, &mut data) {
                self.give(to, Input::Message { from, message: content(&body, data.into()) });
            }
        }
    }
}

pub(super) fn expected() -> Answer {
    answer(owners().into_iter().map(|(peer, _)| rows(peer.0)))
}

/// Propagates labels over all rows in one place, and returns the result.
fn answer(all: impl Iterator<Item = Rows>) -> Answer {
    let all: Vec<Rows> = all.collect();
    let values = all.iter().flat_map(|rows| rows.data.values().to_vec()).collect();
    let data = Dataset::new(FEATURES, values, Vec::new(), Vec::new()).expect("rows");
    let kept = |rows: &Rows, label: Option<u16>| label.filter(|label| !rows.without.contains(label));
    let labels: Vec<_> =
        all.iter().flat_map(|rows| rows.labels.iter().map(|label| kept(rows, *label))).collect();
    Reference::new(&plan(), &Codes::of(&data, &[4; 32], 64).expect("codes"), &labels).output
}

/// Returns the shares of the computing members by their numbers.
pub(super) fn computed(net: &Net) -> BTreeMap<u8, (Peer, Sealed)> {
    let party = |(peer, bytes): (&Peer, &Bytes)| {
        let (number, shares) = Computed::from_bytes(bytes).expect("a result").party?;
        Some((number, (*peer, Sealed::from_bytes(&shares, plan().points(), CLASSES).expect("shares"))))
    };
    net.results.iter().filter_map(party).collect()
}

/// Makes the machines with which members get shares from the computing members.
pub(super) fn delivering(
    parties: &BTreeMap<u8, (Peer, Sealed)>,
    members: &[Peer],
    differing: impl Fn(Peer) -> Differing,
) -> Net {
    let trio: Vec<Peer> = parties.values().map(|(peer, _)| *peer).collect();
    let senders = deliver::senders(&trio.try_into().unwrap(), members).expect("two");
    let setup = |me: Peer| deliver::Setup {
        me,
        owners: owners(),
        members: members.to_vec(),
        senders,
        sealed: parties.values().find(|(peer, _)| *peer == me).map(|(_, sealed)| sealed.clone()),
        differing: differing(me),
        classes: CLASSES,
        patience_ms: 3000,
        longest_ms: 60_000,
    };
    let here = members.iter().filter(|peer| Deliver::takes_part(&setup(**peer), **peer));
    Net::new(here.map(|&me| (me, Box::new(Deliver::new(setup(me))) as Box<dyn Exchange>)))
}

#[test]
fn any_two_of_the_three_that_computed_give_every_owner_its_answers() {
    let mut net = Net::computing();
    net.run(|_, _, _, _| {});
    assert_eq!((net.results.len(), &net.blamed, net.failed.len()), (5, &vec![], 0));
    let parties = computed(&net);
    let trio: Vec<Peer> = parties.values().map(|(peer, _)| *peer).collect();
    assert_eq!(trio, [Peer(3), Peer(1), Peer(0)]);
    for missing in [Some(trio[0]), Some(trio[1]), Some(trio[2]), None] {
        let members: Vec<Peer> = (0..5).map(Peer).filter(|peer| Some(*peer) != missing).collect();
        let mut net = delivering(&parties, &members, |_| Differing::default());
        net.run(|_, _, _, _| {});
        let expected = expected();
        let mut start = 0;
        for (owner, rows) in owners() {
            if members.contains(&owner) {
                let Some(Delivered::Output(answer, compared)) =
                    Delivered::from_bytes(&net.results[&owner], CLASSES)
                else {
                    panic!("an answer");
                };
                assert_eq!(
                    answer.labels,
                    expected.labels[start..start + rows],
                    "{owner} without {missing:?}"
                );
                assert_eq!(answer.coarse, expected.coarse[start * CLASSES..(start + rows) * CLASSES]);
                assert_eq!(compared, missing.is_none(), "all shares arrive twice if all three parties send");
            }
            start += rows;
        }
        assert_eq!(net.blamed, []);
    }
    // One computing member alone cannot deliver.
    assert_eq!(deliver::senders(&trio.try_into().unwrap(), &[Peer(3), Peer(2)]), None);
}

#[test]
fn an_owner_can_share_nothing_but_bits_and_changes_no_others_rows_by_other_words() {
    let mut net = Net::computing();
    // The owner at place 1 is peer 2. Computing members 1 (peer 1) and 0 (peer 3) get one of its shares as
    // words.
    let mut words = Vec::new();
    net.run(|from, to, body, data| {
        if from == Peer(2) && matches!(body, Body::Part { what: What::Input, .. }) && to != Peer(0) {
            let share = if to == Peer(1) { &mut data[..] } else { &mut data[33..] };
            assert_eq!(share[0], 1, "the share that is sent as words");
            words.push(share[..1 + 32 + 6 * 16].to_vec());
        }
    });
    assert!(words.len() == 2 && words[0] == words[1], "both copies are the same");
    assert_eq!((net.results.len(), &net.blamed), (5, &vec![]));
    // The owner claims codes that are all ones, and every label for each row. It gets an output, and every
    // other peer gets the same output as with an owner that really has such rows.
    let share = Mutex::new(Vec::new());
    let mut net = Net::computing();
    net.run(|from, to, body, data| match body {
        Body::Copies(copies) if from == Peer(2) => {
            let mut other = words[0].clone();
            other[33..].iter_mut().for_each(|byte| *byte ^= 0xa5);
            copies[1] = tagged_hash("share").chain_update(&other).finalize().into();
            *share.lock().unwrap() = other;
        }
        Body::Part { what: What::Input, .. } if from == Peer(2) && to != Peer(0) => {
            let (other, at) = (share.lock().unwrap().clone(), if to == Peer(1) { 0 } else { 33 });
            data[at..at + other.len()].copy_from_slice(&other);
        }
        _ => {}
    });
    assert_eq!((net.results.len(), &net.blamed, net.failed.len()), (5, &vec![], 0));
    assert_eq!(computed(&net).len(), 3, "any words are bits");
}

#[test]
fn what_does_not_fit_is_blamed_on_its_sender_and_nobody_panics() {
    type Change = fn(&mut Body, &mut Vec<u8>);
    type Case = (&'static str, fn(&Body) -> bool, Change);
    let changes: [Case; 7] = [
        ("a long input", |body| matches!(body, Body::Part { what: What::Input, .. }), |_, data| data.push(0)),
        (
            "a short input",
            |body| matches!(body, Body::Part { what: What::Input, .. }),
            |_, data| {
                data.pop();
            },
        ),
        ("no share", |body| matches!(body, Body::Part { what: What::Input, .. }), |_, data| data[0] = 7),
        (
            "an output",
            |body| matches!(body, Body::Part { what: What::Input, .. }),
            |body, _| {
                *body = Body::Part { what: What::Output, last: true };
            },
        ),
        (
            "a second commitment",
            |body| matches!(body, Body::Copies(_)),
            |body, _| {
                *body = Body::Commitment([1; 32]);
            },
        ),
        (
            "hashes before a commitment",
            |body| matches!(body, Body::Commitment(_)),
            |body, _| {
                *body = Body::Copies([[1; 32]; 3]);
            },
        ),
        (
            "another round",
            |body| matches!(body, Body::Part { what: What::Round(30), .. }),
            |body, _| {
                *body = Body::Part { what: What::Round(33), last: true };
            },
        ),
    ];
    for (name, which, change) in changes {
        let mut net = Net::computing();
        for peer in (0..5).map(Peer) {
            net.give(peer, Input::Start);
        }
        let (mut changed, mut by) = (false, Peer(9));
        while let Some((from, to, message)) = net.queue.pop_front() {
            let (mut body, data) = read(message).expect("said by machines");
            let mut data = data.to_vec();
            if !changed && which(&body) {
                change(&mut body, &mut data);
                (changed, by) = (true, from);
            }
            net.give(to, Input::Message { from, message: content(&body, data.into()) });
        }
        assert!(changed, "{name}");
        assert!(
            !net.blamed.is_empty() && net.blamed.iter().all(|(_, peer, _)| *peer == by),
            "{name}: {:?}",
            net.blamed
        );
        assert!(computed(&net).len() < 3, "{name}");
    }
}

#[test]
fn candidates_of_whom_one_has_accused_the_other_never_compute_together() {
    let mut marks = Marks::default();
    let trio = |marks: &Marks| -> Vec<Peer> {
        let mut net = Net::marked(marks);
        net.run(|_, _, _, _| {});
        assert_eq!(net.blamed, []);
        computed(&net).values().map(|(peer, _)| *peer).collect()
    };
    // The candidates are 3, 1, 0 and 4.
    marks.accuse(Peer(1), Peer(0));
    assert_eq!(trio(&marks), [3, 1, 4].map(Peer));
    // Peer 2 is not a candidate.
    [(3, 1), (2, 4)].into_iter().for_each(|(one, other)| marks.accuse(Peer(one), Peer(other)));
    assert_eq!(trio(&marks), [3, 0, 4].map(Peer));
    marks.accuse(Peer(3), Peer(4));
    assert!((0..5).all(|me| Compute::new(setup(me, 1, marks.clone())).is_none()), "no three are left");
}

#[test]
fn no_two_attempts_have_a_message_in_common_and_one_with_the_same_tape_is_the_same() {
    let messages = |counter: u64| {
        let mut all = Vec::new();
        Net::of((0u16..5).map(|me| setup(me, counter, Marks::default()))).run(|from, to, body, data| {
            // Round 0 is left out. It has hashes of the owners' announcements, which are the same in both
            // views here.
            let round = matches!(body, Body::Part { what: What::Round(1..), .. });
            if round && data.len() >= 16 {
                all.push((from, to, data.clone()));
            }
        });
        all
    };
    let (one, again, other) = (messages(1), messages(1), messages(2));
    assert_eq!(one, again);
    assert!(one.len() == other.len() && one.len() > 500);
    let known: BTreeSet<&[u8]> = one.iter().flat_map(|(.., data)| data.chunks_exact(16)).collect();
    let same =
        other.iter().flat_map(|(.., data)| data.chunks_exact(16)).filter(|chunk| known.contains(chunk));
    assert_eq!(same.count(), 0, "another view has other keys, also for the same input and seeds");
}

#[test]
fn results_are_read_as_they_are_written_and_nothing_else_is() {
    for computed in [
        Computed::default(),
        Computed { commitment: [3; 32], ..Computed::default() },
        Computed { party: Some((2, vec![1, 2, 3])), commitment: [0; 32], inputs: [5; 32] },
    ] {
        assert_eq!(Computed::from_bytes(&computed.to_bytes()), Some(computed));
    }
    assert_eq!(Computed::from_bytes(&[0; 64]), None);
    assert_eq!(Computed::from_bytes(&[&[4][..], &[0; 65]].concat()), None, "a fourth party");
    assert_eq!(Computed::from_bytes(&[&[1][..], &[0; 64]].concat()), None, "a party without shares");
    let answer = Answer { labels: vec![Some(2), None], coarse: vec![1, 2, 61, 0, 0, 0] };
    for delivered in [
        Delivered::Output(answer.clone(), true),
        Delivered::Output(answer, false),
        Delivered::Differing([Peer(3), Peer(260)]),
    ] {
        assert_eq!(Delivered::from_bytes(&delivered.to_bytes(3), 3), Some(delivered));
    }
    for (bytes, what) in [
        (&[1, 3, 0, 1, 1, 1][..], "no such class"),
        (&[1, 0, 0, 1, 1], "cut short"),
        (&[0], "no kind"),
        (&[4, 0, 0, 1, 1, 1], "another kind"),
        (&[3, 0, 0, 1], "no pair"),
        (&[], "nothing"),
    ] {
        assert_eq!(Delivered::from_bytes(bytes, 3), None, "{what}");
    }
}

/// The computing members of a view, and the parcel of each owner for each of them.
type Parcels = ([Peer; 3], BTreeMap<(Peer, Peer), Vec<u8>>);

/// Makes the view `counter`, in which the other candidates do not compute with the peers `out`. Owners draw
/// fresh shares in each view if `fresh` is true, otherwise they keep them.
fn parcels_of_a_view(counter: u64, out: &[Peer], fresh: bool) -> Parcels {
    let mut marks = Marks::default();
    out.iter().for_each(|&peer| [0, 3, 4].iter().for_each(|&other| marks.accuse(Peer(other), peer)));
    let setups = (0u16..5).map(|me| {
        let seed = [me as u8, if fresh { counter as u8 } else { 0 }];
        Setup { seed: derive(&seed, "test", &[]), ..setup(me, counter, marks.clone()) }
    });
    let (mut net, mut parcels) = (Net::of(setups), BTreeMap::new());
    net.run(|from, to, body, data| {
        if matches!(body, Body::Part { what: What::Input, .. }) {
            parcels.insert((to, from), data.clone());
        }
    });
    let trio: Vec<Peer> = computed(&net).values().map(|(peer, _)| *peer).collect();
    (trio.try_into().expect("three"), parcels)
}

/// Returns the words of a peer's codes.
fn codes(peer: u16) -> Vec<u64> {
    let codes = Codes::of(&rows(peer).data, &[4; 32], 64).expect("codes");
    (0..codes.rows()).flat_map(|row| codes.row(row).to_vec()).collect()
}

/// Returns the peers that can compute an owner's codes from the owner's shares in several views. They need
/// three shares with different numbers, which add up to the codes.
fn rebuilt(views: &[Parcels]) -> BTreeSet<Peer> {
    let mut found = BTreeSet::new();
    for peer in (0..5).map(Peer) {
        for (owner, rows) in owners() {
            let own: Vec<Bits> = codes(owner.0).iter().map(|word| Xor(*word)).collect();
            let mut shares: [Vec<Vec<Bits>>; 3] = Default::default();
            for (trio, parcels) in views {
                let number = trio.iter().position(|party| *party == peer);
                let Some((number, parcel)) = number.zip(parcels.get(&(peer, owner))) else { continue };
                let said = Announced::default();
                let inputs = unpack(parcel, number, &said, rows, 64, CLASSES).expect("a parcel");
                shares[number].push(inputs.codes.own);
                shares[(number + 1) % 3].push(inputs.codes.next);
            }
            let bits = |a: &Vec<Bits>, b: &Vec<Bits>, c: &Vec<Bits>| {
                (0..a.len()).all(|i| a[i].add(b[i]).add(c[i]) == own[i])
            };
            let [zero, one, two] = &shares;
            let any = zero.iter().any(|a| one.iter().any(|b| two.iter().any(|c| bits(a, b, c))));
            if any {
                found.insert(peer);
            }
        }
    }
    found
}

#[test]
fn shares_of_two_trios_give_nobody_an_input_and_a_share_that_is_kept_over_the_change_is_found() {
    // Peer 1 is kept apart. Peer 0 had the number 2 among the computing members, and now has the number 1.
    let views = |fresh| [parcels_of_a_view(1, &[], fresh), parcels_of_a_view(2, &[Peer(1)], fresh)];
    let [first, second] = views(true);
    assert_eq!((first.0, second.0), ([Peer(3), Peer(1), Peer(0)], [Peer(3), Peer(0), Peer(4)]));
    assert_eq!(rebuilt(&[first, second]), BTreeSet::new());
    assert_eq!(rebuilt(&views(false)), [Peer(0)].into());
}

#[test]
fn an_owner_that_commits_to_another_input_in_a_later_view_is_blamed_by_those_who_saw_the_first() {
    let seen: Vec<FirstCommitments> = (0..5).map(|_| FirstCommitments::default()).collect();
    let view = |counter: u64, salt: u8| {
        let setups = (0u16..5).zip(&seen).map(|(me, seen)| {
            let mut setup = Setup { seen: seen.clone(), ..setup(me, counter, Marks::default()) };
            if let Some(rows) = labels(&mut setup).rows.as_mut().filter(|_| me == 2) {
                rows.salt = Zeroizing::new([salt; 32]);
            }
            setup
        });
        let mut net = Net::of(setups);
        net.run(|_, _, _, _| {});
        net
    };
    let (first, again, other) = (view(1, 2), view(2, 2), view(3, 9));
    assert_eq!((first.blamed.len(), again.blamed.len()), (0, 0));
    // The result of a computing member has the digest of all owners' commitments.
    let of = |net: &Net, peer: &Peer| Computed::from_bytes(&net.results[peer]).expect("a result");
    let made = owners().into_iter().map(|(owner, _)| (owner, of(&first, &owner).commitment));
    let digest = inputs_digest(made);
    let parties = computed(&first);
    assert!(parties.values().all(|(peer, _)| of(&first, peer).inputs == digest), "as opened");
    let blamed: Vec<(Peer, Peer)> = other.blamed.iter().map(|(by, peer, _)| (*by, *peer)).collect();
    assert!(!blamed.is_empty() && blamed.iter().all(|(_, peer)| *peer == Peer(2)), "{blamed:?}");
    assert!(computed(&other).is_empty());
}

#[test]
fn labels_of_classes_that_count_as_none_are_committed_to_and_not_shared() {
    let commitments = |net: &Net| -> Vec<[u8; 32]> {
        owners()
            .iter()
            .map(|(peer, _)| Computed::from_bytes(&net.results[peer]).unwrap().commitment)
            .collect()
    };
    let mut plain = Net::computing();
    plain.run(|_, _, _, _| {});
    let all = (0..1u16 << CLASSES).map(|bits| (bits, Hamming::Replicated)).chain([(0b101, Hamming::Ot)]);
    for (bits, hamming) in all {
        let without: Vec<u16> = (0..CLASSES as u16).filter(|class| bits >> class & 1 == 1).collect();
        let mut net = Net::of((0u16..5).map(|me| {
            let mut setup = setup(me, 1, Marks::default());
            labels(&mut setup).hamming = hamming;
            labels(&mut setup).rows.iter_mut().for_each(|rows| rows.without.clone_from(&without));
            setup
        }));
        net.run(|_, _, _, _| {});
        assert_eq!((net.results.len(), &net.blamed), (5, &vec![]));
        assert_eq!(commitments(&net), commitments(&plain), "{without:?}");
        let all = owners().into_iter().map(|(peer, _)| rows(peer.0));
        let expected = answer(all.map(|rows| Rows { without: without.clone(), ..rows }));
        let sealed: Vec<Sealed> = computed(&net).into_values().map(|(_, sealed)| sealed).collect();
        let points = 0..plan().points();
        let [one, two] = [sealed[0].for_owner(0, points.clone()), sealed[1].for_owner(1, points)];
        assert_eq!(unseal(plan().points(), CLASSES, &one, &two), Some(expected), "{without:?}");
    }
}
