//! Reads the change stream, in a task of its own: the driver has no timeout for a reply, and its futures must not be
//! dropped before they complete.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::doc;
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error;
use tokio::sync::mpsc;

use super::event::{ChangeStreamDocument, StreamEvent};
use crate::mongo::context::{EXECUTORS, GROUPS, StoreContext, TASKS};
use crate::mongo::drain::DRAIN_FIELD;
use crate::mongo::failure::{CHANGE_STREAM_FATAL_ERROR, CHANGE_STREAM_HISTORY_LOST, error_code};

/// The server replies after this time even if there are no events.
const AWAIT_TIME: Duration = Duration::from_secs(1);

/// A message from the reader of the MongoDB change stream to its follower, with the token to resume from there.
pub(super) enum StreamMessage {
    Opened(Option<ResumeToken>),
    Event(StreamEvent, Option<ResumeToken>),
    Idle(Option<ResumeToken>),
    /// The resume token is older than the server's oplog, or the server cannot use it.
    HistoryLost,
}

/// Ends at the first error, and when the receiver is dropped.
pub(super) async fn read(
    context: Arc<StoreContext>,
    resume_token: Option<ResumeToken>,
    messages: mpsc::Sender<StreamMessage>,
) {
    if let Err(error) = try_read(&context, resume_token, &messages).await {
        tracing::debug!(%error, "change stream ended");
        if matches!(
            error_code(&error),
            Some(CHANGE_STREAM_FATAL_ERROR | CHANGE_STREAM_HISTORY_LOST)
        ) {
            let _ = messages.send(StreamMessage::HistoryLost).await;
        }
    }
}

async fn try_read(
    context: &StoreContext,
    resume_token: Option<ResumeToken>,
    messages: &mpsc::Sender<StreamMessage>,
) -> Result<(), Error> {
    let mut stream = open(context, resume_token).await?;
    let mut next = StreamMessage::Opened(stream.resume_token());
    while messages.send(next).await.is_ok() {
        let found = stream.next_if_any().await?;
        let resume_token = stream.resume_token();
        next = match found.and_then(ChangeStreamDocument::into_event) {
            Some(event) => StreamMessage::Event(event, resume_token),
            None => StreamMessage::Idle(resume_token),
        };
    }
    Ok(())
}

/// Of the tasks, the pipeline keeps only inserts and updates with a transition notice. Claims have none, so the server does
/// not send them. Of the executors, it keeps only updates of their drain, not reports. Every commit that changes the counters of a group writes one document of it.
async fn open(
    context: &StoreContext,
    resume_token: Option<ResumeToken>,
) -> Result<ChangeStream<ChangeStreamDocument>, Error> {
    let notice = "updateDescription.updatedFields.news";
    let drain = format!("updateDescription.updatedFields.{DRAIN_FIELD}");
    let pipeline = [
        // On its own, so that the server need not look into the changes of other collections, such as files.
        doc! { "$match": { "ns.coll": { "$in": [TASKS, GROUPS, EXECUTORS] } } },
        doc! { "$match": { "$or": [
            { "operationType": "insert", "ns.coll": { "$ne": EXECUTORS } },
            { notice: { "$exists": true } },
            { "ns.coll": GROUPS, "operationType": "update" },
            { "ns.coll": EXECUTORS, drain: { "$exists": true } },
        ] } },
        doc! { "$project": {
            "operationType": 1,
            "ns": 1,
            "documentKey": 1,
            "clusterTime": 1,
            "fullDocument.add_time": 1,
            "fullDocument.waits_for": 1,
            notice: 1,
            "updateDescription.updatedFields.waits": 1,
            "updateDescription.updatedFields.waits_for": 1,
        } },
    ];
    let mut watch = context
        .database
        .watch()
        .pipeline(pipeline)
        .max_await_time(AWAIT_TIME);
    if let Some(resume_token) = resume_token {
        watch = watch.start_after(resume_token);
    }
    Ok(watch.await?.with_type())
}
