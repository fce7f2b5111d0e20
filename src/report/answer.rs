//! Makes the first part of a page: whether the model is good enough to use, for which classes, and for whom.

use flyswarm_learn::model::columns::Beside;
use flyswarm_learn::model::comparison::{Verdict, Whose};
use flyswarm_learn::model::figures::{ClassFigures, ENOUGH, Figures};
use maud::{Markup, html};
use serde_json::Value;

use super::figures::{Held, read, unscored};
use super::{Page, aggregates};
use crate::html::whole;

/// Maximum number of names in a list; the tables have all names.
const MOST: usize = 12;
/// A column is named if its distance from the pool is more than this, in deviations of the pool.
const FAR: f64 = 1.0;

/// The figures that the headline of a page is about.
struct Subject<'a> {
    figures: Held,
    whose: Whose,
    /// Name of the predictor.
    predictor: &'static str,
    /// Name of the rows.
    rows: &'a str,
}

/// Returns the figures for the headline: those of the given rows; if there are none, those of all peers;
/// otherwise this peer's own.
fn subject<'a>(page: &'a Page<'_>) -> Option<Subject<'a>> {
    if let Some(rows) = page.rows {
        let figures = Held::Alone(Box::new(rows.figures.clone()));
        return Some(Subject { figures, whose: Whose::File, predictor: "model", rows: rows.name });
    }
    let pooled = page.receipt.and_then(|receipt| read(&receipt["evaluation"]["pooled"]));
    if let Some(figures) = pooled {
        return Some(Subject { figures, whose: Whose::Pool, predictor: "model", rows: "the held-out rows" });
    }
    let figures = page.own.and_then(read)?;
    Some(Subject { figures, whose: Whose::Peer, predictor: "result", rows: "this peer's held-out rows" })
}

/// Makes the headline, one sentence.
pub(super) fn headline(page: &Page<'_>) -> Markup {
    let Some(subject) = subject(page) else { return html! { p.answer { (without_figures(page.receipt)) } } };
    let Subject { figures, whose, predictor, rows } = &subject;
    let (swarm, gain) = match figures {
        Held::Alone(swarm) => (&**swarm, None),
        // The second sentence compares with a model of own rows alone. If there are too few rows, it does not
        // exist.
        Held::Compared(found) => (&found.swarm, found.sentences(*whose).get(1).map(|said| said.verdict)),
    };
    let own = if *whose == Whose::Peer { "what this peer learns" } else { "what each peer learns" };
    let than = |verdict| match verdict {
        Verdict::Better => format!(", and better than {own} from its own rows alone"),
        Verdict::Worse => format!(", but worse than {own} from its own rows alone"),
        Verdict::Unclear | Verdict::TooFew => {
            format!(", but not clearly different from {own} from its own rows alone")
        }
    };
    // If the model may have learnt from these rows, the figures may be too good.
    if let Some(why) = page.rows.and_then(|rows| rows.learnt) {
        return html! { p.answer { "It is not clear whether the " (predictor) " is good enough to use: " (why) "." } };
    }
    let largest = &swarm.majority;
    let text = match swarm.against_majority(predictor).verdict {
        Verdict::TooFew | Verdict::Unclear => {
            let few = swarm.too_few().map_or_else(String::new, |few| {
                let count = if few.rows == 0 { "none".to_owned() } else { format!("only {}", few.rows) };
                format!(": {count} of {rows} are of class {:?}, and {ENOUGH} are needed", few.class)
            });
            format!("It is not clear whether the {predictor} is good enough to use{few}.")
        }
        Verdict::Worse => format!(
            "The {predictor} is not good enough to use: on {rows} it is no better than always {:?}.",
            largest.class
        ),
        Verdict::Better => format!(
            "The {predictor} is right for {} of {rows}, averaged over the classes: better than always {:?} ({}){}.",
            whole(swarm.balanced_accuracy.value),
            largest.class,
            whole(largest.balanced_accuracy),
            gain.map_or_else(String::new, than)
        ),
    };
    let class = match swarm.against_majority(predictor).verdict {
        Verdict::Worse => "answer bad",
        Verdict::Better if gain != Some(Verdict::Worse) && swarm.per_class.iter().all(mostly_right) => {
            "answer good"
        }
        _ => "answer",
    };
    html! { p class=(class) { (text) } }
}

/// Returns the headline of a page that has no figures.
fn without_figures(receipt: Option<&Value>) -> String {
    let Some(receipt) = receipt else { return "This page has no figures.".to_owned() };
    if receipt["evaluation"]["contradictory"] == true {
        return "Do not rely on the figures of this session: they contradict each other.".to_owned();
    }
    if let Some(headline) = receipt["headline"].as_str() {
        return headline.to_owned();
    }
    if receipt["evaluation"].is_object() || receipt["evaluation_note"].is_string() {
        return "This page alone does not show whether the result is good enough to use.".to_owned();
    }
    let sums = receipt["aggregates"].as_array().map_or(0, Vec::len);
    format!("The session opened {sums} sums over {} peers.", aggregates::members(receipt).len())
}

fn mostly_right(class: &ClassFigures) -> bool {
    class.rows >= ENOUGH && class.recall.is_some_and(|recall| recall.low > 0.5)
}

fn mostly_wrong(class: &ClassFigures) -> bool {
    class.rows >= ENOUGH && class.recall.is_some_and(|recall| recall.high < 0.5)
}

/// Makes the parts about classes and about whose rows the figures describe. Empty if the page has no figures.
pub(super) fn limits(page: &Page<'_>, beside: Option<&Beside>) -> Markup {
    let Some(subject) = subject(page) else { return html! {} };
    let swarm = match &subject.figures {
        Held::Alone(swarm) => swarm,
        Held::Compared(found) => &found.swarm,
    };
    let mostly = |class: &&ClassFigures| mostly_right(class) || mostly_wrong(class);
    let all = || swarm.per_class.iter();
    let groups = [
        ("More than half right", all().filter(|class| mostly_right(class)).collect::<Vec<_>>()),
        ("Unclear", all().filter(|class| class.rows >= ENOUGH && !mostly(class)).collect()),
        ("More than half wrong", all().filter(|class| mostly_wrong(class)).collect()),
        ("Too few rows to say", all().filter(|class| class.rows < ENOUGH).collect()),
    ];
    html! {
        div.grid {
            div {
                h3 { "For which class" }
                dl {
                    @for (name, classes) in groups.iter().filter(|(_, classes)| !classes.is_empty()) {
                        dt { (name) }
                        dd { (listed(classes.iter().map(|class| named(class)))) }
                    }
                }
                p.note {
                    "Share of the rows of a class that are predicted as this class (recall). More than half \
                     right or wrong: the whole 95\u{a0}% interval lies above or below 50\u{a0}%."
                }
            }
            div {
                h3 { "For whom" }
                dl { @for (name, text) in whom(page, beside) { dt { (name) } dd { (text) } } }
            }
        }
    }
}

fn named(class: &ClassFigures) -> String {
    match class.recall {
        Some(recall) if class.rows >= ENOUGH => format!("{} ({})", class.class, whole(recall.value)),
        _ => format!("{} ({} {})", class.class, class.rows, if class.rows == 1 { "row" } else { "rows" }),
    }
}

/// Joins names. If there are too many, gives the number of the others.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MOST);
    let names = names.take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{names} and {more} others") } else { names }
}

/// Returns lines about the rows that the figures describe, each a heading and a text.
fn whom(page: &Page<'_>, beside: Option<&Beside>) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let brief = |figures: &Figures| match figures.too_few() {
        Some(few) => {
            format!("unclear: {} held-out rows of class {:?}, and {ENOUGH} are needed", few.rows, few.class)
        }
        None => format!(
            "right for {} of its own held-out rows, averaged over the classes",
            whole(figures.balanced_accuracy.value)
        ),
    };
    match page.own.and_then(read) {
        Some(Held::Compared(found)) => lines.push(("This peer", brief(&found.swarm))),
        Some(Held::Alone(figures)) => lines.push(("This peer", brief(&figures))),
        None => {}
    }
    if let Some(beside) = beside {
        let far: Vec<_> = beside.columns.iter().filter(|column| column.distance() > FAR).collect();
        let names = listed(far.iter().map(|column| column.name.clone()));
        let text = match far.len() {
            0 => format!("none of {} lies more than one deviation from the pool", beside.columns.len()),
            count => {
                format!("{count} of {} more than one deviation from the pool: {names}", beside.columns.len())
            }
        };
        lines.push((if page.rows.is_some() { "Columns" } else { "This peer's columns" }, text));
    }
    if let Some(receipt) = page.receipt {
        let members = aggregates::members(receipt);
        lines.push(("Members", listed(members.into_iter().map(str::to_owned))));
        let unscored = unscored(&receipt["evaluation"]);
        if !unscored.is_empty() {
            lines.push(("Not measured", unscored));
        }
    }
    let others = match page.rows {
        Some(rows) => format!("all rows except {}", rows.name),
        None => "rows of places that did not take part".to_owned(),
    };
    lines.push(("Says nothing about", others));
    lines
}
