//! A pool of read-only connections, used on Tokio's blocking threads.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::task::{self, JoinSet};

use super::connect;
use super::failure::SqliteFailure;
use super::store_folder::StoreFolder;
use crate::StoreError;
use crate::concurrency_limiter::{ConcurrencyLimiter, ConcurrencyPermit};

/// A pool of read-only SQLite connections, with a bound on the callers that use and await them.
pub(super) struct ReadPool {
    folder: Arc<StoreFolder>,
    idle: Arc<Mutex<Vec<Connection>>>,
    limiter: Arc<ConcurrencyLimiter>,
}

impl ReadPool {
    pub(super) fn new(folder: StoreFolder, limiter: ConcurrencyLimiter) -> ReadPool {
        ReadPool {
            folder: Arc::new(folder),
            idle: Arc::default(),
            limiter: Arc::new(limiter),
        }
    }

    /// Takes its turn in a task of its own. A caller that is not polled for a while, because its client does not read a
    /// response for example, would otherwise hold a turn that it was given and does not use, and could block all others. The
    /// task ends with the caller.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    {
        let (folder, idle) = (self.folder.clone(), self.idle.clone());
        let limiter = self.limiter.clone();
        let mut turn = JoinSet::new();
        turn.spawn(async move {
            let permit = limiter.acquire().await?;
            task::spawn_blocking(move || read_with(&folder, &idle, permit, work))
                .await
                .map_err(|_| StoreError::Closed)?
        });
        match turn.join_next().await {
            Some(Ok(value)) => value,
            Some(Err(_)) | None => Err(StoreError::Closed),
        }
    }
}

fn read_with<T>(
    folder: &StoreFolder,
    idle: &Mutex<Vec<Connection>>,
    permit: ConcurrencyPermit,
    work: impl FnOnce(&mut Connection) -> Result<T, SqliteFailure>,
) -> Result<T, StoreError> {
    // The pool is empty at first, and lacks a connection after a panic.
    let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut connection = match pooled {
        Some(connection) => connection,
        None => connect::reader(folder)?,
    };
    let value = work(&mut connection).map_err(|failure| failure.into_error(folder.root()));
    idle.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(connection);
    drop(permit);
    value
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_caller_that_is_not_polled_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        drop(crate::sqlite::SqliteStore::open(folder.path(), Default::default()).unwrap());
        let (store_folder, _lock) = StoreFolder::open(folder.path()).unwrap();
        let pool = ReadPool::new(store_folder, ConcurrencyLimiter::new("reads", 1, 2));
        let (finish, finished) = mpsc::channel::<()>();
        let mut first = Box::pin(pool.read(move |_| {
            let _ = finished.recv();
            Ok(())
        }));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(pool.read(|_| Ok(())));
        assert!(second.as_mut().now_or_never().is_none(), "it waits for its turn");
        finish.send(()).unwrap();
        first.await.unwrap();
        // The second caller has its turn now, and is not polled.
        let third = tokio::time::timeout(Duration::from_secs(30), pool.read(|_| Ok(())));
        third.await.expect("a turn in time").unwrap();
        drop(second);
    }
}
