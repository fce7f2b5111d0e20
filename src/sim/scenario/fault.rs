//! The timeline of faults in a scenario file.

use serde::Deserialize;
use toml::Value;

use crate::protocol::Fault as Broken;
use crate::protocol::view::Stage;
use crate::session::Peer;

/// One thing that goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// When, virtual seconds; this or `at`.
    pub at_s: Option<f64>,
    /// When a peer reaches a stage; this or `at_s`.
    pub at: Option<Moment>,
    /// Whom it befalls; see the kinds.
    pub peers: Option<Peers>,
    /// The site that it befalls.
    pub site: Option<String>,
    /// After so many seconds it is undone.
    pub for_s: Option<f64>,
    /// `slow-link`: one way, milliseconds.
    pub latency_ms: Option<f64>,
    /// `slow-link`: megabits in a second.
    pub bandwidth_mbit: Option<f64>,
    /// `tamper`: how.
    pub how: Option<Tamper>,
    /// `tamper`: every so many frames that it can be done to.
    pub every: Option<u64>,
}

/// When a peer reaches a stage.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Who; left out: the first that the fault befalls.
    pub peer: Option<u16>,
    /// The quantity: `coin`, `holders`, `moments`, `counts`; `sum` for the task of that name.
    pub slot: String,
    /// The stage.
    pub stage: Stage,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The process dies; its disk stays. `for_s`: started again.
    Crash,
    /// Started with what is on its disk.
    Restart,
    /// Nothing is taken in (SIGSTOP, swapping). `for_s` is needed.
    Pause,
    /// The peers are cut off from all others, silently.
    Partition,
    /// Every cut is undone, and every connection made again.
    Heal,
    /// All paths of these peers become slow.
    SlowLink,
    /// From now on the peers break the protocol; see [`Tamper`].
    Tamper,
    /// Somebody outside the roster connects to these peers.
    Stranger,
    /// These peers have another session file, from the start.
    OtherSession,
}

/// How a peer breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tamper {
    /// One bit in the header of a frame is flipped.
    FlipBits,
    /// A report or chunk is sent twice.
    Replay,
    /// A chunk of the sum is a word too short.
    VectorLength,
    /// A share of another pad than was dealt is released, properly signed.
    WrongShare,
    /// Another vector than its own data give is put in. Nobody can see it.
    Poison,
}

impl Kind {
    /// As the file spells it.
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
    /// As the file spells it.
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

    /// Every so many frames that it can be done to, where the file does not say.
    #[must_use]
    pub fn usual(self) -> u64 {
        if self == Self::FlipBits { 8 } else { 1 }
    }

    /// What it must be blamed with, by the names of [`name`]; empty: nobody can see it.
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

/// The name of a fault, as results and scenarios spell it.
#[must_use]
pub fn name(fault: &Broken) -> &'static str {
    match fault {
        Broken::Malformed(_) => "malformed",
        Broken::OutOfOrder(_) => "out-of-order",
        Broken::Inconsistent(_) => "inconsistent",
        Broken::BadSignature(_) => "bad-signature",
        Broken::BadShare(_) => "bad-share",
        Broken::BadDeal(_) => "bad-deal",
        Broken::TwoValues => "two-values",
        Broken::LowOrderKey => "low-order-key",
        Broken::BadRecord(_) => "bad-record",
        Broken::Transport(_) => "transport",
    }
}

/// Some peers: a number, a list of numbers, `"2..5"` (2, 3, 4 and 5), `"council 0"` or `"all"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Peers {
    /// By number.
    Some(Vec<u16>),
    /// The member of this rank of the council.
    Council(u16),
    /// Everybody.
    All,
}

impl TryFrom<Value> for Peers {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = |number: i64| u16::try_from(number).map_err(|_| format!("there is no peer {number}"));
        let wrong = || {
            format!(
                "peers are {value}, must be a number, a list of numbers, \"2..5\", \"council 0\" or \"all\""
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
                if let Some(rank) = text.strip_prefix("council ") {
                    return Ok(Self::Council(rank.parse().map_err(|_| wrong())?));
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
    /// The peers, given the council.
    #[must_use]
    pub fn of(&self, council: &[Peer], peers: u16) -> Vec<Peer> {
        match self {
            Self::Some(numbers) => numbers.iter().copied().map(Peer).collect(),
            Self::Council(rank) => council.get(usize::from(*rank)).copied().into_iter().collect(),
            Self::All => (0..peers).map(Peer).collect(),
        }
    }

    /// The largest number that is named.
    #[must_use]
    pub fn largest(&self) -> Option<u16> {
        match self {
            Self::Some(numbers) => numbers.iter().copied().max(),
            Self::Council(_) | Self::All => None,
        }
    }
}
