//! Makes a session and writes its file: `cargo run --example make_session`.
//!
//! Each hospital makes a key with `flyswarm id`, and sends its peer id. One hospital runs this program, and
//! sends the file to the others.

use std::error::Error;

use flyswarm::session::{Scaling, Score, SessionError, Timing};
use flyswarm::tasks::ModelSpec;
use flyswarm::{Identity, Session};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("wards.toml");
    let peer_id = |seed| Identity::from_seed([seed; 32]).public();

    let model = ModelSpec { m: 16_384, s: 2, rho: 256, gamma: 0.9, score: Score::BalancedLog };
    let wards = Session::builder("wards", model)
        .columns(["age", "pressure", "pulse"])
        .classes(["well", "ill"])
        .scaling(Scaling::SoftBins { bins: 8 })
        .peer_at("north", peer_id(1), ["/ip4/192.0.2.1/tcp/4001"])
        .peer_at("south", peer_id(2), ["/dns4/south.example/tcp/4001"])
        // The other peers find this peer by mDNS.
        .peer("east", peer_id(3))
        .timing(Timing { start_wait_ms: 60_000, ..Timing::default() });
    let session = wards.clone().build()?;
    session.save(&file)?;
    println!("wrote {}: session {}", file.display(), session.id());
    assert_eq!(Session::load(&file)?, session);

    // A program can find out which rule a session does not follow.
    match wards.min_peers(7).build() {
        Err(SessionError::Value { field, limit, .. }) => println!("{field} must be {limit}"),
        other => return Err(format!("7 of 3 peers: {other:?}").into()),
    }
    Ok(())
}
