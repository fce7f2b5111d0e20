//! `flyswarm session`: make, check and show session files.

#[cfg(feature = "net")]
pub(in crate::cli) mod collect;
mod committee;
mod draft;
mod fedavg;
pub(in crate::cli) mod forecast;
mod next;
mod options;
mod parse;
mod settings;
mod show;
pub(in crate::cli) mod sketch;
mod xclp;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use self::draft::Draft;
use self::parse::{ClassRange, PeerArgument, parse_scaling, parse_timing};
use self::settings::Settings;
use super::data::load_drafted;
use super::id::new_run;
use super::noise::{NoiseArguments, TOP};
use super::{Failure, kind, output, print};
use crate::data::prepare::whole;
use crate::data::{self, Column, Dialect, Expected, LabelColumn, Loaded};
use crate::memory;
use crate::model::readout::Readout;
use crate::session::{
    ColumnChecks, DataSpec, Privacy, Scaling, Score, Session, SessionError, Size, Sizes, TaskSpec, Timing,
};
use crate::tasks::xclp::memory::refusal;
use crate::tasks::{EvaluateSpec, FlynnSpec, TuneSpec, XclpSpec};
use flyswarm_learn::tuning::candidate::{PRESET_BINS, PRESET_M, PRESET_READOUT, PRESET_RHO, PRESET_S};

/// Make, check and show session files.
#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// Write a session file
    New(Box<NewArguments>),
    Next(Box<next::NextArguments>),
    Forecast(forecast::ForecastArguments),
    /// Check a session file: prints its id, or what is wrong on one line
    Check {
        /// The session file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show everything a session file means: sizes, committee, timing
    Show {
        /// The session file
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("file_of_rows").multiple(true)))]
pub(super) struct NewArguments {
    /// What people call the session
    #[arg(long)]
    name: String,
    /// Features of a row; not needed where their names are given
    #[arg(long, value_name = "N", required_unless_present_any = ["columns", "file_of_rows"])]
    features: Option<u32>,
    /// Names of the features, separated by commas: rows that have names must then have these
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    columns: Vec<String>,
    /// Describes the columns of a table as in this file, for all peers: names, numbers, categories, dates and
    /// missing values, with a comment on each guess; also the classes, where they are not given. A session
    /// file (its name ends in .toml) gives its own section table. A file without a header, of another format
    /// or with more than 2,000 columns gives the names only
    #[arg(long, value_name = "FILE", conflicts_with = "columns", group = "file_of_rows")]
    columns_from: Option<PathBuf>,
    /// Takes names and number of the features and the classes from a file of labelled rows, and proposes the
    /// settings that suit it best among those that can be tried in a minute; what else is given here counts
    #[arg(long, value_name = "FILE", conflicts_with = "columns", group = "file_of_rows")]
    data: Option<PathBuf>,
    /// How long settings are tried with --data
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "data", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    tuning: u64,
    /// Settings as `tune --out` and a session of the task tune write them
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    settings: Option<PathBuf>,
    /// The label column of that file: a name, a number from 1, last or none
    #[arg(long, value_name = "COLUMN", default_value = "last", requires = "file_of_rows")]
    label: LabelColumn,
    /// What stands between the columns of that file: "," ";" "|" or tab; found out where not given
    #[arg(long, value_name = "CHARACTER", requires = "file_of_rows", value_parser = super::data::delimiter)]
    delimiter: Option<u8>,
    /// Whether decimals of that file follow a comma; found out where not given
    #[arg(long, value_name = "yes|no", requires = "file_of_rows", value_parser = super::data::yes_or_no)]
    decimal_comma: Option<bool>,
    /// A column of that file to leave out: a name, or a number from 1; repeatable
    #[arg(long, value_name = "COLUMN", requires = "file_of_rows")]
    drop: Vec<Column>,
    /// The classes, separated by commas; none with the task sketch
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    classes: Vec<String>,
    /// The classes as a range of integers, both ends included: 0..9 are ten
    #[arg(long, value_name = "FIRST..LAST", conflicts_with = "classes", allow_hyphen_values = true)]
    classes_from_range: Option<ClassRange>,
    /// A peer; repeat for each, at least three
    #[cfg_attr(feature = "net", arg(required_unless_present = "collect"))]
    #[cfg_attr(not(feature = "net"), arg(required = true))]
    #[arg(long = "peer", value_name = "NAME=PEERID[@MULTIADDR]")]
    peers: Vec<PeerArgument>,
    /// A relay, through which peers meet that cannot dial each other, as `flyswarm relay` prints it;
    /// repeatable
    #[arg(long = "relay", value_name = "MULTIADDR")]
    relays: Vec<String>,
    /// Look by mDNS for so many seconds who is on this network (see `flyswarm id --announce`), and ask whom
    /// to admit
    #[cfg(feature = "net")]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    collect: Option<u64>,
    /// Admit without asking: all, or NAME=ENDING for the one whose peer id ends so; repeatable, or separated
    /// by commas
    #[cfg(feature = "net")]
    #[arg(long, value_name = "all|NAME=ENDING", requires = "collect", value_delimiter = ',')]
    admit: Vec<collect::Admit>,
    /// Bits of a hash: a number, or a multiple of the dimension d [default: 16384; published: 256d; with
    /// --epsilon: 20d]
    #[arg(long)]
    m: Option<Size>,
    /// Features (soft bins) that a bit looks at: a number, or a multiple of d [default: 2; published: 0.3d;
    /// with --epsilon: 0.1d]
    #[arg(long)]
    s: Option<Size>,
    /// Bits set in a hash: a number, or a multiple of m [default: 256; published: 64; with --epsilon: 0.05m]
    #[arg(long)]
    rho: Option<Size>,
    /// Decay of a bit's weight each time it is set, from 0 to below 1 [default: 0.9; published: 0.5]
    #[arg(long)]
    gamma: Option<f64>,
    /// What counts mean at prediction: decay, balanced-decay, log or balanced-log [default: balanced-log;
    /// published or with --epsilon: decay]
    #[arg(long)]
    score: Option<Score>,
    /// none, unit-norm, center, standard, range:LO:HI or soft-bins:BINS [default: soft-bins:8; published or
    /// with --epsilon: unit-norm]
    #[arg(long, value_parser = parse_scaling)]
    scaling: Option<Scaling>,
    /// The method as published where nothing else is said: the paper's score, rows of length 1
    #[arg(long)]
    published: bool,
    /// Random signs, padding and a Walsh-Hadamard transform after scaling
    #[arg(long)]
    densify: bool,
    /// No peer compares its columns with those of all; without it that costs one sum where the scaling needs
    /// none
    #[arg(long)]
    no_check_columns: bool,
    /// Hold no rows out: nobody is told how good the model is. With --epsilon and --select none are anyhow
    #[arg(long)]
    no_evaluate: bool,
    /// flynn (a classifier), xclp (labels for every peer's own rows), sketch (how far each peer's rows lie
    /// from all), fedavg (a network) or fedavg-xclp (a network, from rows of which few have labels)
    #[arg(long, value_name = "TASK", default_value = "flynn")]
    #[arg(value_parser = ["flynn", "xclp", "sketch", "fedavg", "fedavg-xclp"])]
    task: String,
    #[command(flatten)]
    xclp: xclp::XclpArguments,
    #[command(flatten)]
    fedavg: fedavg::FedavgArguments,
    #[command(flatten)]
    sketch: sketch::SketchArguments,
    /// A session that finds out by cross-validation which settings suit the rows of all peers: this one and
    /// so many others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    tune: Option<u16>,
    /// Parts that each peer's rows are split into by such a session [default: 3]
    #[arg(long, value_name = "N", requires = "tune")]
    folds: Option<u16>,
    /// Go on with at least so many peers [default: a majority, at least 3]
    #[arg(long, value_name = "N")]
    min_peers: Option<u16>,
    /// A class held by fewer peers is refused [default: 3]
    #[arg(long, value_name = "N")]
    min_holders: Option<u16>,
    /// Share of the peers that may collude [default: 1/3]
    #[arg(long, value_name = "SHARE")]
    colluding: Option<f64>,
    #[command(flatten)]
    committee: committee::CommitteeArguments,
    #[command(flatten)]
    noise: NoiseArguments,
    /// A time by its name in the file, such as gather_ms=5000; repeatable
    #[arg(long = "timing", value_name = "FIELD=MS", value_parser = parse_timing)]
    timings: Vec<(String, i64)>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `session new` writes where nothing is said.
struct Preset {
    sizes: fn() -> Sizes,
    readout: Readout,
    scaling: Scaling,
}

/// The best single setting over many sets (docs/quality.md).
const DEFAULTS: Preset = Preset {
    sizes: || Sizes {
        m: Size::Absolute(PRESET_M as i64),
        s: Size::Absolute(PRESET_S as i64),
        rho: Size::Absolute(PRESET_RHO as i64),
    },
    readout: PRESET_READOUT,
    scaling: Scaling::SoftBins { bins: PRESET_BINS },
};

/// The paper's method, with sizes inside its search ranges (m 2d to 2048d, s 2 to 0.5d, rho 8 to 256, gamma 0
/// to 0.8).
const PUBLISHED: Preset = Preset {
    sizes: || Sizes {
        m: Size::Multiple("256d".into()),
        s: Size::Multiple("0.3d".into()),
        rho: Size::Absolute(64),
    },
    readout: Readout { score: Score::Decay, gamma: 0.5 },
    scaling: Scaling::UnitNorm,
};

/// The paper's method with noise (appendix D.8): few bits, each of which many rows set, and nothing that
/// needs exact means.
const PRIVATE: Preset = Preset {
    sizes: || Sizes {
        m: Size::Multiple("20d".into()),
        s: Size::Multiple("0.1d".into()),
        rho: Size::Multiple("0.05m".into()),
    },
    readout: Readout { score: Score::Decay, gamma: 0.9 },
    scaling: Scaling::UnitNorm,
};

/// What is taken where nothing else is said.
struct Defaults {
    scaling: Scaling,
    densify: bool,
    sizes: Sizes,
    readout: Readout,
}

impl From<&Preset> for Defaults {
    fn from(preset: &Preset) -> Self {
        Self { scaling: preset.scaling, densify: false, sizes: (preset.sizes)(), readout: preset.readout }
    }
}

/// What files say of a new session.
#[derive(Default)]
struct GivenFiles {
    rows: Option<Loaded>,
    settings: Option<Settings>,
    draft: Option<Draft>,
}

impl SessionCommand {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            #[cfg_attr(not(feature = "net"), expect(unused_mut))]
            Self::New(mut arguments) => {
                output::check(&arguments.out, arguments.force)?;
                #[cfg(feature = "net")]
                arguments.collect()?;
                let (file, force, json) = (arguments.out.clone(), arguments.force, arguments.json);
                let (session, notes) = arguments.session()?;
                let text = session.to_toml_with(&notes);
                // Many long names could make a file that is too large to be read.
                Session::parse(&text)?;
                output::write(&file, text.as_bytes(), force)?;
                if let Some(caution) = session.task.caution() {
                    eprintln!("warning: {caution}");
                }
                let id = session.id();
                let text = match json {
                    true => {
                        json!({"file": file, "session": id.to_string(), "name": session.name}).to_string()
                    }
                    false => format!("wrote {}: session {id}", file.display()),
                };
                print(out, &(text + "\n"))
            }
            Self::Next(arguments) => arguments.run(out),
            Self::Forecast(arguments) => arguments.run(out),
            Self::Check { file, json } => {
                let session = load(&file)?;
                if let Some(refusal) = refusal(&session, None, memory::available()) {
                    return Err(Failure::Environment(format!("{}: {refusal}", file.display())));
                }
                let id = session.id();
                let text = match json {
                    true => json!({"ok": true, "session": id.to_string()}).to_string(),
                    false => format!("ok: session {id}"),
                };
                print(out, &(text + "\n"))
            }
            Self::Show { file, json } => print(out, &shown(&file, json)?),
        }
    }
}

/// Reads a session file; another file of this program is called by its kind.
pub(super) fn load(file: &Path) -> Result<Session, Failure> {
    Session::load(file).map_err(|error| {
        let other = match &error {
            SessionError::File { source, .. } => matches!(
                **source,
                SessionError::Syntax { .. } | SessionError::NotText | SessionError::TooLarge { .. }
            ),
            _ => false,
        };
        let kind = kind::of(file).filter(|&kind| other && kind != "a session file");
        match kind {
            Some(kind) => {
                Failure::Input(format!("{}: this is {kind}; a session file is expected", file.display()))
            }
            None => error.into(),
        }
    })
}

/// What a session file holds, with every default filled in.
pub(super) fn shown(file: &Path, json: bool) -> Result<String, Failure> {
    let shown = show::Shown::new(&load(file)?);
    if json {
        let text = serde_json::to_string_pretty(&shown)
            .map_err(|error| Failure::Environment(format!("cannot be written as JSON: {error}")))?;
        Ok(text + "\n")
    } else {
        Ok(shown.to_string())
    }
}

impl NewArguments {
    /// Adds who is found and admitted.
    #[cfg(feature = "net")]
    fn collect(&mut self) -> Result<(), Failure> {
        let Some(seconds) = self.collect else { return Ok(()) };
        let mut found = collect::listen(seconds)?;
        found.retain(|key, _| !self.peers.iter().any(|peer| peer.0.key == *key));
        let admitted = collect::choose(&found, &self.admit, &mut io::stdin().lock(), &mut io::stderr())?;
        self.peers.extend(admitted.into_iter().map(PeerArgument));
        Ok(())
    }

    /// Reads --settings, or --data and finds settings for its rows.
    fn given(&self) -> Result<GivenFiles, Failure> {
        let mut given = GivenFiles::default();
        let trains = self.task == "flynn";
        for (option, asked) in [("--settings", self.settings.is_some()), ("--data", self.data.is_some())] {
            if asked && !trains {
                return Err(Failure::Input(format!("{option}: not with the task {}", self.task)));
            }
        }
        given.settings = self.settings.as_deref().map(Settings::read).transpose()?;
        given.draft = self.draft()?;
        let Some(path) = &self.data else { return Ok(given) };
        let classes = self.classes_from_range.map_or_else(|| self.classes.clone(), ClassRange::names);
        let classes = (!classes.is_empty()).then_some(&*classes);
        let (label, drop) = (self.label.clone(), self.drop.as_slice());
        let dialect = Dialect { delimiter: self.delimiter, decimal_comma: self.decimal_comma };
        let expected = Expected { label, drop, classes, dialect, ..Expected::default() };
        let (rows, guessed) = match &given.draft {
            Some(draft) => {
                let classes = classes.or(Some(&*draft.classes));
                let preparation = Some(&draft.preparation);
                (whole::load_whole(path, &Expected { preparation, classes, ..expected })?, None)
            }
            None => load_drafted(path, &expected)?,
        };
        given.draft = guessed.or(given.draft);
        if rows.data.labels().is_empty() || rows.data.classes().len() < 2 {
            let text =
                format!("{}: expected rows of two classes or more to find settings for", path.display());
            return Err(Failure::Input(text));
        }
        if self.noise.spec(TOP).is_some() {
            let text = "--data: not with --epsilon: settings that are found on rows tell of them, outside the budget";
            return Err(Failure::Input(text.into()));
        }
        let (settings, said) = Settings::propose(&rows.data, Duration::from_secs(self.tuning))?;
        super::say(&said);
        (given.rows, given.settings) = (Some(rows), Some(settings));
        Ok(given)
    }

    /// The names of the features; none where they are not named.
    fn columns(&self) -> Result<Vec<String>, Failure> {
        let Some(path) = &self.columns_from else { return Ok(self.columns.clone()) };
        let (label, drop) = (self.label.clone(), self.drop.as_slice());
        let loaded = data::load_named(path, &Expected { label, drop, ..Expected::default() })?;
        if loaded.columns.is_empty() {
            let text = format!("{}: no names of columns, expected them for --columns-from", path.display());
            return Err(Failure::Input(text));
        }
        Ok(loaded.columns)
    }

    /// The session, and a note on each column that was described.
    fn session(self) -> Result<(Session, Vec<String>), Failure> {
        let is = |names: &[&str]| names.contains(&self.task.as_str());
        let (sketch_task, trains, both) = (is(&["sketch"]), is(&["flynn"]), is(&["fedavg-xclp"]));
        let (fedavg_task, xclp_task) = (both || is(&["fedavg"]), both || is(&["xclp"]));
        let selects = self.sketch.selects();
        if selects && (!trains || self.tune.is_some()) {
            let what = if self.tune.is_some() { "--tune".into() } else { format!("the task {}", self.task) };
            return Err(Failure::Input(format!("--select: not with {what}")));
        }
        let options = [
            (trains, self.flynn_options()),
            (xclp_task, self.xclp.given()),
            (fedavg_task, self.fedavg.given()),
            (both, self.xclp.rounds_given()),
            (sketch_task || selects, self.sketch.given()),
        ];
        if let Some(option) = options.iter().filter(|(own, _)| !own).find_map(|(_, given)| given.first()) {
            return Err(Failure::Input(format!("{option}: not with the task {}", self.task)));
        }
        let given = self.given()?;
        let drafted = given.draft.as_ref().is_some_and(|draft| !draft.classes.is_empty());
        let classless = self.classes.is_empty()
            && self.classes_from_range.is_none()
            && self.data.is_none()
            && (sketch_task || !drafted);
        if classless != sketch_task {
            let needed = if classless { "needed with" } else { "not with" };
            return Err(Failure::Input(format!(
                "--classes, --classes-from-range: {needed} the task {}",
                self.task
            )));
        }
        let (preparation, notes, drafted) = match given.draft {
            Some(draft) => (Some(Arc::new(draft.preparation)), draft.notes, draft.classes),
            None => (None, Vec::new(), Vec::new()),
        };
        let (columns, features, classes) = match (&given.rows, &preparation) {
            (_, Some(preparation)) if sketch_task => {
                (preparation.features(), preparation.width(), Vec::new())
            }
            (_, Some(preparation)) => (preparation.features(), preparation.width(), drafted),
            (Some(rows), None) => (rows.columns.clone(), rows.data.features(), rows.data.classes().to_vec()),
            (None, None) => {
                let columns = self.columns()?;
                let features = columns.len();
                (columns, features, Vec::new())
            }
        };
        let features = self.features.unwrap_or(u32::try_from(features).unwrap_or(u32::MAX));
        let classes = match self.classes_from_range {
            Some(range) => range.names(),
            None if self.classes.is_empty() => classes,
            None => self.classes,
        };
        let noise = match fedavg_task {
            true => self.noise.of_members()?,
            false => self.noise.spec(if sketch_task { 0 } else { TOP }),
        };
        let defaults = match (self.published, noise) {
            (true, _) => &PUBLISHED,
            (false, None) => &DEFAULTS,
            (false, Some(_)) => &PRIVATE,
        };
        let Defaults { scaling: usual, densify, sizes, readout } = match given.settings {
            Some(Settings { scaling, densify, sizes, readout }) => {
                Defaults { scaling, densify, sizes, readout }
            }
            None => defaults.into(),
        };
        let scaling = match self.scaling {
            Some(scaling) => scaling,
            None if trains => usual,
            None if sketch_task => self.sketch.scaling(noise.is_some()),
            None if fedavg_task && noise.is_none() => Scaling::Standard,
            None => Scaling::None,
        };
        let checks = ColumnChecks::default();
        let densify = self.densify || (trains && densify);
        let mut data = DataSpec { features, columns, classes, scaling, densify, checks, preparation };
        // The dimension below is that of checked data.
        data.check()?;
        let Sizes { m, s, rho } = sizes;
        let sizes = Sizes { m: self.m.unwrap_or(m), s: self.s.unwrap_or(s), rho: self.rho.unwrap_or(rho) };
        let Readout { score, gamma } = readout;
        let readout = Readout { score: self.score.unwrap_or(score), gamma: self.gamma.unwrap_or(gamma) };
        let task = if sketch_task {
            TaskSpec::from(self.sketch.spec(noise.is_some()))
        } else if both {
            TaskSpec::from(self.xclp.with_rounds(self.fedavg.spec()?))
        } else if fedavg_task {
            TaskSpec::from(self.fedavg.spec()?)
        } else if xclp_task {
            TaskSpec::from(self.xclp.spec(XclpSpec::default()))
        } else {
            let model = sizes.resolve(&data, readout)?;
            match self.tune {
                None => {
                    let select = selects.then(|| self.sketch.spec(false));
                    let held_out = !self.no_evaluate && !selects && noise.is_none();
                    let evaluate = held_out.then(EvaluateSpec::default);
                    TaskSpec::from(FlynnSpec { model, select, evaluate })
                }
                Some(count) => TaskSpec::from(TuneSpec {
                    model,
                    folds: self.folds.unwrap_or(TuneSpec::FOLDS),
                    settings: settings::to_compare(&data, model, count.into(), self.published),
                }),
            }
        };
        let usual = ColumnChecks::usual(&task, noise.is_some());
        data.checks.compare = usual && !self.no_check_columns;
        let mut timing = Timing::default();
        for (field, value) in self.timings {
            crate::session::file::set_time(&mut timing, &field, value)?;
        }
        let defaults = Privacy::default();
        let session = Session {
            name: self.name,
            run: new_run()?,
            min_peers: self.min_peers.unwrap_or_else(|| Session::default_min_peers(&task, self.peers.len())),
            task,
            data,
            privacy: Privacy {
                min_holders: self.min_holders.unwrap_or(defaults.min_holders),
                colluding: self.colluding.unwrap_or(defaults.colluding),
                noise,
            },
            voting: self.committee.spec(),
            timing,
            relays: self.relays,
            roster: self.peers.into_iter().map(|peer| peer.0).collect(),
        };
        Ok((session.check()?, notes))
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let text = error.to_string();
        let there = |source: &io::Error| source.kind() != io::ErrorKind::NotFound;
        let disk = |error: &SessionError| matches!(error, SessionError::Read(source) if there(source));
        match &error {
            SessionError::File { source, .. } if disk(source) => Self::Environment(text),
            other if disk(other) => Self::Environment(text),
            _ => Self::Input(text),
        }
    }
}

#[cfg(test)]
mod tests;
