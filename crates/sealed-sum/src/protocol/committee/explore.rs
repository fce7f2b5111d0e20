//! Explores every interleaving of the decision, up to a bound, breadth first.
//!
//! Acceptors and `oblige` are the real code. Proposers act as in `node/elections.rs` and `view.rs`:
//! prepare, promises, fetch, resume or sum again, acknowledgements, shares, open, next slot. A message
//! may come late, again or never. A crash loses the memory, not the disk. States that differ only by a
//! swap of peers that never propose are explored once. Each value has the number of its ballot.

#![allow(clippy::disallowed_types, reason = "a set of millions of fingerprints whose order does not matter")]

mod claims;
mod trace;

use std::collections::{HashSet, VecDeque};

use super::{Accepted, Acceptor, Ballot, Promise, oblige};
use crate::session::{Faults, Peer};
use trace::fingerprint;

const MOST: usize = 5;
const BALLOTS: usize = 4;
const SLOTS: usize = 2;

/// Rule of the protocol, or a variant with a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Decided,
    /// A sum starts without promises, and shares are released as soon as its total is held.
    Naive,
    /// A restarted acceptor has forgotten its promise.
    ForgetsPromise,
    /// A restarted acceptor has forgotten the value that it acknowledged.
    ForgetsValue,
    /// A proposer starts a new sum and ignores acknowledged values.
    IgnoresValues,
    /// A proposer takes the value of the lowest ballot.
    OldestValue,
    /// One less than a majority counts as a quorum.
    OneLess,
    /// An acceptor acknowledges a ballot below its promise.
    AcceptsBelow,
    /// Member 0 lies in its promises, and acknowledges and releases everything that it is shown.
    Liar(Faults),
    /// `Liar`, and as a leader it shows two sums of its ballot and serves all values that it can prove.
    LiarLeads(Faults),
    /// `LiarLeads`, and a peer that fetches a slot checks nothing.
    LiarServes(Faults),
    /// `Liar`, and a released value is not final.
    LiarAndNotFinal(Faults),
    /// A restarted acceptor has lost its disk and continues as if it were new.
    LosesDisk,
    /// A restarted acceptor has lost its disk, detects that, and does not vote any more.
    LosesDiskAndVote,
}

/// One committee member: its disk, its memory, and all messages that it has ever sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Local {
    promised: u8,
    committed: u8,
    /// Ballot and value acknowledged in slot `committed`, 0 for none.
    accepted: (u8, u8),
    /// Highest ballot whose view it has entered, on disk.
    joined: u8,
    /// View that it is in, 0 for none.
    view: u8,
    /// For each ballot: the promise that it has sent.
    promises: [Option<(u8, (u8, u8))>; BALLOTS],
    /// For each slot and ballot: the acknowledged value.
    acks: [[u8; BALLOTS]; SLOTS],
    /// For each slot: bits of the values whose shares it has released.
    released: [u8; SLOTS],
    /// On disk: the value of slot `committed` that it has released shares for, 0 for none.
    kept: u8,
    /// True if it has lost its state and does not vote.
    silent: bool,
    opened: [u8; SLOTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    #[default]
    Idle,
    Preparing,
    Leading,
    Dead,
}

/// One ballot: phase of its proposer, and the values that it has asked the committee to acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Lead {
    phase: Phase,
    values: [u8; SLOTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    locals: [Local; MOST],
    leads: [Lead; BALLOTS],
    crashes: u8,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Propose(u8),
    Promise(u8, u8),
    /// Ballot, members whose promises it uses (bits), value that a liar's own promise claims (0 for none).
    Begin(u8, u8, u8),
    Accept(u8, u8, u8),
    Release(u8, u8, u8),
    Open(u8, u8, u8),
    Fetch(u8),
    /// A lying leader shows another sum of its own ballot from now on.
    Turn(u8, u8),
    /// A liar serves this value to a member.
    Serve(u8, u8),
    Crash(u8),
}

/// Committee, proposer of each ballot, and number of slots.
#[derive(Clone, Debug)]
struct World {
    rule: Rule,
    members: u8,
    proposers: Vec<u8>,
    slots: u8,
    /// Largest number of crashes.
    crashes: u8,
    /// True if shares travel one by one, false if a decision can be opened at once (more histories).
    shares: bool,
}

struct Explored {
    states: usize,
    violation: Option<String>,
    /// True if every slot was opened somewhere: an exploration without progress proves nothing.
    finished: bool,
}

fn ballot(number: u8, proposer: u8) -> Ballot {
    Ballot { counter: number.into(), proposer: Peer(proposer.into()) }
}

/// Returns the other sum of the same ballot.
fn twin(b: u8) -> u8 {
    b + BALLOTS as u8
}

impl World {
    fn quorum(&self) -> u32 {
        match self.rule {
            Rule::Liar(faults)
            | Rule::LiarLeads(faults)
            | Rule::LiarServes(faults)
            | Rule::LiarAndNotFinal(faults) => u32::try_from(faults.quorum(self.members.into())).unwrap(),
            _ => u32::from(self.members / 2 + u8::from(self.rule != Rule::OneLess)),
        }
    }

    fn has_liar(&self) -> bool {
        matches!(self.rule, Rule::Liar(_) | Rule::LiarAndNotFinal(_)) || self.deviates()
    }

    fn deviates(&self) -> bool {
        matches!(self.rule, Rule::LiarLeads(_) | Rule::LiarServes(_))
    }

    fn lies(&self, a: u8) -> bool {
        a == 0 && self.has_liar()
    }

    fn ballot(&self, number: u8) -> Ballot {
        if number == 0 { Ballot::default() } else { ballot(number, self.proposers[usize::from(number) - 1]) }
    }

    /// Returns the real code's acceptor for the member.
    fn acceptor(&self, local: &Local) -> Acceptor<u8> {
        let (number, value) = local.accepted;
        let accepted = (value > 0).then(|| Accepted {
            ballot: self.ballot(number),
            slot: local.committed.into(),
            value,
        });
        let released = (local.kept > 0).then_some(local.kept);
        Acceptor {
            promised: self.ballot(local.promised),
            committed: local.committed.into(),
            accepted,
            released,
        }
    }

    fn keep(local: &mut Local, acceptor: &Acceptor<u8>) {
        let number = |ballot: Ballot| u8::try_from(ballot.counter).unwrap();
        local.promised = number(acceptor.promised);
        local.committed = acceptor.committed as u8;
        local.kept = acceptor.released.unwrap_or(0);
        local.accepted = acceptor.accepted.as_ref().map_or((0, 0), |a| (number(a.ballot), a.value));
    }

    fn promise(&self, (committed, (number, value)): (u8, (u8, u8))) -> Promise<u8> {
        let accepted =
            (value > 0).then(|| Accepted { ballot: self.ballot(number), slot: committed.into(), value });
        Promise { committed: committed.into(), accepted, released: false }
    }

    fn count(&self, state: &State, holds: impl Fn(&Local) -> bool) -> u32 {
        u32::try_from(state.locals[..self.members.into()].iter().filter(|local| holds(local)).count())
            .unwrap()
    }

    /// Returns the state after `act`, if `act` is possible.
    fn after(&self, state: &State, act: Act) -> Option<State> {
        let mut next = *state;
        match act {
            Act::Propose(b) => {
                let (lead, p) = (&mut next.leads[usize::from(b) - 1], self.proposers[usize::from(b) - 1]);
                let local = &mut next.locals[usize::from(p)];
                if lead.phase != Phase::Idle || local.committed >= self.slots {
                    return None;
                }
                if self.rule == Rule::Naive {
                    if local.joined >= b {
                        return None;
                    }
                    lead.phase = Phase::Leading;
                    lead.values[usize::from(local.committed)] = b;
                    (local.joined, local.view) = (b, b);
                } else {
                    lead.phase = Phase::Preparing;
                    self.prepare(local, b)?;
                }
            }
            Act::Promise(b, a) => {
                if state.leads[usize::from(b) - 1].phase == Phase::Idle || self.rule == Rule::Naive {
                    return None;
                }
                self.prepare(&mut next.locals[usize::from(a)], b)?;
            }
            Act::Begin(b, quorum, claim) => {
                let (lead, p) = (&mut next.leads[usize::from(b) - 1], self.proposers[usize::from(b) - 1]);
                let local = &mut next.locals[usize::from(p)];
                // A proposer that has promised a higher ballot since has given up its proposal.
                if lead.phase != Phase::Preparing || local.promised != b || quorum & 1 << p == 0 {
                    return None;
                }
                if quorum.count_ones() < self.quorum() {
                    return None;
                }
                let mut promises = Vec::new();
                for a in (0..self.members).filter(|a| quorum & 1 << a != 0) {
                    let sent = state.locals[usize::from(a)].promises[usize::from(b) - 1]?;
                    let claimed = (0, (claim, claim));
                    promises.push((a, self.promise(if self.lies(a) { claimed } else { sent })));
                }
                let obligation = oblige(promises.iter().map(|(a, promise)| (*a, promise)))?;
                if obligation.committed > u32::from(local.committed) || local.committed >= self.slots {
                    return None;
                }
                let resume = match self.rule {
                    Rule::IgnoresValues => None,
                    Rule::OldestValue => promises
                        .iter()
                        .filter_map(|(_, promise)| promise.accepted.clone())
                        .filter(|accepted| accepted.slot == obligation.committed)
                        .min_by_key(|accepted| accepted.ballot),
                    _ => obligation.resume.map(|(_, accepted)| accepted),
                };
                let resume = resume.filter(|_| obligation.committed == u32::from(local.committed));
                lead.phase = Phase::Leading;
                lead.values[usize::from(local.committed)] = resume.map_or(b, |accepted| accepted.value);
                (local.joined, local.view) = (b, b);
            }
            Act::Accept(b, s, a) => {
                let value = state.leads[usize::from(b) - 1].values[usize::from(s)];
                let local = &mut next.locals[usize::from(a)];
                let below = self.rule == Rule::AcceptsBelow;
                if value == 0 || local.acks[usize::from(s)][usize::from(b) - 1] != 0 || local.silent {
                    return None;
                }
                if self.lies(a) {
                    local.acks[usize::from(s)][usize::from(b) - 1] = value;
                    return Some(next);
                }
                if local.view != b {
                    if local.joined >= b && !below {
                        return None;
                    }
                    if local.promised > b && !below {
                        return None;
                    }
                    (local.joined, local.view) = (b, b);
                }
                if self.rule == Rule::Naive {
                    if s != local.committed {
                        return None;
                    }
                    local.released[usize::from(s)] |= 1 << value;
                } else {
                    let mut acceptor = self.acceptor(local);
                    if below {
                        acceptor.promised = acceptor.promised.min(self.ballot(b));
                    }
                    acceptor.accept(self.ballot(b), s.into(), value).ok()?;
                    Self::keep(local, &acceptor);
                }
                local.acks[usize::from(s)][usize::from(b) - 1] = value;
            }
            Act::Release(b, s, a) => {
                let value = state.leads[usize::from(b) - 1].values[usize::from(s)];
                let decided = self.decided(state, s, b);
                let local = &mut next.locals[usize::from(a)];
                let acknowledged = local.acks[usize::from(s)][usize::from(b) - 1] == value && value != 0;
                let again = local.released[usize::from(s)] & 1 << value != 0;
                if self.lies(a) && value != 0 && !again {
                    local.released[usize::from(s)] |= 1 << value;
                    return Some(next);
                }
                if !acknowledged || !decided || local.view != b || local.committed != s || again {
                    return None;
                }
                let mut acceptor = self.acceptor(local);
                let forgotten = matches!(self.rule, Rule::LiarAndNotFinal(_));
                if acceptor.release(s.into(), &value) && !forgotten {
                    Self::keep(local, &acceptor);
                }
                local.released[usize::from(s)] |= 1 << value;
            }
            Act::Open(b, s, a) => {
                let value = state.leads[usize::from(b) - 1].values[usize::from(s)];
                let enough = value != 0 && self.openable(state, s, value);
                let p = self.proposers[usize::from(b) - 1];
                let lead = &mut next.leads[usize::from(b) - 1];
                let local = &mut next.locals[usize::from(a)];
                if !enough || local.view != b || local.committed != s || self.lies(a) {
                    return None;
                }
                self.open(local, s, value);
                if a == p && lead.phase == Phase::Leading && local.committed < self.slots {
                    lead.values[usize::from(local.committed)] = b;
                }
            }
            Act::Fetch(a) => {
                let (mine, leads) = (&state.locals[usize::from(a)], &state.leads);
                let leading = mine.view > 0
                    && self.proposers[usize::from(mine.view) - 1] == a
                    && leads[usize::from(mine.view) - 1].phase == Phase::Leading;
                let s = mine.committed;
                let holder = state.locals.iter().find(|other| other.committed > s)?;
                if leading || self.lies(a) {
                    return None;
                }
                self.open(&mut next.locals[usize::from(a)], s, holder.opened[usize::from(s)]);
            }
            Act::Turn(b, s) => {
                let (lead, p) = (&mut next.leads[usize::from(b) - 1], self.proposers[usize::from(b) - 1]);
                let value = &mut lead.values[usize::from(s)];
                if !self.lies(p) || *value != b {
                    return None;
                }
                *value = twin(b);
            }
            Act::Serve(a, value) => {
                let s = state.locals[usize::from(a)].committed;
                let shown = matches!(self.rule, Rule::LiarServes(_)) || self.shown(state, s, value);
                if !self.has_liar() || self.lies(a) || s >= self.slots || !shown {
                    return None;
                }
                self.open(&mut next.locals[usize::from(a)], s, value);
            }
            Act::Crash(a) => {
                let local = &mut next.locals[usize::from(a)];
                if next.crashes == self.crashes {
                    return None;
                }
                local.view = 0;
                match self.rule {
                    Rule::LosesDisk | Rule::LosesDiskAndVote => {
                        // The messages that it has sent still exist.
                        (local.promised, local.joined, local.committed) = (0, 0, 0);
                        (local.accepted, local.kept) = ((0, 0), 0);
                        local.silent = self.rule == Rule::LosesDiskAndVote;
                    }
                    Rule::ForgetsPromise => local.promised = local.joined,
                    Rule::ForgetsValue => (local.accepted, local.kept) = ((0, 0), 0),
                    _ => {}
                }
                for (lead, _) in next.leads.iter_mut().zip(&self.proposers).filter(|&(_, p)| *p == a) {
                    if lead.phase != Phase::Idle {
                        lead.phase = Phase::Dead;
                    }
                }
                if next == *state {
                    return None;
                }
                next.crashes += 1;
            }
        }
        Some(next)
    }

    fn prepare(&self, local: &mut Local, b: u8) -> Option<()> {
        if local.silent {
            return None;
        }
        let mut acceptor = self.acceptor(local);
        let promise = acceptor.prepare(self.ballot(b)).ok()?;
        Self::keep(local, &acceptor);
        local.view = 0;
        local.promises[usize::from(b) - 1] = Some((promise.committed as u8, local.accepted));
        Some(())
    }

    fn open(&self, local: &mut Local, s: u8, value: u8) {
        let mut acceptor = self.acceptor(local);
        acceptor.commit(s.into());
        Self::keep(local, &acceptor);
        local.opened[usize::from(s)] = value;
    }

    fn decided(&self, state: &State, s: u8, b: u8) -> bool {
        let value = state.leads[usize::from(b) - 1].values[usize::from(s)];
        self.acknowledged(state, s, b, value)
    }

    /// Returns whether a quorum has acknowledged the value in the ballot. A liar acknowledges anything.
    fn acknowledged(&self, state: &State, s: u8, b: u8, value: u8) -> bool {
        let acks = |local: &Local| local.acks[usize::from(s)][usize::from(b) - 1] == value;
        let liar = self.has_liar() && !acks(&state.locals[0]);
        value != 0 && self.count(state, acks) + u32::from(liar) >= self.quorum()
    }

    /// Returns whether a decision and the pads of the value can be shown.
    fn shown(&self, state: &State, s: u8, value: u8) -> bool {
        self.openable(state, s, value) && self.ballots().any(|b| self.acknowledged(state, s, b, value))
    }

    fn openable(&self, state: &State, s: u8, value: u8) -> bool {
        if self.shares {
            self.count(state, |local| local.released[usize::from(s)] & 1 << value != 0) >= self.quorum()
        } else {
            let asked = |b: u8| state.leads[usize::from(b) - 1].values[usize::from(s)];
            self.ballots().any(|b| asked(b) == value && self.decided(state, s, b))
        }
    }

    fn ballots(&self) -> impl Iterator<Item = u8> + use<> {
        1..=u8::try_from(self.proposers.len()).unwrap()
    }

    fn acts(&self, state: &State) -> Vec<Act> {
        let mut out = Vec::new();
        for b in self.ballots() {
            let lead = &state.leads[usize::from(b) - 1];
            match lead.phase {
                Phase::Idle => {
                    out.push(Act::Propose(b));
                    continue;
                }
                Phase::Preparing => out.extend((1..1u8 << self.members).flat_map(|quorum| {
                    let claims = if self.lies(0) { b } else { 1 };
                    (0..claims).map(move |claim| Act::Begin(b, quorum, claim))
                })),
                Phase::Leading | Phase::Dead => {}
            }
            out.extend((0..self.members).map(|a| Act::Promise(b, a)));
            for s in (0..self.slots).filter(|&s| lead.values[usize::from(s)] != 0) {
                for a in 0..self.members {
                    out.extend([Act::Accept(b, s, a), Act::Open(b, s, a)]);
                    out.extend(self.shares.then_some(Act::Release(b, s, a)));
                }
            }
        }
        for a in 0..self.members {
            out.extend([Act::Fetch(a), Act::Crash(a)]);
            if self.deviates() {
                out.extend(self.ballots().flat_map(|b| [Act::Serve(a, b), Act::Serve(a, twin(b))]));
            }
        }
        if self.deviates() {
            out.extend(self.ballots().flat_map(|b| (0..self.slots).map(move |s| Act::Turn(b, s))));
        }
        out
    }

    /// Describes the violation in `state`: two values of one slot that were each acknowledged by a
    /// majority in one ballot, that can be opened, or that are open.
    fn wrong(&self, state: &State) -> Option<String> {
        for s in 0..self.slots {
            let mut decided: Vec<_> = self
                .ballots()
                .filter(|&b| self.rule != Rule::Naive && self.decided(state, s, b))
                .map(|b| state.leads[usize::from(b) - 1].values[usize::from(s)])
                .collect();
            decided.sort_unstable();
            decided.dedup();
            let twins = self.ballots().filter(|_| self.has_liar()).map(twin);
            let openable: Vec<_> =
                self.ballots().chain(twins).filter(|&v| self.openable(state, s, v)).collect();
            let mut opened: Vec<_> = state.locals.iter().map(|local| local.opened[usize::from(s)]).collect();
            opened.retain(|&value| value != 0);
            opened.sort_unstable();
            opened.dedup();
            if self.has_liar() {
                // A liar may get two values acknowledged; only values that can be opened or are open
                // count.
                if openable.len() > 1 || opened.len() > 1 {
                    return Some(format!("slot {s}: {openable:?} can be opened, {opened:?} are open"));
                }
                continue;
            }
            for (what, values) in [("decided", &decided), ("can be opened", &openable), ("are open", &opened)]
            {
                if values.len() > 1 {
                    return Some(format!("slot {s}: the sums of ballots {values:?} {what}"));
                }
            }
            let only = decided.first().or(openable.first()).copied();
            let cleared = state.locals[..usize::from(self.members)]
                .iter()
                .all(|local| local.opened[usize::from(s)] != 0);
            if self.rule != Rule::Naive
                && !cleared
                && opened.iter().chain(&openable).any(|value| Some(*value) != only)
            {
                return Some(format!("slot {s}: open is {opened:?}, decided {decided:?}"));
            }
        }
        None
    }

    /// Maps equivalent states to one: sorts peers that never propose, and clears data that no peer will
    /// use.
    fn canonical(&self, mut state: State) -> State {
        let all = usize::from(self.members);
        for b in self.ballots() {
            let (lead, p) = (&mut state.leads[usize::from(b) - 1], self.proposers[usize::from(b) - 1]);
            let proposer = &state.locals[usize::from(p)];
            let given_up = match lead.phase {
                Phase::Preparing => proposer.promised != b,
                Phase::Leading => proposer.view != b,
                Phase::Idle | Phase::Dead => false,
            };
            if given_up {
                lead.phase = Phase::Dead;
            }
            if lead.phase != Phase::Preparing {
                state.locals.iter_mut().for_each(|local| local.promises[usize::from(b) - 1] = None);
            }
        }
        if self.rule == Rule::Decided {
            for local in &mut state.locals[..all] {
                if local.joined < local.promised {
                    local.joined = 0;
                }
            }
            for s in 0..usize::from(self.slots) {
                if state.locals[..all].iter().any(|local| local.opened[s] == 0) {
                    continue;
                }
                // No acceptor will ever acknowledge or release anything in this slot again.
                state.leads.iter_mut().for_each(|lead| lead.values[s] = 0);
                for local in &mut state.locals[..all] {
                    (local.acks[s], local.released[s]) = ([0; BALLOTS], 0);
                }
            }
        }
        let first = self.proposers.iter().max().map_or(0, |p| usize::from(*p) + 1);
        if let Some(alike) = state.locals.get_mut(first..all) {
            alike.sort_unstable();
        }
        state
    }

    fn explore(&self, most: usize) -> Explored {
        let start = State { locals: Default::default(), leads: Default::default(), crashes: 0 };
        let mut seen = HashSet::from([fingerprint(&start)]);
        let mut parents = vec![(0usize, None)];
        let mut queue = VecDeque::from([(0usize, start)]);
        let mut finished = false;
        while let Some((index, state)) = queue.pop_front() {
            for act in self.acts(&state) {
                let Some(next) = self.after(&state, act) else { continue };
                finished |= next.locals.iter().any(|local| local.committed == self.slots);
                let wrong = self.wrong(&next);
                let next = self.canonical(next);
                if !seen.insert(fingerprint(&next)) {
                    continue;
                }
                parents.push((index, Some(act)));
                if let Some(what) = wrong {
                    let trace = self.trace(&parents, &what);
                    return Explored { states: seen.len(), violation: Some(trace), finished };
                }
                queue.push_back((parents.len() - 1, next));
                assert!(seen.len() <= most, "more than {most} states of {self:?}");
            }
        }
        Explored { states: seen.len(), violation: None, finished }
    }
}
