//! The report loop: says what has changed, takes what it is given, stops what is taken away.
//!
//! One report at a time. It is sent when something has changed (an attempt ended, a hint came), and otherwise at
//! the heartbeat; what changes while one is under way goes into the next.

mod due;
mod exchange;
mod leave;
mod overdue;
mod rest;
mod session;
mod stopping;
mod watch;
mod withdraw;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use model::{Answer, Content, Executing, Handout, Intent, Presence, Report, ReportAnswer};
use rpc::{CallError, Calls};
use sandbox::{Isolation, Launcher};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::due::Due;
use self::exchange::NoAnswer;
pub(crate) use self::leave::SlotThreads;
use self::rest::Rest;
use self::session::{Occupied, Session};
use self::stopping::{FAREWELL, Stopping};
use self::watch::Watching;
use self::withdraw::withdraw;
use crate::cache::Cache;
use crate::control::{Control, Looks};
use crate::fetch::Fetcher;
use crate::home::{Home, SessionFile, failed};
use crate::run::shell_beneath;
use crate::slots::Slots;
use crate::spool::{Carried, Spool};
use crate::work::{Bench, Ending, Equipment, Event};
use crate::{Contact, ExecutorError, Options, workspace};

/// Results beyond this go into the next report.
const REPORT_BYTES: usize = 32 << 20;
/// The first report of a session ends the one before it, and with it all results of that which it does not carry:
/// their tasks are run again. So it takes as many as a message can hold.
const FIRST_REPORT_BYTES: usize = 96 << 20;
const REPORT_RESULTS: usize = 1000;
const LARGE_ANSWER: u64 = 8 << 20;
pub(crate) struct Reporter {
    options: Options,
    home: Home,
    calls: Arc<dyn Calls>,
    bench: Arc<Bench>,
    fetcher: Arc<Fetcher>,
    events: mpsc::UnboundedReceiver<(Instant, Event)>,
    hint: Arc<Notify>,
    session: Session,
    slots: Slots,
    controls: HashMap<Handout, Arc<Control>>,
    /// Attempts that were told as lost while their slots' threads hang: one for each slot at the most.
    given_up: HashSet<Handout>,
    due: Due,
    looks: Looks,
    rest: Rest,
    /// The last report could not carry all results.
    left_over: bool,
    /// How many bytes of results the next report may carry. Fewer after one that was not answered in time: it may
    /// have been too much for the network, and would be again.
    room: usize,
    /// Until when the wardens were last told to go on.
    in_touch_until: Instant,
    /// That the tasks were stopped for lack of an answer was logged.
    told_out_of_touch: bool,
    stopping: Option<Stopping>,
}

enum Sent {
    Answered,
    Unanswered,
    /// The goodbye was answered.
    Left,
}

impl Reporter {
    pub(crate) fn new(
        options: Options,
        home: Home,
        isolation: Isolation,
        calls: Arc<dyn Calls>,
    ) -> Result<Reporter, ExecutorError> {
        let cache_folder = home.root.join("cache");
        let cache = Cache::open(cache_folder.clone(), options.cache_bytes)
            .map_err(failed("open the cache", &cache_folder))?;
        let spool_file = home.root.join("spool");
        let spool =
            Spool::open(&spool_file, &home.interrupted).map_err(failed("open the spool", &spool_file))?;
        // Only now: until it is spooled, what is in the workspaces tells which attempts were lost.
        workspace::clear(&home.work()).map_err(failed("clear", &home.work()))?;
        Reporter::assemble(options, home, isolation, calls, (cache, spool))
    }

    fn assemble(
        options: Options,
        home: Home,
        isolation: Isolation,
        calls: Arc<dyn Calls>,
        (cache, spool): (Arc<Cache>, Spool),
    ) -> Result<Reporter, ExecutorError> {
        let (program, args) = options.warden.clone();
        let lock = Some(home.lock.clone());
        let equipment = Equipment {
            slots: options.slots,
            work: home.work(),
            cache,
            spool,
            mark: home.mark.clone(),
            keep_output: options.keep_output,
            shell: shell_beneath(options.root()),
            reserve: options.reserve,
            launcher: Launcher {
                isolation,
                program,
                args,
                lock,
            },
        };
        let (sender, events) = mpsc::unbounded_channel();
        let bench = Bench::new(equipment, sender);
        let fetcher = Arc::new(Fetcher {
            calls: calls.clone(),
            bench: bench.clone(),
            underway: Default::default(),
            stall: options.stall,
        });
        let former = home.former_sessions.clone();
        Ok(Reporter {
            session: Session::open(SessionFile::new(&home.root), former)
                .map_err(failed("write the session in", &home.root))?,
            slots: Slots::new(options.slots),
            due: Due::new(options.heartbeat),
            // At each report: the loop waits for an answer, then until the next is due.
            looks: Looks::new(
                (options.heartbeat + options.self_kill / 2) * 3 / 2,
                Instant::now(),
            ),
            rest: Rest::default(),
            left_over: false,
            room: FIRST_REPORT_BYTES,
            controls: HashMap::new(),
            given_up: HashSet::new(),
            hint: Arc::new(Notify::new()),
            in_touch_until: Instant::now(),
            told_out_of_touch: false,
            stopping: None,
            options,
            home,
            calls,
            bench,
            fetcher,
            events,
        })
    }

    /// Starts every slot with its wardens, so that a machine on which none starts is known at once.
    pub(crate) fn start_slots(&self) -> Result<SlotThreads, ExecutorError> {
        let (alive, ended) = mpsc::channel(1);
        let threads = self.bench.start(&self.bench.spool.supervisor, alive)?;
        Ok(SlotThreads { threads, ended })
    }

    pub(crate) async fn run(
        mut self,
        slots: SlotThreads,
        stop: CancellationToken,
    ) -> Result<(), ExecutorError> {
        let mut failures = self.bench.spool.supervisor.failures();
        let (name, session) = (&self.home.name, self.session.id);
        tracing::info!(%name, %session, slots = self.slots.total(), "executor starts");
        let mut watching = Watching::start(&self.calls, name, session, &self.hint);
        let ended = loop {
            tokio::select! {
                () = self.wait_until_due(&stop) => {}
                // Without its slot's thread a task would be held for ever, without the spool's no result would be written.
                failed = failures.wait() => break Err(failed.into()),
            }
            if stop.is_cancelled() && self.stopping.is_none() {
                self.on_stop();
            }
            let before = self.session.id;
            match self.report(&stop).await {
                Err(error) => break Err(error),
                Ok(Sent::Left) => break Ok(()),
                Ok(Sent::Answered | Sent::Unanswered) if self.out_of_time() => {
                    tracing::warn!("leaving before a goodbye was answered; results wait in the spool");
                    break Ok(());
                }
                Ok(Sent::Answered | Sent::Unanswered) => {}
            }
            if self.session.id != before {
                watching = Watching::start(&self.calls, &self.home.name, self.session.id, &self.hint);
            }
        };
        drop(watching);
        self.doom_all();
        self.bench.close();
        self.leave(slots).await;
        ended
    }

    /// Takes in events until a report is due.
    async fn wait_until_due(&mut self, stop: &CancellationToken) {
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.on_event(event);
            }
            let now = Instant::now();
            let stuck = self.bench.take_back_stuck(now);
            self.on_given_back(stuck);
            let stuck_at = self.bench.stuck_at();
            self.go_on_stopping(now);
            if self.rest.end_if_over(now) | self.bench.spool.end_pauses_if_over(now) {
                self.due.on_hint();
            }
            let due = self.due.at(&self.slots, self.bench.waiting(), now);
            if due <= now || self.out_of_time() {
                return;
            }
            let stage_ends = self.stopping.as_ref().and_then(Stopping::until);
            let pause_ends = self.bench.spool.next_pause_ends();
            let wake = [stuck_at, stage_ends, self.rest.ends(), pause_ends]
                .into_iter()
                .flatten()
                .filter(|at| *at > now)
                .fold(due, Instant::min);
            tokio::select! {
                Some(event) = self.events.recv() => self.on_event(event),
                () = self.hint.notified() => self.due.on_hint(),
                () = stop.cancelled(), if self.stopping.is_none() => return,
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    fn on_event(&mut self, (now, event): (Instant, Event)) {
        match event {
            Event::Began(handout, status) => self.slots.on_began(&handout, status, now),
            Event::Ended(handout, ending) => {
                if self.given_up.remove(&handout) {
                    tracing::info!(task = %handout.task, "a slot that was given up goes on");
                    return self.on_slot_back();
                }
                self.slots.on_ended(&handout, now);
                self.controls.remove(&handout);
                self.due.on_ended(now);
                match ending {
                    Ending::Result => self.rest.on_success(),
                    Ending::Broken => {
                        self.rest.on_broken(now);
                        self.give_back(|_| true);
                    }
                    // While memory is low, nothing is taken anyway.
                    Ending::EndedForMemory | Ending::BlobLost | Ending::Withdrawn => {}
                }
            }
            Event::SlotOut(why) => {
                self.slots.on_out();
                tracing::error!(
                    why,
                    out = self.slots.out(),
                    "no warden starts in a slot; it is out of service"
                );
                self.count_slots_out();
            }
            Event::SlotBack => {
                tracing::info!("a slot has a warden again");
                self.on_slot_back();
            }
            Event::CleanedUp(handout) => self.give_up(&handout, now),
            Event::MemoryChanged => {
                if self.bench.reserve.is_low() {
                    self.give_back(|_| true);
                }
                self.due.on_hint();
            }
        }
    }

    /// Sends one report and does as the answer says.
    async fn report(&mut self, stop: &CancellationToken) -> Result<Sent, ExecutorError> {
        let sent = Instant::now();
        self.look_after_slots(sent);
        let report = self.compose(sent);
        let intent = report.intent;
        self.due.on_sent(sent);
        let answer = match self.exchange(report, stop).await {
            Ok(Ok(answer)) => answer,
            // It will be no better next time.
            Ok(Err(CallError::Invalid(invalid))) => return Err(ExecutorError::Refused(invalid)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the judicator did not take the report; trying again");
                return Ok(self.on_unanswered());
            }
            Err(NoAnswer { within }) => {
                tracing::warn!(?within, "no answer to the report; trying again");
                // One that our own haste cut short says nothing about what the way can carry.
                if within >= FAREWELL.min(self.options.self_kill / 2) {
                    self.room /= 2;
                }
                return Ok(self.on_unanswered());
            }
        };
        match answer {
            ReportAnswer::Done(answer) => {
                self.on_answer(answer, sent, intent);
                Ok(if intent == Intent::Leave {
                    Sent::Left
                } else {
                    Sent::Answered
                })
            }
            ReportAnswer::Stale => Ok(self.on_unanswered()),
            // The first goodbye was heard, and its answer lost.
            ReportAnswer::Ended if intent == Intent::Leave => {
                self.on_answer(Answer::default(), sent, intent);
                Ok(Sent::Left)
            }
            ReportAnswer::Ended => {
                tracing::warn!(session = %self.session.id, "the session was ended: we were silent for too long");
                self.doom_all();
                self.session.renew();
                self.due.on_hint();
                Ok(Sent::Unanswered)
            }
            ReportAnswer::Occupied { host, .. } => {
                // A lost data folder looks the same until the old session's lease is over: wait that long.
                match self.session.on_occupied(self.options.self_kill * 3) {
                    Occupied::TryAgain => {
                        tracing::warn!(name = %self.home.name, %host, "the name is taken; trying again until a lease is over");
                        Ok(self.on_unanswered())
                    }
                    Occupied::Refused => Err(ExecutorError::Occupied {
                        name: self.home.name.clone(),
                        host,
                    }),
                }
            }
        }
    }

    fn on_unanswered(&mut self) -> Sent {
        let now = Instant::now();
        self.due.on_failed(now);
        self.tell_if_out_of_touch(now);
        Sent::Unanswered
    }

    fn compose(&mut self, now: Instant) -> Report {
        let Carried {
            complete,
            left,
            paused,
        } = self.bench.spool.carry(self.room, REPORT_RESULTS);
        self.left_over = !left.is_empty();
        let mut executing: Vec<_> = self.slots.executing().collect();
        // What is not named would be taken away.
        executing.extend(left.into_iter().chain(paused).map(|handout| Executing {
            handout,
            status: None,
        }));
        let (vacant, intent) = match &self.stopping {
            // Results that pile up are bounded by taking no more tasks.
            None if self.left_over || self.bench.reserve.is_low() => (0, Intent::Stay),
            None => (self.rest.offer(self.slots.vacant(now)), Intent::Stay),
            // Goodbye is said when there is nothing left to say after it.
            Some(_) if executing.is_empty() && self.slots.is_empty() => (0, Intent::Leave),
            Some(_) => (0, Intent::Stay),
        };
        let presence = Presence {
            slots: self.options.slots,
            host: self.home.host.clone(),
            version: self.options.version.clone(),
            self_kill: self.options.self_kill,
            capacity: Some(self.options.capacity),
        };
        let blank = self.session.next_report(self.home.name.clone(), presence);
        Report {
            complete,
            executing,
            vacant,
            intent,
            ..blank
        }
    }

    fn on_answer(&mut self, answer: Answer, sent: Instant, intent: Intent) {
        self.session.on_answered(intent);
        self.room = REPORT_BYTES;
        self.slots.on_exchange(sent.elapsed());
        self.slots.on_reported();
        self.stay_in_touch(sent);
        for handout in &answer.delete {
            self.doom(handout);
        }
        self.bench.spool.on_answered(&answer.delete);
        self.due.on_answered(self.left_over);
        let mut bytes = 0;
        // What an earlier answer had given, and did not reach us, is given again, also to who is about to leave. What is
        // not taken is not named by the next report, and so given back.
        let takes = self.stopping.is_none() && !self.bench.reserve.is_low();
        let assigned = if takes { answer.assign } else { Vec::new() };
        for assignment in assigned {
            let handout = assignment.handout;
            bytes += assignment.spec.contents().map(Content::inline_len).sum::<u64>();
            if self.bench.spool.contains(&handout) || !self.slots.on_assigned(handout, Instant::now()) {
                continue;
            }
            let control = Arc::new(Control::new(self.options.stall));
            self.controls.insert(handout, control.clone());
            self.fetcher.prepare(assignment, control);
        }
        // An answer this large may have been cut short, and no hint would come for what was left out.
        if bytes > LARGE_ANSWER {
            self.due.on_hint();
        }
    }

    fn on_stop(&mut self) {
        let now = Instant::now();
        tracing::info!(tasks = self.slots.all().len(), grace = ?self.options.stop_grace, "executor stops");
        self.stopping = Some(Stopping::Grace(now + self.options.stop_grace));
        // What has begun goes on for a while, also if that was not heard yet.
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
        self.give_back(|_| true);
        // What still waits now waits for its blobs, or is being laid out. If it has begun in this very moment, it is
        // named until nothing is left of it: only then may another begin it.
        let has_begun = |handout: &Handout| {
            let control = self.controls.get(handout);
            control.is_some_and(|control| withdraw(handout, control))
        };
        let mut waiting = self.slots.waiting();
        waiting.retain(|handout| !has_begun(handout));
        self.on_given_back(waiting);
        self.go_on_stopping(now);
    }

    fn go_on_stopping(&mut self, now: Instant) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if self.slots.is_empty() {
            stopping.on_all_ended(now);
        }
        if self.bench.spool.end_all_pauses() {
            self.due.on_hint();
        }
        // What still runs is stopped, but named until nothing is left of it: only then may another begin it.
        if stopping.end_grace_if_over(now) {
            for (handout, control) in &self.controls {
                withdraw(handout, control);
            }
        }
    }

    fn out_of_time(&self) -> bool {
        let stopping = self.stopping.as_ref();
        stopping.is_some_and(|stopping| stopping.is_out_of_time(Instant::now()))
    }
}

#[cfg(test)]
mod tests;
