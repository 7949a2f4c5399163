//! The roots of this machine, by the configuration.

use anyhow::{Context, Result, ensure};
use roots::RootStore;

use super::StartProblems;
use crate::config::Config;

/// The folder of the roots that `conclave root` makes, and the folders that the operator manages.
pub(crate) fn root_store(config: &Config) -> Result<RootStore> {
    let folder = config.roots_folder();
    let folder = std::path::absolute(&folder).with_context(|| {
        format!(
            "the folder of the roots {} has no absolute path",
            folder.display()
        )
    })?;
    let configured = config
        .roots
        .iter()
        .map(|root| (root.name.clone(), root.path.clone()));
    Ok(RootStore::open(&folder).with_configured(configured))
}

/// Checks the folders that the operator manages. The error lists all that are missing.
pub(crate) fn check_configured_roots(config: &Config) -> Result<()> {
    let mut problems = StartProblems::default();
    for root in &config.roots {
        let check = || -> Result<()> {
            let path = &root.path;
            let metadata = std::fs::metadata(path).with_context(|| {
                format!(
                    "{} ({}) is {}, which cannot be read; it must be a folder with a root file system",
                    root.key(),
                    root.origin,
                    path.display()
                )
            })?;
            ensure!(
                metadata.is_dir(),
                "{} ({}) is {}, which is not a folder; it must be a folder with a root file system",
                root.key(),
                root.origin,
                path.display()
            );
            Ok(())
        };
        problems.collect(check());
    }
    problems.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFlag, ConfigLayers};

    #[test]
    fn every_configured_root_must_be_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let flag = |name: &str, path: &str| ConfigFlag {
            key: format!("roots.{name}.path"),
            flag: "--set",
            text: folder.path().join(path).to_str().unwrap().to_string(),
        };
        let config = |flags: Vec<ConfigFlag>| ConfigLayers::gather(None, flags).unwrap().config().unwrap();
        assert!(check_configured_roots(&config(vec![flag("good", "")])).is_ok());
        let bad = config(vec![flag("a", "missing"), flag("b", "file"), flag("c", "")]);
        let error = format!("{:#}", check_configured_roots(&bad).unwrap_err());
        for part in [
            "2 problems",
            "roots.a.path (flag --set)",
            "missing",
            "roots.b.path",
            "not a folder",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("roots.c"), "{error}");
        assert_eq!(root_store(&bad).unwrap().list().unwrap().roots.len(), 3);
    }
}
