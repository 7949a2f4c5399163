//! Real wardens and real processes. Each file tells what one part of the promise is.

// Clippy lets test functions unwrap, but not what they call.
#![allow(clippy::unwrap_used)]

mod stage;

mod endings;
mod streams;
mod surroundings;

mod cgroup;

mod limits;
mod measures;

mod cell;
mod cleaning;
mod killing;
mod owners;
mod strays;
