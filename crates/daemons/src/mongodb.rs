//! The daemon around mongod: a member of the replica set, and on the primary the hand that keeps the set as
//! registered.
//!
//! Reading order: `options`, `records` (what is written in etcd), `notes` (what is written beside the data), `admit`
//! (may this node start?), `step` (what is to be done next), `diff` (how the replica set differs from what is
//! registered), `spare` (can the set do without a member?): all decided over values. `register`, `initiate` and `tend`
//! do it; `node` and `work` hold them together, `run` is the loop.

mod admin;
mod admission;
mod admit;
mod arguments;
mod config;
mod diff;
mod error;
mod etcd;
mod hello;
mod initiate;
mod leave;
mod node;
mod notes;
mod options;
mod preflight;
mod records;
mod register;
mod run;
mod secret;
mod spare;
mod states;
mod step;
mod telling;
mod tend;
mod work;

pub use admission::admission;
pub use error::MongodbError;
pub use leave::{Departure, leave, may_leave, remove};
pub use node::Node;
pub use options::Options;
pub use preflight::preflight;
pub use records::Incarnation;
pub use run::run;
pub use secret::login;
pub use states::{MemberState, Registered, members, states};
pub use step::{Step, Why};
pub use work::Pace;
