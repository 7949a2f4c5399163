//! The handle on one attempt: stops it, whether it has begun or not, and notices when its slot does not go on.
//!
//! A slot's thread waits for its warden and for the disk, and either can hang for ever: a warden or a command in the
//! kernel (state D), a disk that does not answer. So the thread says before each step for how long it may take: its
//! limit on the clock where it has one, and a margin. The report loop looks, and what is overdue is given up step by
//! step, with the margin between them:
//!
//! 1. The warden is killed. Its command dies with it, the thread goes on, ends what may be left and tells the end.
//! 2. If the thread does not: the command may not begin any more, and another thread kills all of its processes.
//! 3. The attempt is told as lost, and its slot is out of service until its thread comes back.
//!
//! So no process of the attempt can compute any more when another executor begins the next one: each has been sent
//! SIGKILL, and one that a hanging system call keeps from dying never returns from that call to its program.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::{Remote, Ticket};
use thiserror::Error;

pub(crate) struct Control {
    /// The margin.
    stall: Duration,
    state: Mutex<State>,
}

/// The attempt was taken away, or ended by the platform.
#[derive(Debug, Error)]
#[error("the attempt was withdrawn")]
pub(crate) struct Withdrawn;

#[derive(Default)]
struct State {
    standing: Standing,
    /// Which warden serves the attempt, once a slot has begun it.
    warden: Option<(usize, Remote)>,
    watch: Option<Watch>,
    stage: Stage,
    stuck: Option<String>,
    /// Why the platform ended it, if it did.
    lost: Option<String>,
}

#[derive(Default)]
enum Standing {
    #[default]
    Free,
    Runs(Ticket),
    Withdrawn,
}

struct Watch {
    doing: &'static str,
    since: Instant,
    until: Instant,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    #[default]
    GoesOn,
    WardenKilled,
    CleaningUp,
    GivenUp,
}

/// What the report loop has to do about an attempt that does not go on.
#[derive(Debug, PartialEq)]
pub(crate) enum Overdue {
    /// Nothing yet: its warden was killed.
    WardenKilled(String),
    /// Kill all processes of the attempt, which this warden served.
    CleanUp(Option<usize>),
    GiveUp,
}

/// When the report loop looks at its attempts. A process that was stopped, or had no processor, finds all of them overdue
/// when it goes on, although none has hung.
pub(crate) struct Looks {
    /// No two are further apart.
    usual: Duration,
    last: Instant,
}

impl Looks {
    pub(crate) fn new(usual: Duration, now: Instant) -> Looks {
        Looks { usual, last: now }
    }

    /// For how long the executor itself did nothing before this look, if it did.
    pub(crate) fn on_look(&mut self, now: Instant) -> Option<Duration> {
        let gap = now.saturating_duration_since(self.last);
        self.last = now;
        (gap > self.usual).then_some(gap)
    }
}

impl Control {
    pub(crate) fn new(stall: Duration) -> Control {
        Control {
            stall,
            state: Mutex::default(),
        }
    }

    /// False if the attempt was withdrawn: then nothing must be run.
    pub(crate) fn begin(&self, ticket: &Ticket) -> bool {
        let mut state = self.lock();
        if matches!(state.standing, Standing::Withdrawn) {
            return false;
        }
        state.standing = Standing::Runs(ticket.clone());
        true
    }

    /// Whether it had begun: then there may be processes of it until its end is told.
    pub(crate) fn withdraw(&self) -> io::Result<bool> {
        let mut state = self.lock();
        let standing = std::mem::replace(&mut state.standing, Standing::Withdrawn);
        let Standing::Runs(ticket) = standing else {
            return Ok(false);
        };
        // It has no more time than it takes to kill it.
        let until = Instant::now() + self.stall;
        state.watch = state.watch.take().map(|watch| Watch {
            until: watch.until.min(until),
            ..watch
        });
        ticket.kill().map(|()| true)
    }

    /// Ends the attempt for a reason of the platform's own, which is then reported as a platform failure.
    pub(crate) fn lose(&self, why: String) -> io::Result<bool> {
        self.lock().lost = Some(why);
        self.withdraw()
    }

    pub(crate) fn lost(&self) -> Option<String> {
        self.lock().lost.clone()
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        matches!(self.lock().standing, Standing::Withdrawn)
    }

    /// The slot's thread goes on with this, unless the attempt was withdrawn: then it is to stop there.
    pub(crate) fn go_on(&self, doing: &'static str) -> Result<(), Withdrawn> {
        match self.is_withdrawn() {
            true => Err(Withdrawn),
            false => {
                self.on_progress(doing);
                Ok(())
            }
        }
    }

    /// A slot has this warden for it.
    pub(crate) fn on_served(&self, number: usize, remote: Remote) {
        let mut state = self.lock();
        state.warden = Some((number, remote));
        if !matches!(state.stage, Stage::GivenUp) {
            state.stage = Stage::GoesOn;
            state.stuck = None;
        }
    }

    /// The slot's thread goes on with this, which takes no longer than the margin.
    pub(crate) fn on_progress(&self, doing: &'static str) {
        self.on_begun(doing, Some(Duration::ZERO));
    }

    /// The same for what has a limit of its own; without one, nothing is too long.
    pub(crate) fn on_begun(&self, doing: &'static str, limit: Option<Duration>) {
        self.on_begun_at(Instant::now(), doing, limit);
    }

    fn on_begun_at(&self, since: Instant, doing: &'static str, limit: Option<Duration>) {
        let far = Duration::from_secs(365 * 24 * 3600);
        let until = since + limit.map_or(far, |limit| limit.min(far) + self.stall);
        self.lock().watch = Some(Watch { doing, since, until });
    }

    /// No slot has it any more.
    pub(crate) fn on_put_back(&self) {
        let mut state = self.lock();
        state.watch = None;
        state.warden = None;
    }

    /// Why it is given up, if it is.
    pub(crate) fn stuck(&self) -> Option<String> {
        self.lock().stuck.clone()
    }

    /// It was told as lost: whatever its slot still has to say is too late.
    pub(crate) fn give_up(&self) {
        let mut state = self.lock();
        state.standing = Standing::Withdrawn;
        state.stage = Stage::GivenUp;
    }

    /// Its slot goes on to other attempts.
    pub(crate) fn on_ended(&self) {
        self.lock().watch = None;
    }

    /// Whether the slot still hangs in it, so that what its warden runs is of this attempt.
    pub(crate) fn hangs(&self) -> bool {
        let state = self.lock();
        matches!(state.stage, Stage::CleaningUp) && state.watch.is_some()
    }

    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.lock().stage, Stage::GivenUp)
    }

    /// The executor itself did nothing for so long, and nor did its slots.
    pub(crate) fn on_own_pause(&self, pause: Duration) {
        if let Some(watch) = &mut self.lock().watch {
            watch.until += pause;
        }
    }

    /// Goes to the next stage if the slot has not gone on in time.
    pub(crate) fn look(&self, now: Instant) -> Option<Overdue> {
        let mut state = self.lock();
        let state = &mut *state;
        let watch = state.watch.as_mut().filter(|watch| watch.until <= now)?;
        watch.until = now + self.stall;
        match state.stage {
            Stage::GoesOn => {
                let waited = now.saturating_duration_since(watch.since);
                let why = format!("its slot did not {} within {}s", watch.doing, waited.as_secs());
                state.stuck = Some(why.clone());
                state.stage = Stage::WardenKilled;
                // An error means that it is gone.
                if let Some((_, warden)) = &state.warden {
                    let _ = warden.kill_warden();
                }
                Some(Overdue::WardenKilled(why))
            }
            Stage::WardenKilled => {
                state.stage = Stage::CleaningUp;
                state.standing = Standing::Withdrawn;
                Some(Overdue::CleanUp(state.warden.as_ref().map(|(number, _)| *number)))
            }
            Stage::CleaningUp => Some(Overdue::GiveUp),
            Stage::GivenUp => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    #[test]
    fn what_does_not_go_on_is_given_up_step_by_step() {
        let control = Control::new(STALL);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // Until a slot has it, others see to its time.
        assert_eq!(control.look(at(10_000)), None);
        control.on_begun_at(start, "run the command", Some(Duration::from_secs(60)));
        assert_eq!(control.look(at(89)), None);
        let why = "its slot did not run the command within 92s".to_string();
        assert_eq!(control.look(at(92)), Some(Overdue::WardenKilled(why.clone())));
        assert_eq!(control.look(at(121)), None);
        assert!(!control.is_withdrawn());
        assert_eq!(control.look(at(122)), Some(Overdue::CleanUp(None)));
        assert!(control.is_withdrawn(), "it must not begin any more");
        assert_eq!(control.look(at(152)), Some(Overdue::GiveUp));
        control.give_up();
        assert_eq!(control.look(at(10_000)), None);
        assert_eq!(control.stuck(), Some(why));
    }

    #[test]
    fn an_attempt_that_is_lost_does_not_go_on() {
        let control = Control::new(STALL);
        assert!(control.go_on("lay out the files").is_ok());
        control.lose("the machine was short of memory".into()).unwrap();
        assert!(control.go_on("lay out the files").is_err());
    }

    #[test]
    fn a_pause_of_the_executor_itself_is_no_hang() {
        let control = Control::new(STALL);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut looks = Looks::new(Duration::from_secs(5), start);
        let mut look = |seconds: u64| {
            if let Some(pause) = looks.on_look(at(seconds)) {
                control.on_own_pause(pause);
            }
            control.look(at(seconds))
        };
        control.on_begun_at(start, "lay out the files", Some(Duration::ZERO));
        for seconds in [5, 10, 15, 20, 25] {
            assert_eq!(look(seconds), None);
        }
        // It is stopped for a minute, then the slot has what was left of its margin.
        assert_eq!(look(85), None);
        assert_eq!(look(89), None);
        let why = "its slot did not lay out the files within 90s".to_string();
        assert_eq!(look(90), Some(Overdue::WardenKilled(why)));
        assert_eq!(look(190), None, "nor between two stages");
    }

    #[test]
    fn progress_and_a_step_without_a_limit_take_their_time() {
        let control = Control::new(STALL);
        let start = Instant::now();
        control.on_begun_at(start, "lay out the files", Some(Duration::ZERO));
        let later = start + Duration::from_secs(29);
        assert_eq!(control.look(later), None);
        control.on_begun_at(start, "run the command", None);
        assert_eq!(control.look(later + Duration::from_secs(7 * 24 * 3600)), None);
        control.on_begun_at(start, "clear the workspace", Some(Duration::ZERO));
        assert!(control.look(start + STALL).is_some());
    }
}
