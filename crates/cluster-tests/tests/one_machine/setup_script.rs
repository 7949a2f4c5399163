//! `scripts/up` on a machine that lacks something: the message says what to do.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Programs that every machine has.
const EVERYWHERE: [&str; 10] = [
    "bash", "cat", "cut", "dirname", "head", "id", "mktemp", "rm", "sed", "sort",
];

/// Runs `scripts/up` with only these programs on the PATH, and returns its error message.
fn error_with_only(programs: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    for program in EVERYWHERE.iter().chain(programs) {
        let found = ["/usr/bin", "/bin"].map(|path| Path::new(path).join(program));
        let found = found.iter().find(|path| path.exists());
        symlink(found.expect(program), folder.path().join(program)).expect("a link");
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/up");
    let ended = Command::new("/bin/bash")
        .arg(scripts)
        .env_clear()
        .env("PATH", folder.path())
        .env("HOME", folder.path())
        .output()
        .expect("scripts/up runs");
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn missing_packages_are_named_without_apt() {
    let complaint = error_with_only(&[]);
    for word in ["no apt-get", "protobuf-compiler", "gcc", "binutils"] {
        assert!(complaint.contains(word), "{complaint}");
    }
}

/// On a machine that already has the file the script does not report it, so the test reads the script itself.
#[test]
fn the_proto_files_are_installed_with_the_compiler() {
    let setup = include_str!("../../../../scripts/setup");
    assert!(setup.contains("\"/usr/include/google/protobuf/descriptor.proto libprotobuf-dev\""));
}

#[test]
fn a_missing_rust_toolchain_is_named_with_its_source() {
    let complaint = error_with_only(&["protoc", "cc", "ld"]);
    assert!(
        complaint.contains("Rust") && complaint.contains("rustup"),
        "{complaint}"
    );
}
