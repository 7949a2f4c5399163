//! Standard input and output of commands.

use std::time::Duration;

use sandbox::{CommandEndReason, CommandInput, CommandLimits, CommandSpec};

use crate::harness::{bytes, command, folder, limited, python, run, sh, stdout};

#[test]
fn input_reaches_the_command() {
    let mut spec = command(&["cat"]);
    for input in [&b"hello\n"[..], b"\0\xff\x80", b"x"] {
        spec.input = CommandInput::Bytes(input.to_vec());
        let outcome = run(&spec);
        assert_eq!(outcome.stdout.head, input);
        assert_eq!((outcome.exit_code, outcome.stdout.truncated), (Some(0), false));
    }
    spec.input = CommandInput::Bytes(Vec::new());
    assert_eq!(run(&spec).stdout.head, b"");
}

#[test]
fn large_input_reaches_the_command() {
    let (_keep, folder) = folder();
    let large: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    std::fs::write(folder.join("input"), &large).unwrap();
    for input in [
        CommandInput::Bytes(large.clone()),
        CommandInput::File(folder.join("input")),
    ] {
        let outcome = run(&CommandSpec {
            input,
            ..command(&["cat"])
        });
        assert!(
            bytes(&outcome.stdout) == large,
            "{} bytes came back",
            outcome.stdout.size
        );
    }
}

#[test]
fn unread_input_does_not_block() {
    let outcome = run(&CommandSpec {
        input: CommandInput::Bytes(vec![1; 1 << 20]),
        ..sh("exit 4")
    });
    assert_eq!(outcome.exit_code, Some(4));
}

#[test]
fn both_streams_are_captured_byte_for_byte() {
    let outcome = run(&sh(r"printf 'a\000\377b'; printf '\376\000' >&2"));
    assert_eq!(outcome.stdout.head, b"a\0\xffb");
    assert_eq!(outcome.stderr.head, b"\xfe\0");
}

#[test]
fn output_beyond_the_capture_limit_is_discarded() {
    let script = "import os\nfor i in range(64):\n os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)\nraise SystemExit(5)";
    let outcome = run(&CommandSpec {
        max_captured_bytes: 100_000,
        ..python(script)
    });
    assert_eq!(
        (outcome.reason, outcome.exit_code),
        (CommandEndReason::Exited, Some(5))
    );
    assert!(bytes(&outcome.stdout) == vec![b'o'; 100_000] && outcome.stdout.truncated);
    assert!(bytes(&outcome.stderr) == vec![b'e'; 100_000] && outcome.stderr.truncated);
}

#[test]
fn output_within_the_capture_limit_is_complete() {
    fn check(keep: u64, expected: &str, truncated: bool) {
        let outcome = run(&CommandSpec {
            max_captured_bytes: keep,
            ..sh("printf 12345")
        });
        assert_eq!(
            (stdout(&outcome).as_str(), outcome.stdout.truncated),
            (expected, truncated),
            "{keep}"
        );
    }
    check(6, "12345", false);
    check(5, "12345", false);
    check(4, "1234", true);
    check(0, "", true);
}

#[test]
fn a_command_beyond_its_output_limit_is_ended() {
    for script in ["exec yes", "yes >&2", "yes | cat"] {
        let limits = CommandLimits {
            output: Some(50_000),
            ..CommandLimits::default()
        };
        let outcome = run(&limited(sh(script), limits));
        assert_eq!(outcome.reason, CommandEndReason::OutputLimit, "{script}");
        let (stdout, stderr) = (outcome.stdout, outcome.stderr);
        assert_eq!(stdout.size + stderr.size, 50_000, "{script}");
        assert!(stdout.truncated || stderr.truncated, "{script}");
        assert!(outcome.wall < Duration::from_secs(20), "{script}");
    }
}

#[test]
fn output_of_exactly_the_limit_is_allowed() {
    fn check(limit: u64, expected: CommandEndReason, kept: u64) {
        let limits = CommandLimits {
            output: Some(limit),
            ..CommandLimits::default()
        };
        let outcome = run(&limited(sh("printf 12345"), limits));
        assert_eq!((outcome.reason, outcome.stdout.size), (expected, kept), "{limit}");
    }
    check(5, CommandEndReason::Exited, 5);
    check(4, CommandEndReason::OutputLimit, 4);
}

#[test]
fn only_a_regular_file_is_accepted_as_input() {
    let (_keep, folder) = folder();
    let (pipe, link) = (folder.join("pipe"), folder.join("link"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    let mut warden = crate::harness::warden();
    for path in [pipe, link] {
        let mut spec = command(&["cat"]);
        spec.input = CommandInput::File(path);
        let error = crate::harness::try_run(&mut warden, &spec).unwrap_err();
        assert!(!error.is_warden_lost(), "{error:?}");
    }
}
