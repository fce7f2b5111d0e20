//! Decides which numbers stay closed, so that no closed number can be computed from open ones.

use std::collections::BTreeMap;

/// A number that is the sum of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Equation {
    pub(super) total: usize,
    pub(super) parts: Vec<usize>,
}

/// Returns which numbers are opened.
///
/// Numbers that do not pass stay closed. More numbers stay closed to protect them. If the total of an
/// equation is open, there are three cases: none of its parts is closed; or all of them are (their sum is the
/// total, which passes); or at least two are, and one of these is `strong`, so that the sum of the closed
/// parts passes too. If the total is closed, at least one part is closed. At the end, no closed number is a
/// linear combination of open ones.
pub(super) fn open(passes: &[bool], strong: &[bool], equations: &[Equation]) -> Vec<bool> {
    let mut open = passes.to_vec();
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); passes.len()];
    for (at, equation) in equations.iter().enumerate() {
        equation.parts.iter().chain([&equation.total]).for_each(|&number| of[number].push(at));
    }
    let spoiled = |open: &[bool], at: usize| {
        let Equation { total, parts } = &equations[at];
        let closed = || parts.iter().filter(|&&part| !open[part]);
        match open[*total] {
            _ if parts.is_empty() => false,
            false => closed().count() == 0,
            true => match closed().count() {
                0 => false,
                1 => true,
                some => some < parts.len() && !closed().any(|&part| strong[part]),
            },
        }
    };
    // Closes one more number of the equation: the part that appears in most other equations with closed
    // numbers, or otherwise the total.
    let close = |open: &mut Vec<bool>, at: usize| {
        let Equation { total, parts } = &equations[at];
        let crossing = |part: usize| {
            let closed = |&&other: &&usize| {
                let Equation { total, parts } = &equations[other];
                other != at && (parts.iter().chain([total]).any(|&number| !open[number]))
            };
            of[part].iter().filter(closed).count()
        };
        let candidates = parts.iter().copied().filter(|&part| open[part] && strong[part]);
        let best = candidates.max_by_key(|&part| (crossing(part), std::cmp::Reverse(part)));
        let any = || parts.iter().copied().find(|&part| open[part]);
        let chosen = best.or(open[*total].then_some(*total)).or_else(any);
        chosen.inspect(|&number| open[number] = false).is_some()
    };
    loop {
        let mut changed = false;
        for at in 0..equations.len() {
            while spoiled(&open, at) && close(&mut open, at) {
                changed = true;
            }
        }
        if changed {
            continue;
        }
        let Some(found) = determined(&open, equations) else { return open };
        if !of[found].iter().any(|&at| close(&mut open, at)) {
            open.fill(false);
        }
    }
}

/// Elimination is done modulo this prime, 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;

/// Returns a closed number that can be computed from open ones with the equations, if there is one.
pub(super) fn determined(open: &[bool], equations: &[Equation]) -> Option<usize> {
    type Row = BTreeMap<usize, u64>;
    let product = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64;
    let inverse = |x: u64| {
        let (mut result, mut base, mut power) = (1, x, PRIME - 2);
        while power > 0 {
            if power & 1 == 1 {
                result = product(result, base);
            }
            base = product(base, base);
            power >>= 1;
        }
        result
    };
    // Subtracts a multiple of `other` from `row`, so that the entry of `row` in this column becomes 0.
    let subtract = |row: &mut Row, other: &Row, column: usize| {
        let Some(factor) = row.get(&column).copied() else { return };
        for (&at, &value) in other {
            let entry = row.entry(at).or_default();
            *entry = (*entry + PRIME - product(factor, value)) % PRIME;
            if *entry == 0 {
                row.remove(&at);
            }
        }
    };
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for Equation { total, parts } in equations {
        let parts = parts.iter().map(|&part| (part, 1)).chain([(*total, PRIME - 1)]);
        let mut row: Row = parts.filter(|&(number, _)| !open[number]).collect();
        let mut from = 0;
        while let Some((&column, _)) = row.range(from..).next() {
            if let Some(other) = rows.get(&column) {
                subtract(&mut row, other, column);
            }
            from = column + 1;
        }
        if let Some((&first, &value)) = row.first_key_value() {
            let scale = inverse(value);
            row.values_mut().for_each(|value| *value = product(*value, scale));
            rows.insert(first, row);
        }
    }
    let mut reduced: BTreeMap<usize, Row> = BTreeMap::new();
    while let Some((first, mut row)) = rows.pop_last() {
        let later: Vec<usize> = row.keys().copied().filter(|column| reduced.contains_key(column)).collect();
        for column in later {
            subtract(&mut row, &reduced[&column], column);
        }
        reduced.insert(first, row);
    }
    reduced.into_iter().find(|(_, row)| row.len() == 1).map(|(first, _)| first)
}
