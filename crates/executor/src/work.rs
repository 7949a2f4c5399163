//! The slots' threads: each has wardens of its own and runs one task after another.
//!
//! Threads, not async tasks: a run is file work and waiting for one process, from begin to end.

mod wardens;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{Complete, End, Handout, Status, TaskResult, TaskSpec, pause_after, with_causes};
use sandbox::{Isolation, Launcher, Remote, WallError, Warden};
use supervise::{Component, Supervisor};
use tokio::sync::mpsc;

use crate::ExecutorError;
use crate::cache::{Cache, Pins};
use crate::control::Control;
use crate::queue::Queue;
use crate::reserve::Reserve;
use crate::run::{Failure, end_strays, end_strays_in, run};
use crate::spool::Spool;
use crate::workspace::Workspace;
use wardens::on_not_ready;

/// What a slot begins with.
const READY: &str = "make a warden ready";
/// They take turns, where tasks run in cells.
pub const WARDENS_OF_SLOT: u32 = 2;

/// A task that is ready to run: its blobs are here.
pub(crate) struct Job {
    pub(crate) handout: Handout,
    pub(crate) spec: TaskSpec,
    pub(crate) platform_losses: u32,
    pub(crate) control: Arc<Control>,
    /// Held until the attempt is over.
    pub(crate) _pins: Pins,
}

/// There are a few for each attempt that is here, so that their queue needs no bound of its own.
/// Told with its time: the report loop may hear of it only after an exchange with the judicator.
pub(crate) enum Event {
    Began(Handout, Status),
    /// Its result, if it has one, is in the spool.
    Ended(Handout, Ending),
    /// No warden starts in a slot.
    SlotOut(String),
    SlotBack,
    /// What could be killed of an attempt that did not go on was killed.
    CleanedUp(Handout),
    /// The machine is short of memory, or no longer.
    MemoryChanged,
}

#[derive(Clone, Copy)]
pub(crate) enum Ending {
    Result,
    /// We could not run it.
    Broken,
    /// We ended it for want of memory. That says nothing about whether the next goes well.
    EndedForMemory,
    /// The store has lost a blob that it needs.
    BlobLost,
    Withdrawn,
}

/// What the threads share with the report loop and with each other.
pub(crate) struct Bench {
    slots: u32,
    pub(crate) work: PathBuf,
    pub(crate) cache: Arc<Cache>,
    pub(crate) spool: Spool,
    pub(crate) mark: (std::ffi::OsString, std::ffi::OsString),
    pub(crate) keep_output: u64,
    /// What runs commands that are text.
    pub(crate) shell: &'static str,
    pub(crate) events: mpsc::UnboundedSender<(Instant, Event)>,
    pub(crate) reserve: Reserve,
    launcher: Launcher,
    jobs: Mutex<Jobs>,
    ready: Condvar,
    /// Not the same as `ready`, which wakes one slot for one job.
    closing: Condvar,
    wardens: Mutex<Wardens>,
}

/// A warden and where it works, one of those that take turns in a slot.
struct Post {
    number: usize,
    warden: Option<Warden>,
    workspace: Workspace,
}

struct Jobs {
    queue: Queue<Job>,
    closed: bool,
}

/// How the wardens are told that the executor is in touch.
struct Wardens {
    remotes: Vec<Option<Remote>>,
    in_touch_until: Option<Instant>,
}

/// What a bench needs to be set up.
pub(crate) struct Equipment {
    pub(crate) slots: u32,
    pub(crate) work: PathBuf,
    pub(crate) cache: Arc<Cache>,
    pub(crate) spool: Spool,
    pub(crate) mark: (std::ffi::OsString, std::ffi::OsString),
    pub(crate) keep_output: u64,
    pub(crate) shell: &'static str,
    /// Bytes of memory that tasks leave to everyone else.
    pub(crate) reserve: u64,
    pub(crate) launcher: Launcher,
}

impl Bench {
    pub(crate) fn new(equipment: Equipment, events: mpsc::UnboundedSender<(Instant, Event)>) -> Arc<Bench> {
        let Equipment {
            slots,
            work,
            cache,
            spool,
            mark,
            keep_output,
            shell,
            reserve,
            launcher,
        } = equipment;
        Arc::new(Bench {
            slots,
            work,
            cache,
            spool,
            mark,
            keep_output,
            shell,
            events,
            reserve: Reserve::new(reserve),
            launcher,
            jobs: Mutex::new(Jobs {
                queue: Queue::new(slots as usize),
                closed: false,
            }),
            ready: Condvar::new(),
            closing: Condvar::new(),
            wardens: Mutex::new(Wardens {
                remotes: Vec::new(),
                in_touch_until: None,
            }),
        })
    }

    /// Starts every slot, so that a machine on which no warden starts is known at once. The threads drop their senders
    /// when they end.
    pub(crate) fn start(
        self: &Arc<Self>,
        supervisor: &Supervisor,
        alive: mpsc::Sender<()>,
    ) -> Result<Vec<JoinHandle<()>>, ExecutorError> {
        let turns = self.turns();
        let total = self.slots as usize * turns;
        self.wardens().remotes.resize(total, None);
        let posts = (0..total)
            .map(|number| self.start_post(number))
            .collect::<Result<VecDeque<_>, _>>()?;
        let mut posts = posts.into_iter();
        let mut threads = Vec::new();
        for slot in 0..self.slots {
            let bench = self.clone();
            let posts = posts.by_ref().take(turns).collect();
            let alive = alive.clone();
            let thread = supervisor
                .thread(Component::Slot, format!("slot-{slot}"), move || {
                    bench.slot(posts);
                    drop(alive);
                })
                .map_err(ExecutorError::Thread)?;
            threads.push(thread);
        }
        let bench = self.clone();
        let keeping = supervisor
            .thread(Component::MemoryReserve, "memory-reserve".into(), move || {
                bench.reserve.keep(&bench);
                drop(alive);
            })
            .map_err(ExecutorError::Thread)?;
        threads.push(keeping);
        Ok(threads)
    }

    /// How many wardens take turns in a slot. One in whose cell a task has run has to make another cell: so long
    /// there is a second one.
    fn turns(&self) -> usize {
        match self.launcher.isolation {
            Isolation::None => 1,
            Isolation::Cell(_) => WARDENS_OF_SLOT as usize,
        }
    }

    fn start_post(&self, number: usize) -> Result<Post, WallError> {
        let isolation = self.launcher.isolation.of_warden(number as u32);
        Ok(Post {
            number,
            warden: Some(self.start_warden(number)?),
            workspace: Workspace::new(&self.work, number, &isolation),
        })
    }

    fn slot(&self, mut posts: VecDeque<Post>) {
        while let Some(job) = self.next() {
            job.control.on_progress(READY);
            let (mut post, mut warden) = match self.ready_post(&mut posts, &job) {
                Ok(ready) => ready,
                Err(error) => {
                    self.put_back(job);
                    match self.await_warden(&mut posts, &error) {
                        Some(()) => continue,
                        None => return,
                    }
                }
            };
            let Handout { task, attempt, .. } = job.handout;
            tracing::debug!(%task, %attempt, slot = post.number, "an attempt begins");
            let begun = Instant::now();
            self.reserve.on_begun(job.handout, &job.control);
            let attempt = AssertUnwindSafe(|| run(self, &mut warden, &mut post.workspace, &job));
            // A slot that is lost to a mistake of ours would hold its task for ever.
            let end = catch_unwind(attempt).unwrap_or_else(|_| {
                Err(Failure::WardenLost(
                    "the executor failed; its log says why".into(),
                ))
            });
            // One that broke, or was killed because it did not go on, is not used again.
            if matches!(end, Err(Failure::WardenLost(_))) || job.control.stuck().is_some() {
                // What it ran ends with it a moment later, and is not ours to look for where it is another user.
                self.launcher
                    .isolation
                    .of_warden(post.number as u32)
                    .kill_processes();
                drop(warden);
            } else {
                post.warden = Some(warden);
            }
            self.reserve.on_ended(&job.handout);
            let ending = self.on_end(&job, end, begun.elapsed());
            let handout = job.handout;
            job.control.on_ended();
            drop(job);
            // Before it is told: what comes for this slot because of it must not be held to be too much.
            self.jobs().queue.on_ended();
            self.tell(Event::Ended(handout, ending));
            // Only now, when the task's end is told: nobody waits for what is done then.
            let renewed = post.warden.as_mut().map_or(Ok(()), Warden::renew);
            if let Err(error) = renewed {
                on_not_ready(&error);
                post.warden = None;
            }
            posts.push_back(post);
            self.cache.make_room_soon();
        }
    }

    fn on_end(&self, job: &Job, end: Result<TaskResult, Failure>, took: Duration) -> Ending {
        let Handout { task, attempt, .. } = job.handout;
        if job.control.is_given_up() {
            return Ending::Withdrawn;
        }
        let lost = job.control.lost();
        let end = match (end, lost.clone(), job.control.stuck()) {
            (Ok(result), ..) => {
                let last = result.execute.as_ref().or(result.compile.as_ref());
                let reason = last.map(|outcome| outcome.reason);
                tracing::debug!(%task, %attempt, ?reason, ?took, "an attempt ended");
                End::Result(result)
            }
            // Whatever it came to after we ended it.
            (Err(_), Some(why), _) => End::PlatformFailure(why),
            (Err(Failure::Withdrawn), None, None) => {
                tracing::debug!(%task, %attempt, ?took, "an attempt was withdrawn");
                return Ending::Withdrawn;
            }
            (Err(Failure::Broken(why) | Failure::WardenLost(why)), None, None) => End::PlatformFailure(why),
            (Err(Failure::Withdrawn), None, Some(stuck)) => End::Broken(stuck),
            (Err(Failure::Broken(why) | Failure::WardenLost(why)), None, Some(stuck)) => {
                End::Broken(format!("{stuck}: {why}"))
            }
        };
        let (handout, pause) = (job.handout, pause_after(&end, job.platform_losses));
        let ending = match (&end, lost) {
            (End::Result(_), _) => Ending::Result,
            (End::Broken(_) | End::PlatformFailure(_), Some(_)) => Ending::EndedForMemory,
            (End::Broken(_) | End::PlatformFailure(_), None) => Ending::Broken,
        };
        self.keep(Complete { handout, end }, pause);
        ending
    }

    /// Ends all processes of an attempt whose slot does not go on, in a thread of its own, as that may hang too.
    pub(crate) fn clean_up(self: &Arc<Self>, handout: Handout, control: Arc<Control>, warden: Option<usize>) {
        let bench = self.clone();
        let cleaning = move || {
            // The slot may have gone on, and its warden's group be another attempt's.
            let warden = warden.filter(|_| control.hangs());
            if let Some(number) = warden {
                bench.launcher.isolation.of_warden(number as u32).kill_processes();
            }
            let in_slot = |number: usize| end_strays_in(bench.work.join(number.to_string()), &control);
            let ended = [Some(end_strays(&handout, None)), warden.map(in_slot)];
            for error in ended.into_iter().flatten().filter_map(Result::err) {
                let why = with_causes(&error);
                tracing::error!(task = %handout.task, why, "could not end the processes of a task");
            }
            bench.tell(Event::CleanedUp(handout));
        };
        let thread = std::thread::Builder::new().name("clean-up".into());
        if let Err(error) = thread.spawn(cleaning) {
            tracing::error!(%error, "could not start a thread to end the processes of a task");
        }
    }

    /// Puts the result into the spool; only then may be said that it is there. It is reported after the pause.
    pub(crate) fn keep(&self, complete: Complete, pause: Duration) {
        if let End::Broken(why) | End::PlatformFailure(why) = &complete.end {
            let Handout { task, attempt, .. } = complete.handout;
            tracing::warn!(%task, %attempt, why, "could not run a task");
        }
        self.spool.keep(complete, pause);
    }

    /// Nobody listens only when the executor is at its end.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send((Instant::now(), event));
    }

    /// Another slot may have a warden for it.
    fn put_back(&self, job: Job) {
        job.control.on_put_back();
        let mut jobs = self.jobs();
        if self.reserve.is_low() {
            drop(jobs);
            return self.give_back(job);
        }
        jobs.queue.put_back(job, Instant::now());
        drop(jobs);
        self.ready.notify_one();
    }

    /// The next report does not name it any more.
    fn give_back(&self, job: Job) {
        let handout = job.handout;
        drop(job);
        self.tell(Event::Ended(handout, Ending::Withdrawn));
        self.cache.make_room_soon();
    }

    /// What is in the queue when memory has become low is given back by the report loop.
    pub(crate) fn on_memory_changed(&self) {
        // Under the lock, or a slot might see the old state and then wait without being woken.
        let jobs = self.jobs();
        self.ready.notify_all();
        drop(jobs);
        self.tell(Event::MemoryChanged);
    }

    /// Whether the executor ends within this time.
    pub(crate) fn closes_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut jobs = self.jobs();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if jobs.closed || left.is_zero() {
                return jobs.closed;
            }
            (jobs, _) = self
                .closing
                .wait_timeout(jobs, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// While memory is low it is given back: it would be the newest, and the first to be ended.
    pub(crate) fn push(&self, job: Job) {
        let mut jobs = self.jobs();
        // Looked at under the lock: what is pushed before memory becomes low is found by the report loop.
        if self.reserve.is_low() {
            drop(jobs);
            return self.give_back(job);
        }
        jobs.queue.push(job, Instant::now());
        drop(jobs);
        self.ready.notify_one();
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs();
        loop {
            if !self.reserve.is_low()
                && let Some(job) = jobs.queue.begin()
            {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs = self.ready.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.jobs().queue.len()
    }

    pub(crate) fn stuck_at(&self) -> Option<Instant> {
        self.jobs().queue.stuck_at()
    }

    pub(crate) fn take_back_stuck(&self, now: Instant) -> Vec<Handout> {
        let taken = self.jobs().queue.take_back_stuck(now);
        self.let_go(taken)
    }

    /// Takes back jobs that no slot has begun.
    pub(crate) fn take_back(&self, which: impl Fn(&Job) -> bool) -> Vec<Handout> {
        let taken = self.jobs().queue.take_back(which);
        self.let_go(taken)
    }

    fn let_go(&self, jobs: Vec<Job>) -> Vec<Handout> {
        let handouts = jobs.iter().map(|job| job.handout).collect();
        drop(jobs);
        self.cache.make_room_soon();
        handouts
    }

    /// The threads end when they have done what is queued.
    pub(crate) fn close(&self) {
        self.jobs().closed = true;
        self.ready.notify_all();
        self.closing.notify_all();
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
