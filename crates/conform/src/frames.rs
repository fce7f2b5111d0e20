//! Frames in a file: a trace of `join`, a file of the test vectors, or the bytes of a stream.

use std::path::Path;

use bytes::Bytes;
use serde_json::Value;

use crate::files;
use flyswarm::cli::Failure;
use flyswarm::protocol::Fault;
use flyswarm::protocol::message::{Channel, Message};
use flyswarm::protocol::wire::{self, MAX_FRAME};

/// Largest file that is read, in bytes. A trace has each frame in hexadecimal digits.
const LIMIT: u64 = 2 << 30;

/// A frame of a file.
pub(crate) struct TracedFrame {
    /// Time at which it was sent or received, microseconds.
    pub(crate) us: Option<u64>,
    /// Index of the sender in the roster; `to` is that of the receiver.
    pub(crate) from: Option<u64>,
    pub(crate) to: Option<u64>,
    /// Channel of the frame; `None` if the file does not give it.
    pub(crate) channel: Option<Channel>,
    pub(crate) header: Vec<u8>,
    pub(crate) payload: Bytes,
}

impl TracedFrame {
    /// Decodes the message. If the channel is unknown, uses the one on which the frame can be decoded.
    pub(crate) fn message(&self) -> Result<Message, Fault> {
        let on = |channel| wire::decode(channel, &self.header, self.payload.clone());
        match self.channel {
            Some(channel) => on(channel),
            None => on(Channel::Control).or_else(|fault| on(Channel::Bulk).map_err(|_| fault)),
        }
    }

    /// Returns the sender, the receiver and the channel.
    pub(crate) fn way(&self) -> String {
        let name = |peer: Option<u64>| peer.map_or("?".to_owned(), |peer| peer.to_string());
        let channel = self.channel.map_or("", name_of);
        match (self.from, self.to) {
            (None, None) => channel.to_owned(),
            (from, to) => format!("{} to {} {channel}", name(from), name(to)),
        }
    }
}

pub(crate) fn name_of(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "control",
        Channel::Bulk => "bulk",
    }
}

/// Reads the frames of a file. Also returns a warning, if there is any.
///
/// # Errors
/// Returns an error if the file cannot be read or holds no frames.
pub(crate) fn load(path: &Path) -> Result<(Vec<TracedFrame>, Option<String>), Failure> {
    let failed = |error| files::failed(path, &error);
    let wrong = |why: String| Failure::Input(format!("{}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > LIMIT {
        return Err(wrong(format!("{size} bytes, the limit is {LIMIT}")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Ok((stream(&bytes).map_err(wrong)?, None));
    };
    if text.trim_start().starts_with(['{', '[']) {
        let (value, told) = parse(text).map_err(|error| wrong(format!("not JSON: {error}")))?;
        let frames = listed(&value).map_err(wrong)?;
        return Ok((frames, told));
    }
    Ok((hexadecimal(text).map_err(wrong)?, None))
}

/// Parses JSON. Also accepts a trace whose end is missing because its writer was killed.
fn parse(text: &str) -> Result<(Value, Option<String>), serde_json::Error> {
    serde_json::from_str(text).map(|value| (value, None)).or_else(|error| {
        let whole = text.rfind(",\n").map(|end| format!("{}\n]}}", &text[..end]));
        let value = whole.and_then(|text| serde_json::from_str(&text).ok()).ok_or(error)?;
        Ok((
            value,
            Some("the end of the trace is missing, because its writer did not end normally".to_owned()),
        ))
    })
}

/// Returns the frames of a trace or of a file of the test vectors.
fn listed(value: &Value) -> Result<Vec<TracedFrame>, String> {
    let list = ["log", "messages", "bad"].iter().find_map(|name| value[name].as_array()).or(value.as_array());
    let list =
        list.ok_or("neither a list of frames nor an object with such a list under log, messages or bad")?;
    let frames = list.iter().enumerate().filter(|(_, entry)| entry.get("header").is_some());
    let frames = frames.map(|(place, entry)| {
        let wrong = |what: &str| format!("entry {}: {what}", place + 1);
        let digits = |name: &str| {
            let text = entry[name].as_str().ok_or_else(|| wrong(&format!("{name} is not a text")))?;
            hex::decode(text).map_err(|error| wrong(&format!("{name}: {error}")))
        };
        let channel = match entry["channel"].as_str() {
            Some("control") => Some(Channel::Control),
            Some("bulk") => Some(Channel::Bulk),
            None if entry["channel"].is_null() => None,
            _ => return Err(wrong("channel is neither control nor bulk")),
        };
        Ok(TracedFrame {
            us: entry["us"].as_u64(),
            from: entry["from"].as_u64(),
            to: entry["to"].as_u64(),
            channel,
            header: digits("header")?,
            payload: digits("payload")?.into(),
        })
    });
    frames.collect()
}

/// Returns the frames of a stream in hexadecimal digits, with or without spaces.
pub(crate) fn hexadecimal(text: &str) -> Result<Vec<TracedFrame>, String> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    stream(&hex::decode(digits).map_err(|error| format!("not hexadecimal digits: {error}"))?)
}

/// Returns the frames of a stream (spec, section "Frames").
fn stream(bytes: &[u8]) -> Result<Vec<TracedFrame>, String> {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let wrong = |what: String| format!("byte {at}: {what}");
        let short = || wrong(format!("the frame is cut off, {} bytes are left", rest.len()));
        let (length, after) = number(rest).ok_or_else(short)?;
        if !(4..=MAX_FRAME).contains(&length) {
            return Err(wrong(format!("a frame of {length} bytes: 4 to {MAX_FRAME} are allowed")));
        }
        let (frame, after) = after.split_at_checked(length).ok_or_else(short)?;
        let (header, body) = number(frame).ok_or_else(short)?;
        let (header, payload) = body.split_at_checked(header).ok_or_else(|| {
            wrong(format!("a header of {header} bytes, but only {} are left of the frame", body.len()))
        })?;
        frames.push(TracedFrame {
            us: None,
            from: None,
            to: None,
            channel: None,
            header: header.to_vec(),
            payload: Bytes::copy_from_slice(payload),
        });
        rest = after;
    }
    Ok(frames)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}
