//! The stub: the process that becomes the command. It drops its privileges step by step and then waits for the
//! command.
//!
//! It has dropped all privileges before it gets the command, so no data of the user is processed with privileges.
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::bare;
use super::init::CellContext;
use super::oom::COMMAND_OOM_SCORE;
use super::protocol::ExecRequest;
use super::setup_step::{AtSetupStep, CellSetupError, CellSetupStep};
use crate::platform_error::Errno;
use crate::warden::signals::IGNORED;

pub(super) extern "C" fn run(context: &CellContext) -> ! {
    match become_command(context) {
        Ok(never) => match never {},
        Err(error) => context.fail(error),
    }
}

/// The success type of a cell's stub: it has no value, because a successful exec does not return.
enum Never {}

fn become_command(context: &CellContext) -> Result<Never, CellSetupError> {
    drop_privileges(context)?;
    context.report_ready();
    let streams =
        match bare::receive_descriptors(context.stream_socket).at(CellSetupStep::ReceiveExecRequest)? {
            Some(streams) => streams,
            // The warden does not need this cell, or has ended.
            None => bare::exit(0),
        };
    // SAFETY: the warden stores the request before it sends the streams, and keeps it until the cell has ended.
    match unsafe { context.exec_request.load(Ordering::Acquire).as_ref() } {
        Some(exec_request) => {
            for (stream, standard) in streams.into_iter().zip(0..) {
                bare::duplicate_descriptor(stream, standard).at(CellSetupStep::ConnectStreams)?;
            }
            bare::write(context.oom_score_file, COMMAND_OOM_SCORE).at(CellSetupStep::OomScore)?;
            close_all_except([context.message_pipe, context.stream_socket])
                .at(CellSetupStep::CloseDescriptors)?;
            prepare_and_execute(exec_request)
        }
        None => Err(Errno(libc::EPROTO)).at(CellSetupStep::ReceiveExecRequest),
    }
}

fn drop_privileges(context: &CellContext) -> Result<(), CellSetupError> {
    bare::reset_signals(&IGNORED.map(|signal| signal as i32)).at(CellSetupStep::Signals)?;
    for &procs_file in &context.procs_files {
        bare::enter_cgroup(procs_file).at(CellSetupStep::EnterCgroup)?;
    }
    if context.cgroup_directory.is_some() || !context.procs_files.is_empty() {
        bare::unshare_namespaces(libc::CLONE_NEWCGROUP).at(CellSetupStep::CgroupNamespace)?;
    }
    bare::start_session().at(CellSetupStep::Session)?;
    if let Some(id) = context.command_user.id_unless_wardens() {
        bare::set_group(id).at(CellSetupStep::SetGroup)?;
        bare::set_user(id).at(CellSetupStep::SetUser)?;
    }
    bare::drop_capabilities().at(CellSetupStep::Capabilities)?;
    bare::forbid_new_privileges().at(CellSetupStep::NoNewPrivileges)?;
    if let Some(rules) = context.landlock_rules {
        bare::apply_landlock_rules(rules).at(CellSetupStep::Landlock)?;
    }
    bare::install_seccomp_filter(context.seccomp_filter.stub_program()).at(CellSetupStep::Seccomp)
}

/// Closes all descriptors of the warden, so that no path of the task leads to them. Two stay open until the program
/// is executed: the message pipe, and the socket whose end tells the warden that the program was executed.
fn close_all_except([message_pipe, stream_socket]: [RawFd; 2]) -> Result<(), Errno> {
    const FIRST: RawFd = 3;
    let (low, high) = (message_pipe.min(stream_socket), message_pipe.max(stream_socket));
    bare::close_between(FIRST, low - 1)?;
    bare::close_between(low + 1, high - 1)?;
    bare::close_from(high + 1)
}

fn prepare_and_execute(exec_request: &ExecRequest) -> Result<Never, CellSetupError> {
    bare::change_directory(&exec_request.directory).at(CellSetupStep::ChangeDirectory)?;
    for limit in &exec_request.rlimits {
        bare::set_rlimit(limit).at(CellSetupStep::Rlimit)?;
    }
    execute(exec_request).at(CellSetupStep::Execute)
}

/// Executes the first program that exists and may be executed, like a shell.
fn execute(exec_request: &ExecRequest) -> Result<Never, Errno> {
    // A child of another process may hold the newly written program open for writing for a moment, between its fork
    // and exec. The command is not the cause, so the stub retries.
    const BUSY_TRIES: u32 = 500;
    const BUSY_PAUSE_MILLIS: i64 = 2;
    let mut refused = Errno(libc::ENOENT);
    for program in &exec_request.programs {
        for _ in 0..BUSY_TRIES {
            // SAFETY: the request holds valid strings.
            match unsafe { bare::execute(program, exec_request.argv.as_ptr(), exec_request.env.as_ptr()) } {
                Errno(libc::ETXTBSY) => {
                    refused = Errno(libc::ETXTBSY);
                    bare::sleep_millis(BUSY_PAUSE_MILLIS);
                }
                Errno(libc::ENOENT | libc::ENOTDIR) => break,
                Errno(libc::EACCES) => {
                    // Like a shell, skip folders while searching in `PATH`.
                    if !exec_request.searched_in_path || bare::is_file(program) {
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
