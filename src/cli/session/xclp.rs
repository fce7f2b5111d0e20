//! The options of `session new` for the tasks `xclp` and `fedavg-xclp`.

use clap::Args;

use crate::tasks::{FedavgSpec, FedavgXclpSpec, Hamming, XclpSpec};

// (clap would take a documentation comment for the command's.)
#[derive(Debug, Args)]
pub(super) struct XclpArguments {
    /// Bits of a code, with the task xclp [default: 4096]
    #[arg(long, value_name = "L")]
    bits: Option<u32>,
    /// Neighbours of a point, with the task xclp [default: 10]
    #[arg(long, value_name = "K")]
    neighbours: Option<u32>,
    /// How far labels spread, with the task xclp [default: 0.99]
    #[arg(long)]
    alpha: Option<f64>,
    /// Similarities are cosines to this power, with the task xclp: 1 (paper) to 3 (the authors' code)
    /// [default: 1; 3 with the task fedavg-xclp]
    #[arg(long)]
    power: Option<u8>,
    /// With the task xclp: each label counts as one over the labels of its class
    #[arg(long)]
    balance: bool,
    /// With the task xclp, how distances are made: replicated (from shares of codes), ot or phe (by every two
    /// peers: those who compute then see no codes, not even two together) [default: replicated]
    #[arg(long, value_name = "WAY")]
    hamming: Option<Hamming>,
    /// Steps in which labels spread, with the task xclp [default: what alpha needs, 60 for 0.99]
    #[arg(long)]
    steps: Option<u32>,
    /// With the task xclp, the three peers that compute, by name, and perhaps a fourth in reserve [default:
    /// drawn by chance]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    compute: Vec<String>,
    /// With the task xclp: allow fewer than 5 (k + 1) rows together
    #[arg(long)]
    few_rows: bool,
    /// With the task xclp: allow a peer with more than half of all rows
    #[arg(long)]
    large_owner: bool,
    /// With the task xclp: most rows of a peer [default: no limit]
    #[arg(long, value_name = "N")]
    most_rows: Option<u32>,
    /// With the task xclp: most sessions of the series [default: no limit]
    #[arg(long, value_name = "N")]
    most_sessions: Option<u32>,
    /// With the task xclp: megabytes of memory that a computing party may take [default: 1024]
    #[arg(long, value_name = "MB")]
    memory_mb: Option<u32>,
    /// With the task fedavg-xclp: rounds on given labels alone, before labels are propagated [default: half
    /// of all rounds]
    #[arg(long, value_name = "ROUNDS")]
    after: Option<u32>,
    /// With the task fedavg-xclp: rounds from one propagation of labels to the next [default: 10]
    #[arg(long, value_name = "ROUNDS")]
    refresh: Option<u32>,
}

impl XclpArguments {
    /// Options of both tasks.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let given = [
            ("--bits", self.bits.is_some()),
            ("--neighbours", self.neighbours.is_some()),
            ("--alpha", self.alpha.is_some()),
            ("--power", self.power.is_some()),
            ("--balance", self.balance),
            ("--hamming", self.hamming.is_some()),
            ("--steps", self.steps.is_some()),
            ("--compute", !self.compute.is_empty()),
            ("--few-rows", self.few_rows),
            ("--large-owner", self.large_owner),
            ("--most-rows", self.most_rows.is_some()),
            ("--most-sessions", self.most_sessions.is_some()),
            ("--memory-mb", self.memory_mb.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// Options of the task `fedavg-xclp` alone.
    pub(super) fn rounds_given(&self) -> Vec<&'static str> {
        let given = [("--after", self.after.is_some()), ("--refresh", self.refresh.is_some())];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The propagation; `usual` has what is not given.
    pub(super) fn spec(&self, usual: XclpSpec) -> XclpSpec {
        let usual = self.alpha.map_or(usual.clone(), |alpha| usual.with_alpha(alpha));
        XclpSpec {
            bits: self.bits.unwrap_or(usual.bits),
            k: self.neighbours.unwrap_or(usual.k),
            steps: self.steps.unwrap_or(usual.steps),
            power: self.power.unwrap_or(usual.power),
            balance: self.balance,
            hamming: self.hamming.unwrap_or(usual.hamming),
            compute: self.compute.clone(),
            few_rows: self.few_rows,
            large_owner: self.large_owner,
            most_rows: self.most_rows.unwrap_or(usual.most_rows),
            most_sessions: self.most_sessions.unwrap_or(usual.most_sessions),
            memory_mb: self.memory_mb.unwrap_or(usual.memory_mb),
            ..usual
        }
    }

    /// The propagations of such a training.
    pub(super) fn with_rounds(&self, fedavg: FedavgSpec) -> FedavgXclpSpec {
        let usual = FedavgXclpSpec::new(fedavg);
        FedavgXclpSpec {
            xclp: self.spec(FedavgXclpSpec::usual()),
            after: self.after.unwrap_or(usual.after),
            refresh: self.refresh.unwrap_or(usual.refresh),
            ..usual
        }
    }
}
