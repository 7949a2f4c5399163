//! Checks that tasks left no process, file or result with an executor.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait_until;

/// Long, because killed processes take a while to end on a busy machine.
const GONE: Duration = Duration::from_secs(20);

/// Finds the processes, files and spooled results that tasks have left with one executor under test.
pub struct TaskLeftovers {
    /// The data folder of the executor's node.
    data: PathBuf,
}

impl TaskLeftovers {
    pub(crate) fn of(data: &Path) -> TaskLeftovers {
        TaskLeftovers {
            data: data.to_path_buf(),
        }
    }

    /// The executor's journal of results that no judicator has acknowledged.
    pub fn spool(&self) -> PathBuf {
        self.data.join("executor/spool")
    }

    /// Waits until there is no process, no file and no spooled result of any task. The node may be running.
    pub async fn wait_until_clean(&self) {
        let mut left = Vec::new();
        let what = format!("nothing to be left of tasks below {}", self.data.display());
        wait_until(&what, GONE, async || {
            let found = self.list();
            if found != left {
                left = found;
                report(&left);
            }
            left.is_empty().then_some(())
        })
        .await;
    }

    /// As `wait_until_clean`, for a node that has ended: also no warden.
    pub async fn wait_until_unused(&self) {
        self.wait_until_clean().await;
        let what = format!("no process to use {}", self.data.display());
        wait_until(&what, GONE, async || self.users().is_empty().then_some(())).await;
    }

    fn list(&self) -> Vec<String> {
        let mut left = self.processes();
        left.extend(self.files());
        let spooled = fs::metadata(self.spool()).map_or(0, |file| file.len());
        if spooled > 0 {
            left.push(format!("{spooled} bytes of results"));
        }
        left
    }

    /// Files of tasks in the slots' workspaces.
    fn files(&self) -> Vec<String> {
        let list = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files = Vec::new();
        for workspace in list(self.data.join("executor/work")) {
            for entry in list(workspace.path()) {
                match entry.file_name().to_str() {
                    Some("box" | "tmp") => files.extend(list(entry.path()).map(|file| file.path())),
                    // The executor's own note of the last attempt.
                    Some("attempt") => {}
                    _ => files.push(entry.path()),
                }
            }
        }
        files
            .iter()
            .map(|path| format!("file {}", path.display()))
            .collect()
    }

    /// Processes with the executor's mark in their environment, or with a working directory in its folder.
    pub fn processes(&self) -> Vec<String> {
        let Ok(id) = fs::read_to_string(self.data.join("executor/id")) else {
            return Vec::new();
        };
        let mark = format!("CONCLAVE_EXECUTOR={}", id.trim());
        let is_marked = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        let works_here =
            |process: &Path| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.data));
        describe(|process| is_marked(process) || works_here(process))
    }

    /// Processes that have a file in the data folder open, such as wardens, which hold the lock.
    fn users(&self) -> Vec<String> {
        describe(|process| {
            let files = fs::read_dir(process.join("fd"));
            files
                .into_iter()
                .flatten()
                .flatten()
                .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.starts_with(&self.data)))
        })
    }
}

/// The pid and command line of each process that satisfies the condition.
fn describe(matches: impl Fn(&Path) -> bool) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let numbered = processes.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.parse::<i32>().is_ok())
    });
    numbered
        .map(|entry| entry.path())
        .filter(|process| matches(process))
        .map(|process| {
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            format!("{}: {command}", process.display())
        })
        .collect()
}

#[allow(clippy::print_stdout, reason = "a test that waits in vain shows for what")]
fn report(left: &[String]) {
    left.iter().for_each(|what| println!("still there: {what}"));
}
