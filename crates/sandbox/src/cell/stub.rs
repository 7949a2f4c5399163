//! The process that becomes the command: the recipe, in the order in which power is given up.
//!
//! It is through with all of it before it takes its orders, so that nothing of the user's is looked at with any power.
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::bare;
use super::init::Desk;
use super::oom::PREFERRED;
use super::orders::Orders;
use super::step::{At, Step, StepError};
use crate::fault::Errno;
use crate::warden::signals::IGNORED;

pub(super) extern "C" fn run(desk: &Desk) -> ! {
    match become_command(desk) {
        Ok(never) => match never {},
        Err(error) => desk.fail(error),
    }
}

enum Never {}

fn become_command(desk: &Desk) -> Result<Never, StepError> {
    give_up_power(desk)?;
    desk.park();
    let streams = match bare::receive_descriptors(desk.streams).at(Step::Orders)? {
        Some(streams) => streams,
        // The warden does not need this cell, or is gone.
        None => bare::exit(0),
    };
    // SAFETY: the warden has put them there before it sent the streams, and keeps them until the cell is gone.
    match unsafe { desk.orders.load(Ordering::Acquire).as_ref() } {
        Some(orders) => {
            for (stream, standard) in streams.into_iter().zip(0..) {
                bare::put_descriptor(stream, standard).at(Step::Streams)?;
            }
            bare::write(desk.oom_score, PREFERRED).at(Step::OutOfMemory)?;
            close_but([desk.words, desk.streams]).at(Step::CloseDescriptors)?;
            follow(orders)
        }
        None => Err(Errno(libc::EPROTO)).at(Step::Orders),
    }
}

fn give_up_power(desk: &Desk) -> Result<(), StepError> {
    bare::reset_signals(&IGNORED.map(|signal| signal as i32)).at(Step::Signals)?;
    for &entrance in &desk.entrances {
        bare::enter_group(entrance).at(Step::EnterGroup)?;
    }
    if desk.group.is_some() || !desk.entrances.is_empty() {
        bare::leave_namespaces(libc::CLONE_NEWCGROUP).at(Step::GroupNamespace)?;
    }
    bare::begin_session().at(Step::Session)?;
    if let Some(id) = desk.who.other() {
        bare::become_group(id).at(Step::Group)?;
        bare::become_user(id).at(Step::User)?;
    }
    bare::drop_capabilities().at(Step::Capabilities)?;
    bare::forbid_new_privileges().at(Step::NoNewPrivileges)?;
    if let Some(rules) = desk.rules {
        bare::restrict_files(rules).at(Step::Landlock)?;
    }
    bare::filter_calls(desk.filter.last()).at(Step::Seccomp)
}

/// What the warden has open must not be on the way of the task's own paths. Two are left, and go when the program is
/// executed: where words go, and the socket whose end tells the warden that this has happened.
fn close_but([words, streams]: [RawFd; 2]) -> Result<(), Errno> {
    const FIRST: RawFd = 3;
    let (low, high) = (words.min(streams), words.max(streams));
    bare::close_between(FIRST, low - 1)?;
    bare::close_between(low + 1, high - 1)?;
    bare::close_from(high + 1)
}

fn follow(orders: &Orders) -> Result<Never, StepError> {
    bare::change_directory(&orders.directory).at(Step::ChangeDirectory)?;
    for limit in &orders.rlimits {
        bare::limit(limit).at(Step::Rlimit)?;
    }
    execute(orders).at(Step::Execute)
}

/// As a shell does it: the first that is there and may be executed.
fn execute(orders: &Orders) -> Result<Never, Errno> {
    // Somebody's child may for a moment hold the freshly written program open for writing, between its own fork
    // and exec. That passes by itself and is no fault of the command.
    const BUSY_TRIES: u32 = 500;
    const BUSY_PAUSE_MILLIS: i64 = 2;
    let mut refused = Errno(libc::ENOENT);
    for program in &orders.programs {
        for _ in 0..BUSY_TRIES {
            // SAFETY: the orders hold valid texts.
            match unsafe { bare::execute(program, orders.argv.as_ptr(), orders.env.as_ptr()) } {
                Errno(libc::ETXTBSY) => {
                    refused = Errno(libc::ETXTBSY);
                    bare::sleep_millis(BUSY_PAUSE_MILLIS);
                }
                Errno(libc::ENOENT | libc::ENOTDIR) => break,
                Errno(libc::EACCES) => {
                    // A folder is passed over on the way through `PATH`, as by a shell.
                    if !orders.looked_for || bare::is_file(program) {
                        refused = Errno(libc::EACCES);
                    }
                    break;
                }
                errno => return Err(errno),
            }
        }
    }
    Err(refused)
}
