-- What a worker takes and how much of it, so that whoever looks at the database can tell why a run waits.
-- `focus` is a JSON list of [namespace, session]; without it every session is served.
ALTER TABLE worker ADD COLUMN pool TEXT NOT NULL DEFAULT 'default';
ALTER TABLE worker ADD COLUMN capacity BIGINT NOT NULL DEFAULT 64;
ALTER TABLE worker ADD COLUMN focus TEXT;
ALTER TABLE worker ADD COLUMN idle_until BIGINT;
ALTER TABLE worker ADD COLUMN draining BIGINT;
