//! The store of one machine: a SQLite database for tasks, and files for blobs.
//!
//! One thread writes (`writer`), a few connections read, so that a slow search never holds up a report.
//! Each call is one file: `add`, `cancel`, `report`, `search`, and so on.

mod add;
mod backup;
mod blobs;
mod cancel;
mod check;
mod column;
mod connect;
mod executors;
mod failure;
mod folder;
mod group;
mod readers;
mod report;
mod retire;
mod rows;
mod scan;
mod schema;
mod search;
mod session;
mod totals;
mod transition;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use model::{Added, Age, BlobHash, ExecutorState, Page, Query, Report, Task, TaskId};
use supervise::Failures;
use tokio::sync::broadcast;
use tokio::task;

pub use self::backup::{BackedUp, BackupError, backup};

use self::add::Draft;
use self::blobs::Condition;
use self::folder::{Folder, Lock, OpenFiles};
use self::readers::Readers;
use self::report::Sent;
use self::retire::Retention;
use self::writer::Writer;
use crate::admission::Admission;
use crate::room;
use crate::search::{LISTS_WAITING, SEARCH_WINDOW, TEXTS_WAITING};
use crate::{
    BlobBytes, BlobFile, BlobShelf, Change, NewTask, Reported, Retired, SessionSeen, StoreError, TaskStore,
    Totals,
};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often a task may be lost before it ends as `system_error`.
    pub max_attempts: u32,
    /// How many tasks a search looks at for one page.
    pub search_window: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_attempts: 3,
            search_window: SEARCH_WINDOW,
        }
    }
}

/// Connections for what is short and often asked.
const QUICK: usize = 3;
/// How many such calls wait; each takes less than a millisecond.
const QUICK_WAITING: usize = 4096;
/// Connections for lists, apart from the others: no search for a text makes a list wait.
const LISTS: usize = 2;
/// Connections for searches for a text, which may be slow.
const TEXTS: usize = 2;
/// What a small operation weighs in a group, in bytes: about what it writes.
const SMALL: usize = 512;
/// How many orphaned files are removed in one go.
const ORPHANS: usize = 500;

/// Fields are dropped in this order: the writer comes after the readers, so that it is the last to close the
/// database and brings its log home, and the lock is let go last of all.
pub struct SqliteStore {
    quick: Readers,
    lists: Readers,
    texts: Readers,
    search_window: usize,
    writer: Writer,
    folder: Folder,
    open_files: OpenFiles,
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the store in this folder, and makes it if there is none.
    pub fn open(folder: &Path, options: Options) -> Result<SqliteStore, StoreError> {
        let (folder, lock) = Folder::open(folder)?;
        let connection = connect::writer(&folder)?;
        folder::sync_folder(folder.root())?;
        let writer = Writer::start(connection, folder.clone(), options)?;
        Ok(SqliteStore {
            quick: Readers::new(folder.clone(), Admission::new("calls", QUICK, QUICK_WAITING)),
            lists: Readers::new(folder.clone(), Admission::new("searches", LISTS, LISTS_WAITING)),
            texts: Readers::new(
                folder.clone(),
                Admission::new("searches for a text", TEXTS, TEXTS_WAITING),
            ),
            search_window: options.search_window,
            writer,
            open_files: folder.open_files()?,
            folder,
            _lock: lock,
        })
    }

    /// How many rows were found since it was opened that cannot be read.
    pub fn unreadable_rows(&self) -> usize {
        self.folder.set_aside().count()
    }

    /// How many commits there were since it was opened: each is one sync of the disk.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn add(&self, tasks: Vec<NewTask>) -> Result<Vec<Added>, StoreError> {
        let drafts = tasks.into_iter().map(Draft::of).collect::<Result<Vec<_>, _>>()?;
        let weight = drafts.iter().map(Draft::weight).sum();
        self.writer
            .submit(weight, move |group| add::add(group, drafts))
            .await
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.writer
            .submit(SMALL, move |group| cancel::cancel(group, id))
            .await
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        let folder = self.folder.clone();
        self.quick
            .read(move |connection| rows::task(connection, id, folder.set_aside()))
            .await
    }

    async fn search(&self, query: Query) -> Result<Page, StoreError> {
        let readers = match query.text {
            Some(_) => &self.texts,
            None => &self.lists,
        };
        let (window, folder) = (self.search_window, self.folder.clone());
        readers
            .read(move |connection| search::search(connection, &query, window, folder.set_aside()))
            .await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.quick.read(|connection| totals::totals(connection)).await
    }

    async fn report(&self, report: Report) -> Result<Reported, StoreError> {
        let sent = Sent::of(report)?;
        self.writer
            .submit(SMALL + sent.weight(), move |group| report::report(group, &sent))
            .await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        let folder = self.folder.clone();
        self.quick
            .read(move |connection| executors::executors(connection, folder.set_aside()))
            .await
    }

    async fn live_sessions(&self) -> Result<Vec<SessionSeen>, StoreError> {
        let folder = self.folder.clone();
        self.quick
            .read(move |connection| executors::live_sessions(connection, folder.set_aside()))
            .await
    }

    async fn expire(&self, seen: SessionSeen) -> Result<Option<usize>, StoreError> {
        self.writer
            .submit(SMALL, move |group| executors::expire(group, &seen))
            .await
    }

    async fn age(&self) -> Result<Age, StoreError> {
        self.writer.submit(SMALL, |group| Ok(group.age())).await
    }

    async fn advance_age(&self, from: Age, by: Duration) -> Result<Age, StoreError> {
        self.writer
            .submit(SMALL, move |group| {
                group.advance_age(from, by);
                Ok(group.age())
            })
            .await
    }

    async fn forget_executors(&self, gone_before: Age) -> Result<usize, StoreError> {
        self.writer
            .submit(SMALL, move |group| executors::forget(group, gone_before))
            .await
    }

    async fn retire(&self, done_before: Age, unused_since: Age, limit: usize) -> Result<Retired, StoreError> {
        let weight = limit.saturating_mul(SMALL);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let retention = Retention {
            done_before,
            unused_since,
            limit,
        };
        self.writer
            .submit(weight, move |group| retire::retire(group, retention))
            .await
    }

    fn incoming(&self) -> PathBuf {
        self.folder.incoming()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        blobs::sync_file(&file.path).await?;
        self.writer
            .submit(SMALL, move |group| blobs::put(group, &file))
            .await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        let weight = hashes.len() * SMALL;
        self.writer
            .submit(weight, move |group| blobs::has(group, &hashes))
            .await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
        let found = self
            .quick
            .read(move |connection| blobs::find(connection, hash))
            .await?;
        match found {
            Some(Condition::Whole) => blobs::open(&self.folder, self.writer.weak(), hash).await,
            Some(Condition::Damaged) => Err(StoreError::DamagedBlob(hash)),
            None => Ok(None),
        }
    }

    async fn check(&self) -> Result<(), StoreError> {
        let open_files = self.open_files.clone();
        task::spawn_blocking(move || open_files.check())
            .await
            .map_err(|_| StoreError::Closed)??;
        room::check(self.folder.incoming()).await?;
        let written = self.writer.submit(SMALL, |group| check::write(group)).await?;
        self.quick
            .read(move |connection| check::read(connection, written))
            .await
    }

    fn failures(&self) -> Failures {
        self.writer.failures()
    }

    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobShelf, StoreError> {
        // The files first: one that is put while they are listed then has its row below, or is not on the list.
        let folder = self.folder.clone();
        let files = task::spawn_blocking(move || scan::files(&folder, first_byte))
            .await
            .map_err(|_| StoreError::Closed)??;
        let folder = self.folder.clone();
        let rows = self
            .quick
            .read(move |connection| scan::rows(connection, first_byte, folder.set_aside()))
            .await?;
        let mut shelf = BlobShelf::default();
        let nameless: Vec<_> = files
            .into_iter()
            // A file may belong to a row that cannot be read.
            .filter(|file| rows.all_readable && !rows.blobs.contains_key(file))
            .collect();
        for files in nameless.chunks(ORPHANS) {
            let files = files.to_vec();
            shelf.orphans += self
                .writer
                .submit(files.len() * SMALL, move |group| {
                    scan::remove_orphans(group, &files)
                })
                .await?;
        }
        let whole = rows.blobs.into_iter().filter(|(_, damaged)| !damaged);
        shelf.blobs = whole.map(|(hash, _)| hash).collect();
        Ok(shelf)
    }

    async fn damaged_blobs(&self) -> Result<u64, StoreError> {
        self.quick.read(|connection| scan::damaged(connection)).await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.writer.changes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn lists_are_answered_while_text_searches_take_all_that_they_may_have() {
        let root = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(root.path(), Options::default()).unwrap();
        let text = || Query {
            text: Some("nowhere".into()),
            ..Query::default()
        };
        // Both connections are in use until the list was answered, and all places of the queue are taken.
        let answered = Arc::new(Barrier::new(TEXTS + 1));
        let mut busy = vec![];
        for _ in 0..TEXTS {
            let answered = answered.clone();
            let held = store.texts.read(move |_| {
                answered.wait();
                Ok(())
            });
            busy.push(held.boxed());
        }
        let mut busy = Box::pin(join_all(busy));
        assert!(busy.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(join_all((0..TEXTS_WAITING).map(|_| store.search(text()))));
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = store.search(text()).await;
        assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
        assert_eq!(store.search(Query::default()).await.unwrap(), Page::default());
        answered.wait();
        assert!(busy.await.iter().all(Result::is_ok));
        assert!(waiting.await.iter().all(Result::is_ok));
    }
}
