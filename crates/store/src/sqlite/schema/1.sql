-- The fields that change or are searched. Specs and results are in separate tables, so that a change of status rewrites
-- little.
--
-- `seq` is the add time in microseconds, strictly increasing. It is the key and orders the queue and all lists, so these
-- need no further index, and every index below ends with it.
-- A task with a finish time is done; a task with an executor is held. No task is both.
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    user TEXT NOT NULL,
    priority INTEGER NOT NULL,
    status INTEGER NOT NULL,
    executor TEXT,
    session BLOB,
    attempt INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    given INTEGER NOT NULL DEFAULT 0,
    start_time INTEGER,
    report_time INTEGER,
    finish_time INTEGER,
    trouble TEXT,
    command TEXT NOT NULL,
    compile TEXT
) STRICT;

CREATE INDEX tasks_waiting ON tasks (priority DESC) WHERE executor IS NULL AND finish_time IS NULL;
CREATE INDEX tasks_held ON tasks (executor, session) WHERE executor IS NOT NULL;
CREATE INDEX tasks_done ON tasks (finish_time) WHERE finish_time IS NOT NULL;
CREATE INDEX tasks_by_user ON tasks (user);
CREATE INDEX tasks_by_status ON tasks (status);

CREATE TABLE specs (seq INTEGER PRIMARY KEY, spec BLOB NOT NULL) STRICT;
CREATE TABLE results (seq INTEGER PRIMARY KEY, result BLOB NOT NULL) STRICT;

-- Counters, so that nothing has to be counted: tasks by status and held tasks. And the last add time, because add times
-- must increase even after the newest tasks are removed or the clock is set back.
CREATE TABLE ledger (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO ledger VALUES
    ('pending', 0), ('compiling', 0), ('running', 0), ('retrying', 0), ('success', 0), ('compile_failed', 0),
    ('run_failed', 0), ('cancelled', 0), ('system_error', 0), ('held', 0), ('last_add', 0);

CREATE TABLE executors (
    name TEXT PRIMARY KEY,
    session BLOB NOT NULL,
    seq INTEGER NOT NULL,
    live INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    since INTEGER NOT NULL,
    report_time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `refs` is the number of tasks that use the blob; the index finds unused blobs.
CREATE TABLE blobs (
    hash BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    used INTEGER NOT NULL,
    refs INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_idle ON blobs (used) WHERE refs = 0;
CREATE TABLE blob_refs (
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (seq, hash)
) STRICT, WITHOUT ROWID;
