-- A parked run that waits for other runs has a join for each call that waits. Before, its row had them as JSON.
CREATE TABLE run_join (
  id TEXT NOT NULL PRIMARY KEY, run_id TEXT NOT NULL, mode TEXT NOT NULL, until BIGINT, call TEXT, again BIGINT NOT NULL,
  team_lead TEXT, mail_of TEXT
) WITHOUT ROWID;
CREATE INDEX run_join_of_run ON run_join(run_id, id);
CREATE TABLE run_dependency (
  join_id TEXT NOT NULL, place BIGINT NOT NULL, depends_on TEXT NOT NULL, done BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (join_id, place)
) WITHOUT ROWID;
CREATE INDEX run_dependency_open ON run_dependency(depends_on) WHERE done = 0;

INSERT INTO run_join (id, run_id, mode, until, call, again, team_lead, mail_of)
SELECT
  coalesce(w.value ->> '$.question', r.id), r.id, iif(w.value ->> '$.any', 'any', 'all'),
  coalesce(w.value ->> '$.until', iif(w.value ->> '$.timeout_ms' IS NULL, NULL, 0)),
  w.value -> '$.call', coalesce(w.value ->> '$.again', 0), w.value ->> '$.team.lead', w.value ->> '$.team.mail_of'
FROM run r, json_each(r.waits) w
WHERE r.phase = 'parked' AND r.parked_for IN ('child', 'approval') AND r.waits IS NOT NULL;
INSERT INTO run_dependency (join_id, place, depends_on, done)
SELECT coalesce(w.value ->> '$.question', r.id), d.key, d.value,
  NOT EXISTS (SELECT 1 FROM run live WHERE live.id = d.value AND live.phase <> 'done')
FROM run r, json_each(r.waits) w, json_each(w.value, '$.runs') d
WHERE r.phase = 'parked' AND r.parked_for IN ('child', 'approval') AND r.waits IS NOT NULL;
ALTER TABLE run DROP COLUMN waits;

-- A request says what it waits for. Before, that was known by its text.
UPDATE run_step SET body = replace(body,
    '"hint":"the program was interrupted while this ran: approve to run it again, deny to leave it"',
    '"kind":"effect_unknown","hint":"the program was interrupted while this ran: approve to run it again, deny to leave it"')
 WHERE kind = 'approval' AND body LIKE '%the program was interrupted while this ran%';
UPDATE approval SET request = json_set(request, '$.kind', 'effect_unknown') WHERE kind = 'effect_unknown';
-- A snapshot repeats the steps before it. One without these marks is left out, and its run is folded from its steps.
DELETE FROM run_snapshot WHERE run_id IN (SELECT id FROM run WHERE phase <> 'done');
