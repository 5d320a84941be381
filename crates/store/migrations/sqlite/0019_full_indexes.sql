-- Every index covers every row: `kin`, which left rows out of the indexes, goes away. A run refers to its task and to its class again.
-- Foreign keys are off while migrations run, so a row that refers to nothing is kept; `provost db check` reports it.
DROP INDEX task_by_session;
ALTER TABLE task DROP COLUMN kin;
CREATE INDEX task_by_session ON task(namespace, session_id, id);

DROP INDEX input_of_task;
DROP INDEX input_pending;
DROP INDEX input_of_run;
ALTER TABLE input DROP COLUMN kin;
CREATE UNIQUE INDEX input_of_task ON input(task_id, seq);
CREATE INDEX input_pending ON input(task_id, seq) WHERE state = 'pending';
CREATE INDEX input_of_run ON input(run_id, seq) WHERE run_id IS NOT NULL;

CREATE TABLE run_with_references (
  id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL REFERENCES task(id), ordinal BIGINT NOT NULL,
  session_id TEXT NOT NULL, class_key TEXT NOT NULL REFERENCES exec_class(key), pool TEXT NOT NULL DEFAULT 'default',
  agent TEXT NOT NULL, agent_revision BIGINT NOT NULL, policy TEXT NOT NULL,
  status TEXT NOT NULL, phase TEXT NOT NULL, outcome_code TEXT, detail TEXT,
  -- Claimable now: due, and first in its session. Rank orders them: the queueing time minus a minute for each priority.
  ready BIGINT NOT NULL DEFAULT 0, rank BIGINT NOT NULL, not_before BIGINT NOT NULL, deadline BIGINT, queue_deadline BIGINT, timeout_ms BIGINT,
  -- 1 while it is the one writer of its session: leased, or parked and holding it.
  -- `waits` is for which runs, as JSON, if it is parked until they end.
  holds_session BIGINT NOT NULL DEFAULT 0, parked_for TEXT, waits TEXT,
  epoch BIGINT NOT NULL DEFAULT 0, lease_owner TEXT, lease_until BIGINT, attempt_no BIGINT NOT NULL DEFAULT 0,
  claim_count BIGINT NOT NULL DEFAULT 0, crash_count BIGINT NOT NULL DEFAULT 0, failure_count BIGINT NOT NULL DEFAULT 0,
  cancel_requested BIGINT, cancel_code TEXT, interrupt_requested BIGINT, paused BIGINT,
  -- No step before `open_from` is without an outcome, so nobody has to look there.
  next_seq BIGINT NOT NULL DEFAULT 1, next_step BIGINT NOT NULL DEFAULT 1, open_from BIGINT NOT NULL DEFAULT 1,
  restricted BIGINT NOT NULL DEFAULT 0,
  base_revision BIGINT,
  -- `spawn` is what the parent wants of it, as JSON.
  parent_run_id TEXT, parent_step BIGINT, depth BIGINT NOT NULL DEFAULT 0, spawn TEXT,
  forked_from TEXT, forked_step BIGINT, min_build BIGINT NOT NULL DEFAULT 0,
  usage TEXT, cost_micros BIGINT NOT NULL DEFAULT 0, result TEXT,
  created BIGINT NOT NULL, started BIGINT, ended BIGINT, no BIGINT NOT NULL
);
INSERT INTO run_with_references (
  id, namespace, task_id, ordinal, session_id, class_key, pool, agent, agent_revision, policy, status, phase,
    outcome_code, detail, ready, rank, not_before, deadline, queue_deadline, timeout_ms, holds_session, parked_for,
    waits, epoch, lease_owner, lease_until, attempt_no, claim_count, crash_count, failure_count, cancel_requested,
    cancel_code, interrupt_requested, paused, next_seq, next_step, open_from, restricted, base_revision,
    parent_run_id, parent_step, depth, spawn, forked_from, forked_step, min_build, usage, cost_micros, result,
    created, started, ended, no
)
SELECT
  id, namespace, task_id, ordinal, session_id, class_key, pool, agent, agent_revision, policy, status, phase,
    outcome_code, detail, ready, rank, not_before, deadline, queue_deadline, timeout_ms, holds_session, parked_for,
    waits, epoch, lease_owner, lease_until, attempt_no, claim_count, crash_count, failure_count, cancel_requested,
    cancel_code, interrupt_requested, paused, next_seq, next_step, open_from, restricted, base_revision,
    parent_run_id, parent_step, depth, spawn, forked_from, forked_step, min_build, usage, cost_micros, result,
    created, started, ended, no
FROM run ORDER BY id;
DROP TABLE run;
ALTER TABLE run_with_references RENAME TO run;
CREATE INDEX run_listed ON run(namespace, id);
CREATE INDEX run_of_task ON run(task_id, ordinal);
CREATE INDEX run_live ON run(task_id, ordinal) WHERE phase <> 'done';
CREATE INDEX run_of_session ON run(namespace, session_id, id);
CREATE INDEX run_children ON run(parent_run_id, parent_step, phase, not_before, rank, id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX run_ready ON run(class_key, rank, id) WHERE phase = 'queued' AND ready = 1;
CREATE INDEX run_waiting ON run(namespace, session_id, rank, id) WHERE phase = 'queued';
CREATE UNIQUE INDEX run_one_writer ON run(namespace, session_id) WHERE holds_session = 1;
CREATE INDEX run_leased ON run(lease_owner, lease_until) WHERE phase = 'leased';
CREATE INDEX run_parked ON run(parked_for) WHERE phase = 'parked';
CREATE INDEX run_deadline ON run(deadline) WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL;
