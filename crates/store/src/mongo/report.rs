//! The five steps of a report, in their order.
//!
//! What they need is read at once, they are decided over values (`steps`), and what they come to is written in
//! one transaction, on condition that everything is still as it was read. The executor's document is among it,
//! so of two reports of one executor, wherever they are handled, one comes after the other.

mod claim;
mod queue;
mod steps;

use std::sync::Arc;

use futures::try_join;
use model::{Answer, Complete, End, Handout, Intent, Report, ReportAnswer, Standing, Status, TaskId, standing};
use mongodb::bson::{Document, doc};

pub(super) use self::queue::{Reservations, order};
use self::steps::Steps;
use super::attempts::{COMMAND, Try};
use super::base::{Base, EXECUTORS, now};
use super::failure::Failure;
use super::session::{self, ExecutorRow};
use super::table::Table;
use super::transaction::Transaction;
use crate::document::encode_result;
use crate::{Reported, StoreError};

/// A report with its results as they are written down. Made once, however often it is tried.
#[derive(Debug)]
pub(super) struct Sent {
    report: Report,
    ended: Vec<Ended>,
}

#[derive(Debug)]
struct Ended {
    handout: Handout,
    how: How,
}

#[derive(Debug)]
enum How {
    Result { status: Status, document: Vec<u8> },
    Broken(String),
}

impl Sent {
    pub(super) fn of(mut report: Report) -> Result<Sent, StoreError> {
        let ended = report
            .complete
            .iter_mut()
            .map(Ended::of)
            .collect::<Result<_, _>>()?;
        Ok(Sent { report, ended })
    }

    pub(super) fn weight(&self) -> usize {
        self.ended.iter().map(Ended::weight).sum()
    }
}

impl Ended {
    fn of(complete: &mut Complete) -> Result<Ended, StoreError> {
        let how = match &complete.end {
            End::Result(result) => How::Result {
                status: result.status(),
                document: encode_result(result)?,
            },
            End::Broken(trouble) => How::Broken(trouble.clone()),
        };
        // From here on only the handout is needed; results may be large.
        complete.end = End::Broken(String::new());
        Ok(Ended {
            handout: complete.handout,
            how,
        })
    }

    fn weight(&self) -> usize {
        match &self.how {
            How::Result { document, .. } => document.len(),
            How::Broken(trouble) => trouble.len(),
        }
    }
}

pub(super) async fn report(base: Arc<Base>, sent: Arc<Sent>, count: Try) -> Result<Reported, Failure> {
    let report = &sent.report;
    let completed: Vec<TaskId> = sent.ended.iter().map(|ended| ended.handout.task).collect();
    let (seen, holdings, head) = try_join!(
        session::read(&base, &report.executor),
        session::holdings(&base, &report.executor, &completed),
        queue::head(&base, report, count),
    )?;
    let known = seen.as_ref().map(ExecutorRow::known).transpose()?;
    let judged = standing(known.as_ref(), report);
    if let Standing::Refused(answer) = judged {
        return Ok(Reported {
            answer,
            finished: vec![],
            claimed: vec![],
        });
    }
    let mut table = Table::new(now(), base.max_attempts);
    holdings.into_iter().for_each(|task| table.lay(task));
    let former = known.filter(|known| judged == Standing::Opens && known.live);
    let mut steps = Steps::default();
    steps.settle(&sent, former.map(|known| known.session), &mut table);
    // The head is let go of when all is written: until then no other report of this process reaches for it.
    match report.intent {
        Intent::Stay => claim::claim(&base, report, &head.rows, &mut steps, &mut table).await?,
        Intent::Leave => steps.leave(report, &mut table),
    }
    let mut transaction = Transaction::default();
    let tally = table.write(&mut transaction)?;
    let executor = match (&judged, &seen) {
        (Standing::Goes, Some(seen)) => session::renewed(seen, report, &tally),
        _ => session::opened(seen.as_ref(), report, &tally),
    };
    if transaction.is_empty() && judged == Standing::Goes {
        renew(&base, executor).await?;
    } else {
        transaction.update(EXECUTORS, [executor])?;
        transaction.commit(&base).await?;
    }
    drop(head);
    let Steps {
        delete,
        assign,
        finished,
        claimed,
        ..
    } = steps;
    Ok(Reported {
        answer: ReportAnswer::Done(Answer { delete, assign }),
        finished,
        claimed,
    })
}

/// All that a report with nothing new costs: one write, no transaction.
async fn renew(base: &Base, mut update: Document) -> Result<(), Failure> {
    let (Ok(condition), Ok(change)) = (
        update.get_document_mut("q").map(std::mem::take),
        update.get_document_mut("u").map(std::mem::take),
    ) else {
        return Err(Failure::Overtaken);
    };
    let found = base
        .collection::<Document>(EXECUTORS)
        .find_one_and_update(condition, change)
        .projection(doc! { "_id": 1 })
        .max_time(COMMAND)
        .await?;
    found.map(drop).ok_or(Failure::Overtaken)
}
