use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Decode, Diff};
use crate::frames::load;
use flyswarm::cli::Failure;
use flyswarm::protocol::message::Message;

fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(name)
}

/// Returns every message of the vectors, with its name there.
pub(crate) fn all() -> Vec<(String, Message)> {
    let messages: Value = serde_json::from_slice(&fs::read(vectors("messages.json")).unwrap()).unwrap();
    let named = |message: &Value| message["what"].as_str().unwrap().to_owned();
    let names: Vec<_> = messages["messages"].as_array().unwrap().iter().map(named).collect();
    let (frames, _) = load(&vectors("messages.json")).unwrap();
    assert!(names.len() > 40 && names.len() == frames.len());
    names.into_iter().zip(frames).map(|(name, frame)| (name, frame.message().unwrap())).collect()
}

fn decode(file: Option<PathBuf>, hex: Option<&str>, json: bool) -> (String, Result<(), Failure>) {
    let mut out = Vec::new();
    let result = Decode { file, hex: hex.map(str::to_owned), json }.run(&mut out);
    (String::from_utf8(out).unwrap(), result)
}

fn diff(mine: &Path, theirs: &Path) -> (String, bool) {
    diff_as(mine, theirs, false)
}

fn diff_as(mine: &Path, theirs: &Path, json: bool) -> (String, bool) {
    let mut out = Vec::new();
    let result = Diff { mine: mine.to_owned(), theirs: theirs.to_owned(), json }.run(&mut out);
    (String::from_utf8(out).unwrap(), result.is_ok())
}

/// Writes the session of the vectors to a file, with a change.
fn changed(folder: &Path, change: impl FnOnce(&mut Vec<Value>)) -> PathBuf {
    let mut value: Value = serde_json::from_slice(&fs::read(vectors("sum.json")).unwrap()).unwrap();
    change(value["log"].as_array_mut().unwrap());
    let path = folder.join("theirs.json");
    fs::write(&path, value.to_string()).unwrap();
    path
}

#[test]
fn every_frame_of_the_vectors_is_shown_and_what_is_none_is_called_malformed() {
    let (text, result) = decode(Some(vectors("sum.json")), None, false);
    result.unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("frame ")).count(), 90);
    assert!(text.contains("  message  Hello\n") && text.contains("Hello.version  5\n"), "{text}");
    let (text, result) = decode(Some(vectors("bad.json")), None, true);
    let frames: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(frames.len() > 100 && frames.iter().all(|frame| frame["malformed"].is_string()), "{text}");
    let told = result.unwrap_err().to_string();
    assert_eq!(told, format!("{0} of {0} frames do not decode", frames.len()));
}

#[test]
fn a_stream_is_cut_into_its_frames_and_says_where_it_is_no_stream() {
    let messages: Value = serde_json::from_slice(&fs::read(vectors("messages.json")).unwrap()).unwrap();
    let stream = |i: usize| messages["messages"][i]["stream"].as_str().unwrap();
    let both = format!("{}\n{}", stream(0), stream(1));
    let (text, result) = decode(None, Some(&both), false);
    result.unwrap();
    assert_eq!(text.matches("frame ").count(), 2);
    let length = stream(0).len() / 2;
    for (digits, why) in [
        (format!("{}2800", stream(0)), format!("byte {length}: the frame is cut off, 2 bytes are left")),
        ("03000000".to_owned(), "byte 0: a frame of 3 bytes: 4 to 1048576 are allowed".to_owned()),
        ("0400000001000000".to_owned(), "a header of 1 bytes, but only 0 are left of the frame".to_owned()),
        ("xy".to_owned(), "not hexadecimal digits".to_owned()),
    ] {
        let told = decode(None, Some(&digits), false).1.unwrap_err().to_string();
        assert!(told.starts_with("--hex: ") && told.contains(&why), "{told}");
    }
}

#[test]
fn integers_that_are_longer_than_needed_are_told_and_taken() {
    let lenient = json!([{"channel": "control", "header": "03fc01000000fb0100", "payload": ""}]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.json");
    fs::write(&path, lenient.to_string()).unwrap();
    let (text, result) = decode(Some(path), None, true);
    result.unwrap();
    let frame: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&frame["canonical"], &frame["fields"][1]["value"]), (&json!(false), &json!("1")));
}

#[test]
fn the_first_field_that_differs_is_named_with_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = changed(folder.path(), |log| {
        let promise = log.iter_mut().find(|entry| entry["header"].as_str().is_some_and(|h| h.len() == 150));
        let entry = promise.unwrap();
        let header = entry["header"].as_str().unwrap().to_owned();
        entry["header"] = format!("{}ff{}", &header[..22], &header[24..]).into();
    });
    let (text, same) = diff(&vectors("sum.json"), &theirs);
    assert!(!same);
    assert!(
        text.starts_with("frame 2 of 2 to 1 control: Promise.signature differs, header bytes 11..75\n"),
        "{text}"
    );
    assert!(text.contains("\n  theirs  ff"), "{text}");
    let (text, same) = diff_as(&vectors("sum.json"), &theirs, true);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(!same && value["same"] == false && value["theirs"].as_str().unwrap().starts_with("ff"), "{text}");
    let place = (&value["frame"], &value["from"], &value["to"], &value["channel"]);
    assert_eq!(place, (&json!(2), &json!(2), &json!(1), &json!("control")));
    assert_eq!(value["what"], "Promise.signature differs, header bytes 11..75");
    let (text, same) = diff_as(&theirs, &theirs, true);
    assert_eq!((&*text, same), ("{\"frames\":90,\"same\":true}\n", true));
}

#[test]
fn the_order_between_neighbours_does_not_count_and_that_between_two_does() {
    let folder = tempfile::tempdir().unwrap();
    let same = changed(folder.path(), |log| {
        log.retain(|entry| entry.get("header").is_some());
        log.sort_by_key(|entry| (entry["to"].as_u64(), entry["from"].as_u64()));
    });
    assert_eq!(diff(&vectors("sum.json"), &same), ("the same: 90 frames\n".to_owned(), true));
    let turned = changed(folder.path(), |log| log.reverse());
    assert!(!diff(&vectors("sum.json"), &turned).1);
}

#[test]
fn of_a_trace_that_breaks_off_all_is_read_and_who_goes_on_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole: Value = serde_json::from_str(&fs::read_to_string(vectors("sum.json")).unwrap()).unwrap();
    let entries: Vec<_> = whole["log"].as_array().unwrap().iter().map(Value::to_string).collect();
    // In the form that `join` writes: one entry on each line.
    let lines = format!("{{\"log\":[\n{}", entries.join(",\n"));
    let cut = folder.path().join("cut.json");
    fs::write(&cut, &lines[..lines.len() / 2]).unwrap();
    let (text, same) = diff(&cut, &vectors("sum.json"));
    assert!(!same && text.contains("only theirs continues, with"), "{text}");
    fs::write(&cut, "{\"log\": 7}").unwrap();
    assert!(decode(Some(cut), None, false).1.unwrap_err().to_string().contains("neither a list of frames"));
}

#[test]
fn a_payload_that_differs_says_from_where_on() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = changed(folder.path(), |log| {
        let entry = log.iter_mut().find(|entry| entry["channel"] == "bulk").unwrap();
        let payload = entry["payload"].as_str().unwrap().to_owned();
        entry["payload"] = format!("{}00{}", &payload[..6], &payload[8..]).into();
    });
    let (text, same) = diff(&vectors("sum.json"), &theirs);
    assert!(!same && text.contains("the payload differs from byte 3 on\n"), "{text}");
}
