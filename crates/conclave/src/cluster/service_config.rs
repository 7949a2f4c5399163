//! The configuration file that boot writes for a service.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::ServiceKind;
use crate::config::ConfigLayers;

pub(super) fn path(run: &Path, service: ServiceKind) -> PathBuf {
    run.join(format!("{}.toml", service.service_name()))
}

/// Replaces the file atomically, because a restarting service may read it at any time.
pub(super) fn write(run: &Path, service: ServiceKind, layers: &ConfigLayers) -> Result<PathBuf> {
    let path = path(run, service);
    let text = layers.to_toml(service.sections())?;
    let new = path.with_extension("toml.new");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, &path)
    };
    write().with_context(|| format!("could not write {}", path.display()))?;
    Ok(path)
}
