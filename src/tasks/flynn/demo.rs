//! The demo of the task `flynn`: peers with parts of the digits train one classifier.

use serde_json::json;

use crate::data::digits::digits;
use crate::data::split::train_test;
use crate::data::{Dataset, deal};
use crate::model::Model;
use crate::model::neighbours::Neighbours;
use crate::model::score::Confusion;
use crate::session::{NoiseSpec, Privacy, Scaling, Score, Session, TaskSpec};
use crate::tasks::demo::{
    ALPHAS, CHOSEN, Ended, HOLDERS, Part, Scene, TEST_PERCENT, Verdict, Wish, drawn, line, percent, together,
};
use crate::tasks::flynn::Plan;
use crate::tasks::{EvaluateSpec, FlynnSpec, ModelSpec, SketchSpec};

/// Counts of a noisy model if the user does not say.
const TOP: u32 = 100;
/// m = 128 d, s = 0.3 d, rho = 64: among the best of our trials.
const PLAIN: ModelSpec = ModelSpec { m: 8192, s: 19, rho: 64, gamma: 0.5, score: Score::Decay };
/// With noise: fewer bits, so that each count is of more rows, and fewer of them set by a row, so that one
/// row weighs less.
const PRIVATE: ModelSpec = ModelSpec { m: 256, s: 19, rho: 8, gamma: 0.9, score: Score::Decay };

/// Splits and deals the digits: in equal parts, or with a class mix for each peer if some are drawn.
pub(crate) fn scene(wish: &mut Wish) -> Result<Scene, String> {
    let selects = wish.select.take().is_some();
    let peers = wish.peers.unwrap_or(if selects { 7 } else { 5 });
    let noise = wish
        .noise
        .take()
        .map(|noise| NoiseSpec { top: if noise.top == 0 { TOP } else { noise.top }, ..noise });
    let data = digits();
    let split = train_test(data.labels(), TEST_PERCENT, &wish.seed);
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    let (labels, classes) = (train.labels(), train.classes().len());
    let dealt = match selects {
        false => deal::by_classes(labels, classes, peers, HOLDERS, &wish.seed),
        true => deal::mixes(labels, classes, peers, ALPHAS, &wish.seed),
    };
    let parts = dealt.map_err(line)?.iter().map(|rows| Part::labelled(train.subset(rows))).collect();
    let sketch = SketchSpec { open_distances: true, chosen: CHOSEN, ..SketchSpec::default() };
    let noisy = noise.is_some();
    let spec = FlynnSpec {
        model: if noisy { PRIVATE } else { PLAIN },
        select: selects.then_some(sketch),
        evaluate: (!noisy && !selects).then(EvaluateSpec::default),
    };
    // Three peers with class mixes of their own rarely share every class.
    let min_contributors = if selects { 1 } else { Privacy::default().min_contributors };
    Ok(Scene {
        task: TaskSpec::from(spec),
        scaling: if noisy { Scaling::Range { lo: 0.0, hi: 16.0 } } else { Scaling::Center },
        privacy: Privacy { noise, min_contributors, ..Privacy::default() },
        parts,
        judge: Box::new(move |session, ended| judge(spec, &train, &test, session, ended)),
    })
}

/// Reads every peer's model back and compares it with the one of the pooled rows.
fn judge(
    spec: FlynnSpec,
    train: &Dataset,
    test: &Dataset,
    session: &Session,
    ended: &[Ended],
) -> Result<Verdict, String> {
    let score = |predicted: &[u16]| Confusion::new(test.classes(), test.labels(), predicted).accuracy();
    let accuracy = |model: &Model| model.predictor().predict(test).map(|said| score(&said)).map_err(line);
    let models: Vec<Model> =
        ended.iter().map(|ended| Model::load(&ended.file).map_err(line)).collect::<Result<_, _>>()?;
    let first = models.first().ok_or("no peer has a model")?;
    let seed = first.sketch().parameters().seed;
    let rules = Plan::new(session.clone(), spec);
    let model_of = |rows: &Dataset| rules.pooled(rows, seed).map_err(line);
    let all = model_of(train)?;
    let drawn = drawn(ended);
    let learnt: Vec<&Dataset> =
        ended.iter().filter(|ended| drawn.contains(&ended.name)).map(|ended| &ended.part.rows).collect();
    let pooled = match &learnt[..] {
        [] => all.clone(),
        // Means and variances are those of all rows.
        parts => rules.scaled(&together(parts)?, seed, first.scaler().clone()).map_err(line)?,
    };
    let parts: Vec<&Dataset> = ended.iter().map(|ended| &ended.part.rows).collect();
    let calibration = rules.pooled_calibration(&parts, seed, first.scaler().clone()).map_err(line)?;
    let pooled = pooled.with_calibration(calibration);
    let largest = ended.iter().map(|ended| &ended.part.rows).max_by_key(|part| part.rows()).unwrap_or(train);
    let alone = accuracy(&model_of(largest)?)?;
    let neighbours = Neighbours::new(train).ok_or("no rows")?;
    let k = neighbours.tune().k;
    let nearest = |k| score(&neighbours.predict(k, test));
    let (mut peers, mut cells, mut digests) = (Vec::new(), Vec::new(), Vec::new());
    for (ended, model) in ended.iter().zip(&models) {
        let (digest, part) = (hex::encode(model.digest()), accuracy(model)?);
        peers.push(
            json!({"digest": digest, "accuracy": part, "own_rows": ended.receipt["own_rows"]["included"]}),
        );
        cells.push(vec![digest.chars().take(16).collect(), percent(part)]);
        digests.push(model.digest());
    }
    let noise = session.privacy.noise;
    let equal = match noise {
        None => digests.iter().all(|digest| *digest == pooled.digest()),
        Some(_) => digests.windows(2).all(|pair| pair[0] == pair[1]),
    };
    let says = match (equal, noise.is_none()) {
        (true, true) if !drawn.is_empty() => {
            "All models are equal to the one trained on the drawn peers' rows in one place, bit for bit."
        }
        (true, true) => "All models are equal to the one trained on the pooled rows, bit for bit.",
        (true, false) => "All models are equal, and have noise; the pooled one is the same without.",
        (false, true) => "the peers' models are not all equal to the pooled one",
        (false, false) => "the peers' models are not all equal to each other",
    };
    let learnt_rows =
        if learnt.is_empty() { train.rows() } else { learnt.iter().map(|part| part.rows()).sum() };
    let (one, best) = (nearest(1), nearest(k));
    let (pooled_accuracy, everybody) = (accuracy(&pooled)?, accuracy(&all)?);
    let note = |name: String, part: f64| format!("  {name:<44} {:>6}", percent(part));
    let mut notes = Vec::new();
    if !drawn.is_empty() {
        notes.push(format!("Drawn by the distances of their sketches: {}.", drawn.join(", ")));
    }
    notes.push(format!("For comparison, on the same {} held-out rows:", test.rows()));
    notes.push(note(format!("FlyNN on {learnt_rows} rows in one place"), pooled_accuracy));
    if !drawn.is_empty() {
        notes.push(note(format!("FlyNN on all {} rows", train.rows()), everybody));
    }
    notes.push(note(format!("FlyNN on the {} rows of one peer alone", largest.rows()), alone));
    notes.push(note("1NN on the pooled rows".into(), one));
    notes.push(note(format!("kNN on the pooled rows (tuned: k = {k})"), best));
    Ok(Verdict {
        equal,
        says: says.to_owned(),
        members: (!drawn.is_empty()).then(|| json!(drawn)),
        fields: json!({
            "pooled": {"digest": hex::encode(pooled.digest()), "accuracy": pooled_accuracy},
            "noise": noise,
            "chosen": drawn,
            "everybody": {"accuracy": everybody},
            "alone": {"accuracy": alone, "rows": largest.rows()},
            "nearest": {"accuracy": one},
            "knn": {"accuracy": best, "k": k},
            "rows": {"train": learnt_rows, "all": train.rows(), "test": test.rows()},
        }),
        peers,
        heads: &["model", "accuracy"],
        cells,
        notes,
    })
}
