//! One run, from the request to the outcome.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::PollFd;

use super::destroy::destroy;
use super::footprint::Footprint;
use super::reap::Tally;
use super::resolve::resolve;
use super::sample::Sampler;
use super::spawn::{NotStarted, Plan, Spawner};
use super::streams::{Output, drain, open_input, scratch};
use super::tree::Table;
use super::urgent::Words;
use super::verdict::{End, Facts, verdict};
use super::watch::{Noticed, Watch, Watched};
use crate::fault::{Errno, Fault};
use crate::outcome::{Captured, Outcome, Reason};
use crate::spec::Spec;

/// The tools that every run uses again.
pub(super) struct Bench {
    table: Table,
    spawner: Spawner,
    footprint: Footprint,
    scratch: Vec<u8>,
}

pub(super) enum Failure {
    Fault(Fault),
    /// The owner is gone; so is the command.
    HungUp,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Who is to be listened to while the command runs.
pub(super) struct Owner<'a> {
    pub(super) socket: &'a UnixStream,
    pub(super) words: &'a mut Words,
}

impl Bench {
    pub(super) fn new(table: Table) -> Self {
        let (spawner, footprint) = (Spawner::new(), Footprint::new());
        Self {
            table,
            spawner,
            footprint,
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
        let Spec {
            argv,
            env,
            directory,
            input,
            limits,
            keep,
            // A command without a cell has the network that its user has.
            network: _,
        } = spec;
        self.footprint.on_moved(input.held());
        let input = open_input(input)?;
        let mut outputs = [Output::open(keep)?, Output::open(keep)?];
        self.footprint.forget_peak();

        let start = Instant::now();
        let started = match resolve(&argv[0], &env, &directory) {
            Ok(program) => self.spawner.spawn(&Plan {
                program,
                argv: &argv,
                env: &env,
                directory: &directory,
                streams: [input.as_fd(), outputs[0].writing(), outputs[1].writing()],
                limits: &limits,
            }),
            Err(errno) => Err(NotStarted::Refused(errno)),
        };
        drop(input);
        let pid = match started {
            Ok(pid) => pid,
            Err(not_started) => {
                Tally::new(0).reap_to_the_last();
                return match not_started {
                    NotStarted::Refused(errno) => Ok(refused(&argv[0], errno, outputs, start.elapsed())),
                    NotStarted::Fault(fault) => Err(fault.into()),
                };
            }
        };

        let mut tree = Tree {
            tally: Tally::new(pid),
            sampler: Sampler::new(&limits, start),
            table: &mut self.table,
        };
        let seen = Watch {
            owner,
            number,
            limits: &limits,
            start,
            scratch: &mut self.scratch,
        }
        .run(&mut tree, &mut outputs);
        let wall = start.elapsed();
        let Tree {
            mut tally, sampler, ..
        } = tree;
        destroy(&mut self.table, &mut tally);
        let stopped = seen.stopped()?;
        drain(&mut outputs, &mut self.scratch);

        let end = End::of(tally.status.ok_or(Fault::Wait(Errno(libc::ECHILD)))?);
        let sampled = sampler.map_or(0, |sampler| sampler.peak);
        let facts = Facts {
            stopped,
            end,
            cpu: tally.cpu,
            memory: sampled.max(self.footprint.own_part(tally.peak)),
            output: outputs[0].total().max(outputs[1].total()),
        };
        let [stdout, stderr] = outputs.map(Output::into_captured);
        self.footprint.on_moved(stdout.bytes.len() + stderr.bytes.len());
        Ok(Outcome {
            reason: verdict(&facts, &limits),
            exit_code: end.code(),
            signal: end.signal(),
            wall,
            cpu: facts.cpu,
            memory: sampled.max(tally.peak),
            stdout,
            stderr,
        })
    }
}

/// The processes that come of one that we started ourselves.
struct Tree<'a> {
    tally: Tally,
    sampler: Option<Sampler>,
    table: &'a mut Table,
}

impl Watched for Tree<'_> {
    fn notices(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::empty()
    }

    fn has_ended(&mut self) -> bool {
        self.tally.reap();
        self.tally.status.is_some()
    }

    fn next_look(&self) -> Option<Instant> {
        self.sampler.as_ref().map(Sampler::next)
    }

    fn look(&mut self, _: Noticed) -> Option<Reason> {
        self.sampler.as_mut()?.look_if_due(self.table)
    }
}

/// Killed, or abandoned, before it came to its turn.
pub(super) fn never_started(reason: Reason) -> Outcome {
    Outcome {
        reason,
        exit_code: None,
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: Captured::default(),
        stderr: Captured::default(),
    }
}

/// What a shell would say about a program that it cannot start.
pub(super) fn refused(
    program: &std::ffi::OsStr,
    errno: Errno,
    outputs: [Output; 2],
    wall: Duration,
) -> Outcome {
    let [stdout, mut stderr] = outputs;
    stderr.push(b"conclave: ");
    stderr.push(program.as_bytes());
    stderr.push(format!(": {}\n", errno.text()).as_bytes());
    let code = if matches!(errno.0, libc::ENOENT | libc::ENOTDIR) {
        127
    } else {
        126
    };
    Outcome {
        exit_code: Some(code),
        wall,
        stdout: stdout.into_captured(),
        stderr: stderr.into_captured(),
        ..never_started(Reason::Exited)
    }
}
