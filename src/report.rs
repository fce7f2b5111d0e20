//! The page that `join` writes beside the receipt and `flyswarm report` makes of a model: who took part, what
//! was decided, how good the result is, and what others may have learnt.
//!
//! It is made of a receipt as JSON, so that a page can be made again later; what a receipt must not hold, a
//! peer's own figures, comes beside it. Whatever is not as this program writes it is left out.

mod pictures;

use std::fmt::Write as _;

use flyswarm_kernels::model::figures::{Figures, Gain, Share};
use serde_json::Value;

use crate::page::{bytes, escape, foot, head, time};

/// What a page is made of.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    /// The title: a session's name, or a file's.
    pub title: &'a str,
    /// The receipt.
    pub receipt: Option<&'a Value>,
    /// This peer's own figures, as [`crate::task::Outcome::own`] has them.
    pub own: Option<&'a Value>,
    /// What the session spends of a privacy budget, in a sentence.
    pub budget: Option<String>,
    /// The figures of a model on rows, and what these are called.
    pub rows: Option<(&'a Figures, &'a str)>,
    /// The lines of what the model's file says of itself: a heading and a text.
    pub model: Vec<(&'static str, String)>,
}

/// The figures of a session, of everybody's rows or one peer's.
struct Compared {
    swarm: Figures,
    alone: Figures,
    neighbours: Figures,
    gains: [Option<Gain>; 2],
}

impl Compared {
    fn read(value: &Value) -> Option<Self> {
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

impl Page<'_> {
    /// The page as HTML.
    pub(crate) fn render(&self) -> String {
        let about = match self.receipt {
            Some(receipt) => format!("What {} has of this session", text(&receipt["peer"])),
            None => "How well a model predicts rows".to_owned(),
        };
        let mut out = head("flyswarm report", self.title, &about);
        if let Some((figures, rows)) = self.rows {
            let _ =
                write!(out, "<section><h2>How good the model is on {}</h2>{}", escape(rows), one(figures));
            out.push_str("</section>\n");
        }
        let evaluation = self.receipt.map(|receipt| &receipt["evaluation"]).filter(|found| found.is_object());
        if let Some(found) = evaluation {
            out.push_str(&pooled(found));
        }
        if let Some(own) = self.own.and_then(Compared::read) {
            out.push_str(
                "<section><h2>On this peer's own rows</h2><p>Its own held-out rows alone. Nobody else has these \
                 figures, and the receipt does not hold them.</p>",
            );
            out.push_str(&compared(&own));
            out.push_str("</section>\n");
        }
        if let Some(receipt) = self.receipt {
            out.push_str(&pictures::rounds(&receipt["rounds"]));
            out.push_str(&decided(receipt));
            out.push_str(&learnt(receipt, self.budget.as_deref()));
        }
        out.push_str(&facts("The model", &self.model));
        out + &foot(&format!(
            "flyswarm {}. This page loads nothing and sends nothing.",
            env!("CARGO_PKG_VERSION")
        ))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// As `93.2 % (90.1 to 95.4)`.
fn shown(share: Share) -> String {
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

/// A table; its cells are HTML, and the first of a row is its heading.
fn table(caption: &str, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let heads: String = columns.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let mut out = format!(
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><table><caption><span>{0}</span></caption>\
         <thead><tr>{heads}</tr></thead><tbody>",
        escape(caption)
    );
    for row in rows {
        let cells = row.iter().enumerate().map(|(at, cell)| match at {
            0 => format!("<th scope=\"row\">{cell}</th>"),
            _ => format!("<td>{cell}</td>"),
        });
        let _ = write!(out, "<tr>{}</tr>", cells.collect::<String>());
    }
    out + "</tbody></table></div>"
}

/// A list of headings and texts.
fn facts(title: &str, lines: &[(&'static str, String)]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String =
        lines.iter().map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>", escape(text))).collect();
    format!("<section><h2>{title}</h2><dl>{lines}</dl></section>\n")
}

/// The figures of everybody's rows.
fn pooled(found: &Value) -> String {
    let mut out = String::from("<section><h2>How good the model is</h2>");
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
            out.push_str(&compared(&figures));
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
fn compared(found: &Compared) -> String {
    let Compared { swarm, alone, neighbours, gains } = found;
    let mut out = String::from("<div class=\"cards\">");
    for (name, class, figures) in
        [("swarm", "s0", swarm), ("alone", "s1", alone), ("neighbours", "s2", neighbours)]
    {
        let Share { value, low, high } = figures.accuracy;
        let _ = write!(
            out,
            "<div class=\"card {class}\"><span>{name}</span><strong>{}</strong><small>accuracy; 95 %: {:.1} to {:.1}<br>\
             balanced {}</small></div>",
            percent(value),
            100.0 * low,
            100.0 * high,
            percent(figures.balanced_accuracy.value)
        );
    }
    out.push_str("</div>");
    for (gain, other) in gains.iter().zip(["a model of each peer's own rows alone", "its nearest neighbours"])
    {
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
            "<p class=\"verdict{}\">The swarm is {verdict} {other}: {:+.1} points (95 %: {:+.1} to {:+.1}).</p>",
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
fn one(figures: &Figures) -> String {
    let Share { value, low, high } = figures.accuracy;
    let mut out = format!(
        "<p>{} rows.</p><div class=\"cards\"><div class=\"card s0\"><span>accuracy</span><strong>{}</strong><small>95 \
         %: {} to {}</small></div><div class=\"card s0\"><span>balanced accuracy</span><strong>{}</strong><small>95 \
         %: {} to {}</small></div></div>",
        figures.rows,
        percent(value),
        percent(low),
        percent(high),
        percent(figures.balanced_accuracy.value),
        percent(figures.balanced_accuracy.low),
        percent(figures.balanced_accuracy.high)
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
            "<p>Area under the curve (AUC): {value:.3} (95 %: {low:.3} to {high:.3}): how often a row of {} looks more \
             like one than a row of the other class does.</p>",
            escape(&second.class)
        );
    }
    out.push_str("<h3>What is taken for what</h3>");
    out.push_str(&pictures::confusion(figures));
    if let Some(bins) = figures.calibration.as_deref().filter(|bins| !bins.is_empty()) {
        out.push_str(
            "<h3>Does it know when it is right?</h3><p>A model states how sure it is of each prediction (exp(-score), \
             over the sum of all classes). On the line it would be right as often as it states; below it \
             is too sure of itself.</p>",
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

/// Who took part, what was decided, and what that cost.
fn decided(receipt: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let quantities = list(&receipt["quantities"]);
    let members = quantities.last().map(|last| list(&last["members"])).unwrap_or_default();
    let names: Vec<_> = members.iter().map(|name| escape(text(name))).collect();
    let counted = match receipt["counted"].as_bool() {
        Some(true) => "This peer's rows are in the result.",
        _ => "This peer's rows are <b>not</b> in the result.",
    };
    let mut out = format!(
        "<section><h2>Who took part, and what was decided</h2><p>{} peers: {}. {counted}</p>",
        members.len(),
        names.join(", ")
    );
    out.push_str(&table(
        "Sums that were opened, in order",
        &["quantity", "peers", "decided in view", "sealed total"],
        quantities.iter().map(|each| {
            let total: String = text(&each["sealed_total"]).chars().take(12).collect();
            let members = list(&each["members"]).len().to_string();
            vec![escape(text(&each["name"])), members, escape(text(&each["view"])), code(&total)]
        }),
    ));
    out.push_str(&table(
        "Time and bytes of this peer, by stage",
        &["stage", "time", "sent"],
        list(&receipt["stages"]).iter().map(|each| {
            let seconds = each["seconds"].as_f64().unwrap_or(0.0);
            vec![
                escape(text(&each["name"])),
                time(1000.0 * seconds),
                bytes(each["bytes"].as_f64().unwrap_or(0.0)),
            ]
        }),
    ));
    let council = &receipt["council"];
    let number = |value: &Value| value.as_u64().unwrap_or(0).to_string();
    out.push_str("</section>\n");
    let began = receipt["started_unix"].as_f64().unwrap_or(0.0).max(0.0) as u64;
    out + &facts(
        "The session",
        &[
            ("name", text(&receipt["name"]).to_owned()),
            ("id", text(&receipt["session"]).to_owned()),
            ("file made", text(&receipt["created"]).to_owned()),
            ("joined", crate::session::Run::new([0; 16], began).created_text()),
            ("took", time(1000.0 * receipt["seconds"].as_f64().unwrap_or(0.0))),
            ("views", number(&receipt["views"])),
            (
                "council",
                format!("{} members vote; faults: {}", number(&council["members"]), text(&council["faults"])),
            ),
            ("not prevented", text(&council["not_prevented"]).to_owned()),
            ("own rows", number(&receipt["data"]["rows"])),
        ],
    )
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// What each opened sum tells everybody.
const TELLS: [(&str, &str); 14] = [
    ("values", "how many peers have values in each column that is filled by what all have"),
    (
        "fills",
        "of each such column how many values there are and their mean, or how many rows have each level; a small \
                number tells that somebody has such a row",
    ),
    ("holders", "how many peers have rows at all, and rows of each class"),
    ("moments", "mean and spread of every column over all rows"),
    (
        "learnt",
        "counts of all rows that were not held out, under a second matrix: more about rows that few others \
                resemble",
    ),
    (
        "scores",
        "tables of right and wrong predictions, or accuracy and loss; a small number in them tells that \
                somebody has such a row",
    ),
    (
        "counts",
        "the model: counts of hashes over all rows. With three peers each of them knows the sum of the two \
                others",
    ),
    ("rows", "how many rows the peers have"),
    ("sketch", "how dense all records together are at any point"),
    ("pairwise", "how dense each peer's records are at any point"),
    ("draw", "who was drawn"),
    ("computed", "who computed, and commitments to what"),
    ("labelled", "how many rows were answered"),
    ("present", "how many peers have rows"),
];

fn learnt(receipt: &Value, budget: Option<&str>) -> String {
    let mut out = String::from(
        "<section><h2>What others may have learnt</h2><p>Single rows and single peers' numbers never left this \
         machine unmasked. Every member knows the sums, and what can be worked out from them:</p><ul>",
    );
    let opened = receipt["quantities"].as_array().map_or(&[][..], Vec::as_slice);
    let opened = |name: &str| opened.iter().any(|each| text(&each["name"]) == name);
    for (name, tells) in TELLS.iter().filter(|(name, _)| opened(name)) {
        let _ = write!(out, "<li><b>{name}</b>: {tells}.</li>");
    }
    if opened("round-1") {
        out.push_str(
            "<li><b>rounds</b>: the weights after every round, which are sums over its members.</li>",
        );
    }
    out.push_str(
        "</ul><p>All other members together can subtract their own numbers from a sum: what is left is this peer's. \
         Sessions on the same rows add up.</p>",
    );
    let budget = budget.unwrap_or(
        "No budget was spent: sums were exact, and what exact sums tell of a single row has no bound. A session \
         with privacy.epsilon has one.",
    );
    let _ = write!(out, "<h3>Budget</h3><p>{}</p></section>", escape(budget));
    out
}

#[cfg(test)]
mod tests;
