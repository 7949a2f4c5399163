-- Retention compares ages of the store (`model::StoreAge`) instead of clock times. Existing tasks, blobs and executors
-- count as done, used and ended now, at age 0.
INSERT INTO ledger VALUES ('age', 0);

ALTER TABLE tasks ADD COLUMN finish_age INTEGER;
UPDATE tasks SET finish_age = 0 WHERE finish_time IS NOT NULL;
DROP INDEX tasks_done;
CREATE INDEX tasks_done ON tasks (finish_age) WHERE finish_age IS NOT NULL;

ALTER TABLE executors ADD COLUMN end_age INTEGER NOT NULL DEFAULT 0;

-- `damaged` is set when the file is missing or does not match the hash. Putting the blob again clears it.
DROP INDEX blobs_idle;
ALTER TABLE blobs DROP COLUMN used;
ALTER TABLE blobs ADD COLUMN used_age INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blobs ADD COLUMN damaged INTEGER NOT NULL DEFAULT 0;
CREATE INDEX blobs_idle ON blobs (used_age) WHERE refs = 0;
CREATE INDEX blobs_damaged ON blobs (hash) WHERE damaged = 1;
