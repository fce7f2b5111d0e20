//! A peer built from libp2p's own parts (its streams and its ping), which can break the protocol in any
//! way.

use std::future::Future;
use std::sync::mpsc;
use std::thread;

use futures::{AsyncWriteExt, StreamExt};
use libp2p::identity::Keypair;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Stream, StreamProtocol, Swarm, SwarmBuilder, noise, ping, tcp, yamux};
use tokio::runtime::{Builder, Runtime};

use super::node::{Node, seed};
use crate::net::Channel;

#[derive(NetworkBehaviour)]
pub struct Parts {
    stream: libp2p_stream::Behaviour,
    ping: ping::Behaviour,
}

impl Parts {
    pub fn opener(&self) -> libp2p_stream::Control {
        self.stream.new_control()
    }
}

pub struct Raw {
    pub runtime: Runtime,
    pub swarm: Swarm<Parts>,
}

/// The four streams from the raw peer's side.
pub struct Streams {
    pub control: Stream,
    pub bulk: Stream,
    /// These are kept only so that they stay open.
    pub _incoming: [Stream; 2],
}

impl Raw {
    /// Makes a peer that has begun to dial the victim.
    pub fn dial(number: u8, victim: &Node) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let inside = runtime.enter();
        let keypair = Keypair::ed25519_from_bytes(seed(number).as_mut_slice()).expect("a key");
        let mut swarm = SwarmBuilder::with_existing_identity(keypair)
            .with_tokio()
            .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
            .expect("a transport")
            .with_behaviour(|_| Parts {
                stream: libp2p_stream::Behaviour::new(),
                ping: ping::Behaviour::default(),
            })
            .expect("a behaviour")
            .build();
        let to = DialOpts::peer_id(victim.peer).addresses(vec![victim.address.clone()]).build();
        swarm.dial(to).expect("it begins");
        drop(inside);
        Self { runtime, swarm }
    }

    /// Runs the swarm while `other` runs.
    pub fn drive<T>(&mut self, other: impl Future<Output = T>) -> T {
        let Self { runtime, swarm } = self;
        runtime.block_on(async {
            tokio::pin!(other);
            loop {
                tokio::select! {
                    result = &mut other => return result,
                    _ = swarm.select_next_some() => {}
                }
            }
        })
    }

    /// Runs the swarm until its connection has been closed or has failed.
    pub fn drive_to_the_end(&mut self) {
        let Self { runtime, swarm } = self;
        runtime.block_on(async {
            loop {
                match swarm.select_next_some().await {
                    SwarmEvent::ConnectionClosed { .. } | SwarmEvent::OutgoingConnectionError { .. } => {
                        return;
                    }
                    _ => {}
                }
            }
        });
    }

    /// Opens both streams to the victim and accepts both of its own.
    pub fn stand(&mut self, victim: &Node) -> Streams {
        let [control, bulk] = Channel::BOTH.map(|channel| StreamProtocol::new(channel.protocol()));
        let mut opener = self.swarm.behaviour().opener();
        let mut from_control = opener.accept(control.clone()).expect("accepted once");
        let mut from_bulk = opener.accept(bulk.clone()).expect("accepted once");
        let peer = victim.peer;
        self.drive(async {
            let control = opener.open_stream(peer, control).await.expect("the victim accepts");
            let bulk = opener.open_stream(peer, bulk).await.expect("the victim accepts");
            let (_, first) = from_control.next().await.expect("the victim opens");
            let (_, second) = from_bulk.next().await.expect("the victim opens");
            Streams { control, bulk, _incoming: [first, second] }
        })
    }

    /// Returns whether the victim accepts a stream of this peer.
    pub fn can_open(&mut self, victim: &Node) -> bool {
        let mut opener = self.swarm.behaviour().opener();
        let protocol = StreamProtocol::new(Channel::Control.protocol());
        let peer = victim.peer;
        self.drive(async { opener.open_stream(peer, protocol).await.is_ok() })
    }
}

/// Makes a correct connection and writes these bytes on it. Ends when the victim has closed the connection.
pub fn write(number: u8, victim: &Node, channel: Channel, bytes: Vec<u8>) -> thread::JoinHandle<()> {
    let mut raw = Raw::dial(number, victim);
    let streams = raw.stand(victim);
    thread::spawn(move || {
        // The value is moved as a whole. A closure that names only two fields would drop the others, which
        // resets their streams.
        let mut streams = streams;
        let stream = match channel {
            Channel::Control => &mut streams.control,
            Channel::Bulk => &mut streams.bulk,
        };
        raw.drive(async {
            // An error is ignored, because the victim may disconnect before everything is written.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
        });
        raw.drive_to_the_end();
    })
}

/// Makes a peer that stops after the setup, like a paused process. It continues when the sender is dropped.
pub fn pause(number: u8, victim: &Node) -> mpsc::Sender<()> {
    let mut raw = Raw::dial(number, victim);
    let streams = raw.stand(victim);
    let (sender, receiver) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = receiver.recv();
        drop((streams, raw));
    });
    sender
}
