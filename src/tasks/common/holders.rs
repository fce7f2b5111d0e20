//! Which peers have rows of which class: counted in a sealed sum before anything is learnt, so that nobody is
//! the only one whose rows a sum shows (spec, section "Task flynn", aggregate `holders`).

use bytes::Bytes;

use crate::crypto::mask::{self, Word};
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Session};
use crate::tasks::History;

/// Slot of `holders` where no draw comes before it: word 0 counts members with rows, word 1 + l those with
/// rows of class l.
pub(crate) const HOLDERS: u32 = 1;

/// The aggregate; of no classes where the task looks at none.
#[must_use]
pub(crate) fn aggregate(classes: usize) -> Aggregate {
    let (is, reveals) = match classes {
        0 => ("who has rows", "how many members have rows"),
        _ => (
            "who has rows of which class",
            "how many members have rows, have rows of each class and, if rows are held out, hold some of it out, and \
             enough of all classes to calibrate probabilities",
        ),
    };
    Aggregate::exact("holders", 4, 1 + classes as u64, is, reveals)
}

/// A peer's part.
pub(crate) fn vector(classes: usize, data: &Dataset) -> Bytes {
    words(data.rows() as u64, &data.class_counts(classes))
}

/// A peer's part with, for each class, whether it holds rows of it out, and whether it holds `many` out, if
/// the task asks for that.
pub(crate) fn vector_with(classes: usize, data: &Dataset, held_out: &Dataset, many: Option<u64>) -> Bytes {
    let out = held_out.class_counts(classes).into_iter().map(|rows| rows > 0);
    let out = out.chain(many.map(|many| held_out.rows() as u64 >= many));
    let out = out.flat_map(|holds| u32::from(holds).to_le_bytes());
    vector(classes, data).into_iter().chain(out).collect()
}

/// How many peers hold rows of each class out, as the slot `at` says.
pub(crate) fn holding_out(session: &Session, at: u32, opened: &[Bytes]) -> Vec<u32> {
    let classes = session.data.classes.len();
    let words = opened.get(at as usize).map_or(&[][..], |vector| vector.as_chunks::<4>().0);
    let word = |class| words.get(1 + classes + class).map_or(0, |&word| u32::from_le_bytes(word));
    (0..classes).map(word).collect()
}

/// Whether each class has enough peers that hold rows of it out, given that `lost` of those counted may be
/// gone; only such rows are scored.
pub(crate) fn scored(session: &Session, at: u32, opened: &[Bytes], lost: usize) -> Vec<bool> {
    // At least 1.
    let minimum = usize::from(session.privacy.min_contributors);
    let enough = |peers: u32| (peers as usize).saturating_sub(lost) >= minimum;
    holding_out(session, at, opened).into_iter().map(enough).collect()
}

/// How many of those that were counted in the slot `at` are not among `members`.
pub(crate) fn lost(at: u32, history: &History, members: &[Peer]) -> usize {
    history.members(at).iter().filter(|peer| !members.contains(peer)).count()
}

/// Whether a sum over rows that are held out may be started over `members`: of those that hold rows of each
/// `scored` class out enough are left.
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
                "only {peers} members hold rows of class {class} out, and {lost} of those counted are gone; \
                 privacy.min_contributors is {minimum}"
            ));
        }
    }
    Ok(())
}

/// The words of a peer's part, for its rows and its rows of each class.
pub(crate) fn words(rows: u64, of_classes: &[u64]) -> Bytes {
    let held = std::iter::once(&rows).chain(of_classes);
    held.flat_map(|&rows| u32::from(rows > 0).to_le_bytes()).collect()
}

/// Whether rows have as many features as the session says.
pub(crate) fn fits_features(session: &Session, data: &Dataset) -> Result<(), String> {
    let features = session.data.features as usize;
    if data.features() != features {
        return Err(format!("rows have {} features, the session says {features}", data.features()));
    }
    Ok(())
}

/// Whether the rows fit the session; says what does not.
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

/// Whether a sum in which every row counts once cannot wrap, by the capacity of 32-bit words; says why not.
pub(crate) fn fits_ring(
    session: &Session,
    data: &Dataset,
    capacity: fn(Word, u64) -> u64,
) -> Result<(), String> {
    let (rows, peers) = (data.rows(), session.roster.len());
    let most = capacity(Word::W32, peers as u64);
    if rows as u64 > most {
        Err(format!("{rows} rows, with {peers} peers at most {most} each"))
    } else {
        Ok(())
    }
}

/// A peer that came after the holders were counted in the slot `at` may not bring a class that nobody had: it
/// would be its only holder.
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
            Err(format!("nobody had rows of class {class} when the session counted who holds what"))
        }
        None => Ok(()),
    }
}

/// Whether a new sum of `slot` may be started over `members`.
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

/// Whether each class has as many holders as are asked for by what the slot `at` says, given that `lost` of
/// those counted may be gone.
pub(crate) fn enough(session: &Session, at: u32, opened: &[Bytes], lost: usize) -> Result<(), String> {
    let minimum = usize::from(session.privacy.min_contributors);
    let Some(holders) = opened.get(at as usize) else { return Ok(()) };
    let (words, _) = holders.as_chunks::<4>();
    let classes = session.data.classes.iter().map(|class| format!("rows of class {class}"));
    for (name, &word) in std::iter::once("rows".to_owned()).chain(classes).zip(words) {
        let counted = u32::from_le_bytes(word) as usize;
        // A class that nobody has is nobody's secret.
        let absent = counted == 0 && name != "rows";
        if !absent && counted.saturating_sub(lost) < minimum {
            let gone =
                if lost > 0 { format!(", and {lost} of those counted are gone") } else { String::new() };
            return Err(format!(
                "only {counted} members have {name}{gone}; privacy.min_contributors is {minimum}"
            ));
        }
    }
    Ok(())
}
