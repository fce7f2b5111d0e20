//! Rows that are predicted in three ways: by what the swarm has learnt, by what a peer has learnt alone, and
//! by its nearest rows (spec, section 15.4).

use bytes::Bytes;
use flyswarm_learn::model::figures::{Figures, Gain, Sums};
use serde_json::{Value, json};

/// Neighbours that vote.
pub(crate) const NEIGHBOURS: usize = 5;

/// How held-out rows were predicted; of several peers they add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// By the model of everybody's other rows.
    pub(crate) swarm: Sums,
    /// By the model of the peer's own other rows.
    pub(crate) alone: Sums,
    /// By the nearest of these rows.
    pub(crate) neighbours: Sums,
    /// Rows that only the swarm's model has right, and that only the other has right: against the model of
    /// the peer's own rows, then against its nearest neighbours.
    pub(crate) apart: [[u64; 2]; 2],
}

impl Evaluation {
    /// Words of the slot.
    pub(crate) fn length(classes: usize) -> usize {
        Sums::length(classes, true) + 2 * Sums::length(classes, false) + 4
    }

    /// Of no rows.
    pub(crate) fn empty(classes: usize) -> Self {
        let sums = |states| Sums::empty(classes, states);
        Self { swarm: sums(true), alone: sums(false), neighbours: sums(false), apart: [[0; 2]; 2] }
    }

    /// Of rows with these labels: what the swarm's sums are, and each row's class in the three ways.
    pub(crate) fn of(labels: &[u16], swarm: Sums, [by_swarm, by_alone, by_nearest]: [&[u16]; 3]) -> Self {
        let classes = swarm.class_rows().len();
        let apart = [by_alone, by_nearest].map(|other| {
            let right = |which: &[u16], row: usize| which[row] == labels[row];
            let won = |a, b| (0..labels.len()).filter(|&row| right(a, row) && !right(b, row)).count() as u64;
            [won(by_swarm, other), won(other, by_swarm)]
        });
        let sums = |predicted| Sums::of_classes(classes, labels, predicted);
        Self { swarm, alone: sums(by_alone), neighbours: sums(by_nearest), apart }
    }

    /// The words of the slot.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let Self { swarm, alone, neighbours, apart } = self;
        let words = [swarm.words(), alone.words(), neighbours.words(), apart.as_flattened().to_vec()];
        words.concat().into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `None` where these are the sums of no rows.
    pub(crate) fn from_bytes(classes: usize, bytes: &[u8]) -> Option<Self> {
        let words: Vec<_> = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let (swarm, rest) = words.split_at_checked(Sums::length(classes, true))?;
        let (alone, rest) = rest.split_at_checked(Sums::length(classes, false))?;
        let (neighbours, apart) = rest.split_at_checked(Sums::length(classes, false))?;
        let sums = |words| Sums::from_words(classes, words);
        let apart = apart.as_chunks::<2>().0.try_into().ok()?;
        let found = Self { swarm: sums(swarm)?, alone: sums(alone)?, neighbours: sums(neighbours)?, apart };
        found.agrees().then_some(found)
    }

    /// Whether all three may be of the same rows.
    fn agrees(&self) -> bool {
        let (rows, right) = (self.swarm.class_rows(), |sums: &Sums| sums.class_right().iter().sum::<u64>());
        [&self.alone, &self.neighbours].into_iter().zip(self.apart).all(|(other, [won, lost])| {
            // What both have right is the same, seen from either side.
            let both = right(&self.swarm).checked_sub(won);
            other.class_rows() == rows && both.is_some() && both == right(other).checked_sub(lost)
        })
    }

    /// The figures, for receipts and reports; `None` without rows.
    pub(crate) fn json(&self, classes: &[String]) -> Option<Value> {
        let figures = |sums| Figures::new(classes, sums);
        let (swarm, alone) = (figures(&self.swarm)?, figures(&self.alone)?);
        let [against_alone, against_neighbours] =
            self.apart.map(|[won, lost]| Gain::of(won, lost, swarm.rows));
        Some(json!({
            "swarm": swarm, "alone": alone, "neighbours": figures(&self.neighbours)?,
            "gain_over_alone": against_alone, "gain_over_neighbours": against_neighbours,
        }))
    }
}
