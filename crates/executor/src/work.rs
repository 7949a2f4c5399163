//! The slots' threads: each has wardens of its own and runs one task after another.
//!
//! Threads, not async tasks: a run is file work and waiting for one process, from begin to end.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{Complete, End, Handout, Status, TaskSpec, with_causes};
use sandbox::{Isolation, LaunchError, Launcher, Remote, Ticket, WallError, Warden, WardenError};
use supervise::{Component, Supervisor};
use tokio::sync::mpsc;

use crate::ExecutorError;
use crate::cache::{Cache, Pins};
use crate::queue::Queue;
use crate::run::{Failure, run};
use crate::spool::Spool;
use crate::workspace::Workspace;

/// A task that is ready to run: its blobs are here.
pub(crate) struct Job {
    pub(crate) handout: Handout,
    pub(crate) spec: TaskSpec,
    pub(crate) control: Arc<Control>,
    /// Held until the attempt is over.
    pub(crate) _pins: Pins,
}

/// Stops one attempt, whether it has begun or not.
#[derive(Default)]
pub(crate) struct Control(Mutex<Standing>);

#[derive(Default)]
enum Standing {
    #[default]
    Free,
    Runs(Ticket),
    Withdrawn,
}

/// Told with its time: the report loop may hear of it only after an exchange with the judicator.
pub(crate) enum Event {
    Began(Handout, Status),
    /// Its result, if it has one, is in the spool.
    Ended(Handout, Ending),
}

#[derive(Clone, Copy)]
pub(crate) enum Ending {
    Result,
    /// We could not run it.
    Broken,
    Withdrawn,
}

/// What the threads share with the report loop and with each other.
pub(crate) struct Bench {
    slots: u32,
    pub(crate) work: PathBuf,
    pub(crate) cache: Arc<Cache>,
    pub(crate) spool: Mutex<Spool>,
    pub(crate) mark: (std::ffi::OsString, std::ffi::OsString),
    pub(crate) keep_output: u64,
    /// What runs commands that are text.
    pub(crate) shell: &'static str,
    pub(crate) events: mpsc::UnboundedSender<(Instant, Event)>,
    launcher: Launcher,
    jobs: Mutex<Jobs>,
    ready: Condvar,
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
            launcher,
        } = equipment;
        Arc::new(Bench {
            slots,
            work,
            cache,
            spool: Mutex::new(spool),
            mark,
            keep_output,
            shell,
            events,
            launcher,
            jobs: Mutex::new(Jobs {
                queue: Queue::new(slots as usize),
                closed: false,
            }),
            ready: Condvar::new(),
            wardens: Mutex::new(Wardens {
                remotes: Vec::new(),
                in_touch_until: None,
            }),
        })
    }

    /// Starts every slot, so that a machine on which no warden starts is known at once.
    pub(crate) fn start(
        self: &Arc<Self>,
        supervisor: &Supervisor,
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
            let thread = supervisor
                .thread(Component::Slot, format!("slot-{slot}"), move || bench.slot(posts))
                .map_err(ExecutorError::Thread)?;
            threads.push(thread);
        }
        Ok(threads)
    }

    /// How many wardens take turns in a slot. One in whose cell a task has run has to make another cell: so long
    /// there is a second one.
    fn turns(&self) -> usize {
        match self.launcher.isolation {
            Isolation::None => 1,
            Isolation::Cell(_) => 2,
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
            // There is one at least.
            let Some(mut post) = posts.pop_front() else { return };
            let end = match self.ready_warden(&mut post) {
                Ok(mut warden) => {
                    let attempt = AssertUnwindSafe(|| run(self, &mut warden, &mut post.workspace, &job));
                    // A slot that is lost to a mistake of ours would hold its task for ever.
                    let end = catch_unwind(attempt).unwrap_or_else(|_| {
                        Err(Failure::WardenLost(
                            "the executor failed; its log says why".into(),
                        ))
                    });
                    // One that broke is not used again.
                    if !matches!(end, Err(Failure::WardenLost(_))) {
                        post.warden = Some(warden);
                    }
                    end
                }
                Err(error) => Err(Failure::Broken(with_causes(&error))),
            };
            let handout = job.handout;
            let ending = match end {
                Ok(result) => self.keep(Complete {
                    handout,
                    end: End::Result(result),
                }),
                Err(Failure::Broken(why) | Failure::WardenLost(why)) => self.keep(Complete {
                    handout,
                    end: End::Broken(why),
                }),
                Err(Failure::Withdrawn) => Ending::Withdrawn,
            };
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
        }
    }

    /// The one that is there, or another where that cannot go on.
    fn ready_warden(&self, post: &mut Post) -> Result<Warden, LaunchError> {
        if let Some(mut warden) = post.warden.take() {
            match warden.wait_until_ready() {
                Ok(()) => return Ok(warden),
                Err(error) => on_not_ready(&error),
            }
        }
        self.start_warden(post.number)
    }

    /// Puts the result into the spool; only then may be said that it is there.
    pub(crate) fn keep(&self, complete: Complete) -> Ending {
        if let Err(error) = self.spool().keep(&complete) {
            tracing::error!(task = %complete.handout.task, %error, "a result is in memory only: the spool refused it");
        }
        match complete.end {
            End::Result(_) => Ending::Result,
            End::Broken(_) => Ending::Broken,
        }
    }

    /// Nobody listens only when the executor is at its end.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send((Instant::now(), event));
    }

    pub(crate) fn push(&self, job: Job) {
        self.jobs().queue.push(job, Instant::now());
        self.ready.notify_one();
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.queue.begin() {
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
        taken.iter().map(|job| job.handout).collect()
    }

    /// Takes back jobs that no slot has begun.
    pub(crate) fn take_back(&self, which: impl Fn(&Job) -> bool) -> Vec<Handout> {
        let taken = self.jobs().queue.take_back(which);
        taken.iter().map(|job| job.handout).collect()
    }

    /// The threads end when they have done what is queued.
    pub(crate) fn close(&self) {
        self.jobs().closed = true;
        self.ready.notify_all();
    }

    /// Lets the tasks live until then.
    pub(crate) fn in_touch(&self, until: Instant) {
        let mut wardens = self.wardens();
        wardens.in_touch_until = Some(until);
        for remote in wardens.remotes.iter().flatten() {
            if let Err(error) = remote.live_until(until.saturating_duration_since(Instant::now())) {
                tracing::debug!(%error, "could not reach a warden");
            }
        }
    }

    fn start_warden(&self, number: usize) -> Result<Warden, LaunchError> {
        let launcher = Launcher {
            isolation: self.launcher.isolation.of_warden(number as u32),
            ..self.launcher.clone()
        };
        let warden = launcher.start()?;
        let remote = warden.remote();
        let mut wardens = self.wardens();
        if let Some(until) = wardens.in_touch_until {
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1));
            if let Err(error) = remote.live_until(left) {
                tracing::debug!(%error, "could not reach a warden");
            }
        }
        wardens.remotes[number] = Some(remote);
        Ok(warden)
    }

    pub(crate) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wardens(&self) -> MutexGuard<'_, Wardens> {
        self.wardens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn on_not_ready(error: &WardenError) {
    tracing::warn!(
        why = with_causes(error),
        "a warden could not make ready for another task"
    );
}

impl Control {
    /// False if the attempt was withdrawn: then nothing must be run.
    pub(crate) fn begin(&self, ticket: &Ticket) -> bool {
        let mut standing = self.lock();
        if matches!(*standing, Standing::Withdrawn) {
            return false;
        }
        *standing = Standing::Runs(ticket.clone());
        true
    }

    /// Whether it had begun: then there may be processes of it until its end is told.
    pub(crate) fn withdraw(&self) -> io::Result<bool> {
        match std::mem::replace(&mut *self.lock(), Standing::Withdrawn) {
            Standing::Runs(ticket) => ticket.kill().map(|()| true),
            Standing::Free | Standing::Withdrawn => Ok(false),
        }
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        matches!(*self.lock(), Standing::Withdrawn)
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
