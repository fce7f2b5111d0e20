//! A regression of five real peers. One peer is killed with SIGKILL before the first matrix opens.

use std::fs;
use std::sync::Arc;

use flyswarm::session::{DataSpec, Scaling};
use flyswarm::tasks::GlmSpec;
use flyswarm_data::prepare::{ColumnSpec, Kind, TableSchema};

use super::swarm::Swarm;

const PEERS: usize = 5;
const PATIENTS: usize = 40;

/// Returns the rows of a peer.
fn patients(peer: usize) -> String {
    let line = |at: usize| {
        let number = (peer * 31 + at * 17) % 83;
        format!("{},{},{}\n", ["f", "m"][at % 2], 20 + number, ["no", "yes"][(number * at / 3) % 2])
    };
    "sex,age,ill\n".to_owned() + &(0..PATIENTS).map(line).collect::<String>()
}

#[test]
fn a_killed_peer_before_the_first_matrix_costs_a_regression_only_its_rows() {
    let mut swarm = Swarm::new(PEERS, |session| {
        let levels = |levels: [&str; 2]| Kind::Category(levels.map(str::to_owned).to_vec());
        let columns = vec![
            ColumnSpec::new("sex", levels(["f", "m"])),
            ColumnSpec::new("age", Kind::Number),
            ColumnSpec::new("ill", levels(["no", "yes"])),
        ];
        let table = Arc::new(TableSchema { columns, ..TableSchema::default() });
        session.data = DataSpec {
            features: table.width() as u32,
            columns: table.features(),
            scaling: Scaling::None,
            preparation: Some(table),
            ..DataSpec::default()
        };
        session.task = GlmSpec {
            family: "logistic".into(),
            outcome: "ill".into(),
            compute: ["alice", "bob", "carol"].map(str::to_owned).to_vec(),
            cheaters: "trusted".into(),
            ..GlmSpec::default()
        }
        .into();
    });
    (0..PEERS).for_each(|i| fs::write(swarm.file(i, "csv"), patients(i)).expect("written"));
    swarm.start_all();
    let lost = PEERS - 1;
    swarm.wait("the end of the exchange", |told| {
        let opened = told.value["event"] == "opened" && told.value["aggregate"] == "computed";
        (told.peer == lost && opened).then_some(())
    });
    swarm.signal(lost, "KILL");
    for i in 0..lost {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
    }
    let result = fs::read_to_string(swarm.file(0, "model")).expect("a result");
    assert!(result.contains(&format!("\"rows\": {}", lost * PATIENTS)), "{result}");
}
