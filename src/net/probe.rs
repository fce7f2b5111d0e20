//! Probes (`/flyswarm/probe/1`; spec, section 6.1): a peer asks another peer of the roster about itself, and
//! measures the connection between them.
//!
//! Questions and answers follow one another on one substream of the open connection. The constants below
//! limit the work of answering. A peer that asks for more loses the substream, but not the connection.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{AsyncReadExt, AsyncWriteExt};
use libp2p::{Multiaddr, Stream};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::dial::is_relayed;
use super::gate::ip_of;

/// Protocol name negotiated for its substreams. It has its own version number, so peers with different
/// versions of the protocol can ask each other.
pub(super) const PROTOCOL: &str = "/flyswarm/probe/1";
/// Maximum length in bytes of the text of a node about itself (guess: 40 times the size of a session's
/// fields).
pub(super) const MAX_ABOUT: usize = 64 * 1024;
/// Maximum number of bytes of one `Take` or `Give`; and then of all of them on one substream, in both
/// directions together (guess: 0.3 s at 1 Gbit/s).
const MAX_PIECE: u32 = 4 << 20;
const MAX_SUM: u64 = 16 << 20;
/// Maximum number of questions on one substream (guess: an honest peer asks about twenty).
const MAX_QUESTIONS: u32 = 64;
/// Maximum number of substreams that are answered on one connection. They are answered one at a time (guess).
pub(super) const MAX_PROBES: u32 = 8;
/// Time limit for all answers on one substream, and for all questions (guess).
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for a connection to the asking peer's port.
const CONNECT: Duration = Duration::from_secs(3);
/// Duration of a transfer that is sufficient to measure the rate (guess).
const LONG_ENOUGH: Duration = Duration::from_millis(250);
const FIRST_PIECE: u32 = 64 << 10;
/// Number of measured round trips. The shortest is used.
const ROUNDS: usize = 5;

const ABOUT: u8 = 0;
const TAKE: u8 = 1;
const GIVE: u8 = 2;
const REACH: u8 = 3;

/// Result of a peer's attempt to connect to a port of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The connection was made, so a program listens on the port.
    Connected,
    /// The connection was refused, so no program listens on the port.
    Refused,
    /// The peer got no answer in 3 s.
    Silence,
    /// Another error, such as a missing route.
    Failed,
}

impl Reach {
    fn byte(self) -> u8 {
        match self {
            Self::Connected => 0,
            Self::Refused => 1,
            Self::Silence => 2,
            Self::Failed => 3,
        }
    }

    fn from_byte(byte: u8) -> io::Result<Self> {
        [Self::Connected, Self::Refused, Self::Silence, Self::Failed]
            .into_iter()
            .find(|reach| reach.byte() == byte)
            .ok_or_else(|| io::Error::other(format!("answer {byte} to a question that has 0 to 3")))
    }

    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::Silence,
            _ => Self::Failed,
        }
    }
}

/// Questions of a probe.
#[derive(Debug, Clone, Default)]
pub struct Questions {
    /// Maximum number of bytes to send, and to receive, to measure the rates. If 0, the rates are not
    /// measured. At most 4 MiB are used.
    pub bytes: u32,
    /// TCP port of this node that the peer tries to connect to.
    pub port: Option<u16>,
}

/// Answers to a probe.
#[derive(Debug, Clone)]
pub struct Answers {
    /// Text of the peer about itself, as in its [`super::Config::about`]. At most 64 KiB.
    pub about: Bytes,
    /// Shortest of five round trips.
    pub round_trip: Duration,
    /// Difference between the peer's clock and this machine's clock in seconds. Its error is at most half a
    /// round trip. It is positive if the peer's clock is ahead.
    pub clock_ahead: f64,
    /// Bytes per second to the peer and from it.
    pub rates: Option<(f64, f64)>,
    /// Result for the port in the question.
    pub reach: Option<Reach>,
}

/// Returns the IP address that the answering peer connects to. For a relayed connection, only the relay's
/// address is known.
pub(super) fn asker(remote: &Multiaddr) -> Option<IpAddr> {
    ip_of(remote).filter(|_| !is_relayed(remote))
}

/// Answers until the other side ends the substream. Returns `Err` if the substream broke or a limit was
/// exceeded.
pub(super) async fn answer(stream: Stream, about: Bytes, remote: Option<IpAddr>) -> io::Result<()> {
    match timeout(PATIENCE, answer_all(stream, about, remote)).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn answer_all(mut stream: Stream, about: Bytes, remote: Option<IpAddr>) -> io::Result<()> {
    let mut left = MAX_SUM;
    for _ in 0..MAX_QUESTIONS {
        let mut question = [0];
        if stream.read(&mut question).await? == 0 {
            return stream.close().await;
        }
        match question[0] {
            ABOUT => {
                stream.write_all(&now_micros().to_le_bytes()).await?;
                let length =
                    u32::try_from(about.len()).unwrap_or_else(|_| unreachable!("BUG: checked at the start"));
                stream.write_all(&length.to_le_bytes()).await?;
                stream.write_all(&about).await?;
            }
            TAKE => {
                let count = piece(&mut stream, &mut left).await?;
                discard(&mut stream, count).await?;
                stream.write_all(&[TAKE]).await?;
            }
            GIVE => {
                let count = piece(&mut stream, &mut left).await?;
                give(&mut stream, count).await?;
            }
            REACH => {
                let mut port = [0; 2];
                stream.read_exact(&mut port).await?;
                let found = reach(remote, u16::from_le_bytes(port)).await;
                stream.write_all(&[found.byte()]).await?;
            }
            other => return Err(io::Error::other(format!("question {other}, there are 0 to 3"))),
        }
        stream.flush().await?;
    }
    Err(io::Error::other(format!("more than {MAX_QUESTIONS} questions on one substream")))
}

/// Reads the size of a `Take` or `Give`, within the limits.
async fn piece(stream: &mut Stream, left: &mut u64) -> io::Result<u32> {
    let mut count = [0; 4];
    stream.read_exact(&mut count).await?;
    let count = u32::from_le_bytes(count);
    match left.checked_sub(count.into()) {
        Some(less) if count <= MAX_PIECE => *left = less,
        _ => {
            let text =
                format!("{count} bytes asked for, the limits are {MAX_PIECE} at once and {MAX_SUM} in all");
            return Err(io::Error::other(text));
        }
    }
    Ok(count)
}

async fn discard(stream: &mut Stream, count: u32) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut left = count as usize;
    while left > 0 {
        let some = left.min(buffer.len());
        let got = stream.read(&mut buffer[..some]).await?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= got;
    }
    Ok(())
}

async fn give(stream: &mut Stream, count: u32) -> io::Result<()> {
    let zeros = vec![0; 16 << 10];
    let mut left = count as usize;
    while left > 0 {
        let some = left.min(zeros.len());
        stream.write_all(&zeros[..some]).await?;
        left -= some;
    }
    Ok(())
}

/// Tries to connect to a port of the asking peer. It connects to no other address.
async fn reach(remote: Option<IpAddr>, port: u16) -> Reach {
    let Some(ip) = remote else { return Reach::Failed };
    match timeout(CONNECT, TcpStream::connect((ip, port))).await {
        Ok(Ok(_)) => Reach::Connected,
        Ok(Err(error)) => Reach::of(&error),
        Err(_) => Reach::Silence,
    }
}

/// Asks all questions.
pub(super) async fn ask(stream: Stream, questions: Questions) -> Result<Answers, String> {
    match timeout(PATIENCE, ask_all(stream, questions)).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answers for {} s", PATIENCE.as_secs())),
    }
}

async fn ask_all(mut stream: Stream, questions: Questions) -> io::Result<Answers> {
    let (mut round_trip, mut clock_ahead, mut about) = (Duration::MAX, 0.0, Bytes::new());
    for _ in 0..ROUNDS {
        let (sent, before) = (Instant::now(), now_micros());
        stream.write_all(&[ABOUT]).await?;
        stream.flush().await?;
        let mut clock = [0; 8];
        stream.read_exact(&mut clock).await?;
        let took = sent.elapsed();
        let mut length = [0; 4];
        stream.read_exact(&mut length).await?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_ABOUT {
            return Err(io::Error::other(format!("{length} bytes about itself, the limit is {MAX_ABOUT}")));
        }
        let mut text = vec![0; length];
        stream.read_exact(&mut text).await?;
        if took < round_trip {
            let middle = before as f64 + took.as_micros() as f64 / 2.0;
            (round_trip, clock_ahead) = (took, (u64::from_le_bytes(clock) as f64 - middle) / 1e6);
        }
        about = text.into();
    }
    let most = questions.bytes.min(MAX_PIECE);
    let mut rates = None;
    if most > 0 {
        let mut sent = 0.0;
        let mut got = 0.0;
        for direction in [TAKE, GIVE] {
            let mut count = FIRST_PIECE.min(most);
            let rate = if direction == TAKE { &mut sent } else { &mut got };
            loop {
                let took = transfer(&mut stream, direction, count).await?;
                let moving = took.saturating_sub(round_trip).max(Duration::from_micros(10));
                *rate = f64::from(count) / moving.as_secs_f64();
                // Each transfer is larger than the one before, so all together are less than twice the last
                // one.
                if took >= LONG_ENOUGH || count >= most {
                    break;
                }
                count = count.saturating_mul(2).min(most);
            }
        }
        rates = Some((sent, got));
    }
    let mut reach = None;
    if let Some(port) = questions.port {
        stream.write_all(&[REACH]).await?;
        stream.write_all(&port.to_le_bytes()).await?;
        stream.flush().await?;
        let mut found = [0];
        stream.read_exact(&mut found).await?;
        reach = Some(Reach::from_byte(found[0])?);
    }
    stream.close().await?;
    Ok(Answers { about, round_trip, clock_ahead, rates, reach })
}

async fn transfer(stream: &mut Stream, direction: u8, count: u32) -> io::Result<Duration> {
    let begun = Instant::now();
    stream.write_all(&[direction]).await?;
    stream.write_all(&count.to_le_bytes()).await?;
    if direction == TAKE {
        give(stream, count).await?;
        stream.flush().await?;
        discard(stream, 1).await?;
    } else {
        stream.flush().await?;
        discard(stream, count).await?;
    }
    Ok(begun.elapsed())
}

/// Returns this machine's time: microseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "peers compare their clocks")]
fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
