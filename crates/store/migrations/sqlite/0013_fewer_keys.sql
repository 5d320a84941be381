-- What must be told has one key: its id, by which a receiver knows a repetition, too.
DROP INDEX outbox_ready;
DROP INDEX outbox_done;
ALTER TABLE outbox RENAME TO outbox_with_two_keys;
CREATE TABLE outbox (
  id TEXT PRIMARY KEY, namespace TEXT NOT NULL, topic TEXT NOT NULL, body TEXT NOT NULL,
  available BIGINT NOT NULL, tries BIGINT NOT NULL DEFAULT 0, claimed_until BIGINT, done BIGINT, last_error TEXT
) WITHOUT ROWID;
INSERT INTO outbox (id, namespace, topic, body, available, tries, claimed_until, done, last_error)
  SELECT dedupe_key, namespace, topic, body, available, tries, claimed_until, done, last_error FROM outbox_with_two_keys;
DROP TABLE outbox_with_two_keys;
CREATE INDEX outbox_ready ON outbox(available) WHERE done IS NULL;
CREATE INDEX outbox_done ON outbox(done) WHERE done IS NOT NULL;

-- A run that somebody works on is found by who that is. There are never more of them than all workers can carry, so those whose
-- time is over are looked for among all.
DROP INDEX run_leased;
DROP INDEX run_owned;
CREATE INDEX run_leased ON run(lease_owner, lease_until) WHERE phase = 'leased';
