//! The history in JSON: figures of the last hour or day.

use std::collections::BTreeMap;

use model::{HistorySpan, TaskStatus, UnixTime};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{schema, serde_text};

/// Figures of the last hour, minute by minute, or of the last day, in periods of ten minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = History)]
pub struct HistoryResponse {
    #[serde(with = "serde_text::span")]
    #[schema(value_type = schema::HistorySpan)]
    pub span: HistorySpan,
    /// The length of a period.
    #[schema(example = 60)]
    pub step_seconds: u64,
    /// When the figures were read. The last period is not over at this time.
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub time: UnixTime,
    /// All periods of the span, oldest first. One in which nothing happened has zeros.
    pub points: Vec<HistoryPoint>,
}

/// The figures of one period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryPoint {
    /// When the period began.
    #[serde(with = "serde_text::time")]
    #[schema(value_type = schema::Time)]
    pub start: UnixTime,
    /// Number of tasks that were added.
    pub added: u64,
    /// Number of tasks that finished, by status. Every final status is present.
    pub finished: BTreeMap<String, u64>,
    /// Why tasks failed: number of failed tasks (`run_failed`, `compile_failed`) by the reason of their last step. Reasons of no
    /// task are left out.
    pub failures: BTreeMap<String, u64>,
    /// Null if no task finished with a result.
    #[serde(default)]
    #[schema(required = true)]
    pub run_time: Option<RunTimes>,
    /// Null if no judicator sampled it, because none was running.
    #[serde(default)]
    #[schema(required = true)]
    pub load: Option<PeriodLoad>,
}

/// How long the steps of the tasks took that finished in a period. The percentiles are estimates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunTimes {
    /// Number of tasks that finished with a result.
    pub tasks: u64,
    pub mean_seconds: f64,
    /// Half of the tasks took no longer.
    pub p50_seconds: f64,
    /// 95 % of the tasks took no longer.
    pub p95_seconds: f64,
}

/// How busy the system was in a period. It is sampled every few seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeriodLoad {
    /// The largest number of tasks that waited for an executor.
    pub queued: u64,
    /// The largest age of the oldest task that waited; 0 if none did.
    pub oldest_queued_seconds: f64,
    /// The mean number of slots that ran a task.
    pub slots_used: f64,
    /// The mean number of slots.
    pub slots: f64,
    /// The largest number of executors.
    pub executors: u64,
}

impl From<model::History> for HistoryResponse {
    fn from(history: model::History) -> HistoryResponse {
        let model::History { span, time, points } = history;
        HistoryResponse {
            span,
            step_seconds: span.step().as_secs(),
            time,
            points: points.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<model::HistoryPoint> for HistoryPoint {
    fn from(point: model::HistoryPoint) -> HistoryPoint {
        let model::HistoryPoint {
            start,
            added,
            finished,
            failures,
            run_time,
            load,
        } = point;
        let count = |status: TaskStatus| finished.get(&status).copied().unwrap_or(0);
        let final_statuses = TaskStatus::ALL.into_iter().filter(|status| status.is_done());
        HistoryPoint {
            start,
            added,
            finished: final_statuses
                .map(|status| (status.to_string(), count(status)))
                .collect(),
            failures: failures
                .into_iter()
                .map(|(reason, count)| (reason.to_string(), count))
                .collect(),
            run_time: run_time.map(|run_time| RunTimes {
                tasks: run_time.tasks,
                mean_seconds: run_time.mean.as_secs_f64(),
                p50_seconds: run_time.p50.as_secs_f64(),
                p95_seconds: run_time.p95.as_secs_f64(),
            }),
            load: load.map(|load| PeriodLoad {
                queued: load.queued,
                oldest_queued_seconds: load.oldest_age.as_secs_f64(),
                slots_used: load.slots_used,
                slots: load.slots,
                executors: load.executors,
            }),
        }
    }
}
