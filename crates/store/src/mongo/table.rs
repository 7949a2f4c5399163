//! The tasks of one operation: as they were read, and as they shall be. The changes are pure; what is left is to
//! write the difference, under the condition that nobody else has changed them meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Age, ExecutorName, Moment, Release, Released, Report, SessionId, Status, TaskId};
use mongodb::bson::{Bson, Document, doc, serialize_to_bson, serialize_to_vec};
use mongodb::error::Error;

use super::base::TASKS;
use super::content::{self, Prepared};
use super::failure::Failure;
use super::field::Field;
use super::row::Position;
use super::tally::Tally;
use super::transaction::{Transaction, Update};

#[derive(Debug)]
pub(super) struct Table {
    now: Moment,
    age: Option<Age>,
    max_attempts: u32,
    tasks: BTreeMap<TaskId, Entry>,
}

#[derive(Debug)]
struct Entry {
    seen: Position,
    task: Position,
    result: Option<Arc<Prepared>>,
    /// It came to a status, be it the one it had: a task may be released again and again.
    moved: bool,
    /// Whose report brought it to its status.
    by: Option<ExecutorName>,
    /// Who had it, and has to be told.
    from: Option<ExecutorName>,
}

impl Table {
    pub(super) fn new(now: Moment, max_attempts: u32) -> Table {
        Table {
            now,
            age: None,
            max_attempts,
            tasks: BTreeMap::new(),
        }
    }

    /// What is done is stamped with the store's age. Where that was not read, the leader stamps it later.
    pub(super) fn at_age(self, age: Option<Age>) -> Table {
        Table { age, ..self }
    }

    /// When something happens to a task: now, but not before anything that happened to it earlier. The clock may
    /// have been set back since, or be that of another judicator.
    pub(super) fn time_of(&self, task: &Position) -> Moment {
        self.now.max(task.latest())
    }

    /// One that is on the table already stays as it is.
    pub(super) fn lay(&mut self, task: Position) {
        self.tasks.entry(task.id).or_insert_with(|| Entry {
            seen: task.clone(),
            task,
            result: None,
            moved: false,
            by: None,
            from: None,
        });
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&Position> {
        self.tasks.get(&id).map(|entry| &entry.task)
    }

    /// What a session holds, oldest first.
    pub(super) fn held(&self, executor: &ExecutorName, session: SessionId) -> Vec<Position> {
        let all = self.tasks.values().map(|entry| &entry.task);
        let mut held: Vec<_> = all
            .filter(|task| task.executor.as_ref() == Some(executor) && task.session == Some(session))
            .cloned()
            .collect();
        held.sort_unstable_by_key(|task| (task.add_time, task.id));
        held
    }

    /// What the executor holds in sessions other than this one.
    pub(super) fn held_otherwise(&self, executor: &ExecutorName, session: SessionId) -> Vec<Position> {
        let all = self.tasks.values().map(|entry| &entry.task);
        all.filter(|task| task.executor.as_ref() == Some(executor) && task.session != Some(session))
            .cloned()
            .collect()
    }

    /// What waits, the first in the queue first.
    pub(super) fn waiting(&self) -> Vec<Position> {
        let all = self.tasks.values().map(|entry| &entry.task);
        let mut waiting: Vec<_> = all.filter(|task| task.waits()).cloned().collect();
        waiting.sort_unstable_by_key(|task| (-i64::from(task.priority), task.add_time, task.id));
        waiting
    }

    /// Takes a held task back into the queue, or ends it if it was lost too often.
    pub(super) fn release(&mut self, id: TaskId, why: Release<'_>) {
        let max_attempts = self.max_attempts;
        let Some(entry) = self.tasks.get_mut(&id) else {
            return;
        };
        match entry.task.losses.after(why, max_attempts) {
            Released::Retry { losses, trouble } => {
                entry.task.losses = losses;
                entry.task.trouble = trouble.or(entry.task.trouble.take());
                entry.leave_executor(Status::Retrying);
            }
            Released::GiveUp { losses, trouble } => {
                entry.task.losses = losses;
                self.give_up(id, &trouble);
            }
        }
    }

    /// Ends a task that the platform cannot run.
    pub(super) fn give_up(&mut self, id: TaskId, trouble: &str) {
        let (now, age) = (self.now, self.age);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.end(now, age);
            entry.task.trouble = Some(trouble.to_string());
            entry.leave_executor(Status::SystemError);
        }
    }

    /// Commits the result of the attempt that is out.
    pub(super) fn finish(&mut self, id: TaskId, status: Status, result: &Arc<Prepared>, by: &ExecutorName) {
        let (now, age) = (self.now, self.age);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.result = Some(result.clone());
            entry.by = Some(by.clone());
            entry.end(now, age);
            entry.task.report_time = entry.task.finish_time;
            entry.task.trouble = None;
            entry.leave_executor(status);
        }
    }

    pub(super) fn record(&mut self, id: TaskId, status: Status, by: &ExecutorName) {
        let now = self.now;
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.by = Some(by.clone());
            entry.moved = true;
            entry.task.status = status;
            entry.task.report_time = Some(now.max(entry.task.latest()));
        }
    }

    pub(super) fn take(&mut self, id: TaskId, report: &Report) {
        let now = self.now;
        if let Some(Entry { task, .. }) = self.tasks.get_mut(&id) {
            task.executor = Some(report.executor.clone());
            task.session = Some(report.session);
            task.attempt = task.attempt.next();
            task.given = report.seq;
            task.start_time = Some(now.max(task.latest()));
        }
    }

    pub(super) fn cancel(&mut self, id: TaskId) {
        let (now, age) = (self.now, self.age);
        self.withdraw(id);
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.end(now, age);
            entry.leave_executor(Status::Cancelled);
        }
    }

    /// Its executor is to be told that it must not go on with it.
    pub(super) fn withdraw(&mut self, id: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&id) {
            entry.from = entry.task.executor.clone();
        }
    }

    /// By how much the sums change.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for entry in self.changed() {
            tally.moved(&entry.seen, &entry.task);
        }
        tally
    }

    /// Writes what has changed.
    pub(super) fn write(&self, transaction: &mut Transaction) -> Result<(), Failure> {
        let results = self.changed().filter_map(|entry| entry.result.as_deref());
        content::write(results, transaction)?;
        transaction.update_alike(TASKS, self.updates()?)
    }

    /// Those that differ in nothing but the task are one: a claim of many is the same for all of them.
    fn updates(&self) -> Result<Vec<Update>, Failure> {
        let mut alike: HashMap<Vec<u8>, Update> = HashMap::new();
        for entry in self.changed() {
            let (condition, change) = (entry.seen.as_seen(), entry.change(self.now)?);
            let key = serialize_to_vec(&doc! { "q": &condition, "u": &change }).map_err(Error::from)?;
            let update = alike.entry(key).or_insert_with(|| Update {
                ids: vec![],
                condition,
                change,
            });
            update.ids.push(entry.task.id.field());
        }
        Ok(alike.into_values().collect())
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed().next().is_some()
    }

    fn changed(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.tasks.values().filter(|entry| entry.seen != entry.task)
    }
}

impl Entry {
    fn end(&mut self, now: Moment, age: Option<Age>) {
        self.task.finish_time = Some(now.max(self.task.latest()));
        self.task.finish_age = age;
    }

    fn leave_executor(&mut self, status: Status) {
        self.moved = true;
        self.task.status = status;
        self.task.executor = None;
        self.task.session = None;
    }

    fn change(&self, now: Moment) -> Result<Document, Failure> {
        let Entry { seen, task, .. } = self;
        let mut change = Change::default();
        change.put("status", seen.status.field(), task.status.field());
        change.put("executor", seen.executor.field(), task.executor.field());
        change.put("session", seen.session.field(), task.session.field());
        change.put("attempt", seen.attempt.field(), task.attempt.field());
        change.put("lost", seen.losses.lost.field(), task.losses.lost.field());
        change.put(
            "platform_losses",
            seen.losses.platform.field(),
            task.losses.platform.field(),
        );
        change.put("given", seen.given.field(), task.given.field());
        change.put("start_time", seen.start_time.field(), task.start_time.field());
        change.put("report_time", seen.report_time.field(), task.report_time.field());
        change.put("finish_time", seen.finish_time.field(), task.finish_time.field());
        change.put("finish_age", seen.finish_age.field(), task.finish_age.field());
        change.put("trouble", seen.trouble.field(), task.trouble.field());
        change.put("waits", waits(seen), waits(task));
        if let Some(result) = &self.result {
            let content = serialize_to_bson(&result.content).map_err(Error::from)?;
            change.put("result", Bson::Null, content);
        }
        if self.moved {
            change.put("news", Bson::Null, self.news(now).into());
        }
        Ok(change.into_document())
    }

    /// What `changes` reads. Always written as one, for a change stream shows only what differs from before.
    fn news(&self, now: Moment) -> Document {
        doc! {
            "status": self.task.status.field(),
            "by": self.by.field(),
            "from": self.from.field(),
            "time": now.max(self.task.latest()).field(),
        }
    }
}

fn waits(task: &Position) -> Bson {
    if task.waits() { true.into() } else { Bson::Null }
}

/// What an update sets and what it takes away.
#[derive(Default)]
struct Change {
    set: Document,
    unset: Document,
}

impl Change {
    fn put(&mut self, name: &str, old: Bson, new: Bson) {
        if old == new {
            return;
        }
        match new {
            Bson::Null => drop(self.unset.insert(name, "")),
            new => drop(self.set.insert(name, new)),
        }
    }

    fn into_document(self) -> Document {
        let mut document = Document::new();
        if !self.set.is_empty() {
            document.insert("$set", self.set);
        }
        if !self.unset.is_empty() {
            document.insert("$unset", self.unset);
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use model::{Attempt, Losses, Need, Seq};

    use super::*;

    fn held() -> Position {
        Position {
            id: TaskId::generate(),
            priority: 0,
            add_time: Moment(1),
            status: Status::Retrying,
            executor: Some(ExecutorName::new("e").unwrap()),
            session: Some(SessionId::generate()),
            attempt: Attempt(2),
            losses: Losses { lost: 1, platform: 0 },
            need: Need::default(),
            given: Seq(3),
            start_time: Some(Moment(2)),
            report_time: None,
            finish_time: None,
            finish_age: None,
            trouble: None,
            spec_size: 0,
        }
    }

    fn change(change: impl FnOnce(&mut Table, TaskId)) -> Document {
        let task = held();
        let id = task.id;
        let mut table = Table::new(Moment(9), 3);
        table.lay(task);
        change(&mut table, id);
        table.tasks[&id].change(table.now).unwrap()
    }

    #[test]
    fn a_write_is_bound_to_what_was_read_and_says_only_what_differs() {
        let change = change(|table, id| table.release(id, Release::Lost("gone")));
        let condition = held().as_seen();
        assert_eq!(condition.get("status"), Some(&"retrying".into()));
        assert_eq!(condition.get("executor"), Some(&"e".into()));
        assert_eq!(condition.get("attempt"), Some(&2_i64.into()));
        let names = |part: &str| {
            let part = change.get_document(part).unwrap();
            part.keys().cloned().collect::<Vec<_>>()
        };
        // The status is the same, and is told all the same.
        assert_eq!(names("$set"), ["lost", "trouble", "waits", "news"]);
        assert_eq!(names("$unset"), ["executor", "session"]);
    }

    #[test]
    fn who_has_to_stop_is_told() {
        let told = |change: Document| {
            let set = change.get_document("$set").unwrap();
            set.get_document("news").unwrap().get("from").cloned()
        };
        assert_eq!(told(change(Table::cancel)), Some("e".into()));
        let given_back = change(|table, id| table.release(id, Release::GivenBack));
        assert_eq!(told(given_back), Some(Bson::Null));
    }

    #[test]
    fn what_is_alike_is_written_at_once() {
        let mut table = Table::new(Moment(9), 3);
        let session = SessionId::generate();
        let ids: Vec<_> = (0..3)
            .map(|lost| {
                let task = Position {
                    losses: Losses {
                        lost: lost / 2,
                        platform: 0,
                    },
                    session: Some(session),
                    ..held()
                };
                table.lay(task.clone());
                table.release(task.id, Release::Lost("gone"));
                task.id
            })
            .collect();
        let mut sizes: Vec<_> = table
            .updates()
            .unwrap()
            .iter()
            .map(|update| update.ids.len())
            .collect();
        sizes.sort_unstable();
        assert_eq!((ids.len(), sizes), (3, vec![1, 2]));
    }

    #[test]
    fn too_many_losses_end_a_task() {
        let mut table = Table::new(Moment(9), 2);
        let task = held();
        let id = task.id;
        table.lay(task);
        table.release(id, Release::Lost("gone"));
        let task = table.get(id).unwrap();
        assert_eq!(
            (task.status, task.finish_time),
            (Status::SystemError, Some(Moment(9)))
        );
        assert_eq!(task.trouble.as_deref(), Some("lost 2 times: gone"));
    }
}
