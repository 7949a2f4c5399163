//! The store of a cluster: a MongoDB replica set that all judicators share.
//!
//! An operation reads documents, decides in memory with the functions of `model`, and writes on the condition that the
//! documents have not changed since; writes to several documents are one transaction. So every operation is safe to
//! repeat, in any process, and it is repeated whenever its outcome is in doubt: after a conflict, a lost reply or a
//! failover. Each call is one file: `add`, `cancel`, `report`, `search`, and so on.

mod add;
mod age;
mod blobs;
mod bson_values;
mod cancel;
mod changes;
mod connect;
mod content;
mod context;
mod counters;
mod drain;
mod earlier_reasons;
mod executors;
mod failure;
mod figures;
mod file_cleaner;
mod get;
mod gridfs;
mod group_counters;
mod groups;
mod largest_executors;
mod problems;
mod queued_before;
mod report;
mod retention;
mod retry;
mod schema;
mod search;
mod session;
mod task_document;
mod totals;
mod transaction;
mod transition_batch;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    AddedTask, BlobHash, ExecutorDrain, ExecutorName, ExecutorState, GroupKey, GroupPage, GroupQuery,
    GroupState, Page, QueuePlace, QueuedBefore, Report, StoreAge, Task, TaskCounts, TaskForm, TaskId,
    TaskQuery,
};
use supervise::{FailureWatch, Supervisor};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::add::{AddBatcher, PreparedTask};
use self::cancel::CancelOutcome;
use self::changes::ChangeFeed;
use self::context::StoreContext;
use self::file_cleaner::FileCleaner;
use self::report::PreparedReport;
use self::retry::RetryPolicy;
use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::disk_probe;
use crate::incoming_folder;
use crate::search::{MAX_WAITING_LISTS, MAX_WAITING_TEXT_SEARCHES};
use crate::{
    BlobFile, BlobScanResult, BlobStream, ChangeEvent, HandledReport, MAX_CANCELLED_AT_ONCE, NewTaskRecord,
    ObservedSession, RetentionSummary, StoreError, TaskStore, TaskTotals,
};

/// The settings of a [`MongoStore`]: how to reach the replica set, and the limits of the store.
#[derive(Clone, Debug)]
pub struct MongoStoreOptions {
    /// HOST:PORT of at least one member. The driver discovers the others.
    pub addresses: Vec<String>,
    /// The name of the replica set.
    pub replica_set: String,
    pub database: String,
    pub credentials: Option<MongoCredentials>,
    /// After this many lost attempts a task ends as `system_error`.
    pub max_attempts: u32,
    /// How many tasks a search examines for one page.
    pub search_scan_limit: usize,
    /// The folder for blobs that are being uploaded. No other process may use it, and opening the store empties it.
    pub incoming_folder: PathBuf,
}

/// The name and password with which the store logs in to MongoDB, as a user of the database `admin`.
#[derive(Clone)]
pub struct MongoCredentials {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for MongoCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoCredentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// How many searches without a text run at the same time.
const MAX_CONCURRENT_LISTS: usize = 32;
/// How many text searches run at the same time in this process. They load the server, which must still answer other
/// searches.
const MAX_CONCURRENT_TEXT_SEARCHES: usize = 4;

/// The [`TaskStore`] of a cluster, on a MongoDB replica set that all judicators share.
pub struct MongoStore {
    /// Dropped first, so that the supervisor expects its background tasks to end.
    _stop: DropGuard,
    supervisor: Supervisor,
    context: Arc<StoreContext>,
    add_batcher: AddBatcher,
    file_cleaner: FileCleaner,
    change_feed: ChangeFeed,
    list_limiter: ConcurrencyLimiter,
    text_search_limiter: ConcurrencyLimiter,
    search_scan_limit: usize,
    incoming_folder: PathBuf,
}

impl MongoStore {
    /// Opens the store in a database of the replica set, and creates its schema if necessary. Several processes may
    /// open it at once.
    pub async fn open(options: MongoStoreOptions) -> Result<MongoStore, StoreError> {
        let client = connect::connect(&options)?;
        let context = Arc::new(StoreContext::new(client, &options.database, options.max_attempts));
        if let Err(error) = schema::prepare(&context).await {
            return Err(connect::diagnose(&options, error).await);
        }
        let newest = RetryPolicy::new("look for the newest task")
            .run(|_| get::newest_add_time(context.clone()))
            .await?;
        context.advance_add_time(newest);
        prepare_incoming_folder(&options.incoming_folder)?;
        let (supervisor, stop) = (Supervisor::new(), CancellationToken::new());
        Ok(MongoStore {
            add_batcher: AddBatcher::start(context.clone(), &supervisor, &stop),
            file_cleaner: FileCleaner::start(context.clone(), &supervisor, &stop),
            change_feed: ChangeFeed::follow(context.clone(), &supervisor, &stop).await?,
            supervisor,
            _stop: stop.drop_guard(),
            context,
            list_limiter: ConcurrencyLimiter::new("searches", MAX_CONCURRENT_LISTS, MAX_WAITING_LISTS),
            text_search_limiter: ConcurrencyLimiter::new(
                "searches for a text",
                MAX_CONCURRENT_TEXT_SEARCHES,
                MAX_WAITING_TEXT_SEARCHES,
            ),
            search_scan_limit: options.search_scan_limit,
            incoming_folder: options.incoming_folder,
        })
    }

    async fn remove_empty_groups(&self, keys: BTreeSet<GroupKey>) -> Result<(), StoreError> {
        let keys = Arc::new(keys);
        RetryPolicy::new("remove empty groups")
            .run(|_| groups::remove_empty(self.context.clone(), keys.clone()))
            .await
    }

    /// How many unreadable documents were found since the store was opened.
    pub fn unreadable_rows(&self) -> usize {
        self.context.unreadable_rows.count()
    }
}

#[async_trait]
impl TaskStore for MongoStore {
    async fn add(&self, tasks: Vec<NewTaskRecord>) -> Result<Vec<AddedTask>, StoreError> {
        if tasks.is_empty() {
            return Ok(vec![]);
        }
        let mut prepared = Vec::with_capacity(tasks.len());
        for task in tasks {
            prepared.push(PreparedTask::prepare(&self.context, task).await?);
        }
        let files = prepared.iter().filter_map(PreparedTask::uploaded_file).collect();
        let added = self.add_batcher.add(prepared).await;
        // Deletes the files of tasks that were refused or existed already.
        self.file_cleaner.discard(files);
        added
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        let cancelled = RetryPolicy::new("cancel a task")
            .run(|_| cancel::cancel(self.context.clone(), id))
            .await?;
        match cancelled {
            CancelOutcome::Found => get::get(&self.context, id).await,
            CancelOutcome::NotFound => Ok(None),
        }
    }

    async fn cancel_many(&self, ids: Vec<TaskId>) -> Result<u64, StoreError> {
        let (mut left, mut cancelled) = (ids, 0);
        left.truncate(MAX_CANCELLED_AT_ONCE);
        let call_time = context::now();
        while !left.is_empty() {
            let ids = Arc::new(left.clone());
            let batch = RetryPolicy::new("cancel tasks")
                .run(|count| cancel::cancel_batch(self.context.clone(), ids.clone(), call_time, count))
                .await?;
            cancelled += batch.cancelled;
            left.drain(..batch.handled);
        }
        Ok(cancelled)
    }

    async fn group(&self, key: GroupKey) -> Result<Option<GroupState>, StoreError> {
        RetryPolicy::new("read a group")
            .run(|_| groups::group(self.context.clone(), key.clone()))
            .await
    }

    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, StoreError> {
        let permit = Arc::new(self.list_limiter.acquire().await?);
        let query = Arc::new(query);
        RetryPolicy::new("list groups")
            .run(|_| {
                let permit = permit.clone();
                let list = groups::groups(self.context.clone(), query.clone());
                // A try continues when its caller has gone, and keeps the permit until it ends.
                async move {
                    let listed = list.await;
                    drop(permit);
                    listed
                }
            })
            .await
    }

    fn newer_form(&self) -> Option<TaskForm> {
        self.context.newer_forms.newest()
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        get::get(&self.context, id).await
    }

    async fn get_after_event(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        get::get_after_event(&self.context, id).await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, StoreError> {
        let limiter = match query.text {
            Some(_) => &self.text_search_limiter,
            None => &self.list_limiter,
        };
        let permit = Arc::new(limiter.acquire().await?);
        let query = Arc::new(query);
        RetryPolicy::new("search")
            .run(|_| {
                let (permit, scan_limit) = (permit.clone(), self.search_scan_limit);
                let search = search::search(self.context.clone(), query.clone(), scan_limit);
                // A try continues when its caller has gone, and keeps the permit until it ends.
                async move {
                    let found = search.await;
                    drop(permit);
                    found
                }
            })
            .await
    }

    async fn queued_before(&self, place: QueuePlace) -> Result<QueuedBefore, StoreError> {
        let permit = Arc::new(self.list_limiter.acquire().await?);
        let place = Arc::new(place);
        RetryPolicy::new("count the queued tasks")
            .run(|_| {
                let permit = permit.clone();
                let count = queued_before::queued_before(self.context.clone(), place.clone());
                // A try continues when its caller has gone, and keeps the permit until it ends.
                async move {
                    let counted = count.await;
                    drop(permit);
                    counted
                }
            })
            .await
    }

    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, StoreError> {
        let limiter = match query.text {
            Some(_) => &self.text_search_limiter,
            None => &self.list_limiter,
        };
        let permit = Arc::new(limiter.acquire().await?);
        let query = Arc::new(query);
        RetryPolicy::new("count tasks")
            .run(|_| {
                let (permit, scan_limit) = (permit.clone(), self.search_scan_limit);
                let count = search::count(self.context.clone(), query.clone(), scan_limit);
                async move {
                    let counted = count.await;
                    drop(permit);
                    counted
                }
            })
            .await
    }

    async fn totals(&self) -> Result<TaskTotals, StoreError> {
        RetryPolicy::new("read the totals")
            .run(|_| totals::totals(self.context.clone()))
            .await
    }

    async fn report(&self, report: Report) -> Result<HandledReport, StoreError> {
        let prepared = Arc::new(PreparedReport::prepare(&self.context, report).await?);
        let committed = RetryPolicy::new("handle a report")
            .with_payload(prepared.bytes_in_transaction())
            .run(|count| report::report(self.context.clone(), prepared.clone(), count))
            .await;
        // Deletes the files of stale results, which were not committed.
        self.file_cleaner.discard(prepared.uploaded_files());
        report::read_assignments(&self.context, &prepared, committed?).await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        RetryPolicy::new("list the executors")
            .run(|_| executors::executors(self.context.clone()))
            .await
    }

    async fn newest_executor_form(&self) -> Result<Option<TaskForm>, StoreError> {
        RetryPolicy::new("look for the newest form of the executors")
            .run(|_| executors::newest_form(self.context.clone()))
            .await
    }

    async fn set_drain(
        &self,
        executor: ExecutorName,
        drain: Option<ExecutorDrain>,
    ) -> Result<bool, StoreError> {
        let (executor, drain) = (Arc::new(executor), Arc::new(drain));
        RetryPolicy::new("drain or resume an executor")
            .run(|_| drain::set(self.context.clone(), executor.clone(), drain.clone()))
            .await
    }

    async fn live_sessions(&self) -> Result<Vec<ObservedSession>, StoreError> {
        RetryPolicy::new("list the live sessions")
            .run(|_| executors::live_sessions(self.context.clone()))
            .await
    }

    async fn expire(&self, observed: ObservedSession) -> Result<Option<usize>, StoreError> {
        let observed = Arc::new(observed);
        RetryPolicy::new("expire a session")
            .run(|_| executors::expire(self.context.clone(), observed.clone()))
            .await
    }

    async fn age(&self) -> Result<StoreAge, StoreError> {
        RetryPolicy::new("read the store's age")
            .run(|_| age::read(self.context.clone()))
            .await
    }

    async fn advance_age(&self, from: StoreAge, by: Duration) -> Result<StoreAge, StoreError> {
        RetryPolicy::new("advance the store's age")
            .run(|_| age::advance(self.context.clone(), from, by))
            .await
    }

    async fn remove_ended_executors(&self, gone_before: StoreAge) -> Result<usize, StoreError> {
        RetryPolicy::new("remove ended executors")
            .run(|_| executors::remove_ended(self.context.clone(), gone_before))
            .await
    }

    async fn apply_retention(
        &self,
        done_before: StoreAge,
        unused_since: StoreAge,
        limit: usize,
    ) -> Result<RetentionSummary, StoreError> {
        let stamp = || {
            RetryPolicy::new("stamp ended tasks and unused blobs")
                .run(|_| retention::stamp_missing_ages(self.context.clone()))
        };
        while stamp().await? > 0 {}
        let mut removed = RetentionSummary::default();
        while removed.tasks < limit {
            let left = limit - removed.tasks;
            let tasks = RetryPolicy::new("remove old tasks")
                .run(|count| retention::remove_tasks(self.context.clone(), done_before, left, count))
                .await?;
            if tasks.count == 0 {
                break;
            }
            removed.tasks += tasks.count;
            self.remove_empty_groups(tasks.groups).await?;
        }
        let empty = RetryPolicy::new("look for empty groups")
            .run(|_| groups::find_empty(self.context.clone()))
            .await?;
        self.remove_empty_groups(empty).await?;
        let mut examined = 0;
        while examined < limit {
            let left = limit - examined;
            let blobs = RetryPolicy::new("remove unused blobs")
                .run(|_| blobs::remove_unused(self.context.clone(), unused_since, left))
                .await?;
            if blobs.examined == 0 {
                break;
            }
            examined += blobs.examined;
            removed.blobs += blobs.removed;
        }
        removed.more = removed.tasks == limit || examined == limit;
        retention::delete_discarded_files(&self.context).await;
        Ok(removed)
    }

    fn incoming_folder(&self) -> PathBuf {
        self.incoming_folder.clone()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        blobs::put(&self.context, file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        let hashes = Arc::new(hashes);
        RetryPolicy::new("look for blobs")
            .run(|_| blobs::has(self.context.clone(), hashes.clone()))
            .await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobStream>, StoreError> {
        blobs::get(&self.context, hash).await
    }

    async fn get_blob_from(&self, hash: BlobHash, offset: u64) -> Result<Option<BlobStream>, StoreError> {
        blobs::get_from(&self.context, hash, offset).await
    }

    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobScanResult, StoreError> {
        RetryPolicy::new("scan blobs")
            .run(|_| blobs::scan(self.context.clone(), first_byte))
            .await
    }

    async fn count_damaged_blobs(&self) -> Result<u64, StoreError> {
        RetryPolicy::new("count damaged blobs")
            .run(|_| blobs::count_damaged(self.context.clone()))
            .await
    }

    async fn check(&self) -> Result<(), StoreError> {
        disk_probe::check_writable(self.incoming_folder.clone()).await?;
        RetryPolicy::new("write and read a test document")
            .run(|_| connect::check(self.context.clone()))
            .await
    }

    fn failures(&self) -> FailureWatch {
        self.supervisor.failures()
    }

    fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.change_feed.subscribe()
    }
}

/// Deletes the uploads that an earlier process left behind: they are incomplete and cannot be continued.
fn prepare_incoming_folder(folder: &Path) -> Result<(), StoreError> {
    let failed = |step| {
        move |source| StoreError::Io {
            step,
            path: folder.to_path_buf(),
            source,
        }
    };
    incoming_folder::remove_leftovers(folder).map_err(failed("empty the folder"))?;
    // Only this user may read the files of tasks.
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(folder).map_err(failed("create the folder"))
}
