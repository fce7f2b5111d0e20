//! Writes settings as the lines of a session file.

use super::Outcome;
use crate::model::readout::Readout;
use flyswarm_data::scaling::Scaling;
use flyswarm_learn::tuning::Metric;
use flyswarm_learn::tuning::candidate::Candidate;

/// Returns every setting with its scores as comments, then the lines of the best setting for a session file.
pub(super) fn settings(outcome: &Outcome) -> String {
    let mut text =
        "# Cross-validated over the rows of all peers; each setting with its best readout.\n".to_owned();
    text += "# balanced accuracy  setting\n";
    for (candidate, readout, tally) in &outcome.ranked {
        let [balanced, accuracy] = Metric::ALL.map(|metric| tally.score(metric));
        text += &format!(
            "#   {balanced:.4}   {accuracy:.4}  {candidate}; {}, gamma {}\n",
            readout.score, readout.gamma
        );
    }
    if let Some((candidate, readout, _)) = outcome.ranked.first() {
        text += &format!("\n{}", session_lines(candidate, *readout));
    }
    text
}

/// Returns the lines of a session file that a setting determines.
pub(crate) fn session_lines(candidate: &Candidate, readout: Readout) -> String {
    let Candidate { m, s, rho, densify, scaling } = candidate;
    let Readout { score, gamma } = readout;
    let scaling = match scaling {
        Scaling::SoftBins(bins) => format!("{{ soft-bins = {{ bins = {bins} }} }}"),
        other => format!("\"{}\"", other.name()),
    };
    format!(
        "# in [data]\nscaling = {scaling}\ndensify = {densify}\n\n[flynn]\nm = {m}\ns = {s}\nrho = {rho}\ngamma = {gamma:?}\n\
         score = \"{score}\"\n"
    )
}
