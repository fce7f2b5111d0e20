//! Decides how long an exchange waits for a peer, and when it sends signs of life to the others.

use crate::protocol::view::HEARTBEAT_MS;
use crate::protocol::{Action, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Job, Vocabulary};

/// The times that decide how long one peer waits. They are checked every [`HEARTBEAT_MS`].
#[derive(Debug)]
pub(super) struct Watch {
    patience_ms: u64,
    longest_ms: u64,
    started: Time,
    /// Time at which the last message or result of a job came.
    heard: Time,
    jobs: usize,
    /// Time of the last input, the time at which the running jobs began, and the longest time of a job.
    now: Time,
    busy_since: Time,
    longest_job_ms: u64,
    /// True if this peer has made progress since the last heartbeat.
    moved: bool,
    /// Time of the last progress.
    progress: Time,
}

impl Watch {
    /// Creates a watch. `patience_ms` is the longest silence, and `longest_ms` the longest duration of the
    /// exchange.
    #[must_use]
    pub(super) fn new(patience_ms: u64, longest_ms: u64) -> Self {
        let start = Time::default();
        Self {
            patience_ms,
            longest_ms,
            started: start,
            heard: start,
            jobs: 0,
            now: start,
            busy_since: start,
            longest_job_ms: 0,
            moved: false,
            progress: start,
        }
    }

    /// Records that the exchange begins.
    pub(super) fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        (self.started, self.heard) = (now, now);
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: 0 });
    }

    /// Records that a message came. `moves` is true if it is more than a sign of life.
    pub(super) fn heard(&mut self, now: Time, moves: bool) {
        self.heard = now;
        if moves {
            (self.moved, self.progress) = (true, now);
        }
    }

    /// Returns whether there was progress a short time ago. In this case other messages may be in transit,
    /// and an exchange that takes too long is slow rather than stopped.
    #[must_use]
    pub(super) fn is_moving(&self, now: Time) -> bool {
        now < self.progress.plus_ms(2 * HEARTBEAT_MS)
    }

    /// Starts a long job.
    pub(super) fn compute(&mut self, job: Job, step: &mut Step<Vocabulary>) {
        if self.jobs == 0 {
            self.busy_since = self.now;
        }
        self.jobs += 1;
        step.0.push(Action::Compute(job));
    }

    /// Records that the result of a job is here.
    pub(super) fn computed(&mut self, now: Time) {
        self.jobs -= 1;
        self.longest_job_ms = self.longest_job_ms.max(now.ms_since(self.busy_since));
        self.heard(now, true);
    }

    /// Records the time of an input.
    pub(super) fn now(&mut self, now: Time) {
        self.now = now;
    }

    /// Returns the longest time in which jobs were running without a pause, in milliseconds.
    #[must_use]
    pub(super) fn longest_job_ms(&self) -> u64 {
        self.longest_job_ms
    }

    /// Returns whether a job is running.
    #[must_use]
    pub(super) fn is_busy(&self) -> bool {
        self.jobs > 0
    }

    /// Handles a heartbeat. `waits` has the awaited peer and the stage of the exchange. Returns the awaited
    /// peer if this peer gives it up. At an earlier stage a peer gives up sooner, because the others wait for
    /// it. The second value is true if this peer must send the others a sign of life.
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
            // A peer that sends only signs of life must not delay the others for ever.
            silent || now >= self.started.plus_ms(self.longest_ms)
        });
        let moved = std::mem::take(&mut self.moved) || self.jobs > 0;
        (given_up.map(|(_, peer)| peer), moved)
    }
}
