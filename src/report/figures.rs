//! How good a model is: the figures of a session's evaluation, and those of a model on some rows.

use std::fmt::Write as _;

use flyswarm_learn::model::figures::{Figures, Gain, Share};
use serde_json::Value;

use super::{pictures, text};
use crate::html::{escape, percent, table};

/// The figures of a session, of everybody's rows or one peer's.
pub(super) struct Compared {
    swarm: Figures,
    alone: Figures,
    neighbours: Figures,
    gains: [Option<Gain>; 2],
}

/// Whose rows are compared with what.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// All peers'.
    Pool,
    /// This peer's.
    Peer,
    /// Those of a file that a model is scored on.
    File,
}

impl Whose {
    /// What predicts, and what it is compared with.
    fn words(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Pool => {
                ("swarm", ["what each peer learns from its own rows alone", "each peer's nearest own rows"])
            }
            Self::Peer => {
                ("swarm", ["what this peer learns from its own rows alone", "its nearest own rows"])
            }
            Self::File => {
                ("model", ["one that learns from the other rows alone", "the nearest of the other rows"])
            }
        }
    }
}

impl Compared {
    /// Rows that were scored.
    pub(super) fn rows(&self) -> u64 {
        self.swarm.rows
    }

    pub(super) fn read(value: &Value) -> Option<Self> {
        let figures = |which: &str| -> Option<Figures> {
            let found: Figures = serde_json::from_value(value[which].clone()).ok()?;
            let classes = found.per_class.len();
            let square =
                found.confusion.len() == classes && found.confusion.iter().all(|row| row.len() == classes);
            square.then_some(found)
        };
        let gain = |which: &str| serde_json::from_value(value[which].clone()).ok();
        let [swarm, alone, neighbours] = ["swarm", "alone", "neighbours"].map(figures);
        Some(Self {
            swarm: swarm?,
            alone: alone?,
            neighbours: neighbours?,
            gains: ["gain_over_alone", "gain_over_neighbours"].map(gain),
        })
    }
}

/// As `93.2 % (90.1 to 95.4)`.
pub(crate) fn shown(share: Share) -> String {
    format!(
        "{:.1} % <small>({:.1} to {:.1})</small>",
        100.0 * share.value,
        100.0 * share.low,
        100.0 * share.high
    )
}

fn maybe(share: Option<Share>) -> String {
    share.map_or_else(|| "none".to_owned(), shown)
}

/// The figures of a receipt, or why it has none.
pub(super) fn of_session(receipt: &Value) -> String {
    if receipt["evaluation"].is_object() {
        return pooled(&receipt["evaluation"], "How good the model is");
    }
    let drawn =
        receipt["quantities"].as_array().is_some_and(|all| all.iter().any(|each| each["name"] == "draw"));
    let why = match (text(&receipt["task"]), receipt["privacy"]["epsilon"].is_null()) {
        ("flynn", false) => {
            "This session says nothing of it: in a private session each figure would be paid for from the budget. \
             Rows that you keep back tell you, with <code>flyswarm report MODEL --data rows</code>."
        }
        ("flynn", true) if drawn => {
            "This session says nothing of it: with peers that are drawn no rows are held out. Rows that you keep \
             back tell you, with <code>flyswarm report MODEL --data rows</code>."
        }
        ("flynn", true) => {
            "This session says nothing of it, because its file has no <code>[evaluate]</code>: no rows were held out."
        }
        ("fedavg" | "fedavg-xclp", _) if receipt["rounds"][0]["held_out_accuracy"].is_null() => {
            "The figures of the rounds below are of rows that the network learns from. With \
             <code>held_out</code> in <code>[fedavg]</code> they are of others too."
        }
        ("fedavg" | "fedavg-xclp", _) => "See the rounds below: accuracy on rows that are held out.",
        ("tune", _) => {
            "How many rows of all peers each setting has right, on folds that it has not learnt from, stands in the \
             file of settings."
        }
        ("xclp", _) => {
            "A session of this task sums no figures: a table of right and wrong labels would tell two \
             owners each other's. Labels of your own that <code>join --hold-out 20</code> keeps back tell \
             you, and nobody else."
        }
        _ => return String::new(),
    };
    format!("<section><h2>How good the result is</h2><p>{why}</p></section>\n")
}

/// The figures of everybody's rows, under this title.
pub(crate) fn pooled(found: &Value, title: &str) -> String {
    let mut out = format!("<section><h2>{}</h2>", escape(title));
    match Compared::read(&found["pooled"]) {
        Some(figures) => {
            let last = match found["learn_all"].as_bool() {
                Some(false) => "The model that was written does not learn from them either, but is hashed otherwise.",
                _ => "The model that was written learns from all rows, so it should be no worse.",
            };
            let _ = write!(
                out,
                "<p>Of every peer's rows {} % were held out ({} rows together) and predicted in three ways: by a \
                 model of everybody's other rows (<b>swarm</b>), by a model of the peer's own other rows \
                 (<b>alone</b>), and by its 5 nearest own rows (<b>neighbours</b>). Only sums over all peers \
                 were opened. {last}</p>",
                found["held_out_percent"].as_u64().unwrap_or(0),
                figures.swarm.rows
            );
            out.push_str(&compared(&figures, Whose::Pool));
        }
        None if found["contradictory"] == true => out.push_str(
            "<p class=\"verdict bad\">The opened figures contradict each other: some peer has added numbers that no \
             rows have. The model does not depend on them.</p>",
        ),
        None => out.push_str("<p>Nobody held rows out that could be scored.</p>"),
    }
    if let Some(classes) = found["classes_not_scored"].as_array().filter(|classes| !classes.is_empty()) {
        let names: Vec<_> = classes.iter().map(|class| escape(text(class))).collect();
        let _ = write!(
            out,
            "<p>Not scored, because too few peers held rows of them out: {}.</p>",
            names.join(", ")
        );
    }
    out + "</section>\n"
}

/// Three ways of predicting the same rows.
pub(super) fn compared(found: &Compared, whose: Whose) -> String {
    let Compared { swarm, alone, neighbours, gains } = found;
    let mut out = String::from("<div class=\"cards\">");
    for (name, class, figures) in
        [("swarm", "s0", swarm), ("alone", "s1", alone), ("neighbours", "s2", neighbours)]
    {
        let (Share { value, low, high }, balanced) = (figures.accuracy, figures.balanced_accuracy);
        let _ = write!(
            out,
            "<div class=\"card {class}\"><span>{name}</span><strong>{}</strong><small>accuracy; 95\u{a0}%: {:.1}\u{a0}to\u{a0}{:.1}<br>\
             balanced {}; 95\u{a0}%: {:.1}\u{a0}to\u{a0}{:.1}</small></div>",
            percent(value),
            100.0 * low,
            100.0 * high,
            percent(balanced.value),
            100.0 * balanced.low,
            100.0 * balanced.high
        );
    }
    out.push_str("</div>");
    let (subject, others) = whose.words();
    for (gain, other) in gains.iter().zip(others) {
        let Some(Gain { value, low, high }) = gain else { continue };
        let verdict = if *low > 0.0 {
            "better than"
        } else if *high < 0.0 {
            "worse than"
        } else {
            "not clearly different from"
        };
        let _ = write!(
            out,
            "<p class=\"verdict{}\">The {subject} is {verdict} {other}: {:+.1} points (95\u{a0}%: {:+.1}\u{a0}to\u{a0}{:+.1}).</p>",
            if *low > 0.0 {
                " good"
            } else if *high < 0.0 {
                " bad"
            } else {
                ""
            },
            100.0 * value,
            100.0 * low,
            100.0 * high
        );
    }
    out.push_str("<h3>Right predictions of each class</h3>");
    out.push_str(&pictures::classes(swarm, alone, neighbours));
    out.push_str(&table(
        "Right among the rows of each class (recall), with 95 % intervals",
        &["class", "rows", "swarm", "alone", "neighbours"],
        swarm.per_class.iter().zip(&alone.per_class).zip(&neighbours.per_class).map(|((s, a), n)| {
            vec![escape(&s.class), s.rows.to_string(), maybe(s.recall), maybe(a.recall), maybe(n.recall)]
        }),
    ));
    out.push_str(&details(swarm));
    out
}

/// The figures of one model.
pub(super) fn one(figures: &Figures) -> String {
    let (Share { value, low, high }, balanced) = (figures.accuracy, figures.balanced_accuracy);
    let mut out = format!(
        "<p>{} rows.</p><div class=\"cards\"><div class=\"card s0\"><span>accuracy</span><strong>{}</strong><small>95\u{a0}%: \
         {:.1}\u{a0}to\u{a0}{:.1}</small></div><div class=\"card s0\"><span>balanced accuracy</span><strong>{}</strong>\
         <small>95\u{a0}%: {:.1}\u{a0}to\u{a0}{:.1}</small></div></div>",
        figures.rows,
        percent(value),
        100.0 * low,
        100.0 * high,
        percent(balanced.value),
        100.0 * balanced.low,
        100.0 * balanced.high
    );
    out.push_str(&table(
        "Recall of each class, with 95 % intervals",
        &["class", "rows", "recall"],
        figures
            .per_class
            .iter()
            .map(|each| vec![escape(&each.class), each.rows.to_string(), maybe(each.recall)]),
    ));
    out.push_str(&details(figures));
    out
}

/// Precision, AUC, confusion and calibration of one model.
fn details(figures: &Figures) -> String {
    let mut out = table(
        "Right among the rows predicted as each class (precision), with 95 % intervals",
        &["class", "precision"],
        figures.per_class.iter().map(|each| vec![escape(&each.class), maybe(each.precision)]),
    );
    if let (Some(auc), Some(second)) = (figures.auc, figures.per_class.get(1)) {
        let Share { value, low, high } = auc;
        let _ = write!(
            out,
            "<p>Area under the curve (AUC): {value:.3} (95 %: {low:.3} to {high:.3}): how often the \
             model finds that a row of {0} looks more like {0} than a row of the other class does.</p>",
            escape(&second.class)
        );
    }
    out.push_str("<h3>What is taken for what</h3>");
    out.push_str(&pictures::confusion(figures));
    if let Some(bins) = figures.calibration.as_deref().filter(|bins| !bins.is_empty()) {
        out.push_str(
            "<h3>Does it know when it is right?</h3><p>A model states how sure it is of each prediction: exp(-score) \
             over the sum of all classes, of a network its own probability. On the line it would be right \
             as often as it states; below it is too sure of itself.</p>",
        );
        out.push_str(&pictures::calibration(bins));
        out.push_str(&table(
            "Calibration: how sure the model is, and how often it is right, with 95 % intervals",
            &["stated", "rows", "right"],
            bins.iter().map(|bin| vec![percent(bin.stated), bin.rows.to_string(), shown(bin.right)]),
        ));
    }
    out
}
