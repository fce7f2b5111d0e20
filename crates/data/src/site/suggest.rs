//! Drafts a map file from the problems of a peer's own file, for a person to review.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::DatePattern;
use crate::prepare::TableSchema;
use crate::prepare::problems::{Problem, Problems, Trouble, near};
use crate::prepare::value::{NoNumber, is_no_value, looks_missing};

/// Formats of dates that are tried.
pub(crate) const PATTERNS: [&str; 12] = [
    "dd.mm.yyyy",
    "dd/mm/yyyy",
    "mm/dd/yyyy",
    "dd-mm-yyyy",
    "yyyy/mm/dd",
    "dd.mm.yy",
    "dd/mm/yy",
    "mm/dd/yy",
    "dd-mmm-yyyy",
    "dd mmm yyyy",
    "mmm dd, yyyy",
    "ddmmyyyy",
];
/// Number of texts of a column that are listed.
const LISTED: usize = 100;

/// Returns the columns of the file that are probably described columns under other names. The map gives the
/// agreed name for the name in the file.
#[must_use]
pub fn renames(problems: &Problems) -> BTreeMap<String, String> {
    let near = problems.list.iter().filter_map(|problem| match &problem.trouble {
        Trouble::NoColumn(Some(near)) => Some((near.clone(), problem.column.clone())),
        _ => None,
    });
    near.collect()
}

/// The lines of a column.
#[derive(Default)]
struct Lines {
    own: String,
    values: String,
}

/// Returns the lines of a map file for this file of rows. `renamed` are names that count as agreed. Open
/// questions become comments that name the decision.
#[must_use]
pub fn draft(
    problems: &Problems,
    renamed: &BTreeMap<String, String>,
    schema: &TableSchema,
    classes: &[String],
    comma: bool,
) -> String {
    let mut head = String::new();
    let mut rename: String = renamed.iter().map(|(from, to)| format!("{from:?} = {to:?}\n")).collect();
    let mut columns: BTreeMap<&str, Lines> = BTreeMap::new();
    let mut decimal = false;
    for problem in &problems.list {
        let name = problem.column.as_str();
        match &problem.trouble {
            Trouble::OtherNames(_) => {}
            Trouble::NoColumn(_) => {
                put(&mut rename, format_args!("# \"?\" = {name:?}  # the file has no such column"));
            }
            Trouble::Twice | Trouble::Fields(_) | Trouble::Encoding => {
                put(&mut head, format_args!("# {}", problem.to_string().replace('\n', " ")));
            }
            trouble => {
                if *trouble == Trouble::Number(NoNumber::OtherDecimal) && !decimal {
                    decimal = true;
                    put(&mut head, format_args!("decimal_comma = {}", !comma));
                }
                of_column(problem, schema, classes, columns.entry(name).or_default());
            }
        }
    }
    let lacks = |problem: &Problem| matches!(problem.trouble, Trouble::NoColumn(_));
    if problems.list.iter().any(lacks) && !problems.left_out.is_empty() {
        let names = problems.left_out.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        put(&mut rename, format_args!("# columns of this file that the session does not name: {names}"));
    }
    let mut out = head;
    if !rename.is_empty() {
        put(
            &mut out,
            format_args!("\n[rename]  # name in this file = name in the session\n{}", rename.trim_end()),
        );
    }
    for (name, Lines { own, values }) in columns {
        if !own.is_empty() {
            put(&mut out, format_args!("\n[columns.{name:?}]\n{}", own.trim_end()));
        }
        if !values.is_empty() {
            let values = values.trim_end();
            put(&mut out, format_args!("\n[columns.{name:?}.values]  # \"\" is a missing value\n{values}"));
        }
    }
    out.trim_start().to_owned()
}

fn put(out: &mut String, line: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{line}");
}

fn of_column(problem: &Problem, schema: &TableSchema, classes: &[String], lines: &mut Lines) {
    let column = schema.columns.iter().find(|column| column.name == problem.column);
    let texts = || problem.texts.iter().map(|(text, _)| text.as_str());
    let rows = problem.rows;
    let Lines { own, values } = lines;
    match &problem.trouble {
        Trouble::Missing => put(own, format_args!("# fill = \"?\"  # {rows} rows have no value")),
        Trouble::NoLabel => put(own, format_args!("# {rows} rows have no label: leave them out")),
        Trouble::NoGroup => {
            put(own, format_args!("# {rows} rows have no group: give each row its own group"))
        }
        Trouble::Outside(limits) => {
            let text = texts().next().unwrap_or_default();
            put(
                own,
                format_args!(
                    "# factor = 1.0  # {rows} rows, such as {text:?}, are outside {limits}: other units?"
                ),
            );
        }
        Trouble::Date(_) => {
            let written: Vec<&str> = texts().filter(|text| !looks_missing(text)).collect();
            let reads = |pattern: &&str| {
                let pattern = pattern.parse::<DatePattern>().ok();
                pattern.is_some_and(|pattern| written.iter().all(|text| pattern.read(text).is_some()))
            };
            let found: Vec<&str> = PATTERNS.into_iter().filter(reads).collect();
            let such = written.first().copied().unwrap_or_default();
            match found[..] {
                _ if written.is_empty() => {}
                [] => put(own, format_args!("# date = \"?\"  # such as {such:?}")),
                [one] => put(own, format_args!("date = {one:?}  # such as {such:?}")),
                [one, ..] => {
                    let more = found[1..].join(", ");
                    put(own, format_args!("# date = {one:?}  # or {more}: {such:?} fits all"));
                }
            }
            texts()
                .filter(|text| looks_missing(text))
                .for_each(|text| put(values, format_args!("{text:?} = \"\"")));
        }
        Trouble::Number(why) => {
            for text in texts().take(LISTED) {
                match why {
                    NoNumber::OtherDecimal => {}
                    NoNumber::Missing => put(values, format_args!("{text:?} = \"\"")),
                    NoNumber::Limit => {
                        put(
                            values,
                            format_args!("# {text:?} = \"?\"  # agree on a number; half the limit is usual"),
                        );
                    }
                    _ => put(values, format_args!("# {text:?} = \"?\"  # a number")),
                }
            }
        }
        Trouble::Level | Trouble::OtherCodes(_) | Trouble::Class(_) => {
            let known = column.map_or(classes, |column| column.levels());
            let shown = known.iter().take(12).map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
            for text in texts().take(LISTED) {
                match near(text, known) {
                    Some(near) => put(values, format_args!("{text:?} = {near:?}")),
                    None if is_no_value(text) => put(values, format_args!("{text:?} = \"\"")),
                    None => put(values, format_args!("# {text:?} = \"?\"  # one of {shown}")),
                }
            }
        }
        Trouble::OtherNames(_)
        | Trouble::NoColumn(_)
        | Trouble::Twice
        | Trouble::Fields(_)
        | Trouble::Encoding => {}
    }
}
