-- Who did what, and what was used. Rows are only ever added, and taken away when their time is over.
CREATE TABLE audit (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, at BIGINT NOT NULL, action TEXT NOT NULL, outcome TEXT NOT NULL,
  resource TEXT NOT NULL, run_id TEXT, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX audit_by_namespace ON audit (namespace, id);
CREATE INDEX audit_by_run ON audit (run_id, id) WHERE run_id IS NOT NULL;
CREATE TABLE meter (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL, agent TEXT NOT NULL,
  run_id TEXT, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX meter_by_namespace ON meter (namespace, id);
