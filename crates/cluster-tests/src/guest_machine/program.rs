//! Prepares programs of this machine to run in a guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary without debug information, which is most of its size.
pub(super) fn stripped(binary: &Path, folder: &Path) -> Vec<u8> {
    let small = folder.join("stripped");
    output_of(Command::new("strip").arg("-o").arg(&small).arg(binary));
    fs::read(&small).expect("what strip wrote")
}

/// A statically linked C program.
pub(super) fn compiled(source: &str, folder: &Path) -> Vec<u8> {
    let [text, binary] = ["source.c", "compiled"].map(|name| folder.join(name));
    fs::write(&text, source).expect("a source");
    output_of(
        Command::new("gcc")
            .args(["-O1", "-static", "-pthread", "-s", "-o"])
            .args([&binary, &text]),
    );
    fs::read(&binary).expect("what gcc wrote")
}

/// The shared libraries of a program, including the dynamic loader.
pub(super) fn libraries(binary: &Path) -> Vec<PathBuf> {
    let output = run(Command::new("ldd").arg(binary));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("not found"), "{}: {text}", binary.display());
    parse_ldd(&text)
}

/// Parses lines of the forms `NAME => PATH (ADDRESS)` and `PATH (ADDRESS)`; other lines have no file.
fn parse_ldd(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        line.split_whitespace()
            .find(|word| word.starts_with('/'))
            .map(PathBuf::from)
    };
    text.lines().filter_map(path).collect()
}

pub(super) fn find_on_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is missing: `scripts/setup test` installs it"))
}

/// Runs a command that must succeed, and returns its standard output.
pub(super) fn output_of(command: &mut Command) -> String {
    let output = run(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?} does not start ({error}): `scripts/setup test`"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::parse_ldd;

    #[test]
    fn shared_libraries_are_parsed_from_ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007fea4e89f000)\n\
            \tlibc.so.6 => /lib/libc.so.6 (0x00007fea4b81e000)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007fea4e8a1000)\n";
        assert_eq!(
            parse_ldd(text),
            ["/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(Path::new)
        );
        assert!(parse_ldd("\tstatically linked\n").is_empty());
    }
}
