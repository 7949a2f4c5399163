//! Why a task waits, in JSON.

use model::{TaskId, TaskStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{schema, serde_text};

/// Why a task has not begun to run, and its place in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Waiting)]
pub struct TaskWait {
    #[serde(with = "serde_text::task")]
    #[schema(value_type = schema::Id)]
    pub id: TaskId,
    #[serde(with = "serde_text::status")]
    #[schema(value_type = schema::Status)]
    pub status: TaskStatus,
    /// The most important one first. Empty if the task runs or is done.
    pub reasons: Vec<WaitReason>,
    /// Number of queued tasks that come before it, at most 10,000. Null if it is not in the queue, or if that is not known.
    pub queued_before: Option<u32>,
    /// Whether there are more than `queued_before`.
    pub more_queued_before: bool,
}

/// A reason why a task has not begun to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitReason {
    #[schema(value_type = schema::WaitReasonName)]
    pub reason: String,
    /// The same as sentences for people.
    pub message: String,
}

impl TaskWait {
    /// `status` is for a judicator that cannot tell.
    pub fn new(id: TaskId, status: TaskStatus, wait: &model::TaskWait) -> TaskWait {
        let reason = |reason: &model::WaitReason| WaitReason {
            reason: reason.as_str().to_string(),
            message: reason.to_string(),
        };
        let before = wait.queued_before;
        TaskWait {
            id,
            status: wait.status.unwrap_or(status),
            reasons: wait.reasons.iter().map(reason).collect(),
            queued_before: before.map(|before| before.tasks),
            more_queued_before: before.is_some_and(|before| before.more),
        }
    }

    /// The reasons and the place in the queue, as sentences.
    pub fn sentences(&self) -> Vec<String> {
        let before = self.queued_before.map(|tasks| model::QueuedBefore {
            tasks,
            more: self.more_queued_before,
        });
        let reasons = self.reasons.iter().map(|reason| reason.message.clone());
        reasons.chain(before.map(|before| before.to_string())).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::QueuedBefore;

    use super::*;

    #[test]
    fn a_wait_has_names_and_sentences() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let busy = model::TaskWait {
            status: Some(TaskStatus::Retrying),
            reasons: vec![model::WaitReason::SlotsBusy {
                executors: 1,
                slots: 4,
            }],
            queued_before: Some(QueuedBefore::counted(12)),
        };
        let wait = TaskWait::new(id, TaskStatus::Pending, &busy);
        assert_eq!(
            serde_json::to_value(&wait).unwrap(),
            serde_json::json!({
                "id": id.to_string(),
                "status": "retrying",
                "reasons": [{
                    "reason": "slots_busy",
                    "message": "All 4 slots of the executor that could run it are busy.",
                }],
                "queued_before": 12,
                "more_queued_before": false,
            })
        );
        assert_eq!(
            wait.sentences(),
            [
                "All 4 slots of the executor that could run it are busy.",
                "12 tasks are before it in the queue."
            ]
        );
        let wait = TaskWait::new(id, TaskStatus::Pending, &model::TaskWait::not_known());
        assert_eq!((wait.status, wait.queued_before), (TaskStatus::Pending, None));
        assert_eq!(wait.sentences().len(), 1);
    }
}
