//! The named root file systems of the executor's machine, in which tasks may ask to run.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{OfferedRoot, RootName};
use roots::{InstalledRoot, RootHold, RootStore, RootStoreError};
use sandbox::{CommandIsolation, EnforcementError, SandboxOptions};
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::now;
use crate::run::shell_in_root;

/// A problem that stays is logged again after this time.
const LOG_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Finds the root file systems for cells on an executor's machine. Operators add and replace them while it runs.
#[derive(Debug)]
pub(crate) struct CellRoots {
    store: RootStore,
    /// How cells are created. `None`: tasks run without cells, so no root can be chosen.
    cells: Option<SandboxOptions>,
    /// That of the cells in the default root.
    isolation: CommandIsolation,
    /// Roots in which a slot could not start a warden since the last look.
    failed: Mutex<BTreeSet<RootName>>,
    failure: Notify,
    /// The problem of each root that was logged last, and when.
    logged: Mutex<HashMap<String, (String, Instant)>>,
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
            failed: Mutex::default(),
            failure: Notify::new(),
            logged: Mutex::default(),
        }
    }

    /// A slot could not start a warden in the root.
    pub(crate) fn on_failed(&self, root: &RootName) {
        lock(&self.failed).insert(root.clone());
        self.failure.notify_one();
    }

    /// The roots of `on_failed` since the last call.
    pub(crate) fn take_failed(&self) -> BTreeSet<RootName> {
        std::mem::take(&mut *lock(&self.failed))
    }

    /// Returns after the next `on_failed`, or at once if there was one since the last return.
    pub(crate) async fn wait_for_failure(&self) {
        self.failure.notified().await;
    }

    /// Whether the problem has to be logged: it is new, or was logged long ago. The executor looks at its roots every few
    /// seconds.
    pub(crate) fn is_new_problem(&self, about: &str, problem: &str) -> bool {
        let (now, mut logged) = (now(), lock(&self.logged));
        logged.retain(|_, (_, logged_at)| now < *logged_at + LOG_AGAIN_AFTER);
        let is_new = logged.get(about).is_none_or(|(last, _)| last != problem);
        if is_new {
            logged.insert(about.to_string(), (problem.to_string(), now));
        }
        is_new
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
                    if self.is_new_problem(name.as_str(), &why) {
                        tracing::warn!(%name, why, "a root cannot be used");
                    }
                }
                list.roots
            }
            Err(error) => {
                let why = error_causes::with_causes(&error);
                if self.is_new_problem("all roots", &why) {
                    tracing::warn!(folder = ?self.store.folder(), why, "could not list the roots");
                }
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

    /// Removes generations that no process uses any more, until the token is cancelled.
    pub(crate) fn remove_unused(&self, stop: &CancellationToken) {
        for error in self
            .store
            .remove_unused_generations_until(&|| stop.is_cancelled())
        {
            let why = error_causes::with_causes(&error);
            if self.is_new_problem(&why, &why) {
                tracing::warn!(folder = ?self.store.folder(), why, "could not remove unused generations of roots");
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The root as the executor reports it.
pub(crate) fn offered_root(root: &InstalledRoot) -> OfferedRoot {
    OfferedRoot {
        name: root.name.clone(),
        sha256: root.sha256,
    }
}
