//! What a command inherits: what its spec says and nothing else.

use sandbox::CommandLimits;

use crate::harness::{command, limited, python, run, sh, stdout};

#[test]
fn the_environment_variables_are_those_of_the_spec() {
    let mut spec = command(&["/usr/bin/env"]);
    spec.env = vec![
        ("B".into(), "2 = 2".into()),
        ("A".into(), "".into()),
        ("EMPTY".into(), " ".into()),
    ];
    assert_eq!(stdout(&run(&spec)), "B=2 = 2\nA=\nEMPTY= \n");
    spec.env.clear();
    assert_eq!(stdout(&run(&spec)), "");
}

#[test]
fn only_the_standard_descriptors_are_open() {
    let script =
        "import os\nfor fd in range(4096):\n try: os.fstat(fd)\n except OSError: continue\n print(fd)";
    let (_keep, folder) = crate::harness::folder();
    let lock = std::fs::File::create(folder.join("lock")).unwrap();
    let lock = Some(std::sync::Arc::new(lock.into()));
    let mut warden = sandbox::WardenLauncher {
        lock,
        ..crate::harness::launcher()
    }
    .start()
    .unwrap();
    assert_eq!(
        stdout(&crate::harness::run_in(&mut warden, &python(script))),
        "0\n1\n2\n"
    );
}

#[test]
fn the_command_has_its_own_session_signals_and_directory() {
    let script = r#"
import os
status = dict(line.split(":\t") for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
print(int(status["SigBlk"], 16), int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24), status["NoNewPrivs"])
print(os.getsid(0) == os.getpid(), os.getcwd(), oct(os.umask(0)))
"#;
    // Python itself ignores SIGPIPE and SIGXFSZ, so a shell checks those.
    assert_eq!(stdout(&run(&python(script))), "0 0 1\nTrue /tmp 0o22\n");
    let ignored = stdout(&run(&sh("grep SigIgn /proc/self/status")));
    assert_eq!(ignored, "SigIgn:\t0000000000000000\n");
}

#[test]
fn rlimits_are_set() {
    let script = r#"
import resource as r
for what in (r.RLIMIT_CORE, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE, r.RLIMIT_STACK): print(*r.getrlimit(what))
"#;
    let limits = CommandLimits {
        cpu: Some(std::time::Duration::from_millis(4500)),
        file_size: Some(12_345),
        open_files: Some(33),
        stack: Some(4 << 20),
        ..CommandLimits::default()
    };
    let expected = "1 1\n6 7\n12345 12345\n33 33\n4194304 4194304\n";
    assert_eq!(stdout(&run(&limited(python(script), limits))), expected);
}

#[test]
fn writing_beyond_the_file_size_limit_ends_the_command() {
    let limits = CommandLimits {
        file_size: Some(1000),
        ..CommandLimits::default()
    };
    let (_keep, folder) = crate::harness::folder();
    let mut spec = sh("exec head -c 2000 /dev/zero > large");
    spec.directory.clone_from(&folder);
    let outcome = run(&limited(spec, limits));
    assert_eq!(std::fs::metadata(folder.join("large")).unwrap().len(), 1000);
    assert_eq!(
        (outcome.reason, outcome.signal),
        (sandbox::CommandEndReason::OutputLimit, Some(libc::SIGXFSZ))
    );
}
