//! Command line: clap parses the arguments, and each command checks their meaning and runs.
//!
//! Results go to standard output, all other messages to standard error. Errors are one line.

#[cfg(feature = "net")]
mod bindings;
#[cfg(feature = "net")]
mod calls;
mod console;
#[cfg(feature = "net")]
mod dashboard;
mod data;
#[cfg(feature = "net")]
mod demo;
#[cfg(feature = "net")]
mod doctor;
mod export;
mod id;
mod inspect;
#[cfg(feature = "net")]
mod join;
mod kind;
mod learnt;
mod model;
#[cfg(feature = "net")]
mod network;
mod noise;
mod output;
mod personalise;
#[cfg(feature = "net")]
mod progress;
#[cfg(feature = "net")]
mod relay;
mod report;
mod schema;
mod session;
mod shell;
mod simulate;
mod tune;

pub use crate::sim::table::columns;
#[cfg(feature = "net")]
pub use bindings::{
    builder, call, declare, network_rows, new_session, own_part, page, program, round_file, rows, settings,
    trained_by, with_rounds,
};
#[cfg(feature = "net")]
pub use join::observers::Observers;

use std::borrow::Cow;
use std::cell::RefCell;
#[cfg(feature = "net")]
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use console::Console;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[cfg(feature = "net")]
use crate::peer::MakeInterpose;
use crate::session::one_line;

/// Errors of a command; see [`Failure::code`] for the exit codes.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A file, a field or an argument is wrong: exit code 2. Nothing was written.
    #[error("{0}")]
    Input(String),
    /// The session could not be finished (no quorum, too many failed views, or refused by a rule): exit code
    /// 3.
    #[error("{0}")]
    Session(String),
    /// The disk or the network of this machine failed: exit code 4.
    #[error("{0}")]
    Environment(String),
    /// The user ended the run (Ctrl-C, SIGTERM): exit code 130.
    #[error("interrupted: {0}")]
    Interrupted(String),
}

impl Failure {
    /// Returns the exit code: 2 for wrong input (clap uses it too), 3 for a failed session, 4 for a failure
    /// of this machine, 130 if the user ended the run.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Session(_) => 3,
            Self::Environment(_) => 4,
            Self::Interrupted(_) => 130,
        }
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "flyswarm",
    version,
    about = "Federated learning with no central aggregator",
    arg_required_else_help = true
)]
struct Arguments {
    /// Write log lines that match FILTER to standard error, such as info or flyswarm=debug,libp2p_tcp=trace
    /// [default: the value of RUST_LOG, or no log]
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// Write the log as one JSON object per line
    #[arg(long, global = true)]
    log_json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "net")]
    Demo(demo::Demo),
    #[cfg(feature = "net")]
    Join(Box<join::Join>),
    #[cfg(feature = "net")]
    Doctor(doctor::Doctor),
    #[cfg(feature = "net")]
    Relay(relay::Relay),
    Id(id::IdArguments),
    /// Check a table before a session and list all its problems at once
    #[command(subcommand)]
    Schema(schema::SchemaCommand),
    Ledger(noise::Spent),
    /// Make, check and show session files
    #[command(subcommand)]
    Session(session::SessionCommand),
    Predict(model::Predict),
    Report(report::Report),
    Inspect(inspect::Inspect),
    Export(export::Export),
    Personalise(personalise::Personalise),
    Tune(tune::Tune),
    Simulate(simulate::Simulate),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// Parses the arguments of this process, runs the command, and prints its error on one line.
#[must_use]
pub fn main() -> ExitCode {
    main_of(std::env::args_os())
}

/// Does the same as [`main`]. `kinds` are tasks that the program adds to those of this crate.
#[must_use]
pub fn main_with(kinds: &[&'static crate::tasks::TaskKind]) -> ExitCode {
    kinds.iter().for_each(|kind| crate::tasks::register(kind));
    main()
}

/// Runs the command with these words; the first word is the program's name.
#[must_use]
pub fn main_of(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    start(Arguments::parse_from(words))
}

/// Runs the command `join` with these arguments, the program's name first. `interpose` makes a layer between
/// the node and its network.
#[cfg(feature = "net")]
#[must_use]
pub fn join_interposed(arguments: &[OsString], interpose: MakeInterpose) -> ExitCode {
    let mut arguments = Arguments::parse_from(arguments);
    if let Command::Join(join) = &mut arguments.command {
        join.interpose(interpose);
    }
    start(arguments)
}

fn start(arguments: Arguments) -> ExitCode {
    ExitCode::from(code_of(arguments))
}

/// Runs a command, prints its error on one line, and returns the exit code.
fn code_of(arguments: Arguments) -> u8 {
    let result = start_log(arguments.log.as_deref(), arguments.log_json)
        .and_then(|()| run(arguments.command, &mut io::stdout()));
    result.map_or_else(
        |failure| {
            console::line(&format!("flyswarm: {}", one_line(&failure.to_string())));
            failure.code()
        },
        |()| 0,
    )
}

thread_local! {
    /// Collects the messages of this thread's commands that are not results, if they must not go to standard
    /// error.
    static SAID: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Prints a message that is not a result: on standard error, or to the caller of [`call`].
fn say(text: &str) {
    let kept = SAID.with_borrow_mut(|said| said.as_mut().map(|said| said.push(one_line(text))));
    if kept.is_none() {
        console::line(&one_line(text));
    }
}

/// Starts the log, which is silent unless the option or RUST_LOG enables it. Results and errors never go
/// to the log.
fn start_log(filter: Option<&str>, json: bool) -> Result<(), Failure> {
    let directives = filter.map_or_else(|| std::env::var("RUST_LOG").unwrap_or_default(), str::to_owned);
    let targets = match directives.trim() {
        "" => Targets::new(),
        text => text.parse().map_err(|error| Failure::Input(format!("--log {directives}: {error}")))?,
    };
    let lines =
        tracing_subscriber::fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(|| Console);
    let log = tracing_subscriber::registry().with(targets);
    if json {
        log.with(lines.json()).init()
    } else {
        log.with(lines).init()
    }
    Ok(())
}

fn run(command: Command, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        #[cfg(feature = "net")]
        Command::Demo(command) => command.run(out),
        #[cfg(feature = "net")]
        Command::Join(command) => command.run(),
        #[cfg(feature = "net")]
        Command::Doctor(command) => command.run(out),
        Command::Id(arguments) => arguments.run(out),
        Command::Schema(command) => command.run(out),
        Command::Ledger(command) => command.run(out),
        Command::Session(command) => command.run(out),
        Command::Predict(command) => command.run(out),
        Command::Report(command) => command.run(out),
        Command::Inspect(command) => command.run(out),
        Command::Export(command) => command.run(out),
        Command::Personalise(command) => command.run(out),
        Command::Tune(command) => command.run(out),
        Command::Simulate(command) => command.run(out),
        #[cfg(feature = "net")]
        Command::Relay(command) => command.run(),
        Command::Completions(command) => command.run(out),
        Command::Man(command) => command.run(out),
    }
}

/// Checks the result of writing to `place`. If the reader has left (`| head`), this is not a failure.
fn written(result: io::Result<()>, place: &str) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Environment(format!("{place}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a result to standard output. Control characters are escaped, because names in it may come from
/// other people.
fn print(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let text = if text.contains(acts) {
        let escape = |c: char| if acts(c) { c.escape_default().to_string() } else { c.to_string() };
        Cow::Owned(text.chars().map(escape).collect::<String>())
    } else {
        Cow::Borrowed(text)
    };
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()), "standard output")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Runs a command line and returns its standard output. Words that are not options are files in `folder`,
    /// and so are the values of --data, --out and --map.
    pub(super) fn run_line(folder: &Path, line: &str) -> Result<String, Failure> {
        let mut words = line.split(' ').map(String::from);
        let mut arguments = vec!["flyswarm".to_owned(), words.next().unwrap()];
        let mut value = false;
        for word in words {
            let file = if value {
                matches!(
                    arguments.last().map(String::as_str),
                    Some("--data" | "--out" | "--map" | "--validate" | "--fine-tuned-out")
                )
            } else {
                true
            };
            value = word.starts_with("--")
                && !matches!(
                    word.as_str(),
                    "--json"
                        | "--paper-settings"
                        | "--force"
                        | "--large"
                        | "--local"
                        | "--prototypes"
                        | "--with-private-rows"
                );
            let is_file = file && !word.starts_with("--");
            arguments.push(if is_file { folder.join(&word).to_str().unwrap().to_owned() } else { word });
        }
        let mut out = Vec::new();
        run(Arguments::try_parse_from(arguments).unwrap().command, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// Runs a command line unchanged.
    pub(super) fn run_words(words: Vec<String>, out: &mut dyn Write) -> Result<(), Failure> {
        run(Arguments::try_parse_from(words).unwrap().command, out)
    }

    #[test]
    fn names_from_files_of_others_do_not_act_on_the_terminal() {
        let mut out = Vec::new();
        print(&mut out, "a\tb\x1b[2J\n").unwrap();
        assert_eq!(out, b"a\tb\\u{1b}[2J\n");
        assert_eq!(
            one_line("unknown field `\x1b[2J`\nor \u{202e}x, \u{fc}"),
            "unknown field `\\u{1b}[2J` or \\u{202e}x, \u{fc}"
        );
    }

    #[test]
    fn every_command_that_prints_a_result_takes_json() {
        use clap::CommandFactory;
        fn without(command: &clap::Command, name: &str, out: &mut Vec<String>) {
            let below: Vec<_> = command.get_subcommands().collect();
            below.iter().for_each(|next| without(next, &format!("{name} {}", next.get_name()), out));
            if below.is_empty() && command.get_arguments().all(|argument| argument.get_long() != Some("json"))
            {
                out.push(name.trim_start().to_owned());
            }
        }
        let mut found = Vec::new();
        without(&Arguments::command(), "", &mut found);
        // These commands print no result.
        found.retain(|name| !["completions", "man"].contains(&name.as_str()));
        assert_eq!(found, <Vec<String>>::new());
    }

    #[test]
    fn arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn no_command_and_no_option_is_hidden() {
        use clap::CommandFactory;
        fn hidden(command: &clap::Command, out: &mut Vec<String>) {
            out.extend(command.is_hide_set().then(|| command.get_name().to_owned()));
            let arguments = command.get_arguments().filter(|argument| argument.is_hide_set());
            out.extend(arguments.map(|argument| format!("{} {}", command.get_name(), argument.get_id())));
            command.get_subcommands().for_each(|next| hidden(next, out));
        }
        let mut found = Vec::new();
        hidden(&Arguments::command(), &mut found);
        assert_eq!(found, <Vec<String>>::new());
    }

    /// Collects the options of a command and its subcommands, except --help and the options that every
    /// command has.
    fn options(command: &clap::Command, name: &str, out: &mut Vec<(String, usize)>) {
        let all = ["help", "version", "log", "log_json"];
        let own = command.get_arguments().filter(|argument| !argument.is_positional());
        let own = own.filter(|argument| !all.contains(&argument.get_id().as_str())).count();
        let below: Vec<_> = command.get_subcommands().collect();
        if below.is_empty() {
            out.push((name.to_owned(), own));
        }
        below.iter().for_each(|next| options(next, &format!("{name} {}", next.get_name()), out));
    }

    #[test]
    fn there_are_at_most_15_commands_and_none_has_more_than_20_options() {
        use clap::CommandFactory;
        let command = Arguments::command();
        let apart = ["completions", "man"];
        let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let commands = names.iter().filter(|name| !apart.contains(name)).count();
        let mut counts = Vec::new();
        command.get_subcommands().for_each(|next| options(next, next.get_name(), &mut counts));
        counts.iter().for_each(|(name, count)| println!("{count:>3} {name}"));
        let many: Vec<_> = counts.iter().filter(|(_, count)| *count > 20).collect();
        assert!(many.is_empty(), "{many:?}");
        assert!(commands <= 15, "{names:?}");
    }
}
