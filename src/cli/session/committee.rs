//! The options of `session new` on the committee.

use clap::Args;

use crate::session::{CommitteeSpec, Faults};

/// Who votes, and what its members may do.
#[derive(Debug, Args)]
pub(super) struct CommitteeArguments {
    /// The peers that vote, by name; from 16 peers on it matters who they are [default: 15 by hash, or all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    committee: Vec<String>,
    /// What a minority of the committee may do without opening a quantity twice: crash, or byzantine, where
    /// it may do whatever it likes; then at least four vote, and fewer may be away
    #[arg(long, value_name = "KIND", default_value = "crash", value_parser = ["crash", "byzantine"])]
    faults: String,
}

impl CommitteeArguments {
    pub(super) fn spec(self) -> CommitteeSpec {
        let faults = if self.faults == "byzantine" { Faults::Byzantine } else { Faults::Crash };
        CommitteeSpec { faults, members: self.committee }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{message, new, peer};
    use super::*;
    use crate::session::Session;

    #[test]
    fn who_votes_and_what_they_may_do_stand_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let fourth = peer(4);
        let more = ["--peer", &fourth, "--faults", "byzantine", "--committee", "peer-4,peer-1,peer-2,peer-3"];
        let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
        assert_eq!(session.voting.faults, Faults::Byzantine);
        assert_eq!(session.committee().len(), 4);
        let few = message(new(folder.path(), &["--faults", "byzantine", "--force"]));
        assert!(few.contains("byzantine needs four members"), "{few}");
        let stranger = message(new(folder.path(), &["--committee", "peer-1,peer-2,nobody", "--force"]));
        assert!(stranger.contains("committee.members") && stranger.contains("nobody"), "{stranger}");
    }
}
