//! Stored form of messages. The tool results of a turn are already stored in its steps, so the message that collects
//! them refers to those steps.

use std::collections::HashMap;
use std::sync::Arc;

use crate::table::work::{message, run_step};
use crate::{StoredText, Tx, load_text};
use provost_core::{ContentPart, Message, MessageId, Role, RunId, Timestamp, ToolResult};
use serde::{Deserialize, Serialize};

use crate::query::QueryError;

/// Start of the stored form of a message that refers to results. No other message starts with it.
const NAMED: &str = "{\"results_of\":";

/// A message that refers to the steps with its results.
#[derive(Serialize, Deserialize)]
struct Named {
    results_of: RunId,
    created_at: Timestamp,
    results: Vec<Place>,
}

/// The step with a result.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Place {
    Step { step: u64 },
    Inline(Box<ToolResult>),
}

/// The part of a journal entry that holds the result of a call, if the entry has one.
#[derive(Deserialize)]
struct FinishedCall {
    result: Option<ToolResult>,
}

/// Parses the result in the body of a step; `None` if the call has not finished.
pub(crate) fn result_in(body: &str) -> Result<Option<ToolResult>, QueryError> {
    Ok(serde_json::from_str::<FinishedCall>(body)?.result)
}

/// Serializes a message. A message that consists of tool results refers to the steps with these results.
pub fn with_named_results(
    message: &Message,
    run: RunId,
    steps: &HashMap<String, u64>,
) -> Result<String, QueryError> {
    let only_results = message.parts.iter().all(|part| matches!(part, ContentPart::ToolResult(_)));
    if message.role != Role::Tool || !only_results {
        return Ok(serde_json::to_string(message)?);
    }
    let place = |result: &ToolResult| match steps.get(&result.call_id) {
        Some(step) => Place::Step { step: *step },
        None => Place::Inline(Box::new(result.clone())),
    };
    let results = message.tool_results().map(place).collect();
    let named = Named { results_of: run, created_at: message.created_at, results };
    Ok(serde_json::to_string(&named)?)
}

/// Stores a message.
pub fn put(tx: &mut Tx<'_>, namespace: &str, id: MessageId, text: &str) -> Result<(), QueryError> {
    message::put(tx, namespace, id, &StoredText::new(text)?)?;
    Ok(())
}

/// Loads the message with this id. Fails if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: MessageId) -> Result<Arc<Message>, QueryError> {
    let text = message::text(tx, id)?
        .ok_or_else(|| QueryError::Unreadable(format!("message {id} is missing")))?;
    read(tx, &text)
}

/// Returns true if a stored message refers to results in steps.
pub fn names_results(text: &str) -> bool {
    text.starts_with(NAMED)
}

/// Parses a stored message and loads the results that it refers to.
pub fn read(tx: &mut Tx<'_>, text: &str) -> Result<Arc<Message>, QueryError> {
    if !names_results(text) {
        return Ok(Arc::new(serde_json::from_str(text)?));
    }
    let named: Named = serde_json::from_str(text)?;
    let mut results = Vec::with_capacity(named.results.len());
    for place in named.results {
        results.push(match place {
            Place::Inline(result) => *result,
            Place::Step { step } => result_of(tx, named.results_of, step)?,
        });
    }
    Ok(Arc::new(Message::results(results).at(named.created_at)))
}

/// Loads the tool result of a step. Fails if the step has none.
pub fn result_of(tx: &mut Tx<'_>, run: RunId, step: u64) -> Result<ToolResult, QueryError> {
    let missing = || QueryError::Unreadable(format!("step {step} of {run} is missing"));
    let row = run_step::get(tx, run, step)?.ok_or_else(missing)?;
    let body = load_text(tx, row.body, row.blob.as_deref())?.ok_or_else(missing)?;
    result_in(&body)?
        .ok_or_else(|| QueryError::Unreadable(format!("step {step} of {run} holds no result")))
}

/// Returns the size of a message in bytes: of its stored text, or of the message with all results if the text only
/// refers to them. 0 without a text.
pub(crate) fn stored_size(
    text: Option<&str>,
    message: Option<&Message>,
) -> Result<usize, QueryError> {
    match (text, message) {
        (Some(text), Some(message)) if names_results(text) => {
            Ok(serde_json::to_vec(message)?.len())
        }
        (text, _) => Ok(text.map_or(0, str::len)),
    }
}
