use std::sync::Arc;
use std::time::Duration;

use model::{
    Capacity, ClusterMemberState, DrainReason, ExecutorDrain, ExecutorName, ExecutorState, Health,
    InvalidField, JudicatorState, MachineLoad, MemberLag, Stats, TaskForm, TaskStatus, UnixTime, UserName,
};

use super::ids::{encode_id, parse_executor, parse_id};
use super::{ParseMessage, micros, parse_known_text, parse_optional, parse_text, proto};
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
            drain: state.drain.map(Into::into),
            load: state.load.map(Into::into),
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
            drain: parse_optional("drain", self.drain)?,
            load: self.load.map(Into::into),
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

impl From<ExecutorDrain> for proto::ExecutorDrain {
    fn from(drain: ExecutorDrain) -> Self {
        proto::ExecutorDrain {
            reason: drain.reason.to_string(),
            by: drain.by.map(|user| user.to_string()),
            since: drain.since.0,
        }
    }
}

impl ParseMessage<ExecutorDrain> for proto::ExecutorDrain {
    fn parse(self) -> Result<ExecutorDrain, InvalidField> {
        Ok(ExecutorDrain {
            reason: DrainReason::recorded(&self.reason),
            by: self.by.and_then(|name| UserName::new(name).ok()),
            since: UnixTime(self.since),
        })
    }
}

/// A request to drain an executor, as the RPC server parses it.
pub(crate) struct DrainCall {
    pub(crate) executor: ExecutorName,
    pub(crate) reason: DrainReason,
    pub(crate) by: Option<UserName>,
}

impl ParseMessage<DrainCall> for proto::DrainRequest {
    fn parse(self) -> Result<DrainCall, InvalidField> {
        let user = |name| UserName::new(name).map_err(|wrong| InvalidField::new("by", wrong.to_string()));
        Ok(DrainCall {
            executor: parse_executor(self.executor)?,
            reason: parse_text("reason", &self.reason)?,
            by: self.by.map(user).transpose()?,
        })
    }
}

impl ParseMessage<ExecutorName> for proto::ResumeRequest {
    fn parse(self) -> Result<ExecutorName, InvalidField> {
        parse_executor(self.executor)
    }
}

impl From<MachineLoad> for proto::MachineLoad {
    fn from(load: MachineLoad) -> Self {
        let MachineLoad {
            load_hundredths,
            cores,
            memory_available,
            memory_total,
        } = load;
        proto::MachineLoad {
            load_hundredths,
            cores,
            memory_available,
            memory_total,
        }
    }
}

impl From<proto::MachineLoad> for MachineLoad {
    fn from(wire: proto::MachineLoad) -> Self {
        MachineLoad {
            load_hundredths: wire.load_hundredths,
            cores: wire.cores,
            memory_available: wire.memory_available,
            memory_total: wire.memory_total,
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
            lag: part.lag.map(Into::into),
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
            lag: part.lag.map(Into::into),
        }
    }
}

impl From<MemberLag> for proto::part_state::Lag {
    fn from(lag: MemberLag) -> Self {
        match lag {
            MemberLag::Time(time) => proto::part_state::Lag::LagTime(micros(time)),
            MemberLag::Entries(entries) => proto::part_state::Lag::LagEntries(entries),
        }
    }
}

impl From<proto::part_state::Lag> for MemberLag {
    fn from(lag: proto::part_state::Lag) -> Self {
        match lag {
            proto::part_state::Lag::LagTime(time) => MemberLag::Time(Duration::from_micros(time)),
            proto::part_state::Lag::LagEntries(entries) => MemberLag::Entries(entries),
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
