//! Options of `session new` that belong to one task.

use super::NewArguments;

impl NewArguments {
    pub(super) fn flynn_options(&self) -> Vec<&'static str> {
        let given = [
            ("--m", self.m.is_some()),
            ("--s", self.s.is_some()),
            ("--rho", self.rho.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--score", self.score.is_some()),
            ("--densify", self.densify),
            ("--paper-settings", self.paper_settings),
            ("--tune", self.tune.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }
}
