//! The start of a run: with a new message, with results of pending calls, or from the conversation as it is.

use std::sync::Arc;

use provost_core::{ContentPart, Message, Role, RunId, Timestamp, ToolResult, Usage};
use provost_session::SessionChange;

use super::{LastResponse, LimitBaseline, Phase, RUN_VERSION, Run, RunInput, RunStarted};

/// Error of continuing a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContinueError {
    /// No result was given.
    #[error("no tool results were given: pass one for each pending call")]
    NoResults,
    /// The conversation has no pending tool calls.
    #[error("the conversation has no pending tool calls to continue from")]
    NothingPending,
    /// The conversation waits for the user, not for the model.
    #[error("the conversation has nothing for the model to answer: send a message")]
    NothingToAnswer,
    /// A result names a call that is not pending.
    #[error("`{id}` is not a pending call: the pending ones are {pending}")]
    UnknownCall {
        /// The id in the result.
        id: String,
        /// The ids of the pending calls.
        pending: String,
    },
    /// Two results name the same call.
    #[error("there are two results for call `{0}`")]
    Duplicate(String),
    /// A pending call has no result.
    #[error("there is no result for {0}: give one for every pending call")]
    Missing(String),
}

impl Run {
    /// Creates a run and applies its input to the conversation. Performs no I/O. `history` is the conversation so far:
    /// valid, oldest first, without instructions. Returns an error if the conversation and the input do not fit.
    pub fn start(
        id: RunId,
        started: RunStarted,
        history: Vec<Arc<Message>>,
    ) -> Result<Self, ContinueError> {
        let RunStarted { agent, config, context_matches_session, state, input, at, shared: _ } =
            started;
        let handoff_targets = config.handoff_targets.clone();
        let mut run = Self {
            version: RUN_VERSION,
            id,
            agent,
            started_at: at,
            config,
            context: history,
            new_messages: Vec::new(),
            unsaved: SessionChange::default(),
            context_matches_session,
            suspended_at: None,
            usage_unknown: false,
            phase: Phase::Model { without_tools: false },
            queued_messages: Vec::new(),
            usage: Usage::default(),
            cost: None,
            unpriced_calls: 0,
            turns: 0,
            tool_rounds: 0,
            tool_calls: 0,
            baseline: LimitBaseline { at, ..LimitBaseline::default() },
            argument_faults: Default::default(),
            output_faults: 0,
            state,
            last_response: LastResponse::default(),
            call_ids: Default::default(),
            final_answer_limit: None,
            child_usage: Default::default(),
            handoffs: Vec::new(),
            handoff_targets,
        };
        match input {
            RunInput::Message { message } => {
                run.resolve_pending_results();
                run.push(message);
            }
            RunInput::ToolResults { results } => run.add_results(results, at)?,
            RunInput::Continue => run.check_awaits_model()?,
        }
        Ok(run)
    }

    /// Returns an error if the last message does not need a response of the model.
    fn check_awaits_model(&self) -> Result<(), ContinueError> {
        let waits = self.context.last().is_some_and(|last| match last.role {
            Role::User | Role::Summary => true,
            Role::Tool => !last.tool_results().any(|result| result.pending),
            Role::Assistant | Role::System => false,
        });
        if waits { Ok(()) } else { Err(ContinueError::NothingToAnswer) }
    }

    /// Adds the results of pending calls to the conversation. Returns an error unless there is exactly one for each
    /// pending call.
    fn add_results(
        &mut self,
        results: Vec<ToolResult>,
        now: Timestamp,
    ) -> Result<(), ContinueError> {
        let (calls, placeholder) = self.pending_calls()?;
        let mut results = match_results(&calls, results)?;
        if placeholder && let Some(last) = self.context.pop() {
            self.unsaved.pop = 1;
            // Results that exist already keep their order.
            let mut given = results.into_iter();
            let take = |known: &ToolResult| match known.pending {
                true => given.next(),
                false => Some(known.clone()),
            };
            results = last.tool_results().filter_map(take).collect();
        }
        self.push(Arc::new(Message::results(results).at(now)));
        Ok(())
    }

    /// Returns true if this version of the program can execute the stored run.
    pub fn is_current_version(&self) -> bool {
        self.version == RUN_VERSION
    }

    /// Returns the ids of the pending calls. The flag is true if the last message holds placeholder results. Returns an
    /// error if no call is pending.
    fn pending_calls(&self) -> Result<(Vec<String>, bool), ContinueError> {
        let last = self.context.last().ok_or(ContinueError::NothingPending)?;
        let ids: Vec<String> = match last.role {
            Role::Tool => {
                last.tool_results().filter(|r| r.pending).map(|r| r.call_id.clone()).collect()
            }
            Role::Assistant => last.tool_calls().map(|call| call.id.clone()).collect(),
            _ => Vec::new(),
        };
        if ids.is_empty() {
            return Err(ContinueError::NothingPending);
        }
        Ok((ids, last.role == Role::Tool))
    }

    /// Replaces the placeholder results of pending calls by an error, because a new message arrived instead of their
    /// results. Does nothing if no call is pending.
    fn resolve_pending_results(&mut self) {
        let Some(last) = self.context.last() else {
            return;
        };
        if last.role != Role::Tool || !last.tool_results().any(|result| result.pending) {
            return;
        }
        let mut closed = Message::clone(last);
        for part in &mut closed.parts {
            if let ContentPart::ToolResult(result) = part
                && result.pending
            {
                result.pending = false;
                result.is_error = true;
                result.parts = vec![provost_core::ToolResultPart::Text {
                    text: "This call was not run.".to_owned(),
                }];
            }
        }
        let closed = Arc::new(closed);
        self.context.pop();
        self.context.push(Arc::clone(&closed));
        self.unsaved = SessionChange { pop: 1, add: vec![closed] };
    }
}

/// Sorts the results in the order of the calls. Returns an error unless each call has exactly one result.
fn match_results(
    calls: &[String],
    results: Vec<ToolResult>,
) -> Result<Vec<ToolResult>, ContinueError> {
    if results.is_empty() {
        return Err(ContinueError::NoResults);
    }
    let mut slots: Vec<Option<ToolResult>> = vec![None; calls.len()];
    for mut result in results {
        let place = calls.iter().position(|id| *id == result.call_id).ok_or_else(|| {
            ContinueError::UnknownCall { id: result.call_id.clone(), pending: quote_ids(calls) }
        })?;
        if slots[place].is_some() {
            return Err(ContinueError::Duplicate(result.call_id));
        }
        result.pending = false;
        slots[place] = Some(result);
    }
    let missing: Vec<String> = calls
        .iter()
        .zip(&slots)
        .filter(|(_, slot)| slot.is_none())
        .map(|(id, _)| id.clone())
        .collect();
    if !missing.is_empty() {
        return Err(ContinueError::Missing(quote_ids(&missing)));
    }
    Ok(slots.into_iter().flatten().collect())
}

/// Returns the ids in backticks, separated by commas.
fn quote_ids(ids: &[String]) -> String {
    let quoted: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
    quoted.join(", ")
}
