//! Cancelling: the one transition that no executor has a say in.

use model::{Status, Task, TaskId};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows;

pub(super) fn cancel(group: &mut Group<'_>, id: TaskId) -> Result<Option<Task>, Failure> {
    const STEP: &str = "cancel a task";
    let Some(task) = rows::position(group.connection(), id)? else {
        return Ok(None);
    };
    if task.status.may_become(Status::Cancelled) {
        group
            .statement(
                "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, finish_time = ?3, finish_age = ?4
                 WHERE seq = ?1",
                STEP,
            )?
            .execute((
                task.seq,
                Column(Status::Cancelled),
                Column(group.time_of(&task)),
                Column(group.age()),
            ))
            .during(STEP)?;
        if let Some(executor) = &task.executor {
            group.let_go();
            group.withdrawn(executor);
        }
        group.moved(&task, Status::Cancelled, None);
    }
    rows::task(group.connection(), id, group.set_aside())
}
