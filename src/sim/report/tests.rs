//! Tests that no text of a result becomes markup at any place of the page.

use std::path::PathBuf;

use crate::sim::checks::{Check, Violation};
use crate::sim::outcome::{Accuracy, Blame, Mark, Ranking, Results, RunReport, Training, View};
use crate::sim::run::run_all;
use crate::sim::scenario::File;

const TEXT: &str = "peers = 3\n[task]\nkind = \"sum\"\nwords = 4\n";

/// Makes a text that occurs at no other place.
fn mark(marks: &mut u32) -> String {
    *marks += 1;
    format!("\u{202e}<i{marks} onload=\"x\">'&")
}

/// Replaces every text of a run, and adds optional entries.
fn poison(run: &mut RunReport, marks: &mut u32, faults: bool) {
    run.name = mark(marks);
    run.slots.iter_mut().for_each(|slot| slot.name = mark(marks));
    run.accuracy =
        Some(Accuracy { swarm: 0.5, pooled: 0.5, alone: 0.5, rows: 10, equal: true, digest: String::new() });
    run.ranking =
        Some(Ranking { spearman: 1.0, equal: true, peers: vec![(0, 1, 0.5, 0.5)], chosen: vec![0] });
    run.training = Some(Training { alone_ms: 1.0, matrix_ms: 0.0, slowest_ms: 1.0, session_ms: 100.0 });
    run.evaluation = Some(serde_json::json!({"pooled": null, "classes_not_scored": [mark(marks)]}));
    run.unfinished = vec![(0, mark(marks))];
    run.violations = vec![Violation { check: Check::OneOpening, at_ms: 1, text: mark(marks) }];
    run.blames = vec![Blame { peer: 1, tampers: Some(mark(marks)), with: vec![mark(marks)], by: 1 }];
    run.views.push(View { ballot: (9, 0), members: 3, began_ms: 1, failed: Some(mark(marks)) });
    run.marks.clear();
    if faults {
        run.marks.push(Mark { at_ms: 1, peers: vec![0], text: mark(marks) });
    }
}

#[test]
fn every_place_for_a_text_of_a_result_is_escaped() {
    let scenario = File::parse(TEXT, "t".into(), PathBuf::new(), false).unwrap();
    let mut results: Results = run_all(&scenario, &mut |_| {}).unwrap();
    let mut marks = 0;
    results.runs.push(results.runs[0].clone());
    for (run, faults) in results.runs.iter_mut().zip([false, true]) {
        poison(run, &mut marks, faults);
    }
    results.left_out = vec![(mark(&mut marks), mark(&mut marks))];
    (results.scenario, results.about) = (mark(&mut marks), mark(&mut marks));
    results.version = mark(&mut marks);
    let page = super::render(&results);
    for at in 1..=marks {
        assert!(page.contains(&format!("\u{fffd}&lt;i{at} ")), "place {at} is not on the page");
        assert!(!page.contains(&format!("<i{at} ")), "place {at}");
    }
    assert!(!page.contains('\u{202e}') && !page.contains("\"x\""));
}
