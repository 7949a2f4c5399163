//! Step 5: what is handed out, first what was handed out in vain, then from the queue.

use std::collections::HashMap;

use model::{Handout, Moment, Report, TaskId};

use super::queue::{self, Head};
use super::steps::Steps;
use crate::mongo::content::Content;
use crate::mongo::failure::Failure;
use crate::mongo::field::task_id;
use crate::mongo::row::Position;
use crate::mongo::table::Table;

/// An answer ends with the task that brings it to this size.
const ANSWER_BYTES: usize = 24 << 20;

/// A task that is handed out.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) handout: Handout,
    pub(super) platform_losses: u32,
    /// If it is new to the executor: when it was added.
    pub(super) added: Option<Moment>,
    /// Where its spec is, if that was read.
    pub(super) spec: Option<Content>,
}

pub(super) fn claim(
    report: &Report,
    head: &Head<'_>,
    steps: &mut Steps,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut specs: HashMap<TaskId, &Content> = HashMap::new();
    for row in &head.rows {
        specs.insert(task_id(row.id), &row.spec);
        table.lay(Position::try_from(row)?);
    }
    let mut bytes = 0;
    for id in &steps.again {
        if let Some(task) = table.get(*id) {
            bytes += task.spec_size;
            steps.handouts.push(Claimed {
                handout: task.handout(report.session),
                platform_losses: task.losses.platform,
                added: None,
                spec: None,
            });
        }
    }
    // What this very report gave back waits too, in its place in the queue, if that place is known.
    let mut waiting = table.waiting();
    waiting.retain(|task| !head.withheld || specs.contains_key(&task.id));
    if let Some(capacity) = head.capacity {
        waiting.retain(|task| capacity.covers(task.need));
    }
    let wanted = queue::wanted(report).saturating_sub(steps.again.len());
    for task in waiting.into_iter().take(wanted) {
        if bytes >= ANSWER_BYTES {
            break;
        }
        bytes += task.spec_size;
        table.take(task.id, report);
        if let Some(taken) = table.get(task.id) {
            steps.handouts.push(Claimed {
                handout: taken.handout(report.session),
                platform_losses: taken.losses.platform,
                added: Some(task.add_time),
                spec: specs.get(&task.id).copied().cloned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::{Attempt, Capacity, ExecutorName, Intent, Losses, Need, Presence, Seq, SessionId, Status};

    use super::super::queue::Reservations;
    use super::*;

    fn report() -> Report {
        Report {
            executor: ExecutorName::new("e").unwrap(),
            session: SessionId::generate(),
            seq: Seq(2),
            acked: Seq(1),
            succeeds: None,
            complete: vec![],
            executing: vec![],
            vacant: 1,
            presence: Presence {
                slots: 1,
                host: "h".into(),
                version: "1".into(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: None,
            },
            intent: Intent::Stay,
        }
    }

    fn given_back() -> Position {
        Position {
            id: TaskId::generate(),
            priority: 0,
            add_time: Moment(1),
            status: Status::Retrying,
            executor: None,
            session: None,
            attempt: Attempt(1),
            losses: Losses::default(),
            need: Need::default(),
            given: Seq(1),
            start_time: None,
            report_time: None,
            finish_time: None,
            finish_age: None,
            trouble: None,
            spec_size: 0,
        }
    }

    #[test]
    fn what_was_given_back_is_left_to_a_larger_executor() {
        let reservations = Reservations::default();
        let capacity = Capacity {
            memory: 8 << 30,
            processes: 1000,
            open_files: 1000,
        };
        for (need, expected) in [(8 << 30, 1), (9 << 30, 0)] {
            let mut table = Table::new(Moment(9), 3);
            table.lay(Position {
                need: Need {
                    memory: need,
                    processes: 1,
                },
                ..given_back()
            });
            let mut head = reservations.nothing();
            (head.withheld, head.capacity) = (false, Some(capacity));
            let mut steps = Steps::default();
            claim(&report(), &head, &mut steps, &mut table).unwrap();
            assert_eq!(steps.handouts.len(), expected);
        }
    }

    #[test]
    fn what_was_given_back_does_not_overtake_tasks_that_are_withheld() {
        let reservations = Reservations::default();
        for (withheld, expected) in [(false, 1), (true, 0)] {
            let mut table = Table::new(Moment(9), 3);
            table.lay(given_back());
            let mut head = reservations.nothing();
            head.withheld = withheld;
            let mut steps = Steps::default();
            claim(&report(), &head, &mut steps, &mut table).unwrap();
            assert_eq!(steps.handouts.len(), expected, "withheld: {withheld}");
        }
    }
}
