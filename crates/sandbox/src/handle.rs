//! The owner's side of a warden.

use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use crate::cell::FileAllocation;
use crate::open_beneath::OpenPurpose;
use crate::outcome::{CommandEndReason, CommandOutcome};
use crate::output::{LiveOutput, LongStreams, OwnerOutput};
use crate::passed_streams::PassedStreams;
use crate::pidfd::PidFd;
use crate::platform_error::{Errno, PlatformError};
use crate::spec::{CommandSpec, CommandSpecError};
use crate::wire::descriptors::DescriptorReceiver;
use crate::wire::{self, AfterRun, WardenRequest, WardenResponse};

mod control;

use control::WardenChannel;
pub use control::{RunHandle, WardenControl};

/// A running warden process, with which its owner (the process that started it, such as an executor) runs commands.
/// Dropping it ends the warden and its command and waits until both are gone.
#[derive(Debug)]
pub struct Warden {
    child: Child,
    socket: UnixStream,
    channel: Arc<WardenChannel>,
    output: Arc<OwnerOutput>,
    buffer: Vec<u8>,
    /// Where the files of the next command go, if commands run in cells.
    folder: TaskFolder,
    /// The space of a new task folder, in bytes.
    default_space: u64,
    /// The space of the current task folder: how many bytes its files may have together.
    space: u64,
    /// The numbers of the last run handle created and of the last one used.
    last_created: u64,
    last_used: u64,
}

/// What the launcher has after the handshake with a new warden.
pub(crate) struct StartedWarden {
    pub(crate) child: Child,
    pub(crate) socket: UnixStream,
    pub(crate) urgent_socket: OwnedFd,
    pub(crate) output: OwnerOutput,
    /// The folder of the first task, if commands run in cells.
    pub(crate) folder: Option<OwnedFd>,
    /// The space of a task until the owner sets another one.
    pub(crate) default_space: u64,
}

/// Whether the warden's owner (the executor) has a descriptor of the folder for the files of the current task.
#[derive(Debug)]
enum TaskFolder {
    /// Commands run without cells, so there is no folder.
    Unused,
    /// The warden is preparing a new folder and will send its descriptor.
    Preparing,
    Ready(OwnedFd),
}

/// Why a warden could not run a command or serve another request of its owner.
#[derive(Debug, thiserror::Error)]
pub enum WardenError {
    #[error("the command is invalid")]
    Spec(#[from] CommandSpecError),
    #[error("the run handle belongs to another warden or was already used; create a new one for each run")]
    StaleRunHandle,
    /// The warden was killed or failed. Processes of its command may still be alive: see [`crate::kill_orphans`].
    #[error("the warden died ({status}); start another one")]
    Died { status: ExitStatus },
    #[error("the connection to the warden failed; start another one")]
    Socket(#[source] io::Error),
    #[error("cannot create a file for long output")]
    OverflowFile(#[source] io::Error),
    #[error("the warden could not run the command")]
    Run(#[from] PlatformError),
    #[error("the warden could not prepare for the next task; start another one")]
    NotReady(#[source] PlatformError),
}

impl WardenError {
    /// Whether the warden can run nothing more and must be replaced.
    pub fn is_warden_lost(&self) -> bool {
        matches!(self, Self::Died { .. } | Self::Socket(_) | Self::NotReady(_))
    }
}

impl Warden {
    pub(crate) fn new(started: StartedWarden) -> Self {
        let channel = WardenChannel {
            urgent_socket: started.urgent_socket,
            process: PidFd::open(started.child.id() as i32).ok(),
        };
        Self {
            child: started.child,
            socket: started.socket,
            channel: Arc::new(channel),
            output: Arc::new(started.output),
            buffer: Vec::new(),
            folder: started.folder.map_or(TaskFolder::Unused, TaskFolder::Ready),
            default_space: started.default_space,
            space: started.default_space,
            last_created: 0,
            last_used: 0,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn control(&self) -> WardenControl {
        WardenControl {
            channel: Arc::clone(&self.channel),
        }
    }

    /// Reads the output of commands while they run. It can be used for all runs of this warden.
    pub fn live_output(&self) -> LiveOutput {
        LiveOutput::new(Arc::clone(&self.output))
    }

    /// Creates the handle of the next run. A handle may remain unused, for example if it was killed before its run
    /// started.
    pub fn new_run(&mut self) -> RunHandle {
        self.last_created += 1;
        RunHandle {
            number: self.last_created,
            channel: Arc::clone(&self.channel),
        }
    }

    /// Runs a command and blocks until no process of it is left.
    pub fn run(&mut self, run_handle: &RunHandle, spec: &CommandSpec) -> Result<CommandOutcome, WardenError> {
        self.run_with_streams(run_handle, spec, PassedStreams::default())
    }

    /// Like [`Warden::run`], with descriptors in place of some of the command's streams.
    pub fn run_with_streams(
        &mut self,
        run_handle: &RunHandle,
        spec: &CommandSpec,
        streams: PassedStreams,
    ) -> Result<CommandOutcome, WardenError> {
        self.run_and_then(run_handle, spec, streams, AfterRun::KeepTask)
    }

    /// Like [`Warden::run`], for the last command of a task. If it returns an outcome, the warden prepares for the
    /// next task without a call of [`Warden::reset_for_next_task`].
    pub fn run_last(
        &mut self,
        run_handle: &RunHandle,
        spec: &CommandSpec,
    ) -> Result<CommandOutcome, WardenError> {
        self.run_last_with_streams(run_handle, spec, PassedStreams::default())
    }

    /// Like [`Warden::run_last`], with descriptors in place of some of the command's streams.
    pub fn run_last_with_streams(
        &mut self,
        run_handle: &RunHandle,
        spec: &CommandSpec,
        streams: PassedStreams,
    ) -> Result<CommandOutcome, WardenError> {
        let after = match self.folder {
            TaskFolder::Unused => AfterRun::KeepTask,
            TaskFolder::Preparing | TaskFolder::Ready(_) => AfterRun::ResetForNextTask,
        };
        let outcome = self.run_and_then(run_handle, spec, streams, after)?;
        if after == AfterRun::ResetForNextTask {
            self.expect_folder();
        }
        Ok(outcome)
    }

    fn run_and_then(
        &mut self,
        run_handle: &RunHandle,
        spec: &CommandSpec,
        streams: PassedStreams,
        after: AfterRun,
    ) -> Result<CommandOutcome, WardenError> {
        spec.check()?;
        streams.check(spec)?;
        if !Arc::ptr_eq(&run_handle.channel, &self.channel) || run_handle.number <= self.last_used {
            return Err(WardenError::StaleRunHandle);
        }
        self.last_used = run_handle.number;
        self.wait_until_ready()?;
        self.output.begin_run(run_handle.number);
        let request = WardenRequest::Run {
            number: run_handle.number,
            spec,
            attachments: streams.attachments(),
            after,
        };
        let sent = self.send_with_descriptors(&request, &streams.descriptors());
        // As long as a copy is open here, the other end of a pipe does not notice the end of the command.
        drop(streams);
        let outcome = sent.and_then(|()| self.receive_outcome(run_handle, spec));
        self.output.end_run(run_handle.number);
        outcome
    }

    /// Receives the outcome of a run, and writes long output to files until then.
    fn receive_outcome(
        &mut self,
        run_handle: &RunHandle,
        spec: &CommandSpec,
    ) -> Result<CommandOutcome, WardenError> {
        let output = Arc::clone(&self.output);
        let mut long_streams = LongStreams::new(&output, spec);
        let mut is_killed = false;
        loop {
            match long_streams.wait_and_read(&self.socket) {
                Ok(true) => {}
                Ok(false) => {
                    if !is_killed && long_streams.exceed_limit() {
                        is_killed = run_handle.kill_for(CommandEndReason::OutputLimit).is_ok();
                    }
                    continue;
                }
                Err(error) => return Err(self.on_broken_socket(error)),
            }
            match self.receive()? {
                (WardenResponse::LongOutput(stream), Some(pipe)) => long_streams.add(stream, pipe),
                (WardenResponse::Ended(mut outcome), _) => {
                    let completed = long_streams.complete(&mut outcome);
                    completed.map_err(WardenError::OverflowFile)?;
                    return Ok(outcome);
                }
                _ => return Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
            }
        }
    }

    /// The folder of the task, if commands run in cells. `box` is the workspace of the commands. They also see `tmp`
    /// and `shm`, and nothing else of the folder. After a command has run, the caller must not follow symbolic links
    /// in it. `None` while the warden prepares the next folder: see [`Warden::wait_until_ready`].
    pub fn task_folder(&self) -> Option<PathBuf> {
        // The folder has no path that the owner can see, so the path goes through the descriptor.
        let path_of = |folder: &OwnedFd| format!("/proc/self/fd/{}", folder.as_raw_fd()).into();
        match &self.folder {
            TaskFolder::Ready(folder) => Some(path_of(folder)),
            TaskFolder::Unused | TaskFolder::Preparing => None,
        }
    }

    /// Limits the total size of the task's files, until [`Warden::reset_for_next_task`]. Without cells this does
    /// nothing.
    pub fn set_task_space(&mut self, bytes: u64) -> Result<(), WardenError> {
        self.wait_until_ready()?;
        // Most tasks use the default space and need no request.
        if matches!(self.folder, TaskFolder::Unused) || bytes == self.space {
            return Ok(());
        }
        match self.request(&WardenRequest::<&CommandSpec>::SetTaskSpace { bytes })? {
            (WardenResponse::Ready, _) => {
                self.space = bytes;
                Ok(())
            }
            _ => Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Charges files of the task to its control group before they are filled, in addition to the memory limit of the
    /// next command. The files must exist. Without cells this does nothing.
    pub fn allocate_files(&mut self, files: Vec<FileAllocation>) -> Result<(), WardenError> {
        self.wait_until_ready()?;
        if matches!(self.folder, TaskFolder::Unused) {
            return Ok(());
        }
        match self.request(&WardenRequest::<&CommandSpec>::AllocateFiles { files })? {
            (WardenResponse::Ready, _) => Ok(()),
            _ => Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Opens a file or folder by its path in the workspace, as [`crate::open_beneath`] does, but with the rights of the warden:
    /// commands may belong to another user than the owner, and may forbid others to read their files. The inner error is
    /// that of the file. Without cells the warden has no more rights than its owner, so every file is refused.
    pub fn open_in_workspace(
        &mut self,
        path: &Path,
        purpose: OpenPurpose,
    ) -> Result<Result<File, Errno>, WardenError> {
        self.wait_until_ready()?;
        if matches!(self.folder, TaskFolder::Unused) {
            return Ok(Err(Errno(libc::EACCES)));
        }
        let path = path.to_path_buf();
        match self.request(&WardenRequest::OpenInWorkspace { path, purpose })? {
            (WardenResponse::Opened, Some(file)) => Ok(Ok(file.into())),
            (WardenResponse::NotOpened(errno), _) => Ok(Err(errno)),
            _ => Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Ends the task: the warden removes its files and prepares another folder. Does not wait for that; the next call
    /// that needs the warden does.
    pub fn reset_for_next_task(&mut self) -> Result<(), WardenError> {
        match self.folder {
            // Without cells there is nothing to prepare.
            TaskFolder::Unused | TaskFolder::Preparing => Ok(()),
            TaskFolder::Ready(_) => {
                self.expect_folder();
                self.send_request(&WardenRequest::ResetForNextTask)
            }
        }
    }

    fn expect_folder(&mut self) {
        self.folder = TaskFolder::Preparing;
        self.space = self.default_space;
    }

    /// Waits until the reset that [`Warden::reset_for_next_task`] began is complete.
    pub fn wait_until_ready(&mut self) -> Result<(), WardenError> {
        if let TaskFolder::Preparing = self.folder {
            match self.receive() {
                Ok((WardenResponse::Ready, Some(folder))) => self.folder = TaskFolder::Ready(folder),
                Ok(_) => return Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
                Err(WardenError::Run(error)) => {
                    // The warden cannot run anything more, so it must not get another request.
                    self.shut_down();
                    return Err(WardenError::NotReady(error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn request(
        &mut self,
        request: &WardenRequest<&CommandSpec>,
    ) -> Result<(WardenResponse, Option<OwnedFd>), WardenError> {
        self.send_request(request)?;
        self.receive()
    }

    fn send_request(&mut self, request: &WardenRequest<&CommandSpec>) -> Result<(), WardenError> {
        match wire::send(&self.socket, request, &mut self.buffer) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.on_broken_socket(error)),
        }
    }

    fn send_with_descriptors(
        &mut self,
        request: &WardenRequest<&CommandSpec>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), WardenError> {
        if descriptors.is_empty() {
            return self.send_request(request);
        }
        let sent = wire::encode(request, &mut self.buffer)
            .and_then(|()| wire::descriptors::send(&self.socket, &self.buffer, descriptors));
        sent.map_err(|error| self.on_broken_socket(error))
    }

    fn receive(&mut self) -> Result<(WardenResponse, Option<OwnedFd>), WardenError> {
        let mut receiver = DescriptorReceiver::new(&self.socket);
        let response = wire::receive(&mut receiver, &mut self.buffer);
        let descriptor = receiver.descriptors.pop();
        match response {
            Ok(Some(WardenResponse::Failed(error))) => Err(error.into()),
            Ok(Some(response)) => Ok((response, descriptor)),
            Ok(None) => Err(self.on_broken_socket(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.on_broken_socket(error)),
        }
    }

    /// Ends a warden whose socket is broken, so that it releases the lock.
    fn on_broken_socket(&mut self, error: io::Error) -> WardenError {
        let hung_up = [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
        ];
        match self.shut_down() {
            Some(status) if hung_up.contains(&error.kind()) => WardenError::Died { status },
            _ => WardenError::Socket(error),
        }
    }

    /// Closes the connection, which makes the warden end, and waits for it. `None` if the warden hangs in the kernel:
    /// it cannot be killed, and waiting for it could take forever.
    fn shut_down(&mut self) -> Option<ExitStatus> {
        const END_TIMEOUT: Duration = Duration::from_secs(5);
        let status = self.end_process(END_TIMEOUT);
        self.output.end_all_runs();
        status
    }

    fn end_process(&mut self, timeout: Duration) -> Option<ExitStatus> {
        // Closing our end alone is not enough: a process that inherited it would keep the connection open.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Ok(None) = self.child.try_wait() {
            let pidfd = PidFd::open(self.child.id() as i32).ok();
            let ended = || pidfd.as_ref().is_some_and(|pidfd| pidfd.wait(timeout));
            if !ended() {
                // The warden is stopped or stuck. The parent-death signal kills its command.
                let _ = self.child.kill();
                if pidfd.is_some() && !ended() {
                    return None;
                }
            }
        }
        self.child.wait().ok()
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.shut_down();
    }
}
