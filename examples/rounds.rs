//! A task of your own with many rounds.
//!
//! ```sh
//! rounds [--nodes 5] [--rounds 100] [--bytes 1048576]  # over libp2p, a process for each node
//! rounds --kill SECONDS [...]                           # the same; processes are killed at random
//! rounds --links MS [...]                               # in virtual time, over links of MS ms
//! ```
//!
//! Write `cargo run --release --example rounds --` instead of `rounds`. Every round sums one vector, and
//! needs only the sum of the round before it ([`Task::needed_by_plan`]). Every node compares every sum with
//! the sum of the plain vectors.
//!
//! The first and the third command print the time of a round. The first command also prints memory and disk.
//! The second command runs one session after another until SECONDS have passed. In each session, it kills one
//! process after another (SIGKILL), and restarts each after up to three seconds.

#![allow(clippy::disallowed_methods)] // it looks at the clock

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flyswarm::Identity;
use flyswarm::peer::Event;
use flyswarm::protocol::context::Aggregate;
use flyswarm::session::{Peer, Session, SessionError};
use flyswarm::sim::participants::Participants;
use flyswarm::sim::run::play;
use flyswarm::sim::scenario::{Network, Scenario};
use flyswarm::tasks::{History, Outcome, Task, Work};
use flyswarm_sealed_sum::crypto::stream::Stream;
use futures::executor::{block_on, block_on_stream};

type Failure = Box<dyn Error + Send + Sync>;

/// Maximum time that a killed process stays away, and maximum time between two kills, in milliseconds.
const AWAY_MS: u32 = 3000;
/// A session has failed if nothing is reported for this time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A task that sums one vector in each round. The vector of a peer repeats one word that belongs to the peer.
#[derive(Debug)]
struct Rounds {
    me: Peer,
    rounds: u32,
    words: u64,
}

/// Returns the word of a peer in a round.
fn word(peer: Peer, slot: u32) -> u32 {
    slot.wrapping_mul(0x9e37_79b9) ^ u32::from(peer.0).wrapping_mul(0x85eb_ca6b)
}

impl Task for Rounds {
    fn plan(&self) -> Vec<Aggregate> {
        let round = |_| Aggregate::exact("round", 4, self.words, "a round", "its sum");
        std::iter::once(Aggregate::coin()).chain((0..self.rounds).map(round)).collect()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        history.vector(slot - 1).ok_or("the round before is gone")?;
        Ok(word(self.me, slot).to_le_bytes().repeat(self.words as usize).into())
    }

    /// Compares the sum with the sum of the plain vectors of its members.
    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        let Some(sum) = history.vector(slot).filter(|_| slot > 0) else { return Ok(()) };
        let members = history.members(slot);
        let plain = members.iter().fold(0u32, |plain, &peer| plain.wrapping_add(word(peer, slot)));
        let equal = sum.as_chunks::<4>().0.iter().all(|word| *word == plain.to_le_bytes());
        if equal { Ok(()) } else { Err(format!("round {slot} is not the sum of {members:?}")) }
    }

    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        slot + 1 >= committed
    }

    fn outcome(&self, history: &History, _: u64) -> Result<Outcome, String> {
        let last = history.vector(self.rounds).ok_or("the last round is not open")?;
        Ok(Outcome::new(last.to_vec(), [0; 32]))
    }

    fn work(&self, _: u32, _: &History) -> Work {
        Work { lift: self.words as f64, ..Work::default() }
    }
}

/// The sizes of the session, given on the command line.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    nodes: u16,
    rounds: u32,
    bytes: u64,
    /// Number of the session.
    number: u32,
}

impl Sizes {
    fn identities(self) -> Vec<Identity> {
        let mut identities: Vec<_> = (1..=self.nodes).map(|i| Identity::from_seed([i as u8; 32])).collect();
        identities.sort_by_key(Identity::public);
        identities
    }

    fn session(self) -> Result<Session, SessionError> {
        let (name, rounds) = (format!("rounds-{}", self.number), hex::encode(self.rounds.to_le_bytes()));
        let mut text = format!(
            "name = \"{name}\"\nrun_id = \"{:032x}\"\ncreated = 2026-11-22T12:00:00Z\ntask = \"custom\"\n[data]\nfeatures = 1\n\
             [custom]\nname = \"rounds\"\nbytes = \"{rounds}\"\n[timing]\nregroup_interval_ms = 1000\nlinger_ms = 600000\n",
            self.number
        );
        for (i, identity) in self.identities().iter().enumerate() {
            text += &format!("[[roster]]\nname = \"n{i}\"\npeer_id = \"{}\"\n", identity.public());
        }
        Session::parse(&text)
    }

    fn task(self, me: Peer) -> Arc<Rounds> {
        Arc::new(Rounds { me, rounds: self.rounds, words: self.bytes / 4 })
    }

    /// Returns the depth of the tree when all nodes are in the view.
    fn depth(self) -> u32 {
        u32::from(self.nodes).ilog2()
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        arguments.insert(name, words.next().ok_or("every option has a value")?);
    }
    let mut take = |name: &str| arguments.remove(name);
    let mut number = |name: &str, usual: u64| take(name).map_or(Ok(usual), |text| text.parse());
    let sizes = Sizes {
        nodes: number("--nodes", 5)?.clamp(3, 200) as u16,
        rounds: number("--rounds", 100)?.max(2) as u32,
        bytes: number("--bytes", 1 << 20)?,
        number: number("--number", 0)? as u32,
    };
    let node = take("--node").map(|text| text.parse()).transpose()?;
    let (state, kill, links) = (take("--state"), take("--kill"), take("--links"));
    if let Some(name) = arguments.keys().next() {
        return Err(format!("no option {name}").into());
    }
    match (node, state, kill, links) {
        (Some(me), Some(state), ..) => run_node(sizes, Peer(me), state.into()),
        (_, _, Some(seconds), _) => killed(sizes, Duration::from_secs(seconds.parse()?)),
        (_, _, _, Some(ms)) => simulated(sizes, ms.parse()?),
        _ => measured(sizes),
    }
}

/// Runs one node. The node prints its address, its opened sums and its end on standard output, one line each.
/// It reads the addresses of the other nodes from standard input.
fn run_node(sizes: Sizes, me: Peer, state: PathBuf) -> Result<(), Failure> {
    let identity = sizes.identities()[me.index()].clone();
    let id = identity.public();
    let builder = flyswarm::Peer::builder(sizes.session()?, identity)
        .task(sizes.task(me))
        .state_dir(state)
        .listen("/ip4/127.0.0.1/tcp/0".parse()?)
        .mdns(false);
    let peer = block_on(builder.join())?;
    let handle = peer.handle();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let (Some(peer), Some(address)) = line.split_once(' ').unzip() else { continue };
            if let (Ok(peer), Ok(address)) = (peer.parse(), address.parse()) {
                handle.add_address(&peer, address);
            }
        }
    });
    for timed in block_on_stream(peer.events()) {
        match timed.event {
            Event::Listening { address } => println!("listening {id} {address}"),
            Event::Opened { number, members, .. } => println!("opened {number} {}", members.len()),
            Event::Finished { .. } => println!("finished"),
            _ => {}
        }
    }
    block_on(peer.result())?;
    Ok(())
}

/// The processes of one session.
struct Processes {
    sizes: Sizes,
    folder: PathBuf,
    children: Vec<Option<(Child, ChildStdin)>>,
    /// Latest address of each node, as the line that the node printed.
    addresses: Vec<String>,
    sender: mpsc::Sender<(usize, String)>,
    news: mpsc::Receiver<(usize, String)>,
    finished: Vec<bool>,
    /// For each round, the time when the first node opened its sum, and the number of its members.
    opened: Vec<(Instant, usize)>,
}

impl Processes {
    fn start(sizes: Sizes, folder: PathBuf) -> Result<Self, Failure> {
        let (sender, news) = mpsc::channel();
        let nodes = usize::from(sizes.nodes);
        let (children, addresses) = ((0..nodes).map(|_| None).collect(), vec![String::new(); nodes]);
        let finished = vec![false; nodes];
        let mut all = Self { sizes, folder, children, addresses, sender, news, finished, opened: Vec::new() };
        (0..nodes).try_for_each(|i| all.spawn(i))?;
        Ok(all)
    }

    fn spawn(&mut self, i: usize) -> Result<(), Failure> {
        let Sizes { nodes, rounds, bytes, number } = self.sizes;
        let options = [
            ("--node", i.to_string()),
            ("--state", self.folder.join(i.to_string()).display().to_string()),
            ("--nodes", nodes.to_string()),
            ("--rounds", rounds.to_string()),
            ("--bytes", bytes.to_string()),
            ("--number", number.to_string()),
        ];
        let mut command = Command::new(std::env::current_exe()?);
        options.iter().for_each(|(name, value)| {
            command.arg(name).arg(value);
        });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).ok_or("a process without pipes")?;
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send((i, line));
            }
        });
        self.children[i] = Some((child, input));
        Ok(())
    }

    fn kill(&mut self, i: usize) -> Result<(), Failure> {
        if let Some((mut child, _)) = self.children[i].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Reads the output of the processes, at most for this time.
    fn listen(&mut self, time: Duration) -> Result<(), Failure> {
        let until = Instant::now() + time;
        while let Ok((i, line)) = self.news.recv_timeout(until.saturating_duration_since(Instant::now())) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["listening", peer, address] => {
                    self.addresses[i] = format!("{peer} {address}\n");
                    let all = self.addresses.concat();
                    // A process that is being killed does not read.
                    let tell = |(_, input): &mut (Child, ChildStdin)| drop(input.write_all(all.as_bytes()));
                    self.children.iter_mut().flatten().for_each(tell);
                }
                ["opened", slot, members] => {
                    if slot.parse::<usize>()? == self.opened.len() {
                        self.opened.push((Instant::now(), members.parse()?));
                    }
                }
                ["finished"] => self.finished[i] = true,
                _ => return Err(format!("node {i} says {line:?}").into()),
            }
        }
        let failed = |child: &mut (Child, ChildStdin)| {
            child.0.try_wait().is_ok_and(|status| status.is_some_and(|status| !status.success()))
        };
        if let Some(i) = self.children.iter_mut().position(|child| child.as_mut().is_some_and(failed)) {
            return Err(format!("node {i} has failed in session {}", self.sizes.number).into());
        }
        let last = self.opened.last().map_or(Duration::ZERO, |(at, _)| at.elapsed());
        if last > PATIENCE && !self.all_finished() {
            let (rounds, number) = (self.opened.len(), self.sizes.number);
            return Err(format!("session {number} stands still after {rounds} rounds").into());
        }
        Ok(())
    }

    fn all_finished(&self) -> bool {
        self.finished.iter().all(|&finished| finished)
    }

    /// Returns a field of each process's `/proc/PID/status`, in kB.
    fn status(&self, field: &str) -> impl Iterator<Item = u64> {
        let of = move |(child, _): &(Child, ChildStdin)| {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0 kB");
            line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        self.children.iter().flatten().map(of)
    }

    /// Returns the current memory of all processes, in kB.
    fn memory(&self) -> u64 {
        self.status("VmRSS:").sum()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for i in 0..self.children.len() {
            let _ = self.kill(i);
        }
    }
}

/// Runs one session, and prints its time for each round, its memory and its disk space.
fn measured(sizes: Sizes) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let mut all = Processes::start(sizes, folder.path().to_owned())?;
    let (mut early, mut late, tenth) = (None, 0, (sizes.rounds / 10).max(1));
    while !all.all_finished() {
        all.listen(Duration::from_millis(20))?;
        let rounds = all.opened.len();
        if rounds > tenth as usize {
            early.get_or_insert_with(|| all.memory());
        }
        if rounds > (sizes.rounds - tenth) as usize {
            late = late.max(all.memory());
        }
    }
    // The peers linger, so all processes still run.
    let peak = all.status("VmHWM:").max().unwrap_or(0);
    let disk = size(folder.path())?;
    let Sizes { nodes, rounds, bytes, .. } = sizes;
    let (Some((first, _)), Some((last, _))) = (all.opened.get(1), all.opened.last()) else {
        return Err("no round was opened".into());
    };
    let ms = (*last - *first).as_secs_f64() * 1000.0 / f64::from(rounds - 1);
    println!("{nodes} processes, {rounds} rounds of {bytes} bytes, tree depth {}", sizes.depth());
    println!("{ms:.1} ms a round");
    println!("memory of all: {} kB after {tenth} rounds, {late} kB in the last {tenth}", early.unwrap_or(0));
    let vectors = peak as f64 * 1024.0 / bytes as f64;
    println!("peak memory of a node: {peak} kB, {vectors:.2} times the vector");
    println!("disk of a node at the end: {} kB", disk / 1000 / u64::from(nodes));
    Ok(())
}

/// Runs one session after another. In each, kills and restarts processes, one at a time.
fn killed(sizes: Sizes, time: Duration) -> Result<(), Failure> {
    let (begun, mut random) = (Instant::now(), Stream::new(b"rounds", "example/kills", &[]));
    let (mut sessions, mut kills, mut rounds, mut fewer) = (0, 0, 0, 0);
    while begun.elapsed() < time {
        let folder = tempfile::tempdir()?;
        let mut all = Processes::start(Sizes { number: sessions, ..sizes }, folder.path().to_owned())?;
        let mut pause = |all: &mut Processes| {
            all.listen(Duration::from_millis(random.below(AWAY_MS).into()))?;
            Ok::<_, Failure>(random.below(sizes.nodes.into()) as usize)
        };
        while !all.finished.contains(&true) {
            let victim = pause(&mut all)?;
            all.kill(victim)?;
            kills += 1;
            pause(&mut all)?;
            all.spawn(victim)?;
        }
        while !all.all_finished() {
            all.listen(Duration::from_millis(100))?;
        }
        sessions += 1;
        rounds += all.opened.len() - 1;
        fewer += all.opened.iter().skip(1).filter(|(_, members)| *members < usize::from(sizes.nodes)).count();
        println!("session {sessions}: {} s, {kills} kills so far", begun.elapsed().as_secs());
    }
    println!(
        "{kills} kills in {} s: {sessions} sessions of {} rounds, all finished at all {} nodes",
        begun.elapsed().as_secs(),
        sizes.rounds,
        sizes.nodes
    );
    println!("{rounds} sums, all exact, {fewer} of them without a node that was away");
    Ok(())
}

/// Simulates a session over links with this latency in milliseconds, and prints the time of a round. It does
/// not read the clock.
fn simulated(sizes: Sizes, ms: f64) -> Result<(), Failure> {
    let participants =
        Participants::with_tasks(sizes.session()?, sizes.identities(), |me| Ok(sizes.task(me)))?;
    let network = Network { latency_ms: ms, jitter_ms: 0.0, ..Network::default() };
    let scenario = Scenario { peers: sizes.nodes, network, limit_s: 1e6, ..Scenario::default() };
    let swarm = play(&scenario, participants)?;
    if let Some(violation) = swarm.checks.violations.first() {
        return Err(violation.text.clone().into());
    }
    let begins =
        |slot| swarm.tally.spans(Peer(0)).iter().find(|span| span.slot == slot && span.stage.is_some());
    let (Some(first), Some(last)) = (begins(1), begins(sizes.rounds)) else {
        return Err("no round was begun".into());
    };
    let round_ms = (last.from - first.from) as f64 / 1000.0 / f64::from(sizes.rounds - 1);
    let (Sizes { nodes, rounds, bytes, .. }, depth) = (sizes, sizes.depth());
    println!("{nodes} nodes, {rounds} rounds of {bytes} bytes, links of {ms} ms, tree depth {depth}");
    let delays = round_ms / ms;
    println!(
        "{round_ms:.1} ms a round: {delays:.2} links one after another, {:.2} times up and down the tree",
        delays / f64::from(2 * depth)
    );
    Ok(())
}

/// Returns how many bytes all files under a folder have.
fn size(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // The nodes are still writing, so a file may have disappeared.
        let Ok(about) = entry.metadata() else { continue };
        sum += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}
