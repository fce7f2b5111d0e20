//! Code shared by the tasks.

pub(crate) mod checked;
pub(crate) mod columns;
pub(crate) mod evaluation;
pub(crate) mod filled;
pub(super) mod holders;
pub(crate) mod protect;
pub(crate) mod tables;
pub(crate) mod variables;
