//! The demo's result for people.

use std::fmt::Write;

use serde_json::Value;

/// The table that `demo` prints at its end.
pub(super) fn render(result: &Value) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, result);
    out
}

fn write(out: &mut String, result: &Value) -> std::fmt::Result {
    let percent = |value: &Value| value["accuracy"].as_f64().unwrap_or_default() * 100.0;
    let digest =
        |value: &Value| value["digest"].as_str().unwrap_or_default().chars().take(16).collect::<String>();
    // JSON values do not pad themselves.
    let number = |value: &Value| value.to_string();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    writeln!(out, "\n{:<10} {:>6} {:>12}   {:<18} {:>8}", "peer", "rows", "bytes sent", "model", "accuracy")?;
    for peer in list(&result["peers"]) {
        writeln!(
            out,
            "{:<10} {:>6} {:>12}   {:<18} {:>7.1}%",
            peer["name"].as_str().unwrap_or_default(),
            number(&peer["rows"]),
            number(&peer["bytes_sent"]),
            digest(&peer),
            percent(&peer),
        )?;
    }
    let names = |value: &Value| list(value).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let drawn = !list(&result["chosen"]).is_empty();
    let row = |out: &mut String, name: &str, rows: &Value, digest: &str, percent: f64| {
        writeln!(out, "{name:<10} {:>6} {:>12}   {digest:<18} {percent:>7.1}%", number(rows), "")
    };
    row(out, "pooled", &result["rows"]["train"], &digest(&result["pooled"]), percent(&result["pooled"]))?;
    writeln!(
        out,
        "{}",
        match (result["equal"] == Value::Bool(true), result["noise"].is_null()) {
            (true, true) if drawn =>
                "All models are equal to the one trained on the drawn peers' rows in one place, bit for bit.",
            (true, true) => "All models are equal to the one trained on the pooled rows, bit for bit.",
            (true, false) => "All models are equal, and have noise; the pooled one is the same without.",
            (false, _) => "THE MODELS ARE NOT EQUAL.",
        }
    )?;
    if drawn {
        writeln!(out, "Drawn by the distances of their sketches: {}.", names(&result["chosen"]))?;
    }
    writeln!(out, "\nFor comparison, on the same {} held-out rows:", result["rows"]["test"])?;
    if drawn {
        let all = format!("FlyNN on all {} rows", result["rows"]["all"]);
        writeln!(out, "  {all:<42} {:>6.1}%", percent(&result["everybody"]))?;
    }
    let alone = format!("FlyNN on the {} rows of one peer alone", result["alone"]["rows"]);
    writeln!(out, "  {alone:<42} {:>6.1}%", percent(&result["alone"]))?;
    writeln!(out, "  {:<42} {:>6.1}%", "1NN on the pooled rows", percent(&result["nearest"]))?;
    let tuned = format!("kNN on the pooled rows (tuned: k = {})", result["knn"]["k"]);
    writeln!(out, "  {tuned:<42} {:>6.1}%", percent(&result["knn"]))?;
    writeln!(out, "\n{:<20} {:>8} {:>12}", "stage", "seconds", "bytes")?;
    for stage in list(&result["stages"]) {
        let name = stage["name"].as_str().unwrap_or_default();
        writeln!(
            out,
            "{name:<20} {:>8.2} {:>12}",
            stage["seconds"].as_f64().unwrap_or_default(),
            number(&stage["bytes"])
        )?;
    }
    let seconds = result["seconds"].as_f64().unwrap_or_default();
    writeln!(out, "\nCounted: {}. {seconds:.1} s in all.", names(&result["members"]))
}
