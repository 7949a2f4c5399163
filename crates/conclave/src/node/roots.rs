//! The roots of this machine, by the configuration.

use anyhow::{Context, Result, ensure};
use roots::RootStore;
use sandbox::SandboxOptions;

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

/// If the default root (`sandbox.root`) is a generation of these roots, keeps its files as long as the returned store exists. A path
/// through `current` would lead elsewhere when the root is replaced, so cells get the path of the generation.
pub(crate) fn hold_default_root(roots: RootStore, cells: &mut SandboxOptions) -> Result<RootStore> {
    let Some(path) = &cells.root else {
        return Ok(roots);
    };
    let held = roots
        .hold_path(path)
        .with_context(|| format!("sandbox.root is {}", path.display()))?;
    Ok(match held {
        Some((folder, hold)) => {
            cells.root = Some(folder);
            roots.keep(hold)
        }
        None => roots,
    })
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
    use std::path::Path;

    use super::*;
    use crate::config::{ConfigFlag, ConfigLayers};

    #[test]
    fn the_default_root_is_held_while_the_store_exists() {
        let folder = tempfile::tempdir().unwrap();
        let generation = folder.path().join("roots/r/01890a5dac96774bbcceb302099a8057");
        std::fs::create_dir_all(generation.join("tree")).unwrap();
        std::fs::write(generation.join("root.json"), "{}").unwrap();
        let current = folder.path().join("roots/r/current");
        std::os::unix::fs::symlink(generation.file_name().unwrap(), &current).unwrap();
        let flag = |key: &str, path: &Path| ConfigFlag {
            key: key.to_string(),
            flag: "--set",
            text: path.to_str().unwrap().to_string(),
        };
        let flags = vec![
            flag("node.data", folder.path()),
            flag("sandbox.root", &current.join("tree")),
        ];
        let config = ConfigLayers::gather(None, flags).unwrap().config().unwrap();
        let mut cells = crate::node::options::cells(&config).unwrap();
        let roots = hold_default_root(root_store(&config).unwrap(), &mut cells).unwrap();
        let held = cells.root.unwrap();
        assert_eq!(held, std::fs::canonicalize(generation.join("tree")).unwrap());
        std::fs::remove_file(&current).unwrap();
        let other = RootStore::open(roots.folder());
        other.remove_unused_generations().unwrap();
        assert!(held.exists());
        drop(roots);
        other.remove_unused_generations().unwrap();
        assert!(!held.exists());
    }

    #[test]
    fn relative_paths_of_roots_become_absolute() {
        let flag = |key: &str| ConfigFlag {
            key: key.to_string(),
            flag: "--set",
            text: "some/root".to_string(),
        };
        let flags = vec![flag("sandbox.root"), flag("roots.r.path")];
        let config = ConfigLayers::gather(None, flags).unwrap().config().unwrap();
        let expected = std::env::current_dir().unwrap().join("some/root");
        assert_eq!(config.roots[0].path, expected);
        assert_eq!(crate::node::options::cells(&config).unwrap().root, Some(expected));
    }

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
