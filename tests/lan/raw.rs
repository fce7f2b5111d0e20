//! A peer of the roster, made from the parts of libp2p. Its answers to the doctor are those that the test
//! needs.

use std::thread;

use flyswarm::Identity;
use flyswarm::net::driver::peer_id;
use flyswarm::net::{Channel, Multiaddr};
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::identity::Keypair;
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Stream, StreamProtocol, SwarmBuilder, noise, ping, tcp, yamux};
use tokio::runtime::Builder;
use tokio::sync::oneshot::{Sender, channel};

#[derive(NetworkBehaviour)]
struct Parts {
    stream: libp2p_stream::Behaviour,
    ping: ping::Behaviour,
}

/// How the peer is faulty.
#[derive(Clone)]
pub enum Odd {
    /// The clock of the peer is this number of seconds ahead. The peer sends these bytes about itself.
    Clock(i64, Vec<u8>),
    /// The peer answers a probe with these bytes and nothing else.
    Nonsense(Vec<u8>),
    /// The peer speaks none of our protocols.
    Foreign,
}

/// Dials `victim` at `address` again and again, until the returned sender is dropped.
#[must_use]
pub fn dial(key: &Identity, victim: &Identity, address: Multiaddr, odd: Odd) -> Sender<()> {
    let (stop, mut stopped) = channel();
    let mut seed = key.seed();
    let keypair = Keypair::ed25519_from_bytes(seed.as_mut_slice()).expect("a key");
    let victim = peer_id(&victim.public());
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
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
            let mut control = swarm.behaviour().stream.new_control();
            if !matches!(odd, Odd::Foreign) {
                for channel in Channel::BOTH {
                    let mut incoming = control.accept(StreamProtocol::new(channel.protocol())).expect("once");
                    tokio::spawn(async move {
                        // The streams are kept, so that they stay open.
                        let mut held = Vec::new();
                        while let Some((_, stream)) = incoming.next().await {
                            held.push(stream);
                        }
                    });
                }
                let mut probes = control.accept(StreamProtocol::new("/flyswarm/probe/1")).expect("once");
                let odd = odd.clone();
                tokio::spawn(async move {
                    while let Some((_, stream)) = probes.next().await {
                        let _ = answer(stream, &odd).await;
                    }
                });
            }
            let opens = !matches!(odd, Odd::Foreign);
            let mut opener = swarm.behaviour().stream.new_control();
            tokio::spawn(async move {
                let mut streams = Vec::new();
                if !opens {
                    return;
                }
                loop {
                    for channel in Channel::BOTH {
                        let protocol = StreamProtocol::new(channel.protocol());
                        if let Ok(stream) = opener.open_stream(victim, protocol).await {
                            streams.push(stream);
                        }
                    }
                    if streams.len() >= 2 {
                        std::future::pending::<()>().await;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            });
            let mut again = tokio::time::interval(std::time::Duration::from_millis(200));
            loop {
                tokio::select! {
                    _ = again.tick() => if !swarm.is_connected(&victim) {
                        let options = DialOpts::peer_id(victim).addresses(vec![address.clone()]);
                        let _ = swarm.dial(options.build());
                    },
                    _ = swarm.select_next_some() => {}
                    _ = &mut stopped => return,
                }
            }
        });
    });
    stop
}

async fn answer(mut stream: Stream, odd: &Odd) -> std::io::Result<()> {
    let (ahead, about) = match odd {
        Odd::Clock(ahead, about) => (*ahead, about),
        Odd::Nonsense(bytes) => {
            stream.write_all(bytes).await?;
            stream.flush().await?;
            return stream.close().await;
        }
        Odd::Foreign => return Ok(()),
    };
    loop {
        let mut question = [0];
        stream.read_exact(&mut question).await?;
        let mut number = [0; 4];
        match question[0] {
            0 => {
                let since =
                    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
                let clock = i64::try_from(since.as_micros()).expect("small") + ahead * 1_000_000;
                stream.write_all(&clock.to_le_bytes()).await?;
                stream.write_all(&(about.len() as u32).to_le_bytes()).await?;
                stream.write_all(about).await?;
            }
            1 => {
                stream.read_exact(&mut number).await?;
                let mut bytes = vec![0; u32::from_le_bytes(number) as usize];
                stream.read_exact(&mut bytes).await?;
                stream.write_all(&[1]).await?;
            }
            2 => {
                stream.read_exact(&mut number).await?;
                stream.write_all(&vec![0; u32::from_le_bytes(number) as usize]).await?;
            }
            _ => {
                stream.read_exact(&mut number[..2]).await?;
                stream.write_all(&[0]).await?;
            }
        }
        stream.flush().await?;
    }
}
