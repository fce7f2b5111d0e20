//! Tests of the simulator: the shipped scenarios in their small form, equal runs from equal seeds, invalid
//! files, random faults.

use std::path::{Path, PathBuf};

use flyswarm::sim::outcome::RunReport;
use flyswarm::sim::report;
use flyswarm::sim::run::{run, run_all};
use flyswarm::sim::scenario::File;
use flyswarm::sim::tally::Purpose;

fn parse(text: &str) -> Result<File, String> {
    File::parse(text, "test".into(), PathBuf::new(), false).map_err(|error| error.0)
}

fn only(text: &str, seed: u64) -> RunReport {
    let mut file = parse(text).unwrap();
    let (name, scenario) = &mut file.runs[0];
    scenario.seed = seed;
    run(name, scenario, &file.folder, &mut |_| {}).unwrap()
}

/// Returns the folders of this repository that contain scenarios.
fn folders() -> [PathBuf; 2] {
    ["simulations", "lab/simulations"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
}

/// Runs a shipped scenario in its small form. The scenario must not fail.
fn shipped(name: &str) -> Vec<RunReport> {
    let paths = folders().map(|folder| folder.join(format!("{name}.toml")));
    let path = paths.iter().find(|path| path.exists()).unwrap();
    let file = File::load(path, true).unwrap();
    let runs = run_all(&file, &mut |_| {}).unwrap().runs;
    for run in &runs {
        assert!(run.violations.is_empty(), "{name}, {}: {:?}", run.name, run.violations);
        assert!(run.checked > 10, "{name}, {}: only {} things were looked at", run.name, run.checked);
    }
    runs
}

#[test]
fn parity_gives_the_pooled_model_bit_for_bit() {
    assert!(shipped("parity")[0].accuracy.as_ref().unwrap().equal);
}

#[test]
fn xclp_gives_the_labels_of_the_rows_in_one_place() {
    for (name, runs) in [("xclp-parity", 1), ("xclp-16", 1), ("xclp-drop-out", 6), ("xclp-prediction", 14)] {
        let found = shipped(name);
        assert_eq!(found.len(), runs, "{name}");
        for run in &found {
            let accuracy = run.accuracy.as_ref().unwrap();
            assert!(
                accuracy.equal && (accuracy.swarm - accuracy.pooled).abs() < 1e-12,
                "{name}, {}",
                run.name
            );
        }
    }
}

#[test]
fn sketches_give_the_distances_of_the_rows_in_one_place_and_everybody_the_same_draw() {
    let runs = shipped("sketch");
    assert_eq!(runs.len(), 4);
    for run in &runs {
        let ranking = run.ranking.as_ref().unwrap();
        assert!(
            ranking.equal && ranking.peers.len() == 7 && ranking.chosen.len() == 3,
            "{}: {ranking:?}",
            run.name
        );
    }
}

#[test]
fn the_model_is_that_of_the_drawn_peers_whoever_dies_after_the_draw() {
    let runs = shipped("select");
    let drawn = |run: &RunReport| {
        let ranking = run.ranking.as_ref().unwrap();
        assert!(ranking.equal && run.accuracy.as_ref().unwrap().equal, "{}", run.name);
        ranking.chosen.clone()
    };
    assert_eq!(runs.iter().map(|run| drawn(run).len()).collect::<Vec<_>>(), [4, 4, 8, 8]);
    assert!(runs[2..].iter().all(|run| drawn(run).contains(&6)), "the peer that dies is one that was drawn");
    let members = |run: &RunReport| run.slots.last().unwrap().members;
    assert_eq!((members(&runs[2]), runs[2].finished), (Some(8), 8));
}

#[test]
fn scaling_divides_the_work_of_training_among_the_parties() {
    let runs = shipped("scaling");
    let own = |run: &RunReport| {
        run.training.as_ref().map(|training| training.alone_ms / training.slowest_ms).unwrap()
    };
    assert!(own(&runs[3]) > 1.4 * own(&runs[0]), "{} for 16 parties, {} for 3", own(&runs[3]), own(&runs[0]));
}

#[test]
fn fashion_and_letters_are_needed_by_no_test() {
    for (name, runs) in
        [("scaling-letter", 8), ("scaling-fashion", 8), ("sketch-fashion", 6), ("sketch-budget", 6)]
    {
        let there = shipped(name).len();
        assert!([0, runs].contains(&there), "{name}: {there} runs; either the set is there or it is not");
        if there == 0 {
            let why = format!("the data of lab/simulations/{name}.toml are not there");
            crate::skipped("fashion_and_letters_are_needed_by_no_test", &why);
        }
    }
}

#[test]
fn the_scenario_for_processes_is_one_view_and_the_pooled_model() {
    assert!(shipped("processes")[0].result.is_some());
}

#[test]
fn the_model_does_not_depend_on_the_split() {
    let runs = shipped("non-iid");
    let digests: Vec<_> = runs.iter().map(|run| &run.accuracy.as_ref().unwrap().digest).collect();
    // The seed of the lifting matrix comes from the same pads in all runs, so the models are equal too.
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn stragglers_are_waited_for_and_not_accused() {
    shipped("stragglers");
}

#[test]
fn a_crash_at_every_stage_leaves_one_result() {
    for run in shipped("churn") {
        assert_eq!(run.marks.len(), 2, "{}: the peer crashes and returns", run.name);
    }
}

#[test]
fn a_fault_in_every_round_loses_no_round() {
    // simulations/rounds.toml and rounds-cut.toml do the same over 20 rounds.
    let faults = [("crash", 3, "sum"), ("partition", 1, "accept"), ("crash", 4, "release")];
    let fault = |(round, (kind, peer, stage)): (u32, (&str, u16, &str))| {
        let at = format!("{{ slot = \"round-{round}\", stage = \"{stage}\" }}");
        format!("[[fault]]\nkind = \"{kind}\"\npeers = {peer}\nat = {at}\nfor_s = 20\n")
    };
    let faults: String = (1..).zip(faults).map(fault).collect();
    let text = format!(
        "peers = 5\n[task]\nkind = \"fedavg\"\nfedavg = {{ network = \"logistic\", rounds = 3, batch = 16, rate = 0.1 \
         }}\n[session]\nmin_contributors = 2\n[data]\nrows = 200\n[timing]\nlinger_ms = 600_000\n\
         [expect]\nfinished = 5\npooled = true\n{faults}"
    );
    let run = &run_all(&parse(&text).unwrap(), &mut |_| {}).unwrap().runs[0];
    assert!(run.violations.is_empty(), "{:?}", run.violations);
    assert!(run.accuracy.as_ref().unwrap().equal);
    assert_eq!(run.marks.len(), 6, "each fault has happened, and ended: {:?}", run.marks);
}

#[test]
fn private_counts_are_drawn_once_whoever_crashes() {
    let runs = shipped("private");
    assert!(
        runs.iter().filter(|run| run.name.contains("crash")).all(|run| run.marks.len() == 2),
        "the peer returns"
    );
}

#[test]
fn sketches_with_noise_are_drawn_once_and_scores_are_made_of_them_whoever_crashes() {
    let runs = shipped("sketch-private");
    assert_eq!(runs.len(), 6);
    for run in &runs {
        let ranking = run.ranking.as_ref().unwrap();
        assert!(ranking.equal && ranking.chosen.len() == 3, "{}: {ranking:?}", run.name);
        assert_eq!(run.marks.len(), if run.name.starts_with("killed") { 2 } else { 0 }, "{}", run.name);
    }
}

#[test]
fn releases_cost_bytes_by_their_counts_and_not_by_m() {
    let chunks = |run: &RunReport| {
        let row = run.purposes.iter().find(|row| row.purpose == Purpose::Chunks);
        row.map(|row| row.total.bytes).unwrap()
    };
    let [sealed, hundred, four_hundred, more_peers, more_bits] =
        shipped("private-traffic").iter().map(chunks).collect::<Vec<_>>()[..]
    else {
        panic!("five variants")
    };
    // With eight peers, the tree makes 14 transfers. A transfer has at most 8 releases of 6 bytes for each
    // count, and the headers of 3 chunks.
    assert!(
        hundred < 14 * (8 * 100 * 6 + 3 * 40) && sealed > 50 * hundred,
        "{hundred} bytes, sealed {sealed}"
    );
    assert!(
        four_hundred > 2 * hundred && four_hundred < 14 * (8 * 400 * 6 + 3 * 40),
        "{four_hundred}, {hundred}"
    );
    assert!(more_peers < 30 * (16 * 100 * 6 + 3 * 40), "{more_peers}");
    // A count vector that is four times as large has more chunks, but most chunks are empty.
    assert!(more_bits < 2 * hundred, "{more_bits}, {hundred}");
}

#[test]
fn after_a_partition_everybody_has_the_result() {
    let runs = shipped("partition");
    assert!(
        runs[0].views.iter().any(|view| view.failed.is_some()),
        "the cut must come in the middle of a view"
    );
}

#[test]
fn liars_are_named_and_nobody_else() {
    for run in shipped("liars") {
        assert!(run.finished >= 6, "{}: every honest peer of seven must finish", run.name);
    }
}

#[test]
fn a_wide_area_session_ends_in_one_view() {
    shipped("wide-area");
}

#[test]
fn the_sparse_mask_graph_above_64_members_sums_exactly() {
    shipped("thousand");
    shipped("ten-thousand");
}

#[test]
fn a_session_of_many_bears_some_losses() {
    let runs = shipped("thousand-churn");
    assert!(runs[0].finished >= 69, "{} of 70", runs[0].finished);
}

#[test]
fn a_report_is_one_page_that_loads_nothing_and_a_comparison_names_what_changed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("simulations/churn.toml");
    let mut file = File::load(&path, true).unwrap();
    file.runs.truncate(2);
    let before = run_all(&file, &mut |_| {}).unwrap();
    let page = report::render(&before);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("keys") && page.contains("crash is over"), "runs and faults are named");
    // The page shows the results first. It explains every factor of bytes or time that is below 1.
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not there"));
    let order = ["Results", "same as in one place", "Cost", "Comparison with one party", "Each run"];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
    // These runs have faults, so they have no factor.
    assert!(page.contains("Runs with faults have no factor (-)") && !page.contains(" x slower"));
    assert!(!page.contains("is slower than one party"));
    assert_eq!(page.matches("<table").count(), page.matches("<caption>").count());
    let hidden = page.matches("aria-hidden=\"true\"").count();
    assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"><title>").count() + hidden);

    // Names are escaped, so that they cannot become markup.
    let evil = "<script>alert(1)</script>\"'&";
    let mut named = before.clone();
    (named.scenario, named.about, named.runs[0].name) = (evil.into(), evil.into(), evil.into());
    named.runs[0].marks[0].text = evil.into();
    named.left_out.push((evil.into(), evil.into()));
    named.runs[0].unfinished.push((0, evil.into()));
    let page = report::render(&named);
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");

    file.runs[1].1.network.latency_ms = 30.0;
    let after = run_all(&file, &mut |_| {}).unwrap();
    assert_eq!(before.runs[0].trace_hash, after.runs[0].trace_hash);
    assert_ne!(before.runs[1].finished_ms, after.runs[1].finished_ms);
}

#[test]
fn rows_are_held_out_in_a_scenario_and_the_model_is_still_that_of_the_rows_in_one_place() {
    for learn_all in [true, false] {
        let text = format!(
            "peers = 3\n[task]\nm = 64\nrho = 4\nevaluate = {{ held_out = 30, learn_all = {learn_all} }}\n[data]\n\
             rows = 300\n[expect]\npooled = true\n"
        );
        let results = run_all(&parse(&text).unwrap(), &mut |_| {}).unwrap();
        assert!(results.runs[0].violations.is_empty(), "{:?}", results.runs[0].violations);
        let found = results.runs[0].evaluation.as_ref().unwrap();
        let rows = found["pooled"]["swarm"]["rows"].as_u64().unwrap();
        assert!((60..=120).contains(&rows), "{rows} of 300");
        assert_eq!(found["learn_all"], learn_all);
        let page = report::render(&results);
        // A factor below 1 is written in words, with the main cost.
        assert!(results.runs[0].training.as_ref().unwrap().speed_up() < 1.0);
        assert!(
            page.contains(" x slower</td>") && page.contains("test is slower than one party with all rows")
        );
        assert!(page.contains("Quality of the model") && page.contains("Confusion matrix"));
    }
    let wrong = run_all(&parse("[task]\nevaluate = { held_out = 60 }\n").unwrap(), &mut |_| {}).unwrap_err();
    assert!(wrong.to_string().contains("evaluate.held_out is 60, must be 1 to 50"), "{wrong}");
}

#[test]
fn every_shipped_scenario_can_be_read_in_its_full_form() {
    let mut read = 0;
    for entry in folders().into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let file = File::load(&path, false).unwrap();
            assert!(!file.about.is_empty(), "{} says what it shows", path.display());
            read += 1;
        }
    }
    assert!(read >= 10, "only {read} scenarios");
}

#[test]
fn a_run_whose_optional_data_are_missing_is_left_out_and_named() {
    let text = "[data]\nset = \"not/there.csv\"\noptional = true\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\ndata = { set = \"digits\", rows = 100 }\ntask = { m = 64, rho = 4 }\n";
    let results = run_all(&parse(text).unwrap(), &mut |_| {}).unwrap();
    assert_eq!(results.left_out, [("a".to_owned(), "not/there.csv".to_owned())]);
    assert_eq!(results.runs.iter().map(|run| &*run.name).collect::<Vec<_>>(), ["b"]);
    let needed = text.replace("optional = true", "");
    let error = run_all(&parse(&needed).unwrap(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("not/there.csv"), "{error}");
}

const SUM: &str = "[task]\nkind = \"sum\"\nwords = 50\n";

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let faults = "[random]\nfaults = 4\n";
    let text = format!("peers = 4\n{SUM}{faults}");
    let (first, again, other) = (only(&text, 3), only(&text, 3), only(&text, 4));
    assert_eq!(first.trace_hash, again.trace_hash);
    assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&again).unwrap());
    assert_ne!(first.trace_hash, other.trace_hash);
}

/// The value was computed once, on x86-64. Another machine, compiler or profile must find the same value. It
/// changes when the protocol or the encoding of the session changes.
#[test]
fn the_trace_of_a_fixed_scenario_is_the_one_written_down() {
    let text = format!("peers = 5\nseed = 42\n{SUM}[random]\nfaults = 3\n");
    assert_eq!(only(&text, 42).trace_hash, include_str!("sim/trace").trim());
}

#[test]
fn what_is_wrong_with_a_file_is_one_line_that_names_the_field_and_the_limit() {
    let cases = [
        ("peer = 5", "unknown field `peer`"),
        ("[data]\nsplits = 1", "unknown field `splits`"),
        ("peers = 2", "peers is 2, must be 3 to 10000"),
        ("[timing]\nview_timeout_ms = 1", "view_timeout_ms"),
        ("[network]\nlatency_ms = -1", "network.latency_ms is -1, must be 0 to 60000"),
        ("[[fault]]\nkind = \"crash\"\nat_s = 1", "fault 1: needs peers or a site"),
        ("[[fault]]\nkind = \"crash\"\npeers = 9\nat_s = 1", "fault 1: peers: a peer is 9, must be 0 to 4"),
        ("[[fault]]\nkind = \"crash\"\npeers = 1", "fault 1: needs either at_s or at"),
        ("[[fault]]\nkind = \"pause\"\npeers = 1\nat_s = 1", "fault 1: a pause needs for_s"),
        ("[[fault]]\nkind = \"tamper\"\npeers = 1\nat_s = 1", "fault 1: a tamper needs how"),
        ("[[fault]]\nkind = \"tampers\"\npeers = 1\nat_s = 1", "unknown variant `tampers`"),
        ("[[site]]\nname = \"x\"\npeers = \"3..1\"", "must be a number, a list"),
        ("[[link]]\nbetween = [\"a\", \"b\"]", "link 1: the site is \"a\""),
        ("[[variant]]\npeers = 4", "variant 1 has no name"),
        ("peers = ", "line 1:"),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{text:?}: {error}");
    }
}

#[test]
fn a_fault_at_a_aggregate_that_the_task_does_not_sum_is_refused_with_those_that_it_does() {
    let fault = "[[fault]]\nkind = \"crash\"\npeers = 1\nat = { slot = \"counts\", stage = \"sum\" }\n";
    let file = parse(&format!("{SUM}{fault}")).unwrap();
    let error = run("run", &file.runs[0].1, &file.folder, &mut |_| {}).unwrap_err().0;
    assert_eq!(error, "fault 1: at.slot is \"counts\", must be one of coin, sum");
}

#[test]
fn every_field_and_kind_is_documented() {
    let readme = include_str!("../simulations/README.md");
    let sources = [include_str!("../src/sim/scenario.rs"), include_str!("../src/sim/scenario/fault.rs")];
    let mut fields = 0;
    for line in sources.iter().flat_map(|source| source.lines()) {
        let field = line.strip_prefix("    pub ").and_then(|rest| rest.split_once(": "));
        let Some((name, kind)) = field.filter(|(name, _)| !name.contains(' ')) else { continue };
        if ["folder", "runs", "played", "contents", "rest"].contains(&name) || kind.contains("String)") {
            continue;
        }
        let spellings = [format!("`{name}`"), format!("[{name}]"), format!("{name} = ")];
        assert!(spellings.iter().any(|spelling| readme.contains(spelling)), "{name}");
        fields += 1;
    }
    assert!(fields > 50, "only {fields} fields were found");
}

/// Number of schedules in each part. Each task has two parts, so it has 500 schedules.
const SCHEDULES: u64 = 250;

/// For each seed, makes four random faults, and then ends all faults. All peers must finish, and every check
/// must pass.
fn schedules(task: &str, part: u64) {
    let env = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let all = env("FLYSWARM_SCHEDULES").unwrap_or(SCHEDULES);
    for seed in (0..all).map(|i| 2 * i + part) {
        let peers = 3 + seed % 4;
        let text = format!(
            "peers = {peers}\n[random]\nfaults = 4\nwithin_s = 0.3\nheal_s = 25\n[timing]\nlinger_ms = 60_000\n[network]\nlatency_ms = 5\njitter_ms = 15\n[expect]\nfinished = {peers}\n{task}"
        );
        let outcome = only(&text, seed);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}\n{text}", outcome.violations);
    }
}

const FLYNN: &str = "[data]\nrows = 60\n[session]\nmin_contributors = 1\n[task]\nm = 32\nrho = 4\ns = 4\n";

#[test]
fn random_faults_leave_sums_exact_and_everybody_with_the_result_1() {
    schedules(SUM, 0);
}

#[test]
fn random_faults_leave_sums_exact_and_everybody_with_the_result_2() {
    schedules(SUM, 1);
}

#[test]
fn random_faults_leave_models_exact_and_everybody_with_the_result_1() {
    schedules(FLYNN, 0);
}

#[test]
fn random_faults_leave_models_exact_and_everybody_with_the_result_2() {
    schedules(FLYNN, 1);
}

const COLUMNS: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

/// Returns text for a session file that describes these columns as numbers.
fn described() -> String {
    COLUMNS.map(|name| format!("[[table.column]]\nname = \"{name}\"\nkind = \"number\"\n")).concat()
}

/// Returns four visits of each patient. The visits of one patient look alike. The outcome of a patient is
/// random.
fn visits(patients: u32) -> String {
    let mut state = 7u32;
    let mut draw = || {
        // The "quick and dirty" random numbers of Numerical Recipes.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24)
    };
    let mut text = format!("patient,{},outcome\n", COLUMNS.join(","));
    for patient in 0..patients {
        let own: Vec<f64> = COLUMNS.iter().map(|_| draw()).collect();
        let outcome = if draw() < 0.5 { "ill" } else { "well" };
        for _ in 0..4 {
            let visit: Vec<_> = own.iter().map(|x| format!("{:.4}", x + draw() / 2000.0)).collect();
            text += &format!("P{patient},{},{outcome}\n", visit.join(","));
        }
    }
    text
}

#[test]
fn a_budget_for_groups_is_simulated_with_rows_that_have_some() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("visits.csv"), visits(60)).unwrap();
    let peer = |i: u8| {
        let id = flyswarm::Identity::from_seed([i; 32]).public();
        format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{id}\"\n")
    };
    let text = format!(
        "name = \"p\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\n\
         task = \"flynn\"\n[data]\nclasses = [\"ill\", \"well\"]\n[table]\nlabel = \"outcome\"\ngroup = \"patient\"\n\
         {}[flynn]\nm = 64\ns = 3\nrho = 4\ngamma = 0.5\n[privacy]\nepsilon = 1\ntop = 10\n\
         unit = \"group\"\ngroup_rows = 2\n{}",
        described(),
        [0, 1, 2].map(peer).concat()
    );
    std::fs::write(folder.path().join("s.toml"), &text).unwrap();
    let set = "peers = 3\n[data]\nset = \"visits.csv\"\ncolumns_from = \"s.toml\"\n";
    let mut file = File::parse(set, "test".into(), folder.path().into(), false).unwrap();
    let session = flyswarm::session::Session::parse(&text).unwrap();
    file.runs[0].1.take_settings(&session).unwrap();
    let results = run_all(&file, &mut |_| {}).unwrap();
    assert!(results.runs[0].violations.is_empty(), "{:?}", results.runs[0].violations);
    let mut bare = parse("peers = 3\n").unwrap();
    bare.runs[0].1.take_settings(&session).unwrap();
    assert!(run_all(&bare, &mut |_| {}).is_err(), "the digits have no groups");
}

#[test]
fn with_a_group_column_held_out_visits_tell_how_new_patients_fare() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("visits.csv"), visits(160)).unwrap();
    let found = ["", "group = \"patient\"\n"].map(|group| {
        let table = format!("[table]\nlabel = \"outcome\"\n{group}{}", described());
        std::fs::write(folder.path().join("columns.toml"), table).unwrap();
        let text = "peers = 3\nseed = 0\n[task]\nm = 16384\ns = 4\nrho = 32\nscore = \"decay\"\nscaling = \"standard\"\n\
                    evaluate = { held_out = 30 }\n[data]\nset = \"visits.csv\"\ncolumns_from = \"columns.toml\"\n\
                    [expect]\npooled = true\n";
        let file = File::parse(text, "test".into(), folder.path().into(), false).unwrap();
        let results = run_all(&file, &mut |_| {}).unwrap();
        assert!(results.runs[0].violations.is_empty(), "{:?}", results.runs[0].violations);
        let evaluation = results.runs[0].evaluation.as_ref().unwrap();
        assert!(!evaluation.to_string().contains("P1"), "no pseudonym leaves the peer");
        let held_out = evaluation["pooled"]["swarm"]["accuracy"]["value"].as_f64().unwrap();
        (held_out, results.runs[0].accuracy.as_ref().unwrap().swarm)
    });
    let [(seen, _), (held_out, new)] = found;
    assert!(seen > 0.95, "{seen}: visits of known patients");
    assert!((0.3..0.7).contains(&new), "{new}: new patients, by chance");
    assert!((held_out - new).abs() < 0.15, "{held_out} is near {new}");
}
