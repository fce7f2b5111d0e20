//! Any text is refused or gives a session whose own text gives the same session, with the same id.
#![no_main]

mod seeds;

use flyswarm::Identity;
use flyswarm::session::{
    ColumnChecks, DataSpec, Entry, ModelSpec, Privacy, Run, Scaling, Score, Session, Timing,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: seeds::write("session", inputs()), |text: &str| {
    let Ok(session) = Session::parse(text) else { return };
    let again = Session::parse(&session.to_toml()).expect("its own text is sound");
    assert_eq!(again, session);
    assert_eq!(again.id(), session.id());
});

fn inputs() -> Vec<Vec<u8>> {
    let range = Scaling::Range { lo: 0.0, hi: 16.0 };
    [Scaling::None, Scaling::Standard, range]
        .into_iter()
        .map(|scaling| {
            let entry = |i: u8| Entry {
                key: Identity::from_seed([i; 32]).public(),
                name: format!("peer-{i}"),
                addresses: vec![format!("/ip4/127.0.0.1/tcp/400{i}")],
            };
            let session = Session {
                name: "digits".into(),
                run: Run::new([7; 16], 1_000_000_000),
                task: ModelSpec { m: 1024, s: 6, rho: 32, gamma: 0.5, score: Score::Decay }.into(),
                min_peers: 3,
                data: DataSpec {
                    features: 64,
                    columns: Vec::new(),
                    classes: vec!["0".into(), "1".into()],
                    scaling,
                    densify: true,
                    preparation: None,
                    checks: ColumnChecks::default(),
                },
                privacy: Privacy { min_holders: 3, colluding: 0.25, noise: None },
                voting: flyswarm::session::CouncilSpec::default(),
                timing: Timing::default(),
                roster: (1..=4).map(entry).collect(),
            };
            session.check().expect("a sound session").to_toml().into_bytes()
        })
        .collect()
}
