//! One run in a cell, from the request to the outcome.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::resource::{UsageWho, getrusage};

use super::child::NO_CORE;
use super::run_command::{Failure, Owner, never_started, refused};
use super::spawn::rlimits;
use super::streams::{Output, drain, open_input, scratch};
use super::verdict::{End, Facts, verdict};
use super::watch::{Noticed, Watch, Watched};
use crate::cell::{Cell, Cells, Ended, OomScore, Orders, Step, StepError, Used};
use crate::cgroup::{Group, GroupLimits, Usage};
use crate::fault::{Errno, Fault};
use crate::outcome::{Outcome, Reason};
use crate::spec::{Limits, Spec};

/// The tools that every run uses again.
pub(super) struct CellBench {
    pub(super) cells: Cells,
    scratch: Vec<u8>,
}

impl CellBench {
    pub(super) fn new(cells: Cells) -> Self {
        Self {
            cells,
            scratch: scratch(),
        }
    }

    /// Whatever it returns, no process of the command is left.
    pub(super) fn run_command(
        &mut self,
        owner: Owner<'_>,
        number: u64,
        spec: Spec,
    ) -> Result<Outcome, Failure> {
        let (limits, keep) = (self.cells.complete(spec.limits), spec.keep);
        let input = open_input(spec.input)?;
        let mut outputs = [Output::open(keep)?, Output::open(keep)?];
        let rlimits = rlimits(&limits).into_iter().flatten();
        // Set when the cell was made.
        let rlimits = rlimits
            .filter(|limit| limit.resource != NO_CORE.resource)
            .collect();
        let orders = Orders::new(&spec.argv, &spec.env, &spec.directory, rlimits);
        // Whom the kernel kills for memory it kills with all who share that memory, as the warden does until there is
        // a program: so what the program is given must fit easily.
        let room = limits
            .memory
            .map(|limit| (limit.max(Group::LEAST_MEMORY) - Group::HELD_AT_FIRST) / 2);
        if room.is_some_and(|room| orders.size() as u64 > room) {
            return Ok(never_started(Reason::MemoryLimit));
        }
        let mut cell = self.cells.take(spec.network.as_deref())?;
        self.cells.begin(GroupLimits {
            memory: limits.memory,
            processes: limits.processes,
        })?;
        let streams = [input.as_fd(), outputs[0].writing(), outputs[1].writing()];
        let start = Instant::now();
        cell.order(orders, streams).map_err(Fault::from)?;
        drop(input);

        let mut inmate = Inmate {
            cell: &mut cell,
            oom_score: self.cells.oom_score(),
            group: self.cells.group(),
            limits: &limits,
            next_look: None,
            ended: Ended::NotYet,
        };
        inmate.plan_next_look(Duration::ZERO);
        let seen = Watch {
            owner,
            number,
            limits: &limits,
            start,
            scratch: &mut self.scratch,
        }
        .run(&mut inmate, &mut outputs);
        let wall = start.elapsed();
        let ended = inmate.ended;
        let has_begun = cell.has_begun();
        let failed = self.cells.end(cell);
        if !has_begun {
            self.cells.oom_score().restore();
        }
        let stopped = seen.stopped()?;
        drain(&mut outputs, &mut self.scratch);
        if let Some(failed) = failed {
            return on_failed(failed, &spec.argv[0], outputs, wall);
        }
        let usage = match self.cells.group() {
            Some(group) => group.usage().map_err(Fault::from)?,
            None => Usage::default(),
        };
        // Commands are the first that the kernel kills when the machine, or a group above theirs, is out of memory. That is
        // no verdict on one that kept its own limit.
        if usage.oom_kills > 0 && !usage.reached_limit {
            return Err(Fault::MachineMemory.into());
        }
        let (end, used) = match ended {
            Ended::With(status, used) => (End::of(status), used),
            // We ended it.
            Ended::NotYet => (End::Signal(libc::SIGKILL), Used::default()),
            Ended::Unknown => return Err(Fault::Wait(Errno(libc::ECHILD)).into()),
        };
        // Without a group that counts, what the kernel counts for each process has to do.
        // What the task brought is in the group, and no doing of the command.
        let in_group = usage
            .memory
            .map(|peak| peak.saturating_sub(self.cells.laid_out()));
        let memory = in_group.unwrap_or_else(|| own_memory(used));
        // The kernel keeps the limit, unless it is too low to be set, or no group is there for it.
        let is_kept =
            self.cells.group().is_some_and(Group::keeps_memory) && limits.memory >= Some(Group::LEAST_MEMORY);
        let facts = Facts {
            stopped: stopped.or_else(|| exceeded(&usage)),
            end,
            cpu: usage.cpu.unwrap_or(Duration::from_micros(used.cpu_micros)),
            memory: if is_kept { 0 } else { memory },
            output: outputs[0].total().max(outputs[1].total()),
        };
        let reason = match verdict(&facts, &limits) {
            Reason::Exited | Reason::Signalled if end != End::Code(0) && self.cells.is_full() => {
                Reason::DiskLimit
            }
            reason => reason,
        };
        let [stdout, stderr] = outputs.map(Output::into_captured);
        Ok(Outcome {
            reason,
            exit_code: end.code(),
            signal: end.signal(),
            wall,
            cpu: facts.cpu,
            memory,
            stdout,
            stderr,
        })
    }
}

/// The peak of the largest process, in bytes. The kernel starts it with that of the warden, whose memory the process
/// shared until it executed: what is no more than that says nothing.
fn own_memory(used: Used) -> u64 {
    let warden = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss() as u64);
    match used.memory_kib > warden {
        true => used.memory_kib << 10,
        false => 0,
    }
}

/// What the kernel itself refused to the group.
fn exceeded(usage: &Usage) -> Option<Reason> {
    match usage {
        Usage { oom_kills: 1.., .. } => Some(Reason::MemoryLimit),
        Usage {
            refused_forks: 1.., ..
        } => Some(Reason::ProcessLimit),
        _ => None,
    }
}

/// The command's own doing, or ours.
fn on_failed(
    failed: StepError,
    program: &std::ffi::OsStr,
    outputs: [Output; 2],
    wall: Duration,
) -> Result<Outcome, Failure> {
    match failed {
        StepError {
            step: Step::Execute,
            errno,
        } if !errno.is_shortage() => Ok(refused(program, errno, outputs, wall)),
        failed => Err(Fault::from(failed).into()),
    }
}

/// A command in its cell, being watched.
struct Inmate<'a> {
    cell: &'a mut Cell,
    oom_score: &'a OomScore,
    group: Option<&'a Group>,
    limits: &'a Limits,
    next_look: Option<Instant>,
    ended: Ended,
}

impl Inmate<'_> {
    /// CPU time cannot run out sooner than with all cores at work. That a process was refused is not told by every
    /// kernel, so it has to be looked for.
    fn plan_next_look(&mut self, used: Duration) {
        const SHORTEST: Duration = Duration::from_millis(1);
        const INTERVAL: Duration = Duration::from_millis(10);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let cpu = self
            .limits
            .cpu
            .map(|limit| (limit.saturating_sub(used) / cores).max(SHORTEST));
        let forks = self.limits.processes.map(|_| INTERVAL);
        let pause = [cpu, forks].into_iter().flatten().min();
        self.next_look = pause.map(|pause| Instant::now() + pause);
    }
}

impl Watched for Inmate<'_> {
    fn notices(&self) -> impl Iterator<Item = PollFd<'_>> {
        let group = self.group.into_iter().flat_map(Group::notices);
        let news = PollFd::new(self.cell.news(), PollFlags::POLLIN);
        std::iter::once(news).chain(self.cell.beginning()).chain(group)
    }

    fn has_ended(&mut self) -> bool {
        if self.cell.has_just_begun() {
            self.oom_score.restore();
        }
        self.ended = self.cell.listen();
        self.ended != Ended::NotYet
    }

    fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    fn look(&mut self, noticed: Noticed) -> Option<Reason> {
        let is_due = self.next_look.is_some_and(|next| next <= Instant::now());
        if noticed == Noticed::Nothing && !is_due {
            return None;
        }
        // A look that fails is like one that comes later.
        let usage = self.group?.usage().ok()?;
        let used = usage.cpu.unwrap_or_default();
        self.plan_next_look(used);
        // The kernel tells that memory has run out before it counts whom it kills for that.
        if noticed == Noticed::Something {
            const SOON: Duration = Duration::from_millis(1);
            let soon = Instant::now() + SOON;
            self.next_look = Some(self.next_look.map_or(soon, |next| next.min(soon)));
        }
        let out_of_time = self.limits.cpu.is_some_and(|limit| used > limit);
        exceeded(&usage).or(out_of_time.then_some(Reason::TimeLimit))
    }
}
