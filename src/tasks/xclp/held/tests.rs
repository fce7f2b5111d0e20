//! Tests that the session does not get the labels that were kept back, and that the figures equal a plain
//! count.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::crypto::identity::Identity;
use crate::session::{Peer, Session};

const SEED: [u8; 32] = [3; 32];

/// Returns rows of the digits; every third row has no label.
fn rows(count: usize) -> Rows {
    let data = crate::data::digits::digits().subset(&(0..count).collect::<Vec<_>>());
    let labels =
        data.labels().iter().enumerate().map(|(row, &label)| (row % 3 > 0).then_some(label)).collect();
    Rows { labels, ..Rows::new(Arc::new(data)) }
}

fn session() -> Session {
    let keys = (0..3u8).map(|peer| Identity::from_seed([peer; 32]).public());
    let peers: String = keys
        .enumerate()
        .map(|(at, key)| format!("[[roster]]\nname = \"p{at}\"\npeer_id = \"{key}\"\n"))
        .collect();
    let classes: Vec<_> = (0..10).map(|class| format!("\"{class}\"")).collect();
    let text = format!(
        "name = \"t\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \
         \"xclp\"\n[data]\nfeatures = 64\nclasses = [{}]\nscaling = \"center\"\n[xclp]\nbits = 128\nk = 4\nalpha = \
         0.8\n{peers}",
        classes.join(", ")
    );
    Session::parse(&text).unwrap()
}

fn peer(rows: &Rows, known: Vec<Option<u16>>) -> Xclp {
    let session = session();
    let Some(spec) = session.task.get::<crate::tasks::XclpSpec>().cloned() else {
        panic!("{:?}", session.task)
    };
    let task = Xclp::new(session, spec, Peer(0), rows.data.clone(), rows.labels.clone(), &[9; 32]);
    task.unwrap().knowing(known)
}

fn classes() -> Vec<String> {
    (0..10).map(|class| class.to_string()).collect()
}

#[test]
fn labels_kept_back_are_not_given_and_every_class_keeps_one() {
    let all = rows(120);
    let mut given = all.clone();
    let known = hold_out(&mut given, &classes(), 50, &SEED).unwrap();
    assert_eq!(known, all.labels);
    let kept_back = |rows: &Rows| -> Vec<usize> {
        (0..120).filter(|&row| rows.labels[row].is_none() && known[row].is_some()).collect()
    };
    let held = kept_back(&given);
    assert!((20..60).contains(&held.len()), "{}", held.len());
    for class in 0..10 {
        assert!(given.labels.contains(&Some(class)), "{class}");
    }
    // After a restart, a peer keeps the same labels back. A peer with another key keeps other labels back.
    let mut again = all.clone();
    hold_out(&mut again, &classes(), 50, &SEED).unwrap();
    assert_eq!(again.labels, given.labels);
    let mut other = all;
    hold_out(&mut other, &classes(), 50, &[4; 32]).unwrap();
    assert_ne!(other.labels, given.labels);
}

#[test]
fn of_a_group_all_labels_are_kept_back_or_none() {
    let mut given = rows(120);
    let group = |row: usize| crate::data::Group::of(&(row / 4).to_string());
    let data = (*given.data).clone().with_groups((0..120).map(group).collect()).unwrap();
    given.data = Arc::new(data);
    let known = hold_out(&mut given, &classes(), 30, &SEED).unwrap();
    assert_ne!(known, given.labels);
    for rows in (0..30).map(|group| 4 * group..4 * group + 4) {
        let labels = |of: &[Option<u16>]| of[rows.clone()].iter().flatten().count();
        assert!([0, labels(&known)].contains(&labels(&given.labels)));
    }
}

#[test]
fn what_cannot_be_compared_is_refused_before_the_session() {
    let mut single = rows(30);
    let first = |class| single.data.labels().iter().position(|&label| label == class);
    let firsts: Vec<_> = (0..10).filter_map(first).collect();
    single.labels = (0..30).map(|row| firsts.contains(&row).then(|| single.data.labels()[row])).collect();
    let before = single.labels.clone();
    let text = hold_out(&mut single, &classes(), 50, &SEED).unwrap_err();
    assert_eq!(text, "no class has two rows (or groups) with a label, so no label can be kept back");
    assert_eq!(single.labels, before);
    let data = Dataset::new(1, vec![1.0; MOST + 1], Vec::new(), Vec::new()).unwrap();
    let mut many = Rows { labels: vec![Some(0); MOST + 1], ..Rows::new(Arc::new(data)) };
    let text = hold_out(&mut many, &classes(), 20, &SEED).unwrap_err();
    assert_eq!(text, "4001 rows, at most 4000 can be compared with the answer from own rows alone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn figures_of_what_was_kept_back_are_those_of_a_plain_count(
        count in 50usize..90, percent in 5u8..=50,
        told in prop::collection::vec(prop::option::of(0u16..10), 90),
    ) {
        let all = rows(count);
        let mut given = all.clone();
        let known = hold_out(&mut given, &classes(), percent, &SEED).unwrap();
        let task = peer(&given, known.clone());
        let history = History::of_vectors(&[Bytes::copy_from_slice(&SEED)]);
        let said = |&label: &Option<u16>| RowLabel { label, confidence: 0.5, disputed: false };
        let said: Vec<_> = told[..count].iter().map(said).collect();
        let found = task.compared(&said, &history).unwrap().unwrap();

        // For each row whose label was kept back, collects this label and the label found in each of the
        // three ways.
        let scaler = Scaler::fit(&task.plan.scaling, &all.data).unwrap();
        let scaled = scaler.transform(&all.data);
        let gave: Vec<_> = (0..count).filter(|&row| given.labels[row].is_some()).collect();
        let kept = scaled.subset(&gave);
        let near = Neighbours::new(&kept).unwrap().predict(NEIGHBOURS, &scaled);
        let planes = planes(&task.plan.session, &history).unwrap();
        let alone = Xclp::pooled(&[&peer(&given, Vec::new())], &planes, None, &[]).unwrap().0.concat();
        let mut counts = [[[0u64; 10]; 10]; 3];
        let mut apart = [(); 2].map(|()| vec![[0; 2]; 10]);
        for row in (0..count).filter(|&row| known[row].is_some() && given.labels[row].is_none()) {
            let truth = all.data.labels()[row];
            let ways = [told[row].unwrap_or(near[row]), alone[row].label.unwrap_or(near[row]), near[row]];
            for (counts, way) in counts.iter_mut().zip(ways) {
                counts[usize::from(truth)][usize::from(way)] += 1;
            }
            for (apart, other) in apart.iter_mut().zip(&ways[1..]) {
                let [won, lost] = &mut apart[usize::from(truth)];
                *won += u64::from(ways[0] == truth && *other != truth);
                *lost += u64::from(ways[0] != truth && *other == truth);
            }
        }
        let words = [&found.swarm, &found.alone, &found.neighbours].map(Sums::words);
        prop_assert_eq!(words, counts.map(|counts| counts.as_flattened().to_vec()));
        prop_assert_eq!(found.apart, apart);

        // In the file of labels, such a row has the peer's own label. The label is disputed if the session
        // found another one.
        let (shown, all_known) = task.with_known(&said);
        prop_assert_eq!(&all_known, &known);
        for (row, shown) in shown.iter().enumerate() {
            let kept_back = known[row].is_some() && given.labels[row].is_none();
            let label = if kept_back { known[row] } else { told[row] };
            let disputed = kept_back && told[row].is_some() && told[row] != known[row];
            prop_assert_eq!((shown.label, shown.disputed), (label, disputed));
        }
        // A peer that keeps no labels back gets no figures.
        prop_assert_eq!(peer(&all, Vec::new()).compared(&said, &history), Ok(None));
    }
}
