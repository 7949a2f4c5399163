//! Runs a command in a cell, from the request to the outcome.

use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::resource::{UsageWho, getrusage};

use super::capture::StreamCapture;
use super::child::NO_CORE_DUMPS;
use super::end_reason::{ProcessExit, RunMeasurements, end_reason};
use super::run_process_tree::{
    CommandRunFailure, OwnerConnection, RunRequest, outcome_of_failed_exec, outcome_without_start,
};
use super::spawn::rlimits;
use super::streams::{GivenStreams, OutputPipe, drain, new_scratch_buffer};
use super::watch::{CommandWatch, PendingEvents, WatchedCommand};
use crate::cell::{
    Cell, CellFactory, CellSetupError, CellSetupStep, CommandState, ExecRequest, OomScore, ResourceUsage,
};
use crate::cgroup::{Cgroup, CgroupLimits, CgroupUsage};
use crate::outcome::{CommandEndReason, CommandOutcome};
use crate::platform_error::{Errno, PlatformError};
use crate::spec::CommandLimits;

/// Runs the commands of a warden in cells.
pub(super) struct CellRunner {
    pub(super) cell_factory: CellFactory,
    scratch: Vec<u8>,
}

impl CellRunner {
    pub(super) fn new(cell_factory: CellFactory) -> Self {
        Self {
            cell_factory,
            scratch: new_scratch_buffer(),
        }
    }

    /// When this returns, no process of the command is left.
    pub(super) fn run_command(
        &mut self,
        owner: OwnerConnection<'_>,
        RunRequest {
            number,
            spec,
            streams,
        }: RunRequest,
        [stdout, stderr]: [StreamCapture<'_>; 2],
    ) -> Result<CommandOutcome, CommandRunFailure> {
        let limits = self.cell_factory.complete_limits(spec.limits);
        let given_streams = GivenStreams::open(spec.input, streams)?;
        let mut outputs = [OutputPipe::open(stdout)?, OutputPipe::open(stderr)?];
        let rlimits = rlimits(&limits).into_iter().flatten();
        // The limit of core files was already set when the cell was created.
        let rlimits = rlimits
            .filter(|limit| limit.resource != NO_CORE_DUMPS.resource)
            .collect();
        let exec_request = ExecRequest::new(&spec.argv, &spec.env, &spec.directory, rlimits);
        // If memory runs out, the kernel kills all processes that share memory with the one it chooses, and until
        // exec the warden is one of them. So the arguments and environment must fit into the limit with a wide
        // margin.
        let max_exec_bytes = limits
            .memory
            .map(|limit| (limit.max(Cgroup::MIN_MEMORY_LIMIT) - Cgroup::MAX_INITIAL_MEMORY) / 2);
        if max_exec_bytes.is_some_and(|max_exec_bytes| exec_request.exec_bytes() as u64 > max_exec_bytes) {
            return Ok(outcome_without_start(CommandEndReason::MemoryLimit));
        }
        let mut cell = self.cell_factory.take_cell(spec.network.as_deref())?;
        self.cell_factory.begin_run(CgroupLimits {
            memory: limits.memory,
            processes: limits.processes,
        })?;
        let start = Instant::now();
        cell.execute(exec_request, given_streams.with_outputs(&outputs))
            .map_err(PlatformError::from)?;
        drop(given_streams);

        let mut watched_cell = WatchedCell {
            cell: &mut cell,
            oom_score: self.cell_factory.oom_score(),
            group: self.cell_factory.group(),
            limits: &limits,
            next_check: None,
            command_state: CommandState::Running,
        };
        watched_cell.plan_next_check(Duration::ZERO);
        let watch_result = CommandWatch {
            owner,
            number,
            limits: &limits,
            start,
            scratch: &mut self.scratch,
        }
        .run(&mut watched_cell, &mut outputs);
        let wall = start.elapsed();
        let command_state = watched_cell.command_state;
        let has_executed = cell.has_executed();
        let failure = self.cell_factory.end_cell(cell);
        if !has_executed {
            self.cell_factory.oom_score().restore();
        }
        let stopped = watch_result.stop_reason()?;
        drain(&mut outputs, &mut self.scratch);
        if let Some(failure) = failure {
            return on_failed(failure, &spec.argv[0], outputs, wall);
        }
        let usage = match self.cell_factory.group() {
            Some(group) => group.usage().map_err(PlatformError::from)?,
            None => CgroupUsage::default(),
        };
        // The kernel kills commands first when the machine, or a group above theirs, is out of memory. If the command
        // stayed within its own limit, that is a failure of the platform.
        if usage.oom_kills > 0 && !usage.reached_memory_limit {
            return Err(PlatformError::MachineMemory.into());
        }
        let (end, used) = match command_state {
            CommandState::Ended(status, used) => (ProcessExit::of(status), used),
            // The warden killed the command.
            CommandState::Running => (ProcessExit::Signal(libc::SIGKILL), ResourceUsage::default()),
            CommandState::Unknown => return Err(PlatformError::Wait(Errno(libc::ECHILD)).into()),
        };
        // Without a group that measures memory, the per-process measurements of the kernel are used. The task's own
        // files are charged to the group, but are not memory of the command.
        let group_peak = usage
            .memory
            .map(|peak| peak.saturating_sub(self.cell_factory.charged_file_bytes()));
        let memory = group_peak.unwrap_or_else(|| per_process_peak(used));
        // The kernel enforces the limit, unless it is too low to be set or there is no group for it.
        let kernel_enforces_memory = self.cell_factory.group().is_some_and(Cgroup::limits_memory)
            && limits.memory >= Some(Cgroup::MIN_MEMORY_LIMIT);
        let measurements = RunMeasurements {
            stopped: stopped.or_else(|| exceeded(&usage)),
            end,
            cpu: usage.cpu.unwrap_or(Duration::from_micros(used.cpu_micros)),
            memory: if kernel_enforces_memory { 0 } else { memory },
            output: outputs[0].total().max(outputs[1].total()),
        };
        let reason = match end_reason(&measurements, &limits) {
            CommandEndReason::Exited | CommandEndReason::Signalled
                if end != ProcessExit::Code(0) && self.cell_factory.is_task_space_full() =>
            {
                CommandEndReason::DiskLimit
            }
            reason => reason,
        };
        let [stdout, stderr] = outputs.map(OutputPipe::into_captured);
        Ok(CommandOutcome {
            reason,
            exit_code: end.code(),
            signal: end.signal(),
            wall,
            cpu: measurements.cpu,
            memory,
            stdout,
            stderr,
        })
    }
}

/// The peak of the largest process, in bytes. The kernel starts it with that of the warden, whose memory the process
/// shared until exec, so a value no larger than that means nothing.
fn per_process_peak(used: ResourceUsage) -> u64 {
    let warden = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64);
    match used.memory_kib > warden {
        true => used.memory_kib << 10,
        false => 0,
    }
}

/// The limit that the kernel reports as exceeded.
fn exceeded(usage: &CgroupUsage) -> Option<CommandEndReason> {
    match usage {
        CgroupUsage { oom_kills: 1.., .. } => Some(CommandEndReason::MemoryLimit),
        CgroupUsage {
            refused_forks: 1.., ..
        } => Some(CommandEndReason::ProcessLimit),
        _ => None,
    }
}

/// The outcome if the program cannot be executed; an error if a step before that failed.
fn on_failed(
    failure: CellSetupError,
    program: &std::ffi::OsStr,
    outputs: [OutputPipe<'_>; 2],
    wall: Duration,
) -> Result<CommandOutcome, CommandRunFailure> {
    match failure {
        CellSetupError {
            step: CellSetupStep::Execute,
            errno,
        } if !errno.is_resource_shortage() => Ok(outcome_of_failed_exec(program, errno, outputs, wall)),
        failure => Err(PlatformError::from(failure).into()),
    }
}

/// A running command in its cell, whose end and limits the warden's watch loop checks.
struct WatchedCell<'a> {
    cell: &'a mut Cell,
    oom_score: &'a OomScore,
    group: Option<&'a Cgroup>,
    limits: &'a CommandLimits,
    next_check: Option<Instant>,
    command_state: CommandState,
}

impl WatchedCell<'_> {
    /// CPU time cannot run out sooner than with all cores busy. Not every kernel reports a refused fork, so that has
    /// to be checked regularly.
    fn plan_next_check(&mut self, used: Duration) {
        const MIN_PAUSE: Duration = Duration::from_millis(1);
        const INTERVAL: Duration = Duration::from_millis(10);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let cpu = self
            .limits
            .cpu
            .map(|limit| (limit.saturating_sub(used) / cores).max(MIN_PAUSE));
        let forks = self.limits.processes.map(|_| INTERVAL);
        let pause = [cpu, forks].into_iter().flatten().min();
        self.next_check = pause.map(|pause| Instant::now() + pause);
    }
}

impl WatchedCommand for WatchedCell<'_> {
    fn event_descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let group = self.group.into_iter().flat_map(Cgroup::event_descriptors);
        let message_descriptor = PollFd::new(self.cell.message_descriptor(), PollFlags::POLLIN);
        std::iter::once(message_descriptor)
            .chain(self.cell.exec_descriptor())
            .chain(group)
    }

    fn has_ended(&mut self) -> bool {
        if self.cell.check_executed() {
            self.oom_score.restore();
        }
        self.command_state = self.cell.read_messages();
        self.command_state != CommandState::Running
    }

    fn next_check(&self) -> Option<Instant> {
        self.next_check
    }

    fn check_limits(&mut self, events: PendingEvents) -> Option<CommandEndReason> {
        let is_due = self.next_check.is_some_and(|next| next <= Instant::now());
        if events == PendingEvents::None && !is_due {
            return None;
        }
        // A failed check is repeated with the next one.
        let usage = self.group?.usage().ok()?;
        let used = usage.cpu.unwrap_or_default();
        self.plan_next_check(used);
        // The kernel reports that memory has run out before it counts the processes that it kills.
        if events == PendingEvents::Some {
            const SOON: Duration = Duration::from_millis(1);
            let soon = Instant::now() + SOON;
            self.next_check = Some(self.next_check.map_or(soon, |next| next.min(soon)));
        }
        let out_of_time = self.limits.cpu.is_some_and(|limit| used > limit);
        exceeded(&usage).or(out_of_time.then_some(CommandEndReason::TimeLimit))
    }
}
