//! Live output: passes what the steps of a task write to a judicator, while they run and until their result is acknowledged.
//!
//! A judicator asks for the output of an attempt at an offset, and the executor answers when there is some. Nothing is sent
//! that nobody asked for, and a step that nobody follows costs two changes of a table in memory. Live output is never part
//! of a result: what is lost here is in the result of the task.

mod answer;
mod serve;
mod warden_wakeups;

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{AttemptId, CapturedOutput, CaseMark, OutputSource, StepName, StreamName, TaskSpec};
use sandbox::LiveOutput;
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::serve::OutputServer;
use self::warden_wakeups::WardenWakeups;
use crate::outcome::StepOutcome;

/// How many threads may read output from files at the same time, also if the disk hangs.
const FILE_READS: usize = 8;

/// The executor's table of the output of all attempts that it holds, from their assignment to their end. After that the
/// spool has their output.
pub(crate) struct LiveOutputs {
    attempts: Mutex<HashMap<AttemptId, Arc<AttemptOutputs>>>,
    warden_wakeups: WardenWakeups,
    file_reads: Arc<Semaphore>,
}

/// The output of one attempt that the executor holds.
struct AttemptOutputs {
    state: Mutex<AttemptOutputState>,
    /// Notified after each change of the state.
    changed: Notify,
}

/// The locked part of an [`AttemptOutputs`].
struct AttemptOutputState {
    compile: StepOutput,
    execute: StepOutput,
    /// Whether the attempt has ended. It is no longer in the table.
    is_over: bool,
}

/// Where the executor finds the output of one step of an attempt.
#[derive(Clone)]
enum StepOutput {
    NotBegun,
    /// A warden captures it, in the run with this number.
    Running {
        live: LiveOutput,
        run: u64,
    },
    Ended {
        stdout: EndedStream,
        stderr: EndedStream,
    },
    /// The cases of a judged task run. Its stdout has the marks of those that have ended; the number of cases bounds it.
    Cases(Arc<Mutex<Vec<u8>>>),
}

/// One output stream of a step that has ended.
#[derive(Clone, Default)]
struct EndedStream {
    output: CapturedOutput,
    /// Everything that is kept, if that is more than the head of the output.
    file: Option<Arc<File>>,
}

impl Default for LiveOutputs {
    fn default() -> LiveOutputs {
        LiveOutputs {
            attempts: Mutex::default(),
            warden_wakeups: WardenWakeups::default(),
            file_reads: Arc::new(Semaphore::new(FILE_READS)),
        }
    }
}

impl LiveOutputs {
    /// Adds an attempt, none of whose steps has begun.
    pub(crate) fn on_assigned(&self, attempt_id: AttemptId, spec: &TaskSpec) {
        let compile = match spec.compile {
            Some(_) => StepOutput::NotBegun,
            None => StepOutput::empty(),
        };
        let attempt = Arc::new(AttemptOutputs {
            state: Mutex::new(AttemptOutputState {
                compile,
                execute: StepOutput::NotBegun,
                is_over: false,
            }),
            changed: Notify::new(),
        });
        self.table().insert(attempt_id, attempt);
    }

    /// The step begins in the warden of this output, with this number of the run.
    pub(crate) fn on_step_begun(&self, attempt_id: &AttemptId, step: StepName, live: LiveOutput, run: u64) {
        self.set(attempt_id, step, StepOutput::Running { live, run });
    }

    pub(crate) fn on_step_ended(&self, attempt_id: &AttemptId, step: StepName, outcome: &StepOutcome) {
        let ended = |output: &CapturedOutput, file: &Option<Arc<File>>| EndedStream {
            output: output.clone(),
            file: file.clone(),
        };
        let ended = StepOutput::Ended {
            stdout: ended(&outcome.outcome.stdout, &outcome.stdout),
            stderr: ended(&outcome.outcome.stderr, &outcome.stderr),
        };
        self.set(attempt_id, step, ended);
    }

    /// The cases of a judged task begin: they take the place of its execute step.
    pub(crate) fn on_cases_begun(&self, attempt_id: &AttemptId) {
        self.set(attempt_id, StepName::Execute, StepOutput::Cases(Arc::default()));
    }

    /// Adds the mark of a case that has ended.
    pub(crate) fn on_case_ended(&self, attempt_id: &AttemptId, mark: &CaseMark) {
        let Some(attempt) = self.attempt(attempt_id) else {
            return;
        };
        if let StepOutput::Cases(marks) = attempt.lock().step_mut(StepName::Execute) {
            let mut marks = lock_marks(marks);
            marks.extend_from_slice(mark.to_string().as_bytes());
            marks.push(b'\n');
        }
        attempt.changed.notify_waiters();
    }

    /// Removes an attempt. Its result, if there is one, must be in the spool already.
    pub(crate) fn on_attempt_ended(&self, attempt_id: &AttemptId) {
        let removed = self.table().remove(attempt_id);
        if let Some(attempt) = removed {
            attempt.lock().is_over = true;
            attempt.changed.notify_waiters();
        }
    }

    fn set(&self, attempt_id: &AttemptId, step: StepName, output: StepOutput) {
        if let Some(attempt) = self.attempt(attempt_id) {
            *attempt.lock().step_mut(step) = output;
            attempt.changed.notify_waiters();
        }
    }

    fn attempt(&self, attempt_id: &AttemptId) -> Option<Arc<AttemptOutputs>> {
        self.table().get(attempt_id).cloned()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<AttemptId, Arc<AttemptOutputs>>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptOutputs {
    /// The output of a step. `None` if the attempt is over.
    fn step(&self, step: StepName) -> Option<StepOutput> {
        let mut state = self.lock();
        match state.is_over {
            true => None,
            false => Some(state.step_mut(step).clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, AttemptOutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptOutputState {
    fn step_mut(&mut self, step: StepName) -> &mut StepOutput {
        match step {
            StepName::Compile => &mut self.compile,
            StepName::Execute => &mut self.execute,
        }
    }
}

impl StepOutput {
    /// The output of a step that the task does not have.
    fn empty() -> StepOutput {
        StepOutput::Ended {
            stdout: EndedStream::default(),
            stderr: EndedStream::default(),
        }
    }
}

fn lock_marks(marks: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    marks.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sandbox_stream(source: OutputSource) -> sandbox::StandardStream {
    match source.stream {
        StreamName::Stdout => sandbox::StandardStream::Stdout,
        StreamName::Stderr => sandbox::StandardStream::Stderr,
    }
}
