//! Shows the quality of a model: the figures of a session's evaluation, or those of a model on some rows.

use flyswarm_learn::model::comparison::{Comparison, Sentence, Verdict, Whose};
use flyswarm_learn::model::figures::{Figures, Positive, Share};
use flyswarm_learn::model::ranks::FEWEST;
use maud::{Markup, html};
use serde_json::Value;

use super::roc::{self, Curve};
use super::{pictures, text};
use crate::html::{cells, folded, table, whole};

/// Figures of predicted rows in a receipt or in a peer's own figures.
pub(super) enum Held {
    /// Rows that were predicted in three ways.
    Compared(Box<Comparison>),
    /// Only the result has predicted these rows.
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

/// Formats a share as `93 % (90 to 95)`.
fn shown(share: Share) -> Markup {
    html! { (whole(share.value)) " " small { (interval(share)) } }
}

pub(super) fn maybe(share: Option<Share>) -> Markup {
    share.map_or_else(|| html! { "none" }, shown)
}

/// Formats the interval of a share: `90 to 95 %`.
fn interval(share: Share) -> String {
    format!(
        "{}\u{a0}to\u{a0}{}",
        whole(share.low).trim_end_matches(" %"),
        whole(share.high).replace(' ', "\u{a0}")
    )
}

/// Shows the figures of a receipt, or the reason why it has none.
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

/// Returns the names of the classes that an evaluation did not score.
pub(super) fn unscored(found: &Value) -> String {
    let unscored = found["classes_not_scored"].as_array().map_or(&[][..], Vec::as_slice);
    unscored.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Shows the figures of the rows of all peers, under this title.
pub(crate) fn pooled(found: &Value, title: &str) -> Markup {
    let last = match found["learn_all"].as_bool() {
        Some(false) => "The final model is not trained on them either, but has another hash matrix.",
        _ => "The final model is trained on all rows, so it should be at least as good.",
    };
    let unscored = unscored(found);
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
                    (one(&figures, "held-out rows", "swarm", None, false))
                }
                Some(Held::Compared(figures)) => {
                    p.lead { strong { (figures.headline("held-out rows")) "." } }
                    p {
                        "Of every peer's rows " (found["held_out_percent"].as_u64().unwrap_or(0))
                        " % were held out (" (figures.swarm.rows) " rows together) and predicted in three ways: by a \
                         model of all peers' other rows (" b { "swarm" } "), by a model of the peer's own other rows ("
                        b { "alone" } "), and by its 5 nearest own rows (" b { "neighbours" } "). Only sums over all \
                         peers were opened. " (last)
                    }
                    (compared(&figures, Whose::Pool, false))
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

/// Shows a peer's own figures.
pub(super) fn own(found: &Held) -> Markup {
    match found {
        Held::Compared(found) => compared(found, Whose::Peer, true),
        Held::Alone(figures) => one(figures, "its own held-out rows", "swarm", None, true),
    }
}

/// Shows a comparison of three ways to predict the same rows. If `fold` is true, the pictures are folded.
pub(super) fn compared(found: &Comparison, whose: Whose, fold: bool) -> Markup {
    let Comparison { swarm, alone, neighbours, .. } = found;
    let ways = [("swarm", swarm), ("alone", alone), ("neighbours", neighbours)];
    html! {
        div.cards {
            @for (k, (name, figures)) in ways.iter().enumerate() { (card(k, name, figures)) }
            (majority(swarm))
        }
        @for sentence in found.sentences(whose) { (verdict(&sentence)) }
        (evidence(&ways, None, fold))
    }
}

/// Shows the balanced accuracy and the accuracy of one way to predict.
fn card(k: usize, name: &str, figures: &Figures) -> Markup {
    let (balanced, accuracy) = (figures.balanced_accuracy, figures.accuracy);
    html! {
        div.card {
            span { i class={ "s" (k) } {} (name) }
            strong { (whole(balanced.value)) }
            small { "balanced accuracy, 95\u{a0}%:\u{a0}" (interval(balanced)) }
            small { "accuracy " (whole(accuracy.value)) ", 95\u{a0}%:\u{a0}" (interval(accuracy)) }
        }
    }
}

/// Shows the figures that result from always predicting the largest class.
fn majority(figures: &Figures) -> Markup {
    let majority = &figures.majority;
    html! {
        div.card {
            span { "always " (majority.class) }
            strong { (whole(majority.balanced_accuracy)) }
            small { "balanced accuracy" }
            small { "accuracy " (whole(majority.accuracy)) }
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

/// Shows the figures of one model on the rows with the name `rows`. `subject` is the name of the model.
pub(super) fn one(figures: &Figures, rows: &str, subject: &str, curve: Option<&Curve>, fold: bool) -> Markup {
    html! {
        p.lead { strong { (figures.headline(rows)) "." } }
        div.cards { (card(0, subject, figures)) (majority(figures)) }
        (verdict(&figures.against_majority(subject)))
        (evidence(&[(subject, figures)], curve, fold))
    }
}

/// Shows recall, confusion matrix, sensitivity and specificity, then the pictures of the first way to
/// predict.
fn evidence(ways: &[(&str, &Figures)], curve: Option<&Curve>, fold: bool) -> Markup {
    let Some((_, first)) = ways.first() else { return html! {} };
    let confusion = html! { h3 { "Confusion matrix" } (pictures::confusion(first)) };
    let recall = html! { h3 { "Recall by class" } (pictures::recall(ways)) };
    let rest = html! { div.grid { (details(ways, first, curve)) } };
    html! {
        div.grid {
            @match &first.positive {
                Some(two) => { div { (recall) (confusion) } (sensitivity(two, first)) },
                None => { div { (recall) } div { (confusion) } },
            }
        }
        @if fold { (folded("More figures of these rows", "", rest)) } @else { (rest) }
    }
}

/// Shows the figures for two classes, with the usual terms.
fn sensitivity(two: &Positive, figures: &Figures) -> Markup {
    let (positive, auc) = (&two.class, figures.auc.zip(figures.per_class.get(1)));
    let negative = figures.per_class.iter().find(|each| each.class != *positive);
    let negative = negative.map_or("the other class", |each| &*each.class);
    let told = [
        format!("rows of class {positive} that are predicted as {positive}"),
        format!("rows of class {negative} that are predicted as {negative}"),
        format!("positive predictive value: rows predicted as {positive} that are of this class"),
        format!("negative predictive value: rows predicted as {negative} that are of this class"),
    ];
    let rows = two
        .named()
        .into_iter()
        .zip(told)
        .map(|((name, share), told)| cells![html! { (name) small { (told) } }, maybe(share)]);
    html! {
        div {
            h3 { "Sensitivity and specificity" }
            p { "The positive class is " b { (positive) } "." }
            (table("Figures of two classes, with 95\u{a0}% intervals", &["figure", "value"], rows))
            @if let Some((Share { value, low, high }, second)) = auc {
                p {
                    "Area under the curve (AUC): " (format!("{value:.3} (95 %: {low:.3} to {high:.3})"))
                    ": how often the model gives a row of " (second.class) " a higher score for " (second.class)
                    " than a row of the other class at the same peer. In a session only peers with at least "
                    (FEWEST) " held-out rows of each class take part in this figure."
                }
            }
        }
    }
}

/// Shows the ROC curve, calibration and precision of the first of these ways to predict.
fn details(ways: &[(&str, &Figures)], figures: &Figures, curve: Option<&Curve>) -> Markup {
    let two = figures.positive.is_some();
    let bins = figures.calibration.as_deref().filter(|bins| !bins.is_empty());
    html! {
        @if two {
            div {
                h3 { "ROC" }
                (roc::picture(ways, curve))
                @if ways.len() > 1 {
                    p.legend {
                        @for (k, (name, _)) in ways.iter().enumerate() { span { i class={ "s" (k) } {} (name) } }
                    }
                }
                p {
                    @if curve.is_some() {
                        "The curve shows every threshold, with the 95\u{a0}% interval of its sensitivity; the point is \
                         the threshold at which the model decides."
                    } @else {
                        "Each point is one way to predict, with both 95\u{a0}% intervals. There is no curve, because \
                         no scores of single rows are opened."
                    }
                    " A point further up and to the left is better. On the dashed line, predictions are as good as chance."
                }
            }
        }
        @if let Some(bins) = bins {
            div {
                h3 { "Calibration" }
                (pictures::calibration(bins))
                p {
                    "The model states a probability for each prediction (" code { "predict --scores" } " prints it). On \
                     the line, predictions are right as often as stated; below the line, the model is \
                     overconfident. Larger points have more rows."
                }
                (folded("Calibration in numbers", "", table(
                    "Predicted probability and observed frequency, with 95\u{a0}% intervals",
                    &["predicted", "rows", "observed"],
                    bins.iter().map(|bin| cells![whole(bin.stated), bin.rows, shown(bin.right)]),
                )))
            }
        }
        @if !two { (precision(figures)) }
    }
}

/// Shows the precision of each class. With two classes, these are PPV and NPV.
fn precision(figures: &Figures) -> Markup {
    html! {
        div {
            h3 { "Precision by class" }
            (table(
                "Right among the rows predicted as each class, with 95\u{a0}% intervals",
                &["class", "precision"],
                figures.per_class.iter().map(|each| cells![each.class, maybe(each.precision)]),
            ))
        }
    }
}
