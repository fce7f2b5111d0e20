//! Comparison of real processes with the simulator.
//!
//! Both run the same [`Participants`](flyswarm::sim::participants::Participants) with the same
//! randomness. So all values that do not depend on time must be equal: the result, the views, and the
//! order of each peer's stages.
//!
//! Time decides which peer first sends "I am still working" or "I have finished". So the bytes of all
//! frames may differ by [`BYTES_PERCENT`]. If a fault happens, time also decides how far the other
//! peers have got and which peer leads the next view. After a fault, only the results must agree: the
//! same peers have a result, and all results are equal.

use flyswarm::protocol::view::Stage;
use flyswarm::sim::outcome::RunReport;
use flyswarm::sim::tally::{Count, PURPOSES, Purpose, Span};
use serde::Serialize;

/// Largest allowed difference between the bytes of all encoded frames, percent.
pub(crate) const BYTES_PERCENT: f64 = 1.0;

/// Actions of one peer's processes, over all its restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Played {
    /// Stages (aggregate, stage), in the order that the peer entered them.
    pub(crate) stages: Vec<(String, Stage)>,
    /// Views that the peer entered, by ballot.
    pub(crate) views: Vec<String>,
    /// Frames that the peer sent, in the order of [`PURPOSES`].
    pub(crate) sent: Vec<Count>,
    /// Digest of the peer's result; see [`digest`](flyswarm::sim::outcome::digest).
    pub(crate) result: Option<String>,
    /// Seconds until the peer had the result.
    pub(crate) finished_s: Option<f64>,
    /// Reason why the peer ended without a result.
    pub(crate) reason: Option<String>,
}

/// One compared value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// Name of the value.
    pub(crate) what: String,
    /// Value in virtual time.
    pub(crate) simulated: String,
    /// Value for the processes.
    pub(crate) real: String,
    /// True if the values agree; `None` if they need not agree.
    pub(crate) agrees: Option<bool>,
}

/// Comparison of a run with the real processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Agreement {
    /// Name of the run.
    pub(crate) run: String,
    /// Compared values.
    pub(crate) lines: Vec<Line>,
    /// Results of the processes, in the order of the peers.
    pub(crate) played: Vec<Played>,
}

impl Agreement {
    /// Compares a run with the processes. The report lists peers one by one, so there are at most
    /// [`SHOWN`](flyswarm::sim::outcome::SHOWN).
    #[must_use]
    pub(crate) fn new(outcome: &RunReport, played: Vec<Played>) -> Self {
        let mut lines = vec![result(outcome, &played), views(outcome, &played), stages(outcome, &played)];
        lines.extend(sent(outcome, &played));
        lines.push(time(outcome, &played));
        if !outcome.marks.is_empty() {
            lines.iter_mut().skip(1).for_each(|line| line.agrees = None);
        }
        Self { run: outcome.name.clone(), lines, played }
    }

    /// Returns the first value that must agree and does not.
    #[must_use]
    pub(crate) fn difference(&self) -> Option<&Line> {
        self.lines.iter().find(|line| line.agrees == Some(false))
    }
}

fn line(what: &str, simulated: String, real: String, agrees: Option<bool>) -> Line {
    Line { what: what.into(), simulated, real, agrees }
}

/// Compares the results. The same peers must have the same result. Without a fault, it must also equal
/// the result in virtual time.
fn result(outcome: &RunReport, played: &[Played]) -> Line {
    let simulated: Vec<_> =
        outcome.hosts.iter().map(|host| host.finished_ms.and(outcome.result.as_deref())).collect();
    let real: Vec<_> = played.iter().map(|played| played.result.as_deref()).collect();
    let show = |results: &[Option<&str>]| {
        let mut digests: Vec<_> = results.iter().copied().flatten().collect();
        digests.sort_unstable();
        digests.dedup();
        let short: Vec<_> = digests.iter().map(|digest| digest.get(..16).unwrap_or(digest)).collect();
        format!("{} at {} of {}", short.join(" and "), results.iter().flatten().count(), results.len())
    };
    let common = real.iter().flatten().next().copied();
    let alike = simulated.len() == real.len()
        && simulated
            .iter()
            .zip(&real)
            .all(|(a, b)| a.is_some() == b.is_some() && (b.is_none() || *b == common));
    let agrees = if outcome.marks.is_empty() { simulated == real } else { alike };
    line("result", show(&simulated), show(&real), Some(agrees))
}

fn views(outcome: &RunReport, played: &[Played]) -> Line {
    let mut real: Vec<_> = played.iter().flat_map(|played| &played.views).collect();
    real.sort_unstable();
    real.dedup();
    line(
        "views",
        outcome.views.len().to_string(),
        real.len().to_string(),
        Some(outcome.views.len() == real.len()),
    )
}

/// Compares the stages: each peer must pass through the same stages in the same order.
fn stages(outcome: &RunReport, played: &[Played]) -> Line {
    let name = |(aggregate, stage): &(String, Stage)| format!("{aggregate}.{stage:?}").to_lowercase();
    let mut counts = (0, 0);
    let mut differs = None;
    for (host, played) in outcome.hosts.iter().zip(played) {
        let stage = |span: &Span| Some((outcome.slots.get(span.slot as usize)?.name.clone(), span.stage?));
        let simulated: Vec<_> = host.spans.iter().filter_map(stage).collect();
        counts.0 += simulated.len();
        counts.1 += played.stages.len();
        if differs.is_none() && simulated != played.stages {
            let at = simulated.iter().zip(&played.stages).take_while(|(a, b)| a == b).count();
            let show = |stages: &[(String, Stage)]| stages.get(at).map_or("nothing".into(), name);
            differs = Some((host.peer, show(&simulated), show(&played.stages)));
        }
    }
    let (simulated, real) = match &differs {
        Some((peer, simulated, real)) => {
            (format!("peer {peer}: {simulated}"), format!("peer {peer}: {real}"))
        }
        None => (format!("{} in all", counts.0), format!("{} in all", counts.1)),
    };
    line("stages in their order", simulated, real, Some(differs.is_none()))
}

fn sent(outcome: &RunReport, played: &[Played]) -> Vec<Line> {
    let real = |i: usize| {
        played.iter().filter_map(|played| played.sent.get(i)).fold(Count::default(), |sum, each| Count {
            messages: sum.messages + each.messages,
            bytes: sum.bytes + each.bytes,
        })
    };
    let simulated = |purpose: Purpose| {
        let row = outcome.purposes.iter().find(|row| row.purpose == purpose);
        row.map_or(Count::default(), |row| row.total)
    };
    let show = |count: Count| format!("{} frames, {} bytes", count.messages, count.bytes);
    let mut all = (Count::default(), Count::default());
    let mut lines = Vec::new();
    for (i, &purpose) in PURPOSES.iter().enumerate() {
        let (simulated, real) = (simulated(purpose), real(i));
        for (sum, each) in [(&mut all.0, simulated), (&mut all.1, real)] {
            sum.messages += each.messages;
            sum.bytes += each.bytes;
        }
        if simulated.messages + real.messages > 0 {
            lines.push(line(&format!("{purpose:?}").to_lowercase(), show(simulated), show(real), None));
        }
    }
    let (a, b) = (all.0.bytes as f64, all.1.bytes as f64);
    let near = (a - b).abs() <= BYTES_PERCENT / 100.0 * a;
    let apart = format!("{} ({:+.3} %)", show(all.1), 100.0 * (b - a) / a.max(1.0));
    lines.push(line("sent in all", show(all.0), apart, Some(near)));
    lines
}

fn time(outcome: &RunReport, played: &[Played]) -> Line {
    let last = played.iter().filter_map(|played| played.finished_s).fold(0.0, f64::max);
    line(
        "result after",
        format!("{:.2} s", outcome.finished_ms as f64 / 1000.0),
        format!("{last:.2} s"),
        None,
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use flyswarm::sim::run::run_all;
    use flyswarm::sim::scenario::File;

    use super::*;

    #[test]
    fn processes_that_do_something_else_than_the_simulator_says_are_found() {
        let text = "peers = 4\nseed = 1\n[task]\nkind = \"sum\"\nwords = 50\n";
        let file = File::parse(text, "test".into(), PathBuf::new(), false).unwrap();
        let outcome = run_all(&file, &mut |_| {}).unwrap().runs.remove(0);
        let name = |slot: u32| outcome.slots[slot as usize].name.clone();
        let played: Vec<_> = outcome
            .hosts
            .iter()
            .map(|host| Played {
                stages: host.spans.iter().filter_map(|span| Some((name(span.slot), span.stage?))).collect(),
                views: vec!["1".into()],
                sent: PURPOSES
                    .iter()
                    .map(|purpose| {
                        let row = outcome.purposes.iter().find(|row| row.purpose == *purpose);
                        row.filter(|_| host.peer == 0).map_or(Count::default(), |row| row.total)
                    })
                    .collect(),
                result: outcome.result.clone(),
                ..Played::default()
            })
            .collect();
        let differs = |change: &dyn Fn(&mut [Played])| {
            let mut played = played.clone();
            change(&mut played);
            Agreement::new(&outcome, played).difference().map(|line| line.what.clone())
        };
        assert_eq!(differs(&|_| {}), None);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(differs(&|played| played[2].result = some("0")), some("result"));
        assert_eq!(differs(&|played| played[2].result = None), some("result"));
        assert_eq!(differs(&|played| played[1].views = vec!["1".into(), "2".into()]), some("views"));
        assert_eq!(differs(&|played| played[3].stages.swap(2, 3)), some("stages in their order"));
        assert_eq!(differs(&|played| drop(played[3].stages.pop())), some("stages in their order"));
        let hundredth = outcome.sent.bytes / 100;
        assert_eq!(differs(&|played| played[0].sent[0].bytes += hundredth - 1), None);
        assert_eq!(differs(&|played| played[0].sent[0].bytes += hundredth + 1), some("sent in all"));
    }
}
