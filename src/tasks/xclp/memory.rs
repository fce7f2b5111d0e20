//! Memory of a computing member. Sessions that need too much and peers that have too little are refused.

use flyswarm_mpc::shares::program;

use crate::session::{Peer, Session};
use crate::tasks::XclpSpec;

use super::MOST_POINTS;
use super::spec::Cheaters;

/// Memory of a process that does not compute (measured: 80 MB), including the caches of its threads.
const PROCESS: u64 = 112_000_000;
const MEGABYTE: u64 = 1_000_000;

/// Returns the largest number of bytes that a computing member needs. This is the size of its data, and three
/// tenths more for the allocator and for messages in transit (`lab/scripts/bench-xclp.py` lists the memory of
/// real processes).
pub(crate) fn party_bytes(points: u64, classes: usize, spec: &XclpSpec) -> u64 {
    let (points, settings) = (usize::try_from(points).unwrap_or(usize::MAX), spec.settings());
    let memory = if spec.hamming.is_pairwise() { program::memory_of_distances } else { program::memory };
    let proofs = match spec.cheaters {
        Cheaters::Caught => program::memory_of_proofs(points, classes, &settings),
        Cheaters::Trusted => 0,
    };
    PROCESS + (memory(points, classes, &settings) + proofs) / 10 * 13
}

/// Returns the largest total number of rows for which `megabytes` are enough.
pub(crate) fn enough_for(megabytes: u32, classes: usize, spec: &XclpSpec) -> u64 {
    let enough = |points: u64| party_bytes(points, classes, spec) <= u64::from(megabytes) * MEGABYTE;
    let (mut least, mut above) = (0, MOST_POINTS + 1);
    while least + 1 < above {
        let middle = least.midpoint(above);
        if enough(middle) { least = middle } else { above = middle }
    }
    least
}

/// Returns the reason why a view with `points` points is refused, or `None` if it is not.
pub(super) fn too_many(points: u64, classes: usize, spec: &XclpSpec) -> Option<String> {
    let most = enough_for(spec.memory_mb, classes, spec);
    (points > most).then(|| {
        let needed = party_bytes(points, classes, spec).div_ceil(MEGABYTE);
        format!(
            "{points} rows together: a computing party would take {needed} MB, and xclp.memory_mb = {} is \
             enough for {most} rows",
            spec.memory_mb
        )
    })
}

/// Returns the reason why peer `me` (or any peer, if `me` is `None`) cannot take part on a machine with
/// `available` free bytes: the peer may have to compute, and this may need more memory. Returns `None` if it
/// can take part.
pub(crate) fn refusal(session: &Session, me: Option<Peer>, available: Option<u64>) -> Option<String> {
    let spec = session.task.part::<XclpSpec>()?;
    let spared =
        |me: Peer| !spec.compute.is_empty() && !spec.compute.iter().any(|name| name == session.name(me));
    if me.is_some_and(spared) {
        return None;
    }
    let classes = session.data.classes.len();
    let most = enough_for(spec.memory_mb, classes, spec);
    let needed = party_bytes(most, classes, spec);
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
    use crate::tasks::Hamming;

    #[test]
    fn ten_thousand_points_take_less_than_3_gb_and_2500_less_than_400_mb_without_proofs() {
        let spec = XclpSpec { cheaters: Cheaters::Trusted, ..XclpSpec::default() };
        assert!(party_bytes(10_000, 10, &spec) < 3_000_000_000);
        assert!(party_bytes(2_500, 10, &spec) < 400_000_000);
        let spec = XclpSpec::default();
        assert!(party_bytes(10_000, 10, &spec) < 4_600_000_000);
        assert!(party_bytes(2_500, 10, &spec) < 700_000_000);
        let most = enough_for(1024, 10, &spec);
        assert!(party_bytes(most, 10, &spec) <= 1_024_000_000);
        assert!(party_bytes(most + 1, 10, &spec) > 1_024_000_000);
        assert_eq!(enough_for(1, 10, &spec), 0);
        assert_eq!(enough_for(100_000, 10, &spec), MOST_POINTS);
    }

    #[test]
    fn shares_of_distances_take_more_only_where_there_are_few_points() {
        let spec = |hamming| XclpSpec { hamming, cheaters: Cheaters::Trusted, ..XclpSpec::default() };
        let [codes, ot, phe] = Hamming::ALL.map(|hamming| move |n| party_bytes(n, 10, &spec(hamming)));
        assert_eq!([codes(2_500), ot(2_500)], [codes(2_500), phe(2_500)]);
        assert_eq!(codes(2_500), ot(2_500), "the graph needs most of the memory");
        // 10 n^2 + (2 n + 6400) L + 32 n C with n = 64.
        assert_eq!(ot(60), PROCESS + (10 * 64 * 64 + (128 + 6400) * 4096 + 320 * 64) / 10 * 13);
        assert!(codes(60) < ot(60));
    }
}
