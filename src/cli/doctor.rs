//! `flyswarm doctor`: prints the findings of [`crate::doctor`].

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::data::Reading;
use super::id::key_path;
use super::network::NetworkArguments;
use super::{Failure, print, schema};
use crate::crypto::identity::Identity;
use crate::data::LabelColumn;
use crate::doctor::{Examination, Finding, Level, local};
use crate::net::Config;
use crate::net::driver::{self, peer_id};
use crate::peer;
use crate::session::Session;

/// Default number of seconds for which it looks for the other peers.
pub(super) const WAIT: u64 = 15;

/// Find problems before a session starts. Run this command on every machine at about the same time
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Session file
    pub(super) session: PathBuf,
    #[command(flatten)]
    pub(super) network: NetworkArguments,
    /// Key file [default: the key of `flyswarm id`]
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// State folder of `join` [default: `state` next to the key file]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Result file of `join` [default: the session's name with its task's ending, such as .model]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Rows for `join`: list all problems of these rows
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Label column of these rows [default: as for `join`]
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub(super) label: Option<LabelColumn>,
    /// Search for the other peers for at most SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = WAIT, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) wait: u64,
    /// Print one JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

impl Doctor {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        self.examine(&super::session::load(&self.session)?, out)
    }

    /// Examines the session. The name of its file is used only in messages.
    pub(super) fn examine(&self, session: &Session, out: &mut dyn Write) -> Result<(), Failure> {
        let key = key_path(self.key.clone())?;
        let identity = Identity::load(&key)?;
        let public = identity.public();
        let roster = driver::roster(session).map_err(peer::Error::from)?;
        let mut config = Config::new(identity.seed(), roster.into_iter().collect());
        config.listen = self.network.listen();
        config.mdns = !self.network.no_mdns;
        config.network_key = self.network.key()?;
        config.relays = driver::relays(session).map_err(peer::Error::from)?;
        let mut printer = Printer { out, json: self.json, failed: false };
        let state = peer::state_folder(self.state.as_deref(), Some(&key), &public.to_string(), session)?;
        let folder = self.out.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
        let (findings, alone) = local::machine(session, &self.session, &public, &state, folder);
        printer.say_all(&findings)?;
        if let Some(data) = &self.data {
            printer.say_all(&rows(session, data, self.label.as_ref(), &self.reading)?)?;
        }
        if let Some(finding) = local::lost(&state, &peer::mark_file(&key, session)) {
            printer.say(&finding)?;
        }
        let mut examination = Examination::new(session, peer_id(&public), &config, self.network.chosen());
        let twin = examination.twin(&mut |finding| printer.say(finding))?;
        let (count, wait) = (examination.others(), self.wait);
        super::say(&format!("looking for {count} other peers for up to {wait} s"));
        let wait = Duration::from_secs(wait);
        examination.run(config, alone || twin, wait, &mut |finding| printer.say(finding))?;
        let (ready, findings) = examination.findings();
        printer.say_all(&findings)?;
        printer.verdict(session, ready)
    }
}

/// Returns the problems of the rows in a file.
fn rows(
    session: &Session,
    path: &Path,
    label: Option<&LabelColumn>,
    reading: &Reading,
) -> Result<Vec<Finding>, Failure> {
    let looked = match schema::look(session, path, label, reading) {
        Ok(looked) => looked,
        Err(Failure::Input(text)) => return Ok(vec![Finding::new(Level::Error, "rows", text)]),
        Err(other) => return Err(other),
    };
    let line = |problem| Finding::new(Level::Error, "rows", format!("{}, {problem}", path.display()));
    let mut findings: Vec<Finding> = looked.problems.shown().iter().map(line).collect();
    let warn = |(_, line)| Finding::new(Level::Warning, "rows", format!("{}: {line}", path.display()));
    findings.extend(looked.warnings.into_iter().map(warn));
    if let Some(loaded) = &looked.loaded {
        let text =
            format!("{}: {} rows of {} features", path.display(), loaded.data.rows(), loaded.data.features());
        findings.push(Finding::new(Level::Ok, "rows", text));
    }
    Ok(findings)
}

/// Prints findings when they come, and records whether one of them prevents a session.
struct Printer<'a> {
    out: &'a mut dyn Write,
    json: bool,
    failed: bool,
}

impl Printer<'_> {
    fn say(&mut self, finding: &Finding) -> Result<(), Failure> {
        self.failed |= finding.level == Level::Error;
        let line = if self.json { finding.json() } else { finding.line() };
        print(self.out, &(line + "\n"))
    }

    fn say_all(&mut self, findings: &[Finding]) -> Result<(), Failure> {
        findings.iter().try_for_each(|finding| self.say(finding))
    }

    /// Prints whether a session could start with this number of ready peers.
    fn verdict(&mut self, session: &Session, ready: usize) -> Result<(), Failure> {
        let (count, needed) = (session.roster.len(), usize::from(session.min_peers));
        let could_start = !self.failed && ready >= needed;
        let summary = format!("{ready} of {count} peers are ready, {needed} are needed");
        if self.json {
            let verdict = json!({"check": "verdict", "could_start": could_start, "ready": ready, "peers": count, "needed": needed});
            print(self.out, &format!("{verdict}\n"))?;
        }
        if !could_start {
            let why = if ready < needed { summary } else { format!("{summary}, but see the errors above") };
            return Err(Failure::Session(format!("a session could not start: {why}")));
        }
        if self.json { Ok(()) } else { print(self.out, &format!("a session could start: {summary}\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_not_as_described_are_findings_each_with_what_to_do() {
        let folder = schema::tests::drafted();
        let session = Session::load(folder.path().join("s.toml")).unwrap();
        let look = |name: &str| {
            rows(&session, &folder.path().join(name), None, &Reading::default())
                .unwrap()
                .into_iter()
                .map(|finding| (finding.level, finding.text))
                .collect::<Vec<_>>()
        };
        let good = look("north.csv");
        assert!(good.len() == 1 && good[0].0 == Level::Ok, "{good:?}");
        assert!(good[0].1.ends_with("north.csv: 30 rows of 3 features"), "{good:?}");
        std::fs::write(folder.path().join("south.csv"), "sex;age;kind\nmael;<5;sick\nmale;;well\n").unwrap();
        let found = look("south.csv");
        assert!(found.iter().all(|(level, _)| *level == Level::Error), "{found:?}");
        for (at, part) in [
            "line 2, column \"age\": found \"<5\", expected a number; agree on a number for values",
            "line 2, column \"sex\": found \"mael\", expected one of the levels",
            "line 3, column \"age\": found nothing, expected a value; leave these rows out",
        ]
        .into_iter()
        .enumerate()
        {
            assert!(found[at].1.contains(part), "{found:?}");
        }
        assert_eq!(found.len(), 3);
    }
}
