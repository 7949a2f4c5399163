//! A virtual machine with Debian's kernel and cgroup v2 only.
//!
//! It runs from memory with busybox and the programs that the test adds. qemu emulates the processor, so it needs neither
//! privileges nor hardware virtualisation, and everything takes about ten times as long.

mod cpio_archive;
mod kernel;
mod program;
mod transcript;

use std::fs;
use std::ops::Index;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{CommandOutput, conclave};
use cpio_archive::CpioArchive;
use transcript::GuestTranscript;

/// The initial folders, most of them mount points.
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

/// The symbolic links of Debian's merged /usr.
const LINKS: [(&str, &str); 4] = [
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
];

const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nuser:x:1000:\n";
const HOSTS: &str = "127.0.0.1 localhost\n127.0.1.1 guest\n";

/// A virtual machine, not yet started, in which a test runs commands on Debian's kernel with cgroup v2 only.
pub struct GuestMachine {
    archive: CpioArchive,
    /// Holds intermediate files.
    folder: TempDir,
}

/// A command that a test runs in a virtual machine, and its user.
pub struct GuestCommand {
    name: String,
    who: GuestUser,
    command: String,
}

/// The user that runs a command of a test in a virtual machine.
enum GuestUser {
    Root,
    User,
}

impl GuestCommand {
    /// A shell script that root runs in the root control group.
    pub fn root(name: &str, command: &str) -> GuestCommand {
        GuestCommand::by(GuestUser::Root, name, command)
    }

    /// A shell script that an ordinary user (`user`, 1000) runs in a new control group that is delegated to that user. For
    /// a command without delegation, root runs `su user -c COMMAND`.
    pub fn user(name: &str, command: &str) -> GuestCommand {
        GuestCommand::by(GuestUser::User, name, command)
    }

    fn by(who: GuestUser, name: &str, command: &str) -> GuestCommand {
        GuestCommand {
            name: name.to_string(),
            who,
            command: command.to_string(),
        }
    }
}

impl GuestMachine {
    /// A guest with busybox as shell and for all its tools.
    pub fn new() -> GuestMachine {
        // In the target folder instead of /tmp, which may be a tmpfs: archives are large.
        let beside = conclave();
        let folder = TempDir::new_in(beside.parent().unwrap_or(Path::new("."))).expect("a folder");
        let mut archive = CpioArchive::default();
        FOLDERS.iter().for_each(|path| archive.folder(path, 0o755));
        archive.folder("root", 0o700);
        archive.folder("usr/sbin", 0o755);
        LINKS.iter().for_each(|(path, target)| archive.link(path, target));
        // The kernel opens it for init before /dev is mounted.
        archive.device("dev/console", 0o600, (5, 1));

        let tools = program::output_of(Command::new("busybox").arg("--list"));
        for tool in tools.lines() {
            archive.link(&format!("usr/bin/{tool}"), "busybox");
        }
        GuestMachine { archive, folder }
            .program("busybox", &program::find_on_path("busybox"))
            .file("/init", include_str!("guest_machine/init.sh"), 0o755)
            .file("/etc/passwd", ACCOUNTS, 0o644)
            .file("/etc/group", GROUPS, 0o644)
            .file("/etc/hosts", HOSTS, 0o644)
    }

    /// Adds a file that root owns.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) -> GuestMachine {
        self.archive.file(path, mode, content.into());
        self
    }

    /// Adds a program of this machine as /usr/bin/NAME, with its shared libraries.
    #[must_use]
    pub fn program(mut self, name: &str, binary: &Path) -> GuestMachine {
        for library in program::libraries(binary) {
            let content = fs::read(&library).expect("a library");
            let path = library.to_str().expect("a path in UTF-8");
            self.archive.file(path, 0o755, content);
        }
        let content = program::stripped(binary, self.folder.path());
        self.file(&format!("/usr/bin/{name}"), content, 0o755)
    }

    /// Compiles a C program and adds it as /usr/bin/NAME.
    #[must_use]
    pub fn c_program(self, name: &str, source: &str) -> GuestMachine {
        let content = program::compiled(source, self.folder.path());
        self.file(&format!("/usr/bin/{name}"), content, 0o755)
    }

    /// Gives the ordinary user the subordinate ids 100000 to 165535, and adds newuidmap and newgidmap.
    #[must_use]
    pub fn subordinate_ids(mut self) -> GuestMachine {
        for name in ["newuidmap", "newgidmap"] {
            self = self.program(name, &program::find_on_path(name));
            self.archive.set_mode(&format!("/usr/bin/{name}"), 0o4755);
        }
        ["/etc/subuid", "/etc/subgid"]
            .into_iter()
            .fold(self, |guest, path| guest.file(path, "user:100000:65536\n", 0o644))
    }

    /// Boots the guest, runs the commands in order, and shuts it down. Panics with the console's output if the guest
    /// crashes or exceeds the deadline. The test judges how each command ended.
    pub async fn run(mut self, steps: &[GuestCommand], deadline: Duration) -> GuestOutputs {
        self.add_commands(steps);
        let [initrd, console, account] =
            ["initrd", "console", "account"].map(|name| self.folder.path().join(name));
        fs::write(&initrd, self.archive.bytes()).expect("an archive");
        let mut qemu = tokio::process::Command::new("qemu-system-x86_64");
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-smp", "2", "-m", "1024"])
            // Both virtual CPUs in one thread: with a thread for each, guests on a busy machine sometimes hung at boot.
            .args(["-accel", "tcg,thread=single"])
            // rdrand: without a source of random numbers, the first reads block for seconds.
            .args(["-cpu", "qemu64,+rdrand"])
            .arg("-kernel")
            .arg(kernel::find())
            .arg("-initrd")
            .arg(&initrd)
            // On a busy machine the kernel's timer check may fail.
            .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"])
            // The first serial port is the kernel's console, the second is for init's transcript only.
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
        match GuestTranscript::parse(&fs::read(&account).unwrap_or_default()) {
            GuestTranscript::Complete(ended) => GuestOutputs::of(steps, ended),
            GuestTranscript::Interrupted(ended) => {
                let at = steps.get(ended.len()).map_or("the end", |step| &step.name);
                let console = fs::read(&console).unwrap_or_default();
                let console = String::from_utf8_lossy(&console);
                let ran = GuestOutputs::of(steps, ended);
                panic!("the guest {end}\nat command '{at}', after {ran:#?}\n---- its console\n{console}");
            }
        }
    }

    fn add_commands(&mut self, steps: &[GuestCommand]) {
        let mut list = String::new();
        for (number, step) in steps.iter().enumerate() {
            let who = match step.who {
                GuestUser::Root => "root",
                GuestUser::User => "user",
            };
            list += &format!("{number} {who}\n");
            let script = format!("#!/bin/sh\n{}\n", step.command);
            self.archive
                .file(&format!("steps/{number}"), 0o755, script.into());
        }
        self.archive.file("steps/all", 0o644, list.into());
    }
}

impl Default for GuestMachine {
    fn default() -> GuestMachine {
        GuestMachine::new()
    }
}

/// The output and exit code of each command that a test ran in a virtual machine, by the command's name.
#[derive(Debug)]
pub struct GuestOutputs(Vec<(String, CommandOutput)>);

impl GuestOutputs {
    fn of(steps: &[GuestCommand], ended: Vec<CommandOutput>) -> GuestOutputs {
        let names = steps.iter().map(|step| step.name.clone());
        GuestOutputs(names.zip(ended).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &CommandOutput)> {
        self.0.iter().map(|(name, said)| (name.as_str(), said))
    }
}

impl Index<&str> for GuestOutputs {
    type Output = CommandOutput;

    fn index(&self, name: &str) -> &CommandOutput {
        let found = self.iter().find(|(step, _)| *step == name);
        found.map_or_else(|| panic!("there is no command '{name}'"), |(_, said)| said)
    }
}
