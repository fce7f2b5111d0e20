//! `flyswarm simulate`: runs a scenario in virtual time, prints the results, and writes the result and the
//! report.

mod calibrate;
#[cfg(feature = "net")]
mod page;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{Failure, kind, output, print};
use crate::session::Session;
use crate::sim::outcome::Results;
use crate::sim::report;
use crate::sim::run::{self, Progress};
use crate::sim::scenario::File;
use crate::sim::table;

/// Run the nodes and faults of a scenario in virtual time
///
/// Prints a table of the results. The same seed gives the same trace hash on every machine. If a check fails,
/// the program prints the command that repeats the run, and the exit code is 3.
#[derive(Debug, Args)]
pub(super) struct Simulate {
    /// Scenario file, such as simulations/churn.toml; simulations/README.md documents its fields
    #[arg(required_unless_present = "calibrate")]
    pub(super) file: Option<PathBuf>,
    /// Seed that replaces the one in the file
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Write result.json and report.html into this folder; the folder is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Overwrite these files if they exist
    #[arg(long, requires = "out")]
    pub(super) force: bool,
    /// Simulate the session of this file (any task), with the keys, rows, network and faults of the scenario
    #[arg(long, value_name = "FILE")]
    pub(super) session: Option<PathBuf>,
    /// Run the small variant of the scenario, as the tests do
    #[arg(long)]
    pub(super) small: bool,
    /// Show at most 64 nodes side by side on a page in the browser, and print the address of the page. The
    /// default ADDRESS is 127.0.0.1; port 0 selects a free port
    #[cfg(feature = "net")]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = super::dashboard::parse_address)]
    pub(super) page: Option<std::net::SocketAddr>,
    /// Measure the speed of this machine. Print it as the table `rates` of a scenario, or write this table
    /// into the scenario FILE
    #[arg(long, conflicts_with_all = ["seed", "out", "small", "force", "session"])]
    pub(super) calibrate: bool,
    /// Print JSON: the contents of result.json
    #[arg(long)]
    pub(super) json: bool,
}

impl Simulate {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.calibrate {
            return calibrate::run(self.file.as_deref(), self.json, out);
        }
        let path = self.file.clone().unwrap_or_default();
        let file = Self::load(&path, self.small)?;
        let session = self.session.as_deref().map(super::session::load).transpose()?;
        self.play(&path, file, session.as_ref(), out)
    }

    /// Reads a scenario file. If the file is of another kind that this program writes, the error names the
    /// kind.
    pub(super) fn load(path: &Path, small: bool) -> Result<File, Failure> {
        File::load(path, small).map_err(|error| {
            let kind = kind::of(path).filter(|&kind| kind != "a scenario");
            Failure::Input(match kind {
                Some(kind) => format!("{}: this is {kind}; a scenario is expected", path.display()),
                None => error.0,
            })
        })
    }

    /// Runs the scenarios of a file. If a session is given, its settings are used. The names of the files are
    /// used only in messages.
    pub(super) fn play(
        &self,
        path: &Path,
        mut file: File,
        session: Option<&Session>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if let Some(folder) = &self.out {
            self.prepare(folder)?;
        }
        if let Some(seed) = self.seed {
            file.runs.iter_mut().for_each(|(_, scenario)| scenario.seed = seed);
        }
        if let Some(session) = session {
            let name = self.session.as_deref().unwrap_or(Path::new("session")).display();
            for (_, scenario) in &mut file.runs {
                let taken = scenario.take_settings(session);
                taken.map_err(|error| Failure::Input(format!("{name}: {error}")))?;
            }
        }
        let bar = bar();
        #[cfg(feature = "net")]
        let page = self.page.map(|address| page::Page::open(address, &file)).transpose()?;
        #[cfg(feature = "net")]
        let results = run::run_all_watched(
            &file,
            &mut |name, ctx| page.as_ref().map(|page| page.watcher(name, ctx)),
            &mut |progress| show(&bar, progress),
        );
        #[cfg(not(feature = "net"))]
        let results = run::run_all(&file, &mut |progress| show(&bar, progress));
        let results = results.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
        #[cfg(feature = "net")]
        page.iter().for_each(|page| page.report(report::render(&results)));
        bar.finish_and_clear();
        if let Some(folder) = &self.out {
            let write =
                |name: &str, text: String| output::write(&folder.join(name), text.as_bytes(), self.force);
            write("result.json", file_text(folder, &results)?)?;
            write("report.html", report::render(&results))?;
        }
        if self.json {
            print(out, &format!("{}\n", json!(results)))?;
        } else {
            print(out, &table::render(&results))?;
        }
        self.judge(path, &file, &results)
    }

    /// Creates the folder for results, and checks that they can be written.
    fn prepare(&self, folder: &Path) -> Result<(), Failure> {
        output::create_folder(folder)?;
        let files = ["result.json", "report.html"].into_iter();
        files.map(|name| folder.join(name)).try_for_each(|path| output::check(&path, self.force))
    }

    /// Returns the first check that failed, with the command that repeats the run.
    fn judge(&self, path: &Path, file: &File, results: &Results) -> Result<(), Failure> {
        let failed = results.runs.iter().find_map(|run| Some((run, run.violations.first()?)));
        let Some((run, first)) = failed else { return nobody(path, file, results) };
        let small = if self.small { " --small" } else { "" };
        Err(Failure::Session(format!(
            "{}: check {:?} failed at {} ms: {}; repeat with: flyswarm simulate {}{small} --seed {}",
            run.name,
            first.check,
            first.at_ms,
            first.text,
            path.display(),
            run.seed
        )))
    }
}

/// Refuses a run in which no peer has the result, unless the scenario expects that.
fn nobody(path: &Path, file: &File, results: &Results) -> Result<(), Failure> {
    let meant = |name: &str| {
        let scenario = file.runs.iter().find(|(run, _)| run == name);
        scenario.is_some_and(|(_, scenario)| scenario.expect.finished == Some(0))
    };
    let Some(run) = results.runs.iter().find(|run| run.finished == 0 && !meant(&run.name)) else {
        return Ok(());
    };
    let why = run.unfinished.first().map_or("", |(_, reason)| reason);
    Err(Failure::Session(format!(
        "{}: {}: no peer has the result ({why}); if this is intended, set finished = 0 in [expect]",
        path.display(),
        run.name
    )))
}

fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} finished  {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    bar.set_length(u64::from(progress.finished.1));
    bar.set_position(progress.finished.0 as u64);
    let seconds = progress.now.0 as f64 / 1e6;
    bar.set_message(format!("{}: {seconds:.2} s of virtual time, {} frames", progress.name, progress.frames));
}

fn file_text(folder: &Path, value: &impl serde::Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(value);
    json.map(|json| json + "\n")
        .map_err(|error| Failure::Environment(format!("{}: {error}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_line;

    /// One of three peers crashes before the first sum. The other two wait for it, and then end.
    const ALONE: &str = "peers = 3\n[task]\nkind = \"sum\"\nwords = 4\n[timing]\nno_quorum_timeout_ms = 1000\n\
                         [[fault]]\nkind = \"crash\"\npeers = 1\nat = { slot = \"coin\", stage = \"keys\" }\n";

    #[test]
    fn a_run_in_which_nobody_has_the_result_fails_unless_that_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("alone.toml"), text).unwrap();
        write(ALONE);
        let error = run_line(folder.path(), "simulate alone.toml").unwrap_err();
        assert_eq!(error.code(), 3, "{error}");
        assert!(error.to_string().contains("alone: no peer has the result ("), "{error}");
        write(&format!("{ALONE}[expect]\nfinished = 0\n"));
        run_line(folder.path(), "simulate alone.toml").unwrap();
    }

    #[test]
    fn json_on_standard_output_is_the_result_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s.toml"), format!("{ALONE}[expect]\nfinished = 0\n")).unwrap();
        let printed = run_line(folder.path(), "simulate s.toml --out a --json").unwrap();
        let written = std::fs::read_to_string(folder.path().join("a/result.json")).unwrap();
        let [printed, written] =
            [printed, written].map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
        assert_eq!(printed, written);
    }

    #[cfg(unix)]
    #[test]
    fn results_can_be_read_by_others_and_are_replaced_only_by_force() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s.toml"), format!("{ALONE}[expect]\nfinished = 0\n")).unwrap();
        run_line(folder.path(), "simulate s.toml --out a/b").unwrap();
        let plain = folder.path().join("plain");
        std::fs::File::create(&plain).unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for name in ["result.json", "report.html"] {
            assert_eq!(mode(&folder.path().join("a/b").join(name)), mode(&plain));
        }
        let error = run_line(folder.path(), "simulate s.toml --out a/b").unwrap_err();
        assert!(error.to_string().ends_with("result.json: exists; --force overwrites it"), "{error}");
        run_line(folder.path(), "simulate s.toml --out a/b --force").unwrap();
    }
}
