//! Finds where a cgroup hierarchy is mounted, and which of its groups contains this process.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// A cgroup hierarchy to look for on this machine: that of one v1 controller, or the single one of v2.
#[derive(Debug, Clone, Copy)]
pub(super) enum CgroupHierarchy {
    /// The hierarchy of version 1 that has this controller.
    V1Controller(&'static str),
    /// The single hierarchy of version 2.
    Unified,
}

/// Where a cgroup hierarchy is mounted on this machine, and the control group of this process in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HierarchyMount {
    pub(super) mount: PathBuf,
    /// The group that is visible at the mount point. In a container it is often not the top group.
    root: PathBuf,
    /// The directory of the group of this process.
    pub(super) own: PathBuf,
}

impl HierarchyMount {
    /// The directory of a group that is named as in `/proc/self/cgroup`.
    pub(super) fn directory(&self, group: &Path) -> Option<PathBuf> {
        resolve_group(&self.mount, &self.root, group)
    }
}

/// Finds a hierarchy in the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. `None` if it is not mounted, or
/// if the mount does not show the group of this process.
pub(super) fn find_hierarchy(
    mountinfo: &[u8],
    memberships: &[u8],
    hierarchy: CgroupHierarchy,
) -> Option<HierarchyMount> {
    let group = own_group(memberships, hierarchy)?;
    let mounts = mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(MountInfoLine::parse);
    mounts
        .filter(|mount| mount.is_mount_of(hierarchy))
        .find_map(|mount| {
            Some(HierarchyMount {
                own: resolve_group(&mount.mount_point, &mount.root, &group)?,
                mount: mount.mount_point,
                root: mount.root,
            })
        })
}

/// The kernel uses `..` to name groups outside of the visible part.
fn resolve_group(mount_point: &Path, root: &Path, group: &Path) -> Option<PathBuf> {
    let rest = group.strip_prefix(root).ok()?;
    if rest.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    Some(mount_point.join(rest).components().collect())
}

/// The fields of a line of `/proc/self/mountinfo` from which the mount of a cgroup hierarchy is recognized.
struct MountInfoLine<'a> {
    root: PathBuf,
    mount_point: PathBuf,
    kind: &'a [u8],
    options: &'a [u8],
}

impl<'a> MountInfoLine<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let root = decode_path(fields.nth(3)?);
        let mount_point = decode_path(fields.next()?);
        // Any number of optional fields may precede the dash.
        fields.find(|field| field == b"-")?;
        let kind = fields.next()?;
        let options = fields.nth(1)?;
        Some(Self {
            root,
            mount_point,
            kind,
            options,
        })
    }

    fn is_mount_of(&self, hierarchy: CgroupHierarchy) -> bool {
        match hierarchy {
            CgroupHierarchy::V1Controller(controller) => {
                self.kind == b"cgroup" && lists_controller(self.options, controller)
            }
            CgroupHierarchy::Unified => self.kind == b"cgroup2",
        }
    }
}

fn own_group(memberships: &[u8], hierarchy: CgroupHierarchy) -> Option<PathBuf> {
    memberships.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (_id, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match hierarchy {
            CgroupHierarchy::V1Controller(controller) => lists_controller(controllers, controller),
            CgroupHierarchy::Unified => controllers.is_empty(),
        };
        is_it.then(|| PathBuf::from(OsString::from_vec(group.to_vec())))
    })
}

fn lists_controller(list: &[u8], controller: &str) -> bool {
    list.split(|byte| *byte == b',')
        .any(|name| name == controller.as_bytes())
}

/// Decodes a path of mountinfo, in which a space and a few other characters are a backslash and three octal digits.
fn decode_path(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let parse_number = after
            .first_chunk::<3>()
            .filter(|_| *byte == b'\\')
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(parse_number.unwrap_or(*byte));
        rest = if parse_number.is_some() {
            &after[3..]
        } else {
            after
        };
    }
    Path::new(std::ffi::OsStr::from_bytes(&plain)).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mountinfo: &str, memberships: &str, hierarchy: CgroupHierarchy, expected: Option<(&str, &str)>) {
        let found = find_hierarchy(mountinfo.as_bytes(), memberships.as_bytes(), hierarchy);
        let found = found.map(|found| (found.mount, found.own));
        let expected = expected.map(|(mount, own)| (PathBuf::from(mount), PathBuf::from(own)));
        assert_eq!(found, expected, "{hierarchy:?}");
    }

    const MEMORY: CgroupHierarchy = CgroupHierarchy::V1Controller("memory");
    const CPUACCT: CgroupHierarchy = CgroupHierarchy::V1Controller("cpuacct");
    const PIDS: CgroupHierarchy = CgroupHierarchy::V1Controller("pids");

    #[test]
    fn version_1_is_found_beside_an_empty_version_2() {
        let mounts = "\
            22 1 0:20 / /proc rw,nosuid - proc proc rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/c:d\n";
        check(
            mounts,
            groups,
            MEMORY,
            Some(("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a/b")),
        );
        check(
            mounts,
            groups,
            CPUACCT,
            Some(("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct")),
        );
        check(mounts, groups, PIDS, None);
        check(
            mounts,
            groups,
            CgroupHierarchy::Unified,
            Some(("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/c:d")),
        );
    }

    #[test]
    fn version_2_is_found_without_version_1() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "0::/system.slice/conclave.service\n";
        let own = "/sys/fs/cgroup/system.slice/conclave.service";
        check(
            mounts,
            groups,
            CgroupHierarchy::Unified,
            Some(("/sys/fs/cgroup", own)),
        );
        check(mounts, groups, MEMORY, None);
    }

    #[test]
    fn a_mount_in_a_container_shows_only_a_part_of_the_hierarchy() {
        let mounts = "\
            30 23 0:26 /other /elsewhere rw - cgroup cgroup rw,memory\n\
            31 23 0:26 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let mount_point = "/sys/fs/cgroup/memory";
        let inside = "/sys/fs/cgroup/memory/job";
        check(
            mounts,
            "4:memory:/docker/1\n",
            MEMORY,
            Some((mount_point, mount_point)),
        );
        check(
            mounts,
            "4:memory:/docker/1/job\n",
            MEMORY,
            Some((mount_point, inside)),
        );
        check(mounts, "4:memory:/docker/12\n", MEMORY, None);
    }

    #[test]
    fn groups_outside_of_the_namespace_are_not_found() {
        let mounts = "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        check(mounts, "0::/\n", CgroupHierarchy::Unified, None);
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        check(mounts, "0::/../other\n", CgroupHierarchy::Unified, None);
    }

    #[test]
    fn malformed_lines_are_ignored_and_escapes_are_decoded() {
        let mounts = "\nx\n1 2 3 4\n30 23 0:26 / /a\\040b\\134c\\0 rw - cgroup2 none rw";
        check(
            mounts,
            "\nx\n0::/d",
            CgroupHierarchy::Unified,
            Some(("/a b\\c\\0", "/a b\\c\\0/d")),
        );
        check("", "0::/\n", CgroupHierarchy::Unified, None);
        check(mounts, "", CgroupHierarchy::Unified, None);
    }

    #[test]
    fn a_group_name_is_resolved_from_the_top_group() {
        let mounts = b"31 23 0:26 /docker/1 /cg rw - cgroup2 cgroup2 rw\n";
        let found = find_hierarchy(mounts, b"0::/docker/1/job\n", CgroupHierarchy::Unified).unwrap();
        assert_eq!(
            found.directory(Path::new("/docker/1/ours")),
            Some("/cg/ours".into())
        );
        assert_eq!(found.directory(Path::new("/docker/1")), Some("/cg".into()));
        assert_eq!(found.directory(Path::new("/ours")), None);
        assert_eq!(found.directory(Path::new("/docker/1/../2")), None);
        assert_eq!(found.directory(Path::new("ours")), None);
    }
}
