-- Values of the state that outlive a run: of a session, of a user, of everybody (whose owner is '').
CREATE TABLE shared_state (
  namespace TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
  run_id TEXT NOT NULL, updated BIGINT NOT NULL,
  PRIMARY KEY (namespace, scope, owner, name)
) WITHOUT ROWID;
