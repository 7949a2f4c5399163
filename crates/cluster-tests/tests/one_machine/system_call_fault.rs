//! Faults in the system calls of running processes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// strace, which disturbs system calls of other processes. Killed when dropped.
pub(crate) struct SystemCallFault(Child);

impl SystemCallFault {
    /// `fault` is a system call and what happens to it, as in strace's `--inject`; with a path, only if the call is about that file.
    pub(crate) fn inject(fault: &str, path: Option<&Path>, pids: &[String]) -> SystemCallFault {
        let mut strace = Command::new("strace");
        strace.args(["--follow-forks", &format!("--inject={fault}")]);
        if let Some(path) = path {
            strace.arg("--trace-path").arg(path);
        }
        strace.args(pids.iter().map(|pid| format!("--attach={pid}")));
        let mut strace = strace.stderr(Stdio::piped()).spawn().expect("`strace`");
        let stderr = strace.stderr.take().expect("a pipe");
        let fault = SystemCallFault(strace);
        let mut said = BufReader::new(stderr).lines();
        let mut attached = 0;
        while attached < pids.len() {
            let line = said.next().expect("a line for each process").expect("text");
            attached += usize::from(line.contains(" attached"));
            assert!(line.starts_with("strace: "), "{line}");
        }
        // It writes a line for each call, and must not wait for a reader.
        std::thread::spawn(move || said.for_each(drop));
        fault
    }
}

impl Drop for SystemCallFault {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
