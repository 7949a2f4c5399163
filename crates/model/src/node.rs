//! What is known of the nodes, for people to look at.

use std::time::Duration;

use crate::{Capacity, Counts, ExecutorName, Moment, SessionId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorState {
    pub name: ExecutorName,
    /// Its present session, or its last.
    pub session: SessionId,
    pub health: Health,
    pub slots: u32,
    /// Tasks that it holds now.
    pub tasks: u32,
    /// Where it runs, as it says itself.
    pub host: String,
    pub version: String,
    /// What a slot of it can give to a task, if it has said so.
    pub capacity: Option<Capacity>,
    /// When this session began.
    pub since: Moment,
    pub report_time: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Alive,
    /// Said goodbye, or was not heard of for longer than its lease.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudicatorState {
    pub name: String,
    /// Empty, as the version is, where it is gone and nobody remembers.
    pub address: String,
    pub health: Health,
    pub leader: bool,
    pub store: String,
    pub version: String,
    /// When it began to serve; `None` where it does not.
    pub since: Option<Moment>,
    /// Its member of etcd; `None` where there is no etcd.
    pub etcd: Option<PartState>,
    /// Its member of the replica set; `None` where there is none.
    pub mongodb: Option<PartState>,
}

/// A server that a judicator stands on, and its part among those of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    pub address: String,
    /// In the server's own words: `leader`, `follower`, `primary`, `secondary`, ...
    pub state: String,
    /// Empty where the server does not answer.
    pub version: String,
    /// For how long it has been running; `None` where nobody knows.
    pub uptime: Option<Duration>,
}

/// What people are told when there is no executor.
pub const NO_EXECUTOR: &str = "no executor is connected: tasks wait until one joins";

#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    pub counts: Counts,
    pub executors: u32,
    pub slots: u32,
    /// Tasks that executors hold now.
    pub held: u32,
    /// Tasks done for each second, over the last `window`.
    pub tasks_per_second: f64,
    pub window: Duration,
}

impl Stats {
    /// What an operator should know, in words.
    pub fn note(&self) -> Option<&'static str> {
        (self.executors == 0).then_some(NO_EXECUTOR)
    }
}

impl Health {
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Alive => "alive",
            Health::Gone => "gone",
        }
    }
}
