//! Writes of a worker that executes a run. Each write begins with [`update_progress`], which changes nothing if
//! another attempt has claimed the run.

use std::sync::LazyLock;

use provost_core::lifecycle::{InputTransition, StepKind, StepState, StepTransition};
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{InputId, MessageId, RunId};

use super::input;
use super::session::SessionRef;
use crate::transaction::change::Change;
use crate::transaction::text::StoredText;
use crate::transaction::value::number;
use crate::{StoreError, ToColumn, Tx, Value, params};

/// Changes to the row of a run by one write of its worker.
#[derive(Debug, Clone, Copy)]
pub struct RunProgress {
    /// The run.
    pub run: RunId,
    /// The epoch of the writing attempt.
    pub epoch: u64,
    /// Number of events that the write appends.
    pub events: u64,
    /// The next free step number after the write.
    pub next_step: u64,
    /// After the write, every step before this one has an outcome.
    pub open_from: u64,
    /// True if the write commits a step, which resets the crash counter.
    pub progress: bool,
    /// True while only tools without side effects may run.
    pub restricted: bool,
    /// Cost to add, in millionths of the currency.
    pub cost_micros: i64,
    /// The session revision that the run is based on, if the run starts now.
    pub base_revision: Option<u64>,
}

/// Locks the row of the run, reserves the event numbers of a write and updates the row. Returns the number of the
/// first event. `None`, without a change, if another attempt has claimed the run.
pub fn update_progress(tx: &mut Tx<'_>, advance: &RunProgress) -> Result<Option<u64>, StoreError> {
    let RunProgress { run, epoch, events, next_step, open_from, .. } = *advance;
    let RunProgress { progress, restricted, cost_micros, base_revision, .. } = *advance;
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
    tx.fetch_optional_fenced(sql, values)
}

/// The start of a step, written before its effect.
#[derive(Debug, Clone, Copy)]
pub struct BeginStep<'a> {
    /// The run.
    pub run: RunId,
    /// Number of the step.
    pub step: u64,
    /// Kind of the step.
    pub kind: StepKind,
    /// The epoch of the attempt that starts it.
    pub epoch: u64,
    /// Idempotency key of the effect, the same for every repetition.
    pub effect_key: Option<&'a EffectKey>,
    /// Effect class, which decides whether the effect may be repeated.
    pub effect_class: Option<EffectClass>,
    /// Hash of the input of the effect.
    pub input_hash: Option<&'a str>,
    /// Id of the tool call.
    pub call_id: Option<&'a str>,
    /// Name of the tool or model.
    pub name: Option<&'a str>,
    /// Amount reserved in the budgets, in millionths.
    pub reserved_micros: i64,
    /// True if the step may have been started before.
    pub again: bool,
}

/// The SQL of a transition of steps.
fn change(transition: StepTransition) -> Change {
    Change::new(transition.target(), &StepState::sources(transition))
}

/// Records that an effect is about to start. If the step was started before, counts another try.
pub fn begin_step(tx: &mut Tx<'_>, begin: &BeginStep<'_>) -> Result<(), StoreError> {
    static FIRST: LazyLock<String> = LazyLock::new(|| {
        let state = StepTransition::Begun.target();
        format!(
            "INSERT INTO run_step (run_id, step, kind, state, effect_key, effect_class, input_hash, \
             call_id, name, epoch, reserved_micros, started) \
             VALUES (?1, ?2, ?3, '{state}', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        )
    });
    static AGAIN: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(StepTransition::Begun);
        format!(
            "{} ON CONFLICT (run_id, step) DO UPDATE SET {set}, epoch = excluded.epoch, \
             tries = run_step.tries + 1, reserved_micros = excluded.reserved_micros, started = excluded.started \
             WHERE run_step.{from}",
            *FIRST
        )
    });
    let sql: &str = if begin.again { &AGAIN } else { &FIRST };
    let now = tx.now();
    let BeginStep { run, step, kind, epoch, effect_key, effect_class, .. } = *begin;
    let BeginStep { input_hash, call_id, name, reserved_micros, .. } = *begin;
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
    )
    .and_then(|changed| require_change(changed, run, step))
}

/// Returns an error if a step did not change, because it has an outcome already.
fn require_change(changed: u64, run: RunId, step: u64) -> Result<(), StoreError> {
    match changed {
        0 => Err(StoreError::bug(format!("step {step} of {run} has an outcome already"))),
        _ => Ok(()),
    }
}

/// The outcome of a step: the result of an effect, or a fact that has no effect.
#[derive(Debug, Clone, Copy)]
pub struct CommitStep<'a> {
    /// The run.
    pub run: RunId,
    /// Number of the step.
    pub step: u64,
    /// Kind of the step.
    pub kind: StepKind,
    /// The epoch of the attempt that commits it.
    pub epoch: u64,
    /// Number of its journal entry.
    pub entry_no: u64,
    /// True if the step was started, so that its row exists.
    pub begun: bool,
    /// Id of the tool call.
    pub call_id: Option<&'a str>,
    /// Name of the tool.
    pub name: Option<&'a str>,
    /// The message that the step produced.
    pub message_id: Option<MessageId>,
    /// The journal entry without the message.
    pub body: &'a StoredText,
    /// True if the same transaction commits the session up to this step. That commit is the next journal entry.
    pub saved: bool,
}

/// Records the outcome of a step.
pub fn commit_step(tx: &mut Tx<'_>, commit: &CommitStep<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    let CommitStep { run, step, kind, epoch, entry_no, begun, .. } = *commit;
    let CommitStep { call_id, name, message_id, body, saved, .. } = *commit;
    let (body, blob) = body.columns(tx)?;
    if begun {
        static BEGUN: LazyLock<String> = LazyLock::new(|| {
            let Change { set, from } = change(StepTransition::Committed);
            format!(
                "UPDATE run_step SET {set}, epoch = ?3, fed = ?4, message_id = ?5, body = ?6, blob = ?7, \
                 reserved_micros = 0, ended = ?8, saved = ?9 WHERE run_id = ?1 AND step = ?2 AND {from}"
            )
        });
        let values = params![run, step, epoch, entry_no, message_id, body, blob, now, saved];
        if tx.execute(&BEGUN, values)? == 1 {
            return Ok(());
        }
    }
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let state = StepTransition::Committed.target();
        let Change { set, from } = change(StepTransition::Committed);
        format!(
            "INSERT INTO run_step (run_id, step, kind, state, epoch, fed, call_id, name, message_id, body, blob, \
             started, ended, saved) VALUES (?1, ?2, ?3, '{state}', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12) \
             ON CONFLICT (run_id, step) DO UPDATE SET {set}, epoch = excluded.epoch, fed = excluded.fed, \
             message_id = excluded.message_id, body = excluded.body, blob = excluded.blob, \
             reserved_micros = 0, ended = excluded.ended, saved = excluded.saved WHERE run_step.{from}"
        )
    });
    let values = params![
        run, step, kind, epoch, entry_no, call_id, name, message_id, body, blob, now, saved
    ];
    tx.execute(&SQL, values).and_then(|changed| require_change(changed, run, step))
}

/// An event to append.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    /// Kind of the event.
    pub kind: &'a str,
    /// Body of the event, without the message.
    pub body: &'a StoredText,
    /// The message of the event.
    pub message_id: Option<MessageId>,
}

/// Common columns of the events of one write.
#[derive(Debug, Clone, Copy)]
pub struct EventHeader {
    /// The run.
    pub run: RunId,
    /// The epoch of the attempt.
    pub epoch: u64,
    /// Number of the attempt.
    pub attempt: u64,
    /// Sequence number of the first event.
    pub seq: u64,
}

/// Maximum number of events in one statement.
const EVENTS_AT_ONCE: usize = 8;

/// Statements that append one event, two events, and so on.
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

/// Appends events to the log, numbered from `seq` of the header.
pub fn append_events(
    tx: &mut Tx<'_>,
    header: EventHeader,
    events: &[NewEvent<'_>],
) -> Result<(), StoreError> {
    let now = tx.now();
    let EventHeader { run, epoch, attempt, seq } = header;
    let mut seq = seq;
    for events in events.chunks(EVENTS_AT_ONCE) {
        let mut values = Vec::with_capacity(4 + 5 * events.len());
        values.extend([run.to_value(), number(epoch), number(attempt)]);
        values.push(now.to_value());
        for event in events {
            tx.count_event(event.kind);
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

/// Claims an input for the run that reads it.
pub fn claim_input(
    tx: &mut Tx<'_>,
    input: InputId,
    run: RunId,
    epoch: u64,
) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = input::change(InputTransition::Claimed);
        format!(
            "UPDATE input SET {set}, run_id = ?2, claimed_epoch = ?3, updated = ?4 WHERE id = ?1 AND {from}"
        )
    });
    let now = tx.now();
    tx.execute_fenced(&SQL, params![input, run, epoch, now]).map(drop)
}

/// Marks the claimed inputs of a run as consumed, after the model has answered them.
pub fn consume_inputs(tx: &mut Tx<'_>, run: RunId) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = input::change(InputTransition::Consumed);
        format!("UPDATE input SET {set}, updated = ?2 WHERE run_id = ?1 AND {from}")
    });
    let now = tx.now();
    tx.execute_fenced(&SQL, params![run, now]).map(drop)
}

/// Returns the current epoch of a run; `None` if the run does not exist.
pub fn current_epoch(tx: &mut Tx<'_>, run: RunId) -> Result<Option<u64>, StoreError> {
    tx.fetch_optional("SELECT epoch FROM run WHERE id = ?1", params![run])
}

/// Returns the number of the next journal entry of a run.
pub fn next_entry_no(tx: &mut Tx<'_>, run: RunId) -> Result<u64, StoreError> {
    tx.fetch_one(
        "SELECT COALESCE(MAX(fed + saved), 0) + 1 FROM run_step WHERE run_id = ?1",
        params![run],
    )
}

/// Marks all steps without an outcome as failed, because their run has ended. None of them is before `open_from`.
pub fn fail_open_steps(tx: &mut Tx<'_>, run: RunId, open_from: u64) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(StepTransition::Abandoned);
        format!("UPDATE run_step SET {set}, ended = ?3 WHERE run_id = ?1 AND step >= ?2 AND {from}")
    });
    let now = tx.now();
    tx.execute(&SQL, params![run, open_from, now]).map(drop)
}

/// Marks the started steps of a lost worker as unknown, because their outcome is not known.
pub fn mark_open_steps_unknown(tx: &mut Tx<'_>, run: RunId) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(StepTransition::WorkerLost);
        format!(
            "UPDATE run_step SET {set} WHERE run_id = ?1 AND {from} \
             AND step >= (SELECT open_from FROM run WHERE id = ?1)"
        )
    });
    tx.execute(&SQL, params![run]).map(drop)
}

/// Resets a started call that requested an approval before it had any effect. The call starts again after the
/// decision.
pub fn reset_step(tx: &mut Tx<'_>, run: RunId, call_id: &str) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(StepTransition::Reset);
        format!(
            "UPDATE run_step SET {set} WHERE run_id = ?1 AND call_id = ?2 AND {from} \
             AND step >= (SELECT open_from FROM run WHERE id = ?1)"
        )
    });
    tx.execute(&SQL, params![run, call_id]).map(drop)
}

/// Returns the first step of a call that has no outcome. `None` if there is none.
pub fn open_step_of(tx: &mut Tx<'_>, run: RunId, call_id: &str) -> Result<Option<u64>, StoreError> {
    let sql = "SELECT step FROM run_step WHERE run_id = ?1 AND call_id = ?2 \
               AND step >= (SELECT open_from FROM run WHERE id = ?1) AND state IN ('planned', 'started', 'unknown') ORDER BY step LIMIT 1";
    tx.fetch_optional(sql, params![run, call_id])
}

/// Returns the sum of the amounts reserved for steps without an outcome. None of them is before `open_from`.
pub fn reserved_of_open_steps(
    tx: &mut Tx<'_>,
    run: RunId,
    open_from: u64,
) -> Result<i64, StoreError> {
    let sql = "SELECT COALESCE(SUM(reserved_micros), 0) FROM run_step \
               WHERE run_id = ?1 AND step >= ?2 AND state IN ('planned', 'started', 'unknown')";
    tx.fetch_one(sql, params![run, open_from])
}

/// Returns true if a step of a run is committed.
pub fn is_committed(tx: &mut Tx<'_>, run: RunId, step: u64) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM run_step WHERE run_id = ?1 AND step = ?2 AND state = 'committed'",
        params![run, step],
    )
}

/// Removes the last `count` messages of a session at a revision.
pub fn remove_last_messages(
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
