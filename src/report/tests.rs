//! Tests that text from outside never becomes markup, and that a page shows the contents of its receipt.

use flyswarm_learn::model::columns::{Column, Spread};
use flyswarm_learn::model::figures::{Gain, Sums};
use serde_json::json;

mod design;

use super::figures::Held;
use super::*;
use crate::crypto::identity::Identity;
use crate::peer::told;
use crate::session::{Release, Session};
use crate::tasks::built_in;

const EVIL: &str = "<script>alert(1)</script>\"'&";

fn figures(classes: &[String]) -> Figures {
    let labels: Vec<u16> = (0..60).map(|i| i % 2).collect();
    let scores: Vec<f64> = (0..120).map(|i| f64::from(i * i % 17)).collect();
    Figures::new(classes, &Sums::of_scores(2, &labels, &scores), None).unwrap()
}

/// Makes this number of columns. Each has a larger distance than the next one.
fn beside(columns: u32) -> Beside {
    let column = |at: u32| Column {
        name: if at == 0 { EVIL.to_owned() } else { format!("column {at}") },
        here: Spread { mean: f64::from(columns - at), deviation: 1.0 },
        pool: Spread { mean: 0.0, deviation: 1.0 },
    };
    Beside { rows: 60, pool_rows: Some(180), columns: (0..columns).map(column).collect(), dates: Vec::new() }
}

fn receipt() -> Value {
    let classes = [EVIL.to_owned(), "b".to_owned()];
    let gain = Gain::of([([9, 2], 60)]);
    let found = figures(&classes);
    json!({
        "name": EVIL, "peer": EVIL, "session": EVIL, "created": EVIL, "started_unix": 1.0, "seconds": 61.0,
        "own_rows": {"included": [EVIL], "left_out": [], "text": EVIL}, "views": 1,
        "disagreements": [{"peers": [EVIL, "bob"], "views": 1, "text": EVIL}], "data": {"rows": 60}, "task": "flynn", "opened_unix": [13.5, null],
        "privacy": {"epsilon": null, "min_contributors": 3},
        "committee": {"members": 3, "faults": EVIL, "not_prevented": EVIL},
        "aggregates": [
            {"name": "counts", "view": EVIL, "members": [EVIL, "bob"], "sealed_total": EVIL},
            {"name": EVIL, "is": EVIL, "reveals": EVIL, "view": "1 of 2", "members": [EVIL, "bob"], "sealed_total": "00"},
        ],
        "stages": [{"name": EVIL, "seconds": 0.5, "bytes": 1500}],
        "rounds": [{"loss": 0.5, "accuracy": 0.75}, {"loss": 0.25, "accuracy": 0.875}],
        "evaluation": {
            "held_out_percent": 20, "learn_all": true, "classes_not_scored": [EVIL], "contradictory": false,
            "pooled": {
                "swarm": found, "alone": found, "neighbours": found, "gain_over_alone": gain,
                "gain_over_neighbours": gain,
            },
        },
    })
}

/// Returns the text of each tag of a page.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).filter_map(|part| part.split('>').next()).collect()
}

#[test]
fn names_from_outside_never_become_markup() {
    let receipt = receipt();
    let mut own = receipt["evaluation"]["pooled"].clone();
    own["columns"] = json!(beside(3));
    let classes = [EVIL.to_owned(), "b".to_owned()];
    let rows = figures(&classes);
    let Some(Held::Compared(beside)) = super::figures::read(&own) else { panic!("{own}") };
    let page = Page {
        title: EVIL,
        receipt: Some(&receipt),
        own: Some(&own),
        ledger: Some(EVIL.to_owned()),
        rows: Some(Rows { name: EVIL, figures: &rows, beside: Some(&beside), curve: None, learnt: None }),
        columns: None,
        warnings: vec![EVIL.to_owned()],
        left_out: vec![EVIL.to_owned()],
        personal: vec![("file", EVIL.to_owned())],
        model: vec![("file", EVIL.to_owned())],
    };
    let page = page.render();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;"));
    assert!(!page.contains("<script") && !page.contains("alert(1)</script"));
    // A name from outside must not begin a tag or end an attribute.
    let known = [
        "!DOCTYPE", "html", "head", "meta", "title", "style", "body", "main", "header", "p", "h1", "h2",
        "h3", "section", "div", "span", "strong", "small", "b", "br", "i", "table", "caption", "thead",
        "tbody", "tr", "th", "td", "figure", "svg", "text", "rect", "path", "circle", "polyline", "details",
        "summary", "dl", "dt", "dd", "ul", "li", "code", "footer", "a", "desc", "polygon",
    ];
    for tag in tags(&page) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(known.contains(&name), "<{tag}>");
        let acts = tag.split(' ').any(|word| word.starts_with("on") && word.contains('='));
        assert!(tag.matches('"').count() % 2 == 0 && !acts, "<{tag}>");
    }
    // The page loads nothing. Its only link leads to its own content.
    let page = page.replacen("href=\"#main\"", "", 1);
    for loads in ["src=", "href=", "url(", "@import", "http:", "https:"] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn every_place_for_a_name_is_escaped_and_none_is_left_untested() {
    // Each place has its own mark, so that a failure shows which place is not escaped.
    let mut marks = 0;
    let mut mark = || {
        marks += 1;
        format!("\u{202e}<i{marks} onload=\"x\">'&")
    };
    let mut receipt = receipt();
    receipt["evaluation"]["pooled"]["swarm"]["per_class"][0]["class"] = json!(mark());
    receipt["evaluation"]["pooled"]["swarm"]["per_class"][1]["class"] = json!(mark());
    receipt["evaluation"]["pooled"]["swarm"]["majority"]["class"] = json!(mark());
    receipt["evaluation"]["pooled"]["swarm"]["positive"]["class"] = json!(mark());
    receipt["evaluation"]["classes_not_scored"] = json!([mark()]);
    for name in ["name", "peer", "session", "created", "task"] {
        receipt[name] = json!(mark());
    }
    receipt["committee"] = json!({"members": 3, "faults": mark(), "not_prevented": mark()});
    receipt["privacy"] = json!({"epsilon": mark(), "mode": mark(), "min_contributors": 3});
    receipt["disagreements"] = json!([{"text": mark()}]);
    receipt["tables"] =
        json!([{"title": mark(), "caption": mark(), "lines": [[mark(), mark()], [mark(), mark()]]}]);
    receipt["forest"] =
        json!({"title": mark(), "lines": [{"name": mark(), "at": 1.0, "low": 0.5, "high": 2.0}]});
    receipt["stages"] = json!([{"name": mark(), "seconds": 0.5, "bytes": 1500}]);
    receipt["aggregates"] = json!([
        {"name": mark(), "is": mark(), "reveals": mark(), "view": mark(), "members": [mark(), mark()],
         "sealed_total": mark()},
    ]);
    let classes = [mark(), mark()];
    let rows = figures(&classes);
    let mut beside = beside(2);
    beside.columns[0].name = mark();
    let mut own = receipt["evaluation"]["pooled"].clone();
    own["swarm"]["per_class"][0]["class"] = json!(mark());
    let (title, name) = (mark(), mark());
    let Some(Held::Compared(compared)) = super::figures::read(&own) else { panic!("{own}") };
    let page = Page {
        title: &title,
        receipt: Some(&receipt),
        own: Some(&own),
        ledger: Some(mark()),
        rows: Some(Rows { name: &name, figures: &rows, beside: Some(&compared), curve: None, learnt: None }),
        columns: Some(beside),
        warnings: vec![mark()],
        left_out: vec![mark()],
        personal: vec![("file", mark())],
        model: vec![("file", mark())],
    };
    let page = page.render();
    for at in 1..=marks {
        // A sealed total is cut after 12 characters. The name of the task appears only in the list of facts.
        assert!(page.contains(&format!("\u{fffd}&lt;i{at} ")), "place {at} is not on the page");
        assert!(!page.contains(&format!("<i{at}")), "place {at}");
    }
    assert!(!page.contains('\u{202e}') && !page.contains("onload=\"") && !page.contains("\"x\""));
    assert!(marks >= 32, "{marks}");
}

#[test]
fn a_long_name_is_shown_whole_where_there_is_room_and_breaks_where_there_is_none() {
    let long = "x".repeat(5000);
    let classes = [long.clone(), "b".to_owned()];
    let rows = figures(&classes);
    let rows = Rows { name: "r", figures: &rows, beside: None, curve: None, learnt: None };
    let page = Page { title: "t", rows: Some(rows), ..Page::default() }.render();
    assert!(page.contains(&format!("<th scope=\"row\">{long}</th>")));
    // A word is broken only if it is longer than a line. In tables, words are not broken; the table scrolls.
    assert!(page.contains("body { margin: 0; overflow-wrap: break-word;"));
    assert!(
        page.contains("white-space: nowrap; overflow-wrap: normal; }")
            && page.contains(".wide { overflow-x: auto;")
    );
    assert!(!page.contains("anywhere") && !page.contains("break-all"));
}

/// Returns a session of this task from the lines of `[data]` and the sections after it.
fn session(task: &str, data: &str, sections: &str) -> Session {
    let head = "name = \"t\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z";
    let mut text = format!("{head}\ntask = {task}\n[data]\nfeatures = 4\n{data}\n{sections}\n");
    for i in 0..5 {
        let key = Identity::from_seed([i; 32]).public();
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{key}\"\n");
    }
    Session::parse(&text).unwrap()
}

const SETTING: &str = "[[tune.setting]]\nm = 64\ns = 2\nrho = 4";
const CLASSES: &str = "classes = [\"a\", \"b\"]";
const FLYNN: &str = "[flynn]\nm = 64\ns = 2\nrho = 8\ngamma = 0.5\n";
const HELD: &str = "[fedavg]\nrounds = 2\nheld_out = 20";

/// Returns the page of a receipt of this session.
fn page_of(session: &Session) -> String {
    let plan = built_in(session).unwrap().plan;
    let sums = plan.iter().map(|each| json!({"name": each.name, "is": each.is, "reveals": each.told()}));
    let mut receipt = json!({
        "task": session.task.name(), "aggregates": sums.collect::<Vec<_>>(), "opened_unix": [],
    });
    for (name, value) in told(session) {
        receipt[name] = value;
    }
    Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render()
}

#[test]
fn a_page_says_why_it_has_no_figures_of_the_session() {
    let noise = format!("{FLYNN}[privacy]\nepsilon = 0.5\nmode = \"central\"\ntop = 8");
    let unit = format!("{CLASSES}\nscaling = \"unit-norm\"");
    let (drawn, tune) = (format!("{FLYNN}[sketch]\nchosen = 3"), format!("{FLYNN}{SETTING}"));
    for (task, data, sections, told) in [
        ("\"flynn\"", CLASSES, FLYNN, "has no <code>[evaluate]</code>"),
        ("\"flynn\"", &*unit, &*noise, "paid for from the budget"),
        ("\"flynn\"\nselect = \"sketch\"", CLASSES, &*drawn, "If peers are drawn"),
        ("\"tune\"", CLASSES, &*tune, "file of settings has"),
        ("\"fedavg\"", CLASSES, "[fedavg]\nrounds = 2", "of training rows"),
        ("\"fedavg\"", CLASSES, HELD, "accuracy on held-out rows"),
        ("\"xclp\"", CLASSES, "", "hold_out = 20"),
    ] {
        let page = page_of(&session(task, data, sections));
        assert!(page.contains("<h2>Quality of the result</h2>") && page.contains(told), "{task}: {page}");
    }
    // A session of the task sketch predicts nothing.
    assert!(!page_of(&session("\"sketch\"", "", "")).contains("<h2>How good"));
}

#[test]
fn a_page_shows_the_figures_of_the_receipt_and_tables_beside_every_picture() {
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    let swarm = &receipt["evaluation"]["pooled"]["swarm"];
    let balanced = swarm["balanced_accuracy"]["value"].as_f64().unwrap();
    assert!(page.contains(&format!("<strong>{:.0} %</strong>", 100.0 * balanced)));
    // The page uses the same sentences as other outputs, and the usual terms for two classes.
    let Some(Held::Compared(found)) = super::figures::read(&receipt["evaluation"]["pooled"]) else {
        panic!()
    };
    let headline = maud::html! { strong { (found.headline("held-out rows")) "." } }.into_string();
    assert!(page.contains(&headline), "{headline}");
    for name in ["always ", "The positive class is <b>", "sensitivity", "specificity", "PPV", "NPV"] {
        assert!(page.contains(name), "{name}");
    }
    for cell in swarm["confusion"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()) {
        assert!(page.contains(&format!(">{cell}</td>")), "{cell}");
    }
    assert!(page.contains("better than what each peer learns from its own rows alone: +11.7 points"));
    assert!(
        page.contains("No budget was spent") && page.contains("<td>75.0 %</td>") && page.contains("1 min")
    );
    assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\"><title>").count());
    assert_eq!(page.matches("<table").count(), page.matches("<caption>").count());
    assert!(page.contains("<title>Calibration</title><desc>predicted "));
    for heading in
        ["Recall by class", "Sensitivity and specificity", "ROC", "Calibration", "Confusion matrix"]
    {
        assert!(page.contains(&format!("<h3>{heading}</h3>")), "{heading}");
    }
    // If there are no own figures, the page does not mention them.
    assert!(!page.contains("These figures are only for its own held-out rows. No other"));
}

#[test]
fn warnings_stand_first_and_a_receipt_alone_counts_them() {
    let mut receipt = receipt();
    receipt["warnings"] = json!({"columns": 2, "quality": 1});
    let render = |warnings: &[&str]| {
        let warnings = warnings.iter().map(|&line| line.to_owned()).collect();
        Page { title: "t", receipt: Some(&receipt), warnings, ..Page::default() }.render()
    };
    let page = render(&["a constant column", "worse than alone"]);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"));
    assert!(place("<h2>Warnings</h2>") < place("<p class=\"verdict bad\">worse than alone</p>"));
    assert!(place("worse than alone</p>") < place("<h2>Quality of the model</h2>"));
    let page = render(&[]);
    assert!(page.contains("was warned while the session ran (columns: 2, quality: 1)"), "{page}");
    receipt["warnings"] = json!({});
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    assert!(!page.contains("<h2>Warnings</h2>"));
}

#[test]
fn few_events_get_no_green_verdict() {
    let mut receipt = receipt();
    receipt["evaluation"]["pooled"]["swarm"]["per_class"][0]["rows"] = json!(19);
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    assert!(page.contains("<p class=\"verdict\">Too few events to say how good the swarm is: 19 rows of"));
    assert!(!page.contains("verdict good") && !page.contains("points of balanced"));
}

#[test]
fn a_page_shows_the_figures_of_a_result_that_is_compared_with_nothing() {
    let mut receipt = receipt();
    let pooled = &mut receipt["evaluation"]["pooled"];
    *pooled = json!({"swarm": pooled["swarm"]});
    let own = pooled.clone();
    let page = Page { title: "t", receipt: Some(&receipt), own: Some(&own), ..Page::default() }.render();
    let figures: Figures = serde_json::from_value(own["swarm"].clone()).unwrap();
    for rows in ["held-out rows", "its own held-out rows"] {
        let headline = maud::html! { strong { (figures.headline(rows)) "." } }.into_string();
        assert!(page.contains(&headline), "{headline}");
    }
    assert!(page.contains("sensitivity") && !page.contains("own data only"));
}

#[test]
fn receipts_that_are_none_make_a_page_all_the_same() {
    for receipt in
        [json!(null), json!([1]), json!({"evaluation": {"pooled": {"swarm": 1}}}), json!({"stages": 3})]
    {
        let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
        assert!(page.ends_with("</html>\n"));
    }
    let mut contradictory = receipt();
    contradictory["evaluation"]["pooled"] = Value::Null;
    contradictory["evaluation"]["contradictory"] = json!(true);
    let page = Page { title: "t", receipt: Some(&contradictory), ..Page::default() }.render();
    assert!(page.contains("contradict each other") && !page.contains("class=\"cards\""));
    // Figures that an earlier version wrote are not reported as missing.
    let mut earlier = receipt();
    earlier["evaluation"]["pooled"]["swarm"]["majority"] = Value::Null;
    let page = Page { title: "t", receipt: Some(&earlier), ..Page::default() }.render();
    assert!(page.contains("another version of this program") && !page.contains("No peer held out"));
}

#[test]
fn the_farthest_columns_are_shown_and_the_rest_is_told_in_a_sentence() {
    let own = json!({"columns": beside(40)});
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), own: Some(&own), ..Page::default() }.render();
    assert_eq!(page.matches("class=\"spark\"").count(), columns::MOST);
    assert!(page.contains("<th scope=\"row\">column 29</th>") && !page.contains("column 30<"));
    assert!(page.contains("10 more columns are not shown; their distance is at most 10.00 deviations."));
    assert!(page.contains("the mean here lies 11.00 deviations above the pool"));
    // A column that is constant in the pool has no deviation that could set a scale.
    let mut constant = beside(1);
    constant.columns[0].pool.deviation = 0.0;
    let page = Page { title: "t", columns: Some(constant), ..Page::default() }.render();
    assert!(page.contains("constant in the pool") && !page.contains("class=\"spark\""));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn what_was_decided_is_told_with_its_time_and_what_it_is() {
    let page = Page { title: "t", receipt: Some(&receipt()), ..Page::default() }.render();
    // The peer joined at 1.0, and a sum was opened at 13.5. The other sum was opened before a restart.
    let row = "holders<small>who has rows</small></th>";
    let mut receipt = receipt();
    receipt["aggregates"][0]["name"] = json!("holders");
    receipt["aggregates"][0]["is"] = json!("who has rows");
    let told = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    assert!(
        told.contains(&format!("{row}<td>12.5 s</td><td>1 January 1970, 00:00 UTC</td><td>2</td>")),
        "{told}"
    );
    assert!(page.contains("<td>before a restart</td><td>unknown</td>"));
    assert!(page.contains("<summary>Decisions<small>2 sums</small></summary>"));
    receipt["aggregates"] = (0..41).map(|_| receipt["aggregates"][0].clone()).collect();
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    assert!(page.contains("<small>41 sums</small></summary>"), "many rounds are folded away");
}

#[test]
fn budget_and_what_others_learn_are_told_for_every_task() {
    let exact = "No budget was spent: sums are exact";
    let select = "\"flynn\"\nselect = \"sketch\"";
    let (held, tune) = (format!("{FLYNN}[evaluate]"), format!("{FLYNN}{SETTING}"));
    let drawn = format!("{FLYNN}[sketch]\nchosen = 3");
    for (task, data, sections, told) in [
        ("\"flynn\"", CLASSES, &*held, "under a second matrix"),
        (select, CLASSES, &*drawn, "over the rows of the drawn peers"),
        ("\"tune\"", CLASSES, &*tune, "how many rows each setting has right"),
        ("\"fedavg\"", CLASSES, "[fedavg]\nrounds = 2", "weights after every round"),
        ("\"sketch\"", "", "", "how dense all rows together are"),
        ("\"sketch\"", "", "[sketch]\nopen_distances = true", "how far each peer's rows lie from all"),
        ("\"sketch\"", "", "[sketch]\npairwise = true", "how dense each peer's own rows are"),
    ] {
        let session = session(task, data, sections);
        let page = page_of(&session);
        assert!(page.contains(exact) && page.contains(told), "{task}: {page}");
        assert!(page.contains("what is left is this peer"), "{task}");
        assert!(!page.contains("with noise") && !page.contains("<li><b>?"), "{task}");
        assert_eq!(page.matches("weights after every round").count(), usize::from(task == "\"fedavg\""));
        let can = session.task.release(&session.data) != Release::Nothing;
        assert_eq!(page.contains("A session with privacy.epsilon has one."), can, "{task}");
    }
}

#[test]
fn a_task_that_shares_rows_says_what_two_members_can_know() {
    let page = page_of(&session("\"xclp\"", CLASSES, ""));
    for told in ["answers are exact", "how many rows each member has", "know every hash", "coarse scores"] {
        assert!(page.contains(told), "{told}");
    }
    let partly = format!("{HELD}\n[pseudo_labels]\nafter = 1");
    let page = page_of(&session("\"fedavg-xclp\"", CLASSES, &partly));
    for told in [
        "answers are exact",
        "know every hash",
        "weights after every round",
        "how many rows each member trains on",
        "a salted hash of its input",
        "how many labels of each class there are",
        "over all rows with a label",
    ] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn a_task_with_checked_cells_says_nothing_of_labels() {
    let columns = "scaling = \"none\"\ncolumns = [\"a\", \"b\", \"c\", \"d\"]";
    for (task, section) in [("summary", "[summary]"), ("glm", "[glm]\noutcome = \"a\"")] {
        let page = page_of(&session(&format!("{task:?}"), columns, section));
        for told in ["know the counts of each peer", "the opened numbers are exact"] {
            assert!(page.contains(told), "{task}: {told} is not in {page}");
        }
        for other in ["coarse scores", "every hash", "rows are compared", "under masks", "peer that asked"] {
            assert!(!page.contains(other), "{task}: {other} in {page}");
        }
    }
}

#[test]
fn a_page_of_tables_starts_with_the_sentence_of_its_task_and_no_name_is_cut() {
    let long = "a column whose name has more than twenty characters";
    let receipt = json!({
        "task": "glm", "aggregates": [], "headline": "The interval excludes <1>.",
        "tables": [{"title": "T", "caption": "closed: few", "lines": [["", "all"], ["n", "7"], [long, "closed"]]}],
        "forest": {"title": "odds ratio", "log": true, "lines": [
            {"name": long, "at": 2.0, "low": 0.5, "high": 8.0}, {"name": "none", "at": 1.0, "low": 1.0, "high": null},
        ]},
    });
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    for part in [
        "<p class=\"answer\">The interval excludes &lt;1&gt;.</p>".to_owned(),
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"closed: few\"><table>".to_owned(),
        "<tr><th scope=\"row\">n</th><td>7</td></tr>".to_owned(),
        format!("<tr><th scope=\"row\">{long}</th><td><svg"),
        format!("<title>odds ratio of {long}</title><desc>2.000, interval 0.5000 to 8.000</desc>"),
        "<span>0.5000</span><span>8.000</span>".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} is not in {page}");
    }
    // A term that has no interval is not drawn.
    assert_eq!(page.matches("<svg").count(), 1);
    for tag in tags(&page).into_iter().filter(|tag| *tag == "th" || tag.starts_with("th ")) {
        assert!(tag.contains("scope="), "<{tag}>");
    }
}

#[test]
fn noise_and_its_budget_are_told_by_mode() {
    let exact = "No budget was spent: sums are exact";
    for (mode, unit) in [
        ("per-party", "spent an equal part"),
        ("parallel", "with a row at one peer; with rows"),
        ("central", "drew the noise of the total together"),
    ] {
        let noise = format!("{FLYNN}[privacy]\nepsilon = 0.5\nmode = \"{mode}\"\ntop = 8");
        let scaled = format!("{CLASSES}\nscaling = \"unit-norm\"");
        let page = page_of(&session("\"flynn\"", &scaled, &noise));
        assert!(page.contains(&format!("The session spent epsilon = 0.5 ({mode}): ")), "{page}");
        assert!(page.contains(unit) && page.contains("; with noise.") && !page.contains(exact), "{page}");
        // For sketches, peers do not draw noise together.
        if mode != "central" {
            let noise = format!("[privacy]\nepsilon = 0.5\nmode = \"{mode}\"");
            let page = page_of(&session("\"sketch\"", "scaling = \"unit-norm\"", &noise));
            assert!(page.contains(&format!("The session spent epsilon = 0.5 ({mode}): ")), "{page}");
            assert!(page.contains(unit) && page.contains("; with noise.") && !page.contains(exact), "{page}");
        }
    }
}

#[test]
fn a_task_of_a_program_is_told_in_its_own_words() {
    let aggregates = json!([
        {"name": "coin", "is": "a random number", "reveals": "nothing of anybody's rows"},
        {"name": "mine", "is": "counts of bins", "reveals": "how many rows of all peers lie in each bin"},
    ]);
    let receipt = json!({"task": "mine", "aggregates": aggregates, "opened_unix": [], "sent_as": "sums"});
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    assert!(page.contains("counts of bins"), "{page}");
    assert!(page.contains("<b>mine</b>: how many rows of all peers lie in each bin."), "{page}");
    assert!(!page.contains("<h2>How good"), "nothing is known of how good the result is");
}
