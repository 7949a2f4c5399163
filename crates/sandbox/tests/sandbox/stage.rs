//! What every test needs: a warden, a command, and patience with an end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::{Input, Isolation, Launcher, Limits, Outcome, Spec, Warden, WardenError};

pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn launcher() -> Launcher {
    Launcher {
        isolation: Isolation::None,
        program: env!("CARGO_BIN_EXE_sandbox-fixture").into(),
        args: vec!["warden".into()],
        lock: None,
    }
}

pub(crate) fn warden() -> Warden {
    launcher().start().unwrap()
}

pub(crate) fn command(argv: &[&str]) -> Spec {
    Spec {
        argv: argv.iter().map(Into::into).collect(),
        env: vec![("PATH".into(), PATH.into())],
        directory: "/tmp".into(),
        input: Input::Bytes(Vec::new()),
        // No test waits for ever: a command that is not ended by what it tests is ended by this.
        limits: Limits {
            wall: Some(Duration::from_secs(30)),
            ..Limits::default()
        },
        keep: 1 << 20,
        network: None,
    }
}

pub(crate) fn sh(script: &str) -> Spec {
    command(&["sh", "-c", script])
}

pub(crate) fn python(script: &str) -> Spec {
    command(&["/usr/bin/python3", "-S", "-c", script])
}

/// With limits beside the one that keeps the test from hanging.
pub(crate) fn limited(spec: Spec, limits: Limits) -> Spec {
    Spec {
        limits: Limits {
            wall: limits.wall.or(spec.limits.wall),
            ..limits
        },
        ..spec
    }
}

pub(crate) fn try_run(warden: &mut Warden, spec: &Spec) -> Result<Outcome, WardenError> {
    let ticket = warden.ticket();
    warden.run(&ticket, spec)
}

pub(crate) fn run_in(warden: &mut Warden, spec: &Spec) -> Outcome {
    try_run(warden, spec).unwrap()
}

/// In a warden of its own.
pub(crate) fn run(spec: &Spec) -> Outcome {
    run_in(&mut warden(), spec)
}

pub(crate) fn stdout(outcome: &Outcome) -> String {
    String::from_utf8(outcome.stdout.bytes.clone()).unwrap()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Neither gone nor a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a command has written its process id to a file, as `echo $$ > file` does.
pub(crate) fn pid_in(file: &Path) -> i32 {
    let mut pid = None;
    wait_until(&format!("a process id in {}", file.display()), || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        pid = text
            .strip_suffix('\n')
            .or(file.ends_with("warden").then_some(&text))
            .and_then(|t| t.parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    (folder, path)
}
