//! The demo of the tasks `fedavg` and `fedavg-xclp`: peers with parts of the digits train one network in
//! rounds. With `fedavg-xclp` few rows have labels, and the networks that it is compared with learn from
//! these alone.

use flyswarm_learn::learner::{Architecture, Classifier};
use serde_json::{Value, json};

use crate::data::digits::digits;
use crate::data::split::train_test;
use crate::data::{Dataset, deal};
use crate::session::{Privacy, Scaling, Session, TaskSpec};
use crate::tasks::demo::{Ended, HOLDERS, Scene, TEST_PERCENT, Verdict, Wish, line, percent};
use crate::tasks::fedavg::Plan;
use crate::tasks::xclp::demo::{known_labels, partly};
use crate::tasks::{FedavgSpec, FedavgXclpSpec};

/// Splits and deals the digits.
pub(crate) fn scene(wish: &mut Wish) -> Result<Scene, String> {
    rounds(wish, false)
}

/// The same of which few rows have labels, if `few`.
pub(crate) fn rounds(wish: &Wish, few: bool) -> Result<Scene, String> {
    let data = digits();
    let split = train_test(data.labels(), TEST_PERCENT, &wish.seed);
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    let dealt =
        deal::by_classes(train.labels(), train.classes().len(), wish.peers.unwrap_or(5), HOLDERS, &wish.seed);
    let known = if few { known_labels(&train, &wish.seed) } else { vec![true; train.rows()] };
    let spec = FedavgSpec {
        network: Architecture::Perceptron { hidden: vec![32] },
        epochs: 2,
        // A pass over ten labels is one batch: too little for a round.
        steps: if few { 30 } else { 0 },
        batch: 16,
        // A peer may have no label to hold out.
        held_out: if few { 0 } else { 10 },
        ..FedavgSpec::default()
    };
    let labelled: Vec<usize> = (0..train.rows()).filter(|&row| known[row]).collect();
    let pooled = train.subset(&labelled);
    Ok(Scene {
        task: match few {
            true => TaskSpec::from(FedavgXclpSpec { refresh: 5, ..FedavgXclpSpec::new(spec.clone()) }),
            false => TaskSpec::from(spec.clone()),
        },
        scaling: Scaling::Range { lo: 0.0, hi: 16.0 },
        // Of few labels a class may have one holder: then nothing could be learnt of it.
        privacy: if few { Privacy { min_contributors: 1, ..Privacy::default() } } else { Privacy::default() },
        parts: dealt.map_err(line)?.iter().map(|rows| partly(&train, rows, &known)).collect(),
        judge: Box::new(move |session, ended| judge(spec, &pooled, &test, session, ended)),
    })
}

/// Reads every peer's network back, and trains the same one in other places.
fn judge(
    spec: FedavgSpec,
    pooled: &Dataset,
    test: &Dataset,
    session: &Session,
    ended: &[Ended],
) -> Result<Verdict, String> {
    let plan = Plan::new(session.clone(), spec).map_err(line)?;
    let accuracy = |network: &Classifier| -> Result<f64, String> {
        let said = network.predict(test.view()).map_err(line)?;
        let right = said.iter().zip(test.labels()).filter(|(said, label)| said == label).count();
        Ok(right as f64 / test.rows().max(1) as f64)
    };
    let curve = |rows: &Dataset| -> Result<Vec<f64>, String> {
        if rows.rows() == 0 {
            return Ok(Vec::new());
        }
        plan.in_one_place(rows, &[0; 32]).map_err(line)?.iter().map(accuracy).collect()
    };
    let (mut peers, mut cells, mut digests, mut ours) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for ended in ended {
        let network = Classifier::load(&ended.file).map_err(line)?;
        let known: Vec<usize> =
            (0..ended.part.labels.len()).filter(|&row| ended.part.labels[row].is_some()).collect();
        let alone = curve(&ended.part.rows.subset(&known))?.last().copied();
        ours = accuracy(&network)?;
        let digest = hex::encode(network.digest());
        cells.push(vec![
            known.len().to_string(),
            digest.chars().take(16).collect(),
            percent(ours),
            alone.map_or("-".into(), percent),
        ]);
        peers.push(json!({"digest": digest, "accuracy": ours, "alone": alone, "labels": known.len()}));
        digests.push(digest);
    }
    let equal = digests.windows(2).all(|pair| pair[0] == pair[1]) && !digests.is_empty();
    let one_place = curve(pooled)?;
    let rounds = ended.first().map_or(Value::Null, |ended| ended.receipt["rounds"].clone());
    let mut notes = vec![
        "Round: loss, right of the rows held out before, right of the test rows in one place".to_owned(),
    ];
    for ((at, round), right) in (1..).zip(rounds.as_array().into_iter().flatten()).zip(&one_place) {
        let held = round["held_out_accuracy"].as_f64().map_or("-".into(), percent);
        let loss = round["loss"].as_f64().unwrap_or_default();
        notes.push(format!("  {at:>3}: {loss:.3} {held:>7} {:>7}", percent(*right)));
    }
    notes.push(format!(
        "\nOn the {} test rows: {} together, {} by the same network on all {} rows with labels in one place.",
        test.rows(),
        percent(ours),
        percent(one_place.last().copied().unwrap_or_default()),
        pooled.rows()
    ));
    let rows: usize = ended.iter().map(|ended| ended.part.rows.rows()).sum();
    Ok(Verdict {
        equal,
        says: match equal {
            true => "All peers have the same network, bit for bit.".into(),
            false => "the peers' networks are not all equal".into(),
        },
        members: None,
        fields: json!({
            "accuracy": ours,
            "pooled": one_place,
            "rounds": rounds,
            "rows": {"train": rows, "test": test.rows()},
            "labels": pooled.rows(),
        }),
        peers,
        heads: &["labels", "network", "together", "alone"],
        cells,
        notes,
    })
}
