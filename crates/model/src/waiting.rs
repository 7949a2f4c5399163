//! Why a task has not begun to run, as a decision about the task and the executors.

use std::fmt;
use std::sync::Arc;

use crate::{
    Capacity, ExecutorName, ExecutorState, ExecutorTools, Health, RecordedEnd, ResourceRequest, Task, TaskId,
    TaskStatus, ToolRequirement, UnixTime,
};

/// Why a task has not begun to run, and its place in the queue, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWait {
    /// The status to which the reasons belong. `None` if the judicator cannot tell.
    pub status: Option<TaskStatus>,
    /// The most important one first. Empty if the task runs or is done.
    pub reasons: Vec<WaitReason>,
    /// `None` if the task is not queued, or if nobody knows.
    pub queued_before: Option<QueuedBefore>,
}

/// A reason why a task has not begun to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// No executor is on the list.
    NoExecutor,
    /// Executors are on the list, and none of them is alive.
    NoneAlive { executors: u32 },
    /// No executor that is alive has the task's language and root.
    NoTools(ToolRequirement),
    /// Every executor that could run the task is drained: an operator keeps it from getting new tasks.
    AllDrained { executors: u32 },
    /// The task requests more than any executor that could run it has. The largest of them takes it nevertheless.
    TooLarge {
        request: ResourceRequest,
        largest: Capacity,
    },
    /// Only some of the executors are large enough for the task, and it waits for them.
    FewLargeEnough { executors: u32, large_enough: u32 },
    /// Every slot of the executors that could run it has a task.
    SlotsBusy { executors: u32, slots: u32 },
    /// A slot is free. The executor takes the task with one of its next reports, unless others come before it.
    SlotFree { free: u32 },
    /// An executor has taken the task and has not started it yet.
    Assigned(ExecutorName),
    /// An executor could not run the task and tries it again after a pause.
    RetryPause(ExecutorName),
    /// The judicator is of an older version and cannot tell.
    NotKnown,
}

/// How many queued tasks the executors that could run a task would take before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuedBefore {
    pub tasks: u32,
    /// There are more: the count has ended at its limit.
    pub more: bool,
}

/// The place of a task in the queue, for a store that counts the tasks before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    pub id: TaskId,
    pub priority: i32,
    pub add_time: UnixTime,
    /// Besides tasks without a requirement, those that executors with any of these tools may claim count. Each once.
    pub tools: Vec<Arc<ExecutorTools>>,
    /// So do those with the requirement of the task itself, also if no executor can claim them.
    pub requires: ToolRequirement,
}

impl QueuedBefore {
    /// A count ends here, so that its cost does not depend on the length of the queue.
    pub const MAX: u32 = 10_000;

    /// The count of a store that has counted to one more than the limit.
    pub fn counted(found: u64) -> QueuedBefore {
        let tasks = u32::try_from(found).unwrap_or(u32::MAX);
        QueuedBefore {
            tasks: tasks.min(QueuedBefore::MAX),
            more: tasks > QueuedBefore::MAX,
        }
    }
}

impl TaskWait {
    /// The answer if no judicator can tell.
    pub fn not_known() -> TaskWait {
        TaskWait {
            status: None,
            reasons: vec![WaitReason::NotKnown],
            queued_before: None,
        }
    }

    /// Why the task has not begun to run. Its place in the queue is left out: the caller asks the store for it.
    pub fn decide(task: &Task, executors: &[ExecutorState]) -> TaskWait {
        TaskWait {
            status: Some(task.status),
            reasons: reasons(task, executors),
            queued_before: None,
        }
    }
}

/// The place of a task that is in the queue, before the tasks that the same executors can take. `None` if it is not queued.
pub fn queue_place(task: &Task, executors: &[ExecutorState]) -> Option<QueuePlace> {
    if !is_queued(task) {
        return None;
    }
    let requires = ToolRequirement::of(&task.spec);
    let takes_tasks =
        |executor: &&ExecutorState| executor.health == Health::Alive && executor.drain.is_none();
    let able = executors.iter().filter(takes_tasks);
    let able = able.filter(|executor| executor.tools.satisfy(&requires));
    let mut tools: Vec<Arc<ExecutorTools>> = vec![];
    for executor in able {
        // Executors that are set up in the same way have equal tools.
        if !tools.contains(&executor.tools) {
            tools.push(executor.tools.clone());
        }
    }
    Some(QueuePlace {
        id: task.id,
        priority: task.spec.priority,
        add_time: task.add_time,
        tools,
        requires,
    })
}

fn is_queued(task: &Task) -> bool {
    task.executor.is_none() && matches!(task.status, TaskStatus::Pending | TaskStatus::Retrying)
}

fn reasons(task: &Task, executors: &[ExecutorState]) -> Vec<WaitReason> {
    match (task.status, &task.executor) {
        (TaskStatus::Pending | TaskStatus::Retrying, None) => reasons_of_queued(task, executors),
        (TaskStatus::Pending | TaskStatus::Retrying, Some(executor)) => {
            let executor = executor.clone();
            let last_end = task.ran_on.last().and_then(|attempt| attempt.end);
            match last_end {
                Some((_, RecordedEnd::Broken)) => vec![WaitReason::RetryPause(executor)],
                _ => vec![WaitReason::Assigned(executor)],
            }
        }
        _ => vec![],
    }
}

fn reasons_of_queued(task: &Task, executors: &[ExecutorState]) -> Vec<WaitReason> {
    if executors.is_empty() {
        return vec![WaitReason::NoExecutor];
    }
    let alive: Vec<_> = executors
        .iter()
        .filter(|executor| executor.health == Health::Alive)
        .collect();
    if alive.is_empty() {
        let executors = number(executors.len());
        return vec![WaitReason::NoneAlive { executors }];
    }
    let requires = ToolRequirement::of(&task.spec);
    let able: Vec<_> = alive
        .into_iter()
        .filter(|executor| executor.tools.satisfy(&requires))
        .collect();
    if able.is_empty() {
        return vec![WaitReason::NoTools(requires)];
    }
    let (drained, able): (Vec<_>, Vec<_>) = able.into_iter().partition(|executor| executor.drain.is_some());
    if able.is_empty() {
        let executors = number(drained.len());
        return vec![WaitReason::AllDrained { executors }];
    }
    let mut reasons = vec![];
    let claiming = claiming(&able, ResourceRequest::of(&task.spec), &mut reasons);
    let slots: u32 = claiming.iter().map(|executor| executor.slots).sum();
    let free = claiming
        .iter()
        .map(|executor| executor.slots.saturating_sub(executor.tasks));
    match free.sum() {
        0 => reasons.push(WaitReason::SlotsBusy {
            executors: number(claiming.len()),
            slots,
        }),
        free => reasons.push(WaitReason::SlotFree { free }),
    }
    reasons
}

/// The executors that would claim the task: those that are large enough, or else the largest ones. Adds the reasons why the
/// others do not.
fn claiming<'e>(
    able: &[&'e ExecutorState],
    request: ResourceRequest,
    reasons: &mut Vec<WaitReason>,
) -> Vec<&'e ExecutorState> {
    let memory = |executor: &ExecutorState| executor.capacity.unwrap_or(Capacity::UNKNOWN).memory;
    let most = able.iter().map(|executor| memory(executor)).max().unwrap_or(0);
    let fits = |executor: &&ExecutorState| match executor.capacity {
        Some(capacity) => capacity.claim_limit().fits(request),
        None => true,
    };
    let is_claimed_by = |executor: &&ExecutorState| fits(executor) || memory(executor) == most;
    let claiming: Vec<_> = able.iter().copied().filter(is_claimed_by).collect();
    if !able.iter().any(fits) {
        let capacities = able.iter().map(|executor| executor.capacity);
        let largest = Capacity::combined(capacities).unwrap_or(Capacity::UNKNOWN);
        reasons.push(WaitReason::TooLarge { request, largest });
    } else if claiming.len() < able.len() {
        reasons.push(WaitReason::FewLargeEnough {
            executors: number(able.len()),
            large_enough: number(claiming.len()),
        });
    }
    claiming
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl WaitReason {
    /// The name of the reason in the HTTP API and between nodes.
    pub fn as_str(&self) -> &'static str {
        match self {
            WaitReason::NoExecutor => "no_executor",
            WaitReason::NoneAlive { .. } => "none_alive",
            WaitReason::NoTools(_) => "no_tools",
            WaitReason::AllDrained { .. } => "all_drained",
            WaitReason::TooLarge { .. } => "too_large",
            WaitReason::FewLargeEnough { .. } => "few_large_enough",
            WaitReason::SlotsBusy { .. } => "slots_busy",
            WaitReason::SlotFree { .. } => "slot_free",
            WaitReason::Assigned(_) => "assigned",
            WaitReason::RetryPause(_) => "retry_pause",
            WaitReason::NotKnown => "not_known",
        }
    }

    /// The names of all reasons.
    pub const NAMES: [&str; 11] = [
        "no_executor",
        "none_alive",
        "no_tools",
        "all_drained",
        "too_large",
        "few_large_enough",
        "slots_busy",
        "slot_free",
        "assigned",
        "retry_pause",
        "not_known",
    ];
}

/// A sentence for people.
impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitReason::NoExecutor => {
                f.write_str("No executor is connected. The task waits until one joins.")
            }
            WaitReason::NoneAlive { executors: 1 } => {
                f.write_str("The only executor is gone. The task waits until it returns.")
            }
            WaitReason::NoneAlive { executors } => {
                write!(
                    f,
                    "All {executors} executors are gone. The task waits until one returns."
                )
            }
            WaitReason::NoTools(requires) => {
                let what = requires.in_words();
                write!(
                    f,
                    "No executor that is alive has {what}. The task waits until one has."
                )
            }
            WaitReason::AllDrained { executors: 1 } => f.write_str(
                "The only executor that could run the task is drained. The task waits until it is resumed.",
            ),
            WaitReason::AllDrained { executors } => write!(
                f,
                "All {executors} executors that could run the task are drained. The task waits until one is resumed."
            ),
            WaitReason::TooLarge { request, largest } if request.memory > largest.memory => write!(
                f,
                "The task requests {} MiB of memory and files, and no executor gives it more than {} MiB. The largest executor \
                 takes it nevertheless.",
                request.memory >> 20,
                largest.memory >> 20
            ),
            WaitReason::TooLarge { request, largest } => write!(
                f,
                "The task requests {} processes, and no executor gives it more than {}. The largest executor takes it \
                 nevertheless.",
                request.processes, largest.processes
            ),
            WaitReason::FewLargeEnough {
                executors,
                large_enough,
            } => write!(
                f,
                "Only {large_enough} of the {executors} executors that could run the task {} large enough for it.",
                if *large_enough == 1 { "is" } else { "are" }
            ),
            WaitReason::SlotsBusy {
                executors: 1,
                slots: 1,
            } => f.write_str("The only slot of the executor that could run it is busy."),
            WaitReason::SlotsBusy { executors: 1, slots } => {
                write!(f, "All {slots} slots of the executor that could run it are busy.")
            }
            WaitReason::SlotsBusy { executors, slots } => {
                write!(
                    f,
                    "All {slots} slots of the {executors} executors that could run it are busy."
                )
            }
            WaitReason::SlotFree { free } => {
                let free = match free {
                    1 => "1 slot is free".to_string(),
                    _ => format!("{free} slots are free"),
                };
                write!(
                    f,
                    "{free}, and the task is about to be taken. If it waits on, its executors pause after failures or are \
                     short of memory."
                )
            }
            WaitReason::Assigned(executor) => write!(
                f,
                "Executor {executor} has the task, and starts it when its files are there and a slot is free."
            ),
            WaitReason::RetryPause(executor) => write!(
                f,
                "An executor could not run the task. It is with executor {executor} now, which tries it again after a pause of \
                 at most 30 seconds."
            ),
            WaitReason::NotKnown => f.write_str(
                "Why the task waits is not known: the judicator has an older version of Conclave.",
            ),
        }
    }
}

/// A sentence for people.
impl fmt::Display for QueuedBefore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tasks, self.more) {
            (0, false) => f.write_str("It is the first in the queue."),
            (1, false) => f.write_str("1 task is before it in the queue."),
            (tasks, false) => write!(f, "{tasks} tasks are before it in the queue."),
            (tasks, true) => write!(f, "More than {tasks} tasks are before it in the queue."),
        }
    }
}

#[cfg(test)]
mod tests;
