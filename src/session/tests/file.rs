//! Tests the reading and writing of session files.

use proptest::prelude::*;

use super::*;

#[test]
fn a_minimal_file_gets_the_defaults() {
    let read = Session::parse(&minimal()).unwrap();
    assert_eq!(read.min_peers, 3);
    assert_eq!(read.privacy, Privacy { min_contributors: 3, collusion_threshold: 1.0 / 3.0, noise: None });
    assert_eq!(read.timing, Timing::default());
    assert_eq!(read.data.scaling, Scaling::None);
    assert!(!read.data.densify);
    // With 784 features, "0.025d" is 19, as in the authors' code.
    assert_eq!(read.task, ModelSpec { m: 200_704, s: 19, rho: 16, gamma: 0.0, score: Score::Decay }.into());
    assert_eq!(read.task.part::<ModelSpec>().unwrap().counts(2), 401_408);
}

#[test]
fn multiples_are_truncated_and_at_least_two_and_densify_pads_d() {
    let sizes = |m: &str, s: &str, rho: &str, data: &DataSpec| {
        let size = |text: &str| text.parse().unwrap();
        Sizes { m: size(m), s: size(s), rho: size(rho) }.resolve(data, 0.5).unwrap()
    };
    let mut data = session(3).data;
    data.features = 100;
    assert_eq!(
        sizes("2.999d", "0.001d", "0.0001m", &data),
        ModelSpec { m: 299, s: 2, rho: 2, gamma: 0.5, score: Score::Decay }
    );
    assert_eq!(
        sizes("299", "2", "1", &data),
        ModelSpec { m: 299, s: 2, rho: 1, gamma: 0.5, score: Score::Decay }
    );
    data.densify = true;
    assert_eq!(data.dimension(), 128);
    assert_eq!(
        sizes("2d", "0.5d", "0.1m", &data),
        ModelSpec { m: 256, s: 64, rho: 25, gamma: 0.5, score: Score::Decay }
    );
}

#[test]
fn what_is_not_a_session_file_is_refused_with_its_line() {
    assert_eq!(
        refusal(&with("[flynn]", "[flynn]\nq = 1")),
        "line 9: unknown field `q`, expected one of `m`, `s`, `rho`, `gamma`, `score`"
    );
    assert!(refusal(&with("[data]", "colour = 1\n[data]")).starts_with("line 5: unknown field `colour`"));
    assert!(refusal(&with("peer_id", "port = 1\npeer_id")).contains("unknown field `port`"));
    assert!(
        refusal(&with("[flynn]", "[privacy]\ncoluding = 0.5\n[flynn]")).contains("unknown field `coluding`")
    );
    assert_eq!(
        refusal(&with("[flynn]", "scaling = { range = { lo = 0, hi = 1, mid = 0 } }\n[flynn]")),
        "line 8: unexpected keys in table: mid, available keys: lo, hi"
    );
    assert!(
        refusal(&with("[flynn]", "scaling = \"log\"\n[flynn]")).starts_with("line 8: unknown variant `log`")
    );
    assert!(refusal(&with("flynn", "fedsgd")).starts_with("line 4: unknown variant `fedsgd`"));
    assert!(
        refusal(&with("784", "\"784\""))
            .starts_with("line 6: found the text \"784\", expected a whole number")
    );
    assert!(refusal(&with("\"256d\"", "1.5")).contains("expected an integer or a multiple such as \"256d\""));
    assert!(refusal(&with("rho = 16\n", "")).contains("missing field `rho`"));
    assert!(refusal(&with("rho = 16", "rho = 16\nrho = 17")).contains("duplicate key"));
    assert!(refusal(&with("rho = 16", "rho = 99999999999999999999999")).starts_with("line 11:"));
    assert!(refusal("").contains("missing field"));
    assert!(refusal("name = ").starts_with("line 1:"));
    assert!(matches!(
        Session::parse(&"#".repeat((1 << 20) + 1)),
        Err(SessionError::TooLarge { limit: 1_048_576 })
    ));
    assert!(matches!(Session::parse(&"[".repeat(1 << 20)), Err(SessionError::Syntax { .. })));
}

#[test]
fn errors_of_a_file_begin_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.toml");
    let told = |expected: &str| {
        let error = Session::load(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: {expected}", path.display())), "{error}");
    };
    told("cannot be read: ");
    std::fs::write(&path, with("784", "0")).unwrap();
    told("data.features is 0, must be 1 to 65536");
    std::fs::write(&path, [0xff]).unwrap();
    told("is not UTF-8 text");
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    told("has more than 1048576 bytes, the limit of a session file");
    std::fs::write(&path, minimal()).unwrap();
    assert_eq!(Session::load(&path).unwrap(), Session::parse(&minimal()).unwrap());
}

fn sessions() -> impl Strategy<Value = Session> {
    let text = "[ -~]{1,20}|[\\PC]{1,20}";
    let name = move || text.prop_map(|name: String| format!("x{}", name.trim()));
    let plain = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,19}";
    let scaling = prop_oneof![
        Just(Scaling::None),
        Just(Scaling::UnitNorm),
        Just(Scaling::Center),
        Just(Scaling::Standard),
        (any::<f32>(), any::<f32>()).prop_map(|(lo, hi)| Scaling::Range { lo, hi }),
    ];
    let data = (1u32..3000, 2usize..20, scaling, any::<bool>(), name());
    let flynn = (1u32..100_000, 2u32..100, 1u32..1000, 0.0..1.0f64);
    let rest = (
        3u64..20,
        0.01..0.99f64,
        proptest::array::uniform8(1u64..1000),
        proptest::collection::vec(plain, 20),
    );
    (plain, data, flynn, rest).prop_map(|(name, data, flynn, (peers, collusion_threshold, times, names))| {
        let mut session = session(peers);
        session.name = name;
        let (features, classes, scaling, densify, class) = data;
        let classes = (0..classes).map(|i| format!("{i}{class}")).collect();
        session.data = DataSpec { features, classes, scaling, densify, ..DataSpec::default() };
        let (m, s, rho, gamma) = flynn;
        session.task = ModelSpec { m, s, rho, gamma, score: Score::Decay }.into();
        session.privacy.collusion_threshold = collusion_threshold;
        let rows = super::super::rules::TIMING.iter().flat_map(|(_, rows)| *rows);
        for (row, time) in rows.zip(times) {
            let fields::Kind::Whole { set, .. } = &row.kind else { panic!("{} is a whole number", row.name) };
            set(&mut session.timing, time);
        }
        session.timing.view_timeout_ms += 3_000;
        for (i, (entry, name)) in session.roster.iter_mut().zip(names).enumerate() {
            entry.name = format!("{i}-{name}");
            entry.addresses = vec![format!("/ip4/192.0.2.{i}/tcp/4001/p2p/{}", entry.key); i % 3];
        }
        session
    })
}

proptest! {
    #[test]
    fn a_written_session_reads_back_the_same(session in sessions()) {
        let Ok(session) = session.check() else { return Err(TestCaseError::reject("breaks a rule")) };
        let read = Session::parse(&session.to_toml()).unwrap();
        prop_assert_eq!(read.id(), session.id());
        prop_assert_eq!(read, session);
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,200}|[a-z=\\[\\]\"{}.,0-9#\n ]{0,200}") {
        let _ = Session::parse(&text);
    }

    #[test]
    fn a_damaged_file_is_read_or_refused_on_one_line(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..8, "[\\PC\n]{0,4}|-|\"|[0-9]{1,25}|nan"), 1..4),
    ) {
        let mut text: Vec<char> = session(3).to_toml().chars().collect();
        for (at, length, new) in cuts {
            let at = at.index(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, new.chars());
        }
        match Session::parse(&text.into_iter().collect::<String>()) {
            // A parsed session meets all rules, so checking it again changes nothing.
            Ok(session) => prop_assert_eq!(session.clone().check().unwrap(), session),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }
}
