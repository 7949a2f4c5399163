//! Measures the longest time without a success.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest time between two successes of a test's load generator since the last reset.
#[derive(Debug)]
pub(super) struct LongestGap(Mutex<GapState>);

/// When the last success of a test's load generator was, and the longest gap until then.
#[derive(Clone, Copy, Debug)]
struct GapState {
    last: Instant,
    longest: Duration,
}

impl LongestGap {
    pub(super) fn new() -> LongestGap {
        LongestGap(Mutex::new(GapState::now()))
    }

    pub(super) fn reset(&self) {
        *self.state() = GapState::now();
    }

    pub(super) fn record_success(&self) {
        let mut state = self.state();
        state.longest = state.longest.max(state.last.elapsed());
        state.last = Instant::now();
    }

    pub(super) fn longest(&self) -> Duration {
        self.state().longest
    }

    fn state(&self) -> std::sync::MutexGuard<'_, GapState> {
        self.0.lock().expect("not poisoned")
    }
}

impl GapState {
    fn now() -> GapState {
        GapState {
            last: Instant::now(),
            longest: Duration::ZERO,
        }
    }
}
