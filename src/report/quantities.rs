//! What a receipt says of a session: who took part, what was decided when, and what others may have learnt.

use maud::{Markup, html};
use serde_json::Value;

use super::text;
use crate::html::{bytes, cells, facts, table, time};
use crate::session::Run;

/// Slots above which their table is folded away.
const FOLDED: usize = 40;
/// The task `flynn` where peers are drawn.
const DRAWN: &str = "flynn, drawn";
/// The task that trains on labels that were given and found.
const PARTLY: &str = "fedavg-xclp";

/// Who took part, what was decided when, and what that cost.
pub(super) fn decided(receipt: &Value) -> Markup {
    let opened = list(&receipt["quantities"]);
    let members = opened.last().map_or(&[][..], |last| list(&last["members"]));
    let names: Vec<_> = members.iter().map(text).collect();
    let sums = sums(receipt, opened);
    let stages = list(&receipt["stages"]).iter().map(|each| {
        let seconds = each["seconds"].as_f64().unwrap_or(0.0);
        cells![text(&each["name"]), time(1000.0 * seconds), bytes(each["bytes"].as_f64().unwrap_or(0.0))]
    });
    let committee = &receipt["committee"];
    let number = |value: &Value| value.as_u64().unwrap_or(0).to_string();
    let session = [
        ("name", text(&receipt["name"]).to_owned()),
        ("id", text(&receipt["session"]).to_owned()),
        ("task", text(&receipt["task"]).to_owned()),
        ("file made", text(&receipt["created"]).to_owned()),
        ("joined", date(receipt["started_unix"].as_f64().unwrap_or(0.0))),
        ("took", time(1000.0 * receipt["seconds"].as_f64().unwrap_or(0.0))),
        ("views", number(&receipt["views"])),
        (
            "committee",
            format!("{} members vote; faults: {}", number(&committee["members"]), text(&committee["faults"])),
        ),
        ("not prevented", text(&committee["not_prevented"]).to_owned()),
        ("own rows", number(&receipt["data"]["rows"])),
        (
            "fewest holders",
            format!("{} of each class, or the session ends", number(&receipt["privacy"]["min_holders"])),
        ),
    ];
    html! {
        section {
            h2 { "Participants and decisions" }
            p {
                (members.len()) " peers: " (names.join(", ")) ". This peer's rows are "
                @if receipt["counted"] != true { b { "not" } " " } "in the result."
            }
            h3 { "Decisions" }
            p {
                "Each line is one sum over the members of a view. It is decided when a quorum of the committee has \
                 accepted it; the time is when this peer had it open. Times from before a restart of \
                 this peer are not kept."
            }
            @if opened.len() > FOLDED {
                details { summary { (opened.len()) " sums" } (sums) }
            } @else {
                (sums)
            }
            h3 { "Cost" }
            (table("Time and bytes of this peer, by stage", &["stage", "time", "sent"], stages))
        }
        (facts("The session", &session))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn date(unix: f64) -> String {
    Run::new([0; 16], unix.max(0.0) as u64).created_text()
}

fn sums(receipt: &Value, opened: &[Value]) -> Markup {
    let (task, began) = (task(receipt), receipt["started_unix"].as_f64().unwrap_or(0.0));
    let times = list(&receipt["opened_unix"]);
    table(
        "Sums that were decided and opened, in order",
        &["quantity", "after joining", "at (UTC)", "members", "view", "sealed total"],
        opened.iter().enumerate().map(|(at, each)| {
            let total: String = text(&each["sealed_total"]).chars().take(12).collect();
            let name = text(&each["name"]);
            let (after, when) = match times.get(at).and_then(Value::as_f64) {
                Some(unix) => (time(1000.0 * (unix - began).max(0.0)), date(unix)),
                None => ("before a restart".to_owned(), "unknown".to_owned()),
            };
            let is = known(task, name).map_or("a sum of the task's own", |(is, _)| is);
            cells![
                html! { (name) small { (is) } },
                after,
                when,
                list(&each["members"]).len(),
                text(&each["view"]),
                html! { code { (total) } },
            ]
        }),
    )
}

/// The task; of `flynn` whether peers are drawn.
fn task(receipt: &Value) -> &str {
    let drawn = list(&receipt["quantities"]).iter().any(|each| text(&each["name"]) == "draw");
    if drawn && text(&receipt["task"]) == "flynn" { DRAWN } else { text(&receipt["task"]) }
}

/// The name of a quantity without the number that it has where there are several of the kind.
fn kind(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some(("round", _)) => "rounds",
        Some((kind @ ("points" | "computed" | "labelled" | "counts"), _)) => kind,
        _ => name,
    }
}

/// What a quantity of a task is, and what it tells everybody where no noise is in it.
fn known(task: &str, name: &str) -> Option<(&'static str, &'static str)> {
    const ACCURACY: &str =
        "how right and wrong predictions fall; a small number in them tells that somebody has such a row";
    Some(match (kind(name), task) {
        ("rounds", _) => {
            ("weights after a round", "weights after every round, which are sums over its members")
        }
        ("points", _) => (
            "rows of each member, and given labels",
            "how many rows each member trains on, and how many labels of each class were given for them",
        ),
        ("counts", PARTLY) => {
            ("labels of each class", "how many labels of each class there are, given and found")
        }
        ("scores", PARTLY) => (
            "how good the network is",
            "loss and accuracy of the last network over all rows with a given label",
        ),
        ("coin", _) => {
            ("a random number that nobody could choose", "nothing of anybody's rows: it is random")
        }
        ("holders", "sketch") | ("present", _) => ("who has rows", "how many members have rows"),
        ("holders", _) => (
            "who has rows of which class",
            "how many members have rows, have rows of each class and, where rows are held out, hold some of it out",
        ),
        ("values", _) => (
            "who has values of each column that all peers fill",
            "how many members have a value of each column that is filled by what all have",
        ),
        ("fills", _) => (
            "what takes the place of missing values",
            "of each such column how many values there are and their mean, or how many rows have each level; a \
             small number tells that somebody has such a row",
        ),
        ("moments", _) => {
            ("means and spreads of columns", "mean and spread of every column over all rows together")
        }
        ("learnt", _) => (
            "a model without the held-out rows",
            "counts of all rows that were not held out, under a second matrix: more about rows that few others \
             resemble",
        ),
        ("counts", "tune") => {
            ("models of every setting and fold", "counts of the rows of every fold under every setting")
        }
        ("counts", DRAWN) => (
            "the model",
            "the model: counts of hashes over the rows of the drawn peers; the fewer they are, the more it tells of \
             each",
        ),
        ("counts", _) => (
            "the model",
            "the model: counts of hashes over all rows. With three members each of them knows the sum of the two \
             others",
        ),
        ("scores", "sketch" | DRAWN) => {
            ("distances of peers", "how far each peer's rows lie from all, by peer")
        }
        ("scores", "tune") => ("how good each setting is", "how many rows each setting has right, by class"),
        ("scores", "fedavg") => {
            ("how good the network is", "loss and accuracy of the last network over all members")
        }
        ("scores", _) => ("how good the model is", ACCURACY),
        ("rows", "xclp") => ("rows of each member", "how many rows each member has"),
        ("rows", _) => ("rows in all", "how many rows all members have together"),
        ("sketch", _) => (
            "a sketch of all rows",
            "how dense all rows together are at any point, and that a given row is not among them where a counter is 0",
        ),
        ("pairwise", _) => ("sketches of each peer", "how dense each peer's own rows are at any point"),
        ("draw", _) => ("who is drawn", "who was drawn"),
        ("computed", _) => ("who computed", "who computed, and salted commitments to what"),
        ("labelled", _) => ("rows with an answer", "how many rows were answered"),
        _ => return None,
    })
}

/// What others can learn, and what was spent of a budget; `ledger` is what this peer's says.
pub(super) fn learnt(receipt: &Value, ledger: Option<&str>) -> Markup {
    let task = task(receipt);
    let noise = &receipt["privacy"]["epsilon"];
    let (private, answers) = (!noise.is_null(), ["xclp", PARTLY].contains(&task));
    let shared = match (private, answers) {
        (true, _) => {
            "Single rows never left this machine. Noise was drawn for whatever is made of rows before it left, and \
             masks hide it from everybody but as part of a sum. Every member knows these sums, and what \
             can be worked out from them:"
        }
        (_, true) => {
            "What rows are compared by left this machine as shares alone, none of which tells anything by itself. Two \
             computing members that put theirs together know every hash, distance, label and score. Every \
             member knows:"
        }
        _ => {
            "Single rows and single peers' numbers never left this machine unmasked. Every member knows the sums, and \
             what can be worked out from them:"
        }
    };
    let mut told: Vec<(&str, String)> = Vec::new();
    for name in list(&receipt["quantities"]).iter().map(|each| text(&each["name"])) {
        let tells = match known(task, name) {
            Some((_, tells)) if private && name != "coin" => format!("{tells}; with noise"),
            Some((_, tells)) => tells.to_owned(),
            None => "a sum that the task asks for; the program that brings it says what it tells".to_owned(),
        };
        let line = (kind(name), tells);
        if !told.contains(&line) {
            told.push(line);
        }
    }
    let together = match (private, answers) {
        (true, _) => {
            "All other members together can subtract their own numbers from a sum: what is left is this peer's numbers \
             with noise, and the budget below bounds what these tell. Sessions on the same rows add up."
        }
        (_, true) => {
            "Whoever asked has labels and coarse scores of its own rows, which depend on everybody's: from a score it \
             can tell that a row of that class is near. Sessions on the same rows add up."
        }
        _ => {
            "All other members together can subtract their own numbers from a sum: what is left is this peer's. \
             Sessions on the same rows add up."
        }
    };
    html! {
        section {
            h2 { "What others can learn" }
            p { (shared) }
            ul { @for (kind, tells) in told { li { b { (kind) } ": " (tells) "." } } }
            p { (together) }
            h3 { "Budget" }
            p { (budget(receipt)) }
            @if let Some(ledger) = ledger { p { (ledger) } }
        }
    }
}

/// What the session spends, in a sentence.
fn budget(receipt: &Value) -> String {
    let (privacy, task) = (&receipt["privacy"], text(&receipt["task"]));
    if privacy["epsilon"].is_null() {
        let why = if ["xclp", PARTLY].contains(&task) {
            "answers are exact, and a ledger only counts them"
        } else {
            "sums are exact"
        };
        let other = match task {
            "flynn" | "sketch" => " A session with privacy.epsilon has one.",
            _ => "",
        };
        return format!(
            "No budget was spent: {why}, and what they tell of a single row has no bound.{other}"
        );
    }
    let mode = text(&privacy["mode"]);
    let unit = match mode {
        "per-party" => {
            "each peer drew noise for its own numbers and spent an equal part. That is what a person may lose who has \
             a row at every peer"
        }
        "parallel" => {
            "each peer drew noise for its own numbers. That is what a person may lose who has a row at one peer; with \
             rows at k peers it is k times as much"
        }
        "central" => {
            "all peers drew the noise of the total together. That is what a person may lose who has a row at one peer, \
             as long as no more peers pool what they know than privacy.colluders says; with rows at k \
             peers it is k times as much"
        }
        _ => "the session file says what that protects",
    };
    format!("The session spent epsilon = {} ({mode}): {unit}.", text(&privacy["epsilon"]))
}
