//! The pictures of a report. Each says in its label what it shows; the numbers stand in a table beside it.

use std::fmt::Write as _;

use flyswarm_learn::model::figures::{Bin, Figures};
use serde_json::Value;

use crate::html::{escape, percent, sized, table};

/// Width in units that are about a pixel on a telephone.
const WIDTH: f64 = 360.0;
/// The most classes whose picture is drawn; the tables hold all.
const MOST: usize = 40;

/// Bars of each class: swarm, alone, nearest neighbours.
pub(super) fn classes(swarm: &Figures, alone: &Figures, neighbours: &Figures) -> String {
    let shown = swarm.per_class.len().min(MOST);
    let (left, right, row) = (96.0, WIDTH - 58.0, 46.0);
    let label = format!(
        "Share of right predictions by class, for {shown} classes: swarm, alone and nearest neighbours"
    );
    let mut out = String::from(
        "<p class=\"legend\"><span><i class=\"s0\"></i>swarm</span><span><i class=\"s1\"></i>alone</span><span><i \
         class=\"s2\"></i>neighbours</span></p><figure>",
    );
    out.push_str(&sized(WIDTH, row * shown as f64 + 4.0, &label));
    for at in 0..shown {
        let top = row * at as f64 + 4.0;
        let name: String = swarm.per_class[at].class.chars().take(14).collect();
        let _ = write!(
            out,
            "<text class=\"end ink\" x=\"{}\" y=\"{}\">{}</text>",
            left - 8.0,
            top + 22.0,
            escape(&name)
        );
        for (k, figures) in [swarm, alone, neighbours].into_iter().enumerate() {
            let y = top + 12.0 * k as f64;
            let _ = write!(
                out,
                "<rect class=\"track\" x=\"{left}\" y=\"{y}\" width=\"{}\" height=\"10\"/>",
                right - left
            );
            let Some(recall) = figures.per_class.get(at).and_then(|each| each.recall) else { continue };
            let x = |share: f64| left + (right - left) * share;
            let _ = write!(
                out,
                "<rect class=\"s{k}\" x=\"{left}\" y=\"{y}\" width=\"{:.1}\" height=\"10\"/><path class=\"range\" \
                 d=\"M{:.1} {mid} H{:.1}\"/><text x=\"{}\" y=\"{}\">{}</text>",
                x(recall.value) - left,
                x(recall.low),
                x(recall.high),
                right + 5.0,
                y + 9.0,
                percent(recall.value),
                mid = y + 5.0
            );
        }
    }
    out + "</svg></figure>"
}

/// The table of true and predicted classes, darker where there is more of the row.
pub(super) fn confusion(figures: &Figures) -> String {
    if figures.per_class.len() > MOST {
        return format!("<p>With {} classes the table is left out.</p>", figures.per_class.len());
    }
    let caption = "Rows by true class (down) and predicted class (across); right ones are ringed";
    let mut out = format!(
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table class=\"confusion\">\
         <caption><span>{caption}</span></caption><thead><tr><th scope=\"col\">true \\ predicted</th>"
    );
    for each in &figures.per_class {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&each.class));
    }
    out.push_str("</tr></thead><tbody>");
    for (at, (each, row)) in figures.per_class.iter().zip(&figures.confusion).enumerate() {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&each.class));
        for (predicted, &rows) in row.iter().enumerate() {
            let share = rows as f64 / each.rows.max(1) as f64;
            let (class, kind) = if at == predicted { ("right", "--accent") } else { ("wrong", "--bad") };
            let ring = if at == predicted { " class=\"right\"" } else { "" };
            let _ = write!(
                out,
                "<td{ring} style=\"background:color-mix(in srgb, var({kind}) {:.0}%, transparent)\" \
                 title=\"{class}: {}\">{rows}</td>",
                // Light enough for the ink on it.
                55.0 * share.min(1.0),
                percent(share)
            );
        }
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}

/// Stated confidence against the share that is right.
pub(super) fn calibration(bins: &[Bin]) -> String {
    let (left, top, side) = (40.0, 8.0, 280.0);
    let x = |share: f64| left + side * share;
    let y = |share: f64| top + side * (1.0 - share);
    let said: Vec<_> = bins
        .iter()
        .map(|bin| format!("stated {}, right {}", percent(bin.stated), percent(bin.right.value)))
        .collect();
    let mut out = String::from("<figure class=\"square\">");
    out.push_str(&sized(WIDTH, top + side + 40.0, &format!("Calibration: {}", said.join("; "))));
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left} {at:.1} H{end:.1} M{across:.1} {top} V{bottom:.1}\"/><text class=\"end\" \
             x=\"{:.1}\" y=\"{:.1}\">{:.0} %</text><text class=\"mid\" x=\"{across:.1}\" y=\"{:.1}\">{:.0} %</text>",
            left - 6.0,
            y(tick) + 4.0,
            100.0 * tick,
            top + side + 14.0,
            100.0 * tick,
            at = y(tick),
            end = left + side,
            across = x(tick),
            bottom = top + side
        );
    }
    let _ = write!(
        out,
        "<path class=\"ideal\" d=\"M{:.1} {:.1} L{:.1} {:.1}\"/><text class=\"mid ink\" x=\"{:.1}\" y=\"{:.1}\">stated \
         (across), right (up)</text>",
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0),
        x(0.5),
        top + side + 32.0
    );
    let most = bins.iter().map(|bin| bin.rows).max().unwrap_or(1).max(1) as f64;
    for bin in bins {
        let radius = 3.0 + 5.0 * (bin.rows as f64 / most).sqrt();
        let _ = write!(
            out,
            "<path class=\"error\" d=\"M{at:.1} {:.1} V{:.1}\"/><circle class=\"s0\" cx=\"{at:.1}\" cy=\"{:.1}\" \
             r=\"{radius:.1}\"><title>{} rows</title></circle>",
            y(bin.right.low),
            y(bin.right.high),
            y(bin.right.value),
            bin.rows,
            at = x(bin.stated.clamp(0.0, 1.0))
        );
    }
    out + "</svg></figure>"
}

/// Loss and accuracy of every round; nothing where there are no rounds.
pub(super) fn rounds(rounds: &Value) -> String {
    let Some(rounds) = rounds.as_array().filter(|rounds| !rounds.is_empty()) else { return String::new() };
    let mut out = String::from(
        "<section><h2>Rounds</h2><p>Over the rows of the members that trained, after each round.</p>",
    );
    let of = |name: &str| -> Vec<f64> { rounds.iter().filter_map(|round| round[name].as_f64()).collect() };
    let [accuracy, held, loss] = ["accuracy", "held_out_accuracy", "loss"].map(of);
    let (left, top, height) = (46.0, 8.0, 160.0);
    for (name, lines, most) in [
        ("accuracy", vec![&accuracy, &held], 1.0),
        ("loss", vec![&loss], loss.iter().copied().fold(0.1, f64::max)),
    ] {
        if lines[0].is_empty() {
            continue;
        }
        let last = lines[0].last().copied().unwrap_or(0.0);
        let label = format!("{name} over {} rounds, from {:.4} to {last:.4}", lines[0].len(), lines[0][0]);
        let _ = write!(out, "<h3>{name}</h3><figure>{}", sized(WIDTH, top + height + 34.0, &label));
        for tick in [0.0, 0.5, 1.0] {
            let y = top + height * (1.0 - tick);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left} {y:.1} H{WIDTH}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{:.2}\
                 </text>",
                left - 6.0,
                y + 4.0,
                tick * most
            );
        }
        for (k, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let step = (WIDTH - left - 10.0) / (line.len().max(2) - 1) as f64;
            let points = line.iter().enumerate().map(|(at, value)| {
                let y = top + height * (1.0 - (value / most).clamp(0.0, 1.0));
                format!("{:.1},{y:.1}", left + 4.0 + step * at as f64)
            });
            let _ =
                write!(out, "<polyline class=\"l{k}\" points=\"{}\"/>", points.collect::<Vec<_>>().join(" "));
        }
        let _ = write!(
            out,
            "<text class=\"mid ink\" x=\"{:.1}\" y=\"{:.1}\">round 1 to {}</text></svg></figure>",
            WIDTH / 2.0,
            top + height + 24.0,
            lines[0].len()
        );
    }
    if !held.is_empty() {
        out.push_str("<p class=\"legend\"><span><i class=\"s0\"></i>rows of training</span><span><i class=\"s1\"></i>rows \
                      held out</span></p>");
    }
    let number = |value: &Value| value.as_f64().map_or_else(String::new, |value| format!("{value:.4}"));
    let rows = rounds.iter().enumerate().map(|(at, round)| {
        vec![
            (at + 1).to_string(),
            number(&round["loss"]),
            number(&round["accuracy"]),
            number(&round["held_out_accuracy"]),
        ]
    });
    out.push_str("<details><summary>Every round</summary>");
    out.push_str(&table("Figures of every round", &["round", "loss", "accuracy", "held out"], rows));
    out + "</details></section>\n"
}
