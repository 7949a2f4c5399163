//! The named root file systems of the executor's machine, in which tasks may ask to run.

use model::{OfferedRoot, RootName};
use roots::{InstalledRoot, RootHold, RootStore, RootStoreError};
use sandbox::{CommandIsolation, EnforcementError, SandboxOptions};
use thiserror::Error;

use crate::run::shell_in_root;

/// Finds the root file systems for cells on an executor's machine. Operators add and replace them while it runs.
#[derive(Debug)]
pub(crate) struct CellRoots {
    store: RootStore,
    /// How cells are created. `None`: tasks run without cells, so no root can be chosen.
    cells: Option<SandboxOptions>,
    /// That of the cells in the default root.
    isolation: CommandIsolation,
}

/// One generation of a root, whose files stay while wardens of the executor use it.
#[derive(Debug)]
pub(crate) struct HeldRoot {
    pub(crate) root: InstalledRoot,
    /// How wardens isolate commands in the root.
    pub(crate) isolation: CommandIsolation,
    pub(crate) shell: &'static str,
    _hold: RootHold,
}

/// Why a task cannot run in the root that it asks for.
#[derive(Debug, Error)]
pub(crate) enum CellRootError {
    #[error("this executor runs tasks without cells, so it has no root '{0}'")]
    WithoutCells(RootName),
    #[error("this executor has no root '{0}' any more")]
    Missing(RootName),
    #[error("could not open the root '{name}'")]
    Open {
        name: RootName,
        #[source]
        source: RootStoreError,
    },
    #[error("cells cannot use the root '{name}'")]
    Enforcement {
        name: RootName,
        #[source]
        source: Box<EnforcementError>,
    },
}

impl CellRoots {
    pub(crate) fn new(
        store: RootStore,
        cells: Option<SandboxOptions>,
        isolation: CommandIsolation,
    ) -> CellRoots {
        CellRoots {
            store,
            cells,
            isolation,
        }
    }

    /// The roots that tasks can use now. Roots that cannot be read are logged and left out.
    pub(crate) fn list(&self) -> Vec<InstalledRoot> {
        if self.cells.is_none() {
            return Vec::new();
        }
        match self.store.list() {
            Ok(list) => {
                for (name, error) in &list.damaged {
                    let why = error_causes::with_causes(error);
                    tracing::warn!(%name, why, "a root cannot be used");
                }
                list.roots
            }
            Err(error) => {
                let why = error_causes::with_causes(&error);
                tracing::warn!(folder = ?self.store.folder(), why, "could not list the roots");
                Vec::new()
            }
        }
    }

    /// The current generation of the root.
    pub(crate) fn hold(&self, name: &RootName) -> Result<HeldRoot, CellRootError> {
        let cells = self
            .cells
            .as_ref()
            .ok_or_else(|| CellRootError::WithoutCells(name.clone()))?;
        let open_error = |source| CellRootError::Open {
            name: name.clone(),
            source,
        };
        let (root, hold) = self
            .store
            .hold(name)
            .map_err(open_error)?
            .ok_or_else(|| CellRootError::Missing(name.clone()))?;
        let isolation = cells
            .isolation_in_root(&self.isolation, &root.folder)
            .map_err(|source| CellRootError::Enforcement {
                name: name.clone(),
                source: Box::new(source),
            })?;
        Ok(HeldRoot {
            shell: shell_in_root(&root.folder),
            root,
            isolation,
            _hold: hold,
        })
    }

    /// Whether new tasks use this generation of a root.
    pub(crate) fn is_current(&self, held: &InstalledRoot) -> bool {
        matches!(self.store.get(&held.name), Ok(Some(root)) if root.folder == held.folder)
    }

    /// Removes generations that no process uses any more.
    pub(crate) fn remove_unused(&self) {
        if let Err(error) = self.store.remove_unused_generations() {
            let why = error_causes::with_causes(&error);
            tracing::warn!(folder = ?self.store.folder(), why, "could not remove unused generations of roots");
        }
    }
}

/// The root as the executor reports it.
pub(crate) fn offered_root(root: &InstalledRoot) -> OfferedRoot {
    OfferedRoot {
        name: root.name.clone(),
        sha256: root.sha256,
    }
}
