-- Steps and events name their run by a short number: it is compared and stored many times for each step, and an id is 30 letters.
-- It is the position of the run's first event, so it is unique and rises. Runs that were there before are counted instead: each
-- of them has an event, so these numbers are not above any position that is still to come.
ALTER TABLE run ADD COLUMN no BIGINT NOT NULL DEFAULT 0;
UPDATE run SET no = counted.no
  FROM (SELECT id, row_number() OVER (ORDER BY id) AS no FROM run) counted WHERE counted.id = run.id;

DROP INDEX run_step_blob;
ALTER TABLE run_step RENAME TO run_step_by_id;
CREATE TABLE run_step (
  run_no BIGINT NOT NULL, step BIGINT NOT NULL, kind TEXT NOT NULL, v BIGINT NOT NULL DEFAULT 1, state TEXT NOT NULL,
  effect_key TEXT, effect_class TEXT, input_hash TEXT, call_id TEXT, name TEXT,
  tries BIGINT NOT NULL DEFAULT 1, epoch BIGINT NOT NULL, fed BIGINT, message_id TEXT, body TEXT, blob TEXT,
  reserved_micros BIGINT NOT NULL DEFAULT 0, started BIGINT NOT NULL, ended BIGINT, saved BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (run_no, step)
) WITHOUT ROWID;
INSERT INTO run_step (run_no, step, kind, v, state, effect_key, effect_class, input_hash, call_id, name, tries, epoch, fed,
    message_id, body, blob, reserved_micros, started, ended, saved)
  SELECT r.no, s.step, s.kind, s.v, s.state, s.effect_key, s.effect_class, s.input_hash, s.call_id, s.name, s.tries, s.epoch, s.fed,
    s.message_id, s.body, s.blob, s.reserved_micros, s.started, s.ended, s.saved
    FROM run_step_by_id s JOIN run r ON r.id = s.run_id ORDER BY r.no, s.step;
DROP TABLE run_step_by_id;
CREATE INDEX run_step_blob ON run_step(blob) WHERE blob IS NOT NULL;

DROP INDEX run_event_blob;
ALTER TABLE run_event RENAME TO run_event_by_id;
CREATE TABLE run_event (
  pos INTEGER PRIMARY KEY, run_id TEXT NOT NULL, run_no BIGINT NOT NULL, seq BIGINT NOT NULL,
  epoch BIGINT NOT NULL, attempt_no BIGINT NOT NULL,
  kind TEXT NOT NULL, at BIGINT NOT NULL, message_id TEXT, body TEXT, blob TEXT,
  UNIQUE (run_no, seq)
);
INSERT INTO run_event (pos, run_id, run_no, seq, epoch, attempt_no, kind, at, message_id, body, blob)
  SELECT e.pos, e.run_id, r.no, e.seq, e.epoch, e.attempt_no, e.kind, e.at, e.message_id, e.body, e.blob
    FROM run_event_by_id e JOIN run r ON r.id = e.run_id ORDER BY e.pos;
DROP TABLE run_event_by_id;
CREATE INDEX run_event_blob ON run_event(blob) WHERE blob IS NOT NULL;
