//! Tests sessions that draw peers by their sketches. The opened counts equal the counts of the drawn peers'
//! rows in one place, and contain no other rows.

use proptest::prelude::*;

use super::*;
use crate::data::digits::digits;
use crate::protocol::ballot::Ballot;
use crate::protocol::record::Value;
use crate::protocol::sum_id::SumId;
use crate::session::TaskSpec;

const COIN: [u8; 32] = [9; 32];

/// Makes a session of this number of peers, with these lines for `[data]` and `[sketch]`.
fn session(peers: usize, min_contributors: u16, scaling: &str, sketch: &str) -> Session {
    let classes: Vec<String> = digits().classes().iter().map(|class| format!("{class:?}")).collect();
    let mut text = format!(
        "name = \"test\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"flynn\"\nselect = \"sketch\"\n[data]\nfeatures = 64\ncheck_columns = false\nclasses = [{}]\n{scaling}\n\
         [flynn]\nm = 24\ns = 4\nrho = 3\ngamma = 0.5\n[sketch]\nrows = 6\nrange = 8\n{sketch}\n\
         [privacy]\nmin_contributors = {min_contributors}\n",
        classes.join(", ")
    );
    for i in 0..peers {
        let key = crate::crypto::identity::Identity::from_seed([i as u8; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

fn spec(session: &Session) -> &FlynnSpec {
    let Some(spec) = session.task.get::<crate::tasks::FlynnSpec>() else { panic!("{:?}", session.task) };
    spec
}

pub(super) fn tasks(session: &Session, parts: &[Arc<Dataset>]) -> Vec<Flynn> {
    let peers = (0u16..).map(Peer).zip(parts);
    peers
        .map(|(peer, rows)| {
            Flynn::new(session.clone(), *spec(session), peer, rows.clone(), &[peer.0 as u8; 32]).unwrap()
        })
        .collect()
}

/// Opens the slots in order, each with the sum of all peers' contributions. Returns an error at the first
/// check that fails.
pub(super) fn federated(tasks: &[Flynn]) -> Result<Vec<Bytes>, String> {
    let mut opened = vec![Bytes::copy_from_slice(&COIN)];
    for (slot, aggregate) in (0u32..).zip(tasks[0].plan()).skip(1) {
        let mut total = vec![0; aggregate.len()];
        for task in tasks {
            crate::crypto::mask::add(
                aggregate.word(),
                &mut total,
                &task.contribution(slot, &History::of_vectors(&opened))?,
            );
        }
        opened.push(total.into());
        for task in tasks {
            task.check(slot, &History::of_vectors(&opened))?;
        }
    }
    Ok(opened)
}

/// Returns the rows of all peers. Each peer gets its number of rows from the digits, in their order.
pub(super) fn parts(cuts: &[usize]) -> Vec<Arc<Dataset>> {
    let mut first = 0;
    let part = |&n: &usize| {
        let rows: Vec<usize> = (first..first + n).collect();
        first += n;
        Arc::new(digits().subset(&rows))
    };
    cuts.iter().map(part).collect()
}

pub(super) fn together(parts: &[&Dataset]) -> Dataset {
    let values = parts.iter().flat_map(|part| part.values().to_vec()).collect();
    let labels = parts.iter().flat_map(|part| part.labels().to_vec()).collect();
    Dataset::new(64, values, labels, digits().classes().to_vec()).unwrap()
}

pub(super) fn value(slot: u32, members: &[u16]) -> Value {
    let sum = SumId { ballot: Ballot::default(), slot };
    Value { sum, members: members.iter().copied().map(Peer).collect(), total: [0; 32], deals: [0; 32] }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_opened_counts_are_those_of_the_drawn_peers_alone_and_everybody_draws_the_same(
        cuts in prop::collection::vec(0usize..40, 4..8),
        scaling in 0usize..3, chosen in 3u16..5, densify: bool,
    ) {
        prop_assume!(cuts.iter().filter(|&&n| n > 0).count() >= usize::from(chosen));
        let scaling = ["", "scaling = \"center\"", "scaling = { soft-bins = { bins = 3 } }"][scaling];
        let session = session(cuts.len(), 1, &format!("{scaling}\ndensify = {densify}"), &format!("chosen = {chosen}"));
        let parts = parts(&cuts);
        let tasks = tasks(&session, &parts);
        let opened = federated(&tasks).unwrap();
        let draws: Vec<_> = tasks.iter().map(|task| task.plan.drawn(&opened).unwrap().unwrap()).collect();
        prop_assert!(draws.windows(2).all(|pair| pair[0] == pair[1]));
        let drawn: Vec<&Dataset> = draws[0].chosen.iter().map(|&peer| &*parts[peer]).collect();
        prop_assert!(drawn.len() == usize::from(chosen) && drawn.iter().all(|part| part.rows() > 0));
        let rules = &tasks[0].plan;
        let expected = rules.pooled_under(&together(&drawn), &opened).unwrap();
        prop_assert_eq!(rules.model(&opened).unwrap().digest(), expected.digest());
        // Adds up the vectors that each drawn peer would make alone.
        let mut sum = vec![0u32; spec(&session).model.counts(session.data.classes.len())];
        for &peer in &draws[0].chosen {
            let own = tasks[peer].counts(&opened).unwrap();
            sum.iter_mut().zip(own.values()).for_each(|(sum, count)| *sum += count);
        }
        let (words, _) = opened.last().unwrap().as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
        prop_assert_eq!(words, sum);
    }
}

#[test]
fn holders_are_counted_among_the_drawn_after_the_draw() {
    let names = |scaling: &str| {
        let session = session(4, 1, scaling, "chosen = 3");
        let plan = Plan::new(session.clone(), *spec(&session)).aggregates();
        plan.into_iter().map(|aggregate| aggregate.name).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["coin", "present", "sketch", "scores", "draw", "holders", "counts"]);
    let all = ["coin", "present", "moments", "sketch", "scores", "draw", "holders", "counts"];
    assert_eq!(names("scaling = \"standard\""), all);
    let session = session(5, 1, "", "chosen = 3");
    let tasks = tasks(&session, &parts(&[40, 30, 0, 20, 25]));
    let opened = federated(&tasks).unwrap();
    let word = |slot: usize, at: usize| u32::from_le_bytes(opened[slot][at * 4..][..4].try_into().unwrap());
    assert_eq!((word(1, 0), word(5, 0)), (4, 3), "four have rows, three of them are drawn");
}

#[test]
fn what_too_few_drawn_peers_would_put_in_is_not_summed() {
    let with = |min_contributors: u16| {
        let session = session(6, min_contributors, "", "chosen = 4");
        // Rows 0 to 9 are of ten different classes, and so are the next ten.
        let rows = Arc::new(digits().subset(&(0..60).collect::<Vec<_>>()));
        tasks(&session, &vec![rows; 6])
    };
    let tasks = with(3);
    let opened = federated(&tasks).unwrap();
    let draw = tasks[0].plan.drawn(&opened).unwrap().unwrap();
    let chosen: Vec<u16> = draw.chosen.iter().map(|&peer| peer as u16).collect();
    let others: Vec<u16> = (0..6).filter(|peer| !chosen.contains(peer)).collect();
    let mut values: Vec<Value> = (0..6).map(|slot| value(slot, &[0, 1, 2, 3, 4, 5])).collect();
    let allows = |values: &[Value], slot: u32, members: &[u16]| {
        let members: Vec<Peer> = members.iter().copied().map(Peer).collect();
        tasks[0].allows(slot, &History::over(values, &opened[..slot as usize]), &members)
    };
    for slot in [5, 6] {
        let known = &values[..slot as usize];
        assert_eq!(allows(known, slot, &chosen), Ok(()), "peers that were not drawn may be absent");
        assert_eq!(allows(known, slot, &[&chosen[..3], &others].concat()), Ok(()));
        let error = allows(known, slot, &[&chosen[..2], &others].concat()).unwrap_err();
        assert_eq!(error, "only 2 of the drawn peers are present; a sum of their rows needs 3");
    }
    // One drawn peer leaves before the peers are counted, so three are counted. If one more is lost, too few
    // are left.
    values[5] = value(5, &[&chosen[..3], &others].concat());
    let mut fewer = opened.clone();
    fewer[5] = std::iter::repeat_n(3u32, 11).flat_map(u32::to_le_bytes).collect();
    let members: Vec<Peer> = chosen[1..].iter().chain(&others).copied().map(Peer).collect();
    let error = tasks[0].allows(6, &History::over(&values, &fewer[..6]), &members).unwrap_err();
    assert!(error.starts_with("only 3 peers have rows, and 1 of them are gone"), "{error}");
    assert_eq!(
        allows(&values[..4], 4, &[0, 1]).unwrap_err(),
        "only 6 peers have rows, and 4 of them are gone; the session requires 3 (privacy.min_contributors)"
    );
}

#[test]
fn with_rows_at_too_few_peers_nobody_is_learnt_from() {
    let session = session(5, 1, "", "chosen = 3");
    let error = federated(&tasks(&session, &parts(&[30, 40, 0, 0, 0]))).unwrap_err();
    assert_eq!(error, "only 2 members have rows; at least 3 are to be drawn");
}

/// A peer that was not drawn contributes nothing, whatever rows it has.
#[test]
fn a_class_that_only_peers_have_that_were_not_drawn_stands_in_no_sum() {
    let session = session(6, 1, "", "chosen = 3\ntemperature = 0.001");
    let of_class = |class: u16| {
        let data = digits();
        let rows: Vec<usize> = (0..data.rows()).filter(|&row| data.labels()[row] == class).take(60).collect();
        Arc::new(data.subset(&rows))
    };
    // Five peers have similar rows and one has very different ones. With a low temperature, the softmax draws
    // only peers that are near.
    let parts: Vec<_> = [1, 1, 1, 1, 1, 6].map(of_class).to_vec();
    let tasks = tasks(&session, &parts);
    let opened = federated(&tasks).unwrap();
    let draw = tasks[0].plan.drawn(&opened).unwrap().unwrap();
    assert!(!draw.chosen.contains(&5), "{draw:?}");
    let plan = tasks[5].plan();
    for slot in [5u32, 6] {
        let vector = tasks[5].contribution(slot, &History::of_vectors(&opened[..slot as usize])).unwrap();
        assert!(vector.len() == plan[slot as usize].len() && vector.iter().all(|&byte| byte == 0));
    }
    let model = tasks[5].plan.model(&opened).unwrap();
    let counted: u64 = model.counts().values()[6 * 24..7 * 24].iter().map(|&count| u64::from(count)).sum();
    assert_eq!(counted, 0);
}

#[test]
fn a_model_says_where_it_comes_from_and_its_digest_does_not_depend_on_that() {
    let session = session(5, 1, "", "chosen = 3");
    let parts = parts(&[40, 30, 20, 20, 25]);
    let all = Session {
        task: TaskSpec::from(FlynnSpec { select: None, ..*spec(&session) }),
        name: "all".into(),
        ..session.clone()
    };
    for session in [session, all] {
        let tasks = tasks(&session, &parts);
        let opened = federated(&tasks).unwrap();
        let draw = tasks[0].plan.drawn(&opened).unwrap();
        // One of the training peers was lost before the counts were summed.
        let lost = draw.as_ref().map_or(2, |draw| u16::try_from(draw.chosen[1]).unwrap());
        let members: Vec<u16> = (0..5).filter(|&peer| peer != lost).collect();
        let values: Vec<_> = (0u32..).zip(&opened).map(|(slot, _)| value(slot, &members)).collect();
        let history = History::over(&values, &opened);
        let [early, late] = [7, 9].map(|unix| tasks[1].outcome(&history, unix).unwrap());
        assert!(early.digest == late.digest && early.file != late.file);
        let counted = members
            .into_iter()
            .filter(|&peer| draw.as_ref().is_none_or(|draw| draw.chosen.contains(&usize::from(peer))));
        let counted: Vec<String> = counted.map(|peer| session.name(Peer(peer)).to_owned()).collect();
        assert_eq!(counted.len(), if draw.is_some() { 2 } else { 4 });
        for (outcome, unix) in [(early, 7), (late, 9)] {
            let model = Model::decode(&outcome.file).unwrap();
            let origin = model.origin().unwrap();
            assert_eq!((model.digest(), origin.unix, &origin.members), (outcome.digest, unix, &counted));
            assert_eq!((&origin.session, origin.id), (&session.name, session.id().0));
            assert_eq!((origin.roster, origin.noised, &*origin.protocol), (5, false, "flyswarm/5"));
        }
    }
}

#[test]
fn a_class_that_nobody_had_when_the_holders_were_counted_is_not_brought_in_later() {
    let session = session(3, 1, "", "chosen = 3");
    let counted = |missing: Option<usize>| {
        let words = (0..=session.data.classes.len()).map(|i| u32::from(missing.is_none_or(|c| i != c + 1)));
        [Bytes::new(), words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into()]
    };
    let refused =
        |missing| holders::refuse_uncounted(&session, 1, &digits().class_counts(10), &counted(missing));
    assert_eq!(refused(None), Ok(()));
    for class in [0, 9] {
        assert!(refused(Some(class)).unwrap_err().contains("no peer had rows"));
    }
}

#[test]
fn rows_that_do_not_fit_the_session_are_refused_before_they_are_counted() {
    let whole = session(3, 1, "", "chosen = 3");
    let with = |change: &dyn Fn(&mut Session)| {
        let mut session = whole.clone();
        change(&mut session);
        holders::fits(&session, &digits()).unwrap_err()
    };
    assert_eq!(holders::fits(&whole, &digits()), Ok(()));
    assert!(with(&|session| session.data.features = 63).contains("63"));
    assert!(with(&|session| session.data.classes.swap(0, 1)).contains("classes"));
    let (values, classes) = (digits().values().to_vec(), digits().classes().to_vec());
    let bare = Dataset::new(64, values, Vec::new(), classes).unwrap();
    assert!(holders::fits(&whole, &bare).unwrap_err().contains("no labels"));
    let many = holders::fits_ring(&whole, &digits(), |_, _| digits().rows() as u64 - 1).unwrap_err();
    assert!(many.contains("at most"), "{many}");
    assert_eq!(holders::fits_ring(&whole, &digits(), |_, _| digits().rows() as u64), Ok(()));
}

#[test]
fn too_few_holders_of_any_class_end_the_session_but_a_class_that_nobody_has_does_not() {
    let session = session(4, 2, "", "chosen = 3");
    let told = |rows: u32, first: u32, lost: usize| {
        let words = (0..=session.data.classes.len()).map(|i| {
            if i == 0 {
                rows
            } else if i == 1 {
                first
            } else {
                4
            }
        });
        let opened = [Bytes::new(), words.flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into()];
        holders::enough(&session, 1, &opened, lost)
    };
    assert_eq!(
        (told(4, 4, 0), told(4, 0, 0), told(4, 2, 0), told(4, 4, 2)),
        (Ok(()), Ok(()), Ok(()), Ok(()))
    );
    assert!(told(4, 1, 0).is_err() && told(4, 2, 1).is_err() && told(0, 4, 0).is_err());
}
