-- The book of the team that a run leads, as JSON: its members, their mail, their board.
CREATE TABLE team (run_id TEXT PRIMARY KEY, book TEXT NOT NULL, updated BIGINT NOT NULL) WITHOUT ROWID;
