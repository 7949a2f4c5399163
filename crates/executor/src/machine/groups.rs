//! The control groups that this process is in, as a container or a unit has them: their limits, and how much of them is
//! left. Version 1 and version 2.

use std::fs;
use std::path::{Path, PathBuf};

use super::number;

/// Version 1 has this number, or one near it, where there is no limit.
const NO_LIMIT: u64 = 1 << 62;

/// Its own group first, then those above it. Where they are is found once; what they say is read at each look.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    memory: Vec<MemoryGroup>,
    /// Files with the most processes and threads that a group may have.
    processes: Vec<PathBuf>,
}

#[derive(Debug)]
struct MemoryGroup {
    folder: PathBuf,
    names: &'static MemoryNames,
}

/// How a version calls them.
#[derive(Debug)]
struct MemoryNames {
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat`, with all groups beneath: what the kernel takes back before it kills for want of memory.
    reclaimable: &'static [&'static str],
}

const V1: MemoryNames = MemoryNames {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};
const V2: MemoryNames = MemoryNames {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
};

impl Groups {
    /// `mounts` is where the file systems of control groups are, usually `/sys/fs/cgroup`.
    pub(crate) fn find(proc: &Path, mounts: &Path) -> Groups {
        let mut groups = Groups::default();
        let told = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        for line in told.lines() {
            // `0::/a/b` or `4:memory:/a/b`.
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let has = |name: &str| controllers.split(',').any(|controller| controller == name);
            if controllers.is_empty() {
                groups.add_memory(mounts, path, &V2);
                groups.add_processes(mounts, path);
            }
            if has("memory") {
                groups.add_memory(&mounts.join("memory"), path, &V1);
            }
            if has("pids") {
                groups.add_processes(&mounts.join("pids"), path);
            }
        }
        groups
    }

    fn add_memory(&mut self, root: &Path, path: &str, names: &'static MemoryNames) {
        let found = with_ancestors(root, path).filter(|folder| folder.join(names.limit).exists());
        self.memory
            .extend(found.map(|folder| MemoryGroup { folder, names }));
    }

    fn add_processes(&mut self, root: &Path, path: &str) {
        let files = with_ancestors(root, path).map(|folder| folder.join("pids.max"));
        self.processes.extend(files.filter(|file| file.exists()));
    }

    /// Bytes of memory that this process and all others in the smallest group can have.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        self.memory.iter().filter_map(MemoryGroup::limit).min()
    }

    pub(crate) fn process_limit(&self) -> Option<u64> {
        self.processes.iter().filter_map(|file| number(file)).min()
    }

    /// Bytes that could be used before a limit is reached. None where there is no limit.
    pub(crate) fn available_memory(&self) -> Option<u64> {
        self.memory.iter().filter_map(MemoryGroup::available).min()
    }
}

impl MemoryGroup {
    fn limit(&self) -> Option<u64> {
        number(&self.folder.join(self.names.limit)).filter(|limit| *limit < NO_LIMIT)
    }

    /// The cache of files counts as available, as it does in the machine's own `MemAvailable`: an idle group may be full
    /// of it.
    fn available(&self) -> Option<u64> {
        let limit = self.limit()?;
        let usage = number(&self.folder.join(self.names.usage))?;
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

/// In a container the path may be that of the host, and the root that of the container: then only the root is there.
fn with_ancestors<'a>(root: &'a Path, path: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let groups = Path::new(path).ancestors();
    groups.filter_map(move |group| Some(root.join(group.strip_prefix("/").ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A tree of files as the kernel shows it.
    struct FakeKernel(tempfile::TempDir);

    impl FakeKernel {
        fn new(own_groups: &str) -> FakeKernel {
            let kernel = FakeKernel(tempfile::tempdir().unwrap());
            kernel.write("proc/self/cgroup", own_groups);
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

        fn groups(&self) -> Groups {
            Groups::find(&self.0.path().join("proc"), &self.0.path().join("sys"))
        }
    }

    #[test]
    fn a_unit_with_a_limit_has_what_that_leaves() {
        let kernel = FakeKernel::new("0::/system.slice/conclave.service/main\n");
        assert_eq!(kernel.groups().available_memory(), None, "there is no such group");
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
        let groups = kernel.groups();
        assert_eq!(groups.memory_limit(), Some(1000 * MIB));
        assert_eq!(groups.available_memory(), Some(223 * MIB));
        assert_eq!(groups.process_limit(), Some(4915));
        // It is read at each look, and a limit may come later.
        kernel.v2("system.slice/conclave.service", "max", 900 * MIB, "");
        assert_eq!(groups.available_memory(), None);
        kernel.v2("system.slice", &(9001 * MIB).to_string(), 9000 * MIB, "");
        assert_eq!(groups.available_memory(), Some(MIB));
        kernel.v2("system.slice", &MIB.to_string(), 2 * MIB, "");
        assert_eq!(groups.available_memory(), Some(0));
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
        let groups = kernel.groups();
        assert_eq!(groups.memory_limit(), Some(500 * MIB));
        assert_eq!(groups.available_memory(), Some(150 * MIB));
        assert_eq!(groups.process_limit(), Some(300));
    }

    /// The root of what is mounted there is then the container's own group.
    #[test]
    fn a_container_finds_its_own_group_at_the_root() {
        for own_groups in ["0::/\n", "0::/docker/0123\n", "0::/../other\n"] {
            let kernel = FakeKernel::new(own_groups);
            kernel.v2("", &(64 * MIB).to_string(), 60 * MIB, "");
            kernel.write("sys/pids.max", "100\n");
            let groups = kernel.groups();
            assert_eq!(groups.available_memory(), Some(4 * MIB), "{own_groups}");
            assert_eq!(groups.process_limit(), Some(100), "{own_groups}");
        }
    }

    #[test]
    fn without_control_groups_there_is_no_limit() {
        let groups = FakeKernel::new("").groups();
        assert_eq!(groups.available_memory(), None);
        assert_eq!((groups.memory_limit(), groups.process_limit()), (None, None));
    }
}
