//! The first process of a cell. All others end with it, which the kernel sees to.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};
use nix::unistd::sethostname;

use super::loopback;
use super::orders::Said;
use super::power;
use super::process::{self, Copy};
use super::settings::WORKSPACE;
use super::step::{At, Step, StepError};
use super::stub::{self, Stub};
use super::user::Who;
use crate::cgroup::Group;
use crate::wire;

use super::filter::Filter;

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
pub(super) struct Init<'a> {
    pub(super) who: Who,
    pub(super) reach: Reach<'a>,
    pub(super) group: Option<&'a Group>,
    pub(super) filter: &'a Filter,
    /// Where its failures go, and where the stub listens.
    pub(super) socket: UnixStream,
    /// Where the command's status goes.
    pub(super) status: OwnedFd,
    pub(super) lock: Option<RawFd>,
}

impl Init<'_> {
    /// In the new namespaces.
    pub(super) fn run(mut self) -> ! {
        let failed = match self.furnish() {
            Ok(child) => self.wait(child),
            Err(error) => error,
        };
        let _ = wire::send(&self.socket, &Said::Failed(failed), &mut Vec::new());
        process::exit(1)
    }

    fn furnish(&mut self) -> Result<i32, StepError> {
        power::die_with_parent().at(Step::DeathSignal)?;
        match self.reach {
            Reach::Nothing => {}
            Reach::Loopback => loopback::make().at(Step::JoinNetwork)?,
            Reach::Named(namespace) => setns(namespace, CloneFlags::CLONE_NEWNET).at(Step::JoinNetwork)?,
        }
        sethostname("cell").at(Step::HostName)?;
        mount_processes().at(Step::MountProcesses)?;
        bind(&format!("{WORKSPACE}/tmp"), "/tmp").at(Step::MountTemporary)?;
        bind(&format!("{WORKSPACE}/shm"), "/dev/shm").at(Step::MountShared)?;
        // Over the task's file system itself: what else lies there (the input) is out of sight.
        bind(&format!("{WORKSPACE}/box"), WORKSPACE).at(Step::MountWorkspace)?;

        let copied = match self.group.and_then(Group::directory) {
            Some(directory) => process::copy_into_group(directory),
            None => process::copy_into(0),
        };
        match copied.at(Step::Stub)? {
            Copy::Parent { child } => Ok(child),
            Copy::Child => stub::run(Stub {
                who: self.who,
                group: self.group,
                filter: self.filter,
                socket: &self.socket,
            }),
        }
    }

    /// Waits for the command, and for every orphan of it.
    fn wait(&mut self, command: i32) -> StepError {
        // A command must not be able to do anything to this process, nor get anything through it.
        if let Err(error) = power::keep_only(self.status.as_fd(), self.lock).at(Step::Streams) {
            return error;
        }
        match power::give_up().at(Step::Capabilities) {
            Ok(()) => {}
            Err(error) => return error,
        }
        loop {
            match power::wait_for_any() {
                Ok((ended, status)) if ended == command => {
                    // The first descriptor is the pipe now. Whether it can be written or not, it is over.
                    let _ = power::first_descriptor().write_all(&status.to_ne_bytes());
                    process::exit(0)
                }
                Ok(_) => {}
                Err(_) => process::exit(1),
            }
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
