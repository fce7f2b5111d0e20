//! Tests the checks. A switch that exists only in tests adds a bug to the node, and each check must find its
//! bug.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checks::Check;
use super::participants::Participants;
use super::rows::DealtRows;
use super::run::{pass, prepare, report, run};
use super::scenario::{File, Scenario};
use super::swarm::Swarm;
use crate::protocol::context::{Bug, Context, OpeningRule};
use crate::session::Peer;
use flyswarm_sealed_sum::engine::Engine;

fn scenario(text: &str, seed: u64) -> Scenario {
    let file = File::parse(text, "test".into(), PathBuf::new(), false).unwrap();
    Scenario { seed, ..file.runs[0].1.clone() }
}

/// Runs a scenario with changed nodes. Returns the first check that failed.
fn first_failure(scenario: &Scenario, change: impl Fn(&mut Context)) -> Option<Check> {
    let participants = Participants::new(scenario, Path::new("")).unwrap();
    let mut engine: Engine<Swarm> = prepare(scenario, participants).unwrap();
    change(Arc::get_mut(&mut engine.world.ctx).unwrap());
    pass("test", scenario, &mut engine, &mut |_| {});
    engine.world.checks.violations.first().map(|violation| violation.check)
}

const SUM: &str =
    "peers = 5\n[task]\nkind = \"sum\"\nwords = 20\n[network]\nlatency_ms = 5\njitter_ms = 15\n";
const FAULTS: &str = "[random]\nfaults = 4\nwithin_s = 0.6\nheal_s = 25\n";

/// Returns the check that fails at the first seed for which the bug has an effect. The same run without the
/// bug must pass.
fn found(text: &str, seeds: std::ops::Range<u64>, change: impl Fn(&mut Context) + Copy) -> Check {
    for seed in seeds.clone() {
        let scenario = scenario(text, seed);
        if let Some(check) = first_failure(&scenario, change) {
            assert_eq!(first_failure(&scenario, |_| {}), None, "seed {seed} fails without the bug");
            return check;
        }
    }
    panic!("no run of {seeds:?} fails");
}

/// Labels are found after the first round. A peer is lost before the second.
#[test]
fn labels_that_are_found_on_the_way_give_all_peers_one_network_whoever_crashes() {
    let text = "peers = 4\n[task]\nkind = \"fedavg-xclp\"\nlabels = 4\nxclp = { bits = 64, k = 3 }\nafter = 1\nrefresh = 2\n\
                fedavg = { network = \"mlp\", hidden = [6], rounds = 3, batch = 8, rate = 0.1 }\n\
                [session]\nmin_contributors = 1\n[data]\nrows = 80\n[timing]\nlinger_ms = 600_000\n\
                [expect]\nfinished = 4\npooled = true\n\
                [[fault]]\nkind = \"crash\"\npeers = 2\nat = { slot = \"counts-1\", stage = \"sum\" }\nfor_s = 20\n";
    let report = run("test", &scenario(text, 3), Path::new(""), &mut |_| {}).unwrap();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let accuracy = report.accuracy.unwrap();
    assert!(accuracy.equal && accuracy.rows > 0, "{accuracy:?}");
    assert_eq!(report.marks.len(), 2, "the peer was lost, and is back: {:?}", report.marks);
}

#[test]
fn labels_are_of_so_many_rows_in_a_hundred_and_of_no_peer_that_has_none() {
    let text = |task: &str| format!("peers = 4\n[task]\nkind = \"xclp\"\n{task}\n[data]\nrows = 100\n");
    let labels = |task: &str| -> Vec<usize> {
        let cast = Participants::new(&scenario(&text(task), 5), Path::new("")).unwrap();
        let dealt = cast.rows.unwrap();
        let known = |part: &crate::tasks::Rows| part.labels.iter().flatten().count();
        assert!(dealt.parts.iter().all(|part| part.labels.len() == 25));
        dealt.parts.iter().map(known).collect()
    };
    assert_eq!(labels("labelled_percent = 100"), [25; 4]);
    assert_eq!(labels("labelled_percent = 100\nwithout_labels = [0, 2]"), [0, 25, 0, 25]);
    assert_eq!(labels("labelled_percent = 30").iter().sum::<usize>(), 30);
    let three = labels("labelled_percent = 30\nwithout_labels = 3");
    // 30 % of the 75 rows are 22.5, which is rounded up.
    assert_eq!((three.iter().sum::<usize>(), three[3]), (23, 0));
    // There are two labels of each of the ten classes.
    let few = labels("labels = 2\nwithout_labels = \"1..3\"");
    assert!(few[0] > 0 && few[0] <= 20 && few[1..] == [0; 3], "{few:?}");
    for (task, told) in [
        ("labelled_percent = 0", "task.labelled_percent is 0, must be 1 to 100"),
        (
            "without_labels = 4",
            "task.without_labels: a peer is 4, must be 0 to 3 (peers are numbered from 0)",
        ),
        ("kind = \"sum\"\nm = 5", "task.m is given, must be left out: a sum has no such field"),
        ("without_labels = \"0..3\"", "task.without_labels is every peer with rows, must be fewer peers"),
        ("witnesses = 1\nwithout_labels = \"0..2\"", "every peer with rows"),
        ("without_labels = \"all\"", "task.without_labels is \"all\", must be numbers of peers"),
        (
            "without_labels = \"committee 0\"",
            "task.without_labels is \"committee 0\", must be numbers of peers",
        ),
    ] {
        let text = text(task).replace("kind = \"xclp\"\nkind", "kind");
        let error = File::parse(&text, "test".into(), PathBuf::new(), false).err().unwrap().to_string();
        assert!(error.contains(told), "{error}");
    }
    for (task, told) in [
        ("xclp = { kk = 3 }", "task: line "),
        ("xclp = { kk = 3 }", "unknown field `kk`"),
        ("kk = 3", "unknown field `kk`"),
        ("xlcp = { k = 3 }", "task: a section is xlcp, must be one of flynn, "),
        ("evaluate = {}", "task is xclp, must be flynn if there is an [evaluate]"),
        ("select = \"sketch\"", "task is xclp, must be flynn if there is a select"),
        (
            "kind = \"flynn\"\nlabelled_percent = 5",
            "task.labelled_percent is given, must be left out: no row of the task flynn lacks its label",
        ),
        ("kind = \"custom\"\ncustom = { name = \"x\" }", "the task custom belongs to another program"),
        ("kind = \"nothing\"", "task.kind is \"nothing\", must be one of sum, flynn, "),
    ] {
        let text = text(task).replace("kind = \"xclp\"\nkind", "kind");
        let error = run("test", &scenario(&text, 1), Path::new(""), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn labels_by_distances_that_owners_share_in_pairs_are_those_of_the_pooled_rows_whoever_crashes() {
    for hamming in ["ot", "phe"] {
        let text = format!(
            "peers = 4\n[task]\nkind = \"xclp\"\nlabels = 2\nxclp = {{ bits = 64, k = 3, hamming = \"{hamming}\" }}\n\
             [session]\nmin_contributors = 1\n[data]\nrows = 60\n[timing]\nlinger_ms = 600_000\n\
             [expect]\nfinished = 4\npooled = true\n\
             [[fault]]\nkind = \"crash\"\npeers = 1\nat = {{ slot = \"computed\", stage = \"compute\" }}\n\
             for_s = 20\n"
        );
        let scenario = scenario(&text, 1);
        let session = Participants::new(&scenario, Path::new("")).unwrap().session;
        assert_eq!(session.task.part::<crate::tasks::XclpSpec>().unwrap().hamming.name(), hamming);
        let report = run("test", &scenario, Path::new(""), &mut |_| {}).unwrap();
        assert!(report.violations.is_empty(), "{hamming}: {:?}", report.violations);
        let accuracy = report.accuracy.unwrap();
        assert!(accuracy.equal && accuracy.rows > 0, "{hamming}: {accuracy:?}");
        assert_eq!(report.marks.len(), 2, "the peer was lost, and is back: {:?}", report.marks);
    }
    let text = "peers = 4\n[task]\nkind = \"fedavg-xclp\"\nxclp = { hamming = \"ot\" }\n";
    let refused = run("test", &scenario(text, 1), Path::new(""), &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("must be \"replicated\" with the task fedavg-xclp"), "{refused}");
}

#[test]
fn a_rule_that_opens_without_a_decision_is_found() {
    assert_eq!(
        found(&format!("{SUM}{FAULTS}"), 0..300, |ctx| ctx.rule = OpeningRule::Naive),
        Check::OneOpening
    );
}

#[test]
fn a_mask_that_is_left_out_is_found() {
    assert_eq!(found(SUM, 0..1, |ctx| ctx.bug = Some(Bug::ForgottenMask)), Check::Exact);
}

#[test]
fn blame_for_a_message_that_was_on_its_way_when_the_view_ended_is_found() {
    assert_eq!(found(&format!("{SUM}{FAULTS}"), 0..50, |ctx| ctx.bug = Some(Bug::StaleBlame)), Check::Honest);
}

#[test]
fn a_node_that_forgets_its_deadlines_is_found() {
    let crash =
        "[[fault]]\nkind = \"crash\"\npeers = \"committee 0\"\nat = { slot = \"sum\", stage = \"sum\" }\n";
    assert_eq!(found(&format!("{SUM}{crash}"), 0..1, |ctx| ctx.bug = Some(Bug::NoAlarm)), Check::Ends);
}

#[test]
fn a_wrong_share_that_nobody_names_is_found() {
    let liar = "[[fault]]\nkind = \"tamper\"\nhow = \"wrong-share\"\npeers = 1\nat_s = 0\n";
    let scenario = scenario(&format!("{SUM}{liar}"), 1);
    assert!(run("test", &scenario, Path::new(""), &mut |_| {}).unwrap().violations.is_empty());
    let mut engine = prepare(&scenario, Participants::new(&scenario, Path::new("")).unwrap()).unwrap();
    Arc::get_mut(&mut engine.world.ctx).unwrap().bug = Some(Bug::NoBlame);
    pass("test", &scenario, &mut engine, &mut |_| {});
    super::run::expected(&scenario, &mut engine, None, None);
    assert_eq!(engine.world.checks.violations[0].check, Check::Blamed);
}

#[test]
fn a_peer_with_another_result_than_the_others_is_found() {
    let scenario = scenario(SUM, 1);
    let mut engine = prepare(&scenario, Participants::new(&scenario, Path::new("")).unwrap()).unwrap();
    pass("test", &scenario, &mut engine, &mut |_| {});
    assert_eq!(report("test", &scenario, &mut engine).violations, []);
    engine.world.finished.get_mut(&Peer(3)).unwrap().history = Arc::default();
    let violations = report("test", &scenario, &mut engine).violations;
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].text, "the result of peer 3 differs from that of the others");
    assert_eq!(violations[0].check, Check::Exact);
}

#[test]
fn rows_of_a_patient_are_at_one_peer_or_kept_to_measure_with() {
    let folder = tempfile::tempdir().unwrap();
    let row = |row: usize| format!("P{},{},{}\n", row * 7 % 200 / 4, row, ["a", "b"][row % 3 % 2]);
    let text: String = (0..200).map(row).collect();
    std::fs::write(folder.path().join("visits.csv"), format!("patient,x,y\n{text}")).unwrap();
    let table =
        "[table]\nlabel = \"y\"\ngroup = \"patient\"\n[[table.column]]\nname = \"x\"\nkind = \"number\"\n";
    std::fs::write(folder.path().join("columns.toml"), table).unwrap();
    for split in ["even", "by-class", "dirichlet", "mixes"] {
        let text = format!(
            "peers = 4\n[data]\nset = \"visits.csv\"\ncolumns_from = \"columns.toml\"\nsplit = \"{split}\"\n"
        );
        let rows = DealtRows::new(&scenario(&text, 1), folder.path()).unwrap();
        let mut seen: Vec<_> = rows.test.groups().unwrap().to_vec();
        assert!(!seen.is_empty());
        for part in &rows.parts {
            let own = part.data.groups().unwrap();
            assert_eq!(crate::data::groups::in_both(own, &seen), 0, "{split}");
            seen.extend(own);
        }
    }
}
