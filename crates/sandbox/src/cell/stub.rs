//! The process that becomes the command: the recipe, in the order in which power is given up.
//!
//! It is through with all of it before it takes its orders, so that nothing of the user's is looked at with any power.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, setsid};

use super::filter::Filter;
use super::landlock::Rules;
use super::orders::{Orders, Said};
use super::power;
use super::process;
use super::step::{At, Step, StepError};
use super::user::Who;
use crate::cgroup::Group;
use crate::fault::Errno;
use crate::warden::child::Rlimit;
use crate::warden::resolve::resolve;
use crate::wire::{self, rights};

pub(super) struct Stub<'a> {
    pub(super) who: Who,
    pub(super) group: Option<&'a Group>,
    pub(super) rules: Option<&'a Rules>,
    pub(super) filter: &'a Filter,
    pub(super) socket: &'a UnixStream,
}

pub(super) extern "C" fn run(stub: &Stub<'_>) -> ! {
    let failed = match stub.become_command() {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let _ = wire::send(stub.socket, &Said::Failed(failed), &mut Vec::new());
    process::exit(127)
}

enum Never {}

impl Stub<'_> {
    fn become_command(&self) -> Result<Never, StepError> {
        self.give_up_power()?;
        let (orders, streams) = self.park()?;
        follow(&orders, streams)
    }

    fn give_up_power(&self) -> Result<(), StepError> {
        if let Some(group) = self.group {
            // Where there is a directory, the process was born in it.
            if group.directory().is_none() {
                group.enter().at(Step::EnterGroup)?;
            }
            unshare(CloneFlags::CLONE_NEWCGROUP).at(Step::GroupNamespace)?;
        }
        setsid().at(Step::Session)?;
        if let Who::Root { .. } = self.who {
            power::become_group(self.who.gid()).at(Step::Group)?;
            power::become_user(self.who.uid()).at(Step::User)?;
        }
        process::drop_capabilities().at(Step::Capabilities)?;
        process::forbid_new_privileges().at(Step::NoNewPrivileges)?;
        if let Some(rules) = self.rules {
            rules.enforce().at(Step::Landlock)?;
        }
        self.filter.install().at(Step::Seccomp)
    }

    fn park(&self) -> Result<(Orders, [OwnedFd; 3]), StepError> {
        let mut buffer = Vec::new();
        wire::send(self.socket, &Said::Parked, &mut buffer).at(Step::Talk)?;
        let mut receiver = rights::Receiver {
            stream: self.socket,
            descriptors: Vec::new(),
        };
        let orders = match wire::receive(&mut receiver, &mut buffer).at(Step::Orders)? {
            Some(orders) => orders,
            // The warden does not need this cell, or is gone.
            None => process::exit(0),
        };
        let streams = receiver.descriptors.try_into();
        let streams = streams.map_err(|_| Errno(libc::EPROTO)).at(Step::Orders)?;
        Ok((orders, streams))
    }
}

fn follow(orders: &Orders, streams: [OwnedFd; 3]) -> Result<Never, StepError> {
    for (standard, stream) in streams.iter().enumerate() {
        // SAFETY: numbers only. What was at the standard descriptors is nobody's here.
        if unsafe { libc::dup2(stream.as_raw_fd(), standard as i32) } < 0 {
            return Err(Errno::last()).at(Step::Streams);
        }
    }
    chdir(&orders.directory).at(Step::ChangeDirectory)?;
    for limit in &orders.rlimits {
        set(limit).at(Step::Rlimit)?;
    }
    let program = resolve(&orders.argv[0], &orders.env, &orders.directory).at(Step::Execute)?;
    execute(program.as_os_str(), orders).at(Step::Execute)
}

/// All descriptors beyond the standard ones are closed by exec.
fn execute(program: &OsStr, orders: &Orders) -> Result<Never, Errno> {
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| Errno(libc::EINVAL));
    let entry = |(name, value): &(OsString, OsString)| {
        let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
        CString::new(entry).map_err(|_| Errno(libc::EINVAL))
    };
    let program = text(program)?;
    let argv: Vec<CString> = orders
        .argv
        .iter()
        .map(|word| text(word))
        .collect::<Result<_, _>>()?;
    let env: Vec<CString> = orders.env.iter().map(entry).collect::<Result<_, _>>()?;
    // Somebody's child may for a moment hold the freshly written program open for writing, between its own fork
    // and exec. That passes by itself and is no fault of the command.
    const BUSY_TRIES: u32 = 50;
    const BUSY_PAUSE: Duration = Duration::from_millis(2);
    for _ in 0..BUSY_TRIES {
        match nix::unistd::execve(&program, &argv, &env) {
            Ok(never) => match never {},
            Err(nix::errno::Errno::ETXTBSY) => std::thread::sleep(BUSY_PAUSE),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno(libc::ETXTBSY))
}

/// A limit above what this user may ask for is no reason to refuse: the lower one is in force already.
fn set(limit: &Rlimit) -> Result<(), Errno> {
    let mut current = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid place for a limit.
    if unsafe { libc::getrlimit(limit.resource as _, &mut current) } != 0 {
        return Err(Errno::last());
    }
    let wanted = libc::rlimit {
        rlim_cur: limit.soft.min(current.rlim_max),
        rlim_max: limit.hard.min(current.rlim_max),
    };
    // SAFETY: a valid limit.
    match unsafe { libc::setrlimit(limit.resource as _, &wanted) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}
