//! The store of a cluster: a MongoDB replica set for tasks and blobs, shared by all judicators.
//!
//! An operation reads what it needs, decides over values with the model, and writes under the condition that
//! everything is still as it was read; what it writes to more than one document is one transaction. So it is safe
//! to repeat, by whomever and wherever, and that is what happens on every doubt: a conflict, a lost answer, a new
//! primary. Each call is one file: `add`, `cancel`, `report`, `search`, and so on.

mod abandon;
mod add;
mod age;
mod attempts;
mod base;
mod blobs;
mod cancel;
mod changes;
mod check;
mod connect;
mod content;
mod executors;
mod failure;
mod field;
mod files;
mod get;
mod report;
mod retire;
mod row;
mod schema;
mod search;
mod session;
mod table;
mod tally;
mod totals;
mod transaction;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{Added, Age, BlobHash, ExecutorState, Page, Query, Report, Task, TaskId};
use supervise::{Failures, Supervisor};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::abandon::Abandoner;
use self::add::{Adder, Draft};
use self::attempts::Patience;
use self::base::Base;
use self::cancel::Existed;
use self::changes::Changes;
use self::report::Sent;
use crate::admission::Admission;
use crate::room;
use crate::search::{LISTS_WAITING, TEXTS_WAITING};
use crate::{
    BlobBytes, BlobFile, BlobShelf, Change, NewTask, Reported, Retired, SessionSeen, StoreError, TaskStore,
    Totals,
};

#[derive(Clone, Debug)]
pub struct Options {
    /// HOST:PORT of some members; the others are found through these.
    pub addresses: Vec<String>,
    /// The replica set's name.
    pub set: String,
    pub database: String,
    pub login: Option<Login>,
    /// How often a task may be lost before it ends as `system_error`.
    pub max_attempts: u32,
    /// How many tasks a search looks at for one page.
    pub search_window: usize,
    /// A folder of this process alone, for blobs on their way in. It is emptied.
    pub incoming: PathBuf,
}

/// A user of the replica set, kept in its database `admin`.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Lists that run at the same time.
const LISTS: usize = 32;
/// Searches for a text that do, of this judicator: they keep the server busy, and lists have to be answered beside them.
const TEXTS: usize = 4;

pub struct MongoStore {
    /// Dropped first: what ends after it ends in order.
    _stop: DropGuard,
    supervisor: Supervisor,
    base: Arc<Base>,
    adder: Adder,
    abandoner: Abandoner,
    changes: Changes,
    lists: Admission,
    texts: Admission,
    search_window: usize,
    incoming: PathBuf,
}

impl MongoStore {
    /// Opens the store in this database of the replica set, and makes it if there is none. Several processes may
    /// open it at once.
    pub async fn open(options: Options) -> Result<MongoStore, StoreError> {
        let client = connect::connect(&options)?;
        let base = Arc::new(Base::new(client, &options.database, options.max_attempts));
        let prepared = Patience::with("prepare the database")
            .persist(|_| schema::prepare(base.clone()))
            .await;
        if let Err(error) = prepared {
            return Err(connect::diagnose(&options, error).await);
        }
        let last = Patience::with("look for the newest task")
            .persist(|_| get::last_add(base.clone()))
            .await?;
        base.saw_add(last);
        empty(&options.incoming)?;
        let (supervisor, stop) = (Supervisor::new(), CancellationToken::new());
        Ok(MongoStore {
            adder: Adder::start(base.clone(), &supervisor, &stop),
            abandoner: Abandoner::start(base.clone(), &supervisor, &stop),
            changes: Changes::follow(base.clone(), &supervisor, &stop).await?,
            supervisor,
            _stop: stop.drop_guard(),
            base,
            lists: Admission::new("searches", LISTS, LISTS_WAITING),
            texts: Admission::new("searches for a text", TEXTS, TEXTS_WAITING),
            search_window: options.search_window,
            incoming: options.incoming,
        })
    }

    /// How many documents were found since it was opened that cannot be read.
    pub fn unreadable_rows(&self) -> usize {
        self.base.set_aside.count()
    }
}

#[async_trait]
impl TaskStore for MongoStore {
    async fn add(&self, tasks: Vec<NewTask>) -> Result<Vec<Added>, StoreError> {
        if tasks.is_empty() {
            return Ok(vec![]);
        }
        let mut drafts = Vec::with_capacity(tasks.len());
        for task in tasks {
            drafts.push(Draft::prepare(&self.base, task).await?);
        }
        let files = drafts.iter().filter_map(Draft::file).collect();
        let added = self.adder.add(drafts).await;
        // Of one that was refused, or existed already.
        self.abandoner.abandon(files);
        added
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        let cancelled = Patience::with("cancel a task")
            .persist(|_| cancel::cancel(self.base.clone(), id))
            .await?;
        match cancelled {
            Existed::Yes => get::get(&self.base, id).await,
            Existed::No => Ok(None),
        }
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        get::get(&self.base, id).await
    }

    async fn search(&self, query: Query) -> Result<Page, StoreError> {
        let admission = match query.text {
            Some(_) => &self.texts,
            None => &self.lists,
        };
        let admitted = Arc::new(admission.enter().await?);
        let query = Arc::new(query);
        Patience::with("search")
            .persist(|_| {
                let (admitted, window) = (admitted.clone(), self.search_window);
                let search = search::search(self.base.clone(), query.clone(), window);
                // An attempt goes on when its caller has left, and keeps its place until it ends.
                async move {
                    let found = search.await;
                    drop(admitted);
                    found
                }
            })
            .await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        Patience::with("read the totals")
            .persist(|_| totals::totals(self.base.clone()))
            .await
    }

    async fn report(&self, report: Report) -> Result<Reported, StoreError> {
        let sent = Arc::new(Sent::prepare(&self.base, report).await?);
        let handled = Patience::with("handle a report")
            .for_bytes(sent.weight())
            .persist(|count| report::report(self.base.clone(), sent.clone(), count))
            .await;
        // Of results that were not committed, for they were stale.
        self.abandoner.abandon(sent.files());
        report::hand_out(&self.base, &sent, handled?).await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        Patience::with("list the executors")
            .persist(|_| executors::executors(self.base.clone()))
            .await
    }

    async fn live_sessions(&self) -> Result<Vec<SessionSeen>, StoreError> {
        Patience::with("list the live sessions")
            .persist(|_| executors::live_sessions(self.base.clone()))
            .await
    }

    async fn expire(&self, seen: SessionSeen) -> Result<Option<usize>, StoreError> {
        let seen = Arc::new(seen);
        Patience::with("expire a session")
            .persist(|_| executors::expire(self.base.clone(), seen.clone()))
            .await
    }

    async fn age(&self) -> Result<Age, StoreError> {
        Patience::with("read the store's age")
            .persist(|_| age::read(self.base.clone()))
            .await
    }

    async fn advance_age(&self, from: Age, by: Duration) -> Result<Age, StoreError> {
        Patience::with("advance the store's age")
            .persist(|_| age::advance(self.base.clone(), from, by))
            .await
    }

    async fn forget_executors(&self, gone_before: Age) -> Result<usize, StoreError> {
        Patience::with("forget executors")
            .persist(|_| executors::forget(self.base.clone(), gone_before))
            .await
    }

    async fn retire(&self, done_before: Age, unused_since: Age, limit: usize) -> Result<Retired, StoreError> {
        let stamp = || Patience::with("stamp what is done").persist(|_| retire::stamp(self.base.clone()));
        while stamp().await? > 0 {}
        let mut retired = Retired::default();
        while retired.tasks < limit {
            let left = limit - retired.tasks;
            let tasks = Patience::with("retire tasks")
                .persist(|_| retire::retire(self.base.clone(), done_before, left))
                .await?;
            if tasks == 0 {
                break;
            }
            retired.tasks += tasks;
        }
        while retired.blobs < limit {
            let left = limit - retired.blobs;
            let blobs = Patience::with("retire blobs")
                .persist(|_| blobs::retire(self.base.clone(), unused_since, left))
                .await?;
            if blobs == 0 {
                break;
            }
            retired.blobs += blobs;
        }
        retire::clear_files(&self.base).await;
        Ok(retired)
    }

    fn incoming(&self) -> PathBuf {
        self.incoming.clone()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        blobs::put(&self.base, file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        let hashes = Arc::new(hashes);
        Patience::with("look for blobs")
            .persist(|_| blobs::has(self.base.clone(), hashes.clone()))
            .await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
        blobs::get(&self.base, hash).await
    }

    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobShelf, StoreError> {
        Patience::with("scan blobs")
            .persist(|_| blobs::scan(self.base.clone(), first_byte))
            .await
    }

    async fn damaged_blobs(&self) -> Result<u64, StoreError> {
        Patience::with("count damaged blobs")
            .persist(|_| blobs::damaged(self.base.clone()))
            .await
    }

    async fn check(&self) -> Result<(), StoreError> {
        room::check(self.incoming.clone()).await?;
        Patience::with("check that it can be written")
            .persist(|_| check::check(self.base.clone()))
            .await
    }

    fn failures(&self) -> Failures {
        self.supervisor.failures()
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}

/// What is in there was on its way in when an earlier process ended, and nobody will send the rest of it.
fn empty(folder: &Path) -> Result<(), StoreError> {
    let failed = |step| {
        move |source| StoreError::Io {
            step,
            path: folder.to_path_buf(),
            source,
        }
    };
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("empty the folder")(error));
        }
        _ => {}
    }
    // What people give to their tasks is nobody else's business.
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(folder).map_err(failed("create the folder"))
}
