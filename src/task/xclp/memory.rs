//! The memory of a computing party, and who is refused for want of it.

use flyswarm_kernels::shares::program;

use crate::model::propagation::integer::Settings;
use crate::session::{Peer, Session, XclpSpec};

use super::MOST_POINTS;

/// What a process takes that does not compute (measured: 80 MB), and what its threads keep.
const PROCESS: u64 = 112_000_000;
const MEGABYTE: u64 = 1_000_000;

/// The most bytes that a computing party takes: what it holds, and three tenths of it for what the allocator
/// keeps and for messages on their way (`scripts/bench-xclp.py` says what processes took).
pub(crate) fn party_bytes(points: u64, classes: usize, settings: &Settings) -> u64 {
    PROCESS + program::memory(usize::try_from(points).unwrap_or(usize::MAX), classes, settings) / 10 * 13
}

/// Most rows together for which `megabytes` are enough.
pub(crate) fn enough_for(megabytes: u32, classes: usize, settings: &Settings) -> u64 {
    let enough = |points: u64| party_bytes(points, classes, settings) <= u64::from(megabytes) * MEGABYTE;
    let (mut least, mut above) = (0, MOST_POINTS + 1);
    while least + 1 < above {
        let middle = least.midpoint(above);
        if enough(middle) { least = middle } else { above = middle }
    }
    least
}

/// Why a view of so many points is refused.
pub(super) fn too_many(points: u64, classes: usize, spec: &XclpSpec) -> Option<String> {
    let settings = spec.settings();
    let most = enough_for(spec.memory_mb, classes, &settings);
    (points > most).then(|| {
        let needed = party_bytes(points, classes, &settings).div_ceil(MEGABYTE);
        format!(
            "{points} rows together: a computing party would take {needed} MB, and xclp.memory_mb = {} is \
             enough for {most} rows",
            spec.memory_mb
        )
    })
}

/// Why peer `me`, or a peer that is not known, cannot take part on a machine that has so many bytes left:
/// there is no room for what a computing party may take, and it may have to compute.
pub(crate) fn refusal(session: &Session, me: Option<Peer>, available: Option<u64>) -> Option<String> {
    let spec = session.task.propagation()?;
    let spared =
        |me: Peer| !spec.compute.is_empty() && !spec.compute.iter().any(|name| name == session.name(me));
    if me.is_some_and(spared) {
        return None;
    }
    let (classes, settings) = (session.data.classes.len(), spec.settings());
    let most = enough_for(spec.memory_mb, classes, &settings);
    let needed = party_bytes(most, classes, &settings);
    available.filter(|available| *available < needed).map(|available| {
        format!(
            "a computing party may take {} MB of memory, for {most} rows together (xclp.memory_mb = {}), and \
             this machine has {} MB left: name others in xclp.compute, or lower xclp.memory_mb for fewer rows",
            needed.div_ceil(MEGABYTE),
            spec.memory_mb,
            available / MEGABYTE
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_points_take_less_than_3_gb_and_2500_less_than_400_mb() {
        let settings = XclpSpec::default().settings();
        assert!(party_bytes(10_000, 10, &settings) < 3_000_000_000);
        assert!(party_bytes(2_500, 10, &settings) < 400_000_000);
        let most = enough_for(1024, 10, &settings);
        assert!(party_bytes(most, 10, &settings) <= 1_024_000_000);
        assert!(party_bytes(most + 1, 10, &settings) > 1_024_000_000);
        assert_eq!(enough_for(1, 10, &settings), 0);
        assert_eq!(enough_for(100_000, 10, &settings), MOST_POINTS);
    }
}
