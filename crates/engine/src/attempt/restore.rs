//! Restores a run from its first message, the session before it, and its journal entries.

use std::sync::Arc;

use provost_agent::context;
use provost_agent::run::{JournalEntry, Run, RunInput};
use provost_core::lifecycle::{StepKind, StepState};
use provost_core::recovery::EffectClass;
use provost_core::{ContentPart, Env, Message, RunId};
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::table::work::session;
use provost_store::table::work::task::{self, TaskRow};
use provost_store::{Tx, load_text};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agent::AgentRevisionKey;
use crate::child::ChildOrigin;
use crate::error::EngineError;
use crate::input::RunHeaderFields;
use crate::journal::{JournalState, PersistedMessage, StartedStep};
use crate::journal::{entry, shared_state, snapshot, stored_transcript};
use provost_store::table::work::stored_message as message;

/// Steps that are read per query.
const PAGE: u64 = 500;
/// Longest chain of forks that is followed.
const FORKS_MAX: usize = 32;

/// State of a run from which its next attempt continues.
pub(crate) struct RestoredRun {
    /// State machine of the run; `None` if the run has not begun.
    pub(crate) machine: Option<Run>,
    /// Message that the run answers.
    pub(crate) message: Option<Message>,
    /// Revision of its session.
    pub(crate) revision: u64,
    pub(crate) journal: JournalState,
    /// Agent that executes the run.
    pub(crate) agent: AgentRevisionKey,
    pub(crate) header: RunHeader,
    /// User that the run works for, if known.
    pub(crate) user: Option<String>,
    /// Values of shared state when the run begins; empty if it has begun.
    pub(crate) shared: Map<String, Value>,
}

/// Instructions, principal and origin of a run, which come from its request and its parent.
pub(crate) struct RunHeader {
    /// Additional instructions of the request.
    pub(crate) extra: Option<Arc<str>>,
    /// Principal that submitted the task.
    pub(crate) by: Option<String>,
    /// How its parent defines it, if the run is a subagent whose definition is part of the parent's agent.
    pub(crate) child_origin: Option<ChildOrigin>,
}

/// Replays the journal of a run, and loads what its next attempt also needs: the first message, open steps and shared
/// state.
pub(crate) fn load(tx: &mut Tx<'_>, run: &RunRow, env: &Env) -> Result<RestoredRun, EngineError> {
    let mut journal = JournalState::new(env.clone());
    journal.restricted = run.restricted;
    let revision = session::get(tx, &run.namespace, &run.session_id)?.map_or(0, |row| row.revision);
    let inputs = input::first_of_run(tx, run.id)?;
    let (first, stored) = first_message(tx, &inputs)?;
    journal.first_message = stored;
    let machine = rebuild(tx, run, None, ReplayFrom::Snapshot, &mut journal)?;
    journal.next_step = run.next_step;
    journal.revision = revision;
    for row in run_step::open(tx, run.id)? {
        journal.open.push(open_step(&row, run.epoch)?);
    }
    if let Some(machine) = &machine {
        journal.turn = machine.turns();
    }
    let task = task::get(tx, run.task_id)?;
    let header_fields = inputs.first().map(RunHeaderFields::of).transpose()?.unwrap_or_default();
    let header = RunHeader::read(&header_fields, task.as_ref(), run)?;
    let user = header_fields.user();
    let agent = AgentRevisionKey {
        namespace: run.namespace.clone(),
        name: run.agent.clone(),
        revision: run.agent_revision,
    };
    let shared = match &machine {
        // A run that has begun has them in its state.
        Some(_) => Map::new(),
        None => shared_state::load(tx, &run.namespace, &run.session_id, user.as_deref())?,
    };
    Ok(RestoredRun { machine, message: first, revision, journal, agent, header, user, shared })
}

/// Part of a stored task request. A request can be large; the other fields are skipped.
#[derive(Default, Deserialize)]
struct RequestHeader {
    /// Additional instructions.
    #[serde(default, rename = "extra_system_prompt")]
    extra: Option<Arc<str>>,
    /// Principal that submitted the task.
    #[serde(default, rename = "requested_by")]
    by: Option<String>,
}

impl RunHeader {
    /// Reads the instructions, the requester and the origin of a run. Instructions of the message replace those of the
    /// task.
    fn read(
        header_fields: &RunHeaderFields,
        task: Option<&TaskRow>,
        run: &RunRow,
    ) -> Result<Self, EngineError> {
        let request_header: RequestHeader = match task {
            Some(task) => serde_json::from_str(&task.command)?,
            None => RequestHeader::default(),
        };
        let message_instructions = header_fields.extra.clone().filter(|extra| !extra.is_empty());
        // A message that continues a task has its own instructions.
        let extra = message_instructions.or(request_header.extra).filter(|extra| !extra.is_empty());
        let child_origin = run.spawn.as_deref().map(ChildOrigin::read).transpose()?.flatten();
        Ok(Self { extra, by: request_header.by, child_origin })
    }
}

/// Returns the principal that submitted the task of a run. `None` if it is unknown.
pub(crate) fn requester(tx: &mut Tx<'_>, run: &RunRow) -> Result<Option<String>, EngineError> {
    let task = task::get(tx, run.task_id)?;
    let read = |task: TaskRow| serde_json::from_str::<RequestHeader>(&task.command);
    Ok(task.map(read).transpose()?.and_then(|request_header| request_header.by))
}

/// Starting point for rebuilding a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayFrom {
    /// The first journal entry. Snapshots are ignored.
    Beginning,
    /// The newest snapshot.
    Snapshot,
}

/// Rebuilds the state machine from the journal entries up to `until`, or from all of them, and records open steps and
/// unsaved messages in `journal`. `None` if the run has no entry.
pub(crate) fn rebuild(
    tx: &mut Tx<'_>,
    run: &RunRow,
    until: Option<u64>,
    start: ReplayFrom,
    journal: &mut JournalState,
) -> Result<Option<Run>, EngineError> {
    let mut sources = sources(tx, run, until)?;
    let (mut machine, mut entry_no) = (None, 0);
    if start == ReplayFrom::Snapshot
        && let Some((place, restored, at)) = newest_snapshot(tx, run, &sources)?
    {
        sources.drain(..place);
        (machine, entry_no) = (Some(restored), at);
        journal.next_entry_no = at + 1;
        journal.snapshot_entry_no = at;
    }
    for (source, limit) in sources {
        loop {
            let page = run_step::entries_after(tx, source.id, entry_no, PAGE)?;
            for row in &page {
                entry_no = row.entry_no.unwrap_or(entry_no);
                if limit.is_some_and(|limit| entry_no > limit) {
                    break;
                }
                let message = apply(tx, &source, run.id, row, &mut machine)?;
                journal.next_entry_no = entry_no + 1;
                // The session refers to messages of another run by the ids of that run.
                if source.id == run.id {
                    track_unsaved_message(row, message, journal)?;
                }
                if row.saved && limit.is_none_or(|limit| entry_no < limit) {
                    entry_no += 1;
                    save(&source, row, &mut machine, journal)?;
                }
            }
            let cut = limit.is_some_and(|limit| entry_no > limit);
            if cut || (page.len() as u64) < PAGE {
                break;
            }
        }
        entry_no = 0;
    }
    Ok(machine)
}

/// Returns the newest snapshot of the runs whose steps make up a run: the index of its run, the state machine, and its
/// last entry number. `None` if there is none.
fn newest_snapshot(
    tx: &mut Tx<'_>,
    run: &RunRow,
    sources: &[(RunRow, Option<u64>)],
) -> Result<Option<(usize, Run, u64)>, EngineError> {
    for (place, (source, limit)) in sources.iter().enumerate().rev() {
        if let Some((machine, entry_no)) = snapshot::latest(tx, source.id, *limit, run.id)? {
            return Ok(Some((place, machine, entry_no)));
        }
    }
    Ok(None)
}

/// Returns the runs whose steps make up a run, oldest first, each with its last shared entry number.
fn sources(
    tx: &mut Tx<'_>,
    run: &RunRow,
    until: Option<u64>,
) -> Result<Vec<(RunRow, Option<u64>)>, EngineError> {
    let mut sources = vec![(run.clone(), until)];
    while let Some((Some(from), step)) =
        sources.last().map(|(run, _)| (run.forked_from, run.forked_step))
    {
        if sources.len() > FORKS_MAX {
            return Err(EngineError::Unreadable(format!("{} has too many forks", run.id)));
        }
        let origin = provost_store::table::work::run::get(tx, from)?
            .ok_or_else(|| EngineError::not_found("run", from))?;
        sources.push((origin, step));
    }
    sources.reverse();
    Ok(sources)
}

/// Applies a stored step to the state machine. The first one creates it. Returns the message of the step, if it has
/// one.
fn apply(
    tx: &mut Tx<'_>,
    source: &RunRow,
    id: RunId,
    row: &RunStepRow,
    machine: &mut Option<Run>,
) -> Result<Option<Arc<Message>>, EngineError> {
    let body = load_text(tx, row.body.clone(), row.blob.as_deref())?.unwrap_or_default();
    let message = row.message_id.map(|id| message::get(tx, id)).transpose()?;
    let stored = message.clone();
    let kind: StepKind = row.kind;
    let unreadable = |problem: String| {
        EngineError::Unreadable(format!("step {} of {}: {problem}", row.step, source.id))
    };
    match (machine.as_mut(), kind) {
        (None, StepKind::Checkpoint) => {
            let run_started = entry::decode_run_started(&body, message)?;
            let has_tool_results = matches!(run_started.input, RunInput::ToolResults { .. });
            let base = source.base_revision.unwrap_or(0);
            let stored =
                stored_transcript::load(tx, &source.namespace, &source.session_id, Some(base))?;
            let stored = stored.map(|stored| stored.messages).unwrap_or_default();
            let (history, _) = context::load_context(&stored, has_tool_results);
            let started = Run::start(id, run_started, history);
            *machine = Some(started.map_err(|error| unreadable(error.to_string()))?);
        }
        (Some(run), kind) => {
            let journal_entry = entry::decode_entry(kind, &body, message)?;
            run.apply(journal_entry).map_err(|error| unreadable(error.to_string()))?;
        }
        (None, _) => return Err(unreadable("the entry precedes the start of the run".to_owned())),
    }
    Ok(stored)
}

/// Records that the session contains all messages up to a step.
fn save(
    source: &RunRow,
    row: &RunStepRow,
    machine: &mut Option<Run>,
    journal: &mut JournalState,
) -> Result<(), EngineError> {
    if let Some(run) = machine {
        run.apply(JournalEntry::Saved).map_err(|error| {
            EngineError::Unreadable(format!("step {} of {}: {error}", row.step, source.id))
        })?;
    }
    journal.next_entry_no += 1;
    journal.recent.clear();
    journal.results.clear();
    Ok(())
}

/// Records which step or stored message contains a message that the session does not have yet.
fn track_unsaved_message(
    row: &RunStepRow,
    message: Option<Arc<Message>>,
    journal: &mut JournalState,
) -> Result<(), EngineError> {
    if row.kind == StepKind::Note
        && row.body.as_deref() == Some(crate::journal::transaction::SESSION_SAVED)
    {
        journal.recent.clear();
        journal.results.clear();
    }
    if let (Some(call_id), "tool_call") = (&row.call_id, row.kind.as_str()) {
        journal.results.insert(call_id.clone(), row.step);
    }
    if let (Some(id), Some(message)) = (row.message_id, message) {
        journal.recent.insert(serde_json::to_string(&*message)?, id);
    }
    Ok(())
}

/// Converts the row of a step in flight. It is lost if an earlier attempt started it.
fn open_step(row: &RunStepRow, epoch: u64) -> Result<StartedStep, EngineError> {
    let class: Option<EffectClass> = row.effect_class;
    let state: StepState = row.state;
    Ok(StartedStep {
        step: row.step,
        kind: row.kind,
        key: row.effect_key.clone(),
        class,
        call_id: row.call_id.clone(),
        tries: row.tries,
        lost: row.epoch != epoch && state != StepState::Planned,
        reserved_micros: row.reserved_micros,
        started_at: None,
    })
}

/// Returns the message that a run answers: one input, or several collected inputs joined into one message. `None` for
/// a run without inputs.
fn first_message(
    tx: &mut Tx<'_>,
    inputs: &[InputRow],
) -> Result<(Option<Message>, Option<PersistedMessage>), EngineError> {
    let mut messages: Vec<Arc<Message>> = Vec::with_capacity(inputs.len());
    for input in inputs {
        messages.push(message::get(tx, input.message_id)?);
    }
    Ok(match messages.as_slice() {
        [] => (None, None),
        [one] => {
            let stored = inputs
                .first()
                .map(|input| PersistedMessage { id: input.message_id, message: Arc::clone(one) });
            (Some(Message::clone(one)), stored)
        }
        [first, rest @ ..] => {
            let mut whole = Message::clone(first);
            for message in rest {
                whole.parts.push(ContentPart::text("\n\n"));
                whole.parts.extend(message.parts.iter().cloned());
            }
            (Some(whole), None)
        }
    })
}
