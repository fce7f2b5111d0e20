//! Eight nodes: threads of this process to measure times, separate processes to measure memory.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use bytes::Bytes;
use flyswarm::Identity;
use flyswarm::net::driver::{self, Handle, NodeConfig, Report};
use flyswarm::net::{Multiaddr, PeerId};
use flyswarm::node::Event;
use flyswarm::protocol::context::{Aggregate, Context};
use flyswarm::protocol::view::Stage;
use flyswarm::session::{Peer, Score, Session, Timing};
use flyswarm::tasks::ModelSpec;
use flyswarm::tasks::{History, Outcome, Task, Work};

use crate::{Cost, NODES, cpu};

/// A plan: the coin and one vector of 32-bit words.
#[derive(Debug)]
struct Sum {
    vector: Bytes,
}

impl Task for Sum {
    fn plan(&self) -> Vec<Aggregate> {
        vec![
            Aggregate::coin(),
            Aggregate::exact("vector", 4, self.vector.len() as u64 / 4, "a vector", "the sum of the vectors"),
        ]
    }

    fn contribution(&self, _: u32, _: &History) -> Result<Bytes, String> {
        Ok(self.vector.clone())
    }

    fn outcome(&self, _: &History, _unix: u64) -> Result<Outcome, String> {
        Ok(Outcome::new(Vec::new(), [0; 32]))
    }
    fn work(&self, _: u32, _: &History) -> Work {
        Work::default()
    }
    fn allows(&self, _: u32, _: &History, members: &[Peer]) -> Result<(), String> {
        if members.len() == NODES { Ok(()) } else { Err(format!("{} members", members.len())) }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        let expected: u32 = (0..NODES as u32).map(own).sum();
        // Checks only a sample, because the time to check every word would be measured too.
        let right = slot == 0
            || history.vectors()[1].chunks_exact(4).step_by(1009).all(|word| word == expected.to_le_bytes());
        if right { Ok(()) } else { Err("the sum is wrong".into()) }
    }
}

fn own(index: u32) -> u32 {
    1000 + index * index
}

fn identity(index: usize) -> Identity {
    Identity::from_seed([index as u8 + 1; 32])
}

fn session() -> Session {
    let model = ModelSpec { m: 1024, s: 6, rho: 8, gamma: 0.5, score: Score::Decay };
    let session = Session::builder("bench", model)
        .features(64)
        .classes(["a", "b"])
        .check_columns(false)
        .min_peers(NODES as u16)
        .timing(Timing { start_wait_ms: 60_000, view_timeout_ms: 60_000, ..Timing::default() })
        .run(flyswarm::session::Run::new([7; 16], 1_000_000_000));
    (0..NODES)
        .fold(session, |session, index| session.peer(format!("n{index}"), identity(index).public()))
        .build()
        .expect("a sound session")
}

/// Messages from a node to the thread that started it.
#[derive(Debug)]
enum News {
    Listening(PeerId, Multiaddr, Handle),
    Stage(Stage),
    Opened,
    Done,
}

fn node(index: usize, bytes: usize, state: PathBuf, tell: &mut dyn FnMut(News)) {
    let task = Arc::new(Sum { vector: own(index as u32).to_le_bytes().repeat(bytes / 4).into() });
    let session = session();
    let id = driver::peer_id(&identity(index).public());
    let me = session.peer(&identity(index).public()).expect("in the roster");
    let session = Arc::new(session);
    let plan = NodeConfig {
        session: session.clone(),
        mark: None,
        ctx: Arc::new(Context::new(session.settings(), me, identity(index), task.plan())),
        task,
        seed: [index as u8; 32],
        state,
        listen: vec!["/ip4/127.0.0.1/tcp/0".parse().expect("an address")],
        mdns: false,
        network_key: None,
        watched: false,
        trace: None,
        interpose: None,
        serves: Vec::new(),
        farewell: |_, _| None,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let mut handle = None;
    let result = driver::run(plan, &mut |report| match report {
        Report::Started(started) => handle = Some(started),
        Report::Listening(address) => {
            let handle = handle.clone().expect("started before it listens");
            tell(News::Listening(id, address.clone(), handle));
        }
        Report::Node(Event::Stage(1, stage)) => tell(News::Stage(*stage)),
        Report::Node(Event::Opened(value)) if value.sum.slot == 1 => tell(News::Opened),
        Report::Node(Event::ViewFailed(ballot, author, reason, peer)) => {
            eprintln!("{index}: {ballot} {author} {reason:?} {peer:?}")
        }
        Report::Node(Event::Ended(ending)) => eprintln!("{index}: {ending}"),
        _ => {}
    });
    result.expect("the session ends well");
    tell(News::Done);
}

pub(crate) struct Run {
    pub(crate) summed: Cost,
    pub(crate) opened: Cost,
    /// Seconds from the end of `summed` to the first `Release`, and from there to the first `Open`.
    pub(crate) accepted: f64,
    pub(crate) released: f64,
}

pub(crate) fn run(bytes: usize) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let (sender, news) = mpsc::channel();
    let threads: Vec<_> = (0..NODES)
        .map(|index| {
            let (sender, state) = (sender.clone(), folder.path().join(index.to_string()));
            std::thread::spawn(move || {
                node(index, bytes, state, &mut |news| {
                    let _ = sender.send((Instant::now(), cpu(), news));
                });
            })
        })
        .collect();
    drop(sender);
    let mut known = Vec::new();
    // When each stage first and last started at any node. `None` is the opening.
    let mut times: std::collections::BTreeMap<Option<Stage>, [(Instant, f64); 2]> = Default::default();
    for (at, cpu, news) in news {
        let stage = match news {
            News::Listening(peer, address, handle) => {
                known.push((peer, address, handle));
                if known.len() == NODES {
                    for (_, _, handle) in &known {
                        for (peer, address, _) in &known {
                            handle.add_address(*peer, address.clone());
                        }
                    }
                }
                continue;
            }
            News::Stage(stage) => Some(stage),
            News::Opened => None,
            News::Done => continue,
        };
        times.entry(stage).or_insert([(at, cpu); 2])[1] = (at, cpu);
    }
    for thread in threads {
        thread.join().expect("the node ends well");
    }
    let time = |stage, which: usize| times.get(&stage).expect("every stage came")[which];
    let (begin, before) = time(Some(Stage::Sum), 0);
    let cost = |(at, cpu): (Instant, f64)| Cost { wall: (at - begin).as_secs_f64(), cpu: cpu - before };
    let (summed, opened) = (time(Some(Stage::Accept), 1), time(None, 1));
    let (released, opening) = (time(Some(Stage::Release), 0), time(Some(Stage::Open), 0));
    Run {
        summed: cost(summed),
        opened: cost(opened),
        accepted: released.0.saturating_duration_since(summed.0).as_secs_f64(),
        released: (opening.0 - released.0).as_secs_f64(),
    }
}

/// Measures the peak memory of each of eight processes, in bytes.
pub(crate) fn memory(bytes: usize) -> Vec<usize> {
    let program = std::env::current_exe().expect("this program");
    let mut children: Vec<_> = (0..NODES)
        .map(|index| {
            Command::new(&program)
                .args(["--node", &index.to_string(), &bytes.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a process")
        })
        .collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().expect("piped")).lines())
        .collect();
    let mut line = |index: usize| outputs[index].next().expect("a line").expect("text");
    let addresses: Vec<_> = (0..NODES).map(&mut line).collect();
    for child in &mut children {
        let mut input = child.stdin.take().expect("piped");
        writeln!(input, "{}", addresses.join("\n")).expect("it reads");
    }
    let peaks = (0..NODES).map(|index| line(index).parse().expect("a number")).collect();
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    peaks
}

/// Runs one of these processes. The process prints its address, reads the addresses of all nodes, and prints
/// its peak memory at the end.
pub(crate) fn child(index: usize, bytes: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    node(index, bytes, folder.path().join("state"), &mut |news| {
        if let News::Listening(peer, address, handle) = news {
            println!("{peer} {address}");
            std::thread::spawn(move || {
                for line in std::io::stdin().lines() {
                    let line = line.expect("text");
                    let (peer, address) = line.split_once(' ').expect("peer and address");
                    handle.add_address(peer.parse().expect("a peer"), address.parse().expect("an address"));
                }
            });
        }
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let kib: usize = peak.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
    println!("{}", kib * 1024);
}
