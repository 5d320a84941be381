//! Forks: a new run shares the first steps of another run and continues from there.
//!
//! The new run refers to the shared steps and does not copy them, so their effects are not repeated and their cost is
//! not charged again. The fork has its own task and session. The session starts with the messages that the original
//! session had at that point.

use provost_core::command::TaskRequest;
use provost_core::durable::{self, DurableEvent};
use provost_core::hash::body_hash;
use provost_core::id::name::{Namespace, RunSession, SessionName};
use provost_core::lifecycle::{InputOutcome, RequestError, StepKind, TaskState};
use provost_core::scheduling::InputMode;
use provost_core::{ContentPart, Env, RunId, TaskId};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::table::work::session::{self, SessionRow};
use provost_store::table::work::session_entry::{self, SessionMessageRow};
use provost_store::table::work::task::{self, TaskRow};
use provost_store::{Locked, Tx};
use serde::{Deserialize, Serialize};

use crate::attempt::restore::{self, ReplayFrom};
use crate::child;
use crate::error::EngineError;
use crate::input::{self, EncodedMessage, IncomingMessage};
use crate::journal::JournalState;
use crate::journal::transaction;
use crate::run::Runs;
use crate::run::event;
use crate::submit::queue;
use crate::submit::{self, ClassAssignment, IdempotencyRecord, NewRun};

/// Steps that are read per query.
const PAGE: u64 = 500;

/// Change of the conversation in a fork.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkEdit {
    /// No change: the fork continues after the step.
    #[default]
    None,
    /// Appends a user message after the step.
    #[serde(rename = "say")]
    Append(Vec<ContentPart>),
    /// Replaces the newest user message up to the step. Later steps are not shared.
    #[serde(rename = "instead")]
    ReplaceLast(Vec<ContentPart>),
}

/// Options of a fork.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ForkOptions {
    /// Change of the conversation.
    pub edit: ForkEdit,
    /// A repeated request with the same key returns the first fork.
    pub idempotency_key: Option<String>,
    /// Authenticated principal that creates the fork. It becomes the submitter of the new task.
    pub by: Option<String>,
}

impl From<ForkEdit> for ForkOptions {
    fn from(edit: ForkEdit) -> Self {
        Self { edit, ..Self::default() }
    }
}

/// A created fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkReceipt {
    /// The new task.
    pub task: TaskId,
    /// Its run.
    pub run: RunId,
    /// Its session.
    pub session: String,
    /// True if this fork existed already.
    #[serde(default, skip_serializing)]
    pub deduped: bool,
}

/// A request for a fork.
struct ForkRequest<'a> {
    run: RunId,
    /// Last shared step. `None`: the newest committed step.
    step: Option<u64>,
    edits: &'a ForkOptions,
    env: &'a Env,
}

/// Point at which a new run leaves its original run.
struct ForkPoint {
    /// Run whose steps are shared.
    origin: RunRow,
    /// Number of the last shared journal entry. `None`: no entry is shared.
    entry_no: Option<u64>,
    /// Message for the new run.
    message: Option<Vec<ContentPart>>,
}

impl Runs<'_> {
    /// Creates a run that shares the steps of another run up to a committed step. `None` means the newest committed
    /// step.
    pub async fn fork(
        self,
        namespace: &Namespace,
        run: RunId,
        step: impl Into<Option<u64>>,
        edits: ForkOptions,
    ) -> Result<ForkReceipt, EngineError> {
        let (namespace, env, step) =
            (namespace.clone(), self.engine.inner.env.clone(), step.into());
        let forked = self.engine.inner.store.write(move |tx| {
            fork(tx, &namespace, &ForkRequest { run, step, edits: &edits, env: &env })
        });
        forked.await
    }
}

/// Creates a fork inside a transaction. A repeated idempotency key returns the stored receipt.
fn fork(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    request: &ForkRequest<'_>,
) -> Result<ForkReceipt, EngineError> {
    let origin = run::find(tx, namespace.as_str(), request.run)?
        .ok_or_else(|| EngineError::not_found("run", request.run))?;
    let hash = body_hash(&(request.run, request.step, &request.edits.edit))?;
    let key = request.edits.idempotency_key.as_ref().map(|key| format!("fork:{key}"));
    let memory = IdempotencyRecord::of_input(namespace, origin.task_id, key.as_deref(), hash);
    if let Some(receipt) = memory.lookup_or_reserve::<ForkReceipt>(tx)? {
        return Ok(ForkReceipt { deduped: true, ..receipt? });
    }
    let origin_task = origin.task_id;
    let point = find_point(tx, origin, request)?;
    check_point(tx, &point, request.env)?;
    let session = copy_session(tx, &point)?;
    let mut task = new_task(tx, &point, &session, request)?.insert_locked(tx)?;
    let forked = start(tx, &mut task, &point)?;
    memory.store_response(tx, origin_task, &forked)?;
    Ok(forked)
}

/// Returns the point at which the fork leaves its original run. Fails if the step is not committed.
fn find_point(
    tx: &mut Tx<'_>,
    origin: RunRow,
    request: &ForkRequest<'_>,
) -> Result<ForkPoint, EngineError> {
    let row = match request.step {
        Some(step) => run_step::get(tx, origin.id, step)?,
        None => run_step::last_entry_no(tx, origin.id)?,
    };
    let entry_no = row.and_then(|row| row.last_entry_no()).ok_or_else(|| {
        let (problem, fix) = match request.step {
            Some(step) => (
                format!("step {step} of {} is not committed", origin.id),
                "name a committed step of this run",
            ),
            None => (
                format!("{} has no committed step", origin.id),
                "wait until it has committed a step",
            ),
        };
        RequestError::invalid("step", problem, fix)
    })?;
    match &request.edits.edit {
        ForkEdit::None => Ok(ForkPoint { origin, entry_no: Some(entry_no), message: None }),
        ForkEdit::Append(parts) => {
            check(parts)?;
            Ok(ForkPoint { origin, entry_no: Some(entry_no), message: Some(parts.clone()) })
        }
        ForkEdit::ReplaceLast(parts) => {
            check(parts)?;
            before_newest_message(tx, origin, entry_no, parts)
        }
    }
}

/// Checks that the point can be restored and has no open approval there, because only the original run can receive
/// its decision.
fn check_point(tx: &mut Tx<'_>, point: &ForkPoint, env: &Env) -> Result<(), EngineError> {
    if point.entry_no.is_none() {
        return Ok(());
    }
    let mut journal = JournalState::new(env.clone());
    let machine =
        restore::rebuild(tx, &point.origin, point.entry_no, ReplayFrom::Snapshot, &mut journal)?;
    if machine.is_some_and(|machine| !machine.pending_approvals().is_empty()) {
        let problem = "an approval is pending at this step";
        return Err(RequestError::invalid("step", problem, "name a step before or after it").into());
    }
    Ok(())
}

/// Fails if the message of a fork is invalid, like the message of a task request.
fn check(parts: &[ContentPart]) -> Result<(), EngineError> {
    let message_request = TaskRequest { message: parts.to_vec(), ..TaskRequest::default() };
    Ok(message_request.validate()?)
}

/// Returns the point before the newest user message up to an entry. The point may be in a run from which `origin`
/// itself was forked. Fails if there is no such message.
fn before_newest_message(
    tx: &mut Tx<'_>,
    mut origin: RunRow,
    mut until: u64,
    parts: &[ContentPart],
) -> Result<ForkPoint, EngineError> {
    loop {
        let newest = entries_up_to(tx, origin.id, until)?
            .into_iter()
            .rev()
            .find(|row| row.kind == StepKind::DrainInput || row.kind == StepKind::Checkpoint);
        let message = Some(parts.to_vec());
        match newest {
            Some(row) if row.kind == StepKind::Checkpoint => {
                return Ok(ForkPoint { origin, entry_no: None, message });
            }
            Some(row) => {
                let entry_no = row.entry_no.map(|entry_no| entry_no.saturating_sub(1));
                return Ok(ForkPoint { origin, entry_no, message });
            }
            None => {
                let (Some(above), Some(entry_no)) = (origin.forked_from, origin.forked_step) else {
                    return Err(EngineError::Unreadable(format!("{} has no beginning", origin.id)));
                };
                let missing = || EngineError::not_found("run", above);
                (origin, until) = (run::get(tx, above)?.ok_or_else(missing)?, entry_no);
            }
        }
    }
}

/// Returns the journal entries that a run itself has, up to an entry.
fn entries_up_to(tx: &mut Tx<'_>, id: RunId, until: u64) -> Result<Vec<RunStepRow>, EngineError> {
    let mut rows: Vec<RunStepRow> = Vec::new();
    loop {
        let after = rows.last().and_then(|row| row.entry_no).unwrap_or(0);
        let page = run_step::entries_after(tx, id, after, PAGE)?;
        let whole = (page.len() as u64) < PAGE;
        rows.extend(
            page.into_iter().filter(|row| row.entry_no.is_some_and(|entry_no| entry_no <= until)),
        );
        if whole || rows.last().and_then(|row| row.entry_no).unwrap_or(0) <= after {
            return Ok(rows);
        }
    }
}

/// Creates a session with the messages of the original session at the fork point. Message rows are shared with it.
fn copy_session(tx: &mut Tx<'_>, point: &ForkPoint) -> Result<SessionRow, EngineError> {
    let ForkPoint { origin, entry_no, .. } = point;
    let entries = shared_entries(tx, origin, *entry_no)?;
    let missing = || EngineError::not_found("session", &origin.session_id);
    let old = session::get(tx, &origin.namespace, &origin.session_id)?.ok_or_else(missing)?;
    let now = tx.now();
    let new = SessionRow {
        id: SessionName::of_run(RunSession::Fork, tx.id()).into(),
        key: None,
        revision: u64::from(!entries.is_empty()),
        next_entry: entries.len() as u64 + 1,
        fence: 0,
        holder_run_id: None,
        created: now,
        updated: now,
        continuable: false,
        ..old
    };
    new.insert(tx)?;
    for (position, entry) in (1..).zip(entries) {
        let session_id = new.id.clone();
        let entry =
            SessionMessageRow { session_id, entry: position, added: 1, gone: None, ..entry };
        entry.insert(tx)?;
    }
    Ok(new)
}

/// Returns the messages of the original session at the fork point, without those that other runs have added since the
/// run began.
fn shared_entries(
    tx: &mut Tx<'_>,
    origin: &RunRow,
    entry_no: Option<u64>,
) -> Result<Vec<SessionMessageRow>, EngineError> {
    let session = origin.session();
    let base = origin.base_revision.unwrap_or(0);
    let saved = match entry_no {
        None => 0,
        Some(entry_no) => {
            let rows = entries_up_to(tx, origin.id, entry_no)?;
            let of_its_own =
                |row: &RunStepRow| row.body.as_deref() == Some(transaction::SESSION_SAVED);
            let with_it = |row: &RunStepRow| row.saved && row.last_entry_no() <= Some(entry_no);
            rows.iter().filter(|row| of_its_own(row) || with_it(row)).count()
        }
    };
    let written = session_entry::revisions_of(tx, session, origin.id)?;
    let written: Vec<u64> = written.into_iter().filter(|revision| *revision > base).collect();
    let at = match saved {
        0 => base,
        saved => written.get(saved.min(written.len()).saturating_sub(1)).copied().unwrap_or(base),
    };
    let mut entries = session_entry::at_revision(tx, session.namespace, session.id, at)?;
    entries.retain(|entry| entry.added <= base || entry.run_id == origin.id);
    Ok(entries)
}

/// Returns the row of the fork's task, with the request of the original task.
fn new_task(
    tx: &mut Tx<'_>,
    point: &ForkPoint,
    session: &SessionRow,
    request: &ForkRequest<'_>,
) -> Result<TaskRow, EngineError> {
    let missing = || EngineError::not_found("task", point.origin.task_id);
    let old = task::get(tx, point.origin.task_id)?.ok_or_else(missing)?;
    let now = tx.now();
    let command = match &request.edits.by {
        Some(by) => {
            let command: TaskRequest = serde_json::from_str(&old.command)?;
            serde_json::to_string(&TaskRequest { requested_by: Some(by.clone()), ..command })?
        }
        None => old.command.clone(),
    };
    Ok(TaskRow {
        id: tx.id(),
        command,
        agent_revision: point.origin.agent_revision,
        session_id: session.id.clone(),
        parent_task_id: None,
        state: TaskState::accepted(/*delayed*/ false),
        spawned_by: Some(match request.step {
            Some(step) => format!("fork:{}:{step}", request.run),
            None => format!("fork:{}", request.run),
        }),
        current_run_id: Some(tx.id()),
        run_count: 0,
        next_input: 1,
        drop_reason: None,
        waiting_for: None,
        wake_at: None,
        deadline: None,
        cost_micros: 0,
        version: 1,
        created: now,
        updated: now,
        ended: None,
        archived: None,
        ..old
    })
}

/// Inserts the first input and the run of a fork.
fn start(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    point: &ForkPoint,
) -> Result<ForkReceipt, EngineError> {
    let ForkPoint { origin, entry_no, message } = point;
    let command: TaskRequest = serde_json::from_str(&task.command)?;
    let id = task.current_run_id.unwrap_or_else(|| tx.id());
    let mut inputs = Vec::new();
    if let Some(parts) = message {
        let message_request = TaskRequest {
            message: parts.clone(),
            routing: command.routing.clone(),
            requested_by: command.requested_by.clone(),
            user: command.user.clone(),
            ..Default::default()
        };
        let encoded = EncodedMessage::new(&message_request, tx.now())?;
        let message = IncomingMessage::new(&message_request, &encoded, "fork");
        let (mode, outcome) = (InputMode::Steer, InputOutcome::Steered);
        let position = input::InputAssignment { mode, outcome, run: Some(id) };
        inputs.push(input::insert(tx, task, &message, position)?);
    }
    let lane = command.lane.as_deref();
    let class = ClassAssignment {
        resource_set: origin.resource_set.clone(),
        ..ClassAssignment::of_task(tx, task, lane, &origin.execution_policy()?)?
    };
    let new = NewRun {
        id,
        class: &class,
        not_before: tx.now(),
        parent: None,
        spawn: child::spawn_options_for_continuation(origin)?,
        timeout: command.timeout(),
        queue_timeout: None,
        rank: None,
    };
    let mut row = submit::create_run(tx, task, &new, &inputs)?;
    if entry_no.is_some() {
        row.forked_from = Some(origin.id);
        row.forked_step = *entry_no;
        let session = session::get(tx, &row.namespace, &row.session_id)?;
        row.base_revision = session.map(|session| session.revision);
    }
    let forked = durable::Forked { from: origin.id, entries: *entry_no };
    event::append_event(tx, &mut row, DurableEvent::Forked(forked))?;
    row.save(tx)?;
    queue::refresh(tx, &row.namespace, &row.session_id)?;
    let session = row.session_id.clone();
    Ok(ForkReceipt { task: task.id, run: row.id, session, deduped: false })
}
