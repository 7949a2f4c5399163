-- Attempts that the platform could not run. They do not count as losses (`lost`).
ALTER TABLE tasks ADD COLUMN platform_losses INTEGER NOT NULL DEFAULT 0;
