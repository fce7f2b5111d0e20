//! What computing costs in virtual time: counted work over the scenario's rates, never a clock.

use super::links::micros;
use super::scenario::{Rates, Scenario, TaskKind};
use crate::node::Job;
use crate::protocol::Time;
use crate::protocol::context::{Context, FULL_MESH};
use crate::protocol::message::Message;
use crate::protocol::view::{self, Order, Report};
use crate::protocol::{all_reduce, pairwise};
use crate::session::Peer;

/// The processors of all peers.
#[derive(Clone, Debug)]
pub struct Costs {
    rates: Rates,
    speed: Vec<f64>,
    /// Until when each peer's worker is busy.
    busy: Vec<Time>,
    /// Rows of each peer, and what each row and the matrix cost in seconds at speed 1.
    rows: Vec<usize>,
    row_s: f64,
    matrix_s: f64,
    feature_s: f64,
    sketch_s: f64,
    task: TaskKind,
    /// The longest job so far, microseconds.
    pub longest_us: u64,
}

impl Costs {
    /// For peers with so many rows; `ctx` is any peer's.
    #[must_use]
    pub fn new(scenario: &Scenario, ctx: &Context, rows: Vec<usize>) -> Self {
        let rates = scenario.rates;
        let (task, d) = (&ctx.session.task, f64::from(ctx.session.data.dimension()));
        let (m, s) = task.model().map_or((0.0, 0.0), |model| (f64::from(model.m), f64::from(model.s)));
        let mut speed = vec![1.0; usize::from(scenario.peers)];
        for each in &scenario.speed {
            for peer in each.peers.of(&ctx.council, scenario.peers) {
                speed[peer.index()] = each.factor;
            }
        }
        Self {
            rates,
            busy: vec![Time(0); speed.len()],
            speed,
            rows,
            row_s: m * s / rates.lift + m / rates.select,
            matrix_s: m * s / rates.matrix,
            feature_s: d / rates.lift,
            sketch_s: task
                .sketch()
                .map_or(0.0, |spec| f64::from(spec.rows) * f64::from(spec.range).log2() * d / rates.lift),
            task: scenario.task.kind,
            longest_us: 0,
        }
    }

    /// What one party of speed 1 would need for the vector of counts of so many rows, seconds.
    #[must_use]
    pub fn training_s(&self, rows: usize) -> f64 {
        self.matrix_s + rows as f64 * self.row_s
    }

    fn us(&self, peer: Peer, seconds: f64) -> u64 {
        micros(seconds * 1000.0 / self.speed[peer.index()])
    }

    fn job_s(&self, peer: Peer, job: &Job) -> f64 {
        match job {
            Job::Contribution { slot, task, .. } => {
                let plan = task.plan();
                let Some(quantity) = plan.get(*slot as usize) else { return 0.0 };
                let write = quantity.len() as f64 / self.rates.add;
                let rows = self.rows[peer.index()];
                write
                    + match (self.task, quantity.name.as_str()) {
                        (TaskKind::Flynn, "counts") => self.training_s(rows),
                        (_, "sketch") => rows as f64 * self.sketch_s,
                        (_, "moments") => rows as f64 * self.feature_s,
                        _ => 0.0,
                    }
            }
            Job::Mask(job) => {
                let start = job.index as usize * all_reduce::CHUNK;
                let bytes = job.vector.len().saturating_sub(start).min(all_reduce::CHUNK);
                (bytes * job.masks.masks.len()) as f64 / self.rates.mask
            }
            Job::Exchange(job) => job.operations as f64 / self.rates.lift,
            Job::Open { frozen, total, .. } => (total.len() * frozen.pads.len()) as f64 / self.rates.mask,
        }
    }

    /// When a job that is begun `now` is done: a peer has one worker, which takes jobs in their order.
    pub fn finishes(&mut self, now: Time, peer: Peer, job: &Job) -> Time {
        let us = self.us(peer, self.job_s(peer, job));
        self.longest_us = self.longest_us.max(us);
        let busy = &mut self.busy[peer.index()];
        *busy = Time(now.max(*busy).0 + us);
        // A result is an input of its own, never part of the step that asked for it.
        Time(busy.0.max(now.0 + 1))
    }

    /// How long a message occupies the thread that answers it, microseconds.
    #[must_use]
    pub fn handling_us(&self, ctx: &Context, peer: Peer, message: &Message) -> u64 {
        let (verify, agree) = (1.0 / self.rates.verify, 1.0 / self.rates.agree);
        let Message::View(message) = message else { return self.us(peer, 1.0 / self.rates.message) };
        let seconds = match message {
            view::Message::Up(_, report) => {
                let items = match report {
                    Report::Keys(items) => items.len(),
                    Report::Hold { deals, .. } => deals.len(),
                    Report::Acknowledge(_, items) => items.len(),
                    Report::Release(_, items) => items.len(),
                };
                items as f64 * verify
            }
            view::Message::Down(_, order) => match order {
                Order::Keys(items) => {
                    let p = items.len();
                    let partners = if p <= FULL_MESH {
                        p - 1
                    } else {
                        pairwise::degree(p, ctx.session.privacy.colluding)
                    };
                    partners as f64 * (verify + agree)
                }
                Order::Sum(_) => 0.0,
                Order::Accept(record) => {
                    let shares = if ctx.council_index(peer).is_some() { record.deals.len() } else { 0 };
                    record.deals.len() as f64 * verify + shares as f64 * agree
                }
                Order::Decide(_, items) => items.len() as f64 * verify,
                Order::Open(_, items) => items.len() as f64 * verify,
            },
            view::Message::Reduce(all_reduce::Message::Chunk { data, .. }) => {
                data.len() as f64 / self.rates.add
            }
            view::Message::Reduce(all_reduce::Message::Credit { .. }) | view::Message::Working(_) => 0.0,
        };
        self.us(peer, seconds + 1.0 / self.rates.message)
    }
}
