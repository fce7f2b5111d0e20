//! One case: runs a session with the case's event, and judges the program.

use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

use super::Check;
use super::cases::{Case, Drama};
use crate::deviation::{Expected, Kind};
use crate::files::{now, random, write_private};
use crate::ground::Ground;
use flyswarm::cli::Failure;
use flyswarm::net::{Config, Event, Multiaddr, Network};
use flyswarm::session::Timing;

/// Longest time for a case.
const LIMIT: Duration = Duration::from_secs(180);
/// Rows of the matrix. The models are small, because the check is about the protocol.
const SHORT: u32 = 512;
/// Rows of the matrix for a long vector: the counts of ten classes then fill ten chunks.
const LONG: u32 = 60_000;
/// Time that a node is suspended: longer than its neighbours wait for an answer to a ping.
const COMMITTED: Duration = Duration::from_secs(8);
/// Time limit for the program to listen and to meet a stranger.
const MET: Duration = Duration::from_secs(20);
/// Time for a message to arrive and for its effects to be saved to disk.
const ARRIVES: Duration = Duration::from_millis(500);
/// Words of the error if nothing could deviate.
pub(super) const NO_OCCASION: &str = "had no occasion to send";

impl Check {
    /// Returns the program's errors in a case; `None` if the case is not tried.
    pub(super) fn try_out(&self, case: &Case, folder: PathBuf) -> Result<Option<Vec<String>>, Failure> {
        let mut program = self.program.clone().unwrap_or_default();
        if matches!(case.drama, Drama::NetworkKey) {
            let Some(more) = &self.with_network_key else { return Ok(None) };
            program = format!("{program} {more}");
        }
        let (peers, m) = ((case.peers, fewest(case)), if case.long { LONG } else { SHORT });
        let mut ground = Ground::new(folder, &program, peers, (case.place, m), (timing(case), LIMIT))?;
        let mut ours: Vec<_> = (0..case.peers).filter(|i| *i != ground.checked).collect();
        let leader = ground.tree[0];
        let key = ground.network_key().display().to_string();
        if matches!(case.drama, Drama::NetworkKey) {
            let text = format!("/key/swarm/psk/1.0.0/\n/base16/\n{}\n", hex::encode(*random()?));
            write_private(&ground.network_key(), text.as_bytes())?;
        }
        let hold = match case.drama {
            Drama::LeaderDies(stage) | Drama::Restart(stage) => format!("counts.{stage}"),
            Drama::Forgets => "counts.sum".to_owned(),
            _ => String::new(),
        };
        let deviates = match case.drama {
            Drama::Deviates(kind) => Some((kind, ground.neighbour(kind.from))),
            _ => None,
        };
        let checked = ground.name(ground.checked).to_owned();
        let mut wrong = Vec::new();
        if matches!(case.drama, Drama::Stranger) {
            ground.start_checked()?;
            wrong.extend(stranger(&ground)?);
        }
        for &i in &ours {
            let more = match deviates {
                Some((kind, who)) if kind.all || i == who => vec!["--deviate", kind.name, &checked],
                Some((Kind { others: Some(other), .. }, _)) => vec!["--deviate", other, &checked],
                _ if matches!(case.drama, Drama::NetworkKey) => vec!["--network-key", &key],
                _ if i == leader && !hold.is_empty() => vec!["--hold-at", &hold],
                _ => Vec::new(),
            };
            ground.start(i, &more)?;
        }
        if !matches!(case.drama, Drama::Late | Drama::Stranger) {
            ground.start_checked()?;
        }
        if let Some((Kind { expected: Expected::Blame, .. }, who)) = deviates {
            // The end of the deviating node is not judged.
            ours.retain(|i| *i != who);
        }
        play(case.drama, &mut ground, &mut ours, leader)?;
        wrong.extend(ground.judge(&ours, !matches!(case.drama, Drama::Forgets)));
        if let Some((kind, who)) = deviates {
            wrong.extend(judge_deviation(kind, &ground, who));
        }
        if nobody_is_at_fault(case.drama) {
            wrong.extend(ground.false_blame());
        }
        if wrong.is_empty() && matches!(case.drama, Drama::Nothing | Drama::NetworkKey | Drama::Stranger) {
            wrong.extend(ground.judge_rows(ours[0])?);
        }
        Ok(Some(wrong))
    }
}

/// Returns how many peers must take part: one fewer if a peer is lost.
fn fewest(case: &Case) -> u16 {
    let loses = match case.drama {
        Drama::Late | Drama::Forgets | Drama::LeaderDies(_) => true,
        Drama::Deviates(kind) => kind.expected == Expected::Blame,
        Drama::Nothing | Drama::NetworkKey | Drama::Stranger | Drama::Restart(_) | Drama::Committed => false,
    };
    let peers = u16::try_from(case.peers).unwrap_or(u16::MAX);
    if loses { peers - 1 } else { peers }
}

fn timing(case: &Case) -> Timing {
    let timing = Timing { start_wait_ms: 20_000, linger_ms: 8_000, ..Timing::default() };
    match case.drama {
        Drama::Late => Timing { start_wait_ms: 1_500, ..timing },
        // If three peers have the sum before this node is suspended, they must stay until the fifth
        // gives up its view.
        Drama::Committed => Timing { linger_ms: 30_000, ..timing },
        // A blamed peer never reports that it has everything, and a peer that lost a message waits for
        // this message.
        Drama::Deviates(kind) => {
            // An interpreted program takes seconds to start.
            let start_wait_ms = if kind.ungreeted { 8_000 } else { timing.start_wait_ms };
            // The case checks how bytes are read, not how fast.
            let view_timeout_ms = if kind.is_slow() { 30_000 } else { 3_000 };
            Timing { start_wait_ms, linger_ms: 3_000, view_timeout_ms, ..timing }
        }
        _ => timing,
    }
}

/// Runs a session to its end, and makes the case's event happen on the way.
fn play(drama: Drama, ground: &mut Ground, ours: &mut Vec<usize>, leader: usize) -> Result<(), Failure> {
    let mut done = matches!(drama, Drama::Nothing | Drama::NetworkKey | Drama::Stranger | Drama::Deviates(_));
    let mut committed: Option<(usize, std::time::Instant)> = None;
    while ground.hear()? {
        match drama {
            _ if done => {}
            Drama::Late if ground.anyone(&[("event", "view")]) => {
                ground.start_checked()?;
                done = true;
            }
            Drama::Restart(_) | Drama::Forgets if ground.heard(leader, &[("event", "held")]) => {
                // Messages that were sent to the program before the leader stopped still arrive.
                std::thread::sleep(ARRIVES);
                ground.kill_checked();
                ground.kill(leader);
                if matches!(drama, Drama::Forgets) {
                    ground.forget()?;
                }
                ground.start_checked()?;
                ground.start(leader, &[])?;
                done = true;
            }
            Drama::LeaderDies(_) if ground.heard(leader, &[("event", "held")]) => {
                ground.kill(leader);
                ours.retain(|i| *i != leader);
                done = true;
            }
            Drama::Committed
                if ground.anyone(&[("event", "stage"), ("slot", "counts"), ("stage", "compute")]) =>
            {
                let last = ground.tree.iter().rev().copied().find(|i| *i != ground.checked && *i != leader);
                let whom = last.unwrap_or(leader);
                ground.signal(whom, "STOP")?;
                committed = Some((whom, now() + COMMITTED));
                done = true;
            }
            _ => {}
        }
        if let Some((whom, until)) = committed
            && now() >= until
        {
            ground.signal(whom, "CONT")?;
            committed = None;
        }
        if done && committed.is_none() && ground.over(ours) {
            break;
        }
    }
    Ok(())
}

/// Connects to the checked program with an identity that is not in the roster. Returns the error, if
/// any.
fn stranger(ground: &Ground) -> Result<Option<String>, Failure> {
    let failed = |error: String| Failure::Environment(format!("the stranger: {error}"));
    let address = ground.address(ground.checked).parse::<Multiaddr>();
    let address = address.map_err(|error| failed(error.to_string()))?;
    let roster = [(ground.peer_id(ground.checked), vec![address])].into();
    let mut config = Config::new(Zeroizing::new(*random()?), roster);
    (config.patience, config.details) = (Duration::ZERO, true);
    let (network, events) = Network::spawn(config).map_err(|error| failed(error.to_string()))?;
    let until = now() + MET;
    let port = ground.port(ground.checked);
    let mut listens = TcpStream::connect(("127.0.0.1", port)).is_ok();
    let wrong = loop {
        match events.recv_timeout(until.saturating_duration_since(now())) {
            // The connection may close before or after the multiplexer is set up. A failure to connect
            // does not count until the program listens.
            Ok(Event::NotUp { known, .. }) if known || listens => break None,
            Ok(Event::NotUp { .. }) => listens = TcpStream::connect(("127.0.0.1", port)).is_ok(),
            Ok(Event::PeerUp { .. }) => {
                break Some("the program admits a peer that is not in the roster".to_owned());
            }
            Ok(_) => {}
            Err(_) => {
                break Some(format!(
                    "a peer outside the roster connected for {MET:?}, and the program closed no connection"
                ));
            }
        }
    };
    let _ = network.shutdown(Duration::ZERO);
    Ok(wrong)
}

/// Returns true if the program only gets correct messages and keeps its own state.
fn nobody_is_at_fault(drama: Drama) -> bool {
    match drama {
        Drama::Deviates(kind) => kind.expected == Expected::GoOn,
        Drama::Nothing | Drama::NetworkKey | Drama::Stranger => true,
        _ => false,
    }
}

/// Returns the program's error after peer `who` has deviated.
fn judge_deviation(kind: &Kind, ground: &Ground, who: usize) -> Option<String> {
    let (who_is, checked) = (ground.name(who), ground.name(ground.checked));
    let events = &ground.told[who];
    let Some(at) = events.iter().position(|event| event["event"] == "deviated") else {
        return Some(format!("{who_is} {NO_OCCASION} {}", kind.about));
    };
    let of_checked = |event: &str| {
        let place = events[at..].iter().rposition(|told| told["event"] == event && told["peer"] == checked);
        place.map(|place| at + place)
    };
    let (left, met) = (of_checked("disconnected"), of_checked("joined"));
    let closed = left.is_some_and(|left| met.is_none_or(|met| met < left));
    match kind.expected {
        Expected::GoOn => None,
        Expected::Blame if closed => None,
        Expected::Blame => Some(format!(
            "{who_is} sent {}: the program must close the connection for good, and has not",
            kind.about
        )),
    }
}
