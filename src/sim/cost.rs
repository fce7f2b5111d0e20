//! The virtual time of computations. It is the counted work divided by the rates of the scenario, never a
//! measured time.

use super::links::micros;
use super::scenario::{Rates, Scenario};
use crate::node::Job;
use crate::protocol::Time;
use crate::protocol::context::{Aggregate, Context, FULL_MESH};
use crate::protocol::message::Message;
use crate::protocol::view::{self, Order, Report};
use crate::protocol::{all_reduce, pairwise};
use crate::session::Peer;
use crate::tasks::Work;

/// The processors of all peers.
#[derive(Clone, Debug)]
pub struct Costs {
    rates: Rates,
    speed: Vec<f64>,
    /// Time until which each peer's worker is busy.
    busy: Vec<Time>,
    plan: Vec<Aggregate>,
    /// Longest job so far, in microseconds.
    pub longest_us: u64,
}

impl Costs {
    /// Makes the processors of a scenario's peers; `ctx` is any peer's.
    #[must_use]
    pub fn new(scenario: &Scenario, ctx: &Context) -> Self {
        let rates = scenario.rates;
        let mut speed = vec![1.0; usize::from(scenario.peers)];
        for each in &scenario.speed {
            for peer in each.peers.of(&ctx.committee, scenario.peers) {
                speed[peer.index()] = each.factor;
            }
        }
        Self { rates, busy: vec![Time(0); speed.len()], speed, plan: ctx.plan.clone(), longest_us: 0 }
    }

    /// Returns the seconds that a peer of speed 1 needs for this work.
    #[must_use]
    pub fn work_s(&self, work: Work) -> f64 {
        work.matrix / self.rates.matrix + work.lift / self.rates.lift + work.select / self.rates.select
    }

    fn us(&self, peer: Peer, seconds: f64) -> u64 {
        micros(seconds * 1000.0 / self.speed[peer.index()])
    }

    fn job_s(&self, job: &Job) -> f64 {
        match job {
            Job::Contribution { slot, task, history, .. } => {
                let length = self.plan.get(*slot as usize).map_or(0, Aggregate::len);
                length as f64 / self.rates.add + self.work_s(task.work(*slot, history))
            }
            Job::Mask(job) => {
                let start = job.index as usize * all_reduce::CHUNK;
                let bytes = job.vector.len().saturating_sub(start).min(all_reduce::CHUNK);
                (bytes * job.masks.masks.len()) as f64 / self.rates.mask
            }
            Job::Exchange(_, job) => job.operations as f64 / self.rates.lift,
            Job::Open { committed, total, .. } => {
                (total.len() * committed.pads.len()) as f64 / self.rates.mask
            }
        }
    }

    /// Returns the time at which a job ends that begins `now`. A peer has one worker, which does the jobs in
    /// order.
    pub(crate) fn finishes(&mut self, now: Time, peer: Peer, job: &Job) -> Time {
        let us = self.us(peer, self.job_s(job));
        self.longest_us = self.longest_us.max(us);
        let busy = &mut self.busy[peer.index()];
        *busy = Time(now.max(*busy).0 + us);
        // The result comes at least 1 microsecond later, because it is a separate input and not part of the
        // step that requested it.
        Time(busy.0.max(now.0 + 1))
    }

    /// Returns the time for which a message occupies the thread that answers it, in microseconds.
    #[must_use]
    pub fn handling_us(&self, ctx: &Context, peer: Peer, message: &Message) -> u64 {
        let (verify, agree) = (1.0 / self.rates.verify, 1.0 / self.rates.agree);
        let Message::View(message) = message else { return self.us(peer, 1.0 / self.rates.message) };
        let seconds = match message {
            view::Message::Up(_, report) => {
                let items = match report {
                    Report::Keys(items) => items.len(),
                    // Each share is as much work as a signature.
                    Report::TotalReady { deals, .. } => deals.len() * (1 + ctx.committee.len()),
                    Report::Acknowledge(_, items) => items.len(),
                    Report::Release(_, items) => items.len(),
                    Report::Reveal(items) => items.len(),
                };
                items as f64 * verify
            }
            view::Message::Down(_, order) => match order {
                Order::Keys(items) => {
                    let p = items.len();
                    let partners = if p <= FULL_MESH {
                        p - 1
                    } else {
                        pairwise::degree(p, pairwise::most_views(ctx), ctx.session.collusion_threshold)
                    };
                    partners as f64 * (verify + agree)
                }
                Order::Sum(_) => 0.0,
                Order::Accept(record) => (record.deals.len() * (1 + ctx.committee.len())) as f64 * verify,
                Order::Decide(_, items) => {
                    // A committee member opens its shares: two products for each dealer.
                    let shares = if ctx.committee_index(peer).is_some() { items.len() } else { 0 };
                    items.len() as f64 * verify + 2.0 * shares as f64 * agree
                }
                Order::Open(_, items) => {
                    let shares: usize = items.iter().map(|release| release.item.shares.len()).sum();
                    (items.len() + shares) as f64 * verify
                }
                // The work that this message causes is counted with the keys.
                Order::Reveal(items) => items.len() as f64 * verify,
            },
            view::Message::Reduce(all_reduce::Message::Chunk { data, .. }) => {
                data.len() as f64 / self.rates.add
            }
            view::Message::Reduce(all_reduce::Message::Credit { .. }) | view::Message::KeepAlive(_) => 0.0,
        };
        self.us(peer, seconds + 1.0 / self.rates.message)
    }
}
