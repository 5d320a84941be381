-- The book of the team that a run leads, as JSON: its members, their mail, their board.
CREATE TABLE team (run_id TEXT PRIMARY KEY, book TEXT NOT NULL, updated BIGINT NOT NULL) WITHOUT ROWID;

-- Children of one call that wait for another of them to end before they begin: their time is the last moment of the year 9999.
CREATE INDEX run_held ON run(parent_run_id, parent_step, rank, id) WHERE phase = 'queued' AND not_before = 253402300799000;
-- Children that have not ended, by the call that started them.
CREATE INDEX run_live_children ON run(parent_run_id, parent_step) WHERE parent_run_id IS NOT NULL AND phase <> 'done';
