//! The init process of a cell: its first process. When it ends, the kernel kills all others.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::atomic::AtomicPtr;

use libc::c_int;

use super::bare::{self, MountCall, ResourceUsage, WaitResult};
use super::clone::{CloneOptions, ProcessStack, clone_sharing_memory};
use super::command_user::CommandUser;
use super::network::CellNetwork;
use super::protocol::{CellMessage, ExecRequest, RemainingProcesses};
use super::seccomp::SeccompFilter;
use super::setup_step::{AtSetupStep, CellSetupError, CellSetupStep};
use super::stub;
use crate::platform_error::Errno;

/// What the init and stub processes of a cell read from the memory that they share with the warden. Descriptors are
/// plain numbers, because the processes have copies of all descriptors that the warden had when it started them.
#[derive(Debug)]
pub(super) struct CellContext {
    pub(super) command_user: CommandUser,
    pub(super) network: CellNetwork,
    /// The files through which a process enters the control groups, if it does not start in its group.
    pub(super) procs_files: Vec<RawFd>,
    /// The control group in which the stub starts.
    pub(super) cgroup_directory: Option<RawFd>,
    pub(super) landlock_rules: Option<RawFd>,
    pub(super) seccomp_filter: Rc<SeccompFilter>,
    /// The socket from which the stub receives the command's standard streams.
    pub(super) stream_socket: RawFd,
    /// The pipe to which both processes write their messages.
    pub(super) message_pipe: RawFd,
    /// The warden's ends of both, which only the warden may keep open: when they are closed, the warden has ended.
    pub(super) warden_ends: [RawFd; 2],
    pub(super) lock: Option<RawFd>,
    /// The `oom_score_adj` file of the warden, which applies to all processes that share its memory.
    pub(super) oom_score_file: RawFd,
    /// Valid once the streams have been received.
    pub(super) exec_request: AtomicPtr<ExecRequest>,
    pub(super) stacks: CellStacks,
}

/// The stacks of the init and stub processes of a cell.
#[derive(Debug)]
pub(super) struct CellStacks {
    init: ProcessStack,
    stub: ProcessStack,
}

impl CellStacks {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            init: ProcessStack::new()?,
            stub: ProcessStack::new()?,
        })
    }
}

/// The new namespaces of every cell. The network and uts namespaces are the warden's, because no command can leave
/// anything in them. The ipc namespace is the warden's as long as it is empty. The stub creates the cgroup namespace,
/// after it has entered the group.
const NAMESPACES: c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS;

impl CellContext {
    /// Starts the init process.
    ///
    /// # Safety
    ///
    /// The context must exist until that process and all others of the cell have ended.
    pub(super) unsafe fn start_init(&self) -> Result<i32, CellSetupError> {
        let options = CloneOptions {
            namespaces: NAMESPACES,
            cgroup_directory: None,
        };
        // SAFETY: the caller keeps the context, and the warden changes nothing in it except the exec request.
        unsafe { clone_sharing_memory(options, &self.stacks.init, run, self) }.at(CellSetupStep::StartInit)
    }

    fn send(&self, message: CellMessage) {
        // If the message is lost, the warden notices that the pipe is closed.
        let _ = bare::write(self.message_pipe, &message.encode());
    }

    pub(super) fn fail(&self, error: CellSetupError) -> ! {
        self.send(CellMessage::Failed(error));
        bare::exit(127)
    }

    pub(super) fn report_ready(&self) {
        self.send(CellMessage::Ready);
    }
}

/// Runs in the new namespaces.
extern "C" fn run(context: &CellContext) -> ! {
    match set_up_namespaces(context).and_then(|()| start_stub(context)) {
        Ok(command) => wait_for_command(context, command),
        Err(error) => context.fail(error),
    }
}

fn set_up_namespaces(context: &CellContext) -> Result<(), CellSetupError> {
    for end in context.warden_ends {
        bare::close(end).at(CellSetupStep::DeathSignal)?;
    }
    bare::die_with_parent().at(CellSetupStep::DeathSignal)?;
    // The warden may have ended before the parent-death signal was set.
    if bare::is_hung_up(context.stream_socket).at(CellSetupStep::DeathSignal)? {
        bare::exit(1);
    }
    match context.network {
        CellNetwork::Empty => {}
        // Each namespace is used once, because a port stays in use for a while after a task has closed it.
        CellNetwork::Loopback => bare::unshare_namespaces(libc::CLONE_NEWNET)
            .and_then(|()| bare::bring_up_loopback())
            .at(CellSetupStep::JoinNetwork)?,
        CellNetwork::Named(namespace) => bare::join_network(namespace).at(CellSetupStep::JoinNetwork)?,
    }
    PROC_MOUNT.perform().at(CellSetupStep::MountProc)?;
    bind(c"/box/tmp", c"/tmp").at(CellSetupStep::MountTmp)?;
    bind(c"/box/shm", c"/dev/shm").at(CellSetupStep::MountShm)?;
    // This covers the task's file system itself, and so hides its other files, such as the input.
    bind(c"/box/box", c"/box").at(CellSetupStep::MountWorkspace)
}

/// Shows only the processes of the cell, and not the init process.
const PROC_MOUNT: MountCall<'_> = MountCall {
    from: c"proc",
    to: c"/proc",
    kind: Some(c"proc"),
    flags: libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY,
    options: Some(c"hidepid=2"),
};

fn bind(from: &CStr, to: &CStr) -> Result<(), Errno> {
    MountCall {
        from,
        to,
        kind: None,
        flags: libc::MS_BIND,
        options: None,
    }
    .perform()
}

fn start_stub(context: &CellContext) -> Result<i32, CellSetupError> {
    let options = CloneOptions {
        namespaces: 0,
        cgroup_directory: context.cgroup_directory,
    };
    // SAFETY: the context outlives the cell, and both processes make bare calls only.
    unsafe { clone_sharing_memory(options, &context.stacks.stub, stub::run, context) }
        .at(CellSetupStep::StartStub)
}

/// Waits, without privileges, for the command and for every orphan of it.
fn wait_for_command(context: &CellContext, command: i32) -> ! {
    match drop_privileges(context).at(CellSetupStep::DropInitPrivileges) {
        Ok(()) => drop(bare::write(MESSAGE_PIPE, &CellMessage::Ready.encode())),
        Err(error) => context.fail(error),
    }
    let mut used = ResourceUsage::default();
    loop {
        match bare::wait_for_child(0) {
            WaitResult::Ended {
                child,
                status,
                used: by_child,
            } => {
                used = used.combined_with(by_child);
                if child == command {
                    let (remaining, by_others) = reap_remaining();
                    let ended = CellMessage::CommandEnded {
                        status,
                        remaining,
                        used: used.combined_with(by_others),
                    };
                    let _ = bare::write(MESSAGE_PIPE, &ended.encode());
                    bare::exit(0)
                }
            }
            WaitResult::NoneEnded => {}
            WaitResult::NoChild => bare::exit(1),
        }
    }
}

/// The descriptor of the message pipe after all others are closed.
const MESSAGE_PIPE: RawFd = 0;

/// A command must not be able to affect this process, nor to gain anything through it.
fn drop_privileges(context: &CellContext) -> Result<(), Errno> {
    bare::duplicate_descriptor(context.message_pipe, MESSAGE_PIPE)?;
    // The lock is kept open, so that it is held as long as any cell exists.
    bare::duplicate_descriptor(context.lock.unwrap_or(MESSAGE_PIPE), MESSAGE_PIPE + 1)?;
    bare::close_from(MESSAGE_PIPE + 2)?;
    bare::drop_capabilities()?;
    bare::forbid_new_privileges()
}

/// Reaps the processes that have ended, and returns whether others are left. All processes of the cell descend from
/// this one, and orphans become its children, so without children it is alone.
fn reap_remaining() -> (RemainingProcesses, ResourceUsage) {
    let mut used = ResourceUsage::default();
    loop {
        match bare::wait_for_child(libc::WNOHANG) {
            WaitResult::Ended { used: by_child, .. } => used = used.combined_with(by_child),
            WaitResult::NoneEnded => return (RemainingProcesses::Some, used),
            WaitResult::NoChild => return (RemainingProcesses::None, used),
        }
    }
}
