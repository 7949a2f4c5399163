//! Whether there is room on a disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;

/// More than a small task takes. A database may have room left in its own files on a disk that is full.
const PROBE: usize = 64 << 10;

/// Writes a file in this folder, syncs it and removes it.
pub(crate) async fn check(folder: PathBuf) -> Result<(), StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("check-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(name);
    let written = tokio::task::spawn_blocking(move || {
        let written = write(&path);
        // Also what was written in part only.
        let removed = fs::remove_file(&path);
        written.and(removed)
    });
    let written = written.await.map_err(|_| StoreError::Closed)?;
    written.map_err(|source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path: folder },
        _ => StoreError::Io {
            step: "write in the folder",
            path: folder,
            source,
        },
    })
}

fn write(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&vec![b'.'; PROBE])?;
    file.sync_all()
}
