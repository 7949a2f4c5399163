//! The test harness: a data folder with a plan, boots on it, and waits with a deadline.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use boot::{NodeStatus, ServiceState, ServiceStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_boot-fixture");

/// The fixture of the boot tests: a data folder with a plan, on which boots are started one after another. Kills all of
/// its processes on drop.
pub(crate) struct BootHarness {
    folder: TempDir,
    boots: Vec<Child>,
}

/// A service in a plan: its name, the service that it needs, and the steps that it executes.
pub(crate) fn service(name: &str, needs: Option<&str>, steps: &[&str]) -> Value {
    json!({ "name": name, "needs": needs, "steps": steps })
}

impl BootHarness {
    pub(crate) fn new(services: &[Value]) -> BootHarness {
        BootHarness::with(json!({}), services)
    }

    /// With settings that differ from the defaults.
    pub(crate) fn with(settings: Value, services: &[Value]) -> BootHarness {
        let mut plan = json!({
            // Long enough that a service which handles SIGTERM is never killed.
            "stop_grace": 60_000,
            "max_restart_delay": 10_000,
            "max_log_size": 1 << 20,
            "rotated_logs_kept": 4,
            "print": null,
            "services": services,
        });
        for (key, value) in settings.as_object().unwrap() {
            plan[key] = value.clone();
        }
        let harness = BootHarness {
            folder: tempfile::tempdir().unwrap(),
            boots: Vec::new(),
        };
        fs::write(harness.path("plan.json"), plan.to_string()).unwrap();
        harness
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.path("run")
    }

    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    /// Starts boot and returns its pid. Its output goes to the files `stdout` and `stderr`.
    pub(crate) fn boot(&mut self) -> u32 {
        let stdout = File::create(self.path("stdout")).unwrap();
        self.boot_to(Stdio::from(stdout))
    }

    pub(crate) fn boot_to(&mut self, stdout: Stdio) -> u32 {
        let child = Command::new(FIXTURE)
            .arg("boot")
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(File::create(self.path("stderr")).unwrap())
            .spawn()
            .unwrap();
        let pid = child.id();
        self.boots.push(child);
        pid
    }

    /// The pipe on the standard output of the last boot.
    pub(crate) fn stdout(&mut self) -> std::process::ChildStdout {
        self.boots.last_mut().unwrap().stdout.take().unwrap()
    }

    /// Waits for the exit of the last boot.
    pub(crate) fn wait_for_boot_exit(&mut self) -> ExitStatus {
        let mut status = None;
        let boot = self.boots.last_mut().unwrap();
        wait_until("boot exited", || {
            status = boot.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub(crate) fn kill_boot(&mut self) {
        let boot = self.boots.last_mut().unwrap();
        boot.kill().unwrap();
        boot.wait().unwrap();
    }

    /// The content of a file; empty if it does not exist.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The events of the services without pids, for example `a start`.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text("events");
        text.lines()
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_string()))
            .collect()
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|seen| *seen == event).count()
    }

    pub(crate) fn status(&self) -> Option<NodeStatus> {
        NodeStatus::read(&self.run()).ok()
    }

    pub(crate) fn service(&self, name: &str) -> Option<ServiceStatus> {
        self.status()?
            .services
            .into_iter()
            .find(|service| service.name == name)
    }

    /// Waits until the status of the service meets the condition, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&ServiceStatus) -> bool,
    ) -> ServiceStatus {
        let mut found = None;
        let deadline = Instant::now() + TIMEOUT;
        while found.is_none() {
            found = self.service(name).filter(&condition);
            assert!(
                Instant::now() < deadline,
                "timed out waiting until {name} is {what}\nstatus: {:#?}\nevents: {:#?}\nstderr: {}",
                self.status(),
                self.events(),
                self.text("stderr"),
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        found.unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_state(&self, name: &str, state: ServiceState) -> ServiceStatus {
        self.wait_for(name, state.as_str(), |service| service.state == state)
    }

    /// Waits until the service runs, and returns its pid.
    #[track_caller]
    pub(crate) fn wait_running(&self, name: &str) -> u32 {
        self.wait_state(name, ServiceState::Running).pid.unwrap()
    }

    /// The pids of all processes that the services of this harness have had.
    fn pids(&self) -> Vec<u32> {
        let text = self.text("events");
        text.lines()
            .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
            .collect()
    }
}

impl Drop for BootHarness {
    fn drop(&mut self) {
        for boot in &mut self.boots {
            let _ = boot.kill();
            let _ = boot.wait();
        }
        let folder = self.folder.path().to_str().unwrap().to_string();
        for pid in self.pids() {
            // Only processes of this harness: the pid may have been reused.
            let ours = fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&folder));
            if ours {
                send_signal(pid, Signal::SIGKILL);
            }
        }
    }
}

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting until: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

pub(crate) fn send_signal(pid: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal);
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Sends SIGSTOP and waits until the process is stopped.
pub(crate) fn freeze(pid: u32) {
    send_signal(pid, Signal::SIGSTOP);
    wait_until("the process is stopped", || state(pid) == Some('T'));
}

/// Waits for a pid in a file.
pub(crate) fn pid_in(file: &Path) -> u32 {
    let mut pid = None;
    wait_until(&format!("there is a pid in {}", file.display()), || {
        let text = fs::read_to_string(file).unwrap_or_default();
        pid = text.split_once('\n').and_then(|(line, _)| line.parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}
