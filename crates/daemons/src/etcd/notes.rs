//! What the daemon writes down beside etcd's data, so that a crash at any point goes on where it stopped.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::plan::Charter;

#[derive(Debug, Error)]
#[error("could not {step} {path:?}")]
pub struct NoteError {
    step: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The daemon's folder.
#[derive(Clone, Debug)]
pub(crate) struct Notes(PathBuf);

/// The cluster that this node serves in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) cluster: u64,
    /// `None` between being added to a cluster and serving in it, and for a proxy.
    pub(crate) member: Option<u64>,
}

/// What this node told the other founders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Founding {
    #[serde(flatten)]
    pub(crate) charter: Charter,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// It will found with these and no others.
    Promised,
    /// All of them promised: it founds.
    Decided,
}

/// All that the folder says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnDisk {
    pub(crate) data: bool,
    pub(crate) served: Option<Served>,
    pub(crate) founding: Option<Founding>,
    pub(crate) left: bool,
}

/// Where the members served clients when it was last seen, `host:port` each. Empty where nobody has looked yet.
pub fn known_endpoints(data: &Path) -> Vec<String> {
    // A note that cannot be read tells nothing; whoever writes it will find out why.
    let text = fs::read_to_string(data.join("endpoints")).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// The id of the cluster that this node belongs to. `None` as long as it belongs to none.
pub fn known_cluster(data: &Path) -> Option<u64> {
    // The daemon reads it too, and tells what is wrong with it.
    let served: Option<Served> = Notes::at(data).read_note("served").ok().flatten();
    served.map(|served| served.cluster)
}

impl Notes {
    pub(crate) fn at(folder: &Path) -> Notes {
        Notes(folder.to_path_buf())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// etcd's own folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub(crate) fn read(&self) -> Result<OnDisk, NoteError> {
        Ok(OnDisk {
            data: self.has_data(),
            served: self.read_note("served")?,
            founding: self.read_note("founding")?,
            left: self.0.join("left").exists(),
        })
    }

    pub(crate) fn serves(&self, served: Served) -> Result<(), NoteError> {
        self.write("served", &text_of(&served))
    }

    /// The id of the cluster that this node belongs to.
    pub(crate) fn cluster(&self) -> Result<Option<u64>, NoteError> {
        let served: Option<Served> = self.read_note("served")?;
        Ok(served.map(|served| served.cluster))
    }

    pub(crate) fn founds(&self, founding: &Founding) -> Result<(), NoteError> {
        self.write("founding", &text_of(founding))
    }

    pub(crate) fn leaves(&self, text: &str) -> Result<(), NoteError> {
        self.write("left", text)
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        known_endpoints(&self.0)
    }

    /// Writes only what is news.
    pub(crate) fn set_endpoints(&self, endpoints: &[String]) -> Result<(), NoteError> {
        if endpoints.is_empty() || self.endpoints() == endpoints {
            return Ok(());
        }
        let text: String = endpoints.iter().map(|endpoint| format!("{endpoint}\n")).collect();
        self.write("endpoints", &text)
    }

    pub(crate) fn address(&self) -> Result<Option<String>, NoteError> {
        match fs::read_to_string(self.0.join("address")) {
            Ok(text) => Ok(Some(text.trim().to_string())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", "address")(error)),
        }
    }

    pub(crate) fn set_address(&self, host: &str) -> Result<(), NoteError> {
        self.write("address", &format!("{host}\n"))
    }

    /// What etcd itself takes for data: a write-ahead log. Whatever else a crash left there, etcd starts anew over.
    fn has_data(&self) -> bool {
        let Ok(files) = fs::read_dir(self.data().join("member/wal")) else {
            return false;
        };
        files
            .flatten()
            .any(|file| file.path().extension().is_some_and(|end| end == "wal"))
    }

    fn read_note<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, NoteError> {
        match fs::read(self.0.join(name)) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| self.failed("understand", name)(error.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", name)(error)),
        }
    }

    /// Whole and on disk, or as it was.
    fn write(&self, name: &str, text: &str) -> Result<(), NoteError> {
        let path = self.0.join(name);
        let new = self.0.join(format!("{name}.new"));
        let write = || {
            fs::create_dir_all(&self.0)?;
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(self.failed("write", name))
    }

    fn failed(&self, step: &'static str, name: &str) -> impl FnOnce(io::Error) -> NoteError {
        let path = self.0.join(name);
        move |source| NoteError { step, path, source }
    }
}

fn text_of(note: &impl Serialize) -> String {
    // Numbers, names and lists of them have a JSON form.
    serde_json::to_string_pretty(note).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::plan::Founder;
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::at(&folder.path().join("etcd"));
        assert_eq!(notes.read().unwrap(), OnDisk::default());
        assert!(notes.endpoints().is_empty());

        let served = Served {
            cluster: u64::MAX,
            member: Some(7),
        };
        let founding = Founding {
            charter: Charter {
                founders: vec![Founder::new("a", "10.0.0.1:2380")],
                token: "t".into(),
            },
            stage: Stage::Promised,
        };
        notes.serves(served).unwrap();
        notes.founds(&founding).unwrap();
        notes.leaves("left\n").unwrap();
        notes
            .set_endpoints(&["a:1".to_string(), "b:2".to_string()])
            .unwrap();
        notes.set_endpoints(&[]).unwrap();
        fs::create_dir_all(notes.data().join("member/wal")).unwrap();
        assert!(!notes.read().unwrap().data, "an empty folder is no data");
        fs::write(notes.data().join("member/wal/0-0.wal"), "").unwrap();

        let disk = OnDisk {
            data: true,
            served: Some(served),
            founding: Some(founding),
            left: true,
        };
        assert_eq!(notes.read().unwrap(), disk);
        assert_eq!(known_endpoints(notes.folder()), ["a:1", "b:2"]);
        assert_eq!(known_cluster(notes.folder()), Some(u64::MAX));
        assert_eq!(known_cluster(folder.path()), None);
    }

    #[test]
    fn a_damaged_note_is_an_error_and_not_taken_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("served"), "{").unwrap();
        assert!(Notes::at(folder.path()).read().is_err());
    }
}
