-- Steps lie in the order in which they begin, and are found by a short key beside them. Those of one run lay together before: of
-- many runs at once each step then changed a page of its own, and half of what a commit wrote were such pages.
DROP INDEX run_step_blob;
ALTER TABLE run_step RENAME TO run_step_by_run;
CREATE TABLE run_step (
  run_no BIGINT NOT NULL, step BIGINT NOT NULL, kind TEXT NOT NULL, v BIGINT NOT NULL DEFAULT 1, state TEXT NOT NULL,
  effect_key TEXT, effect_class TEXT, input_hash TEXT, call_id TEXT, name TEXT,
  tries BIGINT NOT NULL DEFAULT 1, epoch BIGINT NOT NULL, fed BIGINT, message_id TEXT, body TEXT, blob TEXT,
  reserved_micros BIGINT NOT NULL DEFAULT 0, started BIGINT NOT NULL, ended BIGINT, saved BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (run_no, step)
);
INSERT INTO run_step (run_no, step, kind, v, state, effect_key, effect_class, input_hash, call_id, name, tries, epoch, fed,
    message_id, body, blob, reserved_micros, started, ended, saved)
  SELECT run_no, step, kind, v, state, effect_key, effect_class, input_hash, call_id, name, tries, epoch, fed,
    message_id, body, blob, reserved_micros, started, ended, saved
    FROM run_step_by_run ORDER BY run_no, step;
DROP TABLE run_step_by_run;
CREATE INDEX run_step_blob ON run_step(blob) WHERE blob IS NOT NULL;
