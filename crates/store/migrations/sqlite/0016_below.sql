-- Runs that a run has started are found in one index as long as they have not ended: by their call, and those that are held in the
-- order in which they begin. After their end they are found through their tasks, which name the one above them.
DROP INDEX run_children;
DROP INDEX run_held;
DROP INDEX run_live_children;
CREATE INDEX run_below ON run(parent_run_id, parent_step, phase, not_before, rank, id)
  WHERE parent_run_id IS NOT NULL AND phase <> 'done';
