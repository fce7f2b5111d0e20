//! Makes the complete timeline of a run: the faults in the file, and those that are drawn from the seed.

use super::scenario::{Fault, Kind, Peers, Random, Scenario};
use crate::crypto::stream::Stream;

fn fault(kind: Kind, at_s: f64, peers: Peers) -> Fault {
    Fault {
        kind,
        at_s: Some(at_s),
        at: None,
        peers: Some(peers),
        site: None,
        for_s: None,
        latency_ms: None,
        bandwidth_mbit: None,
        how: None,
        every: None,
    }
}

/// Returns the faults of the file, then the drawn faults, then the end of all faults.
#[must_use]
pub fn whole(scenario: &Scenario) -> Vec<Fault> {
    let mut out = scenario.fault.clone();
    let random = &scenario.random;
    if random.faults == 0 {
        return out;
    }
    let mut stream = Stream::new(&scenario.seed.to_le_bytes(), "simulation/faults", &[]);
    for _ in 0..random.faults {
        out.push(draw(&mut stream, scenario.peers, random));
    }
    if random.heal_s > 0.0 {
        out.push(fault(Kind::Heal, random.heal_s, Peers::Some(Vec::new())));
        out.push(fault(Kind::Restart, random.heal_s, Peers::All));
    }
    out
}

fn draw(stream: &mut Stream, peers: u16, random: &Random) -> Fault {
    // Times are whole milliseconds, at least 1.
    let ms = |stream: &mut Stream, most: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 10^9, by the file's limits"
        )]
        let most = (most * 1000.0).max(1.0) as u32;
        f64::from(1 + stream.below(most)) / 1000.0
    };
    let at = ms(stream, random.within_s);
    let one = |stream: &mut Stream| Peers::Some(vec![u16::try_from(stream.below(peers.into())).unwrap_or(0)]);
    let kind = stream.below(u32::try_from(random.kinds.len()).unwrap_or(u32::MAX)) as usize;
    match random.kinds[kind] {
        Kind::Crash => {
            let returns = stream.below(100) < random.return_percent;
            Fault { for_s: returns.then(|| ms(stream, 8.0)), ..fault(Kind::Crash, at, one(stream)) }
        }
        Kind::Pause => Fault { for_s: Some(ms(stream, 12.0)), ..fault(Kind::Pause, at, one(stream)) },
        Kind::SlowLink => Fault {
            latency_ms: Some(f64::from(20 + stream.below(400))),
            for_s: Some(ms(stream, 10.0)),
            ..fault(Kind::SlowLink, at, one(stream))
        },
        Kind::Partition => {
            let side = (0..peers).filter(|_| stream.below(2) == 0).collect();
            Fault { for_s: Some(ms(stream, 15.0)), ..fault(Kind::Partition, at, Peers::Some(side)) }
        }
        kind => fault(kind, at, one(stream)),
    }
}
