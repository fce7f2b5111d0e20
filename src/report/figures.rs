//! Quality of a model: the figures of a session's evaluation, and those of a model on some rows.

use flyswarm_learn::model::comparison::{Comparison, Sentence, Verdict, Whose};
use flyswarm_learn::model::figures::{Figures, Positive, Share};
use maud::{Markup, html};
use serde_json::Value;

use super::{pictures, text};
use crate::html::{cells, percent, table};

/// Figures of predicted rows in a receipt or in a peer's own figures.
pub(super) enum Held {
    /// Rows that were predicted in three ways.
    Compared(Box<Comparison>),
    /// Rows that were predicted by the result alone.
    Alone(Box<Figures>),
}

/// Reads the figures of a receipt or a peer's own figures, if they have this program's format.
pub(super) fn read(value: &Value) -> Option<Held> {
    let square = |figures: &Figures| {
        let classes = figures.per_class.len();
        figures.confusion.len() == classes && figures.confusion.iter().all(|row| row.len() == classes)
    };
    let only = value.as_object().is_some_and(|all| !all.contains_key("alone"));
    if only {
        let figures = serde_json::from_value(value["swarm"].clone()).ok().filter(square);
        return figures.map(|figures| Held::Alone(Box::new(figures)));
    }
    let found: Comparison = serde_json::from_value(value.clone()).ok()?;
    let all = square(&found.swarm) && square(&found.alone) && square(&found.neighbours);
    all.then(|| Held::Compared(Box::new(found)))
}

/// Formats a share as `93.2 % (90.1 to 95.4)`.
pub(crate) fn shown(share: Share) -> Markup {
    html! {
        (percent(share.value)) " "
        small { "(" (format!("{:.1} to {:.1}", 100.0 * share.low, 100.0 * share.high)) ")" }
    }
}

fn maybe(share: Option<Share>) -> Markup {
    share.map_or_else(|| html! { "none" }, shown)
}

/// Formats the interval of a share, in percent.
fn interval(share: Share) -> String {
    format!("95\u{a0}%: {:.1}\u{a0}to\u{a0}{:.1}", 100.0 * share.low, 100.0 * share.high)
}

/// Makes the figures of a receipt, or gives the reason why it has none.
pub(super) fn of_session(receipt: &Value) -> Markup {
    if receipt["evaluation"].is_object() {
        return pooled(&receipt["evaluation"], "Quality of the model");
    }
    let Some(note) = receipt["evaluation_note"].as_str() else { return html! {} };
    html! {
        section {
            h2 { "Quality of the result" }
            p {
                @for (at, part) in note.split('`').enumerate() {
                    @if at % 2 == 1 { code { (part) } } @else { (part) }
                }
            }
        }
    }
}

/// Makes the figures of the rows of all peers, under this title.
pub(crate) fn pooled(found: &Value, title: &str) -> Markup {
    let last = match found["learn_all"].as_bool() {
        Some(false) => "The final model is not trained on them either, but has another hash matrix.",
        _ => "The final model is trained on all rows, so it should be at least as good.",
    };
    let unscored = found["classes_not_scored"].as_array().map_or(&[][..], Vec::as_slice);
    let unscored = unscored.iter().map(text).collect::<Vec<_>>().join(", ");
    html! {
        section {
            h2 { (title) }
            @match read(&found["pooled"]) {
                Some(Held::Alone(figures)) => {
                    p {
                        "Of every peer's rows " (found["held_out_percent"].as_u64().unwrap_or(0))
                        " % were held out of training (" (figures.rows) " rows together); the result has never seen \
                         them. Only sums over all peers were opened."
                    }
                    (one(&figures, "held-out rows", "swarm"))
                }
                Some(Held::Compared(figures)) => {
                    p { strong { (figures.headline("held-out rows")) "." } }
                    p {
                        "Of every peer's rows " (found["held_out_percent"].as_u64().unwrap_or(0))
                        " % were held out (" (figures.swarm.rows) " rows together) and predicted in three ways: by a \
                         model of all peers' other rows (" b { "swarm" } "), by a model of the peer's own other rows ("
                        b { "alone" } "), and by its 5 nearest own rows (" b { "neighbours" } "). Only sums over all \
                         peers were opened. " (last)
                    }
                    (compared(&figures, Whose::Pool))
                }
                None if found["contradictory"] == true => {
                    p.verdict.bad {
                        "The opened figures contradict each other: some peer has added figures that \
                         cannot come from rows. The model does not depend on them."
                    }
                }
                None if found["pooled"].is_object() => {
                    p { "The figures of the receipt were written by another version of this program." }
                }
                None => { p { "No peer held out rows that could be scored." } }
            }
            @if !unscored.is_empty() {
                p { "Classes without a score, because too few peers held out rows of them: " (unscored) "." }
            }
        }
    }
}

/// Makes a peer's own figures.
pub(super) fn own(found: &Held) -> Markup {
    match found {
        Held::Compared(found) => compared(found, Whose::Peer),
        Held::Alone(figures) => one(figures, "its own held-out rows", "swarm"),
    }
}

/// Makes a comparison of three ways to predict the same rows.
pub(super) fn compared(found: &Comparison, whose: Whose) -> Markup {
    let Comparison { swarm, alone, neighbours, .. } = found;
    let recalls = swarm.per_class.iter().zip(&alone.per_class).zip(&neighbours.per_class);
    html! {
        div.cards {
            @for (name, class, figures) in
                [("swarm", "s0", swarm), ("alone", "s1", alone), ("neighbours", "s2", neighbours)]
            {
                div.card.(class) {
                    span { (name) }
                    strong { (percent(figures.balanced_accuracy.value)) }
                    small {
                        "balanced accuracy; " (interval(figures.balanced_accuracy)) br;
                        "accuracy " (percent(figures.accuracy.value)) "; " (interval(figures.accuracy))
                    }
                }
            }
            (majority(swarm))
        }
        @for sentence in found.sentences(whose) { (verdict(&sentence)) }
        h3 { "Recall by class" }
        (pictures::classes(swarm, alone, neighbours))
        (table(
            "Right among the rows of each class (recall), with 95 % intervals",
            &["class", "rows", "swarm", "alone", "neighbours"],
            recalls.map(|((s, a), n)| {
                cells![s.class, s.rows, maybe(s.recall), maybe(a.recall), maybe(n.recall)]
            }),
        ))
        (details(swarm))
    }
}

/// Makes the figures of always predicting the largest class.
fn majority(figures: &Figures) -> Markup {
    let majority = &figures.majority;
    html! {
        div.card {
            span { "always " (majority.class) }
            strong { (percent(majority.balanced_accuracy)) }
            small { "balanced accuracy" br; "accuracy " (percent(majority.accuracy)) }
        }
    }
}

fn verdict(Sentence { verdict, text, .. }: &Sentence) -> Markup {
    let class = match verdict {
        Verdict::Better => "verdict good",
        Verdict::Worse => "verdict bad",
        Verdict::Unclear | Verdict::TooFew => "verdict",
    };
    html! { p class=(class) { (text) } }
}

/// Makes the figures of one model on rows with the name `rows`; `subject` predicts.
pub(super) fn one(figures: &Figures, rows: &str, subject: &str) -> Markup {
    html! {
        p { strong { (figures.headline(rows)) "." } }
        div.cards {
            @for (name, share) in
                [("balanced accuracy", figures.balanced_accuracy), ("accuracy", figures.accuracy)]
            {
                div.card.s0 { span { (name) } strong { (percent(share.value)) } small { (interval(share)) } }
            }
            (majority(figures))
        }
        (verdict(&figures.against_majority(subject)))
        (table(
            "Recall of each class, with 95 % intervals",
            &["class", "rows", "recall"],
            figures.per_class.iter().map(|each| cells![each.class, each.rows, maybe(each.recall)]),
        ))
        (details(figures))
    }
}

/// Makes the figures of two classes, with the terms of the field.
fn positive(positive: &Positive) -> Markup {
    let caption = format!("The positive class is {}; 95 % intervals", positive.class);
    let rows = positive.named().map(|(name, share)| cells![name, maybe(share)]);
    table(&caption, &["figure", "share"], rows)
}

/// Makes precision, AUC, confusion matrix and calibration of one model.
fn details(figures: &Figures) -> Markup {
    html! {
        @if let Some(two) = &figures.positive { (positive(two)) }
        (table(
            "Right among the rows predicted as each class (precision), with 95 % intervals",
            &["class", "precision"],
            figures.per_class.iter().map(|each| cells![each.class, maybe(each.precision)]),
        ))
        @if let (Some(Share { value, low, high }), Some(second)) = (figures.auc, figures.per_class.get(1)) {
            p {
                "Area under the curve (AUC): " (format!("{value:.3} (95 %: {low:.3} to {high:.3})"))
                ": how often the model gives a row of " (second.class) " a higher score for " (second.class)
                " than a row of the other class at the same peer."
            }
        }
        h3 { "Confusion matrix" }
        (pictures::confusion(figures))
        @if let Some(bins) = figures.calibration.as_deref().filter(|bins| !bins.is_empty()) {
            h3 { "Calibration" }
            p {
                "The model states a probability for each prediction (`predict --scores` prints it). On \
                 the line, predictions are right as often as stated; below the line, the model is \
                 overconfident."
            }
            (pictures::calibration(bins))
            (table(
                "Calibration: how sure the model is, and how often it is right, with 95 % intervals",
                &["stated", "rows", "right"],
                bins.iter().map(|bin| cells![percent(bin.stated), bin.rows, shown(bin.right)]),
            ))
        }
    }
}
