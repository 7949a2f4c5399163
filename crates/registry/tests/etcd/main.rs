//! Real etcd servers and proxies. Each file tells what one part of the promise is.

// Clippy lets test functions unwrap, but not what they call.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod servers;
mod stage;
mod strangers;

mod following;
mod leading;
mod names;
mod outages;
mod pausing;
mod registering;
mod users;
