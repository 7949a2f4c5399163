//! Helpers of all tests: wardens, commands, and waiting with a deadline.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::{
    CapturedStream, CommandInput, CommandIsolation, CommandLimits, CommandOutcome, CommandSpec, STREAM_HEAD,
    Warden, WardenError, WardenLauncher,
};

pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn launcher() -> WardenLauncher {
    WardenLauncher {
        isolation: CommandIsolation::None,
        program: env!("CARGO_BIN_EXE_sandbox-fixture").into(),
        args: vec!["warden".into()],
        lock: None,
        overflow_folder: std::env::temp_dir(),
    }
}

pub(crate) fn warden() -> Warden {
    launcher().start().unwrap()
}

pub(crate) fn command(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(Into::into).collect(),
        env: vec![("PATH".into(), PATH.into())],
        directory: "/tmp".into(),
        input: CommandInput::Bytes(Vec::new()),
        // A limit for every test, so that a command that should be ended by the test cannot hang it.
        limits: CommandLimits {
            wall: Some(Duration::from_secs(30)),
            ..CommandLimits::default()
        },
        max_captured_bytes: 1 << 20,
        network: None,
    }
}

pub(crate) fn sh(script: &str) -> CommandSpec {
    command(&["sh", "-c", script])
}

pub(crate) fn python(script: &str) -> CommandSpec {
    command(&["/usr/bin/python3", "-S", "-c", script])
}

/// Sets limits, but keeps the wall limit that ends hanging tests.
pub(crate) fn limited(spec: CommandSpec, limits: CommandLimits) -> CommandSpec {
    CommandSpec {
        limits: CommandLimits {
            wall: limits.wall.or(spec.limits.wall),
            ..limits
        },
        ..spec
    }
}

pub(crate) fn try_run(warden: &mut Warden, spec: &CommandSpec) -> Result<CommandOutcome, WardenError> {
    let run_handle = warden.new_run();
    warden.run(&run_handle, spec)
}

pub(crate) fn run_in(warden: &mut Warden, spec: &CommandSpec) -> CommandOutcome {
    try_run(warden, spec).unwrap()
}

/// Runs a command in a new warden.
pub(crate) fn run(spec: &CommandSpec) -> CommandOutcome {
    run_in(&mut warden(), spec)
}

pub(crate) fn stdout(outcome: &CommandOutcome) -> String {
    String::from_utf8(bytes(&outcome.stdout)).unwrap()
}

/// All captured bytes of a stream, after a check that its parts fit together.
pub(crate) fn bytes(captured: &CapturedStream) -> Vec<u8> {
    let size = captured.size as usize;
    assert_eq!(captured.head.len(), size.min(STREAM_HEAD), "{captured:?}");
    assert_eq!(captured.file.is_some(), size > STREAM_HEAD, "{captured:?}");
    match &captured.file {
        Some(file) => {
            let mut bytes = Vec::new();
            file.as_ref().read_to_end(&mut bytes).unwrap();
            file.as_ref().rewind().unwrap();
            assert_eq!(bytes.len(), size);
            assert!(bytes.starts_with(&captured.head));
            bytes
        }
        None => captured.head.clone(),
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the process exists and is not a zombie.
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
