//! The steps of making a cell: each can fail, and then its name says which wall would be missing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fault::Errno;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}")]
pub struct StepError {
    pub step: Step,
    #[source]
    pub errno: Errno,
}

/// In the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    // The warden's, once.
    OpenFiles,
    UserNamespace,
    MapUser,
    NetworkNamespace,
    OpenNetwork,
    HostName,
    MountNamespace,
    IpcNamespace,
    PrivateMounts,
    OpenPart,
    MountRoot,
    MakeRoot,
    MountPart,
    MountDevice,
    PivotRoot,
    LeaveOldRoot,
    SealRoot,
    BoundingSet,
    Hide,
    CoreDumps,
    // The warden's, for each task.
    MountTask,
    MakeFolders,
    ResizeTask,
    Charge,
    ClearTask,
    HandOver,
    // The cell's.
    Cell,
    DeathSignal,
    JoinNetwork,
    MountProcesses,
    MountTemporary,
    MountShared,
    MountWorkspace,
    Stub,
    GiveUp,
    // The command's, in the order in which it gives up power.
    Signals,
    EnterGroup,
    GroupNamespace,
    Session,
    Group,
    User,
    Capabilities,
    NoNewPrivileges,
    Landlock,
    Seccomp,
    // With its orders.
    Orders,
    Streams,
    OutOfMemory,
    CloseDescriptors,
    ChangeDirectory,
    Rlimit,
    Execute,
    // To the warden again.
    Talk,
    Wait,
}

impl Step {
    /// By its place in the order.
    pub(super) fn numbered(number: u8) -> Option<Step> {
        // That is how the format numbers what has names.
        postcard::from_bytes(&[number]).ok()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenFiles => "raise the limit on open files",
            Self::UserNamespace => "make a user namespace",
            Self::MapUser => "map the user into its namespace",
            Self::NetworkNamespace => "make a network namespace",
            Self::OpenNetwork => "open a named network's namespace",
            Self::IpcNamespace => "make a namespace for shared memory and queues",
            Self::MountNamespace => "make a mount namespace",
            Self::PrivateMounts => "keep mounts to itself",
            Self::OpenPart => "open a part of the cells' root",
            Self::MountRoot => "mount the cells' root",
            Self::MakeRoot => "fill the cells' root",
            Self::MountPart => "mount a part of the cells' root",
            Self::MountDevice => "mount a device",
            Self::PivotRoot => "change to the cells' root",
            Self::LeaveOldRoot => "leave the host's root",
            Self::SealRoot => "make the cells' root read-only",
            Self::Hide => "hide the warden's memory",
            Self::MountTask => "mount the task's file system",
            Self::MakeFolders => "make the task's folders",
            Self::ResizeTask => "set the size of the task's file system",
            Self::Charge => "allocate the task's files in its control group",
            Self::ClearTask => "unmount the task's file system",
            Self::HandOver => "hand the task's files over to its user",
            Self::Cell => "start a process in namespaces of its own",
            Self::DeathSignal => "tie the cell's life to the warden's",
            Self::JoinNetwork => "join the network",
            Self::HostName => "set the host name",
            Self::MountProcesses => "mount /proc",
            Self::MountTemporary => "mount /tmp",
            Self::MountShared => "mount /dev/shm",
            Self::MountWorkspace => "mount the workspace",
            Self::Stub => "start the command's process",
            Self::GiveUp => "give up the power of the cell's first process",
            Self::Signals => "reset signals",
            Self::EnterGroup => "enter the control group",
            Self::GroupNamespace => "make a control group namespace",
            Self::Session => "start a session",
            Self::CoreDumps => "forbid core dumps",
            Self::BoundingSet => "bound the capabilities",
            Self::Group => "change to the command's group",
            Self::User => "change to the command's user",
            Self::Capabilities => "drop the capabilities",
            Self::NoNewPrivileges => "forbid new privileges",
            Self::Landlock => "restrict files by Landlock",
            Self::Seccomp => "filter system calls",
            Self::Orders => "take orders",
            Self::OutOfMemory => "be the first to go when the machine is out of memory",
            Self::CloseDescriptors => "close what the warden has open",
            Self::Rlimit => "set limits",
            Self::Streams => "connect the standard streams",
            Self::ChangeDirectory => "enter the working directory",
            Self::Execute => "execute the program",
            Self::Talk => "talk to the cell",
            Self::Wait => "wait for the cell",
        })
    }
}

/// Names the step at which a call failed.
pub(crate) trait At<T> {
    fn at(self, step: Step) -> Result<T, StepError>;
}

impl<T, E: Into<Errno>> At<T> for Result<T, E> {
    fn at(self, step: Step) -> Result<T, StepError> {
        self.map_err(|error| StepError {
            step,
            errno: error.into(),
        })
    }
}
