//! Row sums: what each member sends and keeps, what all open, and each member's own block.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crypto::agreement::EphemeralSecret;
use crate::crypto::mask::{self, Sign};
use crate::protocol::all_reduce::{SumId, total_digest};
use crate::protocol::ballot::Ballot;
use crate::protocol::context::Quantity;
use crate::protocol::pairwise::{self, Mask, Masks};
use crate::protocol::rows::{self, Cut, Keeping};
use crate::session::Peer;
use serde_json::{Value, json};

use super::sessions::{context, small, small_text};
use super::{Given, bytes, hex};

/// Five peers, of whom one is not in the view.
fn case(word_bytes: u8, blocks: Vec<u64>, absent: Peer) -> Value {
    let session = small(5);
    let quantity = Quantity::rows("rows", word_bytes, blocks.clone());
    let members: Vec<_> = session.peers().filter(|peer| *peer != absent).collect();
    let ctx = |peer| context(&session, peer);
    let sum = SumId { ballot: Ballot { counter: 2, proposer: members[1] }, slot: 4 };
    let secret = |peer: Peer| bytes::<32>(&format!("view secret of {}", peer.0));
    let drawn = |peer: Peer| EphemeralSecret::generate(&mut Given::new(&secret(peer)));
    let keys: BTreeMap<_, _> = members.iter().map(|&peer| (peer, drawn(peer).public())).collect();
    let dealers: Vec<_> =
        ctx(Peer(0)).council.iter().copied().filter(|peer| members.contains(peer)).take(3).collect();
    let pad = |peer: Peer| Arc::new(bytes::<32>(&format!("pad of {}", peer.0)));
    let mut sealed = vec![0; quantity.len()];
    let (mut made, mut kept) = (Vec::new(), Vec::new());
    for &me in &members {
        let mut vector = vec![0; quantity.len()];
        vector.copy_from_slice(&bytes::<256>(&format!("rows of {}", me.0))[..quantity.len()]);
        let shared = {
            let partners = pairwise::partners(&ctx(me), &members, &[0; 32], me);
            pairwise::agree(&ctx(me), sum.ballot, &drawn(me), &keys, &partners).unwrap()
        };
        let mut masks = pairwise::pair_masks(me, &shared, sum);
        if dealers.contains(&me) {
            masks.push(Mask::new(pad(me), "pad", sum, Sign::Add));
        }
        let cut = Cut::new(&quantity, me, &members);
        let mut sent = vector.clone();
        cut.blank(&mut sent, 0);
        Masks { word: quantity.word(), masks }.apply(&mut sent, 0);
        let mut keeping = Keeping::new(cut.kept());
        keeping.put(&cut.take(&mut sent, 0));
        mask::add(quantity.word(), &mut sealed, &sent);
        let own = keeping.finish(sum);
        let shown = own.as_ref().map_or(&[][..], |kept| kept.block());
        made.push(json!({
            "peer": me, "secret": hex(secret(me)), "public": hex(keys[&me]), "vector": hex(&vector), "sent": hex(&sent), "kept": hex(shown),
        }));
        kept.push((me, own));
    }
    let mut opened = sealed.clone();
    let pads = dealers.iter().map(|&dealer| Mask::new(pad(dealer), "pad", sum, Sign::Subtract)).collect();
    Masks { word: quantity.word(), masks: pads }.apply(&mut opened, 0);
    let parts: Vec<_> = kept
        .iter()
        .map(|(me, kept)| hex(rows::part(&quantity, *me, &members, kept.as_ref(), &opened).unwrap().bytes()))
        .collect();
    json!({
        "ballot": { "counter": sum.ballot.counter, "proposer": sum.ballot.proposer },
        "slot": sum.slot,
        "word_bits": 8 * word_bytes,
        "blocks": blocks,
        "members": made,
        "pads": dealers.iter().map(|&dealer| json!([dealer, hex(*pad(dealer))])).collect::<Vec<_>>(),
        "sealed": hex(&sealed),
        "total": hex(total_digest(&session.id().0, sum, &sealed)),
        "opened": hex(&opened),
        "own": parts,
    })
}

pub(crate) fn rows() -> Value {
    json!({
        "about": "row sums (spec, section 13.1): what each member sends and keeps, what all open, each member's own block",
        "toml": small_text(5),
        "sums": [case(4, vec![2, 3, 0, 1, 2], Peer(3)), case(8, vec![1, 0, 2, 1, 1], Peer(0))],
    })
}
