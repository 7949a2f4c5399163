//! Tests of the folder of roots through its public functions: real archives, hostile ones, and several users at once.
#![allow(clippy::disallowed_types, reason = "tests start tar and compressors")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archive_builder;
mod harness;
mod image_builder;

mod archives;
mod cleanup;
mod hostile_archives;
mod hostile_images;
mod images;
mod interrupted_work;
mod limits;
mod store;
mod verify;
