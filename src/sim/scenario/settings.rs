//! Runs a scenario with the settings of a session file, so that a session can be tried in advance.

use super::{Scenario, ScenarioError};
use crate::session::Session;

impl Scenario {
    /// Uses the settings of this session. The number of peers, names, task, limits and times come from the
    /// session. The keys, rows, network, rates and faults come from the scenario.
    ///
    /// # Errors
    /// [`ScenarioError`] if the rest of the scenario does not fit the session.
    pub fn take_settings(&mut self, session: &Session) -> Result<(), ScenarioError> {
        self.peers = u16::try_from(session.roster.len()).unwrap_or(u16::MAX);
        self.timing.clear();
        self.limits.clear();
        self.played = Some(Box::new(session.clone()));
        // This is checked again, because the scenario may name more peers than the session has.
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::*;
    use crate::crypto::identity::Identity;
    use crate::sim::participants::Participants;

    fn session(task: &str, rest: &str) -> Session {
        let mut text = format!(
            "name = \"p\"\nrun_id = \"000102030405060708090a0b0c0d0e0f\"\ncreated = 2026-11-22T16:05:06Z\ntask = \"{task}\"\n\
             min_peers = 4\n{rest}\n[privacy]\nmin_contributors = 2\n[timing]\nview_timeout_ms = 4321\n"
        );
        for i in 0..7 {
            let id = Identity::from_seed([i; 32]).public();
            text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{id}\"\n");
        }
        Session::parse(&text).unwrap()
    }

    /// Tests that the simulated session has the settings of the file.
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
            (
                "tune",
                format!(
                    "[data]\n{data}\n{flynn}\n[tune]\nfolds = 2\n[[tune.setting]]\nm = 64\ns = 4\nrho = 4"
                ),
            ),
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

    /// Tests tasks whose accuracy is not measured here, and a private session with rounds.
    #[test]
    fn sessions_of_other_tasks_run_to_their_end() {
        let classes: Vec<_> = (0..10).map(|class| format!("\"{class}\"")).collect();
        let data = format!("[data]\nfeatures = 64\nclasses = [{}]", classes.join(", "));
        let tune = "[flynn]\nm = 64\ns = 8\nrho = 4\ngamma = 0.5\n[tune]\nfolds = 2\n\
                    [[tune.setting]]\nm = 128\ns = 8\nrho = 4";
        let rounds = "[fedavg]\nnetwork = \"logistic\"\nrounds = 2\nweighting = \"equal\"\nclip = 1.0";
        for (task, rest, privacy) in [("tune", tune, ""), ("fedavg", rounds, "epsilon = 20\ndelta = 1e-5\n")]
        {
            let text = session(task, &format!("{data}\n{rest}")).to_toml();
            let text = text.replacen("[privacy]\n", &format!("[privacy]\n{privacy}"), 1);
            let text = text.replace("check_columns = true", "check_columns = false");
            let mut scenario = Scenario::default();
            scenario.data.rows = 400;
            scenario.take_settings(&Session::parse(&text).unwrap()).unwrap();
            let report =
                crate::sim::run::run("test", &scenario, std::path::Path::new(""), &mut |_| {}).unwrap();
            assert!(report.violations.is_empty(), "{task}: {:?}", report.violations);
            assert_eq!(report.finished, 7, "{task}: {:?}", report.unfinished);
        }
    }

    #[test]
    fn a_summary_of_rows_without_labels_is_played_on_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let line = |row: u32| format!("{},{}\n", ["a", "b"][row as usize % 2], 20 + row % 50);
        let rows = "arm,age\n".to_owned() + &(0..700).map(line).collect::<String>();
        std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
        let text = "[data]\nscaling = \"none\"\n[table]\n[[table.column]]\nname = \"arm\"\nkind = \"category\"\n\
                    levels = [\"a\", \"b\"]\n[[table.column]]\nname = \"age\"\nkind = \"number\"\n\
                    [summary]\nby = \"arm\"\ngrid = 1.0\nranges = { age = [0.0, 100.0] }\ncheaters = \"trusted\"";
        let mut scenario = Scenario::default();
        scenario.data.set = "rows.csv".to_owned();
        scenario.take_settings(&session("summary", text)).unwrap();
        let dealt = crate::sim::rows::DealtRows::new(&scenario, folder.path()).unwrap();
        let sizes: Vec<usize> = dealt.parts.iter().map(|part| part.data.rows()).collect();
        assert_eq!(sizes, [100; 7], "no row is held out");
        let report = crate::sim::run::run("test", &scenario, folder.path(), &mut |_| {}).unwrap();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        assert_eq!(report.finished, 7, "{:?}", report.unfinished);
    }

    #[test]
    fn a_regression_loses_only_the_rows_of_a_peer_that_crashes_before_its_first_round() {
        let folder = tempfile::tempdir().unwrap();
        let line = |row: u32| format!("{},{}\n", ["no", "yes"][(row * row / 7 % 2) as usize], 20 + row % 50);
        let rows = "ill,age\n".to_owned() + &(0..1400).map(line).collect::<String>();
        std::fs::write(folder.path().join("rows.csv"), rows).unwrap();
        let text = "[data]\nscaling = \"none\"\n[table]\n[[table.column]]\nname = \"ill\"\nkind = \"category\"\n\
                    levels = [\"no\", \"yes\"]\n[[table.column]]\nname = \"age\"\nkind = \"number\"\n\
                    [glm]\nfamily = \"logistic\"\noutcome = \"ill\"\ncheaters = \"trusted\"";
        let mut scenario = Scenario::default();
        scenario.data.set = "rows.csv".to_owned();
        scenario.take_settings(&session("glm", text)).unwrap();
        let fault = "kind = \"crash\"\npeers = 6\nat = { slot = \"computed\", stage = \"open\", peer = 6 }";
        scenario.fault.push(toml::from_str(fault).unwrap());
        let report = crate::sim::run::run("test", &scenario, folder.path(), &mut |_| {}).unwrap();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        assert_eq!(report.finished, 6, "{:?}", report.unfinished);
    }

    #[test]
    fn a_scenario_that_does_not_fit_the_session_is_refused() {
        let data = "features = 64\nclasses = [\"0\", \"1\"]";
        let asked = session("xclp", &format!("[data]\n{data}"));
        let mut scenario = Scenario { peers: 9, ..Scenario::default() };
        scenario.task.without_labels = Some(Value::Integer(8).try_into().unwrap());
        let error = scenario.take_settings(&asked).unwrap_err().to_string();
        assert!(error.starts_with("task.without_labels: a peer is 8, must be 0 to 6"), "{error}");
        scenario.task.without_labels = Some(Value::Integer(3).try_into().unwrap());
        scenario.take_settings(&session("fedavg", &format!("[data]\n{data}"))).unwrap();
        let error = Participants::new(&scenario, std::path::Path::new("")).err().unwrap();
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
        assert_eq!(
            error.to_string(),
            "fedavg.initial: the session starts from a network file, and none was given"
        );
    }
}
