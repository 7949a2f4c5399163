//! Runs real processes under real Landlock rules. As root they have every capability, which must not help them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use super::{LandlockRules, SharedFolders, version};
use crate::cell::bare;

/// The fixture of the Landlock tests: two folders, and rules under which processes may write only to the first.
struct LandlockHarness {
    _folder: tempfile::TempDir,
    writable: PathBuf,
    other: PathBuf,
}

impl LandlockHarness {
    fn new() -> Self {
        assert!(
            version().is_some(),
            "the tests need a kernel that has Landlock, version 2 or later"
        );
        let folder = tempfile::tempdir().unwrap();
        let (writable, other) = (folder.path().join("writable"), folder.path().join("other"));
        fs::create_dir(&writable).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "kept").unwrap();
        Self {
            _folder: folder,
            writable,
            other,
        }
    }

    /// Runs a script that finds the two folders in the variables `writable` and `other`.
    fn run(&self, script: &str) -> Output {
        let shared = SharedFolders::open().unwrap().unwrap();
        let rules = LandlockRules::new(&shared, &[&self.writable], None)
            .unwrap()
            .unwrap();
        let confine = move || {
            // SAFETY: the call takes numbers only.
            if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            bare::apply_landlock_rules(rules.as_raw_fd())
                .map_err(|errno| io::Error::from_raw_os_error(errno.0))
        };
        let mut command = Command::new("/usr/bin/python3");
        command
            .args([
                "-S",
                "-c",
                &format!("import errno, os, socket, subprocess\n{script}"),
            ])
            .env("writable", &self.writable)
            .env("other", &self.other)
            .current_dir(&self.writable);
        // SAFETY: the closure makes two system calls and nothing else.
        unsafe { command.pre_exec(confine) };
        command.output().unwrap()
    }

    #[track_caller]
    fn check(&self, expression: &str, wanted: &str) {
        let script = format!(
            "
o, w = os.environ['other'], os.environ['writable']
try:
    print({expression})
except OSError as error:
    print(errno.errorcode[error.errno])
"
        );
        let output = self.run(&script);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            wanted,
            "{expression}: {errors}"
        );
    }
}

#[test]
fn every_file_can_be_read_and_executed() {
    let harness = LandlockHarness::new();
    harness.check("open(o + '/file').read()", "kept");
    harness.check("os.listdir(o)", "['file']");
    harness.check("subprocess.run(['/bin/sh', '-c', 'exit 3']).returncode", "3");
}

#[test]
fn nothing_outside_can_be_changed() {
    let harness = LandlockHarness::new();
    for change in [
        "open(o + '/new', 'w')",
        "open(o + '/file', 'a')",
        "open(o + '/file', 'r+')",
        "os.truncate(o + '/file', 0)",
        "os.unlink(o + '/file')",
        "os.rename(o + '/file', o + '/moved')",
        "os.mkdir(o + '/folder')",
        "os.mkfifo(o + '/fifo')",
        "os.symlink('file', o + '/link')",
        "os.link(o + '/file', o + '/link')",
        "os.mknod(o + '/device', 0o020666, 259)",
        "socket.socket(socket.AF_UNIX).bind(o + '/socket')",
        "open('/proc/self/comm', 'w')",
    ] {
        harness.check(change, "EACCES");
    }
    let left: Vec<_> = fs::read_dir(&harness.other)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["file"]);
    assert_eq!(fs::read(harness.other.join("file")).unwrap(), b"kept");
}

#[test]
fn everything_is_allowed_in_the_writable_folder() {
    let harness = LandlockHarness::new();
    harness.check("open('file', 'w').write('text')", "4");
    harness.check("os.truncate('file', 2)", "None");
    harness.check("os.mkfifo('fifo')", "None");
    harness.check("os.symlink('file', 'link')", "None");
    harness.check("socket.socket(socket.AF_UNIX).bind('socket')", "None");
    harness.check("os.makedirs('one/two')", "None");
    harness.check("os.mkdir('other')", "None");
    // Moved between folders, not copied.
    harness.check("os.rename('file', 'one/two/file')", "None");
    harness.check("os.link('one/two/file', 'other/file')", "None");
    harness.check("os.rename('one/two', 'other/two')", "None");
    harness.check("open('other/two/file').read()", "te");
    harness.check("os.unlink('other/two/file')", "None");
    harness.check("os.rmdir('other/two')", "None");
}

/// Otherwise a file from outside could be moved to where it can be changed.
#[test]
fn no_file_can_be_moved_between_inside_and_outside() {
    let harness = LandlockHarness::new();
    harness.check("open('file', 'w').write('text')", "4");
    // The same error as between different disks, on which programs copy instead.
    harness.check("os.link(o + '/file', w + '/link')", "EXDEV");
    harness.check("os.rename(o + '/file', w + '/moved')", "EACCES");
    harness.check("os.rename(w + '/file', o + '/moved')", "EACCES");
}

#[test]
fn harmless_devices_can_be_used() {
    let harness = LandlockHarness::new();
    harness.check("open('/dev/null', 'w').write('text')", "4");
    harness.check("len(open('/dev/zero', 'rb').read(8))", "8");
    harness.check("len(open('/dev/urandom', 'rb').read(8))", "8");
    harness.check("open('/dev/full', 'wb', 0).write(b'text')", "ENOSPC");
    harness.check("open('/dev/null').isatty()", "False");
    harness.check(
        "subprocess.run('echo text > /dev/stdout', shell=True).returncode",
        "text\n0",
    );
}

#[test]
fn processes_outside_cannot_be_signalled() {
    let harness = LandlockHarness::new();
    harness.check("os.kill(os.getppid(), 0)", "EPERM");
    harness.check("os.kill(1, 0)", "EPERM");
    harness.check(
        "(lambda child: child.kill() or child.wait())(subprocess.Popen(['sleep', '60']))",
        "-9",
    );
}

#[test]
fn abstract_sockets_outside_cannot_be_connected() {
    let harness = LandlockHarness::new();
    let name = format!("sandbox-landlock-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    harness.check(
        &format!("socket.socket(socket.AF_UNIX).connect('\\0{name}')"),
        "EPERM",
    );
    let script = format!(
        "
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind('\\0{name}-inside'); server.listen(); client.connect('\\0{name}-inside'); print('connected')
"
    );
    assert_eq!(harness.run(&script).stdout, b"connected\n");
}
