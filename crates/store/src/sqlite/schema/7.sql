-- The language and root that the task needs (`model::ToolRequirement`, as its queue key). Empty if any executor may run it.
-- Each requirement has a queue of its own, so that tasks that no executor can run are in nobody's way.
ALTER TABLE tasks ADD COLUMN needs TEXT NOT NULL DEFAULT '';
DROP INDEX tasks_waiting;
CREATE INDEX tasks_waiting ON tasks (priority DESC)
    WHERE executor IS NULL AND finish_time IS NULL AND needs = '';
CREATE INDEX tasks_waiting_for_tools ON tasks (needs, priority DESC)
    WHERE executor IS NULL AND finish_time IS NULL AND needs <> '';

-- The languages and roots of the executor's last session. They are not in the table `executors`, because each report
-- rewrites its row there.
CREATE TABLE executor_tools (executor TEXT PRIMARY KEY, tools BLOB NOT NULL) STRICT;
