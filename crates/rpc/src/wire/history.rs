use std::time::Duration;

use model::{History, HistoryPoint, HistorySpan, InvalidField, PeriodLoad, RunTimeSummary, UnixTime};

use super::{ParseMessage, micros, parse_each, parse_known_text, parse_text, proto};

impl From<HistorySpan> for proto::HistoryRequest {
    fn from(span: HistorySpan) -> Self {
        proto::HistoryRequest {
            span: span.to_string(),
        }
    }
}

impl ParseMessage<HistorySpan> for proto::HistoryRequest {
    fn parse(self) -> Result<HistorySpan, InvalidField> {
        parse_text("span", &self.span)
    }
}

impl From<History> for proto::HistoryAnswer {
    fn from(history: History) -> Self {
        proto::HistoryAnswer {
            span: history.span.to_string(),
            time: history.time.0,
            points: history.points.into_iter().map(Into::into).collect(),
        }
    }
}

impl ParseMessage<History> for proto::HistoryAnswer {
    fn parse(self) -> Result<History, InvalidField> {
        Ok(History {
            span: parse_text("span", &self.span)?,
            time: UnixTime(self.time),
            points: parse_each("points", self.points)?,
        })
    }
}

impl From<HistoryPoint> for proto::HistoryPoint {
    fn from(point: HistoryPoint) -> Self {
        let HistoryPoint {
            start,
            added,
            finished,
            failures,
            run_time,
            load,
        } = point;
        let status_count = |(status, tasks): (model::TaskStatus, u64)| proto::Count {
            status: status.to_string(),
            tasks,
        };
        let reason_count = |(reason, tasks): (model::OutcomeReason, u64)| proto::ReasonCount {
            reason: reason.to_string(),
            tasks,
        };
        proto::HistoryPoint {
            start: start.0,
            added,
            finished: finished.into_iter().map(status_count).collect(),
            failures: failures.into_iter().map(reason_count).collect(),
            run_time: run_time.map(|run_time| proto::RunTimes {
                tasks: run_time.tasks,
                mean: micros(run_time.mean),
                p50: micros(run_time.p50),
                p95: micros(run_time.p95),
            }),
            load: load.map(|load| proto::PeriodLoad {
                queued: load.queued,
                oldest_age: micros(load.oldest_age),
                slots_used: load.slots_used,
                slots: load.slots,
                executors: load.executors,
            }),
        }
    }
}

/// Statuses and reasons that only newer versions know are left out.
impl ParseMessage<HistoryPoint> for proto::HistoryPoint {
    fn parse(self) -> Result<HistoryPoint, InvalidField> {
        let finished = self.finished.into_iter();
        let failures = self.failures.into_iter();
        Ok(HistoryPoint {
            start: UnixTime(self.start),
            added: self.added,
            finished: finished
                .filter_map(|count| Some((parse_known_text("finished.status", &count.status)?, count.tasks)))
                .collect(),
            failures: failures
                .filter_map(|count| Some((parse_known_text("failures.reason", &count.reason)?, count.tasks)))
                .collect(),
            run_time: self.run_time.map(|run_time| RunTimeSummary {
                tasks: run_time.tasks,
                mean: Duration::from_micros(run_time.mean),
                p50: Duration::from_micros(run_time.p50),
                p95: Duration::from_micros(run_time.p95),
            }),
            load: self.load.map(|load| PeriodLoad {
                queued: load.queued,
                oldest_age: Duration::from_micros(load.oldest_age),
                slots_used: load.slots_used,
                slots: load.slots,
                executors: load.executors,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{OutcomeReason, TaskStatus};

    use super::*;

    #[test]
    fn a_history_arrives_as_it_was_sent() {
        let point = HistoryPoint {
            start: UnixTime(60_000_000),
            added: 3,
            finished: [(TaskStatus::Success, 2), (TaskStatus::Cancelled, 1)].into(),
            failures: [(OutcomeReason::TimeLimit, 1)].into(),
            run_time: Some(RunTimeSummary {
                tasks: 2,
                mean: Duration::from_micros(3),
                p50: Duration::from_micros(4),
                p95: Duration::from_micros(5),
            }),
            load: Some(PeriodLoad {
                queued: 6,
                oldest_age: Duration::from_micros(7),
                slots_used: 1.5,
                slots: 4.0,
                executors: 2,
            }),
        };
        let history = History {
            span: HistorySpan::Day,
            time: UnixTime(120_000_007),
            points: vec![point, HistoryPoint::default()],
        };
        let sent = proto::HistoryAnswer::from(history.clone());
        assert_eq!(sent.parse(), Ok(history));
        let request = proto::HistoryRequest::from(HistorySpan::Day);
        assert_eq!(request.parse(), Ok(HistorySpan::Day));
    }
}
