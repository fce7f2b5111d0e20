//! Options of `session new` that belong to one task.

use super::NewArguments;

impl NewArguments {
    pub(super) fn xclp_options(&self) -> Vec<&'static str> {
        let given = [
            ("--bits", self.bits.is_some()),
            ("--neighbours", self.neighbours.is_some()),
            ("--alpha", self.alpha.is_some()),
            ("--power", self.power.is_some()),
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

    pub(super) fn flynn_options(&self) -> Vec<&'static str> {
        let given = [
            ("--m", self.m.is_some()),
            ("--s", self.s.is_some()),
            ("--rho", self.rho.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--score", self.score.is_some()),
            ("--densify", self.densify),
            ("--published", self.published),
            ("--tune", self.tune.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }
}
