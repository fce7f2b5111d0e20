//! Makes the sections about the session from its receipt: who learnt what about whose rows, the decisions
//! with their times, and the costs.

use maud::{Markup, html};
use serde_json::Value;

use super::text;
use crate::html::{self as page, bytes, cells, folded, table, time};
use crate::session::Run;

/// Returns the names of the members of the last sum.
pub(super) fn members(receipt: &Value) -> Vec<&str> {
    let last = list(&receipt["aggregates"]).last();
    last.map_or(&[][..], |last| list(&last["members"])).iter().map(text).collect()
}

/// Makes the line below the title, with the date, the number of peers and the task.
pub(super) fn session_line(receipt: &Value) -> Markup {
    html! {
        @if let Some(unix) = receipt["started_unix"].as_f64() { span { (date(unix)) } }
        span { (members(receipt).len()) " peers" }
        span { "task " (text(&receipt["task"])) }
    }
}

/// Makes the folded parts with decisions, times, costs and the session.
pub(super) fn decided(receipt: &Value) -> Markup {
    let opened = list(&receipt["aggregates"]);
    let stages = list(&receipt["stages"]).iter().map(|each| {
        let seconds = each["seconds"].as_f64().unwrap_or(0.0);
        cells![text(&each["name"]), time(1000.0 * seconds), bytes(each["bytes"].as_f64().unwrap_or(0.0))]
    });
    let committee = &receipt["committee"];
    let number = |value: &Value| value.as_u64().unwrap_or(0).to_string();
    let took = time(1000.0 * receipt["seconds"].as_f64().unwrap_or(0.0));
    let session = [
        ("name", text(&receipt["name"]).to_owned()),
        ("id", text(&receipt["session"]).to_owned()),
        ("task", text(&receipt["task"]).to_owned()),
        ("file made", page::date(text(&receipt["created"]))),
        ("joined", date(receipt["started_unix"].as_f64().unwrap_or(0.0))),
        ("took", took.clone()),
        ("views", number(&receipt["views"])),
        (
            "committee",
            format!("{} members vote; faults: {}", number(&committee["members"]), text(&committee["faults"])),
        ),
        ("not prevented", text(&committee["not_prevented"]).to_owned()),
        ("own rows", number(&receipt["data"]["rows"])),
        (
            "fewest contributors",
            format!("{} of each class, or the session ends", number(&receipt["privacy"]["min_contributors"])),
        ),
    ];
    let decisions = html! {
        p {
            "Each line is one sum over the members of a view. It is decided when a quorum of the committee has \
             accepted it; the time is when this peer had it open. Times from before a restart of \
             this peer are not kept."
        }
        (sums(receipt, opened))
    };
    let cost = table("Time and bytes of this peer, by stage", &["stage", "time", "sent"], stages);
    html! {
        (folded("Decisions", &format!("{} sums", opened.len()), decisions))
        (folded("Cost", &took, cost))
        (folded("The session", text(&receipt["task"]), page::list(&session)))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn date(unix: f64) -> String {
    page::date(&Run::new([0; 16], unix.max(0.0) as u64).created_text())
}

fn sums(receipt: &Value, opened: &[Value]) -> Markup {
    let began = receipt["started_unix"].as_f64().unwrap_or(0.0);
    let times = list(&receipt["opened_unix"]);
    table(
        "Sums that were decided and opened, in order",
        &["aggregate", "after joining", "opened", "members", "view", "sealed total"],
        opened.iter().enumerate().map(|(at, each)| {
            let total: String = text(&each["sealed_total"]).chars().take(12).collect();
            let name = text(&each["name"]);
            let (after, when) = match times.get(at).and_then(Value::as_f64) {
                Some(unix) => (time(1000.0 * (unix - began).max(0.0)), date(unix)),
                None => ("before a restart".to_owned(), "unknown".to_owned()),
            };
            cells![
                html! { (name) small { (text(&each["is"])) } },
                after,
                when,
                list(&each["members"]).len(),
                text(&each["view"]),
                html! { code { (total) } },
            ]
        }),
    )
}

/// Returns the name of an aggregate without its number.
fn kind(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((kind, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => kind,
        _ => name,
    }
}

/// Makes the section about who learnt what about whose rows, and about the spent budget. `ledger` is a
/// sentence from this peer's ledger.
pub(super) fn learnt(receipt: &Value, ledger: Option<&str>) -> Markup {
    let private = !receipt["privacy"]["epsilon"].is_null();
    let form = text(&receipt["sent_as"]);
    let shared = match (private, form) {
        (true, _) => {
            "No row left this machine. Noise was added to all numbers that are made of rows before they left. Other \
             members see these numbers only as part of a sum. Every member knows these sums, and what \
             follows from them:"
        }
        (_, "shares of counts") => {
            "No row left this machine. Its counts and sums left it only as secret shares; one share alone \
             reveals nothing. Two computing members that put their shares together know the counts of each \
             peer. Every member knows:"
        }
        (_, "shares of rows") => {
            "The numbers by which rows are compared left this machine only as secret shares; one share \
             alone reveals nothing. Two computing members that put their shares together know every \
             hash, distance, label and score. Every member knows:"
        }
        _ => {
            "No row left this machine, and this peer's numbers left it only under masks, as part of a sum. Every \
             member knows these sums, and what follows from them:"
        }
    };
    let mut told: Vec<(&str, &str)> = Vec::new();
    for each in list(&receipt["aggregates"]) {
        let line = (kind(text(&each["name"])), text(&each["reveals"]));
        if !told.contains(&line) {
            told.push(line);
        }
    }
    let together = match (private, form) {
        (true, _) => {
            "All other members together can subtract their own numbers from a sum: what is left is this \
             peer's numbers with noise, and the budget below limits what these reveal. Sessions on the \
             same rows add up."
        }
        (_, "shares of rows") => {
            "A peer that asked has labels and coarse scores of its own rows, which depend on the rows of \
             all peers: a score can reveal that a row of that class is near. Sessions on the same rows \
             add up."
        }
        _ => {
            "All other members together can subtract their own numbers from a sum: what is left is this peer's numbers. \
             Sessions on the same rows add up."
        }
    };
    let names = members(receipt);
    let own_rows = text(&receipt["own_rows"]["text"]);
    let disagreements = list(&receipt["disagreements"]);
    let named = list(&receipt["named"]);
    html! {
        section {
            h2 { "What was learnt about whom" }
            div.grid {
                div {
                    h3 { "What others can learn about this peer's rows" }
                    p { (shared) }
                    ul { @for (kind, reveals) in told { li { b { (kind) } ": " (reveals) "." } } }
                    p { (together) }
                }
                div {
                    h3 { "What this peer has learnt" }
                    p { "The same about the rows of the other members: every member knows the same sums." }
                    h3 { "Participants" }
                    p {
                        "The last sum is over " (names.len()) " peers: " (names.join(", ")) ". Of this peer: "
                        @if list(&receipt["own_rows"]["left_out"]).is_empty() { (own_rows) } @else { b { (own_rows) } } "."
                    }
                    @if !disagreements.is_empty() {
                        h3 { "Peers that do not agree" }
                        ul { @for each in disagreements { li { (text(&each["text"])) "." } } }
                        p { "One of the two may break a rule, or their connection is bad; no other peer can tell \
                             which." }
                    }
                    @if !named.is_empty() {
                        h3 { "Peers that break the rules" }
                        ul { @for each in named { li { (text(&each["text"])) "." } } }
                        p { "The receipt has the signed statements: everyone can check them." }
                    }
                    h3 { "Budget" }
                    p { (budget(receipt)) }
                    @if let Some(ledger) = ledger { p { (ledger) } }
                }
            }
        }
    }
}

/// Returns the budget that the session spends, as a sentence.
fn budget(receipt: &Value) -> String {
    let privacy = &receipt["privacy"];
    if privacy["epsilon"].is_null() {
        let why = match text(&receipt["sent_as"]) {
            "shares of rows" => "answers are exact, and a ledger only counts them",
            "shares of counts" => "the opened numbers are exact, and a ledger only counts the sessions",
            _ => "sums are exact",
        };
        let other = match privacy["possible"] == true {
            true => " A session with privacy.epsilon has one.",
            false => "",
        };
        return format!(
            "No budget was spent: {why}, so there is no formal limit on what they reveal about a single \
             row.{other}"
        );
    }
    let mode = text(&privacy["mode"]);
    let unit = match mode {
        "per-party" => {
            "each peer drew noise for its own numbers and spent an equal part. This limits the privacy \
             loss of a person with a row at every peer"
        }
        "parallel" => {
            "each peer drew noise for its own numbers. This limits the privacy loss of a person with a \
             row at one peer; with rows at k peers the loss is up to k times as large"
        }
        "central" => {
            "all peers drew the noise of the total together. This limits the privacy loss of a person \
             with a row at one peer, if at most privacy.colluders peers pool their knowledge; with rows \
             at k peers the loss is up to k times as large"
        }
        _ => "the session file states what this protects",
    };
    format!("The session spent epsilon = {} ({mode}): {unit}.", text(&privacy["epsilon"]))
}
