//! The task `xclp`: a session file, the computing members, planes and codes, commitments, parcels,
//! streams, and every stage of the integer reference.

mod larger;
mod pairs;

use flyswarm::data::Dataset;
use flyswarm::session::{Peer, Session};
use flyswarm::tasks::xclp::internals::{candidates, commitment, output_hash, parcel, without_labels};
use flyswarm_learn::sketch::lsh::Codes;
use flyswarm_mpc::propagation::integer::reference::Reference;
use flyswarm_mpc::propagation::integer::{Plan, Settings};
use flyswarm_mpc::shares::input::{Announced, parcels, parcels_of_distances, unpack, unpack_distances};
use flyswarm_mpc::shares::memory::with_keys;
use flyswarm_mpc::shares::output::unseal;
use flyswarm_mpc::shares::program::{Outcome, boxed};
use flyswarm_mpc::shares::round::Line;
use flyswarm_mpc::shares::{Context, Keys, Stage};
use flyswarm_sealed_sum::crypto::stream::derive;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::sessions::toml;
use super::{bytes, hex};

pub(crate) const HEAD: &str = concat!(
    head!("xclp", 3, r#""cat", "dog""#),
    r#"[xclp]
bits = 64
k = 2
alpha = 0.9
steps = 40
power = 3
compute = ["peer-2", "peer-0", "peer-4"]
few_rows = true
large_owner = true
most_rows = 4
most_sessions = 12
memory_mb = 700
"#,
);

pub(crate) fn xclp() -> Value {
    let text = toml(HEAD, 7);
    let session = Session::parse(&text).unwrap();
    let Some(spec) = session.task.get::<flyswarm::tasks::XclpSpec>() else { panic!("{:?}", session.task) };
    let (id, coin) = (session.id().0, bytes::<32>("coin"));
    let ballot = Ballot { counter: 3, proposer: Peer(2) };
    let counted: Vec<Peer> = (0..9).map(Peer).collect();

    let planes = derive(&coin, "planes", &id);
    let values: Vec<f32> = vec![
        1., 2., -3., 0.5, -1., 2., 4., 4., 4., -1., 0., 0.25, 3., -2., 1., 0.125, 7., -5., 2., 2., 2.5, -4.,
        1., 1.,
    ];
    let data = Dataset::new(3, values.clone(), Vec::new(), Vec::new()).unwrap();
    let codes = Codes::of(&data, &*planes, 64).unwrap();
    let labels = [Some(1), None, None, Some(0), None, None, None, Some(1)];
    let plan = Plan::new(8, 2, spec.settings()).unwrap();
    let reference = Reference::new(&plan, &codes, &labels);

    // The owner at index 1 has rows 2 to 4.
    let own = codes.select(&[2, 3, 4]);
    let salt = bytes::<32>("salt");
    let seeds = ["one", "two", "salt of a share"].map(|seed| Zeroizing::new(bytes::<32>(seed)));
    let sent = parcels(&own, &labels[2..5], 2, 1, &seeds);
    let said = Announced::of(commitment(&id, Peer(3), &salt, &own, &labels[2..5]), &sent);
    let view = unpack(&sent[0], 0, &said, 3, 64, 2).unwrap().view;

    let attempt = [&ballot.to_bytes()[..], &4u32.to_le_bytes()].concat();
    let pairs = ["first pair", "second pair", "third pair"].map(bytes::<32>);
    let keys = pairs.map(|pair| *derive(&pair, "computing parties", &attempt));
    let context = [&id[..], &attempt].concat();
    // Masks that party 1 adds in the second step of the distances, in the third chunk.
    let mut party = Context::new(Line::default(), Keys::new(keys[1], keys[2], &context), 1);
    party.enter(Stage::Input);
    party.enter(Stage::Keys);
    party.enter(Stage::Distances);
    let _ = party.step();
    let step = party.step();
    let (mut words, mut small) = (vec![0u64; 4], vec![0u16; 4]);
    step.mask(&mut words);
    party.split(2).step().mask(&mut small);

    // All rows belong to one owner; the messages that each party receives are hashed.
    let whole = parcels(&codes, &labels, 2, 0, &seeds);
    let said_of_whole = Announced::of([0; 32], &whole);
    let received = |plan: Plan| {
        let mut received: [Sha256; 3] = Default::default();
        with_keys(
            keys,
            |context| {
                let number = context.role();
                let inputs = unpack(&whole[number], number, &said_of_whole, 8, 64, 2).unwrap();
                boxed(context, plan, vec![inputs], false)
            },
            |party, _, bytes| received[party].update(bytes),
        );
        received.map(|hash| hex(hash.finalize()))
    };
    // The same, from parts of distances of three owners.
    let parts = pairs::parts(&codes.distances(&codes));
    let of_parts = |(place, ends): (usize, &[usize])| {
        let own = &labels[ends[0]..ends[1]];
        let parcels = parcels_of_distances(&parts[place], own, 2, place, &seeds);
        let said = Announced::of([0; 32], &parcels);
        let held =
            |number: usize| unpack_distances(&parcels[number], number, &said, own.len(), 8, 2).unwrap();
        [held(0), held(1), held(2)]
    };
    let of_parts: Vec<_> = pairs::OWNERS.windows(2).enumerate().map(of_parts).collect();
    let mut from_parts: [Sha256; 3] = Default::default();
    let ended = with_keys(
        keys,
        |context| {
            let inputs = of_parts.iter().map(|parties| parties[context.role()].clone()).collect();
            boxed(context, plan, inputs, false)
        },
        |party, _, bytes| from_parts[party].update(bytes),
    );
    let Outcome::Sealed(one) = &ended.results[0] else { panic!("honest") };
    let Outcome::Sealed(two) = &ended.results[1] else { panic!("honest") };
    let output = unseal(8, 2, &one.for_owner(0, 0..8), &two.for_owner(1, 0..8));
    assert_eq!(output, Some(reference.output.clone()));
    // The data that the owner of rows 2 to 4 gets from each party: from all three, and from two if
    // party 1 is gone.
    let sealed = ended.results.each_ref().map(|outcome| match outcome {
        Outcome::Sealed(sealed) => sealed,
        other => panic!("{other:?}"),
    });
    let sends = |number: usize, twice: bool| hex(parcel(sealed[number], 2..5, 2, twice));
    let delivered = json!({
        "shares": sealed.map(|sealed| hex(&sealed.own)),
        "holds": sealed.map(|sealed| hex(output_hash(&sealed.own))),
        "rows": [2, 5],
        "sent": [sends(0, true), sends(1, true), sends(2, true)],
        "without_1": [sends(0, false), sends(2, true)],
    });

    // The defaults of a file without the section `[xclp]`.
    let (head, _) = HEAD.split_once("[xclp]").expect("the section");
    let usual_text = toml(head, 7);
    let usual = Session::parse(&usual_text).unwrap().id();

    // Number of owners with labels of each class, number of lost owners, required number of owners; and
    // the classes that count as having no labels.
    let cases = [([4, 3, 2, 1, 0], 0, 3), ([4, 3, 2, 1, 0], 1, 3), ([4, 3, 2, 1, 0], 1, 1)];
    let few_owners =
        cases.map(|(have, lost, fewest)| json!([have, lost, fewest, without_labels(&have, lost, fewest)]));

    let balanced = Plan::new(8, 2, Settings { balance: true, ..spec.settings() }).unwrap();
    let even = Reference::new(&balanced, &codes, &labels);
    json!({
        "toml": text,
        "id": hex(id),
        "usual": { "toml": usual_text, "id": hex(usual.0) },
        "coin": hex(coin),
        "counted": counted.len(),
        "candidates": candidates(&coin, &counted, &[]).iter().map(|peer| peer.0).collect::<Vec<_>>(),
        "few_owners": few_owners,
        "planes": hex(*planes),
        "rows": values,
        "codes": (0..8).map(|row| hex(codes.row(row)[0].to_le_bytes())).collect::<Vec<_>>(),
        "labels": labels,
        "commitment": {
            "owner": 3, "rows": [2, 5], "salt": hex(salt),
            "hash": hex(said.input),
        },
        "parcels": {
            "place": 1, "rows": [2, 5], "seeds": seeds.each_ref().map(|seed| hex(**seed)),
            "sent": sent.iter().map(|parcel| hex(parcel.as_slice())).collect::<Vec<_>>(),
            "copies": said.copies.map(hex), "announced": hex(view),
        },
        "streams": {
            "ballot": [ballot.counter, ballot.proposer.0], "slot": 4,
            "pairs": pairs.map(hex), "keys": keys.map(hex), "context": hex(&context),
            "party": 1, "stage": 2, "chunk": 3, "step": 2, "words": words,
            "turn": 2, "turned_chunk": 4, "turned_step": 1, "small": small,
        },
        "received": received(plan),
        "distances": {
            "pairs": pairs::pairs(), "owners": pairs::OWNERS, "parts": parts,
            "place": 1, "seeds": seeds.each_ref().map(|seed| hex(**seed)),
            "sent": parcels_of_distances(&parts[1], &labels[2..5], 2, 1, &seeds)
                .map(|parcel| hex(parcel.as_slice())),
            "received": from_parts.map(|hash| hex(hash.finalize())),
        },
        "delivered": delivered,
        "larger": larger::larger(keys, &seeds),
        "balanced": {
            "scores": even.scores, "labels": even.output.labels, "coarse": even.output.coarse,
            "received": received(balanced),
        },
        "reference": {
            "neighbours": reference.neighbours, "weights": reference.weights, "graph": reference.graph,
            "degrees": reference.degrees, "inverses": reference.inverses, "roots": reference.roots,
            "scores": reference.scores, "labels": reference.output.labels, "coarse": reference.output.coarse,
        },
    })
}
