//! The warden's descendants, as `/proc` shows them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

mod memory;
mod stat;

pub(super) use stat::Stat;

/// One look takes in no more than this.
const MOST: usize = 20_000;

/// Reads the process table.
#[derive(Debug)]
pub(super) struct Table {
    root: PathBuf,
    warden: i32,
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Each thread has a file that lists its children: reading costs in proportion to the tree.
    Children,
    /// Kernels built without those files (CONFIG_PROC_CHILDREN): the parent is looked up for every process of
    /// the machine.
    Parents,
}

impl Table {
    /// `root` is `/proc`, but for tests.
    pub(super) fn new(root: impl Into<PathBuf>, warden: i32) -> io::Result<Self> {
        let root = root.into();
        let mut table = Self {
            root,
            warden,
            source: Source::Parents,
        };
        table.stat(warden)?;
        if table
            .root
            .join(format!("{warden}/task/{warden}/children"))
            .exists()
        {
            table.source = Source::Children;
        }
        Ok(table)
    }

    /// All descendants of the warden, in no order. A look at moving things: one that was born or adopted
    /// meanwhile may be missing, so whoever must not miss one looks until nothing new turns up.
    pub(super) fn descendants(&mut self) -> io::Result<Vec<i32>> {
        match self.source {
            Source::Children => Ok(self.by_children()),
            Source::Parents => Ok(self.by_parents()?.into_iter().map(|(pid, _)| pid).collect()),
        }
    }

    /// The warden's own children: those it started, and those that came to it when their parents ended.
    pub(super) fn children(&self) -> io::Result<Vec<i32>> {
        match self.source {
            Source::Children => Ok(self.children_of(self.warden)),
            Source::Parents => {
                let found = self.by_parents()?.into_iter();
                Ok(found
                    .filter(|(_, stat)| stat.parent == self.warden)
                    .map(|(pid, _)| pid)
                    .collect())
            }
        }
    }

    /// The descendants with their figures. Those that vanished in between are left out. So may be the rest, where more
    /// threads than `most` were found: a bomb grows for as long as it is looked at.
    pub(super) fn stats(&mut self, most: Option<u32>) -> io::Result<Vec<(i32, Stat)>> {
        if self.source == Source::Parents {
            return self.by_parents();
        }
        let mut stats = Vec::new();
        let mut threads = 0;
        self.walk(|pid| {
            if let Ok(stat) = self.stat(pid) {
                threads += stat.alive();
                stats.push((pid, stat));
            }
            most.is_none_or(|most| threads <= most)
        });
        Ok(stats)
    }

    fn by_children(&self) -> Vec<i32> {
        let mut found = Vec::new();
        self.walk(|pid| {
            found.push(pid);
            true
        });
        found
    }

    /// Each descendant, parents before their children, for as long as the visitor wants more.
    fn walk(&self, mut visit: impl FnMut(i32) -> bool) {
        let mut found = self.children_of(self.warden);
        let mut looked_at = 0;
        while let Some(pid) = found.get(looked_at).copied() {
            if !visit(pid) {
                return;
            }
            // They may multiply faster than they are looked at; this many are more than anyone may have.
            if found.len() < MOST {
                found.extend(self.children_of(pid));
            }
            looked_at += 1;
        }
    }

    fn children_of(&self, pid: i32) -> Vec<i32> {
        // A process that has ended meanwhile has no threads left to read, and its children are elsewhere.
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

    fn by_parents(&self) -> io::Result<Vec<(i32, Stat)>> {
        let mut children: HashMap<i32, Vec<(i32, Stat)>> = HashMap::new();
        for entry in fs::read_dir(&self.root)? {
            if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok())
                && let Ok(stat) = self.stat(pid)
            {
                children.entry(stat.parent).or_default().push((pid, stat));
            }
        }
        let mut found = children.remove(&self.warden).unwrap_or_default();
        let mut looked_at = 0;
        while let Some((pid, _)) = found.get(looked_at) {
            found.extend(children.remove(pid).unwrap_or_default());
            looked_at += 1;
        }
        Ok(found)
    }

    fn stat(&self, pid: i32) -> io::Result<Stat> {
        // Longer than any such line: two dozen numbers matter, and the name has at most 64 bytes.
        let mut line = [0; 1024];
        let length = File::open(self.root.join(format!("{pid}/stat")))?.read(&mut line)?;
        Stat::parse(&line[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests;
