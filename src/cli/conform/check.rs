//! `flyswarm conform check`: a program that somebody else wrote, among our own nodes.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::ground::{Ground, Place};
use crate::cli::children::now;
use crate::cli::{Failure, output, print};
use crate::session::Timing;

/// How long a case may take.
const LIMIT: Duration = Duration::from_secs(90);
/// How long a node is frozen: longer than its neighbours wait for an answer to a ping.
const FROZEN: Duration = Duration::from_secs(8);
/// By then a message has arrived, and what it asks for is on disk.
const ARRIVES: Duration = Duration::from_millis(500);

/// Check another program as a peer: in each place of the tree, late, restarted, beside nodes that die
///
/// Runs sessions of the task flynn on this machine; one peer of each is the program. These words of its
/// command are replaced: {session} {key} {data} {state} {out} by files, {listen} by an address such as
/// /ip4/127.0.0.1/tcp/4001. {data} is a CSV file without header, labels last; {state} is a folder that may
/// not exist yet; the model is expected in {out}. The addresses of all are in the session file. The program
/// must end with exit code 0 once it has the model and nobody needs it any more.
#[derive(Debug, Args)]
pub(in crate::cli) struct Check {
    /// Such as 'peer {session} --key {key} --data {data} --state {state} --out {out} --listen {listen}'
    #[arg(long, value_name = "COMMAND")]
    program: String,
    /// What is added to the command where there is a network key, such as '--network-key {network-key}'
    /// [default: that case is not tried]
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    with_network_key: Option<String>,
    /// These cases alone, by name, between commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Print one JSON object a case and line
    #[arg(long)]
    json: bool,
    /// Also write what came out for a CI system, as JUnit does
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Keep files, output and traces of all cases in this folder, which must not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// What happens in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drama {
    Nothing,
    NetworkKey,
    /// It comes when the others have begun without it.
    Late,
    /// It and the leader are killed at this stage of the counts, and come back with their state.
    Restart(&'static str),
    /// The same, and its state is lost.
    Forgets,
    /// Our leader dies at this stage of the counts.
    LeaderDies(&'static str),
    /// One of our own is frozen for some seconds.
    Frozen,
}

struct Case {
    name: &'static str,
    /// What is checked, and the sections of the specification that say how it should be.
    about: &'static str,
    sections: &'static str,
    peers: usize,
    place: Place,
    drama: Drama,
}

const fn case(
    (name, about, sections): (&'static str, &'static str, &'static str),
    (peers, place): (usize, Place),
    drama: Drama,
) -> Case {
    Case { name, about, sections, peers, place, drama }
}

const CASES: [Case; 13] = [
    case(
        ("follower", "a follower in a session of three", "sections 3 to 15"),
        (3, Place::Leaf),
        Drama::Nothing,
    ),
    case(
        ("leader", "the leader of three: it proposes, decides and opens", "sections 7 to 10"),
        (3, Place::Leader),
        Drama::Nothing,
    ),
    case(
        ("root-of-five", "the leader of five: two of its four are below others", "sections 7 to 10, 13"),
        (5, Place::Leader),
        Drama::Nothing,
    ),
    case(
        ("inner", "an inner node of five: it adds up, and passes reports on", "sections 9, 13"),
        (5, Place::Inner),
        Drama::Nothing,
    ),
    case(("leaf", "a leaf of five", "sections 9, 13"), (5, Place::Leaf), Drama::Nothing),
    case(("network-key", "a session behind a network key", "section 6"), (3, Place::Leaf), Drama::NetworkKey),
    case(
        ("late", "it comes when the others have begun without it", "sections 7, 14"),
        (5, Place::Leaf),
        Drama::Late,
    ),
    case(
        (
            "restarted-in-sum",
            "killed in the sum with the leader, both come back with their state",
            "sections 8, 10, 14",
        ),
        (5, Place::Inner),
        Drama::Restart("sum"),
    ),
    case(
        (
            "restarted-in-accept",
            "killed with the leader when a value is accepted, both come back with their state",
            "sections 8, 10, 14",
        ),
        (3, Place::Leaf),
        Drama::Restart("accept"),
    ),
    case(
        ("state-lost", "it comes back without its state, and the others finish", "section 8"),
        (5, Place::Leaf),
        Drama::Forgets,
    ),
    case(
        ("leader-dies-in-sum", "the leader dies in the sum: a new view", "sections 7, 9"),
        (5, Place::Inner),
        Drama::LeaderDies("sum"),
    ),
    case(
        (
            "leader-dies-in-release",
            "the leader dies with a value decided: it is finished by another",
            "sections 8, 10",
        ),
        (5, Place::Inner),
        Drama::LeaderDies("release"),
    ),
    case(
        ("frozen", "another peer says nothing for 8 s: the view fails, and another comes", "sections 6, 9"),
        (5, Place::Inner),
        Drama::Frozen,
    ),
];

/// What came of a case.
struct Outcome {
    name: &'static str,
    about: &'static str,
    sections: &'static str,
    /// `None` where it was not tried.
    wrong: Option<Vec<String>>,
    seconds: f64,
}

impl Check {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let known: BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        if let Some(name) = self.only.iter().find(|name| !known.contains(name.as_str())) {
            let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
            return Err(Failure::Input(format!("--only {name}: there are {}", names.join(", "))));
        }
        for place in ["{session}", "{key}", "{data}", "{out}", "{listen}"] {
            if !self.program.contains(place) {
                return Err(Failure::Input(format!("--program: {place} is not in it")));
            }
        }
        if let Some(path) = &self.junit {
            output::check(path, true)?;
        }
        let kept = match &self.keep {
            Some(path) if path.exists() => return Err(Failure::Input(format!("{}: exists", path.display()))),
            Some(path) => path.clone(),
            None => PathBuf::new(),
        };
        let temporary = tempfile::Builder::new().prefix("flyswarm-conform-").tempdir();
        let temporary = temporary.map_err(|error| Failure::Machine(format!("temporary folder: {error}")))?;
        let base = if self.keep.is_some() { kept } else { temporary.path().to_owned() };
        let mut outcomes = Vec::new();
        for case in
            CASES.iter().filter(|case| self.only.is_empty() || self.only.iter().any(|name| name == case.name))
        {
            let begun = now();
            let wrong = self.try_out(case, base.join(case.name))?;
            let outcome = Outcome {
                name: case.name,
                about: case.about,
                sections: case.sections,
                wrong,
                seconds: begun.elapsed().as_secs_f64(),
            };
            print(out, &self.line(&outcome))?;
            outcomes.push(outcome);
        }
        if let Some(path) = &self.junit {
            output::write(path, junit(&outcomes).as_bytes(), true)?;
        }
        let failed =
            outcomes.iter().filter(|outcome| outcome.wrong.as_ref().is_some_and(|w| !w.is_empty())).count();
        let tried = outcomes.iter().filter(|outcome| outcome.wrong.is_some()).count();
        match failed {
            0 => Ok(()),
            _ => Err(Failure::Session(format!("{failed} of {tried} cases failed"))),
        }
    }

    fn line(&self, outcome: &Outcome) -> String {
        let Outcome { name, about, sections, wrong, seconds } = outcome;
        let word = match wrong {
            None => "not tried",
            Some(wrong) if wrong.is_empty() => "passed",
            Some(_) => "failed",
        };
        let wrong = wrong.as_deref().unwrap_or_default();
        if self.json {
            let value = json!({
                "case": name, "result": word, "about": about, "sections": sections, "wrong": wrong, "seconds": seconds,
            });
            return format!("{value}\n");
        }
        let more: String = wrong.iter().map(|why| format!("           {why}\n")).collect();
        format!("{word:<9}  {name}: {about} (spec, {sections}; {seconds:.1} s)\n{more}")
    }

    /// What is wrong with the program in a case; `None` where it is not tried.
    fn try_out(&self, case: &Case, folder: PathBuf) -> Result<Option<Vec<String>>, Failure> {
        let mut program = self.program.clone();
        if case.drama == Drama::NetworkKey {
            let Some(more) = &self.with_network_key else { return Ok(None) };
            program = format!("{program} {more}");
        }
        let loses = matches!(case.drama, Drama::Late | Drama::Forgets | Drama::LeaderDies(_));
        let peers = u16::try_from(case.peers).unwrap_or(u16::MAX);
        let min_peers = if loses { peers - 1 } else { peers };
        let gather_ms = if case.drama == Drama::Late { 1_500 } else { 20_000 };
        let timing = Timing { gather_ms, linger_ms: 8_000, ..Timing::default() };
        let mut ground = Ground::new(folder, &program, (case.peers, min_peers), case.place, (timing, LIMIT))?;
        let mut ours: Vec<_> = (0..case.peers).filter(|i| *i != ground.checked).collect();
        let leader = ground.tree[0];
        let key = ground.network_key().display().to_string();
        if case.drama == Drama::NetworkKey {
            let own =
                std::env::current_exe().map_err(|error| Failure::Machine(format!("own program: {error}")))?;
            let made = Command::new(own).args(["network-key", "new"]).arg(&key).output();
            made.map_err(|error| Failure::Machine(format!("network-key new: {error}")))?;
        }
        let hold = match case.drama {
            Drama::LeaderDies(stage) | Drama::Restart(stage) => format!("counts.{stage}"),
            Drama::Forgets => "counts.sum".to_owned(),
            _ => String::new(),
        };
        for &i in &ours {
            let more = match case.drama {
                Drama::NetworkKey => vec!["--network-key", &key],
                _ if i == leader && !hold.is_empty() => vec!["--hold-at", &hold],
                _ => Vec::new(),
            };
            ground.start(i, &more)?;
        }
        if case.drama != Drama::Late {
            ground.start_checked()?;
        }
        self.play(case.drama, &mut ground, &mut ours, leader)?;
        let must_end_well = case.drama != Drama::Forgets;
        let mut wrong = ground.judge(&ours, must_end_well);
        if wrong.is_empty() && matches!(case.drama, Drama::Nothing | Drama::NetworkKey) {
            wrong.extend(ground.judge_rows(ours[0])?);
        }
        Ok(Some(wrong))
    }

    /// Lets a session run to its end, with what the case wants to happen on the way.
    fn play(
        &self,
        drama: Drama,
        ground: &mut Ground,
        ours: &mut Vec<usize>,
        leader: usize,
    ) -> Result<(), Failure> {
        let mut done = matches!(drama, Drama::Nothing | Drama::NetworkKey);
        let mut frozen: Option<(usize, std::time::Instant)> = None;
        while ground.hear()? {
            match drama {
                _ if done => {}
                Drama::Late if ground.anyone(&[("event", "view")]) => {
                    ground.start_checked()?;
                    done = true;
                }
                Drama::Restart(_) | Drama::Forgets if ground.heard(leader, &[("event", "held")]) => {
                    // What was sent to it before the leader stood still arrives.
                    std::thread::sleep(ARRIVES);
                    ground.kill_checked();
                    ground.kill(leader);
                    if drama == Drama::Forgets {
                        ground.forget()?;
                    }
                    ground.start_checked()?;
                    ground.start(leader, &[])?;
                    done = true;
                }
                Drama::LeaderDies(_) if ground.heard(leader, &[("event", "held")]) => {
                    ground.kill(leader);
                    ours.retain(|i| *i != leader);
                    done = true;
                }
                Drama::Frozen
                    if ground.anyone(&[("event", "stage"), ("slot", "counts"), ("stage", "compute")]) =>
                {
                    let last =
                        ground.tree.iter().rev().copied().find(|i| *i != ground.checked && *i != leader);
                    let whom = last.unwrap_or(leader);
                    ground.signal(whom, "STOP")?;
                    frozen = Some((whom, now() + FROZEN));
                    done = true;
                }
                _ => {}
            }
            if let Some((whom, until)) = frozen
                && now() >= until
            {
                ground.signal(whom, "CONT")?;
                frozen = None;
            }
            if done && frozen.is_none() && ground.over(ours) {
                break;
            }
        }
        Ok(())
    }
}

/// What CI systems read.
fn junit(outcomes: &[Outcome]) -> String {
    let escaped = |text: &str| {
        let text =
            text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        text.chars().filter(|c| !c.is_control()).collect::<String>()
    };
    let mut text = String::new();
    for Outcome { name, about, wrong, seconds, .. } in outcomes {
        let inside = match wrong {
            None => "<skipped/>".to_owned(),
            Some(wrong) if wrong.is_empty() => String::new(),
            Some(wrong) => format!("<failure message=\"{}\"/>", escaped(&wrong.join("; "))),
        };
        let about = escaped(about);
        text += &format!(
            "  <testcase classname=\"{about}\" name=\"{name}\" time=\"{seconds:.3}\">{inside}</testcase>\n"
        );
    }
    let failures =
        outcomes.iter().filter(|outcome| outcome.wrong.as_ref().is_some_and(|w| !w.is_empty())).count();
    let skipped = outcomes.iter().filter(|outcome| outcome.wrong.is_none()).count();
    let tests = outcomes.len();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"flyswarm conform\" tests=\"{tests}\" \
         failures=\"{failures}\" skipped=\"{skipped}\">\n{text}</testsuite>\n"
    )
}
