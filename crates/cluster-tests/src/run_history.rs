//! Records which tasks really ran, and when: each run appends a line to a file when it begins, while it is alive, and when
//! it ends.
//!
//! The file lies outside of every workspace, so it survives the tasks. A run that was killed has no end line; it was alive at
//! least until its last line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The file in which the tasks of a test record when they run, so that the test knows which really ran.
pub struct RunHistory {
    path: PathBuf,
}

/// One run of a task in a test, as the task's processes recorded it in a file.
#[derive(Clone, Debug)]
pub struct TaskRun {
    pub task: String,
    /// The pid of its first process, which identifies the run.
    pub pid: i32,
    /// Microseconds since the epoch, on this machine's clock.
    pub begin: u64,
    pub end: Option<u64>,
    /// When any of its processes last wrote a line.
    pub last: u64,
    /// All processes of the run that wrote a line.
    pub pids: Vec<i32>,
}

impl RunHistory {
    pub fn new(folder: &Path) -> RunHistory {
        RunHistory {
            path: folder.join("history"),
        }
    }

    /// A shell script that runs `work` and records begin and end.
    pub fn record(&self, work: &str) -> String {
        format!(
            "say() {{ {}; }}; say begin; {work}; code=$?; say end; exit $code",
            self.line("$1")
        )
    }

    /// A shell script that waits until the file `gate` exists. It starts a daemonised child that records heartbeats until
    /// it is killed.
    pub fn until(&self, gate: &Path) -> String {
        let beat = self.line("beat").replace("$$", "$RUN");
        self.record(&format!(
            "export RUN=$$; setsid --fork bash -c 'while :; do {beat}; sleep 0.02; done'; \
             until [ -e {} ]; do sleep 0.02; done; echo $$",
            gate.display()
        ))
    }

    /// A shell command that appends one line, with builtins only, so that it is cheap. Each line is a single write, so lines
    /// do not mix. The length of a line divides the page size, because a write across pages can be interrupted halfway.
    fn line(&self, verb: &str) -> String {
        format!(
            "printf \"%-127s\\n\" \"{verb} $CONCLAVE_TASK $$ $BASHPID ${{EPOCHREALTIME/./}}\" >> {}",
            self.path.display()
        )
    }

    /// Every run so far, in the order in which they began.
    pub fn runs(&self) -> Vec<TaskRun> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut runs: Vec<TaskRun> = Vec::new();
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
                runs.push(TaskRun {
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

    pub fn runs_of(&self, task: impl ToString) -> Vec<TaskRun> {
        let task = task.to_string();
        self.runs().into_iter().filter(|run| run.task == task).collect()
    }

    /// Asserts that no process of a run was alive when the next run of the same task began.
    pub fn assert_no_overlap(&self) {
        let mut before: HashMap<String, TaskRun> = HashMap::new();
        for run in self.runs() {
            if let Some(earlier) = before.insert(run.task.clone(), run.clone()) {
                assert!(
                    earlier.last <= run.begin,
                    "two runs overlap: {earlier:?} and {run:?}"
                );
            }
        }
    }

    /// The processes of any run that are still alive.
    pub fn alive(&self) -> Vec<i32> {
        let is_alive = |task: &str, pid: i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mark = format!("CONCLAVE_TASK={task}");
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        let of_run = |run: TaskRun| run.pids.into_iter().filter(move |pid| is_alive(&run.task, *pid));
        self.runs().into_iter().flat_map(of_run).collect()
    }
}
