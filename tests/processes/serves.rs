//! A peer that comes back when all other peers have the result and have ended.

use std::fs;
use std::process::Command;

use super::PROGRAM;
use super::swarm::Swarm;

/// Returns the command that a user types: `join` without --force.
fn again(swarm: &Swarm, i: usize) -> Command {
    let usual = swarm.command(i);
    let mut command = Command::new(PROGRAM);
    command.args(usual.get_args().filter(|argument| *argument != "--force"));
    command
}

/// Returns the names of the files in the state folder of a peer.
fn state(swarm: &Swarm, i: usize) -> Vec<String> {
    let key = swarm.keys[i].public().to_string();
    let folder = swarm.folder.path().join("state").join(key).join(swarm.session.id().to_string());
    let names = fs::read_dir(folder).expect("a state").map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.into_string().expect("a name")).collect()
}

#[test]
fn a_peer_that_comes_back_late_gets_the_result_from_one_that_is_started_again() {
    let mut swarm = Swarm::new(4, |_| {});
    swarm.start_all();
    swarm.wait_event(3, "opened");
    swarm.signal(3, "KILL");
    for i in 0..3 {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
    }
    swarm.wait_end(3);
    swarm.log.extend(swarm.waiting.drain(..));
    let kept: Vec<_> = swarm.log.iter().filter(|told| told.value["event"] == "state-kept").collect();
    assert_eq!(kept.len(), 3);
    assert!(kept.iter().all(|told| told.value["without_result"] == serde_json::json!(["dave"])), "{kept:?}");

    // All other peers have ended. The peer prints what the user can do.
    let dave = again(&swarm, 3);
    swarm.start_command(3, dave);
    let ended = swarm.wait_end(3);
    assert_eq!(ended.code, Some(3), "{}", ended.errors);
    let told = "if they have finished: ask one of them to run its `flyswarm join` again";
    assert!(ended.errors.contains(told), "{}", ended.errors);

    // One of them serves the result to the peer, and keeps its own files.
    let before = ["model", "receipt.json", "report.html"]
        .map(|ending| fs::read(swarm.file(0, ending)).expect("a file"));
    let (alice, dave) = (again(&swarm, 0), again(&swarm, 3));
    swarm.start_command(0, alice);
    swarm.start_command(3, dave);
    for i in [3, 0] {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
    }
    let after = ["model", "receipt.json", "report.html"]
        .map(|ending| fs::read(swarm.file(0, ending)).expect("a file"));
    assert!(before == after, "what alice has is as before");
    let digest = |i: usize| swarm.receipt(i)["model"]["digest"].clone();
    assert!(digest(0).is_string() && digest(0) == digest(3));
    // This peer has finished; the others still wait for dave.
    assert!(
        state(&swarm, 0).contains(&"over".to_owned()) && !state(&swarm, 0).contains(&"unserved".to_owned())
    );
    assert!(state(&swarm, 1).contains(&"unserved".to_owned()));
    assert!(state(&swarm, 3).contains(&"over".to_owned()), "dave was not in the last sum, and keeps nothing");
}
