-- What a slot of the executor can give to one task, as the executor reports it.
ALTER TABLE executors ADD COLUMN memory INTEGER;
ALTER TABLE executors ADD COLUMN processes INTEGER;
ALTER TABLE executors ADD COLUMN open_files INTEGER;
