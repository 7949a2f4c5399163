//! Packages that the tests write into temporary folders, in every format.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod domjudge;
mod fixtures;
mod legacy;
mod submissions;
mod test_groups;
mod validators;
