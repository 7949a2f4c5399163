-- Set while an operator has drained the executor. `drained_by` is the user, if known.
ALTER TABLE executors ADD COLUMN drain_reason TEXT;
ALTER TABLE executors ADD COLUMN drained_by TEXT;
ALTER TABLE executors ADD COLUMN drain_time INTEGER;
-- The load of the executor's machine at its last report.
ALTER TABLE executors ADD COLUMN load_hundredths INTEGER;
ALTER TABLE executors ADD COLUMN cores INTEGER;
ALTER TABLE executors ADD COLUMN memory_available INTEGER;
ALTER TABLE executors ADD COLUMN memory_total INTEGER;
