//! Machine of one computing member. It runs a program, and sends the messages of each round as frames to the
//! other two.
//!
//! When the program can continue, it is handed out as a job. The job returns the program when it waits for
//! the next round or has ended. Only brief jobs run on a thread that must answer quickly.

use std::pin::pin;
use std::task::{Context as Wakeup, Poll, Waker};

use bytes::Bytes;

use super::program::Outcome;
use super::round::{Line, Part, SIDES, Side};
use crate::protocol::{Action, Fault, Input, Machine, Never, Step, Time};
use crate::session::Peer;
use flyswarm_mpc::shares::accounts::{Account, Place, Progress};
use flyswarm_mpc::shares::{Context, Keys, Stage};

/// Largest number of bytes of a frame.
pub(crate) const PAYLOAD: usize = 256 * 1024;

/// A piece of the message that a computing member sends another one in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The round, from 0 on.
    pub round: u32,
    /// True if this is the last frame of the round.
    pub last: bool,
    /// Bytes of the frame. The last frame may have fewer than [`PAYLOAD`] bytes.
    pub data: Bytes,
}

/// A program and its connection to the other computing members.
pub(crate) struct Turn {
    line: Line,
    /// Bytes that came in the previous round.
    received: usize,
    /// True if the program also makes and verifies proofs.
    proves: bool,
    program: Part<'static, Outcome>,
    outcome: Option<Outcome>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({:?})", self.line)
    }
}

/// Number of received bytes that cause less than a tenth of a millisecond of work (measured: 2 ns a byte).
const BRIEF: usize = 48 * 1024;

impl Turn {
    /// Returns whether the work takes no longer than handing it to another thread. This is true if few bytes
    /// came, and if the amount of work at this stage depends on the received bytes.
    pub(crate) fn is_brief(&self) -> bool {
        let stage = self.line.wire().marks().last().map(|mark| mark.stage);
        let follows = !matches!(stage, None | Some(Stage::Input | Stage::Compaction | Stage::Dense));
        // Proofs are an exception: their messages are short, but a proof of many statements takes long.
        follows && self.received < BRIEF && !self.proves
    }

    /// Runs the program until it waits for the next round or has ended.
    #[must_use]
    pub(crate) fn run(mut self) -> Self {
        let mut program = pin!(&mut self.program);
        if let Poll::Ready(outcome) = program.as_mut().poll(&mut Wakeup::from_waker(Waker::noop())) {
            self.outcome = Some(outcome);
        }
        self.line.wire().settle();
        self
    }
}

/// Frames that came from a peer in the current round and the next.
#[derive(Debug, Default)]
struct Inbox {
    /// The round of `bytes`.
    round: u32,
    bytes: Vec<u8>,
    whole: bool,
    /// Bytes of the next round, and whether they are complete. A peer can be one round ahead.
    ahead: Option<(Vec<u8>, bool)>,
}

impl Inbox {
    fn take(&mut self, Frame { round, last, data }: &Frame, limit: usize) -> Result<(), Fault> {
        let (round, last) = (*round, *last);
        let (bytes, whole) = if !self.whole && round == self.round {
            (&mut self.bytes, &mut self.whole)
        } else if self.whole && round == self.round + 1 && !self.ahead.as_ref().is_some_and(|ahead| ahead.1) {
            let (bytes, whole) = self.ahead.get_or_insert_default();
            (bytes, whole)
        } else {
            return Err(Fault::OutOfOrder("a frame of another round"));
        };
        if data.len() > PAYLOAD || bytes.len() + data.len() > limit || (!last && data.is_empty()) {
            return Err(Fault::OutOfOrder("more bytes than a round has"));
        }
        bytes.extend_from_slice(data);
        *whole = last;
        Ok(())
    }

    fn next(&mut self) -> Vec<u8> {
        let (bytes, whole) = self.ahead.take().unwrap_or_default();
        self.round += 1;
        self.whole = whole;
        std::mem::replace(&mut self.bytes, bytes)
    }
}

/// One of the three computing members.
#[derive(Debug)]
pub(crate) struct Party {
    peers: [Peer; 2],
    line: Line,
    /// The program, while it waits for a round, or `None` while it runs.
    turn: Option<Turn>,
    inboxes: [Inbox; 2],
    limit: usize,
    over: bool,
    /// Progress at the time when this member stopped.
    stopped: Option<Progress>,
}

impl Party {
    /// Creates the machine of computing member `number`. `parties` has members 0, 1 and 2. In a round, each
    /// other member sends at most `limit` bytes. `proves` is true if all three prove their messages.
    #[must_use]
    pub(crate) fn new(
        number: usize,
        parties: [Peer; 3],
        keys: Keys,
        limit: usize,
        proves: bool,
        program: impl FnOnce(Context) -> Part<'static, Outcome>,
    ) -> Self {
        let line = Line::default();
        let program = program(Context::new(line.clone(), keys, number));
        let turn = Turn { line: line.clone(), received: 0, proves, program, outcome: None };
        Self {
            peers: [parties[(number + 2) % 3], parties[(number + 1) % 3]],
            line,
            turn: Some(turn),
            inboxes: Default::default(),
            limit,
            over: false,
            stopped: None,
        }
    }

    /// Returns whether the program computes now.
    pub(crate) fn is_running(&self) -> bool {
        self.turn.is_none() && !self.over
    }

    /// Returns this member's account of a check, if it has sent its messages at this place.
    pub(crate) fn account(&self, place: Place) -> Option<Account> {
        self.line.wire().accounts().get(&place).cloned()
    }

    /// Returns how far this member has come, or had come when it stopped. If its program has ended, no
    /// message is missing.
    pub(crate) fn progress(&self) -> Progress {
        if let Some(progress) = self.stopped {
            return progress;
        }
        let (waits, rounds) = (!self.over, self.line.wire().rounds());
        let missing = self.inboxes.each_ref().map(|inbox| waits && !inbox.whole);
        Progress { sent: rounds + u32::from(waits), missing }
    }

    /// Stops the program. This member sends no more messages.
    pub(crate) fn stop(&mut self) {
        self.stopped = Some(self.progress());
        self.over = true;
        self.turn = None;
    }

    /// Returns the number of rounds so far, and the numbers of bytes sent to the previous and to the next
    /// member.
    #[cfg(test)]
    pub(crate) fn traffic(&self) -> (u32, [u64; 2]) {
        let wire = self.line.wire();
        (wire.rounds(), wire.sent())
    }

    /// Returns the computing member that this one waits for, if it waits for a round.
    #[must_use]
    pub(crate) fn waits(&self) -> Option<Peer> {
        let missing = self.peers.iter().zip(&self.inboxes).find(|(_, inbox)| !inbox.whole);
        missing.map(|(&peer, _)| peer).filter(|_| self.turn.is_some() && !self.over)
    }

    fn side(&self, peer: Peer) -> Option<Side> {
        SIDES.into_iter().find(|&side| self.peers[side as usize] == peer)
    }

    fn blame(&mut self, side: Side, fault: Fault) -> Step<Self> {
        self.over = true;
        self.turn = None;
        let mut step = Step::none();
        step.blame(self.peers[side as usize], fault);
        step
    }

    /// Takes the program back from its job, and sends the messages that it made.
    fn came_back(&mut self, mut turn: Turn) -> Step<Self> {
        let (fault, doubt, frames, round) = {
            let mut wire = self.line.wire();
            (wire.fault(), wire.doubt(), wire.take(), wire.rounds())
        };
        if let Some(side) = fault {
            return self.blame(side, Fault::Inconsistent("a round of another length".into()));
        }
        let mut step = Step::none();
        if let Some(outcome) = doubt.map(Outcome::Doubt).or(turn.outcome.take()) {
            self.over = true;
            step.output(outcome);
            return step;
        }
        for (peer, bytes) in self.peers.into_iter().zip(frames.map(Bytes::from)) {
            let mut start = 0;
            loop {
                let end = bytes.len().min(start + PAYLOAD);
                let last = end == bytes.len();
                step.send(peer, Frame { round, last, data: bytes.slice(start..end) });
                start = end;
                if last {
                    break;
                }
            }
        }
        self.turn = Some(turn);
        step.0.extend(self.go_on().0);
        step
    }

    /// Continues the program if it is waiting and the round is complete.
    fn go_on(&mut self) -> Step<Self> {
        let mut step = Step::none();
        if self.inboxes.iter().all(|inbox| inbox.whole)
            && let Some(mut turn) = self.turn.take()
        {
            let received = self.inboxes.each_mut().map(Inbox::next);
            turn.received = received.iter().map(Vec::len).sum();
            self.line.wire().turn(received);
            step.0.push(Action::Compute(turn));
        }
        step
    }
}

impl Machine for Party {
    type Message = Frame;
    type Timer = Never;
    type Job = Turn;
    type Done = Turn;
    type Record = Never;
    type Output = Outcome;

    fn handle(&mut self, _: Time, input: Input<Self>) -> Step<Self> {
        let mut step = Step::none();
        match input {
            _ if self.over => {}
            Input::Start => step.0.extend(self.turn.take().map(Action::Compute)),
            Input::Done(turn) => return self.came_back(turn),
            Input::Message { from, message } => {
                let Some(side) = self.side(from) else {
                    step.blame(from, Fault::OutOfOrder("a frame of a peer that does not compute"));
                    return step;
                };
                if let Err(fault) = self.inboxes[side as usize].take(&message, self.limit) {
                    return self.blame(side, fault);
                }
                return self.go_on();
            }
            Input::Timer(never) => match never {},
            // The machine around this one ends the view if a computing member is lost.
            Input::PeerUp(_) | Input::PeerLost(_) => {}
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_one_round_ahead_at_most_and_sends_no_more_than_a_round_can_be() {
        let frame = |round, last, length| Frame { round, last, data: vec![1; length].into() };
        let takes = |frames: &[Frame]| {
            let mut inbox = Inbox::default();
            frames.iter().all(|frame| inbox.take(frame, 2 * PAYLOAD).is_ok())
        };
        let (whole, next) = (frame(0, true, 1), frame(1, true, 1));
        assert!(takes(&[whole.clone(), next.clone()]));
        assert!(!takes(std::slice::from_ref(&next)), "a frame of a later round than the current one");
        assert!(
            !takes(&[frame(0, false, 1), next.clone()]),
            "a frame of the next round before the current one is complete"
        );
        assert!(!takes(&[whole.clone(), frame(2, true, 1)]), "two rounds ahead");
        assert!(!takes(&[whole.clone(), whole.clone()]), "a frame of a round that is complete");
        assert!(!takes(&[whole, next.clone(), next]), "a frame of the next round, which is complete");
        let full = frame(0, false, PAYLOAD);
        assert!(takes(&[full.clone(), full.clone(), frame(0, true, 0)]));
        assert!(!takes(&[frame(0, true, PAYLOAD + 1)]), "a frame above the limit");
        assert!(!takes(&[full.clone(), full, frame(0, true, 1)]), "a round above the limit");
        assert!(!takes(&[frame(0, false, 0)]), "an empty frame that is not the last");
    }
}
