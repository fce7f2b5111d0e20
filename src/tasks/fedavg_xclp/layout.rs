//! Positions in the session of the slots of the two tasks, training and label propagation.

/// Part of a propagation: the number of points of each member, and the given labels of each class.
pub(super) const POINTS: u32 = 0;
/// Part of a propagation: the members that computed.
pub(super) const COMPUTED: u32 = 1;
/// Part of a propagation: the slot in which the owners receive their labels.
pub(super) const LABELLED: u32 = 2;
/// Part of a propagation: the number of labels of each class, given and found.
pub(super) const COUNTS: u32 = 3;
/// Slots of a propagation.
const PARTS: u32 = 4;

/// Layout of the slots, derived from the session file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Slot of the first round in the task `fedavg`.
    pub(super) first: u32,
    pub(super) rounds: u32,
    /// Rounds before the first propagation; fewer than `rounds`.
    pub(super) after: u32,
    /// Rounds from one propagation to the next; at least 1.
    pub(super) refresh: u32,
    /// Number of slots after the rounds: the scores, and the predictions for held-out rows.
    pub(super) last: u32,
}

/// Task that a slot belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The slot of this number in the task `fedavg`.
    Training(u32),
    /// Number of a propagation, from 0, and its part.
    Propagation(u32, u32),
}

impl Layout {
    /// Returns the number of propagations.
    pub(super) fn propagations(self) -> u32 {
        (self.rounds - self.after).div_ceil(self.refresh)
    }

    /// Returns the number of slots of the session.
    pub(super) fn slots(self) -> u32 {
        self.first + self.rounds + self.last + PARTS * self.propagations()
    }

    /// Returns the round, from 0, that follows a propagation.
    pub(super) fn round(self, number: u32) -> u32 {
        self.after + number * self.refresh
    }

    /// Returns the propagation whose labels a round trains on, or `None` before the first propagation.
    pub(super) fn latest(self, round: u32) -> Option<u32> {
        round.checked_sub(self.after).map(|rounds| rounds / self.refresh)
    }

    /// Returns the first slot of a propagation.
    pub(super) fn propagation(self, number: u32) -> u32 {
        self.first + self.round(number) + PARTS * number
    }

    /// Returns how many slots must be committed before the labels of a propagation can be dropped. By then
    /// the labels of the next propagation have been counted, or all rounds are over.
    pub(super) fn end(self, number: u32) -> u32 {
        match number + 1 < self.propagations() {
            true => self.propagation(number + 1) + COUNTS,
            false => self.slots() - self.last - 1,
        }
    }

    pub(super) fn place(self, slot: u32) -> Place {
        let Some(behind) = slot.checked_sub(self.propagation(0)) else { return Place::Training(slot) };
        let number = (behind / (PARTS + self.refresh)).min(self.propagations() - 1);
        match slot - self.propagation(number) {
            part @ ..PARTS => Place::Propagation(number, part),
            _ => Place::Training(slot - PARTS * (number + 1)),
        }
    }

    pub(super) fn is_training(self, slot: u32) -> bool {
        matches!(self.place(slot), Place::Training(_))
    }

    /// Returns how many of the first `committed` slots of the session belong to the task `fedavg`.
    pub(super) fn trained(self, committed: u32) -> u32 {
        match self.place(committed) {
            Place::Training(slot) => slot,
            Place::Propagation(number, _) => self.first + self.round(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_of_both_tasks_has_one_place_in_the_session() {
        for (rounds, after, refresh) in (1..=9)
            .flat_map(|rounds| (0..rounds).flat_map(move |after| (1..=10).map(move |r| (rounds, after, r))))
        {
            let last = 1 + refresh % 2;
            let layout = Layout { first: 3, rounds, after, refresh, last };
            let places: Vec<Place> = (0..layout.slots()).map(|slot| layout.place(slot)).collect();
            let mut expected: Vec<Place> = (0..3).map(Place::Training).collect();
            for round in 0..rounds {
                if round >= after && (round - after).is_multiple_of(refresh) {
                    let number = (round - after) / refresh;
                    assert_eq!(layout.propagation(number), expected.len() as u32);
                    assert_eq!(layout.round(number), round);
                    expected.extend((0..PARTS).map(|part| Place::Propagation(number, part)));
                }
                expected.push(Place::Training(3 + round));
            }
            expected.extend((0..last).map(|behind| Place::Training(3 + rounds + behind)));
            assert_eq!(places, expected, "{layout:?}");
            for committed in 0..=layout.slots() {
                let before = places[..committed as usize].iter();
                let trained = before.filter(|place| matches!(place, Place::Training(_))).count();
                assert_eq!(layout.trained(committed), trained as u32, "{layout:?}, {committed} committed");
            }
            for round in 0..rounds {
                let latest = layout.latest(round);
                assert_eq!(latest.is_some(), round >= after);
                // The labels for a round are kept until the round is committed.
                let slot = places.iter().position(|&place| place == Place::Training(3 + round));
                assert!(
                    latest.is_none_or(|number| slot.is_some_and(|slot| slot as u32 <= layout.end(number)))
                );
            }
        }
    }
}
