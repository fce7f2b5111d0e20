//! Measures this machine's rates, for a scenario's `[rates]`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chacha20::rand_core::SeedableRng;

use crate::crypto::agreement::EphemeralSecret;
use crate::crypto::identity::Identity;
use crate::crypto::mask::{self, Sign, Word};
use crate::crypto::stream::Stream;
use crate::data::digits::digits;
use crate::protocol::ballot::Ballot;
use crate::protocol::message::{Channel, Message};
use crate::protocol::wire;
use crate::session::Peer;
use crate::sim::scenario::Rates;
use crate::sketch::Parameters;
use crate::sketch::flyhash::FlyHash;
use flyswarm_data::scaling::{Scaler, Scaling};

/// Minimum duration of each measurement, and number of measurements. They are short, because other programs
/// can only slow a measurement down, and the fastest one is used.
const LONG_ENOUGH: Duration = Duration::from_millis(10);
const GOES: u32 = 60;

#[allow(clippy::disallowed_methods, reason = "measuring is what this is for")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the units of work per second, as the best of all measurements. One call does `units` of work.
fn rate(units: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut go = || {
        let start = now();
        let mut calls = 0u32;
        while start.elapsed() < LONG_ENOUGH {
            work();
            calls += 1;
        }
        units * f64::from(calls) / start.elapsed().as_secs_f64()
    };
    let best = (0..GOES).map(|_| go()).fold(0.0, f64::max);
    // The rate is rounded to two digits, because more digits would only be noise.
    let power = 10f64.powf(best.log10().floor() - 1.0);
    (best / power).round() * power
}

/// Measures all rates on one core.
pub(crate) fn measure() -> Result<Rates, rayon::ThreadPoolBuildError> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(all))
}

fn all() -> Rates {
    let data = digits();
    let scaler = Scaler::new(&Scaling::UnitNorm, data.features(), None)
        .unwrap_or_else(|error| unreachable!("BUG: unit-norm needs nothing: {error}"));
    let hash = |m: usize, s: usize| {
        let scaling = Scaling::UnitNorm;
        let parameters =
            Parameters { d: data.features(), m, s, rho: 32, seed: [7; 32], densify: false, scaling };
        let sketch = parameters.check(data.classes().len());
        FlyHash::new(&sketch.unwrap_or_else(|error| unreachable!("BUG: these parameters are good: {error}")))
    };
    let (m, rows) = (8192, 256);
    let winners = |hash: &FlyHash| {
        let start = now();
        black_box(hash.winners(&scaler, &data, 0..rows).is_ok());
        start.elapsed().as_secs_f64()
    };
    // A row costs m s / lift + m / select. So two values of s give both rates.
    let (few, many) = (hash(m, 4), hash(m, 40));
    let best = |hash: &FlyHash| (0..GOES).map(|_| winners(hash)).fold(f64::INFINITY, f64::min);
    let (short, long) = (best(&few), best(&many));
    let sums = (m * rows) as f64;
    // If more entries hardly take more time, the difference does not show their cost. In this case the whole
    // time is counted as lifting, which is an upper bound.
    let lift = if long > 1.1 * short { sums * 36.0 / (long - short) } else { sums * 40.0 / long };
    let select = sums / (short - sums * 4.0 / lift).max(1e-9);
    let two = |value: f64| {
        let power = 10f64.powf(value.log10().floor() - 1.0);
        (value / power).round() * power
    };

    let mut words = vec![1u8; 1 << 18];
    let other = words.clone();
    let identity = Identity::from_seed([1; 32]);
    let signature = identity.sign(b"calibrate", b"message");
    let key = identity.public();
    let mut random = crate::protocol::view::Rng::from_seed([2; 32]);
    let theirs = EphemeralSecret::generate(&mut random).public();
    let mine = EphemeralSecret::generate(&mut random);
    let message = Message::Prepare(Ballot { counter: 1, proposer: Peer(1) });
    Rates {
        matrix: rate((m * 20) as f64, || drop(black_box(hash(m, 20)))),
        lift: two(lift),
        select: two(select),
        mask: rate(words.len() as f64, || {
            mask::apply(Word::W32, Sign::Add, &mut words, &mut Stream::new(b"key", "calibrate", b""));
        }),
        add: rate(other.len() as f64, || {
            let mut sum = vec![0; other.len()];
            mask::add(Word::W32, &mut sum, &other);
            black_box(blake3::hash(&sum));
        }),
        verify: rate(1.0, || {
            black_box(key.verify(b"calibrate", b"message", &signature));
        }),
        agree: rate(1.0, || drop(black_box(mine.agree(&theirs, b"calibrate")))),
        message: rate(1.0, || {
            let frame = wire::encode(&message);
            black_box(wire::decode(Channel::Control, &frame.header, frame.payload).is_ok());
        }),
    }
}

/// Formats the rates for a scenario.
pub(crate) fn lines(rates: &Rates) -> String {
    let Rates { matrix, lift, select, mask, add, verify, agree, message } = rates;
    format!(
        "# Measured by flyswarm simulate --calibrate.\nmatrix = {matrix:e}\nlift = {lift:e}\nselect = {select:e}\nmask = {mask:e}\n\
         add = {add:e}\nverify = {verify:e}\nagree = {agree:e}\nmessage = {message:e}\n"
    )
}

/// Replaces the lines of the table `[rates]` in a file, or adds such a table at its end. Returns the text.
pub(crate) fn replaced(text: &str, lines: &str) -> String {
    let mut out = String::new();
    let (mut inside, mut found) = (false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            inside = trimmed == "[rates]";
            if inside {
                found = true;
                out.push_str("[rates]\n");
                out.push_str(lines);
                continue;
            }
        }
        if !inside || trimmed.is_empty() {
            out.push_str(line);
            out.push('\n');
        }
    }
    if !found {
        out.push_str("\n[rates]\n");
        out.push_str(lines);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sim::scenario::File;

    #[test]
    fn rates_are_put_into_a_scenario_and_nothing_else_changes() {
        let rates = lines(&Rates::default());
        let text =
            "# mine\npeers = 4\n\n[rates]\nlift = 1.0 # old\nmask = 2\n\n[task]\nkind = \"sum\" # keep\n";
        let changed = replaced(text, &rates);
        assert!(changed.starts_with("# mine\npeers = 4\n\n[rates]\n# Measured") && !changed.contains("old"));
        assert!(changed.ends_with("\n\n[task]\nkind = \"sum\" # keep\n"), "{changed}");
        let added = replaced("peers = 4\n", &rates);
        for text in [&changed, &added] {
            let file = File::parse(text, "test".into(), PathBuf::new(), false).unwrap();
            assert_eq!(file.runs[0].1.rates, Rates::default());
        }
    }
}
