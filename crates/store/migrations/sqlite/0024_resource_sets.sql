-- The documents of manifests are rows, so that a run reads none of a worker's files.

-- Sets of resources by the hash of their content. A row never changes.
CREATE TABLE resource_set (
  hash TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL, created BIGINT NOT NULL
) WITHOUT ROWID;

-- The sets that were applied, in order. The newest one is current.
CREATE TABLE resource_set_version (
  version INTEGER NOT NULL PRIMARY KEY, hash TEXT NOT NULL REFERENCES resource_set(hash), applied BIGINT NOT NULL
);

-- The set that a run uses in all its attempts. NULL if there was none.
ALTER TABLE run ADD COLUMN resource_set TEXT;
