//! Before training, a sealed sum counts the peers that have rows of each class. A session in which too few
//! peers have a class ends, so that no sum shows the rows of a single peer (spec, section "Task flynn",
//! aggregate `holders`).

use bytes::Bytes;

use crate::crypto::mask::{self, Word};
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Session};
use crate::tasks::History;

/// Slot of `holders` if the session does not draw peers before it. Word 0 counts the members with rows, word
/// 1 + l the members with rows of class l.
pub(crate) const HOLDERS: u32 = 1;

/// Returns the aggregate. `classes` is 0 if the task does not use classes.
#[must_use]
pub(crate) fn aggregate(classes: usize) -> Aggregate {
    let (is, reveals) = match classes {
        0 => ("number of members with rows", "how many members have rows"),
        _ => (
            "number of members with rows of each class",
            "how many members have rows and rows of each class; if rows are held out, how many hold out \
             rows of each class, and enough rows to calibrate probabilities",
        ),
    };
    Aggregate::exact("holders", 4, 1 + classes as u64, is, reveals)
}

/// Returns the words of a peer for the count.
pub(crate) fn vector(classes: usize, data: &Dataset) -> Bytes {
    words(data.rows() as u64, &data.class_counts(classes))
}

/// Returns the words of a peer for the count, then one word for each class: 1 if the peer holds out rows of
/// this class. If `many` is given, the last word is 1 if the peer holds out at least this number of rows.
pub(crate) fn vector_with(classes: usize, data: &Dataset, held_out: &Dataset, many: Option<u64>) -> Bytes {
    let out = held_out.class_counts(classes).into_iter().map(|rows| rows > 0);
    let out = out.chain(many.map(|many| held_out.rows() as u64 >= many));
    let out = out.flat_map(|holds| u32::from(holds).to_le_bytes());
    vector(classes, data).into_iter().chain(out).collect()
}

/// Returns the number of peers that hold out rows of each class, read from the slot `at`.
pub(crate) fn holding_out(session: &Session, at: u32, opened: &[Bytes]) -> Vec<u32> {
    let classes = session.data.classes.len();
    let words = opened.get(at as usize).map_or(&[][..], |vector| vector.as_chunks::<4>().0);
    let word = |class| words.get(1 + classes + class).map_or(0, |&word| u32::from_le_bytes(word));
    (0..classes).map(word).collect()
}

/// Returns for each class whether enough peers hold out rows of it, even if `lost` of them are gone. Only
/// rows of such classes are scored.
pub(crate) fn scored(session: &Session, at: u32, opened: &[Bytes], lost: usize) -> Vec<bool> {
    // The minimum is at least 1.
    let minimum = usize::from(session.privacy.min_contributors);
    let enough = |peers: u32| (peers as usize).saturating_sub(lost) >= minimum;
    holding_out(session, at, opened).into_iter().map(enough).collect()
}

/// Returns the number of peers that were counted in the slot `at` but are not among `members`.
pub(crate) fn lost(at: u32, history: &History, members: &[Peer]) -> usize {
    history.members(at).iter().filter(|peer| !members.contains(peer)).count()
}

/// Checks that a sum over held-out rows may be started over `members`. For each `scored` class, enough of the
/// peers that hold out rows of it must be left.
pub(crate) fn allows_scored(
    session: &Session,
    (at, scored): (u32, Vec<bool>),
    history: &History,
    members: &[Peer],
) -> Result<(), String> {
    let (opened, minimum) = (history.vectors(), usize::from(session.privacy.min_contributors));
    let lost = lost(at, history, members);
    let classes = session.data.classes.iter().zip(scored);
    for ((class, scored), peers) in classes.zip(holding_out(session, at, opened)) {
        if scored && (peers as usize).saturating_sub(lost) < minimum {
            return Err(format!(
                "class {class}: only {peers} peers hold out rows, and {lost} of them are gone; the \
                 session requires {minimum} (privacy.min_contributors)"
            ));
        }
    }
    Ok(())
}

/// Returns the words of a peer, made from its number of rows and its number of rows of each class.
pub(crate) fn words(rows: u64, of_classes: &[u64]) -> Bytes {
    let held = std::iter::once(&rows).chain(of_classes);
    held.flat_map(|&rows| u32::from(rows > 0).to_le_bytes()).collect()
}

/// Checks that rows have the session's number of features.
pub(crate) fn fits_features(session: &Session, data: &Dataset) -> Result<(), String> {
    let features = session.data.features as usize;
    if data.features() != features {
        return Err(format!("rows have {} features, the session has {features}", data.features()));
    }
    Ok(())
}

/// Checks that the rows fit the session, or returns the reason why not.
pub(crate) fn fits(session: &Session, data: &Dataset) -> Result<(), String> {
    fits_features(session, data)?;
    if data.classes() != session.data.classes {
        return Err("the classes of the rows are not those of the session".into());
    }
    fits_ring(session, data, mask::capacity)?;
    if data.rows() > 0 && data.labels().is_empty() {
        return Err("the rows have no labels".into());
    }
    Ok(())
}

/// Checks that the peer has few enough rows: a sum of 32-bit words that counts every row once must not
/// overflow. Otherwise returns the reason.
pub(crate) fn fits_ring(
    session: &Session,
    data: &Dataset,
    capacity: fn(Word, u64) -> u64,
) -> Result<(), String> {
    let (rows, peers) = (data.rows(), session.roster.len());
    let most = capacity(Word::W32, peers as u64);
    if rows as u64 > most {
        Err(format!("{rows} rows: with {peers} peers each may have at most {most}"))
    } else {
        Ok(())
    }
}

/// Refuses rows of a class that no peer had when the slot `at` counted the holders. Otherwise a peer that
/// came later would be the only one with rows of that class.
pub(crate) fn refuse_uncounted(
    session: &Session,
    at: u32,
    own: &[u64],
    opened: &[Bytes],
) -> Result<(), String> {
    let Some(holders) = opened.get(at as usize) else { return Ok(()) };
    let (words, _) = holders.as_chunks::<4>();
    let names = &session.data.classes;
    match names
        .iter()
        .zip(own)
        .zip(words.iter().skip(1))
        .find(|((_, own), counted)| **own > 0 && **counted == [0; 4])
    {
        Some(((class, _), _)) => {
            Err(format!("class {class}: no peer had rows when the session counted them"))
        }
        None => Ok(()),
    }
}

/// Checks that a new sum of `slot` may be started over `members`.
pub(crate) fn allows(
    session: &Session,
    slot: u32,
    history: &History,
    members: &[Peer],
) -> Result<(), String> {
    if slot <= HOLDERS {
        return Ok(());
    }
    enough(session, HOLDERS, history.vectors(), lost(HOLDERS, history, members))
}

/// Checks in the words of the slot `at` that enough peers have rows of each class, even if `lost` of them are
/// gone.
pub(crate) fn enough(session: &Session, at: u32, opened: &[Bytes], lost: usize) -> Result<(), String> {
    let minimum = usize::from(session.privacy.min_contributors);
    let Some(holders) = opened.get(at as usize) else { return Ok(()) };
    let (words, _) = holders.as_chunks::<4>();
    let classes = session.data.classes.iter().map(|class| format!("class {class}: "));
    for (class, &word) in std::iter::once(String::new()).chain(classes).zip(words) {
        let counted = u32::from_le_bytes(word) as usize;
        // A class without any rows needs no protection.
        let absent = counted == 0 && !class.is_empty();
        if !absent && counted.saturating_sub(lost) < minimum {
            let have = if counted == 1 { "peer has" } else { "peers have" };
            let gone = if lost > 0 { format!(", and {lost} of them are gone") } else { String::new() };
            return Err(format!(
                "{class}only {counted} {have} rows{gone}; the session requires {minimum} \
                 (privacy.min_contributors)"
            ));
        }
    }
    Ok(())
}
