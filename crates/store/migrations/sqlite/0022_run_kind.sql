-- A run is executed by the executor of its kind.
ALTER TABLE run ADD COLUMN kind TEXT NOT NULL DEFAULT 'agent';
