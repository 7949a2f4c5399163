//! Why the etcd daemon, or an operator's command to it, failed.

use std::io;

use thiserror::Error;

use super::client::EtcdRequestError;
use super::decision::BootstrapRefusal;
use super::preflight::InvalidEtcdOptions;
use crate::state_file::StateFileError;
use crate::{PortError, ProgramError, ServerStartError};

/// Why the etcd daemon ended, or why a node could not leave the etcd cluster or be removed from it.
#[derive(Debug, Error)]
pub enum EtcdDaemonError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    InvalidOptions(#[from] InvalidEtcdOptions),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    StartServer(#[from] ServerStartError),
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error(transparent)]
    Request(#[from] EtcdRequestError),
    #[error(transparent)]
    Refused(#[from] BootstrapRefusal),
    #[error("this node did not join the cluster: {reason}")]
    PreJoinCheck { reason: String },
    #[error("gave up after {tries} tries: {waiting_for}")]
    GaveUp { tries: u32, waiting_for: String },
    #[error("could not serve this node's proposal to the other founders on the peer port")]
    ProposalServer(#[source] io::Error),
    #[error("could not read the certificate in secrets.etcd_cert_file")]
    Certificate(#[source] io::Error),
    #[error("{exit} by itself; see what it wrote before, in this log")]
    Exited { exit: String },
    #[error("etcd did not serve within {tries} tries and was killed; {reason}")]
    NotServing { tries: u32, reason: String },
    #[error("{server} did not answer for {tries} s and was killed; {reason}")]
    Unresponsive {
        server: &'static str,
        tries: u32,
        reason: String,
    },
    #[error("this node's member was removed from the cluster; to join again, start with a new data folder")]
    Removed,
    #[error("this node has not joined a cluster yet: there is nothing to leave")]
    NothingToLeave,
    #[error(
        "no other member of the cluster answers (tried {}): a node can leave only while the others have a majority",
        .tried.join(", ")
    )]
    NoOtherMember { tried: Vec<String> },
    #[error(
        "without {name} only {alive} of {voters} members could be reached, and the cluster would lose its majority; \
         first bring back or remove {}",
        .missing.join(", ")
    )]
    QuorumLost {
        name: String,
        alive: usize,
        voters: usize,
        missing: Vec<String>,
    },
    #[error("no member is called {name}; the members are {}", .known.join(", "))]
    NoSuchMember { name: String, known: Vec<String> },
    #[error("{name} is alive at {client}; use `conclave leave` there")]
    Alive { name: String, client: String },
    #[error("{name} is the only member: removing it would end the cluster")]
    OnlyMember { name: String },
}
