//! The first process of a cell. All others end with it, which the kernel sees to.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::atomic::AtomicPtr;

use libc::c_int;

use super::bare::{self, Mount, Used, Waited};
use super::filter::Filter;
use super::orders::{Company, Orders, Word};
use super::process::{Birth, Stack, share};
use super::step::{At, Step, StepError};
use super::stub;
use super::user::Who;
use crate::fault::Errno;

/// What a cell is made with, for its two processes to read. Descriptors by number: the processes have copies of all
/// that the warden had when the cell was made.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) who: Who,
    pub(super) reach: Reach,
    /// To the control groups, where processes are not born in theirs.
    pub(super) entrances: Vec<RawFd>,
    /// The control group to be born in.
    pub(super) group: Option<RawFd>,
    pub(super) rules: Option<RawFd>,
    pub(super) filter: Rc<Filter>,
    /// Where the command's streams come from.
    pub(super) streams: RawFd,
    /// Where words go.
    pub(super) words: RawFd,
    /// The warden's ends of both, which nobody else may have: by their being closed its death is known.
    pub(super) of_warden: [RawFd; 2],
    pub(super) lock: Option<RawFd>,
    /// The warden's `oom_score_adj`, and that of all who share its memory.
    pub(super) oom_score: RawFd,
    /// Valid when the streams have come.
    pub(super) orders: AtomicPtr<Orders>,
    pub(super) stacks: Stacks,
}

/// One for each process.
#[derive(Debug)]
pub(super) struct Stacks {
    init: Stack,
    stub: Stack,
}

impl Stacks {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            init: Stack::new()?,
            stub: Stack::new()?,
        })
    }
}

/// Which network the cell is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The warden's, in which there is nothing.
    Nothing,
    /// Itself.
    Loopback,
    /// What the operator has put there.
    Named(RawFd),
}

/// What every cell has of its own. Others are the warden's: network and host name, in which no command can leave
/// anything, and `ipc`, where it is seen to that none did. The control group's comes with the group.
const NAMESPACES: c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS;

impl Desk {
    /// Starts the first process.
    ///
    /// # Safety
    ///
    /// The desk must stay until that process and all others of the cell are gone.
    pub(super) unsafe fn open_cell(&self) -> Result<i32, StepError> {
        let birth = Birth {
            namespaces: NAMESPACES,
            group: None,
        };
        // SAFETY: the caller's promise; and the warden touches nothing of the desk but the orders.
        unsafe { share(birth, &self.stacks.init, run, self) }.at(Step::Cell)
    }

    fn say(&self, word: Word) {
        // Whoever is to hear it sees it if nothing comes.
        let _ = bare::write(self.words, &word.encode());
    }

    pub(super) fn fail(&self, error: StepError) -> ! {
        self.say(Word::Failed(error));
        bare::exit(127)
    }

    pub(super) fn park(&self) {
        self.say(Word::Parked);
    }
}

/// In the new namespaces.
extern "C" fn run(desk: &Desk) -> ! {
    match furnish(desk).and_then(|()| start_stub(desk)) {
        Ok(command) => wait(desk, command),
        Err(error) => desk.fail(error),
    }
}

fn furnish(desk: &Desk) -> Result<(), StepError> {
    for end in desk.of_warden {
        bare::close(end).at(Step::DeathSignal)?;
    }
    bare::die_with_parent().at(Step::DeathSignal)?;
    // It may have died before.
    if bare::is_hung_up(desk.streams).at(Step::DeathSignal)? {
        bare::exit(1);
    }
    match desk.reach {
        Reach::Nothing => {}
        // Used once: a port that a task has closed stays taken for a while.
        Reach::Loopback => bare::leave_namespaces(libc::CLONE_NEWNET)
            .and_then(|()| bare::raise_loopback())
            .at(Step::JoinNetwork)?,
        Reach::Named(namespace) => bare::join_network(namespace).at(Step::JoinNetwork)?,
    }
    PROCESSES.make().at(Step::MountProcesses)?;
    bind(c"/box/tmp", c"/tmp").at(Step::MountTemporary)?;
    bind(c"/box/shm", c"/dev/shm").at(Step::MountShared)?;
    // Over the task's file system itself: what else lies there (the input) is out of sight.
    bind(c"/box/box", c"/box").at(Step::MountWorkspace)
}

/// Shows the cell's own processes and no others, and of those not ours.
const PROCESSES: Mount<'_> = Mount {
    from: c"proc",
    to: c"/proc",
    kind: Some(c"proc"),
    flags: libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY,
    options: Some(c"hidepid=2"),
};

fn bind(from: &CStr, to: &CStr) -> Result<(), Errno> {
    Mount {
        from,
        to,
        kind: None,
        flags: libc::MS_BIND,
        options: None,
    }
    .make()
}

fn start_stub(desk: &Desk) -> Result<i32, StepError> {
    let birth = Birth {
        namespaces: 0,
        group: desk.group,
    };
    // SAFETY: the desk outlives the cell, and both processes make bare calls only.
    unsafe { share(birth, &desk.stacks.stub, stub::run, desk) }.at(Step::Stub)
}

/// Waits for the command, and for every orphan of it, without any power.
fn wait(desk: &Desk, command: i32) -> ! {
    match give_up(desk).at(Step::GiveUp) {
        Ok(()) => drop(bare::write(WORDS, &Word::Parked.encode())),
        Err(error) => desk.fail(error),
    }
    let mut used = Used::default();
    loop {
        match bare::wait_for_child(0) {
            Waited::Ended {
                child,
                status,
                used: by_child,
            } => {
                used = used.and(by_child);
                if child == command {
                    let (company, by_others) = company();
                    let ended = Word::Ended {
                        status,
                        company,
                        used: used.and(by_others),
                    };
                    let _ = bare::write(WORDS, &ended.encode());
                    bare::exit(0)
                }
            }
            Waited::Alive => {}
            Waited::NoChild => bare::exit(1),
        }
    }
}

/// Where this process says words when it has given up all else.
const WORDS: RawFd = 0;

/// A command must not be able to do anything to this process, nor get anything through it.
fn give_up(desk: &Desk) -> Result<(), Errno> {
    bare::put_descriptor(desk.words, WORDS)?;
    // So that the lock lives as long as any cell does.
    bare::put_descriptor(desk.lock.unwrap_or(WORDS), WORDS + 1)?;
    bare::close_from(WORDS + 2)?;
    bare::drop_capabilities()?;
    bare::forbid_new_privileges()
}

/// Whether there is another process in the cell. All come from its first one, and those whose parents end become its
/// children: if it has none, it is alone. Those that have ended meanwhile are counted.
fn company() -> (Company, Used) {
    let mut used = Used::default();
    loop {
        match bare::wait_for_child(libc::WNOHANG) {
            Waited::Ended { used: by_child, .. } => used = used.and(by_child),
            Waited::Alive => return (Company::Others, used),
            Waited::NoChild => return (Company::Nobody, used),
        }
    }
}
