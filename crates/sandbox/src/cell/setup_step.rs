//! The steps of setting up a cell. If one fails, the cell does not run anything.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::platform_error::Errno;

/// The step of setting up a cell that failed, and its `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}")]
pub struct CellSetupError {
    pub step: CellSetupStep,
    #[source]
    pub errno: Errno,
}

/// A step of setting up a cell, from the warden's namespaces to the exec of the command; the variants are in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CellSetupStep {
    // Done by the warden, once.
    RaiseOpenFileLimit,
    UserNamespace,
    MapUser,
    NetworkNamespace,
    OpenNetwork,
    HostName,
    MountNamespace,
    IpcNamespace,
    PrivateMounts,
    OpenRootEntry,
    MountRoot,
    FillRoot,
    MountRootEntry,
    MountDevice,
    PivotRoot,
    LeaveOldRoot,
    MakeRootReadOnly,
    BoundingSet,
    HideMemory,
    CoreDumps,
    // Done by the warden, for each task.
    MountTask,
    CreateTaskFolders,
    ResizeTask,
    AllocateFiles,
    ClearTask,
    HandOverFiles,
    OpenWorkspace,
    // Done by the init process of the cell.
    StartInit,
    DeathSignal,
    JoinNetwork,
    MountProc,
    MountTmp,
    MountShm,
    MountWorkspace,
    StartStub,
    DropInitPrivileges,
    // Done by the stub, in the order in which it drops privileges.
    Signals,
    EnterCgroup,
    CgroupNamespace,
    Session,
    SetGroup,
    SetUser,
    Capabilities,
    NoNewPrivileges,
    Landlock,
    Seccomp,
    // Done by the stub, after it got the exec request.
    ReceiveExecRequest,
    ConnectStreams,
    OomScore,
    CloseDescriptors,
    ChangeDirectory,
    Rlimit,
    Execute,
    // Done by the warden, while a cell exists.
    Communicate,
    Wait,
}

impl CellSetupStep {
    /// The step with this index in the declaration.
    pub(super) fn from_index(number: u8) -> Option<CellSetupStep> {
        // Postcard encodes a variant without fields as its index.
        postcard::from_bytes(&[number]).ok()
    }
}

impl fmt::Display for CellSetupStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RaiseOpenFileLimit => "raise the limit on open files",
            Self::UserNamespace => "create a user namespace",
            Self::MapUser => "map the user into its namespace",
            Self::NetworkNamespace => "create a network namespace",
            Self::OpenNetwork => "open the network namespace of a named network",
            Self::IpcNamespace => "create an ipc namespace",
            Self::MountNamespace => "create a mount namespace",
            Self::PrivateMounts => "make its mounts private",
            Self::OpenRootEntry => "open an entry of the cells' root",
            Self::MountRoot => "mount the cells' root",
            Self::FillRoot => "create the files of the cells' root",
            Self::MountRootEntry => "mount an entry of the cells' root",
            Self::MountDevice => "mount a device",
            Self::PivotRoot => "pivot to the cells' root",
            Self::LeaveOldRoot => "unmount the host's root",
            Self::MakeRootReadOnly => "make the cells' root read-only",
            Self::HideMemory => "hide the warden's memory",
            Self::MountTask => "mount the task's file system",
            Self::CreateTaskFolders => "create the task's folders",
            Self::ResizeTask => "set the size of the task's file system",
            Self::AllocateFiles => "allocate the task's files in its control group",
            Self::ClearTask => "unmount the task's file system",
            Self::HandOverFiles => "hand the task's files over to its user",
            Self::OpenWorkspace => "open the task's workspace",
            Self::StartInit => "start the init process of a cell",
            Self::DeathSignal => "set the parent-death signal of the cell",
            Self::JoinNetwork => "join the network",
            Self::HostName => "set the host name",
            Self::MountProc => "mount /proc",
            Self::MountTmp => "mount /tmp",
            Self::MountShm => "mount /dev/shm",
            Self::MountWorkspace => "mount the workspace",
            Self::StartStub => "start the command's process",
            Self::DropInitPrivileges => "drop the privileges of the cell's init process",
            Self::Signals => "reset signals",
            Self::EnterCgroup => "enter the control group",
            Self::CgroupNamespace => "create a cgroup namespace",
            Self::Session => "start a session",
            Self::CoreDumps => "forbid core dumps",
            Self::BoundingSet => "drop the capability bounding set",
            Self::SetGroup => "change to the command's group",
            Self::SetUser => "change to the command's user",
            Self::Capabilities => "drop the capabilities",
            Self::NoNewPrivileges => "forbid new privileges",
            Self::Landlock => "apply the Landlock rules",
            Self::Seccomp => "install the seccomp filter",
            Self::ReceiveExecRequest => "receive the command",
            Self::OomScore => "set the OOM score",
            Self::CloseDescriptors => "close the warden's descriptors",
            Self::Rlimit => "set the resource limits",
            Self::ConnectStreams => "connect the standard streams",
            Self::ChangeDirectory => "enter the working directory",
            Self::Execute => "execute the program",
            Self::Communicate => "communicate with the cell",
            Self::Wait => "wait for the cell",
        })
    }
}

/// Turns the error of a failed system call into a [`CellSetupError`] by adding the step of the cell setup.
pub(crate) trait AtSetupStep<T> {
    fn at(self, step: CellSetupStep) -> Result<T, CellSetupError>;
}

impl<T, E: Into<Errno>> AtSetupStep<T> for Result<T, E> {
    fn at(self, step: CellSetupStep) -> Result<T, CellSetupError> {
        self.map_err(|error| CellSetupError {
            step,
            errno: error.into(),
        })
    }
}
