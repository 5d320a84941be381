-- Facts about the database itself. `generation` rises with each restore, so that what was leased before is fenced.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('generation', '0');

-- Lets the sweep of unused blobs start with the oldest, without reading what they hold.
CREATE INDEX blob_by_age ON blob(created);

CREATE INDEX run_listed ON run(namespace, id);
CREATE INDEX outbox_done ON outbox(done) WHERE done IS NOT NULL;
