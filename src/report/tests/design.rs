//! Tests of the order of a page, and of its contrast, landmarks and names for screen readers.

use super::*;
use crate::html::STYLE;

/// Returns figures of rows of the classes `ill` and `well`. `right` has the numbers of correct predictions.
fn two(rows: [u16; 2], right: [u16; 2]) -> Figures {
    let (mut labels, mut told) = (Vec::new(), Vec::new());
    for class in 0..2 {
        let (all, well) = (rows[usize::from(class)], right[usize::from(class)]);
        labels.extend(std::iter::repeat_n(class, all.into()));
        told.extend((0..all).map(|row| if row < well { class } else { 1 - class }));
    }
    let classes = ["ill", "well"].map(String::from);
    Figures::new(&classes, &Sums::of_classes(2, &labels, &told), None).unwrap()
}

/// Returns the page of a session with these figures of all peers.
fn page_with(figures: &Figures, gain: Option<Gain>) -> String {
    let mut receipt = receipt();
    let pooled = &mut receipt["evaluation"]["pooled"];
    *pooled = match gain {
        Some(gain) => json!({
            "swarm": figures, "alone": figures, "neighbours": figures, "gain_over_alone": gain,
            "gain_over_neighbours": gain,
        }),
        None => json!({ "swarm": figures }),
    };
    Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render()
}

fn gain(low: f64, high: f64) -> Option<Gain> {
    Some(Gain { value: (low + high) / 2.0, low, high })
}

#[test]
fn the_headline_is_one_sentence_that_follows_from_the_intervals() {
    let good = two([100, 100], [90, 80]);
    for (figures, gain, class, text) in [
        (
            &good,
            gain(0.1, 0.2),
            "answer good",
            "right for 85 % of the held-out rows, averaged over the classes: better than always \"ill\" (50 %), and better than what each peer learns from its own rows alone.",
        ),
        (
            &good,
            gain(-0.1, 0.2),
            "answer good",
            "(50 %), but not clearly different from what each peer learns",
        ),
        (
            &good,
            gain(-0.2, -0.1),
            "answer",
            "(50 %), but worse than what each peer learns from its own rows alone.",
        ),
        (&good, None, "answer good", "better than always \"ill\" (50 %)."),
        // If a class may be wrong more often than right, the headline is not green.
        (&two([100, 100], [95, 55]), None, "answer", "right for 75 % of the held-out rows"),
        (
            &two([100, 100], [50, 50]),
            None,
            "answer bad",
            "The model is not good enough to use: on the held-out rows it is no better than always \"ill\".",
        ),
        (
            &two([19, 100], [19, 100]),
            None,
            "answer",
            "It is not clear whether the model is good enough to use: only 19 of the held-out rows are of class \"ill\", and 20 are needed.",
        ),
    ] {
        let page = page_with(figures, gain);
        let told =
            page.split(&format!("<p class=\"{class}\">")).nth(1).and_then(|rest| rest.split("</p>").next());
        assert!(
            told.is_some_and(|told| told.contains(&*maud::html! { (text) }.into_string())),
            "{text}: {told:?}"
        );
        assert_eq!(page.matches("<p class=\"answer").count(), 1);
    }
}

#[test]
fn rows_that_the_model_may_have_learnt_from_show_nothing() {
    let figures = two([100, 100], [90, 80]);
    let page = |learnt| {
        let rows = Some(Rows { name: "r", figures: &figures, beside: None, curve: None, learnt });
        Page { title: "t", rows, ..Page::default() }.render()
    };
    assert!(page(None).contains("<p class=\"answer good\">The model is right for 85 % of r,"));
    let told = page(Some("3 of these rows are <known>"));
    let line = "<p class=\"answer\">It is not clear whether the model is good enough to use: 3 of these rows are &lt;known&gt;.</p>";
    assert!(told.contains(line) && !told.contains("answer good"), "{told}");
}

#[test]
fn each_class_is_named_once_by_the_side_of_half_on_which_its_interval_lies() {
    let told = |rows, right| {
        let page = page_with(&two(rows, right), None);
        page.split("<h3>For which class</h3>").nth(1).unwrap().split("</dl>").next().unwrap().to_owned()
    };
    let list = told([100, 100], [90, 10]);
    assert!(list.contains("<dt>More than half right</dt><dd>ill (90 %)</dd>"), "{list}");
    assert!(list.contains("<dt>More than half wrong</dt><dd>well (10 %)</dd>"), "{list}");
    assert!(!list.contains("Unclear") && !list.contains("Too few"), "{list}");
    let list = told([19, 100], [19, 55]);
    assert!(list.contains("<dt>Unclear</dt><dd>well (55 %)</dd>"), "{list}");
    assert!(list.contains("<dt>Too few rows to say</dt><dd>ill (19 rows)</dd>"), "{list}");
}

#[test]
fn a_page_says_for_whom_its_figures_say_nothing() {
    let mut own = json!({"swarm": two([9, 40], [9, 40])});
    own["columns"] = json!(beside(3));
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), own: Some(&own), ..Page::default() }.render();
    let list = page.split("<h3>For whom</h3>").nth(1).unwrap().split("</dl>").next().unwrap();
    for told in [
        "<dt>This peer</dt><dd>unclear: 9 held-out rows of class &quot;ill&quot;, and 20 are needed</dd>",
        // The columns have the distances 3, 2 and 1. The first has the hostile name of the other tests.
        "<dd>2 of 3 more than one deviation from the pool: &lt;script&gt;",
        "column 1</dd>",
        ", bob</dd>",
        "<dt>Not measured</dt><dd>&lt;script&gt;",
        "<dt>Says nothing about</dt><dd>rows of places that did not take part</dd>",
    ] {
        assert!(list.contains(told), "{told} is not in {list}");
    }
}

#[test]
fn quality_comes_first_then_what_was_learnt_and_technical_detail_is_folded() {
    let own = json!({"columns": beside(2)});
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), own: Some(&own), ..Page::default() }.render();
    let places = [
        "<p class=\"answer",
        "<h3>For which class</h3>",
        "<h3>For whom</h3>",
        "<h2>Quality of the model</h2>",
        "compared with the pool</h2>",
        "<h2>What was learnt about whom</h2>",
        "<h3>Budget</h3>",
        "<h2>Technical detail</h2>",
        "<summary>Rounds<",
        "<summary>Decisions<",
        "<summary>Cost<",
        "<summary>The session<",
    ]
    .map(|part| page.find(part).unwrap_or_else(|| panic!("{part} is not in {page}")));
    assert!(places.is_sorted(), "{places:?}");
    assert!(!page.contains("<details open"));
}

#[test]
fn a_page_has_landmarks_a_skip_link_and_headings_of_tables_for_screen_readers() {
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    let body = page.split("<body>").nth(1).unwrap();
    assert!(body.starts_with("<a class=\"skip\" href=\"#main\">Skip to the content</a><header>"), "{body}");
    for part in ["<main id=\"main\" tabindex=\"-1\">", "</main><footer>", "<html lang=\"en\">"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<h1>").count(), 1);
    for tag in tags(&page).into_iter().filter(|tag| tag.starts_with("th ") || *tag == "th") {
        assert!(tag.contains("scope=\"col\"") || tag.contains("scope=\"row"), "<{tag}>");
    }
    // On paper, folded parts are shown too.
    let print = STYLE.split("@media print").nth(1).unwrap();
    assert!(print.contains("details::details-content { display: block; content-visibility: visible;"));
    assert!(STYLE.contains("@media screen and (prefers-color-scheme: dark)"), "paper is never dark");
    assert!(STYLE.contains(":focus-visible { outline: 3px solid var(--accent);"));
}

type Colour = [f64; 3];

/// Returns the colours of light and dark pages.
fn colours(dark: bool) -> impl Fn(&str) -> Colour {
    let block =
        STYLE.split(":root {").nth(1 + usize::from(dark)).unwrap().split('}').next().unwrap().to_owned();
    move |name| {
        let value = block.split(&format!("--{name}: #")).nth(1).unwrap().split(';').next().unwrap();
        [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&value[at..at + 2], 16).unwrap()) / 255.0)
    }
}

fn mixed(one: Colour, other: Colour, share: f64) -> Colour {
    [0, 1, 2].map(|at| share * one[at] + (1.0 - share) * other[at])
}

/// Returns the contrast of two colours as WCAG 2 defines it.
fn contrast(one: Colour, other: Colour) -> f64 {
    let light = |colour: Colour| {
        let linear = colour.map(|value| match value {
            _ if value <= 0.04045 => value / 12.92,
            _ => ((value + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (one, other) = (light(one), light(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_colour_of_a_text_has_the_contrast_of_wcag_aa_in_light_and_dark() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    for dark in [false, true] {
        let (of, name) = (colours(dark), if dark { "dark" } else { "light" });
        let mut told = Vec::new();
        for ground in ["paper", "card"] {
            for (text, least) in [
                ("ink", 4.5),
                ("soft", 4.5),
                ("good", 4.5),
                ("bad", 4.5),
                ("wait", 4.5),
                ("accent", 4.5),
                ("s0", 3.0),
                ("s1", 3.0),
                ("s2", 3.0),
            ] {
                let found = contrast(of(text), of(ground));
                told.push(format!("{text} on {ground} {found:.1}"));
                assert!(found >= least, "{name}: {text} on {ground} has {found:.2}, {least} are needed");
            }
        }
        // Checks the darkest cells of a confusion matrix.
        for cell in ["accent", "bad"] {
            let found = contrast(of("ink"), mixed(of(cell), of("paper"), pictures::DEPTH / 100.0));
            told.push(format!("ink on a cell of {cell} {found:.1}"));
            assert!(found >= 4.5, "{name}: ink on a cell of {cell} has {found:.2}");
        }
        println!("{name}: {}", told.join(", "));
    }
}

#[test]
fn accuracies_of_rounds_are_percent() {
    let receipt = receipt();
    let page = Page { title: "t", receipt: Some(&receipt), ..Page::default() }.render();
    let rounds = page.split("<summary>Rounds<").nth(1).unwrap().split("</details>").next().unwrap();
    for part in
        ["<desc>2 rounds, from 75.0 % to 87.5 %</desc>", ">50.0 %</text>", "<td>0.5000</td><td>75.0 %</td>"]
    {
        assert!(rounds.contains(part), "{part} is not in {rounds}");
    }
}

#[test]
fn columns_are_told_in_the_units_of_people() {
    let spread = |mean: f64, deviation: f64| Spread { mean, deviation };
    let column = |name: &str, here, pool| Column { name: name.to_owned(), here, pool };
    let columns = vec![
        column("admitted", spread(20_783.4, 87.6), spread(-1.0, 30.2)),
        // This column has zeros and ones, so its deviation follows from its mean.
        column("sex=f", spread(0.5, 0.5), spread(0.2, 0.4)),
        column("share", spread(0.5, 0.5), spread(0.2, 0.3)),
        column("age", spread(54.0, 12.0), spread(50.0, 10.0)),
    ];
    let beside = Beside { rows: 60, pool_rows: None, columns, dates: vec!["admitted".to_owned()] };
    let page = Page { title: "t", columns: Some(beside), ..Page::default() }.render();
    for cells in [
        "<td>26 November 2026 \u{b1} 88 days</td><td>31 December 1969 \u{b1} 30 days</td>",
        "<td>50 %</td><td>20 %</td>",
        "A column of zeros and ones is shown as its share of ones.",
        "<td>0.5000 \u{b1} 0.5000</td><td>0.2000 \u{b1} 0.3000</td>",
        "<td>54.00 \u{b1} 12.00</td><td>50.00 \u{b1} 10.00</td>",
    ] {
        assert!(page.contains(cells), "{cells} is not in {page}");
    }
}

#[test]
fn the_roc_curve_is_drawn_from_scores_alone_and_a_page_without_them_says_so() {
    let figures = two([100, 100], [90, 80]);
    let scores: Vec<f64> = (0..200).flat_map(|row| [f64::from(row % 7), 3.0]).collect();
    let labels: Vec<u16> = (0..200).map(|row| row % 2).collect();
    let curve = roc::Curve::of(&figures, &labels, &scores);
    let page = |curve| {
        let rows = Some(Rows { name: "r", figures: &figures, beside: None, curve, learnt: None });
        Page { title: "t", rows, ..Page::default() }.render()
    };
    let (with, without) = (page(curve.as_ref()), page(None));
    assert!(
        with.contains("<polygon class=\"band\"") && with.contains("The curve shows every threshold"),
        "{with}"
    );
    assert!(!without.contains("<polygon") && without.contains("There is no curve, because no scores"));
    for page in [with, without] {
        assert!(page.contains("<desc>model: sensitivity 80 %, specificity 90 %</desc>"), "{page}");
    }
}
