//! The first process of a cell. All others end with it, which the kernel sees to.
#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};

use super::filter::Filter;
use super::landlock::Rules;
use super::loopback;
use super::orders::{Company, Message, Said};
use super::power;
use super::process::{self, Copy, Stack, Waited};
use super::settings::WORKSPACE;
use super::step::{At, Step, StepError};
use super::stub::{self, Stub};
use super::user::Who;
use crate::cgroup::Group;
use crate::wire;

/// Which network the cell is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach<'a> {
    /// The warden's, in which there is nothing.
    Nothing,
    /// Itself.
    Loopback,
    /// What the operator has put there.
    Named(BorrowedFd<'a>),
}

/// What a cell is made with.
#[derive(Clone, Copy)]
pub(super) struct Init<'a> {
    pub(super) who: Who,
    pub(super) reach: Reach<'a>,
    pub(super) group: Option<&'a Group>,
    pub(super) rules: Option<&'a Rules>,
    pub(super) filter: &'a Filter,
    /// Where its failures go, and where the stub listens.
    pub(super) socket: &'a UnixStream,
    /// Where the command's status goes.
    pub(super) status: RawFd,
    pub(super) lock: Option<RawFd>,
    /// For the command's process, until it is the command.
    pub(super) stack: &'a Stack,
}

/// The flags that every cell is started with. In the warden's network and host name no command can leave anything;
/// the control group's namespace comes with the group.
const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWPID
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWIPC);

impl Init<'_> {
    /// Returns the first process of the new cell. What it fails at it says on the socket.
    pub(super) fn start(&self) -> Result<i32, StepError> {
        match process::copy_into(NAMESPACES.bits()).at(Step::Cell)? {
            Copy::Parent { child } => Ok(child),
            Copy::Child => self.run(),
        }
    }

    fn run(&self) -> ! {
        let failed = match self.furnish() {
            Ok(()) => self.hold(),
            Err(error) => error,
        };
        let _ = wire::send(self.socket, &Said::Failed(failed), &mut Vec::new());
        process::exit(1)
    }

    fn furnish(&self) -> Result<(), StepError> {
        power::die_with_parent().at(Step::DeathSignal)?;
        power::hide().at(Step::Hide)?;
        power::reset_signals();
        match self.reach {
            Reach::Nothing => {}
            Reach::Loopback => loopback::make().at(Step::JoinNetwork)?,
            Reach::Named(namespace) => setns(namespace, CloneFlags::CLONE_NEWNET).at(Step::JoinNetwork)?,
        }
        mount_processes().at(Step::MountProcesses)?;
        bind(&format!("{WORKSPACE}/tmp"), "/tmp").at(Step::MountTemporary)?;
        bind(&format!("{WORKSPACE}/shm"), "/dev/shm").at(Step::MountShared)?;
        // Over the task's file system itself: what else lies there (the input) is out of sight.
        bind(&format!("{WORKSPACE}/box"), WORKSPACE).at(Step::MountWorkspace)
    }

    /// Starts the process that becomes the command, and holds the cell until its end. Returns only what kept it from
    /// that.
    fn hold(&self) -> StepError {
        let stub = Stub {
            who: self.who,
            group: self.group,
            rules: self.rules,
            filter: self.filter,
            socket: self.socket,
        };
        let directory = self.group.and_then(Group::directory);
        // SAFETY: `wait` does as it must, and does not return, so the stub stays.
        match unsafe { process::share(directory, self.stack, stub::run, &stub) } {
            Ok(command) => wait(command, self.status, self.lock),
            Err(errno) => StepError {
                step: Step::Stub,
                errno,
            },
        }
    }
}

/// Waits for the command, and for every orphan of it, without any power.
///
/// The stub is at work in this memory at the same time: see [`process::share`].
fn wait(command: i32, status: RawFd, lock: Option<RawFd>) -> ! {
    // A command must not be able to do anything to this process, nor get anything through it.
    let given_up = process::keep_only(status, lock)
        .and_then(|()| process::drop_capabilities())
        .and_then(|()| process::forbid_new_privileges());
    if given_up.is_err() {
        process::exit(1);
    }
    loop {
        match process::wait_for_child(0) {
            Waited::Ended { child, status } if child == command => {
                let company = company();
                process::say(&Message { status, company }.encode());
                process::exit(0)
            }
            Waited::Ended { .. } | Waited::Alive => {}
            Waited::NoChild => process::exit(1),
        }
    }
}

/// Whether there is another process in the cell. All come from its first one, and those whose parents end become its
/// children: if it has none, it is alone.
fn company() -> Company {
    loop {
        match process::wait_for_child(libc::WNOHANG) {
            Waited::Ended { .. } => {}
            Waited::Alive => return Company::Others,
            Waited::NoChild => return Company::Nobody,
        }
    }
}

/// Shows the cell's own processes and no others, and of those not ours.
fn mount_processes() -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mount(Some("proc"), "/proc", Some("proc"), flags, Some("hidepid=2"))
}

fn bind(from: &str, to: &str) -> nix::Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
}
