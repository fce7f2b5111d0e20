//! The demo of the task `sketch`: peers with class mixes of their own learn how far each lies from all.

use std::fs;

use serde_json::{Value, json};

use crate::data::deal;
use crate::data::digits::digits;
use crate::model::heterogeneity::{spearman, total_variation};
use crate::session::{Privacy, Scaling, Session, TaskSpec};
use crate::tasks::SketchSpec;
use crate::tasks::demo::{ALPHAS, CHOSEN, Ended, Part, Scene, Verdict, Wish, line};
use crate::tasks::sketch::PRIVATE;

/// Deals class mixes, from skewed to even; the peers get no labels.
pub(crate) fn scene(wish: &mut Wish) -> Result<Scene, String> {
    let noise = wish.noise.take();
    let data = digits();
    let dealt = deal::mixes(data.labels(), data.classes().len(), wish.peers.unwrap_or(7), ALPHAS, &wish.seed);
    let usual = SketchSpec::default();
    let noisy = noise.is_some();
    let (rows, range) = if noisy { PRIVATE } else { (usual.rows, usual.range) };
    let part = |rows: &Vec<usize>| Part { rows: data.subset(rows), labels: Vec::new() };
    Ok(Scene {
        task: TaskSpec::from(SketchSpec { rows, range, open_distances: true, chosen: CHOSEN, ..usual }),
        scaling: if noisy { Scaling::UnitNorm } else { Scaling::Center },
        privacy: Privacy { noise, ..Privacy::default() },
        parts: dealt.map_err(line)?.iter().map(part).collect(),
        judge: Box::new(judge),
    })
}

/// Compares distances with the total variation of the class mixes.
fn judge(session: &Session, ended: &[Ended]) -> Result<Verdict, String> {
    let classes = ended.first().map_or(0, |ended| ended.part.rows.classes().len());
    let counts: Vec<Vec<u64>> = ended.iter().map(|ended| ended.part.rows.class_counts(classes)).collect();
    let all: Vec<u64> = (0..classes).map(|class| counts.iter().map(|counts| counts[class]).sum()).collect();
    let (mut peers, mut cells, mut pairs, mut equal) = (Vec::new(), Vec::new(), Vec::new(), true);
    let mut first: Option<Value> = None;
    for (ended, counts) in ended.iter().zip(&counts) {
        let text = fs::read_to_string(&ended.file).map_err(line)?;
        let mut found: Value = serde_json::from_str(&text).map_err(line)?;
        // All but its own distance is the same at every peer, and that is what it has published.
        let own = found["distance"].take();
        let number = |name: &str| own[name].as_f64().unwrap_or(f64::NAN);
        let published = found["published"][&ended.name].as_f64();
        equal &= published.is_some_and(|published| (published - number("row_mean")).abs() < 1e-9);
        equal &= *first.get_or_insert_with(|| found.clone()) == found;
        let variation = total_variation(counts, &all);
        pairs.push((own["row_mean"].as_f64().unwrap_or_default(), variation));
        cells.push(vec![
            format!("{:.4}", number("row_mean")),
            format!("{:.3}", number("plain")),
            format!("{variation:.3}"),
        ]);
        peers.push(json!({"distance": own, "total_variation": variation}));
    }
    let epsilon = session.privacy.noise.map(|noise| noise.epsilon.to_f64());
    let chosen = first.map_or(Value::Null, |found| found["selection"]["chosen"].clone());
    let names: Vec<_> = chosen.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut notes: Vec<_> = epsilon
        .map(|epsilon| format!("Every one of them has noise: epsilon = {epsilon}."))
        .into_iter()
        .collect();
    let rank = spearman(&pairs);
    notes.push(format!(
        "Distances rank the peers as the total variation of their class mixes does: Spearman {:.3}.",
        rank.unwrap_or(f64::NAN)
    ));
    notes.push(format!("Drawn, the nearer the likelier: {}.", names.join(", ")));
    Ok(Verdict {
        equal,
        says: match equal {
            true => "Every peer has the same global sketch, the same published distances and the same draw."
                .into(),
            false => "the peers have not all opened the same".into(),
        },
        members: None,
        fields: json!({"epsilon": epsilon, "spearman": rank, "chosen": chosen}),
        peers,
        heads: &["distance (mean)", "(plain)", "total variation"],
        cells,
        notes,
    })
}
