//! A dealer whose envelope opens for all but one peer. Only that peer can know that the deal is bad.

use super::super::network::Network;
use super::super::numbers::timing;
use super::bounds::honest_are_in_every_sum;
use super::honest_finish;
use crate::protocol::message::Message;
use crate::protocol::signed::Signed;
use crate::protocol::view::{self, Report};
use crate::session::Faults;

#[test]
#[ignore = "open: the victim cannot prove that its share is bad, and is left out after three views"]
fn a_dealer_that_gives_one_peer_a_bad_share_stops_nobody_and_gets_nobody_left_out() {
    for (peers, faults) in
        [(4, Faults::Byzantine), (5, Faults::Crash), (5, Faults::Byzantine), (7, Faults::Byzantine)]
    {
        for seed in 0..3 {
            let mut net = Network::altered(peers, &[3, 3], timing(), seed, |s| s.voting.faults = faults);
            let committee = net.committee();
            let (liar, victim) = (committee[2], committee[3]);
            net.liars.insert(liar);
            let ctx = net.context(liar);
            let place = ctx.committee_index(victim).unwrap();
            net.rewrite = Some(Box::new(move |_, _, message| {
                let Message::View(view::Message::Up(ballot, Report::TotalReady { slot, total, deals })) =
                    message
                else {
                    return None;
                };
                let mut deals = deals.clone();
                for deal in deals.iter_mut().filter(|deal| deal.author == liar) {
                    let mut item = deal.item.clone();
                    item.sealed.boxes[place][0] ^= 1;
                    *deal = Signed::new(&ctx, item);
                }
                let report = Report::TotalReady { slot: *slot, total: *total, deals };
                Some(Message::View(view::Message::Up(*ballot, report)))
            }));
            net.run_unchecked(1_200_000, |_| false);
            let what = format!("{peers} peers, {faults:?}, seed {seed}");
            honest_finish(&net, &what);
            honest_are_in_every_sum(&net, &what);
            assert!(net.named().is_subset(&net.liars), "{what}: {:?}", net.blames);
        }
    }
}
