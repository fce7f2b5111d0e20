//! Builds sessions in a program, with the same rules as for a file.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rand::TryRng;
use rand::rngs::SysRng;

use super::rules::{FEATURES, SessionError};
use super::{
    Bounds, ColumnChecks, CommitteeSpec, DataSpec, Entry, NoiseSpec, Privacy, Run, Scaling, Session,
    TableSchema, TaskSpec, Timing,
};
use crate::crypto::identity::PublicKey;
use crate::files;

/// Builds a session; see [`Session::builder`]. Unset fields have the defaults of a session file.
#[derive(Debug, Clone)]
#[must_use]
pub struct SessionBuilder {
    session: Session,
    features: Option<usize>,
    min_peers: Option<u16>,
    check_columns: Option<bool>,
}

impl Session {
    /// Starts a session with this name and task. [`SessionBuilder::build`] checks it.
    pub fn builder(name: impl Into<String>, task: impl Into<TaskSpec>) -> SessionBuilder {
        let session = Self {
            name: name.into(),
            run: Run::new([0; 16], 0),
            task: task.into(),
            min_peers: 0,
            data: DataSpec::default(),
            privacy: Privacy::default(),
            voting: CommitteeSpec::default(),
            timing: Timing::default(),
            relays: Vec::new(),
            roster: Vec::new(),
        };
        SessionBuilder { session, features: None, min_peers: None, check_columns: None }
    }

    /// Writes the session file, with a comment for every field. An existing file is replaced.
    ///
    /// # Errors
    /// [`SessionError::File`], with the cause as its source.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        let (path, text) = (path.as_ref(), self.to_toml());
        // The text is read again, because many long names can make a file that is too large to read.
        Self::parse(&text)
            .and_then(|_| files::write_whole(path, text.as_bytes(), true).map_err(SessionError::Write))
            .map_err(|source| SessionError::File { path: path.into(), source: Box::new(source) })
    }
}

impl Run {
    /// Makes the fields of a new session that is not in a series: a random number and the present time.
    ///
    /// # Errors
    /// [`SessionError::Random`] if the system gives no random bytes.
    #[allow(clippy::disallowed_methods, reason = "a session file says when it was made")]
    pub fn random() -> Result<Self, SessionError> {
        let mut number = [0; 16];
        SysRng.try_fill_bytes(&mut number).map_err(|error| SessionError::Random(error.to_string()))?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(Self::new(number, since.map_or(0, |since| since.as_secs())))
    }
}

impl SessionBuilder {
    /// Sets the number of features of a row. Use this if they have no names.
    pub fn features(mut self, count: usize) -> Self {
        self.features = Some(count);
        self
    }

    /// Sets the names of the features, in their order.
    pub fn columns(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.session.data.columns = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the rules that make features from the columns of a table.
    pub fn table(mut self, preparation: TableSchema) -> Self {
        self.session.data.preparation = Some(Arc::new(preparation));
        self
    }

    /// Sets the names of the classes.
    pub fn classes(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.session.data.classes = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the scaling of the features.
    pub fn scaling(mut self, scaling: Scaling) -> Self {
        self.session.data.scaling = scaling;
        self
    }

    /// Sets whether peers compare their columns with those of all peers. Default: true if the task supports
    /// it.
    pub fn check_columns(mut self, on: bool) -> Self {
        self.check_columns = Some(on);
        self
    }

    /// Sets the bounds of a column's values.
    pub fn bounds(mut self, column: impl Into<String>, bounds: Bounds) -> Self {
        self.session.data.checks.limits.insert(column.into(), bounds);
        self
    }

    /// Adds a peer without addresses, which the others must find by mDNS.
    pub fn peer(self, name: impl Into<String>, key: PublicKey) -> Self {
        self.peer_at(name, key, None::<String>)
    }

    /// Adds a peer with its multiaddresses, such as `/ip4/192.0.2.1/tcp/4001`.
    pub fn peer_at(
        mut self,
        name: impl Into<String>,
        key: PublicKey,
        addresses: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let addresses = addresses.into_iter().map(Into::into).collect();
        self.session.roster.push(Entry { key, name: name.into(), addresses });
        self
    }

    /// Adds a relay: a multiaddress with its peer id.
    pub fn relay(mut self, address: impl Into<String>) -> Self {
        self.session.relays.push(address.into());
        self
    }

    /// Sets the minimum number of peers that the session needs to continue. Default: a majority, or more if
    /// the task needs more.
    pub fn min_peers(mut self, count: u16) -> Self {
        self.min_peers = Some(count);
        self
    }

    /// Sets the limits that protect the peers' rows.
    pub fn privacy(mut self, privacy: Privacy) -> Self {
        self.session.privacy = privacy;
        self
    }

    /// Sets the differential privacy.
    pub fn noise(mut self, noise: NoiseSpec) -> Self {
        self.session.privacy.noise = Some(noise);
        self
    }

    /// Sets the committee and the faults that it tolerates.
    pub fn voting(mut self, voting: CommitteeSpec) -> Self {
        self.session.voting = voting;
        self
    }

    /// Sets the time-outs.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.session.timing = timing;
        self
    }

    /// Sets the number, time and series of this session. Default: [`Run::random`].
    pub fn run(mut self, run: Run) -> Self {
        self.session.run = run;
        self
    }

    /// Checks every rule and returns the session.
    ///
    /// # Errors
    /// [`SessionError::Value`] for the first rule that is broken.
    pub fn build(self) -> Result<Session, SessionError> {
        let Self { mut session, features, min_peers, check_columns } = self;
        let data = &mut session.data;
        if let Some(preparation) = &mut data.preparation {
            if features.is_some() || !data.columns.is_empty() {
                let expected = "absent if there is a table, because they follow from it";
                return Err(SessionError::value("data.features or data.columns", "given", expected));
            }
            Arc::make_mut(preparation).normalise();
            super::table::check(preparation)?;
            data.columns = preparation.features();
        }
        data.features = FEATURES.check(features.unwrap_or(data.columns.len()) as i128)?;
        let usual = ColumnChecks::usual(&session.task, session.privacy.noise.is_some());
        data.checks.compare = check_columns.unwrap_or(usual);
        let smallest = Session::default_min_peers(&session.task, session.roster.len());
        session.min_peers = min_peers.unwrap_or(smallest);
        if session.run == Run::new([0; 16], 0) {
            session.run = Run::random()?;
        }
        session.check()
    }
}
