//! Step 5: what is handed out, first what was handed out in vain, then from the queue.

use std::collections::HashMap;

use model::{Handout, Moment, Report, TaskId};

use super::queue;
use super::steps::Steps;
use crate::mongo::content::Content;
use crate::mongo::failure::Failure;
use crate::mongo::field::task_id;
use crate::mongo::row::{Position, Row};
use crate::mongo::table::Table;

/// An answer ends with the task that brings it to this size.
const ANSWER_BYTES: usize = 24 << 20;

/// A task that is handed out.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) handout: Handout,
    /// If it is new to the executor: when it was added.
    pub(super) added: Option<Moment>,
    /// Where its spec is, if that was read.
    pub(super) spec: Option<Content>,
}

pub(super) fn claim(
    report: &Report,
    head: &[Row],
    steps: &mut Steps,
    table: &mut Table,
) -> Result<(), Failure> {
    let mut specs: HashMap<TaskId, &Content> = HashMap::new();
    for row in head {
        specs.insert(task_id(row.id), &row.spec);
        table.lay(Position::try_from(row)?);
    }
    let mut bytes = 0;
    for id in &steps.again {
        if let Some(task) = table.get(*id) {
            bytes += task.spec_size;
            steps.handouts.push(Claimed {
                handout: task.handout(report.session),
                added: None,
                spec: None,
            });
        }
    }
    // What this very report gave back waits too, in its place in the queue.
    let wanted = queue::wanted(report).saturating_sub(steps.again.len());
    for task in table.waiting().into_iter().take(wanted) {
        if bytes >= ANSWER_BYTES {
            break;
        }
        bytes += task.spec_size;
        table.take(task.id, report);
        if let Some(taken) = table.get(task.id) {
            steps.handouts.push(Claimed {
                handout: taken.handout(report.session),
                added: Some(task.add_time),
                spec: specs.get(&task.id).copied().cloned(),
            });
        }
    }
    Ok(())
}
