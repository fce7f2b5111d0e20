//! `flyswarm id`: the identity of this machine's user.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

use super::{Failure, print};
use crate::crypto::identity::{Identity, IdentityError};
use crate::files;
use crate::session::Run;

/// Print the peer id of this user's key; make the key if it does not exist
///
/// With --network-key: print the fingerprint of a network key. The fingerprint is not secret; peers with the
/// same fingerprint have the same network key. With --network-key and --new: make a network key. Give its
/// file to every peer over a safe channel. A key file is never overwritten.
#[derive(Debug, Args)]
pub(super) struct IdArguments {
    /// Key file [default: $XDG_CONFIG_HOME/flyswarm/identity, or ~/.config/flyswarm/identity]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Make a new key; fail if the key file exists
    #[arg(long)]
    new: bool,
    /// Print the fingerprint of the network key in FILE. A network key is a secret that all peers of a
    /// network share
    #[cfg(feature = "net")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "announce"])]
    network_key: Option<PathBuf>,
    /// Also announce the peer id by mDNS for SECONDS, so that `flyswarm session new --collect` finds it
    #[cfg(feature = "net")]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    announce: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl IdArguments {
    /// Returns the arguments for making a new key with JSON output.
    #[cfg(feature = "net")]
    pub(super) fn new_key(key: Option<PathBuf>) -> Self {
        Self { key, new: true, network_key: None, announce: None, json: true }
    }

    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        #[cfg(feature = "net")]
        if let Some(file) = &self.network_key {
            return super::network::print_key(file, self.new, self.json, out);
        }
        let path = key_path(self.key)?;
        let identity = if self.new { create(&path)? } else { load_or_create(&path)? };
        let id = identity.public();
        let text = match self.json {
            true => serde_json::json!({"peer_id": id.to_string(), "key": path}).to_string(),
            false => id.to_string(),
        };
        print(out, &(text + "\n"))?;
        #[cfg(feature = "net")]
        if let Some(seconds) = self.announce {
            super::network::announce(&identity, seconds)?;
        }
        Ok(())
    }
}

/// Returns the path of the key file that the user named, or the default path.
pub(super) fn key_path(asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    asked.or_else(|| default_key_path(absolute("XDG_CONFIG_HOME"), absolute("HOME"))).ok_or_else(|| {
        Failure::Input("neither XDG_CONFIG_HOME nor HOME is set: name a key file with --key".into())
    })
}

fn default_key_path(config: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    Some(config.or_else(|| Some(home?.join(".config")))?.join("flyswarm").join("identity"))
}

fn load_or_create(path: &Path) -> Result<Identity, Failure> {
    match Identity::load(path) {
        Err(IdentityError::Missing { .. }) => create(path),
        read => Ok(read?),
    }
}

fn create(path: &Path) -> Result<Identity, Failure> {
    let identity = Identity::from_seed(*random()?);
    if let Some(folder) = path.parent() {
        files::create_folders(folder, true).map_err(|error| {
            Failure::Environment(format!("{}: cannot be made: {error}", folder.display()))
        })?;
    }
    identity.save(path)?;
    Ok(identity)
}

/// Makes the number and time for a session file that is written now.
#[allow(clippy::disallowed_methods, reason = "session files say when they were made")]
pub(super) fn new_run() -> Result<Run, Failure> {
    let mut number = [0; 16];
    number.copy_from_slice(&random()?[..16]);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Run::new(number, since.map_or(0, |since| since.as_secs())))
}

/// Returns 32 bytes from the operating system.
pub(super) fn random() -> Result<Zeroizing<[u8; 32]>, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    SysRng
        .try_fill_bytes(bytes.as_mut())
        .map_err(|error| Failure::Environment(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

impl From<IdentityError> for Failure {
    fn from(error: IdentityError) -> Self {
        let text = error.to_string();
        match error {
            IdentityError::Read { .. } | IdentityError::Write { .. } => Self::Environment(text),
            IdentityError::Missing { .. } | IdentityError::Mode { .. } | IdentityError::Content { .. } => {
                Self::Input(text)
            }
            IdentityError::Exists { .. } => Self::Input(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_default_key_lies_in_the_configuration_folder() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(default_key_path(path("/x"), path("/h")), path("/x/flyswarm/identity"));
        assert_eq!(default_key_path(None, path("/h")), path("/h/.config/flyswarm/identity"));
        assert_eq!(default_key_path(None, None), None);
    }

    #[test]
    fn a_key_is_made_once_and_then_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config/flyswarm/identity");
        let made = load_or_create(&path).unwrap();
        assert_eq!(load_or_create(&path).unwrap().public(), made.public());
        let error = create(&path).unwrap_err();
        assert!(matches!(error, Failure::Input(_)), "{error}");
        assert!(error.to_string().ends_with("exists already and is not overwritten"));
        assert_eq!(load_or_create(&path).unwrap().public(), made.public());
    }

    #[test]
    fn a_damaged_key_is_an_error_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        load_or_create(&path).unwrap();
        fs::write(&path, "damaged").unwrap();
        assert!(matches!(load_or_create(&path), Err(Failure::Input(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "damaged");
    }
}
