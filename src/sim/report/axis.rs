//! A time axis on which periods without events are shortened.

use crate::sim::outcome::RunReport;

/// Width of a shortened period.
const CUT: f64 = 44.0;

/// An interval of time in microseconds, and its position in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) left: f64,
    pub(super) right: f64,
    /// True if no peer is in a view.
    pub(super) idle: bool,
}

/// A time axis in pieces. Some of them are shortened.
#[derive(Clone, Debug)]
pub(super) struct Axis(pub(super) Vec<Stretch>);

impl Axis {
    /// Makes the axis of a run, from its first event until the last peer has the result, between `left`
    /// and `right`.
    pub(super) fn new(run: &RunReport, left: f64, right: f64) -> Self {
        let spans = run.hosts.iter().flat_map(|host| &host.spans).filter(|span| span.stage.is_some());
        let mut busy: Vec<_> = spans.map(|span| (span.from, span.to.max(span.from + 1))).collect();
        busy.sort_unstable();
        let last = busy.iter().map(|span| span.1).max().unwrap_or(0);
        let marks = run.marks.iter().map(|mark| mark.at_ms * 1000);
        let end = marks.chain([run.finished_ms * 1000, last, 1000]).max().unwrap_or(1000);
        let total: u64 = merge(&busy, 0).iter().map(|(from, to)| to - from).sum();
        let merged = merge(&busy, total / 8);
        let mut stretches: Vec<(u64, u64, bool)> = Vec::new();
        let mut at = 0;
        for (from, to) in merged {
            if from > at {
                stretches.push((at, from, true));
            }
            stretches.push((from, to, false));
            at = to;
        }
        if end > at {
            stretches.push((at, end, true));
        }
        let idle = stretches.iter().filter(|stretch| stretch.2).count() as f64;
        let busy: u64 = stretches.iter().filter(|stretch| !stretch.2).map(|(from, to, _)| to - from).sum();
        let room = right - left - idle * CUT;
        let mut x = left;
        let placed = stretches.into_iter().map(|(from, to, idle)| {
            let width = if idle { CUT } else { room * (to - from) as f64 / busy.max(1) as f64 };
            let stretch = Stretch { from, to, left: x, right: x + width, idle };
            x += width;
            stretch
        });
        Self(placed.collect())
    }

    /// Returns the position of a time in the picture.
    pub(super) fn x(&self, us: u64) -> f64 {
        let stretch = self.0.iter().find(|stretch| us <= stretch.to).or(self.0.last());
        stretch.map_or(0.0, |stretch| {
            let part = us.saturating_sub(stretch.from) as f64 / (stretch.to - stretch.from).max(1) as f64;
            stretch.left + (stretch.right - stretch.left) * part.min(1.0)
        })
    }
}

/// Joins intervals if the gap between them is at most `gap`.
fn merge(sorted: &[(u64, u64)], gap: u64) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for &(from, to) in sorted {
        match out.last_mut() {
            Some(last) if from <= last.1 + gap => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
