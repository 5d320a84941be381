-- The row of a run says everything itself: its policy, and the numbers of its next event and step, also while a worker holds it.
-- Steps and events refer to their run by its id.
UPDATE run SET policy = (SELECT c.policy FROM exec_class c WHERE c.key = run.class_key)
  WHERE policy = '' AND class_key IN (SELECT key FROM exec_class);
ALTER TABLE exec_class DROP COLUMN policy;

UPDATE run SET
  next_seq = MAX(next_seq, COALESCE((SELECT MAX(e.seq) + 1 FROM run_event e WHERE e.run_no = run.no), 0)),
  next_step = MAX(next_step, COALESCE((SELECT MAX(s.step) + 1 FROM run_step s WHERE s.run_no = run.no), 0))
  WHERE phase = 'leased';

DROP INDEX run_step_blob;
CREATE TABLE run_step_of_run (
  run_id TEXT NOT NULL, step BIGINT NOT NULL, kind TEXT NOT NULL, v BIGINT NOT NULL DEFAULT 1, state TEXT NOT NULL,
  effect_key TEXT, effect_class TEXT, input_hash TEXT, call_id TEXT, name TEXT,
  tries BIGINT NOT NULL DEFAULT 1, epoch BIGINT NOT NULL, fed BIGINT, message_id TEXT, body TEXT, blob TEXT,
  reserved_micros BIGINT NOT NULL DEFAULT 0, started BIGINT NOT NULL, ended BIGINT, saved BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (run_id, step)
);
INSERT INTO run_step_of_run (run_id, step, kind, v, state, effect_key, effect_class, input_hash, call_id, name, tries, epoch, fed,
    message_id, body, blob, reserved_micros, started, ended, saved)
  SELECT r.id, s.step, s.kind, s.v, s.state, s.effect_key, s.effect_class, s.input_hash, s.call_id, s.name, s.tries, s.epoch, s.fed,
    s.message_id, s.body, s.blob, s.reserved_micros, s.started, s.ended, s.saved
    FROM run_step s JOIN run r ON r.no = s.run_no ORDER BY s.rowid;
DROP TABLE run_step;
ALTER TABLE run_step_of_run RENAME TO run_step;
CREATE INDEX run_step_blob ON run_step(blob) WHERE blob IS NOT NULL;
-- Metrics count the steps without an outcome.
CREATE INDEX run_step_open ON run_step(state) WHERE state IN ('planned', 'started', 'unknown');

DROP INDEX run_event_blob;
CREATE TABLE run_event_of_run (
  pos INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq BIGINT NOT NULL,
  epoch BIGINT NOT NULL, attempt_no BIGINT NOT NULL,
  kind TEXT NOT NULL, at BIGINT NOT NULL, message_id TEXT, body TEXT, blob TEXT,
  UNIQUE (run_id, seq)
);
INSERT INTO run_event_of_run (pos, run_id, seq, epoch, attempt_no, kind, at, message_id, body, blob)
  SELECT pos, run_id, seq, epoch, attempt_no, kind, at, message_id, body, blob FROM run_event ORDER BY pos;
DROP TABLE run_event;
ALTER TABLE run_event_of_run RENAME TO run_event;
CREATE INDEX run_event_blob ON run_event(blob) WHERE blob IS NOT NULL;

ALTER TABLE run DROP COLUMN no;
