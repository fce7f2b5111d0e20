//! Options of differential privacy, and the budget that was spent.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use serde_json::json;

use super::{Failure, id::key_path, print};
use crate::crypto::identity::Identity;
use crate::ledger::{self, Ledger, LedgerError, Total};
use crate::privacy::Ratio;
use crate::session::{NoiseMode, NoiseSpec};

// Options that make a session private. (This is not a doc comment, because clap would use it as the help of
// the command.)
#[derive(Debug, Args)]
pub(super) struct NoiseArguments {
    /// With the task flynn or sketch: differential privacy with this budget, 0.001 to 100 (docs/privacy.md)
    #[arg(long, value_name = "E")]
    epsilon: Option<Ratio>,
    /// With the task flynn: number of counts that a peer releases (T in the paper). With --mode central:
    /// number of counts of the total that are kept [default: 100]
    #[arg(long, value_name = "T", requires = "epsilon")]
    top: Option<u32>,
    /// Probability that the budget does not hold. Only for the task fedavg, which has no private demo
    #[arg(long, value_name = "D", requires = "epsilon")]
    delta: Option<f64>,
    /// Rows that the budget protects. per-party: one row at every peer (as in the paper); parallel: one row
    /// at one peer; central (task flynn): one row at one peer, only in the total of all peers; member: only
    /// for the task fedavg, which has no private demo [default: per-party]
    #[arg(long, value_name = "MODE", requires = "epsilon", value_parser = modes())]
    mode: Option<NoiseMode>,
    /// With --mode central: number of peers that may collude [default: 1]
    #[arg(long, value_name = "N", requires = "epsilon")]
    colluders: Option<u16>,
}

fn modes() -> impl clap::builder::TypedValueParser<Value = NoiseMode> {
    PossibleValuesParser::new(["per-party", "parallel", "central", "member"]).map(|text| {
        match text.as_str() {
            "parallel" => NoiseMode::Parallel,
            "central" => NoiseMode::Central,
            "member" => NoiseMode::Member,
            _ => NoiseMode::PerParty,
        }
    })
}

impl NoiseArguments {
    /// Returns the noise that the user requests. `top` is the default of `--top`.
    /// [`crate::session::Session::check`] checks that the noise suits the session.
    pub(super) fn spec(&self, top: u32) -> Option<NoiseSpec> {
        let epsilon = self.epsilon?;
        let mut spec = NoiseSpec::new(epsilon, self.top.unwrap_or(top), self.mode.unwrap_or_default());
        spec.delta = self.delta.and_then(NoiseSpec::exact_delta);
        spec.colluders = self.colluders.unwrap_or(spec.colluders);
        Some(spec)
    }
}

/// Print for each data set of a key how much privacy budget was spent, and how many sessions on secret shares
/// (xclp, fedavg-xclp, summary, glm) have used the data set
#[derive(Debug, Args)]
pub(super) struct Spent {
    /// Key file [default: the key of `flyswarm id`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Spent {
    /// Returns the arguments for printing JSON.
    #[cfg(feature = "net")]
    pub(super) fn json(key: Option<PathBuf>) -> Self {
        Self { key, json: true }
    }

    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let key = key_path(self.key)?;
        let path = Ledger::path(&key, &Identity::load(&key)?.public().to_string());
        let charges = Ledger::read(&path)?;
        let totals = ledger::totals(&charges);
        if self.json {
            let total = |total: &Total| {
                let Total { dataset, spent, delta, on_shares } = total;
                json!({"dataset": dataset, "spent": spent, "delta": delta, "on_shares": on_shares})
            };
            let totals: Vec<_> = totals.iter().map(total).collect();
            return print(
                out,
                &format!("{:#}\n", json!({"ledger": path, "datasets": totals, "charges": charges})),
            );
        }
        let mut text = format!("{}\n", path.display());
        for Total { dataset, spent, delta, on_shares } in totals {
            text += &format!("{dataset}: {spent} spent");
            if delta > 0.0 {
                text += &format!(" (delta {delta:.1e})");
            }
            text += &match on_shares {
                0 => "\n".to_owned(),
                1 => ", 1 session on shares\n".to_owned(),
                more => format!(", {more} sessions on shares\n"),
            };
            for charge in charges.iter().filter(|charge| charge.dataset == dataset) {
                let epsilon = charge.epsilon.map_or_else(|| "-".to_owned(), |epsilon| epsilon.to_string());
                let mode = charge.mode.map_or_else(|| "shares".to_owned(), |mode| mode.to_string());
                text += &format!("  {epsilon:>10} {mode:<9} {} {}\n", charge.session, charge.name);
            }
        }
        if charges.is_empty() {
            text += "nothing spent\n";
        }
        print(out, &text)
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        let text = error.to_string();
        match error {
            LedgerError::Io { .. } | LedgerError::NoLocks { .. } | LedgerError::Locked(_) => {
                Self::Environment(text)
            }
            LedgerError::Damaged { .. } | LedgerError::Exceeded { .. } | LedgerError::OtherSet { .. } => {
                Self::Input(text)
            }
        }
    }
}
