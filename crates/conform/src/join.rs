//! `flyswarm-conform join`: a node of `flyswarm join` that stops or deviates on purpose, or takes its
//! random values from a file.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use flyswarm::cli::{self, Failure};
use flyswarm::net::driver::{Interpose, Sent};
use flyswarm::peer::Error;
use flyswarm::protocol::context::Context;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::view::Stage;
use flyswarm::session::Peer;

use crate::deviation::{self, Deviation};
use crate::play;

/// Run `flyswarm join` with additional options for tests
///
/// Takes the arguments of `flyswarm join` and three more options, at any position. --hold-at AGGREGATE.STAGE
/// stops the node at this stage until the node is killed. --deviate WAY PEER makes the node deviate towards a
/// peer, as in the case WAY of `check`. --randomness FILE makes the node use the random numbers that `play
/// --prepare` has written. Never use this command with real data.
#[derive(Debug, Args)]
pub(crate) struct Join {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Switches of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    pub(crate) hold_at: Option<String>,
    /// The way to deviate, and the name of the peer.
    pub(crate) deviate: Option<(String, String)>,
    pub(crate) seed: Option<[u8; 32]>,
}

impl Join {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let (switches, rest) = Switches::split(self.arguments)?;
        let words: Vec<OsString> = ["flyswarm".into(), "join".into()].into_iter().chain(rest).collect();
        Ok(cli::join_interposed(&words, Arc::new(move |ctx| Ok(Box::new(switches.node(ctx)?)))))
    }
}

impl Switches {
    /// Takes the switches out of a command line; the rest is for `flyswarm join`.
    fn split(arguments: Vec<OsString>) -> Result<(Self, Vec<OsString>), Failure> {
        let (mut switches, mut rest) = (Self::default(), Vec::new());
        let mut words = arguments.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().and_then(|value| value.into_string().ok());
                value.ok_or_else(|| Failure::Input(format!("{}: a value is missing", word.display())))
            };
            match word.to_str() {
                Some("--hold-at") => switches.hold_at = Some(value()?),
                Some("--deviate") => switches.deviate = Some((value()?, value()?)),
                Some("--randomness") => switches.seed = Some(play::node_seed(Path::new(&value()?))?),
                _ => rest.push(word),
            }
        }
        Ok((switches, rest))
    }

    pub(crate) fn node(&self, ctx: &Arc<Context>) -> Result<SwitchedNode, Error> {
        let hold_at = self.hold_at.as_deref().map(|text| place(ctx, text)).transpose()?;
        let deviate = |(way, towards): &(String, String)| deviation::towards(ctx, way, towards);
        let deviation = self.deviate.as_ref().map(deviate).transpose()?;
        Ok(SwitchedNode { hold_at, deviation, seed: self.seed })
    }
}

/// Returns the slot and the stage of a text such as `counts.sum`.
fn place(ctx: &Context, text: &str) -> Result<(u32, Stage), Error> {
    const STAGES: [(&str, Stage); 6] = [
        ("keys", Stage::Keys),
        ("compute", Stage::Compute),
        ("sum", Stage::Sum),
        ("accept", Stage::Accept),
        ("release", Stage::Release),
        ("open", Stage::Open),
    ];
    let wrong = || Error::Input(format!("--hold-at {text}: expected AGGREGATE.STAGE"));
    let (aggregate, stage) = text.split_once('.').ok_or_else(wrong)?;
    let slot = ctx.plan.iter().position(|known| known.name == aggregate).ok_or_else(wrong)?;
    let (_, stage) = STAGES.into_iter().find(|(name, _)| *name == stage).ok_or_else(wrong)?;
    Ok((u32::try_from(slot).map_err(|_| wrong())?, stage))
}

/// Effects of the switches, between a node and its network.
#[derive(Debug)]
pub(crate) struct SwitchedNode {
    hold_at: Option<(u32, Stage)>,
    deviation: Option<Deviation>,
    seed: Option<[u8; 32]>,
}

impl Interpose for SwitchedNode {
    fn send(&mut self, to: Peer, message: &Message) -> Option<Sent> {
        self.deviation.as_mut()?.send(to, message)
    }

    fn stops_at(&self, slot: u32, stage: Stage) -> bool {
        self.hold_at == Some((slot, stage))
    }

    fn piece(&self) -> Option<usize> {
        self.deviation.as_ref()?.piece()
    }

    fn seed(&self) -> Option<[u8; 32]> {
        self.seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<(Switches, String), String> {
        let words = line.split_whitespace().map(OsString::from).collect();
        let (switches, rest) = Switches::split(words).map_err(|failure| failure.to_string())?;
        let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
        Ok((switches, rest.join(" ")))
    }

    #[test]
    fn switches_are_taken_out_wherever_they_stand() {
        let hold_at = Some("counts.sum".to_owned());
        let deviate = Some(("begin-twice".to_owned(), "bob".to_owned()));
        let line = "--hold-at counts.sum s.toml --json --deviate begin-twice bob --key k";
        let switches = Switches { hold_at, deviate, seed: None };
        assert_eq!(split(line), Ok((switches, "s.toml --json --key k".into())));
        assert_eq!(split("s.toml --deviate begin-twice"), Err("--deviate: a value is missing".into()));
        assert!(split("--randomness no-such-file").is_err());
    }
}
