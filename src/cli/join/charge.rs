//! A private session is entered in the ledger before anything of it is sent.

use std::path::Path;
use std::time::SystemTime;

use clap::Args;

use super::super::Failure;
use crate::ledger::{Charge, Ledger};
use crate::privacy::Ratio;
use crate::protocol::context::Context;
use crate::session::{Session, check_name};
use crate::store::{Store, StoreError};

// What a session's rows are called, and may spend. (clap would take a documentation comment for the
// command's.)
#[derive(Debug, Default, Args)]
pub(super) struct BudgetCharge {
    /// What you call these rows: under this name the ledger adds up what private sessions spend of them
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Join only if these rows have then spent at most this
    #[arg(long, value_name = "E", requires = "dataset")]
    budget: Option<Ratio>,
    /// Join a private session without being asked, whatever its forecast
    #[arg(long, requires = "dataset")]
    pub(super) yes: bool,
}

impl BudgetCharge {
    /// Whether the options fit the session, which is in `file`.
    pub(super) fn check(&self, file: &Path, session: &Session) -> Result<(), Failure> {
        let file = file.display();
        match (session.privacy.noise, &self.dataset) {
            (Some(_), None) => {
                let text =
                    "a private session needs --dataset NAME, under which the ledger adds up what it spends";
                Err(Failure::Input(format!("{file}: {text}")))
            }
            (Some(_), Some(name)) => Ok(check_name("--dataset", name)?),
            (None, _) if self.budget.is_some() => {
                let text =
                    "--budget: the session has no privacy.epsilon, and what exact sums tell has no bound";
                Err(Failure::Input(format!("{file}: {text}")))
            }
            (None, Some(_)) => {
                let text =
                    "--dataset: the session has no privacy.epsilon, and nothing is entered in the ledger";
                Err(Failure::Input(format!("{file}: {text}")))
            }
            (None, None) => Ok(()),
        }
    }

    /// Enters the session in the ledger beside `key`, once for what is kept in `state`. `ask` may end it
    /// before that, unless it is paid for.
    #[allow(clippy::disallowed_methods, reason = "ledgers say when")]
    pub(super) fn pay(
        &self,
        ctx: &Context,
        key: &Path,
        state: &Path,
        ask: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (Some(noise), Some(dataset)) = (ctx.session.privacy.noise, &self.dataset) else { return Ok(()) };
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let charge = Charge {
            dataset: dataset.clone(),
            epsilon: noise.epsilon,
            mode: noise.mode,
            session: ctx.id.to_string(),
            name: ctx.session.name.clone(),
            unix: since.map_or(0, |since| since.as_secs()),
        };
        let store = |error: StoreError| Failure::Machine(error.to_string());
        let path = Ledger::path(key, &ctx.identity.public().to_string());
        if !Store::is_paid(state).map_err(store)? {
            Ledger::open(&path)?.check(&charge, self.budget, false)?;
            ask()?;
        }
        let mut ledger = Ledger::open(&path)?;
        // What a peer has drawn is kept with its state, and sent again as it is: who still has that pays
        // once.
        ledger.charge(charge, self.budget, Store::is_paid(state).map_err(store)?)?;
        Store::mark_paid(state).map_err(store)
    }
}
