-- Questions that several people, or certain ones, decide: who counts, who started the run, who has said what and when, as JSON.
-- Nothing where anybody's one answer settles it.
ALTER TABLE approval ADD COLUMN ballot TEXT;
