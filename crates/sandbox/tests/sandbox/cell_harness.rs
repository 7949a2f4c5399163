//! The fixture of tests with cells.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use sandbox::cgroup::CgroupRoot;
use sandbox::{
    CellSettings, CommandIsolation, CommandOutcome, CommandSpec, DefaultCommandLimits, FileAllocation,
    RootEntry, WORKSPACE, Warden, WardenLauncher,
};

use super::harness::{launcher, run_in};

/// The fixture of the cell tests: a warden with cells and its own cgroup root, which is removed on drop.
pub(crate) struct CellHarness {
    warden: Option<Warden>,
    pub(crate) cgroup_root: Option<CgroupRoot>,
}

impl CellHarness {
    pub(crate) fn new() -> Self {
        Self::with_launcher(launcher())
    }

    /// A warden that differs from that of the launcher in its isolation.
    pub(crate) fn with_launcher(launcher: WardenLauncher) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("conclave-test-{}-{number}", std::process::id());
        let cgroup_root = CgroupRoot::prepare(&name, None).unwrap();
        let settings = CellSettings {
            root_entries: RootEntry::of_host().unwrap(),
            user: 1_900_000_000,
            subordinate_ids: None,
            max_open_files: None,
            group: Some((cgroup_root.clone(), "slot".into())),
            default_limits: DefaultCommandLimits::default(),
            space: 64 << 20,
            max_files: 10_000,
            networks: Vec::new(),
        };
        let launcher = WardenLauncher {
            isolation: CommandIsolation::Cell(Box::new(settings)),
            ..launcher
        };
        Self {
            warden: Some(launcher.start().unwrap()),
            cgroup_root: Some(cgroup_root),
        }
    }

    pub(crate) fn warden(&mut self) -> &mut Warden {
        self.warden.as_mut().unwrap()
    }

    pub(crate) fn run(&mut self, spec: &CommandSpec) -> CommandOutcome {
        let spec = CommandSpec {
            directory: WORKSPACE.into(),
            ..spec.clone()
        };
        run_in(self.warden(), &spec)
    }

    /// The task's folder.
    pub(crate) fn task_folder(&mut self) -> PathBuf {
        self.warden().task_folder().unwrap()
    }

    /// Creates a file of the task, empty but allocated.
    pub(crate) fn allocate_file(&mut self, bytes: u64) {
        let path = PathBuf::from("box/brought");
        fs::write(self.task_folder().join(&path), "").unwrap();
        self.warden().set_task_space(bytes + (1 << 20)).unwrap();
        self.warden()
            .allocate_files(vec![FileAllocation { path, bytes }])
            .unwrap();
    }

    /// Limits the group above those of all cells, which stands for the machine: above this its memory runs out.
    pub(crate) fn limit_machine(&self, bytes: u64) {
        let files = ["memory.limit_in_bytes", "memory.max"];
        let directories = self.cgroup_root.as_ref().unwrap().paths();
        let mut limits = directories.flat_map(|directory| files.map(|file| directory.join(file)));
        let limit = limits.find(|path| path.exists()).expect("a limit of memory");
        fs::write(limit, bytes.to_string()).unwrap();
    }
}

impl Drop for CellHarness {
    fn drop(&mut self) {
        drop(self.warden.take());
        if let Some(cgroup_root) = self.cgroup_root.take() {
            cgroup_root.remove().unwrap();
        }
    }
}
