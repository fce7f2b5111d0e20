//! Values that the seed fixes, and values that a peer computes from its rows: M, signs, scaling, hashes,
//! counts, scores.

use std::sync::Arc;

use bytes::Bytes;
use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::flynn::{Flynn, Plan};
use flyswarm::tasks::tune::Tune;
use flyswarm::tasks::{History, Task};
use flyswarm_data::Group;
use flyswarm_data::scaling;
use flyswarm_data::scaling::{ColumnSums, Moments, Scaler, Scaling};
use flyswarm_data::split::{folds, held_out};
use flyswarm_learn::model::bloom;
use flyswarm_learn::model::calibration::Calibration;
use flyswarm_learn::sketch::Parameters;
use flyswarm_learn::sketch::flyhash::FlyHash;
use flyswarm_sealed_sum::crypto::mask::Wide;
use serde_json::{Value, json};

use super::sessions::{EVALUATE, SMALL, TUNE, flynn_spec, small_text, toml};
use super::{bytes, hex};

/// Writes rows for a vector: binary32, little-endian, in hex.
fn floats(values: &[f32]) -> Value {
    hex(values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

fn doubles(values: &[f64]) -> Value {
    hex(values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
}

pub(crate) fn flynn() -> Value {
    let seed = bytes::<32>("coin");
    let classes: Vec<String> = vec!["cat".into(), "dog".into()];
    let values = vec![
        0.5, -1.25, 3.0, 2.0, 0.125, -1.0, 1.0, -1.0, 0.75, 0.0, 0.0, 0.0, 1e6, -3.5, 0.1, 0.3, 0.2, 0.1,
    ];
    let data = Dataset::new(3, values.clone(), vec![0, 1, 1, 0, 1, 0], classes.clone()).unwrap();
    let mut cases = Vec::new();
    for (scaling, densify, m, s, rho, score) in [
        ("\"none\"", false, 16, 2, 3, "decay"),
        ("\"unit-norm\"", false, 16, 3, 1, "log"),
        ("{ range = { lo = -1.5, hi = 2.5 } }", false, 16, 2, 16, "decay"),
        ("\"center\"", true, 40, 4, 5, "balanced-decay"),
        ("\"standard\"", true, 40, 3, 5, "decay"),
        ("{ soft-bins = { bins = 2 } }", false, 40, 2, 5, "balanced-log"),
        ("{ soft-bins = { bins = 5 } }", true, 40, 3, 5, "decay"),
    ] {
        let text = small_text(3)
            .replacen("scaling = \"standard\"", &format!("scaling = {scaling}\ndensify = {densify}"), 1)
            .replacen("m = 16\ns = 2\nrho = 3", &format!("m = {m}\ns = {s}\nrho = {rho}"), 1)
            .replacen("gamma = 0.5", &format!("gamma = 0.7\nscore = \"{score}\""), 1);
        let session = Session::parse(&text).unwrap();
        let rules = Plan::new(session.clone(), flynn_spec(&session));
        let needed = session.data.scaling.of_rows().needs_moments();
        let opened = session.data.opens_moments(needed);
        let moments = opened.map(|sums| sums.of(&data));
        let words = moments.map(|words| Wide::bytes(&words));
        let scaler = rules.scaler(words.as_deref()).unwrap();
        let hash = FlyHash::new(&rules.sketch(seed).unwrap());
        let mut scaled = vec![0.0; data.rows() * scaler.width()];
        for (row, out) in (0..data.rows()).zip(scaled.chunks_exact_mut(scaler.width())) {
            scaler.apply(data.row(row), out);
        }
        let winners = hash.winners(&scaler, &data, 0..data.rows()).unwrap();
        let counts = bloom::fit(&hash, &scaler, &data, 2).unwrap();
        let model = rules.pooled(&data, seed).unwrap();
        assert_eq!(model.counts(), &counts);
        let predictor = model.predictor();
        cases.push(json!({
            "toml": text,
            "moments": words.map(hex),
            "matrix": hash.matrix().map(<[u32]>::to_vec).collect::<Vec<_>>(),
            "scaled": floats(&scaled),
            "winners": winners.chunks_exact(rho).map(<[u32]>::to_vec).collect::<Vec<_>>(),
            "counts": hex(counts.to_le_bytes()),
            "scores": doubles(&predictor.scores(&data).unwrap()),
            "predicted": predictor.predict(&data).unwrap(),
        }));
    }
    // The largest values, ordinary ones, and some below the resolution, next to each other.
    let mixed = [
        2f32.powi(80).next_down(),
        7.25,
        3e-13,
        -1e23,
        -0.1,
        2f32.powi(-41),
        6e-12,
        1e-3,
        -4e-12,
        0.0,
        2e5,
        1e-45,
    ];
    let mixed = Dataset::new(3, mixed.into(), Vec::new(), Vec::new()).unwrap();
    let moments = [false, true].map(|squares| {
        let words = scaling::moments(&mixed, squares);
        let scaling = if squares { Scaling::Standard } else { Scaling::Center };
        let scaler = Scaler::new(&scaling, 3, Some(&Moments::from_words(&words, 3).unwrap())).unwrap();
        json!({
            "features": 3,
            "squares": squares,
            "rows": floats(mixed.values()),
            "words": hex(Wide::bytes(&words)),
            "means": doubles(scaler.means()),
            "deviations": doubles(scaler.deviations()),
        })
    });
    // Enough rows for typical rows, with codes (-999) among them.
    let many = (0u8..90).map(|at| if at % 13 == 0 { -999.0 } else { f32::from(at) * 7.3 % 19.0 });
    let many = Dataset::new(2, many.collect(), Vec::new(), Vec::new()).unwrap();
    let compared = json!({
        "features": 2,
        "rows": floats(many.values()),
        "words": hex(Wide::bytes(&ColumnSums::Compared.of(&many))),
    });
    let good = scaling::moments(&Dataset::new(1, vec![1.0, 2.0, 4.0], Vec::new(), Vec::new()).unwrap(), true);
    let power = |bits: usize| {
        let mut bytes = [0; 64];
        bytes[bits / 8] = 1 << (bits % 8);
        Wide::from_le_bytes(bytes)
    };
    let minus = |word: Wide| Wide::default().wrapping_sub(word);
    // A sum of three rows is at most 3 2^120, and one of squares at most 3 2^240.
    let changes = [
        (0, Wide::default()),
        (0, power(23)),
        (0, power(64)),
        (0, minus(power(0))),
        (1, power(122)),
        (1, minus(power(122))),
        (2, power(242)),
        (2, power(511)),
        (2, Wide::default()),
    ];
    let mut refused: Vec<_> = changes
        .iter()
        .map(|&(at, word)| {
            let mut words = good.clone();
            words[at] = word;
            words
        })
        .collect();
    refused.push([good.clone(), vec![Wide::default()]].concat());
    assert!(refused.iter().all(|words| Moments::from_words(words, 1).is_err()));
    // A larger matrix, given by the digest of its columns as u32 words.
    let large = Parameters { d: 784, m: 2000, s: 19, rho: 16, seed, densify: false, scaling: Scaling::None };
    let columns: Vec<u8> = FlyHash::new(&large.check(2).unwrap())
        .matrix()
        .flatten()
        .flat_map(|column| column.to_le_bytes())
        .collect();
    json!({
        "about": "the task flynn: matrix, scaling, winners, counts, scores (spec, section 15)",
        "seed": hex(seed),
        "rows": floats(&values),
        "labels": data.labels(),
        "cases": cases,
        "moments": moments,
        "compared": compared,
        "refused_moments": refused.iter().map(|words| hex(Wide::bytes(words))).collect::<Vec<_>>(),
        "large": { "d": 784, "m": 2000, "s": 19, "sha256": hex(<[u8; 32]>::from(sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), &columns)))) },
    })
}

/// Returns one peer's vectors of every slot with held-out rows, as if the sums were its own alone. Also
/// names the held-out rows.
pub(crate) fn evaluate() -> Value {
    let two = format!("{SMALL}[evaluate]\n[privacy]\nmin_contributors = 1\n");
    // The last of three classes has one row.
    let many =
        format!("{SMALL}[evaluate]\nheld_out = 50\npositive = \"dog\"\n[privacy]\nmin_contributors = 1\n");
    // The third case has enough held-out rows for a calibration, bins and ranks.
    let cases = [(EVALUATE, 3, 30), (&two, 2, 30), (&many, 2, 90)].map(|(head, classes, rows)| {
        let label = |i: u16| if i == 29 { classes - 1 } else { i % 2 };
        evaluation(&toml(head, 3), (0..rows).map(label).collect(), None)
    });
    let label = |i: u16| if i == 29 { 2 } else { i % 5 / 3 };
    let visit = |i: u16| format!("{}{}", i % 11, if i < 11 { "" } else { ".0" });
    let grouped =
        evaluation(&toml(EVALUATE, 3), (0..30).map(label).collect(), Some((0..30).map(visit).collect()));
    json!({
        "about": "the task flynn with rows held out: one peer's vectors (spec, section 15.4); rows are binary32, \
                  little-endian; groups are the texts of the group column",
        "cases": cases.into_iter().chain([grouped]).collect::<Vec<_>>(),
    })
}

fn evaluation(text: &str, labels: Vec<u16>, groups: Option<Vec<String>>) -> Value {
    let session = Session::parse(text).unwrap();
    let count = 3 * labels.len() as u32;
    let values: Vec<f32> = (0..count).map(|i| ((i * i * 7 + i) % 83) as f32 / 8.0 - 2.0).collect();
    // Rows 4 and 5 are equal.
    let values = [&values[..15], &values[12..15], &values[18..]].concat();
    let mut data = Dataset::new(3, values.clone(), labels.clone(), session.data.classes.clone()).unwrap();
    if let Some(groups) = &groups {
        data = data.with_groups(groups.iter().map(|text| Group::of(text)).collect()).unwrap();
    }
    let spec = flynn_spec(&session);
    let task = Flynn::new(session.clone(), spec, Peer(0), Arc::new(data.clone()), &[0; 32]).unwrap();
    let seed = bytes::<32>("coin");
    let mut opened = vec![Bytes::copy_from_slice(&seed)];
    for slot in 1..task.plan().len() {
        opened.push(task.contribution(slot as u32, &History::of_vectors(&opened)).unwrap());
        task.check(slot as u32, &History::of_vectors(&opened)).unwrap();
    }
    let rules = spec.evaluate.unwrap();
    let model = Plan::new(session, spec).model(&opened).unwrap();
    let mut case = json!({
        "toml": text,
        "rows": floats(&values),
        "labels": labels,
        "held_out": held_out(&data, rules.held_out.into(), rules.most as usize, &seed).test,
        "opened": opened.iter().map(hex).collect::<Vec<_>>(),
        "calibration": model.calibration().map(Calibration::number),
    });
    if let Some(groups) = groups {
        case["groups"] = json!(groups);
    }
    case
}

/// Returns one peer's vectors of every slot, as if the sums were its own alone, and the fold of each
/// row.
pub(crate) fn tune() -> Value {
    let text = toml(TUNE, 3);
    let session = Session::parse(&text).unwrap();
    let values: Vec<f32> = (0..36).map(|i| ((i * i * 7 + i) % 41) as f32 / 8.0 - 2.0).collect();
    let data =
        Dataset::new(3, values.clone(), (0..12).map(|i| i % 2).collect(), session.data.classes.clone())
            .unwrap();
    let Some(spec) = session.task.get::<flyswarm::tasks::TuneSpec>().cloned() else {
        panic!("{:?}", session.task)
    };
    let task = Tune::new(session, &spec, Arc::new(data.clone())).unwrap();
    let seed = bytes::<32>("coin");
    let mut opened = vec![Bytes::copy_from_slice(&seed)];
    for slot in 1..task.plan().len() {
        opened.push(task.contribution(slot as u32, &History::of_vectors(&opened)).unwrap());
        task.check(slot as u32, &History::of_vectors(&opened))
            .map_or_else(|error| assert_eq!(slot, 1, "{error}"), drop);
    }
    let splits = folds(&data, 2, &seed);
    json!({
        "about": "the task tune: one peer's vectors (spec, section 15a); rows are binary32, little-endian",
        "toml": text,
        "rows": floats(&values),
        "labels": data.labels(),
        "folds": (0..data.rows()).map(|row| splits.iter().position(|split| split.test.contains(&row))).collect::<Vec<_>>(),
        "opened": opened.iter().map(hex).collect::<Vec<_>>(),
    })
}
