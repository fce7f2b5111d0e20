//! Options for reaching other nodes: addresses, mDNS and the network key. They are the same for every command
//! that uses the network.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use libp2p::Multiaddr;
use serde_json::json;
use zeroize::Zeroizing;

use super::id::random;
use super::{Failure, print, say};
use crate::crypto::identity::Identity;
use crate::net::driver::peer_id;
use crate::net::{NetworkKey, observe};

/// Longest network key file (guess: ten times the usual length).
const KEY_FILE: u64 = 1024;

#[derive(Debug, Args)]
pub(super) struct NetworkArguments {
    /// Address to listen on; repeatable [default: a free port of every interface]
    #[arg(long, value_name = "MULTIADDR")]
    pub(super) listen: Vec<Multiaddr>,
    /// Do not use mDNS: neither find other peers by it, nor be found
    #[arg(long)]
    pub(super) no_mdns: bool,
    /// File of a network key: only peers with the same network key can connect (see `flyswarm id`)
    #[arg(long, value_name = "FILE")]
    pub(super) network_key: Option<PathBuf>,
}

impl NetworkArguments {
    /// Returns the addresses to listen on. By default these are on IPv4, and on IPv6 if this machine has it.
    pub(super) fn listen(&self) -> Vec<Multiaddr> {
        if !self.listen.is_empty() {
            return self.listen.clone();
        }
        everywhere(0)
    }

    /// Returns whether the user chose the addresses to listen on.
    pub(super) fn chosen(&self) -> bool {
        !self.listen.is_empty()
    }

    /// Reads a network key from its file.
    pub(super) fn read(path: &Path) -> Result<NetworkKey, Failure> {
        read_key(path)
    }

    /// Returns the network key, if one was given.
    pub(super) fn key(&self) -> Result<Option<NetworkKey>, Failure> {
        self.network_key.as_deref().map(read_key).transpose()
    }
}

/// Returns addresses for a port of every interface, on IPv4, and on IPv6 if this machine has it.
pub(super) fn everywhere(port: u16) -> Vec<Multiaddr> {
    let mut any = vec![format!("/ip4/0.0.0.0/tcp/{port}")];
    if TcpListener::bind("[::]:0").is_ok() {
        any.push(format!("/ip6/::/tcp/{port}"));
    }
    any.iter().filter_map(|address| address.parse().ok()).collect()
}

/// Prints the fingerprint of a network key. If `new` is true, makes the key first.
pub(super) fn print_key(file: &Path, new: bool, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let key = if new {
        let key = NetworkKey::new(*random()?);
        create_key(file, key)?;
        key
    } else {
        read_key(file)?
    };
    let fingerprint = key.fingerprint().to_string();
    let wrote = if new { format!("wrote {}: ", file.display()) } else { String::new() };
    let text = match as_json {
        true => json!({"file": file, "fingerprint": fingerprint}).to_string(),
        false => format!("{wrote}network key {fingerprint}"),
    };
    print(out, &(text + "\n"))
}

/// Announces this identity by mDNS. There is no node to connect to.
pub(super) fn announce(identity: &Identity, seconds: u64) -> Result<(), Failure> {
    say(&format!("announced on this network for {seconds} s"));
    observe::announce(peer_id(&identity.public()), Duration::from_secs(seconds))
        .map_err(|error| Failure::Environment(format!("mDNS: {error}")))
}

fn create_key(path: &Path, key: NetworkKey) -> Result<(), Failure> {
    let machine =
        |error: io::Error| Failure::Environment(format!("{}: cannot be written: {error}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file has mode 0600 from the beginning.
    let mut file = tempfile::Builder::new().prefix(".network-key").tempfile_in(folder).map_err(machine)?;
    let text = Zeroizing::new(key.to_key_file());
    file.write_all(text.as_bytes()).map_err(machine)?;
    file.as_file().sync_all().map_err(machine)?;
    file.persist_noclobber(path).map_err(|failed| match failed.error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::Input(format!("{}: exists already and is not overwritten", path.display()))
        }
        _ => machine(failed.error),
    })?;
    Ok(())
}

fn read_key(path: &Path) -> Result<NetworkKey, Failure> {
    let name = path.display();
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Input(format!("{name}: no network key here")),
        _ => Failure::Environment(format!("{name}: cannot be read: {error}")),
    })?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let metadata =
            fs::metadata(path).map_err(|error| Failure::Environment(format!("{name}: {error}")))?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(Failure::Input(format!(
                "{name}: mode is {mode:04o}, must be 0600 (only you may read it)"
            )));
        }
    }
    let mut text = Zeroizing::new(String::new());
    let read = file.take(KEY_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::Input(format!("{name}: not a network key file: {error}")))?;
    if text.len() as u64 > KEY_FILE {
        return Err(Failure::Input(format!("{name}: has more than {KEY_FILE} bytes")));
    }
    // The parser's own message is not shown, because it could contain a part of the key.
    text.parse().map_err(|_| {
        let form = "must be the line /key/swarm/psk/1.0.0/, the line /base16/ and 64 hexadecimal digits";
        Failure::Input(format!("{name}: not a network key file: {form}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_key_is_made_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.key");
        let mut out = Vec::new();
        print_key(&path, true, false, &mut out).unwrap();
        let key = read_key(&path).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with(&format!("network key {}\n", key.fingerprint())));
        assert!(fs::read_to_string(&path).unwrap().starts_with("/key/swarm/psk/1.0.0/\n/base16/\n"));
        let error = print_key(&path, true, true, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().ends_with("exists already and is not overwritten"), "{error}");
        assert!(read_key(&path).unwrap() == key);
        let mut out = Vec::new();
        print_key(&path, false, true, &mut out).unwrap();
        let shown: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(shown, json!({"file": path, "fingerprint": key.fingerprint().to_string()}));
    }

    #[test]
    fn a_network_key_that_others_can_read_or_that_is_none_is_refused_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.key");
        create_key(&path, NetworkKey::new([0xab; 32])).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(read_key(&path).unwrap_err().to_string().contains("mode is 0640"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        for bad in ["", "abababab", "/key/swarm/psk/1.0.0/\n/base16/\nabab", &"x".repeat(2000)] {
            fs::write(&path, bad).unwrap();
            let text = read_key(&path).unwrap_err().to_string();
            assert!(text.contains("network.key: ") && !text.contains("abab"), "{text}");
        }
    }
}
