//! `flyswarm session new TASK`: a subcommand for each task of the registry.

#[cfg(feature = "net")]
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;
use toml::{Table, Value};

#[cfg(feature = "net")]
use super::collect;
use super::parse::{PeerArgument, class_range};
#[cfg(feature = "net")]
use crate::cli::console::Console;
use crate::cli::data::{Reading, load_drafted};
use crate::cli::id::new_run;
use crate::cli::{Failure, kind, output, print, say};
use crate::data::prepare::draft::{Draft, draft, transposed};
use crate::data::prepare::publish::{self, Publishable, Rule};
use crate::data::prepare::{Fill, whole};
use crate::data::{self, Dataset, Expected, LabelColumn, Loaded};
use crate::session::{Description, Run, Session, SessionError, table};
use crate::tasks::new::{NewFile, Sets, TaskOption, merge, value};
use crate::tasks::{TaskKind, kinds};

/// Options of every task.
#[derive(Debug, Default, Args)]
pub(super) struct Common {
    /// Name of the session
    #[arg(long)]
    pub(super) name: String,
    /// Peer of the session; repeat the option for each of at least three peers
    #[cfg_attr(feature = "net", arg(required_unless_present = "collect"))]
    #[cfg_attr(not(feature = "net"), arg(required = true))]
    #[arg(long = "peer", value_name = "NAME=PEERID[@MULTIADDR]")]
    pub(super) peers: Vec<PeerArgument>,
    /// Discover peers by mDNS for SECONDS (see `flyswarm id --announce`) and ask which to add
    #[cfg(feature = "net")]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) collect: Option<u64>,
    /// Add discovered peers without a question: `all` adds all, NAME=ENDING adds the peer whose id ends with
    /// ENDING and calls it NAME; repeatable. ENDING has at least 10 characters: an attacker with 1,000 cores
    /// needs about 14 years to match 10 characters
    #[cfg(feature = "net")]
    #[arg(long, value_name = "all|NAME=ENDING", requires = "collect", value_delimiter = ',')]
    pub(super) admit: Vec<collect::Admit>,
    /// Take columns and classes from this file of rows or session file (.toml). A second --from can give the
    /// rows for --tuning
    #[arg(long, value_name = "FILE")]
    pub(super) from: Vec<PathBuf>,
    /// Label column of the rows: its name, its number from 1, `last` or `none`
    #[arg(long, value_name = "COLUMN", default_value = "last", requires = "from")]
    pub(super) label: LabelColumn,
    /// Column that groups the rows, such as the patient. A group is never split between training and testing.
    /// The other peers see only the name of the column
    #[arg(long, value_name = "COLUMN", requires = "from")]
    pub(super) group: Option<String>,
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Write a level into the session file only if at least N rows of the --from file have this level. For a
    /// class, 2 rows are enough if --label names the column
    #[arg(long, value_name = "N", default_value_t = publish::MIN_ROWS, requires = "from")]
    pub(super) min_rows: u64,
    /// Classes, separated by commas, or a range of integers such as 0..9
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub(super) classes: Vec<String>,
    /// Number of features, or names of all features. If you give names, a file of rows with column names must
    /// have the same names
    #[arg(long, value_name = "N|A,B,...", value_delimiter = ',', conflicts_with = "from")]
    pub(super) features: Vec<String>,
    /// Set any field of the session file, such as timing.linger_ms=5000; repeatable
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = field)]
    pub(super) fields: Vec<Table>,
    /// File to write
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(super) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[arg(skip)]
    pub(super) names: Names,
}

/// Names of features and classes.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Number of features, if they have no names.
    pub(super) features: Option<i64>,
    /// Names of the features.
    pub(super) columns: Vec<String>,
    /// Classes.
    pub(super) classes: Vec<String>,
}

/// Parses FIELD=VALUE with the dotted name of a field. The reader of session files later checks that the
/// field exists.
fn field(text: &str) -> Result<Table, String> {
    let (name, text) = text.split_once('=').ok_or("must be FIELD=VALUE")?;
    let bad = |error: toml::de::Error| format!("{name}: {}", error.message());
    format!("{name} = {}", value(text)).parse::<Table>().map_err(bad)
}

/// Arguments of `session new TASK`.
#[derive(Debug)]
pub(in crate::cli) struct NewArguments {
    pub(super) kind: &'static TaskKind,
    pub(super) common: Common,
    pub(super) given: Vec<(&'static TaskOption, Value)>,
}

/// Returns the value of an option, from its text.
fn read(option: &TaskOption, text: String) -> Value {
    match (option.sets, option.value) {
        (Sets::Own | Sets::FromRows, _) => Value::String(text),
        (Sets::Field(_), "") => Value::Boolean(true),
        (Sets::Names(_), _) => match value(&format!("[{text}]")) {
            Value::Array(items) if items.iter().all(Value::is_str) => Value::Array(items),
            _ => Value::Array(text.split(',').map(|item| Value::String(name(item.trim()))).collect()),
        },
        (Sets::Field(_), name) if name.contains(',') => value(&format!("[{text}]")),
        (Sets::Field(_), _) => value(&text),
    }
}

/// Returns the name of a column, without quotation marks. A name may be a number.
fn name(text: &str) -> String {
    match value(text) {
        Value::String(name) => name,
        _ => text.to_owned(),
    }
}

impl Args for NewArguments {
    fn augment_args(command: Command) -> Command {
        let option = |option: &'static TaskOption| {
            let mut arg = Arg::new(option.name).long(option.name).help(option.help);
            if !option.alias.is_empty() {
                arg = arg.visible_alias(option.alias);
            }
            match option.value {
                "" => arg.action(ArgAction::SetTrue),
                value if value.contains(',') => arg.value_name(value).action(ArgAction::Append),
                value => arg.value_name(value).allow_negative_numbers(true),
            }
        };
        let of_task = |kind: &'static TaskKind| {
            // `about` is set last, because the common options would replace it with their own.
            let command = Common::augment_args(Command::new(kind.name)).about(kind.about);
            command.args(kind.options.iter().map(option))
        };
        command
            .subcommands(kinds().map(of_task))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .disable_help_subcommand(true)
            .subcommand_value_name("TASK")
            .subcommand_help_heading("Tasks")
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NewArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let kind = kinds().find(|kind| kind.name == name).ok_or_else(missing)?;
        let given = |option: &'static TaskOption| match option.value {
            "" => matches.get_flag(option.name).then(String::new),
            _ => matches
                .get_many::<String>(option.name)
                .map(|values| values.map(String::as_str).collect::<Vec<_>>().join(",")),
        };
        let given = kind.options.iter().filter_map(|option| Some((option, read(option, given(option)?))));
        let given = given.collect();
        let mut common = Common::from_arg_matches(matches)?;
        common.names = Names::read(&common.features, &common.classes);
        Ok(Self { kind, common, given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl NewArguments {
    pub(super) fn run(mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let (file, force, json) = (self.common.out.clone(), self.common.force, self.common.json);
        output::check(&file, force)?;
        #[cfg(feature = "net")]
        self.common.collect()?;
        let (session, text) = self.file()?;
        output::write(&file, text.as_bytes(), force)?;
        self.warn(&session);
        let id = session.id();
        let text = match json {
            true => json!({"file": file, "session": id.to_string(), "name": session.name}).to_string(),
            false => format!("wrote {}: session {id}", file.display()),
        };
        print(out, &(text + "\n"))
    }

    /// Returns the session and the text of its file.
    pub(super) fn file(&mut self) -> Result<(Session, String), Failure> {
        let (session, notes) = self.session(new_run()?)?;
        let text = session.to_toml_with(&notes);
        // The text is read again, because many long names can make a file that is too large to read.
        Session::parse(&text)?;
        Ok((session, text))
    }

    /// Tells the user what other peers learn from the file, and prints the warning of the task.
    pub(super) fn warn(&self, session: &Session) {
        if !self.common.from.is_empty() {
            shown_to_others(session).iter().for_each(|line| say(line));
        }
        if let Some(caution) = session.task.caution() {
            say(&format!("warning: {caution}"));
        }
    }

    /// Returns the session, and a note on each described column.
    fn session(&mut self, run: Run) -> Result<(Session, Vec<String>), Failure> {
        let Self { kind, common, given } = self;
        let rows_for = given.iter().find(|(option, _)| option.sets == Sets::FromRows);
        let described = common.described(rows_for.map(|(option, _)| option.name), kind.partly)?;
        common.check_classes(&described, kind.has_classes)?;
        let mut new = NewFile { fields: common.head(kind, run), ..NewFile::default() };
        let data = common.data(&described, kind.has_classes);
        new.fields.insert("data".into(), Value::Table(data));
        if let Some(draft) = &described.draft {
            new.fields.insert("table".into(), table::fields(&draft.preparation));
        }
        (new.rows, new.drafted) = (described.rows, described.drafted);
        for (option, value) in std::mem::take(given) {
            match (option.sets, value) {
                (Sets::Field(name) | Sets::Names(name), value) => new.propose(name, value),
                (_, Value::String(text)) => drop(new.options.insert(option.name, text)),
                (_, value) => drop(new.options.insert(option.name, value.to_string())),
            }
        }
        common.fields.drain(..).for_each(|field| merge(&mut new.fields, field));
        (kind.fill)(&mut new).map_err(of_file)?;
        new.said.iter().for_each(|line| say(line));
        Ok((new.session()?, described.draft.map(|draft| draft.notes).unwrap_or_default()))
    }
}

/// Returns lines that list everything in the session file that reveals something about this site's rows to
/// other peers.
fn shown_to_others(session: &Session) -> Vec<String> {
    let data = &session.data;
    let list = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let mut lines = vec!["the other peers see this about these rows in the file:".to_owned()];
    let mut line = |what: &str, texts: &[String]| {
        if !texts.is_empty() {
            lines.push(format!("  {what}: {}", list(texts)));
        }
    };
    let Some(table) = &data.preparation else {
        line("column names", &data.columns);
        line("classes", &data.classes);
        return lines;
    };
    let names = table.columns.iter().map(|column| &column.name).chain(&table.label).chain(&table.group);
    line("column names", &names.cloned().collect::<Vec<_>>());
    for column in &table.columns {
        line(&format!("levels of {:?}", column.name), column.levels());
    }
    line("classes", &data.classes);
    line("texts for missing values", &table.missing);
    let constants = table.columns.iter().filter_map(|column| match column.fill {
        Fill::Number(_) => Some(format!("  {}", table::line(column))),
        _ => None,
    });
    lines.extend(constants);
    lines
}

/// Makes the error for a user's file. If the file is of another kind that this program writes, the error
/// names the kind.
pub(super) fn of_file(error: SessionError) -> Failure {
    match &error {
        SessionError::File { path, source } if matches!(**source, SessionError::Syntax { .. }) => {
            match kind::advice(path, "settings as `tune --out` writes them are expected") {
                Some(advice) => Failure::Input(advice),
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}

/// Contents of the files of `--from`.
#[derive(Default)]
struct ColumnSpec {
    draft: Option<Draft>,
    features: Option<usize>,
    columns: Vec<String>,
    classes: Vec<String>,
    rows: Option<Dataset>,
    /// Rows of the file that describes the columns.
    drafted: Option<Dataset>,
}

impl Names {
    /// Reads the options for features (a number or names) and classes (names or a range).
    fn read(features: &[String], classes: &[String]) -> Self {
        let range = match classes {
            [range] => class_range(range),
            _ => None,
        };
        let classes = range.unwrap_or_else(|| classes.to_vec());
        let count = match features {
            [number] => number.parse().ok(),
            _ => None,
        };
        let columns = if count.is_some() { Vec::new() } else { features.to_vec() };
        Self { features: count, columns, classes }
    }
}

impl Common {
    /// Adds the peers that were found by mDNS and admitted.
    #[cfg(feature = "net")]
    fn collect(&mut self) -> Result<(), Failure> {
        let Some(seconds) = self.collect else { return Ok(()) };
        let mut found = collect::listen(seconds)?;
        found.retain(|key, _| !self.peers.iter().any(|peer| peer.0.key == *key));
        let admitted = collect::choose(&found, &self.admit, &mut io::stdin().lock(), &mut Console)?;
        self.peers.extend(admitted.into_iter().map(PeerArgument));
        Ok(())
    }

    /// Returns the fields before the first section, and the roster.
    fn head(&self, kind: &TaskKind, run: Run) -> Table {
        let peer = |PeerArgument(entry): &PeerArgument| {
            let mut peer = Table::new();
            peer.insert("name".into(), entry.name.clone().into());
            peer.insert("peer_id".into(), entry.key.to_string().into());
            peer.insert("addresses".into(), entry.addresses.clone().into());
            Value::Table(peer)
        };
        let mut head = Table::new();
        head.insert("name".into(), self.name.clone().into());
        run.put(&mut head);
        head.insert("task".into(), kind.name.into());
        head.insert("roster".into(), Value::Array(self.peers.iter().map(peer).collect()));
        head
    }

    /// Returns names of features and classes.
    fn data(&self, described: &ColumnSpec, classes: bool) -> Table {
        let mut data = Table::new();
        let names = &self.names;
        let given = names.features.is_some() || !names.columns.is_empty();
        let columns = if given { &names.columns } else { &described.columns };
        if let Some(features) = names.features {
            data.insert("features".into(), Value::Integer(features));
        } else if !columns.is_empty() {
            data.insert("features".into(), Value::Integer(columns.len() as i64));
            data.insert("columns".into(), columns.clone().into());
        } else if let Some(features) = described.features {
            data.insert("features".into(), Value::Integer(features as i64));
        }
        let given = if names.classes.is_empty() && classes { &described.classes } else { &names.classes };
        if !given.is_empty() {
            data.insert("classes".into(), given.clone().into());
        }
        data
    }

    /// Refuses a draft in which this site has only one class, because a session needs at least two.
    fn check_classes(&self, described: &ColumnSpec, needed: bool) -> Result<(), Failure> {
        match (&*described.classes, &*self.from) {
            ([class], [file, ..]) if needed && self.names.classes.is_empty() => Err(Failure::Input(format!(
                "{}: only one class found in the labels: {class:?}. Name the classes of all peers: \
                 --classes {class},OTHER",
                file.display()
            ))),
            ([], [file, ..]) if needed && self.names.classes.is_empty() => Err(Failure::Input(format!(
                "{}: no classes: name the label column with --label, or the classes with --classes",
                file.display()
            ))),
            _ => Ok(()),
        }
    }

    fn expected(&self, partly: bool) -> Expected<'_> {
        Expected { partly, group: self.group.as_deref(), ..self.reading.expected(&self.label) }
    }

    /// Returns the classes of rows without column descriptions, if the other peers may see these classes.
    fn classes_of(&self, path: &Path, rows: &Dataset, rule: &Rule) -> Result<Vec<String>, Failure> {
        let classes = rows.classes();
        let counts = classes.iter().cloned().zip(rows.class_counts(classes.len())).collect();
        let admitted = rule.admit_classes(&counts, self.label != LabelColumn::Last);
        let admitted = admitted
            .map_err(|problem| Failure::Input(format!("{}: the label column {problem}", path.display())))?;
        Ok(Publishable::texts(admitted))
    }

    /// Reads the files of `--from`. If an option needs labelled rows, `rows_for` is its name.
    fn described(&self, rows_for: Option<&str>, partly: bool) -> Result<ColumnSpec, Failure> {
        let mut described = ColumnSpec::default();
        let (first, last) = match (&*self.from, rows_for) {
            ([], None) => return Ok(described),
            ([], Some(option)) => {
                return Err(Failure::Input(format!("--{option} needs rows: give a file with --from")));
            }
            ([one], _) => (one, one),
            ([first, last], Some(_)) => (first, last),
            _ => {
                let text =
                    "--from: one file describes the columns; a second one is for options that need rows";
                return Err(Failure::Input(text.into()));
            }
        };
        let classes = &self.names.classes;
        let classes = (!classes.is_empty()).then_some(&**classes);
        let rule = Rule { min_rows: self.min_rows, classes };
        if rows_for.is_none() || self.from.len() == 2 {
            (described.draft, described.drafted) = self.draft(first, &rule, partly)?;
            if described.draft.is_none() {
                let expected = self.expected(partly);
                let loaded = data::load_named(first, &expected)?;
                if loaded.columns.is_empty() {
                    let text = format!("{}: no column names, expected them for --from", first.display());
                    return Err(Failure::Input(text));
                }
                if let Some(hint) = transposed(&loaded.columns, loaded.data.rows() as u64) {
                    say(&format!("warning: {}: {hint}", first.display()));
                }
                warn(first, &loaded, &expected);
                described.classes = self.classes_of(first, &loaded.data, &rule)?;
                described.columns = loaded.columns;
            }
        }
        if rows_for.is_some() {
            let expected = Expected { classes, ..self.expected(partly) };
            let rows = match &described.draft {
                Some(draft) => {
                    let classes = classes.or(Some(&*draft.classes));
                    let preparation = Some(&draft.preparation);
                    whole::load_whole(last, &Expected { preparation, classes, ..expected })?
                }
                None => {
                    let (rows, guessed) = load_drafted(last, &expected, &rule)?;
                    warn(last, &rows, &expected);
                    described.draft = guessed;
                    rows
                }
            };
            if rows.data.labels().is_empty() || rows.data.classes().len() < 2 {
                let text =
                    format!("{}: expected rows of two classes or more to find settings for", last.display());
                return Err(Failure::Input(text));
            }
            if described.draft.is_none() {
                described.classes = self.classes_of(last, &rows.data, &rule)?;
                (described.features, described.columns) = (Some(rows.data.features()), rows.columns);
            }
            described.rows = Some(rows.data);
        }
        if let Some(draft) = &described.draft {
            described.classes.clone_from(&draft.classes);
        }
        Ok(described)
    }

    /// Returns the columns that the file describes or that are guessed from it, with its rows. Prints
    /// warnings on standard error. Returns `None` if the file gives only names.
    fn draft(
        &self,
        path: &Path,
        rule: &Rule,
        partly: bool,
    ) -> Result<(Option<Draft>, Option<Dataset>), Failure> {
        if path.extension().is_some_and(|extension| extension == "toml") {
            let Description { mut preparation, classes } = Description::load(path)?;
            // The group column is checked later, with the whole session.
            preparation.group = self.group.clone().or(preparation.group);
            let draft = Draft { preparation, classes, notes: Vec::new(), said: Vec::new() };
            return Ok((Some(draft), None));
        }
        data::keep_pipe(path)?;
        let expected = self.expected(partly);
        let draft = match draft(path, &expected, rule) {
            Ok(Some(draft)) => draft,
            // All columns are numbers, so they need no descriptions.
            Ok(None) => return Ok((None, None)),
            Err(error) => {
                // A file without column names is read as plain numbers.
                let bare =
                    data::load_named(path, &self.expected(partly)).is_ok_and(|rows| rows.columns.is_empty());
                return if bare { Ok((None, None)) } else { Err(error.into()) };
            }
        };
        for line in &draft.said {
            say(&format!("{}: {line}", path.display()));
        }
        if draft.preparation.width() == 0 {
            let text =
                "no column is left as a feature (see the reasons above): change the file, or --min-rows";
            return Err(Failure::Input(format!("{}: {text}", path.display())));
        }
        let described = Expected {
            preparation: Some(&draft.preparation),
            classes: (!draft.classes.is_empty()).then_some(&*draft.classes),
            ..expected
        };
        // An error is ignored here, because `schema check` reports all rows that cannot be read.
        let loaded = data::load_named(path, &described).ok();
        if let Some(loaded) = &loaded {
            warn(path, loaded, &described);
        }
        say(&format!(
            "described {} columns as {} features; look at [table] in the file. Each peer then runs `flyswarm schema check`",
            draft.preparation.columns.len(),
            draft.preparation.width()
        ));
        Ok((Some(draft), loaded.map(|loaded| loaded.data)))
    }
}

/// Prints warnings about the rows.
fn warn(path: &Path, loaded: &Loaded, expected: &Expected) {
    for (_, line) in loaded.notices(expected) {
        say(&format!("warning: {}: {line}", path.display()));
    }
}
