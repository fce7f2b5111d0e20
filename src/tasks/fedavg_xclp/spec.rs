//! The parameters of the task `fedavg-xclp` in a session file.

use std::any::Any;
use std::fmt::{self, Write};

use serde_json::Value;

use crate::session::encoding::Field;
use crate::session::fields::{self, Row};
use crate::session::rules::Limit;
use crate::session::{DataSpec, Session, SessionError};
use crate::session::{Sections, Spec};
use crate::tasks::{BuiltIn, TaskKind};
use crate::tasks::{FedavgSpec, XclpSpec};

/// The parameters of federated averaging on given labels and on labels found by XCLP (Scott, Yeo & Lampert,
/// "Cross-client Label Propagation", TMLR 2023, Algorithm 2).
#[derive(Debug, Clone, PartialEq)]
pub struct FedavgXclpSpec {
    /// Training of the network.
    pub fedavg: FedavgSpec,
    /// Propagation of the labels. The default of `power` is 3 here, as in the authors' code.
    pub xclp: XclpSpec,
    /// Rounds that train on given labels alone, before the first propagation: 0 to 9,999. Default: half
    /// of all rounds, as in the authors' code.
    pub after: u32,
    /// Rounds between one propagation and the next: 1 (the paper) to 10,000. Default 10.
    pub refresh: u32,
}

/// The section `[pseudo_labels]`.
static FIELDS: &[Row<FedavgXclpSpec>] = fields::fields! { "pseudo_labels";
    after at after: whole(0, 9_999),
        "The first `after` rounds train only on given labels. Then labels are propagated to the other \
         rows, and again every `refresh` rounds.";
    refresh at refresh: whole(1, 10_000), "";
};

impl FedavgXclpSpec {
    /// Combines this training with the default propagation.
    #[must_use]
    pub fn new(fedavg: FedavgSpec) -> Self {
        Self { after: fedavg.rounds / 2, fedavg, xclp: Self::usual(), refresh: 10 }
    }

    /// Returns the default propagation. It does not limit the number of rows of an owner.
    #[must_use]
    pub fn usual() -> XclpSpec {
        XclpSpec { power: 3, most_rows: 0, ..XclpSpec::default() }
    }

    /// Returns the number of propagations in a session.
    #[must_use]
    pub fn propagations(&self) -> u32 {
        self.fedavg.rounds.saturating_sub(self.after).div_ceil(self.refresh.max(1))
    }
}

impl FedavgXclpSpec {
    /// Reads the parameters from their sections of the session file. `data` describes the rows.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        data: &DataSpec,
        peers: usize,
    ) -> Result<Self, SessionError> {
        let fedavg = FedavgSpec::read(sections, data, peers)?;
        let xclp = XclpSpec::read_with(sections, Self::usual())?;
        let mut spec = Self { xclp, ..Self::new(fedavg) };
        fields::read(FIELDS, sections, &mut spec)?;
        Ok(spec)
    }
}

impl Spec for FedavgXclpSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
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

    fn parts(&self) -> Vec<&dyn Any> {
        vec![&self.xclp]
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        if self.fedavg.is_own() {
            let limit = "a network of this program with the task fedavg-xclp".to_owned();
            return Err(SessionError::value("fedavg.network", "\"own\"", limit));
        }
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
        fields::check(FIELDS, self)?;
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
        [self.xclp.entries(), self.fedavg.entries(), fields::entries(FIELDS, self)].concat()
    }

    fn write_toml(&self, data: &DataSpec, out: &mut String) -> fmt::Result {
        self.fedavg.write_toml(data, out)?;
        self.xclp.write_toml(data, out)?;
        writeln!(out, "[pseudo_labels]")?;
        fields::write(FIELDS, self, out)?;
        writeln!(out)
    }

    fn json(&self, data: &DataSpec) -> Vec<(&'static str, Value)> {
        let mut own = fields::json(FIELDS, self);
        own.insert("propagations".into(), self.propagations().into());
        [self.fedavg.json(data), self.xclp.json(data), vec![("pseudo_labels", own.into())]].concat()
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
