//! Real boots, real services, real kills. Each file tells what one part of the promise is.

// Clippy lets test functions unwrap, but not what they call.
#![allow(clippy::unwrap_used)]

mod stage;

mod restarting;
mod starting;
mod stopping;

mod hanging_up;
mod holding;
mod taking_over;

mod leashing;
mod logging;
