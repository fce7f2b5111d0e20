//! Compares the columns of some rows with those of the pool. Each column has a picture and numbers.

use flyswarm_data::prepare::value::date;
use flyswarm_learn::model::columns::{Beside, Column, Spread};
use maud::{Markup, html};

use crate::html::{cells, day, number, picture, px, table, whole};

/// Maximum number of columns that are shown.
pub(super) const MOST: usize = 30;
/// Width and height of a picture, in units of about a pixel.
const SIZE: (f64, f64) = (150.0, 22.0);

/// Makes the section. If the rows are not this peer's rows of the session, `rows` is their name.
pub(super) fn section(beside: &Beside, rows: Option<&str>) -> Markup {
    let whose =
        rows.map_or_else(|| "This peer's columns".to_owned(), |rows| format!("The columns of {rows}"));
    let pool = match beside.pool_rows {
        Some(rows) => {
            format!("all {rows} rows that were counted, with this peer's rows if they were counted")
        }
        None => "all training rows of the model".to_owned(),
    };
    let shown = &beside.columns[..beside.columns.len().min(MOST)];
    let reach = shown.iter().map(reach).filter(|reach| reach.is_finite()).fold(2.0, f64::max).min(8.0);
    html! {
        section {
            h2 { (whose) " compared with the pool" }
            p {
                "The pool is " (pool) ". In each picture the wide bar is the pool's mean plus and minus one \
                 deviation; the dot is the mean here, and the line through it shows one deviation in each \
                 direction. The distance combines the two differences, in deviations of the pool: \
                 sqrt(difference of means\u{b2} + difference of deviations\u{b2}). A large distance is not \
                 an error: patients may differ. A column of zeros and ones is shown as its share of ones."
            }
            @if shown.is_empty() {
                p { "No columns." }
            } @else {
                (table(
                    &format!("Mean \u{b1} deviation of each column over {} rows, sorted by distance", beside.rows),
                    &["column", "here and pool", "distance", "here", "pool"],
                    shown.iter().map(|column| row(column, reach, beside.dates.contains(&column.name))),
                ))
            }
            @if let Some(next) = beside.columns.get(MOST) {
                p {
                    (beside.columns.len() - MOST) " more columns are not shown; their distance is at most "
                    (number(next.distance())) " deviations."
                }
            }
        }
    }
}

/// Returns the half-width of a column's picture, in deviations of the pool.
fn reach(column: &Column) -> f64 {
    let Column { here, pool, .. } = column;
    ((here.mean - pool.mean).abs() + here.deviation) / pool.deviation
}

/// Makes the row of a column; `dated` is true for days since 1970-01-01.
fn row(column: &Column, reach: f64, dated: bool) -> Vec<Markup> {
    let Column { name, here, pool } = column;
    // A column of zeros and ones is shown only as its share of ones, which is its mean: the deviation follows
    // from it.
    let flag = [here, pool].into_iter().all(is_share);
    let dated = |mean: f64| date(mean.round()).filter(|_| dated).and_then(|text| day(&text));
    let spread = |spread: &Spread| match dated(spread.mean) {
        _ if flag => whole(spread.mean),
        Some(day) => format!("{day} \u{b1} {:.0} days", spread.deviation),
        None => format!("{} \u{b1} {}", number(spread.mean), number(spread.deviation)),
    };
    let (ours, all) = (spread(here), spread(pool));
    match column.distance() {
        far if far.is_finite() => cells![name, drawn(column, reach), format!("{far:.2}"), ours, all],
        _ => cells![name, "", "constant in the pool", ours, all],
    }
}

/// Returns whether these are the mean and the deviation of zeros and ones.
fn is_share(Spread { mean, deviation }: &Spread) -> bool {
    let expected = mean * (1.0 - mean);
    (0.0..=1.0).contains(mean) && (deviation * deviation - expected).abs() < 1e-4
}

fn drawn(column: &Column, reach: f64) -> Markup {
    let Column { name, here, pool } = column;
    let ((width, height), middle) = (SIZE, SIZE.1 / 2.0);
    // If the column is constant in the pool and has the same value here, it is drawn in the middle.
    let scale = if pool.deviation > 0.0 { pool.deviation } else { 1.0 };
    let (apart, wide) = ((here.mean - pool.mean) / scale, here.deviation / scale);
    let x = |deviations: f64| px(width / 2.0 + (width / 2.0 - 6.0) * (deviations / reach).clamp(-1.0, 1.0));
    let told = format!(
        "the mean here lies {:.2} deviations {} the pool's, and values spread {:.2} times as widely",
        apart.abs(),
        if apart < 0.0 { "below" } else { "above" },
        wide
    );
    let band = if pool.deviation > 0.0 { 1.0 } else { 0.0 };
    let parts = html! {
        rect.band x=(x(-band)) y="4" width=(px(x(band) - x(-band))) height=(height - 8.0) {}
        path.ideal d={ "M" (x(0.0)) " 2 V" (height - 2.0) } {}
        path.l0 d={ "M" (x(apart - wide)) " " (middle) " H" (x(apart + wide)) } {}
        circle.s0 cx=(x(apart)) cy=(middle) r="4.5" {}
    };
    picture((width, height), Some("spark"), name, &told, parts)
}
