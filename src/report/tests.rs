//! Nothing from outside becomes markup, and what a page shows is what the receipt says.

use flyswarm_kernels::model::figures::Sums;
use serde_json::json;

use super::*;

const EVIL: &str = "<script>alert(1)</script>\"'&";

fn figures(classes: &[String]) -> Figures {
    let labels: Vec<u16> = (0..60).map(|i| i % 2).collect();
    let scores: Vec<f64> = (0..120).map(|i| f64::from(i * i % 17)).collect();
    Figures::new(classes, &Sums::of_scores(2, &labels, &scores, 8)).unwrap()
}

fn receipt() -> Value {
    let classes = [EVIL.to_owned(), "b".to_owned()];
    let gain = Gain::of(9, 2, 60);
    let found = figures(&classes);
    json!({
        "name": EVIL, "peer": EVIL, "session": EVIL, "created": EVIL, "started_unix": 1.0, "seconds": 61.0,
        "counted": true, "views": 1, "data": {"rows": 60},
        "council": {"members": 3, "faults": EVIL, "not_prevented": EVIL},
        "quantities": [
            {"name": "counts", "view": EVIL, "members": [EVIL, "bob"], "sealed_total": EVIL},
            {"name": EVIL, "view": "1 of 2", "members": [EVIL, "bob"], "sealed_total": "00"},
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

/// The text of each tag of a page.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).filter_map(|part| part.split('>').next()).collect()
}

#[test]
fn names_from_outside_never_become_markup() {
    let receipt = receipt();
    let own = receipt["evaluation"]["pooled"].clone();
    let classes = [EVIL.to_owned(), "b".to_owned()];
    let rows = figures(&classes);
    let page = Page {
        title: EVIL,
        receipt: Some(&receipt),
        own: Some(&own),
        budget: Some(EVIL.to_owned()),
        rows: Some((&rows, EVIL)),
        model: vec![("file", EVIL.to_owned())],
    };
    let page = page.render();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
    assert!(!page.contains("<script") && !page.contains("alert(1)</script"));
    // No tag begins in a name, and no attribute ends in one.
    let known = [
        "!doctype", "html", "head", "meta", "title", "style", "body", "main", "header", "p", "h1", "h2",
        "h3", "section", "div", "span", "strong", "small", "b", "br", "i", "table", "caption", "thead",
        "tbody", "tr", "th", "td", "figure", "svg", "text", "rect", "path", "circle", "polyline", "details",
        "summary", "dl", "dt", "dd", "ul", "li", "code", "footer",
    ];
    for tag in tags(&page) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(known.contains(&name), "<{tag}>");
        let acts = tag.split(' ').any(|word| word.starts_with("on") && word.contains('='));
        assert!(tag.matches('"').count() % 2 == 0 && !acts, "<{tag}>");
    }
    // Nothing is loaded.
    for loads in ["src=", "href=", "url(", "@import", "http:", "https:"] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn a_page_shows_the_figures_of_the_receipt_and_tables_beside_every_picture() {
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    let swarm = &receipt["evaluation"]["pooled"]["swarm"];
    let accuracy = swarm["accuracy"]["value"].as_f64().unwrap();
    assert!(page.contains(&format!("<strong>{:.1} %</strong>", 100.0 * accuracy)));
    for cell in swarm["confusion"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()) {
        assert!(page.contains(&format!(">{cell}</td>")), "{cell}");
    }
    assert!(page.contains("better than a model of each peer's own rows alone: +11.7 points"));
    assert!(
        page.contains("No budget was spent") && page.contains("<td>0.7500</td>") && page.contains("1 min")
    );
    assert_eq!(page.matches("<svg").count(), page.matches("role=\"img\" aria-label=\"").count());
    assert_eq!(page.matches("<table").count(), page.matches("<caption>").count());
    assert!(page.contains("aria-label=\"Calibration: stated"));
    // Without own figures nothing is said of own rows.
    assert!(!page.contains("own held-out rows alone. Nobody"));
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
}
