//! `flyswarm-conform decode` and `diff`: contents of frames, and differences between two traces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use flyswarm::cli::Failure;
use flyswarm::protocol::Fault;
use flyswarm::protocol::message::Message;
use flyswarm::protocol::wire;
use serde_json::{Value, json};

use crate::fields::{Field, fields};
use crate::frames::{self, TracedFrame, load, name_of};
use crate::{print, say};

/// Bytes of a payload that are shown.
const SHOWN: usize = 32;

/// Print frames field by field, each field with its bytes
///
/// FILE is a trace of `join` (FLYSWARM_TRACE), a file of tests/vectors, or the bytes of a stream, raw or in
/// hexadecimal digits.
#[derive(Debug, Args)]
pub(crate) struct Decode {
    #[arg(required_unless_present = "hex", conflicts_with = "hex")]
    file: Option<PathBuf>,
    /// Bytes of a stream: one or several frames, each preceded by its length
    #[arg(long, value_name = "DIGITS")]
    hex: Option<String>,
    /// Print one JSON object per frame, each on its own line
    #[arg(long)]
    json: bool,
}

/// Print the first field that differs between two traces
///
/// Compares frames between the same two peers on the same channel, in their order. Times are ignored, and so
/// are the frames of other peers in between. If only one file has frames between two peers, these frames are
/// left out, so that you can compare the trace of one peer with the trace of a whole session.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    mine: PathBuf,
    theirs: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Decode {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let (seen, told) = match (&self.file, &self.hex) {
            (Some(file), _) => load(file)?,
            (None, hex) => {
                let digits = hex.as_deref().unwrap_or_default();
                let frames = frames::hexadecimal(digits);
                (frames.map_err(|why| Failure::Input(format!("--hex: {why}")))?, None)
            }
        };
        let mut wrong = 0;
        for (place, frame) in seen.iter().enumerate() {
            wrong += usize::from(frame.message().is_err());
            let text = match self.json {
                true => format!("{}\n", value(place, frame)),
                false => text(place, frame),
            };
            print(out, &text)?;
        }
        if let Some(told) = told {
            say(&told);
        }
        match wrong {
            0 => Ok(()),
            _ => Err(Failure::Input(format!("{wrong} of {} frames do not decode", seen.len()))),
        }
    }
}

/// Returns whether an encoding is longer than needed. A peer must accept it, and the positions of the
/// fields are those of the shortest encoding.
fn is_longer(frame: &TracedFrame, message: &Message) -> bool {
    wire::encode(message).header != frame.header
}

/// Returns a frame as text.
fn text(place: usize, frame: &TracedFrame) -> String {
    let mut text = format!("frame {}", place + 1);
    if let Some(us) = frame.us {
        let _ = write!(text, "  {:.3} ms", us as f64 / 1000.0);
    }
    let (header, payload) = (frame.header.len(), frame.payload.len());
    let _ = writeln!(text, "  {}  header {header} bytes, payload {payload}", frame.way());
    match frame.message() {
        Ok(message) => {
            if is_longer(frame, &message) {
                let _ = writeln!(
                    text,
                    "  its integers are longer than needed; positions are for the shortest form"
                );
            }
            for field in fields(&message) {
                let at = format!("{}..{}", field.at.start, field.at.end);
                let name = if field.path.is_empty() { "message" } else { &field.path };
                let _ = writeln!(text, "  {at:>11}  {name}  {}", field.value);
            }
        }
        Err(fault) => {
            let _ = writeln!(text, "  {fault}\n  header {}", hex::encode(&frame.header));
        }
    }
    if payload > 0 {
        let more = if payload > SHOWN { " ..." } else { "" };
        let _ = writeln!(text, "  payload  {}{more}", hex::encode(&frame.payload[..payload.min(SHOWN)]));
    }
    text
}

/// Returns a frame as JSON.
fn value(place: usize, frame: &TracedFrame) -> Value {
    let mut value = json!({
        "frame": place + 1, "us": frame.us, "from": frame.from, "to": frame.to,
        "channel": frame.channel.map(name_of), "payload": hex::encode(&frame.payload),
    });
    match frame.message() {
        Ok(message) => {
            let one = |field: Field| json!({"field": field.path, "from": field.at.start, "to": field.at.end, "value": field.value});
            value["canonical"] = (!is_longer(frame, &message)).into();
            value["fields"] = fields(&message).into_iter().map(one).collect();
        }
        Err(fault) => {
            value["malformed"] = fault.to_string().into();
            value["header"] = hex::encode(&frame.header).into();
        }
    }
    value
}

/// Frames of one pair of peers, in one direction, on one channel: indices in the file's list.
type Ways = BTreeMap<(Option<u64>, Option<u64>, Option<&'static str>), Vec<usize>>;

fn ways(frames: &[TracedFrame]) -> Ways {
    let mut ways = Ways::new();
    for (place, frame) in frames.iter().enumerate() {
        ways.entry((frame.from, frame.to, frame.channel.map(name_of))).or_default().push(place);
    }
    ways
}

/// A difference between two files: its place, and the values there.
struct Difference {
    /// Index of the frame in the first file; `count` is its index among the frames of its way.
    place: usize,
    count: usize,
    what: String,
    /// Values of the two files; `None` if one file ends there and the other continues.
    sides: Option<[String; 2]>,
}

impl Diff {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let (mine, told) = load(&self.mine)?;
        let (theirs, also) = load(&self.theirs)?;
        told.into_iter().chain(also).for_each(|told| say(&told));
        let (ways_of_mine, ways_of_theirs) = (ways(&mine), ways(&theirs));
        let mut compared = 0;
        let mut first: Option<Difference> = None;
        for (way, places) in &ways_of_mine {
            let Some(others) = ways_of_theirs.get(way) else { continue };
            compared += places.len().min(others.len());
            let pairs = places.iter().zip(others).enumerate();
            let mut differences = pairs.filter_map(|(count, (&place, &other))| {
                let (what, sides) = difference(&mine[place], &theirs[other])?;
                Some(Difference { place, count, what, sides: Some(sides) })
            });
            let found = differences.next().or_else(|| ends_early(&mine, &theirs, places, others));
            if let Some(found) = found
                && first.as_ref().is_none_or(|first| found.place < first.place)
            {
                first = Some(found);
            }
        }
        let (my_name, their_name) = (self.mine.display(), self.theirs.display());
        if compared == 0 {
            let text = format!(
                "{my_name} and {their_name} have no frames between the same peers on the same channel"
            );
            return Err(Failure::Input(text));
        }
        let Some(first) = first else {
            return match self.json {
                true => print(out, &format!("{}\n", json!({"same": true, "frames": compared}))),
                false => print(out, &format!("the same: {compared} frames\n")),
            };
        };
        // If only the second file continues, the way is that of the frames before the end.
        let frame = &mine[first.place.min(mine.len() - 1)];
        print(out, &if self.json { first.value(frame) } else { first.text(frame) })?;
        Err(Failure::Input(format!("{my_name} and {their_name} differ")))
    }
}

impl Difference {
    fn text(&self, frame: &TracedFrame) -> String {
        let sides =
            self.sides.as_ref().map(|[mine, theirs]| format!("  mine    {mine}\n  theirs  {theirs}\n"));
        let Self { count, what, .. } = self;
        format!("frame {} of {}: {what}\n{}", count + 1, frame.way(), sides.unwrap_or_default())
    }

    fn value(&self, frame: &TracedFrame) -> String {
        let (mine, theirs) = self.sides.as_ref().map(|[mine, theirs]| (mine, theirs)).unzip();
        let value = json!({
            "same": false, "frame": self.count + 1, "from": frame.from, "to": frame.to,
            "channel": frame.channel.map(name_of), "what": self.what, "mine": mine, "theirs": theirs,
        });
        format!("{value}\n")
    }
}

/// Returns the difference if one file has more frames of a way than the other.
fn ends_early(
    mine: &[TracedFrame],
    theirs: &[TracedFrame],
    places: &[usize],
    others: &[usize],
) -> Option<Difference> {
    let common = places.len().min(others.len());
    let (next, who) = match places.len().cmp(&others.len()) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => (&mine[places[common]], "mine"),
        std::cmp::Ordering::Less => (&theirs[others[common]], "theirs"),
    };
    let kind = next.message().map_or_else(|fault| fault.to_string(), |message| kind(&message));
    // Both files have a frame of this way.
    let place = places.get(common).or(places.last()).copied()?;
    let what = format!("after {common} frames only {who} continues, with {kind}");
    Some(Difference { place, count: common, what, sides: None })
}

/// Returns a message's name, with the name of its contents.
pub(crate) fn kind(message: &Message) -> String {
    let fields = fields(message);
    let name = |place: usize| fields.get(place).filter(|field| !field.path.contains('.'));
    match (name(0), name(1)) {
        (Some(first), Some(second)) if !second.value.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{}.{}", first.value, second.value)
        }
        (Some(first), _) => first.value.clone(),
        _ => "nothing".to_owned(),
    }
}

/// Returns the first difference between two frames: its description and the two values.
pub(crate) fn difference(mine: &TracedFrame, theirs: &TracedFrame) -> Option<(String, [String; 2])> {
    let (a, b) = match (mine.message(), theirs.message()) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(a), Err(b)) if mine.header == theirs.header => {
            let what = "neither frame decodes, for different reasons".to_owned();
            return (a != b).then(|| (what, [a.to_string(), b.to_string()]));
        }
        (a, b) => {
            let told = |message: Result<Message, Fault>| {
                message.map_or_else(|fault| fault.to_string(), |message| kind(&message))
            };
            return Some(("one frame does not decode".to_owned(), [told(a), told(b)]));
        }
    };
    let (a, b) = (fields(&a), fields(&b));
    let differs = a.iter().zip(&b).find(|(a, b)| (&a.path, &a.value) != (&b.path, &b.value));
    if let Some((a, b)) = differs {
        let bytes = format!("header bytes {}..{}", a.at.start, a.at.end);
        let name = if a.path.is_empty() { "message" } else { &a.path };
        return Some(match a.path == b.path {
            true => (format!("{name} differs, {bytes}"), [a.value.clone(), b.value.clone()]),
            false => (format!("different fields follow, {bytes}"), [name.to_owned(), b.path.clone()]),
        });
    }
    if mine.payload == theirs.payload {
        return None;
    }
    let at = mine.payload.iter().zip(&theirs.payload).take_while(|(a, b)| a == b).count();
    let part = |payload: &[u8]| {
        let end = payload.len().min(at + 16);
        format!("{} of {} bytes", hex::encode(&payload[at.min(end)..end]), payload.len())
    };
    Some((format!("the payload differs from byte {at} on"), [part(&mine.payload), part(&theirs.payload)]))
}

#[cfg(test)]
pub(crate) mod tests;
