//! `completions` and `man`: print descriptions of this program for shells and manuals.

use std::fs::{self, DirEntry};
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, Failure, output, print};

/// Print the completions for a shell
#[derive(Debug, Args)]
pub(super) struct Completions {
    shell: Shell,
}

/// Write manual pages, one for each command
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Folder for the pages; the folder is made if it does not exist
    folder: PathBuf,
    /// Overwrite pages that exist
    #[arg(long)]
    force: bool,
}

impl Completions {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "flyswarm", &mut text);
        print(out, &String::from_utf8_lossy(&text))
    }
}

impl Man {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let failed = |error| output::failed(&self.folder, &error);
        let command = Arguments::command().disable_help_subcommand(true);
        let made = tempfile::tempdir().map_err(failed)?;
        clap_mangen::generate_to(command, made.path()).map_err(failed)?;
        output::create_folder(&self.folder)?;
        let pages =
            fs::read_dir(made.path()).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
        let place = |page: &DirEntry| self.folder.join(page.file_name());
        pages.iter().try_for_each(|page| output::check(&place(page), self.force))?;
        for page in &pages {
            let text = fs::read(page.path()).map_err(failed)?;
            output::write(&place(page), &text, self.force)?;
        }
        print(out, &format!("wrote {}\n", self.folder.join("flyswarm.1").display()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_line;

    #[test]
    fn completions_know_the_commands_and_their_options() {
        let folder = tempfile::tempdir().unwrap();
        for shell in ["bash", "zsh", "fish"] {
            let text = run_words(folder.path(), shell);
            for word in ["predict", "export", "session", "completions", "columns-from", "flyswarm"] {
                assert!(text.contains(word), "{shell}: {word}");
            }
        }
    }

    fn run_words(folder: &std::path::Path, shell: &str) -> String {
        let words = ["flyswarm", "completions", shell];
        let mut out = Vec::new();
        let arguments = <super::Arguments as clap::Parser>::try_parse_from(words).unwrap();
        assert!(folder.is_dir());
        super::super::run(arguments.command, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Tests that the command in a systemd unit is a valid command line of this program, with the arguments
    /// that the environment file may add.
    #[cfg(feature = "net")]
    #[test]
    fn the_units_start_commands_with_arguments_that_they_have() {
        use super::super::Command;
        let parsed = |unit: &str, arguments: &str| {
            let line =
                unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/flyswarm ")).unwrap();
            // systemd splits a variable at spaces if it is a word of its own. An empty variable gives no
            // word.
            assert!(line.ends_with(" $ARGUMENTS"), "{line}");
            let line = line
                .replace(" $ARGUMENTS", arguments)
                .replace("${LISTEN}", "/ip4/0.0.0.0/tcp/4001")
                .replace("%S", "/var/lib")
                .replace("%E", "/etc");
            let line = line.replace("%i", "wards");
            let words = std::iter::once("flyswarm").chain(line.split(' '));
            <super::Arguments as clap::Parser>::try_parse_from(words).unwrap().command
        };
        for arguments in ["", " --label none --dataset ward --yes"] {
            let unit = include_str!("../../packaging/flyswarm@.service");
            assert!(matches!(parsed(unit, arguments), Command::Join(_)));
        }
        for arguments in ["", " --metrics 9464"] {
            let unit = include_str!("../../packaging/flyswarm-no-data@.service");
            assert!(matches!(parsed(unit, arguments), Command::Join(_)));
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        run_line(folder.path(), "man pages").unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join("pages").join(name)).unwrap();
        assert!(page("flyswarm.1").starts_with(".ie"), "{}", page("flyswarm.1"));
        for name in ["predict", "export", "session-new", "session-check", "man"] {
            let text = page(&format!("flyswarm-{name}.1"));
            assert!(text.contains(".SH SYNOPSIS") && text.contains(".SH OPTIONS"), "{name}");
        }
    }
}
