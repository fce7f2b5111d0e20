//! Secure Hamming distances by oblivious transfer: base transfers, extension, shares of a block, and the
//! cut into blocks.

use flyswarm::session::Peer;
use flyswarm::tasks::xclp::hamming::ot::{
    Cut, choices, columns, context, receive, send, sender_share, vectors,
};
use flyswarm::tasks::xclp::hamming::{to_bytes, transposed};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::ot::base::{Sender as Base, choose};
use flyswarm_mpc::ot::extension::{Receiver, Sender};
use flyswarm_sealed_sum::crypto::stream::Stream;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use serde_json::{Value, json};

use super::{bytes, hex};

const BITS: usize = 192;

fn codes(rows: usize, label: &str) -> Codes {
    let mut all = vec![0; rows * BITS / 8];
    Stream::new(b"flyswarm test vectors", label, &[]).fill(&mut all);
    Codes::from_words(BITS, all.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()).unwrap()
}

fn shown(codes: &Codes) -> Vec<Value> {
    (0..codes.rows())
        .map(|row| hex(codes.row(row).iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()))
        .collect()
}

pub(crate) fn ot() -> Value {
    let (session, ballot) = (bytes::<32>("session"), Ballot { counter: 3, proposer: Peer(2) });
    let context = context(&session, ballot, Peer(4), Peer(1));
    let secrets = [bytes::<32>("receiver's secret"), bytes::<32>("sender's secret")];
    let base = Base::new(&context, &secrets[0]);
    let (reply, chosen) = choose(&context, &base.message(), choices(&secrets[1]), &secrets[1]).unwrap();
    let pairs = base.keys(&reply).unwrap();
    let (of_pairs, of_chosen) = (pairs.concat().concat(), chosen.concat());

    // The receiver has 2 rows and the sender 11: two blocks of the hash.
    let (a, b) = (codes(2, "receiver's codes"), codes(11, "sender's codes"));
    let cut = Cut::new(2, 11, BITS);
    let receiver = Receiver::new(&context, &pairs);
    let sender = Sender::new(&context, choices(&secrets[1]), &chosen);
    let (mut pieces, mut mine, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for piece in (0..cut.pieces()).map(|index| cut.piece(index)) {
        let columns = columns(&receiver, cut, piece, &a);
        let (strings, sum) = send(&sender, cut, piece, &columns, &vectors(&b));
        mine.extend(receive(&receiver, cut, piece, &a, &strings));
        sums.extend(sum);
        pieces.push(json!({ "columns": hex(columns), "strings": hex(strings) }));
    }
    let theirs = sender_share(&b, &sums);
    let sum: Vec<u16> = mine.iter().zip(transposed(&theirs, 2)).map(|(x, y)| x.wrapping_add(y)).collect();
    assert_eq!(sum, a.distances(&b));

    let cuts: Vec<_> = [(2, 11, 192), (1, 500, 4096), (2, 3_000, 192), (1, 20_000, 128)]
        .into_iter()
        .map(|(receiver, sender, bits)| {
            let cut = Cut::new(receiver, sender, bits);
            let pieces = (0..cut.pieces()).map(|index| cut.piece(index));
            let pieces: Vec<_> = pieces.map(|piece| json!([piece.row, piece.first, piece.words])).collect();
            json!({ "receiver": receiver, "sender": sender, "bits": bits, "pieces": pieces })
        })
        .collect();
    json!({
        "session": hex(session), "ballot": [ballot.counter, ballot.proposer.0], "receiver": 4, "sender": 1,
        "secrets": secrets.map(hex), "context": hex(context),
        "base": hex(base.message()), "choices": hex(reply), "pairs": hex(of_pairs), "chosen": hex(of_chosen),
        "bits": BITS, "receiver_codes": shown(&a), "sender_codes": shown(&b), "pieces": pieces,
        "receiver_share": hex(to_bytes(&mine)), "sender_share": hex(to_bytes(&theirs)),
        "no_points": [hex([0xff; 32]), hex([0; 32])],
        "cuts": cuts,
    })
}
