//! What tasks really did, written by themselves: each run leaves a line when it begins, while it lives, and when it ends.
//!
//! The file lies outside of every workspace, so that it outlives the tasks. A run that was killed has no end; it was
//! alive until its last line at least.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub struct History {
    path: PathBuf,
}

/// One run of a task.
#[derive(Clone, Debug)]
pub struct Run {
    pub task: String,
    /// Of its first process, which names the run.
    pub pid: i32,
    /// Microseconds on the machine's own clock.
    pub begin: u64,
    pub end: Option<u64>,
    /// The last sign of life of any of its processes.
    pub last: u64,
    /// All of its processes that left a line.
    pub pids: Vec<i32>,
}

impl History {
    pub fn new(folder: &Path) -> History {
        History {
            path: folder.join("history"),
        }
    }

    /// A shell text that records its run around `work`.
    pub fn record(&self, work: &str) -> String {
        format!(
            "say() {{ {}; }}; say begin; {work}; code=$?; say end; exit $code",
            self.line("$1")
        )
    }

    /// A shell text that waits until the file is there. A child of it that has left its session and its parent
    /// shows that it lives for as long as it does, which is until somebody kills it.
    pub fn until(&self, gate: &Path) -> String {
        let beat = self.line("beat").replace("$$", "$RUN");
        self.record(&format!(
            "export RUN=$$; setsid --fork bash -c 'while :; do {beat}; sleep 0.02; done'; \
             until [ -e {} ]; do sleep 0.02; done; echo $$",
            gate.display()
        ))
    }

    /// Without starting another process for it, so that it costs next to nothing. Each line is a single write, so that
    /// lines do not mix; and its length divides that of a page: a write that crosses pages can be seen, and killed,
    /// half done.
    fn line(&self, verb: &str) -> String {
        format!(
            "printf \"%-127s\\n\" \"{verb} $CONCLAVE_TASK $$ $BASHPID ${{EPOCHREALTIME/./}}\" >> {}",
            self.path.display()
        )
    }

    /// Every run so far, in the order of their beginnings.
    pub fn runs(&self) -> Vec<Run> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut runs: Vec<Run> = Vec::new();
        let mut known: HashMap<(String, i32), usize> = HashMap::new();
        for line in text.lines() {
            let [verb, task, run, pid, time] = line.trim_end().split(' ').collect::<Vec<_>>()[..] else {
                panic!("not a line of a run: {line:?}");
            };
            let pid: i32 = pid.parse().expect("a pid");
            let time: u64 = time.parse().expect("a time");
            let key = (task.to_string(), run.parse().expect("a pid"));
            if verb == "begin" {
                known.insert(key, runs.len());
                runs.push(Run {
                    task: task.to_string(),
                    pid,
                    begin: time,
                    end: None,
                    last: time,
                    pids: vec![pid],
                });
                continue;
            }
            let run = &mut runs[known[&key]];
            run.last = run.last.max(time);
            if !run.pids.contains(&pid) {
                run.pids.push(pid);
            }
            if verb == "end" {
                run.end = Some(time);
            }
        }
        runs
    }

    pub fn runs_of(&self, task: impl ToString) -> Vec<Run> {
        let task = task.to_string();
        self.runs().into_iter().filter(|run| run.task == task).collect()
    }

    /// Nothing of a run may live when the next run of the same task begins.
    pub fn assert_no_overlap(&self) {
        let mut before: HashMap<String, Run> = HashMap::new();
        for run in self.runs() {
            if let Some(earlier) = before.insert(run.task.clone(), run.clone()) {
                assert!(
                    earlier.last <= run.begin,
                    "two runs overlap: {earlier:?} and {run:?}"
                );
            }
        }
    }

    /// Processes of any run that are still there.
    pub fn alive(&self) -> Vec<i32> {
        let is_alive = |task: &str, pid: i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mark = format!("CONCLAVE_TASK={task}");
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        let of_run = |run: Run| run.pids.into_iter().filter(move |pid| is_alive(&run.task, *pid));
        self.runs().into_iter().flat_map(of_run).collect()
    }
}
