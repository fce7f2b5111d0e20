use super::*;

fn said(places: &[(&str, Option<&'static str>)]) -> String {
    OwnRows::new(places).text
}

fn rounds(all: u32, included: impl Fn(u32) -> bool) -> Vec<(String, Option<&'static str>)> {
    (1..=all).map(|round| (format!("round-{round}"), (!included(round)).then_some(ABSENT))).collect()
}

#[test]
fn a_sentence_names_rounds_in_ranges_and_the_other_sums() {
    let all = rounds(300, |round| round <= 50);
    let mut places = vec![("holders", None), ("moments", None)];
    places.extend(all.iter().map(|(name, reason)| (&**name, *reason)));
    places.push(("scores", Some(ABSENT)));
    assert_eq!(
        said(&places),
        "your rows are in rounds 1 to 50 and in holders, moments; not in the later ones"
    );
    let all = rounds(9, |round| ![4, 6, 7].contains(&round));
    let places: Vec<_> = all.iter().map(|(name, reason)| (&**name, *reason)).collect();
    assert_eq!(
        said(&places),
        "your rows are in rounds 1 to 3 and 5 and 8 and 9; not in rounds 4 and 6 and 7"
    );
}

#[test]
fn a_sentence_says_why_rows_are_left_out() {
    let drawn = Some("this peer was not drawn");
    assert_eq!(
        said(&[("sketch", None), ("holders", drawn), ("counts", drawn)]),
        "your rows are in sketch; not in the later ones (this peer was not drawn)"
    );
    assert_eq!(
        said(&[("sketch", Some(ABSENT)), ("moments", None), ("counts", drawn)]),
        "your rows are in moments; not in sketch, nor in counts (this peer was not drawn)"
    );
    assert_eq!(
        said(&[("holders", Some(ABSENT)), ("counts", Some(ABSENT))]),
        "your rows are in none of the sums: this peer was absent"
    );
    assert_eq!(
        said(&[("holders", Some(ABSENT)), ("counts", None)]),
        "your rows are in counts; not in the earlier ones"
    );
    assert_eq!(
        said(&[("rows", None), ("labelled-1", None)]),
        "your rows are in all sums: labelled 1 and in rows"
    );
    assert_eq!(said(&[]), "your rows are in none of the sums: no sum uses rows");
}
