//! The clock of a node's driver. It stops while the driver waits for the disk.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::protocol::Time;

/// Does blocking work on another thread. Calls `beat` at the interval `every` until the work is done.
pub(super) fn beside<R: Send>(work: impl FnOnce() -> R + Send, every: Duration, mut beat: impl FnMut()) -> R {
    std::thread::scope(|scope| {
        let (sender, done) = mpsc::channel();
        scope.spawn(move || {
            // This cannot fail, because the other end waits for the result.
            let _ = sender.send(work());
        });
        loop {
            match done.recv_timeout(every) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => beat(),
                Err(RecvTimeoutError::Disconnected) => unreachable!("BUG: the disk's thread has panicked"),
            }
        }
    })
}

#[allow(clippy::disallowed_methods, reason = "the driver is where the clock is read")]
pub(super) fn now_instant() -> Instant {
    Instant::now()
}

/// Clock of the state machine.
pub(super) struct Clock {
    started: Instant,
    /// Time for which the clock was stopped.
    still: Duration,
}

impl Clock {
    /// Makes a clock that shows 0 at `started`.
    pub(super) fn starting(started: Instant) -> Self {
        Self { started, still: Duration::ZERO }
    }

    pub(super) fn now(&self) -> Time {
        let runs = self.started.elapsed().saturating_sub(self.still);
        Time(u64::try_from(runs.as_micros()).unwrap_or(u64::MAX))
    }

    /// Does work while the clock is stopped. Otherwise a node that waits for its disk would mistake its own
    /// delay for silence of the other peers.
    pub(super) fn stands_still<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let begun = now_instant();
        let result = work();
        self.still += begun.elapsed();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_does_not_keep_the_others_from_hearing_of_this_peer() {
        let mut beats = 0;
        let work = || std::thread::sleep(Duration::from_millis(300));
        beside(work, Duration::from_millis(20), || beats += 1);
        assert!(beats >= 3, "{beats} calls in 15 intervals");
        assert_eq!(beside(|| 7, Duration::from_secs(60), || panic!("nothing to wait for")), 7);
    }

    #[test]
    fn the_clock_of_a_machine_that_is_held_up_by_its_disk_stands_still() {
        let mut clock = Clock::starting(now_instant());
        let sleep = |ms| std::thread::sleep(Duration::from_millis(ms));
        sleep(20);
        let before = clock.now();
        assert!(before >= Time(20_000), "{before:?}");
        clock.stands_still(|| sleep(300));
        let after = clock.now();
        let all = u64::try_from(clock.started.elapsed().as_micros()).unwrap();
        assert!(before <= after && after.0 + 300_000 <= all, "{before:?} {after:?} of {all} us");
        sleep(20);
        assert!(clock.now() >= after.plus_ms(20), "the clock runs again");
    }
}
