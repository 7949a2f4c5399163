//! What every test needs: a data folder with a plan, a boot on it, and patience with an end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use boot::{ServiceStatus, State, Status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_boot-fixture");

/// A data folder with a plan, on which boots can be started one after the other. Kills all it started when dropped.
pub(crate) struct Stage {
    folder: TempDir,
    boots: Vec<Child>,
}

/// Of a service in a plan: its name, whom it needs, and what it does.
pub(crate) fn service(name: &str, needs: Option<&str>, does: &[&str]) -> Value {
    json!({ "name": name, "needs": needs, "does": does })
}

impl Stage {
    pub(crate) fn new(services: &[Value]) -> Stage {
        Stage::with(json!({}), services)
    }

    /// With other settings than the usual ones.
    pub(crate) fn with(settings: Value, services: &[Value]) -> Stage {
        let mut plan = json!({
            // Long enough to never be what ends a service that listens.
            "stop_grace": 60_000,
            "restart_most": 10_000,
            "log_size": 1 << 20,
            "log_keep": 4,
            "print": null,
            "services": services,
        });
        for (key, value) in settings.as_object().unwrap() {
            plan[key] = value.clone();
        }
        let stage = Stage {
            folder: tempfile::tempdir().unwrap(),
            boots: Vec::new(),
        };
        fs::write(stage.path("plan.json"), plan.to_string()).unwrap();
        stage
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

    /// Output goes to the files `stdout` and `stderr`.
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

    /// How the last boot ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        let boot = self.boots.last_mut().unwrap();
        wait_until("boot ended", || {
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

    /// What is in a file, or nothing.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Without the process numbers: `a start`.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text("events");
        text.lines()
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_string()))
            .collect()
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|seen| *seen == event).count()
    }

    pub(crate) fn status(&self) -> Option<Status> {
        Status::read(&self.run()).ok()
    }

    pub(crate) fn service(&self, name: &str) -> Option<ServiceStatus> {
        self.status()?
            .services
            .into_iter()
            .find(|service| service.name == name)
    }

    /// Waits until the service is as wanted, and says how it is then.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&ServiceStatus) -> bool,
    ) -> ServiceStatus {
        let mut found = None;
        let deadline = Instant::now() + PATIENCE;
        while found.is_none() {
            found = self.service(name).filter(&wanted);
            assert!(
                Instant::now() < deadline,
                "{name} is still not {what}\nstatus: {:#?}\nevents: {:#?}\nstderr: {}",
                self.status(),
                self.events(),
                self.text("stderr"),
            );
            std::thread::sleep(LOOK);
        }
        found.unwrap()
    }

    #[track_caller]
    pub(crate) fn wait_state(&self, name: &str, state: State) -> ServiceStatus {
        self.wait_for(name, state.as_str(), |service| service.state == state)
    }

    /// The process of a running service.
    #[track_caller]
    pub(crate) fn running(&self, name: &str) -> u32 {
        self.wait_state(name, State::Running).pid.unwrap()
    }

    /// Processes that the services of this stage ever were.
    fn pids(&self) -> Vec<u32> {
        let text = self.text("events");
        text.lines()
            .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for boot in &mut self.boots {
            let _ = boot.kill();
            let _ = boot.wait();
        }
        let folder = self.folder.path().to_str().unwrap().to_string();
        for pid in self.pids() {
            // Only what is still ours: the number may have passed on.
            let ours = fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&folder));
            if ours {
                send(pid, Signal::SIGKILL);
            }
        }
    }
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(LOOK);
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal);
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Neither gone nor a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Stops it, and waits until it really stands still.
pub(crate) fn freeze(pid: u32) {
    send(pid, Signal::SIGSTOP);
    wait_until("stopped", || state(pid) == Some('T'));
}

/// The process number in a file.
pub(crate) fn pid_in(file: &Path) -> u32 {
    let mut pid = None;
    wait_until(&format!("a process number in {}", file.display()), || {
        let text = fs::read_to_string(file).unwrap_or_default();
        pid = text.split_once('\n').and_then(|(line, _)| line.parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}
