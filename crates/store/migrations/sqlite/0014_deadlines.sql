-- The row of a run says when its time is over, and an index finds those whose time is: no timer says it once more.
DELETE FROM timer WHERE kind = 'run_deadline';
CREATE INDEX run_deadline ON run(deadline) WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL;
