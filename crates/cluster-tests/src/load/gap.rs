//! For how long nothing went well.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest time between two good moments, since it was last asked to begin anew.
#[derive(Debug)]
pub(super) struct Gap(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    last: Instant,
    longest: Duration,
}

impl Gap {
    pub(super) fn new() -> Gap {
        Gap(Mutex::new(State::now()))
    }

    pub(super) fn begin(&self) {
        *self.state() = State::now();
    }

    pub(super) fn good(&self) {
        let mut state = self.state();
        state.longest = state.longest.max(state.last.elapsed());
        state.last = Instant::now();
    }

    pub(super) fn longest(&self) -> Duration {
        self.state().longest
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl State {
    fn now() -> State {
        State {
            last: Instant::now(),
            longest: Duration::ZERO,
        }
    }
}
