//! The wardens of a slot: which of them is ready, another where one is not, and the word that keeps their tasks alive.

use std::collections::VecDeque;
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::with_causes;
use sandbox::{LaunchError, Launcher, Warden, WardenError};

use super::{Bench, Event, Job, Post, READY, Wardens};
use crate::control::Control;

/// Between two tries to start a warden where none starts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Bench {
    /// A warden that can begin, of those that take turns here.
    pub(super) fn ready_post(
        &self,
        posts: &mut VecDeque<Post>,
        job: &Job,
    ) -> Result<(Post, Warden), LaunchError> {
        let mut last = None;
        for _ in 0..posts.len() {
            let Some(mut post) = posts.pop_front() else { break };
            match self.ready_warden(&mut post, &job.control) {
                Ok(warden) => return Ok((post, warden)),
                Err(error) => last = Some(error),
            }
            posts.push_back(post);
        }
        // A slot has one at least.
        Err(last.unwrap_or(LaunchError::Sockets(io::ErrorKind::NotFound.into())))
    }

    /// The one that is there, or another where that cannot go on.
    fn ready_warden(&self, post: &mut Post, control: &Control) -> Result<Warden, LaunchError> {
        if let Some(mut warden) = post.warden.take() {
            control.on_served(post.number, warden.remote());
            match warden.wait_until_ready() {
                Ok(()) => return Ok(warden),
                Err(error) => on_not_ready(&error),
            }
        }
        let warden = self.start_warden(post.number)?;
        control.on_served(post.number, warden.remote());
        control.on_progress(READY);
        Ok(warden)
    }

    /// The slot is out of service until one of its wardens starts. None if the executor ends before.
    pub(super) fn await_warden(&self, posts: &mut VecDeque<Post>, error: &LaunchError) -> Option<()> {
        self.tell(Event::SlotOut(with_causes(error)));
        let mut pause = FIRST_PAUSE;
        loop {
            if self.closes_within(pause) {
                return None;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            for post in posts.iter_mut() {
                match self.start_warden(post.number) {
                    Ok(warden) => {
                        post.warden = Some(warden);
                        self.jobs().queue.on_ended();
                        self.tell(Event::SlotBack);
                        return Some(());
                    }
                    Err(error) => {
                        tracing::debug!(
                            why = with_causes(&error),
                            slot = post.number,
                            "no warden starts yet"
                        );
                    }
                }
            }
        }
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

    pub(super) fn start_warden(&self, number: usize) -> Result<Warden, LaunchError> {
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

    pub(super) fn wardens(&self) -> MutexGuard<'_, Wardens> {
        self.wardens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn on_not_ready(error: &WardenError) {
    tracing::warn!(
        why = with_causes(error),
        "a warden could not make ready for another task"
    );
}
