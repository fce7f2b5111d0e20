//! A class for which too few owners have labels counts as having no labels (spec, section 15b).
//!
//! If a class had only one labelled row, every score of the class would show how near this row is. So the
//! slot `rows` opens how many members have labels of each class. If fewer than `privacy.min_contributors`
//! members have labels of a class, owners share no labels of it. Otherwise there are at least as many labels
//! as members that have some.

use super::{Plan, ROWS, Xclp};
use crate::session::Peer;
use crate::tasks::History;

/// A class that counts as having no labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FewOwners {
    /// The class.
    pub class: u16,
    /// Number of members that have labels of the class, from the slot `rows`.
    pub have: usize,
    /// Number of counted owners that are gone. Each of them may be one of those with labels of the class.
    pub lost: usize,
}

/// Returns for each class 1 if these labels include the class, otherwise 0.
pub(super) fn words(labels: &[Option<u16>], classes: usize) -> Vec<u32> {
    let has = |class: usize| labels.iter().flatten().any(|&label| usize::from(label) == class);
    (0..classes).map(|class| u32::from(has(class))).collect()
}

/// Returns the classes for which fewer than `fewest` owners certainly have labels. `have` is the number of
/// owners with labels of each class, and `lost` the number of counted owners that are gone.
fn few(have: impl Iterator<Item = u32>, lost: usize, fewest: usize) -> Vec<FewOwners> {
    let classes = (0u16..).zip(have).map(|(class, have)| FewOwners { class, have: have as usize, lost });
    // The number is at least 1: an owner that shares labels of the class is one of those that have some.
    classes.filter(|few| few.have.saturating_sub(few.lost).max(1) < fewest).collect()
}

/// Returns the classes that [`few`] finds, for the test vectors.
#[cfg(feature = "internals")]
pub fn without_labels(have: &[u32], lost: usize, fewest: usize) -> Vec<u16> {
    few(have.iter().copied(), lost, fewest).iter().map(|few| few.class).collect()
}

impl Plan {
    /// Returns the classes that count as having no labels when the rows of `members` are compared.
    pub(crate) fn few_owners(&self, history: &History, members: &[Peer]) -> Vec<FewOwners> {
        if !self.counts_classes {
            return Vec::new();
        }
        let counted = self.counted(history);
        let gone = counted.iter().filter(|(peer, rows)| **rows > 0 && !members.contains(peer));
        let (lost, fewest) = (gone.count(), usize::from(self.session.privacy.min_contributors));
        let words = history.vector(ROWS).map_or(&[][..], |bytes| bytes.as_chunks::<4>().0);
        let have = words.iter().skip(self.session.roster.len()).map(|&word| u32::from_le_bytes(word));
        few(have, lost, fewest)
    }

    /// Returns a line for each of these classes for which any member has labels.
    pub(super) fn told_of(&self, few: &[FewOwners]) -> Vec<String> {
        let fewest = self.session.privacy.min_contributors;
        let line = |&FewOwners { class, have, lost }: &FewOwners| {
            let name = self.session.data.classes.get(usize::from(class)).map_or("", String::as_str);
            let peers = if have == 1 { "1 peer".to_owned() } else { format!("{have} peers") };
            let found = match lost {
                0 => format!("only {peers} gave labels of it"),
                1 => format!("{peers} gave labels of it, 1 owner has left since"),
                _ => format!("{peers} gave labels of it, {lost} owners have left since"),
            };
            format!(
                "class {name:?} counts as having no labels: {found}, and the session requires {fewest} \
                 (privacy.min_contributors)"
            )
        };
        few.iter().filter(|few| few.have > 0).map(line).collect()
    }
}

impl Xclp {
    /// Returns the classes that count as having no labels in this session, because too few of the owners that
    /// took part have labels of them.
    #[must_use]
    pub fn without_labels(&self, history: &History) -> Vec<u16> {
        self.few_owners(history).iter().map(|few| few.class).collect()
    }

    pub(crate) fn few_owners(&self, history: &History) -> Vec<FewOwners> {
        self.plan.few_owners(history, history.members(self.plan.computed()))
    }
}
