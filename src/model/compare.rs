//! Differences of two models.

use std::collections::BTreeSet;

use super::Model;

/// A difference: its subject, and the value in each of the two models.
pub(crate) type Line = (&'static str, String, String);

/// Compares peers, columns, settings and training rows of two models.
pub(crate) fn differences(a: &Model, b: &Model) -> Vec<Line> {
    let parameters = [a, b].map(|model| model.sketch().parameters().clone());
    let mut lines: Vec<Line> = Vec::new();
    let mut compare = |what, one: String, other: String| {
        if one != other {
            lines.push((what, one, other));
        }
    };
    let origin = |model: &Model| {
        let of = |origin: &crate::model::origin::Origin| {
            format!("{} {}", origin.session, hex::encode(&origin.id[..8]))
        };
        model.origin().map_or_else(|| "unknown".into(), of)
    };
    compare("session", origin(a), origin(b));
    let date = |model: &Model| model.origin().map_or_else(|| "unknown".into(), |origin| origin.date());
    compare("written", date(a), date(b));
    let members = |model: &Model| -> BTreeSet<String> {
        model.origin().map(|origin| origin.members.iter().cloned().collect()).unwrap_or_default()
    };
    let (ours, theirs) = (members(a), members(b));
    let only = |some: &BTreeSet<String>, others: &BTreeSet<String>| {
        let names: Vec<_> = some.difference(others).cloned().collect();
        if names.is_empty() { "nobody else".to_owned() } else { format!("{} only here", names.join(", ")) }
    };
    compare("counted", only(&ours, &theirs), only(&theirs, &ours));
    let columns = |model: &Model| {
        if model.columns().is_empty() { "no names".to_owned() } else { model.columns().join(", ") }
    };
    compare("features", parameters[0].d.to_string(), parameters[1].d.to_string());
    compare("columns", columns(a), columns(b));
    compare("classes", a.classes().join(", "), b.classes().join(", "));
    let rows = |model: &Model| {
        let Some(rows) = model.class_rows() else { return "unknown: noise was added".to_owned() };
        let each = model.classes().iter().zip(rows).map(|(class, rows)| format!("{class} {rows}"));
        each.collect::<Vec<_>>().join(", ")
    };
    compare("learnt", rows(a), rows(b));
    let settings = |i: usize, model: &Model| {
        let p = &parameters[i];
        let (scaling, readout) = (p.scaling.name(), model.readout());
        let densified = if p.densify { ", densified" } else { "" };
        format!(
            "{scaling}{densified}, m {}, s {}, rho {}, {} {}",
            p.m, p.s, p.rho, readout.score, readout.gamma
        )
    };
    compare("settings", settings(0, a), settings(1, b));
    let sharpness = |model: &Model| match model.calibration() {
        Some(fitted) => format!("sharpness {}", fitted.sharpness()),
        None => "cautious: not fitted".to_owned(),
    };
    compare("calibration", sharpness(a), sharpness(b));
    let seed = |i: usize| hex::encode(&parameters[i].seed[..8]);
    compare("seed", seed(0), seed(1));
    let (one, other) = (a.counts().values(), b.counts().values());
    if parameters[0] == parameters[1] && one.len() == other.len() {
        let differ = one.iter().zip(other).filter(|(one, other)| one != other).count();
        compare(
            "counts",
            format!("{} in all", one.len()),
            if differ == 0 { format!("{} in all", one.len()) } else { format!("{differ} of them differ") },
        );
    }
    lines
}
