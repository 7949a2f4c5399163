//! The control groups that this process is in (for example of a container or a systemd unit): their limits, and what is
//! left of them. Supports cgroup v1 and v2.

use std::fs;
use std::path::{Path, PathBuf};

use super::read_number;

/// In cgroup v1 a limit of about this value or more means unlimited.
const NO_LIMIT: u64 = 1 << 62;

/// The cgroup of the executor process and its ancestors, whose limits and usage the executor reads. They are found
/// once; their values are read on each call.
#[derive(Debug, Default)]
pub(crate) struct OwnCgroups {
    memory: Vec<MemoryCgroup>,
    /// The `pids.max` files.
    processes: Vec<PathBuf>,
}

/// A cgroup of the executor process, or an ancestor of it, that has the memory controller.
#[derive(Debug)]
struct MemoryCgroup {
    folder: PathBuf,
    names: &'static MemoryFileNames,
}

/// The names of the files with limit, usage and reclaimable memory in one version of cgroups (v1 or v2).
#[derive(Debug)]
struct MemoryFileNames {
    limit: &'static str,
    usage: &'static str,
    /// The lines of `memory.stat` with memory that the kernel reclaims before it invokes the OOM killer.
    reclaimable: &'static [&'static str],
}

const V1: MemoryFileNames = MemoryFileNames {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};
const V2: MemoryFileNames = MemoryFileNames {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
};

impl OwnCgroups {
    /// `mounts` is the mount point of the cgroup file systems, usually `/sys/fs/cgroup`.
    pub(crate) fn find(proc: &Path, mounts: &Path) -> OwnCgroups {
        let mut cgroups = OwnCgroups::default();
        let own_cgroup_lines = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        for line in own_cgroup_lines.lines() {
            // `0::/a/b` or `4:memory:/a/b`.
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let has = |name: &str| controllers.split(',').any(|controller| controller == name);
            if controllers.is_empty() {
                cgroups.add_memory(mounts, path, &V2);
                cgroups.add_processes(mounts, path);
            }
            if has("memory") {
                cgroups.add_memory(&mounts.join("memory"), path, &V1);
            }
            if has("pids") {
                cgroups.add_processes(&mounts.join("pids"), path);
            }
        }
        cgroups
    }

    fn add_memory(&mut self, root: &Path, path: &str, names: &'static MemoryFileNames) {
        let found = with_ancestors(root, path).filter(|folder| folder.join(names.limit).exists());
        self.memory
            .extend(found.map(|folder| MemoryCgroup { folder, names }));
    }

    fn add_processes(&mut self, root: &Path, path: &str) {
        let files = with_ancestors(root, path).map(|folder| folder.join("pids.max"));
        self.processes.extend(files.filter(|file| file.exists()));
    }

    /// The smallest memory limit in bytes; `None` if there is no limit.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        self.memory.iter().filter_map(MemoryCgroup::limit).min()
    }

    pub(crate) fn process_limit(&self) -> Option<u64> {
        self.processes.iter().filter_map(|file| read_number(file)).min()
    }

    /// The bytes that can be used before a limit is reached; `None` if there is no limit.
    pub(crate) fn available_memory(&self) -> Option<u64> {
        self.memory.iter().filter_map(MemoryCgroup::available).min()
    }
}

impl MemoryCgroup {
    fn limit(&self) -> Option<u64> {
        read_number(&self.folder.join(self.names.limit)).filter(|limit| *limit < NO_LIMIT)
    }

    /// The page cache counts as available, as it does in `MemAvailable`: it can fill the cgroup of an idle service.
    fn available(&self) -> Option<u64> {
        let limit = self.limit()?;
        let usage = read_number(&self.folder.join(self.names.usage))?;
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let reclaimable = |line: &str| {
            let (name, bytes) = line.split_once(' ')?;
            let is_reclaimable = self.names.reclaimable.contains(&name);
            bytes.trim().parse::<u64>().ok().filter(|_| is_reclaimable)
        };
        let reclaimable: u64 = stat.lines().filter_map(reclaimable).sum();
        Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
    }
}

/// The folder of a cgroup and of its ancestors. In a container the path can be that of the host; then only the root exists.
fn with_ancestors<'a>(root: &'a Path, path: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let cgroups = Path::new(path).ancestors();
    cgroups.filter_map(move |group| Some(root.join(group.strip_prefix("/").ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A temporary folder with the `/proc` and cgroup files of a kernel, for tests of [`OwnCgroups`].
    struct FakeKernel(tempfile::TempDir);

    impl FakeKernel {
        fn new(own_cgroups: &str) -> FakeKernel {
            let kernel = FakeKernel(tempfile::tempdir().unwrap());
            kernel.write("proc/self/cgroup", own_cgroups);
            kernel
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn v2(&self, group: &str, limit: &str, usage: u64, stat: &str) {
            self.write(&format!("sys/{group}/memory.max"), &format!("{limit}\n"));
            self.write(&format!("sys/{group}/memory.current"), &format!("{usage}\n"));
            self.write(&format!("sys/{group}/memory.stat"), stat);
        }

        fn v1(&self, group: &str, limit: u64, usage: u64, stat: &str) {
            let group = format!("sys/memory/{group}");
            self.write(&format!("{group}/memory.limit_in_bytes"), &format!("{limit}\n"));
            self.write(&format!("{group}/memory.usage_in_bytes"), &format!("{usage}\n"));
            self.write(&format!("{group}/memory.stat"), stat);
        }

        fn cgroups(&self) -> OwnCgroups {
            OwnCgroups::find(&self.0.path().join("proc"), &self.0.path().join("sys"))
        }
    }

    #[test]
    fn available_memory_is_the_limit_of_the_unit_minus_its_usage() {
        let kernel = FakeKernel::new("0::/system.slice/conclave.service/main\n");
        assert_eq!(
            kernel.cgroups().available_memory(),
            None,
            "the group does not exist"
        );
        let cache = format!(
            "anon 1\nfile 999\ninactive_file {}\nactive_file {}\nslab_reclaimable {}\n",
            100 * MIB,
            20 * MIB,
            3 * MIB
        );
        kernel.v2("system.slice", "max", 9000 * MIB, "");
        kernel.v2(
            "system.slice/conclave.service",
            &(1000 * MIB).to_string(),
            900 * MIB,
            &cache,
        );
        kernel.v2("system.slice/conclave.service/main", "max", 10 * MIB, "");
        kernel.write("sys/system.slice/conclave.service/pids.max", "4915\n");
        kernel.write("sys/system.slice/conclave.service/main/pids.max", "max\n");
        let cgroups = kernel.cgroups();
        assert_eq!(cgroups.memory_limit(), Some(1000 * MIB));
        assert_eq!(cgroups.available_memory(), Some(223 * MIB));
        assert_eq!(cgroups.process_limit(), Some(4915));
        // Values are read on each call, so a later limit counts.
        kernel.v2("system.slice/conclave.service", "max", 900 * MIB, "");
        assert_eq!(cgroups.available_memory(), None);
        kernel.v2("system.slice", &(9001 * MIB).to_string(), 9000 * MIB, "");
        assert_eq!(cgroups.available_memory(), Some(MIB));
        kernel.v2("system.slice", &MIB.to_string(), 2 * MIB, "");
        assert_eq!(cgroups.available_memory(), Some(0));
    }

    #[test]
    fn groups_of_version_1_are_found_by_their_controllers() {
        let kernel = FakeKernel::new("4:memory:/a/b\n3:cpu,pids:/c\n2:devices:/d\n0::/e\n");
        let no_limit = 0x7fff_ffff_ffff_f000;
        kernel.v1("", no_limit, 7000 * MIB, "");
        let stat = format!("cache 5\ninactive_file 7\ntotal_inactive_file {}\n", 50 * MIB);
        kernel.v1("a", 500 * MIB, 400 * MIB, &stat);
        kernel.v1("a/b", no_limit, 400 * MIB, "");
        kernel.write("sys/pids/c/pids.max", "max\n");
        kernel.write("sys/pids/pids.max", "300\n");
        let cgroups = kernel.cgroups();
        assert_eq!(cgroups.memory_limit(), Some(500 * MIB));
        assert_eq!(cgroups.available_memory(), Some(150 * MIB));
        assert_eq!(cgroups.process_limit(), Some(300));
    }

    /// In a container the root of the mount is the cgroup of the container.
    #[test]
    fn a_container_finds_its_own_group_at_the_root() {
        for own_cgroups in ["0::/\n", "0::/docker/0123\n", "0::/../other\n"] {
            let kernel = FakeKernel::new(own_cgroups);
            kernel.v2("", &(64 * MIB).to_string(), 60 * MIB, "");
            kernel.write("sys/pids.max", "100\n");
            let cgroups = kernel.cgroups();
            assert_eq!(cgroups.available_memory(), Some(4 * MIB), "{own_cgroups}");
            assert_eq!(cgroups.process_limit(), Some(100), "{own_cgroups}");
        }
    }

    #[test]
    fn without_control_groups_there_is_no_limit() {
        let cgroups = FakeKernel::new("").cgroups();
        assert_eq!(cgroups.available_memory(), None);
        assert_eq!((cgroups.memory_limit(), cgroups.process_limit()), (None, None));
    }
}
