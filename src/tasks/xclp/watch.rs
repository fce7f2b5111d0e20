//! Patience of an exchange: who is waited for, for how long, and what tells the others that this peer goes
//! on.

use crate::protocol::view::HEARTBEAT_MS;
use crate::protocol::{Action, Step, Time};
use crate::session::Peer;
use crate::tasks::exchange::{Job, Vocabulary};

/// Looked at every [`HEARTBEAT_MS`].
#[derive(Debug)]
pub(super) struct Watch {
    patience_ms: u64,
    longest_ms: u64,
    started: Time,
    /// When something came last, and how many jobs are out.
    heard: Time,
    jobs: usize,
    /// Whether anything has moved here since the last heartbeat.
    moved: bool,
}

impl Watch {
    /// Nothing may come for `patience_ms`, and all may last `longest_ms`.
    #[must_use]
    pub(super) fn new(patience_ms: u64, longest_ms: u64) -> Self {
        let start = Time::default();
        Self { patience_ms, longest_ms, started: start, heard: start, jobs: 0, moved: false }
    }

    /// The exchange begins.
    pub(super) fn start(&mut self, now: Time, step: &mut Step<Vocabulary>) {
        (self.started, self.heard) = (now, now);
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: 0 });
    }

    /// Something came; `moves` where it is more than a sign of life.
    pub(super) fn heard(&mut self, now: Time, moves: bool) {
        self.heard = now;
        self.moved |= moves;
    }

    /// Gives out long work.
    pub(super) fn compute(&mut self, job: Job, step: &mut Step<Vocabulary>) {
        self.jobs += 1;
        step.0.push(Action::Compute(job));
    }

    /// Its result is there.
    pub(super) fn computed(&mut self, now: Time) {
        self.jobs -= 1;
        self.heard(now, true);
    }

    /// Whether work is out.
    #[must_use]
    pub(super) fn is_busy(&self) -> bool {
        self.jobs > 0
    }

    /// A heartbeat. Gives the peer that is waited for at a stage of the exchange if it is given up: who waits
    /// at an earlier stage speaks first, for the others wait for it. The second value says whether the others
    /// are to be told that this peer goes on.
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
            // Whoever says for ever that it works holds nobody for ever.
            silent || now >= self.started.plus_ms(self.longest_ms)
        });
        let moved = std::mem::take(&mut self.moved) || self.jobs > 0;
        (given_up.map(|(_, peer)| peer), moved)
    }
}
