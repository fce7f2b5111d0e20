//! The task `glm`: words of three owners for the check, the sums of every round, and the coefficients.

use flyswarm::data::Dataset;
use flyswarm::session::Session;
use flyswarm::tasks::glm::internals;
use flyswarm_glm::{Next, Round};
use flyswarm_sealed_sum::crypto::stream::Stream;
use serde_json::{Value, json};

use super::sessions::toml;

const TABLE: &str = concat!(
    head!("glm"),
    "scaling = \"none\"\n[table]\n",
    column!("arm", "category", r#"levels = ["a", "b", "c"]"#),
    column!("sex", "category", r#"levels = ["f", "m"]"#, r#"fill = """#),
    column!("stage", "ordinal", r#"levels = ["1", "2", "3"]"#),
    column!("age", "number", "fill = 50.0", "indicator = true"),
    column!("died", "category", r#"levels = ["yes", "no"]"#),
    column!("visits", "number"),
    column!("weight", "number"),
    "[privacy]\nmin_contributors = 2\n",
);

const LOGISTIC: &str = r#"[glm]
family = "logistic"
outcome = "died"
event = "yes"
terms = ["arm", "stage", "age", "sex:age"]
reference = { arm = "b" }
grid = 0.1
robust = true
compute = ["peer-2", "peer-0", "peer-3"]
"#;

const POISSON: &str = r#"[glm]
family = "poisson"
outcome = "visits"
terms = ["arm", "age", "arm:sex"]
offset = "weight"
grids = { weight = 0.25 }
level = 0.9
rounds = 40
threshold = 12
rest = 2
cheaters = "trusted"
"#;

const LINEAR: &str = r#"[glm]
outcome = "age"
terms = ["sex", "visits", "stage"]
weights = "weight"
grid = 0.25
grids = { visits = 1.0 }
robust = true
"#;

/// Returns the three sessions.
pub(crate) fn heads() -> [String; 3] {
    [LOGISTIC, POISSON, LINEAR].map(|glm| format!("{TABLE}{glm}"))
}

/// Session without a table.
pub(crate) const PLAIN: &str = concat!(
    head!("glm"),
    r#"features = 2
columns = ["height", "a:b"]
[glm]
outcome = "height"
"#,
);

/// Returns random rows of the columns of `TABLE`.
fn rows(owner: u8) -> Vec<f32> {
    let mut stream = Stream::new(b"flyswarm test vectors", "rows of a regression", &[owner]);
    let mut rows = Vec::new();
    for _ in 0..24 + 5 * owner {
        let (arm, sex, stage) = (stream.below(3), stream.below(9) / 4, stream.below(3));
        rows.extend([arm == 0, arm == 1, arm == 2, sex == 0, sex == 1].map(|bit| f32::from(u8::from(bit))));
        let (age, missing) = (stream.below(900) as f32 / 10.0 - 5.0, stream.below(10) == 0);
        rows.extend([stage as f32, if missing { 50.0 } else { age }, f32::from(u8::from(missing))]);
        let died = stream.below(100) < 30 + 10 * stage;
        rows.extend([died, !died].map(|bit| f32::from(u8::from(bit))));
        rows.extend([stream.below(80) as f32 * (stream.below(2) as f32), (1 + stream.below(9)) as f32 / 4.0]);
    }
    rows
}

pub(crate) fn glm() -> Value {
    let data = |owner| Dataset::new(12, rows(owner), Vec::new(), Vec::new()).unwrap();
    let cases = heads().map(|head| {
        let text = toml(&head, 4);
        let session = Session::parse(&text).unwrap();
        let (rule, model) = internals::of(&session).unwrap();
        let words: Vec<_> = (0..3).map(|owner| internals::words(&session, &data(owner)).unwrap()).collect();
        assert!(words.iter().all(|words| words.len() == rule.words()));
        let pooled =
            (0..rule.words()).map(|at| words.iter().fold(0u64, |sum, own| sum.wrapping_add(own[at])));
        let checked = internals::checked(&session, &pooled.collect::<Vec<_>>()).unwrap();
        let (mut opened, mut rounds) = (Vec::new(), Vec::new());
        let fit = loop {
            match model.next(&opened) {
                Next::Failed(error) => panic!("{error}"),
                Next::Done(fit) => break fit,
                Next::Round(round) => {
                    let mut totals = internals::sums(&session, &round, &data(0)).unwrap();
                    let first = totals.to_words();
                    (1..3).for_each(|owner| {
                        totals.add(&internals::sums(&session, &round, &data(owner)).unwrap())
                    });
                    let (coefficients, shift) = match &round {
                        Round::First => (None, None),
                        Round::At(coefficients) => (Some(coefficients), None),
                        Round::Sandwich(coefficients, shift) => (Some(coefficients), Some(shift)),
                    };
                    // The words of the first owner, and of the sum of three.
                    rounds.push(json!({
                        "coefficients": coefficients, "shift": shift,
                        "words": first, "sum": totals.to_words(),
                    }));
                    opened.push(totals);
                }
            }
        };
        internals::agree(&session, &checked, &opened[0]).unwrap();
        let coefficients: Vec<_> = fit.coefficients.iter().map(|each| each.estimate).collect();
        let names: Vec<_> = fit.coefficients.iter().map(|each| &each.name).collect();
        json!({
            "toml": text, "words": words, "cells": rule.cells(), "measures": rule.measures,
            "checked": checked, "rounds": rounds, "names": names, "estimates": coefficients,
        })
    });
    let rows: Vec<Vec<Vec<f32>>> =
        (0..3).map(|owner| rows(owner).chunks(12).map(<[f32]>::to_vec).collect()).collect();
    json!({"rows": rows, "cases": cases})
}
