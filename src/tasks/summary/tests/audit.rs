//! Audit of closed cells: an attacker writes the session file, owns one peer, and asks for the number of rows
//! of any set of patients. The opened cells must answer no such question with a small number.
//!
//! The audit does not use the equations of the tables. It sorts all possible patients into *kinds*, one for
//! each combination of levels, and gets the cells of a kind from the words of a row of this kind. A cell is
//! then a vector over the kinds. The opened cells answer a question if its vector is a linear combination of
//! theirs.

use super::*;
use crate::crypto::stream::Stream;

/// Number of sessions that a test run draws. A longer run sets `FLYSWARM_AUDIT_SESSIONS`.
const SESSIONS: u64 = 150;
/// Questions to each session in addition to its closed cells.
const QUESTIONS: usize = 20;
/// Elimination is done modulo this prime.
const PRIME: i64 = (1 << 31) - 1;

/// Returns a number of sessions from the environment.
fn sessions() -> u64 {
    std::env::var("FLYSWARM_AUDIT_SESSIONS").map_or(SESSIONS, |text| text.parse().expect("a number"))
}

/// A faulty way to decide which cells open.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    /// Only cells that do not pass are closed.
    Primary,
    /// The equations of one direction of the tables are forgotten.
    Direction,
    /// Each table is protected without the others.
    Apart,
    /// One closed cell opens.
    One,
    /// A cell with one row too few passes.
    Threshold,
    /// A cell passes although too few rows of the others are left.
    Rest,
}

/// Numbers over all sessions.
#[derive(Debug, Default)]
struct Found {
    cells: usize,
    closed: usize,
    /// Closed cells that do not pass and follow from open ones, and closed cells that pass and do.
    small: usize,
    follow: usize,
    /// Open cells that break a condition.
    open: usize,
    asked: usize,
    answered: usize,
    /// Answers of fewer rows than the threshold, without those that are 0 for every possible table.
    few: usize,
}

impl Found {
    fn leaks(&self) -> usize {
        self.small + self.follow + self.open + self.few
    }
}

/// Vectors modulo a prime in reduced form: each has a column in which it is 1 and all others are 0.
#[derive(Default)]
struct Span(Vec<(usize, Vec<i64>)>);

impl Span {
    /// Subtracts the vectors of the span.
    fn rest(&self, mut vector: Vec<i64>) -> Vec<i64> {
        for (column, own) in &self.0 {
            let factor = vector[*column];
            if factor != 0 {
                vector.iter_mut().zip(own).for_each(|(x, y)| *x = (*x - factor * y).rem_euclid(PRIME));
            }
        }
        vector
    }

    fn add(&mut self, vector: Vec<i64>) {
        let mut vector = self.rest(vector);
        let Some(column) = vector.iter().position(|&x| x != 0) else { return };
        let (mut inverse, mut base, mut power) = (1, vector[column], PRIME - 2);
        while power > 0 {
            if power & 1 == 1 {
                inverse = inverse * base % PRIME;
            }
            (base, power) = (base * base % PRIME, power >> 1);
        }
        vector.iter_mut().for_each(|x| *x = *x * inverse % PRIME);
        for (_, own) in &mut self.0 {
            let factor = own[column];
            if factor != 0 {
                own.iter_mut().zip(&vector).for_each(|(x, y)| *x = (*x - factor * y).rem_euclid(PRIME));
            }
        }
        self.0.push((column, vector));
    }

    fn has(&self, vector: Vec<i64>) -> bool {
        self.rest(vector).iter().all(|&x| x == 0)
    }
}

/// A random session file: columns with their numbers of levels, and whether values may be missing.
fn file_of(stream: &mut Stream) -> (SummarySpec, DataSpec, Vec<(usize, bool)>) {
    let count = 2 + stream.below(2) as usize;
    let columns: Vec<(usize, bool)> =
        (0..count).map(|_| (2 + stream.below(3) as usize, stream.below(5) < 2)).collect();
    let name = |at: usize| format!("c{at}");
    let column = |(at, &(levels, may_miss)): (usize, &(usize, bool))| ColumnSpec {
        fill: if may_miss { Fill::NoLevel } else { Fill::Refuse },
        ..ColumnSpec::new(name(at), Kind::Category((0..levels).map(|level| level.to_string()).collect()))
    };
    let table =
        TableSchema { columns: columns.iter().enumerate().map(column).collect(), ..TableSchema::default() };
    let by = [0, 1, 1, 1, 2][stream.below(5) as usize].min(count - 1);
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two)));
    let allowed = pairs.filter(|&(one, two)| match by {
        0 => true,
        1 => one > 0,
        _ => (one, two) != (0, 1),
    });
    let allowed: Vec<_> = allowed.collect();
    let chosen = allowed.into_iter().filter(|_| stream.below(10) < 7);
    let table_of = |(one, two)| CrossTable { rows: name(one), columns: name(two) };
    let spec = SummarySpec {
        by: (0..by).map(name).collect(),
        table: chosen.map(table_of).collect(),
        threshold: 3 + stream.below(8),
        rest: 1 + stream.below(3),
        ..SummarySpec::default()
    };
    let (features, names) = (table.width() as u32, table.features());
    let data =
        DataSpec { features, columns: names, preparation: Some(Arc::new(table)), ..DataSpec::default() };
    (spec, data, columns)
}

/// Returns which cells open, with this fault.
fn opened(layout: &Layout, pattern: &Opened, planted: Planted, stream: &mut Stream) -> Vec<bool> {
    let missing = layout.rule(&spec(), 2).empty_passes;
    let strong: Vec<bool> =
        pattern.cells.iter().zip(missing).map(|(&passes, missing)| passes && !missing).collect();
    let equations = layout.equations();
    match planted {
        Planted::Primary => pattern.cells.clone(),
        Planted::Direction => {
            let half = equations.iter().step_by(2).cloned().collect::<Vec<_>>();
            open(&pattern.cells, &strong, &half)
        }
        Planted::Apart => {
            let each = equations.iter().map(|one| open(&pattern.cells, &strong, std::slice::from_ref(one)));
            each.fold(pattern.cells.clone(), |all, one| all.iter().zip(one).map(|(a, b)| *a && b).collect())
        }
        _ => {
            let mut cells = layout.open(pattern).cells;
            let closed: Vec<usize> = (0..cells.len()).filter(|&cell| !cells[cell]).collect();
            if planted == Planted::One && !closed.is_empty() {
                cells[closed[stream.below(closed.len() as u32) as usize]] = true;
            }
            cells
        }
    }
}

/// Audits one random session.
fn session_of(seed: u64, planted: Planted, found: &mut Found) {
    let stream = &mut Stream::new(b"audit of closed cells", "session", &seed.to_le_bytes());
    let (spec, data, columns) = file_of(stream);
    let layout = Layout::new(&spec, &data).expect("a session file");
    // A kind is a level for each column. The last level of a column may be the missing value.
    let sizes: Vec<usize> =
        columns.iter().map(|&(levels, may_miss)| levels + usize::from(may_miss)).collect();
    let kinds: Vec<Vec<usize>> = sizes.iter().fold(vec![Vec::new()], |kinds, &size| {
        kinds.iter().flat_map(|kind| (0..size).map(move |level| [&kind[..], &[level]].concat())).collect()
    });
    let row = |kind: &Vec<usize>| -> Vec<f32> {
        let levels = kind.iter().zip(&columns);
        levels
            .flat_map(|(&own, &(levels, _))| (0..levels).map(move |at| f32::from(u8::from(at == own))))
            .collect()
    };
    let words: Vec<Vec<u64>> =
        kinds.iter().map(|kind| layout.words([&row(kind)[..]].into_iter()).expect("in range")).collect();
    let cell = |cell: usize| words.iter().map(|words| words[cell] as i64).collect::<Vec<_>>();
    // Few levels have most of the rows. Peers have different numbers of rows.
    let owners = 3 + stream.below(4) as usize;
    let skew: Vec<Vec<u32>> =
        sizes.iter().map(|&size| (0..size).map(|_| 1 + stream.below(10).pow(3)).collect()).collect();
    let mut counts = vec![vec![0u64; kinds.len()]; owners];
    for _ in 0..20 + stream.below(380) {
        let place = sizes.iter().zip(&skew).fold(0, |place, (&size, weights)| {
            let mut rest = stream.below(weights.iter().sum());
            let level = weights.iter().position(|&weight| match rest.checked_sub(weight) {
                Some(left) => {
                    rest = left;
                    false
                }
                None => true,
            });
            place * size + level.expect("a level")
        });
        counts[stream.below(owners as u32) as usize][place] += 1;
    }
    let pooled_words = |counts: &Vec<u64>| -> Vec<u64> {
        let sum = |at: usize| counts.iter().zip(&words).map(|(rows, words)| rows * words[at]).sum::<u64>();
        (0..words[0].len()).map(sum).collect()
    };
    let own: Vec<Vec<u64>> = counts.iter().map(pooled_words).collect();
    let mut rule = layout.rule(&spec, 2);
    rule.threshold -= u32::from(planted == Planted::Threshold);
    if planted == Planted::Rest {
        rule.rest = 0;
    }
    let passing = pattern(&rule, &own);
    let cells = opened(&layout, &passing, planted, stream);
    let mut span = Span::default();
    (0..layout.cells()).filter(|&at| cells[at]).for_each(|at| span.add(cell(at)));
    let rows = |vector: &[i64], owner: &[u64]| -> u64 {
        vector.iter().zip(owner).map(|(&x, rows)| x as u64 * rows).sum()
    };
    let passes = |vector: &[i64]| {
        let each: Vec<u64> = counts.iter().map(|owner| rows(vector, owner)).collect();
        let all: u64 = each.iter().sum();
        let many = all >= spec.threshold.into() && each.iter().filter(|&&rows| rows > 0).count() >= 2;
        many && each.iter().all(|rows| all - rows >= spec.rest.into())
    };
    let empty = |vector: &[i64]| counts.iter().all(|owner| rows(vector, owner) == 0);
    found.cells += cells.len();
    for (at, &is_open) in cells.iter().enumerate() {
        let (vector, missing) = (cell(at), rule.empty_passes[at]);
        if is_open {
            found.open += usize::from(!(passes(&vector) || missing && empty(&vector)));
            continue;
        }
        found.closed += 1;
        let passes = passes(&vector);
        if span.has(vector) {
            found.follow += usize::from(passes);
            found.small += usize::from(!passes);
        }
    }
    // Each question has a set of levels of every column, or all levels. Half of the questions ask for the
    // rest.
    for _ in 0..QUESTIONS {
        let sets: Vec<u32> = sizes
            .iter()
            .map(|&size| match stream.below(3) {
                0 => u32::MAX,
                _ => 1 + stream.below((1 << size) - 1),
            })
            .collect();
        let inside = |kind: &Vec<usize>| kind.iter().zip(&sets).all(|(level, set)| set >> level & 1 == 1);
        let turned = stream.below(2) == 1;
        let vector: Vec<i64> = kinds.iter().map(|kind| i64::from(inside(kind) != turned)).collect();
        found.asked += 1;
        if vector.iter().all(|&x| x == 0) || !span.has(vector.clone()) {
            continue;
        }
        found.answered += 1;
        let missing_alone = kinds.iter().zip(&vector).all(|(kind, &x)| {
            x == 0 || kind.iter().zip(&columns).any(|(&level, &(levels, _))| level == levels)
        });
        let few = rows(&vector, &pooled(&counts)) < spec.threshold.into();
        found.few += usize::from(few && !(missing_alone && empty(&vector)));
    }
}

fn pooled(counts: &[Vec<u64>]) -> Vec<u64> {
    (0..counts[0].len()).map(|at| counts.iter().map(|own| own[at]).sum()).collect()
}

fn audit_all(planted: Planted, sessions: u64) -> Found {
    let mut found = Found::default();
    (0..sessions).for_each(|seed| session_of(seed, planted, &mut found));
    println!("{sessions} sessions, planted {planted:?}: {found:?}");
    found
}

#[test]
fn no_question_about_few_rows_has_an_answer_in_opened_cells() {
    let found = audit_all(Planted::Nothing, sessions());
    assert!(found.closed > 0 && found.answered > 0, "{found:?}");
    assert_eq!(found.leaks(), 0, "{found:?}");
}

#[test]
fn the_audit_of_closed_cells_finds_each_planted_fault() {
    let faults = [
        Planted::Primary,
        Planted::Direction,
        Planted::Apart,
        Planted::One,
        Planted::Threshold,
        Planted::Rest,
    ];
    for planted in faults {
        assert!(audit_all(planted, SESSIONS).leaks() > 0, "{planted:?}");
    }
}
