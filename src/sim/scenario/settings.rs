//! A session file in the place of a scenario's own settings: what people are about to run, played first.

use toml::{Table, Value};

use super::{Scenario, ScenarioError, TaskKind};
use crate::session::{Session, Size, Timing};
use crate::tasks::{FedavgSpec, FedavgXclpSpec, FlynnSpec, Select, SketchSpec, XclpSpec};

impl Scenario {
    /// Takes number of peers, task, limits and times from a session file; rows, network, rates and faults
    /// stay the scenario's. Names and keys are not taken, nor who is named for the committee or to compute.
    ///
    /// # Errors
    /// [`ScenarioError`] for the tasks `tune` and `custom`, which no scenario has, and where the rest of the
    /// scenario does not fit the session.
    pub fn take_settings(&mut self, session: &Session) -> Result<(), ScenarioError> {
        let size = |number: u32| Size::Absolute(number.into());
        self.peers = u16::try_from(session.roster.len()).unwrap_or(u16::MAX);
        let task = &mut self.task;
        (task.scaling, task.densify, task.select) = (session.data.scaling, session.data.densify, None);
        task.evaluate = None;
        let taken = &session.task;
        if let Some(spec) = taken.get::<FlynnSpec>() {
            let model = spec.model;
            task.kind = TaskKind::Flynn;
            (task.m, task.s, task.rho) = (size(model.m), size(model.s), size(model.rho));
            (task.gamma, task.score) = (model.gamma, model.score);
            task.evaluate = spec.evaluate.map(|evaluate| evaluate.table());
            if let Some(select) = &spec.select {
                (task.select, task.sketch) = (Some(Select::Sketch), table(select));
            }
        } else if let Some(spec) = taken.get::<SketchSpec>() {
            (task.kind, task.sketch) = (TaskKind::Sketch, table(spec));
        } else if let Some(spec) = taken.get::<XclpSpec>() {
            task.kind = TaskKind::Xclp;
            task.xclp = unnamed(spec).table(&session.data);
        } else if let Some(spec) = taken.get::<FedavgSpec>() {
            (task.kind, task.fedavg) = (TaskKind::Fedavg, spec.table(&session.data));
        } else if let Some(spec) = taken.get::<FedavgXclpSpec>() {
            (task.kind, task.fedavg) = (TaskKind::FedavgXclp, spec.fedavg.table(&session.data));
            task.xclp = unnamed(&spec.xclp).table(&session.data);
            (task.after, task.refresh) = (Some(spec.after), Some(spec.refresh));
        } else {
            let can = "flynn, fedavg, fedavg-xclp, xclp and sketch can";
            let text = format!("the task {} cannot be simulated: {can}", session.task);
            return Err(ScenarioError(text));
        }
        if session.privacy.noise.is_some_and(|noise| noise.delta.is_some()) {
            let text = "a private session of the task fedavg cannot be simulated: try `session forecast`";
            return Err(ScenarioError(text.into()));
        }
        self.session.min_peers = Some(session.min_peers);
        self.session.min_holders = Some(session.privacy.min_holders);
        self.session.colluding = Some(session.privacy.colluding);
        self.session.epsilon = session.privacy.noise.map(|noise| noise.epsilon);
        self.session.top = session.privacy.noise.map(|noise| noise.top).filter(|&top| top > 0);
        self.session.mode = session.privacy.noise.map(|noise| noise.mode).unwrap_or_default();
        self.timing = times(&session.timing).into_iter().map(|(name, ms)| (name.to_owned(), ms)).collect();
        // Peers that the scenario names may be more than the session has.
        self.check()
    }
}

fn times(timing: &Timing) -> [(&'static str, i64); 8] {
    let Timing { gather_ms, propose_ms, stall_ms, quorum_ms, compute_ms, linger_ms, enlarge_ms, max_views } =
        *timing;
    let all = [
        ("gather_ms", gather_ms),
        ("propose_ms", propose_ms),
        ("stall_ms", stall_ms),
        ("quorum_ms", quorum_ms),
        ("compute_ms", compute_ms),
        ("linger_ms", linger_ms),
        ("enlarge_ms", enlarge_ms),
        ("max_views", max_views),
    ];
    all.map(|(name, value)| (name, i64::try_from(value).unwrap_or(i64::MAX)))
}

/// The same with parties that are drawn: a scenario's peers have other names.
fn unnamed(spec: &XclpSpec) -> XclpSpec {
    XclpSpec { compute: Vec::new(), ..spec.clone() }
}

/// `[sketch]` of a session file.
fn table(spec: &SketchSpec) -> Table {
    let SketchSpec { hash, rows, range, publish, pairwise, active, chosen, temperature } = *spec;
    let number = |number: u32| Value::Integer(number.into());
    [
        ("hash", Value::String(hash.to_string())),
        ("rows", number(rows)),
        ("range", number(range)),
        ("publish", Value::Boolean(publish)),
        ("pairwise", Value::Boolean(pairwise)),
        ("active", number(active.into())),
        ("chosen", number(chosen.into())),
        ("temperature", Value::Float(temperature)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::identity::Identity;
    use crate::sim::participants::Participants;

    fn session(task: &str, rest: &str) -> Session {
        let mut text = format!(
            "name = \"p\"\nnumber = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"{task}\"\n\
             min_peers = 4\n{rest}\n[privacy]\nmin_holders = 2\n[timing]\nstall_ms = 4321\n"
        );
        for i in 0..7 {
            let id = Identity::from_seed([i; 32]).public();
            text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{id}\"\n");
        }
        Session::parse(&text).unwrap()
    }

    /// What is played has the settings of the file.
    #[test]
    fn a_session_files_settings_are_played() {
        let classes: Vec<_> = (0..10).map(|class| format!("\"{class}\"")).collect();
        let data = format!("features = 64\nclasses = [{}]\nscaling = \"unit-norm\"", classes.join(", "));
        let flynn = "[flynn]\nm = 99\ns = 5\nrho = 7\ngamma = 0.25\nscore = \"log\"";
        let sketch = "[sketch]\nrows = 6\nrange = 8\nchosen = 3";
        let fedavg = "[fedavg]\nnetwork = \"cnn\"\nimage = [1, 8, 8]\nfilters = [2, 3, 4]\nhidden = [5]\nrounds = 7\n\
             steps = 3\nbatch = 9\nrate = 0.125\nschedule = \"constant\"\nmomentum = 0.5\nweight_decay = 0.25\n\
             proximal = 2.0\nclip = 3.0\nmembers = 0.75\nweighting = \"equal\"\nheld_out = 11\nflip = true\nshift = 1";
        for (task, rest) in [
            ("flynn", format!("[data]\n{data}\n{flynn}")),
            ("flynn", format!("[data]\n{data}\n{flynn}\n[evaluate]\nheld_out = 30\nlearn_all = false")),
            ("fedavg", format!("[data]\n{data}\n{fedavg}")),
            ("fedavg", format!("[data]\n{data}")),
            (
                "fedavg-xclp",
                format!(
                    "[data]\n{data}\n[fedavg]\nrounds = 7\nrate = 0.125\n[xclp]\nbits = 64\nk = 4\nalpha = 0.5\n\
                     [pseudo_labels]\nafter = 2\nrefresh = 3"
                ),
            ),
            (
                "xclp",
                format!(
                    "[data]\n{data}\n[xclp]\nbits = 64\nk = 4\nalpha = 0.5\npower = 3\nbalance = true\n\
                     hamming = \"ot\"\nfew_rows = true\nlarge_owner = true\nmost_rows = 999\nmemory_mb = 2000"
                ),
            ),
            ("flynn", format!("select = \"sketch\"\n[data]\n{data}\n{flynn}\n{sketch}")),
            (
                "sketch",
                "[data]\nfeatures = 64\nscaling = \"center\"\n[sketch]\nrows = 6\nrange = 8".to_owned(),
            ),
        ] {
            let asked = session(task, &rest);
            let mut scenario = Scenario::default();
            scenario.take_settings(&asked).unwrap();
            let played = Participants::new(&scenario, std::path::Path::new("")).unwrap().session;
            assert_eq!((&played.task, played.min_peers, played.timing), (&asked.task, 4, asked.timing));
            assert_eq!((played.data.scaling, played.privacy), (asked.data.scaling, asked.privacy));
            assert_eq!(played.roster.len(), 7);
        }
    }

    #[test]
    fn a_scenario_that_does_not_fit_the_session_is_refused() {
        let data = "features = 64\nclasses = [\"0\", \"1\"]";
        let asked = session("xclp", &format!("[data]\n{data}"));
        let mut scenario = Scenario { peers: 9, ..Scenario::default() };
        scenario.task.without_labels = Some(Value::Integer(8).try_into().unwrap());
        let error = scenario.take_settings(&asked).unwrap_err().to_string();
        assert!(error.starts_with("task.without_labels: a peer is 8, must be 0 to 6"), "{error}");
        let error = scenario.take_settings(&session("fedavg", &format!("[data]\n{data}"))).unwrap_err();
        assert!(error.to_string().starts_with("task.without_labels is given, must be left out"), "{error}");
    }

    #[test]
    fn a_session_that_starts_from_a_file_is_not_played() {
        let digest = "ab".repeat(32);
        let data = "features = 64\nclasses = [\"0\", \"1\"]";
        let asked = session("fedavg", &format!("[data]\n{data}\n[fedavg]\ninitial = \"{digest}\""));
        let mut scenario = Scenario::default();
        scenario.take_settings(&asked).unwrap();
        let error = Participants::new(&scenario, std::path::Path::new("")).err().unwrap();
        assert_eq!(error.to_string(), "task.fedavg.initial: no peer of a scenario has a network file");
        let mut asked = session("fedavg", &format!("[data]\n{data}"));
        let (epsilon, delta) = ("1".parse().unwrap(), crate::session::NoiseSpec::exact_delta(1e-5));
        let noise = crate::session::NoiseSpec::new(epsilon, 0, crate::session::NoiseMode::Member);
        asked.privacy.noise = Some(crate::session::NoiseSpec { delta, ..noise });
        let error = scenario.take_settings(&asked).unwrap_err().to_string();
        assert!(error.starts_with("a private session of the task fedavg cannot be simulated"), "{error}");
    }
}
