//! Checks what this machine can enforce, before the first command runs, and prepares it. If a protection is missing
//! and the operator has not waived it by name, nothing runs.

mod core_dumps;
mod error;
mod user_separation;
mod waivable_limit;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use error_causes::with_causes;
use nix::fcntl::Flock;
use serde::Serialize;

use crate::cell::{
    CellSettings, DefaultCommandLimits, LOOPBACK_NETWORK, NamedNetwork, RESERVED_NAMES, RootEntry,
    landlock_version, open_network,
};
use crate::cgroup::{CgroupRoot, CgroupRootError};
use crate::launch::{CommandIsolation, WardenLauncher};

pub use error::EnforcementError;
use user_separation::UserSeparation;
pub use waivable_limit::WaivableLimit;

/// The operator's settings for the cells of one executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOptions {
    /// A folder with a root file system. `None` uses the host's programs.
    pub root: Option<PathBuf>,
    /// More files and folders of the host (path on the host, path in the cell), mounted read-only.
    pub binds: Vec<(PathBuf, PathBuf)>,
    /// The first of the user and group ids of the commands; each warden uses one. For an executor of an ordinary user
    /// they apply only if they are subordinate ids of that user; otherwise any of its subordinate ids are used.
    pub first_user: u32,
    /// How many wardens run at the same time.
    pub wardens: u32,
    /// The control group in which the groups are created. `None` uses the group of this process.
    pub parent_group: Option<PathBuf>,
    /// The limits of a task that asks for none.
    pub default_limits: DefaultCommandLimits,
    pub space: u64,
    pub max_files: u64,
    pub networks: Vec<NamedNetwork>,
    /// The limits that the operator does without if this machine cannot enforce them.
    pub waived_limits: Vec<WaivableLimit>,
}

/// One protection of cells, and what enforces it on this machine. `conclave sandbox --check --json` prints it with the
/// keys `wall`, `by` and `missing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtectionStatus {
    #[serde(rename = "wall")]
    pub protection: &'static str,
    #[serde(rename = "by")]
    pub enforced_by: String,
    /// Nothing enforces it, and the operator has not waived it by name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

impl ProtectionStatus {
    fn new(protection: &'static str, by: impl Into<String>) -> ProtectionStatus {
        ProtectionStatus {
            protection,
            enforced_by: by.into(),
            missing: false,
        }
    }
}

/// The sandbox of this machine after its checks: how to isolate commands, and the cgroup root and locks for it.
#[derive(Debug)]
pub struct PreparedSandbox {
    pub isolation: CommandIsolation,
    pub protections: Vec<ProtectionStatus>,
    /// Control groups of an earlier executor process whose processes were sent SIGKILL and hang in the kernel. They
    /// do not affect anything else.
    pub stuck_groups: Vec<PathBuf>,
    cgroup_root: Option<CgroupRoot>,
    /// While these locks are held, other processes do not take the control groups for abandoned.
    locks: Vec<Flock<File>>,
}

impl SandboxOptions {
    /// Checks whether cells can be created on this machine, and leaves nothing behind. The error names everything
    /// that is missing.
    pub fn check_machine(&self) -> Result<(), EnforcementError> {
        let limits = match self.try_start_warden() {
            Err(missing @ EnforcementError::MissingLimits { .. }) => missing,
            tried => return tried,
        };
        let without_limits = SandboxOptions {
            waived_limits: WaivableLimit::ALL.to_vec(),
            ..self.clone()
        };
        Err(match without_limits.try_start_warden() {
            Ok(()) => limits,
            Err(cells) => EnforcementError::MissingLimitsAndCells {
                limits: Box::new(limits),
                cells: Box::new(cells),
            },
        })
    }

    fn try_start_warden(&self) -> Result<(), EnforcementError> {
        let sandbox = self.prepare_temporary()?;
        let launcher = WardenLauncher::this_binary(sandbox.isolation.for_warden(0));
        let started = launcher.start().map(drop).map_err(EnforcementError::from);
        // If the removal fails, the next temporary sandbox removes what is left.
        let _ = sandbox.remove();
        started
    }

    /// Prepares the machine. `name` is the name of the control groups, which must be unique to this executor:
    /// processes in them are killed.
    pub fn prepare(&self, name: &str) -> Result<PreparedSandbox, EnforcementError> {
        // Settings are checked first, so that an error leaves nothing behind.
        core_dumps::check_helper()?;
        let root_entries = self.root_entries()?;
        self.networks.iter().try_for_each(check_network)?;
        let cgroup_root = match CgroupRoot::prepare(name, self.parent_group.as_deref()) {
            Ok(cgroup_root) => Some(cgroup_root),
            Err(error) => {
                self.require_waived(&WaivableLimit::ALL, &with_causes(&error))?;
                None
            }
        };
        let (stuck_groups, mut protections) =
            self.clear_and_check_limits(cgroup_root.as_ref())
                .inspect_err(|_| {
                    if let Some(cgroup_root) = cgroup_root.clone() {
                        let _ = cgroup_root.remove();
                    }
                })?;
        let user_separation = UserSeparation::find(self.first_user, self.wardens.max(1));
        protections.extend(user_separation.protections());
        protections.extend(always_enforced());
        let settings = CellSettings {
            root_entries,
            user: self.first_user,
            subordinate_ids: user_separation.subordinate_ids().cloned(),
            max_open_files: user_separation.max_open_files(),
            group: cgroup_root
                .clone()
                .map(|cgroup_root| (cgroup_root, "slot".to_string())),
            default_limits: self.default_limits,
            space: self.space,
            max_files: self.max_files,
            networks: self.networks.clone(),
        };
        Ok(PreparedSandbox {
            isolation: CommandIsolation::Cell(Box::new(settings)),
            protections,
            stuck_groups,
            cgroup_root,
            locks: Vec::new(),
        })
    }

    /// Like [`SandboxOptions::prepare`], for a process that has no permanent name. If it leaves control groups
    /// behind, the next such process removes them.
    pub fn prepare_temporary(&self) -> Result<PreparedSandbox, EnforcementError> {
        const PREFIX: &str = "conclave-once-";
        // The process id alone is not unique: a process in another pid namespace may have the same one.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), now.as_nanos());
        let mut sandbox = self.prepare(&name)?;
        if let Some(cgroup_root) = &sandbox.cgroup_root {
            // If a group cannot be locked, the process id in its name shows whether its owner is alive.
            sandbox.locks = cgroup_root.lock().unwrap_or_default();
            cgroup_root.remove_abandoned(PREFIX);
        }
        Ok(sandbox)
    }

    fn clear_and_check_limits(
        &self,
        cgroup_root: Option<&CgroupRoot>,
    ) -> Result<(Vec<PathBuf>, Vec<ProtectionStatus>), EnforcementError> {
        let stuck_groups = match cgroup_root.map_or(Ok(0), CgroupRoot::clear) {
            Ok(_) => Vec::new(),
            Err(CgroupRootError::StuckProcesses(groups)) => groups,
            Err(error) => return Err(EnforcementError::Clear(error)),
        };
        Ok((stuck_groups, self.limit_statuses(cgroup_root)?))
    }

    fn limit_statuses(
        &self,
        cgroup_root: Option<&CgroupRoot>,
    ) -> Result<Vec<ProtectionStatus>, EnforcementError> {
        let features = cgroup_root.map(CgroupRoot::features);
        let enforced = |limit: WaivableLimit| {
            features.filter(|features| match limit {
                WaivableLimit::Memory => features.memory,
                WaivableLimit::Processes => features.processes,
                WaivableLimit::Cpu => features.cpu,
            })
        };
        let mut missing = WaivableLimit::ALL.to_vec();
        missing.retain(|limit| enforced(*limit).is_none());
        self.require_waived(
            &missing,
            "the cgroup controllers are not available, or not enabled for this group",
        )?;
        let mut protections = Vec::new();
        for limit in WaivableLimit::ALL {
            let by = match enforced(limit) {
                Some(features) if limit == WaivableLimit::Memory && !features.memory_peak => {
                    format!(
                        "{} (this kernel reports only the peak of the largest process)",
                        features.version
                    )
                }
                Some(features) => features.version.to_string(),
                None => limit.replacement().to_string(),
            };
            protections.push(ProtectionStatus::new(limit.name(), by));
        }
        let share = features.filter(|features| features.cpu_share);
        let by = match share {
            Some(features) => format!("{}, an equal share for each slot", features.version),
            None => "nothing: a task with more processes gets more (the cpu controller is not available, or not enabled \
                     for this group)"
                .to_string(),
        };
        protections.push(ProtectionStatus {
            missing: share.is_none(),
            ..ProtectionStatus::new("share of the processors", by)
        });
        Ok(protections)
    }

    /// Returns an error that names all missing limits that the operator has not waived.
    fn require_waived(&self, missing: &[WaivableLimit], why: &str) -> Result<(), EnforcementError> {
        let mut limits = missing.to_vec();
        limits.retain(|limit| !self.waived_limits.contains(limit));
        match limits.is_empty() {
            true => Ok(()),
            false => Err(EnforcementError::MissingLimits {
                limits,
                why: why.to_string(),
            }),
        }
    }

    /// The given isolation of these cells, with another root file system.
    pub fn isolation_in_root(
        &self,
        isolation: &CommandIsolation,
        root: &Path,
    ) -> Result<CommandIsolation, EnforcementError> {
        let in_root = SandboxOptions {
            root: Some(root.to_path_buf()),
            ..self.clone()
        };
        Ok(match isolation {
            CommandIsolation::None => CommandIsolation::None,
            CommandIsolation::Cell(settings) => CommandIsolation::Cell(Box::new(CellSettings {
                root_entries: in_root.root_entries()?,
                ..(**settings).clone()
            })),
        })
    }

    fn root_entries(&self) -> Result<Vec<RootEntry>, EnforcementError> {
        let entries = match &self.root {
            Some(folder) => RootEntry::of_folder(folder),
            None => RootEntry::of_host(),
        };
        let mut entries = entries.map_err(|source| EnforcementError::Root {
            path: self.root.clone().unwrap_or_else(|| "/".into()),
            source,
        })?;
        for (from, to) in &self.binds {
            check_bind(from, to, &entries).map_err(|why| EnforcementError::Bind {
                from: from.clone(),
                to: to.clone(),
                why,
            })?;
            entries.push(RootEntry::Bind {
                from: from.clone(),
                to: to.clone(),
            });
        }
        Ok(entries)
    }
}

/// The root is read-only once it is complete, so the mount point of a bind must already exist in it.
fn check_bind(from: &Path, to: &Path, entries: &[RootEntry]) -> Result<(), String> {
    let source = fs::metadata(from).map_err(|error| error.to_string())?;
    if RESERVED_NAMES
        .iter()
        .any(|own| to.starts_with(Path::new("/").join(own)))
    {
        return Err("every cell has its own folder there; choose another path in the cell".to_string());
    }
    // A later mount covers an earlier one.
    let covered_entry = entries
        .iter()
        .rev()
        .find(|entry| to.starts_with(entry.path_in_cell()));
    match covered_entry {
        Some(RootEntry::Symlink { at, target }) => Err(format!(
            "{at:?} is a symbolic link to {target:?} in the root of the cells; use the path of its target"
        )),
        Some(RootEntry::Bind { from, to: covered }) if to != covered => {
            let mount_point = from.join(to.strip_prefix(covered).unwrap_or(to));
            let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
            let mut folders = mount_point.ancestors().take_while(|path| path != from);
            if let Some(link) = folders.find(|path| is_link(path)) {
                return Err(format!("{link:?} is a symbolic link; use the path of its target"));
            }
            let kind = if source.is_dir() { "folder" } else { "file" };
            match fs::metadata(&mount_point).is_ok_and(|found| found.is_dir() == source.is_dir()) {
                true => Ok(()),
                false => Err(format!(
                    "there is no {kind} {mount_point:?} to mount it on; create one, or choose another path"
                )),
            }
        }
        _ => Ok(()),
    }
}

fn check_network(network: &NamedNetwork) -> Result<(), EnforcementError> {
    let NamedNetwork { name, namespace } = network;
    open_network(namespace)
        .map(drop)
        .map_err(|errno| EnforcementError::Network {
            name: name.clone(),
            namespace: namespace.clone(),
            why: match errno.0 {
                libc::EINVAL => "it is not a network namespace".to_string(),
                _ => errno.text().to_string(),
            },
        })
}

impl PreparedSandbox {
    /// Removes the control groups. No warden may be running.
    pub fn remove(self) -> Result<(), CgroupRootError> {
        let Self {
            cgroup_root, locks, ..
        } = self;
        let removed = cgroup_root.map_or(Ok(()), CgroupRoot::remove);
        drop(locks);
        removed
    }
}

/// The protections of every cell: if one of them fails, the cell is not created.
fn always_enforced() -> Vec<ProtectionStatus> {
    let landlock = match landlock_version() {
        Some(version) => format!("mounts, Landlock (version {version})"),
        None => "mounts (this kernel has no Landlock)".to_string(),
    };
    [
        ("files", landlock),
        (
            "network",
            format!("empty network namespace ('{LOOPBACK_NETWORK}' on request)"),
        ),
        ("visibility", "pid, ipc, uts and cgroup namespaces".to_string()),
        ("system calls", "seccomp".to_string()),
        ("privileges", "no capabilities, no new privileges".to_string()),
        ("space", "one tmpfs for each task".to_string()),
        ("file size, open files, stack, core dumps", "rlimit".to_string()),
        ("time on the clock, output", "the warden".to_string()),
    ]
    .map(|(protection, by)| ProtectionStatus::new(protection, by))
    .into()
}
