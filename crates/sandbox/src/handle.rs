//! The owner's side of a warden.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use crate::cell::FileSize;
use crate::clock::boot_time;
use crate::fault::Fault;
use crate::outcome::Outcome;
use crate::pidfd::PidFd;
use crate::spec::{Spec, SpecError};
use crate::wire::{self, Answer, Request, Then, Urgent, rights};

/// A running warden. Dropping it ends the warden and whatever it runs, and waits until both are gone.
#[derive(Debug)]
pub struct Warden {
    child: Child,
    socket: UnixStream,
    reach: Arc<Reach>,
    buffer: Vec<u8>,
    /// Where the files of the next command go, if it runs in a cell.
    folder: Folder,
    /// Of a new folder.
    usual_space: u64,
    /// Bytes that the files in the folder may have together.
    space: u64,
    /// The number of the last ticket made, and of the last one used.
    made: u64,
    used: u64,
}

#[derive(Debug)]
enum Folder {
    /// Commands run without cells.
    None,
    /// The warden is at it, and will answer.
    ToCome,
    Here(OwnedFd),
}

/// Stands for one run, and can kill it from any thread: before it starts, while it lasts, and to no effect
/// after its end. It cannot hit any other run.
#[derive(Clone)]
pub struct Ticket {
    number: u64,
    reach: Arc<Reach>,
}

/// Reaches the warden from any thread.
#[derive(Clone)]
pub struct Remote {
    reach: Arc<Reach>,
}

#[derive(Debug, thiserror::Error)]
pub enum WardenError {
    #[error("the command cannot be run as it is given")]
    Spec(#[from] SpecError),
    #[error("the ticket is not this warden's, or older than one already used: make one for each run")]
    Ticket,
    /// It was killed, or broke. What it ran may still be there: see [`crate::kill_strays`].
    #[error("the warden died ({status}); start another one")]
    Died { status: ExitStatus },
    #[error("cannot talk to the warden; start another one")]
    Talk(#[source] io::Error),
    #[error("the warden could not run the command")]
    Run(#[from] Fault),
    #[error("the warden could not make ready for another task; start another one")]
    NotReady(#[source] Fault),
}

impl WardenError {
    /// Whether the warden can run nothing more and has to be replaced.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Died { .. } | Self::Talk(_) | Self::NotReady(_))
    }
}

impl Warden {
    /// `usual_space` is how large the files of a task may be that is given no other space.
    pub(crate) fn new(
        child: Child,
        socket: UnixStream,
        urgent: OwnedFd,
        folder: Option<OwnedFd>,
        usual_space: u64,
    ) -> Self {
        let reach = Reach {
            urgent,
            process: PidFd::open(child.id() as i32).ok(),
        };
        Self {
            child,
            socket,
            reach: Arc::new(reach),
            buffer: Vec::new(),
            folder: folder.map_or(Folder::None, Folder::Here),
            usual_space,
            space: usual_space,
            made: 0,
            used: 0,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn remote(&self) -> Remote {
        Remote {
            reach: Arc::clone(&self.reach),
        }
    }

    /// For the next run. A ticket need not be used: one that was killed too early can be thrown away.
    pub fn ticket(&mut self) -> Ticket {
        self.made += 1;
        Ticket {
            number: self.made,
            reach: Arc::clone(&self.reach),
        }
    }

    /// Runs a command and blocks until nothing of it is left.
    pub fn run(&mut self, ticket: &Ticket, spec: &Spec) -> Result<Outcome, WardenError> {
        self.run_then(ticket, spec, Then::Stay)
    }

    /// The same for the last command of a task: if it has an outcome, no [`Warden::renew`] need be asked for.
    pub fn run_last(&mut self, ticket: &Ticket, spec: &Spec) -> Result<Outcome, WardenError> {
        let then = match self.folder {
            Folder::None => Then::Stay,
            Folder::ToCome | Folder::Here(_) => Then::Renew,
        };
        let outcome = self.run_then(ticket, spec, then)?;
        if then == Then::Renew {
            self.expect_folder();
        }
        Ok(outcome)
    }

    fn run_then(&mut self, ticket: &Ticket, spec: &Spec, then: Then) -> Result<Outcome, WardenError> {
        spec.check()?;
        if !Arc::ptr_eq(&ticket.reach, &self.reach) || ticket.number <= self.used {
            return Err(WardenError::Ticket);
        }
        self.used = ticket.number;
        self.wait_until_ready()?;
        let request = Request::Run {
            number: ticket.number,
            spec,
            then,
        };
        match self.ask(&request)? {
            (Answer::Ended(outcome), _) => Ok(outcome),
            _ => Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
        }
    }

    /// The task's folder, if commands run in cells: `box` is their workspace, and what lies beside it is not seen by
    /// them, except `tmp` and `shm`. Whoever opens something there after a command has run must not follow links.
    /// There is none while the warden makes ready: see [`Warden::wait_until_ready`].
    pub fn folder(&self) -> Option<PathBuf> {
        // It has no path of its own; this leads there by the descriptor.
        let by = |folder: &OwnedFd| format!("/proc/self/fd/{}", folder.as_raw_fd()).into();
        match &self.folder {
            Folder::Here(folder) => Some(by(folder)),
            Folder::None | Folder::ToCome => None,
        }
    }

    /// How large all files of the task may be together, until [`Warden::renew`]. Without cells this has no meaning.
    pub fn give_space(&mut self, bytes: u64) -> Result<(), WardenError> {
        self.wait_until_ready()?;
        // Most tasks ask for no other space, and need not wait for an answer.
        if matches!(self.folder, Folder::None) || bytes == self.space {
            return Ok(());
        }
        match self.ask(&Request::<&Spec>::Space { bytes })? {
            (Answer::Ready, _) => {
                self.space = bytes;
                Ok(())
            }
            _ => Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Has files of the task count as its memory before they are filled, in addition to the limit of its next command.
    /// They must be there already. Without cells this has no meaning.
    pub fn charge(&mut self, files: Vec<FileSize>) -> Result<(), WardenError> {
        self.wait_until_ready()?;
        if matches!(self.folder, Folder::None) {
            return Ok(());
        }
        match self.ask(&Request::<&Spec>::Charge { files })? {
            (Answer::Ready, _) => Ok(()),
            _ => Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
        }
    }

    /// The task is over. Its files go, and the folder will be another one. Does not wait for that: whatever is wanted
    /// of the warden next does.
    pub fn renew(&mut self) -> Result<(), WardenError> {
        match self.folder {
            // Without a cell there is nothing to make ready.
            Folder::None | Folder::ToCome => Ok(()),
            Folder::Here(_) => {
                self.expect_folder();
                self.tell(&Request::Renew)
            }
        }
    }

    fn expect_folder(&mut self) {
        self.folder = Folder::ToCome;
        self.space = self.usual_space;
    }

    /// Waits until what [`Warden::renew`] has begun is done.
    pub fn wait_until_ready(&mut self) -> Result<(), WardenError> {
        if let Folder::ToCome = self.folder {
            match self.hear() {
                Ok((Answer::Ready, Some(folder))) => self.folder = Folder::Here(folder),
                Ok(_) => return Err(self.on_broken_socket(io::ErrorKind::InvalidData.into())),
                Err(WardenError::Run(fault)) => {
                    // It cannot run anything more, and must not be asked again.
                    self.end();
                    return Err(WardenError::NotReady(fault));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn ask(&mut self, request: &Request<&Spec>) -> Result<(Answer, Option<OwnedFd>), WardenError> {
        self.tell(request)?;
        self.hear()
    }

    fn tell(&mut self, request: &Request<&Spec>) -> Result<(), WardenError> {
        match wire::send(&self.socket, request, &mut self.buffer) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.on_broken_socket(error)),
        }
    }

    fn hear(&mut self) -> Result<(Answer, Option<OwnedFd>), WardenError> {
        let mut receiver = rights::Receiver {
            stream: &self.socket,
            descriptors: Vec::new(),
        };
        let answer = wire::receive(&mut receiver, &mut self.buffer);
        let descriptor = receiver.descriptors.pop();
        match answer {
            Ok(Some(Answer::Failed(fault))) => Err(fault.into()),
            Ok(Some(answer)) => Ok((answer, descriptor)),
            Ok(None) => Err(self.on_broken_socket(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.on_broken_socket(error)),
        }
    }

    /// A warden that cannot be talked to is ended, so that what it holds (the lock above all) is let go.
    fn on_broken_socket(&mut self, error: io::Error) -> WardenError {
        let hung_up = [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
        ];
        match self.end() {
            Some(status) if hung_up.contains(&error.kind()) => WardenError::Died { status },
            _ => WardenError::Talk(error),
        }
    }

    /// Hangs up, which tells the warden to end, and waits for it. None for one that hangs in the kernel: it cannot be
    /// ended, and waiting for it could take for ever.
    fn end(&mut self) -> Option<ExitStatus> {
        const PATIENCE: Duration = Duration::from_secs(5);
        // Not only closing our end: a process that inherited it would keep it open.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Ok(None) = self.child.try_wait() {
            let pidfd = PidFd::open(self.child.id() as i32).ok();
            let ended = || pidfd.as_ref().is_some_and(|pidfd| pidfd.wait(PATIENCE));
            if !ended() {
                // Stopped or stuck. Its command dies with it by the parent-death signal.
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
        self.end();
    }
}

/// What it takes to be heard by a warden at any time.
struct Reach {
    urgent: OwnedFd,
    process: Option<PidFd>,
}

impl Reach {
    fn send(&self, urgent: Urgent) -> io::Result<()> {
        // A command can stop its warden, which then keeps no limit and hears nobody.
        if let Some(process) = &self.process {
            let _ = process.send(libc::SIGCONT);
        }
        wire::send_urgent(self.urgent.as_fd(), urgent)
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reach")
    }
}

impl Ticket {
    /// Never blocks. An error says that the warden is gone or has been stopped for long.
    pub fn kill(&self) -> io::Result<()> {
        self.reach.send(Urgent::Kill { number: self.number })
    }
}

impl Remote {
    /// Kills the warden itself, which takes its command along. For one that does not answer any more.
    pub fn kill_warden(&self) -> io::Result<()> {
        let process = self.reach.process.as_ref();
        let process = process.ok_or(io::Error::from(io::ErrorKind::Unsupported))?;
        Ok(process.send(libc::SIGKILL)?)
    }

    /// Promises to be there for this long from now. Once one such time has passed without another promise, the
    /// warden ends its command by itself, even if the owner hangs or is stopped, and starts no other. An owner that
    /// means it promises before the first run: without any promise the warden counts on it for ever.
    /// Never blocks. An error says that the warden is gone or has been stopped for long.
    pub fn live_until(&self, from_now: Duration) -> io::Result<()> {
        let until = boot_time().saturating_add(from_now);
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.reach.send(Urgent::LiveUntil { millis })
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.number)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote")
    }
}
