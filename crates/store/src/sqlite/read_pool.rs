//! A pool of read-only connections, used on Tokio's blocking threads.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::task;

use super::connect;
use super::failure::SqliteFailure;
use super::store_folder::StoreFolder;
use crate::StoreError;
use crate::concurrency_limiter::ConcurrencyLimiter;

/// A pool of read-only SQLite connections, with a bound on the callers that use and await them.
pub(super) struct ReadPool {
    folder: Arc<StoreFolder>,
    idle: Arc<Mutex<Vec<Connection>>>,
    limiter: ConcurrencyLimiter,
}

impl ReadPool {
    pub(super) fn new(folder: StoreFolder, limiter: ConcurrencyLimiter) -> ReadPool {
        ReadPool {
            folder: Arc::new(folder),
            idle: Arc::default(),
            limiter,
        }
    }

    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, SqliteFailure> + Send + 'static,
    {
        let permit = self.limiter.acquire().await?;
        let (folder, idle) = (self.folder.clone(), self.idle.clone());
        let reading = task::spawn_blocking(move || {
            // The pool is empty at first, and lacks a connection after a panic.
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut connection = match pooled {
                Some(connection) => connection,
                None => connect::reader(&folder)?,
            };
            let value = work(&mut connection).map_err(|failure| failure.into_error(folder.root()));
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            drop(permit);
            value
        });
        reading.await.map_err(|_| StoreError::Closed)?
    }
}
