-- Memories by owner, their vectors and words, and the conversations that are still to be read.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- `change` grows with every write to the owner's memories; whoever has read up to `epoch` or later can catch up.
CREATE TABLE owner (
    no     INTEGER PRIMARY KEY AUTOINCREMENT,
    name   TEXT NOT NULL UNIQUE,
    change INTEGER NOT NULL DEFAULT 0,
    epoch  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE memory (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    owner         INTEGER NOT NULL REFERENCES owner (no),
    id            BLOB NOT NULL,
    text          TEXT NOT NULL,
    category      TEXT,
    metadata      TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    valid_from    INTEGER NOT NULL,
    superseded_by BLOB,
    words         INTEGER NOT NULL,
    change        INTEGER NOT NULL,
    UNIQUE (owner, id)
) STRICT;
CREATE INDEX memory_by_change ON memory (owner, change);
CREATE INDEX memory_by_successor ON memory (owner, superseded_by) WHERE superseded_by IS NOT NULL;

-- Unit vectors as little-endian 32-bit floats.
CREATE TABLE vector (seq INTEGER PRIMARY KEY REFERENCES memory (seq), numbers BLOB NOT NULL) STRICT;

CREATE TABLE source (
    seq     INTEGER NOT NULL REFERENCES memory (seq),
    session TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (seq, session, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX source_by_session ON source (session, message);

-- Which memories hold which words. A word is a number made of the word and the owner, so the words of two owners never meet.
CREATE VIRTUAL TABLE word USING fts5 (words, content = '', detail = none, columnsize = 0, tokenize = 'ascii');
INSERT INTO word (word, rank) VALUES ('secure-delete', 1);

-- What was forgotten, for those who keep an index in memory.
CREATE TABLE gone (
    owner  INTEGER NOT NULL,
    change INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (owner, change, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE job (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    owner      INTEGER NOT NULL REFERENCES owner (no),
    session    TEXT NOT NULL,
    messages   TEXT NOT NULL,
    end_at     INTEGER NOT NULL,
    end_digest TEXT NOT NULL,
    attempt    INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    due        INTEGER NOT NULL,
    leased     INTEGER NOT NULL DEFAULT 0,
    given_up   INTEGER NOT NULL DEFAULT 0,
    problem    TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX job_by_owner ON job (owner, no);

CREATE TABLE cursor (
    owner   INTEGER NOT NULL REFERENCES owner (no),
    session TEXT NOT NULL,
    end_at  INTEGER NOT NULL,
    digest  TEXT NOT NULL,
    PRIMARY KEY (owner, session)
) STRICT, WITHOUT ROWID;
