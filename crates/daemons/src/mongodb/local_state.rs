//! The files that the daemon keeps beside mongod's data: they say whose data it is.
//!
//! | file | content |
//! |---|---|
//! | `member.json` | the incarnation of the data, its replica set, whether etcd has confirmed that set |
//! | `cluster` | the id of the etcd cluster that the data belongs to; an operator who sets up a new etcd removes it |
//! | `key` | mongod's key file |
//! | `left` | exists if the node left for good |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::records::Incarnation;
use crate::state_file::{ReadableBy, StateFileError, read_json, read_text, write_text};

const MEMBER: &str = "member.json";
const CLUSTER: &str = "cluster";
const KEY: &str = "key";
const LEFT: &str = "left";

/// The mongod daemon's state file `member.json`: whose data is in mongod's folder, and of which replica set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberStateFile {
    pub(crate) incarnation: Incarnation,
    /// The name of the replica set.
    pub(crate) set: String,
    /// Whether mongod was ever started on the folder. Before that, no data can have been lost.
    pub(crate) started: bool,
    /// mongod's id of the replica set, once etcd has confirmed that this set is the cluster's.
    pub(crate) replica_set: Option<String>,
}

/// All state files of the mongod daemon, and whether mongod has any data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MongodLocalState {
    pub(crate) has_data: bool,
    pub(crate) member: Option<MemberStateFile>,
    pub(crate) cluster: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) left: bool,
}

impl MongodLocalState {
    /// Changes nothing. For a folder that does not exist, everything is `None` or false.
    pub(crate) fn read(folder: &Path) -> Result<MongodLocalState, StateFileError> {
        Ok(MongodLocalState {
            has_data: has_entries(&folder.join("data"))?,
            member: read_json(&folder.join(MEMBER))?,
            cluster: read_text(&folder.join(CLUSTER))?,
            key: read_text(&folder.join(KEY))?,
            left: read_text(&folder.join(LEFT))?.is_some(),
        })
    }

    /// The saved member state, or a new incarnation if the data was lost or never existed.
    pub(crate) fn member_or_new(&self, set: &str) -> MemberStateFile {
        match &self.member {
            Some(member) if self.has_data || !member.started => member.clone(),
            _ => MemberStateFile {
                incarnation: Incarnation::random(),
                set: set.to_string(),
                started: false,
                replica_set: None,
            },
        }
    }
}

pub(crate) fn create_folders(folder: &Path) -> Result<(), StateFileError> {
    let data = folder.join("data");
    fs::create_dir_all(&data).map_err(|source| StateFileError::Write { path: data, source })
}

pub(crate) fn write_member(folder: &Path, member: &MemberStateFile) -> Result<(), StateFileError> {
    let path = folder.join(MEMBER);
    let text = serde_json::to_string(member).map_err(|error| StateFileError::Write {
        path: path.clone(),
        source: error.into(),
    })?;
    write_text(&path, &text, ReadableBy::Owner)
}

pub(crate) fn write_cluster(folder: &Path, cluster: &str) -> Result<(), StateFileError> {
    write_text(&folder.join(CLUSTER), cluster, ReadableBy::Owner)
}

/// Returns the path of the key file.
pub(crate) fn write_key(folder: &Path, key: &str) -> Result<PathBuf, StateFileError> {
    let path = folder.join(KEY);
    write_text(&path, key, ReadableBy::Owner)?;
    Ok(path)
}

pub(crate) fn write_left(folder: &Path) -> Result<(), StateFileError> {
    write_text(
        &folder.join(LEFT),
        "This node left the cluster. Its data is kept; it will not be served again.\n",
        ReadableBy::Owner,
    )
}

/// Renames mongod's data folder, so that the next start begins with an empty one. Returns the new path.
pub(crate) fn move_data_aside(folder: &Path, incarnation: &Incarnation) -> Result<PathBuf, StateFileError> {
    let aside = folder.join(format!("data.aside-{incarnation}"));
    fs::rename(folder.join("data"), &aside).map_err(|source| StateFileError::Write {
        path: aside.clone(),
        source,
    })?;
    Ok(aside)
}

fn has_entries(folder: &Path) -> Result<bool, StateFileError> {
    let failed = |source| StateFileError::Read {
        path: folder.to_path_buf(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(failed(source)),
    };
    for entry in entries {
        // A file system that is mounted here has this folder from the beginning.
        if entry.map_err(failed)?.file_name() != "lost+found" {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn state_files_are_read_as_they_were_written() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("mongodb");
        assert_eq!(
            MongodLocalState::read(&folder).unwrap(),
            MongodLocalState::default()
        );
        create_folders(&folder).unwrap();
        let member = MemberStateFile {
            incarnation: "i1".into(),
            set: "conclave".into(),
            started: true,
            replica_set: Some("x".into()),
        };
        write_member(&folder, &member).unwrap();
        write_cluster(&folder, "c0ffee").unwrap();
        let key = write_key(&folder, "kkkkkk").unwrap();
        assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        write_left(&folder).unwrap();
        fs::write(folder.join("data/WiredTiger"), "").unwrap();
        let expected = MongodLocalState {
            has_data: true,
            member: Some(member),
            cluster: Some("c0ffee".into()),
            key: Some("kkkkkk".into()),
            left: true,
        };
        assert_eq!(MongodLocalState::read(&folder).unwrap(), expected);
    }

    #[test]
    fn a_folder_that_lost_its_data_begins_a_new_incarnation() {
        let member = |started| MemberStateFile {
            incarnation: "i1".into(),
            set: "s".into(),
            started,
            replica_set: None,
        };
        let check = |has_data: bool, member: Option<MemberStateFile>, same: bool| {
            let state = MongodLocalState {
                has_data,
                member: member.clone(),
                ..MongodLocalState::default()
            };
            let now = state.member_or_new("s");
            assert_eq!(now.incarnation == "i1".into(), same, "{has_data} {member:?}");
        };
        check(true, Some(member(true)), true);
        check(false, Some(member(true)), false);
        // Registered, but mongod was never started: nothing was lost.
        check(false, Some(member(false)), true);
        check(false, None, false);
    }
}
