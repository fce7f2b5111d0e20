//! Self-contained pages: one HTML file with its style and its pictures, which are inline SVG. A page loads
//! nothing and has no scripts. `maud` escapes every text. A policy in the head of the page forbids everything
//! else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::session::printable;

/// Width of every picture, in its own units.
pub(crate) const WIDTH: f64 = 960.0;

/// Style of every page, the live page included.
pub(crate) const STYLE: &str = include_str!("html/style.css");

/// Formats bytes with a unit: `1.2 MB`, `12 MB`, `123 MB`.
#[must_use]
pub fn bytes(count: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 9.95);
    format!("{value:.digits$} {}", units[unit])
}

/// Formats milliseconds with a suitable unit.
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

/// Formats a share as percent without decimals: `93 %`. `100 %` is shown only if the share is 1, and `0 %`
/// only if it is 0, except for rounding errors.
pub(crate) fn whole(share: f64) -> String {
    let percent = (1e8 * share).round() / 1e6;
    match percent {
        _ if percent > 0.0 && percent < 0.5 => format!("{:.1} %", percent.max(0.1)),
        _ if percent > 99.5 && percent < 100.0 => format!("{:.1} %", percent.min(99.9)),
        _ => format!("{percent:.0} %"),
    }
}

/// Formats a time of [`Run::created_text`] as `26 November 2026, 14:05 UTC`; any other text is not changed.
///
/// [`Run::created_text`]: crate::session::Run::created_text
pub(crate) fn date(text: &str) -> String {
    let told = || {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let [hour, minute, _] = time.split(':').collect::<Vec<_>>()[..] else { return None };
        let [hour, minute] = [hour.parse::<u8>().ok()?, minute.parse::<u8>().ok()?];
        Some(format!("{}, {hour:02}:{minute:02} UTC", day(date)?))
    };
    told().unwrap_or_else(|| text.to_owned())
}

/// Formats a day such as `2026-11-26` as `26 November 2026`.
pub(crate) fn day(text: &str) -> Option<String> {
    const MONTHS: &str =
        "January February March April May June July August September October November December";
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.split(' ').nth(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    Some(format!("{} {month} {}", day.parse::<u8>().ok()?, year.parse::<u16>().ok()?))
}

/// Formats a number of any size with four significant digits.
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

/// Makes the cells of a row of [`table`].
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(maud::Render::render(&$cell)),*] };
}
pub(crate) use cells;

/// Makes a table. The first cell of each row is its heading.
pub(crate) fn table(caption: &str, columns: &[&str], rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! {
        div.wide role="region" tabindex="0" aria-label=(caption) {
            table {
                caption { span { (caption) } }
                thead { tr { @for name in columns { th scope="col" { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Makes a section with a list of headings and texts. If the list is empty, there is no section.
pub(crate) fn facts(title: &str, lines: &[(&'static str, String)]) -> Markup {
    html! {
        @if !lines.is_empty() { section { h2 { (title) } (list(lines)) } }
    }
}

/// Makes a list of headings and texts.
pub(crate) fn list(lines: &[(&'static str, String)]) -> Markup {
    html! { dl { @for (name, text) in lines { dt { (name) } dd { (text) } } } }
}

/// Makes a picture of this size, in units of about a pixel. Its title names it, and `told` has its numbers
/// for screen readers.
pub(crate) fn picture(
    (width, height): (f64, f64),
    class: Option<&str>,
    title: &str,
    told: &str,
    parts: Markup,
) -> Markup {
    html! {
        svg class=[class] viewBox={ "0 0 " (width.round()) " " (height.round()) } role="img" {
            title { (title) }
            @if !told.is_empty() { desc { (told) } }
            (parts)
        }
    }
}

/// Makes a part of a page that is folded until a reader opens it. On paper it is open.
pub(crate) fn folded(title: &str, hint: &str, parts: Markup) -> Markup {
    html! { details { summary { (title) @if !hint.is_empty() { small { (hint) } } } (parts) } }
}

/// Rounds a length in a picture to one decimal place.
pub(crate) fn px(length: f64) -> f64 {
    (10.0 * length).round() / 10.0
}

/// Returns a round step that gives about `count` grid lines over `range`: 1, 2 or 5 times a power of
/// ten.
pub(crate) fn step(range: f64, count: f64) -> f64 {
    let raw = (range / count).max(1e-9);
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw)
}

/// Returns the beginning of every [`page`] of this kind. No other page begins with it.
pub(crate) fn beginning(kind: &str) -> String {
    let head = "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">";
    format!("{head}<meta name=\"generator\" content=\"{kind}\">")
}

/// Makes a page from its kind (shown in small letters), its title, a description, its sections and its foot.
pub(crate) fn page(kind: &str, title: &str, about: Markup, sections: Markup, foot: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content=(kind);
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width";
                meta name="color-scheme" content="light dark";
                title { (title) " - " (kind) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { p.kind { (kind) } h1 { (title) } (about) }
                main id="main" tabindex="-1" { (sections) }
                footer { (foot) }
            }
        }
    };
    visible(&page.into_string()) + "\n"
}

/// Replaces invisible characters, and characters that change the direction of the text, by U+FFFD.
fn visible(text: &str) -> String {
    text.chars().map(|each| if each.is_whitespace() || printable(each) { each } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_an_element_or_an_attribute_nor_turn_the_direction_of_what_follows() {
        let text = "<a b='c' d=\"e\">&\u{202e}b\u{2067}c\u{0}d\u{200b}e\nf";
        let shown = "&lt;a b='c' d=&quot;e&quot;&gt;&amp;\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e\nf";
        let page = page("kind", text, html! {}, html! { p title=(text) { "x" } }, html! {});
        assert!(page.contains(&format!("<h1>{shown}</h1>")), "{page}");
        assert!(page.contains(&format!("<p title=\"{shown}\">x</p>")), "{page}");
        // Names in any script are not changed.
        for name in ["gr\u{fc}n", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{4f60}\u{597d}", "\u{1f41d}"] {
            assert_eq!(visible(name), name);
        }
    }

    #[test]
    fn percent_and_times_are_as_people_say_them() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.001, "0.1 %"),
            (0.0001, "0.1 %"),
            (0.931, "93 %"),
            (0.9951, "99.5 %"),
            (0.9999, "99.9 %"),
            (1.0, "100 %"),
            (f64::NAN, "NaN %"),
        ] {
            assert_eq!(whole(share), text, "{share}");
        }
        assert_eq!(date("2026-11-26T14:05:59Z"), "26 November 2026, 14:05 UTC");
        assert_eq!(date("2026-01-02T00:00:00Z"), "2 January 2026, 00:00 UTC");
        for other in ["", "T:Z", "2026-13-26T14:05:59Z", "2026-00-26T14:05:59Z", "<T14:05:59Z", "yesterday"] {
            assert_eq!(date(other), other);
        }
        for (count, text) in [(999.0, "999 B"), (1234.0, "1.2 kB"), (9960.0, "10 kB"), (12.4e6, "12 MB")] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn a_caption_is_escaped_where_it_is_shown_and_where_it_is_read_aloud() {
        let made = table("\"<b>", &["x"], [cells!["1"]]).into_string();
        assert_eq!(made.matches("&quot;&lt;b&gt;").count(), 2);
        assert!(!made.contains("<b>"));
        let made = picture((1.0, 1.0), None, "\"<b>", "\"<i>", html! {}).into_string();
        assert!(
            made.contains("role=\"img\"><title>&quot;&lt;b&gt;</title><desc>&quot;&lt;i&gt;</desc>"),
            "{made}"
        );
    }
}
