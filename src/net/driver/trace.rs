//! The trace of a node has every frame that the node sends and receives, and every record that it writes. It
//! is in the format of the test vectors (`sum.json`). It helps to find errors when two programs run a session
//! together.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::protocol::Time;
use crate::protocol::message::Channel;
use crate::session::{Peer, Session};

/// A trace file. It is written entry by entry. If the process is killed, no entry is lost, and only the two
/// brackets at the end are missing.
#[derive(Debug)]
pub struct Trace(Mutex<Open>);

#[derive(Debug)]
struct Open {
    file: File,
    /// Number of entries so far.
    count: u64,
    /// First error. Nothing is written after it.
    failed: Option<io::Error>,
}

impl Trace {
    /// Begins a trace in an empty file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn begin(mut file: File, session: &Session, me: Option<Peer>) -> io::Result<Self> {
        let about = "every frame that a peer sent and received and every record that it wrote, in order (spec, \
                     section 18)";
        let head = json!({"about": about, "toml": session.to_toml(), "peer": me}).to_string();
        let head = head.strip_suffix('}').unwrap_or_default();
        file.write_all(format!("{head},\"log\":[\n").as_bytes())?;
        Ok(Self(Mutex::new(Open { file, count: 0, failed: None })))
    }

    pub(super) fn frame(
        &self,
        time: Time,
        (from, to): (Peer, Peer),
        channel: Channel,
        (header, payload): (&[u8], &[u8]),
    ) {
        let channel = match channel {
            Channel::Control => "control",
            Channel::Bulk => "bulk",
        };
        self.note(&json!({
            "us": time.0, "from": from, "to": to, "channel": channel,
            "header": hex::encode(header), "payload": hex::encode(payload),
        }));
    }

    pub(super) fn record(&self, time: Time, from: Peer, name: &str) {
        self.note(&json!({"us": time.0, "from": from, "persist": name}));
    }

    fn note(&self, entry: &Value) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.failed.is_none() {
            let between = if open.count == 0 { "" } else { ",\n" };
            open.count += 1;
            open.failed = open.file.write_all(format!("{between}{entry}").as_bytes()).err();
        }
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first error that occurred. In this case the trace is not complete.
    pub fn finish(&self) -> io::Result<()> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.failed.take() {
            Some(error) => Err(error),
            None => open.file.write_all(b"\n]}\n"),
        }
    }
}
