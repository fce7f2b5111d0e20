//! Signed items, deals, records, digests and the seed; and items that must be refused.

use std::sync::Arc;

use flyswarm::session::Peer;
use flyswarm_sealed_sum::crypto::agreement::EphemeralSecret;
use flyswarm_sealed_sum::crypto::envelope;
use flyswarm_sealed_sum::crypto::shamir::{self, Share};
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

/// Returns the random bytes of one deal in a committee of three: secret, one coefficient, ephemeral key.
fn deal_random(slot: u32, dealer: Peer) -> [u8; 160] {
    let label = |what: &str| format!("{what} of slot {slot} by {dealer}");
    let mut out = [0; 160];
    out[..31].copy_from_slice(&bytes::<31>(&label("secret")));
    out[64..95].copy_from_slice(&bytes::<31>(&label("coefficient")));
    out[128..].copy_from_slice(&bytes::<32>(&label("ephemeral")));
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
            Signed::new(ctx, ViewKey { ballot: sum.ballot, public: secret.public(), commitment: None })
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
    let releases: Vec<_> = committee
        .iter()
        .enumerate()
        .map(|(i, ctx)| {
            Signed::new(ctx, Release { sum, value, shares: deal::own_shares(ctx, i, &deals).unwrap() })
        })
        .collect();
    let committed = Committed {
        record: record.clone(),
        acknowledgements: acknowledgements[..2].to_vec(),
        pads: pads.iter().copied().map(Some).collect(),
        releases: Vec::new(),
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

    let mut bad = vec![
        tamper(ctx, "another author", &made.keys[0], |bytes| bytes[0] = 1),
        tamper(ctx, "an author outside the roster", &made.keys[0], |bytes| bytes[0] = 3),
        tamper(ctx, "another ballot", &made.keys[0], |bytes| bytes[1] += 1),
        tamper(ctx, "another key", &made.keys[0], |bytes| bytes[5] ^= 1),
        tamper(ctx, "another signature", &made.acknowledgements[0], |bytes| *bytes.last_mut().unwrap() ^= 1),
        tamper(ctx, "another share", &made.releases[0], |bytes| bytes[6] ^= 1),
        tamper(ctx, "another envelope", &made.deals[0], |bytes| {
            let at = bytes.len() - 64 - 1;
            bytes[at] ^= 1;
        }),
    ];
    // For some slot n, an acknowledgement of the slot and a view key have the same layout. Only the
    // context distinguishes their signatures.
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
                "ephemeral_secret": hex(&random[128..]),
                "pad": hex(pad),
                "pad_hash": hex(deal::pad_hash(ctx, sum_id(1), deal.author, pad)),
                "signed": hex(wire::canonical(deal)),
            })
        })
        .collect();
    let coin = self::made(0);
    let seed = coin.committed.seed(ctx);
    let without = unsound();
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
        "coin_with_an_unsound_deal": { "committed": hex(wire::canonical(&without)), "seed": hex(without.seed(ctx)) },
        "bad_coins": bad_coins(&coin.committed, &without),
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
    forged[0].item.pad_hash[0] ^= 1;
    let mut short = made.deals.clone();
    short[0].item.share_hashes.pop();
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
        ("a hash is missing", other(members(), short)),
    ]
    .into_iter()
    .map(|(what, record)| {
        let text = record.check(ctx).expect_err(what);
        json!({ "what": what, "record": hex(wire::canonical(&record)), "class": "bad-record", "text": text })
    })
    .collect()
}

/// Makes a coin with one inconsistent deal, and the releases that show it.
fn unsound() -> Committed {
    let coin = self::made(0);
    let contexts = &coin.contexts;
    let mut deals = coin.deals.clone();
    let dealer = &*contexts[deals[1].author.index()];
    let mut crooked = deals[1].item.clone();
    crooked.share_hashes[2] = crooked.share_hashes[1];
    deals[1] = Signed::new(dealer, crooked);
    let Record { value, .. } = coin.record;
    let record = Record::new(value.sum, value.members, value.total, deals.clone());
    let digest = record.digest(dealer);
    let committee: Vec<_> = dealer.committee.iter().map(|peer| &*contexts[peer.index()]).collect();
    let acknowledge = |ctx: &&Context| {
        Signed::new(ctx, Acknowledgement { ballot: value.sum.ballot, slot: 0, value: digest })
    };
    let release = |(i, ctx): (usize, &&Context)| {
        let shares = deal::own_shares(ctx, i, &deals).unwrap();
        Signed::new(ctx, Release { sum: value.sum, value: digest, shares })
    };
    let mut pads = coin.committed.pads;
    pads[1] = None;
    let committed = Committed {
        record,
        acknowledgements: committee[..2].iter().map(acknowledge).collect(),
        pads,
        releases: committee[..2].iter().enumerate().map(release).collect(),
    };
    committed.check(dealer).unwrap();
    committed
}

/// Makes coins whose claims about a deal contradict its shares.
fn bad_coins(sound: &Committed, unsound: &Committed) -> Vec<Value> {
    let ctx = &*self::made(0).contexts[0];
    let mut without = sound.clone();
    without.pads[1] = None;
    let mut with_releases = without.clone();
    with_releases.releases = self::made(0).releases[..2].to_vec();
    let mut needless = sound.clone();
    needless.releases = with_releases.releases.clone();
    let mut one = unsound.clone();
    one.releases.pop();
    let mut foreign = unsound.clone();
    foreign.releases = with_releases.releases.clone();
    [
        ("a pad is missing and nothing shows why", without),
        ("a pad is missing that the releases show to be sound", with_releases),
        ("releases although no pad is missing", needless),
        ("too few releases", one),
        ("releases of another value", foreign),
    ]
    .into_iter()
    .map(|(what, committed)| {
        let text = committed.check(ctx).expect_err(what);
        json!({ "what": what, "committed": hex(wire::canonical(&committed)), "class": "bad-record", "text": text })
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
    let mut wrong_pad = made.committed.clone();
    wrong_pad.pads.swap(0, 1);
    let mut no_pad = made.committed.clone();
    no_pad.pads[2] = None;
    let mut short = made.committed.clone();
    short.pads.pop();
    [
        ("one acknowledgement of three", acknowledged(vec![one.clone()])),
        ("one acknowledgement twice", acknowledged(vec![one.clone(), one.clone()])),
        ("acknowledgements of two ballots", acknowledged(vec![one.clone(), outvoted])),
        ("acknowledgements of another value", acknowledged(self::made(2).acknowledgements)),
        ("pads exchanged", wrong_pad),
        ("a pad is missing, and it is no coin", no_pad),
        ("too few pads", short),
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
    let with = |shares| Release { shares, ..good.clone() };
    let (first, second) = (good.shares[0], good.shares[1]);
    let mut forged = first;
    forged.1[0] ^= 1;
    let mut above = first;
    above.1 = [0xff; 32];
    [
        ("a forged share", "bad-share", with(vec![forged])),
        ("a share that is no scalar", "bad-share", with(vec![above])),
        ("another dealer's share", "bad-share", with(vec![(first.0, second.1)])),
        ("a share of another sum", "inconsistent", Release { sum: sum_id(2), ..good.clone() }),
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

/// Makes bad deals that look sound to most peers. Only the holder of a bad share, or the peer that
/// combines the shares, can detect the fault.
fn bad_deals(made: &Made) -> Vec<Value> {
    let dealer = &*made.contexts[made.deals[0].author.index()];
    let good = &made.deals[0].item;
    let mut wrong_hash = good.clone();
    wrong_hash.share_hashes[1][0] ^= 1;
    let mut altered = good.clone();
    altered.sealed.boxes[1][0] ^= 1;
    let mut exchanged = good.clone();
    exchanged.sealed.boxes.swap(0, 1);
    let keys: Vec<_> = dealer.committee.iter().map(|&peer| dealer.session.key(peer)).collect();
    let mut no_scalar = good.clone();
    let context = [&dealer.id.0[..], &good.sum.to_bytes(), &dealer.me.0.to_le_bytes()].concat();
    let raw = [All([0xff; 32]), All([0xff; 32]), All([0xff; 32])];
    no_scalar.sealed = envelope::seal(&keys, &raw, &context, &mut Given::new(&bytes::<32>("no scalar")));
    let holder = &*made.contexts[dealer.committee[1].index()];
    let mut out: Vec<_> = [
        ("a hash does not match its share", wrong_hash),
        ("an envelope is altered", altered),
        ("envelopes are exchanged", exchanged),
        ("shares are no scalars", no_scalar),
    ]
    .into_iter()
    .map(|(what, deal)| {
        let deal = Signed::new(dealer, deal);
        let (blamed, fault) = deal::own_shares(holder, 1, std::slice::from_ref(&deal)).expect_err(what);
        assert_eq!(blamed, dealer.me);
        json!({
            "what": what, "holder": holder.me, "signed": hex(wire::canonical(&deal)), "class": "bad-deal",
            "text": fault.to_string(),
        })
    })
    .collect();

    // The third share is a copy of the second. It fits its hash, so its holder cannot detect the fault.
    // A peer that opens the deal with the first two shares must see that it is not on their polynomial.
    let share = |place: usize| All(made.releases[place].item.shares[0].1);
    let second = Share::from_bytes(share(1).0).expect("a share");
    let mut crooked = good.clone();
    let bound = &context[..context.len() - 2];
    crooked.share_hashes[2] = shamir::share_hash(bound, dealer.me.0, 2, &second);
    let ephemeral = bytes::<32>("crooked");
    crooked.sealed =
        envelope::seal(&keys, &[share(0), share(1), share(1)], &context, &mut Given::new(&ephemeral));
    let holder = &*made.contexts[dealer.committee[2].index()];
    let crooked_deal = Signed::new(dealer, crooked.clone());
    assert!(deal::own_shares(holder, 2, std::slice::from_ref(&crooked_deal)).is_ok());
    let crooked = Signed::new(dealer, crooked);
    let mut opening = Opening::default();
    for release in &made.releases[..2] {
        let only = Release { shares: vec![release.item.shares[0]], ..release.item.clone() };
        let author = &*made.contexts[release.author.index()];
        opening.add(dealer, std::slice::from_ref(&crooked), &Signed::new(author, only)).unwrap();
    }
    assert_eq!(opening.pads(dealer, std::slice::from_ref(&crooked)), Some(vec![None]));
    let shares: Vec<_> = made.releases[..2].iter().map(|release| hex(release.item.shares[0].1)).collect();
    out.push(json!({
        "what": "shares not on one polynomial", "holder": null, "signed": hex(wire::canonical(&crooked)),
        "shares": shares, "class": "bad-deal",
    }));
    out
}

struct All([u8; 32]);

impl AsRef<[u8; 32]> for All {
    fn as_ref(&self) -> &[u8; 32] {
        &self.0
    }
}
