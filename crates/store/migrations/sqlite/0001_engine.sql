-- Times are epoch milliseconds of the database's clock. JSON is TEXT. Money is millionths of the ledger's currency.
-- A body above the inline limit lives in `blob`; then `body` is NULL and `blob` holds its hash.

CREATE TABLE blob (
  hash TEXT PRIMARY KEY, size BIGINT NOT NULL, encoding TEXT NOT NULL, data BLOB NOT NULL, created BIGINT NOT NULL
);

CREATE TABLE agent (
  namespace TEXT NOT NULL, name TEXT NOT NULL, revision BIGINT NOT NULL,
  title TEXT, config TEXT NOT NULL, hash TEXT NOT NULL, created BIGINT NOT NULL, deleted BIGINT,
  PRIMARY KEY (namespace, name, revision)
) WITHOUT ROWID;

-- Runs that look the same to the scheduler share one budget of concurrency.
CREATE TABLE exec_class (
  key TEXT PRIMARY KEY, namespace TEXT NOT NULL, agent TEXT, lane TEXT, pool TEXT NOT NULL DEFAULT 'default',
  desired BIGINT NOT NULL, running BIGINT NOT NULL DEFAULT 0,
  health TEXT NOT NULL DEFAULT 'healthy', failures TEXT NOT NULL DEFAULT '[]', probe_at BIGINT,
  turn BIGINT NOT NULL DEFAULT 0, updated BIGINT NOT NULL,
  CHECK (running >= 0), CHECK (desired >= 0)
) WITHOUT ROWID;

CREATE INDEX exec_class_turn ON exec_class(pool, namespace, turn);

-- Ceilings across classes: `namespace:<name>`, `pool:<name>`, `credential:<name>`.
CREATE TABLE ceiling (
  scope TEXT PRIMARY KEY, desired BIGINT NOT NULL, running BIGINT NOT NULL DEFAULT 0, CHECK (running >= 0)
) WITHOUT ROWID;

CREATE TABLE session (
  namespace TEXT NOT NULL, id TEXT NOT NULL, key TEXT, agent TEXT, queue TEXT,
  revision BIGINT NOT NULL DEFAULT 0, next_entry BIGINT NOT NULL DEFAULT 1, fence BIGINT NOT NULL DEFAULT 0,
  holder_run_id TEXT, created BIGINT NOT NULL, updated BIGINT NOT NULL,
  PRIMARY KEY (namespace, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX session_by_key ON session(namespace, key) WHERE key IS NOT NULL;

-- The only place where a message is stored; steps, events and inputs name it by id.
CREATE TABLE message (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, body TEXT, blob TEXT, created BIGINT NOT NULL
) WITHOUT ROWID;

-- By these it is found out that nothing refers to a blob any more; only rows with a blob are in them.
CREATE INDEX message_blob ON message(blob) WHERE blob IS NOT NULL;

-- What a session consists of. Nothing is taken out: an entry is there from revision `added` until before revision `gone`.
CREATE TABLE session_entry (
  namespace TEXT NOT NULL, session_id TEXT NOT NULL, entry BIGINT NOT NULL, message_id TEXT NOT NULL,
  run_id TEXT NOT NULL, added BIGINT NOT NULL, gone BIGINT,
  PRIMARY KEY (namespace, session_id, entry)
) WITHOUT ROWID;

CREATE TABLE task (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, agent TEXT NOT NULL, agent_revision BIGINT NOT NULL,
  session_id TEXT NOT NULL, parent_task_id TEXT,
  state TEXT NOT NULL, queue_mode TEXT NOT NULL, priority BIGINT NOT NULL DEFAULT 0,
  command TEXT NOT NULL, label TEXT, spawned_by TEXT,
  current_run_id TEXT, run_count BIGINT NOT NULL DEFAULT 0, next_input BIGINT NOT NULL DEFAULT 1,
  drop_reason TEXT, waiting_for TEXT, wake_at BIGINT, deadline BIGINT,
  cost_micros BIGINT NOT NULL DEFAULT 0, version BIGINT NOT NULL DEFAULT 0,
  created BIGINT NOT NULL, updated BIGINT NOT NULL, ended BIGINT, archived BIGINT
) WITHOUT ROWID;
CREATE INDEX task_listed ON task(namespace, id);
CREATE INDEX task_by_session ON task(namespace, session_id, id);

CREATE TABLE run (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL REFERENCES task(id), ordinal BIGINT NOT NULL,
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
  created BIGINT NOT NULL, started BIGINT, ended BIGINT
) WITHOUT ROWID;
CREATE INDEX run_ready ON run(class_key, rank, id) WHERE phase = 'queued' AND ready = 1;
CREATE INDEX run_waiting ON run(namespace, session_id, rank, id) WHERE phase = 'queued';
CREATE INDEX run_leased ON run(lease_until) WHERE phase = 'leased';
CREATE INDEX run_owned ON run(lease_owner) WHERE phase = 'leased';
CREATE INDEX run_children ON run(parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX run_of_task ON run(task_id, ordinal);
CREATE INDEX run_live ON run(task_id, ordinal) WHERE phase <> 'done';
CREATE UNIQUE INDEX run_one_writer ON run(namespace, session_id) WHERE holds_session = 1;

CREATE TABLE attempt (
  run_id TEXT NOT NULL, attempt_no BIGINT NOT NULL, strategy TEXT NOT NULL, status TEXT NOT NULL, epoch BIGINT NOT NULL,
  provider TEXT, model TEXT, execution_id TEXT NOT NULL, worker_id TEXT NOT NULL,
  started BIGINT NOT NULL, ended BIGINT, outcome_code TEXT, detail TEXT,
  PRIMARY KEY (run_id, attempt_no)
) WITHOUT ROWID;

-- The journal. Each committed step holds what was fed to the run machine; `fed` is the order of feeding.
CREATE TABLE run_step (
  run_id TEXT NOT NULL, step BIGINT NOT NULL, kind TEXT NOT NULL, v BIGINT NOT NULL DEFAULT 1, state TEXT NOT NULL,
  effect_key TEXT, effect_class TEXT, input_hash TEXT, call_id TEXT, name TEXT,
  tries BIGINT NOT NULL DEFAULT 1, epoch BIGINT NOT NULL, fed BIGINT, message_id TEXT, body TEXT, blob TEXT,
  reserved_micros BIGINT NOT NULL DEFAULT 0, started BIGINT NOT NULL, ended BIGINT,
  PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
CREATE INDEX run_step_blob ON run_step(blob) WHERE blob IS NOT NULL;

-- The run machine as it stood after the step `fed`; steps after it are folded on top.
CREATE TABLE run_snapshot (
  run_id TEXT NOT NULL, fed BIGINT NOT NULL, body TEXT, blob TEXT, created BIGINT NOT NULL,
  PRIMARY KEY (run_id, fed)
) WITHOUT ROWID;
CREATE INDEX run_snapshot_blob ON run_snapshot(blob) WHERE blob IS NOT NULL;

-- The log. `pos` is the position in the whole of it, one more than the highest there is. SQLite has one writer at a time, so
-- positions are in the order of commits: who has read up to one has missed nothing before it. Where transactions commit beside
-- each other that is not so, and a position must be given out in another way.
-- The row with the highest position is never removed, so no position is given out twice.
CREATE TABLE run_event (
  pos INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq BIGINT NOT NULL, epoch BIGINT NOT NULL, attempt_no BIGINT NOT NULL,
  kind TEXT NOT NULL, at BIGINT NOT NULL, message_id TEXT, body TEXT, blob TEXT,
  UNIQUE (run_id, seq)
);
CREATE INDEX run_event_blob ON run_event(blob) WHERE blob IS NOT NULL;

CREATE TABLE input (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT, seq BIGINT NOT NULL,
  mode TEXT NOT NULL, kind TEXT NOT NULL, message_id TEXT NOT NULL, provenance TEXT NOT NULL, request_hash TEXT NOT NULL,
  idem_key TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, claimed_epoch BIGINT, due BIGINT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL,
  UNIQUE (task_id, idem_key), UNIQUE (task_id, seq)
) WITHOUT ROWID;
CREATE INDEX input_pending ON input(task_id, seq) WHERE state = 'pending';
CREATE INDEX input_of_run ON input(run_id, seq) WHERE run_id IS NOT NULL;

CREATE TABLE approval (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT NOT NULL, step BIGINT,
  kind TEXT NOT NULL, plan TEXT NOT NULL, plan_hash TEXT NOT NULL, request TEXT NOT NULL,
  state TEXT NOT NULL, decision TEXT, decided_by TEXT, decided BIGINT,
  expires BIGINT NOT NULL, fallback TEXT NOT NULL, created BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX approval_of_run ON approval(run_id, id);
CREATE INDEX approval_open ON approval(namespace, id) WHERE state = 'pending';

-- A yes that reaches further than one call: `run:<id>`, `session:<id>` or `agent:<name>`, for calls with this key.
CREATE TABLE approval_grant (
  namespace TEXT NOT NULL, scope TEXT NOT NULL, call_key TEXT NOT NULL, plan TEXT NOT NULL,
  granted_by TEXT NOT NULL, created BIGINT NOT NULL,
  PRIMARY KEY (namespace, scope, call_key)
) WITHOUT ROWID;

CREATE TABLE idem (
  namespace TEXT NOT NULL, scope TEXT NOT NULL, idem_key TEXT NOT NULL, request_hash TEXT NOT NULL,
  result TEXT NOT NULL, created BIGINT NOT NULL, expires BIGINT,
  PRIMARY KEY (namespace, scope, idem_key)
) WITHOUT ROWID;
CREATE INDEX idem_expiry ON idem(expires) WHERE expires IS NOT NULL;

CREATE TABLE outbox (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, topic TEXT NOT NULL, dedupe_key TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
  available BIGINT NOT NULL, tries BIGINT NOT NULL DEFAULT 0, claimed_until BIGINT, done BIGINT, last_error TEXT
) WITHOUT ROWID;
CREATE INDEX outbox_ready ON outbox(available) WHERE done IS NULL;

CREATE TABLE delivery (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, run_id TEXT NOT NULL,
  channel TEXT NOT NULL, target TEXT NOT NULL, send_key TEXT NOT NULL UNIQUE,
  generation BIGINT NOT NULL DEFAULT 1, message_id TEXT NOT NULL, state TEXT NOT NULL, tries BIGINT NOT NULL DEFAULT 0,
  next_at BIGINT NOT NULL, give_up_at BIGINT NOT NULL, claimed_until BIGINT, receipt TEXT, last_error TEXT,
  created BIGINT NOT NULL, updated BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery(next_at) WHERE state IN ('pending', 'sending');
CREATE INDEX delivery_of_run ON delivery(run_id, id);

CREATE TABLE timer (
  kind TEXT NOT NULL, ref TEXT NOT NULL, fire_at BIGINT NOT NULL, created BIGINT NOT NULL,
  PRIMARY KEY (kind, ref)
) WITHOUT ROWID;
CREATE INDEX timer_due ON timer(fire_at);

-- Money that may be spent: `task:<id>`, `session:<id>`, `agent:<name>`, `namespace`. Reserved before each model call.
CREATE TABLE budget (
  namespace TEXT NOT NULL, scope TEXT NOT NULL, cap_micros BIGINT NOT NULL, spent_micros BIGINT NOT NULL DEFAULT 0,
  reserved_micros BIGINT NOT NULL DEFAULT 0, currency TEXT NOT NULL, period TEXT, period_start BIGINT,
  PRIMARY KEY (namespace, scope), CHECK (reserved_micros >= 0)
) WITHOUT ROWID;

CREATE TABLE worker (
  id TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, build BIGINT NOT NULL, lock_path TEXT NOT NULL,
  started BIGINT NOT NULL, seen BIGINT NOT NULL, stopped BIGINT
) WITHOUT ROWID;

-- Unclean starts in a short time, so that a crash loop starts only the control plane.
CREATE TABLE boot (id TEXT PRIMARY KEY, started BIGINT NOT NULL, clean_stop BIGINT) WITHOUT ROWID;

CREATE TABLE schedule (
  namespace TEXT NOT NULL, id TEXT NOT NULL, timing TEXT NOT NULL, zone TEXT NOT NULL, command TEXT NOT NULL,
  catch_up TEXT NOT NULL, overlap TEXT NOT NULL, jitter_ms BIGINT NOT NULL DEFAULT 0,
  next_at BIGINT, active BIGINT NOT NULL DEFAULT 1, last_at BIGINT, last_task_id TEXT, last_error TEXT,
  created BIGINT NOT NULL, updated BIGINT NOT NULL,
  PRIMARY KEY (namespace, id)
) WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule(next_at) WHERE active = 1 AND next_at IS NOT NULL;
