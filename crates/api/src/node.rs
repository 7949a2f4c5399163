//! What is known of the nodes and of all tasks together.

use std::collections::BTreeMap;

use model::{ExecutorName, Moment, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{name, schema};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Executors {
    pub executors: Vec<Executor>,
}

/// Runs tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Executor {
    #[serde(with = "name::executor")]
    #[schema(value_type = String)]
    pub name: ExecutorName,
    /// Its present session, or its last.
    pub session: String,
    /// `alive`, or `gone`: it said goodbye or was not heard of for longer than its lease.
    #[schema(example = "alive")]
    pub health: String,
    pub slots: u32,
    /// Tasks that it holds now.
    pub tasks: u32,
    pub host: String,
    pub version: String,
    /// What one task can have there. Left out by executors of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// When this session began.
    #[serde(with = "name::time")]
    #[schema(value_type = schema::Time)]
    pub since: Moment,
    #[serde(with = "name::time")]
    #[schema(value_type = schema::Time)]
    pub report_time: Moment,
}

/// What an executor can give to one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// Bytes of memory and of files together: a task's files are in memory.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u32,
    /// Files that all processes of the task together may have open.
    pub open_files: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Judicators {
    pub judicators: Vec<Judicator>,
}

/// Keeps the tasks and decides who runs what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Judicator {
    pub name: String,
    /// Where other nodes call it. Empty where it is gone, or is a single node that no other can join.
    pub address: String,
    /// `alive`, or `gone`: a node of the cluster whose judicator does not serve.
    #[schema(example = "alive")]
    pub health: String,
    pub leader: bool,
    /// The kind of store it keeps tasks in.
    #[schema(example = "sqlite")]
    pub store: String,
    pub version: String,
    /// When it began to serve.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "name::optional::time"
    )]
    #[schema(value_type = Option<schema::Time>)]
    pub since: Option<Moment>,
    /// Its member of etcd, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Part>,
    /// Its member of the MongoDB replica set, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mongodb: Option<Part>,
}

/// A server that a judicator stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    pub address: String,
    /// Its part among the others.
    #[schema(example = "primary")]
    pub state: String,
    /// Empty where it does not answer.
    pub version: String,
    /// For how long it has been running. Left out where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<u64>,
}

/// All tasks and nodes in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// How many tasks have each status; every status is there.
    pub counts: BTreeMap<String, u64>,
    pub executors: u32,
    pub slots: u32,
    /// Tasks that executors hold now.
    pub held: u32,
    /// Tasks done for each second, over the last `window_seconds`.
    pub tasks_per_second: f64,
    pub window_seconds: f64,
    /// What an operator should know, in words. Left out if there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<model::ExecutorState> for Executor {
    fn from(state: model::ExecutorState) -> Executor {
        let model::ExecutorState {
            name,
            session,
            health,
            slots,
            tasks,
            host,
            version,
            capacity,
            since,
            report_time,
        } = state;
        let capacity = capacity.map(|capacity| Capacity {
            memory: capacity.memory,
            processes: capacity.processes,
            open_files: capacity.open_files,
        });
        Executor {
            capacity,
            name,
            session: session.to_string(),
            health: health.as_str().to_string(),
            slots,
            tasks,
            host,
            version,
            since,
            report_time,
        }
    }
}

impl From<model::JudicatorState> for Judicator {
    fn from(state: model::JudicatorState) -> Judicator {
        let model::JudicatorState {
            name,
            address,
            health,
            leader,
            store,
            version,
            since,
            etcd,
            mongodb,
        } = state;
        Judicator {
            name,
            address,
            health: health.as_str().to_string(),
            leader,
            store,
            version,
            since,
            etcd: etcd.map(Into::into),
            mongodb: mongodb.map(Into::into),
        }
    }
}

impl From<model::PartState> for Part {
    fn from(part: model::PartState) -> Part {
        let model::PartState {
            address,
            state,
            version,
            uptime,
        } = part;
        Part {
            address,
            state,
            version,
            uptime_seconds: uptime.map(|uptime| uptime.as_secs()),
        }
    }
}

impl From<model::Stats> for Stats {
    fn from(stats: model::Stats) -> Stats {
        let note = stats.note().map(str::to_string);
        let model::Stats {
            counts,
            executors,
            slots,
            held,
            tasks_per_second,
            window,
        } = stats;
        let count = |status: Status| counts.get(&status).copied().unwrap_or(0);
        Stats {
            counts: Status::ALL
                .into_iter()
                .map(|status| (status.to_string(), count(status)))
                .collect(),
            executors,
            slots,
            held,
            tasks_per_second,
            window_seconds: window.as_secs_f64(),
            note,
        }
    }
}
