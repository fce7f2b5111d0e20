//! The task `xclp`: a session file, planes and codes, roles, secure Hamming distances, custody, the graph,
//! propagation on shares.

use std::collections::BTreeMap;

use flyswarm::crypto::mask::Sign;
use flyswarm::data::Dataset;
use flyswarm::model::propagation::graph::{Edge, Graph, nearest};
use flyswarm::model::propagation::series::Series;
use flyswarm::protocol::ballot::Ballot;
use flyswarm::protocol::xclp::custody::{self, Blinding};
use flyswarm::protocol::xclp::roles::Roles;
use flyswarm::protocol::xclp::{Edges, commitment, dealer, graph_digest, planes, shares};
use flyswarm::session::{Peer, Session, TaskSpec};
use flyswarm::sketch::lsh::Codes;
use serde_json::{Value, json};

use crate::sessions::toml;
use crate::{bytes, hex};

pub(crate) const HEAD: &str = r#"name = "vectors"
task = "xclp"
[data]
features = 3
classes = ["cat", "dog"]
[xclp]
bits = 64
k = 2
many_neighbours = true
alpha = 0.9
power = 3
balance = false
tolerance = 1e-4
hamming = "ot"
"#;

const BITS: usize = 64;

pub(crate) fn xclp() -> Value {
    let text = toml(HEAD, 7);
    let session = Session::parse(&text).unwrap();
    let TaskSpec::Xclp(spec) = &session.task else { panic!("{:?}", session.task) };
    let rule = spec.rule();
    let (id, coin) = (session.id().0, bytes::<32>("coin"));
    let ballot = Ballot { counter: 3, proposer: Peer(2) };
    let rows: BTreeMap<Peer, u32> = [(Peer(0), 2), (Peer(3), 3), (Peer(4), 1), (Peer(6), 2)].into();
    let members: Vec<Peer> = (0..9).map(Peer).collect();
    let roles = Roles::draw(&coin, &members, &members, &rows).unwrap();
    // In the second stage the first propagator and an owner are gone.
    let here: Vec<Peer> =
        members.iter().copied().filter(|&peer| peer != roles.propagators[0] && peer != Peer(4)).collect();
    let later = roles.later(&coin, &members, &here, &rows).unwrap();
    let custodians: Vec<_> = roles
        .blocks()
        .map(|(owner, other)| json!([owner.0, other.0, roles.custodian(owner, other).0]))
        .collect();

    let parts: Vec<[u8; 32]> = rows.keys().map(|peer| bytes::<32>(&format!("part {}", peer.0))).collect();
    let commits: Vec<_> =
        rows.keys().zip(&parts).map(|(&peer, part)| hex(commitment(&id, ballot, peer, part))).collect();
    let seed = planes(&id, &coin, parts.iter());
    let values: Vec<f32> = vec![
        1., 2., -3., 0.5, -1., 2., 4., 4., 4., -1., 0., 0.25, 3., -2., 1., 0.125, 7., -5., 2., 2., 2.5, -4.,
        1., 1.,
    ];
    let data = Dataset::new(3, values.clone(), Vec::new(), Vec::new()).unwrap();
    let codes = Codes::of(&data, &seed, BITS).unwrap();

    // The block of peers 0 (rows 0 and 1) and 3 (rows 2 to 4).
    let (a, b) = (codes.select(&[0, 1]), codes.select(&[2, 3, 4]));
    let (left, right) = (bytes::<32>("left triple"), bytes::<32>("right triple"));
    let y = dealer::deal(&left, &right, (2, 3), BITS);
    let (d, e) = (dealer::hide(&a, &left), dealer::hide(&b, &right));
    let (one, two) = (dealer::left_share(&a, &left, &e), dealer::right_share(&b, &d, &y));
    let words = |words: &[u16]| hex(dealer::to_bytes(words));

    let pair = bytes::<32>("pair");
    let blinding = Blinding::new(&pair, ballot, Peer(0), Peer(3), 3);
    let (mine, theirs) = (blinding.blind(Sign::Add, &one), blinding.blind(Sign::Subtract, &two));
    let turned = Blinding::new(&pair, ballot, Peer(3), Peer(0), 2)
        .blind(Sign::Subtract, &custody::transposed(&one, 3));
    let kept = custody::distances(&mine, &theirs, BITS).unwrap();
    let smallest = custody::smallest(&[&kept], 2, rule.k);
    let limits = custody::limits(&[&smallest], 2, rule.k, BITS);
    let short = custody::shorter(&kept, &limits);

    let distances = codes.distances(&codes);
    let edges: Vec<Edge> = (0..8u32)
        .flat_map(|from| {
            let row = &distances[from as usize * 8..][..8];
            let others =
                (0u32..).zip(row).filter(|(to, _)| *to != from).map(|(to, &distance)| (distance, to));
            let nearest = nearest(others.collect(), rule.k, BITS);
            nearest.into_iter().map(move |(distance, to)| Edge { from, to, distance })
        })
        .collect();
    let graph = Graph::new(8, BITS, rule.power, &edges);
    let known = Edges { salt: Edges::salt(&pair, ballot), edges: edges.clone() };
    let labels = [Some(1), None, None, Some(0), None, None, None, Some(1)];
    let mask = bytes::<32>("mask of labels");
    let (first, second) = (shares::masked(&labels, 2, &mask), shares::mask(&mask, 16));
    let series = Series::new(rule.alpha, rule.tolerance, 8);
    let numbers = |numbers: &[i128]| hex(shares::to_bytes(numbers));
    let [z1, z2] = [&first, &second].map(|share| series.apply(&graph, share, 2));
    let sums = |share: &[i128]| (0..2).map(|c| share.iter().skip(c).step_by(2).sum()).collect::<Vec<i128>>();
    // The scores of peer 3, points 2 to 4.
    let sent = |z: &[i128], share: &[i128]| shares::result(&pair, ballot, Peer(3), &z[4..10], &sums(share));
    let (from_first, from_second) = (sent(&z1, &first), sent(&z2, &second));
    let (scores, counts) = shares::opened(&from_first, &from_second, 2, 8).unwrap();
    let said = rule.say(&scores, &counts);
    json!({
        "toml": text,
        "id": hex(id),
        "ballot": [ballot.counter, ballot.proposer.0],
        "coin": hex(coin),
        "roles": {
            "members": 9,
            "rows": rows.iter().map(|(peer, rows)| json!([peer.0, rows])).collect::<Vec<_>>(),
            "propagators": roles.propagators.map(|peer| peer.0),
            "ring": roles.ring.iter().map(|peer| peer.0).collect::<Vec<_>>(),
            "custodians": custodians,
            "later": {
                "gone": [roles.propagators[0].0, 4],
                "propagators": later.propagators.map(|peer| peer.0),
                "givers": later.givers().map(|peer| peer.0).collect::<Vec<_>>(),
            },
        },
        "parts": parts.iter().map(hex).collect::<Vec<_>>(),
        "commitments": commits,
        "planes": hex(seed),
        "rows": values,
        "codes": (0..8).map(|row| hex(codes.row(row)[0].to_le_bytes())).collect::<Vec<_>>(),
        "hamming": {
            "left_seed": hex(left), "right_seed": hex(right), "dealt": words(&y),
            "d": words(&d), "e": words(&e), "left_share": words(&one), "right_share": words(&two),
        },
        "custody": {
            "pair": hex(pair), "key": hex(blinding.key()), "columns": [blinding.columns(0), blinding.columns(1)],
            "left": words(&mine), "right": words(&theirs), "turned": words(&turned), "kept": kept,
            "smallest": smallest, "limits": limits, "short": short,
        },
        "graph": {
            "edges": edges.iter().map(|edge| json!([edge.from, edge.to, edge.distance])).collect::<Vec<_>>(),
            "salt": hex(known.salt),
            "digest": hex(graph_digest(&id, ballot, &known)),
            "weights": (0..8).map(|i| graph.row(i).to_vec()).collect::<Vec<_>>(),
        },
        "propagation": {
            "labels": labels, "mask": hex(mask), "first": numbers(&first), "second": numbers(&second), "steps": series.steps(),
            "propagated_first": numbers(&z1), "propagated_second": numbers(&z2),
            "sent_first": numbers(&from_first), "sent_second": numbers(&from_second),
            "scores": scores, "counts": counts,
            "said": said.iter().map(|said| json!([said.label, said.confidence])).collect::<Vec<_>>(),
        },
    })
}
