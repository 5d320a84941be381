//! Storage format of a journal entry: its body in the step row, and its message in the message table.

use std::sync::Arc;

use provost_agent::run::{JournalEntry, RunConfig, RunInput, RunStarted};
use provost_core::lifecycle::StepKind;
use provost_core::{ApprovalRequestKind, Message, Money, StopReason, Timestamp, Usage};
use provost_model::ModelResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::child::join::is_internal_wait;

/// A journal entry in its storage format.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncodedEntry<'a> {
    pub(crate) kind: StepKind,
    pub(crate) body: String,
    pub(crate) message: Option<&'a Message>,
}

/// A model response without its message.
#[derive(Serialize, Deserialize)]
struct ModelCallEntry {
    usage: Usage,
    usage_known: bool,
    stop: StopReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_id: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<Money>,
    at: Timestamp,
}

/// The start of a run without its message.
#[derive(Serialize, Deserialize)]
struct RunStartedEntry {
    agent: Arc<str>,
    config: RunConfig,
    mirrors_session: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    state: Map<String, Value>,
    /// Input of the run; `None` if it is the message that is stored with the step.
    #[serde(default, rename = "with", skip_serializing_if = "Option::is_none")]
    non_message_input: Option<RunInput>,
    at: Timestamp,
}

/// A body that does not match the kind of its step.
#[derive(Debug, thiserror::Error)]
#[error("a {kind} step cannot be read: {problem}")]
pub(crate) struct EntryDecodeError {
    kind: StepKind,
    problem: String,
}

/// Encodes the start of a run. Its message is stored separately.
pub(crate) fn encode_run_started(
    run_started: &RunStarted,
) -> Result<EncodedEntry<'_>, serde_json::Error> {
    // Changes of shared state are stored in rows of their own.
    let RunStarted {
        agent,
        config,
        context_matches_session: mirrors_session,
        state,
        input,
        at,
        shared: _,
    } = run_started;
    let (message, non_message_input) = match input {
        RunInput::Message { message } => (Some(&**message), None),
        other => (None, Some(other.clone())),
    };
    let started = RunStartedEntry {
        agent: Arc::clone(agent),
        config: config.clone(),
        mirrors_session: *mirrors_session,
        state: state.clone(),
        non_message_input,
        at: *at,
    };
    Ok(EncodedEntry { kind: StepKind::Checkpoint, body: serde_json::to_string(&started)?, message })
}

/// Decodes the start of a run. Fails if its message is missing.
pub(crate) fn decode_run_started(
    body: &str,
    message: Option<Arc<Message>>,
) -> Result<RunStarted, EntryDecodeError> {
    let unreadable = |problem: String| EntryDecodeError { kind: StepKind::Checkpoint, problem };
    let started: RunStartedEntry =
        serde_json::from_str(body).map_err(|error| unreadable(error.to_string()))?;
    let input = match (started.non_message_input, message) {
        (Some(input), _) => input,
        (None, Some(message)) => RunInput::Message { message },
        (None, None) => return Err(unreadable("its message is missing".to_owned())),
    };
    let RunStartedEntry { agent, config, mirrors_session, state, at, .. } = started;
    Ok(RunStarted {
        agent,
        config,
        context_matches_session: mirrors_session,
        state,
        shared: Vec::new(),
        input,
        at,
    })
}

/// Encodes an entry. Its message is stored separately.
pub(crate) fn encode_entry(entry: &JournalEntry) -> Result<EncodedEntry<'_>, serde_json::Error> {
    let kind = step_kind(entry);
    let (body, message) = match entry {
        JournalEntry::ModelResponded { response, cost, at } => {
            let ModelResponse { message, usage, usage_known, stop, response_id, metadata } =
                &**response;
            let call = ModelCallEntry {
                usage: *usage,
                usage_known: *usage_known,
                stop: *stop,
                response_id: response_id.clone(),
                metadata: metadata.clone(),
                cost: *cost,
                at: *at,
            };
            (serde_json::to_string(&call)?, Some(message))
        }
        JournalEntry::UserMessage { message } => (String::from("{}"), Some(&**message)),
        other => (serde_json::to_string(other)?, None),
    };
    Ok(EncodedEntry { kind, body, message })
}

/// Decodes an entry of a kind of step. Fails if its message is missing.
pub(crate) fn decode_entry(
    kind: StepKind,
    body: &str,
    message: Option<Arc<Message>>,
) -> Result<JournalEntry, EntryDecodeError> {
    let unreadable = |problem: String| EntryDecodeError { kind, problem };
    let missing = || unreadable("its message is missing".to_owned());
    match kind {
        StepKind::ModelCall => {
            let call: ModelCallEntry =
                serde_json::from_str(body).map_err(|error| unreadable(error.to_string()))?;
            let message = Arc::unwrap_or_clone(message.ok_or_else(missing)?);
            let ModelCallEntry { usage, usage_known, stop, response_id, metadata, cost, at } = call;
            let response =
                ModelResponse { message, usage, usage_known, stop, response_id, metadata };
            Ok(JournalEntry::ModelResponded { response: Box::new(response), cost, at })
        }
        StepKind::DrainInput => {
            Ok(JournalEntry::UserMessage { message: message.ok_or_else(missing)? })
        }
        StepKind::AwaitChild => {
            let mut entry: JournalEntry =
                serde_json::from_str(body).map_err(|error| unreadable(error.to_string()))?;
            // Older steps store only in their kind that the run waits for other runs.
            if let JournalEntry::ApprovalNeeded { request, .. } = &mut entry {
                request.kind = ApprovalRequestKind::Runs;
            }
            Ok(entry)
        }
        _ => serde_json::from_str(body).map_err(|error| unreadable(error.to_string())),
    }
}

/// Returns the kind of step that stores a journal entry.
fn step_kind(entry: &JournalEntry) -> StepKind {
    match entry {
        JournalEntry::ModelResponded { .. } => StepKind::ModelCall,
        JournalEntry::ToolFinished { .. } => StepKind::ToolCall,
        JournalEntry::ApprovalNeeded { request, .. } if is_internal_wait(request) => {
            StepKind::AwaitChild
        }
        JournalEntry::ApprovalNeeded { .. } | JournalEntry::ApprovalDecided { .. } => {
            StepKind::Approval
        }
        JournalEntry::UserMessage { .. } => StepKind::DrainInput,
        JournalEntry::ContextCompacted { .. } => StepKind::Compact,
        JournalEntry::ContextChanged { .. }
        | JournalEntry::LimitReached { .. }
        | JournalEntry::LimitDecided { .. }
        | JournalEntry::OutputChecked { .. }
        | JournalEntry::Saved
        | JournalEntry::HandoffApplied(_)
        | JournalEntry::ChildUsage { .. }
        | JournalEntry::ChildrenUsage { .. }
        | JournalEntry::StateChanged { .. }
        | JournalEntry::Suspended { .. }
        | JournalEntry::Resumed { .. } => StepKind::Note,
        JournalEntry::Stopped { .. } => StepKind::Finish,
    }
}
