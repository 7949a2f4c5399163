//! Runs a command without a cell, from the request to the outcome.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::PollFd;

use super::capture::StreamCapture;
use super::end_reason::{ProcessExit, RunMeasurements, end_reason};
use super::kill_descendants::kill_descendants;
use super::own_memory::WardenMemory;
use super::owner_messages::OwnerMessages;
use super::process_table::ProcessTable;
use super::reap::ReapedUsage;
use super::resolve::resolve;
use super::sample::LimitSampler;
use super::spawn::{ProcessSpawner, SpawnError, SpawnRequest};
use super::streams::{GivenStreams, OutputPipe, drain, new_scratch_buffer};
use super::watch::{CommandWatch, PendingEvents, WatchedCommand};
use crate::outcome::{CapturedStream, CommandEndReason, CommandOutcome};
use crate::passed_streams::PassedStreams;
use crate::platform_error::{Errno, PlatformError};
use crate::spec::CommandSpec;

/// Runs the commands of a warden without cells, as trees of ordinary processes.
pub(super) struct ProcessTreeRunner {
    table: ProcessTable,
    spawner: ProcessSpawner,
    own_memory: WardenMemory,
    scratch: Vec<u8>,
}

/// Why the warden has no outcome for a command: the platform failed, or the owner is gone.
pub(super) enum CommandRunFailure {
    Platform(PlatformError),
    /// The owner is gone, and the command was killed.
    OwnerGone,
}

impl From<PlatformError> for CommandRunFailure {
    fn from(error: PlatformError) -> Self {
        Self::Platform(error)
    }
}

/// The warden's connection to its owner, which it watches while a command runs.
pub(super) struct OwnerConnection<'a> {
    pub(super) socket: &'a UnixStream,
    pub(super) messages: &'a mut OwnerMessages,
}

/// A request of the owner to run a command, with the number of the run.
pub(super) struct RunRequest {
    pub(super) number: u64,
    pub(super) spec: CommandSpec,
    pub(super) streams: PassedStreams,
}

impl ProcessTreeRunner {
    pub(super) fn new(table: ProcessTable) -> Self {
        let (spawner, own_memory) = (ProcessSpawner::new(), WardenMemory::new());
        Self {
            table,
            spawner,
            own_memory,
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
        let CommandSpec {
            argv,
            env,
            directory,
            input,
            limits,
            // The captures know it.
            max_captured_bytes: _,
            // Without a cell, a command has the network of its user.
            network: _,
        } = spec;
        self.own_memory.on_bytes_buffered(input.memory_bytes());
        let given_streams = GivenStreams::open(input, streams)?;
        let mut outputs = [OutputPipe::open(stdout)?, OutputPipe::open(stderr)?];
        self.own_memory.reset_peak();

        let start = Instant::now();
        let started = match resolve(&argv[0], &env, &directory) {
            Ok(program) => self.spawner.spawn(&SpawnRequest {
                program,
                argv: &argv,
                env: &env,
                directory: &directory,
                streams: given_streams.with_outputs(&outputs),
                limits: &limits,
            }),
            Err(errno) => Err(SpawnError::Exec(errno)),
        };
        drop(given_streams);
        let pid = match started {
            Ok(pid) => pid,
            Err(not_started) => {
                ReapedUsage::new(0).reap_all();
                return match not_started {
                    SpawnError::Exec(errno) => {
                        Ok(outcome_of_failed_exec(&argv[0], errno, outputs, start.elapsed()))
                    }
                    SpawnError::Platform(error) => Err(error.into()),
                };
            }
        };

        let mut tree = WatchedTree {
            reaped: ReapedUsage::new(pid),
            sampler: LimitSampler::new(&limits, start),
            table: &mut self.table,
        };
        let watch_result = CommandWatch {
            owner,
            number,
            limits: &limits,
            start,
            scratch: &mut self.scratch,
        }
        .run(&mut tree, &mut outputs);
        let wall = start.elapsed();
        let WatchedTree {
            mut reaped, sampler, ..
        } = tree;
        kill_descendants(&mut self.table, &mut reaped);
        let stopped = watch_result.stop_reason()?;
        drain(&mut outputs, &mut self.scratch);

        let end = ProcessExit::of(reaped.status.ok_or(PlatformError::Wait(Errno(libc::ECHILD)))?);
        let sampled = sampler.map_or(0, |sampler| sampler.peak);
        let measurements = RunMeasurements {
            stopped,
            end,
            cpu: reaped.cpu,
            memory: sampled.max(self.own_memory.command_part(reaped.peak)),
            output: outputs[0].total().max(outputs[1].total()),
        };
        let [stdout, stderr] = outputs.map(OutputPipe::into_captured);
        self.own_memory
            .on_bytes_buffered(usize::try_from(stdout.size + stderr.size).unwrap_or(usize::MAX));
        Ok(CommandOutcome {
            reason: end_reason(&measurements, &limits),
            exit_code: end.code(),
            signal: end.signal(),
            wall,
            cpu: measurements.cpu,
            memory: sampled.max(reaped.peak),
            stdout,
            stderr,
        })
    }
}

/// The process tree of a running command without a cell, whose end and limits the warden's watch loop checks.
struct WatchedTree<'a> {
    reaped: ReapedUsage,
    sampler: Option<LimitSampler>,
    table: &'a mut ProcessTable,
}

impl WatchedCommand for WatchedTree<'_> {
    fn event_descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::empty()
    }

    fn has_ended(&mut self) -> bool {
        self.reaped.reap();
        self.reaped.status.is_some()
    }

    fn next_check(&self) -> Option<Instant> {
        self.sampler.as_ref().map(LimitSampler::next)
    }

    fn check_limits(&mut self, _: PendingEvents) -> Option<CommandEndReason> {
        self.sampler.as_mut()?.sample_if_due(self.table)
    }
}

/// The outcome of a command that never started.
pub(super) fn outcome_without_start(reason: CommandEndReason) -> CommandOutcome {
    CommandOutcome {
        reason,
        exit_code: None,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedStream::default(),
        stderr: CapturedStream::default(),
    }
}

/// The outcome of a program that cannot be executed, with the message and exit code of a shell.
pub(super) fn outcome_of_failed_exec(
    program: &std::ffi::OsStr,
    errno: Errno,
    outputs: [OutputPipe<'_>; 2],
    wall: Duration,
) -> CommandOutcome {
    let [stdout, mut stderr] = outputs;
    stderr.append(b"conclave: ");
    stderr.append(program.as_bytes());
    stderr.append(format!(": {}\n", errno.text()).as_bytes());
    let code = if matches!(errno.0, libc::ENOENT | libc::ENOTDIR) {
        127
    } else {
        126
    };
    CommandOutcome {
        exit_code: Some(code),
        wall,
        stdout: stdout.into_captured(),
        stderr: stderr.into_captured(),
        ..outcome_without_start(CommandEndReason::Exited)
    }
}
