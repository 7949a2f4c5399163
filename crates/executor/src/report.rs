//! The report loop: sends the state of this executor to a judicator, and starts and stops attempts as the answer says.
//!
//! There is at most one report in flight. The loop sends one when something has changed (an attempt ended, a hint
//! arrived), and otherwise at the heartbeat. Changes during a report go into the next one.

mod apply_answer;
mod compose_report;
mod drain;
mod failure_backoff;
mod hint_watch;
mod revoke;
mod schedule;
mod send_report;
mod session;
mod shutdown;
mod stop_phase;
mod stuck_attempts;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use model::{AttemptId, ExecutorDrain, ReportAnswer, ReportInstructions, ReportIntent};
use rpc::{CallError, Calls};
use sandbox::{CommandIsolation, CpuNumber, WardenLauncher, allowed_cpus};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::compose_report::REPORT_BYTES;
use self::failure_backoff::FailureBackoff;
use self::hint_watch::HintWatch;
use self::schedule::ReportSchedule;
use self::send_report::AnswerTimeout;
use self::session::{NameConflict, ReportSession};
pub(crate) use self::shutdown::SlotThreads;
use self::stop_phase::{GOODBYE_TIMEOUT, StopPhase};
use crate::attempt_control::{AttemptControl, PauseDetector};
use crate::attempt_table::AttemptTable;
use crate::cache::BlobCache;
use crate::cell_roots::CellRoots;
use crate::collect::KeepLimits;
use crate::data_folder::{ExecutorDataFolder, SessionFile, folder_error};
use crate::fetch::BlobFetcher;
use crate::live_output::OutputServer;
use crate::machine::LoadProbe;
use crate::outgoing::OutgoingFolder;
use crate::run::shell_in_root;
use crate::slot_pool::{AttemptEndCause, SlotEvent, SlotPool, SlotPoolSetup};
use crate::spool::Spool;
use crate::tools::{ReportedTools, ToolFinder};
use crate::uploader::UploaderTask;
use crate::{ExecutorError, ExecutorOptions, JudicatorLocation, now, workspace};

/// How many entries of a workspace's folders are looked at for files to keep.
const MAX_KEEP_ENTRIES: usize = 2_000_000;

/// The executor's main loop, which sends reports to a judicator and applies the answers, with all state that it owns.
pub(crate) struct ReportLoop {
    options: ExecutorOptions,
    data_folder: ExecutorDataFolder,
    calls: Arc<dyn Calls>,
    slot_pool: Arc<SlotPool>,
    fetcher: Arc<BlobFetcher>,
    events: mpsc::UnboundedReceiver<(Instant, SlotEvent)>,
    hint: Arc<Notify>,
    session: ReportSession,
    attempts: AttemptTable,
    controls: HashMap<AttemptId, Arc<AttemptControl>>,
    /// Attempts that were reported as lost while the threads of their slots still hang; at most one for each slot.
    given_up: HashSet<AttemptId>,
    schedule: ReportSchedule,
    pause_detector: PauseDetector,
    failure_backoff: FailureBackoff,
    /// Whether the last report could not carry all results.
    results_left_over: bool,
    /// Whether the executor takes no tasks because the outgoing folder has no room for what another one may keep.
    waits_for_room: bool,
    /// The results that the last report carried.
    reported: Vec<AttemptId>,
    /// How many bytes of results the next report may carry. The loop halves it when an answer times out, because the
    /// report may have been too large for the network.
    result_bytes_limit: usize,
    /// The deadline that was last sent to the wardens: they kill their tasks when it passes.
    warden_deadline: Instant,
    /// Whether the loop has reacted to the wardens' deadline, which has passed.
    handled_deadline: bool,
    stopping: Option<StopPhase>,
    tools: ReportedTools,
    load: LoadProbe,
    /// Set while the executor is drained, according to the last answer.
    drain: Option<ExecutorDrain>,
}

/// The executor's files on disk that outlive a process, opened.
struct ExecutorStorage {
    cache: Arc<BlobCache>,
    spool: Spool,
    outgoing: Arc<OutgoingFolder>,
}

/// What became of one report that the report loop sent to a judicator.
enum ReportDelivery {
    Answered,
    Unanswered,
    /// The judicator has acknowledged the last report of the session; the executor may exit.
    GoodbyeAnswered,
}

/// The CPUs to which wardens are pinned, if they are.
fn cpus_for_slots(options: &ExecutorOptions) -> Result<Vec<CpuNumber>, ExecutorError> {
    if !options.pin {
        return Ok(Vec::new());
    }
    let cpus = allowed_cpus().map_err(ExecutorError::Cpus)?;
    if cpus.len() < options.slots as usize {
        tracing::warn!(
            slots = options.slots,
            cpus = cpus.len(),
            "there are more slots than CPUs, so several slots share one (executor.pin); use fewer slots for times that can be \
             compared"
        );
    }
    Ok(cpus)
}

impl ReportLoop {
    pub(crate) fn new(
        options: ExecutorOptions,
        data_folder: ExecutorDataFolder,
        isolation: CommandIsolation,
        calls: Arc<dyn Calls>,
    ) -> Result<ReportLoop, ExecutorError> {
        let cache_folder = data_folder.root.join("cache");
        let cache = BlobCache::open(cache_folder.clone(), options.cache_bytes)
            .map_err(folder_error("open the cache", &cache_folder))?;
        let spool_file = data_folder.root.join("spool");
        let outgoing = OutgoingFolder::open(data_folder.outgoing(), options.outgoing_bytes)
            .map_err(folder_error("open", &data_folder.outgoing()))?;
        let spool = Spool::open(&spool_file, &data_folder.last_attempts, &outgoing)
            .map_err(folder_error("open the spool", &spool_file))?;
        // The workspaces record which attempts were interrupted, so they are cleared only after the spool has those.
        workspace::clear(&data_folder.workspaces())
            .map_err(folder_error("clear", &data_folder.workspaces()))?;
        let storage = ExecutorStorage {
            cache,
            spool,
            outgoing,
        };
        ReportLoop::assemble(options, data_folder, isolation, calls, storage)
    }

    fn assemble(
        options: ExecutorOptions,
        data_folder: ExecutorDataFolder,
        isolation: CommandIsolation,
        calls: Arc<dyn Calls>,
        ExecutorStorage {
            cache,
            spool,
            outgoing,
        }: ExecutorStorage,
    ) -> Result<ReportLoop, ExecutorError> {
        let (program, args) = options.warden.clone();
        let lock = Some(data_folder.lock.clone());
        let setup = SlotPoolSetup {
            slots: options.slots,
            work: data_folder.workspaces(),
            cache,
            spool,
            outgoing,
            process_marker: data_folder.process_marker.clone(),
            keep_output: options.keep_output,
            keep_limits: KeepLimits {
                files: options.keep_files as usize,
                bytes: options.keep_bytes,
                entries: MAX_KEEP_ENTRIES,
            },
            shell: shell_in_root(options.root()),
            roots: CellRoots::new(options.roots.clone(), options.cells.clone(), isolation.clone()),
            reserve: options.reserve,
            cpus: cpus_for_slots(&options)?,
            judge_without_cells: options.judge_without_cells,
            launcher: WardenLauncher {
                isolation,
                program,
                args,
                lock,
                overflow_folder: data_folder.workspaces(),
            },
        };
        let (sender, events) = mpsc::unbounded_channel();
        let slot_pool = SlotPool::new(setup, sender);
        let fetcher = Arc::new(BlobFetcher {
            calls: calls.clone(),
            slot_pool: slot_pool.clone(),
            in_progress: Default::default(),
            stall: options.stall,
        });
        let previous = data_folder.previous_sessions.clone();
        Ok(ReportLoop {
            session: ReportSession::open(SessionFile::new(&data_folder.root), previous)
                .map_err(folder_error("write the session in", &data_folder.root))?,
            attempts: AttemptTable::new(options.slots),
            schedule: ReportSchedule::new(options.heartbeat),
            // The loop checks progress at each report: it waits for the answer, then for the next heartbeat.
            pause_detector: PauseDetector::new((options.heartbeat + options.self_kill / 2) * 3 / 2, now()),
            failure_backoff: FailureBackoff::default(),
            results_left_over: false,
            waits_for_room: false,
            reported: Vec::new(),
            result_bytes_limit: REPORT_BYTES,
            controls: HashMap::new(),
            given_up: HashSet::new(),
            hint: Arc::new(Notify::new()),
            warden_deadline: now(),
            handled_deadline: false,
            stopping: None,
            tools: ReportedTools::default(),
            load: LoadProbe::new(),
            drain: None,
            options,
            data_folder,
            calls,
            slot_pool,
            fetcher,
            events,
        })
    }

    /// Starts all slots and their wardens, so that a machine that cannot start a warden fails at startup.
    pub(crate) fn start_slots(&self) -> Result<SlotThreads, ExecutorError> {
        let (alive, ended) = mpsc::channel(1);
        let threads = self.slot_pool.start(&self.slot_pool.spool.supervisor, alive)?;
        Ok(SlotThreads { threads, ended })
    }

    pub(crate) async fn run(
        mut self,
        slots: SlotThreads,
        stop: CancellationToken,
    ) -> Result<(), ExecutorError> {
        let mut failures = self.slot_pool.spool.supervisor.failures();
        let (name, session) = (&self.data_folder.name, self.session.id);
        tracing::info!(%name, %session, slots = self.attempts.total_slots(), "executor started");
        let mut hint_watch = HintWatch::start(&self.calls, name, session, &self.hint);
        let mut output_server = OutputServer::start(&self.calls, &self.slot_pool, name, session);
        let uploader = UploaderTask::start(
            self.calls.clone(),
            self.slot_pool.clone(),
            &self.slot_pool.spool.supervisor,
        );
        let tool_finder = ToolFinder::start(self.calls.clone(), self.slot_pool.clone(), self.hint.clone());
        self.tools = ReportedTools::new(tool_finder.found());
        // Otherwise a task that names a language could be refused just after the start.
        stop.run_until_cancelled(tool_finder.wait_for_first_result())
            .await;
        let ended = loop {
            tokio::select! {
                () = self.wait_until_due(&stop) => {}
                // Without the thread of its slot an attempt would never end; without the spool's thread no result would
                // be written.
                failed = failures.wait() => break Err(failed.into()),
            }
            if stop.is_cancelled() && self.stopping.is_none() {
                self.on_stop();
            }
            let before = self.session.id;
            match self.report(&stop).await {
                Err(error) => break Err(error),
                Ok(ReportDelivery::GoodbyeAnswered) => break Ok(()),
                Ok(ReportDelivery::Answered | ReportDelivery::Unanswered) if self.is_goodbye_overdue() => {
                    self.log_unfinished_stop();
                    break Ok(());
                }
                Ok(ReportDelivery::Answered | ReportDelivery::Unanswered) => {}
            }
            if self.session.id != before {
                let (name, session) = (&self.data_folder.name, self.session.id);
                hint_watch = HintWatch::start(&self.calls, name, session, &self.hint);
                output_server = OutputServer::start(&self.calls, &self.slot_pool, name, session);
            }
        };
        drop((hint_watch, uploader));
        tool_finder.stop().await;
        output_server.stop().await;
        self.revoke_all();
        self.slot_pool.close();
        self.shut_down(slots).await;
        ended
    }

    /// Handles events until the next report is due or a stop is requested.
    async fn wait_until_due(&mut self, stop: &CancellationToken) {
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.on_event(event);
            }
            let now = now();
            let overdue = self.slot_pool.take_overdue(now);
            self.on_given_back(overdue);
            let overdue_at = self.slot_pool.overdue_at();
            self.advance_stop(now);
            if self.failure_backoff.end_if_over(now) | self.slot_pool.spool.end_pauses_if_over(now) {
                self.schedule.request_report();
            }
            let due = self
                .schedule
                .next_report_at(&self.attempts, self.slot_pool.waiting(), now);
            if due <= now || self.is_goodbye_overdue() {
                return;
            }
            let phase_ends = self.stopping.as_ref().and_then(StopPhase::ends_at);
            let pause_ends = self.slot_pool.spool.next_pause_ends();
            let wake = [overdue_at, phase_ends, self.failure_backoff.ends_at(), pause_ends]
                .into_iter()
                .flatten()
                .filter(|at| *at > now)
                .fold(due, Instant::min);
            tokio::select! {
                Some(event) = self.events.recv() => self.on_event(event),
                () = self.hint.notified() => self.schedule.request_report(),
                () = self.slot_pool.outgoing.room_freed(), if self.waits_for_room => {
                    if self.slot_pool.has_room_for_task() {
                        self.schedule.request_report();
                    }
                }
                () = stop.cancelled(), if self.stopping.is_none() => return,
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    fn on_event(&mut self, (now, event): (Instant, SlotEvent)) {
        match event {
            SlotEvent::AttemptStarted(attempt_id, status) => {
                self.attempts.on_started(&attempt_id, status, now)
            }
            SlotEvent::AttemptEnded(attempt_id, cause) => {
                if self.given_up.remove(&attempt_id) {
                    tracing::info!(task = %attempt_id.task, "a slot that was out of service works again");
                    return self.on_slot_back();
                }
                self.attempts.on_ended(&attempt_id, now);
                self.controls.remove(&attempt_id);
                self.schedule.on_ended(now);
                match cause {
                    AttemptEndCause::Result => self.failure_backoff.on_success(),
                    AttemptEndCause::ExecutorFailure => {
                        self.failure_backoff.on_failure(now);
                        self.give_back(|_| true);
                    }
                    // No backoff: these say nothing about whether the next attempt will run.
                    AttemptEndCause::KilledForMemory
                    | AttemptEndCause::BlobLost
                    | AttemptEndCause::UnusableRoot
                    | AttemptEndCause::NoResult => {}
                }
            }
            SlotEvent::SlotOutOfService(why) => {
                self.attempts.on_slot_out_of_service();
                tracing::error!(
                    why,
                    out = self.attempts.out_of_service(),
                    "a slot cannot start a warden and is out of service"
                );
                self.record_slots_out_of_service();
            }
            SlotEvent::SlotBackInService => {
                tracing::info!("a slot has started a warden again");
                self.on_slot_back();
            }
            SlotEvent::ProcessesKilled(attempt_id) => self.give_up(&attempt_id, now),
            SlotEvent::MemoryReserveChanged => {
                if self.slot_pool.reserve.is_low() {
                    self.give_back(|_| true);
                }
                self.schedule.request_report();
            }
            SlotEvent::ResultUploaded => self.schedule.on_ended(now),
        }
    }

    /// Sends one report and applies the answer.
    async fn report(&mut self, stop: &CancellationToken) -> Result<ReportDelivery, ExecutorError> {
        let sent = now();
        self.check_for_stuck_attempts(sent);
        let report = self.compose_report(sent);
        let intent = report.intent;
        self.schedule.on_sent(sent);
        let answer = match self.send_report(report, stop).await {
            Ok(Ok(answer)) => answer,
            // The judicator would refuse the same report again.
            Ok(Err(CallError::Invalid(invalid))) => return Err(ExecutorError::Refused(invalid)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "report failed; retrying");
                return Ok(self.on_unanswered());
            }
            Err(AnswerTimeout { within }) => {
                tracing::warn!(?within, "report timed out; retrying");
                // A timeout that a stop has shortened says nothing about the network.
                if within >= GOODBYE_TIMEOUT.min(self.options.self_kill / 2) {
                    self.result_bytes_limit /= 2;
                }
                return Ok(self.on_unanswered());
            }
        };
        match answer {
            ReportAnswer::Done(answer) => {
                self.on_answer(answer, sent, intent);
                Ok(if intent == ReportIntent::Leave {
                    ReportDelivery::GoodbyeAnswered
                } else {
                    ReportDelivery::Answered
                })
            }
            ReportAnswer::Stale => Ok(self.on_unanswered()),
            // The judicator has handled an earlier copy of this last report, whose answer was lost.
            ReportAnswer::Ended if intent == ReportIntent::Leave => {
                self.on_answer(ReportInstructions::default(), sent, intent);
                Ok(ReportDelivery::GoodbyeAnswered)
            }
            ReportAnswer::Ended => {
                tracing::warn!(session = %self.session.id, "the judicator has expired this session; starting a new one");
                self.revoke_all();
                self.session.renew();
                self.schedule.request_report();
                Ok(ReportDelivery::Unanswered)
            }
            ReportAnswer::Occupied { host, .. } => {
                // If this executor has lost its data folder, the name is free again when the lease of its old session
                // ends, so it retries for that long.
                match self.session.on_occupied(self.options.self_kill * 3) {
                    NameConflict::TryAgain => {
                        tracing::warn!(name = %self.data_folder.name, %host, "another session uses this executor name; retrying until its lease would have ended");
                        Ok(self.on_unanswered())
                    }
                    NameConflict::GiveUp => Err(ExecutorError::Occupied {
                        name: self.data_folder.name.clone(),
                        host,
                    }),
                }
            }
        }
    }

    fn on_unanswered(&mut self) -> ReportDelivery {
        let now = now();
        self.schedule.on_failed(now);
        self.kill_if_deadline_passed(now);
        ReportDelivery::Unanswered
    }
}

#[cfg(test)]
mod tests;
