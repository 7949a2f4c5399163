//! The answer's assignments: handed-out tasks with their specs. Specs never change, so they are read when the
//! claim is written down already.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{Assignment, ExecutorName, Handout, Moment, TaskId};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::claim::Claimed;
use crate::StoreError;
use crate::document::decode_spec;
use crate::mongo::age;
use crate::mongo::attempts::{COMMAND, Patience};
use crate::mongo::base::{Base, now};
use crate::mongo::content::{self, Content};
use crate::mongo::failure::Failure;
use crate::mongo::field::{Field, task_id};
use crate::mongo::row::{Position, Row, readable, without_result};
use crate::mongo::table::Table;
use crate::mongo::transaction::Transaction;

/// Beside them, when those that are new were added.
pub(super) async fn assignments(
    base: &Arc<Base>,
    executor: &ExecutorName,
    handouts: Vec<Claimed>,
) -> Result<(Vec<Assignment>, Vec<Moment>), StoreError> {
    let mut places = HashMap::new();
    let mut unread = vec![];
    for Claimed { handout, spec, .. } in &handouts {
        match spec {
            Some(spec) => drop(places.insert(handout.task, spec.clone())),
            None => unread.push(handout.task),
        }
    }
    if !unread.is_empty() {
        let unread = Arc::new(unread);
        let read = Patience::with("read what is handed out again")
            .persist(|_| find(base.clone(), unread.clone()))
            .await?;
        places.extend(read);
    }
    let specs = content::read(base, places).await?;
    let (mut assignments, mut added, mut unreadable) = (vec![], vec![], vec![]);
    for claimed in handouts {
        let handout = claimed.handout;
        match decode_spec(specs.get(&handout.task).map_or(&[], Vec::as_slice)) {
            Ok(spec) => {
                assignments.push(Assignment {
                    handout,
                    spec,
                    platform_losses: claimed.platform_losses,
                });
                added.extend(claimed.added);
            }
            Err(error) => {
                base.set_aside
                    .note(format_args!("spec of task {}", handout.task), &error);
                unreadable.push((handout, error.to_string()));
            }
        }
    }
    if !unreadable.is_empty() {
        let unreadable = Arc::new(unreadable);
        Patience::with("give up tasks that cannot be read")
            .persist(|_| give_up(base.clone(), executor.clone(), unreadable.clone()))
            .await?;
    }
    Ok((assignments, added))
}

async fn find(base: Arc<Base>, ids: Arc<Vec<TaskId>>) -> Result<HashMap<TaskId, Content>, Failure> {
    let rows = rows(&base, &ids).await?;
    Ok(rows.into_iter().map(|row| (task_id(row.id), row.spec)).collect())
}

/// Left in the queue, they would hold up all behind them.
async fn give_up(
    base: Arc<Base>,
    executor: ExecutorName,
    unreadable: Arc<Vec<(Handout, String)>>,
) -> Result<(), Failure> {
    let ids: Vec<_> = unreadable.iter().map(|(handout, _)| handout.task).collect();
    let mut table = Table::new(now(), base.max_attempts).at_age(Some(age::now(&base).await?));
    for row in rows(&base, &ids).await? {
        table.lay(Position::try_from(&row)?);
    }
    for (handout, trouble) in unreadable.iter() {
        if table
            .get(handout.task)
            .is_some_and(|task| task.is_out_as(*handout, &executor))
        {
            table.give_up(handout.task, trouble);
        }
    }
    let mut transaction = Transaction::default();
    transaction.count(&table.tally())?;
    table.write(&mut transaction)?;
    transaction.commit(&base).await
}

async fn rows(base: &Base, ids: &[TaskId]) -> Result<Vec<Row>, Failure> {
    let ids: Vec<_> = ids.iter().map(Field::field).collect();
    let found = base
        .tasks()
        .find(doc! { "_id": { "$in": ids } })
        .projection(without_result())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    Ok(readable(base, found))
}
