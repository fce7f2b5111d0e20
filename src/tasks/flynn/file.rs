//! Shows the file of a model in `flyswarm inspect`.

use flyswarm_data::scaling::Scaling;
use serde_json::{Value, json};

use crate::model::Model;
use crate::model::file::{MAGIC, VERSION};
use crate::model::outside::ColumnRange;
use crate::tasks::{Contents, ResultFile};

/// File type: a model.
pub(super) const MODEL: ResultFile =
    ResultFile { name: "a model", recognised: |bytes| bytes.starts_with(MAGIC), contents: Some(contents) };

/// Reads the contents of a model's file.
fn contents(bytes: &[u8]) -> Result<Contents, String> {
    let model = Model::decode(bytes).map_err(|error| error.to_string())?;
    let parameters = model.sketch().parameters();
    let classes = model.classes();
    let sums: Vec<u64> =
        (0..classes.len()).map(|l| model.counts().class(l).iter().map(|&c| u64::from(c)).sum()).collect();
    let taken = model.counts().values().iter().filter(|&&c| c > 0).count();
    let share = taken as f64 / model.counts().values().len() as f64;
    let rows = model.class_rows();
    let json = json!({
            "kind": "model",
            "digest": hex::encode(model.digest()),
            "d": parameters.d, "m": parameters.m, "s": parameters.s, "rho": parameters.rho,
            "gamma": model.readout().gamma,
            "score": model.readout().score,
            "calibration": model.calibration().map(|calibration| json!({
                "number": calibration.number(), "sharpness": calibration.sharpness(),
            })),
            "densify": parameters.densify,
            "scaling": parameters.scaling.name(),
            "seed": hex::encode(parameters.seed),
            "classes": classes,
            "counts_per_class": sums,
            "rows_per_class": rows,
            "share_of_counts_above_0": share,
            "columns": columns_json(&model),
            "origin": model.origin().map(|origin| json!({
                "session": origin.session, "id": hex::encode(origin.id), "members": origin.members,
                "roster": origin.roster, "noise": origin.noised, "protocol": origin.protocol,
                "program": origin.program, "unix": origin.unix, "date": origin.date(),
            })),
    });
    let mut lines = vec![
        format!("flyswarm model, version {}", VERSION),
        format!("digest    {}", hex::encode(model.digest())),
    ];
    if let Some(origin) = model.origin() {
        let noise = if origin.noised { ", noise added" } else { "" };
        let (counted, roster) = (origin.members.len(), origin.roster);
        lines.extend([
            format!("session   {} {}", origin.session, hex::encode(origin.id)),
            format!("counted   {counted} of {roster} peers{noise}: {}", origin.members.join(", ")),
            format!("written   {} by {}, protocol {}", origin.date(), origin.program, origin.protocol),
        ]);
    }
    let names = if model.columns().is_empty() { "no names".into() } else { model.columns().join(", ") };
    lines.extend([
        format!("features  {}: {names}", parameters.d),
        format!(
            "scaling   {}{}",
            parameters.scaling.name(),
            if parameters.densify { ", densified" } else { "" }
        ),
        format!("sketch    m {}, s {}, rho {}", parameters.m, parameters.s, parameters.rho),
        format!("score     {}, gamma {}", model.readout().score, model.readout().gamma),
        match model.calibration() {
            Some(fitted) => format!("calibrated on held-out rows, sharpness {}", fitted.sharpness()),
            None => "not calibrated: no held-out rows, so its probabilities are cautious".into(),
        },
        format!("seed      {}", hex::encode(parameters.seed)),
        format!("counts    {:.1} % above 0", 100.0 * share),
    ]);
    let width = classes.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    match rows {
        Some(rows) => {
            let all: u64 = rows.iter().sum::<u64>().max(1);
            lines.push(format!("classes   {}, with the rows learnt and their share:", classes.len()));
            let share = |rows: u64| 100.0 * rows as f64 / all as f64;
            let line = |(name, &rows)| format!("  {name:width$}  {rows} ({:.1} %)", share(rows));
            lines.extend(classes.iter().zip(&rows).map(line));
        }
        None => {
            lines.push(format!(
                "classes   {}, with the sum of their counts (noise was added):",
                classes.len()
            ));
            lines.extend(classes.iter().zip(&sums).map(|(name, sum)| format!("  {name:width$}  {sum}")));
        }
    }
    Ok(Contents { kind: "model", digest: model.digest(), text: lines.join("\n"), json })
}

/// Returns the name, the kind and the known values of each column.
fn columns_json(model: &Model) -> Value {
    // A file of a few bytes can claim to have a million columns, for which it has no values.
    let known = model.scaler().means().len();
    let each = matches!(model.scaler().scaling(), Scaling::Range { lo, .. } if lo.len() > 1);
    if model.columns().is_empty() && known == 0 && !each {
        return Value::Null;
    }
    let column = |place: usize| {
        let name = model.columns().get(place);
        match model.known(place) {
            ColumnRange::Spread(mean, 0.0) => {
                json!({"name": name, "kind": "constant", "mean": mean, "deviation": 0.0})
            }
            ColumnRange::Spread(mean, deviation) => {
                json!({"name": name, "kind": "number", "mean": mean, "deviation": deviation})
            }
            ColumnRange::Mean(mean) => json!({"name": name, "kind": "number", "mean": mean}),
            ColumnRange::Bounds(lo, hi) => json!({"name": name, "kind": "number", "lo": lo, "hi": hi}),
            ColumnRange::Nothing => json!({"name": name, "kind": "number"}),
        }
    };
    (0..model.sketch().parameters().d).map(column).collect()
}
