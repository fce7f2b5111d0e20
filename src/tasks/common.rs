//! What tasks share.

pub(crate) mod columns;
pub(crate) mod evaluation;
pub(crate) mod filled;
pub(super) mod holders;
pub(crate) mod protect;
