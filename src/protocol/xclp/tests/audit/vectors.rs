//! Attacks on rows: what each role can make of the others' data.

use std::collections::BTreeMap;

use super::attacks::{
    Prior, Regression, Row, aligned, average, cosine, dot, harmonic, mean, placed, quantiles,
};
use super::view::{ROWS, RULE, Run, VIEWS, cosine_of, public, rows};
use super::{at_most, exceeds, say};
use crate::protocol::xclp::{ParcelKind, Rows, dealer};
use crate::session::Peer;

/// The cosine of a private row with the nearest of one's own: the baseline.
pub(super) fn nearest(own: &[Row], row: &Row) -> f64 {
    own.iter().map(|mine| dot(mine, row)).fold(-1.0, f64::max)
}

/// Mean figures of an attack, of the guess that it is held against and of the nearest own row, over the
/// points of `among`.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) attack: f64,
    pub(super) guess: f64,
    pub(super) nearest: f64,
}

/// Sorted values of several views, averaged place by place.
pub(super) fn pooled(views: impl Iterator<Item = Vec<f64>>) -> Row {
    let mut count = 0.0;
    let mut sum: Row = Vec::new();
    for mut values in views {
        values.sort_unstable_by(f64::total_cmp);
        sum.resize(values.len(), 0.0);
        sum.iter_mut().zip(&values).for_each(|(sum, x)| *sum += x);
        count += 1.0;
    }
    sum.iter().map(|x| x / count).collect()
}

/// Which points.
type Among<'a> = &'a dyn Fn(usize) -> bool;

/// A custodian's regression from bags of distances to rows, learnt on its own rows: for each owner that it
/// keeps, `among` of its points.
fn bags(views: &[Run], me: Peer, among: &dyn Fn(usize) -> bool) -> Found {
    let first = &views[0];
    let own = first.rows_of(me);
    let own_distances: Vec<_> = views.iter().map(|run| run.distances(me, me)).collect();
    let at_limit =
        |limits: &[Vec<u16>], row: usize| average(limits.iter().map(|limits| cosine_of(limits[row])));
    let described = |bag: &Row, limit: f64, count: usize| {
        let mut input = quantiles(bag, count);
        input.push(limit);
        input
    };
    let keeper = first.roles.custodians_of(me)[0];
    let own_limits: Vec<_> = views.iter().map(|run| run.limits(keeper, me)).collect();
    let own_bags: Vec<Row> = (0..own.len())
        .map(|row| {
            let cosines = |all: &Vec<Vec<u16>>| {
                let others = all[row].iter().enumerate().filter(|(column, _)| *column != row);
                others.map(|(_, &distance)| cosine_of(distance)).collect()
            };
            pooled(own_distances.iter().map(cosines))
        })
        .collect();
    let kept = first.roles.kept_by(me);
    let mut targets: Vec<(Row, f64, Row)> = Vec::new();
    for owner in first.roles.owners() {
        let others: Vec<Peer> =
            kept.iter().filter(|(one, _)| *one == owner).map(|(_, other)| *other).collect();
        if others.is_empty() {
            continue;
        }
        let blocks: Vec<Vec<_>> = views
            .iter()
            .map(|run| others.iter().map(|&other| run.block(me, owner, other)).collect())
            .collect();
        let limits: Vec<_> = views.iter().map(|run| run.limits(me, owner)).collect();
        for (row, truth) in first.rows_of(owner).into_iter().enumerate() {
            if among(first.range(owner).start + row) {
                let bag = |blocks: &Vec<Vec<Vec<u16>>>| {
                    blocks
                        .iter()
                        .flat_map(|block| block[row].iter().map(|&distance| cosine_of(distance)))
                        .collect()
                };
                targets.push((pooled(blocks.iter().map(bag)), at_limit(&limits, row), truth));
            }
        }
    }
    let mut attack = f64::MIN;
    for count in [6, 24] {
        let inputs: Vec<Row> = own_bags
            .iter()
            .enumerate()
            .map(|(row, bag)| described(bag, at_limit(&own_limits, row), count))
            .collect();
        let asked: Vec<Row> = targets.iter().map(|(bag, limit, _)| described(bag, *limit, count)).collect();
        for regression in Regression::all() {
            let found = regression.learn(&inputs, &own, &asked);
            let figure = average(found.iter().zip(&targets).map(|(row, (_, _, truth))| cosine(row, truth)));
            attack = attack.max(figure);
        }
    }
    let guess = mean(&own);
    Found {
        attack,
        guess: average(targets.iter().map(|(_, _, truth)| cosine(&guess, truth))),
        nearest: average(targets.iter().map(|(_, _, truth)| nearest(&own, truth))),
    }
}

#[test]
fn bags_of_distances_tell_custodians_little_more_than_the_mean_does_in_one_view_or_ten() {
    let hubs = VIEWS[0].hubs();
    let all = |_: usize| true;
    let hub = |point: usize| hubs.contains(&point);
    let cases: [(&str, usize, Among); 4] = [
        ("regression on bags, one view", 1, &all),
        ("regression on bags, ten views", 10, &all),
        ("regression on bags, one view, the tenth of highest degree", 1, &hub),
        ("regression on bags, ten views, the tenth of highest degree", 10, &hub),
    ];
    for (what, views, among) in cases {
        let found: Vec<Found> = VIEWS[0]
            .roles
            .owners()
            .map(|me| bags(&VIEWS[..views], me, among))
            .filter(|found| !found.guess.is_nan())
            .collect();
        let [attack, guess, near] = [|f: &Found| f.attack, |f: &Found| f.guess, |f: &Found| f.nearest]
            .map(|of| average(found.iter().map(of)));
        let worst = found.iter().map(|found| found.attack - found.guess).fold(f64::MIN, f64::max);
        say(
            "custodian",
            what,
            attack,
            &format!("guess {guess:.3} + 0.03, the most that one gains {worst:.3}; nearest own {near:.3}"),
        );
        at_most(what, worst, 0.03);
        at_most(what, attack, near);
    }
}

/// A value that an owner was sent: which of its rows, the point it is the distance to (which it is not told),
/// and the cosine.
pub(super) type Entry = (usize, usize, f64);

/// What an owner was sent of the distances to others, and by the truth to whom: values of ten views of the
/// same pair averaged.
pub(super) fn entries(views: &[Run], me: Peer) -> Vec<Entry> {
    let mut all: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for run in views {
        for custodian in run.roles.custodians_of(me) {
            let values = dealer::from_bytes(&run.parcels[&(me, custodian, ParcelKind::Smallest)]);
            let kept = run.roles.kept_by(custodian).into_iter().filter(|(owner, _)| *owner == me);
            let blocks: Vec<_> =
                kept.map(|(_, other)| (run.range(other).start, run.distances(me, other))).collect();
            for (row, values) in values.chunks(RULE.k).enumerate() {
                let points = |(first, block): &(usize, Vec<Vec<u16>>)| {
                    let first = *first;
                    let pairs: Vec<_> =
                        block[row].iter().enumerate().map(move |(at, &d)| (d, first + at)).collect();
                    pairs
                };
                let mut truth: Vec<(u16, usize)> = blocks.iter().flat_map(points).collect();
                truth.sort_unstable();
                for (&value, &(distance, point)) in values.iter().zip(&truth) {
                    assert_eq!(value, distance, "what was sent are the smallest");
                    all.entry((row, point)).or_default().push(cosine_of(value));
                }
            }
        }
    }
    all.into_iter().map(|((row, point), values)| (row, point, average(values.into_iter()))).collect()
}

#[test]
fn the_smallest_distances_bring_owners_no_nearer_than_their_own_nearest_rows() {
    let points = VIEWS[0].points();
    let hubs = VIEWS[0].hubs();
    for views in [1, 10] {
        let (mut unlinked, mut linked, mut base, mut base_linked) = (vec![], vec![], vec![], vec![]);
        let (mut hub, mut base_hub) = (vec![], vec![]);
        for me in VIEWS[0].roles.owners() {
            let own = VIEWS[0].rows_of(me);
            let prior = Prior::of(&own);
            let entries = entries(&VIEWS[..views], me);
            let mut whose: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
            for &(row, point, value) in &entries {
                let found = prior.likeliest(&[own[row].clone()], &[vec![value]], 0.01);
                let figures = (cosine(&found[0], &points[point]), nearest(&own, &points[point]));
                unlinked.push(figures.0);
                base.push(figures.1);
                if hubs.contains(&point) {
                    hub.push(figures.0);
                    base_hub.push(figures.1);
                }
                whose.entry(point).or_default().push((row, value));
            }
            for (point, known) in &whose {
                let (anchors, values): (Vec<Row>, Vec<Row>) =
                    known.iter().map(|&(row, value)| (own[row].clone(), vec![value])).unzip();
                linked.push(cosine(&prior.likeliest(&anchors, &values, 0.01)[0], &points[*point]));
                base_linked.push(nearest(&own, &points[*point]));
            }
        }
        let of = |figures: &[f64]| average(figures.iter().copied());
        let what = if views == 1 { "one view" } else { "ten views" };
        let line = |attack: &str, found: &[f64], base: &[f64]| {
            say("owner", &format!("{attack}, {what}"), of(found), &format!("nearest own {:.3}", of(base)));
        };
        line("smallest distances, least squares", &unlinked, &base);
        line("the same, the tenth of highest degree", &hub, &base_hub);
        line("the same, told whose each distance is (more than it sees)", &linked, &base_linked);
        at_most("owner", of(&unlinked), of(&base));
        at_most("owner, hubs", of(&hub), of(&base_hub));
    }
}

#[test]
fn naive_results_to_the_pair_give_rows_away() {
    let run = &VIEWS[0];
    let (mut found, mut base) = (vec![], vec![]);
    for me in run.roles.owners() {
        let own = run.rows_of(me);
        let prior = Prior::of(&own);
        for other in run.roles.owners().filter(|&other| other != me) {
            let cosines: Vec<Row> = run
                .distances(me, other)
                .iter()
                .map(|row| row.iter().map(|&d| cosine_of(d)).collect())
                .collect();
            let rows = run.rows_of(other);
            found.extend(prior.likeliest(&own, &cosines, 0.01).iter().zip(&rows).map(|(a, b)| cosine(a, b)));
            base.extend(rows.iter().map(|row| nearest(&own, row)));
        }
    }
    let [found, base] = [found, base].map(|figures| average(figures.into_iter()));
    say(
        "naive: pair",
        "both ends learn their block's distances, least squares",
        found,
        &format!("nearest own {base:.3}"),
    );
    exceeds("result to the pair", found, base + 0.03);
}

#[test]
fn a_graph_without_rows_tells_propagators_no_more_than_the_mean() {
    let points = VIEWS[0].points();
    let public = public();
    let prior = mean(&public);
    let guess = average(points.iter().map(|row| cosine(&prior, row)));
    let n = points.len();
    let pooled: Vec<Row> =
        (0..n).map(|i| (0..n).map(|j| average(VIEWS.iter().map(|run| run.graph[i][j]))).collect()).collect();
    let hubs = VIEWS[0].hubs();
    for (what, graph) in [("one view", &VIEWS[0].graph), ("ten views", &pooled)] {
        let (mut best, mut hub) = (f64::MIN, f64::MIN);
        for axes in [1, 2, 4] {
            for weight in [0.25, 0.5, 1.0] {
                let found: Vec<f64> = aligned(graph, &public, axes, weight)
                    .iter()
                    .zip(&points)
                    .map(|(a, b)| cosine(a, b))
                    .collect();
                best = best.max(average(found.iter().copied()));
                hub = hub.max(average(hubs.iter().map(|&i| found[i])));
            }
        }
        let of_hubs = average(hubs.iter().map(|&i| cosine(&prior, &points[i])));
        say(
            "propagator",
            &format!("spectral geometry, {ROWS} public rows, {what}"),
            best,
            &format!("guess {guess:.3} + 0.03"),
        );
        say(
            "propagator",
            &format!("the same, the tenth of highest degree, {what}"),
            hub,
            &format!("guess {of_hubs:.3} + 0.03"),
        );
        at_most("propagator", best, guess + 0.03);
        at_most("propagator, hubs", hub, of_hubs + 0.03);
    }
}

#[test]
fn a_naive_propagator_with_rows_gets_nearer_than_its_nearest_rows() {
    let run = &VIEWS[0];
    let points = run.points();
    let (mut found, mut base) = (vec![], vec![]);
    for me in run.roles.owners() {
        let own = run.rows_of(me);
        let range = run.range(me);
        let known: Vec<Option<Row>> =
            (0..points.len()).map(|i| range.contains(&i).then(|| points[i].clone())).collect();
        let rows = harmonic(&run.graph, &known, &mean(&own), 0.001);
        for i in (0..points.len()).filter(|i| !range.contains(i)) {
            found.push(cosine(&rows[i], &points[i]));
            base.push(nearest(&own, &points[i]));
        }
    }
    let [found, base] = [found, base].map(|figures| average(figures.into_iter()));
    say(
        "naive: propagator",
        "rows of its own, harmonic extension over the graph",
        found,
        &format!("nearest own {base:.3}"),
    );
    exceeds("a propagator with rows", found, base);
}

#[test]
fn a_naive_custodian_of_both_sides_of_a_block_unblinds_it() {
    let few = rows().into_iter().map(|(peer, rows)| {
        let some: Vec<usize> = (0..20).collect();
        let labels = rows.labels[..20].to_vec();
        (peer, Rows { data: rows.data.subset(&some).into(), labels: labels.into() })
    });
    let run = Run::of(few.collect(), 7, [3, 1]);
    let (one, other) = (Peer(0), Peer(1));
    let sides = [(one, other), (other, one)].map(|(a, b)| run.block(run.roles.custodian(a, b), a, b));
    let truth = run.distances(one, other);
    // A place is right by chance when any value of the row may stand there.
    let right = |places: &[Vec<Option<u16>>]| {
        average(places.iter().zip(&truth).flat_map(|(row, truth)| {
            row.iter().zip(truth).map(|(place, value)| f64::from(u8::from(*place == Some(*value))))
        }))
    };
    let as_sent: Vec<Vec<Option<u16>>> =
        sides[0].iter().map(|row| row.iter().copied().map(Some).collect()).collect();
    say(
        "custodian",
        "places of a block's distances, as they were sent",
        right(&as_sent),
        "one in 20 by chance",
    );
    at_most("a block as it was sent", right(&as_sent), 0.1);
    let both = right(&placed(&sides[0], &sides[1]));
    say("naive: ring of 3", "both sides of a block of 20 rows: places found", both, "0.050 by chance");
    exceeds("both sides of a block", both, 0.9);
}
