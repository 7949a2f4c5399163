//! Writes each service's part of the configuration where the service reads it.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Role;
use crate::config::Layers;

pub(super) fn path(run: &Path, role: Role) -> PathBuf {
    run.join(format!("{}.toml", role.service()))
}

/// Whole or not at all: a service that is being restarted may read it at any moment.
pub(super) fn write(run: &Path, role: Role, layers: &Layers) -> Result<PathBuf> {
    let path = path(run, role);
    let text = layers.write_out(role.sections())?;
    let new = path.with_extension("toml.new");
    let written = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, &path)
    };
    written().with_context(|| format!("could not write {}", path.display()))?;
    Ok(path)
}
