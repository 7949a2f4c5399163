use std::time::Duration;

use model::{Capacity, ExecutorState, Health, Invalid, JudicatorState, Moment, PartState, Stats, Status};

use super::ids::{executor_in, id_in, id_out};
use super::{Incoming, micros, proto, text};
use crate::Ready;

impl From<ExecutorState> for proto::ExecutorState {
    fn from(state: ExecutorState) -> Self {
        proto::ExecutorState {
            name: state.name.to_string(),
            session: id_out(state.session.0),
            alive: state.health == Health::Alive,
            slots: state.slots,
            tasks: state.tasks,
            host: state.host,
            version: state.version,
            since: state.since.0,
            report_time: state.report_time.0,
            capacity: state.capacity.map(Into::into),
        }
    }
}

impl Incoming<ExecutorState> for proto::ExecutorState {
    fn read(self) -> Result<ExecutorState, Invalid> {
        Ok(ExecutorState {
            name: executor_in(self.name)?,
            session: id_in("session", &self.session)?,
            health: if self.alive { Health::Alive } else { Health::Gone },
            slots: self.slots,
            tasks: self.tasks,
            host: self.host,
            version: self.version,
            since: Moment(self.since),
            report_time: Moment(self.report_time),
            capacity: self.capacity.map(Into::into),
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
            since: state.since.map(|since| since.0),
            alive: state.health == Health::Alive,
            etcd: state.etcd.map(Into::into),
            mongodb: state.mongodb.map(Into::into),
        }
    }
}

impl Incoming<JudicatorState> for proto::JudicatorState {
    fn read(self) -> Result<JudicatorState, Invalid> {
        Ok(JudicatorState {
            name: self.name,
            address: self.address,
            health: if self.alive { Health::Alive } else { Health::Gone },
            leader: self.leader,
            store: self.store,
            version: self.version,
            since: self.since.map(Moment),
            etcd: self.etcd.map(Into::into),
            mongodb: self.mongodb.map(Into::into),
        })
    }
}

impl From<PartState> for proto::PartState {
    fn from(part: PartState) -> Self {
        proto::PartState {
            address: part.address,
            state: part.state,
            version: part.version,
            uptime: part.uptime.map(micros),
        }
    }
}

impl From<proto::PartState> for PartState {
    fn from(part: proto::PartState) -> Self {
        PartState {
            address: part.address,
            state: part.state,
            version: part.version,
            uptime: part.uptime.map(Duration::from_micros),
        }
    }
}

impl From<Ready> for proto::ReadyAnswer {
    fn from(ready: Ready) -> Self {
        proto::ReadyAnswer {
            executors: ready.executors,
        }
    }
}

impl From<proto::ReadyAnswer> for Ready {
    fn from(ready: proto::ReadyAnswer) -> Self {
        Ready {
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
        }
    }
}

impl Incoming<Stats> for proto::StatsAnswer {
    fn read(self) -> Result<Stats, Invalid> {
        Ok(Stats {
            counts: self
                .counts
                .into_iter()
                .map(|count| Ok((text::<Status>("status", &count.status)?, count.tasks)))
                .collect::<Result<_, Invalid>>()?,
            executors: self.executors,
            slots: self.slots,
            held: self.held,
            tasks_per_second: self.tasks_per_second,
            window: Duration::from_micros(self.window),
        })
    }
}
