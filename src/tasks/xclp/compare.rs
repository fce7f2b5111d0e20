//! Accuracy of the labels of a simulated session.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{RowLabel, Xclp, planes};
use crate::session::Peer;
use crate::tasks::Rows;
use crate::tasks::XclpSpec;
use crate::tasks::compare::{Accuracy, DealtRows, Ended, Worth};

/// Returns the accuracy of the run's result.
pub(super) fn worth(run: &Ended<'_>, failures: &mut Vec<String>) -> Worth {
    let spec = run.session.task.get::<XclpSpec>();
    Worth { accuracy: spec.and_then(|spec| accuracy(run, spec, failures)), ..Worth::default() }
}

/// Returns the share of right labels among the rows that had no label, for the members of the last sum. Also
/// compares all labels of these members, bit for bit, with the labels that the same rows get in one place.
fn accuracy(run: &Ended<'_>, spec: &XclpSpec, failures: &mut Vec<String>) -> Option<Accuracy> {
    let Ended { session, rows, finished, .. } = run;
    let (session, rows) = (*session, *rows);
    let task = |(peer, part): (Peer, &Rows)| {
        let (data, labels) = (part.data.clone(), part.labels.clone());
        Xclp::new(session.clone(), spec.clone(), peer, data, labels, &run.secrets[peer.index()]).ok()
    };
    let tasks: Vec<Xclp> = (0u16..).map(Peer).zip(&rows.parts).map(task).collect::<Option<_>>()?;
    let history = run.first()?.1;
    let [.., computed, labelled] = history.values() else { return None };
    let members = &labelled.members;
    // If the plan has moments, they are in slot 2.
    let moments = history.vectors().get(2).filter(|_| history.vectors().len() > 4).map(|bytes| &bytes[..]);
    let counted = &history.values().get(1)?.members;
    let here = computed.members.iter().copied().filter(|peer| counted.contains(peer));
    let owners: Vec<Peer> = here.filter(|peer| rows.parts[peer.index()].data.rows() > 0).collect();
    let of = |peer: &Peer| &tasks[peer.index()];
    let results: BTreeMap<Peer, Vec<RowLabel>> = finished
        .iter()
        .filter_map(|(&peer, history)| Some((peer, of(&peer).said(&of(&peer).output(history)?))))
        .collect();
    let planes = finished.values().find_map(|history| self::planes(session, history))?;
    let without = of(&run.first()?.0).without_labels(history);
    let all: Vec<&Xclp> = owners.iter().map(of).collect();
    let pooled = Xclp::pooled(&all, &planes, moments, &without).ok()?.0;
    let asks = |peer: &&Peer| rows.parts[peer.index()].labels.contains(&None);
    let size = |peer: &&Peer| rows.parts[peer.index()].data.rows();
    let largest = owners.iter().filter(asks).max_by_key(size).or_else(|| owners.iter().max_by_key(size))?;
    let alone = Xclp::pooled(&[of(largest)], &planes, moments, &[]).ok()?.0;
    let (mut of_swarm, mut together, mut by_itself) = (Share::default(), Share::default(), Share::default());
    let (mut equal, mut hash) = (true, Sha256::new());
    for (peer, pooled) in owners.iter().zip(&pooled).filter(|(peer, _)| members.contains(peer)) {
        together.count(rows, *peer, pooled);
        // A peer that was killed after it had sent its input may not have come back, and then has no labels.
        let Some(said) = results.get(peer) else { continue };
        said.iter().for_each(|said| hash.update(said.label.unwrap_or(u16::MAX).to_le_bytes()));
        of_swarm.count(rows, *peer, said);
        let differing: Vec<_> = said.iter().zip(pooled).filter(|(one, other)| one != other).collect();
        if let Some((one, other)) = differing.first() {
            equal = false;
            failures.push(format!(
                "{peer} has other labels for {} rows than the computation in one place, the first {one:?} instead of {other:?}",
                differing.len()
            ));
        }
    }
    by_itself.count(rows, *largest, alone.first()?);
    let digest: [u8; 32] = hash.finalize().into();
    Some(Accuracy {
        swarm: of_swarm.value(),
        pooled: together.value(),
        alone: by_itself.value(),
        rows: of_swarm.all as u64,
        equal,
        digest: hex::encode(&digest[..8]),
    })
}

/// Number of rows that had no label, and how many of them got the right label.
#[derive(Default)]
struct Share {
    right: usize,
    all: usize,
}

impl Share {
    fn count(&mut self, rows: &DealtRows, peer: Peer, said: &[RowLabel]) {
        let part = &rows.parts[peer.index()];
        for ((said, truth), known) in said.iter().zip(part.data.labels()).zip(&part.labels) {
            if known.is_none() {
                self.all += 1;
                self.right += usize::from(said.label == Some(*truth));
            }
        }
    }

    fn value(&self) -> f64 {
        self.right as f64 / self.all.max(1) as f64
    }
}
