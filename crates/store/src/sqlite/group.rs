//! What shares one commit: the operations that waited together, and what they have to tell once it is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::{Age, BlobHash, ExecutorName, Moment, Status, TaskId};
use rusqlite::{CachedStatement, Connection};

use super::column::Column;
use super::failure::{During, Failure};
use super::folder::{Folder, sync_folder};
use super::rows::Position;
use crate::Change;
use crate::set_aside::SetAside;

/// What lasts from one group to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standards {
    pub(super) max_attempts: u32,
    pub(super) last_add: Moment,
    pub(super) age: Age,
}

pub(super) struct Group<'a> {
    connection: &'a Connection,
    folder: &'a Folder,
    standards: Standards,
    last_add: Moment,
    age: Age,
    now: Moment,
    /// By how much each sum in the ledger changes: written once for each group, not once for each task.
    tally: BTreeMap<&'static str, i64>,
    moved: Vec<Change>,
    waiting: usize,
    withdrawn: BTreeSet<ExecutorName>,
    /// Blob files put in place that have no row until the commit.
    placed: Vec<PathBuf>,
    /// Folders that got new entries.
    touched: BTreeSet<PathBuf>,
    /// Blobs whose rows are gone with the commit.
    doomed: Vec<BlobHash>,
}

/// A group that is durable.
pub(super) struct Committed {
    pub(super) changes: Vec<Change>,
    pub(super) doomed: Vec<BlobHash>,
    pub(super) last_add: Moment,
    pub(super) age: Age,
}

impl<'a> Group<'a> {
    pub(super) fn begin(
        connection: &'a Connection,
        folder: &'a Folder,
        standards: Standards,
    ) -> Result<Group<'a>, Failure> {
        let group = Group {
            connection,
            folder,
            standards,
            last_add: standards.last_add,
            age: standards.age,
            now: Moment::from(SystemTime::now()),
            tally: BTreeMap::new(),
            moved: Vec::new(),
            waiting: 0,
            withdrawn: BTreeSet::new(),
            placed: Vec::new(),
            touched: BTreeSet::new(),
            doomed: Vec::new(),
        };
        group.run("BEGIN IMMEDIATE", "begin a transaction")?;
        Ok(group)
    }

    pub(super) fn connection(&self) -> &'a Connection {
        self.connection
    }

    pub(super) fn folder(&self) -> &'a Folder {
        self.folder
    }

    /// Where rows that cannot be read are noted.
    pub(super) fn set_aside(&self) -> &'a SetAside {
        self.folder.set_aside()
    }

    pub(super) fn statement(&self, sql: &str, step: &'static str) -> Result<CachedStatement<'a>, Failure> {
        self.connection.prepare_cached(sql).during(step)
    }

    pub(super) fn now(&self) -> Moment {
        self.now
    }

    /// When something happens to a task: now, but not before anything that happened to it earlier. The clock may
    /// have been set back since.
    pub(super) fn time_of(&self, task: &Position) -> Moment {
        self.now.max(task.latest)
    }

    pub(super) fn age(&self) -> Age {
        self.age
    }

    /// If it is still `from`.
    pub(super) fn advance_age(&mut self, from: Age, by: Duration) {
        if self.age == from {
            self.age = from.plus(by);
        }
    }

    pub(super) fn max_attempts(&self) -> u32 {
        self.standards.max_attempts
    }

    /// The time of the next add: now, but later than every other, so that it orders tasks for good.
    pub(super) fn next_add_time(&mut self) -> Moment {
        self.last_add = self.now.max(Moment(self.last_add.0 + 1));
        self.last_add
    }

    pub(super) fn added(&mut self, id: TaskId, time: Moment) {
        *self.tally.entry(Status::Pending.as_str()).or_default() += 1;
        self.tell(id, Status::Pending, None, time);
        self.waiting += 1;
    }

    pub(super) fn moved(&mut self, task: &Position, to: Status, by: Option<&ExecutorName>) {
        *self.tally.entry(task.status.as_str()).or_default() -= 1;
        *self.tally.entry(to.as_str()).or_default() += 1;
        self.tell(task.id, to, by, self.time_of(task));
    }

    pub(super) fn removed(&mut self, status: Status) {
        *self.tally.entry(status.as_str()).or_default() -= 1;
    }

    pub(super) fn claimed(&mut self) {
        *self.tally.entry("held").or_default() += 1;
    }

    pub(super) fn let_go(&mut self) {
        *self.tally.entry("held").or_default() -= 1;
    }

    pub(super) fn waits(&mut self) {
        self.waiting += 1;
    }

    pub(super) fn withdrawn(&mut self, from: &ExecutorName) {
        self.withdrawn.insert(from.clone());
    }

    pub(super) fn placed(&mut self, blob: PathBuf) {
        self.placed.push(blob);
    }

    pub(super) fn touched(&mut self, folder: PathBuf) {
        self.touched.insert(folder);
    }

    pub(super) fn doomed(&mut self, hash: BlobHash) {
        self.doomed.push(hash);
    }

    /// Files of doomed blobs are unlinked after the commit. Nothing may join the group any more: it could put
    /// the same blob again, and its file would then be unlinked with a row still there.
    pub(super) fn is_closed(&self) -> bool {
        !self.doomed.is_empty()
    }

    pub(super) fn commit(mut self) -> Result<Committed, Failure> {
        match self.try_commit() {
            Ok(()) => Ok(self.into_committed()),
            Err(failure) => {
                self.roll_back();
                Err(failure)
            }
        }
    }

    pub(super) fn roll_back(self) {
        // SQLite has rolled back by itself after some errors; otherwise this cannot fail for lack of space.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "could not roll back; the next transaction will say why");
        }
        for path in self.placed {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "a blob that was not committed is left over");
            }
        }
    }

    fn try_commit(&mut self) -> Result<(), Failure> {
        for folder in &self.touched {
            sync_folder(folder).map_err(Failure::Storage)?;
        }
        self.write_ledger()?;
        self.run("COMMIT", "commit")
    }

    fn write_ledger(&mut self) -> Result<(), Failure> {
        const STEP: &str = "write the ledger";
        let mut add = self.statement("UPDATE ledger SET value = value + ?1 WHERE name = ?2", STEP)?;
        for (name, change) in self.tally.iter().filter(|(_, change)| **change != 0) {
            add.execute((change, name)).during(STEP)?;
        }
        if self.last_add != self.standards.last_add {
            self.statement("UPDATE ledger SET value = ?1 WHERE name = 'last_add'", STEP)?
                .execute([self.last_add.0])
                .during(STEP)?;
        }
        if self.age != self.standards.age {
            self.statement("UPDATE ledger SET value = ?1 WHERE name = 'age'", STEP)?
                .execute([Column(self.age)])
                .during(STEP)?;
        }
        Ok(())
    }

    fn into_committed(self) -> Committed {
        let mut changes = self.moved;
        changes.extend(self.withdrawn.into_iter().map(Change::Withdrawn));
        if self.waiting > 0 {
            changes.push(Change::Waiting(self.waiting));
        }
        Committed {
            changes,
            doomed: self.doomed,
            last_add: self.last_add,
            age: self.age,
        }
    }

    fn run(&self, sql: &str, step: &'static str) -> Result<(), Failure> {
        self.statement(sql, step)?.execute([]).map(drop).during(step)
    }

    fn tell(&mut self, id: TaskId, status: Status, by: Option<&ExecutorName>, time: Moment) {
        self.moved.push(Change::Moved {
            id,
            status,
            executor: by.cloned(),
            time,
        });
    }
}
