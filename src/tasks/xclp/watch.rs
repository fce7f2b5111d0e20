//! Patience of an exchange: the peer that this one waits for, how long it waits, and the signs of life to
//! others.

use crate::protocol::view::HEARTBEAT_MS;
use crate::protocol::{Action, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Job, Vocabulary};

/// Patience of one peer, checked every [`HEARTBEAT_MS`].
#[derive(Debug)]
pub(super) struct Watch {
    patience_ms: u64,
    longest_ms: u64,
    started: Time,
    /// Time at which something last came, and number of jobs that are running.
    heard: Time,
    jobs: usize,
    /// True if anything has moved here since the last heartbeat.
    moved: bool,
    /// Time of the last such movement.
    progress: Time,
}

impl Watch {
    /// Creates a watch: the longest silence is `patience_ms`, the longest duration of all `longest_ms`.
    #[must_use]
    pub(super) fn new(patience_ms: u64, longest_ms: u64) -> Self {
        let start = Time::default();
        Self { patience_ms, longest_ms, started: start, heard: start, jobs: 0, moved: false, progress: start }
    }

    /// Notes that the exchange begins.
    pub(super) fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        (self.started, self.heard) = (now, now);
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: 0 });
    }

    /// Notes that something came; `moves` if it is more than a sign of life.
    pub(super) fn heard(&mut self, now: Time, moves: bool) {
        self.heard = now;
        if moves {
            (self.moved, self.progress) = (true, now);
        }
    }

    /// Returns whether something has moved a short time ago. Then other messages may be under way, and an
    /// exchange that takes too long is slow rather than stopped.
    #[must_use]
    pub(super) fn is_moving(&self, now: Time) -> bool {
        now < self.progress.plus_ms(2 * HEARTBEAT_MS)
    }

    /// Starts a long job.
    pub(super) fn compute(&mut self, job: Job, step: &mut Step<Vocabulary>) {
        self.jobs += 1;
        step.0.push(Action::Compute(job));
    }

    /// Notes that the result of a job is there.
    pub(super) fn computed(&mut self, now: Time) {
        self.jobs -= 1;
        self.heard(now, true);
    }

    /// Returns whether a job is running.
    #[must_use]
    pub(super) fn is_busy(&self) -> bool {
        self.jobs > 0
    }

    /// Handles a heartbeat. Returns the awaited peer at a stage of the exchange if this peer gives it up. A
    /// peer that waits at an earlier stage gives up first, because the others wait for it. The second value
    /// is true if the others must get a sign of life from this peer.
    pub(super) fn tick(
        &mut self,
        now: Time,
        waits: Option<(u32, Peer)>,
        step: &mut Step<Vocabulary>,
    ) -> (Option<Peer>, bool) {
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: 0 });
        let given_up = waits.filter(|(stage, _)| {
            let patience = self.patience_ms + u64::from(*stage) * 2 * HEARTBEAT_MS;
            let silent = self.jobs == 0 && now >= self.heard.plus_ms(patience);
            // A peer that keeps sending signs of life must not hold others for ever.
            silent || now >= self.started.plus_ms(self.longest_ms)
        });
        let moved = std::mem::take(&mut self.moved) || self.jobs > 0;
        (given_up.map(|(_, peer)| peer), moved)
    }
}
