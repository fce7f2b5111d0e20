//! Sends the same bytes over the same edges, and does nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flyswarm::protocol::all_reduce::CHUNK;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, Stream, StreamProtocol, SwarmBuilder, noise, tcp, yamux};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Barrier, mpsc, oneshot};
use tokio::time::timeout;

use crate::{Cost, NODES, cpu};

const PROTOCOL: StreamProtocol = StreamProtocol::new("/bench/1");

struct Swarm {
    runtime: Runtime,
    peer: PeerId,
    address: Multiaddr,
    control: libp2p_stream::Control,
    incoming: mpsc::UnboundedReceiver<Stream>,
    dial: mpsc::UnboundedSender<Multiaddr>,
}

/// Starts a swarm in its own runtime, with as many threads as a node has.
fn start() -> Swarm {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let runtime =
        Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime");
    let inside = runtime.enter();
    let mut swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .expect("a transport")
        .with_behaviour(|_| libp2p_stream::Behaviour::new())
        .expect("a behaviour")
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(60)))
        .build();
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse().expect("an address")).expect("it listens");
    drop(inside);
    let (peer, control) = (*swarm.local_peer_id(), swarm.behaviour().new_control());
    let mut accepting = swarm.behaviour().new_control().accept(PROTOCOL).expect("not taken");
    let (accepted, incoming) = mpsc::unbounded_channel();
    runtime.spawn(async move {
        while let Some((_, stream)) = accepting.next().await {
            let _ = accepted.send(stream);
        }
    });
    let (listening, address) = oneshot::channel();
    let (dial, mut to_dial) = mpsc::unbounded_channel::<Multiaddr>();
    runtime.spawn(async move {
        let mut listening = Some(listening);
        loop {
            tokio::select! {
                event = swarm.select_next_some() => if let SwarmEvent::NewListenAddr { address, .. } = event
                    && let Some(listening) = listening.take()
                {
                    let _ = listening.send(address);
                },
                Some(address) = to_dial.recv() => swarm.dial(address).expect("it dials"),
            }
        }
    });
    let address = runtime.block_on(address).expect("it listens");
    Swarm { runtime, peer, address, control, incoming, dial }
}

/// Opens a substream from `a` to `b` and returns both ends.
fn open(swarms: &mut [Swarm], a: usize, b: usize) -> (Stream, Stream) {
    let to = swarms[b].peer;
    loop {
        let mut control = swarms[a].control.clone();
        let other = &mut swarms[b];
        // `libp2p-stream` drops an incoming substream if no receiver waits for it. It may also never answer
        // an `open_stream` that is called while the connection is being made.
        let opened = async {
            let mut one = control.open_stream(to, PROTOCOL).await.ok()?;
            one.write_all(&[0]).await.ok()?;
            one.flush().await.ok()?;
            let mut two = other.incoming.recv().await?;
            two.read_exact(&mut [0]).await.ok()?;
            Some((one, two))
        };
        // A timer must be created inside the runtime that runs it.
        match other.runtime.block_on(async { timeout(Duration::from_secs(1), opened).await }) {
            Ok(Some(ends)) => return ends,
            // The connection may not be open yet.
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => {}
        }
    }
}

/// Moves `bytes` up and down each edge of a binary tree.
pub(crate) fn run(bytes: usize) -> Cost {
    let mut swarms: Vec<_> = (0..NODES).map(|_| start()).collect();
    let mut ways = Vec::new();
    for child in 1..NODES {
        let parent = (child - 1) / 2;
        let address = swarms[parent].address.clone();
        swarms[child].dial.send(address).expect("it runs");
        for (from, to) in [(child, parent), (parent, child)] {
            let (sender, receiver) = open(&mut swarms, from, to);
            ways.push((from, to, sender, receiver));
        }
    }
    let barrier = Arc::new(Barrier::new(2 * ways.len() + 1));
    let mut readers = Vec::new();
    for (from, to, mut sender, mut receiver) in ways {
        let starting = barrier.clone();
        swarms[from].runtime.spawn(async move {
            let chunk = vec![7; CHUNK];
            starting.wait().await;
            for _ in 0..bytes / CHUNK {
                sender.write_all(&chunk).await.expect("it stands");
            }
            sender.flush().await.expect("it stands");
            // Keeps the substream open until the reader has all bytes.
            let _ = sender.read(&mut [0]).await;
        });
        let starting = barrier.clone();
        readers.push(swarms[to].runtime.spawn(async move {
            let mut buffer = vec![0; CHUNK];
            starting.wait().await;
            let mut left = bytes;
            while left > 0 {
                left -= receiver.read(&mut buffer).await.expect("it stands");
            }
        }));
    }
    swarms[0].runtime.block_on(barrier.wait());
    let (begin, before) = (Instant::now(), cpu());
    for reader in readers {
        swarms[0].runtime.block_on(reader).expect("it reads to the end");
    }
    let cost = Cost { wall: begin.elapsed().as_secs_f64(), cpu: cpu() - before };
    for swarm in swarms {
        swarm.runtime.shutdown_background();
    }
    cost
}
