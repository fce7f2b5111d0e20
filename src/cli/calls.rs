//! Commands for programs of other languages. The values have types of their own, so that no text is taken for
//! an option.

use std::io::Write;
use std::path::{Path, PathBuf};

use flyswarm_learn::learner::Classifier;
use serde::Deserialize;
use toml::Table;

use super::data::{Map, Reading};
use super::doctor::{self, Doctor};
use super::id::IdArguments;
use super::network::NetworkArguments;
use super::noise::Spent;
use super::session::typed::Label;
use super::session::{self, forecast};
use super::simulate::Simulate;
use super::{Failure, export, print};
use crate::session::Session;
use crate::sim::scenario::File;

/// A command with its values. Sessions are texts of session files.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Call {
    /// Makes a key.
    Id { key: Option<PathBuf> },
    /// Reads the privacy ledger next to a key.
    Ledger { key: Option<PathBuf> },
    /// Checks a session file, and that this machine has the memory for it.
    Check { file: PathBuf },
    /// Estimates the quality of a private session.
    Forecast { session: String, rows: usize },
    /// Looks for problems before a session starts.
    Doctor(Box<Examined>),
    /// Runs a scenario in virtual time.
    Simulate(Box<Simulated>),
    /// Writes the network in `contents` as an ONNX graph.
    Onnx { out: PathBuf },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examined {
    session: String,
    key: Option<PathBuf>,
    wait: Option<u64>,
    listen: Vec<String>,
    no_mdns: bool,
    network_key: Option<PathBuf>,
    state: Option<PathBuf>,
    out: Option<PathBuf>,
    data: Option<PathBuf>,
    map: Option<String>,
    label: Option<Label>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Simulated {
    scenario: Scenario,
    session: Option<String>,
    seed: Option<u64>,
    small: bool,
    out: Option<PathBuf>,
    force: bool,
    calibrate: bool,
}

/// A scenario: its fields, or its file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Scenario {
    Fields(Table),
    File(PathBuf),
}

impl Call {
    /// Runs the command and prints its result as JSON. `contents` is a file that is only in memory: the rows
    /// of a scenario with fields, or a network.
    pub(super) fn run(self, contents: Option<Vec<u8>>, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Id { key } => IdArguments::new_key(key).run(out),
            Self::Ledger { key } => Spent::json(key).run(out),
            Self::Check { file } => session::checked(&file).map(|_| ()),
            Self::Forecast { session, rows } => {
                let found = forecast::forecast(&Session::parse(&session)?, rows)?;
                let found = found.ok_or_else(|| Failure::Input(forecast::NONE.into()))?;
                print(out, &forecast::json(&found).to_string())
            }
            Self::Doctor(examined) => examined.run(out),
            Self::Simulate(simulated) => simulated.run(contents, out),
            Self::Onnx { out } => onnx(&contents.unwrap_or_default(), &out),
        }
    }
}

impl Examined {
    fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut listen = Vec::with_capacity(self.listen.len());
        for address in self.listen {
            let refused = |error| Failure::Input(format!("listen: {address}: {error}"));
            listen.push(address.parse().map_err(refused)?);
        }
        let map =
            self.map.map(|path| Map::load(&path).map_err(|why| Failure::Input(format!("{path}: {why}"))));
        let network = NetworkArguments { listen, no_mdns: self.no_mdns, network_key: self.network_key };
        let doctor = Doctor {
            session: "session".into(),
            network,
            key: self.key,
            state: self.state,
            out: self.out,
            data: self.data,
            reading: map.transpose()?.map(Reading::from).unwrap_or_default(),
            label: self.label.map(Into::into),
            wait: self.wait.unwrap_or(doctor::WAIT),
            json: true,
        };
        doctor.examine(&Session::parse(&self.session)?, out)
    }
}

impl Simulated {
    fn run(self, contents: Option<Vec<u8>>, out: &mut dyn Write) -> Result<(), Failure> {
        let Self { scenario, session, seed, small, out: folder, force, calibrate } = self;
        let mut simulate = Simulate {
            file: None,
            seed,
            out: folder,
            force,
            session: None,
            small,
            page: None,
            calibrate,
            json: true,
        };
        let session = session.map(|text| Session::parse(&text)).transpose()?;
        let (path, file) = match scenario {
            Scenario::File(path) if calibrate => {
                simulate.file = Some(path);
                return simulate.run(out);
            }
            Scenario::File(path) => {
                let file = Simulate::load(&path, small)?;
                (path, file)
            }
            Scenario::Fields(fields) => {
                let refused = |error| Failure::Input(format!("scenario: {error}"));
                let mut file = File::of(fields, "scenario".into(), PathBuf::new(), small).map_err(refused)?;
                if let Some(contents) = contents {
                    for (_, scenario) in &mut file.runs {
                        scenario.data.set = "X".into();
                        scenario.data.contents = Some(contents.clone().into());
                    }
                }
                ("scenario".into(), file)
            }
        };
        simulate.play(&path, file, session.as_ref(), out)
    }
}

fn onnx(file: &[u8], path: &Path) -> Result<(), Failure> {
    if !export::is_graph(path) {
        return Err(Failure::Input(format!("{}: {}", path.display(), export::NAME_IT)));
    }
    let network = Classifier::decode(file).map_err(|error| Failure::Input(error.to_string()))?;
    export::write_graph(&network, path, false)
}
