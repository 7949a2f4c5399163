//! What tasks really did, written by themselves: each run leaves a line when it begins and one when it ends.
//!
//! The file lies outside of every workspace, so that it outlives the tasks. A run that was killed has no end; it
//! counts as over when its process is gone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub struct History {
    path: PathBuf,
}

/// One run of a task.
#[derive(Clone, Debug)]
pub struct Run {
    pub task: String,
    pub pid: i32,
    /// Nanoseconds on the machine's own clock.
    pub begin: u128,
    pub end: Option<u128>,
}

impl History {
    pub fn new(folder: &Path) -> History {
        History {
            path: folder.join("history"),
        }
    }

    /// A shell text that records its run around `work`. The appends are single writes, so lines do not mix.
    pub fn record(&self, work: &str) -> String {
        let file = self.path.display();
        format!(
            "echo \"begin $CONCLAVE_TASK $$ $(date +%s%N)\" >> {file}; {work}; code=$?; \
             echo \"end $CONCLAVE_TASK $$ $(date +%s%N)\" >> {file}; exit $code"
        )
    }

    /// Every run so far, in the order of their beginnings.
    pub fn runs(&self) -> Vec<Run> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut runs: Vec<Run> = Vec::new();
        let mut open: HashMap<(String, i32), usize> = HashMap::new();
        for line in text.lines() {
            let [verb, task, pid, time] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("not a line of a run: {line:?}");
            };
            let pid: i32 = pid.parse().expect("a pid");
            let time = time.parse().expect("a time");
            let key = (task.to_string(), pid);
            match verb {
                "begin" => {
                    open.insert(key, runs.len());
                    runs.push(Run {
                        task: task.to_string(),
                        pid,
                        begin: time,
                        end: None,
                    });
                }
                _ => runs[open[&key]].end = Some(time),
            }
        }
        runs
    }

    /// No task may have ended well more than once: the second time would have been a second commit or a run
    /// that nobody asked for.
    pub fn assert_no_overlap(&self) {
        let mut by_task: HashMap<String, Vec<Run>> = HashMap::new();
        for run in self.runs() {
            by_task.entry(run.task.clone()).or_default().push(run);
        }
        for (task, runs) in by_task {
            for pair in runs.windows(2) {
                if let Some(end) = pair[0].end {
                    assert!(end <= pair[1].begin, "two runs of {task} overlap: {pair:?}");
                }
            }
        }
    }

    /// Whether any process of any run is still there.
    pub fn alive(&self) -> Vec<i32> {
        let pids = self.runs().into_iter().map(|run| run.pid);
        pids.filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
            .collect()
    }
}
