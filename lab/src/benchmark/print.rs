//! Prints results of many sets as tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::json;

use flyswarm_learn::tuning::Metric;

use crate::nested::{Figures, Method, SetResult};
use crate::statistics::{Comparison, normalised};

/// Selects the nested or the optimistic figure.
type Figure = fn(&Figures) -> f64;
const NESTED: Figure = |figures| figures.nested;
const OPTIMISTIC: Figure = |figures| figures.optimistic;

/// Returns the figure of a method on a set.
fn of(result: &SetResult, metric: Metric, method: Method, figure: Figure) -> Option<f64> {
    result.figures.get(&metric)?.get(&method).map(figure)
}

/// Compares two methods over all sets that have both of them and kNN.
fn compared(
    results: &[SetResult],
    metric: Metric,
    first: Method,
    second: Method,
    figure: Figure,
) -> Option<Comparison> {
    let accuracies: Vec<_> = results
        .iter()
        .filter_map(|result| {
            let of = |method| of(result, metric, method, figure);
            Some((of(first)?, of(second)?, of(Method::Knn)?))
        })
        .collect();
    Comparison::new(&accuracies)
}

/// The methods that are compared with each baseline.
const OURS: [Method; 3] = [Method::Flynn, Method::FlynnDefault, Method::FlynnPublished];
const BASELINES: [Method; 4] = [Method::Knn, Method::KnnRaw, Method::OneNn, Method::Sbfc];

/// Returns every set on a line, then Table 2 for each of our methods, nested and optimistic.
pub(super) fn table_2(results: &[SetResult], metric: Metric) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_table_2(&mut out, results, metric);
    out
}

fn write_table_2(out: &mut String, results: &[SetResult], metric: Metric) -> std::fmt::Result {
    let width = results.iter().map(|result| result.name.len()).max().unwrap_or(0).max(4);
    let what = match metric {
        Metric::Balanced => "balanced accuracy",
        Metric::Accuracy => "accuracy",
    };
    writeln!(
        out,
        "Nested {what}: settings are chosen on inner folds, scored on outer rows they have not seen.\n"
    )?;
    write!(out, "{:<width$} {:>6} {:>4} {:>3}", "set", "n", "d", "L")?;
    for method in Method::ALL {
        write!(out, "  {:>8}", short(method))?;
    }
    writeln!(out, "  best setting of FlyNN over all folds")?;
    for result in results {
        write!(
            out,
            "{:<width$} {:>6} {:>4} {:>3}",
            result.name, result.rows, result.features, result.classes
        )?;
        for method in Method::ALL {
            match of(result, metric, method, NESTED) {
                Some(value) => write!(out, "  {value:>8.4}")?,
                None => write!(out, "  {:>8}", "-")?,
            }
        }
        let setting = result.figures.get(&metric).and_then(|figures| figures.get(&Method::Flynn));
        writeln!(out, "  {}", setting.map_or("", |figures| &figures.setting))?;
    }
    for (figure, title) in [
        (NESTED, "Nested"),
        (OPTIMISTIC, "OPTIMISTIC, as the paper reports: the best setting over the folds that chose it"),
    ] {
        writeln!(out, "\n{title}; normalised by tuned kNN")?;
        let head = ["method", "against", "frac.", "W/T/L", "median imp.", "t-test", "Wilcoxon"];
        let [method, against, frac, wtl, imp, t, w] = head;
        writeln!(out, "{method:<20} {against:<8} {frac:>5} {wtl:>10} {imp:>12} {t:>10} {w:>10}")?;
        for ours in OURS {
            for baseline in BASELINES {
                let Some(found) = compared(results, metric, ours, baseline, figure) else { continue };
                let Comparison { sets, wins, ties, losses, median_improvement, t_test, wilcoxon } = found;
                let p = |p: Option<f64>| p.map_or("-".into(), |p| format!("{p:.2e}"));
                writeln!(
                    out,
                    "{:<20} {:<8} {:>5.2} {:>10} {:>11.2}% {:>10} {:>10}",
                    ours.name(),
                    baseline.name(),
                    wins as f64 / sets as f64,
                    format!("{wins}/{ties}/{losses}"),
                    median_improvement * 100.0,
                    p(t_test),
                    p(wilcoxon),
                )?;
            }
        }
    }
    Ok(())
}

fn short(method: Method) -> &'static str {
    match method {
        Method::FlynnPublished => "publ.",
        Method::FlynnDefault => "default",
        other => other.name(),
    }
}

/// Returns normalised accuracy by kind of set (the name up to its last dash): mean and deviation, nested
/// and optimistic.
pub(super) fn table_1(results: &[SetResult], metric: Metric) -> String {
    let mut out = String::new();
    let _ = write_table_1(&mut out, results, metric);
    out
}

fn write_table_1(out: &mut String, results: &[SetResult], metric: Metric) -> std::fmt::Result {
    let mut groups: BTreeMap<&str, Vec<&SetResult>> = BTreeMap::new();
    for result in results {
        let kind = result.name.rsplit_once('-').map_or(&*result.name, |(kind, _)| kind);
        groups.entry(kind).or_default().push(result);
    }
    let methods = Method::ALL.into_iter().filter(|method| *method != Method::Knn);
    for (figure, title) in [
        (NESTED, "nested"),
        (OPTIMISTIC, "OPTIMISTIC, as the paper reports: the best setting over the folds that chose it"),
    ] {
        writeln!(
            out,
            "Normalised {metric} accuracy, mean and deviation over sets; negative is better than kNN; {title}"
        )?;
        write!(out, "{:<18} {:>5}", "kind-n-d", "sets")?;
        for method in methods.clone() {
            write!(out, "  {:>15}", short(method))?;
        }
        writeln!(out)?;
        for (kind, results) in &groups {
            write!(out, "{kind:<18} {:>5}", results.len())?;
            for method in methods.clone() {
                let values: Vec<f64> = results
                    .iter()
                    .filter_map(|result| {
                        let reference = of(result, metric, Method::Knn, figure)?;
                        Some(normalised(of(result, metric, method, figure)?, reference))
                    })
                    .collect();
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let deviation =
                    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
                write!(out, "  {:>15}", format!("{mean:.3} +- {deviation:.3}"))?;
            }
            writeln!(out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns all figures as JSON.
pub(super) fn json(results: &[SetResult], metric: Metric) -> String {
    let comparisons: Vec<_> = [(NESTED, "nested"), (OPTIMISTIC, "optimistic")]
        .into_iter()
        .flat_map(|(figure, kind)| {
            let pairs = OURS.into_iter().flat_map(|ours| BASELINES.map(|baseline| (ours, baseline)));
            pairs.filter_map(move |(ours, baseline)| {
                let found = compared(results, metric, ours, baseline, figure)?;
                Some(json!({"figures": kind, "method": ours, "against": baseline, "comparison": found}))
            })
        })
        .collect();
    let value = json!({"metric": metric, "comparisons": comparisons, "sets": results});
    format!("{value:#}\n")
}
