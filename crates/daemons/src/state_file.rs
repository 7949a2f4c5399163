//! The small files in which a daemon keeps its own state beside its server's data.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use thiserror::Error;

/// Why a state file of the etcd or mongod daemon could not be read or written.
#[derive(Debug, Error)]
pub enum StateFileError {
    #[error("could not read {path:?}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not parse {path:?}; a newer version of Conclave may have written it")]
    Parse {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Which users may read a state file of the etcd or mongod daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadableBy {
    /// Only the user whom the daemon runs as.
    Owner,
    /// Every user, as far as the umask allows.
    All,
}

/// Returns `None` if the file does not exist.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, StateFileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateFileError::Read {
            path: path.to_path_buf(),
            source,
        }),
    }
}

/// Returns `None` if the file does not exist. A damaged file is an error, never `None`: a node that takes itself for
/// new could found a second cluster.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateFileError> {
    let Some(text) = read_text(path)? else {
        return Ok(None);
    };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|source| StateFileError::Parse {
            path: path.to_path_buf(),
            source,
        })
}

/// Replaces the file atomically and syncs it to disk: after a power failure it holds either the old text or the new.
pub(crate) fn write_text(path: &Path, text: &str, readable: ReadableBy) -> Result<(), StateFileError> {
    let mut temporary = path.as_os_str().to_os_string();
    temporary.push(".new");
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(match readable {
                ReadableBy::Owner => 0o600,
                ReadableBy::All => 0o666,
            })
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| StateFileError::Write {
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_read_back_as_written_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/state.json");
        assert_eq!(read_text(&path).unwrap(), None);
        assert_eq!(read_json::<u32>(&path).unwrap(), None);
        for text in ["1", "23"] {
            write_text(&path, text, ReadableBy::Owner).unwrap();
            assert_eq!(read_text(&path).unwrap().as_deref(), Some(text));
        }
        assert_eq!(read_json(&path).unwrap(), Some(23));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        fs::write(&path, "{").unwrap();
        assert!(matches!(
            read_json::<u32>(&path),
            Err(StateFileError::Parse { .. })
        ));
    }
}
