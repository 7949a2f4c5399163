//! The five steps of a report, in their order.
//!
//! What they need is read at once, they are decided over values (`steps`), and what they come to is written in
//! one transaction, on condition that everything is still as it was read. The executor's document is among it,
//! so of two reports of one executor, wherever they are handled, one comes after the other.

mod claim;
mod hand_out;
mod queue;
mod steps;

use std::sync::Arc;

use futures::try_join;
use model::{Answer, End, Handout, Intent, Report, ReportAnswer, Standing, Status, TaskId, standing};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use self::claim::Claimed;
pub(super) use self::queue::{Reservations, order};
use self::steps::Steps;
use super::age;
use super::attempts::{COMMAND, Try};
use super::base::{Base, EXECUTORS, now};
use super::content::Prepared;
use super::failure::Failure;
use super::session;
use super::table::Table;
use super::transaction::Transaction;
use crate::document::encode_result;
use crate::{Finished, Reported, StoreError};

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
    Result { status: Status, result: Arc<Prepared> },
    Broken(String),
    PlatformFailure(String),
}

/// A report that is written down. The specs of what it hands out are still to be read.
pub(super) struct Handled {
    answer: ReportAnswer,
    finished: Vec<Finished>,
    handouts: Vec<Claimed>,
}

impl Sent {
    pub(super) async fn prepare(base: &Arc<Base>, report: Report) -> Result<Sent, StoreError> {
        let mut sent = Sent {
            ended: Vec::with_capacity(report.complete.len()),
            report,
        };
        for complete in &mut sent.report.complete {
            let how = match &complete.end {
                End::Result(result) => How::Result {
                    status: result.status(),
                    result: Arc::new(Prepared::of(base, encode_result(result)?).await?),
                },
                End::Broken(trouble) => How::Broken(trouble.clone()),
                End::PlatformFailure(trouble) => How::PlatformFailure(trouble.clone()),
            };
            // From here on only the handout is needed; results may be large.
            complete.end = End::Broken(String::new());
            sent.ended.push(Ended {
                handout: complete.handout,
                how,
            });
        }
        Ok(sent)
    }

    pub(super) fn weight(&self) -> usize {
        self.results().map(Prepared::weight).sum()
    }

    /// What was written ahead of the transaction.
    pub(super) fn files(&self) -> Vec<ObjectId> {
        self.results().filter_map(Prepared::file).collect()
    }

    fn results(&self) -> impl Iterator<Item = &Prepared> {
        self.ended.iter().filter_map(|ended| match &ended.how {
            How::Result { result, .. } => Some(&**result),
            How::Broken(_) | How::PlatformFailure(_) => None,
        })
    }
}

pub(super) async fn report(base: Arc<Base>, sent: Arc<Sent>, count: Try) -> Result<Handled, Failure> {
    let report = &sent.report;
    let completed: Vec<TaskId> = sent.ended.iter().map(|ended| ended.handout.task).collect();
    // The session before what it holds: what is written is conditional on the session's revision, and a report that
    // claims between the two reads moves it. The other way round its claim would be missed by one that leaves.
    let session_and_holdings = async {
        let seen = session::read(&base, &report.executor).await?.readable()?;
        let holdings = session::holdings(&base, &report.executor, &completed).await?;
        Ok((seen, holdings))
    };
    // Nothing else that a report says can end a task or a session.
    let ends = !sent.ended.is_empty() || report.intent == Intent::Leave;
    let age = async {
        match ends {
            true => age::now(&base).await.map(Some),
            false => Ok(None),
        }
    };
    let ((seen, holdings), head, age) =
        try_join!(session_and_holdings, queue::head(&base, report, count), age)?;
    let (seen, known) = seen.unzip();
    let judged = standing(known.as_ref(), report);
    if let Standing::Refused(answer) = judged {
        // Others may claim what this one does not get.
        drop(head);
        session::confirm(&base, &report.executor, seen.as_ref()).await?;
        return Ok(Handled {
            answer,
            finished: vec![],
            handouts: vec![],
        });
    }
    let mut table = Table::new(now(), base.max_attempts).at_age(age);
    holdings.into_iter().for_each(|task| table.lay(task));
    let mut steps = Steps::default();
    steps.settle(&sent, &mut table);
    // The head is let go of when all is written: until then no other report of this process reaches for it.
    match report.intent {
        Intent::Stay => claim::claim(report, &head, &mut steps, &mut table)?,
        Intent::Leave => steps.leave(report, &mut table),
    }
    let tally = table.tally();
    let executor = match (&judged, &seen) {
        (Standing::Goes, Some(seen)) => session::renewed(seen, report, &tally, age),
        _ => session::opened(seen.as_ref(), report, &tally, age),
    };
    if judged == Standing::Goes && !table.is_changed() {
        renew(&base, executor).await?;
    } else {
        let mut transaction = Transaction::default();
        transaction.update(EXECUTORS, [executor])?;
        // The tasks last: the shorter others meet them half-written, the better.
        table.write(&mut transaction)?;
        transaction.commit(&base).await?;
    }
    drop(head);
    Ok(Handled {
        answer: ReportAnswer::Done(Answer {
            delete: steps.delete,
            assign: vec![],
        }),
        finished: steps.finished,
        handouts: steps.handouts,
    })
}

/// Reads what is handed out. If that fails the executor asks again, and it is handed out again.
pub(super) async fn hand_out(
    base: &Arc<Base>,
    sent: &Sent,
    handled: Handled,
) -> Result<Reported, StoreError> {
    let Handled {
        mut answer,
        finished,
        handouts,
    } = handled;
    let mut claimed = vec![];
    if let ReportAnswer::Done(answer) = &mut answer {
        let executor = &sent.report.executor;
        (answer.assign, claimed) = hand_out::assignments(base, executor, handouts).await?;
    }
    Ok(Reported {
        answer,
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
