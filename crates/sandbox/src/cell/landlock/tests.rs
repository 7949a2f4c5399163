//! Real processes behind the real wall. As root they have every capability, which must not help them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use super::{Rules, SharedFolders, version};
use crate::cell::bare;

/// Two folders, of which processes may write to the first.
struct Stage {
    _folder: tempfile::TempDir,
    writable: PathBuf,
    other: PathBuf,
}

impl Stage {
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

    /// The script finds the folders in `writable` and `other`.
    fn run(&self, script: &str) -> Output {
        let shared = SharedFolders::open().unwrap().unwrap();
        let rules = Rules::new(&shared, &[&self.writable], None).unwrap().unwrap();
        let confine = move || {
            // SAFETY: numbers only.
            if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            bare::restrict_files(rules.as_raw_fd()).map_err(|errno| io::Error::from_raw_os_error(errno.0))
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
        // SAFETY: makes two system calls and nothing else.
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
fn all_can_be_read_and_executed() {
    let stage = Stage::new();
    stage.check("open(o + '/file').read()", "kept");
    stage.check("os.listdir(o)", "['file']");
    stage.check("subprocess.run(['/bin/sh', '-c', 'exit 3']).returncode", "3");
}

#[test]
fn nothing_is_changed_outside() {
    let stage = Stage::new();
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
        stage.check(change, "EACCES");
    }
    let left: Vec<_> = fs::read_dir(&stage.other)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["file"]);
    assert_eq!(fs::read(stage.other.join("file")).unwrap(), b"kept");
}

#[test]
fn all_can_be_done_where_it_is_allowed() {
    let stage = Stage::new();
    stage.check("open('file', 'w').write('text')", "4");
    stage.check("os.truncate('file', 2)", "None");
    stage.check("os.mkfifo('fifo')", "None");
    stage.check("os.symlink('file', 'link')", "None");
    stage.check("socket.socket(socket.AF_UNIX).bind('socket')", "None");
    stage.check("os.makedirs('one/two')", "None");
    stage.check("os.mkdir('other')", "None");
    // Moved, not copied, from one folder to another.
    stage.check("os.rename('file', 'one/two/file')", "None");
    stage.check("os.link('one/two/file', 'other/file')", "None");
    stage.check("os.rename('one/two', 'other/two')", "None");
    stage.check("open('other/two/file').read()", "te");
    stage.check("os.unlink('other/two/file')", "None");
    stage.check("os.rmdir('other/two')", "None");
}

/// Or a file from outside could be put where it can be changed.
#[test]
fn nothing_is_moved_across() {
    let stage = Stage::new();
    stage.check("open('file', 'w').write('text')", "4");
    // As if they were on different disks; programs then copy.
    stage.check("os.link(o + '/file', w + '/link')", "EXDEV");
    stage.check("os.rename(o + '/file', w + '/moved')", "EACCES");
    stage.check("os.rename(w + '/file', o + '/moved')", "EACCES");
}

#[test]
fn devices_of_no_consequence_can_be_used() {
    let stage = Stage::new();
    stage.check("open('/dev/null', 'w').write('text')", "4");
    stage.check("len(open('/dev/zero', 'rb').read(8))", "8");
    stage.check("len(open('/dev/urandom', 'rb').read(8))", "8");
    stage.check("open('/dev/full', 'wb', 0).write(b'text')", "ENOSPC");
    stage.check("open('/dev/null').isatty()", "False");
    stage.check(
        "subprocess.run('echo text > /dev/stdout', shell=True).returncode",
        "text\n0",
    );
}

#[test]
fn processes_outside_get_no_signals() {
    let stage = Stage::new();
    stage.check("os.kill(os.getppid(), 0)", "EPERM");
    stage.check("os.kill(1, 0)", "EPERM");
    stage.check(
        "(lambda child: child.kill() or child.wait())(subprocess.Popen(['sleep', '60']))",
        "-9",
    );
}

#[test]
fn nameless_sockets_outside_are_out_of_reach() {
    let stage = Stage::new();
    let name = format!("sandbox-landlock-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    stage.check(
        &format!("socket.socket(socket.AF_UNIX).connect('\\0{name}')"),
        "EPERM",
    );
    let script = format!(
        "
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind('\\0{name}-inside'); server.listen(); client.connect('\\0{name}-inside'); print('connected')
"
    );
    assert_eq!(stage.run(&script).stdout, b"connected\n");
}
