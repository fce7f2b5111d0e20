//! The task `fedavg-xclp` in a session file.

use std::fmt::{self, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::session::encoding::{Field, integer};
use crate::session::rules::Limit;
use crate::session::{DataSpec, Session, SessionError};
use crate::session::{Sections, Spec};
use crate::tasks::{BuiltIn, TaskKind};
use crate::tasks::{FedavgSpec, XclpSpec};

/// The parameters of federated averaging on given labels and on labels found by XCLP (Scott, Yeo & Lampert,
/// "Cross-client Label Propagation", TMLR 2023, Algorithm 2).
#[derive(Debug, Clone, PartialEq)]
pub struct FedavgXclpSpec {
    /// How the network is trained.
    pub fedavg: FedavgSpec,
    /// How labels are propagated. The default of `power` is 3 here, as in the authors' code.
    pub xclp: XclpSpec,
    /// Rounds that train on given labels alone, before labels are found for the first time: 0 to 9,999.
    /// Default: half of all rounds, as in the authors' code.
    pub after: u32,
    /// Rounds between one propagation and the next: 1 (the paper) to 10,000. Default 10.
    pub refresh: u32,
}

/// The section `[pseudo_labels]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    after: Option<i64>,
    refresh: Option<i64>,
}

const AFTER: Limit = Limit::new("pseudo_labels.after", 0, 9_999);
const REFRESH: Limit = Limit::new("pseudo_labels.refresh", 1, 10_000);

impl FedavgXclpSpec {
    /// This training, with the usual propagation.
    #[must_use]
    pub fn new(fedavg: FedavgSpec) -> Self {
        Self { after: fedavg.rounds / 2, fedavg, xclp: Self::usual(), refresh: 10 }
    }

    /// The usual propagation.
    #[must_use]
    pub fn usual() -> XclpSpec {
        XclpSpec { power: 3, ..XclpSpec::default() }
    }

    /// How often labels are propagated in a session.
    #[must_use]
    pub fn propagations(&self) -> u32 {
        self.fedavg.rounds.saturating_sub(self.after).div_ceil(self.refresh.max(1))
    }
}

impl FedavgXclpSpec {
    /// Reads the parameters from their sections, for rows as in `data` and so many peers.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<Self, SessionError> {
        let fedavg = FedavgSpec::read(sections, data, peers)?;
        let xclp = XclpSpec::read_with(sections, Self::usual())?;
        let Raw { after, refresh } = sections.take("pseudo_labels")?.unwrap_or_default();
        let usual = Self::new(fedavg);
        Ok(Self {
            xclp,
            after: after.map_or(Ok(usual.after), |after| AFTER.check(after))?,
            refresh: refresh.map_or(Ok(usual.refresh), |refresh| REFRESH.check(refresh))?,
            ..usual
        })
    }
}

impl Spec for FedavgXclpSpec {
    fn kind(&self) -> &'static dyn TaskKind {
        &super::Kind
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(session, self.clone()))
    }

    fn about(&self) -> &'static str {
        "a network, trained in rounds on labels that were given and labels that are found"
    }

    fn roster(&self) -> Limit {
        self.xclp.roster()
    }

    fn normalise(&mut self) {
        self.fedavg.normalise();
        self.xclp.normalise();
    }

    fn propagation(&self) -> Option<&XclpSpec> {
        Some(&self.xclp)
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        self.fedavg.check(session)?;
        self.xclp.check(session)?;
        if self.xclp.balance {
            let limit = "false with the task fedavg-xclp, which balances by opened counts".to_owned();
            return Err(SessionError::value("xclp.balance", true, limit));
        }
        if self.xclp.hamming.is_pairwise() {
            let limit = "\"replicated\" with the task fedavg-xclp, which propagates labels often".to_owned();
            return Err(SessionError::value(
                "xclp.hamming",
                format!("{:?}", self.xclp.hamming.name()),
                limit,
            ));
        }
        AFTER.check::<u32>(self.after)?;
        REFRESH.check::<u32>(self.refresh)?;
        if self.fedavg.members < 1.0 {
            let limit = "1 with the task fedavg-xclp".to_owned();
            return Err(SessionError::value("fedavg.members", self.fedavg.members, limit));
        }
        if let Some(digest) = self.fedavg.initial {
            let limit = "left out with the task fedavg-xclp".to_owned();
            return Err(SessionError::value("fedavg.initial", format!("{:?}", hex::encode(digest)), limit));
        }
        if self.after >= self.fedavg.rounds {
            let limit = format!("below fedavg.rounds, {}", self.fedavg.rounds);
            return Err(SessionError::value("pseudo_labels.after", self.after, limit));
        }
        Ok(())
    }

    fn entries(&self) -> Vec<Field> {
        let own =
            [("pseudo_labels.after", integer(self.after)), ("pseudo_labels.refresh", integer(self.refresh))];
        [self.xclp.entries(), self.fedavg.entries(), own.to_vec()].concat()
    }

    fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        self.fedavg.write_toml(data, out)?;
        self.xclp.write_toml(data, out)?;
        writeln!(out, "[pseudo_labels]")?;
        writeln!(
            out,
            "# So many rounds train on given labels alone. Then labels are propagated to the other"
        )?;
        writeln!(out, "# rows, and again after every so many rounds.")?;
        writeln!(out, "after = {}\nrefresh = {}\n", self.after, self.refresh)
    }

    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let own = json!({
            "after": self.after, "refresh": self.refresh, "propagations": self.propagations(),
        });
        [self.fedavg.json(data), self.xclp.json(data), vec![("pseudo_labels", own)]].concat()
    }

    fn lines(&self, data: &DataSpec) -> Vec<(&'static str, String)> {
        let often = match self.refresh {
            1 => "before each round".to_owned(),
            rounds => format!("every {rounds} rounds"),
        };
        let text =
            format!("propagated after {} rounds, then {often}: {} times", self.after, self.propagations());
        [self.fedavg.lines(data), self.xclp.lines(data), vec![("labels", text)]].concat()
    }
}
