//! What a worker writes while a run is under way. Each write begins with [`advance`], which changes nothing if another attempt
//! has taken the run.

use std::sync::LazyLock;

use provost_core::{InputId, MessageId, RunId};

use super::session::SessionRef;
use crate::transaction::text::Body;
use crate::transaction::value::number;
use crate::{StoreError, ToColumn, Tx, Value, params};

/// What a write of a worker changes in the row of its run.
#[derive(Debug, Clone, Copy)]
pub struct Advance {
    /// The run.
    pub run: RunId,
    /// The epoch of the attempt that writes.
    pub epoch: u64,
    /// How many events the write appends.
    pub events: u64,
    /// The first step number that is free afterwards.
    pub next_step: u64,
    /// No step before this one is without an outcome afterwards.
    pub open_from: u64,
    /// True if a step is committed: the run is not crashing in one place.
    pub progress: bool,
    /// True while only tools without effects may run.
    pub restricted: bool,
    /// What was spent.
    pub cost_micros: i64,
    /// The revision of its session that the run starts from, if it begins now.
    pub base_revision: Option<u64>,
}

/// Fences a write: locks the row of the run, takes the numbers of the events and moves the row on. Returns the number of the
/// first event; nothing if another attempt has taken the run.
pub fn advance(tx: &mut Tx<'_>, advance: &Advance) -> Result<Option<u64>, StoreError> {
    let Advance { run, epoch, events, next_step, open_from, .. } = *advance;
    let Advance { progress, restricted, cost_micros, base_revision, .. } = *advance;
    let sql = "UPDATE run SET next_seq = next_seq + ?3, \
               next_step = CASE WHEN ?4 > next_step THEN ?4 ELSE next_step END, open_from = ?5, restricted = ?7, \
               cost_micros = cost_micros + ?8, base_revision = COALESCE(?9, base_revision), \
               crash_count = CASE WHEN ?6 = 1 THEN 0 ELSE crash_count END \
               WHERE id = ?1 AND epoch = ?2 AND phase = 'leased' RETURNING next_seq - ?3";
    let values = params![
        run,
        epoch,
        events,
        next_step,
        open_from,
        progress,
        restricted,
        cost_micros,
        base_revision
    ];
    tx.optional_fenced(sql, values)
}

/// A step that begins: T1 of an effect.
#[derive(Debug, Clone, Copy)]
pub struct StepBegin<'a> {
    /// The run.
    pub run: RunId,
    /// Its number.
    pub step: u64,
    /// Its kind.
    pub kind: &'a str,
    /// The epoch of the attempt that begins it.
    pub epoch: u64,
    /// What is the same whenever the effect is repeated.
    pub effect_key: Option<&'a str>,
    /// What a repetition would do.
    pub effect_class: Option<&'a str>,
    /// The hash of what goes in.
    pub input_hash: Option<&'a str>,
    /// The tool call.
    pub call_id: Option<&'a str>,
    /// The tool or the model.
    pub name: Option<&'a str>,
    /// Money set aside for it.
    pub reserved_micros: i64,
    /// True if it may have been begun before.
    pub again: bool,
}

/// Writes down that an effect is about to happen; once more if it was begun before.
pub fn begin_step(tx: &mut Tx<'_>, begin: &StepBegin<'_>) -> Result<(), StoreError> {
    const FIRST: &str = "INSERT INTO run_step (run_id, step, kind, state, effect_key, effect_class, input_hash, \
        call_id, name, epoch, reserved_micros, started) \
        VALUES (?1, ?2, ?3, 'started', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    const AGAIN: &str = "INSERT INTO run_step (run_id, step, kind, state, effect_key, effect_class, input_hash, \
        call_id, name, epoch, reserved_micros, started) \
        VALUES (?1, ?2, ?3, 'started', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
        ON CONFLICT (run_id, step) DO UPDATE SET state = 'started', epoch = excluded.epoch, \
        tries = run_step.tries + 1, reserved_micros = excluded.reserved_micros, started = excluded.started";
    let sql = if begin.again { AGAIN } else { FIRST };
    let now = tx.now();
    let StepBegin { run, step, kind, epoch, effect_key, effect_class, .. } = *begin;
    let StepBegin { input_hash, call_id, name, reserved_micros, .. } = *begin;
    tx.execute(
        sql,
        params![
            run,
            step,
            kind,
            effect_key,
            effect_class,
            input_hash,
            call_id,
            name,
            epoch,
            reserved_micros,
            now
        ],
    )?;
    Ok(())
}

/// A step that is over: T2 of an effect, or something that was only noted.
#[derive(Debug, Clone, Copy)]
pub struct StepCommit<'a> {
    /// The run.
    pub run: RunId,
    /// Its number.
    pub step: u64,
    /// Its kind.
    pub kind: &'a str,
    /// The epoch of the attempt that commits it.
    pub epoch: u64,
    /// Its place in the order of feeding.
    pub fed: u64,
    /// True if it was begun, so that its row is there.
    pub begun: bool,
    /// The tool call.
    pub call_id: Option<&'a str>,
    /// The tool.
    pub name: Option<&'a str>,
    /// The message it brought.
    pub message_id: Option<MessageId>,
    /// What was fed, without the message.
    pub body: &'a Body,
    /// True if the session gets everything up to here in the same transaction, which is fed next.
    pub saved: bool,
}

/// Writes down what came of a step.
pub fn commit_step(tx: &mut Tx<'_>, commit: &StepCommit<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    let StepCommit { run, step, kind, epoch, fed, begun, .. } = *commit;
    let StepCommit { call_id, name, message_id, body, saved, .. } = *commit;
    let (body, blob) = body.columns(tx)?;
    if begun {
        let sql = "UPDATE run_step SET state = 'committed', epoch = ?3, fed = ?4, message_id = ?5, body = ?6, blob = ?7, \
                   reserved_micros = 0, ended = ?8, saved = ?9 WHERE run_id = ?1 AND step = ?2";
        let values = params![run, step, epoch, fed, message_id, body, blob, now, saved];
        if tx.execute(sql, values)? == 1 {
            return Ok(());
        }
    }
    let sql = "INSERT INTO run_step (run_id, step, kind, state, epoch, fed, call_id, name, message_id, body, blob, \
               started, ended, saved) VALUES (?1, ?2, ?3, 'committed', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12) \
               ON CONFLICT (run_id, step) DO UPDATE SET state = 'committed', epoch = excluded.epoch, fed = excluded.fed, \
               message_id = excluded.message_id, body = excluded.body, blob = excluded.blob, \
               reserved_micros = 0, ended = excluded.ended, saved = excluded.saved";
    tx.execute(
        sql,
        params![run, step, kind, epoch, fed, call_id, name, message_id, body, blob, now, saved],
    )?;
    Ok(())
}

/// Something that happened in a run, as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its body, without the message.
    pub body: &'a Body,
    /// The message it tells about.
    pub message_id: Option<MessageId>,
}

/// Who writes events, and where.
#[derive(Debug, Clone, Copy)]
pub struct EventPlace {
    /// The run.
    pub run: RunId,
    /// Its epoch.
    pub epoch: u64,
    /// Its attempt.
    pub attempt: u64,
    /// The number of the first event.
    pub seq: u64,
}

/// Events that one statement stores at most.
const EVENTS_AT_ONCE: usize = 8;

/// The statements that append one event, two events, and so on.
static APPEND_EVENTS: LazyLock<[String; EVENTS_AT_ONCE]> = LazyLock::new(|| {
    std::array::from_fn(|more| {
        let row = |place: usize| {
            let [seq, kind, message, body, blob] =
                std::array::from_fn(|column| 5 + 5 * place + column);
            format!("(?1, ?{seq}, ?2, ?3, ?{kind}, ?4, ?{message}, ?{body}, ?{blob})")
        };
        let rows: Vec<String> = (0..=more).map(row).collect();
        format!(
            "INSERT INTO run_event (run_id, seq, epoch, attempt_no, kind, at, message_id, body, blob) VALUES {}",
            rows.join(", ")
        )
    })
});

/// Appends events, numbered from that of the place on.
pub fn append_events(
    tx: &mut Tx<'_>,
    place: EventPlace,
    events: &[NewEvent<'_>],
) -> Result<(), StoreError> {
    let now = tx.now();
    let EventPlace { run, epoch, attempt, seq } = place;
    let mut seq = seq;
    for events in events.chunks(EVENTS_AT_ONCE) {
        let mut values = Vec::with_capacity(4 + 5 * events.len());
        values.extend([run.to_value(), number(epoch), number(attempt)]);
        values.push(now.to_value());
        for event in events {
            let (body, blob) = event.body.columns(tx)?;
            let [body, blob] = [body, blob].map(|text| text.map_or(Value::Null, str::to_value));
            values.extend([number(seq), event.kind.to_value()]);
            values.extend([event.message_id.to_value(), body, blob]);
            seq += 1;
        }
        tx.execute(&APPEND_EVENTS[events.len() - 1], &values)?;
    }
    Ok(())
}

/// An input enters the run that reads it.
pub fn claim_input(
    tx: &mut Tx<'_>,
    input: InputId,
    run: RunId,
    epoch: u64,
) -> Result<(), StoreError> {
    let sql = "UPDATE input SET state = 'claimed', run_id = ?2, claimed_epoch = ?3, updated = ?4 \
               WHERE id = ?1 AND state = 'pending'";
    let now = tx.now();
    tx.execute_fenced(sql, params![input, run, epoch, now]).map(drop)
}

/// The model has answered what the run has read.
pub fn consume_inputs(tx: &mut Tx<'_>, run: RunId) -> Result<(), StoreError> {
    let sql =
        "UPDATE input SET state = 'consumed', updated = ?2 WHERE run_id = ?1 AND state = 'claimed'";
    let now = tx.now();
    tx.execute_fenced(sql, params![run, now]).map(drop)
}

/// The epoch that counts for a run; nothing if the run is not held by any worker.
pub fn current_epoch(tx: &mut Tx<'_>, run: RunId) -> Result<Option<u64>, StoreError> {
    tx.optional("SELECT epoch FROM run WHERE id = ?1", params![run])
}

/// The next place in a run's order of feeding.
pub fn next_fed(tx: &mut Tx<'_>, run: RunId) -> Result<u64, StoreError> {
    tx.one("SELECT COALESCE(MAX(fed + saved), 0) + 1 FROM run_step WHERE run_id = ?1", params![run])
}

/// Steps without an outcome get none any more: their run has ended. None of them is before `open_from`.
pub fn fail_open_steps(tx: &mut Tx<'_>, run: RunId, open_from: u64) -> Result<(), StoreError> {
    let sql = "UPDATE run_step SET state = 'failed', ended = ?3 \
               WHERE run_id = ?1 AND step >= ?2 AND state IN ('planned', 'started', 'unknown')";
    let now = tx.now();
    tx.execute(sql, params![run, open_from, now]).map(drop)
}

/// Nobody knows what came of the steps that a lost worker had started.
pub fn lose_open_steps(tx: &mut Tx<'_>, run: RunId) -> Result<(), StoreError> {
    let sql = "UPDATE run_step SET state = 'unknown' WHERE run_id = ?1 AND state = 'started' \
               AND step >= (SELECT open_from FROM run WHERE id = ?1)";
    tx.execute(sql, params![run]).map(drop)
}

/// A call that asked a person before it did anything is not begun any more: it is begun again after the answer.
pub fn replan_step(tx: &mut Tx<'_>, run: RunId, call_id: &str) -> Result<(), StoreError> {
    let sql = "UPDATE run_step SET state = 'planned' \
               WHERE run_id = ?1 AND call_id = ?2 AND state = 'started' \
               AND step >= (SELECT open_from FROM run WHERE id = ?1)";
    tx.execute(sql, params![run, call_id]).map(drop)
}

/// The step of a call that has no outcome yet.
pub fn open_step_of(tx: &mut Tx<'_>, run: RunId, call_id: &str) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT step FROM run_step WHERE run_id = ?1 AND call_id = ?2 \
               AND step >= (SELECT open_from FROM run WHERE id = ?1) AND state IN ('planned', 'started', 'unknown') ORDER BY step LIMIT 1";
    tx.optional(sql, params![run, call_id])
}

/// The money set aside for steps that have no outcome. None of them is before `open_from`.
pub fn reserved_of_open_steps(
    tx: &mut Tx<'_>,
    run: RunId,
    open_from: u64,
) -> Result<i64, StoreError> {
    let sql = "SELECT COALESCE(SUM(reserved_micros), 0) FROM run_step \
               WHERE run_id = ?1 AND step >= ?2 AND state IN ('planned', 'started', 'unknown')";
    tx.one(sql, params![run, open_from])
}

/// True if a step of a run is committed.
pub fn is_committed(tx: &mut Tx<'_>, run: RunId, step: u64) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM run_step WHERE run_id = ?1 AND step = ?2 AND state = 'committed'",
        params![run, step],
    )
}

/// Ends the newest `count` entries of a session that are there, with a revision.
pub fn pop_entries(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    revision: u64,
    count: u64,
) -> Result<(), StoreError> {
    let sql = "UPDATE session_entry SET gone = ?3 WHERE namespace = ?1 AND session_id = ?2 AND entry IN (\
               SELECT entry FROM session_entry WHERE namespace = ?1 AND session_id = ?2 AND gone IS NULL \
               ORDER BY entry DESC LIMIT ?4)";
    tx.execute(sql, params![session.namespace, session.id, revision, count]).map(drop)
}
