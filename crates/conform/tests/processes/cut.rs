//! Separate networks for the processes: a partition, and discovery by mDNS. The tests need root and
//! `ip netns`.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::check::same_and_exact;
use super::lives::{one_line, succeeded};
use super::swarm::{NAMES, PROGRAM, Swarm};
use flyswarm::session::Faults;

static NUMBER: AtomicU32 = AtomicU32::new(0);

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
}

/// One network namespace for each peer, 10.99.0.(i + 1), all on a bridge in a separate namespace.
/// Removed when dropped.
struct Lan {
    name: String,
    peers: usize,
}

impl Drop for Lan {
    fn drop(&mut self) {
        for i in 0..self.peers {
            ip(&format!("netns del {}", self.space(i)));
        }
        ip(&format!("netns del {}", self.name));
    }
}

impl Lan {
    fn new(peers: usize) -> Option<Self> {
        let name = format!("fs{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let lan = Self { name, peers };
        let hub = &lan.name;
        let mut good = ip(&format!("netns add {hub}")) && ip(&format!("-n {hub} link add hub type bridge"));
        good = good && ip(&format!("-n {hub} link set hub up"));
        for i in 0..peers {
            let space = lan.space(i);
            good = good
                && ip(&format!("netns add {space}"))
                && ip(&format!("-n {space} link add eth0 type veth peer name port{i} netns {hub}"))
                && ip(&format!("-n {hub} link set port{i} master hub up"))
                && ip(&format!("-n {space} addr add 10.99.0.{}/24 dev eth0", i + 1))
                && ip(&format!("-n {space} link set lo up"))
                && ip(&format!("-n {space} link set eth0 up"));
        }
        good.then_some(lan)
    }

    fn space(&self, i: usize) -> String {
        format!("{}p{i}", self.name)
    }

    /// Returns the command `flyswarm` in the network of peer i.
    fn command(&self, i: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(i), PROGRAM]);
        command
    }

    /// Separates these peers from the others: from now on, these can reach only each other.
    fn cut_off(&self, peers: &[usize]) {
        let hub = &self.name;
        let mut done =
            ip(&format!("-n {hub} link add other type bridge")) && ip(&format!("-n {hub} link set other up"));
        for i in peers {
            done = done && ip(&format!("-n {hub} link set port{i} master other"));
        }
        assert!(done, "the network is not cut");
    }
}

#[test]
fn of_a_partition_the_majority_ends_and_the_others_say_why_they_cannot() {
    let Some(lan) = Lan::new(5) else {
        let test = "of_a_partition_the_majority_ends_and_the_others_say_why_they_cannot";
        crate::skipped(test, "no right to make network namespaces");
        return;
    };
    let mut swarm = Swarm::new(5, |session| {
        session.timing.view_timeout_ms = 30_000;
        session.voting.faults = Some(Faults::Crash);
    });
    let tree = swarm.first_tree();
    let (held, free) = (tree[3], tree[4]);
    for i in 0..5 {
        swarm.listen = format!("/ip4/10.99.0.{}/tcp/4001", i + 1);
        let mut command = lan.command(i);
        swarm.arguments(&mut command, i);
        if i == held {
            command.args(["--hold-at", "counts.compute"]);
        }
        swarm.start_command(i, command);
    }
    swarm.wait_event(held, "held");
    lan.cut_off(&[held, free]);
    // The held peer has kept the session from ending before the cut, and is not needed any more.
    swarm.signal(held, "KILL");
    swarm.wait_end(held);
    swarm.listen = format!("/ip4/10.99.0.{}/tcp/4001", held + 1);
    let mut command = lan.command(held);
    swarm.arguments(&mut command, held);
    swarm.start_command(held, command);
    let majority: Vec<_> = (0..5).filter(|i| ![held, free].contains(i)).collect();
    for &i in &majority {
        succeeded(&swarm.wait_end(i));
    }
    assert_eq!(same_and_exact(&swarm, &majority).len(), 3);
    for i in [held, free] {
        let ended = swarm.wait_end(i);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let line = one_line(&ended);
        assert!(line.contains("of 5 peers are reachable"), "{line}");
        for &missing in &majority {
            assert!(line.contains(NAMES[missing]), "{line}");
        }
        assert!(!swarm.file(i, "model").exists());
    }
}

#[test]
fn peers_find_each_other_by_mdns() {
    let Some(lan) = Lan::new(3) else {
        crate::skipped("peers_find_each_other_by_mdns", "no right to make network namespaces");
        return;
    };
    let mut swarm = Swarm::new(3, |session| session.timing.start_wait_ms = 50_000);
    swarm.listen = "/ip4/0.0.0.0/tcp/0".into();
    swarm.apart = (0..3).flat_map(|i| (0..3).map(move |j| (i, j))).collect();
    swarm.mdns = true;
    for i in 0..3 {
        let mut command = lan.command(i);
        swarm.arguments(&mut command, i);
        swarm.start_command(i, command);
    }
    for i in 0..3 {
        succeeded(&swarm.wait_end(i));
    }
    assert_eq!(same_and_exact(&swarm, &[0, 1, 2]).len(), 3);
}
