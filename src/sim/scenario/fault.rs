//! The timeline of faults in a scenario file.

use serde::Deserialize;
use toml::Value;

use crate::protocol::Fault as Broken;
use crate::protocol::view::Stage;
use crate::session::Peer;

/// One fault of the timeline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: Kind,
    /// Time of the fault, virtual seconds; either this or `at` is given.
    pub at_s: Option<f64>,
    /// Stage of a peer at which the fault occurs; either this or `at_s` is given.
    pub at: Option<Moment>,
    /// Peers that the fault concerns; see the kinds.
    pub peers: Option<Peers>,
    /// Site whose peers the fault concerns.
    pub site: Option<String>,
    /// Seconds after which the fault is undone.
    pub for_s: Option<f64>,
    /// `slow-link`: latency one way, in milliseconds.
    pub latency_ms: Option<f64>,
    /// `slow-link`: bandwidth, megabits per second.
    pub bandwidth_mbit: Option<f64>,
    /// `tamper`: how the peers break the protocol.
    pub how: Option<Tamper>,
    /// `tamper`: one of this number of matching frames is changed.
    pub every: Option<u64>,
}

/// The moment at which a peer reaches a stage.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Number of the peer; if absent, the first of the peers that the fault concerns.
    pub peer: Option<u16>,
    /// Aggregate of the task's plan, such as `coin`, `holders`, `moments`, `counts`, `sum`.
    pub slot: String,
    /// Stage that the peer reaches.
    pub stage: Stage,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The process dies, but its disk is kept. With `for_s` it restarts.
    Crash,
    /// The process restarts with its disk.
    Restart,
    /// The process reads no input (SIGSTOP, swapping). `for_s` is required.
    Pause,
    /// The peers are cut off from all others. Their connections do not end, but become silent.
    Partition,
    /// All partitions are undone, and all connections are made again.
    Heal,
    /// All paths of these peers become slow.
    SlowLink,
    /// The peers break the protocol from now on; see [`Tamper`].
    Tamper,
    /// A peer outside the roster connects to these peers.
    Stranger,
    /// These peers have another session file, from the start.
    OtherSession,
}

/// Ways to break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tamper {
    /// One bit in the header of a frame is flipped.
    FlipBits,
    /// A report or chunk is sent twice.
    Replay,
    /// A chunk of the sum is one word too short.
    VectorLength,
    /// A share of a pad other than the dealt one is released, with a valid signature.
    WrongShare,
    /// A peer contributes another vector than the one from its data. No other peer can detect it.
    Poison,
}

impl Kind {
    /// Returns the name in a scenario file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Partition => "partition",
            Self::Heal => "heal",
            Self::SlowLink => "slow-link",
            Self::Tamper => "tamper",
            Self::Stranger => "stranger",
            Self::OtherSession => "other-session",
        }
    }
}

impl Tamper {
    /// Returns the name of this fault in a scenario file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FlipBits => "flip-bits",
            Self::Replay => "replay",
            Self::VectorLength => "vector-length",
            Self::WrongShare => "wrong-share",
            Self::Poison => "poison",
        }
    }

    /// Returns the default of `every`.
    #[must_use]
    pub fn usual(self) -> u64 {
        if self == Self::FlipBits { 8 } else { 1 }
    }

    /// Returns the faults for which such a peer may be blamed, by the names of [`name`]; empty if no
    /// peer can detect it.
    #[must_use]
    pub fn blamed_with(self) -> &'static [&'static str] {
        match self {
            Self::FlipBits => &[
                "malformed",
                "out-of-order",
                "inconsistent",
                "bad-signature",
                "bad-share",
                "bad-deal",
                "low-order-key",
                "bad-record",
            ],
            Self::Replay => &["out-of-order"],
            Self::VectorLength => &["inconsistent"],
            Self::WrongShare => &["bad-share"],
            Self::Poison => &[],
        }
    }
}

/// Returns the name of a fault in results and scenarios.
#[must_use]
pub(crate) fn name(fault: &Broken) -> &'static str {
    match fault {
        Broken::Malformed(_) => "malformed",
        Broken::OutOfOrder(_) => "out-of-order",
        Broken::Inconsistent(_) => "inconsistent",
        Broken::BadSignature(_) => "bad-signature",
        Broken::BadShare => "bad-share",
        Broken::BadDeal => "bad-deal",
        Broken::TwoValues => "two-values",
        Broken::LowOrderKey => "low-order-key",
        Broken::BadRecord(_) => "bad-record",
        Broken::Transport(_) => "transport",
    }
}

/// A set of peers: a number, a list of numbers, `"2..5"` (2, 3, 4 and 5), `"committee 0"` or `"all"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Peers {
    /// Peers with these numbers.
    Some(Vec<u16>),
    /// Member of the committee with this rank.
    Committee(u16),
    /// All peers.
    All,
}

impl TryFrom<Value> for Peers {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = |number: i64| u16::try_from(number).map_err(|_| format!("there is no peer {number}"));
        let wrong = || {
            format!(
                "peers are {value}, must be a number, a list of numbers, \"2..5\", \"committee 0\" or \"all\""
            )
        };
        match &value {
            Value::Integer(one) => Ok(Self::Some(vec![number(*one)?])),
            Value::Array(items) => {
                let numbers = items.iter().map(|item| item.as_integer().ok_or_else(wrong).and_then(number));
                Ok(Self::Some(numbers.collect::<Result<_, _>>()?))
            }
            Value::String(text) if text == "all" => Ok(Self::All),
            Value::String(text) => {
                if let Some(rank) = text.strip_prefix("committee ") {
                    return Ok(Self::Committee(rank.parse().map_err(|_| wrong())?));
                }
                let (from, to) = text.split_once("..").ok_or_else(wrong)?;
                let (from, to): (u16, u16) =
                    (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
                if from > to { Err(wrong()) } else { Ok(Self::Some((from..=to).collect())) }
            }
            _ => Err(wrong()),
        }
    }
}

impl Peers {
    /// Returns the peers, in a session with this committee and this number of peers.
    #[must_use]
    pub fn of(&self, committee: &[Peer], peers: u16) -> Vec<Peer> {
        match self {
            Self::Some(numbers) => numbers.iter().copied().map(Peer).collect(),
            Self::Committee(rank) => committee.get(usize::from(*rank)).copied().into_iter().collect(),
            Self::All => (0..peers).map(Peer).collect(),
        }
    }

    /// Returns the largest number in the set.
    #[must_use]
    pub fn largest(&self) -> Option<u16> {
        match self {
            Self::Some(numbers) => numbers.iter().copied().max(),
            Self::Committee(_) | Self::All => None,
        }
    }
}
