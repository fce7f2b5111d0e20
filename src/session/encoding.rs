//! The canonical encoding of a session (spec, section 4.1).

use flyswarm_sealed_sum::session::differing;
use sha2::Digest;

use super::fields;
use super::rules::TIMING;
use super::{Scaling, Session, SessionId};
use crate::crypto::tagged_hash;

/// Dotted name of a field and its canonical value.
pub type Field = (&'static str, Vec<u8>);

/// Returns names and canonical values of all fields, in order.
fn entries(session: &Session) -> Vec<Field> {
    let Session { name, run, task, min_peers, data, privacy, voting, timing, relays: _, roster } = session;
    let names = |names: &[String]| list(names.iter().map(String::as_bytes));
    let mut entries = vec![("name", text(name))];
    entries.extend(run.entries());
    entries.push(("task", text(task.name())));
    if session.selects() {
        entries.push(("select", text("sketch")));
    }
    entries.extend([
        ("min_peers", integer(*min_peers)),
        ("data.features", integer(data.features)),
        ("data.classes", names(&data.classes)),
    ]);
    if !data.columns.is_empty() {
        entries.push(("data.columns", names(&data.columns)));
    }
    entries.extend([("data.scaling", scaling(data.scaling)), ("data.densify", flag(data.densify))]);
    entries.extend(data.checks.entries());
    entries.extend(data.preparation.iter().map(|preparation| ("table", preparation.encode())));
    entries.extend(task.entries());
    entries.push(("privacy.min_contributors", integer(privacy.min_contributors)));
    entries.push(("privacy.collusion_threshold", number(privacy.collusion_threshold)));
    entries.extend(privacy.noise.iter().flat_map(super::NoiseSpec::entries));
    entries.extend(voting.entries(roster.len()));
    entries.extend(TIMING.iter().flat_map(|(_, rows)| fields::entries(rows, timing)));
    entries.push(("roster.peer_id", list(roster.iter().map(|entry| &entry.key.as_bytes()[..]))));
    entries.push(("roster.name", list(roster.iter().map(|entry| entry.name.as_bytes()))));
    entries
}

pub(crate) fn integer(value: impl Into<u64>) -> Vec<u8> {
    value.into().to_le_bytes().to_vec()
}

pub(crate) fn number(value: f64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

pub(crate) fn flag(value: bool) -> Vec<u8> {
    vec![u8::from(value)]
}

pub(crate) fn text(value: &str) -> Vec<u8> {
    value.as_bytes().to_vec()
}

pub(crate) fn scaling(scaling: Scaling) -> Vec<u8> {
    match scaling {
        Scaling::Range { lo, hi } => [b"range", &number(lo.into())[..], &number(hi.into())].concat(),
        Scaling::SoftBins { bins } => [b"soft-bins", &integer(bins)[..]].concat(),
        other => text(&other.to_string()),
    }
}

pub(crate) fn list<'a>(items: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = integer(items.len() as u64);
    items.for_each(|item| put(&mut out, item));
    out
}

/// Appends the length of `item`, then `item`.
pub(crate) fn put(out: &mut Vec<u8>, item: &[u8]) {
    out.extend(integer(item.len() as u64));
    out.extend(item);
}

fn entry((name, value): &Field) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + name.len() + value.len());
    put(&mut out, name.as_bytes());
    put(&mut out, value);
    out
}

impl Session {
    /// Returns SHA-256 of the canonical encoding: equal for two files if and only if they mean the same
    /// session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        let hash =
            entries(self).iter().fold(tagged_hash("session"), |hash, field| hash.chain_update(entry(field)));
        SessionId(hash.finalize().into())
    }

    /// Returns the dotted name of every field and 8 bytes of the hash of its value, in the order of the
    /// encoding, without addresses. If two peers have different ids, they compare these lists to find the
    /// fields that differ.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, [u8; 8])> {
        entries(self)
            .into_iter()
            .map(|field| {
                let hash: [u8; 32] =
                    tagged_hash("session field").chain_update(entry(&field)).finalize().into();
                let [a, b, c, d, e, f, g, h, ..] = hash;
                (field.0.to_owned(), [a, b, c, d, e, f, g, h])
            })
            .collect()
    }

    /// Returns the fields that are different or missing in another file. `theirs` are that file's
    /// [`Self::fields`]. If the other file has fields that this one lacks, the single entry "fields unknown
    /// here" stands for them: their names come from outside and are not shown.
    #[must_use]
    pub fn differing_fields(&self, theirs: &[(String, [u8; 8])]) -> Vec<String> {
        differing(&self.fields(), theirs)
    }
}
