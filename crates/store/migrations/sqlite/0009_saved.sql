-- 1 if the session got everything up to this step in the commit of the step. That is a feed of its own: the one after the step's.
ALTER TABLE run_step ADD COLUMN saved BIGINT NOT NULL DEFAULT 0;
