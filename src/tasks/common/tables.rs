//! Tables of a result for people: as Markdown, as CSV and for the report page.

use serde_json::{Value, json};

/// A table: its title and its rows of cells. The first row has the headings.
pub(crate) type Table = (String, Vec<Vec<String>>);

/// Returns the tables as JSON for the report page, each with its caption.
pub(crate) fn pages<'a>(tables: &[Table], captions: impl IntoIterator<Item = &'a str>) -> Value {
    let page = |((title, lines), caption): (&Table, &str)| json!({"title": title, "caption": caption, "lines": lines});
    tables.iter().zip(captions).map(page).collect()
}

/// Returns tables as CSV, with an empty line between two tables. If a spreadsheet would read a cell as a
/// formula, the cell gets an apostrophe in front.
pub(crate) fn csv(tables: &[Table]) -> String {
    let cell = |cell: &String| {
        let number = |rest: &str| rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_digit());
        let formula =
            cell.starts_with(['=', '+', '@']) || cell.strip_prefix('-').is_some_and(|rest| !number(rest));
        let safe = if formula { format!("'{cell}") } else { cell.clone() };
        match safe.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", safe.replace('"', "\"\"")),
            false => safe,
        }
    };
    let line = |cells: &Vec<String>| cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\n";
    let table = |(title, lines): &Table| cell(title) + "\n" + &lines.iter().map(line).collect::<String>();
    tables.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// Returns tables as Markdown.
pub(crate) fn markdown(tables: &[Table]) -> String {
    let mut text = String::new();
    for (title, lines) in tables {
        text += &format!("\n{title}\n\n");
        for (at, cells) in lines.iter().enumerate() {
            let escaped: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            text += &format!("| {} |\n", escaped.join(" | "));
            if at == 0 {
                text += &format!("| {} |\n", vec!["---"; cells.len()].join(" | "));
            }
        }
    }
    text
}
