//! The state of the nodes, for people to read.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Capacity, ExecutorDrain, ExecutorName, ExecutorTools, SessionId, StatusCounts, TaskForm, UnixTime,
};

/// An executor as the store knows it, for people to read: its session, health, slots and machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorState {
    pub name: ExecutorName,
    /// Its current session, or its last one.
    pub session: SessionId,
    pub health: Health,
    pub slots: u32,
    /// The number of tasks that it holds now.
    pub tasks: u32,
    /// The name of its machine, as it reports it.
    pub host: String,
    pub version: String,
    /// What a slot can give to a task, if the executor reports it.
    pub capacity: Option<Capacity>,
    /// The languages and roots that it reported last.
    pub tools: Arc<ExecutorTools>,
    /// Set while an operator has drained it.
    pub drain: Option<ExecutorDrain>,
    /// The load of its machine as it reported it last, if it does.
    pub load: Option<MachineLoad>,
    /// When this session began.
    pub since: UnixTime,
    pub report_time: UnixTime,
}

/// The load of an executor's machine at the time of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineLoad {
    /// The load average of the last minute in hundredths, as exactly as the kernel shows it.
    pub load_hundredths: u32,
    /// The cores on which the executor's processes may run.
    pub cores: u32,
    /// Bytes of memory that are available to the executor and its tasks.
    pub memory_available: u64,
    /// Bytes of memory that the executor and its tasks have together.
    pub memory_total: u64,
}

impl MachineLoad {
    pub fn load_average(self) -> f64 {
        f64::from(self.load_hundredths) / 100.0
    }
}

/// Whether an executor or judicator is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Alive,
    /// It has left, or was silent for longer than its lease.
    Gone,
}

/// A row of the list of judicators for people: one judicator with its etcd member and its replica set member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudicatorState {
    pub name: String,
    /// Empty, like the version, if the judicator is not registered.
    pub address: String,
    pub health: Health,
    pub leader: bool,
    pub store: String,
    pub version: String,
    /// The newest form of tasks that it has met and does not know: it leaves these tasks to newer judicators.
    pub newer_form: Option<TaskForm>,
    /// When it registered; `None` if it is not registered.
    pub since: Option<UnixTime>,
    /// Its etcd member; `None` without etcd.
    pub etcd: Option<ClusterMemberState>,
    /// Its member of the replica set; `None` without MongoDB.
    pub mongodb: Option<ClusterMemberState>,
}

/// The state of a judicator's etcd or mongod server within its cluster, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMemberState {
    pub address: String,
    /// As the server calls it: `leader`, `follower`, `primary`, `secondary`, ...
    pub state: String,
    /// Empty if the server does not answer.
    pub version: String,
    /// How long the server has been running; `None` if unknown.
    pub uptime: Option<Duration>,
    /// How far its data is behind the leader's or primary's; `None` if unknown.
    pub lag: Option<MemberLag>,
}

/// How far the data of an etcd or MongoDB member is behind that of the leader or primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberLag {
    /// The age of the primary's last write that a MongoDB member does not have yet.
    Time(Duration),
    /// The entries of the leader's raft log that an etcd member does not have yet.
    Entries(u64),
}

/// The message to users while there is no executor.
pub const NO_EXECUTOR_MESSAGE: &str = "no executor is connected: tasks wait until one joins";

/// Counts over the whole system: tasks by status, executors, slots, and the tasks finished per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    pub counts: StatusCounts,
    pub executors: u32,
    pub slots: u32,
    /// The number of tasks that executors hold now.
    pub held: u32,
    /// Tasks finished per second, over the last `window`.
    pub tasks_per_second: f64,
    pub window: Duration,
    /// For how long the oldest task that waits for an executor has existed. `None` if none waits, or if the judicator is of
    /// an older version.
    pub oldest_queued: Option<Duration>,
}

/// The number of tasks that wait for an executor: those that are not done and that no executor holds.
pub fn queued_tasks(counts: &StatusCounts, held: u64) -> u64 {
    let open = counts.iter().filter(|(status, _)| !status.is_done());
    let open: u64 = open.map(|(_, count)| count).sum();
    open.saturating_sub(held)
}

impl Stats {
    /// The number of tasks that wait for an executor.
    pub fn queued(&self) -> u64 {
        queued_tasks(&self.counts, self.held.into())
    }

    /// A message for the operator, if something needs attention.
    pub fn note(&self) -> Option<&'static str> {
        (self.executors == 0).then_some(NO_EXECUTOR_MESSAGE)
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
