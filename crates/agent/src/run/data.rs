//! Journal entries: state changes of a run as data.
//!
//! [`Run::start`], followed by [`Run::apply`] for each entry, rebuilds an equal run. A journal stores each entry when
//! it is applied and never the run itself, so the cost of a step does not grow with the run.

use std::sync::Arc;

use provost_core::{
    AgentUsage, ApprovalDecision, ApprovalId, ApprovalRequest, LimitReached, Message, Money, RunId,
    StateChange, StopReason, Timestamp, ToolCall, ToolResult, Usage,
};
use provost_model::ModelResponse;
use provost_session::SessionChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{HandoffApplied, LimitDecision, Run, RunConfig, TransitionError};

/// The start of a run. Together with the conversation before it, this is enough to start the run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Path of the agent: the names of its ancestors and its own name.
    pub agent: Arc<str>,
    /// The configuration of the run.
    pub config: RunConfig,
    /// True if the history equals the end of the stored session, message for message.
    #[serde(rename = "mirrors_session")]
    pub context_matches_session: bool,
    /// The run's initial state.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub state: Map<String, Value>,
    /// Shared values set for the run, if a journal stores them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<StateChange>,
    /// The input.
    #[serde(rename = "with")]
    pub input: RunInput,
    /// Time of the start.
    pub at: Timestamp,
}

/// The input of a new run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "with", rename_all = "snake_case")]
pub enum RunInput {
    /// A user message.
    Message {
        /// The message.
        message: Arc<Message>,
    },
    /// The results of calls that were returned to the caller.
    #[serde(rename = "results")]
    ToolResults {
        /// One result for each pending call.
        results: Vec<ToolResult>,
    },
    /// No new input: the conversation already ends with a message for the model.
    #[serde(rename = "nothing")]
    Continue,
}

/// One state change of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "feed", rename_all = "snake_case")]
pub enum JournalEntry {
    /// A model response, after [`Run::normalize_response`].
    #[serde(rename = "model_answered")]
    ModelResponded {
        /// The response.
        response: Box<ModelResponse>,
        /// Its cost. `None` if the price is unknown.
        cost: Option<Money>,
        /// Time of the entry.
        at: Timestamp,
    },
    /// A tool call has its result.
    ToolFinished {
        /// The result.
        result: Box<ToolResult>,
        /// True if the model sent invalid arguments.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        #[serde(rename = "fault")]
        invalid_arguments: bool,
        /// Time of the entry.
        at: Timestamp,
    },
    /// A tool call needs a decision.
    ApprovalNeeded {
        /// The call after hooks changed it.
        #[serde(rename = "effective")]
        prepared_call: Box<ToolCall>,
        /// The approval request.
        request: Box<ApprovalRequest>,
    },
    /// A person decided an approval.
    ApprovalDecided {
        /// Id of the approval.
        id: ApprovalId,
        /// The decision.
        decision: ApprovalDecision,
    },
    /// A user message for an active run.
    #[serde(rename = "user_said")]
    UserMessage {
        /// The message.
        message: Arc<Message>,
    },
    /// A hook changed the context.
    ContextChanged {
        /// The new context.
        messages: Vec<ContextEdit>,
    },
    /// The context was compacted.
    #[serde(rename = "context_fitted")]
    ContextCompacted {
        /// The new context.
        messages: Vec<ContextEdit>,
        /// The change of the stored session. `None` leaves it unchanged.
        session: Option<SessionChange>,
        /// Token usage of the compaction's model calls.
        usage: Usage,
        /// Their cost. `None` if the price is unknown.
        cost: Option<Money>,
        /// Number of model calls whose usage was not reported.
        #[serde(rename = "unmetered_calls")]
        calls_without_usage: u32,
    },
    /// A limit on tokens, cost or time was reached.
    #[serde(rename = "limit_found")]
    LimitReached {
        /// Time of the entry.
        at: Timestamp,
    },
    /// The program decided how to continue at a limit.
    LimitDecided {
        /// The decision.
        decision: LimitDecision,
        /// Time of the entry.
        at: Timestamp,
    },
    /// The output was validated.
    OutputChecked {
        /// The problem. `None` if the output is valid.
        problem: Option<String>,
        /// Time of the entry.
        at: Timestamp,
    },
    /// All changes are committed to the session.
    Saved,
    /// Another agent continues the conversation.
    #[serde(rename = "handed_off")]
    HandoffApplied(Box<HandoffApplied>),
    /// A child run reported its usage.
    #[serde(rename = "child_used")]
    ChildUsage {
        /// The child run.
        child: RunId,
        /// The usage of each agent.
        used: Vec<AgentUsage>,
    },
    /// Several child runs reported their usage.
    #[serde(rename = "children_used")]
    ChildrenUsage {
        /// Each child run with the usage of its agents.
        children: Vec<(RunId, Vec<AgentUsage>)>,
    },
    /// The run's state changed.
    #[serde(rename = "noted")]
    StateChanged {
        /// The complete new state.
        state: Map<String, Value>,
        /// The changes of shared values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shared: Vec<StateChange>,
    },
    /// The run waits for decisions.
    Suspended {
        /// The run's state.
        state: Map<String, Value>,
        /// Time of the suspension.
        at: Timestamp,
    },
    /// The run was resumed.
    Resumed {
        /// Time of the entry.
        at: Timestamp,
    },
    /// The run was stopped by a cancellation or a limit.
    Stopped {
        /// The part of the response that had arrived.
        partial: Option<Box<ModelResponse>>,
        /// Its cost. `None` if the price is unknown.
        cost: Option<Money>,
        /// The reason.
        reason: StopReason,
        /// The limit of a parent run or a policy, if that stopped the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Box<LimitReached>>,
        /// Time of the entry.
        at: Timestamp,
    },
}

/// An edit of a context. Messages that stay are stored as a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextEdit {
    /// A range of messages of the old context.
    #[serde(rename = "kept")]
    Keep {
        /// Index of the first message.
        from: usize,
        /// Number of messages.
        count: usize,
    },
    /// A message that the old context does not have.
    #[serde(rename = "new")]
    Insert(Arc<Message>),
}

/// Result of applying an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum ApplyResult {
    /// The run changed; the driver needs no further value.
    Applied,
    /// The model's message as it is in the conversation.
    Response(Arc<Message>),
    /// True if the output was invalid and is returned to the model.
    OutputRejected(bool),
}

impl Run {
    /// Returns the edits that turn the run's context into `messages`.
    pub fn diff_context(&self, messages: &[Arc<Message>]) -> Vec<ContextEdit> {
        let mut pieces: Vec<ContextEdit> = Vec::new();
        let mut search_from = 0;
        for message in messages {
            let same = |old: &Arc<Message>| Arc::ptr_eq(old, message);
            let tail = self.context.get(search_from..).unwrap_or_default();
            // Kept messages are usually in order. Only a strategy that reorders them needs the second search.
            let place = tail
                .iter()
                .position(same)
                .map(|place| search_from + place)
                .or_else(|| self.context.iter().position(same));
            let Some(place) = place else {
                pieces.push(ContextEdit::Insert(Arc::clone(message)));
                continue;
            };
            search_from = place + 1;
            match pieces.last_mut() {
                Some(ContextEdit::Keep { from, count }) if *from + *count == place => *count += 1,
                _ => pieces.push(ContextEdit::Keep { from: place, count: 1 }),
            }
        }
        pieces
    }

    /// Returns the context after the edits. Returns an error if an edit keeps messages that do not exist.
    pub(super) fn apply_edits(
        &self,
        pieces: Vec<ContextEdit>,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        let mut messages = Vec::new();
        for piece in pieces {
            match piece {
                ContextEdit::Insert(message) => messages.push(message),
                ContextEdit::Keep { from, count } => {
                    let kept = self.context.get(from..from.saturating_add(count));
                    let kept = kept.ok_or(TransitionError::Phase("messages it does not have"))?;
                    messages.extend_from_slice(kept);
                }
            }
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests;
