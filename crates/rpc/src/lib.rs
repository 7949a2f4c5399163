//! The calls that nodes make to a judicator, and their gRPC transport.
//!
//! [`Calls`] is the whole contract, in types of `model`. A judicator implements it, and so does [`RpcClient`], which
//! makes each call over gRPC; [`serve`] is the server side. On one machine the gateway and the executor hold the judicator
//! itself, and nothing is encoded. Only this crate knows the wire format: neither tonic nor generated types are public.

mod calls;
mod client;
mod cut_range;
mod error;
mod secret;
mod server;
mod stall_timeout;
mod wire;

pub use calls::{
    BlobFileSource, ByteStream, Calls, CancelledTasks, ChangeStream, EventStream, GroupStateStream,
    HintStream, OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness, RetriedTasks,
    RetryProgress, TaskEvent,
};
pub use client::RpcClient;
pub use cut_range::cut_range;
pub use error::CallError;
pub use secret::{ClusterSecret, ClusterSecretError};
pub use server::{RpcServeError, serve};
pub use wire::{CaseResultsError, decode_case_results, encode_case_results, legacy_digest_bytes};
