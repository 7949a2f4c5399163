//! The calls that nodes make to a judicator, and how they cross the network.
//!
//! [`Calls`] is the whole contract in the model's words. A judicator implements it; so does [`Client`], which
//! carries each call to a judicator elsewhere over gRPC; [`serve`] is the other end. On one machine the
//! gateway and the executor are handed the judicator itself and nothing is encoded at all.
//! Only this room knows the wire: neither tonic nor a generated type is seen outside.

mod calls;
mod client;
mod error;
mod secret;
mod server;
mod stall;
mod wire;

pub use calls::{ByteStream, Calls, Event, EventStream, HintStream, Ready};
pub use client::Client;
pub use error::CallError;
pub use secret::{Secret, SecretError};
pub use server::{ServeError, serve};
pub use wire::spec_bytes;
