//! Keys of a view. In large views, also the draw of the mask graph.

use std::collections::BTreeMap;

use chacha20::rand_core::Rng as _;

use super::{DISAGREEMENT, HEARTBEAT_MS, Message, Order, Output, Refusal, Report, Stage, Timer, View};
use crate::crypto::agreement::EphemeralSecret;
use crate::protocol::pairwise::{self, Reveal, ViewKey, ViewKeys};
use crate::protocol::signed::Signed;
use crate::protocol::view::Reason;
use crate::protocol::{Action, Fault, Step, Time};

impl View {
    pub(super) fn start(&mut self, now: Time, step: &mut Step<Self>) {
        self.clock.start(now, self.place.neighbours());
        step.output(Output::Stage(0, Stage::Keys));
        let secret = EphemeralSecret::generate(&mut self.rng);
        if self.ctx.draws(self.ctx.me, self.members()) {
            let mut part = [0; 32];
            self.rng.fill_bytes(&mut part);
            self.part = Some(part);
        }
        let commitment =
            self.part.map(|part| pairwise::commitment(&self.ctx, self.ballot, self.ctx.me, &part));
        let key = ViewKey { ballot: self.ballot, begun: self.begun, public: secret.public(), commitment };
        self.secret = Some(secret);
        let own = Signed::new(&self.ctx, key);
        self.keys_below.insert(self.ctx.me, own.clone());
        self.keys_report.own(vec![own]);
        step.0.push(Action::SetTimer { at: now.plus_ms(HEARTBEAT_MS), timer: Timer(self.ballot) });
        self.report_keys(now, step);
    }

    /// Accepts the leader's list of all keys. In a large view, this peer now reveals its part of the draw,
    /// for these keys only.
    pub(super) fn fix(
        &mut self,
        now: Time,
        items: Vec<Signed<ViewKey>>,
        step: &mut Step<Self>,
    ) -> Result<(), Refusal> {
        if self.fixed.is_some() {
            return Err(DISAGREEMENT);
        }
        let view = (self.ballot, self.begun);
        let fixed = ViewKeys::new(&self.ctx, view, self.members(), items).ok_or(DISAGREEMENT)?;
        // This peer forwarded the keys of this subtree. If the list contains another key, the leader or a
        // peer on the way has changed it.
        let listed: BTreeMap<_, _> = fixed.items.iter().map(|key| (key.author, key)).collect();
        if !self.keys_below.iter().all(|(peer, key)| listed.get(peer) == Some(&key)) {
            return Err(DISAGREEMENT);
        }
        let keys = fixed.digest;
        self.fixed = Some(fixed);
        if self.members().len() <= super::FULL_MESH {
            return self.agree([0; 32], step);
        }
        let reveal = |secret| Signed::new(&self.ctx, Reveal { ballot: self.ballot, keys, secret });
        let own = self.part.take().map(reveal).into_iter().collect();
        self.reveals.own(own);
        self.report_reveals(now, step);
        Ok(())
    }

    /// Accepts all parts of the draw.
    pub(super) fn drawn(&mut self, reveals: &[Signed<Reveal>], step: &mut Step<Self>) -> Result<(), Refusal> {
        let fixed = self.fixed.as_ref().ok_or(DISAGREEMENT)?;
        let draw = fixed.draw(&self.ctx, reveals).ok_or(DISAGREEMENT)?;
        self.agree(draw, step)
    }

    /// Test only: returns whether `reveal` is its author's part for the keys that were shown here.
    #[cfg(any(test, feature = "harness"))]
    pub fn opens(&self, reveal: &Signed<Reveal>) -> bool {
        self.fixed.as_ref().is_some_and(|fixed| fixed.opens(&self.ctx, reveal))
    }

    /// Agrees on a key with every partner.
    fn agree(&mut self, draw: [u8; 32], step: &mut Step<Self>) -> Result<(), Refusal> {
        let secret = self.secret.take().ok_or(DISAGREEMENT)?;
        let fixed = self.fixed.as_ref().ok_or(DISAGREEMENT)?;
        let partners = pairwise::partners(&self.ctx, self.members(), &draw, self.ctx.me);
        if !fixed.signed_by(&self.ctx, &partners) {
            return Err(DISAGREEMENT);
        }
        let shared = pairwise::agree(&self.ctx, self.ballot, &secret, &fixed.public, &partners);
        let shared = shared.map_err(|peer| {
            step.blame(peer, Fault::LowOrderKey);
            (Reason::Fault, Some(peer))
        })?;
        self.keys = Some(shared);
        step.output(Output::Keys(fixed.items.clone()));
        if self.leads() {
            step.output(Output::Ready);
        }
        Ok(())
    }

    pub(super) fn report_keys(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(items) = self.keys_report.complete() else { return };
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Keys(items))),
            None => self.order(now, Order::Keys(items), step),
        }
    }

    pub(super) fn report_reveals(&mut self, now: Time, step: &mut Step<Self>) {
        let Some(items) = self.reveals.complete() else { return };
        match self.place.parent {
            Some(parent) => step.send(parent, Message::Up(self.ballot, Report::Reveal(items))),
            None => self.order(now, Order::Reveal(items), step),
        }
    }
}
