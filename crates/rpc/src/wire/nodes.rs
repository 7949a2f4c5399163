use std::sync::Arc;
use std::time::Duration;

use model::{
    Capacity, ClusterMemberState, ExecutorState, Health, InvalidField, JudicatorState, Stats, TaskForm,
    TaskStatus, UnixTime,
};

use super::ids::{encode_id, parse_executor, parse_id};
use super::{ParseMessage, micros, parse_known_text, parse_optional, proto};
use crate::Readiness;

impl From<ExecutorState> for proto::ExecutorState {
    fn from(state: ExecutorState) -> Self {
        proto::ExecutorState {
            name: state.name.to_string(),
            session: encode_id(state.session.0),
            alive: state.health == Health::Alive,
            slots: state.slots,
            tasks: state.tasks,
            host: state.host,
            version: state.version,
            since: state.since.0,
            report_time: state.report_time.0,
            capacity: state.capacity.map(Into::into),
            tools: Some((&*state.tools).into()),
        }
    }
}

impl ParseMessage<ExecutorState> for proto::ExecutorState {
    fn parse(self) -> Result<ExecutorState, InvalidField> {
        Ok(ExecutorState {
            name: parse_executor(self.name)?,
            session: parse_id("session", &self.session)?,
            health: if self.alive { Health::Alive } else { Health::Gone },
            slots: self.slots,
            tasks: self.tasks,
            host: self.host,
            version: self.version,
            since: UnixTime(self.since),
            report_time: UnixTime(self.report_time),
            capacity: self.capacity.map(Into::into),
            tools: Arc::new(parse_optional("tools", self.tools)?.unwrap_or_default()),
        })
    }
}

impl From<Capacity> for proto::Capacity {
    fn from(capacity: Capacity) -> Self {
        let Capacity {
            memory,
            processes,
            open_files,
        } = capacity;
        proto::Capacity {
            memory,
            processes,
            open_files,
        }
    }
}

impl From<proto::Capacity> for Capacity {
    fn from(wire: proto::Capacity) -> Self {
        Capacity {
            memory: wire.memory,
            processes: wire.processes,
            open_files: wire.open_files,
        }
    }
}

impl From<JudicatorState> for proto::JudicatorState {
    fn from(state: JudicatorState) -> Self {
        proto::JudicatorState {
            name: state.name,
            address: state.address,
            leader: state.leader,
            store: state.store,
            version: state.version,
            newer_form: state.newer_form.map(|form| form.0),
            since: state.since.map(|since| since.0),
            alive: state.health == Health::Alive,
            etcd: state.etcd.map(Into::into),
            mongodb: state.mongodb.map(Into::into),
        }
    }
}

impl ParseMessage<JudicatorState> for proto::JudicatorState {
    fn parse(self) -> Result<JudicatorState, InvalidField> {
        Ok(JudicatorState {
            name: self.name,
            address: self.address,
            health: if self.alive { Health::Alive } else { Health::Gone },
            leader: self.leader,
            store: self.store,
            version: self.version,
            newer_form: self.newer_form.map(TaskForm),
            since: self.since.map(UnixTime),
            etcd: self.etcd.map(Into::into),
            mongodb: self.mongodb.map(Into::into),
        })
    }
}

impl From<ClusterMemberState> for proto::PartState {
    fn from(part: ClusterMemberState) -> Self {
        proto::PartState {
            address: part.address,
            state: part.state,
            version: part.version,
            uptime: part.uptime.map(micros),
        }
    }
}

impl From<proto::PartState> for ClusterMemberState {
    fn from(part: proto::PartState) -> Self {
        ClusterMemberState {
            address: part.address,
            state: part.state,
            version: part.version,
            uptime: part.uptime.map(Duration::from_micros),
        }
    }
}

impl From<Readiness> for proto::ReadyAnswer {
    fn from(ready: Readiness) -> Self {
        proto::ReadyAnswer {
            executors: ready.executors,
        }
    }
}

impl From<proto::ReadyAnswer> for Readiness {
    fn from(ready: proto::ReadyAnswer) -> Self {
        Readiness {
            executors: ready.executors,
        }
    }
}

impl From<Stats> for proto::StatsAnswer {
    fn from(stats: Stats) -> Self {
        proto::StatsAnswer {
            counts: stats
                .counts
                .into_iter()
                .map(|(status, tasks)| proto::Count {
                    status: status.to_string(),
                    tasks,
                })
                .collect(),
            executors: stats.executors,
            slots: stats.slots,
            held: stats.held,
            tasks_per_second: stats.tasks_per_second,
            window: micros(stats.window),
            oldest_queued: stats.oldest_queued.map(micros),
        }
    }
}

impl ParseMessage<Stats> for proto::StatsAnswer {
    fn parse(self) -> Result<Stats, InvalidField> {
        Ok(Stats {
            counts: self
                .counts
                .into_iter()
                .filter_map(|count| {
                    let status: TaskStatus = parse_known_text("counts.status", &count.status)?;
                    Some((status, count.tasks))
                })
                .collect(),
            executors: self.executors,
            slots: self.slots,
            held: self.held,
            tasks_per_second: self.tasks_per_second,
            window: Duration::from_micros(self.window),
            oldest_queued: self.oldest_queued.map(Duration::from_micros),
        })
    }
}
