//! Tests that a folder's disk accepts writes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;

/// More bytes than a small task takes. The probe needs a new file: on a full disk a database can still write to free
/// pages of its own file.
const PROBE_BYTES: usize = 64 << 10;

/// Writes a file in this folder, syncs it and removes it.
pub(crate) async fn check_writable(folder: PathBuf) -> Result<(), StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("check-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(name);
    let written = tokio::task::spawn_blocking(move || {
        let written = write_probe(&path);
        // A failed write may have left a part of the file.
        let removed = fs::remove_file(&path);
        written.and(removed)
    });
    let written = written.await.map_err(|_| StoreError::Closed)?;
    written.map_err(|source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { path: folder },
        _ => StoreError::Io {
            step: "write in the folder",
            path: folder,
            source,
        },
    })
}

fn write_probe(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&vec![b'.'; PROBE_BYTES])?;
    file.sync_all()
}
