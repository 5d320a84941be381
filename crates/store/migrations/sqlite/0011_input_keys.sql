-- Most messages come without a key of their caller: those have an empty one now, and are not in the index of keys.
CREATE TABLE input_with_keys (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT, seq BIGINT NOT NULL,
  mode TEXT NOT NULL, kind TEXT NOT NULL, message_id TEXT NOT NULL, provenance TEXT NOT NULL, request_hash TEXT NOT NULL,
  idem_key TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, claimed_epoch BIGINT, due BIGINT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL,
  UNIQUE (task_id, seq)
) WITHOUT ROWID;
INSERT INTO input_with_keys (id, namespace, task_id, run_id, seq, mode, kind, message_id, provenance, request_hash, idem_key,
  state, outcome, claimed_epoch, due, created, updated)
  SELECT id, namespace, task_id, run_id, seq, mode, kind, message_id, provenance, request_hash, idem_key,
  state, outcome, claimed_epoch, due, created, updated FROM input;
DROP TABLE input;
ALTER TABLE input_with_keys RENAME TO input;
CREATE UNIQUE INDEX input_by_key ON input(task_id, idem_key) WHERE idem_key <> '';
CREATE INDEX input_pending ON input(task_id, seq) WHERE state = 'pending';
CREATE INDEX input_of_run ON input(run_id, seq) WHERE run_id IS NOT NULL;
