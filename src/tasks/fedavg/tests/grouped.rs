//! Tests that no group has both held-out rows and rows, with or without labels, that are used for training.

use super::*;
use crate::data::Group;
use crate::data::groups::in_both;

/// Assigns the rows to groups. It works for at most 61 rows.
fn grouped(data: &Dataset, size: usize) -> Dataset {
    let group = |row: usize| Group::of(&(row * 7 % 61 / size).to_string());
    data.clone().with_groups((0..data.rows()).map(group).collect()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_group_is_trained_on_and_held_out(
        rows in 20usize..60, size in 1usize..5, percent in 20u32..50, given in 2usize..5,
    ) {
        let session = session(3, &format!("rounds = 1\nheld_out = {percent}"));
        let data = grouped(&digits().subset(&(0..rows).collect::<Vec<_>>()), size);
        let groups = |data: &Dataset| data.groups().unwrap().to_vec();
        let opened = History::of_vectors(&[Bytes::copy_from_slice(&COIN)]);
        let given_rows = Arc::new(data.clone());
        let peer = Fedavg::new(session.clone(), spec(&session).clone(), Peer(0), given_rows).unwrap();
        let Prepared { train, held, .. } = peer.prepared(&opened).unwrap();
        let held = held.as_ref().unwrap();
        prop_assert_eq!(train.rows() + held.rows(), rows);
        prop_assert_eq!(in_both(&groups(train), &groups(held)), 0);
        // Some rows have no label.
        let labels = data.labels().iter().enumerate();
        let labels = labels.map(|(row, &label)| (row % given > 0).then_some(label)).collect();
        let bare = data.with_labels(Vec::new(), Vec::new()).unwrap();
        let rows = crate::tasks::Rows { labels, ..crate::tasks::Rows::new(Arc::new(bare)) };
        let peer = Fedavg::partly(session.clone(), spec(&session).clone(), Peer(0), &rows).unwrap();
        let Prepared { train, held, others } = peer.prepared(&opened).unwrap();
        let held = groups(held.as_ref().unwrap());
        prop_assert_eq!(in_both(&groups(train), &held), 0);
        prop_assert_eq!(in_both(&groups(others.as_ref().unwrap()), &held), 0);
    }
}
