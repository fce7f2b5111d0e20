//! Ten sessions on the same rows. In each the coin draws other roles and every owner gives its rows another
//! order; a peer puts together what it saw in all of them, as custodian, owner and, if it has no rows,
//! propagator.
//!
//! Attackers are told which row of one session is which of another: more than they see, so their figures are
//! above what a real one reaches.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::attacks::{
    Prior, Regression, Row, aligned, average, cosine, dot, fitted, mean, placed, quantiles,
};
use super::vectors::{Found, entries, nearest, pooled};
use super::view::{OWNERS, ROWS, Run, VIEWS, cosine_of, public, rows};
use super::{at_most, exceeds, say};
use crate::crypto::stream::Stream;
use crate::data::deal::shuffle;
use crate::protocol::xclp::Rows;
use crate::session::Peer;

/// How many.
const SESSIONS: u8 = 10;

/// A session and the orders that owners gave their rows in it.
struct Session {
    run: Run,
    /// Place in this session -> row.
    order: BTreeMap<Peer, Vec<usize>>,
}

/// Five owners and two witnesses, who are the propagators of all sessions.
static SMALL: LazyLock<Vec<Session>> = LazyLock::new(|| sessions(OWNERS + 2));
/// Two witnesses more: now propagator, now custodian, now without a role.
static MORE: LazyLock<Vec<Session>> = LazyLock::new(|| sessions(OWNERS + 4));

fn sessions(members: u16) -> Vec<Session> {
    (1..=SESSIONS).map(|number| Session::of(rows().into_iter(), members, number)).collect()
}

impl Session {
    fn of(rows: impl Iterator<Item = (Peer, Rows)>, members: u16, number: u8) -> Self {
        let mut order = BTreeMap::new();
        let shuffled = |(peer, rows): (Peer, Rows)| {
            let mut places: Vec<usize> = (0..rows.labels.len()).collect();
            shuffle(&mut places, &mut Stream::new(b"audit", "order", &[peer.0 as u8, number]));
            let labels = places.iter().map(|&row| rows.labels[row]).collect();
            let data = rows.data.subset(&places);
            order.insert(peer, places);
            (peer, Rows { data: Arc::new(data), labels: Arc::new(labels) })
        };
        let rows = rows.map(shuffled).collect();
        Self { run: Run::of(rows, members, [number + 100, number + 100]), order }
    }

    /// A point of this session as it is numbered without an order.
    fn point(&self, point: usize) -> usize {
        let owner = self.run.roles.owners().find(|&owner| self.run.range(owner).contains(&point)).unwrap();
        let first = self.run.range(owner).start;
        first + self.order[&owner][point - first]
    }

    /// The bags that `me` keeps of an owner's rows, all blocks of a row together, and the limits; by the
    /// point.
    fn bags(&self, me: Peer, owner: Peer) -> Vec<(usize, Row, f64)> {
        let kept = self.run.roles.kept_by(me).into_iter().filter(|(one, _)| *one == owner);
        let blocks: Vec<_> = kept.map(|(_, other)| self.run.block(me, owner, other)).collect();
        if blocks.is_empty() {
            return Vec::new();
        }
        let limits = self.run.limits(me, owner);
        let first = self.run.range(owner).start;
        let of = |place: usize| {
            let bag =
                blocks.iter().flat_map(|block| block[place].iter().map(|&distance| cosine_of(distance)));
            (self.point(first + place), bag.collect(), cosine_of(limits[place]))
        };
        (0..limits.len()).map(of).collect()
    }

    /// The distances of each of its own rows to its other ones, and its limits, which an owner knows; by the
    /// row.
    fn own_bags(&self, me: Peer) -> Vec<(usize, Row, f64)> {
        let distances = self.run.distances(me, me);
        let limits = self.run.limits(self.run.roles.custodians_of(me)[0], me);
        let of = |place: usize| {
            let others = distances[place].iter().enumerate().filter(|(column, _)| *column != place);
            let bag = others.map(|(_, &distance)| cosine_of(distance)).collect();
            (self.order[&me][place], bag, cosine_of(limits[place]))
        };
        (0..limits.len()).map(of).collect()
    }
}

/// Quantiles and limit of each bag, averaged over the sessions that have one of the same point.
fn described(bags: &[(usize, Row, f64)], count: usize) -> BTreeMap<usize, Row> {
    let mut all: BTreeMap<usize, Vec<Row>> = BTreeMap::new();
    for (point, bag, limit) in bags {
        let mut input = quantiles(bag, count);
        input.push(*limit);
        all.entry(*point).or_default().push(input);
    }
    all.into_iter().map(|(point, inputs)| (point, mean(&inputs))).collect()
}

/// What a peer with rows makes of the bags that it kept in these sessions: others' rows by the point, from
/// the best regression.
fn regressed(sessions: &[Session], me: Peer) -> BTreeMap<usize, Row> {
    let (own, points) = (VIEWS[0].rows_of(me), VIEWS[0].points());
    let known: Vec<_> = sessions.iter().flat_map(|session| session.own_bags(me)).collect();
    let owners = VIEWS[0].roles.owners().filter(|&owner| owner != me);
    let seen = owners.flat_map(|owner| sessions.iter().flat_map(move |session| session.bags(me, owner)));
    best(&known, &own, &seen.collect::<Vec<_>>(), &points)
}

/// The rows behind bags, learnt from known ones; settings by the truth.
fn best(
    known: &[(usize, Row, f64)],
    rows: &[Row],
    seen: &[(usize, Row, f64)],
    points: &[Row],
) -> BTreeMap<usize, Row> {
    let mut best = (f64::MIN, BTreeMap::new());
    for count in [6, 24] {
        let inputs: Vec<Row> = described(known, count).into_values().collect();
        let (asked, inputs_of): (Vec<usize>, Vec<Row>) = described(seen, count).into_iter().unzip();
        for regression in Regression::all() {
            let found: BTreeMap<_, _> =
                asked.iter().copied().zip(regression.learn(&inputs, rows, &inputs_of)).collect();
            let figure = average(found.iter().map(|(&point, row)| cosine(row, &points[point])));
            if figure > best.0 {
                best = (figure, found);
            }
        }
    }
    best.1
}

fn figures(found: &BTreeMap<usize, Row>, own: &[Row], among: &dyn Fn(usize) -> bool) -> Found {
    let points = VIEWS[0].points();
    let guess = mean(own);
    let of = |figure: &dyn Fn(usize, &Row) -> f64| {
        average(found.iter().filter(|(point, _)| among(**point)).map(|(&point, row)| figure(point, row)))
    };
    Found {
        attack: of(&|point, row| cosine(row, &points[point])),
        guess: of(&|point, _| cosine(&guess, &points[point])),
        nearest: of(&|point, _| nearest(own, &points[point])),
    }
}

#[test]
fn bags_of_ten_sessions_with_other_roles_tell_custodians_little_more_than_the_mean_does() {
    let hubs = VIEWS[0].hubs();
    let sets: [(&str, &dyn Fn(usize) -> bool); 2] = [
        ("ten sessions", &|_| true),
        ("ten sessions, the tenth of highest degree", &|point| hubs.contains(&point)),
    ];
    let of_all: Vec<_> = VIEWS[0].roles.owners().map(|me| (me, regressed(&SMALL, me))).collect();
    for (what, among) in sets {
        let found: Vec<_> =
            of_all.iter().map(|(me, rows)| figures(rows, &VIEWS[0].rows_of(*me), among)).collect();
        let [attack, guess, near] = [|f: &Found| f.attack, |f: &Found| f.guess, |f: &Found| f.nearest]
            .map(|of| average(found.iter().map(of)));
        let worst = found.iter().map(|found| found.attack - found.guess).fold(f64::MIN, f64::max);
        let against =
            format!("guess {guess:.3} + 0.03, the most that one gains {worst:.3}; nearest own {near:.3}");
        say("custodian", &format!("regression on bags, {what}"), attack, &against);
        at_most(what, worst, 0.03);
        at_most(what, attack, near);
    }
    for (me, rows) in &of_all {
        assert_eq!(rows.len(), 4 * ROWS, "in ten sessions {me} keeps bags of every other owner's rows");
    }
}

#[test]
fn what_it_saw_as_owner_and_as_custodian_in_ten_sessions_brings_nobody_nearer_than_its_own_nearest_rows() {
    let points = VIEWS[0].points();
    let hubs = VIEWS[0].hubs();
    let names = [
        "smallest distances, least squares",
        "the same, the tenth of highest degree",
        "smallest distances and bags, each distance linked to the row that looks nearest",
        "the same, the tenth of highest degree",
        "smallest distances, told whose each is (more than it sees)",
        "smallest distances and bags, told whose each is (more than it sees)",
    ];
    let mut found = names.map(|_| (Vec::new(), Vec::new()));
    let mut told = [0, 0];
    for me in VIEWS[0].roles.owners() {
        let own = VIEWS[0].rows_of(me);
        let first = VIEWS[0].range(me).start;
        let prior = Prior::of(&own);
        let believed = regressed(&SMALL, me);
        // (own row, point) -> cosines, one of each session that told it.
        let mut seen: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for session in SMALL.iter() {
            for (row, point, value) in entries(std::slice::from_ref(&session.run), me) {
                let row = session.point(first + row) - first;
                seen.entry((row, session.point(point))).or_default().push(value);
            }
        }
        let mut whose: BTreeMap<usize, (Vec<Row>, Vec<Row>)> = BTreeMap::new();
        for (&(row, point), values) in &seen {
            let (anchor, value) = (own[row].clone(), average(values.iter().copied()));
            let base = nearest(&own, &points[point]);
            let mut add = |at: usize, prior: &Prior| {
                let row = prior.likeliest(std::slice::from_ref(&anchor), &[vec![value]], 0.01).swap_remove(0);
                for at in [Some(at), hubs.contains(&point).then_some(at + 1)].into_iter().flatten() {
                    found[at].0.push(cosine(&row, &points[point]));
                    found[at].1.push(base);
                }
            };
            add(0, &prior);
            let like = |row: &&Row| cosine(row, &anchor);
            let linked = believed.values().max_by(|a, b| like(a).total_cmp(&like(b))).unwrap();
            add(2, &prior.around(linked.clone()));
            let (anchors, values) = whose.entry(point).or_default();
            anchors.push(anchor);
            values.push(vec![value]);
        }
        for (point, (anchors, values)) in &whose {
            let base = nearest(&own, &points[*point]);
            told[0] += 1;
            told[1] += anchors.len();
            for (at, prior) in [(4, &prior), (5, &prior.around(believed[point].clone()))] {
                let row = prior.likeliest(anchors, values, 0.01).swap_remove(0);
                found[at].0.push(cosine(&row, &points[*point]));
                found[at].1.push(base);
            }
        }
    }
    let of = |figures: &[f64]| average(figures.iter().copied());
    for (name, (attack, base)) in names.iter().zip(&found) {
        say("owner", &format!("{name}, ten sessions"), of(attack), &format!("nearest own {:.3}", of(base)));
    }
    println!(
        "audit | of {} rows each owner is told {:.1} distances on average",
        told[0],
        told[1] as f64 / told[0] as f64
    );
    for (name, (attack, base)) in names.iter().zip(&found).take(4) {
        at_most(name, of(attack), of(base));
    }
}

#[test]
fn a_witness_that_is_now_propagator_and_now_custodian_learns_little_more_than_the_mean() {
    let (points, public) = (VIEWS[0].points(), public());
    let guess = mean(&public);
    let n = points.len();
    // Its own rows are public ones: it computes their cosines, whatever the planes.
    let known: Vec<_> = public
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let others = public.iter().enumerate().filter(|(j, _)| *j != i);
            (i, others.map(|(_, other)| dot(row, other)).collect::<Row>(), 0.0)
        })
        .collect();
    let (mut bags_alone, mut all, mut base, mut both) = (vec![], vec![], vec![], 0);
    for me in (OWNERS..OWNERS + 4).map(Peer) {
        let as_propagator: Vec<_> =
            MORE.iter().filter(|session| session.run.roles.propagators.contains(&me)).collect();
        let as_custodian: Vec<_> =
            MORE.iter().filter(|session| session.run.roles.ring.contains(&me)).collect();
        both += usize::from(!as_propagator.is_empty() && !as_custodian.is_empty());
        let owners: Vec<Peer> = VIEWS[0].roles.owners().collect();
        let seen = as_custodian.iter().flat_map(|session| {
            let bags = owners.iter().flat_map(|&owner| session.bags(me, owner));
            // It has no limits of public rows to compare with.
            bags.map(|(point, bag, _)| (point, bag, 0.0))
        });
        let believed = best(&known, &public, &seen.collect::<Vec<_>>(), &points);
        if believed.is_empty() || as_propagator.is_empty() {
            continue;
        }
        bags_alone.extend(believed.iter().map(|(&point, row)| cosine(row, &points[point])));
        let mut graph = vec![vec![0.0; n]; n];
        for session in &as_propagator {
            let place: Vec<usize> = (0..n).map(|i| session.point(i)).collect();
            for (i, row) in session.run.graph.iter().enumerate() {
                row.iter()
                    .enumerate()
                    .for_each(|(j, w)| graph[place[i]][place[j]] += w / as_propagator.len() as f64);
            }
        }
        // Places along the graph's axes, and bags, each as much as helps; then every point a little like its
        // neighbours.
        let mut most: Option<(f64, Vec<f64>, Vec<f64>)> = None;
        for (axes, weight) in [(1, 0.0), (1, 0.5), (2, 0.5), (4, 0.5), (1, 1.0)] {
            let along = aligned(&graph, &public, axes, weight);
            for share in [0.5, 1.0] {
                let of = |i: usize| {
                    let bag = believed.get(&i).unwrap_or(&guess);
                    let parts = guess.iter().zip(&along[i]).zip(bag);
                    parts.map(|((mean, along), bag)| along + share * (bag - mean)).collect::<Row>()
                };
                let alone: Vec<Row> = (0..n).map(of).collect();
                for smooth in [0.0, 0.3, 0.6] {
                    let like = |i: usize| {
                        let degree: f64 = graph[i].iter().sum::<f64>().max(1e-9);
                        let mut row: Row = alone[i].iter().map(|x| (1.0 - smooth) * x).collect();
                        for (j, weight) in graph[i].iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                            row.iter_mut()
                                .zip(&alone[j])
                                .for_each(|(x, y)| *x += smooth * weight / degree * y);
                        }
                        cosine(&row, &points[i])
                    };
                    let found: Vec<f64> = believed.keys().map(|&i| like(i)).collect();
                    let figure = average(found.iter().copied());
                    if most.as_ref().is_none_or(|(best, ..)| figure > *best) {
                        let guessed = believed.keys().map(|&i| cosine(&guess, &points[i])).collect();
                        most = Some((figure, found, guessed));
                    }
                }
            }
        }
        let (_, found, guessed) = most.unwrap();
        all.extend(found);
        base.extend(guessed);
    }
    assert!(both > 0, "no witness was both");
    let [bags_alone, all, base] = [bags_alone, all, base].map(|figures| average(figures.into_iter()));
    let against = format!("guess {base:.3} + 0.03");
    say("witness", &format!("bags, {ROWS} public rows, ten sessions"), bags_alone, &against);
    say("witness", "the same and the graphs of the sessions in which it propagated", all, &against);
    at_most("witness, bags", bags_alone, base + 0.03);
    at_most("witness, bags and graphs", all, base + 0.03);
}

/// In two sessions a custodian may keep one side of a block and then the other; the planes are others, so the
/// values are.
#[test]
fn both_sides_of_a_block_in_two_sessions_do_not_unblind_it() {
    /// The fewer, the easier.
    const FEW: usize = 20;
    const BLOCKS: usize = 12;
    let points = VIEWS[0].points();
    let few = || {
        rows().into_iter().map(|(peer, rows)| {
            let labels = rows.labels[..FEW].to_vec();
            (
                peer,
                Rows { data: rows.data.subset(&(0..FEW).collect::<Vec<_>>()).into(), labels: labels.into() },
            )
        })
    };
    let sessions: Vec<_> = (1..=SESSIONS).map(|number| Session::of(few(), OWNERS + 2, number)).collect();
    let best = |rows: &[Row], columns: &[Row], truth: &[Row]| {
        let fits = [0.0005, 0.005, 0.01, 0.02, 0.04].map(|noise| told(&fitted(rows, columns, noise), truth));
        fits.into_iter().fold(f64::MIN, f64::max)
    };
    let cosines = |rows: &[Vec<u16>]| -> Vec<Row> {
        rows.iter().map(|row| row.iter().map(|&distance| cosine_of(distance)).collect()).collect()
    };
    // A place's row as it is numbered without an order.
    let row = |session: &Session, peer: Peer, place: usize| {
        &points[VIEWS[0].range(peer).start + session.order[&peer][place]]
    };
    let (mut equal, mut near) = ([vec![], vec![]], [vec![], vec![]]);
    for (one, other) in sessions.iter().flat_map(|one| sessions.iter().map(move |other| (one, other))) {
        for (a, b) in one.run.roles.blocks() {
            let keeper = one.run.roles.custodian(a, b);
            if other.run.roles.custodian(b, a) != keeper || near[0].len() == BLOCKS {
                continue;
            }
            let sides = [one.run.block(keeper, a, b), other.run.block(keeper, b, a)];
            // Rows are named as in the one session, columns as in the other.
            let truth: Vec<Row> =
                (0..FEW).map(|i| (0..FEW).map(|j| dot(row(one, a, i), row(other, b, j))).collect()).collect();
            // What the second side would be under the planes of the first.
            let column = |j: usize| one.order[&b].iter().position(|row| *row == other.order[&b][j]).unwrap();
            let whole: Vec<Vec<u16>> = one
                .run
                .distances(a, b)
                .iter()
                .map(|row| (0..FEW).map(|j| row[column(j)]).collect())
                .collect();
            let mirrored: Vec<Vec<u16>> =
                (0..FEW).map(|j| whole.iter().map(|row| row[j]).collect()).collect();
            for (at, second) in [&sides[1], &mirrored].into_iter().enumerate() {
                equal[at].push(right(&placed(&sides[0], second), &whole));
                near[at].push(best(&cosines(&sides[0]), &cosines(second), &truth));
            }
        }
    }
    assert_eq!(near[0].len(), BLOCKS, "ten sessions gave too few such blocks");
    // Values of all sessions in which it kept the one side, and of all in which it kept the other, row by row
    // in order, averaged.
    let mut all = Vec::new();
    let side = |keeper: Peer, a: Peer, b: Peer| -> Option<Vec<Row>> {
        let kept: Vec<_> =
            sessions.iter().filter(|session| session.run.roles.custodian(a, b) == keeper).collect();
        let blocks: Vec<_> = kept.iter().map(|session| cosines(&session.run.block(keeper, a, b))).collect();
        let place =
            |session: &Session, row: usize| session.order[&a].iter().position(|other| *other == row).unwrap();
        let of_row =
            |row| pooled(kept.iter().zip(&blocks).map(|(session, block)| block[place(session, row)].clone()));
        (!kept.is_empty()).then(|| (0..FEW).map(of_row).collect())
    };
    for (a, b) in sessions[0].run.roles.blocks().filter(|(a, b)| a < b) {
        for keeper in sessions[0].run.roles.owners().filter(|keeper| *keeper != a && *keeper != b) {
            if let (Some(rows), Some(columns), true) =
                (side(keeper, a, b), side(keeper, b, a), all.len() < BLOCKS)
            {
                let place = |peer: Peer, row: usize| &points[VIEWS[0].range(peer).start + row];
                let truth: Vec<Row> =
                    (0..FEW).map(|i| (0..FEW).map(|j| dot(place(a, i), place(b, j))).collect()).collect();
                all.push(best(&rows, &columns, &truth));
            }
        }
    }
    assert_eq!(all.len(), BLOCKS, "in ten sessions too few have kept both sides");
    let all = average(all.into_iter());
    let [equal, near] = [equal, near].map(|both| both.map(|figures| average(figures.into_iter())));
    let names = [
        "both sides of a block of 20 rows, places found by equal values",
        "the same, fitted by nearly equal ones",
    ];
    for ((name, figures), against) in
        names.iter().zip([equal, near]).zip(["0.050 by chance", "0: what the means of rows and columns say"])
    {
        say("custodian", &format!("{name}, two sessions"), figures[0], against);
        say("naive: custodian", &format!("{name}, the same planes in both"), figures[1], against);
        exceeds(name, figures[1], 0.5);
        exceeds(name, figures[1], figures[0] + 0.3);
    }
    say(
        "custodian",
        &format!("{}, all of ten sessions", names[1]),
        all,
        "0: what the means of rows and columns say",
    );
    at_most("places found by equal values", equal[0], 0.1);
}

/// Of all places those whose value is the true one.
fn right(found: &[Vec<Option<u16>>], truth: &[Vec<u16>]) -> f64 {
    let all = found.iter().zip(truth).flat_map(|(row, truth)| row.iter().zip(truth));
    average(all.map(|(place, value)| f64::from(u8::from(*place == Some(*value)))))
}

/// The correlation of two matrices after what their rows' and columns' means say is taken off both.
fn told(found: &[Row], truth: &[Row]) -> f64 {
    let rest = |matrix: &[Row]| -> Row {
        let columns = mean(matrix);
        let all = average(columns.iter().copied());
        let row = |row: &Row| {
            let own = average(row.iter().copied());
            row.iter().zip(&columns).map(|(x, column)| x - own - column + all).collect::<Vec<_>>()
        };
        matrix.iter().flat_map(row).collect()
    };
    cosine(&rest(found), &rest(truth))
}
