//! Where a hierarchy of groups is mounted, and where in it this process is.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

#[derive(Debug, Clone, Copy)]
pub(super) enum Hierarchy {
    /// That of version 1 which has this controller.
    With(&'static str),
    /// The only one of version 2.
    Unified,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) mount: PathBuf,
    /// The group that is seen at the mount: in a container often not the topmost.
    root: PathBuf,
    /// The directory of this process's group.
    pub(super) own: PathBuf,
}

impl Found {
    /// Where a group is that is named as in `/proc/self/cgroup`.
    pub(super) fn directory(&self, group: &Path) -> Option<PathBuf> {
        beneath(&self.mount, &self.root, group)
    }
}

/// From the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. None where it is not mounted, or where
/// what is mounted does not show our own group.
pub(super) fn find(mountinfo: &[u8], memberships: &[u8], hierarchy: Hierarchy) -> Option<Found> {
    let group = own_group(memberships, hierarchy)?;
    let mounts = mountinfo.split(|byte| *byte == b'\n').filter_map(Mount::parse);
    mounts.filter(|mount| mount.shows(hierarchy)).find_map(|mount| {
        Some(Found {
            own: beneath(&mount.point, &mount.root, &group)?,
            mount: mount.point,
            root: mount.root,
        })
    })
}

/// The kernel names groups outside of our view by way of `..`.
fn beneath(point: &Path, root: &Path, group: &Path) -> Option<PathBuf> {
    let rest = group.strip_prefix(root).ok()?;
    if rest.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    Some(point.join(rest).components().collect())
}

struct Mount<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a [u8],
    options: &'a [u8],
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let root = path(fields.nth(3)?);
        let point = path(fields.next()?);
        // Between the mount's options and a dash there may be any number of fields.
        fields.find(|field| field == b"-")?;
        let kind = fields.next()?;
        let options = fields.nth(1)?;
        Some(Self {
            root,
            point,
            kind,
            options,
        })
    }

    fn shows(&self, hierarchy: Hierarchy) -> bool {
        match hierarchy {
            Hierarchy::With(controller) => self.kind == b"cgroup" && names(self.options, controller),
            Hierarchy::Unified => self.kind == b"cgroup2",
        }
    }
}

fn own_group(memberships: &[u8], hierarchy: Hierarchy) -> Option<PathBuf> {
    memberships.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (_id, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match hierarchy {
            Hierarchy::With(controller) => names(controllers, controller),
            Hierarchy::Unified => controllers.is_empty(),
        };
        is_it.then(|| PathBuf::from(OsString::from_vec(group.to_vec())))
    })
}

fn names(list: &[u8], controller: &str) -> bool {
    list.split(|byte| *byte == b',')
        .any(|name| name == controller.as_bytes())
}

/// In mountinfo, a blank is written as a backslash and its number in three octal digits, and so are a few others.
fn path(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let number = after
            .first_chunk::<3>()
            .filter(|_| *byte == b'\\')
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(number.unwrap_or(*byte));
        rest = if number.is_some() { &after[3..] } else { after };
    }
    Path::new(std::ffi::OsStr::from_bytes(&plain)).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mountinfo: &str, memberships: &str, hierarchy: Hierarchy, expected: Option<(&str, &str)>) {
        let found = find(mountinfo.as_bytes(), memberships.as_bytes(), hierarchy);
        let found = found.map(|found| (found.mount, found.own));
        let expected = expected.map(|(mount, own)| (PathBuf::from(mount), PathBuf::from(own)));
        assert_eq!(found, expected, "{hierarchy:?}");
    }

    const MEMORY: Hierarchy = Hierarchy::With("memory");
    const CPUACCT: Hierarchy = Hierarchy::With("cpuacct");
    const PIDS: Hierarchy = Hierarchy::With("pids");

    #[test]
    fn version_1_beside_an_empty_version_2() {
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
            Hierarchy::Unified,
            Some(("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/c:d")),
        );
    }

    #[test]
    fn version_2_alone() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "0::/system.slice/conclave.service\n";
        let own = "/sys/fs/cgroup/system.slice/conclave.service";
        check(mounts, groups, Hierarchy::Unified, Some(("/sys/fs/cgroup", own)));
        check(mounts, groups, MEMORY, None);
    }

    #[test]
    fn the_mount_of_a_container_shows_a_part() {
        let mounts = "\
            30 23 0:26 /other /elsewhere rw - cgroup cgroup rw,memory\n\
            31 23 0:26 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let point = "/sys/fs/cgroup/memory";
        let inside = "/sys/fs/cgroup/memory/job";
        check(mounts, "4:memory:/docker/1\n", MEMORY, Some((point, point)));
        check(mounts, "4:memory:/docker/1/job\n", MEMORY, Some((point, inside)));
        check(mounts, "4:memory:/docker/12\n", MEMORY, None);
    }

    #[test]
    fn what_lies_outside_of_the_namespace_is_not_shown() {
        let mounts = "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        check(mounts, "0::/\n", Hierarchy::Unified, None);
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        check(mounts, "0::/../other\n", Hierarchy::Unified, None);
    }

    #[test]
    fn odd_texts() {
        let mounts = "\nx\n1 2 3 4\n30 23 0:26 / /a\\040b\\134c\\0 rw - cgroup2 none rw";
        check(
            mounts,
            "\nx\n0::/d",
            Hierarchy::Unified,
            Some(("/a b\\c\\0", "/a b\\c\\0/d")),
        );
        check("", "0::/\n", Hierarchy::Unified, None);
        check(mounts, "", Hierarchy::Unified, None);
    }

    #[test]
    fn groups_are_named_from_the_top() {
        let mounts = b"31 23 0:26 /docker/1 /cg rw - cgroup2 cgroup2 rw\n";
        let found = find(mounts, b"0::/docker/1/job\n", Hierarchy::Unified).unwrap();
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
