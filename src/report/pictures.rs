//! Draws the pictures of a report. Each picture has a title, and a table next to it with the numbers.

use flyswarm_learn::model::figures::{Bin, Figures, Share};
use maud::{Markup, html};
use serde_json::Value;

use crate::html::{cells, folded, number, percent, picture, px, table, whole};

/// Width, in units of about a pixel on a phone.
const WIDTH: f64 = 360.0;
/// Maximum number of classes in a picture; the tables have all classes.
const MOST: usize = 40;
/// Percent of colour in the darkest cell of a confusion matrix. The cell is light enough to read the text on
/// it.
pub(super) const DEPTH: f64 = 45.0;

/// Makes a table of this class in a frame that can be scrolled sideways.
fn wide(class: &str, caption: &str, rows: &Markup) -> Markup {
    html! {
        div.wide role="region" tabindex="0" aria-label=(caption) {
            table class=(class) {
                caption { span { (caption) } }
                (rows)
            }
        }
    }
}

/// Makes a table with the recall of each class. For each way to predict, the table has a picture and the
/// number.
pub(super) fn recall(ways: &[(&str, &Figures)]) -> Markup {
    let Some((_, first)) = ways.first() else { return html! {} };
    let caption = "Recall of each class, with 95\u{a0}% intervals";
    let several = ways.len() > 1;
    let head = if several { "predicted by" } else { "class" };
    let row = |k: usize, at: usize, name: Markup, of: &str| {
        let recall = ways[k].1.per_class.get(at).and_then(|each| each.recall);
        html! {
            tr {
                th scope="row" { (name) }
                td { (super::figures::maybe(recall)) }
                td { @if let (Some(recall), true) = (recall, at < MOST) { (span(k, recall, of)) } }
            }
        }
    };
    let rows = html! {
        thead {
            tr {
                th scope="col" { (head) }
                th scope="col" { "recall" }
                th scope="col" { span.axis { span { "0\u{a0}%" } span { "50\u{a0}%" } span { "100\u{a0}%" } } }
            }
        }
        @for (at, class) in first.per_class.iter().enumerate() {
            @let rows = html! { small { (class.rows) @if class.rows == 1 { " row" } @else { " rows" } } };
            tbody {
                @if several {
                    tr { th.class scope="rowgroup" colspan="3" { (class.class) " " (rows) } }
                    @for (k, (name, _)) in ways.iter().enumerate() {
                        (row(k, at, html! { i class={ "s" (k) } {} (name) }, &format!("{} by {name}", class.class)))
                    }
                } @else {
                    (row(0, at, html! { (class.class) " " (rows) }, &class.class))
                }
            }
        }
    };
    wide("recall", caption, &rows)
}

/// Draws a share with its interval on a line from 0 to 100 %.
fn span(k: usize, Share { value, low, high }: Share, of: &str) -> Markup {
    let (width, height) = (150.0, 14.0);
    let x = |share: f64| px(7.0 + (width - 14.0) * share);
    let parts = html! {
        path.grid d={ "M" (x(0.0)) " 0 V" (height) " M" (x(0.5)) " 0 V" (height) " M" (x(1.0)) " 0 V" (height) } {}
        path.range d={ "M" (x(low)) " " (height / 2.0) " H" (x(high)) } {}
        (mark(k, x(value), height / 2.0, 4.0))
    };
    let told = format!("{}, 95 % interval {} to {}", whole(value), whole(low), whole(high));
    picture((width, height), Some("span"), &format!("Recall of {of}"), &told, parts)
}

/// Draws a mark of this size. Each way to predict has its own colour and shape.
pub(super) fn mark(k: usize, x: f64, y: f64, size: f64) -> Markup {
    let small = 0.85 * size;
    html! {
        @match k {
            0 => circle.s0 cx=(x) cy=(y) r=(size) {},
            1 => rect.s1 x=(px(x - small)) y=(px(y - small)) width=(2.0 * small) height=(2.0 * small) {},
            _ => path.s2 d={
                "M" (x) " " (px(y - 1.2 * size)) " l" (1.2 * size) " " (1.2 * size) " l" (-1.2 * size) " " (1.2 * size) " l"
                (-1.2 * size) " " (-1.2 * size) " z"
            } {},
        }
    }
}

/// A square picture that has shares on both axes.
pub(super) struct Square {
    left: f64,
    top: f64,
    side: f64,
}

impl Default for Square {
    fn default() -> Self {
        Self { left: 60.0, top: 10.0, side: 280.0 }
    }
}

impl Square {
    pub(super) fn x(&self, share: f64) -> f64 {
        px(self.left + self.side * share)
    }

    pub(super) fn y(&self, share: f64) -> f64 {
        px(self.top + self.side * (1.0 - share))
    }

    pub(super) fn axes(&self, across: &str, up: &str) -> Markup {
        let (bottom, right) = (self.top + self.side, self.left + self.side);
        let middle = self.top + self.side / 2.0;
        html! {
            @for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
                path.grid d={
                    "M" (self.left) " " (self.y(tick)) " H" (right) " M" (self.x(tick)) " " (self.top) " V" (bottom)
                } {}
                text.end x=(self.left - 8.0) y=(self.y(tick) + 4.0) { (100.0 * tick) " %" }
                text.mid x=(self.x(tick)) y=(bottom + 18.0) { (100.0 * tick) " %" }
            }
            text.mid.ink x=(self.x(0.5)) y=(bottom + 40.0) { (across) }
            text.mid.ink x="14" y=(middle) transform={ "rotate(-90 14 " (middle) ")" } { (up) }
        }
    }

    pub(super) fn picture(&self, title: &str, told: &str, parts: Markup) -> Markup {
        picture((WIDTH, self.top + self.side + 50.0), Some("square"), title, told, parts)
    }
}

/// Makes the table of true and predicted classes. The larger the share of a cell in its row, the darker it
/// is.
pub(super) fn confusion(figures: &Figures) -> Markup {
    if figures.per_class.len() > MOST {
        return html! { p { "With " (figures.per_class.len()) " classes the table is left out." } };
    }
    let caption = "Rows by true class (down) and predicted class (across); right ones are ringed";
    let cell = |right: bool, rows: u64, all: u64| {
        let share = rows as f64 / all.max(1) as f64;
        let (word, colour) = if right { ("right", "--accent") } else { ("wrong", "--bad") };
        let depth = (DEPTH * share.min(1.0)).round();
        let style = format!("background:color-mix(in srgb, var({colour}) {depth}%, transparent)");
        html! { td.right[right] style=(style) title={ (word) ": " (whole(share)) } { (rows) } }
    };
    let rows = html! {
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
    };
    wide("confusion", caption, &rows)
}

/// Draws the observed frequency against the predicted probability.
pub(super) fn calibration(bins: &[Bin]) -> Markup {
    let square = Square::default();
    let (x, y) = (|share| square.x(share), |share| square.y(share));
    let most = bins.iter().map(|bin| bin.rows).max().unwrap_or(1).max(1) as f64;
    let told: Vec<_> = bins
        .iter()
        .map(|bin| format!("predicted {}, observed {}", whole(bin.stated), whole(bin.right.value)))
        .collect();
    let parts = html! {
        (square.axes("predicted probability", "observed frequency"))
        path.ideal d={ "M" (x(0.0)) " " (y(0.0)) " L" (x(1.0)) " " (y(1.0)) } {}
        @for bin in bins {
            @let at = x(bin.stated.clamp(0.0, 1.0));
            path.error d={ "M" (at) " " (y(bin.right.low)) " V" (y(bin.right.high)) } {}
            circle.s0 cx=(at) cy=(y(bin.right.value)) r=(px(3.0 + 5.0 * (bin.rows as f64 / most).sqrt())) {
                title { (bin.rows) " rows" }
            }
        }
    };
    html! { figure { (square.picture("Calibration", &told.join("; "), parts)) } }
}

/// Draws the loss and accuracy of every round. Empty if there are no rounds.
pub(super) fn rounds(rounds: &Value) -> Markup {
    let Some(rounds) = rounds.as_array().filter(|rounds| !rounds.is_empty()) else { return html! {} };
    let of = |name: &str| -> Vec<f64> { rounds.iter().filter_map(|round| round[name].as_f64()).collect() };
    let [accuracy, held, loss] = ["accuracy", "held_out_accuracy", "loss"].map(of);
    let most = loss.iter().copied().fold(0.1, f64::max);
    let shown = |value: &Value, form: fn(f64) -> String| value.as_f64().map_or_else(String::new, form);
    let rows = rounds.iter().enumerate().map(|(at, round)| {
        let [accuracy, held] = ["accuracy", "held_out_accuracy"].map(|name| shown(&round[name], percent));
        cells![at + 1, shown(&round["loss"], number), accuracy, held]
    });
    let parts = html! {
        p { "Over the rows of the members that trained, after each round." }
        div.grid {
            (curves("Accuracy", &[&accuracy, &held], 1.0, percent))
            (curves("Loss", &[&loss], most, number))
        }
        @if !held.is_empty() {
            p.legend { span { i.s0 {} "training rows" } span { i.s1 {} "held-out rows" } }
        }
        (table("Figures of every round", &["round", "loss", "accuracy", "held out"], rows))
    };
    folded("Rounds", &format!("{}", rounds.len()), parts)
}

/// Draws one or two lines with a value for every round, from 0 to `most`. `form` formats the numbers.
fn curves(name: &str, lines: &[&[f64]], most: f64, form: fn(f64) -> String) -> Markup {
    let (left, top, height) = (56.0, 8.0, 160.0);
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
            text.end x=(left - 6.0) y=(y(tick) + 4.0) { (form(tick * most)) }
        }
        @for (k, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            polyline class={ "l" (k) } points=(points(line)) {}
        }
        text.mid.ink x=(WIDTH / 2.0) y=(top + height + 24.0) { "round 1 to " (lines[0].len()) }
    };
    let told = format!("{} rounds, from {} to {}", lines[0].len(), form(*first), form(*last));
    let size = (WIDTH, top + height + 34.0);
    html! { div { h3 { (name) } figure { (picture(size, None, name, &told, parts)) } } }
}

/// Draws estimates with their intervals on one axis: `{title, log, lines: [{name, at, low, high}]}`.
pub(super) fn forest(forest: &Value) -> Markup {
    let log = forest["log"] == true;
    let place = |value: &Value| {
        let x = value.as_f64()?;
        Some(if log { x.max(1e-12).ln() } else { x }).filter(|x| x.is_finite())
    };
    let lines: Vec<(&str, [f64; 3])> = forest["lines"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|line| {
            let [at, low, high] = ["at", "low", "high"].map(|key| place(&line[key]));
            Some((line["name"].as_str()?, [at?, low?, high?]))
        })
        .take(MOST)
        .collect();
    if lines.is_empty() {
        return html! {};
    }
    let ends = lines.iter().flat_map(|(_, range)| *range);
    let (first, last) = ends.fold((0.0f64, 0.0f64), |(a, b), x| (a.min(x), b.max(x)));
    let (width, height) = (300.0, 16.0);
    let x = |value: f64| px(7.0 + (width - 14.0) * (value - first) / (last - first).max(1e-12));
    let shown = |place: f64| number(if log { place.exp() } else { place });
    let title = forest["title"].as_str().unwrap_or("estimate");
    let drawn = |name: &str, [at, low, high]: [f64; 3]| {
        let parts = html! {
            path.ideal d={ "M" (x(0.0)) " 0 V" (height) } {}
            path.range d={ "M" (x(low)) " " (height / 2.0) " H" (x(high)) } {}
            (mark(0, x(at), height / 2.0, 4.0))
        };
        let told = format!("{}, interval {} to {}", shown(at), shown(low), shown(high));
        picture((width, height), None, &format!("{title} of {name}"), &told, parts)
    };
    let caption = format!(
        "Each {title} with its interval{}; the dashed line is {}",
        if log { ", on a logarithmic axis" } else { "" },
        i32::from(log)
    );
    html! {
        section {
            h2 { "Forest plot" }
            div.wide role="region" tabindex="0" aria-label=(caption) {
                table.forest {
                    caption { span { (caption) } }
                    thead {
                        tr {
                            th scope="col" { "term" }
                            th scope="col" { span.axis { span { (shown(first)) } span { (shown(last)) } } }
                        }
                    }
                    tbody {
                        @for (name, range) in lines { tr { th scope="row" { (name) } td { (drawn(name, range)) } } }
                    }
                }
            }
        }
    }
}
