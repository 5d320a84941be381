-- Events up to this position of the log may have been removed because they were old.
INSERT INTO meta (key, value) VALUES ('log_floor', '0');

-- Who may use the run API. Only a hash of the secret is stored; scopes and namespaces are JSON lists, `*` is every namespace.
CREATE TABLE token (
  id TEXT PRIMARY KEY, hash TEXT NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL, namespaces TEXT NOT NULL,
  created BIGINT NOT NULL, expires BIGINT, revoked BIGINT, last_used BIGINT
) WITHOUT ROWID;

-- Addresses that are told what happens in a namespace. What signs a post is derived by whoever sends it and not stored. Posts were made for everything up to `cursor_pos`.
CREATE TABLE webhook (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, url TEXT NOT NULL, kinds TEXT NOT NULL,
  created BIGINT NOT NULL, disabled BIGINT, cursor_pos BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_listed ON webhook(namespace, id);

-- What is told. `event_key` is the run and the number of the event.
CREATE TABLE webhook_post (
  id TEXT PRIMARY KEY, webhook_id TEXT NOT NULL REFERENCES webhook(id), namespace TEXT NOT NULL, event_key TEXT NOT NULL,
  body TEXT NOT NULL, state TEXT NOT NULL, tries BIGINT NOT NULL DEFAULT 0,
  next_at BIGINT NOT NULL, give_up_at BIGINT NOT NULL, claimed_until BIGINT, last_status BIGINT, last_error TEXT,
  created BIGINT NOT NULL, updated BIGINT NOT NULL,
  UNIQUE (webhook_id, event_key)
) WITHOUT ROWID;
CREATE INDEX webhook_post_due ON webhook_post(webhook_id, next_at) WHERE state IN ('pending', 'sending');
CREATE INDEX webhook_post_listed ON webhook_post(webhook_id, id);
CREATE INDEX webhook_post_settled ON webhook_post(updated) WHERE state IN ('delivered', 'failed');

-- What lists are asked for. Most tasks have neither a label nor a parent, so most are in neither.
CREATE INDEX task_labelled ON task(namespace, label, id) WHERE label IS NOT NULL;
CREATE INDEX task_children ON task(parent_task_id, id) WHERE parent_task_id IS NOT NULL;
CREATE INDEX approval_listed ON approval(namespace, id);
CREATE INDEX approval_of_task ON approval(task_id, id);
