//! The folder of a store for blobs that are being received.

use std::fs;
use std::io;
use std::path::Path;

/// The end of the name of a file that holds the beginning of a blob. Its upload was interrupted and may be continued.
const PARTIAL_UPLOAD: &str = "part";

/// Removes the files that an earlier process has left, except those whose upload may be continued.
pub(crate) fn remove_leftovers(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != PARTIAL_UPLOAD)
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interrupted_uploads_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.part", "b", "check-1"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        remove_leftovers(folder.path()).unwrap();
        let left = fs::read_dir(folder.path()).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["a.part"]);
        remove_leftovers(&folder.path().join("missing")).unwrap();
    }
}
