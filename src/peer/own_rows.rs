//! The opened sums that include this peer's rows. The text that is made here is used in the last line of
//! `join`, in the receipt, on the pages and in Python.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::protocol::context::Aggregate;
use crate::session::Peer;
use crate::tasks::{History, RowUse, Task};

/// Reason if the peer was not a member of the sum.
const ABSENT: &str = "this peer was absent";

/// Opened sums that include a peer's rows, among the sums that are made of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OwnRows {
    /// Aggregates that include the rows, in order.
    pub included: Vec<String>,
    /// Aggregates that do not include them, in order.
    pub left_out: Vec<LeftOut>,
    /// The lists as a sentence without a full stop.
    pub text: String,
}

/// An aggregate that does not include a peer's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Name of the aggregate.
    pub name: String,
    /// Reason as a clause, such as "this peer was not drawn".
    pub reason: &'static str,
}

impl fmt::Display for OwnRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl OwnRows {
    /// Makes the lists for the peer `me` with the task `task`, from all committed sums.
    pub(crate) fn of(plan: &[Aggregate], me: Peer, task: &dyn Task, history: &History) -> Self {
        let mut places = Vec::new();
        for ((slot, aggregate), value) in (0u32..).zip(plan).zip(history.values()) {
            let reason = match task.row_use(slot, history) {
                // An empty aggregate is the coin.
                _ if aggregate.is_empty() => continue,
                RowUse::NotUsed => continue,
                _ if !value.members.contains(&me) => Some(ABSENT),
                RowUse::Included => None,
                RowUse::LeftOut(reason) => Some(reason),
            };
            places.push((&*aggregate.name, reason));
        }
        Self::new(&places)
    }

    /// Makes the lists. `places` has all aggregates that are made of rows, in order. If an aggregate does not
    /// include this peer's rows, it has the reason.
    fn new(places: &[(&str, Option<&'static str>)]) -> Self {
        let included = places.iter().filter(|(_, reason)| reason.is_none());
        let left_out = places
            .iter()
            .filter_map(|&(name, reason)| reason.map(|reason| LeftOut { name: name.to_owned(), reason }));
        Self {
            included: included.map(|&(name, _)| name.to_owned()).collect(),
            left_out: left_out.collect(),
            text: sentence(places),
        }
    }
}

fn sentence(places: &[(&str, Option<&'static str>)]) -> String {
    let included: Vec<_> =
        places.iter().filter(|(_, reason)| reason.is_none()).map(|(name, _)| *name).collect();
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in places.iter().filter_map(|(name, reason)| Some((*name, (*reason)?))) {
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    if included.is_empty() {
        let reasons: Vec<_> = by_reason.iter().map(|(reason, _)| *reason).collect();
        let why = if reasons.is_empty() { "no sum uses rows".to_owned() } else { reasons.join("; ") };
        return format!("your rows are in none of the sums: {why}");
    }
    if by_reason.is_empty() {
        return format!("your rows are in all sums: {}", names(&included));
    }
    // "The later ones" and "the earlier ones" are shorter than names. They are used if they mean the same
    // aggregates.
    let place = |wanted: bool| move |(_, reason): &(&str, Option<&str>)| reason.is_none() == wanted;
    let position = |wanted| places.iter().position(place(wanted));
    let last = |wanted| places.iter().rposition(place(wanted));
    let short = match () {
        () if by_reason.len() > 1 => None,
        () if last(true) < position(false) => Some("the later ones"),
        () if last(false) < position(true) => Some("the earlier ones"),
        () => None,
    };
    let left_out = by_reason.iter().map(|(reason, left_out)| {
        let which = short.map_or_else(|| names(left_out), str::to_owned);
        if *reason == ABSENT { which } else { format!("{which} ({reason})") }
    });
    format!(
        "your rows are in {}; not in {}",
        names(&included),
        left_out.collect::<Vec<_>>().join(", nor in ")
    )
}

/// Lists names of aggregates. Numbered ones come first, as ranges: "rounds 1 to 50 and in holders, moments".
fn names(names: &[&str]) -> String {
    let mut numbered: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut plain = Vec::new();
    for name in names {
        let numbers = name.rsplit_once('-').and_then(|(kind, number)| Some((kind, number.parse().ok()?)));
        match numbers {
            Some((kind, number)) => numbered.entry(kind).or_default().push(number),
            None => plain.push(*name),
        }
    }
    let numbered: Vec<_> = numbered.iter().map(|(kind, numbers)| ranges(kind, numbers)).collect();
    match (numbered.is_empty(), plain.is_empty()) {
        (true, _) => plain.join(", "),
        (_, true) => numbered.join(", "),
        _ => format!("{} and in {}", numbered.join(", "), plain.join(", ")),
    }
}

/// Formats numbers as ranges: "round 7", "rounds 1 to 50 and 61 to 70".
fn ranges(kind: &str, numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |&(from, to): &(u32, u32)| match to - from {
        0 => from.to_string(),
        1 => format!("{from} and {to}"),
        _ => format!("{from} to {to}"),
    };
    let unchanged = numbers.len() == 1 || kind.ends_with('s') || kind.ends_with("ed");
    let plural = if unchanged { "" } else { "s" };
    format!("{kind}{plural} {}", runs.iter().map(run).collect::<Vec<_>>().join(" and "))
}

#[cfg(test)]
mod tests;
