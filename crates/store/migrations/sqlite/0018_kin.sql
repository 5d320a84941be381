-- What a command begins has one family: the task, its session, its first run and its first message have the same digits in their
-- ids. Each of them is found by those, so what leads from one to another by an index leaves them out: `kin` is 1 for such a row.
-- Most tasks have no other rows. Rows of before have other ids and stay in the indexes.
ALTER TABLE task ADD COLUMN kin BIGINT NOT NULL DEFAULT 0;
DROP INDEX task_by_session;
CREATE INDEX task_by_session ON task(namespace, session_id, id) WHERE kin = 0;

ALTER TABLE run ADD COLUMN kin BIGINT NOT NULL DEFAULT 0;
DROP INDEX run_of_task;
CREATE INDEX run_of_task ON run(task_id, ordinal) WHERE kin = 0;
DROP INDEX run_listed;
CREATE INDEX run_listed ON run(namespace, id) WHERE kin = 0;
-- One that can be claimed is among those that can be; one that cannot is found here.
DROP INDEX run_waiting;
CREATE INDEX run_waiting ON run(namespace, session_id, rank, id) WHERE phase = 'queued' AND (kin = 0 OR ready = 0);

-- The place of a message in its task was a constraint of the table, which holds for every row: so the table is made anew.
ALTER TABLE input RENAME TO input_in_order;
DROP INDEX input_by_key;
DROP INDEX input_pending;
DROP INDEX input_of_run;
CREATE TABLE input (
  id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT, seq BIGINT NOT NULL,
  mode TEXT NOT NULL, kind TEXT NOT NULL, message_id TEXT NOT NULL, provenance TEXT NOT NULL, request_hash TEXT NOT NULL,
  idem_key TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, claimed_epoch BIGINT, due BIGINT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL, kin BIGINT NOT NULL DEFAULT 0
);
INSERT INTO input (
  id, namespace, task_id, run_id, seq, mode, kind, message_id, provenance, request_hash, idem_key, state, outcome,
    claimed_epoch, due, created, updated
)
SELECT
  id, namespace, task_id, run_id, seq, mode, kind, message_id, provenance, request_hash, idem_key, state, outcome,
    claimed_epoch, due, created, updated
FROM input_in_order ORDER BY id;
DROP TABLE input_in_order;
CREATE UNIQUE INDEX input_by_key ON input(task_id, idem_key) WHERE idem_key <> '';
CREATE UNIQUE INDEX input_of_task ON input(task_id, seq) WHERE kin = 0;
-- Most tasks have one message, which is found by its place.
CREATE INDEX input_pending ON input(task_id, seq) WHERE state = 'pending' AND seq > 1;
CREATE INDEX input_of_run ON input(run_id, seq) WHERE run_id IS NOT NULL AND kin = 0;
