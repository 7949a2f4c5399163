//! Step 5: handing out work, first what was handed out in vain, then from the queue.

use model::{Assignment, Attempt, Handout, Moment, Report};

use super::Handled;
use crate::document::decode_spec;
use crate::sqlite::column::Column;
use crate::sqlite::failure::{During, Failure};
use crate::sqlite::group::Group;
use crate::sqlite::rows::{self, Position};
use crate::sqlite::{session, transition};

/// An answer is one message: it must not outgrow what a message may hold or an executor can take in at once.
/// What does not fit is claimed by the next report.
const ANSWER_TASKS: u32 = 1000;
const ANSWER_BYTES: usize = 24 << 20;

pub(super) fn claim<'h>(
    group: &mut Group<'_>,
    report: &Report,
    again: impl Iterator<Item = &'h Position>,
    handled: &mut Handled,
) -> Result<(), Failure> {
    let mut bytes = 0;
    for task in again {
        bytes += hand_out(group, report, task, handled)?;
    }
    let again = u32::try_from(handled.answer.assign.len()).unwrap_or(u32::MAX);
    let wanted = report.vacant.saturating_sub(again).min(ANSWER_TASKS);
    if wanted == 0 || bytes >= ANSWER_BYTES {
        return Ok(());
    }
    for mut task in waiting(group, report, wanted)? {
        take(group, report, &mut task)?;
        let assigned = handled.answer.assign.len();
        bytes += hand_out(group, report, &task, handled)?;
        if handled.answer.assign.len() > assigned {
            handled.claimed.push(Moment(task.seq));
        }
        if bytes >= ANSWER_BYTES {
            break;
        }
    }
    Ok(())
}

/// The first in the queue, without those that are left to a larger executor.
fn waiting(group: &Group<'_>, report: &Report, wanted: u32) -> Result<Vec<Position>, Failure> {
    let first = |capacity| rows::waiting(group.connection(), wanted, capacity, group.set_aside());
    let tasks = first(None)?;
    match report.presence.capacity {
        Some(own) if tasks.iter().any(|task| !own.claims().covers(task.need)) => {
            match session::has_larger(group, own)? {
                true => first(Some(own.claims())),
                false => Ok(tasks),
            }
        }
        _ => Ok(tasks),
    }
}

fn take(group: &mut Group<'_>, report: &Report, task: &mut Position) -> Result<(), Failure> {
    const STEP: &str = "claim a task";
    let Attempt(attempt) = task.attempt.next();
    task.attempt = Attempt(attempt);
    task.executor = Some(report.executor.clone());
    group
        .statement(
            "UPDATE tasks SET executor = ?2, session = ?3, attempt = ?4, given = ?5, start_time = ?6 WHERE seq = ?1",
            STEP,
        )?
        .execute((
            task.seq,
            Column(&report.executor),
            Column(report.session),
            attempt,
            Column(report.seq),
            Column(group.time_of(task)),
        ))
        .during(STEP)?;
    group.claimed();
    Ok(())
}

/// Puts a held task on the answer, and says how many bytes that took. One whose spec cannot be read any more
/// is ended here: left in the queue, it would hold up all behind it.
fn hand_out(
    group: &mut Group<'_>,
    report: &Report,
    task: &Position,
    handled: &mut Handled,
) -> Result<usize, Failure> {
    let document = rows::spec(group.connection(), task.seq)?;
    match decode_spec(&document) {
        Ok(spec) => {
            let handout = Handout {
                task: task.id,
                session: report.session,
                attempt: task.attempt,
            };
            handled.answer.assign.push(Assignment {
                handout,
                spec,
                platform_losses: task.losses.platform,
            });
        }
        Err(error) => {
            group
                .set_aside()
                .note(format_args!("spec of task {}", task.id), &error);
            transition::give_up(group, task, task.losses, &error.to_string())?;
        }
    }
    Ok(document.len())
}
