//! Enters private sessions in the ledger before anything is sent. Sessions that compute exact results on
//! shares of rows (`xclp`, `summary`, `glm`) are entered too.

use std::path::Path;

use super::Error;
use crate::ledger::{Charge, Ledger};
use crate::privacy::Ratio;
use crate::session::{Session, check_name};
use crate::store::{Store, StoreError};
use crate::tasks::Shared;

/// Asks whether to spend budget on a private session. An error ends the session.
pub(super) type Ask = Box<dyn FnOnce() -> Result<(), Error> + Send>;

/// Data set of a peer, and the budget that it may spend in private sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Name of the data set in the privacy ledger.
    pub dataset: String,
    /// Maximum that all sessions together may spend, or `None` for no limit.
    pub limit: Option<Ratio>,
}

/// Checks that a private session has a budget, and that a session without privacy has none.
pub(super) fn check(session: &Session, budget: Option<&Budget>) -> Result<(), Error> {
    let input = |text: &str| Err(Error::Input(text.to_owned()));
    match (session.privacy.noise, budget) {
        (Some(_), None) => input(
            "a private session needs a budget with a name: under this name the ledger adds up the budget \
             spent",
        ),
        (Some(_), Some(budget)) => Ok(check_name("data set", &budget.dataset)?),
        (None, Some(Budget { limit: Some(_), .. })) => {
            input("budget: the session has no privacy.epsilon, and exact sums have no formal privacy limit")
        }
        (None, Some(budget)) if on_shares(session) => Ok(check_name("data set", &budget.dataset)?),
        (None, Some(_)) => {
            input("budget: the session has no privacy.epsilon, and nothing is entered in the ledger")
        }
        (None, None) => Ok(()),
    }
}

/// Returns whether the session computes exact results on shares of rows.
fn on_shares(session: &Session) -> bool {
    session.task.kind().shared != Shared::Sums
}

/// Enters the session in `ledger`, once for each state folder `state`. `rows` is the name of the rows, which
/// is used if the caller names no data set. It is `None` for a peer without rows. Before the session is
/// entered, `ask` is called and may end the session, unless the session has been paid for.
pub(super) fn charge(
    session: &Session,
    budget: Option<&Budget>,
    rows: Option<&str>,
    (ledger, state): (&Path, &Path),
    ask: Option<Ask>,
) -> Result<(), Error> {
    let noise = session.privacy.noise;
    let unnamed = rows.filter(|_| on_shares(session));
    let unnamed = unnamed.map(|name| Budget { dataset: name.to_owned(), limit: None });
    let Some(budget) = budget.or(unnamed.as_ref()).filter(|_| noise.is_some() || unnamed.is_some()) else {
        return Ok(());
    };
    let ask = ask.filter(|_| noise.is_some());
    let charge = Charge {
        dataset: budget.dataset.clone(),
        epsilon: noise.map(|noise| noise.epsilon),
        delta: noise.and_then(|noise| noise.delta).map(Ratio::to_f64),
        mode: noise.map(|noise| noise.mode),
        session: session.id().to_string(),
        name: session.name.clone(),
        unix: super::unix() as u64,
    };
    let store = |error: StoreError| Error::Environment(error.to_string());
    if !Store::is_paid(state).map_err(store)? {
        Ledger::open(ledger)?.check(&charge, budget.limit, false)?;
        if let Some(ask) = ask {
            ask()?;
        }
    }
    let mut ledger = Ledger::open(ledger)?;
    // A peer keeps the drawn noise in its state, and sends it again unchanged. So as long as it has this
    // state, it pays only once.
    ledger.charge(charge, budget.limit, Store::is_paid(state).map_err(store)?)?;
    Store::mark_paid(state).map_err(store)
}
