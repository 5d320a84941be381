-- Facts that code read from the start of a text before.

-- 1 if a later `spawn_task` may continue the session.
ALTER TABLE session ADD COLUMN continuable BIGINT NOT NULL DEFAULT 0;
UPDATE session SET continuable = 1 WHERE id LIKE 'talk\_%' ESCAPE '\';

-- The task that an answer is about: the answer is removed together with it.
ALTER TABLE idem ADD COLUMN task_id TEXT;
UPDATE idem SET task_id = substr(scope, 7) WHERE scope LIKE 'input:%';
UPDATE idem SET task_id = json_extract(result, '$.accepted.task')
  WHERE (scope IN ('accept', 'run') OR scope LIKE 'accept:%') AND json_valid(result);
CREATE INDEX idem_by_task ON idem(task_id) WHERE task_id IS NOT NULL;
