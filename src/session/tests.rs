//! Tests of sessions: how files are read and refused, the error texts, and the values that the id depends on.

mod columns;
mod custom;
mod file;
mod id;
mod rules;
mod sketch;
mod table;
mod tune;

use super::*;
use crate::crypto::identity::Identity;
use crate::tasks::{CustomSpec, FlynnSpec, ModelSpec, Sizes, SketchSpec, TuneSpec, XclpSpec};

fn key(seed: u64) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Identity::from_seed(bytes).public()
}

fn session(peers: u64) -> Session {
    let session =
        Session::builder("digits", ModelSpec { m: 16_384, s: 6, rho: 32, gamma: 0.5, score: Score::Decay })
            .features(64)
            .classes((0..10).map(|class| class.to_string()))
            .scaling(Scaling::UnitNorm)
            .check_columns(false)
            .run(Run::new([7; 16], 1_000_000_000));
    (0..peers).fold(session, |session, i| session.peer(format!("peer-{i}"), key(i))).build().unwrap()
}

/// Returns the model of a session of the task `flynn`.
fn model(session: &mut Session) -> &mut ModelSpec {
    &mut session.task.get_mut::<FlynnSpec>().unwrap().model
}

/// Returns the smallest file, without any field that has a default.
fn minimal() -> String {
    let mut text = r#"run_id = "000102030405060708090a0b0c0d0e0f"
created = 2026-11-22T16:05:06Z
name = "digits"
task = "flynn"
[data]
features = 784
classes = ["a", "b"]
[flynn]
m = "256d"
s = "0.025d"
rho = 16
gamma = 0
"#
    .to_owned();
    for i in 0..3 {
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", key(i));
    }
    text
}

/// Returns the minimal file with one piece of text replaced.
fn with(from: &str, to: &str) -> String {
    let text = minimal();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

fn refusal(text: &str) -> String {
    let error = Session::parse(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error:?}");
    error
}
