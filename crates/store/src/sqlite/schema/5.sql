-- What the task needs of a slot, so that a claim can leave it to a larger executor. 0 means unknown.
ALTER TABLE tasks ADD COLUMN need_memory INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN need_processes INTEGER NOT NULL DEFAULT 0;
