//! Fits a model to rows from standard input, which are dealt to a number of peers, and prints the estimates.
//! `lab/scripts/check-glm.py` uses it.
//!
//! The first line has: family, peers, robust (0 or 1), rounds, step of the outcome, steps of the columns.
//! Each other line is a row: outcome, offset and weight as numbers, then the columns in steps.

#![expect(clippy::disallowed_methods, reason = "it measures time")]
// A program for the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::Read;

use flyswarm_glm::{Column, Family, Model, Next, Rows, Totals};

fn main() -> Result<(), String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let [family, peers, robust, rounds, outcome_step, steps @ ..] = &head[..] else {
        return Err("line 1".into());
    };
    let number = |text: &str| text.parse::<f64>().map_err(|error| format!("{text}: {error}"));
    let family = match *family {
        "linear" => Family::Linear,
        "logistic" => Family::Logistic,
        "poisson" => Family::Poisson,
        other => return Err(format!("family {other}")),
    };
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for line in lines {
        let [outcome, offset, weight, own @ ..] = &line[..] else { return Err("a row".into()) };
        rows.push([number(outcome)?, number(offset)?, number(weight)?]);
        for text in own {
            columns.push(text.parse::<i32>().map_err(|error| format!("{text}: {error}"))?);
        }
    }
    let column = |(at, step): (usize, &&str)| Ok(Column { name: format!("c{at}"), step: number(step)? });
    let model = Model {
        family,
        columns: steps.iter().enumerate().map(column).collect::<Result<_, String>>()?,
        outcome_step: number(outcome_step)?,
        offset: rows.iter().any(|row| row[1] != 0.0),
        weighted: rows.iter().any(|row| row[2] != 1.0),
        robust: *robust == "1",
        rounds: rounds.parse().map_err(|_| "rounds")?,
        level: 0.95,
    };
    let (width, peers) = (steps.len(), peers.parse::<usize>().map_err(|_| "peers")?.max(1));
    let (mut opened, begun) = (Vec::new(), std::time::Instant::now());
    loop {
        match model.next(&opened) {
            Next::Failed(error) => return Err(error),
            Next::Done(fit) => {
                println!("rounds {} deviance {:e} aic {:e}", fit.rounds, fit.deviance, fit.aic);
                println!("null {:e} dispersion {:e}", fit.null_deviance.unwrap_or(f64::NAN), fit.dispersion);
                for each in &fit.coefficients {
                    let robust = each.robust_error.unwrap_or(f64::NAN);
                    let (low, high) = each.interval;
                    println!(
                        "{:e} {:e} {robust:e} {:e} {low:e} {high:e}",
                        each.estimate, each.model_error, each.p
                    );
                }
                eprintln!("{:.3} s", begun.elapsed().as_secs_f64());
                return Ok(());
            }
            Next::Round(round) => {
                // Row i belongs to peer i mod `peers`. The words of all peers are added up.
                let mut words = vec![0u64; Totals::words(width)];
                for peer in 0..peers {
                    let mut own = Rows::new(width);
                    for at in (peer..rows.len()).step_by(peers) {
                        own.push(&columns[at * width..][..width], rows[at]);
                    }
                    let own = own.sums(model.family, &round);
                    words
                        .iter_mut()
                        .zip(own.to_words())
                        .for_each(|(sum, word)| *sum = sum.wrapping_add(word));
                }
                opened.push(Totals::from_words(width, &words).ok_or("the sums are too large")?);
            }
        }
    }
}
