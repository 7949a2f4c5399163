-- The newest form of tasks (`model::TaskForm`) that the executor knows. Null until its next report to this version.
ALTER TABLE executors ADD COLUMN newest_form INTEGER;

-- Judged tasks fail for two further reasons.
ALTER TABLE groups ADD COLUMN failed_wrong_answer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN failed_judge_error INTEGER NOT NULL DEFAULT 0;

-- Problems, by which tasks are judged. The encoded problem is the last column, so that a list does not read it.
CREATE TABLE problems (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    cases INTEGER NOT NULL,
    update_time INTEGER NOT NULL,
    problem BLOB NOT NULL
) STRICT;
CREATE INDEX problems_by_owner ON problems (owner);

-- The blobs of each problem. Each counts in `blobs.refs`, like a blob of a task.
CREATE TABLE problem_blobs (
    problem INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (problem, hash)
) STRICT, WITHOUT ROWID;
