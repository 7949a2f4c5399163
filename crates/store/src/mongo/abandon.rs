//! Giving up files that were written for a transaction, unless it has taken them. Behind the back of whoever wrote
//! them, who waits for an answer.

use std::sync::Arc;

use mongodb::bson::oid::ObjectId;
use supervise::{Component, Supervisor};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::base::Base;
use super::files;

/// What finds no room is cleared away with what was left over.
const WAITING: usize = 1024;

pub(super) struct Abandoner {
    files: mpsc::Sender<Vec<ObjectId>>,
}

impl Abandoner {
    /// The loop ends when the abandoner is dropped and all that it took on is done.
    pub(super) fn start(base: Arc<Base>, supervisor: &Supervisor, stop: &CancellationToken) -> Abandoner {
        let (files, waiting) = mpsc::channel(WAITING);
        supervisor.spawn(Component::StoreCleaner, stop, run(base, waiting));
        Abandoner { files }
    }

    pub(super) fn abandon(&self, files: Vec<ObjectId>) {
        if !files.is_empty() {
            let _ = self.files.try_send(files);
        }
    }
}

async fn run(base: Arc<Base>, mut waiting: mpsc::Receiver<Vec<ObjectId>>) {
    while let Some(mut files) = waiting.recv().await {
        while let Ok(more) = waiting.try_recv() {
            files.extend(more);
        }
        files::abandon(&base, &files).await;
    }
}
