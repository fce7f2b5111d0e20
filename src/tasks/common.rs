//! What tasks share.

pub(crate) mod columns;
pub(crate) mod evaluation;
pub mod exchange;
pub(crate) mod filled;
pub(crate) mod history;
pub(super) mod holders;
pub(crate) mod outcome;
pub(crate) mod task;
