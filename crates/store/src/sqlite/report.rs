//! The five steps of a report, in their order.

mod claim;
mod complete;
mod executing;

use std::collections::HashMap;

use model::{Answer, Intent, Release, Report, ReportAnswer, Standing, settle, standing};

use self::complete::Ended;
use super::failure::Failure;
use super::group::Group;
use super::session;
use super::transition::release;
use crate::document::encode_result;
use crate::{Finished, Reported, StoreError};

/// A report with its results as they go into the table. Made by the caller, like a task to add.
#[derive(Debug)]
pub(super) struct Sent {
    report: Report,
    ended: Vec<Ended>,
}

/// What the steps have come to so far.
#[derive(Default)]
struct Handled {
    answer: Answer,
    finished: Vec<Finished>,
    claimed: Vec<model::Moment>,
}

impl Sent {
    pub(super) fn of(report: Report) -> Result<Sent, StoreError> {
        let ended = report
            .complete
            .iter()
            .map(|complete| Ended::of(complete, encode_result))
            .collect::<Result<_, _>>()?;
        Ok(Sent { report, ended })
    }

    pub(super) fn weight(&self) -> usize {
        self.ended.iter().map(Ended::weight).sum()
    }
}

pub(super) fn report(group: &mut Group<'_>, sent: &Sent) -> Result<Reported, Failure> {
    let Sent { report, ended } = sent;
    let known = session::known(group, &report.executor)?;
    let former = match standing(known.as_ref(), report) {
        Standing::Refused(answer) => {
            return Ok(Reported {
                answer,
                finished: vec![],
                claimed: vec![],
            });
        }
        Standing::Goes => {
            session::renew(group, report)?;
            None
        }
        Standing::Opens => {
            session::open(group, report)?;
            known.filter(|known| known.live).map(|known| known.session)
        }
    };
    let mut handled = Handled::default();
    complete::finish(group, report, ended, &mut handled)?;
    if let Some(former) = former {
        // Its results, and what had begun and was lost, were in this report's `complete`; the rest only waited.
        session::release_all(group, &report.executor, Some(former), Release::GivenBack)?;
    }
    let held = executing::record(group, report, &mut handled.answer)?;
    let holdings: Vec<_> = held.iter().map(|task| task.holding(report.session)).collect();
    let settled = settle(&holdings, report);
    let by_id: HashMap<_, _> = held.iter().map(|task| (task.id, task)).collect();
    for handout in &settled.release {
        release(group, by_id[&handout.task], Release::GivenBack)?;
    }
    match report.intent {
        Intent::Stay => {
            let again = settled.assign.iter().map(|handout| by_id[&handout.task]);
            claim::claim(group, report, again, &mut handled)?;
        }
        Intent::Leave => leave(group, report, &mut handled.answer)?,
    }
    let Handled {
        answer,
        finished,
        claimed,
    } = handled;
    Ok(Reported {
        answer: ReportAnswer::Done(answer),
        finished,
        claimed,
    })
}

/// Gives back what is still held, also what the report names as executing: those are to be killed.
fn leave(group: &mut Group<'_>, report: &Report, answer: &mut Answer) -> Result<(), Failure> {
    for task in session::release_all(group, &report.executor, Some(report.session), Release::GivenBack)? {
        answer.delete.push(task.holding(report.session).handout);
    }
    session::end(group, &report.executor)
}
