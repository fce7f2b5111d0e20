//! Conditions that every finished session must satisfy: there is one result, and it is exactly that of the
//! members in its receipts.

use std::collections::BTreeSet;

use flyswarm::tasks::flynn::Plan;
use flyswarm_data::digits::digits;
use flyswarm_data::scaling;
use flyswarm_learn::model::{Model, bloom};
use flyswarm_learn::sketch::flyhash::FlyHash;
use serde_json::Value;

use super::swarm::{NAMES, Swarm};

/// Returns the names of the members that a receipt lists for an aggregate.
pub fn members(receipt: &Value, aggregate: &str) -> Vec<String> {
    let aggregates = receipt["aggregates"].as_array().expect("aggregates");
    let found = aggregates.iter().find(|each| each["name"] == aggregate).expect("the aggregate");
    found["members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|name| name.as_str().expect("a name").into())
        .collect()
}

/// Returns the names of the peers whose rows the model uses. These are the members of the counts; if peers
/// were drawn, only the drawn peers.
fn learnt(receipt: &Value) -> Vec<String> {
    let mut counted = members(receipt, "counts");
    if receipt["aggregates"].as_array().expect("aggregates").iter().any(|each| each["name"] == "draw") {
        let chosen = receipt["selection"]["chosen"].as_array().expect("who was drawn");
        counted.retain(|name| chosen.iter().any(|drawn| drawn == name));
    }
    counted
}

/// Returns all rows of these peers.
fn rows(swarm: &Swarm, names: &[String]) -> Vec<usize> {
    let peers = names.iter().map(|name| NAMES.iter().position(|known| known == name).expect("a peer"));
    let mut rows: Vec<_> = peers.flat_map(|peer| swarm.parts[peer].clone()).collect();
    rows.sort_unstable();
    rows
}

/// Computes in one place the model of the members in the receipt. Aggregates may have different members,
/// because a sum stays valid if a member is lost after the sum was opened.
fn expected(swarm: &Swarm, receipt: &Value, seed: [u8; 32]) -> Model {
    let Some(spec) = swarm.session.task.get::<flyswarm::tasks::FlynnSpec>().copied() else {
        panic!("{:?}", swarm.session.task)
    };
    let (data, rules) = (digits(), Plan::new(swarm.session.clone(), spec));
    let counted = learnt(receipt);
    let pooled = data.subset(&rows(swarm, &counted));
    let measured = members(receipt, "moments");
    if measured == counted {
        return rules.pooled(&pooled, seed).expect("a model");
    }
    let moments = scaling::moments(&data.subset(&rows(swarm, &measured)), true);
    let bytes: Vec<u8> = moments.iter().flat_map(|word| word.to_le_bytes()).collect();
    let sketch = rules.sketch(seed).expect("a sketch");
    let scaler = rules.scaler(Some(&bytes)).expect("a scaler");
    let classes = swarm.session.data.classes.clone();
    let counts = bloom::fit(&FlyHash::new(&sketch), &scaler, &pooled, classes.len()).expect("counts");
    Model::new(sketch, spec.model.gamma, classes, scaler, counts).expect("a model")
}

/// Checks that `peers` have the same correct model, and receipts that agree. Returns the members that were
/// counted.
pub fn same_and_exact(swarm: &Swarm, peers: &[usize]) -> Vec<String> {
    let receipts: Vec<_> = peers.iter().map(|&i| swarm.receipt(i)).collect();
    let first = receipts.first().expect("somebody");
    for (receipt, &i) in receipts.iter().zip(peers) {
        assert_eq!(
            receipt["aggregates"], first["aggregates"],
            "receipts of {} and {}",
            NAMES[i], NAMES[peers[0]]
        );
        let model = Model::load(&swarm.file(i, "model")).expect("a model");
        let digest = hex::encode(model.digest());
        assert_eq!(receipt["model"]["digest"], digest, "{}", NAMES[i]);
        assert_eq!(receipt["peer"], NAMES[i]);
        let counted = learnt(receipt);
        let included = receipt["own_rows"]["included"].as_array().expect("names");
        let in_model = included.iter().any(|name| name == "counts");
        assert_eq!(in_model, counted.iter().any(|name| name == NAMES[i]), "{}", NAMES[i]);
        let origin = model.origin().expect("where it comes from");
        assert_eq!((origin.id, &origin.members), (swarm.session.id().0, &counted), "{}", NAMES[i]);
        let seed = model.sketch().parameters().seed;
        assert_eq!(hex::encode(expected(swarm, receipt, seed).digest()), digest, "pooled over {counted:?}");
    }
    let counted = members(first, "counts");
    let distinct: BTreeSet<_> = counted.iter().collect();
    assert_eq!(distinct.len(), counted.len());
    assert!(counted.len() >= usize::from(swarm.session.min_peers), "{counted:?}");
    counted
}
