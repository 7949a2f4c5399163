//! The files that the daemon keeps beside etcd's data, so that it continues after a crash at any point.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::decision::InitialCluster;
use crate::state_file::{ReadableBy, StateFileError, read_json, read_text, write_text};

const SERVED: &str = "served";
const FOUNDING: &str = "founding";
const ADDRESS: &str = "address";
const LEFT: &str = "left";
const ENDPOINTS: &str = "endpoints";

/// The folder of the etcd daemon, with its state files and etcd's own data.
#[derive(Clone, Debug)]
pub(crate) struct EtcdStateDir(PathBuf);

/// The etcd cluster that this node belongs to: the content of the etcd daemon's state file `served`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterMembership {
    pub(crate) cluster: u64,
    /// `None` after the node was added to a cluster until it serves there, and for a proxy.
    pub(crate) member: Option<u64>,
}

/// What this node promised to the other founders of a new etcd cluster: the content of the file `founding`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundingRecord {
    #[serde(flatten)]
    pub(crate) cluster: InitialCluster,
    pub(crate) stage: FoundingStage,
}

/// How far a founder of a new etcd cluster has committed itself to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FoundingStage {
    /// It will found a cluster with these founders and no others.
    Promised,
    /// All founders promised, and it has decided to start etcd.
    Decided,
}

/// All state files of the etcd daemon, and whether etcd has data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EtcdLocalState {
    pub(crate) has_data: bool,
    pub(crate) membership: Option<ClusterMembership>,
    pub(crate) founding: Option<FoundingRecord>,
    pub(crate) left: bool,
}

/// The client addresses of the members as last seen, `host:port` each. Empty if none were saved yet.
pub fn saved_endpoints(folder: &Path) -> Vec<String> {
    // If the file cannot be read, the daemon reports the reason when it writes the file.
    let text = fs::read_to_string(folder.join(ENDPOINTS)).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// The id of the cluster that this node belongs to, or `None` if it belongs to none yet.
pub fn saved_cluster_id(folder: &Path) -> Option<u64> {
    // If the file is damaged, the daemon reports that: it reads the file as well.
    EtcdStateDir::at(folder).cluster_id().ok().flatten()
}

impl EtcdStateDir {
    pub(crate) fn at(folder: &Path) -> EtcdStateDir {
        EtcdStateDir(folder.to_path_buf())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// etcd's own folder.
    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub(crate) fn read(&self) -> Result<EtcdLocalState, StateFileError> {
        Ok(EtcdLocalState {
            has_data: self.has_data(),
            membership: read_json(&self.0.join(SERVED))?,
            founding: read_json(&self.0.join(FOUNDING))?,
            left: self.0.join(LEFT).exists(),
        })
    }

    pub(crate) fn write_membership(&self, membership: ClusterMembership) -> Result<(), StateFileError> {
        self.write(SERVED, &json(&membership))
    }

    /// The id of the cluster that this node belongs to.
    pub(crate) fn cluster_id(&self) -> Result<Option<u64>, StateFileError> {
        let membership: Option<ClusterMembership> = read_json(&self.0.join(SERVED))?;
        Ok(membership.map(|membership| membership.cluster))
    }

    pub(crate) fn write_founding(&self, founding: &FoundingRecord) -> Result<(), StateFileError> {
        self.write(FOUNDING, &json(founding))
    }

    pub(crate) fn write_left(&self) -> Result<(), StateFileError> {
        self.write(
            LEFT,
            "This node left its cluster. To join again, start it with a new data folder.\n",
        )
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        saved_endpoints(&self.0)
    }

    /// Writes the file only if the list has changed. An empty list is not saved.
    pub(crate) fn save_endpoints(&self, endpoints: &[String]) -> Result<(), StateFileError> {
        if endpoints.is_empty() || self.endpoints() == endpoints {
            return Ok(());
        }
        let text: String = endpoints.iter().map(|endpoint| format!("{endpoint}\n")).collect();
        self.write(ENDPOINTS, &text)
    }

    pub(crate) fn address(&self) -> Result<Option<String>, StateFileError> {
        let text = read_text(&self.0.join(ADDRESS))?;
        Ok(text.map(|text| text.trim().to_string()))
    }

    pub(crate) fn write_address(&self, host: &str) -> Result<(), StateFileError> {
        self.write(ADDRESS, &format!("{host}\n"))
    }

    /// etcd has data if it has a write-ahead log. If a crash left anything else there, etcd starts as if it were empty.
    fn has_data(&self) -> bool {
        let Ok(files) = fs::read_dir(self.etcd_data().join("member/wal")) else {
            return false;
        };
        files
            .flatten()
            .any(|file| file.path().extension().is_some_and(|end| end == "wal"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), StateFileError> {
        write_text(&self.0.join(name), text, ReadableBy::All)
    }
}

fn json(value: &impl Serialize) -> String {
    // Cannot fail: the types above hold only numbers, strings and lists of them.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::decision::NamedPeer;
    use super::*;

    #[test]
    fn state_files_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = EtcdStateDir::at(&folder.path().join("etcd"));
        assert_eq!(state_dir.read().unwrap(), EtcdLocalState::default());
        assert!(state_dir.endpoints().is_empty());

        let membership = ClusterMembership {
            cluster: u64::MAX,
            member: Some(7),
        };
        let founding = FoundingRecord {
            cluster: InitialCluster {
                founders: vec![NamedPeer::new("a", "10.0.0.1:2380")],
                token: "t".into(),
            },
            stage: FoundingStage::Promised,
        };
        state_dir.write_membership(membership).unwrap();
        state_dir.write_founding(&founding).unwrap();
        state_dir.write_left().unwrap();
        state_dir
            .save_endpoints(&["a:1".to_string(), "b:2".to_string()])
            .unwrap();
        state_dir.save_endpoints(&[]).unwrap();
        fs::create_dir_all(state_dir.etcd_data().join("member/wal")).unwrap();
        assert!(!state_dir.read().unwrap().has_data, "an empty folder is not data");
        fs::write(state_dir.etcd_data().join("member/wal/0-0.wal"), "").unwrap();

        let expected = EtcdLocalState {
            has_data: true,
            membership: Some(membership),
            founding: Some(founding),
            left: true,
        };
        assert_eq!(state_dir.read().unwrap(), expected);
        assert_eq!(saved_endpoints(state_dir.folder()), ["a:1", "b:2"]);
        assert_eq!(saved_cluster_id(state_dir.folder()), Some(u64::MAX));
        assert_eq!(saved_cluster_id(folder.path()), None);
    }

    #[test]
    fn the_form_of_the_founding_file_is_stable() {
        let text = r#"{"founders":[{"name":"a","peer":"10.0.0.1:2380"}],"token":"t","stage":"decided"}"#;
        let founding: FoundingRecord = serde_json::from_str(text).unwrap();
        assert_eq!(founding.stage, FoundingStage::Decided);
        assert_eq!(serde_json::to_string(&founding).unwrap(), text);
    }

    #[test]
    fn a_damaged_state_file_is_an_error_and_not_taken_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SERVED), "{").unwrap();
        assert!(EtcdStateDir::at(folder.path()).read().is_err());
    }
}
