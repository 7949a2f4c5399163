//! The outcome of commands that end by themselves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use sandbox::{CommandEndReason, CommandSpecError, PlatformError, WardenError};

use crate::harness::{command, folder, run, run_in, sh, stdout, try_run, warden};

#[test]
fn an_exit_code_is_reported() {
    let mut warden = warden();
    for code in [0, 1, 3, 126, 255] {
        let outcome = run_in(&mut warden, &sh(&format!("exit {code}")));
        assert_eq!(
            (outcome.reason, outcome.exit_code, outcome.signal),
            (CommandEndReason::Exited, Some(code), None)
        );
    }
}

#[test]
fn a_signal_is_reported() {
    let mut warden = warden();
    for signal in [
        libc::SIGSEGV,
        libc::SIGKILL,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGXCPU,
    ] {
        let outcome = run_in(&mut warden, &sh(&format!("kill -{signal} $$; sleep 60")));
        assert_eq!(
            (outcome.reason, outcome.exit_code, outcome.signal),
            (CommandEndReason::Signalled, None, Some(signal))
        );
    }
}

#[test]
fn a_program_that_cannot_be_executed_ends_as_in_a_shell() {
    let (_keep, folder) = folder();
    for (name, content, mode) in [
        ("text", "no program", 0o755),
        ("data", "", 0o644),
        ("orphan", "#!/nowhere\n", 0o755),
    ] {
        fs::write(folder.join(name), content).unwrap();
        fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
    }
    let mut warden = warden();
    let mut check = |program: &str, path: &str, code: i32, text: &str| {
        let mut spec = command(&[program]);
        spec.directory.clone_from(&folder);
        spec.env = vec![("PATH".into(), path.into())];
        let outcome = run_in(&mut warden, &spec);
        assert_eq!(
            (outcome.reason, outcome.exit_code),
            (CommandEndReason::Exited, Some(code)),
            "{program}"
        );
        assert_eq!(
            String::from_utf8_lossy(&outcome.stderr.head),
            format!("conclave: {program}: {text}\n")
        );
    };
    check("nowhere", "/bin", 127, "No such file or directory");
    check("./nowhere", "", 127, "No such file or directory");
    check("data/x", "", 127, "Not a directory");
    check("./orphan", "", 127, "No such file or directory");
    check("./data", "", 126, "Permission denied");
    check("data", "/bin:.", 126, "Permission denied");
    check("./text", "", 126, "Exec format error");
    check("/", "", 126, "Permission denied");
    assert_eq!(stdout(&run_in(&mut warden, &sh("echo on"))), "on\n");
}

#[test]
fn a_program_is_found_relative_to_the_working_directory() {
    let (_keep, folder) = folder();
    fs::create_dir(folder.join("bin")).unwrap();
    fs::copy("/bin/echo", folder.join("bin/hello")).unwrap();
    for (program, path) in [
        ("./bin/hello", "/nowhere"),
        ("bin/hello", ""),
        ("hello", "/nowhere:bin"),
    ] {
        let mut spec = command(&[program, "a b", "", "*"]);
        spec.directory.clone_from(&folder);
        spec.env = vec![("PATH".into(), path.into())];
        assert_eq!(stdout(&run(&spec)), "a b  *\n", "{program}");
    }
}

#[test]
fn a_missing_directory_or_input_is_a_platform_error() {
    let mut warden = warden();
    let mut spec = sh("echo");
    spec.directory = "/nowhere".into();
    let error = try_run(&mut warden, &spec).unwrap_err();
    assert!(
        matches!(error, WardenError::Run(PlatformError::ChangeDirectory { .. })),
        "{error:?}"
    );
    spec.directory = "/".into();
    spec.input = sandbox::CommandInput::File("/nowhere".into());
    let error = try_run(&mut warden, &spec).unwrap_err();
    assert!(
        matches!(error, WardenError::Run(PlatformError::OpenInput { .. })),
        "{error:?}"
    );
    let error = try_run(&mut warden, &command(&[])).unwrap_err();
    assert!(
        matches!(error, WardenError::Spec(CommandSpecError::EmptyCommand)),
        "{error:?}"
    );
    assert!(!error.is_warden_lost());
    assert_eq!(stdout(&run_in(&mut warden, &sh("echo on"))), "on\n");
}
