//! Why the daemon ends, in words that say what to do.

use std::io;

use thiserror::Error;

use super::dial::DialError;
use super::notes::NoteError;
use super::plan::Refusal;
use super::preflight::UnfitOptions;
use crate::{PortError, ProgramError, StartError};

#[derive(Debug, Error)]
pub enum EtcdError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Unfit(#[from] UnfitOptions),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Note(#[from] NoteError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("this node did not join the cluster: {why}")]
    NotAdmitted { why: String },
    #[error("gave up after {tries} tries: {waiting}")]
    GaveUp { tries: u32, waiting: String },
    #[error("cannot answer the other founders on the port for peers")]
    Propose(#[source] io::Error),
    #[error("cannot use secrets.etcd_cert_file")]
    Certificate(#[source] io::Error),
    #[error("{how} by itself; see what it wrote before, in this log")]
    Ended { how: String },
    #[error("etcd did not serve within {tries} tries and was killed; {why}")]
    NotServing { tries: u32, why: String },
    #[error("{what} did not answer for {tries} s and was killed; {why}")]
    Silent {
        what: &'static str,
        tries: u32,
        why: String,
    },
    #[error("this node's member was removed from the cluster; to join again, start with a new data folder")]
    Removed,
    #[error("this node has not joined a cluster yet: there is nothing to leave")]
    NothingToLeave,
    #[error(
        "no other member of the cluster answers (tried {}): a node can leave only while the others can agree",
        .tried.join(", ")
    )]
    NobodyElse { tried: Vec<String> },
    #[error(
        "without {name} only {alive} of {voters} members could be reached, and the cluster could not decide any more; \
         first bring back or remove {}",
        .missing.join(", ")
    )]
    QuorumLost {
        name: String,
        alive: usize,
        voters: usize,
        missing: Vec<String>,
    },
    #[error("no member is called {name}; there are {}", .known.join(", "))]
    NoSuchMember { name: String, known: Vec<String> },
    #[error("{name} is alive at {client}; use `conclave leave` there")]
    Alive { name: String, client: String },
    #[error("{name} is the only member: removing it would end the cluster")]
    OnlyMember { name: String },
}
