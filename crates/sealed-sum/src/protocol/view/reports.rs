//! Rounds up the tree: taking a child's report, and reporting when the whole subtree has spoken.

use std::collections::BTreeSet;

use super::{Message, Order, Output, Reason, Report, View};
use crate::protocol::record::Record;
use crate::protocol::signed::{Item, Signed};
use crate::protocol::{Fault, Step};
use crate::session::Peer;

impl View {
    pub(super) fn report(&mut self, from: Peer, report: Report, step: &mut Step<Self>) -> Result<(), Fault> {
        // The order for this slot came before the subtree had spoken on the one before: not its fault.
        let older = |slot: u32| self.slot().is_some_and(|now| slot < now);
        match report {
            Report::TotalReady { slot, .. } | Report::Acknowledge(slot, _) | Report::Release(slot, _)
                if older(slot) => {}
            Report::Keys(items) => {
                self.verify(from, &items, "view key", |key| {
                    key.item.ballot == self.ballot
                        && key.item.commitment.is_some() == self.ctx.draws(key.author, &self.members)
                })?;
                if !self.keys_report.child(from, items) {
                    return Err(Fault::OutOfOrder("keys"));
                }
                self.report_keys(step);
            }
            // As above.
            Report::Reveal(_) if self.keys.is_some() => {}
            Report::Reveal(items) => {
                let fixed = self.fixed.as_ref().ok_or(Fault::OutOfOrder("reveal"))?;
                self.verify(from, &items, "reveal", |each| fixed.opens(&self.ctx, each))?;
                if !self.reveals.child(from, items) {
                    return Err(Fault::OutOfOrder("reveal"));
                }
                self.report_reveals(step);
            }
            Report::TotalReady { slot, total, deals } => {
                let (sum, dealers) = (self.sum_id(slot), self.ctx.dealers(slot, &self.members));
                self.verify(from, &deals, "deal", |deal| {
                    deal.item.sum == sum && dealers.contains(&deal.author)
                })?;
                let round = self.round.as_mut().filter(|round| round.slot == slot && round.reduce.is_some());
                let round = round.ok_or(Fault::OutOfOrder("hold"))?;
                if !round.deals.child(from, deals) {
                    return Err(Fault::OutOfOrder("hold"));
                }
                round.child_totals.push(total);
                self.report_hold(step);
            }
            Report::Acknowledge(slot, items) => {
                let value = self.record().map(|record| record.digest(&self.ctx));
                self.verify(from, &items, "acknowledgement", |each| {
                    each.item.ballot == self.ballot
                        && each.item.slot == slot
                        && Some(each.item.value) == value
                        && self.ctx.committee_index(each.author).is_some()
                })?;
                let round = self.round.as_mut().filter(|round| round.slot == slot && round.record.is_some());
                if !round.ok_or(Fault::OutOfOrder("acknowledgement"))?.acknowledge.child(from, items) {
                    return Err(Fault::OutOfOrder("acknowledgement"));
                }
                self.report_acknowledgements(step);
            }
            Report::Release(slot, items) => {
                let value = self.record().map(|record| (record.value.sum, record.digest(&self.ctx)));
                self.verify(from, &items, "release", |each| {
                    Some((each.item.sum, each.item.value)) == value
                        && self.ctx.committee_index(each.author).is_some()
                })?;
                let round = self
                    .round
                    .as_mut()
                    .filter(|round| round.slot == slot && !round.acknowledgements.is_empty());
                if !round.ok_or(Fault::OutOfOrder("release"))?.release.child(from, items) {
                    return Err(Fault::OutOfOrder("release"));
                }
                self.report_releases(step);
            }
        }
        Ok(())
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.round.as_ref()?.record.as_ref()
    }

    /// Every item of a report fits this round and is signed by a member below its carrier, no two by the
    /// same: whoever passes on another one has not looked at it. So what two children carry has different
    /// authors.
    pub(super) fn verify<T: Item>(
        &self,
        from: Peer,
        items: &[Signed<T>],
        what: &'static str,
        fits: impl Fn(&Signed<T>) -> bool,
    ) -> Result<(), Fault> {
        let mut authors = BTreeSet::new();
        for item in items {
            let twice = !authors.insert(item.author);
            if self.below.get(&item.author) != Some(&from) || twice || !fits(item) {
                return Err(Fault::Inconsistent(format!("{what} of {} does not belong here", item.author)));
            }
            if !item.verify(&self.ctx) {
                return Err(Fault::BadSignature(what));
            }
        }
        Ok(())
    }

    pub(super) fn report_hold(&mut self, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(total) = round.total else { return };
        let Some(mut deals) = round.deals.complete() else { return };
        if round.child_totals.iter().any(|other| *other != total) {
            step.output(Output::Failed(Reason::Disagreement, None));
            return;
        }
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => {
                step.send(parent, Message::Up(self.ballot, Report::TotalReady { slot, total, deals }))
            }
            None => {
                deals.sort_by_key(|deal| self.ctx.committee_index(deal.author));
                let record = Record::new(self.sum_id(slot), self.members.clone(), total, deals);
                self.order(Order::Accept(record), step);
            }
        }
    }

    pub(super) fn report_acknowledgements(&mut self, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(items) = round.acknowledge.complete() else { return };
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Acknowledge(slot, items))),
            None => self.order(Order::Decide(slot, items), step),
        }
    }

    pub(super) fn report_releases(&mut self, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(items) = round.release.complete() else { return };
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Release(slot, items))),
            None => self.order(Order::Open(slot, items), step),
        }
    }
}
