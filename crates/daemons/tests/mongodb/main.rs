//! The mongodb daemon on real mongods and a real etcd.

// clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

mod changing;
mod crashing;
mod forming;
mod ground;
mod hanging;
mod leaving;
mod losing;
mod refusing;
