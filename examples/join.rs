//! A program that takes part in a session: `cargo run --example join`.
//!
//! A hospital needs only [`take_part`]. Here, three hospitals are threads of one program.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use flyswarm::session::{Scaling, Score};
use flyswarm::tasks::ModelSpec;
use flyswarm::{Identity, Model, Peer, Session, peer};
use futures::StreamExt;
use futures::executor::block_on;
use ndarray::Array2;

type Failure = Box<dyn Error + Send + Sync>;

/// Joins the session with these rows. Returns the model of the rows of all peers.
fn take_part(
    file: &Path,
    key: &Path,
    listen: &str,
    features: Array2<f32>,
    labels: Vec<Option<u16>>,
) -> Result<Model, Failure> {
    let (session, identity) = (Session::load(file)?, Identity::load(key)?);
    let builder = Peer::builder(session, identity).key_file(key).listen(listen.parse()?).mdns(false);
    block_on(async {
        let peer = match builder.data(features, labels).join().await {
            Err(peer::Error::NotInRoster { peer, .. }) => return Err(format!("ask to add {peer}").into()),
            joined => joined?,
        };
        let events = peer.events();
        let (finished, ()) = futures::join!(
            peer.result(),
            events.for_each(async |event| println!("{:.3} {}", event.time, event.event))
        );
        Ok(Model::decode(&finished?.outcome.ok_or("a peer without rows has no model")?.file)?)
    })
}

/// Returns the rows of one hospital. Sick patients have higher values.
fn rows(hospital: usize) -> (Array2<f32>, Vec<Option<u16>>) {
    let sick = |row: usize| row % 2;
    let value = |(row, column)| (10 * sick(row) + (7 * row + 3 * column + hospital) % 5) as f32;
    (Array2::from_shape_fn((40, 3), value), (0..40).map(|row| Some(sick(row) as u16)).collect())
}

pub(crate) fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let (file, key) = (folder.path().join("wards.toml"), |i| folder.path().join(format!("{i}.key")));
    let model = ModelSpec { m: 1024, s: 2, rho: 32, gamma: 0.9, score: Score::BalancedLog };
    let mut wards = Session::builder("wards", model).features(3).scaling(Scaling::SoftBins { bins: 8 });
    wards = wards.classes(["well", "sick"]);
    let mut addresses = Vec::new();
    for i in 0..3 {
        let identity = Identity::from_seed([i + 1; 32]);
        identity.save(key(i))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        addresses.push(format!("/ip4/127.0.0.1/tcp/{port}"));
        wards = wards.peer_at(format!("ward-{i}"), identity.public(), addresses.last());
    }
    wards.build()?.save(&file)?;

    thread::scope(|scope| {
        let join = addresses.iter().enumerate().map(|(i, address)| {
            let (file, key) = (&file, key(i as u8));
            let (features, labels) = rows(i);
            scope.spawn(move || take_part(file, &key, address, features, labels))
        });
        for peer in join.collect::<Vec<_>>() {
            let model = peer.join().map_err(|_| "a peer panicked")??;
            let (features, labels) = rows(7);
            let found = model.predict(features.view())?;
            let right = found.iter().zip(&labels).filter(|(found, label)| Some(**found) == **label).count();
            assert!(10 * right >= 9 * labels.len(), "{right} of {} are right", labels.len());
        }
        Ok(())
    })
}
