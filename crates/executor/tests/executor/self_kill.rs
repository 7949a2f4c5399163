//! What happens to running tasks when no judicator answers.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{ExecutorHarness, task};

/// A stopped warden notices no deadline, like one that hangs in the kernel.
#[tokio::test]
async fn a_task_whose_warden_hangs_is_killed_when_no_judicator_answers() {
    let self_kill = Duration::from_secs(2);
    let mut harness = ExecutorHarness::start_with(|options| options.self_kill = self_kill).await;
    let session = harness.connected().await.session;
    let pid_file = harness.path("pid");
    let script = format!("echo $$ > {}; exec sleep 600", pid_file.display());
    let attempt_id = harness.assign(session, task(script)).await;
    let mut pid = None;
    wait_until("the command runs", || {
        let text = fs::read_to_string(&pid_file).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|pid| pid.parse().ok());
        pid.is_some()
    })
    .await;
    let pid = pid.unwrap();
    let warden = status_of(pid, "PPid:").unwrap().parse().unwrap();
    kill(Pid::from_raw(warden), Signal::SIGSTOP).unwrap();
    harness.judicator.set_reachable(false);
    wait_until("the command is gone", || {
        status_of(pid, "State:").is_none_or(|state| state.starts_with('Z'))
    })
    .await;
    harness.judicator.set_reachable(true);
    harness.forgotten(attempt_id).await;
    harness.stop().await;
}

async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A line of the status of a process; `None` if there is no such process.
fn status_of(pid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_string())
}
