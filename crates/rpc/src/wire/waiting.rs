use model::{InvalidField, QueuedBefore, ResourceRequest, TaskWait, ToolRequirement, WaitReason};

use super::ids::parse_executor;
use super::{ParseMessage, parse_each, proto};

impl From<TaskWait> for proto::WaitAnswer {
    fn from(wait: TaskWait) -> Self {
        proto::WaitAnswer {
            status: wait.status.map_or(String::new(), |status| status.to_string()),
            reasons: wait.reasons.into_iter().map(Into::into).collect(),
            queued_before: wait.queued_before.map(|before| proto::QueuedBefore {
                tasks: before.tasks,
                more: before.more,
            }),
        }
    }
}

impl ParseMessage<TaskWait> for proto::WaitAnswer {
    fn parse(self) -> Result<TaskWait, InvalidField> {
        Ok(TaskWait {
            // Newer versions may have others.
            status: self.status.parse().ok(),
            reasons: parse_each("reasons", self.reasons)?,
            queued_before: self.queued_before.map(|before| QueuedBefore {
                tasks: before.tasks,
                more: before.more,
            }),
        })
    }
}

impl From<WaitReason> for proto::WaitReason {
    fn from(reason: WaitReason) -> Self {
        let mut wire = proto::WaitReason {
            name: reason.as_str().into(),
            ..Default::default()
        };
        match reason {
            WaitReason::NoExecutor | WaitReason::NotKnown => {}
            WaitReason::NoneAlive { executors } | WaitReason::AllDrained { executors } => {
                wire.executors = executors
            }
            WaitReason::NoTools(requires) => wire.requires = requires.to_string(),
            WaitReason::TooLarge { request, largest } => {
                wire.requested_memory = request.memory;
                wire.requested_processes = request.processes;
                wire.largest = Some(largest.into());
            }
            WaitReason::FewLargeEnough {
                executors,
                large_enough,
            } => {
                wire.executors = executors;
                wire.large_enough = large_enough;
            }
            WaitReason::SlotsBusy { executors, slots } => {
                wire.executors = executors;
                wire.slots = slots;
            }
            WaitReason::SlotFree { free } => wire.slots = free,
            WaitReason::Assigned(executor) | WaitReason::RetryPause(executor) => {
                wire.executor = executor.to_string();
            }
        }
        wire
    }
}

impl ParseMessage<WaitReason> for proto::WaitReason {
    /// A reason that only newer versions know is not known here.
    fn parse(self) -> Result<WaitReason, InvalidField> {
        let (executors, slots) = (self.executors, self.slots);
        Ok(match self.name.as_str() {
            "no_executor" => WaitReason::NoExecutor,
            "none_alive" => WaitReason::NoneAlive { executors },
            "no_tools" => {
                let requires: Result<ToolRequirement, _> = self.requires.parse();
                let invalid = |error: model::NameError| InvalidField::new("requires", error.to_string());
                WaitReason::NoTools(requires.map_err(invalid)?)
            }
            "all_drained" => WaitReason::AllDrained { executors },
            "too_large" => WaitReason::TooLarge {
                request: ResourceRequest {
                    memory: self.requested_memory,
                    processes: self.requested_processes,
                },
                largest: self.largest.map_or(model::Capacity::UNKNOWN, Into::into),
            },
            "few_large_enough" => WaitReason::FewLargeEnough {
                executors,
                large_enough: self.large_enough,
            },
            "slots_busy" => WaitReason::SlotsBusy { executors, slots },
            "slot_free" => WaitReason::SlotFree { free: slots },
            "assigned" => WaitReason::Assigned(parse_executor(self.executor)?),
            "retry_pause" => WaitReason::RetryPause(parse_executor(self.executor)?),
            _ => WaitReason::NotKnown,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{Capacity, ExecutorName, TaskStatus};

    use super::*;

    #[test]
    fn every_reason_survives_the_wire() {
        let executor = ExecutorName::new("e").unwrap();
        let reasons = vec![
            WaitReason::NoExecutor,
            WaitReason::NoneAlive { executors: 1 },
            WaitReason::NoTools("lab/c".parse().unwrap()),
            WaitReason::AllDrained { executors: 2 },
            WaitReason::TooLarge {
                request: ResourceRequest {
                    memory: 3,
                    processes: 4,
                },
                largest: Capacity {
                    memory: 1,
                    processes: 2,
                    open_files: 3,
                },
            },
            WaitReason::FewLargeEnough {
                executors: 3,
                large_enough: 2,
            },
            WaitReason::SlotsBusy {
                executors: 3,
                slots: 12,
            },
            WaitReason::SlotFree { free: 2 },
            WaitReason::Assigned(executor.clone()),
            WaitReason::RetryPause(executor),
            WaitReason::NotKnown,
        ];
        assert_eq!(reasons.len(), WaitReason::NAMES.len());
        let wait = TaskWait {
            status: Some(TaskStatus::Retrying),
            reasons,
            queued_before: Some(QueuedBefore::counted(7)),
        };
        let wire = proto::WaitAnswer::from(wait.clone());
        assert_eq!(wire.parse(), Ok(wait));
        let not_known = TaskWait::not_known();
        assert_eq!(proto::WaitAnswer::from(not_known.clone()).parse(), Ok(not_known));
    }

    #[test]
    fn a_reason_of_a_newer_version_is_not_known() {
        let wire = proto::WaitReason {
            name: "full_moon".into(),
            ..Default::default()
        };
        assert_eq!(wire.parse(), Ok(WaitReason::NotKnown));
    }
}
