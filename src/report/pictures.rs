//! Pictures of a report. The label of each picture describes it; the numbers are in a table next to it.

use flyswarm_learn::model::figures::{Bin, Figures};
use maud::{Markup, html};
use serde_json::Value;

use crate::html::{cells, percent, picture, px, table};

/// Width, in units of about a pixel on a phone.
const WIDTH: f64 = 360.0;
/// Maximum number of classes in a picture; the tables have all classes.
const MOST: usize = 40;

/// Draws bars for each class: swarm, alone, nearest neighbours.
pub(super) fn classes(swarm: &Figures, alone: &Figures, neighbours: &Figures) -> Markup {
    let shown = swarm.per_class.len().min(MOST);
    let (left, right, row) = (96.0, WIDTH - 58.0, 46.0);
    let x = |share: f64| px(left + (right - left) * share);
    let label = format!(
        "Share of right predictions by class, for {shown} classes: swarm, alone and nearest neighbours"
    );
    let bar = |at: usize, k: usize, figures: &Figures| {
        let y = row * at as f64 + 4.0 + 12.0 * k as f64;
        let recall = figures.per_class.get(at).and_then(|each| each.recall);
        html! {
            rect.track x=(left) y=(y) width=(right - left) height="10" {}
            @if let Some(recall) = recall {
                rect class={ "s" (k) } x=(left) y=(y) width=(px(x(recall.value) - left)) height="10" {}
                path.range d={ "M" (x(recall.low)) " " (y + 5.0) " H" (x(recall.high)) } {}
                text x=(right + 5.0) y=(y + 9.0) { (percent(recall.value)) }
            }
        }
    };
    let parts = html! {
        @for (at, each) in swarm.per_class.iter().enumerate().take(shown) {
            text.end.ink x=(left - 8.0) y=(row * at as f64 + 26.0) {
                (each.class.chars().take(14).collect::<String>())
            }
            @for (k, figures) in [swarm, alone, neighbours].into_iter().enumerate() { (bar(at, k, figures)) }
        }
    };
    html! {
        p.legend { span { i.s0 {} "swarm" } span { i.s1 {} "alone" } span { i.s2 {} "neighbours" } }
        figure { (picture(WIDTH, row * shown as f64 + 4.0, None, &label, parts)) }
    }
}

/// Makes the table of true and predicted classes; a cell with a larger share of its row is darker.
pub(super) fn confusion(figures: &Figures) -> Markup {
    if figures.per_class.len() > MOST {
        return html! { p { "With " (figures.per_class.len()) " classes the table is left out." } };
    }
    let caption = "Rows by true class (down) and predicted class (across); right ones are ringed";
    let cell = |right: bool, rows: u64, all: u64| {
        let share = rows as f64 / all.max(1) as f64;
        let (word, colour) = if right { ("right", "--accent") } else { ("wrong", "--bad") };
        // Light enough to read the text on it.
        let depth = (55.0 * share.min(1.0)).round();
        let style = format!("background:color-mix(in srgb, var({colour}) {depth}%, transparent)");
        html! { td.right[right] style=(style) title={ (word) ": " (percent(share)) } { (rows) } }
    };
    html! {
        div.wide role="region" tabindex="0" aria-label=(caption) {
            table.confusion {
                caption { span { (caption) } }
                thead {
                    tr {
                        th scope="col" { "true \\ predicted" }
                        @for each in &figures.per_class { th scope="col" { (each.class) } }
                    }
                }
                tbody {
                    @for (at, (each, row)) in figures.per_class.iter().zip(&figures.confusion).enumerate() {
                        tr {
                            th scope="row" { (each.class) }
                            @for (predicted, &rows) in row.iter().enumerate() {
                                (cell(at == predicted, rows, each.rows))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Draws the predicted probability against the observed frequency.
pub(super) fn calibration(bins: &[Bin]) -> Markup {
    let (left, top, side) = (40.0, 8.0, 280.0);
    let x = |share: f64| px(left + side * share);
    let y = |share: f64| px(top + side * (1.0 - share));
    let most = bins.iter().map(|bin| bin.rows).max().unwrap_or(1).max(1) as f64;
    let said: Vec<_> = bins
        .iter()
        .map(|bin| format!("stated {}, right {}", percent(bin.stated), percent(bin.right.value)))
        .collect();
    let parts = html! {
        @for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
            path.grid d={ "M" (left) " " (y(tick)) " H" (left + side) " M" (x(tick)) " " (top) " V" (top + side) } {}
            text.end x=(left - 6.0) y=(y(tick) + 4.0) { (100.0 * tick) " %" }
            text.mid x=(x(tick)) y=(top + side + 14.0) { (100.0 * tick) " %" }
        }
        path.ideal d={ "M" (x(0.0)) " " (y(0.0)) " L" (x(1.0)) " " (y(1.0)) } {}
        text.mid.ink x=(x(0.5)) y=(top + side + 32.0) { "predicted probability, observed frequency" }
        @for bin in bins {
            @let at = x(bin.stated.clamp(0.0, 1.0));
            path.error d={ "M" (at) " " (y(bin.right.low)) " V" (y(bin.right.high)) } {}
            circle.s0 cx=(at) cy=(y(bin.right.value)) r=(px(3.0 + 5.0 * (bin.rows as f64 / most).sqrt())) {
                title { (bin.rows) " rows" }
            }
        }
    };
    let label = format!("Calibration: {}", said.join("; "));
    html! { figure.square { (picture(WIDTH, top + side + 40.0, None, &label, parts)) } }
}

/// Draws loss and accuracy of every round; empty if there are no rounds.
pub(super) fn rounds(rounds: &Value) -> Markup {
    let Some(rounds) = rounds.as_array().filter(|rounds| !rounds.is_empty()) else { return html! {} };
    let of = |name: &str| -> Vec<f64> { rounds.iter().filter_map(|round| round[name].as_f64()).collect() };
    let [accuracy, held, loss] = ["accuracy", "held_out_accuracy", "loss"].map(of);
    let most = loss.iter().copied().fold(0.1, f64::max);
    let number = |value: &Value| value.as_f64().map_or_else(String::new, |value| format!("{value:.4}"));
    let rows = rounds.iter().enumerate().map(|(at, round)| {
        let [loss, accuracy, held] =
            ["loss", "accuracy", "held_out_accuracy"].map(|name| number(&round[name]));
        cells![at + 1, loss, accuracy, held]
    });
    html! {
        section {
            h2 { "Rounds" }
            p { "Over the rows of the members that trained, after each round." }
            (curves("accuracy", &[&accuracy, &held], 1.0))
            (curves("loss", &[&loss], most))
            @if !held.is_empty() {
                p.legend { span { i.s0 {} "rows of training" } span { i.s1 {} "rows held out" } }
            }
            details {
                summary { "Every round" }
                (table("Figures of every round", &["round", "loss", "accuracy", "held out"], rows))
            }
        }
    }
}

/// Draws one or two values of every round, from 0 to `most`.
fn curves(name: &str, lines: &[&[f64]], most: f64) -> Markup {
    let (left, top, height) = (46.0, 8.0, 160.0);
    let (Some(first), Some(last)) = (lines[0].first(), lines[0].last()) else { return html! {} };
    let y = |share: f64| px(top + height * (1.0 - share));
    let points = |line: &[f64]| {
        let step = (WIDTH - left - 10.0) / (line.len().max(2) - 1) as f64;
        let point = |(at, value): (usize, &f64)| {
            format!("{},{}", px(left + 4.0 + step * at as f64), y((value / most).clamp(0.0, 1.0)))
        };
        line.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
    };
    let parts = html! {
        @for tick in [0.0, 0.5, 1.0] {
            path.grid d={ "M" (left) " " (y(tick)) " H" (WIDTH) } {}
            text.end x=(left - 6.0) y=(y(tick) + 4.0) { (format!("{:.2}", tick * most)) }
        }
        @for (k, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            polyline class={ "l" (k) } points=(points(line)) {}
        }
        text.mid.ink x=(WIDTH / 2.0) y=(top + height + 24.0) { "round 1 to " (lines[0].len()) }
    };
    let label = format!("{name} over {} rounds, from {first:.4} to {last:.4}", lines[0].len());
    html! { h3 { (name) } figure { (picture(WIDTH, top + height + 34.0, None, &label, parts)) } }
}
