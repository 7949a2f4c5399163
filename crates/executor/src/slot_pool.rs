//! The threads of the slots: each owns wardens and runs one attempt after another.
//!
//! These are threads and not async tasks, because an attempt consists of file operations and of waiting for one process.

mod attempt_wardens;
mod kill;
mod waiting;
mod warden_sets;
mod wardens;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use error_causes::with_causes;
use model::{AttemptEnd, AttemptId, BlobHash, CompletedAttempt, RootName, TaskSpec, TaskStatus, retry_delay};
use sandbox::{CommandIsolation, CpuNumber, EnforcementError, Warden, WardenControl, WardenLauncher};
use supervise::{Component, Supervisor};
use tokio::sync::mpsc;

use crate::attempt_control::AttemptControl;
use crate::cache::{BlobCache, BlobPins};
use crate::cell_roots::CellRoots;
use crate::collect::KeepLimits;
use crate::judge_programs::JudgeProgramCache;
use crate::live_output::LiveOutputs;
use crate::memory_reserve::MemoryReserve;
use crate::outgoing::{OutgoingFiles, OutgoingFolder};
use crate::queue::AttemptQueue;
use crate::run::{RunFailure, RunResult, run};
use crate::spool::Spool;
use crate::uploader::Uploads;
use crate::workspace::Workspace;
use crate::{ExecutorError, now};
use attempt_wardens::RootUnusable;
pub(crate) use attempt_wardens::{AttemptWardens, CommandRoot, ReadyWarden};
use waiting::SlotWork;
use warden_sets::{ROOTS_PER_SLOT, SlotWardens};

/// The first operation of each attempt, as it appears in the reason for a stuck slot.
const READY: &str = "make a warden ready";
/// How many wardens a slot has for each root if tasks run in cells; they alternate.
const WARDENS_PER_SLOT: u32 = 2;

/// How many wardens an executor with this many slots has at most, if tasks run in cells. Each has a user id of its own.
pub fn warden_count(slots: u32) -> u32 {
    // One more looks for languages.
    WARDENS_PER_SLOT * ROOTS_PER_SLOT as u32 * slots + 1
}

/// An attempt that is ready to run in a slot of the executor: all of its blobs are in the cache.
pub(crate) struct PreparedAttempt {
    pub(crate) attempt_id: AttemptId,
    pub(crate) spec: TaskSpec,
    pub(crate) platform_losses: u32,
    pub(crate) control: Arc<AttemptControl>,
    /// Keeps the blobs in the cache until the attempt has ended.
    pub(crate) _pins: BlobPins,
}

/// An event that the executor's slots send to the report loop, like the start or the end of an attempt. Each event is
/// sent with its time, because the loop handles it only after the report in flight. There are a few events for each
/// attempt, so the number of attempts bounds the channel.
pub(crate) enum SlotEvent {
    AttemptStarted(AttemptId, TaskStatus),
    /// The result, if there is one, is already in the spool.
    AttemptEnded(AttemptId, AttemptEndCause),
    /// A slot cannot start a warden, for this reason.
    SlotOutOfService(String),
    SlotBackInService,
    /// All processes of a stuck attempt were sent SIGKILL.
    ProcessesKilled(AttemptId),
    /// The machine became short of memory, or has recovered.
    MemoryReserveChanged,
    /// A result that waited for its uploads can be reported.
    ResultUploaded,
}

/// Why an attempt ended, as far as the report loop needs it to decide about taking further tasks.
#[derive(Clone, Copy)]
pub(crate) enum AttemptEndCause {
    Result,
    /// The executor could not run the attempt.
    ExecutorFailure,
    /// The executor killed the attempt because the machine was short of memory.
    KilledForMemory,
    /// The store has lost a blob that the task needs.
    BlobLost,
    /// The root that the task names was removed, or cells cannot use it.
    UnusableRoot,
    /// The attempt was revoked or given back.
    NoResult,
}

/// The slots of an executor: what the threads that run attempts share with the report loop and with each other.
pub(crate) struct SlotPool {
    slots: u32,
    pub(crate) work: PathBuf,
    pub(crate) cache: Arc<BlobCache>,
    pub(crate) spool: Spool,
    pub(crate) outgoing: Arc<OutgoingFolder>,
    pub(crate) uploads: Uploads,
    pub(crate) process_marker: (std::ffi::OsString, std::ffi::OsString),
    pub(crate) keep_output: u64,
    pub(crate) keep_limits: KeepLimits,
    /// The shell of the default root, for commands that are given as text.
    shell: &'static str,
    pub(crate) roots: CellRoots,
    pub(crate) events: mpsc::UnboundedSender<(Instant, SlotEvent)>,
    pub(crate) reserve: MemoryReserve,
    pub(crate) live_outputs: LiveOutputs,
    pub(crate) judge_programs: JudgeProgramCache,
    /// The CPUs to which the wardens of the slots are pinned. Empty if they are not.
    cpus: Vec<CpuNumber>,
    wardens_per_slot: u32,
    launcher: WardenLauncher,
    queue_state: Mutex<QueueState>,
    /// Signalled when an attempt is queued.
    ready: Condvar,
    /// Signalled by `close`. Not the same as `ready`, which wakes one slot for one attempt.
    closing: Condvar,
    wardens: Mutex<WardenHandles>,
}

/// One of the wardens of an executor's slot, the processes that run its tasks, with the warden's workspace.
struct WardenSlot {
    number: usize,
    warden: Option<Warden>,
    /// Whether its cell was handed out since the warden was ready.
    is_used: bool,
    workspace: Workspace,
    isolation: CommandIsolation,
}

/// The locked part of a [`SlotPool`]: the attempts that wait for a slot, and whether the pool is closed.
struct QueueState {
    queue: AttemptQueue<PreparedAttempt>,
    closed: bool,
    /// How often roots were added, replaced or removed.
    root_changes: u64,
}

/// The control handles of all wardens in a [`SlotPool`], and the deadline that was last sent to them.
struct WardenHandles {
    controls: Vec<Option<WardenControl>>,
    deadline: Option<Instant>,
}

/// The arguments of [`SlotPool::new`], which creates the slots of an executor.
pub(crate) struct SlotPoolSetup {
    pub(crate) slots: u32,
    pub(crate) work: PathBuf,
    pub(crate) cache: Arc<BlobCache>,
    pub(crate) spool: Spool,
    pub(crate) outgoing: Arc<OutgoingFolder>,
    pub(crate) process_marker: (std::ffi::OsString, std::ffi::OsString),
    pub(crate) keep_output: u64,
    pub(crate) keep_limits: KeepLimits,
    pub(crate) shell: &'static str,
    pub(crate) roots: CellRoots,
    /// Bytes of memory that must stay available to other processes.
    pub(crate) reserve: u64,
    /// The CPUs to which wardens are pinned, one for each slot. Empty if they are not.
    pub(crate) cpus: Vec<CpuNumber>,
    /// Whether tasks are judged without cells.
    pub(crate) judge_without_cells: bool,
    pub(crate) launcher: WardenLauncher,
}

impl SlotPool {
    pub(crate) fn new(
        setup: SlotPoolSetup,
        events: mpsc::UnboundedSender<(Instant, SlotEvent)>,
    ) -> Arc<SlotPool> {
        let SlotPoolSetup {
            slots,
            work,
            cache,
            spool,
            outgoing,
            process_marker,
            keep_output,
            keep_limits,
            shell,
            roots,
            reserve,
            cpus,
            judge_without_cells,
            launcher,
        } = setup;
        // With cells, one warden runs a task while the other one prepares its next cell. Without, an interactive case needs two.
        let wardens_per_slot = match launcher.isolation {
            CommandIsolation::None if !judge_without_cells => 1,
            CommandIsolation::None | CommandIsolation::Cell(_) => WARDENS_PER_SLOT,
        };
        let uploads = Uploads::default();
        // Uploads of an earlier process go on.
        for (attempt_id, blobs) in spool.uploads() {
            uploads.add(attempt_id, blobs);
        }
        Arc::new(SlotPool {
            slots,
            work,
            cache,
            spool,
            outgoing,
            uploads,
            process_marker,
            keep_output,
            keep_limits,
            shell,
            roots,
            events,
            reserve: MemoryReserve::new(reserve),
            live_outputs: LiveOutputs::default(),
            judge_programs: JudgeProgramCache::default(),
            cpus,
            wardens_per_slot,
            launcher,
            queue_state: Mutex::new(QueueState {
                queue: AttemptQueue::new(slots as usize),
                closed: false,
                root_changes: 0,
            }),
            ready: Condvar::new(),
            closing: Condvar::new(),
            wardens: Mutex::new(WardenHandles {
                controls: Vec::new(),
                deadline: None,
            }),
        })
    }

    /// How many bytes of each output stream a step with this limit keeps. If a task asks for more than the operator keeps of
    /// all tasks, both streams of both steps must fit into the outgoing folder.
    pub(crate) fn max_captured_bytes(&self, output_limit: Option<u64>) -> u64 {
        let largest = self.keep_output.max(self.outgoing.limit() / 4);
        output_limit.map_or(self.keep_output, |limit| limit.min(largest))
    }

    /// Whether the outgoing folder has room for the files of another task and both output streams of both steps.
    pub(crate) fn has_room_for_task(&self) -> bool {
        let output = self.keep_output.saturating_mul(4);
        self.outgoing
            .has_room_for(self.keep_limits.bytes.saturating_add(output))
    }

    /// Starts all wardens and the threads of all slots, so that a machine that cannot start a warden fails at startup. Each
    /// thread drops its sender when it ends.
    pub(crate) fn start(
        self: &Arc<Self>,
        supervisor: &Supervisor,
        alive: mpsc::Sender<()>,
    ) -> Result<Vec<JoinHandle<()>>, ExecutorError> {
        let wardens_per_slot = self.wardens_per_slot as usize;
        let total = self.slots as usize * wardens_per_slot;
        self.wardens().controls.resize(total * ROOTS_PER_SLOT, None);
        let warden_slots = (0..total)
            .map(|number| self.start_warden_slot(number))
            .collect::<Result<VecDeque<_>, _>>()?;
        let mut warden_slots = warden_slots.into_iter();
        let mut threads = Vec::new();
        for slot in 0..self.slots {
            let slot_pool = self.clone();
            let warden_slots = warden_slots.by_ref().take(wardens_per_slot).collect();
            let alive = alive.clone();
            let thread = supervisor
                .thread(Component::Slot, format!("slot-{slot}"), move || {
                    slot_pool.run_slot(SlotWardens::new(slot as usize, warden_slots, slot_pool.shell));
                    drop(alive);
                })
                .map_err(ExecutorError::Thread)?;
            threads.push(thread);
        }
        let slot_pool = self.clone();
        let memory_reserve = supervisor
            .thread(Component::MemoryReserve, "memory-reserve".into(), move || {
                slot_pool.reserve.run(&slot_pool);
                drop(alive);
            })
            .map_err(ExecutorError::Thread)?;
        threads.push(memory_reserve);
        Ok(threads)
    }

    fn start_warden_slot(&self, number: usize) -> Result<WardenSlot, EnforcementError> {
        let mut warden_slot = self.new_warden_slot(number, &self.launcher.isolation);
        warden_slot.warden = Some(self.start_warden(number, &warden_slot.isolation)?);
        Ok(warden_slot)
    }

    /// A warden that starts when it is needed. `isolation` is that of all wardens in its root.
    fn new_warden_slot(&self, number: usize, isolation: &CommandIsolation) -> WardenSlot {
        let isolation = isolation.for_warden(number as u32);
        WardenSlot {
            number,
            warden: None,
            is_used: false,
            workspace: Workspace::new(&self.work, number, &isolation),
            isolation,
        }
    }

    fn run_slot(&self, mut slot_wardens: SlotWardens) {
        let mut root_changes = 0;
        while let Some(work) = self.next_work(&mut root_changes) {
            let prepared = match work {
                SlotWork::Attempt(prepared) => *prepared,
                SlotWork::RootsChanged => {
                    slot_wardens.forget_replaced(self);
                    continue;
                }
            };
            prepared.control.on_operation(READY);
            let mut wardens = match slot_wardens.for_attempt(self, &prepared.spec, &prepared.control) {
                Ok(wardens) => wardens,
                Err(RootUnusable { root, error }) => {
                    self.end_unstarted(prepared, root.as_ref(), with_causes(&error));
                    continue;
                }
            };
            let number = match wardens.prepare() {
                Ok(number) => number,
                Err(error) if wardens.of_task().is_in_default_root() => {
                    self.put_back(prepared);
                    match self.wait_for_warden_start(&mut wardens.of_task().wardens, &error) {
                        Some(()) => continue,
                        None => return,
                    }
                }
                // The slot can still run tasks in other roots.
                Err(error) => {
                    let root = prepared.spec.root.clone();
                    self.end_unstarted(prepared, root.as_ref(), with_causes(&error));
                    root.iter().for_each(|root| slot_wardens.forget(root));
                    continue;
                }
            };
            let AttemptId { task, attempt, .. } = prepared.attempt_id;
            tracing::debug!(%task, %attempt, slot = number, "attempt started");
            let started = Instant::now();
            self.reserve.on_started(prepared.attempt_id, &prepared.control);
            let attempt = AssertUnwindSafe(|| run(self, &mut wardens, &prepared));
            // Without this a panic would end the slot's thread, and the attempt would never end.
            let end = catch_unwind(attempt).unwrap_or_else(|_| {
                Err(RunFailure::WardenLost(
                    "the executor panicked; see its log".into(),
                ))
            });
            // A warden that failed, or was killed because the slot was stuck, is not used again.
            if matches!(end, Err(RunFailure::WardenLost(_))) || prepared.control.stuck_reason().is_some() {
                wardens.end_used();
            }
            self.reserve.on_ended(&prepared.attempt_id);
            self.end_attempt(prepared, end, started.elapsed());
            // The wardens prepare their next cells after the event, so that the report of the result does not wait for it.
            wardens.renew();
            self.cache.evict_in_background();
        }
    }

    /// Ends an attempt whose root this executor cannot use.
    fn end_unstarted(&self, prepared: PreparedAttempt, root: Option<&RootName>, why: String) {
        if let Some(root) = root {
            self.roots.on_failed(root);
        }
        self.end_attempt(prepared, Err(RunFailure::UnusableRoot(why)), Duration::ZERO);
    }

    fn end_attempt(&self, prepared: PreparedAttempt, end: Result<RunResult, RunFailure>, took: Duration) {
        let cause = self.on_attempt_end(&prepared, end, took);
        let attempt_id = prepared.attempt_id;
        prepared.control.on_ended();
        drop(prepared);
        // Before the event: the attempt that the report loop takes for this slot must find the slot free.
        self.lock_queue().queue.on_slot_free();
        self.send_event(SlotEvent::AttemptEnded(attempt_id, cause));
    }

    /// Puts the end of an attempt into the spool, if it has one to report.
    fn on_attempt_end(
        &self,
        prepared: &PreparedAttempt,
        end: Result<RunResult, RunFailure>,
        took: Duration,
    ) -> AttemptEndCause {
        let AttemptId { task, attempt, .. } = prepared.attempt_id;
        if prepared.control.is_given_up() {
            return AttemptEndCause::NoResult;
        }
        let platform_failure = prepared.control.platform_failure();
        let is_root_unusable = matches!(end, Err(RunFailure::UnusableRoot(_)));
        let mut outgoing_files = None;
        let end = match (end, platform_failure.clone(), prepared.control.stuck_reason()) {
            (Ok(RunResult { result, files }), ..) => {
                let reason = result.last_outcome().map(|outcome| outcome.reason);
                tracing::debug!(%task, %attempt, ?reason, ?took, "attempt ended");
                outgoing_files = Some(files).filter(|files| !files.is_empty());
                AttemptEnd::Result(result)
            }
            // The executor has killed the attempt; how it ended after that does not matter.
            (Err(_), Some(why), _) => AttemptEnd::PlatformFailure(why),
            (Err(RunFailure::Revoked), None, None) => {
                tracing::debug!(%task, %attempt, ?took, "attempt was revoked");
                return AttemptEndCause::NoResult;
            }
            (Err(RunFailure::Revoked), None, Some(stuck)) => AttemptEnd::Broken(stuck),
            (
                Err(
                    RunFailure::ExecutorFailure(why)
                    | RunFailure::WardenLost(why)
                    | RunFailure::UnusableRoot(why),
                ),
                None,
                stuck,
            ) => match stuck {
                None => AttemptEnd::PlatformFailure(why),
                Some(stuck) => AttemptEnd::Broken(format!("{stuck}: {why}")),
            },
        };
        let (attempt_id, pause) = (prepared.attempt_id, retry_delay(&end, prepared.platform_losses));
        let cause = match (&end, platform_failure) {
            (AttemptEnd::Result(_), _) => AttemptEndCause::Result,
            (AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_), Some(_)) => {
                AttemptEndCause::KilledForMemory
            }
            (AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_), None) if is_root_unusable => {
                AttemptEndCause::UnusableRoot
            }
            (AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_), None) => {
                AttemptEndCause::ExecutorFailure
            }
        };
        let complete = CompletedAttempt {
            attempt_id,
            form: prepared.control.form,
            end,
        };
        self.spool_end(complete, outgoing_files, pause);
        cause
    }

    /// Puts the end of an attempt into the spool; it is reported after the pause and the uploads of its files. Callers send
    /// the event afterwards.
    pub(crate) fn spool_end(
        &self,
        complete: CompletedAttempt,
        files: Option<OutgoingFiles>,
        pause: Duration,
    ) {
        if let AttemptEnd::Broken(why) | AttemptEnd::PlatformFailure(why) = &complete.end {
            let AttemptId { task, attempt, .. } = complete.attempt_id;
            tracing::warn!(%task, %attempt, why, "could not run the attempt");
        }
        let attempt_id = complete.attempt_id;
        let blobs = files.as_ref().map(|files| files.hashes().clone());
        self.spool.add(complete, files, pause);
        if let Some(blobs) = blobs {
            self.add_uploads_if_wanted(attempt_id, blobs);
        }
    }

    /// Uploads the blobs of a result in the spool, unless the judicator has revoked it since. The report loop removes a
    /// revoked result first from the spool and then from the uploads, so one of both sides sees the other's change.
    fn add_uploads_if_wanted(&self, attempt_id: AttemptId, blobs: impl IntoIterator<Item = BlobHash>) {
        self.uploads.add(attempt_id, blobs);
        if !self.spool.contains(&attempt_id) {
            self.uploads.remove(&attempt_id);
        }
    }

    /// An error means that the report loop has ended; then the event does not matter.
    pub(crate) fn send_event(&self, event: SlotEvent) {
        // The result, if there is one, is in the spool.
        if let SlotEvent::AttemptEnded(attempt_id, _) = &event {
            self.live_outputs.on_attempt_ended(attempt_id);
        }
        let _ = self.events.send((now(), event));
    }
}

#[cfg(test)]
pub(crate) mod tests;
