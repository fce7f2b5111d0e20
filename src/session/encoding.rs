//! The canonical encoding of a session, as the module documentation of [`super`] gives it.

use std::collections::BTreeMap;

use sha2::Digest;

use super::{Scaling, Session, SessionId, Setting};
use crate::crypto::identity::PublicKey;
use crate::crypto::tagged_hash;

/// Names and canonical values of all fields, in order.
fn entries(session: &Session) -> Vec<(String, Vec<u8>)> {
    let Session { name, task, min_peers, data, flynn, tune, xclp, sketch, privacy, voting, timing, roster } =
        session;
    let mut entries = vec![("name", name.as_bytes().to_vec()), ("task", task.to_string().into_bytes())];
    if session.selects() {
        entries.push(("select", b"sketch".to_vec()));
    }
    entries.extend([
        ("min_peers", integer((*min_peers).into())),
        ("data.features", integer(data.features.into())),
        ("data.classes", list(data.classes.iter().map(String::as_bytes))),
    ]);
    if !data.columns.is_empty() {
        entries.push(("data.columns", list(data.columns.iter().map(String::as_bytes))));
    }
    entries.extend([("data.scaling", scaling(data.scaling)), ("data.densify", vec![u8::from(data.densify)])]);
    if task.trains() {
        entries.extend([
            ("flynn.m", integer(flynn.m.into())),
            ("flynn.s", integer(flynn.s.into())),
            ("flynn.rho", integer(flynn.rho.into())),
            ("flynn.gamma", number(flynn.gamma)),
            ("flynn.score", flynn.score.name().as_bytes().to_vec()),
        ]);
    }
    if let Some(tune) = tune {
        let settings: Vec<_> = tune.settings.iter().map(setting).collect();
        entries.push(("tune.folds", integer(tune.folds.into())));
        entries.push(("tune.settings", list(settings.iter().map(Vec::as_slice))));
    }
    entries.extend(xclp.iter().flat_map(super::XclpSpec::entries));
    entries.extend(sketch.iter().flat_map(super::SketchSpec::entries));
    entries.push(("privacy.min_holders", integer(privacy.min_holders.into())));
    entries.push(("privacy.colluding", number(privacy.colluding)));
    entries.extend(privacy.noise.iter().flat_map(super::NoiseSpec::entries));
    entries.extend(voting.entries());
    entries
        .extend(super::rules::TIMING.iter().map(|field| (field.limit.field, integer((field.get)(timing)))));
    entries.push(("roster.peer_id", list(roster.iter().map(|entry| &entry.key.as_bytes()[..]))));
    entries.push(("roster.name", list(roster.iter().map(|entry| entry.name.as_bytes()))));
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn integer(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn number(value: f64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn scaling(scaling: Scaling) -> Vec<u8> {
    match scaling {
        Scaling::Range { lo, hi } => [b"range", &number(lo.into())[..], &number(hi.into())].concat(),
        Scaling::SoftBins { bins } => [b"soft-bins", &integer(bins.into())[..]].concat(),
        other => other.to_string().into_bytes(),
    }
}

fn setting(setting: &Setting) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, &scaling(setting.scaling));
    out.push(u8::from(setting.densify));
    [setting.m, setting.s, setting.rho].into_iter().for_each(|size| out.extend(integer(size.into())));
    out
}

pub(super) fn list<'a>(items: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = (items.len() as u64).to_le_bytes().to_vec();
    items.for_each(|item| put(&mut out, item));
    out
}

fn put(out: &mut Vec<u8>, item: &[u8]) {
    out.extend((item.len() as u64).to_le_bytes());
    out.extend(item);
}

fn entry((name, value): &(String, Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + name.len() + value.len());
    put(&mut out, name.as_bytes());
    put(&mut out, value);
    out
}

impl Session {
    /// SHA-256 of the canonical encoding: the same for two files exactly if they mean the same session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        let hash =
            entries(self).iter().fold(tagged_hash("session"), |hash, field| hash.chain_update(entry(field)));
        SessionId(hash.finalize().into())
    }

    /// The dotted name of every field and 8 bytes of the hash of its value, in the order of the encoding;
    /// addresses are left out. Two peers whose ids differ compare these lists to name the fields that do.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, [u8; 8])> {
        entries(self)
            .into_iter()
            .map(|field| {
                let hash: [u8; 32] =
                    tagged_hash("session field").chain_update(entry(&field)).finalize().into();
                let [a, b, c, d, e, f, g, h, ..] = hash;
                (field.0, [a, b, c, d, e, f, g, h])
            })
            .collect()
    }

    /// Names of the fields whose hashes differ from those of another file's [`Self::fields`], or that it
    /// lacks. A name that only the other has is not repeated: it is the other's to choose.
    #[must_use]
    pub fn differing_fields(&self, theirs: &[(String, [u8; 8])]) -> Vec<String> {
        let theirs: BTreeMap<_, _> = theirs.iter().map(|(name, hash)| (name, hash)).collect();
        let ours = self.fields();
        let ours: BTreeMap<_, _> = ours.iter().map(|(name, hash)| (name, hash)).collect();
        let unknown = theirs.keys().any(|name| !ours.contains_key(name));
        let differing = ours
            .iter()
            .filter(|(name, hash)| theirs.get(*name) != Some(*hash))
            .map(|(name, _)| (*name).clone());
        differing.chain(unknown.then(|| "fields unknown here".to_owned())).collect()
    }
}

/// Where a peer stands in the order of the council.
pub(super) fn council_rank(id: SessionId, key: PublicKey) -> [u8; 32] {
    tagged_hash("council").chain_update(id.0).chain_update(key.as_bytes()).finalize().into()
}
