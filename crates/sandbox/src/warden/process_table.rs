//! The warden's descendants, as `/proc` shows them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

mod memory;
mod stat;

pub(super) use stat::ProcessStat;

/// One scan lists at most this many processes.
const MAX_PROCESSES: usize = 20_000;

/// Reads the warden's descendants from `/proc`, to measure and kill the process tree of a command without a cell.
#[derive(Debug)]
pub(super) struct ProcessTable {
    root: PathBuf,
    warden: i32,
    source: DescendantSource,
}

/// Which files of `/proc` the warden reads to find its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescendantSource {
    /// From the file of each thread that lists its children. The cost is proportional to the number of descendants.
    ChildrenFiles,
    /// From the parent of every process of the machine, on kernels without those files (CONFIG_PROC_CHILDREN).
    ParentFields,
}

impl ProcessTable {
    /// `root` is `/proc`, except in tests.
    pub(super) fn new(root: impl Into<PathBuf>, warden: i32) -> io::Result<Self> {
        let root = root.into();
        let mut table = Self {
            root,
            warden,
            source: DescendantSource::ParentFields,
        };
        table.stat(warden)?;
        if table
            .root
            .join(format!("{warden}/task/{warden}/children"))
            .exists()
        {
            table.source = DescendantSource::ChildrenFiles;
        }
        Ok(table)
    }

    /// All descendants of the warden, in no order. A process that starts or is adopted during the scan may be
    /// missing, so a caller that needs all of them scans until it finds no new ones.
    pub(super) fn descendants(&mut self) -> io::Result<Vec<i32>> {
        match self.source {
            DescendantSource::ChildrenFiles => Ok(self.descendants_by_children()),
            DescendantSource::ParentFields => Ok(self
                .descendants_by_parents()?
                .into_iter()
                .map(|(pid, _)| pid)
                .collect()),
        }
    }

    /// The warden's own children: processes that it started, and orphans that it adopted.
    pub(super) fn children(&self) -> io::Result<Vec<i32>> {
        match self.source {
            DescendantSource::ChildrenFiles => Ok(self.children_of(self.warden)),
            DescendantSource::ParentFields => {
                let found = self.descendants_by_parents()?.into_iter();
                Ok(found
                    .filter(|(_, stat)| stat.parent == self.warden)
                    .map(|(pid, _)| pid)
                    .collect())
            }
        }
    }

    /// The descendants with their measurements. Processes that end during the scan are left out. The scan may stop
    /// once it has found more than `most` threads, because a fork bomb grows while it is scanned.
    pub(super) fn stats(&mut self, most: Option<u32>) -> io::Result<Vec<(i32, ProcessStat)>> {
        if self.source == DescendantSource::ParentFields {
            return self.descendants_by_parents();
        }
        let mut stats = Vec::new();
        let mut threads = 0;
        self.walk(|pid| {
            if let Ok(stat) = self.stat(pid) {
                threads += stat.live_threads();
                stats.push((pid, stat));
            }
            most.is_none_or(|most| threads <= most)
        });
        Ok(stats)
    }

    fn descendants_by_children(&self) -> Vec<i32> {
        let mut found = Vec::new();
        self.walk(|pid| {
            found.push(pid);
            true
        });
        found
    }

    /// Visits each descendant, parents before their children, until the visitor returns false.
    fn walk(&self, mut visit: impl FnMut(i32) -> bool) {
        let mut found = self.children_of(self.warden);
        let mut visited = 0;
        while let Some(pid) = found.get(visited).copied() {
            if !visit(pid) {
                return;
            }
            // Processes may be started faster than they are visited. No command may have this many.
            if found.len() < MAX_PROCESSES {
                found.extend(self.children_of(pid));
            }
            visited += 1;
        }
    }

    fn children_of(&self, pid: i32) -> Vec<i32> {
        // A process that has just ended has no threads to read, and its children were adopted.
        let threads = fs::read_dir(self.root.join(format!("{pid}/task")))
            .into_iter()
            .flatten();
        let mut found = Vec::new();
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|child| child.parse::<i32>().ok()),
            );
        }
        found
    }

    fn descendants_by_parents(&self) -> io::Result<Vec<(i32, ProcessStat)>> {
        let mut children: HashMap<i32, Vec<(i32, ProcessStat)>> = HashMap::new();
        for entry in fs::read_dir(&self.root)? {
            if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
                && let Ok(stat) = self.stat(pid)
            {
                children.entry(stat.parent).or_default().push((pid, stat));
            }
        }
        let mut found = children.remove(&self.warden).unwrap_or_default();
        let mut visited = 0;
        while let Some((pid, _)) = found.get(visited) {
            found.extend(children.remove(pid).unwrap_or_default());
            visited += 1;
        }
        Ok(found)
    }

    fn stat(&self, pid: i32) -> io::Result<ProcessStat> {
        // Longer than any such line: about two dozen numbers matter, and the name has at most 64 bytes.
        let mut line = [0; 1024];
        let length = File::open(self.root.join(format!("{pid}/stat")))?.read(&mut line)?;
        ProcessStat::parse(&line[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests;
