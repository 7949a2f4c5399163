//! Reading the change stream. Not in the loop that tells: the driver may wait for an answer for ever, and what it
//! waits in must not be dropped.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::doc;
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error;
use tokio::sync::mpsc;

use super::event::{Document, Event};
use crate::mongo::base::Base;
use crate::mongo::failure::{HISTORY_LOST, code};

/// The server answers at least this often, be it with nothing.
const AWAIT: Duration = Duration::from_secs(1);

/// With each the place where the stream can be opened again.
pub(super) enum News {
    Opened(Option<ResumeToken>),
    Event(Event, Option<ResumeToken>),
    Idle(Option<ResumeToken>),
    /// The place is beyond what the server remembers.
    HistoryLost,
}

/// Ends on the first error, and when nobody takes the news.
pub(super) async fn read(base: Arc<Base>, place: Option<ResumeToken>, news: mpsc::Sender<News>) {
    if let Err(error) = try_read(&base, place, &news).await {
        tracing::debug!(%error, "the stream of changes ended");
        // 280 is the server's word for a place that it cannot make sense of.
        if matches!(code(&error), Some(HISTORY_LOST | 280)) {
            let _ = news.send(News::HistoryLost).await;
        }
    }
}

async fn try_read(base: &Base, place: Option<ResumeToken>, news: &mpsc::Sender<News>) -> Result<(), Error> {
    let mut stream = open(base, place).await?;
    let mut next = News::Opened(stream.resume_token());
    while news.send(next).await.is_ok() {
        let found = stream.next_if_any().await?;
        let place = stream.resume_token();
        next = match found.and_then(Document::into_event) {
            Some(event) => News::Event(event, place),
            None => News::Idle(place),
        };
    }
    Ok(())
}

/// Of what a task's document became, only the news; claims have none and are not even sent.
async fn open(base: &Base, place: Option<ResumeToken>) -> Result<ChangeStream<Document>, Error> {
    let news = "updateDescription.updatedFields.news";
    let pipeline = [
        doc! { "$match": { "$or": [{ "operationType": "insert" }, { news: { "$exists": true } }] } },
        doc! { "$project": {
            "operationType": 1,
            "ns": 1,
            "documentKey": 1,
            "clusterTime": 1,
            "fullDocument.add_time": 1,
            news: 1,
            "updateDescription.updatedFields.waits": 1,
        } },
    ];
    let tasks = base.tasks();
    let mut watch = tasks.watch().pipeline(pipeline).max_await_time(AWAIT);
    if let Some(place) = place {
        watch = watch.start_after(place);
    }
    Ok(watch.await?.with_type())
}
