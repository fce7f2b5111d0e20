//! The options of `session new` for the task `sketch`, and for peers that are drawn by sketches.

use clap::Args;

use crate::session::Scaling;
use crate::sketch::distribution::Family;
use crate::tasks::SketchSpec;

/// Rows and range where noise is put on every counter: it grows with the rows (docs/sketch.md).
pub(in crate::cli) const PRIVATE: (u32, u32) = (16, 32);

// (clap would take a documentation comment for the command's.)
#[derive(Debug, Args)]
pub(super) struct SketchArguments {
    /// Learn from so many peers as --choose says alone, drawn by the distances of their sketches (sketch),
    /// with the task flynn
    #[arg(long, value_name = "HOW", value_parser = ["sketch"], requires = "choose")]
    select: Option<String>,
    /// The hash of a sketch: srp (dense rows) or minhash (of the features above 0), with the task sketch or
    /// --select [default: srp]
    #[arg(long)]
    hash: Option<Family>,
    /// Rows of the sketch [default: 1000; with --epsilon: 16]
    #[arg(long, value_name = "R")]
    rows: Option<u32>,
    /// Counters of a row of the sketch, with srp a power of two [default: 64; with --epsilon: 32]
    #[arg(long, value_name = "B")]
    range: Option<u32>,
    /// With the task sketch: open every peer's distance to the global sketch
    #[arg(long)]
    open_distances: bool,
    /// With the task sketch: open every peer's own sketch, and so all distances between peers
    #[arg(long)]
    pairwise: bool,
    /// Of the published peers so many are considered for the draw [default: all]
    #[arg(long, value_name = "L", requires = "choose")]
    active: Option<u16>,
    /// So many peers are drawn, the nearer the likelier; needs --open-distances or --select [default: none]
    #[arg(long, value_name = "K")]
    choose: Option<u16>,
    /// Temperature of the draw [default: 1]
    #[arg(long, requires = "choose")]
    temperature: Option<f64>,
}

impl SketchArguments {
    /// Whether peers are drawn for another task.
    pub(super) fn selects(&self) -> bool {
        self.select.is_some()
    }

    pub(super) fn given(&self) -> Vec<&'static str> {
        let given = [
            ("--hash", self.hash.is_some()),
            ("--rows", self.rows.is_some()),
            ("--range", self.range.is_some()),
            ("--open-distances", self.open_distances),
            ("--pairwise", self.pairwise),
            ("--active", self.active.is_some()),
            ("--choose", self.choose.is_some()),
            ("--temperature", self.temperature.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// SRP compares angles: about the mean of all records these tell more.
    pub(super) fn scaling(&self, private: bool) -> Scaling {
        match self.hash {
            Some(Family::Minhash) => Scaling::None,
            // The mean would be an exact sum, which a private session cannot have.
            _ if private => Scaling::UnitNorm,
            _ => Scaling::Center,
        }
    }

    pub(super) fn spec(&self, private: bool) -> SketchSpec {
        let mut defaults = SketchSpec::default();
        if private {
            (defaults.rows, defaults.range) = PRIVATE;
        }
        SketchSpec {
            hash: self.hash.unwrap_or(defaults.hash),
            rows: self.rows.unwrap_or(defaults.rows),
            range: self.range.unwrap_or(defaults.range),
            open_distances: self.open_distances || self.selects(),
            pairwise: self.pairwise,
            active: self.active.unwrap_or(defaults.active),
            chosen: self.choose.unwrap_or(defaults.chosen),
            temperature: self.temperature.unwrap_or(defaults.temperature),
        }
    }
}
