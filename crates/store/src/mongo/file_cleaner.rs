//! Deletes uploaded files that no transaction refers to, in the background, so that the caller does not wait for it.

use std::sync::Arc;

use mongodb::bson::oid::ObjectId;
use supervise::{Component, Supervisor};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::StoreContext;
use super::gridfs;

/// When the queue is full, retention deletes the files later.
const QUEUE_LENGTH: usize = 1024;

/// The queue of unneeded GridFS uploads to the MongoDB store's background task, which deletes them.
pub(super) struct FileCleaner {
    files: mpsc::Sender<Vec<ObjectId>>,
}

impl FileCleaner {
    /// The background task ends when the cleaner is dropped and its queue is empty.
    pub(super) fn start(
        context: Arc<StoreContext>,
        supervisor: &Supervisor,
        stop: &CancellationToken,
    ) -> FileCleaner {
        let (files, queue) = mpsc::channel(QUEUE_LENGTH);
        supervisor.spawn(Component::StoreCleaner, stop, run(context, queue));
        FileCleaner { files }
    }

    /// Deletes these files, except those that a transaction refers to.
    pub(super) fn discard(&self, files: Vec<ObjectId>) {
        if !files.is_empty() {
            let _ = self.files.try_send(files);
        }
    }
}

async fn run(context: Arc<StoreContext>, mut queue: mpsc::Receiver<Vec<ObjectId>>) {
    while let Some(mut files) = queue.recv().await {
        while let Ok(more) = queue.try_recv() {
            files.extend(more);
        }
        gridfs::discard(&context, &files).await;
    }
}
