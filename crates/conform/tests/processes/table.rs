//! The kill table: kill -9 of leader, inner node and leaf at every stage of every aggregate.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::check::same_and_exact;
use super::swarm::{NAMES, Swarm};

const AGGREGATES: [&str; 4] = ["coin", "holders", "moments", "counts"];
const STAGES: [&str; 6] = ["keys", "compute", "sum", "accept", "release", "open"];
const ROLES: [&str; 3] = ["leader", "inner node", "leaf"];
/// Number of sessions at the same time: they wait more than they compute.
const WORKERS: usize = 3;

/// One cell of the table.
struct Cell {
    members: usize,
    views: u64,
    seconds: f64,
}

/// Holds the peer in `place` of the first view's tree at `stage`, kills it there, and checks how the
/// others end. Returns `None` if another peer proposed first, because the victim then had another role.
fn kill(place: usize, stage: &str) -> Option<Cell> {
    let mut swarm = Swarm::new(5, |_| {});
    let tree = swarm.first_tree();
    let (leader, victim) = (tree[0], tree[place]);
    let first = format!("1.{leader}");
    for i in 0..5 {
        if i == victim { swarm.start(i, &["--hold-at", stage]) } else { swarm.start(i, &[]) }
    }
    let mut fits = None;
    swarm.wait(&format!("{} held at {stage}", NAMES[victim]), |told| {
        let event = &told.value["event"];
        if told.peer == victim && event == "view" && fits.is_none() {
            fits = Some(
                told.value["view"] == *first
                    && told.value["members"].as_array().is_some_and(|m| m.len() == 5),
            );
        }
        (told.peer == victim && event == "held").then_some(())
    });
    if fits != Some(true) {
        return None;
    }
    swarm.signal(victim, "KILL");
    let killed = Instant::now();
    assert_eq!(swarm.wait_end(victim).signal, Some(9));
    let others: Vec<_> = (0..5).filter(|&i| i != victim).collect();
    for &i in &others {
        let ended = swarm.wait_end(i);
        assert_eq!(
            (ended.code, &*ended.errors),
            (Some(0), ""),
            "{} after {} at {stage}",
            NAMES[i],
            ROLES[place.min(2)]
        );
    }
    let last = swarm.log_at("finished").into_iter().max().expect("they finish");
    let seconds = last.saturating_duration_since(killed).as_secs_f64();
    // A closed connection is noticed at once. The bound follows from D, T_s and E of section 17 of the
    // specification.
    let timing = swarm.session.timing;
    let bound = Duration::from_millis(
        7_250 + 2 * (timing.view_timeout_ms + 1_000) + 100 + 2 * timing.proposal_backoff_ms,
    );
    assert!(seconds < bound.as_secs_f64(), "{seconds} s after the kill, the bound is {bound:?}");
    let members = same_and_exact(&swarm, &others);
    let was_member = members.iter().any(|name| name == NAMES[victim]);
    assert_eq!(members.len(), if was_member { 5 } else { 4 }, "{members:?}");
    // Until the last aggregate is acknowledged, a killed peer cannot be in this aggregate.
    let early = !stage.starts_with("counts") || matches!(stage, "counts.compute" | "counts.sum");
    assert!(!(early && was_member), "{} was killed at {stage}, but its vector was counted", NAMES[victim]);
    let views = others.iter().map(|&i| swarm.receipt(i)["views"].as_u64().expect("views")).max().unwrap_or(0);
    let disagreements: Vec<_> = others
        .iter()
        .flat_map(|&i| swarm.receipt(i)["disagreements"].as_array().cloned().expect("disagreements"))
        .collect();
    assert!(views == 1 || !disagreements.is_empty(), "{views} views, and the pair is not reported");
    for each in &disagreements {
        let names = each["peers"].as_array().expect("peers");
        assert!(names.iter().any(|name| name == NAMES[victim]), "the pair has no victim: {each}");
        let text = each["text"].as_str().expect("text");
        assert!(text.starts_with("the connection between ") && text.ends_with("1 view was ended"), "{text}");
    }
    Some(Cell { members: members.len(), views, seconds })
}

#[test]
fn killed_at_any_stage_in_any_role_the_others_end_with_one_exact_result() {
    let stages = AGGREGATES.iter().flat_map(|aggregate| {
        STAGES
            .iter()
            .filter(move |stage| **stage != "keys" || *aggregate == "coin")
            .map(move |s| format!("{aggregate}.{s}"))
    });
    let cases: Vec<_> = stages.flat_map(|stage| [0, 1, 3].map(|place| (stage.clone(), place))).collect();
    let (next, cells) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((stage, place)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let cell = (0..5).find_map(|_| kill(*place, stage));
                    let cell = cell.unwrap_or_else(|| {
                        panic!("the first to propose was never the first in the committee")
                    });
                    cells.lock().expect("not poisoned").insert((stage.clone(), *place), cell);
                }
            });
        }
    });
    let cells = cells.into_inner().expect("not poisoned");
    let mut text = format!("| killed at | {} |\n| --- | --- | --- | --- |\n", ROLES.join(" | "));
    for stage in cases.iter().step_by(3).map(|(stage, _)| stage) {
        let cell = |place| {
            let cell: &Cell = &cells[&(stage.clone(), place)];
            format!("{} members, {} views, {:.1} s", cell.members, cell.views, cell.seconds)
        };
        text += &format!("| `{stage}` | {} | {} | {} |\n", cell(0), cell(1), cell(3));
    }
    text +=
        &format!("\n{} sessions of 5 processes in {:.0} s.\n", cases.len(), begin.elapsed().as_secs_f64());
    println!("{text}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kill-table.md");
    std::fs::write(&path, text).expect("written");
}
