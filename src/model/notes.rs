//! Lines for the user about rows that are used with a model or a network.

use flyswarm_data::notices::listed;

use super::Model;
use super::outside::ColumnRange;
use crate::data::Loaded;
use crate::data::prepare::TableSchema;

/// Maximum number of categories that a line lists.
const SHOWN: usize = 8;

/// Returns a line about how columns were matched by name with those of the model.
pub(crate) fn matched(model: &Model, loaded: &Loaded) -> Option<&'static str> {
    match (model.columns().is_empty(), loaded.columns.is_empty()) {
        _ if model.preparation().is_some() => None,
        _ if loaded.reordered => Some("columns reordered by name to match the model"),
        (false, true) => {
            Some("has no column names: the columns are used in the order of the model, names are not checked")
        }
        (true, false) => Some(
            "the model has no column names: the columns are used in the order of the file, names are not \
             checked",
        ),
        (true, true) => Some("the file and the model have no column names: names are not checked"),
        (false, false) => None,
    }
}

/// Returns a line if labelled rows lack the group column.
pub(crate) fn ungrouped(table: &TableSchema, loaded: &Loaded) -> Option<String> {
    let group = table.group.as_ref().filter(|_| loaded.data.groups().is_none())?;
    Some(format!(
        "no column {group:?}: rows of one group can be both training and test rows, so results look too \
         good"
    ))
}

/// Returns a line about columns that were left out because they are not described.
pub(crate) fn left_out(loaded: &Loaded) -> Option<String> {
    let names = loaded.left_out.iter().map(|name| format!("{name:?}"));
    (!loaded.left_out.is_empty()).then(|| listed("columns that are not described are ignored", names))
}

/// Returns a line about levels that the model does not have.
pub(crate) fn unseen(loaded: &Loaded) -> Option<String> {
    let shown = loaded.unseen.iter().take(SHOWN);
    let shown = shown.map(|unseen| format!("{:?} {:?} in {} rows", unseen.column, unseen.level, unseen.rows));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match loaded.unseen.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!shown.is_empty()).then(|| format!("unknown categories, treated as missing: {shown}{more}"))
}

/// Returns a line about rows that are far outside the range of the model's training rows.
pub(crate) fn outside(model: &Model, loaded: &Loaded) -> Option<String> {
    let (columns, rows) = model.outside(&loaded.data);
    let shown = columns.iter().map(|outside| {
        let names =
            [model.columns(), &loaded.columns].into_iter().find_map(|names| names.get(outside.column));
        let name =
            names.map_or_else(|| format!("feature {}", outside.column + 1), |name| format!("{name:?}"));
        let learnt = match model.known(outside.column) {
            ColumnRange::Spread(mean, 0.0) => format!("always {mean:.4} in training"),
            ColumnRange::Spread(mean, deviation) => format!("in training {mean:.4} +- {deviation:.4}"),
            ColumnRange::Bounds(lo, hi) => format!("bounds {lo} to {hi}"),
            ColumnRange::Mean(_) | ColumnRange::Nothing => String::new(),
        };
        format!("{name} in {} ({learnt}; farthest {})", outside.rows, outside.farthest)
    });
    let all = loaded.data.rows();
    let what = format!("{rows} of {all} rows are far outside the range of the training rows");
    (!columns.is_empty()).then(|| listed(&what, shown))
}
