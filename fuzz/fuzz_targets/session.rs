//! Checks that any text is refused, or gives a session that keeps its content and its id when it is written
//! and read again.
#![no_main]

mod seeds;

use flyswarm::Identity;
use flyswarm::session::{ColumnChecks, DataSpec, Entry, Privacy, Run, Scaling, Score, Session, Timing};
use flyswarm::tasks::{ModelSpec};
use flyswarm_data::prepare::{DateOrder, ColumnSpec, Fill, Kind, TableSchema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: seeds::write("session", inputs()), |text: &str| {
    let Ok(session) = Session::parse(text) else { return };
    let again = Session::parse(&session.to_toml()).expect("its own text is sound");
    assert_eq!(again, session);
    assert_eq!(again.id(), session.id());
});

fn inputs() -> Vec<Vec<u8>> {
    let range = Scaling::Range { lo: 0.0, hi: 16.0 };
    [(Scaling::None, None), (Scaling::Standard, None), (range, None), (Scaling::Center, Some(table()))]
        .into_iter()
        .map(|(scaling, table)| {
            let entry = |i: u8| Entry {
                key: Identity::from_seed([i; 32]).public(),
                name: format!("peer-{i}"),
                addresses: vec![format!("/ip4/127.0.0.1/tcp/400{i}")],
            };
            let session = Session {
                name: "digits".into(),
                run: Run::new([7; 16], 1_000_000_000),
                task: ModelSpec { m: 1024, s: 2, rho: 32, gamma: 0.5, score: Score::Decay }.into(),
                min_peers: 3,
                data: DataSpec {
                    features: table.as_ref().map_or(64, |table| table.width() as u32),
                    columns: table.as_ref().map_or(Vec::new(), TableSchema::features),
                    classes: vec!["0".into(), "1".into()],
                    scaling,
                    densify: true,
                    preparation: table.map(Into::into),
                    checks: ColumnChecks::default(),
                },
                privacy: Privacy { min_contributors: 3, collusion_threshold: 0.25, noise: None },
                voting: flyswarm::session::CommitteeSpec::default(),
                timing: Timing::default(),
                relays: vec![format!("/ip4/127.0.0.1/tcp/4009/p2p/{}", Identity::from_seed([9; 32]).public())],
                roster: (1..=4).map(entry).collect(),
            };
            session.check().expect("a sound session").to_toml().into_bytes()
        })
        .collect()
}

/// Columns of all kinds, with all fills.
fn table() -> TableSchema {
    let texts = |texts: &str| texts.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let column = |name: &str, kind: Kind, fill: Fill| {
        let indicator = fill != Fill::Refuse;
        ColumnSpec { fill, indicator, ..ColumnSpec::new(name, kind) }
    };
    let limited = ColumnSpec { min: Some(-1.5), max: Some(200.0), clip: true, ..ColumnSpec::new("bp", Kind::Number) };
    TableSchema {
        delimiter: Some(b';'),
        decimal_comma: true,
        missing: texts("NA ?"),
        label: Some("class".into()),
        group: Some("id".into()),
        columns: vec![
            limited,
            column("age", Kind::Number, Fill::Number(50.0)),
            column("dose", Kind::Number, Fill::Pooled),
            column("sex", Kind::Category(texts("f m")), Fill::NoLevel),
            column("smoker", Kind::Category(texts("yes no")), Fill::Pooled),
            column("stage", Kind::Ordinal(texts("I II III")), Fill::Level("II".into())),
            column("seen", Kind::Date(DateOrder::DayMonthYear), Fill::Pooled),
            column("id", Kind::Ignored, Fill::Refuse),
        ],
    }
}
