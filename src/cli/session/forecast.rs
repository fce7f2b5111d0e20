//! `flyswarm session forecast`: what a private session may be worth, before it spends anything.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::load;
use crate::cli::tune::at_least;
use crate::cli::{Failure, print};
use crate::forecast::{Forecast, forecast};
use crate::session::Session;
use crate::tasks::RoundNoise;

/// Estimates how good the model of a private session will be, on made-up rows: no row of any peer is looked
/// at, and no budget spent
#[derive(Debug, Args)]
pub(in crate::cli) struct ForecastArguments {
    /// The session file
    file: PathBuf,
    /// Rows that a peer has
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    rows: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ForecastArguments {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let session = load(&self.file)?;
        if let Some(found) = noise_of_rounds(&session) {
            let text = if self.json { format!("{:#}\n", found.json()) } else { found.line() + "\n" };
            return print(out, &text);
        }
        let Some(found) = estimate(&session, self.rows)? else {
            let text = "a forecast is for a session of the task flynn or fedavg with privacy.epsilon; try `tune` for others";
            return Err(Failure::Input(format!("{}: {text}", self.file.display())));
        };
        if !self.json {
            return print(out, &(line(&session, self.rows, &found) + "\n"));
        }
        let value = json!({
            "rows_each": self.rows, "rows": found.rows, "balanced_accuracy": found.private,
            "least": found.least, "most": found.most, "without_noise": found.plain, "by_guessing": found.chance,
            "useful": found.is_useful(),
        });
        print(out, &format!("{value:#}\n"))
    }
}

/// What the noise of a private session of the task `fedavg` does to a network where all peers take part.
pub(in crate::cli) struct Rounds {
    noise: RoundNoise,
    weights: usize,
    members: usize,
}

/// The noise to expect; `None` for another session.
pub(in crate::cli) fn noise_of_rounds(session: &Session) -> Option<Rounds> {
    let spec = session.task.get::<crate::tasks::FedavgSpec>()?;
    let weights = spec.weights(&session.data);
    Some(Rounds { noise: spec.noise(session)?, weights, members: session.roster.len() })
}

impl Rounds {
    /// Whether updates can be told from the noise at all.
    pub(in crate::cli) fn is_useful(&self) -> bool {
        self.noise.drowns(self.members, self.weights) <= 1.0
    }

    pub(in crate::cli) fn json(&self) -> serde_json::Value {
        let Self { noise, weights, members } = self;
        json!({
            "epsilon": noise.epsilon, "delta": noise.delta.to_f64(), "rho": noise.rho(), "rounds": noise.rounds,
            "weights": weights, "longest_update": noise.clip, "noise_per_weight": noise.per_weight(*members),
            "noise_to_updates": noise.drowns(*members, *weights), "useful": self.is_useful(),
        })
    }

    /// One line for people.
    pub(in crate::cli) fn line(&self) -> String {
        let Self { noise, weights, members } = self;
        let each = noise.per_weight(*members);
        let length = each * (*weights as f64).sqrt();
        let verdict = if self.is_useful() { "" } else { ": of little use" };
        format!(
            "forecast: in each of {} rounds noise of {each:.2e} on every weight, of length {length:.3} over {weights} \
             weights; an update is at most {} long. After all rounds the noise is {:.2} times as long as all \
             updates can add up to{verdict}. {members} peers, epsilon {}, delta {:?}, rho {:.4}",
            noise.rounds,
            noise.clip,
            noise.drowns(*members, *weights),
            noise.epsilon,
            noise.delta.to_f64(),
            noise.rho(),
        )
    }
}

/// The forecast for peers with so many rows each; `None` where the session has no noise to pay for.
pub(in crate::cli) fn estimate(session: &Session, rows_each: usize) -> Result<Option<Forecast>, Failure> {
    forecast(session, rows_each, 0).map_err(|error| Failure::Input(format!("forecast: {error}")))
}

/// One line for people.
pub(in crate::cli) fn line(session: &Session, rows_each: usize, found: &Forecast) -> String {
    let Forecast { private, least, most, plain, chance, .. } = found;
    let (m, epsilon, top) = match (session.task.model(), &session.privacy.noise) {
        (Some(model), Some(noise)) => (model.m, noise.epsilon.to_string(), noise.top),
        _ => (0, String::new(), 0),
    };
    let verdict = if found.is_useful() { "" } else { ": of little use" };
    format!(
        "forecast: balanced accuracy about {private:.2} ({least:.2} to {most:.2}){verdict}; {plain:.2} without noise, \
         {chance:.2} by guessing; made-up rows, {} peers of {rows_each}, {} classes, m {m}, T {top}, epsilon {epsilon}",
        session.roster.len(),
        session.data.classes.len()
    )
}
