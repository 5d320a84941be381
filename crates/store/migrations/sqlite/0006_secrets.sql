-- Sealed secrets. Nothing here can be read without the master key, which is not in the database. The seal of a row holds only in
-- its place (namespace, name, key), with its key id and its revision.
CREATE TABLE secret (
  namespace TEXT NOT NULL, name TEXT NOT NULL, item TEXT NOT NULL, key_id TEXT NOT NULL, sealed BLOB NOT NULL,
  revision BIGINT NOT NULL, updated BIGINT NOT NULL,
  PRIMARY KEY (namespace, name, item)
) WITHOUT ROWID;
