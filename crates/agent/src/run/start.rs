//! How a run begins: with a new message, or with results that were owed.

use std::sync::Arc;

use provost_core::{Message, Part, Role, RunId, Timestamp, ToolResult, Usage};
use provost_session::SessionChange;

use super::{Baseline, LastAnswer, Phase, RUN_VERSION, Run, RunInput, RunStarted};

/// Why results cannot be taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContinueError {
    /// No result was given.
    #[error("no tool results were given: pass one for each pending call")]
    NoResults,
    /// The conversation waits for nothing.
    #[error("the conversation has no pending tool calls to continue from")]
    NothingPending,
    /// The conversation waits for the user, not for the model.
    #[error("the conversation has nothing for the model to answer: send a message")]
    NothingToAnswer,
    /// A result for a call that nobody made.
    #[error("`{given}` is not a pending call: the pending ones are {pending}")]
    UnknownCall {
        /// The id given.
        given: String,
        /// The ids that are pending.
        pending: String,
    },
    /// The same call twice.
    #[error("there are two results for call `{0}`")]
    Duplicate(String),
    /// A call without a result.
    #[error("there is no result for {0}: give one for every pending call")]
    Missing(String),
}

impl Run {
    /// Starts a run. `history` is the conversation so far: valid, oldest first, without instructions.
    pub fn start(
        id: RunId,
        started: RunStarted,
        history: Vec<Arc<Message>>,
    ) -> Result<Self, ContinueError> {
        let RunStarted { agent, config, mirrors_session, state, input, at, shared: _ } = started;
        let transfers = config.transfers.clone();
        let mut run = Self {
            version: RUN_VERSION,
            id,
            agent,
            started_at: at,
            config,
            context: history,
            produced: Vec::new(),
            unsaved: SessionChange::default(),
            mirrors_session,
            suspended_at: None,
            unmetered: false,
            phase: Phase::Model { without_tools: false },
            after_results: Vec::new(),
            usage: Usage::default(),
            cost: None,
            unpriced_calls: 0,
            turns: 0,
            rounds: 0,
            tool_calls: 0,
            baseline: Baseline { at, ..Baseline::default() },
            argument_faults: Default::default(),
            output_faults: 0,
            state,
            last: LastAnswer::default(),
            call_ids: Default::default(),
            last_word: None,
            below: Default::default(),
            handed_to: Vec::new(),
            transfers,
        };
        match input {
            RunInput::Message { message } => {
                run.close_pending();
                run.push(message);
            }
            RunInput::ToolResults { results } => run.take_results(results, at)?,
            RunInput::Continue => run.check_waits_for_model()?,
        }
        Ok(run)
    }

    fn check_waits_for_model(&self) -> Result<(), ContinueError> {
        let waits = self.context.last().is_some_and(|last| match last.role {
            Role::User | Role::Summary => true,
            Role::Tool => !last.tool_results().any(|result| result.pending),
            Role::Assistant | Role::System => false,
        });
        if waits { Ok(()) } else { Err(ContinueError::NothingToAnswer) }
    }

    /// Puts the results of pending calls into the conversation.
    fn take_results(
        &mut self,
        results: Vec<ToolResult>,
        now: Timestamp,
    ) -> Result<(), ContinueError> {
        let (calls, placeholder) = self.pending()?;
        let mut results = match_results(&calls, results)?;
        if placeholder && let Some(last) = self.context.pop() {
            self.unsaved.pop = 1;
            // Results that were there already stay in their places.
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

    /// True if the stored form is one this version can run.
    pub fn is_current_version(&self) -> bool {
        self.version == RUN_VERSION
    }

    /// The calls that wait for results from outside, and whether a placeholder message stands for them.
    fn pending(&self) -> Result<(Vec<String>, bool), ContinueError> {
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

    /// A new message came instead of the results that were owed: say so in their place.
    fn close_pending(&mut self) {
        let Some(last) = self.context.last() else {
            return;
        };
        if last.role != Role::Tool || !last.tool_results().any(|result| result.pending) {
            return;
        }
        let mut closed = Message::clone(last);
        for part in &mut closed.parts {
            if let Part::ToolResult(result) = part
                && result.pending
            {
                result.pending = false;
                result.is_error = true;
                result.parts = vec![provost_core::ResultPart::Text {
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

/// Puts results in call order; each call gets exactly one.
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
            ContinueError::UnknownCall { given: result.call_id.clone(), pending: quoted(calls) }
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
        return Err(ContinueError::Missing(quoted(&missing)));
    }
    Ok(slots.into_iter().flatten().collect())
}

fn quoted(ids: &[String]) -> String {
    let quoted: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
    quoted.join(", ")
}
