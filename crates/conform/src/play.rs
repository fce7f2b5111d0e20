//! `flyswarm-conform play`: plays the peers of a trace to a live peer.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::files::now;
use crate::frames::{TracedFrame, load};
use crate::traces::{difference, kind};
use crate::{files, print};
use flyswarm::Identity;
use flyswarm::cli::Failure;
use flyswarm::net::driver::peer_id;
use flyswarm::net::{self, Command, Config, Event, Events, Frame, Multiaddr, Network, PeerId};
use flyswarm::protocol::message::{Channel, Message};
use flyswarm::protocol::view::{self, Order, Report};
use flyswarm::session::{Entry, Peer, Session};

/// Longest wait for the live peer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between the frames of two peers, so that they arrive in the order of the trace.
const APART: Duration = Duration::from_millis(20);
/// Wait after a `Hello`. Nothing shows when the live peer has processed it, but the promise of the live
/// peer lists the peers that it has greeted.
const AFTER_HELLO: Duration = Duration::from_millis(500);
/// Time for one look at a peer's events.
const LOOK: Duration = Duration::from_millis(2);

/// Play the peers of a trace to a live peer, and compare the messages of the live peer with those in the
/// trace
///
/// TRACE is tests/vectors/sum.json, or a trace of `join` (FLYSWARM_TRACE). This command plays all peers of
/// the trace except one. The remaining peer is the live peer, which is the program under test. It runs with
/// the files that --prepare writes, and listens at an address of its own. It must use the same random values
/// as in the trace, so that all its bytes can be compared: the key of the view, and the coefficients of the
/// polynomial of each pad (protocol-spec.md, section 12).
#[derive(Debug, Args)]
pub(crate) struct Play {
    trace: PathBuf,
    /// Peers to play, by their numbers in the roster (from 0), separated by commas
    #[arg(long = "as", value_name = "PEERS", value_delimiter = ',', required = true)]
    played: Vec<u16>,
    /// Address where the live peer listens, such as /ip4/127.0.0.1/tcp/4001
    #[arg(long, value_name = "ADDRESS", required_unless_present = "prepare")]
    at: Option<Multiaddr>,
    /// Key files of the played peers, in their order [default: the seeds in the trace]
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Write the files of the live peer into this folder and end: session.toml, peer.key, peer.csv (labels
    /// last), randomness.json
    #[arg(long, value_name = "DIR", conflicts_with = "at")]
    prepare: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A played peer.
struct Role {
    network: Network,
    events: Events,
    up: bool,
    /// Reason why its connection ended.
    lost: Option<String>,
    /// Frames from the live peer that were not compared yet.
    came: BTreeMap<Channel, VecDeque<TracedFrame>>,
}

impl Play {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let value = whole(&self.trace)?;
        let wrong = |why: String| Failure::Input(format!("{}: {why}", self.trace.display()));
        let toml = value["toml"].as_str().ok_or_else(|| wrong("has no session file (toml)".into()))?;
        let session = Session::parse(toml).map_err(|error| wrong(error.to_string()))?;
        let left: Vec<_> = session.peers().filter(|peer| !self.played.contains(&peer.0)).collect();
        let &[live] = &*left else {
            let text = format!("--as: expected all peers from 0 to {} except one", session.roster.len() - 1);
            return Err(Failure::Input(text));
        };
        if let Some(folder) = &self.prepare {
            return prepare(&value, (toml, &session), live, folder, wrong);
        }
        let (frames, _) = load(&self.trace)?;
        let at = self.at.clone().ok_or_else(|| Failure::Input("--at: an address is missing".into()))?;
        let mut roles = self.roles(&value, &session)?;
        let compared = play(&frames, &mut roles, live, &(peer_id(&session.key(live)), at));
        for (_, role) in roles {
            let _ = role.network.shutdown(Duration::from_secs(1));
        }
        match compared? {
            Ok(count) if self.json => print(out, &format!("{}\n", json!({"same": true, "frames": count}))),
            Ok(count) => print(out, &format!("the same: {count} frames of peer {}\n", live.0)),
            Err((text, value)) => {
                print(out, &if self.json { format!("{value}\n") } else { text })?;
                Err(Failure::Session(format!("peer {} differs from {}", live.0, self.trace.display())))
            }
        }
    }

    /// Starts the played peers. They do not connect yet.
    fn roles(&self, value: &Value, session: &Session) -> Result<BTreeMap<u64, Role>, Failure> {
        let mut roles = BTreeMap::new();
        for (place, &number) in self.played.iter().enumerate() {
            let identity = match self.keys.get(place) {
                Some(path) => Identity::load(path)?,
                None => seed(value, "seeds", number).map(Identity::from_seed).ok_or_else(|| {
                    let text = format!("{} has no seed of peer {number}: give --keys", self.trace.display());
                    Failure::Input(text)
                })?,
            };
            if session.peer(&identity.public()) != Some(Peer(number)) {
                return Err(Failure::Input(format!("the key for peer {number} belongs to another peer")));
            }
            let seed = Zeroizing::new(*identity.seed());
            let of_peer = |entry: &Entry| (peer_id(&entry.key), Vec::new());
            let mut config = Config::new(seed, session.roster.iter().map(of_peer).collect());
            config.patience = Duration::ZERO;
            let (network, events) =
                Network::spawn(config).map_err(|error| Failure::Environment(error.to_string()))?;
            let role = Role { network, events, up: false, lost: None, came: BTreeMap::new() };
            roles.insert(u64::from(number), role);
        }
        Ok(roles)
    }
}

fn to_net(channel: Channel) -> net::Channel {
    match channel {
        Channel::Control => net::Channel::Control,
        Channel::Bulk => net::Channel::Bulk,
    }
}

fn from_net(channel: net::Channel) -> Channel {
    match channel {
        net::Channel::Control => Channel::Control,
        net::Channel::Bulk => Channel::Bulk,
    }
}

/// A difference as text and as JSON.
type Differs = (String, Value);

/// Sends the recorded frames of the played peers, in the order of the trace. Each frame is sent as soon
/// as all frames that were recorded before it have come. A peer connects to the live peer only at the
/// first frame between the two, because a `Hello` to a late peer shows what the live peer knows by
/// then. Returns the number of compared frames, or the first difference.
fn play(
    frames: &[TracedFrame],
    roles: &mut BTreeMap<u64, Role>,
    live: Peer,
    (address, at): &(PeerId, Multiaddr),
) -> Result<Result<usize, Differs>, Failure> {
    let address = *address;
    let number = Some(u64::from(live.0));
    let (mut compared, mut last) = (0, None::<(u64, bool)>);
    for (place, frame) in frames.iter().enumerate() {
        let (Some(from), Some(to), Some(channel)) = (frame.from, frame.to, frame.channel) else { continue };
        if number == Some(to) || number == Some(from) {
            connect(roles, if number == Some(to) { from } else { to }, address, at)?;
        }
        if number == Some(to)
            && let Some(role) = roles.get(&from)
        {
            if let Some((_, greeted)) = last.filter(|(last, _)| *last != from) {
                std::thread::sleep(if greeted { AFTER_HELLO } else { APART });
            }
            last = Some((from, matches!(frame.message(), Ok(Message::Hello { .. }))));
            let sent = Frame { header: frame.header.clone().into(), payload: frame.payload.clone() };
            let command = Command::Send { to: address, channel: to_net(channel), frame: sent };
            role.network.send(command).map_err(|error| Failure::Environment(error.to_string()))?;
        } else if number == Some(from) && roles.contains_key(&to) && !is_working(frame) {
            match next(roles, to, channel) {
                Ok(came) => {
                    if let Some((what, [recorded, came])) = differs(frame, &came) {
                        return Ok(Err(told(frame, place, &what, Some((recorded, came)))));
                    }
                }
                Err(why) => {
                    let expected = frame.message().map_or_else(|fault| fault.to_string(), |m| kind(&m));
                    let what = format!("{expected} did not come: {why}");
                    return Ok(Err(told(frame, place, &what, None)));
                }
            }
            compared += 1;
        }
    }
    Ok(Ok(compared))
}

/// Connects a role to the live peer, unless it was connected before.
fn connect(
    roles: &mut BTreeMap<u64, Role>,
    number: u64,
    address: PeerId,
    at: &Multiaddr,
) -> Result<(), Failure> {
    let Some(role) = roles.get(&number).filter(|role| !role.up) else { return Ok(()) };
    // The live peer must have taken in all earlier frames before this connection is made.
    std::thread::sleep(AFTER_HELLO);
    for command in [Command::AddAddress(address, at.clone()), Command::Dial(address)] {
        role.network.send(command).map_err(|error| Failure::Environment(error.to_string()))?;
    }
    let until = now() + PATIENCE;
    while !roles[&number].up {
        roles.values_mut().for_each(Role::look);
        if now() >= until {
            return Err(Failure::Session(format!("the live peer did not connect within {PATIENCE:?}")));
        }
    }
    Ok(())
}

/// Returns the next frame that the live peer sends to a role.
fn next(roles: &mut BTreeMap<u64, Role>, to: u64, channel: Channel) -> Result<TracedFrame, String> {
    let until = now() + PATIENCE;
    loop {
        roles.values_mut().for_each(Role::look);
        let role = roles.get_mut(&to).ok_or("this peer is not played")?;
        if let Some(frame) = role.came.entry(channel).or_default().pop_front() {
            return Ok(frame);
        }
        if let Some(why) = &role.lost {
            return Err(format!("the connection has ended: {why}"));
        }
        if now() >= until {
            return Err(format!("nothing came for {PATIENCE:?}"));
        }
    }
}

impl Role {
    /// Takes the events that come within [`LOOK`].
    fn look(&mut self) {
        while let Ok(event) = self.events.recv_timeout(LOOK) {
            match event {
                Event::PeerUp { .. } => self.up = true,
                Event::PeerLost { reason, .. } => self.lost = Some(reason),
                Event::Frame { channel, frame, .. } => {
                    let channel = from_net(channel);
                    let seen = TracedFrame {
                        us: None,
                        from: None,
                        to: None,
                        channel: Some(channel),
                        header: frame.header.to_vec(),
                        payload: frame.payload,
                    };
                    if !is_working(&seen) {
                        self.came.entry(channel).or_default().push_back(seen);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns whether the frame only reports that a peer still computes. Such frames depend on the peer's
/// speed.
fn is_working(frame: &TracedFrame) -> bool {
    matches!(frame.message(), Ok(Message::View(view::Message::KeepAlive(_))))
}

/// Returns the first difference, in any order of items (spec, section 9).
fn differs(recorded: &TracedFrame, came: &TracedFrame) -> Option<(String, [String; 2])> {
    let ordered = |frame: &TracedFrame| match frame.message() {
        Ok(message) => {
            TracedFrame { header: flyswarm::protocol::wire::canonical(&sorted(message)), ..again(frame) }
        }
        Err(_) => again(frame),
    };
    difference(&ordered(recorded), &ordered(came))
}

fn again(frame: &TracedFrame) -> TracedFrame {
    let TracedFrame { us, from, to, channel, ref header, ref payload } = *frame;
    TracedFrame { us, from, to, channel, header: header.clone(), payload: Bytes::clone(payload) }
}

/// Returns the same message with its items sorted by their authors.
fn sorted(mut message: Message) -> Message {
    match &mut message {
        Message::View(view::Message::Up(_, report)) => match report {
            Report::Keys(items) => items.sort_by_key(|item| item.author),
            Report::TotalReady { deals, .. } => deals.sort_by_key(|item| item.author),
            Report::Acknowledge(_, items) => items.sort_by_key(|item| item.author),
            Report::Release(_, items) => items.sort_by_key(|item| item.author),
            Report::Reveal(items) => items.sort_by_key(|item| item.author),
        },
        Message::View(view::Message::Down(_, order)) => match order {
            Order::Keys(items) => items.sort_by_key(|item| item.author),
            Order::Decide(_, items) => items.sort_by_key(|item| item.author),
            Order::Open(_, items) => items.sort_by_key(|item| item.author),
            Order::Reveal(items) => items.sort_by_key(|item| item.author),
            Order::Sum(_) | Order::Accept(_) => {}
        },
        _ => {}
    }
    message
}

fn told(frame: &TracedFrame, place: usize, what: &str, sides: Option<(String, String)>) -> Differs {
    let mut text = format!("frame {}, {}: {what}\n", place + 1, frame.way());
    if let Some((recorded, came)) = &sides {
        let _ = writeln!(text, "  recorded  {recorded}\n  came      {came}");
    }
    let (recorded, came) = sides.unzip();
    let value = json!({
        "same": false, "frame": place + 1, "from": frame.from, "to": frame.to,
        "channel": frame.channel.map(crate::frames::name_of), "what": what, "recorded": recorded, "came": came,
    });
    (text, value)
}

fn whole(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| files::failed(path, &error))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::Input(format!("{}: not JSON: {error}", path.display())))
}

/// Returns 32 bytes from a list that is indexed by peers.
fn seed(value: &Value, name: &str, peer: u16) -> Option<[u8; 32]> {
    hex::decode(value[name][usize::from(peer)].as_str()?).ok()?.try_into().ok()
}

/// Returns the seed for all random values of our own program, from a file that `--prepare` has written.
pub(crate) fn node_seed(path: &Path) -> Result<[u8; 32], Failure> {
    let value = whole(path)?;
    let digits = value["node_seed"].as_str().unwrap_or_default();
    let bytes = hex::decode(digits).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Failure::Input(format!("{}: has no node_seed of 32 bytes", path.display())))
}

/// Writes the files of the live peer. `wrong` makes the error if the trace lacks something.
fn prepare(
    value: &Value,
    (toml, session): (&str, &Session),
    live: Peer,
    folder: &Path,
    wrong: impl Fn(String) -> Failure,
) -> Result<(), Failure> {
    let lacks = |what: &str| wrong(format!("has no {what} of peer {}", live.0));
    let identity = seed(value, "seeds", live.0).map(Identity::from_seed).ok_or_else(|| lacks("seed"))?;
    let of_peer = &value["data"][live.index()];
    let (rows, labels) =
        of_peer["rows"].as_array().zip(of_peer["labels"].as_array()).ok_or_else(|| lacks("rows"))?;
    let mut csv = String::new();
    for (row, label) in rows.iter().zip(labels) {
        let class = label.as_u64().and_then(|label| session.data.classes.get(usize::try_from(label).ok()?));
        let class = class.ok_or_else(|| lacks("class for a row"))?;
        for number in row.as_array().into_iter().flatten() {
            let _ = write!(csv, "{number},");
        }
        let _ = writeln!(csv, "{class}");
    }
    let deals = value["deals"].as_array().into_iter().flatten();
    let randomness = json!({
        "about": "what the peer draws: its view key, and the coefficients of the polynomial of each pad; \
                  node_seed is for flyswarm itself",
        "view_secret": value["view_secrets"][live.index()]["secret"],
        "deals": deals.filter(|deal| deal["dealer"] == live.0).collect::<Vec<_>>(),
        "node_seed": value["node_seeds"][live.index()],
    });
    files::create_folder(folder)?;
    files::write(&folder.join("session.toml"), toml.as_bytes(), false)?;
    files::write(&folder.join("peer.csv"), csv.as_bytes(), false)?;
    files::write_private(&folder.join("randomness.json"), format!("{randomness}\n").as_bytes())?;
    identity.save(folder.join("peer.key"))?;
    Ok(())
}
