//! A machine inside this one, with a kernel of its own: Debian's, which has cgroup v2 and nothing but.
//!
//! It lives in memory only, has busybox and what the test brings, and is emulated: no privilege and no help of the
//! processor is needed, and everything takes some ten times as long.

mod account;
mod archive;
mod kernel;
mod program;

use std::fs;
use std::ops::Index;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Said, conclave};
use account::Account;
use archive::Archive;

/// Folders that are there from the start; most of them only to be mounted on.
const FOLDERS: [&str; 9] = [
    "dev",
    "etc",
    "home/user",
    "mnt",
    "proc",
    "run",
    "sys",
    "tmp",
    "var",
];

/// As Debian has them.
const LINKS: [(&str, &str); 4] = [
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
];

const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nuser:x:1000:\n";
const HOSTS: &str = "127.0.0.1 localhost\n127.0.1.1 guest\n";

/// A guest that has yet to be started.
pub struct Guest {
    archive: Archive,
    /// For what is made on the way.
    folder: TempDir,
}

/// One command of the test's, and who runs it.
pub struct Step {
    name: String,
    who: Who,
    command: String,
}

enum Who {
    Root,
    User,
}

impl Step {
    /// A shell's text, run by root in the root group.
    pub fn root(name: &str, command: &str) -> Step {
        Step::by(Who::Root, name, command)
    }

    /// The same, run by an ordinary user (`user`, 1000) in a new group that is delegated to them. A step of root's can
    /// run something without such a group: `su user -c COMMAND`.
    pub fn user(name: &str, command: &str) -> Step {
        Step::by(Who::User, name, command)
    }

    fn by(who: Who, name: &str, command: &str) -> Step {
        Step {
            name: name.to_string(),
            who,
            command: command.to_string(),
        }
    }
}

impl Guest {
    /// With busybox for a shell and for every tool that it can be.
    pub fn new() -> Guest {
        // Beside the binary and not in /tmp, which may be in memory: archives are large.
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new("."))).expect("a folder");
        let mut archive = Archive::default();
        FOLDERS.iter().for_each(|path| archive.folder(path, 0o755));
        archive.folder("root", 0o700);
        archive.folder("usr/sbin", 0o755);
        LINKS.iter().for_each(|(path, target)| archive.link(path, target));
        // The kernel gives it to init, before there is anyone to mount /dev.
        archive.device("dev/console", 0o600, (5, 1));

        let tools = program::well(Command::new("busybox").arg("--list"));
        for tool in tools.lines() {
            archive.link(&format!("usr/bin/{tool}"), "busybox");
        }
        Guest { archive, folder }
            .program("busybox", &program::on_path("busybox"))
            .file("/init", include_str!("guest/init.sh"), 0o755)
            .file("/etc/passwd", ACCOUNTS, 0o644)
            .file("/etc/group", GROUPS, 0o644)
            .file("/etc/hosts", HOSTS, 0o644)
    }

    /// Puts a file of root's there.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) -> Guest {
        self.archive.file(path, mode, content.into());
        self
    }

    /// Puts a program of this machine there, as /usr/bin/NAME, with the libraries that it needs.
    #[must_use]
    pub fn program(mut self, name: &str, binary: &Path) -> Guest {
        for library in program::libraries(binary) {
            let content = fs::read(&library).expect("a library");
            let path = library.to_str().expect("a path in UTF-8");
            self.archive.file(path, 0o755, content);
        }
        let content = program::stripped(binary, self.folder.path());
        self.file(&format!("/usr/bin/{name}"), content, 0o755)
    }

    /// Compiles a C program, as /usr/bin/NAME.
    #[must_use]
    pub fn c_program(self, name: &str, source: &str) -> Guest {
        let content = program::compiled(source, self.folder.path());
        self.file(&format!("/usr/bin/{name}"), content, 0o755)
    }

    /// Gives the ordinary user ids of the guest from 100000 to 165535, and the programs that map them.
    #[must_use]
    pub fn subordinate_ids(mut self) -> Guest {
        for name in ["newuidmap", "newgidmap"] {
            self = self.program(name, &program::on_path(name));
            self.archive.set_mode(&format!("/usr/bin/{name}"), 0o4755);
        }
        ["/etc/subuid", "/etc/subgid"]
            .into_iter()
            .fold(self, |guest, path| guest.file(path, "user:100000:65536\n", 0o644))
    }

    /// Boots, runs one step after the other, and switches off. The test fails, and shows the console, when the guest
    /// breaks down or has not ended in time. How the steps end is for the test to judge.
    pub async fn run(mut self, steps: &[Step], deadline: Duration) -> Ran {
        self.put(steps);
        let [initrd, console, account] =
            ["initrd", "console", "account"].map(|name| self.folder.path().join(name));
        fs::write(&initrd, self.archive.bytes()).expect("an archive");
        let mut qemu = tokio::process::Command::new("qemu-system-x86_64");
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-smp", "2", "-m", "1024"])
            // Both processors in one thread: with a thread for each, a guest on a busy machine was seen to hang, silent,
            // while it booted.
            .args(["-accel", "tcg,thread=single"])
            // With a source of random numbers: whoever asks for some at first would wait for seconds.
            .args(["-cpu", "qemu64,+rdrand"])
            .arg("-kernel")
            .arg(kernel::find())
            .arg("-initrd")
            .arg(&initrd)
            // A busy machine may not tick in time for the kernel to believe in its timer.
            .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"])
            // The first serial line is the kernel's console, the second belongs to init alone.
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-serial")
            .arg(format!("file:{}", account.display()))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let end = match tokio::time::timeout(deadline, qemu.output()).await {
            Ok(output) => {
                let output = output.expect("`qemu-system-x86_64` of qemu-system-x86");
                let stderr = String::from_utf8_lossy(&output.stderr);
                format!("ended with {}: {stderr}", output.status)
            }
            Err(_) => format!("had not ended after {deadline:?}"),
        };
        match Account::read(&fs::read(&account).unwrap_or_default()) {
            Account::Whole(ended) => Ran::of(steps, ended),
            Account::Broken(ended) => {
                let at = steps.get(ended.len()).map_or("the end", |step| &step.name);
                let console = fs::read(&console).unwrap_or_default();
                let console = String::from_utf8_lossy(&console);
                let ran = Ran::of(steps, ended);
                panic!("the guest {end}\nat step '{at}', after {ran:#?}\n---- its console\n{console}");
            }
        }
    }

    fn put(&mut self, steps: &[Step]) {
        let mut list = String::new();
        for (number, step) in steps.iter().enumerate() {
            let who = match step.who {
                Who::Root => "root",
                Who::User => "user",
            };
            list += &format!("{number} {who}\n");
            let script = format!("#!/bin/sh\n{}\n", step.command);
            self.archive
                .file(&format!("steps/{number}"), 0o755, script.into());
        }
        self.archive.file("steps/all", 0o644, list.into());
    }
}

impl Default for Guest {
    fn default() -> Guest {
        Guest::new()
    }
}

/// How each step ended, by its name.
#[derive(Debug)]
pub struct Ran(Vec<(String, Said)>);

impl Ran {
    fn of(steps: &[Step], ended: Vec<Said>) -> Ran {
        let names = steps.iter().map(|step| step.name.clone());
        Ran(names.zip(ended).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Said)> {
        self.0.iter().map(|(name, said)| (name.as_str(), said))
    }
}

impl Index<&str> for Ran {
    type Output = Said;

    fn index(&self, name: &str) -> &Said {
        let found = self.iter().find(|(step, _)| *step == name);
        found.map_or_else(|| panic!("there is no step '{name}'"), |(_, said)| said)
    }
}
