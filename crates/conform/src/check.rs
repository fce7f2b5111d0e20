//! `flyswarm-conform check`: runs another program as a peer among our own nodes.

mod cases;
mod junit;
mod trial;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use clap::Args;
use clap::builder::TypedValueParser;
use serde_json::json;

use self::cases::Case;
use crate::files::now;
use crate::{files, print};
use flyswarm::cli::Failure;

/// Check another program as a peer: in each place of the tree, after a late start, after a restart, and next
/// to nodes that crash or deviate
///
/// Runs sessions of the task flynn on this machine; one peer of each session is the program. These words in
/// the program's command are replaced: {session}, {key}, {data}, {state} and {out} by paths, and {listen} by
/// an address such as /ip4/127.0.0.1/tcp/4001. {data} is a CSV file without a header, with the labels last.
/// {state} is a folder that may not exist yet. The program must write the model to {out}. The session file
/// has the addresses of all peers. The program must end with exit code 0 when it has the model and the other
/// peers no longer need it.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Command of the program, such as 'peer {session} --key {key} --data {data} --state {state} --out
    /// {out} --listen {listen}'
    #[arg(long, value_name = "COMMAND", required_unless_present = "list")]
    program: Option<String>,
    /// Print the names and descriptions of all cases
    #[arg(long)]
    list: bool,
    /// Words to add to the command if the session has a network key, such as '--network-key {network-key}'
    /// [default: skip the case with a network key]
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    with_network_key: Option<String>,
    /// Run only the cases with these names, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Print one JSON object per case, each on its own line
    #[arg(long)]
    json: bool,
    /// Number of cases that run at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64).map(usize::from))]
    jobs: usize,
    /// Also write the results for a CI system, as a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Keep files, output and traces of all cases in this folder, which must not exist yet
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Result of a case.
struct Outcome {
    case: Case,
    /// Errors that were found; `None` if the case was not tried.
    wrong: Option<Vec<String>>,
    seconds: f64,
}

impl Outcome {
    fn failed(&self) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| !wrong.is_empty())
    }

    fn word(&self) -> &'static str {
        match &self.wrong {
            None => "not tried",
            Some(wrong) if wrong.is_empty() => "passed",
            Some(_) => "failed",
        }
    }
}

impl Check {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let cases = self.chosen()?;
        if self.list {
            let line = |case: &Case| format!("{}: {} (spec, {})\n", case.name, case.about, case.sections);
            return print(out, &cases.iter().map(line).collect::<String>());
        }
        let program = self.program.as_deref().unwrap_or_default();
        for place in ["{session}", "{key}", "{data}", "{out}", "{listen}"] {
            if !program.contains(place) {
                return Err(Failure::Input(format!("--program: {place} is missing")));
            }
        }
        if let Some(path) = &self.junit {
            files::check(path)?;
        }
        let kept = match &self.keep {
            Some(path) if path.exists() => return Err(Failure::Input(format!("{}: exists", path.display()))),
            Some(path) => path.clone(),
            None => PathBuf::new(),
        };
        let temporary = tempfile::Builder::new().prefix("flyswarm-conform-").tempdir();
        let temporary =
            temporary.map_err(|error| Failure::Environment(format!("temporary folder: {error}")))?;
        let base = if self.keep.is_some() { kept } else { temporary.path().to_owned() };
        let outcomes = self.side_by_side(&cases, &base, out)?;
        if !self.json && outcomes.len() > 1 {
            print(out, &by_section(&outcomes))?;
        }
        if let Some(path) = &self.junit {
            files::write(path, junit::text(&outcomes).as_bytes(), true)?;
        }
        let failed = outcomes.iter().filter(|outcome| outcome.failed()).count();
        let tried = outcomes.iter().filter(|outcome| outcome.wrong.is_some()).count();
        match failed {
            0 => Ok(()),
            _ => Err(Failure::Session(format!("{failed} of {tried} cases failed"))),
        }
    }

    fn chosen(&self) -> Result<Vec<Case>, Failure> {
        let cases = cases::all();
        let unknown = |name: &&String| cases.iter().all(|case| case.name != name.as_str());
        if let Some(name) = self.only.iter().find(unknown) {
            let names: Vec<_> = cases.iter().map(|case| case.name).collect();
            return Err(Failure::Input(format!(
                "--only {name}: unknown case; the cases are {}",
                names.join(", ")
            )));
        }
        let wanted = |case: &Case| self.only.is_empty() || self.only.iter().any(|name| name == case.name);
        Ok(cases.into_iter().filter(wanted).collect())
    }

    /// Tries all cases, several at the same time, and prints their results in the order of the cases.
    fn side_by_side(
        &self,
        cases: &[Case],
        base: &Path,
        out: &mut dyn Write,
    ) -> Result<Vec<Outcome>, Failure> {
        let next = AtomicUsize::new(0);
        let (sender, done) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(cases.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let begun = now();
                        let mut wrong = self.try_out(case, base.join(case.name));
                        // On a busy machine a view may have another tree, in which nothing deviates.
                        for attempt in 2..4 {
                            let unseen = |why: &String| why.contains(trial::NO_OCCASION);
                            if !matches!(&wrong, Ok(Some(wrong)) if wrong.iter().any(unseen)) {
                                break;
                            }
                            wrong = self.try_out(case, base.join(format!("{}-{attempt}", case.name)));
                        }
                        let seconds = begun.elapsed().as_secs_f64();
                        let outcome = wrong.map(|wrong| Outcome { case: *case, wrong, seconds });
                        if sender.send((case.name, outcome)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let (mut early, mut outcomes) = (BTreeMap::new(), Vec::new());
            for (name, outcome) in done {
                // An error ends the check; the running cases finish first.
                early.insert(name, outcome.inspect_err(|_| next.store(cases.len(), Ordering::Relaxed))?);
                while let Some(outcome) = cases.get(outcomes.len()).and_then(|case| early.remove(case.name)) {
                    print(out, &self.line(&outcome))?;
                    outcomes.push(outcome);
                }
            }
            Ok(outcomes)
        })
    }

    fn line(&self, outcome: &Outcome) -> String {
        let Outcome { case: Case { name, about, sections, .. }, wrong, seconds } = outcome;
        let (word, wrong) = (outcome.word(), wrong.as_deref().unwrap_or_default());
        if self.json {
            let value = json!({
                "case": name, "result": word, "about": about, "sections": sections, "wrong": wrong, "seconds": seconds,
            });
            return format!("{value}\n");
        }
        let more: String = wrong.iter().map(|why| format!("           {why}\n")).collect();
        format!("{word:<9}  {name}: {about} (spec, {sections}; {seconds:.1} s)\n{more}")
    }
}

/// Returns one line for each section of the specification.
fn by_section(outcomes: &[Outcome]) -> String {
    let mut sections = BTreeMap::<u32, Vec<&Outcome>>::new();
    for outcome in outcomes {
        for section in outcome.case.numbers() {
            sections.entry(section).or_default().push(outcome);
        }
    }
    let line = |(section, outcomes): (u32, Vec<&Outcome>)| {
        let count = |word: &str| outcomes.iter().filter(|outcome| outcome.word() == word).count();
        let words = ["passed", "failed", "not tried"].map(|word| (count(word), word));
        let said: Vec<_> =
            words.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        format!("section {section:>2}: {}\n", said.join(", "))
    };
    sections.into_iter().map(line).collect()
}
