//! Executors, judicators and statistics in JSON.

use std::collections::BTreeMap;

use model::{BlobHash, ExecutorName, LanguageName, MemberLag, RootName, TaskStatus, UnixTime};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ExecutorDrain, schema, serde_text};

/// The executors of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Executors)]
pub struct ExecutorsResponse {
    pub executors: Vec<ExecutorState>,
}

/// An executor: a node that runs tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Executor)]
pub struct ExecutorState {
    #[serde(with = "serde_text::executor")]
    #[schema(value_type = String)]
    pub name: ExecutorName,
    /// The current session, or the last one if the executor is gone.
    pub session: String,
    /// `alive`, or `gone` if it has stopped or has not reported for longer than its lease.
    #[schema(example = "alive")]
    pub health: String,
    pub slots: u32,
    /// Number of tasks that are assigned to it now.
    pub tasks: u32,
    pub host: String,
    pub version: String,
    /// The resources that it can give to one task. Missing for executors of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Set while an operator has drained it: it ends the tasks that it has, and gets no new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<ExecutorDrain>,
    /// The load of its machine when it reported last. Missing if it does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<MachineLoad>,
    /// The languages that it has.
    #[serde(default)]
    #[schema(required = true)]
    pub languages: Vec<OfferedLanguage>,
    /// The named root file systems that it has.
    #[serde(default)]
    #[schema(required = true)]
    pub roots: Vec<OfferedRoot>,
    /// When the session began.
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub since: UnixTime,
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub report_time: UnixTime,
}

/// A language that an executor has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferedLanguage {
    #[serde(with = "serde_text::language")]
    #[schema(value_type = String)]
    pub name: LanguageName,
    /// Null if the executor has not found it out.
    pub version: Option<String>,
    /// The root file system that has the language. Null is the executor's default.
    #[serde(with = "serde_text::optional::root")]
    #[schema(value_type = Option<String>)]
    pub root: Option<RootName>,
}

/// A named root file system that an executor has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferedRoot {
    #[serde(with = "serde_text::root")]
    #[schema(value_type = String)]
    pub name: RootName,
    /// Identifies the content. Null for a folder that the operator maintains.
    #[serde(with = "serde_text::optional::blob")]
    #[schema(value_type = Option<schema::Sha256>)]
    pub sha256: Option<BlobHash>,
}

/// The load of an executor's machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MachineLoad {
    /// How many processes were running or waiting for a core, on average over the last minute.
    pub load_average: f64,
    /// Cores on which the executor's processes may run.
    pub cores: u32,
    /// Bytes of memory that are available to the executor and its tasks.
    pub memory_available: u64,
    /// Bytes of memory that the executor and its tasks have together.
    pub memory_total: u64,
}

/// The resources that an executor can give to one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// Bytes of memory and files together, as a task's files are in memory.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u32,
    /// Open files of all processes of the task together.
    pub open_files: u64,
}

/// The judicators of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Judicators)]
pub struct JudicatorsResponse {
    pub judicators: Vec<JudicatorState>,
}

/// A row of the list of judicators, the nodes that keep the tasks and assign them to executors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Judicator)]
pub struct JudicatorState {
    pub name: String,
    /// The address at which other nodes call it. Empty if it is gone, or if it is a single node without such an address.
    pub address: String,
    /// `alive`, or `gone` if the node is part of the cluster and its judicator does not serve.
    #[schema(example = "alive")]
    pub health: String,
    pub leader: bool,
    /// The type of its store.
    #[schema(example = "sqlite")]
    pub store: String,
    pub version: String,
    /// The newest form of tasks that it has met and does not know. It leaves these tasks to judicators of a newer version,
    /// so upgrade it. Missing if it knows all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer_form: Option<u32>,
    /// When it started to serve.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "serde_text::optional::time"
    )]
    #[schema(value_type = Option<schema::Time>)]
    pub since: Option<UnixTime>,
    /// The etcd member on the node. Only in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<ClusterMemberState>,
    /// The member of the MongoDB replica set on the node. Only in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mongodb: Option<ClusterMemberState>,
}

/// A member of etcd or of the MongoDB replica set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Part)]
pub struct ClusterMemberState {
    pub address: String,
    /// The role of the member, in the words of etcd or MongoDB.
    #[schema(example = "primary")]
    pub state: String,
    /// Empty if the member does not respond.
    pub version: String,
    /// Missing if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<u64>,
    /// MongoDB: the age of the oldest write of the primary that the member does not have. Missing if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<f64>,
    /// etcd: the entries of the leader's log that the member does not have. Missing if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_entries: Option<u64>,
}

/// Numbers of tasks by status, of executors and of slots, and the throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Number of tasks by status. Every status is present.
    pub counts: BTreeMap<String, u64>,
    pub executors: u32,
    pub slots: u32,
    /// Number of tasks that are assigned to executors now.
    pub held: u32,
    /// Number of tasks that wait for an executor.
    #[serde(default)]
    #[schema(required = true)]
    pub queued: u64,
    /// The age of the oldest task that waits for an executor; missing if none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_queued_seconds: Option<f64>,
    /// Tasks that were finished per second, averaged over the last `window_seconds`.
    pub tasks_per_second: f64,
    pub window_seconds: f64,
    /// A message to the operator, for example that no executor is connected. Missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<model::ExecutorState> for ExecutorState {
    fn from(state: model::ExecutorState) -> ExecutorState {
        let model::ExecutorState {
            name,
            session,
            health,
            slots,
            tasks,
            host,
            version,
            capacity,
            tools,
            drain,
            load,
            since,
            report_time,
        } = state;
        let capacity = capacity.map(|capacity| Capacity {
            memory: capacity.memory,
            processes: capacity.processes,
            open_files: capacity.open_files,
        });
        let language = |offer: &model::OfferedLanguage| OfferedLanguage {
            name: offer.name.clone(),
            version: offer.version.clone(),
            root: offer.root.clone(),
        };
        let root = |offer: &model::OfferedRoot| OfferedRoot {
            name: offer.name.clone(),
            sha256: offer.sha256,
        };
        let load = load.map(|load| MachineLoad {
            load_average: load.load_average(),
            cores: load.cores,
            memory_available: load.memory_available,
            memory_total: load.memory_total,
        });
        ExecutorState {
            capacity,
            drain: drain.map(Into::into),
            load,
            languages: tools.languages().iter().map(language).collect(),
            roots: tools.roots().iter().map(root).collect(),
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

impl From<model::JudicatorState> for JudicatorState {
    fn from(state: model::JudicatorState) -> JudicatorState {
        let model::JudicatorState {
            name,
            address,
            health,
            leader,
            store,
            version,
            newer_form,
            since,
            etcd,
            mongodb,
        } = state;
        JudicatorState {
            name,
            address,
            health: health.as_str().to_string(),
            leader,
            store,
            version,
            newer_form: newer_form.map(|form| form.0),
            since,
            etcd: etcd.map(Into::into),
            mongodb: mongodb.map(Into::into),
        }
    }
}

impl From<model::ClusterMemberState> for ClusterMemberState {
    fn from(part: model::ClusterMemberState) -> ClusterMemberState {
        let model::ClusterMemberState {
            address,
            state,
            version,
            uptime,
            lag,
        } = part;
        let (lag_seconds, lag_entries) = match lag {
            Some(MemberLag::Time(time)) => (Some(time.as_secs_f64()), None),
            Some(MemberLag::Entries(entries)) => (None, Some(entries)),
            None => (None, None),
        };
        ClusterMemberState {
            address,
            state,
            version,
            uptime_seconds: uptime.map(|uptime| uptime.as_secs()),
            lag_seconds,
            lag_entries,
        }
    }
}

impl From<model::Stats> for Stats {
    fn from(stats: model::Stats) -> Stats {
        let (note, queued) = (stats.note().map(str::to_string), stats.queued());
        let model::Stats {
            counts,
            executors,
            slots,
            held,
            tasks_per_second,
            window,
            oldest_queued,
        } = stats;
        let count = |status: TaskStatus| counts.get(&status).copied().unwrap_or(0);
        Stats {
            counts: TaskStatus::ALL
                .into_iter()
                .map(|status| (status.to_string(), count(status)))
                .collect(),
            executors,
            slots,
            held,
            queued,
            oldest_queued_seconds: oldest_queued.map(|age| age.as_secs_f64()),
            tasks_per_second,
            window_seconds: window.as_secs_f64(),
            note,
        }
    }
}
