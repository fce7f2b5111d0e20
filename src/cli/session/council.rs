//! The options of `session new` on the council.

use clap::Args;

use crate::session::{CouncilSpec, Faults};

/// Who votes, and what its members may do.
#[derive(Debug, Args)]
pub(super) struct CouncilArguments {
    /// The peers that vote, by name; from 16 peers on it matters who they are [default: 15 by hash, or all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    council: Vec<String>,
    /// What a minority of the council may do without opening an aggregate twice: crash, or byzantine, if it
    /// may do whatever it likes; then at least four vote, and fewer may be away
    #[arg(long, value_name = "KIND", default_value = "crash", value_parser = ["crash", "byzantine"])]
    faults: String,
}

impl CouncilArguments {
    pub(super) fn spec(self) -> CouncilSpec {
        let faults = if self.faults == "byzantine" { Faults::Byzantine } else { Faults::Crash };
        CouncilSpec { faults, members: self.council }
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
        let more = ["--peer", &fourth, "--faults", "byzantine", "--council", "peer-4,peer-1,peer-2,peer-3"];
        let session = Session::load(new(folder.path(), &more).unwrap()).unwrap();
        assert_eq!(session.voting.faults, Faults::Byzantine);
        assert_eq!(session.council().len(), 4);
        let few = message(new(folder.path(), &["--faults", "byzantine", "--force"]));
        assert!(few.contains("byzantine needs four members"), "{few}");
        let stranger = message(new(folder.path(), &["--council", "peer-1,peer-2,nobody", "--force"]));
        assert!(stranger.contains("council.members") && stranger.contains("nobody"), "{stranger}");
    }
}
