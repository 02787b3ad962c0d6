-- Where a run begins a turn of its thread, the time of the turn's last message in Unix milliseconds; 0 for other runs, and
-- -1 in rows of earlier versions. Most runs begin none, so the index skips nearly everything. See decision 0029.
ALTER TABLE runs @on_cluster ADD COLUMN IF NOT EXISTS turn_at Int64 DEFAULT -1;
ALTER TABLE runs @on_cluster ADD INDEX IF NOT EXISTS by_turn turn_at TYPE minmax GRANULARITY 1;
