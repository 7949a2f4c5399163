//! A few connections that only read, each on a thread where it may block.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::task;

use super::connect;
use super::failure::Failure;
use super::folder::Folder;
use crate::StoreError;
use crate::admission::Admission;

pub(super) struct Readers {
    folder: Arc<Folder>,
    idle: Arc<Mutex<Vec<Connection>>>,
    admission: Admission,
}

impl Readers {
    pub(super) fn new(folder: Folder, admission: Admission) -> Readers {
        Readers {
            folder: Arc::new(folder),
            idle: Arc::default(),
            admission,
        }
    }

    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        let admitted = self.admission.enter().await?;
        let (folder, idle) = (self.folder.clone(), self.idle.clone());
        let reading = task::spawn_blocking(move || {
            // Connections are opened when they are first needed, and again after one was lost to a panic.
            let pooled = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut connection = match pooled {
                Some(connection) => connection,
                None => connect::reader(&folder)?,
            };
            let outcome = work(&mut connection).map_err(|failure| failure.into_error(folder.root()));
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            drop(admitted);
            outcome
        });
        reading.await.map_err(|_| StoreError::Closed)?
    }
}
