-- Attempts that failed because of the platform alone. They do not use up the attempts that `lost` counts.
ALTER TABLE tasks ADD COLUMN platform_losses INTEGER NOT NULL DEFAULT 0;
