//! Predicts a peer's held-out rows in three ways: with the model of all peers, with a model of the peer's own
//! rows, and with the nearest of the peer's own rows (spec, section 15.4).

use bytes::Bytes;
use flyswarm_learn::model::comparison::Comparison;
use flyswarm_learn::model::figures::{Figures, Gain, Sums};

/// Number of nearest rows whose classes are counted for a prediction.
pub(crate) const NEIGHBOURS: usize = 5;

/// Results of predicting held-out rows. The results of several peers can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// Sums for the model of the training rows of all peers.
    pub(crate) swarm: Sums,
    /// Sums for the model of the peer's own training rows.
    pub(crate) alone: Sums,
    /// Sums for the nearest of the peer's own training rows.
    pub(crate) neighbours: Sums,
    /// For each class, two numbers of rows: those that only the model of all peers predicts correctly, and
    /// those that only the compared predictor does. The compared predictor is the model of the peer's own
    /// rows in the first list, and the nearest neighbours in the second.
    pub(crate) apart: [Vec<[u64; 2]>; 2],
}

impl Evaluation {
    /// Returns the number of words of the slot.
    pub(crate) fn length(classes: usize) -> usize {
        Sums::length(classes, true) + 2 * Sums::length(classes, false) + 4 * classes
    }

    /// Returns the results of no rows.
    pub(crate) fn empty(classes: usize) -> Self {
        let sums = |states| Sums::empty(classes, states);
        let apart = [(); 2].map(|()| vec![[0; 2]; classes]);
        Self { swarm: sums(true), alone: sums(false), neighbours: sums(false), apart }
    }

    /// Makes the results of rows with these labels. `swarm` has the sums for the model of all peers. The
    /// three lists have the predicted class of each row in each of the three ways.
    pub(crate) fn of(labels: &[u16], swarm: Sums, [by_swarm, by_alone, by_nearest]: [&[u16]; 3]) -> Self {
        let classes = swarm.class_rows().len();
        let apart = [by_alone, by_nearest].map(|other| {
            let mut apart = vec![[0; 2]; classes];
            for ((&label, &one), &other) in labels.iter().zip(by_swarm).zip(other) {
                let [won, lost] = &mut apart[usize::from(label)];
                *won += u64::from(one == label && other != label);
                *lost += u64::from(one != label && other == label);
            }
            apart
        });
        let sums = |predicted| Sums::of_classes(classes, labels, predicted);
        Self { swarm, alone: sums(by_alone), neighbours: sums(by_nearest), apart }
    }

    /// Returns the words of the slot: those of this peer's results that other peers may see.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let Self { swarm, alone, neighbours, apart } = self;
        let sums = [swarm.shown().words(), alone.words(), neighbours.words()].concat();
        let apart = apart.iter().flatten().flatten().copied();
        sums.into_iter().chain(apart).flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the words of the slot. Returns `None` if no rows can have these sums.
    pub(crate) fn from_bytes(classes: usize, bytes: &[u8]) -> Option<Self> {
        let words: Vec<_> = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let (swarm, rest) = words.split_at_checked(Sums::length(classes, true))?;
        let (alone, rest) = rest.split_at_checked(Sums::length(classes, false))?;
        let (neighbours, apart) = rest.split_at_checked(Sums::length(classes, false))?;
        let sums = |words| Sums::from_words(classes, words);
        let (alone_apart, near_apart) = apart.split_at_checked(2 * classes)?;
        let apart = [alone_apart, near_apart].map(|apart| apart.as_chunks::<2>().0.to_vec());
        let found = Self { swarm: sums(swarm)?, alone: sums(alone)?, neighbours: sums(neighbours)?, apart };
        found.agrees().then_some(found)
    }

    /// Returns whether all three predictors may have been tested on the same rows.
    fn agrees(&self) -> bool {
        [&self.alone, &self.neighbours].into_iter().zip(&self.apart).all(|(other, apart)| {
            let right = self.swarm.class_right().into_iter().zip(other.class_right());
            let same = |((one, other), &[won, lost]): ((u64, u64), &[u64; 2])| {
                // The number of rows that both predictors get right must be the same, whichever of the two it
                // is computed from.
                let both = one.checked_sub(won);
                both.is_some() && both == other.checked_sub(lost)
            };
            other.class_rows() == self.swarm.class_rows()
                && apart.len() == right.len()
                && right.zip(apart).all(same)
        })
    }

    /// Returns the figures for receipts and reports, or `None` if there are no rows. `positive` is the
    /// session's positive class.
    pub(crate) fn compared(&self, classes: &[String], positive: Option<u16>) -> Option<Comparison> {
        let figures = |sums| Figures::new(classes, sums, positive);
        let rows = self.swarm.class_rows();
        let gain = |apart: &[[u64; 2]]| Gain::of(apart.iter().copied().zip(rows.iter().copied()));
        let [against_alone, against_neighbours] = &self.apart;
        Some(Comparison {
            swarm: figures(&self.swarm)?,
            alone: figures(&self.alone)?,
            neighbours: figures(&self.neighbours)?,
            gain_over_alone: gain(against_alone)?,
            gain_over_neighbours: gain(against_neighbours)?,
        })
    }
}
