//! A peer's rows as `join` has read them, and what it says of their columns.

use serde_json::json;

use crate::cli::Failure;
use crate::cli::progress::Progress;
use crate::task::Rows;

/// A peer's rows, what they are called, what is to be said of how they were read, and whether columns that
/// look wrong end the session for this peer.
pub(super) struct Given {
    pub(super) rows: Rows,
    pub(super) name: String,
    pub(super) said: Option<String>,
    pub(super) strict: bool,
}

impl Given {
    pub(super) fn new(rows: Rows, name: String, said: Option<String>, strict: bool) -> Self {
        Self { rows, name, said, strict }
    }
}

/// Tells this user, and nobody else, of a column that looks wrong.
pub(super) fn odd_columns(progress: &Progress, line: &str) {
    progress.tell(&json!({"event": "odd-columns", "message": line}), &format!("warning: {line}"));
}

/// The end of a session that could not be finished; where no other peer was ever heard, with what may keep
/// all of them away: a network key at one side only.
pub(super) fn unreached(failure: Failure, reached: bool, keyed: bool) -> Failure {
    let hint = match keyed {
        true => "none of them answered, and this peer uses a network key: all need the same one",
        false => "none of them answered: if they use a network key, give it with --network-key",
    };
    match failure {
        Failure::Session(text) if !reached => Failure::Session(format!("{text}; {hint}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_hears_nobody_is_told_of_the_network_key() {
        let told = |reached, keyed| unreached(Failure::Session("too few".into()), reached, keyed).to_string();
        assert_eq!(told(true, false), "too few");
        assert!(
            told(false, true).starts_with("too few; none of them answered, and this peer uses a network key")
        );
        assert!(told(false, false).ends_with("give it with --network-key"));
        assert_eq!(unreached(Failure::Input("x".into()), false, false).to_string(), "x");
    }
}
