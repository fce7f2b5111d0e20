//! Pages that stand alone: one HTML file with its style and its pictures, which are inline SVG. It loads
//! nothing from anywhere, and has no scripts.
//!
//! Text from outside goes through [`escape`]; a policy in the head forbids a browser whatever got through.

use std::fmt::Write as _;

use crate::session::printable;

/// Width of every picture, in its own units.
pub(crate) const WIDTH: f64 = 960.0;

const STYLE: &str = include_str!("html/style.css");

/// Text as it may stand in HTML, inside a quoted attribute too. What is invisible, or turns the direction of
/// the text around it, is shown as U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for each in text.chars() {
        match each {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ if each.is_whitespace() || printable(each) => out.push(each),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

/// Formats bytes with two or three digits and a unit.
#[must_use]
pub fn bytes(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}", units[unit])
}

/// Formats milliseconds with a unit that suits them.
pub(crate) fn time(ms: f64) -> String {
    let short = |value: f64, digits: usize| {
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    match ms {
        _ if ms < 10.0 => format!("{} ms", short(ms, 1)),
        _ if ms < 1000.0 => format!("{} ms", short(ms, 0)),
        _ if ms < 60_000.0 => format!("{} s", short(ms / 1000.0, 2)),
        _ => format!("{} min", short(ms / 60_000.0, 1)),
    }
}

/// Formats a share as percent: `93.2 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Formats a number of any size with four digits that count.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}");
    }
    let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

/// A table; its cells are HTML, and the first of a row is its heading.
pub(crate) fn table(caption: &str, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
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

/// A section with a list of headings and texts; nothing without lines.
pub(crate) fn facts(title: &str, lines: &[(&'static str, String)]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String =
        lines.iter().map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>", escape(text))).collect();
    format!("<section><h2>{title}</h2><dl>{lines}</dl></section>\n")
}

/// The opening tag of a picture of this height.
pub(crate) fn svg(height: f64, label: &str) -> String {
    sized(WIDTH, height, label)
}

/// The same of a width of its own, in units of about a pixel on a telephone.
pub(crate) fn sized(width: f64, height: f64, label: &str) -> String {
    let label = escape(label);
    format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">")
}

/// A round step that gives about `count` grid lines over `range`: 1, 2 or 5 times a power of ten.
pub(crate) fn step(range: f64, count: f64) -> f64 {
    let raw = (range / count).max(1e-9);
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw)
}

/// The beginning of a page: its kind in small letters, its title, and a line on what it is about.
pub(crate) fn head(kind: &str, title: &str, about: &str) -> String {
    let [kind, title, about] = [kind, title, about].map(escape);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title} - {kind}</title><style>{STYLE}</style></head><body><main>\n\
         <header><p class=\"kind\">{kind}</p><h1>{title}</h1><p class=\"about\">{about}</p></header>\n"
    )
}

/// The end of a page; `text` is HTML.
pub(crate) fn foot(text: &str) -> String {
    format!("<footer>{text}</footer></main></body></html>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_an_element_or_an_attribute_nor_turn_the_direction_of_what_follows() {
        assert_eq!(escape("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
        assert_eq!(
            escape("a\u{202e}b\u{2067}c\u{0}d\u{200b}e\nf"),
            "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\nf"
        );
        // Names in any writing stay as they are.
        for name in ["gr\u{fc}n", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{4f60}\u{597d}", "\u{1f41d}"] {
            assert_eq!(escape(name), name);
        }
    }

    #[test]
    fn a_caption_is_escaped_where_it_is_shown_and_where_it_is_read_aloud() {
        let made = table("\"<b>", &["x"], [vec!["1".to_owned()]]);
        assert_eq!(made.matches("&quot;&lt;b&gt;").count(), 2);
        assert!(!made.contains("<b>"));
        assert!(sized(1.0, 1.0, "\"<b>").contains("aria-label=\"&quot;&lt;b&gt;\">"));
    }
}
