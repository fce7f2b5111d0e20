//! Signed items, deals, records, digests and the seed; and items that must be refused.

use std::sync::Arc;

use flyswarm::session::Peer;
use flyswarm::tasks::xclp::internals::Topic;
use flyswarm_mpc::shares::accounts::{Account, Place, Progress};
use flyswarm_sealed_sum::crypto::agreement::EphemeralSecret;
use flyswarm_sealed_sum::protocol::Fault;
use flyswarm_sealed_sum::protocol::all_reduce::total_digest;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::context::Context;
use flyswarm_sealed_sum::protocol::deal::{self, Deal, Opening, Release};
use flyswarm_sealed_sum::protocol::pairwise::{Reveal, ViewKey};
use flyswarm_sealed_sum::protocol::record::{Acknowledgement, Committed, Record};
use flyswarm_sealed_sum::protocol::signed::{Item, Signed};
use flyswarm_sealed_sum::protocol::wire;
use serde_json::{Value, json};

use super::primitives::shown;
use super::sessions::{context, small, small_text, sum_id};
use super::statements::{account, statement};
use super::{Given, bytes, hex};

/// All items of one sum over three peers.
pub(crate) struct Made {
    pub(crate) contexts: Vec<Arc<Context>>,
    pub(crate) keys: Vec<Signed<ViewKey>>,
    pub(crate) deals: Vec<Signed<Deal>>,
    pub(crate) pads: Vec<[u8; 32]>,
    pub(crate) total: Vec<u8>,
    pub(crate) record: Record,
    pub(crate) acknowledgements: Vec<Signed<Acknowledgement>>,
    pub(crate) releases: Vec<Signed<Release>>,
    pub(crate) committed: Committed,
}

/// Returns the random bytes of one deal in a committee of three: two coefficients.
fn deal_random(slot: u32, dealer: Peer) -> [u8; 128] {
    let label = |what: &str| format!("{what} of slot {slot} by {dealer}");
    let mut out = [0; 128];
    out[..31].copy_from_slice(&bytes::<31>(&label("secret")));
    out[64..95].copy_from_slice(&bytes::<31>(&label("coefficient")));
    out
}

pub(crate) fn made(slot: u32) -> Made {
    let session = small(3);
    let contexts: Vec<_> = session.peers().map(|peer| context(&session, peer)).collect();
    let sum = sum_id(slot);
    let members: Vec<_> = session.peers().collect();
    let keys = contexts
        .iter()
        .map(|ctx| {
            let secret =
                EphemeralSecret::generate(&mut Given::new(&bytes::<32>(&format!("view key of {}", ctx.me))));
            let (ballot, begun) = (sum.ballot, bytes("beginning"));
            Signed::new(ctx, ViewKey { ballot, begun, public: secret.public(), commitment: None })
        })
        .collect();
    let mut deals = Vec::new();
    let mut pads = Vec::new();
    for dealer in contexts[0].dealers(slot, &members) {
        let (pad, deal) =
            deal::make(&contexts[dealer.index()], sum, &mut Given::new(&deal_random(slot, dealer)));
        deals.push(deal);
        pads.push(*pad);
    }
    let length = contexts[0].plan[slot as usize].len();
    let total: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
    let digest = total_digest(&contexts[0].id.0, sum, &total);
    let record = Record::new(sum, members, digest, deals.clone());
    let value = record.digest(&contexts[0]);
    let committee: Vec<_> = contexts[0].committee.iter().map(|peer| contexts[peer.index()].clone()).collect();
    let acknowledgements: Vec<_> = committee
        .iter()
        .map(|ctx| Signed::new(ctx, Acknowledgement { ballot: sum.ballot, slot, value }))
        .collect();
    let releases: Vec<_> = committee.iter().map(|ctx| deal::release(ctx, &record).unwrap()).collect();
    let committed = Committed {
        record: record.clone(),
        acknowledgements: acknowledgements[..2].to_vec(),
        pads: pads.clone(),
        releases: releases[..2].to_vec(),
    };
    committed.check(&contexts[0]).unwrap();
    Made { contexts, keys, deals, pads, total, record, acknowledgements, releases, committed }
}

/// Returns a part of the draw of a mask graph.
pub(crate) fn reveal(ctx: &Context) -> Signed<Reveal> {
    let ballot = sum_id(1).ballot;
    Signed::new(ctx, Reveal { ballot, keys: bytes("keys of the view"), secret: bytes("part of the draw") })
}

fn item<T: Item + serde::Serialize>(ctx: &Context, signed: &Signed<T>) -> Value {
    assert!(signed.verify(ctx));
    json!({
        "context": T::TAG,
        "author": signed.author,
        "item": shown(&signed.item),
        "canonical": hex(wire::canonical(&signed.item)),
        "signed": hex(wire::canonical(signed)),
    })
}

/// Changes a valid signed item, and checks that it is not valid any more.
fn tamper<T: Item + serde::Serialize + serde::de::DeserializeOwned>(
    ctx: &Context,
    what: &str,
    signed: &Signed<T>,
    change: impl FnOnce(&mut Vec<u8>),
) -> Value {
    let mut bytes = wire::canonical(signed);
    change(&mut bytes);
    let changed: Signed<T> = wire::decode_item(&bytes).unwrap();
    assert!(!changed.verify(ctx), "{what}");
    json!({ "what": what, "context": T::TAG, "signed": hex(bytes), "class": "bad-signature" })
}

pub(crate) fn items() -> Value {
    let made = made(1);
    let ctx = &*made.contexts[0];
    let mut good = Vec::new();
    good.extend(made.keys.iter().map(|signed| item(ctx, signed)));
    good.extend(made.deals.iter().map(|signed| item(ctx, signed)));
    good.extend(made.acknowledgements.iter().map(|signed| item(ctx, signed)));
    good.extend(made.releases.iter().map(|signed| item(ctx, signed)));
    let committed = ViewKey { commitment: Some(bytes("commitment")), ..made.keys[0].item.clone() };
    good.push(item(ctx, &Signed::new(ctx, committed)));
    good.push(item(ctx, &reveal(ctx)));
    let refused = Topic::Check(Place { chunk: 5, number: 300 }, Account { accepts: false, ..account(1) });
    good.push(item(ctx, &statement(&made.contexts, 1, true, refused)));
    let rounds = Topic::Rounds(Progress { sent: 300, missing: [false, true] });
    good.push(item(ctx, &statement(&made.contexts, 2, false, rounds)));

    let mut bad = vec![
        tamper(ctx, "another author", &made.keys[0], |bytes| bytes[0] = 1),
        tamper(ctx, "an author outside the roster", &made.keys[0], |bytes| bytes[0] = 3),
        tamper(ctx, "another ballot", &made.keys[0], |bytes| bytes[1] += 1),
        tamper(ctx, "another key", &made.keys[0], |bytes| bytes[5] ^= 1),
        tamper(ctx, "another signature", &made.acknowledgements[0], |bytes| *bytes.last_mut().unwrap() ^= 1),
        tamper(ctx, "another share", &made.releases[0], |bytes| bytes[6] ^= 1),
        tamper(ctx, "another response", &made.deals[0], |bytes| {
            let at = bytes.len() - 64 - 1;
            bytes[at] ^= 1;
        }),
    ];
    // Only the context distinguishes the signatures of two items with the same layout.
    let ViewKey { ballot, public, .. } = made.keys[0].item.clone();
    let key = Signed::new(ctx, AsKey { ballot, slot: 0, value: public });
    let as_acknowledgement = wire::canonical(&key);
    let changed: Signed<Acknowledgement> = wire::decode_item(&as_acknowledgement).unwrap();
    assert!(!changed.verify(ctx));
    bad.push(json!({
        "what": "signed under the context of a view key", "context": Acknowledgement::TAG,
        "signed": hex(as_acknowledgement), "class": "bad-signature",
    }));

    let deals: Vec<_> = made
        .deals
        .iter()
        .zip(&made.pads)
        .map(|(deal, pad)| {
            let random = deal_random(1, deal.author);
            json!({
                "dealer": deal.author,
                "coefficients": [hex(&random[..32]), hex(&random[64..96])],
                "pad": hex(pad),
                "signed": hex(wire::canonical(deal)),
            })
        })
        .collect();
    let coin = self::made(0);
    let seed = coin.committed.seed(ctx);
    json!({
        "about": "items of one sum of slot 1 over three peers, and of a coin (spec, sections 3, 10, 12)",
        "toml": small_text(3),
        "seeds": made.contexts.iter().map(|ctx| hex(*ctx.identity.seed())).collect::<Vec<_>>(),
        "sum": sum_id(1),
        "view_secrets": made.contexts.iter().map(|ctx| hex(bytes::<32>(&format!("view key of {}", ctx.me)))).collect::<Vec<_>>(),
        "good": good,
        "deals": deals,
        "total": hex(&made.total),
        "total_digest": hex(made.record.value.total),
        "record": hex(wire::canonical(&made.record)),
        "value": hex(wire::canonical(&made.record.value)),
        "deals_digest": hex(made.record.value.deals),
        "value_digest": hex(made.record.digest(ctx)),
        "committed": hex(wire::canonical(&made.committed)),
        "coin": { "committed": hex(wire::canonical(&coin.committed)), "seed": hex(seed) },
        "bad": bad,
        "bad_records": bad_records(&made),
        "bad_committed": bad_committed(&made),
        "bad_releases": bad_releases(&made),
        "bad_deals": bad_deals(&made),
    })
}

/// Contents of an acknowledgement, under another context.
#[derive(serde::Serialize)]
struct AsKey {
    ballot: Ballot,
    slot: u32,
    value: [u8; 32],
}

impl Item for AsKey {
    const TAG: &'static str = ViewKey::TAG;

    fn has_lengths(&self, _: &Context) -> bool {
        true
    }
}

fn bad_records(made: &Made) -> Vec<Value> {
    let ctx = &*made.contexts[0];
    let value = &made.record.value;
    let other =
        |members: Vec<Peer>, deals: Vec<Signed<Deal>>| Record::new(value.sum, members, value.total, deals);
    let mut wrong_digest = made.record.clone();
    wrong_digest.value.deals[0] ^= 1;
    let mut no_slot = made.record.clone();
    no_slot.value.sum.slot = 9;
    let members = || value.members.clone();
    let mut swapped = made.deals.clone();
    swapped.swap(0, 1);
    let mut forged = made.deals.clone();
    forged[0].item.dealt.challenge[0] ^= 1;
    let mut short = made.deals.clone();
    short[0].item.dealt.shares.pop();
    let mut misdealt = made.deals.clone();
    let mut item = misdealt[1].item.clone();
    item.dealt.shares.swap(0, 1);
    misdealt[1] = Signed::new(&made.contexts[misdealt[1].author.index()], item);
    [
        ("deals do not match their digest", wrong_digest),
        ("no such slot", no_slot),
        ("members not ascending", other(vec![Peer(1), Peer(0), Peer(2)], made.deals.clone())),
        ("a member outside the roster", other(vec![Peer(0), Peer(1), Peer(3)], made.deals.clone())),
        ("no members", other(vec![], vec![])),
        ("a deal is missing", other(members(), made.deals[..2].to_vec())),
        ("deals not in committee order", other(members(), swapped)),
        ("a deal is forged", other(members(), forged)),
        ("deals of another sum", other(members(), self::made(2).deals)),
        ("a share is missing", other(members(), short)),
        ("a share that its holder cannot open", other(members(), misdealt)),
    ]
    .into_iter()
    .map(|(what, record)| {
        let text = record.check(ctx).expect_err(what);
        json!({ "what": what, "record": hex(wire::canonical(&record)), "class": "bad-record", "text": text })
    })
    .collect()
}

fn bad_committed(made: &Made) -> Vec<Value> {
    let ctx = &*made.contexts[0];
    let acknowledged = |acknowledgements: Vec<_>| Committed { acknowledgements, ..made.committed.clone() };
    let one = made.acknowledgements[0].clone();
    let mut ballot = sum_id(1).ballot;
    ballot.counter += 1;
    let later = Acknowledgement { ballot, slot: 1, value: one.item.value };
    let outvoted = Signed::new(&made.contexts[made.acknowledgements[1].author.index()], later);
    let released = |releases: Vec<_>| Committed { releases, ..made.committed.clone() };
    let of = |places: &[usize]| places.iter().map(|&place| made.releases[place].clone()).collect::<Vec<_>>();
    let mut item = made.releases[1].item.clone();
    item.shares.swap(0, 1);
    let wrong = Signed::new(&made.contexts[made.releases[1].author.index()], item);
    let mut forged = made.releases[1].clone();
    forged.author = made.releases[2].author;
    let mut wrong_pad = made.committed.clone();
    wrong_pad.pads.swap(0, 1);
    let mut short = made.committed.clone();
    short.pads.pop();
    [
        ("one acknowledgement of three", acknowledged(vec![one.clone()])),
        ("one acknowledgement twice", acknowledged(vec![one.clone(), one.clone()])),
        ("acknowledgements of two ballots", acknowledged(vec![one.clone(), outvoted])),
        ("acknowledgements of another value", acknowledged(self::made(2).acknowledgements)),
        ("pads exchanged", wrong_pad),
        ("too few pads", short),
        ("no releases", released(vec![])),
        ("too few releases", released(of(&[0]))),
        ("more releases than a quorum", released(of(&[0, 1, 2]))),
        ("one release twice", released(of(&[0, 0]))),
        ("releases of another value", released(self::made(2).releases[..2].to_vec())),
        ("a release of a wrong share", released(vec![made.releases[0].clone(), wrong])),
        ("a forged release", released(vec![made.releases[0].clone(), forged])),
    ]
    .into_iter()
    .map(|(what, committed)| {
        let text = committed.check(ctx).expect_err(what);
        json!({ "what": what, "committed": hex(wire::canonical(&committed)), "class": "bad-record", "text": text })
    })
    .collect()
}

fn bad_releases(made: &Made) -> Vec<Value> {
    let author = &*made.contexts[made.releases[0].author.index()];
    let good = &made.releases[0].item;
    let with = |change: &dyn Fn(&mut Release)| {
        let mut release = good.clone();
        change(&mut release);
        release
    };
    let other = &made.releases[1].item;
    [
        ("shares exchanged", "bad-share", with(&|release| release.shares.swap(0, 1))),
        ("a share that is not a point", "bad-share", with(&|release| release.shares[0] = [2; 32])),
        ("another member's share", "bad-share", with(&|release| release.shares[0] = other.shares[0])),
        ("another member's proof", "bad-share", with(&|release| release.response = other.response)),
        ("a share is missing", "inconsistent", with(&|release| release.shares.truncate(release.shares.len() - 1))),
        ("a share of another sum", "inconsistent", with(&|release| release.sum = sum_id(2))),
    ]
    .into_iter()
    .map(|(what, class, release)| {
        let signed = Signed::new(author, release);
        assert!(signed.verify(author));
        let fault = Opening::default().add(author, &made.deals, &signed).expect_err(what);
        json!({ "what": what, "signed": hex(wire::canonical(&signed)), "class": class, "text": fault.to_string() })
    })
    .collect()
}

/// Makes deals that their dealer has signed and that some member cannot open, or that do not belong to one
/// secret.
fn bad_deals(made: &Made) -> Vec<Value> {
    let dealer = &*made.contexts[made.deals[0].author.index()];
    let good = &made.deals[0].item;
    let with = |change: &dyn Fn(&mut Deal)| {
        let mut deal = good.clone();
        change(&mut deal);
        deal
    };
    [
        ("another member's share", with(&|deal| deal.dealt.shares[1] = deal.dealt.shares[0])),
        ("another dealer's share", with(&|deal| deal.dealt.shares[1] = made.deals[1].item.dealt.shares[1])),
        ("another dealer's deal", with(&|deal| deal.dealt = made.deals[1].item.dealt.clone())),
        ("a deal of another sum", with(&|deal| deal.dealt = self::made(2).deals[0].item.dealt.clone())),
        ("a share that is not a point", with(&|deal| deal.dealt.shares[2] = [2; 32])),
    ]
    .into_iter()
    .map(|(what, deal)| {
        let deal = Signed::new(dealer, deal);
        assert!(deal.is_signed(dealer) && !deal.verify(dealer), "{what}");
        assert_eq!(deal::liars(dealer, std::slice::from_ref(&deal)).collect::<Vec<_>>(), [dealer.me]);
        json!({
            "what": what, "signed": hex(wire::canonical(&deal)), "class": "bad-deal",
            "text": Fault::BadDeal.to_string(),
        })
    })
    .collect()
}
