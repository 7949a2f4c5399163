//! The report loop: sends the state of this executor to a judicator, and starts and stops attempts as the answer says.
//!
//! There is at most one report in flight. The loop sends one when something has changed (an attempt ended, a hint
//! arrived), and otherwise at the heartbeat. Changes during a report go into the next one.

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

use model::{
    AttemptId, Content, ExecutingAttempt, ExecutorInfo, Report, ReportAnswer, ReportInstructions,
    ReportIntent,
};
use rpc::{CallError, Calls};
use sandbox::{CommandIsolation, WardenLauncher};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

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
use crate::data_folder::{ExecutorDataFolder, SessionFile, folder_error};
use crate::fetch::BlobFetcher;
use crate::run::shell_in_root;
use crate::slot_pool::{AttemptEndCause, SlotEvent, SlotPool, SlotPoolSetup};
use crate::spool::{ReportBatch, Spool};
use crate::{ExecutorError, ExecutorOptions, JudicatorLocation, now, workspace};

/// The limit on the bytes of results in one report; further results go into the next report.
const REPORT_BYTES: usize = 32 << 20;
/// The limit for the first report of a session. That report ends the previous session, and tasks whose results it does not
/// carry run again, so it carries as much as one message can hold.
const FIRST_REPORT_BYTES: usize = 96 << 20;
/// The limit on the number of results in one report.
const REPORT_RESULTS: usize = 1000;
/// An answer with more bytes of task files than this may have been cut short by the judicator.
const LARGE_ANSWER: u64 = 8 << 20;

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
    /// How many bytes of results the next report may carry. The loop halves it when an answer times out, because the
    /// report may have been too large for the network.
    result_bytes_limit: usize,
    /// The deadline that was last sent to the wardens: they kill their tasks when it passes.
    warden_deadline: Instant,
    /// Whether the loop has logged that the wardens' deadline has passed.
    logged_deadline_passed: bool,
    stopping: Option<StopPhase>,
}

/// What became of one report that the report loop sent to a judicator.
enum ReportDelivery {
    Answered,
    Unanswered,
    /// The judicator has acknowledged the last report of the session; the executor may exit.
    GoodbyeAnswered,
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
        let spool = Spool::open(&spool_file, &data_folder.last_attempts)
            .map_err(folder_error("open the spool", &spool_file))?;
        // The workspaces record which attempts were interrupted, so they are cleared only after the spool has those.
        workspace::clear(&data_folder.workspaces())
            .map_err(folder_error("clear", &data_folder.workspaces()))?;
        ReportLoop::assemble(options, data_folder, isolation, calls, (cache, spool))
    }

    fn assemble(
        options: ExecutorOptions,
        data_folder: ExecutorDataFolder,
        isolation: CommandIsolation,
        calls: Arc<dyn Calls>,
        (cache, spool): (Arc<BlobCache>, Spool),
    ) -> Result<ReportLoop, ExecutorError> {
        let (program, args) = options.warden.clone();
        let lock = Some(data_folder.lock.clone());
        let setup = SlotPoolSetup {
            slots: options.slots,
            work: data_folder.workspaces(),
            cache,
            spool,
            process_marker: data_folder.process_marker.clone(),
            keep_output: options.keep_output,
            shell: shell_in_root(options.root()),
            reserve: options.reserve,
            launcher: WardenLauncher {
                isolation,
                program,
                args,
                lock,
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
            result_bytes_limit: FIRST_REPORT_BYTES,
            controls: HashMap::new(),
            given_up: HashSet::new(),
            hint: Arc::new(Notify::new()),
            warden_deadline: now(),
            logged_deadline_passed: false,
            stopping: None,
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
                    tracing::warn!(
                        "no judicator acknowledged the last report; exiting, results stay in the spool"
                    );
                    break Ok(());
                }
                Ok(ReportDelivery::Answered | ReportDelivery::Unanswered) => {}
            }
            if self.session.id != before {
                hint_watch =
                    HintWatch::start(&self.calls, &self.data_folder.name, self.session.id, &self.hint);
            }
        };
        drop(hint_watch);
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
        self.log_if_deadline_passed(now);
        ReportDelivery::Unanswered
    }

    fn compose_report(&mut self, now: Instant) -> Report {
        let ReportBatch {
            complete,
            left_over,
            paused,
        } = self
            .slot_pool
            .spool
            .next_batch(self.result_bytes_limit, REPORT_RESULTS);
        self.results_left_over = !left_over.is_empty();
        let mut executing: Vec<_> = self.attempts.executing().collect();
        // The judicator releases an attempt that the report does not name.
        executing.extend(
            left_over
                .into_iter()
                .chain(paused)
                .map(|attempt_id| ExecutingAttempt {
                    attempt_id,
                    status: None,
                }),
        );
        let (vacant, intent) = match &self.stopping {
            // Taking no tasks while results are left over bounds the spool.
            None if self.results_left_over || self.slot_pool.reserve.is_low() => (0, ReportIntent::Stay),
            None => (
                self.failure_backoff.limit_vacant(self.attempts.vacant(now)),
                ReportIntent::Stay,
            ),
            // The last report is sent when there is nothing left to report afterwards.
            Some(_) if executing.is_empty() && self.attempts.is_empty() => (0, ReportIntent::Leave),
            Some(_) => (0, ReportIntent::Stay),
        };
        let executor_info = ExecutorInfo {
            slots: self.options.slots,
            host: self.data_folder.host.clone(),
            version: self.options.version.clone(),
            self_kill: self.options.self_kill,
            capacity: Some(self.options.capacity),
        };
        let header = self
            .session
            .next_report(self.data_folder.name.clone(), executor_info);
        Report {
            complete,
            executing,
            vacant,
            intent,
            ..header
        }
    }

    fn on_answer(&mut self, answer: ReportInstructions, sent: Instant, intent: ReportIntent) {
        self.session.on_answered(intent);
        self.result_bytes_limit = REPORT_BYTES;
        self.attempts.on_report_answered(now() - sent);
        self.attempts.on_reported();
        self.extend_warden_deadline(sent);
        for attempt_id in &answer.delete {
            self.revoke(attempt_id);
        }
        self.slot_pool.spool.on_answered(&answer.delete);
        self.schedule.on_answered(self.results_left_over);
        let mut bytes = 0;
        // The judicator repeats assignments of an answer that was lost, even while this executor stops. An assignment that
        // is not taken is missing in the next report, and the judicator releases it.
        let takes = self.stopping.is_none() && !self.slot_pool.reserve.is_low();
        let assigned = if takes { answer.assign } else { Vec::new() };
        for assignment in assigned {
            let attempt_id = assignment.attempt_id;
            bytes += assignment.spec.contents().map(Content::inline_len).sum::<u64>();
            if self.slot_pool.spool.contains(&attempt_id) || !self.attempts.on_assigned(attempt_id, now()) {
                continue;
            }
            let control = Arc::new(AttemptControl::new(self.options.stall));
            self.controls.insert(attempt_id, control.clone());
            self.fetcher.fetch_and_enqueue(assignment, control);
        }
        // The judicator may have left out tasks to bound the answer, and sends no hint for those.
        if bytes > LARGE_ANSWER {
            self.schedule.request_report();
        }
    }
}

#[cfg(test)]
mod tests;
