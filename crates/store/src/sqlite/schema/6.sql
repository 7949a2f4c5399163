-- What tasks have since form 4. `form` is the version of the task's form (`model::TaskForm`); the tasks of earlier versions
-- get 3. `grp` is the name of the task's group. `retried` is set if another task repeats this one. `ran_on` lists the
-- newest attempts that have ended. `max_attempts` is null if the operator's bound applies.
ALTER TABLE tasks ADD COLUMN form INTEGER NOT NULL DEFAULT 3;
ALTER TABLE tasks ADD COLUMN max_attempts INTEGER;
ALTER TABLE tasks ADD COLUMN reason TEXT;
ALTER TABLE tasks ADD COLUMN grp TEXT;
ALTER TABLE tasks ADD COLUMN labels BLOB;
ALTER TABLE tasks ADD COLUMN retried INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN ran_on BLOB;

-- A task without a group is in neither index.
CREATE INDEX tasks_by_user_group ON tasks (user, grp) WHERE grp IS NOT NULL;
CREATE INDEX tasks_by_group ON tasks (grp) WHERE grp IS NOT NULL;

-- One row for each label of each task, to search by them. `owner` is the user of the task and `task` its `seq`. A search of
-- one user must not examine the tasks of others, so it has an order of its own.
CREATE TABLE labels (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    task INTEGER NOT NULL,
    PRIMARY KEY (owner, key, value, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_of_all_users ON labels (key, value, task);

-- The counters of each group: its tasks by status, and its failed tasks by the reason of their last step. Every
-- transition keeps them up to date. Retried tasks are not counted. A group without tasks has no row.
CREATE TABLE groups (
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    add_time INTEGER NOT NULL,
    last_finish INTEGER,
    pending INTEGER NOT NULL DEFAULT 0,
    compiling INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    retrying INTEGER NOT NULL DEFAULT 0,
    success INTEGER NOT NULL DEFAULT 0,
    compile_failed INTEGER NOT NULL DEFAULT 0,
    run_failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    system_error INTEGER NOT NULL DEFAULT 0,
    failed_exited INTEGER NOT NULL DEFAULT 0,
    failed_signalled INTEGER NOT NULL DEFAULT 0,
    failed_time_limit INTEGER NOT NULL DEFAULT 0,
    failed_wall_limit INTEGER NOT NULL DEFAULT 0,
    failed_memory_limit INTEGER NOT NULL DEFAULT 0,
    failed_output_limit INTEGER NOT NULL DEFAULT 0,
    failed_process_limit INTEGER NOT NULL DEFAULT 0,
    failed_disk_limit INTEGER NOT NULL DEFAULT 0,
    failed_cancelled INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user, name)
) STRICT, WITHOUT ROWID;
