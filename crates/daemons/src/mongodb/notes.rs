//! What the daemon writes beside mongod's data: whose data it is.
//!
//! | file | what it says |
//! |---|---|
//! | `member.json` | the incarnation of the data, its replica set, whether etcd confirmed that set |
//! | `cluster` | the etcd cluster that the data belongs to; an operator who sets etcd up anew removes it |
//! | `key` | mongod's key file |
//! | `left` | that the node left for good |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::records::Incarnation;

const MEMBER: &str = "member.json";
const CLUSTER: &str = "cluster";
const KEY: &str = "key";
const LEFT: &str = "left";

#[derive(Debug, Error)]
pub enum NoteError {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a note of this version of Conclave")]
    Parse {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberNote {
    pub(crate) incarnation: Incarnation,
    pub(crate) set: String,
    /// Whether mongod was ever started on the folder. Until then it has nothing to forget.
    pub(crate) started: bool,
    /// mongod's id of the set, once etcd has told that it is the cluster's.
    pub(crate) replica_set: Option<String>,
}

/// All notes, and whether there is any data that they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    pub(crate) has_data: bool,
    pub(crate) member: Option<MemberNote>,
    pub(crate) cluster: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) left: bool,
}

impl Notes {
    /// Changes nothing. A folder that is not there has no notes.
    pub(crate) fn read(folder: &Path) -> Result<Notes, NoteError> {
        let member = match read(&folder.join(MEMBER))? {
            Some(text) => Some(serde_json::from_str(&text).map_err(|source| NoteError::Parse {
                path: folder.join(MEMBER),
                source,
            })?),
            None => None,
        };
        Ok(Notes {
            has_data: has_entries(&folder.join("data"))?,
            member,
            cluster: read(&folder.join(CLUSTER))?,
            key: read(&folder.join(KEY))?,
            left: read(&folder.join(LEFT))?.is_some(),
        })
    }

    /// The incarnation of the data that is there, or of the data that will be.
    pub(crate) fn incarnation(&self, set: &str) -> MemberNote {
        match &self.member {
            Some(note) if self.has_data || !note.started => note.clone(),
            // Without data, whatever the folder was before is lost.
            _ => MemberNote {
                incarnation: Incarnation::random(),
                set: set.to_string(),
                started: false,
                replica_set: None,
            },
        }
    }
}

pub(crate) fn make_folders(folder: &Path) -> Result<(), NoteError> {
    let data = folder.join("data");
    fs::create_dir_all(&data).map_err(|source| NoteError::Write { path: data, source })
}

pub(crate) fn write_member(folder: &Path, note: &MemberNote) -> Result<(), NoteError> {
    let path = folder.join(MEMBER);
    let text = serde_json::to_string(note).map_err(|error| NoteError::Write {
        path: path.clone(),
        source: error.into(),
    })?;
    write(&path, &text)
}

pub(crate) fn write_cluster(folder: &Path, cluster: &str) -> Result<(), NoteError> {
    write(&folder.join(CLUSTER), cluster)
}

/// Returns where it is.
pub(crate) fn write_key(folder: &Path, key: &str) -> Result<PathBuf, NoteError> {
    let path = folder.join(KEY);
    write(&path, key)?;
    Ok(path)
}

pub(crate) fn write_left(folder: &Path) -> Result<(), NoteError> {
    write(
        &folder.join(LEFT),
        "This node left the cluster. Its data is kept; it will not be served again.\n",
    )
}

/// Data that is nobody's is kept under another name. Returns that name.
pub(crate) fn set_aside(folder: &Path, incarnation: &Incarnation) -> Result<PathBuf, NoteError> {
    let aside = folder.join(format!("data.aside-{incarnation}"));
    fs::rename(folder.join("data"), &aside).map_err(|source| NoteError::Write {
        path: aside.clone(),
        source,
    })?;
    Ok(aside)
}

fn read(path: &Path) -> Result<Option<String>, NoteError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(NoteError::Read {
            path: path.to_path_buf(),
            source,
        }),
    }
}

fn has_entries(folder: &Path) -> Result<bool, NoteError> {
    let failed = |source| NoteError::Read {
        path: folder.to_path_buf(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(failed(source)),
    };
    for entry in entries {
        // A file system of its own brings this with it.
        if entry.map_err(failed)?.file_name() != "lost+found" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whole or not at all, and on the disk: what is decided by a note must not be decided otherwise after a power
/// failure.
fn write(path: &Path, text: &str) -> Result<(), NoteError> {
    let failed = |source| NoteError::Write {
        path: path.to_path_buf(),
        source,
    };
    let draft = path.with_extension("new");
    let written = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    written().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("mongodb");
        assert_eq!(Notes::read(&folder).unwrap(), Notes::default());
        make_folders(&folder).unwrap();
        let note = MemberNote {
            incarnation: "i1".into(),
            set: "conclave".into(),
            started: true,
            replica_set: Some("x".into()),
        };
        write_member(&folder, &note).unwrap();
        write_cluster(&folder, "c0ffee").unwrap();
        let key = write_key(&folder, "kkkkkk").unwrap();
        assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
        write_left(&folder).unwrap();
        fs::write(folder.join("data/WiredTiger"), "").unwrap();
        let expected = Notes {
            has_data: true,
            member: Some(note),
            cluster: Some("c0ffee".into()),
            key: Some("kkkkkk".into()),
            left: true,
        };
        assert_eq!(Notes::read(&folder).unwrap(), expected);
    }

    #[test]
    fn a_folder_that_lost_its_data_begins_a_new_incarnation() {
        let note = |started| MemberNote {
            incarnation: "i1".into(),
            set: "s".into(),
            started,
            replica_set: None,
        };
        let check = |has_data: bool, member: Option<MemberNote>, same: bool| {
            let notes = Notes {
                has_data,
                member: member.clone(),
                ..Notes::default()
            };
            let now = notes.incarnation("s");
            assert_eq!(now.incarnation == "i1".into(), same, "{has_data} {member:?}");
        };
        check(true, Some(note(true)), true);
        check(false, Some(note(true)), false);
        // Began, but never came to start mongod: still the same beginning.
        check(false, Some(note(false)), true);
        check(false, None, false);
    }
}
