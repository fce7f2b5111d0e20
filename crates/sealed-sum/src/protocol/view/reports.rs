//! Rounds up the tree: accepting a child's report, and reporting when the whole subtree has reported.

use std::collections::BTreeSet;

use super::{Message, Order, Output, Reason, Report, View};
use crate::protocol::record::{NO_VALUE, Record};
use crate::protocol::signed::{Item, Signed};
use crate::protocol::{Fault, Step, Time, deal};
use crate::session::Peer;

impl View {
    pub(super) fn report(
        &mut self,
        now: Time,
        from: Peer,
        report: Report,
        step: &mut Step<Self>,
    ) -> Result<(), Fault> {
        // The order for this slot came before the subtree had reported on the previous one. This is not a
        // fault of the subtree.
        let older = |slot: u32| self.slot().is_some_and(|now| slot < now);
        match report {
            Report::TotalReady { slot, .. } | Report::Acknowledge(slot, _) | Report::Release(slot, _)
                if older(slot) => {}
            Report::Keys(items) => {
                self.verify(from, &items, "view key", |key| {
                    (key.item.ballot, key.item.begun) == (self.ballot, self.begun)
                        && key.item.commitment.is_some() == self.ctx.draws(key.author, self.members())
                })?;
                self.whole(from, "key", &items, |_| true)?;
                self.keys_below.extend(items.iter().map(|key| (key.author, key.clone())));
                if !self.keys_report.child(from, items) {
                    return Err(Fault::OutOfOrder("keys"));
                }
                self.report_keys(now, step);
            }
            // As with older slots, this is not a fault.
            Report::Reveal(_) if self.keys.is_some() => {}
            Report::Reveal(items) => {
                let fixed = self.fixed.as_ref().ok_or(Fault::OutOfOrder("reveal"))?;
                self.verify(from, &items, "reveal", |each| fixed.opens(&self.ctx, each))?;
                self.whole(from, "reveal", &items, |peer| self.ctx.draws(peer, self.members()))?;
                if !self.reveals.child(from, items) {
                    return Err(Fault::OutOfOrder("reveal"));
                }
                self.report_reveals(now, step);
            }
            Report::TotalReady { slot, total, deals } => {
                let (sum, dealers) = (self.sum_id(slot), self.ctx.dealers(slot, self.members()));
                let verified = self.verify(from, &deals, "deal", |deal| {
                    deal.item.sum == sum && dealers.contains(&deal.author)
                });
                if verified == Err(Fault::BadDeal) {
                    // A deal has its dealer's signature. The child is at fault too, because it passed
                    // the deal on.
                    let others = deal::liars(&self.ctx, &deals).filter(|&peer| peer != from);
                    others.for_each(|peer| step.blame(peer, Fault::BadDeal));
                }
                verified?;
                self.whole(from, "deal", &deals, |peer| dealers.contains(&peer))?;
                let round = self.round.as_mut().filter(|round| round.slot == slot && round.reduce.is_some());
                let round = round.ok_or(Fault::OutOfOrder("hold"))?;
                if !round.deals.child(from, deals) {
                    return Err(Fault::OutOfOrder("hold"));
                }
                round.child_totals.push((from, total));
                self.report_hold(now, step);
            }
            Report::Acknowledge(slot, items) => {
                let value = self.record().map(|record| record.digest(&self.ctx));
                self.verify(from, &items, "acknowledgement", |each| {
                    each.item.ballot == self.ballot
                        && each.item.slot == slot
                        && (each.item.value == NO_VALUE || Some(each.item.value) == value)
                        && self.ctx.committee_index(each.author).is_some()
                })?;
                self.whole(from, "acknowledgement", &items, |peer| self.ctx.committee_index(peer).is_some())?;
                let round = self.round.as_mut().filter(|round| round.slot == slot && round.record.is_some());
                if !round.ok_or(Fault::OutOfOrder("acknowledgement"))?.acknowledge.child(from, items) {
                    return Err(Fault::OutOfOrder("acknowledgement"));
                }
                self.report_acknowledgements(now, step);
            }
            Report::Release(slot, items) => {
                let value = self.record().map(|record| (record.value.sum, record.digest(&self.ctx)));
                self.verify(from, &items, "release", |each| {
                    Some((each.item.sum, each.item.value)) == value
                        && self.ctx.committee_index(each.author).is_some()
                })?;
                // A sum without pads has no shares to release.
                let hidden = self.record().is_some_and(|record| !record.deals.is_empty());
                let acknowledged: BTreeSet<_> = self.acknowledged().filter(|_| hidden).collect();
                self.whole(from, "release", &items, |peer| acknowledged.contains(&peer))?;
                let round = self
                    .round
                    .as_mut()
                    .filter(|round| round.slot == slot && !round.acknowledgements.is_empty());
                if !round.ok_or(Fault::OutOfOrder("release"))?.release.child(from, items) {
                    return Err(Fault::OutOfOrder("release"));
                }
                self.report_releases(now, step);
            }
        }
        Ok(())
    }

    /// Checks that a child reports for all peers below it that owe an item, as an honest child does.
    fn whole<T>(
        &self,
        from: Peer,
        what: &'static str,
        items: &[Signed<T>],
        due: impl Fn(Peer) -> bool,
    ) -> Result<(), Fault> {
        let below = self.below.iter().filter(|(_, child)| **child == from).map(|(peer, _)| *peer);
        let missing =
            below.filter(|&peer| due(peer)).find(|peer| items.iter().all(|item| item.author != *peer));
        missing.map_or(Ok(()), |peer| Err(Fault::Inconsistent(format!("the {what} of {peer} is left out"))))
    }

    /// Returns the peers that have acknowledged the decided value.
    fn acknowledged(&self) -> impl Iterator<Item = Peer> {
        self.round.iter().flat_map(|round| &round.acknowledgements).map(|each| each.author)
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.round.as_ref()?.record.as_ref()
    }

    /// Checks that every item of a report fits this round and is signed by the child or a peer below
    /// it. Each member may have at most one item. An honest child has checked this before it forwards
    /// the items. So the items of two children have different authors.
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
            if !item.item.has_lengths(&self.ctx) {
                return Err(Fault::Inconsistent(format!("{what} of {} has a wrong length", item.author)));
            }
            if !item.is_signed(&self.ctx) {
                return Err(Fault::BadSignature(what));
            }
            // Only a deal has proofs.
            if !item.item.is_sound(&self.ctx, item.author) {
                return Err(Fault::BadDeal);
            }
        }
        Ok(())
    }

    pub(super) fn report_hold(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(total) = round.total else { return };
        let Some(mut deals) = round.deals.complete() else { return };
        // This peer has sent each child the total that it holds.
        if let Some((child, _)) = round.child_totals.iter().find(|(_, other)| *other != total) {
            step.output(Output::Failed(Reason::Disagreement, Some(*child)));
            return;
        }
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => {
                step.send(parent, Message::Up(self.ballot, Report::TotalReady { slot, total, deals }))
            }
            None => {
                deals.sort_by_key(|deal| self.ctx.committee_index(deal.author));
                let record = Record::new(self.sum_id(slot), self.members().to_vec(), total, deals);
                self.order(now, Order::Accept(record), step);
            }
        }
    }

    pub(super) fn report_acknowledgements(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(mut items) = round.acknowledge.complete() else { return };
        let slot = round.slot;
        if self.place.parent.is_none() {
            items.retain(|each| each.item.value != NO_VALUE);
        }
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Acknowledge(slot, items))),
            None => self.order(now, Order::Decide(slot, items), step),
        }
    }

    pub(super) fn report_releases(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(round) = &mut self.round else { return };
        let Some(items) = round.release.complete() else { return };
        let slot = round.slot;
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Release(slot, items))),
            None => self.order(now, Order::Open(slot, items), step),
        }
    }
}
