-- Tasks, runs and messages for them lie in the order in which they come, and are found by a short key beside them. They lay in the
-- order of their ids before, each row in a tree that is also its own index: seven runs fill a page of it, so it was deep, and one
-- insert in seven took pages apart.
-- What a run may do is the same for nearly all runs of a class; then the class says it and the run nothing.
-- A run names its task and its class, and `provost db check` looks whether they are there: each is stored in the transaction that
-- stores the run, or was read in it.
ALTER TABLE exec_class ADD COLUMN policy TEXT NOT NULL DEFAULT '';

ALTER TABLE run RENAME TO run_by_id;
DROP INDEX run_ready;
DROP INDEX run_waiting;
DROP INDEX run_of_task;
DROP INDEX run_live;
DROP INDEX run_one_writer;
DROP INDEX run_listed;
DROP INDEX run_leased;
DROP INDEX run_deadline;
DROP INDEX run_below;
CREATE TABLE run (
  id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL, ordinal BIGINT NOT NULL,
  session_id TEXT NOT NULL, class_key TEXT NOT NULL, pool TEXT NOT NULL DEFAULT 'default',
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
INSERT INTO run (
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
FROM run_by_id ORDER BY id;
DROP TABLE run_by_id;
CREATE INDEX run_ready ON run(class_key, rank, id) WHERE phase = 'queued' AND ready = 1;
CREATE INDEX run_waiting ON run(namespace, session_id, rank, id) WHERE phase = 'queued';
CREATE INDEX run_of_task ON run(task_id, ordinal);
-- Most tasks have one run, which is found by its place.
CREATE INDEX run_live ON run(task_id, ordinal) WHERE phase <> 'done' AND ordinal > 1;
CREATE UNIQUE INDEX run_one_writer ON run(namespace, session_id) WHERE holds_session = 1;
CREATE INDEX run_listed ON run(namespace, id);
CREATE INDEX run_leased ON run(lease_owner, lease_until) WHERE phase = 'leased';
CREATE INDEX run_deadline ON run(deadline) WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL;
CREATE INDEX run_below ON run(parent_run_id, parent_step, phase, not_before, rank, id)
  WHERE parent_run_id IS NOT NULL AND phase <> 'done';
CREATE INDEX run_parked ON run(parked_for) WHERE phase = 'parked';

ALTER TABLE task RENAME TO task_by_id;
DROP INDEX task_listed;
DROP INDEX task_by_session;
DROP INDEX task_labelled;
DROP INDEX task_children;
CREATE TABLE task (
  id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, agent TEXT NOT NULL, agent_revision BIGINT NOT NULL,
  session_id TEXT NOT NULL, parent_task_id TEXT,
  state TEXT NOT NULL, queue_mode TEXT NOT NULL, priority BIGINT NOT NULL DEFAULT 0,
  command TEXT NOT NULL, label TEXT, spawned_by TEXT,
  current_run_id TEXT, run_count BIGINT NOT NULL DEFAULT 0, next_input BIGINT NOT NULL DEFAULT 1,
  drop_reason TEXT, waiting_for TEXT, wake_at BIGINT, deadline BIGINT,
  cost_micros BIGINT NOT NULL DEFAULT 0, version BIGINT NOT NULL DEFAULT 0,
  created BIGINT NOT NULL, updated BIGINT NOT NULL, ended BIGINT, archived BIGINT
);
INSERT INTO task (
  id, namespace, agent, agent_revision, session_id, parent_task_id, state, queue_mode, priority, command, label,
    spawned_by, current_run_id, run_count, next_input, drop_reason, waiting_for, wake_at, deadline, cost_micros,
    version, created, updated, ended, archived
)
SELECT
  id, namespace, agent, agent_revision, session_id, parent_task_id, state, queue_mode, priority, command, label,
    spawned_by, current_run_id, run_count, next_input, drop_reason, waiting_for, wake_at, deadline, cost_micros,
    version, created, updated, ended, archived
FROM task_by_id ORDER BY id;
DROP TABLE task_by_id;
CREATE INDEX task_listed ON task(namespace, id);
CREATE INDEX task_by_session ON task(namespace, session_id, id);
CREATE INDEX task_labelled ON task(namespace, label, id) WHERE label IS NOT NULL;
CREATE INDEX task_children ON task(parent_task_id, id) WHERE parent_task_id IS NOT NULL;

ALTER TABLE input RENAME TO input_by_id;
DROP INDEX input_by_key;
DROP INDEX input_pending;
DROP INDEX input_of_run;
CREATE TABLE input (
  id TEXT NOT NULL PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT, seq BIGINT NOT NULL,
  mode TEXT NOT NULL, kind TEXT NOT NULL, message_id TEXT NOT NULL, provenance TEXT NOT NULL, request_hash TEXT NOT NULL,
  idem_key TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, claimed_epoch BIGINT, due BIGINT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL,
  UNIQUE (task_id, seq)
);
INSERT INTO input (
  id, namespace, task_id, run_id, seq, mode, kind, message_id, provenance, request_hash, idem_key, state, outcome,
    claimed_epoch, due, created, updated
)
SELECT
  id, namespace, task_id, run_id, seq, mode, kind, message_id, provenance, request_hash, idem_key, state, outcome,
    claimed_epoch, due, created, updated
FROM input_by_id ORDER BY id;
DROP TABLE input_by_id;
CREATE UNIQUE INDEX input_by_key ON input(task_id, idem_key) WHERE idem_key <> '';
-- Most tasks have one message, which is found by its place.
CREATE INDEX input_pending ON input(task_id, seq) WHERE state = 'pending' AND seq > 1;
CREATE INDEX input_of_run ON input(run_id, seq) WHERE run_id IS NOT NULL;
