//! Step 5: handing out work, first what was handed out in vain, then from the queue.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt;
use model::{Assignment, Report, TaskId};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::queue;
use super::steps::Steps;
use crate::document::decode_spec;
use crate::mongo::attempts::COMMAND;
use crate::mongo::base::Base;
use crate::mongo::failure::Failure;
use crate::mongo::field::{Field, task_id};
use crate::mongo::parts::{self, Kind};
use crate::mongo::row::{Position, Row, without_result};
use crate::mongo::table::Table;

/// An answer ends with the task that brings it to this size.
const ANSWER_BYTES: usize = 24 << 20;

pub(super) async fn claim(
    base: &Base,
    report: &Report,
    head: &[Row],
    steps: &mut Steps,
    table: &mut Table,
) -> Result<(), Failure> {
    for row in head {
        table.lay(Position::try_from(row)?);
    }
    let size = |id: &TaskId| table.get(*id).map_or(0, |task| task.spec_size);
    let mut bytes: usize = steps.again.iter().map(size).sum();
    // What this very report gave back waits too, in its place in the queue.
    let wanted = queue::wanted(report).saturating_sub(steps.again.len());
    let mut chosen = table.waiting();
    chosen.truncate(wanted);
    chosen.retain(|task| {
        let fits = bytes < ANSWER_BYTES;
        bytes += task.spec_size;
        fits
    });
    for task in &chosen {
        table.take(task.id, report);
    }
    let ids: Vec<_> = steps
        .again
        .iter()
        .copied()
        .chain(chosen.iter().map(|task| task.id))
        .collect();
    let specs = specs(base, &ids, head).await?;
    for id in steps.again.clone() {
        hand_out(report, id, &specs, (steps, table));
    }
    for task in &chosen {
        if hand_out(report, task.id, &specs, (steps, table)) {
            steps.claimed.push(task.add_time);
        }
    }
    Ok(())
}

/// Specs never change, so they are read apart from what is decided.
async fn specs(base: &Base, ids: &[TaskId], head: &[Row]) -> Result<HashMap<TaskId, Vec<u8>>, Failure> {
    let read: HashMap<_, _> = head.iter().map(|row| (task_id(row.id), row)).collect();
    let mut rows: Vec<Row> = ids.iter().filter_map(|id| read.get(id).copied().cloned()).collect();
    let known: HashSet<_> = rows.iter().map(|row| task_id(row.id)).collect();
    let unread: Vec<_> = ids.iter().filter(|id| !known.contains(id)).map(Field::field).collect();
    if !unread.is_empty() {
        let more: Vec<Row> = base
            .tasks()
            .find(doc! { "_id": { "$in": unread } })
            .projection(without_result())
            .read_concern(ReadConcern::local())
            .max_time(COMMAND)
            .await?
            .try_collect()
            .await?;
        rows.extend(more);
    }
    parts::read(base, &rows, Kind::Spec).await
}

/// Puts a held task on the answer. One whose spec cannot be read any more is ended here: left in the queue, it
/// would hold up all behind it.
fn hand_out(
    report: &Report,
    id: TaskId,
    specs: &HashMap<TaskId, Vec<u8>>,
    (steps, table): (&mut Steps, &mut Table),
) -> bool {
    let Some(task) = table.get(id) else {
        return false;
    };
    let handout = task.handout(report.session);
    match decode_spec(specs.get(&id).map_or(&[][..], Vec::as_slice)) {
        Ok(spec) => {
            steps.assign.push(Assignment { handout, spec });
            true
        }
        Err(error) => {
            table.give_up(id, &error.to_string());
            false
        }
    }
}
