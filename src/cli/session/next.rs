//! `flyswarm session next`: makes the next session of a series, such as a monthly series.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::load;
use super::new::of_file;
use super::parse::PeerArgument;
use crate::cli::id::new_run;
use crate::cli::{Failure, output, print, say};
use crate::session::{Peer, Series, Session};

/// Longest name of a session.
const NAME: usize = 64;

/// Write the next session of a series: the same peers and settings, with a new id and date
#[derive(Debug, Args)]
pub(in crate::cli) struct NextArguments {
    /// File of the previous session
    old: PathBuf,
    /// Peer that joins the series; repeatable
    #[arg(long, value_name = "NAME=PEERID[@MULTIADDR]")]
    add: Vec<PeerArgument>,
    /// Peer that leaves the series; repeatable
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// Use these settings, as written by `tune --out` or by a session of the task tune
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Name of the new session [default: the old name with the number in the series, such as ward-2]
    #[arg(long)]
    name: Option<String>,
    /// File to write [default: the new name with the ending .toml, next to the old file]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl NextArguments {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let old = load(&self.old)?;
        let changed = self.add.len() + self.remove.len();
        let next = self.next(&old)?;
        let contributors = usize::from(next.privacy.min_contributors);
        let of_task = next.task.check_next(changed, contributors).map_err(Failure::Input)?;
        let warning = of_task.map_or_else(|| difference(&next, changed), str::to_owned);
        let file = self.out.clone().unwrap_or_else(|| self.old.with_file_name(format!("{}.toml", next.name)));
        output::check(&file, self.force)?;
        let text = next.to_toml();
        Session::parse(&text)?;
        output::write(&file, text.as_bytes(), self.force)?;
        let place = next.run.place();
        if self.json {
            let value = json!({
                "file": file, "session": next.id().to_string(), "name": next.name, "number": place,
                "parent": old.id().to_string(), "peers": next.roster.len(), "min_peers": next.min_peers,
                "warning": warning,
            });
            return print(out, &format!("{value:#}\n"));
        }
        say(&format!("warning: {warning}"));
        let text = format!(
            "wrote {}: session {}, number {place} of its series, after {}\n",
            file.display(),
            next.id(),
            old.id()
        );
        print(out, &text)
    }

    fn next(&self, old: &Session) -> Result<Session, Failure> {
        let place = old.run.place() + 1;
        let mut next = old.clone();
        next.run = new_run()?;
        next.run.series = Some(Series { number: place, parent: old.id() });
        next.name = self.name.clone().unwrap_or_else(|| name_at(&old.name, place));
        for name in &self.remove {
            let before = next.roster.len();
            next.roster.retain(|entry| entry.name != *name);
            if next.roster.len() == before {
                let text = format!("--remove {name}: no peer of {} has this name", self.old.display());
                return Err(Failure::Input(text));
            }
            next.voting.members.retain(|member| member != name);
        }
        next.roster.extend(self.add.iter().map(|peer| peer.0.clone()));
        if let Some(path) = &self.settings {
            let kind = next.task.kind();
            (kind.take_settings)(&mut next, path).map_err(of_file)?;
        }
        // Adjusts numbers of peers if the old file has their default values, or if they are too large for the
        // new roster.
        let (before, peers) = (old.roster.len(), next.roster.len());
        let smallest = Session::default_min_peers(&next.task, peers);
        let most = u16::try_from(peers).unwrap_or(u16::MAX);
        next.min_peers = match old.min_peers {
            usual if usual == Session::default_min_peers(&old.task, before) => smallest,
            asked => asked.clamp(smallest.min(most), most),
        };
        next.privacy.min_contributors = next.privacy.min_contributors.min(most);
        next.task.resize(most);
        Ok(next.check()?)
    }
}

/// Returns the name of the session with this number in the series: `ward` becomes `ward-2`, `ward-2` becomes
/// `ward-3`.
fn name_at(old: &str, place: u32) -> String {
    let stem = old.strip_suffix(&format!("-{}", place - 1)).filter(|stem| !stem.is_empty()).unwrap_or(old);
    let ending = format!("-{place}");
    let stem: String = stem.chars().take(NAME - ending.len()).collect();
    stem + &ending
}

/// Describes what two models of a series reveal together.
fn difference(next: &Session, changed: usize) -> String {
    let hide = next.privacy.min_contributors.max(2);
    let names: Vec<_> = next.peers().take(3).map(|peer: Peer| next.name(peer)).collect();
    let noise = if next.privacy.noise.is_some() {
        "; the noise limits what each model reveals, and budgets add up"
    } else {
        ""
    };
    let now = match changed {
        0 => "no peer changes here, but a peer that alone replaces its rows reveals them in the same way"
            .into(),
        1 => "1 peer changes here".to_owned(),
        some => format!("{some} peers change here"),
    };
    let who = names.join(", ");
    format!(
        "all peers ({who} ...) have the models of both sessions and can subtract class sizes and means: \
         if only one peer joins, leaves or changes its rows, the difference is that peer's part. At \
         least {hide} peers must join, leave or change rows together (privacy.min_contributors); {now}{noise}"
    )
}

#[cfg(test)]
mod tests {
    use super::name_at;

    #[test]
    fn names_count_on() {
        assert_eq!(name_at("ward", 2), "ward-2");
        assert_eq!(name_at("ward-2", 3), "ward-3");
        assert_eq!(name_at("ward-9", 10), "ward-10");
        assert_eq!(name_at("ward-7", 2), "ward-7-2", "this number is not that of the series");
        assert_eq!(name_at(&"x".repeat(64), 12), format!("{}-12", "x".repeat(61)));
    }
}
