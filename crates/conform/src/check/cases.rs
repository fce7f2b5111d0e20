//! Cases of a check: the place of the program in the tree, and the events.

use std::collections::BTreeSet;

use super::super::ground::Place;
use crate::deviation::{self, From, Kind};

/// Event of a case.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drama {
    Nothing,
    NetworkKey,
    /// A peer that is not in the roster connects to the program.
    Stranger,
    /// The program starts after the others have begun without it.
    Late,
    /// The program and the leader are killed at this stage of the counts, and restart with their state.
    Restart(&'static str),
    /// The program and the leader are killed in the same way, but the program's state is lost.
    Forgets,
    /// Our leader dies at this stage of the counts.
    LeaderDies(&'static str),
    /// One of our own nodes is suspended for some seconds.
    Committed,
    /// One or all of our own nodes send the program invalid messages, or correct messages in an unusual
    /// form.
    Deviates(&'static Kind),
}

/// A case of the check.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Description of the case.
    pub(super) about: &'static str,
    /// Sections of the specification with the rules, and the numbers of its MUSTs.
    pub(super) sections: &'static str,
    pub(super) peers: usize,
    pub(super) place: Place,
    /// True if the vectors need more chunks than may be sent without credit.
    pub(super) long: bool,
    pub(super) drama: Drama,
}

const fn case(
    (name, about, sections): (&'static str, &'static str, &'static str),
    (peers, place): (usize, Place),
    drama: Drama,
) -> Case {
    Case { name, about, sections, peers, place, long: false, drama }
}

const SESSIONS: [Case; 15] = [
    case(
        ("follower", "a follower in a session of three", "sections 3 to 15, M6.1, M10.1"),
        (3, Place::Leaf),
        Drama::Nothing,
    ),
    case(
        ("leader", "the leader of three: it proposes, decides and opens", "sections 7 to 10"),
        (3, Place::Leader),
        Drama::Nothing,
    ),
    case(
        (
            "root-of-five",
            "the leader of five: two of the four others are not its children",
            "sections 7 to 10, 13",
        ),
        (5, Place::Leader),
        Drama::Nothing,
    ),
    case(
        ("inner", "an inner node of five: it adds vectors, and passes reports on", "sections 9, 13"),
        (5, Place::Inner),
        Drama::Nothing,
    ),
    case(("leaf", "a leaf of five", "sections 9, 13"), (5, Place::Leaf), Drama::Nothing),
    Case {
        long: true,
        ..case(
            (
                "ten-chunks",
                "vectors of ten chunks: only eight may be sent without credit",
                "section 13, M13.1",
            ),
            (5, Place::Inner),
            Drama::Nothing,
        )
    },
    case(("network-key", "a session behind a network key", "section 6"), (3, Place::Leaf), Drama::NetworkKey),
    case(
        ("stranger", "a peer outside the roster connects, and is refused", "section 6, M6.5"),
        (3, Place::Leaf),
        Drama::Stranger,
    ),
    case(
        ("late", "the program comes after the others have begun without it", "sections 7, 14"),
        (5, Place::Leaf),
        Drama::Late,
    ),
    case(
        (
            "restarted-in-sum",
            "killed in the sum together with the leader; both return with their state",
            "sections 8, 10, 14",
        ),
        (5, Place::Inner),
        Drama::Restart("sum"),
    ),
    case(
        (
            "restarted-in-accept",
            "killed together with the leader when a value is accepted; both return with their state",
            "sections 8, 10, 14, M10.3",
        ),
        (3, Place::Leaf),
        Drama::Restart("accept"),
    ),
    case(
        ("state-lost", "the program returns without its state, and the others finish", "section 8"),
        (5, Place::Leaf),
        Drama::Forgets,
    ),
    case(
        ("leader-dies-in-sum", "the leader dies in the sum: a new view begins", "sections 7, 9"),
        (5, Place::Inner),
        Drama::LeaderDies("sum"),
    ),
    case(
        (
            "leader-dies-in-release",
            "the leader dies after a value is decided: another peer finishes the value",
            "sections 8, 10, M8.4",
        ),
        (5, Place::Inner),
        Drama::LeaderDies("release"),
    ),
    case(
        (
            "committed",
            "another peer is silent for 8 s: the view fails, and a new view begins",
            "sections 6, 9",
        ),
        (5, Place::Inner),
        Drama::Committed,
    ),
];

/// Returns all cases, in the order that they run in.
pub(super) fn all() -> Vec<Case> {
    let deviations = deviation::kinds().map(|kind| Case {
        name: kind.name,
        about: kind.about,
        sections: kind.sections,
        peers: 5,
        long: kind.long,
        place: match kind.from {
            From::Leader => Place::Inner,
            From::Child => Place::Leader,
            From::Above => Place::Leaf,
        },
        drama: Drama::Deviates(kind),
    });
    SESSIONS.into_iter().chain(deviations).collect()
}

impl Case {
    /// Returns the numbers of the sections of the specification.
    pub(super) fn numbers(&self) -> BTreeSet<u32> {
        let words = self.sections.trim_start_matches("sections").trim_start_matches("section");
        let mut numbers = BTreeSet::new();
        for part in words.split(',') {
            let ends = part.split(" to ").map(|number| number.trim().parse::<u32>());
            if let Ok(ends) = ends.collect::<Result<Vec<_>, _>>()
                && let (Some(&first), Some(&last)) = (ends.first(), ends.last())
            {
                numbers.extend(first..=last);
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_names_sections_of_the_specification() {
        let cases = all();
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            assert!(
                !case.numbers().is_empty() && case.numbers().iter().all(|n| (2..=15).contains(n)),
                "{}",
                case.name
            );
        }
        let two = cases.iter().find(|case| case.name == "root-of-five").expect("there is one");
        assert_eq!(two.numbers(), [7, 8, 9, 10, 13].into());
    }

    /// Returns the words in backticks after `live: ` in a row of the table of MUSTs.
    fn live(row: &str) -> Vec<&str> {
        let told = row.split('|').nth(3).and_then(|vectors| vectors.split_once("live: "));
        told.into_iter().flat_map(|(_, live)| live.split('`').skip(1).step_by(2)).collect()
    }

    #[test]
    fn the_table_of_musts_names_cases_and_cases_name_musts_of_the_table() {
        let table = include_str!("../../../../tests/vectors/README.md");
        let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| M")).collect();
        let cases = all();
        let named: Vec<_> = rows.iter().flat_map(|row| live(row)).collect();
        assert!(named.len() > 10);
        let unknown: Vec<_> =
            named.iter().filter(|name| cases.iter().all(|case| case.name != **name)).collect();
        assert!(unknown.is_empty(), "no such cases: {unknown:?}");
        for case in &cases {
            for must in case.sections.split(", ").filter(|word| word.starts_with('M')) {
                assert!(
                    rows.iter().any(|row| row.starts_with(&format!("| {must} |"))),
                    "{}: {must}",
                    case.name
                );
            }
        }
    }
}
