//! Tests two limits: a class counts as having no labels if too few owners gave labels of it, and an owner may
//! have only a limited number of rows.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::tasks::xclp::Plan;

/// Makes a lab with peers 0 to 3, each with ten rows, and peer 4 without rows. The session requires `fewest`
/// owners with labels of each class. Every fourth row has its digit as its class, the other rows have class 0
/// or 1. A row keeps its label if `keeps` returns true for its owner and class.
fn lab_keeping(fewest: u16, seed: u64, keeps: impl Fn(usize, u16) -> bool) -> Lab {
    let mut lab = lab_of(fewest, &[10, 10, 10, 10, 0], Scaling::None, seed, spec());
    let (mut tasks, all) = (Vec::new(), digits());
    for (peer, first) in [0, 10, 20, 30, 40].into_iter().enumerate() {
        let rows = if peer < 4 { first..first + 10 } else { first..first };
        let part = all.subset(&rows.collect::<Vec<_>>());
        let label = |(row, &label): (usize, &u16)| {
            let label = if row % 4 == 0 { label } else { (row % 2) as u16 };
            keeps(peer, label).then_some(label)
        };
        let labels = part.labels().iter().enumerate().map(label).collect();
        let secret = [peer as u8; 32];
        let task = Xclp::new(lab.session.clone(), spec(), Peer(peer as u16), Arc::new(part), labels, &secret);
        tasks.push(Arc::new(task.unwrap()));
    }
    let mut identities: Vec<_> = (0..5).map(|i| Identity::from_seed([i + 1; 32])).collect();
    identities.sort_by_key(Identity::public);
    let nodes = tasks.iter().map(|task| task.clone() as Arc<dyn Task>).collect();
    lab.net = Network::with_tasks(identities, lab.session.settings(), nodes, seed);
    lab.tasks = tasks;
    lab
}

/// Returns the number of these peers that have labels of a class.
fn owners_of(lab: &Lab, class: u16, peers: &[Peer]) -> usize {
    peers.iter().filter(|peer| lab.tasks[peer.index()].labels().contains(&Some(class))).count()
}

/// Returns two lists of answers to the owners: those of the session, and those computed in one place after
/// labels of the classes `without` were removed.
fn told_and_stripped(lab: &Lab, owners: &[Peer], without: &[u16]) -> [Vec<Vec<RowLabel>>; 2] {
    let histories = histories(&lab.net);
    let stripped = |peer: &Peer| {
        let task = &lab.tasks[peer.index()];
        let labels = task.labels().iter().map(|label| label.filter(|label| !without.contains(label)));
        let rows = digits().subset(&(0..10).map(|row| 10 * peer.index() + row).collect::<Vec<_>>());
        Xclp::new(lab.session.clone(), spec(), *peer, Arc::new(rows), labels.collect(), &[0; 32]).unwrap()
    };
    let stripped: Vec<Xclp> = owners.iter().map(stripped).collect();
    let planes = xclp::planes(&lab.session, &histories[&owners[0]]).unwrap();
    let of = |(peer, task): (&Peer, &Xclp)| task.said(&task.output(&histories[peer]).expect("it was there"));
    let told = owners.iter().zip(&stripped).map(of).collect();
    let references: Vec<&Xclp> = stripped.iter().collect();
    [told, Xclp::pooled(&references, &planes, None, &[]).unwrap().0]
}

#[test]
fn a_class_with_one_labelled_row_is_as_if_it_had_none() {
    // Only peer 1 has a label of class 8. All owners have labels of classes 0 and 1.
    let mut lab = lab_keeping(3, 1, |peer, label| label < 2 || label == 8 && peer == 1);
    lab.net.run(120_000);
    let owners: Vec<Peer> = (0..4).map(Peer).collect();
    let rare: Vec<u16> = (0..10).filter(|&class| owners_of(&lab, class, &owners) == 1).collect();
    assert_eq!((rare.len(), lab.tasks[1].labels().iter().filter(|label| **label == Some(8)).count()), (1, 1));
    let [told, stripped] = told_and_stripped(&lab, &owners, &rare);
    assert_eq!(told, stripped);
    // If this label counted, other owners would get other answers.
    let planes = xclp::planes(&lab.session, &histories(&lab.net)[&Peer(0)]).unwrap();
    let tasks: Vec<&Xclp> = owners.iter().map(|peer| &*lab.tasks[peer.index()]).collect();
    assert_ne!(Xclp::pooled(&tasks, &planes, None, &[]).unwrap().0, stripped);

    let outcome =
        |peer: u16| lab.tasks[usize::from(peer)].outcome(&histories(&lab.net)[&Peer(peer)], 0).unwrap();
    let line = "class \"8\" counts as having no labels: only 1 peer gave labels of it, and the session requires 3 \
                (privacy.min_contributors)";
    for peer in 0..4 {
        let outcome = outcome(peer);
        assert_eq!(outcome.warnings, [line], "{peer}");
        assert_eq!(outcome.details["classes_without_labels"], serde_json::json!([line]));
    }
    // The owner's file still has the given label, which is not disputed.
    let text = String::from_utf8(outcome(1).file).unwrap();
    let given: Vec<&str> = text.lines().filter(|line| line.starts_with("8,")).collect();
    assert_eq!(given.len(), 1);
    assert!(given[0].ends_with(",given,"), "{given:?}");
}

#[test]
fn with_enough_owners_every_label_counts_and_nothing_is_said() {
    // Class 8 has as many owners as the session requires: two, or one.
    for (fewest, owners_of_8) in [(2, 2), (1, 1)] {
        let mut lab = lab_keeping(fewest, 2, |peer, label| label < 2 || label == 8 && peer < owners_of_8);
        lab.net.run(120_000);
        let owners: Vec<Peer> = (0..4).map(Peer).collect();
        let [told, whole] = told_and_stripped(&lab, &owners, &[]);
        assert_eq!(told, whole);
        let outcome = lab.tasks[0].outcome(&histories(&lab.net)[&Peer(0)], 0).unwrap();
        assert!(outcome.warnings.is_empty() && outcome.details.is_empty(), "{:?}", outcome.warnings);
    }
}

#[test]
fn a_class_that_has_lost_an_owner_may_count_as_none_and_nobody_is_blamed_for_its_commitment() {
    // Peers 0 to 2 have labels of class 0, and peers 0 to 3 have labels of class 1. Three owners are
    // required, and one is lost.
    let mut lab = lab_keeping(3, 12, |peer, label| label == 1 || label == 0 && peer < 3);
    let victim = lab.kill_for_good(|body| part(body, What::Input));
    let left: Vec<Peer> = (0..4).map(Peer).filter(|peer| *peer != victim).collect();
    assert!(victim != Peer(4) && lab.net.blames.is_empty(), "{victim}: {:?}", lab.net.blames);
    let [told, stripped] = told_and_stripped(&lab, &left, &[0]);
    assert_eq!(told, stripped);
    let told = &lab.tasks[left[0].index()].outcome(&histories(&lab.net)[&left[0]], 0).unwrap().warnings;
    let line = "class \"0\" counts as having no labels: 3 peers gave labels of it, 1 owner has left since, and \
                the session requires 3 (privacy.min_contributors)";
    assert_eq!(*told, [line]);
}

/// Makes a history of the slots before `computed`. All peers were members of them.
fn opened(words: &[u32]) -> History {
    let all: Vec<Peer> = (0..5).map(Peer).collect();
    let value = |slot: u32| Value {
        sum: SumId { ballot: Ballot::default(), slot },
        members: all.clone(),
        total: [0; 32],
        deals: [0; 32],
    };
    let vector = words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>().into();
    History::over(&[value(0), value(1)], &[vec![0; 32].into(), vector])
}

#[test]
fn by_default_an_owner_brings_at_most_500_rows() {
    let session = lab(&[10; 5], Scaling::None, 7, spec()).session;
    let data = digits();
    let task = |rows: usize| {
        let part = data.subset(&(0..rows).collect::<Vec<_>>());
        Xclp::new(session.clone(), spec(), Peer(0), Arc::new(part), vec![None; rows], &[0; 32])
    };
    assert!(task(500).is_ok());
    assert_eq!(task(501).unwrap_err(), "501 rows, the session allows an owner at most 500 (xclp.most_rows)");
    // Checks the limit on the numbers of rows that other peers claim.
    let plan = Plan::new(session, spec());
    let check = |rows: u32| plan.check(1, &opened(&[[500, rows, 500, 0, 0].as_slice(), &[0; 10]].concat()));
    assert_eq!(check(500), Ok(()));
    let told = "peer-1 has 501 rows, at most 500 are allowed (xclp.most_rows)";
    assert_eq!(check(501), Err(told.to_owned()));
}

proptest! {
    #[test]
    fn a_class_counts_exactly_if_enough_owners_are_left_for_sure(
        fewest in 1u16..5,
        labels in vec(vec(proptest::option::of(0u16..10), 1..4), 5),
        lost in vec(any::<bool>(), 5),
    ) {
        let session = lab_of(fewest, &[1; 5], Scaling::None, 1, spec()).session;
        let mut words = vec![0u32; 5 + 10];
        for (peer, labels) in labels.iter().enumerate() {
            words[peer] = labels.len() as u32;
            (0..10u16).filter(|class| labels.contains(&Some(*class))).for_each(|class| {
                words[5 + usize::from(class)] += 1;
            });
        }
        let (history, all) = (opened(&words), (0..5).map(Peer).collect::<Vec<_>>());
        let left: Vec<Peer> = all.iter().copied().filter(|peer| !lost[peer.index()]).collect();
        let plan = Plan::new(session, spec());
        let without: Vec<u16> = plan.few_owners(&history, &left).iter().map(|few| few.class).collect();
        let gone = 5 - left.len();
        for class in 0..10u16 {
            let has = |peer: &Peer| labels[peer.index()].contains(&Some(class));
            let have = all.iter().filter(|peer| has(peer)).count();
            let here = left.iter().filter(|peer| has(peer)).count();
            // All lost peers may have had labels of the class. So the class counts only if `fewest` peers are
            // left after all lost peers are subtracted. If the session requires only one owner, every class
            // counts.
            let counts = !without.contains(&class);
            prop_assert!(!counts || here >= usize::from(fewest) || fewest == 1);
            prop_assert_eq!(counts, fewest == 1 || have >= gone + usize::from(fewest));
        }
    }
}
