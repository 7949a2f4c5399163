//! `scripts/up` on a machine that lacks something: the message says what to do.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Programs that every machine has.
const EVERYWHERE: [&str; 10] = [
    "bash", "cat", "cut", "dirname", "head", "id", "mktemp", "rm", "sed", "sort",
];

/// A node and an npm that are new enough.
const NODE: [(&str, &str); 2] = [("node", "echo v22.1.0"), ("npm", "true")];

/// Runs `scripts/up` with only these programs and shell scripts on the PATH, and returns its error message.
fn error_with_only(programs: &[&str], stubs: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    for program in EVERYWHERE.iter().chain(programs) {
        let found = ["/usr/bin", "/bin"].map(|path| Path::new(path).join(program));
        let found = found.iter().find(|path| path.exists());
        symlink(found.expect(program), folder.path().join(program)).expect("a link");
    }
    for (program, text) in stubs {
        let path = folder.path().join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a mode");
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
    let complaint = error_with_only(&[], &[]);
    // pip fetches node and npm.
    for word in [
        "no apt-get",
        "protobuf-compiler",
        "gcc",
        "binutils",
        "python3-pip",
    ] {
        assert!(complaint.contains(word), "{complaint}");
    }
}

#[test]
fn an_old_node_is_replaced() {
    let old = [("node", "echo v12.22.12"), ("npm", "true")];
    let complaint = error_with_only(&["protoc", "cc", "ld"], &old);
    assert!(complaint.contains("python3-pip"), "{complaint}");
}

/// On a machine that already has the file the script does not report it, so the test reads the script itself.
#[test]
fn the_proto_files_are_installed_with_the_compiler() {
    let setup = include_str!("../../../../scripts/setup");
    assert!(setup.contains("\"/usr/include/google/protobuf/descriptor.proto libprotobuf-dev\""));
}

#[test]
fn a_missing_rust_toolchain_is_named_with_its_source() {
    let complaint = error_with_only(&["protoc", "cc", "ld"], &NODE);
    assert!(
        complaint.contains("Rust") && complaint.contains("rustup"),
        "{complaint}"
    );
}
