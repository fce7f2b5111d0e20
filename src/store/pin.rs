//! Binds a session's state to rows: a keyed digest of the rows is stored with the state and next to the mark.
//!
//! Opened sums include the rows of the file that a peer started with. If the peer continued with other
//! rows, one result would mix both, and the receipt would name the wrong rows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{OVER, PAID, StoreError, UNSERVED, locked};
use crate::files;

/// Name of the file in the state's folder, and extension of the copy next to the mark.
pub(super) const PIN: &str = "rows";

/// The rows of a peer: their name, and their digest with a key. Only this peer has the key, and it is used
/// only for this session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pin {
    /// Name of the file, for people.
    pub name: String,
    /// Keyed digest. Without the key, the rows cannot be found by trying.
    pub digest: [u8; 32],
}

impl Pin {
    /// Binds the state in `folder`, and the state that `mark` marks (see [`super::Store::keep_mark`]), to
    /// these rows. Until the peer joins a view, these rows may be replaced by others.
    ///
    /// # Errors
    /// [`StoreError::OtherRows`] if the session has continued with other rows; [`StoreError::Over`],
    /// [`StoreError::Locked`], [`StoreError::Io`].
    pub(crate) fn hold(&self, folder: &Path, mark: Option<&Path>) -> Result<(), StoreError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError::Io { path, error }
        };
        let _lock = locked(folder)?;
        if folder.join(OVER).try_exists().map_err(io(folder))? {
            return Err(StoreError::Over(folder.to_owned()));
        }
        let mut places = vec![folder.join(PIN)];
        let mut begun = has_records(folder).map_err(io(folder))?;
        if let Some(mark) = mark {
            let mut beside = mark.as_os_str().to_owned();
            beside.push(format!(".{PIN}"));
            places.push(PathBuf::from(beside));
            begun |= mark.try_exists().map_err(io(mark))?;
        }
        for place in places.iter().filter(|_| begun) {
            let text = match fs::read_to_string(place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text.map_err(io(place))?,
            };
            let (digest, known) = text.trim_end_matches('\n').split_once(' ').unwrap_or((&*text, ""));
            if digest != hex::encode(self.digest) {
                return Err(StoreError::OtherRows { rows: self.name.clone(), known: known.to_owned() });
            }
        }
        let name = self.name.replace(char::is_control, " ");
        let text = format!("{} {name}\n", hex::encode(self.digest));
        for place in &places {
            files::create_folders(place.parent().unwrap_or(place), true)
                .and_then(|()| files::write_whole(place, text.as_bytes(), true))
                .map_err(io(place))?;
        }
        Ok(())
    }
}

/// Returns whether the peer has promised, joined or stored anything.
pub(crate) fn has_records(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let own = name
            .to_str()
            .is_some_and(|name| ["lock", PAID, PIN, UNSERVED].contains(&name) || name.starts_with('.'));
        if !own {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;
    use crate::node::Record;
    use crate::protocol::ballot::Ballot;
    use crate::session::Peer;

    fn pin(name: &str, byte: u8) -> Pin {
        Pin { name: name.into(), digest: [byte; 32] }
    }

    #[test]
    fn other_rows_are_refused_by_name_once_a_view_was_joined_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let (state, mark) = (folder.path().join("state"), folder.path().join("key.sessions/id"));
        let (first, other) = (pin("a.csv", 1), pin("b.csv", 2));
        other.hold(&state, Some(&mark)).unwrap();
        first.hold(&state, Some(&mark)).unwrap();
        let (mut store, records) = Store::open(&state).unwrap();
        assert_eq!(records, []);
        store.write(&Record::Joined(Ballot { counter: 1, proposer: Peer(0) })).unwrap();
        let locked = other.hold(&state, Some(&mark)).unwrap_err();
        assert!(matches!(locked, StoreError::Locked(_)), "{locked}");
        drop(store);
        first.hold(&state, Some(&mark)).unwrap();
        let told = other.hold(&state, Some(&mark)).unwrap_err().to_string();
        let expected = "b.csv: this session already holds the counts of other rows (a.csv); start again with \
                        the same file, or make a new session with `session next`";
        assert_eq!(told, expected);
        // The name of the rows may change, but not the rows.
        pin("c.csv", 1).hold(&state, Some(&mark)).unwrap();
        assert_eq!(Store::open(&state).unwrap().1.len(), 1);
    }

    #[test]
    fn rows_are_held_beside_the_mark_where_the_state_is_lost_or_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (state, mark) = (folder.path().join("state"), folder.path().join("key.sessions/id"));
        pin("a.csv", 1).hold(&state, Some(&mark)).unwrap();
        fs::write(&mark, "1 0\n").unwrap();
        for elsewhere in [folder.path().join("elsewhere"), state.clone()] {
            let refused = pin("b.csv", 2).hold(&elsewhere, Some(&mark)).unwrap_err();
            assert!(matches!(refused, StoreError::OtherRows { .. }), "{refused}");
        }
        fs::remove_dir_all(&state).unwrap();
        pin("a.csv", 1).hold(&state, Some(&mark)).unwrap();
    }

    #[test]
    fn a_finished_session_is_over_for_all_rows() {
        let folder = tempfile::tempdir().unwrap();
        let (state, mark) = (folder.path().join("state"), folder.path().join("mark"));
        pin("a.csv", 1).hold(&state, Some(&mark)).unwrap();
        Store::finish(&state).unwrap();
        for rows in [pin("a.csv", 1), pin("b.csv", 2)] {
            assert!(matches!(rows.hold(&state, Some(&mark)).unwrap_err(), StoreError::Over(_)));
        }
        assert!(Store::is_over(&state).unwrap());
    }
}
